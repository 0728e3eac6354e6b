/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_RUNTIME_H
#define WEIR_STAGE_RUNTIME_H

/*
 * The runtime's own structures. Read this page, then the files in the order in which an event meets them:
 *
 *	offer.h      the steps of every offer: admission, places, counting
 *	offer.c      one event: run at once or queue    offer_many.c offer_wait.c reserve.c   the other forms
 *	lane.c       a stage's queue on one thread: places, pushing, waking, taking out a batch
 *	turn.c       whose turn it is among stages, and the backlog of a pool    pool_load.c  its offered load
 *	dispatch.c   handler calls (frames) and settling
 *	reactor.c    a reactor thread: its turn           elastic.c  a pool thread, and the pool's size
 *	gate.c       laws in force and their settings     pressure.c  what others ask to be shed
 *	control.c    ticks: admission, pool and batch laws    monitor.c resources.c  memory, processor, loops
 *	drain.c      stopping without loss                sim.c      the virtual world
 *	retire.c     stages and pools that end before the world      grace.c  when memory may be freed
 *	stage.c domain.c world.c   making and freeing     inspect.c dump.c trace.c   looking inside
 *
 * Lanes. A stage has one lane per thread of its reactor domain, or a single one (elastic domain, or
 * `single`). A reactor lane's queue belongs to its thread; other threads put events into its inbox. An
 * elastic lane's queue is under the domain's lock and has no inbox.
 *
 * Places. lane->waiting counts the places taken: events queued, in the inbox, and reserved by tickets. It
 * never exceeds lane->capacity. The offerer takes a place (compare and exchange). The place is given back
 * when the event leaves the queue. An event that is run at once takes no place.
 *
 * Locks are taken in this order: world->control_lock, a domain->lock, a stage->wait_lock. No lock is held
 * while a handler, drop function or timer runs.
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
	WEIR_EVENT_CHOSEN, /* being checked in an offer of many; finds duplicates */
};

/*
 * Magic and state in one load. All accesses are atomic, per field or as a whole: `cancelled` is next to them,
 * and any thread may set it. A compiler that merges two plain reads would read it too.
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

/* A handler call under way. It lives on the thread's stack. */
typedef struct weir_frame {
	struct weir_frame *outer;
	weir_stage *stage; /* whose handler; NULL: none, see weir_inside_enter */
	unsigned origin;   /* of offers made meanwhile, for the graph: stage index + 1; 0: outside */
	weir_event **own;  /* the runtime's copy of the batch; NULL where settled */
	size_t count, unsettled;
} weir_frame;

/*
 * An admission law with its state, or with one state per lane. Events carry the number of the gate they
 * passed, so that a law is told of its own events only. A replaced gate is freed after a grace period
 * (grace.h), once no ticket refers to it.
 */
typedef struct weir_gate {
	/* const after init */
	const weir_admission_law *law;
	const void *params; /* a copy; NULL: none given */
	uint32_t number;
	uint32_t states;
	size_t stride; /* from one lane's state to the next; 0: one state for all */
	bool learnt;   /* started from saved state */
	bool bare;     /* has no law: the stage needs a gate for other reasons */
	/* any thread */
	_Atomic bool special;     /* more than the law decides: see gate.c */
	_Atomic uint32_t tickets; /* reservations that would be refunded here */
	/* under control_lock */
	struct weir_gate *retired;
	uint64_t grace; /* once replaced: the grace period after which nobody uses it */
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
	bool may_inline; /* a reactor's, without no_inline */
	/* any thread */
	/* open, may inline, not single, no shared bound, trace.every 0, a real world */
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

/* Fractions are stored in units of 1 / WEIR_WHOLE. */
#define WEIR_WHOLE (UINT32_C(1) << 16)

/* Who may report that resources are short; the largest value counts. */
typedef enum weir_presser { WEIR_BY_USER, WEIR_BY_MONITOR, WEIR_PRESSERS } weir_presser;

/*
 * What others ask a stage to shed, per class: because resources are short, or because stages further down
 * shed what entered here (pressure.c).
 */
typedef struct weir_pressure {
	/* any thread */
	_Atomic bool active;
	_Atomic uint32_t part[WEIR_CLASSES]; /* to be shed, in WEIR_WHOLE */
	/* because resources are short; false: because stages further down shed */
	_Atomic bool by_resources[WEIR_CLASSES];
	_Atomic int64_t carry[WEIR_CLASSES];    /* asked for and not yet shed, in WEIR_WHOLE */
	_Atomic uint64_t below[WEIR_CLASSES];   /* events that entered here and were shed further down */
	_Atomic uint64_t lag_sum[WEIR_CLASSES]; /* sum of their times from entry to shed, in ns */
	/* the controller */
	double asked[WEIR_PRESSERS]; /* fraction to shed for lack of resources, 0 to 1 */
	uint64_t at_ns, last_ns;
	double mix[WEIR_CLASSES];  /* proportions of the recent offers */
	double kept[WEIR_CLASSES]; /* fraction to admit because of stages further down */
	weir_downstream downstream[WEIR_CLASSES];
	struct {
		uint64_t offered, admitted, below, lag_sum;
	} last[WEIR_CLASSES];
} weir_pressure;

/* What the last tick of an admission law saw. */
typedef struct weir_ticks {
	uint64_t at_ns, last_ns;
	uint32_t unreachable; /* classes, as bits, whose target was out of reach */
	uint32_t notify;      /* those of them not yet reported */
	uint64_t reports_at_ns;
	weir_class_sample total[WEIR_CLASSES];
	weir_hist *seen[WEIR_CLASSES][WEIR_MEASURES];
} weir_ticks;

/* What decides a stage's turn among others: its targets, and how long its events take. */
typedef struct weir_terms {
	/* any thread; targets and turns are written under control_lock */
	_Atomic uint64_t target_ns[WEIR_CLASSES]; /* 0: none */
	/* the longest wait with which an event of mean service time is in time; 0: the law does not say */
	_Atomic uint64_t wait_ns[WEIR_CLASSES];
	_Atomic uint64_t after_ns[WEIR_CLASSES]; /* a class gets a turn at least this often */
	_Atomic float mean_ns, mean_cost;        /* pools only: mean service time and cost of an event */
	_Atomic float per_cost_ns;
	_Atomic uint32_t count;
	_Atomic float least_ns; /* the lowest mean so far */
	/* settled events; their service time; their service time if each had taken the lowest mean */
	_Atomic uint64_t ended, ended_ns, usual_ns;
	/* the controller */
	uint64_t offered_seen[WEIR_CLASSES];
	double work[WEIR_CLASSES], fresh_work[WEIR_CLASSES]; /* offered work: a fading sum; not yet in it */
	double share;                                        /* of the work, relative to the pool's largest */
	uint64_t shed_seen;
	bool shed;             /* something was shed since the last tick */
	_Atomic bool strained; /* its service alone takes too long for one of its targets */
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
	_Atomic bool open; /* world running, stage neither closed nor retiring */
	_Atomic bool closed;
	_Atomic bool retiring; /* never reset: see retire.c */
	_Atomic bool unlisted; /* in no table any more */
	_Atomic uint32_t next_lane;
	_Atomic(weir_gate *) gate;
	/* slot 0 is shared by all threads that are not reactor threads */
	_Atomic(weir_counts *) counts[WEIR_THREADS_MAX + 1];
	_Atomic uint64_t faults[WEIR_FAULT_COUNT];
	_Atomic weir_admission_mode mode;
	_Atomic uint32_t shed_ceiling; /* in WEIR_WHOLE */
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
	/* events from earlier holders of each index, which an edge does not count; under control_lock */
	_Atomic uint64_t gone_from[WEIR_STAGES_MAX + 1];
	/* under control_lock: retire.c */
	bool attended;              /* a thread is in weir_stage_retire */
	uint64_t grace;             /* that the next step waits for */
	struct weir_stage *leaving; /* next stage that is unlisted and not freed */
};

/* How late a loop runs its posts: monitor.c. */
typedef struct weir_lag {
	weir_post post;           /* belongs to the loop while sent_ns is not 0 */
	_Atomic uint64_t sent_ns; /* when the post was sent; 0: none is under way */
	_Atomic uint64_t last_ns; /* delay of the last post */
} weir_lag;

struct weir_thread {
	/* const after init */
	weir_world *world;
	weir_domain *domain;
	uint16_t index; /* in its domain */
	uint16_t slot;  /* of counts: 0 is shared, reactor threads have 1 and up */
	weir_loop *loop;
	weir_clock *clock; /* the loop's; NULL: read the real clock, or the virtual one */
	pthread_t pthread;
	/* this thread */
	weir_frame *frame;
	uint32_t depth_left;                    /* levels left for offers that run at once */
	uint64_t run_start_ns;                  /* when the stages last got their turn */
	uint64_t wakes;                         /* reactor threads to wake, bit slot - 1 */
	uint64_t local_ready[WEIR_READY_WORDS]; /* stages with events in this thread's queues */
	uint32_t next_stage;
	bool worked;   /* something was offered or handled since the last turn */
	bool gathered; /* other threads have marked a lane here since the last turn */
	bool flooded;  /* and a batch of it was large: FLOOD, reactor.c */
	/* any thread */
	/* stages whose lane here was marked by other threads */
	_Alignas(64) _Atomic uint64_t ready[WEIR_READY_WORDS];
	_Atomic uint64_t turns;
	_Atomic bool over; /* a reactor's: it has ended */
	weir_lag lag;
	/* this thread */
	void *state; /* a pool's: what thread_start returned */
};

typedef struct weir_worker {
	weir_thread thread;
	struct weir_worker *next;
} weir_worker;

/* The load offered to a pool that several stages share: pool_load.c. The controller's. */
typedef struct weir_pool_load {
	uint64_t at_ns, last_ns;
	/* fading sums: offers, the time in which they came, their work */
	double count, time_ns, work[WEIR_CLASSES];
	double fresh_count, fresh_ns, fresh_work[WEIR_CLASSES]; /* not yet in these sums */
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
	bool unlisted; /* in no table any more */
	uint64_t grace;
	struct weir_domain *next; /* next domain that is unlisted and not freed */
	/* reactor: const after start. In a virtual world, one thread stands for an elastic domain's pool. */
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
	uint32_t leaving;  /* threads that are no longer alive and not yet in `exited` */
	uint64_t calls[2]; /* handler calls under way, by the side they began on: grace.h */
	bool quit;
	bool hooked;           /* virtual: thread_start was called */
	bool touched;          /* virtual: something may be startable */
	weir_worker *exited;   /* to be joined */
	uint64_t none_idle_ns; /* the last time that no thread was idle */
	uint64_t started, arrived;
	uint64_t busy_ns;               /* time in handler calls that have ended */
	uint64_t running, began_sum_ns; /* calls under way, and the sum of their begins (modulo 2^64) */
	uint64_t cpu_ns;                /* virtual: as reported by handlers */
	weir_backlog backlog;           /* read by any thread */
	_Atomic bool shared;            /* a pool with several stages; any thread */
	/* the backlog with which all would just be in time; any thread */
	_Atomic float bound_ns[WEIR_CLASSES];
	_Atomic bool disturbed; /* something has failed since the last start; any thread */
	/* the controller */
	weir_pool_load load;
	void *pool_state;
	uint64_t pool_at_ns, pool_last_ns, last_started, last_arrived, last_busy_ns;
	uint64_t last_ended, last_ended_ns, last_usual_ns, last_cpu_ns;
};

struct weir_world {
	weir_world_options options;
	_Atomic weir_phase phase;
	struct weir_sim *sim; /* NULL: a real world */
	/* Tables may have holes. A count is the highest index used so far + 1. Written under control_lock. */
	_Atomic(weir_domain *) domains[WEIR_DOMAINS_MAX];
	_Atomic uint32_t domain_count;
	_Atomic(weir_stage *) stages[WEIR_STAGES_MAX];
	_Atomic uint32_t stage_count;
	weir_thread *reactors[WEIR_THREADS_MAX]; /* by slot - 1 */
	uint32_t reactor_count;
	weir_trace trace;
	/* any thread */
	_Alignas(64) weir_grace grace; /* begins with the outside threads that are in a call */
	_Atomic uint64_t tickets;
	_Atomic bool control_paused;
	_Atomic bool quit; /* tells reactor threads to end */
	/* the controller */
	pthread_mutex_t control_lock;
	pthread_cond_t control_wake;
	pthread_t control_thread;
	bool control_started, control_quit;
	uint64_t control_seen, control_busy_ns;
	/* under control_lock: taken out of queues and not yet dropped; linked by at.queue.next */
	weir_event *purged;
	bool notify;
	/* under control_lock: for retire.c */
	bool stage_taken[WEIR_STAGES_MAX], domain_taken[WEIR_DOMAINS_MAX]; /* indices in use */
	uint32_t stage_uses[WEIR_STAGES_MAX]; /* how often an index has been used */
	uint64_t serials;
	weir_stage *leaving; /* unlisted, not yet freed */
	weir_domain *leaving_domains;
	unsigned retirers; /* threads in weir_stage_retire or weir_domain_retire; a stop waits for them */
	struct weir_monitor *monitor; /* NULL: none */
	pthread_cond_t monitor_done;  /* it is no longer busy */
};

/* ---- gates ---- */

static inline weir_gate *weir_stage_gate(const weir_stage *stage)
{
	return atomic_load_explicit(&stage->gate, memory_order_acquire);
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

/* ---- threads ---- */

/*
 * Worlds, stages and laws of this process that were taken out of use. It grows after they have left the
 * tables and before their memory is freed. If it has changed, what an outside thread remembers may dangle.
 */
extern _Atomic uint64_t weir_things_gone;

/* initial-exec: one instruction, also from within a shared library. */
extern _Thread_local weir_thread *weir_thread_here __attribute__((tls_model("initial-exec")));

/* The running thread, if it belongs to this world. */
static inline weir_thread *weir_thread_in(const weir_world *world)
{
	weir_thread *self = weir_thread_here;
	return self != NULL && self->world == world ? self : NULL;
}

uint64_t weir_sim_now(const struct weir_sim *sim);
/* Called before each handler call in a virtual world. */
void weir_sim_count_call(struct weir_sim *sim);

static inline uint64_t weir_thread_now(weir_thread *self, const weir_world *world)
{
	if (self != NULL && self->clock != NULL)
		return weir_clock_now(self->clock);
	return world->sim != NULL ? weir_sim_now(world->sim) : weir_clock_ns();
}

/* When the thread's current turn should end: that of its stages, or of its loop's callbacks. */
static inline uint64_t weir_thread_turn_end(const weir_thread *self)
{
	uint64_t began = self->run_start_ns;
	if (self->clock != NULL && self->clock->base_ns > began)
		began = self->clock->base_ns;
	return began + self->domain->options.turn_ns;
}

/* The counts of the stage that this thread writes. */
static inline weir_counts *weir_stage_counts(weir_stage *stage, const weir_thread *self)
{
	return atomic_load_explicit(&stage->counts[self != NULL ? self->slot : 0], memory_order_acquire);
}

/* ---- lane.c, stage.c ---- */

/* Takes places: WEIR_ADMITTED, or the reason why nothing was taken. */
weir_verdict weir_lane_take(weir_lane *lane, uint32_t count, uint64_t cost);
void weir_lane_give_back(weir_lane *lane, uint32_t count, uint64_t cost);
/* Recomputes which short ways are open, from the world's and the stage's state. Under control_lock. */
void weir_stage_update_open(weir_stage *stage);
/* Makes every waiting offer of the stage try again. */
void weir_stage_wake_waiters(weir_stage *stage);
/* Puts events that hold places into the lane, and makes sure that its thread comes for them. */
void weir_lane_push(weir_lane *lane, weir_thread *self, weir_event *const *events, size_t count);
/* Makes the lane's thread look at it, because it may now be able to start more. */
void weir_lane_kick(weir_lane *lane, weir_thread *self);
/* Wakes the reactor threads to which this thread has offered something. */
void weir_thread_flush_wakes(weir_thread *self);

/* What a lane hands out at once: events to handle, and events to drop. */
typedef struct weir_batch {
	size_t count, dead;
	weir_event *events[WEIR_BATCH_MAX];
	weir_event *dead_events[WEIR_BATCH_MAX];
	weir_verdict dead_why[WEIR_BATCH_MAX];
} weir_batch;

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
/* Takes out events that waited longer than their law's patience. Owner thread, or under the domain's lock. */
size_t weir_lane_take_stale(weir_lane *lane, uint64_t now_ns, size_t most, weir_event **ret_events);
/* Moves events from the inbox to the queue. The owner thread. */
void weir_lane_absorb(weir_lane *lane);

/* ---- gate.c, pressure.c ---- */

/* For a stage that nobody refers to any more. */
void weir_gates_free(weir_stage *stage);
/* Frees replaced gates that nobody can be using any more. Under control_lock. */
void weir_gates_collect_locked(weir_stage *stage);
/* Applies the settings around the law again. Under control_lock. */
void weir_gate_update_locked(weir_stage *stage);
/* Asks the law about an event's start, as far as it is enforced. */
weir_verdict weir_gate_start(weir_gate *gate, weir_lane *lane, const weir_event *event,
			     const weir_turn *turn);
/* How many of `count` waiting events a law may drop under mode and ceiling; and that it dropped some. */
size_t weir_gate_may_drop(const weir_stage *stage, size_t count);
void weir_gate_dropped(weir_stage *stage, size_t count);
void weir_pressure_init(weir_stage *stage);
weir_verdict weir_pressure_ask(weir_stage *stage, unsigned klass, uint32_t count);
/*
 * Called when an event that entered elsewhere is shed here: reports it to the stage where it entered. The
 * thread of the event's owner.
 */
void weir_pressure_below(const weir_stage *stage, weir_event *event, weir_verdict why, uint64_t now_ns);
/* Called when a handler gives up an event because something further down, perhaps outside, is overloaded. */
void weir_pressure_refused(const weir_stage *stage, weir_event *event, uint64_t now_ns);
/* As weir_stage_press. Under control_lock. */
void weir_pressure_set_locked(weir_stage *stage, weir_presser who, double fraction);
/* Adapts the fractions to be shed; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pressure_tick_locked(weir_stage *stage, uint64_t now_ns);

/* ---- monitor.c ---- */

/* When the monitor is due next; UINT64_MAX: there is none. Under control_lock. */
uint64_t weir_monitor_tick_locked(weir_world *world, uint64_t now_ns);
/* Whether the monitor is due now. Under control_lock. */
bool weir_monitor_is_due(const weir_world *world);
/* Runs the monitor if it is due. The controller, without the lock. */
void weir_monitor_look(weir_world *world);
/* The world is about to be freed before its monitor. */
void weir_monitor_orphan(weir_world *world);

/* ---- dispatch.c ---- */

/* Handles a batch: drops its dead events, calls the handler for the others. Returns the time afterwards. */
uint64_t weir_dispatch(weir_thread *self, weir_lane *lane, weir_batch *batch, uint64_t now_ns);
/* Begins a handler call for one event; the frame is the caller's. */
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

/* Events that a handler forgot to settle: counts a fault of the stage, and drops them. */
void weir_dispatch_leaked(weir_thread *self, weir_lane *lane, weir_frame *frame);

/* Runs the handler for one event that was just admitted to a plain lane. */
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

/* The same for any lane, with measuring and tracing. */
void weir_dispatch_inline(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);
/* Gives up an admitted event: counts it and calls the drop function. */
void weir_dispatch_drop(weir_lane *lane, weir_thread *self, weir_event *event, weir_verdict why,
			uint64_t now_ns);
/* Ends the stay of a HANDLING or HELD event in its stage. The event is FREE afterwards. */
void weir_settle(weir_thread *self, weir_event *event, weir_outcome outcome, uint64_t now_ns);
void weir_stage_fault(weir_stage *stage, weir_fault fault, uint64_t count);
/* Makes an event that was just admitted HELD, as if a handler had begun and held it. */
void weir_dispatch_held(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);

/*
 * For layers above whose work continues in callbacks of a loop (completions), where no handler runs. Between
 * the two calls, offers by this thread count as made by a handler of the stage, unless a handler runs. They
 * continue work that is inside, so a drain lets them through. stage NULL: they pass a drain and count as
 * coming from outside; only for weir_offer_held and weir_reserve. On a world's thread, paired, on one stack.
 */
void weir_inside_enter(weir_stage *stage, weir_frame *frame);
void weir_inside_leave(const weir_frame *frame);

/* ---- offer.c, beyond what offer.h has for the other forms ---- */

/* Forgets why this thread's last offer was shed, because the thread leaves a section (grace.h). */
void weir_offer_forget(void);
/* As weir_offer, but the offerer does the work: an admitted event is HELD at once, on any kind of domain. */
weir_verdict weir_offer_held(weir_stage *stage, weir_event *event);
/* Counts an offer that a bound of the offerer's own refuses; returns the reason. */
weir_verdict weir_offer_refused(weir_stage *stage, weir_event *event, weir_verdict why);
/* As weir_why_shed, without jitter in the retry time. Callers that tell many clients add their own. */
bool weir_why_unspread(weir_why *ret_why);
/* Sets what weir_why_shed says in the drop function that is about to be called. */
void weir_offer_note_drop(weir_lane *lane, weir_thread *self, const weir_event *event, weir_verdict why,
			  uint64_t now_ns);

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
void weir_turn_enter_locked(weir_lane *lane, weir_event *event);
void weir_turn_leave_locked(weir_lane *lane, weir_event *event);
/* A batch was taken to be handled now. all_busy: no thread of the pool is idle. */
void weir_turn_started_locked(weir_domain *domain, weir_event *const *events, size_t count, bool all_busy,
			      uint64_t now_ns);
/* Tells a law what waits before the offer, in all stages of the pool. Any thread. */
void weir_turn_ask(const weir_lane *lane, weir_ask *ask);

/* ---- pool_load.c ---- */

/* Measures the load offered to a pool; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pool_load_tick_locked(weir_domain *domain, uint64_t now_ns);
/* Puts that load into a law's sample. Under control_lock. */
void weir_pool_load_tell(const weir_stage *stage, weir_sample *sample);

/* ---- reactor.c, elastic.c, control.c, drain.c, sim.c ---- */

int weir_reactor_start(weir_domain *domain);
void weir_reactor_join(weir_domain *domain);
/* Runs what is ready on this thread for at most turn_ns; true: there is more. */
bool weir_reactor_run(weir_thread *self);

int weir_elastic_start(weir_domain *domain);
/* Tells the threads to end and waits for them; false: the time was up first. It can be called again. */
bool weir_elastic_join(weir_domain *domain, uint64_t until_ns);
void weir_elastic_push(weir_lane *lane, weir_event *const *events, size_t count);
void weir_elastic_kick(weir_domain *domain);
/* The lane of the domain whose turn it is (turn.c); NULL: none can start anything. Under lock. */
weir_lane *weir_elastic_pick_locked(weir_domain *domain, uint64_t now_ns);
/* A handler call (virtual: an event's stay) begins; or one that began at began_ns ends. */
void weir_elastic_begin_locked(weir_domain *domain, uint64_t now_ns);
void weir_elastic_end_locked(weir_domain *domain, uint64_t began_ns, uint64_t now_ns);
void weir_elastic_sample_locked(weir_domain *domain, uint64_t now_ns, weir_pool_sample *ret_sample);
/* Resizes the pool to `threads`, as far as that is possible now. */
void weir_elastic_resize(weir_domain *domain, uint32_t threads);

int weir_control_start(weir_world *world);
void weir_control_stop(weir_world *world);
void weir_control_resume(weir_world *world);
/* Makes the controller look at once, even if it is paused. Under control_lock. */
void weir_control_wake_locked(weir_world *world);
/* Starts the stage's next sample at this moment. Under control_lock. */
void weir_control_begin_locked(weir_stage *stage, bool quantiles);
/* Runs the laws that are due; returns when the next one is, UINT64_MAX: never. Under control_lock. */
uint64_t weir_control_tick(weir_world *world, uint64_t now_ns);
/* Whether a tick has left callbacks to call, under control_lock; and calling them, without it. */
bool weir_control_has_calls(const weir_world *world);
void weir_control_calls(weir_world *world);

/* The controller ticks only while there is work. Whoever brings work calls this. */
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

/* Events in flight in all stages. 0 is exact (see drain.c), other numbers are approximate. */
uint64_t weir_world_in_flight(weir_world *world);
uint64_t weir_stage_in_flight(weir_stage *stage);
/* Sleeps, a little longer each time, from *nap_ns up to 1 ms; false: the time is up. */
bool weir_nap(uint64_t *nap_ns, uint64_t until_ns);
/* Whether the stage's invariants hold. Exact only while nothing is offered to it. */
bool weir_stage_check(const weir_stage *stage);
/* The stage of a trace entry; "(retired)" if it is gone. Within a section (grace.h). */
const char *weir_trace_stage(const weir_world *world, const weir_trace_entry *entry);

int weir_sim_new(uint64_t seed, struct weir_sim **ret_sim);
void weir_sim_free(struct weir_sim *sim);
int weir_sim_start(weir_world *world);
/* Runs while busy returns true, or until the clock is at until_ns. */
void weir_sim_drain(weir_world *world, uint64_t until_ns, bool (*busy)(void *arg), void *arg);
/* Virtual: starts what the domain's idle threads can take. */
void weir_sim_touch(weir_domain *domain);

/* The stage's lane of this reactor thread; NULL: another thread runs it. */
static inline weir_lane *weir_stage_lane(weir_stage *stage, const weir_thread *self)
{
	weir_lane *lane = &stage->lanes[stage->lane_count == 1 ? 0 : self->index];
	return lane->thread == self ? lane : NULL;
}

/* Sets the world's phase and updates all stages. */
void weir_world_set_phase(weir_world *world, weir_phase phase);
/* Makes every stage look at the phase and the tracing again. Under control_lock. */
void weir_world_update_stages(weir_world *world);
int weir_stage_add_counts(weir_stage *stage);
void weir_stage_free(weir_stage *stage);
void weir_domain_free(weir_domain *domain);
/* Refuses threads of the world and its controller: the call would wait for them. what: as in "stop". */
int weir_world_check_thread(weir_world *world, const char *what);

/* The world's stage by index; NULL: none has it now. Within a section (grace.h), or under control_lock. */
static inline weir_stage *weir_world_stage(const weir_world *world, uint32_t index)
{
	return atomic_load_explicit(&world->stages[index], memory_order_acquire);
}

/* The same for a domain. */
static inline weir_domain *weir_world_domain(const weir_world *world, uint32_t index)
{
	return atomic_load_explicit(&world->domains[index], memory_order_acquire);
}

/*
 * An event remembers where it entered by the stage's mark: index + 1 in the low bits, above them how often
 * the index had been used. So a stage is not told of events that entered at an earlier one with its index.
 */
#define WEIR_MARK_INDEX(mark)  (((mark)&0x1ff) - 1u)
#define WEIR_MARK(index, uses) ((uint16_t)((index) + 1u + ((uses)&0x7fu) * 0x200u))
_Static_assert(WEIR_STAGES_MAX < 0x200, "a mark has nine bits for index + 1");

#endif
