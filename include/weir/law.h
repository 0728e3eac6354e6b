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
 * is told of nothing else: not of exempt events, nor of those that a law before it has admitted. (Where its no does not
 * count - in a dry run, under a shed ceiling - it is told of the start and the end of what it has refused, too: it is there. While all
 * are admitted it is told of starts and ends of what it was not asked about.)
 *
 * Threads. admit, refund and settle may be called by several threads at once and must be lock-free; what they share
 * with others they share through atomics. start and gone are called for one queue (lane) by one thread at a time. tick
 * and save are called by one thread at a time, never both at once. The other hooks that read (limit, patience, quality, explain, report, calm) may be
 * called by any thread at any time, and save while admit, start and settle run: what they read is atomic. A law that is per_lane has one
 * state for each queue of its stage, otherwise one state serves all of them. Pool and batch laws are called by one thread at a time.
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
	uint64_t cost;        /* of all; of HTTP requests the expected time in us (event.h), 0: unknown */
	uint32_t count;
	uint32_t waiting;    /* events waiting in the queue this offer is for */
	uint32_t in_service; /* started there, not yet settled */
	uint8_t klass;
	/*
	 * Of a pool that several stages share, for a law that wants it (wants_pool): how long the pool will take for what waits in all of its
	 * stages and goes before this offer; for all that waits, of its class and those above; and for how much of that everybody
	 * would just be in time, if they come as they do now.
	 */
	bool shared;
	uint64_t ahead_ns, total_ns, bound_ns;
} weir_ask;

/* The moment in which an event's turn has come. */
typedef struct weir_turn {
	uint64_t now_ns;
	uint32_t waiting;    /* left in this queue, this one not counted */
	uint32_t in_service; /* of this queue, this one not counted */
	uint64_t *note; /* two words for the law, kept with the event until it is settled (event->note) */
	bool shared;    /* the queue's threads are a pool that several stages share */
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
	bool dry_run;         /* what the law refuses is let in all the same */
	/* Of a pool that several stages share, for a law that wants it. */
	bool shared;
	double pool_load
		[WEIR_CLASSES]; /* work offered to the pool, of this class and those above, over what it can do */
	double pool_quality; /* one for all its stages: what they should deliver, 0 to 1 */
	double work_share;   /* work offered to this stage, over that offered to the pool's largest */
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
	uint64_t alone_ns;    /* what that quantile takes with nothing else inside; 0: not known */
	uint64_t wait_ns;     /* an event may wait so long and still be in time */
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

/*
 * A stage keeps a pointer to its law, which is usually a constant, and a copy of the params_bytes of its
 * parameters (weir_stage_options.admission_params, weir_stage_admission): these may be on the stack.
 */
typedef struct weir_admission_law {
	const char *name;
	const char *brief; /* one line for people */
	size_t state_bytes;
	size_t params_bytes;
	const weir_param *params;       /* ends with a NULL name; NULL: none */
	void (*defaults)(void *params); /* NULL: zeroes */
	uint64_t tick_ns;               /* how often tick wants to run; 0: never */
	bool per_lane;                  /* a state for each queue */
	bool by_class; /* expects higher classes to go first: a FIFO stage that is made with it is ordered by class */
	bool wants_pool; /* asks, turns and samples say what is known of a pool that several stages share */
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
	/*
	 * How long an event of the class may wait: at ticks, those that waited longer are dropped ("waited too long"), of its own events.
	 * Not in a queue ordered by cost, which does not know their age. NULL: any.
	 */
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
	/* No sign of saturation lately: times seen now are what requests take by themselves. NULL: calm while nothing waits. */
	bool (*calm)(const void *state);
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

/*
 * Sheds when this many events wait; one threshold a class, 0 there: the class is not limited. With a target, SEDA's load shedding as
 * well: one more threshold, for all classes, falls by a factor when the mean response time is above the target and rises by a step
 * when it is below. What is 0 of the numbers after the target is as the defaults say.
 */
typedef struct weir_threshold_params {
	uint32_t waiting[WEIR_CLASSES];
	uint64_t target_ns;  /* 0: the thresholds above are all */
	uint32_t most;       /* what the adaptive threshold starts from, and its bound; 0: 1024 */
	uint32_t least;      /* 0: 1 */
	uint32_t rise;       /* events a window; 0: 10 */
	double fall;         /* factor a window; 0: 2 */
	uint32_t samples;    /* a window; 0: 100 */
	uint64_t timeout_ns; /* or this long; 0: 1 s */
} weir_threshold_params;
WEIR_API extern const weir_admission_law weir_law_threshold;

/*
 * The response-time controller of "Adaptive overload control for busy Internet servers" (section 3.2): its parameters, which `aimd`,
 * `multiclass` and `quality` share. The names are those of the paper's Figure 4, the defaults are its values; see docs/laws/aimd.md.
 */
typedef struct weir_aimd_tuning {
	double percentile;    /* of the response times: .5 to .999 */
	uint32_t samples;     /* a window (nreq) */
	uint32_t samples_min; /* fewer hold everything as it is; 0: what the percentile needs, 10 for p90 */
	uint64_t timeout_ns;  /* a window that is not full ends after this */
	double alpha;         /* of the moving average */
	double err_i, err_d;  /* the rate rises below the one, falls above the other */
	double adj_i, adj_d;  /* by this much, by this factor */
	double c_i;           /* weight of the rise */
	double rate_min, rate_max;
	double rate_start; /* 0: rate_max */
	uint64_t
		burst_ns; /* depth of the bucket, as time at the current rate; 0: half of the target, at most 1 s */
	double depth;      /* of the bucket in tokens, at any rate, as the original had it; 0: by burst_ns */
	bool proportional; /* above 100/s the rise grows with the rate */
	bool half_used;    /* no rise while less than half of the rate is used */
	double patience;   /* what is this many targets old at its start is dropped; 0: nothing is */
} weir_aimd_tuning;

/* One controller and one bucket for all classes (section 3.2). */
typedef struct weir_aimd_params {
	uint64_t target_ns; /* required */
	weir_aimd_tuning tuning;
} weir_aimd_params;
WEIR_API extern const weir_admission_law weir_law_aimd;

/* A controller and a bucket for each class, the lower ones cut first (section 3.3). */
typedef struct weir_multiclass_params {
	uint64_t target_ns[WEIR_CLASSES]; /* of class 0 required; 0: as the class above it */
	double adjlo_d;                   /* the lower classes are cut by this factor */
	uint32_t lc_thresh; /* windows with all lower classes at their least, before a class itself is cut */
	weir_aimd_tuning tuning;
} weir_multiclass_params;
WEIR_API extern const weir_admission_law weir_law_multiclass;

/* A quality factor that stages read, alone or before admission control (sections 3.4 and 4.5). */
typedef struct weir_quality_params {
	uint64_t target_ns; /* required */
	bool admission; /* at the lowest quality, refuse by the controller of `aimd` if that does not suffice */
	double quality_min; /* the lowest */
	double fall;        /* divides the factor, a window above the target */
	double rise;        /* is added to it, a window well below */
	weir_aimd_tuning tuning;
} weir_quality_params;
WEIR_API extern const weir_admission_law weir_law_quality;

/* A token bucket for all classes together: rate_per_s on average, burst at once (0: rate / 10, at least 1). */
typedef struct weir_bucket_params {
	double rate_per_s;
	double burst;
} weir_bucket_params;
WEIR_API extern const weir_admission_law weir_law_bucket;

/*
 * The default before a remote backend: each started event is a request that the backend holds until it answers. Lets everything in until
 * there is evidence that the backend is saturated; then as many as it can answer in time, and sheds the others, lowest class first.
 */
typedef struct weir_adaptive_remote_params {
	double percentile;                /* .9: this share of the answers is to come within the target */
	uint64_t target_ns[WEIR_CLASSES]; /* class 0's is required; 0: as the class above */
	double minimum
		[WEIR_CLASSES]; /* share of the starts that a class keeps however many of higher classes come; .01 */
	double quality_min; /* the lowest quality that it asks for (weir_stage_quality); 0: .1; 1: it asks for the best, always */
	const struct weir_remote_tuning *tuning; /* the judge's: other constants than the law's own; NULL */
} weir_adaptive_remote_params;
WEIR_API extern const weir_admission_law weir_law_adaptive_remote;

/* A rate, a number of events inside (waiting and in service), or both; 0: not bounded. */
typedef struct weir_fixed_params {
	double rate_per_s;
	double burst; /* as of the token bucket */
	uint32_t concurrency;
} weir_fixed_params;
WEIR_API extern const weir_admission_law weir_law_fixed;

/* Random early detection on the average length of each queue. */
typedef struct weir_red_params {
	double percentile;  /* that the target is meant for; of no influence */
	uint64_t target_ns; /* thresholds follow from it; 0: they are as given, in events */
	double min_threshold, max_threshold;
	double max_p;  /* the chance of a refusal at max_threshold */
	double weight; /* of one look at the queue in the average */
	bool gentle;
	uint32_t seed;
} weir_red_params;
WEIR_API extern const weir_admission_law weir_law_red;

/* CoDel at the head of each queue, or with `timeouts` controlled delay as for servers; for WEIR_NEWEST_LATE queues. 0: from the target. */
typedef struct weir_codel_params {
	double percentile;    /* that the target is meant for; of no influence */
	uint64_t target_ns;   /* the response time to hold */
	uint64_t delay_ns;    /* the wait that is acceptable for long; CoDel's "target" */
	uint64_t interval_ns; /* how long it may be exceeded */
	uint64_t patience_ns; /* what has waited for longer is dropped in any case */
	bool timeouts;
} weir_codel_params;
WEIR_API extern const weir_admission_law weir_law_codel;

/* A limit on the events inside that follows the ratio of the target to the measured response time. */
typedef struct weir_gradient_params {
	double percentile;
	uint64_t target_ns;
	bool mean; /* hold the mean instead of the percentile */
	uint32_t initial_limit, min_limit, max_limit;
	double aim;         /* part of the target that is aimed at */
	double most;        /* the largest gradient */
	double headroom;    /* times the root of the limit */
	double smoothing;   /* part of the change that is made at once */
	uint64_t window_ns; /* between two changes; 0: the target */
	uint32_t samples;   /* ends that a window must have */
} weir_gradient_params;
WEIR_API extern const weir_admission_law weir_law_gradient;

/*
 * The default for a stage and for stages that share a pool: holds a percentile of the response times (since the request entered the system,
 * until it ends here) at the target, and needs nothing else. Class 0's target is required; 0 for another class: as the class above it.
 */
typedef struct weir_adaptive_params {
	uint64_t target_ns[WEIR_CLASSES];
	double percentile[WEIR_CLASSES]; /* .5 to .999; class 0: .9 */
	double minimum
		[WEIR_CLASSES]; /* share of the starts that a class keeps however many of higher classes come; .01 */
	double quality_min; /* as of adaptive-remote */
	bool per_stage;     /* on a pool that several stages share: looks at its own queue only */
	bool since_offer; /* the response time begins with the offer to the stage, not when the request entered the system */
} weir_adaptive_params;
WEIR_API extern const weir_admission_law weir_law_adaptive;

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
	uint64_t ended;    /* events settled since the last tick */
	uint64_t ended_ns; /* how long their service took, all together, */
	uint64_t usual_ns; /* and how long it would have taken as it does with few at once */
	uint64_t cpu_ns; /* processor time of the process since the last tick; virtual: what handlers said */
	uint32_t cores;  /* that it may use */
	bool strained;   /* a stage's service alone takes so long that its target is hard to meet */
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
