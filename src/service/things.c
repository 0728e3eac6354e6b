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

static bool has_name(const weir_thing *list, const char *name)
{
	for (; list != NULL; list = list->next)
		if (strcmp(list->name, name) == 0)
			return true;
	return false;
}

/* "app", or "app~2" while the one that it replaces is still there. */
static weir_thing *new_thing(const weir_things *things, const char *wanted, uint64_t fingerprint)
{
	weir_thing *thing = weir_mem_zalloc(sizeof(*thing));
	if (thing == NULL) {
		weir_error_set(-ENOMEM, "out of memory");
		return NULL;
	}
	snprintf(thing->wanted, sizeof(thing->wanted), "%.80s", wanted);
	snprintf(thing->name, sizeof(thing->name), "%.80s", wanted);
	for (unsigned number = 2;
	     has_name(things->first, thing->name) || has_name(things->retired, thing->name); number++)
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
	pthread_mutex_lock(&things->lock);
	thing->next = things->first;
	things->first = thing;
	pthread_mutex_unlock(&things->lock);
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
		weir_thing *thing = thing_of(things, config, route);
		int error = set_law(thing, config, route);
		weir_stage_mode(thing->stage, route->dry_run ? WEIR_DRY_RUN : WEIR_ENFORCE);
		weir_stage_shed_ceiling(thing->stage, route->shed_ceiling);
		failed = failed != 0 ? failed : error;
	}
	return failed;
}

/* ---- accounts ---- */

static void account_for(weir_things *things, weir_thing *thing, const weir_account_terms *terms,
			uint64_t now_ns)
{
	weir_account *account = &thing->account;
	if (account->kept && account->last_ns == now_ns) /* another route leads to it, too */
		return;
	pthread_mutex_lock(&things->lock);
	bool over = weir_account_keep(account, thing->stage, terms, now_ns);
	pthread_mutex_unlock(&things->lock);
	if (over)
		weir_errors_say(things->errors, WEIR_LOG_WARN, "guarantee",
				"%s: classes are guaranteed %.3g requests a second, and it can serve %.3g",
				thing->name, account->shown.guaranteed_per_s, account->shown.capacity_per_s);
}

bool weir_things_account(weir_things *things, const weir_config *config)
{
	weir_account_terms terms = {.worth = weir_config_worth(config)};
	uint64_t now_ns = weir_world_now(things->world);
	if (!terms.worth.has_revenue && !terms.worth.has_guarantee && config->slas == 0)
		return false;
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		const weir_config_sla *sla = weir_config_sla_of(config, route);
		weir_thing *thing = thing_of(things, config, route);
		terms.agreement = sla != NULL ? &sla->agreement : NULL;
		if (thing != NULL && !route->exempt)
			account_for(things, thing, &terms, now_ns);
	}
	return true;
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
	for (weir_thing **link = &things->first, *thing; (thing = *link) != NULL;) {
		const weir_config_route *route = route_to(things, config, thing);
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
