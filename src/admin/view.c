/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson's setters fail when given NULL (out of memory). A view without one of its members would be wrong
 * and nobody would notice. So `failed` collects the results, and a failure discards the whole.
 */
#include "admin/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weir/monitor.h>

#include "base/mem.h"
#include "base/text.h"
#include "keys/keys.h"
#include "stage/friends.h"

static void put(json_t *object, const char *key, json_t *value, int *failed)
{
	*failed |= json_object_set_new(object, key, value);
}

static void put_count(json_t *object, const char *key, uint64_t count, int *failed)
{
	put(object, key, json_integer((json_int_t)count), failed);
}

static void put_number(json_t *object, const char *key, double number, int *failed)
{
	put(object, key, json_real(number), failed);
}

static void put_text(json_t *object, const char *key, const char *text, int *failed)
{
	put(object, key, text != NULL ? json_string(text) : json_null(), failed);
}

/* 0 means none, shown as null. */
static void put_if(json_t *object, const char *key, double number, int *failed)
{
	put(object, key, number != 0 ? json_real(number) : json_null(), failed);
}

static json_t *finished(json_t *object, int failed)
{
	if (failed == 0)
		return object;
	json_decref(object);
	return NULL;
}

/* ---- a stage ---- */

static json_t *by_verdict(const uint64_t *counts, int *failed)
{
	json_t *object = json_object();
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		if (counts[why] != 0)
			put_count(object, weir_verdict_name((weir_verdict)why), counts[why], failed);
	return object;
}

static json_t *rates(const weir_rates *rate, int *failed)
{
	json_t *object = json_object();
	put_number(object, "offered", rate->offered, failed);
	put_number(object, "admitted", rate->admitted, failed);
	put_number(object, "shed", rate->shed, failed);
	put_number(object, "completed", rate->completed, failed);
	put_number(object, "failed", rate->failed, failed);
	put_number(object, "dropped", rate->dropped, failed);
	put_number(object, "spared", rate->spared, failed);
	return object;
}

static json_t *recent(const weir_recent_times *seen, int *failed)
{
	json_t *object = json_object();
	put_count(object, "count", seen->count, failed);
	put_count(object, "p50_ns", seen->p50_ns, failed);
	put_count(object, "p90_ns", seen->p90_ns, failed);
	put_count(object, "p99_ns", seen->p99_ns, failed);
	put_count(object, "wait_p90_ns", seen->wait_p90_ns, failed);
	put_count(object, "service_p90_ns", seen->service_p90_ns, failed);
	return object;
}

static void put_class(json_t *object, const weir_class_view *view, int *failed)
{
	put_count(object, "offered", view->stats.offered, failed);
	put_count(object, "admitted", view->stats.admitted, failed);
	put_count(object, "shed", view->stats.shed, failed);
	put_count(object, "completed", view->stats.completed, failed);
	put_count(object, "failed", view->stats.failed, failed);
	put_count(object, "dropped", view->stats.dropped, failed);
	put_count(object, "in_flight", view->stats.in_flight, failed);
	put(object, "rate", rates(&view->rate, failed), failed);
	put(object, "recent", recent(&view->recent, failed), failed);
	put(object, "shed_by", by_verdict(view->stats.by_verdict, failed), failed);
	put(object, "dropped_by", by_verdict(view->stats.drops, failed), failed);
	put(object, "spared_by", by_verdict(view->stats.spared, failed), failed);
}

static const char *class_name(const weir_view_context *context, unsigned klass)
{
	const char *const *names = context->options->class_names;
	return names != NULL ? __atomic_load_n(&names[klass], __ATOMIC_ACQUIRE) : NULL;
}

static json_t *stage_class(const weir_stage_view *stage, unsigned klass, const weir_view_context *context,
			   int *failed)
{
	weir_report report = {.quality = 1};
	weir_stage_report(stage->stage, klass, &report);
	json_t *object = json_object();
	put_count(object, "class", klass, failed);
	put_text(object, "name", class_name(context, klass), failed);
	put_if(object, "target_ns", (double)report.target_ns, failed);
	put_if(object, "percentile", report.quantile, failed);
	put_if(object, "measured_ns", (double)report.measured_ns, failed);
	put_if(object, "alone_ns", (double)report.alone_ns, failed);
	put_number(object, "quality", report.quality, failed);
	put(object, "shedding", json_boolean(report.shedding), failed);
	put(object, "unreachable", json_boolean(report.unreachable), failed);
	put_class(object, &stage->klass[klass], failed);
	return object;
}

/* The classes that were offered something; before that the highest, so that the target is shown. */
static json_t *stage_classes(const weir_stage_view *stage, const weir_view_context *context, int *failed)
{
	json_t *array = json_array();
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++)
		if (stage->klass[klass].stats.offered != 0 || (klass == 0 && stage->all.stats.offered == 0))
			*failed |= json_array_append_new(array, stage_class(stage, klass, context, failed));
	return array;
}

static const char *mode_name(weir_admission_mode mode)
{
	return mode == WEIR_DRY_RUN ? "dry-run" : mode == WEIR_ADMIT_ALL ? "admit-all" : "enforce";
}

static json_t *law_values(const weir_report *report, int *failed)
{
	json_t *object = json_object();
	for (unsigned i = 0; i < report->count; i++)
		put_number(object, report->value[i].name, report->value[i].value, failed);
	return object;
}

double weir_view_quality(const weir_stage_view *view)
{
	double least = weir_stage_quality(view->stage, 0);
	for (unsigned klass = 1; klass < WEIR_CLASSES; klass++) {
		double one =
			view->klass[klass].stats.offered != 0 ? weir_stage_quality(view->stage, klass) : 1;
		least = one < least ? one : least;
	}
	return least;
}

/* The law as a whole, from its report on the highest class; the quality is the worst of all classes. */
static void put_law(json_t *object, const weir_stage_view *view, const weir_admission_law *law, int *failed)
{
	const weir_stage *stage = view->stage;
	weir_report report = {.quality = 1}, out_of_reach;
	bool any = weir_stage_report(stage, 0, &report);
	bool shedding = false, unreachable = weir_stage_out_of_reach(stage, &out_of_reach);
	for (unsigned klass = 0; any && klass < WEIR_CLASSES; klass++) {
		weir_report one = {0};
		weir_stage_report(stage, klass, &one);
		shedding |= one.shedding;
	}
	put_text(object, "law", law != NULL ? law->name : NULL, failed);
	put(object, "params", weir_view_params(stage), failed);
	put_if(object, "limit", report.limit, failed);
	put_if(object, "admit_per_s", report.rate_per_s, failed);
	put(object, "shedding", json_boolean(shedding), failed);
	put(object, "unreachable", json_boolean(unreachable), failed);
	put_if(object, "alone_ns", (double)(unreachable ? out_of_reach : report).alone_ns, failed);
	put_number(object, "quality", weir_view_quality(view), failed);
	put(object, "values", law_values(&report, failed), failed);
}

json_t *weir_view_stage(const weir_stage_view *view, const weir_view_context *context)
{
	const weir_stage *stage = view->stage;
	const weir_domain *domain = weir_stage_domain(stage);
	int failed = 0;
	json_t *object = json_object();
	json_t *all = json_object();
	weir_stage_settings settings;
	weir_stage_read_settings(stage, &settings);
	put_text(object, "name", weir_stage_name(stage), &failed);
	put_text(object, "domain", weir_domain_name(domain), &failed);
	put_text(object, "kind", weir_domain_is_reactor(domain) ? "reactor" : "elastic", &failed);
	put_count(object, "threads", weir_domain_threads(domain), &failed);
	put_text(object, "mode", mode_name(settings.mode), &failed);
	put_number(object, "shed_ceiling", settings.shed_ceiling, &failed);
	put_count(object, "waiting", view->all.stats.waiting, &failed);
	put_count(object, "in_service", view->all.stats.in_service, &failed);
	put_count(object, "capacity", settings.capacity, &failed);
	if (settings.bound != NULL) {
		put_count(object, "concurrency", weir_bound_most(settings.bound), &failed);
		put_count(object, "concurrency_used", weir_bound_inside(settings.bound), &failed);
	}
	put_law(object, view, settings.law, &failed);
	put_class(all, &view->all, &failed);
	put(object, "all", all, &failed);
	put(object, "class", stage_classes(view, context, &failed), &failed);
	return finished(object, failed);
}

/* ---- the process ---- */

static json_t *process(const weir_view_context *context, int *failed)
{
	weir_http_stats stats = {0};
	json_t *object = json_object();
	if (context->options->http_stats != NULL)
		context->options->http_stats(&stats, context->options->arg);
	put_text(object, "version", weir_version(), failed);
	put_text(object, "verb", context->options->verb, failed);
	put_count(object, "pid", (uint64_t)getpid(), failed);
	put_number(object, "uptime_s", (double)(context->now_ns - context->started_ns) / 1e9, failed);
	put(object, "ready", json_boolean(context->ready), failed);
	put_count(object, "connections", stats.open, failed);
	put_count(object, "busy", stats.busy, failed);
	return object;
}

static json_t *resources(const weir_world *world, int *failed)
{
	json_t *object = json_object();
	weir_resources seen;
	const weir_monitor *monitor = weir_world_monitor(world);
	if (monitor == NULL)
		return object;
	weir_monitor_read(monitor, &seen);
	for (unsigned i = 0; i < WEIR_RESOURCES; i++) {
		json_t *one = json_object();
		put(one, "value", seen.of[i].known ? json_real(seen.of[i].value) : json_null(), failed);
		put_number(one, "level", seen.of[i].level, failed);
		put(object, weir_resource_name((weir_resource)i), one, failed);
	}
	return object;
}

static json_t *class_names(const weir_view_context *context, int *failed)
{
	json_t *array = json_array();
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		const char *name = class_name(context, klass);
		*failed |= json_array_append_new(array, name != NULL ? json_string(name) : json_null());
	}
	return array;
}

json_t *weir_view_stages(const weir_snapshot *snapshot, const weir_view_context *context)
{
	int failed = 0;
	json_t *object = json_object();
	json_t *stages = json_array();
	put_count(object, "now_ns", snapshot->taken_ns, &failed);
	put(object, "process", process(context, &failed), &failed);
	put(object, "resources", resources(snapshot->world, &failed), &failed);
	put(object, "classes", class_names(context, &failed), &failed);
	for (size_t i = 0; i < snapshot->stage_count; i++)
		if (snapshot->stages[i].stage != NULL)
			failed |=
				json_array_append_new(stages, weir_view_stage(&snapshot->stages[i], context));
	put(object, "stages", stages, &failed);
	return finished(object, failed);
}

json_t *weir_view_graph(const weir_snapshot *snapshot)
{
	int failed = 0;
	json_t *object = json_object(), *nodes = json_array(), *edges = json_array();
	for (size_t i = 0; i < snapshot->stage_count; i++) {
		if (snapshot->stages[i].stage == NULL)
			continue;
		json_t *node = json_object();
		put_text(node, "name", weir_stage_name(snapshot->stages[i].stage), &failed);
		put_text(node, "domain", weir_domain_name(weir_stage_domain(snapshot->stages[i].stage)),
			 &failed);
		failed |= json_array_append_new(nodes, node);
	}
	for (size_t i = 0; i < snapshot->edge_count; i++) {
		const weir_edge_view *at = &snapshot->edges[i];
		json_t *edge = json_object();
		put_text(edge, "from",
			 at->from != UINT16_MAX ? weir_stage_name(snapshot->stages[at->from].stage) : NULL,
			 &failed);
		put_text(edge, "to", weir_stage_name(snapshot->stages[at->to].stage), &failed);
		put_count(edge, "count", at->count, &failed);
		put_number(edge, "per_s", at->per_s, &failed);
		put_number(edge, "shed_per_s", at->shed_per_s, &failed);
		failed |= json_array_append_new(edges, edge);
	}
	put(object, "nodes", nodes, &failed);
	put(object, "edges", edges, &failed);
	return finished(object, failed);
}

/* ---- sheds ---- */

/* A peer's bytes: anything but ASCII is shown as '?', so that the JSON is always valid. */
static json_t *shown(const char *text)
{
	char quoted[256];
	return json_string(weir_text_quote(quoted, sizeof(quoted), text));
}

static void put_when(json_t *object, int64_t at_ms, int *failed)
{
	char text[64];
	struct tm at;
	time_t seconds = (time_t)(at_ms / 1000);
	gmtime_r(&seconds, &at);
	size_t length = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &at);
	snprintf(text + length, sizeof(text) - length, ".%03dZ", (int)(at_ms % 1000));
	put_text(object, "when", text, failed);
}

static json_t *one_shed(const weir_shed *shed, const weir_view_context *context, int *failed)
{
	json_t *object = json_object();
	put_count(object, "id", shed->id, failed);
	put_count(object, "at_ns", shed->at_ns, failed);
	put_when(object, shed->at_ms, failed);
	put_text(object, "stage", shed->stage, failed);
	put_count(object, "class", shed->why.klass, failed);
	put_text(object, "class_name", class_name(context, shed->why.klass % WEIR_CLASSES), failed);
	put(object, "route", shown(shed->route), failed);
	put(object, "method", shown(shed->method), failed);
	put(object, "path", shown(shed->path), failed);
	put_text(object, "client", shed->client, failed);
	put_text(object, "reason", weir_verdict_name(shed->why.verdict), failed);
	put_text(object, "law", shed->why.law, failed);
	put_count(object, "estimate_ns", shed->why.estimate_ns, failed);
	put_count(object, "bound_ns", shed->why.bound_ns, failed);
	put_count(object, "target_ns", shed->why.target_ns, failed);
	put_count(object, "retry_after_ns", shed->why.retry_after_ns, failed);
	put_count(object, "status", shed->status, failed);
	return object;
}

json_t *weir_view_sheds(weir_sheds *sheds, uint64_t after, const weir_view_context *context,
			uint64_t *ret_newest)
{
	static _Thread_local weir_shed read[WEIR_SHEDS_KEPT];
	size_t count = weir_sheds_read(sheds, after, read, WEIR_SHEDS_KEPT);
	int failed = 0;
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++)
		failed |= json_array_append_new(array, one_shed(&read[i], context, &failed));
	if (count != 0)
		*ret_newest = read[0].id;
	return finished(array, failed);
}

/* ---- the trace ---- */

json_t *weir_view_trace(const weir_world *world)
{
	static _Thread_local weir_trace_entry entries[1024];
	size_t count = weir_trace_read(world, entries, sizeof(entries) / sizeof(entries[0]));
	int failed = 0;
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++) {
		const weir_trace_entry *at = &entries[i];
		char step[2] = {(char)at->step, '\0'};
		json_t *object = json_object();
		put_count(object, "at_ns", at->at_ns, &failed);
		put_count(object, "event", at->event, &failed);
		put_text(object, "stage", weir_trace_stage(world, at), &failed);
		put_count(object, "class", at->klass, &failed);
		put_text(object, "step", step, &failed);
		if (at->verdict != WEIR_ADMITTED)
			put_text(object, "reason", weir_verdict_name(at->verdict), &failed);
		failed |= json_array_append_new(array, object);
	}
	return finished(array, failed);
}

/* ---- parameters ---- */

static json_t *param_text(const weir_key *param, const void *at)
{
	char text[64];
	return json_string(weir_key_print(param, at, text, sizeof(text)));
}

static void put_param(json_t *object, const weir_key *param, const unsigned char *at, int *failed)
{
	size_t bytes = weir_key_bytes(param);
	put(object, param->name, param_text(param, at), failed);
	for (unsigned klass = 1; (param->flags & WEIR_KEY_PER_CLASS) != 0 && klass < WEIR_CLASSES; klass++) {
		char name[64];
		if (memcmp(at, at + klass * bytes, bytes) == 0)
			continue; /* same as the highest class */
		snprintf(name, sizeof(name), "%s[%u]", param->name, klass);
		put(object, name, param_text(param, at + klass * bytes), failed);
	}
}

json_t *weir_view_params(const weir_stage *stage)
{
	weir_stage_settings settings;
	json_t *object = json_object();
	int failed = 0;
	weir_stage_read_settings(stage, &settings);
	if (settings.law == NULL || settings.law->params == NULL)
		return object;
	unsigned char *params = weir_mem_zalloc(settings.law->params_bytes);
	failed |= params == NULL;
	if (params != NULL && weir_stage_read_params(stage, settings.law, params))
		for (const weir_key *param = settings.law->params; param->name != NULL; param++)
			put_param(object, param, params + param->offset, &failed);
	weir_mem_free(params);
	return finished(object, failed);
}
