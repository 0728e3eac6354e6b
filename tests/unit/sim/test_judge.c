/* SPDX-License-Identifier: Apache-2.0 */
/* The judge: records made by hand, judgements known beforehand. Target 100 ms, p90, windows of 1 s, slots of 100 ms. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "sim/judge.h"

#define S  WEIR_NS_PER_S
#define MS WEIR_NS_PER_MS

static weir_record *made(unsigned classes)
{
	weir_record_options options = {.duration_ns = 20 * S,
				       .window_ns = S,
				       .quantile = 0.9,
				       .classes = classes,
				       .types = 1,
				       .places = 2};
	weir_record *record;
	assert_int_equal(weir_record_new(&options, &record), 0);
	weir_record_phase(record, 10 * S);
	record->place[0].capacity_ns = 100;
	record->place[1].capacity_ns = 100;
	return record;
}

static void near(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance * fabs(expected) + 1e-9))
		fail_msg("%g, not %g", value, expected);
}

static void one(weir_record *r, uint64_t at_ns, unsigned klass, uint64_t response_ns)
{
	weir_record_offered(r, at_ns, klass, 0);
	if (response_ns == 0)
		weir_record_shed(r, at_ns, klass, 0);
	else
		weir_record_completed(r, at_ns, klass, 0, response_ns, 100 * MS);
}

/* Ten requests every 100 ms; from 10 s on those of the first `slow` slots take half a second. */
static void run(weir_record *r, unsigned slow)
{
	for (unsigned slot = 0; slot < 200; slot++) {
		if (slot % 10 == 0 && slot > 0)
			weir_record_window(r, slot * 100 * MS);
		for (unsigned i = 0; i < 10; i++)
			one(r, slot * 100 * MS, 0, slot >= 100 && slot < 100 + slow ? 500 * MS : 50 * MS);
	}
	weir_record_window(r, 20 * S);
}

static void it_settles_when_the_percentile_is_back(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	run(r, 23);
	weir_judge(r, true, &j);
	assert_int_equal(j.phases, 2);
	assert_int_equal(j.phase[0].settle_ns, 0);
	/*
	 * 23 slots of 100 are late. Over the window that follows one in ten may be: from slot 22 on one of ten is late, so that it has settled, and
	 * over all that is left one of 78 is.
	 */
	assert_int_equal(j.phase[1].settle_ns, 2200 * MS);
	assert_int_equal(j.settle_ns, 2200 * MS);
	near(j.phase[1].overshoot, 5, 0.033);
	near(j.phase[0].overshoot, 0.5, 0.033);
	near(j.overshoot, 5, 0.033);
	near(j.phase[0].ratio, 0.5, 0.033);
	near(j.phase[1].ratio, 5, 0.033);
	near(j.phase[1].offered_per_s, 100, 0);
	near(j.phase[1].useful_per_s, 77, 0);
	near(j.too_late, 230.0 / 2000, 0);
	weir_record_free(&r);
}

static void what_is_never_back_never_settles(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	run(r, 100);
	weir_judge(r, true, &j);
	assert_true(j.phase[1].settle_ns == WEIR_NEVER);
	assert_true(j.settle_ns == WEIR_NEVER);
	weir_record_free(&r);
}

/* A window that is good once in a while is not settled: all that is left must be held too. */
static void swinging_is_not_settled(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned slot = 100; slot < 200; slot++)
		for (unsigned i = 0; i < 10; i++)
			one(r, slot * 100 * MS, 0, slot / 20 % 2 == 1 ? 50 * MS : 500 * MS);
	weir_judge(r, true, &j);
	/* Two stretches of 20 slots are late; the last of them ends with slot 179, and one slot in ten may be late. */
	assert_int_equal(j.phase[1].settle_ns, 7900 * MS);
	weir_record_free(&r);
}

static void where_all_is_shed_nothing_is_held(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned slot = 100; slot < 200; slot++)
		one(r, slot * 100 * MS, 0, 0);
	weir_judge(r, true, &j);
	assert_int_equal(j.phase[0].settle_ns, 0); /* nothing was asked for */
	assert_true(j.phase[1].settle_ns == WEIR_NEVER);
	near(j.shed, 1, 0);
	near(j.phase[1].shed, 1, 0);
	weir_judge(r, false, &j);
	assert_int_equal(j.settle_ns, 0); /* there is no target to be held */
	weir_record_free(&r);
}

/* Half is turned away until 3.2 s after the change, and then one in a thousand. */
static void it_is_clear_when_nothing_is_turned_away(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned slot = 0; slot < 200; slot++)
		for (unsigned i = 0; i < 1000; i++) {
			bool shed = slot >= 100 && (slot < 132 ? i % 2 == 0 : i == 0);
			one(r, slot * 100 * MS, 0, shed ? 0 : 50 * MS);
		}
	weir_judge(r, true, &j);
	assert_int_equal(j.phase[0].clear_ns, 0);
	assert_int_equal(j.phase[1].clear_ns, 3200 * MS);
	one(r, 20 * S - 1, 0, 0); /* one more is too many, for as long as there is anything left */
	weir_judge(r, true, &j);
	assert_true(j.phase[1].clear_ns == WEIR_NEVER);
	weir_record_free(&r);
}

/* Blocks of 500 with 100, 200, 100, 200 ... turned away: sd .1, and a turn at each. */
static void oscillation_is_measured_over_blocks(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned block = 0; block < 21; block++)
		for (unsigned i = 0; i < 500; i++)
			one(r, 10 * S + block * 400 * MS + i, 0,
			    i < (block % 2 == 0 ? 100 : 200) ? 0 : 50 * MS);
	weir_judge(r, true, &j);
	/* Of the 20 that are full the first is left out: it may have begun before. */
	assert_int_equal(j.phase[1].blocks, 19);
	near(j.phase[1].shed_sd, 0.1, 0.01);
	assert_int_equal(j.phase[1].turns, 18);
	assert_int_equal(j.phase[0].blocks, 0);
	near(j.shed_sd, 0.1, 0.01);
	weir_record_free(&r);
}

static void a_steady_fraction_does_not_oscillate(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned i = 0; i < 10001; i++)
		one(r, 10 * S + i * 900000ull, 0, i % 4 == 0 ? 0 : 50 * MS);
	weir_judge(r, true, &j);
	near(j.shed_sd, 0, 0);
	assert_int_equal(j.turns, 0);
	near(j.shed, 0.25, 0.01);
	weir_record_free(&r);
}

static void work_is_judged_at_the_busiest_place(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	weir_record_work(r, S, 0, 60, WEIR_USED_WELL);
	weir_record_work(r, S, 1, 50, WEIR_USED_WELL);
	weir_record_work(r, S, 1, 20, WEIR_USED_LATE);
	weir_record_work(r, S, 1, 10, WEIR_USED_FOR_NOTHING);
	weir_judge(r, true, &j);
	assert_int_equal(j.busiest, 1);
	near(j.completed_work, 0.7, 0);
	near(j.wasted_work, 30.0 / 140, 0);
	weir_record_free(&r);
}

/* Two classes, of which one is served wholly and the other not at all: Jain's index is 1/2. */
static void fairness_is_jains_index(void **state)
{
	weir_judgement j;
	weir_record *r = made(3);
	for (unsigned i = 0; i < 10; i++) {
		one(r, S, 0, 50 * MS);
		one(r, S, 1, 0);
	}
	weir_judge(r, true, &j);
	near(j.class_fairness, 0.5, 0);
	near(j.type_fairness, 0, 0); /* there is only one */
	for (unsigned i = 0; i < 10; i++)
		one(r, S, 1, 50 * MS);
	weir_judge(r, true, &j); /* 1 and 1/2: 2.25 / (2 * 1.25) */
	near(j.class_fairness, 0.9, 0);
	weir_record_free(&r);
}

/* Within the target, as `weir load` has it; useful is within twice of it. */
static void good_is_within_the_target(void **state)
{
	static const uint64_t took_ns[] = {50 * MS, 100 * MS, 150 * MS, 500 * MS};
	weir_judgement j;
	weir_record *r = made(1);
	for (unsigned slot = 0; slot < 200; slot++)
		for (unsigned i = 0; i < 4; i++)
			one(r, slot * 100 * MS, 0, took_ns[i]);
	weir_judge(r, true, &j);
	near(j.completed_per_s, 40, 0);
	near(j.useful_per_s, 30, 0);
	near(j.good_per_s, 20, 0);
	near(j.phase[1].useful_per_s, 30, 0);
	near(j.phase[1].good_per_s, 20, 0);
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++)
		if (strcmp(metric->name, "good_per_s") == 0)
			near(metric->get(&j), 20, 0);
	weir_record_free(&r);
}

/* What was offered during the warmup and ends after it is in all but the figures of what was offered in the measurement. */
static void a_backlog_of_the_warmup_is_not_of_the_offered(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	r->options.warmup_ns = 10 * S;
	for (unsigned i = 0; i < 100; i++) {
		one(r, 10 * S + 400 * MS, 0, 500 * MS);
		one(r, 12 * S, 0, 50 * MS);
	}
	weir_judge(r, true, &j);
	near(j.ratio, 5, 0.033);
	near(j.ratio_of_offered, 0.5, 0.033);
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++)
		if (strcmp(metric->name, "ratio_of_offered") == 0)
			near(metric->get(&j), 0.5, 0.033);
	weir_record_free(&r);
}

static void metrics_are_the_judgements(void **state)
{
	weir_judgement j;
	weir_record *r = made(1);
	run(r, 100);
	weir_judge(r, true, &j);
	unsigned seen = 0;
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++) {
		double value = metric->get(&j);
		seen++;
		if (strcmp(metric->name, "settle_ms") == 0)
			assert_true(isinf(value));
		if (strcmp(metric->name, "p90_ms") == 0)
			near(value, 500, 0.033);
		if (strcmp(metric->name, "useful_per_s") == 0)
			near(value, 50, 0);
	}
	assert_int_equal(seen, 18);
	weir_record_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(it_settles_when_the_percentile_is_back),
		CHECK_TEST(what_is_never_back_never_settles),
		CHECK_TEST(swinging_is_not_settled),
		CHECK_TEST(where_all_is_shed_nothing_is_held),
		CHECK_TEST(it_is_clear_when_nothing_is_turned_away),
		CHECK_TEST(oscillation_is_measured_over_blocks),
		CHECK_TEST(a_steady_fraction_does_not_oscillate),
		CHECK_TEST(work_is_judged_at_the_busiest_place),
		CHECK_TEST(fairness_is_jains_index),
		CHECK_TEST(good_is_within_the_target),
		CHECK_TEST(a_backlog_of_the_warmup_is_not_of_the_offered),
		CHECK_TEST(metrics_are_the_judgements),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
