/* SPDX-License-Identifier: Apache-2.0 */
#include "on_law.h"

#include <math.h>

#define MS WEIR_NS_PER_MS

/* An end that has waited and been served for so long. */
static void settle(on_law *a, uint64_t waited_ns, uint64_t service_ns, weir_outcome outcome)
{
	weir_event event = {.offered_ns = a->now_ns - waited_ns - service_ns,
			    .started_ns = a->now_ns - service_ns};
	a->law->settle(a->state, &event, outcome, a->now_ns);
}

/* One worker whose queue never runs empty: so many, one after the other, each with the same wait; ticks every ten. */
static void serve(on_law *a, unsigned count, uint64_t waited_ns, uint64_t service_ns, weir_outcome outcome)
{
	for (unsigned i = 0; i < count; i++) {
		on_law_admit(a, 1);
		on_law_start(a, a->now_ns - waited_ns);
		a->now_ns += service_ns;
		settle(a, waited_ns, service_ns, outcome);
		if (i % 10 == 9)
			on_law_tick(a, 0);
	}
}

/* What it says exceeds what it allows, whatever it has decided by. */
static void must_explain(const on_law *a, const weir_ask *ask, weir_verdict verdict)
{
	weir_why why = {.verdict = verdict};
	a->law->explain(a->state, ask, &why);
	if (!(why.bound_ns != 0 && why.estimate_ns > why.bound_ns && why.target_ns == 100 * MS &&
	      why.retry_after_ns > 0))
		fail_msg("%s: expected %llu, allowed %llu, target %llu, again %llu",
			 weir_verdict_name(verdict), (unsigned long long)why.estimate_ns,
			 (unsigned long long)why.bound_ns, (unsigned long long)why.target_ns,
			 (unsigned long long)why.retry_after_ns);
}

/* Some that wait, so that the queue is never empty, and a law that knows a service of this long. */
static void open_busy(on_law *a, uint64_t service_ns)
{
	ON_LAW(a, &weir_law_adaptive, "p90", "100ms");
	assert_int_equal(on_law_admit(a, 1), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(a, 1), WEIR_ADMITTED);
	serve(a, 300, 0, service_ns, WEIR_DONE);
}

static void test_what_it_accepts(void **state)
{
	ON_LAW_REFUSES(&weir_law_adaptive, "target", "percentile", "p90");
	weir_adaptive_params params;
	const char *wrong = NULL;
	void *made = malloc(weir_law_adaptive.state_bytes);
	weir_law_defaults(&weir_law_adaptive, &params);
	assert_int_equal(weir_law_adaptive.init(made, NULL, &wrong), -EINVAL);
	params.target_ns[0] = 999;
	assert_int_equal(weir_law_adaptive.init(made, &params, &wrong), -EINVAL);
	params.target_ns[0] = MS;
	params.percentile[3] = .4;
	assert_int_equal(weir_law_adaptive.init(made, &params, &wrong), -EINVAL);
	assert_non_null(strstr(wrong, "p50"));
	params.percentile[3] = 0;
	params.minimum[1] = NAN;
	assert_int_equal(weir_law_adaptive.init(made, &params, &wrong), -EINVAL);
	params.minimum[1] = 0;
	assert_int_equal(weir_law_adaptive.init(made, &params, &wrong), 0);
	free(made);
}

static void test_a_class_without_a_target_has_the_one_above(void **state)
{
	on_law a;
	weir_report report = {0};
	ON_LAW(&a, &weir_law_adaptive, "target[0]", "100ms", "target[2]", "1s", "percentile[2]", "p99");
	a.law->report(a.state, 1, &report);
	assert_int_equal(report.target_ns, 100 * MS);
	report = (weir_report){0};
	a.law->report(a.state, 7, &report);
	assert_int_equal(report.target_ns, 1000 * MS);
	assert_true(fabs(report.quantile - .99) < 1e-6);
	on_law_close(&a);
}

static void test_it_learns_the_service_time_and_the_time_per_start(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	assert_true(fabs(on_law_value(&a, "start_every_ns") / (double)(10 * MS) - 1) < .01);
	assert_true(fabs(on_law_value(&a, "service_ns") / (double)(10 * MS) - 1) < .13);
	assert_true(fabs(on_law_value(&a, "workers") - 1) < .01);
	assert_false(on_law_report(&a).unreachable);
	on_law_close(&a);
}

static void test_who_waited_too_long_is_dropped_at_its_turn(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	uint64_t limit_ns = (uint64_t)on_law_value(&a, "wait_limit_ns");
	assert_true(limit_ns > 80 * MS && limit_ns <= 200 * MS);
	on_law_admit(&a, 1);
	on_law_admit(&a, 1);
	assert_int_equal(on_law_start(&a, a.now_ns - limit_ns - MS), WEIR_SHED_WAITED);
	weir_why why = on_law_explain(&a, WEIR_SHED_WAITED, 1);
	uint64_t service_ns = (uint64_t)on_law_value(&a, "service_ns");
	assert_in_range(why.bound_ns, limit_ns + service_ns - 64, limit_ns + service_ns + 64);
	assert_in_range(why.estimate_ns, why.bound_ns + MS - 64, why.bound_ns + MS + 64);
	assert_int_equal(on_law_start(&a, a.now_ns - limit_ns + MS), WEIR_ADMITTED);
	on_law_close(&a);
}

static void test_a_queue_too_long_for_the_target_refuses_and_says_when_to_come_again(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	unsigned count = 0;
	while (on_law_admit(&a, 1) == WEIR_ADMITTED && count < 1000)
		count++;
	assert_in_range(count, 5, 25); /* at most two targets of 10 ms each, some slack */
	weir_why why = on_law_explain(&a, WEIR_SHED_LATE, 1);
	assert_int_equal(why.target_ns, 100 * MS);
	/* a wait of one start less would have been allowed: the credit of a calm time makes it up to two targets */
	assert_true(why.bound_ns > 90 * MS && why.bound_ns <= 215 * MS);
	assert_true(why.estimate_ns > why.bound_ns && why.estimate_ns <= why.bound_ns + 10 * MS);
	assert_true(why.retry_after_ns >= 9 * MS && why.retry_after_ns < 100 * MS);
	/* those that nobody will start do not count for ever */
	a.now_ns += 1000 * MS;
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	on_law_close(&a);
}

static void test_lateness_shortens_the_waits_down_to_a_floor(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	double before = on_law_value(&a, "wait_limit_ns");
	serve(&a, 2000, 0, 150 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "wait_limit_ns") < before);
	assert_true(on_law_value(&a, "credit") < -.8 * on_law_value(&a, "credit_bound"));
	assert_true(on_law_value(&a, "wait_limit_ns") >= 25e6);
	assert_true(on_law_report(&a).unreachable);
	assert_in_range(on_law_report(&a).alone_ns, 140 * MS, 170 * MS);
	assert_true(on_law_report(&a).measured_ns > 100 * MS);
	serve(&a, 6000, 0, 10 * MS, WEIR_DONE);
	assert_false(on_law_report(&a).unreachable);
	on_law_close(&a);
}

static void test_fast_failures_do_not_look_like_fast_service(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	double service = on_law_value(&a, "service_ns"), tau = on_law_value(&a, "start_every_ns");
	double credit = on_law_value(&a, "credit");
	serve(&a, 500, 0, 1000, WEIR_FAILED);
	assert_true(on_law_value(&a, "service_ns") == service);
	assert_true(on_law_value(&a, "start_every_ns") > .9 * tau);
	assert_true(on_law_value(&a, "credit") <= credit + 1);
	serve(&a, 500, 0, 1000, WEIR_REFUSED);
	assert_true(on_law_value(&a, "credit") < 0); /* overload further down counts as late */
	on_law_close(&a);
}

static void test_a_clock_that_jumps_is_not_a_slow_start(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	a.now_ns += 3600 * WEIR_NS_PER_S;
	serve(&a, 1, 0, 10 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "start_every_ns") < 11e6);
	a.now_ns -= 10 * WEIR_NS_PER_S;
	serve(&a, 1, 0, 10 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "start_every_ns") < 11e6);
	on_law_close(&a);
}

static void test_an_idle_queue_teaches_nothing_about_speed(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	for (unsigned i = 0; i < 200; i++) {
		serve(&a, 1, 0, MS, WEIR_DONE);
		a.now_ns += 500 * MS;
	}
	assert_true(on_law_value(&a, "start_every_ns") == 0);
	on_law_close(&a);
}

/* The first burst is admitted, and its starts, all in one turn, tell that the service is quick. */
static void test_bursts_are_no_evidence(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	for (unsigned burst = 64; burst <= 256; burst *= 4) {
		for (unsigned i = 0; i < burst; i++)
			assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
		for (unsigned i = 0; i < burst; i++)
			on_law_start(&a, a.now_ns);
		on_law_tick(&a, 10 * MS);
	}
	on_law_close(&a);
}

/* While nothing is known, 64 may wait for each in service. Nobody may wait behind one that has waited half of its limit. */
static void test_what_waits_while_nothing_is_known_is_bounded(void **state)
{
	on_law a;
	unsigned count = 0;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	while (count < 1000 && on_law_admit(&a, 1) == WEIR_ADMITTED)
		count++;
	assert_int_equal(count, 64);
	on_law_close(&a);
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	a.now_ns += 90 * MS;
	assert_int_equal(on_law_admit(&a, 1), WEIR_SHED_LATE);
	on_law_close(&a);
}

static void test_too_few_samples_change_nothing(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	double before = on_law_value(&a, "wait_limit_ns");
	serve(&a, 10, 0, 90 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "service_ns") == 0);
	assert_true(on_law_value(&a, "wait_limit_ns") == before);
	on_law_close(&a);
}

/* Offers of a load that is too much, one start at a time. */
static void overload(on_law *a, unsigned starts)
{
	for (unsigned i = 0; i < starts; i++) {
		on_law_admit(a, 1);
		on_law_admit(a, 1);
		serve(a, 1, 0, 10 * MS, WEIR_DONE);
	}
}

static void test_credit_saved_in_calm_is_forfeited_in_overload(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	serve(&a, 2000, 0, 10 * MS, WEIR_DONE);
	double bound = on_law_value(&a, "credit_bound");
	assert_true(on_law_value(&a, "credit") > 5 * bound);
	overload(&a, 100);
	assert_true(on_law_value(&a, "load") > 1.3);
	assert_true(on_law_value(&a, "credit") < .2 * bound);
	on_law_close(&a);
}

/* One worker goes on with what waits, and only every other turn somebody comes. */
static void calm_turns(on_law *a, unsigned turns)
{
	for (unsigned i = 0; i < turns; i++) {
		if (i % 2 == 1)
			on_law_admit(a, 1);
		on_law_start(a, a->now_ns);
		a->now_ns += 10 * MS;
		settle(a, 0, 10 * MS, WEIR_DONE);
	}
}

static void test_a_fall_of_the_load_is_seen_in_a_few_turns(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	overload(&a, 100);
	double credit = on_law_value(&a, "credit");
	assert_true(on_law_value(&a, "load") > 1.3);
	calm_turns(&a, 8);
	assert_true(on_law_value(&a, "load") < 1);
	/* what was held back as a margin has been earned: 100 starts of .05, and eight of .1 */
	assert_true(on_law_value(&a, "credit") > credit + 3);
	assert_true(on_law_value(&a, "credit") < credit + 7);
	on_law_close(&a);
}

static void test_what_overload_has_left_uses_up_no_credit_of_those_who_come_after_it(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	overload(&a, 100);
	uint64_t fell_ns = a.now_ns;
	calm_turns(&a, 8);
	/* the same wait, from well before the fall and from after it */
	a.now_ns = fell_ns + 100 * MS;
	assert_true(on_law_value(&a, "wait_limit_ns") > (double)(165 * MS));
	assert_int_equal(on_law_start(&a, a.now_ns - 160 * MS), WEIR_SHED_WAITED);
	a.now_ns = fell_ns + 165 * MS;
	assert_int_equal(on_law_start(&a, a.now_ns - 160 * MS), WEIR_ADMITTED);
	on_law_close(&a);
}

static void test_an_offer_after_the_fall_does_not_wait_for_a_turn_to_be_let_in(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	overload(&a, 100);
	/* a queue of young ones, and a look at the load just now */
	for (unsigned i = 0; i < 100; i++)
		on_law_gone(&a, a.now_ns);
	for (unsigned i = 0; i < 20; i++)
		on_law_admit(&a, 1);
	on_law_start(&a, a.now_ns);
	on_law_admit(&a, 1);
	assert_int_equal(on_law_admit(&a, 1), WEIR_SHED_LATE);
	a.now_ns += 50 * MS; /* a long service: no turn, and nobody came */
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	on_law_close(&a);
}

static void test_a_small_debt_in_calm_does_not_cut_the_waits(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	double bound = on_law_value(&a, "credit_bound");
	while (on_law_value(&a, "credit") > -.2 * bound)
		settle(&a, 0, MS, WEIR_REFUSED);
	serve(&a, 1, 0, 10 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "wait_limit_ns") > (double)(100 * MS));
	while (on_law_value(&a, "credit") > -.8 * bound)
		settle(&a, 0, MS, WEIR_REFUSED);
	serve(&a, 1, 0, 10 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "wait_limit_ns") < (double)(88 * MS));
	on_law_close(&a);
}

static weir_verdict admit_lower(on_law *a)
{
	weir_ask ask = on_law_ask(a, 1);
	ask.klass = 1;
	return a->law->admit(a->state, &ask);
}

/* The highest class is always there, and the stage starts it first. */
static void test_a_class_that_never_has_its_turn_is_pledged_one(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	assert_int_equal(admit_lower(&a), WEIR_ADMITTED);
	uint64_t offered_ns = a.now_ns;
	serve(&a, 500, 0, 10 * MS, WEIR_DONE);
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	/* Starved: it would be refused, but for what it is owed; then the highest is held back. */
	assert_int_equal(admit_lower(&a), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&a, 1), WEIR_SHED_LATE);
	assert_int_equal(on_law_explain(&a, WEIR_SHED_LATE, 1).bound_ns,
			 0); /* it was not decided by a time */
	assert_true(a.law->patience(a.state, 1) == UINT64_MAX);
	weir_event pledged = {.offered_ns = a.now_ns, .klass = 1},
		   old = {.offered_ns = offered_ns, .klass = 1};
	a.now_ns += 300 * MS;
	weir_turn turn = {.now_ns = a.now_ns};
	/* The pledge is not for one that came long before it, nor used up by it. */
	assert_int_equal(a.law->start(a.state, &old, &turn), WEIR_SHED_WAITED);
	assert_int_equal(on_law_admit(&a, 1), WEIR_SHED_LATE);
	assert_int_equal(a.law->start(a.state, &pledged, &turn), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	assert_int_equal(a.law->start(a.state, &pledged, &turn), WEIR_SHED_WAITED);
	on_law_close(&a);
}

static void test_refunds_and_the_gone_leave_no_trace(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	unsigned count = 0;
	while (on_law_admit(&a, 1) == WEIR_ADMITTED)
		count++;
	on_law_refund(&a, 1);
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	assert_int_not_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	for (unsigned i = 0; i < count; i++)
		on_law_gone(&a, a.now_ns);
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	on_law_close(&a);
}

/* As in a dry run or under a ceiling: refused, and there all the same. */
static void test_starts_of_what_it_refused_do_not_blind_it(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	for (unsigned i = 0; i < 1000; i++)
		on_law_start(&a, a.now_ns);
	unsigned count = 0;
	while (on_law_admit(&a, 1) == WEIR_ADMITTED && count < 1000)
		count++;
	assert_in_range(count, 5, 40);
	on_law_close(&a);
}

/* The offerer's clock is a little ahead of the starter's, and that one of the finisher's. */
static void test_clocks_that_differ_a_little_earn_no_credit(void **state)
{
	on_law a, b;
	open_busy(&a, 10 * MS);
	open_busy(&b, 10 * MS);
	for (unsigned i = 0; i < 20; i++) {
		weir_event event = {.offered_ns = a.now_ns + 100, .started_ns = a.now_ns};
		a.law->settle(a.state, &event, WEIR_DONE, a.now_ns + MS);
		event.offered_ns = b.now_ns;
		event.started_ns = b.now_ns;
		b.law->settle(b.state, &event, WEIR_DONE, b.now_ns + MS);
	}
	assert_true(fabs(on_law_value(&a, "credit") - on_law_value(&b, "credit")) < .01);
	assert_true(on_law_report(&a).measured_ns < 50 * MS);
	on_law_close(&a);
	on_law_close(&b);
}

/* Reserved, seen by a start, and given back. */
static void test_refunds_are_no_load(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	for (unsigned i = 0; i < 20; i++) {
		on_law_admit(&a, 100);
		serve(&a, 1, 0, 10 * MS, WEIR_DONE);
		on_law_refund(&a, 100);
		serve(&a, 1, 0, 10 * MS, WEIR_DONE);
		assert_true(on_law_value(&a, "load") < 100);
	}
	serve(&a, 200, 0, 10 * MS, WEIR_DONE);
	assert_true(on_law_value(&a, "load") < 1.2);
	on_law_close(&a);
}

static void test_overload_is_seen_at_once_on_an_old_clock_and_after_a_quiet_hour(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	a.now_ns = 365 * 86400 * WEIR_NS_PER_S;
	on_law_admit(&a, 1);
	overload(&a, 60);
	on_law_tick(&a, 0);
	overload(&a, 40);
	assert_true(on_law_value(&a, "load") > 1.3);
	a.now_ns += 3600 * WEIR_NS_PER_S;
	overload(&a, 100);
	assert_true(on_law_value(&a, "load") > 1.3);
	on_law_close(&a);
}

/* Two slow ones in a row are the first it sees: with one worker and nobody else let wait, it would never see another. */
static void test_a_slow_beginning_is_not_believed_for_ever(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED);
	assert_int_equal(on_law_start(&a, a.now_ns), WEIR_ADMITTED);
	for (unsigned i = 0; i < 3; i++) {
		a.now_ns += 2000 * MS;
		settle(&a, MS, 2000 * MS, WEIR_DONE);
		assert_int_equal(on_law_start(&a, a.now_ns - MS), WEIR_ADMITTED);
	}
	assert_true(on_law_value(&a, "start_every_ns") > 1e9);
	/* Then it is fast, and as many come as could be served twice over. */
	for (unsigned i = 0; i < 2000; i++) {
		on_law_admit(&a, 1);
		on_law_admit(&a, 1);
		on_law_start(&a, a.now_ns);
		a.now_ns += MS;
		settle(&a, 0, MS, WEIR_DONE);
		on_law_tick(&a, 0);
	}
	assert_true(on_law_value(&a, "start_every_ns") < 2e6);
	on_law_close(&a);
}

static void test_a_class_does_not_starve_from_the_day_it_comes(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	serve(&a, 1000, 0, 10 * MS, WEIR_DONE);
	assert_int_equal(admit_lower(&a), WEIR_ADMITTED);
	on_law_tick(&a, 0);
	assert_int_equal(admit_lower(&a), WEIR_ADMITTED);
	assert_int_equal(on_law_admit(&a, 1), WEIR_ADMITTED); /* nobody is held back for it */
	on_law_close(&a);
}

static void test_what_it_has_learnt_can_be_saved_and_loaded(void **state)
{
	on_law a, b;
	char text[4096];
	open_busy(&a, 10 * MS);
	int length = a.law->save(a.state, text, sizeof(text));
	assert_true(length > 0 && (size_t)length < sizeof(text));
	assert_int_equal(a.law->save(a.state, NULL, 0), length);
	ON_LAW(&b, &weir_law_adaptive, "p90", "100ms");
	assert_int_equal(b.law->load(b.state, text), 0);
	assert_true(fabs(on_law_value(&b, "start_every_ns") / on_law_value(&a, "start_every_ns") - 1) < .01);
	assert_true(fabs(on_law_value(&b, "service_ns") / on_law_value(&a, "service_ns") - 1) < .13);
	on_law_close(&b);
	static const char *const bad[] = {"",
					  "aimd 1",
					  "adaptive 1 0",
					  "adaptive 1 9 1 1",
					  "adaptive 1 x",
					  "adaptive 1 0 nan 1 1 1 1 1 1 1 1 1 1 1 1 1"};
	ON_LAW(&b, &weir_law_adaptive, "p90", "100ms");
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(b.law->load(b.state, bad[i]), -EINVAL);
	assert_true(on_law_value(&b, "start_every_ns") == 0);
	on_law_close(&a);
	on_law_close(&b);
}

/* ---- on a pool that several stages share ---- */

static weir_verdict ask_pool(on_law *a, uint64_t ahead_ns, uint64_t total_ns, uint64_t spent_ns)
{
	weir_ask ask = {.now_ns = a->now_ns,
			.entered_ns = a->now_ns - spent_ns,
			.count = 1,
			.shared = true,
			.ahead_ns = ahead_ns,
			.total_ns = total_ns,
			.bound_ns = 100 * MS};
	return a->law->admit(a->state, &ask);
}

static void tick_pool(on_law *a, double load)
{
	weir_sample sample = {.now_ns = a->now_ns, .interval_ns = 10 * MS, .shared = true, .pool_quality = 1};
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		sample.pool_load[k] = load;
	a->law->tick(a->state, &sample);
}

static void test_on_a_pool_it_goes_by_what_waits_in_all_stages(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	tick_pool(&a, 2);
	assert_int_equal(ask_pool(&a, 0, 900 * MS, 0), WEIR_ADMITTED); /* nothing goes before it */
	assert_int_equal(ask_pool(&a, 10 * MS, 10 * MS, 0), WEIR_ADMITTED);
	assert_int_equal(ask_pool(&a, 95 * MS, 95 * MS, 0), WEIR_SHED_LATE);
	assert_int_equal(ask_pool(&a, 10 * MS, 95 * MS, 0), WEIR_SHED_LATE); /* the others would be late */
	tick_pool(&a, .5);
	assert_int_equal(ask_pool(&a, 10 * MS, 95 * MS, 0), WEIR_ADMITTED); /* in calm there is time */
	on_law_close(&a);
}

/* A stage that can use a part of the pool only: its own queue is empty here. */
static weir_verdict ask_beside(on_law *a, uint64_t total_ns)
{
	weir_ask ask = {.now_ns = a->now_ns,
			.entered_ns = a->now_ns,
			.count = 1,
			.beside = true,
			.ahead_ns = total_ns,
			.total_ns = total_ns,
			.bound_ns = 100 * MS};
	return a->law->admit(a->state, &ask);
}

static void test_beside_a_pool_it_lets_nobody_in_for_whom_the_others_leave_no_room(void **state)
{
	on_law a;
	ON_LAW(&a, &weir_law_adaptive, "p90", "100ms");
	tick_pool(&a, 2);
	assert_int_equal(ask_beside(&a, 0), WEIR_ADMITTED);
	assert_int_equal(ask_beside(&a, 95 * MS), WEIR_SHED_LATE);
	tick_pool(&a, .5);
	assert_int_equal(ask_beside(&a, 95 * MS), WEIR_ADMITTED); /* in calm there is time */
	on_law_close(&a);
}

static void test_a_request_has_what_is_left_of_its_target(void **state)
{
	on_law a;
	open_busy(&a, 10 * MS);
	tick_pool(&a, 2);
	assert_int_equal(ask_pool(&a, 20 * MS, 20 * MS, 0), WEIR_ADMITTED);
	assert_int_equal(ask_pool(&a, 20 * MS, 20 * MS, 140 * MS), WEIR_SHED_LATE);
	assert_int_equal(ask_pool(&a, 1 * MS, 1 * MS, 500 * MS),
			 WEIR_ADMITTED); /* late anyhow, and hardly has to wait */
	on_law_close(&a);
}

static void test_who_is_let_in_on_a_pool_is_started(void **state)
{
	on_law a;
	weir_turn turn = {.shared = true};
	open_busy(&a, 10 * MS);
	tick_pool(&a, 2);
	assert_int_equal(ask_pool(&a, 0, 0, 0), WEIR_ADMITTED);
	turn.now_ns = a.now_ns;
	weir_event event = {.entered_ns = a.now_ns - 150 * MS, .offered_ns = a.now_ns - 150 * MS};
	assert_int_equal(a.law->start(a.state, &event, &turn), WEIR_ADMITTED);
	event.entered_ns = event.offered_ns =
		a.now_ns - 500 * MS; /* the others are in time: one may be late */
	assert_int_equal(a.law->start(a.state, &event, &turn), WEIR_ADMITTED);
	on_law_close(&a);
}

/* Loads, speeds and times spent elsewhere that bring it into any state: with a queue of its own ... */
static void queue_oddly(on_law *a, unsigned *explained)
{
	for (unsigned i = 0; i < 60; i++) {
		weir_ask ask = on_law_ask(a, 1);
		ask.entered_ns = i % 3 == 0 ? 0 : a->now_ns - i * 3 * MS;
		if (a->law->admit(a->state, &ask) == WEIR_ADMITTED)
			continue;
		must_explain(a, &ask, WEIR_SHED_LATE);
		++*explained;
	}
	for (unsigned i = 0; i < 60; i++) {
		weir_ask ask = on_law_ask(a, 1);
		if (on_law_start(a, a->now_ns - i * 5 * MS) != WEIR_SHED_WAITED)
			continue;
		must_explain(a, &ask, WEIR_SHED_WAITED);
		++*explained;
	}
	on_law_gone(a, a->now_ns - 1000 * MS); /* by its patience */
	weir_ask ask = on_law_ask(a, 1);
	must_explain(a, &ask, WEIR_SHED_WAITED);
}

/* ... and on a pool. */
static void pool_oddly(on_law *a, double load, unsigned *explained)
{
	tick_pool(a, load);
	for (unsigned i = 0; i < 100; i++) {
		weir_ask ask = {.now_ns = a->now_ns,
				.entered_ns = a->now_ns - i % 7 * 30 * MS,
				.count = 1,
				.shared = i % 5 != 0,
				.beside = i % 5 == 0,
				.ahead_ns = i * 2 * MS,
				.total_ns = i * 3 * MS,
				.bound_ns = i % 4 * 40 * MS};
		if (a->law->admit(a->state, &ask) == WEIR_ADMITTED)
			continue;
		must_explain(a, &ask, WEIR_SHED_LATE);
		++*explained;
	}
}

static void test_every_refusal_says_which_bound_it_exceeded(void **state)
{
	static const double loads[] = {.5, 1.1, 1.3, 4};
	unsigned explained = 0;
	for (unsigned i = 0; i < 40; i++) {
		on_law a;
		open_busy(&a, (1 + i % 9) * 5 * MS);
		serve(&a, 50 * (i % 4), i % 5 * 20 * MS, (1 + i % 7) * 8 * MS, WEIR_DONE);
		queue_oddly(&a, &explained);
		pool_oddly(&a, loads[i % 4], &explained);
		on_law_close(&a);
	}
	assert_true(explained > 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_accepts),
		cmocka_unit_test(test_every_refusal_says_which_bound_it_exceeded),
		cmocka_unit_test(test_on_a_pool_it_goes_by_what_waits_in_all_stages),
		cmocka_unit_test(test_beside_a_pool_it_lets_nobody_in_for_whom_the_others_leave_no_room),
		cmocka_unit_test(test_a_request_has_what_is_left_of_its_target),
		cmocka_unit_test(test_who_is_let_in_on_a_pool_is_started),
		cmocka_unit_test(test_a_class_without_a_target_has_the_one_above),
		cmocka_unit_test(test_it_learns_the_service_time_and_the_time_per_start),
		cmocka_unit_test(test_who_waited_too_long_is_dropped_at_its_turn),
		cmocka_unit_test(test_a_queue_too_long_for_the_target_refuses_and_says_when_to_come_again),
		cmocka_unit_test(test_lateness_shortens_the_waits_down_to_a_floor),
		cmocka_unit_test(test_fast_failures_do_not_look_like_fast_service),
		cmocka_unit_test(test_a_clock_that_jumps_is_not_a_slow_start),
		cmocka_unit_test(test_an_idle_queue_teaches_nothing_about_speed),
		cmocka_unit_test(test_bursts_are_no_evidence),
		cmocka_unit_test(test_what_waits_while_nothing_is_known_is_bounded),
		cmocka_unit_test(test_too_few_samples_change_nothing),
		cmocka_unit_test(test_credit_saved_in_calm_is_forfeited_in_overload),
		cmocka_unit_test(test_a_fall_of_the_load_is_seen_in_a_few_turns),
		cmocka_unit_test(test_what_overload_has_left_uses_up_no_credit_of_those_who_come_after_it),
		cmocka_unit_test(test_an_offer_after_the_fall_does_not_wait_for_a_turn_to_be_let_in),
		cmocka_unit_test(test_a_small_debt_in_calm_does_not_cut_the_waits),
		cmocka_unit_test(test_a_class_that_never_has_its_turn_is_pledged_one),
		cmocka_unit_test(test_refunds_and_the_gone_leave_no_trace),
		cmocka_unit_test(test_starts_of_what_it_refused_do_not_blind_it),
		cmocka_unit_test(test_clocks_that_differ_a_little_earn_no_credit),
		cmocka_unit_test(test_refunds_are_no_load),
		cmocka_unit_test(test_overload_is_seen_at_once_on_an_old_clock_and_after_a_quiet_hour),
		cmocka_unit_test(test_a_slow_beginning_is_not_believed_for_ever),
		cmocka_unit_test(test_a_class_does_not_starve_from_the_day_it_comes),
		cmocka_unit_test(test_what_it_has_learnt_can_be_saved_and_loaded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
