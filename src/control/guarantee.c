/* SPDX-License-Identifier: Apache-2.0 */
#include "control/guarantee.h"

void weir_guarantee_init_burst(weir_guarantee *g, uint32_t burst)
{
	g->spare = burst > 1 ? burst - 1 : 0;
	atomic_init(&g->every_ns, 0);
	atomic_init(&g->next_ns, 0);
}

void weir_guarantee_init(weir_guarantee *g, double rate_per_s)
{
	double rate = rate_per_s < WEIR_GUARANTEE_MAX ? rate_per_s : WEIR_GUARANTEE_MAX;
	bool any = rate_per_s > 0 && 1e9 / rate < 0x1p63;
	weir_guarantee_init_burst(g, any ? (uint32_t)(rate / 10) : 1);
	/* Rounded down: a guarantee may give a little more, not less. */
	weir_guarantee_every(g, any ? (uint64_t)(1e9 / rate) : 0);
}

void weir_guarantee_every(weir_guarantee *g, uint64_t every_ns)
{
	atomic_store_explicit(&g->every_ns, every_ns, memory_order_relaxed);
}

bool weir_guarantee_take_all(weir_guarantee *g, uint64_t now_ns, uint32_t count)
{
	uint64_t every_ns = atomic_load_explicit(&g->every_ns, memory_order_relaxed), then_ns;
	/* Most laws have no guarantee: the shared word is not even read. */
	if (every_ns == 0 || count == 0)
		return false;
	uint64_t next_ns = atomic_load_explicit(&g->next_ns, memory_order_relaxed), spare_ns;
	if (__builtin_mul_overflow(every_ns, (uint64_t)g->spare, &spare_ns))
		spare_ns = UINT64_MAX;
	/* Only a multiple of a rate so low that not even two conform in 500 years overflows. */
	uint64_t more_ns;
	if (__builtin_mul_overflow(every_ns, (uint64_t)count - 1, &more_ns))
		return false;
	do {
		uint64_t first_ns = now_ns > spare_ns ? now_ns - spare_ns : 0;
		if (first_ns < next_ns)
			first_ns = next_ns;
		if (first_ns > now_ns || more_ns > now_ns - first_ns)
			return false;
		then_ns = first_ns + more_ns + every_ns;
	} while (!atomic_compare_exchange_weak_explicit(&g->next_ns, &next_ns, then_ns, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}
