/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_TIMES_H
#define WEIR_CONTROL_TIMES_H

/*
 * How long requests take: counts in steps of a quarter of an octave, from a microsecond to an hour. What is asked of them is the middle (the
 * mean logarithm of the middle half), which neither a slow minority nor a quick one moves, and quantiles.
 *
 * Requests that have not ended yet are the slower ones. Who leaves them out takes a service that has just begun for a quick one. So a
 * sum has a part that is missing, and its quantiles count the missing as longer than all others.
 *
 * Threads: any thread adds. One thread at a time sums and fades; counts that are added while it fades may get lost.
 */

#include <stdatomic.h>
#include <stdint.h>

#define WEIR_TIMES_STEPS 128

typedef struct weir_times {
	_Atomic uint16_t count[WEIR_TIMES_STEPS];
} weir_times;

typedef struct weir_times_sum {
	double count[WEIR_TIMES_STEPS];
	double seen; /* of all counts */
	double all;  /* and with what is missing */
} weir_times_sum;

void weir_times_add(weir_times *times, uint64_t ns);
/* Adds the times to the sum; missing: the part of those requests that has not ended. */
void weir_times_sum_up(weir_times_sum *sum, const weir_times *times, double missing);
/* Halves the counts until there are at most so many. */
void weir_times_fade(weir_times *times, double most);
/* In logarithms of nanoseconds. INFINITY: it is among the missing, or nothing is known. */
double weir_times_quantile(const weir_times_sum *sum, double q);
/* Mean of the middle half, as far as it is not missing. INFINITY: nothing is known. */
double weir_times_middle(const weir_times_sum *sum);
/* The part that takes longer than this, the missing included. */
double weir_times_above(const weir_times_sum *sum, double ln);
/* What the standard deviation would be if the logarithms were normally distributed, from the quartiles. */
double weir_times_spread(const weir_times_sum *sum);

#endif
