/* SPDX-License-Identifier: Apache-2.0 */
/* Stages: one row each, their law, their last minute, their classes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "top/screen.h"

#define NAME_LEAST 11u
#define NAME_MOST  28u
#define BAR        8u
#define BAR_TARGET 6u /* cells below the target */
#define LATE       1.1
#define SPARK_FROM 8u
#define PAIRS_FROM 9u
#define LAW_ROWS   3u

/* ---- one row per stage ---- */

typedef enum column_kind { COUNT, TIME, TARGET_BAR, TARGET, TEXT } column_kind;

/* In order; columns that do not fit into the screen's width are omitted. */
static const struct {
	const char *head, *path;
	unsigned width;
	column_kind kind;
} columns[] = {
	{"offered", "all.rate.offered", 8, COUNT},
	{"let in", "all.rate.admitted", 7, COUNT},
	{"shed", "all.rate.shed", 6, COUNT},
	{"wait", "waiting", 5, COUNT},
	{"inside", "in_service", 7, COUNT},
	{"limit", "limit", 6, COUNT},
	{"p50", "all.recent.p50_ns", 6, TIME},
	{"p90", "all.recent.p90_ns", 6, TIME},
	{"p99", "all.recent.p99_ns", 6, TIME},
	{"used", "", BAR + 2, TARGET_BAR},
	{"target", "", 11, TARGET},
	{"law", "law", 17, TEXT},
	{"mode", "mode", 10, TEXT},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static unsigned name_width(const weir_screen *screen)
{
	unsigned rest = 1;
	for (size_t i = 0; i < COLUMNS; i++)
		rest += columns[i].width;
	unsigned width = screen->columns > rest ? screen->columns - rest : 0;
	return width < NAME_LEAST ? NAME_LEAST : width > NAME_MOST ? NAME_MOST : width;
}

/* The measured percentile that the target is for, as a part of it; NaN: there is none. */
static double part_of_target(const json_t *stage)
{
	const json_t *judged = weir_top_judged_class(stage);
	double quantile = weir_top_number(judged, "percentile");
	const char *measured = quantile > .95   ? "all.recent.p99_ns"
			       : quantile < .75 ? "all.recent.p50_ns"
						: "all.recent.p90_ns";
	if (judged == NULL || !(weir_top_number(stage, "all.recent.count") > 0))
		return (double)NAN;
	return weir_top_number(stage, measured) / weir_top_number(judged, "target_ns");
}

static weir_tone tone_of(const json_t *stage)
{
	double part = part_of_target(stage);
	return part > LATE ? WEIR_TONE_BAD : part >= 0 ? WEIR_TONE_GOOD : WEIR_TONE_PLAIN;
}

/* Filled up to the used part of the target; the bar in it marks the target. */
static void draw_bar(weir_screen *screen, unsigned row, unsigned column, const json_t *stage)
{
	double part = part_of_target(stage);
	unsigned full = part > 0 ? (unsigned)(fmin(part, 2) * BAR_TARGET + .5) : 0;
	if (isnan(part))
		return;
	for (unsigned i = 0; i < BAR; i++) {
		if (i < full)
			weir_screen_sign(screen, row, column + i, tone_of(stage), 0x2588, '#');
		else
			weir_screen_sign(screen, row, column + i, WEIR_TONE_QUIET, 0xb7, '.');
		if (i == BAR_TARGET)
			weir_screen_sign(screen, row, column + i, full > i ? WEIR_TONE_BAD : WEIR_TONE_PLAIN,
					 0x2502, '|');
	}
}

/* "p90 200ms", or "-". */
static char *print_target(char *text, size_t size, const json_t *judged)
{
	char percentile[32], time[16];
	double quantile = weir_top_number(judged, "percentile");
	if (judged == NULL || !(weir_top_number(judged, "target_ns") > 0)) {
		snprintf(text, size, "-");
		return text;
	}
	quantile = rint(quantile * 1e5) / 1e5; /* laws do not keep it to the last digit */
	weir_text_print_percentile(percentile, sizeof(percentile),
				   quantile > 0 && quantile < 1 ? quantile : .9);
	snprintf(text, size, "%s %s", percentile,
		 weir_screen_time(time, sizeof(time), weir_top_number(judged, "target_ns")));
	return text;
}

static void draw_column(weir_screen *screen, unsigned row, unsigned column, size_t at, const json_t *stage)
{
	char text[64];
	double number = weir_top_number(stage, columns[at].path);
	bool of_sheds = strcmp(columns[at].head, "shed") == 0, sheds = of_sheds && number > 0;
	double spared = of_sheds ? weir_top_number(stage, "all.rate.spared") : 0;
	bool judged = columns[at].kind == TIME && strcmp(columns[at].head, "p90") == 0;
	switch (columns[at].kind) {
	case COUNT:
		if (spared > 0) { /* a dry run: so many would be shed */
			char would[16];
			snprintf(text, sizeof(text), "(%s)", weir_screen_count(would, sizeof(would), spared));
			weir_screen_put_right(screen, row, column, columns[at].width, WEIR_TONE_SHED, text);
			return;
		}
		weir_screen_put_right(screen, row, column, columns[at].width,
				      sheds ? WEIR_TONE_SHED : WEIR_TONE_PLAIN,
				      weir_screen_count(text, sizeof(text), number));
		return;
	case TIME:
		if (!(weir_top_number(stage, "all.recent.count") > 0))
			number = (double)NAN;
		weir_screen_put_right(screen, row, column, columns[at].width,
				      judged ? tone_of(stage) : WEIR_TONE_PLAIN,
				      weir_screen_time(text, sizeof(text), number));
		return;
	case TARGET_BAR:
		draw_bar(screen, row, column + 2, stage);
		return;
	case TARGET:
		weir_screen_put(screen, row, column + 1, columns[at].width - 1, WEIR_TONE_PLAIN,
				print_target(text, sizeof(text), weir_top_judged_class(stage)));
		return;
	case TEXT:
		weir_screen_put(screen, row, column + 1, columns[at].width - 1, WEIR_TONE_QUIET,
				weir_top_text(stage, columns[at].path));
		return;
	}
}

static void draw_head(weir_screen *screen, unsigned row)
{
	unsigned column = 1 + name_width(screen);
	weir_screen_put(screen, row, 1, NAME_MOST, WEIR_TONE_QUIET, "stage");
	for (size_t i = 0; i < COLUMNS && column + columns[i].width <= screen->columns; i++) {
		if (columns[i].kind <= TIME)
			weir_screen_put_right(screen, row, column, columns[i].width, WEIR_TONE_QUIET,
					      columns[i].head);
		else
			weir_screen_put(screen, row, column + (columns[i].kind == TARGET_BAR ? 2 : 1),
					columns[i].width - 1, WEIR_TONE_QUIET, columns[i].head);
		column += columns[i].width;
	}
}

static void draw_row(weir_screen *screen, unsigned row, const json_t *stage, bool chosen)
{
	unsigned column = 1 + name_width(screen);
	weir_screen_put(screen, row, 1, name_width(screen) - 1, WEIR_TONE_TITLE,
			weir_top_text(stage, "name"));
	for (size_t i = 0; i < COLUMNS && column + columns[i].width <= screen->columns; i++) {
		draw_column(screen, row, column, i, stage);
		column += columns[i].width;
	}
	if (!chosen || row >= screen->rows)
		return;
	weir_screen_sign(screen, row, 0, WEIR_TONE_TITLE, '>', '>');
	for (unsigned i = 0; i < screen->columns; i++)
		screen->cells[(size_t)row * screen->columns + i].chosen = true;
}

unsigned weir_top_draw_stages(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			      size_t chosen)
{
	size_t count = weir_top_stage_count(model);
	size_t room = rows > 1 ? rows - 1 : 1;
	size_t first = chosen >= room ? chosen - room + 1 : 0;
	draw_head(screen, row++);
	for (size_t i = first; i < count && i < first + room; i++)
		draw_row(screen, row++, weir_top_stage(model, i), i == chosen);
	if (count == 0)
		weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_QUIET,
				"no stage has had anything to do");
	size_t folded = weir_top_folded_count(model);
	if (folded > 0 && count - first < room)
		weir_screen_printf(screen, row++, 1, WEIR_TONE_QUIET, "and %zu inner stage%s: i shows %s",
				   folded, folded > 1 ? "s" : "", folded > 1 ? "them" : "it");
	return row;
}

/* ---- the last minute ---- */

static void draw_minute(weir_screen *screen, unsigned row, const char *label, const double *ring, unsigned at,
			double top, const char *now)
{
	unsigned room = screen->columns > SPARK_FROM + 22 ? screen->columns - SPARK_FROM - 22 : 10;
	unsigned width = room < WEIR_TOP_POINTS ? room : WEIR_TOP_POINTS;
	weir_screen_put(screen, row, 1, SPARK_FROM - 1, WEIR_TONE_QUIET, label);
	weir_screen_spark(screen, row, SPARK_FROM, width, ring, WEIR_TOP_POINTS, at, top);
	weir_screen_put(screen, row, SPARK_FROM + width + 2, screen->columns, WEIR_TONE_PLAIN, now);
}

static void print_law(char *text, size_t size, const json_t *stage)
{
	char target[64], rate[16];
	const char *law = weir_top_text(stage, "law");
	double admit = weir_top_number(stage, "admit_per_s"), quality = weir_top_number(stage, "quality");
	int length = snprintf(text, size, "%s, %s", *law != '\0' ? law : "bounds only",
			      weir_top_text(stage, "mode"));
	if (weir_top_judged_class(stage) != NULL && length < (int)size)
		length += snprintf(text + length, size - (size_t)length, ", target %s",
				   print_target(target, sizeof(target), weir_top_judged_class(stage)));
	if (admit > 0 && length < (int)size)
		length += snprintf(text + length, size - (size_t)length, ", at most %s/s",
				   weir_screen_count(rate, sizeof(rate), admit));
	if (quality < 1 && length < (int)size)
		length += snprintf(text + length, size - (size_t)length, ", quality %.2f", quality);
	if (json_is_true(weir_top_at(stage, "unreachable")) && length < (int)size)
		length += snprintf(text + length, size - (size_t)length, ", target out of reach");
	else
		return;
	if (weir_top_number(stage, "alone_ns") > 0 && length < (int)size)
		snprintf(text + length, size - (size_t)length, ": needs about %s",
			 weir_screen_time(rate, sizeof(rate), weir_top_number(stage, "alone_ns")));
}

/* "12/s"; in a dry run "0/s; would be 12/s". */
static void print_shed(char *text, size_t size, const json_t *stage)
{
	char number[16], would[16];
	double spared = weir_top_number(stage, "all.rate.spared");
	snprintf(text, size, "%s/s%s%s%s",
		 weir_screen_count(number, sizeof(number), weir_top_number(stage, "all.rate.shed")),
		 spared > 0 ? "; would be " : "",
		 spared > 0 ? weir_screen_count(would, sizeof(would), spared) : "", spared > 0 ? "/s" : "");
}

unsigned weir_top_draw_law(weir_screen *screen, unsigned row, const weir_top_model *model,
			   const json_t *stage)
{
	char text[256], number[16], target[64];
	const weir_top_history *history = weir_top_history_of(model, stage);
	double target_ns = weir_top_number(weir_top_judged_class(stage), "target_ns");
	double p90_ns = weir_top_number(stage, "all.recent.count") > 0
				? weir_top_number(stage, "all.recent.p90_ns")
				: (double)NAN;
	unsigned column =
		weir_screen_put(screen, row, 1, NAME_MOST, WEIR_TONE_TITLE, weir_top_text(stage, "name"));
	print_law(text, sizeof(text), stage);
	row = weir_screen_fold(screen, row, column + 2, LAW_ROWS, WEIR_TONE_PLAIN, text);
	if (history == NULL)
		return row;
	snprintf(text, sizeof(text), "%s%s%s", weir_screen_time(number, sizeof(number), p90_ns),
		 target_ns > 0 ? " of " : "",
		 target_ns > 0 ? print_target(target, sizeof(target), weir_top_judged_class(stage)) : "");
	draw_minute(screen, row++, "p90", history->p90_ns, history->at, target_ns, text);
	print_shed(text, sizeof(text), stage);
	draw_minute(screen, row++, "shed", history->shed_per_s, history->at, 0, text);
	return row;
}

/* ---- one stage in full ---- */

/* "predicted-late 1100, full 3"; "none". */
static void print_reasons(char *text, size_t size, const json_t *by)
{
	char number[16];
	const char *name;
	json_t *count;
	size_t length = 0;
	snprintf(text, size, "none");
	json_object_foreach((json_t *)(uintptr_t)by, name, count)
	{
		if (length + 1 < size)
			length += (size_t)snprintf(
				text + length, size - length, "%s%s %s", length > 0 ? ", " : "", name,
				weir_screen_count(number, sizeof(number), json_number_value(count)));
	}
}

static void draw_class(weir_screen *screen, unsigned row, const json_t *one)
{
	static const char *const counts[] = {"rate.offered", "rate.admitted", "rate.shed"};
	static const char *const times[] = {"recent.p50_ns", "recent.p90_ns", "recent.p99_ns"};
	char text[256];
	double klass = weir_top_number(one, "class");
	bool some = weir_top_number(one, "recent.count") > 0;
	snprintf(text, sizeof(text), "%.0f %s", klass >= 0 && klass < 1000 ? klass : 0,
		 weir_top_text(one, "name"));
	weir_screen_put(screen, row, 1, 14, WEIR_TONE_PLAIN, text);
	for (unsigned i = 0; i < 3; i++)
		weir_screen_put_right(screen, row, 15 + 8 * i, 8, WEIR_TONE_PLAIN,
				      weir_screen_count(text, sizeof(text), weir_top_number(one, counts[i])));
	for (unsigned i = 0; i < 3; i++)
		weir_screen_put_right(screen, row, 39 + 7 * i, 7, WEIR_TONE_PLAIN,
				      weir_screen_time(text, sizeof(text),
						       some ? weir_top_number(one, times[i]) : (double)NAN));
	weir_screen_put(screen, row, 62, 10, WEIR_TONE_PLAIN, print_target(text, sizeof(text), one));
	print_reasons(text, sizeof(text), weir_top_at(one, "shed_by"));
	weir_screen_put(screen, row, 73, screen->columns, WEIR_TONE_PLAIN, text);
}

/* "name value" side by side, as many as fit; for the values of a law and its parameters. */
static unsigned draw_pairs(weir_screen *screen, unsigned row, const char *label, const json_t *pairs)
{
	unsigned column = PAIRS_FROM;
	const char *name;
	json_t *value;
	if (json_object_size(pairs) == 0)
		return row;
	weir_screen_put(screen, row, 1, PAIRS_FROM - 2, WEIR_TONE_QUIET, label);
	json_object_foreach((json_t *)(uintptr_t)pairs, name, value)
	{
		char text[128];
		if (json_is_string(value))
			snprintf(text, sizeof(text), "%s %s", name, json_string_value(value));
		else
			snprintf(text, sizeof(text), "%s %.5g", name, json_number_value(value));
		unsigned length = (unsigned)strlen(text);
		if (column > PAIRS_FROM && column + length > screen->columns) {
			row++;
			column = PAIRS_FROM;
		}
		column = weir_screen_put(screen, row, column, length, WEIR_TONE_PLAIN, text) + 3;
	}
	return row + 1;
}

static unsigned draw_totals(weir_screen *screen, unsigned row, const json_t *stage)
{
	static const char *const names[] = {"offered", "admitted", "shed", "completed", "failed", "dropped"};
	char path[32], number[16], reasons[256];
	unsigned column = PAIRS_FROM;
	weir_screen_put(screen, row, 1, PAIRS_FROM - 2, WEIR_TONE_QUIET, "in all");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "all.%s", names[i]);
		column = weir_screen_printf(
				 screen, row, column, WEIR_TONE_PLAIN, "%s %s", names[i],
				 weir_screen_count(number, sizeof(number), weir_top_number(stage, path))) +
			 1;
	}
	row++;
	print_reasons(reasons, sizeof(reasons), weir_top_at(stage, "all.shed_by"));
	weir_screen_put(screen, row, 1, PAIRS_FROM - 2, WEIR_TONE_QUIET, "shed");
	weir_screen_put(screen, row++, PAIRS_FROM, screen->columns, WEIR_TONE_PLAIN, reasons);
	weir_screen_put(screen, row, 1, PAIRS_FROM - 2, WEIR_TONE_QUIET, "runs on");
	weir_screen_printf(screen, row++, PAIRS_FROM, WEIR_TONE_PLAIN, "%s threads of domain %s, %s",
			   weir_screen_count(number, sizeof(number), weir_top_number(stage, "threads")),
			   weir_top_text(stage, "domain"), weir_top_text(stage, "kind"));
	return row;
}

unsigned weir_top_draw_stage(weir_screen *screen, unsigned row, const weir_top_model *model,
			     const json_t *stage)
{
	const json_t *classes = weir_top_at(stage, "class");
	row = weir_top_draw_law(screen, row, model, stage) + 1;
	row = draw_totals(screen, row, stage);
	row = draw_pairs(screen, row, "set", weir_top_at(stage, "params"));
	row = draw_pairs(screen, row, "law", weir_top_at(stage, "values")) + 1;
	weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_QUIET,
			"class          offered  let in    shed    p50    p90    p99  target     why");
	for (size_t i = 0; i < json_array_size(classes); i++)
		draw_class(screen, row++, json_array_get(classes, i));
	return row;
}
