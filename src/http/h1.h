/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H1_H
#define WEIR_HTTP_H1_H

/*
 * HTTP/1 on a connection: one request at a time, in the order they came.
 *
 *	HEAD ──parsed──▶ BODY ──last byte──▶ ANSWER ──answered──▶ HEAD ...
 *	  │                │ └─last chunk─▶ TRAILERS ─▶ ANSWER
 *	  │                └── answered first: what is left is dropped, or not waited for: SHUT
 *	  ├── no body: ANSWER at once; the handler has mostly answered before the parser's caller returns
 *	  └── malformed: SHUT                    ANSWER ──101──▶ TUNNEL ──end──▶ SHUT
 *
 * Invariants
 *	1. request is NULL in HEAD before the first byte of one, and in SHUT.
 *	2. Bytes that cannot be used yet (a part of a head; whatever comes behind an unanswered request, or while nobody reads the body) are
 *	   kept in `in`, and reading is paused if it is not for want of more. So they are bounded: a head, and two reads.
 *	3. After any doubt about where a message ends the connection closes: SHUT takes nothing in.
 *	4. run is not entered twice: what a handler's call makes possible is done when run goes on, or by later, at the end of the turn.
 *
 * Threads: the connection's.
 */

#include "http/server.h"

/* So much of a body that nobody wants is read to keep the connection; beyond it closing is cheaper. */
#define WEIR_H1_DRAIN_BYTES 65536

enum weir_h1_state {
	WEIR_H1_HEAD,
	WEIR_H1_BODY,
	WEIR_H1_TRAILERS,
	WEIR_H1_ANSWER,
	WEIR_H1_TUNNEL,
	WEIR_H1_SHUT,
};

extern const weir_codec weir_h1_codec;

/* ---- h1.c ---- */

/* Takes no more in; the connection closes when its output is out. */
void weir_h1_shut(weir_http_conn *conn);
/* The connection ends now, and so does its request, whatever state it is in. */
void weir_h1_lose(weir_http_conn *conn, int why, const char *error);
/* The codec's over. */
void weir_h1_over(weir_request *request);
/* Goes on where bytes wait, or reading is paused. */
void weir_h1_go_on(weir_http_conn *conn);

/* ---- h1_body.c: each uses some of the bytes and tells how many; 0: more are needed ---- */

size_t weir_h1_body(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
size_t weir_h1_trailers(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
size_t weir_h1_tunnel(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
/* The codec's want. */
void weir_h1_want(weir_request *request);
/* Whether what is left of the body is worth reading for nobody, to keep the connection. */
bool weir_h1_drains(const weir_request *request);

/* ---- h1_write.c ---- */

/* An answer to what is no request, before the connection closes. */
void weir_h1_write_error(weir_http_conn *conn, unsigned status, const char *why);
/* Has drained called when half of the connection's bound is free. */
void weir_h1_want_drained(weir_http_conn *conn);
/* Goes on with a whole answer that did not fit. */
void weir_h1_pump(weir_request *request);

static inline weir_http_conn *weir_h1_of(weir_link *link)
{
	return (weir_http_conn *)(void *)link;
}

/* Nobody takes bytes of the body now. */
static inline bool weir_h1_body_waits(const weir_request *request)
{
	return request->body_mode == WEIR_BODY_HELD || request->body_mode == WEIR_BODY_PAUSED;
}

#endif
