/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>
#include <weir/sim.h>

#include "stage/runtime.h"

_Thread_local weir_thread *weir_thread_here __attribute__((tls_model("initial-exec")));

static __attribute__((noinline, cold)) void trace_put(weir_lane *lane, const weir_event *event, uint8_t step,
						      weir_verdict verdict, uint64_t now_ns)
{
	weir_trace_put(&lane->stage->world->trace, &(weir_trace_entry){.at_ns = now_ns,
								       .event = event->trace,
								       .stage = lane->stage->index,
								       .klass = event->klass,
								       .step = step,
								       .verdict = verdict});
}

static inline void trace_step(weir_lane *lane, const weir_event *event, uint8_t step, weir_verdict verdict,
			      uint64_t now_ns)
{
	if (__builtin_expect(event->trace != 0, 0))
		trace_put(lane, event, step, verdict, now_ns);
}

void weir_stage_fault(weir_stage *stage, weir_fault fault, uint64_t count)
{
	atomic_fetch_add_explicit(&stage->faults[fault], count, memory_order_relaxed);
}

/*
 * A started event ends in the class in which it was admitted. By now a handler may have given it another one
 * for the next stage; that one is returned, to be put back.
 */
static uint8_t restore_class(weir_event *event)
{
	uint8_t klass = event->klass;
	event->klass = event->at.run.klass;
	return klass;
}

static void set_free(weir_event *event)
{
	event->lane = NULL;
	event->state = WEIR_EVENT_FREE;
}

/* ---- settling ---- */

/* In a virtual world an event occupies its thread until it is settled. Now one is idle again. */
static void leave_virtual_thread(weir_domain *domain, uint64_t started_ns, uint64_t now_ns)
{
	weir_elastic_end_locked(domain, started_ns, now_ns);
	weir_sim_touch(domain);
}

/*
 * A lane at its concurrency bound may start the next event. An offer takes a place, then the lane's thread
 * looks at in_service. We decrement in_service, then look at the places. All four are sequentially
 * consistent, so one of the two sees the other.
 */
static __attribute__((noinline)) void leave_slowly(weir_lane *lane, weir_thread *self, uint64_t started_ns,
						   uint64_t now_ns)
{
	weir_domain *domain = lane->stage->domain;
	weir_bound_give(lane, 1, self);
	if (atomic_load_explicit(&lane->waiting, memory_order_seq_cst) != 0)
		weir_lane_kick(lane, self);
	if (lane->stage->lane_count > 1)
		weir_lane_pass_on(lane, self);
	if (lane->stage->world->sim != NULL && domain->options.kind == WEIR_ELASTIC)
		leave_virtual_thread(domain, started_ns, now_ns);
}

static inline void leave_service(weir_lane *lane, weir_thread *self, uint64_t started_ns, uint64_t now_ns)
{
	atomic_fetch_sub_explicit(&lane->in_service, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&lane->slow_leave, memory_order_seq_cst))
		leave_slowly(lane, self, started_ns, now_ns);
}

static inline void leave_frame(weir_event *event)
{
	weir_frame *frame = event->at.run.frame;
	frame->own[event->at.run.slot] = NULL;
	frame->unsettled--;
}

/* The clocks of two threads may differ a little, so the end can appear to be before the start. */
static inline uint64_t span(uint64_t from_ns, uint64_t to_ns)
{
	int64_t passed = (int64_t)(to_ns - from_ns);
	return passed > 0 ? (uint64_t)passed : 0;
}

static inline void measure(weir_counts *counts, const weir_event *event, uint64_t now_ns)
{
	weir_hist *hists = weir_counts_hists(counts, event->klass);
	if (__builtin_expect(hists == NULL, 0))
		return;
	unsigned service = weir_hist_index(span(event->started_ns, now_ns)), response = service;
	if (event->offered_ns != event->started_ns)
		response = weir_hist_index(span(event->offered_ns, now_ns));
	weir_count_add(counts, &hists[WEIR_SERVICE].bucket[service], 1);
	weir_count_add(counts, &hists[WEIR_RESPONSE].bucket[response], 1);
}

static void count_late(weir_counts *counts, const weir_event *event, uint64_t now_ns)
{
	const weir_stage *stage = event->lane->stage;
	uint64_t promise_ns = atomic_load_explicit(&stage->promise_ns[event->klass], memory_order_relaxed);
	if (promise_ns != 0 && span(event->offered_ns, now_ns) > promise_ns)
		weir_count_add(counts, &counts->late[event->klass], 1);
}

/* Tells the end of an event to the law that admitted it, if that is still in force. */
static inline void tell_law(weir_lane *lane, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_gate *gate = weir_event_gate(event, lane->stage);
	if (gate != NULL && gate->law->settle != NULL)
		gate->law->settle(weir_gate_state(gate, lane), event, outcome, now_ns);
}

/* Learns how long the events of a pool's stage take. Failing is quick and teaches nothing. */
static void learn_work(weir_stage *stage, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	if (outcome == WEIR_DONE)
		weir_turn_learn(stage, event->slice, span(event->started_ns, now_ns));
	else
		atomic_store_explicit(&stage->domain->disturbed, true, memory_order_relaxed);
}

void weir_settle(weir_thread *self, weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	weir_lane *lane = event->lane;
	weir_counts *counts = weir_stage_counts(lane->stage, self);
	uint8_t given = restore_class(event), klass = event->klass;
	uint64_t started_ns = event->started_ns;
	bool completed = outcome == WEIR_DONE;
	tell_law(lane, event, outcome, now_ns);
	trace_step(lane, event, completed ? 'd' : 'f', WEIR_ADMITTED, now_ns);
	if (__builtin_expect(outcome == WEIR_REFUSED, 0))
		weir_pressure_refused(lane->stage, event, now_ns);
	measure(counts, event, now_ns);
	if (completed)
		count_late(counts, event, now_ns);
	if (lane->thread == NULL)
		learn_work(lane->stage, event, outcome, now_ns);
	if (event->state == WEIR_EVENT_HANDLING)
		leave_frame(event);
	event->klass = given;
	set_free(event);
	leave_service(lane, self, started_ns, now_ns);
	/* Last: from here on a stop may find the stage empty. */
	weir_count_add(counts, completed ? &counts->completed[klass] : &counts->failed[klass], 1);
}

/* Nobody owns the event, so the fault is counted for the handler that runs, if any. */
static void fault_here(weir_fault fault)
{
	weir_thread *self = weir_thread_here;
	if (self != NULL && self->frame != NULL && self->frame->stage != NULL)
		weir_stage_fault(self->frame->stage, fault, 1);
}

static __attribute__((noinline, cold)) weir_stage *not_owned(weir_event *event)
{
	if (event->magic == WEIR_EVENT_MAGIC && event->lane != NULL)
		weir_stage_fault(event->lane->stage, WEIR_FAULT_NOT_OWNED, 1);
	else
		fault_here(WEIR_FAULT_NOT_OWNED);
	return NULL;
}

/* The stage of an event that can be settled; NULL: it cannot, which is a fault. */
static inline weir_stage *owned(weir_event *event)
{
	uint32_t tag = weir_event_tag(event);
	if (__builtin_expect(
		    tag != WEIR_EVENT_TAG(WEIR_EVENT_HANDLING) && tag != WEIR_EVENT_TAG(WEIR_EVENT_HELD), 0))
		return not_owned(event);
	return event->lane->stage;
}

static __attribute__((noinline)) void settle_public(weir_event *event, weir_outcome outcome)
{
	weir_stage *stage = owned(event);
	if (stage == NULL)
		return;
	weir_world *world = stage->world;
	weir_thread *self = weir_thread_in(world);
	if (__builtin_expect(self != NULL, 1)) {
		weir_settle(self, event, outcome, weir_thread_now(self, world));
		return;
	}
	/* An outside thread uses the law, and perhaps other stages. They must not be freed meanwhile. */
	unsigned side = weir_outsider_enter(world, NULL);
	weir_settle(NULL, event, outcome, weir_thread_now(NULL, world));
	weir_outsider_leave(world, NULL, side);
}

/*
 * The short way, for an event that its handler finishes on the lane's own reactor thread, with nobody else to
 * be told. Does what weir_settle does, inline, so that the compiler needs no stack. NULL: not such an event.
 */
static inline weir_hist *plain_hists(const weir_thread *self, const weir_event *event)
{
	if (weir_event_tag(event) != WEIR_EVENT_TAG(WEIR_EVENT_HANDLING) || self == NULL)
		return NULL;
	const weir_lane *lane = event->lane;
	if (lane->thread != self || atomic_load_explicit(&lane->slow_leave, memory_order_relaxed) ||
	    event->trace != 0)
		return NULL;
	return atomic_load_explicit(&weir_stage_counts(lane->stage, self)->hists[event->at.run.klass],
				    memory_order_acquire);
}

/* Measures the event and frees it. What is left is to count it out of the lane. */
static inline void end_plainly(weir_event *event, weir_hist *hists, uint64_t now_ns)
{
	unsigned service = weir_hist_index(now_ns - event->started_ns), response = service;
	if (event->offered_ns != event->started_ns)
		response = weir_hist_index(span(event->offered_ns, now_ns));
	weir_hist_bump(&hists[WEIR_SERVICE].bucket[service], 1);
	weir_hist_bump(&hists[WEIR_RESPONSE].bucket[response], 1);
	leave_frame(event);
	set_free(event);
}

static inline void count_out(weir_lane *lane, const weir_thread *self, unsigned klass, uint32_t count)
{
	weir_count *completed = &weir_stage_counts(lane->stage, self)->completed[klass];
	atomic_fetch_sub_explicit(&lane->in_service, count, memory_order_seq_cst);
	/* A law with a limit may have been installed since we looked, and the lane may wait for this. */
	if (__builtin_expect(atomic_load_explicit(&lane->slow_leave, memory_order_seq_cst), 0)) {
		if (atomic_load_explicit(&lane->waiting, memory_order_seq_cst) != 0)
			weir_lane_kick(lane, weir_thread_here);
		if (lane->stage->lane_count > 1)
			weir_lane_pass_on(lane, weir_thread_here);
	}
	atomic_store_explicit(completed, atomic_load_explicit(completed, memory_order_relaxed) + count,
			      memory_order_release);
}

static inline bool wants_ends(const weir_stage *stage)
{
	const weir_gate *gate = weir_stage_gate(stage);
	return gate != NULL && gate->law->settle != NULL;
}

static void tell_in_class(weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	uint8_t given = restore_class(event);
	tell_law(lane, event, WEIR_DONE, now_ns);
	event->klass = given;
}

/* Its law wants to know of the end first, or the time is a virtual world's. */
static __attribute__((noinline)) void done_told(weir_thread *self, weir_event *event, weir_hist *hists)
{
	weir_lane *lane = event->lane;
	uint64_t now_ns = weir_thread_now(self, self->world);
	tell_in_class(lane, event, now_ns);
	end_plainly(event, hists, now_ns);
	count_out(lane, self, event->at.run.klass, 1);
}

void weir_done(weir_event *event)
{
	weir_thread *self = weir_thread_here;
	weir_hist *hists = plain_hists(self, event);
	if (hists == NULL)
		return settle_public(event, WEIR_DONE);
	weir_lane *lane = event->lane;
	if (self->clock == NULL || wants_ends(lane->stage))
		return done_told(self, event, hists);
	end_plainly(event, hists, weir_clock_now(self->clock));
	count_out(lane, self, event->at.run.klass, 1);
}

void weir_done_many(weir_event **events, size_t count)
{
	weir_thread *self = weir_thread_here;
	weir_lane *lane = NULL;
	unsigned klass = 0;
	uint32_t run = 0; /* settled and not yet counted out, all of this lane and class */
	/* Only a reactor thread has lanes of its own, and so has events that need it. */
	uint64_t now_ns = self != NULL && self->slot != 0 ? weir_thread_now(self, self->world) : 0;
	for (size_t i = 0; i < count; i++) {
		weir_event *event = events[i];
		weir_hist *hists = plain_hists(self, event);
		if (hists == NULL) {
			settle_public(event, WEIR_DONE);
			continue;
		}
		if (run != 0 && (event->lane != lane || event->at.run.klass != klass)) {
			count_out(lane, self, klass, run);
			run = 0;
		}
		lane = event->lane;
		klass = event->at.run.klass;
		run++;
		if (wants_ends(lane->stage))
			tell_in_class(lane, event, now_ns);
		end_plainly(event, hists, now_ns);
	}
	if (run != 0)
		count_out(lane, self, klass, run);
}

void weir_fail(weir_event *event)
{
	settle_public(event, WEIR_FAILED);
}

void weir_refused(weir_event *event)
{
	settle_public(event, WEIR_REFUSED);
}

void weir_hold(weir_event *event)
{
	weir_stage *stage = owned(event);
	if (stage == NULL || event->state == WEIR_EVENT_HELD)
		return;
	/* The clock is read only for events that are traced. */
	if (__builtin_expect(event->trace != 0, 0))
		trace_put(event->lane, event, 'h', WEIR_ADMITTED,
			  weir_thread_now(weir_thread_in(stage->world), stage->world));
	leave_frame(event);
	event->state = WEIR_EVENT_HELD;
}

static void finish(weir_timer *timer, void *arg)
{
	(void)timer;
	weir_done(arg);
}

void weir_finish_after(weir_event *event, weir_timer *timer, uint64_t delay_ns)
{
	weir_stage *stage = owned(event);
	if (stage == NULL)
		return;
	weir_thread *self = weir_thread_in(stage->world);
	uint64_t now_ns = weir_thread_now(self, stage->world);
	weir_hold(event);
	weir_timer_init(timer, finish, event);
	uint64_t at_ns = delay_ns < UINT64_MAX - now_ns ? now_ns + delay_ns : UINT64_MAX;
	if (weir_timer_start(NULL, timer, at_ns) == 0)
		return;
	struct timespec rest = {.tv_sec = (time_t)(delay_ns / WEIR_NS_PER_S),
				.tv_nsec = (long)(delay_ns % WEIR_NS_PER_S)};
	while (nanosleep(&rest, &rest) != 0)
		;
	weir_done(event);
}

/* ---- drops ---- */

void weir_dispatch_drop(weir_lane *lane, weir_thread *self, weir_event *event, weir_verdict why,
			uint64_t now_ns)
{
	weir_stage *stage = lane->stage;
	weir_counts *counts = weir_stage_counts(stage, self);
	unsigned klass = event->klass;
	trace_step(lane, event, 'x', why, now_ns);
	if (event->entry != stage->mark)
		weir_pressure_below(stage, event, why, now_ns);
	weir_offer_note_drop(lane, self, event, why, now_ns);
	set_free(event);
	stage->options.drop(stage, event, why, stage->options.arg);
	/* After the call: until then the event is in flight, and a stop waits for it. */
	weir_count_add(counts, &counts->drops[klass][why], 1);
	weir_count_add(counts, &counts->dropped[klass], 1);
}

__attribute__((cold)) void weir_dispatch_leaked(weir_thread *self, weir_lane *lane, weir_frame *frame)
{
	uint64_t now_ns = weir_thread_now(self, self->world);
	weir_stage_fault(lane->stage, WEIR_FAULT_LEAKED, frame->unsettled);
	for (size_t i = 0; i < frame->count; i++) {
		weir_event *event = frame->own[i];
		if (event == NULL)
			continue;
		restore_class(event);
		tell_law(lane, event, WEIR_FAILED, now_ns);
		leave_service(lane, self, event->started_ns, now_ns);
		weir_dispatch_drop(lane, self, event, WEIR_SHED_LEAKED, now_ns);
	}
}

/* ---- handler calls ---- */

static inline void begin(weir_counts *counts, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	weir_hist *hists = weir_counts_hists(counts, event->klass);
	event->started_ns = now_ns;
	weir_count_add(counts, &counts->started[event->klass], 1);
	if (hists != NULL)
		weir_counts_measure(counts, &hists[WEIR_WAITING], span(event->offered_ns, now_ns));
	trace_step(lane, event, 'b', WEIR_ADMITTED, now_ns);
}

static void begin_all(weir_lane *lane, weir_frame *frame, weir_counts *counts, uint64_t now_ns)
{
	for (size_t i = 0; i < frame->count; i++) {
		weir_event *event = frame->own[i];
		event->at.run.frame = frame;
		event->at.run.slot = (uint32_t)i;
		event->at.run.klass = event->klass;
		event->state = WEIR_EVENT_HANDLING;
		begin(counts, lane, event, now_ns);
	}
}

uint64_t weir_dispatch(weir_thread *self, weir_lane *lane, weir_batch *batch, uint64_t now_ns)
{
	weir_stage *stage = lane->stage;
	for (size_t i = 0; i < batch->dead; i++)
		weir_dispatch_drop(lane, self, batch->dead_events[i], batch->dead_why[i], now_ns);
	if (batch->count == 0)
		return now_ns;
	/* A copy of its own, because handlers may reorder theirs. */
	weir_event *own[WEIR_BATCH_MAX];
	memcpy(own, batch->events, batch->count * sizeof(own[0]));
	weir_frame frame = {.outer = self->frame,
			    .stage = stage,
			    .origin = stage->index + 1u,
			    .own = own,
			    .count = batch->count,
			    .unsettled = batch->count};
	weir_counts *counts = weir_stage_counts(stage, self);
	begin_all(lane, &frame, counts, now_ns);
	if (stage->world->sim != NULL)
		weir_sim_count_call(stage->world->sim);
	self->frame = &frame;
	self->worked = true;
	self->depth_left--;
	stage->options.handle(stage, batch->events, batch->count, stage->options.arg);
	self->depth_left++;
	self->frame = frame.outer;
	if (frame.unsettled != 0)
		weir_dispatch_leaked(self, lane, &frame);
	uint64_t end_ns = weir_thread_now(self, stage->world);
	weir_count_add(counts, &counts->batches, 1);
	weir_count_add(counts, &counts->busy_ns, span(now_ns, end_ns));
	return end_ns;
}

void weir_dispatch_inline(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	bool single = lane->stage->options.single;
	trace_step(lane, event, 'b', WEIR_ADMITTED, now_ns);
	if (lane->stage->world->sim != NULL)
		weir_sim_count_call(lane->stage->world->sim);
	lane->running = single;
	weir_dispatch_plain(self, lane, event, now_ns);
	if (single)
		lane->running = false;
}

void weir_dispatch_held(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	atomic_fetch_add_explicit(&lane->in_service, 1, memory_order_relaxed);
	weir_bound_force(lane);
	begin(weir_stage_counts(lane->stage, self), lane, event, now_ns);
	event->at.run.klass = event->klass;
	event->slice = event->cost;
	event->state = WEIR_EVENT_HELD;
	weir_thread_worked(self, lane->stage->world);
}

/* ---- work inside that no handler does ---- */

void weir_inside_enter(weir_stage *stage, weir_frame *frame)
{
	weir_thread *self = weir_thread_here;
	*frame = (weir_frame){
		.outer = self->frame, .stage = stage, .origin = stage != NULL ? stage->index + 1u : 0};
	if (self->frame == NULL)
		self->frame = frame;
}

void weir_inside_leave(const weir_frame *frame)
{
	weir_thread_here->frame = frame->outer;
}
