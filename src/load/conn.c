/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections as sockets, plain or with TLS: how they are made, their callbacks, how they end. client.c
 * handles what goes over them.
 */
#include "load/reactor.h"
#include "net/net.h"
#include "tls/tls.h"

/* ---- callbacks ---- */

static int conn_open(weir_conn *raw, void *arg)
{
	load_client_up(arg);
	return 0;
}

static void conn_data(weir_conn *raw, weir_buf *buf)
{
	load_client_data(weir_conn_user(raw), (const char *)buf->data, buf->length);
}

static void conn_eof(weir_conn *raw)
{
	load_client_eof(weir_conn_user(raw));
}

static void conn_drained(weir_conn *raw)
{
	load_client_drained(weir_conn_user(raw));
}

static void conn_closed(weir_conn *raw, int why)
{
	load_client_closed(weir_conn_user(raw));
}

static const weir_conn_ops plain_ops = {.open = conn_open,
					.data = conn_data,
					.eof = conn_eof,
					.drained = conn_drained,
					.closed = conn_closed};

static load_conn *of_link(weir_link *link)
{
	return (load_conn *)(void *)link;
}

static void link_ready(weir_link *link)
{
	load_client_up(of_link(link));
}

static void link_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	load_client_data(of_link(link), (const char *)buf->data + offset, length);
}

static void link_eof(weir_link *link)
{
	load_client_eof(of_link(link));
}

static void link_drained(weir_link *link)
{
	load_client_drained(of_link(link));
}

static void link_closed(weir_link *link, int why)
{
	load_client_closed(of_link(link));
}

static const weir_link_ops tls_link_ops = {.ready = link_ready,
					   .data = link_data,
					   .eof = link_eof,
					   .drained = link_drained,
					   .closed = link_closed};

static int tls_open(weir_conn *raw, void *arg)
{
	load_conn *conn = arg;
	const load_plan *plan = conn->reactor->plan;
	conn->state = LOAD_CONN_HANDSHAKE;
	conn->link.conn = raw;
	conn->link.ops = &tls_link_ops;
	const char *name = plan->secure_unverified ? NULL : plan->place->host;
	return plan->http2 ? weir_tls_connect_h2(&conn->link, name, plan->authorities, LOAD_OUTPUT_BYTES)
			   : weir_tls_connect(&conn->link, name, plan->authorities, LOAD_OUTPUT_BYTES);
}

static void tls_closed(weir_conn *raw, int why)
{
	load_conn *conn = weir_conn_user(raw);
	if (conn->link.tls != NULL)
		weir_tls_conn_ops.closed(raw, why);
	else
		load_client_closed(conn);
}

/* The callbacks of a TLS session, except for the beginning, and for an end before there is a session. */
static const weir_conn_ops *tls_ops(void)
{
	static _Thread_local weir_conn_ops ops;
	if (ops.open == NULL) {
		ops = weir_tls_conn_ops;
		ops.open = tls_open;
		ops.closed = tls_closed;
	}
	return &ops;
}

/* ---- opening ---- */

static int open_socket(load_conn *conn)
{
	load_reactor *reactor = conn->reactor;
	const load_plan *plan = reactor->plan;
	const load_address *to = &plan->place->address;
	const weir_conn_limits limits = {
		.output_bytes = LOAD_OUTPUT_BYTES, .output_ns = UINT64_MAX, .connect_ns = UINT64_MAX};
	const weir_conn_ops *ops = plan->place->secure ? tls_ops() : &plain_ops;
	static const load_address anywhere = {.at.ss_family = AF_UNSPEC, .length = sizeof(struct sockaddr)};
	const load_address *from =
		plan->source_count > 0 ? &plan->sources[reactor->source++ % plan->source_count] : &anywhere;
	return weir_conn_open_from(reactor->loop, (const struct sockaddr *)&from->at, from->length,
				   (const struct sockaddr *)&to->at, to->length, ops, &limits, conn,
				   &conn->link.conn);
}

load_conn *load_conn_new(load_reactor *reactor)
{
	load_conn *conn = weir_pool_take(&reactor->conn_pool);
	if (conn == NULL)
		return NULL;
	*conn = (load_conn){.reactor = reactor, .opened_ns = load_now(reactor)};
	if (open_socket(conn) == 0)
		return conn;
	weir_pool_give(&reactor->conn_pool, conn);
	return NULL;
}

void load_conn_free(load_conn *conn)
{
	load_exchange *next;
	if (conn->link.tls != NULL)
		weir_tls_session_free(&conn->link);
	for (load_exchange *exchange = conn->exchanges; exchange != NULL; exchange = next) {
		next = exchange->next;
		load_exchange_fini(exchange);
	}
	load_h2_free(conn->h2);
	weir_pool_give(&conn->reactor->conn_pool, conn);
}
