/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ticks: the slow half of control. One thread (in a virtual world, a timer) samples stages and pools when
 * their laws are due and passes the samples to the laws.
 *
 * An idle process should sleep, and needs no ticks. The thread pauses after 2 s without an offer or a
 * settling, if every pool has its least size, no grace period is pending, and no event waits at a law with a
 * limit or with patience. Whoever then offers or handles something resumes it (weir_control_touch). The tick
 * after a pause has a long interval, which the laws see.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "stage/runtime.h"

#define PAUSE_AFTER_NS (2 * WEIR_NS_PER_S)

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

static void sum_class(weir_stage *stage, unsigned klass, weir_class_sample *ret_total)
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
	sum_class(stage, klass, &now);
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

void weir_control_begin_locked(weir_stage *stage, bool quantiles)
{
	uint64_t count;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		sum_class(stage, klass, &stage->ticks.total[klass]);
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

/* ---- after a tick: drop what waited too long, start what the law now allows, send notices ---- */

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
	if (gate->law->patience == NULL && gate->law->limit == NULL)
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

static void notice_unreachable(const weir_stage *stage, unsigned klass)
{
	weir_report report;
	char text[256], target[32], now[96];
	if (!weir_stage_report(stage, klass, &report) || !report.unreachable)
		return; /* replaced, or within reach again */
	if (report.alone_ns != 0)
		snprintf(now, sizeof(now), "it takes %.3gs with nothing else to do",
			 (double)report.alone_ns / WEIR_NS_PER_S);
	else
		snprintf(now, sizeof(now), "law '%s' can do no more and measures %.3gs", report.law,
			 (double)report.measured_ns / WEIR_NS_PER_S);
	snprintf(text, sizeof(text), "stage '%s': the target of class %u, p%g within %s, cannot be met: %s",
		 stage->name, klass, report.quantile * 100,
		 weir_text_print_time(target, sizeof(target), report.target_ns, ""), now);
	stage->world->options.notice(text, stage->world->options.notice_arg);
}

static uint32_t take_notify(weir_stage *stage)
{
	pthread_mutex_lock(&stage->world->control_lock);
	uint32_t notify = stage->ticks.notify;
	stage->ticks.notify = 0;
	pthread_mutex_unlock(&stage->world->control_lock);
	return notify;
}

static void call_notices(weir_world *world)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		uint32_t notify = stage != NULL ? take_notify(stage) : 0;
		for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
			if (notify >> klass & 1 && world->options.notice != NULL)
				notice_unreachable(stage, klass);
	}
}

bool weir_control_has_calls(const weir_world *world)
{
	return world->purged != NULL || world->notify || weir_monitor_is_due(world);
}

/* Without the lock, so in a section, as an outside thread: what is found here is not freed before its end. */
void weir_control_calls(weir_world *world)
{
	uint64_t now_ns = weir_world_now(world);
	unsigned side = weir_outsider_enter(world, NULL);
	pthread_mutex_lock(&world->control_lock);
	weir_event *purged = world->purged;
	bool notify = world->notify;
	world->purged = NULL;
	world->notify = false;
	pthread_mutex_unlock(&world->control_lock);
	while (purged != NULL) {
		weir_event *event = purged;
		purged = event->at.queue.next;
		weir_dispatch_drop(event->lane, NULL, event, WEIR_SHED_WAITED, now_ns);
	}
	if (notify)
		call_notices(world);
	weir_offer_forget();
	weir_outsider_leave(world, NULL, side);
	weir_monitor_look(world);
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
	if (gate->law->wants_pool)
		weir_pool_load_tell(stage, &sample);
	for (uint32_t i = 0; i < gate->states; i++)
		gate->law->tick(gate->state + i * gate->stride, &sample);
	weir_turn_terms(stage);
	tend_lanes(stage, gate, now_ns);
	look_for_notices(stage, gate, now_ns);
	stage->ticks.last_ns = now_ns;
	stage->ticks.at_ns = now_ns + gate->law->tick_ns;
	return stage->ticks.at_ns;
}

/* ---- the controller ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t tick_domain(weir_domain *domain, uint64_t now_ns)
{
	uint64_t pool = tick_pool(domain, now_ns);
	return sooner(pool, weir_pool_load_tick_locked(domain, now_ns));
}

static uint64_t tick_stage(weir_stage *stage, uint64_t now_ns)
{
	uint64_t pressure = weir_pressure_tick_locked(stage, now_ns);
	uint64_t admission = tick_admission(stage, now_ns);
	return sooner(pressure, sooner(admission, tick_batches(stage, now_ns)));
}

uint64_t weir_control_tick(weir_world *world, uint64_t now_ns)
{
	uint64_t next =
		sooner(weir_monitor_tick_locked(world, now_ns), weir_grace_tick_locked(world, now_ns));
	uint32_t domains = atomic_load_explicit(&world->domain_count, memory_order_acquire);
	for (uint32_t i = 0; i < domains; i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL && !domain->retiring)
			next = sooner(next, tick_domain(domain, now_ns));
	}
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			next = sooner(next, tick_stage(stage, now_ns));
	}
	return next;
}

/* A number that changes whenever anything happens. */
static uint64_t activity(weir_world *world)
{
	uint64_t sum = 0;
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		for (unsigned klass = 0; stage != NULL && klass < WEIR_CLASSES; klass++) {
			weir_class_sample now;
			sum_class(stage, klass, &now);
			sum += now.offered + now.started + now.completed + now.failed + now.dropped;
		}
	}
	return sum;
}

static bool pools_at_rest(const weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		const weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL && domain->options.kind == WEIR_ELASTIC && !domain->retiring &&
		    atomic_load(&domain->alive) != domain->options.min_threads)
			return false;
	}
	return true;
}

/*
 * Events that wait behind work that hangs are dropped, or given room, by ticks alone. Nobody else may ever
 * wake the controller for them.
 */
static bool somebody_waits(const weir_world *world)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		const weir_gate *gate = stage != NULL ? weir_stage_gate(stage) : NULL;
		if (gate == NULL || (gate->law->patience == NULL && gate->law->limit == NULL))
			continue;
		for (uint32_t lane = 0; lane < stage->lane_count; lane++)
			if (atomic_load_explicit(&stage->lanes[lane].waiting, memory_order_relaxed) != 0)
				return true;
	}
	return false;
}

static bool should_pause(weir_world *world, uint64_t now_ns)
{
	uint64_t seen = activity(world);
	bool idle =
		pools_at_rest(world) && !somebody_waits(world) && world->grace.ended == world->grace.asked;
	if (seen != world->control_seen || !idle) {
		world->control_seen = seen;
		world->control_busy_ns = now_ns;
	}
	return now_ns - world->control_busy_ns > PAUSE_AFTER_NS;
}

static void sleep_until_locked(weir_world *world, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_S),
				 .tv_nsec = (long)(until_ns % WEIR_NS_PER_S)};
	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&world->control_wake, &world->control_lock);
	else
		pthread_cond_timedwait(&world->control_wake, &world->control_lock, &until);
}

/*
 * The flag is set before the last look. Threads that bring work count it before they look at the flag. So one
 * of the two notices. (They use a relaxed load, so a single offer may be missed; the next one is not.)
 */
static void pause_locked(weir_world *world)
{
	atomic_store(&world->control_paused, true);
	if (activity(world) == world->control_seen)
		while (!world->control_quit && atomic_load(&world->control_paused))
			sleep_until_locked(world, UINT64_MAX);
	atomic_store(&world->control_paused, false);
	world->control_busy_ns = weir_clock_ns();
}

static void *control_main(void *arg)
{
	weir_world *world = arg;
	pthread_mutex_lock(&world->control_lock);
	while (!world->control_quit) {
		uint64_t now_ns = weir_clock_ns();
		uint64_t next_ns = weir_control_tick(world, now_ns);
		if (weir_control_has_calls(world)) {
			pthread_mutex_unlock(&world->control_lock);
			weir_control_calls(world);
			pthread_mutex_lock(&world->control_lock);
			continue; /* settings changed meanwhile have woken nobody */
		}
		if (next_ns == UINT64_MAX)
			sleep_until_locked(world, next_ns);
		else if (should_pause(world, now_ns))
			pause_locked(world);
		else
			sleep_until_locked(world, next_ns);
	}
	pthread_mutex_unlock(&world->control_lock);
	return NULL;
}

void weir_control_resume(weir_world *world)
{
	if (!atomic_exchange(&world->control_paused, false))
		return;
	pthread_mutex_lock(&world->control_lock);
	pthread_cond_signal(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
}

void weir_control_wake_locked(weir_world *world)
{
	atomic_store(&world->control_paused, false);
	pthread_cond_signal(&world->control_wake);
}

int weir_control_start(weir_world *world)
{
	world->control_quit = false;
	world->control_busy_ns = weir_clock_ns();
	int failed = -pthread_create(&world->control_thread, NULL, control_main, world);
	if (failed != 0)
		return weir_error_set(failed, "cannot start the control thread");
	world->control_started = true;
	return 0;
}

void weir_control_stop(weir_world *world)
{
	if (!world->control_started)
		return;
	pthread_mutex_lock(&world->control_lock);
	world->control_quit = true;
	pthread_cond_broadcast(&world->control_wake);
	pthread_mutex_unlock(&world->control_lock);
	pthread_join(world->control_thread, NULL);
	world->control_started = false;
}
