/* SPDX-License-Identifier: Apache-2.0 */
/* `weir top`: the live page in a terminal. */
#include "top/top.h"

#include <stdio.h>
#include <string.h>

#include "cmd/verb.h"

#define DEFAULT_ADDRESS "127.0.0.1:7777"

static int read_arguments(weir_top_options *options, int argc, char **argv)
{
	static const char token_flag[] = "--token-file";
	size_t length = sizeof(token_flag) - 1;
	for (int at = 1; at < argc; at++) {
		if (strcmp(argv[at], "--once") == 0)
			options->once = true;
		else if (strncmp(argv[at], token_flag, length) == 0 && argv[at][length] == '=')
			options->token_file = argv[at] + length + 1;
		else if (strcmp(argv[at], token_flag) == 0 && at + 1 < argc)
			options->token_file = argv[++at];
		else if (strcmp(argv[at], token_flag) == 0) {
			fputs("weir top: --token-file: its value is missing; see 'weir top --help'\n",
			      stderr);
			return WEIR_EXIT_USAGE;
		} else if (argv[at][0] == '-' || options->address != NULL)
			return weir_verb_unexpected(&weir_verb_top, argv[at]);
		else
			options->address = argv[at];
	}
	return WEIR_EXIT_OK;
}

static int run(int argc, char **argv)
{
	weir_top_options options = {0};
	int status = read_arguments(&options, argc, argv);
	if (options.address == NULL)
		options.address = DEFAULT_ADDRESS;
	return status == WEIR_EXIT_OK ? weir_top_run(&options) : status;
}

const weir_verb weir_verb_top = {
	.name = "top",
	.summary = "shows in a terminal what a sentry or server does",
	.usage = "usage: weir top [ADDR:PORT] [--token-file FILE] [--once]\n"
		 "\n"
		 "Shows the live page's content in a terminal, once a second: what each stage is offered, "
		 "lets in and\n"
		 "turns away, its response times against the target, backends, and why requests were turned "
		 "away.\n"
		 "\n"
		 "  ADDR:PORT           the admin listener; " DEFAULT_ADDRESS "\n"
		 "  --token-file FILE   its token, where it wants one for reading\n"
		 "  --once              prints it once, as text; exit status 1 when nobody answers\n"
		 "\n"
		 "Keys: q quit, j k or arrows choose a stage, Enter all about it, s what was turned away, p "
		 "pause,\n"
		 "? help. NO_COLOR=1 is for no colours; without UTF-8 it draws with ASCII.\n",
	.run = run,
};
