/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_HANDOVER_H
#define WEIR_SERVICE_HANDOVER_H

/*
 * What a process leaves to its successor besides the listening sockets: whose each of them was, since a port that the system has chosen does not tell, what the laws have learnt, what kinds of request cost, and which sessions were let in. Text, in a
 * file without a name:
 *
 *	weir-handover 1 TIME            by the monotonic clock, in ns
 *	socket NAME                     one a descriptor, in their order
 *	law LENGTH STAGE TEXT           the length of the stage's name; what weir_stage_save has made
 *	cost TEXT                       what weir_costs_save has made
 *	session LENGTH NAME TEXT        the length of "cookie sid"; what weir_sessions_save has made
 *	end
 *
 * A reader believes nothing: where anything is not as above, too long, or older than a minute, it is as if there were none. What a law has learnt belongs to the load and the
 * backends of its time, so it does not keep.
 *
 * Threads: the main thread.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_HANDOVER_BYTES  (8 * 1024u * 1024u)
#define WEIR_HANDOVER_AGE_NS UINT64_C(60000000000)

typedef struct weir_handover weir_handover;

/* ---- writing ---- */

void weir_handover_begin(FILE *to, uint64_t now_ns);
void weir_handover_put_socket(FILE *to, const char *name);
/* Leaves out what a line cannot hold. */
void weir_handover_put_law(FILE *to, const char *stage, const char *text);
/* The same. */
void weir_handover_put_cost(FILE *to, const char *text);
/* Up to the text, which the caller writes, and ends with a newline. */
void weir_handover_begin_session(FILE *to, const char *name);
void weir_handover_end(FILE *to);

/* ---- reading ---- */

/* NULL: there is nothing to be believed, or no memory for it. */
weir_handover *weir_handover_parse(const char *text, size_t length, uint64_t now_ns);
/* The same from a file, which is left open. */
weir_handover *weir_handover_read(int fd, uint64_t now_ns);
void weir_handover_free(weir_handover *handover);
/* The name of a socket; NULL: it has none. */
const char *weir_handover_socket(const weir_handover *handover, size_t index);
/* What the law of this stage has learnt; NULL: nothing is known. handover may be NULL. */
const char *weir_handover_law(const weir_handover *handover, const char *stage);
/* The sessions of this name; NULL: none are known. handover may be NULL. */
const char *weir_handover_session(const weir_handover *handover, const char *name);
/* A line about what a kind of request costs; NULL: no more. handover may be NULL. */
const char *weir_handover_cost(const weir_handover *handover, size_t index);

#endif
