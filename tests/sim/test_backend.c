/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a server at the far end: against queueing theory where that knows the answer, by hand where it does not. */
#include "support/worlds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/backend.h"
#include "sim/dist.h"
#include "theory.h"

#define MS ((double)WEIR_NS_PER_MS)

struct call {
	weir_backend_job job;
	uint64_t sent_ns, done_ns;
	unsigned done, refused;
};

static void called_back(weir_backend_job *job, bool refused, void *arg)
{
	struct call *call = (struct call *)job;
	call->done++;
	call->refused += refused;
	call->done_ns = weir_world_now(arg);
}

static weir_world *open_backend(const weir_backend_options *options, weir_backend **ret_backend)
{
	weir_world *world = world_virtual(3);
	domain_reactor(world, "d", 1);
	must(weir_world_start(world));
	must(weir_backend_new(world, options, ret_backend));
	return world;
}

static void close_backend(weir_world **world, weir_backend **backend)
{
	weir_backend_free(backend);
	assert_null(*backend);
	world_end(world);
}

static void submit(weir_world *world, weir_backend *backend, struct call *call, double work_ms)
{
	memset(call, 0, sizeof(*call));
	call->sent_ns = weir_world_now(world);
	weir_backend_submit(backend, &call->job, work_ms * MS, called_back, world);
}

/* How long it took, in ms; -1: not there yet. */
static double took_ms(const struct call *call)
{
	assert_true(call->done <= 1);
	return call->done != 0 ? (double)(call->done_ns - call->sent_ns) / MS : -1;
}

static void expect_ms(const struct call *call, double ms)
{
	if (fabs(took_ms(call) - ms) > 1e-5)
		fail_msg("took %g ms, expected %g", took_ms(call), ms);
}

/* ---- queueing theory ---- */

struct theory {
	weir_world *world;
	weir_backend *backend;
	weir_dist work;
	struct call *calls;
	size_t count, next;
	double response_ns;
	uint64_t ended, seed_check;
};

static void theory_done(weir_backend_job *job, bool refused, void *arg)
{
	struct theory *t = arg;
	struct call *call = (struct call *)job;
	uint64_t now_ns = weir_world_now(t->world);
	assert_false(refused);
	call->done = 1;
	t->response_ns += (double)(now_ns - call->sent_ns);
	t->ended++;
	t->seed_check = t->seed_check * 31 + now_ns;
}

static void theory_arrive(weir_arrivals *arrivals, void *arg)
{
	struct theory *t = arg;
	for (size_t tries = 0; tries < t->count; tries++) {
		struct call *call = &t->calls[t->next++ % t->count];
		if (!call->done)
			continue;
		call->done = 0;
		call->sent_ns = weir_world_now(t->world);
		double work = weir_dist_draw(&t->work, weir_sim_random(t->world));
		weir_backend_submit(t->backend, &call->job, work, theory_done, t);
		return;
	}
	fail_msg("more than %zu inside", t->count);
}

/* The mean response time, in mean service times. */
static double mean_response(struct theory *t, weir_discipline discipline, uint32_t workers, double rho,
			    double n)
{
	weir_backend_options options = {.discipline = discipline, .workers = workers};
	weir_arrivals arrivals;
	double per_s = rho * workers / (t->work.mean / 1e9);
	t->world = open_backend(&options, &t->backend);
	t->count = 20000;
	t->calls = calloc(t->count, sizeof(*t->calls));
	for (size_t i = 0; i < t->count; i++)
		t->calls[i].done = 1;
	weir_arrivals_start(&arrivals, t->world, WEIR_POISSON, per_s, theory_arrive, t);
	world_run(t->world, (uint64_t)((CHECK_SLOW ? n / 6 : n) / per_s * 1e9));
	weir_arrivals_stop(&arrivals);
	world_run(t->world, 3600 * WEIR_NS_PER_S);
	assert_int_equal(weir_backend_inside(t->backend), 0);
	assert_int_equal(t->ended, arrivals.count);
	close_backend(&t->world, &t->backend);
	free(t->calls);
	return t->response_ns / (double)t->ended / t->work.mean;
}

static void test_fifo_is_m_m_c(void **state)
{
	static const unsigned workers[] = {1, 4, 16};
	for (int i = 0; i < 3; i++) {
		struct theory t = {.work = {.kind = WEIR_DIST_EXPONENTIAL, .mean = 10 * MS}};
		unsigned c = workers[i];
		double response = mean_response(&t, WEIR_BACKEND_FIFO, c, .8, 4e5);
		expect_close("M/M/c response", response, 1 + erlang_c(c, .8) / (c * .2), .03);
	}
}

static void test_fifo_is_pollaczek_khinchine(void **state)
{
	struct theory t = {.work = {.kind = WEIR_DIST_BIMODAL, .mean = 10 * MS}};
	double response = mean_response(&t, WEIR_BACKEND_FIFO, 1, .6, 4e5);
	double wait = .6 * weir_dist_second_moment(&t.work) / 2 / .4;
	expect_close("M/G/1 response", response, 1 + wait, .03);
}

/* M/G/1-PS: the mean is 1 / (1 - rho), whatever the distribution. */
static void test_ps_is_insensitive(void **state)
{
	for (weir_dist_kind kind = 0; kind < WEIR_DIST_KINDS; kind++) {
		struct theory t = {.work = {.kind = kind, .mean = 10 * MS}};
		double response = mean_response(&t, WEIR_BACKEND_PS, 1, .7, 4e5);
		expect_close(weir_dist_name(kind), response, 1 / .3, kind >= WEIR_DIST_LOGNORMAL ? .08 : .03);
	}
}

/* With several workers it has as many inside as M/M/c, so by Little's law the same mean. */
static void test_ps_of_many_has_the_mean_of_m_m_c(void **state)
{
	struct theory t = {.work = {.kind = WEIR_DIST_BIMODAL, .mean = 10 * MS}};
	double response = mean_response(&t, WEIR_BACKEND_PS, 8, .8, 4e5);
	expect_close("M/G/c-PS response", response, 1 + erlang_c(8, .8) / (8 * .2), .03);
}

static void test_same_seed_same_ends(void **state)
{
	struct theory a = {.work = {.kind = WEIR_DIST_PARETO, .mean = MS}}, b = a;
	mean_response(&a, WEIR_BACKEND_PS, 3, .7, 2e4);
	mean_response(&b, WEIR_BACKEND_PS, 3, .7, 2e4);
	assert_int_equal(a.seed_check, b.seed_check);
	assert_int_equal(a.ended, b.ended);
}

/* ---- by hand ---- */

static void test_fifo_in_order(void **state)
{
	weir_backend *backend;
	struct call call[4];
	weir_world *world = open_backend(&(weir_backend_options){.workers = 2}, &backend);
	submit(world, backend, &call[0], 10);
	submit(world, backend, &call[1], 4);
	submit(world, backend, &call[2], 3);
	submit(world, backend, &call[3], 5);
	assert_int_equal(weir_backend_inside(backend), 4);
	world_run(world, 100 * WEIR_NS_PER_MS);
	expect_ms(&call[0], 10);
	expect_ms(&call[1], 4);
	expect_ms(&call[2], 7);
	expect_ms(&call[3], 12);
	close_backend(&world, &backend);
}

static void test_ps_shares(void **state)
{
	weir_backend *backend;
	struct call call[3];
	weir_world *world =
		open_backend(&(weir_backend_options){.discipline = WEIR_BACKEND_PS, .workers = 2}, &backend);
	submit(world, backend, &call[0], 10);
	world_run(world, 4 * WEIR_NS_PER_MS); /* alone: no faster than one worker */
	submit(world, backend, &call[1], 2);
	submit(world, backend, &call[2], 100); /* three on two: at 2/3 */
	world_run(world, 200 * WEIR_NS_PER_MS);
	expect_ms(&call[1], 3);
	expect_ms(&call[0], 4 + 3 + 4);
	expect_ms(&call[2], 101);
	close_backend(&world, &backend);
}

static void test_thrash_slows_all(void **state)
{
	weir_backend *backend;
	struct call call[8];
	weir_backend_options options = {.workers = 8, .thrash_from = 4, .thrash_by = 1};
	weir_world *world = open_backend(&options, &backend);
	for (int i = 0; i < 4; i++)
		submit(world, backend, &call[i], 10);
	world_run(world, 50 * WEIR_NS_PER_MS);
	expect_ms(&call[0], 10); /* up to there no slower */
	for (int i = 0; i < 8; i++)
		submit(world, backend, &call[i], 10);
	world_run(world, 50 * WEIR_NS_PER_MS);
	expect_ms(&call[7], 20); /* 4 more than 4: half as fast */
	close_backend(&world, &backend);
}

static void test_lock_is_held_by_one(void **state)
{
	weir_backend *backend;
	struct call call[4];
	weir_world *world = open_backend(&(weir_backend_options){.workers = 4, .lock = .5}, &backend);
	for (int i = 0; i < 4; i++)
		submit(world, backend, &call[i], 10);
	world_run(world, 100 * WEIR_NS_PER_MS);
	for (int i = 0; i < 4; i++)
		expect_ms(&call[i], 5 + 5 * (i + 1));
	close_backend(&world, &backend);
}

static void test_full_refuses_later_and_not_from_within(void **state)
{
	weir_backend *backend;
	struct call call[3];
	weir_world *world = open_backend(&(weir_backend_options){.workers = 1, .most = 2}, &backend);
	for (int i = 0; i < 3; i++)
		submit(world, backend, &call[i], 10);
	assert_int_equal(call[2].done, 0);
	world_run(world, 100 * WEIR_NS_PER_MS);
	assert_int_equal(call[0].refused + call[1].refused, 0);
	assert_int_equal(call[2].refused, 1);
	expect_ms(&call[2], 0);
	close_backend(&world, &backend);
}

static void test_round_trip_is_added(void **state)
{
	weir_backend *backend;
	struct call call[2];
	weir_backend_options options = {.workers = 1, .most = 1, .round_trip_ns = 6 * WEIR_NS_PER_MS};
	weir_world *world = open_backend(&options, &backend);
	submit(world, backend, &call[0], 10);
	submit(world, backend, &call[1], 10);
	assert_int_equal(weir_backend_inside(backend), 0);
	world_run(world, 4 * WEIR_NS_PER_MS);
	assert_int_equal(weir_backend_inside(backend), 1);
	world_run(world, 100 * WEIR_NS_PER_MS);
	expect_ms(&call[0], 16);
	expect_ms(&call[1], 6); /* refused there, and told here */
	assert_int_equal(call[1].refused, 1);
	close_backend(&world, &backend);
}

static void test_speed_changes_mid_job(void **state)
{
	weir_backend *backend;
	struct call call;
	weir_world *world = open_backend(&(weir_backend_options){.workers = 1}, &backend);
	submit(world, backend, &call, 10);
	world_run(world, 4 * WEIR_NS_PER_MS);
	weir_backend_speed(backend, .5);
	world_run(world, 4 * WEIR_NS_PER_MS); /* 6 of 10 done */
	weir_backend_speed(backend, 0);
	world_run(world, 1000 * WEIR_NS_PER_MS);
	assert_int_equal(call.done, 0);
	weir_backend_speed(backend, 2);
	world_run(world, 10 * WEIR_NS_PER_MS);
	expect_ms(&call, 4 + 4 + 1000 + 2);
	close_backend(&world, &backend);
}

static void expect_abandon(weir_discipline discipline, double lock, int gone)
{
	weir_backend *backend;
	struct call call[5];
	weir_backend_options options = {.discipline = discipline, .workers = 2, .lock = lock};
	weir_world *world = open_backend(&options, &backend);
	for (int i = 0; i < 5; i++)
		submit(world, backend, &call[i], 10 + i);
	world_run(world, 8 * WEIR_NS_PER_MS);
	uint32_t inside = weir_backend_inside(backend);
	weir_backend_abandon(backend, &call[gone].job);
	assert_int_equal(weir_backend_inside(backend), inside - 1);
	weir_backend_abandon(backend, &call[gone].job); /* nothing, the second time */
	assert_int_equal(weir_backend_inside(backend), inside - 1);
	world_run(world, 1000 * WEIR_NS_PER_MS);
	assert_int_equal(weir_backend_inside(backend), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(call[i].done, i != gone);
	close_backend(&world, &backend);
}

/* Waiting, running, holding the lock, waiting for it. */
static void test_abandoned_wherever_it_is(void **state)
{
	for (int gone = 0; gone < 5; gone++)
		for (int lock = 0; lock < 3; lock++)
			for (weir_discipline d = WEIR_BACKEND_FIFO; d <= WEIR_BACKEND_PS; d++)
				expect_abandon(d, lock * .5, gone);
}

static void test_abandoned_on_the_way(void **state)
{
	weir_backend *backend;
	struct call there, back;
	weir_backend_options options = {.workers = 2, .round_trip_ns = 10 * WEIR_NS_PER_MS};
	weir_world *world = open_backend(&options, &backend);
	submit(world, backend, &back, 1);
	world_run(world, 7 * WEIR_NS_PER_MS);
	submit(world, backend, &there, 1);
	world_run(world, WEIR_NS_PER_MS);
	weir_backend_abandon(backend, &there.job);
	weir_backend_abandon(backend, &back.job);
	world_run(world, 100 * WEIR_NS_PER_MS);
	assert_int_equal(there.done + back.done, 0);
	assert_int_equal(weir_backend_inside(backend), 0);
	close_backend(&world, &backend);
}

/* Thousands inside, each event of which may cost no more than a heap does: this would take minutes otherwise. */
static void test_many_inside(void **state)
{
	enum { MANY = 30000 };
	weir_backend *backend;
	struct call *call = calloc(MANY, sizeof(*call));
	weir_world *world =
		open_backend(&(weir_backend_options){.discipline = WEIR_BACKEND_PS, .workers = 1}, &backend);
	for (int i = 0; i < MANY; i++)
		submit(world, backend, &call[i], 1 + i % 1000);
	world_run(world, 30000 * WEIR_NS_PER_S);
	assert_int_equal(weir_backend_inside(backend), 0);
	expect_ms(&call[0], MANY);
	for (int i = 1; i < 1000; i++)
		assert_true(call[i].done_ns > call[i - 1].done_ns);
	free(call);
	close_backend(&world, &backend);
}

/* Two of three go while three run: those share the one that is left, and then one runs at a time. They come back: all that wait begin. */
static void test_workers_go_and_come_back(void **state)
{
	weir_backend *backend;
	weir_world *world = open_backend(&(weir_backend_options){.workers = 3}, &backend);
	struct call call[6];
	for (int i = 0; i < 6; i++)
		submit(world, backend, &call[i], 10);
	weir_sim_run(world, weir_world_now(world) + 4 * WEIR_NS_PER_MS);
	weir_backend_workers(backend, 1);
	weir_sim_run(world, weir_world_now(world) + 23 * WEIR_NS_PER_MS);
	for (int i = 0; i < 3; i++)
		expect_ms(&call[i], 4 + 3 * 6);
	expect_ms(&call[3], -1);
	weir_backend_workers(backend, 3);
	weir_sim_run(world, weir_world_now(world) + 20 * WEIR_NS_PER_MS);
	expect_ms(&call[3], 32);
	expect_ms(&call[4], 37);
	expect_ms(&call[5], 37);
	assert_true(fabs(weir_backend_worked(backend) - 60 * MS) < 1);
	close_backend(&world, &backend);
}

/* What is below a quantile is that quantile's fraction; of those that jump, at least. */
static void test_below_is_the_quantiles_inverse(void **state)
{
	for (unsigned kind = 0; kind < WEIR_DIST_KINDS; kind++) {
		const weir_dist dist = {.kind = (weir_dist_kind)kind, .mean = 7};
		bool jumps = kind == WEIR_DIST_DETERMINISTIC || kind == WEIR_DIST_BIMODAL;
		for (double q = .05; q < 1; q += .1) {
			double below = weir_dist_below(&dist, weir_dist_quantile(&dist, q));
			assert_true(jumps ? below >= q - 1e-9 : fabs(below - q) < 1e-9);
		}
		assert_true(weir_dist_below(&dist, 0) == 0);
		assert_true(weir_dist_below(&dist, 1e9) > 1 - 1e-9);
	}
}

static void test_nonsense_is_refused(void **state)
{
	weir_backend *backend = NULL;
	weir_world *world = world_virtual(1);
	static const weir_backend_options wrong[] = {{.workers = 0},
						     {.workers = 1, .lock = 1.5},
						     {.workers = 1, .lock = NAN},
						     {.workers = 1, .thrash_by = -1}};
	for (int i = 0; i < 4; i++)
		assert_int_equal(weir_backend_new(world, &wrong[i], &backend), -22);
	assert_null(backend);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fifo_is_m_m_c),
		cmocka_unit_test(test_fifo_is_pollaczek_khinchine),
		cmocka_unit_test(test_ps_is_insensitive),
		cmocka_unit_test(test_ps_of_many_has_the_mean_of_m_m_c),
		cmocka_unit_test(test_same_seed_same_ends),
		cmocka_unit_test(test_fifo_in_order),
		cmocka_unit_test(test_ps_shares),
		cmocka_unit_test(test_thrash_slows_all),
		cmocka_unit_test(test_lock_is_held_by_one),
		cmocka_unit_test(test_full_refuses_later_and_not_from_within),
		cmocka_unit_test(test_round_trip_is_added),
		cmocka_unit_test(test_speed_changes_mid_job),
		cmocka_unit_test(test_workers_go_and_come_back),
		cmocka_unit_test(test_below_is_the_quantiles_inverse),
		cmocka_unit_test(test_abandoned_wherever_it_is),
		cmocka_unit_test(test_abandoned_on_the_way),
		cmocka_unit_test(test_many_inside),
		cmocka_unit_test(test_nonsense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
