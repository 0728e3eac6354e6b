/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the client's side of HTTP/2, but for large DATA: they are made in one place and handed over together. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/h2_client_priv.h"

#define MADE_LEAST 4096u /* room for frames */
#define ACKS_MOST  256u

/* ---- frames that were made ---- */

uint8_t *weir_h2_made_reserve(weir_h2_client *client, size_t more)
{
	weir_h2_made *out = &client->out;
	if (more <= out->room - out->end)
		return out->bytes + out->end;
	size_t have = out->end - out->at, room = 2 * (have + more);
	room = room > MADE_LEAST ? room : MADE_LEAST;
	uint8_t *larger = weir_mem_raw(room);
	if (larger == NULL)
		return NULL;
	if (have > 0)
		memcpy(larger, out->bytes + out->at, have);
	weir_mem_free(out->bytes);
	out->data -= out->at; /* of no meaning if it was sent */
	out->bytes = larger;
	out->at = 0;
	out->end = have;
	out->room = room;
	return larger + have;
}

void weir_h2_made_commit(weir_h2_client *client, size_t length)
{
	client->out.end += length;
	client->out.data_id = 0;
}

static void out_of_memory(weir_h2_client *client)
{
	weir_h2_client_doom(client, WEIR_H2_INTERNAL_ERROR, "out of memory");
}

void weir_h2_client_say(weir_h2_client *client, const void *frame, size_t length)
{
	uint8_t *to = weir_h2_made_reserve(client, length);
	if (to == NULL) {
		out_of_memory(client);
		return;
	}
	memcpy(to, frame, length);
	weir_h2_made_commit(client, length);
}

void weir_h2_client_say_hello(weir_h2_client *client)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	const uint32_t settings[][2] = {{WEIR_H2_ENABLE_PUSH, 0},
					{WEIR_H2_INITIAL_WINDOW_SIZE, WEIR_H2_CLIENT_WINDOW},
					{WEIR_H2_MAX_HEADER_LIST_SIZE, client->options.head_bytes}};
	enum { COUNT = sizeof(settings) / sizeof(settings[0]) };
	uint8_t frame[WEIR_H2_FRAME_HEAD + COUNT * WEIR_H2_SETTING_BYTES];
	uint8_t *at = weir_h2_frame_write(frame, sizeof(frame) - WEIR_H2_FRAME_HEAD, WEIR_H2_SETTINGS, 0, 0);
	for (size_t i = 0; i < COUNT; i++) {
		*at++ = 0;
		*at++ = (uint8_t)settings[i][0];
		at = weir_h2_put32(at, settings[i][1]);
	}
	weir_h2_client_say(client, preface, sizeof(preface) - 1);
	weir_h2_client_say(client, frame, sizeof(frame));
}

void weir_h2_client_say_ack(weir_h2_client *client, weir_h2_type type, const uint8_t *payload, size_t length)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_ack(frame, type, payload, length);
	weir_h2_client_say(client, frame, bytes);
	if (++client->out.acks > ACKS_MOST)
		weir_h2_client_doom(client, WEIR_H2_ENHANCE_YOUR_CALM,
				    "the server sends too many frames that want an answer");
}

void weir_h2_client_say_window(weir_h2_client *client, uint32_t id, uint32_t more)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_number(frame, WEIR_H2_WINDOW_UPDATE, id, more);
	weir_h2_client_say(client, frame, bytes);
}

void weir_h2_client_say_reset(weir_h2_client *client, uint32_t id, uint32_t code)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_number(frame, WEIR_H2_RST_STREAM, id, code);
	weir_h2_client_say(client, frame, bytes);
}

void weir_h2_client_say_goaway(weir_h2_client *client, uint32_t code)
{
	uint8_t frame[WEIR_H2_SMALL_FRAME];
	size_t bytes = weir_h2_frame_goaway(frame, 0, code);
	weir_h2_client_say(client, frame, bytes);
	client->left = true;
}

void weir_h2_client_say_ping(weir_h2_client *client)
{
	uint8_t frame[WEIR_H2_FRAME_HEAD + 8] = {0};
	weir_h2_frame_write(frame, 8, WEIR_H2_PING, 0, 0);
	weir_h2_client_say(client, frame, sizeof(frame));
}

/* ---- header blocks ---- */

/*
 * The block at `begin` is longer than a frame: makes room for the heads of CONTINUATION frames, from the last to the
 * first, and writes them. Returns the end.
 */
static uint8_t *cut_block(uint8_t *begin, size_t length, uint32_t id)
{
	size_t frames = (length - 1) / WEIR_H2_FRAME_MOST, last = length - frames * WEIR_H2_FRAME_MOST;
	for (size_t i = frames; i > 0; i--) {
		uint8_t *from = begin + i * WEIR_H2_FRAME_MOST, *to = from + (i - 1) * WEIR_H2_FRAME_HEAD;
		size_t part = i == frames ? last : WEIR_H2_FRAME_MOST;
		memmove(to + WEIR_H2_FRAME_HEAD, from, part);
		weir_h2_frame_write(to, part, WEIR_H2_CONTINUATION, i == frames ? WEIR_H2_END_HEADERS : 0,
				    id);
	}
	return begin + length + frames * WEIR_H2_FRAME_HEAD;
}

/* What most requests begin with is in the static table. */
static uint8_t *put_field(weir_hpack_encoder *encoder, uint8_t *to, const weir_field *field)
{
	static const struct {
		weir_span name, value;
		uint8_t byte;
	} known[] = {{{":method", 7}, {"GET", 3}, 0x82},
		     {{":method", 7}, {"POST", 4}, 0x83},
		     {{":path", 5}, {"/", 1}, 0x84},
		     {{":scheme", 7}, {"http", 4}, 0x86},
		     {{":scheme", 7}, {"https", 5}, 0x87}};
	for (size_t i = 0; field->name.at[0] == ':' && i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].name.length == field->name.length &&
		    known[i].value.length == field->value.length &&
		    memcmp(known[i].name.at, field->name.at, field->name.length) == 0 &&
		    memcmp(known[i].value.at, field->value.at, field->value.length) == 0) {
			*to = known[i].byte;
			return to + 1;
		}
	return weir_hpack_put(encoder, to, field->name, field->value);
}

int weir_h2_made_block(weir_h2_client *client, uint32_t id, const weir_field *fields, size_t count, bool last)
{
	size_t most = WEIR_HPACK_BEGIN_MOST + count * WEIR_HPACK_FIELD_MOST;
	for (size_t i = 0; i < count; i++)
		most += fields[i].name.length + fields[i].value.length;
	uint8_t *frame =
		weir_h2_made_reserve(client, most + (most / WEIR_H2_FRAME_MOST + 1) * WEIR_H2_FRAME_HEAD);
	if (frame == NULL)
		return -ENOMEM;
	uint8_t *begin = frame + WEIR_H2_FRAME_HEAD, *end = weir_hpack_begin(&client->encoder, begin);
	for (size_t i = 0; i < count; i++)
		end = put_field(&client->encoder, end, &fields[i]);
	size_t length = (size_t)(end - begin);
	unsigned flags = last ? WEIR_H2_END_STREAM : 0;
	if (length > WEIR_H2_FRAME_MOST) {
		end = cut_block(begin, length, id);
		length = WEIR_H2_FRAME_MOST;
	} else {
		flags |= WEIR_H2_END_HEADERS;
	}
	weir_h2_frame_write(frame, length, WEIR_H2_HEADERS, (uint8_t)flags, id);
	weir_h2_made_commit(client, (size_t)(end - frame));
	return 0;
}
