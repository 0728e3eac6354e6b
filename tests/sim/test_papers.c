/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The papers' laws in the shapes that the papers report: not their numbers, which are of their machines, but who is held, who is
 * sacrificed, who misses. One stage, Poisson arrivals, exponential service; seeded, so exact.
 */
#include "support/worlds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS    60000
#define CLASSES 2

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
	for (int k = 0; k < CLASSES; k++) {
		weir_arrivals_stop(&t->arrivals[k]);
		free(t->seen_s[k]);
	}
	world_end_faulty(&t->world);
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

static void expect(const char *what, double value, double least, double most)
{
	if (getenv("PAPERS_SHOW") != NULL)
		printf("    %s: %g (%g to %g)\n", what, value, least, most);
	else if (!(value >= least && value <= most))
		fail_msg("%s is %g, not from %g to %g", what, value, least, most);
}

static weir_aimd_params aimd_at(double target_s)
{
	weir_aimd_params params;
	weir_law_defaults(&weir_law_aimd, &params);
	params.target_ns = (uint64_t)(target_s * 1e9);
	return params;
}
