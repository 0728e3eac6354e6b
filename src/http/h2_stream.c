/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: what begins them, what ends them, and what a client may do with those that are over. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"
#include "http/head.h"

/* ---- creating and freeing ---- */

static weir_h2_stream **slot_of(weir_h2 *h2, uint32_t id)
{
	return &h2->slots[id / 2 % WEIR_H2_SLOTS];
}

weir_h2_stream *weir_h2_find(const weir_h2 *h2, uint32_t id)
{
	weir_h2_stream *stream = h2->slots[id / 2 % WEIR_H2_SLOTS];
	while (stream != NULL && stream->id != id)
		stream = stream->next_same;
	return stream;
}

static void link_stream(weir_h2 *h2, weir_h2_stream *stream)
{
	weir_h2_stream **slot = slot_of(h2, stream->id);
	stream->next_same = *slot;
	*slot = stream;
	stream->next = h2->streams;
	stream->prev = &h2->streams;
	if (stream->next != NULL)
		stream->next->prev = &stream->next;
	h2->streams = stream;
	h2->stream_count++;
}

static weir_h2_stream *make(weir_h2 *h2, uint32_t id)
{
	weir_h2_memory *memory = &h2->conn->loop->h2;
	weir_h2_stream *stream = weir_pool_take(&memory->streams);
	if (stream == NULL)
		return NULL;
	*stream = (weir_h2_stream){.h2 = h2,
				   .id = id,
				   .flags = WEIR_H2_HEAD,
				   .urgency = WEIR_H2_URGENCY,
				   .send_window = h2->peer_window,
				   .receive_window = WEIR_H2_STREAM_WINDOW,
				   .receive_size = WEIR_H2_STREAM_WINDOW,
				   .length_left = WEIR_UNKNOWN_LENGTH};
	stream->request = weir_request_new(h2->conn, &weir_h2_codec, stream, h2->block_ns);
	if (stream->request == NULL) {
		weir_pool_give(&memory->streams, stream);
		return NULL;
	}
	link_stream(h2, stream);
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

static void remove_done(weir_h2_stream *stream)
{
	weir_h2_stream **at = &stream->h2->done;
	if (!(stream->flags & WEIR_H2_DONE))
		return;
	while (*at != stream)
		at = &(*at)->next_done;
	*at = stream->next_done;
}

static void unlink_stream(weir_h2_stream *stream)
{
	weir_h2 *h2 = stream->h2;
	*stream->prev = stream->next;
	if (stream->next != NULL)
		stream->next->prev = stream->prev;
	weir_h2_stream **same = slot_of(h2, stream->id);
	while (*same != stream)
		same = &(*same)->next_same;
	*same = stream->next_same;
	remove_due(stream);
	remove_done(stream);
	weir_h2_unset_ready(stream);
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

/* ---- ends ---- */

void weir_h2_stream_done(weir_h2_stream *stream)
{
	weir_h2 *h2 = stream->h2;
	if (stream->flags & WEIR_H2_DONE || !(stream->flags & (WEIR_H2_OUT | WEIR_H2_RESET)))
		return;
	stream->flags |= WEIR_H2_DONE;
	stream->next_done = h2->done;
	h2->done = stream;
}

static const char *why_closed(uint32_t code)
{
	if (code == WEIR_H2_PROTOCOL_ERROR)
		return "the stream broke the rules";
	return code == WEIR_H2_FLOW_CONTROL_ERROR ? "the stream went beyond its window"
						  : "the client has reset the stream";
}

/* An answer that has been handed to the link has ended, whatever the client does then. */
static void tell_sent(weir_h2_stream *stream)
{
	if ((stream->flags & (WEIR_H2_OUT | WEIR_H2_TOLD)) != WEIR_H2_OUT)
		return;
	stream->flags |= WEIR_H2_TOLD;
	weir_h2_sent(stream);
}

static void close_stream(weir_h2_stream *stream, uint32_t code)
{
	tell_sent(stream);
	if (stream->flags & WEIR_H2_RECEIVED)
		weir_h2_past_leave(&stream->h2->past, stream->id);
	weir_h2_stream_free(stream, why_closed(code));
}

void weir_h2_finish(weir_h2 *h2)
{
	weir_h2_stream *stream;
	while ((stream = h2->done) != NULL) {
		h2->done = stream->next_done;
		stream->flags &= ~(uint32_t)WEIR_H2_DONE;
		tell_sent(stream);
		/*
		 * Because of that it may be done once more: reset, since nobody reads the rest of its body.
		 */
		if (stream->flags & WEIR_H2_RESET || stream->flags & WEIR_H2_RECEIVED)
			close_stream(stream, stream->code);
	}
}

void weir_h2_stream_reset(weir_h2_stream *stream, uint32_t code)
{
	weir_h2_free_parts(stream);
	if (stream->flags & WEIR_H2_RESET)
		return;
	stream->flags |= WEIR_H2_RESET;
	stream->code = code;
	weir_h2_unset_ready(stream);
	weir_h2_say_reset(stream->h2, stream->id, code);
	weir_h2_stream_done(stream);
	weir_h2_go_on(stream->h2);
}

/* A reset that the client has caused costs it as much as one of its own. */
static void count_reset(weir_h2 *h2)
{
	const char *why = weir_h2_guard_reset(&h2->guard, weir_h2_now(h2));
	if (why != NULL)
		weir_h2_set_doom(h2, WEIR_H2_ENHANCE_YOUR_CALM, why);
}

void weir_h2_stream_break(weir_h2_stream *stream, uint32_t code)
{
	if (stream->flags & WEIR_H2_RESET)
		return;
	count_reset(stream->h2);
	weir_h2_stream_reset(stream, code);
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

/* ---- streams that are not there ---- */

static void refuse(weir_h2 *h2, uint32_t id, uint32_t code)
{
	weir_h2_say_reset(h2, id, code);
	count_reset(h2);
}

bool weir_h2_judge_absent(weir_h2 *h2, uint32_t id)
{
	if (id % 2 == 0 || id > h2->past.highest) {
		weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "a frame on an idle stream");
		return false;
	}
	switch (weir_h2_past_of(&h2->past, id)) {
	case WEIR_H2_SKIPPED:
		weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "a stream's number is below that of one before");
		return false;
	case WEIR_H2_LEFT:
		refuse(h2, id, WEIR_H2_STREAM_CLOSED);
		return false;
	default:
		return true;
	}
}

void weir_h2_take_reset(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload)
{
	weir_h2_stream *stream = weir_h2_find(h2, frame->id);
	if (stream == NULL && (frame->id % 2 == 0 || frame->id > h2->past.highest)) {
		weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "RST_STREAM of an idle stream");
		return;
	}
	weir_h2_past_leave(&h2->past, frame->id);
	/* Counted whether the stream was answered or not: opening it takes only one frame. */
	count_reset(h2);
	/* A code that the client chooses is no reason of ours. */
	if (stream != NULL)
		close_stream(stream, WEIR_H2_CANCEL);
}

/* ---- header blocks ---- */

#define SCRATCH_HERE 2048u

/* Fields of a block, for a stream or, to keep the table right, for nobody. false: doom. */
static bool take_fields(weir_h2 *h2, weir_h2_stream *stream, weir_hpack_block *block)
{
	weir_hpack_field field;
	int got;
	while ((got = weir_hpack_next(&h2->decoder, block, &field)) == 1) {
		const char *why = weir_h2_guard_field(&h2->guard, field.name.length + field.value.length);
		if (why != NULL) {
			weir_h2_set_doom(h2, WEIR_H2_ENHANCE_YOUR_CALM, why);
			return false;
		}
		if (stream == NULL || stream->flags & WEIR_H2_BROKEN)
			continue;
		weir_field_id id = weir_field_lookup(field.name.at, field.name.length);
		if (!weir_h2_rules_field(stream, &field, id))
			stream->flags |= WEIR_H2_BROKEN;
		else if (stream->request != NULL)
			weir_h2_head_field(stream, &field, id);
	}
	if (got == -ENOMEM)
		weir_h2_set_doom(h2, WEIR_H2_INTERNAL_ERROR, "out of memory");
	else if (got < 0)
		weir_h2_set_doom(h2, WEIR_H2_COMPRESSION_ERROR, "a header block that cannot be decoded");
	return got == 0;
}

static bool decode(weir_h2 *h2, weir_h2_stream *stream, const uint8_t *bytes, size_t length)
{
	uint8_t here[SCRATCH_HERE], *scratch = here;
	if (weir_hpack_scratch(length) > sizeof(here) &&
	    (scratch = weir_mem_raw(weir_hpack_scratch(length))) == NULL) {
		weir_h2_set_doom(h2, WEIR_H2_INTERNAL_ERROR, "out of memory");
		return false;
	}
	weir_hpack_block block = {.at = bytes, .end = bytes + length, .scratch = scratch};
	bool whole = take_fields(h2, stream, &block);
	if (scratch != here)
		weir_mem_free(scratch);
	return whole;
}

static void break_head(weir_h2_stream *stream)
{
	weir_http_conn *conn = stream->h2->conn;
	weir_http_count(&conn->loop->counts.malformed);
	weir_http_log_malformed(conn, 400, stream->error != NULL ? stream->error : "a malformed head",
				stream->request->began_ns);
	weir_h2_stream_break(stream, WEIR_H2_PROTOCOL_ERROR);
}

/* A stream begins. Beyond the last one, GOAWAY tells the client that it may try elsewhere. */
static void open_stream(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *block, size_t length)
{
	bool last = frame->flags & WEIR_H2_END_STREAM;
	bool refused = h2->flags & WEIR_H2_LAST || h2->stream_count >= h2->conn->loop->limits.streams;
	weir_h2_past_open(&h2->past, frame->id);
	weir_h2_stream *stream = refused ? NULL : make(h2, frame->id);
	if (!decode(h2, stream, block, length))
		return;
	if (stream == NULL) {
		refuse(h2, frame->id, refused ? WEIR_H2_REFUSED_STREAM : WEIR_H2_INTERNAL_ERROR);
		return;
	}
	if (stream->flags & WEIR_H2_BROKEN || !weir_h2_rules_head(stream, last)) {
		break_head(stream);
		return;
	}
	weir_h2_guard_earned(&h2->guard, 2);
	weir_h2_head_end(stream, last);
}

static void take_trailers(weir_h2_stream *stream, const weir_h2_frame *frame, const uint8_t *block,
			  size_t length)
{
	weir_h2_trailers_begin(stream);
	if (!decode(stream->h2, stream, block, length))
		return;
	if (stream->flags & WEIR_H2_BROKEN || !(frame->flags & WEIR_H2_END_STREAM) ||
	    (stream->length_left != WEIR_UNKNOWN_LENGTH && stream->length_left > 0)) {
		weir_h2_stream_break(stream, WEIR_H2_PROTOCOL_ERROR);
		return;
	}
	if (weir_h2_trailers_end(stream)) {
		weir_h2_body_end(stream);
		weir_h2_stream_done(stream);
	}
}

void weir_h2_take_block(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *block, size_t length)
{
	weir_h2_stream *stream = weir_h2_find(h2, frame->id);
	if (stream == NULL && frame->id % 2 == 1 && frame->id > h2->past.highest) {
		open_stream(h2, frame, block, length);
		return;
	}
	if (stream != NULL && !(stream->flags & (WEIR_H2_RECEIVED | WEIR_H2_RESET))) {
		take_trailers(stream, frame, block, length);
		return;
	}
	if (stream != NULL)
		weir_h2_stream_break(stream, WEIR_H2_STREAM_CLOSED);
	else
		weir_h2_judge_absent(h2, frame->id);
	if (h2->doom_why == NULL)
		decode(h2, NULL, block, length);
}
