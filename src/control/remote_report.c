/* SPDX-License-Identifier: Apache-2.0 */
/* `adaptive-remote`: what it tells, and what it keeps for a warm start. remote.h defines the terms. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "control/remote.h"

/* ---- reading ---- */

/* Drops only hopeless requests: twice their target old, while far more are late than may be. */
uint64_t weir_remote_patience(const void *state, unsigned klass)
{
	const weir_remote *r = state;
	return atomic_load_explicit(&r->strict, memory_order_relaxed)
		       ? 2 * (uint64_t)weir_remote_bound_ns(r, klass % WEIR_CLASSES)
		       : UINT64_MAX;
}

double weir_remote_quality(const void *state, unsigned klass)
{
	return weir_degrade_factor(&((const weir_remote *)state)->degrade[klass % WEIR_CLASSES]);
}

/* Times are costs only while the backend keeps up. Otherwise a cost would be what a request has waited. */
bool weir_remote_calm(const void *state)
{
	const weir_remote *r = state;
	return atomic_load_explicit(&r->own_top, memory_order_relaxed) >= 0 &&
	       !atomic_load_explicit(&r->congested, memory_order_relaxed) &&
	       !atomic_load_explicit(&r->limited, memory_order_relaxed);
}

/* Time to come again: when the backend has completed what is too much, and at least one. */
void weir_remote_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	const weir_remote *r = state;
	unsigned klass = ask->klass % WEIR_CLASSES;
	bool waited = ret_why->verdict == WEIR_SHED_WAITED;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	double rate = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	double excess_ns = weir_refusal_tell(waited ? &r->dropped[klass] : &r->refused[klass], ret_why);
	ret_why->target_ns = weir_remote_plain_target_ns(r, klass);
	if (limit == WEIR_REMOTE_OPEN || !(rate > 0))
		return;
	double excess =
		weir_remote_room(r, ask, klass, limit) * excess_ns / fmax((double)ret_why->bound_ns, 1);
	ret_why->retry_after_ns = (uint64_t)(fmax(excess, 1) / rate * 1e9);
}

/* At the target's percentile; until that has been measured, the typical time. */
static uint64_t alone_ns(const weir_remote *r)
{
	unsigned kind = atomic_load_explicit(&r->binding, memory_order_relaxed);
	uint64_t own_ns = atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed);
	return own_ns != 0 ? own_ns : (uint64_t)atomic_load_explicit(&r->told_base_ns, memory_order_relaxed);
}

void weir_remote_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const weir_remote *r = state;
	klass %= WEIR_CLASSES;
	uint32_t limit = atomic_load_explicit(&r->limit[klass], memory_order_relaxed);
	ret_report->quantile = r->quantile;
	ret_report->target_ns = weir_remote_plain_target_ns(r, klass);
	ret_report->measured_ns =
		(uint64_t)expf(atomic_load_explicit(&r->measured, memory_order_relaxed)) - 1;
	ret_report->alone_ns = alone_ns(r);
	ret_report->rate_per_s = atomic_load_explicit(&r->told_rate, memory_order_relaxed);
	ret_report->limit = limit == WEIR_REMOTE_OPEN ? 0 : limit;
	ret_report->quality = weir_remote_quality(r, klass);
	ret_report->shedding = atomic_load_explicit(&r->shedding, memory_order_relaxed) >> klass & 1;
	ret_report->unreachable = atomic_load_explicit(&r->unreachable, memory_order_relaxed);
	const struct {
		const char *name;
		double value;
	} values[] = {
		{"limited", atomic_load_explicit(&r->limited, memory_order_relaxed)},
		{"slowdown", exp(atomic_load_explicit(&r->told_slowdown, memory_order_relaxed))},
		{"base_ms", atomic_load_explicit(&r->told_base_ns, memory_order_relaxed) / 1e6},
		{"inside", weir_remote_ahead(r, klass, WEIR_REMOTE_OPEN)},
		{"backend_limit", atomic_load_explicit(&r->cap, memory_order_relaxed)},
		{"tail", atomic_load_explicit(&r->told_gamma, memory_order_relaxed)},
		{"caution", exp((double)atomic_load_explicit(&r->beta, memory_order_relaxed))},
		{"credit", (double)atomic_load_explicit(&r->credit, memory_order_relaxed) / 1000},
		{"held_to_ms", weir_remote_bound_ns(r, klass) / 1e6},
	};
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		ret_report->value[i].name = values[i].name;
		ret_report->value[i].value = values[i].value;
	}
	ret_report->count = sizeof(values) / sizeof(values[0]);
}

/* ---- warm start ---- */

int weir_remote_save(const void *state, char *text, size_t size)
{
	const weir_remote *r = state;
	double base_ns = atomic_load_explicit(&r->told_base_ns, memory_order_relaxed);
	unsigned kind = atomic_load_explicit(&r->binding, memory_order_relaxed);
	return snprintf(
		text, size,
		"adaptive-remote 4 rate=%.6g base=%.6g own=%.6g gamma=%.4g beta=%.4g cap=%u limited=%u",
		atomic_load_explicit(&r->told_rate, memory_order_relaxed), base_ns > 0 ? log(base_ns) : 0,
		(double)atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed),
		atomic_load_explicit(&r->told_gamma, memory_order_relaxed),
		(double)atomic_load_explicit(&r->beta, memory_order_relaxed),
		(unsigned)atomic_load_explicit(&r->cap, memory_order_relaxed),
		(unsigned)atomic_load_explicit(&r->limited, memory_order_relaxed));
}

static bool within(double value, double least, double most)
{
	return value >= least && value <= most;
}

/* The base goes to the lowest level. Fewer than one cannot be inside, so no later value is below it. */
static void load_base(weir_remote *r, double base_ln)
{
	weir_remote_level *level = &r->level[0];
	for (unsigned i = 0; i < (unsigned)r->tuning.base; i++)
		weir_times_add(&level->times, (uint64_t)exp(base_ln));
	atomic_store(&level->started, (uint32_t)r->tuning.base);
	atomic_store(&level->ended, (uint32_t)r->tuning.base);
}

int weir_remote_load(void *state, const char *text)
{
	weir_remote *r = state;
	/* doubles, because scanf does not report the overflow of an integer */
	double rate, base, own, gamma, beta, cap, limited;
	int used = 0;
	if (sscanf(text,
		   "adaptive-remote 4 rate=%lf base=%lf own=%lf gamma=%lf beta=%lf cap=%lf limited=%lf%n",
		   &rate, &base, &own, &gamma, &beta, &cap, &limited, &used) != 7 ||
	    (text[used] != 0 && text[used] != '\n'))
		return -EINVAL;
	if (!within(rate, 0, 1e9) || !within(base, 0, 40) || !within(own, 0, 1e15) ||
	    !within(gamma, .001, 1000) ||
	    !within(beta, WEIR_REMOTE_BETA_LEAST - .01, WEIR_REMOTE_BETA_MOST + .01) ||
	    !within(cap, 1, 1e9) || !within(limited, 0, 1))
		return -EINVAL;
	if (base > 0)
		load_base(r, base);
	r->rate = rate;
	r->rate_seen = rate > 0 ? r->tuning.enough : 0;
	r->rate_ln = rate > 0 ? log(rate / 1e9) * r->rate_seen : 0;
	r->cap_now = fmax(cap, r->tuning.first);
	for (unsigned i = 0; i < WEIR_REMOTE_KINDS; i++)
		atomic_store(&r->kind[i].own_ns, (uint64_t)own);
	atomic_store(&r->gamma, (float)log(gamma));
	atomic_store(&r->told_gamma, gamma);
	atomic_store(&r->beta, (float)beta);
	atomic_store(&r->told_rate, rate);
	atomic_store(&r->cap, (uint32_t)r->cap_now);
	/* In force from the first tick on: the predecessor refuses others at this moment. */
	atomic_store(&r->limited, limited > 0 && rate > 0);
	return 0;
}
