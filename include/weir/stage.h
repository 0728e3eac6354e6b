/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_H
#define WEIR_STAGE_H

/*
 * The runtime: a world holds domains (threads), domains run stages (queue + handler + admission), and
 * events are offered to stages.
 *
 *	weir_world_new → weir_domain_new → weir_stage_new ... → weir_world_start
 *	weir_offer ...                                            (any thread, any time after start)
 *	weir_stage_retire → weir_domain_retire                    (what is not needed any more)
 *	weir_world_stop → weir_world_free
 *
 * Domains. A reactor domain has a fixed number of threads, each with an event loop (weir/loop.h). Each
 * thread has its own part of every stage's queue, and an event stays on its home thread. Handlers there
 * must not block. An elastic domain has a pool that grows and shrinks; its handlers may block.
 *
 * Offers. Every offer passes admission and is counted, whether the handler then runs at once (same
 * reactor thread, nothing waiting, within the budgets of depth and time) or the event is queued.
 *
 * Invariants, per stage and class, checked at shutdown, when a stage is retired, and by weir_world_check:
 *	offered  = admitted + shed
 *	admitted = completed + failed + dropped + in flight
 *
 * Threads: worlds, domains and stages are made, started, stopped and freed by one thread. Stages and
 * elastic domains may also be added and retired while the world runs, and stages be closed; several threads
 * may retire different ones at once. Offers may come from any thread; done, fail and hold from whoever owns
 * the event. Handlers of a stage run on several threads at once, unless it is single.
 */

#include <weir/event.h>
#include <weir/law.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At one time; what has been retired does not count. */
#define WEIR_STAGES_MAX  1984
#define WEIR_DOMAINS_MAX 64
#define WEIR_THREADS_MAX 64 /* reactor threads in a world */
#define WEIR_BATCH_MAX   256

/* ---- the world ---- */

typedef struct weir_world_options {
	bool simulated;         /* a virtual world: see weir/sim.h */
	uint64_t seed;          /* of all random numbers in it; 0: from the system (simulated: 1) */
	uint32_t trace_entries; /* size of the trace ring; 0: 4096 */
	/*
	 * Called by the thread that runs the ticks, with what an operator should know, once each time it
	 * becomes true. The library itself logs nothing.
	 */
	void (*notice)(const char *text, void *arg);
	void *notice_arg;
} weir_world_options;

/* The result of a stop. Names point into the world and live until it is freed. */
typedef struct weir_stop_report {
	uint64_t drained;    /* events settled between the call and the end */
	uint64_t undrained;  /* events still inside when the time was up; those waiting are dropped */
	const char *stuck;   /* a stage that still held some; NULL: none */
	uint64_t unbalanced; /* stages whose counts do not add up */
	uint64_t faults;     /* of all stages */
} weir_stop_report;

/* Makes an empty world; NULL options are the defaults. */
WEIR_API int weir_world_new(const weir_world_options *options, weir_world **ret_world);
/* Starts the threads of all domains. */
WEIR_API int weir_world_start(weir_world *world);
/*
 * Drains and stops. From now on new events are shed as "stopping". Events already inside, and those that
 * handlers make of them, run to their end, for at most timeout_ns. Then the threads end, and events that
 * still wait go to the drop functions. Returns 0; -ETIMEDOUT if something did not drain; -EPROTO if the
 * counts do not add up. ret_report may be NULL. Must not be called from a handler, drop function or
 * notice.
 */
WEIR_API int weir_world_stop(weir_world *world, uint64_t timeout_ns, weir_stop_report *ret_report);
/*
 * Frees a world that never started or has stopped. A running world is stopped first, without a grace
 * period. Sets *world to NULL.
 */
WEIR_API void weir_world_free(weir_world **world);
/*
 * The time in this world. The world's own threads read the clock once per turn; other threads read it at
 * each call.
 */
WEIR_API uint64_t weir_world_now(const weir_world *world);
/* Returns the number of stages whose invariants do not hold. Exact only while nothing is being offered. */
WEIR_API size_t weir_world_check(const weir_world *world);

/* ---- domains ---- */

typedef enum weir_domain_kind { WEIR_REACTOR, WEIR_ELASTIC } weir_domain_kind;

typedef struct weir_domain_options {
	const char *name; /* copied; required, unique in the world */
	weir_domain_kind kind;
	/* reactor */
	uint32_t threads;      /* 0: one per core that this process may use */
	bool pin;              /* each thread to its core */
	uint32_t inline_depth; /* nesting depth of offers that run at once, at most 256; 0: 16 */
	uint64_t turn_ns;      /* how long stages may run before I/O and timers get a turn; 0: 200 us */
	/* elastic */
	uint32_t min_threads;      /* 0: 1 */
	uint32_t max_threads;      /* 0: 64, or min_threads if that is more */
	const weir_pool_law *pool; /* NULL: weir_pool_prompt */
	uint32_t cores; /* cores that its handlers share, for the pool law; 0: those this process may use */
	/*
	 * Added to the nice value of its threads, at most 19; it cannot be taken back. Where cores are short,
	 * handlers that compute for long then leave them to reactors, so nobody waits for a rejection.
	 */
	uint32_t nice;
	/*
	 * both: a class gets a turn at least once per this many of its targets, however many events of
	 * higher classes wait; 0: 10
	 */
	uint32_t turn_targets;
	/*
	 * elastic: called by each thread of the pool before its first handler call and after its last, for
	 * what it needs for itself (a database connection); handlers get what thread_start returned from
	 * weir_thread_state. They may block. A virtual pool has one thread in this sense. NULL: nothing is
	 * called.
	 */
	void *(*thread_start)(void *arg);
	void (*thread_end)(void *arg, void *state);
	void *thread_arg; /* for both */
} weir_domain_options;

/* Elastic domains can be made while the world runs too; then their threads start at once. */
WEIR_API int weir_domain_new(weir_world *world, const weir_domain_options *options, weir_domain **ret_domain);
/*
 * Ends an elastic domain that has no stages any more (but for those of weir_every, which end with it): its
 * threads end (thread_end is called on each), it is freed, and its name can be used again. Waits for at most
 * timeout_ns. 0, and *domain is NULL; otherwise it is still there: -ETIMEDOUT: a thread has not ended, or a
 * handler elsewhere may still look at the domain; nothing runs in it any more, call again. -EBUSY: it has
 * stages, which are retired first. -ENOTSUP: a reactor domain; these end with the world. -EALREADY, -EDEADLK,
 * -ESHUTDOWN as for weir_stage_retire. NULL is left alone.
 */
WEIR_API int weir_domain_retire(weir_domain **domain, uint64_t timeout_ns);
/* Threads it has now. */
WEIR_API uint32_t weir_domain_threads(const weir_domain *domain);
/* The name that it was made with. */
WEIR_API const char *weir_domain_name(const weir_domain *domain);
/* The world that it belongs to. */
WEIR_API weir_world *weir_domain_world(const weir_domain *domain);
/* A reactor domain, with loops; otherwise it is elastic. */
WEIR_API bool weir_domain_is_reactor(const weir_domain *domain);
/* The loop of a reactor domain's thread; NULL: the domain is elastic, or has no such thread. */
WEIR_API weir_loop *weir_domain_loop(const weir_domain *domain, uint32_t thread);
/* The number of the calling thread in its reactor domain; WEIR_ANYWHERE on other threads. */
WEIR_API uint16_t weir_thread_home(void);
/* What thread_start returned on the pool thread that calls; NULL elsewhere. */
WEIR_API void *weir_thread_state(void);

/* ---- stages ---- */

/*
 * A bound that stages share. Of all events of all stages made with it, on all threads, at most this many
 * are started and not settled. The others wait in their stages' queues, and their threads take turns. The
 * bound is exact, with one exception: an event offered with weir_offer_held, whose work has already
 * begun, is counted but never refused. The price is a few contended writes per event, and events never
 * take the short path.
 */
typedef struct weir_bound weir_bound;

/* -EINVAL: most is 0; -ENOMEM. */
WEIR_API int weir_bound_new(uint32_t most, weir_bound **ret_bound);
/* After its stages have been retired, or their world has stopped. Sets it to NULL. */
WEIR_API void weir_bound_free(weir_bound **bound);
/*
 * Changes the bound at any time, by any thread; 0 is taken as 1. If it is lowered, events already inside
 * continue.
 */
WEIR_API void weir_bound_set(weir_bound *bound, uint32_t most);
/* The bound that is in force. */
WEIR_API uint32_t weir_bound_most(const weir_bound *bound);
/* Places in use, or on their way to an event that waits for one. */
WEIR_API uint32_t weir_bound_inside(const weir_bound *bound);

typedef enum weir_order {
	WEIR_FIFO,        /* FIFO, but by class if the stage's law has by_class */
	WEIR_BY_CLASS,    /* highest class first, FIFO within a class */
	WEIR_SHORTEST,    /* smallest cost first */
	WEIR_NEWEST_LATE, /* FIFO; newest first while the oldest has waited longer than newest_after_ns */
} weir_order;

/* Handles count events and must settle all of them. A settled event must not be used again. */
typedef void weir_handler(weir_stage *stage, weir_event **events, size_t count, void *arg);
/*
 * Takes back an admitted event that will not be handled; it is FREE again. Runs on a thread of the
 * domain, or on the thread that stops the world.
 */
typedef void weir_dropper(weir_stage *stage, weir_event *event, weir_verdict why, void *arg);

typedef struct weir_stage_options {
	const char *name;       /* copied; required, unique in the world */
	weir_handler *handle;   /* required */
	weir_dropper *drop;     /* required: admitted events can always be dropped (deadline, stop) */
	void *arg;              /* for both */
	uint32_t capacity;      /* events that may wait; required; divided evenly among a reactor's threads */
	uint64_t cost_capacity; /* sum of the costs of waiting events; 0: no bound */
	weir_order order;
	uint64_t newest_after_ns; /* for WEIR_NEWEST_LATE; 0: 100 ms */
	bool single;              /* one handler call at a time, in a reactor always on the same thread */
	bool no_inline;           /* always queue */
	uint32_t concurrency;     /* events started but not settled; 0: no bound; divided like capacity */
	/*
	 * A concurrency bound over all threads and all stages that share it; reactor domains only; NULL:
	 * none.
	 */
	weir_bound *bound;
	uint32_t batch;                      /* events per handler call, at most; 0: 32, in a pool 1 */
	const weir_batch_law *batch_law;     /* adapts the batch within [1, batch]; NULL: fixed at batch */
	const weir_admission_law *admission; /* NULL: only the bounds above */
	const void *admission_params;
	/*
	 * Requests enter the system at this stage. When later stages shed what this one admitted, or
	 * handlers settle it with weir_refused, this stage admits less of that class, so that no work is
	 * wasted. This goes by the event's entry: the stage that first admitted it.
	 */
	bool heed_downstream;
} weir_stage_options;

/* Makes a stage, before the world starts or while it runs. -EINVAL, -EEXIST ... with weir_error. */
WEIR_API int weir_stage_new(weir_domain *domain, const weir_stage_options *options, weir_stage **ret_stage);
/* Sheds all further offers ("closed"); waiting events are still handled. */
WEIR_API void weir_stage_close(weir_stage *stage);

/* What a retirement found. */
typedef struct weir_retire_report {
	uint64_t inside; /* events that are still in it: the time was up */
	uint64_t faults; /* that it has counted, of all kinds; once it is freed */
} weir_retire_report;

/*
 * Ends a stage while the world runs. From now on its offers are shed as "stopping", also those made by handlers.
 * Events inside run to their end. Then the stage leaves the tables (counts, dump, graph, monitor, pool, bound), its
 * counts are checked, and it is freed. Its number and its name can be used again.
 *
 * Waits for at most timeout_ns. With 0 it only looks, for callers that have a loop of their own and call again.
 *
 *	0            the stage is freed; *stage is NULL
 *	-EPROTO      the same, but its counts did not add up
 *	-ETIMEDOUT   not yet: events or tickets are in it, or a handler that may still use it has not returned.
 *	             The stage takes nothing any more. Call again to go on; otherwise the world frees it.
 *	-EALREADY    another thread is in this call for the same stage
 *	-EDEADLK     called by a thread of the world, by a drop function or by a notice
 *	-ESHUTDOWN   the world is stopping or has stopped, and frees the stage
 *
 * What the caller guarantees: before the call, it has changed everything that leads to the stage. From then on
 * nobody gets hold of the stage anew. Handlers, callbacks and posts on the world's threads that are running may use
 * it until they return; the call waits for them. It also waits for calls that other threads have begun, but such
 * threads must not begin another one with this stage. It does not know of pointers that are kept for later, as the
 * route of a request that is still being read: they must be gone before the call.
 *
 * When the stage is freed, nobody uses the argument of its handler and drop function any more.
 *
 * In a virtual world, time passes during the call, as in weir_world_stop. A NULL stage is left alone. ret_report
 * may be NULL.
 */
WEIR_API int weir_stage_retire(weir_stage **stage, uint64_t timeout_ns, weir_retire_report *ret_report);
/*
 * Replaces the admission law while the stage runs; NULL law: only the bounds. The same law with other
 * parameters goes on with what it has learnt. No event is lost: those inside go on, and the new law is not
 * told of them. The old one is freed when every handler, and every call that may be asking it, has
 * returned.
 */
WEIR_API int weir_stage_admission(weir_stage *stage, const weir_admission_law *law, const void *params);
/* The name that it was made with. */
WEIR_API const char *weir_stage_name(const weir_stage *stage);
/* The domain whose threads run it. */
WEIR_API weir_domain *weir_stage_domain(const weir_stage *stage);

/* ---- periodic work ---- */

typedef struct weir_every_options {
	const char *name;       /* of its stage: copied; required, unique in the world */
	uint64_t every_ns;      /* from one begin to the next, at least 1 ms */
	void (*run)(void *arg); /* required; on a pool's thread it may block */
	void *arg;
} weir_every_options;

/*
 * Runs a function again and again on a thread of the domain, for the first time every_ns from now, or from
 * the start of the world. In a reactor domain that is always its first thread.
 *
 * There are never two runs at once. A run that falls due while the last one waits or runs is left out, and a
 * run that comes late does not make the next ones come sooner. The work is a stage: its runs are handler
 * calls, so they are counted and measured (weir/inspect.h), and wait for a thread as other events do. An
 * event that you offer to the stage is one more run.
 *
 * It ends with weir_stage_retire, with weir_domain_retire (which frees this stage too), or with the world:
 * once a stop has begun, no run falls due any more, and the stop waits for the one that has. When the stage
 * is freed, nobody uses arg any more. Returns 0, -EINVAL with weir_error, or as weir_stage_new.
 */
WEIR_API int weir_every(weir_domain *domain, const weir_every_options *options, weir_stage **ret_stage);

/* ---- overload control: a stage's view of its law, any thread ---- */

typedef enum weir_admission_mode {
	WEIR_ENFORCE,
	WEIR_DRY_RUN,   /* the law's refusals are counted ("spared"), but everything is admitted */
	WEIR_ADMIT_ALL, /* the law is not asked; it sees starts and ends, so that it continues to measure */
} weir_admission_mode;

/*
 * Switches admission control and leaves the law and its state in place. The queue's bounds apply in every
 * mode.
 */
WEIR_API void weir_stage_mode(weir_stage *stage, weir_admission_mode mode);
/*
 * Law and pressure together may shed at most this fraction of what they are asked about, in the long run;
 * 1: no ceiling. The queue's bounds still apply.
 */
WEIR_API int weir_stage_shed_ceiling(weir_stage *stage, double fraction);
/* What the law reports about itself and the class; false: the stage has no law. */
WEIR_API bool weir_stage_report(const weir_stage *stage, unsigned klass, weir_report *ret_report);
/*
 * The quality that a stage that can degrade should deliver to the class, from 1 (the best) towards 0 (the
 * cheapest). This is cheap enough to call for each event.
 */
WEIR_API double weir_stage_quality(const weir_stage *stage, unsigned klass);
/*
 * Whether times measured now are free of queueing: the law sees no sign of saturation or, without a law
 * that can tell, nothing waits in the stage's queues. Any thread.
 */
WEIR_API bool weir_stage_calm(const weir_stage *stage);
/*
 * The response time that is promised to each class; 0: as the class above, and for class 0: nothing is
 * promised any more. Events that complete later are counted (weir_stage_stats.late), whatever the law. A law
 * whose target can change holds these times from now on, with all that it has learnt. -ENOTSUP: the law's
 * target stays as it is, and the events are counted all the same. A law that is installed later begins with
 * the target of its parameters: promise again.
 */
WEIR_API int weir_stage_promise(weir_stage *stage, const uint64_t promise_ns[WEIR_CLASSES]);
/*
 * Gives the law what the servers behind the stage report. Numbers that are not finite, negative ones but for
 * "unknown" and absurd ones are refused with -EINVAL, and the law does not see them. -ENOTSUP: the law does not
 * use reports.
 */
WEIR_API int weir_stage_tell(weir_stage *stage, const weir_told *told);
/*
 * Writes what the law has learnt as one line of text; returns its length, as snprintf does. -ENOTSUP: the
 * law learns nothing.
 */
WEIR_API int weir_stage_save(const weir_stage *stage, char *text, size_t size);
/*
 * Restarts the current law with what the same law once saved. -EINVAL: the text is not valid; nothing has
 * changed.
 */
WEIR_API int weir_stage_load(weir_stage *stage, const char *text);
/*
 * Asks the stage to shed this fraction of its offers (0 to 1), lowest class first, because a resource
 * runs short. Stays in force until the next call. The resource monitor does the same for stages that
 * subscribe (weir/monitor.h); the larger fraction applies.
 */
WEIR_API void weir_stage_press(weir_stage *stage, double fraction);

/* Places currently taken in all its queues: waiting events, and places that tickets hold. */
WEIR_API uint32_t weir_stage_waiting(const weir_stage *stage);

/* ---- offers ---- */

/* Offers one event. Admitted: the stage owns it, and may already have handled it. Shed: it is still yours. */
WEIR_API weir_verdict weir_offer(weir_stage *stage, weir_event *event);
/*
 * Offers count events (at most WEIR_BATCH_MAX), all or none. They must be of one class. Their handler
 * never runs within the call.
 */
WEIR_API weir_verdict weir_offer_many(weir_stage *stage, weir_event **events, size_t count);
/*
 * Waits up to timeout_ns while the queue is full. It is misuse on a reactor thread and in a virtual
 * world. Where the wait could close a cycle of domains that wait for each other, it is shed as
 * "would-deadlock".
 */
WEIR_API weir_verdict weir_offer_wait(weir_stage *stage, weir_event *event, uint64_t timeout_ns);

/* Places reserved for future events: they have passed admission, and the queue has room for them. */
typedef struct weir_ticket {
	weir_stage *stage; /* NULL: no places are held */
	struct weir_gate *gate;
	uint64_t cost;
	uint64_t now_ns;
	uint32_t count;
	uint16_t home;
	uint8_t klass;
	bool spared; /* the law had refused, but was overridden */
} weir_ticket;

/*
 * Reserves places for count events of a class, with this cost in total, on the home thread
 * (WEIR_ANYWHERE: this one, or any). A ticket must be committed or cancelled, by any thread; a stop waits
 * for it.
 */
WEIR_API weir_verdict weir_reserve(weir_stage *stage, unsigned klass, size_t count, uint64_t cost,
				   uint16_t home, weir_ticket *ret_ticket);
/*
 * Hands over exactly the reserved events. Returns 0; -EINVAL if the ticket is not live, or the events are
 * not those reserved; -ESHUTDOWN if the world has stopped meanwhile. A failure changes nothing: the
 * events are yours, and the ticket holds its places until it is cancelled.
 */
WEIR_API int weir_commit(weir_ticket *ticket, weir_event **events, size_t count);
/* Gives the places back. Does nothing to a ticket without places. */
WEIR_API void weir_cancel(weir_ticket *ticket);

/*
 * Why the last offer on this thread was shed or, in a drop function, why the event is dropped. To be asked
 * right after it: a thread of the world forgets it when its handler or callback returns. false: it was
 * admitted, or is not known any more, as a world, a stage or a law has gone since. The name lives as long
 * as the stage.
 */
WEIR_API bool weir_why_shed(weir_why *ret_why);

/* ---- settling: by the owner of a HANDLING or HELD event; afterwards it is FREE ---- */

/* Settles as completed. */
WEIR_API void weir_done(weir_event *event);
/*
 * Settles all of them as done, at one time. This is cheaper than one by one, for handlers that work on a
 * batch as a whole.
 */
WEIR_API void weir_done_many(weir_event **events, size_t count);
/* Settles as failed. */
WEIR_API void weir_fail(weir_event *event);
/*
 * Settles as failed because something further down is overloaded and said so (429, 503, a shed offer).
 * Counted as failed; the law is told the difference.
 */
WEIR_API void weir_refused(weir_event *event);
/* The handler will settle it later, from any thread: it stays in flight. */
WEIR_API void weir_hold(weir_event *event);

#ifdef __cplusplus
}
#endif
#endif
