/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a scenario in a world: made, traced, and changed while it runs. */
#include <errno.h>
#include <string.h>

#include <weir/inspect.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/keys.h"
#include "sim/topology_inside.h"

static uint64_t now_of(const weir_topology *topology)
{
	return weir_world_now(topology->world) - WEIR_NS_PER_S;
}

/* ---- initialisation ---- */

unsigned weir_topology_classes(const weir_scenario *scenario)
{
	unsigned most = 0;
	for (unsigned i = 0; i < scenario->loads; i++)
		most = scenario->load[i].klass > most ? scenario->load[i].klass : most;
	for (unsigned i = 0; i < scenario->types; i++)
		if (scenario->type[i].used && scenario->type[i].klass > (int)most)
			most = (unsigned)scenario->type[i].klass;
	return most + 1;
}

static bool traced(const weir_scenario_stage *stage)
{
	return stage->used && stage->law[0] != '\0';
}

unsigned weir_topology_traces(const weir_scenario *scenario)
{
	unsigned stages = 0;
	for (unsigned i = 0; i < scenario->stages; i++)
		stages += traced(&scenario->stage[i]);
	return stages * weir_topology_classes(scenario);
}

static void name_traces(weir_topology *topology)
{
	unsigned at = 0;
	for (unsigned i = 0; i < topology->scenario->stages; i++)
		for (unsigned k = 0; traced(&topology->scenario->stage[i]) && k < topology->classes; k++) {
			topology->record->trace[at].stage = topology->scenario->stage[i].head.name;
			topology->record->trace[at++].klass = k;
		}
}

/* A domain of its own, or that of an earlier stage with the same pool. */
static int make_domain(weir_topology *topology, unsigned i, weir_domain **ret_domain)
{
	const weir_scenario_stage *as = &topology->stages[i];
	for (unsigned j = 0; as->pool[0] != '\0' && j < i; j++)
		if (strcmp(topology->stages[j].pool, as->pool) == 0) {
			*ret_domain = topology->place[j].domain;
			return 0;
		}
	weir_domain_options options = {.name = as->head.name,
				       .kind = as->threads != 0 ? WEIR_REACTOR : WEIR_ELASTIC,
				       .threads = as->threads,
				       .min_threads = as->workers,
				       .max_threads = as->workers};
	return weir_domain_new(topology->world, &options, ret_domain);
}

static int make_stage(weir_topology *topology, unsigned i)
{
	place *at = &topology->place[i];
	weir_scenario_stage *as = &topology->stages[i];
	void *params = NULL;
	*at = (place){.topology = topology, .as = as, .index = i, .speed = 1};
	weir_stage_options options = {.name = as->head.name,
				      .handle = weir_path_handle,
				      .drop = weir_path_drop,
				      .arg = at,
				      .capacity = as->capacity,
				      .order = as->order,
				      .newest_after_ns = as->newest_after_ns,
				      .concurrency = as->threads != 0 && !as->unbounded ? as->workers : 0,
				      .heed_downstream = as->heeds};
	int failed = make_domain(topology, i, &at->domain);
	if (!failed)
		failed = weir_scenario_law_of(topology->scenario, as, &options.admission, &params);
	options.admission_params = params;
	if (!failed)
		failed = weir_stage_new(at->domain, &options, &at->stage);
	if (!failed) {
		weir_stage_mode(at->stage, as->mode);
		failed = weir_stage_shed_ceiling(at->stage, as->ceiling);
	}
	weir_mem_free(params);
	return failed;
}

static int make_places(weir_topology *topology)
{
	const weir_scenario *scenario = topology->scenario;
	weir_place *places = topology->record->place;
	int failed = 0;
	for (unsigned i = 0; i < scenario->stages && !failed; i++) {
		failed = make_stage(topology, i);
		places[i].name = scenario->stage[i].head.name;
		weir_record_workers(topology->record, 0, i, scenario->stage[i].workers);
	}
	for (unsigned i = 0; i < scenario->backends && !failed; i++) {
		const weir_scenario_backend *as = &scenario->backend[i];
		failed = weir_backend_new(topology->world, &as->options, &topology->backend[i]);
		places[scenario->stages + i].name = as->head.name;
		weir_record_workers(topology->record, 0, scenario->stages + i, as->options.workers);
	}
	return failed;
}

int weir_topology_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_record *record,
		      weir_topology **ret_topology)
{
	weir_topology *topology = weir_mem_zalloc(sizeof *topology);
	if (topology == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	*topology = (weir_topology){.scenario = scenario, .world = world, .record = record};
	topology->stages = weir_mem_array(WEIR_SCENARIO_STAGES, sizeof *topology->stages);
	topology->classes = weir_topology_classes(scenario);
	weir_random_init(&topology->random, seed);
	*ret_topology = topology; /* also after a failure: to be freed after its world */
	if (topology->stages == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(topology->stages, scenario->stage, sizeof scenario->stage);
	name_traces(topology);
	return make_places(topology);
}

void weir_topology_free(weir_topology **ref)
{
	weir_topology *topology = *ref;
	if (topology == NULL)
		return;
	for (unsigned i = 0; i < WEIR_SCENARIO_BACKENDS; i++)
		if (topology->backend[i] != NULL)
			weir_backend_free(&topology->backend[i]);
	for (unsigned i = 0; i < WEIR_SCENARIO_STAGES; i++)
		weir_mem_free(topology->place[i].idle);
	weir_mem_free(topology->stages);
	weir_mem_free(topology);
	*ref = NULL;
}

void weir_topology_end(weir_topology *topology)
{
	const weir_scenario *scenario = topology->scenario;
	if (topology->over)
		return;
	for (unsigned i = 0; i < scenario->stages + scenario->backends; i++)
		weir_record_workers(topology->record, scenario->duration_ns, i, 0);
	topology->over = true;
}

/* ---- during the run ---- */

void weir_topology_trace(weir_topology *topology)
{
	weir_report report;
	unsigned at = 0;
	for (unsigned i = 0; i < topology->scenario->stages; i++)
		for (unsigned k = 0; traced(&topology->scenario->stage[i]) && k < topology->classes;
		     k++, at++)
			if (weir_stage_report(topology->place[i].stage, k, &report))
				weir_record_trace(topology->record, at, &report);
}

uint64_t weir_topology_spared(const weir_topology *topology, unsigned klass)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < topology->scenario->stages; i++) {
		weir_stage_stats stats;
		if (topology->place[i].stage == NULL || topology->place[i].as->mode != WEIR_DRY_RUN)
			continue;
		weir_stage_read(topology->place[i].stage, klass, &stats);
		for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
			sum += stats.spared[why];
	}
	return sum;
}

static void change_speed(weir_topology *topology, const weir_scenario_change *change)
{
	bool stage = change->stage >= 0;
	unsigned i = (unsigned)(stage ? change->stage : change->backend);
	uint32_t workers =
		stage ? topology->stages[i].workers : topology->scenario->backend[i].options.workers;
	unsigned at = stage ? i : topology->scenario->stages + i;
	weir_record_workers(topology->record, now_of(topology), at, workers * change->speed);
	if (stage)
		topology->place[i].speed = change->speed;
	else
		weir_backend_speed(topology->backend[i], change->speed);
}

static int change_law(weir_topology *topology, place *at)
{
	const weir_admission_law *law;
	void *params;
	int failed = weir_scenario_law_of(topology->scenario, at->as, &law, &params);
	if (failed)
		return failed;
	failed = weir_stage_admission(at->stage, law, params);
	weir_mem_free(params);
	at->law_changed = false;
	return failed;
}

/*
 * Service and work take effect from the next request on. Settings of the law take effect when all lines
 * of this time have been read.
 */
static int change_stage(weir_topology *topology, const weir_scenario_change *change)
{
	place *at = &topology->place[change->stage];
	int failed = weir_scenario_stage_set(
		at->as, &(weir_line){change->set.key, change->set.value, change->set.line});
	at->law_changed |= weir_keys_find(weir_stage_keys, change->set.key) == NULL ||
			   strcmp(change->set.key, "law") == 0;
	if (failed || !change->last)
		return failed;
	weir_stage_mode(at->stage, at->as->mode);
	failed = weir_stage_shed_ceiling(at->stage, at->as->ceiling);
	return failed || !at->law_changed ? failed : change_law(topology, at);
}

int weir_topology_change(weir_topology *topology, const weir_scenario_change *change)
{
	if (!change->of_speed)
		return change_stage(topology, change);
	change_speed(topology, change);
	return 0;
}
