/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wheel.h"

#include <string.h>

#include "base/assert.h"

#define DIGIT   (WEIR_WHEEL_SLOTS - 1)
#define NO_SLOT UINT64_MAX

_Static_assert(WEIR_WHEEL_SHIFT + WEIR_WHEEL_LEVELS * WEIR_WHEEL_BITS >= 64, "the levels cover all of time");

/* The first slot that does not begin before at_ns. (There is none after the last slot of time.) */
static uint64_t slot_number(uint64_t at_ns)
{
	uint64_t slot = at_ns >> WEIR_WHEEL_SHIFT;
	if (slot << WEIR_WHEEL_SHIFT < at_ns && slot < UINT64_MAX >> WEIR_WHEEL_SHIFT)
		slot++;
	return slot;
}

static void push(weir_timer **head, weir_timer *timer)
{
	timer->next = *head;
	timer->link = head;
	if (timer->next != NULL)
		timer->next->link = &timer->next;
	*head = timer;
}

/* Puts a timer into a slot's place, relative to the wheel's tick. */
static void place(weir_wheel *wheel, weir_timer *timer, uint64_t slot)
{
	uint64_t differs = slot ^ wheel->tick;
	unsigned level = differs == 0 ? 0 : (63u - (unsigned)__builtin_clzll(differs)) / WEIR_WHEEL_BITS;
	unsigned digit = (unsigned)(slot >> level * WEIR_WHEEL_BITS) & DIGIT;
	push(&wheel->slot[level][digit], timer);
	wheel->occupied[level] |= UINT64_C(1) << digit;
}

void weir_wheel_init(weir_wheel *wheel, uint64_t now_ns)
{
	memset(wheel, 0, sizeof(*wheel));
	wheel->now_ns = now_ns;
	wheel->tick = now_ns >> WEIR_WHEEL_SHIFT;
	wheel->due_end = &wheel->due;
}

void weir_wheel_insert(weir_wheel *wheel, weir_timer *timer)
{
	/* A timer that is already due need not wait for the slot to end. */
	place(wheel, timer, timer->at_ns <= wheel->now_ns ? wheel->tick : slot_number(timer->at_ns));
	wheel->count++;
}

/* If link is a slot's head, the slot has become empty: its bit is cleared. */
static void forget_slot(weir_wheel *wheel, weir_timer **link)
{
	uintptr_t offset = (uintptr_t)link - (uintptr_t)wheel->slot;
	if (offset >= sizeof(wheel->slot))
		return;
	size_t index = offset / sizeof(wheel->slot[0][0]);
	wheel->occupied[index / WEIR_WHEEL_SLOTS] &= ~(UINT64_C(1) << index % WEIR_WHEEL_SLOTS);
}

void weir_wheel_remove(weir_wheel *wheel, weir_timer *timer)
{
	WEIR_ASSERT(wheel->count > 0 && *timer->link == timer);
	*timer->link = timer->next;
	if (timer->next != NULL)
		timer->next->link = timer->link;
	else if (wheel->due_end == &timer->next)
		wheel->due_end = timer->link;
	else
		forget_slot(wheel, timer->link);
	timer->next = NULL;
	timer->link = NULL;
	wheel->count--;
}

/* The first occupied slot: its level, and the number of the slot at which it begins. NO_SLOT: none. */
static uint64_t first_slot(const weir_wheel *wheel, unsigned *ret_level)
{
	for (unsigned level = 0; level < WEIR_WHEEL_LEVELS; level++) {
		if (wheel->occupied[level] == 0)
			continue;
		unsigned shift = level * WEIR_WHEEL_BITS;
		uint64_t digit = (uint64_t)__builtin_ctzll(wheel->occupied[level]);
		*ret_level = level;
		return (wheel->tick >> shift & ~(uint64_t)DIGIT) << shift | digit << shift;
	}
	return NO_SLOT;
}

static weir_timer *take_slot(weir_wheel *wheel, unsigned level)
{
	unsigned digit = (unsigned)__builtin_ctzll(wheel->occupied[level]);
	weir_timer *timers = wheel->slot[level][digit];
	wheel->slot[level][digit] = NULL;
	wheel->occupied[level] &= ~(UINT64_C(1) << digit);
	return timers;
}

static void append_due(weir_wheel *wheel, weir_timer *timer)
{
	timer->next = NULL;
	timer->link = wheel->due_end;
	*wheel->due_end = timer;
	wheel->due_end = &timer->next;
}

/* Empties the first slot: into the list of due timers if it is of level 0, else into the levels below. */
static void open_slot(weir_wheel *wheel, unsigned level)
{
	weir_timer *next, *timer = take_slot(wheel, level);
	for (; timer != NULL; timer = next) {
		next = timer->next;
		if (level == 0)
			append_due(wheel, timer);
		else
			place(wheel, timer, slot_number(timer->at_ns));
	}
}

/*
 * Moves the tick to now. It may skip everything up to the first occupied slot: for a timer in a slot
 * after the new tick, the highest digit that differs stays the same.
 */
static void collect_due(weir_wheel *wheel, uint64_t now_ns)
{
	unsigned level = 0;
	uint64_t slot, until = now_ns >> WEIR_WHEEL_SHIFT;
	while ((slot = first_slot(wheel, &level)) <= until) {
		wheel->tick = slot;
		open_slot(wheel, level);
	}
	wheel->tick = until;
}

size_t weir_wheel_advance(weir_wheel *wheel, uint64_t now_ns, size_t most,
			  void (*expire)(weir_timer *timer, void *arg), void *arg)
{
	size_t fired = 0;
	if (now_ns < wheel->now_ns)
		now_ns = wheel->now_ns;
	wheel->now_ns = now_ns;
	collect_due(wheel, now_ns);
	for (; fired < most && wheel->due != NULL; fired++) {
		weir_timer *timer = wheel->due;
		weir_wheel_remove(wheel, timer);
		expire(timer, arg);
	}
	return fired;
}

uint64_t weir_wheel_next_ns(const weir_wheel *wheel)
{
	unsigned level;
	if (wheel->due != NULL)
		return wheel->now_ns;
	uint64_t slot = first_slot(wheel, &level);
	return slot == NO_SLOT ? UINT64_MAX : slot << WEIR_WHEEL_SHIFT;
}
