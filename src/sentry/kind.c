/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind "backend": `route "a" { backend = app }` leads to the servers of `backend "app" { server = ... }`.
 * Routes with the same admission share one sentry, named after the backend, so that one law sees the
 * backend's whole load.
 *
 * Servers, and how many requests they handle at once, can be changed in place. Any other change makes a new
 * sentry.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sentry/backend.h"
#include "sentry/sentry.h"

#define NAME_BYTES 96

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
static shared_bound *take_bound(void **shared, const weir_backend_block *b)
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
	const weir_backend_keys *values = route->values;
	return values->backend;
}

/* The size of a bound can be changed, but not whether there is one; servers, but not how they are spoken to. */
static uint64_t identity(const weir_config *config, const weir_route_view *route)
{
	const weir_backend_block *b = weir_backend_of(config, route);
	return (b->concurrency != 0) | (uint64_t)weir_backend_is_h2(b) << 1;
}

typedef char nucleus_url[WEIR_BACKEND_URL];

/* nucleus: where the URL of its nucleus is made, if it has one. */
static weir_origin_options origin_of(const weir_backend_block *b, unsigned server, nucleus_url nucleus)
{
	return (weir_origin_options){.url = b->servers[server],
				     .nucleus =
					     weir_backend_nucleus(b, server, nucleus) == 1 ? nucleus : NULL,
				     .host = b->host != NULL ? WEIR_HOST_NAMED : WEIR_HOST_CLIENT,
				     .host_name = b->host,
				     .concurrency = b->connections,
				     .ca = b->ca,
				     .unverified = !b->verify,
				     .resolver = b->resolver,
				     .slow_start_ns = b->slow_start_ns != 0 ? b->slow_start_ns : UINT64_MAX,
				     .rise = b->health_rise,
				     .fall = b->health_fall};
}

static void backend_changed(const weir_origin *origin, bool up, void *errors)
{
	weir_errors_say(errors, up ? WEIR_LOG_INFO : WEIR_LOG_WARN, "health", "backend %s is %s",
			origin->at.name, up ? "up again" : "down: its health checks fail");
}

static int make_sentry(const weir_making *making, const weir_backend_block *b, thing *t)
{
	weir_origin_options origins[WEIR_BACKEND_SERVERS];
	nucleus_url nuclei[WEIR_BACKEND_SERVERS];
	unsigned count = weir_backend_servers(b);
	if (count > WEIR_BACKEND_SERVERS)
		return weir_error_set(-EINVAL, "backend \"%s\" has more than %u servers", b->head.title,
				      WEIR_BACKEND_SERVERS);
	for (unsigned i = 0; i < count; i++)
		origins[i] = origin_of(b, i, nuclei[i]);
	weir_sentry_options options = {
		.name = making->name,
		.backends = origins,
		.backend_count = count,
		.limits = {.connect_ns = b->connect_timeout_ns,
			   .head_ns = b->first_byte_timeout_ns,
			   .gap_ns = b->body_timeout_ns,
			   .stream_ns = b->stream_timeout_ns,
			   .idle_ns = b->idle_timeout_ns,
			   .idle = b->idle_connections,
			   .streams = b->streams},
		.retry = {.share = b->retry_budget > 0 ? b->retry_budget : -1,
			  .floor_per_s = b->retry_budget > 0 ? 0 : -1}, /* negative: none at all */
		.forwarded = b->forwarded ? WEIR_FORWARDED_APPEND : WEIR_FORWARDED_OFF,
		.request_id = b->request_id,
		.request_edits = b->request_edits,
		.answer_edits = b->answer_edits,
		.no_quality = !b->quality,
		.pass_on = b->pass_on,
		.sticky = b->sticky,
		.health = {.path = b->health,
			   .interval_ns = b->health_interval_ns,
			   .timeout_ns = b->health_timeout_ns,
			   .changed = backend_changed,
			   .arg = making->errors},
		.reports = (weir_reports)b->reports,
		.nucleus_every_ns = b->nucleus_every_ns,
		.nucleus_token = b->nucleus_token,
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
	const weir_backend_block *b = weir_backend_of(making->config, &making->route);
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
	const weir_backend_block *b = weir_backend_of(config, route);
	for (unsigned i = 0; i < weir_backend_servers(b); i++) {
		nucleus_url nucleus;
		weir_origin_options origin = origin_of(b, i, nucleus);
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

static void apply(void *arg, const weir_config *config, const weir_route_view *route)
{
	const thing *t = arg;
	const weir_backend_block *b = weir_backend_of(config, route);
	weir_sentry_renew_token(t->sentry);
	if (t->bound != NULL)
		weir_bound_set(t->bound->bound, b->concurrency);
	for (uint32_t i = 0; i < weir_sentry_backends(t->sentry); i++) {
		weir_sentry_backend_stats stats;
		if (weir_sentry_read_backend(t->sentry, i, 0, &stats) &&
		    stats.state != WEIR_BACKEND_RETIRED && stats.configured &&
		    !weir_backend_has(b, stats.name))
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

static void note_shed(weir_request *request, void *arg)
{
	const thing *t = arg;
	weir_sentry_note_shed(t->sentry, request);
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
	uint64_t up, answers_2xx, answers_3xx, answers_4xx, answers_5xx;
	double weight;
	double told_queue, told_in_service, told_busy;
	uint64_t reports, reports_refused, reports_missed;
	char name[WEIR_ORIGIN_NAME]; /* the address */
} server_counts;

#define SERVER(field, is, tells)                                                \
	{                                                                       \
#field, WEIR_METRIC_##is, offsetof(server_counts, field), tells \
	}

static const weir_metric server_metrics[] = {
	SERVER(address, TEXT, "Host and port."),
	SERVER(state, TEXT, "up, slow-start, failing, ejected, down or retired."),
	SERVER(up, GAUGE, "1 while it gets requests; 0: down, ejected or retired."),
	SERVER(in_flight, GAUGE, "Requests at the server now."),
	SERVER(connections, GAUGE, "Connections open to it."),
	SERVER(requests, COUNTER, "Requests sent to it."),
	SERVER(failures, COUNTER, "Requests that failed there."),
	SERVER(answers_2xx, COUNTER, "Its answers with a status from 200 to 299."),
	SERVER(answers_3xx, COUNTER, "Its answers with a status from 300 to 399."),
	SERVER(answers_4xx, COUNTER, "Its answers with a status from 400 to 499."),
	SERVER(answers_5xx, COUNTER, "Its answers with a status from 500 to 599."),
	SERVER(ejections, COUNTER, "Times that it was taken out for its answers."),
	SERVER(latency_ns, TIME, "To the first byte of an answer, lately."),
	SERVER(weight, NUMBER, "Its share of the requests: 1 is all of it, less in a slow start."),
	SERVER(idle, GAUGE, "Connections kept for the next request."),
	SERVER(connects, COUNTER, "Connections that were made."),
	SERVER(reused, COUNTER, "Requests sent on a connection that was kept."),
	SERVER(checks, COUNTER, "Health checks made."),
	SERVER(checks_failed, COUNTER, "Health checks that failed."),
	SERVER(told_queue, NUMBER,
	       "Seconds that requests wait in it, as it reports; -1: it reports nothing."),
	SERVER(told_in_service, NUMBER, "Requests that it works on, as it reports; -1: it reports nothing."),
	SERVER(told_busy, NUMBER, "Part of its processors in use, as it reports; -1: it reports nothing."),
	SERVER(reports, COUNTER, "Reports about it that were read, of its nucleus or in answers."),
	SERVER(reports_refused, COUNTER, "Reports of its nucleus that cannot be true."),
	SERVER(reports_missed, COUNTER, "Times that its nucleus did not answer."),
	{0}};

_Static_assert(sizeof(server_counts) <= WEIR_SHOWN_BYTES, "it is shown");

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
	if (!weir_sentry_read_backend(t->sentry, (uint32_t)at, now_ns, &stats) || stats.service)
		return false;
	*values = (server_counts){.address = values->name,
				  .state = weir_sentry_state_name(stats.state),
				  .in_flight = stats.in_flight,
				  .connections = stats.open,
				  .idle = stats.idle,
				  .requests = stats.calls,
				  .up = stats.state <= WEIR_BACKEND_FAILING,
				  .answers_2xx = stats.answers[0],
				  .answers_3xx = stats.answers[1],
				  .answers_4xx = stats.answers[2],
				  .answers_5xx = stats.answers[3],
				  .failures = stats.failures,
				  .ejections = stats.ejections,
				  .connects = stats.connects,
				  .reused = stats.reused,
				  .checks = stats.checks,
				  .checks_failed = stats.checks_failed,
				  .latency_ns = stats.latency_ns,
				  .weight = stats.weight,
				  .told_queue = stats.queue_s,
				  .told_in_service = stats.in_service,
				  .told_busy = stats.busy,
				  .reports = stats.reports,
				  .reports_refused = stats.reports_refused,
				  .reports_missed = stats.reports_missed};
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
	COUNT(refused, "Requests answered with 503, since a server of HTTP/2 refused the stream."),
	COUNT(grpc_refused, "Answers with grpc-status UNAVAILABLE or RESOURCE_EXHAUSTED."),
	COUNT(full, "Requests turned away since every server was at its bound."),
	COUNT(gone, "Requests whose client left before the answer."),
	COUNT(cut, "Answers that broke off."),
	COUNT(stalled_cut, "Answers that were cut to make room, since their clients did not read."),
	COUNT(upgrades, "Connections that switched protocols."),
	COUNT(answer_reports, "Answers with Server-Timing or endpoint-load-metrics that were read."),
	COUNT(answer_reports_refused, "Answers with a value there that cannot be true."),
	{"panics", WEIR_METRIC_COUNTER, offsetof(counts, panics),
	 "Requests sent to servers that are out, since all are."},
	{0}};

const weir_kind weir_kind_backend = {
	.name = "backend",
	.keys = weir_backend_route_keys,
	.bytes = sizeof(weir_backend_keys),
	.blocks = weir_backend_blocks,
	.flag = &weir_backend_flag,
	.law = "adaptive-remote",
	.value_law = "value",
	.check = weir_backend_check,
	.check_route = weir_backend_check_route,
	.print = weir_backend_print,
	.print_route = weir_backend_print_route,
	.exempt = weir_backend_exempt,
	.streams = weir_backend_streams,
	.resolves = weir_backend_resolves,
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
	.note_shed = note_shed,
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
