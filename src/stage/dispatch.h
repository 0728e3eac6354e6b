/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_DISPATCH_H
#define WEIR_STAGE_DISPATCH_H

/*
 * Events on their way through a handler: their states, handler calls (frames), settling and dropping.
 *
 * Threads: whoever owns the event; frames belong to the thread on whose stack they are.
 */

#include "stage/friends.h"
#include "stage/world.h"

/*
 * Magic and state in one load. All accesses are atomic, per field or as a whole: `cancelled` is next to them,
 * and any thread may set it. A compiler that merges two plain reads would read it too.
 */
#define WEIR_EVENT_TAG(state) ((uint32_t)(state) << 16 | WEIR_EVENT_MAGIC)

static inline uint32_t weir_event_tag(const weir_event *event)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint32_t)__atomic_load_n(&event->word, __ATOMIC_RELAXED) & 0xffffff;
#else
	return WEIR_EVENT_TAG(__atomic_load_n(&event->state, __ATOMIC_RELAXED)) ^ WEIR_EVENT_MAGIC ^
	       __atomic_load_n(&event->magic, __ATOMIC_RELAXED);
#endif
}

static inline bool weir_event_is_cancelled(const weir_event *event)
{
	return __atomic_load_n(&event->cancelled, __ATOMIC_RELAXED) != 0;
}

/* ---- dispatch.c ---- */

/* Handles a batch: drops its dead events, calls the handler for the others. Returns the time afterwards. */
uint64_t weir_dispatch(weir_thread *self, weir_lane *lane, weir_batch *batch, uint64_t now_ns);
/* Begins a handler call for one event; the frame is the caller's. */
static inline void weir_frame_begin(weir_frame *frame, weir_thread *self, weir_lane *lane, weir_event **own,
				    weir_event *event, uint64_t now_ns)
{
	frame->outer = self->frame;
	frame->stage = lane->stage;
	frame->origin = lane->stage->index + 1u;
	frame->own = own;
	frame->count = frame->unsettled = 1;
	event->at.run.frame = frame;
	event->at.run.slot = 0;
	event->at.run.klass = event->klass;
	event->state = WEIR_EVENT_HANDLING;
	event->started_ns = now_ns;
	atomic_fetch_add_explicit(&lane->in_service, 1, memory_order_relaxed);
	self->frame = frame;
	self->worked = true;
	self->depth_left--;
}

/* Events that a handler forgot to settle: counts a fault of the stage, and drops them. */
void weir_dispatch_leaked(weir_thread *self, weir_lane *lane, weir_frame *frame);

/* Runs the handler for one event that was just admitted to a plain lane. */
static inline void weir_dispatch_plain(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns)
{
	weir_event *own = event, *given = event;
	weir_frame frame;
	weir_stage *stage = lane->stage;
	weir_frame_begin(&frame, self, lane, &own, event, now_ns);
	stage->options.handle(stage, &given, 1, stage->options.arg);
	self->depth_left++;
	self->frame = frame.outer;
	if (__builtin_expect(frame.unsettled != 0, 0))
		weir_dispatch_leaked(self, lane, &frame);
}

/* The same for any lane, with measuring and tracing. */
void weir_dispatch_inline(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);
/* Gives up an admitted event: counts it and calls the drop function. */
void weir_dispatch_drop(weir_lane *lane, weir_thread *self, weir_event *event, weir_verdict why,
			uint64_t now_ns);
/* Ends the stay of a HANDLING or HELD event in its stage. The event is FREE afterwards. */
void weir_settle(weir_thread *self, weir_event *event, weir_outcome outcome, uint64_t now_ns);
/* Makes an event that was just admitted HELD, as if a handler had begun and held it. */
void weir_dispatch_held(weir_thread *self, weir_lane *lane, weir_event *event, uint64_t now_ns);

/* ---- why.c ---- */

/* Forgets why this thread's last offer was shed, because the thread leaves a section (grace.h). */
void weir_offer_forget(void);
/* Sets what weir_why_shed says in the drop function that is about to be called. */
void weir_offer_note_drop(weir_lane *lane, weir_thread *self, const weir_event *event, weir_verdict why,
			  uint64_t now_ns);

#endif
