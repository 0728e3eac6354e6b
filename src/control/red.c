/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random early detection (Floyd and Jacobson 1993): refuses with a probability that grows with the
 * average length of the queue, so that a burst passes and a standing queue does not.
 *
 *  each offer      avg = (1 - w) avg + w q;  if the queue is empty, once more for every event that
 *                  could have left since it became empty
 *  avg < min       admit;  c = 0
 *  avg < max       p = max_p (avg - min) / (max - min)
 *  avg < 2 max     p = max_p + (1 - max_p) (avg - max) / max      if gentle (Floyd 2000), otherwise refuse
 *  else            refuse
 *                  refuse with p / (1 - c p), where c were admitted since the last refusal: then c = 0
 *
 * So the number of offers from one refusal to the next is uniform on 1 .. 1/p, as the paper derives it.
 * (Its pseudo-code begins with c = 1 after a refusal and -1 otherwise, which is uniform on 1 .. 1/p - 1.)
 *
 * Thresholds are numbers of events. With a target they follow from it and from the time g between two
 * starts while events wait: 2 max = 3/4 target / g, so that the last event admitted waits for three
 * quarters of the target, and min = max / 3.
 *
 * The law uses no function of the C library that differs between machines, and has its own generator: the
 * same seed and offers give the same verdicts.
 *
 * Threads: one state per queue. Offers, on any thread, share avg, c, the generator and the time since
 * which the queue has been empty; starts, on one thread, write g. All are relaxed atomics: each number is
 * right by itself, and nothing depends on two of them.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir/law.h>

#include "base/mix.h"
#include "base/text.h"
#include "control/recent.h"

#define GAP_WEIGHT (1.0 / 64)
#define WAIT_PART  .75 /* part of the target for waiting; the rest is for the work */

typedef struct red {
	/* const after init */
	weir_red_params params;
	/* offers */
	_Atomic double average;
	_Atomic int64_t since; /* c */
	_Atomic uint64_t random;
	/* When an event last left the queue. If the queue is empty, it has been idle since then. */
	_Atomic uint64_t left_ns;
	/* written by starts */
	_Atomic double gap_ns; /* 0: unknown */
	uint64_t started_ns;
	bool busy; /* other events waited at the last start */
	weir_recent recent;
} red;

typedef struct thresholds {
	double min, max;
} thresholds;

static double read_number(const _Atomic double *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

static const char *wrong_params(const weir_red_params *p)
{
	if (!(p->min_threshold >= 0 && p->max_threshold > p->min_threshold && p->max_threshold <= 1e9))
		return "min_threshold must be 0 or more, max_threshold more than that and at most 1000000000 "
		       "events";
	if (!(p->max_p > 0 && p->max_p <= 1))
		return "max_p must be more than 0 and at most 1";
	if (!(p->weight > 0 && p->weight <= 1))
		return "weight must be more than 0 and at most 1";
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return "percentile must be from p50 to p99.9";
	return NULL;
}

static void red_defaults(void *params)
{
	*(weir_red_params *)params = (weir_red_params){.min_threshold = 5,
						       .max_threshold = 15,
						       .max_p = .1,
						       .weight = .002,
						       .percentile = .9,
						       .gentle = true,
						       .seed = 1};
}

static int red_init(void *state, const void *params, const char **ret_wrong)
{
	red *r = state;
	weir_red_params defaults;
	red_defaults(&defaults);
	const weir_red_params *p = params != NULL ? params : &defaults;
	const char *wrong = wrong_params(p);
	if (wrong != NULL) {
		*ret_wrong = wrong;
		return -EINVAL;
	}
	*r = (red){.params = *p};
	atomic_init(&r->random, p->seed);
	return 0;
}

/* ---- the average ---- */

/* base to the power of a whole number, by multiplication only. */
static double power(double base, uint64_t exponent)
{
	double result = 1;
	for (; exponent != 0 && result > 0; exponent >>= 1, base *= base)
		if (exponent & 1)
			result *= base;
	return result;
}

/* How many events could have left the queue since it became empty. */
static uint64_t idle_slots(red *r, uint64_t now_ns)
{
	double gap_ns = read_number(&r->gap_ns);
	/* Exchanged, so that two offers do not both count the same time. */
	uint64_t left_ns = atomic_exchange_explicit(&r->left_ns, now_ns, memory_order_relaxed);
	if (gap_ns <= 0 || left_ns == 0 || left_ns >= now_ns)
		return 0;
	double slots = (double)(now_ns - left_ns) / gap_ns;
	return slots < 1e9 ? (uint64_t)slots : 1000000000;
}

/* The average, updated with this offer's view of the queue. */
static double take_average(red *r, const weir_ask *ask)
{
	uint64_t looks = ask->count;
	if (ask->waiting == 0)
		looks += idle_slots(r, ask->now_ns);
	double keep = looks == 1 ? 1 - r->params.weight : power(1 - r->params.weight, looks);
	double before = read_number(&r->average), after;
	do
		after = keep * before + (1 - keep) * ask->waiting;
	while (!atomic_compare_exchange_weak_explicit(&r->average, &before, after, memory_order_relaxed,
						      memory_order_relaxed));
	return after;
}

/* ---- the verdict ---- */

static thresholds thresholds_now(const red *r)
{
	double gap_ns = read_number(&r->gap_ns);
	if (r->params.target_ns == 0 || gap_ns <= 0)
		return (thresholds){r->params.min_threshold, r->params.max_threshold};
	double max = WAIT_PART * (double)r->params.target_ns / gap_ns / 2;
	max = max > 1 ? max : 1;
	return (thresholds){max / 3, max};
}

/* p, before the spacing. */
static double chance(const red *r, double average)
{
	thresholds t = thresholds_now(r);
	double max_p = r->params.max_p;
	if (average < t.min)
		return 0;
	if (average < t.max)
		return max_p * (average - t.min) / (t.max - t.min);
	if (!r->params.gentle || average >= 2 * t.max)
		return 1;
	return max_p + (1 - max_p) * (average - t.max) / t.max;
}

static double draw(red *r)
{
	uint64_t z = atomic_fetch_add_explicit(&r->random, WEIR_MIX_STEP, memory_order_relaxed);
	return (double)(weir_mix(z + WEIR_MIX_STEP) >> 11) * 0x1p-53;
}

/* An offer of many is refused with the sum of its events' probabilities. */
static bool refuses(red *r, double p, uint32_t count)
{
	int64_t since = atomic_fetch_add_explicit(&r->since, count, memory_order_relaxed);
	double left = 1 - (double)since * p, share = p * count;
	if (p < 1 && left > share && draw(r) * left >= share)
		return false;
	atomic_store_explicit(&r->since, 0, memory_order_relaxed);
	return true;
}

static weir_verdict red_admit(void *state, const weir_ask *ask)
{
	red *r = state;
	double p = chance(r, take_average(r, ask));
	if (p <= 0) {
		if (atomic_load_explicit(&r->since, memory_order_relaxed) != 0)
			atomic_store_explicit(&r->since, 0, memory_order_relaxed);
		return WEIR_ADMITTED;
	}
	if (!refuses(r, p, ask->count))
		return WEIR_ADMITTED;
	weir_recent_refused(&r->recent, ask->klass);
	return WEIR_SHED_THRESHOLD;
}

/* ---- what leaves the queue ---- */

/* Starts follow each other at the speed of the service only while others wait. */
static weir_verdict red_start(void *state, const weir_event *event, const weir_turn *turn)
{
	red *r = state;
	double gap_ns = read_number(&r->gap_ns), now_gap_ns = (double)(turn->now_ns - r->started_ns);
	if (r->busy && turn->now_ns >= r->started_ns)
		atomic_store_explicit(&r->gap_ns,
				      gap_ns <= 0 ? now_gap_ns : gap_ns + GAP_WEIGHT * (now_gap_ns - gap_ns),
				      memory_order_relaxed);
	r->started_ns = turn->now_ns;
	r->busy = turn->waiting != 0;
	atomic_store_explicit(&r->left_ns, turn->now_ns, memory_order_relaxed);
	return WEIR_ADMITTED;
}

static void red_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	atomic_store_explicit(&((red *)state)->left_ns, now_ns, memory_order_relaxed);
}

static void red_tick(void *state, const weir_sample *sample)
{
	weir_recent_tick(&((red *)state)->recent, sample);
}

/* ---- reports ---- */

/*
 * Until the average is below the point where refusals begin: nothing makes it fall faster than an empty
 * queue.
 */
static void red_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const red *r = state;
	double average = read_number(&r->average), gap_ns = read_number(&r->gap_ns);
	double excess = average - thresholds_now(r).min;
	ret_why->estimate_ns = (uint64_t)(ask->waiting * gap_ns);
	ret_why->target_ns = r->params.target_ns;
	ret_why->retry_after_ns = excess > 0 ? (uint64_t)(excess * gap_ns) : 0;
}

static void red_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const red *r = state;
	thresholds t = thresholds_now(r);
	double average = read_number(&r->average);
	const struct {
		const char *name;
		double value;
	} own[] = {{"average", average}, {"min", t.min}, {"max", t.max}, {"chance", chance(r, average)}};
	ret_report->quantile = r->params.percentile;
	ret_report->target_ns = r->params.target_ns;
	ret_report->shedding = weir_recent_shedding(&r->recent, klass);
	ret_report->count = sizeof(own) / sizeof(own[0]);
	for (unsigned i = 0; i < ret_report->count; i++) {
		ret_report->value[i].name = own[i].name;
		ret_report->value[i].value = own[i].value;
	}
}

/* Saves the time between two starts, from which the thresholds follow. The average is only momentary. */
static int red_save(const void *state, char *text, size_t size)
{
	char gap[32];
	weir_text_print_time(gap, sizeof(gap), (uint64_t)read_number(&((const red *)state)->gap_ns), NULL);
	return snprintf(text, size, "gap=%s", gap);
}

static int red_load(void *state, const char *text)
{
	uint64_t gap_ns;
	if (strncmp(text, "gap=", 4) != 0 || weir_text_time(text + 4, &gap_ns) != 0)
		return -EINVAL;
	atomic_store_explicit(&((red *)state)->gap_ns, (double)gap_ns, memory_order_relaxed);
	return 0;
}

static const weir_key red_params[] = {
	WEIR_KEY("percentile", PERCENTILE, weir_red_params, percentile, NULL,
		 "The percentile that the target is meant for. It is reported, and has no influence",
		 .min = .5, .max = .999),
	WEIR_KEY("target", TIME, weir_red_params, target_ns, NULL,
		 "The thresholds follow from this time; 0s: they are as given", .max = 3.6e12),
	WEIR_KEY("min_threshold", NUMBER, weir_red_params, min_threshold, NULL,
		 "The average queue at which refusals begin, in events", .max = 1e9),
	WEIR_KEY("max_threshold", NUMBER, weir_red_params, max_threshold, NULL,
		 "The average queue at which the probability is max_p, in events", .max = 1e9),
	WEIR_KEY("max_p", NUMBER, weir_red_params, max_p, NULL,
		 "The probability of a refusal at max_threshold", .max = 1),
	WEIR_KEY("weight", NUMBER, weir_red_params, weight, NULL,
		 "The weight of one sample of the queue in the average", .max = 1),
	WEIR_KEY("gentle", SWITCH, weir_red_params, gentle, NULL,
		 "The probability grows to 1 at twice max_threshold, instead of jumping to 1 at once", ),
	WEIR_KEY("seed", COUNT, weir_red_params, seed, NULL, "The seed of its random numbers",
		 .max = UINT32_MAX),
	{.name = NULL},
};

const weir_admission_law weir_law_red = {
	.name = "red",
	.brief = "random early detection: refuses the more often the longer the queue is on average",
	.state_bytes = sizeof(red),
	.params_bytes = sizeof(weir_red_params),
	.params = red_params,
	.defaults = red_defaults,
	.tick_ns = 100 * WEIR_NS_PER_MS,
	.per_lane = true,
	.init = red_init,
	.admit = red_admit,
	.start = red_start,
	.gone = red_gone,
	.tick = red_tick,
	.explain = red_explain,
	.report = red_report,
	.save = red_save,
	.load = red_load,
};
