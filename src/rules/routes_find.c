/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of routes in use: which route, class, quota and session a request has, and which methods would do. */
#include <string.h>

#include "base/mem.h"
#include "rules/route_index.h"

#define VALUES_MOST 8 /* of one cookie that a limit counts by */

/* ---- tables ---- */

weir_table *weir_table_new(weir_routes *routes)
{
	weir_table *table = weir_mem_zalloc(sizeof(*table));
	if (table == NULL)
		return NULL;
	table->routes = weir_routes_ref(routes);
	table->requests = 1;
	return table;
}

void weir_table_free(weir_table *table)
{
	weir_routes_unref(table->routes);
	weir_mem_free(table);
}

bool weir_routes_is_last(const weir_routes *routes)
{
	return atomic_load_explicit(&routes->refs, memory_order_acquire) == 1;
}

const char *weir_routes_class_name(const weir_routes *routes, unsigned klass)
{
	static const char *const numbers[WEIR_CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7"};
	if (klass >= WEIR_CLASSES)
		return "?";
	return routes->class_name[klass] != NULL ? routes->class_name[klass] : numbers[klass];
}

/* ---- look-up ---- */

static inline bool matches(const weir_matcher *matcher, const weir_match_input *input)
{
	return matcher == NULL || weir_matcher_matches(matcher, input);
}

static unsigned class_of(const weir_routes *routes, const weir_match_input *input)
{
	for (uint32_t i = 0; i < routes->class_count; i++)
		if (matches(routes->classes[i].matcher, input))
			return routes->classes[i].klass;
	return routes->default_class;
}

static const weir_route *indexed_route_of(const weir_routes *routes, const weir_route_index *index,
					  const weir_match_input *input)
{
	weir_route_walk walk;
	weir_route_walk_begin(index, input, &walk);
	for (uint32_t i; (i = weir_route_walk_next(&walk)) != UINT32_MAX;)
		if (matches(routes->routes[i].matcher, input))
			return &routes->routes[i];
	return NULL;
}

static inline const weir_route_index *index_of(const weir_routes *routes)
{
	return atomic_load_explicit(&routes->index, memory_order_acquire);
}

static const weir_route *route_of(const weir_routes *routes, const weir_match_input *input)
{
	const weir_route_index *index = index_of(routes);
	if (index != NULL)
		return indexed_route_of(routes, index, input);
	for (uint32_t i = 0; i < routes->route_count; i++)
		if (matches(routes->routes[i].matcher, input))
			return &routes->routes[i];
	return NULL;
}

/* The next; at is NULL if there are no more. */
static weir_span value_of(const weir_match_input *input, weir_limit_key by, weir_span name, uint64_t *cursor)
{
	return by == WEIR_BY_HEADER ? input->header(input->request, name, cursor)
				    : input->cookie(input->request, name, cursor);
}

/*
 * Takes from the bucket of every value that the header or cookie has, so that no value hides behind another.
 * Requests without one share a bucket, as if it were empty. A bounded number: more is nobody's mistake.
 */
static bool takes_each(const weir_limit *limit, const weir_match_input *input, uint64_t now_ns,
		       uint64_t *ret_retry_after_ns)
{
	weir_span name = {limit->key, strlen(limit->key)};
	uint64_t cursor = 0;
	weir_span value = value_of(input, limit->by, name, &cursor);
	if (value.at == NULL)
		return weir_quota_take(limit->quota, "", 0, now_ns, ret_retry_after_ns);
	for (size_t nth = 1; value.at != NULL; nth++) {
		if (!weir_quota_take(limit->quota, value.at, value.length, now_ns, ret_retry_after_ns))
			return false;
		weir_span before = value;
		value = value_of(input, limit->by, name, &cursor);
		bool differs = value.at != NULL && (value.length != before.length ||
						    memcmp(value.at, before.at, value.length) != 0);
		if ((differs && limit->by == WEIR_BY_HEADER) || (value.at != NULL && nth == VALUES_MOST)) {
			if (input->ambiguous != NULL)
				*input->ambiguous = true;
			return true;
		}
	}
	return true;
}

static bool takes(const weir_limit *limit, const weir_match_input *input, uint64_t now_ns,
		  uint64_t *ret_retry_after_ns)
{
	uint8_t client[8];
	if (limit->by == WEIR_BY_CLIENT)
		return weir_quota_take(limit->quota, (const char *)client,
				       weir_quota_client_key(input->client, client), now_ns,
				       ret_retry_after_ns);
	if (limit->by == WEIR_BY_NOTHING)
		return weir_quota_take(limit->quota, "", 0, now_ns, ret_retry_after_ns);
	return takes_each(limit, input, now_ns, ret_retry_after_ns);
}

static const weir_limit *limit_of(const weir_routes *routes, const weir_match_input *input, uint64_t now_ns,
				  uint64_t *ret_retry_after_ns)
{
	for (uint32_t i = 0; i < routes->limit_count; i++) {
		const weir_limit *limit = &routes->limits[i];
		if (matches(limit->matcher, input) && !takes(limit, input, now_ns, ret_retry_after_ns))
			return limit;
	}
	return NULL;
}

/* Newcomers go one class lower, so that any law refuses them first. */
static void find_standing(const weir_session_rule *rule, const weir_match_input *input, uint64_t now_ns,
			  weir_found *found)
{
	uint64_t cursor = 0;
	weir_span value = value_of(input, rule->by, rule->name, &cursor);
	if (rule->by == WEIR_BY_HEADER && input->ambiguous != NULL && value.at != NULL &&
	    value_of(input, rule->by, rule->name, &cursor).at != NULL)
		*input->ambiguous = true;
	found->session = weir_sessions_hash(rule->sessions, value);
	bool member = weir_sessions_known(rule->sessions, found->session, rule->idle_ns, now_ns);
	found->standing = member ? WEIR_MEMBER : WEIR_NEWCOMER;
	if (!member && found->klass < WEIR_CLASSES - 1)
		found->klass++;
}

void weir_routes_find(const weir_routes *routes, const weir_match_input *input, uint64_t now_ns,
		      weir_found *ret_found)
{
	*ret_found = (weir_found){.klass = class_of(routes, input), .route = route_of(routes, input)};
	if (ret_found->route == NULL)
		return;
	if (ret_found->route->klass >= 0)
		ret_found->klass = (unsigned)ret_found->route->klass;
	if (ret_found->route->session != NULL)
		find_standing(ret_found->route->session, input, now_ns, ret_found);
	/* Last, because it takes from the buckets; exempt requests are not counted in them. */
	if (!ret_found->route->exempt)
		ret_found->limit = limit_of(routes, input, now_ns, &ret_found->retry_after_ns);
}

/* ---- methods that would do ---- */

static const weir_span method_names[WEIR_METHOD_COUNT] = {
#define X(name) [WEIR_METHOD_##name] = {#name, sizeof(#name) - 1},
	WEIR_METHODS(X)
#undef X
};

static bool would_match(const weir_route *route, const weir_match_input *input)
{
	return route->by_method && weir_matcher_matches(route->matcher, input);
}

static bool some_would_match(const weir_routes *routes, const weir_match_input *input)
{
	const weir_route_index *index = index_of(routes);
	weir_route_walk walk;
	if (index != NULL) {
		weir_route_walk_begin(index, input, &walk);
		for (uint32_t i; (i = weir_route_walk_next(&walk)) != UINT32_MAX;)
			if (would_match(&routes->routes[i], input))
				return true;
		return false;
	}
	for (uint32_t i = 0; i < routes->route_count; i++)
		if (would_match(&routes->routes[i], input))
			return true;
	return false;
}

uint32_t weir_routes_allowed(const weir_routes *routes, const weir_match_input *input)
{
	weir_match_input other = *input;
	uint32_t allowed = 0;
	for (unsigned method = WEIR_METHOD_OTHER + 1; routes->by_method && method < WEIR_METHOD_COUNT;
	     method++) {
		other.method = (weir_method)method;
		other.method_text = method_names[method];
		/* A server is no proxy that could be asked to CONNECT, whatever its rules leave open. */
		if (method != WEIR_METHOD_CONNECT && some_would_match(routes, &other))
			allowed |= 1u << method;
	}
	return allowed;
}

size_t weir_routes_print_allowed(uint32_t methods, char ret_text[static WEIR_ALLOW_BYTES])
{
	size_t length = 0;
	for (unsigned method = WEIR_METHOD_OTHER + 1; method < WEIR_METHOD_COUNT; method++) {
		if (!(methods >> method & 1))
			continue;
		if (length > 0) {
			memcpy(ret_text + length, ", ", 2);
			length += 2;
		}
		memcpy(ret_text + length, method_names[method].at, method_names[method].length);
		length += method_names[method].length;
	}
	ret_text[length] = '\0';
	return length;
}
