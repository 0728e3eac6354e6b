/* SPDX-License-Identifier: Apache-2.0 */
#include "load/mix.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/syntax.h"
#include "sim/sections.h"

#define MIX_MAX    8000
#define MIX_WANTED "write 'gold=.2:X-Class: gold;rest=.8': names, shares, and fields if they have any"

/* Converts "A: 1|B: 2" to lines. Each '|', and the end, makes room for a CR and an LF. */
static int read_fields(const char *text, bool cookies, char **ret_lines)
{
	char field[LOAD_FIELD_MAX + 2];
	size_t at = 0;
	char *lines = weir_mem_zalloc(2 * strlen(text) + 3);
	if (lines == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (const char *from = text; from != NULL;) {
		size_t length = strcspn(from, "|");
		if (length > LOAD_FIELD_MAX)
			length = LOAD_FIELD_MAX + 1;
		memcpy(field, from, length);
		field[length] = '\0';
		const char *trimmed = weir_text_trim(field);
		if (load_check_field(trimmed, cookies) < 0) {
			weir_mem_free(lines);
			return -EINVAL;
		}
		at += (size_t)sprintf(lines + at, "%s\r\n", trimmed);
		from = from[length] == '|' ? from + length + 1 : NULL;
	}
	*ret_lines = lines;
	return 0;
}

int load_mix_add(load_mix *mix, const char *name, double weight, const char *fields, bool cookies)
{
	int failed = weir_section_check_name(name);
	if (failed)
		return failed;
	if (mix->count == LOAD_CLASSES_MAX)
		return weir_error_set(-EINVAL, "at most %d classes are accepted", LOAD_CLASSES_MAX);
	for (unsigned i = 0; i < mix->count; i++)
		if (strcmp(mix->class[i].name, name) == 0)
			return weir_error_set(-EINVAL, "the class '%s' is there twice", name);
	if (!(weight > 0 && weight <= 1e9))
		return weir_error_set(-EINVAL, "the class '%s' must have a share above 0, at most 1e9", name);
	load_class *class = &mix->class[mix->count];
	*class = (load_class){.weight = weight};
	memcpy(class->name, name, strlen(name) + 1);
	failed = fields != NULL ? read_fields(fields, cookies, &class->fields) : 0;
	mix->count += failed == 0;
	return failed;
}

/* "gold=.2:X-Class: gold"; the text is modified. */
static int read_class(load_mix *mix, char *text, bool cookies)
{
	double weight = 1;
	char *colon = strchr(text, ':');
	if (colon != NULL)
		*colon++ = '\0';
	char *equals = strchr(text, '=');
	if (equals != NULL)
		*equals++ = '\0';
	if (equals != NULL && weir_text_number(equals, &weight) < 0)
		return weir_error_set(-EINVAL, "a share is a number above 0; " MIX_WANTED);
	return load_mix_add(mix, weir_text_trim(text), weight, colon, cookies);
}

int load_mix_parse(const char *text, bool cookies, load_mix *ret)
{
	load_mix mix = {.count = 0};
	if (text == NULL)
		text = "all";
	if (strlen(text) > MIX_MAX)
		return weir_error_set(-EINVAL, "a mix of at most %d characters is accepted", MIX_MAX);
	char *copy = weir_mem_strdup(text);
	int failed = copy == NULL ? weir_error_set(-ENOMEM, "out of memory") : 0;
	for (char *from = copy; from != NULL && !failed;) {
		char *semicolon = strchr(from, ';');
		if (semicolon != NULL)
			*semicolon++ = '\0';
		failed = read_class(&mix, from, cookies);
		from = semicolon;
	}
	weir_mem_free(copy);
	if (failed)
		load_mix_fini(&mix);
	else
		*ret = mix;
	return failed;
}

void load_mix_fini(load_mix *mix)
{
	for (unsigned i = 0; i < mix->count; i++)
		weir_mem_free(mix->class[i].fields);
	mix->count = 0;
}
