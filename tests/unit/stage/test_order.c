/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the waiting events has its turn next, for each policy. */
#include "support/worlds.h"

#include <stdlib.h>

static void first_in_first_out(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[50];
		unsigned expected[50];
		plugged_open(&p, kind, (weir_stage_options){.order = WEIR_FIFO});
		for (unsigned i = 0; i < 50; i++) {
			job_init(&jobs[i], i, i % WEIR_CLASSES);
			jobs[i].event.cost = 100 - i;
			expected[i] = i;
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		}
		plugged_release(&p);
		probe_expect_order(&p.probe, expected, 50);
		plugged_end(&p);
	}
}

static void the_highest_class_first_and_fifo_within(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[6];
		static const uint8_t classes[] = {7, 2, 0, 2, 7, 0};
		plugged_open(&p, kind, (weir_stage_options){.order = WEIR_BY_CLASS});
		for (unsigned i = 0; i < 6; i++) {
			job_init(&jobs[i], i, classes[i]);
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		}
		plugged_release(&p);
		probe_expect_order(&p.probe, (unsigned[]){2, 5, 1, 3, 0, 4}, 6);
		plugged_end(&p);
	}
}

static void the_smallest_cost_first(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		enum { N = 500 };
		struct plugged p;
		static struct job jobs[N];
		unsigned expected[N];
		weir_random random;
		weir_random_init(&random, 42);
		plugged_open(&p, kind, (weir_stage_options){.order = WEIR_SHORTEST, .capacity = N});
		jobs_init(jobs, N, 0);
		/* A random permutation, with the ends of the range in it. */
		for (unsigned i = 0; i < N; i++)
			expected[i] = i;
		for (unsigned i = N - 1; i > 0; i--) {
			unsigned j = (unsigned)weir_random_below(&random, i + 1), other = expected[j];
			expected[j] = expected[i];
			expected[i] = other;
		}
		for (unsigned rank = 0; rank < N; rank++) {
			struct job *job = &jobs[expected[rank]];
			job->event.cost = rank == N - 1 ? UINT32_MAX : rank * 1000;
			expected[rank] = job->id;
		}
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		plugged_release(&p);
		probe_expect_order(&p.probe, expected, N);
		plugged_end(&p);
	}
}

static void newest_late_is_fifo_while_nobody_waits_long(void **state)
{
	struct plugged p;
	struct job jobs[3];
	plugged_open(&p, WEIR_ELASTIC,
		     (weir_stage_options){.order = WEIR_NEWEST_LATE, .newest_after_ns = 10 * WEIR_NS_PER_MS});
	jobs_init(jobs, 3, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
	world_run(p.world, 9 * WEIR_NS_PER_MS);
	plugged_release(&p);
	probe_expect_order(&p.probe, (unsigned[]){1, 2, 3}, 3);
	plugged_end(&p);
}

static void newest_late_turns_round_when_the_oldest_waited_long(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[4];
		plugged_open(&p, kind,
			     (weir_stage_options){.order = WEIR_NEWEST_LATE,
						  .newest_after_ns = 10 * WEIR_NS_PER_MS});
		jobs_init(jobs, 4, 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_ADMITTED);
		plugged_release(&p);
		probe_expect_order(&p.probe, (unsigned[]){4, 3, 2, 1}, 4);
		plugged_end(&p);
	}
}

static void newest_late_defaults_to_a_tenth_of_a_second(void **state)
{
	for (int late = 0; late < 2; late++) {
		struct plugged p;
		struct job jobs[2];
		plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.order = WEIR_NEWEST_LATE});
		jobs_init(jobs, 2, 0);
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
		world_run(p.world, (late ? 101 : 99) * WEIR_NS_PER_MS);
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
		plugged_release(&p);
		assert_int_equal(p.probe.order[0], late ? 2 : 1);
		plugged_end(&p);
	}
}

static void a_batch_keeps_the_order(void **state)
{
	static const weir_order orders[] = {WEIR_FIFO, WEIR_BY_CLASS, WEIR_SHORTEST};
	static const unsigned expected[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}};
	for (unsigned o = 0; o < 3; o++) {
		weir_world *world = world_virtual(1);
		struct probe probe = {0};
		struct job jobs[4];
		static const uint32_t costs[] = {30, 10, 40, 20};
		probe_open(&probe, domain_reactor(world, "r", 1),
			   (weir_stage_options){.order = orders[o], .batch = 16, .no_inline = true});
		must(weir_world_start(world));
		for (unsigned i = 0; i < 4; i++) {
			job_init(&jobs[i], i, 7 - i);
			jobs[i].event.cost = costs[i];
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		}
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(probe.calls, 1);
		probe_expect_order(&probe, expected[o], 4);
		world_end(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(first_in_first_out),
		CHECK_TEST(the_highest_class_first_and_fifo_within),
		CHECK_TEST(the_smallest_cost_first),
		CHECK_TEST(newest_late_is_fifo_while_nobody_waits_long),
		CHECK_TEST(newest_late_turns_round_when_the_oldest_waited_long),
		CHECK_TEST(newest_late_defaults_to_a_tenth_of_a_second),
		CHECK_TEST(a_batch_keeps_the_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
