/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places at backends, by client address (http/shares.h). The choice among backends keeps them about equally
 * full, so the one that was chosen tells how full all are.
 */
#include "http/server.h"
#include "sentry/proxy_priv.h"

/*
 * A stage gives each thread its part of the places, so they can be scarce on this one alone. Whoever waits here then
 * waits behind the address that has them.
 */
static bool has_its_share_here(const weir_exchange *exchange, uint64_t all)
{
	const weir_share_table *shares = &exchange->request->loop->shares;
	uint64_t most = all / shares->loops;
	return weir_shares_over(shares, exchange->request->holder->here[WEIR_SHARE_PLACES], most,
				exchange->thread->places, most);
}

/* A place was taken already, so one is not counted. */
static bool has_its_share(const weir_exchange *exchange, const weir_origin *backend)
{
	const weir_share_table *shares = &exchange->request->loop->shares;
	const weir_fleet *fleet = weir_upstream_fleet(exchange->thread->upstream);
	uint32_t of_one = backend->options.concurrency, used = weir_origin_in_flight(backend) - 1;
	if (of_one == 0 || shares->count < 2)
		return false;
	uint64_t all = (uint64_t)of_one * weir_fleet_count(fleet);
	if (has_its_share_here(exchange, all))
		return true;
	uint32_t held = used >= of_one / 2
				? weir_shares_held(shares, exchange->request->holder, WEIR_SHARE_PLACES)
				: 0;
	return weir_shares_over(shares, held, all, used, of_one);
}

bool weir_exchange_place(weir_exchange *exchange, const weir_origin *backend)
{
	const weir_request *request = exchange->request;
	if (exchange->placed || request->holder == NULL)
		return true;
	if (!(request->event.flags & WEIR_EVENT_EXEMPT) && has_its_share(exchange, backend)) {
		weir_http_count(&request->loop->counts.share_refused);
		return false;
	}
	weir_shares_count(&request->loop->shares, request->holder, WEIR_SHARE_PLACES, 1);
	exchange->thread->places++;
	exchange->placed = true;
	return true;
}

void weir_exchange_unplace(weir_exchange *exchange)
{
	exchange->placed = false;
	exchange->thread->places--;
	weir_shares_count(&exchange->request->loop->shares, exchange->request->holder, WEIR_SHARE_PLACES, -1);
}

/* If a backend has no bound, places are never scarce, and nobody asks. */
static uint64_t places_of_all(const weir_proxy_thread *thread)
{
	const weir_fleet *fleet = weir_upstream_fleet(thread->upstream);
	uint64_t all = 0;
	for (uint32_t i = 0; i < weir_fleet_count(fleet); i++)
		all += weir_fleet_at(fleet, i)->options.concurrency;
	return all;
}

bool weir_proxy_is_greedy(const weir_proxy_thread *thread, const weir_request *request)
{
	const weir_share_table *shares = &request->loop->shares;
	uint64_t all = request->holder != NULL ? places_of_all(thread) : 0;
	return all != 0 &&
	       weir_shares_over(shares, weir_shares_held(shares, request->holder, WEIR_SHARE_PLACES), all,
				all, all);
}
