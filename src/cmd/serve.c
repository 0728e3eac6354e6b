/* SPDX-License-Identifier: Apache-2.0 */
/* `weir serve`: files, pages and applications. */
#include "cmd/verb.h"
#include "service/daemon.h"

static const char *missing(const weir_config *config)
{
	return config->routes > 0 ? NULL
				  : "there is nothing to serve: name a folder with --root DIR, a route in "
				    "a configuration, or --demo";
}

static const weir_program program = {
	.name = "weir serve",
	.usage = "weir serve --root DIR [--listen ADDR:PORT] [FLAG...]\n"
		 "       weir serve --demo [FLAG...]\n"
		 "       weir serve -c FILE [FLAG...]\n",
	.summary = "Serves the files of a folder, or the routes of a configuration. With --demo it serves a "
		   "page that takes\n"
		   "a few milliseconds of processor time. That page shows what overload does, and what a "
		   "target changes.",
	.examples = "  weir serve --root /srv/www --listen 127.0.0.1:8080\n"
		    "  weir serve --demo --p90 100ms\n",
	.more = "docs/serve.md and docs/config.md",
	.kinds = weir_kinds,
	.missing = missing,
};

/* argv[0] is the verb, and the program is before it. */
static int run(int argc, char **argv)
{
	return weir_daemon_run(&program, argv - 1, argc, argv);
}

const weir_verb weir_verb_serve = {
	.name = "serve",
	.summary = "serves files, or a page to try overload on",
	.program = &program,
	.run = run,
};
