/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex and two condition variables around a ring, one event at a time: what most programs would write. */
#include "handoff.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	/* under lock */
	handoff_item *ring[HANDOFF_BOUND];
	size_t head, count;
	bool ended;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, false};

static void put_one(handoff_item *item)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.count == HANDOFF_BOUND)
		pthread_cond_wait(&queue.not_full, &queue.lock);
	queue.ring[(queue.head + queue.count++) % HANDOFF_BOUND] = item;
	pthread_cond_signal(&queue.not_empty);
	pthread_mutex_unlock(&queue.lock);
}

static void handoff_put(handoff_item **items)
{
	for (size_t i = 0; i < HANDOFF_BATCH; i++)
		put_one(items[i]);
}

/* NULL: the producer has ended and nothing is left. */
static handoff_item *take_one(void)
{
	handoff_item *item = NULL;

	pthread_mutex_lock(&queue.lock);
	while (queue.count == 0 && !queue.ended)
		pthread_cond_wait(&queue.not_empty, &queue.lock);
	if (queue.count > 0) {
		item = queue.ring[queue.head];
		queue.head = (queue.head + 1) % HANDOFF_BOUND;
		queue.count--;
		pthread_cond_signal(&queue.not_full);
	}
	pthread_mutex_unlock(&queue.lock);
	return item;
}

static void *consume(void *cpu)
{
	handoff_item *item;

	bench_pin((int)(intptr_t)cpu);
	while ((item = take_one()) != NULL) {
		handoff_touch(item);
		handoff_took(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpu = (int)bench_number(argv, "consumer-cpu", -1);
	pthread_t consumer;

	BENCH_REQUIRE(pthread_create(&consumer, NULL, consume, (void *)(intptr_t)cpu) == 0);
	handoff_measure(argv);
	pthread_mutex_lock(&queue.lock);
	queue.ended = true;
	pthread_cond_signal(&queue.not_empty);
	pthread_mutex_unlock(&queue.lock);
	return pthread_join(consumer, NULL);
}
