/* SPDX-License-Identifier: Apache-2.0 */
/* The judge before a backend: what a law is told of kinds and lanes, what is judged together, and that the rules say what they should. */
#include "support/worlds.h"

#include <math.h>
#include <string.h>

#include "laws/judge.h"

/* ---- a law that only looks ---- */

static struct {
	uint64_t with_cost[2], without, waiting;
} seen;

static int look_init(void *state, const void *params, const char **ret_wrong)
{
	memset(&seen, 0, sizeof(seen));
	return 0;
}

static weir_verdict look_admit(void *state, const weir_ask *ask)
{
	seen.with_cost[0] += ask->cost == 5000;
	seen.with_cost[1] += ask->cost == 300000;
	seen.without += ask->cost == 0;
	seen.waiting += ask->waiting;
	return WEIR_ADMITTED;
}

static const weir_admission_law look = {
	.name = "look", .brief = "looks", .state_bytes = 8, .init = look_init, .admit = look_admit};

static void fill_nothing(void *params, const struct proxy_cell *cell)
{
}

/* Quick ones of 5 ms, and a twentieth of 300 ms; the target is 100 ms. */
static struct proxy_cell two_kinds(bool visible)
{
	struct proxy_cell cell = {.name = "test", .part = "test", .lanes = 2, .kinds = 2, .top_weight = 1};
	cell.backend.workers = 100;
	cell.kind[0] = (struct proxy_kind){.share = .95, .visible = visible};
	cell.kind[0].work = (weir_dist){.kind = WEIR_DIST_DETERMINISTIC, .mean = 5e6};
	cell.kind[1] = (struct proxy_kind){.share = .05, .visible = visible};
	cell.kind[1].work = (weir_dist){.kind = WEIR_DIST_DETERMINISTIC, .mean = 300e6};
	cell.capacity_per_s = 100 / .01975;
	cell.load = .1;
	cell.target_s = .1;
	cell.measure_s = 10;
	cell.seed = 5;
	proxy_cell_lots(&cell, JUDGE_OWN_FACTOR);
	return cell;
}

/* ---- kinds ---- */

static void kinds_that_are_told_apart_have_targets_of_their_own(void **state)
{
	struct proxy_cell cell = two_kinds(true);
	assert_int_equal(cell.lots, 2);
	assert_true(fabs(cell.lot[0].target_s - .1) < 1e-6);
	assert_true(fabs(cell.lot[1].target_s - 5 * .3) < 1e-6);
	cell = two_kinds(false);
	assert_int_equal(cell.lots, 1);
	assert_true(fabs(cell.lot[0].alone_s - .005) < 1e-6);
}

static void a_law_is_told_the_cost_of_visible_kinds_only(void **state)
{
	struct proxy_cell cell = two_kinds(true);
	struct proxy_result result;
	proxy_cell_run(&cell, &look, fill_nothing, &result);
	assert_true(seen.with_cost[0] > 4000 && seen.with_cost[1] > 150);
	assert_int_equal(seen.without, 0);
	cell = two_kinds(false);
	proxy_cell_run(&cell, &look, fill_nothing, &result);
	assert_int_equal(seen.with_cost[0] + seen.with_cost[1], 0);
	assert_true(seen.without > 4000);
}

/* Each request of a burst is offered and started before the next one is offered. */
static void a_burst_does_not_wait_where_there_is_room(void **state)
{
	struct proxy_cell cell = two_kinds(false);
	struct proxy_result result;
	cell.pattern.burst = 20;
	proxy_cell_run(&cell, &look, fill_nothing, &result);
	assert_true(result.offered > 3000);
	assert_int_equal(seen.waiting, 0);
}

static void silence_is_silent(void **state)
{
	struct proxy_cell cell = two_kinds(false);
	struct proxy_result always, sometimes;
	proxy_cell_run(&cell, NULL, NULL, &always);
	cell.pattern = (struct proxy_pattern){.active_s = 1, .silent_s = 4};
	proxy_cell_run(&cell, NULL, NULL, &sometimes);
	assert_true(fabs((double)sometimes.offered / (double)always.offered - .2) < .03);
}

static void the_same_cell_is_the_same_run(void **state)
{
	struct proxy_cell cell = two_kinds(true);
	struct proxy_result one, other;
	proxy_cell_run(&cell, NULL, NULL, &one);
	proxy_cell_run(&cell, &look, fill_nothing, &other);
	assert_int_equal(one.offered, other.offered);
	assert_true(one.done_s == other.done_s);
}

/* What never comes back counts with its age: a backend that stops has no good percentile. */
static void what_is_stuck_is_late(void **state)
{
	struct proxy_cell cell = two_kinds(false);
	struct proxy_result result;
	cell.phase[0] = (struct proxy_phase){5, cell.load, 0};
	proxy_cell_run(&cell, NULL, NULL, &result);
	assert_true(result.lot[0].p90 > 10);
}

/* ---- rules ---- */

static struct judge_outcome judged(enum judge_grid grid, double shed, double dropped, double p90,
				   double done_s)
{
	struct judge_cell cell = {.cell = two_kinds(false), .grid = grid};
	struct judge_outcome o = {.bar = {.counts = true, .done_s = 100}};
	o.result =
		(struct proxy_result){.shed = shed, .dropped = dropped, .offered = 10000, .done_s = done_s};
	o.result.lot[0] = (struct proxy_lot_result){.count = 1000, .p90 = p90};
	judge_decide(&cell, &o);
	return o;
}

static void bounds_are_as_written(void **state)
{
	assert_true(judged(JUDGE_HARM, .001, 0, 5, 0).met);
	assert_false(judged(JUDGE_HARM, .0005, .0006, .5, 0).met);
	assert_true(judged(JUDGE_HARM, .005, .005, .5, 0).nearly);
	assert_false(judged(JUDGE_HARM, .02, 0, .5, 0).nearly);
	assert_true(judged(JUDGE_MIXED, .5, .005, 1.1, 95).met);
	assert_string_equal(judged(JUDGE_MIXED, .5, .006, 1.11, 94.9).failed, "p90 work waited");
	assert_string_equal(judged(JUDGE_CHANGE, .5, .006, 1, 100).failed, "waited");
}

/* At twice the capacity nobody keeps the target without a law; the oracle does, with nearly all of the work. */
static void the_oracle_knows_how(void **state)
{
	struct judge_cell cell = {.cell = two_kinds(false), .grid = JUDGE_MIXED};
	struct judge_bar bar;
	cell.cell.backend.workers = 10;
	cell.cell.capacity_per_s /= 10;
	cell.cell.load = 2;
	cell.cell.warm_s = 2;
	judge_measure_bar(&cell, &bar);
	assert_true(bar.counts);
	assert_true(bar.done_s > .9 * 10 * cell.cell.measure_s);
	assert_true(bar.done_s <= 10 * cell.cell.measure_s);
	cell.grid = JUDGE_HARM;
	judge_measure_bar(&cell, &bar);
	assert_false(bar.counts);
}

/* Names are what cells are chosen by; a half is a half. */
static void cells_have_names_of_their_own_and_halves(void **state)
{
	static struct judge_cell cells[JUDGE_CELLS_MAX];
	size_t count = judge_cells(cells, JUDGE_CELLS_MAX, 1, 1), held = 0;
	assert_in_range(count, 700, 800);
	for (size_t i = 0; i < count; i++) {
		held += cells[i].held;
		assert_int_equal(cells[i].cell.lanes, 2);
		assert_true(strlen(cells[i].cell.name) + 1 < sizeof(cells[i].cell.name));
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(cells[i].cell.name, cells[j].cell.name);
	}
	assert_in_range(held, count * 2 / 5, count * 3 / 5);
}

/* ---- a long calm ---- */

static void a_long_calm_comes_before_what_does_not_start_cold(void **state)
{
	static struct judge_cell cells[JUDGE_CELLS_MAX];
	size_t count = judge_cells(cells, JUDGE_CELLS_MAX, 1, 1), mixed = 0, changed = 0;
	for (size_t i = 0; i < count; i++) {
		struct judge_cell was = cells[i], *now = &cells[i];
		judge_calm_before(now);
		double longer_s = now->cell.warm_s - was.cell.warm_s;
		if (was.cold || was.grid == JUDGE_HARM) {
			assert_memory_equal(now, &was, sizeof(was));
			continue;
		}
		assert_true(now->cell.load >= .3 && now->cell.load <= .6);
		assert_true(now->cell.load * was.cell.capacity_per_s * now->cell.phase[0].at_s < 50001 ||
			    now->cell.phase[0].at_s <= 5);
		if (was.grid == JUDGE_MIXED) {
			mixed++;
			assert_true(now->cell.phase[0].load == was.cell.phase[0].load);
			continue;
		}
		changed++;
		assert_true(now->cell.phase[0].load == was.cell.load && now->cell.phase[0].speed == 1);
		assert_true(fabs(now->cell.phase[1].at_s - was.cell.phase[0].at_s - longer_s) < 1e-9);
		assert_true(now->cell.workers_left[1] == was.cell.workers_left[0]);
	}
	assert_true(mixed > 50 && changed > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_that_are_told_apart_have_targets_of_their_own),
		cmocka_unit_test(a_long_calm_comes_before_what_does_not_start_cold),
		cmocka_unit_test(a_law_is_told_the_cost_of_visible_kinds_only),
		cmocka_unit_test(a_burst_does_not_wait_where_there_is_room),
		cmocka_unit_test(silence_is_silent),
		cmocka_unit_test(the_same_cell_is_the_same_run),
		cmocka_unit_test(what_is_stuck_is_late),
		cmocka_unit_test(bounds_are_as_written),
		cmocka_unit_test(the_oracle_knows_how),
		cmocka_unit_test(cells_have_names_of_their_own_and_halves),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
