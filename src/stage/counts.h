/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_COUNTS_H
#define WEIR_STAGE_COUNTS_H

/*
 * What a stage counts. Each reactor thread has its own counts for every stage, so counting is a plain load
 * and store. All other threads (elastic pools, outside threads) share one set and pay for atomic adds. A
 * reader sums over the sets.
 *
 * Order matters in one place: a stop concludes from the counts that nothing is in flight. So counts are
 * stored with release, and an admission to the next stage is counted before the end in this one (drain.c).
 */

#include <stdatomic.h>
#include <weir/inspect.h>

#include "base/hist.h"

typedef _Atomic uint64_t weir_count;

/*
 * A count for each origin: 0 is outside, otherwise a stage's index + 1. Most worlds have few stages, so that
 * only the first counts are there from the start; the others come in blocks.
 */
enum { WEIR_EDGES_BLOCK = 64, WEIR_EDGES_BLOCKS = WEIR_STAGES_MAX / WEIR_EDGES_BLOCK };

typedef struct weir_edges {
	weir_count near[WEIR_EDGES_BLOCK];
	_Atomic(weir_count *) far[WEIR_EDGES_BLOCKS]; /* NULL: all of them are 0 */
	weir_count lost;                              /* for what there was no memory for */
} weir_edges;

_Static_assert(WEIR_STAGES_MAX % WEIR_EDGES_BLOCK == 0, "the last block has the last stage");

/* The count of an origin of which there is none yet. */
weir_count *weir_edges_far(weir_edges *edges, unsigned origin);
uint64_t weir_edges_get(const weir_edges *edges, unsigned origin);
void weir_edges_fini(weir_edges *edges);

static inline weir_count *weir_edges_at(weir_edges *edges, unsigned origin)
{
	if (__builtin_expect(origin < WEIR_EDGES_BLOCK, 1))
		return &edges->near[origin];
	return weir_edges_far(edges, origin);
}

typedef struct weir_counts {
	bool shared; /* const: several writers */
	weir_count offered[WEIR_CLASSES], admitted[WEIR_CLASSES], started[WEIR_CLASSES];
	weir_count completed[WEIR_CLASSES], failed[WEIR_CLASSES], dropped[WEIR_CLASSES];
	weir_count late[WEIR_CLASSES]; /* of those completed: later than promised */
	/*
	 * Run at once: offered, admitted and started in one step, without waiting. Not included in those
	 * three, nor in the measured waiting times; readers add it (counts.c).
	 */
	weir_count inlined[WEIR_CLASSES];
	weir_count batches, busy_ns; /* handler calls with events from a queue, and the time in them */
	weir_count shed[WEIR_CLASSES][WEIR_VERDICT_COUNT];
	weir_count drops[WEIR_CLASSES][WEIR_VERDICT_COUNT];
	weir_count spared[WEIR_CLASSES]
			 [WEIR_VERDICT_COUNT];    /* refused by law or pressure, and admitted anyway */
	weir_edges from;                          /* admitted, by origin */
	_Atomic(weir_hist *) hists[WEIR_CLASSES]; /* one per measure; made when first needed */
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

/* Makes the histograms of a class. NULL: out of memory; only the value is lost. */
weir_hist *weir_counts_make_hists(weir_counts *counts, unsigned klass);

static inline weir_hist *weir_counts_hists(weir_counts *counts, unsigned klass)
{
	weir_hist *hists = atomic_load_explicit(&counts->hists[klass], memory_order_acquire);
	return __builtin_expect(hists != NULL, 1) ? hists : weir_counts_make_hists(counts, klass);
}

static inline void weir_counts_measure(const weir_counts *counts, weir_hist *hist, uint64_t value_ns)
{
	if (counts->shared)
		weir_hist_add_shared(hist, value_ns);
	else
		weir_hist_add(hist, value_ns);
}

/* The counts of one class, about now, in the order that drain.c needs: ends first, admissions last. */
typedef struct weir_class_counts {
	uint64_t late, completed, failed, dropped, started, admitted, offered;
} weir_class_counts;

void weir_counts_add_ends(const weir_counts *counts, unsigned klass, weir_class_counts *sum);
void weir_counts_add_admissions(const weir_counts *counts, unsigned klass, weir_class_counts *sum);
/* Adds what was measured to `into`. */
void weir_counts_merge(const weir_counts *counts, unsigned klass, weir_measure measure, weir_hist *into);

#endif
