/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_UPSTREAM_H
#define WEIR_SENTRY_UPSTREAM_H

/*
 * The client's side of HTTP/1.1: calls to backends over connections that are kept and used again.
 *
 * An upstream is what one reactor thread has: connections to every backend of a fleet, the idle ones among them in a list a backend, the last used first. Idle connections are bounded in count and in time; one that the backend closes, or sends
 * anything on, is noticed at once and gone.
 *
 * A call is one exchange. It is embedded in its owner's struct and given a connection by weir_call_start. Then, in this order:
 *
 *	ready                  the connection is there and the request's head is on its way: the body may be written
 *	interim ...            100, 103 and the like
 *	whole                  an answer that came all at once; or
 *	head, data ..., end    one that did not; or
 *	upgraded, data ..., end  the backend switched protocols (if the call allows it): bytes both ways, as they are
 *	failed                 instead of what is missing of these, at any point
 *
 * After whole, end and failed the call is over and no longer looked at: its memory may be gone within them. weir_call_abort ends it too, and nothing is called then.
 *
 * Bodies are never kept: data goes through as it comes. Towards the backend, weir_call_clogged tells that the connection has more than half of what it may hold, and drained that it has not any more. Towards
 * the owner, weir_call_pause stops the calls (no data, no end, until resumed), and TCP pushes back on the backend.
 *
 * What a backend may not do. A head that is malformed or larger than the limits, more than 16 interim answers, an upgrade nobody asked for, a body shorter than announced, malformed chunks: the call
 * fails with -EPROTO, or -ECONNRESET for what is cut short, and the connection is closed. Bytes after the end of an answer: the connection is closed and not used again, the answer stands. An answer that is
 * complete before its request is: the answer stands, the connection is closed.
 *
 * Time. connect_ns and handshake_ns for making a connection, head_ns from the end of the request to the end of the answer's head, gap_ns between two parts of its body (not while the call is
 * paused), total_ns for all of it. One lazily armed timer a connection.
 *
 * Threads: everything on the loop's thread; the counts may be read by any.
 */

#include <weir/http.h>

#include "http/parse.h"
#include "sentry/balance.h"

typedef struct weir_upstream weir_upstream;
typedef struct weir_upstream_conn weir_upstream_conn;
typedef struct weir_call weir_call;

typedef struct weir_upstream_limits {
	uint64_t connect_ns;   /* 0: 5 s */
	uint64_t handshake_ns; /* of TLS; 0: 5 s */
	uint64_t head_ns;      /* 0: 60 s */
	uint64_t gap_ns;       /* 0: 60 s */
	uint64_t total_ns;     /* 0: no bound */
	uint64_t send_ns;      /* without progress of the request; 0: 30 s */
	uint64_t idle_ns;      /* of a kept connection; 0: 50 s */
	uint64_t tunnel_ns;    /* without a byte either way after an upgrade; 0: one hour */
	uint32_t idle;         /* kept connections a backend, on this thread; 0: 128 */
	uint32_t head_bytes;   /* of an answer; 0: 32 KB */
	uint32_t fields;       /* of an answer; 0: 100 */
	uint32_t output_bytes; /* of a request, waiting to be sent; at least 128 KB; 0: 256 KB */
} weir_upstream_limits;

/* ---- calls ---- */

/* How far a call was. */
typedef enum weir_call_step {
	WEIR_CALL_CONNECT,
	WEIR_CALL_HANDSHAKE,
	WEIR_CALL_ANSWER, /* no byte of an answer */
	WEIR_CALL_HEAD,   /* some bytes */
	WEIR_CALL_BODY,
	WEIR_CALL_TUNNEL,
} weir_call_step;

typedef struct weir_call_failure {
	weir_call_step step;
	int error;        /* negative errno */
	bool sent;        /* some of the request may have left */
	bool received;    /* some byte of an answer came, interim ones included */
	bool reused;      /* the connection had served another call before */
	const char *text; /* for people, static */
} weir_call_failure;

/* "connect", "answer" ... */
const char *weir_call_step_name(weir_call_step step);

/* An answer's head. Valid during the call it is given to. */
typedef struct weir_call_answer {
	const weir_head *head;
	const weir_head_field *fields;
	const char *bytes; /* that fields point into */
	uint64_t length;   /* of the body; WEIR_UNKNOWN_LENGTH */
	bool bodiless;     /* by its status, or because HEAD was asked: length is only what was announced */
} weir_call_answer;

typedef struct weir_call_ops {
	void (*ready)(weir_call *call); /* NULL: nobody wants to know */
	void (*interim)(weir_call *call, const weir_call_answer *answer);
	/* buf->data[offset .. offset + length) is the body; buf is NULL where there is none. NULL: head, data and end are called instead. */
	void (*whole)(weir_call *call, const weir_call_answer *answer, weir_buf *buf, size_t offset,
		      size_t length);
	void (*head)(weir_call *call, const weir_call_answer *answer);
	void (*upgraded)(weir_call *call, const weir_call_answer *answer);
	/* Take a reference to keep the bytes; they are read-only. */
	void (*data)(weir_call *call, weir_buf *buf, size_t offset, size_t length);
	/* trailers may be NULL. */
	void (*end)(weir_call *call, const weir_call_answer *trailers);
	void (*failed)(weir_call *call, const weir_call_failure *failure);
	void (*drained)(weir_call *call); /* NULL: nobody wants to know */
} weir_call_ops;

struct weir_call {
	weir_upstream_conn *conn; /* NULL: not under way */
	const weir_call_ops *ops;
	uint64_t started_ns;
	uint8_t method;  /* weir_method */
	uint8_t framing; /* weir_framing of the request: NONE, LENGTH or CHUNKED */
	bool upgrade;    /* a 101 is welcome */
	bool probe;
};

typedef struct weir_call_request {
	weir_method method;
	weir_framing framing;
	bool upgrade;
	bool fresh;     /* not over a kept connection */
	bool probe;     /* a health check: takes no place, counts nowhere, tells the fleet nothing */
	weir_buf *head; /* line and fields, complete; a reference is taken */
} weir_call_request;

/*
 * Makes the call; nothing is called from within, except ready, which is called before this returns if a kept connection is used. The caller has taken the place in the backend, and gets it back by end,
 * failure or abort: the call gives it. 0; or -ENOMEM, -EMFILE ...: nothing has begun, and the place is given back.
 */
int weir_call_start(weir_upstream *upstream, weir_call *call, const weir_call_ops *ops, weir_origin *backend,
		    const weir_call_request *request);
/* Bytes of the body, chunked where the request is. 0; -ENOBUFS: too much, nothing taken; -EPIPE: the connection is ending, failed will be called; -ENOMEM. */
int weir_call_send(weir_call *call, weir_buf *buf, size_t offset, size_t length);
/* The end of the body, if it has one; trailers of a chunked one. Of a tunnel: the connection is closed once all is sent, and the call is over. */
void weir_call_finish(weir_call *call, const weir_field *trailers, size_t count);
bool weir_call_clogged(const weir_call *call);
void weir_call_pause(weir_call *call);
/* What waited is delivered from within; not for the ops to call. */
void weir_call_resume(weir_call *call);
/* Gives it up: the connection is cut. Does nothing to one that is not under way. */
void weir_call_abort(weir_call *call);
weir_origin *weir_call_backend(const weir_call *call);

/* ---- upstreams ---- */

/* Per backend on one thread; read by any. */
typedef struct weir_upstream_counts {
	uint64_t calls, failures, connects, reused;
	uint32_t idle, open;
} weir_upstream_counts;

int weir_upstream_new(weir_loop *loop, weir_fleet *fleet, const weir_upstream_limits *limits, uint64_t seed,
		      weir_upstream **ret_upstream);
/* Cuts every connection; calls under way fail with -ECANCELED, from within. On the loop's thread. */
void weir_upstream_close(weir_upstream *upstream);
/* Closes connections that no call uses. True: none is left. On its thread. */
bool weir_upstream_let_go(weir_upstream *upstream);
/* Connections that are not gone yet. */
uint32_t weir_upstream_open(const weir_upstream *upstream);
/* Once no connection is open; also when its loop is gone. */
void weir_upstream_free(weir_upstream *upstream);

weir_fleet *weir_upstream_fleet(const weir_upstream *upstream);
weir_random *weir_upstream_random(weir_upstream *upstream);
weir_loop *weir_upstream_loop(const weir_upstream *upstream);
/* A buffer to build a head in, of at least that many bytes; NULL: out of memory. */
weir_buf *weir_upstream_buf(weir_upstream *upstream, size_t bytes);
void weir_upstream_read(const weir_upstream *upstream, uint32_t backend, weir_upstream_counts *ret_counts);

#endif
