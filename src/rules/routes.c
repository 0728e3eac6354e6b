/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of routes are made here, and looked into by routes_find.c. */
#include "rules/routes.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "rules/route_index.h"

/* Enough for any configuration. Of routes there may be more, since the index finds those that can match. */
#define RULES_OF_A_KIND_MAX 1024
#define ROUTES_MAX          16384

/* ---- construction ---- */

int weir_routes_new(weir_routes **ret_routes)
{
	weir_routes *routes = weir_mem_zalloc(sizeof(*routes));
	if (routes == NULL)
		return weir_error_set(-ENOMEM, "routes: out of memory");
	atomic_init(&routes->refs, 1);
	*ret_routes = routes;
	return 0;
}

weir_routes *weir_routes_ref(weir_routes *routes)
{
	if (!atomic_exchange(&routes->used, true))
		atomic_store_explicit(&routes->index, weir_route_index_new(routes), memory_order_release);
	atomic_fetch_add_explicit(&routes->refs, 1, memory_order_relaxed);
	return routes;
}

static void free_route(weir_route *route)
{
	weir_mem_free(route->name);
	weir_matcher_free(route->matcher);
	weir_mem_free(route->location);
	weir_buf_unref(route->page);
	weir_mem_free(route->page_type);
}

static void free_limit(weir_limit *limit)
{
	weir_mem_free(limit->name);
	weir_matcher_free(limit->matcher);
	weir_mem_free(limit->key);
	weir_quota_free(limit->quota);
}

static void free_session(weir_session_rule *rule)
{
	if (rule == NULL)
		return;
	weir_mem_free(rule->text);
	weir_sessions_free(rule->sessions);
	weir_mem_free(rule);
}

static void destroy(weir_routes *routes)
{
	weir_route_index_free(routes->index);
	for (uint32_t i = 0; i < routes->route_count; i++)
		free_route(&routes->routes[i]);
	for (uint32_t i = 0; i < routes->limit_count; i++)
		free_limit(&routes->limits[i]);
	for (uint32_t i = 0; i < routes->session_count; i++)
		free_session(routes->sessions[i]);
	for (uint32_t i = 0; i < routes->class_count; i++)
		weir_matcher_free(routes->classes[i].matcher);
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		weir_mem_free(routes->class_name[i]);
	weir_mem_free(routes->routes);
	weir_mem_free(routes->classes);
	weir_mem_free(routes->limits);
	weir_mem_free(routes->sessions);
	weir_mem_free(routes);
}

void weir_routes_unref(weir_routes *routes)
{
	if (routes != NULL && atomic_fetch_sub_explicit(&routes->refs, 1, memory_order_acq_rel) == 1)
		destroy(routes);
}

/* Makes room for one more, by copying into twice the room. The new element is all zero. */
static int grow(void **array, uint32_t count, size_t size, uint32_t most)
{
	if (count >= most)
		return weir_error_set(-ENOSPC, "routes: more than %u of a kind", most);
	if ((count & (count - 1)) != 0) /* there is room up to the next power of two */
		return 0;
	void *larger = weir_mem_array(count > 0 ? 2 * (size_t)count : 1, size);
	if (larger == NULL)
		return weir_error_set(-ENOMEM, "routes: out of memory");
	if (count > 0)
		memcpy(larger, *array, count * size);
	weir_mem_free(*array);
	*array = larger;
	return 0;
}

static int check_change(const weir_routes *routes, const char *what, const char *name)
{
	if (name == NULL || name[0] == '\0')
		return weir_error_set(-EINVAL, "%s: a name is needed", what);
	if (atomic_load(&routes->used))
		return weir_error_set(-EBUSY, "%s '%s': a server uses the table", what, name);
	return 0;
}

/* No rules: no matcher, and nothing to compare. */
static int make_matcher(const char *const *rules, weir_matcher **ret_matcher)
{
	return rules != NULL && rules[0] != NULL ? weir_matcher_new(rules, ret_matcher) : 0;
}

static int copy_text(const char *text, char **ret_copy)
{
	if (text == NULL)
		return 0;
	*ret_copy = weir_mem_strdup(text);
	return *ret_copy != NULL ? 0 : weir_error_set(-ENOMEM, "routes: out of memory");
}

static void update(weir_routes *routes)
{
	routes->plain = routes->class_count == 0 && routes->limit_count == 0 && routes->route_count == 1 &&
			routes->routes[0].matcher == NULL && routes->session_count == 0;
}

/* ---- classes ---- */

static int check_class(const char *name, unsigned klass)
{
	if (klass < WEIR_CLASSES)
		return 0;
	return weir_error_set(-EINVAL, "class '%s': %u is no class; 0 (the highest) to %d are", name, klass,
			      WEIR_CLASSES - 1);
}

/* The first name counts. */
static int name_class(weir_routes *routes, unsigned klass, const char *name)
{
	return routes->class_name[klass] == NULL ? copy_text(name, &routes->class_name[klass]) : 0;
}

int weir_routes_add_class(weir_routes *routes, const weir_class_options *options)
{
	weir_matcher *matcher = NULL;
	int error = check_change(routes, "class", options->name);
	if (error == 0)
		error = check_class(options->name, options->klass);
	if (error == 0)
		error = make_matcher(options->rules, &matcher);
	if (error == 0)
		error = name_class(routes, options->klass, options->name);
	if (error == 0)
		error = grow((void **)&routes->classes, routes->class_count, sizeof(*routes->classes),
			     RULES_OF_A_KIND_MAX);
	if (error != 0) {
		weir_matcher_free(matcher);
		return error;
	}
	routes->classes[routes->class_count++] =
		(weir_class_rule){.matcher = matcher, .klass = options->klass};
	update(routes);
	return 0;
}

int weir_routes_raw_paths(weir_routes *routes)
{
	int error = check_change(routes, "paths", "raw");
	if (error == 0)
		routes->raw_paths = true;
	return error;
}

int weir_routes_default_class(weir_routes *routes, unsigned klass, const char *name)
{
	int error = check_change(routes, "class", name);
	if (error == 0)
		error = check_class(name, klass);
	if (error == 0)
		error = name_class(routes, klass, name);
	if (error == 0)
		routes->default_class = klass;
	return error;
}

/* ---- routes ---- */

static int check_reject(const weir_route_options *options)
{
	unsigned status = options->reject_status;
	bool redirect = options->reject == WEIR_REJECT_REDIRECT;
	unsigned least = redirect ? 300 : 400, most = redirect ? 399 : 599;
	if (status != 0 && (status < least || status > most))
		return weir_error_set(-EINVAL, "route '%s': rejects with %u; %u to %u would do",
				      options->name, status, least, most);
	if (redirect && options->location == NULL)
		return weir_error_set(-EINVAL, "route '%s': a redirect needs a location", options->name);
	if (options->reject == WEIR_REJECT_PAGE && (options->page == NULL || options->page_type == NULL))
		return weir_error_set(-EINVAL, "route '%s': a page to reject with needs bytes and a type",
				      options->name);
	return 0;
}

static int check_route(const weir_routes *routes, const weir_route_options *options)
{
	int error = check_change(routes, "route", options->name);
	if (error != 0)
		return error;
	if (options->stage == NULL)
		return weir_error_set(-EINVAL, "route '%s': a stage is needed", options->name);
	if ((options->klass < -1 && options->klass != WEIR_CLASS_HIGHEST) || options->klass >= WEIR_CLASSES)
		return weir_error_set(-EINVAL,
				      "route '%s': %d is no class; 1 to %d and WEIR_CLASS_HIGHEST are, and "
				      "0: as the classes say",
				      options->name, options->klass, WEIR_CLASSES - 1);
	if (options->collect_bytes > UINT32_MAX || options->gather_bytes > UINT32_MAX / 4)
		return weir_error_set(-EINVAL, "route '%s': collects bodies of at most 4 GB", options->name);
	return check_reject(options);
}

/* ---- sessions ---- */

/* "header NAME" or "cookie NAME"; false: neither. */
static bool read_name(const char *text, weir_limit_key *ret_by, const char **ret_name)
{
	bool header = strncmp(text, "header ", 7) == 0;
	if ((!header && strncmp(text, "cookie ", 7) != 0) || text[7] == '\0' || strchr(text + 7, ' ') != NULL)
		return false;
	*ret_by = header ? WEIR_BY_HEADER : WEIR_BY_COOKIE;
	*ret_name = text + 7;
	return true;
}

/*
 * A name that no header and no cookie can have is a mistake. The name also appears in metrics and in what
 * a successor reads.
 */
bool weir_session_text_is_good(const char *text)
{
	weir_limit_key by;
	const char *name;
	if (strlen(text) >= WEIR_SESSION_TEXT_MAX || !read_name(text, &by, &name))
		return false;
	for (; *name != '\0'; name++)
		if (*name <= ' ' || *name >= 0x7f || strchr("=;,\"", *name) != NULL)
			return false;
	return true;
}

static weir_session_rule *session_of(const weir_routes *routes, const char *text)
{
	for (uint32_t i = 0; routes != NULL && i < routes->session_count; i++)
		if (strcmp(routes->sessions[i]->text, text) == 0)
			return routes->sessions[i];
	return NULL;
}

/* Takes over the sessions of the previous table, or begins empty. */
static int make_sessions(const weir_routes *routes, weir_session_rule *rule, uint32_t keys)
{
	const weir_session_rule *old = session_of(routes->from, rule->text);
	if (old == NULL || weir_sessions_keys(old->sessions) != (keys != 0 ? keys : WEIR_SESSIONS_KEYS))
		return weir_sessions_new(keys, &rule->sessions);
	rule->sessions = weir_sessions_ref(old->sessions);
	return 0;
}

static int fill_session(const weir_routes *routes, weir_session_rule *rule, const weir_route_options *options)
{
	const char *name;
	if (!weir_session_text_is_good(options->session) || !read_name(options->session, &rule->by, &name))
		return weir_error_set(-EINVAL,
				      "route '%s': '%s' is no session; 'cookie NAME' and 'header NAME' are",
				      options->name, options->session);
	int error = copy_text(options->session, &rule->text);
	if (error != 0)
		return error;
	rule->name = (weir_span){rule->text + (name - options->session), strlen(name)};
	rule->idle_ns = options->session_idle_ns != 0 ? options->session_idle_ns : WEIR_SESSIONS_IDLE_NS;
	return make_sessions(routes, rule, options->session_keys);
}

static int add_session(weir_routes *routes, const weir_route_options *options, weir_session_rule **ret_rule)
{
	weir_session_rule *rule = weir_mem_zalloc(sizeof(*rule));
	int error = rule != NULL ? fill_session(routes, rule, options)
				 : weir_error_set(-ENOMEM, "routes: out of memory");
	if (error == 0)
		error = grow((void **)&routes->sessions, routes->session_count, sizeof(weir_session_rule *),
			     RULES_OF_A_KIND_MAX);
	if (error != 0) {
		free_session(rule);
		return error;
	}
	routes->sessions[routes->session_count++] = rule;
	*ret_rule = rule;
	return 0;
}

/*
 * The rule shared by the routes with this session, made by the first. Exempt routes need none: nobody
 * sheds their requests.
 */
static int set_session(weir_routes *routes, const weir_route_options *options, weir_route *route)
{
	if (options->session == NULL || options->exempt)
		return 0;
	uint64_t idle_ns = options->session_idle_ns != 0 ? options->session_idle_ns : WEIR_SESSIONS_IDLE_NS;
	uint32_t keys = options->session_keys != 0 ? options->session_keys : WEIR_SESSIONS_KEYS;
	weir_session_rule *rule = session_of(routes, options->session);
	int error = rule == NULL ? add_session(routes, options, &rule) : 0;
	if (error == 0 && (rule->idle_ns != idle_ns || weir_sessions_keys(rule->sessions) != keys))
		error = weir_error_set(
			-EINVAL,
			"route '%s': another route with the session '%s' has another idle time or other keys",
			options->name, options->session);
	route->session = rule;
	return error;
}

/* ---- routes, continued ---- */

/* FNV-1a. Routes with the same number by accident merely share what is known of costs. */
static uint32_t number_of(const char *name)
{
	uint32_t hash = UINT32_C(0x811c9dc5);
	for (; *name != '\0'; name++)
		hash = (hash ^ (uint8_t)*name) * UINT32_C(0x01000193);
	return hash;
}

static int class_wanted(const weir_route_options *options)
{
	if (options->klass == WEIR_CLASS_HIGHEST)
		return 0;
	return options->klass == WEIR_CLASS_BY_RULES ? -1 : options->klass;
}

static int fill_route(weir_route *route, const weir_route_options *options)
{
	*route = (weir_route){.stage = options->stage,
			      .number = number_of(options->name),
			      .arg = options->arg,
			      .klass = class_wanted(options),
			      .exempt = options->exempt,
			      .special = options->exempt || options->deadline_ns != 0 ||
					 options->classify != NULL,
			      .classify = options->classify,
			      .classify_arg = options->classify_arg,
			      .refuse = options->refuse,
			      .refuse_arg = options->refuse_arg,
			      .note_shed = options->note_shed,
			      .note_shed_arg = options->note_shed_arg,
			      .collect_bytes = options->collect_bytes,
			      .gather_bytes = options->gather_bytes,
			      .gather_streams = options->gather_streams,
			      .deadline_ns = options->deadline_ns,
			      .reject = options->reject,
			      .reject_status = options->reject_status};
	int error = make_matcher(options->rules, &route->matcher);
	route->by_method = route->matcher != NULL && weir_matcher_asks_method(route->matcher);
	if (error == 0)
		error = copy_text(options->name, &route->name);
	if (error == 0)
		error = copy_text(options->location, &route->location);
	if (error == 0)
		error = copy_text(options->page_type, &route->page_type);
	if (error == 0 && options->page != NULL)
		route->page = weir_buf_ref(options->page);
	return error;
}

int weir_routes_add(weir_routes *routes, const weir_route_options *options)
{
	weir_route route;
	int error = check_route(routes, options);
	if (error != 0)
		return error;
	error = fill_route(&route, options);
	if (error == 0)
		error = set_session(routes, options, &route);
	if (error == 0)
		error = grow((void **)&routes->routes, routes->route_count, sizeof(route), ROUTES_MAX);
	if (error != 0) {
		free_route(&route);
		return error;
	}
	routes->routes[routes->route_count++] = route;
	routes->by_method = routes->by_method || route.by_method;
	update(routes);
	return 0;
}

/* ---- limits ---- */

static int set_key(weir_limit *limit, const weir_limit_options *options)
{
	const char *key = options->key != NULL ? options->key : "client";
	if (strcmp(key, "client") == 0) {
		limit->by = WEIR_BY_CLIENT;
		return 0;
	}
	if (strcmp(key, "all") == 0) {
		limit->by = WEIR_BY_NOTHING;
		return 0;
	}
	const char *name;
	if (!read_name(key, &limit->by, &name))
		return weir_error_set(
			-EINVAL,
			"limit '%s': '%s' is no key; 'client', 'header NAME', 'cookie NAME' and 'all' are",
			options->name, key);
	return copy_text(name, &limit->key);
}

void weir_routes_go_on(weir_routes *routes, const weir_routes *from)
{
	routes->from = from;
}

static bool is_taken(const weir_routes *routes, const weir_quota *quota)
{
	for (uint32_t i = 0; i < routes->limit_count; i++)
		if (routes->limits[i].quota == quota)
			return true;
	return false;
}

static bool same_key(const weir_limit *a, const weir_limit *b)
{
	if (a->by != b->by || a->key == NULL || b->key == NULL)
		return a->by == b->by && a->key == b->key;
	return strcmp(a->key, b->key) == 0;
}

/* The quota to continue with; NULL: none. Two limits never get the same one. */
static weir_quota *find_quota(const weir_routes *routes, const weir_limit *limit,
			      const weir_quota_options *options)
{
	const weir_routes *from = routes->from;
	for (uint32_t i = 0; from != NULL && options->name != NULL && i < from->limit_count; i++) {
		const weir_limit *old = &from->limits[i];
		if (strcmp(old->name, options->name) == 0 && same_key(old, limit) &&
		    weir_quota_is(old->quota, options) && !is_taken(routes, old->quota))
			return old->quota;
	}
	return NULL;
}

static int make_quota(const weir_routes *routes, weir_limit *limit, const weir_quota_options *options)
{
	weir_quota *quota = find_quota(routes, limit, options);
	if (quota == NULL)
		return weir_quota_new(options, &limit->quota);
	limit->quota = weir_quota_ref(quota);
	return 0;
}

static int fill_limit(const weir_routes *routes, weir_limit *limit, const weir_limit_options *options)
{
	weir_quota_options quota = {.name = options->name,
				    .rate_per_s = options->rate_per_s,
				    .burst = options->burst,
				    .keys = options->keys};
	*limit = (weir_limit){0};
	int error = set_key(limit, options);
	if (error == 0)
		error = make_matcher(options->rules, &limit->matcher);
	if (error == 0)
		error = copy_text(options->name, &limit->name);
	if (error == 0)
		error = make_quota(routes, limit, &quota);
	return error;
}

int weir_routes_add_limit(weir_routes *routes, const weir_limit_options *options)
{
	weir_limit limit;
	int error = check_change(routes, "limit", options->name);
	if (error != 0)
		return error;
	error = fill_limit(routes, &limit, options);
	if (error == 0)
		error = grow((void **)&routes->limits, routes->limit_count, sizeof(limit),
			     RULES_OF_A_KIND_MAX);
	if (error != 0) {
		free_limit(&limit);
		return error;
	}
	routes->limits[routes->limit_count++] = limit;
	update(routes);
	return 0;
}
