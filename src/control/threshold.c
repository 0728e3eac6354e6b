/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEDA's load shedding: a queue longer than the class's threshold admits no more of that class. With a
 * target there is one more threshold for all classes, which follows the mean response time of a window
 * (100 requests, or a second):
 *
 *  mean > target:  threshold = threshold / fall, at least `least`
 *  mean < target:  threshold = threshold + rise, at most `most`
 *
 * The paper says "exponentially reduces" and "increases by a fixed amount", but not by how much. It also
 * says that this guarantees no response time: events in the queue when the threshold falls still wait for
 * their turn, and a mean is not a percentile. It is here as a baseline.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/aimd_core.h"

/* A tick of 100 ms is short enough for a window of a second. Without a target a tick does nothing. */
#define TICK_NS UINT64_C(100000000)

typedef struct threshold {
	/* const after init, with all defaults filled in */
	weir_threshold_params params;
	/* written at ticks, read by any */
	_Atomic uint32_t now; /* UINT32_MAX: without a target */
	_Atomic double mean_ns;
	/* the thread of the ticks */
	uint64_t began_ns;
	weir_window window;
} threshold;

static uint32_t current(const threshold *t)
{
	return atomic_load_explicit(&t->now, memory_order_relaxed);
}

/* Also for callers that set some fields and leave the others 0. */
static void fill_in(weir_threshold_params *p)
{
	p->most = p->most != 0 ? p->most : 1024;
	p->least = p->least != 0 ? p->least : 1;
	p->rise = p->rise != 0 ? p->rise : 10;
	p->fall = p->fall != 0 ? p->fall : 2;
	p->samples = p->samples != 0 ? p->samples : 100;
	p->timeout_ns = p->timeout_ns != 0 ? p->timeout_ns : WEIR_NS_PER_S;
}

static void threshold_defaults(void *params)
{
	fill_in(params);
}

static int check(const weir_threshold_params *p, const char **ret_wrong)
{
	if (p->least > p->most)
		*ret_wrong = "least must be from 1 to most";
	else if (!(p->fall > 1 && p->fall <= 1000))
		*ret_wrong = "fall must be above 1 and at most 1000";
	else if (p->samples > WEIR_WINDOW_MAX)
		*ret_wrong = "samples must be from 1 to 1000";
	else if (p->timeout_ns < TICK_NS || p->timeout_ns > 3600 * WEIR_NS_PER_S)
		*ret_wrong = "timeout must be from 100ms to 1h";
	else if (p->target_ns != 0)
		return weir_aimd_check_target(p->target_ns, ret_wrong);
	else
		return 0;
	return -EINVAL;
}

static int threshold_init(void *state, const void *params, const char **ret_wrong)
{
	threshold *t = state;
	if (params == NULL) {
		*ret_wrong = "parameters are required (weir_threshold_params)";
		return -EINVAL;
	}
	weir_threshold_params p = *(const weir_threshold_params *)params;
	fill_in(&p);
	if (check(&p, ret_wrong) != 0)
		return -EINVAL;
	t->params = p;
	atomic_init(&t->now, p.target_ns != 0 ? p.most : UINT32_MAX);
	atomic_init(&t->mean_ns, 0);
	t->began_ns = 0;
	weir_window_init(&t->window, p.samples);
	return 0;
}

static weir_verdict threshold_admit(void *state, const weir_ask *ask)
{
	const threshold *t = state;
	uint32_t most = t->params.waiting[ask->klass % WEIR_CLASSES];
	uint64_t then = (uint64_t)ask->waiting + ask->count;
	if ((most != 0 && then > most) || then > current(t))
		return WEIR_SHED_THRESHOLD;
	return WEIR_ADMITTED;
}

static void threshold_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	threshold *t = state;
	if (t->params.target_ns != 0)
		weir_window_settle(&t->window, event, outcome, t->params.target_ns, now_ns);
}

/* ---- ticks ---- */

static uint32_t next(const threshold *t, double mean_ns)
{
	const weir_threshold_params *p = &t->params;
	uint32_t now = current(t);
	if (mean_ns > (double)p->target_ns) {
		uint32_t less = (uint32_t)(now / p->fall);
		return less > p->least ? less : p->least;
	}
	return mean_ns < (double)p->target_ns && now < p->most
		       ? (p->most - now > p->rise ? now + p->rise : p->most)
		       : now;
}

static void threshold_tick(void *state, const weir_sample *sample)
{
	threshold *t = state;
	uint64_t samples[WEIR_WINDOW_MAX];
	if (t->params.target_ns == 0)
		return;
	if (t->began_ns == 0)
		t->began_ns = sample->now_ns;
	uint32_t count = weir_window_count(&t->window);
	bool over = sample->now_ns - t->began_ns >= t->params.timeout_ns;
	if (count == 0 || (count < t->params.samples && !over))
		return;
	count = weir_window_take(&t->window, samples);
	if (count == 0)
		return;
	double mean_ns = weir_window_mean(samples, count);
	atomic_store_explicit(&t->mean_ns, mean_ns, memory_order_relaxed);
	atomic_store_explicit(&t->now, next(t, mean_ns), memory_order_relaxed);
	t->began_ns = sample->now_ns;
}

/* ---- reports ---- */

static void threshold_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const threshold *t = state;
	ret_why->estimate_ns = (uint64_t)atomic_load_explicit(&t->mean_ns, memory_order_relaxed);
	ret_why->target_ns = t->params.target_ns;
	ret_why->retry_after_ns = 0;
}

static void threshold_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const threshold *t = state;
	uint32_t most = t->params.waiting[klass % WEIR_CLASSES], now = current(t);
	double mean_ns = atomic_load_explicit(&t->mean_ns, memory_order_relaxed);
	most = most != 0 && most < now ? most : now;
	ret_report->target_ns = t->params.target_ns;
	ret_report->measured_ns = (uint64_t)mean_ns;
	if (most != UINT32_MAX)
		weir_report_add(ret_report, "threshold", most);
}

static int threshold_save(const void *state, char *text, size_t size)
{
	return snprintf(text, size, "%" PRIu32, current(state));
}

static int threshold_load(void *state, const char *text)
{
	threshold *t = state;
	char *end;
	unsigned long now = strtoul(text, &end, 10);
	if (end == text || *end != '\0' || now == 0 || now > UINT32_MAX)
		return -EINVAL;
	if (t->params.target_ns == 0)
		return 0;
	now = now < t->params.least ? t->params.least : now;
	now = now > t->params.most ? t->params.most : now;
	atomic_store_explicit(&t->now, (uint32_t)now, memory_order_relaxed);
	return 0;
}

#define ROW(field, is, least, most, tells) \
	WEIR_KEY(#field, is, weir_threshold_params, field, NULL, tells, .min = least, .max = most)
static const weir_key threshold_params[] = {
	WEIR_KEY("waiting", COUNT, weir_threshold_params, waiting, NULL,
		 "Sheds while this many events wait; 0: no limit", .flags = WEIR_KEY_PER_CLASS, .max = 4e9),
	WEIR_KEY("target", TIME, weir_threshold_params, target_ns, NULL,
		 "The mean response time that a second threshold follows; 0s: there is none",
		 .max = WEIR_AIMD_TARGET_MAX),
	ROW(most, COUNT, 0, 4e9, "The second threshold at the beginning, and its upper bound"),
	ROW(least, COUNT, 0, 4e9, "The lower bound of the second threshold"),
	ROW(rise, COUNT, 0, 4e9, "The second threshold rises by this after a window below the target"),
	ROW(fall, NUMBER, 1.001, 1000,
	    "The second threshold is divided by this after a window above the target"),
	ROW(samples, COUNT, 0, WEIR_WINDOW_MAX, "The response times of a window"),
	WEIR_KEY("timeout", TIME, weir_threshold_params, timeout_ns, NULL,
		 "A window that is not full ends after this time", .min = TICK_NS, .max = 3.6e12),
	{0},
};

const weir_admission_law weir_law_threshold = {
	.name = "threshold",
	.brief = "sheds when so many wait; with a target, SEDA's threshold that follows the mean response "
		 "time",
	.state_bytes = sizeof(threshold),
	.params_bytes = sizeof(weir_threshold_params),
	.params = threshold_params,
	.defaults = threshold_defaults,
	.tick_ns = TICK_NS,
	.init = threshold_init,
	.admit = threshold_admit,
	.settle = threshold_settle,
	.tick = threshold_tick,
	.explain = threshold_explain,
	.report = threshold_report,
	.save = threshold_save,
	.load = threshold_load,
};
