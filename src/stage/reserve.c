/* SPDX-License-Identifier: Apache-2.0 */
/* Places reserved for events to come: reserve, commit, cancel. */
#include <errno.h>

#include "base/error.h"
#include "stage/offer.h"

weir_verdict weir_reserve(weir_stage *stage, unsigned klass, size_t count, uint64_t cost, uint16_t home,
			  weir_ticket *ret_ticket)
{
	if (klass >= WEIR_CLASSES || count == 0 || count > WEIR_BATCH_MAX) {
		weir_offer_unfit(stage, klass >= WEIR_CLASSES ? WEIR_FAULT_BAD_CLASS : WEIR_FAULT_BAD_OFFER);
		return WEIR_SHED_MISUSE;
	}
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter(world, self);
	weir_attempt offer = {.stage = stage,
			      .self = self,
			      .lane = weir_offer_lane(stage, self, home),
			      .ask = {.now_ns = weir_thread_now(self, stage->world),
				      .cost = cost,
				      .count = (uint32_t)count,
				      .klass = (uint8_t)klass}};
	weir_verdict verdict = weir_offer_open(stage, self != NULL && self->frame != NULL);
	if (verdict == WEIR_ADMITTED)
		verdict = weir_offer_ask_law(&offer);
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer.lane, (uint32_t)count, cost);
		if (verdict != WEIR_ADMITTED)
			weir_offer_refund(&offer);
	}
	if (verdict == WEIR_ADMITTED) {
		atomic_fetch_add(&world->tickets, 1);
		if (offer.gate != NULL)
			atomic_fetch_add(&offer.gate->tickets, 1);
		*ret_ticket = (weir_ticket){.stage = stage,
					    .gate = offer.gate,
					    .spared = offer.spared,
					    .cost = cost,
					    .now_ns = offer.ask.now_ns,
					    .count = (uint32_t)count,
					    .home = offer.lane->index,
					    .klass = (uint8_t)klass};
		weir_offer_admitted();
	} else {
		weir_offer_shed(&offer, NULL, verdict);
	}
	weir_outsider_leave(world, self, side);
	return verdict;
}

/*
 * The ticket is used up. The gate's count is last: from then on a replaced law may be freed. Before that, the
 * stage's places were given back or went to its events.
 */
static void use_up(weir_ticket *ticket, weir_world *world)
{
	ticket->stage = NULL;
	if (ticket->gate != NULL)
		atomic_fetch_sub(&ticket->gate->tickets, 1);
	atomic_fetch_sub(&world->tickets, 1);
}

static bool ticket_fits(const weir_ticket *ticket, weir_event **events, size_t count)
{
	uint64_t cost = 0;
	if (count != ticket->count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!weir_offer_fit(ticket->stage, events[i]) || events[i]->klass != ticket->klass)
			return false;
		cost += events[i]->cost;
	}
	return cost == ticket->cost;
}

static weir_attempt attempt_of(const weir_ticket *ticket)
{
	return (weir_attempt){.stage = ticket->stage,
			      .lane = &ticket->stage->lanes[ticket->home],
			      .gate = ticket->gate,
			      .spared = ticket->spared,
			      .ask = {.now_ns = ticket->now_ns,
				      .cost = ticket->cost,
				      .count = ticket->count,
				      .klass = ticket->klass}};
}

/* The law was asked about all events, and will not be told of the exempt ones. */
static void refund_exempt(const weir_ticket *ticket, weir_event **events, size_t count)
{
	weir_attempt offer = attempt_of(ticket);
	offer.ask.count = 0;
	offer.ask.cost = 0;
	for (size_t i = 0; i < count; i++) {
		bool exempt = (events[i]->flags & WEIR_EVENT_EXEMPT) != 0;
		offer.ask.count += exempt;
		offer.ask.cost += exempt ? events[i]->cost : 0;
	}
	if (offer.ask.count != 0)
		weir_offer_refund(&offer);
}

static int commit_places(const weir_ticket *ticket, weir_thread *self, weir_event **events, size_t count)
{
	weir_stage *stage = ticket->stage;
	uint8_t states[WEIR_BATCH_MAX];
	weir_lane *lanes[WEIR_BATCH_MAX];
	if (!ticket_fits(ticket, events, count) || !weir_offer_choose(stage, events, count, states)) {
		weir_stage_fault(stage, WEIR_FAULT_BAD_TICKET, 1);
		return weir_error_set(
			-EINVAL,
			"stage '%s': a commit must bring exactly the %u events of class %u and cost "
			"%llu that were reserved",
			stage->name, ticket->count, ticket->klass, (unsigned long long)ticket->cost);
	}
	weir_offer_unchoose(events, states, count);
	if (atomic_load_explicit(&stage->world->phase, memory_order_seq_cst) == WEIR_PHASE_STOPPED) {
		weir_stage_fault(stage, WEIR_FAULT_NOT_STARTED, 1);
		return weir_error_set(-ESHUTDOWN, "stage '%s': the world stopped before the commit",
				      stage->name);
	}
	weir_attempt offer = {.stage = stage, .self = self, .gate = ticket->gate};
	refund_exempt(ticket, events, count);
	for (size_t i = 0; i < count; i++) {
		lanes[i] = &stage->lanes[ticket->home];
		weir_offer_count(&offer, events[i], 1);
	}
	weir_offer_hand_over(&offer, events, lanes, count, weir_thread_now(self, stage->world));
	return 0;
}

int weir_commit(weir_ticket *ticket, weir_event **events, size_t count)
{
	weir_stage *stage = ticket->stage;
	if (stage == NULL)
		return weir_error_set(-EINVAL,
				      "commit: the ticket holds no place (never reserved, or already used)");
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter(world, self);
	int failed = commit_places(ticket, self, events, count);
	if (failed == 0)
		use_up(ticket, world);
	weir_outsider_leave(world, self, side);
	return failed;
}

void weir_cancel(weir_ticket *ticket)
{
	weir_stage *stage = ticket->stage;
	if (stage == NULL)
		return;
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter(world, self);
	weir_attempt offer = attempt_of(ticket);
	weir_offer_refund(&offer);
	weir_lane_give_back(&stage->lanes[ticket->home], ticket->count, ticket->cost);
	use_up(ticket, world);
	weir_outsider_leave(world, self, side);
}
