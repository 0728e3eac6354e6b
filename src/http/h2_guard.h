/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_GUARD_H
#define WEIR_HTTP_H2_GUARD_H

/*
 * Budgets against floods of frames that cost the one who reads them work, and the other side nothing. Both sides
 * use them; here the peer is called the client.
 *
 *	resets   streams that the client resets, and streams that the server resets because the client broke
 *	         a rule: twice the limit of streams at once, then a quarter of the limit per second
 *	idling   PING, SETTINGS, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE, empty DATA, unknown types:
 *	         1000 at once, then 100 per second; a request, bytes of a body and a frame of an answer
 *	         give some back, as they are good reasons for such frames
 *	blocks   of one header block: compressed bytes, CONTINUATION frames, decoded fields and bytes
 *
 * Each function returns NULL, or a static sentence: then the connection must end with ENHANCE_YOUR_CALM.
 *
 * Threads: the connection's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_H2_IDLING_BURST      1000
#define WEIR_H2_IDLING_PER_S      100
#define WEIR_H2_CONTINUATION_MOST 16

/* Tokens are in thousandths, so that a slow refill is not lost between two frames. */
typedef struct weir_h2_bucket {
	uint64_t tokens, most, per_s, at_ns;
} weir_h2_bucket;

typedef struct weir_h2_guard {
	weir_h2_bucket resets, idling;
	/* the header block that is arriving */
	uint32_t block_bytes, block_frames, block_fields;
	uint64_t block_weight;
	uint32_t head_bytes, fields; /* const: the limits */
} weir_h2_guard;

void weir_h2_guard_init(weir_h2_guard *guard, uint32_t streams, uint32_t head_bytes, uint32_t fields,
			uint64_t now_ns);
/* The client has reset a stream, or made the server reset it. */
const char *weir_h2_guard_reset(weir_h2_guard *guard, uint64_t now_ns);
/* A frame that does no work. */
const char *weir_h2_guard_idling(weir_h2_guard *guard, uint64_t now_ns);
/* The client had a reason to send this many of them. */
void weir_h2_guard_earned(weir_h2_guard *guard, unsigned frames);
/* A HEADERS or CONTINUATION frame begins. */
const char *weir_h2_guard_block(weir_h2_guard *guard, bool first, size_t bytes);
/* A field was decoded. */
const char *weir_h2_guard_field(weir_h2_guard *guard, size_t bytes);

#endif
