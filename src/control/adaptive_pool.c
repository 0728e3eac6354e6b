/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive` in a pool that several stages share. The scarce resource there is the time of the pool's
 * threads. So offers are judged by the work in all stages that goes before them, not by the stage's own
 * queue. Two conditions must hold:
 *
 *  it starts in time    the work before it takes no longer than this request may wait (the limit, less
 *                       the time it has already spent)
 *  all can be in time   in overload: the work waiting in all stages is no more than can be started in
 *                       time (the pool's bound)
 *
 * With the first condition alone, the share that a stage gets would depend on its target. The bound is
 * the same for all, so each stage gets about the same share of what it asks for. While nothing waits
 * before a request, it is admitted whatever the percentiles say.
 *
 * A stage that can use only a part of the pool has a queue of its own before it, and goes by that. It heeds
 * the second condition all the same: what it lets in may go on to other stages of the pool.
 *
 * The error budget (credit, limit) is kept per stage and class, as for a queue of its own. Calm or
 * overload is decided for the pool. An admitted request is always answered. The exact test at the turn is
 * left out: a late answer is better than a refusal after waiting, and the order has already favoured
 * those that can be in time.
 */
#include <math.h>

#include "control/adaptive.h"

#define OVER_FROM 1.05f
#define OVER_FULL 1.20f
/* Part of the allowed wait: in overload a longer queue completes no more, it only makes more late. */
#define OVER_PART .3f

bool adaptive_pool_spare(adaptive_class *k, const weir_ask *ask)
{
	float over = GET(k->over), most = (1 - (1 - OVER_PART) * over) * (float)ask->bound_ns;
	if (over == 0 || ask->bound_ns == 0 || (float)ask->total_ns <= most)
		return true;
	weir_refusal_note(&k->refused, (double)ask->total_ns, (double)most);
	return false;
}

bool adaptive_pool_promising(adaptive_class *k, const weir_ask *ask, uint64_t spent_ns)
{
	float part = 1 - (1 - OVER_PART) * GET(k->over),
	      most = part * adaptive_left(k, GET(k->limit_ns), spent_ns);
	if (ask->ahead_ns == 0)
		return true;
	if ((float)ask->ahead_ns <= most)
		return adaptive_pool_spare(k, ask);
	adaptive_note(&k->refused, k, (double)spent_ns, (double)ask->ahead_ns, (double)most);
	return false;
}

bool adaptive_pool_hopeless(const adaptive_class *k, uint64_t waited_ns)
{
	return waited_ns > 2 * k->target_ns && GET(k->measured_ns) > (float)k->target_ns;
}

/*
 * The pool has one quality. A stage with little of the work can save little, so it keeps nearly all of
 * its quality.
 */
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
