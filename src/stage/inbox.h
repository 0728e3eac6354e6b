/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_INBOX_H
#define WEIR_STAGE_INBOX_H

/*
 * Where other threads put events for a reactor thread's lane: a ring of pointers with many producers and one
 * consumer.
 *
 * The ring itself is never full. Whoever puts n events in has first taken n places of the lane's bound
 * (lane->waiting), and the ring has at least as many slots as the bound has places. A place is given back
 * only after the consumer has taken the event out. So
 *  1. positions handed out and not yet taken ≤ places taken ≤ slots;
 *  2. therefore the slot of a new position is empty (NULL): its last event was taken out before the place
 *     that admits the new one became free. A producer that is preempted between taking a position and
 *     filling it only holds the consumer back, which stops at the NULL. Nobody overtakes it by a lap.
 * One fetch_add hands out positions for a whole batch. Pointers instead of links let the consumer prefetch.
 */

#include <stdatomic.h>
#include <weir/event.h>

typedef struct weir_inbox {
	/* const after init */
	_Atomic(weir_event *) *slot;
	uint64_t mask;
	/* any thread */
	_Alignas(64) _Atomic uint64_t tail;
	/* owner */
	_Alignas(64) uint64_t head;
} weir_inbox;

/* Room for at least `places` events: 0 or -ENOMEM. */
int weir_inbox_init(weir_inbox *inbox, uint32_t places);
void weir_inbox_fini(weir_inbox *inbox);
/* Any thread that holds `count` places. */
void weir_inbox_put(weir_inbox *inbox, weir_event *const *events, size_t count);
/* The owner: whether there is something to take. False for an inbox that was never made. */
static inline bool weir_inbox_ready(const weir_inbox *inbox)
{
	return inbox->slot != NULL &&
	       atomic_load_explicit(&inbox->slot[inbox->head & inbox->mask], memory_order_relaxed) != NULL;
}

/* The owner: takes up to `most` events; returns how many. */
size_t weir_inbox_take(weir_inbox *inbox, weir_event **ret_events, size_t most);

#endif
