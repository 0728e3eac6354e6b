/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_GUARANTEE_H
#define WEIR_CONTROL_GUARANTEE_H

/*
 * A guaranteed rate: a leaky bucket that says whether a request conforms to it. The policing laws keep one
 * per class in front of everything else. What conforms is admitted whatever the load.
 *
 * In any period, at most rate x time + burst requests conform, and of requests that come at the rate or more
 * slowly, evenly spaced, all do.
 *
 * Threads: any thread may take at any time. One atomic word holds the state.
 */

#include "control/bucket.h"

#define WEIR_GUARANTEE_MAX WEIR_BUCKET_RATE_MAX /* requests per second */

typedef struct weir_guarantee {
	double rate_per_s; /* 0: nothing conforms; const after init */
	weir_bucket bucket;
} weir_guarantee;

/*
 * A tenth of a second of the rate; at low rates what a second brings, up to ten requests: with less, random
 * arrivals at the rate would get half of it.
 */
static inline double weir_guarantee_burst(double rate_per_s)
{
	double few = rate_per_s < 10 ? rate_per_s : 10;
	double burst = rate_per_s / 10 > few ? rate_per_s / 10 : few;
	return burst > 1 ? burst : 1;
}

/* The bucket starts full. Rate 0, or one that is no rate: nothing ever conforms. */
static inline void weir_guarantee_init(weir_guarantee *g, double rate_per_s)
{
	const char *wrong;
	g->rate_per_s =
		weir_bucket_init(&g->bucket, rate_per_s, weir_guarantee_burst(rate_per_s), &wrong) == 0
			? rate_per_s
			: 0;
}

/* Whether this many requests conform, all of them. If so they are counted. */
static inline bool weir_guarantee_take_all(weir_guarantee *g, uint64_t now_ns, uint32_t count)
{
	return g->rate_per_s > 0 && weir_bucket_take(&g->bucket, now_ns, count);
}

static inline bool weir_guarantee_take(weir_guarantee *g, uint64_t now_ns)
{
	return weir_guarantee_take_all(g, now_ns, 1);
}

#endif
