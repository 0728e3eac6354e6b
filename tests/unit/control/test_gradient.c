/* SPDX-License-Identifier: Apache-2.0 */
#include "on_law.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define MS WEIR_NS_PER_MS

static uint32_t limit_of(const on_law *g)
{
	return on_law_report(g).limit;
}

/* Takes all of the limit, and gives it back after this long. Returns how many that were. */
static uint32_t fill(on_law *g, uint64_t response_ns)
{
	uint32_t count = 0;
	while (on_law_admit(g, 1) == WEIR_ADMITTED)
		count++;
	g->now_ns += response_ns;
	for (uint32_t i = 0; i < count; i++)
		on_law_settle(g, g->now_ns - response_ns, WEIR_DONE);
	return count;
}

/* A window in which `count` events end after this long, and so many are inside at most. */
static void window(on_law *g, uint32_t inside, uint32_t count, uint64_t response_ns, weir_outcome outcome)
{
	for (uint32_t i = 0; i < inside; i++)
		assert_int_equal(on_law_admit(g, 1), WEIR_ADMITTED);
	for (uint32_t i = 0; i < inside; i++)
		on_law_settle(g, g->now_ns, WEIR_FAILED);
	for (uint32_t i = 0; i < count; i++)
		on_law_settle(g, g->now_ns - response_ns, outcome);
	on_law_tick(g, WEIR_NS_PER_S);
}

static void test_the_limit_bounds_those_inside(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "25");
	assert_int_equal(fill(&g, MS), 25);
	assert_int_equal(fill(&g, MS), 25);
	assert_int_equal(on_law_admit(&g, 25), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&g, 1), WEIR_SHED_LIMIT);
	on_law_refund(&g, 25);
	assert_int_equal(on_law_admit(&g, 26), WEIR_SHED_LIMIT);
	assert_int_equal(on_law_admit(&g, 1), WEIR_ADMITTED);
	on_law_gone(&g, g.now_ns);
	assert_true(on_law_value(&g, "inside") == 0);
	g.waiting = 20;
	g.in_service = 5;
	assert_int_equal(on_law_admit(&g, 1), WEIR_SHED_LIMIT);
	on_law_close(&g);
}

/* limit + smoothing * (limit * gradient + headroom * root(limit) - limit), number for number. */
static void check_step(uint64_t response_ns, double gradient)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "400", "aim", "1", "smoothing", "0.5",
	       "headroom", "2", "most", "1.5");
	on_law_tick(&g, 1);
	window(&g, 400, 100, response_ns, WEIR_DONE);
	double wanted = 400 * gradient + 2 * 20;
	assert_true(fabs(on_law_value(&g, "gradient") - gradient) < .04 * gradient);
	assert_true(fabs(limit_of(&g) - (400 + .5 * (wanted - 400))) < 12);
	uint64_t measured_ns = on_law_report(&g).measured_ns;
	assert_true(fabs((double)measured_ns - (double)response_ns) < .04 * (double)response_ns);
	on_law_close(&g);
}

static void test_one_step(void **state)
{
	check_step(250 * MS, .8);
	check_step(200 * MS, 1);
	check_step(160 * MS, 1.25);
	check_step(2000 * MS, .5);
	check_step(1 * MS, 1.5);
}

static void test_aims_below_the_target(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "aim", "0.5");
	on_law_tick(&g, 1);
	window(&g, 20, 100, 125 * MS, WEIR_DONE);
	assert_true(fabs(on_law_value(&g, "gradient") - .8) < .04);
	on_law_close(&g);
}

/* Of 100 responses 89 are short: the 90th percentile is a long one, the mean is not. */
static void test_percentile_or_mean(void **state)
{
	static const char *const mean[] = {"off", "on"};
	for (int i = 0; i < 2; i++) {
		on_law g;
		ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "mean", mean[i]);
		on_law_tick(&g, 1);
		for (int k = 0; k < 11; k++)
			on_law_settle(&g, g.now_ns - 300 * MS, WEIR_DONE);
		window(&g, 0, 89, 10 * MS, WEIR_DONE);
		double expected = i == 0 ? 300e6 : .89 * 10e6 + .11 * 300e6;
		assert_true(fabs((double)on_law_report(&g).measured_ns - expected) < .04 * expected);
		on_law_close(&g);
	}
}

/* Idleness is no proof of capacity. */
static void test_idle_does_not_ratchet(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "40");
	on_law_tick(&g, 1);
	for (int i = 0; i < 100; i++)
		window(&g, 19, 50, MS, WEIR_DONE);
	assert_int_equal(limit_of(&g), 40);
	window(&g, 20, 50, MS, WEIR_DONE);
	assert_true(limit_of(&g) > 40);
	/* It still falls when it has to. */
	uint32_t before = limit_of(&g);
	window(&g, 1, 50, 900 * MS, WEIR_DONE);
	assert_true(limit_of(&g) < before);
	on_law_close(&g);
}

/* Who is refused finds the limit used, also by events that the law has not counted. */
static void test_a_refusal_is_use(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "40");
	on_law_tick(&g, 1);
	g.in_service = 40;
	assert_int_equal(on_law_admit(&g, 1), WEIR_SHED_LIMIT);
	window(&g, 0, 50, MS, WEIR_DONE);
	assert_true(limit_of(&g) > 40);
	on_law_close(&g);
}

/* A percentile of a few is noise: the window goes on. */
static void test_few_samples_hold(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "40", "samples", "30");
	on_law_tick(&g, 1);
	for (int i = 0; i < 2; i++) {
		window(&g, 40, 14, 900 * MS, WEIR_DONE);
		assert_int_equal(limit_of(&g), 40);
	}
	window(&g, 40, 2, 900 * MS, WEIR_DONE);
	assert_true(limit_of(&g) < 40);
	uint32_t before = limit_of(&g);
	for (int i = 0; i < 100; i++)
		on_law_tick(&g, WEIR_NS_PER_S);
	assert_int_equal(limit_of(&g), before);
	on_law_close(&g);
}

/* Within a window nothing changes, however often it ticks. */
static void test_one_change_a_window(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "40");
	on_law_tick(&g, 1);
	for (int i = 0; i < 19; i++) {
		fill(&g, 0);
		on_law_tick(&g, 10 * MS);
		assert_int_equal(limit_of(&g), 40);
	}
	on_law_tick(&g, 10 * MS);
	assert_true(limit_of(&g) > 40);
	on_law_close(&g);
}

/* Fast, and no sign of health. */
static void test_refusals_downstream_are_overload(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "100");
	on_law_tick(&g, 1);
	for (int i = 0; i < 30; i++)
		window(&g, 0, 50, MS, WEIR_REFUSED);
	assert_true(limit_of(&g) < 20);
	/* Other failures say nothing. */
	uint32_t before = limit_of(&g);
	for (int i = 0; i < 30; i++)
		window(&g, before, 50, 900 * MS, WEIR_FAILED);
	assert_int_equal(limit_of(&g), before);
	on_law_close(&g);
}

/* Those whose clients lost patience are not forgotten, if they had waited for long. */
static void test_who_left_late_counts(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "initial_limit", "100");
	on_law_tick(&g, 1);
	for (int i = 0; i < 50; i++)
		on_law_gone(&g, g.now_ns - 100 * MS);
	on_law_tick(&g, WEIR_NS_PER_S);
	assert_int_equal(limit_of(&g), 100);
	for (int i = 0; i < 50; i++)
		on_law_gone(&g, g.now_ns - 500 * MS);
	on_law_tick(&g, WEIR_NS_PER_S);
	assert_true(limit_of(&g) < 100);
	on_law_close(&g);
}

static void test_stays_within_its_bounds(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms", "min_limit", "8", "max_limit", "30");
	on_law_tick(&g, 1);
	for (int i = 0; i < 100; i++)
		window(&g, 0, 50, 900 * MS, WEIR_DONE);
	assert_int_equal(limit_of(&g), 8);
	assert_true(on_law_report(&g).unreachable);
	for (int i = 0; i < 100; i++)
		window(&g, limit_of(&g), 50, MS, WEIR_DONE);
	assert_int_equal(limit_of(&g), 30);
	assert_false(on_law_report(&g).unreachable);
	on_law_close(&g);
}

static void test_saves_and_loads(void **state)
{
	on_law a, b;
	char text[64];
	static const char *const wrong[] = {"",         "limit=",    "limit=x", "limit=0",
					    "limit=-5", "limit=1 2", "rate=5"};
	ON_LAW(&a, &weir_law_gradient, "p90", "200ms", "initial_limit", "123");
	ON_LAW(&b, &weir_law_gradient, "p90", "200ms", "max_limit", "200");
	int length = weir_law_gradient.save(a.state, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_int_equal(weir_law_gradient.save(a.state, NULL, 0), length);
	assert_int_equal(weir_law_gradient.load(b.state, text), 0);
	assert_int_equal(limit_of(&b), 123);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(weir_law_gradient.load(b.state, wrong[i]), -EINVAL);
	assert_int_equal(limit_of(&b), 123);
	assert_int_equal(weir_law_gradient.load(b.state, "limit=5000"), 0);
	assert_int_equal(limit_of(&b), 200);
	on_law_close(&a);
	on_law_close(&b);
}

static void test_explains_itself(void **state)
{
	on_law g;
	ON_LAW(&g, &weir_law_gradient, "p90", "200ms");
	on_law_tick(&g, 1);
	g.sample.klass[0].completed = 50;
	window(&g, 20, 50, 300 * MS, WEIR_DONE);
	weir_why why = on_law_explain(&g, WEIR_SHED_LIMIT, 1);
	assert_int_equal(why.target_ns, 200 * MS);
	assert_in_range(why.estimate_ns, 290 * MS, 310 * MS);
	assert_int_equal(why.retry_after_ns, 20 * MS);
	assert_int_equal(on_law_explain(&g, WEIR_SHED_LIMIT, 1000).retry_after_ns, 0);
	on_law_close(&g);
}

static void test_bad_parameters(void **state)
{
	ON_LAW_REFUSES(&weir_law_gradient, "target", "headroom", "1");
	ON_LAW_REFUSES(&weir_law_gradient, "limits", "target", "1s", "min_limit", "21");
	ON_LAW_REFUSES(&weir_law_gradient, "limits", "target", "1s", "max_limit", "19");
	ON_LAW_REFUSES(&weir_law_gradient, "aim", "target", "1s", "aim", "0");
	ON_LAW_REFUSES(&weir_law_gradient, "smoothing", "target", "1s", "smoothing", "0");
	assert_int_equal(weir_law_check(&weir_law_gradient, NULL), -EINVAL);
}

#define THREADS 3
static on_law crowded;
static _Atomic bool stop;

static void *come_and_go(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		weir_ask ask = {.now_ns = 1, .count = 1};
		weir_event event = {0};
		if (weir_law_gradient.admit(crowded.state, &ask) == WEIR_ADMITTED)
			weir_law_gradient.settle(crowded.state, &event, WEIR_DONE, 1000);
	}
	return NULL;
}

static void *tick_and_look(void *arg)
{
	while (!atomic_load(&stop)) {
		on_law_tick(&crowded, WEIR_NS_PER_S);
		on_law_report(&crowded);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS], ticker;
	ON_LAW(&crowded, &weir_law_gradient, "p90", "200ms");
	assert_int_equal(pthread_create(&ticker, NULL, tick_and_look, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(ticker, NULL);
	assert_true(on_law_value(&crowded, "inside") == 0);
	on_law_close(&crowded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_limit_bounds_those_inside),
		cmocka_unit_test(test_one_step),
		cmocka_unit_test(test_aims_below_the_target),
		cmocka_unit_test(test_percentile_or_mean),
		cmocka_unit_test(test_idle_does_not_ratchet),
		cmocka_unit_test(test_a_refusal_is_use),
		cmocka_unit_test(test_few_samples_hold),
		cmocka_unit_test(test_one_change_a_window),
		cmocka_unit_test(test_refusals_downstream_are_overload),
		cmocka_unit_test(test_who_left_late_counts),
		cmocka_unit_test(test_stays_within_its_bounds),
		cmocka_unit_test(test_saves_and_loads),
		cmocka_unit_test(test_explains_itself),
		cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
