/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote` before backends that it cannot look into: some cells of the grid (bench/laws/proxy_cells.c), and the guard rails, each
 * under the name of the failure that it prevents. Seeded and exact.
 */
#include "support/worlds.h"

#include <stdlib.h>
#include <string.h>

#include "laws/proxy_cell.h"

static void fill(void *params, const struct proxy_cell *cell)
{
	char text[40];
	snprintf(text, sizeof(text), "%.0fns", cell->target_s * 1e9);
	must(weir_law_set(&weir_law_adaptive_remote, params, "target", text));
}

static void fill_none(void *params, const struct proxy_cell *cell)
{
}

static struct proxy_result run(const struct proxy_cell *cell)
{
	struct proxy_result result;
	proxy_cell_run(cell, &weir_law_adaptive_remote, fill, &result);
	return result;
}

#define expect(cell, r, x)                                                                                  \
	do {                                                                                                \
		if (!(x))                                                                                   \
			fail_msg("%s:%d: %s (seed %llu): %s: work %.3f timely %.3f p90 %.2f shed %.4f "     \
				 "dropped %.4f "                                                            \
				 "top %.3f limit %.0f",                                                     \
				 __FILE__, __LINE__, (cell)->name, (unsigned long long)(cell)->seed, #x,    \
				 (r).work, (r).timely, (r).p90, (r).shed, (r).dropped, (r).top, (r).limit); \
	} while (0)

/* Sixteen workers, 10 ms, a target of ten times the p90 alone. */
static struct proxy_cell a_cell(weir_discipline discipline, uint32_t workers, weir_dist_kind kind,
				double load)
{
	struct proxy_cell cell = {
		.part = "test",
		.backend = {.discipline = discipline, .workers = workers},
		.work = {.kind = kind, .mean = 1e7},
		.capacity_per_s = workers * 100.,
		.target_s = 10 * weir_dist_quantile(&(weir_dist){.kind = kind, .mean = 1e7}, .9 + 1e-9) / 1e9,
		.load = load,
		.warm_s = 10,
		.measure_s = 20,
		.seed = 42};
	snprintf(cell.name, sizeof(cell.name), "%s-%u %s at %g",
		 discipline == WEIR_BACKEND_PS ? "ps" : "fifo", workers, weir_dist_name(kind), load);
	return cell;
}

static void expect_passes(const struct proxy_cell *cell)
{
	char what[64];
	struct proxy_result r = run(cell);
	if (!proxy_cell_passed(cell, &r, what, sizeof(what)))
		expect(cell, r, what[0] == 0);
}

static void test_a_part_of_the_grid(void **state)
{
	static const uint32_t workers[] = {4, 16, 64};
	static const double loads[] = {.5, 2, 10};
	for (int w = 0; w < 3; w++)
		for (int d = 0; d < 2; d++)
			for (int kind = 0; kind < 3; kind++) {
				struct proxy_cell cell =
					a_cell((weir_discipline)d, workers[w], (weir_dist_kind)kind,
					       loads[(w + d + kind) % 3]);
				expect_passes(&cell);
			}
}

static void test_the_same_run_is_the_same(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_PARETO, 2);
	struct proxy_result a = run(&cell), b = run(&cell);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void test_straight_into_ten_times_the_capacity(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, 10);
		cell.warm_s = 0;
		expect_passes(&cell);
	}
}

/* A quarter of what drains in a target, kept as such a multiple, is less each time that it bounds what drains. */
static void test_a_limit_kept_as_a_multiple_collapses(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 64, WEIR_DIST_DETERMINISTIC, 3);
	cell.target_s = .05;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.limit >= 50);
}

static void test_synchronised_completions_look_like_infinite_throughput(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_DETERMINISTIC, 5);
	cell.target_s = .5;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.limit >= 12 && r.limit <= 48);
}

/* The first answers of a level are its short ones. */
static void test_what_is_not_back_yet_looks_fast(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_LOGNORMAL, 5);
	cell.target_s *= 5;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.limit <= 64);
}

/* Those that share a server all get slower by a factor, the long ones by the most: cut at one time they would seem not to. */
static void test_long_answers_hide_the_knee(void **state)
{
	for (int kind = WEIR_DIST_BIMODAL; kind <= WEIR_DIST_PARETO; kind++) {
		struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, (weir_dist_kind)kind, 2);
		cell.target_s *= 5;
		cell.warm_s = 40;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .97 && r.p90 < 1.1 && r.limit <= 64);
	}
}

/* An epoch ends with a tick: with answers of 1 ms it is longer than it was meant to be, the low one more than the high one. */
static void test_ticks_are_longer_than_epochs(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 64, WEIR_DIST_PARETO, 1.4);
	cell.work.mean = 1e6;
	cell.capacity_per_s = 64000;
	cell.target_s /= 10;
	cell.warm_s = 3;
	cell.measure_s = 3;
	expect_passes(&cell);
}

/* The level before has brought a few answers only: to wait until it is sure that they are different would be to wait for ever. */
static void test_a_slow_start_does_not_stand_still(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 64, WEIR_DIST_EXPONENTIAL, 10);
		cell.warm_s = 0;
		cell.measure_s = 10;
		expect_passes(&cell);
	}
}

/* One worker has more than it should at first, so little time is left to wait; less than an answer takes is too little. */
static void test_a_patience_shorter_than_an_answer_drops_all(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 1, WEIR_DIST_EXPONENTIAL, 10);
	cell.target_s /= 2;
	cell.warm_s = 0;
	cell.measure_s = 12;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.dropped < .02 && r.work * r.timely > .97);
}

/* Ticks in which nothing but a failure ends are common where few requests are inside. */
static void test_a_failure_now_and_then_is_not_an_outage(void **state)
{
	for (uint64_t seed = 42; seed < 45; seed++) {
		struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 4);
		cell.failing_slow = .02;
		cell.seed = seed;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .85 && r.p90 < 1.1);
	}
}

static void test_fast_failures_look_like_low_latency(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 4);
	cell.failing_fast = .3;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.p90 < 1.1 && r.limit < 64);
}

static void test_hung_requests_eat_the_limit(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 4);
	cell.hanging = .005;
	cell.warm_s = 60; /* by then about a hundred of them hang */
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .85 && r.p90 < 1.1);
}

/* All in flight was lost while the backend stood still: a probe must find out that it is back. */
static void test_a_stall_is_not_the_end(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2);
	cell.phase[0] = (struct proxy_phase){10, 2, 0};
	cell.phase[1] = (struct proxy_phase){20, 2, 1};
	cell.warm_s = 25;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.p90 < 1.1);
}

static void test_idle_ratchets_the_limit(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_EXPONENTIAL, .1);
	cell.phase[0] = (struct proxy_phase){60, 8, 1};
	cell.warm_s = 60;
	cell.measure_s = 10;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.p90 < 1.1 && r.timely > .97);
}

static void test_drain_rates_while_unsaturated_are_lies(void **state)
{
	/* Little is asked for a long time; then a burst that fits into the target must not be shed as if that were all there is. */
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2);
	cell.phase[0] = (struct proxy_phase){5, .05, 1};
	cell.phase[1] = (struct proxy_phase){60, .7, 1};
	cell.warm_s = 60;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.shed + r.dropped < .001);
}

static void test_a_refusing_backend_is_asked_for_what_it_takes(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 3);
	cell.backend.most = 12;
	cell.capacity_per_s = 1200;
	expect_passes(&cell);
}

static void test_thrashing_is_not_fed(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, 5);
		cell.backend.thrash_from = 32;
		cell.backend.thrash_by = 3;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .93 && r.p90 < 1.1);
	}
}

static void test_a_round_trip_is_filled(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 2);
	cell.backend.round_trip_ns = 50 * WEIR_NS_PER_MS;
	cell.target_s += .25;
	expect_passes(&cell);
}

static void test_half_the_speed_and_back(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2.5);
	cell.phase[0] = (struct proxy_phase){10, 2.5, .5};
	cell.phase[1] = (struct proxy_phase){20, 2.5, 1};
	cell.warm_s = 12;
	expect_passes(&cell);
}

/* Four workers of 10 ms, a target of 100 ms: what a sentry before a small server has to do, at any load. */
static struct proxy_cell a_small_server(weir_discipline discipline, weir_dist_kind kind, double load,
					uint64_t seed)
{
	struct proxy_cell cell = a_cell(discipline, 4, kind, load);
	cell.target_s = .1;
	cell.warm_s = 5;
	cell.measure_s = 30;
	cell.seed = seed;
	return cell;
}

static void test_a_small_server_at_any_load(void **state)
{
	static const double loads[] = {.5, 1.4, 2, 5, 10};
	for (uint64_t seed = 1; seed <= 3; seed++)
		for (int d = 0; d < 2; d++)
			for (int kind = 0; kind < 2; kind++)
				for (int l = 0; l < 5; l++) {
					struct proxy_cell cell = a_small_server(
						(weir_discipline)d, (weir_dist_kind)kind, loads[l], seed);
					expect_passes(&cell);
				}
}

static void test_a_small_server_that_slows_down(void **state)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		for (int kind = 0; kind < 2; kind++) {
			struct proxy_cell cell =
				a_small_server(WEIR_BACKEND_FIFO, (weir_dist_kind)kind, 2, seed);
			cell.phase[0] = (struct proxy_phase){10, 2, .5};
			cell.warm_s = 12;
			expect_passes(&cell);
		}
}

static void test_the_lowest_class_is_shed_first(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, .2);
		cell.classes = 2;
		cell.phase[0] = (struct proxy_phase){cell.warm_s, 12.1, 1};
		expect_passes(&cell);
	}
}

static void test_retries_do_not_keep_it_down(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, .8);
	struct proxy_result plain;
	cell.retries = 3;
	cell.phase[0] = (struct proxy_phase){10, 3, 1};
	cell.phase[1] = (struct proxy_phase){20, .8, 1};
	cell.warm_s = 30;
	expect_passes(&cell);
	proxy_cell_run(&cell, NULL, fill_none, &plain);
	expect(&cell, plain, plain.timely < .1); /* while without a law it never recovers */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_part_of_the_grid),
		cmocka_unit_test(test_the_same_run_is_the_same),
		cmocka_unit_test(test_straight_into_ten_times_the_capacity),
		cmocka_unit_test(test_a_limit_kept_as_a_multiple_collapses),
		cmocka_unit_test(test_synchronised_completions_look_like_infinite_throughput),
		cmocka_unit_test(test_what_is_not_back_yet_looks_fast),
		cmocka_unit_test(test_long_answers_hide_the_knee),
		cmocka_unit_test(test_ticks_are_longer_than_epochs),
		cmocka_unit_test(test_a_slow_start_does_not_stand_still),
		cmocka_unit_test(test_a_patience_shorter_than_an_answer_drops_all),
		cmocka_unit_test(test_a_failure_now_and_then_is_not_an_outage),
		cmocka_unit_test(test_fast_failures_look_like_low_latency),
		cmocka_unit_test(test_hung_requests_eat_the_limit),
		cmocka_unit_test(test_a_stall_is_not_the_end),
		cmocka_unit_test(test_idle_ratchets_the_limit),
		cmocka_unit_test(test_drain_rates_while_unsaturated_are_lies),
		cmocka_unit_test(test_a_refusing_backend_is_asked_for_what_it_takes),
		cmocka_unit_test(test_thrashing_is_not_fed),
		cmocka_unit_test(test_a_round_trip_is_filled),
		cmocka_unit_test(test_half_the_speed_and_back),
		cmocka_unit_test(test_a_small_server_at_any_load),
		cmocka_unit_test(test_a_small_server_that_slows_down),
		cmocka_unit_test(test_the_lowest_class_is_shed_first),
		cmocka_unit_test(test_retries_do_not_keep_it_down),
	};
	return cmocka_run_group_tests_name("adaptive-remote", tests, NULL, NULL);
}
