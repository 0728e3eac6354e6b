/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_OFFER_H
#define WEIR_STAGE_OFFER_H

/*
 * Offers. All forms take the same steps:
 *
 *	fit      is this an event that can be offered?           no: misuse, a fault, counted nowhere else
 *	open     world running, stage not closed                 no: shed
 *	wanted   not cancelled, deadline not passed              no: shed
 *	law      the stage's admission law, unless exempt        no: shed
 *	places   room in the lane's queue, unless run at once    no: refund the law, shed
 *	count    offered, then admitted or shed, and the edge
 *	adopt    settle it in the stage it comes from; this stage owns it now
 *	run      at once, or push into the lane
 *
 * Nothing in the event changes before "adopt", so a shed event is as it was. Two private fields are
 * exceptions: its trace number, and `told`: its shed was reported to the stage where it entered.
 */

#include "stage/runtime.h"

/* An offer under way. */
typedef struct weir_attempt {
	weir_stage *stage;
	weir_thread *self;
	weir_lane *lane;
	weir_gate *gate; /* that was asked; NULL: none, or it was refunded */
	bool spared;     /* admitted by the stage, and not by the law */
	weir_ask ask;
} weir_attempt;

/* The last shed on this thread, for weir_why_shed. */
typedef struct weir_last_shed {
	weir_attempt offer;
	weir_verdict verdict;
	/* for an outside thread, which is in no section (grace.h) when it asks why: */
	weir_world *world;
	uint64_t things_gone; /* at the time of the shed; if it has grown, offer may dangle */
} weir_last_shed;

extern _Thread_local weir_last_shed weir_offer_last __attribute__((tls_model("initial-exec")));

static inline weir_verdict weir_offer_admitted(void)
{
	weir_offer_last.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

/* ---- why.c ---- */

/* Records a shed and its reason for weir_why_shed. */
void weir_offer_remember(const weir_attempt *offer, weir_verdict why);

/* ---- offer.c ---- */

/* Counts a fault and records it as the reason; false. */
bool weir_offer_unfit(weir_stage *stage, weir_fault fault);
/* Why the stage takes nothing from this offerer; WEIR_ADMITTED: it does after all. */
weir_verdict weir_offer_closed(weir_stage *stage, weir_phase phase, bool inside);
/* Counts the shed, records and returns its reason. May tell the stages where events (or NULL) entered. */
weir_verdict weir_offer_shed(const weir_attempt *offer, weir_event *const *events, weir_verdict why);
void weir_offer_trace_put(weir_stage *stage, weir_event *event, weir_verdict verdict, uint8_t step,
			  uint64_t now_ns);
/* silent_full: the caller will wait and try again, so a full queue is not counted as a shed. */
weir_verdict weir_offer_one(weir_stage *stage, weir_event *event, weir_thread *self, bool silent_full);

/* ---- gate.c ---- */

/* For a special gate: law, mode, ceiling and pressure together. */
weir_verdict weir_gate_ask(weir_attempt *offer);

/* ---- offer_many.c ---- */

/* Checks and marks each event CHOSEN, finding duplicates. ret_states: their old states. False: misuse. */
bool weir_offer_choose(weir_stage *stage, weir_event **events, size_t count, uint8_t *ret_states);
void weir_offer_unchoose(weir_event **events, const uint8_t *states, size_t count);
/* Hands over events whose places are taken, in runs that go to the same lane. */
void weir_offer_hand_over(const weir_attempt *offer, weir_event **events, weir_lane **lanes, size_t count,
			  uint64_t now_ns);

/* ---- fit ---- */

static inline bool weir_event_offerable(uint32_t tag)
{
	return tag == WEIR_EVENT_TAG(WEIR_EVENT_FREE) || tag == WEIR_EVENT_TAG(WEIR_EVENT_HANDLING) ||
	       tag == WEIR_EVENT_TAG(WEIR_EVENT_HELD);
}

static inline bool weir_offer_fit(weir_stage *stage, const weir_event *event)
{
	uint32_t tag = weir_event_tag(event);
	if (__builtin_expect(!weir_event_offerable(tag), 0))
		return weir_offer_unfit(stage, (uint16_t)tag == WEIR_EVENT_MAGIC ? WEIR_FAULT_NOT_FREE
										 : WEIR_FAULT_NOT_INIT);
	if (__builtin_expect(event->klass >= WEIR_CLASSES, 0))
		return weir_offer_unfit(stage, WEIR_FAULT_BAD_CLASS);
	return true;
}

/* ---- open, wanted ---- */

/* inside: the offer continues work that the world has admitted, so a drain must let it through. */
static inline weir_verdict weir_offer_open(weir_stage *stage, bool inside)
{
	if (__builtin_expect(atomic_load_explicit(&stage->open, memory_order_seq_cst), 1))
		return WEIR_ADMITTED;
	return weir_offer_closed(stage, atomic_load_explicit(&stage->world->phase, memory_order_seq_cst),
				 inside);
}

static inline weir_verdict weir_offer_wanted(const weir_event *event, uint64_t now_ns)
{
	if (weir_event_is_cancelled(event))
		return WEIR_SHED_CANCELLED;
	if (event->deadline_ns != 0 && now_ns > event->deadline_ns)
		return WEIR_SHED_EXPIRED;
	return WEIR_ADMITTED;
}

/* ---- lane, law ---- */

static inline weir_lane *weir_offer_lane(weir_stage *stage, const weir_thread *self, uint16_t home)
{
	if (stage->lane_count == 1)
		return &stage->lanes[0];
	if (home != WEIR_ANYWHERE)
		return &stage->lanes[home % stage->lane_count];
	if (self != NULL && self->domain == stage->domain)
		return &stage->lanes[self->index];
	uint32_t turn = atomic_fetch_add_explicit(&stage->next_lane, 1, memory_order_relaxed);
	return &stage->lanes[turn % stage->lane_count];
}

static inline weir_ask weir_offer_ask(const weir_event *event, uint64_t now_ns)
{
	return (weir_ask){.now_ns = now_ns,
			  .entered_ns = event->entered_ns,
			  .deadline_ns = event->deadline_ns,
			  .cost = event->cost,
			  .count = 1,
			  .klass = event->klass};
}

static inline weir_verdict weir_offer_ask_gate(weir_attempt *offer, weir_gate *gate)
{
	offer->ask.waiting = atomic_load_explicit(&offer->lane->waiting, memory_order_relaxed);
	offer->ask.in_service = atomic_load_explicit(&offer->lane->in_service, memory_order_relaxed);
	offer->gate = gate;
	if (gate->law->wants_pool)
		weir_turn_ask(offer->lane, &offer->ask);
	if (__builtin_expect(atomic_load_explicit(&gate->special, memory_order_acquire), 0))
		return weir_gate_ask(offer);
	return gate->law->admit(weir_gate_state(gate, offer->lane), &offer->ask);
}

static inline weir_verdict weir_offer_ask_law(weir_attempt *offer)
{
	weir_gate *gate = weir_stage_gate(offer->stage);
	return gate != NULL ? weir_offer_ask_gate(offer, gate) : WEIR_ADMITTED;
}

/* The law admitted the offer, and something else refused it. */
static inline void weir_offer_refund(weir_attempt *offer)
{
	if (offer->gate != NULL && offer->gate->law->refund != NULL && !offer->spared)
		offer->gate->law->refund(weir_gate_state(offer->gate, offer->lane), &offer->ask);
	offer->gate = NULL;
}

/* ---- count ---- */

/* Where an event comes from: the stage that owns it, or whose handler made it; 0: outside. */
static inline unsigned weir_offer_origin(const weir_thread *self, const weir_event *event)
{
	if (event->lane != NULL)
		return event->lane->stage->index + 1u;
	return self != NULL && self->frame != NULL ? self->frame->origin : 0;
}

static inline void weir_offer_count(const weir_attempt *offer, const weir_event *event, uint32_t count)
{
	weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	weir_count_add(counts, &counts->offered[event->klass], count);
	weir_count_add(counts, &counts->admitted[event->klass], count);
	weir_count_add(counts, weir_edges_at(&counts->from, weir_offer_origin(offer->self, event)), count);
}

static inline void weir_offer_trace(weir_stage *stage, weir_event *event, weir_verdict verdict, uint8_t step,
				    uint64_t now_ns)
{
	uint32_t every = atomic_load_explicit(&stage->world->trace.every, memory_order_relaxed);
	if (__builtin_expect((event->trace | every | (event->flags & WEIR_EVENT_TRACE)) != 0, 0))
		weir_offer_trace_put(stage, event, verdict, step, now_ns);
}

/* ---- adopt ---- */

/* Records where the event entered, if that was here. A shed by the next stage is reported again. */
static inline void weir_offer_enter(weir_event *event, const weir_stage *stage)
{
	if (event->entry == 0) {
		event->entry = stage->mark;
		event->entry_klass = event->klass;
	}
	event->told = 0;
}

/* gate: whose law admitted it; NULL: none was asked. */
static inline void weir_offer_adopt(weir_thread *self, weir_lane *lane, weir_event *event,
				    const weir_gate *gate, uint64_t now_ns)
{
	if (event->state == WEIR_EVENT_HANDLING || event->state == WEIR_EVENT_HELD)
		weir_settle(self, event, WEIR_DONE, now_ns);
	event->lane = lane;
	event->gate = gate != NULL && !(event->flags & WEIR_EVENT_EXEMPT) ? gate->number : 0;
	weir_offer_enter(event, lane->stage);
	event->state = WEIR_EVENT_QUEUED;
	event->offered_ns = now_ns;
	if (event->entered_ns == 0)
		event->entered_ns = now_ns;
	if (event->home != WEIR_ANYWHERE)
		return;
	if (self != NULL && self->slot != 0)
		event->home = self->index;
	else if (lane->stage->lane_count > 1)
		event->home = lane->index;
}

/* ---- plain events ---- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Magic, state FREE, not cancelled, a valid class, no flags but GUESSED, which only laws look at; any home. */
#define PLAIN_MASK (UINT64_C(0x0000fff8ffffffff) & ~((uint64_t)WEIR_EVENT_GUESSED << 40))
#define PLAIN_WORD WEIR_EVENT_TAG(WEIR_EVENT_FREE)
_Static_assert(WEIR_CLASSES == 8 && offsetof(weir_event, state) - offsetof(weir_event, word) == 2 &&
		       offsetof(weir_event, cancelled) - offsetof(weir_event, word) == 3 &&
		       offsetof(weir_event, klass) - offsetof(weir_event, word) == 4 &&
		       offsetof(weir_event, flags) - offsetof(weir_event, word) == 5,
	       "PLAIN_MASK follows the layout of weir_event");

static inline bool weir_event_plain(const weir_event *event)
{
	uint64_t word = __atomic_load_n(&event->word, __ATOMIC_RELAXED);
	return (word & PLAIN_MASK) == PLAIN_WORD && (event->deadline_ns | event->trace) == 0;
}
#else
static inline bool weir_event_plain(const weir_event *event)
{
	return false;
}
#endif

static inline bool weir_offer_full(weir_verdict verdict)
{
	return verdict == WEIR_SHED_FULL || verdict == WEIR_SHED_COST;
}

#endif
