/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_SERVICE_H
#define WEIR_CONTROL_SERVICE_H

/*
 * The distribution of a service time: a histogram that forgets, and the table of its tail, P(service >
 * x), which can be looked up in a few nanoseconds. There are eight buckets per octave, linear within
 * each: a value is known to 6 %, a probability better.
 *
 * Threads: weir_service_add and weir_service_tail may be called by any threads at once, everything else
 * by one thread at a time. Invariants: the tail falls from 1 to 0; each value that was added is counted
 * once, at the next weir_service_learn.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_SERVICE_SUB_BITS 3
#define WEIR_SERVICE_SUB      (1u << WEIR_SERVICE_SUB_BITS)
#define WEIR_SERVICE_MAX_BITS 42 /* 73 minutes; longer ones count as that */
#define WEIR_SERVICE_BUCKETS  ((WEIR_SERVICE_MAX_BITS - WEIR_SERVICE_SUB_BITS + 1) * WEIR_SERVICE_SUB)

typedef struct weir_service {
	/* any thread */
	_Atomic uint32_t fresh[WEIR_SERVICE_BUCKETS]; /* since the last weir_service_learn */
	_Atomic uint32_t fresh_count;
	/* Probability that a value is at least the bucket's smallest. */
	_Atomic float tail[WEIR_SERVICE_BUCKETS + 1];
	/* the thread that learns */
	float weight[WEIR_SERVICE_BUCKETS];
	double count;         /* sum of the weights */
	double mean, moment2; /* mean of the values; mean of their squares over the square of the mean */
} weir_service;

static inline uint64_t weir_service_clip(uint64_t value_ns)
{
	const uint64_t most = (UINT64_C(1) << WEIR_SERVICE_MAX_BITS) - 1;
	return value_ns < most ? value_ns : most;
}

static inline unsigned weir_service_shift(uint64_t value_ns)
{
	return (63u ^ (unsigned)__builtin_clzll(value_ns | WEIR_SERVICE_SUB)) - WEIR_SERVICE_SUB_BITS;
}

static inline void weir_service_add(weir_service *service, uint64_t value_ns)
{
	value_ns = weir_service_clip(value_ns);
	unsigned shift = weir_service_shift(value_ns);
	unsigned index = shift * WEIR_SERVICE_SUB + (unsigned)(value_ns >> shift);
	atomic_fetch_add_explicit(&service->fresh[index], 1, memory_order_relaxed);
}

/* The probability that a service takes longer than this. */
static inline float weir_service_tail(const weir_service *service, uint64_t value_ns)
{
	value_ns = weir_service_clip(value_ns);
	unsigned shift = weir_service_shift(value_ns);
	unsigned index = shift * WEIR_SERVICE_SUB + (unsigned)(value_ns >> shift);
	float low = atomic_load_explicit(&service->tail[index], memory_order_relaxed);
	if (__builtin_expect(low == 0, 1)) /* longer than any: the usual case */
		return 0;
	float into = (float)(value_ns & ((UINT64_C(1) << shift) - 1)) / (float)(UINT64_C(1) << shift);
	float high = atomic_load_explicit(&service->tail[index + 1], memory_order_relaxed);
	return low + (high - low) * into;
}

void weir_service_init(weir_service *service);
/*
 * Takes over the values added since the last call; remembers about `memory` values. False: nothing was
 * added.
 */
bool weir_service_learn(weir_service *service, double memory);
/* Adds `count` values of this size, as if they had been measured: for a warm start. */
void weir_service_assume(weir_service *service, double value_ns, double count);
/* The value that a fraction q does not exceed, in ns; 0 while nothing is known. */
double weir_service_quantile(const weir_service *service, double q);
/* The mean of the values that do not exceed the quantile q. */
double weir_service_mean_below(const weir_service *service, double q);

#endif
