/* SPDX-License-Identifier: Apache-2.0 */
/* `weir sentry`: in front of an HTTP service. */
#include <stddef.h>

#include "cmd/verb.h"
#include "service/daemon.h"

static const char *missing(const weir_config *config)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (config->route[i].backend != NULL)
			return NULL;
	return "it has no backend: name one with --to URL, or a route with a backend in a configuration";
}

static int run(int argc, char **argv)
{
	const weir_program program = {
		.name = "weir sentry", .usage = weir_verb_sentry.usage, .missing = missing};
	return weir_daemon_run(&program, argc, argv);
}

const weir_verb weir_verb_sentry = {
	.name = "sentry",
	.summary = "stands in front of an HTTP service and holds its response time",
	.usage = "usage: weir sentry --to URL --p90 TIME [--listen ADDR:PORT] [FLAG...]\n"
		 "       weir sentry -c FILE [FLAG...]\n"
		 "\n"
		 "Passes requests on to a service, as many as it can answer in time, and turns the rest away "
		 "at once, least\n"
		 "important first, with a reason and a time to come back. It finds out by itself how many "
		 "that are.\n"
		 "\n"
		 "  weir sentry --to http://127.0.0.1:9000 --p90 200ms --listen 127.0.0.1:8080\n"
		 "\n" WEIR_CONFIG_FLAGS_USAGE "\n"
		 "SIGHUP reads the configuration again, SIGTERM drains, SIGUSR2 hands over to a new binary, "
		 "SIGUSR1 opens the\n"
		 "logs anew. docs/sentry.md and docs/config.md have the rest.\n",
	.run = run,
};
