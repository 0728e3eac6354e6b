/* SPDX-License-Identifier: Apache-2.0 */
/* Checks classes, limits and routes of a configuration: their rules, and where requests go. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "keys/inside.h"
#include "rules/match.h"
#include "rules/routes.h"
#include "service/config_inside.h"

#define QUOTE_BYTES  64
#define BURST_MOST_S (365 * 86400.)

/* Each rule alone, so that every wrong one gets a message. */
static void check_rules(weir_config *config, const weir_block_head *head, const char *const *rules)
{
	unsigned count = 0;
	for (; rules != NULL && rules[count] != NULL; count++) {
		const char *const alone[] = {rules[count], NULL};
		weir_matcher *matcher = NULL;
		if (weir_matcher_new(alone, &matcher) != 0)
			weir_config_wrong(config, head, "match", "match: %s", weir_error());
		weir_matcher_free(matcher);
	}
	if (count > WEIR_RULES_MAX)
		weir_config_wrong(config, head, "match", "match: %u rules; at most %d", count,
				  WEIR_RULES_MAX);
}

/* ---- classes, limits ---- */

/* Whether a route names it; the rules do not matter. */
static bool is_named(const weir_config *config, const weir_config_class *klass)
{
	for (unsigned i = 0; i < config->routes; i++)
		if (config->route[i].klass != NULL && strcmp(config->route[i].klass, klass->head.title) == 0)
			return true;
	return false;
}

void weir_config_check_classes(weir_config *config)
{
	const weir_config_class *all = NULL;
	for (unsigned i = 0; i < config->classes; i++) {
		const weir_config_class *klass = &config->klass[i];
		check_rules(config, &klass->head, klass->match);
		if (all != NULL && !is_named(config, klass))
			weir_config_warn(
				config, &klass->head, NULL,
				"class \"%s\" is never reached: \"%s\" before it matches every request",
				klass->head.title, all->head.title);
		if (klass->match == NULL && all == NULL)
			all = klass;
	}
}

static bool is_limit_key(const char *key)
{
	return strcmp(key, "client") == 0 || strcmp(key, "all") == 0 ||
	       (strncmp(key, "header ", 7) == 0 && key[7] != '\0') ||
	       (strncmp(key, "cookie ", 7) == 0 && key[7] != '\0');
}

/* As a quota takes it; 0: the rate of one second. */
static void check_burst(weir_config *config, const weir_config_limit *limit)
{
	if (limit->burst > 0 && limit->burst < 1)
		weir_config_wrong(config, &limit->head, "burst", "burst: less than 1 would let nobody in");
	else if (limit->burst > limit->rate_per_s * BURST_MOST_S)
		weir_config_wrong(config, &limit->head, "burst",
				  "burst: at this rate it would take more than a year to come back");
}

void weir_config_check_limits(weir_config *config)
{
	char quoted[QUOTE_BYTES];
	for (unsigned i = 0; i < config->limits; i++) {
		const weir_config_limit *limit = &config->limit[i];
		check_rules(config, &limit->head, limit->match);
		if (limit->key != NULL && !is_limit_key(limit->key))
			weir_config_wrong(config, &limit->head, "key",
					  "key: '%s': write client, all, header NAME or cookie NAME",
					  weir_text_quote(quoted, sizeof(quoted), limit->key));
		check_burst(config, limit);
	}
	if (config->http.http.line_bytes > config->http.http.head_bytes)
		weir_config_wrong(config, &config->http.head, "line",
				  "line is more than head, which contains it");
}

/* ---- routes ---- */

/* The page is kept in memory, so its size is bounded. */
static void check_page(weir_config *config, const weir_config_route *route)
{
	const unsigned before = config->errors;
	struct stat status;
	weir_config_check_readable(config, &route->head, "reject", "reject: page", route->reject_page, false);
	if (config->errors == before && stat(route->reject_page, &status) == 0 &&
	    status.st_size > WEIR_CONFIG_PAGE_MAX)
		weir_config_wrong(config, &route->head, "reject",
				  "reject: page: %s has %lld bytes; at most %d", route->reject_page,
				  (long long)status.st_size, WEIR_CONFIG_PAGE_MAX);
}

/* "503", "429", "redirect URL", "page FILE". */
static int read_reject(weir_config *config, weir_config_route *route)
{
	const char *text = route->reject;
	char quoted[QUOTE_BYTES];
	uint32_t status;
	route->reject_status = 503;
	if (strncmp(text, "redirect ", 9) == 0 && strpbrk(text + 9, " \t\r\n") == NULL && text[9] != '\0') {
		route->reject_kind = WEIR_REJECT_REDIRECT;
		route->reject_status = 307;
		route->reject_location = text + 9;
		return 0;
	}
	if (strncmp(text, "page ", 5) == 0 && text[5] != '\0') {
		route->reject_kind = WEIR_REJECT_PAGE;
		weir_key_memory memory = weir_config_key_memory(config);
		route->reject_page = weir_key_resolve(text + 5, route->head.file, &memory);
		check_page(config, route);
		return 0; /* mistakes in the file have their messages */
	}
	if (weir_text_count(text, &status) == 0 && status >= 400 && status <= 599) {
		route->reject_status = status;
		return 0;
	}
	return weir_error_set(-EINVAL, "'%s': write a status (503, 429), redirect URL, or page FILE",
			      weir_text_quote(quoted, sizeof(quoted), text));
}

/* Whether it has the kind's first key, which has no default. */
static bool leads_to(const weir_kind *kind, const void *values)
{
	static const unsigned char none[sizeof(uint64_t)];
	const weir_key *key = kind->keys;
	size_t bytes = weir_key_bytes(key);
	return memcmp((const char *)values + key->offset, none, bytes != 0 ? bytes : sizeof(char *)) != 0;
}

/* "backend, root, demo". */
static void list_kinds(const weir_config *config, char *text, size_t size)
{
	size_t at = 0;
	text[0] = '\0';
	for (unsigned i = 0; i < config->kind_count && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "",
				       config->kinds[i]->name);
}

static void check_kind(weir_config *config, weir_config_route *route)
{
	unsigned found = 0;
	char names[200];
	route->kind = -1;
	for (unsigned i = 0; i < config->kind_count; i++)
		if (leads_to(config->kinds[i], route->values[i])) {
			route->kind = (int)i;
			found++;
		}
	list_kinds(config, names, sizeof(names));
	if (found != 1)
		weir_config_wrong(config, &route->head, NULL,
				  "route \"%s\" has %s; it needs exactly one of %s", route->head.title,
				  found == 0 ? "no place for its requests to go" : "several places to go",
				  names);
	weir_route_view view = weir_config_view(config, route);
	for (unsigned i = 0; i < config->kind_count; i++) {
		view.values = route->values[i];
		if (leads_to(config->kinds[i], view.values) && config->kinds[i]->check_route != NULL)
			config->kinds[i]->check_route(config, &view);
	}
}

/* Only a target that the route names must exist; the default, "default", need not. */
static void check_target_of(weir_config *config, weir_config_route *route)
{
	bool own = weir_config_given(&route->head, "target");
	route->target_index = -1;
	if (route->target == NULL || strcmp(route->target, "off") == 0)
		return;
	for (unsigned i = 0; i < config->targets && !own; i++)
		if (strcmp(config->target[i].head.title, route->target) == 0)
			route->target_index = (int)i;
	if (own)
		route->target_index =
			weir_config_title_find(config, "target", route->target, &route->head, "target");
}

/* Routes with the same session share its table, so their settings must be equal. */
static void check_session(weir_config *config, const weir_config_route *route)
{
	const weir_block_head *head = &route->head;
	char quoted[QUOTE_BYTES];
	if (route->session == NULL) {
		if (weir_config_given(head, "session-idle") || weir_config_given(head, "session-keys"))
			weir_config_warn(
				config, head, NULL,
				"route \"%s\": session-idle and session-keys do nothing without session",
				head->title);
		return;
	}
	if (!weir_session_text_is_good(route->session))
		weir_config_wrong(config, head, "session", "session: '%s': write cookie NAME or header NAME",
				  weir_text_quote(quoted, sizeof(quoted), route->session));
	if (route->exempt)
		weir_config_warn(config, head, "session",
				 "session does nothing where exempt is on: nobody is turned away");
	for (const weir_config_route *other = config->route; other < route; other++)
		if (other->session != NULL && !other->exempt && !route->exempt &&
		    strcmp(other->session, route->session) == 0 &&
		    (other->session_idle_ns != route->session_idle_ns ||
		     other->session_keys != route->session_keys)) {
			weir_config_wrong(config, head, "session",
					  "session: route \"%s\" has the same session with another "
					  "session-idle or session-keys; give both the same",
					  other->head.title);
			return;
		}
}

static void check_route(weir_config *config, weir_config_route *route)
{
	const weir_block_head *head = &route->head;
	route->level = -1;
	check_rules(config, head, route->match);
	check_kind(config, route);
	check_target_of(config, route);
	if (route->klass != NULL) {
		int at = weir_config_title_find(config, "class", route->klass, head, "class");
		route->level = at >= 0 ? (int)config->klass[at].level : -1;
	}
	if (route->reject != NULL && read_reject(config, route) != 0)
		weir_config_wrong(config, head, "reject", "reject: %s", weir_error());
	check_session(config, route);
	const weir_config_target *target =
		route->target_index >= 0 ? &config->target[route->target_index] : NULL;
	route->dry_run = config->dry_run || (target != NULL && target->dry_run);
	route->shed_ceiling = target != NULL ? target->shed_ceiling : 1;
}

void weir_config_check_routes(weir_config *config)
{
	const weir_config_route *all = NULL;
	for (unsigned i = 0; i < config->routes; i++) {
		weir_config_route *route = &config->route[i];
		check_route(config, route);
		if (all != NULL)
			weir_config_warn(
				config, &route->head, NULL,
				"route \"%s\" is never reached: \"%s\" before it matches every request",
				route->head.title, all->head.title);
		if (route->match == NULL && all == NULL)
			all = route;
	}
}
