/* SPDX-License-Identifier: Apache-2.0 */
/* The policing laws: the test of a batch, visits, guarantees, the threshold, the change between them, and counts that add up. */
#include "police_beat.h"

#include <weir/sim.h>

/* ---- batch ---- */

/* Without a delay each request is judged as it comes: (eta + 1) S <= R, with n servers (eta + 1/n rounded up). */
static void without_a_delay_the_test_is_at_the_door(void **state)
{
	struct beat b;
	unsigned admitted = 0;
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	while (admitted < 1000 && arrive(&b, 0, 100000) == WEIR_ADMITTED)
		admitted++;
	double bucket_s = ((weir_police *)b.state)->bucket_s[((weir_police *)b.state)->bucket_of[42]];
	assert_true(bucket_s > .07 && bucket_s < .14);
	assert_int_equal(admitted, (unsigned)(1 / bucket_s));
	assert_true(is_open(&b, 0));
	assert_int_equal(started_of(&b, 0, 100000, admitted), admitted);
	assert_int_equal(arrive(&b, 0, 100000), WEIR_SHED_LATE);
	weir_why why = {0};
	weir_ask ask = {.now_ns = b.now_ns, .count = 1, .cost = 100000};
	b.law->explain(b.state, &ask, &why);
	assert_true(why.estimate_ns > why.target_ns && why.target_ns == S && why.retry_after_ns > 0);
	free(b.state);
}

static void a_batch_is_judged_as_a_whole_at_its_visit(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "early", "off", "target", "1s", "servers", "2", "delay[1]", "50ms");
	double bucket_s = ((weir_police *)b.state)->bucket_s[((weir_police *)b.state)->bucket_of[42]];
	unsigned fits = 2 * (unsigned)(.95 / bucket_s);
	tick(&b, 5 * MS, 0);
	arrive_many(&b, 1, 100000, fits);
	assert_false(is_open(&b, 1));
	tick(&b, 5 * MS, 0); /* the first visit is due at once */
	assert_true(is_open(&b, 1));
	assert_int_equal(started_of(&b, 1, 100000, fits), fits);
	arrive_many(&b, 1, 100000, 3);
	for (unsigned i = 0; i < 9; i++) {
		tick(&b, 5 * MS, 0);
		assert_false(is_open(&b, 1));
	}
	tick(&b, 5 * MS, 0); /* 50 ms later: full, so all three are dropped */
	assert_true(is_open(&b, 1));
	assert_int_equal(started_of(&b, 1, 100000, 3), 0);
	free(b.state);

	/* One more than fits, and none of them is let in. */
	BEAT(&b, &weir_law_batch, "early", "off", "target", "1s", "servers", "2", "delay[1]", "50ms");
	arrive_many(&b, 1, 100000, fits + 1);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 1, 100000, fits + 1), 0);
	free(b.state);
}

static void small_buckets_go_first(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "early", "off", "target", "1s", "delay", "50ms");
	arrive_many(&b, 0, 400000, 2);
	arrive_many(&b, 0, 20000, 5);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 0, 20000, 5), 5);
	assert_int_equal(started_of(&b, 0, 400000, 2), 0);
	free(b.state);
}

static void a_class_that_fails_rejects_what_waits_below(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "early", "off", "target", "1s", "delay[1]", "50ms", "delay[2]", "500ms");
	tick(&b, 5 * MS, 0);
	arrive_many(&b, 2, 1000, 1);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 2, 1000, 1), 1); /* its next visit is 500 ms away */
	arrive_many(&b, 2, 1000, 4);
	tick(&b, 5 * MS, 0);
	assert_false(is_open(&b, 2));
	arrive_many(&b, 1, 900000, 2); /* cannot be in time */
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 1, 900000, 2), 0);
	assert_true(is_open(&b, 2));
	assert_int_equal(started_of(&b, 2, 1000, 4), 0);
	/* Whoever comes afterwards is judged by a test of its own. */
	arrive_many(&b, 2, 1000, 4);
	tick(&b, 500 * MS, 0);
	assert_int_equal(started_of(&b, 2, 1000, 4), 4);
	/* A failure at the door counts as well. */
	arrive_many(&b, 2, 1000, 4);
	assert_int_equal(arrive(&b, 0, 4000000), WEIR_SHED_LATE);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 2, 1000, 4), 0);
	free(b.state);
}

/* A visit of class 2 judges class 1 first, though its own visit is not due. */
static void a_visit_begins_with_the_more_important(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "delay[1]", "200ms", "delay[2]", "210ms");
	arrive_many(&b, 1, 1000, 1);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 1, 1000, 1), 1);
	arrive_many(&b, 1, 1000, 3);
	arrive_many(&b, 2, 1000, 3);
	tick(&b, 5 * MS, 0);
	assert_true(is_open(&b, 1) && is_open(&b, 2));
	free(b.state);
}

static void what_is_guaranteed_passes_whatever_the_load(void **state)
{
	static const weir_admission_law *const laws[] = {&weir_law_batch, &weir_law_police_auto};
	for (unsigned i = 0; i < 2; i++) {
		struct beat b;
		unsigned in = 0;
		BEAT(&b, laws[i], "target", "1s", "delay[1]", "50ms", "guaranteed[1]", "100/s", "early",
		     "off");
		for (unsigned ms = 0; ms < 1000; ms++) {
			b.now_ns += MS;
			assert_int_equal(arrive(&b, 1, 3000000), WEIR_ADMITTED); /* none of them fits */
			while (is_open(&b, 1) && in < 1000) {
				weir_event event = event_of(&b, 1, 3000000);
				if (weir_ledger_waiting(&((weir_police *)b.state)->ledger, 1) <= 0)
					break;
				in += start(&b, &event) == WEIR_ADMITTED;
			}
			if (ms % 5 == 4)
				tick(&b, 0, 0);
		}
		assert_in_range(in, 100, 112); /* a burst of ten, then 100 in the second */
		free(b.state);
	}
}

static void reports_and_targets_count(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	weir_told told = {.servers = 4, .reports = 4, .queue_s = .5, .in_service = 3, .busy = -1};
	b.law->told(b.state, &told);
	expect_near("servers", weir_police_gauge_servers(&((weir_police *)b.state)->gauge), 4);
	assert_int_equal(arrive(&b, 0, 150000), WEIR_SHED_LATE); /* .5 + (3 + 1) x .15 */
	assert_int_equal(arrive(&b, 0, 100000), WEIR_ADMITTED);
	uint64_t target_ns[WEIR_CLASSES];
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		target_ns[k] = 2 * S;
	b.law->retarget(b.state, target_ns);
	assert_int_equal(arrive(&b, 0, 150000), WEIR_ADMITTED);
	/* Reports that cease are forgotten. */
	told = (weir_told){.servers = 4, .queue_s = -1, .in_service = -1, .busy = -1};
	b.law->told(b.state, &told);
	assert_int_equal(arrive(&b, 0, 1000000), WEIR_ADMITTED);
	free(b.state);
}

/* A request that shares its server takes longer, and its own time is found all the same. */
static void service_times_are_learnt_without_costs(void **state)
{
	struct beat b;
	enum { INSIDE = 10 };
	weir_event events[INSIDE];
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	for (unsigned i = 0; i < INSIDE; i++) {
		arrive(&b, 0, 0);
		events[i] = event_of(&b, 0, 0);
		start(&b, &events[i]);
	}
	for (unsigned turn = 0; turn < 500; turn++) {
		b.now_ns += 10 * MS; /* one ends every 10 ms */
		weir_event *event = &events[turn % INSIDE];
		b.law->settle(b.state, event, WEIR_DONE, b.now_ns);
		arrive(&b, 0, 0);
		*event = event_of(&b, 0, 0);
		start(&b, event);
	}
	double learnt = weir_police_gauge_service_s(&((weir_police *)b.state)->gauge, 0);
	assert_true(learnt > .008 && learnt < .013);
	free(b.state);
}

/* ---- counts that add up ---- */

/* A service time that was learnt wrongly, of the class or of the kind, must not keep a class out for ever. */
static void a_class_that_is_kept_out_is_tried_again(void **state)
{
	for (uint32_t cost_us = 0; cost_us <= 20000000; cost_us += 20000000) {
		struct beat b;
		BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
		assert_int_equal(arrive(&b, 0, 0), WEIR_ADMITTED);
		weir_event event = event_of(&b, 0, 0);
		assert_int_equal(start(&b, &event), WEIR_ADMITTED);
		tick(&b, S, 0);
		b.now_ns += 20 * S;
		b.law->settle(b.state, &event, WEIR_DONE, b.now_ns);
		assert_int_equal(arrive(&b, 0, cost_us), WEIR_SHED_LATE);
		unsigned periods = 0;
		while (arrive(&b, 0, cost_us) != WEIR_ADMITTED && periods++ < 10)
			tick(&b, S, 0);
		assert_in_range(periods, 3, 7);
		/* Answers bring the trust back, and with it the refusals if the time was right. */
		for (unsigned i = 0; i < 8; i++) {
			event = event_of(&b, 0, cost_us);
			start(&b, &event);
			b.law->settle(b.state, &event, WEIR_DONE, b.now_ns + 20 * S);
		}
		assert_int_equal(arrive(&b, 0, cost_us), WEIR_SHED_LATE);
		free(b.state);
	}
}

/*
 * A queue at the server that a report does not show yet: what comes from there is not taken for a service
 * time.
 */
static void it_is_calm_by_both_counts(void **state)
{
	struct beat b;
	weir_told told = {.servers = 1, .reports = 1, .in_service = 0, .queue_s = 0, .busy = 0};
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	assert_true(b.law->calm(b.state));
	arrive_many(&b, 0, 1000, 3);
	assert_int_equal(started_of(&b, 0, 1000, 3), 3);
	b.law->told(b.state, &told);
	assert_false(b.law->calm(b.state));
	told.in_service = 5;
	free(b.state);
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	b.law->told(b.state, &told);
	assert_false(b.law->calm(b.state));
	free(b.state);
}

static void expect_sound(uint64_t seed, const weir_ledger *ledger)
{
	int64_t released = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		const weir_ledger_class *c = &ledger->klass[k];
		int64_t waiting = 0, decided = 0, own = 0;
		for (unsigned i = 0; i < WEIR_LEDGER_BUCKETS; i++) {
			const weir_ledger_bucket *at = &c->bucket[i];
			assert_for_seed(seed, at->waiting >= 0 && at->passed >= 0 && at->refused >= 0 &&
						      at->entitled >= 0);
			assert_for_seed(seed, at->passed + at->refused + at->entitled <= at->waiting);
			waiting += at->waiting;
			decided += at->passed + at->refused + at->entitled;
			own += at->entitled;
			released += at->passed + at->entitled;
		}
		assert_for_seed(seed, waiting == c->waiting && decided == c->decided && own == c->entitled);
	}
	assert_for_seed(seed, released == ledger->released);
}

#define WAITING_MOST 400

struct crowd {
	weir_event waiting[WAITING_MOST], serving[WAITING_MOST];
	unsigned wait, serve;
};

static void crowd_step(struct beat *b, struct crowd *c, weir_random *random)
{
	unsigned pick = (unsigned)weir_random_below(random, 100);
	unsigned klass = (unsigned)weir_random_below(random, 4);
	uint32_t cost = weir_random_below(random, 4) == 0 ? 0 : 1u << weir_random_below(random, 22);
	if (pick < 45 && c->wait < WAITING_MOST) {
		if (arrive(b, klass, cost) != WEIR_ADMITTED)
			return;
		if (pick < 3) { /* the queue was full after all */
			weir_ask ask = {
				.now_ns = b->now_ns, .klass = (uint8_t)klass, .count = 1, .cost = cost};
			b->law->refund(b->state, &ask);
			return;
		}
		c->waiting[c->wait++] = event_of(b, klass, cost);
	} else if (pick < 75 && c->wait > 0 && c->serve < WAITING_MOST) {
		unsigned at = (unsigned)weir_random_below(random, c->wait);
		weir_event event = c->waiting[at];
		if (!is_open(b, event.klass) && pick < 72)
			return; /* now and then one is taken though its class is closed */
		c->waiting[at] = c->waiting[--c->wait];
		if (pick < 48)
			b->law->gone(b->state, &event, b->now_ns);
		else if (start(b, &event) == WEIR_ADMITTED)
			c->serving[c->serve++] = event;
	} else if (pick < 95 && c->serve > 0) {
		unsigned at = (unsigned)weir_random_below(random, c->serve);
		weir_event event = c->serving[at];
		c->serving[at] = c->serving[--c->serve];
		b->law->settle(b->state, &event, pick < 90 ? WEIR_DONE : WEIR_FAILED, b->now_ns);
	}
}

/* Random worlds: every path of law.h, in any order. At the end nothing is left over. */
static void counts_add_up_on_every_path(void **state)
{
	static const char *const delays[] = {"0s", "20ms", "100ms"};
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct beat b;
		static struct crowd crowd;
		weir_random random;
		weir_random_init(&random, seed);
		crowd.wait = crowd.serve = 0;
		BEAT(&b, &weir_law_police_auto, "target", "300ms", "delays", seed % 2 ? "auto" : "fixed",
		     "delay[1]", delays[seed % 3], "order", seed % 5 ? "smaller" : "fifo", "guaranteed[2]",
		     "50/s", "dwell", "100ms");
		weir_police *police = b.state;
		for (unsigned i = 0; i < 20000; i++) {
			b.now_ns += weir_random_below(&random, 2 * MS);
			crowd_step(&b, &crowd, &random);
			if (i % 8 == 0)
				tick(&b, 5 * MS, i / 4000 % 2); /* busy for a while, then not */
			assert_for_seed(seed, police->gauge.in_service == (int32_t)crowd.serve);
			int32_t waiting = 0;
			for (unsigned k = 0; k < WEIR_CLASSES; k++)
				waiting += weir_ledger_waiting(&police->ledger, k);
			assert_for_seed(seed, waiting == (int32_t)crowd.wait);
			if (i % 64 == 0)
				expect_sound(seed, &police->ledger);
		}
		while (crowd.wait > 0)
			b.law->gone(b.state, &crowd.waiting[--crowd.wait], b.now_ns);
		while (crowd.serve > 0)
			b.law->settle(b.state, &crowd.serving[--crowd.serve], WEIR_DONE, b.now_ns);
		expect_sound(seed, &police->ledger);
		assert_for_seed(seed, police->ledger.released == 0 && police->gauge.in_service == 0);
		for (unsigned k = 0; k < WEIR_CLASSES; k++)
			assert_for_seed(seed, police->ledger.klass[k].waiting == 0 && is_open(&b, k));
		free(b.state);
	}
}

/* An offer of many has one bucket; its events have others. The class's sums stay right. */
static void an_offer_of_many_leaves_nothing_behind(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "10s", "delay[1]", "50ms");
	weir_police *police = b.state;
	weir_ask ask = {.now_ns = b.now_ns, .klass = 1, .count = 3, .cost = 300000};
	assert_int_equal(b.law->admit(b.state, &ask), WEIR_ADMITTED);
	arrive_many(&b, 1, 100, 1);
	tick(&b, 5 * MS, 0);
	static const uint32_t costs[] = {1000, 200000, 99000, 100};
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(started_of(&b, 1, costs[i], 1), 1);
	assert_int_equal(weir_ledger_waiting(&police->ledger, 1), 0);
	expect_sound(0, &police->ledger);
	assert_int_equal(weir_ledger_released(&police->ledger), 0);
	/* One that was never asked about starts, and leaves the counts as they are. */
	assert_int_equal(started_of(&b, 1, 100, 1), 1);
	expect_sound(0, &police->ledger);
	free(b.state);
}

/* ---- the threshold ---- */

static void threshold_world(struct beat *b, const char *guaranteed, unsigned first, unsigned second,
			    unsigned third)
{
	BEAT(b, &weir_law_police_threshold, "target", "1s", "servers", "2", "fill", "100%", "smoothing", "1",
	     "guaranteed[2]", guaranteed);
	for (unsigned k = 0; k < 3; k++) { /* each takes 10 ms: two servers do 200/s */
		weir_event event = event_of(b, k, 10000);
		arrive(b, k, 10000);
		start(b, &event);
		b->law->settle(b->state, &event, WEIR_DONE, b->now_ns);
	}
	tick(b, 5 * MS, 0);
	tick(b, 995 * MS, 0); /* the next period begins */
	const unsigned rates[] = {first, second, third};
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < rates[k]; i++)
			arrive(b, k, 10000);
	tick(b, 1000 * MS, 0);
}

static double cut_value(const struct beat *b, const char *name)
{
	weir_report report = {0};
	b->law->report(b->state, 0, &report);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, name) == 0)
			return report.value[i].value;
	fail_msg("no %s", name);
	return 0;
}

static void the_threshold_follows_from_five_and_six(void **state)
{
	static const struct {
		unsigned rate[3];
		const char *guaranteed;
		double klass, fraction;
	} cases[] = {
		{{50, 50, 50}, "0/s", 8, 1},     {{50, 50, 200}, "0/s", 2, .5},
		{{150, 100, 50}, "0/s", 1, .5},  {{400, 10, 10}, "0/s", 0, .5},
		{{50, 50, 200}, "50/s", 2, .25}, {{100, 200, 0}, "100/s", 1, 0},
	};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct beat b;
		threshold_world(&b, cases[i].guaranteed, cases[i].rate[0], cases[i].rate[1],
				cases[i].rate[2]);
		assert_true(cut_value(&b, "threshold_class") == cases[i].klass);
		assert_true(fabs(cut_value(&b, "threshold_fraction") - cases[i].fraction) < .01);
		free(b.state);
	}
}

static void the_fraction_is_admitted(void **state)
{
	struct beat b;
	unsigned in[3] = {0};
	threshold_world(&b, "0/s", 150, 100, 50);
	for (unsigned i = 0; i < 10000; i++)
		for (unsigned k = 0; k < 3; k++)
			in[k] += arrive(&b, k, 10000) == WEIR_ADMITTED;
	assert_int_equal(in[0], 10000);
	assert_in_range(in[1], 4800, 5200);
	assert_int_equal(in[2], 0);
	free(b.state);
}

/* ---- both ---- */

static void auto_changes_when_busy_and_back_after_the_dwell(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_police_auto, "early", "off", "target", "1s", "delay[1]", "50ms", "dwell", "2s");
	weir_police *police = b.state;
	tick(&b, 5 * MS, 0);
	arrive_many(&b, 1, 1000, 1);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 1, 1000, 1), 1);
	arrive_many(&b, 1, 1000, 5); /* the next visit is 50 ms away */
	arrive_many(&b, 1, 2000000, 2);
	assert_false(is_open(&b, 1));
	tick(&b, 2000 * MS, 1);
	assert_true(police->by_threshold);
	/* They were judged once, by the test, at the change. */
	assert_int_equal(weir_ledger_fresh(&police->ledger, 1, police->bucket_of[16]), 0);
	arrive_many(&b, 1, 2000000, 1); /* by the threshold, which lets all in */
	assert_int_equal(started_of(&b, 1, 1000, 5), 5);
	assert_int_equal(started_of(&b, 1, 2000000, 3), 1);
	assert_int_equal(weir_ledger_waiting(&police->ledger, 1), 0);
	arrive_many(&b, 1, 1000, 3);
	for (unsigned i = 0; i < 19; i++) {
		tick(&b, 100 * MS, 0);
		assert_true(police->by_threshold || i > 2);
	}
	tick(&b, 2000 * MS, 0);
	assert_false(police->by_threshold);
	/* Whoever waits was judged already. */
	assert_true(is_open(&b, 1));
	assert_int_equal(started_of(&b, 1, 1000, 3), 3);
	expect_sound(0, &police->ledger);
	free(b.state);
}

static void computed_delays_are_zero_with_capacity_and_not_without(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "servers", "1");
	weir_police *police = b.state;
	for (unsigned overload = 0; overload < 2; overload++) {
		unsigned per_tick = overload ? 4 : 0;
		for (unsigned i = 0; i < 2000; i++) {
			static weir_event serving[1000];
			static unsigned first, count;
			if (i % 8 == 0 && arrive(&b, 0, 20000) == WEIR_ADMITTED) {
				serving[(first + count) % 1000] = event_of(&b, 0, 20000);
				start(&b, &serving[(first + count++) % 1000]);
			}
			for (unsigned j = 0; j < per_tick; j++)
				arrive(&b, 1, 20000);
			while (weir_ledger_waiting(&police->ledger, 1) > 0 && is_open(&b, 1)) {
				weir_event event = event_of(&b, 1, 20000);
				if (start(&b, &event) == WEIR_ADMITTED)
					serving[(first + count++) % 1000] = event;
			}
			if (i % 4 == 0 && count > 0) { /* one ends every 20 ms */
				b.law->settle(b.state, &serving[first++ % 1000], WEIR_DONE, b.now_ns);
				first %= 1000;
				count--;
			}
			tick(&b, 5 * MS, 0);
		}
		if (overload)
			assert_in_range(police->delay_ns[1], 20 * MS, 250 * MS);
		else
			assert_int_equal(police->delay_ns[1], 0);
		assert_int_equal(police->delay_ns[0], 0);
	}
	free(b.state);
}

static void wrong_parameters_are_refused(void **state)
{
	weir_police_params good, bad;
	weir_law_defaults(&weir_law_batch, &good);
	expect_refused(&weir_law_batch, NULL, "required");
	expect_refused(&weir_law_batch, &good, "target");
	good.target_ns[0] = S;
	bad = good, bad.delay_ns[1] = 2, bad.delay_ns[2] = 1;
	expect_refused(&weir_law_batch, &bad, "delay");
	bad = good, bad.guaranteed[3] = -1;
	expect_refused(&weir_law_police_threshold, &bad, "guaranteed");
	bad = good, bad.revenue[3] = NAN;
	expect_refused(&weir_law_police_auto, &bad, "revenue");
	bad = good, bad.buckets = 33;
	expect_refused(&weir_law_batch, &bad, "buckets");
	bad = good, bad.fill = 0;
	expect_refused(&weir_law_police_threshold, &bad, "fill");
	bad = good, bad.busy = 0;
	expect_refused(&weir_law_police_auto, &bad, "busy");
	bad = good, bad.period_ns = 1;
	expect_refused(&weir_law_police_threshold, &bad, "period");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_delay_the_test_is_at_the_door),
		cmocka_unit_test(a_batch_is_judged_as_a_whole_at_its_visit),
		cmocka_unit_test(small_buckets_go_first),
		cmocka_unit_test(a_class_that_fails_rejects_what_waits_below),
		cmocka_unit_test(a_visit_begins_with_the_more_important),
		cmocka_unit_test(what_is_guaranteed_passes_whatever_the_load),
		cmocka_unit_test(reports_and_targets_count),
		cmocka_unit_test(service_times_are_learnt_without_costs),
		cmocka_unit_test(a_class_that_is_kept_out_is_tried_again),
		cmocka_unit_test(it_is_calm_by_both_counts),
		cmocka_unit_test(counts_add_up_on_every_path),
		cmocka_unit_test(an_offer_of_many_leaves_nothing_behind),
		cmocka_unit_test(the_threshold_follows_from_five_and_six),
		cmocka_unit_test(the_fraction_is_admitted),
		cmocka_unit_test(auto_changes_when_busy_and_back_after_the_dwell),
		cmocka_unit_test(computed_delays_are_zero_with_capacity_and_not_without),
		cmocka_unit_test(wrong_parameters_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
