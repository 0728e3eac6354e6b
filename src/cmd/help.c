/* SPDX-License-Identifier: Apache-2.0 */
/* `weir help`: lists the verbs, or explains one. */

#include <stdio.h>

#include "cmd/verb.h"

static void list_verbs(void)
{
	fputs("weir holds a service at a chosen response time however much load arrives.\n\n"
	      "usage: weir VERB [ARGUMENT...]\n\n",
	      stdout);
	for (size_t i = 0; weir_verbs[i] != NULL; i++)
		printf("  %-10s %s\n", weir_verbs[i]->name, weir_verbs[i]->summary);
	fputs("\n'weir VERB --help' explains one of them.\n", stdout);
}

/* For completion: only the names. */
static void list_names(void)
{
	for (size_t i = 0; weir_verbs[i] != NULL; i++)
		puts(weir_verbs[i]->name);
}

typedef struct help_options {
	bool verbs;
} help_options;

static const weir_key keys[] = {
	WEIR_KEY("verbs", SWITCH, help_options, verbs, NULL, "Prints only the names, one per line"), {0}};

static const weir_options table = {
	.program = "weir help",
	.about = "usage: weir help [VERB | --verbs]\n\n"
		 "Lists the verbs with a line each, or explains VERB.\n",
	.groups = (const weir_option_group[]){{NULL, keys}, {NULL, NULL}},
};

static int run(int argc, char **argv)
{
	help_options options = {0};
	const char *name = NULL;
	int status = weir_options_read(&table, &options, NULL, argc, argv, &name);
	if (status != WEIR_EXIT_OK)
		return status;
	if (options.verbs)
		list_names();
	else if (name == NULL)
		list_verbs();
	const weir_verb *verb = name != NULL ? weir_verb_find(name) : NULL;
	if (name != NULL && verb == NULL)
		return weir_verb_unknown(name);
	if (verb != NULL)
		weir_verb_print_usage(verb, stdout);
	return WEIR_EXIT_OK;
}

const weir_verb weir_verb_help = {
	.name = "help",
	.summary = "lists the verbs, or explains one",
	.options = &table,
	.run = run,
};
