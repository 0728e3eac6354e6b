/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_GUARANTEE_H
#define WEIR_CONTROL_GUARANTEE_H

/*
 * A guaranteed rate: a leaky bucket that says whether a request conforms to it. The policing laws keep one
 * per class in front of everything else. What conforms is admitted whatever the load.
 *
 * In any period, at most rate x time + burst requests conform, and of requests that come at the rate or
 * more slowly, evenly spaced, all do. The rate may change at any time. (weir_bucket is exact for years, but
 * its rate is fixed.)
 *
 * Threads: any thread may call every function at any time. One atomic word holds the state.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_GUARANTEE_MAX 1e9 /* requests per second */

typedef struct weir_guarantee {
	uint32_t spare; /* requests that may come at once, besides the one that is due; const after init */
	_Atomic uint64_t every_ns; /* between two that are due; 0: nothing conforms */
	_Atomic uint64_t next_ns;  /* when the next one is due */
} weir_guarantee;

/*
 * The burst is a tenth of a second of the rate, at least one request. The bucket starts full, unless the
 * clock itself started a moment ago. Rate 0, negative or not a number: nothing ever conforms.
 */
void weir_guarantee_init(weir_guarantee *g, double rate_per_s);
/* A guarantee whose rate is set later, with this burst (at least 1). Until then nothing conforms. */
void weir_guarantee_init_burst(weir_guarantee *g, uint32_t burst);
/* From now on one request is due per so many ns; 0: none. */
void weir_guarantee_every(weir_guarantee *g, uint64_t every_ns);

/* Whether this many requests conform, all of them. If so they are counted. */
bool weir_guarantee_take_all(weir_guarantee *g, uint64_t now_ns, uint32_t count);

static inline bool weir_guarantee_take(weir_guarantee *g, uint64_t now_ns)
{
	return weir_guarantee_take_all(g, now_ns, 1);
}

/* Requests per second that are guaranteed. */
static inline double weir_guarantee_rate(const weir_guarantee *g)
{
	uint64_t every_ns = atomic_load_explicit(&g->every_ns, memory_order_relaxed);
	return every_ns != 0 ? 1e9 / (double)every_ns : 0;
}

#endif
