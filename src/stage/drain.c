/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping without loss.
 *
 * DRAINING: new events are shed, events inside run on. The drain ends when nothing is in flight and nobody
 * can bring anything into flight any more. Counts are spread over threads and only grow:
 *
 *  1. The end counts (completed, failed, dropped) are read first, then the admitted ones. An event's
 *     admission to the next stage is counted before its end in this one. So if the two sums are equal,
 *     nothing was in flight when the first was read, and nothing was admitted until the second was.
 *  2. A handler may settle its last event and only then offer a new one. So after equal sums, every thread
 *     must pass a point outside of any handler, and the sums must still be the same. Then no handler is left
 *     that could offer.
 *  3. Outside threads count themselves in and out of each call (outsiders), and read the phase after counting
 *     in. Tickets are counted from reserve to commit or cancel. A handler may also reserve after it settled
 *     its last event, so tickets are checked again when the handlers are through, before the second sums: a
 *     commit counts its events before it gives up the ticket.
 *
 * STOPPED: every offer is shed. The threads end, and what still waits goes to the drop functions.
 */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "stage/runtime.h"

typedef struct tally {
	uint64_t admitted, ended;
} tally;

static void sum_stage(weir_stage *stage, bool ended, uint64_t *sum)
{
	weir_class_counts counted = {0};
	for (unsigned slot = 0; slot <= stage->world->reactor_count; slot++) {
		weir_counts *counts = atomic_load_explicit(&stage->counts[slot], memory_order_acquire);
		for (unsigned klass = 0; counts != NULL && klass < WEIR_CLASSES; klass++)
			(ended ? weir_counts_add_ends : weir_counts_add_admissions)(counts, klass, &counted);
	}
	*sum += ended ? counted.completed + counted.failed + counted.dropped : counted.admitted;
}

static uint64_t sum_stages(weir_world *world, bool ended)
{
	uint64_t sum = 0;
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			sum_stage(stage, ended, &sum);
	}
	return sum;
}

static tally tally_world(weir_world *world)
{
	tally sums = {.ended = sum_stages(world, true)};
	sums.admitted = sum_stages(world, false);
	return sums;
}

uint64_t weir_stage_in_flight(weir_stage *stage)
{
	tally sums = {0};
	sum_stage(stage, true, &sums.ended);
	sum_stage(stage, false, &sums.admitted);
	return sums.admitted - sums.ended;
}

uint64_t weir_world_in_flight(weir_world *world)
{
	tally sums = tally_world(world);
	return sums.admitted - sums.ended;
}

/* ---- draining ---- */

bool weir_nap(uint64_t *nap_ns, uint64_t until_ns)
{
	if (weir_clock_ns() >= until_ns)
		return false;
	struct timespec rest = {.tv_nsec = (long)*nap_ns};
	nanosleep(&rest, NULL);
	if (*nap_ns < WEIR_NS_PER_MS)
		*nap_ns *= 2;
	return true;
}

/* Waits until every reactor thread has ended a turn. */
static bool reactors_turned(weir_world *world, uint64_t until_ns)
{
	for (uint32_t i = 0; i < world->reactor_count; i++) {
		weir_thread *thread = world->reactors[i];
		if (thread->loop == NULL)
			continue; /* the start failed before it was made */
		uint64_t before = atomic_load_explicit(&thread->turns, memory_order_acquire), nap_ns = 20000;
		do
			weir_loop_wake(thread->loop);
		while (atomic_load_explicit(&thread->turns, memory_order_acquire) == before &&
		       weir_nap(&nap_ns, until_ns));
		if (atomic_load_explicit(&thread->turns, memory_order_acquire) == before)
			return false;
	}
	return true;
}

static bool pools_idle(weir_world *world)
{
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain == NULL || domain->options.kind != WEIR_ELASTIC)
			continue;
		pthread_mutex_lock(&domain->lock);
		bool idle = domain->idle == atomic_load(&domain->alive);
		pthread_mutex_unlock(&domain->lock);
		if (!idle)
			return false;
	}
	return true;
}

static bool quiet(weir_world *world, uint64_t until_ns)
{
	if (weir_outsiders_inside(world) || atomic_load(&world->tickets) != 0)
		return false;
	tally first = tally_world(world);
	if (first.admitted != first.ended)
		return false;
	if (!reactors_turned(world, until_ns) || !pools_idle(world) || atomic_load(&world->tickets) != 0)
		return false;
	tally second = tally_world(world);
	return second.admitted == first.admitted && second.ended == second.admitted;
}

static void wake_all_waiters(weir_world *world)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			weir_stage_wake_waiters(stage);
	}
}

static bool world_is_busy(void *arg)
{
	weir_world *world = arg;
	return weir_world_in_flight(world) + atomic_load(&world->tickets) != 0;
}

static void drain(weir_world *world, uint64_t timeout_ns)
{
	uint64_t now_ns = weir_world_now(world), nap_ns = 20000;
	uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
	if (world->sim != NULL) {
		weir_sim_drain(world, until_ns, world_is_busy, world);
		return;
	}
	while (!quiet(world, until_ns) && weir_nap(&nap_ns, until_ns))
		;
}

/* ---- the end ---- */

static void end_threads(weir_world *world)
{
	weir_control_stop(world);
	atomic_store_explicit(&world->quit, true, memory_order_release);
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL && domain->options.kind == WEIR_ELASTIC)
			weir_elastic_join(domain, UINT64_MAX);
		else if (domain != NULL && world->sim == NULL)
			weir_reactor_join(domain);
	}
	uint64_t nap_ns = 20000;
	while (weir_outsiders_inside(world))
		weir_nap(&nap_ns, UINT64_MAX);
}

/* No thread of the world is left, so this thread owns every queue. */
static uint64_t sweep_lane(weir_lane *lane, uint64_t now_ns)
{
	uint64_t swept = 0;
	if (lane->thread != NULL)
		weir_lane_absorb(lane);
	lane->queue.closed = 0;
	for (weir_event *event; (event = weir_queue_pop(&lane->queue, now_ns)) != NULL; swept++) {
		if (lane->thread == NULL)
			weir_turn_leave_locked(lane, event);
		weir_lane_give_back(lane, 1, event->cost);
		weir_lane_gone(lane, event, now_ns);
		weir_dispatch_drop(lane, NULL, event, WEIR_SHED_STOPPING, now_ns);
	}
	return swept;
}

static uint64_t sweep_stage(weir_stage *stage, uint64_t now_ns)
{
	uint64_t swept = 0;
	for (uint32_t i = 0; i < stage->lane_count; i++)
		swept += sweep_lane(&stage->lanes[i], now_ns);
	if (swept != 0)
		weir_stage_fault(stage, WEIR_FAULT_UNDRAINED, swept);
	return swept;
}

static uint64_t count_held(weir_stage *stage)
{
	weir_stage_stats stats;
	weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
	if (stats.in_flight != 0)
		weir_stage_fault(stage, WEIR_FAULT_UNSETTLED, stats.in_flight);
	return stats.in_flight;
}

/*
 * Offers may still come from outside, and are shed. One that is counted as offered and not yet as shed looks
 * like an imbalance for a moment. A real imbalance stays.
 */
static uint64_t count_unbalanced(const weir_world *world)
{
	uint64_t unbalanced, nap_ns = 20000;
	for (unsigned looks = 0; (unbalanced = weir_world_check(world)) != 0 && looks < 100; looks++)
		weir_nap(&nap_ns, UINT64_MAX);
	return unbalanced;
}

static void sweep(weir_world *world, weir_stop_report *report)
{
	uint64_t now_ns = weir_world_now(world);
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		weir_stage *stage = weir_world_stage(world, i);
		if (stage == NULL)
			continue;
		uint64_t left = sweep_stage(stage, now_ns) + count_held(stage);
		report->undrained += left;
		if (left != 0 && report->stuck == NULL)
			report->stuck = stage->name;
		for (unsigned fault = 0; fault < WEIR_FAULT_COUNT; fault++)
			report->faults += weir_stage_faults(stage, (weir_fault)fault);
	}
	report->unbalanced = count_unbalanced(world);
}

static int judge_report(const weir_stop_report *report, uint64_t tickets)
{
	if (report->unbalanced != 0)
		return weir_error_set(-EPROTO, "stop: the counts of %llu stages do not add up",
				      (unsigned long long)report->unbalanced);
	if (report->undrained != 0)
		return weir_error_set(-ETIMEDOUT,
				      "stop: %llu events did not drain in time; stage '%s' still held some",
				      (unsigned long long)report->undrained, report->stuck);
	if (tickets != 0)
		return weir_error_set(-ETIMEDOUT,
				      "stop: %llu reservations were neither committed nor cancelled",
				      (unsigned long long)tickets);
	return 0;
}

/* The controller also counts: it calls notices, and drop functions of events that waited too long. */
int weir_world_check_thread(weir_world *world, const char *what)
{
	bool controller = world->control_started && pthread_equal(pthread_self(), world->control_thread);
	if (weir_thread_in(world) == NULL && !controller)
		return 0;
	return weir_error_set(-EDEADLK, "%s: called from a thread of the world that it would wait for", what);
}

/* They see the phase and return. What they were retiring is freed with the world. */
static void await_retirers(weir_world *world)
{
	uint64_t nap_ns = 20000;
	for (unsigned retirers = 1; retirers != 0;) {
		pthread_mutex_lock(&world->control_lock);
		retirers = world->retirers;
		pthread_mutex_unlock(&world->control_lock);
		if (retirers != 0)
			weir_nap(&nap_ns, UINT64_MAX);
	}
}

int weir_world_stop(weir_world *world, uint64_t timeout_ns, weir_stop_report *ret_report)
{
	weir_stop_report report = {0};
	int refused = weir_world_check_thread(world, "stop");
	if (refused != 0)
		return refused;
	weir_phase phase = atomic_load(&world->phase);
	if (phase == WEIR_PHASE_RUNNING) {
		uint64_t ended = tally_world(world).ended;
		weir_world_set_phase(world, WEIR_PHASE_DRAINING);
		await_retirers(world);
		wake_all_waiters(world);
		drain(world, timeout_ns);
		report.drained = tally_world(world).ended - ended;
	}
	weir_world_set_phase(world, WEIR_PHASE_STOPPED);
	wake_all_waiters(world);
	if (phase == WEIR_PHASE_RUNNING)
		end_threads(world);
	if (phase != WEIR_PHASE_STOPPED)
		sweep(world, &report);
	if (ret_report != NULL)
		*ret_report = report;
	return judge_report(&report, atomic_load(&world->tickets));
}
