/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SERVER_H
#define WEIR_HTTP_SERVER_H

/*
 * A server: its listeners, its share of each loop, its connections.
 *
 * Lifetimes. A connection ends with its socket. A request may outlive its connection, and even the server,
 * while a stage or another thread owns it. So requests hold references to their loop's share, and the last
 * one frees it once the server is gone.
 *
 * When a loop ends because its world has stopped, requests that others own remain. From then on (`over`)
 * whoever answers such a request frees it, under the lock.
 *
 * Threads: as grouped below. Only answers from other threads take the lock of a loop's share; the usual path
 * of a request does not.
 */

#include <pthread.h>
#include <weir/http.h>
#include <weir/loop.h>

#include "http/h2_memory.h"
#include "http/hammer.h"
#include "http/recent_fields.h"
#include "http/reject.h"
#include "http/request.h"
#include "http/self.h"
#include "http/shares.h"
#include "log/log.h"
#include "loop/loop.h"
#include "net/pool.h"
#include "tls/link.h"

#define WEIR_HTTP_LISTENERS_MAX 64
#define WEIR_HTTP_OLD_TLS       16
#define WEIR_HTTP_SERVER_MOST   128

typedef struct weir_http_listener {
	struct weir_http_listener *next; /* in the list of closed listeners */
	weir_http *http;
	weir_listener *listener;
	weir_tls *tls; /* atomic: a reload replaces it */
	bool http2, proxy, hops;
	uint32_t connections_most; /* as many as the listener and the process may have */
	uint32_t crowded;          /* with so many open on a thread, silent connections give way; 0: never */
	struct weir_matcher *trusted; /* proxies whose X-Forwarded-For is believed; NULL: none */
	/* under the server's lock: earlier ones, which a thread may still be about to use */
	weir_tls *old_tls[WEIR_HTTP_OLD_TLS];
	unsigned old_tls_at;
	uint32_t old_tls_seen; /* a bit for each that was there at the last weir_http_slim */
} weir_http_listener;

typedef struct weir_http_counts {
	_Atomic uint64_t connections, requests, malformed, rejected, timeouts, gone, handshakes,
		handshakes_failed, h2_connections, upgrades, share_refused, accept_failures, tls_failures;
	_Atomic uint32_t open, tls_open, busy;
	_Atomic uint64_t by_status[WEIR_HTTP_STATUSES];
} weir_http_counts;

struct weir_http_loop {
	/* const after init */
	weir_loop *loop;
	uint16_t index;
	weir_world *world;
	weir_http_limits limits;
	weir_head_limits head_limits;
	size_t request_bytes; /* of a request's block */
	weir_costs *costs;    /* a reference; NULL: costs are not learnt */
	uint32_t link_bytes;  /* bound of a connection's output: that of the limits, plus room for heads */
	bool no_shed_details; /* rejections have no Weir-Shed */
	bool tell_timing;     /* answers have Server-Timing */
	size_t gather_most; /* bytes of bodies that may wait for the rest before their requests are offered */
	bool tell_load;     /* answers have endpoint-load-metrics */
	bool tells;         /* one of them */

	/* the loop's thread */
	weir_http *http; /* NULL: the server is gone */
	weir_table *table;
	weir_costs_recent asked; /* paths of the latest requests */
	uint64_t taught_mix;     /* random state for choosing answers to learn from: base/mix.h */
	weir_http_conn *conns;
	weir_pool conn_pool;
	weir_h2_memory h2;
	weir_request *free;
	uint32_t free_count;
	size_t gathered; /* bytes of such bodies */
	weir_hammer hammer;
	weir_share_table shares;
	bool draining;
	uint64_t date_until_ns;
	char lines[WEIR_HTTP_SERVER_MOST + 64]; /* the fields Server and Date */
	size_t server_length, lines_length;
	weir_ending ending;
	weir_self_copy self; /* of what answers tell about the server */
	weir_shed_head shed_heads[WEIR_SHED_HEADS];
	uint64_t shed_mix; /* random state, advanced by every rejection: base/mix.h */
	weir_recent_fields recent;

	weir_http_counts counts; /* written by the loop's thread, read by any */

	/* the loop's thread until the loop is over, then under lock */
	uint32_t refs; /* live connections and requests, plus the server */

	/* any thread */
	_Atomic(struct weir_transmit *) transmit; /* the order of sending; NULL: everything is sent at once */
	_Atomic(weir_table *) next_table;         /* will become the table */
	weir_post table_post, start_post, drain_post, leave_post, limits_post;

	/* under lock */
	pthread_mutex_t lock;
	weir_request *arrived, **arrived_end; /* requests answered elsewhere */
	weir_ferry *ferries, **ferries_end;   /* orders from elsewhere */
	bool arriving;                        /* arrive_post is posted; it must not be posted twice */
	bool slimming;                        /* the same of slim_post */
	bool over;                            /* the loop has ended */
	weir_post arrive_post, slim_post;
};

typedef enum weir_http_logging {
	WEIR_HTTP_LOG_NOTHING,
	WEIR_HTTP_LOG_SHEDS,
	WEIR_HTTP_LOG_ALL
} weir_http_logging;

struct weir_http {
	weir_http_limits limits; /* changed by orders: weir_http_set_limits */
	/* const after init */
	weir_domain *domain;
	char *server;
	void (*log)(const weir_http_record *record, void *arg);
	void *log_arg;
	_Atomic weir_http_logging logging; /* of what the log is told; any thread may change it */
	bool no_shed_details, tell_timing, tell_load;
	weir_errors *errors;    /* NULL: errors are not logged */
	weir_costs *costs;      /* NULL: costs are not learnt */
	weir_stage *handshakes; /* of TLS; NULL: no listener uses TLS */
	weir_share_sums *sums;  /* of what client addresses hold */
	weir_quota *hammering;  /* rejections to one address; NULL: no rejection waits */

	weir_self self; /* what answers tell about the server; as self.h says */

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct weir_transmit *transmit; /* the order of sending, which loops have, too; NULL: none */
	weir_routes *routes;
	weir_http_loop *loops[WEIR_THREADS_MAX];
	unsigned loop_count;
	weir_http_listener *listeners[WEIR_HTTP_LISTENERS_MAX]; /* by number; NULL: free */
	weir_http_listener *closed;                             /* kept while they have connections */
	unsigned done; /* loops that have carried out the current order */
	bool draining;
};

/*
 * The log of failed handshakes and malformed requests, rate-limited by kind. It must outlive the server and
 * be set before the first listener.
 */
void weir_http_set_errors(weir_http *http, weir_errors *errors);
/*
 * Frees half of the memory that each loop keeps for its next requests, soon. What many requests needed at one time
 * would stay for ever otherwise. Also frees TLS settings that were replaced before the call before this one. One thread
 * at a time.
 */
void weir_http_slim(weir_http *http);
/* What weir_http_options.log, which must be there, is called for from now on. Any thread. */
void weir_http_set_logging(weir_http *http, weir_http_logging logging);
/*
 * Takes the limits that can change while it serves: times but that of output, bodies, requests, shares. What is under way
 * may still go by the old ones. From a thread that is not a reactor.
 */
void weir_http_set_limits(weir_http *http, const weir_http_limits *limits);
/*
 * From now on answers are sent in this order, which must outlive the server. It may be set once, at any time;
 * what it does can be changed later (net/transmit.h). Any one thread.
 */
void weir_http_set_transmit(weir_http *http, struct weir_transmit *transmit);
/* The order of sending; NULL: everything is sent at once. */
static inline struct weir_transmit *weir_http_transmit(const weir_http_loop *loop)
{
	return atomic_load_explicit(&loop->transmit, memory_order_acquire);
}

/* ---- what requests cost: cost.c ---- */

/* Creates the table. 0 or a negative errno, with weir_error. */
int weir_http_make_costs(weir_http *http);
/* The table, valid as long as the server; or NULL. Any thread. */
weir_costs *weir_http_costs(const weir_http *http);
/* The name of the route with this number in the table; false: it does not exist any more. Any thread. */
bool weir_http_route_name(weir_http *http, uint32_t number, char *ret_name, size_t size);

/* ---- sessions: member.c ---- */

typedef struct weir_session_view {
	char name[WEIR_SESSION_TEXT_MAX]; /* "cookie sid" */
	uint64_t idle_ns;
	uint32_t keys;
	weir_sessions_stats stats;
} weir_session_view;

/* The at-th kind of session of the routes in force; false: no more. Any thread. */
bool weir_http_session_at(weir_http *http, uint32_t at, uint64_t now_ns, weir_session_view *ret_view);
/* The same, with a reference to its sessions for the caller, their text and idle time; NULL: no more. */
weir_sessions *weir_http_sessions(weir_http *http, uint32_t at, char *ret_text, size_t size,
				  uint64_t *ret_idle_ns);

/* ---- listeners of a running server: handover.c; any one thread that is not a reactor ---- */

/*
 * Duplicates the listener's sockets for a successor and returns their number. After this, closing the
 * listener leaves connections that wait to be accepted to the successor.
 */
size_t weir_http_fds(weir_http *http, unsigned number, int *ret_fds, size_t most);
/* See weir_listener_set_file. */
int weir_http_set_file(weir_http *http, unsigned number, const weir_listen_file *file,
		       weir_listen_file *ret_before);
/* Accepts no more connections; existing ones continue. The number becomes free. */
void weir_http_close_listener(weir_http *http, unsigned number);
/* The open listener with this number; NULL: there is none. */
weir_http_listener *weir_http_listener_at(const weir_http *http, unsigned number);
/* Frees closed listeners without connections. Not on a reactor thread. */
void weir_http_reap_listeners(weir_http *http);
void weir_http_listener_free(weir_http_listener *listener);
/* Every loop has run a post since the last call: frees the TLS settings that were replaced before it. */
void weir_http_free_old_tls(weir_http *http);

/* ---- connections ---- */

/* What a connection's timer waits for. */
typedef enum weir_http_wait {
	WEIR_WAIT_NOTHING,
	WEIR_WAIT_HANDSHAKE,
	WEIR_WAIT_FIRST, /* the first byte of the first request */
	WEIR_WAIT_HEAD,  /* the rest of a head */
	WEIR_WAIT_BODY,
	WEIR_WAIT_IDLE, /* the next request */
	WEIR_WAIT_GONE, /* its answer; until then a half-closed client is assumed to be there */
} weir_http_wait;

/* What a protocol does in addition to weir_link_ops. */
typedef struct weir_protocol {
	void (*timeout)(weir_http_conn *conn);
	/* The server drains: serves what has come or is on its way, then closes the connection. */
	void (*drain)(weir_http_conn *conn);
	/* Requested by weir_http_conn_later. Called by the loop, not from inside another call. */
	void (*later)(weir_http_conn *conn);
	/* The loop ends: tells the connection's requests that it has gone. `closed` is still called. */
	void (*strand)(weir_http_conn *conn);
	/* When the timer is due; NULL: derived from conn->wait. */
	uint64_t (*deadline)(const weir_http_conn *conn);
} weir_protocol;

enum weir_http_conn_flag {
	WEIR_CONN_LATER = 1 << 0,   /* later is due */
	WEIR_CONN_OVER = 1 << 1,    /* closed was called */
	WEIR_CONN_RUNNING = 1 << 2, /* inside h1's run */
	WEIR_CONN_HALF_CLOSED = 1 << 3,
	WEIR_CONN_LAST = 1 << 4, /* closes after the current answer */
	WEIR_CONN_HELD = 1 << 5, /* reading is paused */
};

struct weir_http_conn {
	weir_link link; /* first: it is the connection's user pointer */
	weir_http_loop *loop;
	const weir_http_listener *listener;
	const weir_protocol *protocol;
	weir_http_conn *next, **prev; /* in loop->conns */
	weir_timer timer;
	weir_deferred deferred;
	uint64_t since_ns; /* when the wait began */
	union {
		weir_request *request; /* HTTP/1: the current one */
		void *session;         /* HTTP/2 */
	};
	weir_buf *in; /* bytes not used yet, from in_at on; not shared */
	uint32_t in_at;
	uint32_t requests;
	uint16_t flags;
	uint8_t state; /* the protocol's */
	uint8_t wait;
	weir_client client;
	weir_holder *holder;                      /* of its client; NULL: not counted */
	weir_http_conn *share_next, **share_prev; /* in the holder's list */
};

/* conn.c */
extern const weir_conn_ops weir_http_conn_ops;
/* Whether it is owed no answer: it waits for a request, or for the rest of its head. */
bool weir_http_conn_is_silent(const weir_http_conn *conn);
/* Calls the protocol's later at the end of the loop's turn. */
void weir_http_conn_later(weir_http_conn *conn);
/* Appends bytes to those kept already; false: out of memory, or more than can ever be needed. */
bool weir_http_conn_keep(weir_http_conn *conn, const weir_buf *buf, size_t at, size_t end);
/* Called at the end of a protocol's `closed`. */
void weir_http_conn_free(weir_http_conn *conn);

/* opening.c: everything up to the first byte of a protocol. 0 or a negative errno. */
int weir_http_conn_begin(weir_http_conn *conn);

/* client_errors.c: writes a sentence about this client to the error log. */
void weir_http_tell(const weir_http_loop *loop, const weir_client *client, weir_log_level level,
		    const char *kind, const char *what);
/* Logs malformed or refused input at the debug level; access logs have it too. status 0: no answer. */
void weir_http_tell_refused(const weir_http_loop *loop, const weir_client *client, unsigned status,
			    const char *what);

/* Accepting has stopped for want of descriptors or memory; arg is the listener. */
void weir_http_starved(int error, void *arg);
/* Tells of a connection whose TLS has failed after its handshake, if that is why it ends. */
void weir_http_tell_tls(const weir_http_conn *conn, int why);

/* request_log.c: an access log entry for input that was not a request. */
void weir_http_log_malformed(weir_http_conn *conn, unsigned status, const char *error, uint64_t began_ns);

/* timeouts.c */
void weir_http_wait_init(weir_http_conn *conn);
/* Makes sure that the timer fires no later than the deadline of the wait. */
void weir_http_wait_arm(weir_http_conn *conn);
uint64_t weir_http_wait_deadline(const weir_http_conn *conn);
/* Until when the received bytes satisfy the minimum rate of a body. */
uint64_t weir_http_rate_deadline(const weir_http_limits *limits, const weir_request *request);

static inline void weir_http_wait_for(weir_http_conn *conn, weir_http_wait wait, uint64_t now_ns)
{
	conn->wait = (uint8_t)wait;
	conn->since_ns = now_ns;
	if (wait != WEIR_WAIT_NOTHING)
		weir_http_wait_arm(conn);
}

/* Waits for the next request, without a protocol's own deadline. Usually the timer is early enough. */
static inline void weir_http_wait_idle(weir_http_conn *conn, uint64_t now_ns)
{
	const weir_http_loop *loop = conn->loop;
	conn->wait = WEIR_WAIT_IDLE;
	conn->since_ns = now_ns;
	if (conn->timer.owner == NULL || conn->timer.at_ns - now_ns > loop->limits.idle_ns || loop->draining)
		weir_http_wait_arm(conn);
}

/* h1.c */
extern const weir_link_ops weir_h1_link_ops;
extern const weir_protocol weir_h1_protocol;
/* The connection speaks HTTP/1 from here on. */
void weir_h1_start(weir_http_conn *conn);

/* h2.c: the same for HTTP/2, starting with its preface. 0 or -ENOMEM. */
int weir_h2_start(weir_http_conn *conn);

/* server.c */

/* A condition variable whose timed waits use the monotonic clock. */
void weir_http_init_condition(pthread_cond_t *condition);
/* A loop has carried out the current order. */
void weir_http_carried_out(weir_http *http);

/* drain.c: a connection of a draining loop has closed. Wakes whoever waits for the last one. Home. */
void weir_http_left(weir_http_loop *loop);

/* loop_share.c */

/* A loop's share of a server; NULL: out of memory. */
weir_http_loop *weir_http_loop_new(weir_http *http, weir_loop *loop, uint16_t index);
/* The server drops its reference. Home, or any single thread once the loop is over. */
void weir_http_loop_leave(weir_http_loop *loop);
/* The server's limits, of which the sizes of what is allocated already are as they were. */
void weir_http_loop_limit(weir_http_loop *loop);
/* Drops the reference of a connection or request. Home, or any thread once the loop is over. */
void weir_http_loop_unref(weir_http_loop *loop);
/* The last reference is dropped; the loop is not over. */
void weir_http_loop_free(weir_http_loop *loop);

/* Tells home that something is in the lists of arrivals. Under the lock, and not once the loop is over. */
void weir_http_loop_announce_locked(weir_http_loop *loop);

/* Home. */
static inline void weir_http_loop_ref(weir_http_loop *loop)
{
	loop->refs++;
}

/* Home, while the loop is not over. */
static inline void weir_http_loop_unref_home(weir_http_loop *loop)
{
	if (__builtin_expect(--loop->refs == 0, 0))
		weir_http_loop_free(loop);
}

/* Whether the access log gets requests with this verdict. */
static inline bool weir_http_logs(const weir_http *http, unsigned shed)
{
	return http != NULL && atomic_load_explicit(&http->logging, memory_order_relaxed) >
				       (shed == WEIR_ADMITTED ? WEIR_HTTP_LOG_SHEDS : WEIR_HTTP_LOG_NOTHING);
}

/* Brings the date in `lines` up to date. */
void weir_http_set_date(weir_http_loop *loop, uint64_t now_ns);

/* The fields Server and Date with their CRLFs: lines_length bytes. */
static inline const char *weir_http_lines(weir_http_loop *loop)
{
	uint64_t now_ns = weir_loop_time(loop->loop);
	if (__builtin_expect(now_ns >= loop->date_until_ns, 0))
		weir_http_set_date(loop, now_ns);
	return loop->lines;
}

static inline void weir_http_count(_Atomic uint64_t *count)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* An answer with this status is over. On the loop's thread; 0: there was none. */
static inline void weir_http_count_status(weir_http_loop *loop, unsigned status)
{
	if (status > 0 && status < WEIR_HTTP_STATUSES)
		weir_http_count(&loop->counts.by_status[status]);
}

/* Only one thread may write it. */
static inline void weir_http_gauge(_Atomic uint32_t *gauge, int32_t by)
{
	uint32_t value = atomic_load_explicit(gauge, memory_order_relaxed) + (uint32_t)by;
	atomic_store_explicit(gauge, value, memory_order_relaxed);
}

#endif
