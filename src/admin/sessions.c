/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, and what happened to the requests of members and newcomers: as JSON and as metrics. */
#include "admin/view.h"
#include "http/server.h"

static const char *const standing_names[] = {[WEIR_NEWCOMER] = "newcomer", [WEIR_MEMBER] = "member"};

static json_t *requests_json(const weir_sessions_stats *stats, weir_standing standing)
{
	return json_pack("{s:I,s:I}", "admitted", (json_int_t)stats->admitted[standing], "refused",
			 (json_int_t)stats->refused[standing]);
}

static json_t *session_json(const weir_session_view *view)
{
	const weir_sessions_stats *stats = &view->stats;
	return json_pack("{s:s,s:I,s:I,s:I,s:f,s:o,s:o}", "session", view->name, "known",
			 (json_int_t)stats->known, "keys", (json_int_t)view->keys, "crowded",
			 (json_int_t)stats->crowded, "idle_s", (double)view->idle_ns / 1e9, "members",
			 requests_json(stats, WEIR_MEMBER), "newcomers", requests_json(stats, WEIR_NEWCOMER));
}

json_t *weir_view_sessions(weir_http *http, uint64_t now_ns)
{
	weir_session_view view;
	json_t *sessions = json_array();
	int failed = sessions == NULL;
	for (uint32_t at = 0; http != NULL && failed == 0 && weir_http_session_at(http, at, now_ns, &view);
	     at++)
		failed = json_array_append_new(sessions, session_json(&view));
	if (failed == 0)
		return json_pack("{s:o}", "sessions", sessions);
	json_decref(sessions);
	return NULL;
}

static void print_requests(FILE *to, const char *name, const weir_session_view *view, const uint64_t *counts)
{
	for (unsigned standing = WEIR_NEWCOMER; standing <= WEIR_MEMBER; standing++) {
		fprintf(to, "%s_total{", name);
		weir_view_label(to, "session", view->name);
		fprintf(to, ",standing=\"%s\"} %llu\n", standing_names[standing],
			(unsigned long long)counts[standing]);
	}
}

static void print_one(FILE *to, const char *name, const weir_session_view *view, uint64_t value)
{
	fprintf(to, "%s{", name);
	weir_view_label(to, "session", view->name);
	fprintf(to, "} %llu\n", (unsigned long long)value);
}

/* One family after the other, so each kind of session is read several times. There are few. */
void weir_view_sessions_metrics(weir_http *http, uint64_t now_ns, FILE *to)
{
	static const struct {
		const char *name, *type, *help;
	} all[] = {
		{"weir_sessions_known", "gauge",
		 "Sessions that were let in and have been used within the idle time."},
		{"weir_sessions_crowded", "counter", "Sessions that were not remembered for want of room."},
		{"weir_session_admitted", "counter",
		 "Requests that were let in, by whether their session was known."},
		{"weir_session_refused", "counter",
		 "Requests that were turned away, by whether their session was known."},
	};
	weir_session_view view;
	if (http == NULL || !weir_http_session_at(http, 0, now_ns, &view))
		return;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		weir_view_family(to, all[i].name, all[i].type, NULL, all[i].help);
		for (uint32_t at = 0; weir_http_session_at(http, at, now_ns, &view); at++)
			if (i == 0)
				print_one(to, all[i].name, &view, view.stats.known);
			else if (i == 1)
				print_one(to, "weir_sessions_crowded_total", &view, view.stats.crowded);
			else
				print_requests(to, all[i].name, &view,
					       i == 2 ? view.stats.admitted : view.stats.refused);
	}
}
