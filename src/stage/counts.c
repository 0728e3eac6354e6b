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
	weir_edges_fini(&counts->from);
	weir_mem_free(counts);
}

/* ---- edges ---- */

static weir_count *far_block(weir_edges *edges, unsigned block)
{
	weir_count *there = atomic_load_explicit(&edges->far[block], memory_order_acquire);
	weir_count *made = there == NULL ? weir_mem_array(WEIR_EDGES_BLOCK, sizeof(*made)) : NULL;
	if (made == NULL ||
	    atomic_compare_exchange_strong_explicit(&edges->far[block], &there, made, memory_order_acq_rel,
						    memory_order_acquire))
		return made != NULL ? made : there;
	weir_mem_free(made); /* another thread was first */
	return there;
}

weir_count *weir_edges_far(weir_edges *edges, unsigned origin)
{
	weir_count *counts = far_block(edges, origin / WEIR_EDGES_BLOCK - 1);
	return counts != NULL ? &counts[origin % WEIR_EDGES_BLOCK] : &edges->lost;
}

uint64_t weir_edges_get(const weir_edges *edges, unsigned origin)
{
	if (origin < WEIR_EDGES_BLOCK)
		return weir_count_get(&edges->near[origin]);
	const weir_count *counts =
		atomic_load_explicit(&edges->far[origin / WEIR_EDGES_BLOCK - 1], memory_order_acquire);
	return counts != NULL ? weir_count_get(&counts[origin % WEIR_EDGES_BLOCK]) : 0;
}

void weir_edges_fini(weir_edges *edges)
{
	for (unsigned i = 0; i < WEIR_EDGES_BLOCKS; i++)
		weir_mem_free(atomic_load(&edges->far[i]));
}

/* ---- what was measured ---- */

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
