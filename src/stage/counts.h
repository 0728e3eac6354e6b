/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_COUNTS_H
#define WEIR_STAGE_COUNTS_H

/*
 * What a stage counts. Each reactor thread has counts of its own for every stage it deals with, so that counting
 * is a plain load and store; all other threads (elastic pools, threads from outside) share one set and pay
 * for atomic adds. A reader sums over the sets.
 *
 * Order matters in one place: a stop concludes from the counts that nothing is in flight. Counts are therefore stored
 * with release, and an event's admission to the next stage is counted before its end in this one (drain.c).
 */

#include <stdatomic.h>
#include <weir/inspect.h>

#include "base/hist.h"

typedef _Atomic uint64_t weir_count;

typedef struct weir_counts {
	bool shared; /* const: several writers */
	weir_count offered[WEIR_CLASSES], admitted[WEIR_CLASSES], started[WEIR_CLASSES];
	weir_count completed[WEIR_CLASSES], failed[WEIR_CLASSES], dropped[WEIR_CLASSES];
	weir_count inlined, batches, busy_ns;
	weir_count shed[WEIR_CLASSES][WEIR_VERDICT_COUNT];
	weir_count drops[WEIR_CLASSES][WEIR_VERDICT_COUNT];
	weir_count from[WEIR_STAGES_MAX + 1]; /* admitted, by where from: 0 outside, else stage index + 1 */
	_Atomic(weir_hist *) hist[WEIR_CLASSES][WEIR_MEASURES]; /* made when first needed */
} weir_counts;

weir_counts *weir_counts_new(bool shared);
void weir_counts_free(weir_counts *counts);

static inline void weir_count_add(weir_counts *counts, weir_count *count, uint64_t by)
{
	if (counts->shared)
		atomic_fetch_add_explicit(count, by, memory_order_release);
	else
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by,
				      memory_order_release);
}

static inline uint64_t weir_count_get(const weir_count *count)
{
	return atomic_load_explicit(count, memory_order_acquire);
}

/* Makes the histogram. NULL: no memory; then the value is lost, nothing else. */
weir_hist *weir_counts_make_hist(weir_counts *counts, unsigned klass, weir_measure measure);

static inline void weir_counts_measure(weir_counts *counts, unsigned klass, weir_measure measure,
				       uint64_t value_ns)
{
	weir_hist *hist = atomic_load_explicit(&counts->hist[klass][measure], memory_order_acquire);
	if (__builtin_expect(hist == NULL, 0)) {
		hist = weir_counts_make_hist(counts, klass, measure);
		if (hist == NULL)
			return;
	}
	if (counts->shared)
		weir_hist_add_shared(hist, value_ns);
	else
		weir_hist_add(hist, value_ns);
}

#endif
