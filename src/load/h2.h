/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_H2_H
#define WEIR_LOAD_H2_H

/*
 * The client's side of an HTTP/2 connection, by nghttp2: requests as streams, any number at a time. More than the peer allows wait within, in order; before the peer has said how many it
 * allows, that is one. Answers are told in a load_reader's terms.
 *
 * Bounds: 16 interim answers, heads of 32 KB in one answer; the frames that ask for an answer of ours are nghttp2's affair, which has bounds of its own.
 *
 * Threads: its connection's.
 */

#include <sys/types.h>

#include "load/bytes.h"
#include "load/reader.h"

typedef struct load_h2 load_h2;

/* What became of a stream. */
typedef enum load_stream_end {
	LOAD_STREAM_DONE,     /* the reader has the whole answer */
	LOAD_STREAM_REFUSED,  /* not looked at: REFUSED_STREAM, or a GOAWAY that leaves it out */
	LOAD_STREAM_RESET,    /* RST_STREAM of the peer */
	LOAD_STREAM_NONSENSE, /* what came for it was no answer */
} load_stream_end;

/* A request and its answer. The caller's; with HTTP/1 only the reader and the time are used. */
typedef struct load_stream {
	load_reader reader; /* meaning, bytes, kept */
	uint64_t first_byte_ns;
	int32_t id;               /* 0: none under way */
	uint32_t head_bytes;      /* of all heads so far */
	load_stream_end end;      /* once it is over */
	struct load_stream *next; /* of those that are over */
	weir_span body;           /* what is left to be sent */
} load_stream;

/* 0 or -ENOMEM. The preface is its first output. */
int load_h2_new(const char *authority, bool secure, load_h2 **ret);
/* NULL is ignored. */
void load_h2_free(load_h2 *h2);
/* What is to be sent after these is had from load_h2_output. */

/* Asks for what the form says, on a stream that has none under way and whose reader has begun. 0, or a negative errno: no more can be asked here. */
int load_h2_ask(load_h2 *h2, load_stream *stream, const load_form *form, weir_span target, weir_span cookies);
/* The answer is not wanted any more: RST_STREAM, or never sent. The stream is the caller's again. */
void load_h2_cancel(load_h2 *h2, load_stream *stream);
/* 0, or -EPROTO: the connection is of no use (those that are over are told all the same). */
int load_h2_take(load_h2 *h2, const char *bytes, size_t length, uint64_t now_ns);
/* The next that is over, in order; NULL: no more. */
load_stream *load_h2_over(load_h2 *h2);
/* The next bytes that wait to be sent, valid until the next call; some streams may be over by that, too: what cannot be sent. How many; 0: no more; -EPROTO: the connection is of no use. */
ssize_t load_h2_output(load_h2 *h2, const uint8_t **ret);
/* Another request may be asked: no GOAWAY came, and there are numbers left. */
bool load_h2_is_open(const load_h2 *h2);
/* Nothing will come or go any more: either side broke the rules. Known once all output was had. */
bool load_h2_is_dead(const load_h2 *h2);
/* How many streams the peer allows at the same time; before it has said so, any number is hoped for. */
uint32_t load_h2_most(const load_h2 *h2);

#endif
