/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load offered to a pool that several stages share, and what the laws of its stages are told of it: the
 * load, one quality for the whole pool, each stage's share of the work, and how much work may wait. It ticks
 * every 10 ms, before the laws of the stages.
 *
 * The load is the work offered over the work that the pool can do. It is computed every sixteen offers, or
 * when so few have come that it must have fallen. The numbers are those of the law `adaptive`, which does
 * this for a queue of its own.
 */
#include <math.h>

#include "stage/runtime.h"

#define GET(x) atomic_load_explicit(&(x), memory_order_relaxed)

#define NEUTRAL_NS    WEIR_NS_PER_S /* as in turn.c */
#define TICK_NS       (10 * WEIR_NS_PER_MS)
#define LOOK_OFFERS   16.0
#define MEMORY_OFFERS 40.0 /* at least so many are remembered, */
#define MEMORY_TARGET .25  /* or those of this fraction of a target, if more */
/* The load has fallen if so many offers were expected and at most FALL_TO of them came. */
#define FALL_OFFERS  12.0
#define FALL_TO      .4
#define FILLED       .15 /* of the bound: half of what overload lets wait */
#define PACE_TARGETS 2   /* targets for which the pace is remembered, */
#define PACE_STARTS  128 /* or so many starts, if longer */

/* ---- the load ---- */

static uint64_t count_of(const weir_stage *stage, unsigned klass, uint64_t *ret_shed)
{
	uint64_t offered = 0;
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		weir_class_counts sum = {0};
		if (counts == NULL)
			continue;
		weir_counts_add_admissions(counts, klass, &sum);
		offered += sum.offered;
		*ret_shed += weir_count_get(&counts->shed[klass][WEIR_SHED_LATE]);
	}
	return offered;
}

/* Adds what was offered since the last tick. */
static void gather_stage(weir_pool_load *load, weir_stage *stage)
{
	double mean_ns = (double)GET(stage->terms.mean_ns), count = 0;
	uint64_t shed = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t now = count_of(stage, k, &shed), more = now - stage->terms.offered_seen[k];
		stage->terms.offered_seen[k] = now;
		load->fresh_work[k] += (double)more * mean_ns;
		stage->terms.fresh_work[k] += (double)more * mean_ns;
		count += (double)more;
	}
	load->fresh_count += count;
	stage->terms.shed = shed != stage->terms.shed_seen;
	stage->terms.shed_seen = shed;
}

static void forget(weir_pool_load *load, const weir_domain *domain)
{
	load->count = load->time_ns = load->fresh_count = load->fresh_ns = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		load->work[k] = load->fresh_work[k] = load->load[k] = 0;
}

/* Each stage's work relative to that of the largest. */
static void share_work(const weir_domain *domain, double keep)
{
	double sum[WEIR_STAGES_MAX], most = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		weir_terms *terms = &domain->stages[i]->terms;
		sum[i] = 0;
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			terms->work[k] = terms->work[k] * keep + terms->fresh_work[k];
			terms->fresh_work[k] = 0;
			sum[i] += terms->work[k];
		}
		most = fmax(most, sum[i]);
	}
	for (uint32_t i = 0; i < domain->stage_count; i++)
		domain->stages[i]->terms.share = most > 0 ? sum[i] / most : 1;
}

/*
 * Suppose that each stage gets the same fraction of what it asks for, and that each event starts just when it
 * is due. By Little's law, what waits is then the sum over the stages of their share of the work times how
 * long their events may wait. With more, some are late. The same bound for all gives each the same fraction.
 */
static void set_bound(weir_domain *domain, unsigned klass)
{
	double work = 0, wait = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		const weir_terms *terms = &domain->stages[i]->terms;
		uint64_t wait_ns = GET(terms->wait_ns[klass]), target_ns = GET(terms->target_ns[klass]);
		if (wait_ns == 0)
			wait_ns = target_ns != 0 ? target_ns : NEUTRAL_NS;
		work += terms->work[klass];
		wait += terms->work[klass] * (double)wait_ns;
	}
	atomic_store_explicit(&domain->bound_ns[klass], work > 0 ? (float)(wait / work) : 0,
			      memory_order_relaxed);
}

static void fold(weir_pool_load *load, const weir_domain *domain, double target_ns)
{
	/* A very long silence says no more than a short one. */
	double span_ns = fmin(load->fresh_ns, 2 * LOOK_OFFERS * target_ns);
	double per_ns = span_ns > 0 ? load->fresh_count / span_ns : 0;
	double memory = fmax(MEMORY_OFFERS, MEMORY_TARGET * target_ns * per_ns);
	double keep = memory / (memory + load->fresh_count), sum = 0;
	load->count = load->count * keep + load->fresh_count;
	load->time_ns = load->time_ns * keep + span_ns;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		load->work[k] = load->work[k] * keep + load->fresh_work[k];
		sum += load->work[k];
		load->load[k] =
			load->time_ns > 0 ? sum / load->time_ns * weir_backlog_pace(&domain->backlog) : 0;
		load->fresh_work[k] = 0;
	}
	load->fresh_count = load->fresh_ns = 0;
	share_work(domain, keep);
}

/*
 * Whether so much still waits that missing offers are no sign of calm. Clients that were rejected come back in
 * waves. Between two of them few come, but the pool has as much to do as before.
 */
static bool is_filled(const weir_domain *domain, uint64_t now_ns)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		float bound_ns = GET(domain->bound_ns[k]);
		uint64_t ahead_ns, total_ns;
		weir_backlog_look(&domain->backlog, k, now_ns, now_ns, &ahead_ns, &total_ns);
		if (bound_ns > 0 && (double)total_ns > FILLED * (double)bound_ns)
			return true;
	}
	return false;
}

static void measure_load(weir_domain *domain, uint64_t now_ns, uint64_t interval_ns, double target_ns)
{
	weir_pool_load *load = &domain->load;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		gather_stage(load, domain->stages[i]);
	load->fresh_ns += (double)interval_ns;
	double expected = load->time_ns > 0 ? load->count / load->time_ns * load->fresh_ns : 0;
	bool fallen = expected >= FALL_OFFERS && load->fresh_count <= FALL_TO * expected;
	if (fallen && !is_filled(domain, now_ns))
		forget(load, domain);
	else if (load->fresh_count >= LOOK_OFFERS)
		fold(load, domain, target_ns);
}

/* ---- ticks ---- */

static void targets_of(const weir_domain *domain, uint64_t *ret_shortest_ns, uint64_t *ret_longest_ns)
{
	*ret_shortest_ns = UINT64_MAX;
	*ret_longest_ns = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			uint64_t target_ns = GET(domain->stages[i]->terms.target_ns[k]);
			if (target_ns == 0)
				target_ns = NEUTRAL_NS;
			*ret_shortest_ns = target_ns < *ret_shortest_ns ? target_ns : *ret_shortest_ns;
			*ret_longest_ns = target_ns > *ret_longest_ns ? target_ns : *ret_longest_ns;
		}
}

static double mean_service(const weir_domain *domain)
{
	double sum = 0;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		sum += (double)GET(domain->stages[i]->terms.mean_ns);
	return sum / domain->stage_count;
}

static bool anybody_shed(const weir_domain *domain)
{
	bool shed = false;
	for (uint32_t i = 0; i < domain->stage_count; i++)
		shed |= domain->stages[i]->terms.shed;
	return shed;
}

static void step_quality(weir_domain *domain, uint64_t now_ns, uint64_t shortest_ns)
{
	weir_pool_load *load = &domain->load;
	double wait = weir_backlog_fill(&domain->backlog, now_ns);
	weir_degrade_sample seen = {.interval_s = (double)(now_ns - load->last_ns) / 1e9,
				    .target_s = (double)shortest_ns / 1e9,
				    .least = .001,
				    .room = anybody_shed(domain) ? fmax(wait, 1) : wait};
	weir_degrade_step(&load->degrade, &seen);
}

uint64_t weir_pool_load_tick_locked(weir_domain *domain, uint64_t now_ns)
{
	weir_pool_load *load = &domain->load;
	uint64_t shortest_ns, longest_ns;
	if (!GET(domain->shared))
		return UINT64_MAX;
	if (now_ns < load->at_ns)
		return load->at_ns;
	if (load->last_ns == 0) { /* the first tick */
		weir_degrade_init(&load->degrade);
		load->last_ns = now_ns;
	}
	pthread_mutex_lock(&domain->lock);
	targets_of(domain, &shortest_ns, &longest_ns);
	uint32_t threads = GET(domain->alive) > 0 ? GET(domain->alive) : 1;
	double starts_ns = PACE_STARTS * mean_service(domain) / threads;
	uint64_t memory_ns = (uint64_t)fmax(PACE_TARGETS * (double)shortest_ns, starts_ns);
	weir_backlog_reach(&domain->backlog, longest_ns, now_ns);
	weir_backlog_tick(&domain->backlog, now_ns, memory_ns, threads, load->load);
	measure_load(domain, now_ns, now_ns - load->last_ns, (double)shortest_ns);
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		set_bound(domain, k);
	step_quality(domain, now_ns, shortest_ns);
	pthread_mutex_unlock(&domain->lock);
	load->last_ns = now_ns;
	load->at_ns = now_ns + TICK_NS;
	return load->at_ns;
}

void weir_pool_load_tell(const weir_stage *stage, weir_sample *sample)
{
	const weir_pool_load *load = &stage->domain->load;
	sample->shared = GET(stage->domain->shared) && load->last_ns != 0;
	if (!sample->shared)
		return;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		sample->pool_load[k] = load->load[k];
	sample->pool_quality = weir_degrade_factor(&load->degrade);
	sample->work_share = stage->terms.share;
}
