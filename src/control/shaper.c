/* SPDX-License-Identifier: Apache-2.0 */
#include "control/shaper.h"

#define UNITS     16     /* per ns */
#define DEPTH_MAX 0x1p61 /* so that sums fit into 64 bits */

static uint64_t load(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

static bool swap(_Atomic uint64_t *number, uint64_t *seen, uint64_t value)
{
	return atomic_compare_exchange_weak_explicit(number, seen, value, memory_order_relaxed,
						     memory_order_relaxed);
}

static uint64_t token_units(double rate_per_s)
{
	return (uint64_t)(UNITS * 1e9 / rate_per_s);
}

static uint64_t depth_units(uint64_t token, double depth)
{
	double units = (double)token * depth;
	return units < DEPTH_MAX ? (uint64_t)units : (uint64_t)DEPTH_MAX;
}

void weir_shaper_init(weir_shaper *shaper, double rate_per_s, double depth)
{
	uint64_t token = token_units(rate_per_s);
	atomic_init(&shaper->token, token);
	atomic_init(&shaper->depth, depth_units(token, depth));
	atomic_init(&shaper->full_at, 0);
}

void weir_shaper_set(weir_shaper *shaper, double rate_per_s, double depth, uint64_t now_ns)
{
	uint64_t now = now_ns * UNITS, then;
	uint64_t token = token_units(rate_per_s), after = depth_units(token, depth);
	double scale = (double)after / (double)load(&shaper->depth);
	atomic_store_explicit(&shaper->token, token, memory_order_relaxed);
	atomic_store_explicit(&shaper->depth, after, memory_order_relaxed);
	uint64_t full_at = load(&shaper->full_at);
	do {
		uint64_t missing = full_at > now ? (uint64_t)((double)(full_at - now) * scale) : 0;
		then = now + (missing < after ? missing : after);
	} while (!swap(&shaper->full_at, &full_at, full_at > now ? then : full_at));
}

bool weir_shaper_take(weir_shaper *shaper, uint32_t count, uint64_t now_ns)
{
	uint64_t now = now_ns * UNITS, then;
	uint64_t full_at = load(&shaper->full_at);
	do {
		uint64_t token = load(&shaper->token), depth = load(&shaper->depth);
		if (count > depth / token)
			return false;
		then = (full_at > now ? full_at : now) + count * token;
		if (then - now > depth)
			return false;
	} while (!swap(&shaper->full_at, &full_at, then));
	return true;
}

void weir_shaper_refund(weir_shaper *shaper, uint32_t count)
{
	/*
	 * At the current rate, which may differ from that at the take. What overflows the bucket is lost
	 * at the next take.
	 */
	uint64_t back = count * load(&shaper->token), full_at = load(&shaper->full_at);
	while (!swap(&shaper->full_at, &full_at, full_at > back ? full_at - back : 0))
		;
}

uint64_t weir_shaper_wait_ns(const weir_shaper *shaper, uint32_t count, uint64_t now_ns)
{
	uint64_t token = load(&shaper->token), depth = load(&shaper->depth);
	if (count > depth / token)
		return 0;
	uint64_t then = load(&shaper->full_at) + count * token;
	uint64_t at_ns = then > depth ? (then - depth + UNITS - 1) / UNITS : 0;
	return at_ns > now_ns ? at_ns - now_ns : 0;
}
