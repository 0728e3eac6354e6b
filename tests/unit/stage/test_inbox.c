/* SPDX-License-Identifier: Apache-2.0 */
/* Many producers, one consumer, a ring that is always nearly full: everything arrives once, in each producer's order. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "stage/inbox.h"
#include "support/unit.h"

#define PRODUCERS 3
#define EACH      40000
#define PLACES    13 /* not a power of two, so the ring is larger than the bound */
#define BATCH     5

static weir_inbox inbox;
static _Atomic uint32_t taken_places;
static weir_event *events[PRODUCERS];

/* As weir_lane_take does: the bound is kept outside of the ring. */
static bool take_places(uint32_t count)
{
	uint32_t before = atomic_load(&taken_places);
	do {
		if (count > PLACES - before)
			return false;
	} while (!atomic_compare_exchange_weak(&taken_places, &before, before + count));
	return true;
}

static void *produce(void *arg)
{
	weir_event *mine = arg, *batch[BATCH];
	for (size_t at = 0; at < EACH;) {
		size_t count = 1 + at % BATCH;
		if (count > EACH - at)
			count = EACH - at;
		while (!take_places((uint32_t)count))
			sched_yield();
		for (size_t i = 0; i < count; i++)
			batch[i] = &mine[at + i];
		weir_inbox_put(&inbox, batch, count);
		at += count;
	}
	return NULL;
}

static void test_nothing_is_lost_or_reordered(void **state)
{
	pthread_t threads[PRODUCERS];
	uint32_t next[PRODUCERS] = {0};
	assert_int_equal(weir_inbox_init(&inbox, PLACES), 0);
	for (int p = 0; p < PRODUCERS; p++) {
		events[p] = calloc(EACH, sizeof(weir_event));
		assert_non_null(events[p]);
		for (uint32_t i = 0; i < EACH; i++)
			events[p][i] = (weir_event){.cost = i, .klass = (uint8_t)p};
		assert_int_equal(pthread_create(&threads[p], NULL, produce, events[p]), 0);
	}
	for (size_t seen = 0; seen < (size_t)PRODUCERS * EACH;) {
		weir_event *batch[4];
		size_t count = weir_inbox_take(&inbox, batch, 4);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(batch[i]->cost, next[batch[i]->klass]++);
		atomic_fetch_sub(&taken_places, (uint32_t)count);
		seen += count;
		if (count == 0)
			sched_yield();
	}
	for (int p = 0; p < PRODUCERS; p++) {
		pthread_join(threads[p], NULL);
		free(events[p]);
	}
	weir_event *none[1];
	assert_int_equal(weir_inbox_take(&inbox, none, 1), 0);
	weir_inbox_fini(&inbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost_or_reordered)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
