/* SPDX-License-Identifier: Apache-2.0 */
#include "http/load_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define NUMBER_MOST 32u

void weir_load_report_init(weir_load_report *ret_report)
{
	*ret_report = (weir_load_report){.cpu_s = -1,
					 .db_s = -1,
					 .io_s = -1,
					 .queue_s = -1,
					 .cpu_utilization = -1,
					 .application_utilization = -1,
					 .rps = -1,
					 .eps = -1,
					 .told_queue_s = -1,
					 .in_service = -1,
					 .processors = -1};
}

/* ---- spans ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static weir_span trimmed(weir_span text)
{
	while (text.length > 0 && is_space(text.at[0])) {
		text.at++;
		text.length--;
	}
	while (text.length > 0 && is_space(text.at[text.length - 1]))
		text.length--;
	return text;
}

static bool is(weir_span text, const char *name)
{
	return text.length == strlen(name) && strncasecmp(text.at, name, text.length) == 0;
}

/* Takes the part before the next `end` that is not in quotes off the text. */
static weir_span take_part(weir_span *text, char end)
{
	bool quoted = false;
	size_t at = 0;
	for (; at < text->length && (quoted || text->at[at] != end); at++) {
		if (text->at[at] == '\\' && quoted && at + 1 < text->length)
			at++;
		else if (text->at[at] == '"')
			quoted = !quoted;
	}
	weir_span part = {text->at, at};
	size_t used = at < text->length ? at + 1 : at;
	text->at += used;
	text->length -= used;
	return trimmed(part);
}

/* ---- values ---- */

static bool read_number(weir_span text, double *ret_number)
{
	char copy[NUMBER_MOST];
	if (text.length >= 2 && text.at[0] == '"' && text.at[text.length - 1] == '"')
		text = (weir_span){text.at + 1, text.length - 2};
	if (text.length == 0 || text.length >= sizeof(copy) || memchr(text.at, '\0', text.length) != NULL)
		return false;
	memcpy(copy, text.at, text.length);
	copy[text.length] = '\0';
	return weir_text_number(copy, ret_number) == 0;
}

/* false: it is not a number, negative, or too large. */
static bool is_sane(double value, double most)
{
	return value >= 0 && value <= most; /* neither holds for NaN */
}

static void add(weir_load_report *report, double *to, double value, double most)
{
	double sum = *to > 0 ? *to + value : value;
	if (is_sane(value, most) && is_sane(sum, most))
		*to = sum;
	else
		report->refused++;
}

/* ---- Server-Timing ---- */

static double *timing_of(weir_load_report *report, weir_span name)
{
	if (is(name, "cpu"))
		return &report->cpu_s;
	if (is(name, "db"))
		return &report->db_s;
	if (is(name, "io"))
		return &report->io_s;
	return is(name, "queue") ? &report->queue_s : NULL;
}

/* One metric: its name, then parameters, of which the first `dur` counts. */
static void read_metric(weir_load_report *report, weir_span metric)
{
	double *to = timing_of(report, take_part(&metric, ';'));
	while (to != NULL && metric.length > 0) {
		weir_span value = take_part(&metric, ';'), name = take_part(&value, '=');
		double ms;
		if (!is(name, "dur"))
			continue;
		if (read_number(trimmed(value), &ms))
			add(report, to, ms / 1e3, WEIR_LOAD_TIME_MOST_S);
		else
			report->refused++;
		return;
	}
}

void weir_load_report_read_timing(weir_load_report *report, weir_span value)
{
	if (value.length > WEIR_LOAD_REPORT_BYTES) {
		report->refused++;
		return;
	}
	while (value.length > 0)
		read_metric(report, take_part(&value, ','));
}

/* ---- endpoint-load-metrics ---- */

typedef struct orca_row {
	const char *name;
	size_t offset;
	double most;
} orca_row;

#define ROW(name, field, most)                                \
	{                                                     \
		name, offsetof(weir_load_report, field), most \
	}

static const orca_row orca_rows[] = {
	ROW("cpu_utilization", cpu_utilization, WEIR_LOAD_SHARE_MOST),
	ROW("application_utilization", application_utilization, WEIR_LOAD_SHARE_MOST),
	ROW("rps_fractional", rps, WEIR_LOAD_RATE_MOST),
	ROW("rps", rps, WEIR_LOAD_RATE_MOST),
	ROW("eps", eps, WEIR_LOAD_RATE_MOST),
	ROW("named_metrics.queue_s", told_queue_s, WEIR_LOAD_TIME_MOST_S),
	ROW("named_metrics.in_service", in_service, WEIR_LOAD_COUNT_MOST),
	ROW("named_metrics.processors", processors, WEIR_LOAD_COUNT_MOST),
	ROW("request_cost.cpu_s", cpu_s, WEIR_LOAD_TIME_MOST_S),
	ROW("request_cost.db_s", db_s, WEIR_LOAD_TIME_MOST_S),
	ROW("request_cost.io_s", io_s, WEIR_LOAD_TIME_MOST_S),
	ROW("request_cost.queue_s", queue_s, WEIR_LOAD_TIME_MOST_S),
};
#define ORCA_ROWS (sizeof(orca_rows) / sizeof(orca_rows[0]))

static const orca_row *orca_row_of(weir_span name)
{
	for (size_t i = 0; i < ORCA_ROWS; i++)
		if (is(name, orca_rows[i].name))
			return &orca_rows[i];
	return NULL;
}

static double *field_of(const orca_row *row, weir_load_report *report)
{
	return (double *)(void *)((char *)report + row->offset);
}

static void set(weir_load_report *report, const orca_row *row, double value)
{
	if (is_sane(value, row->most))
		*field_of(row, report) = value;
	else
		report->refused++;
}

static void read_text(weir_load_report *report, weir_span text)
{
	while (text.length > 0) {
		weir_span value = take_part(&text, ','), name = take_part(&value, '=');
		const orca_row *row = orca_row_of(name);
		double number;
		if (row == NULL)
			continue;
		if (read_number(trimmed(value), &number))
			set(report, row, number);
		else
			report->refused++;
	}
}

static void set_json(weir_load_report *report, const char *map, const char *name, const json_t *value)
{
	char path[64];
	int length = snprintf(path, sizeof(path), "%s%s%s", map, *map != '\0' ? "." : "", name);
	const orca_row *row = length > 0 && (size_t)length < sizeof(path)
				      ? orca_row_of((weir_span){path, (size_t)length})
				      : NULL;
	if (row != NULL && json_is_number(value))
		set(report, row, json_number_value(value));
	else if (row != NULL)
		report->refused++;
}

static void read_json(weir_load_report *report, weir_span text)
{
	json_t *json = json_loadb(text.at, text.length, JSON_REJECT_DUPLICATES, NULL), *value, *inner;
	const char *name, *inner_name;
	if (!json_is_object(json))
		report->refused++;
	json_object_foreach(json, name, value)
	{
		if (!json_is_object(value))
			set_json(report, "", name, value);
		json_object_foreach(value, inner_name, inner)
		{
			set_json(report, name, inner_name, inner);
		}
	}
	json_decref(json);
}

static bool take_word(weir_span *text, const char *word)
{
	size_t length = strlen(word);
	if (text->length <= length || strncasecmp(text->at, word, length) != 0 || !is_space(text->at[length]))
		return false;
	*text = trimmed((weir_span){text->at + length, text->length - length});
	return true;
}

void weir_load_report_read_orca(weir_load_report *report, weir_span value)
{
	value = trimmed(value);
	if (value.length > WEIR_LOAD_REPORT_BYTES || take_word(&value, "BIN"))
		report->refused++;
	else if (take_word(&value, "JSON") || (value.length > 0 && value.at[0] == '{'))
		read_json(report, value);
	else {
		take_word(&value, "TEXT");
		read_text(report, value);
	}
}

/* ---- what is told ---- */

bool weir_load_report_has_service(const weir_load_report *report)
{
	return report->cpu_s >= 0 || report->db_s >= 0 || report->io_s >= 0;
}

bool weir_load_report_has_server(const weir_load_report *report)
{
	return report->cpu_utilization >= 0 || report->application_utilization >= 0 ||
	       report->told_queue_s >= 0 || report->in_service >= 0;
}

size_t weir_load_report_print_timing(const weir_load_report *report, char text[static WEIR_LOAD_REPORT_TEXT])
{
	const struct {
		const char *name;
		double s;
	} metrics[] = {{"queue", report->queue_s},
		       {"cpu", report->cpu_s},
		       {"db", report->db_s},
		       {"io", report->io_s}};
	size_t at = 0;
	text[0] = '\0';
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		if (is_sane(metrics[i].s, WEIR_LOAD_TIME_MOST_S))
			at += (size_t)snprintf(text + at, WEIR_LOAD_REPORT_TEXT - at, "%s%s;dur=%.3f",
					       at > 0 ? ", " : "", metrics[i].name, metrics[i].s * 1e3);
	return at;
}

size_t weir_load_report_print_orca(const weir_load_report *report, char text[static WEIR_LOAD_REPORT_TEXT])
{
	weir_load_report copy = *report;
	size_t at = 0;
	text[0] = '\0';
	for (size_t i = 0; i < ORCA_ROWS; i++) {
		double value = *field_of(&orca_rows[i], &copy);
		/* Its short name is for reading only. */
		if (!is_sane(value, orca_rows[i].most) || strcmp(orca_rows[i].name, "rps") == 0)
			continue;
		at += (size_t)snprintf(text + at, WEIR_LOAD_REPORT_TEXT - at, "%s%s=%.6g",
				       at > 0 ? ", " : "TEXT ", orca_rows[i].name, value);
	}
	return at;
}
