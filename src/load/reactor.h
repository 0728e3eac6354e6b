/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_REACTOR_H
#define WEIR_LOAD_REACTOR_H

/*
 * The inside of a run, for src/load only: a thread with a loop, its share of users and connections, its tally.
 *
 * A session is a user on its way: it thinks (its timer runs), waits for a connection (in the queue `waiting`), or has a request under way (conn is set, and conn->session is it).
 *
 *	thinks ──due──▶ has a connection ──answer, failure, time is up──▶ thinks, or is over
 *	           └──▶ waits ──a connection is free──▶ has one
 *
 * A connection is CONNECTING or shaking hands (HANDSHAKE) for the session that wanted it, BUSY with a request, IDLE (in the list, or kept by a user of a closed run), or DYING, with closed to come.
 *
 * Invariants
 *	1. conn->session and session->conn point at each other, or the session keeps an IDLE connection that has no session.
 *	2. A session that waits is in the queue and has no connection. Nobody waits while a connection is in the idle list.
 *	3. `open` counts the requests that were tallied as sent and not yet as ended.
 *	4. Times here are those of the loop's clock; the tally is told times since measure_ns.
 *
 * Threads: all of it is the reactor's thread's, but for what is marked shared.
 */

#include <pthread.h>

#include <weir/loop.h>

#include "base/clock.h"
#include "http/link.h"
#include "load/bytes.h"
#include "load/h2.h"
#include "load/plan.h"
#include "load/reader.h"
#include "load/tally.h"
#include "net/pool.h"

typedef struct load_reactor load_reactor;
typedef struct load_session load_session;
typedef struct load_conn load_conn;

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
	load_session *next; /* in the queue of those that wait */
	load_session *all_next, **all_link;
	load_reactor *reactor;
	load_conn *conn;
	load_user user;
	const load_form *form;
	weir_span target, cookies;
	uint64_t meant_ns;
	uint64_t due_ns;  /* of this attempt: the first is due when it is meant to be sent */
	uint32_t attempt; /* 0: the first */
	uint32_t answers; /* of a closed user that were ok and counted */
	bool counted;     /* meant to be sent after the warm-up */
	bool sent;        /* and told to the tally */
	weir_timer timer; /* a think, or a back-off */
};

enum load_conn_state {
	LOAD_CONN_CONNECTING,
	LOAD_CONN_HANDSHAKE,
	LOAD_CONN_IDLE,
	LOAD_CONN_BUSY,
	LOAD_CONN_DYING,
};

struct load_conn {
	weir_link link; /* first */
	load_reactor *reactor;
	load_session *session;
	load_conn *next, **link_in; /* in the list of idle ones; link_in NULL: it is not */
	uint64_t opened_ns, first_byte_ns;
	uint64_t deadline_ns; /* of the attempt */
	bool impatient;       /* it is the user's patience that ends then */
	uint8_t state;
	uint32_t made; /* requests */
	weir_timer timer;
	load_reader reader;
	load_h2 *h2; /* NULL: HTTP/1 */
	load_kept *kept;
};

struct load_reactor {
	/* const after init */
	const load_plan *plan;
	struct load_engine *engine;
	unsigned number, users, conns_max;
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
	weir_pool conn_pool, session_pool;
	load_session *all;
	load_session *waiting, **waiting_end;
	load_conn *idle;
	unsigned users_begun, conns, connecting, sessions, source;
	uint64_t open;
	uint64_t second_ns; /* when the second that is counted in ends */
	uint64_t last_ns;   /* the last answer */
	bool ending;        /* users whose answer has come do not go on */
	bool stopped;       /* nothing is sent any more */
	pthread_t thread;

	load_tally tally; /* shared: see load/tally.h */
	/* shared: arrivals that were begun more than a millisecond after they were due, and those that never were */
	_Atomic uint64_t behind, missed;
	atomic_bool over; /* shared: the thread has nothing more to do; tally.open and last_ns are final */
};

static inline uint64_t load_now(load_reactor *reactor)
{
	return weir_clock_now(reactor->clock);
}

/* ---- session.c ---- */

/* A user comes: its first request is due at at_ns. number: of the arrival. */
void load_session_begin(load_reactor *reactor, uint64_t at_ns, uint64_t number);
/* The request has a connection, or one that is being made for it: the time that takes is not the generator's. */
void load_session_sent(load_session *session, uint64_t now_ns);
/* The attempt is over, and the session has no request under way (it may keep an idle connection). The session may be gone afterwards. */
void load_session_over(load_session *session, const load_outcome *outcome);
void load_session_free(load_session *session);

/* ---- client.c ---- */

/* Sends the session's request: on its own connection, an idle one, or a new one; or else has it wait. */
void load_client_send(load_session *session);
/* Makes connections for those who wait, as far as that may be. */
void load_client_serve(load_reactor *reactor);
/* Closes a connection that has no session. */
void load_client_drop(load_conn *conn);
/* The session lets go of its connection, which is cut if a request is under way. */
void load_client_part(load_session *session);

/* What happens to a connection: it is up, bytes came, its peer will send no more, it has ended (and is freed by this). */
void load_client_up(load_conn *conn);
void load_client_data(load_conn *conn, const char *bytes, size_t length);
void load_client_eof(load_conn *conn);
void load_client_closed(load_conn *conn);

/* ---- conn.c ---- */

/* One that is being made, to the plan's place; NULL: none can be had. What happens to it is told to client.c. */
load_conn *load_conn_new(load_reactor *reactor, weir_timer_fn *time_is_up);
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
