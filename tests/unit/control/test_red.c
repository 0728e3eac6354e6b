/* SPDX-License-Identifier: Apache-2.0 */
#include "on_law.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weir/random.h>

/* Offers at a queue that always has this length, until the average is there. */
static void settle_at(on_law *r, uint32_t waiting)
{
	r->waiting = waiting;
	for (int i = 0; i < 20000; i++)
		on_law_admit(r, 1);
}

static void test_below_min_all_come_in(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "min_threshold", "5", "max_threshold", "15");
	r.waiting = 4;
	for (int i = 0; i < 20000; i++)
		assert_int_equal(on_law_admit(&r, 1), WEIR_ADMITTED);
	assert_true(fabs(on_law_value(&r, "average") - 4) < .01);
	assert_false(on_law_report(&r).shedding);
	on_law_close(&r);
}

/* A burst passes: the average has hardly seen it. */
static void test_a_burst_passes(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "weight", "0.002");
	for (r.waiting = 1; r.waiting < 40; r.waiting++)
		assert_int_equal(on_law_admit(&r, 1), WEIR_ADMITTED);
	on_law_close(&r);
}

/* The average by its definition, offers of many included. */
static void test_the_average(void **state)
{
	on_law r;
	weir_random random;
	double average = 0;
	weir_random_init(&random, 3);
	ON_LAW(&r, &weir_law_red, "weight", "0.02", "max_threshold", "1000", "min_threshold", "900");
	for (int i = 0; i < 1000; i++) {
		uint32_t count = 1 + (uint32_t)weir_random_below(&random, 3);
		r.waiting = 1 + (uint32_t)weir_random_below(&random, 50);
		on_law_admit(&r, count);
		for (uint32_t k = 0; k < count; k++)
			average += .02 * (r.waiting - average);
		assert_true(fabs(on_law_value(&r, "average") - average) < 1e-9);
	}
	on_law_close(&r);
}

/*
 * With the average at rest the number of offers from one refusal to the next is uniform on 1 .. 1/p: its mean is half of that, none
 * is longer, and all lengths are about equally frequent.
 */
static void check_spacing(const char *max_p, uint32_t waiting, double p)
{
	enum { REFUSALS = 20000 };
	on_law r;
	unsigned longest = (unsigned)ceil(1 / p - 1e-9), gap = 0, refusals = 0, frequent[200] = {0};
	double sum = 0;
	ON_LAW(&r, &weir_law_red, "min_threshold", "10", "max_threshold", "30", "max_p", max_p, "weight",
	       "0.01");
	settle_at(&r, waiting);
	assert_true(fabs(on_law_value(&r, "chance") - p) < 1e-6);
	while (on_law_admit(&r, 1) == WEIR_ADMITTED)
		;
	while (refusals < REFUSALS) {
		gap++;
		if (on_law_admit(&r, 1) == WEIR_ADMITTED)
			continue;
		assert_true(gap <= longest);
		frequent[gap]++;
		sum += gap;
		gap = 0;
		refusals++;
	}
	assert_true(fabs(sum / REFUSALS - (longest + 1) / 2.0) < .02 * longest);
	for (unsigned i = 1; i <= longest; i++)
		assert_true(fabs(frequent[i] * p / REFUSALS - p * p) < .25 * p * p);
	on_law_close(&r);
}

static void test_refusals_are_spaced_evenly(void **state)
{
	check_spacing("0.1", 20, .05);
	check_spacing("0.1", 15, .025);
	check_spacing("0.2", 30, .2);
}

static double refused_at(uint32_t waiting, const char *gentle)
{
	on_law r;
	unsigned refused = 0;
	ON_LAW(&r, &weir_law_red, "min_threshold", "10", "max_threshold", "30", "max_p", "0.1", "gentle",
	       gentle);
	settle_at(&r, waiting);
	for (int i = 0; i < 50000; i++)
		refused += on_law_admit(&r, 1) != WEIR_ADMITTED;
	on_law_close(&r);
	return refused / 5e4;
}

/* Uniform spacing on 1 .. 1/p refuses 2p / (1 + p) of the offers. */
static double expected(double p)
{
	return 2 * p / (1 + p);
}

static void test_gentle(void **state)
{
	assert_true(fabs(refused_at(29, "on") - expected(.095)) < .01);
	assert_true(fabs(refused_at(29, "off") - expected(.095)) < .01);
	assert_true(refused_at(31, "off") == 1);
	assert_true(refused_at(31, "on") < .3);
	assert_true(fabs(refused_at(45, "on") - .67) < .08); /* p = .55: spaced on 1 and 2 */
	assert_true(refused_at(60, "on") == 1);
	assert_true(refused_at(60, "off") == 1);
}

/* A queue that has been idle for the time of m events is one that m events found empty. */
static void test_idle_time_counts(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "weight", "0.01", "min_threshold", "100", "max_threshold", "200");
	settle_at(&r, 50);
	for (int i = 0; i < 2000; i++) { /* starts 1 ms apart, others waiting */
		r.now_ns += WEIR_NS_PER_MS;
		on_law_start(&r, r.now_ns);
	}
	r.waiting = 0;
	double before = on_law_value(&r, "average");
	r.now_ns += 100 * WEIR_NS_PER_MS + WEIR_NS_PER_MS / 2;
	on_law_admit(&r, 1);
	assert_true(fabs(on_law_value(&r, "average") - before * pow(.99, 101)) < 1e-3 * before);
	/* The same time does not count twice. */
	before = on_law_value(&r, "average");
	on_law_admit(&r, 1);
	assert_true(fabs(on_law_value(&r, "average") - before * .99) < 1e-9);
	/* Nor for ever, however long it was. */
	r.now_ns += 1000000 * WEIR_NS_PER_S;
	on_law_admit(&r, 1);
	assert_true(on_law_value(&r, "average") >= 0 && on_law_value(&r, "average") < 1e-9);
	on_law_close(&r);
}

/* One that leaves by itself ends the idle time like one that starts. */
static void test_gone_ends_idle_time(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "weight", "0.01", "min_threshold", "100", "max_threshold", "200");
	r.waiting = 1;
	for (int i = 0; i < 2000; i++) {
		r.now_ns += WEIR_NS_PER_MS;
		on_law_start(&r, r.now_ns);
	}
	settle_at(&r, 50);
	double before = on_law_value(&r, "average");
	r.now_ns += 100 * WEIR_NS_PER_MS;
	on_law_gone(&r, r.now_ns);
	r.waiting = 0;
	on_law_admit(&r, 1);
	assert_true(fabs(on_law_value(&r, "average") - before * .99) < 1e-9);
	on_law_close(&r);
}

/* Thresholds from a target: three quarters of it, in events. Before anything is measured they are as given. */
static void test_target(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "p90", "200ms", "min_threshold", "7");
	assert_true(on_law_value(&r, "min") == 7 && on_law_value(&r, "max") == 15);
	r.waiting = 10;
	for (int i = 0; i < 3000; i++) {
		r.now_ns += 2 * WEIR_NS_PER_MS;
		on_law_start(&r, r.now_ns);
	}
	assert_true(fabs(on_law_value(&r, "max") - 37.5) < .1 && fabs(on_law_value(&r, "min") - 12.5) < .1);
	assert_int_equal(on_law_report(&r).target_ns, 200 * WEIR_NS_PER_MS);
	/* Time in which nobody waits says nothing about the service. */
	r.waiting = 0;
	r.now_ns += 2 * WEIR_NS_PER_MS;
	on_law_start(&r, r.now_ns);
	for (int i = 0; i < 100; i++) {
		r.now_ns += WEIR_NS_PER_S;
		on_law_start(&r, r.now_ns);
	}
	assert_true(fabs(on_law_value(&r, "max") - 37.5) < .1);
	on_law_close(&r);
}

static void test_the_same_seed_is_the_same_run(void **state)
{
	on_law a, b, other;
	unsigned different = 0;
	ON_LAW(&a, &weir_law_red, "seed", "7");
	ON_LAW(&b, &weir_law_red, "seed", "7");
	ON_LAW(&other, &weir_law_red, "seed", "8");
	a.waiting = b.waiting = other.waiting = 12;
	for (int i = 0; i < 20000; i++) {
		weir_verdict verdict = on_law_admit(&a, 1);
		assert_int_equal(verdict, on_law_admit(&b, 1));
		different += verdict != on_law_admit(&other, 1);
	}
	assert_true(different > 100);
	on_law_close(&a);
	on_law_close(&b);
	on_law_close(&other);
}

static void test_explains_itself(void **state)
{
	on_law r;
	ON_LAW(&r, &weir_law_red, "target", "100ms");
	r.waiting = 10;
	for (int i = 0; i < 3000; i++) {
		r.now_ns += WEIR_NS_PER_MS;
		on_law_start(&r, r.now_ns);
	}
	settle_at(&r, 100);
	assert_int_equal(on_law_admit(&r, 1), WEIR_SHED_THRESHOLD);
	weir_why why = on_law_explain(&r, WEIR_SHED_THRESHOLD, 1);
	assert_int_equal(why.target_ns, 100 * WEIR_NS_PER_MS);
	assert_in_range(why.estimate_ns, 99 * WEIR_NS_PER_MS, 101 * WEIR_NS_PER_MS);
	assert_in_range(why.retry_after_ns, 80 * WEIR_NS_PER_MS, 95 * WEIR_NS_PER_MS);
	assert_true(on_law_report(&r).shedding);
	on_law_close(&r);
}

static void test_saves_and_loads(void **state)
{
	on_law a, b;
	char text[64];
	static const char *const wrong[] = {"", "gap=", "gap=5", "gap=-1s", "limit=5", "gap=1s 2s"};
	ON_LAW(&a, &weir_law_red, "p90", "200ms");
	ON_LAW(&b, &weir_law_red, "p90", "400ms");
	a.waiting = 10;
	for (int i = 0; i < 3000; i++) {
		a.now_ns += 2 * WEIR_NS_PER_MS;
		on_law_start(&a, a.now_ns);
	}
	int length = weir_law_red.save(a.state, text, sizeof(text));
	assert_string_equal(text, "gap=2ms");
	assert_int_equal(weir_law_red.save(a.state, NULL, 0), length);
	assert_int_equal(weir_law_red.load(b.state, text), 0);
	assert_true(fabs(on_law_value(&b, "max") - 75) < .1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(weir_law_red.load(b.state, wrong[i]), -EINVAL);
	assert_true(fabs(on_law_value(&b, "max") - 75) < .1);
	on_law_close(&a);
	on_law_close(&b);
}

static void test_bad_parameters(void **state)
{
	ON_LAW_REFUSES(&weir_law_red, "max_threshold", "min_threshold", "20", "max_threshold", "10");
	ON_LAW_REFUSES(&weir_law_red, "max_p", "max_p", "0");
	ON_LAW_REFUSES(&weir_law_red, "weight", "weight", "0");
	assert_int_equal(weir_law_check(&weir_law_red, NULL), 0);
}

#define THREADS 4
static on_law crowded;

static void *offer_many_times(void *arg)
{
	weir_ask ask = {.now_ns = 5, .count = 1, .waiting = 20};
	for (int i = 0; i < 20000; i++)
		*(unsigned *)arg += weir_law_red.admit(crowded.state, &ask) != WEIR_ADMITTED;
	return NULL;
}

/* Several threads share one generator and one count: together they are refused as one would be. */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	unsigned refused[THREADS] = {0}, sum = 0;
	ON_LAW(&crowded, &weir_law_red, "min_threshold", "10", "max_threshold", "30", "max_p", "0.1");
	settle_at(&crowded, 20);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, offer_many_times, &refused[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		sum += refused[i];
	}
	assert_true(fabs(sum / 8e4 - expected(.05)) < .02);
	on_law_close(&crowded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below_min_all_come_in),
		cmocka_unit_test(test_a_burst_passes),
		cmocka_unit_test(test_the_average),
		cmocka_unit_test(test_refusals_are_spaced_evenly),
		cmocka_unit_test(test_gentle),
		cmocka_unit_test(test_idle_time_counts),
		cmocka_unit_test(test_gone_ends_idle_time),
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_the_same_seed_is_the_same_run),
		cmocka_unit_test(test_explains_itself),
		cmocka_unit_test(test_saves_and_loads),
		cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests_name("red", tests, NULL, NULL);
}
