/* SPDX-License-Identifier: Apache-2.0 */
/* `weir serve`: files and pages. */
#include <stddef.h>

#include "cmd/verb.h"
#include "service/daemon.h"

static const char *missing(const weir_config *config)
{
	return config->routes > 0 ? NULL
				  : "there is nothing to serve: name a folder with --root DIR, a route in "
				    "a configuration, or --demo";
}

static int run(int argc, char **argv)
{
	const weir_program program = {
		.name = "weir serve", .usage = weir_verb_serve.usage, .missing = missing};
	return weir_daemon_run(&program, argc, argv);
}

const weir_verb weir_verb_serve = {
	.name = "serve",
	.summary = "serves files, or a page to try overload on",
	.usage =
		"usage: weir serve --root DIR [--listen ADDR:PORT] [FLAG...]\n"
		"       weir serve --demo [FLAG...]\n"
		"       weir serve -c FILE [FLAG...]\n"
		"\n"
		"Serves the files of a folder, or what a configuration has. With --demo, a page that takes a "
		"few\n"
		"milliseconds of a processor, to try on it what overload does and what a target does about "
		"it.\n"
		"\n"
		"  weir serve --root /srv/www --listen 127.0.0.1:8080\n"
		"  weir serve --demo --p90 100ms\n"
		"\n" WEIR_CONFIG_FLAGS_USAGE "\n"
		"SIGHUP reads the configuration again, SIGTERM drains, SIGUSR2 hands over to a new binary, "
		"SIGUSR1 opens the\n"
		"logs anew. docs/serve.md and docs/config.md have the rest.\n",
	.run = run,
};
