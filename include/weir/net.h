/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_H
#define WEIR_NET_H

/*
 * Stream sockets on reactor threads: listeners, connections, reference-counted buffers.
 *
 * A connection lives on the thread that accepted or opened it, and all calls for it are made there.
 *
 * Bounds, each set per listener or connect: waiting output in bytes (a write beyond it is refused with
 * -ENOBUFS and changes nothing), time without progress of the output (the peer is a slow reader: closed
 * with -ETIMEDOUT), and the number of connections. At most 16 KB are read per turn, so that ready sockets
 * are served fairly. Reading can be paused, which pushes back on the peer through TCP.
 *
 * Lifetime: from the open call to the closed call. The closed call is the last and comes exactly once,
 * always from the loop and never from within another call of the same connection. After it the memory is
 * freed.
 */

#include <sys/socket.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- buffers: bytes that several owners may share, also across threads ---- */

typedef struct weir_buf {
	uint8_t *data;
	uint32_t length; /* bytes used */
	uint32_t capacity;
	uint32_t refs; /* atomic */
	uint32_t kind; /* identifies the pool that it returns to */
	void *home;
} weir_buf;

/* A separate buffer of at least capacity bytes, with one reference; NULL: out of memory. Any thread. */
WEIR_API weir_buf *weir_buf_new(size_t capacity);
/* Adds a reference; returns the buffer. Any thread. */
WEIR_API weir_buf *weir_buf_ref(weir_buf *buf);
/* Drops a reference; NULL is ignored. Any thread: a pooled buffer returns to its loop. */
WEIR_API void weir_buf_unref(weir_buf *buf);

/* ---- connections ---- */

typedef struct weir_conn weir_conn;

/* What will follow the output that waits now, of the answer that is being sent. */
typedef struct weir_conn_left {
	uint64_t bytes;    /* as far as is known */
	uint64_t since_ns; /* when the answer, or what it answers, arrived; by the loop's clock */
	unsigned klass;    /* 0 is the most important */
} weir_conn_left;

typedef struct weir_conn_ops {
	/*
	 * Accepted, or connected. Set the user pointer here (until then it is arg). A nonzero result
	 * closes the connection, and closed is called with that value.
	 */
	int (*open)(weir_conn *conn, void *arg);
	/*
	 * Bytes have arrived: buf->data[0 .. buf->length). Take a reference to keep them beyond the call;
	 * they are then read-only.
	 */
	void (*data)(weir_conn *conn, weir_buf *buf);
	/* The peer will send no more, but output can still reach it. NULL: close once the output is sent. */
	void (*eof)(weir_conn *conn);
	/* Output that was refused, or was above half of its bound, is below half again. May be NULL. */
	void (*drained)(weir_conn *conn);
	/* The end. why: 0 if closed by this side, or by the peer in an orderly way; else a negative errno. */
	void (*closed)(weir_conn *conn, int why);
	/*
	 * Asked when the connection has to wait for its turn to send: changes what it knows better. It must
	 * change nothing else. May be NULL.
	 */
	void (*left)(weir_conn *conn, weir_conn_left *left);
} weir_conn_ops;

typedef struct weir_conn_limits {
	uint32_t output_bytes; /* waiting to be sent; 0: 256 KB */
	uint64_t output_ns;    /* waiting output without progress; 0: 30 s */
	uint64_t idle_ns;      /* without a byte in either direction; 0: no limit */
	uint64_t connect_ns;   /* for weir_conn_open; 0: 10 s */
} weir_conn_limits;

/*
 * Connects from the calling reactor thread. open or closed is called later. The connection is returned so
 * that it can be closed before that.
 */
WEIR_API int weir_conn_open(weir_loop *loop, const struct sockaddr *to, socklen_t to_length,
			    const weir_conn_ops *ops, const weir_conn_limits *limits, void *arg,
			    weir_conn **ret_conn);

/*
 * Sends a copy of the bytes. Returns 0, -ENOBUFS (over the bound, nothing taken), -EPIPE (closing) or
 * -ENOMEM. Like verdicts these are normal results, and set no text in weir_error.
 */
WEIR_API int weir_conn_write(weir_conn *conn, const void *data, size_t length);
/*
 * Sends length bytes of the buffer from offset, without copying; takes a reference of its own. Returns as
 * weir_conn_write, and -EINVAL if the buffer is shorter.
 */
WEIR_API int weir_conn_send(weir_conn *conn, weir_buf *buf, size_t offset, size_t length);
/*
 * Sends length (not 0) bytes of a file from offset, in order with other output and without copying. The
 * caller owns the descriptor and must keep it open until over. If this returns 0, over is called exactly
 * once, otherwise never: when the bytes have been handed to the kernel or, if the connection ends
 * earlier, before its closed call. over is called by the loop, never from within a call of yours; it may
 * be NULL.
 *
 * A file takes no memory. However long it is, it counts as at most 64 KB (or half the bound, if that is
 * less) of the output's bound, and as at least 512 bytes. It is read as it is sent, at most 256 KB at a
 * time. A part that is not in the page cache is requested from the disk and sent when it has arrived. If
 * it does not appear for about 200 ms it is sent anyway, and then the thread may wait for the disk. A
 * file that turns out to be shorter, or that cannot be read, ends the connection with -EIO, or with the
 * error. Returns as weir_conn_write, and -EINVAL.
 *
 * From the first file on, the thread has SIGPIPE blocked, because sendfile has no flag to suppress it.
 */
WEIR_API int weir_conn_send_file(weir_conn *conn, int fd, uint64_t offset, size_t length,
				 void (*over)(void *arg), void *arg);
/*
 * Sends now. Without it, output written during a call of the ops is sent when that call returns, and
 * other output at the end of the turn.
 */
WEIR_API void weir_conn_flush(weir_conn *conn);
/* Stops reading until resumed. Bytes that have already arrived may still be delivered once. */
WEIR_API void weir_conn_pause(weir_conn *conn);
/* Reads again after a pause. */
WEIR_API void weir_conn_resume(weir_conn *conn);
/* Reads at most bytes_per_s on average, by pausing; 0: no limit. */
WEIR_API void weir_conn_read_rate(weir_conn *conn, uint64_t bytes_per_s);
/*
 * Closes once the output is sent (output_ns without progress ends the wait). data is not called any more.
 * What the peer still sends is read and discarded for up to a second, because a reset would destroy the
 * last of the output.
 */
WEIR_API void weir_conn_close(weir_conn *conn);
/* Closes now, with a reset if output is lost. closed gets why. */
WEIR_API void weir_conn_abort(weir_conn *conn, int why);

/* A pointer for the owner's use. */
WEIR_API void weir_conn_set_user(weir_conn *conn, void *user);
/* That pointer. */
WEIR_API void *weir_conn_user(const weir_conn *conn);
/* Its descriptor, for socket options; reading, writing and closing are ours. */
WEIR_API int weir_conn_fd(const weir_conn *conn);
/* The loop that it belongs to. */
WEIR_API weir_loop *weir_conn_loop(const weir_conn *conn);
/*
 * The peer's address; the family is AF_UNIX for a local peer. Returns 0 or a negative errno: -ENOTCONN
 * when the peer has gone, and in the closed call. This asks the kernel, so keep the result if you need it
 * often.
 */
WEIR_API int weir_conn_peer(const weir_conn *conn, struct sockaddr_storage *ret_peer);
/* Bytes waiting to be sent; for a file, the number that it counts as. */
WEIR_API size_t weir_conn_output(const weir_conn *conn);

/* ---- listeners: one socket per reactor thread, by SO_REUSEPORT ---- */

typedef struct weir_listener weir_listener;

/* Who may connect to a socket path: those who may write to its file. */
typedef struct weir_listen_file {
	unsigned mode; /* 0660; 0: 0777 without what the umask takes away */
	uid_t user;    /* its owner; (uid_t)-1: whoever makes it */
	gid_t group;   /* (gid_t)-1: the maker's */
} weir_listen_file;

typedef struct weir_listen_options {
	/*
	 * Port 0: the kernel chooses one, the same for all threads. AF_UNIX: a socket path on which
	 * nobody listens any more is taken over; a path that is in use, or is no socket, gives
	 * -EADDRINUSE. The listener that created a path removes it when it is closed. If it has handed
	 * its sockets on, it removes it when it is freed, and only if nobody else listens on it then.
	 */
	const struct sockaddr *address;
	socklen_t address_length;
	/* Of a new socket path, NULL: by the umask; and of one that was ours before (owns_path). */
	const weir_listen_file *file;
	int backlog; /* 0: 1024, or what inherited sockets have */
	/*
	 * Sockets that already listen, all on one address: from a predecessor, or by socket activation.
	 * They are used instead of new ones (address may be NULL) and belong to the listener if this
	 * succeeds. If there are fewer than threads, the threads share them. If there are more, some
	 * threads have several, so that no socket is left with connections in its backlog. At most 1024.
	 */
	const int *fds;
	size_t fd_count;
	bool owns_path; /* their socket path was ours before: it is removed as if this listener had made it */
	/* Accepted and alive, over all threads; 0: 10,000. At this bound no more are accepted. */
	uint32_t max_connections;
	const weir_conn_ops *ops;
	weir_conn_limits limits;
	void *arg; /* for open and starved */
	/*
	 * Accepting has stopped for want of descriptors or memory (a negative errno); it is tried again soon. On the
	 * loop's thread; may be NULL.
	 */
	void (*starved)(int error, void *arg);
} weir_listen_options;

typedef struct weir_listener_stats {
	uint64_t accepted, refused; /* refused: accepted and closed at once (open said no, or no memory) */
	uint64_t paused;            /* times accepting stopped: at the bound, or out of descriptors */
	uint64_t slow_readers;      /* closed because they did not read */
	uint32_t connections;       /* alive */
} weir_listener_stats;

/* Listens on every thread of a reactor domain of a started world. */
WEIR_API int weir_listen(weir_domain *domain, const weir_listen_options *options,
			 weir_listener **ret_listener);
/* The actual address, as "127.0.0.1:8080" in text and as a sockaddr; either may be NULL. */
WEIR_API int weir_listener_address(const weir_listener *listener, char *ret_text, size_t text_size,
				   struct sockaddr_storage *ret_address);
/*
 * Another mode and owner of its socket path; what is not given stays as it is. ret_before: what there was; may be
 * NULL. -ENOENT: it has no path of its own; else a negative errno with weir_error. By one thread at a time.
 */
WEIR_API int weir_listener_set_file(weir_listener *listener, const weir_listen_file *file,
				    weir_listen_file *ret_before);
/* The counts of all threads together, at any time. */
WEIR_API void weir_listener_read_stats(const weir_listener *listener, weir_listener_stats *ret_stats);
/*
 * Duplicates its sockets for a successor; the caller passes them on and closes them. Returns how many
 * there are; with count 0 it only returns that. -ENOSPC: more than count. From then on the sockets are
 * shared with whoever has the copies. Closing the listener leaves the connections in the backlogs to the
 * successor, so close it once the successor is known to accept. Any thread.
 */
WEIR_API int weir_listener_fds(weir_listener *listener, int *ret_fds, size_t count);
/* Stops accepting; existing connections continue. */
WEIR_API void weir_listener_close(weir_listener *listener);
/*
 * Closes the listener and all its connections, waits for the last closed call, and frees. Not on a
 * reactor thread. It may be called before or after a stop of the world (which closes the connections of
 * its threads with -ECANCELED), but not during one. Sets *listener to NULL.
 */
WEIR_API void weir_listener_free(weir_listener **listener);

#ifdef __cplusplus
}
#endif
#endif
