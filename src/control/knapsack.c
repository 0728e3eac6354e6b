/* SPDX-License-Identifier: Apache-2.0 */
#include "control/knapsack.h"

#include <math.h>
#include <string.h>

#define PER_OCTAVE 4
#define SURE       .02 /* a bucket is dear if it leaves this part of the capacity free */
#define EDGE       .9  /* from this part of the capacity on, a bucket is nearly close */
#define CLOSE      .15 /* above the capacity, as a part of it */
#define CLOSE_PART .5  /* of the marginal bucket's share, for those that are close */

void weir_knapsack_init(weir_knapsack *k)
{
	memset(k, 0, sizeof(*k));
	weir_knapsack_clear(k);
}

void weir_knapsack_clear(weir_knapsack *k)
{
	weir_knapsack_count(k, 0);
	memset(k->lately, 0, sizeof(k->lately));
	k->lately_first = 0;
	k->marginal = WEIR_KNAPSACK_BUCKETS;
	for (unsigned i = 0; i < WEIR_KNAPSACK_BUCKETS; i++)
		atomic_store_explicit(&k->share[i], 1, memory_order_relaxed);
}

unsigned weir_knapsack_bucket(double times)
{
	double at = times > 1 ? PER_OCTAVE * (double)log2f((float)times) : 0;
	return at < WEIR_KNAPSACK_BUCKETS - 1 ? (unsigned)at : WEIR_KNAPSACK_BUCKETS - 1;
}

double weir_knapsack_times(unsigned bucket)
{
	return exp2((bucket + .5) / PER_OCTAVE);
}

static double since(const _Atomic uint64_t *counter, uint64_t *seen)
{
	uint64_t now = atomic_load_explicit(counter, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return (double)more;
}

void weir_knapsack_count(weir_knapsack *k, double keep)
{
	for (unsigned i = 0; i < WEIR_KNAPSACK_BUCKETS; i++)
		k->lately[i] = keep * k->lately[i] + since(&k->offered[i], &k->seen[i]);
	k->lately_first = keep * k->lately_first + since(&k->first, &k->seen_first);
}

double weir_knapsack_offered(const weir_knapsack *k)
{
	double sum = k->lately_first;
	for (unsigned i = 0; i < WEIR_KNAPSACK_BUCKETS; i++)
		sum += k->lately[i];
	return sum;
}

/*
 * before, after: what is offered above this bucket, and down to it; of the capacity. The share falls before
 * the capacity is reached. Otherwise the bucket in which it is reached, and the next one below, would compete
 * for the same room whenever the first ends just there.
 */
static double share_of(double before, double after, double part)
{
	if (after <= 1 - SURE)
		return 1;
	if (before < EDGE)
		return part;
	if (before < 1)
		return part * (1 - (1 - CLOSE_PART) * (before - EDGE) / (1 - EDGE));
	return fmax(0, part * CLOSE_PART * (1 - (before - 1) / CLOSE));
}

void weir_knapsack_fill(weir_knapsack *k, double capacity, double part)
{
	double sum = k->lately_first;
	k->marginal = WEIR_KNAPSACK_BUCKETS;
	for (unsigned i = 0; i < WEIR_KNAPSACK_BUCKETS; i++) {
		double before = capacity > 0 ? sum / capacity : 0;
		sum += k->lately[i];
		double after = capacity > 0 ? sum / capacity : 0;
		if (after > 1 - SURE && k->marginal == WEIR_KNAPSACK_BUCKETS)
			k->marginal = i;
		atomic_store_explicit(&k->share[i], (float)share_of(before, after, part),
				      memory_order_relaxed);
	}
}
