/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_REPLY_H
#define WEIR_BENCH_REPLY_H

/* The canned reply that every responder sends, so that all send the same bytes: by default with a body of 1 KB. */

#include <stdio.h>
#include <string.h>

#define BENCH_REPLY_HEAD \
	"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 1024\r\n\r\n"
#define BENCH_REPLY_BYTES     (sizeof(BENCH_REPLY_HEAD) - 1 + 1024)
#define BENCH_REPLY_HEAD_MOST 128

static inline void bench_reply_fill(void *into)
{
	memcpy(into, BENCH_REPLY_HEAD, sizeof(BENCH_REPLY_HEAD) - 1);
	memset((char *)into + sizeof(BENCH_REPLY_HEAD) - 1, 'w', 1024);
}

/* One with a body of this length, into that many bytes and BENCH_REPLY_HEAD_MOST; returns its length. */
static inline size_t bench_reply_make(char *into, size_t body)
{
	size_t head = (size_t)sprintf(
		into,
		"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
		body);

	memset(into + head, 'w', body);
	return head + body;
}

#endif
