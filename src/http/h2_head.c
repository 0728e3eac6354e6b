/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of requests. Fields from a header block are put together in the request's own memory, so that nothing
 * is copied twice, and judged by those rules of HTTP/1 (framing.c) that are not about lines.
 *
 *	method path?query authority | name value name value ...
 *
 * h2_rules.c has refused already: upper-case names, pseudo fields that are unknown, repeated, missing or
 * after others, connection fields, te other than trailers, a content-length that is not a number. Other
 * errors are remembered, and answered at the end of the block.
 */
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"
#include "http/head.h"
#include "http/scan.h"
#include "tls/tls.h"

#define METHOD_BYTES       32
#define LINE_EXTRA         11 /* two spaces, "HTTP/1.1" and so on, so that limits count as in HTTP/1 */
#define FIELD_EXTRA        4
#define TRAILERS_MOST      32
#define TRAILER_BYTES_MOST 8192u

static void refuse(weir_h2_stream *stream, uint16_t status, const char *error)
{
	if (stream->error != NULL)
		return;
	stream->status = status;
	stream->error = error;
}

/* Malformed by RFC 9113 8, not only by the rules here. */
static void break_unless(weir_h2_stream *stream, bool well_formed)
{
	if (!well_formed)
		stream->flags |= WEIR_H2_BROKEN;
}

/* ---- memory ---- */

/* First the arena, which nobody else uses before the request is made. */
static bool make_room(weir_h2_stream *stream, size_t more)
{
	weir_request *request = stream->request;
	if (request->base == NULL) {
		request->base = request->arena;
		stream->head_room = (uint32_t)(request->arena_end - request->arena);
	}
	if (more <= stream->head_room - stream->head_bytes)
		return true;
	size_t size = 2 * ((size_t)stream->head_bytes + more);
	char *larger = weir_request_alloc(request, size);
	if (larger == NULL)
		return false;
	memcpy(larger, request->base, stream->head_bytes);
	request->base = larger;
	stream->head_room = (uint32_t)size;
	return true;
}

/* The caller has made room. */
static uint32_t put(weir_h2_stream *stream, weir_span text)
{
	uint32_t at = stream->head_bytes;
	if (text.length > 0)
		memcpy((char *)(uintptr_t)stream->request->base + at, text.at, text.length);
	stream->head_bytes += (uint32_t)text.length;
	return at;
}

/* Whether this many bytes are within the limit and there is memory for them. */
static bool take_bytes(weir_h2_stream *stream, size_t bytes, size_t extra)
{
	const weir_http_limits *limits = &stream->h2->conn->loop->limits;
	/* h2_guard.h has limited the block, so that this cannot overflow. */
	stream->head_weight += (uint32_t)(bytes + extra);
	if (stream->head_weight > limits->head_bytes) {
		refuse(stream, 431, "the head is too long");
		return false;
	}
	if (!make_room(stream, bytes)) {
		refuse(stream, 503, "out of memory");
		return false;
	}
	return true;
}

/* ---- pseudo fields ---- */

static void take_method(weir_h2_stream *stream, weir_span value)
{
	weir_head *head = &stream->request->head;
	if (value.length > METHOD_BYTES) {
		refuse(stream, 501, "the method is too long");
		return;
	}
	head->start = put(stream, value);
	head->method_length = (uint32_t)value.length;
	head->method = (uint8_t)weir_method_find(value);
}

static void take_path(weir_h2_stream *stream, weir_span value)
{
	weir_head *head = &stream->request->head;
	const weir_scanner *scan = weir_scan();
	if (value.length + LINE_EXTRA > stream->h2->conn->loop->limits.line_bytes) {
		refuse(stream, 414, "the path is too long");
		return;
	}
	size_t end = scan->path(value.at, 0, value.length);
	size_t stop = end;
	if (end < value.length && value.at[end] == '?')
		stop = scan->query(value.at, end + 1, value.length);
	if (stop != value.length) {
		break_unless(stream, weir_h2_rules_path(value));
		refuse(stream, 400, "a byte that no target has");
		return;
	}
	head->path = put(stream, value);
	head->path_length = (uint32_t)end;
	if (end < value.length) {
		/* Never 0, which means "none", since a path comes before it. */
		head->query = head->path + (uint32_t)end + 1;
		head->query_length = (uint32_t)(value.length - end - 1);
	}
}

/* Treated like a Host; a Host field must agree with it. */
static void take_authority(weir_h2_stream *stream, weir_span value)
{
	weir_head *head = &stream->request->head;
	weir_head_field field = {
		.value = put(stream, value), .value_length = (uint32_t)value.length, .id = WEIR_FIELD_HOST};
	const char *error = weir_framing_request_field(head, stream->request->base, &field);
	if (error != NULL) {
		break_unless(stream, weir_h2_rules_authority(value));
		refuse(stream, 400, head->marks & WEIR_MARK_HOST ? ":authority is not a host" : error);
	}
	head->marks &= (uint8_t)~WEIR_MARK_HOST;
	head->marks |= WEIR_MARK_TARGET_HOST;
}

static void take_scheme(weir_h2_stream *stream, weir_span value)
{
	if (!weir_span_is(value, WEIR_SPAN("http")) && !weir_span_is(value, WEIR_SPAN("https")))
		refuse(stream, 400, "the scheme is neither http nor https");
}

/* There are only these four: h2_rules.c has refused others. The second letter tells them apart. */
static void take_pseudo(weir_h2_stream *stream, const weir_hpack_field *field)
{
	if (!take_bytes(stream, field->value.length, 1))
		return;
	switch (field->name.at[1]) {
	case 'm':
		take_method(stream, field->value);
		break;
	case 'p':
		take_path(stream, field->value);
		break;
	case 'a':
		take_authority(stream, field->value);
		break;
	default:
		take_scheme(stream, field->value);
		break;
	}
}

/* ---- fields ---- */

static void take_field(weir_h2_stream *stream, weir_span name, weir_span value, weir_field_id id)
{
	weir_request *request = stream->request;
	weir_head *head = &request->head;
	if (head->field_count == stream->h2->conn->loop->limits.fields) {
		refuse(stream, 431, "too many fields");
		return;
	}
	if (name.length > UINT16_MAX || !take_bytes(stream, name.length + value.length, FIELD_EXTRA))
		return;
	weir_head_field *field = &request->fields[head->field_count++];
	field->name = put(stream, name);
	field->value = put(stream, value);
	field->name_length = (uint16_t)name.length;
	field->value_length = (uint32_t)value.length;
	field->id = (uint16_t)id;
	if (id == WEIR_FIELD_PRIORITY)
		weir_h2_note_priority(stream, value.at, value.length);
	if (WEIR_FRAMING_FIELDS >> field->id & 1) {
		const char *error = weir_framing_request_field(head, request->base, field);
		if (error != NULL) {
			break_unless(stream, id != WEIR_FIELD_HOST || weir_h2_rules_authority(value));
			refuse(stream, head->status, error);
		}
	}
}

/* ---- trailers ---- */

void weir_h2_trailers_begin(weir_h2_stream *stream)
{
	weir_request *request = stream->request;
	stream->flags |= WEIR_H2_TRAILED;
	if (request == NULL || request->trailers != NULL)
		return;
	request->trailers =
		weir_mem_zalloc(sizeof(*request->trailers) + TRAILERS_MOST * sizeof(weir_head_field));
	if (request->trailers != NULL)
		request->trailers->base = weir_mem_zalloc(TRAILER_BYTES_MOST);
	if (request->trailers == NULL || request->trailers->base == NULL)
		refuse(stream, 503, "out of memory");
}

static void take_trailer(weir_h2_stream *stream, weir_span name, weir_span value)
{
	weir_trailers *trailers = stream->request->trailers;
	weir_head *head = &trailers->head;
	if (head->field_count == TRAILERS_MOST ||
	    name.length + value.length > TRAILER_BYTES_MOST - head->length) {
		refuse(stream, 431, "too many trailers");
		return;
	}
	weir_head_field *field = &trailers->fields[head->field_count++];
	*field = (weir_head_field){.name = head->length,
				   .value = head->length + (uint32_t)name.length,
				   .name_length = (uint16_t)name.length,
				   .value_length = (uint32_t)value.length,
				   .id = (uint16_t)weir_field_lookup(name.at, name.length)};
	memcpy(trailers->base + field->name, name.at, name.length);
	if (value.length > 0)
		memcpy(trailers->base + field->value, value.at, value.length);
	head->length += (uint32_t)(name.length + value.length);
	const char *error = weir_framing_trailer_field(head, field);
	if (error != NULL)
		refuse(stream, 400, error);
}

bool weir_h2_trailers_end(weir_h2_stream *stream)
{
	weir_request *request = stream->request;
	stream->flags &= ~(uint32_t)WEIR_H2_TRAILED;
	if (request == NULL)
		return true;
	if (stream->error != NULL) {
		weir_h2_body_is_bad(stream, stream->status, WEIR_H2_PROTOCOL_ERROR, stream->error);
		return false;
	}
	request->trailers->count = request->trailers->head.field_count;
	return true;
}

void weir_h2_head_field(weir_h2_stream *stream, const weir_hpack_field *field, weir_field_id id)
{
	if (stream->error != NULL)
		return;
	if (!(stream->flags & WEIR_H2_HEAD))
		take_trailer(stream, field->name, field->value);
	else if (field->name.at[0] == ':')
		take_pseudo(stream, field);
	else
		take_field(stream, field->name, field->value, id);
}

/* ---- the end of a head ---- */

/* The first byte decides the form of a target; :path has no URLs. */
static void judge_target(weir_h2_stream *stream)
{
	weir_request *request = stream->request;
	weir_head *head = &request->head;
	if (head->method == WEIR_METHOD_CONNECT) {
		refuse(stream, 501, "CONNECT is not spoken here");
		return;
	}
	char first = request->base[head->path];
	if (first != '/' && (first != '*' || head->path_length != 1 || head->query != 0))
		refuse(stream, 400, "the target is not a path");
	else if (first == '*' && head->method != WEIR_METHOD_OPTIONS)
		refuse(stream, 400, "the target * is for OPTIONS only");
}

/* END_STREAM ends the body; a length must agree with it. */
static void judge_body(weir_h2_stream *stream, bool last)
{
	weir_head *head = &stream->request->head;
	bool has_length = head->marks & WEIR_MARK_LENGTH;
	if (last && has_length && head->body_length != 0)
		refuse(stream, 400, "a length without a body");
	else if (last || (has_length && head->body_length == 0))
		head->framing = WEIR_BODY_NONE;
	else
		head->framing = has_length ? WEIR_BODY_LENGTH : WEIR_BODY_CHUNKED;
}

static void judge(weir_h2_stream *stream, bool last)
{
	weir_head *head = &stream->request->head;
	if (!(head->marks & (WEIR_MARK_HOST | WEIR_MARK_TARGET_HOST)))
		refuse(stream, 400, "neither :authority nor Host");
	if (stream->error == NULL)
		judge_target(stream);
	if (stream->error == NULL)
		judge_body(stream, last);
}

static void refuse_head(weir_h2_stream *stream)
{
	weir_http_conn *conn = stream->h2->conn;
	weir_request *request = stream->request;
	uint64_t began_ns = request->began_ns;
	stream->request = NULL;
	weir_request_free(request);
	weir_http_count(&conn->loop->counts.malformed);
	weir_http_log_malformed(conn, stream->status, stream->error, began_ns);
	weir_h2_write_error(stream, stream->status, stream->error);
}

void weir_h2_head_end(weir_h2_stream *stream, bool last)
{
	weir_h2 *h2 = stream->h2;
	weir_request *request = stream->request;
	weir_head *head = &request->head;
	const weir_http_limits *limits = &h2->conn->loop->limits;
	stream->flags &= ~(uint32_t)WEIR_H2_HEAD;
	if (last)
		stream->flags |= WEIR_H2_RECEIVED;
	head->version = 20;
	head->length = stream->head_bytes;
	head->flags |= WEIR_HEAD_KEEP;
	if (stream->error == NULL)
		judge(stream, last);
	if (stream->error != NULL) {
		refuse_head(stream);
		return;
	}
	/* Later allocations start after the head. */
	if (request->base == request->arena)
		request->arena += stream->head_bytes;
	h2->conn->requests++;
	if (h2->conn->link.tls != NULL)
		weir_request_secured(request, weir_tls_subject(&h2->conn->link));
	if (limits->requests != 0 && h2->conn->requests >= limits->requests)
		weir_h2_leave(h2);
	weir_request_made(request, request->base);
}
