/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_CLIENT_H
#define WEIR_HTTP_H2_CLIENT_H

/*
 * The client's side of an HTTP/2 connection: requests as streams, any number at a time. This module does no I/O:
 * bytes of the peer go in (weir_h2_client_take), bytes for the peer come out (weir_h2_client_ops), answers are
 * calls of weir_h2_ask_ops.
 *
 * An ask is one request and its answer:
 *
 *	head ...              interim answers (status below 200)
 *	head, data ..., end   the answer; or
 *	head                  with last set: an answer without a body; or
 *	failed                at any point, instead of what is missing
 *
 * After end, failed and a head with last set, the ask is over and must not be used. weir_h2_ask_cancel also
 * ends it, and calls nothing. All of these come from weir_h2_client_take, weir_h2_client_flush or
 * weir_h2_ask_resume: whatever else an owner does with an ask, nothing is called before it returns.
 *
 * Flow control. The connection's window is given back as bytes come, a stream's as its owner takes them. So a
 * paused ask holds back its own stream only, and holds at most WEIR_H2_CLIENT_WINDOW bytes here. Towards the
 * peer, an ask holds at most output_bytes; it is clogged above half of that, and drained is called once below.
 *
 * What the peer may not do. A malformed answer, a head above the limits, more than 16 interim answers: the
 * ask fails and its stream is reset; the others go on. Floods of frames that do nothing (h2_guard.h), header
 * blocks that do not end, and frames that are not HTTP/2 end the connection: take returns -EPROTO.
 *
 * How many. Until the peer has sent its settings one ask may be made, after that as many as it allows, and
 * never more than `streams`. No more are made after a GOAWAY, or if so many were cancelled that the peer
 * might take it for an attack: then the owner should use another connection.
 *
 * Header fields of different requests share the compression state of the connection. Cookie and Authorization
 * are never indexed, so that nobody can guess them by the size of other requests.
 *
 * Threads: that of the connection.
 */

#include "http/h2_memory.h"
#include "http/parse.h"

/* The most bytes that a peer may send on a stream before somebody has taken them. */
#define WEIR_H2_CLIENT_WINDOW 65535

typedef struct weir_h2_client weir_h2_client;
typedef struct weir_h2_ask weir_h2_ask;

/* An answer's head, or its trailers. Valid during the callback. */
typedef struct weir_h2_answer {
	const weir_head *head;
	const weir_head_field *fields;
	const char *bytes; /* that fields point into */
	uint64_t length;   /* of the body; WEIR_UNKNOWN_LENGTH */
	bool bodiless;     /* by its status, or to HEAD: length is only what was announced */
	bool last;         /* nothing follows */
} weir_h2_answer;

/* How an ask failed. */
typedef enum weir_h2_fate {
	WEIR_H2_REFUSED,  /* REFUSED_STREAM: the peer has not processed it */
	WEIR_H2_EXCLUDED, /* never sent, or a GOAWAY excludes it: not processed either */
	WEIR_H2_ABORTED,  /* the peer has reset the stream */
	WEIR_H2_NONSENSE, /* the answer was invalid */
	WEIR_H2_NO_MEMORY,
} weir_h2_fate;

typedef struct weir_h2_ask_ops {
	void (*head)(weir_h2_ask *ask, const weir_h2_answer *answer);
	/* The bytes are read-only; take a reference to keep them. */
	void (*data)(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length);
	/* trailers may be NULL. */
	void (*end)(weir_h2_ask *ask, const weir_h2_answer *trailers);
	/* The text is static. */
	void (*failed)(weir_h2_ask *ask, weir_h2_fate fate, const char *text);
	void (*drained)(weir_h2_ask *ask);
} weir_h2_ask_ops;

/* Where output goes. 0, or a negative errno: the connection is ending. */
typedef struct weir_h2_client_ops {
	int (*write)(void *arg, const void *bytes, size_t length);
	int (*send)(void *arg, weir_buf *buf, size_t offset, size_t length);
	/* Whether output should wait: call weir_h2_client_flush when it need not. */
	bool (*is_full)(void *arg);
	/* There is something to send: call weir_h2_client_flush soon, but not within this call. */
	void (*wake)(void *arg);
} weir_h2_client_ops;

typedef struct weir_h2_client_options {
	const weir_h2_client_ops *ops;
	void *arg;
	weir_h2_memory *memory; /* of the thread */
	uint32_t streams;       /* asks at once, at most; not 0 */
	uint32_t head_bytes;    /* of an answer's head, and of its trailers */
	uint32_t fields;        /* in each of them */
	uint32_t output_bytes;  /* of an ask's body, waiting to be sent */
	bool secure;            /* the scheme is https */
	uint64_t now_ns;
} weir_h2_client_options;

/* ---- connections ---- */

/* 0 or -ENOMEM. The preface is sent by the first flush. Nothing is called. */
int weir_h2_client_new(const weir_h2_client_options *options, weir_h2_client **ret_client);
/* Not within a call of its ops. Asks in progress are dropped without a call. NULL is ignored. */
void weir_h2_client_free(weir_h2_client *client);
/*
 * Bytes of the peer: buf->data[offset .. offset + length). Calls the asks' ops, then flushes. 0, or a negative
 * errno: the connection is of no use any more; weir_h2_client_error says why.
 */
int weir_h2_client_take(weir_h2_client *client, weir_buf *buf, size_t offset, size_t length, uint64_t now_ns);
/* Sends what there is, until the output is full. As take. Does nothing within a call of the ops. */
int weir_h2_client_flush(weir_h2_client *client);
/* Why the connection is of no use; static. "" if it is not known to be so. */
const char *weir_h2_client_error(const weir_h2_client *client);
/* How many asks more may be made now. */
uint32_t weir_h2_client_room(const weir_h2_client *client);
/* How many the peer allows at once, and we; 1 until it has said so. */
uint32_t weir_h2_client_most(const weir_h2_client *client);
/* Whether no more asks can be made, ever. */
bool weir_h2_client_is_leaving(const weir_h2_client *client);
/* Whether the peer's settings have come. */
bool weir_h2_client_is_settled(const weir_h2_client *client);
/* Asks in progress. */
uint32_t weir_h2_client_count(const weir_h2_client *client);
/* Sends a PING, unless one waits for its answer. */
void weir_h2_client_ping(weir_h2_client *client);
/* Whether a PING waits for its answer. */
bool weir_h2_client_pings(const weir_h2_client *client);
/* Tells the peer that the connection ends: the last thing to be sent. */
void weir_h2_client_leave(weir_h2_client *client);

/* ---- asks ---- */

/*
 * Sends a request. head is one of HTTP/1: request line and fields, complete. Fields about a connection are left
 * out. has_body: weir_h2_ask_finish will end it. Only if there is room. NULL: out of memory, or the
 * connection takes no more.
 */
weir_h2_ask *weir_h2_ask_new(weir_h2_client *client, const weir_h2_ask_ops *ops, void *arg,
			     weir_method method, const weir_buf *head, bool has_body);
void *weir_h2_ask_arg(const weir_h2_ask *ask);
/* Sends bytes of the body. 0; -ENOBUFS: too much, nothing taken; -ENOMEM. */
int weir_h2_ask_send(weir_h2_ask *ask, weir_buf *buf, size_t offset, size_t length);
/* Ends the body. 0 or -ENOMEM. */
int weir_h2_ask_finish(weir_h2_ask *ask, const weir_field *trailers, size_t count);
bool weir_h2_ask_clogged(const weir_h2_ask *ask);
/* Bytes of the body that wait to be sent. */
size_t weir_h2_ask_output(const weir_h2_ask *ask);
/* No data and no end until resumed. */
void weir_h2_ask_pause(weir_h2_ask *ask);
/* Delivers what waited before it returns; not for the ask's own ops. */
void weir_h2_ask_resume(weir_h2_ask *ask);
/* The answer is not wanted any more: RST_STREAM, or never sent. */
void weir_h2_ask_cancel(weir_h2_ask *ask, uint64_t now_ns);

#endif
