/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H1_H
#define WEIR_HTTP_H1_H

/*
 * HTTP/1 on a connection: one request at a time, in order of arrival.
 *
 *	HEAD ──parsed──▶ BODY ──last byte──▶ ANSWER ──answered──▶ HEAD ...
 *	  │                │ └─last chunk─▶ TRAILERS ─▶ ANSWER
 *	  │                └── answered first: the rest is dropped, or not waited for: SHUT
 *	  ├── no body: ANSWER at once; usually the handler answers before the parser's caller returns
 *	  └── malformed: SHUT                    ANSWER ──101──▶ TUNNEL ──end──▶ SHUT
 *
 * Invariants
 *	1. request is NULL in HEAD before the first byte of a request, and in SHUT.
 *	2. Bytes that cannot be used yet are kept in `in`: a part of a head, bytes after an unanswered
 *	   request, or bytes of a body that nobody reads. Reading is paused unless more bytes are what is
 *	   needed. So `in` is bounded: conn.c has the limit.
 *	3. After any doubt about where a message ends the connection closes: SHUT reads nothing.
 *	4. run is not re-entered. Work that a handler's call makes possible is done when run continues, or by
 *	   later, at the end of the turn.
 *
 * Threads: the connection's.
 */

#include "http/server.h"

/* An unwanted body is read up to this size to keep the connection. Beyond it, closing is cheaper. */
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

/* Stops reading; the connection closes when its output is sent. */
void weir_h1_shut(weir_http_conn *conn);
/* Ends the connection and its request now, in any state. */
void weir_h1_lose(weir_http_conn *conn, int why, const char *error);
/* Answers a malformed body, of which nothing was answered yet. To its handler the client has gone. */
void weir_h1_refuse_body(weir_http_conn *conn, unsigned status, const char *error);
/* codec->over */
void weir_h1_over(weir_request *request);
/* Continues if bytes wait or reading is paused. */
void weir_h1_go_on(weir_http_conn *conn);

/* ---- h1_body.c: each returns how many bytes it has used; 0: it needs more ---- */

size_t weir_h1_body(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
size_t weir_h1_trailers(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
size_t weir_h1_tunnel(weir_http_conn *conn, weir_buf *buf, size_t at, size_t end);
/* codec->want */
void weir_h1_want(weir_request *request);
/* Whether the rest of an unwanted body is worth reading to keep the connection. */
bool weir_h1_drains(const weir_request *request);

/* ---- h1_write.c ---- */

/* Answers malformed input, before the connection closes. */
void weir_h1_write_error(weir_http_conn *conn, unsigned status, const char *why);
/* Requests `drained` when half of the connection's output bound is free. */
void weir_h1_want_drained(weir_http_conn *conn);
/* Continues a complete answer that did not fit into the output. */
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
