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

#define DEFAULT_LISTEN   "127.0.0.1:9100"
#define EVERY_LEAST_NS   (10 * WEIR_NS_PER_MS)
#define EVERY_MOST_NS    (10 * WEIR_NS_PER_S)
#define STATUS_NS        (500 * WEIR_NS_PER_MS)
#define REQUESTS_MOST    10000u
#define REQUESTS_DEFAULT 50u
#define FOR_NS           (5 * WEIR_NS_PER_S)

typedef struct arguments {
	weir_nucleus_options run;
	weir_calibrate_options calibrate;
	weir_fetch status, nucleus;
} arguments;

static int complain(const char *flag)
{
	fprintf(stderr, "weir nucleus: %s: %s; see 'weir nucleus --help'\n", flag, weir_error());
	return WEIR_EXIT_USAGE;
}

/* The value of a flag, as "--flag value" or "--flag=value"; NULL: this is another argument. */
static const char *value_of(const char *flag, int argc, char **argv, int *at)
{
	size_t length = strlen(flag);
	const char *word = argv[*at];
	if (word == NULL || strncmp(word, flag, length) != 0)
		return NULL;
	if (word[length] == '=')
		return word + length + 1;
	if (word[length] != '\0')
		return NULL;
	return *at + 1 < argc && argv[*at + 1] != NULL ? argv[++*at] : "";
}

/* ---- watching ---- */

static int add_place(weir_watch_options *watch, const char *text)
{
	if (watch->places == WEIR_WATCH_PLACES)
		return weir_error_set(-1, "at most %u can be watched", WEIR_WATCH_PLACES);
	return weir_nucleus_read_place(text, &watch->place[watch->places++]);
}

static int add_pid(weir_watch_options *watch, const char *text)
{
	uint32_t pid;
	if (watch->pids == WEIR_TREE_ROOTS)
		return weir_error_set(-1, "at most %u can be given", WEIR_TREE_ROOTS);
	int error = weir_text_count(text, &pid);
	if (error == 0)
		watch->pid[watch->pids++] = (pid_t)pid;
	return error;
}

static int read_every(const char *text, uint64_t *ret_ns)
{
	uint64_t ns;
	int error = weir_text_time(text, &ns);
	if (error == 0 && (ns < EVERY_LEAST_NS || ns > EVERY_MOST_NS))
		error = weir_error_set(-1, "10ms to 10s are possible");
	if (error == 0)
		*ret_ns = ns;
	return error;
}

static int read_alpha(const char *text, double *ret_alpha)
{
	double alpha;
	int error = weir_text_number(text, &alpha);
	if (error == 0 && !(alpha >= WEIR_ALPHA_LEAST && alpha <= WEIR_ALPHA_MOST))
		error = weir_error_set(-1, "0 to 10 are possible");
	if (error == 0)
		*ret_alpha = alpha;
	return error;
}

static int set_watched(arguments *a, const char *flag, const char *value)
{
	weir_nucleus_options *run = &a->run;
	if (strcmp(flag, "--address") == 0 || strcmp(flag, "--port") == 0)
		return add_place(&run->watch, value);
	if (strcmp(flag, "--listen") == 0)
		return weir_address_read(value, &run->listen, &run->listen_length);
	if (strcmp(flag, "--pid") == 0)
		return add_pid(&run->watch, value);
	if (strcmp(flag, "--every") == 0)
		return read_every(value, &run->every_ns);
	if (strcmp(flag, "--alpha") == 0)
		return read_alpha(value, &run->alpha);
	run->watch.status = &a->status;
	return weir_fetch_init(&a->status, value);
}

static int run_watch(arguments *a, int argc, char **argv)
{
	static const char *const flags[] = {"--address", "--port",  "--listen", "--pid",
					    "--every",   "--alpha", "--status"};
	for (int at = 1; at < argc; at++) {
		const char *value = NULL, *word = argv[at];
		size_t i = 0;
		for (; i < sizeof(flags) / sizeof(flags[0]) && value == NULL; i++)
			value = value_of(flags[i], argc, argv, &at);
		if (value != NULL && set_watched(a, flags[i - 1], value) != 0)
			return complain(flags[i - 1]);
		if (value == NULL && strcmp(word, "--once") == 0)
			a->run.once = true;
		else if (value == NULL)
			return weir_verb_unexpected(&weir_verb_nucleus, word);
	}
	if (a->run.watch.places == 0) {
		fputs("weir nucleus: give --port or --address of the server to watch; see 'weir nucleus "
		      "--help'\n",
		      stderr);
		return WEIR_EXIT_USAGE;
	}
	return weir_nucleus_run(&a->run);
}

/* ---- calibrating ---- */

static int set_calibration(arguments *a, const char *flag, const char *value)
{
	weir_calibrate_options *calibrate = &a->calibrate;
	if (strcmp(flag, "--nucleus") == 0) {
		calibrate->nucleus = &a->nucleus;
		return weir_fetch_init(&a->nucleus, value);
	}
	if (strcmp(flag, "--for") == 0)
		return weir_text_time(value, &calibrate->for_ns);
	int error = weir_text_count(value, &calibrate->requests);
	if (error == 0 && (calibrate->requests == 0 || calibrate->requests > REQUESTS_MOST))
		error = weir_error_set(-1, "1 to %u are possible", REQUESTS_MOST);
	return error;
}

static int run_calibrate(arguments *a, int argc, char **argv)
{
	static const char *const flags[] = {"--nucleus", "--for", "--requests"};
	weir_calibrate_options *calibrate = &a->calibrate;
	for (int at = 2; at < argc; at++) {
		const char *value = NULL, *word = argv[at];
		size_t i = 0;
		for (; i < sizeof(flags) / sizeof(flags[0]) && value == NULL; i++)
			value = value_of(flags[i], argc, argv, &at);
		if (value != NULL && set_calibration(a, flags[i - 1], value) != 0)
			return complain(flags[i - 1]);
		if (value != NULL)
			continue;
		if (word[0] == '-' || calibrate->urls == WEIR_CALIBRATE_URLS)
			return weir_verb_unexpected(&weir_verb_nucleus, word);
		if (weir_fetch_init(&calibrate->url[calibrate->urls++], word) != 0)
			return complain("calibrate");
	}
	if (calibrate->urls == 0) {
		fputs("weir nucleus: calibrate: give URLs of the server; see 'weir nucleus --help'\n",
		      stderr);
		return WEIR_EXIT_USAGE;
	}
	return weir_calibrate_run(calibrate);
}

static int run(int argc, char **argv)
{
	arguments *a = calloc(1, sizeof(*a));
	if (a == NULL) {
		fputs("weir nucleus: out of memory\n", stderr);
		return WEIR_EXIT_FAILED;
	}
	a->run.every_ns = 100 * WEIR_NS_PER_MS;
	a->run.alpha = 1;
	a->run.watch.status_timeout_ns = STATUS_NS;
	a->calibrate.requests = REQUESTS_DEFAULT;
	a->calibrate.for_ns = FOR_NS;
	weir_address_read(DEFAULT_LISTEN, &a->run.listen, &a->run.listen_length);
	int status = argc > 1 && strcmp(argv[1], "calibrate") == 0 ? run_calibrate(a, argc, argv)
								   : run_watch(a, argc, argv);
	free(a);
	return status;
}

const weir_verb weir_verb_nucleus = {
	.name = "nucleus",
	.summary = "watches a server from beside it, for the sentries before it",
	.usage = "usage: weir nucleus --port PORT [--listen ADDR:PORT] [OPTIONS]\n"
		 "       weir nucleus calibrate URL... [--nucleus URL] [OPTIONS]\n"
		 "\n"
		 "Watches a server on this machine, whichever it is, without a change to it: how long "
		 "requests "
		 "wait\n"
		 "in it, how many it works on, and how busy its processors are. Answers GET /nucleus with "
		 "that as\n"
		 "JSON, and GET /orca as ORCA text. The key `nucleus` of a sentry's backend asks for it.\n"
		 "\n"
		 "  --port PORT         the server to watch, by its port on any address\n"
		 "  --address ADDR      or by its address: ADDR:PORT, unix:/PATH; may be repeated: the "
		 "sockets "
		 "behind it, too\n"
		 "  --pid PID           its processes, with their children; may be repeated; without, who "
		 "listens "
		 "there\n"
		 "  --listen ADDR:PORT  where reports are asked for; " DEFAULT_LISTEN "\n"
		 "  --every TIME        between two looks; 100ms\n"
		 "  --status URL        its status page: Apache's server-status?auto, nginx' stub_status, "
		 "php-fpm's\n"
		 "  --alpha NUMBER      part of its I/O time that counts as service time; 1\n"
		 "  --once              looks for a second, prints one report and ends\n"
		 "\n"
		 "calibrate sends requests one after the other, and fits alpha in S = cpu + alpha * io:\n"
		 "  --nucleus URL       where its nucleus answers, if its answers have no Server-Timing\n"
		 "  --requests COUNT    for each URL, at most; 50\n"
		 "  --for TIME          for each URL, at most; 5s\n",
	.run = run,
};
