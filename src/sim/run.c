/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "sim/load.h"

/* What lives as long as the run. */
struct stand {
	weir_run *run;
	weir_world *world;
	weir_topology *topology;
	weir_loads *loads;
	weir_timer window, change;
	unsigned next_change;
	int failed; /* by a change during the run */
	char why[300];
};

static uint64_t now_of(const struct stand *stand)
{
	return weir_world_now(stand->world) - WEIR_NS_PER_S;
}

static void keep_notice(const char *text, void *arg)
{
	struct stand *stand = arg;
	weir_run *run = stand->run;
	if (run->notices == WEIR_RUN_NOTICES)
		return;
	run->notice[run->notices].at_ns = now_of(stand);
	snprintf(run->notice[run->notices++].text, sizeof run->notice[0].text, "%s", text);
}

static void end_window(weir_timer *timer, void *arg)
{
	struct stand *stand = arg;
	const weir_record_options *options = &stand->run->record->options;
	uint64_t now = now_of(stand);
	weir_topology_trace(stand->topology);
	weir_record_window(stand->run->record, now);
	if (now + options->window_ns <= options->duration_ns)
		weir_sim_timer(stand->world, timer, now + options->window_ns + WEIR_NS_PER_S);
}

/* Applies all changes that are due, then starts the timer for the next one. */
static void apply_changes(weir_timer *timer, void *arg)
{
	struct stand *stand = arg;
	const weir_scenario *scenario = stand->run->scenario;
	for (; stand->next_change < scenario->changes; stand->next_change++) {
		const weir_scenario_change *change = &scenario->change[stand->next_change];
		if (change->at_ns > now_of(stand)) {
			weir_sim_timer(stand->world, timer, change->at_ns + WEIR_NS_PER_S);
			return;
		}
		int failed = weir_topology_change(stand->topology, change);
		if (failed && !stand->failed) {
			stand->failed = failed;
			snprintf(stand->why, sizeof stand->why, "%s", weir_error());
		}
	}
}

/* ---- before the run ---- */

/* The percentile of the first stage that has a target and where requests enter. */
static void find_targets(weir_run *run)
{
	const weir_scenario *scenario = run->scenario;
	bool found = false;
	run->quantile = 0.9;
	for (unsigned i = 0; i < scenario->types; i++) {
		const weir_scenario_type *type = &scenario->type[i];
		const weir_scenario_stage *stage = &scenario->stage[type->stage_index];
		if (!type->used)
			continue;
		for (unsigned k = 0; k < WEIR_CLASSES; k++)
			if (run->target_ns[k] == 0 && (type->klass < 0 || (unsigned)type->klass == k))
				run->target_ns[k] = weir_scenario_target_ns(stage, k);
		if (!found && weir_scenario_target_ns(stage, WEIR_CLASSES - 1) != 0) {
			found = true;
			run->quantile = stage->quantile;
		}
	}
	for (unsigned i = 0; i < scenario->loads; i++)
		if (scenario->load[i].target_ns != 0)
			run->target_ns[scenario->load[i].klass] = scenario->load[i].target_ns;
	/* A target further down the way is better than none. */
	for (unsigned i = 0; i < scenario->stages && run->target_ns[0] == 0; i++)
		for (unsigned k = 0; scenario->stage[i].used && k < WEIR_CLASSES; k++)
			run->target_ns[k] = weir_scenario_target_ns(&scenario->stage[i], k);
}

static void mark_phases(weir_run *run)
{
	const weir_scenario *scenario = run->scenario;
	uint64_t at;
	for (unsigned i = 0; i < scenario->loads; i++)
		for (unsigned j = 0; (at = weir_profile_change(&scenario->load[i].rate, j)) != UINT64_MAX;
		     j++)
			weir_record_phase(run->record, at);
	for (unsigned i = 0; i < scenario->changes; i++)
		weir_record_phase(run->record, scenario->change[i].at_ns);
	/* Before the end of the warmup nothing is measured. */
	weir_record_phase(run->record, scenario->warmup_ns);
}

static int make_record(weir_run *run)
{
	const weir_scenario *scenario = run->scenario;
	double revenue[WEIR_SCENARIO_TYPES];
	for (unsigned i = 0; i < scenario->types; i++)
		revenue[i] = scenario->type[i].revenue;
	weir_record_options options = {
		.duration_ns = scenario->duration_ns,
		.warmup_ns = scenario->warmup_ns,
		.window_ns = scenario->window_ns,
		.quantile = run->quantile,
		.classes = weir_topology_classes(scenario),
		.types = scenario->types,
		.revenue = revenue,
		.places = scenario->stages + scenario->backends,
		.traces = weir_topology_traces(scenario),
	};
	int failed = weir_record_new(&options, &run->record);
	if (!failed)
		mark_phases(run);
	return failed;
}

static int make_world(struct stand *stand)
{
	weir_world_options options = {.simulated = true,
				      .seed = stand->run->seed,
				      .trace_entries = 64,
				      .notice = keep_notice,
				      .notice_arg = stand};
	const weir_scenario *scenario = stand->run->scenario;
	uint64_t seed = stand->run->seed;
	int failed = weir_world_new(&options, &stand->world);
	if (!failed)
		failed = weir_topology_new(scenario, stand->world, seed * 7919 + 1, stand->run->record,
					   &stand->topology);
	if (!failed)
		failed = weir_loads_new(scenario, stand->world, seed * 104729 + 2, stand->topology,
					stand->run->record, &stand->loads);
	return failed ? failed : weir_world_start(stand->world);
}

/* ---- after the run ---- */

/* Freeing the world hands back waiting requests; held ones are freed with their pool. */
static void take_down(struct stand *stand)
{
	if (stand->topology != NULL)
		weir_topology_end(stand->topology);
	if (stand->world != NULL)
		weir_world_free(&stand->world);
	weir_topology_free(&stand->topology);
	weir_loads_free(&stand->loads);
}

static bool has_target(const weir_run *run)
{
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (run->target_ns[k] != 0)
			return true;
	return false;
}

static void check_books(const weir_run *run)
{
	const weir_record *record = run->record;
	const weir_totals *total = &run->judgement.total;
	WEIR_ASSERT(record->inside_at_start + total->offered ==
		    total->shed + total->dropped + total->given_up + total->completed + record->inside);
}

/* How many of each class a dry run has let in that would have been shed, added to what is there. */
static void count_spared(struct stand *stand, int sign)
{
	weir_record *record = stand->run->record;
	for (unsigned k = 0; k < record->options.classes; k++)
		record->klass[k].spared += (uint64_t)sign * weir_topology_spared(stand->topology, k);
}

static int go(struct stand *stand)
{
	weir_run *run = stand->run;
	int failed = make_world(stand);
	if (failed)
		return failed;
	weir_timer_init(&stand->window, end_window, stand);
	weir_timer_init(&stand->change, apply_changes, stand);
	weir_sim_timer(stand->world, &stand->window, run->scenario->window_ns + WEIR_NS_PER_S);
	apply_changes(&stand->change, stand);
	weir_loads_start(stand->loads);
	weir_sim_run(stand->world, run->scenario->warmup_ns + WEIR_NS_PER_S);
	count_spared(stand, -1);
	weir_sim_run(stand->world, run->scenario->duration_ns + WEIR_NS_PER_S);
	count_spared(stand, 1);
	weir_record_window(run->record, run->scenario->duration_ns); /* the rest of the last one */
	weir_topology_end(stand->topology);
	failed = weir_loads_finish(stand->loads);
	if (failed)
		return failed;
	run->lost = weir_loads_lost(stand->loads);
	weir_judge(run->record, has_target(run), &run->judgement);
	check_books(run);
	if (weir_world_check(stand->world) != 0)
		return weir_error_set(-EPROTO, "the counters of a stage do not add up");
	return stand->failed ? weir_error_set(stand->failed, "%s", stand->why) : 0;
}

int weir_run_new(const weir_scenario *scenario, uint64_t seed, const char *label, weir_run **ret_run)
{
	weir_run *run = weir_mem_zalloc(sizeof *run);
	if (run == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	struct stand stand = {.run = run};
	run->scenario = scenario;
	run->seed = seed;
	snprintf(run->label, sizeof run->label, "%s", label);
	find_targets(run);
	int failed = make_record(run);
	if (!failed)
		failed = go(&stand);
	take_down(&stand);
	if (failed)
		weir_run_free(&run);
	*ret_run = run;
	return failed;
}

void weir_run_free(weir_run **run)
{
	if (*run == NULL)
		return;
	weir_record_free(&(*run)->record);
	weir_mem_free(*run);
	*run = NULL;
}
