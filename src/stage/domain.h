/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_DOMAIN_H
#define WEIR_STAGE_DOMAIN_H

/*
 * A domain and its threads: reactor threads with their loops, or a pool.
 *
 * Threads: grouped by who may touch a field. Domains are found in the world's table within a section
 * (grace.h), or under control_lock.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/loop.h>
#include <weir/stage.h>

#include "base/clock.h"
#include "control/backlog.h"
#include "control/degrade.h"
#include "stage/friends.h"
#include "stage/lane.h"

#define WEIR_READY_WORDS (WEIR_STAGES_MAX / 64)

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
	_Atomic bool computing; /* the process uses the cores, as of late; any thread */
	double cores_used;      /* the part of them; the controller */
	_Atomic bool disturbed; /* something has failed since the last start; any thread */
	/* the controller */
	weir_pool_load load;
	void *pool_state;
	uint64_t pool_at_ns, pool_last_ns, last_started, last_arrived, last_busy_ns;
	uint64_t last_ended, last_ended_ns, last_usual_ns, last_cpu_ns;
};

/* initial-exec: one instruction, also from within a shared library. */
extern _Thread_local weir_thread *weir_thread_here __attribute__((tls_model("initial-exec")));
/* The name of this thread in top -H and in debuggers: as much as fits. */
void weir_thread_call(const char *name);
/*
 * Asks the scheduler for short turns, for a thread that runs briefly and often. Otherwise it waits for the end of a
 * turn each time it wakes, where threads that compute share its core. Its share of the core stays the same. Linux
 * before 6.12 takes no notice.
 */
void weir_thread_be_brief(void);

/* When the thread's current turn should end: that of its stages, or of its loop's callbacks. */
static inline uint64_t weir_thread_turn_end(const weir_thread *self)
{
	uint64_t began = self->run_start_ns;
	if (self->clock != NULL && self->clock->base_ns > began)
		began = self->clock->base_ns;
	return began + self->domain->options.turn_ns;
}

/* ---- domain.c, lane.c, reactor.c ---- */

void weir_domain_free(weir_domain *domain);
/* Wakes the reactor threads to which this thread has offered something. */
void weir_thread_flush_wakes(weir_thread *self);
int weir_reactor_start(weir_domain *domain);
void weir_reactor_join(weir_domain *domain);
/* Runs what is ready on this thread for at most turn_ns; true: there is more. */
bool weir_reactor_run(weir_thread *self);

/* ---- elastic.c ---- */

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

/* ---- turn.c: what a pool knows of what waits in its stages ---- */

void weir_turn_enter_locked(weir_lane *lane, weir_event *event);
void weir_turn_leave_locked(weir_lane *lane, weir_event *event);
/* A batch was taken to be handled now. all_busy: no thread of the pool is idle. */
void weir_turn_started_locked(weir_domain *domain, weir_event *const *events, size_t count, bool all_busy,
			      uint64_t now_ns);
/* Tells a law what waits before the offer, in all stages of the pool. Any thread. */

/* ---- pool_load.c ---- */

/* Measures the load offered to a pool; returns when to come again, UINT64_MAX: never. Under control_lock. */
uint64_t weir_pool_load_tick_locked(weir_domain *domain, uint64_t now_ns);
/* Puts that load into a law's sample. Under control_lock. */
void weir_pool_load_tell(const weir_stage *stage, weir_sample *sample);

#endif
