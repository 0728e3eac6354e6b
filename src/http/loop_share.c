/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's connections and requests share on one loop. server.h says what may outlive what. */
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/mix.h"
#include "http/ferry.h"
#include "http/server.h"
#include "net/net.h"

/* In addition to the bound of answers: heads, and the protocol's own bytes. */
#define LINK_EXTRA 65536u

/* ---- the date ---- */

void weir_http_set_date(weir_http_loop *loop, uint64_t now_ns)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	char *at = loop->lines + loop->server_length;
	memcpy(at, "Date: ", 6);
	weir_date_print(at + 6, now.tv_sec);
	memcpy(at + 35, "\r\n", 2);
	loop->lines_length = loop->server_length + 37;
	loop->date_until_ns = now_ns + WEIR_NS_PER_S - (uint64_t)now.tv_nsec;
}

/* ---- answers from other threads ---- */

typedef struct arrivals {
	weir_request *request;
	weir_ferry *ferry;
} arrivals;

static arrivals take_arrived_locked(weir_http_loop *loop)
{
	arrivals all = {loop->arrived, loop->ferries};
	loop->arrived = NULL;
	loop->arrived_end = &loop->arrived;
	loop->ferries = NULL;
	loop->ferries_end = &loop->ferries;
	return all;
}

/* Orders first: an answer given after an order may free the request that the order is about. */
static void arrive_all(arrivals all)
{
	while (all.ferry != NULL) {
		weir_ferry *next = all.ferry->next;
		weir_ferry_arrive(all.ferry);
		all.ferry = next;
	}
	while (all.request != NULL) {
		weir_request *next = all.request->next;
		weir_request_arrive(all.request);
		all.request = next;
	}
}

static void arrive_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	pthread_mutex_lock(&loop->lock);
	loop->arriving = false;
	arrivals all = take_arrived_locked(loop);
	pthread_mutex_unlock(&loop->lock);
	arrive_all(all);
}

/* Under the lock: otherwise home could handle the arrivals, and free the share, before the post. */
void weir_http_loop_announce_locked(weir_http_loop *loop)
{
	if (loop->arriving)
		return;
	loop->arriving = true;
	weir_loop_post(loop->loop, &loop->arrive_post);
}

/* ---- memory that is kept ---- */

static void slim_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	pthread_mutex_lock(&loop->lock);
	loop->slimming = false;
	pthread_mutex_unlock(&loop->lock);
	weir_request_slim(loop);
	weir_net_slim(loop->loop);
}

/* All that was posted by the last weir_http_slim has run. */
static bool all_slimmed(weir_http *http)
{
	bool all = true;
	for (unsigned i = 0; i < http->loop_count && all; i++) {
		weir_http_loop *loop = http->loops[i];
		pthread_mutex_lock(&loop->lock);
		all = loop->over || !loop->slimming;
		pthread_mutex_unlock(&loop->lock);
	}
	return all;
}

void weir_http_slim(weir_http *http)
{
	if (all_slimmed(http))
		weir_http_free_old_tls(http);
	for (unsigned i = 0; i < http->loop_count; i++) {
		weir_http_loop *loop = http->loops[i];
		pthread_mutex_lock(&loop->lock);
		if (!loop->over && !loop->slimming) {
			loop->slimming = true;
			weir_loop_post(loop->loop, &loop->slim_post);
		}
		pthread_mutex_unlock(&loop->lock);
	}
}

/* ---- the end of the loop ---- */

static void strand_all(weir_http_loop *loop)
{
	for (weir_http_conn *conn = loop->conns; conn != NULL; conn = conn->next)
		conn->protocol->strand(conn);
}

/* Takes arrived answers, then tells all requests that their client has gone. Later answers: server.h. */
static void loop_ends(weir_ending *ending)
{
	weir_http_loop *loop = (weir_http_loop *)(void *)((char *)ending - offsetof(weir_http_loop, ending));
	/* Keeps the share alive, since the last request may be freed here. */
	weir_http_loop_ref(loop);
	pthread_mutex_lock(&loop->lock);
	arrivals before = take_arrived_locked(loop);
	pthread_mutex_unlock(&loop->lock);
	arrive_all(before);
	weir_hammer_end(loop);
	strand_all(loop);
	pthread_mutex_lock(&loop->lock);
	arrivals late = take_arrived_locked(loop);
	bool arriving = loop->arriving, slimming = loop->slimming;
	loop->over = true;
	pthread_mutex_unlock(&loop->lock);
	/* Nobody posts from here on. A post that is left would run when the share may be freed. */
	if (arriving)
		weir_loop_unpost(loop->loop, &loop->arrive_post);
	if (slimming)
		weir_loop_unpost(loop->loop, &loop->slim_post);
	arrive_all(late);
	weir_http_loop_unref(loop);
}

/* ---- creating and freeing ---- */

static void table_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	weir_table *table = atomic_exchange(&loop->next_table, NULL);
	if (table == NULL)
		return;
	weir_table *old = loop->table;
	loop->table = table;
	weir_table_drop(old);
	/* The cached heads refer to the old table by address, which a new table may reuse. */
	memset(loop->shed_heads, 0, sizeof(loop->shed_heads));
}

static void set_server(weir_http_loop *loop, const char *name)
{
	if (name[0] == '\0')
		return;
	size_t length = strnlen(name, WEIR_HTTP_SERVER_MOST - 10);
	memcpy(loop->lines, "Server: ", 8);
	memcpy(loop->lines + 8, name, length);
	memcpy(loop->lines + 8 + length, "\r\n", 2);
	loop->server_length = length + 10;
}

static void set_limits(weir_http_loop *loop, const weir_http_limits *limits)
{
	size_t bytes = sizeof(weir_request) + limits->fields * sizeof(weir_head_field) + WEIR_REQUEST_ARENA;
	loop->limits = *limits;
	loop->head_limits = (weir_head_limits){
		.line_bytes = limits->line_bytes, .head_bytes = limits->head_bytes, .fields = limits->fields};
	loop->request_bytes = (bytes + 63) & ~(size_t)63;
	loop->gather_most = (size_t)(limits->gather_bytes / weir_domain_threads(loop->http->domain));
	loop->link_bytes = limits->output_bytes +
			   (limits->output_bytes < LINK_EXTRA ? limits->output_bytes : LINK_EXTRA);
}

void weir_http_loop_limit(weir_http_loop *loop)
{
	loop->limits = loop->http->limits;
	loop->gather_most = (size_t)(loop->limits.gather_bytes / weir_domain_threads(loop->http->domain));
	weir_shares_limit(&loop->shares, &loop->limits);
}

static void start_posted(weir_post *post, void *arg)
{
	weir_http_loop *loop = arg;
	weir_loop_add_ending(loop->loop, &loop->ending);
	weir_http_carried_out(loop->http);
}

weir_http_loop *weir_http_loop_new(weir_http *http, weir_loop *base, uint16_t index)
{
	weir_http_loop *loop = weir_mem_aligned(64, (sizeof(*loop) + 63) & ~(size_t)63);
	weir_table *table = weir_table_new(http->routes);
	if (loop == NULL || table == NULL) {
		if (table != NULL)
			weir_table_free(table);
		weir_mem_free(loop);
		return NULL;
	}
	loop->loop = base;
	loop->index = index;
	loop->world = weir_domain_world(http->domain);
	loop->http = http;
	loop->table = table;
	loop->costs = http->costs != NULL ? weir_costs_ref(http->costs) : NULL;
	loop->draining = http->draining;
	loop->no_shed_details = http->no_shed_details;
	loop->tell_timing = http->tell_timing;
	loop->tell_load = http->tell_load;
	loop->tells = http->tell_timing || http->tell_load;
	atomic_init(&loop->transmit, http->transmit);
	loop->shed_mix = weir_mix(index);
	loop->refs = 1;
	loop->arrived_end = &loop->arrived;
	loop->ferries_end = &loop->ferries;
	set_limits(loop, &http->limits);
	weir_hammer_init(loop);
	weir_shares_init(&loop->shares, http->sums, &http->limits, weir_domain_threads(http->domain));
	set_server(loop, http->server);
	weir_pool_init(&loop->conn_pool, sizeof(weir_http_conn));
	weir_h2_memory_init(&loop->h2);
	pthread_mutex_init(&loop->lock, NULL);
	loop->ending.run = loop_ends;
	loop->arrive_post = (weir_post){.run = arrive_posted, .arg = loop};
	loop->slim_post = (weir_post){.run = slim_posted, .arg = loop};
	loop->table_post = (weir_post){.run = table_posted, .arg = loop};
	loop->start_post = (weir_post){.run = start_posted, .arg = loop};
	return loop;
}

void weir_http_loop_free(weir_http_loop *loop)
{
	weir_request *next;
	for (weir_request *request = loop->free; request != NULL; request = next) {
		next = request->next;
		weir_mem_free(request);
	}
	/* If it is over, the ending has been removed already. */
	if (!loop->over)
		weir_loop_remove_ending(&loop->ending);
	weir_pool_fini(&loop->conn_pool);
	weir_h2_memory_fini(&loop->h2);
	weir_shares_fini(&loop->shares);
	pthread_mutex_destroy(&loop->lock);
	weir_costs_free(loop->costs);
	weir_mem_free(loop);
}

static bool drop_ref_over(weir_http_loop *loop)
{
	pthread_mutex_lock(&loop->lock);
	bool last = --loop->refs == 0;
	pthread_mutex_unlock(&loop->lock);
	return last;
}

void weir_http_loop_unref(weir_http_loop *loop)
{
	if (loop->over ? drop_ref_over(loop) : --loop->refs == 0)
		weir_http_loop_free(loop);
}

void weir_http_loop_leave(weir_http_loop *loop)
{
	weir_table *pending = atomic_exchange(&loop->next_table, NULL);
	if (pending != NULL)
		weir_table_free(pending);
	pthread_mutex_lock(&loop->lock);
	loop->http = NULL;
	weir_table *table = loop->table;
	loop->table = NULL;
	weir_table_drop(table);
	pthread_mutex_unlock(&loop->lock);
	weir_http_loop_unref(loop);
}
