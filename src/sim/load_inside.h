/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_LOAD_INSIDE_H
#define WEIR_SIM_LOAD_INSIDE_H

/*
 * What the files of loads share: load.c knows when requests arrive and which users there are, attempt.c what
 * becomes of a request and what its client does about it. Threads: one, the world's.
 */

#include "sim/load.h"

enum { WEIR_LOAD_CHUNK = 512 };

typedef struct user {
	struct load *load;
	weir_timer timer;
	uint64_t completed;
	uint8_t type, before; /* of the current request, and of the one before it */
	bool active;
} user;

struct load {
	weir_loads *loads;
	const weir_scenario_load *as;
	weir_random random;
	weir_timer timer; /* for the next arrival, or the next change of the number of users */
	uint64_t target_ns[WEIR_SCENARIO_TYPES];
	/* burst */
	uint64_t on_until_ns;
	/* trace */
	uint64_t *times_ns;
	size_t times, next;
	/* users */
	user *users;
	unsigned user_count, wanted;
};

typedef struct chunk {
	struct chunk *next;
	weir_request request[WEIR_LOAD_CHUNK];
} chunk;

struct weir_loads {
	const weir_scenario *scenario;
	weir_world *world;
	weir_topology *topology;
	weir_record *record;
	struct load load[WEIR_SCENARIO_LOADS];
	chunk *chunks;
	weir_request *free;
	uint64_t lost;
	bool out_of_memory;
};

/* Times of the run begin at 0, those of the world a second later. */
static inline uint64_t weir_load_now(const weir_loads *loads)
{
	return weir_world_now(loads->world) - WEIR_NS_PER_S;
}

static inline void weir_load_timer(weir_loads *loads, weir_timer *timer, uint64_t at_ns)
{
	weir_sim_timer(loads->world, timer, at_ns + WEIR_NS_PER_S);
}

/* Offers a new request; who: NULL if it is no user's. */
void weir_load_attempt(struct load *load, unsigned type, struct user *who);
/* Offers a group, all or none; later attempts are made one by one. */
void weir_load_attempt_together(struct load *load, unsigned type);
/* A user's request has ended: completed, or given up for good. */
void weir_load_answered(struct user *who, bool served);

#endif
