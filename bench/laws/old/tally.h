/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OLD_TALLY_H
#define WEIR_OLD_TALLY_H

/*
 * Times, counted by any thread and read by one. The counters only grow, so that nobody has to agree with anybody: the reader keeps what it
 * has seen and takes the difference. Sixteen buckets an octave, from a microsecond to about half an hour: a time is known to 3 %.
 *
 *	weir_tally    any thread adds (one relaxed increment)
 *	weir_spread   the reader's own: what it has taken out of a tally, as weights that can fade
 */

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_TALLY_LOW_BITS 10 /* 1024 ns and less: the first bucket */
#define WEIR_TALLY_SUB_BITS 4
#define WEIR_TALLY_OCTAVES  31
#define WEIR_TALLY_BUCKETS  (WEIR_TALLY_OCTAVES << WEIR_TALLY_SUB_BITS)

typedef struct weir_tally {
	_Atomic uint32_t count[WEIR_TALLY_BUCKETS];
} weir_tally;

typedef struct weir_spread {
	uint32_t seen[WEIR_TALLY_BUCKETS];
	float weight[WEIR_TALLY_BUCKETS];
	double total;
} weir_spread;

static inline unsigned weir_tally_index(uint64_t ns)
{
	uint64_t units = ns >> (WEIR_TALLY_LOW_BITS - WEIR_TALLY_SUB_BITS);
	units = units > 1u << WEIR_TALLY_SUB_BITS ? units : 1u << WEIR_TALLY_SUB_BITS;
	unsigned octave = 63u - (unsigned)__builtin_clzll(units) - WEIR_TALLY_SUB_BITS;
	unsigned index = (octave << WEIR_TALLY_SUB_BITS) +
			 ((unsigned)(units >> octave) & ((1u << WEIR_TALLY_SUB_BITS) - 1));
	return index < WEIR_TALLY_BUCKETS ? index : WEIR_TALLY_BUCKETS - 1;
}

static inline void weir_tally_add(weir_tally *tally, uint64_t ns)
{
	atomic_fetch_add_explicit(&tally->count[weir_tally_index(ns)], 1, memory_order_relaxed);
}

/* The middle of a bucket. */
double weir_tally_value(unsigned index);

/* Takes what has been counted since the last time into the spread, and into `also` (may be NULL); returns how many that were. */
uint32_t weir_spread_take(weir_spread *spread, const weir_tally *tally, weir_spread *also);
/* Adds the weights of another; what has been seen stays as it is. */
void weir_spread_merge(weir_spread *spread, const weir_spread *other);
void weir_spread_fade(weir_spread *spread, double factor);
void weir_spread_clear(weir_spread *spread);
/* 0 when empty. */
double weir_spread_quantile(const weir_spread *spread, double quantile);
/* The mean of the times, those above `most` counted as most, and the variance of that. */
double weir_spread_mean(const weir_spread *spread, double most, double *ret_variance);

#endif
