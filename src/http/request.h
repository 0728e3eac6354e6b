/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_REQUEST_H
#define WEIR_HTTP_REQUEST_H

/*
 * The inside of a request, and the two interfaces around it:
 *
 *	protocol (h1, h2) ──weir_request_made, _body_data, _body_end, _gone, _drained──▶ request.c, answer.c
 *	protocol (h1, h2) ◀──weir_codec: reply, begin, write, send, end, abort, want──── request.c, answer.c
 *	                                             request.c offers to stages, whose handlers answer
 *
 * Life
 *
 *	weir_request_new ─▶ the protocol fills in head and fields ─▶ weir_request_made ─▶ collects the body?
 *	  ─▶ OFFERED ─answer─▶ BEGUN ─▶ ENDED; a request that is shed is rejected: ENDED too
 *	  ─▶ freed when ENDED (or never offered) and BODY_OVER or GONE: codec->over
 *
 * Invariants
 *	1. While a request is OFFERED and not BEGUN it belongs to the owner of its event, perhaps on another
 *	   thread. Then its home thread touches nothing in the first part of the struct except the event's
 *	   cancelled mark.
 *	2. The head is copied into the request before the offer, with everything that the functions of
 *	   weir/http.h tell about a request. They never touch the connection, which may close at any time.
 *	3. GONE: the protocol has forgotten the request, and no function of the codec is called any more.
 *	4. An answer settles the event before anything is sent, on the thread that answers.
 *	5. A request is logged once: when its answer has ended, or when its client has gone before that.
 *
 * Memory: a block of one size (struct, fields, a small arena) from the loop's free list. Further chunks come
 * from malloc; the arena has at most ARENA_MOST bytes.
 *
 * Threads: as grouped below. "Home" is the thread of the request's connection.
 */

#include <netinet/in.h>
#include <weir/http.h>

#include "control/costs.h"
#include "http/ahead.h"
#include "http/parse.h"
#include "rules/routes.h"

typedef struct weir_http_loop weir_http_loop;
typedef struct weir_http_conn weir_http_conn;
typedef struct weir_codec weir_codec;
typedef struct weir_ferry weir_ferry;

#define WEIR_REQUEST_ARENA      1536u                  /* bytes in the block itself */
#define WEIR_REQUEST_ARENA_MOST WEIR_REQUEST_ALLOC_MAX /* including chunks */

enum weir_request_flag {
	WEIR_REQUEST_OFFERED = 1 << 0, /* a stage has owned it */
	WEIR_REQUEST_BEGUN = 1 << 1,   /* the head of the answer is out */
	WEIR_REQUEST_ENDED = 1 << 2,   /* the answer is complete, or was cut */
	WEIR_REQUEST_GONE = 1 << 3,    /* the client, or its stream, has gone */
	WEIR_REQUEST_BODY_OVER = 1 << 4,
	WEIR_REQUEST_CHUNKED = 1 << 5, /* the answer is chunked (HTTP/1) */
	WEIR_REQUEST_NO_BODY = 1 << 6, /* HEAD, 204, 304: body bytes are not sent */
	WEIR_REQUEST_UPGRADED = 1 << 7,
	WEIR_REQUEST_CLOGGED = 1 << 8, /* a write was refused: the drained callback is owed */
	WEIR_REQUEST_LOGGED = 1 << 9,
	WEIR_REQUEST_WAITING = 1 << 10, /* the client waits for "100 Continue" */
	WEIR_REQUEST_REST = 1 << 11,    /* the rest of a complete answer does not fit into the output yet */
	WEIR_REQUEST_TRUSTED = 1 << 12, /* it came from a proxy that the listener trusts */
};

/* What happens to the bytes of a request's body. */
typedef enum weir_body_mode {
	WEIR_BODY_HELD, /* nobody reads yet */
	WEIR_BODY_READ,
	WEIR_BODY_PAUSED,
	WEIR_BODY_COLLECT,
	WEIR_BODY_GATHER, /* its beginning, before the offer */
	WEIR_BODY_DROP,
} weir_body_mode;

/* Smaller than a sockaddr_storage. */
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

/* Trailers have their own memory. */
typedef struct weir_trailers {
	weir_head head; /* while they are parsed */
	size_t count;
	char *base;
	weir_head_field fields[];
} weir_trailers;

/* An answer from another thread, on its way home; in the request's arena. */
typedef struct weir_afar {
	weir_reply reply;
	bool rejected;
	weir_verdict why;
	uint64_t retry_after_ns;
	const char *stage;
	int error; /* the answer cannot be given: 500 is sent */
} weir_afar;

struct weir_request {
	/* everything in a new request, but for what weir_request_new sets, is zero from here ... */

	/* ---- the owner's: whoever owns the event; home before the offer and after the answer ---- */
	weir_event event; /* first */
	weir_head_field *fields;
	weir_client client;
	uint64_t began_ns;
	char *arena, *arena_end;
	struct weir_request *next; /* in the loop's free list, or on its way home */

	weir_head head;   /* as weir_head_init leaves it */
	const char *base; /* the head's bytes */
	weir_span tidied; /* the path that was judged and is passed on; at is NULL: the path as sent */
	const weir_route *route;
	weir_span certificate;
	weir_buf *collected;
	weir_ahead *ahead;              /* the beginning of the body, gathered before the offer; or NULL */
	struct weir_hammered *hammered; /* its rejection waits; NULL: it does not */
	void *user;
	weir_span note;
	weir_chunk *chunks;
	size_t chunk_bytes;
	weir_afar *afar;
	weir_ferry *ferry;      /* to a thread that streams or reads: ferry.h; or NULL */
	weir_cost_kind kind;    /* of its cost; if none, nothing is learnt from its answer */
	uint32_t told_us;       /* its own time, as the server behind a proxy tells; 0: not told */
	uint32_t told_queue_us; /* how long it waited there */
	uint32_t cpu_us;        /* processor time of its handler on a thread of a pool; 0: unknown */
	uint64_t session;       /* hash of the session's identifier; 0: none */
	uint8_t standing;       /* weir_standing; constant after the offer */
	uint8_t told_class;     /* by the Weir in front: the class and 1; 0: none */
	uint64_t told_left_ns;  /* by the same: how much time is left; 0: not told */
	bool secure;

	/* ---- home's ---- */
	uint8_t body_mode;
	uint8_t klass; /* of its first offer */
	uint8_t shed;  /* weir_verdict: why it was rejected */
	uint16_t status;
	uint32_t flags;
	weir_table *table;
	const weir_body_ops *body_ops;
	uint64_t body_received;
	weir_chunks chunk;
	weir_trailers *trailers;
	void (*gone)(weir_request *request, void *arg);
	void (*drained)(weir_request *request, void *arg);
	uint64_t answer_left; /* announced but not yet written; or WEIR_UNKNOWN_LENGTH */
	uint64_t answer_bytes;
	/* answer_bytes at the last check whether bytes still flow to a half-closed client */
	uint64_t answer_seen;
	uint64_t first_byte_ns;
	uint64_t body_ended_ns; /* when the last byte of its body arrived */
	const char *error;
	weir_buf *rest; /* of a complete answer */
	bool *freed;    /* set when the request is freed; NULL: nobody asks */
	void (*over)(void *arg);
	/* ... to here */

	weir_http_loop *loop;
	weir_http_conn *conn; /* NULL: closed */
	const weir_codec *codec;
	void *stream; /* the protocol's */
	/* arguments of the callbacks above */
	void *body_arg, *gone_arg, *drained_arg, *over_arg;
	size_t rest_offset, rest_length;
	struct weir_holder *holder; /* its client's (shares.h); NULL: not counted */
	/* valid once weir_request_made was called */
	uint64_t body_left;      /* of the Content-Length */
	uint64_t body_since_ns;  /* plus the pauses, for the minimum rate */
	uint64_t body_paused_ns; /* when its reading was paused */
};

/* The head of an answer, or all of it. */
typedef struct weir_answer {
	unsigned status;
	const weir_field *fields;
	size_t field_count;
	uint64_t length; /* of the body; WEIR_UNKNOWN_LENGTH: a stream without one */
	/*
	 * Fields and Content-Length as HTTP/1 writes them, prepared in advance; `at` is NULL if they were
	 * not. Other protocols use `fields`.
	 */
	weir_span lines;
	/* the body, for codec->reply */
	const void *bytes;
	weir_buf *buf;
	size_t offset;
	int file;
	uint64_t file_offset;
	bool has_file;
} weir_answer;

/* An answer that is sent often. Its fields are checked and written out in advance. */
typedef struct weir_prepared {
	weir_reply reply;
	/* Status line (line_length bytes), fields and Content-Length as HTTP/1 writes them, with CRLFs. */
	weir_span head;
	size_t line_length;
} weir_prepared;

struct weir_shed_head; /* reject.h */

/*
 * What a protocol does for a request. All functions run at home, and none after weir_request_gone. A function
 * that fails has sent nothing. begin, reply and upgrade return 0, -EINVAL if the fields are too long, or
 * -ENOMEM.
 */
struct weir_codec {
	/* Sends a complete answer. Calls weir_request_ended at once, or later. */
	int (*reply)(weir_request *request, const weir_answer *answer);
	/* The same, cheaper, for a plain rejection; if NULL, reply is used. */
	void (*reject)(weir_request *request, const struct weir_shed_head *head, unsigned retry_after_s);
	/* The same for an answer with a buffer as its body. If it is NULL or returns false, reply is used. */
	bool (*prepared)(weir_request *request, const weir_prepared *prepared);
	/* Sends the head of a streamed answer. */
	int (*begin)(weir_request *request, const weir_answer *answer);
	int (*interim)(weir_request *request, unsigned status, const weir_field *fields, size_t count);
	/* Parts of a streamed answer, as in weir/http.h. The caller has checked the length. */
	int (*write)(weir_request *request, const void *bytes, size_t length);
	int (*send)(weir_request *request, weir_buf *buf, size_t offset, size_t length);
	void (*flush)(weir_request *request);
	size_t (*output)(const weir_request *request);
	/* The end of a streamed answer. whole: all announced bytes were written. Calls weir_request_ended. */
	void (*end)(weir_request *request, const weir_field *trailers, size_t count, bool whole);
	/* Cuts the answer. Calls weir_request_ended. */
	void (*abort)(weir_request *request);
	/* body_mode has changed: reads the body, goes on reading, or pauses. */
	void (*want)(weir_request *request);
	int (*upgrade)(weir_request *request, const weir_field *fields, size_t count);
	/* Answer and body are over: the request is about to be freed. */
	void (*over)(weir_request *request);
};

/* ---- what protocols call ---- */

/* Frees half of the blocks that the loop keeps for the next requests. */
void weir_request_slim(weir_http_loop *loop);
/* An empty request; NULL: out of memory. head is initialised, fields has room for limits.fields. */
weir_request *weir_request_new(weir_http_conn *conn, const weir_codec *codec, void *stream, uint64_t now_ns);
/* Logs nothing and calls no codec function. By a protocol: only before weir_request_made. */
void weir_request_free(weir_request *request);
/*
 * The head is parsed and its bytes are at base. They are copied, unless request->base is base already.
 * head.framing describes the body. Finds class and route, and offers or rejects the request. The request may
 * be freed when this returns.
 */
void weir_request_made(weir_request *request, const char *base);
/* Before weir_request_made: the request came through TLS. subject: of the verified certificate; "": none. */
void weir_request_secured(weir_request *request, const char *subject);
/* Bytes of the body, in the modes READ, COLLECT and DROP. */
void weir_request_body_data(weir_request *request, weir_buf *buf, size_t offset, size_t length);
/* The body is complete. The request may be freed by this. */
void weir_request_body_end(weir_request *request);
/* The rest of the body will not come, or is not waited for. */
void weir_request_body_given_up(weir_request *request);
/* The connection or stream has closed or is unusable. No function of the codec is called from here on. */
void weir_request_gone(weir_request *request, const char *error);
/* The output has room again. */
void weir_request_drained(weir_request *request);
/* The answer is out, or was cut. The request may be freed by this. */
void weir_request_ended(weir_request *request);
/* Answers with a sentence by the server itself. No stage may own the request. */
void weir_request_refuse(weir_request *request, unsigned status, const char *why);

/* ---- between the files of the server ---- */

/* Asks the application for its class, if the route says so. Its body is there, if it was to be collected. */
void weir_request_classify(weir_request *request);
/* Its body is there, if it was to be collected: offers it to the stage of its route. */
void weir_request_offer(weir_request *request);
/* Answer and body are over: tells the codec, unless the client has gone, and frees it. */
void weir_request_over(weir_request *request);
/* Writes the access log entry, once. */
void weir_request_log(weir_request *request);
/* Settles the event, if a handler owns it. false: it is in a stage's queue, so nobody may answer. */
bool weir_request_settle(weir_request *request, unsigned status);
/* The same with a handler's answer, which may start a session. */
bool weir_request_settle_with(weir_request *request, const weir_reply *reply);
/* cost.c: sets the event's cost, in the first offer. */
void weir_request_estimate(weir_request *request);
/* cost.c: learns from a good answer, just before the event is settled. On the thread that answers. */
void weir_request_learn(weir_request *request);
typedef enum weir_told_time { WEIR_TOLD_SERVICE, WEIR_TOLD_QUEUE } weir_told_time;
/*
 * The server behind a proxy tells how long the request took by itself, or how long it waited there. The
 * owner, before the request is settled.
 */
void weir_request_told(weir_request *request, weir_told_time which, double s);
/* member.c: remembers the session, just before this reply settles the event. On the same thread. */
void weir_request_remember(weir_request *request, const weir_reply *reply);
/* member.c: ends the session, because the service could not continue it. Home. */
void weir_request_forget(const weir_request *request);
/* member.c: counts an answered or rejected request of a session. Home. */
void weir_request_count_standing(const weir_request *request);
/* As weir_request_begin, with a status and fields that a parser has checked. */
int weir_request_begin_checked(weir_request *request, const weir_reply *reply, uint64_t length);
/* As weir_request_reply. */
int weir_request_reply_prepared(weir_request *request, const weir_prepared *prepared);
/* Sends an answer from home. The event has been settled. */
void weir_request_answer(weir_request *request, const weir_reply *reply);
/* The same with fields and Content-Length as HTTP/1 writes them, for a client of HTTP/1 only. */
void weir_request_answer_lines(weir_request *request, weir_answer *answer);
/* The same for a rejection by this stage. */
void weir_request_turn_away(weir_request *request, weir_verdict why, const char *stage,
			    uint64_t retry_after_ns);
/* The same right after the stage of its route has shed the offer. */
void weir_request_shed(weir_request *request, weir_verdict why);
/* Rejects a request that exceeds a quota. */
void weir_request_over_limit(weir_request *request, const weir_found *found);
/* Whether the caller is on the request's home thread. */
bool weir_request_at_home(const weir_request *request);
/* request_memory.c: memory beyond the request's block; NULL: out of memory, or of what a request may have. */
void *weir_request_alloc_chunk(weir_request *request, size_t bytes);
/*
 * Makes sure that the request has a chunk; false: out of memory. Called by the owner. A request without a
 * chunk, body or rest is freed without looking at its rare parts. So whoever adds something rare asks for a
 * chunk first, and the usual request pays nothing.
 */
bool weir_request_hold_chunk(weir_request *request);
/* answer_remote.c: the owner copies the fields of an answer into the request. false: out of memory. */
bool weir_reply_keep_fields(weir_request *request, weir_reply *reply);
/* Answers from other threads, and the arrival of the request at home (answer_remote.c). */
int weir_request_reply_afar(weir_request *request, const weir_reply *reply);
void weir_request_reject_afar(weir_request *request, weir_verdict why, const weir_why *known);
void weir_request_arrive(weir_request *request);

/* As weir_request_alloc, without a call. */
static inline void *weir_request_take(weir_request *request, size_t bytes)
{
	uintptr_t at = ((uintptr_t)request->arena + 15) & ~(uintptr_t)15;
	if (at <= (uintptr_t)request->arena_end && bytes <= (uintptr_t)request->arena_end - at) {
		request->arena = (char *)at + bytes;
		return (void *)at;
	}
	return weir_request_alloc_chunk(request, bytes);
}

/*
 * pull.c: whether the rest of an answer that has begun may be pulled: its length is known, and the client
 * is connected by HTTP/1, without TLS, and sends at once. Home.
 */
bool weir_request_pulls(const weir_request *request);
/*
 * Moves bytes of the body from a connection, whose pull calls this, to the client. Returns as
 * weir_conn_splice; -ENOBUFS: the client has no room, and drained will be called. Home.
 */
int64_t weir_request_pull(weir_request *request, weir_conn *from);

static inline bool weir_request_is(const weir_request *request, uint32_t flags)
{
	return (request->flags & flags) != 0;
}

/* The next cookie of the name; at is NULL if there are no more. *cursor is 0 at first. */
weir_span weir_request_next_cookie(const weir_request *request, weir_span name, uint64_t *cursor);

/* client.c: for a listener that trusts proxies. Finds the client behind them, and the scheme it used. */
void weir_request_follow_proxies(weir_request *request, const struct weir_matcher *trusted);
/* The address at the other end of the connection: the client's, or that of a trusted proxy. Home. */
const struct sockaddr *weir_request_peer(const weir_request *request);
/* Keeps an address. One of IPv4 that came by a socket of IPv6 becomes what it is. */
void weir_client_set(weir_client *client, const struct sockaddr_storage *address);
/* An address as X-Forwarded-For has it, perhaps with a port. false: it is none. */
/* Whether it is one of these proxies. */
bool weir_client_is_trusted(const struct weir_matcher *trusted, const weir_client *client);
bool weir_client_parse(weir_span text, weir_client *ret_client);

/* Whether its body is read before it is offered, so that it can still be refused. */
static inline bool weir_request_is_early(const weir_request *request)
{
	return request->body_mode == WEIR_BODY_COLLECT || request->body_mode == WEIR_BODY_GATHER;
}

/* request_body.c: frees what was gathered. */
void weir_request_drop_ahead(weir_request *request);
/* Reads the beginning of the body, and then offers the request. */
void weir_request_gather(weir_request *request);

static inline weir_span weir_request_span(const weir_request *request, uint32_t at, uint32_t length)
{
	return (weir_span){request->base + at, length};
}

/* The path as it was sent, whatever has become of it. Never empty. */
static inline weir_span weir_request_sent_path(const weir_request *request)
{
	if (__builtin_expect(request->head.path_length == 0, 0))
		return WEIR_SPAN("/");
	return weir_request_span(request, request->head.path, request->head.path_length);
}

/* The path that rules and costs look at, and that is passed on. */
static inline weir_span weir_request_judged_path(const weir_request *request)
{
	return request->tidied.at != NULL ? request->tidied : weir_request_sent_path(request);
}

#endif
