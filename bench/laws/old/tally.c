/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/old/tally.h"

#include <math.h>
#include <stddef.h>

double weir_tally_value(unsigned index)
{
	unsigned octave = index >> WEIR_TALLY_SUB_BITS, sub = index & ((1u << WEIR_TALLY_SUB_BITS) - 1);
	double units = (1u << WEIR_TALLY_SUB_BITS) + sub + .5;
	return ldexp(units, (int)octave + WEIR_TALLY_LOW_BITS - WEIR_TALLY_SUB_BITS);
}

uint32_t weir_spread_take(weir_spread *spread, const weir_tally *tally, weir_spread *also)
{
	uint32_t sum = 0;
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++) {
		uint32_t now = atomic_load_explicit(&tally->count[i], memory_order_relaxed);
		uint32_t more = now - spread->seen[i];
		if (more == 0)
			continue;
		spread->seen[i] = now;
		spread->weight[i] += (float)more;
		if (also != NULL)
			also->weight[i] += (float)more;
		sum += more;
	}
	spread->total += sum;
	if (also != NULL)
		also->total += sum;
	return sum;
}

void weir_spread_merge(weir_spread *spread, const weir_spread *other)
{
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++)
		spread->weight[i] += other->weight[i];
	spread->total += other->total;
}

void weir_spread_fade(weir_spread *spread, double factor)
{
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++)
		spread->weight[i] *= (float)factor;
	spread->total *= factor;
}

void weir_spread_clear(weir_spread *spread)
{
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++)
		spread->weight[i] = 0;
	spread->total = 0;
}

double weir_spread_quantile(const weir_spread *spread, double quantile)
{
	double wanted = quantile * spread->total, sum = 0;
	unsigned last = 0;
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++) {
		if (!(spread->weight[i] > 0))
			continue;
		sum += spread->weight[i];
		last = i;
		if (sum >= wanted)
			break;
	}
	return sum > 0 ? weir_tally_value(last) : 0;
}

double weir_spread_mean(const weir_spread *spread, double most, double *ret_variance)
{
	double sum = 0, squares = 0, count = 0;
	for (unsigned i = 0; i < WEIR_TALLY_BUCKETS; i++) {
		if (!(spread->weight[i] > 0))
			continue;
		double value = fmin(weir_tally_value(i), most);
		count += spread->weight[i];
		sum += spread->weight[i] * value;
		squares += spread->weight[i] * value * value;
	}
	double mean = count > 0 ? sum / count : 0;
	*ret_variance = count > 0 ? fmax(squares / count - mean * mean, 0) : 0;
	return mean;
}
