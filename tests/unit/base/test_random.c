/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include <weir/random.h>

#define DRAWS 100000

/* Computed apart from the definitions of splitmix64 and xoshiro256**. */
static void test_known_numbers(void **state)
{
	static const struct {
		uint64_t seed, number[3];
	} known[] = {
		{0, {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0}},
		{1, {0xb3f2af6d0fc710c5, 0x853b559647364cea, 0x92f89756082a4514}},
		{12345, {0xbe6a36374160d49b, 0x214aaa0637a688c6, 0xf69d16de9954d388}},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		weir_random random;
		weir_random_init(&random, known[i].seed);
		for (int j = 0; j < 3; j++)
			assert_int_equal(weir_random_u64(&random), known[i].number[j]);
	}
}

static double draw_any(weir_random *random, unsigned kind)
{
	switch (kind) {
	case 0:
		return weir_random_exponential(random, 3);
	case 1:
		return 3 + weir_random_normal(random);
	case 2:
		return weir_random_lognormal(random, 3, 0.7);
	case 3:
		return weir_random_bimodal(random, 3, 0.05, 20);
	default:
		return weir_random_pareto(random, 3, 0.5 * (kind - 4), 1000);
	}
}

#define KINDS 11 /* Pareto with shapes 0, 0.5, 1 ... 3 */

/* A mean of many draws is the mean asked for, within six standard errors. */
static void check_mean(unsigned kind, uint64_t seed)
{
	weir_random random;
	double sum = 0, squares = 0;
	weir_random_init(&random, seed);
	for (int i = 0; i < DRAWS; i++) {
		double x = draw_any(&random, kind);
		sum += x;
		squares += x * x;
	}
	double mean = sum / DRAWS, variance = squares / DRAWS - mean * mean;
	if (!(fabs(mean - 3) <= 6 * sqrt(variance / DRAWS)))
		fail_msg("kind %u, seed %" PRIu64 ": mean %g", kind, seed, mean);
}

static void test_means(void **state)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		for (uint64_t seed = 1; seed <= 4; seed++)
			check_mean(kind, seed);
}

/* Shares below the quantiles of the exponential and normal distributions. */
static void test_shapes(void **state)
{
	static const double normal_at[] = {-2.3263478740, -0.6744897502, 0, 0.6744897502, 1.2815515655};
	static const double share[] = {0.01, 0.25, 0.5, 0.75, 0.9};
	for (uint64_t seed = 1; seed <= 8; seed++) {
		weir_random random;
		int normal[5] = {0}, exponential[5] = {0};
		weir_random_init(&random, seed);
		for (int i = 0; i < DRAWS; i++) {
			double x = weir_random_normal(&random), y = weir_random_exponential(&random, 1);
			for (int j = 0; j < 5; j++) {
				normal[j] += x <= normal_at[j];
				exponential[j] += y <= -log1p(-share[j]);
			}
		}
		for (int j = 0; j < 5; j++) {
			double error = 6 * sqrt(share[j] * (1 - share[j]) / DRAWS);
			assert_for_seed(seed, fabs((double)normal[j] / DRAWS - share[j]) <= error);
			assert_for_seed(seed, fabs((double)exponential[j] / DRAWS - share[j]) <= error);
		}
	}
}

/* The low bound by the textbook's formula; the whole range is used, and no more. */
static void check_pareto(double alpha, double ratio, uint64_t seed)
{
	double low = alpha == 1
			     ? (1 - 1 / ratio) / log(ratio)
			     : (alpha - 1) / alpha * (1 - pow(ratio, -alpha)) / (1 - pow(ratio, 1 - alpha));
	double smallest = INFINITY, largest = 0;
	weir_random random;
	weir_random_init(&random, seed);
	for (int i = 0; i < DRAWS; i++) {
		double x = weir_random_pareto(&random, 1, alpha, ratio);
		smallest = fmin(smallest, x);
		largest = fmax(largest, x);
	}
	assert_for_seed(seed, smallest >= low * (1 - 1e-9) && smallest <= low * 1.001);
	assert_for_seed(seed, largest <= low * ratio * (1 + 1e-9));
	/* The largest of n exceeds this but for one run in e^20. */
	double tail = 20.0 / DRAWS;
	double likely = low * pow(1 - (1 - tail) * (1 - pow(ratio, -alpha)), -1 / alpha);
	assert_for_seed(seed, largest >= likely);
}

static void test_pareto(void **state)
{
	static const double alphas[] = {0.5, 0.9, 0.99999, 1, 1.00001, 1.1, 1.5, 2, 3};
	static const double ratios[] = {2, 100, 1e4, 1e6};
	for (size_t i = 0; i < sizeof(alphas) / sizeof(*alphas); i++)
		for (size_t j = 0; j < sizeof(ratios) / sizeof(*ratios); j++)
			check_pareto(alphas[i], ratios[j], 10 * i + j);
	weir_random random;
	weir_random_init(&random, 1);
	assert_true(weir_random_pareto(&random, 5, 1.1, 1) == 5);
}

/* As good as the C library's functions, though not equal to the last bit. */
static void test_logarithm_and_exponential(void **state)
{
	weir_random random, same;
	weir_random_init(&random, 3);
	same = random;
	for (int i = 0; i < DRAWS; i++) {
		double got = weir_random_exponential(&random, 1), exact = -log1p(-weir_random_unit(&same));
		assert_true(fabs(got - exact) <= 1e-15 + 1e-14 * exact);
	}
	same = random;
	for (int i = 0; i < DRAWS; i++) {
		double got = weir_random_lognormal(&random, 1, 3);
		double exact = exp(3 * weir_random_normal(&same) - 4.5);
		assert_true(fabs(got - exact) <= 1e-13 * exact);
	}
}

/* Chi square over the remainders of an awkward bound: 999 degrees of freedom, far beyond chance above 1300. */
static void test_below(void **state)
{
	enum { BOUND = 1000 };
	for (uint64_t seed = 1; seed <= 8; seed++) {
		weir_random random;
		int count[BOUND] = {0};
		double chi = 0;
		weir_random_init(&random, seed);
		for (int i = 0; i < DRAWS; i++)
			count[weir_random_below(&random, BOUND)]++;
		for (int i = 0; i < BOUND; i++)
			chi += pow(count[i] - (double)DRAWS / BOUND, 2) / ((double)DRAWS / BOUND);
		assert_for_seed(seed, chi > 750 && chi < 1300);
	}
}

/* With a bound of 3/4 of all numbers a biased method gives a third of the values twice as often. */
static void test_below_large_bound(void **state)
{
	weir_random random;
	uint64_t bound = UINT64_C(3) << 62;
	int low = 0;
	weir_random_init(&random, 1);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t x = weir_random_below(&random, bound);
		assert_true(x < bound);
		low += x % 3 == 0;
	}
	assert_true(fabs((double)low / DRAWS - 1.0 / 3) < 0.01);
	assert_int_equal(weir_random_below(&random, 0), 0);
	assert_int_equal(weir_random_below(&random, 1), 0);
}

static void test_unit(void **state)
{
	weir_random random;
	weir_random_init(&random, 9);
	for (int i = 0; i < DRAWS; i++) {
		double x = weir_random_unit(&random);
		assert_true(x >= 0 && x < 1);
	}
}

/* The same on every machine, to the last bit: printed once, kept for ever. */
static void test_same_everywhere(void **state)
{
	uint64_t hash = 0;
	weir_random random;
	weir_random_init(&random, 2026);
	for (int i = 0; i < 10000; i++)
		for (unsigned kind = 0; kind < KINDS; kind++) {
			uint64_t bits;
			double x = draw_any(&random, kind);
			memcpy(&bits, &x, sizeof(bits));
			hash = (hash ^ bits) * UINT64_C(0x100000001b3);
		}
	assert_int_equal(hash, UINT64_C(0x5ea81ef2160a870e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_numbers),   cmocka_unit_test(test_unit),
		cmocka_unit_test(test_below),           cmocka_unit_test(test_below_large_bound),
		cmocka_unit_test(test_shapes),          cmocka_unit_test(test_means),
		cmocka_unit_test(test_pareto),          cmocka_unit_test(test_logarithm_and_exponential),
		cmocka_unit_test(test_same_everywhere),
	};
	return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
