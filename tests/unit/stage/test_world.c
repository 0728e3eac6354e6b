/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a world, virtual and real: starting, stopping, freeing, in and out of order; clocks, timers, arrivals. */
#include "support/worlds.h"

#include <errno.h>

static void a_world_that_never_started_can_be_freed(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		struct probe probe = {0};
		probe_open(&probe, domain_reactor(world, "r", 2), (weir_stage_options){.name = "a"});
		probe_open(&probe, domain_elastic(world, "e", 1, 4), (weir_stage_options){.name = "b"});
		weir_world_free(&world);
		assert_null(world);
		weir_world_free(&world);
	}
}

static void a_world_without_domains_does_not_start(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		assert_int_equal(weir_world_start(world), -EINVAL);
		check_contains(weir_error(), "domain");
		weir_world_free(&world);
	}
}

static void a_world_without_stages_starts_and_stops(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		domain_reactor(world, "r", 2);
		domain_elastic(world, "e", 2, 4);
		must(weir_world_start(world));
		world_end(&world);
	}
}

static void stop_it(struct probe *probe, struct job *job)
{
	job->data = weir_world_stop(probe->data, WEIR_NS_PER_S, NULL) < 0 ? probe : NULL;
	weir_done(&job->event);
}

static void a_handler_cannot_stop_its_world(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		FOR_BOTH_KINDS(kind)
		{
			weir_world *world = simulated ? world_virtual(1) : world_real();
			struct probe probe = {.each = stop_it, .data = world};
			struct job job;
			probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
			must(weir_world_start(world));
			job_init(&job, 1, 0);
			assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
			if (simulated)
				world_run(world, WEIR_NS_PER_MS);
			world_end(&world);
			assert_ptr_equal(job.data, &probe);
		}
	}
}

static void a_world_starts_once(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		domain_elastic(world, "e", 1, 1);
		must(weir_world_start(world));
		assert_true(weir_world_start(world) < 0);
		assert_true(weir_error()[0] != '\0');
		must(weir_world_stop(world, WEIR_NS_PER_S, NULL));
		assert_true(weir_world_start(world) < 0);
		weir_world_free(&world);
	}
}

static void stopping_out_of_order_is_an_error_or_nothing(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		weir_stop_report report;
		domain_reactor(world, "r", 1);
		assert_true(weir_world_stop(world, WEIR_NS_PER_S, &report) <= 0);
		weir_world_free(&world);

		world = simulated ? world_virtual(1) : world_real();
		domain_reactor(world, "r", 1);
		must(weir_world_start(world));
		must(weir_world_stop(world, WEIR_NS_PER_S, &report));
		assert_true(weir_world_stop(world, WEIR_NS_PER_S, &report) <= 0);
		weir_world_free(&world);
	}
}

static void nothing_can_be_added_to_a_stopped_world(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_elastic(world, "e", 1, 1), *more = NULL;
	struct probe probe = {0};
	probe_open(&probe, domain, (weir_stage_options){.name = "first"});
	must(weir_world_start(world));
	must(weir_world_stop(world, WEIR_NS_PER_S, NULL));
	assert_true(weir_domain_new(world, &(weir_domain_options){.name = "late", .kind = WEIR_ELASTIC},
				    &more) < 0);
	assert_null(more);
	/* Closing and changing what is there is harmless. */
	weir_stage_close(probe.stage);
	weir_stage_admission(probe.stage, NULL, NULL);
	weir_world_free(&world);
}

static void freeing_a_running_world_stops_it(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		struct probe probe = {.act = PROBE_HOLD};
		struct job jobs[4];
		probe_open(&probe, domain_elastic(world, "e", 1, 1), (weir_stage_options){.concurrency = 1});
		must(weir_world_start(world));
		jobs_init(jobs, 4, 0);
		for (int i = 0; i < 4; i++)
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		if (simulated)
			world_run(world, WEIR_NS_PER_MS);
		else
			CHECK_EVENTUALLY(probe.handled == 1);
		weir_world_free(&world);
		assert_null(world);
		assert_int_equal(probe.handled, 1);
		assert_int_equal(probe.dropped, 3);
		assert_int_equal(probe.drops[WEIR_SHED_STOPPING], 3);
	}
}

static void two_worlds_do_not_know_each_other(void **state)
{
	weir_world *worlds[2] = {world_virtual(1), world_virtual(1)};
	struct probe probes[2] = {0};
	struct job job;
	for (int i = 0; i < 2; i++) {
		probe_open(&probes[i], domain_reactor(worlds[i], "d", 1),
			   (weir_stage_options){.name = "same"});
		must(weir_world_start(worlds[i]));
	}
	world_run(worlds[0], WEIR_NS_PER_S);
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probes[1].stage, &job.event), WEIR_ADMITTED);
	world_run(worlds[0], WEIR_NS_PER_S);
	world_run(worlds[1], WEIR_NS_PER_MS);
	assert_int_equal(job.handled, 1);
	assert_int_equal(stats_of(probes[0].stage).offered, 0);
	assert_true(weir_world_now(worlds[0]) - weir_world_now(worlds[1]) > WEIR_NS_PER_S);
	world_end(&worlds[0]);
	world_end(&worlds[1]);
}

struct firing {
	weir_world *world;
	weir_timer timers[5];
	uint64_t at[5];
	unsigned order[8], count;
};

static void fired(weir_timer *timer, void *arg)
{
	struct firing *firing = arg;
	unsigned i = (unsigned)(timer - firing->timers);
	firing->at[i] = weir_world_now(firing->world);
	if (firing->count < 8)
		firing->order[firing->count++] = i;
}

static void virtual_timers_fire_exactly_and_in_order(void **state)
{
	struct firing f = {.world = world_virtual(1)};
	domain_reactor(f.world, "r", 1);
	must(weir_world_start(f.world));
	uint64_t start = weir_world_now(f.world);
	static const uint64_t after[5] = {300, 100, 200, 100, 1000000007};
	for (int i = 0; i < 5; i++) {
		weir_timer_init(&f.timers[i], fired, &f);
		weir_sim_timer(f.world, &f.timers[i], start + after[i]);
	}
	weir_timer_stop(&f.timers[2]);
	assert_false(weir_timer_pending(&f.timers[2]));
	weir_sim_run(f.world, start + 99);
	assert_int_equal(f.count, 0);
	assert_true(weir_sim_run(f.world, start + 100) >= 2);
	/* Those of one instant in the order in which they were started. */
	assert_int_equal(f.order[0], 1);
	assert_int_equal(f.order[1], 3);
	weir_sim_run(f.world, start + 2000000000);
	assert_int_equal(f.count, 4);
	assert_int_equal(f.at[0], start + 300);
	assert_int_equal(f.at[4], start + 1000000007);
	/* A time in the past is now. */
	weir_sim_timer(f.world, &f.timers[2], 1);
	weir_sim_run(f.world, weir_world_now(f.world) + 1);
	assert_int_equal(f.count, 5);
	assert_true(f.at[2] >= start + 2000000000);
	world_end(&f.world);
}

static void running_backwards_changes_nothing(void **state)
{
	weir_world *world = world_virtual(1);
	domain_reactor(world, "r", 1);
	must(weir_world_start(world));
	world_run(world, WEIR_NS_PER_S);
	uint64_t now = weir_world_now(world);
	assert_int_equal(weir_sim_run(world, now - 1000), 0);
	assert_int_equal(weir_world_now(world), now);
	world_end(&world);
}

static void a_timer_needs_a_loop_or_a_running_world(void **state)
{
	weir_timer timer;
	weir_timer_init(&timer, fired, NULL);
	assert_int_equal(weir_timer_start(NULL, &timer, 1), -EINVAL);
	assert_true(weir_error()[0] != '\0');
	assert_false(weir_timer_pending(&timer));
}

static void count_arrival(weir_arrivals *arrivals, void *arg)
{
	++*(unsigned *)arg;
}

static void arrivals_come_at_their_rate(void **state)
{
	weir_world *world = world_virtual(5);
	weir_arrivals constant, poisson;
	unsigned constant_count = 0, poisson_count = 0;
	domain_reactor(world, "r", 1);
	must(weir_world_start(world));
	weir_arrivals_start(&constant, world, WEIR_CONSTANT, 100, count_arrival, &constant_count);
	weir_arrivals_start(&poisson, world, WEIR_POISSON, 1000, count_arrival, &poisson_count);
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_in_range(constant_count, 999, 1001);
	assert_int_equal(constant.count, constant_count);
	assert_in_range(poisson_count, 9600, 10400);

	weir_arrivals_rate(&constant, 0);
	weir_arrivals_rate(&poisson, 10);
	constant_count = poisson_count = 0;
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_int_equal(constant_count, 0);
	assert_in_range(poisson_count, 60, 140);

	weir_arrivals_rate(&constant, 50);
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_in_range(constant_count, 499, 501);

	weir_arrivals_stop(&constant);
	weir_arrivals_stop(&poisson);
	constant_count = poisson_count = 0;
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_int_equal(constant_count + poisson_count, 0);
	world_end(&world);
}

static void a_stop_ends_with_arrivals_still_coming(void **state)
{
	weir_world *world = world_virtual(5);
	weir_arrivals arrivals;
	unsigned count = 0;
	domain_reactor(world, "r", 1);
	must(weir_world_start(world));
	weir_arrivals_start(&arrivals, world, WEIR_POISSON, 1000, count_arrival, &count);
	world_run(world, WEIR_NS_PER_S);
	world_end(&world);
	weir_arrivals_stop(&arrivals);
}

static void elastic_domains_start_with_their_minimum(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = simulated ? world_virtual(1) : world_real();
		weir_domain *three = domain_elastic(world, "three", 3, 8),
			    *usual = domain_elastic(world, "usual", 0, 0);
		weir_domain *reactor = domain_reactor(world, "two", 2),
			    *cores = domain_reactor(world, "cores", 0);
		must(weir_world_start(world));
		assert_int_equal(weir_domain_threads(three), 3);
		assert_int_equal(weir_domain_threads(usual), 1);
		assert_int_equal(weir_domain_threads(reactor), 2);
		assert_true(weir_domain_threads(cores) >= 1);
		assert_null(weir_domain_loop(three, 0));
		assert_null(weir_domain_loop(reactor, 2));
		assert_int_equal(weir_thread_home(), WEIR_ANYWHERE);
		world_end(&world);
	}
}

static void rates_out_of_range_are_harmless(void **state)
{
	const double rates[] = {0.0 / 0.0, -1, 1e-30, 1e-300};
	weir_world *world = world_virtual(5);
	domain_reactor(world, "r", 1);
	must(weir_world_start(world));
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		weir_arrivals arrivals;
		unsigned count = 0;
		weir_arrivals_start(&arrivals, world, WEIR_CONSTANT, rates[i], count_arrival, &count);
		world_run(world, WEIR_NS_PER_S);
		assert_int_equal(count, 0);
		weir_arrivals_rate(&arrivals, 1e12); /* one a nanosecond is all there can be */
		world_run(world, 1000);
		assert_int_equal(count, 1000);
		weir_arrivals_stop(&arrivals);
	}
	world_end(&world);
}

struct circle {
	weir_world *world;
	uint64_t start_ns;
};

static void go_round(struct probe *probe, struct job *job)
{
	const struct circle *circle = probe->data;
	weir_done(&job->event);
	if (weir_world_now(circle->world) == circle->start_ns)
		assert_int_equal(weir_offer(probe->stage, &job->event), WEIR_ADMITTED);
}

/* An instant in which events go round is stretched after as many calls, whichever way the offers take. */
static void an_instant_ends_after_as_many_calls_traced_or_not(void **state)
{
	unsigned calls[2];
	for (uint32_t every = 0; every < 2; every++) {
		weir_world *world = world_virtual(5);
		struct circle circle = {.world = world, .start_ns = weir_world_now(world)};
		struct probe probe = {.each = go_round, .data = &circle};
		struct job job;
		probe_open(&probe, domain_reactor(world, "r", 1), (weir_stage_options){0});
		must(weir_world_start(world));
		weir_trace_every(world, every);
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_S);
		calls[every] = probe.handled;
		world_end(&world);
	}
	assert_int_equal(calls[0], calls[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_world_that_never_started_can_be_freed),
		CHECK_TEST(a_world_without_domains_does_not_start),
		CHECK_TEST(a_world_without_stages_starts_and_stops),
		CHECK_TEST(a_handler_cannot_stop_its_world),
		CHECK_TEST(a_world_starts_once),
		CHECK_TEST(stopping_out_of_order_is_an_error_or_nothing),
		CHECK_TEST(nothing_can_be_added_to_a_stopped_world),
		CHECK_TEST(freeing_a_running_world_stops_it),
		CHECK_TEST(two_worlds_do_not_know_each_other),
		CHECK_TEST(virtual_timers_fire_exactly_and_in_order),
		CHECK_TEST(running_backwards_changes_nothing),
		CHECK_TEST(a_timer_needs_a_loop_or_a_running_world),
		CHECK_TEST(arrivals_come_at_their_rate),
		CHECK_TEST(a_stop_ends_with_arrivals_still_coming),
		CHECK_TEST(elastic_domains_start_with_their_minimum),
		CHECK_TEST(rates_out_of_range_are_harmless),
		CHECK_TEST(an_instant_ends_after_as_many_calls_traced_or_not),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
