/* SPDX-License-Identifier: Apache-2.0 */
/* A world with nothing to do sleeps. What is asserted is processor time of this process, never time on the wall. */
#include "support/worlds.h"

#include <poll.h>
#include <sys/resource.h>

static uint64_t cpu_ns(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WEIR_NS_PER_S +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WEIR_NS_PER_US;
}

static void open_world(weir_world **world, struct probe *front, struct probe *back)
{
	*world = world_real();
	probe_open(back, domain_elastic(*world, "pool", 4, 8), (weir_stage_options){.name = "back"});
	probe_open(front, domain_reactor(*world, "reactor", 2), (weir_stage_options){.name = "front"});
	front->act = PROBE_FORWARD;
	front->next = back->stage;
	must(weir_world_start(*world));
}

static void threads_sleep_when_there_is_nothing_to_do(void **state)
{
	weir_world *world;
	struct probe front = {0}, back = {0};
	struct job job;
	open_world(&world, &front, &back);
	for (int round = 0; round < 2; round++) {
		/* Once before anything has run, once after. */
		poll(NULL, 0, 50);
		uint64_t before = cpu_ns();
		poll(NULL, 0, 300);
		uint64_t spent = cpu_ns() - before;
		if (spent > 30 * WEIR_NS_PER_MS)
			fail_msg("%llu us of processor time in 300 ms of idleness",
				 (unsigned long long)spent / 1000);
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(front.stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(stats_of(back.stage).completed == (uint64_t)round + 1);
	}
	world_end(&world);
}

/* After some quiet even the ticks pause; then the first offer must find everybody awake again. */
static void a_world_wakes_from_a_long_sleep(void **state)
{
	weir_world *world;
	struct probe front = {0}, back = {0};
	struct job jobs[8];
	open_world(&world, &front, &back);
	poll(NULL, 0, 2500);
	uint64_t before = cpu_ns();
	poll(NULL, 0, 500);
	uint64_t spent = cpu_ns() - before;
	if (spent > 5 * WEIR_NS_PER_MS)
		fail_msg("%llu us of processor time in 500 ms of deep sleep",
			 (unsigned long long)spent / 1000);
	jobs_init(jobs, 8, 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(weir_offer(front.stage, &jobs[i].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(stats_of(back.stage).completed == 8);
	world_end(&world);
}

static weir_verdict admit_all(void *law, const weir_ask *ask)
{
	(void)law, (void)ask;
	return WEIR_ADMITTED;
}

static void learn_nothing(void *law, const weir_sample *sample)
{
	(void)law, (void)sample;
}

/* Longer than it takes the ticks to pause. */
static uint64_t long_patience(const void *law, unsigned klass)
{
	(void)law, (void)klass;
	return 3500 * WEIR_NS_PER_MS;
}

/* One that hangs holds back another, and nobody else ever comes: ticks go on until the law has had enough of the waiting. */
static void who_waits_behind_one_that_hangs_is_not_slept_over(void **state)
{
	static const weir_admission_law patient = {.name = "patient",
						   .tick_ns = 10 * WEIR_NS_PER_MS,
						   .admit = admit_all,
						   .tick = learn_nothing,
						   .patience = long_patience};
	weir_world *world = world_real();
	struct probe hung = {0};
	struct job jobs[2];
	probe_open(&hung, domain_reactor(world, "reactor", 1),
		   (weir_stage_options){.name = "hung", .concurrency = 1});
	hung.act = PROBE_HOLD;
	must(weir_stage_admission(hung.stage, &patient, NULL));
	must(weir_world_start(world));
	jobs_init(jobs, 2, 0);
	assert_int_equal(weir_offer(hung.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(hung.stage, &jobs[1].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(stats_of(hung.stage).dropped == 1);
	weir_done(&jobs[0].event);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(threads_sleep_when_there_is_nothing_to_do),
		CHECK_TEST(a_world_wakes_from_a_long_sleep),
		CHECK_TEST(who_waits_behind_one_that_hangs_is_not_slept_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
