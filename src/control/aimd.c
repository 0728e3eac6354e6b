/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The response-time controller of AOC 3.2 (see aimd_core.h), one for all classes of a stage:
 *
 *  cur  = alpha cur + (1 - alpha) samp         samp: the percentile of a window
 *  err  = (cur - target) / target
 *  err > err_d:  rate = rate / adj_d
 *  err < err_i:  rate = rate - (err - c_i) adj_i
 *
 * It has the paper's shape, and is slow where the paper's controller is slow. docs/laws/aimd.md lists
 * what differs by default and what can be switched on.
 */
#include <errno.h>
#include <stdio.h>

#include "control/aimd_core.h"

static void aimd_defaults(void *params)
{
	weir_aimd_defaults(&((weir_aimd_params *)params)->tuning);
}

static int aimd_init(void *state, const void *params, const char **ret_wrong)
{
	const weir_aimd_params *p = params;
	if (p == NULL) {
		*ret_wrong = "parameters are required (weir_aimd_params)";
		return -EINVAL;
	}
	if (weir_aimd_check_target(p->target_ns, ret_wrong) != 0 ||
	    weir_aimd_check(&p->tuning, ret_wrong) != 0)
		return -EINVAL;
	weir_aimd_init(state, &p->tuning, p->target_ns);
	return 0;
}

static weir_verdict aimd_admit(void *state, const weir_ask *ask)
{
	return weir_aimd_admit(state, ask);
}

static void aimd_refund(void *state, const weir_ask *ask)
{
	weir_aimd_refund(state, ask);
}

static weir_verdict aimd_start(void *state, const weir_event *event, const weir_turn *turn)
{
	return weir_aimd_start(state, event, turn);
}

static void aimd_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	weir_aimd_gone(state);
}

static void aimd_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_aimd_settle(state, event, outcome, now_ns);
}

static void aimd_tick(void *state, const weir_sample *sample)
{
	weir_aimd *aimd = state;
	if (!weir_aimd_observe(aimd, sample->now_ns))
		return;
	if (weir_aimd_over(aimd))
		weir_aimd_cut(aimd, aimd->tuning.adj_d, sample->now_ns);
	else if (weir_aimd_under(aimd))
		weir_aimd_raise(aimd, sample->now_ns);
}

static uint64_t aimd_patience(const void *state, unsigned klass)
{
	return ((const weir_aimd *)state)->patience_ns;
}

static void aimd_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	weir_aimd_explain(state, ask, ret_why);
}

static void aimd_report(const void *state, unsigned klass, weir_report *ret_report)
{
	weir_aimd_report(state, ret_report);
}

static int aimd_save(const void *state, char *text, size_t size)
{
	return weir_aimd_save(state, text, size);
}

static int aimd_load(void *state, const char *text)
{
	weir_aimd_learned learned;
	if (weir_aimd_parse(&text, &learned) != 0 || *text != '\0')
		return -EINVAL;
	weir_aimd_learn(state, &learned);
	return 0;
}

static const weir_key aimd_params[] = {
	WEIR_KEY("target", TIME, weir_aimd_params, target_ns, NULL,
		 "The response time that the percentile is held at", .flags = WEIR_KEY_REQUIRED,
		 .min = WEIR_AIMD_TARGET_MIN, .max = WEIR_AIMD_TARGET_MAX),
	WEIR_AIMD_PARAMS(weir_aimd_params),
	{0},
};

const weir_admission_law weir_law_aimd = {
	.name = "aimd",
	.brief = "a rate, raised by steps and cut by a factor as the measured percentile says (AOC 3.2)",
	.state_bytes = sizeof(weir_aimd),
	.params_bytes = sizeof(weir_aimd_params),
	.params = aimd_params,
	.defaults = aimd_defaults,
	.tick_ns = WEIR_AIMD_TICK_NS,
	.init = aimd_init,
	.admit = aimd_admit,
	.refund = aimd_refund,
	.start = aimd_start,
	.gone = aimd_gone,
	.settle = aimd_settle,
	.tick = aimd_tick,
	.patience = aimd_patience,
	.explain = aimd_explain,
	.report = aimd_report,
	.save = aimd_save,
	.load = aimd_load,
};
