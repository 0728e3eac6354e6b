/* SPDX-License-Identifier: Apache-2.0 */
/* The response-time controller of AOC 3.2: its steps by hand, and each trap that was found in it. */
#include "law_rig.h"

#include <pthread.h>
#include <stdatomic.h>

static weir_aimd_params params_of(uint64_t target_ns, double rate_start)
{
	weir_aimd_params params;
	weir_law_defaults(&weir_law_aimd, &params);
	params.target_ns = target_ns;
	params.tuning.rate_start = rate_start;
	return params;
}

static void open_aimd(struct rig *rig, uint64_t target_ns, double rate_start)
{
	weir_aimd_params params = params_of(target_ns, rate_start);
	rig_open(rig, &weir_law_aimd, &params);
}

static void test_defaults_are_those_of_figure_4(void **state)
{
	weir_aimd_params p;
	weir_law_defaults(&weir_law_aimd, &p);
	assert_true(p.tuning.samples == 100 && p.tuning.timeout_ns == S && p.tuning.percentile == .9);
	assert_true(p.tuning.alpha == .7 && p.tuning.err_i == -.5 && p.tuning.err_d == 0);
	assert_true(p.tuning.adj_i == 2 && p.tuning.adj_d == 1.2 && p.tuning.c_i == -.1);
	assert_true(p.tuning.rate_min == .05 && p.tuning.rate_max == 5000);
	assert_false(p.tuning.proportional || p.tuning.half_used || p.tuning.patience != 0);
	assert_ptr_equal(weir_law_find("aimd"), &weir_law_aimd);
	assert_true(weir_law_aimd.tick_ns == 10 * MS);
	expect_params(&weir_law_aimd);
}

/* cur = .7 cur + .3 samp; err = (cur - 1 s) / 1 s; by hand. */
static void test_steps_by_hand(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_window(&rig, 0, 5 * S); /* cur 1.5 */
	expect_near("err", rig_value(&rig, 0, "err"), .5);
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.2);
	rig_window(&rig, 0, 100 * MS); /* 1.08 */
	expect_near("err", rig_value(&rig, 0, "err"), .08);
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.44);
	rig_window(&rig, 0, 100 * MS); /* .786: within the bands */
	rig_window(&rig, 0, 100 * MS); /* .5802 */
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.44);
	rig_window(&rig, 0, 100 * MS); /* .43614: rises by (.56386 - .1) 2 */
	expect_near("err", rig_value(&rig, 0, "err"), -.56386);
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.44 + .92772);
	assert_int_equal(rig_report(&rig, 0).measured_ns, 436140000);
	assert_int_equal(rig_report(&rig, 0).target_ns, S);
	expect_near("windows", rig_value(&rig, 0, "windows"), 5);
	expect_near("samp", rig_value(&rig, 0, "samp_s"), .1);
	rig_close(&rig);
}

static void test_bounds_of_the_rate(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 0);
	expect_near("rate", rig_rate(&rig, 0), 5000);
	rig_window(&rig, 0, 10 * MS);
	expect_near("rate", rig_rate(&rig, 0), 5000);
	for (int i = 0; i < 100; i++)
		rig_window(&rig, 0, 100 * S);
	expect_near("rate", rig_rate(&rig, 0), .05);
	assert_true(rig_report(&rig, 0).unreachable);
	rig_close(&rig);
}

/* 1 .. n ms in a strange order: the (q n)-th of them. */
static double percentile_of(double q, uint32_t n)
{
	struct rig rig;
	weir_aimd_params params = params_of(10 * S, 0);
	params.tuning.percentile = q;
	params.tuning.samples = n;
	params.tuning.alpha = 0;
	rig_open(&rig, &weir_law_aimd, &params);
	rig_tick(&rig, 0);
	for (uint32_t i = 0; i < n; i++)
		rig_settle(&rig, 0, 1, (i * 37 % n + 1) * MS, WEIR_DONE);
	rig_tick(&rig, 10 * MS);
	double ms = (double)rig_report(&rig, 0).measured_ns / 1e6;
	rig_close(&rig);
	return ms;
}

static void test_percentiles(void **state)
{
	expect_near("p90", percentile_of(.9, 100), 90);
	expect_near("p50", percentile_of(.5, 100), 50);
	expect_near("p55", percentile_of(.55, 100), 55);
	expect_near("p99", percentile_of(.99, 100), 99);
	expect_near("p99.9", percentile_of(.999, 1000), 999);
	expect_near("p99.9 of a hundred", percentile_of(.999, 100), 100);
	expect_near("of one", percentile_of(.9, 1), 1);
}

static void test_newest_of_many_count(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_tick(&rig, 0);
	rig_settle(&rig, 0, 1000, 10 * S, WEIR_DONE);
	rig_settle(&rig, 0, 100, 10 * MS, WEIR_DONE);
	rig_tick(&rig, 10 * MS);
	expect_near("samp", rig_value(&rig, 0, "samp_s"), .01);
	rig_close(&rig);
}

static void test_a_window_ends_by_time(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_tick(&rig, 10 * MS);
	rig_settle(&rig, 0, 99, 2 * S, WEIR_DONE);
	rig_tick(&rig, 999 * MS);
	expect_near("windows", rig_value(&rig, 0, "windows"), 0);
	rig_tick(&rig, MS);
	expect_near("windows", rig_value(&rig, 0, "windows"), 1);
	rig_settle(&rig, 0, 99, 2 * S, WEIR_DONE);
	rig_tick(&rig, 10 * MS);
	expect_near("windows", rig_value(&rig, 0, "windows"), 1);
	rig_settle(&rig, 0, 1, 2 * S, WEIR_DONE);
	rig_tick(&rig, 10 * MS);
	expect_near("windows", rig_value(&rig, 0, "windows"), 2);
	rig_close(&rig);
}

static void test_retry_after_is_exact(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 7);
	while (rig_ask(&rig, 0, 1) == WEIR_ADMITTED)
		;
	weir_ask ask = {.now_ns = rig.now_ns, .count = 2};
	weir_why why = {0};
	weir_law_aimd.explain(rig.state, &ask, &why);
	assert_int_equal(why.target_ns, S);
	assert_in_range(why.retry_after_ns, 1, S);
	rig.now_ns += why.retry_after_ns - 1;
	assert_int_equal(rig_ask(&rig, 0, 2), WEIR_SHED_RATE);
	rig.now_ns++;
	assert_int_equal(rig_ask(&rig, 0, 2), WEIR_ADMITTED);
	ask.count = 5; /* more than it ever holds: no time is right */
	weir_law_aimd.explain(rig.state, &ask, &why);
	assert_int_equal(why.retry_after_ns, 0);
	rig_close(&rig);
}

static void test_says_when_it_refuses(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 10);
	rig_tick(&rig, 0);
	assert_int_equal(rig_ask(&rig, 0, 5), WEIR_ADMITTED);
	rig_window(&rig, 0, 10 * MS);
	assert_false(rig_report(&rig, 0).shedding);
	assert_int_equal(rig_ask(&rig, 0, 5), WEIR_SHED_RATE);
	rig_window(&rig, 0, 10 * MS);
	assert_true(rig_report(&rig, 0).shedding);
	rig_close(&rig);
}

static void test_warm_start(void **state)
{
	struct rig rig;
	weir_aimd_params params = params_of(S, 0);
	rig_open(&rig, &weir_law_aimd, &params);
	rig_window(&rig, 0, 5 * S);
	expect_saved(&rig, &params);
	assert_int_equal(weir_law_aimd.load(rig.state, "1e9 0"), 0);
	expect_near("rate", rig_rate(&rig, 0), 5000);
	rig_close(&rig);
}

static void check_wrong(void (*spoil)(weir_aimd_params *), const char *word)
{
	weir_aimd_params params = params_of(S, 0);
	spoil(&params);
	expect_refused(&weir_law_aimd, &params, word);
}

#define WRONG(name, field, value)                     \
	static void wrong_##name(weir_aimd_params *p) \
	{                                             \
		p->field = value;                     \
	}
WRONG(target, target_ns, 0)
WRONG(target_small, target_ns, 999)
WRONG(target_large, target_ns, 3601 * S)
WRONG(percentile, tuning.percentile, .4)
WRONG(percentile_high, tuning.percentile, 1)
WRONG(samples, tuning.samples, 0)
WRONG(samples_high, tuning.samples, 1001)
WRONG(samples_min, tuning.samples_min, 101)
WRONG(timeout, tuning.timeout_ns, 0)
WRONG(alpha, tuning.alpha, 1)
WRONG(alpha_nan, tuning.alpha, NAN)
WRONG(err_i, tuning.err_i, .1)
WRONG(err_d, tuning.err_d, -2)
WRONG(adj_i, tuning.adj_i, -1)
WRONG(adj_d, tuning.adj_d, .9)
WRONG(c_i, tuning.c_i, -.6)
WRONG(rate_min, tuning.rate_min, 0)
WRONG(rate_max, tuning.rate_max, .01)
WRONG(rate_start, tuning.rate_start, 6000)
WRONG(burst, tuning.burst_ns, UINT64_MAX)
WRONG(depth, tuning.depth, .5)
WRONG(patience, tuning.patience, -1)

static void test_bad_parameters(void **state)
{
	expect_refused(&weir_law_aimd, NULL, "parameters");
	check_wrong(wrong_target, "required");
	check_wrong(wrong_target_small, "1us");
	check_wrong(wrong_target_large, "1h");
	check_wrong(wrong_percentile, "p50");
	check_wrong(wrong_percentile_high, "p99.9");
	check_wrong(wrong_samples, "samples");
	check_wrong(wrong_samples_high, "1000");
	check_wrong(wrong_samples_min, "samples_min");
	check_wrong(wrong_timeout, "timeout");
	check_wrong(wrong_alpha, "alpha");
	check_wrong(wrong_alpha_nan, "alpha");
	check_wrong(wrong_err_i, "err_i");
	check_wrong(wrong_err_d, "err_d");
	check_wrong(wrong_adj_i, "adj_i");
	check_wrong(wrong_adj_d, "adj_d");
	check_wrong(wrong_c_i, "c_i");
	check_wrong(wrong_rate_min, "rate_min");
	check_wrong(wrong_rate_max, "rate_max");
	check_wrong(wrong_rate_start, "rate_start");
	check_wrong(wrong_burst, "burst");
	check_wrong(wrong_depth, "depth");
	check_wrong(wrong_patience, "patience");
}

/* ---- traps, each named after the failure ---- */

/* How many of a burst come in, at 100/s. */
static uint32_t burst_of(double depth, uint64_t burst_ns)
{
	struct rig rig;
	uint32_t taken = 0;
	weir_aimd_params params = params_of(S, 100);
	params.tuning.depth = depth;
	params.tuning.burst_ns = burst_ns;
	rig_open(&rig, &weir_law_aimd, &params);
	while (rig_ask(&rig, 0, 1) == WEIR_ADMITTED)
		taken++;
	rig_close(&rig);
	return taken;
}

static void trap_a_bucket_of_depth_one_rejects_harmless_bursts(void **state)
{
	assert_int_equal(burst_of(0, 0), 50); /* half of the target's worth */
	assert_int_equal(burst_of(0, 200 * MS), 20);
	assert_int_equal(burst_of(1, 0), 1); /* the original's, where one asks for them */
	assert_int_equal(burst_of(20, 0), 20);
}

/* A request every 100 ms, served in 20 ms; returns the rate after so many seconds. */
static double rate_under_demand(struct rig *rig, unsigned seconds)
{
	for (unsigned i = 0; i < seconds * 100; i++) {
		if (i % 10 == 0 && rig_ask(rig, 0, 1) == WEIR_ADMITTED)
			rig_settle(rig, 0, 1, 20 * MS, WEIR_DONE);
		rig_tick(rig, 10 * MS);
	}
	return rig_rate(rig, 0);
}

static void trap_a_starved_stage_wakes_every_twenty_seconds(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, .05);
	rig_window(&rig, 0, 10 * S);
	expect_near("rate", rig_rate(&rig, 0), .05);
	assert_int_equal(rig_ask(&rig, 0, 1), WEIR_ADMITTED); /* never less than one token deep */
	rig_settle(&rig, 0, 1, 20 * MS, WEIR_DONE);
	/* cur is 3 s; it must be forgotten, and the rate be back above the demand, before the bucket's first token in 20 s. */
	assert_true(rate_under_demand(&rig, 15) > 10);
	rig_close(&rig);
}

/* It uses what it has: all that is refused is asked for. */
static void trap_half_used_keeps_the_starved_starved(void **state)
{
	struct rig rig;
	weir_aimd_params params = params_of(S, .05);
	params.tuning.half_used = true;
	rig_open(&rig, &weir_law_aimd, &params);
	rig_window(&rig, 0, 10 * S);
	assert_int_equal(rig_ask(&rig, 0, 1), WEIR_ADMITTED);
	rig_settle(&rig, 0, 1, 20 * MS, WEIR_DONE);
	assert_true(rate_under_demand(&rig, 15) > 8);
	rig_close(&rig);
}

/* In a dry run it hears of ends that it was never asked about. */
static void trap_after_a_dry_run_a_full_stage_looks_empty(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_window(&rig, 0, 700 * MS);
	assert_int_equal(rig_ask(&rig, 0, 3), WEIR_ADMITTED);
	for (int i = 0; i < 5; i++)
		rig_tick(&rig, S); /* nothing ends: nothing is known */
	expect_near("windows", rig_value(&rig, 0, "windows"), 1);
	rig_settle(&rig, 0, 3, MS, WEIR_FAILED); /* now it is empty */
	rig_tick(&rig, S);
	expect_near("windows", rig_value(&rig, 0, "windows"), 2);
	rig_close(&rig);
}

static double rise_at(double rate, bool proportional)
{
	struct rig rig;
	weir_aimd_params params = params_of(S, rate);
	params.tuning.proportional = proportional;
	params.tuning.alpha = 0;
	rig_open(&rig, &weir_law_aimd, &params);
	rig_window(&rig, 0, 100 * MS);
	double rise = rig_rate(&rig, 0) - rate;
	rig_close(&rig);
	return rise;
}

static void trap_a_step_of_two_is_nothing_to_thousands_a_second(void **state)
{
	expect_near("the paper's rise", rise_at(4000, false), 1.6);
	expect_near("the proportional rise", rise_at(4000, true), 64);
	expect_near("the proportional rise, at a low rate", rise_at(10, true), 1.6);
}

static double rate_after_idling(bool half_used, unsigned asks)
{
	struct rig rig;
	weir_aimd_params params = params_of(S, 100);
	params.tuning.half_used = half_used;
	rig_open(&rig, &weir_law_aimd, &params);
	for (int i = 0; i < 10000; i++) {
		for (unsigned ask = 0; i % 100 == 0 && ask < asks; ask++)
			if (rig_ask(&rig, 0, 1) == WEIR_ADMITTED)
				rig_settle(&rig, 0, 1, 10 * MS, WEIR_DONE);
		rig_tick(&rig, 10 * MS);
	}
	double rate = rig_rate(&rig, 0);
	rig_close(&rig);
	return rate;
}

static void trap_idle_periods_ratchet_the_rate_up(void **state)
{
	assert_true(rate_after_idling(false, 0) > 250); /* as the paper has it */
	expect_near("an idle rate", rate_after_idling(true, 0), 100);
	expect_near("a rate of which a fifth is used", rate_after_idling(true, 20), 100);
	assert_true(rate_after_idling(true, 60) > 101);
}

static void trap_fast_refusals_downstream_look_like_low_latency(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_tick(&rig, 0);
	for (int window = 0; window < 3; window++) {
		rig_settle(&rig, 0, 80, MS, WEIR_DONE);
		rig_settle(&rig, 0, 20, MS, WEIR_REFUSED);
		rig_tick(&rig, 10 * MS);
	}
	/* cur .6, 1.02, 1.314 s */
	expect_near("err", rig_value(&rig, 0, "err"), .314);
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.44);
	rig_close(&rig);
}

static void trap_fast_failures_look_like_low_latency(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_tick(&rig, 0);
	assert_int_equal(rig_ask(&rig, 0, 3), WEIR_ADMITTED);
	rig_settle(&rig, 0, 1, MS, WEIR_FAILED);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(rig_ask(&rig, 0, 2), WEIR_ADMITTED);
		rig.now_ns += 100 * MS;
		rig_settle(&rig, 0, 2, MS, WEIR_FAILED);
	}
	rig_tick(&rig, 2 * S);
	expect_near("windows", rig_value(&rig, 0, "windows"), 0);
	rig_settle(&rig, 0, 100, 2 * S, WEIR_FAILED); /* but one that ran into a time-out was slow */
	rig_tick(&rig, 10 * MS);
	expect_near("samp", rig_value(&rig, 0, "samp_s"), 2);
	rig_close(&rig);
}

static void trap_a_failed_offer_of_many_keeps_its_tokens(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	assert_int_equal(rig_ask(&rig, 0, 51), WEIR_SHED_RATE);
	assert_int_equal(rig_ask(&rig, 0, 50), WEIR_ADMITTED);
	assert_int_equal(rig_ask(&rig, 0, 1), WEIR_SHED_RATE);
	rig_refund(&rig, 0, 50);
	assert_int_equal(rig_ask(&rig, 0, 50), WEIR_ADMITTED);
	assert_int_equal(rig_ask(&rig, 0, 1), WEIR_SHED_RATE);
	/* nor does it stay inside: an idle window needs an empty stage */
	rig_tick(&rig, 0);
	rig_tick(&rig, 2 * S);
	expect_near("windows", rig_value(&rig, 0, "windows"), 0);
	rig_refund(&rig, 0, 50);
	rig_tick(&rig, 2 * S);
	expect_near("windows", rig_value(&rig, 0, "windows"), 1);
	rig_close(&rig);
}

static void trap_a_percentile_of_rare_requests_is_noise(void **state)
{
	struct rig rig;
	open_aimd(&rig, S, 100);
	rig_tick(&rig, 0);
	for (int i = 0; i < 9; i++) {
		rig_settle(&rig, 0, 1, 30 * S, WEIR_DONE);
		rig_tick(&rig, 2 * S);
	}
	expect_near("windows", rig_value(&rig, 0, "windows"), 0);
	expect_near("rate", rig_rate(&rig, 0), 100);
	rig_settle(&rig, 0, 1, 30 * S, WEIR_DONE); /* the tenth makes a p90 */
	rig_tick(&rig, 10 * MS);
	expect_near("rate", rig_rate(&rig, 0), 100 / 1.2);
	rig_close(&rig);
}

static weir_verdict start_at_age(struct rig *rig, uint64_t age_ns)
{
	rig->now_ns += 100 * S;
	weir_event event = rig_event(rig, 0, age_ns);
	weir_turn turn = {.now_ns = rig->now_ns};
	return weir_law_aimd.start(rig->state, &event, &turn);
}

static void trap_what_waited_too_long_is_served_all_the_same(void **state)
{
	struct rig rig;
	weir_aimd_params params = params_of(S, 100);
	rig_open(&rig, &weir_law_aimd, &params);
	assert_int_equal(start_at_age(&rig, 50 * S), WEIR_ADMITTED); /* as the paper has it */
	assert_true(weir_law_aimd.patience(rig.state, 0) == UINT64_MAX);
	rig_close(&rig);
	params.tuning.patience = .8;
	rig_open(&rig, &weir_law_aimd, &params);
	assert_int_equal(start_at_age(&rig, 800 * MS), WEIR_ADMITTED);
	assert_int_equal(start_at_age(&rig, 801 * MS), WEIR_SHED_WAITED);
	assert_int_equal(weir_law_aimd.patience(rig.state, 0), 800 * MS);
	rig_close(&rig);
}

/* ---- threads ---- */

#define THREADS 4

struct crowd {
	struct rig rig;
	_Atomic uint64_t clock;
};

static void *use(void *arg)
{
	struct crowd *crowd = arg;
	weir_event event = {0};
	weir_why why;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t now = atomic_fetch_add(&crowd->clock, 1000) + S;
		weir_ask ask = {.now_ns = now, .count = 1 + i % 3};
		event.entered_ns = now - i % 1000 * 1000;
		if (weir_law_aimd.admit(crowd->rig.state, &ask) != WEIR_ADMITTED)
			weir_law_aimd.explain(crowd->rig.state, &ask, &why);
		else if (i % 7 == 0)
			weir_law_aimd.refund(crowd->rig.state, &ask);
		else
			for (uint32_t k = 0; k < ask.count; k++)
				weir_law_aimd.settle(crowd->rig.state, &event, WEIR_DONE, now);
	}
	return NULL;
}

static void test_threads_beside_ticks(void **state)
{
	static struct crowd crowd;
	pthread_t threads[THREADS];
	open_aimd(&crowd.rig, MS, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, &crowd), 0);
	for (int i = 0; i < 200; i++) {
		crowd.rig.now_ns = atomic_load(&crowd.clock) + S;
		rig_tick(&crowd.rig, 0);
		weir_report report = rig_report(&crowd.rig, 0);
		assert_true(report.rate_per_s >= .05 && report.rate_per_s <= 5000);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* All that was admitted has ended: an idle window ends. */
	double windows = rig_value(&crowd.rig, 0, "windows");
	crowd.rig.now_ns = atomic_load(&crowd.clock) + S;
	rig_tick(&crowd.rig, 2 * S);
	rig_tick(&crowd.rig, 2 * S);
	rig_tick(&crowd.rig, 2 * S);
	assert_true(rig_value(&crowd.rig, 0, "windows") >= windows + 2);
	rig_close(&crowd.rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_are_those_of_figure_4),
		cmocka_unit_test(test_steps_by_hand),
		cmocka_unit_test(test_bounds_of_the_rate),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_newest_of_many_count),
		cmocka_unit_test(test_a_window_ends_by_time),
		cmocka_unit_test(test_retry_after_is_exact),
		cmocka_unit_test(test_says_when_it_refuses),
		cmocka_unit_test(test_warm_start),
		cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(trap_a_bucket_of_depth_one_rejects_harmless_bursts),
		cmocka_unit_test(trap_a_starved_stage_wakes_every_twenty_seconds),
		cmocka_unit_test(trap_half_used_keeps_the_starved_starved),
		cmocka_unit_test(trap_after_a_dry_run_a_full_stage_looks_empty),
		cmocka_unit_test(trap_a_step_of_two_is_nothing_to_thousands_a_second),
		cmocka_unit_test(trap_idle_periods_ratchet_the_rate_up),
		cmocka_unit_test(trap_fast_refusals_downstream_look_like_low_latency),
		cmocka_unit_test(trap_fast_failures_look_like_low_latency),
		cmocka_unit_test(trap_a_failed_offer_of_many_keeps_its_tokens),
		cmocka_unit_test(trap_a_percentile_of_rare_requests_is_noise),
		cmocka_unit_test(trap_what_waited_too_long_is_served_all_the_same),
		cmocka_unit_test(test_threads_beside_ticks),
	};
	return cmocka_run_group_tests_name("aimd", tests, NULL, NULL);
}
