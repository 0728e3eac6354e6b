/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's batching controller: searches for the smallest batch that sustains the output rate. It starts at
 * the largest, shrinks while the moving average of the rate stays near the best, grows a little when it
 * falls, and starts over when it changes abruptly.
 */
#include <math.h>

#include <weir/law.h>

#include "control/clamp.h"

#define KEEP   0.5 /* weight of the past in the moving average, per tick */
#define FACTOR 1.2
#define HOLDS  0.9 /* part of the best rate that counts as no worse */
#define DROP   0.2 /* below this part, or above JUMP, the load is a different one */
#define JUMP   2.0

typedef struct seda {
	double batch; /* 0: nothing measured yet */
	double rate;  /* events per s, moving average */
	double best;
} seda;

static void seda_init(void *state)
{
	*(seda *)state = (seda){0};
}

static void start_over(seda *s, const weir_batch_sample *sample)
{
	s->batch = sample->max;
	s->best = s->rate;
}

static void adapt(seda *s, const weir_batch_sample *sample)
{
	if (s->rate < DROP * s->best || s->rate >= JUMP * s->best) {
		start_over(s, sample);
		return;
	}
	s->batch = s->rate >= HOLDS * s->best ? s->batch / FACTOR : s->batch * FACTOR;
	s->batch = fmin(fmax(s->batch, sample->min), sample->max);
	s->best = fmax(s->best, s->rate);
}

static uint32_t seda_size(void *state, const weir_batch_sample *sample)
{
	seda *s = state;
	double rate = (double)sample->events * 1e9 / (double)(sample->interval_ns ? sample->interval_ns : 1);
	if (s->batch == 0) {
		s->rate = rate;
		start_over(s, sample);
	} else {
		s->rate = KEEP * s->rate + (1 - KEEP) * rate;
		adapt(s, sample);
	}
	return weir_clamp_up(s->batch, sample->min, sample->max);
}

const weir_batch_law weir_batch_seda = {
	.name = "seda",
	.state_bytes = sizeof(seda),
	.tick_ns = 100 * WEIR_NS_PER_MS,
	.init = seda_init,
	.size = seda_size,
};
