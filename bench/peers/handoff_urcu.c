/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Userspace RCU's wait-free concurrent queue: producers append one event with an exchange, the consumer takes all
 * that is there at once. With "--splice 1" the producer also appends 64 at once, by filling a queue of its own
 * and splicing it over. It is unbounded and cannot sleep; the bound here is a count the consumer publishes.
 */
/* The inlined functions: calls through the library would hold the peer back. */
#define _LGPL_SOURCE
#include <urcu/wfcqueue.h>

#include "handoff.h"

_Static_assert(sizeof(struct cds_wfcq_node) == sizeof(void *), "the node lives in the item's link");

static struct cds_wfcq_head head;
static struct cds_wfcq_tail tail __attribute__((aligned(128)));
static _Atomic bool ended;
static bool splice;

static struct cds_wfcq_node *node_of(handoff_item *item)
{
	return (struct cds_wfcq_node *)&item->link;
}

static handoff_item *item_of(struct cds_wfcq_node *node)
{
	return (handoff_item *)((char *)node - offsetof(handoff_item, link));
}

/* Looks at the consumer's line only when the last look no longer suffices. */
static void wait_for_room(void)
{
	static uint64_t seen;

	while (handoff_producer.produced - seen > HANDOFF_BOUND && !handoff_stopped()) {
		seen = atomic_load_explicit(&handoff_consumer.taken, memory_order_acquire);
		if (handoff_producer.produced - seen > HANDOFF_BOUND)
			handoff_back_off();
	}
}

static void put_spliced(handoff_item **items)
{
	struct __cds_wfcq_head from;
	struct cds_wfcq_tail from_tail;

	__cds_wfcq_init(&from, &from_tail);
	for (size_t i = 0; i < HANDOFF_BATCH; i++) {
		cds_wfcq_node_init(node_of(items[i]));
		cds_wfcq_enqueue(&from, &from_tail, node_of(items[i]));
	}
	__cds_wfcq_splice_blocking(&head, &tail, &from, &from_tail);
}

static void handoff_put(handoff_item **items)
{
	wait_for_room();
	if (splice) {
		put_spliced(items);
		return;
	}
	for (size_t i = 0; i < HANDOFF_BATCH; i++) {
		cds_wfcq_node_init(node_of(items[i]));
		cds_wfcq_enqueue(&head, &tail, node_of(items[i]));
	}
}

static void take_all(struct __cds_wfcq_head *all, struct cds_wfcq_tail *all_tail)
{
	struct cds_wfcq_node *node, *next;
	uint64_t count = 0;

	__cds_wfcq_for_each_blocking_safe(all, all_tail, node, next)
	{
		handoff_touch(item_of(node));
		count++;
	}
	handoff_took(count);
}

static void *consume(void *cpu)
{
	bench_pin((int)(intptr_t)cpu);
	while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
		struct __cds_wfcq_head all;
		struct cds_wfcq_tail all_tail;

		__cds_wfcq_init(&all, &all_tail);
		if (__cds_wfcq_splice_blocking(&all, &all_tail, &head, &tail) == CDS_WFCQ_RET_SRC_EMPTY)
			__builtin_ia32_pause();
		else
			take_all(&all, &all_tail);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpu = (int)bench_number(argv, "consumer-cpu", -1);
	pthread_t consumer;

	splice = bench_number(argv, "splice", 0) != 0;
	cds_wfcq_init(&head, &tail);
	BENCH_REQUIRE(pthread_create(&consumer, NULL, consume, (void *)(intptr_t)cpu) == 0);
	handoff_measure(argv);
	atomic_store(&ended, true);
	return pthread_join(consumer, NULL);
}
