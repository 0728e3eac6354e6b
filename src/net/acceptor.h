/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_ACCEPTOR_H
#define WEIR_NET_ACCEPTOR_H

/*
 * A listener's part on one loop: a listening socket and the connections accepted from it.
 *
 * Accepting stops (PAUSED) at the listener's bound of connections, or when the process has no descriptors
 * or memory left. It resumes when a connection of the listener closes, and is tried every 100 ms in any
 * case. With io_uring the kernel may have accepted some sockets by the time it stops: these are parked
 * and served first. Near the bound the acceptor works as with epoll, so that they are few.
 *
 * Threads: the loop's, unless stated otherwise.
 */

#include "net/conn_priv.h"

#define WEIR_ACCEPTOR_PARKED      64
#define WEIR_LISTENER_CONNECTIONS 10000u /* of a listener, unless its options say */

enum weir_acceptor_flag {
	WEIR_ACCEPTOR_ARMED = 1 << 0,   /* the back end accepts */
	WEIR_ACCEPTOR_STOPPED = 1 << 1, /* and has been asked to stop */
	WEIR_ACCEPTOR_PAUSED = 1 << 2,
	WEIR_ACCEPTOR_CLOSING = 1 << 3,
	WEIR_ACCEPTOR_CLOSED = 1 << 4,
	WEIR_ACCEPTOR_ABORTING = 1 << 5,
	WEIR_ACCEPTOR_GONE = 1 << 6,
};

typedef struct weir_acceptor {
	/* const after init */
	weir_listener *listener;
	weir_loop *loop;

	/* the loop's thread */
	union {
		weir_epoll_source source;
		weir_uring_op op;
	};
	weir_net *net;
	int fd;
	uint32_t flags;
	weir_timer retry;
	weir_ending ending;                 /* called when the loop ends */
	uint32_t conns;                     /* alive */
	struct weir_acceptor *next, **link; /* in net->acceptors; link NULL: not in it */
	int parked[WEIR_ACCEPTOR_PARKED];
	unsigned parked_count;

	/* written by the loop's thread, read by any */
	_Atomic uint64_t accepted, refused, paused, slow_readers;

	/* any thread */
	struct {
		atomic_bool paused; /* wants to be woken when a connection closes */
		atomic_bool told;   /* a wake-up is on its way */
	} shared;
	weir_post start, close, abort, tell, barrier;
} weir_acceptor;

void weir_acceptor_init(weir_acceptor *acceptor, weir_listener *listener, weir_loop *loop, int fd);
/* Starts to accept; if that fails, it tries again by itself. */
void weir_acceptor_start(weir_acceptor *acceptor);
/* Accepts what is in the backlog, then no more. Ends in weir_listener_acceptor_closed. */
void weir_acceptor_close(weir_acceptor *acceptor);
/* The same, and aborts its connections. Also ends in weir_listener_acceptor_gone. */
void weir_acceptor_abort(weir_acceptor *acceptor);

/* A connection is over and its closed call has returned. */
void weir_acceptor_released(weir_acceptor *acceptor);
void weir_acceptor_count_refused(weir_acceptor *acceptor);
void weir_acceptor_count_slow(weir_acceptor *acceptor);
/* Any thread: there may be room again, if the acceptor waits for that. */
void weir_acceptor_tell(weir_acceptor *acceptor);

/* ---- for the back ends ---- */

/* The socket is readable: accepts a limited number of connections. */
void weir_acceptor_ready(weir_acceptor *acceptor);
/* A socket has been accepted; or a negative errno. */
void weir_acceptor_accepted(weir_acceptor *acceptor, int fd);
/* The back end no longer accepts. */
void weir_acceptor_stopped(weir_acceptor *acceptor);

/* ---- functions of the listener (listener.c), any thread ---- */

const weir_listen_options *weir_listener_options(const weir_listener *listener);
/* Counts a connection if there is room for it. */
bool weir_listener_reserve(weir_listener *listener);
/* Uncounts a connection that was never made. */
void weir_listener_unreserve(weir_listener *listener);
/* Uncounts a connection, and wakes acceptors that wait for room or descriptors. */
void weir_listener_release(weir_listener *listener);
bool weir_listener_has_room(weir_listener *listener);
/* How many connections it has, over all threads. */
uint32_t weir_listener_connections(const weir_listener *listener);
/* Whether there is room for more than all backlogs together can hold. */
bool weir_listener_has_ample_room(weir_listener *listener);
/* Closes the acceptor's socket. */
void weir_listener_acceptor_closed(weir_listener *listener, weir_acceptor *acceptor);
/* Whether its sockets have been handed to a successor. */
bool weir_listener_is_handed(const weir_listener *listener);
void weir_listener_acceptor_gone(weir_listener *listener);

/*
 * As weir_listen, on one loop, by its thread. Then only that thread may call weir_listener_close and
 * _free, outside of turns: free turns the loop until the last connection is gone.
 */
int weir_listen_on_loop(weir_loop *loop, const weir_listen_options *options, weir_listener **ret_listener);

#endif
