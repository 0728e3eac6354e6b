/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/usage.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* The options in a help text. Each is at the beginning of a line, as "  --listen". */
typedef struct options {
	char name[80][24];
	size_t count;
} options;

static const char *option_at(const void *list, size_t at)
{
	const options *o = list;
	return at < o->count ? o->name[at] : NULL;
}

static void find_options(const char *usage, options *ret_options)
{
	const size_t most = sizeof(ret_options->name) / sizeof(ret_options->name[0]);
	ret_options->count = 0;
	for (const char *at = usage; (at = strstr(at, "\n  --")) != NULL && ret_options->count < most;) {
		at += strlen("\n  ");
		snprintf(ret_options->name[ret_options->count++], sizeof(ret_options->name[0]), "%.*s",
			 (int)strcspn(at, " ,\n"), at);
	}
}

int weir_usage_unexpected(const char *program, const char *usage, const char *argument)
{
	options known;
	char typed[32];
	const char *near = NULL;
	snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(argument, "="), argument);
	find_options(usage, &known);
	if (typed[0] == '-' && strlen(typed) > strlen("--"))
		near = weir_text_nearest(typed, option_at, &known);
	fprintf(stderr, "%s: unexpected argument '%s'; ", program, argument);
	if (near != NULL)
		fprintf(stderr, "did you mean '%s'?\n", near);
	else
		fprintf(stderr, "see '%s --help'\n", program);
	return WEIR_EXIT_USAGE;
}
