/* SPDX-License-Identifier: Apache-2.0 */
/* `weir VERB ...`: finds the verb and runs it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bottleneck/bottleneck.h>

#include "base/text.h"
#include "cmd/verb.h"
#include "service/daemon.h"

const weir_kind *const weir_kinds[] = {&weir_kind_backend, &weir_kind_root, &weir_kind_redirect,
				       &bottleneck_kind, NULL};

const weir_verb *const weir_verbs[] = {&weir_verb_check,
				       &weir_verb_help,
				       &weir_verb_load,
				       &weir_verb_nucleus,
				       &weir_verb_sentry,
				       &weir_verb_serve,
				       &weir_verb_sim,
				       &weir_verb_top,
				       &weir_verb_uplink,
				       &weir_verb_version,
				       NULL};

const weir_verb *weir_verb_find(const char *name)
{
	for (size_t i = 0; weir_verbs[i] != NULL; i++)
		if (strcmp(weir_verbs[i]->name, name) == 0)
			return weir_verbs[i];
	return NULL;
}

static const char *verb_name_at(const void *list, size_t at)
{
	return weir_verbs[at] != NULL ? weir_verbs[at]->name : NULL;
}

/* What other programs call it, and what to do here. */
static const struct {
	const char *typed, *says;
} habits[] = {
	{"-v", "'weir version' shows the version"},
	{"reload", "a running weir reads its configuration again on a signal: kill -HUP PID"},
	{"stop", "a running weir answers what it has begun, and ends, on a signal: kill -TERM PID"},
	{"restart", "a running weir hands over to a new one on a signal: kill -USR2 PID"},
	{"upgrade", "a running weir hands over to a new one on a signal: kill -USR2 PID"},
	{"start",
	 "'weir sentry --to URL --p90 TIME' protects a service, 'weir serve --root DIR' serves files"},
	{"run", "'weir sentry --to URL --p90 TIME' protects a service, 'weir serve --root DIR' serves files"},
	{"proxy", "'weir sentry --to URL --p90 TIME' passes requests on to a service"},
	{"status", "'weir top' shows what a running weir does"},
	{"test", "'weir check FILE' says what is wrong with a configuration"},
	{"-t", "'weir check FILE' says what is wrong with a configuration"},
	{"bench", "'weir load URL' sends requests and measures"},
};

static const char *find_habit(const char *typed)
{
	for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
		if (strcmp(typed, habits[i].typed) == 0)
			return habits[i].says;
	return NULL;
}

int weir_verb_unknown(const char *typed)
{
	const char *says = find_habit(typed), *near = weir_text_nearest(typed, verb_name_at, NULL);
	if (says != NULL)
		fprintf(stderr, "weir: there is no verb '%s'; %s\n", typed, says);
	else if (near != NULL)
		fprintf(stderr, "weir: there is no verb '%s'; did you mean '%s'?\n", typed, near);
	else
		fprintf(stderr, "weir: there is no verb '%s'; 'weir help' lists them\n", typed);
	return WEIR_EXIT_USAGE;
}

void weir_verb_print_usage(const weir_verb *verb, FILE *file)
{
	if (verb->program != NULL)
		weir_program_usage(verb->program, file);
	else
		weir_options_usage(verb->options, file);
	if (verb->takes_flags)
		weir_config_flags_usage(weir_kinds, file);
}

static void print_usage(const void *verb, FILE *file)
{
	weir_verb_print_usage(verb, file);
}

int weir_verb_unexpected(const weir_verb *verb, const char *argument)
{
	char program[32];
	snprintf(program, sizeof(program), "weir %s", verb->name);
	return weir_usage_unexpected(program, print_usage, verb, argument);
}

/* The usual spellings of two common verbs. */
static const char *verb_for(const char *typed)
{
	if (strcmp(typed, "--help") == 0 || strcmp(typed, "-h") == 0)
		return "help";
	if (strcmp(typed, "--version") == 0 || strcmp(typed, "-V") == 0)
		return "version";
	return typed;
}

/* Output that could not be written (a full disk, a closed pipe) is a failure. */
static int flushed(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	perror("weir: writing the output");
	return status == WEIR_EXIT_OK ? WEIR_EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fputs("usage: weir VERB [ARGUMENT...]; 'weir help' lists the verbs\n", stderr);
		return WEIR_EXIT_USAGE;
	}
	const weir_verb *verb = weir_verb_find(verb_for(argv[1]));
	if (verb == NULL)
		return weir_verb_unknown(argv[1]);
	if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
		weir_verb_print_usage(verb, stdout);
		return flushed(WEIR_EXIT_OK);
	}
	return flushed(verb->run(argc - 1, argv + 1));
}
