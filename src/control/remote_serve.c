/* SPDX-License-Identifier: Apache-2.0 */
/* `adaptive-remote`: requests in the backend, and what their answers teach. remote.h defines the terms. */
#include <math.h>

#include "control/remote.h"

#define ALONE      (UINT64_C(1) << 63) /* in the note: it met so few that its time is its own */
#define ASIDE      (UINT64_C(1) << 62) /* in the note: its time says nothing about load */
#define LONG_TIMES 4.                  /* the base, from which on a request is expected to take long */
#define COST_PART  .1f                 /* weight of one request in the average of its kind */
#define COST_USUAL 1000.               /* us */
#define LN_SCALE   1000                /* scale of sums of logarithms */

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
	return event->note[1] & ~(ALONE | ASIDE);
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
	turn->note[1] = met > 1 ? (uint64_t)met : 1;
	unsigned level = weir_remote_level_of(turn->note[1]);
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

static bool is_slow(weir_remote *r, unsigned mark, float took)
{
	float slow_from = atomic_load_explicit(&r->slow_from[mark], memory_order_relaxed);
	if (slow_from == 0 || !(took > slow_from))
		return false;
	atomic_fetch_add_explicit(&r->slowed[mark], 1, memory_order_relaxed);
	return true;
}

/* The rate that a slow or late request saw: while it was inside, the backend was fully loaded. */
static void judge_slow(weir_remote *r, uint64_t took_ns, uint64_t telling_ns, uint64_t met,
		       double completions)
{
	float telling = logf((float)telling_ns + 1);
	bool slow = is_slow(r, 1, telling);
	is_slow(r, 0, telling);
	is_slow(r, 2, telling);
	if (met <= WEIR_REMOTE_FEW || (!slow && took_ns < weir_remote_least_target_ns(r)))
		return;
	float took = logf((float)took_ns + 1);
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

/* The time that is compared with others: as it is, or as if the request had the usual cost. */
static uint64_t telling_time(const weir_remote *r, const weir_event *event, uint64_t took_ns)
{
	return r->mix_changes && event->cost != 0 ? (uint64_t)((double)took_ns * COST_USUAL / event->cost)
						  : took_ns;
}

/* What was admitted before the limit says nothing about the limit, if the next ones are of another mix. */
static bool says_late(const weir_remote *r, const weir_event *event)
{
	return !r->mix_changes ||
	       event->offered_ns >= atomic_load_explicit(&r->limited_ns, memory_order_relaxed);
}

/* What an answer says about the load of the backend. */
static void learn_load(weir_remote *r, const weir_event *event, uint64_t took_ns, double completions)
{
	uint64_t telling_ns = telling_time(r, event, took_ns), met = met_by(event);
	weir_times_add(&r->level[weir_remote_level_of(met)].times, telling_ns);
	weir_times_add(&r->recent, telling_ns);
	judge_slow(r, took_ns, telling_ns, met, completions);
	/* With few inside, requests take their own time, which does not grow with the number inside. */
	if (atomic_load_explicit(&r->congested, memory_order_relaxed) && met > WEIR_REMOTE_FEW &&
	    met > atomic_load_explicit(&r->floor, memory_order_relaxed))
		follow(&r->gamma, r->aimed, r->tuning.step, logf((float)(completions / (double)met)));
	atomic_fetch_add_explicit(&r->backend_us, took_ns / 1000, memory_order_relaxed);
}

static void answered(weir_remote *r, const weir_event *event, uint64_t now_ns)
{
	uint64_t took_ns = weir_remote_span(event->started_ns, now_ns);
	unsigned at = weir_remote_kind_of(event->cost);
	weir_remote_kind *kind = &r->kind[at];
	uint64_t done = atomic_fetch_add_explicit(&r->done, 1, memory_order_relaxed) + 1;
	double completions = (double)(done - event->note[0]);
	bool silent = says_nothing(r, event);
	if (silent)
		atomic_fetch_add_explicit(&r->silent, 1, memory_order_relaxed);
	/* Also if it was started before the others were many enough. */
	if (is_aside(event) || (silent && atomic_load_explicit(&r->sets_aside, memory_order_relaxed)))
		atomic_fetch_add_explicit(&r->aside, 1, memory_order_relaxed);
	else
		learn_load(r, event, took_ns, completions);
	if ((event->note[1] & ALONE) != 0)
		weir_times_add(&kind->own, took_ns);
	atomic_fetch_add_explicit(&kind->answers, 1, memory_order_relaxed);
	learn_cost(kind, 1e3f * (float)event->cost);
	if (says_late(r, event))
		judge_late(r, event->klass % WEIR_CLASSES, at, weir_remote_span(event->entered_ns, now_ns));
	learn_measured(r, weir_remote_span(event->offered_ns, now_ns));
}

/* Failures and refusals teach nothing: fast ones are no sign of health, slow ones no sign of load. */
void weir_remote_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_remote *r = state;
	if (outcome == WEIR_DONE)
		answered(r, event, now_ns);
	if (!is_aside(event))
		atomic_fetch_add_explicit(&r->level[weir_remote_level_of(met_by(event))].ended, 1,
					  memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&r->serving_of[event->klass % WEIR_CLASSES], 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(age_of(r, event->started_ns, is_aside(event)), 1, memory_order_relaxed);
}
