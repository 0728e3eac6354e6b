/* SPDX-License-Identifier: Apache-2.0 */
/* Quantiles of the last seconds, exact to a step in a virtual world. */
#include "support/worlds.h"

#include "base/mem.h"

static const double quantiles[] = {0.5, 1.0};

static void expect_near(uint64_t value, uint64_t exact)
{
	if (value < exact - exact * 33 / 1000 || value > exact + exact * 33 / 1000)
		fail_msg("%llu is not within 3 %% of %llu", (unsigned long long)value,
			 (unsigned long long)exact);
}

/* Serves one event that takes this long; the rest of the second passes. */
static void serve(weir_world *world, struct probe *probe, unsigned klass, uint64_t work_ns)
{
	static struct job job;
	probe->work_ns = work_ns;
	job_init(&job, 1, klass);
	assert_int_equal(weir_offer(probe->stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_S);
}

static uint64_t look(struct probe *probe, unsigned klass, weir_measure measure, uint64_t ret_ns[2])
{
	return weir_stage_recent(probe->stage, klass, measure, quantiles, ret_ns, 2);
}

static void old_measurements_are_forgotten(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_WORK};
		uint64_t ns[2];
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
		must(weir_world_start(world));
		assert_int_equal(look(&probe, 3, WEIR_RESPONSE, ns), 0);
		assert_true(ns[0] == 0 && ns[1] == 0);
		for (int i = 0; i < 5; i++)
			serve(world, &probe, 3, 10 * WEIR_NS_PER_MS);
		/* Young as the stage is, all that it ever measured is recent. */
		assert_int_equal(look(&probe, 3, WEIR_RESPONSE, ns), 5);
		expect_near(ns[0], 10 * WEIR_NS_PER_MS);
		for (int i = 0; i < 20; i++)
			serve(world, &probe, 3, 40 * WEIR_NS_PER_MS);
		uint64_t count = look(&probe, 3, WEIR_RESPONSE, ns);
		assert_true(count >= 8 && count <= 10);
		expect_near(ns[0], 40 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, 3, WEIR_RESPONSE, 0.1), 10 * WEIR_NS_PER_MS);
		/* Nothing happens for so long that it has nothing recent; nobody looks meanwhile. */
		world_run(world, 10 * WEIR_NS_PER_S);
		assert_int_equal(look(&probe, 3, WEIR_RESPONSE, ns), 0);
		serve(world, &probe, 3, 20 * WEIR_NS_PER_MS);
		assert_int_equal(look(&probe, 3, WEIR_RESPONSE, ns), 1);
		expect_near(ns[1], 20 * WEIR_NS_PER_MS);
		world_end(&world);
	}
}

static void classes_and_measures_are_apart(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK};
	uint64_t ns[2];
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	serve(world, &probe, 1, 10 * WEIR_NS_PER_MS);
	serve(world, &probe, 6, 80 * WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, 1, WEIR_SERVICE, ns), 1);
	expect_near(ns[1], 10 * WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, 6, WEIR_SERVICE, ns), 1);
	expect_near(ns[1], 80 * WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, WEIR_ALL_CLASSES, WEIR_SERVICE, ns), 2);
	expect_near(ns[0], 10 * WEIR_NS_PER_MS);
	expect_near(ns[1], 80 * WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, WEIR_ALL_CLASSES, WEIR_WAITING, ns), 2);
	assert_int_equal(ns[1], 0);
	assert_int_equal(look(&probe, 2, WEIR_SERVICE, ns), 0);
	assert_int_equal(look(&probe, 77, WEIR_SERVICE, ns), 2);
	assert_int_equal(look(&probe, 1, WEIR_MEASURES, ns), 0);
	world_end(&world);
}

/* An old stage that is asked for the first time has not remembered anything. */
static void the_first_look_begins(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK};
	uint64_t ns[2];
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	for (int i = 0; i < 12; i++)
		serve(world, &probe, 0, WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 0);
	serve(world, &probe, 0, WEIR_NS_PER_MS);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 1);
	world_end(&world);
}

static void without_memory_it_knows_nothing(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK};
	uint64_t ns[2] = {7, 7};
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	serve(world, &probe, 0, WEIR_NS_PER_MS);
	weir_mem_fail_after(1);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 0);
	weir_mem_fail_after(0);
	assert_true(ns[0] == 0 && ns[1] == 0);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 1);
	/* It cannot put away what was measured until now, so that stays recent. */
	weir_mem_fail_after(1);
	world_run(world, 2 * WEIR_NS_PER_S);
	weir_mem_fail_after(0);
	world_run(world, 7 * WEIR_NS_PER_S);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 1);
	world_run(world, 6 * WEIR_NS_PER_S);
	assert_int_equal(look(&probe, 0, WEIR_RESPONSE, ns), 0);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(old_measurements_are_forgotten),
		CHECK_TEST(classes_and_measures_are_apart),
		CHECK_TEST(the_first_look_begins),
		CHECK_TEST(without_memory_it_knows_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
