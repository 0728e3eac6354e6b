/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_TOPOLOGY_H
#define WEIR_SIM_TOPOLOGY_H

/*
 * The service of a scenario in a virtual world: its stages, each with its own workers, the backends
 * behind them, and the path of a request:
 *
 *  enter ──▶ stage: waits, is served, works on at a backend ──▶ next stage ──▶ ... ──▶ completed
 *    │                │                     │                      │
 *    └─ shed          └─ dropped            └─ refused: dropped    └─ shed there: dropped
 *
 * A stage with threads is played by a reactor with that many threads, each with a queue of its own. A
 * request comes over a client's connection, which a random thread has accepted and keeps. A client uses
 * the idle connection that was used last, and makes a new one if there is none.
 *
 * A request that was not shed at once ends exactly once, with a call of its `ended`; then the caller owns
 * it again. Work is recorded when a request ends: only then is it known whether it was useful.
 *
 * Threads: one, the world's.
 */

#include "sim/record.h"
#include "sim/scenario.h"

typedef struct weir_topology weir_topology;
typedef struct weir_request weir_request;

typedef enum weir_ending { WEIR_ENDED_COMPLETED, WEIR_ENDED_DROPPED } weir_ending;

struct weir_request {
	weir_event event; /* must be first */
	weir_timer timer; /* for the service while inside, for the client otherwise */
	weir_backend_job job;
	weir_topology *topology;
	/* set by the caller, before it enters */
	void (*ended)(weir_request *request, weir_ending how);
	double cost;
	uint8_t klass;
	uint8_t type;
	bool exempt; /* no law may shed it */
	/* for the service */
	uint8_t at; /* stage */
	uint8_t works;
	uint8_t entry;  /* the stage that it entered */
	uint8_t thread; /* of its connection, if that stage has threads */
	struct {
		uint32_t place;
		double ns;
	} work[2 * WEIR_SCENARIO_PATH];
	/* for the caller */
	weir_timer patience;
	struct load *load;
	struct user *user; /* NULL: no user, or the user has left */
	uint64_t first_ns; /* start of the first attempt */
	uint32_t attempt;
	bool gone; /* nobody waits for it any more */
	weir_request *next_free;
};

/*
 * Makes stages and backends in the world, which must be started afterwards. The scenario has been checked
 * and must outlive it.
 */
int weir_topology_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_record *record,
		      weir_topology **ret_topology);
/* Call it after the world has been freed; requests inside are forgotten. Sets *topology to NULL. */
void weir_topology_free(weir_topology **topology);
/* The run is over: from now on nothing is counted or reported. */
void weir_topology_end(weir_topology *topology);

/* How many laws are traced (one per stage and class); this follows from the scenario alone. */
unsigned weir_topology_traces(const weir_scenario *scenario);
/* The number of classes in use, counted from class 0. */
unsigned weir_topology_classes(const weir_scenario *scenario);

/*
 * Offers a request to the stage where its type enters. If it is admitted, it ends later. Otherwise the
 * caller still owns it.
 */
weir_verdict weir_topology_enter(weir_topology *topology, weir_request *request);
/* The same for several at once, all of one class and type: all or none are admitted. */
weir_verdict weir_topology_enter_many(weir_topology *topology, weir_request **requests, unsigned count);
/* Records the work done for it so far. */
void weir_topology_account(weir_request *request, uint64_t now_ns, weir_use use);
/* Writes the laws' current reports into the record. */
void weir_topology_trace(weir_topology *topology);
/* Requests of the class that stages in a dry run have let in so far and that would have been shed. */
uint64_t weir_topology_spared(const weir_topology *topology, unsigned klass);
/* Applies one of the scenario's changes. 0 or a negative errno. */
int weir_topology_change(weir_topology *topology, const weir_scenario_change *change);

#endif
