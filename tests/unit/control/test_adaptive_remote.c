/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote` through its hooks: what it counts, what it says, what it saves. What it does in a world: tests/sim/test_adaptive_remote.c.
 */
#include "on_law.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define MS   WEIR_NS_PER_MS
#define LAW  (&weir_law_adaptive_remote)
#define MOST 8192 /* events that wait, and as many in the backend */

/* ---- a backend in steps of a millisecond ---- */

struct row {
	weir_event event[MOST];
	uint64_t end_ns[MOST];
	unsigned first, count;
};

/* A stage's queue by class, and a FIFO backend of so many workers that take work_ns each. */
struct backend {
	on_law on;
	struct row waiting[2], inside;
	uint64_t free_ns[64]; /* when each worker is free */
	unsigned workers;
	uint64_t work_ns;
	double due;             /* of the arrivals of class 0, a part of the next one */
	unsigned offered[2];    /* since the last tick */
	uint64_t shed, started; /* ever */
	void (*on_shed)(struct backend *b, const weir_ask *ask);
};

static weir_event *push(struct row *row)
{
	assert_true(row->count < MOST);
	return &row->event[(row->first + row->count++) % MOST];
}

static weir_event pop(struct row *row)
{
	weir_event event = row->event[row->first];
	row->first = (row->first + 1) % MOST;
	row->count--;
	return event;
}

static void open_backend(struct backend *b, unsigned workers, uint64_t work_ns)
{
	memset((char *)b + sizeof(b->on), 0, sizeof(*b) - sizeof(b->on));
	b->workers = workers;
	b->work_ns = work_ns;
}

static bool offer(struct backend *b, uint8_t klass)
{
	weir_ask ask = {.now_ns = b->on.now_ns, .count = 1, .klass = klass};
	b->offered[klass]++;
	if (b->on.law->admit(b->on.state, &ask) != WEIR_ADMITTED) {
		b->shed++;
		if (b->on_shed != NULL)
			b->on_shed(b, &ask);
		return false;
	}
	*push(&b->waiting[klass]) =
		(weir_event){.entered_ns = b->on.now_ns, .offered_ns = b->on.now_ns, .klass = klass};
	return true;
}

static void start_next(struct backend *b)
{
	weir_event event = pop(&b->waiting[b->waiting[0].count != 0 ? 0 : 1]);
	weir_turn turn = {.now_ns = b->on.now_ns, .in_service = b->inside.count, .note = event.note};
	unsigned soonest = 0;
	assert_int_equal(b->on.law->start(b->on.state, &event, &turn), WEIR_ADMITTED);
	event.started_ns = b->on.now_ns;
	for (unsigned i = 1; i < b->workers; i++)
		if (b->free_ns[i] < b->free_ns[soonest])
			soonest = i;
	uint64_t from_ns = b->free_ns[soonest] > b->on.now_ns ? b->free_ns[soonest] : b->on.now_ns;
	b->free_ns[soonest] = from_ns + b->work_ns;
	b->inside.end_ns[(b->inside.first + b->inside.count) % MOST] = b->free_ns[soonest];
	*push(&b->inside) = event;
	b->started++;
}

static void tick(struct backend *b)
{
	b->on.sample.waiting = b->waiting[0].count + b->waiting[1].count;
	b->on.sample.in_service = b->inside.count;
	for (unsigned k = 0; k < 2; k++) {
		b->on.sample.klass[k].offered = b->offered[k];
		b->offered[k] = 0;
	}
	on_law_tick(&b->on, 10 * MS);
	b->on.now_ns -= 10 * MS; /* the steps have gone so far already */
}

/* One millisecond: answers, arrivals, starts; each tenth ends with a tick. */
static void step(struct backend *b, double per_s, unsigned lower)
{
	b->on.now_ns += MS;
	while (b->inside.count != 0 && b->inside.end_ns[b->inside.first] <= b->on.now_ns) {
		weir_event event = pop(&b->inside);
		b->on.law->settle(b->on.state, &event, WEIR_DONE, b->on.now_ns);
	}
	for (b->due += per_s / 1000; b->due >= 1; b->due--)
		offer(b, 0);
	for (; lower != 0; lower--)
		offer(b, 1);
	while (b->waiting[0].count + b->waiting[1].count != 0 &&
	       b->inside.count < b->on.law->limit(b->on.state))
		start_next(b);
	if (b->on.now_ns / MS % 10 == 0)
		tick(b);
}

static void run(struct backend *b, double per_s, double s)
{
	for (unsigned i = 0; i < s * 1000; i++)
		step(b, per_s, 0);
}

static struct backend backend;

/* Four workers of 20 ms, 200 a second, and 200 ms to hold: overloaded five times over. */
static struct backend *overloaded(void)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	run(&backend, 1000, 5);
	assert_true(backend.shed > 2000);
	return &backend;
}

/* ---- parameters ---- */

static void wants_a_target(void **state)
{
	const char *wrong = NULL;
	ON_LAW_REFUSES(LAW, "target", "percentile", "p90");
	assert_int_equal(LAW->init(NULL, NULL, &wrong), -EINVAL);
	assert_non_null(wrong);
}

static void refuses_what_makes_no_sense(void **state)
{
	static const char *const wrong[][2] = {{"p40", "1s"},
					       {"percentile", "p99.99"},
					       {"minimum", "2"},
					       {"minimum", "-.1"},
					       {"target", "-1s"},
					       {"target", "0s"},
					       {"target[1]", "2h"},
					       {"quality_min", "2"},
					       {"quality_min", "0"},
					       {"guaranteed", "-1/s"},
					       {"guaranteed[2]", "2000000000/s"},
					       {"guaranteed", "many"}};
	void *params = calloc(1, LAW->params_bytes);
	assert_non_null(params);
	weir_law_defaults(LAW, params);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (weir_law_set(LAW, params, wrong[i][0], wrong[i][1]) != -EINVAL)
			fail_msg("%s = %s is accepted", wrong[i][0], wrong[i][1]);
	free(params);
}

static void checks_parameters_that_are_no_text(void **state)
{
	weir_adaptive_remote_params params;
	weir_law_defaults(LAW, &params);
	params.target_ns[0] = MS;
	assert_int_equal(weir_law_check(LAW, &params), 0);
	params.quality_min = 0; /* the default */
	assert_int_equal(weir_law_check(LAW, &params), 0);
	params.quality_min = NAN;
	assert_int_equal(weir_law_check(LAW, &params), -EINVAL);
	params.quality_min = .1;
	params.minimum[7] = .6;
	assert_int_equal(weir_law_check(LAW, &params), -EINVAL);
	params.minimum[7] = 0;
	params.guaranteed_per_s[3] = NAN;
	assert_int_equal(weir_law_check(LAW, &params), -EINVAL);
	params.guaranteed_per_s[3] = 0;
	assert_int_equal(weir_law_check(LAW, &params), 0);
	params.target_ns[5] = 1;
	assert_int_equal(weir_law_check(LAW, &params), -EINVAL);
}

static void a_class_without_a_target_has_that_of_the_class_above(void **state)
{
	static const uint64_t wanted_ms[] = {200, 200, 500, 500, 500, 100, 100, 100};
	on_law on;
	ON_LAW(&on, LAW, "target[0]", "200ms", "target[2]", "500ms", "target[5]", "100ms");
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_report report = {0};
		on.law->report(on.state, k, &report);
		assert_int_equal(report.target_ns, wanted_ms[k] * MS);
		assert_true(report.quantile == .9);
	}
	on_law_close(&on);
}

/* ---- what it counts ---- */

/* What waits and what the backend has, of all classes. Without congestion each counts as one. */
static double inside(const on_law *on)
{
	weir_report report = {0};
	on->law->report(on->state, WEIR_CLASSES - 1, &report);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, "inside") == 0)
			return report.value[i].value;
	fail_msg("it does not say how many are inside");
	return 0;
}

static void what_is_taken_back_or_goes_does_not_count(void **state)
{
	on_law on;
	ON_LAW(&on, LAW, "p90", "200ms");
	assert_int_equal(on_law_admit(&on, 7), WEIR_ADMITTED);
	assert_true(inside(&on) == 7);
	on_law_refund(&on, 4);
	assert_true(inside(&on) == 3);
	for (unsigned i = 0; i < 3; i++)
		on_law_gone(&on, on.now_ns);
	assert_true(inside(&on) == 0);
	on_law_close(&on);
}

static void what_ends_does_not_count_however_it_ends(void **state)
{
	static const weir_outcome outcomes[] = {WEIR_DONE, WEIR_FAILED, WEIR_REFUSED};
	on_law on;
	ON_LAW(&on, LAW, "p90", "200ms");
	for (unsigned i = 0; i < 30; i++) {
		weir_event event = {.entered_ns = on.now_ns,
				    .offered_ns = on.now_ns,
				    .klass = (uint8_t)(i % WEIR_CLASSES)};
		weir_ask ask = {.now_ns = on.now_ns, .count = 1, .klass = event.klass};
		weir_turn turn = {.now_ns = on.now_ns, .note = event.note};
		assert_int_equal(on.law->admit(on.state, &ask), WEIR_ADMITTED);
		assert_int_equal(on.law->start(on.state, &event, &turn), WEIR_ADMITTED);
		event.started_ns = on.now_ns;
		assert_true(inside(&on) == 1);
		on.now_ns += 5 * MS;
		on.law->settle(on.state, &event, outcomes[i % 3], on.now_ns);
		assert_true(inside(&on) == 0);
		on_law_tick(&on, 10 * MS);
	}
	assert_false(on_law_report(&on).shedding);
	assert_true(on_law_report(&on).measured_ns > 4 * MS && on_law_report(&on).measured_ns < 6 * MS);
	on_law_close(&on);
}

/* Exempt events, and those of a dry run, come and go without an admit. The runtime's own count corrects the law's. */
static void starts_that_were_not_admitted_leave_nothing_behind(void **state)
{
	on_law on;
	ON_LAW(&on, LAW, "p90", "200ms");
	for (unsigned i = 0; i < 100; i++) {
		weir_event event = {.entered_ns = on.now_ns, .offered_ns = on.now_ns};
		weir_turn turn = {.now_ns = on.now_ns, .note = event.note};
		on.law->start(on.state, &event, &turn);
		event.started_ns = on.now_ns;
		on.law->settle(on.state, &event, WEIR_DONE, on.now_ns + MS);
	}
	on_law_tick(&on, 10 * MS);
	assert_true(inside(&on) == 0);
	on_law_admit(&on, 1);
	assert_true(inside(&on) == 1);
	on_law_close(&on);
}

static void hung_requests_are_forgotten_and_may_come_back(void **state)
{
	on_law on;
	weir_event event[10];
	ON_LAW(&on, LAW, "p90", "200ms");
	on_law_tick(&on, 10 * MS);
	uint64_t started_ns = on.now_ns;
	for (unsigned i = 0; i < 10; i++) {
		event[i] = (weir_event){
			.entered_ns = started_ns, .offered_ns = started_ns, .started_ns = started_ns};
		weir_turn turn = {.now_ns = started_ns, .note = event[i].note};
		on_law_admit(&on, 1);
		on.law->start(on.state, &event[i], &turn);
	}
	for (unsigned i = 0; i < 20; i++)
		on_law_tick(&on, 10 * MS);
	assert_true(inside(&on) == 10); /* a target later they are only late */
	for (unsigned i = 0; i < 6000; i++)
		on_law_tick(&on, 10 * MS);
	assert_true(inside(&on) == 0);
	for (unsigned i = 0; i < 5; i++)
		on.law->settle(on.state, &event[i], WEIR_FAILED, on.now_ns);
	assert_true(inside(&on) == 0);
	on_law_tick(&on, 3600 * WEIR_NS_PER_S); /* a long sleep */
	for (unsigned i = 5; i < 10; i++)
		on.law->settle(on.state, &event[i], WEIR_DONE, on.now_ns);
	assert_true(inside(&on) == 0);
	on_law_close(&on);
}

/* A reactor's turn may be told a time from before the offer of what it finds in its inbox. */
static void clocks_that_differ_a_little_harm_nobody(void **state)
{
	on_law on;
	ON_LAW(&on, LAW, "p90", "100ms");
	for (unsigned i = 0; i < 200; i++) {
		weir_event event = {.offered_ns = on.now_ns + 100, .entered_ns = on.now_ns + 200};
		weir_ask ask = {.now_ns = on.now_ns, .entered_ns = on.now_ns + 200, .count = 1};
		weir_turn turn = {.now_ns = on.now_ns, .note = event.note};
		assert_int_equal(on.law->admit(on.state, &ask), WEIR_ADMITTED);
		assert_int_equal(on.law->start(on.state, &event, &turn), WEIR_ADMITTED);
		event.started_ns = on.now_ns + 100;
		on.law->settle(on.state, &event, WEIR_DONE, on.now_ns + 50);
		on_law_tick(&on, MS);
	}
	assert_false(on_law_report(&on).unreachable);
	assert_true(on_law_report(&on).measured_ns < MS);
	assert_true(isfinite(on_law_report(&on).rate_per_s));
	on_law_close(&on);
}

/* ---- without evidence it is open ---- */

static void all_are_admitted_while_there_is_no_evidence(void **state)
{
	on_law on;
	ON_LAW(&on, LAW, "p90", "200ms");
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(on_law_admit(&on, 1), WEIR_ADMITTED);
	assert_int_equal(on.law->limit(on.state), 16);
	assert_false(on.law->calm(on.state)); /* not known yet, so times are not taken for costs */
	assert_true(on.law->patience(on.state, 0) == UINT64_MAX);
	assert_int_equal(on_law_report(&on).limit, 0);
	assert_int_equal(on_law_report(&on).alone_ns, 0);
	assert_false(on_law_report(&on).shedding);
	on_law_close(&on);
}

static void a_load_that_the_backend_takes_is_let_in(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 30);
	assert_int_equal(backend.shed, 0);
	assert_true(backend.on.law->calm(backend.on.state));
	weir_report report = on_law_report(&backend.on);
	assert_true(report.alone_ns > 15 * MS && report.alone_ns < 30 * MS);
	assert_false(report.unreachable);
	on_law_close(&backend.on);
}

/* The backend gets more at once while requests wait and none is slow for it. */
static void the_limit_doubles_where_it_costs_nothing(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "1s");
	open_backend(&backend, 64, 50 * MS);
	run(&backend, 1200, 5); /* 60 inside */
	assert_true(backend.on.law->limit(backend.on.state) >= 64);
	assert_int_equal(backend.shed, 0);
	on_law_close(&backend.on);
}

/* ---- overload ---- */

static void overload_is_bounded_and_nothing_is_refused_at_its_start(void **state)
{
	struct backend *b = overloaded();
	uint64_t before = b->started;
	run(b, 1000, 5);
	assert_true(b->started - before > 190 * 5 && b->started - before < 210 * 5);
	weir_report report = on_law_report(&b->on);
	assert_true(report.shedding && !report.unreachable);
	assert_true(report.limit > 0 &&
		    report.limit <= 80); /* 200 a second in 200 ms, and the room that beta has */
	assert_true(report.rate_per_s > 150 && report.rate_per_s < 260);
	assert_false(b->on.law->calm(b->on.state));
	on_law_close(&b->on);
}

/* More than a second of work comes at once. Once that is seen, credit is no reason to admit more who would be late, too. */
static void nobody_comes_in_above_the_limit_while_a_backlog_drains(void **state)
{
	struct backend *b = &backend;
	ON_LAW(&b->on, LAW, "p90", "200ms");
	open_backend(b, 4, 20 * MS);
	run(b, 100, 3);
	for (unsigned i = 0; i < 250; i++)
		offer(b, 0);
	for (unsigned i = 0; i < 100 && b->on.law->patience(b->on.state, 0) == UINT64_MAX; i++)
		run(b, 1000, .01);
	uint64_t before = b->shed;
	unsigned ms = 0;
	assert_true(b->on.law->patience(b->on.state, 0) == 400 * MS); /* later is hopeless */
	for (; b->waiting[0].count + b->inside.count > on_law_report(&b->on).limit; ms++)
		run(b, 1000, .001);
	assert_true(ms > 100);
	assert_int_equal(b->shed - before, ms);
	before = b->shed;
	run(b, 1000, 2);
	assert_true(b->shed - before < 2000 - 350); /* it goes on, with 200 a second */
	assert_true(b->on.law->patience(b->on.state, 0) == UINT64_MAX);
	on_law_close(&b->on);
}

static void the_limit_is_lifted_when_all_is_quiet(void **state)
{
	struct backend *b = overloaded();
	run(b, 100, 2);
	run(b, 100, 2);
	assert_true(b->on.law->calm(b->on.state));
	assert_int_equal(on_law_report(&b->on).limit, 0);
	assert_false(on_law_report(&b->on).shedding);
	assert_true(b->on.law->patience(b->on.state, 0) == UINT64_MAX);
	on_law_close(&b->on);
}

/* Part of the target is spent: what comes late must find less ahead of it. */
static void what_has_spent_its_target_elsewhere_has_less_room(void **state)
{
	struct backend *b = overloaded();
	run(b, 120, .2); /* half of the limit is free */
	weir_ask fresh = {.now_ns = b->on.now_ns, .entered_ns = b->on.now_ns, .count = 1}, old = fresh;
	old.entered_ns -= 195 * MS;
	unsigned of_fresh = 0, of_old = 0;
	while (of_old < 1000 && b->on.law->admit(b->on.state, &old) == WEIR_ADMITTED)
		of_old++;
	for (unsigned i = 0; i < of_old; i++)
		b->on.law->refund(b->on.state, &old);
	while (of_fresh < 1000 && b->on.law->admit(b->on.state, &fresh) == WEIR_ADMITTED)
		of_fresh++;
	assert_true(of_fresh > of_old && of_fresh < 1000);
	on_law_close(&b->on);
}

static void a_target_below_the_requests_own_time_is_said_to_be(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "20ms");
	open_backend(&backend, 8, 50 * MS);
	run(&backend, 80, 20);
	weir_report report = on_law_report(&backend.on);
	assert_true(report.unreachable);
	assert_true(report.alone_ns > 45 * MS && report.alone_ns < 65 * MS);
	assert_int_equal(report.target_ns, 20 * MS);
	assert_int_equal(backend.shed, 0);
	on_law_close(&backend.on);
}

/* Requests that take longer than the target by themselves are held to what `own` says, and that is shown. */
static void a_request_is_held_to_its_own_time_by_a_factor(void **state)
{
	static const char *const factors[] = {"1", "5", "20"};
	for (unsigned i = 0; i < 3; i++) {
		ON_LAW(&backend.on, LAW, "p90", "20ms", "own", factors[i]);
		open_backend(&backend, 8, 50 * MS);
		run(&backend, 80, 20);
		double alone_ms = (double)on_law_report(&backend.on).alone_ns / MS;
		double held_to = 20 + atof(factors[i]) * (alone_ms - 20);
		if (fabs(on_law_value(&backend.on, "held_to_ms") / held_to - 1) > .001)
			fail_msg("own = %s: %g, not %g", factors[i], on_law_value(&backend.on, "held_to_ms"),
				 held_to);
		on_law_close(&backend.on);
	}
	weir_adaptive_remote_params params;
	weir_law_defaults(LAW, &params);
	assert_int_equal(weir_law_set(LAW, &params, "own", "0.5"), -EINVAL);
	params.target_ns[0] = 20 * MS;
	params.own = 101;
	assert_int_equal(weir_law_check(LAW, &params), -EINVAL);
}

/* ---- classes ---- */

/* Of class 1 those that are let in while class 0 wants all that there is, as a share of what the backend does. */
static double lower_share(const char *minimum)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms", "minimum", minimum);
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	for (unsigned i = 0; i < 5000; i++)
		step(&backend, 1000, 1);
	unsigned let_in = 0;
	for (unsigned i = 0; i < 10000; i++) {
		step(&backend, 1000, 0);
		let_in += offer(&backend, 1);
	}
	on_law_close(&backend.on);
	return let_in / 10. / 200;
}

static void a_lower_class_keeps_its_minimum_share(void **state)
{
	double none = lower_share("0"), some = lower_share(".05"), many = lower_share(".2");
	/* Without one it still has its part of the credit that admissions earn. */
	if (!(none < .12 && some > none + .03 && some < none + .07 && many > none + .12 && many < none + .25))
		fail_msg("let in of class 1: %.3f without a minimum, %.3f of .05, %.3f of .2", none, some,
			 many);
}

/* Of 1000/s in each class before a backend of 200/s, those of the lower class that are admitted per second. */
static double lower_per_s(const char *guaranteed)
{
	uint64_t admitted = 0;
	ON_LAW(&backend.on, LAW, "p90", "200ms", "minimum", "0", "guaranteed[1]", guaranteed);
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	run(&backend, 1000, 5);
	for (unsigned i = 0; i < 10000; i++) {
		step(&backend, 1000, 0);
		admitted += offer(&backend, 1);
	}
	on_law_close(&backend.on);
	return (double)admitted / 10;
}

static void what_is_guaranteed_is_admitted_whatever_the_load(void **state)
{
	double none = lower_per_s("0/s"), some = lower_per_s("50/s"), most = lower_per_s("150/s");
	if (none > 1 || some < 50 || some > 52 || most < 150 || most > 153)
		fail_msg("admitted of class 1: %.1f/s without a guarantee, %.1f/s of 50/s, %.1f/s of 150/s",
			 none, some, most);
}

static void a_lower_class_leaves_room_to_the_one_above(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms", "minimum", "0");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	for (unsigned i = 0; i < 5000; i++)
		step(&backend, 1000, 1);
	weir_report upper = {0}, lower = {0};
	backend.on.law->report(backend.on.state, 0, &upper);
	backend.on.law->report(backend.on.state, 1, &lower);
	assert_true(lower.limit < upper.limit && lower.limit >= .8 * upper.limit);
	assert_true(lower.shedding);
	on_law_close(&backend.on);
}

/* ---- why ---- */

static unsigned explained;

static void must_explain(struct backend *b, const weir_ask *ask)
{
	weir_why why = {.verdict = WEIR_SHED_LATE};
	b->on.law->explain(b->on.state, ask, &why);
	explained++;
	if (!(why.estimate_ns > why.bound_ns && why.bound_ns >= why.target_ns && why.target_ns > 0 &&
	      why.retry_after_ns > 0 && why.retry_after_ns < 3600 * WEIR_NS_PER_S))
		fail_msg("refused with an estimate of %llu ns, a bound of %llu ns, to come again after %llu "
			 "ns",
			 (unsigned long long)why.estimate_ns, (unsigned long long)why.bound_ns,
			 (unsigned long long)why.retry_after_ns);
}

/* Asks that are old, of many, or of any class, each refused or taken back. */
static void ask_oddly(struct backend *b)
{
	for (unsigned i = 0; i < 48; i++) {
		weir_ask ask = {.now_ns = b->on.now_ns,
				.entered_ns = i % 3 == 0 ? 0 : b->on.now_ns - i * 10 * MS,
				.count = 1 + i % 4 * i % 4,
				.klass = (uint8_t)(i % WEIR_CLASSES),
				.cost = i * 1000};
		if (b->on.law->admit(b->on.state, &ask) == WEIR_ADMITTED)
			b->on.law->refund(b->on.state, &ask);
		else
			must_explain(b, &ask);
	}
}

/* What it says is above the bound whenever it refused, in any state that a load brings it into, in a dry run, too. */
static void an_estimate_is_above_the_bound_it_is_held_against(void **state)
{
	static const char *const targets[] = {"5ms", "50ms", "200ms", "2s"};
	static const double loads[] = {.9, 1.2, 2, 5, 20};
	explained = 0;
	for (unsigned t = 0; t < 4; t++)
		for (unsigned workers = 1; workers <= 16; workers *= 4)
			for (unsigned l = 0; l < 5; l++) {
				ON_LAW(&backend.on, LAW, "p90", targets[t], "target[1]", "1s");
				open_backend(&backend, workers, 20 * MS);
				backend.on_shed = must_explain;
				backend.on.sample.dry_run = l % 2;
				run(&backend, .3 * workers * 50, 1);
				for (unsigned i = 0; i < 1500; i++) {
					step(&backend, loads[l] * workers * 50, i % 20 == 0);
					if (i % 50 == 0)
						ask_oddly(&backend);
				}
				on_law_close(&backend.on);
			}
	assert_true(explained > 10000);
}

/* ---- quality ---- */

static void quality_falls_under_overload_and_comes_back(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms", "quality_min", ".25");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	assert_true(backend.on.law->quality(backend.on.state, 0) == 1);
	run(&backend, 1000, 20);
	double low = backend.on.law->quality(backend.on.state, 0);
	assert_true(low >= .25 && low < .9);
	assert_true(on_law_report(&backend.on).quality == low);
	run(&backend, 50, 60);
	assert_true(backend.on.law->quality(backend.on.state, 0) > .95);
	on_law_close(&backend.on);
}

static void the_class_that_is_shed_is_asked_for_less_first(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms", "quality_min", ".4");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 100, 3);
	for (unsigned i = 0; i < 20000; i++)
		step(&backend, 50, 1);
	double upper = backend.on.law->quality(backend.on.state, 0);
	double lower = backend.on.law->quality(backend.on.state, 1);
	assert_true(lower == .4 && upper >= lower);
	on_law_close(&backend.on);
}

static void quality_stays_the_best_where_that_is_wanted(void **state)
{
	ON_LAW(&backend.on, LAW, "p90", "200ms", "quality_min", "1");
	open_backend(&backend, 4, 20 * MS);
	run(&backend, 1000, 10);
	assert_true(backend.on.law->quality(backend.on.state, 0) == 1);
	on_law_close(&backend.on);
}

/* ---- warm start ---- */

static bool close_to(double a, double b)
{
	return fabs(a - b) <= .02 * fmax(fabs(a), fabs(b));
}

static void what_was_learnt_is_saved_and_loaded(void **state)
{
	struct backend *b = overloaded();
	char text[400], again[400];
	on_law fresh;
	int length = b->on.law->save(b->on.state, text, sizeof(text));
	assert_true(length > 0 && (size_t)length == strlen(text));
	assert_int_equal(b->on.law->save(b->on.state, again, 2), length);
	ON_LAW(&fresh, LAW, "p90", "200ms");
	assert_int_equal(fresh.law->load(fresh.state, text), 0);
	on_law_tick(&fresh, 10 * MS);
	weir_report was = on_law_report(&b->on), is = on_law_report(&fresh);
	assert_true(close_to(is.rate_per_s, was.rate_per_s));
	assert_true(close_to((double)is.alone_ns, (double)was.alone_ns));
	assert_true(was.limit > 0 &&
		    close_to((double)is.limit, (double)was.limit)); /* without letting all in first */
	assert_int_equal(on_law_admit(&fresh, 1), WEIR_ADMITTED);
	for (unsigned i = 0; i < 300; i++)
		on_law_tick(&fresh, 10 * MS);
	assert_int_equal(on_law_report(&fresh).limit, 0); /* nothing came */
	assert_true(fresh.law->save(fresh.state, again, sizeof(again)) > 0);
	assert_int_equal(fresh.law->load(fresh.state, again), 0);
	on_law_close(&fresh);
	on_law_close(&b->on);
}

static void a_fresh_state_is_saved_and_loaded(void **state)
{
	on_law on, other;
	char text[400];
	ON_LAW(&on, LAW, "p90", "200ms");
	ON_LAW(&other, LAW, "p90", "200ms");
	on.law->save(on.state, text, sizeof(text));
	assert_int_equal(other.law->load(other.state, text), 0);
	on_law_tick(&other, 10 * MS);
	assert_int_equal(other.law->limit(other.state), 16);
	assert_true(on_law_report(&other).rate_per_s == 0);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(on_law_admit(&other, 1), WEIR_ADMITTED);
	on_law_close(&on);
	on_law_close(&other);
}

/* Refused, and nothing of it is kept. */
static void expect_no_load(on_law *on, const char *text)
{
	char before[400], after[400];
	on->law->save(on->state, before, sizeof(before));
	if (on->law->load(on->state, text) != -EINVAL)
		fail_msg("\"%s\" is loaded", text);
	on->law->save(on->state, after, sizeof(after));
	assert_string_equal(before, after);
}

/* The text with the value after the at-th '=' replaced; false: there are not so many. */
static bool with_value(const char *text, unsigned at, const char *value, char *ret, size_t size)
{
	const char *end = text;
	for (unsigned i = 0; i <= at; i++)
		if ((end = strchr(end, '=')) == NULL)
			return false;
		else
			end++;
	size_t rest = strcspn(end, " ");
	snprintf(ret, size, "%.*s%s%s", (int)(end - text), text, value, end + rest);
	return true;
}

static void texts_that_it_did_not_save_are_refused(void **state)
{
	static const char *const values[] = {"",
					     "x",
					     "nan",
					     "-nan",
					     "inf",
					     "-inf",
					     "1e99",
					     "-1e99",
					     "=",
					     "1.2.3",
					     "99999999999999999999999"};
	static const char *const texts[] = {"",
					    "\n",
					    "x",
					    "adaptive 1",
					    "adaptive-remote",
					    "adaptive-remote 2",
					    "adaptive-remote 1 limit=40.00 drain_ns=250000"};
	struct backend *b = overloaded();
	char text[400], wrong[800];
	on_law fresh;
	b->on.law->save(b->on.state, text, sizeof(text));
	ON_LAW(&fresh, LAW, "p90", "200ms");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		expect_no_load(&fresh, texts[i]);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		for (unsigned at = 0; with_value(text, at, values[i], wrong, sizeof(wrong)); at++)
			expect_no_load(&fresh, wrong);
	for (const char *end = strrchr(text, '='); end >= text; end--) {
		snprintf(wrong, sizeof(wrong), "%.*s", (int)(end - text), text);
		expect_no_load(&fresh, wrong);
	}
	snprintf(wrong, sizeof(wrong), "%s more", text);
	expect_no_load(&fresh, wrong);
	assert_int_equal(fresh.law->load(fresh.state, text), 0);
	on_law_close(&fresh);
	on_law_close(&b->on);
}

/* ---- several threads ---- */

#define THREADS 4
#define ROUNDS  4000

static on_law shared;
static _Atomic bool threads_end;

static void *come_and_go(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t now_ns = 1000 * WEIR_NS_PER_S + i * MS;
		weir_event event = {.entered_ns = now_ns,
				    .offered_ns = now_ns,
				    .klass = (uint8_t)((i + seed) % WEIR_CLASSES)};
		weir_ask ask = {.now_ns = now_ns, .count = 1, .klass = event.klass};
		weir_turn turn = {.now_ns = now_ns, .note = event.note};
		weir_why why = {0};
		if (LAW->admit(shared.state, &ask) != WEIR_ADMITTED) {
			LAW->explain(shared.state, &ask, &why);
		} else if (i % 7 == 0) {
			LAW->refund(shared.state, &ask);
		} else if (i % 11 == 0) {
			LAW->gone(shared.state, &event, now_ns);
		} else {
			LAW->start(shared.state, &event, &turn);
			event.started_ns = now_ns;
			LAW->settle(shared.state, &event, (weir_outcome)(i % 13 < 3 ? i % 13 : 0),
				    now_ns + (1 + i / 400) * 10 * MS);
		}
	}
	return NULL;
}

static void *look_on(void *arg)
{
	char text[400];
	while (!atomic_load(&threads_end)) {
		weir_report report = {0};
		for (unsigned k = 0; k < WEIR_CLASSES; k++) {
			LAW->report(shared.state, k, &report);
			LAW->patience(shared.state, k);
			LAW->quality(shared.state, k);
		}
		LAW->limit(shared.state);
		LAW->calm(shared.state);
	}
	LAW->save(shared.state, text, sizeof(text));
	return NULL;
}

static void many_threads_leave_nothing_behind(void **state)
{
	pthread_t threads[THREADS], looker;
	unsigned seeds[THREADS];
	char text[400];
	ON_LAW(&shared, LAW, "p90", "50ms");
	atomic_store(&threads_end, false);
	assert_int_equal(pthread_create(&looker, NULL, look_on, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		seeds[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &seeds[i]), 0);
	}
	for (unsigned i = 0; i < 400; i++) {
		on_law_tick(&shared, 10 * MS);
		assert_true(LAW->save(shared.state, text, sizeof(text)) < (int)sizeof(text));
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&threads_end, true);
	pthread_join(looker, NULL);
	on_law_tick(&shared, 10 * MS);
	assert_true(inside(&shared) == 0);
	on_law_close(&shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wants_a_target),
		cmocka_unit_test(refuses_what_makes_no_sense),
		cmocka_unit_test(checks_parameters_that_are_no_text),
		cmocka_unit_test(a_class_without_a_target_has_that_of_the_class_above),
		cmocka_unit_test(what_is_taken_back_or_goes_does_not_count),
		cmocka_unit_test(what_ends_does_not_count_however_it_ends),
		cmocka_unit_test(starts_that_were_not_admitted_leave_nothing_behind),
		cmocka_unit_test(hung_requests_are_forgotten_and_may_come_back),
		cmocka_unit_test(clocks_that_differ_a_little_harm_nobody),
		cmocka_unit_test(all_are_admitted_while_there_is_no_evidence),
		cmocka_unit_test(a_load_that_the_backend_takes_is_let_in),
		cmocka_unit_test(the_limit_doubles_where_it_costs_nothing),
		cmocka_unit_test(overload_is_bounded_and_nothing_is_refused_at_its_start),
		cmocka_unit_test(nobody_comes_in_above_the_limit_while_a_backlog_drains),
		cmocka_unit_test(the_limit_is_lifted_when_all_is_quiet),
		cmocka_unit_test(what_has_spent_its_target_elsewhere_has_less_room),
		cmocka_unit_test(a_target_below_the_requests_own_time_is_said_to_be),
		cmocka_unit_test(a_request_is_held_to_its_own_time_by_a_factor),
		cmocka_unit_test(a_lower_class_keeps_its_minimum_share),
		cmocka_unit_test(what_is_guaranteed_is_admitted_whatever_the_load),
		cmocka_unit_test(a_lower_class_leaves_room_to_the_one_above),
		cmocka_unit_test(an_estimate_is_above_the_bound_it_is_held_against),
		cmocka_unit_test(quality_falls_under_overload_and_comes_back),
		cmocka_unit_test(the_class_that_is_shed_is_asked_for_less_first),
		cmocka_unit_test(quality_stays_the_best_where_that_is_wanted),
		cmocka_unit_test(what_was_learnt_is_saved_and_loaded),
		cmocka_unit_test(a_fresh_state_is_saved_and_loaded),
		cmocka_unit_test(texts_that_it_did_not_save_are_refused),
		cmocka_unit_test(many_threads_leave_nothing_behind),
	};
	return cmocka_run_group_tests_name("adaptive-remote", tests, NULL, NULL);
}
