/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tick of each kind of law: what it sees (a sample of its stage or pool since the last tick), and what
 * follows from it. control.c says when. All under control_lock.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "stage/runtime.h"

/* ---- pools ---- */

static uint32_t clamp(uint32_t value, uint32_t min, uint32_t max)
{
	if (value < min)
		return min;
	return value > max ? max : value;
}

static uint64_t tick_pool(weir_domain *domain, uint64_t now_ns)
{
	const weir_pool_law *law = domain->options.pool;
	if (domain->options.kind != WEIR_ELASTIC)
		return UINT64_MAX;
	if (now_ns < domain->pool_at_ns)
		return domain->pool_at_ns;
	weir_pool_sample sample;
	pthread_mutex_lock(&domain->lock);
	now_ns = weir_world_now(domain->world); /* not before the begin of a call under way */
	weir_elastic_sample_locked(domain, now_ns, &sample);
	pthread_mutex_unlock(&domain->lock);
	uint32_t threads = clamp(law->size(domain->pool_state, &sample), sample.min, sample.max);
	if (threads != sample.threads)
		weir_elastic_resize(domain, threads);
	domain->pool_at_ns = now_ns + law->tick_ns;
	return domain->pool_at_ns;
}

/* ---- batches ---- */

/* Events that came in batches. Those run at once say nothing about the size of a batch. */
static uint64_t batched(const weir_counts *counts)
{
	uint64_t sum = 0;
	for (unsigned c = 0; c < WEIR_CLASSES; c++)
		sum += weir_count_get(&counts->started[c]);
	return sum;
}

static uint64_t tick_batch(weir_stage *stage, weir_lane *lane, uint64_t now_ns)
{
	const weir_batch_law *law = stage->options.batch_law;
	if (now_ns < lane->batch_at_ns)
		return lane->batch_at_ns;
	const weir_counts *counts = weir_stage_counts(stage, lane->thread);
	uint64_t events = batched(counts), batches = weir_count_get(&counts->batches);
	uint64_t busy_ns = weir_count_get(&counts->busy_ns);
	weir_batch_sample sample = {.now_ns = now_ns,
				    .interval_ns = now_ns - lane->batch_last_ns,
				    .events = events - lane->last_events,
				    .batches = batches - lane->last_batches,
				    .busy_ns = busy_ns - lane->last_busy_ns,
				    .waiting = atomic_load(&lane->waiting),
				    .batch = atomic_load(&lane->batch),
				    .min = 1,
				    .max = stage->options.batch};
	lane->last_events = events;
	lane->last_batches = batches;
	lane->last_busy_ns = busy_ns;
	lane->batch_last_ns = now_ns;
	lane->batch_at_ns = now_ns + law->tick_ns;
	atomic_store(&lane->batch, clamp(law->size(lane->batch_state, &sample), 1, stage->options.batch));
	return lane->batch_at_ns;
}

static uint64_t tick_batches(weir_stage *stage, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	if (stage->options.batch_law == NULL)
		return next;
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		uint64_t at = tick_batch(stage, &stage->lanes[i], now_ns);
		next = at < next ? at : next;
	}
	return next;
}

/* ---- admission ---- */

void weir_tick_sum(weir_stage *stage, unsigned klass, weir_class_sample *ret_total)
{
	weir_class_counts sum = {0};
	uint64_t shed = 0;
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		if (counts == NULL)
			continue;
		/* Not offered - admitted: they are read at two instants, so the difference could fall. */
		for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
			shed += weir_count_get(&counts->shed[klass][why]);
		weir_counts_add_ends(counts, klass, &sum);
		weir_counts_add_admissions(counts, klass, &sum);
	}
	*ret_total = (weir_class_sample){.offered = sum.offered,
					 .admitted = sum.admitted,
					 .shed = shed,
					 .started = sum.started,
					 .completed = sum.completed,
					 .failed = sum.failed,
					 .dropped = sum.dropped};
}

/* The quantile of what was measured since the last tick. `seen` becomes what was measured until now. */
static uint64_t window(weir_stage *stage, unsigned klass, weir_measure measure, double quantile,
		       uint64_t *ret_count)
{
	weir_hist **seen = &stage->ticks.seen[klass][measure];
	weir_hist now, recent;
	weir_hist_clear(&now);
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		if (counts != NULL)
			weir_counts_merge(counts, klass, measure, &now);
	}
	recent = now;
	if (*seen == NULL)
		*seen = weir_mem_zalloc(sizeof(**seen));
	if (*seen != NULL) {
		weir_hist_subtract(&recent, *seen);
		memcpy(*seen, &now, sizeof(now));
	}
	*ret_count = weir_hist_count(&recent);
	return weir_hist_quantile(&recent, quantile);
}

static void sample_class(weir_stage *stage, unsigned klass, bool quantiles, weir_sample *sample)
{
	weir_class_sample now, *last = &stage->ticks.total[klass], *out = &sample->klass[klass];
	weir_tick_sum(stage, klass, &now);
	*out = (weir_class_sample){.offered = now.offered - last->offered,
				   .admitted = now.admitted - last->admitted,
				   .shed = now.shed - last->shed,
				   .started = now.started - last->started,
				   .completed = now.completed - last->completed,
				   .failed = now.failed - last->failed,
				   .dropped = now.dropped - last->dropped};
	*last = now;
	uint64_t count;
	if (!quantiles)
		return;
	if (out->started != 0)
		out->waiting_ns = window(stage, klass, WEIR_WAITING, sample->quantile, &count);
	if (out->completed + out->failed == 0)
		return;
	out->service_ns = window(stage, klass, WEIR_SERVICE, sample->quantile, &count);
	out->response_ns = window(stage, klass, WEIR_RESPONSE, sample->quantile, &out->response_count);
}

void weir_tick_begin_locked(weir_stage *stage, bool quantiles)
{
	uint64_t count;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		weir_tick_sum(stage, klass, &stage->ticks.total[klass]);
		if (stage->ticks.total[klass].admitted == 0 || !quantiles)
			continue; /* nothing to see, or not wanted: spend no memory on it */
		for (unsigned measure = 0; measure < WEIR_MEASURES; measure++)
			window(stage, klass, (weir_measure)measure, 0.5, &count);
	}
}

static uint32_t workers(const weir_stage *stage)
{
	uint32_t threads = stage->options.single ? 1 : weir_domain_threads(stage->domain);
	uint32_t bound = stage->options.concurrency;
	return bound != 0 && bound < threads ? bound : threads;
}

/* ---- after a tick: drop what waited too long, start what the law now allows, look for notices ---- */

/* All threads of the pool may be busy, so the controller takes the events out itself. */
static void purge_pool(weir_lane *lane, uint64_t now_ns)
{
	weir_world *world = lane->stage->world;
	weir_event *stale[64];
	size_t taken;
	pthread_mutex_lock(&lane->stage->domain->lock);
	do {
		taken = weir_lane_take_stale(lane, now_ns, 64, stale);
		for (size_t i = 0; i < taken; i++) {
			stale[i]->at.queue.next = world->purged;
			world->purged = stale[i];
		}
	} while (taken == 64);
	pthread_mutex_unlock(&lane->stage->domain->lock);
}

static void tend_lanes(weir_stage *stage, const weir_gate *gate, uint64_t now_ns)
{
	if (!weir_law_holds_back(gate->law))
		return;
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		weir_lane *lane = &stage->lanes[i];
		if (atomic_load_explicit(&lane->waiting, memory_order_relaxed) == 0)
			continue;
		if (lane->thread == NULL && gate->law->patience != NULL)
			purge_pool(lane, now_ns);
		else if (gate->law->patience != NULL)
			atomic_store_explicit(&lane->purge, true, memory_order_relaxed);
		weir_lane_kick(lane, NULL);
	}
}

#define REPORTS_NS WEIR_NS_PER_S

static void look_for_notices(weir_stage *stage, const weir_gate *gate, uint64_t now_ns)
{
	weir_ticks *ticks = &stage->ticks;
	uint32_t unreachable = 0;
	if (gate->law->report == NULL || now_ns < ticks->reports_at_ns)
		return;
	ticks->reports_at_ns = now_ns + REPORTS_NS;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		weir_report report;
		if (ticks->total[klass].offered != 0 && weir_stage_report(stage, klass, &report) &&
		    report.unreachable)
			unreachable |= 1u << klass;
	}
	ticks->notify |= unreachable & ~ticks->unreachable;
	ticks->unreachable = unreachable;
	stage->world->notify |= ticks->notify != 0;
}

/* 0 in a virtual world, which takes no processor time of its own. */
static double cpu_share(weir_stage *stage, uint64_t interval_ns)
{
	const weir_world *world = stage->world;
	struct timespec used;
	if (world->sim != NULL || interval_ns == 0 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
		return 0;
	uint64_t now_ns = (uint64_t)used.tv_sec * WEIR_NS_PER_S + (uint64_t)used.tv_nsec;
	uint64_t since_ns = stage->ticks.cpu_ns != 0 ? now_ns - stage->ticks.cpu_ns : 0;
	cpu_set_t allowed;
	int cores = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
	double most = world->reactor_count > 0 ? world->reactor_count : 1;
	if (cores > 0 && cores < most)
		most = cores;
	stage->ticks.cpu_ns = now_ns;
	double share = (double)since_ns / ((double)interval_ns * most);
	return share < 1 ? share : 1;
}

static uint64_t tick_admission(weir_stage *stage, uint64_t now_ns)
{
	weir_gate *gate = atomic_load_explicit(&stage->gate, memory_order_acquire);
	if (gate == NULL || gate->law->tick == NULL || gate->law->tick_ns == 0)
		return UINT64_MAX;
	if (now_ns < stage->ticks.at_ns)
		return stage->ticks.at_ns;
	weir_sample sample = {.now_ns = now_ns,
			      .interval_ns = now_ns - stage->ticks.last_ns,
			      .workers = workers(stage),
			      .dry_run = atomic_load(&stage->mode) == WEIR_DRY_RUN,
			      .quantile = gate->law->quantile > 0 ? gate->law->quantile : 0.9};
	for (uint32_t i = 0; i < stage->lane_count; i++) {
		sample.waiting += atomic_load(&stage->lanes[i].waiting);
		sample.in_service += atomic_load(&stage->lanes[i].in_service);
	}
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		sample_class(stage, klass, gate->law->wants_quantiles, &sample);
	if (gate->law->wants_cpu)
		sample.cpu_share = cpu_share(stage, sample.interval_ns);
	if (gate->law->wants_pool)
		weir_pool_load_tell(stage, &sample);
	for (uint32_t i = 0; i < gate->states; i++)
		gate->law->tick(gate->state + i * gate->stride, &sample);
	weir_turn_terms(stage);
	tend_lanes(stage, gate, now_ns);
	look_for_notices(stage, gate, now_ns);
	stage->ticks.last_ns = now_ns;
	stage->ticks.at_ns = weir_rest_next_locked(stage, gate, &sample);
	return stage->ticks.at_ns;
}

/* ---- all of a domain, all of a stage ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t weir_tick_domain_locked(weir_domain *domain, uint64_t now_ns)
{
	uint64_t pool = tick_pool(domain, now_ns);
	return sooner(pool, weir_pool_load_tick_locked(domain, now_ns));
}

uint64_t weir_tick_stage_locked(weir_stage *stage, uint64_t now_ns)
{
	/* Nothing is measured, and no batches are made. */
	if (now_ns < stage->ticks.rest_until_ns)
		return stage->ticks.rest_until_ns;
	uint64_t pressure = weir_pressure_tick_locked(stage, now_ns);
	uint64_t admission = tick_admission(stage, now_ns);
	uint64_t others =
		sooner(weir_recent_tick_locked(stage, now_ns), weir_every_tick_locked(stage, now_ns));
	return sooner(sooner(pressure, others), sooner(admission, tick_batches(stage, now_ns)));
}
