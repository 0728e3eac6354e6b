/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_HANDOVER_H
#define WEIR_SERVICE_HANDOVER_H

/*
 * What a process leaves to its successor besides the listening sockets: the sockets' names (a port that the
 * system chose does not tell them apart), what the laws have learnt, what kinds of request cost, which
 * sessions were let in, and the last hour's history. It is text, in a file without a name:
 *
 *	weir-handover 1 TIME            by the monotonic clock, in ns
 *	socket NAME                     one a descriptor, in their order
 *	law LENGTH STAGE TEXT           the length of the stage's name; what weir_stage_save wrote. Names in parentheses are
 *	                                of other things: "(uplink)", "(history)". A reader ignores names that it does not know
 *	cost TEXT                       what weir_costs_save wrote
 *	session LENGTH NAME TEXT        the length of "cookie sid"; what weir_sessions_save wrote
 *	end
 *
 * A reader trusts nothing: if anything differs from the above, is too long, or is older than a minute, all of
 * it is ignored. What a law has learnt is about the load and the backends of its time, so it does not keep.
 *
 * Threads: the main thread.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_HANDOVER_BYTES  (32 * 1024u * 1024u)
#define WEIR_HANDOVER_AGE_NS UINT64_C(60000000000)

typedef struct weir_handover weir_handover;

/* ---- writing ---- */

void weir_handover_begin(FILE *to, uint64_t now_ns);
void weir_handover_put_socket(FILE *to, const char *name);
/* Skipped if it does not fit in a line. */
void weir_handover_put_law(FILE *to, const char *stage, const char *text);
/* Likewise. */
void weir_handover_put_cost(FILE *to, const char *text);
/* Writes the beginning of the line; the caller writes the text and a newline. */
void weir_handover_begin_session(FILE *to, const char *name);
void weir_handover_end(FILE *to);

/* ---- reading ---- */

/* NULL: not valid, or out of memory. */
weir_handover *weir_handover_parse(const char *text, size_t length, uint64_t now_ns);
/* The same from a file, which stays open. */
weir_handover *weir_handover_read(int fd, uint64_t now_ns);
void weir_handover_free(weir_handover *handover);
/* The name of a socket; NULL: it has none. */
const char *weir_handover_socket(const weir_handover *handover, size_t index);
/* What the law of this stage has learnt; NULL: unknown. handover may be NULL. */
const char *weir_handover_law(const weir_handover *handover, const char *stage);
/* The sessions of this name; NULL: none. handover may be NULL. */
const char *weir_handover_session(const weir_handover *handover, const char *name);
/* A line about the cost of a kind of request; NULL: no more. handover may be NULL. */
const char *weir_handover_cost(const weir_handover *handover, size_t index);

#endif
