/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of many events: all or none. offer.h lists the steps. */
#include <string.h>

#include "stage/offer.h"

/* The events of one offer that go to the same lane; they take their places together. */
typedef struct share {
	weir_lane *lane;
	uint32_t count, exempt; /* of the count */
	uint64_t cost, exempt_cost;
	bool spared; /* admitted, and not by the law */
} share;

void weir_offer_unchoose(weir_event **events, const uint8_t *states, size_t count)
{
	for (size_t i = 0; i < count; i++)
		events[i]->state = states[i];
}

bool weir_offer_choose(weir_stage *stage, weir_event **events, size_t count, uint8_t *ret_states)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t tag = weir_event_tag(events[i]);
		bool twice = tag == WEIR_EVENT_TAG(WEIR_EVENT_CHOSEN);
		bool mixed = weir_event_offerable(tag) && events[i]->klass != events[0]->klass;
		if (twice || mixed || !weir_offer_fit(stage, events[i])) {
			if (twice || mixed)
				weir_offer_unfit(stage, WEIR_FAULT_BAD_OFFER);
			weir_offer_unchoose(events, ret_states, i);
			return false;
		}
		ret_states[i] = events[i]->state;
		events[i]->state = WEIR_EVENT_CHOSEN;
	}
	return true;
}

static weir_verdict take_shares(weir_stage *stage, const share *shares)
{
	for (uint32_t at = 0; at < stage->lane_count; at++) {
		if (shares[at].count == 0)
			continue;
		weir_verdict verdict = weir_lane_take(&stage->lanes[at], shares[at].count, shares[at].cost);
		if (verdict == WEIR_ADMITTED)
			continue;
		while (at-- > 0)
			if (shares[at].count != 0)
				weir_lane_give_back(&stage->lanes[at], shares[at].count, shares[at].cost);
		return verdict;
	}
	return WEIR_ADMITTED;
}

static void add_to_share(share *part, weir_lane *lane, const weir_event *event)
{
	part->lane = lane;
	bool exempt = (event->flags & WEIR_EVENT_EXEMPT) != 0;
	part->count++;
	part->cost += event->cost;
	part->exempt += exempt;
	part->exempt_cost += exempt ? event->cost : 0;
}

/* ---- the law: asked per lane if each has a state, otherwise about all; not about exempt events ---- */

static weir_attempt about_share(const weir_attempt *offer, const share *from)
{
	weir_attempt part = *offer;
	part.lane = from->lane;
	part.spared = from->spared;
	part.ask.count = from->count - from->exempt;
	part.ask.cost = from->cost - from->exempt_cost;
	return part;
}

static void refund_shares(const weir_attempt *offer, const share *shares, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++) {
		weir_attempt part = about_share(offer, &shares[at]);
		if (part.ask.count != 0)
			weir_offer_refund(&part);
	}
}

static weir_verdict ask_shares(weir_attempt *offer, share *shares, uint32_t count)
{
	for (uint32_t at = 0; at < count; at++) {
		weir_attempt part = about_share(offer, &shares[at]);
		if (part.ask.count == 0)
			continue;
		weir_verdict verdict = weir_offer_ask_gate(&part, offer->gate);
		shares[at].spared = part.spared;
		if (verdict == WEIR_ADMITTED)
			continue;
		refund_shares(offer, shares, at);
		offer->lane = part.lane; /* whose state can explain the verdict */
		return verdict;
	}
	return WEIR_ADMITTED;
}

static share sum_shares(const weir_attempt *offer, const share *shares)
{
	share all = {.lane = offer->lane};
	for (uint32_t at = 0; at < offer->stage->lane_count; at++) {
		all.count += shares[at].count;
		all.exempt += shares[at].exempt;
		all.cost += shares[at].cost;
		all.exempt_cost += shares[at].exempt_cost;
	}
	return all;
}

static weir_verdict ask_and_take(weir_attempt *offer, share *shares)
{
	weir_gate *gate = offer->gate = weir_stage_gate(offer->stage);
	bool each = gate != NULL && gate->law->per_lane;
	share all = sum_shares(offer, shares), *asked = each ? shares : &all;
	uint32_t count = each ? offer->stage->lane_count : 1;
	weir_verdict verdict = gate != NULL ? ask_shares(offer, asked, count) : WEIR_ADMITTED;
	if (verdict != WEIR_ADMITTED)
		return verdict;
	verdict = take_shares(offer->stage, shares);
	if (verdict != WEIR_ADMITTED && gate != NULL) {
		refund_shares(offer, asked, count);
		offer->gate = NULL;
	}
	return verdict;
}

/* Admits all or none; each event's state counts. */
static weir_verdict admit_many(weir_attempt *offer, weir_event **events, size_t count, share *shares)
{
	const weir_thread *self = offer->self;
	bool inside = self != NULL && self->frame != NULL;
	for (size_t i = 0; i < count; i++) {
		weir_verdict verdict = weir_offer_open(offer->stage, inside || events[i]->lane != NULL);
		if (verdict == WEIR_ADMITTED)
			verdict = weir_offer_wanted(events[i], offer->ask.now_ns);
		if (verdict != WEIR_ADMITTED)
			return verdict;
	}
	return ask_and_take(offer, shares);
}

void weir_offer_hand_over(const weir_attempt *offer, weir_event **events, weir_lane **lanes, size_t count,
			  uint64_t now_ns)
{
	weir_thread *self = offer->self;
	size_t from = 0;
	for (size_t i = 0; i < count; i++) {
		weir_offer_trace(offer->stage, events[i], WEIR_ADMITTED, 'q', now_ns);
		weir_offer_adopt(self, lanes[i], events[i], offer->gate, now_ns);
		if (i + 1 < count && lanes[i + 1] == lanes[from])
			continue;
		weir_lane_push(lanes[from], self, &events[from], i + 1 - from);
		from = i + 1;
	}
}

static weir_verdict offer_chunk(weir_attempt *offer, weir_event **events, size_t count, const uint8_t *states)
{
	weir_stage *stage = offer->stage;
	weir_lane *lanes[WEIR_BATCH_MAX];
	share shares[WEIR_THREADS_MAX];
	memset(shares, 0, stage->lane_count * sizeof(shares[0]));
	for (size_t i = 0; i < count; i++) {
		/* The lane for all events without a home was chosen once, so that they stay together. */
		bool anywhere = events[i]->home == WEIR_ANYWHERE;
		lanes[i] = anywhere ? offer->lane : weir_offer_lane(stage, offer->self, events[i]->home);
		add_to_share(&shares[lanes[i]->index], lanes[i], events[i]);
		offer->ask.cost += events[i]->cost;
	}
	if (events[0]->home != WEIR_ANYWHERE)
		offer->lane = weir_offer_lane(stage, offer->self, events[0]->home);
	weir_verdict verdict = admit_many(offer, events, count, shares);
	weir_offer_unchoose(events, states, count);
	if (verdict != WEIR_ADMITTED) {
		for (size_t i = 0; i < count; i++)
			weir_offer_trace(stage, events[i], verdict, 'q', offer->ask.now_ns);
		return weir_offer_shed(offer, events, verdict);
	}
	for (size_t i = 0; i < count; i++)
		weir_offer_count(offer, events[i], 1);
	weir_offer_hand_over(offer, events, lanes, count, offer->ask.now_ns);
	return weir_offer_admitted();
}

/*
 * The short way for many: fresh plain events of one class that all go to one lane. Marking finds duplicates
 * here too, and every state to be restored is FREE.
 */
static bool choose_plain(weir_stage *stage, const weir_thread *self, weir_lane *lane, weir_event **events,
			 size_t count, uint64_t *ret_cost)
{
	size_t chosen = 0;
	uint64_t cost = 0;
	for (size_t i = 0; i < count; i++)
		weir_event_fetch(events[i]);
	for (; chosen < count; chosen++) {
		weir_event *event = events[chosen];
		if (!weir_event_plain(event) || event->klass != events[0]->klass ||
		    (event->home != WEIR_ANYWHERE && weir_offer_lane(stage, self, event->home) != lane))
			break;
		event->state = WEIR_EVENT_CHOSEN;
		cost += event->cost;
	}
	*ret_cost = cost;
	if (chosen == count)
		return true;
	while (chosen-- > 0)
		events[chosen]->state = WEIR_EVENT_FREE;
	return false;
}

static weir_verdict hand_over_plain(weir_attempt *offer, weir_event **events, size_t count)
{
	weir_verdict verdict =
		weir_offer_open(offer->stage, offer->self != NULL && offer->self->frame != NULL);
	if (verdict == WEIR_ADMITTED)
		verdict = weir_offer_ask_law(offer);
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer->lane, (uint32_t)count, offer->ask.cost);
		if (verdict != WEIR_ADMITTED)
			weir_offer_refund(offer);
	}
	for (size_t i = 0; i < count; i++)
		events[i]->state = WEIR_EVENT_FREE;
	if (verdict != WEIR_ADMITTED)
		return weir_offer_shed(offer, events, verdict);
	weir_offer_count(offer, events[0], (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		weir_offer_adopt(offer->self, offer->lane, events[i], offer->gate, offer->ask.now_ns);
	weir_lane_push(offer->lane, offer->self, events, count);
	if (offer->self != NULL)
		weir_thread_flush_wakes(offer->self); /* a batch is worth a wake-up of its own */
	return weir_offer_admitted();
}

weir_verdict weir_offer_many(weir_stage *stage, weir_event **events, size_t count)
{
	uint8_t states[WEIR_BATCH_MAX];
	uint64_t cost;
	if (count == 0 || count > WEIR_BATCH_MAX) {
		weir_offer_unfit(stage, WEIR_FAULT_BAD_OFFER);
		return WEIR_SHED_MISUSE;
	}
	weir_thread *self = weir_thread_in(stage->world);
	weir_lane *lane = weir_offer_lane(stage, self, WEIR_ANYWHERE);
	bool untraced = atomic_load_explicit(&stage->world->trace.every, memory_order_relaxed) == 0;
	bool plain = untraced && choose_plain(stage, self, lane, events, count, &cost);
	if (!plain && !weir_offer_choose(stage, events, count, states))
		return WEIR_SHED_MISUSE;
	weir_world *world = stage->world;
	unsigned side = weir_outsider_enter(world, self);
	weir_attempt offer = {.stage = stage,
			      .self = self,
			      .lane = lane,
			      .ask = {.now_ns = weir_thread_now(self, stage->world),
				      .entered_ns = events[0]->entered_ns,
				      .deadline_ns = events[0]->deadline_ns,
				      .cost = plain ? cost : 0,
				      .count = (uint32_t)count,
				      .klass = events[0]->klass}};
	weir_verdict verdict =
		plain ? hand_over_plain(&offer, events, count) : offer_chunk(&offer, events, count, states);
	weir_outsider_leave(world, self, side);
	return verdict;
}
