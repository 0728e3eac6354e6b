/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a scenario as a whole: names become indexes, shares are made to add up to 1, and loads without types
 * get one of their own.
 */
#include "sim/check.h"

#include <string.h>

#define WINDOWS_MAX 100000

/* ---- names ---- */

int weir_check_find(const weir_scenario *scenario, unsigned kind, const char *name, unsigned line,
		    int *ret_index)
{
	const weir_section_kind *of = &weir_scenario_sections.kinds[kind];
	*ret_index = weir_sections_find(of, scenario, name);
	if (*ret_index >= 0)
		return 0;
	return weir_section_wrong(scenario->path, line, "there is no [%s %s] in this scenario", of->name,
				  name);
}

/* Resolves names, and makes the shares add up to 1. */
static int find_shares(const weir_scenario *scenario, weir_shares *shares, unsigned line, unsigned kind)
{
	double sum = 0;
	int failed = 0;
	for (unsigned i = 0; i < shares->count; i++)
		sum += shares->at[i].share;
	for (unsigned i = 0; i < shares->count && !failed; i++) {
		failed = weir_check_find(scenario, kind, shares->at[i].name, line, &shares->at[i].index);
		shares->at[i].share /= sum;
	}
	return failed;
}

/* ---- stages and types ---- */

unsigned weir_scenario_class(const weir_scenario_load *load, const weir_scenario_type *type)
{
	return type->klass >= 0 ? (unsigned)type->klass : load->klass;
}

uint64_t weir_scenario_target_ns(const weir_scenario_stage *stage, unsigned klass)
{
	uint64_t target = 0;
	for (unsigned k = 0; k <= klass; k++)
		target = stage->target_ns[k] != 0 ? stage->target_ns[k] : target;
	return target;
}

/* By default a pool has one worker, and a reactor passes everything on. */
static int check_workers(const weir_scenario *scenario, weir_scenario_stage *stage)
{
	stage->unbounded = stage->threads != 0 && stage->workers == 0;
	if (stage->unbounded && stage->service.mean != 0)
		return weir_section_wrong(
			scenario->path, stage->head.line,
			"[stage %s] has threads and a service of its own, so it needs 'workers = COUNT'",
			stage->head.name);
	if (stage->workers == 0)
		stage->workers = stage->unbounded ? 4096 : 1;
	if (stage->workers < stage->threads)
		return weir_section_wrong(scenario->path, stage->head.line,
					  "[stage %s] needs at least as many workers as threads: each has "
					  "its share of them",
					  stage->head.name);
	return 0;
}

static int check_stage(weir_scenario *scenario, weir_scenario_stage *stage)
{
	int failed =
		find_shares(scenario, &stage->next, weir_section_line(stage, "next"), WEIR_SECTION_STAGE);
	if (failed)
		return failed;
	if (stage->backend[0] != '\0') {
		failed = weir_check_find(scenario, WEIR_SECTION_BACKEND, stage->backend,
					 weir_section_line(stage, "backend"), &stage->backend_index);
		if (failed)
			return failed;
		if (stage->work.mean == 0)
			return weir_section_wrong(scenario->path, weir_section_line(stage, "backend"),
						  "a stage with a backend needs 'work = DISTRIBUTION MEAN': "
						  "what it asks of it");
	} else if (stage->work.mean != 0) {
		return weir_section_wrong(scenario->path, stage->head.line,
					  "'work' is for a backend; name it with 'backend = NAME'");
	}
	if (stage->service.mean == 0 && stage->backend_index < 0)
		return weir_section_wrong(scenario->path, stage->head.line,
					  "[stage %s] needs 'service = DISTRIBUTION MEAN', or a backend",
					  stage->head.name);
	failed = check_workers(scenario, stage);
	if (failed)
		return failed;
	for (const weir_scenario_stage *other = scenario->stage; stage->pool[0] != '\0' && other < stage;
	     other++)
		if (strcmp(other->pool, stage->pool) == 0 && other->workers != stage->workers)
			return weir_section_wrong(scenario->path, stage->head.line,
						  "[stage %s] and [stage %s] share pool '%s': they need the "
						  "same 'workers', which are the pool's",
						  other->head.name, stage->head.name, stage->pool);
	return weir_check_law(scenario, stage);
}

/* A type without a stage enters at the first one. */
static int check_type(weir_scenario *scenario, weir_scenario_type *type)
{
	if (type->stage[0] == '\0')
		return 0;
	return weir_check_find(scenario, WEIR_SECTION_STAGE, type->stage, type->head.line,
			       &type->stage_index);
}

static int check_backend(const weir_scenario *scenario, const weir_scenario_backend *backend)
{
	if ((backend->options.thrash_by > 0) == (backend->options.thrash_from > 0))
		return 0;
	return weir_section_wrong(scenario->path, backend->head.line,
				  "thrash_from and thrash_by go together: beyond so many jobs, by so much");
}

/* ---- loads ---- */

static int own_type(weir_scenario *scenario, weir_scenario_load *load)
{
	if (scenario->types == WEIR_SCENARIO_TYPES)
		return weir_section_wrong(scenario->path, load->head.line,
					  "too many types; at most %d are accepted, those of loads included",
					  WEIR_SCENARIO_TYPES);
	weir_scenario_type *type = &scenario->type[scenario->types++];
	*type = (weir_scenario_type){
		.head = {.line = load->head.line}, .cost = load->cost, .klass = -1, .revenue = load->revenue};
	memcpy(type->head.name, load->head.name, sizeof type->head.name);
	memcpy(type->stage, load->stage, sizeof type->stage);
	load->mix.count = 1;
	load->mix.at[0] = (weir_share){.share = 1};
	memcpy(load->mix.at[0].name, load->head.name, sizeof load->head.name);
	return check_type(scenario, type);
}

static int check_row(const weir_scenario *scenario, weir_scenario_load *load, unsigned row)
{
	weir_chain_row *at = &load->chain[row];
	int failed = weir_check_find(scenario, WEIR_SECTION_TYPE, at->name, at->line, &at->type);
	if (failed)
		return failed;
	load->row_of_type[at->type] = (int)row;
	return find_shares(scenario, &at->to, at->line, WEIR_SECTION_TYPE);
}

/* Every type that a user can reach must have a row that says what follows. */
static int check_chain(const weir_scenario *scenario, weir_scenario_load *load)
{
	for (unsigned t = 0; t < WEIR_SCENARIO_TYPES; t++)
		load->row_of_type[t] = -1;
	for (unsigned i = 0; i < load->chain_count; i++) {
		int failed = check_row(scenario, load, i);
		if (failed)
			return failed;
	}
	if (load->chain_count > 0 && load->chain[0].back)
		return weir_section_wrong(scenario->path, load->chain[0].line,
					  "users begin with this type, so there is no way back from it");
	for (unsigned i = 0; i < load->chain_count; i++)
		for (unsigned j = 0; j < load->chain[i].to.count; j++)
			if (load->row_of_type[load->chain[i].to.at[j].index] < 0)
				return weir_section_wrong(scenario->path, load->chain[i].line,
							  "what comes after '%s'? Add 'after %s = ...'",
							  load->chain[i].to.at[j].name,
							  load->chain[i].to.at[j].name);
	return 0;
}

static int check_form(const weir_scenario *scenario, const weir_scenario_load *load)
{
	if (load->form == WEIR_LOAD_TRACE && load->file[0] == '\0')
		return weir_section_wrong(
			scenario->path, load->head.line,
			"a trace needs 'file = PATH', of a CSV with the seconds of each arrival");
	if (load->form == WEIR_LOAD_CLOSED &&
	    (!weir_section_given(load, "users") || weir_section_given(load, "rate")))
		return weir_section_wrong(scenario->path, weir_section_line(load, "rate"),
					  "closed users need 'users = NUMBER over time' and no rate");
	if (load->form < WEIR_LOAD_CLOSED && load->rate.entries == 0)
		return weir_section_wrong(scenario->path, load->head.line,
					  "[load %s] needs 'rate = NUMBER over time'", load->head.name);
	if (load->form != WEIR_LOAD_CLOSED && weir_section_given(load, "users"))
		return weir_section_wrong(scenario->path, weir_section_line(load, "users"),
					  "'users' are for arrivals = closed; others have a rate");
	if (load->chain_count > 0 && load->form != WEIR_LOAD_CLOSED)
		return weir_section_wrong(
			scenario->path, load->chain[0].line,
			"only users (arrivals = closed) go from one type to the next; others have a mix");
	if (load->together > 1 && load->form == WEIR_LOAD_CLOSED)
		return weir_section_wrong(
			scenario->path, load->head.line,
			"users ask for one thing at a time; 'together' is for other arrivals");
	if (load->chain_count > 0 && load->mix.count > 0)
		return weir_section_wrong(scenario->path, weir_section_line(load, "mix"),
					  "a load has a mix or a chain of types, not both");
	return 0;
}

static int check_load(weir_scenario *scenario, weir_scenario_load *load)
{
	int failed = check_form(scenario, load);
	if (!failed && load->mix.count == 0 && load->chain_count == 0)
		failed = own_type(scenario, load);
	if (!failed)
		failed = find_shares(scenario, &load->mix, weir_section_line(load, "mix"), WEIR_SECTION_TYPE);
	return failed ? failed : check_chain(scenario, load);
}

/* ---- the whole scenario ---- */

/* About two hundred windows, of a length that people would choose: 1, 2, 2.5 or 5 times a power of ten. */
static uint64_t usual_window(uint64_t duration_ns)
{
	static const uint64_t parts[] = {4, 8, 10, 20}; /* in quarters */
	uint64_t power = 10 * WEIR_NS_PER_MS;
	for (unsigned i = 0;; i = (i + 1) % 4) {
		uint64_t window = power / 4 * parts[i];
		if (window * 240 >= duration_ns)
			return window;
		power *= i == 3 ? 10 : 1;
	}
}

static int check_times(weir_scenario *scenario)
{
	if (scenario->warmup_ns >= scenario->duration_ns)
		return weir_section_wrong(scenario->path, weir_section_line(scenario, "duration"),
					  "the warmup must be shorter than the duration");
	if (scenario->window_ns == 0)
		scenario->window_ns = usual_window(scenario->duration_ns);
	if (scenario->duration_ns / scenario->window_ns > WINDOWS_MAX)
		return weir_section_wrong(scenario->path, weir_section_line(scenario, "duration"),
					  "at most %d windows fit into a run; accepted is a longer window",
					  WINDOWS_MAX);
	return 0;
}

#define EACH(array, count, check)                                 \
	for (unsigned i = 0; i < scenario->count && !failed; i++) \
	failed = check(scenario, &scenario->array[i])

int weir_scenario_check(weir_scenario *scenario)
{
	int failed = check_times(scenario);
	if (!failed && scenario->stages == 0)
		failed = weir_section_wrong(scenario->path, 1,
					    "there is no [stage NAME]; a scenario needs one");
	if (!failed && scenario->loads == 0)
		failed = weir_section_wrong(scenario->path, 1,
					    "there is no [load NAME]; a scenario needs one");
	EACH(backend, backends, check_backend);
	EACH(stage, stages, check_stage);
	EACH(type, types, check_type);
	EACH(load, loads, check_load);
	if (!failed)
		failed = weir_check_paths(scenario);
	EACH(load, loads, weir_check_rate);
	if (!failed)
		failed = weir_check_targets(scenario);
	return failed ? failed : weir_check_changes(scenario);
}
