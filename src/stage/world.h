/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_WORLD_H
#define WEIR_STAGE_WORLD_H

/*
 * The world: its tables of domains and stages, its controller, and how it starts, is drained and stops.
 *
 * Locks are taken in this order: world->control_lock, a domain->lock, a stage->wait_lock. No lock is held
 * while a handler, drop function or timer runs.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/inspect.h>

#include "stage/domain.h"
#include "stage/grace.h"
#include "stage/stage.h"
#include "stage/trace.h"

typedef enum weir_phase {
	WEIR_PHASE_NEW,
	WEIR_PHASE_RUNNING,
	WEIR_PHASE_DRAINING,
	WEIR_PHASE_STOPPED
} weir_phase;

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
	uint64_t control_seen, control_busy_ns, control_look_ns;
	/* under control_lock: taken out of queues and not yet dropped; linked by at.queue.next */
	weir_event *purged;
	bool notify;
	bool chores_due; /* under control_lock: every.c */
	bool restless;   /* const: no stage rests (rest.c); tests compare */
	/* under control_lock: for retire.c */
	bool stage_taken[WEIR_STAGES_MAX], domain_taken[WEIR_DOMAINS_MAX]; /* indices in use */
	uint32_t stage_uses[WEIR_STAGES_MAX]; /* how often an index has been used */
	uint64_t serials;
	weir_stage *leaving; /* unlisted, not yet freed */
	weir_domain *leaving_domains;
	unsigned gates_retired; /* replaced, not yet freed, of all stages in the table */
	unsigned retirers; /* threads in weir_stage_retire or weir_domain_retire; a stop waits for them */
	struct weir_monitor *monitor; /* NULL: none */
	pthread_cond_t monitor_done;  /* it is no longer busy */
};

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
 * Worlds, stages and laws of this process that were taken out of use. It grows after they have left the
 * tables and before their memory is freed. If it has changed, what an outside thread remembers may dangle.
 */
extern _Atomic uint64_t weir_things_gone;

/* The running thread, if it belongs to this world. */
static inline weir_thread *weir_thread_in(const weir_world *world)
{
	weir_thread *self = weir_thread_here;
	return self != NULL && self->world == world ? self : NULL;
}

uint64_t weir_sim_now(const struct weir_sim *sim);
/* Called before each handler call in a virtual world. */
void weir_sim_count_call(struct weir_sim *sim);

/* Counts a handler call that an offer may be about to make, as above; returns the time. */
uint64_t weir_sim_count_offer(struct weir_sim *sim);

static inline uint64_t weir_thread_now(weir_thread *self, const weir_world *world)
{
	if (self != NULL && self->clock != NULL)
		return weir_clock_now(self->clock);
	return world->sim != NULL ? weir_sim_now(world->sim) : weir_clock_ns();
}

/* The counts of the stage that this thread writes. */
static inline weir_counts *weir_stage_counts(weir_stage *stage, const weir_thread *self)
{
	return atomic_load_explicit(&stage->counts[self != NULL ? self->slot : 0], memory_order_acquire);
}

/* The stage's lane of this reactor thread; NULL: another thread runs it. */
static inline weir_lane *weir_stage_lane(weir_stage *stage, const weir_thread *self)
{
	weir_lane *lane = &stage->lanes[stage->lane_count == 1 ? 0 : self->index];
	return lane->thread == self ? lane : NULL;
}

/* ---- world.c, drain.c ---- */

/* Sets the world's phase and updates all stages. */
void weir_world_set_phase(weir_world *world, weir_phase phase);
/* Makes every stage look at the phase and the tracing again. Under control_lock. */
void weir_world_update_stages(weir_world *world);
/* Refuses threads of the world and its controller: the call would wait for them. what: as in "stop". */
int weir_world_check_thread(weir_world *world, const char *what);
/* Events in flight in all stages. 0 is exact (see drain.c), other numbers are approximate. */
uint64_t weir_world_in_flight(weir_world *world);
/* Sleeps, a little longer each time, from *nap_ns up to 1 ms; false: the time is up. */
bool weir_nap(uint64_t *nap_ns, uint64_t until_ns);

/* ---- tick.c ---- */

/* Runs the laws of the domain or the stage that are due; returns when the next one is, UINT64_MAX: never. */
uint64_t weir_tick_domain_locked(weir_domain *domain, uint64_t now_ns);
uint64_t weir_tick_stage_locked(weir_stage *stage, uint64_t now_ns);
/* Starts the stage's next sample at this moment. Under control_lock. */
void weir_tick_begin_locked(weir_stage *stage, bool quantiles);
/* What a class has counted since the start, as a sample. */
void weir_tick_sum(weir_stage *stage, unsigned klass, weir_class_sample *ret_total);

/* ---- control.c ---- */

int weir_control_start(weir_world *world);
void weir_control_stop(weir_world *world);
void weir_control_resume(weir_world *world);
/* Makes the controller look at once, even if it is paused. Under control_lock. */
void weir_control_wake_locked(weir_world *world);
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

/* ---- monitor.c ---- */

/* When the monitor is due next; UINT64_MAX: there is none. Under control_lock. */
uint64_t weir_monitor_tick_locked(weir_world *world, uint64_t now_ns);
/* Whether the monitor is due now. Under control_lock. */
bool weir_monitor_is_due(const weir_world *world);
/* Runs the monitor if it is due. The controller, without the lock. */
void weir_monitor_look(weir_world *world);
/* The world is about to be freed before its monitor. */
void weir_monitor_orphan(weir_world *world);

/* ---- sim.c ---- */

int weir_sim_new(uint64_t seed, struct weir_sim **ret_sim);
void weir_sim_free(struct weir_sim *sim);
int weir_sim_start(weir_world *world);
/* Runs while busy returns true, or until the clock is at until_ns. */
void weir_sim_drain(weir_world *world, uint64_t until_ns, bool (*busy)(void *arg), void *arg);
/* Virtual: starts what the domain's idle threads can take. */
void weir_sim_touch(weir_domain *domain);

#endif
