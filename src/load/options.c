/* SPDX-License-Identifier: Apache-2.0 */
#include "load/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys/usage.h"
#include "load/values.h"

enum {
	RATE = 256,
	POISSON,
	USERS,
	THINK,
	THINK_EXPONENTIAL,
	SESSIONS,
	REQUESTS,
	GEOMETRIC,
	PHASE,
	REPEAT,
	TRACE,
	FASTER,
	TRANSIENT,
	FIND_CAPACITY,
	CAPACITY,
	LOAD,
	METHOD,
	HEADER,
	BODY,
	MIX,
	URLS,
	SIZES,
	SPECWEB,
	MAKE,
	MODEL,
	COOKIES,
	LINKS,
	DURATION,
	WARMUP,
	DRAIN,
	THREADS,
	CONNECTIONS,
	STREAMS,
	PER_CONNECTION,
	NO_KEEPALIVE,
	TIMEOUT,
	PATIENCE,
	RETRY,
	BACKOFF,
	OBEY,
	SOURCE,
	HTTP2,
	INSECURE,
	CA,
	ALLOW_REDIRECTS,
	SEED,
	TARGET,
	JSON,
	CSV,
	PLOT,
	QUIET,
};

static const struct option long_options[] = {
	{"rate", required_argument, NULL, RATE},
	{"poisson", no_argument, NULL, POISSON},
	{"users", required_argument, NULL, USERS},
	{"think", required_argument, NULL, THINK},
	{"think-exponential", no_argument, NULL, THINK_EXPONENTIAL},
	{"sessions", required_argument, NULL, SESSIONS},
	{"requests", required_argument, NULL, REQUESTS},
	{"geometric", no_argument, NULL, GEOMETRIC},
	{"phase", required_argument, NULL, PHASE},
	{"repeat", no_argument, NULL, REPEAT},
	{"trace", required_argument, NULL, TRACE},
	{"faster", required_argument, NULL, FASTER},
	{"transient", required_argument, NULL, TRANSIENT},
	{"find-capacity", no_argument, NULL, FIND_CAPACITY},
	{"capacity", required_argument, NULL, CAPACITY},
	{"load", required_argument, NULL, LOAD},
	{"method", required_argument, NULL, METHOD},
	{"header", required_argument, NULL, HEADER},
	{"body", required_argument, NULL, BODY},
	{"mix", required_argument, NULL, MIX},
	{"urls", required_argument, NULL, URLS},
	{"sizes", required_argument, NULL, SIZES},
	{"specweb", required_argument, NULL, SPECWEB},
	{"make", required_argument, NULL, MAKE},
	{"model", required_argument, NULL, MODEL},
	{"cookies", no_argument, NULL, COOKIES},
	{"links", required_argument, NULL, LINKS},
	{"duration", required_argument, NULL, DURATION},
	{"warmup", required_argument, NULL, WARMUP},
	{"drain", required_argument, NULL, DRAIN},
	{"threads", required_argument, NULL, THREADS},
	{"connections", required_argument, NULL, CONNECTIONS},
	{"streams", required_argument, NULL, STREAMS},
	{"per-connection", required_argument, NULL, PER_CONNECTION},
	{"no-keepalive", no_argument, NULL, NO_KEEPALIVE},
	{"timeout", required_argument, NULL, TIMEOUT},
	{"patience", required_argument, NULL, PATIENCE},
	{"retry", required_argument, NULL, RETRY},
	{"backoff", required_argument, NULL, BACKOFF},
	{"obey-retry-after", no_argument, NULL, OBEY},
	{"source", required_argument, NULL, SOURCE},
	{"http2", no_argument, NULL, HTTP2},
	{"insecure", no_argument, NULL, INSECURE},
	{"ca", required_argument, NULL, CA},
	{"allow-redirects", no_argument, NULL, ALLOW_REDIRECTS},
	{"seed", required_argument, NULL, SEED},
	{"target", required_argument, NULL, TARGET},
	{"json", optional_argument, NULL, JSON},
	{"csv", required_argument, NULL, CSV},
	{"plot", required_argument, NULL, PLOT},
	{"quiet", no_argument, NULL, QUIET},
	{NULL, 0, NULL, 0},
};

/* ---- the options, by topic ---- */

static const char *name_of(int option)
{
	for (const struct option *o = long_options; o->name != NULL; o++)
		if (o->val == option)
			return o->name;
	return "";
}

static int read_arrival(int option, const char *value, load_options *options)
{
	uint32_t count = 0;
	switch (option) {
	case RATE:
		return load_read_rate(name_of(option), value, &options->rate);
	case SESSIONS:
		return load_read_rate(name_of(option), value, &options->sessions);
	case CAPACITY:
		return load_read_rate(name_of(option), value, &options->capacity);
	case FASTER:
		return load_read_rate(name_of(option), value, &options->faster);
	case USERS:
		return load_read_count(name_of(option), value, 1, LOAD_SESSIONS_MAX, &options->users);
	case REQUESTS:
		if (load_read_count(name_of(option), value, 1, UINT32_MAX, &count) != WEIR_EXIT_OK)
			return WEIR_EXIT_USAGE;
		options->habits.requests = count;
		return WEIR_EXIT_OK;
	case PHASE:
		if (options->phases == LOAD_PHASES_MAX)
			return load_wrong("too many --phase", "");
		options->phase[options->phases++] = value;
		return WEIR_EXIT_OK;
	case TRACE:
		options->trace = value;
		return WEIR_EXIT_OK;
	case TRANSIENT:
		options->transient = value;
		return load_transient_find(value) != NULL
			       ? WEIR_EXIT_OK
			       : load_wrong("--transient is one of W1 to W10, not ", value);
	default:
		return load_read_loads(value, options);
	}
}

static int read_work(int option, const char *value, load_options *options)
{
	switch (option) {
	case METHOD:
		options->habits.method = value;
		return WEIR_EXIT_OK;
	case HEADER:
		if (options->habits.field_count == LOAD_HEADERS)
			return load_wrong("too many --header", "");
		options->header[options->habits.field_count++] = value;
		return WEIR_EXIT_OK;
	case BODY:
		return load_read_body(value, options);
	case MIX:
		options->habits.mix = value;
		return WEIR_EXIT_OK;
	case URLS:
		options->urls = value;
		return WEIR_EXIT_OK;
	case SIZES:
		options->sizes = value;
		return WEIR_EXIT_OK;
	case SPECWEB:
		return load_read_count(name_of(option), value, 1, LOAD_SPECWEB_DIRECTORIES,
				       &options->specweb);
	case MAKE:
		options->make = value;
		return WEIR_EXIT_OK;
	case MODEL:
		options->model = value;
		return WEIR_EXIT_OK;
	default:
		return load_read_count(name_of(option), value, 0, 1000, &options->habits.links);
	}
}

static int read_way(int option, const char *value, load_options *options)
{
	load_plan *plan = &options->plan;
	uint32_t seed;
	switch (option) {
	case THREADS:
		return load_read_count(name_of(option), value, 1, LOAD_THREADS_MAX, &plan->threads);
	case CONNECTIONS:
		return load_read_count(name_of(option), value, 1, LOAD_CONNECTIONS_MAX, &plan->connections);
	case STREAMS:
		return load_read_count(name_of(option), value, 1, LOAD_STREAMS_MAX, &plan->streams);
	case PER_CONNECTION:
		return load_read_count(name_of(option), value, 1, UINT32_MAX, &plan->per_connection);
	case RETRY:
		return load_read_count(name_of(option), value, 0, 1000, &plan->retries);
	case SOURCE:
		return load_read_sources(value, options);
	case CA:
		plan->authorities = value;
		return WEIR_EXIT_OK;
	default:
		if (load_read_count(name_of(option), value, 0, UINT32_MAX, &seed) != WEIR_EXIT_OK)
			return WEIR_EXIT_USAGE;
		plan->seed = seed;
		return WEIR_EXIT_OK;
	}
}

static int read_times(int option, const char *value, load_options *options)
{
	load_plan *plan = &options->plan;
	switch (option) {
	case THINK:
		return load_read_time(name_of(option), value, true, &options->habits.think_ns);
	case DURATION:
		return load_read_time(name_of(option), value, false, &plan->duration_ns);
	case WARMUP:
		return load_read_time(name_of(option), value, true, &plan->warmup_ns);
	case DRAIN:
		return load_read_time(name_of(option), value, true, &plan->drain_ns);
	case TIMEOUT:
		return load_read_time(name_of(option), value, false, &plan->timeout_ns);
	case PATIENCE:
		return load_read_time(name_of(option), value, false, &plan->patience_ns);
	case BACKOFF:
		return load_read_time(name_of(option), value, true, &plan->backoff_ns);
	default:
		return load_read_time(name_of(option), value, false, &plan->target_ns);
	}
}

static bool *switch_of(int option, load_options *options)
{
	switch (option) {
	case POISSON:
		return &options->poisson;
	case THINK_EXPONENTIAL:
		return &options->habits.think_exponential;
	case GEOMETRIC:
		return &options->habits.geometric;
	case REPEAT:
		return &options->repeat;
	case FIND_CAPACITY:
		return &options->find_capacity;
	case COOKIES:
		return &options->habits.cookies;
	case OBEY:
		return &options->plan.obey_retry_after;
	case HTTP2:
		return &options->plan.http2;
	case INSECURE:
		return &options->plan.secure_unverified;
	case ALLOW_REDIRECTS:
		return &options->plan.allow_redirects;
	case QUIET:
		return &options->quiet;
	default:
		return NULL;
	}
}

static int read_option(int option, const char *value, load_options *options)
{
	bool *on = switch_of(option, options);
	if (on != NULL) {
		*on = true;
		return WEIR_EXIT_OK;
	}
	switch (option) {
	case RATE:
	case SESSIONS:
	case CAPACITY:
	case FASTER:
	case USERS:
	case REQUESTS:
	case PHASE:
	case TRACE:
	case TRANSIENT:
	case LOAD:
		return read_arrival(option, value, options);
	case METHOD:
	case HEADER:
	case BODY:
	case MIX:
	case URLS:
	case SIZES:
	case SPECWEB:
	case MAKE:
	case MODEL:
	case LINKS:
		return read_work(option, value, options);
	case THINK:
	case DURATION:
	case WARMUP:
	case DRAIN:
	case TIMEOUT:
	case PATIENCE:
	case BACKOFF:
	case TARGET:
		return read_times(option, value, options);
	case NO_KEEPALIVE:
		options->plan.per_connection = 1;
		return WEIR_EXIT_OK;
	case JSON:
		options->json = true;
		options->json_file = value;
		return WEIR_EXIT_OK;
	case CSV:
		options->csv = value;
		return WEIR_EXIT_OK;
	case PLOT:
		options->plot = value;
		return WEIR_EXIT_OK;
	default:
		return read_way(option, value, options);
	}
}

/* ---- all of them ---- */

static bool is_json_file(const char *word)
{
	size_t length = strlen(word);
	return strstr(word, "://") == NULL && length > 5 && strcmp(word + length - 5, ".json") == 0;
}

/* Requests arrive, not users. */
static bool ways_open(const load_options *o)
{
	return o->rate > 0 || o->phases > 0 || o->trace != NULL || o->transient != NULL || o->loads > 0;
}

/* Options that mean nothing without another one: whoever gives them expects an effect. */
static int check_company(const load_options *o, bool closed)
{
	if (o->poisson && (o->users > 0 || closed || o->trace != NULL))
		return load_wrong("--poisson is for open arrivals: give a --rate", "");
	if (o->plan.streams > 1 && !o->plan.http2)
		return load_wrong(
			"--streams is for --http2: over HTTP/1 a connection has one request under way", "");
	if (o->faster > 0 && (o->trace == NULL || o->rate > 0))
		return load_wrong("--faster is for a --trace without a --rate", "");
	if (o->repeat && o->phases == 0)
		return load_wrong("--repeat is for --phase", "");
	if (o->habits.geometric && o->habits.requests == 0 && o->sessions == 0)
		return load_wrong("--geometric is for --requests K, or for --sessions", "");
	if (o->habits.think_exponential && o->habits.think_ns == 0)
		return load_wrong("--think-exponential is for a --think", "");
	if (o->plan.backoff_ns > 0 && o->plan.retries == 0)
		return load_wrong("--backoff is for --retry", "");
	return WEIR_EXIT_OK;
}

static int check_together(const load_options *o)
{
	unsigned ways = (o->users > 0) + (o->rate > 0 && o->trace == NULL) + (o->sessions > 0) +
			(o->phases > 0) + (o->trace != NULL) + (o->transient != NULL) + (o->loads > 0);
	bool open = ways_open(o), wanders = o->model != NULL || o->habits.links > 0;
	unsigned works = (o->urls != NULL) + (o->sizes != NULL) + (o->specweb > 0) + (o->model != NULL) +
			 (o->trace != NULL);
	if (o->make != NULL)
		return (o->sizes != NULL) + (o->specweb > 0) == 1
			       ? WEIR_EXIT_OK
			       : load_wrong("--make is for the files of --specweb or of --sizes", "");
	if (o->url == NULL)
		return load_wrong("name a URL", "");
	if (ways > 1)
		return load_wrong(
			"--users, --rate, --sessions, --phase, --trace, --transient and --load exclude "
			"each other",
			"");
	if (works > 1)
		return load_wrong("--urls, --sizes, --specweb, --model and --trace exclude each other", "");
	if (open && wanders && o->habits.requests == 0)
		return load_wrong("each arrival is one request, and --model and --links are about users who "
				  "make several: give "
				  "--sessions R, users who come a second, or --requests K, of each arrival",
				  "");
	return check_company(o, ways == 0);
}

static void set_usual(load_options *options)
{
	memset(options, 0, sizeof(*options));
	options->plan = (load_plan){.drain_ns = WEIR_NS_PER_S,
				    .timeout_ns = 30 * WEIR_NS_PER_S,
				    .patience_ns = UINT64_MAX,
				    .target_ns = UINT64_MAX,
				    .seed = 1};
}

int load_options_read(int argc, char **argv, load_options *options)
{
	int option;
	opterr = 0;
	optind = 0;
	set_usual(options);
	while ((option = getopt_long(argc, argv, "-:", long_options, NULL)) != -1) {
		if (option == '?')
			return load_wrong("there is no option ", argv[optind - 1]);
		if (option == ':')
			return load_wrong("a value is missing after ", argv[optind - 1]);
		if (option == 1) {
			if (options->url != NULL)
				return weir_usage_unexpected("weir load", load_usage, optarg);
			options->url = optarg;
			continue;
		}
		/* getopt accepts an optional value only after '='. */
		if (option == JSON && optarg == NULL && optind < argc && is_json_file(argv[optind]))
			optarg = argv[optind++];
		int status = read_option(option, optarg, options);
		if (status != WEIR_EXIT_OK)
			return status;
	}
	if (options->url == NULL && optind < argc)
		options->url = argv[optind++];
	if (optind < argc)
		return weir_usage_unexpected("weir load", load_usage, argv[optind]);
	options->habits.fields = options->header;
	options->plan.sources = options->plan.source_count > 0 ? options->source : NULL;
	options->plan.cookies = options->habits.cookies;
	return check_together(options);
}

void load_options_free(load_options *options)
{
	free(options->body);
	options->body = NULL;
}
