/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_HANDOFF_H
#define WEIR_BENCH_HANDOFF_H

/*
 * One frame for all ways to hand events from one thread to another, so that they differ in the queue only: the
 * same event, the same pool of them, the same work at both ends, the same bound, the same two cores.
 *
 * A program includes this, defines handoff_put (hands over 64 items, waiting while the bound is reached) and
 * a consumer, and calls handoff_measure between starting and ending its consumer.
 *
 * Items are used round and round. The pool is twice the bound, so one that comes up again has long been taken:
 * at most HANDOFF_BOUND wait and a batch of them is being handled.
 *
 * Threads: the producer owns `produced`, the consumer `taken` and `sum`; main only samples `taken`.
 */

#include <pthread.h>
#include <stdatomic.h>

#include <weir/event.h>

#include "common.h"

#define HANDOFF_BATCH 64
#define HANDOFF_BOUND 1024
#define HANDOFF_POOL  2048

typedef struct handoff_item {
	weir_event event; /* also where a peer does not use it: the same struct for all */
	void *link;
	uint64_t value;
} __attribute__((aligned(64))) handoff_item;

static handoff_item handoff_pool[HANDOFF_POOL];

static struct {
	_Atomic uint64_t taken;
	uint64_t sum;
} __attribute__((aligned(128))) handoff_consumer;

static struct {
	uint64_t produced;
	_Atomic bool stop;
} __attribute__((aligned(128))) handoff_producer;

static void handoff_put(handoff_item **items);

/* The consumer's work: it reads what the producer wrote. */
static inline void handoff_touch(handoff_item *item)
{
	handoff_consumer.sum += item->value;
}

static inline void handoff_took(uint64_t count)
{
	uint64_t taken = atomic_load_explicit(&handoff_consumer.taken, memory_order_relaxed);

	atomic_store_explicit(&handoff_consumer.taken, taken + count, memory_order_release);
}

/* What a producer does when the queue is full: leaves the shared lines alone for a moment. */
static inline void handoff_back_off(void)
{
	for (int i = 0; i < 32; i++)
		__builtin_ia32_pause();
}

static inline bool handoff_stopped(void)
{
	return atomic_load_explicit(&handoff_producer.stop, memory_order_relaxed);
}

/* The next batch, used up at both ends alike: the producer writes what the consumer reads. */
static inline void handoff_fill(handoff_item **items)
{
	for (size_t i = 0; i < HANDOFF_BATCH; i++) {
		items[i] = &handoff_pool[handoff_producer.produced++ % HANDOFF_POOL];
		items[i]->value = handoff_producer.produced;
	}
}

/* Prints the throughput of a window after the warm-up, then tells the producer to stop. */
static inline void handoff_sample(char **argv)
{
	double seconds = bench_number(argv, "seconds", 0.5), warm = bench_number(argv, "warm", 0.1);
	uint64_t begin_ns, taken;

	bench_sleep(warm);
	taken = atomic_load(&handoff_consumer.taken);
	begin_ns = bench_now_ns();
	bench_sleep(seconds);
	taken = atomic_load(&handoff_consumer.taken) - taken;
	begin_ns = bench_now_ns() - begin_ns;
	atomic_store(&handoff_producer.stop, true);
	printf("events %llu\nevents_per_s %.1f\n", (unsigned long long)taken,
	       (double)taken * 1e9 / (double)begin_ns);
}

static void *handoff_produce(void *cpu)
{
	handoff_item *items[HANDOFF_BATCH];

	bench_pin((int)(intptr_t)cpu);
	while (!handoff_stopped()) {
		handoff_fill(items);
		handoff_put(items);
	}
	return NULL;
}

/* A thread of its own as producer. The consumer must be running. */
static inline void handoff_measure(char **argv)
{
	int cpu = (int)bench_number(argv, "producer-cpu", -1);
	pthread_t producer;

	BENCH_REQUIRE(pthread_create(&producer, NULL, handoff_produce, (void *)(intptr_t)cpu) == 0);
	handoff_sample(argv);
	BENCH_REQUIRE(pthread_join(producer, NULL) == 0);
}

#endif
