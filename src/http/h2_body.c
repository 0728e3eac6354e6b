/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests. Bytes go to the handler without a copy. While nobody reads they are copied and held, up
 * to the windows. A window is given back when bytes are taken, not when they arrive.
 */
#include <string.h>

#include "http/grpc.h"
#include "http/h2.h"

#define HELD_LEAST 4096u
/* A stream of gRPC that has been answered may be silent for this long, like a tunnel. */
#define SILENCE_NS (3600 * WEIR_NS_PER_S)

static bool waits(const weir_request *request)
{
	return request->body_mode == WEIR_BODY_HELD || request->body_mode == WEIR_BODY_PAUSED;
}

static void consumed(weir_h2_stream *stream, size_t length)
{
	weir_h2_window_back_stream(stream, length);
	weir_h2_go_on(stream->h2);
}

static size_t held_bytes(const weir_h2_stream *stream)
{
	return stream->held != NULL ? stream->held->length - stream->held_at : 0;
}

void weir_h2_body_drop(weir_h2_stream *stream)
{
	size_t length = held_bytes(stream);
	weir_buf_unref(stream->held);
	stream->held = NULL;
	stream->held_at = 0;
	/* The stream's window does not matter any more; the connection's does. */
	if (length > 0 && !(stream->h2->flags & WEIR_H2_CLOSED)) {
		weir_h2_window_back(stream->h2, length);
		weir_h2_go_on(stream->h2);
	}
}

void weir_h2_body_is_bad(weir_h2_stream *stream, unsigned status, uint32_t code, const char *error)
{
	weir_request *request = stream->request;
	if (request == NULL)
		return;
	weir_http_count(&stream->h2->conn->loop->counts.malformed);
	/* While the body is being collected the client can still get an answer. */
	if (weir_request_is_early(request)) {
		weir_request_refuse(request, status, error);
		return;
	}
	weir_http_tell_refused(request->loop, &request->client, 0, error);
	weir_h2_stream_lose(stream, code, error);
}

/* ---- giving ---- */

static bool too_much(weir_h2_stream *stream)
{
	const weir_request *request = stream->request;
	/* If the body is dropped, an answer is already on its way. */
	if (request->body_mode == WEIR_BODY_DROP ||
	    request->body_received <= stream->h2->conn->loop->limits.body_bytes)
		return false;
	weir_h2_body_is_bad(stream, 413, WEIR_H2_CANCEL, "the body is larger than the server takes");
	return true;
}

/* The handler may do anything, but the stream still exists: none is freed within a call. */
static void give(weir_h2_stream *stream, weir_buf *buf, size_t offset, size_t length)
{
	weir_request_body_data(stream->request, buf, offset, length);
	if (stream->request != NULL)
		too_much(stream);
	consumed(stream, length);
}

/* As much as a frame has, so that a handler that pauses has no more to keep than while frames arrive. */
static void give_held(weir_h2_stream *stream)
{
	weir_buf *held = weir_buf_ref(stream->held);
	size_t at = stream->held_at, length = held_bytes(stream);
	if (length > WEIR_H2_FRAME_MOST) {
		length = WEIR_H2_FRAME_MOST;
		stream->held_at += length;
	} else {
		weir_buf_unref(stream->held);
		stream->held = NULL;
		stream->held_at = 0;
	}
	give(stream, held, at, length);
	weir_buf_unref(held);
}

static void run(weir_h2_stream *stream)
{
	if (stream->flags & WEIR_H2_DELIVERING)
		return;
	stream->flags |= WEIR_H2_DELIVERING;
	while (stream->request != NULL && stream->held != NULL && !waits(stream->request))
		give_held(stream);
	stream->flags &= ~(uint32_t)WEIR_H2_DELIVERING;
	weir_request *request = stream->request;
	if (request != NULL && stream->flags & WEIR_H2_RECEIVED && stream->held == NULL && !waits(request) &&
	    !weir_request_is(request, WEIR_REQUEST_BODY_OVER))
		weir_request_body_end(request);
}

/* ---- holding ---- */

static bool make_room(weir_h2_stream *stream, size_t length)
{
	weir_buf *old = stream->held;
	size_t have = held_bytes(stream);
	if (old != NULL && old->capacity - old->length >= length)
		return true;
	size_t size = 2 * (have + length);
	weir_buf *larger = weir_buf_new(size > HELD_LEAST ? size : HELD_LEAST);
	if (larger == NULL)
		return false;
	if (have > 0)
		memcpy(larger->data, old->data + stream->held_at, have);
	larger->length = (uint32_t)have;
	weir_buf_unref(old);
	stream->held = larger;
	stream->held_at = 0;
	return true;
}

/* Copied, because a reference would keep a whole read alive for one byte of it. */
static void hold(weir_h2_stream *stream, const uint8_t *bytes, size_t length)
{
	if (!make_room(stream, length)) {
		weir_h2_window_back(stream->h2, length);
		weir_h2_body_is_bad(stream, 503, WEIR_H2_INTERNAL_ERROR, "out of memory");
		return;
	}
	memcpy(stream->held->data + stream->held->length, bytes, length);
	stream->held->length += (uint32_t)length;
}

/* ---- from frames ---- */

static void drain(weir_h2_stream *stream, size_t length)
{
	consumed(stream, length);
	if (!(stream->flags & WEIR_H2_LINGERS))
		return;
	stream->drain_left -= length < stream->drain_left ? (uint32_t)length : stream->drain_left;
	if (stream->drain_left == 0)
		weir_h2_stream_reset(stream, WEIR_H2_NO_ERROR);
}

void weir_h2_body_data(weir_h2_stream *stream, const uint8_t *bytes, size_t length)
{
	weir_h2 *h2 = stream->h2;
	weir_request *request = stream->request;
	if (request == NULL) {
		drain(stream, length);
		return;
	}
	stream->body_ns = weir_h2_now(h2);
	request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
	if (request->body_left != WEIR_UNKNOWN_LENGTH)
		request->body_left -= length;
	if (waits(request) || stream->held != NULL || stream->flags & WEIR_H2_DELIVERING)
		hold(stream, bytes, length);
	else
		give(stream, h2->in, (size_t)(bytes - h2->in->data), length);
}

void weir_h2_body_end(weir_h2_stream *stream)
{
	stream->flags |= WEIR_H2_RECEIVED;
	if (stream->request != NULL)
		run(stream);
}

/* ---- from the request ---- */

/*
 * The answer is out. A short rest of the body is read away, since some clients (curl before 8) forget the
 * answer when their stream is reset. A long one is refused with a reset (RFC 9113 8.1).
 */
void weir_h2_body_linger(weir_h2_stream *stream, uint64_t left)
{
	if (stream->flags & (WEIR_H2_RECEIVED | WEIR_H2_RESET))
		return;
	if (left != WEIR_UNKNOWN_LENGTH && left > WEIR_H2_DRAIN_BYTES) {
		weir_h2_stream_reset(stream, WEIR_H2_NO_ERROR);
		return;
	}
	stream->flags |= WEIR_H2_LINGERS;
	stream->drain_left = WEIR_H2_DRAIN_BYTES;
	stream->body_ns = weir_h2_now(stream->h2);
	weir_h2_arm(stream->h2, stream->body_ns, stream->h2->conn->loop->limits.body_gap_ns);
}

/* Nobody wants the rest. While the answer is on its way, the rest is dropped. */
static void drop_rest(weir_h2_stream *stream, weir_request *request)
{
	weir_h2_body_drop(stream);
	if (!weir_request_is(request, WEIR_REQUEST_ENDED) || weir_request_is(request, WEIR_REQUEST_BODY_OVER))
		return;
	weir_h2_body_linger(stream, request->body_left);
	weir_request_body_given_up(request);
}

void weir_h2_want(weir_request *request)
{
	weir_h2_stream *stream = request->stream;
	weir_h2 *h2 = stream->h2;
	if (request->body_mode == WEIR_BODY_DROP) {
		drop_rest(stream, request);
		return;
	}
	if (waits(request))
		return;
	if (weir_request_is(request, WEIR_REQUEST_WAITING)) {
		request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
		if (request->body_received == 0 && stream->held == NULL)
			weir_h2_write_continue(stream);
	}
	stream->body_ns = weir_h2_now(h2);
	if (!(stream->flags & WEIR_H2_RECEIVED)) {
		/* A handler that reads takes bytes as they arrive, so the client may send more at once. */
		if (request->body_left > WEIR_H2_STREAM_WINDOW)
			weir_h2_window_widen(stream, WEIR_H2_READ_WINDOW);
		weir_h2_arm(h2, stream->body_ns, h2->conn->loop->limits.body_gap_ns);
		weir_h2_go_on(h2);
	}
	run(stream);
}

/* ---- time-outs ---- */

static bool is_waited_for(const weir_h2_stream *stream)
{
	const weir_request *request = stream->request;
	if (stream->flags & (WEIR_H2_HEAD | WEIR_H2_RECEIVED | WEIR_H2_RESET))
		return false;
	if (request == NULL)
		return stream->flags & WEIR_H2_LINGERS;
	return request->body_mode == WEIR_BODY_READ || weir_request_is_early(request);
}

static bool is_conversation(const weir_request *request)
{
	return request != NULL && weir_request_is(request, WEIR_REQUEST_BEGUN) &&
	       request->body_mode == WEIR_BODY_READ && weir_grpc_is(request);
}

uint64_t weir_h2_body_deadline(const weir_h2_stream *stream)
{
	const weir_http_limits *limits = &stream->h2->conn->loop->limits;
	if (!is_waited_for(stream))
		return UINT64_MAX;
	if (is_conversation(stream->request)) {
		uint64_t last_ns =
			stream->body_ns > stream->progress_ns ? stream->body_ns : stream->progress_ns;
		return last_ns + SILENCE_NS;
	}
	uint64_t gap_ns = limits->body_gap_ns > UINT64_MAX - stream->body_ns
				  ? UINT64_MAX
				  : stream->body_ns + limits->body_gap_ns;
	if (stream->request == NULL)
		return gap_ns;
	uint64_t rate_ns = weir_http_rate_deadline(limits, stream->request);
	return gap_ns < rate_ns ? gap_ns : rate_ns;
}
