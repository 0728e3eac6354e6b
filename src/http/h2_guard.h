/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_GUARD_H
#define WEIR_HTTP_H2_GUARD_H

/*
 * Budgets against floods: of frames that cost the server work and the client nothing. What nghttp2 bounds by itself (acknowledgements that wait to be sent, entries of a SETTINGS
 * frame, CONTINUATION frames, resets) is bounded here as well, since which of it there is depends on its version.
 *
 *	resets   streams that the client resets before they are answered, and those it makes the server reset by breaking rules: two buckets' worth of streams
 *	         at once, then a quarter of them a second
 *	idling   PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, empty DATA, and types that nobody knows, which are skipped: 1000 at once, then 100 a second;
 *	         what a client has a reason for is given back: a request, bytes of a body, a frame of an answer
 *	blocks   of one header block: bytes as compressed, CONTINUATION frames, fields and bytes as they come out
 *
 * Each function returns NULL, or a static sentence: then the connection is to end with ENHANCE_YOUR_CALM.
 *
 * Threads: the connection's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_H2_IDLING_BURST      1000
#define WEIR_H2_IDLING_PER_S      100
#define WEIR_H2_CONTINUATION_MOST 16

/* Tokens in thousandths, so that a slow refill is not lost between two frames. */
typedef struct weir_h2_bucket {
	uint64_t tokens, most, per_s, at_ns;
} weir_h2_bucket;

typedef struct weir_h2_guard {
	weir_h2_bucket resets, idling;
	/* of the header block that is coming in */
	uint32_t block_bytes, block_frames, block_fields;
	uint64_t block_weight;
	uint32_t head_bytes, fields; /* const: the limits */
} weir_h2_guard;

void weir_h2_guard_init(weir_h2_guard *guard, uint32_t streams, uint32_t head_bytes, uint32_t fields,
			uint64_t now_ns);
/* A stream was reset without having been answered. */
const char *weir_h2_guard_reset(weir_h2_guard *guard, uint64_t now_ns);
/* A frame that does nothing for anybody. */
const char *weir_h2_guard_idling(weir_h2_guard *guard, uint64_t now_ns);
/* There was a reason for so many of them. */
void weir_h2_guard_earned(weir_h2_guard *guard, unsigned frames);
/* HEADERS or CONTINUATION begins. */
const char *weir_h2_guard_block(weir_h2_guard *guard, bool first, size_t bytes);
/* A field came out of it. */
const char *weir_h2_guard_field(weir_h2_guard *guard, size_t bytes);

#endif
