/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SPREAD_H
#define WEIR_LOAD_SPREAD_H

/*
 * The distribution of the response times of one second: the buckets of weir_hist, but with 32 bits and
 * only from 8 us to 137 s, so that there can be one for every second of every thread (3 KB). Values
 * outside count as the nearest bucket. Percentiles over several threads are computed from the merged
 * counts; percentiles of percentiles would be wrong.
 *
 * Threads: one writer; readers at any time, relaxed.
 */

#include "base/hist.h"

#define LOAD_SPREAD_FIRST   288u /* weir_hist_index(8192): 2^13 ns */
#define LOAD_SPREAD_BUCKETS 768u /* 24 octaves of 32: up to 2^37 ns */

typedef struct load_spread {
	_Atomic uint32_t bucket[LOAD_SPREAD_BUCKETS];
} load_spread;

static inline void load_spread_add(load_spread *spread, uint64_t ns)
{
	unsigned index = weir_hist_index(ns);
	index = index > LOAD_SPREAD_FIRST ? index - LOAD_SPREAD_FIRST : 0;
	index = index < LOAD_SPREAD_BUCKETS ? index : LOAD_SPREAD_BUCKETS - 1;
	uint32_t count = atomic_load_explicit(&spread->bucket[index], memory_order_relaxed);
	atomic_store_explicit(&spread->bucket[index], count + 1, memory_order_relaxed);
}

/* `into` belongs to the caller alone. */
void load_spread_merge(load_spread *into, const load_spread *from);
/* Adds the counts to a histogram, for percentiles (weir_hist_quantile) of one or several seconds. */
void load_spread_put(weir_hist *into, const load_spread *from);

#endif
