/* SPDX-License-Identifier: Apache-2.0 */
#include "service/things.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <weir/inspect.h>

#include "base/error.h"
#include "base/mem.h"
#include "rules/routes.h"
#include "service/config_inside.h"

#define STATE_BYTES 8192u
/* How long a reload waits for room that things make which are just ending. */
#define ROOM_TRIES  100
#define ROOM_NAP_MS 10

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

/* The name by which a route wants its thing: that of what it shares with other routes, or its own. */
typedef struct wish {
	const char *name;
	bool shared;
} wish;

static wish wish_of(const weir_config *config, const weir_config_route *route)
{
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	const char *shared = kind->shares != NULL && has_usual_admission(route) ? kind->shares(&view) : NULL;
	return (wish){shared != NULL ? shared : route->head.title, shared != NULL};
}

static bool is_wanted(const weir_thing *thing, wish wanted)
{
	return thing->shared == wanted.shared && strcmp(thing->wanted, wanted.name) == 0;
}

weir_thing *weir_things_find(const weir_things *things, const weir_config *config,
			     const weir_config_route *route)
{
	wish wanted = wish_of(config, route);
	uint64_t fingerprint = fingerprint_of(config, route);
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next)
		if (thing->fingerprint == fingerprint && is_wanted(thing, wanted))
			return thing;
	return NULL;
}

static bool has_name(const weir_thing *list, const char *name)
{
	for (; list != NULL; list = list->next)
		if (strcmp(list->name, name) == 0)
			return true;
	return false;
}

/* Stages of the service itself, whose names a route may have, too. */
static bool is_inner(const char *name)
{
	static const char *const inner[] = {"admin", "cache-miss", "file", "site-work"};
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
		if (strcmp(inner[i], name) == 0)
			return true;
	return false;
}

/* The route's name; where several routes share the thing, the name of what they share. */
static const char *title_of(const weir_config *config, const weir_config_route *route)
{
	wish wanted = wish_of(config, route);
	for (unsigned i = 0; wanted.shared && i < config->routes; i++) {
		wish other = wish_of(config, &config->route[i]);
		if (&config->route[i] != route && other.shared && strcmp(other.name, wanted.name) == 0)
			return wanted.name;
	}
	return route->head.title;
}

/* "web", or "web~2" while another one of that name is still there; "admin~2", since there always is one. */
static weir_thing *new_thing(const weir_things *things, wish wanted, const char *title, uint64_t fingerprint)
{
	weir_thing *thing = weir_mem_zalloc(sizeof(*thing));
	if (thing == NULL) {
		weir_error_set(-ENOMEM, "out of memory");
		return NULL;
	}
	snprintf(thing->wanted, sizeof(thing->wanted), "%.80s", wanted.name);
	snprintf(thing->name, sizeof(thing->name), "%.80s", title);
	for (unsigned number = 2; has_name(things->first, thing->name) ||
				  has_name(things->retired, thing->name) || is_inner(thing->name);
	     number++)
		snprintf(thing->name, sizeof(thing->name), "%.80s~%u", title, number);
	thing->shared = wanted.shared;
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
		if (is_wanted(other, (wish){thing->wanted, thing->shared}) && other->law == thing->law &&
		    thing->law != NULL && save_law(other, state)) {
			weir_stage_load(thing->stage, state);
			return;
		}
	/* Refused if it is another law's, or was saved by one that wrote it otherwise: then it starts cold. */
	if (learnt != NULL && thing->law != NULL)
		weir_stage_load(thing->stage, learnt);
}

int weir_making_bounded_in(const weir_making *making, weir_domain *domain, uint32_t most,
			   void (*handle)(weir_stage *stage, weir_event **events, size_t count, void *arg),
			   void *arg, weir_stage **ret_stage)
{
	weir_stage_options stage = {.name = making->name,
				    .handle = handle,
				    .drop = weir_request_drop,
				    .arg = arg,
				    .capacity = making->route.queue,
				    .concurrency = most,
				    .admission = making->law,
				    .admission_params = making->law_params};
	return weir_stage_new(domain, &stage, ret_stage);
}

int weir_making_stage_in(const weir_making *making, weir_domain *domain,
			 void (*handle)(weir_stage *stage, weir_event **events, size_t count, void *arg),
			 void *arg, weir_stage **ret_stage)
{
	return weir_making_bounded_in(making, domain, 0, handle, arg, ret_stage);
}

int weir_making_stage(const weir_making *making, const weir_domain_options *pool,
		      void (*handle)(weir_stage *stage, weir_event **events, size_t count, void *arg),
		      void *arg, weir_stage **ret_stage)
{
	weir_domain *domain = making->domain;
	int failed = 0;
	if (pool != NULL) {
		weir_domain_options threads = *pool;
		threads.name = making->name;
		threads.kind = WEIR_ELASTIC;
		failed = weir_domain_new(making->world, &threads, &domain);
	}
	if (failed != 0)
		return failed;
	failed = weir_making_stage_in(making, domain, handle, arg, ret_stage);
	if (pool != NULL && failed == 0)
		making->thing->pool = domain;
	else if (pool != NULL)
		weir_domain_retire(&domain, UINT64_MAX);
	return failed;
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
	bool more = things->retired != NULL;
	for (unsigned i = 0; failed == -ENOSPC && more && i < ROOM_TRIES; i++) {
		nanosleep(&(struct timespec){.tv_nsec = ROOM_NAP_MS * 1000000L}, NULL);
		more = weir_things_tidy(things);
		failed = thing->kind->make(&making, &thing->self, &thing->stage);
	}
	__atomic_store_n(&things->shared[route->kind], shared, __ATOMIC_RELEASE);
	if (failed == -ENOSPC)
		weir_error_set(
			failed,
			"route \"%s\": there is no room for its stage: a process has at most %d at one time, "
			"those included that requests still use",
			route->head.title, WEIR_STAGES_MAX);
	return failed;
}

static weir_thing *make_thing(weir_things *things, const weir_config *config, const weir_config_route *route)
{
	weir_thing *thing = new_thing(things, wish_of(config, route), title_of(config, route),
				      fingerprint_of(config, route));
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
	pthread_mutex_lock(&things->lock);
	thing->next = things->first;
	things->first = thing;
	pthread_mutex_unlock(&things->lock);
	return thing;
}

weir_thing *weir_things_for(weir_things *things, const weir_config *config, const weir_config_route *route)
{
	weir_thing *thing = weir_things_find(things, config, route);
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
		weir_thing *thing = weir_things_find(things, config, &config->route[i]);
		weir_route_view view = weir_config_view(config, &config->route[i]);
		if (thing->kind->prepare != NULL)
			failed = thing->kind->prepare(thing->self, config, &view);
	}
	return failed;
}

/* Whether the law in force has these parameters; not if that cannot be found out. */
static bool same_params(const weir_stage *stage, const weir_admission_law *law, const void *params)
{
	void *current = weir_mem_zalloc(law->params_bytes);
	bool same = current != NULL && weir_stage_read_params(stage, law, current) &&
		    memcmp(current, params, law->params_bytes) == 0;
	weir_mem_free(current);
	return same;
}

/*
 * Whether it is what is in force now. That may have come by the API, so the stage is asked; and the API may replace
 * it at the same time.
 */
static bool same_law(const weir_stage *stage, const weir_admission_law *law, const void *params)
{
	weir_stage_settings settings;
	weir_stage_read_settings(stage, &settings);
	if (settings.law != law || law == NULL)
		return settings.law == law;
	return law->params_bytes == 0 || same_params(stage, law, params);
}

/* A law is touched only where it is to be another: what it has counted goes with it. */
static int set_law(weir_thing *thing, const weir_config *config, const weir_config_route *route)
{
	const weir_admission_law *law;
	void *params = NULL;
	int failed = weir_config_law(config, route, &law, &params);
	if (failed == 0 && !same_law(thing->stage, law, params)) {
		failed = weir_stage_admission(thing->stage, law, params);
		weir_account_law_replaced(&thing->account);
	}
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
		weir_thing *thing = weir_things_find(things, config, route);
		int error = set_law(thing, config, route);
		weir_stage_mode(thing->stage, route->dry_run ? WEIR_DRY_RUN : WEIR_ENFORCE);
		weir_stage_shed_ceiling(thing->stage, route->shed_ceiling);
		failed = failed != 0 ? failed : error;
	}
	return failed;
}

/* Notes for each thing the first route that leads to it. */
static void find_routes(const weir_things *things, const weir_config *config)
{
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next)
		thing->route = NULL;
	for (unsigned i = config->routes; i-- > 0;) {
		weir_thing *thing = weir_things_find(things, config, &config->route[i]);
		if (thing != NULL)
			thing->route = &config->route[i];
	}
}

/* Out of the list, so that nobody finds it any more. */
static void retire(weir_things *things, weir_thing **link)
{
	weir_thing *thing = *link;
	pthread_mutex_lock(&things->lock);
	*link = thing->next;
	pthread_mutex_unlock(&things->lock);
	if (thing->kind->retire != NULL)
		thing->kind->retire(thing->self);
	thing->last_table = things->table;
	thing->next = things->retired;
	things->retired = thing;
}

void weir_things_leave(weir_things *things, const weir_config *config)
{
	find_routes(things, config);
	for (weir_thing **link = &things->first, *thing; (thing = *link) != NULL;) {
		const weir_config_route *route = thing->route;
		if (route == NULL) {
			retire(things, link);
			continue;
		}
		weir_route_view view = weir_config_view(config, route);
		if (thing->kind->apply != NULL)
			thing->kind->apply(thing->self, config, &view);
		link = &thing->next;
	}
}

/* ---- ending ---- */

void weir_things_replaced(weir_things *things, struct weir_routes *old)
{
	weir_old_table *table = old != NULL ? weir_mem_zalloc(sizeof(*table)) : NULL;
	if (table != NULL) {
		*table = (weir_old_table){things->tables, old, things->table};
		things->tables = table;
	} else if (old != NULL) {
		things->lost_table = true; /* out of memory: what it led to stays until the end */
		weir_routes_unref(old);
	}
	things->table++;
}

/* Those that only we still hold are gone. */
static void drop_tables(weir_things *things)
{
	for (weir_old_table **link = &things->tables, *table; (table = *link) != NULL;) {
		if (!weir_routes_is_last(table->routes)) {
			link = &table->next;
			continue;
		}
		*link = table->next;
		weir_routes_unref(table->routes);
		weir_mem_free(table);
	}
}

/* Tables up to the last that led to it: none later did. */
static bool is_led_to(const weir_things *things, const weir_thing *thing)
{
	for (const weir_old_table *table = things->tables; table != NULL; table = table->next)
		if (table->number <= thing->last_table)
			return true;
	return things->lost_table;
}

/* True: it is free. */
static bool end_thing(weir_things *things, weir_thing *thing)
{
	int failed = thing->stage != NULL ? weir_stage_retire(&thing->stage, 0, NULL) : 0;
	if (failed == -EPROTO)
		weir_errors_say(things->errors, WEIR_LOG_ERROR, "retire",
				"stage '%s': its counts do not add up", thing->name);
	if (thing->stage != NULL || (thing->pool != NULL && weir_domain_retire(&thing->pool, 0) != 0) ||
	    (thing->kind->over != NULL && !thing->kind->over(thing->self)))
		return false;
	thing->kind->free(thing->self);
	weir_mem_free(thing);
	return true;
}

bool weir_things_tidy(weir_things *things)
{
	drop_tables(things);
	for (weir_thing **link = &things->retired, *thing; (thing = *link) != NULL;) {
		weir_thing *next = thing->next;
		if (!is_led_to(things, thing) && end_thing(things, thing))
			*link = next;
		else
			link = &thing->next;
	}
	return things->retired != NULL || things->tables != NULL;
}

void weir_things_save(const weir_things *things, const weir_config *config, FILE *to)
{
	char state[STATE_BYTES];
	for (unsigned i = 0; i < config->routes; i++) {
		weir_thing *thing = weir_things_find(things, config, &config->route[i]);
		if (thing != NULL && thing->saved != to && save_law(thing, state))
			weir_handover_put_law(to, thing->wanted, state);
		if (thing != NULL)
			thing->saved = to; /* other routes may lead to it, too */
	}
	for (weir_thing *thing = things->first; thing != NULL; thing = thing->next)
		thing->saved = NULL;
}

static void free_list(weir_thing *thing)
{
	for (weir_thing *next; thing != NULL; thing = next) {
		next = thing->next;
		thing->kind->free(thing->self);
		weir_mem_free(thing);
	}
}

void weir_things_init(weir_things *things)
{
	pthread_mutex_init(&things->lock, NULL);
}

void weir_things_free(weir_things *things)
{
	if (things->kinds == NULL)
		return;
	for (weir_old_table *table = things->tables, *next; table != NULL; table = next) {
		next = table->next;
		weir_routes_unref(table->routes);
		weir_mem_free(table);
	}
	free_list(things->first);
	free_list(things->retired);
	for (unsigned i = 0; things->kinds[i] != NULL; i++)
		if (things->kinds[i]->close != NULL && things->shared[i] != NULL)
			things->kinds[i]->close(things->shared[i]);
	pthread_mutex_destroy(&things->lock);
}
