/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_STAGE_H
#define WEIR_STAGE_STAGE_H

/*
 * A stage: its lanes, its gate, its counts, and what decides its turn among other stages.
 *
 * Threads: grouped by who may touch a field. Stages are found in the world's table within a section
 * (grace.h), or under control_lock.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/inspect.h>

#include "stage/counts.h"
#include "stage/gate.h"
#include "stage/lane.h"

/* What decides a stage's turn among others: its targets, and how long its events take. */
typedef struct weir_terms {
	/* any thread; targets and turns are written under control_lock */
	_Atomic uint64_t target_ns[WEIR_CLASSES]; /* 0: none */
	/* the longest wait with which an event of mean service time is in time; 0: the law does not say */
	_Atomic uint64_t wait_ns[WEIR_CLASSES];
	_Atomic uint64_t after_ns[WEIR_CLASSES]; /* a class gets a turn at least this often */
	_Atomic float mean_ns;                   /* pools only: mean service time of an event */
	_Atomic float mean_cost, costed_ns; /* of events that tell their cost: mean cost and service time */
	_Atomic float per_cost_ns;
	_Atomic uint32_t count, costed; /* how many there were, up to what the means remember */
	_Atomic float least_ns;         /* the lowest mean so far */
	/* settled events; their service time; their service time if each had taken the lowest mean */
	_Atomic uint64_t ended, ended_ns, usual_ns;
	/* the controller */
	uint64_t offered_seen[WEIR_CLASSES];
	double work[WEIR_CLASSES], fresh_work[WEIR_CLASSES]; /* offered work: a fading sum; not yet in it */
	double share;                                        /* of the work, relative to the pool's largest */
	uint64_t shed_seen;
	bool shed;             /* something was shed since the last tick */
	_Atomic bool strained; /* its service alone takes too long for one of its targets, ... */
	_Atomic bool late;     /* ... which it misses */
} weir_terms;

struct weir_stage {
	/* const after init */
	weir_world *world;
	weir_domain *domain;
	char *name;
	weir_stage_options options; /* name is our copy; admission and its parameters: see gate */
	uint16_t index;
	uint16_t mark; /* index + 1, and how often the index was used before: see WEIR_MARK_INDEX */
	uint32_t lane_count;
	weir_lane *lanes;
	/* any thread */
	_Atomic bool open;    /* world running, stage neither closed nor retiring nor resting */
	_Atomic bool resting; /* see rest.c; written under control_lock */
	_Atomic bool closed;
	_Atomic bool retiring; /* never reset: see retire.c */
	_Atomic bool unlisted; /* in no table any more */
	_Atomic uint32_t next_lane;
	_Atomic(weir_gate *) gate;
	/* slot 0 is shared by all threads that are not reactor threads */
	_Atomic(weir_counts *) counts[WEIR_THREADS_MAX + 1];
	_Atomic uint64_t faults[WEIR_FAULT_COUNT];
	_Atomic weir_admission_mode mode;
	_Atomic uint32_t shed_ceiling;             /* in WEIR_WHOLE */
	_Atomic uint64_t promise_ns[WEIR_CLASSES]; /* later ones are counted; 0: nothing is promised */
	_Atomic int64_t shed_credit;
	weir_pressure pressure;
	weir_terms terms;
	/* waiting offers */
	pthread_mutex_t wait_lock;
	pthread_cond_t wait_space;
	_Atomic uint32_t waiters;
	uint64_t wait_turn; /* under wait_lock: grows whenever waiters should try again */
	/* the controller, under control_lock */
	bool heeds_monitor;
	weir_gate *retired;
	uint32_t gate_number; /* of the last gate made */
	weir_ticks ticks;
	/* const after init */
	uint64_t serial;  /* unique in the world, for ever */
	uint64_t made_ns; /* older trace entries with this index are about another stage */
	uint64_t born_ns;
	struct weir_chore *chore; /* periodic work, which the stage owns (every.c); NULL: an ordinary stage */
	/* events from earlier holders of each index, which an edge does not count; under control_lock */
	weir_edges gone_from;
	/* under control_lock: recent.c */
	struct weir_recent_ring *recent[WEIR_CLASSES + 1][WEIR_MEASURES]; /* NULL: nobody has asked */
	unsigned recent_rings;
	/* under control_lock: retire.c */
	bool attended;              /* a thread is in weir_stage_retire */
	uint64_t grace;             /* that the next step waits for */
	struct weir_stage *leaving; /* next stage that is unlisted and not freed */
};

static inline weir_gate *weir_stage_gate(const weir_stage *stage)
{
	return atomic_load_explicit(&stage->gate, memory_order_acquire);
}

/* It takes offers, even if it rests: then `open` is false. */
static inline bool weir_stage_is_open(const weir_stage *stage)
{
	return atomic_load_explicit(&stage->open, memory_order_relaxed) ||
	       atomic_load_explicit(&stage->resting, memory_order_relaxed);
}

/* The law's state for this lane. */
static inline void *weir_gate_state(weir_gate *gate, const weir_lane *lane)
{
	return gate->state + lane->index * gate->stride;
}

/* The gate in force, if the event has passed it; NULL: this law must not hear of the event. */
static inline weir_gate *weir_event_gate(const weir_event *event, const weir_stage *stage)
{
	weir_gate *gate = weir_stage_gate(stage);
	return gate != NULL && gate->number == event->gate ? gate : NULL;
}

/*
 * An event remembers where it entered by the stage's mark: index + 1 in the low bits, above them how often
 * the index had been used. So a stage is not told of events that entered at an earlier one with its index.
 */
#define WEIR_MARK_INDEX(mark)  (((mark)&0x7ff) - 1u)
#define WEIR_MARK(index, uses) ((uint16_t)((index) + 1u + ((uses)&0x1fu) * 0x800u))
_Static_assert(WEIR_STAGES_MAX < 0x800, "a mark has eleven bits for index + 1");

/* ---- stage.c, inspect.c, drain.c ---- */

/* As weir_stage_new; chore: see above. It is the stage's if this succeeds. */
int weir_stage_make(weir_domain *domain, const weir_stage_options *options, struct weir_chore *chore,
		    weir_stage **ret_stage);
/* What was measured since the start, of a class or of WEIR_ALL_CLASSES. */
void weir_stage_measured(const weir_stage *stage, unsigned klass, weir_measure measure, weir_hist *ret_hist);
/* Recomputes which short ways are open, from the world's and the stage's state. Under control_lock. */
void weir_stage_update_open(weir_stage *stage);
/* Makes every waiting offer of the stage try again. */
void weir_stage_wake_waiters(weir_stage *stage);
int weir_stage_add_counts(weir_stage *stage);
void weir_stage_free(weir_stage *stage);
void weir_stage_fault(weir_stage *stage, weir_fault fault, uint64_t count);
/* Events in flight. 0 is exact (see drain.c), other numbers are approximate. */
uint64_t weir_stage_in_flight(weir_stage *stage);
/* Whether the stage's invariants hold. Exact only while nothing is offered to it. */
bool weir_stage_check(const weir_stage *stage);

/* ---- recent.c ---- */

/* Turns the rings that are due; returns when the next one is, UINT64_MAX: never. Under control_lock. */
uint64_t weir_recent_tick_locked(weir_stage *stage, uint64_t now_ns);
/* For a stage that nobody refers to any more. */
void weir_recent_free(weir_stage *stage);

/* ---- rest.c ---- */

/* After a tick of the law: whether the stage rests from now on, and when the next tick is due. Under control_lock. */
uint64_t weir_rest_next_locked(weir_stage *stage, const weir_gate *gate, const weir_sample *sample);
/* It is busy: its law ticks as often as it asks for. Under control_lock. */
void weir_rest_end_locked(weir_stage *stage, uint64_t now_ns);
/* Something is about to be offered to a stage that rests: it no longer does, and its law has ticked. Any thread. */
void weir_rest_interrupt(weir_stage *stage);

/* ---- every.c ---- */

/* Notes that a run is due; returns when the next one is, UINT64_MAX: never. Under control_lock. */
uint64_t weir_every_tick_locked(weir_stage *stage, uint64_t now_ns);
/* The time of the next run in the world. Under control_lock. */
uint64_t weir_every_next_locked(const weir_world *world);
/* Offers the runs that are due. The controller, in a section, without the lock. */
void weir_every_offer(weir_world *world);

/* ---- turn.c ---- */

/* A stage's next event, for comparison with those of other stages. */
typedef struct weir_candidate {
	weir_lane *lane;
	uint64_t due_ns;
	uint8_t klass;
	bool overdue;
} weir_candidate;

/* Takes the targets from the law in force. Under control_lock, or before the stage is listed. */
void weir_turn_terms(weir_stage *stage);
/* Called when an event has been served. Any thread. */
void weir_turn_learn(weir_stage *stage, uint32_t cost, uint64_t service_ns);
/* The lane's next event; without one: class 0, due at once. Owner thread, or under the domain's lock. */
weir_candidate weir_turn_candidate(weir_lane *lane, uint64_t now_ns);
bool weir_turn_before(const weir_candidate *a, const weir_candidate *b);
/* An event enters or leaves a pool's queue. */
/* Tells a law what waits before the offer, in all stages of the pool. Any thread. */
void weir_turn_ask(const weir_lane *lane, weir_ask *ask);

#endif
