/* SPDX-License-Identifier: Apache-2.0 */
#include "control/service.h"

#include <string.h>

static double bucket_low(unsigned index)
{
	unsigned shift = index < 2 * WEIR_SERVICE_SUB ? 0 : index / WEIR_SERVICE_SUB - 1;
	return (double)((uint64_t)(index - shift * WEIR_SERVICE_SUB) << shift);
}

static double bucket_middle(unsigned index)
{
	return (bucket_low(index) + bucket_low(index + 1)) / 2;
}

/* Computes the table from the weights. */
static void publish(weir_service *s)
{
	double above = 0, sum = 0, squares = 0;
	for (unsigned i = WEIR_SERVICE_BUCKETS; i-- > 0;) {
		double middle = s->weight[i] > 0 ? bucket_middle(i) : 0,
		       part = (double)s->weight[i] / s->count;
		above += part;
		sum += part * middle;
		squares += part * middle * middle;
		atomic_store_explicit(&s->tail[i], (float)above, memory_order_relaxed);
	}
	s->mean = sum;
	s->moment2 = squares / (sum * sum);
}

void weir_service_init(weir_service *s)
{
	memset(s, 0, sizeof(*s));
}

static uint64_t take_fresh(weir_service *s)
{
	uint64_t taken = 0;
	for (unsigned i = 0; i < WEIR_SERVICE_BUCKETS; i++) {
		if (atomic_load_explicit(&s->fresh[i], memory_order_relaxed) == 0)
			continue;
		uint32_t fresh = atomic_exchange_explicit(&s->fresh[i], 0, memory_order_relaxed);
		s->weight[i] += (float)fresh;
		taken += fresh;
	}
	return taken;
}

bool weir_service_learn(weir_service *s, double memory)
{
	uint64_t taken = take_fresh(s);
	if (taken == 0)
		return false;
	s->count += (double)taken;
	if (s->count > memory) {
		double keep = memory / s->count;
		for (unsigned i = 0; i < WEIR_SERVICE_BUCKETS; i++)
			s->weight[i] *= (float)keep;
		s->count = memory;
	}
	publish(s);
	return true;
}

void weir_service_assume(weir_service *s, double value_ns, double count)
{
	uint64_t value = weir_service_clip((uint64_t)value_ns);
	unsigned shift = weir_service_shift(value);
	s->weight[shift * WEIR_SERVICE_SUB + (unsigned)(value >> shift)] += (float)count;
	s->count += count;
	publish(s);
}

double weir_service_quantile(const weir_service *s, double q)
{
	double left = q * s->count;
	for (unsigned i = 0; i < WEIR_SERVICE_BUCKETS && s->count > 0; i++) {
		double weight = s->weight[i];
		if (weight > 0 && weight >= left)
			return bucket_low(i) + (bucket_low(i + 1) - bucket_low(i)) * left / weight;
		left -= weight;
	}
	return 0;
}

double weir_service_mean_below(const weir_service *s, double q)
{
	double left = q * s->count, seen = 0, sum = 0;
	for (unsigned i = 0; i < WEIR_SERVICE_BUCKETS && left > 0; i++) {
		double weight = s->weight[i] < left ? (double)s->weight[i] : left;
		sum += weight * bucket_middle(i);
		seen += weight;
		left -= weight;
	}
	return seen > 0 ? sum / seen : 0;
}
