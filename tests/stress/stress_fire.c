/* SPDX-License-Identifier: Apache-2.0 */
/* All forms of offers from all kinds of threads at once, and a stop in the middle of it: nothing is lost, nothing is ended twice. */
#include "stress/crowd.h"

#include <errno.h>

static struct crowd crowd;

static void every_event_comes_out_once(void **state)
{
	crowd_open(&crowd, 4, 8000, 1, false);
	crowd_join_producers(&crowd);
	weir_stop_report report = {0};
	must(weir_world_stop(crowd.world, 600 * WEIR_NS_PER_S, &report));
	assert_int_equal(report.undrained, 0);
	assert_int_equal(report.unbalanced, 0);
	assert_int_equal(report.faults, 0);
	crowd_join_settler(&crowd);
	/* There was enough fire to be of interest. */
	assert_true(crowd.entered > 1000);
	assert_true(crowd.sheds[WEIR_SHED_FULL] > 0);
	assert_true(crowd.single_count > 0);
	crowd_check_and_free(&crowd);
}

static void a_patient_stop_under_fire_drops_nothing_that_waits(void **state)
{
	for (uint64_t i = 0; i < 15; i++) {
		crowd_open(&crowd, 3, 1500, 10 + i, false);
		while (crowd.entered < 20 * i)
			check_breathe();
		weir_stop_report report = {0};
		must(weir_world_stop(crowd.world, 600 * WEIR_NS_PER_S, &report));
		assert_int_equal(report.undrained, 0);
		assert_int_equal(report.unbalanced, 0);
		for (int s = 0; s < CROWD_STAGES; s++)
			assert_int_equal(stats_of(crowd.stages[s]).drops[WEIR_SHED_STOPPING], 0);
		crowd_join_producers(&crowd);
		crowd_join_settler(&crowd);
		crowd_check_and_free(&crowd);
	}
}

static void an_impatient_stop_under_fire_gives_everything_back(void **state)
{
	for (uint64_t i = 0; i < 15; i++) {
		crowd_open(&crowd, 3, 1500, 40 + i, true);
		while (crowd.entered < 20 * i)
			check_breathe();
		weir_stop_report report = {0};
		int rc = weir_world_stop(crowd.world, 0, &report);
		assert_true(rc == 0 || rc == -ETIMEDOUT);
		assert_int_equal(report.unbalanced, 0);
		crowd_join_producers(&crowd);
		crowd_join_settler(&crowd);
		crowd_check_and_free(&crowd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(every_event_comes_out_once),
		CHECK_TEST(a_patient_stop_under_fire_drops_nothing_that_waits),
		CHECK_TEST(an_impatient_stop_under_fire_gives_everything_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
