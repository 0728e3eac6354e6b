/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting offers: backpressure on foreign and elastic threads, its time-out, its end, and where it is refused. */
#include "support/worlds.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* A gate that handlers block at, as blocking work does. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open;
	_Atomic unsigned waiting;
};

static void gate_init(struct gate *gate)
{
	memset(gate, 0, sizeof *gate);
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->opened, NULL);
}

static void gate_pass(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	atomic_fetch_add(&gate->waiting, 1);
	while (!gate->open)
		pthread_cond_wait(&gate->opened, &gate->lock);
	atomic_fetch_sub(&gate->waiting, 1);
	pthread_mutex_unlock(&gate->lock);
}

static void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->open = true;
	pthread_cond_broadcast(&gate->opened);
	pthread_mutex_unlock(&gate->lock);
}

static void done_after_gate(struct probe *probe, struct job *job)
{
	gate_pass(probe->data);
	weir_done(&job->event);
}

/* A real elastic stage of one thread that blocks at a gate, with a full queue of two behind it. */
struct dammed {
	weir_world *world;
	struct probe probe;
	struct gate gate;
	struct job jobs[3];
};

static void dammed_open(struct dammed *d)
{
	memset(d, 0, sizeof *d);
	gate_init(&d->gate);
	d->world = world_real();
	d->probe.each = done_after_gate;
	d->probe.data = &d->gate;
	probe_open(&d->probe, domain_elastic(d->world, "pool", 1, 1),
		   (weir_stage_options){.name = "dammed", .capacity = 2, .batch = 1});
	must(weir_world_start(d->world));
	jobs_init(d->jobs, 3, 0);
	assert_int_equal(weir_offer(d->probe.stage, &d->jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(d->gate.waiting == 1);
	assert_int_equal(weir_offer(d->probe.stage, &d->jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(d->probe.stage, &d->jobs[2].event), WEIR_ADMITTED);
}

struct waiter {
	pthread_t thread;
	weir_stage *stage;
	struct job job;
	uint64_t timeout_ns;
	_Atomic int verdict; /* -1: still waiting */
	weir_why why;
	bool explained;
};

static void *wait_to_offer(void *arg)
{
	struct waiter *waiter = arg;
	int verdict = weir_offer_wait(waiter->stage, &waiter->job.event, waiter->timeout_ns);
	waiter->explained = weir_why_shed(&waiter->why);
	atomic_store(&waiter->verdict, verdict);
	return NULL;
}

static void waiter_start(struct waiter *waiter, weir_stage *stage, uint64_t timeout_ns)
{
	memset(waiter, 0, sizeof *waiter);
	waiter->stage = stage;
	waiter->timeout_ns = timeout_ns;
	waiter->verdict = -1;
	job_init(&waiter->job, 100, 1);
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_to_offer, waiter), 0);
}

static int waiter_join(struct waiter *waiter)
{
	pthread_join(waiter->thread, NULL);
	return waiter->verdict;
}

static void an_offer_that_need_not_wait_does_not(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer_wait(probe.stage, &job.event, 0), WEIR_ADMITTED);
	CHECK_EVENTUALLY(job.handled == 1);
	world_end(&world);
}

static void a_wait_times_out(void **state)
{
	struct dammed d;
	struct waiter waiter;
	static const uint64_t timeouts[] = {0, 20 * WEIR_NS_PER_MS};
	dammed_open(&d);
	for (int i = 0; i < 2; i++) {
		waiter_start(&waiter, d.probe.stage, timeouts[i]);
		int verdict = waiter_join(&waiter);
		/* Without patience it is like a plain offer. */
		assert_true(verdict == WEIR_SHED_TIMEOUT || (i == 0 && verdict == WEIR_SHED_FULL));
		assert_true(waiter.explained);
		assert_int_equal(waiter.why.verdict, verdict);
		assert_null(waiter.job.event.lane);
	}
	expect_counts(d.probe.stage, 3, 2, 0, 0, 0);
	gate_open(&d.gate);
	world_end(&d.world);
	assert_int_equal(d.probe.handled, 3);
}

static void room_wakes_those_who_wait(void **state)
{
	struct dammed d;
	struct waiter waiters[4];
	dammed_open(&d);
	for (int i = 0; i < 4; i++)
		waiter_start(&waiters[i], d.probe.stage, 600 * WEIR_NS_PER_S);
	for (int i = 0; i < 20; i++)
		check_breathe();
	for (int i = 0; i < 4; i++)
		assert_int_equal(waiters[i].verdict, -1);
	gate_open(&d.gate);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waiter_join(&waiters[i]), WEIR_ADMITTED);
		assert_false(waiters[i].explained);
	}
	CHECK_EVENTUALLY(d.probe.handled == 7);
	expect_counts(d.probe.stage, 7, 0, 7, 0, 0);
	world_end(&d.world);
}

struct opener {
	struct dammed *dammed;
	struct waiter *waiters;
};

static void *open_when_all_are_back(void *arg)
{
	struct opener *opener = arg;
	for (int i = 0; i < 3; i++)
		pthread_join(opener->waiters[i].thread, NULL);
	gate_open(&opener->dammed->gate);
	return NULL;
}

/* They are woken although nothing has drained yet: the gate opens only when they are back. */
static void a_stop_wakes_those_who_wait(void **state)
{
	struct dammed d;
	struct waiter waiters[3];
	struct opener opener = {&d, waiters};
	pthread_t thread;
	dammed_open(&d);
	for (int i = 0; i < 3; i++)
		waiter_start(&waiters[i], d.probe.stage, 600 * WEIR_NS_PER_S);
	for (int i = 0; i < 20; i++)
		check_breathe();
	assert_int_equal(pthread_create(&thread, NULL, open_when_all_are_back, &opener), 0);
	must(weir_world_stop(d.world, 60 * WEIR_NS_PER_S, NULL));
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(waiters[i].verdict, WEIR_SHED_STOPPING);
	assert_int_equal(d.probe.handled, 3);
	assert_int_equal(weir_world_check(d.world), 0);
	weir_world_free(&d.world);
}

static void closing_wakes_those_who_wait(void **state)
{
	struct dammed d;
	struct waiter waiter;
	dammed_open(&d);
	waiter_start(&waiter, d.probe.stage, 600 * WEIR_NS_PER_S);
	for (int i = 0; i < 20; i++)
		check_breathe();
	weir_stage_close(d.probe.stage);
	assert_int_equal(waiter_join(&waiter), WEIR_SHED_CLOSED);
	gate_open(&d.gate);
	world_end(&d.world);
}

static void more_cost_than_can_ever_fit_is_not_waited_for(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	struct job job;
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){.cost_capacity = 100});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	job.event.cost = 101;
	weir_verdict verdict = weir_offer_wait(probe.stage, &job.event, 50 * WEIR_NS_PER_MS);
	assert_true(verdict == WEIR_SHED_COST || verdict == WEIR_SHED_TIMEOUT ||
		    verdict == WEIR_SHED_DEADLOCK);
	assert_int_equal(stats_of(probe.stage).admitted, 0);
	world_end_faulty(&world);
}

static void wait_within(struct probe *probe, struct job *job)
{
	struct job *child = job->data;
	child->why = weir_offer_wait(probe->next, &child->event, WEIR_NS_PER_S);
	weir_done(&job->event);
}

static void a_reactor_thread_does_not_wait(void **state)
{
	weir_world *world = world_real();
	struct probe front = {.each = wait_within}, back = {0};
	struct job job, child;
	probe_open(&front, domain_reactor(world, "r", 1), (weir_stage_options){.name = "front"});
	probe_open(&back, domain_elastic(world, "e", 1, 1), (weir_stage_options){.name = "back"});
	front.next = back.stage;
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	job_init(&child, 2, 0);
	job.data = &child;
	assert_int_equal(weir_offer(front.stage, &job.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(stats_of(front.stage).completed == 1);
	weir_stop_report report;
	must(weir_world_stop(world, 60 * WEIR_NS_PER_S, &report));
	assert_int_equal(child.why, WEIR_SHED_MISUSE);
	assert_int_equal(weir_stage_faults(back.stage, WEIR_FAULT_BAD_WAIT), 1);
	assert_int_equal(report.faults, 1);
	weir_world_free(&world);
}

static void wait_downstream(struct probe *probe, struct job *job)
{
	gate_pass(probe->data);
	struct job *child = job->data;
	if (child != NULL)
		child->why = weir_offer_wait(probe->next, &child->event, 600 * WEIR_NS_PER_S);
	weir_done(&job->event);
}

/* The only thread of a domain waits for room in a queue that only it can empty. */
static void waiting_for_oneself_is_refused(void **state)
{
	weir_world *world = world_real();
	struct gate gate;
	struct probe probe = {.each = wait_downstream, .data = &gate};
	struct job jobs[2], child;
	gate_init(&gate);
	probe_open(&probe, domain_elastic(world, "e", 1, 1),
		   (weir_stage_options){.name = "selfish", .capacity = 1, .batch = 1});
	probe.next = probe.stage;
	must(weir_world_start(world));
	jobs_init(jobs, 2, 0);
	job_init(&child, 3, 0);
	jobs[0].data = &child;
	assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(gate.waiting == 1);
	assert_int_equal(weir_offer(probe.stage, &jobs[1].event), WEIR_ADMITTED);
	gate_open(&gate);
	CHECK_EVENTUALLY(probe.handled == 2);
	weir_stop_report report;
	must(weir_world_stop(world, 60 * WEIR_NS_PER_S, &report));
	assert_int_equal(child.why, WEIR_SHED_DEADLOCK);
	assert_int_equal(weir_stage_faults(probe.stage, WEIR_FAULT_WAIT_CYCLE), 1);
	weir_world_free(&world);
}

/* Two or three domains, each of whose threads waits for the next one's full queue. */
static void a_circle_of_waiting_domains_is_refused(void **state)
{
	for (int n = 2; n <= 3; n++) {
		weir_world *world = world_real();
		struct gate gate;
		struct probe probes[3] = {0};
		struct job first[3], second[3], children[3];
		static const char *const names[] = {"one", "two", "three"};
		gate_init(&gate);
		for (int i = 0; i < n; i++) {
			probes[i].each = wait_downstream;
			probes[i].data = &gate;
			probe_open(&probes[i], domain_elastic(world, names[i], 1, 1),
				   (weir_stage_options){.name = names[i], .capacity = 1, .batch = 1});
		}
		must(weir_world_start(world));
		for (int i = 0; i < n; i++) {
			probes[i].next = probes[(i + 1) % n].stage;
			job_init(&first[i], 1, 0);
			job_init(&second[i], 2, 0);
			job_init(&children[i], 3, 0);
			first[i].data = &children[i];
			assert_int_equal(weir_offer(probes[i].stage, &first[i].event), WEIR_ADMITTED);
		}
		CHECK_EVENTUALLY(gate.waiting == (unsigned)n);
		for (int i = 0; i < n; i++)
			assert_int_equal(weir_offer(probes[i].stage, &second[i].event), WEIR_ADMITTED);
		gate_open(&gate);
		/* No time-out comes to the rescue: they get going because one of them is refused. */
		CHECK_EVENTUALLY(first[0].handled && second[0].handled && first[1].handled &&
				 second[1].handled);
		must(weir_world_stop(world, 60 * WEIR_NS_PER_S, NULL));
		unsigned refused = 0, faults = 0, admitted = 0;
		for (int i = 0; i < n; i++) {
			refused += children[i].why == WEIR_SHED_DEADLOCK;
			admitted += children[i].why == WEIR_ADMITTED;
			faults += weir_stage_faults(probes[i].stage, WEIR_FAULT_WAIT_CYCLE);
			assert_int_equal(children[i].handled, children[i].why == WEIR_ADMITTED);
		}
		assert_true(refused >= 1);
		assert_int_equal(refused + admitted, n);
		assert_int_equal(faults, refused);
		assert_int_equal(weir_world_check(world), 0);
		weir_world_free(&world);
	}
}

struct cut_short {
	struct gate gate;
	struct probe front, back;
	struct job outer, child, inside, queued;
	_Atomic bool returned;
};

static void wait_at_the_dam(struct probe *probe, struct job *job)
{
	struct cut_short *c = probe->data;
	c->child.why = weir_offer_wait(c->back.stage, &c->child.event, 600 * WEIR_NS_PER_S);
	atomic_store(&c->returned, true);
	weir_done(&job->event);
}

static void pass_the_gate(struct probe *probe, struct job *job)
{
	struct cut_short *c = probe->data;
	gate_pass(&c->gate);
	weir_done(&job->event);
}

static void *open_when_returned(void *arg)
{
	struct cut_short *c = arg;
	while (!atomic_load(&c->returned))
		check_breathe();
	gate_open(&c->gate);
	return NULL;
}

/* A handler may wait on while the drain lasts, but not beyond: the stop has to join its thread. */
static void the_end_of_a_drain_wakes_handlers_that_wait(void **state)
{
	static struct cut_short c;
	memset(&c, 0, sizeof c);
	gate_init(&c.gate);
	weir_world *world = world_real();
	pthread_t thread;
	c.front.each = wait_at_the_dam;
	c.back.each = pass_the_gate;
	c.front.data = c.back.data = &c;
	probe_open(&c.back, domain_elastic(world, "back", 1, 1),
		   (weir_stage_options){.name = "back", .capacity = 1});
	probe_open(&c.front, domain_elastic(world, "front", 1, 1), (weir_stage_options){.name = "front"});
	must(weir_world_start(world));
	job_init(&c.outer, 1, 0);
	job_init(&c.child, 2, 0);
	job_init(&c.inside, 3, 0);
	job_init(&c.queued, 4, 0);
	assert_int_equal(weir_offer(c.back.stage, &c.inside.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(c.gate.waiting == 1);
	assert_int_equal(weir_offer(c.back.stage, &c.queued.event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(c.front.stage, &c.outer.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(c.front.handled == 1);
	assert_int_equal(pthread_create(&thread, NULL, open_when_returned, &c), 0);
	weir_stop_report report = {0};
	int rc = weir_world_stop(world, 20 * WEIR_NS_PER_MS, &report);
	pthread_join(thread, NULL);
	assert_int_equal(c.child.why, WEIR_SHED_STOPPING);
	/* Its turn may have come just before its thread was told to end. */
	assert_int_equal(c.queued.dropped + c.queued.handled, 1);
	assert_int_equal(report.undrained, c.queued.dropped);
	assert_int_equal(rc, c.queued.dropped ? -ETIMEDOUT : 0);
	assert_int_equal(weir_world_check(world), 0);
	weir_world_free(&world);
}

/* Backpressure in a straight line is what waiting is for. */
static void an_elastic_thread_waits_for_the_next_domain(void **state)
{
	weir_world *world = world_real();
	struct gate open;
	struct probe front = {.each = wait_downstream, .data = &open}, back = {0};
	static struct job jobs[200], children[200];
	gate_init(&open);
	gate_open(&open);
	probe_open(&front, domain_elastic(world, "front", 1, 2),
		   (weir_stage_options){.name = "front", .capacity = 200});
	probe_open(&back, domain_elastic(world, "back", 1, 1),
		   (weir_stage_options){.name = "back", .capacity = 1, .batch = 1});
	front.next = back.stage;
	must(weir_world_start(world));
	jobs_init(jobs, 200, 0);
	jobs_init(children, 200, 0);
	for (int i = 0; i < 200; i++)
		jobs[i].data = &children[i];
	assert_int_equal(jobs_offer_many(front.stage, jobs, 200), WEIR_ADMITTED);
	CHECK_EVENTUALLY(back.handled == 200);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(an_offer_that_need_not_wait_does_not),
		CHECK_TEST(a_wait_times_out),
		CHECK_TEST(room_wakes_those_who_wait),
		CHECK_TEST(a_stop_wakes_those_who_wait),
		CHECK_TEST(closing_wakes_those_who_wait),
		CHECK_TEST(more_cost_than_can_ever_fit_is_not_waited_for),
		CHECK_TEST(a_reactor_thread_does_not_wait),
		CHECK_TEST(waiting_for_oneself_is_refused),
		CHECK_TEST(a_circle_of_waiting_domains_is_refused),
		CHECK_TEST(the_end_of_a_drain_wakes_handlers_that_wait),
		CHECK_TEST(an_elastic_thread_waits_for_the_next_domain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
