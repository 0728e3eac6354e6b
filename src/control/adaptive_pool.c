/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive` on a pool that several stages share. What is scarce there is the time of the pool's threads, so offers are judged by the work that
 * waits in all stages and goes before them, not by the stage's own queue. Two things must hold:
 *
 *	it starts in time      what goes before it takes no longer than this request may wait (the limit, less what it has spent before)
 *	all can be in time     in overload: what waits in all stages is not more than can be started in time (the pool's bound)
 *
 * With the first alone the parts that stages get depend on their targets. The bound is the same for all, so each stage gets about the same part of what it asks
 * for. While nothing waits before it, a request is let in whatever the percentiles say.
 *
 * The error budget (credit, limit) is that of a queue of its own, a stage and class. Calm or overload is the pool's. Who is let in is answered:
 * the exact test at the turn is left out, since late is better than refused after waiting, and the order has seen to it that those who
 * can be in time are.
 */
#include <math.h>

#include "control/adaptive.h"

#define OVER_FROM 1.05f
#define OVER_FULL 1.20f
#define OVER_PART \
	.3f /* of what may wait: in overload a longer queue gets no more done, it only makes more of them late */

bool adaptive_pool_promising(const adaptive_class *k, const weir_ask *ask, uint64_t spent_ns)
{
	float over = GET(k->over), part = 1 - (1 - OVER_PART) * over;
	if (ask->ahead_ns == 0)
		return true;
	if ((float)ask->ahead_ns > part * adaptive_left(k, GET(k->limit_ns), spent_ns))
		return false;
	return over == 0 || ask->bound_ns == 0 || (float)ask->total_ns <= part * (float)ask->bound_ns;
}

bool adaptive_pool_hopeless(const adaptive_class *k, uint64_t waited_ns)
{
	return waited_ns > 2 * k->target_ns && GET(k->measured_ns) > (float)k->target_ns;
}

/* One quality for the pool; a stage that has little of the work can save little, and keeps nearly all of its quality. */
static void share_quality(adaptive *a, const weir_sample *sample)
{
	double quality = pow(sample->pool_quality, sample->work_share);
	PUT(a->pool_quality, (float)fmax(quality, a->quality_least));
}

void adaptive_pool_tick(adaptive *a, const weir_sample *sample)
{
	if (!sample->shared || a->per_stage) {
		PUT(a->pool_quality, 0);
		return;
	}
	share_quality(a, sample);
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		adaptive_class *k = &a->klass[i];
		float load = (float)sample->pool_load[i];
		PUT(k->load, load);
		PUT(k->over, adaptive_clamp((load - OVER_FROM) / (OVER_FULL - OVER_FROM), 0, 1));
	}
}
