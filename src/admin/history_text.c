/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history as a line of text, for a successor:
 *
 *	1 VALUES SECONDS            the version; values of a point; seconds so far
 *	TIME ...                    of the tens that are kept and of the seconds, oldest first; by the monotonic clock
 *	LENGTH NAME VALUE ...       a stage: the points of its tens and seconds; "-" for a value that is not known
 *
 * Words are separated by a space. A reader of another version, or with other values, ignores all of it. Stages without
 * a point are left out.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "admin/history.h"
#include "base/mem.h"

#define VERSION 1u

/* The points that are kept, in the order of the text: places in the two rings. */
typedef struct span {
	uint64_t ten, tens, second, seconds;
} span;

static span span_of(const weir_history *history)
{
	return (span){.ten = history->tens -
			     (history->tens < WEIR_HISTORY_TENS ? history->tens : WEIR_HISTORY_TENS),
		      .tens = history->tens,
		      .second = history->seconds - (history->seconds < WEIR_HISTORY_SECONDS
							    ? history->seconds
							    : WEIR_HISTORY_SECONDS),
		      .seconds = history->seconds};
}

/* The next point of a stage; NULL: that was the last. */
static weir_history_point *next_point(weir_history_stage *stage, span *left)
{
	if (left->ten < left->tens)
		return &stage->ten[left->ten++ % WEIR_HISTORY_TENS];
	return left->second < left->seconds ? &stage->second[left->second++ % WEIR_HISTORY_SECONDS] : NULL;
}

static uint64_t *next_time(weir_history *history, span *left)
{
	if (left->ten < left->tens)
		return &history->ten_ns[left->ten++ % WEIR_HISTORY_TENS];
	return left->second < left->seconds ? &history->second_ns[left->second++ % WEIR_HISTORY_SECONDS]
					    : NULL;
}

/* ---- writing ---- */

/* The last value is there whenever any is. */
static bool has_points(weir_history_stage *stage, span all)
{
	const weir_history_point *point;
	while ((point = next_point(stage, &all)) != NULL)
		if (!isnan(point->value[WEIR_HISTORY_VALUES - 1]))
			return true;
	return false;
}

static void save_stage(weir_history_stage *stage, span all, FILE *to)
{
	const weir_history_point *point;
	fprintf(to, " %zu %s", strlen(stage->name), stage->name);
	while ((point = next_point(stage, &all)) != NULL)
		for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++)
			if (isnan(point->value[v]))
				fputs(" -", to);
			else
				fprintf(to, " %.4g", (double)point->value[v]);
}

void weir_history_save(weir_history *history, FILE *to)
{
	const span all = span_of(history);
	span left = all;
	fprintf(to, "%u %u %llu", VERSION, WEIR_HISTORY_VALUES, (unsigned long long)history->seconds);
	for (const uint64_t *at; (at = next_time(history, &left)) != NULL;)
		fprintf(to, " %llu", (unsigned long long)*at);
	for (unsigned i = 0; i < history->stages; i++)
		if (has_points(history->stage[i], all))
			save_stage(history->stage[i], all, to);
}

/* ---- reading ---- */

static bool read_number(const char **at, uint64_t *ret_number)
{
	char *end;
	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(*at, &end, 10);
	*at = *end == ' ' ? end + 1 : end;
	return errno == 0 && (*end == ' ' || *end == '\0');
}

static bool read_value(const char **at, float *ret_value)
{
	char *end;
	if (**at == '-' && ((*at)[1] == ' ' || (*at)[1] == '\0')) {
		*ret_value = NAN;
		*at += (*at)[1] == ' ' ? 2 : 1;
		return true;
	}
	*ret_value = strtof(*at, &end);
	bool good = end != *at && isfinite(*ret_value) && (*end == ' ' || *end == '\0');
	*at = *end == ' ' ? end + 1 : end;
	return good;
}

static bool read_times(weir_history *history, const char **at, uint64_t now_ns)
{
	span left = span_of(history);
	for (uint64_t *time; (time = next_time(history, &left)) != NULL;)
		if (!read_number(at, time) || *time > now_ns)
			return false;
	return true;
}

static bool read_stage(weir_history *history, const char **at)
{
	uint64_t length;
	weir_history_point *point;
	span left = span_of(history);
	if (!read_number(at, &length) || length >= sizeof(((weir_history_stage *)NULL)->name) ||
	    strlen(*at) <= length || (*at)[length] != ' ' || history->stages == WEIR_HISTORY_STAGES)
		return false;
	weir_history_stage *stage = weir_mem_zalloc(sizeof(*stage));
	if (stage == NULL)
		return false;
	history->stage[history->stages++] = stage;
	weir_history_clear(stage);
	memcpy(stage->name, *at, length);
	*at += length + 1;
	while ((point = next_point(stage, &left)) != NULL)
		for (unsigned v = 0; v < WEIR_HISTORY_VALUES; v++)
			if (!read_value(at, &point->value[v]))
				return false;
	return true;
}

/* The counts go on where they were, since a ten ends with every tenth second. */
static bool read_all(weir_history *history, const char *at, uint64_t now_ns)
{
	uint64_t version, values;
	if (!read_number(&at, &version) || version != VERSION || !read_number(&at, &values) ||
	    values != WEIR_HISTORY_VALUES || !read_number(&at, &history->seconds))
		return false;
	history->tens = history->seconds / WEIR_HISTORY_TEN;
	if (!read_times(history, &at, now_ns))
		return false;
	while (*at != '\0')
		if (!read_stage(history, &at))
			return false;
	return true;
}

bool weir_history_load(weir_history *history, const char *text, uint64_t now_ns)
{
	weir_history_fini(history);
	if (read_all(history, text, now_ns))
		return true;
	weir_history_fini(history);
	return false;
}
