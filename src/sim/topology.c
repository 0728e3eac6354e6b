/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/topology.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/keys.h"
#include "stage/friends.h"

/* A client's connection is not idle until the client has received its rejection. */
#define REJECTION_NS (100 * WEIR_NS_PER_US)

/* A client's connection without a request on it. */
typedef struct connection {
	uint64_t from_ns; /* idle since, or from then on */
	uint8_t thread;
} connection;

typedef struct place {
	weir_topology *topology;
	weir_scenario_stage *as; /* a copy that changes during the run */
	weir_stage *stage;
	weir_domain *domain;
	unsigned index;
	double speed;
	bool law_changed;
	/* threads only: the most recently used is at the end */
	connection *idle;
	unsigned idle_count, idle_size;
} place;

struct weir_topology {
	const weir_scenario *scenario;
	weir_world *world;
	weir_record *record;
	weir_random random;
	weir_scenario_stage *stages; /* copies */
	place place[WEIR_SCENARIO_STAGES];
	weir_backend *backend[WEIR_SCENARIO_BACKENDS];
	const weir_request *entering; /* it is being offered by a connection's thread */
	unsigned classes;
	bool over;
};

/* ---- the path of a request ---- */

static uint64_t now_of(const weir_topology *topology)
{
	return weir_world_now(topology->world) - WEIR_NS_PER_S;
}

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

static int choose_next(weir_topology *topology, const weir_scenario_stage *stage)
{
	unsigned last = stage->next_count - 1;
	if (last == 0)
		return stage->next[0].index;
	double at = weir_random_unit(&topology->random);
	for (unsigned i = 0; i < last; i++) {
		at -= stage->next[i].share;
		if (at < 0)
			return stage->next[i].index;
	}
	return stage->next[last].index;
}

static void leave(weir_request *request)
{
	weir_topology *topology = request->topology;
	const weir_scenario_stage *stage = topology->place[request->at].as;
	if (stage->next_count == 0) {
		weir_done(&request->event);
		end(request, WEIR_ENDED_COMPLETED);
		return;
	}
	uint8_t before = request->at;
	request->at = (uint8_t)choose_next(topology, stage);
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

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
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

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
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

/* ---- initialisation ---- */

unsigned weir_topology_classes(const weir_scenario *scenario)
{
	unsigned most = 0;
	for (unsigned i = 0; i < scenario->loads; i++)
		most = scenario->load[i].klass > most ? scenario->load[i].klass : most;
	for (unsigned i = 0; i < scenario->types; i++)
		if (scenario->type[i].used && scenario->type[i].klass > (int)most)
			most = (unsigned)scenario->type[i].klass;
	return most + 1;
}

static bool traced(const weir_scenario_stage *stage)
{
	return stage->used && stage->law[0] != '\0';
}

unsigned weir_topology_traces(const weir_scenario *scenario)
{
	unsigned stages = 0;
	for (unsigned i = 0; i < scenario->stages; i++)
		stages += traced(&scenario->stage[i]);
	return stages * weir_topology_classes(scenario);
}

static void name_traces(weir_topology *topology)
{
	unsigned at = 0;
	for (unsigned i = 0; i < topology->scenario->stages; i++)
		for (unsigned k = 0; traced(&topology->scenario->stage[i]) && k < topology->classes; k++) {
			topology->record->trace[at].stage = topology->scenario->stage[i].name;
			topology->record->trace[at++].klass = k;
		}
}

/* A domain of its own, or that of an earlier stage with the same pool. */
static int make_domain(weir_topology *topology, unsigned i, weir_domain **ret_domain)
{
	const weir_scenario_stage *as = &topology->stages[i];
	for (unsigned j = 0; as->pool[0] != '\0' && j < i; j++)
		if (strcmp(topology->stages[j].pool, as->pool) == 0) {
			*ret_domain = topology->place[j].domain;
			return 0;
		}
	weir_domain_options options = {.name = as->name,
				       .kind = as->threads != 0 ? WEIR_REACTOR : WEIR_ELASTIC,
				       .threads = as->threads,
				       .min_threads = as->workers,
				       .max_threads = as->workers};
	return weir_domain_new(topology->world, &options, ret_domain);
}

static int make_stage(weir_topology *topology, unsigned i)
{
	place *at = &topology->place[i];
	weir_scenario_stage *as = &topology->stages[i];
	void *params = NULL;
	*at = (place){.topology = topology, .as = as, .index = i, .speed = 1};
	weir_stage_options options = {.name = as->name,
				      .handle = handle,
				      .drop = drop,
				      .arg = at,
				      .capacity = as->capacity,
				      .order = as->order,
				      .newest_after_ns = as->newest_after_ns,
				      .concurrency = as->threads != 0 && !as->unbounded ? as->workers : 0,
				      .heed_downstream = as->heeds};
	int failed = make_domain(topology, i, &at->domain);
	if (!failed)
		failed = weir_scenario_law_of(topology->scenario, as, &options.admission, &params);
	options.admission_params = params;
	if (!failed)
		failed = weir_stage_new(at->domain, &options, &at->stage);
	if (!failed) {
		weir_stage_mode(at->stage, as->mode);
		failed = weir_stage_shed_ceiling(at->stage, as->ceiling);
	}
	weir_mem_free(params);
	return failed;
}

static int make_places(weir_topology *topology)
{
	const weir_scenario *scenario = topology->scenario;
	weir_place *places = topology->record->place;
	int failed = 0;
	for (unsigned i = 0; i < scenario->stages && !failed; i++) {
		failed = make_stage(topology, i);
		places[i].name = scenario->stage[i].name;
		weir_record_workers(topology->record, 0, i, scenario->stage[i].workers);
	}
	for (unsigned i = 0; i < scenario->backends && !failed; i++) {
		const weir_scenario_backend *as = &scenario->backend[i];
		failed = weir_backend_new(topology->world, &as->options, &topology->backend[i]);
		places[scenario->stages + i].name = as->name;
		weir_record_workers(topology->record, 0, scenario->stages + i, as->options.workers);
	}
	return failed;
}

int weir_topology_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_record *record,
		      weir_topology **ret_topology)
{
	weir_topology *topology = weir_mem_zalloc(sizeof *topology);
	if (topology == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	*topology = (weir_topology){.scenario = scenario, .world = world, .record = record};
	topology->stages = weir_mem_array(WEIR_SCENARIO_STAGES, sizeof *topology->stages);
	topology->classes = weir_topology_classes(scenario);
	weir_random_init(&topology->random, seed);
	*ret_topology = topology; /* also after a failure: to be freed after its world */
	if (topology->stages == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	memcpy(topology->stages, scenario->stage, sizeof scenario->stage);
	name_traces(topology);
	return make_places(topology);
}

void weir_topology_free(weir_topology **ref)
{
	weir_topology *topology = *ref;
	if (topology == NULL)
		return;
	for (unsigned i = 0; i < WEIR_SCENARIO_BACKENDS; i++)
		if (topology->backend[i] != NULL)
			weir_backend_free(&topology->backend[i]);
	for (unsigned i = 0; i < WEIR_SCENARIO_STAGES; i++)
		weir_mem_free(topology->place[i].idle);
	weir_mem_free(topology->stages);
	weir_mem_free(topology);
	*ref = NULL;
}

void weir_topology_end(weir_topology *topology)
{
	const weir_scenario *scenario = topology->scenario;
	if (topology->over)
		return;
	for (unsigned i = 0; i < scenario->stages + scenario->backends; i++)
		weir_record_workers(topology->record, scenario->duration_ns, i, 0);
	topology->over = true;
}

/* ---- during the run ---- */

void weir_topology_trace(weir_topology *topology)
{
	weir_report report;
	unsigned at = 0;
	for (unsigned i = 0; i < topology->scenario->stages; i++)
		for (unsigned k = 0; traced(&topology->scenario->stage[i]) && k < topology->classes;
		     k++, at++)
			if (weir_stage_report(topology->place[i].stage, k, &report))
				weir_record_trace(topology->record, at, &report);
}

static void change_speed(weir_topology *topology, const weir_scenario_change *change)
{
	bool stage = change->stage >= 0;
	unsigned i = (unsigned)(stage ? change->stage : change->backend);
	uint32_t workers =
		stage ? topology->stages[i].workers : topology->scenario->backend[i].options.workers;
	unsigned at = stage ? i : topology->scenario->stages + i;
	weir_record_workers(topology->record, now_of(topology), at, workers * change->speed);
	if (stage)
		topology->place[i].speed = change->speed;
	else
		weir_backend_speed(topology->backend[i], change->speed);
}

static int change_law(weir_topology *topology, place *at)
{
	const weir_admission_law *law;
	void *params;
	int failed = weir_scenario_law_of(topology->scenario, at->as, &law, &params);
	if (failed)
		return failed;
	failed = weir_stage_admission(at->stage, law, params);
	weir_mem_free(params);
	at->law_changed = false;
	return failed;
}

/*
 * Service and work take effect from the next request on. Settings of the law take effect when all lines
 * of this time have been read.
 */
static int change_stage(weir_topology *topology, const weir_scenario_change *change)
{
	place *at = &topology->place[change->stage];
	int failed = weir_scenario_stage_set(topology->scenario, at->as, &change->set);
	at->law_changed |= weir_sim_key_find(weir_sim_keys_stage, change->set.key) == NULL ||
			   strcmp(change->set.key, "law") == 0;
	if (failed || !change->last)
		return failed;
	weir_stage_mode(at->stage, at->as->mode);
	failed = weir_stage_shed_ceiling(at->stage, at->as->ceiling);
	return failed || !at->law_changed ? failed : change_law(topology, at);
}

int weir_topology_change(weir_topology *topology, const weir_scenario_change *change)
{
	if (!change->of_speed)
		return change_stage(topology, change);
	change_speed(topology, change);
	return 0;
}
