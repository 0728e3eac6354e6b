/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_LOAD_H
#define WEIR_SIM_LOAD_H

/*
 * The loads of a scenario: when requests arrive, of which type, and what their clients do afterwards.
 *
 *  open    arrivals (Poisson, constant, in bursts, from a trace) that do not depend on earlier outcomes
 *  closed  users: think, request, wait for the answer; as many as the profile says
 *
 *  attempt ──▶ completed
 *     ├──▶ shed or dropped ──▶ back off, another attempt ... or no retries left: lost; a user waits and
 *     │                        starts again from the first type
 *     └──▶ patience runs out: the same, and what is inside continues for nobody (or is cancelled, if the
 *          service notices)
 *
 * Each load has a generator of its own, so that arrivals do not depend on the law. Requests come from a
 * pool that grows in chunks with the number inside: nothing is allocated per request. Threads: one, the
 * world's.
 */

#include "sim/topology.h"

typedef struct weir_loads weir_loads;

/* Makes all loads and reads the traces. */
int weir_loads_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_topology *topology,
		   weir_record *record, weir_loads **ret_loads);
/* Starts the arrivals; the world has been started. */
void weir_loads_start(weir_loads *loads);
/*
 * At the end of the run: writes the results of the users into the record. -ENOMEM: requests were skipped
 * for lack of memory.
 */
int weir_loads_finish(weir_loads *loads);
/* Call it after the world has been freed. Sets *loads to NULL. */
void weir_loads_free(weir_loads **loads);
/* Requests that clients gave up for good, with no retries left. */
uint64_t weir_loads_lost(const weir_loads *loads);

/* ---- traces ---- */

/*
 * Reads arrival times, ascending, in ns, from a CSV as trace.h describes it. Free them with
 * weir_mem_free. `faster` divides the times.
 */
int weir_load_trace(const char *path, double faster, uint64_t **ret_times_ns, size_t *ret_count);

#endif
