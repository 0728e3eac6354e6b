/* SPDX-License-Identifier: Apache-2.0 */
#include "control/knee.h"

#include <math.h>
#include <stddef.h>

#define FIRST_LEVEL    4
#define MOST_LEVEL     100000.
#define APART          1.4 /* high / low, near the knee */
#define FAR_APART      2.  /* while it is not sure that the knee is near */
#define GROW_BELOW     .65 /* e: more places give more throughput */
#define SHRINK_FROM    .85 /* they do not, and would not be missed */
#define FAR_BELOW      .4  /* so far from the knee that levels may double again */
#define DOUBTS         2.  /* standard errors that make a difference */
#define CLUSTERED      1.3 /* answers come in clusters: errors are larger than if they were independent */
#define REST_BOUND     100 /* the same, when refusals bound the levels */
#define MISSING_MOST   .1
#define LONG_EPOCH     6
#define USUAL_COUNT    8
#define USUAL_VARIANCE .6
#define ENOUGH         30  /* answers at each level before anything is decided */
#define PLENTY         .1  /* a standard error at which it is decided anyway */
#define ROUND_LEAST    16. /* answers that an epoch should bring */
#define REST           24  /* time at high for each at low, near the knee */
#define DECIDED        400 /* answers at a level of the slow start that must do */
#define RAISE_NS       1000000000u

/* ---- comparing the levels ---- */

/* A level's answers, in numbers. */
struct seen {
	double count, mean, doubt; /* the variance of the mean, relative to it */
};

/* Started at this level, and not back yet. */
static double missing(const weir_knee *knee, unsigned arm)
{
	uint32_t started = atomic_load_explicit(&knee->started[arm], memory_order_relaxed);
	double left = (double)(int32_t)(started - knee->seen_started[arm]) - knee->arm[arm].total;
	return left > 0 ? left : 0;
}

/* The time that nine of ten take, those that are not back yet being among the longest. */
static double long_time(const weir_knee *knee, unsigned arm)
{
	double total = knee->arm[arm].total, all = total + missing(knee, arm);
	return weir_spread_quantile(&knee->arm[arm], fmin(.9 * all / total, 1));
}

/*
 * A few answers that happen to be alike are no proof that all are: as many more are assumed that vary as answers usually do.
 */
static struct seen look(const weir_knee *knee, unsigned arm, double cut)
{
	double variance, left = missing(knee, arm), total = knee->arm[arm].total, count = total + left;
	double mean = weir_spread_mean(&knee->arm[arm], cut, &variance);
	double squares = (variance + mean * mean) * total + cut * cut * left;
	mean = (mean * total + cut * left) / count;
	double relative = fmax(squares / count / (mean * mean) - 1, 0);
	double doubt = (relative * count + USUAL_COUNT * USUAL_VARIANCE) / (count + USUAL_COUNT) / count;
	return (struct seen){.count = count, .mean = mean, .doubt = doubt};
}

/* Nine of ten should be back before anything is said about them; what is not after a long while may never be. */
static bool too_early(const weir_knee *knee, const weir_knee_view *view)
{
	unsigned now = knee->current;
	return missing(knee, now) > MISSING_MOST * knee->arm[now].total &&
	       view->now_ns - knee->epoch_ns < LONG_EPOCH * knee->length_ns;
}

/* e, and its standard error. */
static double elasticity(const weir_knee *knee, unsigned low, double *ret_error)
{
	double cut = fmax(long_time(knee, low), long_time(knee, 1 - low));
	struct seen a = look(knee, low, cut), b = look(knee, 1 - low, cut);
	double apart = log((double)knee->level[1 - low] / knee->level[low]);
	*ret_error = CLUSTERED * sqrt(a.doubt + b.doubt) / apart;
	return log(b.mean / a.mean) / apart;
}

static void clear_arm(weir_knee *knee, unsigned arm)
{
	weir_spread_clear(&knee->arm[arm]);
	knee->seen_started[arm] = atomic_load_explicit(&knee->started[arm], memory_order_relaxed);
	atomic_store_explicit(&knee->until_ns[arm], 0, memory_order_relaxed);
}

static void forget(weir_knee *knee)
{
	clear_arm(knee, 0);
	clear_arm(knee, 1);
	knee->starts = knee->unsaturated = 0;
}

/* ---- epochs ---- */

static void set_window(weir_knee *knee, unsigned arm, uint64_t from_ns, uint64_t until_ns)
{
	atomic_store_explicit(&knee->from_ns[arm], from_ns, memory_order_relaxed);
	atomic_store_explicit(&knee->until_ns[arm], until_ns, memory_order_relaxed);
}

/*
 * Starts count for this arm from a round after now, when the backend has what it has at this level only, until a round before the end, so
 * that most of them also end at it.
 */
static void begin_epoch(weir_knee *knee, unsigned arm, const weir_knee_view *view)
{
	double round = view->response_ns, body = round * fmax(1, ROUND_LEAST / knee->level[arm]);
	uint64_t from_ns = view->now_ns + (uint64_t)round;
	if (arm == 1 && knee->searching)
		body *= knee->rest;
	knee->current = arm;
	knee->epoch_ns = view->now_ns;
	knee->length_ns = (uint64_t)(body + 2 * round);
	set_window(knee, arm, from_ns, from_ns + (uint64_t)body);
	atomic_store_explicit(&knee->limit, knee->level[arm], memory_order_relaxed);
}

/* ---- the search ---- */

static void begin_slow_start(weir_knee *knee, const weir_knee_view *view);

/* What the backend's refusals allow; two at least, since one level needs another to compare with. */
static double most_now(const weir_knee *knee)
{
	double bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	return fmax(fmin(bound, MOST_LEVEL), 2);
}

/* Puts the pair around a new low and begins at its high. */
static void move_to(weir_knee *knee, double low, const weir_knee_view *view)
{
	knee->low = fmax(fmin(low, most_now(knee) / knee->apart), 1);
	knee->level[0] = (uint32_t)(knee->low + .5);
	knee->level[1] = (uint32_t)fmax(knee->low * knee->apart + .5, knee->level[0] + 1);
	forget(knee);
	begin_epoch(knee, 1, view);
}

/* Steps are of a place at least, or small levels would never move. */
static double stepped(double low, double factor)
{
	double next = low * factor;
	if (factor > 1)
		return fmax(next, low + 1);
	return factor < 1 ? fmin(next, low - 1) : low;
}

/* Surely on this side of a bound, or as sure as it will get. */
static bool beyond(double distance, double error)
{
	return distance > DOUBTS * error || (distance > 0 && error < PLENTY);
}

static void grow(weir_knee *knee, double e, const weir_knee_view *view)
{
	if (knee->level[1] >= most_now(knee)) {
		/* Refusals are in the way: to go below would only cost. */
		knee->rest = REST_BOUND;
		knee->apart = APART;
		move_to(knee, MOST_LEVEL, view);
	} else if (e < FAR_BELOW) {
		begin_slow_start(knee, view);
	} else {
		knee->rest = knee->rest > 1 ? knee->rest / 2 : 1;
		move_to(knee, stepped(knee->low, 1.15), view);
	}
}

static void shrink(weir_knee *knee, double factor, const weir_knee_view *view)
{
	knee->rest = REST;
	knee->apart = APART;
	move_to(knee, stepped(knee->low, factor), view);
}

static void decide(weir_knee *knee, const weir_knee_view *view)
{
	double error, variance, e;
	if (knee->arm[0].total < ENOUGH || knee->arm[1].total < ENOUGH)
		return;
	e = elasticity(knee, 0, &error);
	knee->elasticity = e;
	bool too_long = weir_spread_mean(&knee->arm[1], INFINITY, &variance) > view->most_ns && e > .5;
	if (beyond(GROW_BELOW - e, error) && !too_long)
		grow(knee, e, view);
	else if (beyond(e - 1.4, error))
		shrink(knee, 1 / APART, view);
	else if (beyond(e - SHRINK_FROM, error) || (too_long && error < PLENTY * 2))
		shrink(knee, 1 / 1.15, view);
	else if (error < PLENTY)
		shrink(knee, 1, view);
}

static void search(weir_knee *knee, const weir_knee_view *view)
{
	double most = most_now(knee);
	if (knee->level[1] > most * 1.1 + 1) {
		move_to(knee, most / knee->apart, view);
		return;
	}
	if (view->now_ns - knee->epoch_ns < knee->length_ns)
		return;
	if (knee->current == 1 && too_early(knee, view))
		return;
	if (knee->current == 1)
		decide(knee, view);
	if (view->now_ns != knee->epoch_ns)
		begin_epoch(knee, 1 - knee->current, view);
}

/* ---- slow start ---- */

static void end_slow_start(weir_knee *knee, double low, const weir_knee_view *view)
{
	knee->searching = true;
	knee->rest = 1; /* for now: where it ended is a guess */
	knee->apart = FAR_APART;
	move_to(knee, low, view);
}

static void double_level(weir_knee *knee, const weir_knee_view *view)
{
	unsigned next = 1 - knee->current;
	double wanted = 2. * knee->level[knee->current];
	double most = most_now(knee);
	if (wanted > most) {
		end_slow_start(knee, most / FAR_APART, view);
		return;
	}
	clear_arm(knee, next);
	knee->level[next] = (uint32_t)wanted;
	knee->starts = knee->unsaturated = 0;
	begin_epoch(knee, next, view);
}

/* From the pair's high on. */
static void begin_slow_start(weir_knee *knee, const weir_knee_view *view)
{
	knee->searching = false;
	clear_arm(knee, 0);
	double_level(knee, view);
}

static void slow_start(weir_knee *knee, const weir_knee_view *view)
{
	unsigned now = knee->current, before = 1 - now;
	double count = knee->arm[now].total, error;
	if (view->now_ns - knee->epoch_ns < knee->length_ns)
		return;
	if (too_early(knee, view))
		return;
	if (count < 8) {
		begin_epoch(knee, now, view);
		return;
	}
	if (knee->arm[before].total == 0) {
		double_level(knee, view);
		return;
	}
	double e = elasticity(knee, before, &error);
	if (e + error < .8 || (count >= DECIDED && e < .6)) {
		double_level(knee, view);
	} else if (e - 2 * error > .4 || count >= DECIDED) {
		knee->elasticity = e;
		/* Past the knee throughput is the same for both: it was at level / the rise of the response time. */
		double rise = exp(e * log(2)), knee_at = knee->level[now] / fmin(fmax(rise, 1), 2);
		end_slow_start(knee, knee_at, view);
	} else {
		begin_epoch(knee, now, view); /* more of the same */
	}
}

/* ---- refusals ---- */

void weir_knee_refused(weir_knee *knee, uint32_t in_flight)
{
	uint32_t bound = atomic_load_explicit(&knee->bound, memory_order_relaxed),
		 wanted = in_flight > 1 ? in_flight : 1;
	while (wanted < bound &&
	       !atomic_compare_exchange_weak_explicit(&knee->bound, &bound, wanted, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* After a second without one, up by a place, and then by twice as many each second. */
static void raise_bound(weir_knee *knee, bool refused, uint64_t now_ns)
{
	uint32_t bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	if (refused) {
		knee->step = 1;
		knee->raise_ns = now_ns + RAISE_NS;
	}
	if (bound == UINT32_MAX || now_ns < knee->raise_ns)
		return;
	double raised = bound + knee->step;
	knee->step *= 2;
	knee->raise_ns = now_ns + RAISE_NS;
	atomic_compare_exchange_strong_explicit(&knee->bound, &bound,
						raised < MOST_LEVEL ? (uint32_t)raised : UINT32_MAX,
						memory_order_relaxed, memory_order_relaxed);
}

/* ---- from outside ---- */

void weir_knee_init(weir_knee *knee)
{
	knee->low = FIRST_LEVEL;
	knee->level[0] = FIRST_LEVEL;
	knee->rest = 1;
	atomic_init(&knee->bound, UINT32_MAX);
	atomic_init(&knee->limit, FIRST_LEVEL);
}

void weir_knee_assume(weir_knee *knee, uint32_t low)
{
	weir_knee_view view = {.most_ns = INFINITY};
	end_slow_start(knee, low, &view);
}

uint32_t weir_knee_take(weir_knee *knee, weir_spread *recent)
{
	return weir_spread_take(recent, &knee->other_tally, NULL) +
	       weir_spread_take(&knee->arm[0], &knee->arm_tally[0], recent) +
	       weir_spread_take(&knee->arm[1], &knee->arm_tally[1], recent);
}

/*
 * A level that is not filled cannot be measured. If the backend takes too long all the same, it has more than it should: back to
 * where the level matters.
 */
static void measure_again(weir_knee *knee, const weir_knee_view *view)
{
	if (view->response_ns > 2 * view->most_ns && view->in_flight >= 2 && view->trusted) {
		end_slow_start(knee, view->in_flight * view->most_ns / view->response_ns, view);
		return;
	}
	if (knee->searching)
		forget(knee);
	else
		clear_arm(knee, knee->current);
	knee->starts = knee->unsaturated = 0;
	begin_epoch(knee, knee->searching ? 1 : knee->current, view);
}

void weir_knee_tick(weir_knee *knee, const weir_knee_view *view)
{
	raise_bound(knee, view->refused, view->now_ns);
	if (!(view->response_ns > 0))
		return;
	if (knee->epoch_ns == 0) {
		/* The first answers are the short ones: only now that one knows how long they take can they be measured. */
		begin_epoch(knee, knee->current, view);
		return;
	}
	knee->starts += view->starts;
	knee->unsaturated += view->unsaturated;
	/* What the levels did not fill says nothing about them. */
	if (!view->trusted || knee->unsaturated > 2 + knee->starts / 10) {
		measure_again(knee, view);
		return;
	}
	if (knee->searching)
		search(knee, view);
	else
		slow_start(knee, view);
}
