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
	for (uint64_t i = 0; i < rounds; i++)
		model_run(&model, weir_random_below(&model.random, 20 * WEIR_NS_PER_MS));
	model_close(&model, patience[weir_random_below(&model.random, 4)]);
	if (model.broken != NULL)
		fail_msg("WEIR_SEED=%llu: model.c:%d: not so: %s", (unsigned long long)seed,
			 model.broken_line, model.broken);
	if (weir_mem_live() != live)
		fail_msg("WEIR_SEED=%llu: memory leaks", (unsigned long long)seed);
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(books_balance_in_random_worlds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
