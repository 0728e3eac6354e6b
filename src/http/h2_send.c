/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to the link. Those that are not DATA go there at once while it has room, and else wait behind each
 * other. DATA is made when its stream is next, of as many bytes as the windows and the link take.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2.h"
#include "net/transmit.h"

#define PENDING_LEAST 512u
#define ACKS_MOST     256u

/* ---- waiting ---- */

static bool make_room(weir_h2_pending *pending, size_t length)
{
	size_t have = pending->end - pending->at;
	if (pending->bytes != NULL && length <= pending->room - pending->end)
		return true;
	size_t room = 2 * (have + length) > PENDING_LEAST ? 2 * (have + length) : PENDING_LEAST;
	uint8_t *larger = weir_mem_raw(room);
	if (larger == NULL)
		return false;
	if (pending->bytes != NULL)
		memcpy(larger, pending->bytes + pending->at, have);
	weir_mem_free(pending->bytes);
	*pending = (weir_h2_pending){.bytes = larger, .end = have, .room = room, .acks = pending->acks};
	return true;
}

static void drop_pending(weir_h2_pending *pending)
{
	weir_mem_free(pending->bytes);
	*pending = (weir_h2_pending){0};
}

int weir_h2_say(weir_h2 *h2, const uint8_t *frames, size_t length)
{
	weir_h2_pending *pending = &h2->pending;
	if (h2->flags & WEIR_H2_CLOSED)
		return 0;
	if (pending->bytes == NULL && !weir_h2_link_is_full(h2) &&
	    weir_link_write(&h2->conn->link, frames, length) == 0)
		return 0;
	if (!make_room(pending, length)) {
		weir_h2_set_doom(h2, WEIR_H2_INTERNAL_ERROR, "out of memory");
		return -ENOMEM;
	}
	memcpy(pending->bytes + pending->end, frames, length);
	pending->end += length;
	return 0;
}

/* As much as the link takes: what is left is whole frames or the rest of one, which nothing comes between. */
int weir_h2_send_pending(weir_h2 *h2)
{
	weir_h2_pending *pending = &h2->pending;
	while (pending->bytes != NULL && !weir_h2_link_is_full(h2)) {
		size_t length = pending->end - pending->at, most = h2->conn->loop->link_bytes / 2;
		if (length > most)
			length = most;
		int error = weir_link_write(&h2->conn->link, pending->bytes + pending->at, length);
		if (error != 0)
			return error;
		pending->at += length;
		if (pending->at == pending->end)
			drop_pending(pending);
	}
	return 0;
}

/* ---- frames that are not DATA ---- */

void weir_h2_say_settings(weir_h2 *h2)
{
	const weir_http_limits *limits = &h2->conn->loop->limits;
	const struct {
		uint16_t setting;
		uint32_t value;
	} settings[] = {
		{WEIR_H2_MAX_CONCURRENT_STREAMS, limits->streams},
		{WEIR_H2_INITIAL_WINDOW_SIZE, WEIR_H2_STREAM_WINDOW},
		{WEIR_H2_MAX_HEADER_LIST_SIZE, limits->head_bytes},
		/* Priorities of RFC 9218, not the tree of RFC 7540, which clients do not send any more. */
		{WEIR_H2_NO_RFC7540_PRIORITIES, 1},
	};
	enum { COUNT = sizeof(settings) / sizeof(settings[0]) };
	uint8_t frame[WEIR_H2_FRAME_HEAD + COUNT * WEIR_H2_SETTING_BYTES];
	uint8_t *at = weir_h2_frame_write(frame, sizeof(frame) - WEIR_H2_FRAME_HEAD, WEIR_H2_SETTINGS, 0, 0);
	for (size_t i = 0; i < COUNT; i++) {
		*at++ = (uint8_t)(settings[i].setting >> 8);
		*at++ = (uint8_t)settings[i].setting;
		at = weir_h2_put32(at, settings[i].value);
	}
	weir_h2_say(h2, frame, sizeof(frame));
}

void weir_h2_say_ack(weir_h2 *h2, weir_h2_type type, const uint8_t *payload, size_t length)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_ack(frame, type, payload, length);
	weir_h2_say(h2, frame, bytes);
	if (h2->pending.bytes != NULL && ++h2->pending.acks > ACKS_MOST)
		weir_h2_set_doom(h2, WEIR_H2_ENHANCE_YOUR_CALM, "too many frames that want an answer");
}

void weir_h2_say_reset(weir_h2 *h2, uint32_t id, uint32_t code)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_number(frame, WEIR_H2_RST_STREAM, id, code);
	weir_h2_say(h2, frame, bytes);
}

void weir_h2_say_window(weir_h2 *h2, uint32_t id, uint32_t more)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_number(frame, WEIR_H2_WINDOW_UPDATE, id, more);
	weir_h2_say(h2, frame, bytes);
}

void weir_h2_say_goaway(weir_h2 *h2, uint32_t last, uint32_t code)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_goaway(frame, last, code);
	weir_h2_say(h2, frame, bytes);
}

void weir_h2_say_ping(weir_h2 *h2)
{
	uint8_t frame[WEIR_H2_FRAME_HEAD + 8] = {0};
	weir_h2_frame_write(frame, 8, WEIR_H2_PING, 0, 0);
	weir_h2_say(h2, frame, sizeof(frame));
}

/* ---- DATA ---- */

/* So much fits into the link while it is less than half full. */
static size_t frame_most(const weir_h2_stream *stream)
{
	const weir_h2 *h2 = stream->h2;
	const weir_conn *conn = h2->conn->link.conn;
	size_t most = h2->conn->loop->link_bytes / 2 - WEIR_H2_FRAME_HEAD;
	int32_t window = h2->send_window < stream->send_window ? h2->send_window : stream->send_window;
	if (most > WEIR_H2_FRAME_MOST)
		most = WEIR_H2_FRAME_MOST;
	/* What is in the link cannot be overtaken. */
	if (weir_conn_is_paced(conn) && weir_conn_ahead(conn) < most)
		most = weir_conn_ahead(conn);
	if (window <= 0)
		return 0;
	return most < (size_t)window ? most : (size_t)window;
}

static size_t next_bytes(const weir_h2_stream *stream, bool *ret_last)
{
	size_t most = frame_most(stream);
	uint64_t have = 0;
	const weir_h2_part *part = stream->first;
	for (; part != NULL && have < most; part = part->next)
		have += part->length;
	*ret_last = part == NULL && have <= most && stream->flags & WEIR_H2_WHOLE;
	return have < most ? (size_t)have : most;
}

static int send_frame(weir_h2_stream *stream, size_t length, uint8_t flags)
{
	weir_h2 *h2 = stream->h2;
	uint8_t head[WEIR_H2_FRAME_HEAD];
	weir_h2_frame_write(head, length, WEIR_H2_DATA, flags, stream->id);
	h2->send_window -= (int32_t)length;
	stream->send_window -= (int32_t)length;
	stream->progress_ns = weir_h2_now(h2);
	/* Clients send WINDOW_UPDATE because of this. */
	weir_h2_guard_earned(&h2->guard, 2);
	return length > 0 ? weir_h2_send_parts(stream, head, length)
			  : weir_link_write(&h2->conn->link, head, sizeof(head));
}

static void end_stream(weir_h2_stream *stream)
{
	if (stream->trailer_count > 0 && weir_h2_write_trailers(stream) != 0) {
		weir_h2_stream_reset(stream, WEIR_H2_INTERNAL_ERROR);
		return;
	}
	stream->flags |= WEIR_H2_OUT;
	weir_h2_stream_done(stream);
}

/* Behind others of its urgency if it takes turns, or out of the list. */
static void queue_again(weir_h2_stream *stream)
{
	if (stream->first != NULL && stream->send_window > 0 && !(stream->flags & WEIR_H2_TURNS))
		return;
	weir_h2_unset_ready(stream);
	weir_h2_set_ready(stream);
}

int weir_h2_send_body(weir_h2_stream *stream)
{
	bool last;
	int error = 0;
	size_t length = next_bytes(stream, &last);
	bool trails = stream->trailer_count > 0;
	if (length > 0 || !trails)
		error = send_frame(stream, length, last && !trails ? WEIR_H2_END_STREAM : 0);
	if (error != 0)
		return error;
	if (last)
		end_stream(stream);
	queue_again(stream);
	return 0;
}
