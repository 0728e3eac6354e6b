/* SPDX-License-Identifier: Apache-2.0 */
/* `weir help`: lists the verbs, or explains one. */

#include <stdio.h>
#include <string.h>

#include "cmd/verb.h"

static void list_verbs(void)
{
	fputs("weir holds a service at a chosen response time however much load arrives.\n\n"
	      "usage: weir VERB [ARGUMENT...]\n\n",
	      stdout);
	for (size_t i = 0; weir_verbs[i] != NULL; i++)
		printf("  %-10s %s\n", weir_verbs[i]->name, weir_verbs[i]->summary);
	fputs("\n'weir VERB --help' tells about one of them.\n", stdout);
}

/* For completion: only the names. */
static void list_names(void)
{
	for (size_t i = 0; weir_verbs[i] != NULL; i++)
		puts(weir_verbs[i]->name);
}

static int run(int argc, char **argv)
{
	if (argc > 2)
		return weir_verb_unexpected(&weir_verb_help, argv[2]);
	if (argc < 2) {
		list_verbs();
		return WEIR_EXIT_OK;
	}
	if (strcmp(argv[1], "--verbs") == 0) {
		list_names();
		return WEIR_EXIT_OK;
	}
	const weir_verb *verb = weir_verb_find(argv[1]);
	if (verb == NULL)
		return weir_verb_unknown(argv[1]);
	weir_verb_print_usage(verb, stdout);
	return WEIR_EXIT_OK;
}

const weir_verb weir_verb_help = {
	.name = "help",
	.summary = "lists the verbs, or tells about one",
	.usage = "usage: weir help [VERB | --verbs]\n\n"
		 "Lists the verbs with a line each, or tells all about VERB.\n\n"
		 "  --verbs   only the names, one a line\n",
	.run = run,
};
