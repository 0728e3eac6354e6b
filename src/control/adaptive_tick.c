/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive` between events: at every tick the new service times become a table, and the numbers from
 * which the limit is computed. All of these are relative to the target, to the time per start (tau) or to
 * the spread of the service times; none is a setting.
 *
 *  s(q)    quantile of the service time
 *  base    min(target - s(1 - .7 late_share), 2 target - s(.993)): with that wait, 7 of 10 allowed
 *          ones are late, and 7 of 1000 take longer than two targets
 *  bound   of the credit: 20 requests, or 100 ms of starts, or what the spread requires; not more
 *          than start within a target
 *  calm    full credit raises the limit to its maximum: two targets, less s
 *  over    in overload full credit adds 12 tau times the spread, to even out chance, and no more
 *  slack   a queue of n requests holds less work than n tau as long as it contains none of the long
 *          ones; that must last for a limit, or the workers run dry while others are refused
 */
#include <math.h>

#include "control/adaptive.h"

#define ENOUGH         16 /* service times needed before they are used */
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

/* The mean of all, over the mean without those too rare to be found among n. */
static double slack_of(const weir_service *service, double n)
{
	double usual = weir_service_mean_below(service, 1 - 1 / fmax(n, 2));
	return usual > 0 ? fmin(service->mean / usual, SLACK_MOST) : 1;
}

/*
 * A target that requests exceed without any wait here cannot be met. The law reports this, with the time that
 * they take, and uses a floor (target / 4 of waiting). From half of the target on it is hard to meet, which the
 * pool's law heeds. high: the service time that the base leaves room for, a little beyond the percentile, so that
 * a service that has become slow is noticed after few answers.
 */
static void judge_reachable(adaptive_class *k, double high)
{
	double target = (double)k->target_ns, spent = (double)GET(k->spent_ns), alone = high + spent;
	PUT(k->alone_ns, (float)alone);
	if (alone > target)
		PUT(k->unreachable, true);
	else if (alone < .8 * target)
		PUT(k->unreachable, false);
	double left = fmax(target - spent, 0);
	if (high > left / 2)
		PUT(k->strained, true);
	else if (high < .4 * left)
		PUT(k->strained, false);
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
	/* Where two targets are the tighter bound, credit for being late by one buys nothing. */
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
 * Other classes keep starting while requests of this class wait, or have waited and were dropped. Then
 * its former time per start is no guide. A class without any requests in that time does not starve.
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

/* How much of the wait that the target allows, without credit, is used. */
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

/* No pledge may keep the others out for ever, whatever has happened to its request. */
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
			k->seen_starts = GET(a->starts); /* it does not starve from its first arrival on */
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
	adaptive_shadow_tick(a, sample);
}
