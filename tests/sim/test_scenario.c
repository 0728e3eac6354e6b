/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios as a whole: what queueing theory knows must come out of them; clients do what they are said to; and whatever a scenario is made
 * of, the books balance (every run asserts that) and the same seed gives the same run.
 */
#include "support/worlds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/run.h"

struct ran {
	weir_scenario *scenario;
	weir_run *run;
};

static struct ran ran(const char *text, uint64_t seed)
{
	struct ran r = {0};
	if (weir_scenario_parse("test.sim", text, strlen(text), &r.scenario) < 0 ||
	    weir_scenario_check(r.scenario) < 0 || weir_run_new(r.scenario, seed, "test", &r.run) < 0)
		fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, weir_error(), text);
	return r;
}

static void end(struct ran *r)
{
	weir_run_free(&r->run);
	weir_scenario_free(&r->scenario);
}

static void near(const char *what, double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance * fabs(expected)))
		fail_msg("%s is %g, not %g", what, value, expected);
}

static double mean_ms(const weir_run *run)
{
	const weir_totals *total = &run->judgement.total;
	return total->sum_ns / (double)total->completed / 1e6;
}

/* ---- queueing theory ---- */

static void m_m_1_at_0_7_responds_in_a_third_more_than_three_services(void **state)
{
	struct ran r = ran("[scenario]\nduration = 3000s\nwarmup = 10s\n[stage s]\nservice = exponential "
			   "10ms\n[load l]\nrate = .7x\n",
			   3);
	near("the mean response", mean_ms(r.run), 10 / 0.3, 0.03);
	/* Response times of M/M/1 are exponential. */
	near("the 90th percentile", (double)weir_hist_quantile(&r.run->judgement.total.response, 0.9) / 1e6,
	     10 / 0.3 * log(10), 0.04);
	near("the work", r.run->judgement.completed_work, 0.7, 0.02);
	assert_true(r.run->judgement.shed == 0);
	end(&r);
}

static void m_d_1_waits_half_as_long(void **state)
{
	struct ran r = ran("[scenario]\nduration = 3000s\n[stage s]\nservice = deterministic 10ms\n[load "
			   "l]\nrate = 70\n",
			   4);
	near("the mean response", mean_ms(r.run), 10 + 10 * 0.7 / 0.6, 0.03);
	end(&r);
}

/* Arrivals as regular as services never wait. */
static void d_d_1_never_waits(void **state)
{
	struct ran r = ran("[scenario]\nduration = 100s\n[stage s]\nservice = deterministic 10ms\n[load "
			   "l]\narrivals = constant\nrate = 90\n",
			   1);
	near("the mean response", mean_ms(r.run), 10, 1e-9);
	assert_int_equal(r.run->judgement.total.offered, 9000);
	end(&r);
}

/* Two stages in a row, each M/M/1: responses add up. The second has half the load. */
static void a_pipeline_of_m_m_1_is_their_sum(void **state)
{
	struct ran r =
		ran("[scenario]\nduration = 2000s\n[stage a]\nservice = exponential 10ms\nnext = b .5, c .5\n"
		    "[stage b]\nservice = exponential 10ms\n[stage c]\nservice = exponential 4ms\n[load "
		    "l]\nrate = 70\n",
		    5);
	double a = 10 / 0.3, b = 10 / 0.65, c = 4 / (1 - 0.14);
	near("the mean response", mean_ms(r.run), a + (b + c) / 2, 0.03);
	end(&r);
}

/* A backend that shares its processor answers on average as M/M/1 does, whatever the distribution. */
static void processor_sharing_is_blind_to_the_distribution(void **state)
{
	struct ran r = ran("[scenario]\nduration = 3000s\n[backend b]\ndiscipline = ps\n[stage s]\nworkers = "
			   "1000\nbackend = b\n"
			   "work = bimodal 10ms\n[load l]\nrate = .6x\n",
			   6);
	near("the mean response", mean_ms(r.run), 10 / 0.4, 0.05);
	end(&r);
}

/* A reactor passes on what comes, on however many threads: the backend sees the same arrivals, and M/M/1 comes out. */
static void threads_change_nothing_where_no_law_is(void **state)
{
	static const char format[] =
		"[scenario]\nduration = 2000s\nwarmup = 10s\n[backend b]\n[stage s]\nthreads "
		"= %u\nbackend = b\nwork = exponential 10ms\n[load l]\nrate = .7x\n";
	char text[300];
	for (unsigned threads = 1; threads <= 16; threads *= 4) {
		snprintf(text, sizeof text, format, threads);
		struct ran r = ran(text, 8);
		near("the mean response", mean_ms(r.run), 10 / 0.3, 0.04);
		assert_true(r.run->judgement.shed == 0);
		end(&r);
	}
}

/* The places are shared by the threads, and a full one may turn away what another has a place for. */
static void a_full_thread_does_not_ask_another(void **state)
{
	static const char format[] =
		"[scenario]\nduration = 400s\n[stage s]\nthreads = %u\nworkers = 2\ncapacity = 2\n"
		"service = deterministic 10ms\n[load l]\nrate = 300\n";
	char text[300];
	double completed_per_s[2];
	for (unsigned threads = 1; threads <= 2; threads++) {
		snprintf(text, sizeof text, format, threads);
		struct ran r = ran(text, 9);
		completed_per_s[threads - 1] = r.run->judgement.completed_per_s;
		end(&r);
	}
	assert_true(completed_per_s[1] < 0.99 * completed_per_s[0] && completed_per_s[1] > 150);
}

/* Closed users: throughput is users / (think + response), and with one user the response is the service. */
static void users_think_and_wait_for_their_answer(void **state)
{
	static const char format[] =
		"[scenario]\nduration = 1000s\n[stage s]\nservice = deterministic 100ms\n"
		"[load l]\narrivals = closed\nusers = %u\nthink = exponential 900ms\n";
	char text[300];
	snprintf(text, sizeof text, format, 1);
	struct ran r = ran(text, 7);
	near("the rate of one user", r.run->judgement.completed_per_s, 1, 0.05);
	near("his response", mean_ms(r.run), 100, 1e-9);
	end(&r);
	snprintf(text, sizeof text, format, 100);
	r = ran(text, 7);
	near("the rate of a hundred", r.run->judgement.completed_per_s, 10, 0.01);
	near("their response", mean_ms(r.run), 100 / 10.0 * 1000 - 900, 0.03);
	near("fairness", r.run->judgement.user_fairness, 1, 0.01);
	end(&r);
}

/* ---- arrivals ---- */

/* Rates over time, as counted by phase. */
static void rates_follow_the_profile(void **state)
{
	static const char *const forms[] = {"poisson", "constant", "burst"};
	char text[300];
	for (unsigned i = 0; i < 3; i++) {
		snprintf(text, sizeof text,
			 "[scenario]\nduration = 400s\n[stage s]\nworkers = 50\nservice = exponential 1ms\n"
			 "[load l]\narrivals = %s\nrate = 200, 100s 400, 200s..300s 200\non = 100ms\noff = "
			 "300ms\n",
			 forms[i]);
		struct ran r = ran(text, 8);
		static const double expected[] = {200, 400, 300, 200};
		assert_int_equal(r.run->judgement.phases, 4);
		for (unsigned p = 0; p < 4; p++)
			near(forms[i], r.run->judgement.phase[p].offered_per_s, expected[p],
			     i == 1   ? 0.001
			     : i == 0 ? 0.02
				      : 0.1);
		end(&r);
	}
}

/* Bursts are bursts: the same mean with much longer queues. */
static void bursts_queue_more_than_poisson(void **state)
{
	struct ran burst = ran("[scenario]\nduration = 400s\n[stage s]\nservice = exponential 1ms\n[load "
			       "l]\narrivals = burst\nrate = .5x\n",
			       9);
	struct ran poisson = ran(
		"[scenario]\nduration = 400s\n[stage s]\nservice = exponential 1ms\n[load l]\nrate = .5x\n",
		9);
	near("the rate", burst.run->judgement.offered_per_s, 500, 0.1);
	assert_true(mean_ms(burst.run) > 5 * mean_ms(poisson.run));
	end(&burst);
	end(&poisson);
}

static void the_number_of_users_follows_the_profile(void **state)
{
	struct ran r = ran("[scenario]\nduration = 40s\nwindow = 1s\n[stage s]\nworkers = 2000\nservice = "
			   "deterministic 100ms\n"
			   "[load l]\narrivals = closed\nusers = 3, 10s 1000, 20s 3, 25s..35s 103\nthink = "
			   "deterministic 900ms\n",
			   10);
	const weir_record *record = r.run->record;
	near("three", weir_record_at(record, 8, WEIR_CLASSES)->offered, 3, 0);
	near("a thousand", weir_record_at(record, 18, WEIR_CLASSES)->offered, 1000, 0.01);
	near("three again", weir_record_at(record, 23, WEIR_CLASSES)->offered, 3, 0);
	near("some more", weir_record_at(record, 30, WEIR_CLASSES)->offered, 58, 0.1);
	near("a hundred more", weir_record_at(record, 38, WEIR_CLASSES)->offered, 103, 0.01);
	end(&r);
}

/* ---- clients ---- */

/* A stage with room for nobody but the one in service: 9 of 10 that come together are shed, and each comes again three times. */
static void rejected_requests_come_again_as_often_as_told(void **state)
{
	struct ran r =
		ran("[scenario]\nduration = 100s\n[stage s]\ncapacity = 1\nservice = deterministic 200s\n"
		    "[load l]\narrivals = constant\nrate = 1\nretries = 3\nbackoff = 10ms\nbackoff_factor = "
		    "3\njitter = 0\n",
		    1);
	/* 99 arrivals; the first is served, the second waits, the others make four attempts each, at 10, 30 and 90 ms after the last. */
	const weir_totals *total = &r.run->judgement.total;
	assert_int_equal(total->offered, 2 + 97 * 4);
	assert_int_equal(total->shed, 97 * 4);
	assert_int_equal(r.run->lost, 97);
	end(&r);
}

/* Half of what can be served; for two seconds, a stall in which the queue grows and everybody in it goes. */
static void impatient_clients_go(void **state)
{
	static const char format[] =
		"[scenario]\nduration = 100s\n[stage s]\nservice = deterministic 10ms\n"
		"[load l]\narrivals = constant\nrate = 50\npatience = 150ms\nnoticed = %s\n"
		"[at 10s]\ns.speed = .005\n[at 11s]\ns.speed = 1\n";
	char text[400];
	snprintf(text, sizeof text, format, "on");
	struct ran r = ran(text, 1);
	/* One is stuck for two seconds, 93 go while they wait; perhaps one more has too little time left when its turn comes. */
	near("gone", (double)r.run->judgement.total.given_up, 93, 0.05);
	assert_true(r.run->record->place[0].used_ns[WEIR_USED_FOR_NOTHING] <= 20e6);
	assert_true(weir_hist_quantile(&r.run->judgement.total.response, 1) < 155 * WEIR_NS_PER_MS);
	end(&r);
	snprintf(text, sizeof text, format, "off");
	r = ran(text, 1);
	/* Where it is not noticed, they are served for nothing, and more go while that lasts. */
	assert_true(r.run->judgement.total.given_up > 150);
	near("for nothing", r.run->record->place[0].used_ns[WEIR_USED_FOR_NOTHING] / 1e6,
	     10.0 * (double)r.run->judgement.total.given_up, 1e-9);
	end(&r);
}

static void users_that_are_rejected_wait_and_begin_again(void **state)
{
	struct ran r = ran("[scenario]\nduration = 100s\n[stage s]\nworkers = 10\nservice = deterministic "
			   "1ms\nlaw = bucket\nrate = 0.000001\n"
			   "burst = 5\n[type a]\n[type b]\n[load l]\narrivals = closed\nusers = 1\nthink = "
			   "deterministic 1s\n"
			   "rejected_wait = 4s\nafter a = b\nafter b = a\n",
			   1);
	/* a b a b a, then b is shed and a is asked for every four seconds. */
	assert_int_equal(r.run->record->type[0].completed, 3);
	assert_int_equal(r.run->record->type[1].completed, 2);
	assert_int_equal(r.run->record->type[1].shed, 1);
	assert_int_equal(r.run->record->type[0].shed, 23);
	end(&r);
}

/* A chain that comes back: every second request is the one in the middle. */
static void back_is_the_type_before(void **state)
{
	struct ran r = ran("[scenario]\nduration = 1000s\n[stage s]\nservice = deterministic 1ms\n[type "
			   "a]\n[type b]\n[type c]\n"
			   "[load l]\narrivals = closed\nusers = 1\nthink = deterministic 99ms\nafter a = b "
			   "1, c 1\nafter b = back\nafter c = b\n",
			   2);
	/* a, then b (back to a) or c, then b, back to c: for ever between b and c once c was chosen. */
	uint64_t a = r.run->record->type[0].completed, b = r.run->record->type[1].completed,
		 c = r.run->record->type[2].completed;
	assert_true(a < 40);
	near("b and c alternate", (double)b, (double)c, 0.01);
	assert_int_equal(a + b + c, r.run->judgement.total.completed);
	end(&r);
}

static void groups_are_admitted_together_or_not_at_all(void **state)
{
	struct ran r = ran("[scenario]\nduration = 100s\n[stage s]\nworkers = 1\ncapacity = 7\nservice = "
			   "deterministic 1ms\n"
			   "[load l]\narrivals = constant\nrate = 40\ntogether = 4\n[load m]\narrivals = "
			   "constant\nrate = 40\ntogether = 8\n",
			   1);
	/* Fours fit; eights never do. */
	assert_int_equal(r.run->record->type[0].shed, 0);
	assert_int_equal(r.run->record->type[1].completed, 0);
	near("fours", (double)r.run->record->type[0].completed, 4000, 0.01);
	end(&r);
}

static void exempt_requests_pass_every_law(void **state)
{
	struct ran r = ran("[scenario]\nduration = 100s\n[stage s]\nservice = deterministic 1ms\nlaw = "
			   "bucket\nrate = 0.000001\nburst = 1\n"
			   "[load l]\nrate = 50\n[load health]\nrate = 1\nexempt = on\n",
			   1);
	assert_int_equal(r.run->record->type[0].completed, 1);
	assert_int_equal(r.run->record->type[1].shed, 0);
	assert_true(r.run->record->type[1].completed > 60);
	end(&r);
}

/* ---- changes ---- */

static void changes_come_when_they_are_due(void **state)
{
	struct ran r = ran("[scenario]\nduration = 40s\n[stage s]\nworkers = 100\nservice = deterministic "
			   "100ms\nlaw = none\n"
			   "[load l]\narrivals = constant\nrate = 100\n[at 10s]\ns.speed = .5\n[at "
			   "20s]\ns.law = bucket\ns.bucket.rate = 50\n"
			   "s.bucket.burst = 1\n[at 30s]\ns.law = none\ns.speed = 2\n",
			   1);
	const weir_judgement *j = &r.run->judgement;
	const weir_record *record = r.run->record;
	assert_int_equal(j->phases, 4);
	near("as made", (double)weir_hist_quantile(&record->phase[0].response, 0.5) / 1e6, 100, 0.033);
	near("half as fast", (double)weir_hist_quantile(&record->phase[1].response, 0.5) / 1e6, 200, 0.033);
	near("under a law", j->phase[2].shed, 0.5, 0.02);
	near("twice as fast", (double)weir_hist_quantile(&record->phase[3].response, 0.5) / 1e6, 50, 0.033);
	assert_true(j->phase[3].shed < 0.01);
	/* 100 workers, for 10 s each at 1, 1/2, 1/2, 2: 4000 s of work. */
	near("worker time", record->place[0].capacity_ns / 1e9, 4000, 1e-9);
	end(&r);
}

static void a_stall_of_a_backend_passes(void **state)
{
	struct ran r = ran("[scenario]\nduration = 20s\n[backend b]\nworkers = 10\n[stage s]\nworkers = "
			   "1000\nbackend = b\n"
			   "work = deterministic 100ms\n[load l]\narrivals = constant\nrate = 50\n[at "
			   "5s]\nb.speed = 0\n[at 8s]\nb.speed = 1\n",
			   1);
	near("nothing while it lasts", r.run->judgement.phase[1].completed_per_s, 0, 0);
	near("all of it", (double)r.run->judgement.total.completed, 995, 0.01);
	end(&r);
}

/* ---- laws that drop ---- */

/* A third of the requests is refused further down: their work is for nothing, and nobody counts them twice. */
static void what_is_shed_further_down_is_wasted_work(void **state)
{
	struct ran r = ran("[scenario]\nduration = 200s\n"
			   "[stage a]\nworkers = 20\nservice = deterministic 10ms\nnext = b\n"
			   "[stage b]\nservice = deterministic 1ms\nlaw = bucket\nrate = 200\nburst = 10\n"
			   "[load l]\narrivals = constant\nrate = 300\n",
			   1);
	const weir_totals *total = &r.run->judgement.total;
	near("dropped", (double)total->dropped, (double)total->offered / 3, 0.01);
	assert_int_equal(total->shed, 0);
	near("wasted", r.run->judgement.wasted_work, (10.0 / 3) / (10 + 2.0 / 3), 0.01);
	end(&r);
}

/* A backend that has no room says so at once: nobody has worked on what it refuses. */
static void what_a_backend_refuses_is_dropped_without_work(void **state)
{
	struct ran r = ran("[scenario]\nduration = 100s\n[backend b]\nmost = 1\n"
			   "[stage s]\nworkers = 100\nbackend = b\nwork = deterministic 15ms\n"
			   "[load l]\narrivals = constant\nrate = 100\n",
			   1);
	const weir_totals *total = &r.run->judgement.total;
	assert_true(total->dropped > 4000 && total->completed > 4000);
	assert_int_equal(r.run->record->place[1].used_ns[WEIR_USED_FOR_NOTHING], 0);
	near("work", r.run->record->place[1].used_ns[WEIR_USED_WELL] / 15e6, (double)total->completed, 1e-9);
	end(&r);
}

/* ---- anything ---- */

static const char *any(weir_random *random, const char *const *of, unsigned count)
{
	return of[weir_random_below(random, count)];
}

/* A scenario of random parts. All of them are valid. */
static void any_scenario(uint64_t seed, char *text, size_t size)
{
	static const char *const dists[] = {"deterministic 5ms", "exponential 8ms", "bimodal 6ms",
					    "lognormal 7ms", "pareto 9ms"};
	static const char *const laws[] = {"none",
					   "bucket\nbucket.rate = 300",
					   "threshold\nthreshold.waiting = 20",
					   "aimd",
					   "multiclass",
					   "codel"};
	static const char *const forms[] = {"poisson", "constant", "burst"};
	static const char *const orders[] = {"fifo", "by-class", "shortest", "newest-late"};
	weir_random r;
	weir_random_init(&r, seed);
#define BELOW(n) ((unsigned)weir_random_below(&r, (n)))
	size_t at = 0;
#define PUT(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
	PUT("[scenario]\nduration = 6s\nwarmup = %us\n[backend db]\nworkers = %u\ndiscipline = %s\n",
	    BELOW(3), 1 + BELOW(4), BELOW(2) ? "ps" : "fifo");
	if (BELOW(3) == 0)
		PUT("most = %u\n", 1 + BELOW(20));
	for (unsigned i = 0; i < 3; i++) {
		unsigned workers = 1 + BELOW(8);
		PUT("[stage s%u]\nworkers = %u\ncapacity = %u\nservice = %s\norder = %s\np90 = 200ms\nlaw = "
		    "%s\n",
		    i, workers, 1 + BELOW(200), any(&r, dists, 5), any(&r, orders, 4), any(&r, laws, 6));
		if (BELOW(3) == 0)
			PUT("threads = %u\n", 1 + BELOW(workers));
		if (BELOW(2))
			PUT("backend = db\nwork = %s\n", any(&r, dists, 5));
		if (i < 2 && BELOW(2))
			PUT(i == 0 ? "next = s1 .5, s2 .5\n" : "next = s2\n");
	}
	PUT("[load open]\narrivals = %s\nrate = 0.5x, 2s %u, 3s..4s 1x\nclass = %u\nretries = %u\n",
	    any(&r, forms, 3), 50 + BELOW(2000), BELOW(8), BELOW(4));
	if (BELOW(2))
		PUT("patience = %ums\nnoticed = %s\n", 1 + BELOW(500), BELOW(2) ? "on" : "off");
	if (BELOW(2))
		PUT("together = %u\n", 1 + BELOW(9));
	PUT("[type x]\nstage = s1\ncost = .5\n[type y]\nclass = 3\n[load users]\narrivals = closed\nusers = "
	    "%u, 2s %u, 4s 2\n"
	    "think = exponential 50ms\nrejected_wait = 100ms\nafter x = y .7, x .3\nafter y = x\nclass = "
	    "1\nretries = %u\n",
	    1 + BELOW(10), 1 + BELOW(300), BELOW(2));
	if (BELOW(2))
		PUT("patience = %ums\n", 1 + BELOW(300));
	PUT("[at 3s]\ns0.speed = .3\ndb.speed = %g\ns1.law = bucket\ns1.bucket.rate = 90\n[at 5s]\ns1.law = "
	    "none\ndb.speed = 1\n",
	    BELOW(2) ? 0.0 : 0.5);
#undef PUT
#undef BELOW
}

static bool same(const weir_run *one, const weir_run *other)
{
	const weir_totals *a = &one->judgement.total, *b = &other->judgement.total;
	const weir_record *r = one->record, *q = other->record;
	if (a->offered != b->offered || a->shed != b->shed || a->dropped != b->dropped ||
	    a->given_up != b->given_up || a->completed != b->completed || a->good != b->good ||
	    a->sum_ns != b->sum_ns || one->lost != other->lost)
		return false;
	for (unsigned w = 0; w < r->windows; w++)
		for (unsigned k = 0; k < r->options.classes; k++) {
			const weir_sim_window *x = weir_record_at(r, w, k), *y = weir_record_at(q, w, k);
			if (x->offered != y->offered || x->shed != y->shed || x->completed != y->completed ||
			    x->p99_ms != y->p99_ms)
				return false;
		}
	return true;
}

static void whatever_it_is_made_of_the_books_balance(void **state)
{
	char text[4000];
	uint64_t seeds = check_seeds(40, 150);
	uint64_t given_up = 0, dropped = 0, shed = 0, completed = 0;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		any_scenario(seed, text, sizeof text);
		struct ran r = ran(text, seed), again = ran(text, seed);
		const weir_totals *one = &r.run->judgement.total;
		/* The run has asserted that they add up. */
		if (!same(r.run, again.run))
			fail_msg("seed %llu gives two different runs", (unsigned long long)seed);
		given_up += one->given_up;
		dropped += one->dropped;
		shed += one->shed;
		completed += one->completed;
		end(&r);
		end(&again);
	}
	/* A search that never meets a case proves nothing about it. */
	assert_true(given_up > 100 && dropped > 100 && shed > 100 && completed > 1000);
}

static void memory_that_runs_out_fails_the_run(void **state)
{
	static const char text[] = "[scenario]\nduration = 100ms\n[backend b]\n[stage s]\nservice = "
				   "exponential 10ms\nlaw = bucket\nrate = 50\n"
				   "backend = b\nwork = exponential 1ms\n[load l]\nrate = 500\n[load "
				   "u]\narrivals = closed\nusers = 5\n"
				   "[at 50ms]\ns.law = none\n";
	struct ran r = {0};
	assert_int_equal(weir_scenario_parse("test.sim", text, strlen(text), &r.scenario), 0);
	assert_int_equal(weir_scenario_check(r.scenario), 0);
	uint64_t before = weir_mem_live(), nth = 1;
	for (int result = -1; result != 0; nth++) {
		weir_mem_fail_after(nth);
		result = weir_run_new(r.scenario, 1, "test", &r.run);
		weir_mem_fail_after(0);
		if (result != 0)
			assert_int_equal(weir_mem_live(), before);
		assert_true(nth < 1000);
	}
	assert_true(nth > 20);
	end(&r);
}

static void another_seed_is_another_run(void **state)
{
	static const char text[] =
		"[scenario]\nduration = 5s\n[stage s]\nservice = exponential 10ms\n[load l]\nrate = .9x\n";
	struct ran one = ran(text, 1), other = ran(text, 2);
	assert_true(one.run->judgement.total.sum_ns != other.run->judgement.total.sum_ns);
	end(&one);
	end(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(m_m_1_at_0_7_responds_in_a_third_more_than_three_services),
		CHECK_TEST(m_d_1_waits_half_as_long),
		CHECK_TEST(d_d_1_never_waits),
		CHECK_TEST(a_pipeline_of_m_m_1_is_their_sum),
		CHECK_TEST(processor_sharing_is_blind_to_the_distribution),
		CHECK_TEST(threads_change_nothing_where_no_law_is),
		CHECK_TEST(a_full_thread_does_not_ask_another),
		CHECK_TEST(users_think_and_wait_for_their_answer),
		CHECK_TEST(rates_follow_the_profile),
		CHECK_TEST(bursts_queue_more_than_poisson),
		CHECK_TEST(the_number_of_users_follows_the_profile),
		CHECK_TEST(rejected_requests_come_again_as_often_as_told),
		CHECK_TEST(impatient_clients_go),
		CHECK_TEST(users_that_are_rejected_wait_and_begin_again),
		CHECK_TEST(back_is_the_type_before),
		CHECK_TEST(groups_are_admitted_together_or_not_at_all),
		CHECK_TEST(exempt_requests_pass_every_law),
		CHECK_TEST(changes_come_when_they_are_due),
		CHECK_TEST(a_stall_of_a_backend_passes),
		CHECK_TEST(what_is_shed_further_down_is_wasted_work),
		CHECK_TEST(what_a_backend_refuses_is_dropped_without_work),
		CHECK_TEST(whatever_it_is_made_of_the_books_balance),
		CHECK_TEST(memory_that_runs_out_fails_the_run),
		CHECK_TEST(another_seed_is_another_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
