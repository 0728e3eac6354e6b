/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EVENT_H
#define WEIR_EVENT_H

/*
 * An event is a unit of work that is handed from stage to stage: a small header embedded in your own
 * struct. Whoever owns the event owns the memory around it.
 *
 *              weir_offer: admitted                 the stage's turn
 *   FREE ────────────────────────────────▶ QUEUED ─────────────────▶ HANDLING ──weir_hold──▶ HELD
 *    ▲  ▲      (or straight to HANDLING)      │                        │  │                    │
 *    │  └────── dropped at dequeue ───────────┘                        │  └─ offered on, admitted: the
 *    │          (the stage's drop function is called)                  │     next stage's QUEUED ─┘
 *    └───────────────────────── weir_done, weir_fail ──────────────────┴───────────────────────┘
 *
 * 1. An event is owned by exactly one stage, or by none: a FREE event belongs to whoever made it.
 * 2. An offer that is shed changes nothing: the offerer still owns the event, in the state it was in.
 * 3. A handler settles every event of its batch before it returns: done, fail, hold, or offered on and
 *    admitted. An event that it forgets is counted as a fault of the stage ("leaked") and goes to the
 *    drop function.
 * 4. An event is in at most one stage at a time. If a request should count in one stage (say, for a limit
 *    on requests inside) while its parts pass through others, embed one event per role.
 *
 * Threads: the owner's fields belong to whoever owns the event. Any thread may call weir_event_cancel as
 * long as the event is alive.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of classes of importance; class 0 is the highest. */
#define WEIR_CLASSES 8

/* No particular thread: the domain chooses one. */
#define WEIR_ANYWHERE UINT16_MAX

/*
 * The verdict on an offer: admitted, or shed for a reason. The same reasons tell a drop function why
 * an admitted event was dropped. X(name, text for people and metrics)
 */
#define WEIR_VERDICTS(X)                                                                       \
	X(ADMITTED, "admitted")                                                                \
	X(SHED_FULL, "full")               /* the queue holds its bound of events */           \
	X(SHED_COST, "full-cost")          /* the queue holds its bound of cost */             \
	X(SHED_THRESHOLD, "threshold")     /* a law's queue threshold for this class */        \
	X(SHED_RATE, "rate")               /* a law's token bucket is empty */                 \
	X(SHED_LATE, "predicted-late")     /* a law expects it to miss its target */           \
	X(SHED_PRICE, "price")             /* a law earns more with others for the work */     \
	X(SHED_WAITED, "waited-too-long")  /* dropped at dequeue: waited past a law's limit */ \
	X(SHED_EXPIRED, "deadline")        /* its own deadline has passed */                   \
	X(SHED_CANCELLED, "cancelled")     /* the client has gone */                           \
	X(SHED_LIMIT, "concurrency")       /* too many are inside already */                   \
	X(SHED_UPSTREAM, "downstream")     /* a stage further down is shedding this class */   \
	X(SHED_RESOURCE, "resource")       /* memory, CPU or loop lag is critical */           \
	X(SHED_OFF, "switched-off")        /* admission is switched off */                     \
	X(SHED_CLOSED, "closed")           /* the stage has been closed */                     \
	X(SHED_STOPPING, "stopping")       /* the world is draining or stopped */              \
	X(SHED_MEMORY, "out-of-memory")    /* for layers above: an offer allocates nothing */  \
	X(SHED_DEADLOCK, "would-deadlock") /* waiting here could never end */                  \
	X(SHED_TIMEOUT, "wait-timed-out")  /* a waiting offer ran out of time */               \
	X(SHED_MISUSE, "misuse")           /* the offer is invalid; see the faults */          \
	X(SHED_LEAKED, "leaked")           /* to a drop function: the handler forgot it */

typedef enum weir_verdict {
#define WEIR_X(name, text) WEIR_##name,
	WEIR_VERDICTS(WEIR_X)
#undef WEIR_X
		WEIR_VERDICT_COUNT
} weir_verdict;

enum weir_event_flags {
	WEIR_EVENT_EXEMPT = 1, /* no law may shed it (health checks); the queue's bounds still apply */
	WEIR_EVENT_TRACE = 2,  /* its steps go into the trace ring */
	/* Its cost is a guess, from others of its route: nothing is known yet of its own kind. */
	WEIR_EVENT_GUESSED = 4,
};

struct weir_event {
	/* For the runtime: queue links while the event waits, its place in the batch while it is handled. */
	union {
		struct {
			weir_event *next, *prev;
		} queue;
		struct {
			void *frame;
			uint32_t slot;
			uint8_t klass; /* class in which it was admitted */
		} run;
	} at;
	struct weir_lane *lane; /* the part of a stage's queue that it is in; NULL if no stage owns it */
	uint64_t offered_ns;    /* when that stage admitted it */
	uint64_t started_ns;    /* when that stage's handler got it */
	uint32_t trace;         /* number in the trace, given at the first offer */
	uint32_t gate;          /* number of the law's gate that it passed there; 0: none */
	uint16_t entry;         /* the mark of the stage it was first admitted to; 0: none yet */
	uint8_t entry_klass;    /* the class it had then */
	uint8_t told;           /* 1: its entry stage knows that a later stage shed it */
	uint64_t note[2];       /* two words for its law, kept from its start to its end */

	/* For you: set these after weir_event_init and before an offer, also when a handler offers it on. */
	/*
	 * The number that laws, "shortest first" and cost bounds use. For an HTTP request, the server
	 * sets it at the first offer (at the latest when it is admitted) to the time that requests of its
	 * kind take without queueing, in microseconds; 0: unknown. A handler that offers the event on may set its own value, in whatever
	 * unit the next stage's order, bound and law use (bytes, say).
	 */
	uint32_t cost;
	uint64_t entered_ns;  /* when the request entered the system; 0: set at the first offer */
	uint64_t deadline_ns; /* the result is worthless after this; 0: no deadline */
	union {
		struct {
			uint16_t magic;    /* for the runtime */
			uint8_t state;     /* for the runtime */
			uint8_t cancelled; /* atomic; set by weir_event_cancel */
			uint8_t klass;     /* 0 .. WEIR_CLASSES - 1 */
			uint8_t flags;     /* weir_event_flags */
			/*
			 * Reactor thread that it belongs to. WEIR_ANYWHERE: the first offer sets it to
			 * the offering thread.
			 */
			uint16_t home;
		};
		uint64_t word; /* all of these fields, to be read at once */
	};

	/*
	 * For the runtime, while it waits in a pool: its expected service time, and by when it should
	 * start.
	 */
	uint32_t work;  /* in 2^WEIR_WORK_SHIFT ns */
	uint32_t slice; /* its slice of the pool's backlog; after the start, its cost */
};

/* Makes an event FREE and ready to be offered. Must not be called for an event that a stage owns. */
WEIR_API void weir_event_init(weir_event *event, unsigned klass);

/* Marks the event as no longer wanted: if it is waiting, it is dropped when its turn comes. Any thread. */
WEIR_API void weir_event_cancel(weir_event *event);

/* Whether the event has been cancelled. Long handlers may check this and give up. */
WEIR_API bool weir_event_cancelled(const weir_event *event);

/* "full", "rate", ...: stable names, as in metrics and logs. */
WEIR_API const char *weir_verdict_name(weir_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
