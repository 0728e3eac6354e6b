/* SPDX-License-Identifier: Apache-2.0 */
/* The admission hook: laws plugged into a stage, what they are shown, when they are called, and how they are replaced. */
#include "support/worlds.h"

#include <string.h>

/* A law that writes down every call. Its state points to the ledger, so that the test can look at any time. */
struct ledger {
	/* what it answers */
	weir_verdict admit_answer, start_answer;
	/* what it was asked, in events */
	uint64_t admitted, refused, refunded, started, refused_start, completed, failed, ticks;
	uint64_t calls_after_close;
	bool closed;
	weir_ask last_ask, last_refund;
	const weir_event *last_start, *last_settle;
	uint64_t last_start_ns, last_settle_ns;
	weir_sample last_sample;
	weir_sample sum; /* of the counts of all samples */
	uint64_t interval_sum;
	uint64_t backwards; /* calls whose time was before the one of an earlier call */
	uint64_t clock;
};

struct ledger_state {
	struct ledger *ledger;
};

static void ledger_time(struct ledger *ledger, uint64_t now_ns)
{
	ledger->backwards += now_ns < ledger->clock;
	ledger->calls_after_close += ledger->closed;
	ledger->clock = now_ns;
}

static int ledger_init(void *state, const void *params, const char **ret_wrong)
{
	*(struct ledger_state *)state = (struct ledger_state){*(struct ledger *const *)params};
	return 0;
}

static weir_verdict ledger_admit(void *state, const weir_ask *ask)
{
	struct ledger *ledger = ((struct ledger_state *)state)->ledger;
	ledger_time(ledger, ask->now_ns);
	ledger->last_ask = *ask;
	if (ledger->admit_answer == WEIR_ADMITTED)
		ledger->admitted += ask->count;
	else
		ledger->refused += ask->count;
	return ledger->admit_answer;
}

static void ledger_refund(void *state, const weir_ask *ask)
{
	struct ledger *ledger = ((struct ledger_state *)state)->ledger;
	ledger->refunded += ask->count;
	ledger->last_refund = *ask;
}

static weir_verdict ledger_start(void *state, const weir_event *event, const weir_turn *turn)
{
	uint64_t now_ns = turn->now_ns;
	struct ledger *ledger = ((struct ledger_state *)state)->ledger;
	ledger_time(ledger, now_ns);
	ledger->last_start = event;
	ledger->last_start_ns = now_ns;
	if (ledger->start_answer == WEIR_ADMITTED)
		ledger->started++;
	else
		ledger->refused_start++;
	return ledger->start_answer;
}

static void ledger_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	struct ledger *ledger = ((struct ledger_state *)state)->ledger;
	ledger_time(ledger, now_ns);
	ledger->last_settle = event;
	ledger->last_settle_ns = now_ns;
	if (outcome == WEIR_DONE)
		ledger->completed++;
	else
		ledger->failed++;
}

static void ledger_tick(void *state, const weir_sample *sample)
{
	struct ledger *ledger = ((struct ledger_state *)state)->ledger;
	ledger_time(ledger, sample->now_ns);
	ledger->ticks++;
	ledger->last_sample = *sample;
	ledger->interval_sum += sample->interval_ns;
	for (int k = 0; k < WEIR_CLASSES; k++) {
		ledger->sum.klass[k].offered += sample->klass[k].offered;
		ledger->sum.klass[k].admitted += sample->klass[k].admitted;
		ledger->sum.klass[k].shed += sample->klass[k].shed;
		ledger->sum.klass[k].started += sample->klass[k].started;
		ledger->sum.klass[k].completed += sample->klass[k].completed;
		ledger->sum.klass[k].failed += sample->klass[k].failed;
		ledger->sum.klass[k].dropped += sample->klass[k].dropped;
		ledger->sum.klass[k].response_count += sample->klass[k].response_count;
	}
}

static void ledger_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	ret_why->estimate_ns = 111;
	ret_why->target_ns = 222;
	ret_why->retry_after_ns = 333 + ask->klass;
}

static const weir_admission_law ledger_law = {
	.name = "ledger",
	.state_bytes = sizeof(struct ledger_state),
	.params_bytes = sizeof(struct ledger *),
	.tick_ns = 100 * WEIR_NS_PER_MS,
	.wants_quantiles = true,
	.quantile = 0.5,
	.init = ledger_init,
	.admit = ledger_admit,
	.refund = ledger_refund,
	.start = ledger_start,
	.settle = ledger_settle,
	.tick = ledger_tick,
	.explain = ledger_explain,
};

static void install(struct plugged *p, struct ledger *ledger)
{
	must(weir_stage_admission(p->stage, &ledger_law, &ledger));
}

/* What the law let in, less what it took back, is what the stage admitted after the plug. */
static void expect_paired(const weir_stage *stage, const struct ledger *ledger)
{
	weir_stage_stats stats = stats_of(stage);
	assert_int_equal(ledger->admitted - ledger->refunded, stats.admitted - 1);
	assert_int_equal(ledger->backwards, 0);
}

static void a_law_sees_the_whole_offer(void **state)
{
	struct plugged p;
	struct ledger ledger = {0};
	struct job jobs[4];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	install(&p, &ledger);
	world_run(p.world, 7 * WEIR_NS_PER_MS);
	jobs_init(jobs, 4, 3);
	jobs[0].event.cost = 70;
	jobs[0].event.entered_ns = 99;
	jobs[0].event.deadline_ns = UINT64_MAX - 5;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	weir_ask *ask = &ledger.last_ask;
	assert_int_equal(ask->now_ns, weir_world_now(p.world));
	assert_int_equal(ask->entered_ns, 99);
	assert_true(ask->deadline_ns == UINT64_MAX - 5);
	assert_int_equal(ask->cost, 70);
	assert_int_equal(ask->count, 1);
	assert_int_equal(ask->waiting, 0);
	assert_int_equal(ask->in_service, 1);
	assert_int_equal(ask->klass, 3);

	for (int i = 1; i < 4; i++)
		jobs[i].event.cost = 10;
	assert_int_equal(jobs_offer_many(p.stage, jobs + 1, 3), WEIR_ADMITTED);
	assert_int_equal(ask->count, 3);
	assert_int_equal(ask->cost, 30);
	assert_int_equal(ask->waiting, 1);
	plugged_release(&p);
	expect_paired(p.stage, &ledger);
	plugged_end(&p);
}

static void each_started_event_is_settled_once(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct ledger ledger = {0};
		struct job jobs[8];
		plugged_open(&p, kind, (weir_stage_options){.capacity = 8});
		install(&p, &ledger);
		jobs_init(jobs, 8, 0);
		for (int i = 0; i < 8; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		assert_int_equal(ledger.started, 0);
		world_run(p.world, 3 * WEIR_NS_PER_MS);
		p.probe.act = PROBE_FAIL;
		plugged_release(&p);
		assert_int_equal(ledger.started, 8);
		assert_int_equal(ledger.failed, 8);
		/* The plug was let in before the law came; whether it is told of its end is its own affair. */
		assert_true(ledger.completed <= 1);
		assert_ptr_equal(ledger.last_start, &jobs[7].event);
		assert_ptr_equal(ledger.last_settle, &jobs[7].event);
		expect_paired(p.stage, &ledger);
		plugged_end(&p);
	}
}

static void what_the_queue_refuses_is_refunded(void **state)
{
	struct plugged p;
	struct ledger ledger = {0};
	struct job jobs[6];
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 4, .cost_capacity = 100});
	install(&p, &ledger);
	jobs_init(jobs, 6, 0);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_ADMITTED);
	assert_int_equal(jobs_offer_many(p.stage, jobs + 3, 2), WEIR_SHED_FULL);
	expect_paired(p.stage, &ledger);
	weir_ticket ticket = {0};
	assert_int_equal(weir_reserve(p.stage, 0, 2, 0, WEIR_ANYWHERE, &ticket), WEIR_SHED_FULL);
	expect_paired(p.stage, &ledger);
	jobs[3].event.cost = 101;
	assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_SHED_COST);
	expect_paired(p.stage, &ledger);
	plugged_release(&p);
	expect_paired(p.stage, &ledger);
	plugged_end(&p);
}

static void a_cancelled_reservation_is_refunded_as_it_was_made(void **state)
{
	struct plugged p;
	struct ledger ledger = {0};
	weir_ticket ticket = {0};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	install(&p, &ledger);
	assert_int_equal(weir_reserve(p.stage, 5, 3, 60, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
	assert_int_equal(ledger.admitted, 3);
	assert_int_equal(ledger.last_ask.klass, 5);
	assert_int_equal(ledger.last_ask.cost, 60);
	weir_cancel(&ticket);
	assert_int_equal(ledger.refunded, 3);
	assert_int_equal(ledger.last_refund.klass, 5);
	assert_int_equal(ledger.last_refund.count, 3);
	assert_int_equal(ledger.last_refund.cost, 60);
	expect_paired(p.stage, &ledger);
	plugged_end(&p);
}

/* Whoever answers the client of a dropped event can say why, and when to come again. */
static void ask_why(struct probe *probe, struct job *job)
{
	weir_why why;
	assert_true(weir_why_shed(&why));
	assert_string_equal(why.stage, weir_stage_name(probe->stage));
	assert_string_equal(why.law, "ledger");
	assert_int_equal(why.verdict, WEIR_SHED_WAITED);
	assert_int_equal(why.klass, 2);
	assert_int_equal(why.estimate_ns, 111);
	assert_in_range(why.retry_after_ns, 335, 335 * 3 / 2);
}

static void a_law_may_drop_at_the_start(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct ledger ledger = {.start_answer = WEIR_SHED_WAITED};
		struct job jobs[4];
		plugged_open(&p, kind, (weir_stage_options){0});
		p.probe.on_drop = ask_why;
		install(&p, &ledger);
		jobs_init(jobs, 4, 2);
		jobs[3].event.flags = WEIR_EVENT_EXEMPT;
		for (int i = 0; i < 4; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		plugged_release(&p);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(jobs[i].dropped, 1);
			assert_int_equal(jobs[i].why, WEIR_SHED_WAITED);
			assert_int_equal(jobs[i].handled, 0);
		}
		/* No law may shed the exempt one. */
		assert_int_equal(jobs[3].handled, 1);
		assert_int_equal(ledger.started + ledger.refused_start >= 3, 1);
		assert_int_equal(ledger.failed, 0);
		expect_counts(p.stage, 5, 0, 2, 0, 3);
		assert_int_equal(stats_of(p.stage).drops[WEIR_SHED_WAITED], 3);
		plugged_end(&p);
	}
}

static void exempt_events_pass_laws_but_not_bounds(void **state)
{
	struct plugged p;
	struct ledger ledger = {.admit_answer = WEIR_SHED_RESOURCE};
	struct job jobs[4];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 2, .cost_capacity = 100});
	install(&p, &ledger);
	jobs_init(jobs, 4, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_RESOURCE);
	for (int i = 0; i < 4; i++)
		jobs[i].event.flags = WEIR_EVENT_EXEMPT;
	jobs[3].event.cost = 101;
	assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_SHED_COST);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_SHED_FULL);
	plugged_release(&p);
	assert_int_equal(jobs[0].handled + jobs[1].handled, 2);
	plugged_end(&p);
}

static void a_refusal_is_explained(void **state)
{
	struct plugged p;
	struct ledger ledger = {.admit_answer = WEIR_SHED_LATE};
	struct job jobs[2];
	weir_why why;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.name = "picky", .capacity = 1});
	install(&p, &ledger);
	jobs_init(jobs, 2, 6);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_SHED_LATE);
	memset(&why, 0xee, sizeof why);
	assert_true(weir_why_shed(&why));
	assert_string_equal(why.stage, "picky");
	assert_string_equal(why.law, "ledger");
	assert_int_equal(why.verdict, WEIR_SHED_LATE);
	assert_int_equal(why.klass, 6);
	assert_int_equal(why.estimate_ns, 111);
	assert_int_equal(why.target_ns, 222);
	assert_in_range(why.retry_after_ns, 339, 339 * 3 / 2); /* with its jitter */

	ledger.admit_answer = WEIR_ADMITTED;
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_false(weir_why_shed(&why));

	/* A bound has no estimate. */
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_FULL);
	assert_true(weir_why_shed(&why));
	assert_int_equal(why.verdict, WEIR_SHED_FULL);
	assert_int_equal(why.estimate_ns, 0);
	plugged_end(&p);
}

static void the_bucket_says_when_to_come_again(void **state)
{
	struct plugged p;
	struct job jobs[2];
	weir_why why = {0};
	weir_bucket_params bucket = {.rate_per_s = 10, .burst = 1};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	must(weir_stage_admission(p.stage, &weir_law_bucket, &bucket));
	jobs_init(jobs, 2, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_RATE);
	assert_true(weir_why_shed(&why));
	assert_true(why.retry_after_ns > 0 && why.retry_after_ns <= 160 * WEIR_NS_PER_MS);
	world_run(p.world, why.retry_after_ns + WEIR_NS_PER_MS);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	plugged_end(&p);
}

static void the_bucket_keeps_its_rate(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	struct job job;
	weir_bucket_params bucket = {.rate_per_s = 100, .burst = 20};
	probe_open(&probe, domain_reactor(world, "d", 1),
		   (weir_stage_options){.admission = &weir_law_bucket, .admission_params = &bucket});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	for (int i = 0; i < 10000; i++) {
		weir_offer(probe.stage, &job.event);
		world_run(world, WEIR_NS_PER_MS);
	}
	/* 10 s at 100 a second, and the burst. */
	assert_in_range(stats_of(probe.stage).admitted, 1018, 1021);
	assert_int_equal(stats_of(probe.stage).by_verdict[WEIR_SHED_RATE], stats_of(probe.stage).shed);
	world_end(&world);
}

static void the_threshold_is_per_class(void **state)
{
	struct plugged p;
	struct job jobs[6];
	weir_threshold_params params = {.waiting = {[1] = 3, [2] = 1}}; /* class 0 is not limited */
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 5});
	must(weir_stage_admission(p.stage, &weir_law_threshold, &params));
	jobs_init(jobs, 6, 1);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	jobs[1].event.klass = 2;
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_THRESHOLD);
	jobs[1].event.klass = 1;
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_SHED_THRESHOLD);
	jobs[3].event.klass = jobs[4].event.klass = jobs[5].event.klass = 0;
	assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[5].event), WEIR_SHED_FULL);
	plugged_end(&p);
}

static void ticks_come_at_their_interval_with_all_counts(void **state)
{
	struct plugged p;
	struct ledger ledger = {0};
	struct job jobs[10];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 4});
	install(&p, &ledger);
	jobs_init(jobs, 10, 1);
	for (int i = 0; i < 10; i++)
		weir_offer(p.stage, &jobs[i].event);
	world_run(p.world, 250 * WEIR_NS_PER_MS);
	assert_int_equal(ledger.ticks, 2);
	assert_int_equal(ledger.last_sample.waiting, 4);
	assert_int_equal(ledger.last_sample.in_service, 1);
	assert_int_equal(ledger.last_sample.workers, 1);
	assert_int_equal(ledger.last_sample.interval_ns, 100 * WEIR_NS_PER_MS);
	assert_true(ledger.last_sample.quantile == 0.5);
	assert_int_equal(ledger.last_sample.klass[1].offered, 0); /* they were of the tick before */
	plugged_release(&p);
	world_run(p.world, WEIR_NS_PER_S);
	assert_in_range(ledger.ticks, 12, 13);
	assert_in_range(ledger.interval_sum, ledger.ticks * 99 * WEIR_NS_PER_MS,
			ledger.ticks * 101 * WEIR_NS_PER_MS);
	weir_class_sample *sum = &ledger.sum.klass[1];
	assert_int_equal(sum->offered, 10);
	assert_int_equal(sum->admitted, 4);
	assert_int_equal(sum->shed, 6);
	assert_int_equal(sum->started, 4);
	assert_int_equal(sum->completed, 4);
	assert_int_equal(sum->response_count, 4);
	plugged_end(&p);
}

static void a_sample_holds_the_quantiles_of_its_own_tick(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK};
	struct ledger ledger = {0}, *params = &ledger;
	struct job job;
	probe_open(&probe, domain_elastic(world, "pool", 1, 1),
		   (weir_stage_options){.admission = &ledger_law, .admission_params = &params});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	for (uint64_t ms = 10; ms <= 40; ms += 10) {
		probe.work_ns = ms * WEIR_NS_PER_MS;
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		world_run(world, 100 * WEIR_NS_PER_MS);
		weir_class_sample *sample = &ledger.last_sample.klass[0];
		assert_int_equal(sample->response_count, 1);
		assert_in_range(sample->service_ns, probe.work_ns * 96 / 100, probe.work_ns * 104 / 100);
		assert_in_range(sample->response_ns, probe.work_ns * 96 / 100, probe.work_ns * 104 / 100);
		assert_int_equal(sample->waiting_ns, 0);
	}
	world_end(&world);
}

static void a_replaced_law_is_not_called_again(void **state)
{
	struct plugged p;
	struct ledger old = {0}, new = {0};
	struct job jobs[6];
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	install(&p, &old);
	jobs_init(jobs, 6, 0);
	assert_int_equal(jobs_offer_many(p.stage, jobs, 3), WEIR_ADMITTED);
	install(&p, &new);
	old.closed = true;
	assert_int_equal(jobs_offer_many(p.stage, jobs + 3, 2), WEIR_ADMITTED);
	assert_int_equal(new.admitted, 2);
	must(weir_stage_admission(p.stage, NULL, NULL));
	new.closed = true;
	new.admit_answer = WEIR_SHED_OFF;
	assert_int_equal(weir_offer(p.stage, &jobs[5].event), WEIR_ADMITTED);
	plugged_release(&p);
	world_run(p.world, WEIR_NS_PER_S);
	assert_int_equal(old.calls_after_close, 0);
	assert_int_equal(new.calls_after_close, 0);
	expect_counts(p.stage, 7, 0, 7, 0, 0);
	plugged_end(&p);
}

static void a_law_installed_at_the_start_pairs_over_a_whole_life(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(3);
		struct probe probe = {.act = PROBE_WORK, .work_ns = WEIR_NS_PER_MS};
		struct ledger ledger = {0}, *params = &ledger;
		static struct job jobs[200];
		probe_open(&probe, domain_of_kind(world, kind),
			   (weir_stage_options){.admission = &ledger_law,
						.admission_params = &params,
						.capacity = 20,
						.concurrency = 1,
						.batch = 2});
		must(weir_world_start(world));
		jobs_init(jobs, 200, 0);
		weir_random *random = weir_sim_random(world);
		for (int i = 0; i < 200; i++) {
			if (i % 7 == 0)
				jobs[i].event.deadline_ns = weir_world_now(world) + WEIR_NS_PER_MS / 2;
			weir_offer(probe.stage, &jobs[i].event);
			if (i % 11 == 0)
				weir_event_cancel(&jobs[i].event);
			world_run(world, weir_random_below(random, WEIR_NS_PER_MS / 2));
		}
		must(weir_world_stop(world, WEIR_NS_PER_S, NULL));
		weir_stage_stats stats = stats_of(probe.stage);
		assert_true(stats.shed > 0 && stats.dropped > 0);
		assert_int_equal(ledger.admitted - ledger.refunded, stats.admitted);
		assert_int_equal(ledger.started, stats.completed);
		assert_int_equal(ledger.completed, stats.completed);
		assert_int_equal(ledger.failed, 0);
		assert_int_equal(ledger.backwards, 0);
		weir_world_free(&world);
	}
}

/* Settled, run at once, exempt, leaked: whatever was started is settled, and nothing else is. */
static void start_and_settle_pair_for_every_kind_of_event(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "r", 1);
	struct ledger ledger = {0}, *params = &ledger;
	struct probe first = {.act = PROBE_FORWARD}, second = {0};
	struct job jobs[4];
	probe_open(&first, domain, (weir_stage_options){.name = "first", .batch = 1});
	probe_open(&second, domain,
		   (weir_stage_options){
			   .name = "second", .admission = &ledger_law, .admission_params = &params});
	first.next = second.stage;
	must(weir_world_start(world));
	jobs_init(jobs, 4, 0);

	assert_int_equal(weir_offer(first.stage, &jobs[0].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(stats_of(second.stage).inlined, 1);
	assert_int_equal(ledger.started, 1);
	assert_int_equal(ledger.completed, 1);

	jobs[1].event.flags = WEIR_EVENT_EXEMPT;
	assert_int_equal(weir_offer(second.stage, &jobs[1].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[1].handled, 1);
	assert_int_equal(ledger.started, ledger.completed + ledger.failed);

	second.act = PROBE_LEAK;
	assert_int_equal(weir_offer(second.stage, &jobs[2].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[2].dropped, 1);
	assert_int_equal(ledger.started, ledger.completed + ledger.failed);

	/* A law's word at the start holds for what would run at once, too. */
	second.act = PROBE_DONE;
	ledger.start_answer = WEIR_SHED_WAITED;
	assert_int_equal(weir_offer(first.stage, &jobs[3].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[3].handled, 1); /* in the first stage only */
	assert_int_equal(jobs[3].dropped, 1);
	assert_int_equal(ledger.started, ledger.completed + ledger.failed);
	world_end_faulty(&world);
}

static void the_first_sample_of_a_new_law_begins_with_it(void **state)
{
	weir_world *world = world_virtual(1);
	struct ledger ledger = {0};
	struct ledger *params = &ledger;
	struct probe probe = {.act = PROBE_WORK, .work_ns = 5 * WEIR_NS_PER_MS};
	struct job jobs[10];
	probe_open(&probe, domain_reactor(world, "reactor", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	jobs_init(jobs, 10, 2);
	for (int i = 0; i < 9; i++)
		assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_S);
	must(weir_stage_admission(probe.stage, &ledger_law, &params));
	probe.work_ns = 50 * WEIR_NS_PER_MS;
	assert_int_equal(weir_offer(probe.stage, &jobs[9].event), WEIR_ADMITTED);
	world_run(world, 100 * WEIR_NS_PER_MS);
	const weir_class_sample *seen = &ledger.last_sample.klass[2];
	assert_int_equal(ledger.ticks, 1);
	assert_int_equal(ledger.last_sample.interval_ns, 100 * WEIR_NS_PER_MS);
	assert_int_equal(seen->offered, 1);
	assert_int_equal(seen->completed, 1);
	assert_int_equal(seen->response_count, 1);
	assert_true(seen->service_ns > 40 * WEIR_NS_PER_MS);
	world_end(&world);
}

/* Lets all in, and looks for sheds in its samples. */
struct doubter {
	_Atomic uint64_t ticks, sheds;
};

static int doubter_init(void *state, const void *params, const char **ret_wrong)
{
	*(struct doubter **)state = *(struct doubter *const *)params;
	return 0;
}

static weir_verdict doubter_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static void doubter_tick(void *state, const weir_sample *sample)
{
	struct doubter *doubter = *(struct doubter **)state;
	atomic_fetch_add(&doubter->sheds, sample->klass[0].shed != 0);
	atomic_fetch_add(&doubter->ticks, 1);
}

static void a_sample_shows_no_sheds_where_there_were_none(void **state)
{
	const weir_admission_law law = {.name = "doubter",
					.state_bytes = sizeof(struct doubter *),
					.tick_ns = 20 * WEIR_NS_PER_US,
					.init = doubter_init,
					.admit = doubter_admit,
					.tick = doubter_tick};
	enum { JOBS = 4096 };
	static struct job jobs[JOBS];
	struct doubter doubter = {0};
	struct doubter *params = &doubter;
	struct probe probe = {.act = PROBE_DONE};
	weir_world *world = world_real();
	probe_open(&probe, domain_reactor(world, "reactor", 1),
		   (weir_stage_options){.capacity = JOBS, .admission = &law, .admission_params = &params});
	must(weir_world_start(world));
	for (int round = 0; round < 1000 && doubter.ticks < 500; round++) {
		unsigned before = probe.handled;
		jobs_init(jobs, JOBS, 0);
		for (int i = 0; i < JOBS; i++)
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(stats_of(probe.stage).in_flight == 0);
		assert_int_equal(probe.handled - before, JOBS);
	}
	world_end(&world);
	assert_int_equal(doubter.sheds, 0);
}

/* Looks at the processor use in its samples. */
struct frugal {
	_Atomic uint64_t ticks, wrong, busy;
};

static int frugal_init(void *state, const void *params, const char **ret_wrong)
{
	*(struct frugal **)state = *(struct frugal *const *)params;
	return 0;
}

static void frugal_tick(void *state, const weir_sample *sample)
{
	struct frugal *frugal = *(struct frugal **)state;
	atomic_fetch_add(&frugal->wrong, !(sample->cpu_share >= 0 && sample->cpu_share <= 1));
	atomic_fetch_add(&frugal->busy, sample->cpu_share > .05);
	atomic_fetch_add(&frugal->ticks, 1);
}

static const weir_admission_law frugal_law = {.name = "frugal",
					      .state_bytes = sizeof(struct frugal *),
					      .tick_ns = 5 * WEIR_NS_PER_MS,
					      .wants_cpu = true,
					      .init = frugal_init,
					      .admit = doubter_admit,
					      .tick = frugal_tick};

static void a_sample_shows_the_processor_use_of_the_process(void **state)
{
	struct frugal frugal = {0};
	struct frugal *params = &frugal;
	struct probe probe = {.act = PROBE_DONE};
	weir_world *world = world_real();
	probe_open(&probe, domain_reactor(world, "reactor", 1),
		   (weir_stage_options){.admission = &frugal_law, .admission_params = &params});
	must(weir_world_start(world));
	/* This thread uses all that it gets, until the law has seen it. */
	for (uint64_t turn = 0; turn < UINT64_C(1) << 40 && atomic_load(&frugal.busy) < 3; turn++)
		;
	assert_true(atomic_load(&frugal.busy) >= 3);
	world_end(&world);
	assert_int_equal(frugal.wrong, 0);
}

static void a_virtual_world_uses_no_processor(void **state)
{
	struct frugal frugal = {0};
	struct frugal *params = &frugal;
	struct probe probe = {.act = PROBE_DONE};
	weir_world *world = world_virtual(1);
	probe_open(&probe, domain_reactor(world, "reactor", 1),
		   (weir_stage_options){.admission = &frugal_law, .admission_params = &params});
	must(weir_world_start(world));
	world_run(world, WEIR_NS_PER_S);
	assert_true(frugal.ticks > 100);
	assert_int_equal(frugal.wrong + frugal.busy, 0);
	world_end(&world);
}

static void offer_again(struct probe *probe, struct job *job)
{
	unsigned *left = probe->data;
	if ((*left)-- != 0)
		assert_int_equal(weir_offer(probe->stage, &job->event), WEIR_ADMITTED);
}

/* Each goes back into the stage from within its drop: that must not go ever deeper. */
static void what_a_law_drops_at_once_may_be_offered_again_and_again(void **state)
{
	weir_world *world = world_virtual(1);
	struct ledger ledger = {.start_answer = WEIR_SHED_WAITED};
	struct ledger *params = &ledger;
	unsigned left = 300000;
	struct probe probe = {.on_drop = offer_again, .data = &left};
	struct job job;
	probe_open(&probe, domain_reactor(world, "reactor", 1),
		   (weir_stage_options){.admission = &ledger_law, .admission_params = &params});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_S);
	assert_int_equal(probe.dropped, 300001);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_law_sees_the_whole_offer),
		CHECK_TEST(each_started_event_is_settled_once),
		CHECK_TEST(what_the_queue_refuses_is_refunded),
		CHECK_TEST(a_cancelled_reservation_is_refunded_as_it_was_made),
		CHECK_TEST(a_law_may_drop_at_the_start),
		CHECK_TEST(exempt_events_pass_laws_but_not_bounds),
		CHECK_TEST(a_refusal_is_explained),
		CHECK_TEST(the_bucket_says_when_to_come_again),
		CHECK_TEST(the_bucket_keeps_its_rate),
		CHECK_TEST(the_threshold_is_per_class),
		CHECK_TEST(ticks_come_at_their_interval_with_all_counts),
		CHECK_TEST(a_sample_holds_the_quantiles_of_its_own_tick),
		CHECK_TEST(a_replaced_law_is_not_called_again),
		CHECK_TEST(a_law_installed_at_the_start_pairs_over_a_whole_life),
		CHECK_TEST(start_and_settle_pair_for_every_kind_of_event),
		CHECK_TEST(the_first_sample_of_a_new_law_begins_with_it),
		CHECK_TEST(a_sample_shows_no_sheds_where_there_were_none),
		CHECK_TEST(a_sample_shows_the_processor_use_of_the_process),
		CHECK_TEST(a_virtual_world_uses_no_processor),
		CHECK_TEST(what_a_law_drops_at_once_may_be_offered_again_and_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
