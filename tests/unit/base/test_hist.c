/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "base/hist.h"

#define VALUES 5000

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static uint64_t exact_quantile(const uint64_t *sorted, size_t count, double quantile)
{
	/* The smallest with a share of at least quantile at or below it, by counting. */
	for (size_t i = 0; i < count; i++)
		if ((double)(i + 1) >= quantile * (double)count - 1e-9)
			return sorted[i];
	return sorted[count - 1];
}

static bool near(uint64_t got, uint64_t exact)
{
	if (exact < WEIR_HIST_SUB)
		return got == exact;
	return fabs((double)got - (double)exact) <= 0.032 * (double)exact;
}

/* Values of a shape that depends on the seed: narrow, wide, tiny, with ties. */
static uint64_t draw(weir_random *random, uint64_t seed)
{
	switch (seed % 4) {
	case 0:
		return (uint64_t)weir_random_exponential(random, 1e6);
	case 1:
		return weir_random_below(random, 40);
	case 2:
		return weir_random_u64(random) >> (23 + weir_random_below(random, 41));
	default:
		return (uint64_t)weir_random_pareto(random, 1e5, 1.2, 1e4);
	}
}

static void check_quantiles(const weir_hist *hist, uint64_t *values, size_t count, uint64_t seed)
{
	static const double quantiles[] = {0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1};
	qsort(values, count, sizeof(*values), compare);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		uint64_t exact = exact_quantile(values, count, quantiles[i]);
		assert_for_seed(seed, near(weir_hist_quantile(hist, quantiles[i]), exact));
	}
}

static void test_quantiles(void **state)
{
	static uint64_t values[VALUES];
	static weir_hist hist;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		weir_random random;
		double sum = 0;
		size_t count = seed < 40 ? seed : VALUES;
		weir_random_init(&random, seed);
		weir_hist_clear(&hist);
		for (size_t i = 0; i < count; i++) {
			values[i] = draw(&random, seed);
			sum += (double)values[i];
			weir_hist_add(&hist, values[i]);
		}
		assert_for_seed(seed, weir_hist_count(&hist) == count);
		assert_for_seed(seed, fabs(weir_hist_mean(&hist) - sum / (double)count) <=
					      0.016 * sum / (double)count + 1);
		check_quantiles(&hist, values, count, seed);
	}
}

/* Every bucket: its bounds meet its neighbours', and exactly its values fall into it. */
static void test_buckets_tile(void **state)
{
	for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++) {
		uint64_t low = weir_hist_low(i), high = weir_hist_high(i);
		assert_true(low < high);
		assert_int_equal(weir_hist_index(low), i);
		assert_int_equal(weir_hist_index(high - 1), i);
		if (i > 0)
			assert_int_equal(weir_hist_high(i - 1), low);
	}
	assert_int_equal(weir_hist_index(UINT64_MAX), WEIR_HIST_BUCKETS - 1);
}

/* A share is reached exactly, even where 0.07 * 100 comes out as a little more than 7. */
static void test_whole_shares(void **state)
{
	static weir_hist hist;
	for (int percent = 1; percent < 100; percent++) {
		weir_hist_clear(&hist);
		for (int i = 0; i < 100; i++)
			weir_hist_add(&hist, i >= percent);
		assert_int_equal(weir_hist_quantile(&hist, percent / 100.0), 0);
		assert_int_equal(weir_hist_quantile(&hist, percent / 100.0 + 0.001), 1);
	}
}

static void test_empty_and_huge(void **state)
{
	static weir_hist hist;
	assert_int_equal(weir_hist_quantile(&hist, 0.9), 0);
	assert_true(weir_hist_mean(&hist) == 0);
	weir_hist_add(&hist, UINT64_C(1) << 60);
	assert_true(weir_hist_quantile(&hist, 0.5) == weir_hist_low(WEIR_HIST_BUCKETS - 1));
}

/* The difference of two snapshots is what was added between them. */
static void test_window(void **state)
{
	static weir_hist all, before, window, expected;
	weir_random random;
	weir_random_init(&random, 7);
	for (int i = 0; i < 1000; i++)
		weir_hist_add(&all, weir_random_below(&random, 1000000));
	weir_hist_merge(&before, &all);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = weir_random_below(&random, 1000);
		weir_hist_add(&all, value);
		weir_hist_add(&expected, value);
	}
	weir_hist_merge(&window, &all);
	weir_hist_subtract(&window, &before);
	assert_memory_equal(window.bucket, expected.bucket, sizeof(window.bucket));
	for (double q = 0; q < 1; q += 0.1)
		assert_int_equal(weir_hist_quantile(&window, q), weir_hist_quantile(&expected, q));
}

static void *add_many(void *arg)
{
	for (uint64_t i = 0; i < 100000; i++)
		weir_hist_add_shared(arg, i);
	return NULL;
}

static void test_several_writers(void **state)
{
	static weir_hist hist;
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, &hist), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(weir_hist_count(&hist), 400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets_tile), cmocka_unit_test(test_empty_and_huge),
		cmocka_unit_test(test_whole_shares), cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_window),       cmocka_unit_test(test_several_writers),
	};
	return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
