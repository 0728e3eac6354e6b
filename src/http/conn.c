/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of a server: created and freed. In between they belong to a protocol. */
#include <errno.h>
#include <string.h>

#include "http/server.h"
#include "net/buf.h"
#include "net/transmit.h"
#include "tls/tls.h"

/* Room after an incomplete head, for what may arrive before reading stops. */
#define KEPT_BEYOND_HEAD (4 * WEIR_BUF_READ_BYTES)

/* ---- making and freeing ---- */

static void link_conn(weir_http_conn *conn)
{
	weir_http_loop *loop = conn->loop;
	conn->next = loop->conns;
	conn->prev = &loop->conns;
	if (conn->next != NULL)
		conn->next->prev = &conn->next;
	loop->conns = conn;
	weir_http_count(&loop->counts.connections);
	weir_http_gauge(&loop->counts.open, 1);
}

/* Unix sockets have no useful address. */
static void note_client(weir_http_conn *conn)
{
	struct sockaddr_storage peer;
	if (weir_conn_peer(conn->link.conn, &peer) != 0)
		return;
	weir_client_set(&conn->client, &peer);
}

static void run_later(weir_deferred *deferred)
{
	weir_http_conn *conn =
		(weir_http_conn *)(void *)((char *)deferred - offsetof(weir_http_conn, deferred));
	weir_http_loop *loop = conn->loop;
	conn->flags &= (uint16_t)~WEIR_CONN_LATER;
	if (conn->flags & WEIR_CONN_OVER) {
		weir_pool_give(&loop->conn_pool, conn);
		weir_http_loop_unref(loop);
	} else {
		conn->protocol->later(conn);
	}
}

void weir_http_conn_later(weir_http_conn *conn)
{
	if (conn->flags & WEIR_CONN_LATER)
		return;
	conn->flags |= WEIR_CONN_LATER;
	weir_loop_defer(conn->loop->loop, &conn->deferred);
}

bool weir_http_conn_is_silent(const weir_http_conn *conn)
{
	return conn->wait == WEIR_WAIT_FIRST || conn->wait == WEIR_WAIT_HEAD || conn->wait == WEIR_WAIT_IDLE;
}

/* The one that has been silent for longest gives way to a newcomer. It is owed no answer. */
static void evict(weir_http_loop *loop, const weir_http_listener *listener)
{
	weir_http_conn *oldest = NULL;
	for (weir_http_conn *conn = loop->conns; conn != NULL; conn = conn->next)
		if (conn->listener == listener && weir_http_conn_is_silent(conn) &&
		    (oldest == NULL || conn->since_ns < oldest->since_ns))
			oldest = conn;
	if (oldest == NULL)
		return;
	oldest->wait = WEIR_WAIT_NOTHING; /* it is not chosen again before it is gone */
	weir_conn_abort(oldest->link.conn, -EBUSY);
}

static weir_http_conn *make(weir_conn *raw, const weir_http_listener *listener, weir_http_loop *loop)
{
	weir_http_conn *conn = weir_pool_take(&loop->conn_pool);
	if (conn == NULL)
		return NULL;
	memset(conn, 0, sizeof(*conn));
	conn->link.conn = raw;
	conn->loop = loop;
	conn->listener = listener;
	conn->deferred.run = run_later;
	weir_http_wait_init(conn);
	note_client(conn);
	link_conn(conn);
	weir_http_loop_ref(loop);
	return conn;
}

void weir_http_conn_free(weir_http_conn *conn)
{
	weir_http_loop *loop = conn->loop;
	*conn->prev = conn->next;
	if (conn->next != NULL)
		conn->next->prev = conn->prev;
	weir_http_gauge(&loop->counts.open, -1);
	weir_shares_leave(conn);
	if (loop->draining)
		weir_http_left(loop);
	if (conn->link.tls != NULL) {
		weir_http_gauge(&loop->counts.tls_open, -1);
		weir_tls_session_free(&conn->link);
	}
	weir_timer_stop(&conn->timer);
	weir_buf_unref(conn->in);
	conn->in = NULL;
	conn->flags |= WEIR_CONN_OVER;
	/* The loop still has `deferred`: run_later frees it. */
	if (conn->flags & WEIR_CONN_LATER)
		return;
	weir_pool_give(&loop->conn_pool, conn);
	weir_http_loop_unref(loop);
}

/* ---- bytes for later ---- */

/* Makes room after the kept bytes. */
static bool make_room(weir_http_conn *conn, size_t length)
{
	weir_buf *old = conn->in;
	size_t have = old != NULL ? old->length - conn->in_at : 0;
	if (old != NULL && old->capacity - old->length >= length)
		return true;
	if (have + length > conn->loop->head_limits.head_bytes + KEPT_BEYOND_HEAD)
		return false;
	weir_buf *larger = weir_buf_new(have == 0 ? length : 2 * (have + length));
	if (larger == NULL)
		return false;
	if (have > 0)
		memcpy(larger->data, old->data + conn->in_at, have);
	larger->length = (uint32_t)have;
	weir_buf_unref(old);
	conn->in = larger;
	conn->in_at = 0;
	return true;
}

bool weir_http_conn_keep(weir_http_conn *conn, const weir_buf *buf, size_t at, size_t end)
{
	if (!make_room(conn, end - at))
		return false;
	memcpy(conn->in->data + conn->in->length, buf->data + at, end - at);
	conn->in->length += (uint32_t)(end - at);
	return true;
}

/* ---- the connection's callbacks: passed to its TLS session or its link ---- */

static int conn_open(weir_conn *raw, void *arg)
{
	const weir_http_listener *listener = arg;
	weir_http_loop *loop = listener->http->loops[weir_thread_home()];
	uint32_t open = atomic_load_explicit(&loop->counts.open, memory_order_relaxed);
	if (listener->crowded != 0 && open >= listener->crowded)
		evict(loop, listener);
	weir_http_conn *conn = make(raw, listener, loop);
	weir_conn_set_user(raw, conn);
	struct weir_transmit *transmit = weir_http_transmit(loop);
	if (transmit != NULL)
		weir_conn_schedule(raw, transmit);
	if (conn == NULL)
		return -ENOMEM;
	int error = weir_http_conn_begin(conn);
	/* A PROXY header will say who it is. */
	if (error == 0 && !listener->proxy && !weir_shares_admit(conn))
		weir_conn_abort(raw, -EBUSY);
	return error;
}

static void conn_data(weir_conn *raw, weir_buf *buf)
{
	weir_link *link = weir_conn_user(raw);
	if (link->tls != NULL)
		weir_tls_conn_ops.data(raw, buf);
	else
		link->ops->data(link, buf, 0, buf->length);
}

static void conn_eof(weir_conn *raw)
{
	weir_link *link = weir_conn_user(raw);
	if (link->tls != NULL)
		weir_tls_conn_ops.eof(raw);
	else
		link->ops->eof(link);
}

static void conn_drained(weir_conn *raw)
{
	weir_link *link = weir_conn_user(raw);
	if (link->tls != NULL)
		weir_tls_conn_ops.drained(raw);
	else
		link->ops->drained(link);
}

static void conn_left(weir_conn *raw, weir_conn_left *left)
{
	weir_link *link = weir_conn_user(raw);
	if (link == NULL)
		return;
	if (link->tls != NULL)
		weir_tls_conn_ops.left(raw, left);
	else if (link->ops->left != NULL)
		link->ops->left(link, left);
}

static void conn_closed(weir_conn *raw, int why)
{
	weir_link *link = weir_conn_user(raw);
	/* There was no memory when it was opened. */
	if (link == NULL)
		return;
	if (link->tls != NULL)
		weir_tls_conn_ops.closed(raw, why);
	else
		link->ops->closed(link, why);
}

const weir_conn_ops weir_http_conn_ops = {.open = conn_open,
					  .data = conn_data,
					  .eof = conn_eof,
					  .drained = conn_drained,
					  .closed = conn_closed,
					  .left = conn_left};
