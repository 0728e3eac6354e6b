/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a request, and what its client does: waits, leaves, backs off, tries again. */
#include <math.h>

#include "base/mem.h"
#include "sim/load_inside.h"

/* ---- requests ---- */

static void grow(weir_loads *loads)
{
	chunk *more = weir_mem_zalloc(sizeof *more);
	if (more == NULL)
		return;
	more->next = loads->chunks;
	loads->chunks = more;
	for (unsigned i = 0; i < WEIR_LOAD_CHUNK; i++) {
		more->request[i].next_free = loads->free;
		loads->free = &more->request[i];
	}
}

static weir_request *take(struct load *load)
{
	weir_loads *loads = load->loads;
	if (loads->free == NULL)
		grow(loads);
	weir_request *request = loads->free;
	if (request == NULL) {
		loads->out_of_memory = true;
		return NULL;
	}
	loads->free = request->next_free;
	request->load = load;
	request->user = NULL;
	request->attempt = 0;
	request->gone = false;
	request->exempt = load->as->exempt;
	return request;
}

static void give_back(weir_request *request)
{
	weir_loads *loads = request->load->loads;
	request->next_free = loads->free;
	loads->free = request;
}

static void of_type(weir_request *request, unsigned type)
{
	const weir_scenario_type *as = &request->load->loads->scenario->type[type];
	request->type = (uint8_t)type;
	request->cost = as->cost;
	request->klass = (uint8_t)weir_scenario_class(request->load->as, as);
}

/* ---- attempts ---- */

static void attempt(weir_request *request);

static void try_again(weir_timer *timer, void *arg)
{
	(void)timer;
	attempt(arg);
}

/* How long the client waits before the next attempt. */
static uint64_t back_off_ns(const weir_request *request, uint64_t retry_after_ns)
{
	const weir_scenario_load *as = request->load->as;
	double ns = (double)as->backoff_ns * pow(as->backoff_factor, request->attempt);
	ns = fmin(ns, (double)as->backoff_max_ns);
	ns *= 1 + as->jitter * (2 * weir_random_unit(&request->load->random) - 1);
	if (as->honours && (double)retry_after_ns > ns)
		ns = (double)retry_after_ns;
	return (uint64_t)ns + 1;
}

/* The attempt failed, and the client owns the request again: it retries or gives up. */
static void rejected(weir_request *request, uint64_t retry_after_ns)
{
	weir_loads *loads = request->load->loads;
	if (request->attempt < request->load->as->retries) {
		uint64_t delay = back_off_ns(request, retry_after_ns);
		request->attempt++;
		weir_timer_init(&request->timer, try_again, request);
		weir_load_timer(loads, &request->timer, weir_load_now(loads) + delay);
		return;
	}
	user *who = request->user;
	loads->lost++;
	give_back(request);
	if (who != NULL)
		weir_load_answered(who, false);
}

/* The client leaves, and takes another request for what it does next. */
static void run_out(weir_timer *timer, void *arg)
{
	weir_request *request = arg, *next = take(request->load);
	(void)timer;
	request->gone = true;
	if (request->load->as->noticed)
		weir_event_cancel(&request->event);
	if (next == NULL)
		return;
	next->user = request->user;
	next->attempt = request->attempt;
	next->first_ns = request->first_ns;
	of_type(next, request->type);
	request->user = NULL;
	rejected(next, 0);
}

static void ended_for_nobody(weir_request *request, uint64_t now_ns)
{
	weir_topology_account(request, now_ns, WEIR_USED_FOR_NOTHING);
	weir_record_given_up(request->load->loads->record, now_ns, request->klass, request->type);
	give_back(request);
}

static void ended(weir_request *request, weir_ending how)
{
	weir_loads *loads = request->load->loads;
	uint64_t now = weir_load_now(loads);
	weir_timer_stop(&request->patience);
	if (request->gone) {
		ended_for_nobody(request, now);
		return;
	}
	if (how == WEIR_ENDED_DROPPED) {
		weir_record_dropped(loads->record, now, request->klass, request->type);
		weir_topology_account(request, now, WEIR_USED_FOR_NOTHING);
		rejected(request, 0);
		return;
	}
	uint64_t response = now + WEIR_NS_PER_S - request->event.entered_ns;
	bool useful = weir_record_completed(loads->record, now, request->klass, request->type, response,
					    request->load->target_ns[request->type]);
	weir_topology_account(request, now, useful ? WEIR_USED_WELL : WEIR_USED_LATE);
	user *who = request->user;
	give_back(request);
	if (who != NULL)
		weir_load_answered(who, true);
}

/* The outcome of an offer. */
static void offered(weir_request *request, weir_verdict verdict, uint64_t retry_after_ns)
{
	weir_loads *loads = request->load->loads;
	uint64_t now = weir_load_now(loads), patience = request->load->as->patience_ns;
	if (verdict != WEIR_ADMITTED) {
		weir_record_shed(loads->record, now, request->klass, request->type);
		rejected(request, retry_after_ns);
	} else if (patience != 0) {
		weir_timer_init(&request->patience, run_out, request);
		weir_load_timer(loads, &request->patience, now + patience);
	}
}

static uint64_t retry_after_ns(const struct load *load, weir_verdict verdict)
{
	weir_why why = {0};
	if (verdict != WEIR_ADMITTED && load->as->honours)
		weir_why_shed(&why);
	return why.retry_after_ns;
}

static void attempt(weir_request *request)
{
	weir_loads *loads = request->load->loads;
	request->ended = ended;
	weir_record_offered(loads->record, weir_load_now(loads), request->klass, request->type);
	weir_verdict verdict = weir_topology_enter(loads->topology, request);
	offered(request, verdict, retry_after_ns(request->load, verdict));
}

void weir_load_attempt_together(struct load *load, unsigned type)
{
	weir_loads *loads = load->loads;
	weir_request *requests[WEIR_BATCH_MAX];
	unsigned count = 0;
	for (; count < load->as->together && (requests[count] = take(load)) != NULL; count++) {
		requests[count]->ended = ended;
		requests[count]->first_ns = weir_load_now(loads);
		of_type(requests[count], type);
		weir_record_offered(loads->record, weir_load_now(loads), requests[count]->klass, type);
	}
	if (count == 0)
		return;
	weir_verdict verdict = weir_topology_enter_many(loads->topology, requests, count);
	uint64_t after_ns = retry_after_ns(load, verdict);
	for (unsigned i = 0; i < count; i++)
		offered(requests[i], verdict, after_ns);
}

void weir_load_attempt(struct load *load, unsigned type, user *who)
{
	weir_request *request = take(load);
	if (request == NULL)
		return;
	request->user = who;
	request->first_ns = weir_load_now(load->loads);
	of_type(request, type);
	attempt(request);
}
