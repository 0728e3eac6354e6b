/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency Kit's ring, many producers and one consumer. It has no way to sleep, so both ends spin: less work
 * than a queue that can wake its consumer has to do.
 */
#include <ck_ring.h>

#include "handoff.h"

static ck_ring_t ring;
/* One slot of a ring stays empty; its size must be a power of two. */
static ck_ring_buffer_t slots[HANDOFF_BOUND];
static _Atomic bool ended;

static void handoff_put(handoff_item **items)
{
	for (size_t i = 0; i < HANDOFF_BATCH; i++)
		while (!ck_ring_enqueue_mpsc(&ring, slots, items[i]))
			handoff_back_off();
}

static void *consume(void *cpu)
{
	handoff_item *item;

	bench_pin((int)(intptr_t)cpu);
	while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
		while (ck_ring_dequeue_mpsc(&ring, slots, &item)) {
			handoff_touch(item);
			handoff_took(1);
		}
		__builtin_ia32_pause();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpu = (int)bench_number(argv, "consumer-cpu", -1);
	pthread_t consumer;

	ck_ring_init(&ring, HANDOFF_BOUND);
	BENCH_REQUIRE(pthread_create(&consumer, NULL, consume, (void *)(intptr_t)cpu) == 0);
	handoff_measure(argv);
	atomic_store(&ended, true);
	return pthread_join(consumer, NULL);
}
