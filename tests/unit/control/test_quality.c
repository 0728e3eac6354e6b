/* SPDX-License-Identifier: Apache-2.0 */
/* AOC 3.4: quality first, then admission control, and back. */
#include "law_rig.h"

static weir_quality_params params_of(bool admission)
{
	weir_quality_params params;
	weir_law_defaults(&weir_law_quality, &params);
	params.target_ns = S;
	params.admission = admission;
	params.tuning.alpha = 0;
	return params;
}

static void open_quality(struct rig *rig, bool admission)
{
	weir_quality_params params = params_of(admission);
	rig_open(rig, &weir_law_quality, &params);
}

static double quality_of(const struct rig *rig)
{
	double factor = weir_law_quality.quality(rig->state, 0);
	assert_true(rig_report(rig, 0).quality == factor);
	return factor;
}

static bool admission_of(const struct rig *rig)
{
	return rig_value(rig, 0, "admission") != 0;
}

/* Until quality is at its lowest. */
static void degrade(struct rig *rig)
{
	for (int i = 0; i < 13; i++) /* 1.2^13 is more than 10 */
		rig_window(rig, 0, 2 * S);
	expect_near("quality", quality_of(rig), .1);
}

static void test_falls_by_a_factor_and_rises_slowly(void **state)
{
	struct rig rig;
	open_quality(&rig, false);
	expect_near("quality", quality_of(&rig), 1);
	rig_window(&rig, 0, 2 * S);
	expect_near("quality", quality_of(&rig), 1 / 1.2);
	rig_window(&rig, 0, 700 * MS); /* within the bands */
	expect_near("quality", quality_of(&rig), 1 / 1.2);
	rig_window(&rig, 0, 100 * MS);
	expect_near("quality", quality_of(&rig), 1 / 1.2 + .02);
	for (int i = 0; i < 20; i++)
		rig_window(&rig, 0, 100 * MS);
	expect_near("quality", quality_of(&rig), 1);
	rig_close(&rig);
}

static void test_alone_it_refuses_nobody(void **state)
{
	struct rig rig;
	open_quality(&rig, false);
	degrade(&rig);
	for (int i = 0; i < 50; i++)
		rig_window(&rig, 0, 60 * S);
	expect_near("quality", quality_of(&rig), .1);
	assert_int_equal(rig_ask(&rig, 0, 1000000), WEIR_ADMITTED);
	assert_true(rig_report(&rig, 0).unreachable);
	assert_false(admission_of(&rig));
	rig_close(&rig);
}

static void test_admission_comes_on_at_the_lowest_quality(void **state)
{
	struct rig rig;
	open_quality(&rig, true);
	degrade(&rig);
	assert_false(admission_of(&rig));
	assert_int_equal(rig_ask(&rig, 0, 1000000), WEIR_ADMITTED);
	rig_settle(&rig, 0, 100, 2 * S, WEIR_DONE);
	rig_tick(&rig, 500 * MS); /* it did 200 a second: that is where the rate starts */
	assert_true(admission_of(&rig));
	expect_near("rate", rig_rate(&rig, 0), 200);
	expect_near("quality", quality_of(&rig), .1);
	assert_int_equal(rig_ask(&rig, 0, 100), WEIR_ADMITTED);
	assert_int_equal(rig_ask(&rig, 0, 1), WEIR_SHED_RATE);
	rig_window(&rig, 0, 2 * S);
	expect_near("rate", rig_rate(&rig, 0), 200 / 1.2);
	assert_true(rig_report(&rig, 0).shedding);
	rig_close(&rig);
}

static void test_admission_goes_off_before_quality_rises(void **state)
{
	struct rig rig;
	open_quality(&rig, true);
	degrade(&rig);
	rig_settle(&rig, 0, 100, 2 * S, WEIR_DONE);
	rig_tick(&rig, 500 * MS);
	assert_int_equal(rig_ask(&rig, 0, 200), WEIR_SHED_RATE);
	rig_window(&rig, 0, 100 * MS); /* far below, but it had to refuse: the rate rises */
	assert_true(admission_of(&rig));
	expect_near("rate", rig_rate(&rig, 0), 201.6);
	rig_window(&rig, 0, 700 * MS); /* nobody refused, but not far below */
	assert_true(admission_of(&rig));
	rig_window(&rig, 0, 100 * MS);
	assert_false(admission_of(&rig));
	expect_near("quality", quality_of(&rig), .1);
	assert_int_equal(rig_ask(&rig, 0, 1000000), WEIR_ADMITTED);
	rig_window(&rig, 0, 100 * MS);
	expect_near("quality", quality_of(&rig), .12);
	rig_close(&rig);
}

/* On and off again, whenever it is needed. */
static void test_admission_comes_on_again(void **state)
{
	struct rig rig;
	open_quality(&rig, true);
	for (int round = 0; round < 3; round++) {
		degrade(&rig);
		rig_window(&rig, 0, 2 * S);
		assert_true(admission_of(&rig));
		for (int i = 0; i < 3; i++)
			rig_window(&rig, 0, 100 * MS);
		assert_false(admission_of(&rig));
	}
	rig_close(&rig);
}

static void test_warm_start(void **state)
{
	struct rig rig;
	weir_quality_params params = params_of(true);
	open_quality(&rig, true);
	degrade(&rig);
	rig_window(&rig, 0, 2 * S);
	assert_true(admission_of(&rig));
	expect_saved(&rig, &params);
	assert_int_equal(weir_law_quality.load(rig.state, "10 5 .5 2"), -EINVAL);
	assert_int_equal(weir_law_quality.load(rig.state, "10 5 1.5 1"), -EINVAL);
	assert_int_equal(weir_law_quality.load(rig.state, "10 5 .5 0"), 0);
	expect_near("quality", quality_of(&rig), .5);
	assert_false(admission_of(&rig));
	rig_close(&rig);
}

static void test_defaults_and_bad_parameters(void **state)
{
	weir_quality_params p;
	expect_params(&weir_law_quality);
	assert_ptr_equal(weir_law_find("quality"), &weir_law_quality);
	weir_law_defaults(&weir_law_quality, &p);
	assert_true(p.quality_min == .1 && !p.admission);
	expect_refused(&weir_law_quality, NULL, "parameters");
	expect_refused(&weir_law_quality, &p, "required");
	p = params_of(true);
	p.quality_min = 0;
	expect_refused(&weir_law_quality, &p, "quality_min");
	p = params_of(true);
	p.fall = 1;
	expect_refused(&weir_law_quality, &p, "fall");
	p = params_of(true);
	p.rise = NAN;
	expect_refused(&weir_law_quality, &p, "rise");
	p = params_of(true);
	p.tuning.samples = 0;
	expect_refused(&weir_law_quality, &p, "samples");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_and_bad_parameters),
		cmocka_unit_test(test_falls_by_a_factor_and_rises_slowly),
		cmocka_unit_test(test_alone_it_refuses_nobody),
		cmocka_unit_test(test_admission_comes_on_at_the_lowest_quality),
		cmocka_unit_test(test_admission_goes_off_before_quality_rises),
		cmocka_unit_test(test_admission_comes_on_again),
		cmocka_unit_test(test_warm_start),
	};
	return cmocka_run_group_tests_name("quality", tests, NULL, NULL);
}
