/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_TIMES_H
#define WEIR_CONTROL_TIMES_H

/*
 * The times that requests take: counts in steps of a quarter of an octave, from a microsecond to an hour.
 * They yield quantiles and the middle: the mean logarithm of the middle half, which neither a slow nor a
 * fast minority moves.
 *
 * Requests that have not ended yet are the slower ones. If they were left out, a service that has just
 * begun would seem fast. So a sum has a part that is missing, and its quantiles count the missing ones as
 * longer than all others.
 *
 * Threads: any thread may add. One thread at a time sums, fades and forgets; counts that are added meanwhile
 * may get lost.
 */

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_TIMES_STEPS          128
#define WEIR_TIMES_FIRST_EXPONENT 10 /* 1024 ns */
#define WEIR_TIMES_PARTS          4  /* per octave */

typedef struct weir_times {
	_Atomic uint16_t count[WEIR_TIMES_STEPS];
} weir_times;

typedef struct weir_times_sum {
	double count[WEIR_TIMES_STEPS];
	double seen; /* sum of all counts */
	double all;  /* the same, including the missing */
} weir_times_sum;

/* The number of the step that a time is in. */
static inline unsigned weir_times_step(uint64_t ns)
{
	if (ns >> WEIR_TIMES_FIRST_EXPONENT == 0)
		return 0;
	unsigned exponent = 63 - (unsigned)__builtin_clzll(ns), part = (unsigned)(ns >> (exponent - 2));
	unsigned step = (exponent - WEIR_TIMES_FIRST_EXPONENT) * WEIR_TIMES_PARTS + part % WEIR_TIMES_PARTS;
	return step < WEIR_TIMES_STEPS ? step : WEIR_TIMES_STEPS - 1;
}

/* The same as weir_times_add, for who adds a time to several of them. */
static inline void weir_times_add_at(weir_times *times, unsigned step)
{
	atomic_fetch_add_explicit(&times->count[step], 1, memory_order_relaxed);
}

static inline void weir_times_add(weir_times *times, uint64_t ns)
{
	weir_times_add_at(times, weir_times_step(ns));
}

/* Adds the times to the sum; missing: the part of those requests that has not ended. */
void weir_times_sum_up(weir_times_sum *sum, const weir_times *times, double missing);
/* Halves the counts until there are at most this many. */
void weir_times_fade(weir_times *times, double most);
void weir_times_forget(weir_times *times);
/* As a logarithm of nanoseconds. INFINITY: it is among the missing, or nothing is known. */
double weir_times_quantile(const weir_times_sum *sum, double q);
/* Mean of the middle half, as far as it is not missing. INFINITY: nothing is known. */
double weir_times_middle(const weir_times_sum *sum);
/* The part that takes longer than this, including the missing. */
double weir_times_above(const weir_times_sum *sum, double ln);
/* The standard deviation, estimated from the quartiles as if the logarithms were normally distributed. */
double weir_times_spread(const weir_times_sum *sum);

#endif
