/* SPDX-License-Identifier: Apache-2.0 */
/* Split-phase offers: places kept, handed over, or given back. */
#include "support/worlds.h"

#include <errno.h>

static int commit(weir_ticket *ticket, struct job *jobs, size_t count)
{
	weir_event *events[64];
	for (size_t i = 0; i < count; i++)
		events[i] = &jobs[i].event;
	return weir_commit(ticket, events, count);
}

static weir_verdict reserve(weir_stage *stage, unsigned klass, size_t count, uint64_t cost,
			    weir_ticket *ticket)
{
	return weir_reserve(stage, klass, count, cost, WEIR_ANYWHERE, ticket);
}

static void reserved_places_are_kept_from_others(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[6];
		weir_ticket ticket = {0};
		plugged_open(&p, kind, (weir_stage_options){.capacity = 5});
		jobs_init(jobs, 6, 0);
		assert_int_equal(reserve(p.stage, 0, 3, 0, &ticket), WEIR_ADMITTED);
		assert_ptr_equal(ticket.stage, p.stage);
		assert_int_equal(ticket.count, 3);
		assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[5].event), WEIR_SHED_FULL);
		assert_int_equal(commit(&ticket, jobs, 3), 0);
		assert_null(ticket.stage);
		assert_int_equal(weir_stage_waiting(p.stage), 5);
		plugged_release(&p);
		for (int i = 0; i < 5; i++)
			assert_int_equal(jobs[i].handled, 1);
		expect_counts(p.stage, 6, 1, 6, 0, 0);
		plugged_end(&p);
	}
}

static void cancelled_places_are_free_again(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[4];
		weir_ticket ticket = {0}, none = {0};
		plugged_open(&p, kind, (weir_stage_options){.capacity = 4, .cost_capacity = 100});
		jobs_init(jobs, 4, 0);
		for (int i = 0; i < 50; i++) {
			assert_int_equal(reserve(p.stage, 0, 4, 100, &ticket), WEIR_ADMITTED);
			assert_int_equal(reserve(p.stage, 0, 1, 0, &none), WEIR_SHED_FULL);
			assert_null(none.stage);
			weir_cancel(&ticket);
			assert_null(ticket.stage);
			weir_cancel(&ticket);
		}
		weir_cancel(&none);
		for (int i = 0; i < 4; i++)
			jobs[i].event.cost = 25;
		assert_int_equal(jobs_offer_many(p.stage, jobs, 4), WEIR_ADMITTED);
		plugged_release(&p);
		weir_stage_stats stats = stats_of(p.stage);
		assert_int_equal(stats.admitted, 5);
		assert_int_equal(stats.completed, 5);
		assert_int_equal(stats.offered, stats.admitted + stats.shed);
		assert_int_equal(stats.in_flight, 0);
		plugged_end(&p);
	}
}

static void reserved_cost_counts_against_its_bound(void **state)
{
	struct plugged p;
	struct job job;
	weir_ticket ticket = {0}, second = {0};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 10, .cost_capacity = 100});
	assert_int_equal(reserve(p.stage, 0, 1, 101, &second), WEIR_SHED_COST);
	assert_int_equal(reserve(p.stage, 0, 1, 70, &ticket), WEIR_ADMITTED);
	assert_int_equal(reserve(p.stage, 0, 1, 31, &second), WEIR_SHED_COST);
	job_init(&job, 1, 0);
	job.event.cost = 31;
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_SHED_COST);
	job.event.cost = 30;
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_ADMITTED);
	weir_cancel(&ticket);
	assert_int_equal(reserve(p.stage, 0, 1, 70, &second), WEIR_ADMITTED);
	weir_cancel(&second);
	plugged_end(&p);
}

static void a_commit_of_other_events_changes_nothing(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[4], waiting;
		weir_ticket ticket = {0};
		plugged_open(&p, kind, (weir_stage_options){.capacity = 8});
		jobs_init(jobs, 4, 2);
		for (int i = 0; i < 4; i++)
			jobs[i].event.cost = 10;
		job_init(&waiting, 9, 2);
		assert_int_equal(weir_offer(p.stage, &waiting.event), WEIR_ADMITTED);
		assert_int_equal(reserve(p.stage, 2, 3, 30, &ticket), WEIR_ADMITTED);

		assert_int_equal(commit(&ticket, jobs, 2), -EINVAL);
		assert_int_equal(commit(&ticket, jobs, 4), -EINVAL);
		assert_int_equal(commit(&ticket, jobs, 0), -EINVAL);
		jobs[1].event.klass = 3;
		assert_int_equal(commit(&ticket, jobs, 3), -EINVAL);
		jobs[1].event.klass = 2;
		jobs[1].event.cost = 1000;
		assert_int_equal(commit(&ticket, jobs, 3), -EINVAL);
		jobs[1].event.cost = 10;
		weir_event *twice[] = {&jobs[0].event, &jobs[1].event, &jobs[0].event};
		assert_int_equal(weir_commit(&ticket, twice, 3), -EINVAL);
		weir_event *owned[] = {&jobs[0].event, &waiting.event, &jobs[2].event};
		assert_int_equal(weir_commit(&ticket, owned, 3), -EINVAL);
		assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_TICKET), 7);
		assert_int_equal(stats_of(p.stage).in_flight, 2);

		assert_int_equal(commit(&ticket, jobs, 3), 0);
		assert_int_equal(weir_stage_waiting(p.stage), 4);
		assert_int_equal(commit(&ticket, jobs, 3), -EINVAL);
		plugged_release(&p);
		expect_counts(p.stage, 5, 0, 5, 0, 0);
		world_end_faulty(&p.world);
	}
}

static void a_ticket_that_holds_nothing_cannot_be_committed(void **state)
{
	struct plugged p;
	struct job job;
	weir_ticket ticket = {0};
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	job_init(&job, 1, 0);
	assert_int_equal(commit(&ticket, &job, 1), -EINVAL);
	check_contains(weir_error(), "ticket");
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_ADMITTED);
	plugged_end(&p);
}

static void cancelling_gives_the_tokens_back(void **state)
{
	struct plugged p;
	struct job jobs[5];
	weir_ticket ticket = {0};
	weir_bucket_params bucket = {.rate_per_s = 0.001, .burst = 5};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	must(weir_stage_admission(p.stage, &weir_law_bucket, &bucket));
	jobs_init(jobs, 5, 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(reserve(p.stage, 0, 5, 0, &ticket), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_RATE);
		weir_cancel(&ticket);
	}
	assert_int_equal(jobs_offer_many(p.stage, jobs, 5), WEIR_ADMITTED);
	plugged_end(&p);
}

static void reservations_that_cannot_be_made_are_refused(void **state)
{
	struct plugged p;
	weir_ticket ticket = {0};
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 4});
	assert_int_equal(reserve(p.stage, 0, 0, 0, &ticket), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_OFFER), 1);
	assert_int_equal(reserve(p.stage, WEIR_CLASSES, 1, 0, &ticket), WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_BAD_CLASS), 1);
	assert_int_not_equal(reserve(p.stage, 0, 5, 0, &ticket), WEIR_ADMITTED);
	assert_int_not_equal(reserve(p.stage, 0, SIZE_MAX, 0, &ticket), WEIR_ADMITTED);
	assert_int_not_equal(reserve(p.stage, 0, (size_t)UINT32_MAX + 2, 0, &ticket), WEIR_ADMITTED);
	assert_null(ticket.stage);
	plugged_release(&p);
	world_end_faulty(&p.world);
}

static void a_home_that_does_not_exist_is_refused_or_ignored(void **state)
{
	struct plugged p;
	struct job job;
	weir_ticket ticket = {0};
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 4});
	if (weir_reserve(p.stage, 0, 1, 0, 500, &ticket) == WEIR_ADMITTED)
		weir_cancel(&ticket);
	job_init(&job, 1, 0);
	job.event.home = 500;
	bool admitted = weir_offer(p.stage, &job.event) == WEIR_ADMITTED;
	plugged_release(&p);
	assert_int_equal(job.handled, admitted);
	world_end_faulty(&p.world);
}

static void a_closed_stage_honours_its_tickets(void **state)
{
	struct plugged p;
	struct job job;
	weir_ticket ticket = {0}, unused = {0};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	job_init(&job, 1, 0);
	assert_int_equal(reserve(p.stage, 0, 1, 0, &ticket), WEIR_ADMITTED);
	assert_int_equal(reserve(p.stage, 0, 1, 0, &unused), WEIR_ADMITTED);
	weir_stage_close(p.stage);
	assert_int_equal(commit(&ticket, &job, 1), 0);
	weir_cancel(&unused);
	plugged_release(&p);
	assert_int_equal(job.handled, 1);
	plugged_end(&p);
}

struct late_commit {
	weir_timer timer;
	weir_ticket ticket;
	struct job job;
	int rc;
};

static void commit_late(weir_timer *timer, void *arg)
{
	struct late_commit *late = arg;
	late->rc = commit(&late->ticket, &late->job, 1);
}

static void a_stop_waits_for_tickets(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {0};
		struct late_commit late = {.rc = 1};
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
		must(weir_world_start(world));
		job_init(&late.job, 1, 0);
		assert_int_equal(reserve(probe.stage, 0, 1, 0, &late.ticket), WEIR_ADMITTED);
		weir_timer_init(&late.timer, commit_late, &late);
		weir_sim_timer(world, &late.timer, weir_world_now(world) + 30 * WEIR_NS_PER_MS);
		world_end(&world);
		assert_int_equal(late.rc, 0);
		assert_int_equal(late.job.handled, 1);
	}
}

/* Commits when the drain has begun: then others are told so. */
static void *commit_while_draining(void *arg)
{
	struct late_commit *late = arg;
	weir_ticket another;
	weir_verdict verdict;
	do {
		check_breathe();
		verdict = reserve(late->ticket.stage, 0, 1, 0, &another);
		if (verdict == WEIR_ADMITTED)
			weir_cancel(&another);
	} while (verdict != WEIR_SHED_STOPPING);
	late->rc = commit(&late->ticket, &late->job, 1);
	return NULL;
}

static void a_real_stop_waits_for_tickets(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	struct late_commit late = {.rc = 1};
	pthread_t thread;
	probe_open(&probe, domain_reactor(world, "r", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&late.job, 1, 0);
	assert_int_equal(reserve(probe.stage, 0, 1, 0, &late.ticket), WEIR_ADMITTED);
	assert_int_equal(pthread_create(&thread, NULL, commit_while_draining, &late), 0);
	must(weir_world_stop(world, 600 * WEIR_NS_PER_S, NULL));
	pthread_join(thread, NULL);
	assert_int_equal(late.rc, 0);
	assert_int_equal(late.job.handled, 1);
	weir_world_free(&world);
}

static void a_stop_does_not_wait_for_ever_for_a_ticket(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	weir_ticket ticket = {0};
	weir_stop_report report = {0};
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){.name = "kept"});
	must(weir_world_start(world));
	assert_int_equal(reserve(probe.stage, 0, 2, 0, &ticket), WEIR_ADMITTED);
	assert_int_equal(weir_world_stop(world, WEIR_NS_PER_MS, &report), -ETIMEDOUT);
	check_contains(weir_error(), "reserv");
	assert_int_equal(report.unbalanced, 0);
	weir_cancel(&ticket);
	assert_int_equal(weir_world_check(world), 0);
	weir_world_free(&world);
}

/* The usual split phase: keep a place downstream, then move one's own event there. */
static void move_by_ticket(struct probe *probe, struct job *job)
{
	weir_ticket ticket = {0};
	weir_event *event = &job->event;
	if (weir_reserve(probe->next, event->klass, 1, event->cost, WEIR_ANYWHERE, &ticket) !=
		    WEIR_ADMITTED ||
	    weir_commit(&ticket, &event, 1) != 0)
		weir_fail(event);
}

static void a_handler_moves_its_event_on_with_a_ticket(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe first = {.each = move_by_ticket}, second = {0};
	struct job jobs[3];
	probe_open(&first, domain_reactor(world, "front", 1), (weir_stage_options){.name = "first"});
	probe_open(&second, domain_elastic(world, "back", 1, 1), (weir_stage_options){.name = "second"});
	first.next = second.stage;
	must(weir_world_start(world));
	jobs_init(jobs, 3, 4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_offer(first.stage, &jobs[i].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	expect_counts(first.stage, 3, 0, 3, 0, 0);
	expect_counts(second.stage, 3, 0, 3, 0, 0);
	assert_int_equal(weir_edge_count(first.stage, second.stage), 3);
	world_end(&world);
}

struct late_ticket {
	weir_stage *stage;
	atomic_bool stopping, reserved;
	weir_ticket ticket;
	struct job job;
	int committed;
};

/* Settles its only event, and reserves a place when the stop has been looking for a while. */
static void reserve_last(struct probe *probe, struct job *job)
{
	struct late_ticket *late = probe->data;
	weir_done(&job->event);
	while (!late->stopping)
		check_breathe();
	for (int i = 0; i < 40; i++)
		check_breathe();
	if (weir_reserve(late->stage, 0, 1, 0, WEIR_ANYWHERE, &late->ticket) == WEIR_ADMITTED)
		late->reserved = true;
}

static void *commit_last(void *arg)
{
	struct late_ticket *late = arg;
	while (!late->reserved)
		check_breathe();
	for (int i = 0; i < 40; i++)
		check_breathe();
	weir_event *event = &late->job.event;
	late->committed = weir_commit(&late->ticket, &event, 1);
	return NULL;
}

static void a_stop_waits_for_a_ticket_of_the_last_handler(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_real();
		struct late_ticket late = {.committed = 1};
		struct probe first = {.each = reserve_last, .data = &late}, second = {.act = PROBE_DONE};
		weir_domain *domain = domain_of_kind(world, kind);
		struct job job;
		pthread_t thread;
		probe_open(&first, domain, (weir_stage_options){.name = "first"});
		probe_open(&second, domain, (weir_stage_options){.name = "second"});
		late.stage = second.stage;
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		job_init(&late.job, 2, 0);
		assert_int_equal(pthread_create(&thread, NULL, commit_last, &late), 0);
		assert_int_equal(weir_offer(first.stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(stats_of(first.stage).completed == 1);
		late.stopping = true;
		int stopped = weir_world_stop(world, 60 * WEIR_NS_PER_S, NULL);
		pthread_join(thread, NULL);
		assert_int_equal(late.committed, 0);
		assert_int_equal(stopped, 0);
		assert_int_equal(second.handled, 1);
		weir_world_free(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(reserved_places_are_kept_from_others),
		CHECK_TEST(cancelled_places_are_free_again),
		CHECK_TEST(reserved_cost_counts_against_its_bound),
		CHECK_TEST(a_commit_of_other_events_changes_nothing),
		CHECK_TEST(a_ticket_that_holds_nothing_cannot_be_committed),
		CHECK_TEST(cancelling_gives_the_tokens_back),
		CHECK_TEST(reservations_that_cannot_be_made_are_refused),
		CHECK_TEST(a_home_that_does_not_exist_is_refused_or_ignored),
		CHECK_TEST(a_closed_stage_honours_its_tickets),
		CHECK_TEST(a_stop_waits_for_tickets),
		CHECK_TEST(a_real_stop_waits_for_tickets),
		CHECK_TEST(a_stop_does_not_wait_for_ever_for_a_ticket),
		CHECK_TEST(a_handler_moves_its_event_on_with_a_ticket),
		CHECK_TEST(a_stop_waits_for_a_ticket_of_the_last_handler),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
