/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_CONN_PRIV_H
#define WEIR_NET_CONN_PRIV_H

/*
 * The inside of a connection, for src/net only.
 *
 *	CONNECTING ──connected──▶ open ──weir_conn_close──▶ CLOSING ──output is out──▶ LINGERING ──peer's end──▶ DEAD
 *	                            └────────── failure, abort, timeout: from every state ───────────────────────▶ DEAD
 *	DEAD ──the back end has let go──▶ GONE ──end of the turn──▶ closed is called, memory is free
 *
 * Invariants
 *	1. A DEAD connection makes no call but closed, and that comes from weir_conn_turn, in the loop's deferred work.
 *	2. Memory goes at the end of a turn at the earliest, after everything the turn's wait has found was handled.
 *	3. While SENDING the back end has a hold of the output's first block; it is not let go before it is done with.
 *	4. What is in the net's quick buffer is its owner's whole output. It is there during a call of its owner only (or of weir_conn_commit): the end of the call
 *	   sends it or moves it to the output proper, and so does whatever else adds to the output.
 *	5. The timer is armed no later than the earliest deadline. It may be early: then it is armed again.
 *
 * Lingering: our end of the stream is shut and what the peer still sends is read and thrown away until its end comes, for at most
 * a second. Closing at once would answer such bytes with a reset, which can destroy the output on its way to the peer.
 */

#include "net/net.h"

enum weir_conn_flag {
	WEIR_CONN_CONNECTING = 1 << 0,
	WEIR_CONN_CLOSING = 1 << 1,
	WEIR_CONN_LINGERING = 1 << 2,
	WEIR_CONN_DEAD = 1 << 3,
	WEIR_CONN_GONE = 1 << 4,
	WEIR_CONN_PAUSED = 1 << 5,   /* by the user */
	WEIR_CONN_RATED = 1 << 6,    /* by the read rate */
	WEIR_CONN_EOF = 1 << 7,      /* the peer's end has been seen */
	WEIR_CONN_CALLING = 1 << 8,  /* inside a call of the ops */
	WEIR_CONN_QUEUED = 1 << 9,   /* in the loop's deferred work */
	WEIR_CONN_SENDING = 1 << 10, /* the back end goes on with the output by itself */
	WEIR_CONN_CLOGGED = 1 << 11, /* drained is owed */
	WEIR_CONN_FAR = 1 << 12,     /* what is next of a file is on its way from the disk */

	/* the back end's */
	WEIR_CONN_READABLE = 1 << 16,   /* epoll: the last edge has not been used up */
	WEIR_CONN_HALF = 1 << 17,       /* epoll: that edge told of the peer's end */
	WEIR_CONN_RECEIVING = 1 << 18,  /* uring: the receive operation is under way */
	WEIR_CONN_STOPPING = 1 << 19,   /* uring: and its cancellation has been asked for */
	WEIR_CONN_TIGHT = 1 << 20,      /* uring: one receive at a time */
	WEIR_CONN_POLLING = 1 << 21,    /* uring: the connect or poll operation is under way */
	WEIR_CONN_HUNGRY = 1 << 25,     /* uring: the last receive found no buffer */
	WEIR_CONN_ENDED = 1 << 22,      /* uring: the end or an error waits behind the buffers that wait */
	WEIR_CONN_SEND_ENDED = 1 << 23, /* uring: cancellations have been asked for */
	WEIR_CONN_POLL_ENDED = 1 << 24,
	WEIR_CONN_NONBLOCKING = 1 << 26, /* uring: the socket is, for a file was sent on it */
};

struct weir_conn {
	/* the back end's */
	union {
		struct {
			weir_epoll_source source;
		} epoll;
		struct {
			weir_uring_op receive, send, poll;
			weir_pooled *waiting, **waiting_end; /* received, to be delivered later */
			int end;                             /* 0 or a negative errno, when ENDED */
		} uring;
	};
	uint32_t turn; /* of the last read, and the bytes read in it: 16 KB a turn is the bound */
	uint32_t turn_bytes;

	uint32_t flags;
	int fd;
	int why; /* for closed */
	weir_net *net;
	const weir_conn_ops *ops;
	void *user;
	weir_output output;
	weir_conn_limits limits;
	uint64_t activity_ns; /* the last byte in either direction */
	uint64_t progress_ns; /* of the output; CONNECTING and LINGERING: when it began */
	uint64_t rate;        /* bytes a second; 0: no limit */
	uint64_t rate_free_ns;
	weir_timer timer;
	weir_deferred deferred;

	struct weir_acceptor *acceptor; /* NULL: opened from here */
	weir_conn *next, **link;        /* of net->all */
};

/* ---- for the acceptor ---- */

/*
 * Makes a connection of an accepted socket, which is its own even on failure. 0 or a negative errno: the socket is closed. peer: its address, so that open need not ask the
 * kernel for it; NULL: it has to.
 */
int weir_conn_accept(weir_net *net, struct weir_acceptor *acceptor, int fd,
		     const struct sockaddr_storage *peer);
/* The loop ends with the connection on it: closed is called all the same. */
void weir_conn_strand(weir_conn *conn);

/* ---- between conn.c and conn_open.c ---- */

/* What the loop calls at the end of a turn in which weir_conn_later was called. */
void weir_conn_turn(weir_deferred *deferred);
/* Calls open, then starts to read. */
void weir_conn_call_open(weir_conn *conn);
/* Out of net->all. */
void weir_conn_unlink(weir_conn *conn);

/* ---- between conn.c and conn_file.c ---- */

/* Whether so many bytes more may wait: 0, -EPIPE or -ENOBUFS, and then drained is owed. */
int weir_conn_check_output(weir_conn *conn, size_t length);
/* Some have been added; before: the bytes that waited. */
void weir_conn_output_added(weir_conn *conn, size_t before);

/* Moves what is in the quick buffer to the output proper. 0 or -ENOMEM, and then nothing has changed. */
int weir_conn_unquick(weir_conn *conn);

/* ---- for the back ends ---- */

/* Bytes that may still be read in this turn; 0: none. */
static inline uint32_t weir_conn_allowance(weir_conn *conn)
{
	uint32_t turn = (uint32_t)weir_loop_turns(conn->net->loop);
	if (conn->turn != turn) {
		conn->turn = turn;
		conn->turn_bytes = 0;
	}
	return conn->turn_bytes < WEIR_BUF_READ_BYTES ? WEIR_BUF_READ_BYTES - conn->turn_bytes : 0;
}

/* The connect has ended: 0 or a negative errno. */
void weir_conn_connected(weir_conn *conn, int result);
/* Bytes came. */
void weir_conn_data(weir_conn *conn, weir_buf *buf);
/* The peer's end came. */
void weir_conn_eof(weir_conn *conn);
/* Some of the output is out; then, when the sending is over for now, weir_conn_settle. */
void weir_conn_sent(weir_conn *conn, size_t count);
/*
 * Sends from the file that the output begins with, on a socket that does not block, and takes what went off budget (not 0). 0: go on, if it is
 * still alive; -EAGAIN: the socket takes no more; -EINPROGRESS: the disk is waited for, and send is called when it is time to look again.
 */
int weir_conn_send_from_file(weir_conn *conn, size_t *budget);
/* Goes on with closing when the output is out; sees to drained and to the timer. */
void weir_conn_settle(weir_conn *conn);
/* The connection ends, for this reason. */
void weir_conn_die(weir_conn *conn, int why);
/* The same for a failure of the socket, which is none any more when lingering. */
void weir_conn_fail(weir_conn *conn, int why);
/* The back end has nothing more to do with it. */
void weir_conn_gone(weir_conn *conn);
/* Calls input, send and so on at the end of the turn. */
void weir_conn_later(weir_conn *conn);

/* What goes out of files of one connection at a time, so that others have their turn: reading them may wait for the disk. */
#define WEIR_CONN_FILE_BYTES (256u * 1024)

static inline bool weir_conn_is(const weir_conn *conn, uint32_t flags)
{
	return (conn->flags & flags) != 0;
}

/* Whether it wants what the peer sends. */
static inline bool weir_conn_wants_input(const weir_conn *conn)
{
	const uint32_t never = WEIR_CONN_CONNECTING | WEIR_CONN_DEAD | WEIR_CONN_EOF;
	if (weir_conn_is(conn, WEIR_CONN_LINGERING))
		return !weir_conn_is(conn, never);
	return !weir_conn_is(conn, never | WEIR_CONN_CLOSING | WEIR_CONN_PAUSED | WEIR_CONN_RATED);
}

/* ---- deadlines (conn_time.c) ---- */

void weir_conn_time_init(weir_conn *conn);
/* Makes sure that the timer fires by the earliest deadline. */
void weir_conn_arm(weir_conn *conn);
/* Counts bytes against the read rate. */
void weir_conn_charge(weir_conn *conn, size_t bytes);
/* Most bytes to read at once. */
uint32_t weir_conn_rated_most(const weir_conn *conn);

static inline uint32_t weir_conn_read_most(const weir_conn *conn)
{
	return conn->rate == 0 ? WEIR_BUF_READ_BYTES : weir_conn_rated_most(conn);
}

#endif
