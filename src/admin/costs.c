/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of kinds of request, as JSON, sorted by the time that they take in all. */
#include <stdlib.h>
#include <string.h>

#include "admin/inside.h"
#include "base/mem.h"
#include "http/server.h"

static const char *method_name(uint8_t method)
{
	static const char *const names[] = {"other",
#define WEIR_X(name) #name,
					    WEIR_METHODS(WEIR_X)
#undef WEIR_X
	};
	return method < WEIR_METHOD_COUNT ? names[method] : "other";
}

/* By work, then by name, so that the order is stable. */
static int compare(const void *a, const void *b)
{
	const weir_costs_view *x = a, *y = b;
	if (x->work_ns != y->work_ns)
		return x->work_ns < y->work_ns ? 1 : -1;
	return strcmp(x->path, y->path);
}

/* Writes the kinds, sorted, into an array with room for all; returns how many. */
static size_t collect(const weir_costs *costs, uint64_t now_ns, weir_costs_view *ret_views, double *ret_work)
{
	size_t count = 0;
	*ret_work = 0;
	for (uint32_t at = 0; at < weir_costs_places(costs); at++) {
		weir_costs_view *view = &ret_views[count];
		if (!weir_costs_view_at(costs, at, now_ns, view) || view->sort != WEIR_COSTS_KIND)
			continue;
		*ret_work += view->work_ns;
		count++;
	}
	qsort(ret_views, count, sizeof(*ret_views), compare);
	return count;
}

static json_t *kind_json(weir_http *http, const weir_costs_view *view, double work_ns)
{
	char route[128];
	if (!weir_http_route_name(http, view->route, route, sizeof(route)))
		route[0] = '\0';
	json_t *expected = view->expected_ns != 0 ? json_integer((json_int_t)view->expected_ns) : json_null();
	return json_pack("{s:s,s:s,s:s,s:I,s:o,s:I,s:I,s:I,s:f,s:f,s:f}", "route", route, "method",
			 method_name(view->method), "path", view->path, "count", (json_int_t)view->count,
			 "expected_ns", expected, "typical_ns", (json_int_t)view->typical_ns, "deviation_ns",
			 (json_int_t)view->deviation_ns, "p90_ns", (json_int_t)view->p90_ns, "confidence",
			 view->confidence, "share", work_ns > 0 ? view->work_ns / work_ns : 0., "age_s",
			 (double)view->age_ns / 1e9);
}

static json_t *kinds_json(weir_http *http, const weir_costs_view *views, size_t count, double work_ns)
{
	json_t *kinds = json_array();
	int failed = 0;
	for (size_t i = 0; i < count; i++)
		failed |= json_array_append_new(kinds, kind_json(http, &views[i], work_ns));
	if (failed == 0)
		return kinds;
	json_decref(kinds);
	return NULL;
}

json_t *weir_view_costs(weir_http *http, uint64_t now_ns, size_t most)
{
	const weir_costs *costs = http != NULL ? weir_http_costs(http) : NULL;
	if (costs == NULL)
		return json_pack("{s:i,s:i,s:[]}", "known", 0, "places", 0, "kinds");
	weir_costs_view *views = weir_mem_array(weir_costs_places(costs), sizeof(*views));
	double work_ns;
	if (views == NULL)
		return NULL;
	size_t count = collect(costs, now_ns, views, &work_ns);
	json_t *kinds = kinds_json(http, views, count < most ? count : most, work_ns);
	weir_mem_free(views);
	return kinds != NULL ? json_pack("{s:I,s:I,s:o}", "known", (json_int_t)count, "places",
					 (json_int_t)weir_costs_places(costs), "kinds", kinds)
			     : NULL;
}
