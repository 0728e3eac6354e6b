/* SPDX-License-Identifier: Apache-2.0 */
/* `weir nucleus`: watches a server from beside it, and reports to the sentries that ask. */
#include "nucleus/nucleus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cmd/verb.h"
#include "keys/address.h"
#include "nucleus/calibrate.h"

#define STATUS_NS (500 * WEIR_NS_PER_MS)

/* ---- what can be written ---- */

typedef struct arguments {
	/* watching */
	const char *port;
	const char *const *addresses, *const *pids;
	const char *listen, *status;
	uint64_t every_ns;
	double alpha;
	bool once;
	/* calibrating */
	const char *nucleus_url;
	uint32_t requests;
	uint64_t for_ns;
	/* what comes of it */
	weir_nucleus_options run;
	weir_calibrate_options calibrate;
	weir_fetch status_fetch, nucleus_fetch;
	weir_key_arena memory;
} arguments;

#define ROW(key, is, member, ...) WEIR_KEY(key, is, arguments, member, __VA_ARGS__)

static const weir_key watch_keys[] = {
	ROW("port", TEXT, port, NULL, "The server to watch, by its port on any address", .value = "PORT"),
	ROW("address", TEXTS, addresses, NULL,
	    "The server by its address: ADDR:PORT, unix:/PATH. Repeat it for the sockets behind it",
	    .max = WEIR_WATCH_PLACES - 1, .value = "ADDR"),
	ROW("pid", TEXTS, pids, NULL,
	    "Its processes, with their children. Without it: who listens there. It may be repeated",
	    .max = WEIR_TREE_ROOTS, .value = "PID"),
	ROW("listen", TEXT, listen, "127.0.0.1:9100", "Where sentries ask for reports", .value = "ADDR:PORT"),
	ROW("every", TIME, every_ns, "100ms", "The time between two looks", .min = 10e6, .max = 10e9,
	    .value = "TIME"),
	ROW("status", TEXT, status, NULL,
	    "Its status page: Apache's server-status?auto, nginx' stub_status, php-fpm's", .value = "URL"),
	ROW("alpha", NUMBER, alpha, "1", "The part of its I/O time that counts as service time",
	    .min = WEIR_ALPHA_LEAST, .max = WEIR_ALPHA_MOST, .value = "NUMBER"),
	ROW("once", SWITCH, once, NULL, "Looks for a second, prints one report and ends"),
	{0}};

static const weir_key calibrate_keys[] = {
	ROW("nucleus", TEXT, nucleus_url, NULL,
	    "Where its nucleus answers, if its answers have no Server-Timing", .value = "URL"),
	ROW("requests", COUNT, requests, "50", "The requests for each URL, at most", .min = 1, .max = 10000,
	    .value = "COUNT"),
	ROW("for", TIME, for_ns, "5s", "The time for each URL, at most", .min = 1e6, .max = 3600e9,
	    .value = "TIME"),
	{0}};

static const weir_options table = {
	.program = "weir nucleus",
	.about = "usage: weir nucleus --port PORT [--listen ADDR:PORT] [OPTION...]\n"
		 "       weir nucleus calibrate URL... [--nucleus URL] [OPTION...]\n\n"
		 "Watches a server on this machine, whichever it is, without a change to it: how long "
		 "requests\n"
		 "wait in it, how many it works on, and how busy its processors are. Answers GET /nucleus "
		 "with\n"
		 "that as JSON, and GET /orca as ORCA text. The key nucleus of a sentry's backend asks for "
		 "it.\n",
	.groups = (const weir_option_group[]){{NULL, watch_keys},
					      {"calibrate sends requests one after the other, and fits alpha "
					       "in S = cpu + alpha * io:",
					       calibrate_keys},
					      {NULL, NULL}},
};

/* ---- watching ---- */

static int add_place(weir_watch_options *watch, const char *text)
{
	if (text == NULL)
		return 0;
	return weir_nucleus_read_place(text, &watch->place[watch->places++]);
}

static int add_pid(weir_watch_options *watch, const char *text)
{
	uint32_t pid;
	int error = weir_text_count(text, &pid);
	if (error == 0)
		watch->pid[watch->pids++] = (pid_t)pid;
	return error;
}

static int complain(const char *option)
{
	return weir_options_wrong(&table, "--%s: %s", option, weir_error());
}

static int run_watch(arguments *a)
{
	weir_nucleus_options *run = &a->run;
	run->every_ns = a->every_ns;
	run->alpha = a->alpha;
	run->once = a->once;
	run->watch.status_timeout_ns = STATUS_NS;
	if (add_place(&run->watch, a->port) != 0)
		return complain("port");
	for (unsigned i = 0; a->addresses != NULL && a->addresses[i] != NULL; i++)
		if (add_place(&run->watch, a->addresses[i]) != 0)
			return complain("address");
	for (unsigned i = 0; a->pids != NULL && a->pids[i] != NULL; i++)
		if (add_pid(&run->watch, a->pids[i]) != 0)
			return complain("pid");
	if (weir_address_read(a->listen, &run->listen, &run->listen_length) != 0)
		return complain("listen");
	if (a->status != NULL && weir_fetch_init(&a->status_fetch, a->status) != 0)
		return complain("status");
	run->watch.status = a->status != NULL ? &a->status_fetch : NULL;
	if (run->watch.places == 0)
		return weir_options_wrong(&table, "give --port or --address of the server to watch");
	return weir_nucleus_run(run);
}

/* ---- calibrating ---- */

static int run_calibrate(arguments *a)
{
	weir_calibrate_options *calibrate = &a->calibrate;
	calibrate->requests = a->requests;
	calibrate->for_ns = a->for_ns;
	if (a->nucleus_url != NULL && weir_fetch_init(&a->nucleus_fetch, a->nucleus_url) != 0)
		return complain("nucleus");
	calibrate->nucleus = a->nucleus_url != NULL ? &a->nucleus_fetch : NULL;
	if (calibrate->urls == 0)
		return weir_options_wrong(&table, "calibrate: give URLs of the server");
	return weir_calibrate_run(calibrate);
}

/* ---- the command line ---- */

/* Arguments that are no options: URLs, for calibrate. */
static int take_url(arguments *a, bool calibrates, const char *word)
{
	weir_calibrate_options *calibrate = &a->calibrate;
	if (!calibrates || word[0] == '-' || calibrate->urls == WEIR_CALIBRATE_URLS)
		return weir_verb_unexpected(&weir_verb_nucleus, word);
	if (weir_fetch_init(&calibrate->url[calibrate->urls++], word) != 0)
		return weir_options_wrong(&table, "calibrate: %s", weir_error());
	return WEIR_EXIT_OK;
}

static int run_with(arguments *a, int argc, char **argv)
{
	weir_key_memory memory = weir_key_arena_memory(&a->memory);
	bool calibrates = argc > 1 && strcmp(argv[1], "calibrate") == 0;
	int status = weir_options_read(&table, a, &memory, 1, argv, NULL); /* the defaults */
	for (int at = calibrates ? 2 : 1; status == WEIR_EXIT_OK && at < argc;) {
		int used = weir_option_take(&table, a, &memory, argc - at, argv + at);
		if (used == 0)
			status = take_url(a, calibrates, argv[at]);
		at += used > 0 ? used : 1;
		status = used < 0 ? WEIR_EXIT_USAGE : status;
	}
	if (status != WEIR_EXIT_OK)
		return status;
	return calibrates ? run_calibrate(a) : run_watch(a);
}

static int run(int argc, char **argv)
{
	arguments *a = calloc(1, sizeof(*a));
	if (a == NULL) {
		fputs("weir nucleus: out of memory\n", stderr);
		return WEIR_EXIT_FAILED;
	}
	int status = run_with(a, argc, argv);
	weir_key_arena_free(&a->memory);
	free(a);
	return status;
}

const weir_verb weir_verb_nucleus = {
	.name = "nucleus",
	.summary = "watches a server from beside it, for the sentries before it",
	.options = &table,
	.run = run,
};
