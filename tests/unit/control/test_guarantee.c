/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <math.h>
#include <pthread.h>

#include <weir/base.h>
#include <weir/random.h>

#include "control/guarantee.h"

#define FROM_NS (1000 * WEIR_NS_PER_S)

/* How many of those that come once per so many ns conform. */
static uint64_t conforming(weir_guarantee *g, uint64_t from_ns, uint64_t for_ns, uint64_t each_ns)
{
	uint64_t count = 0;
	for (uint64_t at = 0; at < for_ns; at += each_ns)
		count += weir_guarantee_take(g, from_ns + at);
	return count;
}

static void test_nothing_is_guaranteed(void **state)
{
	static const double rates[] = {0, -1, -INFINITY, NAN, 1e-12};
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		weir_guarantee g;
		weir_guarantee_init(&g, rates[i]);
		assert_false(weir_guarantee_take(&g, 0));
		assert_false(weir_guarantee_take(&g, FROM_NS));
		assert_true(g.rate_per_s == 0);
	}
}

static void test_all_that_come_at_the_rate_conform(void **state)
{
	static const double rates[] = {.1, 1, 7, 50, 333, 12345, 1e6};
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		weir_guarantee g;
		weir_guarantee_init(&g, rates[i]);
		for (uint64_t k = 0; k < 1000; k++) {
			uint64_t due_ns = FROM_NS + (uint64_t)ceil((double)k * 1e9 / rates[i]);
			assert_true(weir_guarantee_take(&g, due_ns + k)); /* a hair more slowly */
		}
	}
}

static void test_no_more_than_the_rate_and_a_burst(void **state)
{
	static const double rates[] = {1, 50, 1000, 20000};
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		weir_guarantee g;
		weir_guarantee_init(&g, rates[i]);
		double burst = weir_guarantee_burst(rates[i]);
		uint64_t count = conforming(&g, FROM_NS, 10 * WEIR_NS_PER_S, 10000);
		assert_in_range(count, (uint64_t)(10 * rates[i]), (uint64_t)(10.01 * rates[i] + burst));
	}
}

static void test_burst_is_a_tenth_of_a_second_or_a_few(void **state)
{
	static const struct {
		double rate;
		uint64_t burst;
	} cases[] = {{.5, 1}, {5, 5}, {10, 10}, {20, 10}, {100, 10}, {200, 20}, {1000, 100}};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		weir_guarantee g;
		uint64_t count = 0;
		weir_guarantee_init(&g, cases[i].rate);
		while (weir_guarantee_take(&g, FROM_NS))
			count++;
		assert_int_equal(count, cases[i].burst);
	}
}

static void test_all_or_none(void **state)
{
	weir_guarantee g;
	weir_guarantee_init(&g, 50);
	assert_false(weir_guarantee_take_all(&g, FROM_NS, 11));
	assert_false(weir_guarantee_take_all(&g, FROM_NS, UINT32_MAX));
	assert_true(weir_guarantee_take_all(&g, FROM_NS, 9));
	assert_false(weir_guarantee_take_all(&g, FROM_NS, 2));
	assert_true(weir_guarantee_take(&g, FROM_NS));
	assert_false(weir_guarantee_take(&g, FROM_NS));
	assert_true(weir_guarantee_take_all(&g, FROM_NS + 40 * WEIR_NS_PER_MS, 2));
}

/* The clocks of two threads may differ a little. */
static void test_time_that_goes_back(void **state)
{
	weir_guarantee g;
	weir_guarantee_init(&g, 1000);
	uint64_t count = 0;
	weir_random random;
	weir_random_init(&random, 1);
	for (uint64_t at = 0; at < WEIR_NS_PER_S; at += 100000)
		count += weir_guarantee_take(&g, FROM_NS + at - (uint64_t)(1e6 * weir_random_unit(&random)));
	assert_in_range(count, 990, 1100);
}

#define THREADS 4
static weir_guarantee crowd;

static void *take_for_a_second(void *arg)
{
	return (void *)(uintptr_t)conforming(&crowd, FROM_NS, WEIR_NS_PER_S, 20000);
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	uint64_t count = 0;
	weir_guarantee_init(&crowd, 5000);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_for_a_second, NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		void *taken;
		pthread_join(threads[i], &taken);
		count += (uint64_t)(uintptr_t)taken;
	}
	/* Whoever came first: all of the rate was taken by somebody, and no more. */
	assert_in_range(count, 5000, 5500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_guaranteed),
		cmocka_unit_test(test_all_that_come_at_the_rate_conform),
		cmocka_unit_test(test_no_more_than_the_rate_and_a_burst),
		cmocka_unit_test(test_burst_is_a_tenth_of_a_second_or_a_few),
		cmocka_unit_test(test_all_or_none),
		cmocka_unit_test(test_time_that_goes_back),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests_name("guarantee", tests, NULL, NULL);
}
