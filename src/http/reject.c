/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turning requests away: as the route says, with when to come again and why. The line that tells why is put together once for
 * each stage, class and reason, and kept (a few of them) by the loop: under overload it is always the same.
 */
#include <string.h>

#include "http/digits.h"
#include "http/reject.h"
#include "http/request.h"
#include "http/server.h"

#define RETRY_MOST_S 86400

static const char plain_text[] = "overloaded, try again later\n";
static const char plain_fields[] = "\r\nContent-Type: text/plain\r\nContent-Length: 28\r\n";
_Static_assert(sizeof(plain_text) - 1 == 28, "plain_fields says how long it is");

/* ---- the line ---- */

/* Names are the operator's; whatever is in them, the line stays one line with three parts. */
static size_t put_name(char *to, size_t room, const char *name)
{
	size_t length = 0;
	for (; length < room && name[length] != '\0'; length++) {
		char c = name[length];
		to[length] = c <= ' ' || c >= 0x7f || c == ';' || c == '=' ? '_' : c;
	}
	return length;
}

static size_t put_part(char *to, size_t at, const char *key, const char *name)
{
	size_t length = strlen(key);
	memcpy(to + at, key, length);
	return at + length + put_name(to + at + length, WEIR_SHED_NAME_MOST, name);
}

static void fill_line(weir_shed_line *line, const weir_routes *routes)
{
	size_t at = put_part(line->text, 0, "Weir-Shed: stage=", line->stage);
	line->value = sizeof("Weir-Shed: ") - 1;
	at = put_part(line->text, at, ";class=", weir_routes_class_name(routes, line->klass));
	at = put_part(line->text, at, ";reason=", weir_verdict_name(line->why));
	line->value_length = (uint16_t)(at - line->value);
	memcpy(line->text + at, plain_fields, sizeof(plain_fields) - 1);
	line->length = (uint16_t)(at + sizeof(plain_fields) - 1);
}

static const weir_shed_line *shed_line(weir_http_loop *loop, const weir_routes *routes, const char *stage,
				       unsigned klass, weir_verdict why)
{
	weir_shed_line *line =
		&loop->shed_lines[((uintptr_t)stage >> 4 ^ klass ^ why << 3) % WEIR_SHED_LINES];
	if (line->stage == stage && line->routes == routes && line->klass == klass && line->why == why)
		return line;
	*line = (weir_shed_line){
		.stage = stage, .routes = routes, .klass = (uint8_t)klass, .why = (uint8_t)why};
	fill_line(line, routes);
	return line;
}

/* ---- the answer ---- */

static unsigned seconds_of(uint64_t ns)
{
	if (ns > RETRY_MOST_S * WEIR_NS_PER_S)
		return RETRY_MOST_S;
	uint64_t seconds = (ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S;
	return seconds == 0 ? 1 : (unsigned)seconds;
}

/* How the route wants it, where that is not plain. */
static void dress(weir_reply *reply, const weir_route *route, weir_field *field)
{
	if (route != NULL && route->reject == WEIR_REJECT_REDIRECT) {
		*field = (weir_field){WEIR_SPAN("Location"), {route->location, strlen(route->location)}};
	} else if (route != NULL && route->reject == WEIR_REJECT_PAGE) {
		reply->buf = route->page;
		reply->length = route->page->length;
		*field =
			(weir_field){WEIR_SPAN("Content-Type"), {route->page_type, strlen(route->page_type)}};
	} else {
		reply->bytes = plain_text;
		reply->length = sizeof(plain_text) - 1;
		*field = (weir_field){WEIR_SPAN("Content-Type"), WEIR_SPAN("text/plain")};
	}
}

static void answer_dressed(weir_request *request, const weir_route *route, const weir_canned *canned,
			   weir_span value)
{
	char seconds[24];
	size_t length = (size_t)(weir_put_number(seconds, canned->retry_after_s) - seconds);
	weir_field fields[3] = {{WEIR_SPAN("Retry-After"), {seconds, length}},
				{WEIR_SPAN("Weir-Shed"), value}};
	weir_reply reply = {.status = canned->status, .fields = fields, .field_count = 3};
	dress(&reply, route, &fields[2]);
	weir_request_answer(request, &reply);
}

static void answer_canned(weir_request *request, const weir_canned *canned)
{
	request->status = (uint16_t)canned->status;
	request->flags |= WEIR_REQUEST_BEGUN;
	request->codec->canned(request, canned);
}

/* route NULL: plainly. */
static void turn_away(weir_request *request, const weir_route *route, unsigned status, weir_verdict why,
		      const char *stage, uint64_t retry_after_ns)
{
	weir_http_loop *loop = request->loop;
	if (weir_request_is(request, WEIR_REQUEST_GONE)) {
		weir_request_ended(request);
		return;
	}
	request->shed = (uint8_t)why;
	weir_http_count(&loop->counts.rejected);
	const weir_shed_line *line = shed_line(loop, request->table->routes, stage, request->klass, why);
	weir_canned canned = {.status = status,
			      .retry_after_s = seconds_of(retry_after_ns),
			      .fields = {line->text, line->length},
			      .body = {plain_text, sizeof(plain_text) - 1}};
	bool plain = route == NULL || route->reject == WEIR_REJECT_STATUS;
	if (plain && request->codec->canned != NULL)
		answer_canned(request, &canned);
	else
		answer_dressed(request, route, &canned,
			       (weir_span){line->text + line->value, line->value_length});
}

static unsigned status_of(const weir_route *route)
{
	if (route->reject_status != 0)
		return route->reject_status;
	return route->reject == WEIR_REJECT_REDIRECT ? 302 : 503;
}

void weir_request_turn_away(weir_request *request, weir_verdict why, const char *stage,
			    uint64_t retry_after_ns)
{
	turn_away(request, request->route, status_of(request->route), why, stage, retry_after_ns);
}

void weir_request_over_limit(weir_request *request, const weir_found *found)
{
	turn_away(request, NULL, 429, WEIR_SHED_RATE, found->limit->name, found->retry_after_ns);
}

/* ---- by handlers ---- */

/* What is known of it, if the last offer or drop on this thread was about it. */
static const weir_why *known(const weir_request *request, weir_verdict why, weir_why *ret_known)
{
	if (weir_why_shed(ret_known) && ret_known->verdict == why && ret_known->klass == request->event.klass)
		return ret_known;
	*ret_known = (weir_why){.stage = weir_stage_name(request->route->stage)};
	return ret_known;
}

void weir_request_reject(weir_request *request, weir_verdict why)
{
	weir_why about;
	known(request, why, &about);
	if (!weir_request_at_home(request)) {
		weir_request_reject_afar(request, why, &about);
		return;
	}
	if (weir_request_is(request, WEIR_REQUEST_BEGUN) || !weir_request_settle(request, 503))
		return;
	weir_request_turn_away(request, why, about.stage, about.retry_after_ns);
}

void weir_request_drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	weir_request_reject(weir_request_of(event), why);
}
