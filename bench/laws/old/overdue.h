/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OLD_OVERDUE_H
#define WEIR_OLD_OVERDUE_H

/*
 * How many requests are in flight, and how many of them for so long that they may never end. Requests are counted by the stretch of
 * time in which they were started; a ring of counters holds the last WEIR_STRETCHES of those, and what is still in the oldest when
 * it falls out of the ring is overdue. One increment at the start, one decrement at the end, whoever does them.
 *
 * A thread that ends a request just while its stretch falls out may take it from the counter's next user instead of from the
 * overdue ones: the sum stays right, and so do the parts when that counter falls out in its turn.
 */

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_STRETCHES 32

typedef struct weir_overdue {
	/* const after init */
	unsigned shift; /* a stretch is 2^shift ns */
	/* any thread */
	_Alignas(64) _Atomic int32_t count[WEIR_STRETCHES];
	_Atomic int32_t overdue;
	_Atomic uint64_t oldest; /* the stretch that is the oldest in the ring */
} weir_overdue;

/* The ring spans at least patience_ns, and less than twice that. */
void weir_overdue_init(weir_overdue *overdue, uint64_t patience_ns);
/* Moves on to now; one thread at a time. */
void weir_overdue_tick(weir_overdue *overdue, uint64_t now_ns);
/* In flight, those that are overdue not counted. */
int32_t weir_overdue_fresh(const weir_overdue *overdue);

static inline int32_t weir_overdue_count(const weir_overdue *overdue)
{
	int32_t count = atomic_load_explicit(&overdue->overdue, memory_order_relaxed);
	return count > 0 ? count : 0;
}

static inline _Atomic int32_t *weir_overdue_place(weir_overdue *overdue, uint64_t started_ns)
{
	uint64_t stretch = started_ns >> overdue->shift;
	if (stretch < atomic_load_explicit(&overdue->oldest, memory_order_relaxed))
		return &overdue->overdue;
	return &overdue->count[stretch % WEIR_STRETCHES];
}

static inline void weir_overdue_started(weir_overdue *overdue, uint64_t now_ns)
{
	atomic_fetch_add_explicit(weir_overdue_place(overdue, now_ns), 1, memory_order_relaxed);
}

static inline void weir_overdue_ended(weir_overdue *overdue, uint64_t started_ns)
{
	atomic_fetch_sub_explicit(weir_overdue_place(overdue, started_ns), 1, memory_order_relaxed);
}

#endif
