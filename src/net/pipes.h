/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_PIPES_H
#define WEIR_NET_PIPES_H

/*
 * The pipes of one loop. splice(2) moves bytes from a socket to another through a pipe, without copying
 * them. A pipe is needed only while bytes are in it.
 *
 * Bounds. A loop has at most WEIR_PIPES_MOST pipes, and the process WEIR_PIPES_ALL: a quarter of what Linux
 * lets a user without privileges have in pages, so that other programs of this user are left alone. It has
 * fewer if the process may have few descriptors (of WEIR_PIPES_SHARE of them, two are for a pipe). A loop
 * keeps at most WEIR_PIPES_KEPT empty ones, and one if half of the process's are in use.
 *
 * If no pipe can be had, because of these bounds or of the system's, the caller copies. The system is then
 * not asked again for a second.
 *
 * Threads: the loop's.
 */

#include <stdbool.h>
#include <stdint.h>

#define WEIR_PIPE_BYTES  (256u * 1024) /* 64 pages: parts of packets, however small, that a pipe can hold */
#define WEIR_PIPES_MOST  32u
#define WEIR_PIPES_ALL   64u
#define WEIR_PIPES_KEPT  8u
#define WEIR_PIPES_SHARE 32u
#define WEIR_PIPES_LEAST 65536u /* a pipe that holds less is of no use */

typedef struct weir_pipe {
	struct weir_pipe *next; /* while it is kept */
	int in, out;            /* in: written to; out: read from */
} weir_pipe;

typedef struct weir_pipes {
	weir_pipe *free;
	uint32_t kept, made;
	uint64_t not_before_ns; /* the system had none */
} weir_pipes;

/* An empty pipe; NULL: none can be had now. */
weir_pipe *weir_pipes_take(weir_pipes *pipes, uint64_t now_ns);
/* Takes a pipe back. One that is not empty is closed. */
void weir_pipes_give(weir_pipes *pipes, weir_pipe *pipe, bool empty);
/* Closes the kept ones; all have been given back. */
void weir_pipes_fini(weir_pipes *pipes);

#endif
