/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of servers: what is read of Server-Timing, ORCA's field and a nucleus, and what is refused. */
#include "support/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "http/load_report.h"
#include "http/nucleus_report.h"

static weir_load_report timing(const char *text)
{
	weir_load_report report;
	weir_load_report_init(&report);
	weir_load_report_read_timing(&report, (weir_span){text, strlen(text)});
	return report;
}

static weir_load_report orca(const char *text)
{
	weir_load_report report;
	weir_load_report_init(&report);
	weir_load_report_read_orca(&report, (weir_span){text, strlen(text)});
	return report;
}

static void assert_near(double a, double b)
{
	if (!(fabs(a - b) < 1e-9))
		fail_msg("%g is not %g", a, b);
}

/* ---- Server-Timing ---- */

static void reads_timings(void **state)
{
	weir_load_report report =
		timing("cpu;dur=12.5, db;desc=\"a, b; dur=9\";dur=40,queue;dur=\"1.5\" , io ; dur = 3");
	assert_near(report.cpu_s, .0125);
	assert_near(report.db_s, .04);
	assert_near(report.queue_s, .0015);
	assert_near(report.io_s, .003);
	assert_int_equal(report.refused, 0);
	assert_true(weir_load_report_has_service(&report));
	assert_false(weir_load_report_has_server(&report));
}

static void adds_up_what_comes_twice(void **state)
{
	assert_near(timing("db;dur=3, db;dur=4, DB;DUR=5").db_s, .012);
}

static void leaves_the_rest_alone(void **state)
{
	weir_load_report report = timing("cache;dur=-5, miss, app;dur=NaN, cpu, , ;;dur=4");
	assert_int_equal(report.refused, 0);
	assert_false(weir_load_report_has_service(&report));
	assert_true(report.queue_s < 0);
}

static void refuses_bad_durations(void **state)
{
	static const char *const bad[] = {"cpu;dur=-1",   "cpu;dur=NaN",
					  "cpu;dur=inf",  "cpu;dur=",
					  "cpu;dur=1e99", "cpu;dur=12500000000",
					  "cpu;dur=0x10", "cpu;dur=99999999999999999999999999999999999"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_load_report report = timing(bad[i]);
		assert_int_equal(report.refused, 1);
		assert_true(report.cpu_s < 0);
	}
	/* The sum is bounded, too. */
	assert_int_equal(timing("io;dur=3599999, io;dur=3599999").refused, 1);
}

static void does_not_read_what_is_too_long(void **state)
{
	static char text[WEIR_LOAD_REPORT_BYTES + 2];
	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, "cpu;dur=1", 9);
	assert_true(timing(text).cpu_s < 0);
	assert_int_equal(timing(text).refused, 1);
	assert_int_equal(orca(text).refused, 0); /* spaces at the end do not count */
}

/* ---- ORCA ---- */

static void reads_orca_in_all_forms(void **state)
{
	static const char *const texts[] = {
		"TEXT cpu_utilization=0.4, application_utilization=0.5, rps_fractional=120.5, eps=2, "
		"named_metrics.queue_s=0.02, named_metrics.other=5, request_cost.cpu_s=0.01",
		"cpu_utilization=0.4,application_utilization=0.5,rps_fractional=120.5,eps=2,"
		"named_metrics.queue_s=0.02,request_cost.cpu_s=0.01",
		"JSON {\"cpu_utilization\": 0.4, \"application_utilization\": 0.5, \"rps_fractional\": "
		"120.5, "
		"\"eps\": 2, \"named_metrics\": {\"queue_s\": 0.02, \"other\": \"x\"}, "
		"\"request_cost\": {\"cpu_s\": 0.01}}",
		"{\"cpu_utilization\": 0.4, \"application_utilization\": 0.5, \"rps_fractional\": 120.5, "
		"\"eps\": 2, \"named_metrics\": {\"queue_s\": 0.02}, \"request_cost\": {\"cpu_s\": 0.01}}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		weir_load_report report = orca(texts[i]);
		assert_near(report.cpu_utilization, .4);
		assert_near(report.application_utilization, .5);
		assert_near(report.rps, 120.5);
		assert_near(report.eps, 2);
		assert_near(report.told_queue_s, .02);
		assert_near(report.cpu_s, .01);
		assert_int_equal(report.refused, 0);
		assert_true(weir_load_report_has_server(&report));
	}
}

static void refuses_bad_orca(void **state)
{
	static const char *const bad[] = {"TEXT cpu_utilization=NaN",
					  "TEXT cpu_utilization=-0.1",
					  "TEXT cpu_utilization=400000",
					  "JSON {\"cpu_utilization\": \"NaN\"}",
					  "JSON {\"cpu_utilization\": -1}",
					  "JSON {\"cpu_utilization\": 1e400}",
					  "JSON [1]",
					  "JSON {",
					  "BIN AAAA"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_load_report report = orca(bad[i]);
		assert_int_equal(report.refused, 1);
		assert_true(report.cpu_utilization < 0);
	}
}

static void reads_back_what_it_prints(void **state)
{
	char text[WEIR_LOAD_REPORT_TEXT];
	weir_load_report report;
	weir_load_report_init(&report);
	assert_int_equal(weir_load_report_print_timing(&report, text), 0);
	assert_int_equal(weir_load_report_print_orca(&report, text), 0);
	report.cpu_s = .0125;
	report.queue_s = 0;
	assert_true(weir_load_report_print_timing(&report, text) > 0);
	assert_string_equal(text, "queue;dur=0.000, cpu;dur=12.500");
	report.cpu_utilization = .25;
	report.told_queue_s = .5;
	report.rps = 100;
	assert_true(weir_load_report_print_orca(&report, text) > 0);
	weir_load_report back = orca(text);
	assert_near(back.cpu_utilization, .25);
	assert_near(back.told_queue_s, .5);
	assert_near(back.rps, 100);
}

/* Every value at its bound fits into the text. */
static void prints_the_largest(void **state)
{
	char text[WEIR_LOAD_REPORT_TEXT];
	weir_load_report report = {3599.999999, 3599.99999, 3599.999, 3599.9999, 99.99999, 99.99999,
				   123456789,   123456789,  3599.999, 999999.9,  999999.9, 0};
	assert_true(weir_load_report_print_orca(&report, text) < sizeof(text));
	assert_true(weir_load_report_print_timing(&report, text) < sizeof(text));
}

/* ---- a nucleus ---- */

static int read_report(const char *text, weir_nucleus_report *ret_report)
{
	return weir_nucleus_report_read(text, strlen(text), ret_report);
}

static void reads_back_a_nucleus(void **state)
{
	weir_nucleus_report report, back;
	weir_nucleus_report_init(&report);
	report.queue_s = .25;
	report.busy = .5;
	report.processors = 2;
	json_t *json = weir_nucleus_report_json(&report);
	char *text = json_dumps(json, 0);
	assert_int_equal(read_report(text, &back), 0);
	assert_near(back.queue_s, .25);
	assert_near(back.busy, .5);
	assert_near(back.processors, 2);
	assert_true(back.in_service < 0 && back.alpha < 0);
	free(text);
	json_decref(json);
	weir_load_report as_orca;
	weir_nucleus_report_orca(&back, &as_orca);
	assert_near(as_orca.told_queue_s, .25);
	assert_near(as_orca.cpu_utilization, .5);
}

static void refuses_a_nucleus_that_lies(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"version\": 2}",
		"{\"version\": \"1\"}",
		"{\"version\": 1, \"queue_s\": NaN}",
		"{\"version\": 1, \"queue_s\": \"NaN\"}",
		"{\"version\": 1, \"queue_s\": -0.001}",
		"{\"version\": 1, \"queue_s\": 50000}",
		"{\"version\": 1, \"busy\": 500000}",
		"{\"version\": 1, \"in_service\": 4000000}",
		"{\"version\": 1, \"rate_per_s\": 1e400}",
		"{\"version\": 1, \"queue_s\": 1} x",
		"{\"version\": 1, \"queue_s\": [1]}",
	};
	weir_nucleus_report report = {.queue_s = 7};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_report(bad[i], &report), -EINVAL);
		assert_true(weir_error()[0] != '\0');
		assert_true(report.queue_s == 7);
	}
	assert_int_equal(read_report("{\"version\": 1, \"queue_s\": null, \"more\": {}}", &report), 0);
	assert_true(report.queue_s < 0);
}

static void refuses_a_report_that_is_too_long(void **state)
{
	static char text[WEIR_NUCLEUS_BYTES + 1];
	weir_nucleus_report report;
	memset(text, ' ', sizeof(text));
	memcpy(text, "{\"version\": 1}", 14);
	assert_int_equal(weir_nucleus_report_read(text, sizeof(text), &report), -EINVAL);
	assert_int_equal(weir_nucleus_report_read(text, sizeof(text) - 1, &report), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_timings),
		cmocka_unit_test(adds_up_what_comes_twice),
		cmocka_unit_test(leaves_the_rest_alone),
		cmocka_unit_test(refuses_bad_durations),
		cmocka_unit_test(does_not_read_what_is_too_long),
		cmocka_unit_test(reads_orca_in_all_forms),
		cmocka_unit_test(refuses_bad_orca),
		cmocka_unit_test(reads_back_what_it_prints),
		cmocka_unit_test(prints_the_largest),
		cmocka_unit_test(reads_back_a_nucleus),
		cmocka_unit_test(refuses_a_nucleus_that_lies),
		cmocka_unit_test(refuses_a_report_that_is_too_long),
	};
	return cmocka_run_group_tests_name("load_report", tests, NULL, NULL);
}
