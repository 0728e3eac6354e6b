/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote` before crowds of clients that ask without a pause, from cold: cells of bench/laws/closed.c that the law before its trials
 * with less (remote_probe.c) never refused anybody in, or served at a fraction of the capacity; and crowds that a backend can serve.
 */
#include "support/worlds.h"

#include <stdio.h>
#include <string.h>

#include "laws/closed.h"

static void expect_holds(const struct closed_cell *cell)
{
	struct closed_result result;
	char name[128];
	closed_cell_run(cell, "adaptive-remote", &result);
	closed_cell_name(cell, name, sizeof(name));
	if (!result.holds)
		fail_msg("%s: useful %.2f, shed %.3f, kept %.3f", name, result.useful, result.shed,
			 result.kept);
}

static const struct closed_cell usual = {.users = 40,
					 .workers = 2,
					 .think_ms = 1,
					 .mean_ms = 20,
					 .target_ms = 100,
					 .work = "exponential",
					 .discipline = "ps",
					 .seed = 1};

/* The number inside is constant, and nothing quicker was ever seen: only a trial with less tells that it is load. */
static void test_a_crowd_that_was_always_there(void **state)
{
	struct closed_cell cell = usual;
	for (cell.seed = 1; cell.seed <= 3; cell.seed++)
		expect_holds(&cell);
	cell.work = "deterministic";
	for (cell.seed = 1; cell.seed <= 3; cell.seed++)
		expect_holds(&cell);
}

/* Many come in before the limit. While they are answered late, the limit must not pay for them. */
static void test_a_large_crowd_does_not_ruin_the_limit(void **state)
{
	struct closed_cell cell = usual;
	cell.users = 600;
	cell.workers = 40;
	cell.mean_ms = 200;
	cell.target_ms = 500; /* a twelfth of the requests takes longer by itself */
	cell.discipline = "fifo";
	for (cell.seed = 1; cell.seed <= 3; cell.seed++)
		expect_holds(&cell);
	cell.ramp = true;
	for (cell.seed = 1; cell.seed <= 3; cell.seed++)
		expect_holds(&cell);
}

/* As in the bench's grid, one of ten or so serves a little less than it should: of five, one may. */
static void test_a_pool_of_200_and_a_thousand_users(void **state)
{
	struct closed_cell cell = usual;
	unsigned hold = 0;
	cell.users = 1000;
	cell.workers = 200;
	cell.mean_ms = 100;
	cell.target_ms = 250;
	cell.discipline = "fifo";
	cell.work = "lognormal";
	for (cell.seed = 1; cell.seed <= 5; cell.seed++) {
		struct closed_result result;
		closed_cell_run(&cell, "adaptive-remote", &result);
		hold += result.holds;
		assert_true(result.useful > .5);
	}
	assert_true(hold >= 4);
}

static void test_a_crowd_that_fits_is_left_alone(void **state)
{
	const struct closed_cell *cell;
	for (unsigned i = 0; (cell = closed_cell_at("healthy", i)) != NULL; i += 5)
		expect_holds(cell);
}

/* As many as may be late are late by their own times already. */
static void test_a_target_that_is_hardly_in_reach(void **state)
{
	struct closed_cell cell = usual;
	cell.users = cell.workers = 40;
	cell.mean_ms = 400;
	cell.target_ms = 925; /* the p90 alone is 921 ms */
	cell.discipline = "fifo";
	cell.healthy = true;
	for (cell.seed = 1; cell.seed <= 3; cell.seed++)
		expect_holds(&cell);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CHECK_TEST(test_a_crowd_that_was_always_there),
		CHECK_TEST(test_a_large_crowd_does_not_ruin_the_limit),
		CHECK_TEST(test_a_pool_of_200_and_a_thousand_users),
		CHECK_TEST(test_a_crowd_that_fits_is_left_alone),
		CHECK_TEST(test_a_target_that_is_hardly_in_reach),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
