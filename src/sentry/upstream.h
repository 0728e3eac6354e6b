/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_UPSTREAM_H
#define WEIR_SENTRY_UPSTREAM_H

/*
 * Calls to backends over pooled connections: the client side of HTTP/1.1, and of HTTP/2 (upstream_h2.h).
 *
 * An upstream belongs to one reactor thread. It has connections to every backend of a fleet; the idle ones
 * are in a list for each backend, last used first. Idle connections are bounded in count and in time. If the
 * backend closes one, or sends anything on it, it is closed at once.
 *
 * A call is one exchange. It is embedded in its owner's struct and given a connection by weir_call_start.
 * Then, in this order:
 *
 *	ready                  there is a connection, and the head was sent: the body may be written
 *	interim ...            100, 103 and the like
 *	whole                  an answer that came all at once; or
 *	head, data ..., end    one that did not; or
 *	upgraded, data ..., end  the backend switched protocols (if the call allows it): raw bytes both ways
 *	failed                 at any point, instead of what is missing
 *
 * After whole, end and failed the call is over and no longer used: its memory may be freed within them.
 * weir_call_abort also ends it, and calls nothing.
 *
 * Bodies are not buffered: data is passed on as it comes. Towards the backend, weir_call_clogged says that
 * the connection holds more than half of what it may, and drained that it no longer does. Towards the owner,
 * weir_call_pause stops the callbacks (no data, no end, until resumed), and TCP slows the backend down.
 *
 * The rest of a long body of known length may be pulled instead, if the owner asks for it when the head comes
 * (weir_call_pull) and the connection is plain. Then it is not read here, and pull is called when something
 * may have come. Parts of it may still come by data.
 *
 * What a backend may not do. A malformed or too large head, more than 16 interim answers, an upgrade that was
 * not asked for, a body shorter than announced, malformed chunks: the call fails with -EPROTO, or -ECONNRESET
 * if it was cut short, and the connection is closed. After bytes beyond the end of an answer, or an answer
 * that is complete before its request, the answer is valid, but the connection is closed.
 *
 * Timeouts. connect_ns and handshake_ns for making a connection, head_ns from the end of the request to the
 * end of the answer's head, gap_ns between two parts of its body (stream_ns if it is a stream of events
 * or gRPC; not while the call is paused), total_ns for all of it. Each connection has one timer, armed lazily.
 *
 * Threads: everything on the loop's thread; any may read the counts.
 */

#include <weir/http.h>

#include "http/parse.h"
#include "sentry/balance.h"

typedef struct weir_upstream weir_upstream;
typedef struct weir_upstream_conn weir_upstream_conn;
typedef struct weir_upstream_stream weir_upstream_stream;
typedef struct weir_call weir_call;

typedef struct weir_upstream_limits {
	uint64_t connect_ns;   /* 0: 5 s */
	uint64_t handshake_ns; /* of TLS; 0: 5 s */
	uint64_t head_ns;      /* 0: 60 s */
	uint64_t gap_ns;       /* 0: 60 s */
	uint64_t stream_ns;    /* the same for text/event-stream and gRPC; 0: one hour */
	uint64_t total_ns;     /* 0: no bound */
	uint64_t send_ns;      /* without progress of the request; 0: 30 s */
	uint64_t idle_ns;      /* of a kept connection; 0: 50 s */
	uint64_t tunnel_ns;    /* without a byte either way after an upgrade; 0: one hour */
	uint64_t ping_ns;      /* HTTP/2: silence after which a PING is sent; 0: gap_ns */
	uint32_t idle;         /* kept connections to each backend, on this thread; 0: 128 */
	uint32_t streams;      /* calls at once on a connection of HTTP/2; 0: 100 */
	uint32_t head_bytes;   /* of an answer; 0: 32 KB */
	uint32_t fields;       /* of an answer; 0: 100 */
	uint32_t output_bytes; /* of a request, waiting to be sent; at least 128 KB; 0: 256 KB */
} weir_upstream_limits;

/* ---- calls ---- */

/* How far a call got. */
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
	bool received;    /* a byte of an answer came, perhaps an interim one */
	bool reused;      /* the connection had served an earlier call */
	bool refused;     /* by the server, unprocessed (HTTP/2): it has too much to do */
	const char *text; /* for people, static */
} weir_call_failure;

/* "connect", "answer" ... */
const char *weir_call_step_name(weir_call_step step);

/* An answer's head. Valid during the callback. */
typedef struct weir_call_answer {
	const weir_head *head;
	const weir_head_field *fields;
	const char *bytes; /* that fields point into */
	uint64_t length;   /* of the body; WEIR_UNKNOWN_LENGTH */
	bool bodiless;     /* by its status, or to HEAD: length is only what was announced */
	/* Its head came before, and what was made of that may be kept here; NULL: it did not. */
	struct weir_recent_answer *recent;
} weir_call_answer;

typedef struct weir_call_ops {
	void (*ready)(weir_call *call); /* may be NULL */
	void (*interim)(weir_call *call, const weir_call_answer *answer);
	/*
	 * The body is buf->data[offset .. offset + length); buf is NULL if there is none. If whole is NULL,
	 * head, data and end are called instead.
	 */
	void (*whole)(weir_call *call, const weir_call_answer *answer, weir_buf *buf, size_t offset,
		      size_t length);
	void (*head)(weir_call *call, const weir_call_answer *answer);
	void (*upgraded)(weir_call *call, const weir_call_answer *answer);
	/* The bytes are read-only; take a reference to keep them. */
	void (*data)(weir_call *call, weir_buf *buf, size_t offset, size_t length);
	/* trailers may be NULL. */
	void (*end)(weir_call *call, const weir_call_answer *trailers);
	void (*failed)(weir_call *call, const weir_call_failure *failure);
	void (*drained)(weir_call *call); /* may be NULL */
	/*
	 * Moves bytes of the body, never beyond its end, from the connection elsewhere. Returns as weir_conn_splice;
	 * -ENOBUFS: it has paused the call. It does not end the call. NULL: it is not asked for.
	 */
	int64_t (*pull)(weir_call *call, weir_conn *from);
} weir_call_ops;

struct weir_call {
	weir_upstream_conn *conn;     /* NULL: not in progress over HTTP/1 */
	weir_upstream_stream *stream; /* NULL: not in progress over HTTP/2 */
	const weir_call_ops *ops;
	uint64_t started_ns;
	uint8_t method;  /* weir_method */
	uint8_t framing; /* weir_framing of the request: NONE, LENGTH or CHUNKED */
	bool upgrade;    /* a 101 is accepted */
	bool probe;
	bool pulls; /* weir_call_pull was called */
};

typedef struct weir_call_request {
	weir_method method;
	weir_framing framing;
	bool upgrade;
	bool fresh;     /* not on a kept connection */
	bool probe;     /* a health check: takes no place, is not counted, does not affect the fleet */
	weir_buf *head; /* request line and fields, complete; a reference is taken */
	size_t placed;  /* or it has so many bytes, in the place from weir_call_place; 0: it is a buffer */
} weir_call_request;

/*
 * Where the head of the next call to this backend can be written without being copied: in the output of a kept connection.
 * It has room for so many bytes, until anything else is called. NULL: it must be in a buffer.
 */
char *weir_call_place(const weir_upstream *upstream, const weir_origin *backend, size_t most);

/*
 * Makes the call. Calls nothing before it returns, except ready if a kept connection is used. The caller has
 * taken a place in the backend; the call gives it back at end, failure or abort. 0; or -ENOMEM, -EMFILE ...:
 * nothing has begun, and the place was given back.
 */
int weir_call_start(weir_upstream *upstream, weir_call *call, const weir_call_ops *ops, weir_origin *backend,
		    const weir_call_request *request);
/*
 * Sends bytes of the body, chunked if the request is. 0; -ENOBUFS: too much, nothing taken; -EPIPE: the
 * connection is ending, and failed will be called; -ENOMEM.
 */
int weir_call_send(weir_call *call, weir_buf *buf, size_t offset, size_t length);
/*
 * Ends the body, if there is one, with trailers if it is chunked. For a tunnel: closes the connection once
 * all is sent, and the call is over.
 */
void weir_call_finish(weir_call *call, const weir_field *trailers, size_t count);
bool weir_call_clogged(const weir_call *call);
/* Asks for the rest of the body by pull, where that is possible and worth it. Called in head. */
void weir_call_pull(weir_call *call);
void weir_call_pause(weir_call *call);
/* Delivers what waited before it returns; the ops must not call it. */
void weir_call_resume(weir_call *call);
/* Gives up the call and cuts its connection. Does nothing if it is not in progress. */
void weir_call_abort(weir_call *call);

/* ---- upstreams ---- */

#define WEIR_ANSWER_KINDS 4u /* 2xx to 5xx */

/* For one backend on one thread; any may read them. */
typedef struct weir_upstream_counts {
	uint64_t calls, failures, connects, reused;
	uint32_t idle, open;
	uint64_t answers[WEIR_ANSWER_KINDS]; /* by the first digit of their status, from 2 on */
} weir_upstream_counts;

int weir_upstream_new(weir_loop *loop, weir_fleet *fleet, const weir_upstream_limits *limits, uint64_t seed,
		      weir_upstream **ret_upstream);
/* Cuts every connection; calls in progress fail with -ECANCELED before it returns. On the loop's thread. */
void weir_upstream_close(weir_upstream *upstream);
/* Closes connections that no call uses. True: none is left. On its thread. */
bool weir_upstream_let_go(weir_upstream *upstream);
/*
 * Forgets a backend that gets no more calls: closes connections to it that no call uses, and calls gone when
 * none is left, perhaps before this returns. On its thread.
 */
void weir_upstream_leave(weir_upstream *upstream, uint32_t backend, void (*gone)(void *arg), void *arg);
/* Connections that are not gone yet. */
uint32_t weir_upstream_open(const weir_upstream *upstream);
/* Once no connection is open; also after its loop has ended. */
void weir_upstream_free(weir_upstream *upstream);

weir_fleet *weir_upstream_fleet(const weir_upstream *upstream);
weir_random *weir_upstream_random(weir_upstream *upstream);
weir_loop *weir_upstream_loop(const weir_upstream *upstream);
/* A buffer of at least that many bytes, to build a head in; NULL: out of memory. */
weir_buf *weir_upstream_buf(weir_upstream *upstream, size_t bytes);
void weir_upstream_read(const weir_upstream *upstream, uint32_t backend, weir_upstream_counts *ret_counts);

#endif
