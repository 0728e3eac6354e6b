/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plot: requests per second, and below it the response times, over the seconds of one run, or of
 * several consecutive ones.
 */
#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/figures.h"
#include "show/chart.h"

enum { RATES, RESPONSE, PANELS };
enum { WIDTH = 800, HEIGHT = 500 };

/* A shorter part of a second says nothing about a rate. */
#define LEAST_SECOND 0.05

/* A second of one of the runs. */
typedef struct point {
	const load_story *story;
	unsigned at;
	load_times times;
} point;

/* All of them, in order; the runs begin at the marks. */
typedef struct story_line {
	const load_story *stories;
	unsigned runs, seconds;
	point *points;
	double *mark_s;
} story_line;

typedef struct curve_source {
	const point *points;
	unsigned which;
} curve_source;

/* ---- values ---- */

enum { OFFERED, OK, GOOD, SHED, FAILED };

static uint64_t count_at(const load_second *second, unsigned which)
{
	switch (which) {
	case OFFERED:
		return load_get(&second->sent);
	case OK:
		return load_get(&second->ended[LOAD_OK]);
	case GOOD:
		return load_get(&second->good);
	case SHED:
		return load_get(&second->ended[LOAD_SHED]);
	default:
		return load_failed_second(second);
	}
}

static double rate_at(const void *of, unsigned at)
{
	const curve_source *from = of;
	const point *one = &from->points[at];
	return (double)count_at(&one->story->tally->second[one->at], from->which) /
	       load_second_length(one->story, one->at);
}

static double time_at(const void *of, unsigned at)
{
	const curve_source *from = of;
	const load_times *times = &from->points[at].times;
	return from->which == 0 ? times->p50 : from->which == 1 ? times->p90 : times->p99;
}

/* The last second is omitted if it is too short, unless there is no other. */
static unsigned seconds_of(const load_story *story)
{
	unsigned seconds = story->tally->seconds;
	return seconds > 1 && load_second_length(story, seconds - 1) < LEAST_SECOND ? seconds - 1 : seconds;
}

static void line_up(story_line *line)
{
	line->seconds = 0;
	for (unsigned run = 0; run < line->runs; run++) {
		const load_story *story = &line->stories[run];
		line->mark_s[run] = line->seconds;
		for (unsigned i = 0; i < seconds_of(story); i++)
			line->points[line->seconds++] =
				(point){story, i, load_times_of_second(&story->tally->second[i])};
	}
}

static bool any_failed(const story_line *line)
{
	for (unsigned run = 0; run < line->runs; run++)
		if (load_failed_group(&line->stories[run].tally->all) > 0)
			return true;
	return false;
}

/* ---- panels ---- */

static void make_rates(weir_chart *on, const story_line *line)
{
	static const char *const names[] = {"offered", "ok", "good (within the target)", "shed",
					    "failed (errors, timeouts, aborted)"};
	bool target = line->stories[0].tally->target_ns != UINT64_MAX;
	on->title = "requests a second";
	for (unsigned i = 0; i < 5 && line->seconds > 0; i++) {
		curve_source from = {.points = line->points, .which = i};
		if (i == FAILED && !any_failed(line))
			continue;
		weir_chart_fill(weir_chart_add(on, i == GOOD && !target ? "good" : names[i]), line->seconds,
				rate_at, &from, false);
	}
	weir_chart_range(on, weir_chart_points(line->seconds));
	on->high *= 1.05;
}

static void make_response(weir_chart *on, const story_line *line)
{
	static const char *const names[] = {"p50", "p90", "p99"};
	char name[64], label[32];
	uint64_t target_ns = line->stories[0].tally->target_ns;
	double target_ms = (double)target_ns / 1e6;
	on->title = "response time of what was ok";
	on->log = true;
	for (unsigned i = 0; i < 3 && line->seconds > 0; i++) {
		curve_source from = {.points = line->points, .which = i};
		weir_chart_fill(weir_chart_add(on, names[i]), line->seconds, time_at, &from, true);
	}
	if (target_ns != UINT64_MAX && target_ms > 0 && line->seconds > 0) {
		snprintf(name, sizeof(name), "target %s",
			 weir_chart_time_label(target_ms, label, sizeof(label)));
		weir_chart_level(weir_chart_add(on, name), target_ms);
	}
	weir_chart_range(on, weir_chart_points(line->seconds));
	on->high *= 1.3;
	on->low = fmax(on->low / 1.3, on->high / 1e6);
}

/* Labels each run with its load, where it begins. */
static void draw_loads(FILE *out, const story_line *line, const weir_chart_frame *in)
{
	char text[32];
	for (unsigned run = 0; run < line->runs && line->seconds > 0; run++) {
		if (line->stories[run].load <= 0)
			continue;
		snprintf(text, sizeof(text), "%.3gx", line->stories[run].load);
		weir_chart_text(out, in->x + in->w * line->mark_s[run] / line->seconds + 3, in->y + 10,
				"start", "tick", text);
	}
}

/* The arrivals in words; of several runs each has its own load. */
static void say_arrivals(const story_line *line, char *ret, size_t size)
{
	const load_story *first = &line->stories[0];
	char text[128];
	if (line->runs > 1 && first->capacity > 0)
		snprintf(text, sizeof(text), "%u runs, at multiples of a capacity of %.6g/s", line->runs,
			 first->capacity);
	else
		snprintf(text, sizeof(text), "%s", first->arrivals != NULL ? first->arrivals : "");
	weir_text_quote(ret, size, text);
}

static void draw(FILE *out, const weir_chart *panels, const story_line *line)
{
	const load_story *first = &line->stories[0];
	weir_chart_times times = {.seconds = line->seconds > 0 ? line->seconds : 1,
				  .points = weir_chart_points(line->seconds),
				  .mark_s = line->mark_s + 1,
				  .marks = line->runs - 1};
	char title[80], words[128];
	weir_text_quote(title, sizeof(title), first->url != NULL ? first->url : "");
	say_arrivals(line, words, sizeof(words));
	weir_chart_open(out, WIDTH, HEIGHT, title);
	weir_chart_text(out, 14, 44, "start", "legend", words);
	for (unsigned i = 0; i < PANELS; i++) {
		weir_chart_frame in = {.x = 64, .y = 106 + 215 * i, .w = 716, .h = 140};
		weir_chart_text(out, 14, in.y - 28, "start", "head", panels[i].title);
		weir_chart_draw(out, &panels[i], &in, &times);
		draw_loads(out, line, &in);
	}
	weir_chart_text(out, 64 + 716, HEIGHT - 6, "end", "tick",
			line->runs > 1 ? "seconds, one run after the other" : "seconds since the start");
	fputs("</svg>\n", out);
}

int load_report_svg(FILE *out, const load_story *stories, unsigned count)
{
	unsigned seconds = 0;
	for (unsigned i = 0; i < count; i++)
		seconds += seconds_of(&stories[i]);
	weir_chart *panels = weir_mem_array(PANELS, sizeof(*panels));
	story_line line = {.stories = stories,
			   .runs = count,
			   .points = weir_mem_array(seconds > 0 ? seconds : 1, sizeof(*line.points)),
			   .mark_s = weir_mem_array(count, sizeof(*line.mark_s))};
	int failed;
	if (panels == NULL || line.points == NULL || line.mark_s == NULL) {
		failed = weir_error_set(-ENOMEM, "out of memory for the plot");
		goto out;
	}
	line_up(&line);
	make_rates(&panels[RATES], &line);
	make_response(&panels[RESPONSE], &line);
	draw(out, panels, &line);
	failed = load_report_end(out);
out:
	weir_mem_free(panels);
	weir_mem_free(line.points);
	weir_mem_free(line.mark_s);
	return failed;
}
