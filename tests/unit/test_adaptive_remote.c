/* SPDX-License-Identifier: Apache-2.0 */
/* `adaptive-remote` and its parts, called by hand. What it does in a world: tests/sim/test_adaptive_remote.c. */
#include "on_law.h"

#include <math.h>

#include "control/drain.h"
#include "control/knee.h"
#include "control/overdue.h"
#include "control/remote.h"
#include "control/tally.h"

#define MS WEIR_NS_PER_MS

/* ---- parts ---- */

static void test_tally_knows_times_to_three_percent(void **state)
{
	for (double ns = 2000; ns < 1e12; ns *= 1.07) {
		double value = weir_tally_value(weir_tally_index((uint64_t)ns));
		assert_true(fabs(value - ns) < .035 * ns);
	}
	assert_int_equal(weir_tally_index(0), 0);
	assert_int_equal(weir_tally_index(UINT64_MAX), WEIR_TALLY_BUCKETS - 1);
}

static void test_spread_takes_what_is_new(void **state)
{
	static weir_tally tally;
	static weir_spread spread, also;
	double variance;
	for (int i = 1; i <= 100; i++)
		weir_tally_add(&tally, (uint64_t)i * MS);
	assert_int_equal(weir_spread_take(&spread, &tally, &also), 100);
	assert_int_equal(weir_spread_take(&spread, &tally, &also), 0);
	assert_true(fabs(weir_spread_quantile(&spread, .9) / 90e6 - 1) < .04);
	assert_true(fabs(weir_spread_mean(&also, INFINITY, &variance) / 50.5e6 - 1) < .02);
	assert_true(fabs(sqrt(variance) / 28.9e6 - 1) < .05);
	assert_true(weir_spread_mean(&also, 10e6, &variance) <= 10e6);
	weir_spread_clear(&spread);
	weir_tally_add(&tally, MS);
	assert_int_equal(weir_spread_take(&spread, &tally, NULL), 1);
	assert_true(spread.total == 1);
}

static void test_spreads_merge_and_keep_what_they_have_seen(void **state)
{
	static weir_tally tally;
	static weir_spread one, other;
	weir_tally_add(&tally, WEIR_NS_PER_MS);
	weir_spread_take(&one, &tally, NULL);
	weir_tally_add(&tally, 4 * WEIR_NS_PER_MS);
	weir_spread_take(&other, &tally, NULL);
	weir_spread_merge(&one, &other);
	assert_true(one.total == 3 && other.total == 2);
	assert_true(weir_spread_quantile(&one, .5) < 1.1e6 && weir_spread_quantile(&one, 1) > 3.8e6);
	assert_int_equal(weir_spread_take(&one, &tally, NULL),
			 1); /* the second one, which it has only been told of */
}

static void test_overdue_after_patience_and_not_before(void **state)
{
	weir_overdue overdue;
	uint64_t now_ns = 1000 * WEIR_NS_PER_S, start_ns = now_ns;
	weir_overdue_init(&overdue, 2 * WEIR_NS_PER_S);
	weir_overdue_tick(&overdue, now_ns);
	weir_overdue_started(&overdue, now_ns);
	weir_overdue_started(&overdue, now_ns);
	for (; now_ns < start_ns + 19 * WEIR_NS_PER_S / 10; now_ns += 10 * MS) {
		weir_overdue_tick(&overdue, now_ns);
		assert_int_equal(weir_overdue_count(&overdue), 0);
		assert_int_equal(weir_overdue_fresh(&overdue), 2);
	}
	for (; now_ns < start_ns + 6 * WEIR_NS_PER_S; now_ns += 10 * MS)
		weir_overdue_tick(&overdue, now_ns);
	assert_int_equal(weir_overdue_count(&overdue), 2);
	assert_int_equal(weir_overdue_fresh(&overdue), 0);
	weir_overdue_ended(&overdue, start_ns); /* it came back after all */
	assert_int_equal(weir_overdue_count(&overdue), 1);
	weir_overdue_tick(&overdue, now_ns + 3600 * WEIR_NS_PER_S); /* a long sleep */
	assert_int_equal(weir_overdue_count(&overdue), 1);
}

static void test_a_silent_backend_drains_slower_and_slower(void **state)
{
	weir_drain drain = {0};
	assert_true(weir_drain_time_ns(&drain) == 0);
	for (int i = 0; i < 200; i++)
		weir_drain_saw(&drain, 10 * MS, 10, 100 * MS);
	assert_true(fabs(weir_drain_time_ns(&drain) / 1e6 - 1) < .01);
	for (int i = 0; i < 100; i++)
		weir_drain_saw(&drain, 10 * MS, 0, 100 * MS);
	assert_true(weir_drain_time_ns(&drain) > 5e6);
}

static void test_a_refusal_bounds_at_once_and_is_forgotten_in_steps(void **state)
{
	static weir_knee knee;
	weir_knee_view view = {.now_ns = WEIR_NS_PER_S, .refused = true};
	weir_knee_init(&knee);
	assert_int_equal(weir_knee_limit(&knee), 4);
	weir_knee_refused(&knee, 3);
	assert_int_equal(weir_knee_limit(&knee), 3);
	weir_knee_refused(&knee, 0);
	assert_int_equal(weir_knee_limit(&knee), 1); /* never none */
	weir_knee_tick(&knee, &view);
	view.refused = false;
	static const uint32_t bounds[] = {1, 2, 4, 8};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(atomic_load(&knee.bound), bounds[i]);
		view.now_ns += WEIR_NS_PER_S;
		weir_knee_tick(&knee, &view);
	}
}

static void test_flow_survives_starts_that_were_never_admitted(void **state)
{
	uint64_t flow = 0;
	for (int i = 0; i < 3; i++)
		flow += WEIR_FLOW_STARTED - WEIR_FLOW_ADMITTED; /* as in a dry run */
	assert_int_equal(weir_flow_waiting(flow), -3);
	assert_int_equal(weir_flow_started(flow), 3);
	flow += 5 * WEIR_FLOW_ADMITTED;
	assert_int_equal(weir_flow_waiting(flow), 2);
	assert_int_equal(weir_flow_started(flow), 3);
}

/* ---- the law ---- */

static void settle(on_law *on, uint64_t took_ns, weir_outcome outcome)
{
	weir_event event = {.offered_ns = on->now_ns - took_ns, .started_ns = on->now_ns - took_ns};
	on->law->settle(on->state, &event, outcome, on->now_ns);
}

/* Starts so many, has them answered after took_ns, with a queue that never runs empty. */
static void busy_tick(on_law *on, unsigned count, uint64_t took_ns, weir_outcome outcome)
{
	on->waiting = on->sample.waiting = 5;
	on->sample.in_service = 4;
	for (unsigned i = 0; i < count; i++) {
		on_law_admit(on, 1);
		weir_event event = {.offered_ns = on->now_ns};
		weir_turn turn = {.now_ns = on->now_ns, .waiting = 5, .in_service = 3};
		on->law->start(on->state, &event, &turn);
	}
	on->now_ns += took_ns;
	for (unsigned i = 0; i < count; i++)
		settle(on, took_ns, outcome);
	on_law_tick(on, 10 * MS);
}

static void test_wants_a_target(void **state)
{
	const char *wrong = NULL;
	ON_LAW_REFUSES(&weir_law_adaptive_remote, "target", "percentile", "p90");
	assert_int_equal(weir_law_adaptive_remote.init(NULL, NULL, &wrong), -EINVAL);
	void *params = calloc(1, weir_law_adaptive_remote.params_bytes);
	weir_law_defaults(&weir_law_adaptive_remote, params);
	assert_int_equal(weir_law_set(&weir_law_adaptive_remote, params, "p40", "1s"), -EINVAL);
	assert_int_equal(weir_law_set(&weir_law_adaptive_remote, params, "minimum", "2"), -EINVAL);
	assert_int_equal(weir_law_set(&weir_law_adaptive_remote, params, "target", "-1s"), -EINVAL);
	free(params);
}

static void test_says_why(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	for (int i = 0; i < 100; i++)
		busy_tick(&on, 2, 20 * MS, WEIR_DONE);
	unsigned admitted = 0;
	while (on_law_admit(&on, 1) == WEIR_ADMITTED)
		assert_true(++admitted < 1000);
	assert_true(admitted > 0);
	weir_why why = on_law_explain(&on, WEIR_SHED_LATE, 1);
	assert_int_equal(why.target_ns, 200 * MS);
	assert_true(why.estimate_ns > 50 * MS && why.estimate_ns < 1000 * MS);
	assert_true(why.retry_after_ns > 0 && why.retry_after_ns < 200 * MS);
	on_law_refund(&on, 1);
	assert_int_equal(on_law_admit(&on, 1), WEIR_ADMITTED);
	on_law_close(&on);
}

static void test_drops_what_has_waited_too_long(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	assert_int_equal(on_law_start(&on, on.now_ns - 100 * MS), WEIR_ADMITTED);
	assert_int_equal(on_law_start(&on, on.now_ns - 201 * MS), WEIR_SHED_WAITED);
	assert_int_equal(on.law->patience(on.state, 0), 200 * MS);
	on_law_close(&on);
}

static void test_fast_failures_do_not_look_like_capacity(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	for (int i = 0; i < 50; i++)
		busy_tick(&on, 2, 20 * MS, WEIR_DONE);
	weir_report before = on_law_report(&on);
	for (int i = 0; i < 500; i++)
		busy_tick(&on, 50, MS / 10, WEIR_FAILED);
	weir_report after = on_law_report(&on);
	assert_true(after.rate_per_s < 1.2 * before.rate_per_s);
	assert_true(after.limit <= 2 * before.limit);
	on_law_close(&on);
}

static void test_idleness_does_not_raise_the_limit(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	for (int i = 0; i < 2000; i++) {
		on.waiting = on.sample.waiting = on.in_service = 0;
		on_law_admit(&on, 1);
		on_law_start(&on, on.now_ns);
		on.now_ns += MS;
		settle(&on, MS, WEIR_DONE);
		on_law_tick(&on, 10 * MS);
	}
	assert_int_equal(on_law_report(&on).limit, 4);
	on_law_close(&on);
}

static void test_a_drain_rate_is_not_learnt_from_an_empty_queue(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	for (int i = 0; i < 100; i++)
		busy_tick(&on, 4, 20 * MS, WEIR_DONE);
	double busy = on_law_report(&on).rate_per_s;
	for (int i = 0; i < 1000; i++) {
		on.waiting = on.sample.waiting = on.in_service = 0;
		on_law_admit(&on, 1);
		on_law_start(&on, on.now_ns);
		settle(&on, 20 * MS, WEIR_DONE);
		on_law_tick(&on, 100 * MS);
	}
	assert_true(on_law_report(&on).rate_per_s == busy);
	on_law_close(&on);
}

static void test_says_that_a_target_is_unreachable(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "20ms");
	assert_false(on_law_report(&on).unreachable);
	for (int i = 0; i < 100; i++)
		busy_tick(&on, 1, 50 * MS, WEIR_DONE);
	assert_true(on_law_report(&on).unreachable);
	on.waiting = on.sample.waiting = on.sample.in_service = 0;
	on_law_tick(&on, 10 * MS);
	assert_int_equal(on_law_admit(&on, 1), WEIR_ADMITTED); /* and goes on serving */
	on_law_close(&on);
}

static weir_verdict ask_class(on_law *on, uint8_t klass)
{
	weir_ask ask = {.now_ns = on->now_ns, .count = 1, .klass = klass};
	return on->law->admit(on->state, &ask);
}

static void test_lower_classes_take_no_room_from_higher_ones(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms", "minimum", "0");
	for (int i = 0; i < 100; i++)
		busy_tick(&on, 2, 20 * MS, WEIR_DONE);
	on.sample.waiting = 0;
	on_law_tick(&on, 10 * MS);
	for (int i = 0; i < 100; i++) /* as many as it lets in; and then some more are there */
		ask_class(&on, 3);
	for (int i = 0; i < 200; i++)
		((weir_remote *)on.state)->flow[3] += WEIR_FLOW_ADMITTED;
	assert_int_equal(ask_class(&on, 3), WEIR_SHED_LATE);
	assert_int_equal(ask_class(&on, 4), WEIR_SHED_LATE); /* it would wait behind them */
	assert_int_equal(ask_class(&on, 0), WEIR_ADMITTED);
	on_law_close(&on);
}

static void test_saves_and_loads(void **state)
{
	on_law on, other;
	char text[200];
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	ON_LAW(&other, &weir_law_adaptive_remote, "p90", "200ms");
	assert_int_equal(other.law->load(other.state, "adaptive-remote 1 limit=40.00 drain_ns=250000"), 0);
	assert_true(on_law_report(&other).limit >= 40 && on_law_report(&other).limit <= 80);
	on_law_tick(&other, 10 * MS);
	assert_true(fabs(on_law_report(&other).rate_per_s - 4000) < 1);
	assert_true(other.law->save(other.state, text, sizeof(text)) < (int)sizeof(text));
	assert_int_equal(on.law->load(on.state, text), 0);
	assert_int_equal(on_law_report(&on).limit, on_law_report(&other).limit);
	static const char *const wrong[] = {"",
					    "adaptive 1",
					    "adaptive-remote 1 limit=-4 drain_ns=1",
					    "adaptive-remote 1 limit=nan drain_ns=1",
					    "adaptive-remote 1 limit=4 drain_ns=1e99",
					    "adaptive-remote 1 limit=4 drain_ns=1 more",
					    "adaptive-remote 1 limit=0 drain_ns=1 level=-1",
					    "adaptive-remote 1 limit=0 drain_ns=1 level=nan",
					    "adaptive-remote 1 limit=0 drain_ns=1 level=1e99",
					    "adaptive-remote 1 limit=0 drain_ns=1 level=4 more"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(on.law->load(on.state, wrong[i]), -EINVAL);
	on_law_close(&on);
	on_law_close(&other);
}

/* In the slow start the level is what has been learnt: the one before it was good. */
static void test_saves_and_loads_a_slow_start(void **state)
{
	on_law on, other;
	char text[200];
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "200ms");
	ON_LAW(&other, &weir_law_adaptive_remote, "p90", "200ms");
	assert_int_equal(
		other.law->load(other.state, "adaptive-remote 1 limit=0.00 drain_ns=250000 level=64"), 0);
	assert_int_equal(on_law_report(&other).limit, 32);
	on_law_tick(&other, 10 * MS);
	assert_true(other.law->save(other.state, text, sizeof(text)) < (int)sizeof(text));
	assert_non_null(strstr(text, "limit=0.00 "));
	assert_non_null(strstr(text, " level=32"));
	assert_int_equal(on.law->load(on.state, text), 0);
	assert_int_equal(on_law_report(&on).limit, 16);
	assert_int_equal(on.law->load(on.state, "adaptive-remote 1 limit=0.00 drain_ns=1 level=1"), 0);
	assert_int_equal(on_law_report(&on).limit, 4);
	on_law_close(&on);
	on_law_close(&other);
}

/* The first answers begin an epoch at what was assumed, not anew from the first level. */
static void test_a_knee_goes_on_from_what_was_assumed(void **state)
{
	static weir_knee knee, slow;
	weir_knee_view view = {.now_ns = WEIR_NS_PER_S,
			       .response_ns = 10. * MS,
			       .tail = 1,
			       .most_ns = INFINITY,
			       .trusted = true};
	weir_knee_init(&knee);
	weir_knee_assume(&knee, 40);
	weir_knee_init(&slow);
	weir_knee_assume_level(&slow, 64);
	weir_knee_tick(&knee, &view);
	weir_knee_tick(&slow, &view);
	assert_int_equal(weir_knee_limit(&knee), 80);
	assert_int_equal(weir_knee_limit(&slow), 32);
	assert_true(knee.searching && !slow.searching);
	assert_int_equal(knee.epoch_ns, view.now_ns);
}

/* A reactor's turn may be told a time from before the offer of what it finds in its inbox. */
static void test_clocks_that_differ_a_little_drop_nothing(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "100ms");
	for (unsigned i = 0; i < 50; i++) {
		weir_event event = {.offered_ns = on.now_ns + 100};
		weir_turn turn = {.now_ns = on.now_ns, .waiting = 5, .in_service = 3};
		assert_int_equal(on_law_admit(&on, 1), WEIR_ADMITTED);
		assert_int_equal(on.law->start(on.state, &event, &turn), WEIR_ADMITTED);
		event.started_ns = on.now_ns;
		on.law->settle(on.state, &event, WEIR_DONE, on.now_ns + 50);
		event.started_ns = on.now_ns + 200;
		on.law->settle(on.state, &event, WEIR_DONE, on.now_ns + 50);
	}
	on_law_tick(&on, 10 * MS);
	assert_true(on_law_value(&on, "backend_ms") < 1);
	assert_false(on_law_report(&on).unreachable);
	assert_int_equal(atomic_load(&((weir_remote *)on.state)->late[0]), 0);
	on_law_close(&on);
}

/* Exempt events wait while only the highest class comes, and go when a lower one does: neither keeps what was theirs. */
static void test_what_others_leave_behind_is_not_held_against_a_class(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "100ms");
	on.sample.klass[0].offered = 1;
	on.sample.waiting = 50;
	on_law_tick(&on, 10 * MS);
	on.sample.klass[3].offered = 1;
	on.sample.waiting = 0;
	for (unsigned i = 0; i < 100; i++)
		on_law_tick(&on, 10 * MS);
	assert_int_equal(on_law_admit(&on, 1), WEIR_ADMITTED);
	on_law_close(&on);
}

/* A stall is over, and the load is low: the short queue that the stall has left must not last. */
static void test_a_stall_is_forgotten_without_an_overload(void **state)
{
	on_law on;
	ON_LAW(&on, &weir_law_adaptive_remote, "p90", "100ms");
	weir_drain_assume(&((weir_remote *)on.state)->drain, 500e6);
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned k = 0; k < 3; k++) {
			on_law_admit(&on, 1);
			on_law_start(&on, on.now_ns);
		}
		on_law_tick(&on, 5 * MS);
		for (unsigned k = 0; k < 3; k++)
			settle(&on, 5 * MS, WEIR_DONE);
	}
	assert_true(on_law_value(&on, "room") > 8);
	on_law_close(&on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tally_knows_times_to_three_percent),
		cmocka_unit_test(test_spread_takes_what_is_new),
		cmocka_unit_test(test_spreads_merge_and_keep_what_they_have_seen),
		cmocka_unit_test(test_overdue_after_patience_and_not_before),
		cmocka_unit_test(test_a_silent_backend_drains_slower_and_slower),
		cmocka_unit_test(test_a_refusal_bounds_at_once_and_is_forgotten_in_steps),
		cmocka_unit_test(test_flow_survives_starts_that_were_never_admitted),
		cmocka_unit_test(test_wants_a_target),
		cmocka_unit_test(test_says_why),
		cmocka_unit_test(test_drops_what_has_waited_too_long),
		cmocka_unit_test(test_fast_failures_do_not_look_like_capacity),
		cmocka_unit_test(test_idleness_does_not_raise_the_limit),
		cmocka_unit_test(test_a_drain_rate_is_not_learnt_from_an_empty_queue),
		cmocka_unit_test(test_says_that_a_target_is_unreachable),
		cmocka_unit_test(test_lower_classes_take_no_room_from_higher_ones),
		cmocka_unit_test(test_saves_and_loads),
		cmocka_unit_test(test_saves_and_loads_a_slow_start),
		cmocka_unit_test(test_a_knee_goes_on_from_what_was_assumed),
		cmocka_unit_test(test_clocks_that_differ_a_little_drop_nothing),
		cmocka_unit_test(test_what_others_leave_behind_is_not_held_against_a_class),
		cmocka_unit_test(test_a_stall_is_forgotten_without_an_overload),
	};
	return cmocka_run_group_tests_name("adaptive-remote", tests, NULL, NULL);
}
