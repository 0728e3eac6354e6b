/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of a scenario that no row of a table takes (targets, parameters of laws, chains, changes), and
 * the whole text. Checks that need the whole scenario are left to check.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/keys.h"
#include "sim/values.h"

/* Keeps a line as text. */
static int keep(const weir_line *line, weir_setting *ret_setting)
{
	if (strlen(line->key) >= sizeof ret_setting->key)
		return weir_error_set(-EINVAL, "there is no setting of such a long name");
	if (strlen(line->value) >= sizeof ret_setting->value)
		return weir_error_set(-EINVAL, "a value of at most %zu characters is accepted",
				      sizeof ret_setting->value - 1);
	memset(ret_setting, 0, sizeof *ret_setting);
	memcpy(ret_setting->key, line->key, strlen(line->key));
	memcpy(ret_setting->value, line->value, strlen(line->value));
	ret_setting->line = line->number;
	return 0;
}

/* "target[2]": 2; "target": WEIR_CLASSES, for all; negative: neither. The key is cut at the bracket. */
static int cut_class(char *key)
{
	char *bracket = strchr(key, '[');
	if (bracket == NULL)
		return WEIR_CLASSES;
	*bracket = '\0';
	int klass = bracket[1] - '0';
	return klass >= 0 && klass < WEIR_CLASSES && strcmp(bracket + 2, "]") == 0 ? klass : -1;
}

static bool is_percentile_key(const char *key)
{
	return key[0] == 'p' && key[1] >= '0' && key[1] <= '9';
}

/* Settings of the target are for the judge as well as for the law. */
static int read_target(weir_scenario_stage *stage, const weir_setting *set)
{
	char key[WEIR_SCENARIO_NAME];
	uint64_t ns;
	memcpy(key, set->key, sizeof key);
	int klass = cut_class(key);
	if (klass < 0)
		return weir_error_set(-EINVAL, "a class is written as %s[0] to %s[%d]", key, key,
				      WEIR_CLASSES - 1);
	if (strcmp(key, "percentile") == 0)
		return weir_text_percentile(set->value, &stage->quantile);
	if (is_percentile_key(key) && weir_text_percentile(key, &stage->quantile) < 0)
		return -EINVAL;
	if (weir_text_time(set->value, &ns) < 0)
		return -EINVAL;
	if (ns == 0)
		return weir_error_set(-EINVAL, "must be a time above 0");
	stage->target_line = set->line;
	for (unsigned k = 0; k < WEIR_CLASSES; k++)
		if (klass == WEIR_CLASSES || (unsigned)klass == k)
			stage->target_ns[k] = ns;
	return 0;
}

bool weir_scenario_concerns_target(const char *key)
{
	size_t length = strcspn(key, "[");
	return is_percentile_key(key) || (length == 6 && memcmp(key, "target", 6) == 0) ||
	       (length == 10 && memcmp(key, "percentile", 10) == 0);
}

/*
 * Drops the settings of the previous law. "aimd.decrease" stays: it is for another law, or for a later
 * return to that one.
 */
static void forget_law(weir_scenario_stage *stage)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < stage->settings; i++) {
		const char *key = stage->setting[i].key;
		if (weir_scenario_concerns_target(key) || strchr(key, '.') != NULL)
			stage->setting[kept++] = stage->setting[i];
	}
	stage->settings = kept;
}

static int keep_for_law(weir_scenario_stage *stage, const weir_line *line)
{
	weir_setting set;
	int failed = keep(line, &set);
	if (!failed && weir_scenario_concerns_target(line->key))
		failed = read_target(stage, &set);
	if (!failed && stage->settings == WEIR_SCENARIO_SETTINGS)
		failed = weir_error_set(-EINVAL, "at most %d lines of this kind are accepted",
					WEIR_SCENARIO_SETTINGS);
	if (failed)
		return weir_error_set(-EINVAL, "%s = %s: %s", line->key, line->value, weir_error());
	stage->setting[stage->settings++] = set;
	return 0;
}

int weir_scenario_stage_set(weir_scenario_stage *stage, const weir_line *line)
{
	if (strcmp(line->key, "law") == 0 && stage->law[0] != '\0' && strcmp(stage->law, line->value) != 0)
		forget_law(stage);
	return weir_keys_find(weir_stage_keys, line->key) != NULL ? weir_section_set(stage, line, NULL)
								  : keep_for_law(stage, line);
}

int weir_scenario_begin_stage(void *scenario, void *section, const char *title)
{
	weir_scenario_stage *stage = section;
	stage->quantile = 0.9;
	stage->backend_index = -1;
	return 0;
}

int weir_scenario_set_stage(void *scenario, void *stage, const weir_line *line)
{
	return weir_scenario_stage_set(stage, line);
}

/* "after TYPE = ...": a row of the chain. */
static int read_row(weir_scenario_load *load, const weir_line *line)
{
	static const weir_key to = WEIR_KEY("after", FORM, weir_chain_row, to, NULL, NULL,
					    .max = WEIR_SCENARIO_TYPES, .form = &weir_form_shares);
	weir_chain_row row;
	const char *name = line->key + 6 + strspn(line->key + 6, " \t");
	memset(&row, 0, sizeof row);
	row.line = line->number;
	row.back = strcmp(line->value, "back") == 0;
	if (weir_section_check_name(name) < 0)
		return weir_error_set(
			-EINVAL, "write 'after TYPE = TYPE SHARE, TYPE SHARE, ...' or 'after TYPE = back'");
	memcpy(row.name, name, strlen(name) + 1);
	if (!row.back && weir_key_set(&to, &row, line->value, NULL, true, NULL) < 0)
		return -EINVAL;
	for (unsigned i = 0; i < load->chain_count; i++)
		if (strcmp(load->chain[i].name, name) == 0)
			return weir_error_set(-EINVAL, "is there already, in line %u", load->chain[i].line);
	if (load->chain_count == WEIR_SCENARIO_TYPES)
		return weir_error_set(-EINVAL, "at most %d rows are accepted", WEIR_SCENARIO_TYPES);
	load->chain[load->chain_count++] = row;
	return 0;
}

int weir_scenario_set_load(void *scenario, void *load, const weir_line *line)
{
	if (strncmp(line->key, "after ", 6) != 0)
		return weir_section_set(load, line, NULL);
	if (read_row(load, line) == 0)
		return 0;
	return weir_error_set(-EINVAL, "%s = %s: %s", line->key, line->value, weir_error());
}

int weir_scenario_begin_at(void *scenario, void *at, const char *title)
{
	if (weir_text_time(title, &((weir_scenario_at *)at)->at_ns) < 0)
		return weir_error_set(-EINVAL, "[at TIME]: %s", weir_error());
	return 0;
}

int weir_scenario_set_at(void *owner, void *at, const weir_line *line)
{
	weir_scenario *scenario = owner;
	weir_scenario_change change = {.at_ns = ((weir_scenario_at *)at)->at_ns, .stage = -1, .backend = -1};
	const char *dot = strchr(line->key, '.');
	size_t length = dot != NULL ? (size_t)(dot - line->key) : 0;
	if (length == 0 || length >= sizeof change.name || dot[1] == '\0')
		return weir_error_set(
			-EINVAL,
			"%s: what changes is written as NAME.KEY = VALUE, NAME being a stage or a backend",
			line->key);
	memcpy(change.name, line->key, length);
	int failed = keep(&(weir_line){dot + 1, line->value, line->number}, &change.set);
	if (failed)
		return failed;
	if (scenario->changes == WEIR_SCENARIO_CHANGES)
		return weir_error_set(-EINVAL, "at most %d changes are accepted", WEIR_SCENARIO_CHANGES);
	scenario->change[scenario->changes++] = change;
	return 0;
}

/* ---- the whole ---- */

int weir_scenario_parse(const char *path, const char *text, size_t size, weir_scenario **ret_scenario)
{
	weir_scenario *scenario = weir_mem_zalloc(sizeof *scenario);
	int failed = -ENOMEM;
	if (scenario == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	scenario->path = weir_mem_strdup(path);
	if (scenario->path == NULL)
		goto out;
	failed = weir_sections_read(&weir_scenario_sections, scenario, NULL, path, text, size);
	if (failed)
		goto out;
	*ret_scenario = scenario;
	return 0;
out:
	weir_scenario_free(&scenario);
	return failed;
}

int weir_scenario_set(weir_scenario *scenario, const char *assignment)
{
	return weir_sections_set(&weir_scenario_sections, scenario, NULL, scenario->path, assignment);
}

int weir_scenario_law(weir_scenario *scenario, const char *law)
{
	const weir_line set = {"law", law, WEIR_SECTION_COMMAND};
	for (unsigned i = 0; i < scenario->stages; i++) {
		weir_scenario_stage *stage = &scenario->stage[i];
		if (stage->law[0] == '\0')
			continue;
		if (weir_scenario_stage_set(stage, &set) < 0)
			return weir_section_wrong(scenario->path, set.number, "%s", weir_error());
	}
	return 0;
}

void weir_scenario_free(weir_scenario **scenario)
{
	if (*scenario == NULL)
		return;
	weir_mem_free((*scenario)->path);
	weir_mem_free(*scenario);
	*scenario = NULL;
}
