/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SHARES_H
#define WEIR_HTTP_SHARES_H

/*
 * What the clients of one loop hold, by address (IPv6: by /64), so that no client can use up what all need.
 *
 * A client may hold as much as it likes while there is enough. A resource is scarce once three quarters of it
 * are in use. While it is scarce, and other addresses have connections on the loop, an address that holds its
 * share, or an equal part if addresses are few, gets no more of it. So a lone client, or many behind one
 * address, lose nothing while nobody else needs the resource. Who holds fewer than four of something is never refused one.
 *
 * What an address holds on all loops is known to within four for each loop: a loop adds its part to the sums when it
 * has changed by that much. Two addresses in 4096 may share a sum, and are then taken for one. The memory of gathered
 * bodies is judged by each loop for itself.
 *
 * Clients without an address (Unix sockets) and trusted proxies are not counted; behind a trusted proxy the
 * requests are counted for the client that the proxy names.
 *
 * Threads: the loop's; the sums are atomic. There are no more holders than connections and requests.
 */

#include <stdbool.h>
#include <stdint.h>
#include <weir/http.h>

#include "base/siphash.h"

#define WEIR_SHARE_BUCKETS 4096u

typedef struct weir_http_loop weir_http_loop;
typedef struct weir_http_conn weir_http_conn;

/* What is counted over all loops. */
typedef enum weir_share_kind {
	WEIR_SHARE_CONNECTIONS,
	WEIR_SHARE_REQUESTS, /* in progress */
	WEIR_SHARE_PLACES,   /* of these, at a backend */
	WEIR_SHARE_KINDS,
} weir_share_kind;

/* The sums of a server. It may outlive the server, as its loops' shares may. */
typedef struct weir_share_sums {
	_Atomic uint32_t refs;
	_Atomic uint32_t of[WEIR_SHARE_KINDS][WEIR_SHARE_BUCKETS];
	weir_siphash_key key;
} weir_share_sums;

/* One address. */
typedef struct weir_holder {
	struct weir_holder *next; /* in its bucket */
	uint64_t hash;
	weir_http_conn *conns;            /* its connections, newest first */
	uint32_t here[WEIR_SHARE_KINDS];  /* on this loop */
	uint32_t added[WEIR_SHARE_KINDS]; /* as it is in the sums */
	size_t bytes;                     /* of bodies that are being gathered */
	uint32_t refs;                    /* connections and requests that point here */
} weir_holder;

typedef struct weir_share_table {
	weir_share_sums *sums; /* a reference */
	double share;
	uint32_t requests_most; /* on all loops */
	uint32_t loops;
	uint32_t count;        /* holders */
	uint32_t requests;     /* in progress, of all */
	weir_holder *heaviest; /* the address with most connections, as far as is known; may be NULL */
	weir_holder **buckets; /* WEIR_SHARE_BUCKETS of them; NULL: nobody has come yet */
} weir_share_table;

/* NULL: out of memory. */
weir_share_sums *weir_share_sums_new(void);
void weir_share_sums_unref(weir_share_sums *sums);

/* Limits have their defaults filled in; takes a reference to the sums. */
void weir_shares_init(weir_share_table *shares, weir_share_sums *sums, const weir_http_limits *limits,
		      uint32_t loops);
/* Others from now on; what is held stays. */
void weir_shares_limit(weir_share_table *shares, const weir_http_limits *limits);
/* Frees all holders; nothing may use them any more. */
void weir_shares_fini(weir_share_table *shares);

/* The holder of this address, with a reference for the caller; NULL: it has none, or out of memory. */
weir_holder *weir_shares_find(weir_share_table *shares, const struct sockaddr *client);
/* Nobody refers to it any more. */
void weir_shares_free(weir_share_table *shares, weir_holder *holder);
/* Drops a reference; frees the holder with the last one. */
void weir_shares_drop(weir_share_table *shares, weir_holder *holder);

/* Brings the sum of all loops up to date. */
void weir_shares_add_part(weir_share_table *shares, weir_holder *holder, weir_share_kind kind);
/* Changes of a loop's part that the sums need not know; and who holds fewer is never refused. */
#define WEIR_SHARE_STEP 4

/* The address has one more of this kind, or one fewer. */
static inline void weir_shares_count(weir_share_table *shares, weir_holder *holder, weir_share_kind kind,
				     int by)
{
	holder->here[kind] += (uint32_t)by;
	/* between -STEP and STEP */
	if (__builtin_expect(holder->here[kind] - holder->added[kind] + WEIR_SHARE_STEP - 1 >
				     2 * (WEIR_SHARE_STEP - 1),
			     0))
		weir_shares_add_part(shares, holder, kind);
}

/* How many it has, on all loops. */
uint32_t weir_shares_held(const weir_share_table *shares, const weir_holder *holder, weir_share_kind kind);
/*
 * Whether an address that holds `held` of `most` may not have more. used of used_most are in use, by all; this loop's
 * or all loops'. most 0: no bound, so it may.
 */
bool weir_shares_over(const weir_share_table *shares, uint64_t held, uint64_t most, uint64_t used,
		      uint64_t used_most);

/*
 * A connection's client is known: counts it. If connections are scarce, the one that has been silent for
 * longest gives way, of an address that holds more than its share. false: this address does, and has no silent
 * one, so the connection is to be closed.
 */
bool weir_shares_admit(weir_http_conn *conn);
/* The connection ends. */
void weir_shares_leave(weir_http_conn *conn);

/* A request begins, for the client of its connection; NULL: not counted. */
static inline void weir_shares_begin(weir_share_table *shares, weir_holder *holder)
{
	shares->requests++;
	if (holder == NULL)
		return;
	holder->refs++;
	weir_shares_count(shares, holder, WEIR_SHARE_REQUESTS, 1);
}

/* Its client is another one, as a trusted proxy says. */
void weir_shares_change(weir_request *request);

/* It ends. */
static inline void weir_shares_end(weir_share_table *shares, weir_holder *holder)
{
	shares->requests--;
	if (holder == NULL)
		return;
	weir_shares_count(shares, holder, WEIR_SHARE_REQUESTS, -1);
	if (__builtin_expect(--holder->refs == 0, 0))
		weir_shares_free(shares, holder);
}

/*
 * Whether its address, which is known, has its share of the places in the stage's queue, which are scarce. Requests that
 * its stage works on count as well: they have waited there.
 */
bool weir_shares_fill_queue(const weir_request *request, const weir_stage *stage);

/* From this part on a resource is scarce. */
static inline bool weir_shares_is_scarce(uint64_t used, uint64_t most)
{
	return used * 4 >= most * 3;
}

/* Whether there are so many requests, without the one that asks, that some may be refused. */
static inline bool weir_shares_are_scarce(const weir_share_table *shares)
{
	return weir_shares_is_scarce((uint64_t)(shares->requests - 1) * shares->loops, shares->requests_most);
}

/*
 * Whether there are too many requests at once, in all or, while they are scarce, of this address. Never,
 * if they are not scarce.
 */
bool weir_shares_refuse(const weir_request *request);

#endif
