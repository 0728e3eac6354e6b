/* SPDX-License-Identifier: Apache-2.0 */
/* The quality factor beside a law: by itself, and as the two adaptive laws have it. */
#include "law_rig.h"

#include "control/degrade.h"

#define TICK_S .01

static void steps(weir_degrade *degrade, double seconds, double room, double target_s)
{
	weir_degrade_sample sample = {.interval_s = TICK_S, .target_s = target_s, .least = .3, .room = room};
	for (double at = 0; at < seconds; at += TICK_S)
		weir_degrade_step(degrade, &sample);
}

static weir_degrade fresh(void)
{
	weir_degrade degrade;
	memset(&degrade, 0x5a, sizeof(degrade));
	weir_degrade_init(&degrade);
	assert_true(weir_degrade_factor(&degrade) == 1);
	return degrade;
}

static void test_it_is_the_best_while_there_is_room(void **state)
{
	weir_degrade degrade = fresh();
	steps(&degrade, 100, .5, .2);
	assert_true(weir_degrade_factor(&degrade) == 1);
	steps(&degrade, 100, 0, .2);
	assert_true(weir_degrade_factor(&degrade) == 1);
}

/* Before anybody is shed, that is at a room of less than 1. */
static void test_it_falls_before_the_room_is_used_up(void **state)
{
	weir_degrade degrade = fresh();
	steps(&degrade, 1, .8, .2);
	double first = weir_degrade_factor(&degrade);
	assert_true(first < .95 && first > .3);
	steps(&degrade, 1, .8, .2);
	assert_true(weir_degrade_factor(&degrade) < first);
	steps(&degrade, 60, .8, .2);
	assert_true(weir_degrade_factor(&degrade) == .3); /* and not below what was said to be the lowest */
}

static void test_it_rests_within_the_band(void **state)
{
	weir_degrade degrade = fresh();
	steps(&degrade, 1, 1.25, .2);
	steps(&degrade, 1, .5, .2);
	double before = weir_degrade_factor(&degrade);
	assert_true(before < 1);
	steps(&degrade, 10, .58, .2);
	steps(&degrade, 10, .42, .2);
	expect_near("quality", weir_degrade_factor(&degrade), before);
}

static void test_it_is_back_in_seconds_whatever_the_target(void **state)
{
	static const double targets[] = {.01, .2, 2, 60};
	for (unsigned i = 0; i < 4; i++) {
		weir_degrade degrade = fresh();
		steps(&degrade, 10, 1.25, targets[i]);
		assert_true(weir_degrade_factor(&degrade) == .3);
		steps(&degrade, 1, 0, targets[i]);
		double then = weir_degrade_factor(&degrade);
		assert_true(targets[i] < .2 ||
			    then < 1); /* not at once, or it would be back at the other end */
		steps(&degrade, 7, 0, targets[i]);
		assert_true(weir_degrade_factor(&degrade) == 1);
	}
}

/* After a pause without events the laws tick once, with all of it as the interval. */
static void test_a_long_pause_is_one_step(void **state)
{
	weir_degrade degrade = fresh();
	steps(&degrade, 10, 1.25, .2);
	weir_degrade_step(&degrade, &(weir_degrade_sample){.interval_s = 60, .target_s = .2, .least = .3});
	assert_true(weir_degrade_factor(&degrade) == 1);
}

static void test_nonsense_stays_between_the_bounds(void **state)
{
	static const double rooms[] = {-1, 0, 1e300, NAN, INFINITY};
	weir_degrade degrade = fresh();
	for (unsigned i = 0; i < 5; i++) {
		steps(&degrade, 1, rooms[i], .2);
		double factor = weir_degrade_factor(&degrade);
		assert_true(factor >= .3 && factor <= 1);
	}
}

/* ---- as the laws have it; what they ask for: tests/sim/test_degrade.c, test_adaptive_remote.c ---- */

static void test_the_lowest_is_checked(void **state)
{
	static const weir_admission_law *const laws[] = {&weir_law_adaptive, &weir_law_adaptive_remote};
	for (unsigned i = 0; i < 2; i++) {
		void *params = calloc(1, laws[i]->params_bytes);
		weir_law_defaults(laws[i], params);
		assert_int_equal(0, weir_law_set(laws[i], params, "target", "200ms"));
		assert_int_equal(weir_law_set(laws[i], params, "quality_min", "0"), -EINVAL);
		assert_int_equal(weir_law_set(laws[i], params, "quality_min", "1.5"), -EINVAL);
		assert_int_equal(0, weir_law_set(laws[i], params, "quality_min", ".3"));
		assert_int_equal(0, weir_law_check(laws[i], params));
		free(params);
	}
	weir_adaptive_remote_params remote = {.percentile = .9, .target_ns = {200 * MS}, .quality_min = NAN};
	assert_int_equal(weir_law_check(&weir_law_adaptive_remote, &remote), -EINVAL);
	weir_adaptive_params own = {.target_ns = {200 * MS}, .quality_min = -1};
	assert_int_equal(weir_law_check(&weir_law_adaptive, &own), -EINVAL);
	own.quality_min = 0; /* nobody said anything */
	assert_int_equal(0, weir_law_check(&weir_law_adaptive, &own));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_the_best_while_there_is_room),
		cmocka_unit_test(test_it_falls_before_the_room_is_used_up),
		cmocka_unit_test(test_it_rests_within_the_band),
		cmocka_unit_test(test_it_is_back_in_seconds_whatever_the_target),
		cmocka_unit_test(test_a_long_pause_is_one_step),
		cmocka_unit_test(test_nonsense_stays_between_the_bounds),
		cmocka_unit_test(test_the_lowest_is_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
