/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive` in a dry run. Everybody is let in, so the stage's own queue says nothing about what would be waiting if the law were
 * enforced. Whoever would be let in waits in a shadow queue instead, which starts one request every tau, as the workers do. It admits while the wait
 * in it is within the limit. The limit is at least the one without credit: that everybody is late is not the doing of those whom
 * the law would admit.
 *
 * On a shared pool, whose stages do not know each other's shadows, each class would be refused the share of its work that exceeds the
 * pool's capacity.
 */
#include <math.h>

#include "control/adaptive.h"

static bool queue_fits(adaptive_class *k, const weir_ask *ask, uint64_t spent_ns)
{
	float tau = GET(k->tau_ns), slack = GET(k->slack);
	float limit = adaptive_left(k, fmaxf(GET(k->limit_ns), GET(k->base_ns)), spent_ns);
	uint64_t ends_ns = GET(k->shadow_ns), then_ns;
	do {
		uint64_t from_ns = ends_ns > ask->now_ns ? ends_ns : ask->now_ns;
		float wait = (float)(from_ns - ask->now_ns);
		if (wait > limit * slack) {
			adaptive_note(&k->refused, k, (double)spent_ns, (double)wait / (double)slack,
				      (double)limit);
			return false;
		}
		then_ns = from_ns + (uint64_t)((float)ask->count * tau);
	} while (!atomic_compare_exchange_weak_explicit(&k->shadow_ns, &ends_ns, then_ns,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Refuses the share, evenly: what is due is counted in 2^-20 requests, as credit is. */
static bool pool_fits(adaptive_class *k, const weir_ask *ask)
{
	int64_t due = (int64_t)((float)ask->count * GET(k->would) * ADAPTIVE_CREDIT);
	int64_t price = (int64_t)((float)ask->count * ADAPTIVE_CREDIT);
	if (ADD(k->would_due, due) + due < price)
		return true;
	ADD(k->would_due, -price);
	weir_refusal_clear(&k->refused); /* by a share of the load, not by a time */
	return false;
}

bool adaptive_shadow_fits(adaptive_class *k, const weir_ask *ask, uint64_t spent_ns, bool shared)
{
	return shared ? pool_fits(k, ask) : queue_fits(k, ask, spent_ns);
}

/* Of a class's work, the part above the capacity that the classes above it leave. */
void adaptive_shadow_tick(adaptive *a, const weir_sample *sample)
{
	double above = 0;
	PUT(a->dry_run, sample->dry_run);
	for (unsigned i = 0; sample->shared && i < WEIR_CLASSES; i++) {
		double load = sample->pool_load[i], own = load - above;
		PUT(a->klass[i].would, own > 0 ? (float)(fmax(load - fmax(above, 1), 0) / own) : 0);
		above = load;
	}
}
