/* SPDX-License-Identifier: Apache-2.0 */
#include "service/place.h"

#include <bottleneck/bottleneck.h>
#include <errno.h>
#include <string.h>
#include <weir/inspect.h>

#include "base/error.h"
#include "base/mem.h"
#include "stage/runtime.h"

#define STATE_BYTES   8192u
#define BACKENDS_MOST 256u
#define ANEW          "a restart or a successor (SIGUSR2) begins anew"

/* ---- which place ---- */

/* FNV-1a: a fingerprint that two settings share by accident keeps an old setting until the next start, no worse. */
static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return text != NULL ? mix_bytes(hash, text, strlen(text) + 1) : mix_bytes(hash, "", 1);
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
	return mix_bytes(hash, &number, sizeof(number));
}

static uint64_t mix_list(uint64_t hash, const char *const *list)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		hash = mix_text(hash, list[i]);
	return mix_number(hash, 0);
}

static const weir_config_backend *backend_of(const weir_config *config, const weir_config_route *route)
{
	return route->backend_index >= 0 ? &config->backend[route->backend_index] : NULL;
}

/* What makes another place of it: all that is set once, when it is made. Servers are not: they come and go. */
static uint64_t fingerprint_of(const weir_config *config, const weir_config_route *route)
{
	const weir_config_backend *backend = backend_of(config, route);
	uint64_t hash = mix_number(UINT64_C(0xcbf29ce484222325), route->queue);
	if (backend == NULL) {
		hash = mix_text(mix_text(hash, route->root), route->demo);
		return mix_number(mix_list(hash, route->index), route->listing);
	}
	hash = mix_text(mix_text(mix_text(hash, backend->health), backend->host), backend->ca);
	hash = mix_number(mix_number(hash, backend->health_interval_ns), backend->health_timeout_ns);
	hash = mix_number(mix_number(hash, backend->health_rise), backend->health_fall);
	hash = mix_number(mix_number(hash, backend->connections), backend->idle_connections);
	hash = mix_number(hash, backend->concurrency != 0); /* by how much is changed in place */
	hash = mix_number(mix_number(hash, backend->connect_timeout_ns), backend->first_byte_timeout_ns);
	hash = mix_number(mix_number(hash, backend->body_timeout_ns), backend->idle_timeout_ns);
	hash = mix_bytes(hash, &backend->retry_budget, sizeof(backend->retry_budget));
	hash = mix_number(mix_number(hash, backend->slow_start_ns), backend->forwarded);
	hash = mix_number(hash, backend->heed_refusals);
	return mix_number(mix_number(hash, backend->quality), backend->verify);
}

/* Routes with nothing of their own about admission share the backend's stage: target and queue are as where nobody wrote any. */
static bool shares_stage(const weir_config_route *route)
{
	bool usual_target = route->target == NULL || strcmp(route->target, "default") == 0;
	return route->backend != NULL && route->law == NULL && route->params.count == 0 && usual_target &&
	       route->queue == WEIR_CONFIG_QUEUE;
}

static const char *name_of(const weir_config_route *route)
{
	return shares_stage(route) ? route->backend : route->head.title;
}

static weir_place *find(const weir_places *places, const char *wanted, uint64_t fingerprint)
{
	for (weir_place *place = places->first; place != NULL; place = place->next)
		if (strcmp(place->wanted, wanted) == 0 && place->fingerprint == fingerprint)
			return place;
	return NULL;
}

/* "app", then "app~2", "app~3": names of stages are for ever. */
static weir_place *new_place(weir_places *places, const char *wanted, uint64_t fingerprint)
{
	weir_place *place = weir_mem_zalloc(sizeof(*place));
	unsigned number = 1;
	if (place == NULL) {
		weir_error_set(-ENOMEM, "out of memory");
		return NULL;
	}
	for (const weir_place *other = places->first; other != NULL; other = other->next)
		number += strcmp(other->wanted, wanted) == 0;
	snprintf(place->wanted, sizeof(place->wanted), "%.80s", wanted);
	if (number == 1)
		snprintf(place->name, sizeof(place->name), "%.80s", wanted);
	else
		snprintf(place->name, sizeof(place->name), "%.80s~%u", wanted, number);
	place->fingerprint = fingerprint;
	return place;
}

/* ---- backends ---- */

static weir_origin_options origin_of(const weir_config_backend *backend, const char *url)
{
	return (weir_origin_options){.url = url,
				     .host = backend->host != NULL ? WEIR_HOST_NAMED : WEIR_HOST_CLIENT,
				     .host_name = backend->host,
				     .concurrency = backend->connections,
				     .ca = backend->ca,
				     .unverified = !backend->verify,
				     .slow_start_ns = backend->slow_start_ns != 0 ? backend->slow_start_ns
										  : UINT64_MAX,
				     .rise = backend->health_rise,
				     .fall = backend->health_fall};
}

static weir_bound *make_bound(weir_places *places, const weir_config_backend *backend)
{
	weir_place_bound *at = weir_mem_zalloc(sizeof(*at));
	if (at == NULL) {
		weir_error_set(-ENOMEM, "out of memory");
		return NULL;
	}
	if (weir_bound_new(backend->concurrency, &at->bound) != 0) {
		weir_mem_free(at);
		return NULL;
	}
	snprintf(at->backend, sizeof(at->backend), "%.95s", backend->head.title);
	at->next = places->bounds;
	places->bounds = at;
	return at->bound;
}

static weir_bound *find_bound(const weir_places *places, const weir_config_backend *backend)
{
	for (const weir_place_bound *at = places->bounds; at != NULL; at = at->next)
		if (strcmp(at->backend, backend->head.title) == 0)
			return at->bound;
	return NULL;
}

/* The bound of a backend that has one; one that is there is left as it is. NULL: weir_error says why. */
static weir_bound *bound_of(weir_places *places, const weir_config_backend *backend)
{
	weir_bound *bound = find_bound(places, backend);
	return bound != NULL ? bound : make_bound(places, backend);
}

static void free_bounds(weir_places *places)
{
	for (weir_place_bound *at = places->bounds, *next; at != NULL; at = next) {
		next = at->next;
		weir_bound_free(&at->bound);
		weir_mem_free(at);
	}
	places->bounds = NULL;
}

static void backend_changed(const weir_origin *origin, bool up, void *errors)
{
	weir_errors_say(errors, up ? WEIR_LOG_INFO : WEIR_LOG_WARN, "health", "backend %s is %s",
			origin->name, up ? "up again" : "down: its health checks fail");
}

static int make_sentry(weir_places *places, weir_place *place, const void *params,
		       const weir_config_route *route, const weir_config_backend *backend)
{
	weir_origin_options origins[BACKENDS_MOST];
	weir_bound *bound = backend->concurrency != 0 ? bound_of(places, backend) : NULL;
	if (bound == NULL && backend->concurrency != 0)
		return -ENOMEM;
	if (backend->server_count > BACKENDS_MOST)
		return weir_error_set(-EINVAL, "backend \"%s\" has more than %u servers", backend->head.title,
				      BACKENDS_MOST);
	for (unsigned i = 0; i < backend->server_count; i++)
		origins[i] = origin_of(backend, backend->server[i].url);
	weir_sentry_options options = {
		.name = place->name,
		.backends = origins,
		.backend_count = backend->server_count,
		.limits = {.connect_ns = backend->connect_timeout_ns,
			   .head_ns = backend->first_byte_timeout_ns,
			   .gap_ns = backend->body_timeout_ns,
			   .idle_ns = backend->idle_timeout_ns,
			   .idle = backend->idle_connections},
		.retry = {.share = backend->retry_budget > 0 ? backend->retry_budget : -1,
			  .floor_per_s = backend->retry_budget > 0 ? 0 : -1}, /* 0: none at all */
		.forwarded = backend->forwarded ? WEIR_FORWARDED_APPEND : WEIR_FORWARDED_OFF,
		.no_quality = !backend->quality,
		.health = {.path = backend->health,
			   .interval_ns = backend->health_interval_ns,
			   .timeout_ns = backend->health_timeout_ns,
			   .changed = backend_changed,
			   .arg = places->errors},
		.errors = places->errors,
		.capacity = route->queue,
		.bound = bound,
		.heed_downstream = backend->heed_refusals,
		.law = place->law,
		.law_params = params,
	};
	int failed = weir_sentry_new(places->domain, &options, &place->sentry);
	if (failed == 0)
		place->stage = weir_sentry_stage(place->sentry);
	return failed;
}

static bool has_server(const weir_config_backend *backend, const char *name)
{
	for (unsigned i = 0; i < backend->server_count; i++) {
		const char *at = strstr(backend->server[i].url, "://");
		size_t length = at != NULL ? strcspn(at + 3, "/") : 0;
		if (at != NULL && strlen(name) == length && memcmp(at + 3, name, length) == 0)
			return true;
	}
	return false;
}

/* New servers are added before others are taken away, so that there is never none. */
static int add_servers(weir_place *place, const weir_config_backend *backend)
{
	for (unsigned i = 0; i < backend->server_count; i++) {
		weir_origin_options origin = origin_of(backend, backend->server[i].url);
		int failed = weir_sentry_add(place->sentry, &origin);
		if (failed == -ENOSPC)
			return weir_error_set(
				failed,
				"backend \"%s\": more than %u servers since the start, those that "
				"were removed included; " ANEW,
				backend->head.title, BACKENDS_MOST);
		if (failed != 0 && failed != -EEXIST)
			return failed;
	}
	return 0;
}

static void retire_servers(weir_place *place, const weir_config_backend *backend, uint64_t now_ns)
{
	for (uint32_t i = 0; i < weir_sentry_backends(place->sentry); i++) {
		weir_sentry_backend_stats stats;
		weir_sentry_read_backend(place->sentry, i, now_ns, &stats);
		if (stats.state != WEIR_BACKEND_RETIRED && !has_server(backend, stats.name))
			weir_sentry_retire(place->sentry, stats.name);
	}
}

/* ---- files and demos ---- */

static int make_cache(weir_places *places)
{
	const weir_config_files *files = &places->config->files;
	weir_cache_options options = {.bytes = files->cache_bytes,
				      .file_bytes = files->cache_file_bytes,
				      .revalidate_ns = files->revalidate_ns};
	if (places->cache != NULL)
		return 0;
	return weir_cache_new(places->domain, places->files, &options, &places->cache);
}

static int make_site(weir_places *places, weir_place *place, const void *params,
		     const weir_config_route *route)
{
	weir_site_options options = {.name = place->name,
				     .root = route->root,
				     .index = route->index,
				     .listing = route->listing,
				     .precompressed = places->config->files.precompressed,
				     .types = places->config->files.types,
				     .capacity = route->queue,
				     .law = place->law,
				     .law_params = params};
	int failed = make_cache(places);
	if (failed == 0)
		failed = weir_site_new(places->domain, places->cache, &options, &place->site);
	if (failed == 0)
		place->stage = weir_site_stage(place->site);
	return failed;
}

static int make_demo(weir_places *places, weir_place *place, const void *params,
		     const weir_config_route *route)
{
	bottleneck_options options = {
		.name = place->name, .capacity = route->queue, .law = place->law, .law_params = params};
	if (places->running)
		return weir_error_set(-EINVAL, "route \"%s\": a demo cannot be added while the service runs",
				      route->head.title);
	return bottleneck_new(places->world, &options, &place->stage);
}

/* ---- making ---- */

/* What its law has learnt; false: nothing that could be saved. */
static bool save_law(const weir_place *place, char state[STATE_BYTES])
{
	int length = weir_stage_save(place->stage, state, STATE_BYTES);
	return length > 0 && (size_t)length < STATE_BYTES;
}

/* A new place goes on where the one that it replaces was, here or in the process before. */
static void inherit_law(const weir_places *places, weir_place *place)
{
	char state[STATE_BYTES];
	const char *learnt = weir_handover_law(places->handover, place->wanted);
	for (const weir_place *other = places->first; other != NULL; other = other->next)
		if (strcmp(other->wanted, place->wanted) == 0 && other->law == place->law &&
		    place->law != NULL && save_law(other, state)) {
			weir_stage_load(place->stage, state);
			return;
		}
	/* Refused if it is another law's, or was saved by one that wrote it otherwise: then it starts cold. */
	if (learnt != NULL && place->law != NULL)
		weir_stage_load(place->stage, learnt);
}

static int make(weir_places *places, weir_place *place, const void *params, const weir_config *config,
		const weir_config_route *route)
{
	const weir_config_backend *backend = backend_of(config, route);
	int failed;
	if (backend != NULL)
		failed = make_sentry(places, place, params, route, backend);
	else if (route->root != NULL)
		failed = make_site(places, place, params, route);
	else
		failed = make_demo(places, place, params, route);
	if (failed == -ENOSPC)
		weir_error_set(
			failed,
			"route \"%s\": there is no room for its stage: a process has at most %d since its "
			"start, those that reloads have replaced included; " ANEW,
			route->head.title, WEIR_STAGES_MAX);
	return failed;
}

static weir_place *make_place(weir_places *places, const weir_config *config, const weir_config_route *route,
			      uint64_t fingerprint)
{
	weir_place *place = new_place(places, name_of(route), fingerprint);
	void *params = NULL;
	if (place == NULL)
		return NULL;
	int failed = weir_config_law(config, route, &place->law, &params);
	if (failed == 0)
		failed = make(places, place, params, config, route);
	weir_mem_free(params);
	if (failed != 0) {
		weir_mem_free(place);
		return NULL;
	}
	if (places->monitor != NULL)
		weir_monitor_subscribe(places->monitor, place->stage);
	inherit_law(places, place);
	place->next = places->first;
	__atomic_store_n(&places->first, place, __ATOMIC_RELEASE); /* the admin's thread goes through them */
	return place;
}

static weir_place *place_of(const weir_places *places, const weir_config *config,
			    const weir_config_route *route)
{
	return find(places, name_of(route), fingerprint_of(config, route));
}

weir_place *weir_places_for(weir_places *places, const weir_config *config, const weir_config_route *route)
{
	weir_place *place = place_of(places, config, route);
	places->config = config;
	return place != NULL ? place : make_place(places, config, route, fingerprint_of(config, route));
}

/* ---- changing ---- */

int weir_places_add_servers(weir_places *places, const weir_config *config)
{
	for (unsigned i = 0; i < config->routes; i++) {
		weir_place *place = place_of(places, config, &config->route[i]);
		int failed =
			place->sentry != NULL ? add_servers(place, backend_of(config, &config->route[i])) : 0;
		if (failed != 0)
			return failed;
	}
	return 0;
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
static int set_law(weir_place *place, const weir_config *config, const weir_config_route *route)
{
	const weir_admission_law *law;
	void *params = NULL;
	int failed = weir_config_law(config, route, &law, &params);
	if (failed == 0 && !same_law(place->stage, law, params))
		failed = weir_stage_admission(place->stage, law, params);
	if (failed == 0)
		place->law = law;
	weir_mem_free(params);
	return failed;
}

int weir_places_settle(weir_places *places, const weir_config *config)
{
	int failed = 0;
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		const weir_config_backend *backend = backend_of(config, route);
		weir_place *place = place_of(places, config, route);
		int error = set_law(place, config, route);
		/* One that has a bound had it when it was made. */
		if (backend != NULL && backend->concurrency != 0)
			weir_bound_set(find_bound(places, backend), backend->concurrency);
		weir_stage_mode(place->stage, route->dry_run ? WEIR_DRY_RUN : WEIR_ENFORCE);
		weir_stage_shed_ceiling(place->stage, route->shed_ceiling);
		failed = failed != 0 ? failed : error;
	}
	return failed;
}

static void rest(weir_place *place, bool resting)
{
	__atomic_store_n(&place->resting, resting, __ATOMIC_RELEASE);
	if (place->sentry != NULL)
		weir_sentry_rest(place->sentry, resting);
}

/* Which route leads to the place; -1: none does. */
static int route_to(const weir_places *places, const weir_config *config, const weir_place *place)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (place_of(places, config, &config->route[i]) == place)
			return (int)i;
	return -1;
}

void weir_places_leave(weir_places *places, const weir_config *config)
{
	places->config = config;
	for (weir_place *place = places->first; place != NULL; place = place->next) {
		int at = route_to(places, config, place);
		rest(place, at < 0);
		if (at >= 0 && place->sentry != NULL)
			retire_servers(place, backend_of(config, &config->route[at]),
				       weir_world_now(places->world));
	}
}

int weir_places_start(weir_places *places)
{
	for (weir_place *place = places->first; place != NULL; place = place->next) {
		if (place->started || place->sentry == NULL)
			continue;
		int failed = weir_sentry_start(place->sentry);
		if (failed != 0)
			return failed;
		place->started = true;
	}
	return 0;
}

/* Whether a route before this one leads to the same place. */
static bool is_repeated(const weir_config *config, unsigned route)
{
	for (unsigned i = 0; i < route; i++)
		if (strcmp(name_of(&config->route[i]), name_of(&config->route[route])) == 0)
			return true;
	return false;
}

void weir_places_save(const weir_places *places, const weir_config *config, FILE *to)
{
	char state[STATE_BYTES];
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		const weir_place *place = place_of(places, config, route);
		if (place != NULL && !is_repeated(config, i) && save_law(place, state))
			weir_handover_put_law(to, place->wanted, state);
	}
}

void weir_places_free(weir_places *places)
{
	for (weir_place *place = places->first, *next; place != NULL; place = next) {
		next = place->next;
		weir_sentry_free(&place->sentry);
		weir_site_free(&place->site);
		weir_mem_free(place);
	}
	places->first = NULL;
	free_bounds(places);
	weir_cache_free(&places->cache);
}
