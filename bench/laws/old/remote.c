/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default law before a remote backend whose workers, queue and discipline nobody knows. The user gives a percentile and a time.
 *
 *	limit    how many requests the backend has at once: near the knee of its throughput (knee.c). The others wait here, where
 *	         they can be ordered, counted and dropped.
 *	admit    lets in as many as will be started in time: what waits of this class and above, times the time per request that the
 *	         backend takes when saturated (drain.c), must fit into the wait that the class can afford.
 *	start    drops what has waited longer than that after all.
 *	settle   counts: times of good answers, late ones, failures, refusals.
 *	tick     makes the numbers that the others only compare with (remote_tick.c).
 *
 * The wait that a class can afford is its target less the time that the backend takes, at a high quantile; see remote_tick.c.
 *
 * Invariants: what waits is bounded by the rooms; `limit` is never 0; no hook divides or calls libm.
 *
 * Threads: as law.h says. What the hooks share is counters that only grow, and numbers that a tick stores and others load, all relaxed: a decision
 * made with a number of the tick before is a decision made a moment earlier.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "laws/old/remote.h"

#define TARGET_MIN_NS  WEIR_NS_PER_US
#define TARGET_MAX_NS  (3600 * WEIR_NS_PER_S)
#define MINIMUM_MAX    .5
#define MINIMUM_USUAL  .01
#define PATIENCE_TIMES 4 /* targets, after which a request in flight is overdue */
#define PURGED_TIMES   4 /* a class with a minimum is purged so much later */
#define DUE_BURST      4 /* a minimum that was not used may be made up for, by so many */
#define LIMIT_MOST     (1u << 30)

/* ---- parameters ---- */

static const weir_key params_table[] = {
	{.name = "percentile",
	 .type = WEIR_KEY_PERCENTILE,
	 .offset = offsetof(weir_adaptive_remote_params, percentile),
	 .min = .5,
	 .max = .999,
	 .help = "share of the answers that should come within the target; default p90"},
	{.name = "target",
	 .type = WEIR_KEY_TIME,
	 .offset = offsetof(weir_adaptive_remote_params, target_ns),
	 .flags = WEIR_KEY_PER_CLASS,
	 .min = (double)TARGET_MIN_NS,
	 .max = (double)TARGET_MAX_NS,
	 .help = "response time to hold, waiting included; required for class 0, others: as the class above"},
	{.name = "minimum",
	 .type = WEIR_KEY_NUMBER,
	 .offset = offsetof(weir_adaptive_remote_params, minimum),
	 .flags = WEIR_KEY_PER_CLASS,
	 .min = 0,
	 .max = MINIMUM_MAX,
	 .help = "share of the starts that the class keeps however many of higher classes come; default "
		 "0.01"},
	{.name = "quality_min",
	 .type = WEIR_KEY_NUMBER,
	 .offset = offsetof(weir_adaptive_remote_params, quality_min),
	 .min = .001,
	 .max = 1,
	 .help = "the lowest quality that a backend is asked for before and while some are turned away; 1: "
		 "always "
		 "the best; default 0.1"},
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

static int remote_init(void *state, const void *params, const char **ret_wrong)
{
	weir_remote *r = state;
	const weir_adaptive_remote_params *p = params;
	int failed = check(p, ret_wrong);
	if (failed != 0)
		return failed;
	memset(r, 0, sizeof(*r));
	r->quantile = p->percentile;
	r->least_target_ns = UINT64_MAX;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		r->target_ns[k] = p->target_ns[k] != 0 ? p->target_ns[k] : r->target_ns[k - 1];
		if (r->target_ns[k] < r->least_target_ns)
			r->least_target_ns = r->target_ns[k];
		r->minimum[k] = p->minimum[k];
		atomic_init(&r->patience_ns[k], r->target_ns[k]);
		atomic_init(&r->room[k], 16);
		weir_degrade_init(&r->degrade[k]);
	}
	r->caution = r->yield = 1;
	r->quality_least = p->quality_min > 0 ? p->quality_min : WEIR_QUALITY_LEAST;
	weir_overdue_init(&r->overdue, PATIENCE_TIMES * r->target_ns[0]);
	weir_knee_init(&r->knee);
	return 0;
}

/* ---- single events ---- */

/* The clocks of two threads may differ by a little, and a turn may be told a time from before the offer. */
static uint64_t span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Takes one of a class's minimum, if one is due. */
static bool take_due(const weir_remote *r, weir_due *due, unsigned klass, uint64_t now_ns)
{
	uint64_t every_ns = atomic_load_explicit(&r->due_every_ns[klass], memory_order_relaxed), then;
	uint64_t next_ns = atomic_load_explicit(&due->next_ns, memory_order_relaxed);
	if (every_ns == 0)
		return false;
	do {
		if (next_ns > now_ns)
			return false;
		uint64_t first_ns = now_ns > DUE_BURST * every_ns ? now_ns - DUE_BURST * every_ns : 0;
		then = (next_ns > first_ns ? next_ns : first_ns) + every_ns;
	} while (!atomic_compare_exchange_weak_explicit(&due->next_ns, &next_ns, then, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* What waits of this class and above: what will be started before one that comes now. */
static int64_t count_ahead(const weir_remote *r, unsigned klass)
{
	int64_t ahead = 0;
	for (unsigned k = 0; k <= klass; k++)
		ahead += weir_flow_waiting(atomic_load_explicit(&r->flow[k], memory_order_relaxed));
	return ahead;
}

static weir_verdict remote_admit(void *state, const weir_ask *ask)
{
	weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	if (count_ahead(r, klass) + ask->count >
		    atomic_load_explicit(&r->room[klass], memory_order_relaxed) &&
	    (ask->count != 1 || !take_due(r, &r->due_in[klass], klass, ask->now_ns)))
		return WEIR_SHED_LATE;
	atomic_fetch_add_explicit(&r->flow[klass], ask->count * WEIR_FLOW_ADMITTED, memory_order_relaxed);
	return WEIR_ADMITTED;
}

static void leave_queue(weir_remote *r, unsigned klass, uint32_t count)
{
	atomic_fetch_sub_explicit(&r->flow[klass % WEIR_CLASSES], count * WEIR_FLOW_ADMITTED,
				  memory_order_relaxed);
}

static void remote_refund(void *state, const weir_ask *ask)
{
	leave_queue(state, ask->klass, ask->count);
}

static void remote_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_remote *r = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	leave_queue(r, klass, 1);
	/* Purged, most likely: it counts as one that was let in though it could not be started in time. */
	if (span(event->offered_ns, now_ns) >
	    atomic_load_explicit(&r->patience_ns[klass], memory_order_relaxed))
		atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
}

static uint32_t remote_limit(const void *state)
{
	const weir_remote *r = state;
	return weir_knee_limit(&r->knee) + atomic_load_explicit(&r->allowance, memory_order_relaxed);
}

static weir_verdict remote_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_remote *r = state;
	unsigned klass = event->klass % WEIR_CLASSES;
	uint64_t waited_ns = span(event->offered_ns, turn->now_ns);
	if (waited_ns > atomic_load_explicit(&r->patience_ns[klass], memory_order_relaxed) &&
	    !take_due(r, &r->due_start[klass], klass, turn->now_ns)) {
		leave_queue(r, klass, 1);
		atomic_fetch_add_explicit(&r->dropped, 1, memory_order_relaxed);
		return WEIR_SHED_WAITED;
	}
	atomic_fetch_add_explicit(&r->flow[klass], WEIR_FLOW_STARTED - WEIR_FLOW_ADMITTED,
				  memory_order_relaxed);
	weir_overdue_started(&r->overdue, turn->now_ns);
	weir_knee_started(&r->knee, turn->now_ns);
	if (turn->waiting == 0 && turn->in_service + 1 < remote_limit(r))
		atomic_fetch_add_explicit(&r->unsaturated, 1, memory_order_relaxed);
	return WEIR_ADMITTED;
}

/* One of eight, without regard to anything: for the report, which may be a little late. */
static bool in_sample(uint64_t offered_ns)
{
	return (offered_ns * UINT64_C(0x9e3779b97f4a7c15)) >> 61 == 0;
}

static void answered(weir_remote *r, const weir_event *event, uint64_t now_ns)
{
	unsigned klass = event->klass % WEIR_CLASSES;
	uint64_t response_ns = span(event->offered_ns, now_ns);
	weir_knee_settled(&r->knee, event->started_ns, span(event->started_ns, now_ns));
	if (response_ns > r->target_ns[klass])
		atomic_fetch_add_explicit(&r->late[klass], 1, memory_order_relaxed);
	if (in_sample(event->offered_ns))
		weir_tally_add(&r->response, response_ns);
}

static void remote_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_remote *r = state;
	weir_overdue_ended(&r->overdue, event->started_ns);
	if (outcome == WEIR_DONE) {
		answered(r, event, now_ns);
		return;
	}
	weir_knee_lost(&r->knee, event->started_ns);
	if (outcome == WEIR_FAILED) {
		atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&r->refused, 1, memory_order_relaxed);
		weir_knee_refused(&r->knee, (uint32_t)weir_overdue_fresh(&r->overdue));
	}
}

/* A part of what the class is told: judged at its turn, some of it is started however long it has waited. */
static uint64_t remote_patience(const void *state, unsigned klass)
{
	const weir_remote *r = state;
	klass %= WEIR_CLASSES;
	uint64_t patience_ns = atomic_load_explicit(&r->patience_ns[klass], memory_order_relaxed);
	return klass != 0 && r->minimum[klass] > 0 ? PURGED_TIMES * patience_ns : patience_ns;
}

static double remote_quality(const void *state, unsigned klass)
{
	return weir_degrade_factor(&((const weir_remote *)state)->degrade[klass % WEIR_CLASSES]);
}

/* ---- saying why ---- */

static void remote_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	double drain_ns = atomic_load_explicit(&r->drain_ns, memory_order_relaxed);
	double ahead = (double)count_ahead(r, klass) + ask->count;
	double over = ahead - atomic_load_explicit(&r->room[klass], memory_order_relaxed);
	ret_why->target_ns = r->target_ns[klass];
	ret_why->estimate_ns = (uint64_t)((ahead > 0 ? ahead : 0) * drain_ns +
					  atomic_load_explicit(&r->response_ns, memory_order_relaxed));
	ret_why->retry_after_ns = (uint64_t)((over > 1 ? over : 1) * drain_ns);
}

static void remote_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_remote *r = state;
	klass %= WEIR_CLASSES;
	double drain_ns = atomic_load_explicit(&r->drain_ns, memory_order_relaxed);
	ret_report->quantile = r->quantile;
	ret_report->target_ns = r->target_ns[klass];
	ret_report->measured_ns = atomic_load_explicit(&r->measured_ns, memory_order_relaxed);
	ret_report->rate_per_s = drain_ns > 0 ? 1e9 / drain_ns : 0;
	ret_report->limit = remote_limit(r);
	ret_report->quality = remote_quality(r, klass);
	ret_report->shedding = atomic_load_explicit(&r->shedding, memory_order_relaxed) >> klass & 1;
	ret_report->unreachable = atomic_load_explicit(&r->unreachable, memory_order_relaxed);
	const struct {
		const char *name;
		double value;
	} values[] = {
		{"searching", atomic_load_explicit(&r->told_low, memory_order_relaxed) > 0},
		{"elasticity", atomic_load_explicit(&r->told_elasticity, memory_order_relaxed)},
		{"backend_ms", atomic_load_explicit(&r->response_ns, memory_order_relaxed) / 1e6},
		{"wait_limit_ms",
		 (double)atomic_load_explicit(&r->patience_ns[klass], memory_order_relaxed) / 1e6},
		{"room", atomic_load_explicit(&r->room[klass], memory_order_relaxed)},
		{"overdue", weir_overdue_count(&r->overdue)},
		{"caution", atomic_load_explicit(&r->told_caution, memory_order_relaxed)},
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
	return snprintf(text, size, "adaptive-remote 1 limit=%.2f drain_ns=%.0f level=%u",
			atomic_load_explicit(&r->told_low, memory_order_relaxed),
			atomic_load_explicit(&r->drain_ns, memory_order_relaxed),
			(unsigned)atomic_load_explicit(&r->told_level, memory_order_relaxed));
}

static int remote_load(void *state, const char *text)
{
	weir_remote *r = state;
	double low, drain_ns, level = 0;
	int used = 0, more = 0;
	if (sscanf(text, "adaptive-remote 1 limit=%lf drain_ns=%lf%n", &low, &drain_ns, &used) != 2)
		return -EINVAL;
	/* What was saved before there was a level is good without. */
	if (sscanf(text + used, " level=%lf%n", &level, &more) == 1)
		used += more;
	if (text[used] != 0 && text[used] != '\n')
		return -EINVAL;
	if (!(low >= 0 && low <= LIMIT_MOST) || !(drain_ns >= 0 && drain_ns <= 1e15) ||
	    !(level >= 0 && level <= LIMIT_MOST))
		return -EINVAL;
	if (low >= 1)
		weir_knee_assume(&r->knee, (uint32_t)low);
	else if (level >= 1)
		weir_knee_assume_level(&r->knee, (uint32_t)level);
	if (drain_ns > 0)
		weir_drain_assume(&r->drain, drain_ns);
	weir_remote_tell(r);
	return 0;
}

const weir_admission_law weir_law_old_remote = {
	.name = "old",
	.brief = "holds a percentile of the response time before an unknown backend; needs only the target",
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
	.tick = weir_old_remote_tick,
	.limit = remote_limit,
	.patience = remote_patience,
	.quality = remote_quality,
	.explain = remote_explain,
	.report = remote_report,
	.save = remote_save,
	.load = remote_load,
};
