/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /api/stages/NAME: everything is checked before anything is changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/inside.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

typedef struct change {
	const weir_admission_law *law; /* NULL: no change */
	void *params;
	bool has_mode, has_ceiling;
	weir_admission_mode mode;
	double ceiling;
} change;

static const char *law_name_at(const void *list, size_t at)
{
	const weir_admission_law *law = weir_law_at(at);
	return law != NULL ? law->name : NULL;
}

static int no_law(const char *name)
{
	const char *near = weir_text_nearest(name, law_name_at, NULL);
	if (near != NULL)
		return weir_error_set(-EINVAL, "there is no law '%.40s'; did you mean '%s'?", name, near);
	return weir_error_set(-EINVAL, "there is no law '%.40s'; 'weir sim --laws' lists them", name);
}

/* The law that parameters are for: the one in the request, or the one in force, with its parameters. */
static int read_law(weir_stage *stage, const json_t *wanted, change *to)
{
	weir_stage_settings settings;
	weir_stage_read_settings(stage, &settings);
	const weir_admission_law *current = settings.law;
	const json_t *name = json_object_get(wanted, "law");
	const weir_admission_law *law = current;
	if (name != NULL && !json_is_string(name))
		return weir_error_set(-EINVAL, "'law' must be the name of a law");
	if (name != NULL && (law = weir_law_find(json_string_value(name))) == NULL)
		return no_law(json_string_value(name));
	if (law == NULL)
		return weir_error_set(-EINVAL, "stage '%s' has no law; name one with 'law'",
				      weir_stage_name(stage));
	to->params = weir_mem_zalloc(law->params_bytes != 0 ? law->params_bytes : 1);
	if (to->params == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	if (law != current || !weir_stage_read_params(stage, law, to->params))
		weir_law_defaults(law, to->params);
	to->law = law;
	return 0;
}

/* "p90 200ms" */
static int read_target(const json_t *target, change *to)
{
	char name[16];
	const char *text = json_string_value(target), *space = text != NULL ? strchr(text, ' ') : NULL;
	if (space == NULL || (size_t)(space - text) >= sizeof(name))
		return weir_error_set(-EINVAL, "'target' must be a percentile and a time, as \"p90 200ms\"");
	memcpy(name, text, (size_t)(space - text));
	name[space - text] = '\0';
	return weir_law_set(to->law, to->params, name, space + 1);
}

static int read_params(json_t *params, change *to)
{
	const char *name;
	json_t *value;
	if (!json_is_object(params))
		return weir_error_set(-EINVAL, "'params' must be an object of names and texts");
	json_object_foreach(params, name, value)
	{
		if (!json_is_string(value))
			return weir_error_set(
				-EINVAL, "the value of '%.40s' must be a text, as in a configuration", name);
		int failed = weir_law_set(to->law, to->params, name, json_string_value(value));
		if (failed != 0)
			return failed;
	}
	return 0;
}

static int read_mode(const json_t *mode, change *to)
{
	static const char *const names[] = {"enforce", "dry-run", "admit-all"};
	static const weir_admission_mode modes[] = {WEIR_ENFORCE, WEIR_DRY_RUN, WEIR_ADMIT_ALL};
	const char *text = json_string_value(mode);
	for (size_t i = 0; text != NULL && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			to->has_mode = true;
			to->mode = modes[i];
			return 0;
		}
	return weir_error_set(-EINVAL, "'mode' must be enforce, dry-run or admit-all");
}

static int read_ceiling(const json_t *ceiling, change *to)
{
	to->ceiling = json_number_value(ceiling);
	to->has_ceiling = true;
	if (json_is_number(ceiling) && to->ceiling >= 0 && to->ceiling <= 1)
		return 0;
	return weir_error_set(-EINVAL, "'shed_ceiling' must be a number from 0 to 1");
}

static int read_member(weir_stage *stage, const char *name, json_t *value, change *to)
{
	if (strcmp(name, "law") == 0)
		return 0; /* already read, since parameters depend on it */
	if (strcmp(name, "target") == 0)
		return read_target(value, to);
	if (strcmp(name, "params") == 0)
		return read_params(value, to);
	if (strcmp(name, "mode") == 0)
		return read_mode(value, to);
	if (strcmp(name, "shed_ceiling") == 0)
		return read_ceiling(value, to);
	return weir_error_set(
		-EINVAL, "'%.40s' cannot be changed; target, law, params, mode and shed_ceiling can", name);
}

static int read_all(weir_stage *stage, json_t *wanted, change *to)
{
	const char *name;
	json_t *value;
	int failed = 0;
	if (!json_is_object(wanted))
		return weir_error_set(-EINVAL, "expected an object with what to change");
	if (json_object_get(wanted, "law") != NULL || json_object_get(wanted, "target") != NULL ||
	    json_object_get(wanted, "params") != NULL)
		failed = read_law(stage, wanted, to);
	json_object_foreach(wanted, name, value)
	{
		if (failed == 0)
			failed = read_member(stage, name, value, to);
	}
	if (failed == 0 && to->law != NULL)
		failed = weir_law_check(to->law, to->params);
	return failed;
}

int weir_admin_change(weir_stage *stage, const json_t *wanted)
{
	change to = {0};
	int failed = read_all(stage, (json_t *)(uintptr_t)wanted, &to);
	if (failed == 0 && to.law != NULL)
		failed = weir_stage_admission(stage, to.law, to.params);
	if (failed == 0 && to.has_mode)
		weir_stage_mode(stage, to.mode);
	if (failed == 0 && to.has_ceiling)
		failed = weir_stage_shed_ceiling(stage, to.ceiling);
	weir_mem_free(to.params);
	return failed;
}
