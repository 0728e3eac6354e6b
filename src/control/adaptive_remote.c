/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default law in front of a remote backend whose workers, queue and discipline are unknown. The user
 * gives a percentile and a time.
 *
 *  admit    admits everything while there is no evidence that the backend is saturated; then at most as
 *           many as fit: by Little's law, the number inside (here and in the backend) bounds the
 *           response time
 *  limit    how many the backend gets at once; the others wait here, where they can be ordered by class
 *  start    notes how many requests it meets in the backend; it refuses none: an admitted request is
 *           answered
 *  settle   learns from the answer: slow or not, late or not, and how many completed during its stay
 *  tick     computes the numbers that the other hooks only compare with
 *
 * This file has the parameters and the table of hooks; remote.h says where the hooks are.
 *
 * One state serves all threads. Invariants: each event that was counted in is counted out exactly once;
 * `limit` is never 0.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "control/remote.h"

#define MINIMUM_MAX   .5
#define MINIMUM_USUAL .01

const weir_remote_tuning weir_remote_usual = {
	.first = 16,
	.slow = 1.5,
	.sure = 3,
	.base = 256,
	.margin = .75,
	.credit = 128,
	.headroom = .1,
	.own = 5,
	.grow = 1.3,
	.window = .5,
	.enough = 30,
	.lift_s = 2,
	.lift = 10,
	.step = .05,
};

/* ---- parameters ---- */

static const weir_key params_table[] = {
	WEIR_KEY("percentile", PERCENTILE, weir_adaptive_remote_params, percentile, NULL,
		 "The share of the answers that should come within the target", .min = .5, .max = .999),
	WEIR_KEY("target", TIME, weir_adaptive_remote_params, target_ns, NULL,
		 "The response time to hold, with waiting. Other classes than 0: by default as the class "
		 "above",
		 .flags = WEIR_KEY_PER_CLASS | WEIR_KEY_REQUIRED, .min = (double)WEIR_REMOTE_TARGET_MIN_NS,
		 .max = (double)WEIR_REMOTE_TARGET_MAX_NS),
	WEIR_KEY("minimum", NUMBER, weir_adaptive_remote_params, minimum, NULL,
		 "The share of the starts that a class keeps however many requests of higher classes come",
		 .flags = WEIR_KEY_PER_CLASS, .max = MINIMUM_MAX),
	WEIR_KEY("guaranteed", RATE, weir_adaptive_remote_params, guaranteed_per_s, NULL,
		 "The rate up to which requests of the class are admitted whatever the load",
		 .flags = WEIR_KEY_PER_CLASS, .max = WEIR_GUARANTEE_MAX),
	WEIR_KEY("quality_min", NUMBER, weir_adaptive_remote_params, quality_min, NULL,
		 "The lowest quality that a backend is asked for before and while requests are rejected; 1: "
		 "always the best",
		 .min = .001, .max = 1),
	WEIR_KEY("own", NUMBER, weir_adaptive_remote_params, own, NULL,
		 "A request that takes longer than the target by itself is held to the target and this many "
		 "times "
		 "the excess",
		 .min = WEIR_REMOTE_OWN_MIN, .max = WEIR_REMOTE_OWN_MAX),
	{0},
};

static void remote_defaults(void *params)
{
	weir_adaptive_remote_params *p = params;
	p->percentile = .9;
	p->quality_min = WEIR_QUALITY_LEAST;
	p->own = weir_remote_usual.own;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		p->minimum[k] = MINIMUM_USUAL;
}

static int wrong(const char **ret_wrong, const char *what)
{
	*ret_wrong = what;
	return -EINVAL;
}

static int check(const weir_adaptive_remote_params *p, const char **ret_wrong)
{
	if (p == NULL)
		return wrong(ret_wrong, "parameters are required (weir_adaptive_remote_params)");
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return wrong(ret_wrong, "percentile must be from p50 to p99.9");
	if (p->target_ns[0] == 0)
		return wrong(ret_wrong, "target is required, such as 200ms");
	if (!(p->quality_min >= 0 && p->quality_min <= 1))
		return wrong(ret_wrong, "quality_min must be above 0 and at most 1, or 0 for 0.1");
	if (p->own != 0 && !(p->own >= WEIR_REMOTE_OWN_MIN && p->own <= WEIR_REMOTE_OWN_MAX))
		return wrong(ret_wrong, "own must be a factor from 1 to 100, or 0 for 5");
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		if (p->target_ns[k] != 0 && (p->target_ns[k] < WEIR_REMOTE_TARGET_MIN_NS ||
					     p->target_ns[k] > WEIR_REMOTE_TARGET_MAX_NS))
			return wrong(ret_wrong, "target must be from 1us to 1h");
		if (!(p->minimum[k] >= 0 && p->minimum[k] <= MINIMUM_MAX))
			return wrong(ret_wrong, "minimum must be a share from 0 to .5");
		if (!(p->guaranteed_per_s[k] >= 0 && p->guaranteed_per_s[k] <= WEIR_GUARANTEE_MAX))
			return wrong(ret_wrong, "guaranteed must be a rate from 0/s to 1000000000/s");
	}
	return 0;
}

/* A time slot is an eighth of the target, and no shorter than a tick. */
static unsigned age_shift(uint64_t target_ns)
{
	unsigned shift = 20;
	while ((UINT64_C(1) << shift) < target_ns / 8 || (UINT64_C(1) << shift) < WEIR_REMOTE_TICK_NS)
		shift++;
	return shift;
}

void weir_remote_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	weir_remote *r = state;
	uint64_t least_ns = UINT64_MAX;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		atomic_store_explicit(&r->target_ns[k], target_ns[k], memory_order_relaxed);
		least_ns = target_ns[k] < least_ns ? target_ns[k] : least_ns;
	}
	atomic_store_explicit(&r->least_target_ns, least_ns, memory_order_relaxed);
}

int weir_remote_init(void *state, const void *params, const char **ret_wrong)
{
	weir_remote *r = state;
	const weir_adaptive_remote_params *p = params;
	int failed = check(p, ret_wrong);
	if (failed != 0)
		return failed;
	memset(r, 0, sizeof(*r));
	r->tuning = p->tuning != NULL ? *p->tuning : weir_remote_usual;
	if (p->tuning == NULL && p->own > 0)
		r->tuning.own = p->own;
	r->quantile = p->percentile;
	r->aimed = 1 - r->tuning.margin * (1 - p->percentile);
	r->late_most = 1 - r->aimed;
	uint64_t target_ns[WEIR_CLASSES], above_ns = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		above_ns = target_ns[k] = p->target_ns[k] != 0 ? p->target_ns[k] : above_ns;
		r->minimum[k] = p->minimum[k];
		weir_guarantee_init(&r->guaranteed[k], p->guaranteed_per_s[k]);
		atomic_init(&r->limit[k], WEIR_REMOTE_OPEN);
		weir_degrade_init(&r->degrade[k]);
	}
	r->quality_least = p->quality_min > 0 ? p->quality_min : WEIR_QUALITY_LEAST;
	weir_remote_retarget(r, target_ns);
	r->age_shift = age_shift(target_ns[0]);
	r->cap_now = r->tuning.first;
	atomic_init(&r->cap, (uint32_t)r->tuning.first);
	atomic_init(&r->told_gamma, 1);
	atomic_init(&r->own_top, -1);
	atomic_init(&r->floor, 1);
	r->base = INFINITY;
	r->silent_share = 1;
	atomic_init(&r->credit, (int64_t)(1000 * r->tuning.credit));
	atomic_init(&r->spenders, WEIR_CLASSES);
	return 0;
}

const weir_admission_law weir_law_adaptive_remote = {
	.name = "adaptive-remote",
	.brief = "requests inside bounded by Little's law, once there is evidence that the backend is "
		 "saturated",
	.state_bytes = sizeof(weir_remote),
	.params_bytes = sizeof(weir_adaptive_remote_params),
	.params = params_table,
	.defaults = remote_defaults,
	.tick_ns = WEIR_REMOTE_TICK_NS,
	.by_class = true,
	.ignores_cost = true,
	.init = weir_remote_init,
	.admit = weir_remote_admit,
	.refund = weir_remote_refund,
	.start = weir_remote_start,
	.gone = weir_remote_gone,
	.settle = weir_remote_settle,
	.tick = weir_remote_tick,
	.told = weir_remote_told,
	.limit = weir_remote_limit,
	.patience = weir_remote_patience,
	.quality = weir_remote_quality,
	.explain = weir_remote_explain,
	.report = weir_remote_report,
	.save = weir_remote_save,
	.load = weir_remote_load,
	.calm = weir_remote_calm,
	.retarget = weir_remote_retarget,
};
