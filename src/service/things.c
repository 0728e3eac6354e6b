/* SPDX-License-Identifier: Apache-2.0 */
#include "service/things.h"

#include <errno.h>
#include <string.h>
#include <weir/inspect.h>

#include "base/error.h"
#include "base/mem.h"
#include "service/config_inside.h"
#include "stage/runtime.h"

#define STATE_BYTES 8192u

/* ---- which thing ---- */

/* All values of a table that cannot be changed in place. */
static uint64_t hash_keys(const weir_key *keys, const void *values, uint64_t hash)
{
	for (; keys != NULL && keys->name != NULL; keys++)
		if ((keys->flags & WEIR_KEY_LIVE) == 0)
			hash = weir_key_hash(keys, values, hash);
	return hash;
}

/* The block that a key of a route names is a part of what it leads to. */
static uint64_t hash_block(const weir_config *config, const weir_key *key, const void *values, uint64_t hash)
{
	const char *title;
	memcpy(&title, (const char *)values + key->offset, sizeof(title));
	const weir_block_head *head = title != NULL ? weir_config_find(config, key->block, title) : NULL;
	return head != NULL ? hash_keys(head->block->is->keys, head, hash) : hash;
}

static uint64_t fingerprint_of(const weir_config *config, const weir_config_route *route)
{
	static const weir_key queue = WEIR_KEY("queue", COUNT, weir_config_route, queue, NULL, NULL),
			      number = WEIR_KEY("kind", COUNT, weir_config_route, kind, NULL, NULL);
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	uint64_t hash = weir_key_hash(&queue, route, WEIR_KEY_HASH);
	hash = weir_key_hash(&number, route, hash);
	hash = hash_keys(kind->keys, view.values, hash);
	for (const weir_key *key = kind->keys; key->name != NULL; key++)
		if (key->block != NULL)
			hash = hash_block(config, key, view.values, hash);
	return kind->identity != NULL ? hash + kind->identity(config, &view) : hash;
}

/* Whether nothing about its admission is its own: target and queue are as where nobody wrote any. */
static bool has_usual_admission(const weir_config_route *route)
{
	bool usual_target = route->target == NULL || strcmp(route->target, "default") == 0;
	return route->law == NULL && route->params.count == 0 && usual_target &&
	       route->queue == WEIR_CONFIG_QUEUE;
}

static const char *name_of(const weir_config *config, const weir_config_route *route)
{
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	const char *shared = kind->shares != NULL && has_usual_admission(route) ? kind->shares(&view) : NULL;
	return shared != NULL ? shared : route->head.title;
}

static weir_thing *thing_of(const weir_things *things, const weir_config *config,
			    const weir_config_route *route)
{
	const char *wanted = name_of(config, route);
	uint64_t fingerprint = fingerprint_of(config, route);
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next)
		if (strcmp(thing->wanted, wanted) == 0 && thing->fingerprint == fingerprint)
			return thing;
	return NULL;
}

/* "app", then "app~2", "app~3": names of stages are for ever. */
static weir_thing *new_thing(const weir_things *things, const char *wanted, uint64_t fingerprint)
{
	weir_thing *thing = weir_mem_zalloc(sizeof(*thing));
	unsigned number = 1;
	if (thing == NULL) {
		weir_error_set(-ENOMEM, "out of memory");
		return NULL;
	}
	for (const weir_thing *other = things->first; other != NULL; other = other->next)
		number += strcmp(other->wanted, wanted) == 0;
	snprintf(thing->wanted, sizeof(thing->wanted), "%.80s", wanted);
	if (number == 1)
		snprintf(thing->name, sizeof(thing->name), "%.80s", wanted);
	else
		snprintf(thing->name, sizeof(thing->name), "%.80s~%u", wanted, number);
	thing->fingerprint = fingerprint;
	return thing;
}

/* ---- making ---- */

/* What its law has learnt; false: nothing that could be saved. */
static bool save_law(const weir_thing *thing, char state[STATE_BYTES])
{
	int length = weir_stage_save(thing->stage, state, STATE_BYTES);
	return length > 0 && (size_t)length < STATE_BYTES;
}

/* A new thing goes on where the one that it replaces was, here or in the process before. */
static void inherit_law(const weir_things *things, weir_thing *thing)
{
	char state[STATE_BYTES];
	const char *learnt = weir_handover_law(things->handover, thing->wanted);
	for (const weir_thing *other = things->first; other != NULL; other = other->next)
		if (strcmp(other->wanted, thing->wanted) == 0 && other->law == thing->law &&
		    thing->law != NULL && save_law(other, state)) {
			weir_stage_load(thing->stage, state);
			return;
		}
	/* Refused if it is another law's, or was saved by one that wrote it otherwise: then it starts cold. */
	if (learnt != NULL && thing->law != NULL)
		weir_stage_load(thing->stage, learnt);
}

int weir_making_stage(const weir_making *making, const weir_domain_options *pool,
		      void (*handle)(weir_stage *stage, weir_event **events, size_t count, void *arg),
		      void *arg, weir_stage **ret_stage)
{
	weir_stage_options stage = {.name = making->name,
				    .handle = handle,
				    .drop = weir_request_drop,
				    .arg = arg,
				    .capacity = making->route.queue,
				    .admission = making->law,
				    .admission_params = making->law_params};
	weir_domain *domain = making->domain;
	int failed = 0;
	if (pool != NULL) {
		weir_domain_options threads = *pool;
		threads.name = making->name;
		threads.kind = WEIR_ELASTIC;
		failed = weir_domain_new(making->world, &threads, &domain);
	}
	if (failed == 0 && pool != NULL)
		making->thing->pool = domain;
	return failed != 0 ? failed : weir_stage_new(domain, &stage, ret_stage);
}

/* The kind's own function. What all its things share is made with the first one, and published when it is whole. */
static int make(weir_things *things, weir_thing *thing, const void *params, const weir_config *config,
		const weir_config_route *route)
{
	void *shared = things->shared[route->kind];
	weir_making making = {.config = config,
			      .route = weir_config_view(config, route),
			      .name = thing->name,
			      .law = thing->law,
			      .law_params = params,
			      .world = things->world,
			      .domain = things->domain,
			      .files = things->files,
			      .errors = things->errors,
			      .shared = &shared,
			      .thing = thing};
	thing->kind = weir_config_kind(config, route);
	int failed = thing->kind->make(&making, &thing->self, &thing->stage);
	__atomic_store_n(&things->shared[route->kind], shared, __ATOMIC_RELEASE);
	if (failed == -ENOSPC)
		weir_error_set(
			failed,
			"route \"%s\": there is no room for its stage: a process has at most %d since "
			"its start, those that reloads have replaced included; a restart or a successor "
			"(SIGUSR2) begins anew",
			route->head.title, WEIR_STAGES_MAX);
	return failed;
}

static weir_thing *make_thing(weir_things *things, const weir_config *config, const weir_config_route *route)
{
	weir_thing *thing = new_thing(things, name_of(config, route), fingerprint_of(config, route));
	void *params = NULL;
	if (thing == NULL)
		return NULL;
	int failed = weir_config_law(config, route, &thing->law, &params);
	if (failed == 0)
		failed = make(things, thing, params, config, route);
	weir_mem_free(params);
	if (failed != 0) {
		weir_mem_free(thing);
		return NULL;
	}
	if (things->monitor != NULL)
		weir_monitor_subscribe(things->monitor, thing->stage);
	inherit_law(things, thing);
	thing->next = things->first;
	__atomic_store_n(&things->first, thing, __ATOMIC_RELEASE);
	return thing;
}

weir_thing *weir_things_for(weir_things *things, const weir_config *config, const weir_config_route *route)
{
	weir_thing *thing = thing_of(things, config, route);
	return thing != NULL ? thing : make_thing(things, config, route);
}

int weir_things_start(weir_things *things)
{
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next) {
		int failed =
			!thing->started && thing->kind->start != NULL ? thing->kind->start(thing->self) : 0;
		if (failed != 0)
			return failed;
		thing->started = true;
	}
	return 0;
}

/* ---- changing ---- */

int weir_things_prepare(weir_things *things, const weir_config *config)
{
	int failed = 0;
	for (unsigned i = 0; failed == 0 && i < config->routes; i++) {
		weir_thing *thing = thing_of(things, config, &config->route[i]);
		weir_route_view view = weir_config_view(config, &config->route[i]);
		if (thing->kind->prepare != NULL)
			failed = thing->kind->prepare(thing->self, config, &view);
	}
	return failed;
}

/* Whether it is what is in force now. That may have come by the API, so the stage is asked; its gates stay until it is freed. */
static bool same_law(const weir_stage *stage, const weir_admission_law *law, const void *params)
{
	const weir_gate *gate = weir_stage_gate(stage);
	const weir_admission_law *current = gate != NULL && !gate->bare ? gate->law : NULL;
	if (current != law || law == NULL)
		return current == law;
	return law->params_bytes == 0 ||
	       (gate->params != NULL && memcmp(gate->params, params, law->params_bytes) == 0);
}

/* A law is touched only where it is to be another: what it has counted goes with it. */
static int set_law(weir_thing *thing, const weir_config *config, const weir_config_route *route)
{
	const weir_admission_law *law;
	void *params = NULL;
	int failed = weir_config_law(config, route, &law, &params);
	if (failed == 0 && !same_law(thing->stage, law, params))
		failed = weir_stage_admission(thing->stage, law, params);
	if (failed == 0)
		thing->law = law;
	weir_mem_free(params);
	return failed;
}

int weir_things_settle(weir_things *things, const weir_config *config)
{
	int failed = 0;
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		weir_thing *thing = thing_of(things, config, route);
		int error = set_law(thing, config, route);
		weir_stage_mode(thing->stage, route->dry_run ? WEIR_DRY_RUN : WEIR_ENFORCE);
		weir_stage_shed_ceiling(thing->stage, route->shed_ceiling);
		failed = failed != 0 ? failed : error;
	}
	return failed;
}

/* Which route leads to the thing; NULL: none does. */
static const weir_config_route *route_to(const weir_things *things, const weir_config *config,
					 const weir_thing *thing)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (thing_of(things, config, &config->route[i]) == thing)
			return &config->route[i];
	return NULL;
}

void weir_things_leave(weir_things *things, const weir_config *config)
{
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next) {
		const weir_config_route *route = route_to(things, config, thing);
		if (thing->kind->retire != NULL)
			thing->kind->retire(thing->self, route == NULL);
		if (route != NULL && thing->kind->apply != NULL) {
			weir_route_view view = weir_config_view(config, route);
			thing->kind->apply(thing->self, config, &view);
		}
	}
}

/* Whether a route before this one leads to the same thing. */
static bool is_repeated(const weir_config *config, unsigned route)
{
	for (unsigned i = 0; i < route; i++)
		if (strcmp(name_of(config, &config->route[i]), name_of(config, &config->route[route])) == 0)
			return true;
	return false;
}

void weir_things_save(const weir_things *things, const weir_config *config, FILE *to)
{
	char state[STATE_BYTES];
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		const weir_thing *thing = thing_of(things, config, route);
		if (thing != NULL && !is_repeated(config, i) && save_law(thing, state))
			weir_handover_put_law(to, thing->wanted, state);
	}
}

void weir_things_free(weir_things *things)
{
	for (weir_thing *thing = things->first, *next; thing != NULL; thing = next) {
		next = thing->next;
		thing->kind->free(thing->self);
		weir_mem_free(thing);
	}
	things->first = NULL;
	for (unsigned i = 0; things->kinds != NULL && things->kinds[i] != NULL; i++)
		if (things->kinds[i]->close != NULL && things->shared[i] != NULL)
			things->kinds[i]->close(things->shared[i]);
}
