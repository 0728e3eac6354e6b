/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The papers' laws in the shapes that the papers report: not their numbers, which are of their machines, but who is held, who is
 * sacrificed, who misses. One stage, Poisson arrivals, exponential service; seeded, so exact.
 */
#include "support/worlds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS    60000
#define CLASSES 2
#define SEEDS   check_seeds(1, 3)

struct trial {
	/* set by the test */
	const weir_admission_law *law; /* NULL: none */
	const void *params;
	uint32_t workers;
	double service_s; /* mean; times the quality */
	bool heed_quality;
	/* the run */
	weir_world *world;
	weir_stage *stage;
	weir_arrivals arrivals[CLASSES];
	struct job *jobs;
	size_t next;
	double *seen_s[CLASSES]; /* response times since the last look */
	size_t count[CLASSES], offered[CLASSES], shed[CLASSES];
	double quality_sum;
};

static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct trial *t = arg;
	for (size_t i = 0; i < count; i++) {
		double quality = t->heed_quality ? weir_stage_quality(stage, events[i]->klass) : 1;
		double service_s = weir_random_exponential(weir_sim_random(t->world), t->service_s * quality);
		double waited_s = (double)(weir_world_now(t->world) - events[i]->offered_ns) / 1e9;
		unsigned klass = events[i]->klass;
		if (t->count[klass] < JOBS)
			t->seen_s[klass][t->count[klass]++] = waited_s + service_s;
		t->quality_sum += quality;
		weir_finish_after(events[i], &job_of(events[i])->timer, (uint64_t)(service_s * 1e9));
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct trial *t = arg;
	(void)stage;
	t->shed[event->klass] += why == WEIR_SHED_WAITED;
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct trial *t = arg;
	unsigned klass = (unsigned)(arrivals - t->arrivals);
	struct job *job = jobs_next_free(t->jobs, JOBS, &t->next);
	job_init(job, 0, klass);
	t->offered[klass]++;
	t->shed[klass] += weir_offer(t->stage, &job->event) != WEIR_ADMITTED;
}

static void trial_open(struct trial *t, uint64_t seed)
{
	t->world = world_virtual(seed);
	weir_domain *domain = domain_elastic(t->world, "workers", t->workers, t->workers);
	must(weir_stage_new(domain,
			    &(weir_stage_options){.name = "trial",
						  .handle = serve,
						  .drop = drop,
						  .arg = t,
						  .capacity = JOBS - 100,
						  .admission = t->law,
						  .admission_params = t->params},
			    &t->stage));
	t->jobs = calloc(JOBS, sizeof(*t->jobs));
	assert_non_null(t->jobs);
	for (int k = 0; k < CLASSES; k++) {
		t->seen_s[k] = malloc(JOBS * sizeof(double));
		assert_non_null(t->seen_s[k]);
	}
	must(weir_world_start(t->world));
	for (int k = 0; k < CLASSES; k++)
		weir_arrivals_start(&t->arrivals[k], t->world, WEIR_POISSON, 0, arrive, t);
}

/* Offers this many times the capacity, in each class, for so long; what was seen before is forgotten. */
static void trial_run(struct trial *t, double first, double second, double seconds)
{
	double capacity = t->workers / t->service_s, loads[CLASSES] = {first, second};
	for (int k = 0; k < CLASSES; k++) {
		weir_arrivals_rate(&t->arrivals[k], loads[k] * capacity);
		t->count[k] = t->offered[k] = t->shed[k] = 0;
	}
	t->quality_sum = 0;
	world_run(t->world, (uint64_t)(seconds * 1e9));
}

static void trial_close(struct trial *t)
{
	for (int k = 0; k < CLASSES; k++)
		weir_arrivals_stop(&t->arrivals[k]);
	world_end_faulty(&t->world); /* some have a minute of work waiting */
	for (int k = 0; k < CLASSES; k++)
		free(t->seen_s[k]);
	free(t->jobs);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double p90_s(struct trial *t, unsigned klass)
{
	qsort(t->seen_s[klass], t->count[klass], sizeof(double), by_size);
	return t->count[klass] > 0 ? t->seen_s[klass][t->count[klass] * 9 / 10] : 0;
}

static double shed_share(const struct trial *t, unsigned klass)
{
	return t->offered[klass] > 0 ? (double)t->shed[klass] / (double)t->offered[klass] : 0;
}

/* Work done, of what could have been, at full quality. */
static double goodput(const struct trial *t, double seconds)
{
	return (double)(t->count[0] + t->count[1]) * t->service_s / t->workers / seconds;
}

static double quality_mean(const struct trial *t)
{
	return t->quality_sum / (double)(t->count[0] + t->count[1]);
}

/* PAPERS_SHOW=1 in the environment: what they all are. */
static void expect(uint64_t seed, const char *what, double value, double least, double most)
{
	if (check_env("PAPERS_SHOW", 0) != 0)
		printf("    seed %" PRIu64 ": %s: %g (%g to %g)\n", seed, what, value, least, most);
	else if (!(value >= least && value <= most))
		fail_msg("seed %" PRIu64 ": %s is %g, not from %g to %g", seed, what, value, least, most);
}

static weir_aimd_params aimd_at(double target_s)
{
	weir_aimd_params params;
	weir_law_defaults(&weir_law_aimd, &params);
	params.target_ns = (uint64_t)(target_s * 1e9);
	params.tuning.rate_start = 200;
	return params;
}

/* 160 requests a second, at a target of a second: what the parameters of the paper are made for. */
static struct trial trial_of(const weir_admission_law *law, const void *params)
{
	return (struct trial){.law = law, .params = params, .workers = 4, .service_s = .025};
}

static void aimd_holds_at_twice_the_capacity_what_nothing_holds(void **state)
{
	weir_aimd_params params = aimd_at(1);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial with = trial_of(&weir_law_aimd, &params), without = trial_of(NULL, NULL);
		trial_open(&with, seed);
		trial_open(&without, seed);
		trial_run(&with, 2, 0, 60);
		trial_run(&with, 2, 0, 120);
		trial_run(&without, 2, 0, 180);
		expect(seed, "p90 without", p90_s(&without, 0), 60, 100);
		expect(seed, "p90 with aimd", p90_s(&with, 0), .4, 2);
		expect(seed, "the share that is shed", shed_share(&with, 0), .45, .7);
		expect(seed, "work done", goodput(&with, 120), .7, 1.01);
		trial_close(&with);
		trial_close(&without);
	}
}

static void multiclass_protects_the_high_class(void **state)
{
	weir_multiclass_params params;
	weir_aimd_params same = aimd_at(1);
	weir_law_defaults(&weir_law_multiclass, &params);
	params.target_ns[0] = WEIR_NS_PER_S;
	params.tuning.rate_start = 200;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial with = trial_of(&weir_law_multiclass, &params),
			     one = trial_of(&weir_law_aimd, &same);
		trial_open(&with, seed);
		trial_open(&one, seed);
		trial_run(&with, .5, 1.5, 60);
		trial_run(&with, .5, 1.5, 120);
		trial_run(&one, .5, 1.5, 60);
		trial_run(&one, .5, 1.5, 120);
		expect(seed, "shed of the high class, told apart", shed_share(&with, 0), 0, .02);
		expect(seed, "shed of the low class, told apart", shed_share(&with, 1), .6, 1);
		expect(seed, "shed of the high class, not told apart", shed_share(&one, 0), .4, .7);
		expect(seed, "p90 of the high class", p90_s(&with, 0), 0, 1.5);
		trial_close(&with);
		trial_close(&one);
	}
}

static weir_quality_params quality_at(double target_s, bool admission)
{
	weir_quality_params params;
	weir_law_defaults(&weir_law_quality, &params);
	params.target_ns = (uint64_t)(target_s * 1e9);
	params.admission = admission;
	return params;
}

/* Three times what full quality allows: everybody is served, a third as well. */
static void quality_alone_serves_everybody(void **state)
{
	weir_quality_params params = quality_at(1, false);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial t = trial_of(&weir_law_quality, &params);
		t.heed_quality = true;
		trial_open(&t, seed);
		trial_run(&t, .5, 0, 60);
		expect(seed, "quality at half the capacity", quality_mean(&t), .999, 1);
		trial_run(&t, 3, 0, 60);
		trial_run(&t, 3, 0, 60);
		expect(seed, "quality at three times the capacity", quality_mean(&t), .2, .34);
		expect(seed, "shed", shed_share(&t, 0), 0, 0);
		expect(seed, "p90", p90_s(&t, 0), 0, 3);
		trial_run(&t, .5, 0, 60);
		trial_run(&t, .5, 0, 30);
		expect(seed, "quality afterwards", quality_mean(&t), .95, 1);
		trial_close(&t);
	}
}

static double admission_of(const struct trial *t)
{
	weir_report report;
	assert_true(weir_stage_report(t->stage, 0, &report));
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, "admission") == 0)
			return report.value[i].value;
	fail_msg("no admission in the report");
	return 0;
}

/* Fifteen times the capacity, of which the lowest quality can do ten. */
static void at_the_lowest_quality_admission_comes_on_and_goes_off(void **state)
{
	weir_quality_params with = quality_at(1, true), without = quality_at(1, false);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial t = trial_of(&weir_law_quality, &with),
			     alone = trial_of(&weir_law_quality, &without);
		t.heed_quality = alone.heed_quality = true;
		trial_open(&t, seed);
		trial_open(&alone, seed);
		trial_run(&t, .5, 0, 10);
		expect(seed, "admission control, before", admission_of(&t), 0, 0);
		trial_run(&t, 15, 0, 20);
		trial_run(&t, 15, 0, 30);
		trial_run(&alone, 15, 0, 50);
		expect(seed, "admission control, under load", admission_of(&t), 1, 1);
		expect(seed, "quality under load", quality_mean(&t), .1, .11);
		expect(seed, "p90 under load", p90_s(&t, 0), 0, 2);
		expect(seed, "p90 of degradation alone", p90_s(&alone, 0), 5, 50);
		expect(seed, "shed under load", shed_share(&t, 0), .3, .995);
		trial_run(&t, .5, 0, 60);
		trial_run(&t, .5, 0, 60);
		expect(seed, "admission control, afterwards", admission_of(&t), 0, 0);
		expect(seed, "quality afterwards", quality_mean(&t), .95, 1);
		expect(seed, "shed afterwards", shed_share(&t, 0), 0, 0);
		trial_close(&t);
		trial_close(&alone);
	}
}

/* SEDA's threshold bounds the response time, and not where it was told to: it follows a mean, one queue too late. */
static void threshold_misses_its_target_as_its_paper_says(void **state)
{
	weir_threshold_params params = {.target_ns = WEIR_NS_PER_S, .rise = 40};
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial t = trial_of(&weir_law_threshold, &params);
		trial_open(&t, seed);
		trial_run(&t, 2, 0, 60);
		trial_run(&t, 2, 0, 120);
		expect(seed, "p90", p90_s(&t, 0), 1.1, 3);
		expect(seed, "the share that is shed", shed_share(&t, 0), .45, .6);
		expect(seed, "work done", goodput(&t, 120), .97, 1.01);
		trial_close(&t);
	}
}

/* ---- traps, each named after the failure ---- */

/* A service that hung for two minutes works again. */
static void trap_a_starved_stage_stays_starved(void **state)
{
	weir_aimd_params params = aimd_at(1);
	params.tuning.samples_min = 1; /* or it would take an hour to notice that it hangs */
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial t = trial_of(&weir_law_aimd, &params);
		weir_report report;
		trial_open(&t, seed);
		trial_run(&t, .1, 0, 30);
		t.service_s = 10;
		trial_run(&t, 40, 0, 300); /* the same 16 a second */
		assert_true(weir_stage_report(t.stage, 0, &report));
		expect(seed, "the rate of the hung", report.rate_per_s, .05, 1);
		t.service_s = .025;
		trial_run(&t, .1, 0, 60);
		trial_run(&t, .1, 0, 10);
		expect(seed, "shed when it works again", shed_share(&t, 0), 0, .05);
		trial_close(&t);
	}
}

/* The bucket admits what the queue then keeps for seconds. */
static void trap_a_rate_limit_alone_serves_what_is_already_late(void **state)
{
	weir_aimd_params params = aimd_at(1);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct trial plain = trial_of(&weir_law_aimd, &params);
		trial_open(&plain, seed);
		trial_run(&plain, 2, 0, 30); /* the step */
		expect(seed, "p90 right after the step", p90_s(&plain, 0), 1.4, 30);
		trial_close(&plain);
		weir_aimd_params patient = params;
		patient.tuning.patience = .8;
		struct trial t = trial_of(&weir_law_aimd, &patient);
		trial_open(&t, seed);
		trial_run(&t, 2, 0, 30);
		expect(seed, "p90 right after the step, late ones dropped", p90_s(&t, 0), 0, 1.1);
		trial_close(&t);
	}
}

/* A supervisor must not find a busy node dead. */
static void trap_health_checks_are_shed(void **state)
{
	weir_aimd_params params = aimd_at(1);
	struct trial t = trial_of(&weir_law_aimd, &params);
	params.tuning.rate_start = params.tuning.rate_max = params.tuning.rate_min;
	struct job checks[20];
	trial_open(&t, 1);
	trial_run(&t, 1, 0, 1);
	assert_true(t.shed[0] > 100);
	jobs_init(checks, 20, 0);
	for (int i = 0; i < 20; i++) {
		checks[i].event.flags = WEIR_EVENT_EXEMPT;
		assert_int_equal(weir_offer(t.stage, &checks[i].event), WEIR_ADMITTED);
	}
	trial_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(aimd_holds_at_twice_the_capacity_what_nothing_holds),
		CHECK_TEST(multiclass_protects_the_high_class),
		CHECK_TEST(quality_alone_serves_everybody),
		CHECK_TEST(at_the_lowest_quality_admission_comes_on_and_goes_off),
		CHECK_TEST(threshold_misses_its_target_as_its_paper_says),
		CHECK_TEST(trap_a_starved_stage_stays_starved),
		CHECK_TEST(trap_a_rate_limit_alone_serves_what_is_already_late),
		CHECK_TEST(trap_health_checks_are_shed),
	};
	return cmocka_run_group_tests_name("papers", tests, NULL, NULL);
}
