/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

#include <stdlib.h>

static double seconds(const weir_world *world, uint64_t since_ns)
{
	return (double)(weir_world_now(world) - since_ns) / 1e9;
}

static void note(struct rig *rig, double response_ns)
{
	if (rig->count == rig->room) {
		rig->room = rig->room != 0 ? 2 * rig->room : 4096;
		rig->responses = realloc(rig->responses, rig->room * sizeof(double));
		assert_non_null(rig->responses);
	}
	rig->responses[rig->count++] = response_ns;
}

static struct rig_job *take_job(struct rig *rig)
{
	struct rig_job *job = rig->free_jobs;
	if (job == NULL) {
		job = calloc(1, sizeof(*job));
		assert_non_null(job);
		job->rig = rig;
		return job;
	}
	rig->free_jobs = job->next;
	return job;
}

static void give_job(struct rig *rig, struct rig_job *job)
{
	job->next = rig->free_jobs;
	rig->free_jobs = job;
}

static void finish(weir_timer *timer, void *arg)
{
	struct rig_job *job = arg;
	struct rig *rig = job->rig;
	uint64_t now_ns = weir_world_now(rig->world);
	note(rig, (double)(now_ns - job->event.offered_ns));
	rig->completed++;
	rig->inside--;
	rig->work_ns += (double)(now_ns - job->event.started_ns);
	weir_done(&job->event);
	give_job(rig, job);
}

static void serve(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	struct rig *rig = arg;
	for (size_t i = 0; i < count; i++) {
		struct rig_job *job = (struct rig_job *)events[i];
		double service_ns = weir_dist_draw(&rig->options.service, &rig->random);
		weir_hold(events[i]);
		weir_timer_init(&job->timer, finish, job);
		weir_sim_timer(rig->world, &job->timer, weir_world_now(rig->world) + (uint64_t)service_ns);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	struct rig *rig = arg;
	rig->dropped++;
	rig->dropped_why[why]++;
	rig->inside--;
	give_job(rig, (struct rig_job *)event);
}

static void arrive(weir_arrivals *arrivals, void *arg)
{
	struct rig *rig = arg;
	struct rig_job *job = take_job(rig);
	weir_event_init(&job->event, 0);
	rig->offered++;
	rig->inside++;
	weir_verdict verdict = weir_offer(rig->stage, &job->event);
	if (verdict != WEIR_ADMITTED) {
		rig->inside--;
		rig->shed++;
		rig->shed_why[verdict]++;
		give_job(rig, job);
	} else if (rig->inside > rig->most_inside) {
		rig->most_inside = rig->inside;
	}
}

static void *params_of(const struct rig_options *options)
{
	void *params = calloc(1, options->law->params_bytes);
	assert_non_null(params);
	weir_law_defaults(options->law, params);
	for (const char *const *at = options->params; at != NULL && *at != NULL; at += 2)
		must(weir_law_set(options->law, params, at[0], at[1]));
	return params;
}

void rig_open(struct rig *rig, struct rig_options options)
{
	*rig = (struct rig){.options = options, .world = world_virtual(options.seed)};
	weir_domain *domain = domain_elastic(rig->world, "workers", options.workers, options.workers);
	void *params = options.law != NULL ? params_of(&options) : NULL;
	weir_stage_options stage = {.name = "rig",
				    .handle = serve,
				    .drop = drop,
				    .arg = rig,
				    .capacity = options.capacity != 0 ? options.capacity : 100000,
				    .order = options.order,
				    .newest_after_ns = options.newest_after_ns,
				    .admission = options.law,
				    .admission_params = params};
	weir_random_init(&rig->random, options.seed + 1000);
	must(weir_stage_new(domain, &stage, &rig->stage));
	free(params);
	must(weir_world_start(rig->world));
	weir_arrivals_start(&rig->arrivals, rig->world, WEIR_POISSON, 0, arrive, rig);
	rig_measure(rig);
}

void rig_load(struct rig *rig, double load)
{
	weir_arrivals_rate(&rig->arrivals, load * rig->options.workers * 1e9 / rig->options.service.mean);
}

void rig_run(struct rig *rig, double for_s)
{
	world_run(rig->world, (uint64_t)(for_s * 1e9));
}

void rig_measure(struct rig *rig)
{
	rig->began_ns = weir_world_now(rig->world);
	rig->count = 0;
	rig->offered = rig->shed = rig->dropped = rig->completed = 0;
	rig->most_inside = rig->inside;
	rig->work_ns = 0;
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		rig->shed_why[why] = rig->dropped_why[why] = 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double rig_quantile(struct rig *rig, double quantile)
{
	if (rig->count == 0)
		return 0;
	qsort(rig->responses, rig->count, sizeof(double), by_value);
	return rig->responses[(size_t)(quantile * (double)(rig->count - 1))];
}

double rig_busy(const struct rig *rig)
{
	return rig->work_ns / 1e9 / seconds(rig->world, rig->began_ns) / rig->options.workers;
}

double rig_lost(const struct rig *rig)
{
	return rig->offered != 0 ? (double)(rig->shed + rig->dropped) / (double)rig->offered : 0;
}

double rig_later_than(const struct rig *rig, double ns)
{
	size_t later = 0;
	for (size_t i = 0; i < rig->count; i++)
		later += rig->responses[i] > ns;
	return rig->count != 0 ? (double)later / (double)rig->count : 0;
}

weir_report rig_report(const struct rig *rig)
{
	weir_report report;
	assert_true(weir_stage_report(rig->stage, 0, &report));
	return report;
}

void rig_close(struct rig *rig)
{
	weir_arrivals_stop(&rig->arrivals);
	world_end(&rig->world);
	while (rig->free_jobs != NULL)
		free(take_job(rig));
	free(rig->responses);
}
