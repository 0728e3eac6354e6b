/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the tables of scenarios, of models and of `weir load` has what help and documentation need of it. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "load/model.h"
#include "load/options.h"
#include "sim/keys.h"

typedef void print_fn(const void *of, FILE *file);

static char *printed(print_fn *print, const void *of)
{
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	assert_non_null(file);
	print(of, file);
	fclose(file);
	return text;
}

static void check_row(const weir_key *keys, const weir_key *key)
{
	size_t length = key->help != NULL ? strlen(key->help) : 0;
	if (length == 0 || key->help[length - 1] == '.')
		fail_msg("%s: its help is a sentence without the last dot, not '%s'", key->name, key->help);
	if (weir_keys_find(keys, key->name) != key)
		fail_msg("%s: there are two rows of this name", key->name);
}

/* The defaults are accepted, and within their bounds. */
static void check_defaults(const weir_key *keys, size_t bytes)
{
	weir_key_arena arena = {0};
	weir_key_memory memory = weir_key_arena_memory(&arena);
	void *values = calloc(1, bytes);
	if (weir_keys_defaults(keys, values, &memory) != 0)
		fail_msg("a default of the table of '%s' is wrong: %s", keys->name, weir_error());
	free(values);
	weir_key_arena_free(&arena);
}

static void print_sections(const void *of, FILE *file)
{
	weir_sections_markdown(of, file);
}

static void explain_sections(const void *of, FILE *file)
{
	weir_sections_explain(of, file);
}

static void check_sections(const weir_sections *sections, size_t owner_bytes)
{
	char *text = printed(print_sections, sections), *explained = printed(explain_sections, sections);
	for (const weir_section_kind *kind = sections->kinds; kind->name != NULL; kind++) {
		char name[64];
		unsigned rows = 0;
		assert_true(kind->help != NULL && kind->help[0] != '\0');
		for (const weir_key *key = kind->keys; key != NULL && key->name != NULL; key++, rows++) {
			check_row(kind->keys, key);
			snprintf(name, sizeof name, "| `%s` |", key->name);
			check_contains(text, name);
			check_contains(explained, key->help);
		}
		assert_true(rows <= WEIR_SECTION_KEYS);
		if (kind->keys != NULL)
			check_defaults(kind->keys, kind->most > 0 ? kind->bytes : owner_bytes);
	}
	free(text);
	free(explained);
}

static void scenarios_have_whole_rows(void **state)
{
	check_sections(&weir_scenario_sections, sizeof(weir_scenario));
}

static void models_have_whole_rows(void **state)
{
	check_sections(&load_model_sections, sizeof(load_model));
}

static void print_options(const void *of, FILE *file)
{
	weir_options_markdown(of, file);
	weir_options_usage(of, file);
}

static void options_have_whole_rows(void **state)
{
	char *text = printed(print_options, &load_options_table), name[64];
	for (const weir_option_group *group = load_options_table.groups; group->keys != NULL; group++) {
		check_defaults(group->keys, sizeof(load_options));
		for (const weir_key *key = group->keys; key->name != NULL; key++) {
			check_row(group->keys, key);
			assert_true((key->value == NULL) == (key->type == WEIR_KEY_SWITCH));
			const char *dashes = key->name[1] == '\0' ? "-" : "--";
			snprintf(name, sizeof name, "| `%s%s%s", dashes, key->name,
				 key->value != NULL ? " " : "` |");
			check_contains(text, name);
			snprintf(name, sizeof name, "\n  %s%s ", dashes, key->name);
			check_contains(text, name);
		}
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(scenarios_have_whole_rows),
		CHECK_TEST(models_have_whole_rows),
		CHECK_TEST(options_have_whole_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
