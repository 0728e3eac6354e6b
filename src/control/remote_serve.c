/* SPDX-License-Identifier: Apache-2.0 */
/* `adaptive-remote`: requests in the backend, and what their answers teach. remote.h defines the terms. */
#include <math.h>

#include "control/remote.h"

#define ALONE      (UINT64_C(1) << 63) /* in the note: it met so few that its time is its own */
#define ASIDE      (UINT64_C(1) << 62) /* in the note: its time says nothing about load */
#define LEVEL_AT   32                  /* in the note: the level from this bit on, what it met below */
#define LONG_TIMES 4.                  /* the base, from which on a request is expected to take long */
#define OUTDATED   2.                  /* times the limit: who met more says nothing about it */
#define JOINED     4     /* times few that come to one that met few, or go: its time is still its own */
#define COST_PART  .1f   /* weight of one request in the average of its kind */
#define COST_USUAL 1000. /* us */
#define LN_SCALE   1000  /* scale of sums of logarithms */

uint32_t weir_remote_limit(const void *state)
{
	const weir_remote *r = state;
	int32_t overdue = atomic_load_explicit(&r->overdue[0], memory_order_relaxed) +
			  atomic_load_explicit(&r->overdue[1], memory_order_relaxed);
	uint32_t cap = atomic_load_explicit(&r->cap, memory_order_relaxed);
	/* Requests that may never end do not take the places of others. */
	return overdue > 0 ? cap + (uint32_t)overdue : cap;
}

/* The counter for requests that were started at that time. */
static _Atomic int32_t *age_of(weir_remote *r, uint64_t started_ns, bool aside)
{
	uint64_t stretch = started_ns >> r->age_shift;
	if (stretch < atomic_load_explicit(&r->oldest, memory_order_relaxed))
		return &r->overdue[aside];
	return &r->age[aside][stretch % WEIR_REMOTE_AGES];
}

static uint64_t met_by(const weir_event *event)
{
	return (uint32_t)event->note[1];
}

/* The level of what it met, which is needed three times. */
static unsigned level_met_by(const weir_event *event)
{
	return (uint8_t)(event->note[1] >> LEVEL_AT);
}

/*
 * Whether the time of a request says nothing about load: its kind takes much longer than most (long polls,
 * reports), or is not known yet. Otherwise a few hundred long polls that come back at one moment would
 * look like a saturated backend.
 */
static bool says_nothing(const weir_remote *r, const weir_event *event)
{
	double base_ns = atomic_load_explicit(&r->told_base_ns, memory_order_relaxed);
	if ((event->flags & WEIR_EVENT_GUESSED) != 0)
		return true;
	return !r->mix_changes && base_ns > 0 && 1e3 * event->cost > LONG_TIMES * base_ns;
}

static bool is_aside(const weir_event *event)
{
	return (event->note[1] & ASIDE) != 0;
}

/* The note holds how many had completed before it, and how many it meets, itself included. */
weir_verdict weir_remote_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_remote *r = state;
	weir_remote_leave_queue(r, event->klass, 1);
	atomic_fetch_add_explicit(&r->serving, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->serving_of[event->klass % WEIR_CLASSES], 1, memory_order_relaxed);
	bool aside = atomic_load_explicit(&r->sets_aside, memory_order_relaxed) && says_nothing(r, event);
	atomic_fetch_add_explicit(age_of(r, turn->now_ns, aside), 1, memory_order_relaxed);
	int32_t met = weir_remote_serving(r);
	turn->note[0] = atomic_load_explicit(&r->done, memory_order_relaxed);
	uint64_t others = met > 1 ? (uint64_t)met : 1;
	unsigned level = weir_remote_level_of(others);
	turn->note[1] = others | (uint64_t)level << LEVEL_AT;
	if (aside)
		turn->note[1] |= ASIDE;
	else
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

/* Whether it is slow, by any of the marks. */
static void judge_slow(weir_remote *r, float telling_ln)
{
	for (unsigned i = 0; i < WEIR_REMOTE_MARKS; i++) {
		float slow_from = atomic_load_explicit(&r->slow_from[i], memory_order_relaxed);
		if (telling_ln > slow_from && slow_from != 0)
			atomic_fetch_add_explicit(&r->slowed[i], 1, memory_order_relaxed);
	}
}

/*
 * The rate that a slow or late request saw: while it was inside, the backend was fully loaded. With the limit in force
 * and without congestion it was not: the request took long by its nature, and the limit would go down for nothing.
 */
static void judge_rate(weir_remote *r, uint64_t took_ns, float telling_ln, uint64_t met, double completions)
{
	if (met <= WEIR_REMOTE_FEW)
		return;
	float slow_from = atomic_load_explicit(&r->slow_from[1], memory_order_relaxed);
	bool slow = telling_ln > slow_from && slow_from != 0;
	if (!slow && took_ns < weir_remote_least_target_ns(r))
		return;
	if (atomic_load_explicit(&r->limited, memory_order_relaxed) &&
	    !atomic_load_explicit(&r->congested, memory_order_relaxed) &&
	    atomic_load_explicit(&r->told_rate, memory_order_relaxed) > 0)
		return;
	double per_ns = completions / ((double)took_ns + 1);
	atomic_fetch_add_explicit(&r->rated, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->rates_ln, (int64_t)(log(per_ns) * LN_SCALE), memory_order_relaxed);
}

static void judge_late(weir_remote *r, unsigned klass, unsigned kind, uint64_t whole_ns, bool late,
		       bool telling)
{
	atomic_fetch_add_explicit(&r->kind[kind].judged, 1, memory_order_relaxed);
	bool plainly = whole_ns > weir_remote_plain_target_ns(r, klass);
	if (plainly)
		atomic_fetch_add_explicit(&r->plainly_late, 1, memory_order_relaxed);
	if (telling) {
		atomic_fetch_add_explicit(&r->telling, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&r->telling_late, plainly, memory_order_relaxed);
	}
	if (late)
		atomic_fetch_add_explicit(&r->kind[kind].late, 1, memory_order_relaxed);
}

static void learn_measured(weir_remote *r, float took)
{
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

/* The time that is compared with others: as it is, or as if the request had the usual cost. */
static uint64_t telling_time(const weir_remote *r, const weir_event *event, uint64_t took_ns)
{
	return r->mix_changes && event->cost != 0 ? (uint64_t)((double)took_ns * COST_USUAL / event->cost)
						  : took_ns;
}

/* What was admitted before the limit was in force says nothing about the limit. */
static bool says_late(const weir_remote *r, const weir_event *event)
{
	return event->offered_ns >= atomic_load_explicit(&r->limited_ns, memory_order_relaxed);
}

/* It met many more than the limit admits now, so its time says nothing about those whom the limit admits. */
static bool is_outdated(const weir_remote *r, uint64_t met)
{
	uint32_t limit = atomic_load_explicit(&r->limit[0], memory_order_relaxed);
	return limit != WEIR_REMOTE_OPEN && (double)met > OUTDATED * fmax(limit, WEIR_REMOTE_FEW);
}

/* A time, its logarithm and its step, which are computed once where two times are the same. */
typedef struct spent {
	uint64_t ns;
	float ln;
	unsigned step;
} spent;

static spent spend(uint64_t ns)
{
	return (spent){ns, logf((float)ns + 1), weir_times_step(ns)};
}

static spent spend_or(uint64_t ns, spent known)
{
	return ns == known.ns ? known : spend(ns);
}

/*
 * The tail of all requests, and of this kind, which begins with that of all. Those set aside tell about their own kind
 * only. With few inside, requests take their own time, which does not grow with the number inside.
 */
static void learn_gamma(weir_remote *r, const weir_event *event, double completions, bool aside)
{
	uint64_t met = met_by(event);
	if (!atomic_load_explicit(&r->congested, memory_order_relaxed) || met <= WEIR_REMOTE_FEW ||
	    met <= atomic_load_explicit(&r->floor, memory_order_relaxed) || is_outdated(r, met))
		return;
	float tail = logf((float)(completions / (double)met));
	weir_remote_kind *kind = &r->kind[weir_remote_kind_of(event->cost)];
	if (atomic_fetch_add_explicit(&kind->gamma_seen, 1, memory_order_relaxed) == 0)
		atomic_store_explicit(&kind->gamma, atomic_load_explicit(&r->gamma, memory_order_relaxed),
				      memory_order_relaxed);
	follow(&kind->gamma, r->aimed, r->tuning.step, tail);
	if (!aside)
		follow(&r->gamma, r->aimed, r->tuning.step, tail);
}

/* What an answer says about the load of the backend. */
static void learn_load(weir_remote *r, const weir_event *event, spent took, double completions)
{
	spent telling = spend_or(telling_time(r, event, took.ns), took);
	uint64_t met = met_by(event);
	judge_rate(r, took.ns, telling.ln, met, completions);
	if (is_outdated(r, met)) {
		atomic_fetch_add_explicit(&r->aside, 1, memory_order_relaxed);
		return;
	}
	weir_times_add_at(&r->level[level_met_by(event)].times, telling.step);
	weir_times_add_at(&r->recent, telling.step);
	judge_slow(r, telling.ln);
	atomic_fetch_add_explicit(&r->backend_us, took.ns / 1000, memory_order_relaxed);
}

/* Whether its time is its own. With the limit in force, many may have come, and gone, after one that met few. */
static bool was_alone(const weir_remote *r, const weir_event *event, double completions)
{
	return (event->note[1] & ALONE) != 0 && (!atomic_load_explicit(&r->limited, memory_order_relaxed) ||
						 (weir_remote_serving(r) <= JOINED * WEIR_REMOTE_FEW &&
						  completions <= JOINED * WEIR_REMOTE_FEW));
}

static void answered(weir_remote *r, const weir_event *event, uint64_t now_ns)
{
	spent took = spend(weir_remote_span(event->started_ns, now_ns));
	unsigned at = weir_remote_kind_of(event->cost);
	weir_remote_kind *kind = &r->kind[at];
	uint64_t done = atomic_fetch_add_explicit(&r->done, 1, memory_order_relaxed) + 1;
	double completions = (double)(done - event->note[0]);
	bool silent = says_nothing(r, event);
	if (silent)
		atomic_fetch_add_explicit(&r->silent, 1, memory_order_relaxed);
	/* Also if it was started before the others were many enough. */
	bool aside =
		is_aside(event) || (silent && atomic_load_explicit(&r->sets_aside, memory_order_relaxed));
	learn_gamma(r, event, completions, aside);
	if (aside)
		atomic_fetch_add_explicit(&r->aside, 1, memory_order_relaxed);
	else
		learn_load(r, event, took, completions);
	if (was_alone(r, event, completions))
		weir_times_add_at(&kind->own, took.step);
	atomic_fetch_add_explicit(&kind->answers, 1, memory_order_relaxed);
	learn_cost(kind, 1e3f * (float)event->cost);
	unsigned klass = event->klass % WEIR_CLASSES;
	uint64_t whole_ns = weir_remote_span(event->entered_ns, now_ns);
	bool late = (double)whole_ns > weir_remote_target_ns(r, klass, at);
	if (late)
		atomic_fetch_add_explicit(&r->ended_late, 1, memory_order_relaxed);
	if (says_late(r, event))
		judge_late(r, klass, at, whole_ns, late, !silent);
	learn_measured(r, spend_or(weir_remote_span(event->offered_ns, now_ns), took).ln);
}

/* Failures and refusals teach nothing: fast ones are no sign of health, slow ones no sign of load. */
void weir_remote_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_remote *r = state;
	if (outcome == WEIR_DONE)
		answered(r, event, now_ns);
	if (!is_aside(event))
		atomic_fetch_add_explicit(&r->level[level_met_by(event)].ended, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving_of[event->klass % WEIR_CLASSES], 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(age_of(r, event->started_ns, is_aside(event)), 1, memory_order_relaxed);
}
