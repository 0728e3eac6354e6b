/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest batch whose cost per event is near the best. Batches pay off if a call has a cost of its
 * own; beyond that they only make the first event of a batch wait for the last.
 *
 * Over the last seconds the law fits cost per event = V + F / batch, where V is the cost of an event and
 * F the cost of a call. The wanted size is the smallest whose cost is within a factor NEAR of that of the
 * largest:
 *
 *  V + F / b <= NEAR (V + F / max)   at   b = F / ((NEAR - 1) V + NEAR F / max)
 *
 * A line needs two points, so occasionally a tick runs with half or twice the size. Where queues are so
 * short that batches never fill, the size has no effect and nothing can be learnt: it stays.
 *
 *  queue longer than LONG batches   twice the size: throughput is what is missing
 *  at most one batch, CALM ticks    the wanted size
 *  between                          unchanged
 */
#include <math.h>

#include <weir/law.h>

#include "control/clamp.h"

#define NEAR  1.1
#define KEEP  0.98 /* decay of the sums per tick: 2.5 s */
#define LONG  4    /* batches in the queue */
#define CALM  3    /* ticks */
#define PROBE 16   /* ticks between probes */

typedef struct batch_prompt {
	double size;   /* 0: not decided yet */
	uint32_t calm; /* ticks in a row with a short queue */
	uint32_t ticks;
	/* Decaying sums over ticks; x is 1 / batch, y the cost of an event in ns. */
	double n, x, y, xx, xy;
} batch_prompt;

static void prompt_init(void *state)
{
	*(batch_prompt *)state = (batch_prompt){0};
}

static void learn(batch_prompt *p, const weir_batch_sample *sample)
{
	if (sample->events == 0 || sample->batches == 0)
		return;
	double x = (double)sample->batches / (double)sample->events;
	double y = (double)sample->busy_ns / (double)sample->events;
	p->n = p->n * KEEP + 1;
	p->x = p->x * KEEP + x;
	p->y = p->y * KEEP + y;
	p->xx = p->xx * KEEP + x * x;
	p->xy = p->xy * KEEP + x * y;
}

/*
 * The smallest size near the best, by the fitted line; 0: no result, because all batches had the same
 * size (within 1 %).
 */
static double wanted(const batch_prompt *p, uint32_t max)
{
	double spread = p->n * p->xx - p->x * p->x;
	if (spread <= 1e-4 * p->x * p->x)
		return 0;
	double call = fmax((p->n * p->xy - p->x * p->y) / spread, 0);
	double event = fmax((p->y - call * p->x) / p->n, 0);
	double near = (NEAR - 1) * event + NEAR * call / max;
	return near > 0 ? fmax(call / near, 1) : 0;
}

static void adapt(batch_prompt *p, const weir_batch_sample *sample)
{
	p->calm = sample->waiting <= p->size ? p->calm + 1 : 0;
	double want = p->calm >= CALM ? wanted(p, sample->max) : 0;
	if (sample->waiting > LONG * p->size)
		p->size *= 2;
	else if (want > 0)
		p->size = want;
	p->size = fmin(fmax(p->size, sample->min), sample->max);
}

/* Tries another size from time to time, smaller and larger in turn; never while the queue is long. */
static double probe(batch_prompt *p, const weir_batch_sample *sample)
{
	p->ticks++;
	if (p->ticks % PROBE != 0 || sample->waiting > LONG * p->size)
		return p->size;
	return p->ticks / PROBE % 2 == 0 ? p->size / 2 : p->size * 2;
}

static uint32_t prompt_size(void *state, const weir_batch_sample *sample)
{
	batch_prompt *p = state;
	if (p->size == 0)
		p->size = sample->batch;
	learn(p, sample);
	adapt(p, sample);
	return weir_clamp_up(probe(p, sample), sample->min, sample->max);
}

const weir_batch_law weir_batch_prompt = {
	.name = "prompt",
	.state_bytes = sizeof(batch_prompt),
	.tick_ns = 50 * WEIR_NS_PER_MS,
	.init = prompt_init,
	.size = prompt_size,
};
