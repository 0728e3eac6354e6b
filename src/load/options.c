/* SPDX-License-Identifier: Apache-2.0 */
#include "load/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/bitrate.h"
#include "sim/sections.h"

#define BODY_BYTES_MAX (16u << 20)
#define COUNT_MAX      4294967295.0
#define US             1e3
#define YEAR           (365 * 86400e9)

/* ---- values that only this program knows ---- */

/* "0.5x,1x,2x". */
static int read_multiples(const weir_key *key, const char *text, void *ret_field)
{
	char copy[256], *rest;
	load_multiples loads = {.count = 0};
	if (strlen(text) >= sizeof(copy))
		return weir_error_set(-EINVAL, "too many loads");
	memcpy(copy, text, strlen(text) + 1);
	for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
		size_t length = strlen(part);
		double load;
		if (length > 0 && part[length - 1] == 'x')
			part[length - 1] = '\0';
		if (loads.count == LOAD_LOADS || weir_text_number(part, &load) != 0 || load <= 0 ||
		    load > 1e6) {
			loads.count = 0;
			break;
		}
		loads.at[loads.count++] = load;
	}
	if (loads.count == 0)
		return weir_error_set(-EINVAL,
				      "'%s': write multiples of the capacity as 0.5x,1x,2x, at most %d", text,
				      LOAD_LOADS);
	memcpy(ret_field, &loads, sizeof(loads));
	return 0;
}

static const weir_key_form multiples_form = {"multiples", sizeof(load_multiples), read_multiples};

/* The text itself, or the contents of a file: "@FILE". */
static int read_body(const weir_key *key, const char *text, void *ret_field)
{
	load_body *body = ret_field;
	weir_mem_free(body->file);
	*body = (load_body){text, strlen(text), NULL};
	if (text[0] != '@')
		return 0;
	int failed = weir_sections_file(text + 1, BODY_BYTES_MAX, &body->file, &body->length);
	body->at = body->file;
	return failed;
}

static const weir_key_form body_form = {"text, or @file", sizeof(load_body), read_body};

static int read_sources(const weir_key *key, const char *text, void *ret_field)
{
	load_sources *sources = ret_field;
	int count = load_sources_parse(text, sources->at, LOAD_SOURCES_MAX);
	sources->count = count > 0 ? (unsigned)count : 0;
	return count < 0 ? count : 0;
}

static const weir_key_form sources_form = {"addresses", sizeof(load_sources), read_sources};

/* ---- the options ---- */

#define ROW(key, is, member, written, otherwise, ...) \
	WEIR_KEY(key, is, load_options, member, otherwise, __VA_ARGS__, .value = written)
#define FLAG(key, member, tells) WEIR_KEY(key, SWITCH, load_options, member, NULL, tells)
#define BETWEEN(a, b)            .min = a, .max = b

static const weir_key arrival_keys[] = {
	ROW("rate", NUMBER, rate, "R", NULL, "Open: R requests per second, evenly spaced",
	    BETWEEN(1e-6, LOAD_RATE_MAX)),
	FLAG("poisson", poisson, "Open: requests arrive at random instead, R per second on average"),
	ROW("users", COUNT, users, "N", NULL,
	    "Closed: N users, each with a connection, who wait for their answers",
	    BETWEEN(1, LOAD_SESSIONS_MAX)),
	ROW("c", COUNT, concurrency, "N", NULL,
	    "As in wrk, hey and ab: --users N; with arrivals per second --connections N",
	    BETWEEN(1, LOAD_SESSIONS_MAX)),
	ROW("n", COUNT, plan.total, "N", NULL,
	    "Ends when N requests have been sent and answered. Without -z there is no other end",
	    BETWEEN(1, COUNT_MAX)),
	ROW("think", TIME, habits.think_ns, "T", NULL,
	    "The time between an answer and that user's next request", BETWEEN(0, YEAR)),
	FLAG("think-exponential", habits.think_exponential, "Think times are exponential, with mean T"),
	ROW("sessions", NUMBER, sessions, "R", NULL,
	    "Partly open: R users per second arrive, and each makes several requests",
	    BETWEEN(1e-6, LOAD_RATE_MAX)),
	ROW("requests", COUNT, requests, "K", NULL,
	    "The requests of a session (10 with --sessions). Closed: another user takes over after K "
	    "requests",
	    BETWEEN(1, COUNT_MAX)),
	FLAG("geometric", habits.geometric,
	     "K is the mean: a session ends after each request with probability 1/K"),
	ROW("phase", TEXTS, phase, "T@R", NULL,
	    "Open: R requests per second for the time T; 1.4x is a multiple of the capacity. It may be "
	    "repeated",
	    BETWEEN(1, LOAD_PHASES_MAX)),
	FLAG("repeat", repeat, "The phases begin again until --duration is over"),
	ROW("trace", PATH, trace, "FILE", NULL, "Arrivals, and sizes or paths, from a CSV file"),
	ROW("faster", NUMBER, faster, "X", NULL,
	    "Divides the times of the trace, or with --uplink the lengths of phases, by X; --rate R makes a "
	    "trace R per second",
	    BETWEEN(1e-6, LOAD_RATE_MAX)),
	ROW("transient", TEXT, transient, "W1..W10", NULL,
	    "Low load and overload in turn, in multiples of the capacity"),
	ROW("uplink", FORM, uplink_bits_per_s, "RATE", NULL,
	    "Load in bytes: --transient and --phase are multiples of this rate, as 10mbit. A --trace, or "
	    "--sizes, "
	    "gives the sizes",
	    .form = &weir_bitrate_form),
	ROW("save-trace", PATH, save_trace, "FILE", NULL,
	    "Writes the arrivals of a load in bytes as a trace instead of a run. There is no URL then"),
	FLAG("find-capacity", find_capacity, "Measures first how many answers per second are possible"),
	ROW("capacity", NUMBER, capacity, "R", NULL, "The capacity, if it is known",
	    BETWEEN(1e-6, LOAD_RATE_MAX)),
	ROW("load", FORM, load, "0.5x,1x,2x", NULL, "One run at each of these multiples of the capacity",
	    .form = &multiples_form),
	{0}};

static const weir_key request_keys[] = {
	ROW("method", TEXT, habits.method, "M", NULL,
	    "The method. Without it: POST with a body, otherwise GET"),
	ROW("header", TEXTS, header, "'NAME: V'", NULL, "Adds a header field. It may be repeated",
	    BETWEEN(1, LOAD_HEADERS)),
	ROW("H", TEXTS, header, "'NAME: V'", NULL, "The same as --header", BETWEEN(1, LOAD_HEADERS)),
	ROW("body", FORM, body, "TEXT|@FILE", NULL, "The body of each request", .form = &body_form),
	ROW("mix", TEXT, habits.mix, "MIX", NULL, "Classes of users: 'gold=.2:X-Class: gold;rest=.8'"),
	ROW("urls", PATH, urls, "FILE", NULL,
	    "Paths, one per line, with a weight before a path if it is not 1"),
	ROW("sizes", TEXT, sizes, "SIZES", NULL,
	    "Sizes for the {size} in the URL: 'lognormal 10KB sigma=1.5', '1KB .9, 1MB .1'; with --uplink "
	    "also "
	    "worldcup and nasa"),
	ROW("specweb", COUNT, specweb, "N", NULL, "The static files of SPECweb99, in N folders under the URL",
	    BETWEEN(1, LOAD_SPECWEB_DIRECTORIES)),
	ROW("make", FOLDER, make, "DIR", NULL,
	    "Makes the files of --specweb, --sizes or --trace in a folder instead of a run. There is no URL "
	    "then"),
	ROW("model", PATH, model, "FILE", NULL,
	    "Users who go from page to page; with --users or --sessions, or with --requests for each "
	    "arrival"),
	FLAG("cookies", habits.cookies, "Users keep cookies and send them back"),
	ROW("links", COUNT, habits.links, "N", NULL,
	    "Users follow links found in pages, N in a row; arrivals as with --model", BETWEEN(0, 1000)),
	{0}};

static const weir_key run_keys[] = {
	ROW("duration", TIME, plan.duration_ns, "T", NULL,
	    "The time that is measured. Without it: 10s, or as long as the phases or the trace",
	    BETWEEN(US, YEAR)),
	ROW("z", TIME, plan.duration_ns, "T", NULL, "The same as --duration", BETWEEN(US, YEAR)),
	ROW("warmup", TIME, plan.warmup_ns, "T", "0s", "The time before it, which is not counted",
	    BETWEEN(0, YEAR)),
	ROW("drain", TIME, plan.drain_ns, "T", "1s",
	    "For this long after the end, requests that were due before it are sent and answers awaited",
	    BETWEEN(0, YEAR)),
	ROW("threads", COUNT, plan.threads, "N", NULL, "The number of threads. Without it: one per core",
	    BETWEEN(1, LOAD_THREADS_MAX)),
	ROW("connections", COUNT, plan.connections, "N", NULL,
	    "The most connections at once; a request that finds none waits. Without it: 10000; closed: as "
	    "many as the "
	    "users need",
	    BETWEEN(1, LOAD_CONNECTIONS_MAX)),
	ROW("connecting", COUNT, plan.connecting, "N", "128",
	    "The most connections of a thread that are being made at once; a request that finds none waits",
	    BETWEEN(1, LOAD_CONNECTIONS_MAX)),
	ROW("streams", COUNT, plan.streams, "N", "1",
	    "HTTP/2: the requests in flight on a connection, as far as the server allows it",
	    BETWEEN(1, LOAD_STREAMS_MAX)),
	ROW("per-connection", COUNT, plan.per_connection, "K", NULL, "Closes a connection after K requests",
	    BETWEEN(1, COUNT_MAX)),
	FLAG("no-keepalive", no_keepalive, "Closes a connection after each request"),
	ROW("timeout", TIME, plan.timeout_ns, "T", "30s", "Gives up on an answer after T", BETWEEN(US, YEAR)),
	ROW("patience", TIME, plan.patience_ns, "T", NULL,
	    "Users leave after T: the connection (HTTP/2: the stream) is cut, and the request counts as "
	    "aborted",
	    BETWEEN(US, YEAR)),
	ROW("retry", COUNT, plan.retries, "K", NULL,
	    "Retries a request that failed, was shed or was left up to K times", BETWEEN(0, 1000)),
	ROW("backoff", TIME, plan.backoff_ns, "T", "0s",
	    "The wait before the first retry; it doubles each time, with jitter. 0s retries at once",
	    BETWEEN(0, YEAR)),
	FLAG("obey-retry-after", plan.obey_retry_after,
	     "A user who was shed waits as long as the answer said"),
	ROW("source", FORM, source, "A[-B][,...]", NULL, "Addresses of this machine to connect from, in turn",
	    .form = &sources_form),
	FLAG("http2", plan.http2, "Speaks HTTP/2, negotiated by TLS or by prior knowledge"),
	FLAG("insecure", plan.secure_unverified, "https: does not verify the certificate"),
	ROW("ca", PATH, plan.authorities, "FILE", NULL,
	    "https: verifies the certificate against these authorities"),
	FLAG("allow-redirects", plan.allow_redirects,
	     "A redirect counts as an answer. Otherwise the first one ends the run"),
	ROW("seed", COUNT, plan.seed, "N", "1", "The seed of everything random", BETWEEN(0, COUNT_MAX)),
	{0}};

static const weir_key output_keys[] = {
	ROW("target", TIME, plan.target_ns, "T", NULL, "Answers within T are good", BETWEEN(US, YEAR)),
	ROW("json", PATH, json, "[FILE.json]", NULL,
	    "Writes the results as JSON, on standard output or to a file"),
	ROW("csv", PATH, csv, "FILE", NULL,
	    "Writes one row per second; with --load, of all runs, with a column 'load'"),
	ROW("each", PATH, each, "FILE", NULL,
	    "Writes one row per request: its number, when it was due, its first and last byte, and its end"),
	ROW("plot", PATH, plot, "FILE", NULL, "Writes an SVG; with --load, of all runs, one after the other"),
	FLAG("quiet", quiet, "Prints nothing while it runs"),
	FLAG("keys", keys, "Explains the sections and keys of models, and does nothing else"),
	FLAG("markdown", markdown, "Prints all options and keys as the documentation has them"),
	{0}};

static const weir_option_group groups[] = {{"Arrivals", arrival_keys},
					   {"Requests", request_keys},
					   {"The run", run_keys},
					   {"Output", output_keys},
					   {NULL, NULL}};

const weir_options load_options_table = {
	.program = "weir load",
	.about = "usage: weir load [OPTION...] URL\n\n"
		 "Sends requests to a service of yours and measures what becomes of them. Times count from "
		 "when a\n"
		 "request was meant to be sent; a request that could not be sent in time counts as late. "
		 "Without\n"
		 "--rate, --sessions, --phase, --trace, --transient or --load it is a closed loop of 64 "
		 "users.\n",
	.groups = groups,
	.more = "Ctrl-C ends a run, or the search for the capacity, early. What was measured is written, and "
		"the exit\n"
		"status is 130.\n",
};

/* ---- what they are together ---- */

#define WRONG(...) weir_options_wrong(&load_options_table, __VA_ARGS__)

/* Requests arrive, not users. */
static bool ways_open(const load_options *o)
{
	return o->rate > 0 || o->phases > 0 || o->trace != NULL || o->transient != NULL || o->load.count > 0;
}

/* Options that mean nothing without another one: whoever gives them expects an effect. */
static int check_company(const load_options *o, bool closed)
{
	if (o->poisson && (o->users > 0 || closed || (o->trace != NULL && o->uplink_bits_per_s == 0)))
		return WRONG("--poisson is for open arrivals: give a --rate");
	if (o->plan.streams > 1 && !o->plan.http2)
		return WRONG("--streams is for --http2: over HTTP/1 a connection has one request under way");
	if (o->faster > 0 && o->uplink_bits_per_s == 0 && (o->trace == NULL || o->rate > 0))
		return WRONG("--faster is for a --trace without a --rate, or for --uplink");
	if (o->each != NULL && o->load.count > 1)
		return WRONG("--each is for one run, and --load makes several");
	if (o->save_trace != NULL && o->uplink_bits_per_s == 0)
		return WRONG("--save-trace is for --uplink");
	if (o->repeat && o->phases == 0)
		return WRONG("--repeat is for --phase");
	if (o->habits.geometric && o->requests == 0 && o->sessions == 0)
		return WRONG("--geometric is for --requests K, or for --sessions");
	if (o->habits.think_exponential && o->habits.think_ns == 0)
		return WRONG("--think-exponential is for a --think");
	if (o->concurrency > 0 && o->users > 0)
		return WRONG("-c is the same as --users: give one of them");
	if (o->plan.backoff_ns > 0 && o->plan.retries == 0)
		return WRONG("--backoff is for --retry");
	return WEIR_EXIT_OK;
}

/* A load in bytes: phases of multiples of a link, and sizes from somewhere. */
static int check_uplink(const load_options *o)
{
	if ((o->transient != NULL) == (o->phases > 0))
		return WRONG("--uplink is for either --transient or --phase, in multiples of the uplink");
	for (unsigned i = 0; i < o->phases; i++)
		if (!load_phase_is_multiple(o->phase[i]))
			return WRONG("--phase '%s': with --uplink a load is a multiple of it, as 10s@1.2x",
				     o->phase[i]);
	if (o->users > 0 || o->rate > 0 || o->sessions > 0 || o->load.count > 0)
		return WRONG("--uplink says what the load is: --users, --rate, --sessions and --load say it "
			     "again");
	if (o->capacity > 0 || o->find_capacity)
		return WRONG("--uplink is the capacity: --capacity and --find-capacity are for requests");
	if (o->urls != NULL || o->specweb > 0 || o->model != NULL || o->habits.links > 0 || o->requests > 0)
		return WRONG("--uplink needs sizes: give a --trace or --sizes, and one request an arrival");
	return WEIR_EXIT_OK;
}

static int check_together(const load_options *o)
{
	bool in_bytes = o->uplink_bits_per_s > 0;
	bool closed = o->concurrency > 0 && !ways_open(o) && o->sessions == 0;
	unsigned ways = (o->users > 0 || closed) + (o->rate > 0 && o->trace == NULL) + (o->sessions > 0) +
			(o->phases > 0) + (o->trace != NULL && !in_bytes) + (o->transient != NULL) +
			(o->load.count > 0);
	bool open = ways_open(o), wanders = o->model != NULL || o->habits.links > 0;
	unsigned works = (o->urls != NULL) + (o->sizes != NULL) + (o->specweb > 0) + (o->model != NULL) +
			 (o->trace != NULL);
	if (o->make != NULL)
		return works == 1 && o->urls == NULL && o->model == NULL && !in_bytes
			       ? WEIR_EXIT_OK
			       : WRONG("--make is for the files of --specweb, of --sizes or of a --trace");
	if (o->url == NULL && o->save_trace == NULL)
		return WRONG("name a URL");
	if (o->transient != NULL && load_transient_find(o->transient) == NULL)
		return WRONG("--transient is one of W1 to W10, not '%s'", o->transient);
	if (in_bytes && check_uplink(o) != WEIR_EXIT_OK)
		return WEIR_EXIT_USAGE;
	if (ways > 1)
		return WRONG("--users, --rate, --sessions, --phase, --trace, --transient and --load exclude "
			     "each other; with --uplink a trace gives the sizes of --transient or --phase");
	if (works > 1)
		return WRONG("--urls, --sizes, --specweb, --model and --trace exclude each other");
	if (open && wanders && o->requests == 0)
		return WRONG("each arrival is one request, and --model and --links are about users who "
			     "make several: give "
			     "--sessions R, users who come a second, or --requests K, of each arrival");
	return check_company(o, ways == 0);
}

/* Derives what follows from single options. */
static void complete(load_options *o)
{
	load_plan *plan = &o->plan;
	o->phases = (unsigned)weir_key_list_length(o->phase);
	o->habits.requests = o->requests;
	o->habits.fields = o->header;
	o->habits.field_count = (unsigned)weir_key_list_length(o->header);
	o->habits.body = o->body.at;
	o->habits.body_length = o->body.length;
	plan->sources = o->source.count > 0 ? o->source.at : NULL;
	plan->source_count = o->source.count;
	plan->cookies = o->habits.cookies;
	if (o->concurrency > 0 && (ways_open(o) || o->sessions > 0) && plan->connections == 0)
		plan->connections = o->concurrency;
	if (o->no_keepalive)
		plan->per_connection = 1;
	if (plan->patience_ns == 0)
		plan->patience_ns = UINT64_MAX;
	if (plan->target_ns == 0)
		plan->target_ns = UINT64_MAX;
}

int load_options_read(int argc, char **argv, load_options *options)
{
	memset(options, 0, sizeof(*options));
	weir_key_memory memory = weir_key_arena_memory(&options->memory);
	int status = weir_options_read(&load_options_table, options, &memory, argc, argv, &options->url);
	if (status == WEIR_EXIT_OK && options->memory.failed)
		status = WRONG("out of memory");
	if (status != WEIR_EXIT_OK || options->keys || options->markdown)
		return status;
	complete(options);
	return check_together(options);
}

void load_options_free(load_options *options)
{
	weir_mem_free(options->body.file);
	options->body.file = NULL;
	weir_key_arena_free(&options->memory);
}
