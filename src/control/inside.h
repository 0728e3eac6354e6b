/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_INSIDE_H
#define WEIR_CONTROL_INSIDE_H

/*
 * A count of the events inside (admitted, not ended) and a bound on it, for laws that have one.
 *
 * The law's own count is exact over all queues of a stage as long as the law decides about every event.
 * Where it does not (exempt events, those that an earlier law admitted, a dry run) the count is too low.
 * So the queue's own numbers, which come with the offer, are compared with the bound as well. Ends of
 * events that were never counted leave the count at 0.
 *
 * Threads: any.
 */

#include <stdatomic.h>

#include <weir/law.h>

typedef struct weir_inside {
	_Atomic uint32_t count;
} weir_inside;

/* Admits all of the ask, or nothing. */
static inline bool weir_inside_enter(weir_inside *inside, const weir_ask *ask, uint32_t limit)
{
	if ((uint64_t)ask->waiting + ask->in_service + ask->count > limit)
		return false;
	uint32_t count = atomic_load_explicit(&inside->count, memory_order_relaxed);
	do {
		if ((uint64_t)count + ask->count > limit)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&inside->count, &count, count + ask->count,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

static inline void weir_inside_leave(weir_inside *inside, uint32_t gone)
{
	uint32_t count = atomic_load_explicit(&inside->count, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&inside->count, &count, count > gone ? count - gone : 0,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

static inline uint32_t weir_inside_count(const weir_inside *inside)
{
	return atomic_load_explicit(&inside->count, memory_order_relaxed);
}

#endif
