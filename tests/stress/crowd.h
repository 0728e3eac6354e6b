/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_CROWD_H
#define WEIR_TESTS_CROWD_H

/*
 * A world of real threads under fire: producers from outside offer in every form, reactor and pool handlers pass events on, hold
 * them, forget none; a settler ends what is held. Each item knows whether it is inside; whoever ends it finds
 * that so, or it was ended twice. Bounded in offers, never in time.
 *
 *	front (2 reactor threads) ─▶ pool (1..6 threads) ─▶ back (2 reactor threads) ─▶ front again, sometimes
 *	                         └─▶ single (in the pool: one at a time) ──────────┘
 */

#include "support/worlds.h"

#define CROWD_PRODUCERS_MAX 8
#define CROWD_ITEMS         64 /* of each producer */
#define CROWD_STAGES        4

struct crowd;

struct item {
	weir_event event;
	weir_timer timer;
	struct item *next; /* in the settler's list */
	struct crowd *crowd;
	_Atomic bool inside;
	unsigned hops;
};

struct producer {
	pthread_t thread;
	struct crowd *crowd;
	uint64_t seed;
	struct item items[CROWD_ITEMS];
};

struct crowd {
	weir_world *world;
	weir_domain *reactor, *pool;
	weir_stage *stages[CROWD_STAGES]; /* front, pool, back, single */
	struct producer producers[CROWD_PRODUCERS_MAX];
	unsigned producer_count;
	unsigned rounds; /* offers of each producer */
	bool no_timers;  /* nothing is held by a loop's timer, which a stop without patience would cut off */

	_Atomic uint64_t entered, ended; /* items admitted from outside; items at their end */
	_Atomic uint64_t twice;          /* ends of items that were not inside */
	_Atomic uint64_t overlapping;    /* calls of the single stage that met another */
	_Atomic uint64_t sheds[WEIR_VERDICT_COUNT];
	_Atomic bool single_busy;
	uint64_t single_count; /* no lock: the stage is single */

	pthread_t settler;
	pthread_mutex_t lock;
	struct item *held; /* under lock */
	_Atomic bool settler_ends;
};

enum { CROWD_FRONT, CROWD_POOL, CROWD_BACK, CROWD_SINGLE };

/* Makes the world and its threads and starts everything. */
void crowd_open(struct crowd *crowd, unsigned producers, unsigned rounds, uint64_t seed, bool no_timers);
/* Waits for the producers, or for the settler to have nothing left. */
void crowd_join_producers(struct crowd *crowd);
void crowd_join_settler(struct crowd *crowd);
/* Everything that came in has come out, once; frees the world. */
void crowd_check_and_free(struct crowd *crowd);

#endif
