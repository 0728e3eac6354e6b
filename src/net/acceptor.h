/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_ACCEPTOR_H
#define WEIR_NET_ACCEPTOR_H

/*
 * A listener's share of one loop: a listening socket and the connections accepted from it.
 *
 * Accepting stops (PAUSED) at the listener's bound of connections, or when the process has no descriptors or memory left;
 * it goes on when a connection of the listener closes, and is tried anyway every 100 ms. With io_uring the kernel
 * may have accepted some sockets by the time it stops: they are parked and served first. Near the bound it accepts as
 * with epoll, so that these are few.
 *
 * Threads: the loop's, except where said.
 */

#include "net/conn_priv.h"

#define WEIR_ACCEPTOR_PARKED 64

enum weir_acceptor_flag {
	WEIR_ACCEPTOR_ARMED = 1 << 0,   /* the back end accepts */
	WEIR_ACCEPTOR_STOPPED = 1 << 1, /* and has been asked not to */
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
	weir_ending ending;                 /* the loop ends: so does this */
	uint32_t conns;                     /* alive */
	struct weir_acceptor *next, **link; /* of net->acceptors; link NULL: not there */
	int parked[WEIR_ACCEPTOR_PARKED];
	unsigned parked_count;

	/* written by the loop's thread, read by any */
	_Atomic uint64_t accepted, refused, paused, slow_readers;

	/* any thread */
	struct {
		atomic_bool paused; /* wants to be told when a connection closes */
		atomic_bool told;   /* tell is under way */
	} shared;
	weir_post start, close, abort, tell, barrier;
} weir_acceptor;

void weir_acceptor_init(weir_acceptor *acceptor, weir_listener *listener, weir_loop *loop, int fd);
/* Begins to accept; tries again by itself where it cannot. */
void weir_acceptor_start(weir_acceptor *acceptor);
/* Accepts what is in the backlog, then no more. Ends in weir_listener_acceptor_closed. */
void weir_acceptor_close(weir_acceptor *acceptor);
/* The same, and aborts its connections. Ends in weir_listener_acceptor_gone as well. */
void weir_acceptor_abort(weir_acceptor *acceptor);

/* A connection is over and its closed call done. */
void weir_acceptor_released(weir_acceptor *acceptor);
void weir_acceptor_count_refused(weir_acceptor *acceptor);
void weir_acceptor_count_slow(weir_acceptor *acceptor);
/* Any thread: there may be room again, if it waits for that. */
void weir_acceptor_tell(weir_acceptor *acceptor);

/* ---- for the back ends ---- */

/* The socket is readable: accepts a number of connections. */
void weir_acceptor_ready(weir_acceptor *acceptor);
/* A socket has been accepted, or a negative errno. */
void weir_acceptor_accepted(weir_acceptor *acceptor, int fd);
/* The back end does not accept any more. */
void weir_acceptor_stopped(weir_acceptor *acceptor);

/* ---- of the listener (listener.c), any thread ---- */

const weir_listen_options *weir_listener_options(const weir_listener *listener);
/* Counts a connection if there is room for it. */
bool weir_listener_reserve(weir_listener *listener);
/* Counts one off that never came to be. */
void weir_listener_unreserve(weir_listener *listener);
/* Counts one off; tells acceptors that wait for room or descriptors. */
void weir_listener_release(weir_listener *listener);
bool weir_listener_has_room(weir_listener *listener);
/* Room for more than all backlogs together can hold. */
bool weir_listener_has_ample_room(weir_listener *listener);
/* Closes the acceptor's socket. */
void weir_listener_acceptor_closed(weir_listener *listener, weir_acceptor *acceptor);
/* Its sockets have a successor. */
bool weir_listener_is_handed(const weir_listener *listener);
void weir_listener_acceptor_gone(weir_listener *listener);

/*
 * As weir_listen, on one loop, by its thread. weir_listener_close and _free are for that thread then, outside of
 * turns: free turns the loop until the last connection is gone.
 */
int weir_listen_on_loop(weir_loop *loop, const weir_listen_options *options, weir_listener **ret_listener);

#endif
