/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_REQUEST_H
#define WEIR_HTTP_REQUEST_H

/*
 * The inside of a request, and the two interfaces around it:
 *
 *	protocol (h1, h2) ──weir_request_made, _body_data, _body_end, _gone, _drained──▶ request.c, answer.c ──▶ stages, handlers
 *	protocol (h1, h2) ◀────────────── weir_codec: reply, begin, write, send, end, abort, want, ... ─────────────┘
 *
 * Life
 *
 *	weir_request_new ── head and fields are filled in by the protocol ── weir_request_made ──▶ OFFERED ──answer──▶ BEGUN ──▶ ENDED ─┐
 *	                                                                       └ collects first     └ shed: rejected ──────────────────┤
 *	   the codec's over function, or the protocol at the body's end ◀── freed when ENDED (or never offered) and BODY_OVER or GONE ◀┘
 *
 * Invariants
 *	1. While OFFERED and not BEGUN the request belongs to whoever owns its event, perhaps on another thread. Home touches nothing in
 *	   the first part of the struct then, but the event's cancelled mark.
 *	2. The head was copied into the request before the offer, with all that looks at a request can tell: a look never
 *	   touches the connection, which may go at any time.
 *	3. GONE: the protocol has forgotten the request; no function of the codec is called any more.
 *	4. An answer settles the event before anything is sent, on the thread that answers.
 *	5. It is logged once: when its answer has ended, or when its client has gone before that.
 *
 * Memory: a block of one size (struct, fields, a small arena) from the loop's free list; chunks beyond it from malloc, at most ARENA_MOST.
 *
 * Threads: as grouped below.
 */

#include <netinet/in.h>
#include <weir/http.h>

#include "control/costs.h"
#include "http/parse.h"
#include "rules/routes.h"

typedef struct weir_http_loop weir_http_loop;
typedef struct weir_http_conn weir_http_conn;
typedef struct weir_codec weir_codec;
typedef struct weir_ferry weir_ferry;

#define WEIR_REQUEST_ARENA      1536u                  /* bytes in the block itself */
#define WEIR_REQUEST_ARENA_MOST WEIR_REQUEST_ALLOC_MAX /* with chunks */

enum weir_request_flag {
	WEIR_REQUEST_OFFERED = 1 << 0, /* a stage has had it */
	WEIR_REQUEST_BEGUN = 1 << 1,   /* the answer's head is out */
	WEIR_REQUEST_ENDED = 1 << 2,   /* the answer is whole, or cut */
	WEIR_REQUEST_GONE = 1 << 3,    /* the client, or at least its protocol's side, is */
	WEIR_REQUEST_BODY_OVER = 1 << 4,
	WEIR_REQUEST_CHUNKED = 1 << 5, /* the answer is (h1) */
	WEIR_REQUEST_NO_BODY = 1 << 6, /* HEAD, 204, 304: bytes written go nowhere */
	WEIR_REQUEST_UPGRADED = 1 << 7,
	WEIR_REQUEST_CLOGGED = 1 << 8, /* a write was refused: drained is owed */
	WEIR_REQUEST_LOGGED = 1 << 9,
	WEIR_REQUEST_WAITING = 1 << 10, /* the client waits for "100 Continue" */
	WEIR_REQUEST_REST = 1 << 11,    /* a whole answer whose rest does not fit into the output yet */
};

/* What happens to bytes of its body. */
typedef enum weir_body_mode {
	WEIR_BODY_HELD, /* nobody reads yet */
	WEIR_BODY_READ,
	WEIR_BODY_PAUSED,
	WEIR_BODY_COLLECT,
	WEIR_BODY_DROP,
} weir_body_mode;

/* A sockaddr as small as one can be. */
typedef union weir_client {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} weir_client;

typedef struct weir_chunk {
	struct weir_chunk *next;
	size_t size;
	_Alignas(16) char bytes[];
} weir_chunk;

/* Trailers, in memory of their own. */
typedef struct weir_trailers {
	weir_head head; /* while they come */
	size_t count;
	char *base;
	weir_head_field fields[];
} weir_trailers;

/* What another thread answered, on its way home; in the request's arena. */
typedef struct weir_afar {
	weir_reply reply;
	bool rejected;
	weir_verdict why;
	uint64_t retry_after_ns;
	const char *stage;
	int error; /* not an answer that can be given: 500 */
} weir_afar;

struct weir_request {
	/* ---- the owner's: whoever owns the event; home before the offer and after the answer ---- */
	weir_event event; /* first */
	weir_head_field *fields;
	weir_client client;
	uint64_t began_ns;
	char *arena, *arena_end;
	struct weir_request *next; /* in the loop's free list, or on its way home */

	/* all zero in a new request, from here ... */
	weir_head head;   /* as weir_head_init leaves it */
	const char *base; /* the head's bytes */
	const weir_route *route;
	weir_span certificate;
	weir_buf *collected;
	void *user;
	weir_span note;
	weir_chunk *chunks;
	size_t chunk_bytes;
	weir_afar *afar;
	weir_ferry *ferry;   /* to a thread that streams or reads: ferry.h; NULL: none */
	weir_cost_kind kind; /* of its cost; none: its answer teaches nothing */
	uint64_t session;    /* the hash of what it said; 0: nothing */
	uint8_t standing;    /* weir_standing; set before the offer, and not changed */
	bool secure;

	/* ---- home's ---- */
	uint8_t body_mode;
	uint8_t klass; /* that it was offered in first */
	uint8_t shed;  /* weir_verdict: why it was turned away */
	uint16_t status;
	uint32_t flags;
	weir_table *table;
	const weir_body_ops *body_ops;
	uint64_t body_received;
	weir_chunks chunk;
	weir_trailers *trailers;
	void (*gone)(weir_request *request, void *arg);
	void (*drained)(weir_request *request, void *arg);
	uint64_t answer_left; /* announced and not yet written; WEIR_UNKNOWN_LENGTH */
	uint64_t answer_bytes;
	uint64_t
		answer_seen; /* of these, when it was last looked whether they flow to a half-closed client */
	uint64_t first_byte_ns;
	uint64_t body_ended_ns; /* when the last of its body came */
	const char *error;
	weir_buf *rest; /* of a whole answer */
	void (*over)(void *arg);
	/* ... to here */

	weir_http_loop *loop;
	weir_http_conn *conn; /* NULL: gone */
	const weir_codec *codec;
	void *stream; /* the protocol's */
	/* of what is set above */
	void *body_arg, *gone_arg, *drained_arg, *over_arg;
	size_t rest_offset, rest_length;
	/* once it is made */
	uint64_t body_left;      /* of a Content-Length */
	uint64_t body_since_ns;  /* the pauses are added, for the rate */
	uint64_t body_paused_ns; /* when its reading was paused */
};

/* The head of an answer, and perhaps all of it. */
typedef struct weir_answer {
	unsigned status;
	const weir_field *fields;
	size_t field_count;
	uint64_t length; /* of the body; WEIR_UNKNOWN_LENGTH: a stream without */
	/* Fields and Content-Length as HTTP/1 writes them, made before; at is NULL: they were not. Other protocols look at the fields. */
	weir_span lines;
	/* the body, for reply */
	const void *bytes;
	weir_buf *buf;
	size_t offset;
	int file;
	uint64_t file_offset;
	bool has_file;
} weir_answer;

/* An answer that is given again and again. Its fields have been checked, and written out in a way that is as good as they are. */
typedef struct weir_prepared {
	weir_reply reply;
	/* Status line, fields and Content-Length as HTTP/1 writes them, with their CRLFs; the first is line_length bytes long. */
	weir_span head;
	size_t line_length;
} weir_prepared;

/* An answer of which all but the time to come again is known beforehand. */
typedef struct weir_canned {
	unsigned status;
	unsigned retry_after_s;
	weir_span
		head; /* as HTTP/1 writes it, with the server's own fields, up to "Retry-After: "; at most 1 KB */
	weir_span body; /* at most 1 KB */
} weir_canned;

/*
 * What a protocol does for a request. All at home; none after it told weir_request_gone. A failing function has sent nothing. Answers of
 * begin, reply and upgrade: 0, or -EINVAL where a field is not one.
 */
struct weir_codec {
	/* A whole answer. It may call weir_request_ended at once, or later. */
	int (*reply)(weir_request *request, const weir_answer *answer);
	/* The same, cheaper; NULL: by reply. */
	int (*canned)(weir_request *request, const weir_canned *canned);
	/* The same for one that has a buffer as its body; false: by reply. NULL: always. */
	bool (*prepared)(weir_request *request, const weir_prepared *prepared);
	/* The head of a stream. */
	int (*begin)(weir_request *request, const weir_answer *answer);
	int (*interim)(weir_request *request, unsigned status, const weir_field *fields, size_t count);
	/* Parts of a stream, as in weir/http.h. The length has been checked. */
	int (*write)(weir_request *request, const void *bytes, size_t length);
	int (*send)(weir_request *request, weir_buf *buf, size_t offset, size_t length);
	void (*flush)(weir_request *request);
	size_t (*output)(const weir_request *request);
	/* The end of a stream; whole: as many bytes as were announced. Ends in weir_request_ended. */
	void (*end)(weir_request *request, const weir_field *trailers, size_t count, bool whole);
	/* Cuts the answer. Ends in weir_request_ended. */
	void (*abort)(weir_request *request);
	/* Bytes of the body are wanted, from now on or again: body_mode says so. */
	void (*want)(weir_request *request);
	int (*upgrade)(weir_request *request, const weir_field *fields, size_t count);
	/* Answer and body are over: the request is about to be freed. */
	void (*over)(weir_request *request);
};

/* ---- what protocols call ---- */

/* An empty request of a connection; NULL: out of memory. head is initialised, fields have room for the limits' count. */
weir_request *weir_request_new(weir_http_conn *conn, const weir_codec *codec, void *stream, uint64_t now_ns);
/* One that was never made into one: nothing is logged, no function of the codec is called. */
void weir_request_discard(weir_request *request);
/*
 * The head is parsed and its bytes are at base (copied here, unless request->base is that already); the body is what head.framing says. Finds class and route, offers it or
 * rejects it. The request may be over when this returns.
 */
void weir_request_made(weir_request *request, const char *base);
/* Before that: it came through TLS, from a client with this verified certificate ("": none). */
void weir_request_secured(weir_request *request, const char *subject);
/* Bytes of the body, in READ, COLLECT or DROP. */
void weir_request_body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length);
/* No more. Perhaps it is over now. */
void weir_request_body_end(weir_request *request);
/* What is left of the body will not come, or is not waited for. */
void weir_request_body_given_up(weir_request *request);
/* The connection or stream is no more, or not of use: nothing of the codec is called from here on. */
void weir_request_gone(weir_request *request, const char *error);
/* The output has room again. */
void weir_request_drained(weir_request *request);
/* The answer is out, as far as it ever will be. The request may be freed by this. */
void weir_request_ended(weir_request *request);
/* Answers by the server itself, with a sentence, to a request that no stage owns. */
void weir_request_refuse(weir_request *request, unsigned status, const char *why);

/* ---- between the files of the server ---- */

void weir_request_free(weir_request *request);
/* Tells the access log, once. */
void weir_request_log(weir_request *request);
/* Ends the stay of the event in its stage, if a handler owns it. false: a stage's queue does, so nobody may answer. */
bool weir_request_settle(weir_request *request, unsigned status);
/* The same with a handler's answer, which may make a session known. */
bool weir_request_settle_with(weir_request *request, const weir_reply *reply);
/* cost.c: sets the event's cost, before the first offer. */
void weir_request_estimate(weir_request *request);
/* The same file: it has been answered well, and its event is about to be settled. Whoever answers. */
void weir_request_learn(weir_request *request);
/* member.c: remembers the session of a request with one that is about to be answered with this, and settled. Whoever answers. */
void weir_request_remember(weir_request *request, const weir_reply *reply);
/* The same file: its session is over, as the service could not go on with it. Home. */
void weir_request_forget(const weir_request *request);
/* The same file: counts that the request of a session has had its answer, or was turned away. Home. */
void weir_request_count_standing(const weir_request *request);
/* As weir_request_reply. */
int weir_request_reply_prepared(weir_request *request, const weir_prepared *prepared);
/* Sends an answer from home; the event is settled. */
void weir_request_answer(weir_request *request, const weir_reply *reply);
/* The same for a rejection; stage: who says so. */
void weir_request_turn_away(weir_request *request, weir_verdict why, const char *stage,
			    uint64_t retry_after_ns);
/* The same right after the offer to its route's stage was shed. */
void weir_request_shed(weir_request *request, weir_verdict why);
/* Turned away by a quota. */
void weir_request_over_limit(weir_request *request, const weir_found *found);
/* Whether this is the request's thread. */
bool weir_request_at_home(const weir_request *request);
/*
 * Sees to it that the request has a chunk. One that has none, nor a body or rest, is given back without a
 * look at what else it may have; so whoever adds something that is rare asks for a chunk, and the usual
 * request pays nothing for it. false: out of memory. The owner's.
 */
bool weir_request_hold_chunk(weir_request *request);
/* Copies the fields of an answer into the request (answer_remote.c). false: out of memory. The owner's. */
bool weir_reply_keep_fields(weir_request *request, weir_reply *reply);
/* Answers from other threads: takes the request there (answer_remote.c). */
int weir_request_reply_afar(weir_request *request, const weir_reply *reply);
void weir_request_reject_afar(weir_request *request, weir_verdict why, const weir_why *known);
void weir_request_arrive(weir_request *request);

static inline bool weir_request_is(const weir_request *request, uint32_t flags)
{
	return (request->flags & flags) != 0;
}

static inline weir_span weir_request_span(const weir_request *request, uint32_t at, uint32_t length)
{
	return (weir_span){request->base + at, length};
}

#endif
