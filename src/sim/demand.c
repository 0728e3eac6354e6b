/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scenario asks of its stages and backends. Service times and routes give the capacity (the meaning of
 * 1x), and show whether a target is possible at all.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "sim/check.h"

#define REQUESTS_MAX 1e10 /* of a load in a run; they take about an hour */

/* ---- the demand at each place ---- */

typedef struct demand {
	/* Of one request, on average. */
	double stage_ns[WEIR_SCENARIO_STAGES], backend_ns[WEIR_SCENARIO_BACKENDS];
} demand;

/*
 * Follows a request of this cost from a stage on, weighted by the probability that it gets there. There
 * is no cycle: that was checked before.
 */
static void follow(weir_scenario *scenario, int at, double probability, double cost, demand *sum)
{
	weir_scenario_stage *stage = &scenario->stage[at];
	stage->used = true;
	sum->stage_ns[at] += probability * stage->service.mean * cost;
	if (stage->backend_index >= 0) {
		scenario->backend[stage->backend_index].used = true;
		sum->backend_ns[stage->backend_index] += probability * stage->work.mean * cost;
	}
	for (unsigned i = 0; i < stage->next.count; i++)
		follow(scenario, stage->next.at[i].index, probability * stage->next.at[i].share, cost, sum);
}

static int check_path(const weir_scenario *scenario, int at, unsigned length)
{
	const weir_scenario_stage *stage = &scenario->stage[at];
	if (length > WEIR_SCENARIO_PATH)
		return weir_section_wrong(
			scenario->path, weir_section_line(stage, "next"),
			"a request passes more than %d stages, or goes in circles; at most %d are accepted",
			WEIR_SCENARIO_PATH, WEIR_SCENARIO_PATH);
	for (unsigned i = 0; i < stage->next.count; i++) {
		int failed = check_path(scenario, stage->next.at[i].index, length + 1);
		if (failed)
			return failed;
	}
	return 0;
}

int weir_check_paths(const weir_scenario *scenario)
{
	int failed = 0;
	for (unsigned i = 0; i < scenario->stages && !failed; i++)
		failed = check_path(scenario, (int)i, 1);
	return failed;
}

/* The work of one request for this stage's workers, in all stages that share them. */
static double pool_ns(const weir_scenario *scenario, const demand *sum, unsigned at)
{
	const char *pool = scenario->stage[at].pool;
	double ns = sum->stage_ns[at];
	for (unsigned i = 0; i < scenario->stages; i++)
		if (i != at && pool[0] != '\0' && strcmp(scenario->stage[i].pool, pool) == 0)
			ns += sum->stage_ns[i];
	return ns;
}

/* Requests per second that the bottleneck on the way can serve. 0: unknown. */
static double capacity_of(const weir_scenario *scenario, const demand *sum)
{
	double longest_ns = 0;
	for (unsigned i = 0; i < scenario->stages; i++)
		longest_ns = fmax(longest_ns, pool_ns(scenario, sum, i) / scenario->stage[i].workers);
	for (unsigned i = 0; i < scenario->backends; i++) {
		const weir_backend_options *options = &scenario->backend[i].options;
		longest_ns = fmax(longest_ns, sum->backend_ns[i] / options->workers);
		longest_ns = fmax(longest_ns, sum->backend_ns[i] * options->lock);
	}
	return longest_ns > 0 ? 1e9 / longest_ns : 0;
}

/* Whether there are so many requests that the run would practically never end. */
static bool never_ends(const weir_scenario *scenario, const weir_scenario_load *load)
{
	double area = REQUESTS_MAX;
	if (weir_profile_peak(&load->rate) == 0)
		return false;
	return weir_profile_after(&load->rate, 1, 0, scenario->duration_ns, &area) < scenario->duration_ns;
}

int weir_check_rate(weir_scenario *scenario, weir_scenario_load *load)
{
	demand sum;
	memset(&sum, 0, sizeof sum);
	for (unsigned i = 0; i < load->mix.count; i++) {
		weir_scenario_type *type = &scenario->type[load->mix.at[i].index];
		type->used = true;
		follow(scenario, type->stage_index, load->mix.at[i].share, type->cost, &sum);
	}
	load->capacity_per_s = capacity_of(scenario, &sum);
	for (unsigned i = 0; i < load->chain_count; i++) {
		weir_scenario_type *type = &scenario->type[load->chain[i].type];
		type->used = true;
		follow(scenario, type->stage_index, 0, type->cost, &sum);
	}
	bool users = load->form == WEIR_LOAD_CLOSED;
	if (weir_profile_resolve(&load->rate, users ? 0 : load->capacity_per_s) < 0)
		return weir_section_wrong(scenario->path,
					  users ? weir_section_line(load, "users")
						: weir_section_line(load, "rate"),
					  "%s", weir_error());
	if (!users && never_ends(scenario, load))
		return weir_section_wrong(scenario->path, weir_section_line(load, "rate"),
					  "more than %g requests would come; accepted is a lower rate, or a "
					  "shorter duration",
					  REQUESTS_MAX);
	if (users && weir_profile_peak(&load->rate) > 1e6)
		return weir_section_wrong(scenario->path, weir_section_line(load, "users"),
					  "at most 1000000 users are accepted");
	return 0;
}

/* ---- targets ---- */

/* The cheapest request of each class that reaches a stage; 0: none does. */
static void find_cheapest(const weir_scenario *scenario, int at, unsigned klass, double cost,
			  double cheapest[][WEIR_CLASSES])
{
	double *place = &cheapest[at][klass];
	*place = *place == 0 ? cost : fmin(*place, cost);
	const weir_scenario_stage *stage = &scenario->stage[at];
	for (unsigned i = 0; i < stage->next.count; i++)
		find_cheapest(scenario, stage->next.at[i].index, klass, cost, cheapest);
}

static void find_cheapest_of(const weir_scenario *scenario, const weir_scenario_load *load, int type_index,
			     double cheapest[][WEIR_CLASSES])
{
	const weir_scenario_type *type = &scenario->type[type_index];
	unsigned klass = weir_scenario_class(load, type);
	find_cheapest(scenario, type->stage_index, klass, type->cost, cheapest);
}

/*
 * The minimum that no law can change: the same quantile of the service time, or of the work behind it,
 * with nothing waiting.
 */
static double least_ns(const weir_scenario *scenario, const weir_scenario_stage *stage, double cost)
{
	double least = 0;
	if (stage->service.mean > 0)
		least = weir_dist_quantile(&stage->service, stage->quantile) * cost * stage->degrade;
	if (stage->backend_index >= 0) {
		double work = weir_dist_quantile(&stage->work, stage->quantile) * cost * stage->degrade;
		work += (double)scenario->backend[stage->backend_index].options.round_trip_ns;
		least = fmax(least, work);
	}
	return least;
}

/* Rounded up to three digits, so that the value suggested in a message is accepted. */
static uint64_t round_up(double ns)
{
	double digit = pow(10, floor(log10(ns)) - 2);
	return (uint64_t)(ceil(ns / digit) * digit + 0.5);
}

static const char *unit_for(double ns)
{
	return ns < 1e6 ? "us" : ns < 1e9 ? "ms" : "s";
}

static int check_target(const weir_scenario *scenario, const weir_scenario_stage *stage,
			const double *cheapest)
{
	char percentile[32], target[32], service[32];
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t target_ns = weir_scenario_target_ns(stage, k);
		if (cheapest[k] == 0 || target_ns == 0)
			continue;
		double least = least_ns(scenario, stage, cheapest[k]);
		if ((double)target_ns >= least)
			continue;
		weir_text_print_percentile(percentile, sizeof percentile, stage->quantile);
		weir_text_print_time(target, sizeof target, target_ns, "");
		weir_text_print_time(service, sizeof service, round_up(least), unit_for(least));
		return weir_section_wrong(scenario->path, stage->target_line,
					  "%s = %s is impossible for [stage %s]: the %s of its service time "
					  "alone is %s; accepted "
					  "is that or more",
					  percentile, target, stage->head.name, percentile, service);
	}
	return 0;
}

static void find_all_cheapest(const weir_scenario *scenario, double cheapest[][WEIR_CLASSES])
{
	memset(cheapest, 0, WEIR_SCENARIO_STAGES * sizeof *cheapest);
	for (unsigned i = 0; i < scenario->loads; i++) {
		const weir_scenario_load *load = &scenario->load[i];
		for (unsigned j = 0; j < load->mix.count; j++)
			find_cheapest_of(scenario, load, load->mix.at[j].index, cheapest);
		for (unsigned j = 0; j < load->chain_count; j++)
			find_cheapest_of(scenario, load, load->chain[j].type, cheapest);
	}
}

int weir_check_targets(const weir_scenario *scenario)
{
	double cheapest[WEIR_SCENARIO_STAGES][WEIR_CLASSES];
	find_all_cheapest(scenario, cheapest);
	for (unsigned i = 0; i < scenario->stages; i++) {
		int failed = check_target(scenario, &scenario->stage[i], cheapest[i]);
		if (failed)
			return failed;
	}
	return 0;
}

int weir_check_target(const weir_scenario *scenario, const weir_scenario_stage *stage, int index)
{
	double cheapest[WEIR_SCENARIO_STAGES][WEIR_CLASSES];
	find_all_cheapest(scenario, cheapest);
	return check_target(scenario, stage, cheapest[index]);
}
