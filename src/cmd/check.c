/* SPDX-License-Identifier: Apache-2.0 */
/* `weir check`: what a configuration would run, or everything that is wrong with it. */

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/verb.h"
#include "service/config.h"
#include "service/config_inside.h"
#include "service/daemon.h"

static int no_such(const weir_config *config, const char *what, const char *block, const char *key)
{
	const weir_config_block *found = weir_config_block_find(config, block);
	const char *near = found == NULL ? weir_text_nearest(block, weir_config_block_name_at, config)
					 : weir_text_nearest(key, weir_config_row_name_at, found);
	fprintf(stderr, "weir check: there is no '%s'; %s%s%s\n", what, near != NULL ? "did you mean '" : "",
		near != NULL ? near : "'weir check --list' lists all there is", near != NULL ? "'?" : "");
	return WEIR_EXIT_USAGE;
}

/* BLOCK or BLOCK.KEY. */
static int explain(const weir_config *config, const char *what)
{
	char block[64];
	size_t length = strcspn(what, ".");
	const char *key = what[length] == '.' ? what + length + 1 : NULL;
	snprintf(block, sizeof(block), "%.*s", (int)(length < sizeof(block) ? length : 0), what);
	return weir_config_explain(config, block, key, stdout) ? WEIR_EXIT_OK
							       : no_such(config, what, block, key);
}

/* A flag of the serving verbs, or the file. -1: wrong usage, with a message. */
static int read_argument(weir_config_flags *flags, int argc, char **argv)
{
	int used = weir_config_flag(flags, "weir check", argc, argv);
	if (used != 0)
		return used;
	if ((argv[0][0] == '-' && argv[0][1] != '\0') || flags->file != NULL) {
		weir_verb_unexpected(&weir_verb_check, argv[0]);
		return -1;
	}
	flags->file = argv[0];
	return 1;
}

/* Tells what can be configured. */
static int tell(const char *what, bool markdown)
{
	weir_config *config;
	int status = WEIR_EXIT_OK;
	if (weir_config_new(weir_kinds, &config) != 0)
		return WEIR_EXIT_FAILED;
	if (what != NULL)
		status = explain(config, what);
	else if (markdown)
		weir_config_markdown(config, stdout);
	else
		weir_config_explain(config, NULL, NULL, stdout);
	weir_config_free(&config);
	return status;
}

/* Answers questions about keys rather than a file. */
static int answer(int argc, char **argv, bool *ret_asks)
{
	const char *what = argv[1];
	bool list = strcmp(what, "--list") == 0, markdown = strcmp(what, "--markdown") == 0;
	bool explains = strcmp(what, "--explain") == 0;
	int last = explains ? 2 : 1;
	*ret_asks = list || markdown || explains;
	if (!*ret_asks)
		return WEIR_EXIT_OK;
	if (argc > last + 1)
		return weir_verb_unexpected(&weir_verb_check, argv[last + 1]);
	if (argc <= last) {
		fputs("weir check: --explain: name a block, or BLOCK.KEY; 'weir check --list' lists them\n",
		      stderr);
		return WEIR_EXIT_USAGE;
	}
	return tell(explains ? argv[2] : NULL, markdown);
}

static int run(int argc, char **argv)
{
	weir_config_flags flags = {.kinds = weir_kinds};
	bool asks = false;
	int status = argc > 1 ? answer(argc, argv, &asks) : WEIR_EXIT_OK;
	if (asks)
		return status;
	for (int at = 1, used; at < argc; at += used) {
		used = read_argument(&flags, argc - at, argv + at);
		if (used < 0)
			return WEIR_EXIT_USAGE;
	}
	if (flags.file == NULL) {
		fputs("weir check: name a configuration; see 'weir check --help'\n", stderr);
		return WEIR_EXIT_USAGE;
	}
	return weir_program_check(&flags, "weir check", stdout);
}

const weir_verb weir_verb_check = {
	.name = "check",
	.summary = "says what a configuration would run, or what is wrong with it",
	.usage =
		"usage: weir check FILE [FLAG...]\n"
		"       weir check --list | --explain BLOCK[.KEY] | --markdown\n\n"
		"Reads FILE as serving does and shows what would run: listeners, routes in order with their\n"
		"rules, classes, targets and laws. Or everything that is wrong, with file and line; then "
		"the\n"
		"exit status is 1.\n\n"
		"  --list             all blocks and keys\n"
		"  --explain BLOCK    the keys of a block; BLOCK.KEY: one of them\n"
		"  --markdown         all of them as docs/config.md has them\n\n"
		"The flags of the serving verbs override the file here, too:\n\n",
	.takes_flags = true,
	.run = run,
};
