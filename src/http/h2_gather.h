/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_GATHER_H
#define WEIR_HTTP_H2_GATHER_H

/*
 * What has come of a frame of HTTP/2, or of a header block, however the bytes are cut. What comes in one piece is
 * used where it is; otherwise it is collected. Both sides use this.
 *
 * Threads: the connection's.
 */

#include "http/h2_frames.h"

/* Where in a frame the next byte is. */
typedef enum weir_h2_phase {
	WEIR_H2_IN_PREFACE,
	WEIR_H2_IN_HEAD,
	WEIR_H2_IN_PAYLOAD, /* which is collected */
	WEIR_H2_IN_PADDING_LENGTH,
	WEIR_H2_IN_DATA,
	WEIR_H2_IN_SKIPPED, /* which nobody reads */
} weir_h2_phase;

typedef struct weir_h2_input {
	weir_h2_phase phase;
	uint32_t have;    /* of the preface, the head, or the payload */
	uint32_t left;    /* of DATA, or of what is skipped */
	uint32_t padding; /* behind DATA */
	uint8_t head[WEIR_H2_FRAME_HEAD];
	weir_h2_frame frame;
	uint8_t *payload;    /* of a frame that comes in parts; NULL: none */
	weir_h2_frame block; /* the HEADERS of the block that is arriving */
	uint8_t *fragments;  /* what has come of it; NULL: nothing */
	uint32_t fragment_bytes, fragment_room;
} weir_h2_input;

/* The head of a frame: true once it is in in->frame. Moves *at. */
bool weir_h2_gather_head(weir_h2_input *in, const uint8_t **at, const uint8_t *end);
/*
 * The payload of the frame. 1: it is at *ret_payload, and weir_mem_free of *ret_own follows its use; 0: more must
 * come; -ENOMEM. Moves *at.
 */
int weir_h2_gather_payload(weir_h2_input *in, const uint8_t **at, const uint8_t *end,
			   const uint8_t **ret_payload, uint8_t **ret_own);
/* Leaves out what nobody reads. Returns where it ends, or the bytes do. */
const uint8_t *weir_h2_gather_nothing(weir_h2_input *in, const uint8_t *at, const uint8_t *end);
/* A part of a header block; h2_guard.h bounds how much there can be. false: out of memory. */
bool weir_h2_gather_fragment(weir_h2_input *in, const uint8_t *bytes, size_t length);
/* The block has been used. */
void weir_h2_gather_block_over(weir_h2_input *in);
void weir_h2_gather_fini(weir_h2_input *in);

static inline void weir_h2_gather_next(weir_h2_input *in)
{
	in->phase = WEIR_H2_IN_HEAD;
	in->have = 0;
}

#endif
