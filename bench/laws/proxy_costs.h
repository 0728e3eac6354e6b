/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_PROXY_COSTS_H
#define WEIR_BENCH_PROXY_COSTS_H

/*
 * A sentry's table of costs for a cell whose costs have to be learnt: it begins empty, and learns from the
 * answers that come while the stage is calm, as src/http/cost.c does. Each kind of the cell is a path. One thread.
 */

#include <weir/stage.h>

#include "control/costs.h"

/* An empty table. Ends the program if there is no memory. */
weir_costs *proxy_costs_new(void);
/* The expected cost of a kind, in microseconds; 0: unknown. *ret_kind: for proxy_costs_learn. */
uint32_t proxy_costs_find(weir_costs *costs, unsigned kind, weir_cost_kind *ret_kind);
/* A request of this stage has been answered now. */
void proxy_costs_learn(weir_costs *costs, weir_cost_kind kind, const weir_stage *stage,
		       const weir_event *event, uint64_t now_ns);

#endif
