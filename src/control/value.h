/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_VALUE_H
#define WEIR_CONTROL_VALUE_H

/*
 * The state of `value`, for its parts: parameters, who is admitted, reports (value.c), and what is learnt
 * once per tick (value_tick.c). docs/laws/value.md explains the law.
 *
 *  work      expected cost, in microseconds. Of a request of unknown cost: the typical cost of its class
 *  typical   the mean time of the class's requests of unknown cost in calm; or the mean of the class's known
 *            costs, or of all known ones, or a guess
 *  room      work that may be inside
 *
 * Threads: as in law.h.
 */

#include "control/calibration.h"
#include "control/knapsack.h"
#include "control/remote.h"

#define WEIR_VALUE_COST_GUESS 1000. /* us, if no cost has ever been known */

/* Work of a class: the expected cost of requests, and the number of those whose cost is unknown. */
typedef struct weir_value_work {
	_Atomic int64_t us;
	_Atomic int32_t unknown;
} weir_value_work;

typedef struct weir_value_mean {
	double us, seen;
} weir_value_mean;

typedef struct weir_value {
	weir_remote remote; /* first, so that its hooks can be given this state */
	/* const after init */
	double revenue[WEIR_CLASSES];
	double dearest;    /* of all */
	double late_usual; /* the share of late answers that adaptive-remote aims at */
	/* any thread reads; the tick writes */
	_Atomic double room_us[WEIR_CLASSES];    /* 0: unlimited */
	_Atomic double mean_us;                  /* cost of the answers, and ... */
	_Atomic double typical_us[WEIR_CLASSES]; /* ... of a class's requests, for those of unknown cost */
	_Atomic double told_price, told_capacity;
	_Atomic uint32_t outbid; /* classes of which some were refused for their price, one bit each */
	/* any thread writes */
	_Alignas(64) weir_value_work waiting[WEIR_CLASSES], serving[WEIR_CLASSES];
	_Atomic uint64_t done_us, done, refused_us;                   /* done_us: of known cost */
	_Atomic uint32_t done_unknown[WEIR_CLASSES];                  /* answers of unknown cost */
	_Atomic uint64_t known_us[WEIR_CLASSES], known[WEIR_CLASSES]; /* offers of known cost */
	_Atomic uint64_t asked_unknown;                               /* offers of unknown cost */
	_Atomic uint64_t own_us[WEIR_CLASSES], own[WEIR_CLASSES];     /* times in calm, of those */
	_Atomic uint32_t refused[WEIR_CLASSES];                       /* for their price */
	weir_knapsack knapsack;
	/* the tick */
	uint64_t seen_done_us, seen_done, seen_refused_us, seen_known_us[WEIR_CLASSES],
		seen_known[WEIR_CLASSES];
	uint32_t seen_refused[WEIR_CLASSES], seen_unknown[WEIR_CLASSES];
	uint64_t seen_own_us[WEIR_CLASSES], seen_own[WEIR_CLASSES], seen_unknown_asked;
	/* By class, and over all: of the known costs; of the times of requests of unknown cost, in calm. */
	weir_value_mean mean[WEIR_CLASSES + 1], own_mean[WEIR_CLASSES + 1];
	weir_calibration calibration;
	double done_lately, refused_lately, filled_lately, time_lately; /* sums that fade as the knapsack's */
} weir_value;

static inline double weir_value_typical_us(const weir_value *v, unsigned klass)
{
	double us = atomic_load_explicit(&v->typical_us[klass], memory_order_relaxed);
	return us > 0 ? us : WEIR_VALUE_COST_GUESS;
}

/* The work before a new request: what waits here, and what the backend has. */
double weir_value_ahead_us(const weir_value *v);
/* How much of the room is used. */
double weir_value_filled(const weir_value *v);
/* The hook of the law. */
void weir_value_tick(void *state, const weir_sample *sample);

#endif
