/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misuse is survived: each fault is counted on its stage under its name, and afterwards the world works as before. The
 * faults of waiting offers need real threads: they are in test_offer_wait.c; leaks are in test_settle.c.
 */
#include "support/worlds.h"

#include <errno.h>
#include <string.h>

#include "stage/runtime.h"

/* A fresh event passes through the stage: nothing has been damaged. */
static void expect_working(weir_world *world, struct probe *probe)
{
	struct job job;
	probe->each = NULL;
	probe->act = PROBE_DONE;
	job_init(&job, 777, 0);
	assert_int_equal(weir_offer(probe->stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(job.handled, 1);
	assert_int_equal(weir_world_check(world), 0);
}

static uint64_t all_faults(const weir_stage *stage)
{
	uint64_t sum = 0;
	for (int fault = 0; fault < WEIR_FAULT_COUNT; fault++)
		sum += weir_stage_faults(stage, (weir_fault)fault);
	return sum;
}

static void every_fault_has_a_sentence(void **state)
{
	for (int fault = 0; fault < WEIR_FAULT_COUNT; fault++) {
		assert_non_null(weir_fault_text((weir_fault)fault));
		assert_true(strlen(weir_fault_text((weir_fault)fault)) > 10);
	}
	assert_string_equal(weir_fault_text(WEIR_FAULT_LEAKED),
			    "a handler returned without settling an event");
	assert_non_null(weir_fault_text((weir_fault)WEIR_FAULT_COUNT));
	assert_non_null(weir_fault_text((weir_fault)-1));
}

static void every_verdict_has_a_name(void **state)
{
	assert_string_equal(weir_verdict_name(WEIR_ADMITTED), "admitted");
	assert_string_equal(weir_verdict_name(WEIR_SHED_FULL), "full");
	assert_string_equal(weir_verdict_name(WEIR_SHED_LEAKED), "leaked");
	assert_non_null(weir_verdict_name(WEIR_VERDICT_COUNT));
	assert_non_null(weir_verdict_name((weir_verdict)-1));
}

static void an_event_that_waits_cannot_be_offered(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[2];
		plugged_open(&p, kind, (weir_stage_options){0});
		jobs_init(jobs, 2, 0);
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_MISUSE);
		assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_NOT_FREE), 1);
		weir_event *events[] = {&jobs[1].event, &jobs[0].event};
		assert_int_equal(weir_offer_many(p.stage, events, 2), WEIR_SHED_MISUSE);
		assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_NOT_FREE), 2);
		assert_int_equal(weir_stage_waiting(p.stage), 1);
		assert_int_equal(all_faults(p.stage), 2);
		plugged_release(&p);
		assert_int_equal(jobs[0].handled, 1);
		assert_int_equal(jobs[1].handled, 0);
		expect_working(p.world, &p.probe);
		world_end_faulty(&p.world);
	}
}

static void offer_the_other(struct probe *probe, struct job *job)
{
	job->why = weir_offer(probe->next, probe->data);
	weir_done(&job->event);
}

static void another_stages_event_cannot_be_offered(void **state)
{
	struct plugged p;
	struct probe other = {.each = offer_the_other};
	struct job waiting, job;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	probe_open(&other, p.other, (weir_stage_options){.name = "other"});
	job_init(&waiting, 1, 0);
	job_init(&job, 2, 0);
	assert_int_equal(weir_offer(p.stage, &waiting.event), WEIR_ADMITTED);
	/* A handler of one stage tries to take an event out of another one's queue. */
	other.next = other.stage;
	other.data = &waiting.event;
	assert_int_equal(weir_offer(other.stage, &job.event), WEIR_ADMITTED);
	world_run(p.world, WEIR_NS_PER_MS);
	assert_int_equal(job.why, WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(other.stage, WEIR_FAULT_NOT_FREE), 1);
	plugged_release(&p);
	assert_int_equal(waiting.handled, 1);
	expect_working(p.world, &other);
	world_end_faulty(&p.world);
}

static void an_event_that_was_never_made_cannot_be_offered(void **state)
{
	struct plugged p;
	struct job job, good;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	memset(&job, 0, sizeof job);
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_SHED_MISUSE);
	memset(&job, 0xff, sizeof job);
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_NOT_INIT), 2);
	job_init(&good, 1, 0);
	memset(&job, 0, sizeof job);
	weir_event *events[] = {&good.event, &job.event};
	assert_int_equal(weir_offer_many(p.stage, events, 2), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_NOT_INIT), 3);
	/* The good one was not taken along. */
	assert_int_equal(weir_offer(p.stage, &good.event), WEIR_ADMITTED);
	plugged_release(&p);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void a_class_that_does_not_exist_is_refused(void **state)
{
	struct plugged p;
	struct job jobs[2];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.order = WEIR_BY_CLASS});
	jobs_init(jobs, 2, 0);
	jobs[0].event.klass = WEIR_CLASSES;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_MISUSE);
	jobs[0].event.klass = 255;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_CLASS), 2);
	jobs[0].event.klass = jobs[1].event.klass = 8;
	assert_int_equal(jobs_offer_many(p.stage, jobs, 2), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_CLASS), 3);
	jobs[0].event.klass = WEIR_CLASSES - 1;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	weir_stage_stats stats = stats_of(p.stage);
	assert_int_equal(stats.offered, stats.admitted + stats.shed);
	plugged_release(&p);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void settle_twice(struct probe *probe, struct job *job)
{
	weir_done(&job->event);
	weir_done(&job->event);
	weir_fail(&job->event);
	weir_hold(&job->event);
}

static void settling_twice_counts_once(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.each = settle_twice};
		struct job job;
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.concurrency = 1});
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		expect_counts(probe.stage, 1, 0, 1, 0, 0);
		/* The event is nobody's by then: the fault is the stage's whose handler runs. */
		assert_int_equal(weir_stage_faults(probe.stage, WEIR_FAULT_NOT_OWNED), 3);
		expect_working(world, &probe);
		world_end_faulty(&world);
	}
}

static void settling_what_waits_does_not_take_it_out(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job job;
		plugged_open(&p, kind, (weir_stage_options){0});
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(p.stage, &job.event), WEIR_ADMITTED);
		weir_done(&job.event);
		weir_fail(&job.event);
		weir_hold(&job.event);
		assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_NOT_OWNED), 3);
		assert_int_equal(weir_stage_waiting(p.stage), 1);
		plugged_release(&p);
		assert_int_equal(job.handled, 1);
		expect_counts(p.stage, 2, 0, 2, 0, 0);
		expect_working(p.world, &p.probe);
		world_end_faulty(&p.world);
	}
}

static void settling_what_nobody_owns_does_nothing(void **state)
{
	struct plugged p;
	struct job job;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	job_init(&job, 1, 0);
	weir_done(&job.event);
	weir_fail(&job.event);
	weir_hold(&job.event);
	memset(&job, 0, sizeof job);
	weir_done(&job.event);
	plugged_release(&p);
	expect_counts(p.stage, 1, 0, 1, 0, 0);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void holding_twice_is_harmless(void **state)
{
	struct plugged p;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	weir_hold(&p.plug.event); /* it is held already */
	plugged_release(&p);
	expect_counts(p.stage, 1, 0, 1, 0, 0);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void offers_of_many_that_make_no_sense_are_refused(void **state)
{
	struct plugged p;
	static struct job jobs[WEIR_BATCH_MAX + 1];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 1000});
	jobs_init(jobs, WEIR_BATCH_MAX + 1, 0);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 0), WEIR_SHED_MISUSE);
	assert_int_equal(jobs_offer_many(p.stage, jobs, WEIR_BATCH_MAX + 1), WEIR_SHED_MISUSE);
	jobs[2].event.klass = 1;
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_SHED_MISUSE);
	jobs[2].event.klass = 0;
	weir_event *twice[] = {&jobs[0].event, &jobs[1].event, &jobs[0].event};
	assert_int_equal(weir_offer_many(p.stage, twice, 3), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_OFFER), 4);
	assert_int_equal(weir_stage_waiting(p.stage), 0);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 4), WEIR_ADMITTED);
	plugged_release(&p);
	for (int i = 0; i < 4; i++)
		assert_int_equal(jobs[i].handled, 1);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void a_virtual_world_does_not_wait(void **state)
{
	struct plugged p;
	struct job job;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer_wait(p.stage, &job.event, WEIR_NS_PER_S), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_WAIT), 1);
	plugged_release(&p);
	expect_working(p.world, &p.probe);
	world_end_faulty(&p.world);
}

static void events_held_at_the_stop_are_named(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[3];
		weir_stop_report report = {0};
		plugged_open(&p, kind, (weir_stage_options){.name = "hoarder"});
		jobs_init(jobs, 3, 5);
		for (int i = 0; i < 3; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		assert_int_equal(weir_world_stop(p.world, 10 * WEIR_NS_PER_MS, &report), -ETIMEDOUT);
		check_contains(weir_error(), "hoarder");
		assert_int_equal(report.undrained, 4);
		assert_string_equal(report.stuck, "hoarder");
		assert_int_equal(report.unbalanced, 0);
		assert_int_equal(report.drained, 0);
		assert_true(report.faults >= 2);
		assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_UNSETTLED), 1);
		assert_true(weir_stage_faults(p.stage, WEIR_FAULT_UNDRAINED) >= 3);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(jobs[i].dropped, 1);
			assert_int_equal(jobs[i].why, WEIR_SHED_STOPPING);
		}
		expect_counts(p.stage, 4, 0, 0, 0, 3);
		/* Its owner can still settle it. */
		weir_done(&p.plug.event);
		expect_counts(p.stage, 4, 0, 1, 0, 3);
		assert_int_equal(weir_world_check(p.world), 0);
		weir_world_free(&p.world);
	}
}

/* Each event goes round for ever, a millisecond a lap. */
static void go_round(weir_timer *timer, void *arg)
{
	struct job *job = arg;
	if (weir_offer(job->data, &job->event) != WEIR_ADMITTED)
		weir_fail(&job->event);
}

static void go_round_later(struct probe *probe, struct job *job)
{
	weir_hold(&job->event);
	job->data = probe->next;
	weir_timer_init(&job->timer, go_round, job);
	weir_timer_start(NULL, &job->timer, job->event.started_ns + WEIR_NS_PER_MS);
}

static void a_cycle_that_cannot_drain_is_reported(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = domain_of_kind(world, kind);
		struct probe a = {.each = go_round_later}, b = {.each = go_round_later};
		struct job jobs[2];
		weir_stop_report report = {0};
		probe_open(&a, domain, (weir_stage_options){.name = "a", .capacity = 8});
		probe_open(&b, domain, (weir_stage_options){.name = "b", .capacity = 8});
		a.next = b.stage;
		b.next = a.stage;
		must(weir_world_start(world));
		jobs_init(jobs, 2, 0);
		assert_int_equal(weir_offer(a.stage, &jobs[0].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(b.stage, &jobs[1].event), WEIR_ADMITTED);
		world_run(world, 100 * WEIR_NS_PER_MS);
		assert_int_equal(weir_world_stop(world, 100 * WEIR_NS_PER_MS, &report), -ETIMEDOUT);
		assert_int_equal(report.undrained, 2);
		assert_non_null(report.stuck);
		assert_true(strcmp(report.stuck, "a") == 0 || strcmp(report.stuck, "b") == 0);
		assert_int_equal(report.unbalanced, 0);
		for (int i = 0; i < 2; i++)
			weir_timer_stop(&jobs[i].timer);
		weir_world_free(&world);
	}
}

static void go_round_at_once(struct probe *probe, struct job *job)
{
	if (weir_offer(probe->next, &job->event) != WEIR_ADMITTED)
		weir_fail(&job->event);
}

/* The same without any time passing: even then a stop comes to its end. */
static void a_cycle_that_takes_no_time_is_reported(void **state)
{
	if (CHECK_SLOW)
		skip(); /* a million handler calls on one thread */
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.each = go_round_at_once};
		struct job job;
		weir_stop_report report = {0};
		probe_open(&probe, domain_of_kind(world, kind),
			   (weir_stage_options){.name = "carousel", .no_inline = true});
		probe.next = probe.stage;
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		assert_int_equal(weir_world_stop(world, WEIR_NS_PER_US, &report), -ETIMEDOUT);
		assert_string_equal(report.stuck, "carousel");
		assert_int_equal(report.undrained, 1);
		assert_int_equal(report.unbalanced, 0);
		assert_int_equal(job.dropped, 1);
		weir_world_free(&world);
	}
}

/* Handler calls on the short way are counted too, so that an instant full of them ends. */
static void a_million_calls_at_once_take_time(void **state)
{
	if (CHECK_SLOW)
		skip();
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "d", 1);
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain, (weir_stage_options){0});
	must(weir_world_start(world));
	uint64_t begin_ns = weir_world_now(world);
	job_init(&job, 1, 0);
	struct weir_thread *before = weir_sim_enter(domain, 0);
	assert_true(probe.stage->lanes[0].plain); /* a virtual lane has the short way */
	for (int i = 0; i < 999999; i++)
		weir_offer(probe.stage, &job.event);
	assert_int_equal(weir_world_now(world), begin_ns);
	for (int i = 0; i < 1000; i++)
		weir_offer(probe.stage, &job.event);
	weir_sim_leave(before);
	assert_true(weir_world_now(world) > begin_ns);
	assert_int_equal(stats_of(probe.stage).inlined, 1000999);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(every_fault_has_a_sentence),
		CHECK_TEST(every_verdict_has_a_name),
		CHECK_TEST(an_event_that_waits_cannot_be_offered),
		CHECK_TEST(another_stages_event_cannot_be_offered),
		CHECK_TEST(an_event_that_was_never_made_cannot_be_offered),
		CHECK_TEST(a_class_that_does_not_exist_is_refused),
		CHECK_TEST(settling_twice_counts_once),
		CHECK_TEST(settling_what_waits_does_not_take_it_out),
		CHECK_TEST(settling_what_nobody_owns_does_nothing),
		CHECK_TEST(holding_twice_is_harmless),
		CHECK_TEST(offers_of_many_that_make_no_sense_are_refused),
		CHECK_TEST(a_virtual_world_does_not_wait),
		CHECK_TEST(events_held_at_the_stop_are_named),
		CHECK_TEST(a_cycle_that_cannot_drain_is_reported),
		CHECK_TEST(a_cycle_that_takes_no_time_is_reported),
		CHECK_TEST(a_million_calls_at_once_take_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
