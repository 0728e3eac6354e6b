/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of requests: what an answer makes known, what is counted, and what operators and successors are
 * told. routes.c finds out before the offer who is a member.
 *
 * A session becomes known by an answer to an admitted request: by the identifier that the answer sets or, if
 * it sets none, the one in the request. If the answer sets another identifier, it has not accepted the
 * request's, which does not count. A refusal for overload ends the session. A refusal by a quota does not, as
 * it says nothing about the service.
 */
#include <string.h>
#include <time.h>

#include "http/server.h"
#include "stage/friends.h"

/* ---- Set-Cookie: "sid=31d4; Path=/; Max-Age=600; HttpOnly" ---- */

static weir_span trim(weir_span text)
{
	while (text.length > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
		text = (weir_span){text.at + 1, text.length - 1};
	while (text.length > 0 && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* The text before the sign. *rest becomes the text after it; without a sign its address is NULL. */
static weir_span before(weir_span *rest, char sign)
{
	weir_span all = *rest;
	const char *at = all.length > 0 ? memchr(all.at, sign, all.length) : NULL;
	size_t length = at != NULL ? (size_t)(at - all.at) : all.length;
	*rest = at != NULL ? (weir_span){at + 1, all.length - length - 1} : (weir_span){0};
	return trim((weir_span){all.at, length});
}

/* Whether the attributes expire the cookie at once. */
static bool is_deleted(weir_span attributes, int64_t now_s)
{
	while (attributes.at != NULL) {
		weir_span value = before(&attributes, ';');
		weir_span name = before(&value, '=');
		value = value.at != NULL ? trim(value) : value;
		if (weir_span_is(name, WEIR_SPAN("max-age")) && value.length > 0) {
			size_t zeros = 0;
			while (zeros < value.length && value.at[zeros] == '0')
				zeros++;
			return value.at[0] == '-' || zeros == value.length; /* has precedence over Expires */
		}
		if (weir_span_is(name, WEIR_SPAN("expires")) && value.length > 0) {
			int64_t until_s = weir_date_parse(value, now_s);
			if (until_s >= 0 && until_s <= now_s)
				return true;
		}
	}
	return false;
}

bool weir_set_cookie_find(weir_span value, weir_span name, int64_t now_s, weir_span *ret_id)
{
	weir_span attributes = value, id = before(&attributes, ';');
	weir_span found = before(&id, '=');
	if (id.at == NULL || found.length != name.length || memcmp(found.at, name.at, name.length) != 0)
		return false;
	id = trim(id);
	*ret_id = is_deleted(attributes, now_s) ? (weir_span){id.at, 0} : id;
	return true;
}

/* ---- what an answer makes known ---- */

static int64_t wall_clock_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

/*
 * The hash of the identifier that the answer sets, 0 if it deletes it; false: it does neither. The last one
 * counts, as in clients.
 */
static bool find_issued(const weir_session_rule *rule, const weir_reply *reply, uint64_t *ret_hash)
{
	weir_span id;
	bool found = false;
	for (size_t i = 0; rule->by == WEIR_BY_COOKIE && i < reply->field_count; i++)
		if (weir_span_is(reply->fields[i].name, WEIR_SPAN("set-cookie")) &&
		    weir_set_cookie_find(reply->fields[i].value, rule->name, wall_clock_s(), &id)) {
			*ret_hash = weir_sessions_hash(rule->sessions, id);
			found = true;
		}
	return found;
}

void weir_request_remember(weir_request *request, const weir_reply *reply)
{
	const weir_session_rule *rule = request->route->session;
	enum weir_event_state state = weir_event_state(&request->event);
	unsigned status = reply->status;
	uint64_t hash = 0;
	/* Only admitted requests that their handler has neither failed nor refused. */
	if ((state != WEIR_EVENT_HANDLING && state != WEIR_EVENT_HELD) || status >= 500 || status == 429)
		return;
	/* A login page may have status 401 and set an identifier: its user was admitted. */
	if (!find_issued(rule, reply, &hash) && status < 400 && request->standing == WEIR_NEWCOMER)
		hash = request->session;
	if (hash == 0)
		return;
	weir_sessions_enter(rule->sessions, hash, rule->idle_ns, weir_world_exact_ns(request->loop->world));
}

void weir_request_forget(const weir_request *request)
{
	const weir_session_rule *rule = request->route->session;
	weir_sessions_forget(rule->sessions, request->session, rule->idle_ns,
			     weir_loop_time(request->loop->loop));
}

void weir_request_count_standing(const weir_request *request)
{
	weir_sessions_count(request->route->session->sessions, request->loop->index,
			    (weir_standing)request->standing, request->shed != WEIR_ADMITTED);
}

/* ---- reports ---- */

/* Returns a reference, since walking all sessions would hold the lock for too long. */
weir_sessions *weir_http_sessions(weir_http *http, uint32_t at, char *ret_text, size_t size,
				  uint64_t *ret_idle_ns)
{
	weir_sessions *sessions = NULL;
	pthread_mutex_lock(&http->lock);
	const weir_routes *routes = http->routes;
	if (at < routes->session_count) {
		const weir_session_rule *rule = routes->sessions[at];
		sessions = weir_sessions_ref(rule->sessions);
		snprintf(ret_text, size, "%s", rule->text);
		*ret_idle_ns = rule->idle_ns;
	}
	pthread_mutex_unlock(&http->lock);
	return sessions;
}

bool weir_http_session_at(weir_http *http, uint32_t at, uint64_t now_ns, weir_session_view *ret_view)
{
	weir_sessions *sessions =
		weir_http_sessions(http, at, ret_view->name, sizeof(ret_view->name), &ret_view->idle_ns);
	if (sessions == NULL)
		return false;
	ret_view->keys = weir_sessions_keys(sessions);
	weir_sessions_read(sessions, ret_view->idle_ns, now_ns, &ret_view->stats);
	weir_sessions_free(sessions);
	return true;
}
