/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over HTTP/2: what their owners do with them, and what becomes of them. */
#include <errno.h>

#include "base/assert.h"
#include "loop/loop.h"
#include "sentry/upstream_h2.h"

static void touch(weir_upstream_stream *stream)
{
	stream->progress_ns = weir_loop_time(stream->h2->conn->upstream->loop);
}

/* ---- a connection's streams ---- */

void weir_upstream_h2_link(weir_upstream_h2 *h2, weir_upstream_stream *stream)
{
	stream->h2 = h2;
	stream->next = NULL;
	stream->at = h2->end;
	*h2->end = stream;
	h2->end = &stream->next;
	h2->count++;
	h2->waiting += stream->head != NULL;
}

void weir_upstream_h2_unlink(weir_upstream_stream *stream)
{
	weir_upstream_h2 *h2 = stream->h2;
	*stream->at = stream->next;
	*(stream->next != NULL ? &stream->next->at : &h2->end) = stream->at;
	h2->count--;
	h2->waiting -= stream->head != NULL;
}

/* Separates call and stream, gives the place back and frees the stream. Returns the call. */
static weir_call *part(weir_upstream_stream *stream)
{
	weir_upstream *upstream = stream->h2->conn->upstream;
	weir_call *call = stream->call;
	WEIR_ASSERT(call->stream == stream);
	call->stream = NULL;
	weir_upstream_h2_unlink(stream);
	weir_buf_unref(stream->head);
	if (!call->probe)
		weir_origin_give(stream->h2->conn->lane->backend);
	weir_pool_give(&upstream->streams, stream);
	return call;
}

/* ---- failures ---- */

static weir_call_step step_of(const weir_upstream_stream *stream)
{
	weir_call_step step = weir_upstream_step(stream->h2->conn);
	if (step != WEIR_CALL_ANSWER)
		return step;
	return stream->headed ? WEIR_CALL_BODY : stream->received ? WEIR_CALL_HEAD : WEIR_CALL_ANSWER;
}

/* When a connection ends, all of its calls fail, but the backend has failed once. */
static void blame(weir_upstream_h2 *h2, const weir_call_failure *failure, bool once)
{
	const weir_upstream_conn *conn = h2->conn;
	if (!weir_upstream_is_to_blame(failure) || (once && h2->blamed))
		return;
	h2->blamed |= once;
	weir_fleet_failed(conn->upstream->fleet, conn->lane->backend, weir_loop_time(conn->upstream->loop));
}

static void tell(weir_upstream_stream *stream, weir_call_failure *failure, bool once)
{
	weir_upstream_h2 *h2 = stream->h2;
	weir_h2_ask *ask = stream->ask;
	failure->received = stream->received;
	weir_call *call = part(stream);
	if (ask != NULL)
		weir_h2_ask_cancel(ask, weir_loop_time(h2->conn->upstream->loop));
	if (!call->probe) {
		WEIR_COUNT(h2->conn->lane->counts.failures, 1);
		blame(h2, failure, once);
	}
	call->ops->failed(call, failure);
	/* The connection is still there: only the loop ends it. */
	weir_upstream_h2_look(h2);
}

void weir_upstream_h2_lose(weir_upstream_stream *stream, int error, const char *text)
{
	weir_call_failure failure = {.step = step_of(stream),
				     .error = error,
				     .sent = stream->ask != NULL || stream->headed,
				     .reused = stream->reused,
				     .text = text};
	tell(stream, &failure, true);
}

void weir_upstream_h2_refuse(weir_upstream_stream *stream, bool busy, const char *text)
{
	/* One that has left in an orderly way is like a kept connection that was closed under a request. */
	weir_call_failure failure = {.step = step_of(stream),
				     .error = busy ? -EBUSY : -ECONNRESET,
				     .reused = !busy,
				     .refused = busy,
				     .text = text};
	tell(stream, &failure, false);
}

static void ask_failed(weir_h2_ask *ask, weir_h2_fate fate, const char *text)
{
	weir_upstream_stream *stream = weir_h2_ask_arg(ask);
	weir_call_failure failure = {.step = step_of(stream),
				     .error = fate == WEIR_H2_ABORTED    ? -ECONNRESET
					      : fate == WEIR_H2_NONSENSE ? -EPROTO
									 : -ENOMEM,
				     .sent = true,
				     .text = text};
	stream->ask = NULL;
	if (fate == WEIR_H2_REFUSED || fate == WEIR_H2_EXCLUDED)
		weir_upstream_h2_refuse(stream, fate == WEIR_H2_REFUSED, text);
	else
		tell(stream, &failure, false);
}

/* ---- answers ---- */

static weir_call_answer answer_of(const weir_h2_answer *answer)
{
	return (weir_call_answer){.head = answer->head,
				  .fields = answer->fields,
				  .bytes = answer->bytes,
				  .length = answer->length,
				  .bodiless = answer->bodiless};
}

static void last_head(weir_upstream_stream *stream, const weir_call_answer *answer)
{
	weir_upstream_h2 *h2 = stream->h2;
	weir_call *call = stream->call;
	stream->ask = NULL;
	if (call->ops->whole != NULL) {
		part(stream);
		call->ops->whole(call, answer, NULL, 0, 0);
	} else {
		call->ops->head(call, answer);
		if (call->stream == stream && !stream->paused) {
			part(stream);
			call->ops->end(call, NULL);
		}
	}
	weir_upstream_h2_look(h2);
}

static void ask_head(weir_h2_ask *ask, const weir_h2_answer *from)
{
	weir_upstream_stream *stream = weir_h2_ask_arg(ask);
	weir_call *call = stream->call;
	weir_call_answer answer = answer_of(from);
	touch(stream);
	stream->received = true;
	if (answer.head->status < 200) {
		call->ops->interim(call, &answer);
		return;
	}
	stream->headed = true;
	stream->streams = weir_upstream_is_stream(&answer);
	if (!call->probe)
		weir_origin_answered(stream->h2->conn->lane->backend, stream->progress_ns - call->started_ns);
	if (from->last) {
		last_head(stream, &answer);
		return;
	}
	weir_upstream_h2_arm(stream->h2, weir_upstream_h2_stream_deadline(stream));
	call->ops->head(call, &answer);
}

static void ask_data(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length)
{
	weir_upstream_stream *stream = weir_h2_ask_arg(ask);
	touch(stream);
	stream->call->ops->data(stream->call, buf, offset, length);
}

static void ask_end(weir_h2_ask *ask, const weir_h2_answer *trailers)
{
	weir_upstream_stream *stream = weir_h2_ask_arg(ask);
	weir_upstream_h2 *h2 = stream->h2;
	weir_call_answer answer = trailers != NULL ? answer_of(trailers) : (weir_call_answer){0};
	weir_call *call = part(stream);
	call->ops->end(call, trailers != NULL ? &answer : NULL);
	weir_upstream_h2_look(h2);
}

static void ask_drained(weir_h2_ask *ask)
{
	weir_upstream_stream *stream = weir_h2_ask_arg(ask);
	touch(stream);
	if (stream->call->ops->drained != NULL)
		stream->call->ops->drained(stream->call);
}

static const weir_h2_ask_ops ask_ops = {
	.head = ask_head, .data = ask_data, .end = ask_end, .failed = ask_failed, .drained = ask_drained};

/* ---- requests ---- */

void weir_upstream_h2_ask(weir_upstream_stream *stream)
{
	weir_upstream_h2 *h2 = stream->h2;
	weir_call *call = stream->call;
	weir_buf *head = stream->head;
	stream->head = NULL;
	h2->waiting--;
	stream->ask = weir_h2_ask_new(h2->client, &ask_ops, stream, (weir_method)call->method, head,
				      call->framing != WEIR_BODY_NONE);
	weir_buf_unref(head);
	if (stream->ask == NULL) {
		weir_upstream_h2_lose(stream, -ENOMEM, "out of memory");
		return;
	}
	stream->request_done = call->framing == WEIR_BODY_NONE;
	touch(stream);
	weir_upstream_h2_arm(h2, weir_upstream_h2_stream_deadline(stream));
	if (call->ops->ready != NULL)
		call->ops->ready(call);
}

int weir_upstream_h2_send(weir_upstream_stream *stream, weir_buf *buf, size_t offset, size_t length)
{
	if (stream->ask == NULL)
		return stream->headed ? 0 : -ENOBUFS;
	if (weir_h2_ask_output(stream->ask) == 0) {
		touch(stream);
		stream->left = SIZE_MAX;
	}
	int error = weir_h2_ask_send(stream->ask, buf, offset, length);
	weir_upstream_h2_arm(stream->h2, weir_upstream_h2_stream_deadline(stream));
	/* A stream with a hole in its body is of no use. */
	if (error == -ENOMEM)
		weir_conn_abort(stream->h2->conn->link.conn, error);
	return error;
}

void weir_upstream_h2_finish(weir_upstream_stream *stream, const weir_field *trailers, size_t count)
{
	if (stream->ask == NULL || stream->request_done)
		return;
	stream->request_done = true;
	touch(stream);
	weir_upstream_h2_arm(stream->h2, weir_upstream_h2_stream_deadline(stream));
	if (weir_h2_ask_finish(stream->ask, trailers, count) != 0)
		weir_conn_abort(stream->h2->conn->link.conn, -ENOMEM);
}

bool weir_upstream_h2_clogged(const weir_upstream_stream *stream)
{
	return stream->ask != NULL && weir_h2_ask_clogged(stream->ask);
}

void weir_upstream_h2_pause(weir_upstream_stream *stream)
{
	stream->paused = true;
	if (stream->ask != NULL)
		weir_h2_ask_pause(stream->ask);
}

void weir_upstream_h2_resume(weir_upstream_stream *stream)
{
	weir_upstream_h2 *h2 = stream->h2;
	if (!stream->paused)
		return;
	stream->paused = false;
	touch(stream);
	weir_upstream_h2_arm(h2, weir_upstream_h2_stream_deadline(stream));
	if (stream->ask != NULL) {
		weir_h2_ask_resume(stream->ask);
	} else if (stream->headed) {
		/* It was paused by the head of an answer that has no body. */
		weir_call *call = part(stream);
		call->ops->end(call, NULL);
		weir_upstream_h2_look(h2);
	}
}

void weir_upstream_h2_abort(weir_upstream_stream *stream)
{
	weir_upstream_h2 *h2 = stream->h2;
	weir_h2_ask *ask = stream->ask;
	part(stream);
	if (ask != NULL)
		weir_h2_ask_cancel(ask, weir_loop_time(h2->conn->upstream->loop));
	weir_upstream_h2_look(h2);
}

/* ---- time ---- */

static uint64_t step_deadline(const weir_upstream_stream *stream)
{
	const weir_upstream_limits *limits = &stream->h2->conn->upstream->limits;
	/* The connection has its own deadlines while it is being made. */
	if (stream->ask == NULL || stream->paused)
		return UINT64_MAX;
	if (stream->headed)
		return weir_upstream_after(stream->progress_ns,
					   stream->streams ? limits->stream_ns : limits->gap_ns);
	if (stream->request_done)
		return weir_upstream_after(stream->progress_ns, limits->head_ns);
	/* Until the request is given, the client has its own timeouts. */
	return weir_h2_ask_output(stream->ask) > 0 ? weir_upstream_after(stream->progress_ns, limits->send_ns)
						   : UINT64_MAX;
}

bool weir_upstream_h2_has_moved(weir_upstream_stream *stream)
{
	size_t left = stream->ask != NULL && !stream->headed ? weir_h2_ask_output(stream->ask) : 0;
	if (left == 0 || left >= stream->left)
		return false;
	stream->left = left;
	touch(stream);
	return true;
}

uint64_t weir_upstream_h2_stream_deadline(const weir_upstream_stream *stream)
{
	uint64_t at_ns = step_deadline(stream), total_ns = stream->h2->conn->upstream->limits.total_ns;
	if (total_ns == 0)
		return at_ns;
	uint64_t end_ns = weir_upstream_after(stream->call->started_ns, total_ns);
	return end_ns < at_ns ? end_ns : at_ns;
}
