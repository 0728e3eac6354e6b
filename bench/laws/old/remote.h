/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OLD_REMOTE_H
#define WEIR_OLD_REMOTE_H

/* The state of `adaptive-remote`, for its two halves: the hooks of single events (adaptive_remote.c) and the tick (remote_tick.c). */

#include <weir/law.h>

#include "control/degrade.h"
#include "laws/old/drain.h"
#include "laws/old/knee.h"
#include "laws/old/overdue.h"

#define WEIR_REMOTE_TICK_NS (10 * WEIR_NS_PER_MS)

/* Events of a class waiting and started, in one word: their sum is what changes at a start, and a start is one addition. */
#define WEIR_FLOW_ADMITTED UINT64_C(1)
#define WEIR_FLOW_STARTED  (UINT64_C(1) << 32)

static inline int32_t weir_flow_waiting(uint64_t flow)
{
	return (int32_t)(uint32_t)flow; /* below 0 where some started that were never admitted (a dry run) */
}

static inline uint32_t weir_flow_started(uint64_t flow)
{
	return (uint32_t)((flow - (uint64_t)(int64_t)weir_flow_waiting(flow)) >> 32);
}

/* A guaranteed minimum: the time at which the next one is due, as in the token bucket. */
typedef struct weir_due {
	_Atomic uint64_t next_ns;
} weir_due;

typedef struct weir_remote {
	/* const after init */
	double quantile;
	uint64_t target_ns[WEIR_CLASSES];
	uint64_t least_target_ns;
	double minimum[WEIR_CLASSES];
	double quality_least;

	/* any thread; written at ticks */
	_Alignas(64) _Atomic uint32_t room[WEIR_CLASSES]; /* how many of this class and above may wait */
	_Atomic uint64_t patience_ns[WEIR_CLASSES];
	_Atomic uint64_t due_every_ns[WEIR_CLASSES]; /* between two of a class's minimum; 0: none */
	_Atomic uint32_t allowance;                  /* for requests that will never end */
	_Atomic double drain_ns;                     /* per request, for explain and report */
	_Atomic double response_ns;

	/* any thread writes */
	_Alignas(64) _Atomic uint64_t flow[WEIR_CLASSES];
	_Alignas(64) _Atomic uint32_t late[WEIR_CLASSES];
	_Atomic uint32_t unsaturated, dropped, failed, refused;
	weir_due due_in[WEIR_CLASSES], due_start[WEIR_CLASSES];
	weir_tally response; /* from the offer on; a sample */
	weir_overdue overdue;
	weir_knee knee;

	/* the tick */
	_Alignas(64) weir_drain drain;
	weir_spread recent;    /* from start to answer */
	weir_spread responses; /* from offer to answer */
	uint32_t seen_started[WEIR_CLASSES], seen_late[WEIR_CLASSES];
	uint32_t seen_unsaturated, seen_dropped, seen_failed, seen_refused;
	double credit[WEIR_CLASSES], share[WEIR_CLASSES];
	uint64_t present_ns[WEIR_CLASSES]; /* when something of the class was last offered */
	uint64_t answered_ns;              /* when something last came back */
	double good, bad;                  /* answers and failures lately */
	double caution;                    /* of what fits, so much is let in: 1, less where the waits vary */
	double yield;                      /* 1; less while a lower class does not get its minimum */
	/* what the tick tells others */
	_Atomic uint32_t shedding;                              /* a bit a class */
	_Atomic double told_low, told_elasticity, told_caution; /* low: 0 in slow start */
	_Atomic uint32_t told_level;                            /* of the slow start; 0 after it */
	_Atomic uint64_t measured_ns;
	_Atomic bool unreachable;
	weir_degrade degrade[WEIR_CLASSES];
} weir_remote;

/* Puts what only the tick may look at where save and report can read it. */
void weir_remote_tell(weir_remote *remote);
void weir_old_remote_tick(void *state, const weir_sample *sample);

#endif
