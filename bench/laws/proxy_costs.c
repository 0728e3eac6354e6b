/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/proxy_costs.h"

#include "common.h"

#define ROUTE 1

weir_costs *proxy_costs_new(void)
{
	weir_costs_options options = {.key = {1, 2}};
	weir_costs *costs = weir_costs_new(&options);
	BENCH_REQUIRE(costs != NULL);
	return costs;
}

uint32_t proxy_costs_find(weir_costs *costs, unsigned kind, weir_cost_kind *ret_kind)
{
	const char path[] = {'/', (char)('a' + kind)};
	uint32_t cost;
	*ret_kind = weir_costs_find(costs, ROUTE, 0, path, sizeof(path), &cost);
	return cost;
}

void proxy_costs_learn(weir_costs *costs, weir_cost_kind kind, const weir_stage *stage,
		       const weir_event *event, uint64_t now_ns)
{
	weir_costs_learn(costs, kind, now_ns - event->started_ns, weir_stage_calm(stage), now_ns);
}
