/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of waiting against naive models, over many seeds. */
#include <stdlib.h>

#include "stage/queue.h"
#include "support/unit.h"

#include <weir/random.h>

#define EVENTS 300

/* Waiting events as a plain array, in order of arrival. */
typedef struct model {
	weir_event *waiting[EVENTS];
	size_t count;
} model;

static weir_event *take(model *m, size_t at)
{
	weir_event *event = m->waiting[at];
	for (; at + 1 < m->count; at++)
		m->waiting[at] = m->waiting[at + 1];
	m->count--;
	return event;
}

static weir_event *model_pop(model *m, weir_order order, uint64_t now_ns, uint64_t newest_after_ns)
{
	size_t best = 0;
	if (m->count == 0)
		return NULL;
	for (size_t i = 1; i < m->count; i++) {
		if (order == WEIR_BY_CLASS && m->waiting[i]->klass < m->waiting[best]->klass)
			best = i;
		if (order == WEIR_SHORTEST && m->waiting[i]->cost < m->waiting[best]->cost)
			best = i;
	}
	if (order == WEIR_NEWEST_LATE && now_ns > m->waiting[0]->offered_ns + newest_after_ns)
		best = m->count - 1;
	return take(m, best);
}

static uint64_t model_oldest(const model *m, weir_order order)
{
	const weir_event *next = m->count != 0 ? m->waiting[0] : NULL;
	for (size_t i = 1; order == WEIR_SHORTEST && i < m->count; i++)
		if (m->waiting[i]->cost < next->cost)
			next = m->waiting[i];
	return next != NULL ? next->offered_ns : 0;
}

static void compare(weir_order order, uint64_t seed)
{
	static weir_event events[EVENTS];
	static model m;
	weir_queue queue;
	weir_random random;
	uint64_t now_ns = 1;
	m.count = 0;
	weir_random_init(&random, seed);
	weir_queue_init(&queue, order, 50, NULL);
	for (size_t made = 0; made < EVENTS || m.count != 0;) {
		now_ns += weir_random_below(&random, 4) + 1;
		if (made < EVENTS && weir_random_below(&random, 5) < 3) {
			weir_event *event = &events[made++];
			*event = (weir_event){.offered_ns = now_ns,
					      .klass = (uint8_t)weir_random_below(&random, WEIR_CLASSES),
					      .cost = (uint32_t)weir_random_below(&random, 20)};
			weir_queue_push(&queue, event);
			m.waiting[m.count++] = event;
		} else {
			weir_event *expected = model_pop(&m, order, now_ns, 50);
			bool overdue;
			assert_for_seed(seed, weir_queue_peek(&queue, now_ns, &overdue) == expected);
			assert_for_seed(seed, !overdue);
			assert_for_seed(seed, weir_queue_pop(&queue, now_ns) == expected);
		}
		assert_for_seed(seed, queue.count == m.count);
		assert_for_seed(seed, weir_queue_oldest_ns(&queue) == model_oldest(&m, order));
	}
	assert_for_seed(seed, weir_queue_pop(&queue, now_ns) == NULL);
}

static void test_every_order_is_as_its_model(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		for (int order = WEIR_FIFO; order <= WEIR_NEWEST_LATE; order++)
			compare((weir_order)order, seed);
}

/* A heap of equal costs is a queue, and a long row of falling costs does not recurse. */
static void test_heap_at_its_extremes(void **state)
{
	const size_t count = 200000;
	weir_event *events = calloc(count, sizeof(*events));
	weir_queue queue;
	assert_non_null(events);
	for (int falling = 0; falling < 2; falling++) {
		weir_queue_init(&queue, WEIR_SHORTEST, 0, NULL);
		for (size_t i = 0; i < count; i++) {
			events[i].offered_ns = i + 1;
			events[i].cost = falling ? (uint32_t)(count - i) : 7;
			weir_queue_push(&queue, &events[i]);
		}
		for (size_t i = 0; i < count; i++)
			assert_ptr_equal(weir_queue_pop(&queue, 0), &events[falling ? count - 1 - i : i]);
	}
	free(events);
}

/* "Never newest first" is a time that no sum may pass by. */
static void test_newest_late_may_be_never(void **state)
{
	weir_event events[2] = {{.offered_ns = 5}, {.offered_ns = 6}};
	weir_queue queue;
	weir_queue_init(&queue, WEIR_NEWEST_LATE, UINT64_MAX, NULL);
	weir_queue_push(&queue, &events[0]);
	weir_queue_push(&queue, &events[1]);
	assert_ptr_equal(weir_queue_pop(&queue, 1000), &events[0]);
	assert_ptr_equal(weir_queue_pop(&queue, 1000), &events[1]);
}

/* One turn in a hundred, not all turns until it has caught up. */
static void a_lower_class_has_a_turn_in_its_time(void **state)
{
	static weir_event high[1000], low[3];
	_Atomic uint64_t after_ns[WEIR_CLASSES];
	weir_queue queue;
	bool overdue;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		after_ns[k] = 100;
	weir_queue_init(&queue, WEIR_BY_CLASS, 0, after_ns);
	for (unsigned i = 0; i < 1000; i++)
		weir_queue_push(&queue, &high[i]);
	for (unsigned i = 0; i < 3; i++) {
		low[i].klass = 5;
		weir_queue_push(&queue, &low[i]);
	}
	for (unsigned now = 1, next = 0; now < 1000; now++) {
		bool turn = next < 3 && now == 101 * (next + 1);
		const weir_event *peeked = weir_queue_peek(&queue, now, &overdue);
		assert_int_equal(overdue, turn);
		assert_ptr_equal(weir_queue_pop(&queue, now), peeked);
		assert_int_equal(peeked->klass, turn ? 5 : 0);
		next += turn;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lower_class_has_a_turn_in_its_time),
		cmocka_unit_test(test_every_order_is_as_its_model),
		cmocka_unit_test(test_heap_at_its_extremes),
		cmocka_unit_test(test_newest_late_may_be_never),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
