/* SPDX-License-Identifier: Apache-2.0 */
/* Static thresholds, and SEDA's that follows a mean response time. */
#include "law_rig.h"

static void open_threshold(struct rig *rig, const weir_threshold_params *params)
{
	rig_open(rig, &weir_law_threshold, params);
}

static weir_verdict ask(struct rig *rig, unsigned klass, uint32_t waiting, uint32_t count)
{
	weir_ask a = {.klass = (uint8_t)klass, .waiting = waiting, .count = count};
	return rig->law->admit(rig->state, &a);
}

static void test_each_class_has_its_own(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.waiting = {[0] = 10, [1] = 5, [2] = 1}};
	open_threshold(&rig, &params);
	for (uint32_t waiting = 0; waiting < 20; waiting++)
		for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
			uint32_t most = params.waiting[klass];
			bool shed = most != 0 && waiting >= most;
			assert_int_equal(ask(&rig, klass, waiting, 1),
					 shed ? WEIR_SHED_THRESHOLD : WEIR_ADMITTED);
		}
	rig_close(&rig);
}

static void test_many_count_together(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.waiting = {10}};
	open_threshold(&rig, &params);
	assert_int_equal(ask(&rig, 0, 7, 3), WEIR_ADMITTED);
	assert_int_equal(ask(&rig, 0, 7, 4), WEIR_SHED_THRESHOLD);
	assert_int_equal(ask(&rig, 0, 1, UINT32_MAX), WEIR_SHED_THRESHOLD);
	rig_close(&rig);
}

/* Without a target, response times change nothing. */
static void test_static_ones_stay(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.waiting = {10}};
	open_threshold(&rig, &params);
	for (int i = 0; i < 20; i++)
		rig_window(&rig, 0, 100 * S);
	assert_int_equal(ask(&rig, 0, 9, 1), WEIR_ADMITTED);
	assert_int_equal(ask(&rig, 1, UINT32_MAX - 1, 1), WEIR_ADMITTED);
	assert_int_equal(rig_report(&rig, 1).count, 0);
	expect_near("threshold", rig_value(&rig, 0, "threshold"), 10);
	rig_close(&rig);
}

static double threshold_of(const struct rig *rig)
{
	return rig_value(rig, 0, "threshold");
}

static void test_falls_by_half_and_rises_by_ten(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.target_ns = S};
	open_threshold(&rig, &params);
	expect_near("threshold", threshold_of(&rig), 1024);
	rig_window(&rig, 0, 2 * S);
	expect_near("threshold", threshold_of(&rig), 512);
	rig_window(&rig, 0, S); /* just so */
	expect_near("threshold", threshold_of(&rig), 512);
	rig_window(&rig, 0, 100 * MS);
	expect_near("threshold", threshold_of(&rig), 522);
	assert_int_equal(ask(&rig, 5, 521, 1), WEIR_ADMITTED);
	assert_int_equal(ask(&rig, 5, 522, 1), WEIR_SHED_THRESHOLD);
	for (int i = 0; i < 100; i++)
		rig_window(&rig, 0, 100 * MS);
	expect_near("threshold", threshold_of(&rig), 1024);
	for (int i = 0; i < 20; i++)
		rig_window(&rig, 0, 2 * S);
	expect_near("threshold", threshold_of(&rig), 1);
	assert_int_equal(ask(&rig, 0, 0, 1), WEIR_ADMITTED);
	rig_close(&rig);
}

/* It is the mean that it follows, not a percentile. */
static void test_follows_the_mean(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.target_ns = S, .most = 100, .fall = 4, .rise = 1, .least = 3};
	open_threshold(&rig, &params);
	rig_tick(&rig, 0);
	rig_settle(&rig, 0, 60, 1500 * MS, WEIR_DONE);
	rig_settle(&rig, 0, 40, 100 * MS, WEIR_DONE);
	rig_tick(&rig, 100 * MS);
	assert_int_equal(rig_report(&rig, 0).measured_ns, 940 * MS);
	expect_near("threshold", threshold_of(&rig), 100);
	rig_window(&rig, 0, 2 * S);
	expect_near("threshold", threshold_of(&rig), 25);
	rig_window(&rig, 0, 2 * S);
	rig_window(&rig, 0, 2 * S);
	expect_near("threshold", threshold_of(&rig), 3);
	rig_window(&rig, 0, MS);
	expect_near("threshold", threshold_of(&rig), 4);
	rig_close(&rig);
}

static void test_a_window_ends_by_time(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.target_ns = S};
	open_threshold(&rig, &params);
	rig_tick(&rig, 0);
	rig_settle(&rig, 0, 1, 2 * S, WEIR_DONE);
	rig_tick(&rig, 900 * MS);
	expect_near("threshold", threshold_of(&rig), 1024);
	rig_tick(&rig, 100 * MS);
	expect_near("threshold", threshold_of(&rig), 512);
	rig_tick(&rig, 5 * S); /* nothing ended: nothing is known */
	expect_near("threshold", threshold_of(&rig), 512);
	rig_close(&rig);
}

static void test_a_class_may_have_less(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.waiting = {[1] = 7}, .target_ns = S, .most = 10};
	open_threshold(&rig, &params);
	assert_int_equal(ask(&rig, 0, 9, 1), WEIR_ADMITTED);
	assert_int_equal(ask(&rig, 1, 7, 1), WEIR_SHED_THRESHOLD);
	assert_int_equal(ask(&rig, 0, 10, 1), WEIR_SHED_THRESHOLD);
	rig_window(&rig, 0, 2 * S);
	assert_int_equal(ask(&rig, 1, 5, 1), WEIR_SHED_THRESHOLD);
	weir_ask a = {.klass = 1};
	weir_why why = {0};
	weir_law_threshold.explain(rig.state, &a, &why);
	assert_true(why.target_ns == S && why.estimate_ns == 2 * S);
	rig_close(&rig);
}

static void test_warm_start(void **state)
{
	struct rig rig;
	weir_threshold_params params = {.target_ns = S};
	open_threshold(&rig, &params);
	rig_window(&rig, 0, 2 * S);
	expect_saved(&rig, &params);
	assert_int_equal(weir_law_threshold.load(rig.state, "100000"), 0);
	expect_near("threshold", threshold_of(&rig), 1024);
	rig_close(&rig);
}

static void test_wants_parameters(void **state)
{
	expect_params(&weir_law_threshold);
	expect_refused(&weir_law_threshold, NULL, "parameters");
	expect_refused(&weir_law_threshold, &(weir_threshold_params){.target_ns = 1}, "1us");
	expect_refused(&weir_law_threshold, &(weir_threshold_params){.most = 5, .least = 6}, "least");
	expect_refused(&weir_law_threshold, &(weir_threshold_params){.fall = 1}, "fall");
	expect_refused(&weir_law_threshold, &(weir_threshold_params){.samples = 1001}, "samples");
	expect_refused(&weir_law_threshold, &(weir_threshold_params){.timeout_ns = 1}, "timeout");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_class_has_its_own),
		cmocka_unit_test(test_many_count_together),
		cmocka_unit_test(test_static_ones_stay),
		cmocka_unit_test(test_falls_by_half_and_rises_by_ten),
		cmocka_unit_test(test_follows_the_mean),
		cmocka_unit_test(test_a_window_ends_by_time),
		cmocka_unit_test(test_a_class_may_have_less),
		cmocka_unit_test(test_warm_start),
		cmocka_unit_test(test_wants_parameters),
	};
	return cmocka_run_group_tests_name("threshold", tests, NULL, NULL);
}
