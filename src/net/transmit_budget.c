/* SPDX-License-Identifier: Apache-2.0 */
#include "net/transmit_budget.h"

#include <weir/base.h>

/* Nothing takes longer than this: a wrong rate must not stop the server for ever. */
#define COST_MOST_NS (10 * WEIR_NS_PER_S)

static uint64_t load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static uint64_t cost_of(const weir_transmit_budget *budget, uint64_t bytes)
{
	uint64_t rate = load(&budget->bytes_per_s);
	if (rate == 0)
		return 0;
	double ns = (double)bytes * (double)WEIR_NS_PER_S / (double)rate;
	return ns < (double)COST_MOST_NS ? (uint64_t)ns : COST_MOST_NS;
}

/* What is older than the burst is not saved up. */
static uint64_t capped(const weir_transmit_budget *budget, uint64_t paid_ns, uint64_t now_ns)
{
	uint64_t burst_ns = load(&budget->burst_ns);
	uint64_t oldest_ns = now_ns > burst_ns ? now_ns - burst_ns : 0;
	return paid_ns > oldest_ns ? paid_ns : oldest_ns;
}

void weir_transmit_budget_init(weir_transmit_budget *budget, uint64_t bytes_per_s, uint64_t burst_ns,
			       uint64_t now_ns)
{
	atomic_init(&budget->paid_ns, now_ns > burst_ns ? now_ns - burst_ns : 0);
	atomic_init(&budget->bytes_per_s, bytes_per_s);
	atomic_init(&budget->burst_ns, burst_ns);
}

void weir_transmit_budget_rate(weir_transmit_budget *budget, uint64_t bytes_per_s, uint64_t burst_ns)
{
	atomic_store_explicit(&budget->burst_ns, burst_ns, memory_order_relaxed);
	atomic_store_explicit(&budget->bytes_per_s, bytes_per_s, memory_order_relaxed);
}

bool weir_transmit_budget_take(weir_transmit_budget *budget, uint64_t bytes, uint64_t reserve_ns,
			       uint64_t now_ns)
{
	uint64_t cost_ns = cost_of(budget, bytes), paid_ns = load(&budget->paid_ns), next_ns;
	do {
		if (paid_ns + reserve_ns > now_ns)
			return false;
		next_ns = capped(budget, paid_ns, now_ns) + cost_ns;
	} while (!atomic_compare_exchange_weak_explicit(&budget->paid_ns, &paid_ns, next_ns,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

void weir_transmit_budget_charge(weir_transmit_budget *budget, uint64_t bytes, uint64_t now_ns)
{
	uint64_t cost_ns = cost_of(budget, bytes), paid_ns = load(&budget->paid_ns), next_ns;
	do {
		next_ns = capped(budget, paid_ns, now_ns) + cost_ns;
		/* A debt is bounded too, whatever was sent. */
		if (next_ns > now_ns + COST_MOST_NS)
			next_ns = now_ns + COST_MOST_NS;
	} while (!atomic_compare_exchange_weak_explicit(&budget->paid_ns, &paid_ns, next_ns,
							memory_order_relaxed, memory_order_relaxed));
}

void weir_transmit_budget_refund(weir_transmit_budget *budget, uint64_t bytes)
{
	uint64_t cost_ns = cost_of(budget, bytes), paid_ns = load(&budget->paid_ns);
	while (!atomic_compare_exchange_weak_explicit(&budget->paid_ns, &paid_ns,
						      paid_ns > cost_ns ? paid_ns - cost_ns : 0,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

uint64_t weir_transmit_budget_ready(const weir_transmit_budget *budget, uint64_t reserve_ns)
{
	return load(&budget->paid_ns) + reserve_ns;
}
