/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes, classes and limits, replaced as a whole: requests in progress keep the old one. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "rules/routes.h"
#include "service/service_inside.h"

#define RULE_BYTES 2048

static int read_page(const char *path, weir_buf **ret_page)
{
	FILE *file = fopen(path, "re");
	weir_buf *page = weir_buf_new(WEIR_CONFIG_PAGE_MAX);
	int failed = file == NULL ? -errno : page == NULL ? -ENOMEM : 0;
	if (failed == 0)
		page->length = (uint32_t)fread(page->data, 1, WEIR_CONFIG_PAGE_MAX, file);
	if (failed == 0 && fgetc(file) != EOF) /* it has grown since the check */
		failed = -EFBIG;
	if (file != NULL)
		fclose(file);
	if (failed != 0) {
		weir_buf_unref(page);
		return weir_error_set(failed, "%s: %s", path, strerror(-failed));
	}
	*ret_page = page;
	return 0;
}

/*
 * A route of its own, placed before the route, for requests that are never rejected. A client that asks for
 * the same as a backend's health checks is checking its health, too, and must not be told that it is
 * unhealthy because it is busy.
 */
static int add_exempt_route(const weir_config *config, const weir_config_route *route,
			    const weir_route_options *like, weir_routes *routes)
{
	const char *rules[WEIR_RULES_MAX + 1];
	char rule[RULE_BYTES];
	const weir_kind *kind = weir_config_kind(config, route);
	weir_route_view view = weir_config_view(config, route);
	weir_route_options options = *like;
	size_t count = 0;
	if (route->exempt || kind->exempt == NULL || !kind->exempt(config, &view, rule, sizeof(rule)))
		return 0;
	while (route->match != NULL && route->match[count] != NULL && count < WEIR_RULES_MAX - 1) {
		rules[count] = route->match[count];
		count++;
	}
	if (count == WEIR_RULES_MAX - 1) /* the check has warned */
		return 0;
	rules[count] = rule;
	rules[count + 1] = "method GET HEAD";
	rules[count + 2] = NULL;
	options.rules = rules;
	options.exempt = true;
	return weir_routes_add(routes, &options);
}

static int add_route(weir_service *service, const weir_config *config, const weir_config_route *route,
		     weir_routes *routes)
{
	const weir_thing *thing = weir_things_for(&service->things, config, route);
	weir_route_view view = weir_config_view(config, route);
	weir_buf *page = NULL;
	if (thing == NULL)
		return -EINVAL;
	bool streams = thing->kind->streams == NULL || thing->kind->streams(config, &view);
	int failed = route->reject_page != NULL ? read_page(route->reject_page, &page) : 0;
	weir_route_options options = {.name = route->head.title,
				      .rules = route->match,
				      .stage = thing->stage,
				      .klass = route->level != 0 ? route->level : WEIR_CLASS_HIGHEST,
				      .exempt = route->exempt,
				      .classify = thing->kind->classify,
				      .classify_arg = thing->self,
				      .refuse = thing->kind->refuse,
				      .refuse_arg = thing->self,
				      .note_shed = thing->kind->note_shed,
				      .note_shed_arg = thing->self,
				      .collect_bytes = route->collect_bytes,
				      .gather_bytes = route->gather_bytes,
				      .gather_streams = !streams,
				      .deadline_ns = route->deadline_ns,
				      .reject = route->reject_kind,
				      .reject_status = route->reject_status,
				      .location = route->reject_location,
				      .page = page,
				      .page_type = "text/html; charset=utf-8",
				      .session = route->session,
				      .session_idle_ns = route->session_idle_ns,
				      .session_keys = route->session_keys};
	if (failed == 0)
		failed = add_exempt_route(config, route, &options, routes);
	if (failed == 0)
		failed = weir_routes_add(routes, &options);
	weir_buf_unref(page);
	return failed;
}

static int add_class(const weir_config_class *klass, weir_routes *routes)
{
	weir_class_options options = {
		.name = klass->head.title, .klass = klass->level, .rules = klass->match};
	return weir_routes_add_class(routes, &options);
}

static int add_limit(const weir_config_limit *limit, weir_routes *routes)
{
	weir_limit_options options = {.name = limit->head.title,
				      .rules = limit->match,
				      .key = limit->key,
				      .rate_per_s = limit->rate_per_s,
				      .burst = limit->burst,
				      .keys = limit->keys};
	return weir_routes_add_limit(routes, &options);
}

int weir_service_make_routes(weir_service *service, const weir_config *config, weir_routes **ret_routes)
{
	weir_routes *routes;
	int failed = weir_routes_new(&routes);
	if (failed != 0)
		return failed;
	if (config->http.paths == WEIR_CONFIG_RAW_PATHS)
		failed = weir_routes_raw_paths(routes);
	for (unsigned i = 0; failed == 0 && i < config->classes; i++)
		failed = add_class(&config->klass[i], routes);
	weir_routes_go_on(routes, service->routes);
	for (unsigned i = 0; failed == 0 && i < config->limits; i++)
		failed = add_limit(&config->limit[i], routes);
	for (unsigned i = 0; failed == 0 && i < config->routes; i++)
		failed = add_route(service, config, &config->route[i], routes);
	weir_routes_go_on(routes, NULL);
	if (failed != 0)
		weir_routes_unref(routes);
	else
		*ret_routes = routes;
	return failed;
}
