/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that ask again as soon as they are rejected. A rejection is cheap, but tens of thousands of them a
 * second take the processor from the service. Beyond a rate, rejections to one address wait for a moment
 * before they are sent: a client that waits for its answers is then as slow as that.
 *
 * Requests whose rejection waits are in a list of their loop, in the order of their times, since all wait
 * equally long. If the client leaves meanwhile, the request leaves the list: who comes and goes keeps no memory.
 */
#include "http/hammer.h"
#include "base/mem.h"
#include "http/server.h"
#include "loop/loop.h"

#define WAITING_MOST 16384u /* of one loop; further ones do not wait */

int weir_hammer_new(const weir_http_limits *limits, weir_quota **ret_quota)
{
	const weir_quota_options options = {.name = "hammering", .rate_per_s = limits->hammering_per_s};
	*ret_quota = NULL;
	return limits->hammering_per_s > 0 ? weir_quota_new(&options, ret_quota) : 0;
}

static void arm(weir_http_loop *loop)
{
	if (loop->hammer.first != NULL)
		weir_timer_start(loop->loop, &loop->hammer.timer, loop->hammer.first->until_ns);
}

static void take_out(weir_http_loop *loop, const weir_hammered *held)
{
	*held->at = held->next;
	if (held->next != NULL)
		held->next->at = held->at;
	else
		loop->hammer.end = held->at;
	loop->hammer.count--;
	held->request->hammered = NULL;
}

static void release_first(weir_http_loop *loop)
{
	const weir_hammered *first = loop->hammer.first;
	take_out(loop, first);
	weir_request_send_away(first);
}

static void time_is_up(weir_timer *timer, void *arg)
{
	weir_http_loop *loop = arg;
	uint64_t now_ns = weir_loop_time(loop->loop);
	/* Keeps the share alive, since the last request may be freed here. */
	weir_http_loop_ref(loop);
	while (loop->hammer.first != NULL && loop->hammer.first->until_ns <= now_ns)
		release_first(loop);
	arm(loop);
	weir_http_loop_unref(loop);
}

void weir_hammer_init(weir_http_loop *loop)
{
	weir_timer_init(&loop->hammer.timer, time_is_up, loop);
	loop->hammer.end = &loop->hammer.first;
}

void weir_hammer_forget(weir_request *request)
{
	weir_http_loop *loop = request->loop;
	take_out(loop, request->hammered);
	/* The share may be freed with its last request. */
	if (loop->hammer.first == NULL)
		weir_timer_stop(&loop->hammer.timer);
}

void weir_hammer_end(weir_http_loop *loop)
{
	while (loop->hammer.first != NULL)
		release_first(loop);
	weir_timer_stop(&loop->hammer.timer);
}

bool weir_hammer_holds(weir_request *request, const weir_route *route, const weir_shed_head *head,
		       uint64_t retry_after_ns)
{
	weir_http_loop *loop = request->loop;
	uint64_t now_ns = weir_loop_time(loop->loop), ignored;
	uint8_t key[8];
	size_t length = weir_quota_client_key(&request->client.any, key);
	/* Without an address it cannot be told apart from others, who may not hammer. */
	if (length == 0 ||
	    weir_quota_take(loop->http->hammering, (const char *)key, length, now_ns, &ignored) ||
	    loop->hammer.count == WAITING_MOST || loop->draining)
		return false;
	weir_hammered *held = weir_request_alloc(request, sizeof(*held));
	if (held == NULL)
		return false;
	*held = (weir_hammered){.request = request,
				.route = route,
				.retry_after_ns = retry_after_ns,
				.until_ns = now_ns + loop->limits.hammering_delay_ns,
				.at = loop->hammer.end,
				.head = *head};
	request->hammered = held;
	*loop->hammer.end = held;
	loop->hammer.end = &held->next;
	if (loop->hammer.count++ == 0)
		arm(loop);
	return true;
}
