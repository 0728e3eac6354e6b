/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers: created, given listeners and routes, drained, freed. Orders go to the loops as posts; whoever
 * gives an order waits until all loops have carried it out.
 */
#include "http/server.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <weir/inspect.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/acceptor.h"
#include "stage/friends.h"
#include "tls/tls.h"

#define HANDSHAKES_WAITING 1024

/* ---- options ---- */

static void fill32(uint32_t *value, uint32_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void fill64(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void fill_limits(weir_http_limits *limits)
{
	fill32(&limits->line_bytes, 8 * 1024);
	fill32(&limits->head_bytes, 32 * 1024);
	fill32(&limits->fields, 100);
	fill64(&limits->body_bytes, UINT64_C(1) << 30);
	fill64(&limits->first_byte_ns, 10 * WEIR_NS_PER_S);
	fill64(&limits->head_ns, 10 * WEIR_NS_PER_S);
	fill64(&limits->body_gap_ns, 30 * WEIR_NS_PER_S);
	fill32(&limits->body_bytes_per_s, 100);
	fill64(&limits->idle_ns, 60 * WEIR_NS_PER_S);
	fill64(&limits->drain_idle_ns, WEIR_NS_PER_S);
	fill64(&limits->half_closed_ns, 50 * WEIR_NS_PER_MS);
	fill64(&limits->half_closed_gap_ns, WEIR_NS_PER_S);
	fill64(&limits->handshake_ns, 10 * WEIR_NS_PER_S);
	fill32(&limits->output_bytes, 256 * 1024);
	fill64(&limits->output_ns, 30 * WEIR_NS_PER_S);
	fill32(&limits->streams, 128);
	fill64(&limits->hammering_delay_ns, 250 * WEIR_NS_PER_MS);
	fill64(&limits->gather_bytes, UINT64_C(64) << 20);
	fill32(&limits->requests_at_once, 65536);
	if (limits->client_share <= 0)
		limits->client_share = .25;
}

static int check_limits(const weir_http_limits *limits)
{
	if (limits->head_bytes < limits->line_bytes)
		return weir_error_set(-EINVAL,
				      "http: heads of %u bytes have no room for request lines of %u bytes",
				      limits->head_bytes, limits->line_bytes);
	if (limits->head_bytes > 1024 * 1024 || limits->fields > 10000)
		return weir_error_set(-EINVAL, "http: at most 1 MB and 10000 fields make a head");
	if (limits->output_bytes < 1024 || limits->output_bytes > 1024 * 1024 * 1024)
		return weir_error_set(-EINVAL, "http: from 1 KB to 1 GB of an answer may wait to be sent");
	return 0;
}

static int check(const weir_http_options *options)
{
	if (options == NULL || options->domain == NULL || options->routes == NULL)
		return weir_error_set(-EINVAL, "http: a domain and routes are needed");
	if (!weir_domain_is_reactor(options->domain))
		return weir_error_set(-EINVAL, "http: domain '%s' has no loops: a reactor domain is needed",
				      weir_domain_name(options->domain));
	const char *server = options->server != NULL ? options->server : "";
	for (; *server != '\0'; server++)
		if (*server < ' ' || *server > '~')
			return weir_error_set(-EINVAL, "http: the server's name is printable ASCII");
	return 0;
}

/* ---- making ---- */

void weir_http_init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

int weir_http_new(const weir_http_options *options, weir_http **ret_http)
{
	int error = check(options);
	if (error != 0)
		return error;
	weir_http_limits limits = options->limits;
	fill_limits(&limits);
	error = check_limits(&limits);
	if (error != 0)
		return error;
	weir_http *http = weir_mem_zalloc(sizeof(*http));
	char *server = weir_mem_strdup(options->server != NULL ? options->server : "weir");
	if (http == NULL || server == NULL)
		error = weir_error_set(-ENOMEM, "http: out of memory");
	else if (!options->no_costs)
		error = weir_http_make_costs(http);
	if (error == 0 && http != NULL && (http->sums = weir_share_sums_new()) == NULL)
		error = weir_error_set(-ENOMEM, "http: out of memory");
	if (error == 0)
		error = weir_hammer_new(&limits, &http->hammering);
	if (http == NULL || error != 0) {
		if (http != NULL) {
			weir_costs_free(http->costs);
			weir_share_sums_unref(http->sums);
		}
		weir_mem_free(server);
		weir_mem_free(http);
		return error;
	}
	http->domain = options->domain;
	http->routes = weir_routes_ref(options->routes);
	http->limits = limits;
	http->server = server;
	http->log = options->log;
	http->log_arg = options->log_arg;
	weir_http_set_logging(http, options->log == NULL      ? WEIR_HTTP_LOG_NOTHING
				    : options->log_sheds_only ? WEIR_HTTP_LOG_SHEDS
							      : WEIR_HTTP_LOG_ALL);
	http->no_shed_details = options->no_shed_details;
	http->tell_timing = options->tell_timing;
	http->tell_load = options->tell_load;
	weir_self_init(&http->self);
	pthread_mutex_init(&http->lock, NULL);
	weir_http_init_condition(&http->change);
	*ret_http = http;
	return 0;
}

/* ---- orders to the loops ---- */

void weir_http_carried_out(weir_http *http)
{
	pthread_mutex_lock(&http->lock);
	http->done++;
	pthread_cond_broadcast(&http->change);
	pthread_mutex_unlock(&http->lock);
}

static bool loop_is_over(weir_http_loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	bool over = loop->over;
	pthread_mutex_unlock(&loop->lock);
	return over;
}

/*
 * Runs the post on each loop, or here if the loop has ended, and waits. One order at a time, from threads
 * that are not reactors.
 */
static void order(weir_http *http, weir_post *(*post_of)(weir_http_loop *loop))
{
	unsigned count = http->loop_count;
	http->done = 0;
	for (unsigned i = 0; i < count; i++) {
		weir_post *post = post_of(http->loops[i]);
		if (loop_is_over(http->loops[i]))
			post->run(post, post->arg);
		else
			weir_loop_post(http->loops[i]->loop, post);
	}
	pthread_mutex_lock(&http->lock);
	while (http->done < count)
		pthread_cond_wait(&http->change, &http->lock);
	pthread_mutex_unlock(&http->lock);
}

static weir_post *start_of(weir_http_loop *loop)
{
	return &loop->start_post;
}

static weir_post *drain_of(weir_http_loop *loop)
{
	return &loop->drain_post;
}

static weir_post *limits_of(weir_http_loop *loop)
{
	return &loop->limits_post;
}

static weir_post *leave_of(weir_http_loop *loop)
{
	return &loop->leave_post;
}

static void drain_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	loop->draining = true;
	weir_hammer_end(loop);
	for (weir_http_conn *conn = loop->conns; conn != NULL; conn = conn->next)
		conn->protocol->drain(conn);
	weir_http_carried_out(loop->http);
}

static void limits_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	weir_http_loop_limit(loop);
	weir_http_carried_out(loop->http);
}

void weir_http_set_limits(weir_http *http, const weir_http_limits *limits)
{
	weir_http_limits filled = *limits;
	fill_limits(&filled);
#define TAKE(name) http->limits.name = filled.name
	TAKE(body_bytes);
	TAKE(body_bytes_per_s);
	TAKE(gather_bytes);
	TAKE(requests);
	TAKE(handshake_ns);
	TAKE(first_byte_ns);
	TAKE(head_ns);
	TAKE(body_gap_ns);
	TAKE(idle_ns);
	TAKE(hammering_delay_ns);
	TAKE(requests_at_once);
	TAKE(client_share);
#undef TAKE
	order(http, limits_of);
}

static void leave_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	weir_http *http = loop->http;
	weir_http_loop_leave(loop);
	weir_http_carried_out(http);
}

void weir_http_set_transmit(weir_http *http, struct weir_transmit *transmit)
{
	pthread_mutex_lock(&http->lock);
	http->transmit = transmit;
	for (unsigned i = 0; i < http->loop_count; i++)
		atomic_store_explicit(&http->loops[i]->transmit, transmit, memory_order_release);
	pthread_mutex_unlock(&http->lock);
}

/* ---- loops and listeners ---- */

static int add_loops(weir_http *http)
{
	weir_loop *base;
	if (http->loop_count > 0)
		return 0;
	for (unsigned i = 0; i < WEIR_THREADS_MAX && (base = weir_domain_loop(http->domain, i)) != NULL;
	     i++) {
		weir_http_loop *loop = weir_http_loop_new(http, base, (uint16_t)i);
		if (loop == NULL)
			break;
		loop->drain_post = (weir_post){.run = drain_posted, .arg = loop};
		loop->leave_post = (weir_post){.run = leave_posted, .arg = loop};
		loop->limits_post = (weir_post){.run = limits_posted, .arg = loop};
		http->loops[i] = loop;
		http->loop_count++;
	}
	if (http->loop_count == 0)
		return weir_error_set(-EINVAL, "http: the world of domain '%s' has not started",
				      weir_domain_name(http->domain));
	order(http, start_of);
	if (weir_domain_loop(http->domain, http->loop_count) == NULL)
		return 0;
	order(http, leave_of);
	http->loop_count = 0;
	return weir_error_set(-ENOMEM, "http: out of memory");
}

/* All servers of a domain share one stage, which lives as long as the world. */
static int find_handshakes(weir_http *http)
{
	weir_world *world = weir_domain_world(http->domain);
	weir_visit visit = weir_visit_begin(world);
	uint32_t count = weir_world_stage_count(world);
	for (uint32_t i = 0; i < count && http->handshakes == NULL; i++) {
		weir_stage *stage = weir_world_stage_at(world, i);
		if (stage != NULL && weir_stage_domain(stage) == http->domain &&
		    strcmp(weir_stage_name(stage), "handshake") == 0)
			http->handshakes = stage;
	}
	weir_visit_end(&visit);
	if (http->handshakes != NULL)
		return 0;
	return weir_tls_stage_new(http->domain, HANDSHAKES_WAITING, &http->handshakes);
}

static int start_listening(weir_http *http, const weir_http_listen *listen, weir_http_listener *listener)
{
	weir_listen_options options = {
		.address = listen->address,
		.address_length = listen->address_length,
		.file = listen->file,
		.fds = listen->fds,
		.fd_count = listen->fd_count,
		.owns_path = listen->owns_path,
		.backlog = listen->backlog,
		.max_connections = listen->max_connections,
		.ops = &weir_http_conn_ops,
		.limits = {.output_bytes = http->loops[0]->link_bytes, .output_ns = http->limits.output_ns},
		.arg = listener,
		.starved = weir_http_starved};
	return weir_listen(http->domain, &options, &listener->listener);
}

/* The process may have fewer descriptors than the listener may have connections. */
static uint32_t connections_most(uint32_t configured)
{
	struct rlimit descriptors;
	uint32_t most = configured != 0 ? configured : WEIR_LISTENER_CONNECTIONS;
	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur < most)
		most = (uint32_t)descriptors.rlim_cur;
	return most;
}

static unsigned free_number(const weir_http *http)
{
	unsigned number = 0;
	while (number < WEIR_HTTP_LISTENERS_MAX && http->listeners[number] != NULL)
		number++;
	return number;
}

int weir_http_add_listener(weir_http *http, const weir_http_listen *listen, unsigned *ret_number)
{
	if (weir_loop_self() != NULL)
		return weir_error_set(-EINVAL, "http: listeners are not added by reactor threads");
	unsigned number = free_number(http);
	if (number == WEIR_HTTP_LISTENERS_MAX)
		return weir_error_set(-ENOSPC, "http: a server has at most %d listeners",
				      WEIR_HTTP_LISTENERS_MAX);
	weir_http_reap_listeners(http);
	int error = add_loops(http);
	if (error != 0)
		return error;
	weir_http_listener *listener = weir_mem_zalloc(sizeof(*listener));
	if (listener == NULL)
		return weir_error_set(-ENOMEM, "http: out of memory");
	*listener = (weir_http_listener){.http = http,
					 .http2 = listen->http2,
					 .proxy = listen->proxy,
					 .hops = listen->hops,
					 .crowded = listen->crowded};
	listener->connections_most = connections_most(listen->max_connections);
	if (listen->trusted != NULL)
		error = weir_matcher_from(listen->trusted, &listener->trusted);
	if (error == 0 && listen->tls != NULL) {
		listener->tls = weir_tls_ref(listen->tls);
		error = find_handshakes(http);
	}
	if (error == 0)
		error = start_listening(http, listen, listener);
	if (error != 0) {
		weir_tls_unref(listener->tls);
		weir_matcher_free(listener->trusted);
		weir_mem_free(listener);
		return error;
	}
	if (ret_number != NULL)
		*ret_number = number;
	http->listeners[number] = listener;
	return 0;
}

int weir_http_address(const weir_http *http, unsigned number, char *ret_text, size_t size,
		      struct sockaddr_storage *ret_address)
{
	const weir_http_listener *at = weir_http_listener_at(http, number);
	if (at == NULL)
		return weir_error_set(-EINVAL, "http: there is no listener %u", number);
	return weir_listener_address(at->listener, ret_text, size, ret_address);
}

/* ---- routes ---- */

static void give_table(weir_http_loop *loop, weir_table *table)
{
	weir_table *before = atomic_exchange(&loop->next_table, table);
	if (before != NULL)
		weir_table_free(before); /* never used; the pending post brings the new one */
	else
		weir_loop_post(loop->loop, &loop->table_post);
}

int weir_http_set_routes(weir_http *http, weir_routes *routes)
{
	weir_table *tables[WEIR_THREADS_MAX] = {NULL};
	int error = 0;
	pthread_mutex_lock(&http->lock);
	for (unsigned i = 0; error == 0 && i < http->loop_count; i++)
		if ((tables[i] = weir_table_new(routes)) == NULL)
			error = weir_error_set(-ENOMEM, "http: out of memory");
	for (unsigned i = 0; i < http->loop_count && tables[i] != NULL; i++) {
		if (error == 0)
			give_table(http->loops[i], tables[i]);
		else
			weir_table_free(tables[i]);
	}
	if (error == 0) {
		weir_routes *old = http->routes;
		http->routes = weir_routes_ref(routes);
		weir_routes_unref(old);
	}
	pthread_mutex_unlock(&http->lock);
	return error;
}

/* ---- looking ---- */

static void add_stats(weir_http_stats *stats, const weir_http_counts *counts)
{
#define ADD(name) stats->name += atomic_load_explicit(&counts->name, memory_order_relaxed)
	ADD(connections);
	ADD(requests);
	ADD(malformed);
	ADD(rejected);
	ADD(timeouts);
	ADD(gone);
	ADD(handshakes);
	ADD(handshakes_failed);
	ADD(h2_connections);
	ADD(upgrades);
	ADD(share_refused);
	ADD(accept_failures);
	ADD(tls_failures);
	ADD(open);
	ADD(tls_open);
	ADD(busy);
#undef ADD
}

void weir_http_read_stats(const weir_http *http, weir_http_stats *ret_stats)
{
	*ret_stats = (weir_http_stats){0};
	for (unsigned i = 0; i < http->loop_count; i++)
		add_stats(ret_stats, &http->loops[i]->counts);
}

void weir_http_read_statuses(const weir_http *http, uint64_t ret_counts[WEIR_HTTP_STATUSES])
{
	for (unsigned status = 0; status < WEIR_HTTP_STATUSES; status++) {
		ret_counts[status] = 0;
		for (unsigned i = 0; i < http->loop_count; i++)
			ret_counts[status] += atomic_load_explicit(&http->loops[i]->counts.by_status[status],
								   memory_order_relaxed);
	}
}

uint32_t weir_http_open(const weir_http *http)
{
	weir_http_stats stats;
	weir_http_read_stats(http, &stats);
	return stats.open;
}

/* ---- ending ---- */

void weir_http_drain(weir_http *http)
{
	if (http->draining)
		return;
	http->draining = true;
	for (unsigned i = 0; i < WEIR_HTTP_LISTENERS_MAX; i++)
		if (http->listeners[i] != NULL)
			weir_listener_close(http->listeners[i]->listener);
	order(http, drain_of);
}

static void free_listeners(weir_http *http)
{
	for (unsigned i = 0; i < WEIR_HTTP_LISTENERS_MAX; i++)
		if (http->listeners[i] != NULL)
			weir_http_listener_free(http->listeners[i]);
	while (http->closed != NULL) {
		weir_http_listener *listener = http->closed;
		http->closed = listener->next;
		weir_http_listener_free(listener);
	}
}

void weir_http_free(weir_http **where)
{
	weir_http *http = *where;
	if (http == NULL)
		return;
	*where = NULL;
	free_listeners(http);
	order(http, leave_of);
	weir_routes_unref(http->routes);
	weir_costs_free(http->costs);
	weir_quota_free(http->hammering);
	weir_share_sums_unref(http->sums);
	weir_self_fini(&http->self);
	pthread_cond_destroy(&http->change);
	pthread_mutex_destroy(&http->lock);
	weir_mem_free(http->server);
	weir_mem_free(http);
}
