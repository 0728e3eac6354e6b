/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cataclysm 3.3, end: batches as long as the sentry has time for them, and the threshold while its own
 * processor use is above a bound. It goes back to batches when the use has stayed below the bound for the
 * dwell time.
 *
 * At the change to the threshold everything that waits is visited once. From then on arrivals are judged at
 * once and no class is closed. A request that came between the two is judged at its turn, as any fresh
 * request is. At the change back, whoever waits is entitled already. So each request is judged exactly once
 * (police_ledger.h).
 */
#include <math.h>

#include "control/police.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

#define SMOOTH_NS 1e9 /* the use is averaged over about this long */

static void follow_use(weir_police *police, const weir_sample *sample)
{
	double part = fmin((double)sample->interval_ns / SMOOTH_NS, 1);
	police->cpu += (sample->cpu_share - police->cpu) * part;
	if (police->cpu > police->busy)
		police->busy_ns = sample->now_ns;
}

static void choose(weir_police *police, uint64_t now_ns)
{
	bool threshold = GET(police->by_threshold), busy = police->cpu > police->busy;
	if (!threshold && busy) {
		weir_cut_set(&police->cut, &police->gauge);
		weir_police_visit_all(police, now_ns);
		PUT(police->by_threshold, true);
	} else if (threshold && !busy && now_ns - police->busy_ns >= police->dwell_ns) {
		PUT(police->by_threshold, false);
	}
}

static void auto_tick(void *state, const weir_sample *sample)
{
	follow_use(state, sample);
	choose(state, sample->now_ns);
	weir_police_tick(state, sample);
}

const weir_admission_law weir_law_police_auto = {
	.name = "police-auto",
	.brief = "as batch, or as police-threshold while this process is short of processor time",
	.state_bytes = sizeof(weir_police),
	.params_bytes = sizeof(weir_police_params),
	.params = weir_police_auto_keys,
	.defaults = weir_police_defaults,
	.tick_ns = WEIR_POLICE_TICK_NS,
	.by_class = true,
	.wants_cpu = true,
	.init = weir_police_init,
	.admit = weir_police_admit,
	.refund = weir_police_refund,
	.start = weir_police_start,
	.gone = weir_police_gone,
	.settle = weir_police_settle,
	.tick = auto_tick,
	.patience = weir_police_patience,
	.explain = weir_police_explain,
	.report = weir_police_report,
	.calm = weir_police_calm,
	.retarget = weir_police_retarget,
	.told = weir_police_told,
	.open = weir_police_open,
};
