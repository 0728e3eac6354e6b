/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_ADAPTIVE_H
#define WEIR_CONTROL_ADAPTIVE_H

/*
 * The state of the law `adaptive`; adaptive.c has the idea. Read by its five files:
 *
 *	adaptive.c       offers, turns, ends: the hooks that run for every event
 *	adaptive_pool.c  where several stages share a pool: offers and turns by what waits in all of them
 *	adaptive_load.c  calm or overload, from what is offered
 *	adaptive_tick.c  what is made of the measurements every 10 ms
 *	adaptive_tell.c  parameters, explanations, reports, saving and loading
 *
 * Threads: one of these is the state of one queue. Offers and settlings come from any thread, turns from one at a time, ticks from one
 * at a time; fields are grouped by who writes them, and what another reads is atomic. Nothing orders one field with another: each is
 * right by itself, and all of them are estimates. Only the counts of events are exact.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/law.h>

#include "control/degrade.h"
#include "control/service.h"

#define ADAPTIVE_CREDIT 0x1p20f /* credit is counted in 2^-20 requests */
#define ADAPTIVE_SLICES 64      /* of time, for how many were admitted since */

#define ADAPTIVE_LOAD_STEP 16 /* offers, at least, between looks at the load */
#define ADAPTIVE_FALL_STEP \
	12.0f /* offers that should have come, and of which not more than this part has: it has fallen */
#define ADAPTIVE_FALL_TO .4f

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define ADD(x, v) atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)

typedef struct adaptive_class {
	/* const after init */
	uint64_t target_ns;
	float late_share;     /* 1 - percentile: how many may be late */
	float minimum;        /* share of the starts that it keeps */
	unsigned slice_shift; /* a slice is 2^this ns, an eighth of the target or a little less */

	/* offers */
	_Atomic uint64_t admitted, shed;          /* shed: refused, and dropped at their turn */
	_Atomic uint64_t slice;                   /* the newest */
	_Atomic uint64_t before[ADAPTIVE_SLICES]; /* admitted before the slice began */
	_Atomic uint32_t pledged; /* of those waiting, how many must be started however late: see "minimum" */
	_Atomic uint64_t pledge_ns; /* the first of them came then; who came before has no pledge */

	/* settlings */
	_Atomic int64_t credit;
	_Atomic uint64_t failed;
	_Atomic float measured_ns; /* the percentile of the response times */
	_Atomic float spent_ns;    /* before they were offered here: an average */

	/* turns */
	_Atomic uint64_t left;    /* of the admitted: those that wait no more */
	_Atomic uint64_t account; /* the lane's starts up to which it has had its minimum */
	_Atomic float tau_ns;     /* time per start while somebody waits; 0: not known yet */
	_Atomic float inside;     /* in service while somebody waits: how many workers there are */
	_Atomic float limit_ns;   /* how long one may wait */
	_Atomic float strict_ns;  /* and who came before the load fell: no longer than that, or the same */
	uint64_t calm_ns;         /* when it did */
	_Atomic float load; /* offered work over what the workers can do, this class and those above it */
	_Atomic float over; /* how sure it is that this is too much, 0 to 1 */
	_Atomic uint64_t last_ns; /* the last start */
	uint64_t taus;            /* how often tau was measured */
	bool queued;              /* somebody has waited since the last start, all the time */
	uint64_t shed_seen, failed_seen;
	_Atomic uint64_t load_offered, load_ns; /* up to here offers are in load_count and load_time */
	_Atomic float load_every_ns;            /* from one of them to the next; INFINITY: not known */
	double load_count, load_time;
	uint64_t look_ns;     /* no look at the load before this, nor before sixteen offers */
	int64_t limit_credit; /* the limit is made of this credit, */
	float limit_over;     /* and of this load */
	float withheld;       /* credit that starts in overload did not earn */

	/* ticks */
	weir_service service; /* its fresh values: settlings */
	_Atomic float mean_ns,
		service_ns;    /* of the service times: mean; the quantile that the base leaves room for */
	_Atomic float base_ns; /* the limit without credit */
	_Atomic float ease_ns, over_ns; /* what full credit adds to it, in calm and in overload */
	_Atomic float debt_ns;          /* what full debt takes away */
	_Atomic float most_ns;          /* no limit is longer */
	_Atomic float bound, per_bound; /* of the credit; its reciprocal */
	_Atomic float slack;            /* of the queue's bound, so that it does not run empty */
	_Atomic float memory;           /* starts that tau remembers */
	_Atomic bool starving, unreachable, shedding;
	uint64_t seen_last_ns, seen_left, seen_starts, seen_shed, quiet_ticks;
	weir_degrade degrade;
} adaptive_class;

typedef struct adaptive {
	adaptive_class klass[WEIR_CLASSES];
	_Atomic uint64_t starts; /* of all classes */
	_Atomic uint32_t
		holding; /* classes before this one are held back: somebody of it has a pledge; 0: none */
	_Atomic uint64_t held_ns;    /* since when */
	_Atomic uint64_t hold_at_ns; /* not before this again */
	_Atomic uint32_t
		mixed; /* lower classes start before higher ones that wait: no strict order; counts down */
	_Atomic float pool_quality; /* of a shared pool: what this stage should deliver; 0: it has its own */
	/* const after init */
	double quality_least;
	bool per_stage, since_offer;
} adaptive;

static inline float adaptive_clamp(float value, float min, float max)
{
	value = value > max ? max : value;
	return value < min ? min : value;
}

/* Of a request that has spent this much before: how much of the limit is left. Never nothing, or a slow stage before this one would close it. */
static inline float adaptive_left(const adaptive_class *k, float limit_ns, uint64_t spent_ns)
{
	float least = (float)k->target_ns / 16, left = limit_ns - (float)spent_ns;
	return left > least ? left : least;
}

/* The clocks of two threads may differ by a little, and a turn may be told a time from before the offer. */
static inline uint64_t adaptive_span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static inline uint64_t adaptive_waiting(const adaptive_class *k)
{
	uint64_t left = GET(k->left), admitted = GET(k->admitted);
	return admitted > left ? admitted - left : 0;
}

/* Refunds may have taken back more than came. */
static inline uint64_t adaptive_offered_since(const adaptive_class *k)
{
	int64_t more = (int64_t)(GET(k->admitted) + GET(k->shed) - GET(k->load_offered));
	return more > 0 ? (uint64_t)more : 0;
}

/* At the rate so far this many would have come, and not even half of them have: the load has fallen, and what it was is no guide. */
static inline bool adaptive_fallen(const adaptive_class *k, uint64_t now_ns)
{
	float span = (float)adaptive_span(GET(k->load_ns), now_ns), every = GET(k->load_every_ns);
	return span >= ADAPTIVE_FALL_STEP * every &&
	       (float)adaptive_offered_since(k) * every <= ADAPTIVE_FALL_TO * span;
}

/* A look at the load is due. */
static inline bool adaptive_may_look(const adaptive_class *k, uint64_t now_ns)
{
	uint64_t more = adaptive_offered_since(k);
	return more == 0 || more >= ADAPTIVE_LOAD_STEP || now_ns >= k->look_ns;
}

/* Since when the response time counts. */
static inline uint64_t adaptive_begin(const adaptive *a, uint64_t entered_ns, uint64_t offered_ns)
{
	return a->since_offer || entered_ns == 0 || entered_ns > offered_ns ? offered_ns : entered_ns;
}

/* How many of the waiting will get a start, if those that have waited a limit will not. */
uint64_t adaptive_live(const adaptive_class *k, uint64_t now_ns, uint64_t waiting, float limit_ns);
/* The limit as credit and load now are. */
void adaptive_set_limit(adaptive_class *k);
/* Whether it would start in time on a pool that several stages share. */
bool adaptive_pool_promising(const adaptive_class *k, const weir_ask *ask, uint64_t spent_ns);
/* Nobody waits for it any more, and more are late than may be. */
bool adaptive_pool_hopeless(const adaptive_class *k, uint64_t waited_ns);
/* What a tick says of the pool. */
void adaptive_pool_tick(adaptive *a, const weir_sample *sample);
/* Calm or overload. */
void adaptive_measure_load(adaptive *a, adaptive_class *k, uint64_t now_ns);
/* Makes the numbers of a tick from the service times and tau. */
void adaptive_learnt(adaptive_class *k);
void adaptive_tick(void *state, const weir_sample *sample);
int adaptive_init(void *state, const void *params, const char **ret_wrong);
void adaptive_defaults(void *params);
void adaptive_explain(const void *state, const weir_ask *ask, weir_why *ret_why);
void adaptive_report(const void *state, unsigned klass, weir_report *ret_report);
int adaptive_save(const void *state, char *text, size_t size);
int adaptive_load(void *state, const char *text);
extern const weir_param adaptive_params[];

#endif
