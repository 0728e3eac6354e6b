/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_ADAPTIVE_H
#define WEIR_CONTROL_ADAPTIVE_H

/*
 * The state of the law `adaptive`; adaptive.c explains the idea. Six files use it:
 *
 *  adaptive.c       offers, turns, ends: the hooks that run for every event
 *  adaptive_pool.c  pools that several stages share: offers and turns by what waits in all of them
 *  adaptive_load.c  calm or overload, from the offered work
 *  adaptive_shadow.c  offers in a dry run
 *  adaptive_tick.c  computations from the measurements, every 10 ms
 *  adaptive_report.c  parameters, explanations, reports, saving and loading
 *
 * Threads: this is the state of one queue. Offers and settlings come from any thread, turns from one at a
 * time, ticks from one at a time. Fields are grouped by who writes them, and what another thread reads is
 * atomic. Nothing orders one field with another: each is right by itself, and all of them are estimates.
 * Only the counts of events are exact.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/law.h>

#include "control/degrade.h"
#include "control/refusal.h"
#include "control/service.h"

#define ADAPTIVE_CREDIT 0x1p20f /* credit is counted in 2^-20 requests */
#define ADAPTIVE_SLICES 64      /* slices of time, to tell how many were admitted since */

#define ADAPTIVE_LOAD_STEP 16 /* minimum number of offers between checks of the load */
/* When this many offers were due and at most the part FALL_TO has come, the load has fallen. */
#define ADAPTIVE_FALL_STEP 12.0f
#define ADAPTIVE_FALL_TO   .4f

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define ADD(x, v) atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)

typedef struct adaptive_class {
	_Atomic uint64_t target_ns; /* retarget changes it */
	/* const after init */
	float late_share;     /* 1 - percentile: the share that may be late */
	float minimum;        /* share of the starts that the class keeps */
	unsigned slice_shift; /* a slice is 2^this ns, an eighth of the target or a little less */

	/* offers */
	_Atomic uint64_t admitted, shed;          /* shed: refused, or dropped at their turn */
	_Atomic uint64_t slice;                   /* the newest */
	_Atomic uint64_t before[ADAPTIVE_SLICES]; /* admitted before the slice began */
	/* Number of waiting requests that must be started however late: see "minimum". */
	_Atomic uint32_t pledged;
	_Atomic uint64_t pledge_ns;    /* when the first of them arrived; earlier arrivals have no pledge */
	weir_refusal refused, dropped; /* at the offer; after waiting */
	/* In a dry run: when the last one that would have been admitted would start; what is due of a share. */
	_Atomic uint64_t shadow_ns;
	_Atomic int64_t would_due;

	/* settlings */
	_Atomic int64_t credit;
	_Atomic uint64_t failed;
	_Atomic float measured_ns; /* the percentile of the response times */
	_Atomic float spent_ns;    /* time before they were offered here, on average */

	/* turns */
	_Atomic uint64_t left;    /* admitted requests that no longer wait */
	_Atomic uint64_t account; /* the lane's number of starts up to which the class has had its minimum */
	_Atomic float tau_ns;     /* time per start while requests wait; 0: unknown */
	_Atomic float inside;     /* in service while requests wait: an estimate of the number of workers */
	_Atomic float limit_ns;   /* how long a request may wait */
	_Atomic float strict_ns;  /* the limit for requests from before the load fell: at most limit_ns */
	uint64_t calm_ns;         /* when the load fell */
	_Atomic float load; /* offered work over the workers' capacity, of this class and those above it */
	_Atomic float over; /* how certain it is that this is overload, 0 to 1 */
	_Atomic uint64_t last_ns; /* time of the last start */
	uint64_t taus;            /* how many times tau was measured */
	bool queued;              /* requests have been waiting all the time since the last start */
	uint64_t shed_seen, failed_seen;
	_Atomic uint64_t load_offered, load_ns; /* offers up to here are in load_count and load_time */
	_Atomic float load_every_ns;            /* interval between offers; INFINITY: unknown */
	double load_count, load_time;
	uint64_t look_ns;     /* the load is not checked before this time, unless sixteen offers have come */
	int64_t limit_credit; /* the credit, ... */
	float limit_over;     /* ... and the load from which the limit was computed */
	float withheld;       /* credit that starts in overload did not earn */

	/* ticks */
	weir_service service; /* settlings add its fresh values */
	/* Of the service times: the mean, and the quantile that the base leaves room for. */
	_Atomic float mean_ns, service_ns;
	_Atomic float alone_ns;         /* the target's percentile of them, with the time spent before */
	_Atomic float base_ns;          /* the limit without credit */
	_Atomic float ease_ns, over_ns; /* what full credit adds to it, in calm and in overload */
	_Atomic float debt_ns;          /* what full debt takes away */
	_Atomic float most_ns;          /* upper bound of every limit */
	_Atomic float bound, per_bound; /* bound of the credit, and its reciprocal */
	_Atomic float slack;            /* factor on the queue's bound, so that the workers do not run dry */
	_Atomic float memory;           /* starts that tau remembers */
	_Atomic bool starving, unreachable, strained, shedding;
	_Atomic float would; /* in a dry run on a shared pool: the share that would be refused */
	uint64_t seen_last_ns, seen_left, seen_starts, seen_shed, quiet_ticks;
	weir_degrade degrade;
} adaptive_class;

typedef struct adaptive {
	adaptive_class klass[WEIR_CLASSES];
	_Atomic uint64_t starts; /* of all classes */
	/* Classes above this one are held back, because one of its requests has a pledge; 0: none. */
	_Atomic uint32_t holding;
	_Atomic uint64_t held_ns;    /* when the hold began */
	_Atomic uint64_t hold_at_ns; /* no new hold before this time */
	/* Lower classes start before higher ones that wait, so the order is not strict; counts down. */
	_Atomic uint32_t mixed;
	/* The quality that a shared pool asks of this stage; 0: it has its own. */
	_Atomic float pool_quality;
	_Atomic bool dry_run;
	/* const after init */
	double quality_least;
	bool per_stage, since_offer;
} adaptive;

static inline float adaptive_clamp(float value, float min, float max)
{
	value = value > max ? max : value;
	return value < min ? min : value;
}

/*
 * How much of the limit is left for a request that has already spent this much time. It is never zero, or
 * a slow stage before this one would close it.
 */
static inline float adaptive_left(const adaptive_class *k, float limit_ns, uint64_t spent_ns)
{
	float least = (float)k->target_ns / 16, left = limit_ns - (float)spent_ns;
	return left > least ? left : least;
}

/* The clocks of two threads may differ a little, so a turn may come with a time from before the offer. */
static inline uint64_t adaptive_span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static inline uint64_t adaptive_waiting(const adaptive_class *k)
{
	uint64_t left = GET(k->left), admitted = GET(k->admitted);
	return admitted > left ? admitted - left : 0;
}

/* Refunds may have taken back more than has come since. */
static inline uint64_t adaptive_offered_since(const adaptive_class *k)
{
	int64_t more = (int64_t)(GET(k->admitted) + GET(k->shed) - GET(k->load_offered));
	return more > 0 ? (uint64_t)more : 0;
}

/*
 * At the previous rate this many offers would have come, and not even half of them have: the load has
 * fallen, and its previous value is no guide.
 */
static inline bool adaptive_fallen(const adaptive_class *k, uint64_t now_ns)
{
	float span = (float)adaptive_span(GET(k->load_ns), now_ns), every = GET(k->load_every_ns);
	return span >= ADAPTIVE_FALL_STEP * every &&
	       (float)adaptive_offered_since(k) * every <= ADAPTIVE_FALL_TO * span;
}

/* Whether the load should be checked now. */
static inline bool adaptive_may_look(const adaptive_class *k, uint64_t now_ns)
{
	uint64_t more = adaptive_offered_since(k);
	return more == 0 || more >= ADAPTIVE_LOAD_STEP || now_ns >= k->look_ns;
}

/* The time from which the response time counts. */
static inline uint64_t adaptive_begin(const adaptive *a, uint64_t entered_ns, uint64_t offered_ns)
{
	return a->since_offer || entered_ns == 0 || entered_ns > offered_ns ? offered_ns : entered_ns;
}

/*
 * Keeps for explain that it would have waited for wait_ns, or has, where limit_ns were allowed; as response times, so that they
 * compare with the target.
 */
static inline void adaptive_note(weir_refusal *refusal, const adaptive_class *k, double spent_ns,
				 double wait_ns, double limit_ns)
{
	double beside_ns = spent_ns + (double)GET(k->service_ns);
	weir_refusal_note(refusal, beside_ns + wait_ns, beside_ns + limit_ns);
}

/* How many of the waiting requests will get a start, if those that have waited for a limit do not. */
uint64_t adaptive_live(const adaptive_class *k, uint64_t now_ns, uint64_t waiting, float limit_ns);
/* Computes the limit from the current credit and load. */
void adaptive_set_limit(adaptive_class *k);
/* Whether it would start in time in a pool that several stages share. */
bool adaptive_pool_promising(adaptive_class *k, const weir_ask *ask, uint64_t spent_ns);
/* For a stage that can use only a part of such a pool: whether the others leave room for more. */
bool adaptive_pool_spare(adaptive_class *k, const weir_ask *ask);
/* Nobody waits for the answer any more, and more requests are late than may be. */
bool adaptive_pool_hopeless(const adaptive_class *k, uint64_t waited_ns);
/* Takes over what a tick's sample says about the pool. */
void adaptive_pool_tick(adaptive *a, const weir_sample *sample);
/* In a dry run: whether the law would admit it. */
bool adaptive_shadow_fits(adaptive_class *k, const weir_ask *ask, uint64_t spent_ns, bool shared);
void adaptive_shadow_tick(adaptive *a, const weir_sample *sample);
/* Decides between calm and overload. */
void adaptive_measure_load(adaptive *a, adaptive_class *k, uint64_t now_ns);
/* Computes a tick's numbers from the service times and tau. */
void adaptive_learnt(adaptive_class *k);
void adaptive_tick(void *state, const weir_sample *sample);
int adaptive_init(void *state, const void *params, const char **ret_wrong);
void adaptive_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES]);
void adaptive_defaults(void *params);
void adaptive_explain(const void *state, const weir_ask *ask, weir_why *ret_why);
void adaptive_report(const void *state, unsigned klass, weir_report *ret_report);
int adaptive_save(const void *state, char *text, size_t size);
int adaptive_load(void *state, const char *text);
extern const weir_key adaptive_params[];

#endif
