/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cataclysm 3.3: policing by a threshold, a pair (class i, fraction p). Classes above i are admitted, those
 * below are refused, and of class i the fraction p is admitted. It is computed once per period, such that
 *
 *  sum over j <= i of rate_j s_j           >= n - sum over all j of guaranteed_j s_j         (5)
 *  p rate_i s_i + sum over j < i of rate_j s_j < n - sum over all j of guaranteed_j s_j      (6)
 *
 * rate is the arrival rate, smoothed over periods. s is the mean service time, times how much longer requests
 * take under load than their costs say. n is the number of servers, where the paper has 1, times `fill`. With
 * a `fill` of 1, a queue that has built up under a wrong threshold never drains. If no class meets (5), all
 * are admitted. A request that conforms to the guaranteed rate of its class is admitted first, without a look
 * at the threshold. The rates contain these requests, and (5) and (6) subtract the guarantees from the
 * capacity as well: as written, guaranteed requests are counted twice.
 *
 * An admission costs a few loads and, in class i, one addition. Nothing is known of requests that wait, and a
 * threshold that was right a period ago may be wrong now.
 */
#include <math.h>

#include "base/mix.h"
#include "control/aimd_core.h"
#include "control/police.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define WHOLE     65536

/* ---- the pair ---- */

void weir_cut_init(weir_cut *cut)
{
	atomic_init(&cut->klass, WEIR_CLASSES);
	atomic_init(&cut->fraction, WHOLE);
	atomic_init(&cut->random, 0);
}

/* Under load. */
static double service_s(const weir_police_gauge *gauge, unsigned klass)
{
	return weir_police_gauge_pace(gauge) * weir_police_gauge_service_s(gauge, klass);
}

static double load_of(const weir_police_gauge *gauge, unsigned klass)
{
	return GET(gauge->rate[klass]) * service_s(gauge, klass);
}

void weir_cut_set(weir_cut *cut, const weir_police_gauge *gauge)
{
	double room = gauge->fill * weir_police_gauge_servers(gauge), before = 0, fraction = 1;
	unsigned klass = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		room -= gauge->guaranteed[k] * service_s(gauge, k);
	while (klass < WEIR_CLASSES && before + load_of(gauge, klass) < room)
		before += load_of(gauge, klass++);
	if (klass < WEIR_CLASSES)
		fraction = load_of(gauge, klass) > 0 ? fmax((room - before) / load_of(gauge, klass), 0) : 0;
	PUT(cut->fraction, (uint32_t)(fmin(fraction, 1) * WHOLE));
	PUT(cut->klass, klass);
}

bool weir_cut_admits(weir_cut *cut, unsigned klass)
{
	uint32_t at = GET(cut->klass);
	if (klass != at)
		return klass < at;
	uint64_t step = atomic_fetch_add_explicit(&cut->random, WEIR_MIX_STEP, memory_order_relaxed);
	return (weir_mix(step + WEIR_MIX_STEP) & (WHOLE - 1)) < GET(cut->fraction);
}

/* ---- the law ---- */

typedef struct police_threshold {
	weir_police_gauge gauge;
	weir_cut cut;
} police_threshold;

static int threshold_init(void *state, const void *params, const char **ret_wrong)
{
	police_threshold *t = state;
	int failed = weir_police_check(params, ret_wrong);
	if (failed != 0)
		return failed;
	weir_cut_init(&t->cut);
	weir_police_gauge_init(&t->gauge, params);
	return 0;
}

static weir_verdict threshold_admit(void *state, const weir_ask *ask)
{
	police_threshold *t = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	if (weir_police_gauge_arrived(&t->gauge, ask) != 0)
		return WEIR_ADMITTED;
	bool admitted = weir_cut_admits(&t->cut, klass);
	weir_police_gauge_tested(&t->gauge, klass, admitted);
	return admitted ? WEIR_ADMITTED : WEIR_SHED_THRESHOLD;
}

static weir_verdict threshold_start(void *state, const weir_event *event, const weir_turn *turn)
{
	weir_police_gauge_started(&((police_threshold *)state)->gauge, turn->note, 0, 0);
	return WEIR_ADMITTED;
}

static void threshold_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_police_gauge_settled(&((police_threshold *)state)->gauge, event, outcome, 0, now_ns);
}

static void threshold_tick(void *state, const weir_sample *sample)
{
	police_threshold *t = state;
	if (weir_police_gauge_tick(&t->gauge, sample))
		weir_cut_set(&t->cut, &t->gauge);
}

static void threshold_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const police_threshold *t = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	weir_police_gauge_explain(&t->gauge, ask, 0, weir_police_gauge_service_s(&t->gauge, klass), 0,
				  ret_why);
	ret_why->bound_ns = 0;                        /* decided by class and chance */
	ret_why->retry_after_ns = t->gauge.period_ns; /* the next threshold is the next chance */
}

static void threshold_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const police_threshold *t = state;
	klass %= WEIR_CLASSES;
	weir_police_gauge_report(&t->gauge, klass, 0, 0, ret_report);
	weir_report_add(ret_report, "threshold_class", GET(t->cut.klass));
	weir_report_add(ret_report, "threshold_fraction", (double)GET(t->cut.fraction) / WHOLE);
}

static bool threshold_calm(const void *state)
{
	return weir_police_gauge_calm(&((const police_threshold *)state)->gauge);
}

static void threshold_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES])
{
	weir_police_gauge_retarget(&((police_threshold *)state)->gauge, target_ns);
}

static void threshold_told(void *state, const weir_told *told)
{
	weir_police_gauge_told(&((police_threshold *)state)->gauge, told, 0);
}

const weir_admission_law weir_law_police_threshold = {
	.name = "police-threshold",
	.brief = "classes down to one, and a part of that, by arrival rates (Cataclysm 3.3)",
	.state_bytes = sizeof(police_threshold),
	.params_bytes = sizeof(weir_police_params),
	.params = weir_police_threshold_keys,
	.defaults = weir_police_defaults,
	.tick_ns = WEIR_POLICE_TICK_NS,
	.by_class = true,
	.init = threshold_init,
	.admit = threshold_admit,
	.start = threshold_start,
	.settle = threshold_settle,
	.tick = threshold_tick,
	.explain = threshold_explain,
	.report = threshold_report,
	.calm = threshold_calm,
	.retarget = threshold_retarget,
	.told = threshold_told,
};
