/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_AHEAD_H
#define WEIR_HTTP_AHEAD_H

/*
 * The beginning of a body, gathered before its request is offered: a list of parts of buffers. A part that
 * fills at least half of its buffer is held where it is. Smaller ones are copied one behind the other, so
 * that a body which comes in tiny pieces takes little more memory than it has bytes.
 *
 * Invariants: no part is empty or longer than 16 KB; `held` is the capacity of all buffers.
 *
 * Threads: the request's own.
 */

#include <weir/net.h>

typedef struct weir_ahead_part {
	struct weir_ahead_part *next;
	weir_buf *buf; /* a reference */
	uint32_t at, length;
	bool own; /* more may be copied behind it */
} weir_ahead_part;

typedef struct weir_ahead {
	weir_ahead_part *first, *last;
	size_t length; /* bytes that have not been taken */
	size_t held;   /* bytes of memory */
} weir_ahead;

/* An empty list; NULL: out of memory. */
weir_ahead *weir_ahead_new(void);
/* NULL is fine. */
void weir_ahead_free(weir_ahead *ahead);
/*
 * Adds length (not 0) bytes of the buffer, by reference or as a copy. more: how many bytes will follow at
 * most, for the size of a copy's buffer. 0 or -ENOMEM: then a part of them may have been added.
 */
int weir_ahead_add(weir_ahead *ahead, weir_buf *buf, size_t offset, size_t length, uint64_t more);
/* Takes out the first part; the caller gets its reference. False: there is none. */
bool weir_ahead_take(weir_ahead *ahead, weir_buf **ret_buf, size_t *ret_offset, size_t *ret_length);

#endif
