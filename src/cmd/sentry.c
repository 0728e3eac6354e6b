/* SPDX-License-Identifier: Apache-2.0 */
/* `weir sentry`: stands in front of an HTTP service. */
#include "cmd/verb.h"
#include "service/daemon.h"

static const char *missing(const weir_config *config)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (weir_config_kind(config, &config->route[i]) == &weir_kind_backend)
			return NULL;
	return "it has no backend: name one with --to URL, or a route with a backend in a configuration";
}

static const weir_program program = {
	.name = "weir sentry",
	.usage = "weir sentry --to URL --p90 TIME [--listen ADDR:PORT] [FLAG...]\n"
		 "       weir sentry -c FILE [FLAG...]\n",
	.summary = "Passes as many requests on to a service as it can answer in time, and rejects the rest "
		   "at once, least\n"
		   "important first, with a reason and a time to come back. It finds out by itself how many "
		   "the service\n"
		   "can answer.",
	.examples = "  weir sentry --to http://127.0.0.1:9000 --p90 200ms --listen 127.0.0.1:8080\n",
	.more = "docs/sentry.md and docs/config.md",
	.kinds = weir_kinds,
	.missing = missing,
};

/* argv[0] is the verb, and the program is before it. */
static int run(int argc, char **argv)
{
	return weir_daemon_run(&program, argv - 1, argc, argv);
}

const weir_verb weir_verb_sentry = {
	.name = "sentry",
	.summary = "stands in front of an HTTP service and holds its response time",
	.program = &program,
	.run = run,
};
