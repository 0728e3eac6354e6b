/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OLD_KNEE_H
#define WEIR_OLD_KNEE_H

/*
 * How many requests a backend should have at once: the knee of its throughput against concurrency, found from outside.
 *
 * Two levels, `low` and `high`, take turns. By Little's law throughput is level / response time, so
 *
 *	e = ln(response at high / response at low) / ln(high / low)
 *
 * is 0 while more concurrency gives as much more throughput, 1 when it gives none, above 1 when it costs some (thrashing). The pair is
 * moved up while e is small and down while it is near 1, in steps that shorten at each turn, and so comes to rest where `low` just touches the
 * knee; the backend then spends nearly all of its time at `high`, above it. The means are not compared as they are, see rise() in knee.c.
 *
 * At first the level doubles with every round, until answers take surely longer than those of all levels before ("slow start").
 *
 * Guard rails. Those that come back first are the short ones: a request that was started and is not back yet counts as a long one. A request counts for the level at which it was started, and only if it was started a round after the change and
 * a round before the next, so that it has met nothing else: answers that come all together at a change look like infinite
 * throughput otherwise. Levels that were not used (the queue ran empty), or whose answers were failures in good part, say nothing: the
 * pair is measured again. A refusal bounds both levels at once, without a tick; the bound is raised step by step later on.
 *
 * Threads: settled and refused from any thread, the rest from one at a time.
 */

#include <stdbool.h>

#include "laws/old/tally.h"

typedef struct weir_knee_view {
	uint64_t now_ns;
	double response_ns; /* of late, in the mean; 0: nothing is known yet */
	double tail;        /* the mean of all times / the mean of those times cut at their 80 % quantile */
	double most_ns;     /* no level at which it is above this, if a lower one would be better */
	uint32_t in_flight;
	uint32_t starts,
		unsaturated; /* since the last tick; those of them that left nothing waiting and places free */
	bool trusted;        /* most answers were good ones */
	bool refused;        /* something was, since the last tick */
} weir_knee_view;

typedef struct weir_knee {
	/* the controller */
	bool searching;     /* slow start is over */
	double low, apart;  /* high / low */
	unsigned current;   /* of the two arms */
	uint32_t level[2];  /* searching: low, high */
	uint64_t epoch_ns;  /* when the current one began */
	uint64_t length_ns; /* searching: how long it will be */
	unsigned rest;      /* epochs at high for each at low */
	uint32_t starts, unsaturated;
	weir_spread arm[2];
	uint32_t seen_started[2]; /* of the arms' starts, when their spreads were cleared */
	double elasticity;        /* the last that was decided on */
	double step;              /* the factor of the pair's last move */
	bool moved;               /* answers are not what they were; whoever looks clears it */
	int heading;              /* and its direction: 1, -1, 0: none yet */
	double raise;             /* by which the bound is raised next */
	uint64_t raise_ns;
	/* any thread reads; the controller writes, and refusals lower the bound */
	_Alignas(64) _Atomic uint64_t from_ns[2], until_ns[2]; /* starts that count for the arms */
	_Atomic uint32_t limit, bound;
	_Atomic uint32_t started[2];
	weir_tally arm_tally[2], other_tally;
} weir_knee;

void weir_knee_init(weir_knee *knee);
/* From an earlier run, before the first tick: where the search was, or the level that the slow start was looking at. */
void weir_knee_assume(weir_knee *knee, uint32_t low);
void weir_knee_assume_level(weir_knee *knee, uint32_t level);
/* What came back since the last tick also goes into `recent`; returns how many answers that were. */
uint32_t weir_knee_take(weir_knee *knee, weir_spread *recent);
void weir_knee_tick(weir_knee *knee, const weir_knee_view *view);
/* The backend refused one; so many others were in flight. */
void weir_knee_refused(weir_knee *knee, uint32_t in_flight);

static inline uint32_t weir_knee_limit(const weir_knee *knee)
{
	uint32_t limit = atomic_load_explicit(&knee->limit, memory_order_relaxed);
	uint32_t bound = atomic_load_explicit(&knee->bound, memory_order_relaxed);
	return limit < bound ? limit : bound;
}

/* The arm that a start at this time counts for; -1: none. */
static inline int weir_knee_arm(const weir_knee *knee, uint64_t started_ns)
{
	int arm = -1;
	for (int i = 0; i < 2; i++)
		if (started_ns >= atomic_load_explicit(&knee->from_ns[i], memory_order_relaxed) &&
		    started_ns < atomic_load_explicit(&knee->until_ns[i], memory_order_relaxed))
			arm = i;
	return arm;
}

static inline void weir_knee_started(weir_knee *knee, uint64_t now_ns)
{
	int arm = weir_knee_arm(knee, now_ns);
	if (arm >= 0)
		atomic_fetch_add_explicit(&knee->started[arm], 1, memory_order_relaxed);
}

/* It ended otherwise, and says nothing. */
static inline void weir_knee_lost(weir_knee *knee, uint64_t started_ns)
{
	int arm = weir_knee_arm(knee, started_ns);
	if (arm >= 0)
		atomic_fetch_sub_explicit(&knee->started[arm], 1, memory_order_relaxed);
}

/* A good answer, so long after its start. */
static inline void weir_knee_settled(weir_knee *knee, uint64_t started_ns, uint64_t took_ns)
{
	int arm = weir_knee_arm(knee, started_ns);
	weir_tally_add(arm >= 0 ? &knee->arm_tally[arm] : &knee->other_tally, took_ns);
}

#endif
