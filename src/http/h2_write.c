/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. nghttp2 gets their heads at once and frames them; it is told that there is a body, and asks for
 * its bytes later (h2_output.c).
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"
#include "net/transmit.h"

#define FIELDS_HERE 48u
#define HEAD_MOST   65536u

/* ---- heads ---- */

static nghttp2_nv pair(weir_span name, weir_span value, uint8_t flags)
{
	/* The casts are safe: nghttp2 only copies from these. */
	return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.at,
			    .namelen = name.length,
			    .value = (uint8_t *)(uintptr_t)value.at,
			    .valuelen = value.length,
			    .flags = flags};
}

static void put_pairs(nghttp2_nv *to, const weir_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = pair(fields[i].name, fields[i].value, NGHTTP2_NV_FLAG_NONE);
}

typedef struct head {
	char status[3], length[20];
	size_t count;
	nghttp2_nv *pairs;
	nghttp2_nv here[FIELDS_HERE + 4];
} head;

static weir_span number(char *to, size_t room, uint64_t value)
{
	char *at = to + room;
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) != 0);
	return (weir_span){at, (size_t)(to + room - at)};
}

static void put_pair(head *h, weir_span name, weir_span value)
{
	h->pairs[h->count++] = pair(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

static size_t fields_bytes(const weir_field *fields, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += fields[i].name.length + fields[i].value.length;
	return bytes;
}

static int head_init(head *h, unsigned status, const weir_field *fields, size_t count)
{
	if (fields_bytes(fields, count) > HEAD_MOST)
		return -EINVAL;
	h->count = 0;
	h->pairs = h->here;
	if (count > FIELDS_HERE && (h->pairs = weir_mem_array(count + 4, sizeof(nghttp2_nv))) == NULL)
		return -ENOMEM;
	put_pair(h, WEIR_SPAN(":status"), number(h->status, sizeof(h->status), status));
	return 0;
}

static void head_fini(head *h)
{
	if (h->pairs != h->here)
		weir_mem_free(h->pairs);
}

/* Taken from the loop's lines, "Server: x\r\nDate: y\r\n". */
static void put_own(head *h, weir_http_loop *loop)
{
	const char *lines = weir_http_lines(loop);
	if (loop->server_length > 0)
		put_pair(h, WEIR_SPAN("server"), (weir_span){lines + 8, loop->server_length - 10});
	put_pair(h, WEIR_SPAN("date"), (weir_span){lines + loop->server_length + 6, 29});
}

static void put_fields(head *h, const weir_field *fields, size_t count)
{
	put_pairs(h->pairs + h->count, fields, count);
	h->count += count;
}

static bool tells_length(const weir_answer *answer)
{
	return answer->length != WEIR_UNKNOWN_LENGTH && answer->status != 204 &&
	       (answer->status != 304 || answer->length != 0);
}

/* Submits the head of an answer. nghttp2 will ask for the body, if there is one. */
static int submit(weir_h2_stream *stream, const weir_answer *answer, bool body)
{
	head h;
	nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = weir_h2_read_body};
	int error = head_init(&h, answer->status, answer->fields, answer->field_count);
	if (error != 0)
		return error;
	put_own(&h, stream->h2->conn->loop);
	put_fields(&h, answer->fields, answer->field_count);
	if (tells_length(answer))
		put_pair(&h, WEIR_SPAN("content-length"), number(h.length, sizeof(h.length), answer->length));
	error = nghttp2_submit_response(stream->h2->session, stream->id, h.pairs, h.count,
					body ? &provider : NULL);
	head_fini(&h);
	if (error != 0)
		return -ENOMEM;
	stream->flags |= WEIR_H2_ANSWERED;
	weir_h2_go_on(stream->h2);
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
	int error = body ? weir_h2_add_body(stream, request, answer) : 0;
	if (error == 0)
		error = submit(stream, answer, body);
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
		weir_h2_stream_reset(request->stream, NGHTTP2_INTERNAL_ERROR);
	return 0;
}

static int submit_interim(weir_h2_stream *stream, unsigned status, const weir_field *fields, size_t count)
{
	head h;
	int error = head_init(&h, status, fields, count);
	if (error != 0)
		return error;
	put_fields(&h, fields, count);
	error = nghttp2_submit_headers(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, h.pairs,
				       h.count, NULL);
	head_fini(&h);
	weir_h2_go_on(stream->h2);
	return error != 0 ? -ENOMEM : 0;
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

/* Copies trailers into the request's memory for nghttp2. Without memory they may be left out. */
static void keep_trailers(weir_h2_stream *stream, weir_request *request, const weir_field *trailers,
			  size_t count)
{
	size_t bytes = fields_bytes(trailers, count);
	if (count == 0 || bytes > HEAD_MOST || weir_request_is(request, WEIR_REQUEST_NO_BODY))
		return;
	nghttp2_nv *kept = weir_request_alloc(request, count * sizeof(*kept));
	char *text = kept != NULL ? weir_request_alloc(request, bytes) : NULL;
	if (text == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		weir_span name = trailers[i].name, value = trailers[i].value;
		kept[i] = pair((weir_span){text, name.length}, (weir_span){text + name.length, value.length},
			       NGHTTP2_NV_FLAG_NONE);
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
	weir_h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
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
		weir_h2_stream_reset(stream, NGHTTP2_PROTOCOL_ERROR);
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
