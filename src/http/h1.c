/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1 connection, from request to request. h1.h has the states. */
#include "http/h1.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "tls/tls.h"

static uint64_t now_of(const weir_http_conn *conn)
{
	return weir_loop_time(conn->loop->loop);
}

/* ---- reading on and off ---- */

static void hold(weir_http_conn *conn)
{
	if (conn->flags & WEIR_CONN_HELD)
		return;
	conn->flags |= WEIR_CONN_HELD;
	weir_link_pause(&conn->link);
}

static void release(weir_http_conn *conn)
{
	if (!(conn->flags & WEIR_CONN_HELD))
		return;
	conn->flags &= (uint16_t)~WEIR_CONN_HELD;
	weir_link_resume(&conn->link);
}

/* Pipelined requests wait while earlier answers fill the output. The link calls drained at the same bound. */
static bool output_is_full(const weir_http_conn *conn)
{
	return weir_link_output(&conn->link) >= conn->loop->link_bytes / 2;
}

/* Whether it waits for something other than more bytes. */
static bool is_blocked(const weir_http_conn *conn)
{
	switch (conn->state) {
	case WEIR_H1_ANSWER:
		return true;
	case WEIR_H1_BODY:
	case WEIR_H1_TUNNEL:
		return weir_h1_body_waits(conn->request);
	case WEIR_H1_HEAD:
		return output_is_full(conn);
	default:
		return false;
	}
}

/* ---- ending ---- */

void weir_h1_shut(weir_http_conn *conn)
{
	if (conn->state == WEIR_H1_SHUT)
		return;
	conn->state = WEIR_H1_SHUT;
	weir_http_wait_for(conn, WEIR_WAIT_NOTHING, 0);
	weir_link_close(&conn->link);
}

void weir_h1_lose(weir_http_conn *conn, int why, const char *error)
{
	weir_request *request = conn->request;
	bool whole = conn->state != WEIR_H1_HEAD;
	if (conn->state == WEIR_H1_SHUT)
		return;
	conn->state = WEIR_H1_SHUT;
	conn->request = NULL;
	weir_http_wait_for(conn, WEIR_WAIT_NOTHING, 0);
	weir_conn_abort(conn->link.conn, why);
	if (request != NULL && whole)
		weir_request_gone(request, error);
	else if (request != NULL)
		weir_request_free(request);
}

void weir_h1_refuse_body(weir_http_conn *conn, unsigned status, const char *error)
{
	weir_request *request = conn->request;
	conn->state = WEIR_H1_SHUT;
	conn->request = NULL;
	request->status = (uint16_t)status;
	weir_http_wait_for(conn, WEIR_WAIT_NOTHING, 0);
	weir_h1_write_error(conn, status, error);
	weir_link_close(&conn->link);
	weir_request_gone(request, error);
}

/* ---- heads ---- */

/* A malformed head: nobody knows where the next request would start, so the connection closes. */
static void refuse_head(weir_http_conn *conn, unsigned status, const char *error)
{
	weir_request *request = conn->request;
	uint64_t began_ns = request->began_ns;
	conn->request = NULL;
	weir_request_free(request);
	weir_http_count(&conn->loop->counts.malformed);
	weir_h1_write_error(conn, status, error);
	weir_h1_shut(conn);
	weir_http_log_malformed(conn, status, error, began_ns);
}

static void begin_request(weir_http_conn *conn, const char *base)
{
	weir_request *request = conn->request;
	const weir_head *head = &request->head;
	bool none = head->framing == WEIR_BODY_NONE ||
		    (head->framing == WEIR_BODY_LENGTH && head->body_length == 0);
	conn->requests++;
	conn->state = none ? WEIR_H1_ANSWER : WEIR_H1_BODY;
	conn->wait = WEIR_WAIT_NOTHING;
	if (conn->link.tls != NULL)
		weir_request_secured(request, weir_tls_subject(&conn->link));
	weir_request_made(request, base);
}

static inline size_t take_head(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	weir_request *request = conn->request;
	if (request == NULL) {
		request = conn->request = weir_request_new(conn, &weir_h1_codec, NULL, now_of(conn));
		if (request == NULL) {
			weir_h1_lose(conn, -ENOMEM, NULL);
			return end - at;
		}
	}
	const char *base = (const char *)buf->data + at;
	weir_parse result =
		weir_parse_request_recent(&request->head, base, end - at, &conn->loop->head_limits,
					  request->fields, &conn->loop->recent);
	if (__builtin_expect(result == WEIR_PARSE_DONE, 1)) {
		size_t length = request->head.length;
		begin_request(conn, base);
		return length;
	}
	if (result == WEIR_PARSE_BAD) {
		refuse_head(conn, request->head.status, request->head.error);
		return end - at;
	}
	if (conn->wait != WEIR_WAIT_HEAD)
		weir_http_wait_for(conn, WEIR_WAIT_HEAD, now_of(conn));
	return 0;
}

/* ---- bytes ---- */

static size_t step(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	switch (conn->state) {
	case WEIR_H1_HEAD:
		return output_is_full(conn) ? 0 : take_head(conn, buf, at, end);
	case WEIR_H1_BODY:
		return weir_h1_body_waits(conn->request) ? 0 : weir_h1_body(conn, buf, at, end);
	case WEIR_H1_TRAILERS:
		return weir_h1_trailers(conn, buf, at, end);
	case WEIR_H1_TUNNEL:
		return weir_h1_body_waits(conn->request) ? 0 : weir_h1_tunnel(conn, buf, at, end);
	case WEIR_H1_ANSWER:
		return 0;
	default:
		return end - at;
	}
}

/* Uses what it can; returns where it stopped. */
static size_t run(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	conn->flags |= WEIR_CONN_RUNNING;
	while (at < end) {
		size_t used = step(conn, buf, at, end);
		if (used == 0)
			break;
		at += used;
	}
	conn->flags &= (uint16_t)~WEIR_CONN_RUNNING;
	return at;
}

static void keep(weir_http_conn *conn, const weir_buf *buf, size_t at, size_t end)
{
	if (!weir_http_conn_keep(conn, buf, at, end))
		weir_h1_lose(conn, -ENOBUFS, "out of memory for its bytes");
}

static void drop_kept(weir_http_conn *conn)
{
	weir_buf_unref(conn->in);
	conn->in = NULL;
	conn->in_at = 0;
}

/* After run: pauses if something other than more bytes is missing, and closes if no more can come. */
static void rest(weir_http_conn *conn)
{
	bool blocked = conn->state != WEIR_H1_SHUT && is_blocked(conn);
	if (conn->in != NULL && blocked)
		hold(conn);
	else
		release(conn);
	if (conn->state == WEIR_H1_HEAD && blocked)
		weir_h1_want_drained(conn);
	if (conn->flags & WEIR_CONN_HALF_CLOSED && conn->state == WEIR_H1_HEAD && !blocked)
		weir_h1_shut(conn);
}

static void run_kept(weir_http_conn *conn)
{
	weir_buf *in = conn->in;
	/* run never changes `in`; only its callers do. */
	size_t at = run(conn, in, conn->in_at, in->length);
	conn->in_at = (uint32_t)at;
	if (at == in->length)
		drop_kept(conn);
}

static void h1_data(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	weir_http_conn *conn = weir_h1_of(link);
	size_t end = offset + length;
	if (__builtin_expect(conn->in == NULL, 1)) {
		size_t at = run(conn, buf, offset, end);
		if (at == end && conn->flags == 0)
			return;
		if (at < end)
			keep(conn, buf, at, end);
	} else {
		keep(conn, buf, offset, end);
		if (conn->in != NULL && conn->state != WEIR_H1_SHUT)
			run_kept(conn);
	}
	rest(conn);
}

static void h1_later(weir_http_conn *conn)
{
	if (conn->in != NULL && conn->state != WEIR_H1_SHUT)
		run_kept(conn);
	rest(conn);
}

void weir_h1_go_on(weir_http_conn *conn)
{
	if (conn->flags & WEIR_CONN_RUNNING)
		return;
	if (conn->in != NULL || conn->flags & (WEIR_CONN_HELD | WEIR_CONN_HALF_CLOSED))
		weir_http_conn_later(conn);
}

/* ---- the end of a request ---- */

void weir_h1_over(weir_request *request)
{
	weir_http_conn *conn = request->conn;
	conn->request = NULL;
	if (conn->flags & WEIR_CONN_LAST) {
		weir_h1_shut(conn);
		return;
	}
	if (conn->state == WEIR_H1_SHUT)
		return;
	conn->state = WEIR_H1_HEAD;
	weir_http_wait_idle(conn, now_of(conn));
	weir_h1_go_on(conn);
}

/* ---- the other calls of the connection ---- */

static void h1_eof(weir_link *link)
{
	weir_http_conn *conn = weir_h1_of(link);
	conn->flags |= WEIR_CONN_HALF_CLOSED;
	switch (conn->state) {
	case WEIR_H1_HEAD:
		if (conn->request != NULL) {
			weir_request_free(conn->request);
			conn->request = NULL;
		}
		weir_h1_shut(conn);
		break;
	case WEIR_H1_BODY:
	case WEIR_H1_TRAILERS:
		weir_h1_lose(conn, -EPIPE, "the body ended early");
		break;
	case WEIR_H1_ANSWER:
		/* The client has left, or has only finished sending. Both look the same. */
		weir_http_wait_for(conn, WEIR_WAIT_GONE, now_of(conn));
		break;
	case WEIR_H1_TUNNEL:
		weir_request_body_end(conn->request);
		break;
	default:
		break;
	}
}

static void h1_drained(weir_link *link)
{
	weir_http_conn *conn = weir_h1_of(link);
	weir_request *request = conn->request;
	if (conn->state == WEIR_H1_HEAD)
		weir_h1_go_on(conn);
	else if (request != NULL && weir_request_is(request, WEIR_REQUEST_REST))
		weir_h1_pump(request);
	else if (request != NULL && weir_request_is(request, WEIR_REQUEST_BEGUN))
		weir_request_drained(request);
}

static void forget_request(weir_http_conn *conn, const char *error)
{
	weir_request *request = conn->request;
	bool whole = conn->state != WEIR_H1_HEAD;
	conn->state = WEIR_H1_SHUT;
	conn->request = NULL;
	if (request != NULL && whole)
		weir_request_gone(request, error);
	else if (request != NULL)
		weir_request_free(request);
}

static void h1_closed(weir_link *link, int why)
{
	weir_http_conn *conn = weir_h1_of(link);
	weir_http_tell_tls(conn, why);
	forget_request(conn, why == -ETIMEDOUT ? "the client does not read" : "the client has gone");
	weir_http_conn_free(conn);
}

static void h1_strand(weir_http_conn *conn)
{
	forget_request(conn, "the server has stopped");
}

/* An idle connection is not closed at once: a request that is on its way would be lost. */
static void h1_drain(weir_http_conn *conn)
{
	conn->flags |= WEIR_CONN_LAST;
	if (conn->state == WEIR_H1_HEAD && conn->request == NULL && conn->in == NULL)
		weir_http_wait_for(conn, WEIR_WAIT_IDLE, now_of(conn));
}

/* After the client's FIN. A client that has left resets the connection, but only if it is sent something. */
static bool is_worth_waiting(weir_http_conn *conn)
{
	weir_request *request = conn->request;
	int unread = 0;
	if (!weir_request_is(request, WEIR_REQUEST_BEGUN))
		return conn->loop->limits.half_closed_ns == UINT64_MAX;
	uint64_t seen = request->answer_seen;
	request->answer_seen = request->answer_bytes;
	if (request->answer_bytes != seen || weir_link_output(&conn->link) > 0)
		return true;
	/* Closing would lose what the kernel has not yet delivered to a slow reader. */
	return ioctl(weir_conn_fd(conn->link.conn), SIOCOUTQ, &unread) == 0 && unread > 0;
}

static void h1_timeout(weir_http_conn *conn)
{
	weir_request *request = conn->request;
	switch (conn->wait) {
	case WEIR_WAIT_HEAD:
		weir_http_count(&conn->loop->counts.timeouts);
		refuse_head(conn, 408, "the head did not come in time");
		break;
	case WEIR_WAIT_BODY:
		weir_http_count(&conn->loop->counts.timeouts);
		if (weir_request_is_early(request)) {
			conn->flags |= WEIR_CONN_LAST;
			weir_request_refuse(request, 408, "the body did not come in time");
		} else {
			weir_h1_lose(conn, -ETIMEDOUT, "the body did not come in time");
		}
		break;
	case WEIR_WAIT_GONE:
		if (is_worth_waiting(conn))
			weir_http_wait_for(conn, WEIR_WAIT_GONE, now_of(conn));
		else
			weir_h1_lose(conn, 0, "the client has gone");
		break;
	case WEIR_WAIT_FIRST:
		weir_http_count(&conn->loop->counts.timeouts);
		weir_h1_shut(conn);
		break;
	default:
		weir_h1_shut(conn);
	}
}

/* What follows of the answer that is being sent. Of a stream without a length nothing is known. */
static void h1_left(weir_link *link, weir_conn_left *left)
{
	const weir_request *request = weir_h1_of(link)->request;
	if (request == NULL || !weir_request_is(request, WEIR_REQUEST_BEGUN | WEIR_REQUEST_REST))
		return;
	left->since_ns = request->began_ns;
	left->klass = request->klass;
	if (weir_request_is(request, WEIR_REQUEST_REST))
		left->bytes += request->rest_length;
	else if (request->answer_left != WEIR_UNKNOWN_LENGTH)
		left->bytes += request->answer_left;
}

const weir_link_ops weir_h1_link_ops = {
	.data = h1_data, .eof = h1_eof, .drained = h1_drained, .closed = h1_closed, .left = h1_left};
const weir_protocol weir_h1_protocol = {
	.timeout = h1_timeout, .drain = h1_drain, .later = h1_later, .strand = h1_strand};

void weir_h1_start(weir_http_conn *conn)
{
	conn->link.ops = &weir_h1_link_ops;
	conn->protocol = &weir_h1_protocol;
	conn->state = WEIR_H1_HEAD;
	conn->request = NULL;
	weir_http_wait_for(conn, WEIR_WAIT_FIRST, now_of(conn));
}
