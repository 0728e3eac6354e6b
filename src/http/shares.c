/* SPDX-License-Identifier: Apache-2.0 */
#include "http/shares.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "http/server.h"
#include "net/acceptor.h"
#include "rules/match.h"
#include "stage/friends.h"

/* The last connections of a listener are kept for other addresses, even from a lone client. */
#define RESERVE_PART 16u
/* How many connections of an address are looked at for one that can be closed. */
#define LOOKS_MOST 64u

/* ---- holders ---- */

weir_share_sums *weir_share_sums_new(void)
{
	weir_share_sums *sums = weir_mem_zalloc(sizeof(*sums));
	if (sums == NULL)
		return NULL;
	atomic_init(&sums->refs, 1);
	/* Without random numbers the hash can be guessed, and long chains be made; that is no reason not to serve. */
	if (weir_siphash_key_init(&sums->key) != 0)
		sums->key = (weir_siphash_key){0};
	return sums;
}

void weir_share_sums_unref(weir_share_sums *sums)
{
	if (sums != NULL && atomic_fetch_sub(&sums->refs, 1) == 1)
		weir_mem_free(sums);
}

void weir_shares_init(weir_share_table *shares, weir_share_sums *sums, const weir_http_limits *limits,
		      uint32_t loops)
{
	*shares = (weir_share_table){.sums = sums, .loops = loops > 0 ? loops : 1};
	weir_shares_limit(shares, limits);
	atomic_fetch_add(&sums->refs, 1);
}

void weir_shares_limit(weir_share_table *shares, const weir_http_limits *limits)
{
	shares->share = limits->client_share;
	shares->requests_most = limits->requests_at_once;
}

void weir_shares_fini(weir_share_table *shares)
{
	for (uint32_t i = 0; shares->buckets != NULL && i < WEIR_SHARE_BUCKETS; i++) {
		weir_holder *next;
		for (weir_holder *holder = shares->buckets[i]; holder != NULL; holder = next) {
			next = holder->next;
			weir_mem_free(holder);
		}
	}
	weir_mem_free(shares->buckets);
	shares->buckets = NULL;
	weir_share_sums_unref(shares->sums);
	shares->sums = NULL;
}

static weir_holder **bucket_of(const weir_share_table *shares, uint64_t hash)
{
	return &shares->buckets[hash % WEIR_SHARE_BUCKETS];
}

weir_holder *weir_shares_find(weir_share_table *shares, const struct sockaddr *client)
{
	uint8_t key[8];
	size_t length = weir_quota_client_key(client, key);
	if (length == 0)
		return NULL;
	if (shares->buckets == NULL)
		shares->buckets = weir_mem_array(WEIR_SHARE_BUCKETS, sizeof(weir_holder *));
	if (shares->buckets == NULL)
		return NULL;
	uint64_t hash = weir_siphash(&shares->sums->key, key, length);
	weir_holder **bucket = bucket_of(shares, hash), *holder = *bucket;
	while (holder != NULL && holder->hash != hash)
		holder = holder->next;
	if (holder == NULL) {
		holder = weir_mem_zalloc(sizeof(*holder));
		if (holder == NULL)
			return NULL;
		holder->hash = hash;
		holder->next = *bucket;
		*bucket = holder;
		shares->count++;
	}
	holder->refs++;
	return holder;
}

static _Atomic uint32_t *sum_of(const weir_share_table *shares, const weir_holder *holder,
				weir_share_kind kind)
{
	return &shares->sums->of[kind][holder->hash / WEIR_SHARE_BUCKETS % WEIR_SHARE_BUCKETS];
}

void weir_shares_add_part(weir_share_table *shares, weir_holder *holder, weir_share_kind kind)
{
	uint32_t change = holder->here[kind] - holder->added[kind];
	if (change == 0)
		return;
	atomic_fetch_add_explicit(sum_of(shares, holder, kind), change, memory_order_relaxed);
	holder->added[kind] = holder->here[kind];
}

uint32_t weir_shares_held(const weir_share_table *shares, const weir_holder *holder, weir_share_kind kind)
{
	uint32_t sum = atomic_load_explicit(sum_of(shares, holder, kind), memory_order_relaxed);
	return sum + holder->here[kind] - holder->added[kind];
}

void weir_shares_free(weir_share_table *shares, weir_holder *holder)
{
	for (weir_share_kind kind = 0; kind < WEIR_SHARE_KINDS; kind++)
		weir_shares_add_part(shares, holder, kind);
	weir_holder **at = bucket_of(shares, holder->hash);
	while (*at != holder)
		at = &(*at)->next;
	*at = holder->next;
	shares->count--;
	if (shares->heaviest == holder)
		shares->heaviest = NULL;
	weir_mem_free(holder);
}

void weir_shares_drop(weir_share_table *shares, weir_holder *holder)
{
	if (--holder->refs == 0)
		weir_shares_free(shares, holder);
}

/* ---- shares ---- */

/* Two addresses may have a half each, as load balancers do. */
static bool has_its_share(const weir_share_table *shares, uint64_t held, uint64_t most)
{
	double share = fmax(shares->share, 1. / fmax(shares->count, 1));
	return held >= WEIR_SHARE_STEP && (double)held >= share * (double)most;
}

bool weir_shares_over(const weir_share_table *shares, uint64_t held, uint64_t most, uint64_t used,
		      uint64_t used_most)
{
	return most != 0 && shares->share < 1 && shares->count > 1 &&
	       weir_shares_is_scarce(used, used_most) && has_its_share(shares, held, most);
}

/* ---- connections ---- */

static void link_conn(weir_holder *holder, weir_http_conn *conn)
{
	conn->share_next = holder->conns;
	conn->share_prev = &holder->conns;
	if (conn->share_next != NULL)
		conn->share_next->share_prev = &conn->share_next;
	holder->conns = conn;
}

static void unlink_conn(const weir_http_conn *conn)
{
	*conn->share_prev = conn->share_next;
	if (conn->share_next != NULL)
		conn->share_next->share_prev = conn->share_prev;
}

/* Closes the connection of this listener that has been silent for longest, of those looked at. */
static bool close_silent(const weir_holder *holder, const weir_http_listener *listener)
{
	weir_http_conn *oldest = NULL, *conn = holder->conns;
	for (unsigned looks = 0; conn != NULL && looks < LOOKS_MOST; conn = conn->share_next, looks++)
		if (conn->listener == listener && weir_http_conn_is_silent(conn) &&
		    (oldest == NULL || conn->since_ns < oldest->since_ns))
			oldest = conn;
	if (oldest == NULL)
		return false;
	oldest->wait = WEIR_WAIT_NOTHING; /* it is not chosen again before it is gone */
	weir_http_count(&oldest->loop->counts.share_refused);
	weir_conn_abort(oldest->link.conn, -EBUSY);
	return true;
}

static bool make_room(weir_share_table *shares, const weir_http_conn *conn)
{
	const weir_http_listener *listener = conn->listener;
	const weir_holder *own = conn->holder, *heaviest = shares->heaviest;
	uint64_t most = listener->connections_most;
	uint64_t used = weir_listener_connections(conn->link.conn->acceptor->listener);
	bool alone = shares->count<2, reserve = used> most - most / RESERVE_PART;
	if (shares->share >= 1 || !weir_shares_is_scarce(used, most) || (alone && !reserve))
		return true;
	/* The last places are for another address: with none left, nobody would be accepted who could claim his share. */
	if (alone || has_its_share(shares, weir_shares_held(shares, own, WEIR_SHARE_CONNECTIONS), most))
		return close_silent(own, listener) || alone;
	if (heaviest != NULL &&
	    has_its_share(shares, weir_shares_held(shares, heaviest, WEIR_SHARE_CONNECTIONS), most))
		close_silent(heaviest, listener);
	return true;
}

bool weir_shares_admit(weir_http_conn *conn)
{
	weir_http_loop *loop = conn->loop;
	weir_share_table *shares = &loop->shares;
	const struct weir_matcher *trusted = conn->listener->trusted;
	weir_shares_leave(conn);
	if (trusted != NULL && weir_client_is_trusted(trusted, &conn->client))
		return true;
	weir_holder *holder = weir_shares_find(shares, &conn->client.any);
	conn->holder = holder;
	if (holder == NULL)
		return true;
	bool room = make_room(shares, conn);
	link_conn(holder, conn);
	weir_shares_count(shares, holder, WEIR_SHARE_CONNECTIONS, 1);
	if (shares->heaviest == NULL ||
	    holder->here[WEIR_SHARE_CONNECTIONS] > shares->heaviest->here[WEIR_SHARE_CONNECTIONS])
		shares->heaviest = holder;
	if (!room)
		weir_http_count(&loop->counts.share_refused);
	return room;
}

void weir_shares_leave(weir_http_conn *conn)
{
	weir_holder *holder = conn->holder;
	if (holder == NULL)
		return;
	conn->holder = NULL;
	unlink_conn(conn);
	weir_shares_count(&conn->loop->shares, holder, WEIR_SHARE_CONNECTIONS, -1);
	weir_shares_drop(&conn->loop->shares, holder);
}

/* ---- requests ---- */

void weir_shares_change(weir_request *request)
{
	weir_share_table *shares = &request->loop->shares;
	weir_shares_end(shares, request->holder);
	weir_holder *holder = weir_shares_find(shares, &request->client.any);
	request->holder = holder;
	weir_shares_begin(shares, holder);
	/* Both have a reference. */
	if (holder != NULL)
		weir_shares_drop(shares, holder);
}

bool weir_shares_refuse(const weir_request *request)
{
	const weir_share_table *shares = &request->loop->shares;
	const weir_holder *holder = request->holder;
	uint64_t here = (uint64_t)shares->requests * shares->loops, most = shares->requests_most;
	if (here > most + shares->loops - 1)
		return true;
	/* The sum is looked at only if there are many. */
	return holder != NULL && weir_shares_is_scarce(here - shares->loops, most) &&
	       weir_shares_over(shares, weir_shares_held(shares, holder, WEIR_SHARE_REQUESTS) - 1u, most,
				here - shares->loops, most);
}

bool weir_shares_fill_queue(const weir_request *request, const weir_stage *stage)
{
	const weir_share_table *shares = &request->loop->shares;
	uint32_t capacity;
	if (shares->count < 2 || (request->event.flags & WEIR_EVENT_EXEMPT) != 0)
		return false;
	uint32_t waiting = weir_stage_waits_here(stage, &capacity);
	return weir_shares_over(shares, request->holder->here[WEIR_SHARE_REQUESTS] - 1u, capacity, waiting,
				capacity);
}
