/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/old/knee.h"

#include <math.h>
#include <stddef.h>

#define FIRST_LEVEL    4
#define MOST_LEVEL     100000.
#define APART          1.4 /* high / low, near the knee */
#define FAR_APART      2.  /* while it is not sure that the knee is near */
#define GROW_BELOW     .75 /* e: more places give more throughput */
#define SHRINK_FROM    .95 /* they do not, and would not be missed */
#define DOUBTS         2.  /* standard errors that make a difference */
#define GROW_DOUBTS    1.  /* the same, before growing: a place too many costs less than one too few */
#define CLUSTERED      1.3 /* answers come in clusters: errors are larger than if they were independent */
#define CUT            .8  /* of a level's answers; the others count as long as the longest of those */
#define LONG_EPOCH     6
#define USUAL_COUNT    8
#define USUAL_VARIANCE .6
#define ENOUGH         30  /* answers at each level before anything is decided */
#define ENOUGH_AT_ONCE 8   /* the same, in the slow start */
#define PLENTY         .1  /* a standard error at which it is decided anyway */
#define ROUND_LEAST    16. /* answers that an epoch should bring */
#define EPOCH_LEAST_NS 1e7 /* a tick: no epoch can end sooner */
#define REST_MOVED     4
#define REST           24   /* time at high for each at low, near the knee */
#define REST_BOUND     100  /* the same, when refusals bound the levels */
#define USUAL_STEP     1.15 /* by which the pair moves */
#define LEAST_STEP     1.07
#define MOST_STEP      2.
#define TOO_LONG_FROM  .5  /* e from which fewer places help where answers take too long */
#define THRASHING      1.4 /* e at which it may go down faster */
#define RISEN          1.3 /* response times that say that the slow start has passed the knee */
#define RAISE_NS       1000000000u

/* ---- comparing the levels ---- */

/* A level's answers, in numbers. */
struct seen {
	double half, most; /* the mean of the times cut at their median, and at CUT */
	double doubt;      /* the variance of that mean, relative to it */
};

/* Started at this level, and not back yet. */
static double missing(const weir_knee *knee, unsigned arm)
{
	uint32_t started = atomic_load_explicit(&knee->started[arm], memory_order_relaxed);
	double left = (double)(int32_t)(started - knee->seen_started[arm]) - knee->arm[arm].total;
	return left > 0 ? left : 0;
}

/* The mean of the times, those above their quantile counted as that; so many are not back yet, and are the longest. */
static double cut_mean(const weir_spread *spread, double left, double quantile, double *ret_variance)
{
	double variance, total = spread->total, count = total + left;
	double cut = weir_spread_quantile(spread, fmin(quantile * count / total, 1));
	double mean = weir_spread_mean(spread, cut, &variance);
	double squares = (variance + mean * mean) * total + cut * cut * left;
	mean = (mean * total + cut * left) / count;
	*ret_variance = fmax(squares / count - mean * mean, 0);
	return mean;
}

/*
 * A few answers that happen to be alike are no proof that all are: as many more are assumed that vary as answers usually do.
 */
static struct seen look(const weir_knee *knee, unsigned arm)
{
	double variance, left = missing(knee, arm), count = knee->arm[arm].total + left;
	struct seen seen = {.half = cut_mean(&knee->arm[arm], left, .5, &variance)};
	seen.most = cut_mean(&knee->arm[arm], left, CUT, &variance);
	double relative = variance / (seen.most * seen.most);
	seen.doubt = (relative * count + USUAL_COUNT * USUAL_VARIANCE) / (count + USUAL_COUNT) / count;
	return seen;
}

/* Four of five should be back before anything is said about them; what is not after a long while may never be. */
static bool too_early(const weir_knee *knee, const weir_knee_view *view)
{
	unsigned now = knee->current;
	double left = missing(knee, now);
	return left > (1 - CUT) * (knee->arm[now].total + left) &&
	       view->now_ns - knee->epoch_ns < LONG_EPOCH * knee->length_ns;
}

/*
 * ln(mean time at arm 1 / at arm 0), and its standard error. The mean itself is at the mercy of a few very long answers, which moreover were
 * not at one level for all of their time. But more places make all answers longer by a time (those that wait in a row), or by a
 * factor (those that share), so: t becomes a + b t, and a and b are seen well in the shorter four fifths.
 */
static double rise(const weir_knee *knee, const weir_knee_view *view, double *ret_error)
{
	struct seen low = look(knee, 0), high = look(knee, 1);
	double tail = low.most * (fmax(view->tail, 1) - 1), spread = low.most - low.half;
	double factor = high.most / low.most, b = factor; /* if they are too much alike to tell */
	if (spread > .2 * low.most)
		b = fmin(fmax((high.most - high.half) / spread, 1), factor); /* neither can be negative */
	double mean = low.most + tail, risen = high.most + b * tail;
	*ret_error = CLUSTERED * sqrt(low.doubt + high.doubt) * (1 + tail / mean);
	return log(risen / mean);
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

static void set_epoch(weir_knee *knee, unsigned arm, const weir_knee_view *view, double from, double until,
		      double length)
{
	knee->current = arm;
	knee->epoch_ns = view->now_ns;
	knee->length_ns = (uint64_t)length;
	atomic_store_explicit(&knee->from_ns[arm], view->now_ns + (uint64_t)from, memory_order_relaxed);
	atomic_store_explicit(&knee->until_ns[arm], view->now_ns + (uint64_t)until, memory_order_relaxed);
	atomic_store_explicit(&knee->limit, knee->level[arm], memory_order_relaxed);
}

/* How long an epoch at this level must be to bring some answers, without the rounds before and after it. */
static double body_ns(double answers, uint32_t level, const weir_knee_view *view)
{
	return view->response_ns * fmax(1, answers / level + .5);
}

/*
 * Starts count for this arm from a round after now, when the backend has what it has at this level only, until a round before the end, so
 * that most of them also end at it.
 */
static void begin_epoch(weir_knee *knee, unsigned arm, const weir_knee_view *view)
{
	double round = view->response_ns;
	double length = ceil((body_ns(ROUND_LEAST, knee->level[0], view) + 2 * round) / EPOCH_LEAST_NS) *
			EPOCH_LEAST_NS;
	if (arm == 1)
		length *= knee->rest;
	set_epoch(knee, arm, view, round, length - round, length);
}

/* ---- the search ---- */

/* What the backend's refusals allow; two at least, since one level needs another to compare with. */
static double most_now(const weir_knee *knee)
{
	double bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	return fmax(fmin(bound, MOST_LEVEL), 2);
}

/* Puts the pair around a new low and begins at its high. */
static void move_to(weir_knee *knee, double low, const weir_knee_view *view)
{
	knee->moved |= low != knee->low;
	knee->low = fmax(fmin(low, most_now(knee) / knee->apart), 1);
	knee->level[0] = (uint32_t)(knee->low + .5);
	knee->level[1] = (uint32_t)fmax(knee->low * knee->apart + .5, knee->level[0] + 1);
	forget(knee);
	begin_epoch(knee, 1, view);
}

/* Surely on this side of a bound, or as sure as it will get. */
static bool beyond(double distance, double error, double doubts)
{
	return distance > doubts * error || (distance > 0 && error < PLENTY);
}

/* It is good here: little more time is spent on looking. */
static void stay(weir_knee *knee, const weir_knee_view *view)
{
	knee->rest = knee->rest < REST / 2 ? 2 * knee->rest : REST;
	knee->apart = APART;
	move_to(knee, knee->low, view);
}

/*
 * Up or down. Shorter after each turn, so that it comes to rest where a step is wider than the good levels are; longer and longer
 * upwards, for there is something to gain. A place at least, or small levels would never move.
 */
static void step(weir_knee *knee, int heading, double most, const weir_knee_view *view)
{
	bool again = heading == knee->heading;
	double low = knee->low;
	knee->step = fmin(again ? pow(knee->step, 1.5) : fmax(sqrt(knee->step), LEAST_STEP), most);
	knee->heading = heading;
	knee->rest = heading > 0 && again ? 1 : REST_MOVED; /* was it right? */
	if (heading < 0) {
		knee->apart = APART;
		if (low <= 1) {
			stay(knee, view);
			return;
		}
	}
	move_to(knee, heading > 0 ? fmax(low * knee->step, low + 1) : fmin(low / knee->step, low - 1), view);
}

static void grow(weir_knee *knee, const weir_knee_view *view)
{
	if (knee->level[1] < most_now(knee)) {
		step(knee, 1, MOST_STEP, view);
		return;
	}
	/* Refusals are in the way: to go below would only cost. */
	knee->rest = REST_BOUND;
	knee->apart = APART;
	move_to(knee, MOST_LEVEL, view);
}

static void decide(weir_knee *knee, const weir_knee_view *view)
{
	double error, variance, apart = log((double)knee->level[1] / knee->level[0]);
	if (knee->arm[0].total < ENOUGH || knee->arm[1].total < ENOUGH)
		return;
	double e = rise(knee, view, &error) / apart;
	error /= apart;
	knee->elasticity = e;
	bool too_long =
		weir_spread_mean(&knee->arm[1], INFINITY, &variance) > view->most_ns && e > TOO_LONG_FROM;
	if (beyond(GROW_BELOW - e, error, GROW_DOUBTS) && !too_long)
		grow(knee, view);
	else if (beyond(e - SHRINK_FROM, error, DOUBTS) || (too_long && e - error > TOO_LONG_FROM))
		step(knee, -1, beyond(e - THRASHING, error, DOUBTS) ? APART : USUAL_STEP, view);
	else if (error < PLENTY)
		stay(knee, view);
	else if (knee->rest < REST)
		knee->rest++; /* it is hard to tell, so it matters little */
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
	knee->step = USUAL_STEP;
	knee->heading = 0;
	move_to(knee, low, view);
}

/* Starts count at once: what the backend had before was less. */
static void begin_level(weir_knee *knee, double level, const weir_knee_view *view)
{
	knee->level[1] = (uint32_t)fmin(level, most_now(knee));
	knee->starts = knee->unsaturated = 0;
	clear_arm(knee, 1);
	knee->moved = true;
	double body = body_ns(ENOUGH_AT_ONCE, knee->level[1], view);
	set_epoch(knee, 1, view, 0, body, body);
}

/* At which answers would take as long as they should at most, if they take longer because there are so many of them. */
static double level_for(const weir_knee_view *view)
{
	return view->in_flight * view->most_ns / view->response_ns;
}

/* What the slow start has seen at this level, with those that are not back yet, joins the levels before. */
static void keep_level(weir_knee *knee)
{
	knee->seen_started[0] -= (uint32_t)(knee->arm[1].total + missing(knee, 1) + .5);
	weir_spread_merge(&knee->arm[0], &knee->arm[1]);
}

/*
 * While response times are those of the levels before, all of them together, there are places to spare. Where they have risen by a factor,
 * throughput is what it was at a level lower by that factor.
 */
static void slow_start(weir_knee *knee, const weir_knee_view *view)
{
	double level = knee->level[1], error = 0, risen = 0;
	if (view->now_ns - knee->epoch_ns < knee->length_ns || too_early(knee, view))
		return;
	if (knee->arm[1].total < ENOUGH_AT_ONCE) {
		begin_level(knee, level, view);
		return;
	}
	if (knee->arm[0].total > 0)
		risen = rise(knee, view, &error);
	bool too_long = risen > error && view->response_ns > 2 * view->most_ns;
	if (risen > log(RISEN) + DOUBTS * error || too_long || level >= most_now(knee)) {
		level = level / exp(fmax(risen, 0));
		end_slow_start(knee, too_long ? fmin(level, level_for(view)) : level, view);
		return;
	}
	keep_level(knee);
	begin_level(knee, 2 * level, view);
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
		knee->raise = 1;
		knee->raise_ns = now_ns + RAISE_NS;
	}
	if (bound == UINT32_MAX || now_ns < knee->raise_ns)
		return;
	double raised = bound + knee->raise;
	knee->raise *= 2;
	knee->raise_ns = now_ns + RAISE_NS;
	atomic_compare_exchange_strong_explicit(&knee->bound, &bound,
						raised < MOST_LEVEL ? (uint32_t)raised : UINT32_MAX,
						memory_order_relaxed, memory_order_relaxed);
}

/* ---- from outside ---- */

void weir_knee_init(weir_knee *knee)
{
	knee->low = FIRST_LEVEL;
	knee->level[0] = knee->level[1] = FIRST_LEVEL;
	knee->rest = 1;
	atomic_init(&knee->bound, UINT32_MAX);
	atomic_init(&knee->limit, FIRST_LEVEL);
}

void weir_knee_assume(weir_knee *knee, uint32_t low)
{
	weir_knee_view view = {.most_ns = INFINITY};
	end_slow_start(knee, low, &view);
}

/* The level before it was found good, and is what the next can be compared with. */
void weir_knee_assume_level(weir_knee *knee, uint32_t level)
{
	uint32_t good = level / 2 > FIRST_LEVEL ? level / 2 : FIRST_LEVEL;
	knee->level[1] = good;
	atomic_store_explicit(&knee->limit, good, memory_order_relaxed);
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
		end_slow_start(knee, level_for(view), view);
		return;
	}
	if (!knee->searching) {
		begin_level(knee, knee->level[1], view);
		return;
	}
	forget(knee);
	begin_epoch(knee, 1, view);
}

void weir_knee_tick(weir_knee *knee, const weir_knee_view *view)
{
	raise_bound(knee, view->refused, view->now_ns);
	if (!(view->response_ns > 0))
		return;
	if (knee->epoch_ns == 0) {
		/* The first answers are the short ones: only now that one knows how long they take can they be measured. */
		if (knee->searching)
			move_to(knee, knee->low, view);
		else
			begin_level(knee, knee->level[1], view);
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
