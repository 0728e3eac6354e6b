/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's figure 9: the batches of one stage whose output rate goes up and down, and once drops all of a sudden.
 *
 *	batch --law seda|prompt [--seconds S] [--swing S] [--rate R]
 *
 * Requests come at a rate that swings between 40 % and 100 % of --rate, a full swing taking --swing; from 70 % of the time on it is a twentieth of that. After the
 * end prints a line for each tick of the law: time in s, events a second in that tick, the largest batch from then on.
 */
#include <math.h>

#include "world.h"

enum { TICKS = 100000, CAPACITY = 100000, LARGEST = 100, STEP_MS = 2 };

typedef struct tick {
	uint64_t at_ns;
	double rate;
	uint32_t batch;
} tick;

/* Written by the thread that runs the law, read when the world has stopped. */
static tick ticks[TICKS];
static size_t tick_count;
static const weir_batch_law *asked;

static uint32_t watched_size(void *state, const weir_batch_sample *sample)
{
	uint32_t batch = asked->size(state, sample);

	if (tick_count < TICKS && sample->interval_ns > 0)
		ticks[tick_count++] = (tick){
			sample->now_ns, (double)sample->events * 1e9 / (double)sample->interval_ns, batch};
	return batch;
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_done(events[i]);
		free(events[i]);
	}
}

static double rate_at(double now_s, double seconds, double swing_s, double rate)
{
	if (now_s >= 0.7 * seconds)
		return rate / 20;
	return rate * (0.7 - 0.3 * cos(2 * M_PI * now_s / swing_s));
}

static void offer(weir_stage *stage)
{
	weir_event *event = malloc(sizeof(*event));

	BENCH_REQUIRE(event != NULL);
	weir_event_init(event, 0);
	BENCH_REQUIRE(weir_offer(stage, event) == WEIR_ADMITTED);
}

static void run(weir_stage *stage, double seconds, double swing_s, double rate)
{
	uint64_t begin_ns = bench_now_ns();
	double due = 0, before_s = 0, now_s = 0;

	while (now_s < seconds) {
		bench_sleep(STEP_MS / 1e3);
		now_s = (double)(bench_now_ns() - begin_ns) / 1e9;
		for (due += rate_at(now_s, seconds, swing_s, rate) * (now_s - before_s); due >= 1; due--)
			offer(stage);
		before_s = now_s;
	}
}

int main(int argc, char **argv)
{
	asked = strcmp(bench_text(argv, "law", "seda"), "prompt") == 0 ? &weir_batch_prompt
								       : &weir_batch_seda;
	weir_batch_law law = *asked;
	double seconds = bench_number(argv, "seconds", 40);
	bench_world at = bench_world_new(0);

	law.size = watched_size;
	weir_stage *stage = bench_stage(at, (weir_stage_options){.name = "events",
								 .handle = handle,
								 .capacity = CAPACITY,
								 .no_inline = true,
								 .batch = LARGEST,
								 .batch_law = &law});
	BENCH_CHECK(weir_world_start(at.world));
	run(stage, seconds, bench_number(argv, "swing", seconds / 4), bench_number(argv, "rate", 20000));
	bench_world_end(&at);
	for (size_t i = 0; i < tick_count; i++)
		printf("%.3f,%.1f,%u\n", (double)(ticks[i].at_ns - ticks[0].at_ns) / 1e9, ticks[i].rate,
		       ticks[i].batch);
	return 0;
}
