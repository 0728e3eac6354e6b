/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default law in front of a remote backend whose workers, queue and discipline are unknown. The user
 * gives a percentile and a time.
 *
 *  admit    admits everything while there is no evidence that the backend is saturated; then at most as
 *           many as fit: by Little's law, the number inside (here and in the backend) bounds the
 *           response time
 *  limit    how many the backend gets at once; the others wait here, where they can be ordered by class
 *  start    notes how many requests it meets in the backend; it refuses none: an admitted request is
 *           answered
 *  settle   learns from the answer: slow or not, late or not, and how many completed during its stay
 *  tick     computes the numbers that the other hooks only compare with (remote_tick.c)
 *
 * One state serves all threads. Invariants: each event that was counted in is counted out exactly once;
 * `limit` is never 0.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/remote.h"

#define TARGET_MIN_NS WEIR_NS_PER_US
#define TARGET_MAX_NS (3600 * WEIR_NS_PER_S)
#define MINIMUM_MAX   .5
#define MINIMUM_USUAL .01
#define DUE_BURST     4 /* up to this many unused starts of a minimum may be made up for */
/* Part of the limit for a request that had spent its target before it came here. */
#define LEFT_LEAST  .125
#define ABOVE_LEAST 8. /* requests that a credit may admit above the limit, however small the limit is */
#define ALONE       (UINT64_C(1) << 63) /* in the note: it met so few that its time is its own */
#define COST_PART   .1f                 /* weight of one request in the average of its kind */
#define LN_SCALE    1000                /* scale of sums of logarithms */

const weir_remote_tuning weir_remote_usual = {
	.first = 16,
	.slow = 1.5,
	.sure = 3,
	.base = 256,
	.margin = .75,
	.credit = 128,
	.headroom = .1,
	.own = 5,
	.grow = 1.3,
	.window = .5,
	.enough = 30,
	.lift_s = 2,
	.lift = 10,
	.step = .05,
};

/* ---- parameters ---- */

static const weir_key params_table[] = {
	{.name = "percentile",
	 .type = WEIR_KEY_PERCENTILE,
	 .offset = offsetof(weir_adaptive_remote_params, percentile),
	 .min = .5,
	 .max = .999,
	 .help = "The share of the answers that should come within the target"},
	{.name = "target",
	 .type = WEIR_KEY_TIME,
	 .offset = offsetof(weir_adaptive_remote_params, target_ns),
	 .flags = WEIR_KEY_PER_CLASS | WEIR_KEY_REQUIRED,
	 .min = (double)TARGET_MIN_NS,
	 .max = (double)TARGET_MAX_NS,
	 .help = "The response time to hold, with waiting. Other classes than 0: by default as the class "
		 "above"},
	{.name = "minimum",
	 .type = WEIR_KEY_NUMBER,
	 .offset = offsetof(weir_adaptive_remote_params, minimum),
	 .flags = WEIR_KEY_PER_CLASS,
	 .min = 0,
	 .max = MINIMUM_MAX,
	 .help = "The share of the starts that a class keeps however many requests of higher classes come"},
	{.name = "quality_min",
	 .type = WEIR_KEY_NUMBER,
	 .offset = offsetof(weir_adaptive_remote_params, quality_min),
	 .min = .001,
	 .max = 1,
	 .help = "The lowest quality that a backend is asked for before and while requests are rejected; 1: "
		 "always the best"},
	{0},
};

static void remote_defaults(void *params)
{
	weir_adaptive_remote_params *p = params;
	p->percentile = .9;
	p->quality_min = WEIR_QUALITY_LEAST;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		p->minimum[k] = MINIMUM_USUAL;
}

static int wrong(const char **ret_wrong, const char *what)
{
	*ret_wrong = what;
	return -EINVAL;
}

static int check(const weir_adaptive_remote_params *p, const char **ret_wrong)
{
	if (p == NULL)
		return wrong(ret_wrong, "parameters are required (weir_adaptive_remote_params)");
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return wrong(ret_wrong, "percentile must be from p50 to p99.9");
	if (p->target_ns[0] == 0)
		return wrong(ret_wrong, "target is required, such as 200ms");
	if (!(p->quality_min >= 0 && p->quality_min <= 1))
		return wrong(ret_wrong, "quality_min must be above 0 and at most 1, or 0 for 0.1");
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		if (p->target_ns[k] != 0 &&
		    (p->target_ns[k] < TARGET_MIN_NS || p->target_ns[k] > TARGET_MAX_NS))
			return wrong(ret_wrong, "target must be from 1us to 1h");
		if (!(p->minimum[k] >= 0 && p->minimum[k] <= MINIMUM_MAX))
			return wrong(ret_wrong, "minimum must be a share from 0 to .5");
	}
	return 0;
}

/* A time slot is an eighth of the target, and no shorter than a tick. */
static unsigned age_shift(uint64_t target_ns)
{
	unsigned shift = 20;
	while ((UINT64_C(1) << shift) < target_ns / 8 || (UINT64_C(1) << shift) < WEIR_REMOTE_TICK_NS)
		shift++;
	return shift;
}

static void remote_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	weir_remote *r = state;
	uint64_t least_ns = UINT64_MAX;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		atomic_store_explicit(&r->target_ns[k], target_ns[k], memory_order_relaxed);
		least_ns = target_ns[k] < least_ns ? target_ns[k] : least_ns;
	}
	atomic_store_explicit(&r->least_target_ns, least_ns, memory_order_relaxed);
}

static int remote_init(void *state, const void *params, const char **ret_wrong)
{
	weir_remote *r = state;
	const weir_adaptive_remote_params *p = params;
	int failed = check(p, ret_wrong);
	if (failed != 0)
		return failed;
	memset(r, 0, sizeof(*r));
	r->tuning = p->tuning != NULL ? *p->tuning : weir_remote_usual;
	r->quantile = p->percentile;
	r->aimed = 1 - r->tuning.margin * (1 - p->percentile);
	uint64_t target_ns[WEIR_CLASSES];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		target_ns[k] = p->target_ns[k] != 0 ? p->target_ns[k] : target_ns[k - 1];
		r->minimum[k] = p->minimum[k];
		atomic_init(&r->limit[k], WEIR_REMOTE_OPEN);
		weir_degrade_init(&r->degrade[k]);
	}
	r->quality_least = p->quality_min > 0 ? p->quality_min : WEIR_QUALITY_LEAST;
	remote_retarget(r, target_ns);
	r->age_shift = age_shift(target_ns[0]);
	r->cap_now = r->tuning.first;
	atomic_init(&r->cap, (uint32_t)r->tuning.first);
	atomic_init(&r->told_gamma, 1);
	atomic_init(&r->own_top, -1);
	atomic_init(&r->floor, 1);
	r->base = INFINITY;
	atomic_init(&r->credit, (int64_t)(1000 * r->tuning.credit));
	return 0;
}

/* ---- admission ---- */

/* The clocks of two threads may differ a little, so a turn may come with a time from before the offer. */
static uint64_t span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Takes one start of a class's minimum, if one is due. */
static bool take_due(weir_remote *r, unsigned klass, uint64_t now_ns)
{
	uint64_t every_ns = atomic_load_explicit(&r->due_every_ns[klass], memory_order_relaxed), then;
	uint64_t next_ns = atomic_load_explicit(&r->due_next_ns[klass], memory_order_relaxed);
	if (every_ns == 0)
		return false;
	do {
		if (next_ns > now_ns)
			return false;
		uint64_t first_ns = now_ns > DUE_BURST * every_ns ? now_ns - DUE_BURST * every_ns : 0;
		then = (next_ns > first_ns ? next_ns : first_ns) + every_ns;
	} while (!atomic_compare_exchange_weak_explicit(&r->due_next_ns[klass], &next_ns, then,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Requests that fit earn the share that may be late. */
static void earn(weir_remote *r, uint32_t count)
{
	if (atomic_load_explicit(&r->credit, memory_order_relaxed) < (int64_t)(1000 * r->tuning.credit))
		atomic_fetch_add_explicit(&r->credit, (int64_t)((1 - r->quantile) * 1000 * count),
					  memory_order_relaxed);
}

/* Half of the credit is reserved for the highest class present. */
static bool spend(weir_remote *r, unsigned klass, uint32_t count)
{
	int64_t price = (int64_t)count * 1000, had = atomic_load_explicit(&r->credit, memory_order_relaxed);
	bool top = klass <= atomic_load_explicit(&r->top_class, memory_order_relaxed);
	int64_t kept = top ? 0 : (int64_t)(500 * r->tuning.credit);
	while (had >= price + kept)
		if (atomic_compare_exchange_weak_explicit(&r->credit, &had, had - price, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

/* The limit for a request that has spent some of its target before it came here. */
static double room_for(const weir_remote *r, const weir_ask *ask, unsigned klass, uint32_t limit)
{
	double spent = ask->entered_ns != 0 ? (double)span(ask->entered_ns, ask->now_ns) : 0;
	return limit * fmax(1 - spent / weir_remote_bound_ns(r, klass), LEFT_LEAST);
}

/*
 * In a dry run everybody is inside, including those who would have been refused. So the requests that
 * would have been admitted queue in a model of the backend, which serves them one after the other at the
 * measured rate.
 */
static bool fits_shadow(weir_remote *r, const weir_ask *ask, unsigned klass, uint32_t limit)
{
	double rate = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	uint64_t ends_ns = atomic_load_explicit(&r->shadow_ns, memory_order_relaxed), then_ns;
	do {
		uint64_t from_ns = ends_ns > ask->now_ns ? ends_ns : ask->now_ns;
		double ahead = (double)(from_ns - ask->now_ns) * rate / 1e9;
		if (ahead + ask->count > room_for(r, ask, klass, limit) && ahead > 0)
			return false;
		then_ns = from_ns + (uint64_t)(ask->count / rate * 1e9);
	} while (!atomic_compare_exchange_weak_explicit(&r->shadow_ns, &ends_ns, then_ns,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Whether this many more inside would slow nobody down. */
static bool is_calm(const weir_remote *r, uint32_t more)
{
	int64_t inside = (int64_t)more + weir_remote_serving(r);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		inside += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
	return inside <= (int64_t)atomic_load_explicit(&r->floor, memory_order_relaxed);
}

static bool fits(weir_remote *r, const weir_ask *ask, unsigned klass, uint32_t limit)
{
	if (atomic_load_explicit(&r->dry_run, memory_order_relaxed))
		return fits_shadow(r, ask, klass, limit);
	double ahead = weir_remote_ahead(r, klass, limit), room = room_for(r, ask, klass, limit);
	if (ahead + ask->count <= room || ahead <= 0 || is_calm(r, ask->count)) {
		earn(r, ask->count);
		return true;
	}
	if (ahead <= room + fmax(room, ABOVE_LEAST) && spend(r, klass, ask->count))
		return true;
	return ask->count == 1 && take_due(r, klass, ask->now_ns);
}

static weir_verdict remote_admit(void *state, const weir_ask *ask)
{
	weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	if (limit != WEIR_REMOTE_OPEN && !fits(r, ask, klass, limit)) {
		atomic_fetch_add_explicit(&r->shed[klass], ask->count, memory_order_relaxed);
		return WEIR_SHED_LATE;
	}
	atomic_fetch_add_explicit(&r->waiting[klass], (int32_t)ask->count, memory_order_relaxed);
	return WEIR_ADMITTED;
}

static void leave_queue(weir_remote *r, unsigned klass, uint32_t count)
{
	atomic_fetch_sub_explicit(&r->waiting[klass % WEIR_CLASSES], (int32_t)count, memory_order_relaxed);
}

static void remote_refund(void *state, const weir_ask *ask)
{
	leave_queue(state, ask->klass, ask->count);
}

static void remote_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	leave_queue(state, event->klass, 1);
}

/* ---- in the backend ---- */

static uint32_t remote_limit(const void *state)
{
	const weir_remote *r = state;
	int32_t overdue = atomic_load_explicit(&r->overdue, memory_order_relaxed);
	uint32_t cap = atomic_load_explicit(&r->cap, memory_order_relaxed);
	/* Requests that may never end do not take the places of others. */
	return overdue > 0 ? cap + (uint32_t)overdue : cap;
}

/* The counter for requests that were started at that time. */
static _Atomic int32_t *age_of(weir_remote *r, uint64_t started_ns)
{
	uint64_t stretch = started_ns >> r->age_shift;
	if (stretch < atomic_load_explicit(&r->oldest, memory_order_relaxed))
		return &r->overdue;
	return &r->age[stretch % WEIR_REMOTE_AGES];
}

static uint64_t met_by(const weir_event *event)
{
	return event->note[1] & ~ALONE;
}

/* The note holds how many had completed before it, and how many it meets, itself included. */
static weir_verdict remote_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_remote *r = state;
	leave_queue(r, event->klass, 1);
	atomic_fetch_add_explicit(&r->serving, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->serving_of[event->klass % WEIR_CLASSES], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(age_of(r, turn->now_ns), 1, memory_order_relaxed);
	int32_t met = weir_remote_serving(r);
	turn->note[0] = atomic_load_explicit(&r->done, memory_order_relaxed);
	turn->note[1] = met > 1 ? (uint64_t)met : 1;
	unsigned level = weir_remote_level_of(turn->note[1]);
	atomic_fetch_add_explicit(&r->level[level].started, 1, memory_order_relaxed);
	if ((int32_t)level <= atomic_load_explicit(&r->own_top, memory_order_relaxed))
		turn->note[1] |= ALONE;
	return WEIR_ADMITTED;
}

/* Follows a quantile by steps: up by step x q when a value is above it, down by step x (1 - q) otherwise. */
static void follow(_Atomic float *quantile, double q, double step, float value)
{
	float now = atomic_load_explicit(quantile, memory_order_relaxed);
	now += (float)(value > now ? step * q : -step * (1 - q));
	atomic_store_explicit(quantile, now, memory_order_relaxed);
}

static bool is_slow(weir_remote *r, unsigned mark, float took)
{
	float slow_from = atomic_load_explicit(&r->slow_from[mark], memory_order_relaxed);
	if (slow_from == 0 || !(took > slow_from))
		return false;
	atomic_fetch_add_explicit(&r->slowed[mark], 1, memory_order_relaxed);
	return true;
}

/* The rate that a slow or late request saw: while it was inside, the backend was fully loaded. */
static void judge_slow(weir_remote *r, uint64_t took_ns, uint64_t met, double completions)
{
	float took = logf((float)took_ns + 1);
	bool slow = is_slow(r, 1, took);
	is_slow(r, 0, took);
	is_slow(r, 2, took);
	if (met <= WEIR_REMOTE_FEW || (!slow && took_ns < weir_remote_least_target_ns(r)))
		return;
	atomic_fetch_add_explicit(&r->rated, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->rates_ln, (int64_t)((log(completions) - (double)took) * LN_SCALE),
				  memory_order_relaxed);
}

static void judge_late(weir_remote *r, unsigned klass, unsigned kind, uint64_t whole_ns)
{
	bool late = (double)whole_ns > weir_remote_target_ns(r, klass, kind);
	if (whole_ns > weir_remote_plain_target_ns(r, klass))
		atomic_fetch_add_explicit(&r->plainly_late, 1, memory_order_relaxed);
	if (late)
		atomic_fetch_add_explicit(&r->kind[kind].late, 1, memory_order_relaxed);
}

static void learn_measured(weir_remote *r, uint64_t response_ns)
{
	float took = logf((float)response_ns + 1);
	if (atomic_load_explicit(&r->measured, memory_order_relaxed) == 0)
		atomic_store_explicit(&r->measured, took, memory_order_relaxed);
	follow(&r->measured, r->quantile, r->tuning.step, took);
}

/* How long requests of the kind are expected to take: their own time, until that has been measured. */
static void learn_cost(weir_remote_kind *kind, float cost_ns)
{
	float now = atomic_load_explicit(&kind->cost_ns, memory_order_relaxed);
	atomic_store_explicit(&kind->cost_ns, now == 0 ? cost_ns : now + COST_PART * (cost_ns - now),
			      memory_order_relaxed);
}

static void answered(weir_remote *r, const weir_event *event, uint64_t now_ns)
{
	uint64_t took_ns = span(event->started_ns, now_ns);
	unsigned at = weir_remote_kind_of(event->cost);
	weir_remote_kind *kind = &r->kind[at];
	uint64_t done = atomic_fetch_add_explicit(&r->done, 1, memory_order_relaxed) + 1;
	double completions = (double)(done - event->note[0]);
	weir_times_add(&r->level[weir_remote_level_of(met_by(event))].times, took_ns);
	weir_times_add(&r->recent, took_ns);
	if ((event->note[1] & ALONE) != 0)
		weir_times_add(&kind->own, took_ns);
	atomic_fetch_add_explicit(&kind->answers, 1, memory_order_relaxed);
	learn_cost(kind, 1e3f * (float)event->cost);
	judge_slow(r, took_ns, met_by(event), completions);
	judge_late(r, event->klass % WEIR_CLASSES, at, span(event->entered_ns, now_ns));
	learn_measured(r, span(event->offered_ns, now_ns));
	/* With few inside, requests take their own time, which does not grow with the number inside. */
	if (atomic_load_explicit(&r->congested, memory_order_relaxed) && met_by(event) > WEIR_REMOTE_FEW &&
	    met_by(event) > atomic_load_explicit(&r->floor, memory_order_relaxed))
		follow(&r->gamma, r->aimed, r->tuning.step,
		       logf((float)(completions / (double)met_by(event))));
	atomic_fetch_add_explicit(&r->backend_us, took_ns / 1000, memory_order_relaxed);
}

/* Failures and refusals teach nothing: fast ones are no sign of health, slow ones no sign of load. */
static void remote_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_remote *r = state;
	if (outcome == WEIR_DONE)
		answered(r, event, now_ns);
	atomic_fetch_add_explicit(&r->level[weir_remote_level_of(met_by(event))].ended, 1,
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving_of[event->klass % WEIR_CLASSES], 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(age_of(r, event->started_ns), 1, memory_order_relaxed);
}

/* ---- reading ---- */

/* Drops only hopeless requests: twice their target old, while far more are late than may be. */
static uint64_t remote_patience(const void *state, unsigned klass)
{
	const weir_remote *r = state;
	return atomic_load_explicit(&r->strict, memory_order_relaxed)
		       ? 2 * (uint64_t)weir_remote_bound_ns(r, klass % WEIR_CLASSES)
		       : UINT64_MAX;
}

static double remote_quality(const void *state, unsigned klass)
{
	return weir_degrade_factor(&((const weir_remote *)state)->degrade[klass % WEIR_CLASSES]);
}

static bool remote_calm(const void *state)
{
	const weir_remote *r = state;
	return !atomic_load_explicit(&r->congested, memory_order_relaxed) &&
	       !atomic_load_explicit(&r->limited, memory_order_relaxed);
}

/* The numbers behind the decision: by how much the number inside would exceed what fits into the target. */
static void remote_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	double rate = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	double target_ns = weir_remote_bound_ns(r, klass);
	ret_why->target_ns = (uint64_t)target_ns;
	if (limit == WEIR_REMOTE_OPEN || !(rate > 0))
		return;
	double room = room_for(r, ask, klass, limit),
	       wanted = weir_remote_ahead(r, klass, limit) + ask->count;
	ret_why->estimate_ns = (uint64_t)(target_ns * fmax(wanted / room, 1)) + 1;
	ret_why->retry_after_ns = (uint64_t)(fmax(wanted - room, 1) / rate * 1e9);
}

/* At the target's percentile; until that has been measured, the typical time. */
static uint64_t alone_ns(const weir_remote *r)
{
	unsigned kind = atomic_load_explicit(&r->binding, memory_order_relaxed);
	uint64_t own_ns = atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed);
	return own_ns != 0 ? own_ns : (uint64_t)atomic_load_explicit(&r->told_base_ns, memory_order_relaxed);
}

static void remote_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_remote *r = state;
	klass %= WEIR_CLASSES;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	ret_report->quantile = r->quantile;
	ret_report->target_ns = weir_remote_plain_target_ns(r, klass);
	ret_report->measured_ns =
		(uint64_t)expf(atomic_load_explicit(&r->measured, memory_order_relaxed)) - 1;
	ret_report->alone_ns = alone_ns(r);
	ret_report->rate_per_s = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	ret_report->limit = limit == WEIR_REMOTE_OPEN ? 0 : limit;
	ret_report->quality = remote_quality(r, klass);
	ret_report->shedding = atomic_load_explicit(&r->shedding, memory_order_relaxed) >> klass & 1;
	ret_report->unreachable = atomic_load_explicit(&r->unreachable, memory_order_relaxed);
	const struct {
		const char *name;
		double value;
	} values[] = {
		{"limited", atomic_load_explicit(&r->limited, memory_order_relaxed)},
		{"slowdown", exp(atomic_load_explicit(&r->told_slowdown, memory_order_relaxed))},
		{"base_ms", atomic_load_explicit(&r->told_base_ns, memory_order_relaxed) / 1e6},
		{"inside", weir_remote_ahead(r, klass, WEIR_REMOTE_OPEN)},
		{"backend_limit", atomic_load_explicit(&r->cap, memory_order_relaxed)},
		{"tail", atomic_load_explicit(&r->told_gamma, memory_order_relaxed)},
		{"caution", exp((double)atomic_load_explicit(&r->beta, memory_order_relaxed))},
		{"credit", (double)atomic_load_explicit(&r->credit, memory_order_relaxed) / 1000},
	};
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		ret_report->value[i].name = values[i].name;
		ret_report->value[i].value = values[i].value;
	}
	ret_report->count = sizeof(values) / sizeof(values[0]);
}

/* ---- warm start ---- */

static int remote_save(const void *state, char *text, size_t size)
{
	const weir_remote *r = state;
	double base_ns = atomic_load_explicit(&r->told_base_ns, memory_order_relaxed);
	unsigned kind = atomic_load_explicit(&r->binding, memory_order_relaxed);
	return snprintf(
		text, size, "adaptive-remote 3 rate=%.6g base=%.6g own=%.6g gamma=%.4g beta=%.4g cap=%u",
		atomic_load_explicit(&r->told_rate, memory_order_relaxed), base_ns > 0 ? log(base_ns) : 0,
		(double)atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed),
		atomic_load_explicit(&r->told_gamma, memory_order_relaxed),
		(double)atomic_load_explicit(&r->beta, memory_order_relaxed),
		(unsigned)atomic_load_explicit(&r->cap, memory_order_relaxed));
}

static bool within(double value, double least, double most)
{
	return value >= least && value <= most;
}

/* The base goes to the lowest level. Fewer than one cannot be inside, so no later value is below it. */
static void load_base(weir_remote *r, double base_ln)
{
	weir_remote_level *level = &r->level[0];
	for (unsigned i = 0; i < (unsigned)r->tuning.base; i++)
		weir_times_add(&level->times, (uint64_t)exp(base_ln));
	atomic_store(&level->started, (uint32_t)r->tuning.base);
	atomic_store(&level->ended, (uint32_t)r->tuning.base);
}

static int remote_load(void *state, const char *text)
{
	weir_remote *r = state;
	double rate, base, own, gamma, beta,
		cap; /* doubles, because scanf does not report the overflow of an integer */
	int used = 0;
	if (sscanf(text, "adaptive-remote 3 rate=%lf base=%lf own=%lf gamma=%lf beta=%lf cap=%lf%n", &rate,
		   &base, &own, &gamma, &beta, &cap, &used) != 6 ||
	    (text[used] != 0 && text[used] != '\n'))
		return -EINVAL;
	if (!within(rate, 0, 1e9) || !within(base, 0, 40) || !within(own, 0, 1e15) ||
	    !within(gamma, .001, 1000) ||
	    !within(beta, WEIR_REMOTE_BETA_LEAST - .01, WEIR_REMOTE_BETA_MOST + .01) || !within(cap, 1, 1e9))
		return -EINVAL;
	if (base > 0)
		load_base(r, base);
	r->rate = rate;
	r->rate_seen = rate > 0 ? r->tuning.enough : 0;
	r->rate_ln = rate > 0 ? log(rate / 1e9) * r->rate_seen : 0;
	r->cap_now = fmax(cap, r->tuning.first);
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++)
		atomic_store(&r->kind[i].own_ns, (uint64_t)own);
	atomic_store(&r->gamma, (float)log(gamma));
	atomic_store(&r->told_gamma, gamma);
	atomic_store(&r->beta, (float)beta);
	atomic_store(&r->told_rate, rate);
	atomic_store(&r->cap, (uint32_t)r->cap_now);
	return 0;
}

const weir_admission_law weir_law_adaptive_remote = {
	.name = "adaptive-remote",
	.brief = "requests inside bounded by Little's law, once there is evidence that the backend is "
		 "saturated",
	.state_bytes = sizeof(weir_remote),
	.params_bytes = sizeof(weir_adaptive_remote_params),
	.params = params_table,
	.defaults = remote_defaults,
	.tick_ns = WEIR_REMOTE_TICK_NS,
	.by_class = true,
	.init = remote_init,
	.admit = remote_admit,
	.refund = remote_refund,
	.start = remote_start,
	.gone = remote_gone,
	.settle = remote_settle,
	.tick = weir_remote_tick,
	.limit = remote_limit,
	.patience = remote_patience,
	.quality = remote_quality,
	.explain = remote_explain,
	.report = remote_report,
	.save = remote_save,
	.load = remote_load,
	.calm = remote_calm,
	.retarget = remote_retarget,
};
