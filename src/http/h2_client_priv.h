/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_CLIENT_PRIV_H
#define WEIR_HTTP_H2_CLIENT_PRIV_H

/*
 * The inside of the client's side of HTTP/2.
 *
 * Invariants
 *	1. nghttp2 is never re-entered: while it runs (inside), a flush only happens when it has returned.
 *	2. An ask is in client->asks until it is over. nghttp2 knows it by its stream's user data, which is NULL
 *	   once the ask is over, or once the peer has ended an ask that is paused (id is 0 then).
 *	3. An ask that is over goes to client->dead, and is freed when the outermost function of this module
	   returns (depth).
 *	4. One header block arrives at a time (RFC 9113 4.3), so the connection has room for one.
 */

#include "http/h2_client.h"
#include "http/h2_guard.h"

enum weir_h2_ask_flag {
	WEIR_H2_ASK_SENT = 1 << 0,     /* nghttp2 has sent its HEADERS */
	WEIR_H2_ASK_HEADED = 1 << 1,   /* the answer's head was delivered */
	WEIR_H2_ASK_PAUSED = 1 << 2,   /* the owner takes nothing now */
	WEIR_H2_ASK_ENDED = 1 << 3,    /* the answer is complete: what is left waits here */
	WEIR_H2_ASK_WHOLE = 1 << 4,    /* no more of the body will be added */
	WEIR_H2_ASK_DEFERRED = 1 << 5, /* nghttp2 knows that there is nothing to send */
	WEIR_H2_ASK_OWED = 1 << 6,     /* drained will be called when there is room */
	WEIR_H2_ASK_DUE = 1 << 7,      /* drained is due now: the ask is in client->due */
	WEIR_H2_ASK_OUT = 1 << 8,      /* END_STREAM was sent */
	WEIR_H2_ASK_OVER = 1 << 9,     /* in client->dead */
};

/* Bytes of a body that wait to be sent. */
typedef struct weir_h2_piece {
	struct weir_h2_piece *next;
	weir_buf *buf;
	size_t offset, length;
	bool own; /* the buffer is our own, and bytes may be appended */
} weir_h2_piece;

/* Trailers of an answer that is paused. */
typedef struct weir_h2_saved {
	weir_head head;
	weir_head_field *fields;
	char *bytes;
} weir_h2_saved;

struct weir_h2_ask {
	weir_h2_client *client;
	const weir_h2_ask_ops *ops;
	void *arg;
	weir_h2_ask *next, **prev; /* of client->asks, or client->dead */
	weir_h2_ask *next_due;
	int32_t id; /* 0: nghttp2 does not know it any more */
	uint16_t flags;
	uint8_t method, interims;
	weir_h2_piece *first, *last; /* last is valid if there is a first */
	size_t queued;               /* bytes of all pieces */
	nghttp2_nv *trailers;        /* of the request, with their bytes behind; NULL: none */
	size_t trailer_count;
	weir_buf *held; /* what came during a pause, from held_at on */
	uint32_t held_at;
	weir_h2_saved *saved; /* NULL: none */
};

/* The header block that is arriving. */
typedef struct weir_h2_block {
	weir_head head;
	weir_head_field *fields; /* options.fields of them */
	char *bytes;
	size_t length, room, weight;
	const char *error; /* the first thing wrong with it */
} weir_h2_block;

struct weir_h2_client {
	weir_h2_client_options options;
	nghttp2_session *session;
	weir_h2_ask *asks, *due, *dead;
	uint32_t count, depth;
	bool inside, settled, leaving, pings;
	const char *error; /* why the connection is of no use; NULL: it is of use */
	weir_buf *in;      /* what nghttp2 is reading */
	uint64_t now_ns;
	weir_h2_guard guard;
	weir_h2_block block;
};

/* ---- h2_client.c ---- */

void *weir_h2_client_alloc(weir_h2_client *client, size_t bytes);
void weir_h2_client_release(weir_h2_client *client, void *bytes);
/* Around whatever may end an ask: until the last exit, those that are over are not freed. */
void weir_h2_client_enter(weir_h2_client *client);
void weir_h2_client_exit(weir_h2_client *client);
/* Asks the owner to flush. */
void weir_h2_client_wake(weir_h2_client *client);
/* Separates the ask from its stream. The caller tells its owner, as the last thing it does. */
void weir_h2_ask_part(weir_h2_ask *ask);
/* Resets the stream with this code (not if it has ended), and tells the owner. */
void weir_h2_ask_fail(weir_h2_ask *ask, uint32_t code, weir_h2_fate fate, const char *text);

/* ---- h2_client_answer.c: nghttp2's callbacks about what the peer sends ---- */

void weir_h2_client_hear(nghttp2_session_callbacks *callbacks);
/* Delivers what waited during a pause. */
void weir_h2_ask_go_on(weir_h2_ask *ask);

/* ---- h2_client_send.c: requests ---- */

/* Submits the head; returns the stream's number, or a negative value. */
int32_t weir_h2_client_submit(weir_h2_client *client, weir_h2_ask *ask, const weir_buf *head, bool has_body);
void weir_h2_ask_free_pieces(weir_h2_ask *ask);
/* nghttp2's callback: passes a DATA frame, header first, to the output. */
int weir_h2_client_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
			     size_t length, nghttp2_data_source *source, void *user);
/* Calls drained where it is due; false: nowhere. */
bool weir_h2_client_run_due(weir_h2_client *client);
/* Removes it from the list of those whose drained is due. */
void weir_h2_ask_not_due(weir_h2_ask *ask);

#endif
