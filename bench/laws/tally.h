/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAWS_TALLY_H
#define WEIR_BENCH_LAWS_TALLY_H

/*
 * Response times counted in multiples of the target: 128 buckets an octave (at most 0.8 % wide), from target / 4096 to 256
 * times the target. One thread.
 */

#include <stdint.h>
#include <string.h>

#define TALLY_ONE      4096 /* the target */
#define TALLY_SUB_BITS 7
#define TALLY_SUB      (1u << TALLY_SUB_BITS)
#define TALLY_MAX_BITS 20
#define TALLY_BUCKETS  ((TALLY_MAX_BITS - TALLY_SUB_BITS + 1) * TALLY_SUB)

typedef struct tally {
	uint64_t count;
	uint32_t bucket[TALLY_BUCKETS];
} tally;

static inline void tally_clear(tally *t)
{
	memset(t, 0, sizeof(*t));
}

static inline unsigned tally_index(uint64_t value)
{
	const uint64_t most = (UINT64_C(1) << TALLY_MAX_BITS) - 1;
	value = value < most ? value : most;
	unsigned shift = (63u ^ (unsigned)__builtin_clzll(value | TALLY_SUB)) - TALLY_SUB_BITS;
	return shift * TALLY_SUB + (unsigned)(value >> shift);
}

/* One past the largest value of a bucket. */
static inline uint64_t tally_high(unsigned index)
{
	unsigned shift = index < 2 * TALLY_SUB ? 0 : index / TALLY_SUB - 1;
	return ((uint64_t)(index - shift * TALLY_SUB) + 1) << shift;
}

static inline void tally_add(tally *t, double of_target)
{
	t->count++;
	t->bucket[tally_index((uint64_t)(of_target * TALLY_ONE))]++;
}

static inline void tally_merge(tally *into, const tally *from)
{
	into->count += from->count;
	for (unsigned i = 0; i < TALLY_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

/* In targets; 0 when nothing was counted. */
static inline double tally_quantile(const tally *t, double q)
{
	double left = q * (double)t->count;
	for (unsigned i = 0; i < TALLY_BUCKETS && t->count != 0; i++) {
		left -= t->bucket[i];
		if (left < 0 || (left <= 0 && t->bucket[i] != 0))
			return (double)tally_high(i) / TALLY_ONE;
	}
	return 0;
}

/* The fraction above so many targets. */
static inline double tally_above(const tally *t, double of_target)
{
	uint64_t above = 0;
	for (unsigned i = tally_index((uint64_t)(of_target * TALLY_ONE)); i < TALLY_BUCKETS; i++)
		above += t->bucket[i];
	return t->count != 0 ? (double)above / (double)t->count : 0;
}

#endif
