/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_H
#define WEIR_NET_TRANSMIT_H

/*
 * Decides which connection may send how much now. A crowded uplink has a queue; if it is held here instead of
 * in the network, what is nearly finished can go first (docs/transmit.md).
 *
 *	layers above ──output──▶ connection ──offer──▶ lane (one a loop: a heap by key) ──chunk──▶ socket
 *	                                                   │ takes tokens
 *	                                                   ▼
 *	                                               budget (one: the uplink's rate)
 *
 * A connection is scheduled if its owner says so (weir_conn_schedule). Others, and all of them with the
 * policy `fair`, send at once: the price is one test of a flag.
 *
 * The key of a connection is ln(bytes left of its answer) + arrival / ageing; the smallest goes first. The
 * bytes left are those that wait in the connection's output and those that its owner says will follow
 * (weir_conn_ops.left). A key changes only when something was sent, so the order in the heap is static
 * although everything ages. With `classes` the class comes before the key.
 *
 * One order over all threads. Each lane publishes its smallest key. A lane takes tokens for its first
 * connection as soon as there is no debt if no other lane has a smaller key. Otherwise it takes them only
 * when half of the burst is left over. So the first in the order goes first whatever its thread; and if that
 * thread is busy with something else, the uplink idles for at most a millisecond before others go on, and
 * that time is not lost, since credit is kept for two. Keys are read without a lock and may be a little old:
 * then two neighbours in the order change places for one chunk.
 *
 * Invariants
 * 1. A connection is in its lane's heap only while it has output, is not dead, and the socket has room
 *    (it is not SENDING). It has a place from when it first waits until what it has sent has arrived.
 * 2. What is handed to a socket is charged once: payload, headers of its segments, what is repeated.
 *    New connections are charged for the packets that open and close them.
 * 3. While a connection waits for its turn, its time without progress does not count.
 *
 * Threads: weir_transmit is shared and lock-free, except for the estimate, which the thread steps that first
 * comes to the end of an interval. A lane and its places belong to their loop's thread.
 */

#include <stddef.h>
#include <weir/metric.h>
#include <weir/net.h>

#include "net/transmit_budget.h"
#include "net/transmit_estimate.h"

struct weir_net;

typedef struct weir_transmit weir_transmit;
typedef struct weir_transmit_lane weir_transmit_lane;

/* How connections are ordered. */
typedef struct weir_transmit_policy {
	const char *name;
	/* The order: smaller goes first. NULL: no order, the kernel sends as it likes. */
	double (*key)(uint64_t left, double age, unsigned klass);
	bool bands; /* the kernel orders packets by the priority that it is told for each socket */
} weir_transmit_policy;

/* By name: fair, srpt, classes, kernel; ended by a policy without a name. The first is fair. */
extern const weir_transmit_policy weir_transmit_policies[];

typedef struct weir_transmit_options {
	const weir_transmit_policy *policy;
	uint64_t uplink_bytes_per_s; /* 0: estimated */
	uint64_t ageing_ns;          /* 0: 30 s */
	/*
	 * For `kernel`; they cannot be changed later. priority: SO_PRIORITY for an answer with so many bytes left; plain: one that needs
	 * no privilege, since the kernel has refused the other. observe: the size of an answer that begins;
	 * may be NULL. Any thread.
	 */
	int (*priority)(void *arg, uint64_t left, bool plain);
	void (*observe)(void *arg, uint64_t bytes);
	void *bands_arg;
} weir_transmit_options;

/* Sizes by which what waits is counted: up to 4 KB, 32 KB, 256 KB, 2 MB, and more. */
#define WEIR_TRANSMIT_SIZES 5

typedef struct weir_transmit_stats {
	const char *policy, *uplink, *phase; /* static texts: how, "known" or "auto", of the estimate */
	const char *why;                     /* a sentence: why it is so */
	uint64_t rate_bytes_per_s;           /* at which it sends now; 0: no limit */
	uint64_t uplink_bytes_per_s;         /* what the uplink is believed to carry; 0: unknown */
	uint64_t waiting;                    /* connections that wait for their turn */
	uint64_t size[WEIR_TRANSMIT_SIZES];  /* of these, by what is left of their answers */
	uint64_t left_bytes;                 /* of these, together */
	uint64_t sent_bytes;                 /* on the wire, by scheduled connections */
	uint64_t repeated_bytes;
	uint64_t chunks;   /* sent in turn */
	uint64_t overtook; /* of these: by a connection that came after another that still waits */
	uint64_t probes, back_offs;
} weir_transmit_stats;

/* Rows for the struct above. */
extern const weir_metric weir_transmit_metrics[];

/* Any one thread. -EINVAL with weir_error, -ENOMEM. */
int weir_transmit_new(const weir_transmit_options *options, weir_transmit **ret_transmit);
/*
 * Changes policy, rate and ageing. What waits is put into the new order by its thread when it next sends. A
 * connection that is not scheduled is from its next answer on, and with `fair` one that is scheduled is not
 * any more when nothing of it waits. An estimate begins anew. One thread at a time. -EINVAL with weir_error:
 * nothing has changed.
 */
int weir_transmit_change(weir_transmit *transmit, const weir_transmit_options *options);
/* Drops the owner's reference; loops have theirs. NULL is ignored. */
void weir_transmit_unref(weir_transmit *transmit);
/* Any thread. */
void weir_transmit_read(weir_transmit *transmit, weir_transmit_stats *ret_stats);
/* What has been learnt, as text for a successor; false: nothing. Any thread. */
bool weir_transmit_save(weir_transmit *transmit, char *text, size_t size);
/* Goes on from there. Called before the first connection. What cannot be read is ignored. */
void weir_transmit_load(weir_transmit *transmit, const char *text);

/* ---- the loop's thread ---- */

/*
 * From now on the connection sends in its turn. Called in its open call. It stays as it is if the policy is
 * `fair`, if it is no TCP connection, or if there is no memory.
 */
void weir_conn_schedule(weir_conn *conn, weir_transmit *transmit);
/* An answer begins, by the order in force. The class, for `classes`, is that of what is written from now on. */
void weir_conn_begin_answer(weir_conn *conn, weir_transmit *transmit, unsigned klass);
/* Whether it sends in its turn. */
bool weir_conn_is_scheduled(const weir_conn *conn);
/* Whether it has something to send and waits for its turn. */
bool weir_conn_waits_turn(const weir_conn *conn);
/* Whether it is one of those that wait for their turn, because the uplink's rate is known or estimated. */
bool weir_conn_is_paced(const weir_conn *conn);
/*
 * A layer above that has several answers to choose from should not have more than this many bytes waiting
 * here: what is here cannot be overtaken. drained is called when less waits.
 */
size_t weir_conn_ahead(const weir_conn *conn);
/* The key of one of several answers of a paced connection, to choose by; the smaller first. */
double weir_conn_key(const weir_conn *conn, uint64_t left, uint64_t since_ns, unsigned klass);

#endif
