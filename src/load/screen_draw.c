/* SPDX-License-Identifier: Apache-2.0 */
#include "load/screen_draw.h"

#include <math.h>
#include <string.h>

#include "load/figures.h"
#include "show/number.h"

#define MINUTE   60u
#define LABEL    9u
#define COLUMN   8u
#define ROOMY    18u /* number of rows from which the parts are separated by empty ones */
#define NOW_ROOM 24u /* to the right of a sparkline */

/* What the parts need; computed once per picture. */
typedef struct sight {
	const load_story *story;
	const load_tally *tally;
	const load_second *now; /* the last complete second; NULL: there is none */
	load_times now_times;
	bool behind, shorted; /* behind: the generator; shorted: of connections */
} sight;

static sight look(const load_story *story)
{
	int last = load_last_second(story);
	sight of = {.story = story,
		    .tally = story->tally,
		    .behind = load_fell_behind(story),
		    .shorted = load_ran_short(story)};
	if (last >= 0) {
		of.now = &story->tally->second[last];
		of.now_times = load_times_of_second(of.now);
	}
	return of;
}

/* ---- progress ---- */

static void draw_head(weir_screen *screen, unsigned row, const load_story *story)
{
	char passed[WEIR_NUMBER], planned[WEIR_NUMBER], text[3 * WEIR_NUMBER];
	weir_number_time((double)story->length_ns / 1e6, passed);
	if (story->planned_ns == UINT64_MAX)
		snprintf(text, sizeof(text), "%s, until it is stopped", passed);
	else
		snprintf(text, sizeof(text), "%s of %s", passed,
			 weir_number_time((double)story->planned_ns / 1e6, planned));
	unsigned column = weir_screen_put(screen, row, 1, screen->columns, WEIR_TONE_TITLE, "weir load ");
	unsigned length = (unsigned)strlen(text);
	unsigned end = screen->columns > length + 2 ? screen->columns - length - 2 : 0;
	if (end > column)
		weir_screen_put(screen, row, column, end - column, WEIR_TONE_PLAIN,
				story->url != NULL ? story->url : "");
	weir_screen_put_right(screen, row, 0, screen->columns - 1, WEIR_TONE_TITLE, text);
}

static void draw_progress(weir_screen *screen, unsigned row, const load_story *story)
{
	unsigned width = screen->columns > 20 ? screen->columns - 8 : 0;
	double part = (double)story->length_ns / (double)story->planned_ns;
	if (story->planned_ns == UINT64_MAX || story->planned_ns == 0)
		return;
	part = fmin(part, 1);
	for (unsigned i = 0; i < width; i++) {
		bool full = i < (unsigned)(part * width + .5);
		weir_screen_sign(screen, row, 1 + i, full ? WEIR_TONE_GOOD : WEIR_TONE_QUIET,
				 full ? 0x2588 : 0xb7, full ? '#' : '.');
	}
	weir_screen_printf(screen, row, width + 2, WEIR_TONE_PLAIN, "%3.0f%%", part * 100);
}

/* ---- rates ---- */

static void put_cell(weir_screen *screen, unsigned row, unsigned at, weir_tone tone, const char *text)
{
	/* A truncated number would be another number. */
	if (LABEL + COLUMN * (at + 1) <= screen->columns)
		weir_screen_put_right(screen, row, LABEL + COLUMN * at, COLUMN, tone, text);
}

static void put_number(weir_screen *screen, unsigned row, unsigned at, weir_tone tone, double number)
{
	char text[16];
	put_cell(screen, row, at, number > 0 ? tone : WEIR_TONE_PLAIN,
		 weir_screen_count(text, sizeof(text), number));
}

static void draw_counts(weir_screen *screen, unsigned row, const char *label, double asked,
			const double counts[6])
{
	static const weir_tone tones[6] = {WEIR_TONE_PLAIN, WEIR_TONE_PLAIN, WEIR_TONE_GOOD,
					   WEIR_TONE_SHED,  WEIR_TONE_BAD,   WEIR_TONE_BAD};
	weir_screen_put(screen, row, 1, LABEL, WEIR_TONE_QUIET, label);
	put_number(screen, row, 0, WEIR_TONE_PLAIN, asked > 0 ? asked : (double)NAN);
	for (unsigned i = 0; i < 6; i++)
		put_number(screen, row, 1 + i, tones[i], counts[i]);
}

static unsigned draw_rates(weir_screen *screen, unsigned row, const sight *of)
{
	static const char *const heads[] = {"asked", "sent", "ok", "good", "shed", "failed", "late", "open"};
	const load_group *all = &of->tally->all;
	double seconds = load_seconds(of->story);
	for (unsigned i = 0; i < 8; i++)
		put_cell(screen, row, i, WEIR_TONE_QUIET, heads[i]);
	row++;
	if (of->now != NULL) {
		const double now[6] = {
			(double)load_get(&of->now->sent),    (double)load_get(&of->now->ended[LOAD_OK]),
			(double)load_get(&of->now->good),    (double)load_get(&of->now->ended[LOAD_SHED]),
			(double)load_failed_second(of->now), (double)load_get(&of->now->late)};
		draw_counts(screen, row, "now /s", of->story->asked_rate, now);
		put_number(screen, row, 7, WEIR_TONE_PLAIN, (double)load_get(&of->now->open));
	} else {
		weir_screen_put(screen, row, 1, screen->columns, WEIR_TONE_QUIET, "no second is over yet");
	}
	const double mean[6] = {
		(double)load_get(&all->sent) / seconds,   (double)load_get(&all->ended[LOAD_OK]) / seconds,
		(double)load_get(&all->good) / seconds,   (double)load_get(&all->ended[LOAD_SHED]) / seconds,
		(double)load_failed_group(all) / seconds, (double)load_get(&all->late) / seconds};
	draw_counts(screen, row + 1, "mean /s", 0, mean);
	return row + 2;
}

/* ---- times ---- */

static void draw_times(weir_screen *screen, unsigned row, const char *label, load_times times,
		       double target_ms)
{
	const double all[6] = {times.mean, times.p50, times.p90, times.p99, times.p99_9, times.max};
	char text[16];
	weir_screen_put(screen, row, 1, LABEL, WEIR_TONE_QUIET, label);
	for (unsigned i = 0; i < 6; i++)
		put_cell(screen, row, i,
			 times.count > 0 && all[i] > target_ms ? WEIR_TONE_BAD : WEIR_TONE_PLAIN,
			 weir_screen_time(text, sizeof(text), times.count > 0 ? all[i] * 1e6 : (double)NAN));
}

static double target_ms(const load_tally *tally)
{
	return tally->target_ns != UINT64_MAX ? (double)tally->target_ns / 1e6 : INFINITY;
}

static unsigned draw_latency(weir_screen *screen, unsigned row, const sight *of)
{
	static const char *const heads[] = {"mean", "p50", "p90", "p99", "p99.9", "max"};
	for (unsigned i = 0; i < 6; i++)
		put_cell(screen, row, i, WEIR_TONE_QUIET, heads[i]);
	row++;
	draw_times(screen, row++, "now", of->now_times, target_ms(of->tally));
	draw_times(screen, row++, "in all", load_times_of_group(&of->tally->all), target_ms(of->tally));
	return row;
}

/* ---- the last minute ---- */

typedef double minute_value(const load_second *second);

static double good_of(const load_second *second)
{
	return (double)load_get(&second->good);
}

static double shed_of(const load_second *second)
{
	return (double)load_get(&second->ended[LOAD_SHED]);
}

static double p90_of(const load_second *second)
{
	load_times times = load_times_of_second(second);
	return times.count > 0 ? times.p90 : (double)NAN;
}

static void draw_minute(weir_screen *screen, unsigned row, const char *label, const sight *of,
			minute_value *value, double top, const char *now)
{
	double ring[MINUTE];
	int last = load_last_second(of->story);
	unsigned room = screen->columns > LABEL + NOW_ROOM ? screen->columns - LABEL - NOW_ROOM : 10;
	unsigned width = room < MINUTE ? room : MINUTE;
	for (unsigned i = 0; i < MINUTE; i++) {
		int second = last - (int)(MINUTE - 1) + (int)i;
		ring[i] = second >= 0 ? value(&of->tally->second[second]) : (double)NAN;
	}
	weir_screen_put(screen, row, 1, LABEL, WEIR_TONE_QUIET, label);
	weir_screen_spark(screen, row, LABEL + 1, width, ring, MINUTE, 0, top);
	weir_screen_put(screen, row, LABEL + width + 2, screen->columns, WEIR_TONE_PLAIN, now);
}

static unsigned draw_minutes(weir_screen *screen, unsigned row, const sight *of)
{
	char number[16], target[16], text[64];
	bool some = of->now != NULL;
	double most = target_ms(of->tally);
	snprintf(text, sizeof(text), "%s/s",
		 weir_screen_count(number, sizeof(number), some ? good_of(of->now) : (double)NAN));
	draw_minute(screen, row++, "good", of, good_of, 0, text);
	snprintf(text, sizeof(text), "%s%s%s",
		 weir_screen_time(number, sizeof(number), some ? p90_of(of->now) * 1e6 : (double)NAN),
		 isinf(most) ? "" : ", target ",
		 isinf(most) ? "" : weir_screen_time(target, sizeof(target), most * 1e6));
	draw_minute(screen, row++, "p90", of, p90_of, isinf(most) ? 0 : most, text);
	snprintf(text, sizeof(text), "%s/s",
		 weir_screen_count(number, sizeof(number), some ? shed_of(of->now) : (double)NAN));
	draw_minute(screen, row++, "shed", of, shed_of, 0, text);
	return row;
}

/* ---- errors and classes ---- */

static unsigned draw_errors(weir_screen *screen, unsigned row, const sight *of)
{
	const load_tally *tally = of->tally;
	const _Atomic uint64_t *ended = tally->all.ended;
	unsigned column = LABEL + 1;
	char number[16];
	if (load_failed_group(&tally->all) == 0)
		return row;
	weir_screen_put(screen, row, 1, LABEL, WEIR_TONE_QUIET, "failed");
	for (unsigned i = 0; i < LOAD_ERRORS; i++)
		if (load_get(&tally->errors[i]) > 0)
			column = weir_screen_printf(screen, row, column, WEIR_TONE_BAD, "%s %s  ",
						    load_error_name((load_error)i),
						    weir_screen_count(number, sizeof(number),
								      (double)load_get(&tally->errors[i])));
	if (load_get(&ended[LOAD_TIMEOUT]) > 0)
		column = weir_screen_printf(
			screen, row, column, WEIR_TONE_BAD, "timeout %s  ",
			weir_screen_count(number, sizeof(number), (double)load_get(&ended[LOAD_TIMEOUT])));
	if (load_get(&ended[LOAD_ABORTED]) > 0)
		weir_screen_printf(
			screen, row, column, WEIR_TONE_BAD, "aborted %s",
			weir_screen_count(number, sizeof(number), (double)load_get(&ended[LOAD_ABORTED])));
	return row + 1;
}

static unsigned draw_behind(weir_screen *screen, unsigned row, const sight *of)
{
	char part[WEIR_NUMBER], most[WEIR_NUMBER];
	const load_tally *tally = of->tally;
	double sent = (double)(load_get(&tally->all.sent) + load_get(&tally->unsent));
	double late = (double)load_get(of->behind ? &tally->behind : &tally->all.late);
	if (!of->behind && !of->shorted)
		return row;
	weir_screen_printf(screen, row, 1, WEIR_TONE_BAD, "!!! %s: %s late, by up to %s",
			   of->behind ? "THE GENERATOR FALLS BEHIND" : "NO CONNECTION IS FREE",
			   weir_number_share(sent > 0 ? late / sent : 0, part),
			   weir_number_time(load_latest_ms(of->story), most));
	return row + 1;
}

static void draw_class(weir_screen *screen, unsigned row, const load_group *group, const char *name,
		       double seconds)
{
	char text[16];
	load_times times = load_times_of_group(group);
	const double shown[] = {times.p50, times.p90, times.p99};
	weir_screen_put(screen, row, 1, LABEL + COLUMN - 1, WEIR_TONE_TITLE, name);
	put_number(screen, row, 1, WEIR_TONE_PLAIN, (double)load_get(&group->sent) / seconds);
	put_number(screen, row, 2, WEIR_TONE_PLAIN, (double)load_get(&group->ended[LOAD_OK]) / seconds);
	put_number(screen, row, 3, WEIR_TONE_GOOD, (double)load_get(&group->good) / seconds);
	put_number(screen, row, 4, WEIR_TONE_SHED, (double)load_get(&group->ended[LOAD_SHED]) / seconds);
	for (unsigned i = 0; i < 3; i++)
		put_cell(
			screen, row, 5 + i, WEIR_TONE_PLAIN,
			weir_screen_time(text, sizeof(text), times.count > 0 ? shown[i] * 1e6 : (double)NAN));
}

static void draw_classes(weir_screen *screen, unsigned row, const sight *of)
{
	static const char *const heads[] = {"sent/s", "ok/s", "good/s", "shed/s", "p50", "p90", "p99"};
	char plain[16];
	if (of->tally->classes < 2)
		return;
	weir_screen_put(screen, row, 1, LABEL, WEIR_TONE_QUIET, "class");
	for (unsigned i = 0; i < 7; i++)
		put_cell(screen, row, 1 + i, WEIR_TONE_QUIET, heads[i]);
	for (unsigned i = 0; i < of->tally->classes && row + 1 + i < screen->rows; i++)
		draw_class(screen, row + 1 + i, &of->tally->klass[i],
			   load_name(of->story->class_names, i, plain), load_seconds(of->story));
}

void load_screen_picture(weir_screen *screen, const load_story *story)
{
	sight of = look(story);
	unsigned gap = screen->rows >= ROOMY ? 1 : 0, row = 0;
	draw_head(screen, row++, story);
	weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_QUIET,
			story->arrivals != NULL ? story->arrivals : "");
	draw_progress(screen, row++, story);
	row = draw_behind(screen, row, &of) + gap;
	row = draw_rates(screen, row, &of) + gap;
	row = draw_latency(screen, row, &of) + gap;
	row = draw_minutes(screen, row, &of);
	row = draw_errors(screen, row, &of) + gap;
	draw_classes(screen, row, &of);
}

/* ---- without a terminal ---- */

void load_screen_line(FILE *out, const load_story *story, unsigned second)
{
	static const char *const names[] = {"sent", "ok", "good", "shed", "failed", "late", "open"};
	const load_second *now = &story->tally->second[second];
	load_times times = load_times_of_second(now);
	const uint64_t counts[] = {load_get(&now->sent),    load_get(&now->ended[LOAD_OK]),
				   load_get(&now->good),    load_get(&now->ended[LOAD_SHED]),
				   load_failed_second(now), load_get(&now->late),
				   load_get(&now->open)};
	char a[16], b[16], c[16];
	fprintf(out, "%us", second + 1);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		fprintf(out, "  %s %llu", names[i], (unsigned long long)counts[i]);
	if (times.count > 0)
		fprintf(out, "  p50 %s  p90 %s  p99 %s", weir_screen_time(a, sizeof(a), times.p50 * 1e6),
			weir_screen_time(b, sizeof(b), times.p90 * 1e6),
			weir_screen_time(c, sizeof(c), times.p99 * 1e6));
	fputc('\n', out);
}
