/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LAW_H
#define WEIR_LAW_H

/*
 * Laws: control algorithms as state machines. No clock (time comes in), no lock, no I/O, no globals, so
 * that the same law runs in a live stage and in the simulator, and can be tested by calling it.
 *
 * Three kinds:
 *   admission  decides about single offers (admit, start) and adapts at ticks;
 *   pool       says how many threads an elastic domain should have;
 *   batch      says how many events a handler should be given at once.
 *
 * Threads. admit, refund, start and settle may be called by several threads at once and must be
 * lock-free; what they share with tick they share through atomics. tick, and the pool and batch laws,
 * are called by one thread at a time.
 */

#include <weir/event.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One offer as an admission law sees it: count events of one class, together or not at all. */
typedef struct weir_ask {
	uint64_t now_ns;
	uint64_t entered_ns;  /* of the first event */
	uint64_t deadline_ns; /* of the first event; 0: none */
	uint64_t cost;        /* of all */
	uint32_t count;
	uint32_t waiting;    /* events waiting in the queue this offer is for */
	uint32_t in_service; /* started there, not yet settled */
	uint8_t klass;
} weir_ask;

/* One class over the last tick. Quantiles are those of weir_sample.quantile; 0 when nothing was seen. */
typedef struct weir_class_sample {
	uint64_t offered, admitted, shed, started, completed, failed, dropped;
	uint64_t waiting_ns, service_ns, response_ns;
	uint64_t response_count;
} weir_class_sample;

/* A stage over the last tick. */
typedef struct weir_sample {
	uint64_t now_ns;
	uint64_t interval_ns; /* since the last tick */
	uint32_t waiting;     /* in the queue now */
	uint32_t in_service;  /* started, not settled, now */
	uint32_t workers;     /* threads that can run it, or its concurrency limit if that is lower */
	double quantile;      /* that the law asked for */
	weir_class_sample klass[WEIR_CLASSES];
} weir_sample;

/* Why an offer was or would be shed, with the law's numbers; filled by explain. */
typedef struct weir_why {
	const char *stage, *law;
	weir_verdict verdict;
	uint8_t klass;
	uint64_t estimate_ns;    /* the wait or response the law expected; 0: it does not estimate */
	uint64_t target_ns;      /* what it holds that against */
	uint64_t retry_after_ns; /* when it expects to admit this class again; 0: it does not know */
} weir_why;

typedef struct weir_admission_law {
	const char *name;
	size_t state_bytes;
	size_t params_bytes;
	uint64_t tick_ns; /* how often tick wants to run; 0: never */
	double quantile;  /* of the samples it gets; 0: 0.9 */

	/* Checks the parameters and makes the state. -EINVAL with *ret_wrong saying what is accepted. */
	int (*init)(void *state, const void *params, const char **ret_wrong);
	/* May this offer come in? WEIR_ADMITTED or a reason. */
	weir_verdict (*admit)(void *state, const weir_ask *ask);
	/* Takes back an admit whose offer then failed, or whose reservation was cancelled. May be NULL. */
	void (*refund)(void *state, const weir_ask *ask);
	/* The event's turn has come: start it, or drop it for a reason? NULL: always start. */
	weir_verdict (*start)(void *state, const weir_event *event, uint64_t now_ns);
	/* The event has been settled. NULL: not interested. */
	void (*settle)(void *state, const weir_event *event, bool completed, uint64_t now_ns);
	void (*tick)(void *state, const weir_sample *sample);
	/* Fills estimate, target and retry_after for an ask it just refused. May be NULL. */
	void (*explain)(const void *state, const weir_ask *ask, weir_why *ret_why);
} weir_admission_law;

/* Sheds when this many events wait; one threshold a class, 0 there: the class is not limited. */
typedef struct weir_threshold_params {
	uint32_t waiting[WEIR_CLASSES];
} weir_threshold_params;
WEIR_API extern const weir_admission_law weir_law_threshold;

/* A token bucket for all classes together: rate_per_s on average, burst at once (0: rate / 10, at least 1). */
typedef struct weir_bucket_params {
	double rate_per_s;
	double burst;
} weir_bucket_params;
WEIR_API extern const weir_admission_law weir_law_bucket;

/* An elastic domain as a pool law sees it. */
typedef struct weir_pool_sample {
	uint64_t now_ns;
	uint64_t interval_ns; /* since the last tick */
	uint32_t threads;     /* that exist */
	uint32_t busy;        /* in a handler now */
	uint32_t waiting;     /* events waiting in all queues of the domain */
	uint32_t max_queue;   /* events waiting in the fullest of its queues */
	uint64_t oldest_ns;   /* how long the oldest of them has waited */
	uint64_t started;     /* events started since the last tick */
	uint64_t arrived;     /* events admitted since the last tick */
	uint64_t busy_ns;  /* time in handlers since the last tick, over all threads, also if still in one */
	uint64_t idle_ns;  /* how long the longest-idle thread has been idle; 0: none is */
	uint32_t min, max; /* bounds; the caller clamps to them as well */
} weir_pool_sample;

typedef struct weir_pool_law {
	const char *name;
	size_t state_bytes;
	uint64_t tick_ns;
	void (*init)(void *state);
	/* How many threads there should be. */
	uint32_t (*size)(void *state, const weir_pool_sample *sample);
} weir_pool_law;

/* SEDA's rule: every 2 s, one thread more when a queue exceeds 100; a thread idle for 5 s goes. */
WEIR_API extern const weir_pool_law weir_pool_seda;
/* The default: follows queue and measured blocking (Little's law) within a few ticks of 10 ms. */
WEIR_API extern const weir_pool_law weir_pool_prompt;

/* A stage's batches over the last tick. */
typedef struct weir_batch_sample {
	uint64_t now_ns;
	uint64_t interval_ns;
	uint64_t events, batches; /* handled since the last tick */
	uint64_t busy_ns;         /* time in the handler */
	uint32_t waiting;         /* in the queue now */
	uint32_t batch;           /* the size in force */
	uint32_t min, max;
} weir_batch_sample;

typedef struct weir_batch_law {
	const char *name;
	size_t state_bytes;
	uint64_t tick_ns;
	void (*init)(void *state);
	/* The size of the batches from now on. */
	uint32_t (*size)(void *state, const weir_batch_sample *sample);
} weir_batch_law;

/* SEDA's rule: shrink by 1.2 while throughput holds, grow when it falls, reset when it jumps. */
WEIR_API extern const weir_batch_law weir_batch_seda;
/* Ours: the smallest batch whose cost per event is near the best seen; grows with the queue. */
WEIR_API extern const weir_batch_law weir_batch_prompt;

#ifdef __cplusplus
}
#endif
#endif
