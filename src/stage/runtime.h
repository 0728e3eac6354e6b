/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_RUNTIME_H
#define WEIR_STAGE_RUNTIME_H

/*
 * The runtime's own structures. Read this page, then the files in the order an event meets them:
 *
 *	offer.h      the steps of every offer: admission, places, counting
 *	offer.c      of one: run at once or queue    offer_many.c offer_wait.c reserve.c   the other forms
 *	lane.c       a stage's queue on one thread: places, pushing, waking, taking a batch out
 *	turn.c       whose turn it is among stages, and the work that waits before a pool     pool_load.c  what is offered to it
 *	dispatch.c   handler calls (frames) and settling
 *	reactor.c    a reactor thread: its turn           elastic.c  a pool thread, and the pool's size
 *	gate.c       laws in force, and what is set around them     pressure.c  what others ask to be turned away
 *	control.c    ticks: admission, pool and batch laws     monitor.c resources.c   memory, processor, loops
 *	drain.c      stopping without loss                sim.c      the virtual world
 *	retire.c     stages and pools that end before the world      grace.c  when memory may be freed
 *	stage.c domain.c world.c   making and freeing     inspect.c dump.c trace.c   looking inside
 *
 * Lanes. A stage has one lane per thread of its reactor domain, or a single one (elastic domain, or `single`).
 * A reactor lane's queue belongs to its thread; others put events into its inbox. An elastic lane's queue is
 * under the domain's lock and has no inbox.
 *
 * Places. lane->waiting counts places taken: events queued, in the inbox, and reserved by tickets. It never exceeds
 * lane->capacity. A place is taken by the offerer (compare and exchange), and given back when the event leaves the queue. An event that is run at once takes no place.
 *
 * Locks, in this order: world->control_lock, then a domain->lock, then a stage->wait_lock. No lock is held while a
 * handler, drop function or timer runs.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/inspect.h>
#include <weir/loop.h>
#include <weir/stage.h>

#include "base/assert.h"
#include "base/clock.h"
#include "control/backlog.h"
#include "control/degrade.h"
#include "control/downstream.h"
#include "loop/loop.h"
#include "stage/counts.h"
#include "stage/grace.h"
#include "stage/inbox.h"
#include "stage/queue.h"
#include "stage/trace.h"

#define WEIR_EVENT_MAGIC 0x7e1d
#define WEIR_READY_WORDS (WEIR_STAGES_MAX / 64)

enum weir_event_state {
	WEIR_EVENT_FREE = 1,
	WEIR_EVENT_QUEUED,
	WEIR_EVENT_HANDLING,
	WEIR_EVENT_HELD,
	WEIR_EVENT_CHOSEN, /* passing, in an offer of many: finds one named twice */
};

/*
 * Magic and state in one look. Atomic, field by field or as a whole: `cancelled` is next to them, and any thread may set it; a compiler
 * that joins two plain reads would read it along.
 */
#define WEIR_EVENT_TAG(state) ((uint32_t)(state) << 16 | WEIR_EVENT_MAGIC)

static inline uint32_t weir_event_tag(const weir_event *event)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint32_t)__atomic_load_n(&event->word, __ATOMIC_RELAXED) & 0xffffff;
#else
	return WEIR_EVENT_TAG(__atomic_load_n(&event->state, __ATOMIC_RELAXED)) ^ WEIR_EVENT_MAGIC ^
	       __atomic_load_n(&event->magic, __ATOMIC_RELAXED);
#endif
}

/* As weir_event_init. */
static inline void weir_event_make(weir_event *event, unsigned klass)
{
	*event = (weir_event){.magic = WEIR_EVENT_MAGIC,
			      .state = WEIR_EVENT_FREE,
			      .klass = klass < WEIR_CLASSES ? (uint8_t)klass : UINT8_MAX,
			      .home = WEIR_ANYWHERE};
}

static inline bool weir_event_is_cancelled(const weir_event *event)
{
	return __atomic_load_n(&event->cancelled, __ATOMIC_RELAXED) != 0;
}

typedef enum weir_phase {
	WEIR_PHASE_NEW,
	WEIR_PHASE_RUNNING,
	WEIR_PHASE_DRAINING,
	WEIR_PHASE_STOPPED
} weir_phase;

typedef struct weir_thread weir_thread;

/* One handler call under way. Lives on the thread's stack. */
typedef struct weir_frame {
	struct weir_frame *outer;
	weir_stage *stage; /* whose handler; NULL: nobody's, see weir_inside_enter */
	unsigned origin;   /* of what is offered meanwhile, for the graph: stage index + 1; 0: outside */
	weir_event **own;  /* the batch, in the runtime's own copy; NULL where settled */
	size_t count, unsettled;
} weir_frame;

/*
 * An admission law with its state, or one state a lane. Events carry the number of the gate they passed, so
 * that a law is told of its own events only. A gate that is replaced is freed after a grace period
 * (grace.h), once no ticket refers to it.
 */
typedef struct weir_gate {
	/* const after init */
	const weir_admission_law *law;
	const void *params; /* a copy; NULL: none were given */
	uint32_t number;
	uint32_t states;
	size_t stride; /* from one lane's state to the next; 0: one for all */
	bool learnt;   /* took over what was saved */
	bool bare;     /* there is no law: the stage has other reasons to have a gate */
	/* any thread */
	_Atomic bool special;     /* more is to be looked at than the law: see gate.c */
	_Atomic uint32_t tickets; /* reservations that would be refunded here */
	/* under control_lock */
	struct weir_gate *retired;
	uint64_t grace; /* replaced: the grace period after which nobody can be inside */
	_Alignas(64) unsigned char state[];
} weir_gate;

typedef struct weir_lane {
	/* const after init */
	weir_stage *stage;
	weir_thread *thread; /* reactor: the owner; elastic: NULL */
	uint32_t capacity;
	uint32_t concurrency; /* 0: no bound */
	uint64_t cost_capacity;
	uint16_t index;
	bool may_inline; /* a reactor's, and not told otherwise */
	/* any thread */
	/* open, inlining, not single, nothing picked for tracing, a real world */
	_Alignas(64) _Atomic bool plain;
	/* somebody must be told when an event is settled: a bound, or a virtual pool */
	_Atomic bool slow_leave;
	_Atomic bool purge; /* a tick asks the owner thread to drop what has waited too long */
	_Atomic uint32_t waiting;
	_Atomic uint32_t in_service; /* started, not settled */
	_Atomic uint32_t granted;    /* places of the stage's bound that are this lane's to use */
	_Atomic bool wants;          /* one of these */
	_Atomic uint64_t cost;       /* of the waiting ones, where cost is bounded */
	_Atomic uint32_t batch;      /* events a handler gets, at most */
	weir_inbox inbox;
	/* owner thread, or under the domain's lock */
	weir_queue queue;
	bool running; /* a handler of a single stage */
	/* the controller */
	void *batch_state;
	uint64_t batch_at_ns, batch_last_ns, last_events, last_batches, last_busy_ns;
} weir_lane;

/* Fractions in shares of this: 1 is the whole. */
#define WEIR_WHOLE (UINT32_C(1) << 16)

/* Who may say that resources run short; the largest counts. */
typedef enum weir_presser { WEIR_BY_USER, WEIR_BY_MONITOR, WEIR_PRESSERS } weir_presser;

/*
 * What others ask a stage to turn away, per class: resources that run short, and stages further down that shed what came in here
 * (pressure.c).
 */
typedef struct weir_pressure {
	/* any thread */
	_Atomic bool active;
	_Atomic uint32_t part[WEIR_CLASSES]; /* to be shed, in WEIR_WHOLE */
	_Atomic bool
		by_resources[WEIR_CLASSES];   /* that is for want of resources; otherwise for stages below */
	_Atomic int64_t carry[WEIR_CLASSES];  /* shares to be shed that have not been */
	_Atomic uint64_t below[WEIR_CLASSES]; /* events that entered here and were shed further down */
	_Atomic uint64_t lag_sum[WEIR_CLASSES]; /* of their time from entry to that, in ns */
	/* the controller */
	double asked[WEIR_PRESSERS]; /* to be turned away for want of resources, 0 to 1 */
	uint64_t at_ns, last_ns;
	double mix[WEIR_CLASSES];  /* lately offered, in proportion */
	double kept[WEIR_CLASSES]; /* let in, as far as stages further down are concerned */
	weir_downstream downstream[WEIR_CLASSES];
	struct {
		uint64_t offered, admitted, below, lag_sum;
	} last[WEIR_CLASSES];
} weir_pressure;

/* What the last tick of an admission law saw. */
typedef struct weir_ticks {
	uint64_t at_ns, last_ns;
	uint32_t unreachable; /* classes, as bits, whose target was out of reach */
	uint32_t notify;      /* of these, those nobody has been told of */
	uint64_t reports_at_ns;
	weir_class_sample total[WEIR_CLASSES];
	weir_hist *seen[WEIR_CLASSES][WEIR_MEASURES];
} weir_ticks;

/* What decides about a stage's turn among others: its targets, and what its events take. */
typedef struct weir_terms {
	/* any thread; targets and turns are written under control_lock */
	_Atomic uint64_t target_ns[WEIR_CLASSES]; /* 0: none */
	_Atomic uint64_t wait_ns
		[WEIR_CLASSES]; /* to be in time, an event of mean service waits no longer; 0: the law does not say */
	_Atomic uint64_t after_ns[WEIR_CLASSES]; /* a class has a turn at least so often */
	_Atomic float mean_ns, mean_cost;        /* of a pool's: service time and cost of an event */
	_Atomic float per_cost_ns;
	_Atomic uint32_t count;
	_Atomic float least_ns;                     /* the lowest that the mean has been */
	_Atomic uint64_t ended, ended_ns, usual_ns; /* settled; their service time; and at that lowest mean */
	/* the controller */
	uint64_t offered_seen[WEIR_CLASSES];
	double work[WEIR_CLASSES], fresh_work[WEIR_CLASSES]; /* offered, sums that fade */
	double share; /* of the work, over that of the pool's largest */
	uint64_t shed_seen;
	bool shed;             /* something, since the last tick */
	_Atomic bool strained; /* its service alone takes too long for a target of its own */
} weir_terms;

struct weir_stage {
	/* const after init */
	weir_world *world;
	weir_domain *domain;
	char *name;
	weir_stage_options options; /* name, admission and params are not kept here */
	uint16_t index;
	uint16_t mark; /* index + 1, and how often the index has been used before: see WEIR_MARK_INDEX */
	uint32_t lane_count;
	weir_lane *lanes;
	/* any thread */
	_Atomic bool open; /* world running and stage not closed */
	_Atomic bool closed;
	_Atomic bool retiring; /* for ever: see retire.c */
	_Atomic bool unlisted; /* no table has it any more */
	_Atomic uint32_t next_lane;
	_Atomic(weir_gate *) gate;
	_Atomic(weir_counts *)
		counts[WEIR_THREADS_MAX + 1]; /* 0: shared by all that are not reactor threads */
	_Atomic uint64_t faults[WEIR_FAULT_COUNT];
	_Atomic weir_admission_mode mode;
	_Atomic uint32_t shed_ceiling; /* in WEIR_WHOLE */
	_Atomic int64_t shed_credit;
	weir_pressure pressure;
	weir_terms terms;
	/* waiting offers */
	pthread_mutex_t wait_lock;
	pthread_cond_t wait_space;
	_Atomic uint32_t waiters;
	uint64_t wait_turn; /* under wait_lock: grows whenever a waiter should try again */
	/* the controller, under control_lock */
	bool heeds_monitor;
	weir_gate *retired;
	uint32_t gate_number; /* of the last one made */
	weir_ticks ticks;
	/* const after init */
	uint64_t serial;  /* no other stage of the world has had it */
	uint64_t made_ns; /* what a trace has of this index from before is about another stage */
	/*
	 * what came from stages that had an index before, which an edge does not count; written under
	 * control_lock
	 */
	_Atomic uint64_t gone_from[WEIR_STAGES_MAX + 1];
	/* under control_lock: retire.c */
	bool attended;              /* a thread is in weir_stage_retire */
	uint64_t grace;             /* that the next step waits for */
	struct weir_stage *leaving; /* the next one that is unlisted and not freed */
};

/* How late a loop runs what it is given: monitor.c. */
typedef struct weir_lag {
	weir_post post;           /* the loop's, while sent_ns is not 0 */
	_Atomic uint64_t sent_ns; /* the post is under way since then; 0: it is not */
	_Atomic uint64_t last_ns; /* how long the last one was */
} weir_lag;

struct weir_thread {
	/* const after init */
	weir_world *world;
	weir_domain *domain;
	uint16_t index; /* in its domain */
	uint16_t slot;  /* of counts: 0 shared; reactor threads 1 .. */
	weir_loop *loop;
	weir_clock *clock; /* the loop's; NULL: read the true clock, or the virtual one */
	pthread_t pthread;
	/* this thread */
	weir_frame *frame;
	uint32_t depth_left;                    /* how much deeper offers may run at once */
	uint64_t run_start_ns;                  /* when the stages last got their turn */
	uint64_t wakes;                         /* reactor threads to be woken, by slot - 1 */
	uint64_t local_ready[WEIR_READY_WORDS]; /* stages with events in this thread's queues */
	uint32_t next_stage;
	bool worked;   /* something was offered or handled since the last turn */
	bool gathered; /* other threads have put something before this one since the last turn */
	bool flooded;  /* and there was a batch of it */
	/* any thread */
	_Alignas(
		64) _Atomic uint64_t ready[WEIR_READY_WORDS]; /* stages whose lane here others have touched */
	_Atomic uint64_t turns;
	_Atomic bool over; /* a reactor's: it runs nothing any more */
	weir_lag lag;
	/* this thread */
	void *state; /* a pool's: what thread_start has made */
};

typedef struct weir_worker {
	weir_thread thread;
	struct weir_worker *next;
} weir_worker;

/* What is offered to a pool that several stages share: pool_load.c. The controller's. */
typedef struct weir_pool_load {
	uint64_t at_ns, last_ns;
	double count, time_ns,
		work[WEIR_CLASSES]; /* offers, the time they came in, their work: sums that fade */
	double fresh_count, fresh_ns, fresh_work[WEIR_CLASSES]; /* not in them yet */
	double load[WEIR_CLASSES];
	weir_degrade degrade;
} weir_pool_load;

struct weir_domain {
	/* const after init */
	weir_world *world;
	char *name;
	weir_domain_options options;
	uint16_t index;
	/* under control_lock: retire.c */
	bool retiring; /* its threads have been told to end */
	bool attended; /* a thread is in weir_domain_retire */
	bool unlisted; /* no table has it any more */
	uint64_t grace;
	struct weir_domain *next; /* that is unlisted and not freed */
	/* reactor: const after start; in a virtual world also the one thread that stands for an elastic domain's */
	weir_thread *threads;
	uint32_t thread_count;
	_Atomic uint64_t waits_for; /* domains its threads have waited for, as bits */
	/* under lock; elastic */
	pthread_mutex_t lock;
	pthread_cond_t work, gone;
	weir_stage *stages[WEIR_STAGES_MAX];
	uint32_t stage_count, next_stage;
	_Atomic uint32_t alive; /* threads; read without the lock */
	uint32_t idle, target;
	uint32_t leaving;  /* threads that are not alive any more, and not yet in `exited` */
	uint64_t calls[2]; /* handler calls under way, by the side they began on: grace.h */
	bool quit;
	bool hooked;           /* virtual: thread_start was called */
	bool touched;          /* virtual: something may be startable */
	weir_worker *exited;   /* to be joined */
	uint64_t none_idle_ns; /* the last time no thread was idle */
	uint64_t started, arrived;
	uint64_t busy_ns;               /* time in handler calls that have ended */
	uint64_t running, began_sum_ns; /* calls under way, and the sum of when they began (modulo 2^64) */
	uint64_t cpu_ns;                /* virtual: what handlers said */
	weir_backlog backlog;           /* read by any thread */
	_Atomic bool shared;            /* a pool with several stages; any thread */
	_Atomic float
		bound_ns[WEIR_CLASSES]; /* of what waits, so that all would just be in time; any thread */
	_Atomic bool disturbed;         /* something has failed since the last start; any thread */
	/* the controller */
	weir_pool_load load;
	void *pool_state;
	uint64_t pool_at_ns, pool_last_ns, last_started, last_arrived, last_busy_ns;
	uint64_t last_ended, last_ended_ns, last_usual_ns, last_cpu_ns;
};

struct weir_world {
	weir_world_options options;
	_Atomic weir_phase phase;
	struct weir_sim *sim; /* NULL: the real world */
	/*
	 * Tables with holes: counts are one more than the highest index in use so far. Written under
	 * control_lock.
	 */
	_Atomic(weir_domain *) domains[WEIR_DOMAINS_MAX];
	_Atomic uint32_t domain_count;
	_Atomic(weir_stage *) stages[WEIR_STAGES_MAX];
	_Atomic uint32_t stage_count;
	weir_thread *reactors[WEIR_THREADS_MAX]; /* by slot - 1 */
	uint32_t reactor_count;
	weir_trace trace;
	/* any thread */
	_Alignas(64) weir_grace grace; /* first the threads from outside that are inside a call */
	_Atomic uint64_t tickets;
	_Atomic bool control_paused;
	_Atomic bool quit; /* reactor threads end */
	/* the controller */
	pthread_mutex_t control_lock;
	pthread_cond_t control_wake;
	pthread_t control_thread;
	bool control_started, control_quit;
	uint64_t control_seen, control_busy_ns;
	/* under control_lock: taken out of queues, their drop functions not yet called; linked by at.queue.next */
	weir_event *purged;
	bool notify;
	/* under control_lock: what is retired */
	bool stage_taken[WEIR_STAGES_MAX], domain_taken[WEIR_DOMAINS_MAX]; /* indices in use */
	uint32_t stage_uses[WEIR_STAGES_MAX]; /* how often an index has been used */
	uint64_t serials;
	weir_stage *leaving; /* unlisted, not yet freed */
	weir_domain *leaving_domains;
	unsigned retirers; /* threads in weir_stage_retire or weir_domain_retire: a stop waits for them */
	struct weir_monitor *monitor; /* NULL: none */
	pthread_cond_t monitor_done;  /* it is not busy any more */
};

/* ---- gates ---- */

static inline weir_gate *weir_stage_gate(const weir_stage *stage)
{
	return atomic_load_explicit(&stage->gate, memory_order_acquire);
}

/* The state that decides about this lane. */
static inline void *weir_gate_state(weir_gate *gate, const weir_lane *lane)
{
	return gate->state + lane->index * gate->stride;
}

/* The gate in force, if it is the one that this event has passed; NULL: its law is none of the event's business. */
static inline weir_gate *weir_event_gate(const weir_event *event, const weir_stage *stage)
{
	weir_gate *gate = weir_stage_gate(stage);
	return gate != NULL && gate->number == event->gate ? gate : NULL;
}

/* ---- threads ---- */

/*
 * Worlds, stages and laws that have been taken out of use in this process. What a thread from outside
 * remembers of them may be gone when it has changed. It grows before their memory is freed, and after they
 * have left the tables.
 */
extern _Atomic uint64_t weir_things_gone;

/* initial-exec: one instruction also from within a shared library. */
extern _Thread_local weir_thread *weir_thread_here __attribute__((tls_model("initial-exec")));

/* The running thread, if it is one of this world's. */
static inline weir_thread *weir_thread_in(const weir_world *world)
{
	weir_thread *self = weir_thread_here;
	return self != NULL && self->world == world ? self : NULL;
}

uint64_t weir_sim_now(const struct weir_sim *sim);
/* A handler is about to be called in a virtual world. */
void weir_sim_count_call(struct weir_sim *sim);

static inline uint64_t weir_thread_now(weir_thread *self, const weir_world *world)
{
	if (self != NULL && self->clock != NULL)
		return weir_clock_now(self->clock);
	return world->sim != NULL ? weir_sim_now(world->sim) : weir_clock_ns();
}

/* When the turn that the thread is in should end: of its stages, or of the callbacks of its loop. */
static inline uint64_t weir_thread_turn_end(const weir_thread *self)
{
	uint64_t began = self->run_start_ns;
	if (self->clock != NULL && self->clock->base_ns > began)
		began = self->clock->base_ns;
	return began + self->domain->options.turn_ns;
}

/* The counts of this stage that this thread writes. */
static inline weir_counts *weir_stage_counts(weir_stage *stage, const weir_thread *self)
{
	return atomic_load_explicit(&stage->counts[self != NULL ? self->slot : 0], memory_order_acquire);
}

/* ---- lane.c ---- */

/* Takes places; WEIR_ADMITTED, or why not and nothing is taken. */
weir_verdict weir_lane_take(weir_lane *lane, uint32_t count, uint64_t cost);
void weir_lane_give_back(weir_lane *lane, uint32_t count, uint64_t cost);
/* Opens or closes the stage for the common case, as world and stage now are. Under control_lock. */
void weir_stage_update_open(weir_stage *stage);
/* Has every waiting offer of the stage try again. */
void weir_stage_wake_waiters(weir_stage *stage);
/* Puts events that hold places into the lane, and sees to it that its thread comes for them. */
void weir_lane_push(weir_lane *lane, weir_thread *self, weir_event *const *events, size_t count);
/* Has the lane's thread look at it: something changed that may let it start more. */
void weir_lane_kick(weir_lane *lane, weir_thread *self);
/* Wakes the reactor threads that this thread has put something before. */
void weir_thread_flush_wakes(weir_thread *self);

/* What a lane gives out at once: events to handle, and events that must not be. */
typedef struct weir_batch {
	size_t count, dead;
	weir_event *events[WEIR_BATCH_MAX];
	weir_event *dead_events[WEIR_BATCH_MAX];
	weir_verdict dead_why[WEIR_BATCH_MAX];
} weir_batch;

/* ---- bound.c: all of them do nothing for a stage that has none ---- */

/* Of a stage that has just got it. */
void weir_bound_enlist(weir_bound *bound, weir_stage *stage);
/* Of one that is empty and retires: no place is granted to it any more, once a grace period is over. */
void weir_bound_delist(weir_bound *bound, const weir_stage *stage);
/* After that: what was granted to it is others' to use. */
void weir_bound_clear(weir_stage *stage);
/* A look: there is a place for this lane now. */
bool weir_bound_open(const weir_lane *lane);
/* As many places as there are, at most those wanted. The lane's own thread. */
uint32_t weir_bound_take(weir_lane *lane, uint32_t wanted);
/* One that there may not be. */
void weir_bound_force(const weir_lane *lane);
void weir_bound_give(weir_lane *lane, uint32_t count, weir_thread *self);
/*
 * After a lane's turn: could_start says whether something waits that could be started but for this bound. Then it will be kicked when there is a place, unless there is one now:
 * true. Otherwise what was granted to it is given back. The lane's own thread.
 */
bool weir_bound_wait(weir_lane *lane, bool could_start, weir_thread *self);

/* Takes the next batch out, giving back places. The owner thread, or under the domain's lock. */
void weir_lane_collect(weir_lane *lane, uint64_t now_ns, size_t most, weir_batch *ret_batch);
/* How many more the lane's bound, and the law, let inside now. */
uint32_t weir_lane_room(const weir_lane *lane);
/* A place under the limit of its law has become free: wakes another lane that waits for one. */
void weir_lane_pass_on(weir_lane *lane, weir_thread *self);
/* Tells its law that an event leaves the queue without a start, and not because the law said so. */
void weir_lane_gone(weir_lane *lane, const weir_event *event, uint64_t now_ns);
/* Whether the lane may start something now, as far as it is up to the lane. */
bool weir_lane_startable(const weir_lane *lane);
/* Takes out those that have waited longer than their law's patience, at most so many. The owner thread, or under the domain's lock. */
size_t weir_lane_take_stale(weir_lane *lane, uint64_t now_ns, size_t most, weir_event **ret_events);
/* Moves what others put into the inbox to the queue. The owner thread. */
void weir_lane_absorb(weir_lane *lane);

/* ---- gate.c, pressure.c ---- */

/* Of a stage that nobody knows any more. */
void weir_gates_free(weir_stage *stage);
/* Frees what was replaced and nobody can be inside any more. Under control_lock. */
void weir_gates_collect_locked(weir_stage *stage);
/* Looks again at what is set around the law. Under control_lock. */
void weir_gate_update_locked(weir_stage *stage);
/* The law on an event's start, as far as it is enforced. */
weir_verdict weir_gate_start(weir_gate *gate, weir_lane *lane, const weir_event *event,
			     const weir_turn *turn);
/* How many of so many waiting events a law may have dropped, as mode and ceiling are, and that so many were. */
size_t weir_gate_may_drop(const weir_stage *stage, size_t count);
void weir_gate_dropped(weir_stage *stage, size_t count);
void weir_pressure_init(weir_stage *stage);
weir_verdict weir_pressure_ask(weir_stage *stage, unsigned klass, uint32_t count);
/* An event that has entered elsewhere is turned away here: whoever let it in may want to know. Its owner's thread. */
void weir_pressure_below(const weir_stage *stage, weir_event *event, weir_verdict why, uint64_t now_ns);
/* Its handler gives it up because somebody further down, perhaps outside of this world, is overloaded. */
void weir_pressure_refused(const weir_stage *stage, weir_event *event, uint64_t now_ns);
/* weir_stage_press, under control_lock. */
void weir_pressure_set_locked(weir_stage *stage, weir_presser who, double fraction);
/* Adapts the parts to be shed; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pressure_tick_locked(weir_stage *stage, uint64_t now_ns);

/* ---- monitor.c ---- */

/* When the monitor is to look next; UINT64_MAX: there is none. Under control_lock. */
uint64_t weir_monitor_tick_locked(weir_world *world, uint64_t now_ns);
/* Whether it should now. Under control_lock. */
bool weir_monitor_is_due(const weir_world *world);
/* Has it look, if it is due. Without the lock; by the controller. */
void weir_monitor_look(weir_world *world);
/* The world is freed, and its monitor is not. */
void weir_monitor_orphan(weir_world *world);

/* ---- dispatch.c ---- */

/* Handles a batch: drops its dead, calls the handler for the living. Returns the time afterwards. */
uint64_t weir_dispatch(weir_thread *self, weir_lane *lane, weir_batch *batch, uint64_t now_ns);
/* One handler call under way for one event, made by the caller of weir_dispatch_inline. */
static inline void weir_frame_begin(weir_frame *frame, weir_thread *self, weir_lane *lane, weir_event **own,
				    weir_event *event, uint64_t now_ns)
{
	frame->outer = self->frame;
	frame->stage = lane->stage;
	frame->origin = lane->stage->index + 1u;
	frame->own = own;
	frame->count = frame->unsettled = 1;
	event->at.run.frame = frame;
	event->at.run.slot = 0;
	event->at.run.klass = event->klass;
	event->state = WEIR_EVENT_HANDLING;
	event->started_ns = now_ns;
	atomic_fetch_add_explicit(&lane->in_service, 1, memory_order_relaxed);
	self->frame = frame;
	self->worked = true;
	self->depth_left--;
}

/* What a handler forgot to settle. */
void weir_dispatch_leaked(weir_thread *self, weir_lane *lane, weir_frame *frame);

/* Runs the handler for one event that has just been admitted to a lane that is plain. */
static inline void weir_dispatch_plain(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	weir_event *own = event, *given = event;
	weir_frame frame;
	weir_stage *stage = lane->stage;
	weir_frame_begin(&frame, self, lane, &own, event, now_ns);
	stage->options.handle(stage, &given, 1, stage->options.arg);
	self->depth_left++;
	self->frame = frame.outer;
	if (__builtin_expect(frame.unsettled != 0, 0))
		weir_dispatch_leaked(self, lane, &frame);
}

/* The same for any lane, with all that may have to be said about it. */
void weir_dispatch_inline(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);
/* Gives an admitted event up: counts it and tells the drop function. */
void weir_dispatch_drop(weir_lane *lane, weir_thread *self, weir_event *event, weir_verdict why,
			uint64_t now_ns);
/* The end of a HANDLING or HELD event in its stage. The event is FREE afterwards. */
void weir_settle(weir_thread *self, weir_event *event, weir_outcome outcome, uint64_t now_ns);
void weir_stage_fault(weir_stage *stage, weir_fault fault, uint64_t count);
/* Makes an event that has just been admitted HELD, as if a handler had begun and held it. */
void weir_dispatch_held(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);

/*
 * For layers above whose work goes on in callbacks of a loop (completions), where no handler runs. Between the two, what this
 * thread offers counts as made by a handler of the stage, unless one runs: it continues work that is inside, so a drain
 * lets it through. stage NULL: it passes a drain, and counts as coming from outside; then for weir_offer_held and weir_reserve
 * only. On a thread of the world, in pairs, on one stack.
 */
void weir_inside_enter(weir_stage *stage, weir_frame *frame);
void weir_inside_leave(const weir_frame *frame);

/* ---- offer.c, beyond what offer.h has for the other forms ---- */

/* Why the last offer of this thread was shed is not known any more: it leaves a section (grace.h). */
void weir_offer_forget(void);
/* As weir_offer, but the offerer does the work itself: an admitted event is HELD at once, on any kind of domain. */
weir_verdict weir_offer_held(weir_stage *stage, weir_event *event);
/* Counts an offer that a bound of the offerer's own refuses; returns why. */
weir_verdict weir_offer_refused(weir_stage *stage, weir_event *event, weir_verdict why);
/* As weir_why_shed, with when to come again as the law says it: nothing random is added, which is then the business of whoever tells many clients. */
bool weir_why_unspread(weir_why *ret_why);
/* What weir_why_shed says in the drop function that is about to be called. */
void weir_offer_note_drop(weir_lane *lane, weir_thread *self, const weir_event *event, weir_verdict why,
			  uint64_t now_ns);

/* ---- turn.c ---- */

/* A stage's next event, as it compares with that of another stage. */
typedef struct weir_candidate {
	weir_lane *lane;
	uint64_t due_ns;
	uint8_t klass;
	bool overdue;
} weir_candidate;

/* Takes the targets over from the law in force. Under control_lock, or before the stage is known. */
void weir_turn_terms(weir_stage *stage);
/* An event has been served. Any thread. */
void weir_turn_learn(weir_stage *stage, uint32_t cost, uint64_t service_ns);
/* The lane's next event; one without has class 0 and is due at once. The owner thread, or under the domain's lock. */
weir_candidate weir_turn_candidate(weir_lane *lane, uint64_t now_ns);
bool weir_turn_before(const weir_candidate *a, const weir_candidate *b);
/* An event enters or leaves a queue of a pool. */
void weir_turn_enter_locked(weir_lane *lane, weir_event *event);
void weir_turn_leave_locked(weir_lane *lane, weir_event *event);
/* A batch was taken to be handled now; all_busy: no thread of the pool is idle. */
void weir_turn_started_locked(weir_domain *domain, weir_event *const *events, size_t count, bool all_busy,
			      uint64_t now_ns);
/* Tells a law what waits before the offer, in all stages of the pool. Any thread. */
void weir_turn_ask(const weir_lane *lane, weir_ask *ask);

/* ---- pool_load.c ---- */

/* Measures what is offered to a pool; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pool_load_tick_locked(weir_domain *domain, uint64_t now_ns);
/* Tells a law of it. Under control_lock. */
void weir_pool_load_tell(const weir_stage *stage, weir_sample *sample);

/* ---- reactor.c, elastic.c, control.c, drain.c, sim.c ---- */

int weir_reactor_start(weir_domain *domain);
void weir_reactor_join(weir_domain *domain);
/* Runs what is ready on this thread, within its time; true: there is more. */
bool weir_reactor_run(weir_thread *self);

int weir_elastic_start(weir_domain *domain);
/* Has the threads end, and waits for them; false: the time was up first. It can be called again. */
bool weir_elastic_join(weir_domain *domain, uint64_t until_ns);
void weir_elastic_push(weir_lane *lane, weir_event *const *events, size_t count);
void weir_elastic_kick(weir_domain *domain);
/* The lane of the domain whose turn it is to start something (turn.c); NULL: none can. Under lock. */
weir_lane *weir_elastic_pick_locked(weir_domain *domain, uint64_t now_ns);
/* A handler call (virtual: an event's stay) begins, or ends after having begun then. */
void weir_elastic_begin_locked(weir_domain *domain, uint64_t now_ns);
void weir_elastic_end_locked(weir_domain *domain, uint64_t began_ns, uint64_t now_ns);
void weir_elastic_sample_locked(weir_domain *domain, uint64_t now_ns, weir_pool_sample *ret_sample);
/* Makes the pool as large as `threads`, as far as it can now. */
void weir_elastic_resize(weir_domain *domain, uint32_t threads);

int weir_control_start(weir_world *world);
void weir_control_stop(weir_world *world);
void weir_control_resume(weir_world *world);
/* Has the controller look at once, even if it pauses. Under control_lock. */
void weir_control_wake_locked(weir_world *world);
/* The next sample of the stage is of what happens from now on. Under control_lock. */
void weir_control_begin_locked(weir_stage *stage, bool quantiles);
/* Runs the laws that are due; returns when the next one is, UINT64_MAX: never. Under control_lock. */
uint64_t weir_control_tick(weir_world *world, uint64_t now_ns);
/* Whether a tick has left something to do that calls others, and doing it: without the lock. */
bool weir_control_has_calls(const weir_world *world);
void weir_control_calls(weir_world *world);

/* Ticks only while there is work: whoever brings some calls this. */
static inline void weir_control_touch(weir_world *world)
{
	if (__builtin_expect(atomic_load_explicit(&world->control_paused, memory_order_relaxed), 0))
		weir_control_resume(world);
}

static inline void weir_thread_worked(weir_thread *self, weir_world *world)
{
	if (self != NULL && self->loop != NULL)
		self->worked = true;
	else
		weir_control_touch(world);
}

/* Events in flight, all stages; 0 is certain (see drain.c), other numbers are of about now. */
uint64_t weir_world_in_flight(weir_world *world);
uint64_t weir_stage_in_flight(weir_stage *stage);
/* Sleeps a little longer each time, from *nap_ns up to 1 ms; false: the time is up. */
bool weir_nap(uint64_t *nap_ns, uint64_t until_ns);
/* Whether the invariants hold for it. Exact only while nothing is being offered to it. */
bool weir_stage_check(const weir_stage *stage);
/* The stage of a trace's entry; "(retired)" where it is no more. Within a section (grace.h). */
const char *weir_trace_stage(const weir_world *world, const weir_trace_entry *entry);

int weir_sim_new(uint64_t seed, struct weir_sim **ret_sim);
void weir_sim_free(struct weir_sim *sim);
int weir_sim_start(weir_world *world);
/* Runs as long as busy says so, or until the clock is at until_ns. */
void weir_sim_drain(weir_world *world, uint64_t until_ns, bool (*busy)(void *arg), void *arg);
/* Virtual: starts what the domain's idle threads can take. */
void weir_sim_touch(weir_domain *domain);

/* The lane of the stage that this reactor thread runs; NULL: another thread does. */
static inline weir_lane *weir_stage_lane(weir_stage *stage, const weir_thread *self)
{
	weir_lane *lane = &stage->lanes[stage->lane_count == 1 ? 0 : self->index];
	return lane->thread == self ? lane : NULL;
}

/* The world's phase, made known to all stages. */
void weir_world_set_phase(weir_world *world, weir_phase phase);
/* Has every stage look at the phase and the tracing again. Under control_lock. */
void weir_world_update_stages(weir_world *world);
int weir_stage_add_counts(weir_stage *stage);
void weir_stage_free(weir_stage *stage);
void weir_domain_free(weir_domain *domain);
/* Refuses threads of the world, and its controller, which others would wait for. what: "stop". */
int weir_world_check_thread(weir_world *world, const char *what);

/* The world's stage by index; NULL: none has it now. Within a section (grace.h), or under control_lock. */
static inline weir_stage *weir_world_stage(const weir_world *world, uint32_t index)
{
	return atomic_load_explicit(&world->stages[index], memory_order_acquire);
}

/* The same of a domain. */
static inline weir_domain *weir_world_domain(const weir_world *world, uint32_t index)
{
	return atomic_load_explicit(&world->domains[index], memory_order_acquire);
}

/*
 * The mark of a stage is what an event remembers of where it entered: its index + 1 in the low bits, and
 * above them how often the index had been used, so that a stage is not told of events that entered at
 * another one before it.
 */
#define WEIR_MARK_INDEX(mark)  (((mark)&0x1ff) - 1u)
#define WEIR_MARK(index, uses) ((uint16_t)((index) + 1u + ((uses)&0x7fu) * 0x200u))
_Static_assert(WEIR_STAGES_MAX < 0x200, "a mark has nine bits for index + 1");

#endif
