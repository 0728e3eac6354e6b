/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind "backend": `route "a" { backend = app }` leads to the servers of `backend "app" { server = ... }`.
 * Routes with the same admission share one sentry, named after the backend, so that one law sees the
 * backend's whole load.
 *
 * Servers, and how many requests they handle at once, can be changed in place. Any other change makes a new
 * sentry.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <weir/service.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/address.h"
#include "rules/match.h"
#include "sentry/sentry.h"

#define SERVERS_MAX 256u
#define HEALTH_MAX  512 /* bytes of a health path */
#define RULE_BYTES  (3 * HEALTH_MAX + sizeof("path "))
#define NAME_BYTES  96
#define QUOTE_BYTES 64
#define H           3600e9

/* ---- what is configured ---- */

typedef struct backend {
	weir_block_head head;
	const char *const *servers;
	const char *health;
	uint64_t health_interval_ns, health_timeout_ns;
	uint32_t health_rise, health_fall;
	uint32_t concurrency;                   /* of all servers together; 0: no bound */
	uint32_t connections, idle_connections; /* to each server */
	uint64_t connect_timeout_ns, first_byte_timeout_ns, body_timeout_ns, idle_timeout_ns;
	double retry_budget;
	uint64_t slow_start_ns;
	const char *host;
	bool forwarded, quality, heed_refusals;
	bool verify;
	const char *ca;
	bool named; /* set by the check: a server has a host name to resolve */
} backend;

typedef struct backend_keys {
	const char *backend;
} backend_keys;

#define ROW(key, is, member, ...) WEIR_KEY(key, is, backend, member, __VA_ARGS__)
#define LIVE                      .flags = WEIR_KEY_LIVE
#define BETWEEN(a, b)             .min = a, .max = b

static const weir_key keys[] = {
	ROW("server", TEXTS, servers, NULL, "http://HOST:PORT or https://HOST:PORT, as many as there are",
	    .flags = WEIR_KEY_REQUIRED | WEIR_KEY_LIVE),
	ROW("health", TEXT, health, NULL,
	    "path that answers with 2xx or 3xx while a server is well; requests for it, with whatever query, "
	    "are exempt, unless it is /; without one, a server is judged by its answers"),
	ROW("health-interval", TIME, health_interval_ns, "2s", "between two such checks", BETWEEN(10e6, H)),
	ROW("health-timeout", TIME, health_timeout_ns, "1s", "an answer that takes longer is none",
	    BETWEEN(1e6, H)),
	ROW("health-rise", COUNT, health_rise, "2", "good answers in a row that bring a server back",
	    BETWEEN(1, 1000)),
	ROW("health-fall", COUNT, health_fall, "3", "bad ones in a row that take it out", BETWEEN(1, 1000)),
	ROW("concurrency", COUNT, concurrency, "0",
	    "requests that all servers together work on at once, each until its answer begins; more wait in "
	    "the queue; 0: as many as connections lets",
	    BETWEEN(0, 1e6), LIVE),
	ROW("connections", COUNT, connections, "1024", "to each server, at once", BETWEEN(1, 1e6)),
	ROW("idle-connections", COUNT, idle_connections, "64",
	    "to each server, kept by each thread for the next request", BETWEEN(1, 1e6)),
	ROW("idle-timeout", TIME, idle_timeout_ns, "50s",
	    "how long one is kept; less than the server keeps it", BETWEEN(1e6, 24 * H)),
	ROW("connect-timeout", TIME, connect_timeout_ns, "1s", "until a connection is made", BETWEEN(1e6, H)),
	ROW("first-byte-timeout", TIME, first_byte_timeout_ns, "30s", "until an answer begins",
	    BETWEEN(1e6, 24 * H)),
	ROW("body-timeout", TIME, body_timeout_ns, "30s", "between two parts of an answer",
	    BETWEEN(1e6, 24 * H)),
	ROW("retry-budget", FRACTION, retry_budget, "10%",
	    "retries of idempotent requests, as a part of all requests; each thread may besides make one a "
	    "second; 0: none",
	    BETWEEN(0, 1)),
	ROW("slow-start", TIME, slow_start_ns, "10s",
	    "how long a server that came back gets less than its share", BETWEEN(0, H)),
	ROW("host", TEXT, host, NULL, "the Host field it is sent; without one, the client's"),
	ROW("forwarded", SWITCH, forwarded, "on", "adds X-Forwarded-For, -Proto and -Host"),
	ROW("quality", SWITCH, quality, "on",
	    "adds Weir-Quality, by which it may degrade before anybody is turned away"),
	ROW("heed-refusals", SWITCH, heed_refusals, "off",
	    "lets in no more than its servers take, once they answer with 429 or 503; for laws that do not "
	    "look at that, which adaptive-remote does"),
	ROW("verify", SWITCH, verify, "on", "checks certificates of https servers"),
	ROW("ca", PATH, ca, NULL, "PEM file with their authorities; without one, the system's"),
	{0}};

static const weir_key keys_of_route[] = {WEIR_KEY("backend", TEXT, backend_keys, backend, NULL,
						  "the backend block that gets its requests",
						  .block = "backend"),
					 {0}};

static const weir_block blocks[] = {{"backend", "name", "Servers that do the same work.", keys,
				     sizeof(backend), .single = false, .live = true},
				    {0}};

/* ---- servers ---- */

/* The part between the scheme and the next slash: a server's name. */
static const char *authority_of(const char *url, size_t *ret_length)
{
	const char *at = strstr(url, "://");
	at = at != NULL ? at + 3 : url;
	*ret_length = strcspn(at, "/");
	return at;
}

static bool is_host(const char *host)
{
	for (const char *at = host; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || strchr("/?#@\"\\<>", *at) != NULL)
			return false;
	return *host != '\0';
}

/* "http://host:port", without a path. ret_host: at least 256 bytes. */
static int read_url(const char *url, char ret_host[256])
{
	char rest[300], quoted[QUOTE_BYTES];
	bool tls = strncmp(url, "https://", 8) == 0;
	uint16_t port = tls ? 443 : 80;
	weir_text_quote(quoted, sizeof(quoted), url);
	if ((!tls && strncmp(url, "http://", 7) != 0) || strlen(url) >= sizeof(rest))
		return weir_error_set(-EINVAL, "'%s': write http://HOST:PORT or https://HOST:PORT", quoted);
	snprintf(rest, sizeof(rest), "%s", url + (tls ? 8 : 7));
	char *slash = strchr(rest, '/');
	if (slash != NULL && slash[1] != '\0')
		return weir_error_set(-EINVAL, "'%s': write it without the path: requests keep theirs",
				      quoted);
	if (slash != NULL)
		*slash = '\0';
	const char *bracket = strrchr(rest, ']');
	if (strchr(bracket != NULL ? bracket : rest, ':') == NULL)
		snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), ":%u", port);
	if (!weir_address_split(rest, ret_host, 256, &port) || !is_host(ret_host) || port == 0)
		return weir_error_set(-EINVAL, "'%s': write http://HOST:PORT or https://HOST:PORT", quoted);
	return 0;
}

static bool is_name(const char *host)
{
	unsigned char address[16];
	return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

static unsigned server_count(const backend *b)
{
	unsigned count = 0;
	while (b->servers != NULL && b->servers[count] != NULL)
		count++;
	return count;
}

/* ---- checking ---- */

static bool is_askable(const char *path)
{
	while ((unsigned char)*path > ' ' && *path != '#' && *path != 0x7f)
		path++;
	return *path == '\0';
}

/* A star in the path is a literal one, not a pattern. */
static size_t put_escaped(char c, char *rule, size_t at, size_t size)
{
	const char *text = c == '*' ? "%2A" : (char[]){c, '\0'};
	for (; *text != '\0' && at + 1 < size; text++)
		rule[at++] = *text;
	rule[at] = '\0';
	return at;
}

/* The rule for the path of its health checks, without the query. False: there is none, or it is "/". */
static bool health_rule(const backend *b, char *ret_rule, size_t size)
{
	size_t length = b->health != NULL ? strcspn(b->health, "?") : 0;
	if (length < 2)
		return false;
	size_t at = (size_t)snprintf(ret_rule, size, "path ");
	for (size_t i = 0; i < length; i++)
		at = put_escaped(b->health[i], ret_rule, at, size);
	return true;
}

/* The path is sent as it is, and is also used as a rule. */
static void check_health(weir_config *config, const backend *b)
{
	const char *path = b->health;
	char rule[RULE_BYTES];
	weir_matcher *matcher = NULL;
	if (path == NULL)
		return;
	if (path[0] != '/')
		weir_config_wrong(config, &b->head, "health",
				  "health: write a path that begins with /, as /healthz");
	else if (strlen(path) > HEALTH_MAX)
		weir_config_wrong(config, &b->head, "health", "health: it has more than %d bytes",
				  HEALTH_MAX);
	else if (!is_askable(path))
		weir_config_wrong(config, &b->head, "health",
				  "health: no space and no '#' can be asked for; write %%20, %%23");
	else if (health_rule(b, rule, sizeof(rule)) &&
		 weir_matcher_new((const char *const[]){rule, NULL}, &matcher) != 0)
		weir_config_wrong(config, &b->head, "health", "health: %s", weir_error());
	weir_matcher_free(matcher);
}

static void check_servers(weir_config *config, backend *b)
{
	char host[256];
	unsigned count = server_count(b);
	for (unsigned i = 0; i < count; i++) {
		if (read_url(b->servers[i], host) != 0)
			weir_config_wrong(config, &b->head, "server", "server: %s", weir_error());
		else
			b->named |= is_name(host);
		for (unsigned j = 0; j < i; j++)
			if (strcmp(b->servers[i], b->servers[j]) == 0)
				weir_config_wrong(config, &b->head, "server", "server: %s is there twice",
						  b->servers[i]);
	}
	if (b->concurrency > (uint64_t)b->connections * count && count != 0)
		weir_config_warn(config, &b->head, "concurrency",
				 "concurrency: %u is more than the connections to all servers together, "
				 "%llu, so it bounds nothing",
				 b->concurrency, (unsigned long long)b->connections * count);
}

static void check(weir_config *config)
{
	backend *b;
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++) {
		check_servers(config, b);
		check_health(config, b);
		weir_config_check_file(config, &b->head, "ca", b->ca, false);
	}
}

/* The row of the key makes sure that there is one. */
static const backend *backend_of(const weir_config *config, const weir_route_view *route)
{
	const backend_keys *values = route->values;
	return weir_config_find(config, "backend", values->backend);
}

static void check_route(weir_config *config, const weir_route_view *route)
{
	char rule[RULE_BYTES];
	const backend *b = backend_of(config, route);
	unsigned rules = 0;
	while (route->match != NULL && route->match[rules] != NULL)
		rules++;
	if (b != NULL && !route->exempt && rules == WEIR_RULES_MAX && health_rule(b, rule, sizeof(rule)))
		weir_config_warn(config, route->head, "match",
				 "match: with %d rules there is room for none more, so health checks are not "
				 "exempt here",
				 WEIR_RULES_MAX);
}

static bool exempt(const weir_config *config, const weir_route_view *route, char *ret_rule, size_t size)
{
	return health_rule(backend_of(config, route), ret_rule, size);
}

static bool resolves(const weir_config *config)
{
	const backend *b;
	bool named = false;
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++)
		named |= b->named;
	return named;
}

static void print(const weir_config *config, FILE *file)
{
	const backend *b;
	char rule[RULE_BYTES];
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++) {
		fprintf(file, "  backend  %s: ", b->head.title);
		for (unsigned j = 0; j < server_count(b); j++)
			fprintf(file, "%s%s", j > 0 ? ", " : "", b->servers[j]);
		if (b->health != NULL)
			fprintf(file, "; health %s", b->health);
		if (b->health != NULL && health_rule(b, rule, sizeof(rule)))
			fprintf(file, "; no law and no quota turns away %.*s", (int)strcspn(b->health, "?"),
				b->health);
		if (b->concurrency != 0)
			fprintf(file, "; at most %u requests at once", b->concurrency);
		fputc('\n', file);
	}
}

static void print_route(const weir_route_view *route, FILE *file)
{
	const backend_keys *values = route->values;
	fprintf(file, "backend %s", values->backend);
}

/* ---- the flag ---- */

static int check_flag(const char *url)
{
	char host[256];
	return read_url(url, host);
}

static void apply_flag(weir_config *config, const char *const *urls, unsigned count)
{
	weir_config_clear(config, "backend");
	weir_block_head *to = weir_config_add(config, "backend", "backend"),
			*route = weir_config_add(config, "route", "backend");
	if (to == NULL || route == NULL)
		return;
	for (unsigned i = 0; i < count; i++)
		weir_config_set(config, to, "server", urls[i]);
	weir_config_set(config, route, "backend", "backend");
}

static const weir_kind_flag flag = {
	.name = "--to",
	.value = "URL",
	.repeated = true,
	.help = "may be repeated: a backend that gets all requests, instead of routes",
	.check = check_flag,
	.apply = apply_flag,
};

/* ---- what all backends share: bounds on the requests at their servers, over all routes ---- */

typedef struct shared_bound {
	struct shared_bound *next;
	char backend[NAME_BYTES];
	weir_bound *bound;
	unsigned users; /* things; 0: free for another backend */
} shared_bound;

static shared_bound *find_bound(shared_bound *at, const char *title)
{
	while (at != NULL &&
	       (title != NULL ? at->users == 0 || strcmp(at->backend, title) != 0 : at->users != 0))
		at = at->next;
	return at;
}

/* A bound that nobody uses any more, or one more. NULL: out of memory. */
static shared_bound *room_for_bound(void **shared)
{
	shared_bound *at = find_bound(*shared, NULL);
	if (at != NULL || (at = weir_mem_zalloc(sizeof(*at))) == NULL)
		return at;
	at->next = *shared;
	*shared = at;
	return at;
}

/* One that is there is left as it is: how much it lets in is changed when the configuration is in force. */
static shared_bound *take_bound(void **shared, const backend *b)
{
	shared_bound *at = find_bound(*shared, b->head.title);
	if (at == NULL && (at = room_for_bound(shared)) != NULL) {
		weir_bound_free(&at->bound);
		if (weir_bound_new(b->concurrency, &at->bound) != 0)
			at = NULL;
		else
			snprintf(at->backend, sizeof(at->backend), "%.95s", b->head.title);
	}
	if (at != NULL)
		at->users++;
	else
		weir_error_set(-ENOMEM, "out of memory");
	return at;
}

static void close_bounds(void *shared)
{
	for (shared_bound *at = shared, *next; at != NULL; at = next) {
		next = at->next;
		weir_bound_free(&at->bound);
		weir_mem_free(at);
	}
}

/* ---- things ---- */

typedef struct thing {
	weir_sentry *sentry;
	shared_bound *bound; /* NULL: none */
} thing;

static const char *shares(const weir_route_view *route)
{
	const backend_keys *values = route->values;
	return values->backend;
}

/* The size of a bound can be changed, but not whether there is one. */
static uint64_t identity(const weir_config *config, const weir_route_view *route)
{
	return backend_of(config, route)->concurrency != 0;
}

static weir_origin_options origin_of(const backend *b, const char *url)
{
	return (weir_origin_options){.url = url,
				     .host = b->host != NULL ? WEIR_HOST_NAMED : WEIR_HOST_CLIENT,
				     .host_name = b->host,
				     .concurrency = b->connections,
				     .ca = b->ca,
				     .unverified = !b->verify,
				     .slow_start_ns = b->slow_start_ns != 0 ? b->slow_start_ns : UINT64_MAX,
				     .rise = b->health_rise,
				     .fall = b->health_fall};
}

static void backend_changed(const weir_origin *origin, bool up, void *errors)
{
	weir_errors_say(errors, up ? WEIR_LOG_INFO : WEIR_LOG_WARN, "health", "backend %s is %s",
			origin->name, up ? "up again" : "down: its health checks fail");
}

static int make_sentry(const weir_making *making, const backend *b, thing *t)
{
	weir_origin_options origins[SERVERS_MAX];
	unsigned count = server_count(b);
	if (count > SERVERS_MAX)
		return weir_error_set(-EINVAL, "backend \"%s\" has more than %u servers", b->head.title,
				      SERVERS_MAX);
	for (unsigned i = 0; i < count; i++)
		origins[i] = origin_of(b, b->servers[i]);
	weir_sentry_options options = {
		.name = making->name,
		.backends = origins,
		.backend_count = count,
		.limits = {.connect_ns = b->connect_timeout_ns,
			   .head_ns = b->first_byte_timeout_ns,
			   .gap_ns = b->body_timeout_ns,
			   .idle_ns = b->idle_timeout_ns,
			   .idle = b->idle_connections},
		.retry = {.share = b->retry_budget > 0 ? b->retry_budget : -1,
			  .floor_per_s = b->retry_budget > 0 ? 0 : -1}, /* negative: none at all */
		.forwarded = b->forwarded ? WEIR_FORWARDED_APPEND : WEIR_FORWARDED_OFF,
		.no_quality = !b->quality,
		.health = {.path = b->health,
			   .interval_ns = b->health_interval_ns,
			   .timeout_ns = b->health_timeout_ns,
			   .changed = backend_changed,
			   .arg = making->errors},
		.errors = making->errors,
		.capacity = making->route.queue,
		.bound = t->bound != NULL ? t->bound->bound : NULL,
		.heed_downstream = b->heed_refusals,
		.law = making->law,
		.law_params = making->law_params,
	};
	return weir_sentry_new(making->domain, &options, &t->sentry);
}

static int start(void *arg)
{
	const thing *t = arg;
	return weir_sentry_start(t->sentry);
}

static void free_thing(void *arg)
{
	thing *t = arg;
	weir_sentry_free(&t->sentry);
	if (t->bound != NULL)
		t->bound->users--;
	weir_mem_free(t);
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	const backend *b = backend_of(making->config, &making->route);
	thing *t = weir_mem_zalloc(sizeof(*t));
	if (t == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	if (b->concurrency != 0)
		t->bound = take_bound(making->shared, b);
	int failed = b->concurrency != 0 && t->bound == NULL ? -ENOMEM : make_sentry(making, b, t);
	if (failed != 0) {
		free_thing(t);
		return failed;
	}
	*ret_thing = t;
	*ret_stage = weir_sentry_stage(t->sentry);
	return 0;
}

/* New servers are added before others are removed, so that there is always one. */
static int prepare(void *arg, const weir_config *config, const weir_route_view *route)
{
	const thing *t = arg;
	const backend *b = backend_of(config, route);
	for (unsigned i = 0; i < server_count(b); i++) {
		weir_origin_options origin = origin_of(b, b->servers[i]);
		int failed = weir_sentry_add(t->sentry, &origin);
		if (failed == -ENOSPC)
			return weir_error_set(
				failed,
				"backend \"%s\": more than %u servers, those included that were "
				"removed and still have requests to finish",
				b->head.title, WEIR_FLEET_MOST);
		if (failed != 0 && failed != -EEXIST)
			return failed;
	}
	return 0;
}

static bool has_server(const backend *b, const char *name)
{
	for (unsigned i = 0; i < server_count(b); i++) {
		size_t length;
		const char *at = authority_of(b->servers[i], &length);
		if (strlen(name) == length && memcmp(at, name, length) == 0)
			return true;
	}
	return false;
}

static void apply(void *arg, const weir_config *config, const weir_route_view *route)
{
	const thing *t = arg;
	const backend *b = backend_of(config, route);
	if (t->bound != NULL)
		weir_bound_set(t->bound->bound, b->concurrency);
	for (uint32_t i = 0; i < weir_sentry_backends(t->sentry); i++) {
		weir_sentry_backend_stats stats;
		if (weir_sentry_read_backend(t->sentry, i, 0, &stats) &&
		    stats.state != WEIR_BACKEND_RETIRED && !has_server(b, stats.name))
			weir_sentry_retire(t->sentry, stats.name);
	}
}

static void retire(void *arg)
{
	const thing *t = arg;
	weir_sentry_rest(t->sentry, true);
}

static bool is_over(void *arg)
{
	const thing *t = arg;
	return weir_sentry_end(t->sentry);
}

/* ---- what is shown ---- */

typedef struct counts {
	weir_proxy_stats proxy;
	uint64_t panics;
} counts;

static void read_counts(const void *arg, void *ret_values)
{
	const thing *t = arg;
	counts *values = ret_values;
	weir_sentry_read_stats(t->sentry, &values->proxy, &values->panics);
}

typedef struct server_counts {
	const char *address, *state;
	uint64_t in_flight, connections, idle, requests, failures, ejections, connects, reused, checks,
		checks_failed, latency_ns;
	double weight;
	char name[WEIR_ORIGIN_NAME]; /* the address */
} server_counts;

#define SERVER(field, is, tells)                                                \
	{                                                                       \
#field, WEIR_METRIC_##is, offsetof(server_counts, field), tells \
	}

static const weir_metric server_metrics[] = {
	SERVER(address, TEXT, "Host and port."),
	SERVER(state, TEXT, "up, slow-start, ejected, down or retired."),
	SERVER(in_flight, GAUGE, "Requests at the server now."),
	SERVER(connections, GAUGE, "Connections open to it."),
	SERVER(requests, COUNTER, "Requests sent to it."),
	SERVER(failures, COUNTER, "Requests that failed there."),
	SERVER(ejections, COUNTER, "Times that it was taken out for its answers."),
	SERVER(latency_ns, TIME, "To the first byte of an answer, lately."),
	SERVER(weight, NUMBER, "Its share of the requests: 1 is all of it, less in a slow start."),
	SERVER(idle, GAUGE, "Connections kept for the next request."),
	SERVER(connects, COUNTER, "Connections that were made."),
	SERVER(reused, COUNTER, "Requests sent on a connection that was kept."),
	SERVER(checks, COUNTER, "Health checks made."),
	SERVER(checks_failed, COUNTER, "Health checks that failed."),
	{0}};

static size_t member_count(const void *arg)
{
	const thing *t = arg;
	return weir_sentry_backends(t->sentry);
}

static bool read_member(const void *arg, size_t at, uint64_t now_ns, void *ret_values)
{
	const thing *t = arg;
	server_counts *values = ret_values;
	weir_sentry_backend_stats stats;
	if (!weir_sentry_read_backend(t->sentry, (uint32_t)at, now_ns, &stats))
		return false;
	*values = (server_counts){.address = values->name,
				  .state = weir_sentry_state_name(stats.state),
				  .in_flight = stats.in_flight,
				  .connections = stats.open,
				  .idle = stats.idle,
				  .requests = stats.calls,
				  .failures = stats.failures,
				  .ejections = stats.ejections,
				  .connects = stats.connects,
				  .reused = stats.reused,
				  .checks = stats.checks,
				  .checks_failed = stats.checks_failed,
				  .latency_ns = stats.latency_ns,
				  .weight = stats.weight};
	memcpy(values->name, stats.name, sizeof(values->name));
	return true;
}

#define COUNT(field, tells)                                                       \
	{                                                                         \
#field, WEIR_METRIC_COUNTER, offsetof(counts, proxy.field), tells \
	}

static const weir_metric metrics[] = {
	COUNT(retries, "Requests that were sent once more, from the budget."),
	COUNT(free_retries, "Requests sent once more since a kept connection had ended."),
	COUNT(retries_refused, "Retries that would have been safe, but the budget was used up."),
	COUNT(bad_gateway, "Requests answered with 502."),
	COUNT(timeouts, "Requests answered with 504."),
	COUNT(full, "Requests turned away since every server was at its bound."),
	COUNT(gone, "Requests whose client left before the answer."),
	COUNT(cut, "Answers that broke off."),
	COUNT(upgrades, "Connections that switched protocols."),
	{"panics", WEIR_METRIC_COUNTER, offsetof(counts, panics),
	 "Requests sent to servers that are out, since all are."},
	{0}};

const weir_kind weir_kind_backend = {
	.name = "backend",
	.keys = keys_of_route,
	.bytes = sizeof(backend_keys),
	.blocks = blocks,
	.flag = &flag,
	.law = "adaptive-remote",
	.check = check,
	.check_route = check_route,
	.print = print,
	.print_route = print_route,
	.exempt = exempt,
	.resolves = resolves,
	.shares = shares,
	.identity = identity,
	.make = make,
	.start = start,
	.prepare = prepare,
	.apply = apply,
	.retire = retire,
	.over = is_over,
	.free = free_thing,
	.close = close_bounds,
	.prefix = "weir_backend_",
	.metrics = metrics,
	.metrics_bytes = sizeof(counts),
	.read = read_counts,
	.members = "backends",
	.member_metrics = server_metrics,
	.member_bytes = sizeof(server_counts),
	.member_count = member_count,
	.read_member = read_member,
};
