/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that ask and do not read. An answer that its client does not take stops its backend, and holds a
 * connection to it. Nobody minds until there are no connections left: then the answer that has made no
 * progress for longest is cut, and its connection goes to somebody who reads.
 */
#include "loop/loop.h"
#include "sentry/proxy_priv.h"

/* A shorter stop is no sign of anything: it is a round trip, or a busy browser. */
#define PATIENCE_NS WEIR_NS_PER_S

static uint64_t now_of(const weir_proxy_thread *thread)
{
	return weir_loop_time(weir_upstream_loop(thread->upstream));
}

void weir_exchange_stall(weir_exchange *exchange)
{
	weir_proxy_thread *thread = exchange->thread;
	if (exchange->stalled_at != NULL)
		return;
	weir_exchange *last = thread->stalled != NULL ? thread->stalled_last : NULL;
	exchange->stalled_at = last != NULL ? &last->stalled_next : &thread->stalled;
	exchange->stalled_next = NULL;
	*exchange->stalled_at = exchange;
	thread->stalled_last = exchange;
	exchange->stalled_ns = now_of(thread);
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

static bool cut_longest(weir_proxy_thread *thread)
{
	weir_exchange *longest = thread->stalled;
	if (longest == NULL || now_of(thread) - longest->stalled_ns < PATIENCE_NS)
		return false;
	weir_request *request = longest->request;
	WEIR_PROXY_COUNT(longest, stalled_cut);
	weir_call_abort(&longest->call);
	weir_exchange_let_go(longest);
	weir_request_abort(request);
	return true;
}

static void room_posted(weir_post *post, void *arg)
{
	weir_proxy_thread *thread = arg;
	atomic_store_explicit(&thread->room_asked, false, memory_order_relaxed);
	cut_longest(thread);
}

/* A thread that ends does so by a later post, since its proxy is in use now. */
static void ask_others(const weir_proxy_thread *thread)
{
	for (uint32_t i = 0; i < WEIR_THREADS_MAX; i++) {
		weir_proxy_thread *other =
			atomic_load_explicit(&thread->proxy->threads[i], memory_order_acquire);
		if (other == NULL || other == thread || atomic_exchange(&other->room_asked, true))
			continue;
		other->room_post = (weir_post){.run = room_posted, .arg = other};
		weir_loop_post(weir_upstream_loop(other->upstream), &other->room_post);
	}
}

bool weir_proxy_make_room(weir_proxy_thread *thread)
{
	if (cut_longest(thread))
		return true;
	ask_others(thread);
	return false;
}
