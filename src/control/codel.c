/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CoDel (RFC 8289): a queue is bad not when it is long, but when even its luckiest event waits for long.
 * The law looks at each event as its turn comes. If for an interval every such event has waited for more
 * than `delay`, events are dropped: the first one at once, and the following ones at intervals that
 * shrink with the square root of their number, until one has waited less.
 *
 *  calm ──all above `delay` for an interval: drop──▶ dropping ──now >= next: drop, ──────────────┐
 *    ▲                                                │    ▲     next += interval / sqrt(count)  │
 *    └───────one below, or (almost) nothing waits─────┘    └─────────────────────────────────────┘
 *
 * If it was dropping not long ago, it continues about where it was: count starts from what the last time
 * needed.
 *
 * With `timeouts`, this is controlled delay as Facebook uses it for servers (Maurer 2015): events may
 * wait for an interval, but only for `delay` if, when they arrived, the queue had not been empty for an
 * interval. While an event waits the queue is not empty, so the question can be answered at its turn just
 * as well as on its arrival.
 *
 * Both are for a queue that serves its newest event first once it is standing (WEIR_NEWEST_LATE).
 * `patience` then takes care of the events at its far end.
 *
 * Threads: one state per queue. start is called by one thread at a time, and other threads only read its
 * numbers: atomics with one writer. The time when the queue was last empty is also written by offers, on
 * any thread.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include <weir/law.h>

#include "control/recent.h"

/* The defaults, as fractions of the target. */
#define DELAY_PART    .1
#define INTERVAL_PART 1
#define PATIENCE_PART .75 /* the rest is for the work */
#define FORGET        16  /* intervals after which the last count says nothing */

typedef struct codel {
	/* const after init */
	uint64_t target_ns, delay_ns, interval_ns, patience_ns;
	double percentile;
	bool timeouts;
	/* any thread */
	_Atomic uint64_t empty_ns; /* when the queue was last empty */
	_Atomic uint64_t tick_ns;  /* the time of the last tick */
	weir_recent recent;
	/* start; the atomics are read by others */
	uint64_t bad_at_ns; /* bad if all are above until then; 0: the last one was not above */
	uint64_t next_ns;   /* time of the next drop */
	uint32_t count_before;
	bool dropped_last; /* next_ns is set at the event after the dropped one */
	_Atomic uint32_t count;
	_Atomic bool dropping;
	_Atomic uint64_t waited_ns; /* wait of the event whose turn came last */
} codel;

static uint32_t drops(const codel *c)
{
	return atomic_load_explicit(&c->count, memory_order_relaxed);
}

static bool is_dropping(const codel *c)
{
	return atomic_load_explicit(&c->dropping, memory_order_relaxed);
}

static void set_dropping(codel *c, bool dropping)
{
	atomic_store_explicit(&c->dropping, dropping, memory_order_relaxed);
}

static void set_drops(codel *c, uint32_t count)
{
	atomic_store_explicit(&c->count, count, memory_order_relaxed);
}

/* ---- initialisation ---- */

static const char *wrong_params(const weir_codel_params *p)
{
	if (p->target_ns == 0 && (p->delay_ns == 0 || p->interval_ns == 0))
		return "a target is required, as 200ms, or else both delay and interval";
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return "percentile must be from p50 to p99.9";
	return NULL;
}

static uint64_t or_part(uint64_t given_ns, uint64_t target_ns, double part)
{
	uint64_t part_ns = (uint64_t)((double)target_ns * part);
	if (given_ns != 0)
		return given_ns;
	return part_ns > 0 ? part_ns : 1;
}

static int codel_init(void *state, const void *params, const char **ret_wrong)
{
	codel *c = state;
	const weir_codel_params *p = params;
	const char *wrong = p != NULL ? wrong_params(p) : "parameters are required (weir_codel_params)";
	if (wrong != NULL) {
		*ret_wrong = wrong;
		return -EINVAL;
	}
	*c = (codel){.target_ns = p->target_ns,
		     .delay_ns = or_part(p->delay_ns, p->target_ns, DELAY_PART),
		     .interval_ns = or_part(p->interval_ns, p->target_ns, INTERVAL_PART),
		     .patience_ns = or_part(p->patience_ns, p->target_ns, PATIENCE_PART),
		     .percentile = p->percentile,
		     .timeouts = p->timeouts};
	if (p->target_ns == 0 && p->patience_ns == 0)
		c->patience_ns = UINT64_MAX;
	if (c->delay_ns >= c->interval_ns) {
		*ret_wrong = "delay must be less than interval";
		return -EINVAL;
	}
	return 0;
}

static void codel_defaults(void *params)
{
	((weir_codel_params *)params)->percentile = .9;
}

/* ---- the control law ---- */

static uint64_t after(const codel *c, uint64_t from_ns, uint32_t count)
{
	return from_ns + (uint64_t)((double)c->interval_ns / sqrt((double)count));
}

/*
 * Whether every event for an interval has waited too long. An event that leaves next to nothing behind it
 * has not.
 */
static bool is_bad(codel *c, uint64_t waited_ns, const weir_turn *turn)
{
	if (waited_ns < c->delay_ns || turn->waiting <= 1) {
		c->bad_at_ns = 0;
		return false;
	}
	if (c->bad_at_ns == 0) {
		c->bad_at_ns = turn->now_ns + c->interval_ns;
		return false;
	}
	return turn->now_ns >= c->bad_at_ns;
}

static void begin_dropping(codel *c, uint64_t now_ns)
{
	uint32_t needed = drops(c) - c->count_before;
	bool recently = now_ns - c->next_ns < FORGET * c->interval_ns || now_ns < c->next_ns;
	uint32_t count = needed > 1 && recently ? needed : 1;
	set_drops(c, count);
	set_dropping(c, true);
	c->count_before = count;
	c->next_ns = after(c, now_ns, count);
	c->dropped_last = false;
}

static bool drop_by_count(codel *c, bool bad, uint64_t now_ns)
{
	if (!bad) {
		set_dropping(c, false);
		return false;
	}
	if (!is_dropping(c)) {
		begin_dropping(c, now_ns);
		return true;
	}
	if (c->dropped_last)
		c->next_ns = after(c, c->next_ns, drops(c));
	c->dropped_last = now_ns >= c->next_ns;
	if (c->dropped_last)
		set_drops(c, drops(c) + 1);
	return c->dropped_last;
}

static bool drop_by_time(codel *c, const weir_event *event, uint64_t waited_ns)
{
	uint64_t empty_ns = atomic_load_explicit(&c->empty_ns, memory_order_relaxed);
	bool standing = event->offered_ns > empty_ns && event->offered_ns - empty_ns > c->interval_ns;
	bool drop = waited_ns > (standing ? c->delay_ns : c->interval_ns);
	set_dropping(c, standing);
	set_drops(c, drops(c) + drop);
	return drop;
}

static weir_verdict codel_start(void *state, const weir_event *event, const weir_turn *turn)
{
	codel *c = state;
	uint64_t waited_ns = turn->now_ns > event->offered_ns ? turn->now_ns - event->offered_ns : 0;
	bool drop;
	atomic_store_explicit(&c->waited_ns, waited_ns, memory_order_relaxed);
	if (c->timeouts)
		drop = drop_by_time(c, event, waited_ns);
	else
		drop = drop_by_count(c, is_bad(c, waited_ns, turn), turn->now_ns);
	if (turn->waiting == 0)
		atomic_store_explicit(&c->empty_ns, turn->now_ns, memory_order_relaxed);
	drop |= waited_ns > c->patience_ns;
	if (drop)
		weir_recent_refused(&c->recent, event->klass);
	return drop ? WEIR_SHED_WAITED : WEIR_ADMITTED;
}

/* Admits everybody; only the time is of interest. */
static weir_verdict codel_admit(void *state, const weir_ask *ask)
{
	codel *c = state;
	if (ask->waiting == 0)
		atomic_store_explicit(&c->empty_ns, ask->now_ns, memory_order_relaxed);
	return WEIR_ADMITTED;
}

/* ---- ticks ---- */

static void codel_tick(void *state, const weir_sample *sample)
{
	codel *c = state;
	weir_recent_tick(&c->recent, sample);
	atomic_store_explicit(&c->tick_ns, sample->now_ns, memory_order_relaxed);
}

/*
 * With timeouts: events that arrived while the queue was standing may wait for `delay`, the others for an
 * interval. Once it has been standing for two intervals, the others' time is over anyway.
 */
static uint64_t codel_patience(const void *state, unsigned klass)
{
	const codel *c = state;
	uint64_t most_ns = c->patience_ns, now_ns = atomic_load_explicit(&c->tick_ns, memory_order_relaxed);
	uint64_t empty_ns = atomic_load_explicit(&c->empty_ns, memory_order_relaxed);
	if (!c->timeouts)
		return most_ns;
	bool long_standing = now_ns > empty_ns && now_ns - empty_ns > 2 * c->interval_ns;
	uint64_t limit_ns = long_standing ? c->delay_ns : c->interval_ns;
	return limit_ns < most_ns ? limit_ns : most_ns;
}

/* ---- reports ---- */

static void codel_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const codel *c = state;
	ret_why->estimate_ns = atomic_load_explicit(&c->waited_ns, memory_order_relaxed);
	ret_why->target_ns = c->target_ns;
	ret_why->retry_after_ns = is_dropping(c) ? c->interval_ns : 0;
}

static void codel_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const codel *c = state;
	const struct {
		const char *name;
		double value;
	} own[] = {{"delay_ms", (double)c->delay_ns / 1e6},
		   {"interval_ms", (double)c->interval_ns / 1e6},
		   {"waited_ms", (double)atomic_load_explicit(&c->waited_ns, memory_order_relaxed) / 1e6},
		   {"dropping", is_dropping(c)},
		   {"drops", drops(c)}};
	ret_report->quantile = c->percentile;
	ret_report->target_ns = c->target_ns;
	ret_report->shedding = weir_recent_shedding(&c->recent, klass);
	ret_report->count = sizeof(own) / sizeof(own[0]);
	for (unsigned i = 0; i < ret_report->count; i++) {
		ret_report->value[i].name = own[i].name;
		ret_report->value[i].value = own[i].value;
	}
}

static const weir_key codel_params[] = {
	WEIR_KEY("percentile", PERCENTILE, weir_codel_params, percentile, NULL,
		 "The percentile that the target is meant for. It is reported, and has no influence",
		 .min = .5, .max = .999),
	WEIR_KEY("target", TIME, weir_codel_params, target_ns, NULL,
		 "The response time to hold. The times below follow from it", .flags = WEIR_KEY_REQUIRED,
		 .min = 1e3, .max = 3.6e12),
	WEIR_KEY("delay", TIME, weir_codel_params, delay_ns, NULL,
		 "The wait that is acceptable for long. Without it: target / 10", .min = 1e3, .max = 3.6e12),
	WEIR_KEY("interval", TIME, weir_codel_params, interval_ns, NULL,
		 "The time for which it may be exceeded. Without it: target", .min = 1e3, .max = 3.6e12),
	WEIR_KEY("patience", TIME, weir_codel_params, patience_ns, NULL,
		 "Events that have waited for longer are dropped in any case. Without it: 3/4 target",
		 .min = 1e3, .max = 3.6e12),
	WEIR_KEY("timeouts", SWITCH, weir_codel_params, timeouts, NULL,
		 "Controlled delay: events wait for interval at most, or for delay while the queue stands", ),
	{.name = NULL},
};

const weir_admission_law weir_law_codel = {
	.name = "codel",
	.brief = "controlled delay: drops at the head of a queue in which even the luckiest wait for long",
	.state_bytes = sizeof(codel),
	.params_bytes = sizeof(weir_codel_params),
	.params = codel_params,
	.defaults = codel_defaults,
	.tick_ns = 10 * WEIR_NS_PER_MS,
	.per_lane = true,
	.init = codel_init,
	.admit = codel_admit,
	.start = codel_start,
	.tick = codel_tick,
	.patience = codel_patience,
	.explain = codel_explain,
	.report = codel_report,
};
