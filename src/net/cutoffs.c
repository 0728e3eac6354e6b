/* SPDX-License-Identifier: Apache-2.0 */
#include "net/cutoffs.h"

#include <errno.h>
#include <math.h>

#include "base/error.h"

#define SUB_BITS   WEIR_CUTOFFS_SUB_BITS
#define SUB        (1u << SUB_BITS)
#define SIZE_MOST  ((UINT64_C(1) << 40) - 1)
#define START_LOW  1024.0
#define START_HIGH 51200.0

/* Of the answers: at least these are not above the lowest cutoff, and above the highest one. */
static const double low_share = .5, high_share = .005;

static const uint64_t paper[WEIR_CUTOFFS_FIXED - 1] = {1024, 2048, 5120, 51200};

/* ---- buckets: below SUB each size has its own, then SUB of them an octave ---- */

static unsigned bucket_of(uint64_t bytes)
{
	bytes = bytes < SIZE_MOST ? bytes : SIZE_MOST;
	unsigned shift = (63u ^ (unsigned)__builtin_clzll(bytes | SUB)) - SUB_BITS;
	return shift * SUB + (unsigned)(bytes >> shift);
}

/* The smallest size in a bucket. */
static uint64_t low_of(unsigned bucket)
{
	unsigned shift = bucket < 2 * SUB ? 0 : bucket / SUB - 1;
	return (uint64_t)(bucket - shift * SUB) << shift;
}

/* ---- the rule ---- */

static double between(double low, double value, double high)
{
	return value < low ? low : value > high ? high : value;
}

static void spread(weir_cutoffs *cutoffs, double low, double high)
{
	unsigned last = cutoffs->bands - 2;
	low = between(WEIR_CUTOFFS_LOWEST, low, WEIR_CUTOFFS_HIGHEST);
	high = between(low, high, WEIR_CUTOFFS_HIGHEST);
	for (unsigned i = 0; i <= last; i++) {
		double cutoff = low * pow(high / low, (double)i / (double)last);
		atomic_store_explicit(&cutoffs->at[i], (uint64_t)(cutoff + .5), memory_order_relaxed);
	}
}

/*
 * Reads the counts and halves them, so that old answers are forgotten. Others count meanwhile: what is taken
 * off a bucket was in it.
 */
static uint64_t take_counts(weir_cutoffs *cutoffs, uint32_t counts[WEIR_CUTOFFS_BUCKETS])
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < WEIR_CUTOFFS_BUCKETS; i++) {
		counts[i] = atomic_load_explicit(&cutoffs->bucket[i], memory_order_relaxed);
		sum += counts[i];
		if (counts[i] > 0)
			atomic_fetch_sub_explicit(&cutoffs->bucket[i], counts[i] - counts[i] / 2,
						  memory_order_relaxed);
	}
	return sum;
}

/*
 * Both ends err on the side of fewer bands for many small answers: the lowest cutoff is the end of its bucket,
 * and the highest is before its bucket. So where many of the largest answers have the same size, all of them
 * are in the last band and share it.
 */
static void learn(weir_cutoffs *cutoffs)
{
	uint32_t counts[WEIR_CUTOFFS_BUCKETS];
	double sum = (double)take_counts(cutoffs, counts);
	double below = 0, above = 0;
	unsigned low = 0, high = WEIR_CUTOFFS_BUCKETS - 1;
	if (sum == 0)
		return;
	while (low < WEIR_CUTOFFS_BUCKETS - 1 && (below += counts[low]) < low_share * sum)
		low++;
	while (high > 0 && (above += counts[high]) < high_share * sum)
		high--;
	double lowest = (double)(low_of(low + 1) - 1);
	spread(cutoffs, lowest, high > 0 ? (double)low_of(high) - 1 : lowest);
}

/* ---- what others call ---- */

int weir_cutoffs_init(weir_cutoffs *cutoffs, unsigned bands)
{
	if (bands != WEIR_CUTOFFS_FIXED && bands != WEIR_CUTOFFS_ADAPTING)
		return weir_error_set(-EINVAL, "%u bands: there are %d with fixed cutoffs, or %d that adapt",
				      bands, WEIR_CUTOFFS_FIXED, WEIR_CUTOFFS_ADAPTING);
	cutoffs->bands = bands;
	cutoffs->adapts = bands == WEIR_CUTOFFS_ADAPTING;
	atomic_init(&cutoffs->seen, 0);
	atomic_init(&cutoffs->learning, false);
	for (unsigned i = 0; i < WEIR_CUTOFFS_BUCKETS; i++)
		atomic_init(&cutoffs->bucket[i], 0);
	for (unsigned i = 0; i < WEIR_CUTOFFS_ADAPTING - 1; i++)
		atomic_init(&cutoffs->at[i], i < WEIR_CUTOFFS_FIXED - 1 ? paper[i] : UINT64_MAX);
	if (cutoffs->adapts)
		spread(cutoffs, START_LOW, START_HIGH);
	return 0;
}

void weir_cutoffs_observe(weir_cutoffs *cutoffs, uint64_t bytes)
{
	if (!cutoffs->adapts)
		return;
	atomic_fetch_add_explicit(&cutoffs->bucket[bucket_of(bytes)], 1, memory_order_relaxed);
	uint64_t seen = atomic_fetch_add_explicit(&cutoffs->seen, 1, memory_order_relaxed) + 1;
	if (seen != WEIR_CUTOFFS_FIRST && seen % WEIR_CUTOFFS_EVERY != 0)
		return;
	/* If somebody still learns, the counts wait for the next time. */
	if (atomic_exchange_explicit(&cutoffs->learning, true, memory_order_acquire))
		return;
	learn(cutoffs);
	atomic_store_explicit(&cutoffs->learning, false, memory_order_release);
}

uint64_t weir_cutoffs_at(const weir_cutoffs *cutoffs, unsigned band)
{
	if (band + 1 >= cutoffs->bands)
		return UINT64_MAX;
	return atomic_load_explicit(&cutoffs->at[band], memory_order_relaxed);
}

unsigned weir_cutoffs_band(const weir_cutoffs *cutoffs, uint64_t left)
{
	unsigned band = 0;
	while (band < cutoffs->bands - 1 &&
	       left > atomic_load_explicit(&cutoffs->at[band], memory_order_relaxed))
		band++;
	return band;
}
