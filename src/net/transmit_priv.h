/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_PRIV_H
#define WEIR_NET_TRANSMIT_PRIV_H

/*
 * The internals of the transmit scheduler: transmit.c (what is shared), transmit_conn.c (single connections),
 * transmit_lane.c (those that wait), transmit_watch.c (what the kernel tells).
 */

#include <pthread.h>

#include "net/conn_priv.h"
#include "net/transmit.h"
#include "net/transmit_heap.h"

#define WEIR_TRANSMIT_LANES 256

/* Bytes on the wire besides the payload: for each segment (Ethernet, IP, TCP with timestamps), and for the
 * packets that open and close a connection. */
#define WEIR_TRANSMIT_HEADERS 66u
#define WEIR_TRANSMIT_OPENING 206u
#define WEIR_TRANSMIT_SEGMENT WEIR_TRANSMIT_CHUNK_LEAST /* until the kernel tells the real one */

/* No lane waits. Keys are positive, so that their bits have the same order as the numbers. */
#define WEIR_TRANSMIT_NOBODY UINT64_MAX

/* What a lane shows to the other threads. Written by its own thread only. */
typedef struct weir_transmit_face {
	_Alignas(64) _Atomic uint64_t best; /* the bits of its smallest key */
	/* of the last interval */
	_Atomic uint64_t seen_ns; /* when it ended */
	_Atomic uint64_t taken_per_s, delivered_per_s;
	_Atomic uint32_t progressed, delayed, held, windowed;
	_Atomic bool busy, blocked;
	_Atomic uint64_t rtt_ns;
	/* counts */
	_Atomic uint64_t waiting, left_bytes, sent_bytes, repeated_bytes, chunks, overtook;
	_Atomic uint64_t size[WEIR_TRANSMIT_SIZES];
} weir_transmit_face;

/* What becomes of a scheduled connection's output. */
enum weir_transmit_way {
	WEIR_TRANSMIT_AT_ONCE, /* there is no limit */
	WEIR_TRANSMIT_IN_TURN, /* the budget counts */
	WEIR_TRANSMIT_IN_BAND, /* the kernel orders packets */
};

struct weir_transmit {
	/* const after init */
	int (*priority)(void *arg, uint64_t left, bool plain);
	void (*observe)(void *arg, uint64_t bytes);
	void *bands_arg;
	uint64_t began_ns;

	/*
	 * The order in force. Written under lock, the version last. Read by any thread: one that reads them while
	 * they change makes one key of both, and makes it again when it sees the version.
	 */
	_Atomic(const weir_transmit_policy *) policy;
	_Atomic uint64_t uplink_bytes_per_s, ageing_ns;
	_Atomic uint32_t version; /* from 1 on */

	/* any thread */
	_Atomic uint32_t refs;
	_Alignas(64) weir_transmit_budget budget;
	_Atomic uint32_t way;     /* enum weir_transmit_way */
	_Atomic uint32_t chunk;   /* bytes that a connection sends at a time */
	_Atomic uint64_t step_ns; /* when the estimate is stepped next */
	_Atomic uint64_t interval_ns;
	_Atomic uint32_t lanes;   /* faces in use; they are not given back */
	weir_transmit_face *face; /* WEIR_TRANSMIT_LANES of them */

	/* under lock */
	pthread_mutex_t lock;
	weir_transmit_estimate estimate;
	uint64_t probes, back_offs;
};

/* A connection that has, or had, to wait. It is kept until what it has sent has arrived. */
typedef struct weir_transmit_place {
	weir_transmit_node node; /* first */
	weir_conn *conn;
	struct weir_transmit_place *next, **link; /* in the lane's list */
	uint64_t since_ns, left;
	uint32_t segment; /* bytes */
	uint32_t taken;   /* io_uring: bytes that are being sent, and paid for */
	uint8_t size;     /* index by what was left when it was queued */
	bool queued;      /* in the heap */
	bool moved;       /* has sent something since the last look */
	bool empty;       /* its output was sent; it stays until the network has delivered it */
	bool blocked;     /* the socket had no room at the last look */
	/* at the last look */
	uint64_t outstanding, acked, repeated, window_us;
} weir_transmit_place;

struct weir_transmit_lane {
	weir_transmit *transmit;
	struct weir_net *net;
	weir_transmit_face *face;
	weir_transmit_heap heap;
	weir_transmit_place *places;
	weir_pool pool;
	weir_deferred run;
	bool run_queued;
	bool plain; /* the kernel has refused priorities that need a privilege */
	/*
	 * Bytes on the wire that are paid for and not sent yet, at most a chunk; 0 while something is in the heap.
	 * While the uplink has room, most small answers are sent from them and touch nothing that is shared.
	 */
	uint64_t prepaid;
	uint32_t version; /* of the order that the heap's keys are from */
	weir_timer turn_timer, look_timer;
	bool emptied;          /* the heap was empty at some time since the last look */
	uint64_t look_ns;      /* time of the last look */
	uint64_t looked_sent;  /* sent_bytes then */
	uint64_t looked_total; /* what was under way then */
};

/* Bytes on the wire for so many bytes of payload. */
static inline uint64_t weir_transmit_wire(uint64_t bytes, uint32_t segment)
{
	uint64_t segments = bytes <= segment ? bytes > 0 : (bytes + segment - 1) / segment;
	return bytes + segments * WEIR_TRANSMIT_HEADERS;
}

/* Adds to a number that only this thread writes. */
static inline void weir_transmit_add(_Atomic uint64_t *to, uint64_t by)
{
	atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + by, memory_order_relaxed);
}

static inline bool weir_transmit_is_limited(const weir_transmit *transmit)
{
	return atomic_load_explicit(&transmit->way, memory_order_relaxed) == WEIR_TRANSMIT_IN_TURN;
}

static inline const weir_transmit_policy *weir_transmit_policy_of(const weir_transmit *transmit)
{
	return atomic_load_explicit(&transmit->policy, memory_order_relaxed);
}

/* The configured rate; 0: there is none. */
static inline uint64_t weir_transmit_known(const weir_transmit *transmit)
{
	return atomic_load_explicit(&transmit->uplink_bytes_per_s, memory_order_relaxed);
}

/* Whether the rate has to be estimated. */
static inline bool weir_transmit_estimates(const weir_transmit *transmit)
{
	return weir_transmit_policy_of(transmit)->key != NULL && weir_transmit_known(transmit) == 0;
}

/* transmit.c: sends at this rate from now on; 0: no limit. Under lock. */
void weir_transmit_pace(weir_transmit *transmit, double bytes_per_s);
weir_transmit *weir_transmit_ref(weir_transmit *transmit);
/* The key of an answer by the order in force. */
double weir_transmit_key(const weir_transmit *transmit, uint64_t left, uint64_t since_ns, unsigned klass);

/* ---- transmit_conn.c ---- */

/* The bytes of the output, and of files in it. */
static inline uint64_t weir_transmit_output(const weir_conn *conn)
{
	return (uint64_t)((int64_t)conn->output.bytes + conn->output.more);
}

/* What is left of its answer: in the output, and what its owner says will follow. */
weir_conn_left weir_transmit_left(weir_conn *conn, uint64_t since_ns);
/* The kernel orders packets: tells it how much is left, and sends everything. */
void weir_transmit_send_in_band(weir_transmit_lane *lane, weir_conn *conn);

/* ---- transmit_lane.c ---- */

/* The lane of a net; NULL: out of memory, or there are too many loops. */
weir_transmit_lane *weir_transmit_lane_of(struct weir_net *net, weir_transmit *transmit);
void weir_transmit_lane_free(weir_transmit_lane *lane);

/* ---- transmit_watch.c ---- */

/* Begins to look at what the kernel tells, if it does not yet. */
void weir_transmit_watch(weir_transmit_lane *lane);
void weir_transmit_watch_init(weir_transmit_lane *lane);
/* A connection has got a place: learns its segment, bounds what it has unsent. */
void weir_transmit_watch_place(weir_transmit_lane *lane, weir_transmit_place *place);

#endif
