/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of one event: the long way, and the short way that most of them take. offer.h lists the steps. */
#include "stage/offer.h"

__attribute__((noinline, cold)) bool weir_offer_unfit(weir_stage *stage, weir_fault fault)
{
	weir_stage_fault(stage, fault, 1);
	weir_offer_remember(&(weir_attempt){.stage = stage}, WEIR_SHED_MISUSE);
	return false;
}

__attribute__((noinline, cold)) weir_verdict weir_offer_closed(weir_stage *stage, weir_phase phase,
							       bool inside)
{
	/* The world may stop while the controller offers periodic work, which is nobody's fault. */
	if ((phase == WEIR_PHASE_NEW || phase == WEIR_PHASE_STOPPED) && stage->chore == NULL)
		weir_stage_fault(stage, WEIR_FAULT_NOT_STARTED, 1);
	if (phase == WEIR_PHASE_NEW)
		return WEIR_SHED_CLOSED;
	if (phase == WEIR_PHASE_STOPPED || (phase == WEIR_PHASE_DRAINING && !inside))
		return WEIR_SHED_STOPPING;
	if (atomic_load_explicit(&stage->retiring, memory_order_seq_cst))
		return WEIR_SHED_STOPPING;
	if (atomic_load_explicit(&stage->closed, memory_order_acquire))
		return WEIR_SHED_CLOSED;
	if (atomic_load_explicit(&stage->resting, memory_order_relaxed))
		weir_rest_interrupt(stage);
	return WEIR_ADMITTED;
}

__attribute__((noinline)) weir_verdict weir_offer_shed(const weir_attempt *offer, weir_event *const *events,
						       weir_verdict why)
{
	weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	unsigned klass = offer->ask.klass;
	weir_count_add(counts, &counts->offered[klass], offer->ask.count);
	weir_count_add(counts, &counts->shed[klass][why], offer->ask.count);
	for (uint32_t i = 0; events != NULL && i < offer->ask.count; i++)
		weir_pressure_below(offer->stage, events[i], why, offer->ask.now_ns);
	weir_thread_worked(offer->self, offer->stage->world);
	weir_offer_remember(offer, why);
	return why;
}

__attribute__((noinline)) void weir_offer_trace_put(weir_stage *stage, weir_event *event,
						    weir_verdict verdict, uint8_t step, uint64_t now_ns)
{
	weir_trace *trace = &stage->world->trace;
	/* Only the first offer chooses. entered_ns may be older than that. */
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

/*
 * Run to completion: on the lane's own thread, if nothing waits before the event, the nesting of handlers is
 * not too deep, and the thread's turn is not over. Other sockets and timers wait for the end of the turn.
 */
static inline bool may_run_now(weir_lane *lane, const weir_thread *self, unsigned klass, uint64_t now_ns)
{
	if (self == NULL || lane->thread != self || !lane->may_inline || lane->running)
		return false;
	if (atomic_load_explicit(&lane->waiting, memory_order_relaxed) != 0 &&
	    !weir_lane_is_first(lane, klass))
		return false;
	if (weir_lane_room(lane) == 0 || !weir_lane_is_open(lane, klass))
		return false;
	return self->depth_left != 0 && now_ns < weir_thread_turn_end(self) && weir_bound_take(lane, 1) != 0;
}

/* ---- one ---- */

/* The steps before a place is taken. */
static inline weir_verdict admit_one(weir_attempt *offer, const weir_event *event)
{
	const weir_thread *self = offer->self;
	weir_verdict verdict =
		weir_offer_open(offer->stage, event->lane != NULL || (self != NULL && self->frame != NULL));
	if (verdict == WEIR_ADMITTED)
		verdict = weir_offer_wanted(event, offer->ask.now_ns);
	if (verdict == WEIR_ADMITTED && !(event->flags & WEIR_EVENT_EXEMPT))
		verdict = weir_offer_ask_law(offer);
	return verdict;
}

/* Asks the law that has just admitted the event about its start. */
static weir_verdict ask_start(const weir_attempt *offer, weir_event *event)
{
	weir_turn turn = {.now_ns = offer->ask.now_ns,
			  .in_service = atomic_load_explicit(&offer->lane->in_service, memory_order_relaxed),
			  .note = event->note};
	return weir_gate_start(offer->gate, offer->lane, event, &turn);
}

/* The stage owns the event now; it has not waited. */
static void enter_at_once(weir_attempt *offer, weir_event *event)
{
	weir_counts *counts = weir_stage_counts(offer->stage, offer->self);
	weir_offer_trace(offer->stage, event, WEIR_ADMITTED, 'o', offer->ask.now_ns);
	weir_count_add(counts, &counts->inlined[event->klass], 1);
	weir_count_add(counts, weir_edges_at(&counts->from, weir_offer_origin(offer->self, event)), 1);
	weir_offer_adopt(offer->self, offer->lane, event, offer->gate, offer->ask.now_ns);
}

/* A drop function may offer the event again. That nests as deep as a handler's offer. */
static __attribute__((noinline)) void drop_at_once(weir_lane *lane, weir_thread *self, weir_event *event,
						   weir_verdict why, uint64_t now_ns)
{
	self->depth_left--;
	weir_dispatch_drop(lane, self, event, why, now_ns);
	self->depth_left++;
}

/* Runs an admitted event at once, unless the law refuses its start. */
static inline void run_now(weir_attempt *offer, weir_event *event)
{
	weir_gate *gate = offer->gate;
	enter_at_once(offer, event);
	weir_verdict verdict =
		gate != NULL && gate->law->start != NULL ? ask_start(offer, event) : WEIR_ADMITTED;
	if (__builtin_expect(verdict == WEIR_ADMITTED, 1))
		weir_dispatch_inline(offer->self, offer->lane, event, offer->ask.now_ns);
	else {
		weir_bound_give(offer->lane, 1, offer->self);
		drop_at_once(offer->lane, offer->self, event, verdict, offer->ask.now_ns);
	}
}

static weir_verdict queue_or_shed(weir_attempt *offer, weir_event *event, weir_verdict verdict,
				  bool silent_full)
{
	if (verdict == WEIR_ADMITTED) {
		verdict = weir_lane_take(offer->lane, 1, event->cost);
		if (verdict != WEIR_ADMITTED)
			weir_offer_refund(offer);
	}
	if (silent_full && weir_offer_full(verdict))
		return verdict;
	uint64_t now_ns = offer->ask.now_ns;
	weir_offer_trace(offer->stage, event, verdict, 'q', now_ns);
	if (verdict != WEIR_ADMITTED)
		return weir_offer_shed(offer, &event, verdict);
	weir_offer_count(offer, event, 1);
	weir_offer_adopt(offer->self, offer->lane, event, offer->gate, now_ns);
	weir_lane_push(offer->lane, offer->self, &event, 1);
	return weir_offer_admitted();
}

/*
 * Field by field: a struct that is returned or assigned is built on the stack, then copied in wider pieces
 * than it was written in. The processor stalls on that each time: a third of the offer's time.
 */
static inline void attempt_one(weir_attempt *offer, weir_stage *stage, const weir_event *event,
			       weir_thread *self)
{
	offer->stage = stage;
	offer->self = self;
	offer->lane = weir_offer_lane(stage, self, event->home);
	offer->gate = NULL;
	offer->spared = false;
	offer->ask.now_ns = weir_thread_now(self, stage->world);
	offer->ask.entered_ns = event->entered_ns;
	offer->ask.deadline_ns = event->deadline_ns;
	offer->ask.cost = event->cost;
	offer->ask.count = 1;
	offer->ask.waiting = offer->ask.in_service = 0;
	offer->ask.klass = event->klass;
	offer->ask.shared = offer->ask.beside = false;
}

__attribute__((noinline)) weir_verdict weir_offer_one(weir_stage *stage, weir_event *event, weir_thread *self,
						      bool silent_full)
{
	if (!weir_offer_fit(stage, event))
		return WEIR_SHED_MISUSE;
	weir_attempt offer;
	attempt_one(&offer, stage, event, self);
	weir_verdict verdict = admit_one(&offer, event);
	if (verdict != WEIR_ADMITTED || !may_run_now(offer.lane, self, event->klass, offer.ask.now_ns))
		return queue_or_shed(&offer, event, verdict, silent_full);
	run_now(&offer, event);
	return weir_offer_admitted();
}

static __attribute__((noinline)) weir_verdict offer_from_outside(weir_stage *stage, weir_event *event)
{
	weir_world *world = stage->world;
	unsigned side = weir_outsider_enter(world, NULL);
	weir_verdict verdict = weir_offer_one(stage, event, NULL, false);
	weir_outsider_leave(world, NULL, side);
	return verdict;
}

/*
 * The short way. Most offers are of a fresh event without deadline, flags or trace, to an open lane of this
 * thread. A few words in memory tell. Such an event takes the same steps as in weir_offer_one, without those
 * that cannot matter to it. Any other outcome continues on the long way.
 */
static inline bool lane_is_plain(const weir_lane *lane, const weir_thread *self)
{
	return lane->thread == self && self->depth_left != 0 &&
	       atomic_load_explicit(&lane->plain, memory_order_seq_cst);
}

/* Whether it has to wait after all: the turn is over, or the limit on events in service is reached. */
static inline bool must_queue(const weir_lane *lane, const weir_thread *self, uint64_t now_ns)
{
	return now_ns >= weir_thread_turn_end(self) ||
	       (atomic_load_explicit(&lane->slow_leave, memory_order_relaxed) && weir_lane_room(lane) == 0);
}

/* Whether others go first, or the law visits the event's class later. */
static inline bool must_wait(const weir_lane *lane, const weir_gate *gate, unsigned klass, uint32_t waiting)
{
	if (gate->law->open == NULL)
		return waiting != 0;
	return (waiting != 0 && !weir_lane_is_first(lane, klass)) || !weir_lane_is_open(lane, klass);
}

/*
 * The time of an offer on the short way. A reactor thread without a clock is a virtual one. There every
 * handler call is counted, and counting it here costs real worlds nothing: they look whether there is a clock
 * anyway.
 */
static inline uint64_t plain_now(weir_thread *self)
{
	return self->clock != NULL ? weir_clock_now(self->clock) : weir_sim_count_offer(self->world->sim);
}

static inline void set_times(weir_event *event, uint64_t now_ns)
{
	event->offered_ns = now_ns;
	if (event->entered_ns == 0)
		event->entered_ns = now_ns;
}

/* Counts an admitted event; the stage owns it now. As enter_at_once. */
static inline void enter_plain(weir_stage *stage, weir_lane *lane, weir_thread *self, weir_event *event,
			       uint32_t gate, uint64_t now_ns)
{
	weir_counts *counts = weir_stage_counts(stage, self);
	unsigned from = self->frame != NULL ? self->frame->origin : 0;
	weir_hist_bump(&counts->inlined[event->klass], 1);
	weir_hist_bump(weir_edges_at(&counts->from, from), 1);
	event->lane = lane;
	event->gate = gate;
	weir_offer_enter(event, stage);
	set_times(event, now_ns);
	if (event->home == WEIR_ANYWHERE)
		event->home = self->index;
}

/* Admitted by no law, or by one that does not decide about the start. */
static inline weir_verdict run_plain(weir_stage *stage, weir_lane *lane, weir_thread *self, weir_event *event,
				     uint32_t gate, uint64_t now_ns)
{
	enter_plain(stage, lane, self, event, gate, now_ns);
	weir_dispatch_plain(self, lane, event, now_ns);
	return weir_offer_admitted();
}

/* Its law refused it. As weir_offer_shed, for one event on the lane's own thread. */
static inline weir_verdict shed_plain(weir_lane *lane, weir_thread *self, weir_gate *gate, weir_event *event,
				      weir_verdict why)
{
	weir_stage *stage = lane->stage;
	weir_counts *counts = weir_stage_counts(stage, self);
	weir_hist_bump(&counts->offered[event->klass], 1);
	weir_hist_bump(&counts->shed[event->klass][why], 1);
	self->worked = true;
	weir_last_shed *last = &weir_offer_last;
	last->offer.stage = stage;
	last->offer.self = self;
	last->offer.lane = lane;
	last->offer.gate = gate;
	last->offer.spared = false;
	last->verdict = why;
	if (event->entry != 0)
		weir_pressure_below(stage, event, why, last->offer.ask.now_ns);
	return why;
}

static __attribute__((noinline)) weir_verdict queue_plain(weir_lane *lane, weir_thread *self, weir_gate *gate,
							  weir_event *event)
{
	weir_attempt offer = {.stage = lane->stage,
			      .self = self,
			      .lane = lane,
			      .gate = gate,
			      .ask = weir_offer_last.offer.ask};
	return queue_or_shed(&offer, event, WEIR_ADMITTED, false);
}

/* Asks the law. The question overwrites what weir_why_shed knows of an earlier shed. */
static inline weir_verdict ask_plain(const weir_lane *lane, weir_gate *gate, const weir_event *event,
				     uint32_t waiting, uint64_t now_ns)
{
	weir_ask *ask = &weir_offer_last.offer.ask;
	weir_offer_last.verdict = WEIR_ADMITTED;
	ask->now_ns = now_ns;
	ask->entered_ns = event->entered_ns;
	ask->deadline_ns = 0;
	ask->cost = event->cost;
	ask->count = 1;
	ask->waiting = waiting;
	ask->in_service = atomic_load_explicit(&lane->in_service, memory_order_relaxed);
	ask->klass = event->klass;
	ask->shared = ask->beside = false;
	return gate->law->admit(weir_gate_state(gate, lane), ask);
}

/* Admitted by a law that also decides about the start. */
static inline weir_verdict run_started(weir_lane *lane, weir_thread *self, weir_gate *gate, weir_event *event,
				       uint64_t now_ns)
{
	weir_turn turn = {
		.now_ns = now_ns, .in_service = weir_offer_last.offer.ask.in_service, .note = event->note};
	enter_plain(lane->stage, lane, self, event, gate->number, now_ns);
	weir_verdict verdict = gate->law->start(weir_gate_state(gate, lane), event, &turn);
	if (__builtin_expect(verdict == WEIR_ADMITTED, 1))
		weir_dispatch_plain(self, lane, event, now_ns);
	else
		drop_at_once(lane, self, event, verdict, now_ns);
	return weir_offer_admitted();
}

/* Runs or queues what its law has admitted. */
static inline weir_verdict take_plain(weir_lane *lane, weir_thread *self, weir_gate *gate, weir_event *event,
				      uint32_t waiting)
{
	uint64_t now_ns = weir_offer_last.offer.ask.now_ns;
	if (must_wait(lane, gate, event->klass, waiting) || must_queue(lane, self, now_ns))
		return queue_plain(lane, self, gate, event);
	if (gate->law->start != NULL)
		return run_started(lane, self, gate, event, now_ns);
	return run_plain(lane->stage, lane, self, event, gate->number, now_ns);
}

/* Asks the law before the cost is known. */
static inline weir_verdict offer_unpriced(weir_lane *lane, weir_thread *self, weir_gate *gate,
					  weir_event *event, uint32_t waiting, void (*price)(weir_event *))
{
	weir_verdict verdict = ask_plain(lane, gate, event, waiting, plain_now(self));
	if (verdict != WEIR_ADMITTED)
		return shed_plain(lane, self, gate, event, verdict);
	price(event);
	weir_offer_last.offer.ask.cost = event->cost;
	return take_plain(lane, self, gate, event, waiting);
}

/* The long way. */
static __attribute__((noinline)) weir_verdict offer_any(weir_stage *stage, weir_event *event,
							weir_thread *self, void (*price)(weir_event *))
{
	if (price != NULL)
		price(event);
	return self != NULL ? weir_offer_one(stage, event, self, false) : offer_from_outside(stage, event);
}

/* price NULL: the cost is known. */
static inline weir_verdict offer(weir_stage *stage, weir_event *event, void (*price)(weir_event *))
{
	weir_thread *self = weir_thread_in(stage->world);
	if (__builtin_expect(self == NULL, 0))
		return offer_any(stage, event, NULL, price);
	weir_lane *lane = weir_offer_lane(stage, self, event->home);
	weir_gate *gate = weir_stage_gate(stage);
	uint32_t waiting = atomic_load_explicit(&lane->waiting, memory_order_relaxed);
	if (!weir_event_plain(event) || !lane_is_plain(lane, self) ||
	    (waiting != 0 && (gate == NULL || gate->law->wants_pool)) ||
	    (gate != NULL && atomic_load_explicit(&gate->special, memory_order_acquire)))
		return offer_any(stage, event, self, price);
	if (price != NULL && gate != NULL && gate->law->ignores_cost)
		return offer_unpriced(lane, self, gate, event, waiting, price);
	if (price != NULL)
		price(event);
	uint64_t now_ns = plain_now(self);
	if (gate == NULL)
		return must_queue(lane, self, now_ns) ? weir_offer_one(stage, event, self, false)
						      : run_plain(stage, lane, self, event, 0, now_ns);
	weir_verdict verdict = ask_plain(lane, gate, event, waiting, now_ns);
	return verdict == WEIR_ADMITTED ? take_plain(lane, self, gate, event, waiting)
					: shed_plain(lane, self, gate, event, verdict);
}

weir_verdict weir_offer(weir_stage *stage, weir_event *event)
{
	return offer(stage, event, NULL);
}

weir_verdict weir_offer_priced(weir_stage *stage, weir_event *event, void (*price)(weir_event *event))
{
	return offer(stage, event, price);
}

/* ---- one that its offerer works on ---- */

/*
 * The work begins now, so the law also decides about its start; a refusal is a shed. A pool's lane does not
 * belong to this thread, so its law is asked under the lock, as the pool does.
 */
static weir_verdict ask_held_start(const weir_attempt *offer, weir_event *event)
{
	uint64_t offered_ns = event->offered_ns;
	pthread_mutex_t *lock = &offer->stage->domain->lock;
	event->offered_ns = offer->ask.now_ns;
	if (offer->lane->thread == NULL)
		pthread_mutex_lock(lock);
	weir_verdict verdict = ask_start(offer, event);
	if (offer->lane->thread == NULL)
		pthread_mutex_unlock(lock);
	event->offered_ns = offered_ns;
	return verdict;
}

weir_verdict weir_offer_held(weir_stage *stage, weir_event *event)
{
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	if (!weir_offer_fit(stage, event))
		return WEIR_SHED_MISUSE;
	unsigned side = weir_outsider_enter(world, self);
	weir_attempt offer;
	attempt_one(&offer, stage, event, self);
	weir_verdict verdict = admit_one(&offer, event);
	if (verdict == WEIR_ADMITTED && offer.gate != NULL && offer.gate->law->start != NULL)
		verdict = ask_held_start(&offer, event);
	weir_offer_trace(stage, event, verdict, 'o', offer.ask.now_ns);
	if (verdict == WEIR_ADMITTED) {
		weir_offer_count(&offer, event, 1);
		weir_offer_adopt(self, offer.lane, event, offer.gate, offer.ask.now_ns);
		weir_dispatch_held(self, offer.lane, event, offer.ask.now_ns);
		weir_offer_admitted();
	} else {
		weir_offer_shed(&offer, &event, verdict);
	}
	weir_outsider_leave(world, self, side);
	return verdict;
}

weir_verdict weir_offer_refused(weir_stage *stage, weir_event *event, weir_verdict why)
{
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter(world, self);
	weir_attempt offer;
	attempt_one(&offer, stage, event, self);
	weir_offer_shed(&offer, &event, why);
	weir_outsider_leave(world, self, side);
	return why;
}
