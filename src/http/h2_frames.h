/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_FRAMES_H
#define WEIR_HTTP_H2_FRAMES_H

/*
 * Frames of HTTP/2 as bytes (RFC 9113 4.1 and 6), and the rules that a frame of a client must keep whatever
 * came before it: its length, and whether it belongs to a stream. Both sides use this.
 *
 * Threads: any.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/hpack.h"

#define WEIR_H2_FRAME_HEAD   9u
#define WEIR_H2_FRAME_MOST   16384u /* bytes of a payload that everybody takes; we send no more */
#define WEIR_H2_WINDOW_MOST  0x7fffffff
#define WEIR_H2_WINDOW_FIRST 65535 /* before any setting */
#define WEIR_H2_ID_MOST      0x7fffffffu

typedef enum weir_h2_type {
	WEIR_H2_DATA,
	WEIR_H2_HEADERS,
	WEIR_H2_PRIORITY,
	WEIR_H2_RST_STREAM,
	WEIR_H2_SETTINGS,
	WEIR_H2_PUSH_PROMISE,
	WEIR_H2_PING,
	WEIR_H2_GOAWAY,
	WEIR_H2_WINDOW_UPDATE,
	WEIR_H2_CONTINUATION,
	WEIR_H2_PRIORITY_UPDATE = 0x10, /* RFC 9218 7.1 */
} weir_h2_type;

enum weir_h2_frame_flag {
	WEIR_H2_ACK = 0x1,
	WEIR_H2_END_STREAM = 0x1,
	WEIR_H2_END_HEADERS = 0x4,
	WEIR_H2_PADDED = 0x8,
	WEIR_H2_HAS_PRIORITY = 0x20,
};

typedef enum weir_h2_code {
	WEIR_H2_NO_ERROR,
	WEIR_H2_PROTOCOL_ERROR,
	WEIR_H2_INTERNAL_ERROR,
	WEIR_H2_FLOW_CONTROL_ERROR,
	WEIR_H2_SETTINGS_TIMEOUT,
	WEIR_H2_STREAM_CLOSED,
	WEIR_H2_FRAME_SIZE_ERROR,
	WEIR_H2_REFUSED_STREAM,
	WEIR_H2_CANCEL,
	WEIR_H2_COMPRESSION_ERROR,
	WEIR_H2_CONNECT_ERROR,
	WEIR_H2_ENHANCE_YOUR_CALM,
} weir_h2_code;

typedef enum weir_h2_setting {
	WEIR_H2_HEADER_TABLE_SIZE = 1,
	WEIR_H2_ENABLE_PUSH = 2,
	WEIR_H2_MAX_CONCURRENT_STREAMS = 3,
	WEIR_H2_INITIAL_WINDOW_SIZE = 4,
	WEIR_H2_MAX_FRAME_SIZE = 5,
	WEIR_H2_MAX_HEADER_LIST_SIZE = 6,
	WEIR_H2_ENABLE_CONNECT = 8,        /* RFC 8441 */
	WEIR_H2_NO_RFC7540_PRIORITIES = 9, /* RFC 9218 */
} weir_h2_setting;

#define WEIR_H2_SETTING_BYTES 6u
#define WEIR_H2_SMALL_FRAME   (WEIR_H2_FRAME_HEAD + 8) /* bytes of an ack, a GOAWAY, or a frame with a number */

/* The head of a frame. */
typedef struct weir_h2_frame {
	uint32_t length;
	uint8_t type, flags;
	uint32_t id; /* of the stream; 0: the connection */
} weir_h2_frame;

static inline uint32_t weir_h2_get32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint8_t *weir_h2_put32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
	return at + 4;
}

static inline weir_h2_frame weir_h2_frame_read(const uint8_t *at)
{
	return (weir_h2_frame){.length = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2],
			       .type = at[3],
			       .flags = at[4],
			       .id = weir_h2_get32(at + 5) & WEIR_H2_ID_MOST};
}

/* Writes a frame's head; returns its end. */
static inline uint8_t *weir_h2_frame_write(uint8_t *at, size_t length, weir_h2_type type, uint8_t flags,
					   uint32_t id)
{
	at[0] = (uint8_t)(length >> 16);
	at[1] = (uint8_t)(length >> 8);
	at[2] = (uint8_t)length;
	at[3] = (uint8_t)type;
	at[4] = flags;
	return weir_h2_put32(at + 5, id);
}

/*
 * Whether a client may send a frame with such a head. NULL; or why not, and the code of the connection's
 * error.
 */
const char *weir_h2_frame_check(const weir_h2_frame *frame, weir_h2_code *ret_code);
/* What the peer has set. What it does not name stays. */
typedef struct weir_h2_settings {
	int32_t window; /* of a stream; of several the last counts */
	uint32_t streams;
} weir_h2_settings;

/* Reads the payload of SETTINGS, and tells the encoder its table's size; returns as weir_h2_frame_check. */
const char *weir_h2_settings_read(const uint8_t *payload, size_t length, weir_hpack_encoder *encoder,
				  weir_h2_settings *settings, weir_h2_code *ret_code);
/*
 * Removes padding and priority from the payload of HEADERS (DATA: only a byte of padding). NULL, or why
 * not: then PROTOCOL_ERROR. A stream may not depend on itself.
 */
const char *weir_h2_frame_strip(const weir_h2_frame *frame, const uint8_t **payload, size_t *length);

/* Frames of at most WEIR_H2_SMALL_FRAME bytes; each returns how many it has. */

/* The acknowledgement of SETTINGS, or of PING: with its payload. */
size_t weir_h2_frame_ack(uint8_t *frame, weir_h2_type type, const uint8_t *payload, size_t length);
/* RST_STREAM, WINDOW_UPDATE. */
size_t weir_h2_frame_number(uint8_t *frame, weir_h2_type type, uint32_t id, uint32_t number);
size_t weir_h2_frame_goaway(uint8_t *frame, uint32_t last, weir_h2_code code);

#endif
