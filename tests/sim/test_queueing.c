/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual world against queueing theory: what is exactly known of M/M/1, M/M/c, M/D/1 and M/M/1/K must come out. */
#include "support/worlds.h"

#include <stdlib.h>

#include "theory.h"

struct queueing {
	weir_world *world;
	weir_stage *stage;
	double mean_service_ns;
	bool constant_service;
	struct job *jobs; /* a ring: reused when done */
	size_t job_count, next;
	double waited_ns; /* sum */
	uint64_t started, shed;
	uint64_t arrivals, found_waiting;
};

static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct queueing *q = arg;
	for (size_t i = 0; i < count; i++) {
		uint64_t waited = weir_world_now(q->world) - events[i]->offered_ns;
		double service = q->mean_service_ns;
		if (!q->constant_service)
			service = weir_random_exponential(weir_sim_random(q->world), service);
		q->waited_ns += (double)waited;
		q->found_waiting += waited > 0;
		q->started++;
		weir_finish_after(events[i], &job_of(events[i])->timer, (uint64_t)service);
	}
}

static void never_dropped(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	fail_msg("dropped: %s", weir_verdict_name(why));
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct queueing *q = arg;
	struct job *job = jobs_next_free(q->jobs, q->job_count, &q->next);
	job_init(job, 0, 0);
	q->arrivals++;
	if (weir_offer(q->stage, &job->event) != WEIR_ADMITTED)
		q->shed++;
}

/* Runs n arrivals on average; the ring of jobs is as large as the queue can become, and the servers. */
static void run_queue(struct queueing *q, weir_domain_kind kind, uint32_t servers, double rho,
		      uint32_t capacity, double n)
{
	double per_s = rho * servers * 1e9 / q->mean_service_ns;
	if (CHECK_SLOW)
		n /= 6;
	weir_arrivals arrivals;
	q->world = world_virtual(5);
	weir_domain *domain = kind == WEIR_REACTOR ? domain_reactor(q->world, "d", 1)
						   : domain_elastic(q->world, "d", servers, servers);
	weir_stage_options options = {.name = "queue",
				      .handle = serve,
				      .drop = never_dropped,
				      .arg = q,
				      .capacity = capacity,
				      .concurrency = kind == WEIR_REACTOR ? servers : 0,
				      .batch = 1};
	must(weir_stage_new(domain, &options, &q->stage));
	must(weir_world_start(q->world));
	q->job_count = capacity + servers + 2;
	q->jobs = calloc(q->job_count, sizeof *q->jobs);
	assert_non_null(q->jobs);
	weir_arrivals_start(&arrivals, q->world, WEIR_POISSON, per_s, arrive, q);
	world_run(q->world, (uint64_t)(n / per_s * 1e9));
	weir_arrivals_stop(&arrivals);
}

static void end_queue(struct queueing *q)
{
	world_end(&q->world);
	free(q->jobs);
}

/* servers: threads of a pool, or places in service on a reactor. */
static void expect_erlang(weir_domain_kind kind, unsigned servers, double rho)
{
	struct queueing q = {.mean_service_ns = 1e7};
	double waits = erlang_c(servers, rho);
	double drain_ns = q.mean_service_ns / (servers * (1 - rho)); /* mean wait of those who wait */
	run_queue(&q, kind, servers, rho, 5000, 300000);
	assert_int_equal(q.shed, 0);
	expect_close("the mean wait", q.waited_ns / (double)q.started, waits * drain_ns, 0.05);
	expect_close("the share that waits", (double)q.found_waiting / (double)q.started, waits, 0.02);
	/* P(wait > t) = waits * exp(-t / drain): the stage's own histogram must know. */
	expect_close("the 99th percentile", (double)weir_stage_quantile(q.stage, 0, WEIR_WAITING, 0.99),
		     drain_ns * log(waits / 0.01), 0.08);
	expect_close("the median service", (double)weir_stage_quantile(q.stage, 0, WEIR_SERVICE, 0.5),
		     q.mean_service_ns * log(2), 0.035);
	end_queue(&q);
}

static void waits_of_m_m_c_are_erlangs(void **state)
{
	expect_erlang(WEIR_ELASTIC, 1, 0.5);
	expect_erlang(WEIR_REACTOR, 1, 0.75);
	expect_erlang(WEIR_ELASTIC, 2, 0.7);
	expect_erlang(WEIR_REACTOR, 2, 0.6);
	expect_erlang(WEIR_ELASTIC, 10, 0.7);
}

/* Pollaczek and Khinchine: with constant service the wait is half of M/M/1's. */
static void waits_of_m_d_1_are_half(void **state)
{
	struct queueing q = {.mean_service_ns = 1e6, .constant_service = true};
	run_queue(&q, WEIR_ELASTIC, 1, 0.7, 5000, 300000);
	expect_close("the mean wait", q.waited_ns / (double)q.started, 0.7 / (2 * 0.3) * 1e6, 0.03);
	end_queue(&q);
}

/* With room for K in all, the share that is shed is known, in overload too. */
static void a_bounded_queue_sheds_what_theory_says(void **state)
{
	static const double rhos[] = {0.9, 1.5};
	for (int i = 0; i < 2; i++) {
		struct queueing q = {.mean_service_ns = 1e6};
		double rho = rhos[i], k = 11; /* ten wait, one is served */
		double loss = (1 - rho) * pow(rho, k) / (1 - pow(rho, k + 1));
		run_queue(&q, WEIR_ELASTIC, 1, rho, 10, 400000);
		expect_close("the share that is shed", (double)q.shed / (double)q.arrivals, loss, 0.03);
		assert_int_equal(stats_of(q.stage).by_verdict[WEIR_SHED_FULL], q.shed);
		end_queue(&q);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(waits_of_m_m_c_are_erlangs),
		CHECK_TEST(waits_of_m_d_1_are_half),
		CHECK_TEST(a_bounded_queue_sheds_what_theory_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
