/* SPDX-License-Identifier: Apache-2.0 */
/* `value` before a backend: what it earns, whom it sheds, and that it harms nobody. Seeded and exact. */
#include "support/worlds.h"

#include <stdlib.h>
#include <string.h>

#include "laws/revenue.h"

#define SEEDS 4

/* 16 workers and three classes, which cost so many ms each, are worth so much, and are offered so many times the capacity. */
static struct revenue_cell cell_of(const double *ms, const double *revenue, const double *load, uint64_t seed)
{
	struct revenue_cell cell = {.spread = 100};
	struct proxy_cell *c = &cell.cell;
	double per_s[REVENUE_CLASSES], sum = 0, work = 0;
	*c = (struct proxy_cell){.name = "value",
				 .part = "test",
				 .lanes = 2,
				 .top_weight = 1,
				 .target_s = .4,
				 .kinds = 3,
				 .seed = seed};
	c->backend.workers = 16;
	for (unsigned k = 0; k < REVENUE_CLASSES; k++) {
		per_s[k] = load[k] * 16e3 / ms[k];
		sum += per_s[k];
		work += load[k];
		cell.revenue[k] = revenue[k];
	}
	for (unsigned k = 0; k < REVENUE_CLASSES; k++) {
		c->kind[k] =
			(struct proxy_kind){.share = per_s[k] / sum, .visible = true, .klass = (uint8_t)k};
		c->kind[k].work = (weir_dist){.kind = WEIR_DIST_EXPONENTIAL, .mean = ms[k] * 1e6};
	}
	c->capacity_per_s = sum / work;
	c->load = .5;
	c->phase[0] = (struct proxy_phase){2, work, 1};
	c->warm_s = 8;
	c->measure_s = 15;
	cell.load = work;
	proxy_cell_lots(c, 5);
	return cell;
}

static struct revenue_result run(const struct revenue_cell *cell, const weir_admission_law *law)
{
	struct revenue_result result;
	revenue_run(cell, law, &result);
	return result;
}

#define EACH_SEED(seed) for (uint64_t seed = 1; seed <= SEEDS; seed++)
#define MUST(condition, seed)                                                              \
	do {                                                                               \
		if (!(condition))                                                          \
			fail_msg("seed %llu: %s", (unsigned long long)(seed), #condition); \
	} while (0)

/* The highest class is worth three times as much, and costs ten times as much. */
static void who_earns_most_per_work_comes_first(void **state)
{
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){50, 20, 5}, (const double[]){3, 2, 1},
						   (const double[]){2, 2, .8}, seed);
		struct revenue_result value = run(&cell, &weir_law_value),
				      order = run(&cell, &weir_law_adaptive_remote);
		double offered = value.klass[2].earned + value.klass[2].late + value.klass[2].turned_away;
		MUST(value.earned > .9 * value.oracle, seed);
		MUST(value.earned > 1.5 * order.earned, seed);
		/* All of the dear ones, and nothing of the cheapest. */
		MUST(value.klass[2].turned_away < .05 * offered, seed);
		MUST(value.klass[0].earned < .1 * value.earned, seed);
		for (unsigned k = 0; k < REVENUE_CLASSES; k++)
			MUST(value.klass[k].answers < 30 || value.klass[k].p90 <= 1.1, seed);
	}
}

static void what_is_guaranteed_is_admitted_in_every_second(void **state)
{
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){50, 20, 5}, (const double[]){3, 2, 1},
						   (const double[]){2, 2, 2}, seed);
		cell.guaranteed_per_s[0] = 20;
		struct revenue_result value = run(&cell, &weir_law_value);
		MUST(value.seconds >= 14 && value.kept == value.seconds, seed);
		MUST(value.klass[0].earned > .9 * 3 * 15 * 15, seed);
	}
}

static void a_healthy_service_is_left_alone(void **state)
{
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){50, 20, 5}, (const double[]){3, 2, 1},
						   (const double[]){.2, .2, .3}, seed);
		struct revenue_result value = run(&cell, &weir_law_value);
		MUST(value.proxy.shed + value.proxy.dropped <= .001, seed);
	}
}

/* Two processors that all requests share, at 0.75 of their capacity: large requests fill the room at times. */
static void a_room_that_is_full_for_a_moment_sets_no_price(void **state)
{
	double refused = 0;
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){3, 3, 60}, (const double[]){10, 3, 1},
						   (const double[]){.25, .25, .25}, seed);
		cell.cell.backend.workers = 2;
		cell.cell.backend.discipline = WEIR_BACKEND_PS;
		cell.cell.capacity_per_s /= 8;
		refused += run(&cell, &weir_law_value).proxy.shed / SEEDS;
	}
	if (refused > .0005)
		fail_msg("%.4f are refused", refused);
}

/* Without a law the backend works all the time, for answers that come too late. */
static void what_is_lost_is_not_blamed_on_a_busy_backend(void **state)
{
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){50, 20, 5}, (const double[]){3, 2, 1},
						   (const double[]){2, 2, .8}, seed);
		struct revenue_result all = run(&cell, NULL);
		MUST(all.busy > .99 * all.oracle && all.busy <= all.oracle, seed);
		MUST(all.earned < .1 * all.busy, seed);
		cell.cell.phase[0].load = .5;
		struct revenue_result half = run(&cell, NULL);
		MUST(half.proxy.done_s < .6 * 16 * cell.cell.measure_s, seed);
		MUST(half.busy > .95 * half.oracle, seed); /* all that was offered is done */
	}
}

static void equal_values_are_treated_as_by_adaptive_remote(void **state)
{
	EACH_SEED(seed)
	{
		struct revenue_cell cell = cell_of((const double[]){20, 20, 20}, (const double[]){1, 1, 1},
						   (const double[]){1, 1, 1}, seed);
		struct revenue_result value = run(&cell, &weir_law_value),
				      order = run(&cell, &weir_law_adaptive_remote);
		MUST(value.earned > .97 * order.earned, seed);
		for (unsigned k = 0; k < REVENUE_CLASSES; k++)
			MUST(value.klass[k].p90 <= 1.1, seed);
	}
}

/* A service that starts into an overload shows waits, and they are no costs. */
static void nothing_is_learnt_before_the_backend_is_seen_to_keep_up(void **state)
{
	void *law = aligned_alloc(64, (weir_law_value.state_bytes + 63) / 64 * 64);
	weir_value_params params;
	const char *wrong;
	memset(&params, 0, sizeof(params));
	weir_law_value.defaults(&params);
	params.target_ns[0] = WEIR_NS_PER_S;
	assert_non_null(law);
	assert_int_equal(weir_law_value.init(law, &params, &wrong), 0);
	assert_false(weir_law_value.calm(law));
	free(law);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_earns_most_per_work_comes_first),
		cmocka_unit_test(what_is_guaranteed_is_admitted_in_every_second),
		cmocka_unit_test(a_healthy_service_is_left_alone),
		cmocka_unit_test(a_room_that_is_full_for_a_moment_sets_no_price),
		cmocka_unit_test(what_is_lost_is_not_blamed_on_a_busy_backend),
		cmocka_unit_test(equal_values_are_treated_as_by_adaptive_remote),
		cmocka_unit_test(nothing_is_learnt_before_the_backend_is_seen_to_keep_up),
	};
	return cmocka_run_group_tests_name("value", tests, NULL, NULL);
}
