/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that ask and do not read. An answer that its client does not take stops its backend, and holds a
 * connection to it. Nobody minds until there are no connections left: then the answer that has made no
 * progress for longest is cut, and its connection goes to somebody who reads.
 *
 * A client on a slow line reads, although nothing moves here for seconds: it takes what is in the socket's buffer.
 * What it acknowledges is progress. The list is in the order of looked_ns. Progress does not excuse an address that has
 * its share of all places, or more, when one asks that has less: otherwise whoever came first could read all answers
 * slowly, and keep all others out for as long as he likes.
 */
#include "http/server.h"
#include "loop/loop.h"
#include "net/acked.h"
#include "sentry/proxy_priv.h"

/* A shorter stop is no sign of anything: it is a round trip, or a busy browser. */
#define PATIENCE_NS WEIR_NS_PER_S
/* What a client has to take per second in order not to count as one that does not read. */
#define PROGRESS_PER_S 1024u
/* A connection of HTTP/2 may make progress by other streams, so that does not excuse one for longer. */
#define STREAM_NS  (10 * WEIR_NS_PER_S)
#define LOOKS_MOST 16 /* at a time */

static uint64_t now_of(const weir_proxy_thread *thread)
{
	return weir_loop_time(weir_upstream_loop(thread->upstream));
}

static uint64_t acked_by(const weir_request *request)
{
	uint64_t bytes;
	return request->conn != NULL && weir_conn_acked(request->conn->link.conn, &bytes) ? bytes : 0;
}

/* At the end of the list. */
static void add(weir_exchange *exchange, uint64_t now_ns)
{
	weir_proxy_thread *thread = exchange->thread;
	weir_exchange *last = thread->stalled != NULL ? thread->stalled_last : NULL;
	exchange->stalled_at = last != NULL ? &last->stalled_next : &thread->stalled;
	exchange->stalled_next = NULL;
	*exchange->stalled_at = exchange;
	thread->stalled_last = exchange;
	exchange->looked_ns = now_ns;
	exchange->acked = acked_by(exchange->request);
}

void weir_exchange_stall(weir_exchange *exchange)
{
	if (exchange->stalled_at != NULL)
		return;
	exchange->stalled_ns = now_of(exchange->thread);
	add(exchange, exchange->stalled_ns);
}

void weir_exchange_unstall(weir_exchange *exchange)
{
	weir_proxy_thread *thread = exchange->thread;
	weir_exchange *next = exchange->stalled_next;
	*exchange->stalled_at = next;
	if (next != NULL)
		next->stalled_at = exchange->stalled_at;
	else if (thread->stalled != NULL)
		/* stalled_at is the next pointer of the one before. */
		thread->stalled_last = (weir_exchange *)(void *)((char *)exchange->stalled_at -
								 offsetof(weir_exchange, stalled_next));
	exchange->stalled_at = NULL;
}

static bool reads(const weir_exchange *exchange, uint64_t now_ns)
{
	uint64_t acked = acked_by(exchange->request);
	if (exchange->request->head.version == 20 && now_ns - exchange->stalled_ns >= STREAM_NS)
		return false;
	return acked > exchange->acked &&
	       (acked - exchange->acked) / PROGRESS_PER_S >= (now_ns - exchange->looked_ns) / WEIR_NS_PER_S;
}

static void cut(weir_exchange *exchange)
{
	weir_request *request = exchange->request;
	WEIR_PROXY_COUNT(exchange, stalled_cut);
	weir_call_abort(&exchange->call);
	weir_exchange_let_go(exchange);
	weir_request_abort(request);
}

/* modest: on behalf of an address that has less than its share. */
static bool cut_longest(weir_proxy_thread *thread, bool modest)
{
	uint64_t now_ns = now_of(thread);
	for (unsigned looks = 0; looks < LOOKS_MOST; looks++) {
		weir_exchange *longest = thread->stalled;
		if (longest == NULL || now_ns - longest->looked_ns < PATIENCE_NS)
			return false;
		if ((modest && weir_proxy_is_greedy(thread, longest->request)) || !reads(longest, now_ns)) {
			cut(longest);
			return true;
		}
		weir_exchange_unstall(longest);
		add(longest, now_ns);
	}
	return false;
}

static void room_posted(weir_post *post, void *arg)
{
	weir_proxy_thread *thread = arg;
	/* From here on another thread may write the post again, after all that was read of it. */
	atomic_store_explicit(&thread->room_asked, false, memory_order_release);
	cut_longest(thread, atomic_exchange(&thread->room_modest, false));
}

/* A thread that ends does so by a later post, since its proxy is in use now. */
static void ask_others(const weir_proxy_thread *thread, bool modest)
{
	for (uint32_t i = 0; i < WEIR_THREADS_MAX; i++) {
		weir_proxy_thread *other =
			atomic_load_explicit(&thread->proxy->threads[i], memory_order_acquire);
		if (other == NULL || other == thread)
			continue;
		if (modest)
			atomic_store(&other->room_modest, true);
		if (atomic_exchange(&other->room_asked, true))
			continue;
		other->room_post = (weir_post){.run = room_posted, .arg = other};
		weir_loop_post(weir_upstream_loop(other->upstream), &other->room_post);
	}
}

bool weir_proxy_make_room(weir_proxy_thread *thread, const weir_request *request)
{
	bool modest = request->holder != NULL && !weir_proxy_is_greedy(thread, request);
	if (cut_longest(thread, modest))
		return true;
	ask_others(thread, modest);
	return false;
}
