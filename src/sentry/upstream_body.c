/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend sends: heads, bodies, trailers, and what it should not send. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "http/grpc.h"
#include "loop/loop.h"
#include "sentry/upstream_h2.h"

#define INTERIMS_MOST 16

/* Bytes that have come and are not used yet. */
typedef struct incoming {
	weir_buf *buf;
	size_t offset, length;
} incoming;

static void advance(incoming *in, size_t count)
{
	in->offset += count;
	in->length -= count;
}

/* A callback may end a call, and another may begin on the same connection. */
static bool is_same(const weir_upstream_conn *conn, uint32_t serial)
{
	return conn->serial == serial;
}

static void touch(weir_upstream_conn *conn)
{
	conn->progress_ns = weir_loop_time(conn->upstream->loop);
}

static void free_partial(weir_partial *partial)
{
	if (partial == NULL)
		return;
	weir_buf_unref(partial->buf);
	weir_mem_free(partial);
}

void weir_upstream_expect(weir_upstream_conn *conn)
{
	conn->phase = WEIR_PHASE_HEAD;
	conn->interims = 0;
	conn->keep = conn->received = conn->paused = conn->ended = false;
}

void weir_upstream_forget(weir_upstream_conn *conn)
{
	free_partial(conn->partial);
	weir_buf_unref(conn->stash);
	weir_buf_unref(conn->head);
	conn->partial = NULL;
	conn->stash = conn->head = NULL;
}

/* ---- the end of an answer ---- */

/*
 * used: the bytes that belong to the answer; there should be no more. The call is not paused. The caller
 * tells the call, as the last thing it does.
 */
static weir_call *part_at_end(weir_upstream_conn *conn, incoming *in, size_t used)
{
	bool again =
		conn->keep && conn->request_done && in->length == used && !conn->ended && !conn->call->probe;
	advance(in, in->length);
	weir_call *call = weir_upstream_part(conn);
	if (again)
		weir_upstream_keep(conn);
	else
		weir_upstream_cut(conn, 0);
	return call;
}

static void finish(weir_upstream_conn *conn, incoming *in, const weir_call_answer *trailers)
{
	weir_call *call = part_at_end(conn, in, 0);
	call->ops->end(call, trailers);
}

void weir_upstream_finish(weir_upstream_conn *conn)
{
	finish(conn, &(incoming){0}, NULL);
}

/* ---- heads and trailers, complete or in parts ---- */

typedef struct found {
	weir_call_answer answer;
	weir_head head;
	weir_partial *partial; /* freed once the answer has been used */
} found;

static weir_parse parse(const weir_upstream_conn *conn, weir_head *head, const char *bytes, size_t length)
{
	const weir_head_limits *limits = &conn->upstream->head_limits;
	weir_head_field *fields = conn->upstream->fields;
	if (conn->phase == WEIR_PHASE_TRAILERS)
		return weir_parse_trailers(head, bytes, length, limits, fields);
	return weir_parse_answer(head, bytes, length, limits, (weir_method)conn->call->method, fields);
}

static weir_partial *new_partial(const weir_upstream *upstream)
{
	weir_partial *partial = weir_mem_zalloc(sizeof(*partial));
	if (partial == NULL)
		return NULL;
	/* One byte more than is allowed: a head that fills it is too long. */
	partial->buf = weir_buf_new(upstream->head_limits.head_bytes + 1);
	if (partial->buf == NULL) {
		weir_mem_free(partial);
		return NULL;
	}
	weir_head_init(&partial->head);
	return partial;
}

/* Continues a head that comes in parts; *ret_used says how many of the bytes belong to it. */
static weir_parse add_to_partial(weir_upstream_conn *conn, const incoming *in, size_t *ret_used)
{
	weir_partial *partial = conn->partial;
	weir_buf *buf = partial->buf;
	size_t before = buf->length, room = buf->capacity - before;
	size_t part = in->length < room ? in->length : room;
	memcpy(buf->data + before, in->buf->data + in->offset, part);
	buf->length += (uint32_t)part;
	weir_parse parsed = parse(conn, &partial->head, (const char *)buf->data, buf->length);
	if (parsed == WEIR_PARSE_MORE && part < in->length)
		return WEIR_PARSE_BAD;
	*ret_used = parsed == WEIR_PARSE_DONE ? partial->head.length - before : part;
	return parsed;
}

static weir_parse find_in_parts(weir_upstream_conn *conn, incoming *in, found *out)
{
	size_t used = 0;
	if (conn->partial == NULL && (conn->partial = new_partial(conn->upstream)) == NULL)
		return WEIR_PARSE_BAD;
	weir_parse parsed = add_to_partial(conn, in, &used);
	if (parsed != WEIR_PARSE_DONE) {
		advance(in, in->length);
		return parsed;
	}
	advance(in, used);
	out->partial = conn->partial;
	conn->partial = NULL;
	out->head = out->partial->head;
	out->answer.bytes = (const char *)out->partial->buf->data;
	return parsed;
}

/* A head is nearly always in one piece, and is parsed in place. */
static weir_parse find(weir_upstream_conn *conn, incoming *in, found *out)
{
	const char *bytes = (const char *)in->buf->data + in->offset;
	out->partial = NULL;
	out->answer =
		(weir_call_answer){.head = &out->head, .fields = conn->upstream->fields, .bytes = bytes};
	if (conn->partial != NULL)
		return find_in_parts(conn, in, out);
	weir_head_init(&out->head);
	weir_parse parsed = parse(conn, &out->head, bytes, in->length);
	if (parsed == WEIR_PARSE_MORE)
		return find_in_parts(conn, in, out);
	if (parsed == WEIR_PARSE_DONE)
		advance(in, out->head.length);
	return parsed;
}

/* ---- heads ---- */

static void interim_head(weir_upstream_conn *conn, const weir_call_answer *answer)
{
	if (++conn->interims > INTERIMS_MOST)
		weir_upstream_fail(conn, -EPROTO, "too many interim answers");
	else
		conn->call->ops->interim(conn->call, answer);
}

static void upgrade_head(weir_upstream_conn *conn, const weir_call_answer *answer)
{
	if (!conn->call->upgrade) {
		weir_upstream_fail(conn, -EPROTO, "switched protocols unasked");
		return;
	}
	conn->phase = WEIR_PHASE_TUNNEL;
	conn->keep = false;
	touch(conn);
	weir_upstream_arm(conn);
	conn->call->ops->upgraded(conn->call, answer);
}

static void whole_answer(weir_upstream_conn *conn, const weir_call_answer *answer, incoming *in)
{
	size_t length = answer->bodiless ? 0 : (size_t)answer->length, offset = in->offset;
	weir_call *call = part_at_end(conn, in, length);
	call->ops->whole(call, answer, length > 0 ? in->buf : NULL, offset, length);
}

static enum weir_upstream_phase phase_of(const weir_head *head)
{
	switch (head->framing) {
	case WEIR_BODY_CHUNKED:
		return WEIR_PHASE_CHUNKS;
	case WEIR_BODY_TO_END:
		return WEIR_PHASE_TO_END;
	default:
		return WEIR_PHASE_LENGTH;
	}
}

bool weir_upstream_is_stream(const weir_call_answer *answer)
{
	static const char events[] = "text/event-stream";
	for (unsigned i = 0; i < answer->head->field_count; i++) {
		const weir_head_field *field = &answer->fields[i];
		weir_span type = {answer->bytes + field->value, field->value_length};
		if (field->id == WEIR_FIELD_CONTENT_TYPE)
			return weir_grpc_is_type(type) ||
			       (type.length >= sizeof(events) - 1 &&
				strncasecmp(type.at, events, sizeof(events) - 1) == 0);
	}
	return false;
}

static void count_answer(weir_upstream_conn *conn, unsigned status)
{
	unsigned kind = status / 100 - 2;
	if (status >= 200 && kind < WEIR_ANSWER_KINDS && !conn->call->probe)
		WEIR_COUNT(conn->lane->counts.answers[kind], 1);
}

/* The head of a final answer is here. */
static inline void note_head(weir_upstream_conn *conn, const weir_head *head)
{
	weir_call *call = conn->call;
	conn->keep = (head->flags & WEIR_HEAD_KEEP) != 0;
	touch(conn);
	if (!call->probe)
		weir_origin_answered(conn->lane->backend, conn->progress_ns - call->started_ns);
}

static void final_head(weir_upstream_conn *conn, weir_call_answer *answer, incoming *in)
{
	const weir_head *head = answer->head;
	weir_call *call = conn->call;
	note_head(conn, head);
	conn->phase = (uint8_t)phase_of(head);
	conn->streams = conn->phase != WEIR_PHASE_LENGTH && weir_upstream_is_stream(answer);
	conn->chunks = (weir_chunks){0};
	answer->bodiless = head->framing == WEIR_BODY_NONE;
	answer->length = head->framing == WEIR_BODY_CHUNKED || head->framing == WEIR_BODY_TO_END
				 ? WEIR_UNKNOWN_LENGTH
				 : head->body_length;
	conn->left = answer->bodiless ? 0 : answer->length;
	if (conn->phase == WEIR_PHASE_LENGTH && conn->left <= in->length && call->ops->whole != NULL) {
		weir_answers_keep(&conn->upstream->recent, head, answer->fields, answer->bytes,
				  head->length + in->length);
		whole_answer(conn, answer, in);
		return;
	}
	weir_upstream_arm(conn);
	uint32_t serial = conn->serial;
	call->ops->head(call, answer);
	if (!is_same(conn, serial))
		return;
	if (call->pulls)
		weir_upstream_start_pulling(conn, in->length);
	if (conn->phase == WEIR_PHASE_LENGTH && conn->left == 0 && !conn->paused)
		finish(conn, in, NULL);
}

static void take_head(weir_upstream_conn *conn, incoming *in)
{
	found f;
	conn->received = true;
	switch (find(conn, in, &f)) {
	case WEIR_PARSE_MORE:
		return;
	case WEIR_PARSE_BAD:
		weir_upstream_fail(conn, -EPROTO, "the head of the answer is malformed or too large");
		return;
	case WEIR_PARSE_DONE:
		break;
	}
	count_answer(conn, f.head.status);
	if (f.head.status == 101)
		upgrade_head(conn, &f.answer);
	else if (f.head.status < 200)
		interim_head(conn, &f.answer);
	else
		final_head(conn, &f.answer, in);
	free_partial(f.partial);
}

/* As take_head, for an answer that is whole and whose head came before; false: it is not. */
static bool take_recent(weir_upstream_conn *conn, incoming *in)
{
	const weir_call *call = conn->call;
	const char *bytes = (const char *)in->buf->data + in->offset;
	if (conn->phase != WEIR_PHASE_HEAD || conn->partial != NULL || conn->paused ||
	    call->ops->whole == NULL || call->method == WEIR_METHOD_HEAD ||
	    call->method == WEIR_METHOD_CONNECT)
		return false;
	weir_recent_answer *recent = weir_answers_find(&conn->upstream->recent, bytes, in->length);
	if (recent == NULL)
		return false;
	const weir_head *head = &recent->head;
	weir_call_answer answer = {.head = head,
				   .fields = recent->fields,
				   .bytes = bytes,
				   .length = head->body_length,
				   .recent = recent};
	count_answer(conn, head->status);
	note_head(conn, head);
	advance(in, head->length);
	whole_answer(conn, &answer, in);
	return true;
}

static void take_trailers(weir_upstream_conn *conn, incoming *in)
{
	found f;
	switch (find(conn, in, &f)) {
	case WEIR_PARSE_MORE:
		return;
	case WEIR_PARSE_BAD:
		weir_upstream_fail(conn, -EPROTO, "the trailers of the answer are malformed or too large");
		return;
	case WEIR_PARSE_DONE:
		break;
	}
	finish(conn, in, f.head.field_count > 0 ? &f.answer : NULL);
	free_partial(f.partial);
}

/* ---- bodies ---- */

static void give(weir_upstream_conn *conn, const incoming *in, size_t offset, size_t length)
{
	conn->call->ops->data(conn->call, in->buf, offset, length);
}

static void take_length(weir_upstream_conn *conn, incoming *in)
{
	uint32_t serial = conn->serial;
	size_t part = in->length < conn->left ? in->length : (size_t)conn->left, offset = in->offset;
	conn->left -= part;
	advance(in, part);
	if (conn->left == 0 && conn->call->pulls)
		weir_conn_set_pull(conn->link.conn, NULL);
	if (part > 0)
		give(conn, in, offset, part);
	/* A call that is paused at its last byte gets the end when it is resumed. */
	if (is_same(conn, serial) && conn->left == 0 && !conn->paused)
		finish(conn, in, NULL);
}

static void take_chunks(weir_upstream_conn *conn, incoming *in)
{
	size_t used, data, data_length;
	weir_parse parsed = weir_chunks_take(&conn->chunks, (const char *)in->buf->data + in->offset,
					     in->length, &used, &data, &data_length);
	if (parsed == WEIR_PARSE_BAD) {
		weir_upstream_fail(conn, -EPROTO, "the chunks of the answer are malformed");
		return;
	}
	size_t offset = in->offset + data;
	advance(in, used);
	if (parsed == WEIR_PARSE_DONE)
		conn->phase = WEIR_PHASE_TRAILERS;
	if (data_length > 0)
		give(conn, in, offset, data_length);
}

static void take_all(weir_upstream_conn *conn, incoming *in)
{
	size_t offset = in->offset, length = in->length;
	advance(in, length);
	give(conn, in, offset, length);
}

static void take(weir_upstream_conn *conn, incoming *in)
{
	switch (conn->phase) {
	case WEIR_PHASE_HEAD:
		take_head(conn, in);
		break;
	case WEIR_PHASE_LENGTH:
		take_length(conn, in);
		break;
	case WEIR_PHASE_CHUNKS:
		take_chunks(conn, in);
		break;
	case WEIR_PHASE_TRAILERS:
		take_trailers(conn, in);
		break;
	default:
		take_all(conn, in);
		break;
	}
}

/* ---- what came during a pause ---- */

/* Appends to the stash, which is nearly always a reference to a single buffer. */
static int stash(weir_upstream_conn *conn, const incoming *in)
{
	if (conn->stash == NULL) {
		conn->stash = weir_buf_ref(in->buf);
		conn->stash_offset = in->offset;
		conn->stash_length = in->length;
		return 0;
	}
	weir_buf *both = weir_buf_new(conn->stash_length + in->length);
	if (both == NULL)
		return -ENOMEM;
	memcpy(both->data, conn->stash->data + conn->stash_offset, conn->stash_length);
	memcpy(both->data + conn->stash_length, in->buf->data + in->offset, in->length);
	both->length = (uint32_t)(conn->stash_length + in->length);
	weir_buf_unref(conn->stash);
	conn->stash = both;
	conn->stash_offset = 0;
	conn->stash_length = both->length;
	return 0;
}

/* Delivers until all is used, the call is paused (then the rest waits), or the call is over. */
static void deliver(weir_upstream_conn *conn, incoming *in)
{
	uint32_t serial = conn->serial;
	conn->taking = true;
	while (in->length > 0 && is_same(conn, serial) && !conn->paused)
		take(conn, in);
	conn->taking = false;
	if (is_same(conn, serial) && in->length > 0 && stash(conn, in) != 0)
		weir_upstream_fail(conn, -ENOMEM, "out of memory");
}

void weir_upstream_data(weir_upstream_conn *conn, weir_buf *buf, size_t offset, size_t length)
{
	incoming in = {buf, offset, length};
	if (conn->h2 != NULL) {
		weir_upstream_h2_data(conn, buf, offset, length);
		return;
	}
	if (conn->state == WEIR_UPSTREAM_IDLE) {
		/* Nothing was asked. */
		weir_upstream_take_idle(conn);
		weir_upstream_cut(conn, 0);
		return;
	}
	if (conn->call == NULL)
		return;
	if (take_recent(conn, &in))
		return;
	if (conn->phase != WEIR_PHASE_HEAD)
		touch(conn);
	deliver(conn, &in);
}

static void end_now(weir_upstream_conn *conn)
{
	switch (conn->phase) {
	case WEIR_PHASE_TO_END:
	case WEIR_PHASE_TUNNEL:
		conn->keep = false;
		finish(conn, &(incoming){0}, NULL);
		return;
	case WEIR_PHASE_HEAD:
		weir_upstream_fail(conn, -ECONNRESET,
				   conn->received ? "closed within the head of the answer"
						  : "closed without an answer");
		return;
	default:
		weir_upstream_fail(conn, -ECONNRESET, "closed within the body of the answer");
		return;
	}
}

void weir_upstream_eof(weir_upstream_conn *conn)
{
	if (conn->h2 != NULL) {
		weir_upstream_h2_eof(conn);
	} else if (conn->state == WEIR_UPSTREAM_IDLE) {
		weir_upstream_take_idle(conn);
		weir_upstream_cut(conn, 0);
	} else if (conn->call == NULL) {
		return;
	} else if (conn->state != WEIR_UPSTREAM_BUSY) {
		weir_upstream_fail(conn, -ECONNRESET, "closed during the TLS handshake");
	} else if (conn->paused || conn->stash != NULL) {
		conn->ended = true;
	} else {
		end_now(conn);
	}
}

void weir_upstream_go_on(weir_upstream_conn *conn)
{
	uint32_t serial = conn->serial;
	if (conn->taking)
		return;
	if (conn->stash != NULL) {
		incoming in = {conn->stash, conn->stash_offset, conn->stash_length};
		conn->stash = NULL;
		deliver(conn, &in);
		weir_buf_unref(in.buf);
	} else if (conn->phase == WEIR_PHASE_LENGTH && conn->left == 0) {
		finish(conn, &(incoming){0}, NULL);
		return;
	}
	if (is_same(conn, serial) && conn->ended && !conn->paused)
		end_now(conn);
}
