/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_POLICE_H
#define WEIR_CONTROL_POLICE_H

/*
 * What the policing laws of Cataclysm share (docs/laws/cataclysm.md): parameters, what they measure (the
 * gauge), and the two ways to police.
 *
 *  batch             police_batch.c,      tests at visits, one per bucket of service time
 *                    police_visit.c
 *  police-threshold  police_threshold.c   a pair (class, fraction) that follows from rates and service times
 *  police-auto       police_auto.c        the first; the second while the sentry itself is busy
 *
 * The gauge is in police_gauge.c, the parameters are in police_params.c, and who waits is in police_ledger.c.
 *
 * Threads: as law.h says. Fields that several threads write are relaxed atomics, and each is right by itself.
 */

#include "control/guarantee.h"
#include "control/police_delays.h"
#include "control/police_ledger.h"
#include "control/recent.h"
#include "control/times.h"

#define WEIR_POLICE_TICK_NS (5 * WEIR_NS_PER_MS)
#define WEIR_POLICE_FINE    80 /* steps of a quarter of an octave, of which buckets are made */

/* ---- the gauge ---- */

typedef struct weir_police_gauge {
	/* const after init */
	uint32_t servers;   /* as given; 0: as told, or 1 */
	double smoothing;   /* weight of the last period in the rates */
	double fill;        /* part of the capacity that a threshold gives away */
	uint64_t period_ns; /* over which rates are measured */
	weir_guarantee guarantee[WEIR_CLASSES];
	double guaranteed[WEIR_CLASSES], revenue[WEIR_CLASSES], percentile;
	bool skewed;
	/* any thread reads; told and retarget write */
	_Atomic uint64_t target_ns[WEIR_CLASSES];
	_Atomic double told_servers; /* 0: unknown */
	_Atomic double told_queue_s; /* 0: unknown */
	_Atomic double told_inside;  /* in service, per server; < 0: unknown */
	_Atomic int32_t inside_then; /* our own number when that was told */
	/* any thread */
	_Atomic int32_t in_service;
	_Atomic int32_t crowded; /* of these, about as many as have shared a server */
	_Atomic uint32_t arrived[WEIR_CLASSES];
	_Atomic uint32_t tests[WEIR_CLASSES], failures[WEIR_CLASSES]; /* of the policing test */
	_Atomic float service_s[WEIR_CLASSES];                        /* mean service time; 0: unknown */
	_Atomic float any_service_s;                                  /* the same over all classes */
	_Atomic float trust[WEIR_CLASSES]; /* in service times, as a factor on them: police_gauge.c */
	_Atomic float skew; /* how much longer requests take than the test says: the larger of these two */
	_Atomic float skew_at, skew_most; /* at the percentile; on average over a few, the longest lately */
	_Atomic float skew_lately;        /* on average over the last few */
	_Atomic float shared_s, shared_cost_s; /* of requests on shared servers: alone by the model; cost */
	_Atomic bool shared;                   /* such requests have ended since the last period */
	weir_times times[WEIR_CLASSES];
	weir_recent recent;
	_Atomic bool dry_run;
	/* the tick */
	uint64_t period_end_ns;
	uint32_t arrived_seen[WEIR_CLASSES], tests_seen[WEIR_CLASSES], failures_seen[WEIR_CLASSES];
	bool measured; /* a period has ended */
	_Atomic double rate[WEIR_CLASSES];
	_Atomic double failing[WEIR_CLASSES]; /* part of the tests that failed */
} weir_police_gauge;

/* params: those that weir_police_check accepts. */
void weir_police_gauge_init(weir_police_gauge *gauge, const weir_police_params *params);
void weir_police_gauge_retarget(weir_police_gauge *gauge, const uint64_t target_ns[WEIR_CLASSES]);
/* released: let go by the law, and not yet started. */
void weir_police_gauge_told(weir_police_gauge *gauge, const weir_told *told, int32_t released);
/* Servers, or processors where servers tell how many they have. At least 1. */
double weir_police_gauge_servers(const weir_police_gauge *gauge);
/* The mean service time of a class, or of all classes while nothing is known of it; 0: nothing is known. */
double weir_police_gauge_service_s(const weir_police_gauge *gauge, unsigned klass);
/* How many times longer requests take on shared servers than their costs say; at least 1. */
double weir_police_gauge_pace(const weir_police_gauge *gauge);
/* The factor on all service times of a class in tests; 1 unless the class is kept out. */
double weir_police_gauge_trust(const weir_police_gauge *gauge, unsigned klass);
/* Requests in service per server: eta. */
double weir_police_gauge_inside(const weir_police_gauge *gauge, int32_t released);
/* The left side of test (4): the response time of the last of `count` requests, in seconds. */
double weir_police_gauge_estimate_s(const weir_police_gauge *gauge, int32_t released, double service_s,
				    uint32_t count);
/* The same so much later, if the servers get nothing until then. */
double weir_police_gauge_least_s(const weir_police_gauge *gauge, int32_t released, double service_s,
				 uint32_t count, double later_s);
/* The factor on estimates. */
double weir_police_gauge_skew(const weir_police_gauge *gauge);
/* An event starts. note: the event's; service_s: what the test takes it to need, 0 if it was not tested. */
void weir_police_gauge_started(weir_police_gauge *gauge, uint64_t *note, int32_t released, double service_s);
/* One whose start is refused: it will not be settled, or (in a dry run) does not count. */
void weir_police_gauge_not_started(uint64_t *note);
void weir_police_gauge_settled(weir_police_gauge *gauge, const weir_event *event, weir_outcome outcome,
			       int32_t released, uint64_t now_ns);
/* Counts an ask; the part of it that is guaranteed. */
uint32_t weir_police_gauge_arrived(weir_police_gauge *gauge, const weir_ask *ask);
void weir_police_gauge_tested(weir_police_gauge *gauge, unsigned klass, bool passed);
/* True at the end of a period: the rates are new. */
bool weir_police_gauge_tick(weir_police_gauge *gauge, const weir_sample *sample);
bool weir_police_gauge_calm(const weir_police_gauge *gauge);
/* What all policing laws report of a class. */
void weir_police_gauge_report(const weir_police_gauge *gauge, unsigned klass, int32_t released,
			      uint64_t delay_ns, weir_report *ret_report);
void weir_police_gauge_explain(const weir_police_gauge *gauge, const weir_ask *ask, int32_t released,
			       double service_s, uint64_t delay_ns, weir_why *ret_why);

static inline uint64_t weir_police_gauge_target_ns(const weir_police_gauge *gauge, unsigned klass)
{
	return atomic_load_explicit(&gauge->target_ns[klass % WEIR_CLASSES], memory_order_relaxed);
}

/* ---- the threshold: (class, fraction) ---- */

typedef struct weir_cut {
	/* written by the tick, read by any thread */
	_Atomic uint32_t klass; /* classes above are admitted, those below are not; WEIR_CLASSES: all are */
	_Atomic uint32_t fraction; /* of this class, in 2^-16 */
	_Atomic uint64_t random;
} weir_cut;

void weir_cut_init(weir_cut *cut);
/* Inequalities (5) and (6). */
void weir_cut_set(weir_cut *cut, const weir_police_gauge *gauge);
bool weir_cut_admits(weir_cut *cut, unsigned klass);

/* ---- batches ---- */

typedef struct weir_police {
	/* const after init */
	bool smaller_first, auto_delays, early;
	unsigned buckets;                     /* besides bucket 0 */
	uint8_t bucket_of[WEIR_POLICE_FINE];  /* by step */
	double bucket_s[WEIR_LEDGER_BUCKETS]; /* the service time that stands for a bucket */
	double epsilon;
	double busy; /* police-auto: the bound, and the time to stay below it */
	uint64_t dwell_ns;
	/* written by the tick, read by any thread */
	_Atomic uint64_t delay_ns[WEIR_CLASSES];
	_Atomic bool by_threshold; /* police-auto: the cut judges arrivals, and nobody waits for a visit */
	_Atomic uint64_t next_visit_ns[WEIR_CLASSES];
	_Atomic uint64_t hopeless[WEIR_CLASSES]; /* buckets, as bits, of which nothing more passes */
	/* any thread */
	_Atomic uint32_t failed;      /* classes, as bits, that failed the test since the last tick */
	_Atomic uint32_t turned_away; /* classes, as bits, of which some were refused before their visit */
	_Atomic uint32_t pressed;     /* classes, as bits, of which some were lately refused */
	weir_ledger ledger;
	weir_police_gauge gauge;
	weir_cut cut;
	/* the tick */
	double cpu;       /* police-auto: share of the processors in use, smoothed */
	uint64_t busy_ns; /* when it was last above the bound */
	uint64_t pressed_until_ns[WEIR_CLASSES];
} weir_police;

int weir_police_init(void *state, const void *params, const char **ret_wrong);
weir_verdict weir_police_admit(void *state, const weir_ask *ask);
void weir_police_refund(void *state, const weir_ask *ask);
weir_verdict weir_police_start(void *state, const weir_event *event, const weir_turn *turn);
void weir_police_gone(void *state, const weir_event *event, uint64_t now_ns);
void weir_police_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns);
void weir_police_tick(void *state, const weir_sample *sample);
uint64_t weir_police_patience(const void *state, unsigned klass);
void weir_police_explain(const void *state, const weir_ask *ask, weir_why *ret_why);
void weir_police_report(const void *state, unsigned klass, weir_report *ret_report);
bool weir_police_calm(const void *state);
void weir_police_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES]);
void weir_police_told(void *state, const weir_told *told);
uint32_t weir_police_open(const void *state);
/* The service time that stands for a bucket of a class. */
double weir_police_service_s(const weir_police *police, unsigned klass, unsigned bucket);
/* Test (4), for as many requests of the bucket; more important classes that were lately refused keep their room. */
bool weir_police_fits(const weir_police *police, unsigned klass, unsigned bucket, uint32_t count,
		      uint64_t delay_ns);
/*
 * Once per tick: the buckets of which nothing more can pass at the next visit, so that arrivals need no test
 * until the next tick. Only for classes of which some were turned away lately.
 */
void weir_police_foresee(weir_police *police, uint64_t now_ns);
/* Visits every class now, whether it is due or not. */
void weir_police_visit_all(weir_police *police, uint64_t now_ns);

/* ---- parameters ---- */

extern const weir_key weir_police_batch_keys[], weir_police_threshold_keys[], weir_police_auto_keys[];
void weir_police_defaults(void *params);
/* -EINVAL, with *ret_wrong saying what is accepted. */
int weir_police_check(const weir_police_params *params, const char **ret_wrong);

#endif
