/* SPDX-License-Identifier: Apache-2.0 */
/* The gauge against a simulated server whose queue, rate and times are known. */
#include "support/unit.h"

#include <math.h>
#include <weir/random.h>

#include "http/gauge.h"

#define STEP_S .001

/* One worker; requests come at random and take their processor time and their I/O time. */
typedef struct toy {
	weir_random random;
	double now_s, cpu_s, io_s, rate; /* of a request; per second */
	double left_s;                   /* of the request in service */
	double arrived_s[4096];          /* of those that wait: a ring */
	unsigned from, to;
	double requests, cpu_total_s, waited_s, served;
} toy;

static void step(toy *t)
{
	t->now_s += STEP_S;
	if (weir_random_unit(&t->random) < t->rate * STEP_S) {
		t->arrived_s[t->to++ % 4096] = t->now_s;
		t->requests++;
	}
	t->left_s -= STEP_S;
	if (t->left_s <= 0 && t->from != t->to) {
		t->waited_s += t->now_s - t->arrived_s[t->from++ % 4096];
		t->served++;
		t->left_s = t->cpu_s + t->io_s;
	}
	if (t->left_s > t->io_s)
		t->cpu_total_s += STEP_S;
}

static weir_gauge_sample sample_of(const toy *t)
{
	unsigned waiting = t->to - t->from;
	return (weir_gauge_sample){.now_ns = (uint64_t)(t->now_s * 1e9),
				   .waiting = waiting,
				   .oldest_s = waiting > 0 ? t->now_s - t->arrived_s[t->from % 4096] : 0,
				   .in_service = t->left_s > 0,
				   .requests = t->requests,
				   .cpu_total_s = t->cpu_total_s,
				   .processors = 1,
				   .self_cpu_s = .001 * t->now_s};
}

/* The mean of the reported delay over so many seconds. */
static double run(toy *t, weir_gauge *gauge, double for_s)
{
	double sum_s = 0, until_s = t->now_s + for_s, next_s = t->now_s;
	unsigned count = 0;
	while (t->now_s < until_s) {
		step(t);
		if (t->now_s < next_s)
			continue;
		next_s += .1;
		weir_gauge_sample sample = sample_of(t);
		weir_nucleus_report report;
		weir_gauge_add(gauge, &sample);
		weir_gauge_report(gauge, sample.now_ns, &report);
		if (report.queue_s >= 0) {
			sum_s += report.queue_s;
			count++;
		}
	}
	return sum_s / count;
}

static void knows_queue_and_service(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static toy t;
		weir_gauge gauge;
		weir_nucleus_report report;
		t = (toy){.cpu_s = .005, .io_s = .015, .rate = 40};
		weir_random_init(&t.random, seed);
		weir_gauge_init(&gauge, .1, 1);
		double queue_s = run(&t, &gauge, 200), truth_s = t.waited_s / t.served;
		assert_for_seed(seed, fabs(queue_s - truth_s) < .2 * truth_s + .002);
		weir_gauge_report(&gauge, (uint64_t)(t.now_s * 1e9), &report);
		assert_for_seed(seed, fabs(report.cpu_s - .005) < .001);
		assert_for_seed(seed, fabs(report.service_s - .020) < .004);
		assert_for_seed(seed, fabs(report.self_cpu - .001) < 1e-4);
		assert_for_seed(seed, report.processors == 1 && report.busy > .1 && report.busy < .4);
	}
}

static void rests(void **state)
{
	static toy t;
	weir_gauge gauge;
	weir_nucleus_report report;
	weir_gauge_init(&gauge, .1, 1);
	weir_gauge_report(&gauge, 0, &report);
	assert_true(report.queue_s < 0 && report.age_s < 0 && report.alpha == 1);
	t = (toy){.cpu_s = .005, .io_s = .015};
	weir_random_init(&t.random, 1);
	assert_true(run(&t, &gauge, 5) == 0);
	weir_gauge_report(&gauge, (uint64_t)(t.now_s * 1e9), &report);
	assert_true(report.queue_s == 0 && report.rate_per_s == 0 && report.busy == 0);
	assert_true(report.cpu_s < 0 && report.io_s < 0 && report.service_s < 0);
}

/* Under load, time in service is not I/O: what was learnt before is kept. */
static void keeps_io_under_load(void **state)
{
	static toy t;
	weir_gauge gauge;
	weir_nucleus_report report;
	t = (toy){.cpu_s = .018, .io_s = .002, .rate = 10};
	weir_random_init(&t.random, 1);
	weir_gauge_init(&gauge, .1, 1);
	run(&t, &gauge, 60);
	weir_gauge_report(&gauge, 0, &report);
	double io_s = report.io_s;
	assert_true(io_s >= 0);
	t.rate = 45;
	run(&t, &gauge, 3); /* until the means have followed */
	weir_gauge_report(&gauge, 0, &report);
	io_s = report.io_s;
	run(&t, &gauge, 20);
	weir_gauge_report(&gauge, 0, &report);
	assert_true(report.busy > .7);
	assert_true(report.io_s == io_s);
}

/* Neighbours take the processors: few are in use, but time in service is no I/O. */
static void keeps_io_while_it_is_starved(void **state)
{
	weir_gauge gauge;
	weir_nucleus_report report;
	weir_gauge_sample sample = {.now_ns = WEIR_NS_PER_S, .processors = 1};
	weir_gauge_init(&gauge, .1, 1);
	for (unsigned i = 0; i < 600; i++) {
		bool starved = i >= 300;
		sample.now_ns += 100 * WEIR_NS_PER_MS;
		sample.requests += 1;
		sample.cpu_total_s += .02;
		sample.in_service = starved ? 5 : .5;
		sample.cpu_delay_s += starved ? .08 : 0;
		weir_gauge_add(&gauge, &sample);
	}
	weir_gauge_report(&gauge, sample.now_ns, &report);
	assert_true(report.busy > .19 && report.busy < .21 && report.in_service > 4.9);
	/* .5 in service at 10 a second are 50 ms, of which 20 ms are processor time. The first moments of
	 * starving count, too: until the means have followed. */
	assert_true(report.io_s > .028 && report.io_s < .06);
}

/*
 * A service at 0.29 of a processor whose processes are read every third look, so that their time comes in
 * lumps, and whose requests take 30 ms, of which they wait 2 for a processor.
 */
static weir_gauge_sample lumpy_sample(weir_random *random, weir_gauge_sample sample, unsigned look)
{
	double requests = 0;
	for (unsigned i = 0; i < 100; i++)
		requests += weir_random_unit(random) < .035;
	sample.now_ns += 100 * WEIR_NS_PER_MS;
	sample.requests += requests;
	sample.in_service = requests > 3 ? 2 : .4; /* few are seen at a look */
	if (look % 3 == 0) {
		sample.cpu_total_s += .0085 * (sample.requests - sample.self_cpu_s);
		sample.cpu_delay_s += .002 * (sample.requests - sample.self_cpu_s);
		sample.self_cpu_s = sample.requests; /* those whose processor time was read */
	}
	return sample;
}

/* Answers that are timed say what looks at those in service cannot, and no sample is left out for its lump. */
static void times_answers(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		weir_gauge gauge;
		weir_random random;
		weir_nucleus_report report;
		weir_gauge_sample sample = {.now_ns = WEIR_NS_PER_S, .processors = 1};
		weir_random_init(&random, seed);
		weir_gauge_init(&gauge, .1, 1);
		for (unsigned i = 0; i < 100; i++) {
			sample = lumpy_sample(&random, sample, i);
			sample.answers = sample.requests;
			sample.took_s = .030 * sample.answers;
			weir_gauge_add(&gauge, &sample);
		}
		weir_gauge_report(&gauge, sample.now_ns, &report);
		assert_for_seed(seed, fabs(report.service_s - .028) < .002);
		assert_for_seed(seed, fabs(report.io_s - .0195) < .002);
	}
}

/* Requests that were missed make the rate too low; the age of the oldest bounds what follows from it. */
static void is_bounded_by_ages(void **state)
{
	weir_gauge gauge;
	weir_nucleus_report report;
	weir_gauge_init(&gauge, .1, 1);
	for (unsigned i = 0; i < 100; i++)
		weir_gauge_add(&gauge, &(weir_gauge_sample){.now_ns = (i + 1) * UINT64_C(100000000),
							    .waiting = 10,
							    .oldest_s = .1,
							    .in_service = 1,
							    .requests = i * .1,
							    .cpu_total_s = -1,
							    .processors = -1});
	weir_gauge_report(&gauge, 0, &report);
	assert_true(report.queue_s >= .1 && report.queue_s < .31);
	assert_true(report.busy < 0 && report.cpu_s < 0);
}

/* A server that is restarted counts anew; time that goes back is ignored. */
static void survives_odd_samples(void **state)
{
	weir_gauge gauge;
	weir_nucleus_report report;
	weir_gauge_sample sample = {
		.now_ns = 1000000000, .requests = 1e9, .cpu_total_s = 1e6, .processors = 2};
	weir_gauge_init(&gauge, .1, 1);
	weir_gauge_add(&gauge, &sample);
	sample.now_ns += 100000000;
	sample.requests = sample.cpu_total_s = 0;
	weir_gauge_add(&gauge, &sample);
	weir_gauge_add(&gauge, &sample);
	sample.now_ns -= 50000000;
	weir_gauge_add(&gauge, &sample);
	weir_gauge_report(&gauge, 0, &report);
	assert_true(report.rate_per_s == 0 && report.busy == 0 && report.age_s == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_queue_and_service), cmocka_unit_test(rests),
		cmocka_unit_test(keeps_io_under_load),     cmocka_unit_test(keeps_io_while_it_is_starved),
		cmocka_unit_test(times_answers),           cmocka_unit_test(is_bounded_by_ages),
		cmocka_unit_test(survives_odd_samples),
	};
	return cmocka_run_group_tests_name("gauge", tests, NULL, NULL);
}
