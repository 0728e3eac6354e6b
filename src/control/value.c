/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `value`: the evidence and the prediction of `adaptive-remote`, and what must be shed is chosen by revenue
 * per unit of work. docs/laws/value.md explains it.
 *
 *  open      while there is no evidence that the backend is saturated, everything is admitted
 *  first     what conforms to its class's guarantee
 *  price     the other requests, by revenue over expected work: a knapsack, filled greedily (knapsack.h),
 *            says how much of the room a price may fill
 *  room      work inside, here and in the backend, that is done within the target: adaptive-remote's limit,
 *            in microseconds of expected work and not in requests, because the price changes the mix
 *
 * Invariant: work that was counted in is counted out once, at the same cost; if that is unknown, by number.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "control/aimd_core.h"
#include "control/knapsack.h"
#include "control/remote.h"

#define REVENUE_MAX  1e12
#define COST_UNKNOWN 1000. /* us, if no cost has ever been known */
#define LATE_MOST    .02   /* of the answers: what is late earns nothing */
#define LATE_PART    .5    /* of that, while OVERLOAD times as much is offered as is done */
#define OVERLOAD     1.5
#define SCARCE       .05  /* of the offered work: prices count while as much is refused */
#define PART         .5   /* of the room, for the marginal price */
#define GAIN         .5   /* of the capacity's correction */
#define COST_OVER    64   /* requests over which a class's mean cost is averaged */
#define MEMORY_S     1.   /* over which offers are counted: at least this, ... */
#define MEMORY       4.   /* ... this many targets, ... */
#define MEMORY_COUNT 100. /* ... and the time in which this many are answered */
#define TAIL_MOST    1.5  /* large requests among small ones see many answers: that is no queue */
#define ABOVE_LEAST  8.   /* requests of mean cost that a credit may admit above the limit */

/* Work of a class: the expected cost of requests, and the number of those whose cost is unknown. */
typedef struct amount {
	_Atomic int64_t us;
	_Atomic int32_t unknown;
} amount;

typedef struct weir_value {
	weir_remote remote; /* first, so that its hooks can be given this state */
	/* const after init */
	double revenue[WEIR_CLASSES];
	double dearest;    /* of all */
	double late_usual; /* the share of late answers that adaptive-remote aims at */
	/* any thread reads; the tick writes */
	_Atomic double room_us[WEIR_CLASSES];    /* 0: unlimited */
	_Atomic double mean_us;                  /* cost of the answers, and ... */
	_Atomic double typical_us[WEIR_CLASSES]; /* ... of a class's requests, for those of unknown cost */
	_Atomic double told_price, told_capacity;
	_Atomic uint32_t outbid; /* classes of which some were refused for their price, one bit each */
	/* any thread writes */
	_Alignas(64) amount waiting[WEIR_CLASSES], serving[WEIR_CLASSES];
	_Atomic uint64_t done_us, done, refused_us;
	_Atomic uint64_t known_us[WEIR_CLASSES], known[WEIR_CLASSES]; /* offers of known cost */
	_Atomic uint32_t refused[WEIR_CLASSES];                       /* for their price */
	weir_knapsack knapsack;
	/* the tick */
	uint64_t seen_done_us, seen_done, seen_refused_us, seen_known_us[WEIR_CLASSES],
		seen_known[WEIR_CLASSES];
	uint32_t seen_refused[WEIR_CLASSES];
	double done_lately, refused_lately, filled_lately, time_lately; /* sums that fade as the knapsack's */
} weir_value;

/* ---- parameters ---- */

#define KEY(key, is, member, tells, ...) \
	WEIR_KEY(key, is, weir_value_params, member, NULL, tells, __VA_ARGS__)

static const weir_key params_table[] = {
	KEY("percentile", PERCENTILE, percentile,
	    "share of the answers that should come within the target; default p90", .min = .5, .max = .999),
	KEY("target", TIME, target_ns,
	    "response time to hold, waiting included; required for class 0, others: as the class above",
	    .flags = WEIR_KEY_PER_CLASS, .min = (double)WEIR_REMOTE_TARGET_MIN_NS,
	    .max = (double)WEIR_REMOTE_TARGET_MAX_NS),
	KEY("revenue", NUMBER, revenue,
	    "what a request of the class is worth that is answered within the target; default 1",
	    .flags = WEIR_KEY_PER_CLASS, .max = REVENUE_MAX),
	KEY("guaranteed", RATE, guaranteed_per_s,
	    "requests of the class that are admitted whatever the load; default 0/s",
	    .flags = WEIR_KEY_PER_CLASS, .max = WEIR_GUARANTEE_MAX),
	KEY("quality_min", NUMBER, quality_min,
	    "the lowest quality that a backend is asked for before and while some are turned away; 1: "
	    "always the best; default 0.1",
	    .min = .001, .max = 1),
	KEY("own", NUMBER, own,
	    "a request that takes longer than the target by itself is held to the target and this many times "
	    "the excess; default 5",
	    .min = WEIR_REMOTE_OWN_MIN, .max = WEIR_REMOTE_OWN_MAX),
	{0},
};

static void value_defaults(void *params)
{
	weir_value_params *p = params;
	p->percentile = .9;
	p->quality_min = WEIR_QUALITY_LEAST;
	p->own = weir_remote_usual.own;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		p->revenue[k] = 1;
}

static int init_remote(weir_remote *r, const weir_value_params *p, const char **ret_wrong)
{
	weir_remote_tuning tuning = p->tuning != NULL ? *p->tuning : weir_remote_usual;
	weir_adaptive_remote_params remote = {
		.percentile = p->percentile, .quality_min = p->quality_min, .own = p->own, .tuning = &tuning};
	memcpy(remote.target_ns, p->target_ns, sizeof(remote.target_ns));
	memcpy(remote.guaranteed_per_s, p->guaranteed_per_s, sizeof(remote.guaranteed_per_s));
	if (p->tuning == NULL && p->own > 0)
		tuning.own = p->own;
	/* The percentile would allow more to be late than one wants to lose. */
	if (p->percentile < 1)
		tuning.margin = fmin(tuning.margin, LATE_MOST / (1 - p->percentile));
	return weir_remote_init(r, &remote, ret_wrong);
}

static int value_init(void *state, const void *params, const char **ret_wrong)
{
	weir_value *v = state;
	const weir_value_params *p = params;
	if (p == NULL) {
		*ret_wrong = "parameters are required (weir_value_params)";
		return -EINVAL;
	}
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (!(p->revenue[k] >= 0 && p->revenue[k] <= REVENUE_MAX)) {
			*ret_wrong = "revenue must be a number from 0 to 1000000000000";
			return -EINVAL;
		}
	memset(v, 0, sizeof(*v));
	int failed = init_remote(&v->remote, p, ret_wrong);
	if (failed != 0)
		return failed;
	v->remote.mix_changes = true;
	v->late_usual = (1 - p->percentile) * (p->tuning != NULL ? p->tuning : &weir_remote_usual)->margin;
	v->remote.late_most = v->late_usual;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		v->dearest = fmax(v->dearest, v->revenue[k] = p->revenue[k]);
	weir_knapsack_init(&v->knapsack);
	return 0;
}

/* ---- work ---- */

static double typical_us(const weir_value *v, unsigned klass)
{
	double us = atomic_load_explicit(&v->typical_us[klass], memory_order_relaxed);
	return us > 0 ? us : COST_UNKNOWN;
}

static void add(amount *to, uint64_t cost_us, int32_t count)
{
	if (cost_us == 0)
		atomic_fetch_add_explicit(&to->unknown, count, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&to->us, count > 0 ? (int64_t)cost_us : -(int64_t)cost_us,
					  memory_order_relaxed);
}

static double work_us(const weir_value *v, const amount *of, unsigned klass)
{
	double us = (double)atomic_load_explicit(&of->us, memory_order_relaxed) +
		    typical_us(v, klass) * atomic_load_explicit(&of->unknown, memory_order_relaxed);
	return us > 0 ? us : 0;
}

/* The work before a new request: what waits here, and what the backend has. */
static double ahead_us(const weir_value *v)
{
	const weir_remote *r = &v->remote;
	int32_t all = atomic_load_explicit(&r->serving, memory_order_relaxed), alive = weir_remote_serving(r);
	double waiting = 0, serving = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		waiting += work_us(v, &v->waiting[k], k);
		serving += work_us(v, &v->serving[k], k);
	}
	/* Requests that may never end do not count. */
	if (all > alive)
		serving *= (double)alive / all;
	return waiting +
	       fmin(atomic_load_explicit(&r->told_gamma, memory_order_relaxed), TAIL_MOST) * serving;
}

static double cost_of(const weir_value *v, const weir_ask *ask, unsigned klass)
{
	return ask->cost != 0 ? (double)ask->cost : typical_us(v, klass) * ask->count;
}

/* How much more an ask costs per revenue than the dearest there can be: a us for the highest revenue. */
static double times_of(const weir_value *v, const weir_ask *ask, unsigned klass, double cost_us)
{
	return v->revenue[klass] > 0 ? v->dearest * cost_us / (v->revenue[klass] * ask->count) : INFINITY;
}

/* ---- admission ---- */

static bool fits(weir_value *v, const weir_ask *ask, unsigned klass, double cost_us, double share)
{
	weir_remote *r = &v->remote;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	double room_us = atomic_load_explicit(&v->room_us[klass], memory_order_relaxed);
	if (atomic_load_explicit(&r->dry_run, memory_order_relaxed))
		return weir_remote_fits_shadow(r, ask, klass, share * limit);
	double ahead = ahead_us(v), room = weir_remote_room(r, ask, klass, room_us);
	if (ahead + cost_us <= share * room || ahead <= 0 || weir_remote_is_calm(r, ask->count)) {
		weir_remote_earn(r, ask->count);
		return true;
	}
	double mean = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
	weir_remote_note(r, klass, ahead + cost_us, share * room);
	return share >= 1 && ahead <= room + fmax(room, ABOVE_LEAST * mean) &&
	       weir_remote_spend(r, klass, ask->count);
}

static weir_verdict judge(weir_value *v, const weir_ask *ask, unsigned klass)
{
	weir_remote *r = &v->remote;
	double cost_us = cost_of(v, ask, klass);
	if (weir_guarantee_take_all(&r->guaranteed[klass], ask->now_ns, ask->count)) {
		weir_knapsack_first(&v->knapsack, (uint64_t)cost_us);
		return WEIR_ADMITTED;
	}
	unsigned bucket = weir_knapsack_bucket(times_of(v, ask, klass, cost_us));
	weir_knapsack_offer(&v->knapsack, bucket, (uint64_t)cost_us);
	double share = weir_knapsack_share(&v->knapsack, bucket);
	if (share > 0 && fits(v, ask, klass, cost_us, share))
		return WEIR_ADMITTED;
	atomic_fetch_add_explicit(&v->refused_us, (uint64_t)cost_us, memory_order_relaxed);
	if (share < 1)
		atomic_fetch_add_explicit(&v->refused[klass], ask->count, memory_order_relaxed);
	if (share > 0)
		weir_remote_refused(r, klass, ask->count);
	return share < 1 ? WEIR_SHED_PRICE : WEIR_SHED_LATE;
}

static weir_verdict value_admit(void *state, const weir_ask *ask)
{
	weir_value *v = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	if (ask->cost != 0) {
		atomic_fetch_add_explicit(&v->known_us[klass], ask->cost, memory_order_relaxed);
		atomic_fetch_add_explicit(&v->known[klass], ask->count, memory_order_relaxed);
	}
	if (atomic_load_explicit(&v->room_us[klass], memory_order_relaxed) > 0) {
		weir_verdict verdict = judge(v, ask, klass);
		if (verdict != WEIR_ADMITTED)
			return verdict;
	}
	weir_remote_enter_queue(&v->remote, klass, ask->count);
	add(&v->waiting[klass], ask->cost, (int32_t)ask->count);
	return WEIR_ADMITTED;
}

static void value_refund(void *state, const weir_ask *ask)
{
	weir_value *v = state;
	weir_remote_refund(&v->remote, ask);
	add(&v->waiting[ask->klass % WEIR_CLASSES], ask->cost, -(int32_t)ask->count);
}

static void value_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_value *v = state;
	weir_remote_gone(&v->remote, event, now_ns);
	add(&v->waiting[event->klass % WEIR_CLASSES], event->cost, -1);
}

static weir_verdict value_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_value *v = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	add(&v->waiting[klass], event->cost, -1);
	add(&v->serving[klass], event->cost, 1);
	return weir_remote_start(&v->remote, event, turn);
}

static void value_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_value *v = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	uint64_t us = event->cost != 0 ? event->cost : (uint64_t)typical_us(v, klass);
	weir_remote_settle(&v->remote, event, outcome, now_ns);
	add(&v->serving[klass], event->cost, -1);
	if (outcome != WEIR_DONE)
		return;
	atomic_fetch_add_explicit(&v->done_us, us, memory_order_relaxed);
	atomic_fetch_add_explicit(&v->done, 1, memory_order_relaxed);
}

/* ---- the tick ---- */

static double since(const _Atomic uint64_t *counter, uint64_t *seen)
{
	uint64_t now = atomic_load_explicit(counter, memory_order_relaxed), more = now - *seen;
	*seen = now;
	return (double)more;
}

/* Events that the law was not asked about make its count of waiting work drift. An empty queue has none. */
static void correct_waiting(weir_value *v, const weir_sample *sample)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		bool below = atomic_load_explicit(&v->waiting[k].us, memory_order_relaxed) < 0;
		if (sample->waiting == 0 || below)
			atomic_store_explicit(&v->waiting[k].us, 0, memory_order_relaxed);
		below = atomic_load_explicit(&v->waiting[k].unknown, memory_order_relaxed) < 0;
		if (sample->waiting == 0 || below)
			atomic_store_explicit(&v->waiting[k].unknown, 0, memory_order_relaxed);
	}
}

/* An average over about `over` samples, after count more with this mean. */
static double average(double now, double mean, double count, double over)
{
	return now > 0 ? now + (1 - pow(1 - 1 / over, count)) * (mean - now) : mean;
}

/* What requests of unknown cost are taken to cost: the mean of their class. */
static void learn_costs(weir_value *v)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double us = since(&v->known_us[k], &v->seen_known_us[k]);
		double known = since(&v->known[k], &v->seen_known[k]);
		if (known > 0)
			atomic_store_explicit(
				&v->typical_us[k],
				average(atomic_load_explicit(&v->typical_us[k], memory_order_relaxed),
					us / known, known, COST_OVER),
				memory_order_relaxed);
	}
}

/* The mean cost of the answers, over as many as the rate is: their product is the work that is done. */
static double learn_done(weir_value *v)
{
	weir_remote *r = &v->remote;
	double us = since(&v->done_us, &v->seen_done_us), count = since(&v->done, &v->seen_done);
	double target_s = (double)weir_remote_least_target_ns(r) / 1e9;
	double over = fmax(r->tuning.enough, r->tuning.window * r->rate * target_s);
	double mean = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
	if (count > 0)
		atomic_store_explicit(&v->mean_us, average(mean, us / count, count, over),
				      memory_order_relaxed);
	return us;
}

static void set_rooms(weir_value *v)
{
	const weir_remote *r = &v->remote;
	double beta = exp((double)atomic_load_explicit(&r->beta, memory_order_relaxed));
	double mean_us = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
	bool open = atomic_load_explicit(&r->limit[0], memory_order_relaxed) == WEIR_REMOTE_OPEN;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		double fit = fmax(beta * r->rate * weir_remote_bound_ns(r, k) / 1e9, 1);
		atomic_store_explicit(&v->room_us[k], open ? 0 : fmax(fit * mean_us, 1),
				      memory_order_relaxed);
	}
}

static double filled(const weir_value *v)
{
	double room = atomic_load_explicit(&v->room_us[0], memory_order_relaxed);
	return room > 0 ? ahead_us(v) / room : 0;
}

/*
 * What is done while the backend is full is its capacity. If it is not full, more can be done. If the room
 * is fuller than the marginal price may fill it, the price is too low.
 */
static void set_price(weir_value *v, double s, double done_us)
{
	const weir_remote *r = &v->remote;
	double target_s = (double)weir_remote_least_target_ns(r) / 1e9;
	double over_s = fmax(MEMORY_S, fmax(MEMORY * target_s, MEMORY_COUNT / fmax(r->rate, 1e-3)));
	double keep = exp(-s / over_s);
	weir_knapsack_count(&v->knapsack, keep);
	v->done_lately = keep * v->done_lately + done_us;
	v->refused_lately = keep * v->refused_lately + since(&v->refused_us, &v->seen_refused_us);
	v->time_lately = keep * v->time_lately + s;
	v->filled_lately = keep * v->filled_lately + s * fmin(filled(v), 2);
	double fill = v->filled_lately / v->time_lately;
	double capacity = v->done_lately * (1 + GAIN * fmin(fmax(PART - fill, -1), 1));
	/* A healthy service whose room was full for a moment has no price: nobody has to be chosen. */
	double offered = weir_knapsack_offered(&v->knapsack);
	bool scarce = v->refused_lately > SCARCE * offered;
	weir_knapsack_fill(&v->knapsack, scarce ? capacity : INFINITY, PART);
	/* Where others would take the place of those that are late, few may be. A healthy service is left alone. */
	bool overload = offered > OVERLOAD * v->done_lately;
	v->remote.late_most = !scarce ? v->late_usual : (1 - v->remote.aimed) * (overload ? LATE_PART : 1);
	atomic_store_explicit(&v->told_capacity, capacity / v->time_lately / 1e6, memory_order_relaxed);
	atomic_store_explicit(&v->told_price,
			      v->knapsack.marginal == WEIR_KNAPSACK_BUCKETS
				      ? 0
				      : 1e6 * v->dearest / weir_knapsack_times(v->knapsack.marginal),
			      memory_order_relaxed);
}

static void clear_price(weir_value *v)
{
	weir_knapsack_clear(&v->knapsack);
	v->done_lately = v->refused_lately = v->time_lately = v->filled_lately = 0;
	v->told_price = v->told_capacity = 0;
	v->remote.late_most = v->late_usual;
}

/* Whether some were refused for their price: then the limit stays in force. */
static bool was_outbid(weir_value *v)
{
	uint32_t outbid = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint32_t now = atomic_load_explicit(&v->refused[k], memory_order_relaxed);
		outbid |= (uint32_t)(now != v->seen_refused[k]) << k;
		v->seen_refused[k] = now;
	}
	atomic_store_explicit(&v->outbid, outbid, memory_order_relaxed);
	return outbid != 0;
}

static void value_tick(void *state, const weir_sample *sample)
{
	weir_value *v = state;
	correct_waiting(v, sample);
	learn_costs(v);
	double done_us = learn_done(v);
	v->remote.held = was_outbid(v);
	weir_remote_tick(&v->remote, sample);
	set_rooms(v);
	if (atomic_load_explicit(&v->room_us[0], memory_order_relaxed) > 0)
		set_price(v, (double)sample->interval_ns / 1e9, done_us);
	else
		clear_price(v);
}

/* ---- reading ---- */

static void value_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_value *v = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	weir_remote_explain(&v->remote, ask, ret_why);
	if (ret_why->verdict == WEIR_SHED_PRICE) /* decided by worth and price */
		ret_why->estimate_ns = ret_why->bound_ns = 0;
	ret_why->price = atomic_load_explicit(&v->told_price, memory_order_relaxed);
	ret_why->worth = 1e6 * v->revenue[klass] * ask->count / cost_of(v, ask, klass);
}

static void value_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_value *v = state;
	weir_remote_report(&v->remote, klass, ret_report);
	klass %= WEIR_CLASSES;
	ret_report->shedding |= atomic_load_explicit(&v->outbid, memory_order_relaxed) >> klass & 1;
	double typical = v->dearest * typical_us(v, klass) / fmax(v->revenue[klass], v->dearest * 1e-12);
	ret_report->count = 0; /* instead of those of adaptive-remote */
	weir_report_add(ret_report, "limited",
			atomic_load_explicit(&v->remote.limited, memory_order_relaxed));
	weir_report_add(ret_report, "price", atomic_load_explicit(&v->told_price, memory_order_relaxed));
	weir_report_add(ret_report, "worth", 1e6 * v->revenue[klass] / typical_us(v, klass));
	weir_report_add(ret_report, "share",
			weir_knapsack_share(&v->knapsack, weir_knapsack_bucket(typical)));
	weir_report_add(ret_report, "capacity",
			atomic_load_explicit(&v->told_capacity, memory_order_relaxed));
	weir_report_add(ret_report, "filled", filled(v));
	weir_report_add(ret_report, "slowdown",
			exp(atomic_load_explicit(&v->remote.told_slowdown, memory_order_relaxed)));
	weir_report_add(ret_report, "backend_limit",
			atomic_load_explicit(&v->remote.cap, memory_order_relaxed));
}

const weir_admission_law weir_law_value = {
	.name = "value",
	.brief = "as adaptive-remote, and who earns most per unit of work comes first",
	.state_bytes = sizeof(weir_value),
	.params_bytes = sizeof(weir_value_params),
	.params = params_table,
	.defaults = value_defaults,
	.tick_ns = WEIR_REMOTE_TICK_NS,
	.init = value_init,
	.admit = value_admit,
	.refund = value_refund,
	.start = value_start,
	.gone = value_gone,
	.settle = value_settle,
	.tick = value_tick,
	.limit = weir_remote_limit,
	.patience = weir_remote_patience,
	.quality = weir_remote_quality,
	.explain = value_explain,
	.report = value_report,
	.save = weir_remote_save,
	.load = weir_remote_load,
	.calm = weir_remote_calm,
	.retarget = weir_remote_retarget,
};
