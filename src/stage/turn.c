/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is among the stages of a thread or a pool: the highest class first, then the event that is
 * due first. It is due at entered + target - expected service; a law may also allow for the spread of service
 * times. A stage without a target has a neutral one, so that among such stages the oldest event goes first.
 * Each stage has its own order; here the next event of each stage is compared with those of the others.
 *
 * Starvation is bounded: a class that has waited for turn_targets of its targets without a turn goes before
 * all others, once. It gets one turn in that time, not all turns until it has caught up. Otherwise an old
 * backlog of the lowest class would starve the highest.
 *
 * Work. A pool's backlog (control/backlog.h) has every event that waits in the queues of its stages,
 * whichever law admitted it. The expected service is the stage's mean. If events tell their cost, it is that
 * cost times the recent service time per unit of cost. Events of stages that cannot use the whole pool
 * (single, or bounded) count as no work, because they do not hold up the others.
 */
#include "stage/runtime.h"

#define GET(x)    atomic_load_explicit(&(x), memory_order_relaxed)
#define PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

#define NEUTRAL_NS  WEIR_NS_PER_S
#define MEMORY      256 /* service times that the mean remembers */
#define USUAL_COUNT 64  /* the first ones, whose mean is the usual one until a lower is seen */

/* ---- terms ---- */

void weir_turn_terms(weir_stage *stage)
{
	bool strained = false, late = false;
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		weir_report report;
		uint64_t target_ns = weir_stage_report(stage, klass, &report) ? report.target_ns : 0;
		PUT(stage->terms.wait_ns[klass], target_ns != 0 ? report.wait_ns : 0);
		uint64_t turns = stage->domain->options.turn_targets;
		bool hard = target_ns != 0 && (report.strained || report.unreachable);
		strained |= hard;
		late |= hard && report.measured_ns > target_ns;
		PUT(stage->terms.target_ns[klass], target_ns);
		PUT(stage->terms.after_ns[klass], turns * (target_ns != 0 ? target_ns : NEUTRAL_NS));
	}
	PUT(stage->terms.strained, strained);
	PUT(stage->terms.late, late);
}

/*
 * The lowest mean: what an event takes when few are in service, as far as has been seen. The pool's law
 * compares it with what events take now.
 */
static void learn_usual(weir_terms *terms, uint64_t service_ns, float mean, uint32_t count)
{
	float least = GET(terms->least_ns);
	if (count <= USUAL_COUNT || mean < least)
		PUT(terms->least_ns, least = mean);
	atomic_fetch_add_explicit(&terms->ended, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&terms->ended_ns, service_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&terms->usual_ns, (uint64_t)least, memory_order_relaxed);
}

/* Counts one more, and returns its weight in a mean of the last MEMORY values. */
static float next_weight(_Atomic uint32_t *count)
{
	uint32_t now = GET(*count);
	now += now < MEMORY;
	PUT(*count, now);
	return 1 / (float)now;
}

/* Costs are not known from the beginning. Events without one teach nothing about the price of a unit. */
static void learn_cost(weir_terms *terms, uint32_t cost, uint64_t service_ns)
{
	float weight = next_weight(&terms->costed), mean_cost = GET(terms->mean_cost),
	      mean_ns = GET(terms->costed_ns);
	mean_cost += ((float)cost - mean_cost) * weight;
	mean_ns += ((float)service_ns - mean_ns) * weight;
	PUT(terms->mean_cost, mean_cost);
	PUT(terms->costed_ns, mean_ns);
	PUT(terms->per_cost_ns, mean_ns / mean_cost);
}

/* Two threads may do this at once, and lose one of two values. They are averages, so that does not matter. */
void weir_turn_learn(weir_stage *stage, uint32_t cost, uint64_t service_ns)
{
	weir_terms *terms = &stage->terms;
	float weight = next_weight(&terms->count), mean = GET(terms->mean_ns);
	mean += ((float)service_ns - mean) * weight;
	PUT(terms->mean_ns, mean);
	if (cost != 0)
		learn_cost(terms, cost, service_ns);
	learn_usual(terms, service_ns, mean, GET(terms->count));
}

static float expected_ns(const weir_stage *stage, uint64_t cost, uint32_t count)
{
	float per_cost = GET(stage->terms.per_cost_ns);
	return cost != 0 && per_cost > 0 ? (float)cost * per_cost : (float)count * GET(stage->terms.mean_ns);
}

/*
 * When the event should start. A law that knows the spread of service times says how long a usual event may
 * wait. A more expensive one must start sooner.
 */
static uint64_t due_of(const weir_stage *stage, unsigned klass, uint64_t cost, uint64_t entered_ns)
{
	uint64_t target_ns = GET(stage->terms.target_ns[klass]), wait_ns = GET(stage->terms.wait_ns[klass]);
	if (target_ns == 0)
		return entered_ns + NEUTRAL_NS;
	float service = expected_ns(stage, cost, 1);
	if (wait_ns == 0)
		wait_ns = target_ns;
	else
		service -= GET(stage->terms.mean_ns);
	if (service <= 0)
		return entered_ns + wait_ns;
	return entered_ns + (service < (float)wait_ns ? wait_ns - (uint64_t)service : 0);
}

/* ---- turns ---- */

weir_candidate weir_turn_candidate(weir_lane *lane, uint64_t now_ns)
{
	weir_candidate next = {.lane = lane};
	weir_lane_mind_visits(lane);
	const weir_event *event = weir_queue_peek(&lane->queue, now_ns, &next.overdue);
	if (event == NULL)
		return next;
	next.klass = event->klass;
	next.due_ns = due_of(lane->stage, event->klass, event->cost, event->entered_ns);
	return next;
}

bool weir_turn_before(const weir_candidate *a, const weir_candidate *b)
{
	if (a->overdue != b->overdue)
		return a->overdue;
	if (!a->overdue && a->klass != b->klass)
		return a->klass < b->klass;
	return a->due_ns < b->due_ns;
}

weir_lane *weir_elastic_pick_locked(weir_domain *domain, uint64_t now_ns)
{
	weir_lane *only = NULL;
	weir_candidate best = {0};
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		/* Round robin among equals. */
		weir_lane *lane = &domain->stages[(domain->next_stage + i) % domain->stage_count]->lanes[0];
		if (!weir_lane_startable(lane))
			continue;
		if (only == NULL) { /* usually there is only one, and nothing to compare */
			only = lane;
			continue;
		}
		if (best.lane == NULL)
			best = weir_turn_candidate(only, now_ns);
		weir_candidate other = weir_turn_candidate(lane, now_ns);
		if (weir_turn_before(&other, &best))
			best = other;
	}
	return best.lane != NULL ? best.lane : only;
}

/* ---- a pool's work ---- */

/*
 * Whether its work can take up the whole pool. While the processors are what is short, as many threads as
 * there are cores can.
 */
static bool counts(const weir_lane *lane)
{
	const weir_domain *domain = lane->stage->domain;
	uint32_t threads = GET(domain->alive), cores = domain->options.cores;
	if (GET(domain->computing) && cores < threads)
		threads = cores;
	return !lane->stage->options.single && (lane->concurrency == 0 || lane->concurrency >= threads);
}

static uint64_t work_of(const weir_stage *stage, uint64_t cost, uint32_t count)
{
	float work = expected_ns(stage, cost, count) * (1.0f / (1 << WEIR_WORK_SHIFT));
	return work < 0x1p32f ? (uint64_t)work : UINT32_MAX;
}

void weir_turn_enter_locked(weir_lane *lane, weir_event *event)
{
	const weir_stage *stage = lane->stage;
	uint64_t due_ns = due_of(stage, event->klass, event->cost, event->entered_ns);
	event->work = counts(lane) ? (uint32_t)work_of(stage, event->cost, 1) : 0;
	event->slice = weir_backlog_add(&stage->domain->backlog, event->klass, due_ns, event->offered_ns,
					event->work);
}

/* A handler may set another cost for the next stage. The service time is attributed to the present one. */
void weir_turn_leave_locked(weir_lane *lane, weir_event *event)
{
	weir_backlog_remove(&lane->stage->domain->backlog, event->klass, event->slice, event->work);
	event->slice = event->cost;
}

/*
 * Whether something waits for a thread, while all are busy. A bounded stage that could use the whole pool is
 * at its bound only because of the threads that it has.
 */
static bool waits_for_thread_locked(weir_domain *domain, uint64_t now_ns)
{
	for (uint32_t i = 0; i < domain->stage_count; i++) {
		const weir_lane *lane = &domain->stages[i]->lanes[0];
		if (lane->concurrency != 0 && lane->queue.count != 0 && counts(lane))
			return true;
	}
	return weir_elastic_pick_locked(domain, now_ns) != NULL;
}

void weir_turn_started_locked(weir_domain *domain, weir_event *const *events, size_t count, bool all_busy,
			      uint64_t now_ns)
{
	bool saturated = all_busy && waits_for_thread_locked(domain, now_ns);
	bool failed = GET(domain->disturbed);
	if (failed)
		PUT(domain->disturbed, false);
	/* count 0: the batch was dropped as a whole, so the next start has not waited for a thread */
	if (failed || count == 0)
		weir_backlog_disturbed(&domain->backlog);
	for (size_t i = 0; i < count; i++)
		weir_backlog_started(&domain->backlog, events[i]->klass, now_ns, events[i]->work,
				     GET(domain->alive), i + 1 < count || saturated);
}

void weir_turn_ask(const weir_lane *lane, weir_ask *ask)
{
	const weir_stage *stage = lane->stage;
	if (!GET(stage->domain->shared))
		return;
	ask->shared = counts(lane);
	ask->beside = !ask->shared;
	uint64_t entered_ns = ask->entered_ns != 0 ? ask->entered_ns : ask->now_ns;
	uint64_t cost = ask->count > 1 ? ask->cost / ask->count : ask->cost;
	uint64_t due_ns = due_of(stage, ask->klass, cost, entered_ns);
	weir_backlog_look(&stage->domain->backlog, ask->klass, due_ns, ask->now_ns, &ask->ahead_ns,
			  &ask->total_ns);
	ask->bound_ns = (uint64_t)GET(stage->domain->bound_ns[ask->klass]);
}
