/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_H2_H
#define WEIR_LOAD_H2_H

/*
 * The client's side of an HTTP/2 connection, by nghttp2: requests as streams, any number at a time.
 * Streams beyond the number that the peer allows wait inside, in order; until the peer has stated that
 * number, it is one. Answers are reported in terms of a load_reader.
 *
 * Bounds: 16 interim answers, and heads of 32 KB, per answer. Frames that require an answer from us are
 * left to nghttp2, which has bounds of its own.
 *
 * Threads: that of its connection.
 */

#include <sys/types.h>

#include "load/bytes.h"
#include "load/reader.h"

typedef struct load_h2 load_h2;

/* How a stream ended. */
typedef enum load_stream_end {
	LOAD_STREAM_DONE,     /* the reader has the whole answer */
	LOAD_STREAM_REFUSED,  /* not processed: REFUSED_STREAM, or a GOAWAY that excludes it */
	LOAD_STREAM_RESET,    /* the peer sent RST_STREAM */
	LOAD_STREAM_NONSENSE, /* the input was not a valid answer */
} load_stream_end;

/* A request and its answer, owned by the caller; with HTTP/1 only the reader and the time are used. */
typedef struct load_stream {
	load_reader reader; /* meaning, bytes, kept */
	uint64_t first_byte_ns;
	int32_t id;               /* 0: none in progress */
	uint32_t head_bytes;      /* of all heads so far */
	load_stream_end end;      /* valid once it is over */
	struct load_stream *next; /* in the list of those that are over */
	weir_span body;           /* remaining bytes to be sent */
} load_stream;

/* 0 or -ENOMEM. The preface is its first output. */
int load_h2_new(const char *authority, bool secure, load_h2 **ret);
/* NULL is ignored. */
void load_h2_free(load_h2 *h2);
/* After each of these calls, fetch what is to be sent from load_h2_output. */

/*
 * Sends the form's request, on a stream that has none in progress and whose reader has begun. 0, or a
 * negative errno: this connection takes no more requests.
 */
int load_h2_ask(load_h2 *h2, load_stream *stream, const load_form *form, weir_span target, weir_span cookies);
/* The answer is no longer wanted: RST_STREAM, or never sent. The caller owns the stream again. */
void load_h2_cancel(load_h2 *h2, load_stream *stream);
/* 0, or -EPROTO: the connection is unusable (streams that are over are still reported). */
int load_h2_take(load_h2 *h2, const char *bytes, size_t length, uint64_t now_ns);
/* The next stream that is over, in order; NULL: no more. */
load_stream *load_h2_over(load_h2 *h2);
/*
 * The next bytes to be sent, valid until the next call. This may also end streams that cannot be sent.
 * Returns how many; 0: no more; -EPROTO: the connection is unusable.
 */
ssize_t load_h2_output(load_h2 *h2, const uint8_t **ret);
/* Whether another request can be made: no GOAWAY came, and there are stream numbers left. */
bool load_h2_is_open(const load_h2 *h2);
/* Nothing more will come or go: one side broke the protocol. Known once all output has been fetched. */
bool load_h2_is_dead(const load_h2 *h2);
/* How many concurrent streams the peer allows; unlimited until it has said so. */
uint32_t load_h2_most(const load_h2 *h2);

#endif
