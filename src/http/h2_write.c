/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. Their heads are compressed and sent at once. A small answer goes with its head, if nothing else
 * waits; otherwise the body waits in the stream (h2_output.c).
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"
#include "net/transmit.h"

#define HEAD_HERE 1024u /* bytes of a head that need no memory of their own */
#define HEAD_MOST 65536u

/* ---- heads ---- */

/* Where a block is made: in the output of the link, or here, or in memory of its own if it is large. */
typedef struct head {
	uint8_t *at, *begin;
	uint8_t *larger;
	bool in_place;
	uint8_t here[WEIR_H2_FRAME_HEAD + HEAD_HERE + WEIR_H2_FRAME_HEAD + WEIR_H2_SMALL_BODY];
} head;

static weir_span number(char *to, size_t room, uint64_t value)
{
	char *at = to + room;
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	return (weir_span){at, (size_t)(to + room - at)};
}

static size_t fields_bytes(const weir_field *fields, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += fields[i].name.length + fields[i].value.length;
	return bytes;
}

/* Bytes beyond those of the fields: the status, Server, Date, Content-Length, and changes of the table. */
static size_t own_bytes(const weir_http_loop *loop)
{
	return WEIR_HPACK_BEGIN_MOST + 5 * WEIR_HPACK_FIELD_MOST + 100 + loop->server_length;
}

static uint8_t *place_in_link(weir_h2 *h2, size_t most)
{
	weir_link *link = &h2->conn->link;
	if (link->tls == NULL || h2->flags & WEIR_H2_CLOSED || h2->pending.bytes != NULL ||
	    weir_h2_link_is_full(h2))
		return NULL;
	return (uint8_t *)weir_tls_reserve(link, most);
}

/*
 * There is room for the head of the frame before the block, and for so many bytes behind it if it is not
 * `larger`.
 */
static int head_begin(head *h, weir_h2 *h2, const weir_field *fields, size_t count, size_t behind)
{
	size_t bytes = fields_bytes(fields, count);
	if (bytes > HEAD_MOST)
		return -EINVAL;
	bytes += count * WEIR_HPACK_FIELD_MOST + own_bytes(h2->conn->loop);
	bool large = bytes > HEAD_HERE;
	h->larger = NULL;
	h->begin = large ? NULL : place_in_link(h2, WEIR_H2_FRAME_HEAD + bytes + behind);
	h->in_place = h->begin != NULL;
	if (large)
		h->begin = h->larger = weir_mem_raw(WEIR_H2_FRAME_HEAD + bytes);
	else if (!h->in_place)
		h->begin = h->here;
	if (h->begin == NULL)
		return -ENOMEM;
	h->at = weir_hpack_begin(&h2->encoder, h->begin + WEIR_H2_FRAME_HEAD);
	return 0;
}

static void head_put(head *h, weir_h2 *h2, weir_span name, weir_span value)
{
	h->at = weir_hpack_put(&h2->encoder, h->at, name, value);
}

static void head_put_fields(head *h, weir_h2 *h2, const weir_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		head_put(h, h2, fields[i].name, fields[i].value);
}

/* Taken from the loop's lines, "Server: x\r\nDate: y\r\n". */
static void head_put_own(head *h, weir_h2 *h2)
{
	weir_http_loop *loop = h2->conn->loop;
	const char *lines = weir_http_lines(loop);
	if (loop->server_length > 0)
		head_put(h, h2, WEIR_SPAN("server"), (weir_span){lines + 8, loop->server_length - 10});
	head_put(h, h2, WEIR_SPAN("date"), (weir_span){lines + loop->server_length + 6, 29});
}

/* A block that is longer than a frame goes on in CONTINUATION frames, which nothing may come between. */
static int say_long(weir_h2 *h2, const head *h, uint32_t id, bool last)
{
	const uint8_t *at = h->begin + WEIR_H2_FRAME_HEAD;
	size_t left = (size_t)(h->at - at), frames = left / WEIR_H2_FRAME_MOST + 1;
	uint8_t *bytes = weir_mem_raw(left + frames * WEIR_H2_FRAME_HEAD), *to = bytes;
	if (bytes == NULL) {
		/* The encoder's table has what the client will never see. */
		weir_h2_set_doom(h2, WEIR_H2_INTERNAL_ERROR, "out of memory");
		return -ENOMEM;
	}
	for (weir_h2_type type = WEIR_H2_HEADERS; left > 0; type = WEIR_H2_CONTINUATION) {
		size_t part = left < WEIR_H2_FRAME_MOST ? left : WEIR_H2_FRAME_MOST;
		unsigned flags = part == left ? WEIR_H2_END_HEADERS : 0;
		if (type == WEIR_H2_HEADERS && last)
			flags |= WEIR_H2_END_STREAM;
		to = weir_h2_frame_write(to, part, type, (uint8_t)flags, id);
		memcpy(to, at, part);
		to += part;
		at += part;
		left -= part;
	}
	int error = weir_h2_say(h2, bytes, (size_t)(to - bytes));
	weir_mem_free(bytes);
	return error;
}

/* Sends the block, and what was put behind it. */
static int head_say(head *h, weir_h2 *h2, uint32_t id, bool last, size_t behind)
{
	size_t length = (size_t)(h->at - h->begin) - WEIR_H2_FRAME_HEAD;
	int error;
	if (length > WEIR_H2_FRAME_MOST) {
		error = say_long(h2, h, id, last);
	} else {
		weir_h2_frame_write(h->begin, length, WEIR_H2_HEADERS,
				    (uint8_t)(WEIR_H2_END_HEADERS | (last ? WEIR_H2_END_STREAM : 0)), id);
		length += WEIR_H2_FRAME_HEAD + behind;
		error = h->in_place ? 0 : weir_h2_say(h2, h->begin, length);
		if (h->in_place)
			weir_tls_commit(&h2->conn->link, length);
	}
	weir_mem_free(h->larger);
	return error;
}

static bool tells_length(const weir_answer *answer)
{
	return answer->length != WEIR_UNKNOWN_LENGTH && answer->status != 204 &&
	       (answer->status != 304 || answer->length != 0);
}

static int head_make(head *h, weir_h2 *h2, const weir_answer *answer, size_t behind)
{
	char length[20];
	int error = head_begin(h, h2, answer->fields, answer->field_count, behind);
	if (error != 0)
		return error;
	h->at = weir_hpack_put_status(h->at, answer->status);
	head_put_own(h, h2);
	head_put_fields(h, h2, answer->fields, answer->field_count);
	if (tells_length(answer))
		head_put(h, h2, WEIR_SPAN("content-length"), number(length, sizeof(length), answer->length));
	return 0;
}

/* Everything was handed to the link. */
static void set_out(weir_h2_stream *stream)
{
	stream->flags |= WEIR_H2_OUT;
	weir_h2_stream_done(stream);
}

/* Sends the head of an answer. If there is a body, its parts follow. */
static int submit(weir_h2_stream *stream, const weir_answer *answer, bool body)
{
	weir_h2 *h2 = stream->h2;
	head h;
	int error = head_make(&h, h2, answer, 0);
	if (error == 0)
		error = head_say(&h, h2, stream->id, !body, 0);
	if (error != 0)
		return error;
	stream->flags |= WEIR_H2_ANSWERED;
	if (!body)
		set_out(stream);
	weir_h2_set_ready(stream);
	weir_h2_go_on(h2);
	return 0;
}

/* ---- small answers ---- */

/* Whether the answer can be sent as a whole now, without being before what is more urgent. */
static bool goes_at_once(const weir_h2_stream *stream, const weir_answer *answer)
{
	const weir_h2 *h2 = stream->h2;
	int64_t length = (int64_t)answer->length;
	return answer->length <= WEIR_H2_SMALL_BODY && !answer->has_file && h2->ready_bits == 0 &&
	       length <= h2->send_window && length <= stream->send_window && h2->pending.bytes == NULL &&
	       !weir_conn_is_paced(h2->conn->link.conn) && !weir_h2_link_is_full(h2);
}

static const void *bytes_of(const weir_answer *answer)
{
	return answer->buf != NULL ? (const void *)(answer->buf->data + answer->offset) : answer->bytes;
}

static int submit_at_once(weir_h2_stream *stream, weir_request *request, const weir_answer *answer)
{
	weir_h2 *h2 = stream->h2;
	size_t length = (size_t)answer->length;
	head h;
	int error = head_make(&h, h2, answer, WEIR_H2_FRAME_HEAD + length);
	if (error != 0)
		return error;
	stream->flags |= WEIR_H2_ANSWERED;
	bool apart = h.larger != NULL;
	uint8_t *at = apart ? h.here : h.at;
	if (apart)
		error = head_say(&h, h2, stream->id, false, 0);
	memcpy(weir_h2_frame_write(at, length, WEIR_H2_DATA, WEIR_H2_END_STREAM, stream->id),
	       bytes_of(answer), length);
	if (error == 0)
		error = apart ? weir_h2_say(h2, at, WEIR_H2_FRAME_HEAD + length)
			      : head_say(&h, h2, stream->id, false, WEIR_H2_FRAME_HEAD + length);
	if (error != 0)
		return error;
	h2->send_window -= (int32_t)length;
	stream->send_window -= (int32_t)length;
	request->answer_bytes += length;
	weir_h2_guard_earned(&h2->guard, 2);
	set_out(stream);
	weir_h2_go_on(h2);
	return 0;
}

static bool has_no_body(const weir_request *request, unsigned status)
{
	return request->head.method == WEIR_METHOD_HEAD || status == 204 || status == 304;
}

static void note_answer(weir_request *request, unsigned status)
{
	const weir_http *http = request->loop->http;
	struct weir_transmit *transmit = weir_http_transmit(request->loop);
	if (transmit != NULL)
		weir_conn_begin_answer(((weir_h2_stream *)request->stream)->h2->conn->link.conn, transmit,
				       request->klass);
	if (has_no_body(request, status))
		request->flags |= WEIR_REQUEST_NO_BODY;
	if (http != NULL && http->log != NULL)
		request->first_byte_ns = weir_clock_now(weir_loop_clock(request->loop->loop));
}

/* From here on nobody adds to the answer, takes bytes of the body, or is told that the client leaves. */
static void set_rest(weir_h2_stream *stream, weir_request *request)
{
	stream->flags |= WEIR_H2_WHOLE;
	request->flags |= WEIR_REQUEST_REST;
	request->body_mode = WEIR_BODY_DROP;
	weir_h2_body_drop(stream);
}

/* ---- the codec ---- */

static int h2_reply(weir_request *request, const weir_answer *answer)
{
	weir_h2_stream *stream = request->stream;
	note_answer(request, answer->status);
	bool body = answer->length > 0 && !weir_request_is(request, WEIR_REQUEST_NO_BODY);
	stream->flags |= WEIR_H2_COUNTS;
	bool at_once = body && goes_at_once(stream, answer);
	int error = body && !at_once ? weir_h2_add_body(stream, request, answer) : 0;
	if (error == 0)
		error = at_once ? submit_at_once(stream, request, answer) : submit(stream, answer, body);
	if (error == 0)
		set_rest(stream, request);
	return error;
}

static int h2_begin(weir_request *request, const weir_answer *answer)
{
	note_answer(request, answer->status);
	int error = submit(request->stream, answer, true);
	/* The handler goes on writing, but the stream is reset. */
	if (error != 0)
		weir_h2_stream_reset(request->stream, WEIR_H2_INTERNAL_ERROR);
	return 0;
}

static int submit_interim(weir_h2_stream *stream, unsigned status, const weir_field *fields, size_t count)
{
	weir_h2 *h2 = stream->h2;
	head h;
	int error = head_begin(&h, h2, fields, count, 0);
	if (error != 0)
		return error;
	h.at = weir_hpack_put_status(h.at, status);
	head_put_fields(&h, h2, fields, count);
	error = head_say(&h, h2, stream->id, false, 0);
	weir_h2_go_on(h2);
	return error;
}

int weir_h2_write_trailers(weir_h2_stream *stream)
{
	head h;
	int error = head_begin(&h, stream->h2, stream->trailers, stream->trailer_count, 0);
	if (error != 0)
		return error;
	head_put_fields(&h, stream->h2, stream->trailers, stream->trailer_count);
	return head_say(&h, stream->h2, stream->id, true, 0);
}

int weir_h2_write_continue(weir_h2_stream *stream)
{
	return submit_interim(stream, 100, NULL, 0);
}

static int h2_interim(weir_request *request, unsigned status, const weir_field *fields, size_t count)
{
	if (status == 100)
		request->flags &= ~(uint32_t)WEIR_REQUEST_WAITING;
	return submit_interim(request->stream, status, fields, count);
}

static int h2_write(weir_request *request, const void *bytes, size_t length)
{
	weir_h2_stream *stream = request->stream;
	if (stream->flags & WEIR_H2_RESET)
		return -EPIPE;
	if (!weir_h2_has_room(stream, length))
		return -ENOBUFS;
	return weir_h2_part_added(stream, weir_h2_add_copy(stream, bytes, length));
}

static int h2_send(weir_request *request, weir_buf *buf, size_t offset, size_t length)
{
	weir_h2_stream *stream = request->stream;
	if (length <= WEIR_H2_SMALL_BODY)
		return h2_write(request, buf->data + offset, length);
	if (stream->flags & WEIR_H2_RESET)
		return -EPIPE;
	if (!weir_h2_has_room(stream, length))
		return -ENOBUFS;
	return weir_h2_part_added(stream, weir_h2_add_buf(stream, buf, offset, length));
}

static void h2_flush(weir_request *request)
{
	const weir_h2_stream *stream = request->stream;
	weir_h2_flush(stream->h2);
}

static size_t h2_output(const weir_request *request)
{
	const weir_h2_stream *stream = request->stream;
	return stream->output;
}

/* Copies trailers into the request's memory. Without memory they may be left out. */
static void keep_trailers(weir_h2_stream *stream, weir_request *request, const weir_field *trailers,
			  size_t count)
{
	size_t bytes = fields_bytes(trailers, count);
	if (count == 0 || bytes > HEAD_MOST || weir_request_is(request, WEIR_REQUEST_NO_BODY))
		return;
	weir_field *kept = weir_request_alloc(request, count * sizeof(*kept));
	char *text = kept != NULL ? weir_request_alloc(request, bytes) : NULL;
	if (text == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		weir_span name = trailers[i].name, value = trailers[i].value;
		kept[i] = (weir_field){{text, name.length}, {text + name.length, value.length}};
		memcpy(text, name.at, name.length);
		if (value.length > 0)
			memcpy(text + name.length, value.at, value.length);
		text += name.length + value.length;
	}
	stream->trailers = kept;
	stream->trailer_count = count;
}

/* RST_STREAM tells the client that the answer is incomplete. */
static void cut(weir_h2_stream *stream, weir_request *request)
{
	weir_h2_stream_reset(stream, WEIR_H2_INTERNAL_ERROR);
	request->flags &= ~(uint32_t)WEIR_REQUEST_REST;
	weir_request_ended(request);
}

static void h2_end(weir_request *request, const weir_field *trailers, size_t count, bool whole)
{
	weir_h2_stream *stream = request->stream;
	if (!whole || stream->flags & WEIR_H2_RESET) {
		cut(stream, request);
		return;
	}
	keep_trailers(stream, request, trailers, count);
	set_rest(stream, request);
	weir_h2_awake(stream);
}

static void h2_abort(weir_request *request)
{
	cut(request->stream, request);
}

void weir_h2_sent(weir_h2_stream *stream)
{
	weir_request *request = stream->request;
	if (request != NULL) {
		request->flags &= ~(uint32_t)WEIR_REQUEST_REST;
		weir_request_ended(request);
	} else {
		weir_h2_body_linger(stream, WEIR_UNKNOWN_LENGTH);
	}
}

/* ---- answers to malformed input ---- */

void weir_h2_write_error(weir_h2_stream *stream, unsigned status, const char *why)
{
	static const weir_field plain = {{"content-type", 12}, {"text/plain", 10}};
	weir_answer answer = {.status = status, .fields = &plain, .field_count = 1, .length = strlen(why)};
	stream->flags |= WEIR_H2_COUNTS | WEIR_H2_WHOLE;
	if (weir_h2_add_text(stream, why, (size_t)answer.length) != 0 || submit(stream, &answer, true) != 0)
		weir_h2_stream_reset(stream, WEIR_H2_PROTOCOL_ERROR);
}

const weir_codec weir_h2_codec = {.reply = h2_reply,
				  .begin = h2_begin,
				  .interim = h2_interim,
				  .write = h2_write,
				  .send = h2_send,
				  .flush = h2_flush,
				  .output = h2_output,
				  .end = h2_end,
				  .abort = h2_abort,
				  .want = weir_h2_want,
				  .over = weir_h2_over};
