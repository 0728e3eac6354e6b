/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_LANE_H
#define WEIR_STAGE_LANE_H

/*
 * A lane: a stage's queue on one thread. A stage has one lane per thread of its reactor domain, or a single
 * one (elastic domain, or `single`). A reactor lane's queue belongs to its thread; other threads put events
 * into its inbox. An elastic lane's queue is under the domain's lock and has no inbox.
 *
 * Places. lane->waiting counts the places taken: events queued, in the inbox, and reserved by tickets. It
 * never exceeds lane->capacity. The offerer takes a place (compare and exchange). The place is given back
 * when the event leaves the queue. An event that is run at once takes no place.
 */

#include <stdatomic.h>
#include <weir/stage.h>

#include "stage/inbox.h"
#include "stage/queue.h"

typedef struct weir_thread weir_thread;

typedef struct weir_lane {
	/* const after init */
	weir_stage *stage;
	weir_thread *thread; /* reactor: the owner; elastic: NULL */
	uint32_t capacity;
	uint32_t concurrency; /* 0: no bound */
	uint64_t cost_capacity;
	uint16_t index;
	bool may_inline; /* a reactor's, without no_inline */
	/* any thread */
	/* open, may inline, not single, no shared bound, trace.every 0 */
	_Alignas(64) _Atomic bool plain;
	/* a settled event must be reported: there is a limit on concurrency, or this is a virtual pool */
	_Atomic bool slow_leave;
	_Atomic bool purge; /* a tick asks the owner thread to drop events that waited too long */
	_Atomic uint32_t waiting;
	_Atomic uint32_t in_service; /* started and not settled */
	_Atomic uint32_t granted;    /* places of the stage's bound that this lane may use */
	_Atomic bool wants;          /* it waits for such a place */
	_Atomic uint64_t cost;       /* of the waiting events, if cost is bounded */
	_Atomic uint32_t batch;      /* most events per handler call */
	weir_inbox inbox;
	/* owner thread, or under the domain's lock */
	weir_queue queue;
	bool running; /* single: its handler runs */
	/* the controller */
	void *batch_state;
	uint64_t batch_at_ns, batch_last_ns, last_events, last_batches, last_busy_ns;
} weir_lane;

/* What a lane hands out at once: events to handle, and events to drop. */
typedef struct weir_batch {
	size_t count, dead;
	weir_event *events[WEIR_BATCH_MAX];
	weir_event *dead_events[WEIR_BATCH_MAX];
	weir_verdict dead_why[WEIR_BATCH_MAX];
} weir_batch;

/* ---- lane.c: places ---- */

/* Takes places: WEIR_ADMITTED, or the reason why nothing was taken. */
weir_verdict weir_lane_take(weir_lane *lane, uint32_t count, uint64_t cost);
void weir_lane_give_back(weir_lane *lane, uint32_t count, uint64_t cost);

/* ---- lane.c: putting in and taking out ---- */

/* Puts events that hold places into the lane, and makes sure that its thread comes for them. */
void weir_lane_push(weir_lane *lane, weir_thread *self, weir_event *const *events, size_t count);
/* Makes the lane's thread look at it, because it may now be able to start more. */
void weir_lane_kick(weir_lane *lane, weir_thread *self);
bool weir_bound_wait(weir_lane *lane, bool could_start, weir_thread *self);

/* Takes the next batch out and gives its places back. The owner thread, or under the domain's lock. */
void weir_lane_collect(weir_lane *lane, uint64_t now_ns, size_t most, weir_batch *ret_batch);
/* How many more events the lane's bound and the law let start now. */
uint32_t weir_lane_room(const weir_lane *lane);
/* A place under the law's limit has become free: wakes another lane that waits for one. */
void weir_lane_pass_on(weir_lane *lane, weir_thread *self);
/* Tells its law that an event leaves the queue without a start, for a reason other than the law. */
void weir_lane_gone(weir_lane *lane, const weir_event *event, uint64_t now_ns);
/* Whether the lane itself allows a start now. */
bool weir_lane_startable(const weir_lane *lane);
/* Before a look at the lane's queue: which classes wait for a visit of the law (weir_admission_law.open). */
void weir_lane_mind_visits(weir_lane *lane);
/* Whether an event of the class need not wait for a visit. */
bool weir_lane_is_open(const weir_lane *lane, unsigned klass);
/* Whether all that waits is of less important classes, which a law visits. The owner thread. */
bool weir_lane_is_first(const weir_lane *lane, unsigned klass);
/* Takes out events that waited longer than their law's patience. Owner thread, or under the domain's lock. */
size_t weir_lane_take_stale(weir_lane *lane, uint64_t now_ns, size_t most, weir_event **ret_events);
/* Moves events from the inbox to the queue. The owner thread. */
void weir_lane_absorb(weir_lane *lane);

/* ---- bound.c: these do nothing for a stage without a bound ---- */

/* For a new stage. */
void weir_bound_enlist(weir_bound *bound, weir_stage *stage);
/* For an empty stage that retires. After a grace period, no place is granted to it any more. */
void weir_bound_delist(weir_bound *bound, const weir_stage *stage);
/* After that: returns what was granted to it. */
void weir_bound_clear(weir_stage *stage);
/* Whether there is a place for this lane now; takes none. */
bool weir_bound_open(const weir_lane *lane);
/* Takes as many places as there are, at most `wanted`. The lane's own thread. */
uint32_t weir_bound_take(weir_lane *lane, uint32_t wanted);
/* Takes one place even if there is none. */
void weir_bound_force(const weir_lane *lane);
void weir_bound_give(weir_lane *lane, uint32_t count, weir_thread *self);
/*
 * After a lane's turn, on its thread. could_start: something waits that only this bound keeps from starting.
 * Then the lane is kicked when a place is free; true: one is free now. Otherwise it returns granted places.
 */

#endif
