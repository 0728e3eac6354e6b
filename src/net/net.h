/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_NET_H
#define WEIR_NET_NET_H

/*
 * What sockets have once per loop: the pools, and the back end for input and output (weir_io). It is made
 * at first use and freed with the loop.
 *
 * Threads: the loop's.
 */

#include "loop/epoll.h"
#include "loop/loop.h"
#include "loop/uring.h"
#include "net/buf.h"
#include "net/buf_ring.h"
#include "net/output.h"
#include "net/pipes.h"
#include "net/pool.h"

struct weir_acceptor;
struct weir_net;

/*
 * Input and output as conn.c and acceptor.c need it, the same for both back ends. Results are reported by
 * calling the functions at the end of conn_priv.h and acceptor.h, always from the loop, or from within
 * send and input (which are never called from within themselves).
 */
typedef struct weir_io {
	/* Whether send handles the net's quick buffer. */
	bool quick;
	int (*init)(struct weir_net *net);
	void (*fini)(struct weir_net *net);
	/* SOCK_NONBLOCK, if sockets need it; else 0. */
	int socket_flags;

	/* For a connected socket. 0 or a negative errno. */
	int (*start)(weir_conn *conn);
	/* Ends in weir_conn_connected, or in weir_conn_die. 0, or a negative errno: then it has not begun. */
	int (*connect)(weir_conn *conn, const struct sockaddr *to, socklen_t to_length);
	/*
	 * Continues to read if the connection wants input: delivers waiting buffers, requests more.
	 * Otherwise stops requesting.
	 */
	void (*input)(weir_conn *conn);
	/* Sends from the output, which is not empty and not SENDING. */
	void (*send)(weir_conn *conn);
	/*
	 * The same for at most so many bytes. Returns how many were handed to the socket. With io_uring they
	 * will be: weir_transmit_began and weir_transmit_completed are called.
	 */
	size_t (*send_some)(weir_conn *conn, size_t most);
	/* Removes the socket from the back end; ends in weir_conn_gone. May be called again before that. */
	void (*close)(weir_conn *conn);

	/* Leads to weir_acceptor_ready (epoll) or _accepted (io_uring). 0 or a negative errno. */
	int (*accept_start)(struct weir_acceptor *acceptor);
	/* Ends in weir_acceptor_stopped, perhaps before it returns. May be called again. */
	void (*accept_stop)(struct weir_acceptor *acceptor);
} weir_io;

extern const weir_io weir_io_epoll;
extern const weir_io weir_io_uring;

/* io_uring_accept.c, io_uring_send.c: parts of weir_io_uring; and what several of its files need. */
int weir_io_uring_accept_start(struct weir_acceptor *acceptor);
void weir_io_uring_accept_stop(struct weir_acceptor *acceptor);
void weir_io_uring_send(weir_conn *conn);
size_t weir_io_uring_send_some(weir_conn *conn, size_t most);
void weir_io_uring_close(weir_conn *conn);
void weir_io_set_blocking(int fd, bool blocking);

/*
 * The output of one connection, as long as it is small and nothing else waits there: written in place and
 * sent from here, without buffers and blocks. What cannot be sent at once is copied into the connection's
 * output.
 */
#define WEIR_QUICK_BYTES 20480u

typedef struct weir_quick {
	/* NULL: unused, and empty. The owner's output has no blocks, and as many bytes as there are here. */
	weir_conn *owner;
	uint32_t length;
	char bytes[WEIR_QUICK_BYTES];
} weir_quick;

/*
 * The connection whose open is being called, and its peer. Most users ask for the peer during open, and
 * an idle connection has no room for it.
 */
typedef struct weir_opening {
	const weir_conn *conn; /* NULL: none */
	const struct sockaddr_storage *peer;
} weir_opening;

typedef struct weir_net {
	weir_loop_part part;
	weir_loop *loop;
	const weir_io *io;
	weir_buf_pool *reads;
	weir_output_source output;
	weir_pool conns, blocks;
	weir_deferred over; /* tells the owners of files that are over */
	bool over_queued;   /* it is in the loop's deferred work */
	bool sends_files;   /* some connection has sent a file, or from a pipe: SIGPIPE is blocked */
	weir_pipes pipes;
	uint64_t far;                    /* how many times the disk was waited for; for tests */
	weir_conn *all;                  /* connections alive */
	struct weir_acceptor *acceptors; /* not yet gone */
	union {
		weir_buf *spare; /* epoll: the buffer for the next read */
		weir_buf_ring ring;
	};
	uint64_t hungry_turn; /* uring: the turn to which hungry_left refers */
	uint32_t bulk_turn;   /* the turn to which bulk_bytes refers: read in bulk by all connections */
	uint32_t bulk_bytes;
	unsigned hungry_left; /* buffers that connections which found none may still request in it */
	weir_opening opening;
	struct weir_transmit_lane *lane; /* NULL: no connection is scheduled */
	weir_quick quick;
} weir_net;

/* The net of a loop. 0 or a negative errno. */
int weir_net_of(weir_loop *loop, weir_net **ret_net);
/*
 * Frees half of the buffers that the loop keeps for later, if it has sockets; the kernel's give back their pages. The
 * loop's thread.
 */
void weir_net_slim(weir_loop *loop);
/* Some files may be over: their owners are told at the end of the turn. */
void weir_net_tell_over(weir_net *net);

/* As weir_conn_open, from this local address (AF_UNSPEC: any). */
int weir_conn_open_from(weir_loop *loop, const struct sockaddr *from, socklen_t from_length,
			const struct sockaddr *to, socklen_t to_length, const weir_conn_ops *ops,
			const weir_conn_limits *limits, void *arg, weir_conn **ret_conn);

/* ---- for a layer that builds its bytes in place (src/http) ---- */

/*
 * Room for this many bytes at the end of the output. They must be filled and committed before anything
 * else is done with the connection; or not at all, and then nothing has happened. NULL: not possible now,
 * write them instead.
 */
char *weir_conn_reserve(weir_conn *conn, size_t most);
/*
 * Adds this many of them, not 0, to the output: sent at the end of the connection's call, or at once
 * outside of a call.
 */
void weir_conn_commit(weir_conn *conn, size_t length);

/*
 * ---- for a layer that puts bytes of its own on a connection, and keeps those of its users itself
 * (src/tls) ----
 */

weir_net *weir_conn_net(const weir_conn *conn);
/* Changes the bound of the output from now on. */
void weir_conn_bound_output(weir_conn *conn, uint32_t output_bytes);
/*
 * Makes drained be called at the end of the turn, or as soon afterwards as less than half of the bound
 * waits.
 */
void weir_conn_call_drained(weir_conn *conn);

/*
 * ---- for a layer that passes on what comes, without looking at it (src/sentry, by src/http) ----
 */

/*
 * From now on pull is called when something may have come, instead of reading it; NULL: no more. pull calls
 * weir_conn_splice at most once, and returns its result:
 *	> 0       so many bytes were taken
 *	0         the stream has ended: eof is called
 *	-EAGAIN   there is nothing
 *	-ENOBUFS  pull has paused the connection
 *	-ENOTSUP  they are to be read after all: data is called
 *	else      the connection fails
 * What was read before still comes by data first. After the last pull weir_conn_is_silent should be asked: then
 * the next read is for a head, and little else of what comes with it is read.
 */
void weir_conn_set_pull(weir_conn *conn, int64_t (*pull)(weir_conn *conn));
/*
 * Moves at most so many (not 0) of the bytes that have come from one peer to the output for another,
 * through a pipe, without copying them. Both are on the same loop. Returns as described above; -ENOBUFS: the
 * output has no room, and drained will be called.
 */
int64_t weir_conn_splice(weir_conn *from, weir_conn *to, size_t most);
/* Asks the socket whether nothing has come, not even the end of the stream. */
bool weir_conn_is_silent(weir_conn *conn);

#endif
