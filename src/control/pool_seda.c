/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's thread pool controller: every 2 s, adds one thread if a queue holds more than 100 events; a
 * thread that has been idle for 5 s ends. Slow by design; kept to repeat the paper's experiments.
 */
#include <weir/law.h>

#include "control/clamp.h"

#define QUEUE_LONG 100
#define IDLE_LONG  (5 * WEIR_NS_PER_S)

static void seda_init(void *state)
{
}

static uint32_t seda_size(void *state, const weir_pool_sample *sample)
{
	double threads = sample->threads;
	if (sample->max_queue > QUEUE_LONG)
		threads += 1;
	else if (sample->idle_ns >= IDLE_LONG)
		threads -= 1;
	return weir_clamp_up(threads, sample->min, sample->max);
}

const weir_pool_law weir_pool_seda = {
	.name = "seda",
	.state_bytes = 0,
	.tick_ns = 2 * WEIR_NS_PER_S,
	.init = seda_init,
	.size = seda_size,
};
