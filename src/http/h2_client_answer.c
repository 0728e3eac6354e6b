/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server sends to the client's side of HTTP/2. Heads are put together in the connection's one block and
 * judged by those rules of HTTP/1 (framing.c) that are not about lines. nghttp2 has refused already: names in
 * upper case, pseudo fields out of place, fields of a connection, a content-length that is not a number or does
 * not match the DATA, a status 101, trailers without an end.
 */
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"
#include "http/head.h"

#define INTERIMS_MOST 16
#define BLOCK_LEAST   1024u
#define HELD_LEAST    4096u
#define FIELD_EXTRA   4 /* so that limits count as in HTTP/1 */

/* NULL: the ask is over, or paused and complete. */
static weir_h2_ask *find(nghttp2_session *session, int32_t id)
{
	return id != 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

/* Ends the connection if a guard has objected: nothing more is read. */
static int judged(weir_h2_client *client, const char *why)
{
	if (why == NULL)
		return 0;
	client->error = "the server floods the connection";
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int idling(weir_h2_client *client)
{
	return judged(client, weir_h2_guard_idling(&client->guard, client->now_ns));
}

/* ---- header blocks ---- */

static bool make_room(weir_h2_block *block, size_t more)
{
	if (more <= block->room - block->length)
		return true;
	size_t room = 2 * (block->length + more);
	char *larger = weir_mem_raw(room > BLOCK_LEAST ? room : BLOCK_LEAST);
	if (larger == NULL)
		return false;
	if (block->length > 0)
		memcpy(larger, block->bytes, block->length);
	weir_mem_free(block->bytes);
	block->bytes = larger;
	block->room = room > BLOCK_LEAST ? room : BLOCK_LEAST;
	return true;
}

static uint32_t put(weir_h2_block *block, const uint8_t *bytes, size_t length)
{
	uint32_t at = (uint32_t)block->length;
	if (length > 0)
		memcpy(block->bytes + at, bytes, length);
	block->length += length;
	return at;
}

/* nghttp2 has checked that there are three digits. */
static uint16_t read_status(const uint8_t *value, size_t length)
{
	unsigned status = 0;
	for (size_t i = 0; i < length && i < 3; i++)
		status = status * 10 + (unsigned)(value[i] - '0');
	return (uint16_t)status;
}

static const char *keep_field(weir_h2_client *client, const uint8_t *name, size_t name_length,
			      const uint8_t *value, size_t value_length)
{
	weir_h2_block *block = &client->block;
	weir_head *head = &block->head;
	block->weight += name_length + value_length + FIELD_EXTRA;
	if (block->weight > client->options.head_bytes || name_length > UINT16_MAX)
		return "the head or the trailers of the answer are too large";
	if (name_length == 0 || head->field_count == client->options.fields)
		return "the head or the trailers of the answer have too many fields";
	if (!make_room(block, name_length + value_length))
		return "out of memory";
	weir_head_field *field = &block->fields[head->field_count++];
	field->name = put(block, name, name_length);
	field->value = put(block, value, value_length);
	field->name_length = (uint16_t)name_length;
	field->value_length = (uint32_t)value_length;
	field->id = (uint16_t)weir_field_lookup((const char *)name, name_length);
	return NULL;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2_client *client = user;
	weir_h2_block *block = &client->block;
	block->head = (weir_head){.version = 20};
	block->length = block->weight = 0;
	block->error = NULL;
	/* It must be decompressed, but nobody waits for it. */
	return find(session, frame->hd.stream_id) == NULL ? idling(client) : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *user)
{
	weir_h2_client *client = user;
	weir_h2_block *block = &client->block;
	const char *why = weir_h2_guard_field(&client->guard, name_length + value_length);
	if (why != NULL)
		return judged(client, why);
	if (block->error != NULL || find(session, frame->hd.stream_id) == NULL)
		return 0;
	if (name_length == 7 && memcmp(name, ":status", 7) == 0)
		block->head.status = read_status(value, value_length);
	else
		block->error = keep_field(client, name, name_length, value, value_length);
	return 0;
}

/* An invalid byte in a name or value. nghttp2 would leave the field out, which would be guessing. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
			     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
			     void *user)
{
	weir_h2_client *client = user;
	client->block.error = "a field of the answer has a byte that no field has";
	return 0;
}

/* ---- the end of an answer ---- */

/* The peer does not want the rest of the request: it is not sent. */
static void stop_sending(const weir_h2_ask *ask)
{
	if (ask->id != 0 && !(ask->flags & WEIR_H2_ASK_OUT))
		nghttp2_submit_rst_stream(ask->client->session, NGHTTP2_FLAG_NONE, ask->id, NGHTTP2_NO_ERROR);
}

static void finish(weir_h2_ask *ask, const weir_h2_answer *trailers)
{
	stop_sending(ask);
	weir_h2_ask_part(ask);
	ask->ops->end(ask, trailers);
}

static bool save(weir_h2_ask *ask, const weir_h2_block *block)
{
	weir_h2_saved *saved = weir_mem_zalloc(sizeof(*saved));
	if (saved == NULL)
		return false;
	ask->saved = saved; /* freed with the ask, whatever is missing */
	saved->head = block->head;
	saved->fields = weir_mem_array(block->head.field_count, sizeof(weir_head_field));
	saved->bytes = weir_mem_raw(block->length);
	if (saved->fields == NULL || saved->bytes == NULL)
		return false;
	memcpy(saved->fields, block->fields, block->head.field_count * sizeof(weir_head_field));
	memcpy(saved->bytes, block->bytes, block->length);
	return true;
}

/* block: with the trailers; NULL: none. */
static void answer_ends(weir_h2_ask *ask, const weir_h2_block *block)
{
	bool trailers = block != NULL && block->head.field_count > 0;
	ask->flags |= WEIR_H2_ASK_ENDED;
	if (!(ask->flags & WEIR_H2_ASK_PAUSED) && ask->held == NULL) {
		weir_h2_answer answer = {.last = true};
		if (trailers) {
			answer.head = &block->head;
			answer.fields = block->fields;
			answer.bytes = block->bytes;
		}
		finish(ask, trailers ? &answer : NULL);
	} else if (trailers && !save(ask, block)) {
		weir_h2_ask_fail(ask, NGHTTP2_INTERNAL_ERROR, WEIR_H2_NO_MEMORY, "out of memory");
	}
}

/* ---- heads ---- */

static const char *judge_trailers(weir_h2_block *block)
{
	for (size_t i = 0; i < block->head.field_count; i++)
		if (weir_framing_trailer_field(&block->head, &block->fields[i]) != NULL)
			return "the answer has a trailer that must not be one";
	return NULL;
}

static const char *judge_head(weir_h2_block *block, weir_method asked)
{
	weir_head *head = &block->head;
	if (head->status < 100 || head->status > 999)
		return "an answer without a status";
	const char *error = weir_framing_fields(head, block->bytes, block->fields,
						block->fields + head->field_count, NULL, true);
	return error != NULL ? error : weir_framing_answer(head, asked);
}

static void final_head(weir_h2_ask *ask, weir_h2_block *block, bool last)
{
	weir_h2_client *client = ask->client;
	const weir_head *head = &block->head;
	weir_h2_answer answer = {.head = head,
				 .fields = block->fields,
				 .bytes = block->bytes,
				 .length = WEIR_UNKNOWN_LENGTH,
				 .bodiless = head->framing == WEIR_BODY_NONE,
				 .last = last};
	if (head->framing == WEIR_BODY_LENGTH || head->framing == WEIR_BODY_NONE)
		answer.length = head->framing == WEIR_BODY_LENGTH ? head->body_length : 0;
	else if (last)
		answer.length = 0;
	/* Frames like WINDOW_UPDATE and PING come with answers. */
	weir_h2_guard_earned(&client->guard, 4);
	ask->flags |= WEIR_H2_ASK_HEADED;
	if (last) {
		stop_sending(ask);
		weir_h2_ask_part(ask);
	}
	ask->ops->head(ask, &answer);
}

static void interim_head(weir_h2_ask *ask, const weir_h2_block *block)
{
	weir_h2_answer answer = {.head = &block->head, .fields = block->fields, .bytes = block->bytes};
	if (++ask->interims > INTERIMS_MOST)
		weir_h2_ask_fail(ask, NGHTTP2_ENHANCE_YOUR_CALM, WEIR_H2_NONSENSE,
				 "too many interim answers");
	else
		ask->ops->head(ask, &answer);
}

static void end_of_block(weir_h2_ask *ask, bool last)
{
	weir_h2_block *block = &ask->client->block;
	bool trailers = ask->flags & WEIR_H2_ASK_HEADED;
	if (block->error == NULL)
		block->error = trailers ? judge_trailers(block) : judge_head(block, (weir_method)ask->method);
	if (block->error != NULL)
		weir_h2_ask_fail(ask, NGHTTP2_PROTOCOL_ERROR, WEIR_H2_NONSENSE, block->error);
	else if (trailers)
		answer_ends(ask, block);
	else if (block->head.status < 200)
		interim_head(ask, block);
	else
		final_head(ask, block, last);
}

/* ---- bodies ---- */

static void consume(weir_h2_client *client, int32_t id, size_t length)
{
	if (id != 0)
		nghttp2_session_consume_stream(client->session, id, length);
}

/* Copied, because a reference would keep a whole read alive for one byte of it. */
static bool hold(weir_h2_ask *ask, const uint8_t *bytes, size_t length)
{
	weir_buf *held = ask->held;
	size_t have = held != NULL ? held->length : 0;
	if (held == NULL || held->capacity - have < length) {
		size_t room = 2 * (have + length);
		weir_buf *larger = weir_buf_new(room > HELD_LEAST ? room : HELD_LEAST);
		if (larger == NULL)
			return false;
		if (have > 0)
			memcpy(larger->data, held->data, have);
		larger->length = (uint32_t)have;
		weir_buf_unref(held);
		ask->held = held = larger;
	}
	memcpy(held->data + held->length, bytes, length);
	held->length += (uint32_t)length;
	return true;
}

void weir_h2_ask_go_on(weir_h2_ask *ask)
{
	weir_buf *held = ask->held;
	if (held != NULL) {
		/* What comes meanwhile is held in another one. */
		ask->held = NULL;
		consume(ask->client, ask->id, held->length);
		ask->ops->data(ask, held, 0, held->length);
		weir_buf_unref(held);
	}
	if (ask->flags & (WEIR_H2_ASK_OVER | WEIR_H2_ASK_PAUSED) || !(ask->flags & WEIR_H2_ASK_ENDED))
		return;
	const weir_h2_saved *saved = ask->saved;
	if (saved != NULL) {
		weir_h2_answer answer = {
			.head = &saved->head, .fields = saved->fields, .bytes = saved->bytes, .last = true};
		finish(ask, &answer);
	} else {
		finish(ask, NULL);
	}
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
			 size_t length, void *user)
{
	weir_h2_client *client = user;
	weir_h2_ask *ask = find(session, id);
	nghttp2_session_consume_connection(session, length);
	if (ask == NULL)
		return 0;
	if (ask->flags & WEIR_H2_ASK_PAUSED || ask->held != NULL) {
		if (!hold(ask, bytes, length))
			weir_h2_ask_fail(ask, NGHTTP2_INTERNAL_ERROR, WEIR_H2_NO_MEMORY, "out of memory");
		return 0;
	}
	consume(client, id, length);
	ask->ops->data(ask, client->in, (size_t)(bytes - client->in->data), length);
	return 0;
}

/* ---- frames ---- */

/* A reset is part of an exchange; one that nobody waits for is not. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
	weir_h2_client *client = user;
	switch (hd->type) {
	case NGHTTP2_DATA:
		if (hd->length > 0)
			weir_h2_guard_earned(&client->guard, 1);
		return hd->length > 0 || hd->flags & NGHTTP2_FLAG_END_STREAM ? 0 : idling(client);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
		return judged(client,
			      weir_h2_guard_block(&client->guard, hd->type == NGHTTP2_HEADERS, hd->length));
	case NGHTTP2_RST_STREAM:
		return find(session, hd->stream_id) != NULL ? 0 : idling(client);
	default:
		return idling(client);
	}
}

static void on_reset(weir_h2_ask *ask, uint32_t code)
{
	bool refused = code == NGHTTP2_REFUSED_STREAM && !(ask->flags & WEIR_H2_ASK_HEADED);
	weir_h2_ask_part(ask);
	ask->ops->failed(ask, refused ? WEIR_H2_REFUSED : WEIR_H2_ABORTED,
			 refused ? "the server refused the stream" : "the server reset the stream");
}

/* If the server allows none, those that were not sent would wait for ever. */
static void refuse_unsent(weir_h2_client *client)
{
	weir_h2_ask *ask;
	if (weir_h2_client_most(client) > 0)
		return;
	do {
		ask = client->asks;
		while (ask != NULL && ask->flags & WEIR_H2_ASK_SENT)
			ask = ask->next;
		if (ask != NULL)
			weir_h2_ask_fail(ask, NGHTTP2_CANCEL, WEIR_H2_REFUSED,
					 "the server allows no requests");
	} while (ask != NULL);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2_client *client = user;
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	weir_h2_ask *ask = find(session, frame->hd.stream_id);
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		if (ask != NULL)
			end_of_block(ask, last);
		break;
	case NGHTTP2_DATA:
		if (ask != NULL && last)
			answer_ends(ask, NULL);
		break;
	case NGHTTP2_RST_STREAM:
		if (ask != NULL && !(ask->flags & WEIR_H2_ASK_ENDED))
			on_reset(ask, frame->rst_stream.error_code);
		break;
	case NGHTTP2_SETTINGS:
		if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
			client->settled = true;
			refuse_unsent(client);
		}
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			client->pings = false;
		break;
	default:
		break;
	}
	return 0;
}

/* Unknown frames have nothing to unpack. Without this, nghttp2 would skip them before on_begin_frame. */
static int unpack_nothing(nghttp2_session *session, void **ret_payload, const nghttp2_frame_hd *hd,
			  void *user)
{
	*ret_payload = NULL;
	return 0;
}

/*
 * The ask is still in progress: a GOAWAY excludes it, it could not be sent, or nghttp2 has reset the stream
 * because the answer was invalid. Or it is paused, and its answer complete.
 */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	weir_h2_ask *ask = find(session, id);
	if (ask == NULL)
		return 0;
	if (ask->flags & WEIR_H2_ASK_ENDED) {
		ask->id = 0;
		return 0;
	}
	const char *error = ask->client->error;
	bool excluded = !(ask->flags & WEIR_H2_ASK_SENT) ||
			(code == NGHTTP2_REFUSED_STREAM && !(ask->flags & WEIR_H2_ASK_HEADED));
	weir_h2_ask_part(ask);
	/* A server that breaks the rules has not left in an orderly way. */
	if (excluded && error == NULL)
		ask->ops->failed(ask, WEIR_H2_EXCLUDED, "the server has left");
	else
		ask->ops->failed(ask, WEIR_H2_NONSENSE,
				 error != NULL ? error : "an answer that breaks the rules of HTTP/2");
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2_client *client = user;
	weir_h2_ask *ask = find(session, frame->hd.stream_id);
	/* nghttp2 has found out, and the connection ends. */
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR &&
	    client->error == NULL)
		client->error = "the server does not speak HTTP/2, or breaks its rules";
	/* Servers send WINDOW_UPDATE and PING because of this. */
	if (frame->hd.type == NGHTTP2_DATA)
		weir_h2_guard_earned(&client->guard, 3);
	if (ask == NULL || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS))
		return 0;
	ask->flags |= WEIR_H2_ASK_SENT;
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		ask->flags |= WEIR_H2_ASK_OUT;
	return 0;
}

void weir_h2_client_hear(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_nothing);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}
