/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as each of the reports of a server: what is read is within its bounds, and printed it reads the same. */

#include <math.h>
#include <string.h>

#include "http/load_report.h"
#include "http/nucleus_report.h"
#include "target.h"

static bool is_known(double value, double most)
{
	CHECK(value == -1 || (value >= 0 && value <= most));
	return value >= 0;
}

static void check_report(const weir_load_report *report)
{
	bool cpu = is_known(report->cpu_s, WEIR_LOAD_TIME_MOST_S);
	bool db = is_known(report->db_s, WEIR_LOAD_TIME_MOST_S),
	     io = is_known(report->io_s, WEIR_LOAD_TIME_MOST_S);
	bool service = cpu || db || io;
	is_known(report->queue_s, WEIR_LOAD_TIME_MOST_S);
	is_known(report->cpu_utilization, WEIR_LOAD_SHARE_MOST);
	is_known(report->application_utilization, WEIR_LOAD_SHARE_MOST);
	is_known(report->rps, WEIR_LOAD_RATE_MOST);
	is_known(report->eps, WEIR_LOAD_RATE_MOST);
	is_known(report->told_queue_s, WEIR_LOAD_TIME_MOST_S);
	is_known(report->in_service, WEIR_LOAD_COUNT_MOST);
	is_known(report->processors, WEIR_LOAD_COUNT_MOST);
	CHECK(service == weir_load_report_has_service(report));
}

static void check_same(double a, double b)
{
	CHECK((a < 0) == (b < 0));
	CHECK(a < 0 || fabs(a - b) <= 1e-5 * fmax(a, 1e-3) + 1e-6);
}

static void check_printed(const weir_load_report *report)
{
	char text[WEIR_LOAD_REPORT_TEXT];
	weir_load_report back;
	weir_load_report_init(&back);
	weir_load_report_read_timing(&back, (weir_span){text, weir_load_report_print_timing(report, text)});
	check_same(report->cpu_s, back.cpu_s);
	check_same(report->queue_s, back.queue_s);
	weir_load_report_init(&back);
	weir_load_report_read_orca(&back, (weir_span){text, weir_load_report_print_orca(report, text)});
	check_same(report->cpu_utilization, back.cpu_utilization);
	check_same(report->told_queue_s, back.told_queue_s);
	CHECK(back.refused == 0);
}

static void check_nucleus(const char *text, size_t size)
{
	weir_nucleus_report report;
	if (weir_nucleus_report_read(text, size, &report) != 0) {
		check_sentence();
		return;
	}
	is_known(report.queue_s, WEIR_LOAD_TIME_MOST_S);
	is_known(report.busy, WEIR_LOAD_SHARE_MOST);
	is_known(report.in_service, WEIR_LOAD_COUNT_MOST);
	json_t *json = weir_nucleus_report_json(&report);
	CHECK(json != NULL);
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_load_report report;
	char *copy = malloc(size + (size == 0));
	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	weir_load_report_init(&report);
	weir_load_report_read_timing(&report, (weir_span){copy, size});
	check_report(&report);
	check_printed(&report);
	weir_load_report_read_orca(&report, (weir_span){copy, size});
	check_report(&report);
	check_printed(&report);
	check_nucleus(copy, size);
	free(copy);
	return 0;
}
