/* SPDX-License-Identifier: Apache-2.0 */
/* The plot: requests a second, and below it the response times, over the seconds of the run. */
#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/figures.h"
#include "show/chart.h"

enum { RATES, RESPONSE, PANELS };
enum { WIDTH = 800, HEIGHT = 500 };

/* Less of a second than this says nothing about a rate. */
#define LEAST_SECOND 0.05

typedef struct source {
	const load_story *story;
	const load_times *times; /* by second */
	unsigned which;
} source;

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
	const source *from = of;
	return (double)count_at(&from->story->tally->second[at], from->which) /
	       load_second_length(from->story, at);
}

static double time_at(const void *of, unsigned at)
{
	const source *from = of;
	const load_times *times = &from->times[at];
	return from->which == 0 ? times->p50 : from->which == 1 ? times->p90 : times->p99;
}

/* What is too short at the end is left out, unless there is nothing else. */
static unsigned seconds_of(const load_story *story)
{
	unsigned seconds = story->tally->seconds;
	return seconds > 1 && load_second_length(story, seconds - 1) < LEAST_SECOND ? seconds - 1 : seconds;
}

/* ---- panels ---- */

static void make_rates(weir_chart *on, const load_story *story, unsigned seconds)
{
	static const char *const names[] = {"offered", "ok", "good (within the target)", "shed",
					    "failed (errors, timeouts, aborted)"};
	bool target = story->tally->target_ns != UINT64_MAX;
	on->title = "requests a second";
	for (unsigned i = 0; i < 5 && seconds > 0; i++) {
		source from = {.story = story, .which = i};
		if (i == FAILED && load_failed_group(&story->tally->all) == 0)
			continue;
		weir_chart_fill(weir_chart_add(on, i == GOOD && !target ? "good" : names[i]), seconds,
				rate_at, &from, false);
	}
	weir_chart_range(on, weir_chart_points(seconds));
	on->high *= 1.05;
}

static void make_response(weir_chart *on, const load_story *story, const load_times *times, unsigned seconds)
{
	static const char *const names[] = {"p50", "p90", "p99"};
	char name[64], label[32];
	double target_ms = (double)story->tally->target_ns / 1e6;
	on->title = "response time of what was ok";
	on->log = true;
	for (unsigned i = 0; i < 3 && seconds > 0; i++) {
		source from = {.story = story, .times = times, .which = i};
		weir_chart_fill(weir_chart_add(on, names[i]), seconds, time_at, &from, true);
	}
	if (story->tally->target_ns != UINT64_MAX && target_ms > 0 && seconds > 0) {
		snprintf(name, sizeof(name), "target %s",
			 weir_chart_time_label(target_ms, label, sizeof(label)));
		weir_chart_level(weir_chart_add(on, name), target_ms);
	}
	weir_chart_range(on, weir_chart_points(seconds));
	on->high *= 1.3;
	on->low = fmax(on->low / 1.3, on->high / 1e6);
}

static void draw(FILE *out, const weir_chart *panels, const load_story *story, unsigned seconds)
{
	weir_chart_times times = {.seconds = seconds > 0 ? seconds : 1, .points = weir_chart_points(seconds)};
	char title[80], words[128];
	weir_text_quote(title, sizeof(title), story->url != NULL ? story->url : "");
	weir_text_quote(words, sizeof(words), story->arrivals != NULL ? story->arrivals : "");
	weir_chart_open(out, WIDTH, HEIGHT, title);
	weir_chart_text(out, 14, 44, "start", "legend", words);
	for (unsigned i = 0; i < PANELS; i++) {
		weir_chart_frame in = {.x = 64, .y = 106 + 215 * i, .w = 716, .h = 140};
		weir_chart_text(out, 14, in.y - 28, "start", "head", panels[i].title);
		weir_chart_draw(out, &panels[i], &in, &times);
	}
	weir_chart_text(out, 64 + 716, HEIGHT - 6, "end", "tick", "seconds since the start");
	fputs("</svg>\n", out);
}

int load_report_svg(FILE *out, const load_story *story)
{
	unsigned seconds = seconds_of(story);
	weir_chart *panels = weir_mem_array(PANELS, sizeof(*panels));
	load_times *times = weir_mem_array(seconds > 0 ? seconds : 1, sizeof(*times));
	int failed =
		panels == NULL || times == NULL ? weir_error_set(-ENOMEM, "out of memory for the plot") : 0;
	for (unsigned i = 0; failed == 0 && i < seconds; i++)
		times[i] = load_times_of_second(&story->tally->second[i]);
	if (failed == 0) {
		make_rates(&panels[RATES], story, seconds);
		make_response(&panels[RESPONSE], story, times, seconds);
		draw(out, panels, story, seconds);
		failed = load_report_end(out);
	}
	weir_mem_free(panels);
	weir_mem_free(times);
	return failed;
}
