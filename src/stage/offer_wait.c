/* SPDX-License-Identifier: Apache-2.0 */
/* Offers that wait for room. */
#include <time.h>

#include "stage/offer.h"

/*
 * Domains whose threads wait for each other in a circle may deadlock. Each domain keeps the set of domains
 * that it has ever waited for. A wait that would close a circle in that graph is refused. Only elastic
 * threads can be part of one.
 */
static uint64_t waits_of(const weir_world *world, uint32_t index)
{
	weir_domain *domain = weir_world_domain(world, index);
	return domain != NULL ? atomic_load(&domain->waits_for) : 0;
}

static bool closes_circle_locked(weir_world *world, weir_domain *waiter, weir_domain *target)
{
	uint64_t reached = UINT64_C(1) << target->index, before;
	do {
		before = reached;
		for (uint64_t left = reached; left != 0; left &= left - 1)
			reached |= waits_of(world, (uint32_t)__builtin_ctzll(left));
	} while (reached != before);
	if (reached >> waiter->index & 1)
		return true;
	atomic_fetch_or(&waiter->waits_for, UINT64_C(1) << target->index);
	return false;
}

/* One at a time: two threads that both look before they wait would miss each other. */
static bool closes_circle(weir_world *world, weir_domain *waiter, weir_domain *target)
{
	pthread_mutex_lock(&world->control_lock);
	bool closes = closes_circle_locked(world, waiter, target);
	pthread_mutex_unlock(&world->control_lock);
	return closes;
}

static bool wait_for_space(weir_stage *stage, uint64_t turn, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / WEIR_NS_PER_S),
				 .tv_nsec = (long)(until_ns % WEIR_NS_PER_S)};
	int failed = 0;
	pthread_mutex_lock(&stage->wait_lock);
	while (stage->wait_turn == turn && failed == 0)
		failed = pthread_cond_timedwait(&stage->wait_space, &stage->wait_lock, &until);
	bool in_time = stage->wait_turn != turn;
	pthread_mutex_unlock(&stage->wait_lock);
	return in_time;
}

static uint64_t wait_turn(weir_stage *stage)
{
	pthread_mutex_lock(&stage->wait_lock);
	uint64_t turn = stage->wait_turn;
	pthread_mutex_unlock(&stage->wait_lock);
	return turn;
}

static weir_verdict give_up(weir_stage *stage, weir_thread *self, weir_event *event, weir_verdict why)
{
	weir_offer_trace(stage, event, why, 'q', weir_clock_ns());
	weir_attempt offer = {.stage = stage,
			      .self = self,
			      .ask = {.now_ns = weir_clock_ns(), .count = 1, .klass = event->klass}};
	return weir_offer_shed(&offer, &event, why);
}

/*
 * A waiting thread uses only its stage, which is not freed while somebody waits for it. It begins a new
 * section after each wait (grace.c wakes the waiters), so replaced laws need not stay for that long.
 */
static unsigned begin_again(weir_world *world, const weir_thread *self, unsigned side)
{
	unsigned other = weir_outsider_enter(world, self);
	weir_outsider_leave(world, self, side);
	return other;
}

static weir_verdict offer_waiting(weir_stage *stage, weir_event *event, weir_thread *self,
				  uint64_t timeout_ns, unsigned *side)
{
	uint64_t now_ns = weir_clock_ns();
	uint64_t until_ns = timeout_ns < UINT64_MAX / 2 - now_ns ? now_ns + timeout_ns : UINT64_MAX / 2;
	bool first = true;
	for (;;) {
		uint64_t turn = wait_turn(stage);
		weir_verdict verdict = weir_offer_one(stage, event, self, true);
		if (!weir_offer_full(verdict))
			return verdict;
		if (first && self != NULL && closes_circle(stage->world, self->domain, stage->domain)) {
			weir_stage_fault(stage, WEIR_FAULT_WAIT_CYCLE, 1);
			return give_up(stage, self, event, WEIR_SHED_DEADLOCK);
		}
		first = false;
		bool in_time = wait_for_space(stage, turn, until_ns);
		*side = begin_again(stage->world, self, *side);
		if (!in_time)
			return give_up(stage, self, event, WEIR_SHED_TIMEOUT);
	}
}

weir_verdict weir_offer_wait(weir_stage *stage, weir_event *event, uint64_t timeout_ns)
{
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	if (world->sim != NULL || (weir_thread_here != NULL && weir_thread_here->loop != NULL)) {
		weir_offer_unfit(stage, WEIR_FAULT_BAD_WAIT);
		return WEIR_SHED_MISUSE;
	}
	unsigned side = weir_outsider_enter(world, self);
	atomic_fetch_add_explicit(&stage->waiters, 1, memory_order_seq_cst);
	weir_verdict verdict = offer_waiting(stage, event, self, timeout_ns, &side);
	atomic_fetch_sub_explicit(&stage->waiters, 1, memory_order_seq_cst);
	weir_outsider_leave(world, self, side);
	return verdict;
}
