/* SPDX-License-Identifier: Apache-2.0 */
/* How a stage hands events to its handler: batches, concurrency, single stages, shares of reactor threads, life. */
#include "support/worlds.h"

#include <errno.h>

/* A reactor thread whose turn has not come: what is offered from outside forms batches. */
struct queued {
	weir_world *world;
	struct probe probe;
};

static void queued_open(struct queued *q, weir_stage_options options)
{
	*q = (struct queued){.world = world_virtual(1)};
	options.no_inline = true;
	probe_open(&q->probe, domain_reactor(q->world, "r", 1), options);
	must(weir_world_start(q->world));
}

static void queued_run(struct queued *q)
{
	assert_int_equal(q->probe.handled, 0);
	world_run(q->world, WEIR_NS_PER_MS);
}

static void batches_are_full_but_never_fuller(void **state)
{
	static const struct {
		uint32_t batch;
		unsigned calls, largest;
	} cases[] = {{0, 4, 32}, {1, 100, 1}, {7, 15, 7}, {WEIR_BATCH_MAX, 1, 100}};
	for (size_t i = 0; i < 4; i++) {
		struct queued q;
		struct job jobs[100];
		queued_open(&q, (weir_stage_options){.capacity = 100, .batch = cases[i].batch});
		jobs_init(jobs, 100, 0);
		for (int j = 0; j < 100; j++)
			assert_int_equal(weir_offer(q.probe.stage, &jobs[j].event), WEIR_ADMITTED);
		queued_run(&q);
		assert_int_equal(q.probe.handled, 100);
		assert_int_equal(q.probe.largest_batch, cases[i].largest);
		assert_int_equal(q.probe.calls, cases[i].calls);
		assert_int_equal(stats_of(q.probe.stage).batches, cases[i].calls);
		world_end(&q.world);
	}
}

static void dropped_events_are_not_in_a_batch(void **state)
{
	struct queued q;
	struct job jobs[10];
	queued_open(&q, (weir_stage_options){.batch = 5});
	jobs_init(jobs, 10, 0);
	for (int j = 0; j < 10; j++) {
		assert_int_equal(weir_offer(q.probe.stage, &jobs[j].event), WEIR_ADMITTED);
		if (j % 2 == 0)
			weir_event_cancel(&jobs[j].event);
	}
	queued_run(&q);
	assert_int_equal(q.probe.handled, 5);
	assert_int_equal(q.probe.dropped, 5);
	for (int j = 0; j < 10; j++)
		assert_int_equal(jobs[j].handled, j % 2);
	world_end(&q.world);
}

static void a_stage_whose_whole_queue_is_dropped_makes_no_empty_call(void **state)
{
	struct queued q;
	struct job jobs[3];
	queued_open(&q, (weir_stage_options){0});
	jobs_init(jobs, 3, 0);
	for (int j = 0; j < 3; j++) {
		assert_int_equal(weir_offer(q.probe.stage, &jobs[j].event), WEIR_ADMITTED);
		weir_event_cancel(&jobs[j].event);
	}
	queued_run(&q);
	assert_int_equal(q.probe.calls, 0);
	assert_int_equal(q.probe.dropped, 3);
	world_end(&q.world);
}

static void no_state(void *state)
{
}

static uint32_t always_three(void *state, const weir_batch_sample *sample)
{
	return 3;
}

static uint32_t far_too_many(void *state, const weir_batch_sample *sample)
{
	return 100000;
}

static uint32_t none_at_all(void *state, const weir_batch_sample *sample)
{
	return 0;
}

static void a_batch_law_sets_the_size_within_bounds(void **state)
{
	static const struct {
		uint32_t (*size)(void *state, const weir_batch_sample *sample);
		unsigned largest;
	} cases[] = {{always_three, 3}, {far_too_many, 10}, {none_at_all, 1}};
	for (size_t i = 0; i < 3; i++) {
		struct queued q;
		struct job jobs[30];
		weir_batch_law law = {.name = "test",
				      .tick_ns = 10 * WEIR_NS_PER_MS,
				      .init = no_state,
				      .size = cases[i].size};
		queued_open(&q, (weir_stage_options){.batch = 10, .batch_law = &law});
		world_run(q.world, 100 * WEIR_NS_PER_MS);
		jobs_init(jobs, 30, 0);
		for (int j = 0; j < 30; j++)
			assert_int_equal(weir_offer(q.probe.stage, &jobs[j].event), WEIR_ADMITTED);
		queued_run(&q);
		assert_int_equal(q.probe.handled, 30);
		assert_int_equal(q.probe.largest_batch, cases[i].largest);
		world_end(&q.world);
	}
}

static void the_packaged_batch_laws_stay_within_bounds(void **state)
{
	const weir_batch_law *laws[] = {&weir_batch_seda, &weir_batch_prompt};
	for (size_t i = 0; i < 2; i++) {
		struct queued q;
		static struct job jobs[200];
		queued_open(&q, (weir_stage_options){.capacity = 400, .batch = 8, .batch_law = laws[i]});
		queued_run(&q);
		jobs_init(jobs, 200, 0);
		q.probe.act = PROBE_WORK;
		q.probe.work_ns = 100 * WEIR_NS_PER_US;
		for (int round = 0; round < 50; round++) {
			assert_int_equal(jobs_offer_many(q.probe.stage, jobs, 200), WEIR_ADMITTED);
			world_run(q.world, 500 * WEIR_NS_PER_MS);
		}
		assert_int_equal(q.probe.handled, 200 * 50);
		assert_in_range(q.probe.largest_batch, 1, 8);
		world_end(&q.world);
	}
}

static void no_more_events_start_than_may_be_inside(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = kind == WEIR_REACTOR ? domain_reactor(world, "d", 1)
							   : domain_elastic(world, "d", 16, 16);
		struct probe probe = {.act = PROBE_HOLD};
		struct job jobs[10];
		probe_open(&probe, domain, (weir_stage_options){.concurrency = 3, .batch = 8});
		must(weir_world_start(world));
		jobs_init(jobs, 10, 0);
		for (int i = 0; i < 10; i++)
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(probe.handled, 3);
		assert_int_equal(weir_stage_waiting(probe.stage), 7);
		for (int i = 0; i < 10; i++) {
			weir_done(&jobs[i].event);
			world_run(world, WEIR_NS_PER_MS);
			assert_int_equal(probe.handled, i + 4 < 10 ? i + 4 : 10);
		}
		expect_counts(probe.stage, 10, 0, 10, 0, 0);
		world_end(&world);
	}
}

/* The event moves on while it was inside: its place must be free for the next. */
static void moving_on_frees_the_place(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "d", 1);
	struct probe first = {.act = PROBE_FORWARD}, second = {.act = PROBE_HOLD};
	struct job jobs[5];
	probe_open(&first, domain, (weir_stage_options){.name = "first", .concurrency = 1});
	probe_open(&second, domain, (weir_stage_options){.name = "second"});
	first.next = second.stage;
	must(weir_world_start(world));
	jobs_init(jobs, 5, 0);
	assert_int_equal(jobs_offer_many(first.stage, jobs, 5), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(second.handled, 5);
	for (int i = 0; i < 5; i++)
		weir_done(&jobs[i].event);
	world_end(&world);
}

static void the_capacity_is_shared_by_the_threads_of_a_reactor(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_HOLD};
	struct job jobs[64];
	unsigned admitted = 0;
	probe_open(&probe, domain_reactor(world, "d", 4),
		   (weir_stage_options){.capacity = 16, .concurrency = 4, .no_inline = true});
	must(weir_world_start(world));
	for (unsigned i = 0; i < 64; i++) {
		job_init(&jobs[i], i, 0);
		jobs[i].event.home = i % 4;
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(probe.handled, 4);
	for (unsigned i = 4; i < 64; i++)
		admitted += weir_offer(probe.stage, &jobs[i].event) == WEIR_ADMITTED;
	/* Four places in service and four waiting on each thread. */
	assert_int_equal(admitted, 16);
	assert_int_equal(weir_stage_waiting(probe.stage), 16);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(probe.handled, 4);
	probe.act = PROBE_DONE;
	for (int i = 0; i < 4; i++)
		weir_done(&jobs[i].event);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(probe.handled, 20);
	world_end(&world);
}

static void offer_itself_again(struct probe *probe, struct job *job)
{
	struct job *child = job->data;
	if (child != NULL)
		child->why = weir_offer(probe->stage, &child->event);
	weir_done(&job->event);
}

static void a_single_stage_is_not_entered_from_within(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.each = offer_itself_again};
		struct job jobs[10];
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.single = true});
		must(weir_world_start(world));
		jobs_init(jobs, 10, 0);
		for (int i = 0; i < 9; i++)
			jobs[i].data = &jobs[i + 1];
		assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(probe.handled, 10);
		assert_int_equal(probe.most_inside, 1);
		world_end(&world);
	}
}

static void a_stage_that_is_not_inlined_always_queues(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.each = offer_itself_again};
	struct job jobs[10];
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){.no_inline = true});
	must(weir_world_start(world));
	jobs_init(jobs, 10, 0);
	for (int i = 0; i < 9; i++)
		jobs[i].data = &jobs[i + 1];
	assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(probe.handled, 0);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(probe.handled, 10);
	assert_int_equal(probe.most_inside, 1);
	assert_int_equal(stats_of(probe.stage).inlined, 0);
	world_end(&world);
}

static void stages_come_and_go_while_the_world_runs(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = domain_of_kind(world, kind);
		struct probe early = {0}, late = {0};
		struct job job;
		probe_open(&early, domain, (weir_stage_options){.name = "early"});
		must(weir_world_start(world));
		world_run(world, WEIR_NS_PER_MS);
		probe_open(&late, domain, (weir_stage_options){.name = "late"});
		weir_stage_close(early.stage);
		weir_stage_close(early.stage);
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(early.stage, &job.event), WEIR_SHED_CLOSED);
		assert_int_equal(weir_offer(late.stage, &job.event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(job.handled, 1);
		world_end(&world);
	}
}

static void every_stage_of_a_domain_gets_its_turn(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = domain_of_kind(world, kind);
		static const char *const names[] = {"a", "b", "c", "d"};
		struct probe probes[4] = {0};
		static struct job jobs[4][50];
		for (int s = 0; s < 4; s++) {
			probes[s].act = PROBE_WORK;
			probes[s].work_ns = WEIR_NS_PER_MS;
			probe_open(&probes[s], domain,
				   (weir_stage_options){.name = names[s], .batch = 1, .concurrency = 1});
		}
		must(weir_world_start(world));
		for (int s = 0; s < 4; s++) {
			jobs_init(jobs[s], 50, 0);
			for (int i = 0; i < 50; i++)
				assert_int_equal(weir_offer(probes[s].stage, &jobs[s][i].event),
						 WEIR_ADMITTED);
		}
		/* One thread does 40 of 200 in this time: each stage must have had several of them. */
		world_run(world, 40 * WEIR_NS_PER_MS);
		for (int s = 0; s < 4; s++)
			assert_true(probes[s].handled >= 5);
		world_end(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(batches_are_full_but_never_fuller),
		CHECK_TEST(dropped_events_are_not_in_a_batch),
		CHECK_TEST(a_stage_whose_whole_queue_is_dropped_makes_no_empty_call),
		CHECK_TEST(a_batch_law_sets_the_size_within_bounds),
		CHECK_TEST(the_packaged_batch_laws_stay_within_bounds),
		CHECK_TEST(no_more_events_start_than_may_be_inside),
		CHECK_TEST(moving_on_frees_the_place),
		CHECK_TEST(the_capacity_is_shared_by_the_threads_of_a_reactor),
		CHECK_TEST(a_single_stage_is_not_entered_from_within),
		CHECK_TEST(a_stage_that_is_not_inlined_always_queues),
		CHECK_TEST(stages_come_and_go_while_the_world_runs),
		CHECK_TEST(every_stage_of_a_domain_gets_its_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
