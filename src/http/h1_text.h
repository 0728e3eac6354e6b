/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H1_TEXT_H
#define WEIR_HTTP_H1_TEXT_H

/*
 * Text of HTTP/1.1 as it is sent: fields, and bodies in chunks. For answers to clients (h1_write.c), and for
 * requests to servers (src/sentry).
 *
 * Threads: that of the link.
 */

#include <string.h>
#include <weir/http.h>

#include "tls/link.h"

/* Up to this size, bytes are copied behind what comes before them; for more, a copy does not pay. */
#define WEIR_H1_COPY_MOST 2048u
/* What a chunk has besides its bytes, at most: 16 digits and two line ends. */
#define WEIR_H1_CHUNK_EXTRA 20

static inline char *weir_h1_put(char *to, const void *bytes, size_t length)
{
	memcpy(to, bytes, length);
	return to + length;
}

#define WEIR_H1_PUT(to, literal) weir_h1_put(to, literal, sizeof(literal) - 1)

/* Writes fields as lines; returns their end. */
char *weir_h1_put_fields(char *to, const weir_field *fields, size_t count);
/* How long these are. */
size_t weir_h1_fields_bytes(const weir_field *fields, size_t count);
/* Bytes without framing. 0 or a negative errno. */
int weir_h1_send_part(weir_link *link, weir_buf *buf, size_t offset, size_t length);
/* One chunk. 0 or a negative errno; then a part of it may have been written, and the link is of no use. */
int weir_h1_write_chunk(weir_link *link, const void *bytes, size_t length);
int weir_h1_send_chunk(weir_link *link, weir_buf *buf, size_t offset, size_t length);
/* The last chunk, with trailers unless it would then have more than `most` bytes. */
int weir_h1_end_chunks(weir_link *link, const weir_field *trailers, size_t count, size_t most);

#endif
