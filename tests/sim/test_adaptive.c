/* SPDX-License-Identifier: Apache-2.0 */
/* `adaptive` on points of the grid that judges it (bench/laws), and what its guard rails prevent, each named after the failure. */
#include "support/check.h"

#include "laws/dry.h"
#include "laws/trial.h"

#define MS 1e6

static void judge(trial t)
{
	t.seed = check_env("WEIR_SEED", 1);
	t.quick = true;
	if (CHECK_SLOW)
		return;
	t.reasons = &t.said;
	trial_run(&t, &weir_law_adaptive);
	if (t.said.contradictions != 0)
		fail_msg("seed %llu: %llu of %llu explanations contradict the decision",
			 (unsigned long long)t.seed, (unsigned long long)t.said.contradictions,
			 (unsigned long long)t.said.asked);
	for (unsigned c = 0; c < CRITERION_COUNT; c++)
		if (t.judged[c] == FAILED)
			fail_msg("seed %llu: %s S=%gms c=%u %s T=%g load=%g: %s is %g",
				 (unsigned long long)t.seed, part_name[t.part], t.service_ns / MS, t.workers,
				 weir_dist_name(t.dist), t.target_of_p90, t.load, criterion_text[c],
				 t.value[c]);
}

static void judge_all(part kind, double load)
{
	static const struct {
		double service_ns, target;
		uint32_t workers;
	} points[] = {{20e3, 20, 4}, {1 * MS, 10, 1}, {10 * MS, 10, 4}, {200 * MS, 10, 16}};
	/* In short, every second one of them. */
	for (unsigned i = 0; i < 4; i++)
		for (unsigned d = check_long() ? 0 : i % 2; d <= WEIR_DIST_BIMODAL; d += check_long() ? 1 : 2)
			judge((trial){.part = kind,
				      .service_ns = points[i].service_ns,
				      .workers = points[i].workers,
				      .dist = d,
				      .target_of_p90 = points[i].target,
				      .load = load});
}

static void test_overload_is_held_at_the_target(void **state)
{
	judge_all(STEADY_PART, 2);
	judge_all(STEADY_PART, 10);
}

static void test_a_burst_in_calm_is_not_shed(void **state)
{
	judge_all(CALM_PART, .7);
}

static void test_a_step_does_not_overshoot(void **state)
{
	judge((trial){
		.part = STEP_PART, .service_ns = MS, .workers = 1, .dist = 1, .target_of_p90 = 5, .load = 2});
	judge((trial){.part = STEP_PART,
		      .service_ns = MS,
		      .workers = 4,
		      .dist = 2,
		      .target_of_p90 = 10,
		      .load = 50});
}

static void test_a_cold_start_into_overload_does_not_build_a_queue(void **state)
{
	judge_all(COLD_PART, 10);
}

static void test_a_slower_machine_needs_no_retuning(void **state)
{
	judge((trial){.part = CHANGE_PART,
		      .service_ns = MS,
		      .workers = 4,
		      .dist = 1,
		      .target_of_p90 = 10,
		      .load = 1.4});
}

static void test_the_lowest_class_neither_takes_over_nor_starves(void **state)
{
	for (unsigned workers = 4; workers <= 16; workers *= 4)
		judge((trial){.part = CLASS_PART,
			      .service_ns = MS,
			      .workers = workers,
			      .dist = 1,
			      .target_of_p90 = 20,
			      .load = 1.2});
}

static void test_rare_and_expensive_requests_meet_their_own_target(void **state)
{
	judge((trial){.part = RARE_PART,
		      .service_ns = MS,
		      .workers = 4,
		      .dist = 1,
		      .target_of_p90 = 20,
		      .load = 1.4});
	/* Many workers: many of them wait when a hold begins, and only those with a pledge may start in it though late. */
	judge((trial){.part = RARE_PART,
		      .service_ns = MS,
		      .workers = 64,
		      .dist = 1,
		      .target_of_p90 = 20,
		      .load = 5});
}

static void test_retries_do_not_collapse_it_for_good(void **state)
{
	judge((trial){.part = RETRY_PART,
		      .service_ns = MS,
		      .workers = 4,
		      .dist = 1,
		      .target_of_p90 = 10,
		      .load = 5});
}

/* One worker, 1 ms, and what the target is told to be. */
static cell *open_cell(double target_ns)
{
	cell_options options = {.law = &weir_law_adaptive,
				.service = {.kind = WEIR_DIST_EXPONENTIAL, .mean = MS},
				.workers = 1,
				.target_ns = target_ns,
				.seed = check_env("WEIR_SEED", 1)};
	cell *c = cell_new(&options);
	assert_non_null(c);
	return c;
}

static void test_an_unreachable_target_does_not_spin_to_zero_admission(void **state)
{
	cell_stats stats;
	cell *c = open_cell(.2 * MS);
	cell_load(c, 2);
	cell_run(c, 1000 * MS);
	cell_mark(c);
	cell_run(c, 5000 * MS);
	cell_read(c, &stats);
	assert_true(stats.work > .6);
	cell_free(&c);
}

/* Within a fifth, or 0.02 where little is shed: the rule of the grids (laws/dry.h). */
static void test_a_dry_run_tells_what_would_be_shed(void **state)
{
	static const struct {
		part part;
		double load;
		unsigned workers;
	} points[] = {{STEADY_PART, 1.4, 4}, {STEADY_PART, 2, 1}, {STEADY_PART, 10, 16}, {CALM_PART, .7, 4}};
	for (unsigned i = 0; i < 4; i++)
		for (unsigned d = WEIR_DIST_DETERMINISTIC; d <= WEIR_DIST_EXPONENTIAL; d++) {
			double enforced, would;
			trial t = {.part = points[i].part,
				   .service_ns = 10 * MS,
				   .workers = points[i].workers,
				   .dist = d,
				   .target_of_p90 = 10,
				   .load = points[i].load,
				   .quick = true,
				   .seed = check_env("WEIR_SEED", 1)};
			trial_dry(&t, &weir_law_adaptive, &enforced, &would);
			if (!dry_tells(enforced, would))
				fail_msg("seed %llu: %s at %g: %.3f shed, %.3f would have been",
					 (unsigned long long)t.seed, weir_dist_name(d), t.load, enforced,
					 would);
		}
}

static void test_idle_time_does_not_ratchet_the_limit_up(void **state)
{
	cell_stats stats;
	cell *c = open_cell(20 * MS);
	cell_load(c, .3);
	cell_run(c, 500 * MS);
	cell_load(c, 0);
	cell_run(c, 3600e9);
	cell_load(c, 10);
	cell_run(c, 200 * MS);
	cell_mark(c);
	cell_run(c, 3000 * MS);
	cell_read(c, &stats);
	assert_true(tally_quantile(&stats.all.response, .9) < 1.1);
	assert_true(tally_quantile(&stats.all.response, .999) < 2.2);
	assert_true(stats.work > .95);
	cell_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_overload_is_held_at_the_target),
		CHECK_TEST(test_a_burst_in_calm_is_not_shed),
		CHECK_TEST(test_a_step_does_not_overshoot),
		CHECK_TEST(test_a_cold_start_into_overload_does_not_build_a_queue),
		CHECK_TEST(test_a_slower_machine_needs_no_retuning),
		CHECK_TEST(test_the_lowest_class_neither_takes_over_nor_starves),
		CHECK_TEST(test_rare_and_expensive_requests_meet_their_own_target),
		CHECK_TEST(test_retries_do_not_collapse_it_for_good),
		CHECK_TEST(test_an_unreachable_target_does_not_spin_to_zero_admission),
		CHECK_TEST(test_a_dry_run_tells_what_would_be_shed),
		CHECK_TEST(test_idle_time_does_not_ratchet_the_limit_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
