/* SPDX-License-Identifier: Apache-2.0 */
/* Single offers and offers of many at the bounds of a stage, and in each phase of a world. */
#include "stage/offer.h"
#include "support/worlds.h"

static void a_queue_takes_exactly_its_capacity(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[6];
		plugged_open(&p, kind, (weir_stage_options){.capacity = 5});
		jobs_init(jobs, 6, 0);
		for (int i = 0; i < 5; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		assert_int_equal(weir_stage_waiting(p.stage), 5);
		assert_int_equal(weir_offer(p.stage, &jobs[5].event), WEIR_SHED_FULL);
		assert_int_equal(weir_stage_waiting(p.stage), 5);
		expect_counts(p.stage, 6, 1, 0, 0, 0);

		plugged_release(&p);
		assert_int_equal(p.probe.handled, 5);
		assert_int_equal(weir_offer(p.stage, &jobs[5].event), WEIR_ADMITTED);
		world_run(p.world, WEIR_NS_PER_MS);
		assert_int_equal(jobs[5].handled, 1);
		expect_counts(p.stage, 7, 1, 7, 0, 0);
		assert_int_equal(stats_of(p.stage).by_verdict[WEIR_SHED_FULL], 1);
		plugged_end(&p);
	}
}

static void a_shed_event_can_go_elsewhere(void **state)
{
	struct plugged p;
	struct probe other = {0};
	struct job jobs[2];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 1});
	probe_open(&other, p.other, (weir_stage_options){.name = "other"});
	jobs_init(jobs, 2, 3);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_FULL);
	assert_null(jobs[1].event.lane);
	assert_int_equal(weir_offer(other.stage, &jobs[1].event), WEIR_ADMITTED);
	world_run(p.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[1].handled, 1);
	assert_int_equal(other.handled, 1);
	plugged_end(&p);
}

static void the_bound_on_cost_is_exact(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[5];
		static const uint32_t costs[] = {60, 40, 1, 0, 100};
		plugged_open(&p, kind, (weir_stage_options){.capacity = 10, .cost_capacity = 100});
		jobs_init(jobs, 5, 0);
		for (int i = 0; i < 5; i++)
			jobs[i].event.cost = costs[i];
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_SHED_COST);
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_SHED_COST);
		assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_ADMITTED);
		plugged_release(&p);
		/* All cost is given back: an event of the whole bound now fits. */
		assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_ADMITTED);
		world_run(p.world, WEIR_NS_PER_MS);
		expect_counts(p.stage, 5, 2, 5, 0, 0);
		assert_int_equal(stats_of(p.stage).by_verdict[WEIR_SHED_COST], 2);
		plugged_end(&p);
	}
}

static void costs_near_their_largest_value_do_not_wrap(void **state)
{
	struct plugged p;
	struct job jobs[3];
	uint64_t bound = 2ull * UINT32_MAX;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 10, .cost_capacity = bound});
	jobs_init(jobs, 3, 0);
	for (int i = 0; i < 3; i++)
		jobs[i].event.cost = UINT32_MAX;
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_SHED_COST);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 2), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_SHED_COST);
	plugged_end(&p);
}

static void many_go_in_together_or_not_at_all(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[9];
		plugged_open(&p, kind, (weir_stage_options){.capacity = 8});
		jobs_init(jobs, 9, 2);
		assert_int_equal(jobs_offer_many(p.stage, jobs, 5), WEIR_ADMITTED);
		assert_int_equal(jobs_offer_many(p.stage, jobs + 5, 4), WEIR_SHED_FULL);
		assert_int_equal(weir_stage_waiting(p.stage), 5);
		assert_int_equal(jobs_offer_many(p.stage, jobs + 5, 3), WEIR_ADMITTED);
		assert_int_equal(weir_stage_waiting(p.stage), 8);
		assert_int_equal(weir_offer(p.stage, &jobs[8].event), WEIR_SHED_FULL);
		expect_counts(p.stage, 9, 5, 0, 0, 0);
		plugged_release(&p);
		for (int i = 0; i < 8; i++)
			assert_int_equal(jobs[i].handled, 1);
		assert_int_equal(jobs[8].handled, 0);
		plugged_end(&p);
	}
}

static void many_for_several_threads_go_in_together_or_not_at_all(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_HOLD};
	struct job plugs[3], jobs[3], single;
	probe_open(&probe, domain_reactor(world, "r", 3),
		   (weir_stage_options){
			   .capacity = 3, .concurrency = 3, .cost_capacity = 300, .no_inline = true});
	must(weir_world_start(world));
	jobs_init(plugs, 3, 0);
	jobs_init(jobs, 3, 0);
	job_init(&single, 9, 0);
	for (unsigned i = 0; i < 3; i++) {
		plugs[i].event.home = jobs[i].event.home = (uint16_t)i;
		jobs[i].event.cost = 100;
		assert_int_equal(weir_offer(probe.stage, &plugs[i].event), WEIR_ADMITTED);
	}
	world_run(world, WEIR_NS_PER_MS);
	/* One thread's share is full: the places on the other two must be given back. */
	single.event.home = 2;
	assert_int_equal(weir_offer(probe.stage, &single.event), WEIR_ADMITTED);
	for (int i = 0; i < 5; i++)
		assert_int_equal(jobs_offer_many(probe.stage, jobs, 3), WEIR_SHED_FULL);
	assert_int_equal(weir_stage_waiting(probe.stage), 1);
	probe.act = PROBE_DONE;
	weir_done(&plugs[2].event);
	world_run(world, WEIR_NS_PER_MS);
	jobs[1].event.cost = 101;
	assert_int_equal(jobs_offer_many(probe.stage, jobs, 3), WEIR_SHED_COST);
	jobs[1].event.cost = 100;
	assert_int_equal(jobs_offer_many(probe.stage, jobs, 3), WEIR_ADMITTED);
	weir_done(&plugs[0].event);
	weir_done(&plugs[1].event);
	world_run(world, WEIR_NS_PER_MS);
	expect_counts(probe.stage, 7, 18, 7, 0, 0);
	world_end(&world);
}

static void many_are_bound_by_the_sum_of_their_cost(void **state)
{
	struct plugged p;
	struct job jobs[4];
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 10, .cost_capacity = 30});
	jobs_init(jobs, 4, 0);
	for (int i = 0; i < 4; i++)
		jobs[i].event.cost = 10;
	assert_int_equal(jobs_offer_many(p.stage, jobs, 4), WEIR_SHED_COST);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_ADMITTED);
	plugged_end(&p);
}

static void as_many_as_the_capacity_fit_at_once(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {0};
		static struct job jobs[WEIR_BATCH_MAX];
		probe_open(&probe, domain_of_kind(world, kind),
			   (weir_stage_options){.capacity = WEIR_BATCH_MAX});
		must(weir_world_start(world));
		jobs_init(jobs, WEIR_BATCH_MAX, 0);
		assert_int_equal(jobs_offer_many(probe.stage, jobs, WEIR_BATCH_MAX), WEIR_ADMITTED);
		/* Never at once: the offerer may still be using its array. */
		assert_int_equal(probe.handled, 0);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(probe.handled, WEIR_BATCH_MAX);
		world_end(&world);
	}
}

static void a_refused_offer_of_many_gives_its_tokens_back(void **state)
{
	struct plugged p;
	struct job jobs[20];
	/* So slow that no token comes back by itself. */
	weir_bucket_params bucket = {.rate_per_s = 0.001, .burst = 10};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 15});
	must(weir_stage_admission(p.stage, &weir_law_bucket, &bucket));
	jobs_init(jobs, 20, 0);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 8), WEIR_ADMITTED); /* 2 tokens, 7 places left */
	assert_int_equal(jobs_offer_many(p.stage, jobs + 8, 3), WEIR_SHED_RATE);
	must(weir_stage_admission(p.stage, &weir_law_bucket, &bucket)); /* 10 tokens, 7 places */
	for (int i = 0; i < 5; i++)
		assert_int_equal(jobs_offer_many(p.stage, jobs + 8, 9), WEIR_SHED_FULL);
	assert_int_equal(jobs_offer_many(p.stage, jobs + 8, 7), WEIR_ADMITTED);
	plugged_release(&p);
	/* 3 tokens must be left, no more and no less. */
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_ADMITTED);
	world_run(p.world, WEIR_NS_PER_MS);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_RATE);
	plugged_end(&p);
}

static void a_full_queue_takes_no_token_from_the_bucket(void **state)
{
	struct plugged p;
	struct job jobs[4];
	weir_bucket_params bucket = {.rate_per_s = 0.001, .burst = 3};
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 1});
	must(weir_stage_admission(p.stage, &weir_law_bucket, &bucket));
	jobs_init(jobs, 4, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	for (int i = 0; i < 10; i++)
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_FULL);
	plugged_release(&p);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		world_run(p.world, WEIR_NS_PER_MS);
	}
	assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_SHED_RATE);
	plugged_end(&p);
}

static void offer_onward_or_fail(struct probe *probe, struct job *job)
{
	weir_verdict verdict = weir_offer(probe->next, &job->event);
	job->why = verdict;
	if (verdict != WEIR_ADMITTED)
		weir_fail(&job->event);
}

static void a_handler_still_owns_what_the_next_stage_shed(void **state)
{
	struct plugged p;
	struct probe first = {.each = offer_onward_or_fail};
	struct job jobs[2];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 1});
	probe_open(&first, p.other, (weir_stage_options){.name = "first"});
	first.next = p.stage;
	jobs_init(jobs, 2, 0);
	assert_int_equal(weir_offer(first.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(first.stage, &jobs[1].event), WEIR_ADMITTED);
	world_run(p.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[1].why, WEIR_SHED_FULL);
	/* What went on is completed for the first stage. */
	expect_counts(first.stage, 2, 0, 1, 1, 0);
	expect_counts(p.stage, 2, 1, 0, 0, 0);
	plugged_release(&p);
	expect_counts(p.stage, 2, 1, 2, 0, 0);
	plugged_end(&p);
}

static void a_closed_stage_handles_what_waits_and_takes_no_more(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[5];
		weir_ticket ticket = {0};
		plugged_open(&p, kind, (weir_stage_options){.capacity = 10});
		jobs_init(jobs, 5, 1);
		assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
		weir_stage_close(p.stage);
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_CLOSED);
		assert_int_equal(jobs_offer_many(p.stage, jobs + 1, 3), WEIR_SHED_CLOSED);
		assert_int_equal(weir_reserve(p.stage, 1, 1, 0, WEIR_ANYWHERE, &ticket), WEIR_SHED_CLOSED);
		assert_null(ticket.stage);
		jobs[4].event.flags = WEIR_EVENT_EXEMPT;
		assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_SHED_CLOSED);
		plugged_release(&p);
		assert_int_equal(jobs[0].handled, 1);
		assert_true(stats_of(p.stage).by_verdict[WEIR_SHED_CLOSED] >= 5);
		plugged_end(&p);
	}
}

static void offers_before_the_start_and_after_the_stop_are_faults(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	job_init(&job, 1, 0);
	assert_int_not_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	assert_int_equal(weir_stage_faults(probe.stage, WEIR_FAULT_NOT_STARTED), 1);

	must(weir_world_start(world));
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(job.handled, 1);

	must(weir_world_stop(world, WEIR_NS_PER_S, NULL));
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_SHED_STOPPING);
	assert_int_equal(weir_stage_faults(probe.stage, WEIR_FAULT_NOT_STARTED), 2);
	expect_counts(probe.stage, 1, 2, 1, 0, 0);
	assert_int_equal(weir_world_check(world), 0);
	weir_world_free(&world);
}

/* Held by a timer across the stop: it makes a new event, moves its own on, and an outsider tries as well. */
struct draining {
	struct probe first, second;
	struct job inside, child, outsider;
	weir_timer outsider_timer;
	weir_verdict child_verdict, moved_verdict, outsider_verdict;
};

static void draining_moves_on(weir_timer *timer, void *arg)
{
	struct draining *d = arg;
	d->moved_verdict = weir_offer(d->second.stage, &d->inside.event);
}

static void draining_outsider(weir_timer *timer, void *arg)
{
	struct draining *d = arg;
	d->outsider_verdict = weir_offer(d->second.stage, &d->outsider.event);
}

static void draining_holds(struct probe *probe, struct job *job)
{
	struct draining *d = probe->data;
	weir_hold(&job->event);
	weir_timer_init(&job->timer, draining_moves_on, d);
	assert_int_equal(weir_timer_start(NULL, &job->timer, weir_world_now(job->data) + 50 * WEIR_NS_PER_MS),
			 0);
}

static void draining_makes_a_child(struct probe *probe, struct job *job)
{
	struct draining *d = probe->data;
	if (job == &d->inside)
		d->child_verdict = weir_offer(d->second.stage, &d->child.event);
	weir_done(&job->event);
}

static void a_drain_sheds_newcomers_but_finishes_what_is_inside(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		weir_domain *domain = domain_of_kind(world, kind);
		struct draining d = {.outsider_verdict = WEIR_ADMITTED};
		d.first.each = draining_holds;
		d.second.each = draining_makes_a_child;
		d.first.data = d.second.data = &d;
		probe_open(&d.first, domain, (weir_stage_options){.name = "first"});
		probe_open(&d.second, domain, (weir_stage_options){.name = "second"});
		must(weir_world_start(world));
		job_init(&d.inside, 1, 0);
		job_init(&d.child, 2, 0);
		job_init(&d.outsider, 3, 0);
		d.inside.data = world;
		assert_int_equal(weir_offer(d.first.stage, &d.inside.event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(d.inside.handled, 1);
		/* A timer of nobody's handler plays the outsider while the stop drains. */
		weir_timer_init(&d.outsider_timer, draining_outsider, &d);
		weir_sim_timer(world, &d.outsider_timer, weir_world_now(world) + 20 * WEIR_NS_PER_MS);

		weir_stop_report report = {0};
		must(weir_world_stop(world, WEIR_NS_PER_S, &report));
		assert_int_equal(d.outsider_verdict, WEIR_SHED_STOPPING);
		assert_int_equal(d.moved_verdict, WEIR_ADMITTED);
		assert_int_equal(d.child_verdict, WEIR_ADMITTED);
		assert_int_equal(d.child.handled, 1);
		assert_int_equal(report.undrained, 0);
		assert_int_equal(report.unbalanced, 0);
		assert_true(report.drained >= 3);
		expect_counts(d.first.stage, 1, 0, 1, 0, 0);
		expect_counts(d.second.stage, 2, 1, 2, 0, 0);
		weir_world_free(&world);
	}
}

static void the_first_offer_fills_in_when_the_event_entered(void **state)
{
	struct plugged p;
	struct job jobs[2];
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 4});
	world_run(p.world, 5 * WEIR_NS_PER_MS);
	jobs_init(jobs, 2, 0);
	jobs[1].event.entered_ns = 12345;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(jobs[0].event.entered_ns, weir_world_now(p.world));
	assert_int_equal(jobs[1].event.entered_ns, 12345);
	plugged_end(&p);
}

/* Those that no step of the long way concerns. A guessed cost is the law's concern only. */
static void most_events_take_the_short_way(void **state)
{
	weir_event event;
	weir_event_init(&event, WEIR_CLASSES - 1);
	bool known = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	assert_int_equal(weir_event_plain(&event), known);
	event.flags = WEIR_EVENT_GUESSED;
	assert_int_equal(weir_event_plain(&event), known);
	for (unsigned flags = 1; flags < 256; flags++) {
		event.flags = (uint8_t)flags;
		assert_int_equal(weir_event_plain(&event), known && flags == WEIR_EVENT_GUESSED);
	}
	event.flags = WEIR_EVENT_GUESSED;
	event.deadline_ns = 1;
	assert_false(weir_event_plain(&event));
	event.deadline_ns = 0;
	weir_event_cancel(&event);
	assert_false(weir_event_plain(&event));
}

/* ---- costs that are found out in the offer ---- */

static struct {
	weir_verdict verdict;
	uint64_t asked; /* the cost that the law has seen */
	unsigned priced;
} weighed;

static weir_verdict weigh(void *state, const weir_ask *ask)
{
	weighed.asked = ask->cost;
	return weighed.verdict;
}

static const weir_admission_law weighing = {.name = "weighing", .admit = weigh};
static const weir_admission_law ignoring = {.name = "ignoring", .admit = weigh, .ignores_cost = true};

static void price(weir_event *event)
{
	weighed.priced++;
	event->cost = 7;
}

static void offer_unpriced(struct probe *probe, struct job *job)
{
	struct job *next = job->data;
	next->why = weir_offer_priced(probe->next, &next->event, price);
	weir_done(&job->event);
}

/* By a handler on the thread of the stage, which is the short way, or from outside. */
static void check_priced(const weir_admission_law *law, bool inside, weir_verdict verdict, uint64_t asked,
			 unsigned priced)
{
	struct plugged p;
	struct probe from = {.each = offer_unpriced};
	struct job jobs[2];
	weighed.verdict = verdict;
	weighed.priced = 0;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 4});
	plugged_release(&p);
	probe_open(&from, p.stage->domain, (weir_stage_options){.name = "from"});
	from.next = p.stage;
	must(weir_stage_admission(p.stage, law, NULL));
	jobs_init(jobs, 2, 0);
	jobs[0].data = &jobs[1];
	if (inside)
		assert_int_equal(weir_offer(from.stage, &jobs[0].event), WEIR_ADMITTED);
	else
		jobs[1].why = weir_offer_priced(p.stage, &jobs[1].event, price);
	world_run(p.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[1].why, verdict);
	assert_int_equal(jobs[1].handled, verdict == WEIR_ADMITTED);
	assert_int_equal(weighed.asked, asked);
	assert_int_equal(weighed.priced, priced);
	assert_int_equal(jobs[1].event.cost, 7 * priced);
	plugged_end(&p);
}

static void a_cost_is_found_out_once_before_anybody_needs_it(void **state)
{
	check_priced(&weighing, true, WEIR_ADMITTED, 7, 1);
	check_priced(&weighing, true, WEIR_SHED_RATE, 7, 1);
	check_priced(&ignoring, true, WEIR_ADMITTED, 0, 1);
	check_priced(&ignoring, true, WEIR_SHED_RATE, 0, 0);
	check_priced(&ignoring, false, WEIR_ADMITTED, 7, 1);
	check_priced(&ignoring, false, WEIR_SHED_RATE, 7, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_queue_takes_exactly_its_capacity),
		CHECK_TEST(a_shed_event_can_go_elsewhere),
		CHECK_TEST(the_bound_on_cost_is_exact),
		CHECK_TEST(costs_near_their_largest_value_do_not_wrap),
		CHECK_TEST(many_go_in_together_or_not_at_all),
		CHECK_TEST(many_for_several_threads_go_in_together_or_not_at_all),
		CHECK_TEST(many_are_bound_by_the_sum_of_their_cost),
		CHECK_TEST(as_many_as_the_capacity_fit_at_once),
		CHECK_TEST(a_refused_offer_of_many_gives_its_tokens_back),
		CHECK_TEST(a_full_queue_takes_no_token_from_the_bucket),
		CHECK_TEST(a_handler_still_owns_what_the_next_stage_shed),
		CHECK_TEST(a_closed_stage_handles_what_waits_and_takes_no_more),
		CHECK_TEST(offers_before_the_start_and_after_the_stop_are_faults),
		CHECK_TEST(a_drain_sheds_newcomers_but_finishes_what_is_inside),
		CHECK_TEST(the_first_offer_fills_in_when_the_event_entered),
		CHECK_TEST(most_events_take_the_short_way),
		CHECK_TEST(a_cost_is_found_out_once_before_anybody_needs_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
