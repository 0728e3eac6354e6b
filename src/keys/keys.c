/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: found by name, compared, copied, explained. */
#include "keys/keys.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/inside.h"

const weir_key *weir_keys_find(const weir_key *keys, const char *name)
{
	for (; keys != NULL && keys->name != NULL; keys++)
		if (strcmp(keys->name, name) == 0)
			return keys;
	return NULL;
}

int weir_keys_defaults(const weir_key *keys, void *values, const weir_key_memory *memory)
{
	int failed = 0;
	for (; keys->name != NULL && failed == 0; keys++)
		if (keys->initial != NULL)
			failed = weir_key_set(keys, values, keys->initial, NULL, true, memory);
	return failed;
}

const char *weir_keys_name_at(const void *keys, size_t at)
{
	return keys != NULL ? ((const weir_key *)keys)[at].name : NULL;
}

char *weir_keys_list(const weir_key *keys, char *text, size_t size)
{
	size_t at = 0;
	*text = '\0';
	for (const weir_key *key = keys; key->name != NULL && at < size; key++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", key == keys ? "" : ", ", key->name);
	return text;
}

int weir_keys_unknown(const weir_key *keys, const char *name)
{
	char quoted[48], all[300];
	const char *near = weir_text_nearest(name, weir_keys_name_at, keys);
	weir_text_quote(quoted, sizeof(quoted), name);
	weir_keys_list(keys, all, sizeof(all));
	if (near != NULL)
		return weir_error_set(-EINVAL, "there is no '%s' here; did you mean '%s'? Accepted are %s",
				      quoted, near, all);
	return weir_error_set(-EINVAL, "there is no '%s' here; accepted are %s", quoted, all);
}

/* ---- types ---- */

static const struct {
	const char *name;
	size_t bytes; /* 0: a text or a list */
	bool list, path;
} types[] = {
	[WEIR_KEY_TEXT] = {"text", 0, false, false},
	[WEIR_KEY_PATH] = {"file", 0, false, true},
	[WEIR_KEY_FOLDER] = {"folder", 0, false, true},
	[WEIR_KEY_OUTPUT] = {"file", 0, false, true},
	[WEIR_KEY_TEXTS] = {"list of texts", 0, true, false},
	[WEIR_KEY_PATHS] = {"list of files", 0, true, true},
	[WEIR_KEY_SWITCH] = {"on or off", sizeof(bool), false, false},
	[WEIR_KEY_COUNT] = {"number", sizeof(uint32_t), false, false},
	[WEIR_KEY_SIZE] = {"size", sizeof(uint64_t), false, false},
	[WEIR_KEY_SIZE32] = {"size", sizeof(uint32_t), false, false},
	[WEIR_KEY_TIME] = {"time", sizeof(uint64_t), false, false},
	[WEIR_KEY_NUMBER] = {"number", sizeof(double), false, false},
	[WEIR_KEY_FRACTION] = {"part, as 10% or .1", sizeof(double), false, false},
	[WEIR_KEY_RATE] = {"rate, as 100/s or 600/m", sizeof(double), false, false},
	[WEIR_KEY_CHOICE] = {"one of", sizeof(unsigned), false, false},
	[WEIR_KEY_PERCENTILE] = {"percentile", sizeof(double), false, false},
	[WEIR_KEY_FORM] = {"", 0, false, false},
};

bool weir_key_is_list(const weir_key *key)
{
	return types[key->type].list;
}

bool weir_key_is_path(const weir_key *key)
{
	return types[key->type].path;
}

bool weir_key_is_text(const weir_key *key)
{
	return weir_key_bytes(key) == 0 && !weir_key_is_list(key);
}

size_t weir_key_bytes(const weir_key *key)
{
	return key->type == WEIR_KEY_FORM ? key->form->bytes : types[key->type].bytes;
}

/* ---- values ---- */

size_t weir_key_list_length(const char *const *list)
{
	size_t length = 0;
	while (list != NULL && list[length] != NULL)
		length++;
	return length;
}

static const char *text_of(const weir_key *key, const void *values)
{
	return *(const char *const *)(const void *)((const char *)values + key->offset);
}

static const char *const *list_of(const weir_key *key, const void *values)
{
	return *(const char *const *const *)(const void *)((const char *)values + key->offset);
}

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_list(const char *const *a, const char *const *b)
{
	size_t length = weir_key_list_length(a);
	bool same = length == weir_key_list_length(b);
	for (size_t i = 0; same && i < length; i++)
		same = strcmp(a[i], b[i]) == 0;
	return same;
}

bool weir_key_same(const weir_key *key, const void *values, const void *others)
{
	if (weir_key_is_list(key))
		return same_list(list_of(key, values), list_of(key, others));
	if (weir_key_is_text(key))
		return same_text(text_of(key, values), text_of(key, others));
	return memcmp((const char *)values + key->offset, (const char *)others + key->offset,
		      weir_key_bytes(key)) == 0;
}

static const char *const *copy_list(const char *const *list, const weir_key_memory *memory)
{
	size_t length = weir_key_list_length(list);
	const char **copy = length > 0 ? memory->alloc(memory->arg, (length + 1) * sizeof(*copy)) : NULL;
	for (size_t i = 0; copy != NULL && i < length; i++)
		copy[i] = weir_key_copy_text(list[i], memory);
	return copy;
}

void weir_key_copy(const weir_key *key, void *values, const void *others, const weir_key_memory *memory)
{
	void *at = (char *)values + key->offset;
	const char *text;
	if (weir_key_is_list(key))
		*(const char *const **)at = copy_list(list_of(key, others), memory);
	else if (!weir_key_is_text(key))
		memcpy(at, (const char *)others + key->offset, weir_key_bytes(key));
	else
		*(const char **)at =
			(text = text_of(key, others)) != NULL ? weir_key_copy_text(text, memory) : NULL;
}

/* FNV-1a. If two settings had the same fingerprint, the old one would stay until the next start. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return text != NULL ? mix(mix(hash, "=", 1), text, strlen(text) + 1) : mix(hash, "", 1);
}

uint64_t weir_key_hash(const weir_key *key, const void *values, uint64_t hash)
{
	if (weir_key_is_text(key))
		return mix_text(hash, text_of(key, values));
	if (!weir_key_is_list(key))
		return mix(hash, (const char *)values + key->offset, weir_key_bytes(key));
	const char *const *list = list_of(key, values);
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		hash = mix_text(hash, list[i]);
	return mix(hash, "", 1);
}

/* ---- explaining ---- */

void weir_key_bound_text(const weir_key *key, double bound, const char *written, char *text, size_t size)
{
	if (key->type == WEIR_KEY_TIME)
		weir_text_print_time(text, size, bound < 0x1p64 ? (uint64_t)bound : UINT64_MAX,
				     written != NULL ? weir_text_time_unit(written) : NULL);
	else if (key->type == WEIR_KEY_SIZE || key->type == WEIR_KEY_SIZE32)
		weir_text_print_size(text, size, (uint64_t)bound);
	else if (key->type == WEIR_KEY_FRACTION)
		snprintf(text, size, "%g%%", bound * 100);
	else if (key->type == WEIR_KEY_PERCENTILE)
		weir_text_print_percentile(text, size, bound);
	else
		snprintf(text, size, "%.15g%s", bound,
			 written != NULL && key->type == WEIR_KEY_RATE ? "/s" : "");
}

char *weir_key_print(const weir_key *key, const void *field, char *text, size_t size)
{
	union {
		bool on;
		uint32_t count;
		uint64_t whole;
		double number;
	} v = {0};
	memcpy(&v, field, weir_key_bytes(key));
	if (key->type == WEIR_KEY_SWITCH)
		snprintf(text, size, "%s", v.on ? "on" : "off");
	else if (key->type == WEIR_KEY_CHOICE)
		snprintf(text, size, "%s", key->words[v.count]);
	else if (key->type == WEIR_KEY_TIME)
		weir_text_print_time(text, size, v.whole, "ms");
	else
		weir_key_bound_text(key,
				    weir_key_bytes(key) == sizeof(uint32_t) ? v.count
				    : key->type == WEIR_KEY_SIZE            ? (double)v.whole
									    : v.number,
				    NULL, text, size);
	return text;
}

const char *weir_key_type_name(const weir_key *key)
{
	return key->type == WEIR_KEY_FORM ? key->form->name : types[key->type].name;
}

void weir_key_print_type(const weir_key *key, FILE *file)
{
	fputs(weir_key_type_name(key), file);
	for (unsigned i = 0; key->words != NULL && key->words[i] != NULL; i++)
		fprintf(file, "%s %s", i > 0 ? "," : "", key->words[i]);
}

void weir_key_print_bounds(const weir_key *key, FILE *file)
{
	char min[32], max[32];
	if (key->min == key->max)
		return;
	weir_key_bound_text(key, key->min, NULL, min, sizeof(min));
	weir_key_bound_text(key, key->max, NULL, max, sizeof(max));
	fprintf(file, "%s to %s", min, max);
}

void weir_key_explain(const weir_key *key, FILE *file)
{
	fprintf(file, "  %-20s %s\n  %-20s (", key->name, key->help, "");
	weir_key_print_type(key, file);
	fputs(key->min != key->max ? ", " : "", file);
	weir_key_print_bounds(key, file);
	if ((key->flags & WEIR_KEY_REQUIRED) != 0)
		fputs("; required", file);
	else if (key->initial != NULL)
		fprintf(file, "; default %s", key->initial);
	fputs(")\n", file);
}

/* A bar would end the cell of the table. */
static void put_escaped(const char *text, FILE *file)
{
	for (; *text != '\0'; text++)
		fprintf(file, *text == '|' ? "\\%c" : "%c", *text);
}

void weir_key_markdown_as(const char *name, const weir_key *key, FILE *file)
{
	fputs("| `", file);
	put_escaped(name, file);
	fputs("` | ", file);
	weir_key_print_type(key, file);
	fputs(" | ", file);
	if ((key->flags & WEIR_KEY_REQUIRED) != 0)
		fputs("required", file);
	else if (key->initial != NULL)
		fprintf(file, "`%s`", key->initial);
	fputs(" | ", file);
	weir_key_print_bounds(key, file);
	fputs(" | ", file);
	put_escaped(key->help, file);
	fputs(" |\n", file);
}

void weir_key_markdown(const weir_key *key, FILE *file)
{
	weir_key_markdown_as(key->name, key, file);
}
