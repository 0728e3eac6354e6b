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

/* Questions about keys rather than a file. */
typedef struct check_options {
	bool list, markdown;
	const char *explain;
} check_options;

static const weir_key keys[] = {
	WEIR_KEY("list", SWITCH, check_options, list, NULL, "Explains all blocks and keys"),
	WEIR_KEY("explain", TEXT, check_options, explain, NULL,
		 "Explains the keys of a block; BLOCK.KEY: one of them", .value = "BLOCK"),
	WEIR_KEY("markdown", SWITCH, check_options, markdown, NULL,
		 "Prints all of them as docs/config.md has them"),
	{0}};

static const weir_options table = {
	.program = "weir check",
	.about =
		"usage: weir check FILE [FLAG...]\n"
		"       weir check --list | --explain BLOCK[.KEY] | --markdown\n\n"
		"Reads FILE as serving does and shows what would run: listeners, routes in order with their\n"
		"rules, classes, targets and laws. Or it shows everything that is wrong, with file and line; "
		"then\n"
		"the exit status is 1. It looks whether a start could open what it opens, and makes and "
		"changes\n"
		"nothing.\n",
	.groups = (const weir_option_group[]){{NULL, keys}, {NULL, NULL}},
	.more = "The flags of the serving verbs override the file here, too:\n\n",
};

/* A flag of the serving verbs, a question, or the file. -1: wrong usage, with a message. */
static int read_argument(weir_config_flags *flags, check_options *asked, int argc, char **argv)
{
	int used = weir_option_take(&table, asked, NULL, argc, argv);
	if (used == 0)
		used = weir_config_flag(flags, "weir check", argc, argv);
	bool asks = asked->list || asked->markdown || asked->explain != NULL;
	if (used != 0 && !(asks && flags->file != NULL))
		return used;
	if (asks || (argv[0][0] == '-' && argv[0][1] != '\0') || flags->file != NULL) {
		weir_verb_unexpected(&weir_verb_check, used == 0 ? argv[0] : flags->file);
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
	if (weir_config_new(weir_kinds, &config) != 0) {
		fprintf(stderr, "weir check: %s\n", weir_error());
		return WEIR_EXIT_FAILED;
	}
	if (what != NULL)
		status = explain(config, what);
	else if (markdown)
		weir_config_markdown(config, stdout);
	else
		weir_config_explain(config, NULL, NULL, stdout);
	weir_config_free(&config);
	return status;
}

static int run(int argc, char **argv)
{
	weir_config_flags flags = {.kinds = weir_kinds};
	check_options asked = {0};
	for (int at = 1, used; at < argc; at += used) {
		used = read_argument(&flags, &asked, argc - at, argv + at);
		if (used < 0)
			return WEIR_EXIT_USAGE;
	}
	if (asked.list || asked.markdown || asked.explain != NULL)
		return tell(asked.explain, asked.markdown);
	if (flags.file == NULL)
		return weir_options_wrong(&table, "name a configuration");
	return weir_program_check(&flags, "weir check", stdout);
}

const weir_verb weir_verb_check = {
	.name = "check",
	.summary = "says what a configuration would run, or what is wrong with it",
	.options = &table,
	.takes_flags = true,
	.run = run,
};
