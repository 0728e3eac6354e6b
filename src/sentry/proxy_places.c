/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places at backends, by client address (http/shares.h). The choice among backends keeps them about equally
 * full, so the one that was chosen tells how full all are.
 */
#include "http/server.h"
#include "sentry/proxy_priv.h"

/* Places in all backends, on this thread. */
static uint64_t places_here(const weir_exchange *exchange, uint32_t of_one)
{
	const weir_fleet *fleet = weir_upstream_fleet(exchange->thread->upstream);
	return (uint64_t)of_one * weir_fleet_count(fleet) / exchange->request->loop->shares.loops;
}

/* A place was taken already, so one is not counted. */
static bool has_its_share(const weir_exchange *exchange, const weir_origin *backend)
{
	const weir_holder *holder = exchange->request->holder;
	uint32_t most = backend->options.concurrency, used = weir_origin_in_flight(backend) - 1;
	if (most == 0 || used < most / 2)
		return false;
	uint64_t here = places_here(exchange, most);
	return weir_shares_over(&exchange->request->loop->shares, holder->places,
				(uint64_t)((double)used / most * (double)here), here);
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
	request->holder->places++;
	exchange->placed = true;
	return true;
}

void weir_exchange_unplace(weir_exchange *exchange)
{
	exchange->placed = false;
	exchange->request->holder->places--;
}
