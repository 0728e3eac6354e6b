/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hist.h"

#include <math.h>

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t weir_hist_low(unsigned index)
{
	if (index < WEIR_HIST_SUB)
		return index;
	unsigned shift = index / WEIR_HIST_SUB - 1;
	return (uint64_t)(WEIR_HIST_SUB + index % WEIR_HIST_SUB) << shift;
}

uint64_t weir_hist_high(unsigned index)
{
	return index + 1 < WEIR_HIST_BUCKETS ? weir_hist_low(index + 1) : UINT64_MAX;
}

void weir_hist_add_shared(weir_hist *hist, uint64_t value)
{
	atomic_fetch_add_explicit(&hist->bucket[weir_hist_index(value)], 1, memory_order_relaxed);
}

void weir_hist_merge(weir_hist *into, const weir_hist *from)
{
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++)
		weir_hist_bump(&into->bucket[i], get(&from->bucket[i]));
}

void weir_hist_subtract(weir_hist *from, const weir_hist *what)
{
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++)
		weir_hist_bump(&from->bucket[i], -get(&what->bucket[i]));
}

void weir_hist_clear(weir_hist *hist)
{
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++)
		atomic_store_explicit(&hist->bucket[i], 0, memory_order_relaxed);
}

uint64_t weir_hist_count(const weir_hist *hist)
{
	uint64_t count = 0;
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++)
		count += get(&hist->bucket[i]);
	return count;
}

/* The last bucket has no upper end, hence no middle: its low end is used. */
static uint64_t middle(unsigned index)
{
	uint64_t low = weir_hist_low(index);
	return index + 1 < WEIR_HIST_BUCKETS ? low + (weir_hist_high(index) - 1 - low) / 2 : low;
}

double weir_hist_mean(const weir_hist *hist)
{
	uint64_t count = 0;
	double sum = 0;
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++) {
		uint64_t here = get(&hist->bucket[i]);
		count += here;
		sum += (double)here * (double)middle(i);
	}
	return count == 0 ? 0 : sum / (double)count;
}

/* The rank of the quantile among count ordered values: 1 .. count. */
static uint64_t rank(uint64_t count, double quantile)
{
	/* Slightly less, so that 0.9 of 10 is the 9th although 0.9 * 10 may come out as 9.000000000000002. */
	double exact = ceil(quantile * (double)count * (1 - 1e-15));
	if (!(exact >= 1))
		return 1;
	return exact >= (double)count ? count : (uint64_t)exact;
}

uint64_t weir_hist_quantile(const weir_hist *hist, double quantile)
{
	uint64_t count = weir_hist_count(hist), seen = 0;
	if (count == 0)
		return 0;
	uint64_t wanted = rank(count, quantile);
	unsigned at = 0;
	/* A writer between the two passes does no harm: counts only grow, so the rank is reached. */
	while (at + 1 < WEIR_HIST_BUCKETS && (seen += get(&hist->bucket[at])) < wanted)
		at++;
	return middle(at);
}
