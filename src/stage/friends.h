/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_FRIENDS_H
#define WEIR_STAGE_FRIENDS_H

/*
 * What the layers above need of the runtime beyond include/weir: for code of this library that does a stage's
 * work in callbacks of a loop, answers from other threads, or makes an event per request. It is the only
 * header of src/stage that other folders include (tools/check-layers); the runtime's own are behind
 * runtime.h.
 *
 * Threads: as each part says. Ownership: as in weir/stage.h.
 */

#include <weir/inspect.h>
#include <weir/stage.h>

/* ---- events: for whoever owns one ---- */

#define WEIR_EVENT_MAGIC 0x7e1d

/* Accessed atomically, since `cancelled` is next to it and any thread may set that. */
enum weir_event_state {
	WEIR_EVENT_FREE = 1,
	WEIR_EVENT_QUEUED,
	WEIR_EVENT_HANDLING,
	WEIR_EVENT_HELD,
	WEIR_EVENT_CHOSEN, /* being checked in an offer of many; finds duplicates */
};

static inline enum weir_event_state weir_event_state(const weir_event *event)
{
	return (enum weir_event_state)__atomic_load_n(&event->state, __ATOMIC_RELAXED);
}

/* As weir_event_init, without a call, of memory that is zero: one is made for each request. */
static inline void weir_event_make(weir_event *event, unsigned klass)
{
	event->magic = WEIR_EVENT_MAGIC;
	event->state = WEIR_EVENT_FREE;
	event->klass = klass < WEIR_CLASSES ? (uint8_t)klass : UINT8_MAX;
	event->home = WEIR_ANYWHERE;
}

/* The stage that has the event; it has been admitted and not settled. */
weir_stage *weir_event_stage(const weir_event *event);

/* ---- reading, any thread ---- */

/* The law's report on the highest class whose target cannot be met; false: there is none. */
bool weir_stage_out_of_reach(const weir_stage *stage, weir_report *ret_report);

/* ---- offers, any thread ---- */

/*
 * As weir_offer, for an event whose cost is not known yet: price sets it, and perhaps GUESSED, on this thread. It is
 * called before the law is asked or, if the law ignores costs, only if that admits the event.
 */
weir_verdict weir_offer_priced(weir_stage *stage, weir_event *event, void (*price)(weir_event *event));
/* As weir_offer, but the offerer does the work: an admitted event is HELD at once, on any kind of domain. */
weir_verdict weir_offer_held(weir_stage *stage, weir_event *event);
/* Counts an offer that a bound of the offerer's own refuses; returns the reason. */
weir_verdict weir_offer_refused(weir_stage *stage, weir_event *event, weir_verdict why);
/* Events that wait in the stage's queue, as far as it belongs to the calling thread, and how many may. */
uint32_t weir_stage_waits_here(const weir_stage *stage, uint32_t *ret_capacity);
/* As weir_why_shed, without jitter in the retry time. Callers that tell many clients add their own. */
bool weir_why_unspread(weir_why *ret_why);

/* ---- work in callbacks of a loop, on a thread of the world ---- */

/* A handler call under way, or what stands for one. It lives on the thread's stack. */
typedef struct weir_frame {
	struct weir_frame *outer;
	weir_stage *stage; /* whose handler; NULL: none, see weir_inside_enter */
	unsigned origin;   /* of offers made meanwhile, for the graph: stage index + 1; 0: outside */
	weir_event **own;  /* the runtime's copy of the batch; NULL where settled */
	size_t count, unsettled;
} weir_frame;

/*
 * For work that continues in callbacks of a loop (completions), where no handler runs. Between the two calls,
 * offers by this thread count as made by a handler of the stage, unless a handler runs. They continue work
 * that is inside, so a drain lets them through. stage NULL: they pass a drain and count as coming from
 * outside; only for weir_offer_held and weir_reserve. Paired, on one stack.
 */
void weir_inside_enter(weir_stage *stage, weir_frame *frame);
void weir_inside_leave(const weir_frame *frame);

/* The number of the calling thread among the reactor threads of the world, from 1; 0: it is none of them. */
unsigned weir_world_slot(const weir_world *world);

/* ---- visits, any thread ---- */

/*
 * While a thread visits a world, no stop of it ends, and nothing is freed that the thread finds in its tables
 * (grace.h). A thread of the world is inside anyway, and a visit of it does nothing.
 */
typedef struct weir_visit {
	weir_world *world;
	const struct weir_thread *self;
	unsigned side;
} weir_visit;

weir_visit weir_visit_begin(weir_world *world);
void weir_visit_end(const weir_visit *visit);

/* The exact time: by the clock of the calling thread, not that of its turn as weir_world_now. */
uint64_t weir_world_exact_ns(const weir_world *world);
/* A virtual world (weir/sim.h). */
bool weir_world_is_virtual(const weir_world *world);
/* Its threads end or have ended, so nothing will run any more. */
bool weir_world_has_stopped(const weir_world *world);

/*
 * How many of a class's events took at most each of these times, in ns and ascending (to 3 %); returns how
 * many were measured in all. *ret_sum_ns: the sum of their times.
 */
uint64_t weir_stage_at_most(const weir_stage *stage, unsigned klass, weir_measure measure,
			    const uint64_t *bounds_ns, unsigned count, uint64_t *ret_counts,
			    double *ret_sum_ns);

/* ---- models of what a loop would call: virtual worlds, the only thread ---- */

/*
 * Plays a thread of a reactor domain: a request that arrives on a connection, an answer from a backend.
 * Between enter and leave an offer runs at once, and takes the short way, whenever it would on that thread.
 * Calls nest; each enter has its leave. Returns the thread played before, for weir_sim_leave.
 */
struct weir_thread *weir_sim_enter(weir_domain *domain, uint32_t thread);
void weir_sim_leave(struct weir_thread *before);

#endif
