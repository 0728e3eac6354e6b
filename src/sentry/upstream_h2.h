/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_UPSTREAM_H2_H
#define WEIR_SENTRY_UPSTREAM_H2_H

/*
 * Calls over HTTP/2: several at a time on a connection, as streams (http/h2_client.h).
 *
 * A connection is a weir_upstream_conn like others, with `h2` set. It is made, secured, timed and closed in
 * upstream_conn.c, and has no call of its own. Its streams are the calls that it serves:
 *
 *	WAITING ──the connection is up, and there is room──▶ ASKED ──end, failed, abort──▶ over
 *	   └── there is none: it moves to another connection
 *
 * Which connection. The first of the lane's list with room; if there is none, a new one. While a connection is
 * being made, calls wait for it. Until the server has sent its settings one call is made; then as many as it
 * allows. The others move on, so a server that allows few streams gets more connections. Together they are
 * bounded as with HTTP/1: by the places of the origin.
 *
 * When it ends. A connection that the server leaves (GOAWAY), that has had many calls cancelled, or on which a
 * call timed out while nothing came, leaves the list, and closes with its last call. An idle one closes after
 * idle_ns. A server that is silent for ping_ns while calls wait for it is sent a PING, once for each silence,
 * since servers count them; if no answer comes for as long again, the calls fail. A call that the server has
 * not processed fails as not sent, so it may be made again.
 *
 * A health check has a connection of its own, since whether one can be made is part of the check.
 *
 * Timeouts are those of upstream.h, and send_ns without progress of a request's body. The timer of the
 * connection is armed for the earliest.
 *
 * Threads: that of the upstream.
 */

#include "http/h2_client.h"
#include "loop/loop.h"
#include "sentry/upstream_priv.h"

/* A call on a connection, or waiting for it. */
struct weir_upstream_stream {
	weir_upstream_h2 *h2;
	weir_call *call;
	weir_upstream_stream *next, **at; /* of h2->streams */
	weir_h2_ask *ask;                 /* NULL: WAITING */
	weir_buf *head;                   /* while it waits */
	size_t left;                      /* of the request's body, when it was last looked at */
	uint64_t progress_ns;             /* of the last byte, either way, or of the end of the request */
	bool request_done;                /* the owner has given the whole request */
	bool received;                    /* some of an answer has come */
	bool headed;                      /* its head */
	bool streams;                     /* by its head: it may be silent */
	bool paused;
	bool reused; /* the connection had served an earlier call */
};

struct weir_upstream_h2 {
	weir_upstream_conn *conn;
	weir_h2_client *client;               /* NULL: the connection is not up yet */
	weir_upstream_h2 *next, **at;         /* of the lane's list; at NULL: not in it */
	weir_upstream_stream *streams, **end; /* in the order in which they came */
	uint32_t count, waiting;              /* of streams */
	weir_deferred later;                  /* sends what there is, at the end of the turn */
	bool deferred;                        /* the loop has it */
	bool over;                            /* nothing more is sent */
	bool busy;                            /* the client is being given bytes */
	bool used;                            /* has had a call */
	bool blamed;                          /* its end has been held against the backend */
	bool idle;                            /* counted as such */
	bool probe;                           /* for one health check */
	uint64_t up_ns, heard_ns;             /* when it was up, and when a byte came last */
	uint64_t quiet_ns, pinged_ns;         /* since when nothing but a PING's answer came; the last PING */
};

/* Makes the call over HTTP/2, as weir_call_start. */
int weir_upstream_h2_start(weir_upstream *upstream, weir_upstream_lane *lane, weir_call *call,
			   const weir_call_request *request);

/* ---- what the owner of a call does with it ---- */

int weir_upstream_h2_send(weir_upstream_stream *stream, weir_buf *buf, size_t offset, size_t length);
void weir_upstream_h2_finish(weir_upstream_stream *stream, const weir_field *trailers, size_t count);
bool weir_upstream_h2_clogged(const weir_upstream_stream *stream);
void weir_upstream_h2_pause(weir_upstream_stream *stream);
void weir_upstream_h2_resume(weir_upstream_stream *stream);
void weir_upstream_h2_abort(weir_upstream_stream *stream);

/* ---- what happens to its connection; called by upstream_conn.c and upstream.c ---- */

/* The connection is up. */
void weir_upstream_h2_up(weir_upstream_conn *conn);
void weir_upstream_h2_data(weir_upstream_conn *conn, weir_buf *buf, size_t offset, size_t length);
void weir_upstream_h2_eof(weir_upstream_conn *conn);
void weir_upstream_h2_drained(weir_upstream_conn *conn);
/* The socket is gone: fails its calls, and frees h2. */
void weir_upstream_h2_ended(weir_upstream_conn *conn, int why, const char *text);
/* The earliest deadline. */
uint64_t weir_upstream_h2_deadline(const weir_upstream_conn *conn);
void weir_upstream_h2_late(weir_upstream_conn *conn);
/* Fails its calls, and closes it. */
void weir_upstream_h2_fail(weir_upstream_conn *conn, int error, const char *text);
/* Takes no more calls: closes it now if it has none, or with its last. */
void weir_upstream_h2_let_go(weir_upstream_conn *conn);

/* ---- upstream_h2_call.c: calls, and what becomes of them ---- */

/* Makes a call that waited; the connection is up and has room. */
void weir_upstream_h2_ask(weir_upstream_stream *stream);
void weir_upstream_h2_link(weir_upstream_h2 *h2, weir_upstream_stream *stream);
void weir_upstream_h2_unlink(weir_upstream_stream *stream);
/* Ends the call's stream, gives its place back, and tells it that it failed, as the last thing it does. */
void weir_upstream_h2_lose(weir_upstream_stream *stream, int error, const char *text);
/* The same for a call that the server has not processed. */
void weir_upstream_h2_refuse(weir_upstream_stream *stream, bool busy, const char *text);
/* When the call will be late; UINT64_MAX: nobody waits for the server. */
uint64_t weir_upstream_h2_stream_deadline(const weir_upstream_stream *stream);
/* Whether some of the request's body was taken since this was asked last: then it is not late. */
bool weir_upstream_h2_has_moved(weir_upstream_stream *stream);

/* ---- upstream_h2.c, for upstream_h2_call.c ---- */

/* Makes the timer fire by this time. */
void weir_upstream_h2_arm(weir_upstream_h2 *h2, uint64_t at_ns);
/* Something has changed: makes calls that wait, moves them, closes the connection if it is of no use. */
void weir_upstream_h2_look(weir_upstream_h2 *h2);

#endif
