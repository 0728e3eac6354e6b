/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>
#include <weir/sim.h>

#include "stage/runtime.h"

_Thread_local weir_thread *weir_thread_here;

static void trace_step(weir_lane *lane, const weir_event *event, uint8_t step, weir_verdict verdict,
		       uint64_t now_ns)
{
	if (__builtin_expect(event->trace == 0, 1))
		return;
	weir_trace_put(&lane->stage->world->trace, &(weir_trace_entry){.at_ns = now_ns,
								       .event = event->trace,
								       .stage = lane->stage->index,
								       .klass = event->klass,
								       .step = step,
								       .verdict = verdict});
}

void weir_stage_fault(weir_stage *stage, weir_fault fault, uint64_t count)
{
	atomic_fetch_add_explicit(&stage->faults[fault], count, memory_order_relaxed);
}

static void set_free(weir_event *event)
{
	event->lane = NULL;
	event->state = WEIR_EVENT_FREE;
}

/* ---- settling ---- */

/* One event less inside: a lane at its concurrency bound may start the next. */
static void leave_service(weir_lane *lane, weir_thread *self)
{
	atomic_fetch_sub_explicit(&lane->in_service, 1, memory_order_acq_rel);
	bool bounded = lane->concurrency != 0;
	if (bounded && atomic_load_explicit(&lane->waiting, memory_order_acquire) != 0)
		weir_lane_kick(lane, self);
}

/* In a virtual world an event occupies its thread until now: one is idle again. */
static void leave_virtual_thread(weir_lane *lane, const weir_event *event, uint64_t now_ns)
{
	weir_domain *domain = lane->stage->domain;
	if (lane->stage->world->sim == NULL || domain->options.kind != WEIR_ELASTIC)
		return;
	weir_elastic_end_locked(domain, event->started_ns, now_ns);
	weir_sim_touch(domain);
}

static void leave_frame(weir_event *event)
{
	weir_frame *frame = event->at.run.frame;
	frame->own[event->at.run.slot] = NULL;
	frame->unsettled--;
}

/* Now is not before the start, but the clocks of two threads may differ by a little. */
static uint64_t span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* The end of an event that the law was asked about at its start: exempt ones are none of its business. */
static void tell_law(weir_stage *stage, const weir_event *event, bool completed, uint64_t now_ns)
{
	weir_gate *gate = atomic_load_explicit(&stage->gate, memory_order_acquire);
	if (gate != NULL && gate->law->settle != NULL && !(event->flags & WEIR_EVENT_EXEMPT))
		gate->law->settle(gate->state, event, completed, now_ns);
}

void weir_settle(weir_thread *self, weir_event *event, bool completed, uint64_t now_ns)
{
	weir_lane *lane = event->lane;
	weir_stage *stage = lane->stage;
	weir_counts *counts = weir_stage_counts(stage, self);
	unsigned klass = event->klass;
	tell_law(stage, event, completed, now_ns);
	trace_step(lane, event, completed ? 'd' : 'f', WEIR_ADMITTED, now_ns);
	weir_counts_measure(counts, klass, WEIR_SERVICE, span(event->started_ns, now_ns));
	weir_counts_measure(counts, klass, WEIR_RESPONSE, span(event->offered_ns, now_ns));
	leave_virtual_thread(lane, event, now_ns);
	if (event->state == WEIR_EVENT_HANDLING)
		leave_frame(event);
	set_free(event);
	leave_service(lane, self);
	/* Last: from here on a stop may find the stage empty. */
	weir_count_add(counts, completed ? &counts->completed[klass] : &counts->failed[klass], 1);
}

/* Nobody owns it, so the fault is put down to the handler that runs, if one does. */
static void fault_here(weir_fault fault)
{
	weir_thread *self = weir_thread_here;
	if (self != NULL && self->frame != NULL)
		weir_stage_fault(self->frame->stage, fault, 1);
}

/* The event's stage, if somebody owns the event in a way that can be settled; NULL: a fault. */
static weir_stage *owned(weir_event *event)
{
	weir_lane *lane = event->magic == WEIR_EVENT_MAGIC ? event->lane : NULL;
	if (lane == NULL) {
		fault_here(WEIR_FAULT_NOT_OWNED);
		return NULL;
	}
	if (event->state == WEIR_EVENT_HANDLING || event->state == WEIR_EVENT_HELD)
		return lane->stage;
	weir_stage_fault(lane->stage, WEIR_FAULT_NOT_OWNED, 1);
	return NULL;
}

static void settle_public(weir_event *event, bool completed)
{
	weir_stage *stage = owned(event);
	if (stage == NULL)
		return;
	weir_thread *self = weir_thread_in(stage->world);
	weir_settle(self, event, completed, weir_thread_now(self, stage->world));
}

void weir_done(weir_event *event)
{
	settle_public(event, true);
}

void weir_fail(weir_event *event)
{
	settle_public(event, false);
}

void weir_hold(weir_event *event)
{
	weir_stage *stage = owned(event);
	if (stage == NULL || event->state == WEIR_EVENT_HELD)
		return;
	weir_thread *self = weir_thread_in(stage->world);
	trace_step(event->lane, event, 'h', WEIR_ADMITTED, weir_thread_now(self, stage->world));
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
	if (weir_timer_start(NULL, timer, now_ns + delay_ns) == 0)
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
	set_free(event);
	stage->options.drop(stage, event, why, stage->options.arg);
	/* After the call: until then the event is in flight, and a stop waits for it. */
	weir_count_add(counts, &counts->drops[klass][why], 1);
	weir_count_add(counts, &counts->dropped[klass], 1);
}

/* What the handler forgot: a fault of the stage, and the drop function's to clean up. */
static void drop_leaked(weir_thread *self, weir_lane *lane, weir_frame *frame, uint64_t now_ns)
{
	weir_stage_fault(lane->stage, WEIR_FAULT_LEAKED, frame->unsettled);
	for (size_t i = 0; i < frame->count; i++) {
		weir_event *event = frame->own[i];
		if (event == NULL)
			continue;
		tell_law(lane->stage, event, false, now_ns);
		leave_virtual_thread(lane, event, now_ns);
		leave_service(lane, self);
		weir_dispatch_drop(lane, self, event, WEIR_SHED_LEAKED, now_ns);
	}
}

/* ---- handler calls ---- */

/* frame->own and events are two copies: handlers may reorder theirs. */
static void call(weir_thread *self, weir_lane *lane, weir_frame *frame, weir_event **events, uint64_t now_ns)
{
	weir_stage *stage = lane->stage;
	weir_counts *counts = weir_stage_counts(stage, self);
	frame->outer = self->frame;
	frame->stage = stage;
	frame->unsettled = frame->count;
	for (size_t i = 0; i < frame->count; i++) {
		weir_event *event = events[i];
		event->at.run.frame = frame;
		event->at.run.slot = i;
		event->state = WEIR_EVENT_HANDLING;
		event->started_ns = now_ns;
		weir_count_add(counts, &counts->started[event->klass], 1);
		weir_counts_measure(counts, event->klass, WEIR_WAITING, span(event->offered_ns, now_ns));
		trace_step(lane, event, 'b', WEIR_ADMITTED, now_ns);
	}
	if (__builtin_expect(stage->world->sim != NULL, 0))
		weir_sim_count_call(stage->world->sim);
	self->frame = frame;
	self->worked = true;
	self->depth++;
	stage->options.handle(stage, events, frame->count, stage->options.arg);
	self->depth--;
	self->frame = frame->outer;
	/* The last settling, most often at the very end, has read the clock already. */
	uint64_t end_ns = self->clock != NULL ? self->clock->last_ns : weir_thread_now(self, stage->world);
	if (__builtin_expect(frame->unsettled != 0, 0))
		drop_leaked(self, lane, frame, end_ns);
	weir_count_add(counts, &counts->batches, 1);
	weir_count_add(counts, &counts->busy_ns, span(now_ns, end_ns));
}

uint64_t weir_dispatch(weir_thread *self, weir_lane *lane, weir_batch *batch, uint64_t now_ns)
{
	for (size_t i = 0; i < batch->dead; i++)
		weir_dispatch_drop(lane, self, batch->dead_events[i], batch->dead_why[i], now_ns);
	if (batch->count == 0)
		return now_ns;
	weir_event *own[WEIR_BATCH_MAX];
	memcpy(own, batch->events, batch->count * sizeof(own[0]));
	weir_frame frame = {.own = own, .count = batch->count};
	call(self, lane, &frame, batch->events, now_ns);
	return weir_thread_now(self, lane->stage->world);
}

void weir_dispatch_inline(weir_thread *self, weir_lane *lane, weir_gate *gate, weir_event *event,
			  uint64_t now_ns)
{
	if (gate != NULL && gate->law->start != NULL) {
		weir_verdict verdict = gate->law->start(gate->state, event, now_ns);
		if (verdict != WEIR_ADMITTED) {
			weir_dispatch_drop(lane, self, event, verdict, now_ns);
			return;
		}
	}
	weir_counts *counts = weir_stage_counts(lane->stage, self);
	weir_count_add(counts, &counts->inlined, 1);
	weir_event *own = event;
	weir_frame frame = {.own = &own, .count = 1};
	atomic_fetch_add_explicit(&lane->in_service, 1, memory_order_relaxed);
	bool single = lane->stage->options.single;
	if (single)
		lane->running = true;
	call(self, lane, &frame, &event, now_ns);
	if (single)
		lane->running = false;
}
