/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_UPSTREAM_PRIV_H
#define WEIR_SENTRY_UPSTREAM_PRIV_H

/*
 * The inside of an upstream's connections.
 *
 *	CONNECTING ──open──▶ HANDSHAKE ──ready──▶ BUSY ◀──call──▶ IDLE
 *	     └────────────── open, without TLS ────▶│               │
 *	     any ──over, failed, aborted, idle for too long────────▶ DYING ──closed──▶ free
 *
 * Invariants
 *	1. A CONNECTING, HANDSHAKE or BUSY connection has a call, and the call has it; others have none. One
	   of HTTP/2 (h2 is set) never has: it has streams (upstream_h2.h), and is never IDLE.
 *	2. Exactly the IDLE ones are in their lane's list.
 *	3. A call's place in its backend is given back by weir_upstream_part only.
 *	4. Callbacks that end a call come after that, when the connection is IDLE or DYING: the code that
 *	   made the callback uses neither call nor connection afterwards.
 *	5. A paused connection delivers nothing: what still comes waits in the stash.
 */

#include "http/h2_memory.h"
#include "net/buf.h"
#include "net/pool.h"
#include "sentry/recent_answers.h"
#include "sentry/upstream.h"
#include "tls/link.h"

enum weir_upstream_state {
	WEIR_UPSTREAM_CONNECTING,
	WEIR_UPSTREAM_HANDSHAKE,
	WEIR_UPSTREAM_BUSY,
	WEIR_UPSTREAM_IDLE,
	WEIR_UPSTREAM_DYING,
};

/* What the next byte from the backend belongs to. */
enum weir_upstream_phase {
	WEIR_PHASE_HEAD,
	WEIR_PHASE_LENGTH,
	WEIR_PHASE_CHUNKS,
	WEIR_PHASE_TRAILERS,
	WEIR_PHASE_TO_END,
	WEIR_PHASE_TUNNEL,
};

/* A head or trailers that came in parts: their bytes so far, and the parser's state. */
typedef struct weir_partial {
	weir_buf *buf;
	weir_head head;
} weir_partial;

typedef struct weir_upstream_lane weir_upstream_lane;
typedef struct weir_upstream_h2 weir_upstream_h2;

struct weir_upstream_conn {
	weir_link link; /* first: the conn's user pointer is both */
	weir_upstream *upstream;
	weir_upstream_lane *lane;
	weir_call *call;
	weir_upstream_h2 *h2;            /* NULL: HTTP/1 */
	weir_upstream_conn *next, *prev; /* of the lane's idle list */
	weir_upstream_conn *all_next, **all_link;

	uint8_t state, phase;
	uint8_t interims;
	bool paused;
	bool request_done; /* the whole request was written */
	bool keep;         /* the answer allows another request */
	bool streams;      /* the answer is a stream of events */
	bool received;     /* a byte came since the call began */
	bool reused;
	bool ended;       /* the backend's end came during a pause: it follows the stash */
	bool taking;      /* inside deliver */
	uint32_t serial;  /* counts partings */
	uint32_t attempt; /* the backend's address being tried */
	uint64_t left;    /* of a body of known length */
	weir_chunks chunks;
	weir_partial *partial;
	weir_buf *head;  /* of the request, until the connection is up */
	weir_buf *stash; /* what came during a pause */
	size_t stash_offset, stash_length;
	uint64_t progress_ns; /* of the last byte, or of the end of the request; IDLE: since when */
	weir_timer timer;
};

/* A backend as one thread sees it. */
struct weir_upstream_lane {
	weir_origin *backend;
	weir_upstream_conn *newest, *oldest; /* idle */
	weir_upstream_h2 *h2;                /* those that take calls */
	struct {
		_Atomic uint64_t calls, failures, connects, reused;
		_Atomic uint32_t idle, open;
		_Atomic uint64_t answers[WEIR_ANSWER_KINDS];
	} counts;                /* written by the thread alone */
	void (*gone)(void *arg); /* not NULL: it is being forgotten */
	void *gone_arg;
};

enum { WEIR_LANES_BLOCK = 8 };
_Static_assert(WEIR_FLEET_MOST % WEIR_LANES_BLOCK == 0, "the last block has the last backend");

struct weir_upstream {
	weir_loop *loop;
	weir_fleet *fleet;
	weir_upstream_limits limits;
	uint64_t
		soonest_ns; /* after progress: no time-out of a connection that is up is sooner; 0: one may be */
	weir_head_limits head_limits;
	weir_buf_pool *bufs; /* the loop's, for output */
	weir_random random;
	weir_pool conns;
	weir_upstream_conn *all;
	uint32_t open;
	weir_head_field *fields; /* of the head being parsed */
	weir_recent_answers recent;
	weir_pool streams; /* calls over HTTP/2 */
	weir_h2_memory h2_memory;
	/* Made when the first call to one of a block is. Most fleets have one, and there may be thousands of upstreams. */
	_Atomic(weir_upstream_lane *) lanes[WEIR_FLEET_MOST / WEIR_LANES_BLOCK];
};

/* Adds; only one thread writes, so no atomic addition is needed. */
#define WEIR_COUNT(atom, by)                                                                       \
	atomic_store_explicit(&(atom), atomic_load_explicit(&(atom), memory_order_relaxed) + (by), \
			      memory_order_relaxed)

/* ---- upstream.c ---- */

/* Separates call and connection, and gives the place back. Returns the call. */
weir_call *weir_upstream_part(weir_upstream_conn *conn);
/* After the parting: keeps the connection for the next call, or closes it. */
void weir_upstream_keep(weir_upstream_conn *conn);
/* Removes an idle connection from its list. */
void weir_upstream_take_idle(weir_upstream_conn *conn);
/* A connection is gone: if it was the last to a backend that is being forgotten, whoever waits is told. */
void weir_upstream_is_left(weir_upstream_lane *lane);

/* ---- upstream_conn.c: making, closing, time ---- */

/* Begins a connection to the lane's backend that has no call yet. 0 or a negative errno. */
int weir_upstream_open_conn(weir_upstream *upstream, weir_upstream_lane *lane, weir_upstream_h2 *h2,
			    weir_upstream_conn **ret_conn);
/* Begins a connection for the call to its lane's backend. 0 or a negative errno. */
int weir_upstream_connect(weir_upstream *upstream, weir_upstream_lane *lane, weir_call *call, weir_buf *head);
/* Makes the timer fire by the earliest deadline. */
void weir_upstream_arm(weir_upstream_conn *conn);

/* The same right after progress. Usually the timer is early enough for whatever it waits for. */
static inline void weir_upstream_arm_now(weir_upstream_conn *conn)
{
	if (conn->timer.owner == NULL || conn->timer.at_ns > conn->progress_ns + conn->upstream->soonest_ns)
		weir_upstream_arm(conn);
}

/* Cuts the connection, which has no call. */
void weir_upstream_cut(weir_upstream_conn *conn, int why);
/* Cuts the connection and tells its call that it failed. */
void weir_upstream_fail(weir_upstream_conn *conn, int error, const char *text);
/* How far a call got on a connection that is not up; on one that is: WEIR_CALL_ANSWER. */
weir_call_step weir_upstream_step(const weir_upstream_conn *conn);
/* Whether a failure is the backend's fault. */
bool weir_upstream_is_to_blame(const weir_call_failure *failure);
/* Sends the request's head over a connection that is up, and tells the call. */
void weir_upstream_begin(weir_upstream_conn *conn, weir_buf *head);

/* That much later; never, if that is too much. */
static inline uint64_t weir_upstream_after(uint64_t from_ns, uint64_t ns)
{
	return ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + ns;
}

/* ---- upstream_body.c: what the backend sends ---- */

/* Events and gRPC: an answer that is silent for as long as nothing happens. */
bool weir_upstream_is_stream(const weir_call_answer *answer);
/* Prepares for the first byte of an answer. */
void weir_upstream_expect(weir_upstream_conn *conn);
void weir_upstream_data(weir_upstream_conn *conn, weir_buf *buf, size_t offset, size_t length);
/* The backend sends no more. */
void weir_upstream_eof(weir_upstream_conn *conn);
/* upstream_pull.c: if the call wants it, what follows these bytes of its body is pulled. */
void weir_upstream_start_pulling(weir_upstream_conn *conn, size_t here);
/* The answer has come to its end, without bytes behind it: the call is over. */
void weir_upstream_finish(weir_upstream_conn *conn);
/* After a resume: delivers the stash, then the end if it came. */
void weir_upstream_go_on(weir_upstream_conn *conn);
/* Releases what it holds of an answer. */
void weir_upstream_forget(weir_upstream_conn *conn);

#endif
