/* SPDX-License-Identifier: Apache-2.0 */
#include "on_law.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/random.h>

static void test_a_rate(void **state)
{
	on_law f;
	ON_LAW(&f, &weir_law_fixed, "rate", "10", "burst", "2");
	assert_int_equal(on_law_admit(&f, 2), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_RATE);
	uint64_t wait_ns = on_law_explain(&f, WEIR_SHED_RATE, 1).retry_after_ns;
	assert_in_range(wait_ns, 99999999, 100000001);
	f.now_ns += wait_ns;
	assert_int_equal(on_law_admit(&f, 1), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_RATE);
	on_law_refund(&f, 1);
	assert_int_equal(on_law_admit(&f, 1), WEIR_ADMITTED);
	assert_true(on_law_report(&f).rate_per_s == 10 && on_law_report(&f).limit == 0);
	on_law_close(&f);
}

/* Whatever way events end, those inside are counted exactly. */
static void test_a_number_inside(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		on_law f;
		weir_random random;
		uint32_t inside = 0;
		weir_random_init(&random, seed);
		ON_LAW(&f, &weir_law_fixed, "concurrency", "10");
		for (int i = 0; i < 2000; i++) {
			uint32_t count = 1 + (uint32_t)weir_random_below(&random, 4);
			if (weir_random_below(&random, 2) && inside > 0) {
				if (weir_random_below(&random, 2))
					on_law_settle(&f, 0, WEIR_DONE);
				else
					on_law_gone(&f, 0);
				inside--;
				continue;
			}
			weir_verdict verdict = on_law_admit(&f, count);
			assert_for_seed(seed,
					verdict == (inside + count <= 10 ? WEIR_ADMITTED : WEIR_SHED_LIMIT));
			if (verdict == WEIR_ADMITTED && weir_random_below(&random, 3) == 0)
				on_law_refund(&f, count);
			else if (verdict == WEIR_ADMITTED)
				inside += count;
			assert_for_seed(seed, on_law_value(&f, "inside") == inside);
		}
		on_law_close(&f);
	}
}

/* Exempt events, those of a law before, a dry run: the queue knows of them though the law does not. */
static void test_the_queue_knows_better(void **state)
{
	on_law f;
	ON_LAW(&f, &weir_law_fixed, "concurrency", "10");
	f.waiting = 4;
	f.in_service = 6;
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_LIMIT);
	f.in_service = 5;
	assert_int_equal(on_law_admit(&f, 1), WEIR_ADMITTED);
	f.waiting = UINT32_MAX;
	f.in_service = UINT32_MAX;
	assert_int_equal(on_law_admit(&f, UINT32_MAX), WEIR_SHED_LIMIT);
	on_law_close(&f);
}

/* Ends of events that it never admitted must not give it room for more than its number. */
static void test_foreign_ends_make_no_room(void **state)
{
	on_law f;
	ON_LAW(&f, &weir_law_fixed, "concurrency", "2");
	for (int i = 0; i < 100; i++)
		on_law_settle(&f, 0, WEIR_DONE);
	assert_int_equal(on_law_admit(&f, 2), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_LIMIT);
	on_law_close(&f);
}

/* What the rate refuses has not taken a place; what finds no place has not taken a token. */
static void test_both(void **state)
{
	on_law f;
	ON_LAW(&f, &weir_law_fixed, "rate", "1", "burst", "3", "concurrency", "2");
	assert_int_equal(on_law_admit(&f, 2), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_LIMIT);
	on_law_settle(&f, 0, WEIR_DONE);
	assert_int_equal(on_law_admit(&f, 1), WEIR_ADMITTED);
	on_law_settle(&f, 0, WEIR_DONE);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_RATE);
	assert_true(on_law_value(&f, "inside") == 1);
	on_law_close(&f);
}

static void test_says_when_there_is_room(void **state)
{
	on_law f;
	ON_LAW(&f, &weir_law_fixed, "concurrency", "2");
	assert_int_equal(on_law_explain(&f, WEIR_SHED_LIMIT, 1).retry_after_ns, 0);
	assert_int_equal(on_law_admit(&f, 2), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&f, 1), WEIR_SHED_LIMIT);
	assert_true(on_law_report(&f).shedding);
	f.sample.klass[3].completed = 8;
	f.sample.klass[0].dropped = 2;
	on_law_tick(&f, 100 * WEIR_NS_PER_MS);
	assert_int_equal(on_law_explain(&f, WEIR_SHED_LIMIT, 1).retry_after_ns, 10 * WEIR_NS_PER_MS);
	assert_int_equal(on_law_explain(&f, WEIR_SHED_LIMIT, 2).retry_after_ns, 20 * WEIR_NS_PER_MS);
	assert_int_equal(on_law_explain(&f, WEIR_SHED_LIMIT, 3).retry_after_ns, 0);
	assert_true(on_law_report(&f).shedding);
	on_law_tick(&f, 100 * WEIR_NS_PER_MS);
	assert_false(on_law_report(&f).shedding);
	assert_int_equal(on_law_report(&f).limit, 2);
	on_law_close(&f);
}

static void test_bad_parameters(void **state)
{
	ON_LAW_REFUSES(&weir_law_fixed, "rate", "burst", "0");
	ON_LAW_REFUSES(&weir_law_fixed, "burst needs a rate", "concurrency", "5", "burst", "5");
	ON_LAW_REFUSES(&weir_law_fixed, "burst", "rate", "5", "burst", "0.5");
	assert_int_equal(weir_law_check(&weir_law_fixed, NULL), -EINVAL);
}

#define THREADS 4
static on_law crowded;
static _Atomic int inside_now;
static _Atomic uint32_t too_many, admitted;

static void *come_and_go(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		weir_ask ask = {.now_ns = 1, .count = 1 + (uint32_t)i % 2};
		if (weir_law_fixed.admit(crowded.state, &ask) != WEIR_ADMITTED)
			continue;
		int now = atomic_fetch_add(&inside_now, (int)ask.count) + (int)ask.count;
		atomic_fetch_add(&admitted, 1);
		if (now > 3)
			atomic_fetch_add(&too_many, 1);
		atomic_fetch_sub(&inside_now, (int)ask.count);
		weir_event event = {0};
		for (uint32_t k = 0; k < ask.count; k++)
			weir_law_fixed.settle(crowded.state, &event, WEIR_DONE, 1);
	}
	return NULL;
}

static void test_threads_never_exceed_it(void **state)
{
	pthread_t threads[THREADS];
	ON_LAW(&crowded, &weir_law_fixed, "concurrency", "3");
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(too_many, 0);
	assert_true(admitted > 0);
	assert_true(on_law_value(&crowded, "inside") == 0);
	on_law_close(&crowded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_rate),
		cmocka_unit_test(test_a_number_inside),
		cmocka_unit_test(test_the_queue_knows_better),
		cmocka_unit_test(test_foreign_ends_make_no_room),
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_says_when_there_is_room),
		cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(test_threads_never_exceed_it),
	};
	return cmocka_run_group_tests_name("fixed", tests, NULL, NULL);
}
