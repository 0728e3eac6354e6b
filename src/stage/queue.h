/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_STAGE_QUEUE_H
#define WEIR_STAGE_QUEUE_H

/*
 * The order of waiting: an intrusive queue of events under one of the policies of weir_order. It knows
 * neither bounds nor threads. Its user enforces the bound (lane.c), and is its only user or holds a lock.
 *
 * FIFO and NEWEST_LATE are one list. BY_CLASS is a list per class. SHORTEST is a pairing heap by (cost,
 * arrival). A lower class of BY_CLASS that has waited for its after_ns, without a turn in that time, gets one
 * before the higher ones. All operations are O(1), but take_older walks, and heap pops are O(log n).
 */

#include <stdatomic.h>
#include <weir/stage.h>

/*
 * Prefetches an event's cache lines, to write (an event is longer than one). They were last written on
 * another core, and those of a whole batch can be fetched at once.
 */
static inline void weir_event_fetch(const weir_event *event)
{
	__builtin_prefetch(event, 1);
	__builtin_prefetch(&event->word, 1);
}

typedef struct weir_list {
	weir_event *head, *tail;
} weir_list;

typedef struct weir_queue {
	weir_order order;
	uint64_t newest_after_ns;
	size_t count;
	uint32_t occupied; /* bit c: list[c] is not empty */
	uint32_t closed;   /* BY_CLASS, bit c: pop and peek pass over list[c]; set by the queue's user */
	weir_event *heap;
	weir_list list[WEIR_CLASSES];
	const _Atomic uint64_t *after_ns; /* per class: it gets a turn at least this often; or NULL */
	uint64_t turn_ns[WEIR_CLASSES];   /* when each list last had a turn */
} weir_queue;

/*
 * after_ns: times for WEIR_CLASSES classes, which may change. NULL: the highest class always goes first,
 * however long the others wait.
 */
void weir_queue_init(weir_queue *queue, weir_order order, uint64_t newest_after_ns,
		     const _Atomic uint64_t *after_ns);
void weir_queue_push(weir_queue *queue, weir_event *event);
/* The next event by the policy; NULL: the queue is empty, or all that waits is closed. */
weir_event *weir_queue_pop(weir_queue *queue, uint64_t now_ns);
/* What pop would return now. ret_overdue: its class has had no turn for longer than it should. */
const weir_event *weir_queue_peek(const weir_queue *queue, uint64_t now_ns, bool *ret_overdue);
/*
 * Takes out at most `most` events that passed this gate and were offered before their class's time; returns
 * how many. It walks over others of that age. None if the order does not tell the age (WEIR_SHORTEST).
 */
size_t weir_queue_take_older(weir_queue *queue, uint32_t gate, const uint64_t before_ns[WEIR_CLASSES],
			     size_t most, weir_event **ret_events);
/*
 * When the event that has waited longest was offered, as far as the order tells (SHORTEST: that of the next
 * event); 0: the queue is empty.
 */
uint64_t weir_queue_oldest_ns(const weir_queue *queue);

#endif
