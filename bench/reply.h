/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_REPLY_H
#define WEIR_BENCH_REPLY_H

/* The canned reply with a body of 1 KB that every responder sends, so that all send the same bytes. */

#include <string.h>

#define BENCH_REPLY_HEAD \
	"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 1024\r\n\r\n"
#define BENCH_REPLY_BYTES (sizeof(BENCH_REPLY_HEAD) - 1 + 1024)

static inline void bench_reply_fill(void *into)
{
	memcpy(into, BENCH_REPLY_HEAD, sizeof(BENCH_REPLY_HEAD) - 1);
	memset((char *)into + sizeof(BENCH_REPLY_HEAD) - 1, 'w', 1024);
}

#endif
