/* SPDX-License-Identifier: Apache-2.0 */
/* AOC 3.3: who is cut, who waits, who may rise. */
#include "law_rig.h"

static weir_multiclass_params params_of(uint64_t target_ns, double rate_start)
{
	weir_multiclass_params params;
	weir_law_defaults(&weir_law_multiclass, &params);
	params.target_ns[0] = target_ns;
	params.tuning.rate_start = rate_start;
	params.tuning.alpha = 0; /* so that a window says what it says */
	return params;
}

static void open_multiclass(struct rig *rig, uint64_t target_ns, double rate_start)
{
	weir_multiclass_params params = params_of(target_ns, rate_start);
	rig_open(rig, &weir_law_multiclass, &params);
	rig_tick(rig, 0);
	for (unsigned k = 0; k < 3; k++) /* three classes are in use */
		assert_int_equal(rig_ask(rig, k, 1), WEIR_ADMITTED);
}

static void expect_rates(const struct rig *rig, double first, double second, double third)
{
	expect_near("the rate of class 0", rig_rate(rig, 0), first);
	expect_near("the rate of class 1", rig_rate(rig, 1), second);
	expect_near("the rate of class 2", rig_rate(rig, 2), third);
}

static void test_defaults_are_the_papers(void **state)
{
	weir_multiclass_params p;
	weir_law_defaults(&weir_law_multiclass, &p);
	assert_true(p.adjlo_d == 10 && p.lc_thresh == 20 && p.tuning.adj_d == 1.2);
	assert_ptr_equal(weir_law_find("multiclass"), &weir_law_multiclass);
	expect_params(&weir_law_multiclass);
}

static void test_lower_classes_are_cut_by_ten_first(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	rig_window(&rig, 0, 2 * S);
	expect_rates(&rig, 100, 10, 10);
	rig_window(&rig, 1, 2 * S);
	expect_rates(&rig, 100, 10, 1);
	rig_window(&rig, 0, 2 * S);
	expect_rates(&rig, 100, 1, .1);
	rig_window(&rig, 0, 2 * S);
	rig_window(&rig, 0, 2 * S); /* from .1 and .05 */
	expect_rates(&rig, 100, .05, .05);
	expect_near("lag", rig_value(&rig, 0, "lag"), 0);
	rig_close(&rig);
}

static void test_a_class_is_cut_after_twenty_windows_of_lag(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	for (int i = 0; i < 4; i++)
		rig_window(&rig, 0, 2 * S);
	for (int i = 1; i < 20; i++) {
		rig_window(&rig, 0, 2 * S);
		expect_near("lag", rig_value(&rig, 0, "lag"), i);
		expect_rates(&rig, 100, .05, .05);
	}
	rig_window(&rig, 0, 2 * S);
	expect_rates(&rig, 100 / 1.2, .05, .05);
	rig_window(&rig, 0, 2 * S);
	expect_rates(&rig, 100 / 1.44, .05, .05);
	rig_window(&rig, 0, 800 * MS); /* within its target: the lag begins anew */
	expect_near("lag", rig_value(&rig, 0, "lag"), 0);
	rig_window(&rig, 0, 2 * S);
	expect_rates(&rig, 100 / 1.44, .05, .05);
	rig_close(&rig);
}

static void test_the_lowest_class_has_nobody_to_take_from(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	for (int i = 1; i < 20; i++)
		rig_window(&rig, 2, 2 * S);
	expect_rates(&rig, 100, 100, 100);
	rig_window(&rig, 2, 2 * S);
	expect_rates(&rig, 100, 100, 100 / 1.2);
	rig_close(&rig);
}

static void test_the_flag_holds_back_rises(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	rig_window(&rig, 0, 2 * S);
	for (int i = 0; i < 5; i++) /* their windows may end oftener */
		rig_window(&rig, 1, 100 * MS);
	expect_rates(&rig, 100, 10, 10);
	rig_window(&rig, 0, 800 * MS); /* the one above is within its target again */
	rig_window(&rig, 1, 100 * MS);
	expect_rates(&rig, 100, 11.6, 10);
	assert_int_equal(rig_ask(&rig, 1, 1), WEIR_ADMITTED);
	rig_window(&rig, 1, 2 * S);
	rig_window(&rig, 2, 100 * MS);
	expect_rates(&rig, 100, 11.6, 1);
	rig_window(&rig, 0, 100 * MS); /* nobody is above the highest */
	expect_rates(&rig, 101.6, 11.6, 1);
	rig_close(&rig);
}

/* A class that was too slow when its users left does not hold back the others for ever. */
static void test_a_class_that_nobody_wants_forbids_nothing(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	rig_settle(&rig, 0, 1, MS, WEIR_DONE); /* it is empty */
	rig_window(&rig, 0, 2 * S);
	for (int i = 0; i < 3; i++)
		rig_tick(&rig, S);
	assert_int_equal(rig_ask(&rig, 1, 1), WEIR_ADMITTED);
	rig_window(&rig, 1, 100 * MS);
	assert_true(rig_rate(&rig, 1) > 10);
	rig_close(&rig);
}

static void test_each_class_has_its_target(void **state)
{
	struct rig rig;
	weir_multiclass_params params = params_of(S, 100);
	params.target_ns[1] = 3 * S;
	params.target_ns[3] = 5 * S;
	rig_open(&rig, &weir_law_multiclass, &params);
	static const uint64_t targets[] = {1, 3, 3, 5, 5, 5, 5, 5};
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		assert_int_equal(rig_report(&rig, k).target_ns, targets[k] * S);
	assert_int_equal(rig_ask(&rig, 1, 1), WEIR_ADMITTED);
	assert_int_equal(rig_ask(&rig, 2, 1), WEIR_ADMITTED);
	rig_window(&rig, 1, 2 * S); /* fine for class 1 */
	expect_rates(&rig, 100, 100, 100);
	rig_window(&rig, 1, 4 * S);
	expect_rates(&rig, 100, 100, 10);
	rig_close(&rig);
}

static void test_each_class_has_its_bucket(void **state)
{
	struct rig rig;
	weir_multiclass_params params = params_of(S, 100);
	rig_open(&rig, &weir_law_multiclass, &params);
	assert_int_equal(rig_ask(&rig, 5, 50), WEIR_ADMITTED);
	assert_int_equal(rig_ask(&rig, 5, 1), WEIR_SHED_RATE);
	assert_int_equal(rig_ask(&rig, 4, 50), WEIR_ADMITTED);
	rig_refund(&rig, 5, 50);
	assert_int_equal(rig_ask(&rig, 4, 1), WEIR_SHED_RATE);
	assert_int_equal(rig_ask(&rig, 5, 50), WEIR_ADMITTED);
	weir_ask ask = {.now_ns = rig.now_ns, .klass = 4, .count = 1};
	weir_why why = {0};
	weir_law_multiclass.explain(rig.state, &ask, &why);
	assert_int_equal(why.retry_after_ns, 10 * MS);
	rig_close(&rig);
}

/* ---- traps ---- */

/* Classes that nobody uses rise when idle; if they counted, the lag would never begin. */
static void trap_unused_classes_keep_a_class_from_ever_being_cut(void **state)
{
	struct rig rig;
	weir_multiclass_params params = params_of(S, 100);
	rig_open(&rig, &weir_law_multiclass, &params);
	rig_tick(&rig, 0);
	for (int i = 0; i < 20; i++)
		rig_window(&rig, 0, 2 * S);
	expect_near("the rate of class 0", rig_rate(&rig, 0), 100 / 1.2);
	rig_close(&rig);
}

/* The lowest class gets nothing in while the stage is busy with others: that must not end its windows. */
static void trap_a_starved_class_never_comes_back(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	rig_settle(&rig, 1, 1, MS, WEIR_DONE);
	for (int i = 0; i < 6; i++)
		rig_window(&rig, 0, 2 * S);
	expect_near("the rate of class 1", rig_rate(&rig, 1), .05);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(rig_ask(&rig, 0, 1), WEIR_ADMITTED);
		rig_settle(&rig, 0, 1, 700 * MS, WEIR_DONE);
		if (rig_ask(&rig, 1, 1) == WEIR_ADMITTED)
			rig_settle(&rig, 1, 1, 100 * MS, WEIR_DONE);
		rig_tick(&rig, 100 * MS);
	}
	assert_true(rig_rate(&rig, 1) > 10);
	rig_close(&rig);
}

/* Class 1 is at its lowest rate and late, but only for class 0's sake: its target is none that cannot be met. */
static void trap_a_class_that_is_cut_for_another_is_called_unreachable(void **state)
{
	struct rig rig;
	open_multiclass(&rig, S, 100);
	for (int i = 0; i < 4; i++)
		rig_window(&rig, 0, 2 * S);
	rig_window(&rig, 1, 2 * S);
	expect_rates(&rig, 100, .05, .05);
	assert_false(rig_report(&rig, 1).unreachable);
	rig_close(&rig);
	weir_multiclass_params params = params_of(S, 100);
	rig_open(&rig, &weir_law_multiclass, &params);
	rig_tick(&rig, 0);
	for (int i = 0; i < 100; i++) /* with nobody above it is */
		rig_window(&rig, 1, 2 * S);
	assert_true(rig_report(&rig, 1).unreachable);
	rig_close(&rig);
}

static void test_warm_start(void **state)
{
	struct rig rig;
	weir_multiclass_params params = params_of(S, 100);
	open_multiclass(&rig, S, 100);
	rig_window(&rig, 0, 2 * S);
	rig_window(&rig, 1, 2 * S);
	expect_saved(&rig, &params);
	rig_close(&rig);
}

static void test_bad_parameters(void **state)
{
	weir_multiclass_params p;
	expect_refused(&weir_law_multiclass, NULL, "parameters");
	p = params_of(0, 0);
	p.target_ns[1] = S;
	expect_refused(&weir_law_multiclass, &p, "required");
	p = params_of(S, 0);
	p.target_ns[7] = 3;
	expect_refused(&weir_law_multiclass, &p, "1us");
	p = params_of(S, 0);
	p.adjlo_d = .5;
	expect_refused(&weir_law_multiclass, &p, "adjlo_d");
	p = params_of(S, 0);
	p.lc_thresh = UINT32_MAX;
	expect_refused(&weir_law_multiclass, &p, "lc_thresh");
	p = params_of(S, 0);
	p.tuning.alpha = 2;
	expect_refused(&weir_law_multiclass, &p, "alpha");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_are_the_papers),
		cmocka_unit_test(test_lower_classes_are_cut_by_ten_first),
		cmocka_unit_test(test_a_class_is_cut_after_twenty_windows_of_lag),
		cmocka_unit_test(test_the_lowest_class_has_nobody_to_take_from),
		cmocka_unit_test(test_the_flag_holds_back_rises),
		cmocka_unit_test(test_a_class_that_nobody_wants_forbids_nothing),
		cmocka_unit_test(test_each_class_has_its_target),
		cmocka_unit_test(test_each_class_has_its_bucket),
		cmocka_unit_test(trap_unused_classes_keep_a_class_from_ever_being_cut),
		cmocka_unit_test(trap_a_starved_class_never_comes_back),
		cmocka_unit_test(trap_a_class_that_is_cut_for_another_is_called_unreachable),
		cmocka_unit_test(test_warm_start),
		cmocka_unit_test(test_bad_parameters),
	};
	return cmocka_run_group_tests_name("multiclass", tests, NULL, NULL);
}
