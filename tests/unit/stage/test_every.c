/* SPDX-License-Identifier: Apache-2.0 */
/* Periodic work on both kinds of domain: when it runs, that it never runs twice at once, and how it ends. */
#include "support/worlds.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

struct chores {
	_Atomic unsigned runs, inside, most_inside;
	_Atomic bool hold, over; /* a run waits while hold; nothing may run once over */
	unsigned late_runs;
};

static void run(void *arg)
{
	struct chores *c = arg;
	unsigned inside = ++c->inside;
	c->most_inside = inside > c->most_inside ? inside : c->most_inside;
	c->late_runs += c->over;
	c->runs++;
	while (c->hold)
		sched_yield();
	c->inside--;
}

static weir_stage *every(weir_domain *domain, struct chores *c, uint64_t every_ns)
{
	weir_stage *stage = NULL;
	must(weir_every(domain,
			&(weir_every_options){.name = "chore", .every_ns = every_ns, .run = run, .arg = c},
			&stage));
	return stage;
}

static void await_runs(struct chores *c, unsigned runs)
{
	while (c->runs < runs)
		sched_yield();
}

static void it_runs_at_exact_times(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct chores c = {0};
		weir_stage *stage = every(domain_of_kind(world, kind), &c, 100 * WEIR_NS_PER_MS);
		must(weir_world_start(world));
		world_run(world, 100 * WEIR_NS_PER_MS - 1);
		assert_int_equal(c.runs, 0);
		world_run(world, 1);
		assert_int_equal(c.runs, 1);
		world_run(world, 10 * WEIR_NS_PER_S);
		assert_int_equal(c.runs, 101);
		/* It is a stage like any other. */
		expect_counts(stage, 101, 0, 101, 0, 0);
		assert_string_equal(weir_stage_name(stage), "chore");
		/* An event of one's own is one more run. */
		struct job job;
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(stage, &job.event), WEIR_ADMITTED);
		world_run(world, 1);
		assert_int_equal(c.runs, 102);
		c.over = true;
		world_end(&world);
		assert_int_equal(c.late_runs, 0);
	}
}

static void work_made_later_begins_later(void **state)
{
	weir_world *world = world_virtual(1);
	struct chores c = {0};
	weir_domain *domain = domain_elastic(world, "pool", 1, 1);
	must(weir_world_start(world));
	world_run(world, 12345);
	weir_stage *stage = every(domain, &c, WEIR_NS_PER_S);
	world_run(world, WEIR_NS_PER_S - 1);
	assert_int_equal(c.runs, 0);
	world_run(world, 1);
	assert_int_equal(c.runs, 1);
	/* And ends when it is retired, while the world goes on. */
	must(weir_stage_retire(&stage, 0, NULL));
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_int_equal(c.runs, 1);
	world_end(&world);
}

static void a_domain_takes_its_work_with_it(void **state)
{
	weir_world *world = world_virtual(1);
	struct chores c = {0};
	struct probe probe = {0};
	weir_domain *domain = domain_elastic(world, "pool", 1, 1);
	every(domain, &c, WEIR_NS_PER_MS);
	probe_open(&probe, domain, (weir_stage_options){0});
	domain_reactor(world, "other", 1);
	must(weir_world_start(world));
	world_run(world, 10 * WEIR_NS_PER_MS);
	assert_int_equal(c.runs, 10);
	/* Not before the ordinary stages are gone; until then it goes on. */
	assert_int_equal(weir_domain_retire(&domain, 0), -EBUSY);
	world_run(world, 10 * WEIR_NS_PER_MS);
	assert_int_equal(c.runs, 20);
	must(weir_stage_retire(&probe.stage, 0, NULL));
	must(weir_domain_retire(&domain, WEIR_NS_PER_S));
	world_run(world, WEIR_NS_PER_S);
	assert_int_equal(c.runs, 20);
	assert_int_equal(weir_world_check(world), 0);
	world_end(&world);
}

/* Real threads: the run hangs for many periods, and there is still only one, in a pool with room for more. */
static void there_is_one_run_at_a_time(void **state)
{
	weir_world *world = world_real();
	struct chores c = {.hold = true}, tick = {0};
	weir_domain *pool = domain_elastic(world, "pool", 3, 3);
	weir_stage *ticks = NULL;
	weir_stage *stage = every(pool, &c, WEIR_NS_PER_MS);
	must(weir_every(
		pool,
		&(weir_every_options){.name = "tick", .every_ns = WEIR_NS_PER_MS, .run = run, .arg = &tick},
		&ticks));
	must(weir_world_start(world));
	await_runs(&c, 1);
	await_runs(&tick, 30); /* many periods */
	assert_int_equal(c.runs, 1);
	assert_int_equal(weir_stage_waiting(stage), 0); /* what fell due was left out */
	c.hold = false;
	await_runs(&c, 20);
	assert_int_equal(c.most_inside, 1);
	assert_int_equal(tick.most_inside, 1);
	world_end(&world);
	c.over = tick.over = true;
	assert_int_equal(c.inside + tick.inside, 0);
}

/* The controller pauses where nothing happens for two seconds. Periodic work goes on. */
static void it_runs_in_an_idle_world(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_real();
		struct chores c = {0};
		every(domain_of_kind(world, kind), &c, 800 * WEIR_NS_PER_MS);
		must(weir_world_start(world));
		await_runs(&c, 4);
		world_end(&world);
		assert_int_equal(c.most_inside, 1);
	}
}

static void a_retired_run_is_waited_for(void **state)
{
	weir_world *world = world_real();
	struct chores c = {.hold = true};
	weir_domain *pool = domain_elastic(world, "pool", 1, 1);
	domain_reactor(world, "other", 1);
	every(pool, &c, WEIR_NS_PER_MS);
	must(weir_world_start(world));
	await_runs(&c, 1);
	assert_int_equal(weir_domain_retire(&pool, 0), -ETIMEDOUT);
	c.hold = false;
	while (weir_domain_retire(&pool, WEIR_NS_PER_S) == -ETIMEDOUT)
		;
	assert_null(pool);
	assert_int_equal(c.inside, 0);
	world_end(&world);
}

static void what_makes_no_sense_is_refused(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "d", 1);
	weir_stage *stage = NULL;
	struct chores c = {0};
	const weir_every_options wrong[] = {{.every_ns = WEIR_NS_PER_S, .run = run},
					    {.name = "x", .every_ns = WEIR_NS_PER_S},
					    {.name = "x", .run = run},
					    {.name = "x", .every_ns = WEIR_NS_PER_MS - 1, .run = run}};
	assert_int_equal(weir_every(domain, NULL, &stage), -EINVAL);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(weir_every(domain, &wrong[i], &stage), -EINVAL);
		assert_true(strncmp(weir_error(), "every: ", 7) == 0);
	}
	every(domain, &c, WEIR_NS_PER_S);
	assert_int_equal(
		weir_every(domain,
			   &(weir_every_options){.name = "chore", .every_ns = WEIR_NS_PER_S, .run = run},
			   &stage),
		-EEXIST);
	assert_null(stage);
	must(weir_world_start(world));
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(it_runs_at_exact_times),          CHECK_TEST(work_made_later_begins_later),
		CHECK_TEST(a_domain_takes_its_work_with_it), CHECK_TEST(there_is_one_run_at_a_time),
		CHECK_TEST(it_runs_in_an_idle_world),        CHECK_TEST(a_retired_run_is_waited_for),
		CHECK_TEST(what_makes_no_sense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
