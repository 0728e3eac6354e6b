/* SPDX-License-Identifier: Apache-2.0 */
#include "control/overdue.h"

void weir_overdue_init(weir_overdue *overdue, uint64_t patience_ns)
{
	overdue->shift = 0;
	while ((UINT64_C(1) << overdue->shift) * (WEIR_STRETCHES - 1) < patience_ns)
		overdue->shift++;
	for (unsigned i = 0; i < WEIR_STRETCHES; i++)
		atomic_init(&overdue->count[i], 0);
	atomic_init(&overdue->overdue, 0);
	atomic_init(&overdue->oldest, 0);
}

/*
 * The ring holds the stretches oldest .. oldest + 31. A tick keeps the newest counter empty for those who start next: it makes room one
 * stretch ahead, so that starts between two ticks find their place (a start further ahead shares a counter with an old stretch until
 * the next tick, which then counts it as overdue for a while; ticks come more often than that).
 */
void weir_overdue_tick(weir_overdue *overdue, uint64_t now_ns)
{
	uint64_t oldest = atomic_load_explicit(&overdue->oldest, memory_order_relaxed);
	uint64_t wanted = (now_ns >> overdue->shift) + 2;
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
