/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LAW_H
#define WEIR_LAW_H

/*
 * Laws are control algorithms as state machines. They have no clock (time is an argument), no lock, no
 * I/O and no globals, so that the same law runs in a live stage and in the simulator, and can be tested
 * by calling it.
 *
 * There are three kinds:
 *   admission  decides about single offers (admit, start) and adapts at ticks;
 *   pool       says how many threads an elastic domain should have;
 *   batch      says how many events a handler should be given at once.
 *
 * An admission law follows each event that it admits to its end:
 *
 *  admit ──▶ waiting ──▶ start ──▶ in service ──▶ settle
 *    │          ├──▶ start refuses: dropped
 *    │          └──▶ gone: cancelled, past its deadline, waited past patience, stopped
 *    └──▶ refund: the offer failed after all
 *
 * Each event that a law has admitted ends in exactly one of these ways: refunded, gone, refused at its
 * start, or settled. A law may rely on that. The law sees no other events: neither exempt ones nor those
 * that an earlier law admitted. There are two exceptions. In a dry run, or above the shed ceiling, a
 * refused event runs anyway, and the law still sees its start and its end. In the mode "admit all", the
 * law sees starts and ends of events that it was not asked about.
 *
 * Threads. Several threads may call admit, refund and settle at once, so these must be lock-free, and
 * what they share with others they share through atomics. start and gone are called for one queue (lane)
 * by one thread at a time. tick and save are called by one thread at a time, never both at once. The
 * other hooks, which only read (limit, patience, open, quality, explain, report, calm), may be called by any
 * thread at any time, and save may run while admit, start and settle run: what they read is atomic. A law
 * with per_lane has one state for each queue of its stage; otherwise one state serves all of them. Pool
 * and batch laws are called by one thread at a time.
 */

#include <weir/event.h>
#include <weir/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One offer as an admission law sees it: count events of one class, admitted together or not at all. */
typedef struct weir_ask {
	uint64_t now_ns;
	uint64_t entered_ns;  /* of the first event */
	uint64_t deadline_ns; /* of the first event; 0: none */
	uint64_t cost; /* of all events; for HTTP requests the expected time in us (event.h), 0: unknown */
	uint32_t count;
	uint32_t waiting;    /* events waiting in the queue this offer is for */
	uint32_t in_service; /* started there, not yet settled */
	uint8_t klass;
	/*
	 * For a pool that several stages share, if the law has wants_pool. ahead_ns: how long the pool
	 * will take for the work waiting in all its stages that goes before this offer. total_ns: the
	 * same for all waiting work of this class and those above. bound_ns: how large total_ns may be so
	 * that everybody is just in time, at the current arrivals.
	 *
	 * beside, instead of shared: the stage is in such a pool but cannot use all of it (single, or a
	 * bound on its concurrency). Then its own queue is before it, its work is not in these times, and
	 * they tell whether the others in the pool are in time.
	 */
	bool shared, beside;
	uint64_t ahead_ns, total_ns, bound_ns;
} weir_ask;

/* The moment when an event's turn has come. */
typedef struct weir_turn {
	uint64_t now_ns;
	uint32_t waiting;    /* left in this queue, without this event */
	uint32_t in_service; /* of this queue, without this event */
	uint64_t *note; /* two words for the law, kept with the event until it is settled (event->note) */
	bool shared;    /* the queue's threads are a pool that several stages share */
} weir_turn;

/* How an event ended. */
typedef enum weir_outcome {
	WEIR_DONE,
	WEIR_FAILED,
	WEIR_REFUSED, /* overload further down, reported as such: fast, but no sign of health */
} weir_outcome;

/*
 * One class during the last tick. The quantiles are those of weir_sample.quantile; 0 if nothing was
 * measured.
 */
typedef struct weir_class_sample {
	uint64_t offered, admitted, shed, started, completed, failed, dropped;
	uint64_t waiting_ns, service_ns, response_ns;
	uint64_t response_count;
} weir_class_sample;

/* A stage during the last tick. */
typedef struct weir_sample {
	uint64_t now_ns;
	uint64_t interval_ns; /* since the last tick */
	uint32_t waiting;     /* in the queue now */
	uint32_t in_service;  /* started, not settled, now */
	uint32_t workers;     /* threads that can run it, or its concurrency limit if that is lower */
	double quantile;      /* the one that the law asked for */
	/* If the law has wants_cpu: the part of its processors that the process has used, 0 to 1. */
	double cpu_share;
	bool dry_run; /* events that the law refuses are admitted anyway */
	/* For a pool that several stages share, if the law has wants_pool. */
	bool shared;
	/* Work offered to the pool in this class and those above, over its capacity. */
	double pool_load[WEIR_CLASSES];
	double pool_quality; /* the quality that all stages of the pool should deliver, 0 to 1 */
	double work_share;   /* work offered to this stage, over that of the pool's largest stage */
	weir_class_sample klass[WEIR_CLASSES];
} weir_sample;

/*
 * What the servers behind a stage report about themselves, over all servers that have reported lately
 * (weir_stage_tell).
 */
typedef struct weir_told {
	uint64_t now_ns;
	uint32_t servers;  /* servers behind the stage; 0: unknown */
	uint32_t reports;  /* those of them that have reported lately; 0: nothing below is known */
	double processors; /* of all servers that report; 0: unknown */
	double queue_s;    /* mean time that a request waits there before it is served; < 0: unknown */
	double in_service; /* mean number of requests in service per server; < 0: unknown */
	double busy;       /* part of the processors that is in use, 0 to 1; < 0: unknown */
} weir_told;

/* Why an offer was or would be shed, with the law's numbers. Filled by explain. */
typedef struct weir_why {
	const char *stage, *law;
	weir_verdict verdict;
	uint8_t klass;
	/*
	 * What the law decided by: the time that it expected, and the bound that this exceeded. 0, 0: it did not
	 * decide by a time (a rate, a number inside), or knew none. Without a bound, the estimate is what the law
	 * measures, and explains nothing.
	 */
	uint64_t estimate_ns, bound_ns;
	uint64_t target_ns;      /* the target of the class, as it was given; 0: none */
	uint64_t retry_after_ns; /* when it expects to admit this class again; 0: unknown */
	/* Revenue per second of expected work: the offer's, and the least that is admitted now; 0: no prices. */
	double worth, price;
} weir_why;

/* What a law reports about itself and a class, for stages, pages and plots. 0 where it has no such number. */
#define WEIR_REPORT_VALUES 9
typedef struct weir_report {
	const char *law;
	double quantile;
	uint64_t target_ns;
	uint64_t measured_ns; /* that quantile of the response times, as the law currently sees it */
	/* That quantile with nothing waiting: what could be met; 0: unknown. */
	uint64_t alone_ns;
	uint64_t wait_ns;  /* how long an event may wait and still be in time */
	double rate_per_s; /* the most that it admits */
	uint32_t limit;    /* events that it lets inside */
	double quality;    /* what a stage that can degrade should deliver; 1: the best */
	bool shedding;     /* it currently refuses some of this class */
	bool unreachable;  /* the target cannot be met, even if nothing waits */
	bool strained;     /* the service alone takes so long that the target is hard to meet */
	unsigned count;    /* number of the law's own values */
	struct {
		const char *name;
		double value;
	} value[WEIR_REPORT_VALUES];
} weir_report;

/*
 * A stage keeps a pointer to its law, which is usually a constant, and a copy of the params_bytes of its
 * parameters (weir_stage_options.admission_params, weir_stage_admission): these may be on the stack.
 */
typedef struct weir_admission_law {
	const char *name;
	const char *brief; /* one line for people */
	size_t state_bytes;
	size_t params_bytes;
	const weir_key *params; /* ended by a row without a name; help ends with the default; NULL: none */
	void (*defaults)(void *params); /* NULL: all zero */
	uint64_t tick_ns;               /* interval between calls of tick; 0: never */
	bool per_lane;                  /* one state for each queue */
	/* Expects that higher classes go first: a FIFO stage made with this law is ordered by class. */
	bool by_class;
	bool wants_cpu;  /* samples contain cpu_share */
	bool wants_pool; /* asks, turns and samples describe a pool that several stages share */
	/* Samples contain quantiles (`quantile`, or 0.9), which take time to compute. */
	bool wants_quantiles;
	/*
	 * admit, refund and explain do not look at an ask's cost: it may be 0 there, and be found out only for
	 * what is admitted.
	 */
	bool ignores_cost;
	double quantile;

	/*
	 * Checks the parameters and initialises the state. -EINVAL, with *ret_wrong saying what is
	 * accepted.
	 */
	int (*init)(void *state, const void *params, const char **ret_wrong);
	/* Decides about an offer: WEIR_ADMITTED or a reason to shed it. */
	weir_verdict (*admit)(void *state, const weir_ask *ask);
	/* Undoes an admit whose offer then failed or whose reservation was cancelled. May be NULL. */
	void (*refund)(void *state, const weir_ask *ask);
	/* The event's turn has come: start it, or drop it for a reason. NULL: always start. */
	weir_verdict (*start)(void *state, const weir_event *event, const weir_turn *turn);
	/* An admitted event has left the queue without a start. May be NULL. */
	void (*gone)(void *state, const weir_event *event, uint64_t now_ns);
	/* The event has been settled. May be NULL. */
	void (*settle)(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns);
	void (*tick)(void *state, const weir_sample *sample);
	/*
	 * How many events may be started and not settled, over all queues; UINT32_MAX: no limit. Read
	 * before each start. NULL: no limit.
	 */
	uint32_t (*limit)(const void *state);
	/*
	 * How long an event of the class may wait. At ticks, events of this law that have waited longer
	 * are dropped ("waited too long"). Does not apply to a queue ordered by cost, which does not know
	 * the age of its events. NULL: no limit.
	 */
	uint64_t (*patience)(const void *state, unsigned klass);
	/* The quality that a stage that can degrade should deliver to the class, 0 to 1. NULL: 1. */
	double (*quality)(const void *state, unsigned klass);
	/* Fills estimate, target and retry_after for an ask that it has just refused. May be NULL. */
	void (*explain)(const void *state, const weir_ask *ask, weir_why *ret_why);
	/* Fills in what it knows; the other fields are zero, and quality is 1. May be NULL. */
	void (*report)(const void *state, unsigned klass, weir_report *ret_report);
	/*
	 * Writes what the law has learned as one line of text; returns its length, as snprintf does.
	 * NULL: the law learns nothing.
	 */
	int (*save)(const void *state, char *text, size_t size);
	/*
	 * Loads such a text into a fresh state. -EINVAL: the text is not valid; the state is as after
	 * init.
	 */
	int (*load)(void *state, const char *text);
	/*
	 * No sign of saturation lately: times measured now are free of queueing. NULL: calm while nothing
	 * waits.
	 */
	bool (*calm)(const void *state);
	/*
	 * New targets, one for each class, all above 0 (weir_stage_promise). Never runs at the same time as
	 * tick. NULL: the target cannot change.
	 */
	void (*retarget)(void *state, const uint64_t target_ns[WEIR_CLASSES]);
	/* What the servers report. Never runs at the same time as tick. May be NULL. */
	void (*told)(void *state, const weir_told *told);
	/*
	 * The classes, one bit each, whose events may be taken from a queue that is ordered by class. Events of
	 * the other classes wait for a later tick (a visit). Read before each pop, by any thread; after each tick
	 * the stage looks again. A stage that stops, a dry run and the mode "admit all" take all classes. NULL:
	 * all.
	 */
	uint32_t (*open)(const void *state);
} weir_admission_law;

/* ---- laws by name, parameters as text (configuration, command line, scenario files) ---- */

/* The law with this name; NULL if there is none. */
WEIR_API const weir_admission_law *weir_law_find(const char *name);
/* The law at index `at`, in the order of the documentation; NULL past the end. */
WEIR_API const weir_admission_law *weir_law_at(size_t at);
/* Fills params (params_bytes long) with the law's defaults. */
WEIR_API void weir_law_defaults(const weir_admission_law *law, void *params);
/*
 * Sets one parameter: "target", "target[2]", or, if the law has `percentile` and `target`, both at once
 * as "p90" = "200ms". Returns 0, or -EINVAL, and then weir_error says what is wrong and what would be
 * accepted.
 */
WEIR_API int weir_law_set(const weir_admission_law *law, void *params, const char *name, const char *value);
/* Checks all parameters together, as weir_stage_new would. Returns 0, or -EINVAL with weir_error. */
WEIR_API int weir_law_check(const weir_admission_law *law, const void *params);

/*
 * Sheds when this many events wait. There is one threshold per class; 0 means that the class has none.
 * With a target the law also does SEDA's load shedding: one more threshold, for all classes, falls by a
 * factor when the mean response time is above the target and rises by a step when it is below. Fields
 * after the target that are 0 have their defaults.
 */
typedef struct weir_threshold_params {
	uint32_t waiting[WEIR_CLASSES];
	uint64_t target_ns;  /* 0: only the thresholds above */
	uint32_t most;       /* start value and upper bound of the adaptive threshold; 0: 1024 */
	uint32_t least;      /* its lower bound; 0: 1 */
	uint32_t rise;       /* events per window; 0: 10 */
	double fall;         /* factor per window; 0: 2 */
	uint32_t samples;    /* per window; 0: 100 */
	uint64_t timeout_ns; /* a window ends after this time at the latest; 0: 1 s */
} weir_threshold_params;
WEIR_API extern const weir_admission_law weir_law_threshold;

/*
 * The response-time controller of "Adaptive overload control for busy Internet servers" (section 3.2):
 * its parameters, which `aimd`, `multiclass` and `quality` share. The names are those of the paper's
 * Figure 4, the defaults are its values; see docs/laws/aimd.md.
 */
typedef struct weir_aimd_tuning {
	double percentile; /* of the response times: .5 to .999 */
	uint32_t samples;  /* per window (nreq) */
	/* With fewer samples nothing changes; 0: what the percentile needs, 10 for p90. */
	uint32_t samples_min;
	uint64_t timeout_ns; /* a window that is not full ends after this */
	double alpha;        /* of the moving average */
	double err_i, err_d; /* the rate rises below err_i and falls above err_d */
	double adj_i, adj_d; /* rise by adj_i, fall by the factor adj_d */
	double c_i;          /* weight of the rise */
	double rate_min, rate_max;
	double rate_start; /* 0: rate_max */
	/* Depth of the bucket, as time at the current rate; 0: half of the target, at most 1 s. */
	uint64_t burst_ns;
	double depth;      /* depth of the bucket in tokens at any rate, as in the original; 0: by burst_ns */
	bool proportional; /* above 100/s the rise grows with the rate */
	bool half_used;    /* no rise while less than half of the rate is used */
	double patience;   /* an event older than this many targets at its start is dropped; 0: none is */
} weir_aimd_tuning;

/* One controller and one bucket for all classes (section 3.2). */
typedef struct weir_aimd_params {
	uint64_t target_ns; /* required */
	weir_aimd_tuning tuning;
} weir_aimd_params;
WEIR_API extern const weir_admission_law weir_law_aimd;

/* A controller and a bucket for each class; the lower classes are cut first (section 3.3). */
typedef struct weir_multiclass_params {
	uint64_t target_ns[WEIR_CLASSES]; /* required for class 0; for others 0 means as the class above */
	double adjlo_d;                   /* the lower classes are cut by this factor */
	/* Windows with all lower classes at their minimum, before a class itself is cut. */
	uint32_t lc_thresh;
	weir_aimd_tuning tuning;
} weir_multiclass_params;
WEIR_API extern const weir_admission_law weir_law_multiclass;

/* A quality factor that stages read, alone or in addition to admission control (sections 3.4 and 4.5). */
typedef struct weir_quality_params {
	uint64_t target_ns; /* required */
	/* If the lowest quality does not suffice, also refuse, by the controller of `aimd`. */
	bool admission;
	double quality_min; /* the lowest */
	double fall;        /* divides the factor after a window above the target */
	double rise;        /* is added to it after a window well below the target */
	weir_aimd_tuning tuning;
} weir_quality_params;
WEIR_API extern const weir_admission_law weir_law_quality;

/* One token bucket for all classes: rate_per_s on average, burst at once (0: rate / 10, at least 1). */
typedef struct weir_bucket_params {
	double rate_per_s;
	double burst;
} weir_bucket_params;
WEIR_API extern const weir_admission_law weir_law_bucket;

/*
 * The default in front of a remote backend. Each started event is a request that the backend holds until
 * it answers. The law admits everything until there is evidence that the backend is saturated. Then it
 * admits as many as the backend can answer in time and sheds the others, lowest class first.
 */
typedef struct weir_adaptive_remote_params {
	double percentile; /* fraction of the answers that should come within the target; default .9 */
	uint64_t target_ns[WEIR_CLASSES]; /* required for class 0; for others 0 means as the class above */
	/*
	 * Share of the starts that a class keeps, however many events of higher classes arrive; default
	 * .01.
	 */
	double minimum[WEIR_CLASSES];
	/* The lowest quality that it asks for (weir_stage_quality); 0: .1; 1: always the best. */
	double quality_min;
	/*
	 * A request that by itself takes longer than the target is held to the target and this many times the
	 * excess; 0: 5.
	 */
	double own;
	/* Constants other than the law's own, for the simulator's experiments; NULL: none. */
	const struct weir_remote_tuning *tuning;
	/* Events per second of a class that are admitted whatever the load; default 0. */
	double guaranteed_per_s[WEIR_CLASSES];
} weir_adaptive_remote_params;
WEIR_API extern const weir_admission_law weir_law_adaptive_remote;

/*
 * Policing as in "Cataclysm: Policing Extreme Overloads in Internet Applications" (WWW 2005): three laws
 * that share these parameters (docs/laws/cataclysm.md).
 */
typedef struct weir_police_params {
	double percentile;                /* of the target: see skew */
	uint64_t target_ns[WEIR_CLASSES]; /* required for class 0; for others 0 means as the class above */
	double revenue[WEIR_CLASSES];     /* what an answer in time is worth; only reported */
	/* Requests per second that pass without a test, whatever the load. */
	double guaranteed[WEIR_CLASSES];
	uint32_t servers; /* behind the stage; 0: as they tell, or 1 */
	/* batch and police-auto */
	uint64_t delay_ns[WEIR_CLASSES]; /* between two visits of a class; not falling; all 0: see delays */
	uint32_t delays;                 /* 0: computed, if no delay is given; 1: as given */
	uint32_t order;   /* within a class, 0: all alike, first in first out; 1: smaller first */
	uint32_t buckets; /* of service time, 1 to 32 */
	double epsilon;   /* computed delays: chance to be turned away for a lesser class */
	bool early;       /* a request whose batch cannot pass at its visit is refused when it comes */
	bool skew;        /* estimates are multiplied by how much longer requests took at the percentile */
	/* police-threshold and police-auto */
	uint64_t period_ns; /* between two computations of the threshold; batch: of delays */
	double smoothing;   /* weight of the last period in the arrival rates */
	double fill; /* part of the servers' capacity that the threshold gives away; 1: as in the paper */
	/* police-auto */
	double busy;       /* part of the processors above which the threshold takes over */
	uint64_t dwell_ns; /* how long the use must be lower before batches take over again */
} weir_police_params;
WEIR_API extern const weir_admission_law weir_law_batch;
WEIR_API extern const weir_admission_law weir_law_police_threshold;
WEIR_API extern const weir_admission_law weir_law_police_auto;

/*
 * As adaptive-remote, but what must be shed is chosen by revenue per expected work (the event's cost), so
 * that as much is earned as can be. Guaranteed rates come first.
 */
typedef struct weir_value_params {
	double percentile; /* fraction of the answers that should come within the target; default .9 */
	uint64_t target_ns[WEIR_CLASSES]; /* required for class 0; for others 0 means as the class above */
	double revenue[WEIR_CLASSES];     /* of an event that is answered within its target; default 1 */
	/* Events per second of a class that are admitted whatever the load; default 0. */
	double guaranteed_per_s[WEIR_CLASSES];
	/* The lowest quality that it asks for (weir_stage_quality); 0: .1; 1: always the best. */
	double quality_min;
	/*
	 * A request that by itself takes longer than the target is held to the target and this many times the
	 * excess; 0: 5.
	 */
	double own;
	/* Constants other than the law's own, for the simulator's experiments; NULL: none. */
	const struct weir_remote_tuning *tuning;
} weir_value_params;
WEIR_API extern const weir_admission_law weir_law_value;

/* Limits a rate, the number of events inside (waiting and in service), or both; 0: no limit. */
typedef struct weir_fixed_params {
	double rate_per_s;
	double burst; /* as for the token bucket */
	uint32_t concurrency;
} weir_fixed_params;
WEIR_API extern const weir_admission_law weir_law_fixed;

/* Random early detection on the average length of each queue. */
typedef struct weir_red_params {
	double percentile;  /* the percentile of the target; has no effect */
	uint64_t target_ns; /* the thresholds follow from it; 0: they are as given, in events */
	double min_threshold, max_threshold;
	double max_p;  /* probability of a refusal at max_threshold */
	double weight; /* weight of one queue measurement in the average */
	bool gentle;
	uint32_t seed;
} weir_red_params;
WEIR_API extern const weir_admission_law weir_law_red;

/*
 * CoDel at the head of each queue or, with `timeouts`, controlled delay as for servers, for
 * WEIR_NEWEST_LATE queues. Times that are 0 are derived from the target.
 */
typedef struct weir_codel_params {
	double percentile;    /* the percentile of the target; has no effect */
	uint64_t target_ns;   /* the response time to hold */
	uint64_t delay_ns;    /* the wait that is acceptable permanently; CoDel's "target" */
	uint64_t interval_ns; /* how long that wait may be exceeded */
	uint64_t patience_ns; /* an event that has waited longer is always dropped */
	bool timeouts;
} weir_codel_params;
WEIR_API extern const weir_admission_law weir_law_codel;

/*
 * A limit on the number of events inside, which follows the ratio of the target to the measured response
 * time.
 */
typedef struct weir_gradient_params {
	double percentile;
	uint64_t target_ns;
	bool mean; /* hold the mean instead of the percentile */
	uint32_t initial_limit, min_limit, max_limit;
	double aim;         /* fraction of the target to aim at */
	double most;        /* the largest gradient */
	double headroom;    /* a factor on the square root of the limit */
	double smoothing;   /* fraction of a change that is applied at once */
	uint64_t window_ns; /* between two changes; 0: the target */
	uint32_t samples;   /* completions that a window needs */
} weir_gradient_params;
WEIR_API extern const weir_admission_law weir_law_gradient;

/*
 * The default for a stage and for stages that share a pool. It holds a percentile of the response times
 * (from the request's entry into the system until it ends here) at the target, and needs no other
 * parameter. The target of class 0 is required; for other classes 0 means as the class above.
 */
typedef struct weir_adaptive_params {
	uint64_t target_ns[WEIR_CLASSES];
	double percentile[WEIR_CLASSES]; /* .5 to .999; default of class 0: .9 */
	/*
	 * Share of the starts that a class keeps, however many events of higher classes arrive; default
	 * .01.
	 */
	double minimum[WEIR_CLASSES];
	double quality_min; /* as for adaptive-remote */
	bool per_stage;     /* in a pool that several stages share: use only this stage's own queue */
	/* The response time begins with the offer to the stage, not when the request entered the system. */
	bool since_offer;
} weir_adaptive_params;
WEIR_API extern const weir_admission_law weir_law_adaptive;

/* An elastic domain as a pool law sees it. */
typedef struct weir_pool_sample {
	uint64_t now_ns;
	uint64_t interval_ns; /* since the last tick */
	uint32_t threads;     /* existing threads */
	uint32_t busy;        /* in a handler now */
	uint32_t waiting;     /* events waiting in all queues of the domain */
	uint32_t max_queue;   /* events waiting in the fullest of its queues */
	uint64_t oldest_ns;   /* how long the oldest of them has waited */
	uint64_t started;     /* events started since the last tick */
	uint64_t arrived;     /* events admitted since the last tick */
	/* Time in handlers since the last tick, over all threads, including calls still running. */
	uint64_t busy_ns;
	uint64_t idle_ns;  /* how long the longest-idle thread has been idle; 0: no thread is idle */
	uint64_t ended;    /* events settled since the last tick */
	uint64_t ended_ns; /* sum of their service times */
	uint64_t usual_ns; /* sum of their expected service times at low concurrency */
	/* Processor time of the process since the last tick; virtual world: as handlers reported. */
	uint64_t cpu_ns;
	uint32_t cores;    /* cores that the pool may use */
	bool strained;     /* a stage's service time alone makes its target hard to meet, ... */
	bool late;         /* ... and a stage of which that holds misses its target */
	uint32_t min, max; /* bounds; the caller clamps to them as well */
} weir_pool_sample;

typedef struct weir_pool_law {
	const char *name;
	size_t state_bytes;
	uint64_t tick_ns;
	void (*init)(void *state);
	/* Returns how many threads there should be. */
	uint32_t (*size)(void *state, const weir_pool_sample *sample);
} weir_pool_law;

/* SEDA's rule: every 2 s, adds one thread if a queue exceeds 100; a thread idle for 5 s ends. */
WEIR_API extern const weir_pool_law weir_pool_seda;
/* The default: follows the queue and measured blocking (Little's law) within a few ticks of 10 ms. */
WEIR_API extern const weir_pool_law weir_pool_prompt;

/* A stage's batches during the last tick. */
typedef struct weir_batch_sample {
	uint64_t now_ns;
	uint64_t interval_ns;
	uint64_t events, batches; /* handled since the last tick */
	uint64_t busy_ns;         /* time in the handler */
	uint32_t waiting;         /* in the queue now */
	uint32_t batch;           /* the current size */
	uint32_t min, max;
} weir_batch_sample;

typedef struct weir_batch_law {
	const char *name;
	size_t state_bytes;
	uint64_t tick_ns;
	void (*init)(void *state);
	/* Returns the batch size from now on. */
	uint32_t (*size)(void *state, const weir_batch_sample *sample);
} weir_batch_law;

/*
 * SEDA's rule: shrinks by a factor of 1.2 while throughput holds, grows when it falls, resets when it
 * jumps.
 */
WEIR_API extern const weir_batch_law weir_batch_seda;
/* Weir's own rule: the smallest batch whose cost per event is near the best seen; grows with the queue. */
WEIR_API extern const weir_batch_law weir_batch_prompt;

#ifdef __cplusplus
}
#endif
#endif
