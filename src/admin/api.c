/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/inside.h"
#include "http/parse.h"

static const weir_field plain[] = {{WEIR_SPAN("Content-Type"), WEIR_SPAN("text/plain; charset=utf-8")},
				   {WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-store")}};

static void reply_bytes(weir_request *request, unsigned status, weir_span type, const void *bytes,
			size_t length)
{
	const weir_field fields[] = {{WEIR_SPAN("Content-Type"), type},
				     {WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-store")},
				     {WEIR_SPAN("X-Content-Type-Options"), WEIR_SPAN("nosniff")}};
	weir_reply reply = {
		.status = status, .fields = fields, .field_count = 3, .bytes = bytes, .length = length};
	weir_request_reply(request, &reply);
}

static void reply_text(weir_request *request, unsigned status, const char *text)
{
	weir_reply reply = {
		.status = status, .fields = plain, .field_count = 2, .bytes = text, .length = strlen(text)};
	weir_request_reply(request, &reply);
}

void weir_admin_reply_json(weir_request *request, unsigned status, json_t *json)
{
	char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (text == NULL) {
		reply_text(request, 500, "out of memory\n");
		return;
	}
	reply_bytes(request, status, WEIR_SPAN("application/json"), text, strlen(text));
	free(text);
}

void weir_admin_reply_error(weir_request *request, unsigned status, const char *sentence)
{
	weir_admin_reply_json(request, status, json_pack("{s:s}", "error", sentence));
}

/* ---- answers ---- */

static void answer_health(weir_admin *admin, weir_request *request)
{
	reply_text(request, 200, "ok\n");
}

static void answer_ready(weir_admin *admin, weir_request *request)
{
	bool ready = atomic_load_explicit(&admin->ready, memory_order_relaxed);
	reply_text(request, ready ? 200 : 503, ready ? "ready\n" : "not ready\n");
}

/* A client that asks for plain text, and not for OpenMetrics, does not know the latter. */
static bool wants_older(const weir_request *request)
{
	weir_span accept = weir_request_header(request, WEIR_SPAN("accept"));
	static const char plain_text[] = "text/plain", newer[] = "application/openmetrics-text";
	return accept.at != NULL &&
	       memmem(accept.at, accept.length, plain_text, sizeof(plain_text) - 1) != NULL &&
	       memmem(accept.at, accept.length, newer, sizeof(newer) - 1) == NULL;
}

static void answer_metrics(weir_admin *admin, weir_request *request)
{
	weir_view_context context = weir_admin_context(admin);
	bool older = wants_older(request);
	size_t length;
	char *text = weir_view_metrics(&admin->snapshot, &context, atomic_load(&admin->sheds.total), &length);
	char *shown = text != NULL && older ? weir_view_metrics_older(text, &length) : text;
	weir_span type = older ? WEIR_SPAN("text/plain; version=0.0.4; charset=utf-8")
			       : WEIR_SPAN("application/openmetrics-text; version=1.0.0; charset=utf-8");
	if (shown == NULL)
		reply_text(request, 500, "out of memory\n");
	else
		reply_bytes(request, 200, type, shown, length);
	if (shown != text)
		free(shown);
	free(text);
}

static void answer_stages(weir_admin *admin, weir_request *request)
{
	weir_view_context context = weir_admin_context(admin);
	weir_admin_reply_json(request, 200, weir_view_stages(&admin->snapshot, &context));
}

static void answer_history(weir_admin *admin, weir_request *request)
{
	struct timespec wall;
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	clock_gettime(CLOCK_REALTIME, &wall);
	if (to != NULL)
		weir_history_print(&admin->history, weir_world_now(admin->options.world),
				   (double)wall.tv_sec + (double)wall.tv_nsec / 1e9, to);
	if (to == NULL || fclose(to) != 0)
		reply_text(request, 500, "out of memory\n");
	else
		reply_bytes(request, 200, WEIR_SPAN("application/json"), text, length);
	free(text);
}

static void answer_graph(weir_admin *admin, weir_request *request)
{
	weir_admin_reply_json(request, 200, weir_view_graph(&admin->snapshot));
}

static void answer_sheds(weir_admin *admin, weir_request *request)
{
	weir_view_context context = weir_admin_context(admin);
	uint64_t newest = 0;
	json_t *sheds = weir_view_sheds(&admin->sheds, 0, &context, &newest);
	json_int_t total = (json_int_t)atomic_load(&admin->sheds.total);
	weir_admin_reply_json(request, 200,
			      sheds != NULL ? json_pack("{s:I,s:o}", "total", total, "sheds", sheds) : NULL);
}

static void answer_backends(weir_admin *admin, weir_request *request)
{
	json_t *backends = weir_view_shown(&admin->options, "backends");
	weir_admin_reply_json(request, 200,
			      backends != NULL ? json_pack("{s:o}", "backends", backends) : NULL);
}

static void answer_accounts(weir_admin *admin, weir_request *request)
{
	json_t *accounts = weir_view_shown(&admin->options, "accounts");
	json_t *revenue = weir_view_shown(&admin->options, "revenue");
	weir_admin_reply_json(request, 200, json_pack("{s:o,s:o}", "accounts", accounts, "revenue", revenue));
}

static void answer_verdict(weir_admin *admin, weir_request *request)
{
	json_t *verdict = weir_view_verdict(&admin->options);
	json_t *stages = weir_view_shown(&admin->options, "overloads");
	weir_admin_reply_json(request, 200, json_pack("{s:o,s:o}", "verdict", verdict, "stages", stages));
}

static void answer_transmit(weir_admin *admin, weir_request *request)
{
	json_t *transmit = weir_view_shown(&admin->options, "transmit");
	weir_admin_reply_json(request, 200,
			      transmit != NULL ? json_pack("{s:o}", "transmit", transmit) : NULL);
}

static void answer_counters(weir_admin *admin, weir_request *request)
{
	json_t *counters = weir_view_shown(&admin->options, NULL);
	weir_admin_reply_json(request, 200,
			      counters != NULL ? json_pack("{s:o}", "counters", counters) : NULL);
}

json_t *weir_admin_costs(const weir_admin *admin, size_t most)
{
	weir_http *http = admin->options.http != NULL ? admin->options.http(admin->options.arg) : NULL;
	return weir_view_costs(http, weir_admin_context(admin).now_ns, most);
}

static void answer_costs(weir_admin *admin, weir_request *request)
{
	weir_admin_reply_json(request, 200, weir_admin_costs(admin, SIZE_MAX));
}

static void answer_sessions(weir_admin *admin, weir_request *request)
{
	weir_http *http = admin->options.http != NULL ? admin->options.http(admin->options.arg) : NULL;
	weir_admin_reply_json(request, 200, weir_view_sessions(http, weir_admin_context(admin).now_ns));
}

static void answer_config(weir_admin *admin, weir_request *request)
{
	char *text = admin->options.config != NULL ? admin->options.config(admin->options.arg) : NULL;
	reply_text(request, text != NULL ? 200 : 404, text != NULL ? text : "there is no configuration\n");
	free(text);
}

/* "every=N" in the query. */
static bool every_in(weir_span query, uint32_t *ret_every)
{
	char text[24], *end;
	if (query.at == NULL || query.length <= 6 || query.length >= sizeof(text) ||
	    memcmp(query.at, "every=", 6) != 0)
		return false;
	memcpy(text, query.at + 6, query.length - 6);
	text[query.length - 6] = '\0';
	unsigned long every = strtoul(text, &end, 10);
	if (*end != '\0' || text[0] < '0' || text[0] > '9' || every > UINT32_MAX)
		return false;
	*ret_every = (uint32_t)every;
	return true;
}

static void answer_trace(weir_admin *admin, weir_request *request)
{
	uint32_t every;
	if (weir_request_method(request) == WEIR_METHOD_PUT) {
		if (!every_in(weir_request_query(request), &every)) {
			weir_admin_reply_error(request, 400,
					       "expected ?every=N: one of N requests is traced, 0: none");
			return;
		}
		weir_trace_every(admin->options.world, every);
	}
	json_t *trace = weir_view_trace(admin->options.world);
	weir_admin_reply_json(request, 200, trace != NULL ? json_pack("{s:o}", "trace", trace) : NULL);
}

/* ---- one stage ---- */

static weir_stage_view *stage_named(weir_admin *admin, const char *name)
{
	for (size_t i = 0; i < admin->snapshot.stage_count; i++) {
		weir_stage_view *view = &admin->snapshot.stages[i];
		if (view->stage != NULL && strcmp(weir_stage_name(view->stage), name) == 0)
			return view;
	}
	return NULL;
}

static void change_stage(weir_stage_view *view, weir_request *request, const weir_view_context *context)
{
	weir_buf *body = weir_request_collected(request);
	json_error_t wrong;
	char text[JSON_ERROR_TEXT_LENGTH + 64];
	json_t *wanted = body != NULL ? json_loadb((const char *)body->data, body->length, 0, &wrong) : NULL;
	if (wanted == NULL && body != NULL)
		snprintf(text, sizeof(text), "the body is no JSON: line %d, column %d: %s", wrong.line,
			 wrong.column, wrong.text);
	if (wanted == NULL)
		weir_admin_reply_error(request, 400,
				       body != NULL ? text : "expected an object with what to change");
	else if (weir_admin_change(view->stage, wanted) != 0)
		weir_admin_reply_error(request, 400, weir_error());
	else
		weir_admin_reply_json(request, 200, weir_view_stage(view, context));
	json_decref(wanted);
}

static void answer_stage(weir_admin *admin, weir_request *request, const char *name)
{
	weir_view_context context = weir_admin_context(admin);
	weir_stage_view *view = stage_named(admin, name);
	if (view == NULL)
		weir_admin_reply_error(request, 404,
				       "there is no stage of that name; GET /api/stages lists them");
	else if (weir_request_method(request) == WEIR_METHOD_PUT)
		change_stage(view, request, &context);
	else
		weir_admin_reply_json(request, 200, weir_view_stage(view, &context));
}

/* ---- the page ---- */

static void answer_asset(weir_request *request, const weir_asset *asset)
{
	weir_span type = {asset->type, strlen(asset->type)}, etag = {asset->etag, strlen(asset->etag)};
	const weir_field fields[] = {
		{WEIR_SPAN("Content-Type"), type},
		{WEIR_SPAN("ETag"), etag},
		{WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-cache")},
		{WEIR_SPAN("X-Content-Type-Options"), WEIR_SPAN("nosniff")},
		{WEIR_SPAN("X-Frame-Options"), WEIR_SPAN("DENY")},
		{WEIR_SPAN("Referrer-Policy"), WEIR_SPAN("no-referrer")},
		{WEIR_SPAN("Content-Security-Policy"),
		 WEIR_SPAN("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
			   "img-src 'self'; "
			   "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")},
	};
	weir_span known = weir_request_header(request, WEIR_SPAN("if-none-match"));
	bool same = known.at != NULL && weir_span_is(known, etag);
	weir_reply reply = {.status = same ? 304 : 200,
			    .fields = fields,
			    .field_count = sizeof(fields) / sizeof(fields[0]),
			    .bytes = asset->bytes,
			    .length = same ? 0 : asset->length};
	weir_request_reply(request, &reply);
}

static const weir_asset *asset_at(const weir_admin *admin, const char *path)
{
	if (atomic_load_explicit(&admin->pageless, memory_order_relaxed))
		return NULL;
	for (const weir_asset *asset = weir_assets; asset->path != NULL; asset++)
		if (strcmp(asset->path, path) == 0)
			return asset;
	return NULL;
}

/* ---- dispatch ---- */

static const struct {
	const char *path;
	void (*answer)(weir_admin *admin, weir_request *request);
	bool may_put;
} answers[] = {
	{"/metrics", answer_metrics, false},       {"/api/stages", answer_stages, false},
	{"/api/graph", answer_graph, false},       {"/api/sheds", answer_sheds, false},
	{"/api/backends", answer_backends, false}, {"/api/counters", answer_counters, false},
	{"/api/trace", answer_trace, true},        {"/api/config", answer_config, false},
	{"/api/stream", weir_stream_begin, false}, {"/api/costs", answer_costs, false},
	{"/api/sessions", answer_sessions, false}, {"/api/accounts", answer_accounts, false},
	{"/api/transmit", answer_transmit, false}, {"/nucleus", weir_admin_answer_nucleus, false},
	{"/api/verdict", answer_verdict, false},   {"/api/history", answer_history, false},
};

static bool asked_to_read(const weir_request *request)
{
	weir_method method = weir_request_method(request);
	return method == WEIR_METHOD_GET || method == WEIR_METHOD_HEAD;
}

static void refuse_method(weir_request *request, bool may_put)
{
	const weir_field allow = {WEIR_SPAN("Allow"),
				  may_put ? WEIR_SPAN("GET, HEAD, PUT") : WEIR_SPAN("GET, HEAD")};
	weir_reply reply = {.status = 405, .fields = &allow, .field_count = 1};
	weir_request_reply(request, &reply);
}

static void answer_path(weir_admin *admin, weir_request *request, const char *path)
{
	static const char one[] = "/api/stages/";
	bool put = weir_request_method(request) == WEIR_METHOD_PUT;
	if (strncmp(path, one, sizeof(one) - 1) == 0 && path[sizeof(one) - 1] != '\0') {
		answer_stage(admin, request, path + sizeof(one) - 1);
		return;
	}
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (strcmp(path, answers[i].path) == 0) {
			if (put && !answers[i].may_put)
				refuse_method(request, false);
			else
				answers[i].answer(admin, request);
			return;
		}
	const weir_asset *asset = asset_at(admin, strcmp(path, "/") == 0 ? "/index.html" : path);
	if (asset != NULL && !put)
		answer_asset(request, asset);
	else
		weir_admin_reply_error(request, 404, "there is nothing of that name; see docs/admin.md");
}

void weir_admin_answer(weir_admin *admin, weir_request *request)
{
	char path[256];
	size_t length;
	bool dot;
	weir_snapshot_renew(&admin->snapshot);
	if (!weir_path_clean(weir_request_path(request), path, sizeof(path), &length, &dot)) {
		weir_admin_reply_error(request, 404, "there is nothing of that name; see docs/admin.md");
		return;
	}
	/* Before the guard: supervisors use whatever host name they know. */
	if (asked_to_read(request) && strcmp(path, "/healthz") == 0) {
		answer_health(admin, request);
		return;
	}
	if (asked_to_read(request) && strcmp(path, "/readyz") == 0) {
		answer_ready(admin, request);
		return;
	}
	bool changes = !asked_to_read(request);
	if (changes && weir_request_method(request) != WEIR_METHOD_PUT)
		refuse_method(request, true);
	else if (weir_admin_guard(admin, request, changes))
		answer_path(admin, request, path);
}
