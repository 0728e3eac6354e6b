/* SPDX-License-Identifier: Apache-2.0 */
#include "control/times.h"

#include <math.h>
#include <string.h>

#define PARTS WEIR_TIMES_PARTS

/* The lower end of a step. */
static double from_ln(unsigned step)
{
	static const double part_ln[PARTS] = {0, 0.22314355131420976, 0.40546510810816438,
					      0.55961578793542269};
	unsigned octave = WEIR_TIMES_FIRST_EXPONENT + step / PARTS;
	return octave * M_LN2 + part_ln[step % PARTS];
}

void weir_times_sum_up(weir_times_sum *sum, const weir_times *times, double missing)
{
	double seen = 0;
	for (unsigned i = 0; i < WEIR_TIMES_STEPS; i++) {
		double count = atomic_load_explicit(&times->count[i], memory_order_relaxed);
		sum->count[i] += count;
		seen += count;
	}
	sum->seen += seen;
	sum->all += seen / (1 - missing);
}

void weir_times_forget(weir_times *times)
{
	for (unsigned i = 0; i < WEIR_TIMES_STEPS; i++)
		atomic_store_explicit(&times->count[i], 0, memory_order_relaxed);
}

void weir_times_fade(weir_times *times, double most)
{
	double seen = 0;
	for (unsigned i = 0; i < WEIR_TIMES_STEPS; i++)
		seen += atomic_load_explicit(&times->count[i], memory_order_relaxed);
	unsigned halvings = 0;
	for (; seen > most && halvings < 16; halvings++)
		seen /= 2;
	for (unsigned i = 0; halvings > 0 && i < WEIR_TIMES_STEPS; i++) {
		/* Rounded up half of the time, or rare times would be forgotten first. */
		unsigned count = atomic_load_explicit(&times->count[i], memory_order_relaxed);
		if (count != 0)
			atomic_store_explicit(
				&times->count[i],
				(uint16_t)((count + (i & 1 ? (1u << halvings) - 1 : 0)) >> halvings),
				memory_order_relaxed);
	}
}

double weir_times_quantile(const weir_times_sum *sum, double q)
{
	double left = q * sum->all;
	for (unsigned i = 0; i < WEIR_TIMES_STEPS; i++) {
		if (sum->count[i] > 0 && left <= sum->count[i])
			return from_ln(i) + (from_ln(i + 1) - from_ln(i)) * left / sum->count[i];
		left -= sum->count[i];
	}
	return INFINITY;
}

double weir_times_middle(const weir_times_sum *sum)
{
	double low = .25 * sum->all, high = .75 * sum->all, before = 0, weight = 0, total = 0;
	for (unsigned i = 0; i < WEIR_TIMES_STEPS && before < high; i++) {
		double part = fmin(before + sum->count[i], high) - fmax(before, low);
		before += sum->count[i];
		if (part <= 0)
			continue;
		weight += part;
		total += part * (from_ln(i) + from_ln(i + 1)) / 2;
	}
	return weight > 0 ? total / weight : INFINITY;
}

double weir_times_above(const weir_times_sum *sum, double ln)
{
	double below = 0;
	for (unsigned i = 0; i < WEIR_TIMES_STEPS && from_ln(i) < ln; i++)
		below += sum->count[i] * fmin((ln - from_ln(i)) / (from_ln(i + 1) - from_ln(i)), 1);
	return sum->all > 0 ? 1 - below / sum->all : 0;
}

double weir_times_spread(const weir_times_sum *sum)
{
	double low = weir_times_quantile(sum, .25), high = weir_times_quantile(sum, .75);
	if (!isfinite(low))
		return 0;
	return isfinite(high) ? (high - low) / 1.35 : 2 * (weir_times_quantile(sum, .5) - low) / 1.35;
}
