/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/service.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "sim/keys.h"

typedef struct place {
	weir_service *service;
	weir_scenario_stage *as; /* a copy that changes with the run */
	weir_stage *stage;
	unsigned index;
	double speed;
	bool law_changed;
} place;

struct weir_service {
	const weir_scenario *scenario;
	weir_world *world;
	weir_record *record;
	weir_random random;
	weir_scenario_stage *stages; /* copies */
	place place[WEIR_SCENARIO_STAGES];
	weir_backend *backend[WEIR_SCENARIO_BACKENDS];
	unsigned classes;
	bool over;
};

/* ---- the way of a request ---- */

static uint64_t now_of(const weir_service *service)
{
	return weir_world_now(service->world) - WEIR_NS_PER_S;
}

void weir_service_account(weir_request *request, uint64_t now_ns, weir_use use)
{
	for (unsigned i = 0; i < request->works; i++)
		weir_record_work(request->service->record, now_ns, request->work[i].place,
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

static void end(weir_request *request, weir_ending how)
{
	if (!request->service->over)
		request->ended(request, how);
}

/* What the stage has to do for it, in ns of one worker at its usual speed. */
static double demand(weir_service *service, const place *at, const weir_dist *dist,
		     const weir_request *request)
{
	double ns = weir_dist_draw(dist, &service->random) * request->cost;
	if (at->as->degrade < 1)
		ns *= at->as->degrade + (1 - at->as->degrade) * weir_stage_quality(at->stage, request->klass);
	return ns;
}

static int choose_next(weir_service *service, const weir_scenario_stage *stage)
{
	unsigned last = stage->next_count - 1;
	if (last == 0)
		return stage->next[0].index;
	double at = weir_random_unit(&service->random);
	for (unsigned i = 0; i < last; i++) {
		at -= stage->next[i].share;
		if (at < 0)
			return stage->next[i].index;
	}
	return stage->next[last].index;
}

static void leave(weir_request *request)
{
	weir_service *service = request->service;
	const weir_scenario_stage *stage = service->place[request->at].as;
	if (stage->next_count == 0) {
		weir_done(&request->event);
		end(request, WEIR_ENDED_COMPLETED);
		return;
	}
	uint8_t before = request->at;
	request->at = (uint8_t)choose_next(service, stage);
	if (weir_offer(service->place[request->at].stage, &request->event) == WEIR_ADMITTED)
		return;
	request->at = before;
	weir_refused(&request->event);
	end(request, WEIR_ENDED_DROPPED);
}

static void backend_done(weir_backend_job *job, bool refused, void *arg)
{
	weir_request *request = arg;
	(void)job;
	if (!refused) {
		leave(request);
		return;
	}
	request->works--; /* it was not even tried */
	weir_refused(&request->event);
	end(request, WEIR_ENDED_DROPPED);
}

static void work_behind(weir_request *request)
{
	weir_service *service = request->service;
	place *at = &service->place[request->at];
	unsigned backend = (unsigned)at->as->backend_index;
	double work_ns = demand(service, at, &at->as->work, request);
	note_work(request, service->scenario->stages + backend, work_ns);
	weir_backend_submit(service->backend[backend], &request->job, work_ns, backend_done, request);
}

static void served(weir_timer *timer, void *arg)
{
	weir_request *request = arg;
	(void)timer;
	if (request->service->place[request->at].as->backend_index >= 0)
		work_behind(request);
	else
		leave(request);
}

static void serve(place *at, weir_request *request)
{
	weir_service *service = at->service;
	weir_hold(&request->event);
	if (at->as->service.mean == 0) {
		work_behind(request);
		return;
	}
	double ns = demand(service, at, &at->as->service, request);
	note_work(request, at->index, ns);
	weir_timer_init(&request->timer, served, request);
	weir_sim_timer(service->world, &request->timer,
		       weir_world_now(service->world) + (uint64_t)(ns / at->speed + 0.5));
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	(void)stage;
	for (size_t i = 0; i < count; i++)
		serve(arg, (weir_request *)events[i]);
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	(void)stage;
	(void)why;
	(void)arg;
	end((weir_request *)event, WEIR_ENDED_DROPPED);
}

static weir_stage *prepare(weir_service *service, weir_request *request)
{
	unsigned at = (unsigned)service->scenario->type[request->type].stage_index;
	weir_event_init(&request->event, request->klass);
	request->event.cost = request->cost < 4e6 ? (uint32_t)(request->cost * 1000) : UINT32_MAX;
	if (request->exempt)
		request->event.flags |= WEIR_EVENT_EXEMPT;
	request->service = service;
	request->at = (uint8_t)at;
	request->works = 0;
	return service->place[at].stage;
}

weir_verdict weir_service_enter(weir_service *service, weir_request *request)
{
	return weir_offer(prepare(service, request), &request->event);
}

weir_verdict weir_service_enter_many(weir_service *service, weir_request **requests, unsigned count)
{
	weir_event *events[WEIR_BATCH_MAX];
	weir_stage *stage = NULL;
	for (unsigned i = 0; i < count; i++) {
		stage = prepare(service, requests[i]);
		events[i] = &requests[i]->event;
	}
	return weir_offer_many(stage, events, count);
}

/* ---- making ---- */

unsigned weir_service_classes(const weir_scenario *scenario)
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

unsigned weir_service_traces(const weir_scenario *scenario)
{
	unsigned stages = 0;
	for (unsigned i = 0; i < scenario->stages; i++)
		stages += traced(&scenario->stage[i]);
	return stages * weir_service_classes(scenario);
}

static void name_traces(weir_service *service)
{
	unsigned at = 0;
	for (unsigned i = 0; i < service->scenario->stages; i++)
		for (unsigned k = 0; traced(&service->scenario->stage[i]) && k < service->classes; k++) {
			service->record->trace[at].stage = service->scenario->stage[i].name;
			service->record->trace[at++].klass = k;
		}
}

static int make_domain(weir_service *service, const weir_scenario_stage *as, weir_domain **ret_domain)
{
	weir_domain_options options = {.name = as->name,
				       .kind = WEIR_ELASTIC,
				       .min_threads = as->workers,
				       .max_threads = as->workers};
	return weir_domain_new(service->world, &options, ret_domain);
}

static int make_stage(weir_service *service, unsigned i)
{
	place *at = &service->place[i];
	weir_scenario_stage *as = &service->stages[i];
	weir_domain *domain;
	void *params = NULL;
	*at = (place){.service = service, .as = as, .index = i, .speed = 1};
	weir_stage_options options = {.name = as->name,
				      .handle = handle,
				      .drop = drop,
				      .arg = at,
				      .capacity = as->capacity,
				      .order = as->order,
				      .newest_after_ns = as->newest_after_ns,
				      .heed_downstream = as->heeds};
	int failed = make_domain(service, as, &domain);
	if (!failed)
		failed = weir_scenario_law_of(service->scenario, as, &options.admission, &params);
	options.admission_params = params;
	if (!failed)
		failed = weir_stage_new(domain, &options, &at->stage);
	if (!failed) {
		weir_stage_mode(at->stage, as->mode);
		failed = weir_stage_shed_ceiling(at->stage, as->ceiling);
	}
	weir_mem_free(params);
	return failed;
}

static int make_places(weir_service *service)
{
	const weir_scenario *scenario = service->scenario;
	weir_place *places = service->record->place;
	int failed = 0;
	for (unsigned i = 0; i < scenario->stages && !failed; i++) {
		failed = make_stage(service, i);
		places[i].name = scenario->stage[i].name;
		weir_record_workers(service->record, 0, i, scenario->stage[i].workers);
	}
	for (unsigned i = 0; i < scenario->backends && !failed; i++) {
		const weir_scenario_backend *as = &scenario->backend[i];
		failed = weir_backend_new(service->world, &as->options, &service->backend[i]);
		places[scenario->stages + i].name = as->name;
		weir_record_workers(service->record, 0, scenario->stages + i, as->options.workers);
	}
	return failed;
}

int weir_service_new(const weir_scenario *scenario, weir_world *world, uint64_t seed, weir_record *record,
		     weir_service **ret_service)
{
	weir_service *service = weir_mem_zalloc(sizeof *service);
	if (service == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	*service = (weir_service){.scenario = scenario, .world = world, .record = record};
	service->stages = weir_mem_array(WEIR_SCENARIO_STAGES, sizeof *service->stages);
	service->classes = weir_service_classes(scenario);
	weir_random_init(&service->random, seed);
	int failed = service->stages == NULL ? weir_error_set(-ENOMEM, "out of memory") : 0;
	if (!failed) {
		memcpy(service->stages, scenario->stage, sizeof scenario->stage);
		name_traces(service);
		failed = make_places(service);
	}
	*ret_service = service; /* also after a failure: to be freed after its world */
	return failed;
}

void weir_service_free(weir_service **ref)
{
	weir_service *service = *ref;
	if (service == NULL)
		return;
	for (unsigned i = 0; i < WEIR_SCENARIO_BACKENDS; i++)
		if (service->backend[i] != NULL)
			weir_backend_free(&service->backend[i]);
	weir_mem_free(service->stages);
	weir_mem_free(service);
	*ref = NULL;
}

void weir_service_end(weir_service *service)
{
	const weir_scenario *scenario = service->scenario;
	if (service->over)
		return;
	for (unsigned i = 0; i < scenario->stages + scenario->backends; i++)
		weir_record_workers(service->record, scenario->duration_ns, i, 0);
	service->over = true;
}

/* ---- while it runs ---- */

void weir_service_trace(weir_service *service)
{
	weir_report report;
	unsigned at = 0;
	for (unsigned i = 0; i < service->scenario->stages; i++)
		for (unsigned k = 0; traced(&service->scenario->stage[i]) && k < service->classes; k++, at++)
			if (weir_stage_report(service->place[i].stage, k, &report))
				weir_record_trace(service->record, at, &report);
}

static void change_speed(weir_service *service, const weir_scenario_change *change)
{
	bool stage = change->stage >= 0;
	unsigned i = (unsigned)(stage ? change->stage : change->backend);
	uint32_t workers = stage ? service->stages[i].workers : service->scenario->backend[i].options.workers;
	unsigned at = stage ? i : service->scenario->stages + i;
	weir_record_workers(service->record, now_of(service), at, workers * change->speed);
	if (stage)
		service->place[i].speed = change->speed;
	else
		weir_backend_speed(service->backend[i], change->speed);
}

static int change_law(weir_service *service, place *at)
{
	const weir_admission_law *law;
	void *params;
	int failed = weir_scenario_law_of(service->scenario, at->as, &law, &params);
	if (failed)
		return failed;
	failed = weir_stage_admission(at->stage, law, params);
	weir_mem_free(params);
	at->law_changed = false;
	return failed;
}

/* Service and work count from the next request on; what concerns the law, when all lines of this time have been read. */
static int change_stage(weir_service *service, const weir_scenario_change *change)
{
	place *at = &service->place[change->stage];
	int failed = weir_scenario_stage_set(service->scenario, at->as, &change->set);
	at->law_changed |= weir_key_find(weir_keys_stage, change->set.key) == NULL ||
			   strcmp(change->set.key, "law") == 0;
	if (failed || !change->last)
		return failed;
	weir_stage_mode(at->stage, at->as->mode);
	failed = weir_stage_shed_ceiling(at->stage, at->as->ceiling);
	return failed || !at->law_changed ? failed : change_law(service, at);
}

int weir_service_change(weir_service *service, const weir_scenario_change *change)
{
	if (!change->of_speed)
		return change_stage(service, change);
	change_speed(service, change);
	return 0;
}
