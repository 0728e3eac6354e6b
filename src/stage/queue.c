/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/queue.h"

void weir_queue_init(weir_queue *queue, weir_order order, uint64_t newest_after_ns,
		     const _Atomic uint64_t *after_ns)
{
	*queue = (weir_queue){.order = order, .newest_after_ns = newest_after_ns, .after_ns = after_ns};
}

/* ---- lists ---- */

static void list_push(weir_list *list, weir_event *event)
{
	event->at.queue.next = NULL;
	event->at.queue.prev = list->tail;
	if (list->tail != NULL)
		list->tail->at.queue.next = event;
	else
		list->head = event;
	list->tail = event;
}

static weir_event *list_pop_oldest(weir_list *list)
{
	weir_event *event = list->head;
	list->head = event->at.queue.next;
	if (list->head != NULL)
		list->head->at.queue.prev = NULL;
	else
		list->tail = NULL;
	return event;
}

static weir_event *list_pop_newest(weir_list *list)
{
	weir_event *event = list->tail;
	list->tail = event->at.queue.prev;
	if (list->tail != NULL)
		list->tail->at.queue.next = NULL;
	else
		list->head = NULL;
	return event;
}

/* ---- the heap: at.queue.next is the next sibling, at.queue.prev the first child ---- */

static bool heap_before(const weir_event *a, const weir_event *b)
{
	if (a->cost != b->cost)
		return a->cost < b->cost;
	return a->offered_ns < b->offered_ns;
}

/* Merges two heaps. a wins ties, so that what came first stays first. */
static weir_event *heap_meld(weir_event *a, weir_event *b)
{
	if (a == NULL)
		return b;
	if (b == NULL)
		return a;
	if (heap_before(b, a)) {
		weir_event *swap = a;
		a = b;
		b = swap;
	}
	b->at.queue.next = a->at.queue.prev;
	a->at.queue.prev = b;
	return a;
}

/*
 * Merges the children of a popped root: in pairs from the left, then the pairs from the right. The first pass
 * builds the list in reverse for the second, so there is no recursion.
 */
static weir_event *heap_meld_children(weir_event *child)
{
	weir_event *pairs = NULL;
	while (child != NULL) {
		weir_event *a = child, *b = child->at.queue.next;
		child = b != NULL ? b->at.queue.next : NULL;
		a->at.queue.next = NULL;
		if (b != NULL)
			b->at.queue.next = NULL;
		weir_event *pair = heap_meld(a, b);
		pair->at.queue.next = pairs;
		pairs = pair;
	}
	weir_event *heap = NULL;
	while (pairs != NULL) {
		weir_event *next = pairs->at.queue.next;
		pairs->at.queue.next = NULL;
		heap = heap_meld(heap, pairs);
		pairs = next;
	}
	return heap;
}

/* ---- the policies ---- */

void weir_queue_push(weir_queue *queue, weir_event *event)
{
	queue->count++;
	if (queue->order == WEIR_SHORTEST) {
		event->at.queue.next = event->at.queue.prev = NULL;
		queue->heap = heap_meld(queue->heap, event);
		return;
	}
	unsigned at = queue->order == WEIR_BY_CLASS ? event->klass : 0;
	list_push(&queue->list[at], event);
	queue->occupied |= 1u << at;
}

static uint64_t since(uint64_t from_ns, uint64_t now_ns)
{
	return now_ns > from_ns ? now_ns - from_ns : 0;
}

/* The event's class should have had a turn by now, and its list had none. */
static bool is_overdue(const weir_queue *queue, unsigned at, const weir_event *head, uint64_t now_ns)
{
	if (queue->after_ns == NULL)
		return false;
	uint64_t last_ns = queue->turn_ns[at] > head->offered_ns ? queue->turn_ns[at] : head->offered_ns;
	uint64_t after_ns = atomic_load_explicit(&queue->after_ns[head->klass], memory_order_relaxed);
	return since(last_ns, now_ns) > after_ns;
}

/* Lists that are not empty and may be taken from. */
static uint32_t open_lists(const weir_queue *queue)
{
	return queue->occupied & ~queue->closed;
}

/* There is an open list. */
static unsigned next_list(const weir_queue *queue, uint64_t now_ns)
{
	uint32_t open = open_lists(queue);
	unsigned first = (unsigned)__builtin_ctz(open);
	for (uint32_t lower = open & (open - 1); lower != 0; lower &= lower - 1) {
		unsigned at = (unsigned)__builtin_ctz(lower);
		if (is_overdue(queue, at, queue->list[at].head, now_ns))
			return at;
	}
	return first;
}

static bool takes_newest(const weir_queue *queue, const weir_list *list, uint64_t now_ns)
{
	return queue->order == WEIR_NEWEST_LATE &&
	       since(list->head->offered_ns, now_ns) > queue->newest_after_ns;
}

static weir_event *pop_listed(weir_queue *queue, uint64_t now_ns)
{
	unsigned at = next_list(queue, now_ns);
	weir_list *list = &queue->list[at];
	bool newest = takes_newest(queue, list, now_ns);
	weir_event *event = newest ? list_pop_newest(list) : list_pop_oldest(list);
	if (list->head == NULL)
		queue->occupied &= ~(1u << at);
	queue->turn_ns[at] = now_ns;
	return event;
}

const weir_event *weir_queue_peek(const weir_queue *queue, uint64_t now_ns, bool *ret_overdue)
{
	*ret_overdue = false;
	if (queue->count == 0)
		return NULL;
	if (queue->order == WEIR_SHORTEST) {
		*ret_overdue = is_overdue(queue, 0, queue->heap, now_ns);
		return queue->heap;
	}
	if (open_lists(queue) == 0)
		return NULL;
	unsigned at = next_list(queue, now_ns);
	const weir_list *list = &queue->list[at];
	*ret_overdue = is_overdue(queue, at, list->head, now_ns);
	return takes_newest(queue, list, now_ns) ? list->tail : list->head;
}

weir_event *weir_queue_pop(weir_queue *queue, uint64_t now_ns)
{
	bool listed = queue->order != WEIR_SHORTEST;
	if (queue->count == 0 || (listed && open_lists(queue) == 0))
		return NULL;
	queue->count--;
	if (listed)
		return pop_listed(queue, now_ns);
	weir_event *event = queue->heap;
	queue->turn_ns[0] = now_ns;
	queue->heap = heap_meld_children(event->at.queue.prev);
	return event;
}

static void list_unlink(weir_list *list, weir_event *event)
{
	weir_event *next = event->at.queue.next, *prev = event->at.queue.prev;
	*(prev != NULL ? &prev->at.queue.next : &list->head) = next;
	*(next != NULL ? &next->at.queue.prev : &list->tail) = prev;
}

static size_t list_take_older(weir_list *list, uint32_t gate, const uint64_t before_ns[WEIR_CLASSES],
			      uint64_t latest_ns, size_t most, weir_event **ret_events)
{
	size_t taken = 0;
	weir_event *next;
	for (weir_event *event = list->head; event != NULL && taken < most; event = next) {
		next = event->at.queue.next;
		if (event->offered_ns >= latest_ns)
			break;
		if (event->gate != gate || event->offered_ns >= before_ns[event->klass])
			continue;
		list_unlink(list, event);
		ret_events[taken++] = event;
	}
	return taken;
}

size_t weir_queue_take_older(weir_queue *queue, uint32_t gate, const uint64_t before_ns[WEIR_CLASSES],
			     size_t most, weir_event **ret_events)
{
	uint64_t latest_ns = 0;
	size_t taken = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		latest_ns = before_ns[k] > latest_ns ? before_ns[k] : latest_ns;
	for (uint32_t left = queue->occupied; left != 0; left &= left - 1) {
		unsigned at = (unsigned)__builtin_ctz(left);
		weir_list *list = &queue->list[at];
		taken += list_take_older(list, gate, before_ns, latest_ns, most - taken, ret_events + taken);
		if (list->head == NULL)
			queue->occupied &= ~(1u << at);
	}
	queue->count -= taken;
	return taken;
}

uint64_t weir_queue_oldest_ns(const weir_queue *queue)
{
	if (queue->count == 0)
		return 0;
	if (queue->order == WEIR_SHORTEST)
		return queue->heap->offered_ns;
	uint64_t oldest = UINT64_MAX;
	for (uint32_t left = queue->occupied; left != 0; left &= left - 1) {
		uint64_t head = queue->list[__builtin_ctz(left)].head->offered_ns;
		if (head < oldest)
			oldest = head;
	}
	return oldest;
}
