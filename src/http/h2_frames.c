/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_frames.h"

#include <string.h>

/* ---- heads ---- */

typedef struct frame_rule {
	bool stream, connection; /* it must have a stream; it must have none */
	uint32_t least, most;    /* bytes of payload */
} frame_rule;

static const frame_rule rules[] = {
	[WEIR_H2_DATA] = {.stream = true, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_HEADERS] = {.stream = true, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_PRIORITY] = {.stream = true, .least = 5, .most = 5},
	[WEIR_H2_RST_STREAM] = {.stream = true, .least = 4, .most = 4},
	[WEIR_H2_SETTINGS] = {.connection = true, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_PUSH_PROMISE] = {.stream = true, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_PING] = {.connection = true, .least = 8, .most = 8},
	[WEIR_H2_GOAWAY] = {.connection = true, .least = 8, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_WINDOW_UPDATE] = {.least = 4, .most = 4},
	[WEIR_H2_CONTINUATION] = {.stream = true, .most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_CONTINUATION + 1 ... WEIR_H2_PRIORITY_UPDATE - 1] = {.most = WEIR_H2_FRAME_MOST},
	[WEIR_H2_PRIORITY_UPDATE] = {.connection = true, .least = 4, .most = WEIR_H2_FRAME_MOST},
};

static const char *wrong(weir_h2_code *ret_code, weir_h2_code code, const char *why)
{
	*ret_code = code;
	return why;
}

const char *weir_h2_frame_check(const weir_h2_frame *frame, weir_h2_code *ret_code)
{
	if (frame->length > WEIR_H2_FRAME_MOST)
		return wrong(ret_code, WEIR_H2_FRAME_SIZE_ERROR, "a frame is too large");
	if (frame->type > WEIR_H2_PRIORITY_UPDATE)
		return NULL;
	const frame_rule *rule = &rules[frame->type];
	if (frame->type == WEIR_H2_PUSH_PROMISE)
		return wrong(ret_code, WEIR_H2_PROTOCOL_ERROR, "PUSH_PROMISE by a client");
	if (rule->stream && frame->id == 0)
		return wrong(ret_code, WEIR_H2_PROTOCOL_ERROR, "a frame of streams without a stream");
	if (rule->connection && frame->id != 0)
		return wrong(ret_code, WEIR_H2_PROTOCOL_ERROR, "a frame of the connection on a stream");
	if (frame->length < rule->least || frame->length > rule->most)
		return wrong(ret_code, WEIR_H2_FRAME_SIZE_ERROR,
			     "a frame of another length than its type has");
	bool ack = frame->type == WEIR_H2_SETTINGS && frame->flags & WEIR_H2_ACK;
	if (ack ? frame->length != 0
		: frame->type == WEIR_H2_SETTINGS && frame->length % WEIR_H2_SETTING_BYTES != 0)
		return wrong(ret_code, WEIR_H2_FRAME_SIZE_ERROR, "SETTINGS of a wrong length");
	return NULL;
}

/* ---- payloads ---- */

static const char *check_setting(unsigned setting, uint32_t value, weir_h2_code *ret_code)
{
	switch (setting) {
	case WEIR_H2_ENABLE_PUSH:
	case WEIR_H2_ENABLE_CONNECT:
	case WEIR_H2_NO_RFC7540_PRIORITIES:
		return value <= 1
			       ? NULL
			       : wrong(ret_code, WEIR_H2_PROTOCOL_ERROR, "a setting that is neither 0 nor 1");
	case WEIR_H2_INITIAL_WINDOW_SIZE:
		return value <= WEIR_H2_WINDOW_MOST
			       ? NULL
			       : wrong(ret_code, WEIR_H2_FLOW_CONTROL_ERROR, "a window that is too large");
	case WEIR_H2_MAX_FRAME_SIZE:
		return value >= WEIR_H2_FRAME_MOST && value < 1u << 24
			       ? NULL
			       : wrong(ret_code, WEIR_H2_PROTOCOL_ERROR,
				       "a size of frames that is not allowed");
	default:
		return NULL;
	}
}

/* Other settings allow what is never done here: push, larger frames. */
const char *weir_h2_settings_read(const uint8_t *payload, size_t length, weir_hpack_encoder *encoder,
				  weir_h2_settings *settings, weir_h2_code *ret_code)
{
	for (size_t i = 0; i < length; i += WEIR_H2_SETTING_BYTES) {
		unsigned setting = (unsigned)payload[i] << 8 | payload[i + 1];
		uint32_t value = weir_h2_get32(payload + i + 2);
		const char *why = check_setting(setting, value, ret_code);
		if (why != NULL)
			return why;
		if (setting == WEIR_H2_HEADER_TABLE_SIZE)
			weir_hpack_encoder_resize(encoder, value);
		else if (setting == WEIR_H2_MAX_CONCURRENT_STREAMS)
			settings->streams = value;
		else if (setting == WEIR_H2_INITIAL_WINDOW_SIZE)
			settings->window = (int32_t)value;
	}
	return NULL;
}

const char *weir_h2_frame_strip(const weir_h2_frame *frame, const uint8_t **payload, size_t *length)
{
	const uint8_t *at = *payload, *end = at + *length;
	size_t padding = 0;
	if (frame->flags & WEIR_H2_PADDED) {
		if (at == end)
			return "padding without its length";
		padding = *at++;
	}
	if (frame->flags & WEIR_H2_HAS_PRIORITY) {
		if (end - at < 5)
			return "a priority that is cut";
		if ((weir_h2_get32(at) & WEIR_H2_ID_MOST) == frame->id)
			return "a stream that depends on itself";
		at += 5;
	}
	if (padding > (size_t)(end - at))
		return "more padding than there is";
	*payload = at;
	*length = (size_t)(end - at) - padding;
	return NULL;
}

/* ---- small frames ---- */

size_t weir_h2_frame_ack(uint8_t *frame, weir_h2_type type, const uint8_t *payload, size_t length)
{
	uint8_t *at = weir_h2_frame_write(frame, length, type, WEIR_H2_ACK, 0);
	if (length > 0)
		memcpy(at, payload, length);
	return WEIR_H2_FRAME_HEAD + length;
}

size_t weir_h2_frame_number(uint8_t *frame, weir_h2_type type, uint32_t id, uint32_t number)
{
	uint8_t *at = weir_h2_frame_write(frame, 4, type, 0, id);
	return (size_t)(weir_h2_put32(at, number) - frame);
}

size_t weir_h2_frame_goaway(uint8_t *frame, uint32_t last, weir_h2_code code)
{
	uint8_t *at = weir_h2_frame_write(frame, 8, WEIR_H2_GOAWAY, 0, 0);
	return (size_t)(weir_h2_put32(weir_h2_put32(at, last), code) - frame);
}
