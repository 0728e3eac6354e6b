/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_RECENT_H
#define WEIR_CONTROL_RECENT_H

/*
 * What a law remembers of the last ticks in order to explain itself: which classes it refused, and the
 * time from one completion to the next, which is when there is room for another event.
 *
 * Threads: any thread may call refused and the readers; one at a time calls tick.
 */

#include <stdatomic.h>

#include <weir/law.h>

typedef struct weir_recent {
	_Atomic uint32_t refused;  /* bit mask of classes, since the last tick */
	_Atomic uint32_t shedding; /* the same for the interval before it */
	_Atomic uint64_t gap_ns;   /* between two completions; 0: none seen yet */
} weir_recent;

static inline void weir_recent_refused(weir_recent *recent, unsigned klass)
{
	uint32_t bit = 1u << klass % WEIR_CLASSES;
	/* Written only once per tick: all refusing threads share the word. */
	if (!(atomic_load_explicit(&recent->refused, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(&recent->refused, bit, memory_order_relaxed);
}

static inline bool weir_recent_shedding(const weir_recent *recent, unsigned klass)
{
	uint32_t bits = atomic_load_explicit(&recent->refused, memory_order_relaxed) |
			atomic_load_explicit(&recent->shedding, memory_order_relaxed);
	return bits >> klass % WEIR_CLASSES & 1;
}

/* The time until this many should have ended. */
static inline uint64_t weir_recent_retry_ns(const weir_recent *recent, uint32_t count)
{
	return atomic_load_explicit(&recent->gap_ns, memory_order_relaxed) * count;
}

static inline void weir_recent_tick(weir_recent *recent, const weir_sample *sample)
{
	uint64_t ended = 0, gap_ns = atomic_load_explicit(&recent->gap_ns, memory_order_relaxed);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		ended += sample->klass[k].completed + sample->klass[k].failed + sample->klass[k].dropped;
	uint32_t refused = atomic_exchange_explicit(&recent->refused, 0, memory_order_relaxed);
	atomic_store_explicit(&recent->shedding, refused, memory_order_relaxed);
	if (ended == 0)
		return;
	uint64_t now_ns = sample->interval_ns / ended;
	gap_ns = gap_ns == 0 ? now_ns : gap_ns - gap_ns / 4 + now_ns / 4;
	atomic_store_explicit(&recent->gap_ns, gap_ns > 0 ? gap_ns : 1, memory_order_relaxed);
}

#endif
