/* SPDX-License-Identifier: Apache-2.0 */
/* `weir top`: the live page in a terminal. */
#include "top/top.h"

#include "cmd/verb.h"

#define DEFAULT_ADDRESS "127.0.0.1:7777"

static const weir_key keys[] = {WEIR_KEY("token-file", PATH, weir_top_options, token_file, NULL,
					 "The file with the listener's token, if it wants one for reading",
					 .value = "FILE"),
				WEIR_KEY("once", SWITCH, weir_top_options, once, NULL,
					 "Prints it once, as text. The exit status is 1 when nobody answers"),
				{0}};

static const weir_options table = {
	.program = "weir top",
	.about = "usage: weir top [ADDR:PORT] [--token-file FILE] [--once]\n\n"
		 "Shows the live page's content in a terminal, once a second: what each stage is offered, "
		 "admits and\n"
		 "rejects, its response times against the target, backends, and why requests were rejected.\n"
		 "ADDR:PORT is the admin listener (" DEFAULT_ADDRESS "); unix:/PATH is a Unix socket.\n",
	.groups = (const weir_option_group[]){{NULL, keys}, {NULL, NULL}},
	.more = "Keys: q quit, j k or arrows choose a stage, Enter all about it, s what was rejected, p "
		"pause, ? help.\n"
		"NO_COLOR=1 turns colours off; without UTF-8 it draws with ASCII.\n",
};

static int run(int argc, char **argv)
{
	weir_top_options options = {0};
	int status = weir_options_read(&table, &options, NULL, argc, argv, &options.address);
	if (options.address == NULL)
		options.address = DEFAULT_ADDRESS;
	return status == WEIR_EXIT_OK ? weir_top_run(&options) : status;
}

const weir_verb weir_verb_top = {
	.name = "top",
	.summary = "shows in a terminal what a sentry or server does",
	.options = &table,
	.run = run,
};
