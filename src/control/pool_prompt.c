/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a step of blocking load within a few ticks of 10 ms, and lets go slowly.
 *
 * Two estimates of the threads needed; the larger counts:
 *
 * 1. Little's law over the last second or so: arrival rate x mean time in the handler = threads busy on average, and some more,
 *    as arrivals come in bunches: twice the square root keeps the share that must wait small at any size. Steady, but slow.
 * 2. The queue, when events have waited for PATIENCE although all threads are busy: the busy ones plus as many as would
 *    start what waits within DRAIN, at the speed of the last few ticks. While handlers block for longer than that, that is one thread for each
 *    event that waits; this needs no handler to have finished, so a step to long blocking is followed at once.
 *
 * The pool grows to the need at once. It shrinks only to the largest need of the last HOLD or two, in steps, and
 * only while a thread is idle: a need that comes and goes within seconds moves nothing. Idle threads are cheap, a
 * pool that breathes is not.
 *
 * Known limit: where handlers compute rather than block, more threads make each slower and the need grows to max.
 */
#include <math.h>

#include <weir/law.h>

#include "control/clamp.h"

#define TICK     (10 * WEIR_NS_PER_MS)
#define MEMORY   (1 * WEIR_NS_PER_S) /* of the averages */
#define RECENT   (30 * WEIR_NS_PER_MS)
#define PATIENCE (5 * WEIR_NS_PER_MS)
#define DRAIN    (10 * WEIR_NS_PER_MS)
#define HOLD     (3 * WEIR_NS_PER_S)
#define STEP     (100 * WEIR_NS_PER_MS) /* between two steps down */

typedef struct prompt {
	/* Sums that fade, with MEMORY and with RECENT. */
	double arrived, started, busy_ns;
	double recent_started, recent_busy_ns;
	/* The largest need in this stretch of HOLD and in the one before. */
	double peak, peak_before;
	uint64_t hold_until_ns;
	uint64_t step_after_ns;
} prompt;

static void prompt_init(void *state)
{
	*(prompt *)state = (prompt){0};
}

/* How much of a sum is left after an interval. */
static double fade(double memory_ns, const weir_pool_sample *sample)
{
	return memory_ns / (memory_ns + (double)sample->interval_ns);
}

static void remember(prompt *p, const weir_pool_sample *sample)
{
	double keep = fade(MEMORY, sample), keep_recent = fade(RECENT, sample);
	p->arrived = p->arrived * keep + (double)sample->arrived;
	p->started = p->started * keep + (double)sample->started;
	p->busy_ns = p->busy_ns * keep + (double)sample->busy_ns;
	p->recent_started = p->recent_started * keep_recent + (double)sample->started;
	p->recent_busy_ns = p->recent_busy_ns * keep_recent + (double)sample->busy_ns;
}

/* Threads busy on average if all that arrives is to be handled, and what bunches need on top. */
static double need_by_rate(const prompt *p)
{
	double busy = p->busy_ns / MEMORY;
	/* While they do not keep up, what is handled says too little. With hardly any starts the ratio says nothing. */
	if (p->started >= 1 && p->arrived > p->started)
		busy *= p->arrived / p->started;
	return busy + 2 * sqrt(busy);
}

static double need_by_queue(const prompt *p, const weir_pool_sample *sample)
{
	if (sample->waiting == 0 || sample->busy < sample->threads || sample->oldest_ns < PATIENCE)
		return 0;
	double mean_ns = p->recent_busy_ns / fmax(p->recent_started, 1);
	double share = fmin(mean_ns / DRAIN, 1); /* of a thread, to start one event in time */
	return sample->busy + fmax(sample->waiting * share, 1);
}

static void note_peak(prompt *p, double need, uint64_t now_ns)
{
	if (now_ns >= p->hold_until_ns) {
		p->peak_before = p->peak;
		p->peak = 0;
		p->hold_until_ns = now_ns + HOLD;
	}
	p->peak = fmax(p->peak, need);
}

/* One step down towards what was needed lately: an eighth of the way, at least one thread. */
static uint32_t let_go(prompt *p, const weir_pool_sample *sample, uint32_t needed)
{
	bool idle = sample->busy < sample->threads;
	if (sample->threads <= needed || !idle || sample->now_ns < p->step_after_ns)
		return sample->threads;
	p->step_after_ns = sample->now_ns + STEP;
	uint32_t step = (sample->threads - needed) / 8;
	return sample->threads - (step > 0 ? step : 1);
}

static uint32_t prompt_size(void *state, const weir_pool_sample *sample)
{
	prompt *p = state;
	remember(p, sample);
	double need = fmax(need_by_rate(p), need_by_queue(p, sample));
	note_peak(p, need, sample->now_ns);
	uint32_t grown = weir_clamp_up(need, sample->min, sample->max);
	if (grown > sample->threads)
		return grown;
	uint32_t lately = weir_clamp_up(fmax(p->peak, p->peak_before), sample->min, sample->max);
	return weir_clamp_up(let_go(p, sample, lately), sample->min, sample->max);
}

const weir_pool_law weir_pool_prompt = {
	.name = "prompt",
	.state_bytes = sizeof(prompt),
	.tick_ns = TICK,
	.init = prompt_init,
	.size = prompt_size,
};
