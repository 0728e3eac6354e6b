/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_REMOTE_H
#define WEIR_CONTROL_REMOTE_H

/*
 * The state of `adaptive-remote`, for its parts: the hooks of single events (adaptive_remote.c), what is evidence (remote_evidence.c) and the
 * tick (remote_tick.c). docs/laws/adaptive-remote.md explains the law; this is its vocabulary.
 *
 *	inside     requests that were admitted and have not ended: those that wait here and those that the backend has
 *	level      a range of numbers in the backend that a request may meet when it is started; half an octave each
 *	base       what requests take on an unloaded backend: the middle of the times at the lowest levels
 *	slowdown   what requests take now, over the base
 *	slow       a request that took `slow` times the base, or more
 *	congested  most requests are slow, by more than chance (remote_evidence.c)
 *	strain     how far the share of slow requests is from what it is without load (0) to what counts as congestion (1)
 *	calm       a level at which requests are not slow. As many as the highest calm level are always let in
 *	limited    the limit is in force
 *	rate       requests a second that the backend does when it has all that it can take
 *	kind       requests of about the same expected cost (event.cost), within a factor of 4; 0: of unknown cost
 *	gamma      the tail: completions during a request's stay over the number it met, at a high quantile
 *	beta       what the limit has to be multiplied by so that few enough are late
 *	own        what requests of a kind take on an unloaded backend, at the target's percentile
 *
 * Times are compared as logarithms of nanoseconds: what matters is ratios.
 *
 * Threads: as law.h says. Counters only grow. Estimates that several threads write (gamma, beta) are written without synchronisation: a
 * step that gets lost is one sample less.
 */

#include <stdatomic.h>
#include <weir/law.h>

#include "control/degrade.h"
#include "control/times.h"

#define WEIR_REMOTE_TICK_NS    (10 * WEIR_NS_PER_MS)
#define WEIR_REMOTE_LEVELS     40
#define WEIR_REMOTE_KINDS      16
#define WEIR_REMOTE_MARKS      3
#define WEIR_REMOTE_AGES       64
#define WEIR_REMOTE_OPEN       UINT32_MAX
#define WEIR_REMOTE_FEW        2     /* requests that do not saturate any backend */
#define WEIR_REMOTE_BETA_LEAST (-1.) /* ln */
#define WEIR_REMOTE_BETA_MOST  .35

/* The law's constants. `./dev bench laws` scales each of them to show what it matters. */
typedef struct weir_remote_tuning {
	double first;    /* requests that an unknown backend gets at once */
	double slow;     /* times the base */
	double sure;     /* standard deviations that the slowdown must be off by chance to be mistaken */
	double base;     /* requests that make the base */
	double margin;   /* part of the share that may be late that is aimed at */
	double credit;   /* requests that may come in above the limit before anything is shed */
	double headroom; /* part of the limit that a class leaves to the classes above it */
	double own;    /* a request that misses the target by nature may take this many times its own time */
	double grow;   /* factor of a limit that binds without congestion, a response time */
	double window; /* of the rate: targets, */
	double enough; /* and at least so many requests */
	double lift_s; /* the limit is lifted after so many seconds, */
	double lift;   /* and so many targets, without congestion */
	double step;   /* of quantiles */
} weir_remote_tuning;

typedef struct weir_remote_level {
	weir_times times;
	_Atomic uint32_t started, ended; /* requests that met this level */
	/* the tick */
	uint32_t looked; /* of ended */
	double seen, middle, spread, missing;
	uint64_t last_ns;
} weir_remote_level;

typedef struct weir_remote_kind {
	weir_times own; /* times on an unloaded backend */
	_Atomic uint32_t answers, late;
	_Atomic uint64_t own_ns; /* 0: not known */
	_Atomic float cost_ns;   /* expected, on average; 0: not known */
	/* the tick */
	uint32_t looked, seen_answers, seen_late;
	double present; /* of the last answers */
	double late_share, late_seen;
} weir_remote_kind;

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
	_Atomic uint32_t floor;                            /* so many inside are not slowed */
	_Atomic uint32_t cap;                              /* requests that the backend gets at once */
	_Atomic float slow_from
		[WEIR_REMOTE_MARKS]; /* ln ns: the base's quartiles times what is slow; 0: not known */
	_Atomic int32_t own_top;     /* up to this level times are requests' own; -1: not known */
	_Atomic uint32_t binding;    /* the kind that the limit is made for */
	_Atomic double told_gamma, told_rate, told_slowdown, told_base_ns;
	_Atomic uint32_t top_class; /* the highest that is present */
	_Atomic bool congested, limited, dry_run;
	_Atomic bool strict;     /* what is past helping is dropped */
	_Atomic uint64_t oldest; /* stretch in the ring of ages */
	_Atomic bool deep;       /* answers take so long that those who have left the ring will end, too */
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
	_Atomic uint32_t rated, slowed[WEIR_REMOTE_MARKS], plainly_late;
	_Atomic uint64_t backend_us; /* sum of the times in the backend */
	_Atomic int64_t rates_ln; /* sum of the logarithms of the rates that slow ones saw, in thousandths */
	_Atomic float gamma, beta, measured; /* ln */
	_Alignas(64) _Atomic int32_t
		age[WEIR_REMOTE_AGES]; /* requests in the backend, by when they were started */
	weir_times recent;
	weir_remote_kind kind[WEIR_REMOTE_KINDS];
	weir_remote_level level[WEIR_REMOTE_LEVELS];

	/* the tick */
	_Alignas(64) uint32_t seen_slowed[WEIR_REMOTE_MARKS];
	uint32_t seen_rated, seen_plainly, seen_shed[WEIR_CLASSES];
	uint64_t seen_done, seen_backend_us;
	int64_t seen_rates_ln;
	double base, spread; /* ln; INFINITY: not known */
	double base_seen;    /* answers that it is made of */
	double nature,
		threshold; /* slow ones without any load; and if all took so much longer that it counts */
	double slow_share, judged_seen, slow_seen, old_seen[WEIR_REMOTE_MARKS];
	double strain; /* 0: as slow as without load; 1: slow enough to count */
	float judged_by;
	double slowdown;                 /* ln; 0 where nothing is known */
	bool steady, ever_steady;        /* the backend keeps up, or did once */
	uint64_t window_ns;              /* since when that is being looked at, */
	double window_inside;            /* and how many were inside then */
	double worst;                    /* late share of a kind that comes */
	double late_share;               /* late: of what requests are held to */
	double plain_share;              /* late: of the plain target */
	double backend_s, backend_seen;  /* mean time there */
	double rate, rate_ln, rate_seen; /* requests a second; the sum that it is made of */
	uint64_t present_ns[WEIR_CLASSES], busy_ns, grown_ns;
	/* how many the backend gets */
	double cap_now, cap_answers;
	uint64_t cap_ns, answered_ns, timely_ns;
	/* trying less: does the backend do as much with fewer? */
	bool trial;
	double trial_done, trial_s, trial_rate, trial_cap;
	uint64_t trial_from_ns;
	/* what the tick tells others */
	_Atomic uint32_t shedding; /* a bit a class */
	_Atomic bool unreachable;
	weir_degrade degrade[WEIR_CLASSES];
} weir_remote;

extern const weir_remote_tuning weir_remote_usual;

void weir_remote_tick(void *state, const weir_sample *sample);
/* Learns base, slowdown, calm levels and own times from what was answered. Returns whether the backend is congested. */
bool weir_remote_evidence(weir_remote *r, uint64_t now_ns, bool open, uint32_t answers,
			  const uint32_t slowed[WEIR_REMOTE_MARKS]);

/* The level of so many requests: twice the binary logarithm. */
static inline unsigned weir_remote_level_of(uint64_t met)
{
	union {
		double number;
		uint64_t bits;
	} as = {(double)met * (double)met};
	int at = met > 1 ? (int)(as.bits >> 52) - 1023 : 0;
	return at < WEIR_REMOTE_LEVELS ? (unsigned)at : WEIR_REMOTE_LEVELS - 1;
}

static inline unsigned weir_remote_kind_of(uint64_t cost_us)
{
	unsigned kind = cost_us == 0 ? 0 : 1 + (63 - (unsigned)__builtin_clzll(cost_us)) / 2;
	return kind < WEIR_REMOTE_KINDS ? kind : WEIR_REMOTE_KINDS - 1;
}

/* In the backend, but for those that may never end. */
static inline int32_t weir_remote_serving(const weir_remote *r)
{
	int32_t count = atomic_load_explicit(&r->serving, memory_order_relaxed);
	if (!atomic_load_explicit(&r->deep, memory_order_relaxed))
		count -= atomic_load_explicit(&r->overdue, memory_order_relaxed);
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

/* What requests of a class and a kind are held to: the target, or a multiple of their own time where that alone is longer. */
static inline double weir_remote_target_ns(const weir_remote *r, unsigned klass, unsigned kind)
{
	double target_ns = (double)r->target_ns[klass];
	double own_ns = (double)atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed);
	return own_ns > target_ns ? r->tuning.own * own_ns : target_ns;
}

/* The same of the kind that the limit is made for. */
static inline double weir_remote_bound_ns(const weir_remote *r, unsigned klass)
{
	return weir_remote_target_ns(r, klass, atomic_load_explicit(&r->binding, memory_order_relaxed));
}

#endif
