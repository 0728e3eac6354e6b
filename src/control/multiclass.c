/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AOC 3.3: a response-time controller (aimd_core.h) and a bucket for each class. A class that misses its
 * target takes from the classes below it before it gives up anything itself:
 *
 *  err > err_d:  all classes below: rate = rate / adjlo_d, and no rise until this class's next window
 *                if all of those are already at rate_min: lag = lag + 1; from lc_thresh on:
 *                rate = rate / adj_d
 *  err < err_i:  rate = rate - (err - c_i) adj_i, unless a class above has forbidden it
 *
 * "The next iteration", for which the paper forbids rises, is here the next window of the class that
 * forbids them: the windows of the classes are not synchronous, and do not end equally often. Where the
 * paper says nothing: the lag starts again from 0 when the class is back within its target. Only classes
 * with recent offers count as "all of those", or a service with two classes of eight would wait for six
 * unused ones.
 */
#include <errno.h>
#include <stdio.h>

#include "control/aimd_core.h"

typedef struct multiclass {
	/* const after init */
	double adjlo_d;
	uint32_t lc_thresh;
	/* written at ticks, read by any */
	_Atomic uint32_t lag[WEIR_CLASSES];
	weir_aimd klass[WEIR_CLASSES];
} multiclass;

static weir_aimd *of_class(void *state, unsigned klass)
{
	return &((multiclass *)state)->klass[klass % WEIR_CLASSES];
}

static const weir_aimd *seen_class(const void *state, unsigned klass)
{
	return &((const multiclass *)state)->klass[klass % WEIR_CLASSES];
}

static void multiclass_defaults(void *params)
{
	weir_multiclass_params *p = params;
	p->adjlo_d = 10;
	p->lc_thresh = 20;
	weir_aimd_defaults(&p->tuning);
}

/* A target of 0 means that of the class above. */
static int fill_targets(const uint64_t *given, uint64_t *ret_targets, const char **ret_wrong)
{
	uint64_t target_ns = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		target_ns = given[k] != 0 ? given[k] : target_ns;
		if (weir_aimd_check_target(target_ns, ret_wrong) != 0)
			return -EINVAL;
		ret_targets[k] = target_ns;
	}
	return 0;
}

static int multiclass_check(const weir_multiclass_params *p, const char **ret_wrong)
{
	if (p == NULL)
		*ret_wrong = "parameters are required (weir_multiclass_params)";
	else if (!(p->adjlo_d >= 1 && p->adjlo_d <= 1e6))
		*ret_wrong = "adjlo_d must be from 1 to 1000000";
	else if (p->lc_thresh > 1000000)
		*ret_wrong = "lc_thresh must be from 0 to 1000000";
	else
		return weir_aimd_check(&p->tuning, ret_wrong);
	return -EINVAL;
}

static int multiclass_init(void *state, const void *params, const char **ret_wrong)
{
	multiclass *m = state;
	const weir_multiclass_params *p = params;
	uint64_t targets[WEIR_CLASSES];
	if (multiclass_check(p, ret_wrong) != 0 || fill_targets(p->target_ns, targets, ret_wrong) != 0)
		return -EINVAL;
	m->adjlo_d = p->adjlo_d;
	m->lc_thresh = p->lc_thresh;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		atomic_init(&m->lag[k], 0);
		weir_aimd_init(&m->klass[k], &p->tuning, targets[k]);
	}
	return 0;
}

static weir_verdict multiclass_admit(void *state, const weir_ask *ask)
{
	return weir_aimd_admit(of_class(state, ask->klass), ask);
}

static void multiclass_refund(void *state, const weir_ask *ask)
{
	weir_aimd_refund(of_class(state, ask->klass), ask);
}

static weir_verdict multiclass_start(void *state, const weir_event *event, const weir_turn *turn)
{
	return weir_aimd_start(of_class(state, event->klass), event, turn);
}

static void multiclass_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_aimd_gone(of_class(state, event->klass));
}

static void multiclass_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_aimd_settle(of_class(state, event->klass), event, outcome, now_ns);
}

/* ---- ticks ---- */

/* Returns whether there was anything to take. */
static bool cut_below(multiclass *m, unsigned klass, uint64_t now_ns)
{
	bool taken = false;
	for (unsigned lower = klass + 1; lower < WEIR_CLASSES; lower++) {
		weir_aimd *aimd = &m->klass[lower];
		taken |= weir_aimd_wanted(aimd) && weir_aimd_rate(aimd) > aimd->tuning.rate_min;
		weir_aimd_cut(aimd, m->adjlo_d, now_ns);
	}
	return taken;
}

static void over(multiclass *m, unsigned klass, uint64_t now_ns)
{
	if (cut_below(m, klass, now_ns))
		return;
	uint32_t lag = atomic_load_explicit(&m->lag[klass], memory_order_relaxed);
	if (lag < m->lc_thresh)
		atomic_store_explicit(&m->lag[klass], ++lag, memory_order_relaxed);
	if (lag >= m->lc_thresh)
		weir_aimd_cut(&m->klass[klass], m->klass[klass].tuning.adj_d, now_ns);
}

/* A class above missed its target in its last window: what is saved here is meant for it. */
static bool held(const multiclass *m, unsigned klass)
{
	for (unsigned higher = 0; higher < klass; higher++)
		if (weir_aimd_wanted(&m->klass[higher]) && weir_aimd_over(&m->klass[higher]))
			return true;
	return false;
}

static void step(multiclass *m, unsigned klass, uint64_t now_ns)
{
	weir_aimd *aimd = &m->klass[klass];
	if (weir_aimd_over(aimd)) {
		over(m, klass, now_ns);
	} else {
		atomic_store_explicit(&m->lag[klass], 0, memory_order_relaxed);
		if (weir_aimd_under(aimd) && !held(m, klass))
			weir_aimd_raise(aimd, now_ns);
	}
}

static void multiclass_tick(void *state, const weir_sample *sample)
{
	multiclass *m = state;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (weir_aimd_observe(&m->klass[k], sample->now_ns))
			step(m, k, sample->now_ns);
}

/* ---- reports ---- */

static uint64_t multiclass_patience(const void *state, unsigned klass)
{
	return seen_class(state, klass)->patience_ns;
}

static void multiclass_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	weir_aimd_explain(seen_class(state, ask->klass), ask, ret_why);
}

static bool is_alone(const multiclass *m, unsigned klass)
{
	for (unsigned higher = 0; higher < klass; higher++)
		if (weir_aimd_used(&m->klass[higher]))
			return false;
	return true;
}

static void multiclass_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const multiclass *m = state;
	klass %= WEIR_CLASSES;
	weir_aimd_report(&m->klass[klass], ret_report);
	/* A class that is cut to its minimum for the sake of those above is not unreachable. */
	ret_report->unreachable &= is_alone(m, klass);
	weir_report_add(ret_report, "lag", atomic_load_explicit(&m->lag[klass], memory_order_relaxed));
}

static int multiclass_save(const void *state, char *text, size_t size)
{
	size_t length = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		char one[80];
		weir_aimd_save(seen_class(state, k), one, sizeof(one));
		size_t left = length < size ? size - length : 0;
		length += (size_t)snprintf(left > 0 ? text + length : NULL, left, k > 0 ? " %s" : "%s", one);
	}
	return (int)length;
}

static int multiclass_load(void *state, const char *text)
{
	weir_aimd_learned learned[WEIR_CLASSES];
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (weir_aimd_parse(&text, &learned[k]) != 0)
			return -EINVAL;
	if (*text != '\0')
		return -EINVAL;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		weir_aimd_learn(of_class(state, k), &learned[k]);
	return 0;
}

static const weir_key multiclass_params[] = {
	WEIR_KEY("target", TIME, weir_multiclass_params, target_ns, NULL,
		 "The response time that the percentile is held at. Other classes than 0: 0s is as the class "
		 "above",
		 .flags = WEIR_KEY_PER_CLASS | WEIR_KEY_REQUIRED, .max = WEIR_AIMD_TARGET_MAX),
	WEIR_KEY("adjlo_d", NUMBER, weir_multiclass_params, adjlo_d, NULL,
		 "The factor by which the classes below are cut", .min = 1, .max = 1e6),
	WEIR_KEY("lc_thresh", COUNT, weir_multiclass_params, lc_thresh, NULL,
		 "The windows with nothing to take from the classes below before a class itself is cut",
		 .max = 1e6),
	WEIR_AIMD_PARAMS(weir_multiclass_params),
	{0},
};

const weir_admission_law weir_law_multiclass = {
	.name = "multiclass",
	.brief = "a rate a class, steered as by aimd, the lower classes cut first (AOC 3.3)",
	.state_bytes = sizeof(multiclass),
	.params_bytes = sizeof(weir_multiclass_params),
	.params = multiclass_params,
	.defaults = multiclass_defaults,
	.tick_ns = WEIR_AIMD_TICK_NS,
	.init = multiclass_init,
	.admit = multiclass_admit,
	.refund = multiclass_refund,
	.start = multiclass_start,
	.gone = multiclass_gone,
	.settle = multiclass_settle,
	.tick = multiclass_tick,
	.patience = multiclass_patience,
	.explain = multiclass_explain,
	.report = multiclass_report,
	.save = multiclass_save,
	.load = multiclass_load,
};
