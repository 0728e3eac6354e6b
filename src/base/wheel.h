/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_WHEEL_H
#define WEIR_BASE_WHEEL_H

/*
 * A hierarchical timer wheel: start and stop take O(1), and each timer is moved at most once per level.
 * Slots of 2^16 ns (65 us), 64 slots per level, 8 levels: all 64 bits of time. A bitmap per level finds
 * the next occupied slot without a search.
 *
 * Write a slot's number and the wheel's tick in digits of 6 bits. The timer is in the level of the
 * highest digit in which they differ, at its own digit there. So timers in one level come before those in
 * the levels above it.
 *
 * Invariants: in each level all occupied slots are after the tick's own digit (level 0: at or after it).
 * Timers never fire before their time. Slots fire in order; timers of one slot fire in no particular
 * order. A timer may be stopped, or started again, from any fire function, including its own. The wheel
 * points into itself: it must not be moved.
 *
 * Threads: one.
 */

#include <weir/loop.h>

#define WEIR_WHEEL_SHIFT  16
#define WEIR_WHEEL_BITS   6
#define WEIR_WHEEL_SLOTS  (1u << WEIR_WHEEL_BITS)
#define WEIR_WHEEL_LEVELS 8

typedef struct weir_wheel {
	uint64_t tick;   /* the slot of the current time: everything in earlier slots is due or has fired */
	uint64_t now_ns; /* of the last advance */
	size_t count;
	weir_timer *due, **due_end; /* removed from their slots and not yet fired, oldest slot first */
	uint64_t occupied[WEIR_WHEEL_LEVELS];
	weir_timer *slot[WEIR_WHEEL_LEVELS][WEIR_WHEEL_SLOTS];
} weir_wheel;

void weir_wheel_init(weir_wheel *wheel, uint64_t now_ns);
/* Inserts a timer that is in no wheel, by its at_ns. Uses only its next and link. */
void weir_wheel_insert(weir_wheel *wheel, weir_timer *timer);
/* Removes a timer that is in the wheel. */
void weir_wheel_remove(weir_wheel *wheel, weir_timer *timer);
/*
 * Calls expire(timer, arg) for each timer due at now_ns, after removing it. Returns how many. Handles at
 * most `most` of them: the others stay due, and come first the next time. A timer that expire inserts is
 * left for the next advance, even if it is due at once.
 */
size_t weir_wheel_advance(weir_wheel *wheel, uint64_t now_ns, size_t most,
			  void (*expire)(weir_timer *timer, void *arg), void *arg);
/*
 * When advance should next be called: at or before the end of the first timer's slot; UINT64_MAX: no
 * timers.
 */
uint64_t weir_wheel_next_ns(const weir_wheel *wheel);

#endif
