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
#include "control/value.h"

#define REVENUE_MAX 1e12
#define LATE_MOST   .02 /* of the answers: what is late earns nothing */
#define FLOOD       .5  /* of the target: wait that is accepted while costs are learnt */
#define TAIL_MOST   1.5 /* large requests among small ones see many answers: that is no queue */
#define ABOVE_LEAST 8.  /* requests of mean cost that a credit may admit above the limit */

/* ---- parameters ---- */

#define KEY(key, kind, field, text, ...)                                                              \
	{                                                                                             \
		.name = (key), .type = WEIR_KEY_##kind, .offset = offsetof(weir_value_params, field), \
		.help = (text), __VA_ARGS__                                                           \
	}

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
	{0},
};

static void value_defaults(void *params)
{
	weir_value_params *p = params;
	p->percentile = .9;
	p->quality_min = WEIR_QUALITY_LEAST;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		p->revenue[k] = 1;
}

static int init_remote(weir_remote *r, const weir_value_params *p, const char **ret_wrong)
{
	weir_remote_tuning tuning = p->tuning != NULL ? *p->tuning : weir_remote_usual;
	weir_adaptive_remote_params remote = {
		.percentile = p->percentile, .quality_min = p->quality_min, .tuning = &tuning};
	memcpy(remote.target_ns, p->target_ns, sizeof(remote.target_ns));
	memcpy(remote.guaranteed_per_s, p->guaranteed_per_s, sizeof(remote.guaranteed_per_s));
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
	memcpy(v->revenue, p->revenue, sizeof(v->revenue));
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		v->dearest = fmax(v->dearest, p->revenue[k]);
	weir_knapsack_init(&v->knapsack);
	weir_calibration_init(&v->calibration);
	return 0;
}

/* ---- work ---- */

static void add(weir_value_work *to, uint64_t cost_us, int32_t count)
{
	if (cost_us == 0)
		atomic_fetch_add_explicit(&to->unknown, count, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&to->us, count > 0 ? (int64_t)cost_us : -(int64_t)cost_us,
					  memory_order_relaxed);
}

static double work_us(const weir_value *v, const weir_value_work *of, unsigned klass)
{
	double us =
		(double)atomic_load_explicit(&of->us, memory_order_relaxed) +
		weir_value_typical_us(v, klass) * atomic_load_explicit(&of->unknown, memory_order_relaxed);
	return us > 0 ? us : 0;
}

double weir_value_ahead_us(const weir_value *v)
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
	return ask->cost != 0 ? (double)ask->cost : weir_value_typical_us(v, klass) * ask->count;
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
	double ahead = weir_value_ahead_us(v), room = weir_remote_room(r, ask, klass, room_us);
	if (ahead + cost_us <= share * room || ahead <= 0 || weir_remote_is_calm(r, ask->count)) {
		weir_remote_earn(r, ask->count);
		return true;
	}
	double mean = atomic_load_explicit(&v->mean_us, memory_order_relaxed);
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
	/* They are what the calibration is for. */
	if (ask->cost == 0 && weir_calibration_is_learning(&v->calibration))
		share = 1;
	if (share > 0 && fits(v, ask, klass, cost_us, share))
		return WEIR_ADMITTED;
	atomic_fetch_add_explicit(&v->refused_us, (uint64_t)cost_us, memory_order_relaxed);
	if (share < 1)
		atomic_fetch_add_explicit(&v->refused[klass], ask->count, memory_order_relaxed);
	if (share > 0)
		weir_remote_refused(r, klass, ask->count);
	return share < 1 ? WEIR_SHED_PRICE : WEIR_SHED_LATE;
}

/* While costs are learnt, answers show no congestion, though more may come than can be done. */
static bool floods(const weir_value *v, unsigned klass)
{
	const weir_remote *r = &v->remote;
	double per_s = (double)atomic_load_explicit(&v->calibration.full_per_s, memory_order_relaxed);
	int32_t inside = atomic_load_explicit(&r->serving, memory_order_relaxed);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		inside += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
	return per_s > 0 && inside > FLOOD * per_s * weir_remote_bound_ns(r, klass) / 1e9;
}

static weir_verdict value_admit(void *state, const weir_ask *ask)
{
	weir_value *v = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	if (ask->cost != 0) {
		atomic_fetch_add_explicit(&v->known_us[klass], ask->cost, memory_order_relaxed);
		atomic_fetch_add_explicit(&v->known[klass], ask->count, memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&v->asked_unknown, ask->count, memory_order_relaxed);
	}
	if (atomic_load_explicit(&v->room_us[klass], memory_order_relaxed) > 0) {
		weir_verdict verdict = judge(v, ask, klass);
		if (verdict != WEIR_ADMITTED)
			return verdict;
	} else if (floods(v, klass)) {
		weir_remote_refused(&v->remote, klass, ask->count);
		return WEIR_SHED_LATE;
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

/*
 * Whether answers show what requests cost. Answers of a backend that does not keep up show how long they
 * waited. If that were taken for costs, times per cost would not show that there is a queue.
 */
static bool value_calm(const void *state)
{
	const weir_value *v = state;
	const weir_remote *r = &v->remote;
	return weir_calibration_is_learning(&v->calibration) ||
	       (weir_remote_calm(r) && atomic_load_explicit(&r->own_top, memory_order_relaxed) >= 0);
}

static void settle_unknown(weir_value *v, unsigned klass, uint64_t took_ns)
{
	atomic_fetch_add_explicit(&v->done_unknown[klass], 1, memory_order_relaxed);
	if (!value_calm(v))
		return;
	atomic_fetch_add_explicit(&v->own_us[klass], took_ns / WEIR_NS_PER_US, memory_order_relaxed);
	atomic_fetch_add_explicit(&v->own[klass], 1, memory_order_relaxed);
}

static void value_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_value *v = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	weir_remote_settle(&v->remote, event, outcome, now_ns);
	add(&v->serving[klass], event->cost, -1);
	if (outcome != WEIR_DONE)
		return;
	if (event->cost != 0)
		atomic_fetch_add_explicit(&v->done_us, event->cost, memory_order_relaxed);
	else
		settle_unknown(v, klass, weir_remote_span(event->started_ns, now_ns));
	atomic_fetch_add_explicit(&v->done, 1, memory_order_relaxed);
}

/* ---- reading ---- */

/* What has waited too long while there was no limit would be late. Under overload another takes its place. */
static uint64_t value_patience(const void *state, unsigned klass)
{
	const weir_value *v = state;
	if ((double)atomic_load_explicit(&v->calibration.full_per_s, memory_order_relaxed) > 0)
		return (uint64_t)(FLOOD * weir_remote_bound_ns(&v->remote, klass % WEIR_CLASSES));
	return weir_remote_patience(&v->remote, klass);
}

static void value_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_value *v = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	double cost_us = cost_of(v, ask, klass);
	weir_remote_explain(&v->remote, ask, ret_why);
	ret_why->price = atomic_load_explicit(&v->told_price, memory_order_relaxed);
	ret_why->worth = 1e6 * v->revenue[klass] * ask->count / cost_us;
}

static void value_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_value *v = state;
	weir_remote_report(&v->remote, klass, ret_report);
	klass %= WEIR_CLASSES;
	ret_report->shedding |= atomic_load_explicit(&v->outbid, memory_order_relaxed) >> klass & 1;
	double typical =
		v->dearest * weir_value_typical_us(v, klass) / fmax(v->revenue[klass], v->dearest * 1e-12);
	ret_report->count = 0; /* instead of those of adaptive-remote */
	weir_report_add(ret_report, "limited",
			atomic_load_explicit(&v->remote.limited, memory_order_relaxed));
	weir_report_add(ret_report, "price", atomic_load_explicit(&v->told_price, memory_order_relaxed));
	weir_report_add(ret_report, "worth", 1e6 * v->revenue[klass] / weir_value_typical_us(v, klass));
	weir_report_add(ret_report, "share",
			weir_knapsack_share(&v->knapsack, weir_knapsack_bucket(typical)));
	weir_report_add(ret_report, "capacity",
			atomic_load_explicit(&v->told_capacity, memory_order_relaxed));
	weir_report_add(ret_report, "filled", weir_value_filled(v));
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
	.tick = weir_value_tick,
	.limit = weir_remote_limit,
	.patience = value_patience,
	.quality = weir_remote_quality,
	.explain = value_explain,
	.report = value_report,
	.save = weir_remote_save,
	.load = weir_remote_load,
	.calm = value_calm,
	.retarget = weir_remote_retarget,
};
