/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_REACTOR_H
#define WEIR_LOAD_REACTOR_H

/*
 * The internals of a run, for src/load only: a thread with a loop, its share of users and connections,
 * its tally.
 *
 * A session is an active user: it thinks (its timer runs), waits for a connection (in the queue
 * `waiting`), or has a request in progress (its exchange is set).
 *
 *  thinks ──due──▶ has an exchange ──answer, failure, time is up──▶ thinks, or is over
 *             └──▶ waits ──a connection has room──▶ has one
 *
 * An exchange is one request and its answer on a connection: one at a time with HTTP/1, up to `streams`
 * with HTTP/2. It always belongs to the same connection, and is spare between two requests.
 *
 * A connection is CONNECTING or shaking hands (HANDSHAKE) for the sessions that wanted it, UP, or DYING,
 * with closed to come. It has room while it may take one more request. A connection that may not take any
 * more (the server asked to close it, or it has made --per-connection requests) is spent, and is closed
 * when its last exchange is over.
 *
 * Invariants
 * 1. exchange->session and session->exchange point at each other, or both are NULL. The same holds for
 *    conn->keeper and session->conn: a user who keeps an idle connection has no exchange.
 * 2. A waiting session is in the queue and has no exchange. Nobody waits while a connection has room.
 * 3. A connection that is not DYING has an exchange in progress, a keeper, or is in the list of those
 *    with room.
 * 4. `open` counts the requests that were tallied as sent and not yet as ended.
 * 5. Times here are those of the loop's clock; times in the tally are since measure_ns.
 *
 * Threads: everything belongs to the reactor's thread, except what is marked shared.
 */

#include <pthread.h>

#include <weir/loop.h>

#include "base/clock.h"
#include "load/bytes.h"
#include "load/each.h"
#include "load/h2.h"
#include "load/plan.h"
#include "load/reader.h"
#include "load/tally.h"
#include "net/pool.h"
#include "tls/link.h"

typedef struct load_reactor load_reactor;
typedef struct load_session load_session;
typedef struct load_exchange load_exchange;
typedef struct load_conn load_conn;

/* Bound of a connection's waiting output; HTTP/2 frames are written up to half of it. */
#define LOAD_OUTPUT_BYTES (64u << 20)

/* The outcome of an attempt. */
typedef struct load_outcome {
	load_end end;
	load_error error;
	unsigned status; /* 0: no answer */
	uint32_t retry_after_s;
	uint64_t first_byte_ns, ended_ns, bytes;
	const load_kept *kept; /* from the answer; NULL: nothing was kept */
} load_outcome;

struct load_session {
	load_session *next, **link_in; /* in the queue of waiting sessions; link_in NULL: not in it */
	load_session *all_next, **all_link;
	load_reactor *reactor;
	load_exchange *exchange; /* in progress */
	load_conn *conn;         /* the idle connection that it keeps */
	load_user user;
	const load_form *form;
	weir_span target, cookies;
	uint64_t meant_ns;
	uint64_t due_ns;  /* of this attempt; the first is due when it is meant to be sent */
	uint64_t number;  /* of the arrival */
	uint32_t attempt; /* 0: the first */
	uint32_t answers; /* of a closed user: ok and counted */
	bool counted;     /* meant to be sent after the warm-up */
	bool sent;        /* and reported to the tally */
	weir_timer timer; /* for a think, a back-off, or the patience while it waits */
};

struct load_exchange {
	load_stream stream; /* must be first */
	load_conn *conn;
	load_session *session; /* NULL: spare */
	load_exchange *next;   /* in the connection's list */
	load_exchange *spare;  /* the next spare one */
	uint64_t deadline_ns;
	bool impatient; /* the deadline is the user's patience */
	weir_timer timer;
	load_kept *kept;
};

enum load_conn_state {
	LOAD_CONN_CONNECTING,
	LOAD_CONN_HANDSHAKE,
	LOAD_CONN_UP,
	LOAD_CONN_DYING,
};

struct load_conn {
	weir_link link; /* must be first */
	load_reactor *reactor;
	load_session *keeper;
	load_conn *next, **link_in; /* in the list of connections with room; link_in NULL: not in it */
	uint64_t opened_ns;
	uint64_t silent_ns; /* the first request since the last input; 0: none */
	load_exchange *exchanges, *spare;
	unsigned under_way;
	uint32_t made; /* number of requests */
	uint8_t state;
	bool spent;
	load_h2 *h2;                     /* NULL: HTTP/1 */
	load_conn *pump_next, **pump_in; /* in the list of those with frames to send */
	load_exchange first;             /* others come from the pool */
};

struct load_reactor {
	/* const after init */
	const load_plan *plan;
	struct load_engine *engine;
	unsigned number, users, conns_max;
	unsigned streams;    /* maximum number of requests in progress on a connection */
	bool keeps;          /* a user keeps its connection: closed run, with enough connections */
	uint32_t kept_bytes; /* of bodies */
	bool shows;          /* answers are passed to users */
	uint64_t start_ns, measure_ns, end_ns;

	weir_loop *loop;
	weir_clock *clock;
	load_arrivals arrivals;
	uint64_t arrival_ns; /* the next; UINT64_MAX: none */
	weir_random random;
	load_heads heads;
	load_bytes bytes;
	weir_pool conn_pool, exchange_pool, session_pool;
	load_session *all;
	load_session *waiting, **waiting_end;
	load_conn *roomy; /* most recently used first */
	load_conn *pump;  /* connections whose HTTP/2 frames are sent together, before the thread sleeps */
	unsigned users_begun, conns, connecting, sessions, source;
	uint64_t open;
	uint64_t second_ns; /* end of the second that is being counted */
	uint64_t last_ns;   /* time of the last answer */
	bool ending;        /* users whose answer has come do not continue */
	bool stopped;       /* nothing is sent any more */
	pthread_t thread;

	load_each each;   /* read by others once it is over */
	load_tally tally; /* shared: see load/tally.h */
	atomic_bool over; /* shared: the thread is finished; tally.open and last_ns are final */
};

static inline uint64_t load_now(load_reactor *reactor)
{
	return weir_clock_now(reactor->clock);
}

/* ---- session.c ---- */

/* A user arrives: its first request is due at at_ns. number: of the arrival. */
void load_session_begin(load_reactor *reactor, uint64_t at_ns, uint64_t number);
/* The session waits for a connection, as long as its patience lasts. */
void load_session_waits(load_session *session);
/*
 * The request has a connection, or one that is being made for it: the time for that is not the
 * generator's.
 */
void load_session_sent(load_session *session, uint64_t now_ns);
/*
 * The attempt is over, and the session has no request in progress (it may keep an idle connection). The
 * session may have been freed afterwards.
 */
void load_session_over(load_session *session, const load_outcome *outcome);
void load_session_free(load_session *session);

/* ---- exchange.c ---- */

/* A spare exchange of the connection, or a new one; NULL: no memory. */
load_exchange *load_exchange_take(load_conn *conn);
/* Assigns the session's request to the exchange; its deadline starts. */
void load_exchange_pair(load_exchange *exchange, load_session *session, uint64_t now_ns);
/* Sends the request on a connection that is up. */
void load_exchange_start(load_exchange *exchange);
/*
 * Makes the exchange spare again and detaches its session, which is returned. The caller decides what the
 * session does next.
 */
load_session *load_exchange_part(load_exchange *exchange);
/* The answer is complete; alone: no bytes came after it. */
void load_exchange_answered(load_exchange *exchange, bool alone);
/* The attempt failed on its own: the connection continues if it can. */
void load_exchange_failed(load_exchange *exchange, load_end end, load_error error);
/* Called when the connection ends. */
void load_exchange_fini(load_exchange *exchange);

/* ---- client.c ---- */

/*
 * Sends the session's request on its own connection, one that has room, or a new one; otherwise the
 * session waits.
 */
void load_client_send(load_session *session);
/* Removes the session from the queue of waiting sessions, if it is there. */
void load_client_unwait(load_session *session);
/* Gives connections to waiting sessions, and makes new ones, as far as allowed. */
void load_client_serve(load_reactor *reactor);
/*
 * An exchange of the connection is over. session: its owner, who may keep the connection (NULL: nobody
 * may).
 */
void load_client_settle(load_conn *conn, load_session *session);
/* Closes a connection without an exchange in progress. */
void load_client_drop(load_conn *conn);
/* All requests in progress have failed for the same reason; the connection is unusable. */
void load_client_fail(load_conn *conn, load_error error);
/* The session releases its connection, or its request if one is in progress. */
void load_client_part(load_session *session);

/* The connection has frames to send. */
void load_client_wants_pump(load_conn *conn);
/* Sends the waiting frames. True: there are new ones. */
bool load_client_pump(load_reactor *reactor);

/*
 * Events of a connection: it is up, bytes came, its peer will send no more, there is room for output
 * again, it has ended (which frees it).
 */
void load_client_up(load_conn *conn);
void load_client_data(load_conn *conn, const char *bytes, size_t length);
void load_client_eof(load_conn *conn);
void load_client_drained(load_conn *conn);
void load_client_closed(load_conn *conn);

/* ---- conn.c ---- */

/* Makes a connection to the plan's place; NULL: none is possible. Its events go to client.c. */
load_conn *load_conn_new(load_reactor *reactor);
/* Called from closed on. */
void load_conn_free(load_conn *conn);

/* ---- engine.c ---- */

/* The first answer of all, or a failure that all requests would share: may stop the run. */
void load_engine_answered(load_reactor *reactor, unsigned status);
/* Takes one of plan->total requests, which then must be sent; false: all are taken. Any of the threads. */
bool load_engine_take(load_reactor *reactor);
/* All of plan->total are taken. */
bool load_engine_is_spent(const load_reactor *reactor);
/* A TLS handshake failed; why: as weir_tls_error. */
void load_engine_tls_failed(load_reactor *reactor, const char *why);

/* ---- reactor.c ---- */

int load_reactor_init(load_reactor *reactor, struct load_engine *engine, const load_plan *plan,
		      unsigned number);
void load_reactor_fini(load_reactor *reactor);
/* The main function of its thread. stop: shared; set by others, who then wake the loop. */
void load_reactor_run(load_reactor *reactor, const atomic_bool *stop);

#endif
