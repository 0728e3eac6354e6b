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
		for (unsigned m = 0; m < WEIR_MEASURES; m++)
			weir_mem_free(atomic_load(&counts->hist[c][m]));
	weir_mem_free(counts);
}

weir_hist *weir_counts_make_hist(weir_counts *counts, unsigned klass, weir_measure measure)
{
	weir_hist *made = weir_mem_zalloc(sizeof(*made));
	if (made == NULL)
		return NULL;
	weir_hist *there = NULL;
	if (atomic_compare_exchange_strong_explicit(&counts->hist[klass][measure], &there, made,
						    memory_order_acq_rel, memory_order_acquire))
		return made;
	weir_mem_free(made); /* another thread was first */
	return there;
}
