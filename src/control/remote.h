/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_REMOTE_H
#define WEIR_CONTROL_REMOTE_H

/*
 * The state of `adaptive-remote`, for its two halves: the hooks of single events (adaptive_remote.c) and the tick (remote_tick.c).
 * docs/laws/adaptive-remote.md explains the law; this is its vocabulary.
 *
 *	inside     requests that were admitted and have not ended: those that wait here and those that the backend has
 *	level      a range of numbers in the backend; half an octave each. Every level has the median of what requests took there
 *	base       what requests take on an unloaded backend: the median at the lowest levels that enough requests have met
 *	slow       a request that took `slow` times the base, or more
 *	congested  more than half of the requests are slow
 *	limited    the limit is in force
 *	rate       requests a second that the backend does when it has all that it can take
 *	gamma      the tail of the time in the backend: completions during a request's stay over the number it met there, at a high quantile
 *	beta       what the limit has to be multiplied by so that few enough are late
 *	own        what a request takes on an unloaded backend, at the target's percentile
 *
 * Times are kept as logarithms of nanoseconds: what matters is ratios.
 *
 * Threads: as law.h says. Counters only grow. Estimates that several threads write (medians, quantiles) are written without
 * synchronisation: a step that gets lost is one sample less.
 */

#include <stdatomic.h>
#include <weir/law.h>

#include "control/degrade.h"

#define WEIR_REMOTE_TICK_NS (10 * WEIR_NS_PER_MS)
#define WEIR_REMOTE_LEVELS  40
#define WEIR_REMOTE_AGES    64
#define WEIR_REMOTE_OPEN    UINT32_MAX

/* The law's constants. `./dev bench laws` scales each of them to show what it matters. */
typedef struct weir_remote_tuning {
	double first;     /* requests that an unknown backend gets at once */
	double ahead;     /* it gets more while requests wait and take less than this many times the base */
	double slow;      /* times the base */
	double memory;    /* requests over which shares are averaged */
	double base_seen; /* requests that make the base */
	double margin;    /* part of the share that may be late that is aimed at */
	double credit;    /* requests that may come in above the limit before anything is shed */
	double headroom;  /* part of the limit that a class leaves to the classes above it */
	double own;    /* a request that misses the target by nature may take this many times its own time */
	double grow;   /* factor of a limit that binds without congestion, a response time */
	double window; /* of the rate: targets, */
	double enough; /* and at least so many requests */
	double lift_s; /* the limit is lifted after so many seconds, */
	double lift;   /* and so many targets, without congestion and rejection */
	double step;   /* of medians and quantiles */
} weir_remote_tuning;

typedef struct weir_remote_level {
	_Atomic float median; /* ln ns */
	_Atomic uint32_t seen;
	_Atomic int32_t run; /* steps in one direction */
} weir_remote_level;

typedef struct weir_remote {
	/* const after init */
	double quantile;
	double aimed; /* the quantile that is aimed at: a little higher */
	uint64_t target_ns[WEIR_CLASSES];
	uint64_t least_target_ns;
	double minimum[WEIR_CLASSES];
	double quality_least;
	weir_remote_tuning tuning;
	unsigned age_shift; /* a stretch of the ring of ages is 2^shift ns */

	/* any thread reads; the tick writes */
	_Alignas(64) _Atomic uint32_t limit[WEIR_CLASSES]; /* requests inside; WEIR_REMOTE_OPEN: any */
	_Atomic uint64_t due_every_ns[WEIR_CLASSES];       /* between two of a class's minimum; 0: none */
	_Atomic uint32_t cap;                              /* requests that the backend gets at once */
	_Atomic float slow_from;   /* ln ns from which on a request is slow; 0: not known */
	_Atomic uint32_t base_top; /* the highest level that the base is made of */
	_Atomic float beta_step;
	_Atomic double told_gamma, told_own_ns, told_rate; /* own: 0: not known */
	_Atomic uint32_t top_class;                        /* the highest that is present */
	_Atomic bool congested, limited, dry_run;
	_Atomic bool strict;     /* what is past helping is dropped */
	_Atomic uint64_t oldest; /* stretch in the ring of ages */
	_Atomic int32_t overdue; /* requests in the backend that have left the ring: they may never end */

	/* any thread writes */
	_Alignas(64) _Atomic int32_t waiting[WEIR_CLASSES];
	_Atomic int32_t serving; /* in the backend, overdue ones included */
	_Atomic int32_t serving_of[WEIR_CLASSES];
	_Atomic int64_t credit; /* in thousandths of a request */
	_Atomic uint32_t shed[WEIR_CLASSES];
	_Atomic uint64_t
		shadow_ns; /* in a dry run: when the backend would have done all that would have been let in */
	_Atomic uint64_t due_next_ns[WEIR_CLASSES];
	_Alignas(64) _Atomic uint64_t done;
	_Atomic uint32_t judged, slowed, late, plainly_late;
	_Atomic uint64_t backend_us; /* sum of the times in the backend */
	_Atomic int64_t took_ln,
		rates_ln; /* sums of their logarithms, and of the rates that slow ones saw, in thousandths */
	_Atomic float gamma, beta, measured, own; /* ln */
	_Atomic uint32_t own_seen;
	_Alignas(64) _Atomic int32_t
		age[WEIR_REMOTE_AGES]; /* requests in the backend, by when they were started */
	_Alignas(64) weir_remote_level level[WEIR_REMOTE_LEVELS];

	/* the tick */
	_Alignas(64) uint32_t seen_judged;
	uint32_t seen_slowed, seen_late, seen_plainly, seen_shed[WEIR_CLASSES];
	uint64_t seen_done, seen_backend_us;
	int64_t seen_took_ln, seen_rates_ln;
	double judged_all;               /* up to the memory */
	double slow_share, late_share;   /* late: of what requests are held to */
	double plain_share;              /* late: of the plain target */
	double recent_ln, recent_seen;   /* mean logarithm of the time in the backend */
	double backend_s;                /* mean */
	double rate, rate_ln, rate_seen; /* requests a second; the sum that it is made of */
	uint64_t present_ns[WEIR_CLASSES], busy_ns, grown_ns;
	/* how many the backend gets */
	double cap_now, cap_answers;
	/* looking below: half as many, to see whether they take less */
	double probe, probe_ln; /* 0: not now */
	double probe_answers, probe_enough, probe_s;
	double mean_serving;
	uint64_t nature_until_ns; /* times above the target are known to be nature */
	/* trying less: does the backend do as much with fewer? */
	bool trial;
	double trial_done, trial_s, trial_rate, trial_cap;
	uint64_t trial_from_ns;
	/* what the tick tells others */
	_Atomic uint32_t shedding; /* a bit a class */
	_Atomic double told_slow;
	_Atomic bool unreachable;
	weir_degrade degrade[WEIR_CLASSES];
} weir_remote;

extern const weir_remote_tuning weir_remote_usual;

void weir_remote_tick(void *state, const weir_sample *sample);

/* The level of a squared number of requests, or of the product of two: the exponent of 2. */
static inline unsigned weir_remote_level_of(double squared)
{
	union {
		double number;
		uint64_t bits;
	} as = {squared};
	int at = squared >= 1 ? (int)(as.bits >> 52) - 1023 : 0;
	return at < WEIR_REMOTE_LEVELS ? (unsigned)at : WEIR_REMOTE_LEVELS - 1;
}

/* In the backend, but for those that may never end. */
static inline int32_t weir_remote_serving(const weir_remote *r)
{
	int32_t count = atomic_load_explicit(&r->serving, memory_order_relaxed) -
			atomic_load_explicit(&r->overdue, memory_order_relaxed);
	return count > 0 ? count : 0;
}

/*
 * What is done before a request of this class that comes now. What the backend has of lower classes counts too, as it cannot be taken back, but
 * it leaves a class room for two requests at least: those who are more important do not suffer for what was let in before they came.
 */
static inline double weir_remote_ahead(const weir_remote *r, unsigned klass, double limit)
{
	double gamma = atomic_load_explicit(&r->told_gamma, memory_order_relaxed);
	int32_t waiting = 0, own = 0, all = weir_remote_serving(r);
	for (unsigned k = 0; k <= klass; k++) {
		waiting += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
		own += atomic_load_explicit(&r->serving_of[k], memory_order_relaxed);
	}
	double others = all > own ? gamma * (all - own) : 0,
	       most = limit - 2 < .8 * limit ? limit - 2 : .8 * limit;
	if (others > most)
		others = most > 0 ? most : 0;
	return (waiting > 0 ? waiting : 0) + gamma * (own < all ? own : all) + others;
}

/* What requests of a class are held to: its target, or a multiple of their own time where that alone is longer. */
static inline double weir_remote_target_ns(const weir_remote *r, unsigned klass)
{
	double target_ns = (double)r->target_ns[klass];
	double own_ns = atomic_load_explicit(&r->told_own_ns, memory_order_relaxed);
	return own_ns > target_ns ? r->tuning.own * own_ns : target_ns;
}

#endif
