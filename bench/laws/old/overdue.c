/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/old/overdue.h"

#define SHORTEST_BITS 25 /* 34 ms: a few ticks, or what starts between two of them would not find its place */
#define AHEAD         4

void weir_overdue_init(weir_overdue *overdue, uint64_t patience_ns)
{
	overdue->shift = SHORTEST_BITS;
	while ((UINT64_C(1) << overdue->shift) * (WEIR_STRETCHES - AHEAD) < patience_ns)
		overdue->shift++;
	for (unsigned i = 0; i < WEIR_STRETCHES; i++)
		atomic_init(&overdue->count[i], 0);
	atomic_init(&overdue->overdue, 0);
	atomic_init(&overdue->oldest, 0);
}

/*
 * The ring holds the stretches oldest .. oldest + 31, of which the last few are still to come, so that what starts between two ticks
 * finds its place. (After a tick that came late a start may share its counter with the oldest stretch, and count as overdue too early; it
 * is taken back at its end.)
 */
void weir_overdue_tick(weir_overdue *overdue, uint64_t now_ns)
{
	uint64_t oldest = atomic_load_explicit(&overdue->oldest, memory_order_relaxed);
	uint64_t wanted = (now_ns >> overdue->shift) + AHEAD;
	wanted = wanted > WEIR_STRETCHES ? wanted - WEIR_STRETCHES : 0;
	if (wanted > oldest + WEIR_STRETCHES)
		oldest = wanted - WEIR_STRETCHES; /* after a long sleep: all of them, once */
	for (; oldest < wanted; oldest++) {
		atomic_store_explicit(&overdue->oldest, oldest + 1, memory_order_relaxed);
		int32_t left = atomic_exchange_explicit(&overdue->count[oldest % WEIR_STRETCHES], 0,
							memory_order_relaxed);
		if (left != 0)
			atomic_fetch_add_explicit(&overdue->overdue, left, memory_order_relaxed);
	}
}

int32_t weir_overdue_fresh(const weir_overdue *overdue)
{
	int32_t sum = 0;
	for (unsigned i = 0; i < WEIR_STRETCHES; i++)
		sum += atomic_load_explicit(&overdue->count[i], memory_order_relaxed);
	return sum > 0 ? sum : 0;
}
