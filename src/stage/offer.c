/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers. All forms go through the same steps:
 *
 *	fit      is this an event that can be offered?           no: misuse, a fault, counted nowhere else
 *	open     world running, stage not closed                 no: shed
 *	wanted   not cancelled, deadline not passed              no: shed
 *	law      the stage's admission law, unless exempt        no: shed
 *	places   room in the lane's queue, unless run at once    no: refund the law, shed
 *	count    offered, then admitted or shed, and the edge
 *	adopt    settle it in the stage it comes from; it is this one's now
 *	run      at once, or push into the lane
 *
 * Nothing of the event is touched before "adopt": a shed event is as it was.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "stage/runtime.h"

/* One offer on its way. */
typedef struct attempt {
	weir_stage *stage;
	weir_thread *self;
	weir_lane *lane;
	weir_gate *gate; /* that admitted it; NULL: no law was asked */
	weir_ask ask;
} attempt;

/* The last shed on this thread, for weir_why_shed. */
static _Thread_local struct {
	attempt offer;
	weir_verdict verdict;
	uint64_t worlds_freed; /* then; offer points into a world */
} last_shed __attribute__((tls_model("initial-exec")));

static void remember(const attempt *offer, weir_verdict why)
{
	last_shed.offer = *offer;
	last_shed.verdict = why;
	last_shed.worlds_freed = atomic_load(&weir_worlds_freed);
}

void weir_outsider_enter(weir_world *world, const weir_thread *self)
{
	if (self == NULL)
		atomic_fetch_add_explicit(&world->outsiders, 1, memory_order_seq_cst);
}

void weir_outsider_leave(weir_world *world, const weir_thread *self)
{
	if (self == NULL)
		atomic_fetch_sub_explicit(&world->outsiders, 1, memory_order_seq_cst);
}

/* ---- fit ---- */

static inline bool offerable(uint32_t tag)
{
	return tag == WEIR_EVENT_TAG(WEIR_EVENT_FREE) || tag == WEIR_EVENT_TAG(WEIR_EVENT_HANDLING) ||
	       tag == WEIR_EVENT_TAG(WEIR_EVENT_HELD);
}

static __attribute__((noinline, cold)) bool unfit(weir_stage *stage, weir_fault fault)
{
	weir_stage_fault(stage, fault, 1);
	remember(&(attempt){.stage = stage}, WEIR_SHED_MISUSE);
	return false;
}

static inline bool fit(weir_stage *stage, const weir_event *event)
{
	uint32_t tag = weir_event_tag(event);
	if (__builtin_expect(!offerable(tag), 0))
		return unfit(stage,
			     (uint16_t)tag == WEIR_EVENT_MAGIC ? WEIR_FAULT_NOT_FREE : WEIR_FAULT_NOT_INIT);
	if (__builtin_expect(event->klass >= WEIR_CLASSES, 0))
		return unfit(stage, WEIR_FAULT_BAD_CLASS);
	return true;
}

/* ---- open, wanted ---- */

static __attribute__((noinline, cold)) weir_verdict closed_verdict(weir_stage *stage, weir_phase phase,
								   bool inside)
{
	if (phase == WEIR_PHASE_NEW || phase == WEIR_PHASE_STOPPED)
		weir_stage_fault(stage, WEIR_FAULT_NOT_STARTED, 1);
	if (phase == WEIR_PHASE_NEW)
		return WEIR_SHED_CLOSED;
	if (phase == WEIR_PHASE_STOPPED || (phase == WEIR_PHASE_DRAINING && !inside))
		return WEIR_SHED_STOPPING;
	return atomic_load_explicit(&stage->closed, memory_order_acquire) ? WEIR_SHED_CLOSED : WEIR_ADMITTED;
}

/* inside: the offer continues work that the world has admitted, so a drain must let it through. */
static inline weir_verdict open_for(weir_stage *stage, bool inside)
{
	if (__builtin_expect(atomic_load_explicit(&stage->open, memory_order_seq_cst), 1))
		return WEIR_ADMITTED;
	return closed_verdict(stage, atomic_load_explicit(&stage->world->phase, memory_order_seq_cst),
			      inside);
}

static inline weir_verdict wanted(const weir_event *event, uint64_t now_ns)
{
	if (weir_event_is_cancelled(event))
		return WEIR_SHED_CANCELLED;
	if (event->deadline_ns != 0 && now_ns > event->deadline_ns)
		return WEIR_SHED_EXPIRED;
	return WEIR_ADMITTED;
}

/* ---- lane, law ---- */

static inline weir_lane *choose_lane(weir_stage *stage, const weir_thread *self, uint16_t home)
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

static inline weir_ask make_ask(const weir_event *event, uint64_t now_ns)
{
	return (weir_ask){.now_ns = now_ns,
			  .entered_ns = event->entered_ns,
			  .deadline_ns = event->deadline_ns,
			  .cost = event->cost,
			  .count = 1,
			  .klass = event->klass};
}

static inline weir_verdict ask_law(attempt *offer)
{
	weir_gate *gate = atomic_load_explicit(&offer->stage->gate, memory_order_acquire);
	if (gate == NULL)
		return WEIR_ADMITTED;
	offer->ask.waiting = atomic_load_explicit(&offer->lane->waiting, memory_order_relaxed);
	offer->ask.in_service = atomic_load_explicit(&offer->lane->in_service, memory_order_relaxed);
	offer->gate = gate;
	return gate->law->admit(gate->state, &offer->ask);
}

/* The law said yes, something else no. */
static void refund_law(attempt *offer)
{
	if (offer->gate != NULL && offer->gate->law->refund != NULL)
		offer->gate->law->refund(offer->gate->state, &offer->ask);
	offer->gate = NULL;
}

/* ---- count ---- */

static __attribute__((noinline)) weir_verdict count_shed(const attempt *offer, weir_verdict why)
{
	weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	unsigned klass = offer->ask.klass;
	weir_count_add(counts, &counts->offered[klass], offer->ask.count);
	weir_count_add(counts, &counts->shed[klass][why], offer->ask.count);
	weir_thread_worked(offer->self, offer->stage->world);
	remember(offer, why);
	return why;
}

/* Where an event comes from: the stage that owns it, or whose handler made it; 0: from outside. */
static inline unsigned origin(const weir_thread *self, const weir_event *event)
{
	if (event->lane != NULL)
		return event->lane->stage->index + 1u;
	const weir_stage *from = self != NULL && self->frame != NULL ? self->frame->stage : NULL;
	return from != NULL ? from->index + 1u : 0;
}

static void count_admitted(const attempt *offer, const weir_event *event, uint32_t count)
{
	weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	weir_count_add(counts, &counts->offered[event->klass], count);
	weir_count_add(counts, &counts->admitted[event->klass], count);
	weir_count_add(counts, &counts->from[origin(offer->self, event)], count);
}

static __attribute__((noinline)) void trace_put(weir_stage *stage, weir_event *event, weir_verdict verdict,
						uint8_t step, uint64_t now_ns)
{
	weir_trace *trace = &stage->world->trace;
	/* The first offer: entered_ns may be older than that. */
	if (event->trace == 0 && event->offered_ns == 0)
		weir_trace_choose(trace, event);
	if (event->trace == 0)
		return;
	weir_trace_put(trace, &(weir_trace_entry){.at_ns = now_ns,
						  .event = event->trace,
						  .stage = stage->index,
						  .klass = event->klass,
						  .step = verdict == WEIR_ADMITTED ? step : 's',
						  .verdict = verdict});
}

static inline void trace_offer(weir_stage *stage, weir_event *event, weir_verdict verdict, uint8_t step,
			       uint64_t now_ns)
{
	uint32_t every = atomic_load_explicit(&stage->world->trace.every, memory_order_relaxed);
	if (__builtin_expect((event->trace | every | (event->flags & WEIR_EVENT_TRACE)) != 0, 0))
		trace_put(stage, event, verdict, step, now_ns);
}

/* ---- adopt ---- */

static inline void adopt(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	if (event->state == WEIR_EVENT_HANDLING || event->state == WEIR_EVENT_HELD)
		weir_settle(self, event, true, now_ns);
	event->lane = lane;
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

/*
 * Run to completion: on the lane's own thread, when nothing waits before it, not too deep in other handlers, and while the thread's
 * turn lasts: other sockets and timers are waiting.
 */
static inline bool may_run_now(const weir_lane *lane, const weir_thread *self, uint64_t now_ns)
{
	if (self == NULL || lane->thread != self || !lane->may_inline || lane->running)
		return false;
	if (atomic_load_explicit(&lane->waiting, memory_order_relaxed) != 0)
		return false;
	if (lane->concurrency != 0 &&
	    atomic_load_explicit(&lane->in_service, memory_order_relaxed) >= lane->concurrency)
		return false;
	return self->depth_left != 0 && now_ns < weir_thread_turn_end(self);
}

/* ---- one ---- */

/* What must hold of one event before a place is looked for. */
static inline weir_verdict admit_one(attempt *offer, const weir_event *event)
{
	const weir_thread *self = offer->self;
	weir_verdict verdict =
		open_for(offer->stage, event->lane != NULL || (self != NULL && self->frame != NULL));
	if (verdict == WEIR_ADMITTED)
		verdict = wanted(event, offer->ask.now_ns);
	if (verdict == WEIR_ADMITTED && !(event->flags & WEIR_EVENT_EXEMPT))
		verdict = ask_law(offer);
	return verdict;
}

static bool is_full(weir_verdict verdict)
{
	return verdict == WEIR_SHED_FULL || verdict == WEIR_SHED_COST;
}

/* Admitted by this offer's law, it is run at once, unless the law has second thoughts. */
static inline void run_now(attempt *offer, weir_event *event)
{
	weir_thread *self = offer->self;
	weir_lane *lane = offer->lane;
	weir_gate *gate = offer->gate;
	uint64_t now_ns = offer->ask.now_ns;
	weir_counts *counts = weir_stage_counts(offer->stage, self);
	trace_offer(offer->stage, event, WEIR_ADMITTED, 'o', now_ns);
	weir_count_add(counts, &counts->inlined[event->klass], 1);
	weir_count_add(counts, &counts->from[origin(self, event)], 1);
	adopt(self, lane, event, now_ns);
	weir_verdict verdict = gate != NULL && gate->law->start != NULL
				       ? gate->law->start(gate->state, event, now_ns)
				       : WEIR_ADMITTED;
	if (__builtin_expect(verdict == WEIR_ADMITTED, 1))
		weir_dispatch_inline(self, lane, event, now_ns);
	else
		weir_dispatch_drop(lane, self, event, verdict, now_ns);
}

/* silent_full: a full queue is not an answer yet (the caller waits and tries again), so it is not counted. */
static weir_verdict queue_or_shed(attempt *offer, weir_event *event, weir_verdict verdict, bool silent_full)
{
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer->lane, 1, event->cost);
		if (verdict != WEIR_ADMITTED)
			refund_law(offer);
	}
	if (silent_full && is_full(verdict))
		return verdict;
	uint64_t now_ns = offer->ask.now_ns;
	trace_offer(offer->stage, event, verdict, 'q', now_ns);
	if (verdict != WEIR_ADMITTED)
		return count_shed(offer, verdict);
	count_admitted(offer, event, 1);
	adopt(offer->self, offer->lane, event, now_ns);
	weir_lane_push(offer->lane, offer->self, &event, 1);
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

static attempt attempt_one(weir_stage *stage, const weir_event *event, weir_thread *self)
{
	attempt offer = {.stage = stage, .self = self, .lane = choose_lane(stage, self, event->home)};
	offer.ask = make_ask(event, weir_thread_now(self, stage->world));
	return offer;
}

static __attribute__((noinline)) weir_verdict offer_one(weir_stage *stage, weir_event *event,
							weir_thread *self, bool silent_full)
{
	if (!fit(stage, event))
		return WEIR_SHED_MISUSE;
	attempt offer = attempt_one(stage, event, self);
	weir_verdict verdict = admit_one(&offer, event);
	if (verdict != WEIR_ADMITTED || !may_run_now(offer.lane, self, offer.ask.now_ns))
		return queue_or_shed(&offer, event, verdict, silent_full);
	run_now(&offer, event);
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

static __attribute__((noinline)) weir_verdict offer_from_outside(weir_stage *stage, weir_event *event)
{
	weir_outsider_enter(stage->world, NULL);
	weir_verdict verdict = offer_one(stage, event, NULL, false);
	weir_outsider_leave(stage->world, NULL);
	return verdict;
}

/*
 * The short way. Most offers are of a fresh event without deadline, flags or trace, to a lane of this thread that is open and where
 * nothing waits. A few words tell. Such an event takes the same steps as in offer_one, without those that cannot
 * matter to it; whatever comes out otherwise goes the long way from where it is.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* magic, state FREE, not cancelled, a class that exists, no flags; home may be anything. */
#define PLAIN_MASK UINT64_C(0x0000fff8ffffffff)
#define PLAIN_WORD WEIR_EVENT_TAG(WEIR_EVENT_FREE)
_Static_assert(WEIR_CLASSES == 8 && offsetof(weir_event, state) - offsetof(weir_event, word) == 2 &&
		       offsetof(weir_event, cancelled) - offsetof(weir_event, word) == 3 &&
		       offsetof(weir_event, klass) - offsetof(weir_event, word) == 4 &&
		       offsetof(weir_event, flags) - offsetof(weir_event, word) == 5,
	       "PLAIN_MASK follows the layout of weir_event");

static inline bool is_plain(const weir_event *event)
{
	uint64_t word = __atomic_load_n(&event->word, __ATOMIC_RELAXED);
	return (word & PLAIN_MASK) == PLAIN_WORD && (event->deadline_ns | event->trace) == 0;
}
#else
static inline bool is_plain(const weir_event *event)
{
	return false;
}
#endif

static inline bool lane_is_plain(const weir_lane *lane, const weir_thread *self)
{
	return lane->thread == self && self->depth_left != 0 &&
	       atomic_load_explicit(&lane->plain, memory_order_seq_cst) &&
	       atomic_load_explicit(&lane->waiting, memory_order_relaxed) == 0;
}

/* Admitted by no law, or by one that also lets it start. */
static inline weir_verdict run_plain(weir_stage *stage, weir_lane *lane, weir_thread *self, weir_event *event,
				     uint64_t now_ns)
{
	weir_counts *counts = weir_stage_counts(stage, self);
	unsigned from = self->frame != NULL ? self->frame->stage->index + 1u : 0;
	weir_hist_bump(&counts->inlined[event->klass], 1);
	weir_hist_bump(&counts->from[from], 1);
	event->lane = lane;
	event->offered_ns = now_ns;
	if (event->entered_ns == 0)
		event->entered_ns = now_ns;
	if (event->home == WEIR_ANYWHERE)
		event->home = self->index;
	weir_dispatch_plain(self, lane, event, now_ns);
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

/* Its law would also decide about the start, or said no, or the turn is over. */
static __attribute__((noinline)) weir_verdict offer_less_plain(weir_lane *lane, weir_gate *gate,
							       const weir_ask *ask, weir_event *event,
							       weir_verdict verdict)
{
	weir_thread *self = weir_thread_here;
	attempt offer = {.stage = lane->stage, .self = self, .lane = lane, .gate = gate, .ask = *ask};
	if (verdict != WEIR_ADMITTED || ask->now_ns >= weir_thread_turn_end(self))
		return queue_or_shed(&offer, event, verdict, false);
	run_now(&offer, event);
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

weir_verdict weir_offer(weir_stage *stage, weir_event *event)
{
	weir_thread *self = weir_thread_in(stage->world);
	if (__builtin_expect(self == NULL, 0))
		return offer_from_outside(stage, event);
	weir_lane *lane = choose_lane(stage, self, event->home);
	if (!is_plain(event) || !lane_is_plain(lane, self))
		return offer_one(stage, event, self, false);
	uint64_t now_ns = weir_thread_now(self, stage->world);
	bool over = now_ns >= weir_thread_turn_end(self);
	weir_gate *gate = atomic_load_explicit(&stage->gate, memory_order_acquire);
	if (gate != NULL) {
		weir_ask ask = make_ask(event, now_ns);
		ask.in_service = atomic_load_explicit(&lane->in_service, memory_order_relaxed);
		weir_verdict verdict = gate->law->admit(gate->state, &ask);
		if (__builtin_expect(verdict != WEIR_ADMITTED || over || gate->law->start != NULL, 0))
			return offer_less_plain(lane, gate, &ask, event, verdict);
	} else if (__builtin_expect(over, 0)) {
		return offer_one(stage, event, self, false);
	}
	return run_plain(stage, lane, self, event, now_ns);
}

/* ---- one that its offerer works on ---- */

weir_verdict weir_offer_held(weir_stage *stage, weir_event *event)
{
	weir_thread *self = weir_thread_in(stage->world);
	if (!fit(stage, event))
		return WEIR_SHED_MISUSE;
	weir_outsider_enter(stage->world, self);
	attempt offer = attempt_one(stage, event, self);
	weir_verdict verdict = admit_one(&offer, event);
	trace_offer(stage, event, verdict, 'o', offer.ask.now_ns);
	if (verdict == WEIR_ADMITTED) {
		count_admitted(&offer, event, 1);
		adopt(self, offer.lane, event, offer.ask.now_ns);
		/* Told, not asked: the work begins now, whoever has just let it in. */
		if (offer.gate != NULL && offer.gate->law->start != NULL)
			offer.gate->law->start(offer.gate->state, event, offer.ask.now_ns);
		weir_dispatch_held(self, offer.lane, event, offer.ask.now_ns);
		last_shed.verdict = WEIR_ADMITTED;
	} else {
		count_shed(&offer, verdict);
	}
	weir_outsider_leave(stage->world, self);
	return verdict;
}

weir_verdict weir_offer_refused(weir_stage *stage, const weir_event *event, weir_verdict why)
{
	weir_thread *self = weir_thread_in(stage->world);
	attempt offer = attempt_one(stage, event, self);
	return count_shed(&offer, why);
}

/* ---- many ---- */

/* Events of one offer that go to one lane take their places together. */
typedef struct share {
	uint32_t count;
	uint64_t cost;
} share;

static void unchoose(weir_event **events, const uint8_t *states, size_t count)
{
	for (size_t i = 0; i < count; i++)
		events[i]->state = states[i];
}

/* Checks the events and marks each as CHOSEN, keeping its state; marking finds one that is there twice. */
static bool choose_all(weir_stage *stage, weir_event **events, size_t count, uint8_t *ret_states)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t tag = weir_event_tag(events[i]);
		bool twice = tag == WEIR_EVENT_TAG(WEIR_EVENT_CHOSEN);
		bool mixed = offerable(tag) && events[i]->klass != events[0]->klass;
		if (twice || mixed || !fit(stage, events[i])) {
			if (twice || mixed)
				unfit(stage, WEIR_FAULT_BAD_OFFER);
			unchoose(events, ret_states, i);
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

/* Admission of all: the state of each counts, the law is asked once. */
static weir_verdict admit_many(attempt *offer, weir_event **events, size_t count, const share *shares)
{
	const weir_thread *self = offer->self;
	bool inside = self != NULL && self->frame != NULL, exempt = true;
	weir_verdict verdict = WEIR_ADMITTED;
	for (size_t i = 0; i < count && verdict == WEIR_ADMITTED; i++) {
		verdict = open_for(offer->stage, inside || events[i]->lane != NULL);
		if (verdict == WEIR_ADMITTED)
			verdict = wanted(events[i], offer->ask.now_ns);
		exempt = exempt && events[i]->flags & WEIR_EVENT_EXEMPT;
	}
	if (verdict == WEIR_ADMITTED && !exempt)
		verdict = ask_law(offer);
	if (verdict != WEIR_ADMITTED)
		return verdict;
	verdict = take_shares(offer->stage, shares);
	if (verdict != WEIR_ADMITTED)
		refund_law(offer);
	return verdict;
}

/* Hands over events whose places are taken, run by run of equal lanes. */
static void hand_over(weir_stage *stage, weir_thread *self, weir_event **events, weir_lane **lanes,
		      size_t count, uint64_t now_ns)
{
	size_t from = 0;
	for (size_t i = 0; i < count; i++) {
		trace_offer(stage, events[i], WEIR_ADMITTED, 'q', now_ns);
		adopt(self, lanes[i], events[i], now_ns);
		if (i + 1 < count && lanes[i + 1] == lanes[from])
			continue;
		weir_lane_push(lanes[from], self, &events[from], i + 1 - from);
		from = i + 1;
	}
}

static weir_verdict offer_chunk(attempt *offer, weir_event **events, size_t count, const uint8_t *states)
{
	weir_stage *stage = offer->stage;
	weir_lane *lanes[WEIR_BATCH_MAX];
	share shares[WEIR_THREADS_MAX];
	memset(shares, 0, stage->lane_count * sizeof(shares[0]));
	for (size_t i = 0; i < count; i++) {
		/* One turn of the wheel for all that have no home, so that they stay together. */
		bool anywhere = events[i]->home == WEIR_ANYWHERE;
		lanes[i] = anywhere ? offer->lane : choose_lane(stage, offer->self, events[i]->home);
		shares[lanes[i]->index].count++;
		shares[lanes[i]->index].cost += events[i]->cost;
		offer->ask.cost += events[i]->cost;
	}
	weir_verdict verdict = admit_many(offer, events, count, shares);
	unchoose(events, states, count);
	if (verdict != WEIR_ADMITTED)
		return count_shed(offer, verdict);
	for (size_t i = 0; i < count; i++)
		count_admitted(offer, events[i], 1);
	hand_over(stage, offer->self, events, lanes, count, offer->ask.now_ns);
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

/*
 * The short way of many: fresh plain events of one class that all go to one lane. As above, marking finds one that is there twice, and here
 * every state to be restored is FREE.
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
		if (!is_plain(event) || event->klass != events[0]->klass ||
		    (event->home != WEIR_ANYWHERE && choose_lane(stage, self, event->home) != lane))
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

static weir_verdict hand_over_plain(attempt *offer, weir_event **events, size_t count)
{
	weir_verdict verdict = open_for(offer->stage, offer->self != NULL && offer->self->frame != NULL);
	if (verdict == WEIR_ADMITTED)
		verdict = ask_law(offer);
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer->lane, (uint32_t)count, offer->ask.cost);
		if (verdict != WEIR_ADMITTED)
			refund_law(offer);
	}
	for (size_t i = 0; i < count; i++)
		events[i]->state = WEIR_EVENT_FREE;
	if (verdict != WEIR_ADMITTED)
		return count_shed(offer, verdict);
	count_admitted(offer, events[0], (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		adopt(offer->self, offer->lane, events[i], offer->ask.now_ns);
	weir_lane_push(offer->lane, offer->self, events, count);
	if (offer->self != NULL)
		weir_thread_flush_wakes(offer->self); /* a batch is worth a wake-up of its own */
	last_shed.verdict = WEIR_ADMITTED;
	return WEIR_ADMITTED;
}

weir_verdict weir_offer_many(weir_stage *stage, weir_event **events, size_t count)
{
	uint8_t states[WEIR_BATCH_MAX];
	uint64_t cost;
	if (count == 0 || count > WEIR_BATCH_MAX) {
		unfit(stage, WEIR_FAULT_BAD_OFFER);
		return WEIR_SHED_MISUSE;
	}
	weir_thread *self = weir_thread_in(stage->world);
	weir_lane *lane = choose_lane(stage, self, WEIR_ANYWHERE);
	bool untraced = atomic_load_explicit(&stage->world->trace.every, memory_order_relaxed) == 0;
	bool plain = untraced && choose_plain(stage, self, lane, events, count, &cost);
	if (!plain && !choose_all(stage, events, count, states))
		return WEIR_SHED_MISUSE;
	weir_outsider_enter(stage->world, self);
	attempt offer = {.stage = stage,
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
	weir_outsider_leave(stage->world, self);
	return verdict;
}

/* ---- waiting ---- */

/*
 * Domains whose threads wait for each other in a circle may never get on. Each domain keeps the set of domains it has
 * ever waited for; a wait that would close a circle in that graph is refused. Only elastic threads can be part of one.
 */
static bool closes_circle_locked(weir_world *world, weir_domain *waiter, weir_domain *target)
{
	uint64_t reached = UINT64_C(1) << target->index, before;
	do {
		before = reached;
		for (uint64_t left = reached; left != 0; left &= left - 1)
			reached |= atomic_load(&world->domains[__builtin_ctzll(left)]->waits_for);
	} while (reached != before);
	if (reached >> waiter->index & 1)
		return true;
	atomic_fetch_or(&waiter->waits_for, UINT64_C(1) << target->index);
	return false;
}

/* One at a time: two that look and then both set out would miss each other. */
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

static weir_verdict give_up(weir_stage *stage, weir_thread *self, const weir_event *event, weir_verdict why)
{
	attempt offer = {.stage = stage, .self = self, .ask = {.count = 1, .klass = event->klass}};
	return count_shed(&offer, why);
}

static weir_verdict offer_waiting(weir_stage *stage, weir_event *event, weir_thread *self,
				  uint64_t timeout_ns)
{
	uint64_t now_ns = weir_clock_ns();
	uint64_t until_ns = timeout_ns < UINT64_MAX / 2 - now_ns ? now_ns + timeout_ns : UINT64_MAX / 2;
	bool first = true;
	for (;;) {
		uint64_t turn = wait_turn(stage);
		weir_verdict verdict = offer_one(stage, event, self, true);
		if (!is_full(verdict))
			return verdict;
		if (first && self != NULL && closes_circle(stage->world, self->domain, stage->domain)) {
			weir_stage_fault(stage, WEIR_FAULT_WAIT_CYCLE, 1);
			return give_up(stage, self, event, WEIR_SHED_DEADLOCK);
		}
		first = false;
		if (!wait_for_space(stage, turn, until_ns))
			return give_up(stage, self, event, WEIR_SHED_TIMEOUT);
	}
}

weir_verdict weir_offer_wait(weir_stage *stage, weir_event *event, uint64_t timeout_ns)
{
	weir_thread *self = weir_thread_in(stage->world);
	if (stage->world->sim != NULL || (weir_thread_here != NULL && weir_thread_here->loop != NULL)) {
		unfit(stage, WEIR_FAULT_BAD_WAIT);
		return WEIR_SHED_MISUSE;
	}
	weir_outsider_enter(stage->world, self);
	atomic_fetch_add_explicit(&stage->waiters, 1, memory_order_seq_cst);
	weir_verdict verdict = offer_waiting(stage, event, self, timeout_ns);
	atomic_fetch_sub_explicit(&stage->waiters, 1, memory_order_seq_cst);
	weir_outsider_leave(stage->world, self);
	return verdict;
}

/* ---- reserve, commit, cancel ---- */

weir_verdict weir_reserve(weir_stage *stage, unsigned klass, size_t count, uint64_t cost, uint16_t home,
			  weir_ticket *ret_ticket)
{
	if (klass >= WEIR_CLASSES || count == 0 || count > WEIR_BATCH_MAX) {
		unfit(stage, klass >= WEIR_CLASSES ? WEIR_FAULT_BAD_CLASS : WEIR_FAULT_BAD_OFFER);
		return WEIR_SHED_MISUSE;
	}
	weir_thread *self = weir_thread_in(stage->world);
	weir_outsider_enter(stage->world, self);
	attempt offer = {.stage = stage,
			 .self = self,
			 .lane = choose_lane(stage, self, home),
			 .ask = {.now_ns = weir_thread_now(self, stage->world),
				 .cost = cost,
				 .count = (uint32_t)count,
				 .klass = (uint8_t)klass}};
	weir_verdict verdict = open_for(stage, self != NULL && self->frame != NULL);
	if (verdict == WEIR_ADMITTED)
		verdict = ask_law(&offer);
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer.lane, (uint32_t)count, cost);
		if (verdict != WEIR_ADMITTED)
			refund_law(&offer);
	}
	if (verdict == WEIR_ADMITTED) {
		atomic_fetch_add(&stage->world->tickets, 1);
		*ret_ticket = (weir_ticket){.stage = stage,
					    .gate = offer.gate,
					    .cost = cost,
					    .now_ns = offer.ask.now_ns,
					    .count = (uint32_t)count,
					    .home = offer.lane->index,
					    .klass = (uint8_t)klass};
		last_shed.verdict = WEIR_ADMITTED;
	} else {
		count_shed(&offer, verdict);
	}
	weir_outsider_leave(stage->world, self);
	return verdict;
}

static bool ticket_fits(const weir_ticket *ticket, weir_event **events, size_t count)
{
	uint64_t cost = 0;
	if (count != ticket->count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!fit(ticket->stage, events[i]) || events[i]->klass != ticket->klass)
			return false;
		cost += events[i]->cost;
	}
	return cost == ticket->cost;
}

static int commit_places(const weir_ticket *ticket, weir_thread *self, weir_event **events, size_t count)
{
	weir_stage *stage = ticket->stage;
	uint8_t states[WEIR_BATCH_MAX];
	weir_lane *lanes[WEIR_BATCH_MAX];
	if (!ticket_fits(ticket, events, count) || !choose_all(stage, events, count, states)) {
		weir_stage_fault(stage, WEIR_FAULT_BAD_TICKET, 1);
		return weir_error_set(
			-EINVAL,
			"stage '%s': a commit must bring exactly the %u events of class %u and cost "
			"%llu that were reserved",
			stage->name, ticket->count, ticket->klass, (unsigned long long)ticket->cost);
	}
	unchoose(events, states, count);
	if (atomic_load_explicit(&stage->world->phase, memory_order_seq_cst) == WEIR_PHASE_STOPPED) {
		weir_stage_fault(stage, WEIR_FAULT_NOT_STARTED, 1);
		return weir_error_set(-ESHUTDOWN, "stage '%s': the world stopped before the commit",
				      stage->name);
	}
	attempt offer = {.stage = stage, .self = self};
	for (size_t i = 0; i < count; i++) {
		lanes[i] = &stage->lanes[ticket->home];
		count_admitted(&offer, events[i], 1);
	}
	hand_over(stage, self, events, lanes, count, weir_thread_now(self, stage->world));
	return 0;
}

int weir_commit(weir_ticket *ticket, weir_event **events, size_t count)
{
	weir_stage *stage = ticket->stage;
	if (stage == NULL)
		return weir_error_set(-EINVAL,
				      "commit: the ticket holds no place (never reserved, or already used)");
	weir_thread *self = weir_thread_in(stage->world);
	weir_outsider_enter(stage->world, self);
	int failed = commit_places(ticket, self, events, count);
	if (failed == 0) {
		ticket->stage = NULL;
		atomic_fetch_sub(&stage->world->tickets, 1);
	}
	weir_outsider_leave(stage->world, self);
	return failed;
}

void weir_cancel(weir_ticket *ticket)
{
	weir_stage *stage = ticket->stage;
	if (stage == NULL)
		return;
	weir_thread *self = weir_thread_in(stage->world);
	weir_outsider_enter(stage->world, self);
	attempt offer = {.stage = stage,
			 .gate = ticket->gate,
			 .ask = {.now_ns = ticket->now_ns,
				 .cost = ticket->cost,
				 .count = ticket->count,
				 .klass = ticket->klass}};
	refund_law(&offer);
	weir_lane_give_back(&stage->lanes[ticket->home], ticket->count, ticket->cost);
	ticket->stage = NULL;
	atomic_fetch_sub(&stage->world->tickets, 1);
	weir_outsider_leave(stage->world, self);
}

/* ---- why ---- */

bool weir_why_shed(weir_why *ret_why)
{
	const attempt *offer = &last_shed.offer;
	if (last_shed.verdict == WEIR_ADMITTED || last_shed.worlds_freed != atomic_load(&weir_worlds_freed))
		return false;
	*ret_why = (weir_why){
		.stage = offer->stage->name, .verdict = last_shed.verdict, .klass = offer->ask.klass};
	if (offer->gate == NULL)
		return true;
	ret_why->law = offer->gate->law->name;
	if (offer->gate->law->explain != NULL)
		offer->gate->law->explain(offer->gate->state, &offer->ask, ret_why);
	return true;
}
