/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "control/window.h"

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Any values, many of them equal: what a sort would give. */
static void test_quantile_is_what_sorting_gives(void **state)
{
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		weir_random random;
		uint64_t ns[WEIR_WINDOW_MAX], sorted[WEIR_WINDOW_MAX];
		weir_random_init(&random, seed);
		uint32_t count =
			1 + (uint32_t)weir_random_below(&random, seed % 10 == 0 ? WEIR_WINDOW_MAX : 30);
		for (uint32_t i = 0; i < count; i++)
			ns[i] = 1 + weir_random_below(&random, seed % 3 == 0 ? 5 : 1000000);
		memcpy(sorted, ns, sizeof(ns));
		qsort(sorted, count, sizeof(sorted[0]), by_size);
		for (uint32_t rank = 1; rank <= count; rank++)
			assert_for_seed(seed, weir_window_quantile(ns, count, (double)rank / count) ==
						      sorted[rank - 1]);
		assert_for_seed(seed,
				weir_window_quantile(ns, count, .9) == sorted[(count * 9 + 9) / 10 - 1]);
	}
}

static void test_mean(void **state)
{
	uint64_t ns[] = {1, 2, 6};
	assert_true(weir_window_mean(ns, 3) == 3);
}

static void test_a_ring_of_the_newest(void **state)
{
	static weir_window window;
	uint64_t ns[WEIR_WINDOW_MAX];
	weir_window_init(&window, 4);
	assert_int_equal(weir_window_count(&window), 0);
	for (uint64_t i = 1; i <= 6; i++)
		weir_window_add(&window, i);
	assert_int_equal(weir_window_count(&window), 4);
	assert_int_equal(weir_window_take(&window, ns), 4);
	assert_int_equal(weir_window_quantile(ns, 4, .25), 3);
	assert_int_equal(weir_window_take(&window, ns), 0);
	weir_window_add(&window, 0); /* less than a ns is still a sample */
	assert_int_equal(weir_window_take(&window, ns), 1);
}

#define THREADS 3
#define EACH    30000

static void *add(void *arg)
{
	for (uint64_t i = 1; i <= EACH; i++)
		weir_window_add(arg, i);
	return NULL;
}

/* Nothing is invented, nothing counted twice. */
static void test_threads(void **state)
{
	static weir_window window;
	pthread_t threads[THREADS];
	uint64_t ns[WEIR_WINDOW_MAX], taken = 0;
	weir_window_init(&window, 100);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add, &window), 0);
	for (int i = 0; i < 2000; i++) {
		uint32_t count = weir_window_take(&window, ns);
		for (uint32_t k = 0; k < count; k++)
			assert_in_range(ns[k], 1, EACH);
		taken += count;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	taken += weir_window_take(&window, ns);
	assert_in_range(taken, 1, THREADS * EACH);
	assert_int_equal(weir_window_take(&window, ns), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantile_is_what_sorting_gives),
		cmocka_unit_test(test_mean),
		cmocka_unit_test(test_a_ring_of_the_newest),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
