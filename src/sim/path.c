/* SPDX-License-Identifier: Apache-2.0 */
/* The path of a request through the stages, and the connections that requests come over. */
#include <string.h>

#include "base/mem.h"
#include "sim/topology_inside.h"
#include "stage/friends.h"

/* A client's connection is not idle until the client has received its rejection. */
#define REJECTION_NS (100 * WEIR_NS_PER_US)

void weir_topology_account(weir_request *request, uint64_t now_ns, weir_use use)
{
	for (unsigned i = 0; i < request->works; i++)
		weir_record_work(request->topology->record, now_ns, request->work[i].place,
				 request->work[i].ns, use);
	request->works = 0;
}

static void note_work(weir_request *request, unsigned at, double ns)
{
	if (request->works < 2 * WEIR_SCENARIO_PATH) {
		request->work[request->works].place = at;
		request->work[request->works++].ns = ns;
	}
}

/* ---- threads and connections ---- */

/*
 * Takes the idle connection that was used last; false: there is none. Only a few at the end are not idle
 * yet.
 */
static bool take_idle(place *at, uint64_t now_ns, uint8_t *ret_thread)
{
	for (unsigned i = at->idle_count; i-- > 0;)
		if (at->idle[i].from_ns <= now_ns) {
			*ret_thread = at->idle[i].thread;
			memmove(&at->idle[i], &at->idle[i + 1], (--at->idle_count - i) * sizeof *at->idle);
			return true;
		}
	return false;
}

static void take_connection(place *at, weir_request *request)
{
	weir_topology *topology = at->topology;
	if (!take_idle(at, weir_world_now(topology->world), &request->thread))
		request->thread = (uint8_t)weir_random_below(&topology->random, at->as->threads);
	request->event.home = request->thread;
}

/* Without memory to remember it, a connection is closed. */
static void give_connection(place *at, const weir_request *request, uint64_t delay_ns)
{
	if (at->idle_count == at->idle_size) {
		unsigned size = at->idle_size != 0 ? 2 * at->idle_size : 64;
		connection *more = weir_mem_array(size, sizeof *more);
		if (more == NULL)
			return;
		if (at->idle_count > 0)
			memcpy(more, at->idle, at->idle_count * sizeof *more);
		weir_mem_free(at->idle);
		at->idle = more;
		at->idle_size = size;
	}
	at->idle[at->idle_count++] =
		(connection){weir_world_now(at->topology->world) + delay_ns, request->thread};
}

/* Runs on the request's thread, if the stage that it is at has threads. */
static void on_thread(weir_request *request, void (*run)(weir_request *request))
{
	const place *at = &request->topology->place[request->at];
	if (at->as->threads == 0 || request->event.home == WEIR_ANYWHERE) {
		run(request);
		return;
	}
	struct weir_thread *before =
		weir_sim_enter(weir_stage_domain(at->stage), request->event.home % at->as->threads);
	run(request);
	weir_sim_leave(before);
}

static void end(weir_request *request, weir_ending how)
{
	place *entry = &request->topology->place[request->entry];
	if (entry->as->threads != 0)
		give_connection(entry, request, how == WEIR_ENDED_COMPLETED ? 0 : REJECTION_NS);
	if (!request->topology->over)
		request->ended(request, how);
}

/* The work of the stage for this request, in ns of one worker at its usual speed. */
static double demand(weir_topology *topology, const place *at, const weir_dist *dist,
		     const weir_request *request)
{
	double ns = weir_dist_draw(dist, &topology->random) * request->cost;
	if (at->as->degrade < 1)
		ns *= at->as->degrade + (1 - at->as->degrade) * weir_stage_quality(at->stage, request->klass);
	return ns;
}

static void leave(weir_request *request)
{
	weir_topology *topology = request->topology;
	const weir_scenario_stage *stage = topology->place[request->at].as;
	if (stage->next.count == 0) {
		weir_done(&request->event);
		end(request, WEIR_ENDED_COMPLETED);
		return;
	}
	uint8_t before = request->at;
	request->at = (uint8_t)weir_shares_draw(&stage->next, &topology->random);
	if (weir_offer(topology->place[request->at].stage, &request->event) == WEIR_ADMITTED)
		return;
	request->at = before;
	weir_refused(&request->event);
	end(request, WEIR_ENDED_DROPPED);
}

static void backend_refused(weir_request *request)
{
	request->works--; /* it was never started */
	weir_refused(&request->event);
	end(request, WEIR_ENDED_DROPPED);
}

static void backend_done(weir_backend_job *job, bool refused, void *arg)
{
	(void)job;
	on_thread(arg, refused ? backend_refused : leave);
}

static void work_behind(weir_request *request)
{
	weir_topology *topology = request->topology;
	place *at = &topology->place[request->at];
	unsigned backend = (unsigned)at->as->backend_index;
	double work_ns = demand(topology, at, &at->as->work, request);
	note_work(request, topology->scenario->stages + backend, work_ns);
	weir_backend_submit(topology->backend[backend], &request->job, work_ns, backend_done, request);
}

static void served(weir_timer *timer, void *arg)
{
	weir_request *request = arg;
	(void)timer;
	bool behind = request->topology->place[request->at].as->backend_index >= 0;
	on_thread(request, behind ? work_behind : leave);
}

static void serve(place *at, weir_request *request)
{
	weir_topology *topology = at->topology;
	weir_hold(&request->event);
	if (at->as->service.mean == 0) {
		work_behind(request);
		return;
	}
	double ns = demand(topology, at, &at->as->service, request);
	note_work(request, at->index, ns);
	weir_timer_init(&request->timer, served, request);
	weir_sim_timer(topology->world, &request->timer,
		       weir_world_now(topology->world) + (uint64_t)(ns / at->speed + 0.5));
}

void weir_path_handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	(void)stage;
	for (size_t i = 0; i < count; i++)
		serve(arg, (weir_request *)events[i]);
}

/*
 * A drop within the caller's own offer is reported to the caller only afterwards: until then the caller
 * still holds the request.
 */
static void dropped_early(weir_timer *timer, void *arg)
{
	(void)timer;
	end(arg, WEIR_ENDED_DROPPED);
}

void weir_path_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	weir_request *request = (weir_request *)event;
	(void)stage;
	(void)why;
	(void)arg;
	if (request != request->topology->entering) {
		end(request, WEIR_ENDED_DROPPED);
		return;
	}
	weir_timer_init(&request->timer, dropped_early, request);
	weir_sim_timer(request->topology->world, &request->timer, weir_world_now(request->topology->world));
}

static place *prepare(weir_topology *topology, weir_request *request)
{
	unsigned at = (unsigned)topology->scenario->type[request->type].stage_index;
	weir_event_init(&request->event, request->klass);
	request->event.cost = request->cost < 4e6 ? (uint32_t)(request->cost * 1000) : UINT32_MAX;
	if (request->exempt)
		request->event.flags |= WEIR_EVENT_EXEMPT;
	request->topology = topology;
	request->at = request->entry = (uint8_t)at;
	request->works = 0;
	return &topology->place[at];
}

static weir_verdict enter_by_connection(place *at, weir_request *request)
{
	take_connection(at, request);
	struct weir_thread *before = weir_sim_enter(weir_stage_domain(at->stage), request->thread);
	at->topology->entering = request;
	weir_verdict verdict = weir_offer(at->stage, &request->event);
	at->topology->entering = NULL;
	weir_sim_leave(before);
	if (verdict != WEIR_ADMITTED)
		give_connection(at, request, REJECTION_NS);
	return verdict;
}

weir_verdict weir_topology_enter(weir_topology *topology, weir_request *request)
{
	place *at = prepare(topology, request);
	return at->as->threads != 0 ? enter_by_connection(at, request)
				    : weir_offer(at->stage, &request->event);
}

weir_verdict weir_topology_enter_many(weir_topology *topology, weir_request **requests, unsigned count)
{
	weir_event *events[WEIR_BATCH_MAX];
	place *at = &topology->place[topology->scenario->type[requests[0]->type].stage_index];
	for (unsigned i = 0; i < count; i++) {
		prepare(topology, requests[i]);
		if (at->as->threads != 0)
			take_connection(at, requests[i]);
		events[i] = &requests[i]->event;
	}
	weir_verdict verdict = weir_offer_many(at->stage, events, count);
	for (unsigned i = 0; verdict != WEIR_ADMITTED && at->as->threads != 0 && i < count; i++)
		give_connection(at, requests[i], REJECTION_NS);
	return verdict;
}
