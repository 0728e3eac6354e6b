/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_FETCH_H
#define WEIR_NUCLEUS_FETCH_H

/*
 * One HTTP request and its answer, on a connection of its own: for status pages and calibration. It blocks, at
 * most for the given time; the answer's length is bounded.
 *
 * Threads: any; no state.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct weir_fetch {
	/* const after weir_fetch_init */
	char host[256]; /* "127.0.0.1:80" */
	char path[1024];
	struct sockaddr_storage address;
	socklen_t address_length;
} weir_fetch;

typedef struct weir_fetched {
	unsigned status;
	char *text; /* the head, a NUL, the body, a NUL */
	const char *body;
	size_t body_length;
	uint64_t took_ns; /* from the connection's begin to the answer's end */
} weir_fetched;

/* "http://ADDRESS[:PORT]/PATH". -EINVAL with weir_error. */
int weir_fetch_init(weir_fetch *fetch, const char *url);
/* 0; or -ETIMEDOUT, -ECONNREFUSED, -EMSGSIZE, -EPROTO ... with weir_error. */
int weir_fetch_get(const weir_fetch *fetch, uint64_t timeout_ns, size_t most_bytes,
		   weir_fetched *ret_fetched);
void weir_fetched_fini(weir_fetched *fetched);
/* The value of a field of the answer, from its head; NULL: there is none. Not ended by a NUL. */
const char *weir_fetched_field(const weir_fetched *fetched, const char *name, size_t *ret_length);

#endif
