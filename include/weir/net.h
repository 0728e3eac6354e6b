/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_H
#define WEIR_NET_H

/*
 * Stream sockets on reactor threads: listeners, connections, reference-counted buffers.
 *
 * A connection lives on the thread that accepted or opened it, and all its calls are made there.
 *
 * Bounds, all of them set per listener or connect: output waiting in bytes (a write beyond it is refused with
 * -ENOBUFS and changes nothing), output without progress in time (the peer is a slow reader: closed with -ETIMEDOUT), connections,
 * bytes read a turn (16 KB, so that ready sockets are served fairly), and reading can be
 * paused, which pushes back on the peer through TCP.
 *
 * Lifetime: from the open call to the closed call, which is the last and comes exactly once, always from
 * the loop and never from within another call of the same connection. After it the memory is gone.
 */

#include <sys/socket.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- buffers: bytes that several owners may hold, also on several threads ---- */

typedef struct weir_buf {
	uint8_t *data;
	uint32_t length; /* bytes used */
	uint32_t capacity;
	uint32_t refs; /* atomic */
	uint32_t kind; /* where it goes back to */
	void *home;
} weir_buf;

/* A buffer of its own of at least capacity bytes, with one reference; NULL: out of memory. Any thread. */
WEIR_API weir_buf *weir_buf_new(size_t capacity);
WEIR_API weir_buf *weir_buf_ref(weir_buf *buf);
/* Drops a reference; NULL is ignored. Any thread: a pooled buffer finds its way back to its loop. */
WEIR_API void weir_buf_unref(weir_buf *buf);

/* ---- connections ---- */

typedef struct weir_conn weir_conn;

typedef struct weir_conn_ops {
	/* Accepted, or connected. Set the user pointer here (until then it is arg). Nonzero closes it (closed is called with that value). */
	int (*open)(weir_conn *conn, void *arg);
	/* Bytes arrived: buf->data[0 .. buf->length). Take a reference to keep them beyond the call; they are read-only then. */
	void (*data)(weir_conn *conn, weir_buf *buf);
	/* The peer will send no more; what is written can still reach it. NULL: close once the output is out. */
	void (*eof)(weir_conn *conn);
	/* Output that had been refused or counted beyond half of its bound is below half again. May be NULL. */
	void (*drained)(weir_conn *conn);
	/* The end. why: 0 closed by this side, or by the peer in good order; else a negative errno. */
	void (*closed)(weir_conn *conn, int why);
} weir_conn_ops;

typedef struct weir_conn_limits {
	uint32_t output_bytes; /* waiting to be sent; 0: 256 KB */
	uint64_t output_ns;    /* without progress while some wait; 0: 30 s */
	uint64_t idle_ns;      /* without a byte in either direction; 0: no limit */
	uint64_t connect_ns;   /* for weir_conn_open; 0: 10 s */
} weir_conn_limits;

/*
 * Connects from the calling reactor thread. open or closed is called later; the connection is returned so that
 * it can be closed before.
 */
WEIR_API int weir_conn_open(weir_loop *loop, const struct sockaddr *to, socklen_t to_length,
			    const weir_conn_ops *ops, const weir_conn_limits *limits, void *arg,
			    weir_conn **ret_conn);

/*
 * Sends a copy of the bytes. 0, -ENOBUFS (over the bound, nothing taken), -EPIPE (closing), -ENOMEM. These are answers, as
 * verdicts are, and leave no sentence in weir_error.
 */
WEIR_API int weir_conn_write(weir_conn *conn, const void *data, size_t length);
/*
 * Sends length bytes of the buffer from offset, without copying; takes a reference of its own. Answers as weir_conn_write, and -EINVAL
 * where the buffer has fewer.
 */
WEIR_API int weir_conn_send(weir_conn *conn, weir_buf *buf, size_t offset, size_t length);
/*
 * Sends length (not 0) bytes of a file from offset, in order with other output and without copying. The descriptor is the caller's and must stay open
 * until over, which is called exactly once if this returns 0, and not at all otherwise: when the bytes have been handed to the kernel, or when the
 * connection ends before, and then ahead of its closed call. over comes from the loop, never from within a call of yours; NULL: not called.
 *
 * A file takes no memory, so however long it is, it counts as at most 64 KB (or half the bound, if that is less) of the output's bound, and as at
 * least 512 bytes. It is read as it is sent, at most 256 KB at a time; what is not in the page cache makes the thread wait for the disk. A file that
 * turns out to be shorter, or cannot be read, ends the connection with -EIO, or the error. Answers as weir_conn_write, and -EINVAL.
 *
 * From the first file on, the thread has SIGPIPE blocked: sendfile cannot be told not to raise it.
 */
WEIR_API int weir_conn_send_file(weir_conn *conn, int fd, uint64_t offset, size_t length,
				 void (*over)(void *arg), void *arg);
/* What is written during a call of the ops goes out when it returns; elsewhere at the end of the turn. This sends now. */
WEIR_API void weir_conn_flush(weir_conn *conn);
/* Stops reading until resumed; what already came may still be delivered once. */
WEIR_API void weir_conn_pause(weir_conn *conn);
WEIR_API void weir_conn_resume(weir_conn *conn);
/* Reads at most bytes_per_s on average, by pausing; 0: no limit. */
WEIR_API void weir_conn_read_rate(weir_conn *conn, uint64_t bytes_per_s);
/*
 * Closes once the output is out (output_ns without progress ends the wait). No more data calls. What the peer still sends is
 * read away for up to a second, as a reset would destroy the last of the output.
 */
WEIR_API void weir_conn_close(weir_conn *conn);
/* Closes now, with a reset where output is lost; closed gets why. */
WEIR_API void weir_conn_abort(weir_conn *conn, int why);

WEIR_API void weir_conn_set_user(weir_conn *conn, void *user);
WEIR_API void *weir_conn_user(const weir_conn *conn);
WEIR_API int weir_conn_fd(const weir_conn *conn);
WEIR_API weir_loop *weir_conn_loop(const weir_conn *conn);
/*
 * The peer's address; family AF_UNIX for a local one. 0 or a negative errno: -ENOTCONN when it has gone, and in the closed call. It asks the kernel, so
 * whoever needs it often keeps it.
 */
WEIR_API int weir_conn_peer(const weir_conn *conn, struct sockaddr_storage *ret_peer);
/* Bytes waiting to be sent; a file as what it counts as. */
WEIR_API size_t weir_conn_output(const weir_conn *conn);

/* ---- listeners: one socket a reactor thread, by SO_REUSEPORT ---- */

typedef struct weir_listener weir_listener;

typedef struct weir_listen_options {
	/*
	 * Port 0: the kernel chooses one, the same for all threads. AF_UNIX: a path whose socket nobody listens on any more is taken over; one that is
	 * in use, or no socket, is -EADDRINUSE. The listener that made a path removes it when it is closed, unless it has handed its sockets on.
	 */
	const struct sockaddr *address;
	socklen_t address_length;
	int backlog; /* 0: 1024, or what inherited sockets have */
	/*
	 * Sockets that listen already, all on one address: from a predecessor, or by socket activation. They are used instead of new ones (address may be NULL) and
	 * belong to the listener if this succeeds. Fewer than threads: the threads share them. More: some threads have several, so that none is left out with
	 * connections in its backlog. At most 1024.
	 */
	const int *fds;
	size_t fd_count;
	/* Accepted and alive, over all threads; 0: 10,000. Beyond it nothing is accepted. */
	uint32_t max_connections;
	const weir_conn_ops *ops;
	weir_conn_limits limits;
	void *arg; /* for open */
} weir_listen_options;

typedef struct weir_listener_stats {
	uint64_t accepted, refused; /* refused: accepted and closed at once (open said no, or no memory) */
	uint64_t paused;            /* times accepting stopped: at the bound, or out of descriptors */
	uint64_t slow_readers;      /* closed for not reading */
	uint32_t connections;       /* alive */
} weir_listener_stats;

/* Listens on every thread of a reactor domain of a started world. */
WEIR_API int weir_listen(weir_domain *domain, const weir_listen_options *options,
			 weir_listener **ret_listener);
/* The address it got, as "127.0.0.1:8080" in text and as a sockaddr; either may be NULL. */
WEIR_API int weir_listener_address(const weir_listener *listener, char *ret_text, size_t text_size,
				   struct sockaddr_storage *ret_address);
WEIR_API void weir_listener_read_stats(const weir_listener *listener, weir_listener_stats *ret_stats);
/*
 * Copies of its sockets for a successor, which are the caller's to pass on and to close. Returns how many there are; with count 0 only that.
 * -ENOSPC: more than count. From then on the sockets are shared with whoever has the copies: closing the listener leaves what is in the backlogs to the successor, so
 * close it once that is known to accept. Any thread.
 */
WEIR_API int weir_listener_fds(weir_listener *listener, int *ret_fds, size_t count);
/* Stops accepting; connections live on. */
WEIR_API void weir_listener_close(weir_listener *listener);
/*
 * Closes it and every connection it has, waits for the last closed call, frees. Not on a reactor thread; before or after a
 * stop of the world (which closes the connections of its threads with -ECANCELED), not meanwhile. Sets it to NULL.
 */
WEIR_API void weir_listener_free(weir_listener **listener);

#ifdef __cplusplus
}
#endif
#endif
