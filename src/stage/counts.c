/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/counts.h"

#include "base/mem.h"

weir_counts *weir_counts_new(bool shared)
{
	weir_counts *counts = weir_mem_aligned(64, sizeof(*counts));
	if (counts != NULL)
		counts->shared = shared;
	return counts;
}

void weir_counts_free(weir_counts *counts)
{
	if (counts == NULL)
		return;
	for (unsigned c = 0; c < WEIR_CLASSES; c++)
		weir_mem_free(atomic_load(&counts->hists[c]));
	weir_mem_free(counts);
}

weir_hist *weir_counts_make_hists(weir_counts *counts, unsigned klass)
{
	weir_hist *made = weir_mem_array(WEIR_MEASURES, sizeof(*made));
	if (made == NULL)
		return NULL;
	weir_hist *there = NULL;
	if (atomic_compare_exchange_strong_explicit(&counts->hists[klass], &there, made, memory_order_acq_rel,
						    memory_order_acquire))
		return made;
	weir_mem_free(made); /* another thread was first */
	return there;
}

void weir_counts_add_ends(const weir_counts *counts, unsigned klass, weir_class_counts *sum)
{
	sum->late += weir_count_get(&counts->late[klass]);
	sum->completed += weir_count_get(&counts->completed[klass]);
	sum->failed += weir_count_get(&counts->failed[klass]);
	sum->dropped += weir_count_get(&counts->dropped[klass]);
}

void weir_counts_add_admissions(const weir_counts *counts, unsigned klass, weir_class_counts *sum)
{
	uint64_t inlined = weir_count_get(&counts->inlined[klass]);
	sum->started += weir_count_get(&counts->started[klass]) + inlined;
	sum->admitted += weir_count_get(&counts->admitted[klass]) + inlined;
	sum->offered += weir_count_get(&counts->offered[klass]) + inlined;
}

void weir_counts_merge(const weir_counts *counts, unsigned klass, weir_measure measure, weir_hist *into)
{
	const weir_hist *hists = atomic_load_explicit(&counts->hists[klass], memory_order_acquire);
	if (hists != NULL)
		weir_hist_merge(into, &hists[measure]);
	if (measure == WEIR_WAITING)
		weir_hist_bump(&into->bucket[0], weir_count_get(&counts->inlined[klass]));
}
