/* SPDX-License-Identifier: Apache-2.0 */
/* For programs: the whole run as one object. Missing numbers are null. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "load/figures.h"

#define NAME_BYTES 512

static json_t *count(uint64_t number)
{
	return json_integer(number < INT64_MAX ? (json_int_t)number : INT64_MAX);
}

static json_t *real(double number)
{
	return isfinite(number) ? json_real(number) : json_null();
}

/* 0 stands for unknown or not requested. */
static json_t *known(double number)
{
	return number > 0 ? real(number) : json_null();
}

/* JSON is UTF-8; invalid bytes of a name are shown as '?'. */
static const char *clean(const char *name, char *room)
{
	json_t *whole = json_string(name);
	const char *result = whole != NULL ? name : weir_text_quote(room, NAME_BYTES, name);
	json_decref(whole);
	return result;
}

static json_t *words(const char *text)
{
	char room[NAME_BYTES];
	return text != NULL ? json_string(clean(text, room)) : json_null();
}

/* ---- groups ---- */

static json_t *times_of(load_times times)
{
	bool some = times.count > 0;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "mean", real(some ? times.mean : NAN), "p50",
			 real(some ? times.p50 : NAN), "p90", real(some ? times.p90 : NAN), "p99",
			 real(some ? times.p99 : NAN), "p99_9", real(some ? times.p99_9 : NAN), "max",
			 real(some ? times.max : NAN));
}

/* Members that the whole run, a class and a path have in common. */
static json_t *group_of(const load_group *group, double seconds)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sent",
			 count(load_get(&group->sent)), "ok", count(load_get(&group->ended[LOAD_OK])), "good",
			 count(load_get(&group->good)), "shed", count(load_get(&group->ended[LOAD_SHED])),
			 "errors", count(load_get(&group->ended[LOAD_ERROR])), "timeouts",
			 count(load_get(&group->ended[LOAD_TIMEOUT])), "aborted",
			 count(load_get(&group->ended[LOAD_ABORTED])), "late", count(load_get(&group->late)),
			 "duration_s", real(seconds), "goodput_per_s",
			 real((double)load_get(&group->good) / seconds), "latency_ms",
			 times_of(load_times_of_group(group)), "retries", count(load_get(&group->retries)),
			 "bytes", count(load_get(&group->bytes)));
}

/* A class or a path: also contains the times that for the whole run are stored elsewhere. */
static json_t *part_of(const load_group *group, double seconds)
{
	json_t *part = group_of(group, seconds);
	bool whole = json_object_set_new(part, "first_byte_ms",
					 times_of(load_times_of_spread(&group->first_byte))) == 0;
	whole = json_object_set_new(part, "connect_ms", times_of(load_times_of_spread(&group->connect))) ==
			0 &&
		whole;
	if (whole)
		return part;
	json_decref(part);
	return NULL;
}

/* By name. Two groups with the same name would hide each other, so the second also has its number. */
static json_t *groups_of(const load_group *groups, unsigned number, const char *const *names, double seconds)
{
	json_t *all = json_object();
	for (unsigned i = 0; i < number; i++) {
		char plain[16], room[NAME_BYTES], other[NAME_BYTES + 16];
		const char *name = clean(load_name(names, i, plain), room);
		if (json_object_get(all, name) != NULL) {
			snprintf(other, sizeof(other), "%.*s (%u)", NAME_BYTES - 1, name, i);
			name = clean(other, room);
		}
		if (json_object_set_new(all, name, part_of(&groups[i], seconds)) != 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

/* ---- the rest ---- */

static json_t *second_of(const load_story *story, unsigned at)
{
	const load_second *second = &story->tally->second[at];
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "t_s",
			 real(at + load_second_length(story, at)), "sent", count(load_get(&second->sent)),
			 "ok", count(load_get(&second->ended[LOAD_OK])), "good",
			 count(load_get(&second->good)), "shed", count(load_get(&second->ended[LOAD_SHED])),
			 "errors", count(load_get(&second->ended[LOAD_ERROR])), "timeouts",
			 count(load_get(&second->ended[LOAD_TIMEOUT])), "aborted",
			 count(load_get(&second->ended[LOAD_ABORTED])), "late",
			 count(load_get(&second->late)), "open", count(load_get(&second->open)), "latency_ms",
			 times_of(load_times_of_second(second)));
}

static json_t *series_of(const load_story *story)
{
	json_t *rows = json_array();
	for (unsigned i = 0; i < story->tally->seconds; i++)
		if (json_array_append_new(rows, second_of(story, i)) != 0) {
			json_decref(rows);
			return NULL;
		}
	return rows;
}

static json_t *reasons_of(const load_tally *tally)
{
	json_t *all = json_object();
	for (unsigned i = 0; i < LOAD_ERRORS; i++)
		if (i != LOAD_ERROR_NONE || load_get(&tally->errors[i]) > 0)
			json_object_set_new(all, load_error_name((load_error)i),
					    count(load_get(&tally->errors[i])));
	return all;
}

static json_t *statuses_of(const load_tally *tally)
{
	json_t *all = json_object();
	char name[16];
	for (unsigned i = 1; i < LOAD_STATUSES; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (load_get(&tally->status[i]) > 0)
			json_object_set_new(all, name, count(load_get(&tally->status[i])));
	}
	return all;
}

/* The non-empty buckets of a distribution: [upper end in ms, count]. */
static json_t *steps_of(const weir_hist *hist)
{
	json_t *all = json_array();
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++) {
		uint64_t many = load_get(&hist->bucket[i]);
		double high_ms = (double)weir_hist_high(i) / 1e6;
		if (many > 0 &&
		    json_array_append_new(all, json_pack("[o, o]", real(high_ms), count(many))) != 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *details_of(const load_story *story)
{
	const load_tally *tally = story->tally;
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:b, s:o, s:o, s:o}",
		"unsent", count(load_get(&tally->unsent)), "open", count(load_get(&tally->open)),
		"late_max_ms", real(load_latest_ms(story)), "behind_max_ms",
		real((double)load_get(&tally->behind_ns_max) / 1e6), "target_ms",
		real(tally->target_ns != UINT64_MAX ? (double)tally->target_ns / 1e6 : NAN), "fell_behind",
		load_fell_behind(story), "first_byte_ms", times_of(load_times_of_hist(&tally->first_byte)),
		"connect_ms", times_of(load_times_of_hist(&tally->connect)), "shed_ms",
		times_of(load_times_of_hist(&tally->shed_response)), "send_error_ms",
		times_of(load_times_of_hist(&tally->send_error)), "error_reasons", reasons_of(tally),
		"status", statuses_of(tally), "url", words(story->url), "arrivals", words(story->arrivals),
		"connections", count(load_get(&tally->connections)), "asked_per_s",
		known(story->asked_rate > 0 ? load_asked(story) : 0), "client_cpu_s",
		real(story->client_cpu_s), "interrupted", story->interrupted, "load", known(story->load),
		"fairness", real(load_fairness(tally)), "at_least_ms",
		times_of(load_times_with_unanswered(tally)));
}

static json_t *step_of(const load_step *step)
{
	return json_pack("{s:i, s:o, s:o, s:b}", "users", (int)step->users, "ok_per_s", real(step->per_s),
			 "mean_ms", known(step->mean_ms), "interrupted", step->interrupted);
}

/* null: there was no search for the capacity. Without memory it is NULL, as everywhere here. */
static json_t *search_of(const load_search *search)
{
	if (search == NULL)
		return json_null();
	json_t *steps = json_array();
	for (unsigned i = 0; i < search->steps; i++)
		if (json_array_append_new(steps, step_of(&search->step[i])) != 0) {
			json_decref(steps);
			return NULL;
		}
	return json_pack("{s:o, s:o, s:b}", "steps", steps, "best_per_s", known(load_search_best(search)),
			 "interrupted", search->interrupted);
}

static json_t *story_of(const load_story *story)
{
	const load_tally *tally = story->tally;
	double seconds = (double)story->length_ns / 1e9;
	json_t *all = group_of(&tally->all, load_seconds(story));
	json_t *classes = groups_of(tally->klass, tally->classes, story->class_names, load_seconds(story));
	json_t *paths = groups_of(tally->path, tally->paths, story->path_names, load_seconds(story));
	json_t *details = details_of(story), *series = series_of(story);
	bool whole =
		all != NULL && details != NULL && json_object_set_new(all, "duration_s", real(seconds)) == 0;
	/* Each of these takes ownership of its value, even if it fails. */
	whole = json_object_set_new(all, "classes", classes) == 0 && whole;
	whole = json_object_set_new(all, "series", series) == 0 && whole;
	whole = whole && json_object_update(all, details) == 0;
	whole = json_object_set_new(all, "capacity_per_s", known(story->capacity)) == 0 && whole;
	whole = json_object_set_new(all, "search", search_of(story->search)) == 0 && whole;
	whole = json_object_set_new(all, "paths", paths) == 0 && whole;
	whole = json_object_set_new(all, "latency_steps", steps_of(&tally->all.response)) == 0 && whole;
	whole = json_object_set_new(all, "shed_steps", steps_of(&tally->shed_response)) == 0 && whole;
	json_decref(details);
	if (whole)
		return all;
	json_decref(all);
	return NULL;
}

/* Takes ownership of the document. */
static int write_json(FILE *out, json_t *document)
{
	if (document == NULL)
		return weir_error_set(-ENOMEM, "out of memory for the report");
	int failed = json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	json_decref(document);
	fputc('\n', out);
	/* Without an error of the stream, the cause is a lack of memory. */
	if (failed != 0 && !ferror(out))
		return weir_error_set(-ENOMEM, "out of memory for the report");
	return load_report_end(out);
}

int load_report_json(FILE *out, const load_story *story)
{
	return write_json(out, story_of(story));
}

int load_report_json_runs(FILE *out, const load_runs *runs)
{
	json_t *rows = json_array();
	for (unsigned i = 0; rows != NULL && i < runs->count; i++)
		if (json_array_append_new(rows, story_of(&runs->stories[i])) != 0) {
			json_decref(rows);
			rows = NULL;
		}
	if (rows == NULL)
		return weir_error_set(-ENOMEM, "out of memory for the report");
	return write_json(out,
			  json_pack("{s:o, s:o, s:b, s:o}", "capacity_per_s", known(runs->capacity), "search",
				    search_of(runs->search), "interrupted", runs->interrupted, "runs", rows));
}
