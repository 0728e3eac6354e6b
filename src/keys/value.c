/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text of a value into its field, by the row of its key. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/inside.h"
#include "keys/keys.h"

#define QUOTE_BYTES 64

/* ---- types that base/text.h does not read ---- */

/* "100/s", "6000/m", "1/h"; a number alone would be ambiguous. */
static int read_rate(const char *text, double *ret_per_s)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
	char number[QUOTE_BYTES], quoted[QUOTE_BYTES];
	const char *slash = strchr(text, '/');
	size_t length = slash != NULL ? (size_t)(slash - text) : sizeof(number);
	double value;
	weir_text_quote(quoted, sizeof(quoted), text);
	for (size_t i = 0; length < sizeof(number) && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(slash + 1, units[i].name) != 0)
			continue;
		memcpy(number, text, length);
		number[length] = '\0';
		if (weir_text_number(number, &value) != 0)
			break;
		*ret_per_s = value / units[i].seconds;
		return 0;
	}
	return weir_error_set(-EINVAL, "'%s': write a rate as 100/s, 600/m or 1000/h", quoted);
}

/* "10%", ".1", "0", "1". */
static int read_fraction(const char *text, double *ret_fraction)
{
	char number[QUOTE_BYTES], quoted[QUOTE_BYTES];
	size_t length = strlen(text);
	bool percent = length > 0 && text[length - 1] == '%';
	double value;
	weir_text_quote(quoted, sizeof(quoted), text);
	if (length < sizeof(number)) {
		memcpy(number, text, length + 1);
		if (percent)
			number[length - 1] = '\0';
		if (weir_text_number(number, &value) == 0) {
			*ret_fraction = percent ? value / 100 : value;
			return 0;
		}
	}
	return weir_error_set(-EINVAL, "'%s': write a part as 10%% or .1", quoted);
}

static int read_choice(const char *const *words, const char *text, unsigned *ret_choice)
{
	char quoted[QUOTE_BYTES], list[160] = "";
	size_t at = 0;
	for (unsigned i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], text) == 0) {
			*ret_choice = i;
			return 0;
		}
		const char *comma = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", comma, words[i]);
	}
	return weir_error_set(-EINVAL, "'%s': write %s", weir_text_quote(quoted, sizeof(quoted), text), list);
}

/* ---- memory ---- */

/* All allocations are in one list, so that they can be freed without looking into them. */
struct weir_key_chunk {
	struct weir_key_chunk *next;
	max_align_t bytes[];
};

weir_key_memory weir_key_arena_memory(weir_key_arena *arena)
{
	return (weir_key_memory){weir_key_arena_alloc, arena};
}

void *weir_key_arena_alloc(void *arg, size_t bytes)
{
	weir_key_arena *arena = arg;
	struct weir_key_chunk *chunk = weir_mem_zalloc(sizeof(*chunk) + bytes);
	if (chunk == NULL) {
		arena->failed = true;
		return NULL;
	}
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	return chunk->bytes;
}

void weir_key_arena_free(weir_key_arena *arena)
{
	for (struct weir_key_chunk *chunk = arena->chunks, *next; chunk != NULL; chunk = next) {
		next = chunk->next;
		weir_mem_free(chunk);
	}
	*arena = (weir_key_arena){0};
}

/* ---- texts and lists ---- */

char *weir_key_copy_text(const char *text, const weir_key_memory *memory)
{
	size_t size = strlen(text) + 1;
	if (memory == NULL)
		return (char *)text;
	char *copy = memory->alloc(memory->arg, size);
	if (copy != NULL)
		memcpy(copy, text, size);
	return copy;
}

char *weir_key_resolve(const char *path, const char *file, const weir_key_memory *memory)
{
	const char *slash = file != NULL ? strrchr(file, '/') : NULL;
	if (path[0] == '/' || slash == NULL)
		return weir_key_copy_text(path, memory);
	size_t folder = (size_t)(slash - file) + 1, size = folder + strlen(path) + 1;
	char *whole = memory->alloc(memory->arg, size);
	if (whole != NULL)
		snprintf(whole, size, "%.*s%s", (int)folder, file, path);
	return whole;
}

static char *read_text(const weir_key *key, const char *text, const char *file, const weir_key_memory *memory)
{
	if (key->type == WEIR_KEY_OUTPUT && strcmp(text, "off") == 0)
		return NULL;
	if (weir_key_is_path(key) && !(key->type == WEIR_KEY_OUTPUT && strcmp(text, "-") == 0))
		return weir_key_resolve(text, file, memory);
	return weir_key_copy_text(text, memory);
}

/* A copy of the list with one more value. Lists are short, and a list never changes under a reader. */
static int append(const weir_key *key, const char ***list, const char *text, const char *file, bool first,
		  const weir_key_memory *memory)
{
	const char **old = first ? NULL : *list;
	size_t count = weir_key_list_length(old),
	       most = key->max > 0 ? (size_t)key->max : WEIR_KEY_VALUES_MAX;
	if (count == most)
		return weir_error_set(-EINVAL, "more than %zu values", most);
	const char **longer = memory->alloc(memory->arg, (count + 2) * sizeof(*longer));
	if (longer == NULL)
		return 0;
	if (old != NULL)
		memcpy(longer, old, count * sizeof(*longer));
	longer[count] = read_text(key, text, file, memory);
	*list = longer;
	return 0;
}

/* ---- all types ---- */

typedef union value {
	const char *text;
	const char **list;
	bool on;
	uint32_t count;
	unsigned choice;
	uint64_t whole;
	double number;
} value;

/* 0 needs no unit. */
static int read_time(const char *text, uint64_t *ret_ns)
{
	if (text == NULL || strcmp(text, "0") != 0)
		return weir_text_time(text, ret_ns);
	*ret_ns = 0;
	return 0;
}

static int read_value(const weir_key *key, const char *text, value *v)
{
	switch (key->type) {
	case WEIR_KEY_SWITCH:
		return weir_text_switch(text, &v->on);
	case WEIR_KEY_COUNT:
		return weir_text_count(text, &v->count);
	case WEIR_KEY_SIZE:
	case WEIR_KEY_SIZE32:
		return weir_text_size(text, &v->whole);
	case WEIR_KEY_TIME:
		return read_time(text, &v->whole);
	case WEIR_KEY_NUMBER:
		return weir_text_number(text, &v->number);
	case WEIR_KEY_FRACTION:
		return read_fraction(text, &v->number);
	case WEIR_KEY_RATE:
		return read_rate(text, &v->number);
	case WEIR_KEY_CHOICE:
		return read_choice(key->words, text, &v->choice);
	case WEIR_KEY_PERCENTILE:
		return weir_text_percentile(text, &v->number);
	default:
		return weir_error_set(-EINVAL, "a key of no known type");
	}
}

/* The number that is compared with the bounds. */
static double magnitude(const weir_key *key, const value *v)
{
	switch (key->type) {
	case WEIR_KEY_COUNT:
		return v->count;
	case WEIR_KEY_SIZE:
	case WEIR_KEY_SIZE32:
	case WEIR_KEY_TIME:
		return (double)v->whole;
	case WEIR_KEY_NUMBER:
	case WEIR_KEY_FRACTION:
	case WEIR_KEY_RATE:
	case WEIR_KEY_PERCENTILE:
		return v->number;
	default:
		return 0;
	}
}

static int check_bounds(const weir_key *key, const value *v, const char *text)
{
	char quoted[QUOTE_BYTES], min[32], max[32];
	double size = magnitude(key, v);
	if (key->min == key->max || (size >= key->min && size <= key->max))
		return 0;
	weir_key_bound_text(key, key->min, text, min, sizeof(min));
	weir_key_bound_text(key, key->max, text, max, sizeof(max));
	return weir_error_set(-EINVAL, "'%s': must be from %s to %s",
			      weir_text_quote(quoted, sizeof(quoted), text), min, max);
}

int weir_key_read(const weir_key *key, const char *text, void *ret_field)
{
	value v = {0};
	text = text != NULL ? text : "";
	int failed = read_value(key, text, &v);
	if (failed == 0)
		failed = check_bounds(key, &v, text);
	if (failed != 0)
		return failed;
	uint32_t narrow = (uint32_t)v.whole;
	if (key->type == WEIR_KEY_SIZE32)
		memcpy(ret_field, &narrow, sizeof(narrow));
	else
		memcpy(ret_field, &v, weir_key_bytes(key));
	return 0;
}

int weir_key_set(const weir_key *key, void *values, const char *text, const char *file, bool first,
		 const weir_key_memory *memory)
{
	void *at = (char *)values + key->offset;
	if (weir_key_is_list(key))
		return append(key, at, text, file, first, memory);
	if (key->type == WEIR_KEY_FORM)
		return key->form->read(key, text, at);
	if (!weir_key_is_text(key))
		return weir_key_read(key, text, at);
	*(const char **)at = read_text(key, text, file, memory);
	return 0;
}
