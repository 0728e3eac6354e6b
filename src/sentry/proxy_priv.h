/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_PROXY_PRIV_H
#define WEIR_SENTRY_PROXY_PRIV_H

/*
 * The inside of the proxy. An exchange is a request in progress and the call made for it. It lives in the
 * request's memory.
 *
 *	TRYING ──answer's head──▶ ANSWERING ──end──▶ over
 *	   │  └────── 101 ──────▶ TUNNEL ────end──▶ over
 *	   └─ failed: another try, or an error's text ──▶ over
 *
 * Over means that the request was answered completely, rejected or aborted: neither request nor exchange may
 * be used after that.
 */

#include <weir/loop.h>

#include "control/alpha.h"
#include "http/request.h"
#include "sentry/proxy.h"

/* The last address as text, since the next client is often the same. */
typedef struct weir_last_client {
	uint32_t address; /* IPv4, as in a sockaddr */
	uint32_t length;  /* 0: none yet */
	char text[16];
} weir_last_client;

typedef struct weir_proxy_thread {
	weir_proxy *proxy;
	weir_upstream *upstream;
	weir_retry retry;
	weir_last_client last_client;
	weir_alpha alpha;                             /* fitted to what answers report */
	struct weir_exchange *stalled, *stalled_last; /* whose clients do not read, the longest first */
	uint32_t places;                              /* of its exchanges, at backends */
	weir_post room_post;                          /* another thread asks for room */
	atomic_bool room_asked;                       /* it is on its way */
	_Atomic bool room_modest;                     /* for an address that has less than its share */
	struct {
#define WEIR_X(name) _Atomic uint64_t name;
		WEIR_PROXY_COUNTS(WEIR_X)
#undef WEIR_X
	} counts; /* written by the thread alone */
	weir_post end_post;
	_Atomic uint32_t ending; /* ENDING_* of proxy.c */
} weir_proxy_thread;

/* Adds one; only one thread writes, so no atomic addition is needed. */
#define WEIR_PROXY_COUNT(exchange, name)                                                                     \
	atomic_store_explicit(&(exchange)->thread->counts.name,                                              \
			      atomic_load_explicit(&(exchange)->thread->counts.name, memory_order_relaxed) + \
				      1,                                                                     \
			      memory_order_relaxed)

struct weir_proxy {
	weir_proxy_options options;
	char via_line[96]; /* "Via: 1.1 weir\r\n"; empty: none */
	size_t via_length;
	_Atomic(weir_proxy_thread *) threads[WEIR_THREADS_MAX];
};

typedef struct weir_exchange {
	weir_call call; /* first */
	weir_request *request;
	weir_proxy_thread *thread;
	weir_stage *stage;
	weir_origin *backend;
	weir_timer timer; /* how long a backend may leave Expect unanswered */
	weir_buf *kept;   /* the client's body so far, for another try, while all of it fits */
	weir_buf *held;   /* a part of the answer that a slow client did not take */
	size_t held_offset, held_length;
	size_t collected_sent; /* of a body that was collected */
	weir_retry_story story;
	weir_span id, trace; /* X-Request-ID; and traceparent, if it was made here. at NULL: none */
	struct weir_exchange *stalled_next, **stalled_at; /* in the thread's list; at NULL: it is not in it */
	uint64_t stuck;            /* the server that the client's cookie names, as a hash; 0: none */
	uint64_t stalled_ns;       /* since when */
	uint64_t looked_ns, acked; /* when its client was looked at last, and what it had taken by then */
	bool has_body, expects, upgrade;
	bool ready;   /* the call takes the body */
	bool reading; /* the client's body is being read */
	bool ended;   /* and has been read to its end */
	bool begun;   /* the answer's head was sent to the client */
	bool tunnel;
	bool made_id; /* the client has sent no X-Request-ID */
	bool placed;  /* it counts among its client's places */
} weir_exchange;

static inline weir_exchange *weir_exchange_of(weir_call *call)
{
	return (weir_exchange *)(void *)call; /* its first member */
}

/* ---- proxy_stalled.c: answers that wait for their clients, and hold connections to backends ---- */

/* The client does not read: the backend waits from now on. */
void weir_exchange_stall(weir_exchange *exchange);
/* It does again. */
void weir_exchange_unstall(weir_exchange *exchange);
/*
 * Cuts the answer that has waited for longest, if for long enough. Whether there was one on this thread; if
 * not, the others are asked, for the next request. On behalf of this request, which keeps the proxy alive.
 */
bool weir_proxy_make_room(weir_proxy_thread *thread, const weir_request *request);

/* ---- sticky.c: which requests go to the same server ---- */

/* As weir_fleet_pick, by what the proxy's options ask for. */
weir_origin *weir_exchange_pick_sticky(weir_exchange *exchange, weir_origin *not_this);
/* Adds a cookie to an answer, if the client does not have it yet; returns the new count. */
size_t weir_exchange_stick(const weir_exchange *exchange, weir_field *fields, size_t count);

/* ---- proxy_places.c: what one client may hold of the backends ---- */

/* Counts the place that the exchange is about to take at this backend. false: its client has its share. */
bool weir_exchange_place(weir_exchange *exchange, const weir_origin *backend);
/* Now that all places are taken: whether its address has its share of them, or more. */
bool weir_proxy_is_greedy(const weir_proxy_thread *thread, const weir_request *request);
void weir_exchange_unplace(weir_exchange *exchange);

/* Call before anything that may end the request. */
static inline void weir_exchange_let_go(weir_exchange *exchange)
{
	if (exchange->stalled_at != NULL)
		weir_exchange_unstall(exchange);
	if (exchange->placed)
		weir_exchange_unplace(exchange);
	weir_timer_stop(&exchange->timer);
	weir_buf_unref(exchange->held);
	weir_buf_unref(exchange->kept);
	exchange->held = exchange->kept = NULL;
}

/* ---- proxy.c ---- */

/* Answers with an error, or cuts an answer that has begun. The exchange is over. */
void weir_exchange_give_up(weir_exchange *exchange, const weir_call_failure *failure);
/* Tries again, or gives up. */
void weir_proxy_failed(weir_call *call, const weir_call_failure *failure);

/* ---- proxy_ids.c ---- */

/* Finds or makes the identifiers of a request. */
void weir_exchange_identify(weir_exchange *exchange);
/* For the access log: a text about where the request went, and its identifiers if it has any. */
void weir_exchange_note(const weir_exchange *exchange, const char *text, size_t length);

/* ---- proxy_answer.c ---- */

extern const weir_call_ops weir_proxy_call_ops;
/* For the timer: the backend did not answer the expectation in time. */
void weir_exchange_late(weir_timer *timer, void *arg);

/* ---- proxy_names.c ---- */

/* Whether a field of this name, which has no id, is dropped. */
bool weir_proxy_drops(weir_span name, weir_forwarded forwarded);
/* Whether it is meant for proxies: Proxy, Proxy-... */
bool weir_proxy_is_for_proxies(weir_span name);
/* Whether this value of Connection names any fields. */
bool weir_proxy_names_fields(weir_span list);

/* Writes what a Weir behind this one is told, of at most WEIR_PROXY_HOP bytes; returns its end. */
#define WEIR_PROXY_HOP 64
char *weir_proxy_put_hop(const weir_request *request, char *to);

/* ---- proxy_head.c ---- */

/*
 * Writes the head for the backend: where it will be sent from, if the call may use a kept connection, or into a buffer
 * that the caller unrefs. false: out of memory.
 */
bool weir_proxy_head(const weir_exchange *exchange, weir_call_request *call);
/* What becomes of the fields that say who asked, for this request. */
weir_forwarded weir_proxy_forwarded(const weir_exchange *exchange);
/* Whether a trailer of the request with this name is passed on. */
bool weir_proxy_passes_trailer(const weir_exchange *exchange, weir_span name);
/* The most fields of an answer that limits may allow. */
#define WEIR_PROXY_LIMIT 250
/* The most fields that weir_proxy_fields and weir_exchange_stick make of that many. */
#define WEIR_PROXY_FIELDS(count) ((count) + 2 + WEIR_EDITS_MOST)
/* Writes the answer's fields for the client into an array; returns how many. tunnel: with Upgrade. */
size_t weir_proxy_fields(const weir_proxy *proxy, const weir_call_answer *answer, bool tunnel,
			 weir_field *ret_fields);
/*
 * The same as lines of HTTP/1, in this room, with the length of the body. For an answer of HTTP/1. at is
 * NULL: the room is too small, or fields are added.
 */
weir_span weir_proxy_lines(const weir_proxy *proxy, const weir_call_answer *answer, uint64_t length,
			   char *room, size_t size);

/* ---- proxy_reports.c ---- */

/* Reads what the answer reports, before it settles the request. */
void weir_exchange_read_reports(weir_exchange *exchange, const weir_call_answer *answer);
/* Whether this is a field with a report. */
bool weir_proxy_is_report(const weir_head_field *field, const char *bytes);

#endif
