/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes while a scenario runs: checked in the order of their times, each on what the ones before have left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/check.h"

static int by_time(const void *a, const void *b)
{
	const weir_scenario_change *one = a, *other = b;
	if (one->at_ns != other->at_ns)
		return one->at_ns < other->at_ns ? -1 : 1;
	return one->set.line < other->set.line ? -1 : one->set.line > other->set.line;
}

static int read_speed(const weir_scenario *scenario, weir_scenario_change *change)
{
	double least = change->backend >= 0 ? 0 : 1e-6;
	change->of_speed = true;
	if (weir_text_number(change->set.value, &change->speed) == 0 && change->speed >= least &&
	    change->speed <= 1e6)
		return 0;
	return weir_section_wrong(scenario->path, change->set.line,
				  "speed = %s: must be a number from %g to 1e+06, 1 being as made",
				  change->set.value, least);
}

/*
 * Changes of speed and service times may put a target out of reach: runs exist to show that. A target
 * that is set out of reach is a mistake.
 */
static int check_new_target(const weir_scenario *scenario, const weir_scenario_change *change,
			    const weir_scenario_stage *stage)
{
	bool aims = false;
	for (unsigned i = 0; i < scenario->changes; i++) {
		const weir_scenario_change *other = &scenario->change[i];
		aims = aims || (other->at_ns == change->at_ns && strcmp(other->name, change->name) == 0 &&
				weir_scenario_concerns_target(other->set.key));
	}
	return aims ? weir_check_target(scenario, stage, change->stage) : 0;
}

static int check_change(const weir_scenario *scenario, weir_scenario_change *change,
			weir_scenario_stage *stages)
{
	const weir_section_kind *kinds = weir_scenario_sections.kinds;
	const weir_setting *set = &change->set;
	change->stage = weir_sections_find(&kinds[WEIR_SECTION_STAGE], scenario, change->name);
	change->backend = weir_sections_find(&kinds[WEIR_SECTION_BACKEND], scenario, change->name);
	if (change->stage < 0 && change->backend < 0)
		return weir_section_wrong(scenario->path, set->line,
					  "there is no stage or backend '%s' in this scenario", change->name);
	if (strcmp(set->key, "speed") == 0)
		return read_speed(scenario, change);
	const weir_key *key = weir_keys_find(weir_stage_keys, set->key);
	bool later = change->backend < 0 && (key == NULL || (key->flags & WEIR_KEY_LIVE) != 0);
	if (!later)
		return weir_section_wrong(scenario->path, set->line,
					  "'%s' cannot change while it runs; accepted are speed, and of "
					  "stages service, work, law, "
					  "mode, ceiling, and what the law takes",
					  set->key);
	weir_scenario_stage *stage = &stages[change->stage];
	if (weir_scenario_stage_set(stage, &(weir_line){set->key, set->value, set->line}) < 0)
		return weir_section_wrong(scenario->path, set->line, "%s", weir_error());
	int failed = change->last ? weir_check_law(scenario, stage) : 0;
	return failed || !change->last ? failed : check_new_target(scenario, change, stage);
}

/* A law and its parameters take several lines, and a law is only applied with all of them. */
static void mark_last(weir_scenario *scenario)
{
	for (unsigned i = 0; i < scenario->changes; i++) {
		weir_scenario_change *change = &scenario->change[i];
		change->last = true;
		for (unsigned j = i + 1; j < scenario->changes && scenario->change[j].at_ns == change->at_ns;
		     j++)
			if (strcmp(scenario->change[j].name, change->name) == 0 &&
			    strcmp(scenario->change[j].set.key, "speed") != 0)
				change->last = false;
	}
}

int weir_check_changes(weir_scenario *scenario)
{
	weir_scenario_stage *stages = weir_mem_array(WEIR_SCENARIO_STAGES, sizeof *stages);
	int failed = 0;
	if (stages == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(stages, scenario->stage, sizeof scenario->stage);
	qsort(scenario->change, scenario->changes, sizeof *scenario->change, by_time);
	mark_last(scenario);
	for (unsigned i = 0; i < scenario->changes && !failed; i++)
		failed = check_change(scenario, &scenario->change[i], stages);
	weir_mem_free(stages);
	return failed;
}
