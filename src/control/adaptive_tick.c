/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive` between events: every tick the service times that have come in are made into a table and the numbers that the limit is
 * computed from. All of them are in relation to the target, to the time per start (tau) or to the spread of the service times; none
 * is a setting.
 *
 *	s(q)    quantile of the service time
 *	base    min(target - s(1 - .7 late_share), 2 target - s(.993)): at that wait 7 of 10 allowed are late, and 7 of 1000 beyond two targets
 *	bound   of the credit: 20 requests, or 100 ms of starts, or what the spread asks for; not more than start within a target
 *	calm    full credit lifts the limit to the most there is: two targets, less s
 *	over    in overload by 12 tau times the spread, to even out what chance does, no more
 *	slack   a queue of n holds less work than n tau as long as none of the long ones is among them; that must last for a limit,
 *	        or the workers run dry while others are refused
 */
#include <math.h>

#include "control/adaptive.h"

#define ENOUGH         16 /* service times, before anything is made of them */
#define MEMORY_SAMPLES 1000
#define BOUND_LEAST    20
#define BOUND_S        .1
#define SPREAD         12
#define SLACK_MOST     8
#define TAU_STARTS     64
#define TAU_TARGETS    4
#define STARVED_STARTS 16
#define QUIET_TICKS    100
#define HOLD_TARGETS   4

static double bound_of(const adaptive_class *k, double per_s, double spread)
{
	double per_target = per_s * (double)k->target_ns / 1e9;
	double wanted = fmax(fmax(BOUND_LEAST, BOUND_S * per_s), spread);
	return fmin(wanted, fmax(BOUND_LEAST, per_target));
}

/* Of the mean of all, over the mean without those too rare to be found among n. */
static double slack_of(const weir_service *service, double n)
{
	double usual = weir_service_mean_below(service, 1 - 1 / fmax(n, 2));
	return usual > 0 ? fmin(service->mean / usual, SLACK_MOST) : 1;
}

/* A target that the service alone exceeds is a wish: it is said, and a floor is held (target / 4 of waiting). */
static void judge_reachable(adaptive_class *k, double service_ns)
{
	double target = fmax((double)k->target_ns - (double)GET(k->spent_ns), 0);
	if (service_ns > target / 2)
		PUT(k->unreachable, true);
	else if (service_ns < .4 * target)
		PUT(k->unreachable, false);
}

void adaptive_learnt(adaptive_class *k)
{
	double tau = (double)GET(k->tau_ns), target = (double)k->target_ns, late = (double)k->late_share;
	double high = weir_service_quantile(&k->service, 1 - .7 * late);
	double highest = weir_service_quantile(&k->service, .993);
	double base = fmax(fmin(target - high, 2 * target - highest), target / 4);
	double spread = SPREAD * k->service.moment2 / 2;
	double bound = bound_of(k, tau > 0 ? 1e9 / tau : 0, spread);
	judge_reachable(k, high);
	PUT(k->mean_ns, (float)k->service.mean);
	PUT(k->service_ns, (float)high);
	PUT(k->base_ns, (float)base);
	PUT(k->bound, (float)bound);
	PUT(k->per_bound, (float)(1 / bound));
	/* Where two targets are the nearer bound, credit for being late by one buys nothing. */
	PUT(k->over_ns, 2 * target - highest < target - high ? 0 : (float)(spread * tau));
	PUT(k->ease_ns, (float)fmax(spread * tau, 3 * target));
	PUT(k->debt_ns, (float)fmax(spread * tau, high));
	PUT(k->most_ns, (float)(2 * target - high));
	if (tau > 0) {
		PUT(k->slack, (float)slack_of(&k->service, base / tau));
		PUT(k->memory, (float)fmax(TAU_STARTS, TAU_TARGETS * target / tau));
	}
	adaptive_set_limit(k);
}

static void learn(adaptive_class *k)
{
	double tau = (double)GET(k->tau_ns), late = (double)k->late_share;
	double memory = fmax(fmax(MEMORY_SAMPLES, 10 / late), tau > 0 ? 1e9 / tau : 0);
	if (weir_service_learn(&k->service, memory) && k->service.count >= ENOUGH)
		adaptive_learnt(k);
}

/*
 * Others start and start, and this class waits, or has waited and was dropped: what its time per start once was is no guide. A class that
 * nobody has wanted meanwhile does not starve.
 */
static void judge_starving(adaptive *a, adaptive_class *k)
{
	uint64_t last_ns = GET(k->last_ns), left = GET(k->left), starts = GET(a->starts);
	if (last_ns != k->seen_last_ns || (left == k->seen_left && adaptive_waiting(k) == 0)) {
		k->seen_last_ns = last_ns;
		k->seen_left = left;
		k->seen_starts = starts;
	}
	uint64_t many = STARVED_STARTS + (uint64_t)(GET(a->klass[0].memory) / TAU_TARGETS);
	PUT(k->starving, starts - k->seen_starts > many);
}

/* How short of room it is: what it has of the wait that the target allows, without credit. */
static void learn_quality(const adaptive *a, adaptive_class *k, const weir_sample *sample)
{
	double limit = fmin((double)GET(k->limit_ns), (double)GET(k->base_ns)) * (double)GET(k->slack);
	double room = limit > 0 ? (double)adaptive_waiting(k) * (double)GET(k->tau_ns) / limit : 0;
	weir_degrade_sample seen = {.interval_s = (double)sample->interval_ns / 1e9,
				    .target_s = (double)k->target_ns / 1e9,
				    .least = a->quality_least,
				    .room = GET(k->shed) != k->seen_shed ? fmax(room, 1) : room};
	weir_degrade_step(&k->degrade, &seen);
}

static void judge_shedding(adaptive_class *k)
{
	uint64_t shed = GET(k->shed);
	k->quiet_ticks = shed != k->seen_shed ? 0 : k->quiet_ticks + 1;
	PUT(k->shedding, shed != 0 && k->quiet_ticks < QUIET_TICKS);
	k->seen_shed = shed;
}

/* No pledge may keep the others out for good, whatever has become of who had it. */
static void end_stuck_hold(adaptive *a, uint64_t now_ns)
{
	uint64_t target_ns = a->klass[GET(a->holding)].target_ns;
	if (GET(a->holding) == 0 || adaptive_span(GET(a->held_ns), now_ns) < HOLD_TARGETS * target_ns)
		return;
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		PUT(a->klass[i].pledged, 0);
	PUT(a->holding, 0);
	PUT(a->hold_at_ns, now_ns + 3 * HOLD_TARGETS * target_ns);
}

void adaptive_tick(void *state, const weir_sample *sample)
{
	adaptive *a = state;
	for (unsigned i = 0; i < WEIR_CLASSES; i++) {
		adaptive_class *k = &a->klass[i];
		if (GET(k->admitted) == 0 && GET(k->shed) == 0) {
			k->seen_starts = GET(a->starts); /* it does not starve from the day it comes */
			continue;
		}
		learn(k);
		learn_quality(a, k, sample);
		judge_shedding(k);
		if (i != 0)
			judge_starving(a, k);
	}
	end_stuck_hold(a, sample->now_ns);
	adaptive_pool_tick(a, sample);
}
