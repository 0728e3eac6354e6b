/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_TOPOLOGY_INSIDE_H
#define WEIR_SIM_TOPOLOGY_INSIDE_H

/*
 * What the files of the topology share: topology.c makes the stages and changes them, path.c leads requests
 * through them. Threads: one, the world's.
 */

#include "sim/topology.h"

/* A client's connection without a request on it. */
typedef struct connection {
	uint64_t from_ns; /* idle since, or from then on */
	uint8_t thread;
} connection;

typedef struct place {
	weir_topology *topology;
	weir_scenario_stage *as; /* a copy that changes during the run */
	weir_stage *stage;
	weir_domain *domain;
	unsigned index;
	double speed;
	bool law_changed;
	/* threads only: the most recently used is at the end */
	connection *idle;
	unsigned idle_count, idle_size;
} place;

struct weir_topology {
	const weir_scenario *scenario;
	weir_world *world;
	weir_record *record;
	weir_random random;
	weir_scenario_stage *stages; /* copies */
	place place[WEIR_SCENARIO_STAGES];
	weir_backend *backend[WEIR_SCENARIO_BACKENDS];
	const weir_request *entering; /* it is being offered by a connection's thread */
	unsigned classes;
	bool over;
};

/* What the stages call; arg is the place. */
void weir_path_handle(weir_stage *stage, weir_event **events, size_t count, void *arg);
void weir_path_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg);

#endif
