/* SPDX-License-Identifier: Apache-2.0 */
#include "load/values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "keys/usage.h"

#define BODY_BYTES_MAX (16u << 20)
#define YEAR_NS        (UINT64_C(365) * 86400 * WEIR_NS_PER_S)

int load_wrong(const char *what, const char *value)
{
	fprintf(stderr, "weir load: %s%s; see 'weir load --help'\n", what, value);
	return WEIR_EXIT_USAGE;
}

int load_read_count(const char *name, const char *text, uint32_t least, uint32_t most, uint32_t *ret)
{
	if (weir_text_count(text, ret) == 0 && *ret >= least && *ret <= most)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir load: --%s must be a whole number from %u to %u, not '%s'\n", name, least, most,
		text);
	return WEIR_EXIT_USAGE;
}

int load_read_rate(const char *name, const char *text, double *ret)
{
	if (weir_text_number(text, ret) == 0 && *ret > 0 && *ret <= LOAD_RATE_MAX)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir load: --%s must be a number above 0 and at most %g, not '%s'\n", name,
		LOAD_RATE_MAX, text);
	return WEIR_EXIT_USAGE;
}

int load_read_time(const char *name, const char *text, bool may_be_zero, uint64_t *ret)
{
	if (weir_text_time(text, ret) == 0 && (may_be_zero || *ret > 0) && *ret <= YEAR_NS)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir load: --%s must be a time%s as 200ms, 1.5s or 2m, not '%s'\n", name,
		may_be_zero ? "" : " above 0", text);
	return WEIR_EXIT_USAGE;
}

int load_read_loads(const char *text, load_options *options)
{
	char copy[256], *rest;
	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return load_wrong("too many loads: ", text);
	options->loads = 0;
	for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
		size_t length = strlen(part);
		double load;
		if (length > 0 && part[length - 1] == 'x')
			part[length - 1] = '\0';
		if (options->loads == LOAD_LOADS || weir_text_number(part, &load) != 0 || load <= 0 ||
		    load > 1e6)
			return load_wrong("--load takes multiples of the capacity, as 0.5x,1x,2x, not ",
					  text);
		options->load[options->loads++] = load;
	}
	return options->loads > 0 ? WEIR_EXIT_OK : load_wrong("--load takes multiples, as 0.5x,1x,2x", "");
}

static int read_body_file(const char *path, load_options *options)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL) {
		fprintf(stderr, "weir load: --body @%s: %s\n", path, strerror(errno));
		return WEIR_EXIT_USAGE;
	}
	free(options->body);
	options->body = malloc(BODY_BYTES_MAX + 1);
	size_t length = options->body != NULL ? fread(options->body, 1, BODY_BYTES_MAX + 1, file) : 0;
	bool failed = options->body == NULL || ferror(file);
	fclose(file);
	if (failed || length > BODY_BYTES_MAX) {
		fprintf(stderr, "weir load: --body @%s: %s\n", path,
			failed ? "it cannot be read" : "it has more than 16 MB");
		return WEIR_EXIT_USAGE;
	}
	options->habits.body = options->body;
	options->habits.body_length = length;
	return WEIR_EXIT_OK;
}

int load_read_body(const char *text, load_options *options)
{
	if (text[0] == '@')
		return read_body_file(text + 1, options);
	options->habits.body = text;
	options->habits.body_length = strlen(text);
	return WEIR_EXIT_OK;
}

int load_read_sources(const char *text, load_options *options)
{
	int count = load_sources_parse(text, options->source, LOAD_SOURCES_MAX);
	if (count < 0) {
		fprintf(stderr, "weir load: --source: %s\n", weir_error());
		return WEIR_EXIT_USAGE;
	}
	options->plan.source_count = (unsigned)count;
	return WEIR_EXIT_OK;
}
