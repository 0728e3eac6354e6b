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
 * An admission law follows each event that it lets in through to its end:
 *
 *	admit ──▶ waiting ──▶ start ──▶ in service ──▶ settle
 *	  │          ├──▶ start says no: dropped
 *	  │          └──▶ gone: cancelled, past its deadline, waited past patience, stopped
 *	  └──▶ refund: the offer failed after all
 *
 * So what it has admitted is: refunded, or gone, or refused at its start, or settled, each once; a law may count on it. It
 * is told of nothing else: not of exempt events, nor of those that a law before it has admitted. (In a dry run it
 * is told of the start and the end of those that it would have refused, too: they are there.)
 *
 * Threads. admit, refund and settle may be called by several threads at once and must be lock-free; what they share
 * with others they share through atomics. start and gone are called for one queue (lane) by one thread at a time. tick
 * is called by one thread at a time. A law that is per_lane has one state for each queue of its stage, otherwise one
 * state serves all of them. Pool and batch laws are called by one thread at a time.
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

/* The moment in which an event's turn has come. */
typedef struct weir_turn {
	uint64_t now_ns;
	uint32_t waiting;    /* left in this queue, this one not counted */
	uint32_t in_service; /* of this queue, this one not counted */
} weir_turn;

/* How an event ended. */
typedef enum weir_outcome {
	WEIR_DONE,
	WEIR_FAILED,
	WEIR_REFUSED, /* somebody further down is overloaded and said so: fast, and no sign of health */
} weir_outcome;

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

/* What a law can say about itself and a class, for stages, pages and plots. 0 where it has no such thing. */
#define WEIR_REPORT_VALUES 8
typedef struct weir_report {
	const char *law;
	double quantile;
	uint64_t target_ns;
	uint64_t measured_ns; /* that quantile of the response times, as the law sees it now */
	double rate_per_s;    /* it admits at most */
	uint32_t limit;       /* events it lets inside */
	double quality;       /* 1: the best; what a stage that can degrade should deliver */
	bool shedding;        /* it refuses some of this class now */
	bool unreachable;     /* the target cannot be met, even with nothing waiting */
	unsigned count;       /* of the law's own numbers */
	struct {
		const char *name;
		double value;
	} value[WEIR_REPORT_VALUES];
} weir_report;

/* A parameter of a law as text: its name, its place in the law's struct of parameters, what is accepted. */
typedef enum weir_param_kind {
	WEIR_PARAM_NUMBER,     /* double */
	WEIR_PARAM_TIME,       /* uint64_t, ns: "200ms", "1.5s", "20us" */
	WEIR_PARAM_COUNT,      /* uint32_t */
	WEIR_PARAM_PERCENTILE, /* double: "p90", "99.9%", ".5" */
	WEIR_PARAM_SWITCH,     /* bool: "on", "off" */
} weir_param_kind;

typedef struct weir_param {
	const char *name;
	weir_param_kind kind;
	size_t offset;
	bool per_class;   /* an array of WEIR_CLASSES: "name = x" for all of them, "name[2] = x" for one */
	double min, max;  /* accepted, both included; times in ns */
	const char *help; /* one line; ends with the default */
} weir_param;

typedef struct weir_admission_law {
	const char *name;
	const char *brief; /* one line for people */
	size_t state_bytes;
	size_t params_bytes;
	const weir_param *params;       /* ends with a NULL name; NULL: none */
	void (*defaults)(void *params); /* NULL: zeroes */
	uint64_t tick_ns;               /* how often tick wants to run; 0: never */
	bool per_lane;                  /* a state for each queue */
	bool wants_quantiles; /* the samples have quantiles (of 0.9, or `quantile`), which cost time to find */
	double quantile;

	/* Checks the parameters and makes the state. -EINVAL with *ret_wrong saying what is accepted. */
	int (*init)(void *state, const void *params, const char **ret_wrong);
	/* May this offer come in? WEIR_ADMITTED or a reason. */
	weir_verdict (*admit)(void *state, const weir_ask *ask);
	/* Takes back an admit whose offer then failed, or whose reservation was cancelled. May be NULL. */
	void (*refund)(void *state, const weir_ask *ask);
	/* The event's turn has come: start it, or drop it for a reason? NULL: always start. */
	weir_verdict (*start)(void *state, const weir_event *event, const weir_turn *turn);
	/* An event that was admitted has left the queue without a start. NULL: not interested. */
	void (*gone)(void *state, const weir_event *event, uint64_t now_ns);
	/* The event has been settled. NULL: not interested. */
	void (*settle)(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns);
	void (*tick)(void *state, const weir_sample *sample);
	/* How many events may be started and not settled, in all queues; UINT32_MAX: any. NULL: any. Looked at before each start. */
	uint32_t (*limit)(const void *state);
	/* How long an event of the class may wait: at ticks, those that waited longer are dropped ("waited too long"). NULL: any. */
	uint64_t (*patience)(const void *state, unsigned klass);
	/* What a stage that can degrade should deliver to the class, 0 to 1. NULL: 1. */
	double (*quality)(const void *state, unsigned klass);
	/* Fills estimate, target and retry_after for an ask it just refused. May be NULL. */
	void (*explain)(const void *state, const weir_ask *ask, weir_why *ret_why);
	/* Fills what it knows; the rest is zero, quality 1. May be NULL. */
	void (*report)(const void *state, unsigned klass, weir_report *ret_report);
	/* What it has learned, as one line of text; returns its length, as snprintf. NULL: it learns nothing. */
	int (*save)(const void *state, char *text, size_t size);
	/* Takes that over into a fresh state. -EINVAL: not such a text; the state is as after init. */
	int (*load)(void *state, const char *text);
} weir_admission_law;

/* ---- laws by name, parameters as text (configuration, command line, scenario files) ---- */

/* The law of this name; NULL: there is none. */
WEIR_API const weir_admission_law *weir_law_find(const char *name);
/* The at-th law, in the order of the documentation; NULL: no more. */
WEIR_API const weir_admission_law *weir_law_at(size_t at);
/* Fills params_bytes of parameters with the law's defaults. */
WEIR_API void weir_law_defaults(const weir_admission_law *law, void *params);
/*
 * Sets one parameter: "target", "target[2]", or, where the law has `percentile` and `target`, both at once as "p90" = "200ms".
 * 0, or -EINVAL and weir_error says what is wrong and what would be accepted.
 */
WEIR_API int weir_law_set(const weir_admission_law *law, void *params, const char *name, const char *value);
/* Checks the parameters as a whole, as making a stage with them would. 0, or -EINVAL and weir_error. */
WEIR_API int weir_law_check(const weir_admission_law *law, const void *params);

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

/*
 * The default before a remote backend: each started event is a request that the backend holds until it answers. Finds by itself how many
 * the backend should have at once and how fast it is; sheds, lowest class first, what could not be answered in time.
 */
typedef struct weir_adaptive_remote_params {
	double percentile;                /* .9: this share of the answers is to come within the target */
	uint64_t target[WEIR_CLASSES];    /* ns; class 0's is required, 0: as the class above */
	double minimum[WEIR_CLASSES];     /* requests a second that a class is let in with, whatever the load */
} weir_adaptive_remote_params;
WEIR_API extern const weir_admission_law weir_law_adaptive_remote;

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
