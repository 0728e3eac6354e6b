/* SPDX-License-Identifier: Apache-2.0 */
#include "http/nucleus_report.h"

#include <errno.h>

#include "base/error.h"

typedef struct report_row {
	const char *name;
	size_t offset;
	double most;
} report_row;

#define ROW(field, most)                                           \
	{                                                          \
#field, offsetof(weir_nucleus_report, field), most \
	}
#define TOTAL_MOST 1e15 /* of what is summed up since the start */

static const report_row rows[] = {
	ROW(age_s, WEIR_LOAD_TIME_MOST_S),
	ROW(every_s, WEIR_LOAD_TIME_MOST_S),
	ROW(queue_s, WEIR_LOAD_TIME_MOST_S),
	ROW(backlog, WEIR_LOAD_COUNT_MOST),
	ROW(in_service, WEIR_LOAD_COUNT_MOST),
	ROW(rate_per_s, WEIR_LOAD_RATE_MOST),
	ROW(cpu_s, WEIR_LOAD_TIME_MOST_S),
	ROW(io_s, WEIR_LOAD_TIME_MOST_S),
	ROW(alpha, 1e3),
	ROW(service_s, WEIR_LOAD_TIME_MOST_S),
	ROW(processors, WEIR_LOAD_COUNT_MOST),
	ROW(busy, WEIR_LOAD_SHARE_MOST),
	ROW(cpu_total_s, TOTAL_MOST),
	ROW(requests, TOTAL_MOST),
	ROW(in_service_s, TOTAL_MOST),
	ROW(self_cpu, WEIR_LOAD_COUNT_MOST),
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static double *field_of(weir_nucleus_report *report, const report_row *row)
{
	return (double *)(void *)((char *)report + row->offset);
}

void weir_nucleus_report_init(weir_nucleus_report *ret_report)
{
	for (size_t i = 0; i < ROWS; i++)
		*field_of(ret_report, &rows[i]) = -1;
}

json_t *weir_nucleus_report_json(const weir_nucleus_report *report)
{
	weir_nucleus_report copy = *report;
	json_t *json = json_pack("{s:i}", "version", WEIR_NUCLEUS_VERSION);
	for (size_t i = 0; json != NULL && i < ROWS; i++) {
		double value = *field_of(&copy, &rows[i]);
		bool known = value >= 0 && value <= rows[i].most;
		if (json_object_set_new(json, rows[i].name, known ? json_real(value) : json_null()) != 0) {
			json_decref(json);
			json = NULL;
		}
	}
	return json;
}

static int check_version(const json_t *json)
{
	const json_t *version = json_object_get(json, "version");
	if (!json_is_object(json) || !json_is_integer(version))
		return weir_error_set(-EINVAL, "not a report of a nucleus: it has no version");
	if (json_integer_value(version) != WEIR_NUCLEUS_VERSION)
		return weir_error_set(-EINVAL, "a report of version %lld; this reads version %d",
				      (long long)json_integer_value(version), WEIR_NUCLEUS_VERSION);
	return 0;
}

static int read_row(const json_t *json, const report_row *row, weir_nucleus_report *report)
{
	const json_t *value = json_object_get(json, row->name);
	if (value == NULL || json_is_null(value))
		return 0;
	double number = json_number_value(value);
	if (!json_is_number(value))
		return weir_error_set(-EINVAL, "%s is not a number", row->name);
	if (!(number >= 0 && number <= row->most))
		return weir_error_set(-EINVAL, "%s is %g; 0 to %g are possible", row->name, number,
				      row->most);
	*field_of(report, row) = number;
	return 0;
}

int weir_nucleus_report_read(const char *text, size_t length, weir_nucleus_report *ret_report)
{
	weir_nucleus_report report;
	json_t *json = length <= WEIR_NUCLEUS_BYTES ? json_loadb(text, length, 0, NULL) : NULL;
	if (json == NULL)
		return weir_error_set(-EINVAL, length <= WEIR_NUCLEUS_BYTES ? "not JSON"
									    : "longer than a report can be");
	weir_nucleus_report_init(&report);
	int error = check_version(json);
	for (size_t i = 0; error == 0 && i < ROWS; i++)
		error = read_row(json, &rows[i], &report);
	json_decref(json);
	if (error == 0)
		*ret_report = report;
	return error;
}

void weir_nucleus_report_orca(const weir_nucleus_report *report, weir_load_report *ret_report)
{
	weir_load_report_init(ret_report);
	ret_report->cpu_utilization = report->busy;
	ret_report->rps = report->rate_per_s;
	ret_report->told_queue_s = report->queue_s;
	ret_report->in_service = report->in_service;
	ret_report->processors = report->processors;
}
