/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_H2_CLIENT_PRIV_H
#define WEIR_HTTP_H2_CLIENT_PRIV_H

/*
 * The inside of the client's side of HTTP/2.
 *
 *	bytes ──▶ h2_client_input.c: frames ──▶ h2_client_answer.c: heads, bodies ──▶ weir_h2_ask_ops
 *	bytes ◀── client->out: whole frames ◀── h2_client_head.c: requests; h2_client_send.c: small parts of bodies
 *	      ◀── DATA of asks in client->ready, once `out` is empty
 *
 * Invariants
 *	1. While frames are read or sent (inside), a flush only happens when that has returned.
 *	2. An ask is in client->asks until it is over. It is found by its number until its stream is closed: it is
 *	   over, or both sides have ended it while it is paused (id is 0 then).
 *	3. An ask that is over goes to client->dead, and is freed when the outermost function of this module
 *	   returns (depth).
 *	4. One header block arrives at a time (RFC 9113 4.3), so the connection has room for one.
 *	5. `out` consists of whole frames. What is in it will be sent: heads in it have changed the encoder's table.
 *	6. READY asks have bytes queued and a window for some of them.
 */

#include "http/h2.h"
#include "http/h2_client.h"

enum weir_h2_ask_flag {
	WEIR_H2_ASK_HEADED = 1 << 0, /* the answer's head was delivered */
	WEIR_H2_ASK_PAUSED = 1 << 1, /* the owner takes nothing now */
	WEIR_H2_ASK_ENDED = 1 << 2,  /* the answer is complete: what is left waits here */
	WEIR_H2_ASK_WHOLE = 1 << 3,  /* no more of the body will be added */
	WEIR_H2_ASK_READY = 1 << 4,  /* in client->ready */
	WEIR_H2_ASK_OWED = 1 << 5,   /* drained will be called when there is room */
	WEIR_H2_ASK_DUE = 1 << 6,    /* drained is due now: the ask is in client->due */
	WEIR_H2_ASK_OUT = 1 << 7,    /* END_STREAM was sent */
	WEIR_H2_ASK_OVER = 1 << 8,   /* in client->dead */
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
	weir_h2_ask *next_due, *next_ready;
	weir_h2_ask *next_same; /* of the same slot */
	uint32_t id;            /* 0: its stream is closed */
	uint16_t flags;
	uint8_t method, interims;
	/* windows: what we may send, and the peer; what it gets back later */
	int32_t send_window, receive_window;
	uint32_t receive_owed;
	uint64_t length_left;        /* of the answer's body; WEIR_UNKNOWN_LENGTH */
	weir_h2_piece *first, *last; /* last is valid if there is a first */
	size_t queued;               /* bytes of all pieces */
	weir_field *trailers;        /* of the request, with their bytes behind; NULL: none */
	size_t trailer_count;
	weir_buf *held;       /* what came during a pause; NULL: nothing */
	weir_h2_saved *saved; /* NULL: none */
};

/* The header block that is arriving. */
typedef struct weir_h2_block {
	weir_head head;
	weir_head_field *fields; /* options.fields of them */
	char *bytes;
	size_t length, room, weight;
	bool regular;      /* a field that is no pseudo field has come */
	const char *error; /* the first thing wrong with it */
} weir_h2_block;

/* Frames that were made and not sent yet. */
typedef struct weir_h2_made {
	uint8_t *bytes;
	size_t at, end, room; /* sent so far; made so far */
	uint32_t acks;        /* among them */
	/* the last frame, if it is DATA and nothing of it was sent: where, and of which stream; 0: it is not */
	size_t data;
	uint32_t data_id;
} weir_h2_made;

/*
 * Calls to one server are often alike, and so are its answers. What comes again, while no table has changed in
 * between, has the same block. So its fields are not compressed, or decompressed and judged, once more.
 */
#define WEIR_H2_LAST_TEXT   2048u
#define WEIR_H2_LAST_BLOCK  256u
#define WEIR_H2_LAST_FIELDS 24u

/* Which entries a table has: no entry comes without a number of its own. */
typedef struct weir_h2_entries {
	uint32_t inserted, count;
} weir_h2_entries;

static inline weir_h2_entries weir_h2_entries_of(const weir_hpack_table *table)
{
	return (weir_h2_entries){table->inserted, table->count};
}

static inline bool weir_h2_entries_are(weir_h2_entries entries, const weir_hpack_table *table)
{
	return entries.inserted == table->inserted && entries.count == table->count;
}

/* The head of a request that was sent twice in a row. Never one with a Cookie or an Authorization. */
typedef struct weir_h2_last_head {
	uint32_t hash;                 /* of the last head */
	uint32_t length, block_length; /* 0: none is kept */
	weir_h2_entries entries;       /* of the encoder */
	char text[WEIR_H2_LAST_TEXT];
	uint8_t block[WEIR_H2_LAST_BLOCK];
} weir_h2_last_head;

/* The head of an answer, or its trailers, and what was found to be right. */
typedef struct weir_h2_last_answer {
	uint32_t length;         /* of its block; 0: none is kept */
	weir_h2_entries entries; /* of the decoder */
	bool last;               /* it came with END_STREAM */
	uint8_t bytes[WEIR_H2_LAST_BLOCK];
	weir_h2_block block; /* its fields and bytes are these: */
	weir_head_field fields[WEIR_H2_LAST_FIELDS];
	char text[WEIR_H2_LAST_TEXT];
} weir_h2_last_answer;

#define WEIR_H2_ASK_SLOTS 64u

struct weir_h2_client {
	weir_h2_client_options options;
	weir_h2_ask *asks, *due, *dead;
	weir_h2_ask *ready, **ready_end;
	uint32_t count, depth;
	bool inside, settled, leaving, pings;
	bool left;         /* a GOAWAY was sent or has come */
	uint32_t code;     /* weir_h2_code of the error */
	const char *error; /* why the connection is of no use; NULL: it is of use */
	weir_buf *in;      /* what is being read */
	uint64_t now_ns;
	uint32_t next_id;
	uint32_t peer_streams; /* that the peer allows at once */
	/* windows; peer_window is that of new streams */
	int32_t send_window, peer_window;
	int32_t receive_window;
	uint32_t receive_owed;
	weir_h2_guard guard;
	weir_h2_input input;
	weir_h2_block block;
	weir_h2_made out;
	weir_hpack_decoder decoder;
	weir_hpack_encoder encoder;
	weir_h2_ask *slots[WEIR_H2_ASK_SLOTS]; /* by number */
	weir_h2_last_head last_head;
	weir_h2_last_answer last_answer[2]; /* a head; trailers */
};

/* ---- h2_client.c ---- */

/* Around whatever may end an ask: until the last exit, those that are over are not freed. */
void weir_h2_client_enter(weir_h2_client *client);
void weir_h2_client_exit(weir_h2_client *client);
/* Asks the owner to flush. */
void weir_h2_client_wake(weir_h2_client *client);
/* The connection is of no use: nothing more is read. */
void weir_h2_client_doom(weir_h2_client *client, uint32_t code, const char *why);
/* NULL: there is no such ask, or its stream is closed. */
weir_h2_ask *weir_h2_client_find(const weir_h2_client *client, uint32_t id);
/* Separates the ask from its stream. The caller tells its owner, as the last thing it does. */
void weir_h2_ask_part(weir_h2_ask *ask);
/* Both sides have ended the stream, if they have: its number means nothing any more. */
void weir_h2_ask_close(weir_h2_ask *ask);
/* Resets the stream with this code (not if it is closed), and tells the owner. */
void weir_h2_ask_fail(weir_h2_ask *ask, uint32_t code, weir_h2_fate fate, const char *text);

/* ---- h2_client_input.c: frames ---- */

void weir_h2_client_read(weir_h2_client *client, const uint8_t *at, size_t length);
/* Gives a stream's window back for bytes that were taken. */
void weir_h2_ask_window_back(weir_h2_ask *ask, size_t length);

/* ---- h2_client_answer.c: what the peer answers ---- */

/* A header block is complete. */
void weir_h2_client_take_block(weir_h2_client *client, uint32_t id, bool last, const uint8_t *bytes,
			       size_t length);
/* Bytes of a body; they may end the ask. */
void weir_h2_ask_take_data(weir_h2_ask *ask, const uint8_t *bytes, size_t length);
/* END_STREAM came with DATA. */
void weir_h2_ask_take_end(weir_h2_ask *ask);
/* Delivers what waited during a pause. */
void weir_h2_ask_go_on(weir_h2_ask *ask);

/* ---- h2_client_made.c: frames ---- */

/* Room for so many bytes behind the frames, and that they are there; NULL: out of memory. */
uint8_t *weir_h2_made_reserve(weir_h2_client *client, size_t more);
void weir_h2_made_commit(weir_h2_client *client, size_t length);
/* Makes HEADERS, and CONTINUATION frames if need be. 0 or -ENOMEM. */
int weir_h2_made_block(weir_h2_client *client, uint32_t id, const weir_field *fields, size_t count,
		       bool last);
void weir_h2_client_say(weir_h2_client *client, const void *frame, size_t length);
/* The preface and our settings. */
void weir_h2_client_say_hello(weir_h2_client *client);
void weir_h2_client_say_ack(weir_h2_client *client, weir_h2_type type, const uint8_t *payload, size_t length);
void weir_h2_client_say_window(weir_h2_client *client, uint32_t id, uint32_t more);
void weir_h2_client_say_reset(weir_h2_client *client, uint32_t id, uint32_t code);
void weir_h2_client_say_goaway(weir_h2_client *client, uint32_t code);
void weir_h2_client_say_ping(weir_h2_client *client);

/* ---- h2_client_head.c ---- */

/* Makes the frames of the head. 0; -EINVAL: it is none; -ENOMEM. */
int weir_h2_ask_submit(weir_h2_ask *ask, const weir_buf *head);

/* ---- h2_client_send.c: bodies ---- */

void weir_h2_ask_free_pieces(weir_h2_ask *ask);
/* There are bytes queued and a window, or not any more. */
void weir_h2_ask_set_ready(weir_h2_ask *ask);
void weir_h2_ask_unset_ready(weir_h2_ask *ask);
/* Hands frames to the output until it is full. 0 or a negative errno. */
int weir_h2_client_send(weir_h2_client *client);
/* Calls drained where it is due; false: nowhere. */
bool weir_h2_client_run_due(weir_h2_client *client);
/* Removes it from the list of those whose drained is due. */
void weir_h2_ask_not_due(weir_h2_ask *ask);

#endif
