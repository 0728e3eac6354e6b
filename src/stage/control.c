/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller: the slow half of control. One thread (in a virtual world, a timer) ticks the laws of stages
 * and pools when they are due (tick.c), and calls what ticks have left to be called.
 *
 * An idle process should sleep, and needs no ticks but for periodic work. The thread pauses after 2 s without
 * an offer or a settling, if every pool has its least size, no grace period is pending, and no event waits at
 * a law with a limit, with patience or with visits. Whoever then offers or handles something resumes it
 * (weir_control_touch). The tick after a pause has a long interval, which the laws see.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "stage/runtime.h"

#define PAUSE_AFTER_NS (2 * WEIR_NS_PER_S)
#define LOOK_NS        (100 * WEIR_NS_PER_MS)

/* ---- what ticks have left to be called ---- */

static void notice_unreachable(const weir_stage *stage, unsigned klass)
{
	weir_report report;
	char text[256], target[32], now[96];
	if (!weir_stage_report(stage, klass, &report) || !report.unreachable)
		return; /* replaced, or within reach again */
	if (report.alone_ns != 0)
		snprintf(now, sizeof(now), "it takes %.3gs with nothing waiting",
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
	return world->purged != NULL || world->notify || world->chores_due || weir_monitor_is_due(world);
}

/* Without the lock, so in a section, as an outside thread: what is found here is not freed before its end. */
void weir_control_calls(weir_world *world)
{
	uint64_t now_ns = weir_world_now(world);
	unsigned side = weir_outsider_enter(world, NULL);
	pthread_mutex_lock(&world->control_lock);
	weir_event *purged = world->purged;
	bool notify = world->notify, chores = world->chores_due;
	world->purged = NULL;
	world->notify = world->chores_due = false;
	pthread_mutex_unlock(&world->control_lock);
	while (purged != NULL) {
		weir_event *event = purged;
		purged = event->at.queue.next;
		weir_dispatch_drop(event->lane, NULL, event, WEIR_SHED_WAITED, now_ns);
	}
	if (notify)
		call_notices(world);
	if (chores)
		weir_every_offer(world);
	weir_offer_forget();
	weir_outsider_leave(world, NULL, side);
	weir_monitor_look(world);
}

/* ---- the controller ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t weir_control_tick(weir_world *world, uint64_t now_ns)
{
	uint64_t next =
		sooner(weir_monitor_tick_locked(world, now_ns), weir_grace_tick_locked(world, now_ns));
	uint32_t domains = atomic_load_explicit(&world->domain_count, memory_order_acquire);
	for (uint32_t i = 0; i < domains; i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL && !domain->retiring)
			next = sooner(next, weir_tick_domain_locked(domain, now_ns));
	}
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			next = sooner(next, weir_tick_stage_locked(stage, now_ns));
	}
	return next;
}

/*
 * A number that changes whenever anything happens. Periodic work needs no law, so it does not count. In stages that
 * rest nothing happens.
 */
static uint64_t activity(weir_world *world)
{
	uint64_t sum = 0;
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		bool counts = stage != NULL && stage->chore == NULL && stage->ticks.rest_until_ns == 0;
		for (unsigned klass = 0; counts && klass < WEIR_CLASSES; klass++) {
			weir_class_sample now;
			weir_tick_sum(stage, klass, &now);
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
		if (gate == NULL || !weir_law_holds_back(gate->law))
			continue;
		for (uint32_t lane = 0; lane < stage->lane_count; lane++)
			if (atomic_load_explicit(&stage->lanes[lane].waiting, memory_order_relaxed) != 0)
				return true;
	}
	return false;
}

/* A look at all counts takes longer than a tick of a law, so it is not made at every tick. */
static bool should_pause(weir_world *world, uint64_t now_ns)
{
	if (now_ns < world->control_look_ns)
		return false;
	world->control_look_ns = now_ns + LOOK_NS;
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
	uint64_t until_ns = weir_every_next_locked(world);
	atomic_store(&world->control_paused, true);
	if (activity(world) == world->control_seen)
		while (!world->control_quit && atomic_load(&world->control_paused) &&
		       weir_clock_ns() < until_ns)
			sleep_until_locked(world, until_ns);
	/* Woken by periodic work alone, it may pause again at once. */
	if (!atomic_exchange(&world->control_paused, false) || activity(world) != world->control_seen)
		world->control_busy_ns = weir_clock_ns();
}

static void *control_main(void *arg)
{
	weir_world *world = arg;
	weir_thread_call("weir-control");
	weir_thread_be_brief();
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
