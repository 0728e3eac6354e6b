/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_BYTES_H
#define WEIR_LOAD_BYTES_H

/*
 * Requests as bytes of HTTP/1. A form is written out once and kept. One with a target or cookies of its
 * own is written out each time, into a buffer that is reused.
 *
 * Threads: for its thread alone. A form is identified by its address.
 */

#include "load/work.h"

#define LOAD_BYTES_FORMS 65536u /* number of forms kept; others are written out each time */

typedef struct load_request {
	const char *bytes; /* valid until the next call */
	size_t length;
	weir_method method;
} load_request;

typedef struct load_bytes {
	const char *authority; /* const after init */
	bool close;
	struct load_form_bytes *table; /* open addressing; size is a power of two */
	uint32_t size, count;
	char *room;
	size_t room_size;
} load_bytes;

/* close: requests ask the server to close the connection. */
void load_bytes_init(load_bytes *bytes, const char *authority, bool close);
void load_bytes_fini(load_bytes *bytes);
/* 0 or -ENOMEM. */
int load_bytes_of(load_bytes *bytes, const load_form *form, weir_span target, weir_span cookies,
		  load_request *ret);

#endif
