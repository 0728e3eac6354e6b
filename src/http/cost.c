/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of requests: looked up in the offer, learnt from answers. control/costs.h has the table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mix.h"
#include "http/server.h"
#include "stage/friends.h"

int weir_http_make_costs(weir_http *http)
{
	weir_costs_options options = {0};
	int error = weir_siphash_key_init(&options.key);
	if (error != 0)
		return weir_error_set(error, "http: the system gives no random numbers");
	http->costs = weir_costs_new(&options);
	return http->costs != NULL ? 0 : weir_error_set(-ENOMEM, "http: out of memory");
}

weir_costs *weir_http_costs(const weir_http *http)
{
	return http->costs;
}

bool weir_http_route_name(weir_http *http, uint32_t number, char *ret_name, size_t size)
{
	bool found = false;
	pthread_mutex_lock(&http->lock);
	const weir_routes *routes = http->routes;
	for (uint32_t i = 0; !found && i < routes->route_count; i++)
		if (routes->routes[i].number == number) {
			snprintf(ret_name, size, "%s", routes->routes[i].name);
			found = true;
		}
	pthread_mutex_unlock(&http->lock);
	return found;
}

void weir_request_estimate(weir_request *request)
{
	weir_costs *costs = request->loop->costs;
	if (costs == NULL || request->route->exempt)
		return;
	weir_span path = weir_request_judged_path(request);
	bool own;
	request->kind = weir_costs_find_recent(costs, &request->loop->asked, request->route->number,
					       (uint8_t)request->head.method, path.at, path.length,
					       &request->event.cost, &own);
	if (!own)
		request->event.flags |= WEIR_EVENT_GUESSED;
}

static bool had_body(const weir_request *request)
{
	const weir_head *head = &request->head;
	return head->framing != WEIR_BODY_NONE &&
	       !(head->framing == WEIR_BODY_LENGTH && head->body_length == 0);
}

/* When everything needed for the answer had arrived; 0: unknown. Waiting for a slow client is not work. */
static uint64_t began_work(const weir_request *request)
{
	uint64_t started_ns = request->event.started_ns;
	if (!had_body(request) || request->collected != NULL)
		return started_ns;
	/* The other fields may be read only at home. */
	if (!weir_request_at_home(request) || !weir_request_is(request, WEIR_REQUEST_BODY_OVER))
		return 0;
	return request->body_ended_ns > started_ns ? request->body_ended_ns : started_ns;
}

/* Of the answers that are not due to be learnt from, one in so many is drawn at random. */
#define ONE_DRAWN_IN 16u

/*
 * How many answers this one stands for; 0: nothing is learnt from it. The time of the loop's turn is exact enough
 * for that. At home only; elsewhere all answers are learnt from.
 */
static unsigned answers_meant(weir_request *request)
{
	weir_http_loop *loop = request->loop;
	if (!weir_request_at_home(request) ||
	    weir_costs_is_due(loop->costs, request->kind, weir_loop_time(loop->loop)))
		return 1;
	loop->taught_mix += WEIR_MIX_STEP;
	return weir_mix(loop->taught_mix) % ONE_DRAWN_IN == 0 ? ONE_DRAWN_IN : 0;
}

/* A time that the server tells is worth this many answers: it holds no queueing. */
#define TOLD_WEIGHT 4u

void weir_request_told(weir_request *request, weir_told_time which, double s)
{
	double us = s * 1e6;
	uint32_t whole = us < 1 ? which == WEIR_TOLD_SERVICE : us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	if (which == WEIR_TOLD_SERVICE)
		request->told_us = whole;
	else
		request->told_queue_us = whole;
}

/* The request's time without the wait in a server that tells its wait. */
static uint64_t without_queue(const weir_request *request, uint64_t took_ns)
{
	uint64_t queue_ns = UINT64_C(1000) * request->told_queue_us;
	return took_ns > queue_ns ? took_ns - queue_ns : took_ns;
}

void weir_request_learn(weir_request *request)
{
	uint64_t from_ns = began_work(request);
	unsigned answers = from_ns != 0 || request->told_us != 0 ? answers_meant(request) : 0;
	if (answers == 0)
		return;
	uint64_t now_ns = weir_world_exact_ns(request->loop->world);
	if (request->told_us != 0) {
		weir_costs_learn_drawn(request->loop->costs, request->kind, UINT64_C(1000) * request->told_us,
				       TOLD_WEIGHT, answers, now_ns);
		return;
	}
	/* The clocks of two threads may differ a little. */
	uint64_t took_ns = now_ns > from_ns ? now_ns - from_ns : 0;
	weir_costs_learn_drawn(request->loop->costs, request->kind, without_queue(request, took_ns),
			       weir_stage_calm(weir_event_stage(&request->event)), answers, now_ns);
}
