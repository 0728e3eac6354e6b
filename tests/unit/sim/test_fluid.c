/* SPDX-License-Identifier: Apache-2.0 */
/* The ideal link: small cases by hand, closed forms of queueing theory, and what every policy must keep. */
#include "support/check.h"

#include <errno.h>
#include <math.h>

#include <weir/random.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/fluid.h"

#define JOBS 200000

static const weir_fluid_link fair = {.policy = WEIR_FLUID_FAIR, .bytes_per_s = 100};
static const weir_fluid_link srpt = {.policy = WEIR_FLUID_SRPT, .bytes_per_s = 100};
static const weir_fluid_link classes = {
	.policy = WEIR_FLUID_CLASSES, .bytes_per_s = 100, .cutoff = {50, 150}, .cutoffs = 2};

static void expect_done(const weir_fluid_link *link, const weir_fluid_job *jobs, size_t count,
			const double *expected)
{
	double done_s[8];
	assert_int_equal(weir_fluid_run(link, jobs, count, done_s), 0);
	for (size_t i = 0; i < count; i++)
		if (fabs(done_s[i] - expected[i]) > 1e-9)
			fail_msg("job %zu is done at %g, not at %g", i, done_s[i], expected[i]);
}

/* ---- by hand ---- */

static void sharing(void **state)
{
	/* The second comes when 100 of the first are left; both then have 50 a second. */
	const weir_fluid_job jobs[] = {{0, 200}, {1, 50}, {10, 100}};
	expect_done(&fair, jobs, 3, (double[]){2.5, 2, 11});
}

static void shortest_first(void **state)
{
	/* The small one interrupts; the one of equal size does not. */
	const weir_fluid_job jobs[] = {{0, 200}, {1, 50}, {1, 100}, {10, 100}};
	expect_done(&srpt, jobs, 4, (double[]){2.5, 1.5, 3.5, 11});
}

static void few_classes(void **state)
{
	/* At 1 s 200 bytes of the first are left, which wait until the second has gone through two classes. */
	const weir_fluid_job jobs[] = {{0, 300}, {1, 100}};
	expect_done(&classes, jobs, 2, (double[]){4, 2});
	/* Two of the same class share it, and share the classes below. */
	const weir_fluid_job equals[] = {{0, 100}, {0, 100}};
	expect_done(&classes, equals, 2, (double[]){2, 2});
}

static void a_class_alone_is_fair(void **state)
{
	const weir_fluid_link one = {.policy = WEIR_FLUID_CLASSES, .bytes_per_s = 100};
	const weir_fluid_job jobs[] = {{0, 200}, {1, 50}, {10, 100}};
	expect_done(&one, jobs, 3, (double[]){2.5, 2, 11});
}

static void the_most_at_once(void **state)
{
	const weir_fluid_job jobs[] = {{0, 200}, {1, 50}, {2, 100}};
	double done_s[3];
	assert_int_equal(weir_fluid_run(&fair, jobs, 3, done_s), 0);
	/* The second is gone when the third comes. */
	assert_int_equal(weir_fluid_most(jobs, done_s, 3), 2);
	assert_int_equal(weir_fluid_most(jobs, done_s, 0), 0);
}

static void what_is_wrong_is_refused(void **state)
{
	double done_s[2] = {-1, -1};
	const weir_fluid_job good[] = {{0, 1}, {1, 1}};
	const weir_fluid_job bad[][2] = {{{1, 1}, {0, 1}},
					 {{-1, 1}, {0, 1}},
					 {{0, 0}, {1, 1}},
					 {{0, NAN}, {1, 1}},
					 {{0, 1}, {INFINITY, 1}}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(weir_fluid_run(&fair, bad[i], 2, done_s), -EINVAL);
	weir_fluid_link link = {.policy = WEIR_FLUID_FAIR};
	assert_int_equal(weir_fluid_run(&link, good, 2, done_s), -EINVAL);
	link = (weir_fluid_link){
		.policy = WEIR_FLUID_CLASSES, .bytes_per_s = 1, .cutoff = {2, 2}, .cutoffs = 2};
	assert_int_equal(weir_fluid_run(&link, good, 2, done_s), -EINVAL);
	link.cutoffs = WEIR_FLUID_CUTOFFS + 1;
	assert_int_equal(weir_fluid_run(&link, good, 2, done_s), -EINVAL);
	assert_int_equal(weir_fluid_run(&fair, good, (size_t)WEIR_FLUID_JOBS + 1, done_s), -EINVAL);
	assert_int_equal(weir_fluid_run(&fair, good, 0, done_s), 0);
	assert_true(done_s[0] == -1 && done_s[1] == -1);
}

static void no_memory(void **state)
{
	const weir_fluid_link *links[] = {&fair, &srpt, &classes};
	static weir_fluid_job jobs[100];
	double done_s[100];
	for (unsigned i = 0; i < 100; i++)
		jobs[i] = (weir_fluid_job){0, 200};
	for (unsigned l = 0; l < 3; l++) {
		for (uint64_t nth = 1;; nth++) {
			weir_mem_fail_after(nth);
			int failed = weir_fluid_run(links[l], jobs, 100, done_s);
			weir_mem_fail_after(0);
			if (failed == 0)
				break;
			assert_int_equal(failed, -ENOMEM);
			assert_true(nth < 20);
		}
	}
}

/* ---- theory ---- */

typedef struct trace {
	weir_fluid_job job[JOBS];
	double done_s[JOBS];
} trace;

/* Poisson arrivals at this load; exponential sizes with mean 1, on a link of 1 byte a second. */
static void make_markov(trace *of, double load, uint64_t seed)
{
	weir_random random;
	double now_s = 0;
	weir_random_init(&random, seed);
	for (unsigned i = 0; i < JOBS; i++) {
		now_s += weir_random_exponential(&random, 1 / load);
		of->job[i] = (weir_fluid_job){now_s, weir_random_exponential(&random, 1) + 1e-12};
	}
}

static double mean_response(const trace *of)
{
	double sum = 0;
	for (unsigned i = 0; i < JOBS; i++)
		sum += of->done_s[i] - of->job[i].at_s;
	return sum / JOBS;
}

/* Load of the jobs below x, and of the second moment of all, cut at x; exponential sizes with mean 1. */
static double load_below(double load, double x)
{
	return load * (1 - exp(-x) * (1 + x));
}

static double residual_below(double load, double x)
{
	return load * (2 - 2 * exp(-x) * (1 + x)) / 2;
}

/*
 * Schrage and Miller, 1966: a job of size x waits load * E[min(S, x)^2] / 2 / (1 - load below x)^2, and is
 * then served in the integral of 1 / (1 - load below t) over t up to x.
 */
static double srpt_theory(double load)
{
	const double step = 1e-3, most = 40;
	double served = 0, sum = 0;
	for (double x = step / 2; x < most; x += step) {
		double free = 1 - load_below(load, x);
		served += step / (1 - load_below(load, x));
		sum += step * exp(-x) * (residual_below(load, x) / (free * free) + served);
	}
	return sum;
}

static void as_theory_says(void **state)
{
	static trace of;
	const weir_fluid_link one_fair = {.policy = WEIR_FLUID_FAIR, .bytes_per_s = 1};
	const weir_fluid_link one_srpt = {.policy = WEIR_FLUID_SRPT, .bytes_per_s = 1};
	const double loads[] = {0.3, 0.5, 0.8};
	for (unsigned l = 0; l < 3; l++) {
		double shared = 0, shortest = 0, theory = 1 / (1 - loads[l]);
		const unsigned seeds = 4;
		for (uint64_t seed = 1; seed <= seeds; seed++) {
			make_markov(&of, loads[l], seed);
			assert_int_equal(weir_fluid_run(&one_fair, of.job, JOBS, of.done_s), 0);
			shared += mean_response(&of) / seeds;
			assert_int_equal(weir_fluid_run(&one_srpt, of.job, JOBS, of.done_s), 0);
			shortest += mean_response(&of) / seeds;
		}
		if (fabs(shared / theory - 1) > 0.02)
			fail_msg("load %g: FAIR's mean is %g, theory says %g", loads[l], shared, theory);
		if (fabs(shortest / srpt_theory(loads[l]) - 1) > 0.02)
			fail_msg("load %g: SRPT's mean is %g, theory says %g", loads[l], shortest,
				 srpt_theory(loads[l]));
	}
}

/* ---- properties ---- */

static double last_of(const trace *of)
{
	double last = 0;
	for (unsigned i = 0; i < JOBS; i++)
		last = fmax(last, of->done_s[i]);
	return last;
}

/* Overload: SRPT is the best, classes are between, and all of them are done at the same time. */
static void policies_in_order(void **state)
{
	static trace of;
	const weir_fluid_link links[] = {
		{.policy = WEIR_FLUID_SRPT, .bytes_per_s = 1},
		{.policy = WEIR_FLUID_CLASSES, .bytes_per_s = 1, .cutoff = {.2, .5, 1, 2, 4}, .cutoffs = 5},
		{.policy = WEIR_FLUID_FAIR, .bytes_per_s = 1}};
	for (uint64_t seed = 1; seed <= check_seeds(2, 20); seed++) {
		double before = 0, end_s = 0;
		make_markov(&of, 1.2, seed);
		for (unsigned l = 0; l < 3; l++) {
			assert_int_equal(weir_fluid_run(&links[l], of.job, JOBS, of.done_s), 0);
			for (unsigned i = 0; i < JOBS; i++)
				assert_for_seed(seed, of.done_s[i] >=
							      of.job[i].at_s + of.job[i].bytes * (1 - 1e-6));
			assert_for_seed(seed, mean_response(&of) > before);
			before = mean_response(&of);
			assert_for_seed(seed, l == 0 || fabs(last_of(&of) / end_s - 1) < 1e-9);
			end_s = last_of(&of);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(sharing),           CHECK_TEST(shortest_first),
		CHECK_TEST(few_classes),       CHECK_TEST(a_class_alone_is_fair),
		CHECK_TEST(the_most_at_once),  CHECK_TEST(what_is_wrong_is_refused),
		CHECK_TEST(no_memory),         CHECK_TEST(as_theory_says),
		CHECK_TEST(policies_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
