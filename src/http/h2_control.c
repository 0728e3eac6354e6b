/* SPDX-License-Identifier: Apache-2.0 */
/* Frames about the connection, and the windows of both sides (RFC 9113 5.2, 6.5, 6.7, 6.9). */
#include "http/h2.h"

static void flow_broken(weir_h2 *h2, const char *why)
{
	weir_h2_set_doom(h2, WEIR_H2_FLOW_CONTROL_ERROR, why);
}

/* ---- what we may send ---- */

/*
 * false: it would be larger than a window may be. A window may be negative, after a change of the settings.
 */
static bool widen(int32_t *window, int64_t more)
{
	if (*window + more > WEIR_H2_WINDOW_MOST)
		return false;
	*window = (int32_t)(*window + more);
	return true;
}

static void take_stream_window(weir_h2 *h2, uint32_t id, uint32_t more)
{
	weir_h2_stream *stream = weir_h2_find(h2, id);
	if (stream == NULL) {
		/* One that has ended may still get some: the client cannot know. */
		if (id % 2 == 0 || id > h2->past.highest)
			weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "WINDOW_UPDATE of an idle stream");
		return;
	}
	if (!widen(&stream->send_window, more))
		weir_h2_stream_break(stream, WEIR_H2_FLOW_CONTROL_ERROR);
	else
		weir_h2_set_ready(stream);
}

void weir_h2_take_window(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload)
{
	uint32_t more = weir_h2_get32(payload) & WEIR_H2_ID_MOST;
	if (more == 0)
		weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
	else if (frame->id != 0)
		take_stream_window(h2, frame->id, more);
	else if (!widen(&h2->send_window, more))
		flow_broken(h2, "the connection's window is too large");
}

/* A change concerns the streams that are there, too. */
static void set_peer_window(weir_h2 *h2, int32_t size)
{
	int64_t more = (int64_t)size - h2->peer_window;
	h2->peer_window = size;
	for (weir_h2_stream *stream = h2->streams; stream != NULL; stream = stream->next) {
		if (!widen(&stream->send_window, more)) {
			flow_broken(h2, "a setting makes a stream's window too large");
			return;
		}
		if (stream->send_window <= 0)
			weir_h2_unset_ready(stream);
		weir_h2_set_ready(stream);
	}
}

/* ---- what the client may send ---- */

bool weir_h2_window_take(weir_h2 *h2, weir_h2_stream *stream, uint32_t length)
{
	if ((int64_t)length > h2->receive_window) {
		flow_broken(h2, "more than the connection's window");
		return false;
	}
	h2->receive_window -= (int32_t)length;
	if (stream == NULL)
		return true;
	if ((int64_t)length > stream->receive_window)
		weir_h2_stream_break(stream, WEIR_H2_FLOW_CONTROL_ERROR);
	else
		stream->receive_window -= (int32_t)length;
	return true;
}

void weir_h2_window_back(weir_h2 *h2, size_t length)
{
	h2->receive_owed += (uint32_t)length;
	/* Not for every few bytes: half a window is enough for the client to go on. */
	if (h2->receive_owed < WEIR_H2_WINDOW / 2)
		return;
	h2->receive_window += (int32_t)h2->receive_owed;
	weir_h2_say_window(h2, 0, h2->receive_owed);
	h2->receive_owed = 0;
}

void weir_h2_window_back_stream(weir_h2_stream *stream, size_t length)
{
	weir_h2_window_back(stream->h2, length);
	stream->receive_owed += (uint32_t)length;
	if ((int64_t)stream->receive_owed < stream->receive_size / 2 ||
	    stream->flags & (WEIR_H2_RECEIVED | WEIR_H2_RESET))
		return;
	stream->receive_window += (int32_t)stream->receive_owed;
	weir_h2_say_window(stream->h2, stream->id, stream->receive_owed);
	stream->receive_owed = 0;
}

void weir_h2_window_widen(weir_h2_stream *stream, int32_t size)
{
	int32_t more = size - stream->receive_size;
	if (more <= 0 || stream->flags & (WEIR_H2_RECEIVED | WEIR_H2_RESET))
		return;
	stream->receive_size = size;
	stream->receive_window += more;
	weir_h2_say_window(stream->h2, stream->id, (uint32_t)more);
}

/* ---- settings, pings, priorities ---- */

void weir_h2_take_settings(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload)
{
	if (frame->flags & WEIR_H2_ACK) {
		h2->flags |= WEIR_H2_ACKED;
		return;
	}
	h2->flags |= WEIR_H2_GREETED;
	weir_h2_settings settings = {.window = h2->peer_window};
	weir_h2_code code;
	const char *why = weir_h2_settings_read(payload, frame->length, &h2->encoder, &settings, &code);
	if (why != NULL) {
		weir_h2_set_doom(h2, code, why);
		return;
	}
	set_peer_window(h2, settings.window);
	weir_h2_say_ack(h2, WEIR_H2_SETTINGS, NULL, 0);
}

void weir_h2_take_ping(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload)
{
	if (!(frame->flags & WEIR_H2_ACK))
		weir_h2_say_ack(h2, WEIR_H2_PING, payload, frame->length);
	else if (h2->flags & WEIR_H2_NOTICE)
		weir_h2_leave(h2);
}

/* One for a stream that is not there yet, or not any more, is not kept. */
void weir_h2_take_priority(weir_h2 *h2, const weir_h2_frame *frame, const uint8_t *payload)
{
	uint32_t id = weir_h2_get32(payload) & WEIR_H2_ID_MOST;
	weir_h2_stream *stream = weir_h2_find(h2, id);
	if (id == 0)
		weir_h2_set_doom(h2, WEIR_H2_PROTOCOL_ERROR, "PRIORITY_UPDATE of no stream");
	else if (stream != NULL)
		weir_h2_note_priority(stream, (const char *)payload + 4, frame->length - 4);
}
