/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AOC 3.4 and 4.5: a quality factor that the stage reads and delivers by. The controller of aimd_core.h
 * does the measuring. It first moves the factor and then, if that does not suffice and `admission` is on,
 * the rate.
 *
 *  DEGRADING (everything is admitted)                      REFUSING (quality at its lowest)
 *  err > err_d:  quality = quality / fall                  err > err_d:  rate = rate / adj_d
 *  err < err_i:  quality = quality + rise                  err < err_i:  rate = rate - (err - c_i) adj_i
 *       at the lowest and err > err_d ──────────────────────▶
 *       ◀────────────── err < err_i, and nothing was refused for a window
 *
 * The paper does not say from which rate the controller starts when it is switched on. Here it starts
 * from what the last window completed, which is what the stage can do. Nor does the paper say how fast
 * quality falls and rises ("slowly"). On the way back everybody is admitted before anybody gets more
 * quality.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "control/aimd_core.h"

typedef struct quality {
	/* const after init */
	bool admission;
	double lowest, fall, rise;
	/* written at ticks, read by any */
	_Atomic double factor;
	_Atomic bool refusing;
	weir_aimd aimd;
} quality;

static bool refusing(const quality *q)
{
	return atomic_load_explicit(&q->refusing, memory_order_relaxed);
}

static double factor(const quality *q)
{
	return atomic_load_explicit(&q->factor, memory_order_relaxed);
}

static void set_factor(quality *q, double value)
{
	atomic_store_explicit(&q->factor, fmin(fmax(value, q->lowest), 1), memory_order_relaxed);
}

static void quality_defaults(void *params)
{
	weir_quality_params *p = params;
	p->quality_min = .1;
	p->fall = 1.2;
	p->rise = .02;
	weir_aimd_defaults(&p->tuning);
}

static int quality_check(const weir_quality_params *p, const char **ret_wrong)
{
	if (p == NULL)
		*ret_wrong = "parameters are required (weir_quality_params)";
	else if (!(p->quality_min > 0 && p->quality_min <= 1))
		*ret_wrong = "quality_min must be above 0 and at most 1";
	else if (!(p->fall > 1 && p->fall <= 1000))
		*ret_wrong = "fall must be above 1 and at most 1000";
	else if (!(p->rise > 0 && p->rise <= 1))
		*ret_wrong = "rise must be above 0 and at most 1";
	else if (weir_aimd_check_target(p->target_ns, ret_wrong) == 0)
		return weir_aimd_check(&p->tuning, ret_wrong);
	return -EINVAL;
}

static int quality_init(void *state, const void *params, const char **ret_wrong)
{
	quality *q = state;
	const weir_quality_params *p = params;
	if (quality_check(p, ret_wrong) != 0)
		return -EINVAL;
	q->admission = p->admission;
	q->lowest = p->quality_min;
	q->fall = p->fall;
	q->rise = p->rise;
	atomic_init(&q->factor, 1);
	atomic_init(&q->refusing, false);
	weir_aimd_init(&q->aimd, &p->tuning, p->target_ns);
	return 0;
}

static weir_verdict quality_admit(void *state, const weir_ask *ask)
{
	quality *q = state;
	if (refusing(q))
		return weir_aimd_admit(&q->aimd, ask);
	weir_aimd_enter(&q->aimd, ask);
	return WEIR_ADMITTED;
}

static void quality_refund(void *state, const weir_ask *ask)
{
	/*
	 * While everything is admitted no tokens are taken. Tokens that are given back then overflow the
	 * bucket.
	 */
	weir_aimd_refund(&((quality *)state)->aimd, ask);
}

static weir_verdict quality_start(void *state, const weir_event *event, const weir_turn *turn)
{
	return weir_aimd_start(&((quality *)state)->aimd, event, turn);
}

static void quality_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_aimd_gone(&((quality *)state)->aimd);
}

static void quality_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_aimd_settle(&((quality *)state)->aimd, event, outcome, now_ns);
}

/* ---- ticks ---- */

static void refuse(quality *q, uint64_t now_ns)
{
	weir_aimd_set_rate(&q->aimd, q->aimd.ended_per_s, now_ns);
	atomic_store_explicit(&q->refusing, true, memory_order_relaxed);
}

static void step_degrading(quality *q, uint64_t now_ns)
{
	if (weir_aimd_over(&q->aimd)) {
		if (factor(q) <= q->lowest && q->admission)
			refuse(q, now_ns);
		set_factor(q, factor(q) / q->fall);
	} else if (weir_aimd_under(&q->aimd)) {
		set_factor(q, factor(q) + q->rise);
	}
}

static void step_refusing(quality *q, uint64_t now_ns)
{
	bool refused = atomic_load_explicit(&q->aimd.shedding, memory_order_relaxed);
	if (weir_aimd_over(&q->aimd))
		weir_aimd_cut(&q->aimd, q->aimd.tuning.adj_d, now_ns);
	else if (weir_aimd_under(&q->aimd) && refused)
		weir_aimd_raise(&q->aimd, now_ns);
	else if (weir_aimd_under(&q->aimd))
		atomic_store_explicit(&q->refusing, false, memory_order_relaxed);
}

static void quality_tick(void *state, const weir_sample *sample)
{
	quality *q = state;
	if (!weir_aimd_observe(&q->aimd, sample->now_ns))
		return;
	if (refusing(q))
		step_refusing(q, sample->now_ns);
	else
		step_degrading(q, sample->now_ns);
}

/* ---- reports ---- */

static uint64_t quality_patience(const void *state, unsigned klass)
{
	return ((const quality *)state)->aimd.patience_ns;
}

static double quality_factor(const void *state, unsigned klass)
{
	return factor(state);
}

static void quality_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	weir_aimd_explain(&((const quality *)state)->aimd, ask, ret_why);
}

static void quality_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const quality *q = state;
	weir_aimd_report(&q->aimd, ret_report);
	ret_report->quality = factor(q);
	if (!refusing(q)) {
		ret_report->rate_per_s = 0;
		ret_report->shedding = false;
		ret_report->unreachable = !q->admission && factor(q) <= q->lowest && weir_aimd_over(&q->aimd);
	}
	weir_report_add(ret_report, "admission", refusing(q));
}

static int quality_save(const void *state, char *text, size_t size)
{
	const quality *q = state;
	char rate_and_cur[80];
	weir_aimd_save(&q->aimd, rate_and_cur, sizeof(rate_and_cur));
	return snprintf(text, size, "%s %.9g %d", rate_and_cur, factor(q), refusing(q));
}

static int quality_load(void *state, const char *text)
{
	quality *q = state;
	weir_aimd_learned learned;
	double value;
	int was_refusing, length = 0;
	if (weir_aimd_parse(&text, &learned) != 0)
		return -EINVAL;
	if (sscanf(text, "%lf %d%n", &value, &was_refusing, &length) != 2 || text[length] != '\0')
		return -EINVAL;
	if (!(value > 0 && value <= 1) || (was_refusing != 0 && was_refusing != 1))
		return -EINVAL;
	weir_aimd_learn(&q->aimd, &learned);
	set_factor(q, value);
	atomic_store_explicit(&q->refusing, was_refusing != 0 && q->admission, memory_order_relaxed);
	return 0;
}

static const weir_key quality_params[] = {
	WEIR_KEY("target", TIME, weir_quality_params, target_ns, NULL,
		 "The response time that the percentile is held at", .flags = WEIR_KEY_REQUIRED,
		 .min = WEIR_AIMD_TARGET_MIN, .max = WEIR_AIMD_TARGET_MAX),
	WEIR_KEY("admission", SWITCH, weir_quality_params, admission, NULL,
		 "Refuses requests when the lowest quality does not suffice", .max = 1),
	WEIR_KEY("quality_min", NUMBER, weir_quality_params, quality_min, NULL, "The lowest quality",
		 .min = .001, .max = 1),
	WEIR_KEY("fall", NUMBER, weir_quality_params, fall, NULL,
		 "The quality is divided by this after a window above the target", .min = 1.001, .max = 1000),
	WEIR_KEY("rise", NUMBER, weir_quality_params, rise, NULL,
		 "This is added to the quality after a window well below the target", .min = .0001, .max = 1),
	WEIR_AIMD_PARAMS(weir_quality_params),
	{0},
};

const weir_admission_law weir_law_quality = {
	.name = "quality",
	.brief = "a quality factor that falls and rises, alone or before admission control (AOC 3.4)",
	.state_bytes = sizeof(quality),
	.params_bytes = sizeof(weir_quality_params),
	.params = quality_params,
	.defaults = quality_defaults,
	.tick_ns = WEIR_AIMD_TICK_NS,
	.init = quality_init,
	.admit = quality_admit,
	.refund = quality_refund,
	.start = quality_start,
	.gone = quality_gone,
	.settle = quality_settle,
	.tick = quality_tick,
	.patience = quality_patience,
	.quality = quality_factor,
	.explain = quality_explain,
	.report = quality_report,
	.save = quality_save,
	.load = quality_load,
};
