/* SPDX-License-Identifier: Apache-2.0 */
/* The law of a stage: found by its name, given its parameters, and tried. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/check.h"

static void list_laws(char *text, size_t size)
{
	const weir_admission_law *law;
	size_t at = (size_t)snprintf(text, size, "none");
	for (size_t i = 0; (law = weir_law_at(i)) != NULL && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, ", %s", law->name);
}

static const char *law_name_at(const void *list, size_t at)
{
	const weir_admission_law *law = weir_law_at(at);
	return law != NULL ? law->name : NULL;
}

static int find_law(const weir_scenario *scenario, const char *name, unsigned line,
		    const weir_admission_law **ret_law)
{
	char all[240], meant[80] = "accepted";
	*ret_law = weir_law_find(name);
	if (*ret_law != NULL)
		return 0;
	list_laws(all, sizeof all);
	const char *near = weir_text_nearest(name, law_name_at, NULL);
	if (near != NULL)
		snprintf(meant, sizeof meant, "did you mean '%s'? Accepted", near);
	return weir_section_wrong(scenario->path, line, "there is no law '%s'; %s are %s", name, meant, all);
}

static int set_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
		     const char *key, const weir_setting *set)
{
	if (weir_law_set(law, params, key, set->value) == 0)
		return 0;
	return weir_section_wrong(scenario->path, set->line, "%s = %s: %s", set->key, set->value,
				  weir_error());
}

/* "aimd.decrease": only for that law. */
static int set_named_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
			   const weir_setting *set)
{
	const char *dot = strchr(set->key, '.');
	char name[WEIR_SCENARIO_NAME] = "";
	const weir_admission_law *of;
	memcpy(name, set->key, (size_t)(dot - set->key));
	int failed = find_law(scenario, name, set->line, &of);
	if (failed || of != law)
		return failed;
	return set_param(scenario, law, params, dot + 1, set);
}

/* A key that a law does not know was perhaps meant for its stage. */
static int set_own_param(const weir_scenario *scenario, const weir_admission_law *law, void *params,
			 const weir_setting *set)
{
	const char *near = weir_text_nearest(set->key, weir_keys_name_at, weir_stage_keys);
	int failed = set_param(scenario, law, params, set->key, set);
	if (!failed || near == NULL || weir_text_nearest(set->key, weir_keys_name_at, law->params) != NULL)
		return failed;
	return weir_section_wrong(
		scenario->path, set->line,
		"there is no '%s' here, nor a parameter of law '%s' of that name; did you mean "
		"'%s'?",
		set->key, law->name, near);
}

static int unknown_setting(const weir_scenario *scenario, const weir_setting *set)
{
	char names[240];
	return weir_section_wrong(
		scenario->path, set->line,
		"there is no '%s' here; accepted are %s, a target (p90 = 200ms), and the parameters of the "
		"stage's law",
		set->key, weir_keys_list(weir_stage_keys, names, sizeof names));
}

/* If law is NULL, only targets and other laws' parameters are allowed. */
static int set_params(const weir_scenario *scenario, const weir_scenario_stage *stage,
		      const weir_admission_law *law, void *params)
{
	bool aims = law != NULL && weir_keys_find(law->params, "target") != NULL &&
		    weir_keys_find(law->params, "percentile") != NULL;
	for (unsigned i = 0; i < stage->settings; i++) {
		const weir_setting *set = &stage->setting[i];
		int failed = 0;
		if (weir_scenario_concerns_target(set->key))
			failed = aims ? set_param(scenario, law, params, set->key, set) : 0;
		else if (strchr(set->key, '.') != NULL)
			failed = set_named_param(scenario, law, params, set);
		else if (law == NULL)
			failed = unknown_setting(scenario, set);
		else
			failed = set_own_param(scenario, law, params, set);
		if (failed)
			return failed;
	}
	return 0;
}

int weir_scenario_law_of(const weir_scenario *scenario, const weir_scenario_stage *stage,
			 const weir_admission_law **ret_law, void **ret_params)
{
	const weir_admission_law *law = NULL;
	void *params = NULL;
	int failed = 0;
	if (stage->law[0] != '\0' && strcmp(stage->law, "none") != 0)
		failed = find_law(scenario, stage->law, weir_section_line(stage, "law"), &law);
	if (failed)
		return failed;
	if (law != NULL) {
		params = weir_mem_zalloc(law->params_bytes + 1);
		if (params == NULL)
			return weir_error_set(-ENOMEM, "out of memory");
		weir_law_defaults(law, params);
	}
	failed = set_params(scenario, stage, law, params);
	if (!failed && law != NULL && weir_law_check(law, params) < 0)
		failed = weir_section_wrong(scenario->path, weir_section_line(stage, "law"), "%s",
					    weir_error());
	if (failed) {
		weir_mem_free(params);
		return failed;
	}
	*ret_law = law;
	*ret_params = params;
	return 0;
}

int weir_check_law(const weir_scenario *scenario, const weir_scenario_stage *stage)
{
	const weir_admission_law *law;
	void *params = NULL;
	int failed = weir_scenario_law_of(scenario, stage, &law, &params);
	weir_mem_free(params);
	return failed;
}
