/* SPDX-License-Identifier: Apache-2.0 */
/* How long requests take, in steps: what the middle, quantiles and the missing do. */
#include "support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "control/times.h"

#define STEP .12 /* half of the widest step, as a logarithm, and a little */

static weir_times times;
static weir_times_sum sum;

static void fill(const double *ms, const unsigned *counts, unsigned kinds)
{
	memset(&times, 0, sizeof(times));
	memset(&sum, 0, sizeof(sum));
	for (unsigned k = 0; k < kinds; k++)
		for (unsigned i = 0; i < counts[k]; i++)
			weir_times_add(&times, (uint64_t)(ms[k] * 1e6));
}

static bool near(double ln, double ms)
{
	return fabs(ln - log(ms * 1e6)) <= STEP;
}

static void nothing_is_known_of_nothing(void **state)
{
	memset(&sum, 0, sizeof(sum));
	assert_true(isinf(weir_times_middle(&sum)));
	assert_true(isinf(weir_times_quantile(&sum, .5)));
	assert_true(weir_times_spread(&sum) == 0);
	assert_true(weir_times_above(&sum, 10) == 0);
}

static void every_time_has_a_step(void **state)
{
	static const double ms[] = {0, .0005, .001, 1, 1000, 1e6, 1e12};
	for (unsigned i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		fill(&ms[i], (const unsigned[]){10}, 1);
		weir_times_sum_up(&sum, &times, 0);
		assert_true(sum.seen == 10 && sum.all == 10);
		assert_true(isfinite(weir_times_middle(&sum)));
		if (ms[i] >= .002 && ms[i] <= 1e6)
			assert_true(near(weir_times_middle(&sum), ms[i]) &&
				    near(weir_times_quantile(&sum, .5), ms[i]));
	}
}

static void a_minority_does_not_move_the_middle(void **state)
{
	fill((const double[]){10, 1000}, (const unsigned[]){80, 20}, 2);
	weir_times_sum_up(&sum, &times, 0);
	assert_true(near(weir_times_middle(&sum), 10));
	assert_true(near(weir_times_quantile(&sum, .9), 1000));
	assert_true(fabs(weir_times_above(&sum, log(100e6)) - .2) < 1e-9);
	/* Where half are slow it is between both, and does not jump. */
	fill((const double[]){10, 1000}, (const unsigned[]){51, 49}, 2);
	weir_times_sum_up(&sum, &times, 0);
	double ln = weir_times_middle(&sum);
	assert_true(ln > log(50e6) && ln < log(200e6));
}

static void the_missing_are_longer_than_all(void **state)
{
	fill((const double[]){10, 40}, (const unsigned[]){30, 30}, 2);
	weir_times_sum_up(&sum, &times, .4); /* 60 of 100 have ended */
	assert_true(sum.seen == 60 && fabs(sum.all - 100) < 1e-9);
	assert_true(near(weir_times_quantile(&sum, .25), 10) && near(weir_times_quantile(&sum, .5), 40));
	assert_true(isinf(weir_times_quantile(&sum, .9)));
	assert_true(fabs(weir_times_above(&sum, log(100e6)) - .4) < 1e-9);
}

static void the_spread_is_that_of_the_logarithms(void **state)
{
	fill((const double[]){1, 2, 4, 8}, (const unsigned[]){25, 25, 25, 25}, 4);
	weir_times_sum_up(&sum, &times, 0);
	assert_true(fabs(weir_times_spread(&sum) - log(4) / 1.35) < .35);
	fill((const double[]){5}, (const unsigned[]){100}, 1);
	weir_times_sum_up(&sum, &times, 0);
	assert_true(weir_times_spread(&sum) < .15);
}

static void old_counts_fade(void **state)
{
	fill((const double[]){10}, (const unsigned[]){1000}, 1);
	weir_times_fade(&times, 256);
	weir_times_sum_up(&sum, &times, 0);
	assert_true(sum.seen > 200 && sum.seen <= 256);
	weir_times_fade(&times, 256);
	memset(&sum, 0, sizeof(sum));
	weir_times_sum_up(&sum, &times, 0);
	assert_true(sum.seen > 200); /* once is enough */
	for (unsigned i = 0; i < 300; i++)
		weir_times_add(&times, UINT64_C(100000000));
	weir_times_fade(&times, 256);
	memset(&sum, 0, sizeof(sum));
	weir_times_sum_up(&sum, &times, 0);
	assert_true(near(weir_times_quantile(&sum, .75), 100)); /* what is new has more weight */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_of_nothing),
		cmocka_unit_test(every_time_has_a_step),
		cmocka_unit_test(a_minority_does_not_move_the_middle),
		cmocka_unit_test(the_missing_are_longer_than_all),
		cmocka_unit_test(the_spread_is_that_of_the_logarithms),
		cmocka_unit_test(old_counts_fade),
	};
	return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
