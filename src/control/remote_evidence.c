/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the backend saturated? The current times of requests are compared with their times when little is
 * inside.
 *
 *  levels     the times of requests, by how many they met when they started; those that have not ended
 *             count as slow
 *  base       from the lowest levels: the first few requests, and then further levels as long as they
 *             are not slower
 *  marks      the base's quartiles, times `slow`; more if requests differ so much that chance could
 *             cause that. The share of requests above the three marks is between `nature`, without load,
 *             and `threshold`, if all took that much longer. Its position between them is the strain:
 *             0 to 1
 *  calm       the highest level at which requests are not slow; measurements there from before a lower
 *             level became slow are out of date
 *  steady     the backend keeps up: nothing waits here, all fit below the limit, and the number inside
 *             does not grow
 *  own        the time that requests take by themselves, by kind: of those that were started at a calm
 *             level while it was steady, or met one or two while the limit was in force
 *  starting   nothing counts as congestion until the backend has had as many as now for a response time
 *  lost       most answers are late, for several response times since the backend was last given more at
 *             once, and nothing better has ever been seen: the backend was saturated from the beginning.
 *             Then the limit goes down until times fall, or turn out to be the requests' own
 */
#include <math.h>
#include <string.h>

#include "control/remote.h"

#define LEVEL_MEMORY  256.
#define LEVEL_LEAST   4.  /* answers that a level needs to be considered ... */
#define CALM_LEAST    16. /* ... and to be called calm or slow */
#define BASE_LEAST    8.
#define SLOW_MOST     4.  /* anything slower than this is slow, whatever chance may do */
#define SMALL_SAMPLE  20. /* the spread of so few may be twice what it seems */
#define OPEN_MOST     .25 /* maximum part of the requests at a level that have not ended */
#define RECENT_LEAST  32.
#define RECENT_MOST   1000.
#define OWN_LEAST     20.
#define OWN_MEMORY    512.
#define ALIKE         1.33 /* times that differ by no more are the same */
#define AGED_TIMES    4.   /* response times after which a judgement has aged */
#define LOST_TIMES    4    /* response times */
#define APART_LEAST   .01
#define STRAIN_OVER   .5  /* below this the congestion is over */
#define STRAIN_IDLE   1.5 /* factor on these bounds while the servers say that they are idle */
#define FEW_LEVEL     2
#define STEADY_NS     1e8
#define STEADY_TIMES  3.
#define STEADY_GROWTH 1.1

/* ---- levels ---- */

/* Answers from which the slowdown is computed: as many as it takes to be certain. */
static double recent_enough(const weir_remote *r)
{
	double needed = 2 * pow(r->tuning.sure * r->spread / log(r->tuning.slow), 2);
	return fmin(fmax(needed, RECENT_LEAST), RECENT_MOST);
}

static void look_at_level(weir_remote_level *level, uint64_t now_ns)
{
	uint32_t started = atomic_load_explicit(&level->started, memory_order_relaxed);
	uint32_t ended = atomic_load_explicit(&level->ended, memory_order_relaxed);
	weir_times_sum sum = {0};
	level->missing = started > ended ? (double)(started - ended) / started : 0;
	if (ended == level->looked)
		return;
	level->looked = ended;
	level->last_ns = now_ns;
	if (level->missing >= 1)
		return;
	weir_times_fade(&level->times, LEVEL_MEMORY);
	weir_times_sum_up(&sum, &level->times, level->missing);
	level->seen = sum.seen;
	level->middle = weir_times_middle(&sum);
	level->spread = weir_times_spread(&sum);
}

static bool is_known(const weir_remote_level *level, double least)
{
	return level->seen >= least && level->missing < OPEN_MOST;
}

/* The factor, as a logarithm, from which requests are slow: more than chance causes between these samples. */
static double slow_ln(const weir_remote *r, double spread, double seen, double of)
{
	double chance = r->tuning.sure * spread * (1 + SMALL_SAMPLE / of) * sqrt(1 / seen + 1 / of);
	return fmin(fmax(log(r->tuning.slow), chance), log(SLOW_MOST));
}

static void set_marks(weir_remote *r, const weir_times_sum *sum)
{
	double slow = slow_ln(r, r->spread, recent_enough(r), sum->seen);
	r->nature = r->threshold = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_MARKS; i++) {
		double quartile = weir_times_quantile(sum, .25 * (i + 1));
		if (!isfinite(quartile))
			quartile = r->base;
		r->nature += weir_times_above(sum, quartile + slow) / WEIR_REMOTE_MARKS;
		r->threshold += weir_times_above(sum, quartile) / WEIR_REMOTE_MARKS;
		atomic_store_explicit(&r->slow_from[i], (float)(quartile + slow), memory_order_relaxed);
	}
}

/* The share of these that take longer than they may. */
static double late_of(const weir_remote *r, const weir_times_sum *sum)
{
	return weir_times_above(
		sum, log(fmax((double)weir_remote_least_target_ns(r), weir_remote_bound_ns(r, 0))));
}

/* The base, and the spread among requests that meet the same number. */
static void learn_base(weir_remote *r)
{
	weir_times_sum sum = {0};
	double spread = 0, weight = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS && sum.seen < r->tuning.base; i++) {
		const weir_remote_level *level = &r->level[i];
		if (!is_known(level, 1))
			continue;
		double alike = weight > 0 ? spread / weight : level->spread;
		if (sum.seen >= BASE_LEAST &&
		    level->middle > weir_times_middle(&sum) + slow_ln(r, alike, level->seen, sum.seen))
			break;
		weir_times_sum_up(&sum, &level->times, level->missing);
		if (level->seen >= LEVEL_LEAST) {
			spread += level->seen * level->spread;
			weight += level->seen;
		}
	}
	if (sum.seen < BASE_LEAST)
		return;
	r->base = weir_times_middle(&sum);
	r->base_seen = sum.seen;
	r->spread = weight > 0 ? spread / weight : weir_times_spread(&sum);
	atomic_store_explicit(&r->told_base_ns, exp(r->base), memory_order_relaxed);
	if (!r->mix_changes)
		r->late_base = late_of(r, &sum);
	set_marks(r, &sum);
}

static void learn_calm(weir_remote *r)
{
	unsigned top = 0;
	uint64_t slow_ns = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS; i++) {
		const weir_remote_level *level = &r->level[i];
		if (!is_known(level, CALM_LEAST))
			continue;
		if (level->middle >
		    r->base + log(r->tuning.slow) + r->spread * sqrt(1 / level->seen + 1 / r->base_seen))
			slow_ns = level->last_ns > slow_ns ? level->last_ns : slow_ns;
		else if (level->last_ns >= slow_ns)
			top = i;
	}
	/* With the limit in force, not many join those that meet one or two. */
	bool held = atomic_load_explicit(&r->limited, memory_order_relaxed);
	atomic_store_explicit(&r->own_top,
			      r->steady ? (int32_t)top
			      : held    ? FEW_LEVEL
					: -1,
			      memory_order_relaxed);
	atomic_store_explicit(&r->floor, r->ever_steady && isfinite(r->base) ? (uint32_t)exp2(top / 2.) : 1,
			      memory_order_relaxed);
}

/*
 * The backend keeps up: for some response times nothing waited here, all fitted below the limit, and the
 * number inside did not grow. Then times are the requests' own, or nearly so.
 */
static void learn_steady(weir_remote *r, uint64_t now_ns, bool open)
{
	double inside = weir_remote_serving(r), least_ns = fmax(STEADY_NS, STEADY_TIMES * r->backend_s * 1e9);
	bool known = open && !r->pressed && r->backend_seen >= BASE_LEAST;
	if (!known || (double)(now_ns - r->window_ns) > least_ns) {
		r->steady =
			known && inside <= STEADY_GROWTH * r->window_inside + 2 * sqrt(r->window_inside) + 2;
		r->ever_steady |= r->steady;
		r->window_ns = now_ns;
		r->window_inside = inside;
	}
}

/* ---- own times ---- */

static void learn_own(weir_remote *r)
{
	weir_times_sum all = {0};
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++) {
		weir_remote_kind *kind = &r->kind[i];
		weir_times_sum sum = {0};
		weir_times_sum_up(&all, &kind->own, 0);
		uint32_t answers = atomic_load_explicit(&kind->answers, memory_order_relaxed);
		if (answers == kind->looked)
			continue;
		kind->looked = answers;
		weir_times_fade(&kind->own, OWN_MEMORY);
		weir_times_sum_up(&sum, &kind->own, 0);
		if (sum.seen < OWN_LEAST)
			atomic_store_explicit(&kind->own_ns,
					      r->costs_wrong ? 0
							     : (uint64_t)atomic_load_explicit(
								       &kind->cost_ns, memory_order_relaxed),
					      memory_order_relaxed);
		else
			atomic_store_explicit(&kind->own_ns,
					      (uint64_t)exp(weir_times_quantile(&sum, r->quantile)),
					      memory_order_relaxed);
	}
	if (all.seen >= OWN_LEAST)
		r->late_own = late_of(r, &all);
}

/* ---- the present ---- */

/* Requests in the backend that are older than this, without those set aside. */
static double older_than(const weir_remote *r, uint64_t now_ns, double age_ns)
{
	double at = ((double)now_ns - age_ns) / (double)(UINT64_C(1) << r->age_shift);
	uint64_t oldest = atomic_load_explicit(&r->oldest, memory_order_relaxed);
	double count = atomic_load_explicit(&r->overdue[0], memory_order_relaxed);
	for (uint64_t i = oldest; at > (double)i && i < oldest + WEIR_REMOTE_AGES; i++)
		count += fmin(at - (double)i, 1) *
			 atomic_load_explicit(&r->age[0][i % WEIR_REMOTE_AGES], memory_order_relaxed);
	return count;
}

/*
 * A request is judged once: when it ends, or at the age from which it is slow. If requests were judged
 * only at their ends, the fast ones would come first when load begins, and the slow ones last when it
 * ends.
 */
static void learn_share(weir_remote *r, uint64_t now_ns, uint32_t answers, const uint32_t *slowed)
{
	float by = atomic_load_explicit(&r->slow_from[1], memory_order_relaxed);
	double share = 0, judged = 0;
	for (unsigned i = 0; i < WEIR_REMOTE_MARKS; i++) {
		float from = atomic_load_explicit(&r->slow_from[i], memory_order_relaxed);
		double old = from != 0 && !r->costs_known ? older_than(r, now_ns, exp((double)from)) : 0;
		double slow = slowed[i] + old - r->old_seen[i];
		judged += (answers - slowed[i] + slow) / WEIR_REMOTE_MARKS;
		share += slow / WEIR_REMOTE_MARKS;
		r->old_seen[i] = old;
	}
	bool same = by == r->judged_by;
	r->judged_by = by;
	if (by == 0 || !same)
		return;
	/* Sums, because the number judged in a single tick may be negative: ages are not known exactly. */
	r->judged_seen += judged;
	r->slow_seen += share;
	double keep = r->judged_seen > 0 ? fmin(recent_enough(r) / r->judged_seen, 1) : 1;
	/*
	 * With the limit in force, requests meet fewer and fewer, so what earlier ones met is out of date. Without
	 * it, a low limit would be slow to notice that it is too low.
	 */
	if (atomic_load_explicit(&r->limited, memory_order_relaxed) && r->judged_seen > RECENT_LEAST)
		keep = fmin(keep,
			    fmax(exp(-(double)(now_ns - r->shared_ns) / 1e9 / (AGED_TIMES * r->backend_s)),
				 RECENT_LEAST / r->judged_seen));
	r->shared_ns = now_ns;
	r->judged_seen *= keep;
	r->slow_seen *= keep;
	r->slow_share = r->judged_seen > 0 ? r->slow_seen / r->judged_seen : 0;
}

static void learn_slowdown(weir_remote *r)
{
	weir_times_sum recent = {0};
	weir_times_fade(&r->recent, RECENT_LEAST * 2);
	weir_times_sum_up(&recent, &r->recent, 0);
	bool known = isfinite(r->base) && recent.seen >= BASE_LEAST;
	r->slowdown = known ? weir_times_middle(&recent) - r->base : 0;
	atomic_store_explicit(&r->told_slowdown, r->slowdown, memory_order_relaxed);
}

bool weir_remote_seen_with_fewer(const weir_remote *r, unsigned at, double least)
{
	if (!isfinite(r->base))
		return false;
	for (unsigned i = 0; i + 2 <= at; i++)
		if (is_known(&r->level[i], least) && r->level[i].middle > r->base + r->slowdown - log(ALIKE))
			return true;
	return false;
}

static bool is_lost(weir_remote *r, uint64_t now_ns)
{
	unsigned level = weir_remote_level_of((uint64_t)weir_remote_serving(r));
	if (r->late_share <= .5 || r->steady || weir_remote_is_proved(r, now_ns) ||
	    weir_remote_seen_with_fewer(r, level, CALM_LEAST) || r->backend_seen < RECENT_LEAST / 2 ||
	    weir_remote_serving(r) <= WEIR_REMOTE_FEW)
		r->timely_ns = now_ns;
	return (double)(now_ns - r->timely_ns) > LOST_TIMES * r->backend_s * 1e9;
}

/*
 * The slow start goes on: when a request came that ends now, the backend had less, and it has never been seen to keep up. What
 * is known is from few requests, and the rate is that of the start.
 */
static bool is_starting(const weir_remote *r, uint64_t now_ns)
{
	return r->given_ns != 0 && !r->ever_steady &&
	       !atomic_load_explicit(&r->limited, memory_order_relaxed) &&
	       (double)(now_ns - r->given_ns) < exp(r->base);
}

static void look_at_answers(weir_remote *r, uint64_t now_ns)
{
	for (unsigned i = 0; i < WEIR_REMOTE_LEVELS; i++)
		look_at_level(&r->level[i], now_ns);
	learn_base(r);
	learn_calm(r);
	learn_own(r);
	learn_slowdown(r);
}

bool weir_remote_evidence(weir_remote *r, uint64_t now_ns, bool open, uint32_t answers,
			  const uint32_t slowed[WEIR_REMOTE_MARKS])
{
	bool was = atomic_load_explicit(&r->congested, memory_order_relaxed);
	learn_share(r, now_ns, answers, slowed);
	learn_steady(r, now_ns, open);
	if (answers != 0)
		look_at_answers(r, now_ns);
	bool known = isfinite(r->base) && r->judged_seen >= RECENT_LEAST / 2, lost = is_lost(r, now_ns);
	r->strain = known ? (r->slow_share - r->nature) / fmax(r->threshold - r->nature, APART_LEAST) : 0;
	if (lost)
		atomic_store_explicit(&r->floor, 1, memory_order_relaxed);
	bool few = open && weir_remote_serving(r) <= WEIR_REMOTE_FEW;
	double enough = was ? STRAIN_OVER : 1;
	if (weir_remote_is_idle(r, now_ns))
		enough *= STRAIN_IDLE;
	bool congested = lost || (!few && !is_starting(r, now_ns) && r->strain > enough);
	atomic_store_explicit(&r->congested, congested, memory_order_relaxed);
	return congested;
}
