/* SPDX-License-Identifier: Apache-2.0 */
/* Cutoffs: the paper's five, and eight that follow the answers by the paper's rule. */
#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include <weir/random.h>

#include "base/error.h"
#include "net/band.h"
#include "net/cutoffs.h"

#define SEEDS   20u
#define ANSWERS (WEIR_CUTOFFS_EVERY * 8u)
#define THREADS 4u

static void test_five_are_the_papers(void **state)
{
	static const struct {
		uint64_t left;
		unsigned band;
	} cases[] = {{0, 0},    {1, 0},    {1024, 0},  {1025, 1},  {2048, 1},      {2049, 2},
		     {5120, 2}, {5121, 3}, {51200, 3}, {51201, 4}, {UINT64_MAX, 4}};
	weir_cutoffs cutoffs;
	assert_int_equal(weir_cutoffs_init(&cutoffs, 5), 0);
	for (unsigned i = 0; i < ANSWERS; i++)
		weir_cutoffs_observe(&cutoffs, 1000000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(weir_cutoffs_band(&cutoffs, cases[i].left), cases[i].band);
	assert_int_equal(weir_cutoffs_bands(&cutoffs), 5);
	assert_int_equal(weir_cutoffs_at(&cutoffs, 3), 51200);
	assert_true(weir_cutoffs_at(&cutoffs, 4) == UINT64_MAX);
	assert_true(weir_cutoffs_at(&cutoffs, 1000) == UINT64_MAX);
}

static void test_other_numbers_are_refused(void **state)
{
	weir_cutoffs cutoffs;
	assert_int_equal(weir_cutoffs_init(&cutoffs, 0), -22);
	assert_int_equal(weir_cutoffs_init(&cutoffs, 6), -22);
	assert_int_equal(weir_cutoffs_init(&cutoffs, UINT32_MAX), -22);
	assert_non_null(strstr(weir_error(), "5 with fixed cutoffs"));
}

static void check_order(const weir_cutoffs *cutoffs, uint64_t seed)
{
	for (unsigned i = 0; i + 2 < weir_cutoffs_bands(cutoffs); i++)
		assert_for_seed(seed, weir_cutoffs_at(cutoffs, i) <= weir_cutoffs_at(cutoffs, i + 1));
	assert_for_seed(seed, weir_cutoffs_at(cutoffs, 0) >= WEIR_CUTOFFS_LOWEST);
	assert_for_seed(seed,
			weir_cutoffs_at(cutoffs, weir_cutoffs_bands(cutoffs) - 2) <= WEIR_CUTOFFS_HIGHEST);
}

/* Before anything is known, they are log-spaced from 1 KB to 50 KB. */
static void test_eight_begin_log_spaced(void **state)
{
	weir_cutoffs cutoffs;
	assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
	assert_int_equal(weir_cutoffs_at(&cutoffs, 0), 1024);
	assert_int_equal(weir_cutoffs_at(&cutoffs, 6), 51200);
	for (unsigned i = 0; i < 6; i++) {
		double step = (double)weir_cutoffs_at(&cutoffs, i + 1) / (double)weir_cutoffs_at(&cutoffs, i);
		assert_true(fabs(step - pow(50, 1 / 6.)) < .01);
	}
	for (unsigned i = 0; i < WEIR_CUTOFFS_FIRST - 1; i++)
		weir_cutoffs_observe(&cutoffs, 10);
	assert_int_equal(weir_cutoffs_at(&cutoffs, 0), 1024);
	weir_cutoffs_observe(&cutoffs, 10);
	assert_int_equal(weir_cutoffs_at(&cutoffs, 0), WEIR_CUTOFFS_LOWEST);
}

/* Heavy-tailed sizes: half of them are in the first band, 0.5 to 1 % in the last. */
static void test_eight_follow_the_rule(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		static weir_cutoffs cutoffs;
		weir_random random;
		unsigned first = 0, last = 0;
		double scale = pow(10, 3 + (double)(seed % 4));
		weir_random_init(&random, seed);
		assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
		for (unsigned i = 0; i < ANSWERS; i++)
			weir_cutoffs_observe(&cutoffs,
					     (uint64_t)weir_random_pareto(&random, scale, 1.2, 1e4));
		for (unsigned i = 0; i < ANSWERS; i++) {
			uint64_t size = (uint64_t)weir_random_pareto(&random, scale, 1.2, 1e4);
			unsigned band = weir_cutoffs_band(&cutoffs, size);
			first += band == 0;
			last += band == 7;
		}
		check_order(&cutoffs, seed);
		assert_for_seed(seed, first > ANSWERS * .46 && first < ANSWERS * .58);
		assert_for_seed(seed, last > ANSWERS * .0025 && last < ANSWERS * .012);
	}
}

/* Sizes change by a factor of 100: after a few learnings the cutoffs have followed. */
static void test_eight_adapt(void **state)
{
	weir_cutoffs cutoffs;
	weir_random random;
	weir_random_init(&random, 1);
	assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
	for (unsigned i = 0; i < ANSWERS; i++)
		weir_cutoffs_observe(&cutoffs, (uint64_t)weir_random_exponential(&random, 1e4));
	uint64_t before = weir_cutoffs_at(&cutoffs, 0);
	for (unsigned i = 0; i < ANSWERS; i++)
		weir_cutoffs_observe(&cutoffs, (uint64_t)weir_random_exponential(&random, 1e6));
	double factor = (double)weir_cutoffs_at(&cutoffs, 0) / (double)before;
	assert_true(factor > 70 && factor < 130);
}

/* Where the largest have one size, all of them are in the last band: they share it. */
static void test_ties_at_the_top(void **state)
{
	weir_cutoffs cutoffs;
	assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
	for (unsigned i = 0; i < ANSWERS; i++)
		weir_cutoffs_observe(&cutoffs, i % 20 == 0 ? 60349 : 2000);
	assert_int_equal(weir_cutoffs_band(&cutoffs, 60349), 7);
	assert_int_equal(weir_cutoffs_band(&cutoffs, 2000), 0);
}

/* Sizes that a peer could choose: nothing, the largest number, all the same. */
static void test_extremes(void **state)
{
	static const uint64_t sizes[] = {0, 1, 7, 8, 15, 16, 255, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		weir_cutoffs cutoffs;
		assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
		for (unsigned k = 0; k < ANSWERS; k++)
			weir_cutoffs_observe(&cutoffs, sizes[i]);
		check_order(&cutoffs, i);
		assert_true(weir_cutoffs_band(&cutoffs, sizes[i]) < 8);
		assert_int_equal(weir_cutoffs_band(&cutoffs, 0), 0);
		assert_int_equal(weir_cutoffs_band(&cutoffs, UINT64_MAX), 7);
	}
}

/* Less is never later. */
static void test_band_is_monotonic(void **state)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		weir_cutoffs cutoffs;
		weir_random random;
		weir_random_init(&random, seed);
		assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
		for (unsigned i = 0; i < ANSWERS; i++)
			weir_cutoffs_observe(&cutoffs,
					     weir_random_u64(&random) >> weir_random_below(&random, 64));
		check_order(&cutoffs, seed);
		for (unsigned shift = 0, before = 0; shift < 64; shift++) {
			unsigned band = weir_cutoffs_band(&cutoffs, UINT64_C(1) << shift);
			assert_for_seed(seed, band >= before && band < 8);
			before = band;
		}
	}
}

static void *observe_many(void *arg)
{
	weir_cutoffs *cutoffs = arg;
	weir_random random;
	weir_random_init(&random, (uint64_t)(uintptr_t)&random);
	for (unsigned i = 0; i < ANSWERS; i++) {
		weir_cutoffs_observe(cutoffs, (uint64_t)weir_random_pareto(&random, 1000, 1.2, 1e4));
		if (weir_cutoffs_band(cutoffs, i) >= 8)
			return arg;
	}
	return NULL;
}

static void test_threads(void **state)
{
	static weir_cutoffs cutoffs;
	pthread_t thread[THREADS];
	assert_int_equal(weir_cutoffs_init(&cutoffs, 8), 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, observe_many, &cutoffs), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *wrong = NULL;
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	check_order(&cutoffs, 0);
	/* Halved at each learning: no bucket wrapped below zero. */
	for (unsigned i = 0; i < WEIR_CUTOFFS_BUCKETS; i++)
		assert_true(cutoffs.bucket[i] <= THREADS * ANSWERS);
}

/* Every band has a class and a plain value; the classes differ, and no plain one needs a privilege. */
static void test_bands_as_priorities(void **state)
{
	for (unsigned band = 0; band < WEIR_BANDS_MOST; band++) {
		assert_int_equal((uint32_t)weir_band_class(band) >> 16, 0x5752);
		assert_in_range(weir_band_plain(band), 1, 6);
		assert_in_range(weir_band_nibble(band), 1, 15);
		for (unsigned other = 0; other < band; other++) {
			assert_int_not_equal(weir_band_class(band), weir_band_class(other));
			assert_true(weir_band_plain(band) <= weir_band_plain(other));
		}
	}
	assert_int_equal(weir_band_class(0), 0x57520016);
	assert_int_equal(weir_band_class(7), 0x57520019);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_five_are_the_papers),
		cmocka_unit_test(test_other_numbers_are_refused),
		cmocka_unit_test(test_eight_begin_log_spaced),
		cmocka_unit_test(test_eight_follow_the_rule),
		cmocka_unit_test(test_eight_adapt),
		cmocka_unit_test(test_ties_at_the_top),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_band_is_monotonic),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_bands_as_priorities),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
