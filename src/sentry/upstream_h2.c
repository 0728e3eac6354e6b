/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of HTTP/2 to backends: which one a call gets, and how they begin and end. */
#include "sentry/upstream_h2.h"

#include <errno.h>
#include <stddef.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "tls/tls.h"

static uint64_t now_of(const weir_upstream_h2 *h2)
{
	return weir_loop_time(h2->conn->upstream->loop);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- the lane's list: connections that take calls ---- */

static void list(weir_upstream_h2 *h2)
{
	weir_upstream_lane *lane = h2->conn->lane;
	weir_upstream_h2 **at = &lane->h2;
	/* The oldest is used first, so that those beyond need become idle. */
	while (*at != NULL)
		at = &(*at)->next;
	*at = h2;
	h2->at = at;
	h2->next = NULL;
}

static void unlist(weir_upstream_h2 *h2)
{
	if (h2->at == NULL)
		return;
	*h2->at = h2->next;
	if (h2->next != NULL)
		h2->next->at = h2->at;
	h2->at = NULL;
}

static void set_idle(weir_upstream_h2 *h2, bool idle)
{
	if (h2->idle == idle)
		return;
	h2->idle = idle;
	WEIR_COUNT(h2->conn->lane->counts.idle, idle ? 1u : -1u);
}

static bool has_room(const weir_upstream_h2 *h2)
{
	if (h2->client != NULL && weir_h2_client_is_settled(h2->client))
		return weir_h2_client_room(h2->client) > h2->waiting;
	return h2->count < h2->conn->upstream->limits.streams;
}

static weir_upstream_h2 *find(const weir_upstream_lane *lane)
{
	weir_upstream_h2 *h2 = lane->h2;
	while (h2 != NULL && !has_room(h2))
		h2 = h2->next;
	return h2;
}

/* ---- output ---- */

static int out_write(void *arg, const void *bytes, size_t length)
{
	weir_upstream_conn *conn = arg;
	return weir_link_write(&conn->link, bytes, length);
}

static int out_send(void *arg, weir_buf *buf, size_t offset, size_t length)
{
	weir_upstream_conn *conn = arg;
	return weir_link_send(&conn->link, buf, offset, length);
}

static bool out_is_full(void *arg)
{
	weir_upstream_conn *conn = arg;
	size_t most = conn->upstream->limits.output_bytes;
	if (weir_link_output(&conn->link) < most / 2)
		return false;
	/* A write that the link cannot take makes it call drained. */
	weir_link_write(&conn->link, "", most + 1);
	return true;
}

static void out_wake(void *arg)
{
	const weir_upstream_conn *conn = arg;
	weir_upstream_h2 *h2 = conn->h2;
	if (h2->deferred || h2->over)
		return;
	h2->deferred = true;
	weir_loop_defer(conn->upstream->loop, &h2->later);
}

/* The loop cannot forget `later`, so a connection that ends meanwhile is freed here. */
static void send_now(weir_deferred *later)
{
	weir_upstream_h2 *h2 =
		(weir_upstream_h2 *)(void *)((char *)later - offsetof(weir_upstream_h2, later));
	h2->deferred = false;
	if (h2->conn == NULL)
		weir_mem_free(h2);
	else
		weir_upstream_h2_drained(h2->conn);
}

static const weir_h2_client_ops out_ops = {
	.write = out_write, .send = out_send, .is_full = out_is_full, .wake = out_wake};

/* ---- beginnings ---- */

static int open_one(weir_upstream *upstream, weir_upstream_lane *lane, bool probe, weir_upstream_h2 **ret_h2)
{
	weir_upstream_h2 *h2 = weir_mem_zalloc(sizeof(*h2));
	if (h2 == NULL)
		return -ENOMEM;
	h2->end = &h2->streams;
	h2->probe = probe;
	h2->later.run = send_now;
	int error = weir_upstream_open_conn(upstream, lane, h2, &h2->conn);
	if (error != 0) {
		weir_mem_free(h2);
		return error;
	}
	h2->conn->progress_ns = now_of(h2);
	if (!probe)
		list(h2);
	*ret_h2 = h2;
	return 0;
}

static int place(weir_upstream *upstream, weir_upstream_lane *lane, bool probe, weir_upstream_h2 **ret_h2)
{
	weir_upstream_h2 *h2 = probe ? NULL : find(lane);
	if (h2 == NULL)
		return open_one(upstream, lane, probe, ret_h2);
	*ret_h2 = h2;
	return 0;
}

/* When a PING is to be sent, or has had no answer for too long. */
static uint64_t ping_deadline(const weir_upstream_h2 *h2)
{
	uint64_t ping_ns = h2->conn->upstream->limits.ping_ns;
	if (h2->count == 0 || h2->client == NULL)
		return UINT64_MAX;
	if (weir_h2_client_pings(h2->client))
		return weir_upstream_after(h2->pinged_ns, ping_ns);
	return h2->pinged_ns < h2->quiet_ns ? weir_upstream_after(h2->quiet_ns, ping_ns) : UINT64_MAX;
}

/* Makes the call now, or when there is room. */
static void take_in(weir_upstream_h2 *h2, weir_upstream_stream *stream)
{
	h2->used = true;
	set_idle(h2, false);
	/* A silence begins when somebody waits. */
	if (h2->count == 0)
		h2->quiet_ns = now_of(h2);
	weir_upstream_h2_link(h2, stream);
	weir_upstream_h2_arm(h2, least(weir_upstream_h2_stream_deadline(stream), ping_deadline(h2)));
	if (h2->client != NULL && weir_h2_client_room(h2->client) > 0)
		weir_upstream_h2_ask(stream);
}

int weir_upstream_h2_start(weir_upstream *upstream, weir_upstream_lane *lane, weir_call *call,
			   const weir_call_request *request)
{
	weir_upstream_h2 *h2;
	weir_upstream_stream *stream = weir_pool_take(&upstream->streams);
	int error = stream != NULL ? place(upstream, lane, request->probe, &h2) : -ENOMEM;
	if (error != 0) {
		if (stream != NULL)
			weir_pool_give(&upstream->streams, stream);
		if (!request->probe)
			weir_origin_give(lane->backend);
		return error;
	}
	*stream =
		(weir_upstream_stream){.call = call, .head = weir_buf_ref(request->head), .reused = h2->used};
	call->stream = stream;
	WEIR_COUNT(lane->counts.calls, !request->probe);
	WEIR_COUNT(lane->counts.reused, !request->probe && h2->used);
	take_in(h2, stream);
	return 0;
}

static int make_client(weir_upstream_h2 *h2)
{
	weir_upstream *upstream = h2->conn->upstream;
	const weir_upstream_limits *limits = &upstream->limits;
	const weir_h2_client_options options = {.ops = &out_ops,
						.arg = h2->conn,
						.memory = &upstream->h2_memory,
						.streams = limits->streams,
						.head_bytes = limits->head_bytes,
						.fields = limits->fields,
						.output_bytes = limits->output_bytes,
						.secure = h2->conn->lane->backend->at.secure,
						.now_ns = now_of(h2)};
	return weir_h2_client_new(&options, &h2->client);
}

void weir_upstream_h2_up(weir_upstream_conn *conn)
{
	weir_upstream_h2 *h2 = conn->h2;
	if (conn->link.tls != NULL && !weir_tls_is_h2(&conn->link)) {
		weir_upstream_h2_fail(conn, -EPROTO, "the server does not speak HTTP/2 (ALPN)");
		return;
	}
	if (make_client(h2) != 0) {
		weir_upstream_h2_fail(conn, -ENOMEM, "out of memory");
		return;
	}
	h2->up_ns = h2->heard_ns = h2->quiet_ns = conn->progress_ns = now_of(h2);
	out_wake(conn);
	weir_upstream_h2_look(h2);
	weir_upstream_arm(conn);
}

/* ---- ends ---- */

/* It has no calls. What it still has to send is sent. */
static void shut(weir_upstream_h2 *h2)
{
	weir_upstream_conn *conn = h2->conn;
	unlist(h2);
	set_idle(h2, false);
	weir_timer_stop(&conn->timer);
	bool up = h2->client != NULL;
	if (up)
		weir_h2_client_leave(h2->client);
	conn->state = WEIR_UPSTREAM_DYING;
	if (up)
		weir_link_close(&conn->link);
	else
		weir_conn_abort(conn->link.conn, 0);
}

/* A failing call may make another, which must not come here. */
static void lose_all(weir_upstream_h2 *h2, int error, const char *text)
{
	while (h2->streams != NULL)
		weir_upstream_h2_lose(h2->streams, error, text);
}

void weir_upstream_h2_fail(weir_upstream_conn *conn, int error, const char *text)
{
	weir_upstream_h2 *h2 = conn->h2;
	weir_call_step step = weir_upstream_step(conn);
	if (conn->state == WEIR_UPSTREAM_DYING)
		return;
	unlist(h2);
	set_idle(h2, false);
	weir_timer_stop(&conn->timer);
	h2->busy = h2->over = true;
	lose_all(h2, error, text);
	h2->busy = false;
	if (step == WEIR_CALL_ANSWER && error == -EPROTO && h2->client != NULL) {
		/* With the GOAWAY that tells the server why. */
		conn->state = WEIR_UPSTREAM_DYING;
		weir_link_close(&conn->link);
		return;
	}
	conn->state = WEIR_UPSTREAM_DYING;
	weir_conn_abort(conn->link.conn, error);
}

void weir_upstream_h2_ended(weir_upstream_conn *conn, int why, const char *text)
{
	weir_upstream_h2 *h2 = conn->h2;
	unlist(h2);
	set_idle(h2, false);
	h2->busy = h2->over = true;
	lose_all(h2, why, text);
	weir_h2_client_free(h2->client);
	h2->conn = NULL;
	conn->h2 = NULL;
	if (!h2->deferred)
		weir_mem_free(h2);
}

void weir_upstream_h2_let_go(weir_upstream_conn *conn)
{
	weir_upstream_h2 *h2 = conn->h2;
	if (conn->state == WEIR_UPSTREAM_DYING)
		return;
	unlist(h2);
	if (h2->count == 0)
		shut(h2);
}

/* ---- calls that wait ---- */

/* The server allows fewer than wait here. */
static void move(weir_upstream_stream *stream)
{
	weir_upstream_h2 *old = stream->h2, *h2;
	weir_upstream *upstream = old->conn->upstream;
	int error = place(upstream, old->conn->lane, false, &h2);
	if (error != 0) {
		weir_upstream_h2_lose(stream, error, "no connection could be made");
		return;
	}
	weir_upstream_h2_unlink(stream);
	stream->reused = h2->used;
	take_in(h2, stream);
}

static weir_upstream_stream *first_waiting(const weir_upstream_h2 *h2)
{
	weir_upstream_stream *stream = h2->waiting > 0 ? h2->streams : NULL;
	while (stream != NULL && stream->head == NULL)
		stream = stream->next;
	return stream;
}

static void serve_waiting(weir_upstream_h2 *h2)
{
	weir_upstream_stream *stream;
	while ((stream = first_waiting(h2)) != NULL) {
		if (weir_h2_client_room(h2->client) > 0)
			weir_upstream_h2_ask(stream);
		else if (!weir_h2_client_is_settled(h2->client) && !weir_h2_client_is_leaving(h2->client))
			return;
		else if (weir_h2_client_most(h2->client) > 0 || weir_h2_client_is_leaving(h2->client))
			move(stream);
		else
			weir_upstream_h2_refuse(stream, true, "the server allows no requests");
	}
}

/* The bound on kept connections holds for these, too. */
static void rest(weir_upstream_h2 *h2)
{
	weir_upstream_conn *conn = h2->conn;
	const weir_upstream_lane *lane = conn->lane;
	bool retired = atomic_load_explicit(&lane->backend->shared.retired, memory_order_relaxed);
	if (h2->at == NULL || retired ||
	    atomic_load_explicit(&lane->counts.idle, memory_order_relaxed) >= conn->upstream->limits.idle) {
		shut(h2);
		return;
	}
	conn->progress_ns = now_of(h2);
	set_idle(h2, true);
	weir_upstream_h2_arm(h2, weir_upstream_after(conn->progress_ns, conn->upstream->limits.idle_ns));
}

void weir_upstream_h2_look(weir_upstream_h2 *h2)
{
	weir_upstream_conn *conn = h2->conn;
	if (h2->busy || conn->state == WEIR_UPSTREAM_DYING || h2->client == NULL)
		return;
	if (weir_h2_client_is_leaving(h2->client))
		unlist(h2);
	h2->busy = true;
	serve_waiting(h2);
	h2->busy = false;
	if (weir_h2_client_error(h2->client)[0] != '\0')
		weir_upstream_h2_fail(conn, -EPROTO, weir_h2_client_error(h2->client));
	else if (h2->count == 0 && h2->used && !h2->idle)
		rest(h2);
}

/* ---- what comes ---- */

void weir_upstream_h2_data(weir_upstream_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	weir_upstream_h2 *h2 = conn->h2;
	if (h2->client == NULL || conn->state == WEIR_UPSTREAM_DYING)
		return;
	h2->heard_ns = now_of(h2);
	bool pinged = weir_h2_client_pings(h2->client);
	h2->busy = true;
	int error = weir_h2_client_take(h2->client, buf, offset, length, h2->heard_ns);
	h2->busy = false;
	if (!pinged || weir_h2_client_pings(h2->client))
		h2->quiet_ns = h2->heard_ns;
	weir_upstream_h2_arm(h2, ping_deadline(h2));
	if (error != 0 && conn->state != WEIR_UPSTREAM_DYING)
		weir_upstream_h2_fail(conn, error, weir_h2_client_error(h2->client));
	else
		weir_upstream_h2_look(h2);
}

void weir_upstream_h2_eof(weir_upstream_conn *conn)
{
	const weir_upstream_h2 *h2 = conn->h2;
	if (conn->state == WEIR_UPSTREAM_HANDSHAKE)
		weir_upstream_h2_fail(conn, -ECONNRESET, "closed during the TLS handshake");
	else
		weir_upstream_h2_fail(conn, -ECONNRESET,
				      h2->count == 0 ? "" : "the server has closed the connection");
}

void weir_upstream_h2_drained(weir_upstream_conn *conn)
{
	weir_upstream_h2 *h2 = conn->h2;
	if (h2->client == NULL || conn->state == WEIR_UPSTREAM_DYING)
		return;
	h2->busy = true;
	int error = weir_h2_client_flush(h2->client);
	h2->busy = false;
	if (error != 0 && conn->state != WEIR_UPSTREAM_DYING)
		weir_upstream_h2_fail(conn, error, weir_h2_client_error(h2->client));
	else
		weir_upstream_h2_look(h2);
}

/* ---- time ---- */

void weir_upstream_h2_arm(weir_upstream_h2 *h2, uint64_t at_ns)
{
	weir_upstream_conn *conn = h2->conn;
	if (at_ns == UINT64_MAX || conn->state == WEIR_UPSTREAM_DYING)
		return;
	if (!weir_timer_pending(&conn->timer) || conn->timer.at_ns > at_ns)
		weir_timer_start(conn->upstream->loop, &conn->timer, at_ns);
}

/* The deadline of the connection itself. */
static uint64_t own_deadline(const weir_upstream_h2 *h2)
{
	const weir_upstream_conn *conn = h2->conn;
	const weir_upstream_limits *limits = &conn->upstream->limits;
	if (conn->state == WEIR_UPSTREAM_HANDSHAKE)
		return weir_upstream_after(conn->progress_ns, limits->handshake_ns);
	if (h2->client == NULL)
		return UINT64_MAX; /* CONNECTING: the socket has its own timeout */
	if (!weir_h2_client_is_settled(h2->client))
		return weir_upstream_after(h2->up_ns, limits->handshake_ns);
	return h2->idle ? weir_upstream_after(conn->progress_ns, limits->idle_ns) : ping_deadline(h2);
}

uint64_t weir_upstream_h2_deadline(const weir_upstream_conn *conn)
{
	const weir_upstream_h2 *h2 = conn->h2;
	if (conn->state == WEIR_UPSTREAM_DYING)
		return UINT64_MAX;
	uint64_t at_ns = own_deadline(h2);
	for (const weir_upstream_stream *stream = h2->streams; stream != NULL; stream = stream->next)
		at_ns = least(at_ns, weir_upstream_h2_stream_deadline(stream));
	return at_ns;
}

static weir_upstream_stream *late_stream(const weir_upstream_h2 *h2, uint64_t now_ns)
{
	weir_upstream_stream *stream = h2->streams;
	while (stream != NULL && weir_upstream_h2_stream_deadline(stream) > now_ns)
		stream = stream->next;
	return stream;
}

/* If nothing came since the call was made, the connection may be dead: it gets no more calls. */
static void lose_late(weir_upstream_h2 *h2, weir_upstream_stream *stream)
{
	if (weir_upstream_h2_has_moved(stream))
		return;
	if (stream->ask != NULL && h2->heard_ns < stream->call->started_ns)
		unlist(h2);
	const char *text = stream->headed         ? "the body of the answer did not come in time"
			   : stream->ask == NULL  ? "no connection in time"
			   : stream->request_done ? "no answer in time"
						  : "the request was not taken in time";
	weir_upstream_h2_lose(stream, -ETIMEDOUT, text);
}

static void own_timeout(weir_upstream_h2 *h2, uint64_t now_ns)
{
	weir_upstream_conn *conn = h2->conn;
	if (conn->state == WEIR_UPSTREAM_HANDSHAKE) {
		weir_upstream_h2_fail(conn, -ETIMEDOUT, "no TLS handshake in time");
	} else if (!weir_h2_client_is_settled(h2->client)) {
		weir_upstream_h2_fail(conn, -ETIMEDOUT, "no settings of HTTP/2 in time");
	} else if (h2->idle) {
		shut(h2);
	} else if (weir_h2_client_pings(h2->client)) {
		weir_upstream_h2_fail(conn, -ETIMEDOUT, "the server does not answer a PING");
	} else {
		h2->pinged_ns = now_ns;
		weir_h2_client_ping(h2->client);
	}
}

void weir_upstream_h2_late(weir_upstream_conn *conn)
{
	weir_upstream_h2 *h2 = conn->h2;
	uint64_t now_ns = now_of(h2);
	weir_upstream_stream *stream;
	if (own_deadline(h2) <= now_ns)
		own_timeout(h2, now_ns);
	h2->busy = true;
	while (conn->state != WEIR_UPSTREAM_DYING && (stream = late_stream(h2, now_ns)) != NULL)
		lose_late(h2, stream);
	h2->busy = false;
	weir_upstream_h2_look(h2);
	weir_upstream_arm(conn);
}
