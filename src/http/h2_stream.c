/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: from nghttp2's callbacks to requests, and back. */
#include <string.h>

#include "http/h2.h"

/* ---- creating and freeing ---- */

static weir_h2_stream *make(weir_h2 *h2, int32_t id)
{
	weir_h2_memory *memory = &h2->conn->loop->h2;
	weir_h2_stream *stream = weir_pool_take(&memory->streams);
	if (stream == NULL)
		return NULL;
	*stream = (weir_h2_stream){
		.h2 = h2, .id = id, .flags = WEIR_H2_HEAD, .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY};
	stream->request = weir_request_new(h2->conn, &weir_h2_codec, stream, weir_h2_now(h2));
	if (stream->request == NULL) {
		weir_pool_give(&memory->streams, stream);
		return NULL;
	}
	stream->next = h2->streams;
	stream->prev = &h2->streams;
	if (stream->next != NULL)
		stream->next->prev = &stream->next;
	h2->streams = stream;
	h2->stream_count++;
	return stream;
}

static void remove_due(weir_h2_stream *stream)
{
	weir_h2_stream **at = &stream->h2->due;
	if (!(stream->flags & WEIR_H2_DUE))
		return;
	while (*at != stream)
		at = &(*at)->next_due;
	*at = stream->next_due;
}

static void unlink_stream(weir_h2_stream *stream)
{
	weir_h2 *h2 = stream->h2;
	*stream->prev = stream->next;
	if (stream->next != NULL)
		stream->next->prev = stream->prev;
	remove_due(stream);
	if (--h2->stream_count == 0) {
		h2->idle_ns = weir_h2_now(h2);
		weir_h2_arm(h2, h2->idle_ns, h2->conn->loop->limits.idle_ns);
	}
}

void weir_h2_stream_free(weir_h2_stream *stream, const char *error)
{
	weir_h2 *h2 = stream->h2;
	weir_request *request = stream->request;
	bool made = !(stream->flags & WEIR_H2_HEAD);
	stream->request = NULL;
	unlink_stream(stream);
	weir_h2_body_drop(stream);
	weir_h2_free_parts(stream);
	weir_pool_give(&h2->conn->loop->h2.streams, stream);
	if (request != NULL && made)
		weir_request_gone(request, error);
	else if (request != NULL)
		weir_request_free(request);
}

void weir_h2_over(weir_request *request)
{
	weir_h2_stream *stream = request->stream;
	stream->request = NULL;
	weir_h2_body_drop(stream);
}

/* ---- resets ---- */

void weir_h2_stream_reset(weir_h2_stream *stream, uint32_t code)
{
	weir_h2_free_parts(stream);
	if (stream->flags & WEIR_H2_RESET)
		return;
	stream->flags |= WEIR_H2_RESET;
	nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
	weir_h2_go_on(stream->h2);
}

void weir_h2_stream_lose(weir_h2_stream *stream, uint32_t code, const char *error)
{
	weir_request *request = stream->request;
	stream->request = NULL;
	weir_h2_body_drop(stream);
	weir_h2_stream_reset(stream, code);
	if (request != NULL)
		weir_request_gone(request, error);
}

/* ---- nghttp2's callbacks ---- */

static weir_h2_stream *find(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

/* Ends the connection if a guard has objected: nothing more is read. */
static int judged(weir_h2 *h2, const char *why)
{
	if (why == NULL)
		return 0;
	weir_h2_set_doom(h2, NGHTTP2_ENHANCE_YOUR_CALM, why);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int judge_data(weir_h2 *h2, const nghttp2_frame_hd *hd)
{
	if (hd->length > 0)
		weir_h2_guard_earned(&h2->guard, 1);
	else if (!(hd->flags & NGHTTP2_FLAG_END_STREAM))
		return judged(h2, weir_h2_guard_idling(&h2->guard, weir_h2_now(h2)));
	return 0;
}

static int judge_block(weir_h2 *h2, const nghttp2_frame_hd *hd)
{
	bool first = hd->type == NGHTTP2_HEADERS;
	if (first) {
		h2->block_ns = weir_h2_now(h2);
		h2->block_id = hd->stream_id;
		h2->flags |= WEIR_H2_BLOCK;
		h2->flags &= (uint16_t)~WEIR_H2_BLOCK_LAST;
	}
	if (hd->flags & NGHTTP2_FLAG_END_HEADERS)
		h2->flags |= WEIR_H2_BLOCK_LAST;
	return judged(h2, weir_h2_guard_block(&h2->guard, first, hd->length));
}

static int broken(weir_h2 *h2, const char *why)
{
	weir_h2_set_doom(h2, NGHTTP2_PROTOCOL_ERROR, why);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* A frame on a stream that nghttp2 does not know any more, and would ignore. */
static int judge_past(weir_h2 *h2, int32_t id)
{
	if (find(h2->session, id) != NULL)
		return 0;
	switch (weir_h2_past_of(&h2->past, (uint32_t)id)) {
	case WEIR_H2_SKIPPED:
		return broken(h2, "a stream's number is below that of one before");
	case WEIR_H2_LEFT:
		/* Counted when it is sent, as any reset that the client has caused. */
		nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_STREAM_CLOSED);
		return 0;
	default:
		return 0;
	}
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *user)
{
	weir_h2 *h2 = user;
	bool uses = hd->type == NGHTTP2_DATA || hd->type == NGHTTP2_HEADERS;
	int error = uses ? judge_past(h2, hd->stream_id) : 0;
	if (error != 0)
		return error;
	switch (hd->type) {
	case NGHTTP2_DATA:
		return judge_data(h2, hd);
	case NGHTTP2_PRIORITY:
		/* nghttp2 reads none of them, as the settings tell it. */
		if (hd->stream_id == 0)
			return broken(h2, "PRIORITY without a stream");
		return judged(h2, weir_h2_guard_idling(&h2->guard, weir_h2_now(h2)));
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
		return judge_block(h2, hd);
	case NGHTTP2_RST_STREAM:
		return 0;
	default:
		return judged(h2, weir_h2_guard_idling(&h2->guard, weir_h2_now(h2)));
	}
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2 *h2 = user;
	weir_h2_stream *stream;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
		stream = find(session, frame->hd.stream_id);
		if (stream != NULL)
			weir_h2_trailers_begin(stream);
		return 0;
	}
	weir_h2_past_open(&h2->past, (uint32_t)frame->hd.stream_id);
	/* Beyond the last stream: GOAWAY tells the client that it may try elsewhere. */
	if (h2->flags & WEIR_H2_LAST) {
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	stream = make(h2, frame->hd.stream_id);
	if (stream == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	nghttp2_session_set_stream_user_data(session, stream->id, stream);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags, void *user)
{
	weir_h2 *h2 = user;
	const char *why = weir_h2_guard_field(&h2->guard, name_length + value_length);
	weir_h2_stream *stream = find(session, frame->hd.stream_id);
	if (weir_http_transmit(h2->conn->loop) != NULL && stream != NULL && name_length == 8 &&
	    memcmp(name, "priority", 8) == 0)
		weir_h2_note_urgency(stream, (const char *)value, value_length);
	if (why == NULL && stream != NULL && stream->request != NULL)
		weir_h2_head_field(stream, (weir_span){(const char *)name, name_length},
				   (weir_span){(const char *)value, value_length});
	return judged(h2, why);
}

/* An invalid byte in a name or value. nghttp2 would leave the field out, which would be guessing. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
			     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
			     void *user)
{
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void end_of_headers(weir_h2 *h2, weir_h2_stream *stream, const nghttp2_frame *frame)
{
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (stream->flags & WEIR_H2_HEAD) {
		weir_h2_guard_earned(&h2->guard, 2);
		weir_h2_head_end(stream, last);
	} else if (weir_h2_trailers_end(stream) && last) {
		weir_h2_body_end(stream);
	}
}

static void take_settings(weir_h2 *h2, const nghttp2_frame *frame)
{
	h2->flags |= frame->hd.flags & NGHTTP2_FLAG_ACK ? WEIR_H2_ACKED : WEIR_H2_GREETED;
}

/* nghttp2 has checked it. One for a stream that is not there yet, or not any more, is not kept. */
static void update_priority(nghttp2_session *session, const nghttp2_ext_priority_update *update)
{
	weir_h2_stream *stream = find(session, update->stream_id);
	if (stream != NULL)
		weir_h2_note_urgency(stream, (const char *)update->field_value, update->field_value_len);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2 *h2 = user;
	weir_h2_stream *stream;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		h2->flags &= (uint16_t)~WEIR_H2_BLOCK;
		if ((stream = find(session, frame->hd.stream_id)) != NULL)
			end_of_headers(h2, stream, frame);
		break;
	case NGHTTP2_DATA:
		if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		    (stream = find(session, frame->hd.stream_id)) != NULL)
			weir_h2_body_end(stream);
		break;
	case NGHTTP2_SETTINGS:
		take_settings(h2, frame);
		break;
	case NGHTTP2_PRIORITY_UPDATE:
		update_priority(session, frame->ext.payload);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK && h2->flags & WEIR_H2_NOTICE)
			weir_h2_leave(h2);
		break;
	case NGHTTP2_RST_STREAM:
		weir_h2_past_leave(&h2->past, (uint32_t)frame->hd.stream_id);
		/* Counted whether the stream was answered or not: opening it takes only one frame. */
		return judged(h2, weir_h2_guard_reset(&h2->guard, weir_h2_now(h2)));
	default:
		break;
	}
	return 0;
}

/* Frames that nghttp2 refuses with a reset or by ending the connection. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	weir_h2 *h2 = user;
	if (frame->hd.type == NGHTTP2_HEADERS)
		h2->flags &= (uint16_t)~WEIR_H2_BLOCK;
	return 0;
}

/* Unknown frames have nothing to unpack. Without this, nghttp2 would skip them before on_begin_frame. */
static int unpack_nothing(nghttp2_session *session, void **ret_payload, const nghttp2_frame_hd *hd,
			  void *user)
{
	*ret_payload = NULL;
	return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
			 size_t length, void *user)
{
	weir_h2_stream *stream = find(session, id);
	if (stream != NULL)
		weir_h2_body_data(stream, bytes, length);
	else
		nghttp2_session_consume_connection(session, length);
	return 0;
}

static void log_malformed_head(weir_h2_stream *stream)
{
	weir_http_conn *conn = stream->h2->conn;
	weir_http_count(&conn->loop->counts.malformed);
	weir_http_log_malformed(conn, 400, stream->error != NULL ? stream->error : "a malformed head",
				stream->request->began_ns);
}

static const char *why_closed(const weir_h2_stream *stream, uint32_t code)
{
	if (code == NGHTTP2_PROTOCOL_ERROR)
		return "the stream broke the rules";
	return code == NGHTTP2_FLOW_CONTROL_ERROR ? "the stream went beyond its window"
						  : "the client has reset the stream";
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	weir_h2_stream *stream = find(session, id);
	if (stream == NULL)
		return 0;
	if (stream->flags & WEIR_H2_RECEIVED)
		weir_h2_past_leave(&stream->h2->past, (uint32_t)id);
	if (stream->flags & WEIR_H2_HEAD && stream->request != NULL)
		log_malformed_head(stream);
	weir_h2_stream_free(stream, why_closed(stream, code));
	return 0;
}

/* A reset that the client has caused costs it as much as one of its own. */
static int sent_reset(weir_h2 *h2, const nghttp2_frame *frame)
{
	weir_h2_stream *stream = find(h2->session, frame->hd.stream_id);
	if (stream != NULL && stream->flags & WEIR_H2_RESET)
		return 0;
	const char *why = weir_h2_guard_reset(&h2->guard, weir_h2_now(h2));
	if (why != NULL)
		weir_h2_set_doom(h2, NGHTTP2_ENHANCE_YOUR_CALM, why);
	return 0;
}

static void sent_goaway(weir_h2 *h2, const nghttp2_frame *frame)
{
	if (frame->goaway.error_code == NGHTTP2_NO_ERROR || h2->doom_why != NULL)
		return;
	weir_h2_set_doom(h2, frame->goaway.error_code, "frames that break the rules of HTTP/2");
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	weir_h2 *h2 = user;
	weir_h2_stream *stream;
	switch (frame->hd.type) {
	case NGHTTP2_DATA:
		/* Clients send WINDOW_UPDATE because of this. */
		weir_h2_guard_earned(&h2->guard, 2);
		/* fall through */
	case NGHTTP2_HEADERS:
		if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		    (stream = find(session, frame->hd.stream_id)) != NULL)
			weir_h2_sent(stream);
		break;
	case NGHTTP2_RST_STREAM:
		return sent_reset(h2, frame);
	case NGHTTP2_GOAWAY:
		sent_goaway(h2, frame);
		break;
	default:
		break;
	}
	return 0;
}

/* The head is too large to be sent, or there is no memory for it. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	weir_h2_stream *stream = find(session, frame->hd.stream_id);
	if (frame->hd.type == NGHTTP2_HEADERS && stream != NULL && error != NGHTTP2_ERR_STREAM_CLOSING &&
	    error != NGHTTP2_ERR_STREAM_CLOSED)
		weir_h2_stream_lose(stream, NGHTTP2_INTERNAL_ERROR, "the answer's head cannot be sent");
	return 0;
}

nghttp2_session_callbacks *weir_h2_callbacks_new(void)
{
	nghttp2_session_callbacks *callbacks;
	if (nghttp2_session_callbacks_new(&callbacks) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_nothing);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, weir_h2_send_data);
	return callbacks;
}
