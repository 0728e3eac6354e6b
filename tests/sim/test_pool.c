/* SPDX-License-Identifier: Apache-2.0 */
/* How an elastic domain follows its load: the default law within 100 ms of simulated time, SEDA's a thread every 2 s. */
#include "support/worlds.h"

#define MS WEIR_NS_PER_MS

enum { JOBS = 4096 };

/* A pool whose handlers block for work_ns, under arrivals whose rate can be changed. */
struct loaded {
	weir_world *world;
	weir_domain *domain;
	struct probe probe;
	weir_arrivals arrivals;
	struct job jobs[JOBS]; /* a ring; more than can be inside */
	size_t next;
};

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct loaded *l = arg;
	struct job *job = jobs_next_free(l->jobs, JOBS, &l->next);
	job_init(job, 0, 0);
	weir_offer(l->probe.stage, &job->event);
}

static void loaded_open(struct loaded *l, const weir_pool_law *law, uint32_t min, uint32_t max,
			uint64_t work_ns, double per_s)
{
	*l = (struct loaded){.probe.act = PROBE_WORK, .probe.work_ns = work_ns};
	l->world = world_virtual(7);
	weir_domain_options options = {
		.name = "pool", .kind = WEIR_ELASTIC, .min_threads = min, .max_threads = max, .pool = law};
	must(weir_domain_new(l->world, &options, &l->domain));
	probe_open(&l->probe, l->domain, (weir_stage_options){.capacity = 2000, .batch = 1});
	must(weir_world_start(l->world));
	weir_arrivals_start(&l->arrivals, l->world, WEIR_CONSTANT, per_s, arrive, l);
}

static void loaded_end(struct loaded *l)
{
	weir_arrivals_stop(&l->arrivals);
	world_end(&l->world);
}

static struct loaded l;

static void a_step_of_blocking_load_is_followed_within_100_ms(void **state)
{
	/* 20 a second of 50 ms need one thread; 800 a second need 40. */
	loaded_open(&l, NULL, 1, 64, 50 * MS, 20);
	world_run(l.world, 5000 * MS);
	assert_in_range(weir_domain_threads(l.domain), 1, 4);
	weir_arrivals_rate(&l.arrivals, 800);
	world_run(l.world, 100 * MS);
	assert_true(weir_domain_threads(l.domain) >= 38);
	assert_true(weir_stage_waiting(l.probe.stage) < 10);
	/* The queue that built up meanwhile goes away, and stays away. */
	world_run(l.world, 500 * MS);
	assert_true(weir_stage_waiting(l.probe.stage) < 10);
	world_run(l.world, 5000 * MS);
	assert_true(weir_stage_waiting(l.probe.stage) < 10);
	assert_true(weir_domain_threads(l.domain) <= 64);
	loaded_end(&l);
}

static void the_pool_shrinks_back_when_the_load_is_gone(void **state)
{
	loaded_open(&l, NULL, 2, 64, 50 * MS, 800);
	world_run(l.world, 2000 * MS);
	assert_true(weir_domain_threads(l.domain) >= 40);
	weir_arrivals_rate(&l.arrivals, 20);
	world_run(l.world, 20000 * MS);
	assert_in_range(weir_domain_threads(l.domain), 2, 5);
	weir_arrivals_rate(&l.arrivals, 0);
	world_run(l.world, 60000 * MS);
	assert_int_equal(weir_domain_threads(l.domain), 2);
	loaded_end(&l);
}

static void the_bounds_of_a_pool_hold(void **state)
{
	loaded_open(&l, NULL, 3, 8, 50 * MS, 2000);
	assert_int_equal(weir_domain_threads(l.domain), 3);
	for (int i = 0; i < 200; i++) {
		world_run(l.world, 10 * MS);
		assert_in_range(weir_domain_threads(l.domain), 3, 8);
		weir_stage_stats stats = stats_of(l.probe.stage);
		assert_true(stats.in_flight - stats.waiting <= 8);
	}
	assert_int_equal(weir_domain_threads(l.domain), 8);
	loaded_end(&l);
}

/* A short handler at a high rate is no reason for many threads. */
static void work_that_does_not_block_needs_few_threads(void **state)
{
	loaded_open(&l, NULL, 1, 64, 100 * WEIR_NS_PER_US, 5000);
	world_run(l.world, 5000 * MS);
	assert_in_range(weir_domain_threads(l.domain), 1, 8);
	loaded_end(&l);
}

static void sedas_rule_adds_a_thread_every_two_seconds(void **state)
{
	loaded_open(&l, &weir_pool_seda, 1, 64, 50 * MS, 800);
	world_run(l.world, 100 * MS);
	assert_int_equal(weir_domain_threads(l.domain), 1);
	world_run(l.world, 1800 * MS);
	assert_int_equal(weir_domain_threads(l.domain), 1);
	for (uint32_t threads = 2; threads <= 10; threads++) {
		world_run(l.world, 2000 * MS);
		assert_in_range(weir_domain_threads(l.domain), threads - 1, threads);
	}
	loaded_end(&l);
}

static void sedas_rule_lets_an_idle_thread_go_after_five_seconds(void **state)
{
	loaded_open(&l, &weir_pool_seda, 1, 64, 50 * MS, 800);
	world_run(l.world, 20500 * MS);
	uint32_t grown = weir_domain_threads(l.domain);
	assert_true(grown >= 9);
	weir_arrivals_rate(&l.arrivals, 0);
	/* Up to 2000 wait, and ten threads do 200 a second; then all are idle. */
	world_run(l.world, 12000 * MS);
	assert_int_equal(stats_of(l.probe.stage).in_flight, 0);
	world_run(l.world, 100000 * MS);
	assert_int_equal(weir_domain_threads(l.domain), 1);
	loaded_end(&l);
}

static void no_state(void *state)
{
}

static uint32_t ask_for_nine_hundred(void *state, const weir_pool_sample *sample)
{
	assert_in_range(sample->threads, sample->min, sample->max);
	assert_true(sample->busy <= sample->threads);
	return 900;
}

static void a_pool_law_of_ones_own_is_clamped(void **state)
{
	weir_pool_law law = {
		.name = "greedy", .tick_ns = 10 * MS, .init = no_state, .size = ask_for_nine_hundred};
	loaded_open(&l, &law, 2, 5, MS, 100);
	world_run(l.world, 500 * MS);
	assert_int_equal(weir_domain_threads(l.domain), 5);
	loaded_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_step_of_blocking_load_is_followed_within_100_ms),
		CHECK_TEST(the_pool_shrinks_back_when_the_load_is_gone),
		CHECK_TEST(the_bounds_of_a_pool_hold),
		CHECK_TEST(work_that_does_not_block_needs_few_threads),
		CHECK_TEST(sedas_rule_adds_a_thread_every_two_seconds),
		CHECK_TEST(sedas_rule_lets_an_idle_thread_go_after_five_seconds),
		CHECK_TEST(a_pool_law_of_ones_own_is_clamped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
