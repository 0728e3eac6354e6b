/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_WHEEL_H
#define WEIR_BASE_WHEEL_H

/*
 * A hierarchical timer wheel: start and stop in O(1), each timer moved at most once a level. Slots of 2^16 ns
 * (65 us), 64 slots a level, 8 levels: all 64 bits of time. A bitmap a level finds the next occupied slot without walking.
 *
 * Write a slot's number and the wheel's tick in digits of 6 bits: the timer is in the level of the highest digit in which
 * they differ, at its own digit there. So what is in a level comes before what is in the levels above it.
 *
 * Invariants: in each level all occupied slots are after the tick's own digit (level 0: at or after it); timers never fire
 * before their time; those of one slot fire in no particular order among each other, slots in order. A timer may be stopped,
 * or started again, from any fire function, including its own. The wheel points into itself: it must not be moved.
 *
 * Threads: one.
 */

#include <weir/loop.h>

#define WEIR_WHEEL_SHIFT  16
#define WEIR_WHEEL_BITS   6
#define WEIR_WHEEL_SLOTS  (1u << WEIR_WHEEL_BITS)
#define WEIR_WHEEL_LEVELS 8

typedef struct weir_wheel {
	uint64_t tick;   /* the slot of now: everything in those before it is due or has fired */
	uint64_t now_ns; /* of the last advance */
	size_t count;
	weir_timer *due, **due_end; /* taken out of their slots and not yet fired, oldest slot first */
	uint64_t occupied[WEIR_WHEEL_LEVELS];
	weir_timer *slot[WEIR_WHEEL_LEVELS][WEIR_WHEEL_SLOTS];
} weir_wheel;

void weir_wheel_init(weir_wheel *wheel, uint64_t now_ns);
/* Inserts a timer that is in no wheel, by its at_ns. Uses its next and link only. */
void weir_wheel_insert(weir_wheel *wheel, weir_timer *timer);
/* Removes a timer that is in the wheel. */
void weir_wheel_remove(weir_wheel *wheel, weir_timer *timer);
/*
 * Calls expire(timer, arg) for each timer due at now_ns; it has been removed before the call. Returns how many. At most `most` of
 * them: the rest are still due, and first the next time. What expire inserts is for the next advance, even if it is due at once.
 */
size_t weir_wheel_advance(weir_wheel *wheel, uint64_t now_ns, size_t most,
			  void (*expire)(weir_timer *timer, void *arg), void *arg);
/* When advance should next be called: at or before the first timer's slot ends; UINT64_MAX: no timers. */
uint64_t weir_wheel_next_ns(const weir_wheel *wheel);

#endif
