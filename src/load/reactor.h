/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_REACTOR_H
#define WEIR_LOAD_REACTOR_H

/*
 * The inside of a run, for src/load only: a thread with a loop, its share of users and connections, its tally.
 *
 * A session is a user on its way: it thinks (its timer runs), waits for a connection (in the queue `waiting`), or has a request under way (its exchange is set).
 *
 *	thinks ──due──▶ has an exchange ──answer, failure, time is up──▶ thinks, or is over
 *	           └──▶ waits ──a connection has room──▶ has one
 *
 * An exchange is one request and its answer on a connection: one at a time with HTTP/1, up to `streams` with HTTP/2. It belongs to the connection for good, and is spare between two requests.
 *
 * A connection is CONNECTING or shaking hands (HANDSHAKE) for the sessions that wanted it, UP, or DYING, with closed to come. It has room while it may take one more request. One that may not take any
 * (it was told to close, or has made --per-connection) is spent, and is closed when its last exchange is over.
 *
 * Invariants
 *	1. exchange->session and session->exchange point at each other, or both are NULL. conn->keeper and session->conn too: a user who keeps an idle connection has no exchange.
 *	2. A session that waits is in the queue and has no exchange. Nobody waits while a connection has room.
 *	3. A connection that is not DYING has an exchange under way, a keeper, or is in the list of those with room.
 *	4. `open` counts the requests that were tallied as sent and not yet as ended.
 *	5. Times here are those of the loop's clock; the tally is told times since measure_ns.
 *
 * Threads: all of it is the reactor's thread's, but for what is marked shared.
 */

#include <pthread.h>

#include <weir/loop.h>

#include "base/clock.h"
#include "load/bytes.h"
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

/* Output of a connection that waits; frames of HTTP/2 are written up to half of it. */
#define LOAD_OUTPUT_BYTES (64u << 20)

/* What came of an attempt. */
typedef struct load_outcome {
	load_end end;
	load_error error;
	unsigned status; /* 0: no answer */
	uint32_t retry_after_s;
	uint64_t first_byte_ns, ended_ns, bytes;
	const load_kept *kept; /* of the answer; NULL: nothing was kept */
} load_outcome;

struct load_session {
	load_session *next, **link_in; /* in the queue of those that wait; link_in NULL: it is not */
	load_session *all_next, **all_link;
	load_reactor *reactor;
	load_exchange *exchange; /* under way */
	load_conn *conn;         /* that it keeps while there is none */
	load_user user;
	const load_form *form;
	weir_span target, cookies;
	uint64_t meant_ns;
	uint64_t due_ns;  /* of this attempt: the first is due when it is meant to be sent */
	uint32_t attempt; /* 0: the first */
	uint32_t answers; /* of a closed user that were ok and counted */
	bool counted;     /* meant to be sent after the warm-up */
	bool sent;        /* and told to the tally */
	weir_timer timer; /* a think, a back-off, or the patience of one who waits */
};

struct load_exchange {
	load_stream stream; /* first */
	load_conn *conn;
	load_session *session; /* NULL: spare */
	load_exchange *next;   /* of the connection's */
	load_exchange *spare;  /* the next spare one */
	uint64_t deadline_ns;
	bool impatient; /* it is the user's patience that ends then */
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
	weir_link link; /* first */
	load_reactor *reactor;
	load_session *keeper;
	load_conn *next, **link_in; /* in the list of those with room; link_in NULL: it is not */
	uint64_t opened_ns;
	uint64_t silent_ns; /* the first request since something came; 0: none */
	load_exchange *exchanges, *spare;
	unsigned under_way;
	uint32_t made; /* requests */
	uint8_t state;
	bool spent;
	load_h2 *h2;                     /* NULL: HTTP/1 */
	load_conn *pump_next, **pump_in; /* has frames to send */
	load_exchange first;             /* others are the pool's */
};

struct load_reactor {
	/* const after init */
	const load_plan *plan;
	struct load_engine *engine;
	unsigned number, users, conns_max;
	unsigned streams;    /* requests under way on a connection, at most */
	bool keeps;          /* a user keeps its connection: closed, and there are enough */
	uint32_t kept_bytes; /* of bodies */
	bool shows;          /* answers are shown to users */
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
	load_conn *roomy; /* the last used first */
	load_conn *pump;  /* with frames of HTTP/2 that wait to be sent, together, before the thread sleeps */
	unsigned users_begun, conns, connecting, sessions, source;
	uint64_t open;
	uint64_t second_ns; /* when the second that is counted in ends */
	uint64_t last_ns;   /* the last answer */
	bool ending;        /* users whose answer has come do not go on */
	bool stopped;       /* nothing is sent any more */
	pthread_t thread;

	load_tally tally; /* shared: see load/tally.h */
	atomic_bool over; /* shared: the thread has nothing more to do; tally.open and last_ns are final */
};

static inline uint64_t load_now(load_reactor *reactor)
{
	return weir_clock_now(reactor->clock);
}

/* ---- session.c ---- */

/* A user comes: its first request is due at at_ns. number: of the arrival. */
void load_session_begin(load_reactor *reactor, uint64_t at_ns, uint64_t number);
/* It waits for a connection: as long as it is patient. */
void load_session_waits(load_session *session);
/* The request has a connection, or one that is being made for it: the time that takes is not the generator's. */
void load_session_sent(load_session *session, uint64_t now_ns);
/* The attempt is over, and the session has no request under way (it may keep an idle connection). The session may be gone afterwards. */
void load_session_over(load_session *session, const load_outcome *outcome);
void load_session_free(load_session *session);

/* ---- exchange.c ---- */

/* One of the connection's that is spare, or another; NULL: no memory. */
load_exchange *load_exchange_take(load_conn *conn);
/* The session's request is the exchange's from now on: the time for it runs. */
void load_exchange_pair(load_exchange *exchange, load_session *session, uint64_t now_ns);
/* Sends the request: the connection is up. */
void load_exchange_start(load_exchange *exchange);
/* It is spare again, and its session, which is returned, has none. What the session does next is the caller's affair. */
load_session *load_exchange_part(load_exchange *exchange);
/* The answer has come; alone: nothing came after it. */
void load_exchange_answered(load_exchange *exchange, bool alone);
/* The attempt failed by itself: the connection lives on if it can. */
void load_exchange_failed(load_exchange *exchange, load_end end, load_error error);
/* With the connection. */
void load_exchange_fini(load_exchange *exchange);

/* ---- client.c ---- */

/* Sends the session's request: on its own connection, one that has room, or a new one; or else has it wait. */
void load_client_send(load_session *session);
/* Takes it out of the queue of those who wait, if it is there. */
void load_client_unwait(load_session *session);
/* Gives connections to those who wait, and makes new ones, as far as that may be. */
void load_client_serve(load_reactor *reactor);
/* An exchange of the connection is over; session: whose it was, who may keep the connection (NULL: nobody may). */
void load_client_settle(load_conn *conn, load_session *session);
/* Closes a connection that has no exchange under way. */
void load_client_drop(load_conn *conn);
/* Those under way have failed, all for the same reason; the connection is of no use. */
void load_client_fail(load_conn *conn, load_error error);
/* The session lets go of its connection, or of its request if one is under way. */
void load_client_part(load_session *session);

/* The connection has frames to send. */
void load_client_wants_pump(load_conn *conn);
/* Sends the frames that wait. True: there are others by now. */
bool load_client_pump(load_reactor *reactor);

/* What happens to a connection: it is up, bytes came, its peer will send no more, there is room for output again, it has ended (and is freed by this). */
void load_client_up(load_conn *conn);
void load_client_data(load_conn *conn, const char *bytes, size_t length);
void load_client_eof(load_conn *conn);
void load_client_drained(load_conn *conn);
void load_client_closed(load_conn *conn);

/* ---- conn.c ---- */

/* One that is being made, to the plan's place; NULL: none can be had. What happens to it is told to client.c. */
load_conn *load_conn_new(load_reactor *reactor);
/* From closed on. */
void load_conn_free(load_conn *conn);

/* ---- engine.c ---- */

/* The first answer of all, or a failure that all requests would share: may stop the run. */
void load_engine_answered(load_reactor *reactor, unsigned status);

/* ---- reactor.c ---- */

int load_reactor_init(load_reactor *reactor, struct load_engine *engine, const load_plan *plan,
		      unsigned number);
void load_reactor_fini(load_reactor *reactor);
/* The whole of its thread. stop: shared; set by others, who then wake the loop. */
void load_reactor_run(load_reactor *reactor, const atomic_bool *stop);

#endif
