/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit on the events inside (waiting and in service) that follows the response time. It works like the
 * gradient limits of current proxies, but compares with the configured target instead of a minimum that
 * was measured some time ago:
 *
 *  gradient = clamp(aim * target / measured, 1/2, most)
 *  wanted   = limit * gradient + headroom * sqrt(limit)
 *  limit    = limit + smoothing * (wanted - limit), within [min_limit, max_limit]
 *
 * This happens once per window. A window is as long as the target, and longer while too few events have
 * ended to know a percentile. measured is the percentile (or the mean) of the response times of the
 * events that ended in it.
 *
 * 1. The limit grows only if at least half of it was used in the window: idleness is no proof of
 *    capacity.
 * 2. An event that was refused further down counts as twice the target: it was fast, but no sign of
 *    health. An event that left the queue after more than the target's time counts with that time. Other
 *    failures are ignored.
 * 3. If nothing ended there is nothing to learn, and the limit stays.
 *
 * Threads: as in law.h. Offers and ends share the count of events inside, the peak and the histogram;
 * ticks write the limit.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir/law.h>

#include "base/hist.h"
#include "base/text.h"
#include "control/inside.h"
#include "control/recent.h"

#define GRADIENT_MIN .5

typedef struct gradient {
	/* const after init */
	weir_gradient_params params;
	uint64_t window_ns;
	/* any thread */
	_Alignas(64) _Atomic uint32_t limit; /* in whole events */
	weir_inside inside;
	_Atomic uint32_t peak; /* maximum inside, in this window */
	weir_recent recent;
	/* ticks; the atomics are read by others */
	uint64_t began_ns;     /* start of the window; 0: none yet */
	_Atomic double finely; /* the limit, unrounded */
	_Atomic double slope;  /* the last gradient */
	_Atomic uint64_t measured_ns;
	weir_hist seen; /* response times before the window */
	/* any thread */
	weir_hist responses;
} gradient;

/* ---- initialisation ---- */

static const char *wrong_params(const weir_gradient_params *p)
{
	if (p->target_ns == 0)
		return "a target is required, as 200ms";
	if (!(p->percentile >= .5 && p->percentile <= .999))
		return "percentile must be from p50 to p99.9";
	if (p->min_limit == 0 || p->max_limit < p->min_limit || p->initial_limit < p->min_limit ||
	    p->initial_limit > p->max_limit)
		return "limits must be 1 <= min_limit <= initial_limit <= max_limit";
	if (!(p->aim > 0 && p->aim <= 1) || !(p->most >= 1 && p->most <= 2))
		return "aim must be more than 0 and at most 1, most from 1 to 2";
	if (!(p->headroom >= 0 && p->headroom <= 100) || !(p->smoothing > 0 && p->smoothing <= 1))
		return "headroom must be from 0 to 100, smoothing more than 0 and at most 1";
	return NULL;
}

static void gradient_defaults(void *params)
{
	*(weir_gradient_params *)params = (weir_gradient_params){.percentile = .9,
								 .initial_limit = 20,
								 .min_limit = 1,
								 .max_limit = 100000,
								 .aim = .8,
								 .most = 1,
								 .headroom = 1,
								 .smoothing = .2,
								 .samples = 20};
}

static void set_limit(gradient *g, double limit)
{
	limit = fmin(fmax(limit, g->params.min_limit), g->params.max_limit);
	atomic_store_explicit(&g->finely, limit, memory_order_relaxed);
	atomic_store_explicit(&g->limit, (uint32_t)limit, memory_order_relaxed);
}

static int gradient_init(void *state, const void *params, const char **ret_wrong)
{
	gradient *g = state;
	const weir_gradient_params *p = params;
	const char *wrong = p != NULL ? wrong_params(p) : "parameters are required (weir_gradient_params)";
	if (wrong != NULL) {
		*ret_wrong = wrong;
		return -EINVAL;
	}
	memset(g, 0, sizeof(*g));
	g->params = *p;
	g->window_ns = p->window_ns != 0 ? p->window_ns : p->target_ns;
	atomic_init(&g->slope, 1);
	set_limit(g, p->initial_limit);
	return 0;
}

/* ---- events ---- */

static void raise_peak(gradient *g, uint32_t inside)
{
	uint32_t peak = atomic_load_explicit(&g->peak, memory_order_relaxed);
	while (inside > peak && !atomic_compare_exchange_weak_explicit(
					&g->peak, &peak, inside, memory_order_relaxed, memory_order_relaxed))
		;
}

static weir_verdict gradient_admit(void *state, const weir_ask *ask)
{
	gradient *g = state;
	if (!weir_inside_enter(&g->inside, ask, atomic_load_explicit(&g->limit, memory_order_relaxed))) {
		raise_peak(g, UINT32_MAX);
		weir_recent_refused(&g->recent, ask->klass);
		return WEIR_SHED_LIMIT;
	}
	raise_peak(g, weir_inside_count(&g->inside));
	return WEIR_ADMITTED;
}

static void gradient_refund(void *state, const weir_ask *ask)
{
	weir_inside_leave(&((gradient *)state)->inside, ask->count);
}

static void gradient_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	gradient *g = state;
	weir_inside_leave(&g->inside, 1);
	if (now_ns > event->offered_ns + g->params.target_ns)
		weir_hist_add_shared(&g->responses, now_ns - event->offered_ns);
}

static void gradient_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	gradient *g = state;
	weir_inside_leave(&g->inside, 1);
	if (outcome == WEIR_REFUSED)
		weir_hist_add_shared(&g->responses, 2 * g->params.target_ns);
	else if (outcome == WEIR_DONE)
		weir_hist_add_shared(&g->responses,
				     now_ns > event->offered_ns ? now_ns - event->offered_ns : 0);
}

/* ---- ticks ---- */

/* Ends the window and returns what it measured; 0: too little so far, the window continues. */
static double end_window(gradient *g)
{
	weir_hist now, window;
	weir_hist_clear(&now);
	weir_hist_merge(&now, &g->responses);
	window = now;
	weir_hist_subtract(&window, &g->seen);
	uint64_t count = weir_hist_count(&window);
	if (count == 0 || count < g->params.samples)
		return 0;
	memcpy(&g->seen, &now, sizeof(now));
	uint64_t quantile = weir_hist_quantile(&window, g->params.percentile);
	double measured = g->params.mean ? weir_hist_mean(&window) : (double)quantile;
	return measured > 1 ? measured : 1;
}

static void adapt(gradient *g, double measured_ns, uint32_t peak)
{
	const weir_gradient_params *p = &g->params;
	double limit = atomic_load_explicit(&g->finely, memory_order_relaxed);
	double slope = p->aim * (double)p->target_ns / measured_ns;
	slope = fmin(fmax(slope, GRADIENT_MIN), p->most);
	double wanted = limit * slope + p->headroom * sqrt(limit);
	atomic_store_explicit(&g->slope, slope, memory_order_relaxed);
	atomic_store_explicit(&g->measured_ns, (uint64_t)measured_ns, memory_order_relaxed);
	if (wanted <= limit || peak >= limit / 2)
		set_limit(g, limit + p->smoothing * (wanted - limit));
}

static void gradient_tick(void *state, const weir_sample *sample)
{
	gradient *g = state;
	weir_recent_tick(&g->recent, sample);
	if (g->began_ns == 0)
		g->began_ns = sample->now_ns;
	if (sample->now_ns - g->began_ns < g->window_ns)
		return;
	double measured_ns = end_window(g);
	if (measured_ns == 0)
		return;
	uint32_t inside = weir_inside_count(&g->inside);
	adapt(g, measured_ns, atomic_exchange_explicit(&g->peak, inside, memory_order_relaxed));
	g->began_ns = sample->now_ns;
}

/* ---- reports ---- */

static void gradient_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const gradient *g = state;
	bool never = ask->count > atomic_load_explicit(&g->limit, memory_order_relaxed);
	ret_why->estimate_ns = atomic_load_explicit(&g->measured_ns, memory_order_relaxed);
	ret_why->target_ns = g->params.target_ns;
	ret_why->retry_after_ns = never ? 0 : weir_recent_retry_ns(&g->recent, ask->count);
}

static void gradient_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const gradient *g = state;
	uint32_t limit = atomic_load_explicit(&g->limit, memory_order_relaxed);
	uint64_t measured_ns = atomic_load_explicit(&g->measured_ns, memory_order_relaxed);
	ret_report->quantile = g->params.percentile;
	ret_report->target_ns = g->params.target_ns;
	ret_report->measured_ns = measured_ns;
	ret_report->limit = limit;
	ret_report->shedding = weir_recent_shedding(&g->recent, klass);
	ret_report->unreachable = limit == g->params.min_limit && measured_ns > g->params.target_ns;
	ret_report->value[0].name = "inside";
	ret_report->value[0].value = weir_inside_count(&g->inside);
	ret_report->value[1].name = "gradient";
	ret_report->value[1].value = atomic_load_explicit(&g->slope, memory_order_relaxed);
	ret_report->count = 2;
}

/* A whole number, so that every locale reads it back unchanged. */
static int gradient_save(const void *state, char *text, size_t size)
{
	const gradient *g = state;
	return snprintf(text, size, "limit=%u", atomic_load_explicit(&g->limit, memory_order_relaxed));
}

static int gradient_load(void *state, const char *text)
{
	uint32_t limit;
	if (strncmp(text, "limit=", 6) != 0 || weir_text_count(text + 6, &limit) != 0 || limit == 0)
		return -EINVAL;
	set_limit(state, limit);
	return 0;
}

static const weir_key gradient_params[] = {
	WEIR_KEY("percentile", PERCENTILE, weir_gradient_params, percentile, NULL,
		 "The percentile of the response times that is compared with the target", .min = .5,
		 .max = .999),
	WEIR_KEY("target", TIME, weir_gradient_params, target_ns, NULL, "The response time to hold",
		 .flags = WEIR_KEY_REQUIRED, .min = 1e3, .max = 3.6e12),
	WEIR_KEY("mean", SWITCH, weir_gradient_params, mean, NULL,
		 "Holds the mean instead of the percentile", ),
	WEIR_KEY("initial_limit", COUNT, weir_gradient_params, initial_limit, NULL,
		 "The limit on events inside at the beginning", .min = 1, .max = 1e9),
	WEIR_KEY("min_limit", COUNT, weir_gradient_params, min_limit, NULL, "The lowest limit", .min = 1,
		 .max = 1e9),
	WEIR_KEY("max_limit", COUNT, weir_gradient_params, max_limit, NULL, "The highest limit", .min = 1,
		 .max = 1e9),
	WEIR_KEY("aim", NUMBER, weir_gradient_params, aim, NULL,
		 "The fraction of the target that is aimed at", .max = 1),
	WEIR_KEY("most", NUMBER, weir_gradient_params, most, NULL,
		 "The largest gradient, by which the limit may grow in a window", .min = 1, .max = 2),
	WEIR_KEY("headroom", NUMBER, weir_gradient_params, headroom, NULL,
		 "The headroom that is always added, as a multiple of the root of the limit", .max = 100),
	WEIR_KEY("smoothing", NUMBER, weir_gradient_params, smoothing, NULL,
		 "The fraction of a change that is made at once", .max = 1),
	WEIR_KEY("window", TIME, weir_gradient_params, window_ns, NULL,
		 "The least time between two changes; 0s: the target", .max = 3.6e12),
	WEIR_KEY("samples", COUNT, weir_gradient_params, samples, NULL,
		 "The number of events that must have ended in a window", .max = 1e9),
	{.name = NULL},
};

const weir_admission_law weir_law_gradient = {
	.name = "gradient",
	.brief = "a limit on events inside that follows the ratio of target and measured response time",
	.state_bytes = sizeof(gradient),
	.params_bytes = sizeof(weir_gradient_params),
	.params = gradient_params,
	.defaults = gradient_defaults,
	.tick_ns = 10 * WEIR_NS_PER_MS,
	.init = gradient_init,
	.admit = gradient_admit,
	.refund = gradient_refund,
	.gone = gradient_gone,
	.settle = gradient_settle,
	.tick = gradient_tick,
	.explain = gradient_explain,
	.report = gradient_report,
	.save = gradient_save,
	.load = gradient_load,
};
