/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rejects requests the way the route asks for, with a reason and a Retry-After. Under overload nearly
 * everything in a rejection is the same as in the one before, so it is put together once and cached
 * (reject.h).
 */
#include <string.h>

#include "base/mix.h"
#include "http/digits.h"
#include "http/field_check.h"
#include "http/grpc.h"
#include "http/hammer.h"
#include "http/reject.h"
#include "http/request.h"
#include "http/server.h"
#include "http/status.h"
#include "stage/friends.h"

#define RETRY_MOST_S 86400
/*
 * How long a law's answer on when to retry is reused for other requests of that stage, class and reason.
 * Clients are told whole seconds.
 */
#define RETRY_GOOD_NS (10 * WEIR_NS_PER_MS)

static const char overloaded[] = "overloaded, try again later\n";
static const char plain_fields[] = "Content-Type: text/plain\r\nContent-Length: ";
static const char retry_field[] = "\r\nRetry-After: ";

/* ---- the head ---- */

/* Operators choose the names. Whatever they contain, the result stays one line with three parts. */
static size_t put_name(char *to, size_t room, const char *name)
{
	size_t length = 0;
	for (; length < room && name[length] != '\0'; length++) {
		char c = name[length];
		to[length] = c <= ' ' || c >= 0x7f || c == ';' || c == '=' ? '_' : c;
	}
	return length;
}

static char *put_part(char *to, const char *key, const char *name)
{
	size_t length = strlen(key);
	memcpy(to, key, length);
	return to + length + put_name(to + length, WEIR_SHED_NAME_MOST, name);
}

static char *put_bytes(char *to, const char *bytes, size_t length)
{
	memcpy(to, bytes, length);
	return to + length;
}

/* The longest status line has 46 bytes, the keys of Weir-Shed with CRLF 34, the fields after it 61. */
_Static_assert(sizeof(((weir_shed_head *)NULL)->text) >=
		       sizeof(((weir_http_loop *)NULL)->lines) + 3 * WEIR_SHED_NAME_MOST + 160,
	       "a head fits");

/* Which stage rejected it, and why. */
static char *put_details(weir_shed_head *head, char *to)
{
	char *value = to + sizeof("Weir-Shed: ") - 1;
	to = put_part(to, "Weir-Shed: stage=", head->stage);
	to = put_part(to, ";class=", weir_routes_class_name(head->routes, head->klass));
	to = put_part(to, ";reason=", weir_verdict_name(head->why));
	head->value = (uint16_t)(value - head->text);
	head->value_length = (uint16_t)(to - value);
	return put_bytes(to, "\r\n", 2);
}

/* Says which limit it was, unless clients are told nothing of that kind. */
static void fill_body(weir_shed_head *head, bool details)
{
	char *body = put_bytes(head->rest, "\r\n\r\n", 4), *to = body;
	if (head->status != 429 || head->why != WEIR_SHED_RATE) {
		to = put_bytes(to, overloaded, sizeof(overloaded) - 1);
	} else {
		to = put_bytes(to, "too many requests", 17);
		if (details) {
			to = put_bytes(to, " for the limit ", 15);
			to += put_name(to, WEIR_SHED_NAME_MOST, head->stage);
		}
		to = put_bytes(to, ", try again later\n", 18);
	}
	head->body_length = (uint16_t)(to - body);
}

static __attribute__((noinline)) void fill_head(weir_shed_head *head, weir_http_loop *loop)
{
	weir_span status = weir_status_line(head->status);
	const char *lines = weir_http_lines(loop);
	char *to = put_bytes(head->text, status.at, status.length);
	to = put_bytes(to, lines, loop->lines_length);
	if (!loop->no_shed_details)
		to = put_details(head, to);
	fill_body(head, !loop->no_shed_details);
	to = put_bytes(to, plain_fields, sizeof(plain_fields) - 1);
	to = weir_put_number(to, head->body_length);
	to = put_bytes(to, retry_field, sizeof(retry_field) - 1);
	head->length = (uint16_t)(to - head->text);
	head->good_until_ns = loop->date_until_ns;
}

static inline weir_shed_head *head_of(const weir_request *request, const char *stage, unsigned status,
				      weir_verdict why)
{
	weir_http_loop *loop = request->loop;
	const weir_routes *routes = request->table->routes;
	unsigned klass = request->klass;
	weir_shed_head *head =
		&loop->shed_heads[((uintptr_t)stage >> 4 ^ klass ^ why << 3) % WEIR_SHED_HEADS];
	__asm__("" : "+r"(head)); /* or the compiler computes the place again for each use */
	if (head->stage != stage || head->routes != routes || head->status != status ||
	    head->klass != klass || head->why != why)
		*head = (weir_shed_head){.stage = stage,
					 .routes = routes,
					 .status = (uint16_t)status,
					 .klass = (uint8_t)klass,
					 .why = (uint8_t)why};
	if (__builtin_expect(weir_loop_time(loop->loop) >= head->good_until_ns, 0))
		fill_head(head, loop);
	return head;
}

/* ---- the answer ---- */

static unsigned seconds_of(uint64_t ns)
{
	if (ns > RETRY_MOST_S * WEIR_NS_PER_S)
		return RETRY_MOST_S;
	uint64_t seconds = (ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S;
	return seconds == 0 ? 1 : (unsigned)seconds;
}

/* What the route wants instead of a plain rejection. */
static void dress(weir_reply *reply, const weir_route *route, weir_span body, weir_field *field)
{
	if (route != NULL && route->reject == WEIR_REJECT_REDIRECT) {
		*field = (weir_field){WEIR_SPAN("Location"), {route->location, strlen(route->location)}};
	} else if (route != NULL && route->reject == WEIR_REJECT_PAGE) {
		reply->buf = route->page;
		reply->length = route->page->length;
		*field =
			(weir_field){WEIR_SPAN("Content-Type"), {route->page_type, strlen(route->page_type)}};
	} else {
		reply->bytes = body.at;
		reply->length = body.length;
		*field = (weir_field){WEIR_SPAN("Content-Type"), WEIR_SPAN("text/plain")};
	}
}

static void answer_dressed(weir_request *request, const weir_route *route, const weir_shed_head *head,
			   uint32_t retry_after_s)
{
	char seconds[24];
	size_t length = (size_t)(weir_put_number(seconds, retry_after_s) - seconds);
	weir_field fields[3] = {{WEIR_SPAN("Retry-After"), {seconds, length}},
				{WEIR_SPAN("Weir-Shed"), {head->text + head->value, head->value_length}}};
	size_t told = head->value_length > 0 ? 2 : 1;
	weir_reply reply = {.status = head->status, .fields = fields, .field_count = told + 1};
	dress(&reply, route, weir_shed_body(head), &fields[told]);
	weir_request_answer(request, &reply);
}

/*
 * The application's own page, where the route has a function for that; false: it has none, or makes none
 * now.
 */
static bool answer_refused(weir_request *request, const weir_route *route, const weir_shed_head *head,
			   uint32_t retry_after_s)
{
	weir_field fields[WEIR_REFUSAL_FIELDS + 2];
	char seconds[24];
	weir_refusal refusal = {.why = head->why, .status = head->status, .retry_after_s = retry_after_s};
	if (!route->refuse(request, &refusal, route->refuse_arg))
		return false;
	size_t length = (size_t)(weir_put_number(seconds, retry_after_s) - seconds), count = 1;
	fields[0] = (weir_field){WEIR_SPAN("Retry-After"), {seconds, length}};
	if (head->value_length > 0)
		fields[count++] =
			(weir_field){WEIR_SPAN("Weir-Shed"), {head->text + head->value, head->value_length}};
	for (size_t i = 0; i < refusal.field_count && i < WEIR_REFUSAL_FIELDS; i++)
		fields[count++] = refusal.fields[i];
	weir_reply reply = {.status = refusal.status, .fields = fields, .field_count = count};
	if (refusal.length <= WEIR_REFUSAL_BYTES) {
		reply.bytes = refusal.bytes;
		reply.length = refusal.length;
	}
	if (weir_reply_check(&reply) != 0)
		return false;
	weir_request_answer(request, &reply);
	return true;
}

static inline void answer_plain(weir_request *request, const weir_shed_head *head, uint64_t retry_after_ns)
{
	request->status = head->status;
	request->flags |= WEIR_REQUEST_BEGUN;
	request->codec->reject(request, head, seconds_of(retry_after_ns));
}

/* Whether it gets the plain rejection, in a protocol that has it prepared. route NULL: as in send_away. */
static inline bool is_plain(const weir_request *request, const weir_route *route)
{
	return (route == NULL || (route->reject == WEIR_REJECT_STATUS && route->refuse == NULL)) &&
	       request->codec->reject != NULL && !weir_grpc_is(request);
}

/* A client of gRPC does not understand a status of HTTP, nor a page. The body ends with a newline. */
static void answer_grpc(weir_request *request, const weir_shed_head *head, uint64_t retry_after_ns)
{
	weir_grpc_answer answer = {.code = head->status == 429 ? WEIR_GRPC_RESOURCE_EXHAUSTED
							       : WEIR_GRPC_UNAVAILABLE,
				   .message = {weir_shed_body(head).at, head->body_length - 1u},
				   .retry_after_ns = retry_after_ns != 0 ? retry_after_ns : WEIR_NS_PER_S,
				   .shed = {head->text + head->value, head->value_length}};
	weir_grpc_reply(request, &answer);
}

/* A rejection that is not plain; or one that is, since the application makes no page now. */
static __attribute__((noinline)) void send_dressed(weir_request *request, const weir_route *route,
						   const weir_shed_head *head, uint64_t retry_after_ns)
{
	uint32_t retry_after_s = seconds_of(retry_after_ns);
	bool plain = route == NULL || route->reject == WEIR_REJECT_STATUS;
	if (route != NULL && route->refuse != NULL && answer_refused(request, route, head, retry_after_s))
		return;
	if (weir_grpc_is(request))
		answer_grpc(request, head, retry_after_ns);
	else if (plain && request->codec->reject != NULL)
		answer_plain(request, head, retry_after_ns);
	else
		answer_dressed(request, route, head, retry_after_s);
}

static inline void send_away(weir_request *request, const weir_route *route, const weir_shed_head *head,
			     uint64_t retry_after_ns)
{
	if (__builtin_expect(is_plain(request, route), 1))
		answer_plain(request, head, retry_after_ns);
	else
		send_dressed(request, route, head, retry_after_ns);
}

/* route NULL: a plain rejection. */
static inline void turn_away(weir_request *request, const weir_route *route, const weir_shed_head *head,
			     uint64_t retry_after_ns)
{
	if (weir_request_is(request, WEIR_REQUEST_GONE)) {
		weir_request_ended(request);
		return;
	}
	request->shed = head->why;
	weir_http_count(&request->loop->counts.rejected);
	const weir_http *http = request->loop->http;
	if (__builtin_expect(http != NULL && http->hammering != NULL, 0) &&
	    weir_hammer_holds(request, route, head, retry_after_ns))
		return;
	send_away(request, route, head, retry_after_ns);
}

void weir_request_send_away(const weir_hammered *rejection)
{
	send_away(rejection->request, rejection->route, &rejection->head, rejection->retry_after_ns);
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
	const weir_route *route = request->route;
	if (request->standing == WEIR_MEMBER)
		weir_request_forget(request);
	turn_away(request, route, head_of(request, stage, status_of(route), why), retry_after_ns);
}

void weir_request_over_limit(weir_request *request, const weir_found *found)
{
	const weir_route *route = request->route->reject == WEIR_REJECT_PAGE ? request->route : NULL;
	turn_away(request, route, head_of(request, found->limit->name, 429, WEIR_SHED_RATE),
		  found->retry_after_ns);
}

/* ---- by the route's stage ---- */

static __attribute__((noinline)) void ask_law(weir_shed_head *head, uint64_t now_ns)
{
	weir_why why;
	uint64_t most_ns = RETRY_MOST_S * WEIR_NS_PER_S;
	uint64_t wait_ns = weir_why_unspread(&why) ? why.retry_after_ns : 0;
	head->wait_ns = wait_ns < most_ns ? wait_ns : most_ns;
	head->wait_until_ns = now_ns + RETRY_GOOD_NS;
}

/* Adds up to half of the wait at random, so that clients do not all return at the same time. */
static uint64_t spread(weir_http_loop *loop, uint64_t wait_ns)
{
	loop->shed_mix += WEIR_MIX_STEP;
	uint64_t share = weir_mix(loop->shed_mix) >> 32;
	return wait_ns + (uint64_t)((unsigned __int128)(wait_ns / 2) * share >> 32);
}

void weir_request_shed(weir_request *request, weir_verdict why)
{
	const weir_route *route = request->route;
	uint64_t now_ns = weir_loop_time(request->loop->loop);
	weir_shed_head *head = head_of(request, weir_stage_name(route->stage), status_of(route), why);
	if (request->standing == WEIR_MEMBER)
		weir_request_forget(request);
	if (__builtin_expect(now_ns >= head->wait_until_ns, 0))
		ask_law(head, now_ns);
	turn_away(request, route, head, spread(request->loop, head->wait_ns));
}

/* ---- by handlers ---- */

/* What is known about the shed, if the last offer or drop on this thread was this request's. */
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
