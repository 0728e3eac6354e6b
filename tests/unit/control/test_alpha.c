/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting alpha: the known one is found, its error covers it, and what cannot tell is refused. */
#include "control/alpha.h"

#include <math.h>
#include <weir/random.h>

#include "support/unit.h"

#define SEEDS 200u

/* Requests of a server with this alpha, whose times have an error of `noise` of a millisecond. */
static void make(weir_alpha *alpha, uint64_t seed, double truth, double noise)
{
	weir_random random;
	weir_random_init(&random, seed);
	for (unsigned i = 0; i < 50; i++) {
		double cpu_s = 1e-3 + 20e-3 * weir_random_unit(&random),
		       io_s = 50e-3 * weir_random_unit(&random),
		       error_s = noise * 1e-3 * (weir_random_unit(&random) - .5);
		weir_alpha_add(alpha, cpu_s + truth * io_s + error_s, cpu_s, io_s);
	}
}

static void finds_the_true_one(void **state)
{
	weir_alpha alpha = {0};
	double fitted, error;
	make(&alpha, 1, .8, 0);
	assert_true(weir_alpha_fit(&alpha, &fitted, &error));
	assert_true(fabs(fitted - .8) < 1e-9);
	assert_true(error < 1e-6);
}

static void the_error_covers_it(void **state)
{
	unsigned covered = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		weir_alpha alpha = {0};
		double fitted, error;
		make(&alpha, seed, 1.3, 5);
		assert_for_seed(seed, weir_alpha_fit(&alpha, &fitted, &error));
		assert_for_seed(seed, error > 0 && error < .1);
		covered += fabs(fitted - 1.3) <= 2 * error;
	}
	/* Two standard errors cover 95 of 100. */
	assert_in_range(covered, SEEDS * 88 / 100, SEEDS);
}

static void says_when_it_cannot_tell(void **state)
{
	weir_alpha alpha = {0};
	double fitted = 7, error = 7;
	assert_false(weir_alpha_fit(&alpha, &fitted, &error));
	for (unsigned i = 0; i < 100; i++)
		weir_alpha_add(&alpha, 5e-3, 4e-3, 0);
	assert_false(weir_alpha_fit(&alpha, &fitted, &error));
	alpha = (weir_alpha){0};
	weir_alpha_add(&alpha, 5e-3, 4e-3, 1e-3);
	weir_alpha_add(&alpha, 5e-3, 4e-3, 1e-3);
	assert_false(weir_alpha_fit(&alpha, &fitted, &error));
	assert_true(fitted == 7 && error == 7);
}

static void ignores_what_is_no_time(void **state)
{
	weir_alpha alpha = {0};
	weir_alpha_add(&alpha, NAN, 1, 1);
	weir_alpha_add(&alpha, 1, -1, 1);
	weir_alpha_add(&alpha, 1, 1, INFINITY);
	assert_true(alpha.count == 0 && alpha.io_io == 0);
}

static void follows_a_server_that_changes(void **state)
{
	weir_alpha alpha = {0};
	double fitted, error;
	for (unsigned i = 0; i < 1000; i++)
		weir_alpha_add_fading(&alpha, .011, .001, .01, 64);
	assert_true(weir_alpha_fit(&alpha, &fitted, &error) && fabs(fitted - 1) < 1e-6);
	for (unsigned i = 0; i < 640; i++)
		weir_alpha_add_fading(&alpha, .021, .001, .01, 64);
	assert_true(weir_alpha_fit(&alpha, &fitted, &error) && fabs(fitted - 2) < .01);
}

static void is_bounded(void **state)
{
	weir_alpha alpha = {0};
	double fitted, error;
	for (unsigned i = 0; i < 10; i++)
		weir_alpha_add(&alpha, 1000, 0, 1e-3);
	assert_true(weir_alpha_fit(&alpha, &fitted, &error) && fitted == WEIR_ALPHA_MOST);
	alpha = (weir_alpha){0};
	for (unsigned i = 0; i < 10; i++)
		weir_alpha_add(&alpha, 0, 1, 1);
	assert_true(weir_alpha_fit(&alpha, &fitted, &error) && fitted == WEIR_ALPHA_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_true_one),
		cmocka_unit_test(the_error_covers_it),
		cmocka_unit_test(says_when_it_cannot_tell),
		cmocka_unit_test(ignores_what_is_no_time),
		cmocka_unit_test(follows_a_server_that_changes),
		cmocka_unit_test(is_bounded),
	};
	return cmocka_run_group_tests_name("alpha", tests, NULL, NULL);
}
