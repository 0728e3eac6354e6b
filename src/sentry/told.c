/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/told.h"

static void put(_Atomic double *to, double value)
{
	atomic_store_explicit(to, value, memory_order_relaxed);
}

static double get(const _Atomic double *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

/* A processor cannot be used more than wholly: what a report says beyond that is rounding. */
static double share(double busy)
{
	return busy > 1 ? 1 : busy;
}

static void believe(weir_origin *origin, uint64_t at_ns, uint64_t for_ns)
{
	atomic_store_explicit(&origin->shared.told_for_ns, for_ns, memory_order_relaxed);
	atomic_store_explicit(&origin->shared.told_ns, at_ns, memory_order_release);
}

void weir_told_nucleus(weir_origin *origin, const weir_nucleus_report *report, uint64_t every_ns,
		       uint64_t now_ns)
{
	/* Both numbers are bounded by the reader. */
	uint64_t age_ns = report->age_s > 0 ? (uint64_t)(report->age_s * 1e9) : 0;
	uint64_t measured_ns = report->every_s > 0 ? (uint64_t)(report->every_s * 1e9) : 0;
	put(&origin->shared.queue_s, report->queue_s);
	put(&origin->shared.in_service, report->in_service);
	put(&origin->shared.busy, share(report->busy));
	put(&origin->shared.processors, report->processors);
	atomic_fetch_add_explicit(&origin->shared.reports, 1, memory_order_relaxed);
	believe(origin, now_ns > age_ns ? now_ns - age_ns : 1,
		WEIR_TOLD_PERIODS * (measured_ns > every_ns ? measured_ns : every_ns));
}

void weir_told_answer(weir_origin *origin, const weir_load_report *report, uint64_t every_ns, uint64_t now_ns)
{
	double busy = report->application_utilization >= 0 ? report->application_utilization
							   : report->cpu_utilization;
	put(&origin->shared.queue_s, report->told_queue_s);
	put(&origin->shared.in_service, report->in_service);
	put(&origin->shared.busy, share(busy));
	put(&origin->shared.processors, report->processors);
	atomic_fetch_add_explicit(&origin->shared.reports, 1, memory_order_relaxed);
	believe(origin, now_ns, WEIR_TOLD_PERIODS * every_ns);
}

bool weir_told_fresh(const weir_origin *origin, uint64_t now_ns)
{
	uint64_t told_ns = atomic_load_explicit(&origin->shared.told_ns, memory_order_acquire);
	uint64_t for_ns = atomic_load_explicit(&origin->shared.told_for_ns, memory_order_relaxed);
	/* Another thread's clock may be a little ahead. */
	return told_ns != 0 && (now_ns <= told_ns || now_ns - told_ns <= for_ns);
}

/* Sums over the servers that know a number. */
typedef struct sums {
	double queue_s, queues, in_service, services, busy, busy_weight, processors;
} sums;

static void add(sums *s, const weir_origin *origin)
{
	double queue_s = get(&origin->shared.queue_s), in_service = get(&origin->shared.in_service),
	       busy = get(&origin->shared.busy), processors = get(&origin->shared.processors);
	double weight = processors > 0 ? processors : 1;
	if (queue_s >= 0) {
		s->queue_s += queue_s;
		s->queues++;
	}
	if (in_service >= 0) {
		s->in_service += in_service;
		s->services++;
	}
	if (busy >= 0) {
		s->busy += weight * busy;
		s->busy_weight += weight;
	}
	if (processors > 0)
		s->processors += processors;
}

static double mean(double sum, double weight)
{
	return weight > 0 ? sum / weight : -1;
}

void weir_told_sum(const weir_fleet *fleet, uint64_t now_ns, weir_told *ret_told)
{
	sums s = {0};
	*ret_told = (weir_told){.now_ns = now_ns};
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++) {
		const weir_origin *origin = weir_fleet_at(fleet, i);
		if (atomic_load(&origin->shared.retired))
			continue;
		ret_told->servers++;
		if (!weir_told_fresh(origin, now_ns))
			continue;
		ret_told->reports++;
		add(&s, origin);
	}
	ret_told->processors = s.processors;
	ret_told->queue_s = mean(s.queue_s, s.queues);
	ret_told->in_service = mean(s.in_service, s.services);
	ret_told->busy = mean(s.busy, s.busy_weight);
}
