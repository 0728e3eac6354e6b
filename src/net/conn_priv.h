/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_CONN_PRIV_H
#define WEIR_NET_CONN_PRIV_H

/*
 * The internals of a connection, for src/net only.
 *
 *  CONNECTING ──connected──▶ open ──weir_conn_close──▶ CLOSING ──output sent──▶ LINGERING ─peer's end─▶ DEAD
 *                              └──────── failure, abort, timeout: from every state ───────────────────▶ DEAD
 *  DEAD ──the back end has released it──▶ GONE ──end of the turn──▶ closed is called, memory is freed
 *
 * Invariants
 * 1. A DEAD connection makes no call except closed, and that comes from weir_conn_turn, in the loop's
 *    deferred work.
 * 2. Memory is freed at the end of a turn at the earliest, after everything that the turn's wait has
 *    found was handled.
 * 3. While SENDING the back end uses the output's first block; it is not released before the back end is
 *    done with it.
 * 4. The contents of the net's quick buffer are its owner's whole output. It is filled only during a call
 *    of its owner (or of weir_conn_commit): the end of the call sends it or moves it to the regular
 *    output, and so does whatever else adds to the output.
 * 5. The timer is armed no later than the earliest deadline. It may be early: then it is armed again.
 *
 * Lingering: our end of the stream is shut, and what the peer still sends is read and discarded until its
 * end comes, for at most a second. Closing at once would answer such bytes with a reset, which can
 * destroy output on its way to the peer.
 */

#include "net/net.h"

enum weir_conn_flag {
	WEIR_CONN_CONNECTING = 1 << 0,
	WEIR_CONN_CLOSING = 1 << 1,
	WEIR_CONN_LINGERING = 1 << 2,
	WEIR_CONN_DEAD = 1 << 3,
	WEIR_CONN_GONE = 1 << 4,
	WEIR_CONN_PAUSED = 1 << 5,     /* by the user */
	WEIR_CONN_RATED = 1 << 6,      /* by the read rate */
	WEIR_CONN_EOF = 1 << 7,        /* the peer's end has been seen */
	WEIR_CONN_CALLING = 1 << 8,    /* inside a call of the ops */
	WEIR_CONN_QUEUED = 1 << 9,     /* in the loop's deferred work */
	WEIR_CONN_SENDING = 1 << 10,   /* the back end continues with the output by itself */
	WEIR_CONN_CLOGGED = 1 << 11,   /* drained must be called */
	WEIR_CONN_FAR = 1 << 12,       /* the next part of a file is being read from the disk */
	WEIR_CONN_SCHEDULED = 1 << 13, /* sends in its turn (transmit.h) */
	WEIR_CONN_ANSWERING = 1 << 14, /* the kernel orders packets, and has been told of this answer */

	/* for the back end */
	WEIR_CONN_READABLE = 1 << 16,   /* epoll: the last edge has not been used up */
	WEIR_CONN_HALF = 1 << 17,       /* epoll: that edge reported the peer's end */
	WEIR_CONN_RECEIVING = 1 << 18,  /* uring: the receive operation is in progress */
	WEIR_CONN_STOPPING = 1 << 19,   /* uring: and its cancellation has been requested */
	WEIR_CONN_TIGHT = 1 << 20,      /* uring: one receive at a time */
	WEIR_CONN_POLLING = 1 << 21,    /* uring: the connect or poll operation is in progress */
	WEIR_CONN_HUNGRY = 1 << 25,     /* uring: the last receive found no buffer */
	WEIR_CONN_ENDED = 1 << 22,      /* uring: the end or an error follows the waiting buffers */
	WEIR_CONN_SEND_ENDED = 1 << 23, /* uring: cancellations have been requested */
	WEIR_CONN_POLL_ENDED = 1 << 24,
	/* uring: the socket is non-blocking, because a file was sent on it, or it was spliced from or to */
	WEIR_CONN_NONBLOCKING = 1 << 26,
	WEIR_CONN_BULK = 1 << 27,   /* its last read filled a buffer: the next one may fill several */
	WEIR_CONN_PULLED = 1 << 28, /* what came last was pulled: the next read is small */
};

struct weir_conn {
	/* for the back end */
	union {
		struct {
			weir_epoll_source source;
		} epoll;
		struct {
			weir_uring_op receive, send, poll;
			int end; /* 0 or a negative errno, if ENDED */
		} uring;
	};
	weir_pooled *waiting, **waiting_end; /* received, to be delivered later */
	uint32_t turn;                       /* of the last read, and the bytes read in it */
	uint32_t turn_bytes;

	uint32_t flags;
	int fd;
	int why; /* for closed */
	/* of a SCHEDULED one */
	uint16_t segment;     /* bytes of payload in a packet; 0: not asked yet */
	uint8_t unsent_pages; /* what its socket may hold unsent; 0: as the system has it */
	uint8_t klass;
	int priority;                      /* of its socket */
	uint32_t order;                    /* the version of the order that it was scheduled by; 0: none */
	struct weir_transmit_place *place; /* NULL: it does not wait */
	weir_net *net;
	const weir_conn_ops *ops;
	void *user;
	int64_t (*pull)(weir_conn *conn); /* NULL: what comes is read */
	weir_output output;
	weir_conn_limits limits;
	uint64_t activity_ns; /* time of the last byte in either direction */
	uint64_t progress_ns; /* of the output; CONNECTING and LINGERING: when that state began */
	uint64_t rate;        /* bytes per second; 0: no limit */
	uint64_t rate_free_ns;
	weir_timer timer;
	weir_deferred deferred;

	struct weir_acceptor *acceptor; /* NULL: opened by this side */
	weir_conn *next, **link;        /* in net->all */
};

/* ---- for the acceptor ---- */

/*
 * Makes a connection from an accepted socket, which it owns even on failure. 0, or a negative errno: the
 * socket has been closed. peer: its address, so that open need not ask the kernel for it; NULL: unknown.
 */
int weir_conn_accept(weir_net *net, struct weir_acceptor *acceptor, int fd,
		     const struct sockaddr_storage *peer);
/* The loop ends while the connection is on it: closed is still called. */
void weir_conn_strand(weir_conn *conn);

/* ---- between conn.c and conn_open.c ---- */

/* Called by the loop at the end of a turn in which weir_conn_later was called. */
void weir_conn_turn(weir_deferred *deferred);
/* Calls open, then starts to read. */
void weir_conn_call_open(weir_conn *conn);
/* Removes it from net->all. */
void weir_conn_unlink(weir_conn *conn);

/* ---- between conn.c and conn_file.c ---- */

/* Whether this many more bytes may wait: 0, -EPIPE or -ENOBUFS; then drained must be called later. */
int weir_conn_check_output(weir_conn *conn, size_t length);
/* Output has been added; before: the bytes that waited until then. */
void weir_conn_output_added(weir_conn *conn, size_t before);

/* Moves the quick buffer's contents to the regular output. 0 or -ENOMEM, and then nothing has changed. */
int weir_conn_unquick(weir_conn *conn);

/* ---- the order of sending (transmit_lane.c), for connections that are SCHEDULED ---- */

/* A chunk has at least these bytes: those of a packet. */
#define WEIR_TRANSMIT_CHUNK_LEAST 1448u

/* There is output, and the socket may have room: sends it now or in its turn. */
void weir_transmit_offer(weir_conn *conn);
/* So many bytes were handed to the socket. */
void weir_transmit_sent(weir_conn *conn, size_t count);
/* io_uring: so many bytes are being sent in the connection's turn; and so many of them were. */
void weir_transmit_began(weir_conn *conn, size_t count);
void weir_transmit_completed(weir_conn *conn, size_t count);
/* It does not wait any more: its output is empty, or it is dead. */
void weir_transmit_forget(weir_conn *conn);

/* ---- for the back ends ---- */

static inline bool weir_conn_is(const weir_conn *conn, uint32_t flags)
{
	return (conn->flags & flags) != 0;
}

/* Buffers that one read of a BULK connection may fill. */
#define WEIR_BULK_BUFFERS 4u
#define WEIR_BULK_BYTES   (WEIR_BULK_BUFFERS * WEIR_BUF_READ_BYTES)
/* Bytes that all BULK connections of a loop may read in a turn beyond 16 KB each. */
#define WEIR_BULK_TURN_BYTES (1024u * 1024)

/* Bytes that may be read in a turn: 16 KB, in bulk 64 KB while few connections do so. */
static inline uint32_t weir_conn_turn_most(const weir_conn *conn)
{
	bool more = weir_conn_is(conn, WEIR_CONN_BULK) && conn->rate == 0 &&
		    (conn->net->bulk_turn != conn->turn || conn->net->bulk_bytes < WEIR_BULK_TURN_BYTES);
	return more ? WEIR_BULK_BYTES : WEIR_BUF_READ_BYTES;
}

static inline uint32_t weir_conn_allowance_of(weir_conn *conn, uint32_t most)
{
	return conn->turn_bytes < most ? most - conn->turn_bytes : 0;
}

/* Counts anew what is read, if this is another turn. */
static inline void weir_conn_note_turn(weir_conn *conn)
{
	uint32_t turn = (uint32_t)weir_loop_turns(conn->net->loop);
	if (conn->turn == turn)
		return;
	conn->turn = turn;
	conn->turn_bytes = 0;
}

/* Bytes that may still be read in this turn. */
static inline uint32_t weir_conn_allowance(weir_conn *conn)
{
	weir_conn_note_turn(conn);
	return weir_conn_allowance_of(conn, weir_conn_turn_most(conn));
}

/* The same for one that is neither BULK nor has a rate. */
static inline uint32_t weir_conn_usual_allowance(weir_conn *conn)
{
	weir_conn_note_turn(conn);
	return weir_conn_allowance_of(conn, WEIR_BUF_READ_BYTES);
}

/* ---- reading in bulk (conn_bulk.c) ---- */

/*
 * Reads at most so many bytes, not 0, into buffers that are put aside. Returns the bytes read (0: the end
 * of the stream) or a negative errno; -EAGAIN: there are none.
 */
int64_t weir_conn_read_bulk(weir_conn *conn, size_t most);
/* Adds a pooled buffer, with its reference, to what waits for delivery. */
void weir_conn_put_aside(weir_conn *conn, weir_buf *buf);
/* The first of those that wait; there is one. */
weir_buf *weir_conn_take_waiting(weir_conn *conn);
void weir_conn_drop_waiting(weir_conn *conn);

/* ---- what is passed on without being read (conn_pipe.c) ---- */

/* Calls pull, which is not NULL. */
int64_t weir_conn_pull(weir_conn *conn);
/* As weir_conn_send_from_file, for a pipe. */
int weir_conn_send_from_pipe(weir_conn *conn, size_t *budget);
/* From now on SIGPIPE is blocked on this thread. */
void weir_net_block_sigpipe(weir_net *net);
/* io_uring: makes the socket non-blocking, if it is not yet. */
void weir_conn_set_nonblocking(weir_conn *conn);

/* The connect has ended: 0 or a negative errno. */
void weir_conn_connected(weir_conn *conn, int result);
/* Bytes have arrived. */
void weir_conn_data(weir_conn *conn, weir_buf *buf);
/* The peer has ended the stream. */
void weir_conn_eof(weir_conn *conn);
/* Some of the output has been sent. When sending is over for now, call weir_conn_settle. */
void weir_conn_sent(weir_conn *conn, size_t count);
/*
 * Sends from the file at the head of the output, on a non-blocking socket, and deducts the bytes sent
 * from budget (not 0). 0: continue, if the connection is still alive; -EAGAIN: the socket takes no more;
 * -EINPROGRESS: waiting for the disk, and send is called when it is time to check again.
 */
int weir_conn_send_from_file(weir_conn *conn, size_t *budget);
/* Continues closing when the output has been sent; takes care of drained and of the timer. */
void weir_conn_settle(weir_conn *conn);
/* Ends the connection, for this reason. */
void weir_conn_die(weir_conn *conn, int why);
/* The same for a failure of the socket, which is no failure if the connection lingers. */
void weir_conn_fail(weir_conn *conn, int why);
/* The back end has released it. */
void weir_conn_gone(weir_conn *conn);
/* Calls input, send and so on at the end of the turn. */
void weir_conn_later(weir_conn *conn);

/*
 * Bytes of files sent for one connection at a time, so that others have their turn: reading files may
 * wait for the disk.
 */
#define WEIR_CONN_FILE_BYTES (256u * 1024)

/* Sends from the output, which is not empty and not SENDING: at once, or in its turn. */
static inline void weir_conn_push(weir_conn *conn)
{
	if (__builtin_expect(weir_conn_is(conn, WEIR_CONN_SCHEDULED), 0))
		weir_transmit_offer(conn);
	else
		conn->net->io->send(conn);
}

/* Whether it wants input from the peer. */
static inline bool weir_conn_wants_input(const weir_conn *conn)
{
	const uint32_t never = WEIR_CONN_CONNECTING | WEIR_CONN_DEAD | WEIR_CONN_EOF;
	if (weir_conn_is(conn, WEIR_CONN_LINGERING))
		return !weir_conn_is(conn, never);
	return !weir_conn_is(conn, never | WEIR_CONN_CLOSING | WEIR_CONN_PAUSED | WEIR_CONN_RATED);
}

/* ---- deadlines (conn_time.c) ---- */

void weir_conn_time_init(weir_conn *conn);
/* Ensures that the timer fires by the earliest deadline. */
void weir_conn_arm(weir_conn *conn);
/* Counts bytes against the read rate. */
void weir_conn_charge(weir_conn *conn, size_t bytes);
/* Maximum number of bytes to read at once. */
uint32_t weir_conn_rated_most(const weir_conn *conn);

/*
 * What follows a body that was pulled is a head, and probably another such body. What is read of it has to be
 * copied, so little is read.
 */
#define WEIR_CONN_HEAD_BYTES 4096u

static inline uint32_t weir_conn_read_most(const weir_conn *conn)
{
	return conn->rate == 0 ? WEIR_BUF_READ_BYTES : weir_conn_rated_most(conn);
}

#endif
