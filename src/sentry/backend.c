/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/backend.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "rules/match.h"
#include "sentry/dns.h"
#include "sentry/edits.h"
#include "sentry/nuclei.h"
#include "sentry/origin.h"
#include "sentry/sticky.h"
#include "tls/tls.h"

#define HEALTH_MAX 512 /* bytes of a health path */
#define RULE_BYTES (3 * HEALTH_MAX + sizeof("path "))
#define H          3600e9

/* ---- keys ---- */

#define ROW(key, is, member, ...) WEIR_KEY(key, is, weir_backend_block, member, __VA_ARGS__)
#define LIVE                      .flags = WEIR_KEY_LIVE
#define BETWEEN(a, b)             .min = a, .max = b

static const char *const report_words[] = {"pass", "take", "off", NULL};

static const weir_key keys[] = {
	ROW("server", TEXTS, servers, NULL,
	    "The servers, as http://HOST:PORT or https://HOST:PORT; for HTTP/2 and gRPC, h2c://HOST:PORT or "
	    "(with TLS) h2://HOST:PORT; unix:/PATH for a Unix socket; srv:NAME for the targets of a name",
	    .flags = WEIR_KEY_REQUIRED | WEIR_KEY_LIVE),
	ROW("health", TEXT, health, NULL,
	    "The path for health checks; a healthy server answers with 2xx or 3xx. Requests for it, with any "
	    "query, are exempt, unless it is /. Without it, a server is judged by its answers"),
	ROW("health-interval", TIME, health_interval_ns, "2s", "The time between two health checks",
	    BETWEEN(10e6, H)),
	ROW("health-timeout", TIME, health_timeout_ns, "1s", "A health check that takes longer has failed",
	    BETWEEN(1e6, H)),
	ROW("health-rise", COUNT, health_rise, "2",
	    "The number of successful checks in a row that bring a server back", BETWEEN(1, 1000)),
	ROW("health-fall", COUNT, health_fall, "3", "The number of failed checks in a row that take it out",
	    BETWEEN(1, 1000)),
	ROW("concurrency", COUNT, concurrency, "0",
	    "The number of requests in service at all servers together, each until its answer begins. "
	    "Further ones wait in the queue; 0: as many as connections allows",
	    BETWEEN(0, 1e6), LIVE),
	ROW("connections", COUNT, connections, "1024",
	    "The number of connections to each server; with HTTP/2, the number of requests", BETWEEN(1, 1e6)),
	ROW("streams", COUNT, streams, "100",
	    "The number of requests at once on a connection of HTTP/2, if the server allows as many. Further "
	    "ones "
	    "get another connection",
	    BETWEEN(1, 10000)),
	ROW("idle-connections", COUNT, idle_connections, "64",
	    "The idle connections to each server that each thread keeps", BETWEEN(1, 1e6)),
	ROW("idle-timeout", TIME, idle_timeout_ns, "50s",
	    "The time that an idle connection is kept. It should be less than the server's",
	    BETWEEN(1e6, 24 * H)),
	ROW("connect-timeout", TIME, connect_timeout_ns, "1s", "The time to establish a connection",
	    BETWEEN(1e6, H)),
	ROW("first-byte-timeout", TIME, first_byte_timeout_ns, "1m",
	    "The time until an answer begins. Long polls need more than they may wait", BETWEEN(1e6, 24 * H)),
	ROW("body-timeout", TIME, body_timeout_ns, "1m", "The time between two parts of an answer",
	    BETWEEN(1e6, 24 * H)),
	ROW("stream-timeout", TIME, stream_timeout_ns, "1h",
	    "The same for text/event-stream and gRPC, which are silent while nothing happens",
	    BETWEEN(1e6, 24 * H)),
	ROW("retry-budget", FRACTION, retry_budget, "10%",
	    "Retries of idempotent requests, as a fraction of all requests. Each thread may also retry one "
	    "request per second; 0: none",
	    BETWEEN(0, 1)),
	ROW("slow-start", TIME, slow_start_ns, "10s",
	    "A server that came back, or that a reload adds, gets less than its share for this long",
	    BETWEEN(0, H)),
	ROW("host", TEXT, host, NULL, "The Host field that servers are sent. Without it: the client's"),
	ROW("forwarded", SWITCH, forwarded, "on",
	    "Tells servers who the client is, in X-Forwarded-For, -Proto and -Host. These fields, Forwarded "
	    "and X-Real-IP are dropped where clients send them, except from trusted-proxies; off: they pass "
	    "unchanged"),
	ROW("request-headers", TEXTS, request_edits, NULL,
	    "Changes of a request's fields: 'set NAME: VALUE', 'add NAME: VALUE', 'remove NAME'",
	    BETWEEN(0, WEIR_EDITS_MOST)),
	ROW("answer-headers", TEXTS, answer_edits, NULL, "The same for the fields of answers",
	    BETWEEN(0, WEIR_EDITS_MOST)),
	ROW("request-id", SWITCH, request_id, "off",
	    "Makes X-Request-ID and traceparent where the client sends none, and writes both identifiers "
	    "into "
	    "the access log"),
	ROW("quality", SWITCH, quality, "on",
	    "Adds Weir-Quality, so that the service can degrade before requests are rejected"),
	ROW("pass-on", SWITCH, pass_on, "off",
	    "Adds Weir-Class and Weir-Deadline, for a Weir behind this one (weir-hops of its listener)"),
	ROW("sticky", TEXT, sticky, NULL,
	    "Which requests go to the same server: cookie NAME (those of one client, by a cookie that is set "
	    "here), "
	    "hash client, hash path, hash header NAME, hash cookie NAME"),
	ROW("resolver", TEXT, resolver, NULL,
	    "The name server for the names of servers, as 127.0.0.1:8600. Without it: those of the system"),
	ROW("heed-refusals", SWITCH, heed_refusals, "off",
	    "Once servers answer with 429 or 503, admits no more than they accept. For laws that ignore such "
	    "answers; adaptive-remote does not"),
	ROW("nucleus", TEXTS, nuclei, NULL,
	    "The URL of the nucleus beside each server, such as http://{host}:9100/nucleus, where {host} and "
	    "{port} "
	    "are the server's. Or one URL for each server, in their order"),
	ROW("nucleus-every", TIME, nucleus_every_ns, "500ms",
	    "The time between two reports of a nucleus. A report is believed for three times as long",
	    BETWEEN(100e6, 60e9)),
	ROW("nucleus-token-file", PATH, nucleus_token, NULL,
	    "The first line of this file is a token, which each ask of a nucleus carries as 'Authorization: "
	    "Bearer TOKEN'. Admin listeners that are not on loopback want theirs. A reload reads it again",
	    .flags = WEIR_KEY_TOKEN),
	ROW("reports", CHOICE, reports, "pass",
	    "What is done with Server-Timing and endpoint-load-metrics of answers. pass: read and passed on; "
	    "take: read and taken out of the answer; off: not read",
	    .words = report_words),
	ROW("verify", SWITCH, verify, "on", "Verifies the certificates of https servers"),
	ROW("ca", PATH, ca, NULL, "A PEM file with their authorities. Without it: the system's"),
	{0}};

const weir_key weir_backend_route_keys[] = {WEIR_KEY("backend", TEXT, weir_backend_keys, backend, NULL,
						     "The backend block that gets its requests",
						     .block = "backend"),
					    {0}};

const weir_block weir_backend_blocks[] = {{"backend", "name", "Servers that do the same work.", keys,
					   sizeof(weir_backend_block), .single = false, .live = true},
					  {0}};

/* ---- servers ---- */

static bool is_name(const char *host)
{
	unsigned char address[16];
	return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

unsigned weir_backend_servers(const weir_backend_block *b)
{
	unsigned count = 0;
	while (b->servers != NULL && b->servers[count] != NULL)
		count++;
	return count;
}

bool weir_backend_has(const weir_backend_block *b, const char *name)
{
	weir_origin_url url;
	for (unsigned i = 0; i < weir_backend_servers(b); i++)
		if (weir_origin_read_url(b->servers[i], &url) == 0 && strcmp(url.name, name) == 0)
			return true;
	return false;
}

bool weir_backend_is_h2(const weir_backend_block *b)
{
	weir_origin_url url;
	for (unsigned i = 0; i < weir_backend_servers(b); i++)
		if (weir_origin_read_url(b->servers[i], &url) == 0 && url.h2)
			return true;
	return false;
}

/* ---- nuclei ---- */

static unsigned nucleus_count(const weir_backend_block *b)
{
	unsigned count = 0;
	while (b->nuclei != NULL && b->nuclei[count] != NULL)
		count++;
	return count;
}

int weir_backend_nucleus(const weir_backend_block *b, unsigned server, char ret_url[static WEIR_BACKEND_URL])
{
	unsigned count = nucleus_count(b);
	weir_origin_url at;
	if (count == 0)
		return 0;
	int error = weir_origin_read_url(b->servers[server], &at);
	if (error == 0 && at.service)
		error = weir_error_set(-EINVAL, "the targets of %s have no nuclei; list them as servers",
				       at.name);
	if (error == 0 && at.local && strchr(b->nuclei[count == 1 ? 0 : server], '{') != NULL)
		error = weir_error_set(-EINVAL, "%s has no host and port", at.name);
	if (error == 0)
		error = weir_nuclei_url(b->nuclei[count == 1 ? 0 : server],
					(weir_span){at.name, strlen(at.name)}, ret_url, WEIR_BACKEND_URL);
	return error != 0 ? error : 1;
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
static bool health_rule(const weir_backend_block *b, char *ret_rule, size_t size)
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
static void check_health(weir_config *config, const weir_backend_block *b)
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

static void check_servers(weir_config *config, weir_backend_block *b)
{
	weir_origin_url url;
	unsigned count = weir_backend_servers(b);
	for (unsigned i = 0; i < count; i++) {
		if (weir_origin_read_url(b->servers[i], &url) != 0)
			weir_config_wrong(config, &b->head, "server", "server: %s", weir_error());
		else
			b->named |= !url.local && is_name(url.host);
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

static int check_nucleus(weir_backend_block *b, unsigned server)
{
	char url[WEIR_BACKEND_URL], address[WEIR_BACKEND_URL], path[WEIR_BACKEND_URL];
	weir_origin_url at;
	int error = weir_backend_nucleus(b, server, url);
	if (error < 0)
		return error;
	error = weir_nuclei_split(url, address, sizeof(address), path, sizeof(path));
	if (error == 0)
		error = weir_origin_read_url(address, &at);
	if (error == 0)
		b->named |= is_name(at.host);
	return error;
}

static void check_nuclei(weir_config *config, weir_backend_block *b)
{
	unsigned servers = weir_backend_servers(b), count = nucleus_count(b);
	int error = 0;
	if (count > 1 && count != servers) {
		weir_config_wrong(
			config, &b->head, "nucleus",
			"nucleus: there are %u of them and %u servers; write one for all, with {host}, "
			"or one for each",
			count, servers);
		return;
	}
	weir_config_check_file(config, &b->head, "nucleus-token-file", b->nucleus_token, false);
	if (count == 0 && b->nucleus_token != NULL)
		weir_config_warn(config, &b->head, "nucleus-token-file",
				 "nucleus-token-file: without nucleus nobody is asked");
	for (unsigned i = 0; i < servers && count > 0 && error == 0; i++)
		error = check_nucleus(b, i);
	if (error != 0)
		weir_config_wrong(config, &b->head, "nucleus", "nucleus: %s", weir_error());
	else if (count == 1 && servers > 1 && strchr(b->nuclei[0], '{') == NULL)
		weir_config_warn(config, &b->head, "nucleus",
				 "nucleus: one without {host} tells the same about all %u servers", servers);
}

static void check_edits(weir_config *config, const weir_backend_block *b, const char *key,
			const char *const *texts)
{
	weir_edits *edits;
	if (weir_edits_new(texts, &edits) != 0)
		weir_config_wrong(config, &b->head, key, "%s: %s", key, weir_error());
	else
		weir_edits_free(edits);
}

/* Whether authorities can be read from it, as the start will. A pipe can be read only once. */
static void check_authorities(weir_config *config, const weir_backend_block *b)
{
	struct stat found;
	weir_config_check_file(config, &b->head, "ca", b->ca, false);
	if (b->ca != NULL && stat(b->ca, &found) == 0 && S_ISREG(found.st_mode) && access(b->ca, R_OK) == 0 &&
	    weir_tls_try(b->ca) != 0)
		weir_config_wrong(config, &b->head, "ca", "ca: %s", weir_error());
}

void weir_backend_check(weir_config *config)
{
	weir_backend_block *b;
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++) {
		check_servers(config, b);
		check_health(config, b);
		check_nuclei(config, b);
		check_edits(config, b, "request-headers", b->request_edits);
		check_edits(config, b, "answer-headers", b->answer_edits);
		check_authorities(config, b);
		if (weir_sticky_read(b->sticky, &(weir_sticky){0}) != 0)
			weir_config_wrong(config, &b->head, "sticky", "sticky: %s", weir_error());
		if (b->resolver != NULL && !weir_dns_read_server(b->resolver, &(struct sockaddr_in){0}))
			weir_config_wrong(
				config, &b->head, "resolver",
				"resolver: write an IPv4 address with or without a port, as 127.0.0.1:8600");
	}
}

const weir_backend_block *weir_backend_of(const weir_config *config, const weir_route_view *route)
{
	const weir_backend_keys *values = route->values;
	return weir_config_find(config, "backend", values->backend);
}

void weir_backend_check_route(weir_config *config, const weir_route_view *route)
{
	char rule[RULE_BYTES];
	const weir_backend_block *b = weir_backend_of(config, route);
	unsigned rules = 0;
	while (route->match != NULL && route->match[rules] != NULL)
		rules++;
	if (b != NULL && !route->exempt && rules > WEIR_RULES_MAX - 2 && health_rule(b, rule, sizeof(rule)))
		weir_config_warn(
			config, route->head, "match",
			"match: with more than %d rules there is no room for the rule that exempts health "
			"checks: they are not exempt here",
			WEIR_RULES_MAX - 2);
}

bool weir_backend_exempt(const weir_config *config, const weir_route_view *route, char *ret_rule, size_t size)
{
	return health_rule(weir_backend_of(config, route), ret_rule, size);
}

bool weir_backend_streams(const weir_config *config, const weir_route_view *route)
{
	return weir_backend_is_h2(weir_backend_of(config, route));
}

bool weir_backend_resolves(const weir_config *config)
{
	const weir_backend_block *b;
	bool named = false;
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++)
		named |= b->named;
	return named;
}

static void print_edits(const weir_backend_block *b, const char *of, const char *const *edits, FILE *file)
{
	for (size_t i = 0; edits != NULL && edits[i] != NULL; i++)
		fprintf(file, "  headers  %s, of %s: %s\n", b->head.title, of, edits[i]);
}

void weir_backend_print(const weir_config *config, FILE *file)
{
	const weir_backend_block *b;
	char rule[RULE_BYTES];
	for (unsigned i = 0; (b = weir_config_at(config, "backend", i)) != NULL; i++) {
		fprintf(file, "  backend  %s: ", b->head.title);
		for (unsigned j = 0; j < weir_backend_servers(b); j++)
			fprintf(file, "%s%s", j > 0 ? ", " : "", b->servers[j]);
		if (b->health != NULL)
			fprintf(file, "; health %s", b->health);
		if (b->health != NULL && health_rule(b, rule, sizeof(rule)))
			fprintf(file, "; exempt: %.*s", (int)strcspn(b->health, "?"), b->health);
		if (b->concurrency != 0)
			fprintf(file, "; at most %u requests at once", b->concurrency);
		fputc('\n', file);
		print_edits(b, "requests", b->request_edits, file);
		print_edits(b, "answers", b->answer_edits, file);
	}
}

void weir_backend_print_route(const weir_route_view *route, FILE *file)
{
	const weir_backend_keys *values = route->values;
	fprintf(file, "backend %s", values->backend);
}

/* ---- the flag ---- */

static int check_flag(const char *url)
{
	return weir_origin_read_url(url, &(weir_origin_url){0});
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

const weir_kind_flag weir_backend_flag = {
	.name = "--to",
	.value = "URL",
	.repeated = true,
	.help = "A backend that gets all requests, instead of routes. It may be repeated",
	.check = check_flag,
	.apply = apply_flag,
};
