/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_PRIV_H
#define WEIR_NET_TRANSMIT_PRIV_H

/* The internals of the transmit scheduler: transmit.c (what is shared), transmit_lane.c, transmit_watch.c. */

#include <pthread.h>

#include "net/conn_priv.h"
#include "net/transmit.h"
#include "net/transmit_heap.h"

#define WEIR_TRANSMIT_LANES 256

/* Bytes on the wire besides the payload: for each segment (Ethernet, IP, TCP with timestamps), and for the
 * packets that open and close a connection. */
#define WEIR_TRANSMIT_HEADERS 66u
#define WEIR_TRANSMIT_OPENING 206u
#define WEIR_TRANSMIT_SEGMENT 1448u /* until the kernel tells the real one */

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

struct weir_transmit {
	/* const after init */
	weir_transmit_options options;
	uint64_t began_ns;

	/* any thread */
	_Atomic uint32_t refs;
	_Alignas(64) weir_transmit_budget budget;
	_Atomic bool limited;     /* the budget counts */
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
	 * Bytes on the wire that are paid for and not sent yet, at most a chunk and only while the heap is empty.
	 * While the uplink has room, most small answers are sent from them and touch nothing that is shared.
	 */
	uint64_t prepaid;
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
	return atomic_load_explicit(&transmit->limited, memory_order_relaxed);
}

/* transmit.c: sends at this rate from now on; 0: no limit. */
void weir_transmit_pace(weir_transmit *transmit, double bytes_per_s);
weir_transmit *weir_transmit_ref(weir_transmit *transmit);

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
