/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_TOPOLOGY_H
#define WEIR_SIM_TOPOLOGY_H

/*
 * The service of a scenario in a virtual world: its stages, each with workers of its own, the backends behind them, and the way of a request:
 *
 *	enter ──▶ stage: waits, is served, works on at a backend ──▶ next stage ──▶ ... ──▶ completed
 *	  │                │                     │                      │
 *	  └─ shed          └─ dropped            └─ refused: dropped    └─ shed there: dropped
 *
 * A stage with threads is played by a reactor of as many, each with a queue of its own. A request comes over a client's connection, which one of the
 * threads has accepted by chance and keeps. A client takes the idle connection that was used last, and makes a new one when there is none.
 *
 * A request that was not shed at once ends exactly once, with a call of its `ended`; then it is the caller's again. Work is written down
 * when a request ends: only then it is known whether it was of use.
 *
 * Threads: one, the world's.
 */

#include "sim/record.h"
#include "sim/scenario.h"

typedef struct weir_topology weir_topology;
typedef struct weir_request weir_request;

typedef enum weir_ending { WEIR_ENDED_COMPLETED, WEIR_ENDED_DROPPED } weir_ending;

struct weir_request {
	weir_event event; /* first */
	weir_timer timer; /* of the service while inside, of the client otherwise */
	weir_backend_job job;
	weir_topology *topology;
	/* the caller's, before it enters */
	void (*ended)(weir_request *request, weir_ending how);
	double cost;
	uint8_t klass;
	uint8_t type;
	bool exempt; /* no law may shed it */
	/* the service's */
	uint8_t at; /* stage */
	uint8_t works;
	uint8_t entry;  /* stage that it entered */
	uint8_t thread; /* of its connection, where that stage has threads */
	struct {
		uint32_t place;
		double ns;
	} work[2 * WEIR_SCENARIO_PATH];
	/* the caller's own */
	weir_timer patience;
	struct load *load;
	struct user *user; /* NULL: nobody's; also when he has gone */
	uint64_t first_ns; /* of the first attempt */
	uint32_t attempt;
	bool gone; /* nobody waits for it any more */
	weir_request *next_free;
};

/* Makes stages and backends in the world; it is to be started afterwards. The scenario has been checked and outlives it. */
int weir_topology_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_record *record,
		      weir_topology **ret_topology);
/* After the world was freed: what was inside is forgotten. Sets *topology to NULL. */
void weir_topology_free(weir_topology **topology);
/* From now on nothing is counted, and nobody is told: the run is over. */
void weir_topology_end(weir_topology *topology);

/* How many laws there are to be traced (a stage and a class each): known from the scenario alone. */
unsigned weir_topology_traces(const weir_scenario *scenario);
/* How many classes are in use, counted from 0. */
unsigned weir_topology_classes(const weir_scenario *scenario);

/* Offers a request to the stage where its type enters. Admitted: it ends later. Otherwise still the caller's. */
weir_verdict weir_topology_enter(weir_topology *topology, weir_request *request);
/* The same for several at once, all of one class and type: all are admitted, or none is. */
weir_verdict weir_topology_enter_many(weir_topology *topology, weir_request **requests, unsigned count);
/* Writes down what was worked on it so far. */
void weir_topology_account(weir_request *request, uint64_t now_ns, weir_use use);
/* What the laws say now, into the record. */
void weir_topology_trace(weir_topology *topology);
/* One of the scenario's changes. 0 or a negative errno. */
int weir_topology_change(weir_topology *topology, const weir_scenario_change *change);

#endif
