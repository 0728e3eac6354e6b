/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of laws as text, by the law's table: one parser for all laws, for configuration, command
 * line and scenario files.
 *
 *  name = value        for all classes, if the parameter has one per class
 *  name[2] = value     for class 2
 *  p90 = 200ms         percentile = p90 and target = 200ms, in laws that have both; also p90[2]
 *
 * A call that fails has changed nothing. Names and values may be any bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/law.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/keys.h"

#define QUOTE_BYTES 48
#define NAME_MAX    31
#define ALL_CLASSES WEIR_CLASSES

/* A value between its text and its field. */
typedef union field {
	double number;
	uint64_t whole;
} field;

/* "name[klass]", split. */
typedef struct address {
	char name[NAME_MAX + 1];
	unsigned klass; /* ALL_CLASSES: without an index */
} address;

/* ---- tables ---- */

static const char *param_name_at(const void *list, size_t at)
{
	return ((const weir_key *)list)[at].name;
}

static const weir_key *find(const weir_admission_law *law, const char *name)
{
	return law->params != NULL ? weir_keys_find(law->params, name) : NULL;
}

static const weir_key *find_typed(const weir_admission_law *law, const char *name, weir_key_type type)
{
	const weir_key *param = find(law, name);
	return param != NULL && param->type == type ? param : NULL;
}

/* All names, for an error message. */
static void list_names(const weir_admission_law *law, char *text, size_t size)
{
	size_t at = 0;
	text[0] = '\0';
	for (const weir_key *param = law->params; param->name != NULL && at < size; param++) {
		const char *comma = param == law->params ? "" : ", ",
			   *index = (param->flags & WEIR_KEY_PER_CLASS) != 0 ? "[class]" : "";
		int length = snprintf(text + at, size - at, "%s%s%s", comma, param->name, index);
		at += length > 0 ? (size_t)length : 0;
	}
}

static int unknown(const weir_admission_law *law, const char *typed, const char *name)
{
	char quoted[QUOTE_BYTES], names[300];
	weir_text_quote(quoted, sizeof(quoted), typed);
	if (law->params == NULL || law->params->name == NULL)
		return weir_error_set(-EINVAL, "law '%s' has no parameter '%s'; it takes none", law->name,
				      quoted);
	list_names(law, names, sizeof(names));
	const char *near = weir_text_nearest(name, param_name_at, law->params);
	if (near == NULL)
		return weir_error_set(-EINVAL, "law '%s' has no parameter '%s'; it takes: %s", law->name,
				      quoted, names);
	return weir_error_set(-EINVAL, "law '%s' has no parameter '%s'; did you mean '%s'? It takes: %s",
			      law->name, quoted, near, names);
}

/* ---- addresses ---- */

static int bad_index(const weir_admission_law *law, const char *typed)
{
	char quoted[QUOTE_BYTES];
	return weir_error_set(-EINVAL, "law '%s': '%s': a class is written as name[0] to name[%d]", law->name,
			      weir_text_quote(quoted, sizeof(quoted), typed), WEIR_CLASSES - 1);
}

/* A name that is too long becomes "", which is not in the table either. */
static int take_apart(const weir_admission_law *law, const char *typed, address *ret_address)
{
	size_t length = strcspn(typed, "[");
	const char *index = typed + length;
	size_t kept = length <= NAME_MAX ? length : 0;
	memcpy(ret_address->name, typed, kept);
	ret_address->name[kept] = '\0';
	ret_address->klass = ALL_CLASSES;
	if (*index == '\0')
		return 0;
	unsigned klass = (unsigned)(index[1] - '0');
	if (klass >= WEIR_CLASSES || strcmp(index + 2, "]") != 0)
		return bad_index(law, typed);
	ret_address->klass = klass;
	return 0;
}

static int check_index(const weir_admission_law *law, const weir_key *param, const address *where)
{
	if (where->klass == ALL_CLASSES || (param->flags & WEIR_KEY_PER_CLASS) != 0)
		return 0;
	return weir_error_set(-EINVAL, "law '%s': '%s' is one for all classes; write it without [%u]",
			      law->name, param->name, where->klass);
}

/* ---- values ---- */

static int read_value(const weir_admission_law *law, const weir_key *param, const char *text,
		      field *ret_field)
{
	int failed = weir_key_read(param, text, ret_field);
	return failed == 0 ? 0
			   : weir_error_set(failed, "law '%s': %s: %s", law->name, param->name, weir_error());
}

static void write_value(const weir_key *param, void *params, unsigned klass, const field *v)
{
	size_t size = weir_key_bytes(param);
	char *place = (char *)params + param->offset;
	unsigned first = klass == ALL_CLASSES ? 0 : klass;
	unsigned end = klass == ALL_CLASSES ? WEIR_CLASSES : klass + 1;
	if ((param->flags & WEIR_KEY_PER_CLASS) == 0)
		first = 0, end = 1;
	for (unsigned at = first; at < end; at++)
		memcpy(place + at * size, v, size);
}

/* ---- the shorthand ---- */

static bool is_shorthand(const weir_admission_law *law, const char *name)
{
	return name[0] == 'p' && ((name[1] >= '0' && name[1] <= '9') || name[1] == '.') &&
	       find_typed(law, "percentile", WEIR_KEY_PERCENTILE) != NULL &&
	       find_typed(law, "target", WEIR_KEY_TIME) != NULL;
}

/* If all classes share one percentile, setting it for a single class would silently change the others. */
static int check_shared_percentile(const weir_admission_law *law, const weir_key *percentile,
				   const void *params, const address *where, double wanted)
{
	double now;
	char text[32];
	if (where->klass == ALL_CLASSES || (percentile->flags & WEIR_KEY_PER_CLASS) != 0)
		return 0;
	memcpy(&now, (const char *)params + percentile->offset, sizeof(now));
	if (now == wanted)
		return 0;
	return weir_error_set(
		-EINVAL,
		"law '%s' has one percentile for all classes, now %s; set that with 'percentile', "
		"and class %u's time with 'target[%u]'",
		law->name, weir_text_print_percentile(text, sizeof(text), now), where->klass, where->klass);
}

static int set_shorthand(const weir_admission_law *law, void *params, const address *where, const char *text)
{
	const weir_key *percentile = find(law, "percentile"), *target = find(law, "target");
	field fraction = {0}, time = {0};
	int failed = read_value(law, percentile, where->name, &fraction);
	if (failed == 0)
		failed = check_shared_percentile(law, percentile, params, where, fraction.number);
	if (failed == 0)
		failed = check_index(law, target, where);
	if (failed == 0)
		failed = read_value(law, target, text, &time);
	if (failed != 0)
		return failed;
	write_value(percentile, params, where->klass, &fraction);
	write_value(target, params, where->klass, &time);
	return 0;
}

/* ---- public functions ---- */

int weir_law_set(const weir_admission_law *law, void *params, const char *name, const char *text)
{
	address where;
	field v;
	name = name != NULL ? name : "";
	int failed = take_apart(law, name, &where);
	if (failed != 0)
		return failed;
	const weir_key *param = find(law, where.name);
	if (param == NULL && is_shorthand(law, where.name))
		return set_shorthand(law, params, &where, text);
	if (param == NULL)
		return unknown(law, name, where.name);
	failed = check_index(law, param, &where);
	if (failed == 0)
		failed = read_value(law, param, text, &v);
	if (failed == 0)
		write_value(param, params, where.klass, &v);
	return failed;
}

int weir_law_check(const weir_admission_law *law, const void *params)
{
	const char *accepted = "its parameters are wrong";
	if (law->init == NULL)
		return 0;
	void *state = weir_mem_aligned(64, (law->state_bytes + 64) / 64 * 64);
	if (state == NULL)
		return weir_error_set(-ENOMEM, "law '%s': out of memory", law->name);
	int failed = law->init(state, params, &accepted);
	weir_mem_free(state);
	return failed == 0 ? 0 : weir_error_set(failed, "law '%s': %s", law->name, accepted);
}
