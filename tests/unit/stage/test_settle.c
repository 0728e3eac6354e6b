/* SPDX-License-Identifier: Apache-2.0 */
/* How events leave a stage: done, failed, held and settled later, moved on, or dropped. */
#include "support/worlds.h"

static void done_and_failed_are_counted_by_class(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_DONE};
		struct job jobs[WEIR_CLASSES * 2];
		weir_stage_stats stats;
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
		must(weir_world_start(world));
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			job_init(&jobs[k], k, k);
			assert_int_equal(weir_offer(probe.stage, &jobs[k].event), WEIR_ADMITTED);
		}
		world_run(world, WEIR_NS_PER_MS);
		probe.act = PROBE_FAIL;
		for (unsigned k = 0; k < WEIR_CLASSES; k += 2) {
			job_init(&jobs[WEIR_CLASSES + k], k, k);
			assert_int_equal(weir_offer(probe.stage, &jobs[WEIR_CLASSES + k].event),
					 WEIR_ADMITTED);
		}
		world_run(world, WEIR_NS_PER_MS);
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			weir_stage_read(probe.stage, k, &stats);
			assert_int_equal(stats.admitted, k % 2 == 0 ? 2 : 1);
			assert_int_equal(stats.completed, 1);
			assert_int_equal(stats.failed, k % 2 == 0);
			assert_int_equal(stats.in_flight, 0);
		}
		expect_counts(probe.stage, 12, 0, 8, 4, 0);
		world_end(&world);
	}
}

static void a_settled_event_can_be_offered_again(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
	}
	assert_int_equal(job.handled, 10);
	assert_null(job.event.lane);
	world_end(&world);
}

static void a_held_event_is_in_flight_until_settled_from_anywhere(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_HOLD};
		struct job jobs[2];
		/* A virtual pool's thread is busy while its event is held, so there are two. */
		weir_domain *domain = kind == WEIR_REACTOR ? domain_reactor(world, "d", 1)
							   : domain_elastic(world, "d", 2, 2);
		probe_open(&probe, domain, (weir_stage_options){.batch = 2});
		must(weir_world_start(world));
		jobs_init(jobs, 2, 0);
		assert_int_equal(jobs_offer_many(probe.stage, jobs, 2), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_S);
		expect_counts(probe.stage, 2, 0, 0, 0, 0);
		assert_int_equal(weir_stage_waiting(probe.stage), 0);
		weir_done(&jobs[0].event);
		expect_counts(probe.stage, 2, 0, 1, 0, 0);
		weir_fail(&jobs[1].event);
		expect_counts(probe.stage, 2, 0, 1, 1, 0);
		world_end(&world);
	}
}

static void finish_after_settles_at_exactly_that_time(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK, .work_ns = 12345678};
	struct job job;
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	uint64_t start = weir_world_now(world);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	weir_sim_run(world, start + 12345677);
	expect_counts(probe.stage, 1, 0, 0, 0, 0);
	weir_sim_run(world, start + 12345678);
	expect_counts(probe.stage, 1, 0, 1, 0, 0);
	world_end(&world);
}

static void an_expired_event_is_dropped_at_its_turn(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[4];
		plugged_open(&p, kind, (weir_stage_options){0});
		jobs_init(jobs, 4, 3);
		uint64_t turn = weir_world_now(p.world) + 50 * WEIR_NS_PER_MS;
		jobs[0].event.deadline_ns = turn - 1;
		jobs[1].event.deadline_ns = turn; /* worthless afterwards, not yet */
		jobs[2].event.deadline_ns = turn - 40 * WEIR_NS_PER_MS;
		for (int i = 0; i < 4; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		weir_sim_run(p.world, turn);
		weir_done(&p.plug.event);
		p.plug.handled = 0;
		weir_sim_run(p.world, turn);
		weir_sim_run(p.world, turn + 1);
		assert_int_equal(jobs[0].handled, 0);
		assert_int_equal(jobs[0].dropped, 1);
		assert_int_equal(jobs[0].why, WEIR_SHED_EXPIRED);
		assert_int_equal(jobs[1].handled, 1);
		assert_int_equal(jobs[2].dropped, 1);
		assert_int_equal(jobs[3].handled, 1);
		expect_counts(p.stage, 5, 0, 3, 0, 2);
		assert_int_equal(stats_of(p.stage).drops[WEIR_SHED_EXPIRED], 2);
		plugged_end(&p);
	}
}

static void an_event_that_comes_too_late_is_never_handled(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	world_run(world, WEIR_NS_PER_S);
	job_init(&job, 1, 0);
	job.event.deadline_ns = weir_world_now(world) - 1;
	weir_verdict verdict = weir_offer(probe.stage, &job.event);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(job.handled, 0);
	if (verdict == WEIR_ADMITTED)
		assert_int_equal(job.why, WEIR_SHED_EXPIRED);
	else
		assert_int_equal(verdict, WEIR_SHED_EXPIRED);
	world_end(&world);
}

static void a_cancelled_event_is_dropped_at_its_turn(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[3];
		plugged_open(&p, kind, (weir_stage_options){0});
		jobs_init(jobs, 3, 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		assert_false(weir_event_cancelled(&jobs[1].event));
		weir_event_cancel(&jobs[1].event);
		weir_event_cancel(&jobs[1].event);
		assert_true(weir_event_cancelled(&jobs[1].event));
		plugged_release(&p);
		assert_int_equal(jobs[0].handled, 1);
		assert_int_equal(jobs[1].handled, 0);
		assert_int_equal(jobs[1].dropped, 1);
		assert_int_equal(jobs[1].why, WEIR_SHED_CANCELLED);
		assert_null(jobs[1].event.lane);
		assert_int_equal(jobs[2].handled, 1);
		expect_counts(p.stage, 4, 0, 3, 0, 1);

		/* Made anew, it is as good as any. */
		weir_event_init(&jobs[1].event, 0);
		assert_false(weir_event_cancelled(&jobs[1].event));
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
		world_run(p.world, WEIR_NS_PER_MS);
		assert_int_equal(jobs[1].handled, 1);
		plugged_end(&p);
	}
}

static void cancelling_what_is_being_handled_leaves_it_to_the_handler(void **state)
{
	struct plugged p;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	weir_event_cancel(&p.plug.event);
	world_run(p.world, WEIR_NS_PER_S);
	assert_int_equal(p.probe.dropped, 0);
	plugged_release(&p);
	expect_counts(p.stage, 1, 0, 1, 0, 0);
	plugged_end(&p);
}

static void offer_again(struct probe *probe, struct job *job)
{
	if (job->dropped > 1)
		return;
	weir_event_init(&job->event, 1);
	job->why = weir_offer(probe->stage, &job->event);
}

static void a_drop_function_may_offer_the_event_again(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[3];
		plugged_open(&p, kind, (weir_stage_options){0});
		p.probe.on_drop = offer_again;
		jobs_init(jobs, 3, 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		weir_event_cancel(&jobs[0].event);
		weir_event_cancel(&jobs[2].event);
		plugged_release(&p);
		for (int i = 0; i < 3; i++)
			assert_int_equal(jobs[i].handled, 1);
		expect_counts(p.stage, 6, 0, 4, 0, 2);
		plugged_end(&p);
	}
}

static void a_leaked_event_goes_to_the_drop_function(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_LEAK};
		struct job jobs[3];
		weir_stop_report report;
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.concurrency = 2});
		must(weir_world_start(world));
		jobs_init(jobs, 3, 0);
		assert_int_equal(jobs_offer_many(probe.stage, jobs, 3), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		/* All three: what leaks must not take a place in service for ever. */
		assert_int_equal(probe.drops[WEIR_SHED_LEAKED], 3);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(jobs[i].handled, 1);
			assert_int_equal(jobs[i].dropped, 1);
			assert_null(jobs[i].event.lane);
		}
		expect_counts(probe.stage, 3, 0, 0, 0, 3);
		assert_int_equal(weir_stage_faults(probe.stage, WEIR_FAULT_LEAKED), 3);
		assert_int_equal(stats_of(probe.stage).drops[WEIR_SHED_LEAKED], 3);
		must(weir_world_stop(world, WEIR_NS_PER_S, &report));
		assert_int_equal(report.faults, 3);
		assert_int_equal(report.unbalanced, 0);
		weir_world_free(&world);
	}
}

/* One handler call sees five events and treats each in another way. */
static void by_id(struct probe *probe, struct job *job)
{
	switch (job->id) {
	case 1:
		weir_done(&job->event);
		break;
	case 2:
		weir_fail(&job->event);
		break;
	case 3:
		weir_hold(&job->event);
		break;
	case 4:
		weir_offer(probe->next, &job->event);
		break;
	default: /* leaked */
		break;
	}
}

static void each_of_a_batch_is_settled_by_itself(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe first = {0}, second = {0};
	struct job jobs[5];
	probe_open(&second, domain_elastic(world, "pool", 1, 1),
		   (weir_stage_options){.name = "second", .capacity = 1});
	first.next = second.stage;
	first.each = by_id;
	probe_open(&first, domain_reactor(world, "d", 1), (weir_stage_options){.name = "first"});
	must(weir_world_start(world));
	jobs_init(jobs, 5, 0);
	assert_int_equal(jobs_offer_many(first.stage, jobs, 5), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(first.calls, 1);
	expect_counts(first.stage, 5, 0, 2, 1, 1);
	expect_counts(second.stage, 1, 0, 1, 0, 0);
	weir_done(&jobs[2].event);
	expect_counts(first.stage, 5, 0, 3, 1, 1);
	world_end_faulty(&world);
}

/* Finishes the batch as a whole, but for its first event, which is done already: that one is a fault and nothing else. */
static void finish_all(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	_Atomic size_t *calls = arg;
	weir_done(events[0]);
	weir_done_many(events, count);
	weir_done_many(events, 0);
	(*calls)++;
}

static void never_dropped(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	fail_msg("%s dropped an event: %s", weir_stage_name(stage), weir_verdict_name(why));
}

/* In every kind of world and domain; classes mixed, so that the counts of one must not go to another. */
static void a_batch_can_be_done_at_once(void **state)
{
	for (int round = 0; round < 4; round++) {
		static struct job jobs[24];
		weir_world *world = round & 1 ? world_virtual(1) : world_real();
		weir_domain *domain = domain_of_kind(world, round & 2 ? WEIR_REACTOR : WEIR_ELASTIC);
		_Atomic size_t calls = 0;
		weir_stage *stage;
		weir_stage_options options = {.name = "whole",
					      .handle = finish_all,
					      .drop = never_dropped,
					      .arg = &calls,
					      .capacity = 24,
					      .batch = 8,
					      .no_inline = true};
		must(weir_stage_new(domain, &options, &stage));
		must(weir_world_start(world));
		for (unsigned i = 0; i < 24; i++) {
			job_init(&jobs[i], i, i % 3);
			assert_int_equal(weir_offer(stage, &jobs[i].event), WEIR_ADMITTED);
		}
		must(weir_world_stop(world, 10 * WEIR_NS_PER_S, NULL));
		for (unsigned klass = 0; klass < 3; klass++) {
			weir_stage_stats stats;
			weir_stage_read(stage, klass, &stats);
			assert_int_equal(stats.completed, 8);
			assert_int_equal(stats.in_flight, 0);
		}
		assert_int_equal(weir_stage_faults(stage, WEIR_FAULT_NOT_OWNED), calls);
		assert_int_equal(weir_world_check(world), 0);
		weir_world_free(&world);
	}
}

static void classify(struct probe *probe, struct job *job)
{
	job->event.klass = (uint8_t)(job->id % WEIR_CLASSES);
	if (job->id % 3 == 0)
		weir_done(&job->event);
	else if (probe->next == NULL)
		weir_fail(&job->event);
	else
		assert_int_equal(weir_offer(probe->next, &job->event), WEIR_ADMITTED);
}

static void expect_classes_balance(weir_world *world, const weir_stage *stage, uint64_t of_class_0)
{
	weir_stage_stats stats;
	weir_stage_read(stage, 0, &stats);
	assert_int_equal(stats.admitted, of_class_0);
	assert_int_equal(stats.completed, of_class_0);
	assert_int_equal(weir_world_check(world), 0);
}

/* What classifies offers events on in another class than they came in. */
static void a_handler_may_change_the_class(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = domain_of_kind(world, kind);
		struct probe first = {.each = classify}, second = {.act = PROBE_DONE};
		struct job jobs[30];
		probe_open(&first, domain, (weir_stage_options){.name = "first"});
		probe_open(&second, domain, (weir_stage_options){.name = "second"});
		first.next = second.stage;
		must(weir_world_start(world));
		jobs_init(jobs, 30, 0);
		for (int i = 0; i < 30; i++)
			assert_int_equal(weir_offer(first.stage, &jobs[i].event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		expect_classes_balance(world, first.stage, 30);
		expect_counts(second.stage, 20, 0, 20, 0, 0);
		world_end(&world);
	}
}

static void change_class_and_finish(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		events[i]->klass = (uint8_t)(i % 2 == 0 ? 5 : 200);
	if (count == 1)
		weir_done(events[0]);
	else
		weir_done_many(events, count);
}

static void drop_none(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

/* Also by the short ways of a real reactor, and whatever the handler leaves there. */
static void the_class_at_the_end_does_not_matter(void **state)
{
	weir_world *world = world_real();
	weir_stage *stage;
	struct job jobs[8];
	weir_stage_options options = {
		.name = "stage", .handle = change_class_and_finish, .drop = drop_none, .capacity = 64};
	must(weir_stage_new(domain_reactor(world, "reactor", 1), &options, &stage));
	must(weir_world_start(world));
	for (int round = 0; round < 3; round++) {
		jobs_init(jobs, 8, 0);
		assert_int_equal(jobs_offer_many(stage, jobs, 7), WEIR_ADMITTED);
		assert_int_equal(weir_offer(stage, &jobs[7].event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(stats_of(stage).in_flight == 0);
	}
	expect_classes_balance(world, stage, 24);
	world_end(&world);
}

static void finish_after_more_time_than_there_is_never_settles(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK, .work_ns = UINT64_MAX};
	struct job job;
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	world_run(world, 1000 * WEIR_NS_PER_S);
	expect_counts(probe.stage, 1, 0, 0, 0, 0);
	weir_timer_stop(&job.timer);
	weir_done(&job.event);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(done_and_failed_are_counted_by_class),
		CHECK_TEST(a_settled_event_can_be_offered_again),
		CHECK_TEST(a_held_event_is_in_flight_until_settled_from_anywhere),
		CHECK_TEST(finish_after_settles_at_exactly_that_time),
		CHECK_TEST(an_expired_event_is_dropped_at_its_turn),
		CHECK_TEST(an_event_that_comes_too_late_is_never_handled),
		CHECK_TEST(a_cancelled_event_is_dropped_at_its_turn),
		CHECK_TEST(cancelling_what_is_being_handled_leaves_it_to_the_handler),
		CHECK_TEST(a_drop_function_may_offer_the_event_again),
		CHECK_TEST(a_leaked_event_goes_to_the_drop_function),
		CHECK_TEST(each_of_a_batch_is_settled_by_itself),
		CHECK_TEST(a_batch_can_be_done_at_once),
		CHECK_TEST(a_handler_may_change_the_class),
		CHECK_TEST(the_class_at_the_end_does_not_matter),
		CHECK_TEST(finish_after_more_time_than_there_is_never_settles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
