/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/inside.h"

enum { SPEC_BYTES = 64, COLUMNS = 100 };

/* ---- finding ---- */

/* The row at a place, counted over all groups; NULL: no more. */
static const weir_key *row_at(const weir_options *options, size_t at)
{
	for (const weir_option_group *group = options->groups; group != NULL && group->keys != NULL; group++)
		for (const weir_key *key = group->keys; key->name != NULL; key++)
			if (at-- == 0)
				return key;
	return NULL;
}

static const char *dashes(const weir_key *key)
{
	return key->name[1] == '\0' ? "-" : "--";
}

static const weir_key *find(const weir_options *options, const char *typed, size_t length)
{
	char spelled[SPEC_BYTES];
	const weir_key *key;
	for (size_t i = 0; (key = row_at(options, i)) != NULL; i++) {
		int size = snprintf(spelled, sizeof(spelled), "%s%s", dashes(key), key->name);
		if ((size_t)size == length && strncmp(spelled, typed, length) == 0)
			return key;
	}
	return NULL;
}

/* ---- reading ---- */

int weir_options_wrong(const weir_options *options, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%s: ", options->program);
	vfprintf(stderr, format, args);
	fprintf(stderr, "; see '%s --help'\n", options->program);
	va_end(args);
	return WEIR_EXIT_USAGE;
}

/* Whether an argument is the value that may be left out: a file with the ending that the help shows. */
static bool is_meant(const weir_key *key, const char *argument)
{
	const char *ending = strchr(key->value, '.');
	size_t size = ending != NULL ? strcspn(ending, "]") : 0, length = strlen(argument);
	return size > 0 && length > size && strstr(argument, "://") == NULL &&
	       strncmp(argument + length - size, ending, size) == 0;
}

static bool is_set(const weir_key *key, const void *values)
{
	return *(const char *const *const *)(const void *)((const char *)values + key->offset) != NULL;
}

int weir_option_take(const weir_options *options, void *values, const weir_key_memory *memory, int argc,
		     char *const *argv)
{
	size_t length = strcspn(argv[0], "=");
	const weir_key *key = find(options, argv[0], length);
	const char *value = key != NULL && argv[0][length] == '=' ? argv[0] + length + 1 : NULL;
	int used = 1;
	if (key == NULL)
		return 0;
	if (key->type == WEIR_KEY_SWITCH) {
		if (value != NULL)
			return weir_options_wrong(options, "--%s: it takes no value", key->name), -1;
		value = "on";
	} else if (value == NULL) {
		bool left_out = key->value[0] == '[';
		if (argc > 1 && (!left_out || is_meant(key, argv[1])))
			value = argv[used++];
		else if (left_out)
			value = "";
		else
			return weir_options_wrong(options, "%s: its value is missing", argv[0]), -1;
	}
	bool first = !weir_key_is_list(key) || !is_set(key, values);
	if (weir_key_set(key, values, value, NULL, first, memory) == 0)
		return used;
	weir_options_wrong(options, "%s%s: %s", dashes(key), key->name, weir_error());
	return -1;
}

static void print_usage(const void *options, FILE *file)
{
	weir_options_usage(options, file);
}

int weir_options_read(const weir_options *options, void *values, const weir_key_memory *memory, int argc,
		      char *const *argv, const char **ret_argument)
{
	const char *argument = NULL;
	bool ended = false;
	for (const weir_option_group *group = options->groups; group != NULL && group->keys != NULL; group++)
		if (weir_keys_defaults(group->keys, values, memory) != 0)
			return weir_options_wrong(options, "a default is wrong: %s", weir_error());
	for (int at = 1, used; at < argc; at += used) {
		used = ended ? 0 : weir_option_take(options, values, memory, argc - at, argv + at);
		if (used < 0)
			return WEIR_EXIT_USAGE;
		if (used > 0)
			continue;
		used = 1;
		if (!ended && ret_argument != NULL && strcmp(argv[at], "--") == 0)
			ended = true;
		else if (ret_argument == NULL || argument != NULL ||
			 (!ended && argv[at][0] == '-' && argv[at][1] != '\0'))
			return weir_usage_unexpected(options->program, print_usage, options, argv[at]);
		else
			argument = argv[at];
	}
	if (ret_argument != NULL)
		*ret_argument = argument;
	return WEIR_EXIT_OK;
}

/* ---- the help ---- */

/* "--rate R". */
static int spec_of(const weir_key *key, char spec[SPEC_BYTES])
{
	return snprintf(spec, SPEC_BYTES, "%s%s%s%s", dashes(key), key->name, key->value != NULL ? " " : "",
			key->value != NULL ? key->value : "");
}

/* The default, if the help should tell it. */
static const char *shown_default(const weir_key *key)
{
	return key->type == WEIR_KEY_SWITCH ? NULL : key->initial;
}

void weir_print_folded(FILE *file, const char *text, unsigned at, unsigned indent)
{
	const char *space = "";
	while (*text != '\0') {
		size_t length = strcspn(text, " ");
		bool fits = at + strlen(space) + length <= COLUMNS;
		at = fits ? at + (unsigned)strlen(space) : indent;
		if (fits)
			fputs(space, file);
		else
			fprintf(file, "\n%*s", (int)indent, "");
		fprintf(file, "%.*s", (int)length, text);
		at += (unsigned)length;
		text += length + (text[length] != '\0');
		space = " ";
	}
	fputc('\n', file);
}

void weir_option_print(const char *spec, const char *help, const char *initial, int column, FILE *file)
{
	char text[600];
	int at = fprintf(file, "  %-*s", column - 2, spec);
	snprintf(text, sizeof(text), initial != NULL ? "%s (%s)" : "%s", help, initial);
	weir_print_folded(file, text, at > 0 ? (unsigned)at : 0, (unsigned)column);
}

void weir_options_print(const weir_key *keys, int column, FILE *file)
{
	char spec[SPEC_BYTES];
	for (; keys->name != NULL; keys++) {
		spec_of(keys, spec);
		weir_option_print(spec, keys->help, shown_default(keys), column, file);
	}
}

void weir_options_usage(const weir_options *options, FILE *file)
{
	char spec[SPEC_BYTES];
	const weir_key *key;
	int column = 0;
	for (size_t i = 0; (key = row_at(options, i)) != NULL; i++)
		column = spec_of(key, spec) + 4 > column ? spec_of(key, spec) + 4 : column;
	fputs(options->about, file);
	for (const weir_option_group *group = options->groups; group != NULL && group->keys != NULL;
	     group++) {
		fputs("\n", file);
		if (group->title != NULL)
			fprintf(file, "%s:\n", group->title);
		weir_options_print(group->keys, column, file);
	}
	if (options->more != NULL)
		fprintf(file, "\n%s", options->more);
}

void weir_options_markdown(const weir_options *options, FILE *file)
{
	static const weir_key_form flag = {.name = "flag"};
	char spec[SPEC_BYTES];
	for (const weir_option_group *group = options->groups; group->keys != NULL; group++) {
		fprintf(file, "### %s\n\n| option | value | default | bounds | |\n|---|---|---|---|---|\n",
			group->title);
		for (const weir_key *key = group->keys; key->name != NULL; key++) {
			weir_key shown = *key;
			if (key->type == WEIR_KEY_SWITCH) {
				shown.type = WEIR_KEY_FORM;
				shown.form = &flag;
			}
			spec_of(key, spec);
			weir_key_markdown_as(spec, &shown, file);
		}
		fputc('\n', file);
	}
}

/* ---- arguments that nobody knows ---- */

/* The options in a help text. Each is at the beginning of a line, as "  --listen". */
typedef struct known_options {
	char name[80][24];
	size_t count;
} known_options;

static const char *known_at(const void *list, size_t at)
{
	const known_options *k = list;
	return at < k->count ? k->name[at] : NULL;
}

static void find_known(const char *usage, known_options *ret_known)
{
	const size_t most = sizeof(ret_known->name) / sizeof(ret_known->name[0]);
	ret_known->count = 0;
	for (const char *at = usage; (at = strstr(at, "\n  --")) != NULL && ret_known->count < most;) {
		at += strlen("\n  ");
		snprintf(ret_known->name[ret_known->count++], sizeof(ret_known->name[0]), "%.*s",
			 (int)strcspn(at, " ,\n"), at);
	}
}

/* What other programs call it. The first that the help knows is suggested, by its name or in words. */
typedef struct habit {
	const char *typed, *ours, *says;
} habit;

#define AN_ARGUMENT "the address comes without an option, as 127.0.0.1:7777"

static const habit habits[] = {
	{"--config", "-c", NULL},
	{"-f", "-c", NULL},
	{"--conf", "-c", NULL},
	{"--port", "--listen", NULL},
	{"--port", "[ADDR:PORT]", AN_ARGUMENT},
	{"-p", "--listen", NULL},
	{"-p", "[ADDR:PORT]", AN_ARGUMENT},
	{"--bind", "--listen", NULL},
	{"-b", "--listen", NULL},
	{"--address", "--listen", NULL},
	{"--address", "[ADDR:PORT]", AN_ARGUMENT},
	{"--admin", "[ADDR:PORT]", AN_ARGUMENT},
	{"--host", "[ADDR:PORT]", AN_ARGUMENT},
	{"-l", "--listen", NULL},
	{"--backend", "--to", NULL},
	{"--upstream", "--to", NULL},
	{"--server", "--to", NULL},
	{"--target", "--to", "write the target as --p90 200ms, and the service as --to URL"},
	{"--target", "--p90", NULL},
	{"--proxy", "--to", NULL},
	{"--tls-cert", "--cert", NULL},
	{"--certificate", "--cert", NULL},
	{"--tls-key", "--key", NULL},
	{"--private-key", "--key", NULL},
	{"--workers", "--threads", NULL},
	{"-j", "--threads", NULL},
	{"-t", "--threads", NULL},
	{"-c", "--users", NULL},
	{"--concurrency", "--users", NULL},
	{"-z", "--duration", NULL},
	{"-d", "--body",
	 "a body is --body TEXT or --body @FILE, and how long to send is --duration 10s or -z 10s"},
	{"-d", "--duration", NULL},
	{"-D", "--body", "a body from a file is --body @FILE"},
	{"-H", "--header", NULL},
	{"-k", "--insecure", NULL},
	{"-R", "--rate", NULL},
	{"-q", "--rate", NULL},
	{"-m", "--method", NULL},
	{"-n", "--requests", NULL},
	{"--log", "--access-log", NULL},
	{"--dir", "--root", NULL},
	{"-T", "--timeout", NULL},
};

/* An option has a line of its own; an argument is in the line of usage. */
static bool has(const char *usage, const char *ours)
{
	char line[32];
	snprintf(line, sizeof(line), ours[0] == '-' ? "\n  %s " : " %s ", ours);
	return strstr(usage, line) != NULL;
}

static const habit *find_habit(const char *typed, const char *usage)
{
	for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
		if (strcmp(typed, habits[i].typed) == 0 && has(usage, habits[i].ours))
			return &habits[i];
	return NULL;
}

/* A value without its option: the option that takes such values, if the help knows it. */
static const char *find_option_for(const char *value, const char *usage)
{
	size_t length = strlen(value);
	const char *option = strstr(value, "://") != NULL                             ? "--to"
			     : length > 5 && strcmp(value + length - 5, ".conf") == 0 ? "-c"
										      : NULL;
	return option != NULL && has(usage, option) ? option : NULL;
}

/* What to write instead; all of them may be NULL. */
static void print_hint(const char *program, const char *argument, const habit *known, const char *option,
		       const char *near)
{
	if (option != NULL)
		fprintf(stderr, "did you mean '%s %s'?\n", option, argument);
	else if (known != NULL && known->says != NULL)
		fprintf(stderr, "%s\n", known->says);
	else if (known != NULL || near != NULL)
		fprintf(stderr, "did you mean '%s'?\n", known != NULL ? known->ours : near);
	else
		fprintf(stderr, "see '%s --help'\n", program);
}

int weir_usage_unexpected(const char *program, void (*print)(const void *of, FILE *file), const void *of,
			  const char *argument)
{
	known_options known = {.count = 0};
	char typed[32], *usage = NULL;
	const char *near = NULL;
	size_t length;
	FILE *file = open_memstream(&usage, &length);
	if (file != NULL) {
		print(of, file);
		fclose(file);
		find_known(usage != NULL ? usage : "", &known);
	}
	snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(argument, "="), argument);
	const habit *known_as = find_habit(typed, usage != NULL ? usage : "");
	const char *option = find_option_for(argument, usage != NULL ? usage : "");
	free(usage);
	if (typed[0] == '-' && strlen(typed) > strlen("--"))
		near = weir_text_nearest(typed, known_at, &known);
	fprintf(stderr, "%s: unexpected argument '%s'; ", program, argument);
	print_hint(program, argument, known_as, option, near);
	return WEIR_EXIT_USAGE;
}
