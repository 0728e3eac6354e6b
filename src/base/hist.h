/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_HIST_H
#define WEIR_BASE_HIST_H

/*
 * A log-linear histogram with 32 buckets per octave, so a value is known to 3.2 %. Values below 32 are
 * exact. Values of 2^42 (73 minutes in ns) and above go into the last bucket.
 *
 * Threads: one writer (weir_hist_add) or several (weir_hist_add_shared); readers at any time, relaxed.
 * Counts only grow: a window is the difference of two snapshots (weir_hist_subtract).
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_HIST_SUB_BITS 5
#define WEIR_HIST_SUB      (1u << WEIR_HIST_SUB_BITS)
#define WEIR_HIST_MAX_BITS 42
#define WEIR_HIST_BUCKETS  ((WEIR_HIST_MAX_BITS - WEIR_HIST_SUB_BITS + 1) * WEIR_HIST_SUB)

typedef struct weir_hist {
	_Atomic uint64_t bucket[WEIR_HIST_BUCKETS];
} weir_hist;

/*
 * The highest bit gives the octave, the five bits below it the place in it; below 64 the index is the
 * value itself. Written without branches, because it runs for every event.
 */
static inline unsigned weir_hist_index(uint64_t value)
{
	const uint64_t most = (UINT64_C(1) << WEIR_HIST_MAX_BITS) - 1;
	value = value < most ? value : most;
	unsigned shift = (63u ^ (unsigned)__builtin_clzll(value | WEIR_HIST_SUB)) - WEIR_HIST_SUB_BITS;
	return shift * WEIR_HIST_SUB + (unsigned)(value >> shift);
}

/* The smallest value of a bucket, and one past its largest. */
uint64_t weir_hist_low(unsigned index);
uint64_t weir_hist_high(unsigned index);

/* Relaxed load and store: only for a single writer. */
static inline void weir_hist_bump(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

static inline void weir_hist_add(weir_hist *hist, uint64_t value)
{
	weir_hist_bump(&hist->bucket[weir_hist_index(value)], 1);
}

void weir_hist_add_shared(weir_hist *hist, uint64_t value);

/* Adds or subtracts, bucket by bucket. `into` and `from`, which change, belong to the caller alone. */
void weir_hist_merge(weir_hist *into, const weir_hist *from);
void weir_hist_subtract(weir_hist *from, const weir_hist *what);
void weir_hist_clear(weir_hist *hist);
uint64_t weir_hist_count(const weir_hist *hist);
/* Accurate to 1.6 %: each value counts as the middle of its bucket. */
double weir_hist_mean(const weir_hist *hist);
/*
 * The smallest value v such that at least a share `quantile` of the values is <= v, as the middle of its
 * bucket; 0 if empty.
 */
uint64_t weir_hist_quantile(const weir_hist *hist, double quantile);

#endif
