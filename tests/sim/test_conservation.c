/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every event is accounted for, exactly once, whatever the graph and whatever happens in it. To repeat one run that
 * failed: WEIR_SEED=its seed. For a longer search: WEIR_SEEDS=how many, WEIR_SEED_FROM=the first.
 */
#include "sim/model.h"

#include "base/mem.h"

static struct model model;

static void one_world(uint64_t seed)
{
	static const uint64_t patience[] = {0, WEIR_NS_PER_MS, 50 * WEIR_NS_PER_MS, 10 * WEIR_NS_PER_S};
	uint64_t live = weir_mem_live();
	model_open(&model, seed);
	uint64_t rounds = weir_random_below(&model.random, 8);
	for (uint64_t i = 0; i < rounds; i++) {
		model_run(&model, weir_random_below(&model.random, 20 * WEIR_NS_PER_MS));
		if (weir_random_below(&model.random, 2) == 0)
			model_renew(&model);
	}
	model_close(&model, patience[weir_random_below(&model.random, 4)]);
	if (model.broken != NULL)
		fail_msg("WEIR_SEED=%llu: model.c:%d: not so: %s", (unsigned long long)seed,
			 model.broken_line, model.broken);
	if (weir_mem_live() != live)
		fail_msg("WEIR_SEED=%llu: memory leaks", (unsigned long long)seed);
}

static void expect_everything_was_seen(void)
{
	static const weir_verdict sheds[] = {WEIR_SHED_FULL,      WEIR_SHED_COST,     WEIR_SHED_THRESHOLD,
					     WEIR_SHED_RATE,      WEIR_SHED_LATE,     WEIR_SHED_EXPIRED,
					     WEIR_SHED_CANCELLED, WEIR_SHED_RESOURCE, WEIR_SHED_CLOSED,
					     WEIR_SHED_STOPPING};
	static const weir_verdict drops[] = {WEIR_SHED_WAITED, WEIR_SHED_EXPIRED, WEIR_SHED_CANCELLED,
					     WEIR_SHED_STOPPING, WEIR_SHED_LEAKED};
	for (size_t i = 0; i < sizeof sheds / sizeof *sheds; i++)
		if (model_sights.sheds[sheds[i]] < 20)
			fail_msg("hardly any shed for '%s'", weir_verdict_name(sheds[i]));
	for (size_t i = 0; i < sizeof drops / sizeof *drops; i++)
		if (model_sights.drops[drops[i]] < 20)
			fail_msg("hardly any drop for '%s'", weir_verdict_name(drops[i]));
	assert_true(model_sights.inlined > 1000 && model_sights.completed > 10000 &&
		    model_sights.failed > 1000);
	assert_true(model_sights.stops_in_time > 100 && model_sights.stops_too_late > 100);
	assert_true(model_sights.places_cancelled_late > 20);
	assert_true(model_sights.spared > 200 && model_sights.refunded > 200 && model_sights.gone > 200);
	assert_true(model_sights.strict > 200);
	assert_true(model_sights.stages_retired > 200 && model_sights.retired_too_late > 100 &&
		    model_sights.domains_retired > 20);
	print_message("%llu events admitted, %llu of them run at once; %llu stops in time, %llu too late\n",
		      (unsigned long long)model_sights.events, (unsigned long long)model_sights.inlined,
		      (unsigned long long)model_sights.stops_in_time,
		      (unsigned long long)model_sights.stops_too_late);
	print_message("%llu stages and %llu domains retired, %llu stages not in time\n",
		      (unsigned long long)model_sights.stages_retired,
		      (unsigned long long)model_sights.domains_retired,
		      (unsigned long long)model_sights.retired_too_late);
}

static void books_balance_in_random_worlds(void **state)
{
	uint64_t only = check_env("WEIR_SEED", UINT64_MAX), from = check_env("WEIR_SEED_FROM", 1);
	uint64_t seeds = check_env("WEIR_SEEDS", 3000);
	if (only != UINT64_MAX) {
		one_world(only);
		return;
	}
	for (uint64_t seed = from; seed < from + seeds; seed++)
		one_world(seed);
	if (seeds >= 1000)
		expect_everything_was_seen();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(books_balance_in_random_worlds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
