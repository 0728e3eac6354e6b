/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: with a length, chunked with trailers, and the bytes of a tunnel. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h1.h"

#define TRAILERS_MOST      32
#define TRAILER_BYTES_MOST 8192u

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

/* ---- who wants it ---- */

bool weir_h1_drains(const weir_request *request)
{
	if (weir_request_is(request, WEIR_REQUEST_BODY_OVER))
		return true;
	/* Without a 100 the client may send its body or not, so the next bytes could be either. */
	if (weir_request_is(request, WEIR_REQUEST_WAITING | WEIR_REQUEST_UPGRADED))
		return false;
	return request->body_left == WEIR_UNKNOWN_LENGTH || request->body_left <= WEIR_H1_DRAIN_BYTES;
}

static void say_continue(weir_http_conn *conn, weir_request *request)
{
	request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
	/* A client that has sent some of its body does not wait. */
	if (conn->in == NULL && request->body_received == 0)
		weir_link_write(&conn->link, continue_line, sizeof(continue_line) - 1);
}

void weir_h1_want(weir_request *request)
{
	weir_http_conn *conn = request->conn;
	uint64_t now_ns = weir_loop_time(conn->loop->loop);
	if (request->body_mode == WEIR_BODY_DROP &&
	    (conn->flags & WEIR_CONN_LAST || !weir_h1_drains(request))) {
		conn->flags |= WEIR_CONN_LAST;
		weir_request_body_given_up(request);
		return;
	}
	if (weir_h1_body_waits(request)) {
		weir_http_wait_for(conn, WEIR_WAIT_NOTHING, now_ns);
		return;
	}
	if (weir_request_is(request, WEIR_REQUEST_WAITING))
		say_continue(conn, request);
	if (conn->state == WEIR_H1_BODY || conn->state == WEIR_H1_TRAILERS)
		weir_http_wait_for(conn, WEIR_WAIT_BODY, now_ns);
	weir_h1_go_on(conn);
}

/* ---- its end ---- */

static void body_over(weir_http_conn *conn, weir_request *request)
{
	conn->state = WEIR_H1_ANSWER;
	conn->wait = WEIR_WAIT_NOTHING;
	weir_request_body_end(request);
}

/* The body is malformed or too large. The client gets an answer, unless one has begun. */
static void body_is_bad(weir_http_conn *conn, weir_request *request, unsigned status, const char *error)
{
	conn->flags |= WEIR_CONN_LAST;
	if (weir_request_is_early(request)) {
		weir_request_refuse(request, status, error);
		return;
	}
	weir_http_count(&conn->loop->counts.malformed);
	bool begun = weir_request_is(request, WEIR_REQUEST_BEGUN | WEIR_REQUEST_ENDED);
	weir_http_tell_refused(conn->loop, &conn->client, begun ? 0 : status, error);
	if (request->body_mode == WEIR_BODY_DROP && weir_request_is(request, WEIR_REQUEST_ENDED))
		weir_request_body_given_up(request);
	else if (begun)
		weir_h1_lose(conn, -EPROTO, error);
	else
		weir_h1_refuse_body(conn, status, error);
}

/* ---- with a length ---- */

static size_t take_length(weir_http_conn *conn, weir_request *request, weir_buf *buf, size_t at, size_t end)
{
	size_t length = end - at;
	if (length > request->body_left)
		length = (size_t)request->body_left;
	request->body_left -= length;
	bool last = request->body_left == 0;
	weir_request_body_data(request, buf, at, length);
	if (last && conn->request == request)
		body_over(conn, request);
	return length;
}

/* ---- chunked ---- */

static bool too_much(weir_http_conn *conn, weir_request *request)
{
	if (request->body_received > conn->loop->limits.body_bytes) {
		body_is_bad(conn, request, 413, "the body is larger than the server takes");
		return true;
	}
	if (request->body_mode == WEIR_BODY_DROP && weir_request_is(request, WEIR_REQUEST_ENDED) &&
	    request->body_received > WEIR_H1_DRAIN_BYTES) {
		conn->flags |= WEIR_CONN_LAST;
		weir_request_body_given_up(request);
		return true;
	}
	return false;
}

static size_t take_chunks(weir_http_conn *conn, weir_request *request, weir_buf *buf, size_t at, size_t end)
{
	size_t used = 0, data = 0, length = 0;
	weir_parse result = weir_chunks_take(&request->chunk, (const char *)buf->data + at, end - at, &used,
					     &data, &length);
	if (result == WEIR_PARSE_BAD) {
		body_is_bad(conn, request, 400, request->chunk.error);
		return end - at;
	}
	if (result == WEIR_PARSE_DONE)
		conn->state = WEIR_H1_TRAILERS;
	if (length > 0) {
		weir_request_body_data(request, buf, at + data, length);
		if (conn->request == request)
			too_much(conn, request);
	}
	return used;
}

size_t weir_h1_body(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	weir_request *request = conn->request;
	conn->since_ns = weir_loop_time(conn->loop->loop);
	request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
	return request->head.framing == WEIR_BODY_CHUNKED ? take_chunks(conn, request, buf, at, end)
							  : take_length(conn, request, buf, at, end);
}

/* ---- trailers ---- */

static weir_trailers *make_trailers(weir_request *request)
{
	weir_trailers *trailers =
		weir_mem_zalloc(sizeof(*trailers) + TRAILERS_MOST * sizeof(weir_head_field));
	if (trailers != NULL)
		weir_head_init(&trailers->head);
	return request->trailers = trailers;
}

static bool keep_trailers(weir_trailers *trailers, const char *bytes)
{
	trailers->base = weir_mem_zalloc(trailers->head.length);
	if (trailers->base == NULL)
		return false;
	memcpy(trailers->base, bytes, trailers->head.length);
	trailers->count = trailers->head.field_count;
	return true;
}

size_t weir_h1_trailers(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	weir_request *request = conn->request;
	const char *bytes = (const char *)buf->data + at;
	const weir_head_limits limits = {TRAILER_BYTES_MOST, TRAILER_BYTES_MOST, TRAILERS_MOST};
	conn->since_ns = weir_loop_time(conn->loop->loop);
	/* Usually there are none. */
	if (request->trailers == NULL && end - at >= 2 && memcmp(bytes, "\r\n", 2) == 0) {
		body_over(conn, request);
		return 2;
	}
	if (end - at < 2)
		return 0;
	weir_trailers *trailers = request->trailers != NULL ? request->trailers : make_trailers(request);
	if (trailers == NULL) {
		body_is_bad(conn, request, 503, "out of memory");
		return end - at;
	}
	weir_parse result = weir_parse_trailers(&trailers->head, bytes, end - at, &limits, trailers->fields);
	if (result == WEIR_PARSE_MORE)
		return 0;
	size_t used = trailers->head.length;
	if (result == WEIR_PARSE_BAD || !keep_trailers(trailers, bytes)) {
		body_is_bad(conn, request, 400,
			    trailers->head.error != NULL ? trailers->head.error : "out of memory");
		return end - at;
	}
	body_over(conn, request);
	return used;
}

/* ---- tunnels ---- */

size_t weir_h1_tunnel(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end)
{
	weir_request_body_data(conn->request, buf, at, end - at);
	return end - at;
}
