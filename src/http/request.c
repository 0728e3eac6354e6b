/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: the way from a parsed head to a stage, the end. request.h has the invariants. */
#include "http/request.h"

#include <string.h>

#include "http/grpc.h"
#include "http/server.h"
#include "stage/friends.h"

/* ---- from head to stage ---- */

void weir_request_secured(weir_request *request, const char *subject)
{
	size_t length = strlen(subject);
	char *copy = length > 0 ? weir_request_alloc(request, length) : NULL;
	request->secure = true;
	if (copy == NULL)
		return;
	memcpy(copy, subject, length);
	request->certificate = (weir_span){copy, length};
}

static bool copy_head(weir_request *request, const char *base)
{
	/* HTTP/2 has put it together in the request's own memory. */
	if (base == request->base)
		return true;
	char *copy = weir_request_take(request, request->head.length);
	if (copy == NULL)
		return false;
	memcpy(copy, base, request->head.length);
	request->base = copy;
	return true;
}

/* The cursor is the number of the field to look at next. */
static weir_span input_header(const void *request, weir_span name, uint64_t *cursor)
{
	weir_field field;
	while (weir_request_field(request, (*cursor)++, &field))
		if (weir_span_is(field.name, name))
			return field.value;
	return (weir_span){0};
}

static weir_span input_cookie(const void *request, weir_span name, uint64_t *cursor)
{
	return weir_request_next_cookie(request, name, cursor);
}

#define CLEAN_BYTES 4096

/* Whether the path is normalised already: most are. */
static bool is_clean(weir_span path)
{
	char before = 0;
	for (size_t i = 0; i < path.length; i++) {
		char c = path.at[i];
		if (c == '%' || (before == '/' && (c == '/' || c == '.')))
			return false;
		before = c;
	}
	return path.at[0] == '/';
}

/* Makes the request's path mean the same to those behind us as to rules. false: malformed. */
static bool tidy_path(weir_request *request)
{
	weir_span path = weir_request_sent_path(request);
	if (path.at[0] != '/' || weir_path_is_tidy(path))
		return true;
	char *tidied = weir_request_take(request, path.length);
	size_t length;
	if (tidied == NULL || !weir_path_tidy(path, tidied, &length))
		return false;
	request->tidied = (weir_span){tidied, length};
	return true;
}

/* false: the path cannot be compared with anything. */
static bool clean_path(weir_request *request, char *clean, weir_span *ret_path)
{
	weir_span path = weir_request_sent_path(request);
	size_t length;
	bool dot;
	if (request->table->routes->raw_paths || is_clean(path) || path.at[0] != '/') {
		*ret_path = path;
		return true;
	}
	if (!weir_path_clean(path, clean, CLEAN_BYTES, &length, &dot) || !tidy_path(request))
		return false;
	*ret_path = (weir_span){clean, length};
	return true;
}

/* What rules look at. `clean` has room for a normalised path. false: malformed. */
static inline bool make_input(weir_request *request, char *clean, weir_match_input *ret_input)
{
	*ret_input = (weir_match_input){.host = weir_request_host(request),
					.method_text = weir_request_method_text(request),
					.method = weir_request_method(request),
					.secure = weir_request_secure(request),
					.client = &request->client.any,
					.certificate = request->certificate,
					.header = input_header,
					.cookie = input_cookie,
					.request = request};
	return clean_path(request, clean, &ret_input->path);
}

static const char bad_path[] = "the path is malformed";

/* What is wrong with the request; NULL: nothing. */
static const char *find(weir_request *request, const weir_routes *routes, weir_found *ret_found)
{
	char clean[CLEAN_BYTES];
	weir_match_input input;
	bool ambiguous = false;
	if (!make_input(request, clean, &input))
		return bad_path;
	input.ambiguous = &ambiguous;
	weir_routes_find(routes, &input, request->began_ns, ret_found);
	return ambiguous ? "a field that rules decide by comes twice, with different values" : NULL;
}

/* No route matches: 405 if one would for another method, else 404. */
static __attribute__((noinline)) void refuse_unrouted(weir_request *request)
{
	char clean[CLEAN_BYTES], allow[WEIR_ALLOW_BYTES];
	const weir_routes *routes = request->table->routes;
	weir_match_input input;
	uint32_t allowed = routes->by_method && make_input(request, clean, &input)
				   ? weir_routes_allowed(routes, &input)
				   : 0;
	if (allowed == 0) {
		weir_request_refuse(request, 404, "no route matches");
		return;
	}
	request->error = "no route matches this method";
	weir_http_tell_refused(request->loop, &request->client, 405, request->error);
	weir_routes_print_allowed(allowed, allow);
	weir_request_reply_not_allowed(request, allow);
}

/* What is wrong with the request; NULL: nothing. */
static inline const char *classify(weir_request *request, weir_found *ret_found)
{
	const weir_routes *routes = request->table->routes;
	if (!routes->plain)
		return find(request, routes, ret_found);
	*ret_found = (weir_found){.route = routes->routes, .klass = routes->default_class};
	if (routes->routes->klass >= 0)
		ret_found->klass = (unsigned)routes->routes->klass;
	weir_span path = weir_request_sent_path(request);
	if (is_clean(path))
		return NULL;
	return weir_path_decodes(path) && (routes->raw_paths || tidy_path(request)) ? NULL : bad_path;
}

static void estimate(weir_event *event)
{
	weir_request_estimate(weir_request_of(event));
}

void weir_request_offer(weir_request *request)
{
	weir_stage *stage = request->route->stage;
	const weir_holder *holder = request->holder;
	/* Usually a client has few requests in progress, and the queue is not looked at. */
	if (holder != NULL && holder->here[WEIR_SHARE_REQUESTS] > WEIR_SHARE_STEP &&
	    weir_shares_fill_queue(request, stage)) {
		weir_http_count(&request->loop->counts.share_refused);
		weir_request_shed(request, weir_offer_refused(stage, &request->event, WEIR_SHED_FULL));
		return;
	}
	request->flags |= WEIR_REQUEST_OFFERED;
	weir_verdict verdict = weir_offer_priced(stage, &request->event, estimate);
	/* An admitted request may be freed by now, or belong to anybody. */
	if (verdict == WEIR_ADMITTED)
		return;
	request->flags &= ~(uint32_t)WEIR_REQUEST_OFFERED;
	weir_request_shed(request, verdict);
}

static void set_class(weir_request *request, unsigned klass)
{
	request->klass = request->event.klass = (uint8_t)(klass < WEIR_CLASSES ? klass : WEIR_CLASSES - 1);
}

void weir_request_classify(weir_request *request)
{
	const weir_route *route = request->route;
	if (route->classify != NULL)
		set_class(request, route->classify(request, request->klass, route->classify_arg));
}

/* Whether its body is read before it is offered, so that the application sees it with the body. */
static bool is_collected(const weir_request *request)
{
	return request->route->collect_bytes != 0 && !weir_request_is(request, WEIR_REQUEST_BODY_OVER);
}

/*
 * Sets what few routes have. The application's own choice of the class comes last; a request over its quota
 * does not get that far.
 */
static __attribute__((noinline)) void set_special(weir_request *request, bool over_limit)
{
	const weir_route *route = request->route;
	if (route->exempt)
		request->event.flags |= WEIR_EVENT_EXEMPT;
	uint64_t until_ns = request->began_ns + route->deadline_ns;
	if (route->deadline_ns != 0 &&
	    (request->event.deadline_ns == 0 || until_ns < request->event.deadline_ns))
		request->event.deadline_ns = until_ns;
	if (!over_limit && !is_collected(request))
		weir_request_classify(request);
}

/* What a Weir in front has told. */
static void set_told(weir_request *request)
{
	if (request->told_class != 0)
		set_class(request, request->told_class - 1u);
	if (request->told_left_ns != 0)
		request->event.deadline_ns = request->began_ns + request->told_left_ns;
}

/* The event is new. */
static inline void set_event(weir_request *request, const weir_found *found)
{
	request->klass = request->event.klass = (uint8_t)found->klass;
	request->event.entered_ns = request->began_ns;
	if (weir_request_is(request, WEIR_REQUEST_TRUSTED))
		set_told(request);
	if (request->head.version == 20 && request->head.method == WEIR_METHOD_POST)
		weir_grpc_set_deadline(request);
	if (found->route->special)
		set_special(request, found->limit != NULL);
}

static void collect(weir_request *request)
{
	const weir_head *head = &request->head;
	if (head->framing == WEIR_BODY_LENGTH && head->body_length > request->route->collect_bytes) {
		weir_request_refuse(request, 413, "the body is larger than this route takes");
		return;
	}
	request->body_mode = WEIR_BODY_COLLECT;
	request->codec->want(request);
}

/* The status to refuse it with before it is routed; 0: none. */
static unsigned refusal(const weir_request *request, const char **ret_why)
{
	const weir_head *head = &request->head;
	if (head->flags & WEIR_HEAD_EXPECT_OTHER) {
		*ret_why = "nobody can meet this expectation";
		return 417;
	}
	if (head->framing == WEIR_BODY_LENGTH && head->body_length > request->loop->limits.body_bytes) {
		*ret_why = "the body is larger than the server takes";
		return 413;
	}
	return 0;
}

static void set_framing(weir_request *request)
{
	const weir_head *head = &request->head;
	bool none = head->framing == WEIR_BODY_NONE ||
		    (head->framing == WEIR_BODY_LENGTH && head->body_length == 0);
	if (none)
		request->flags |= WEIR_REQUEST_BODY_OVER;
	else if (head->flags & WEIR_HEAD_CONTINUE)
		request->flags |= WEIR_REQUEST_WAITING;
	request->body_left = head->framing == WEIR_BODY_LENGTH ? head->body_length : WEIR_UNKNOWN_LENGTH;
	request->body_since_ns = request->began_ns;
}

void weir_request_made(weir_request *request, const char *base)
{
	weir_http_loop *loop = request->loop;
	weir_found found;
	const char *why;
	request->table = loop->table;
	weir_table_take(request->table);
	weir_http_count(&loop->counts.requests);
	weir_http_gauge(&loop->counts.busy, 1);
	set_framing(request);
	weir_event_make(&request->event, 0);
	if (!copy_head(request, base)) {
		request->base = base; /* valid during this call, which is enough for a refusal */
		weir_request_refuse(request, 503, "out of memory");
		return;
	}
	if (request->conn->listener->trusted != NULL)
		weir_request_follow_proxies(request, request->conn->listener->trusted);
	unsigned status = refusal(request, &why);
	if (status != 0) {
		weir_request_refuse(request, status, why);
		return;
	}
	why = classify(request, &found);
	if (why != NULL) {
		weir_request_refuse(request, 400, why);
		return;
	}
	if (found.route == NULL) {
		refuse_unrouted(request);
		return;
	}
	request->route = found.route;
	request->standing = (uint8_t)found.standing;
	request->session = found.session;
	set_event(request, &found);
	if (weir_shares_are_scarce(&loop->shares) && weir_shares_refuse(request) && !found.route->exempt) {
		weir_http_count(&loop->counts.share_refused);
		weir_request_shed(request,
				  weir_offer_refused(found.route->stage, &request->event, WEIR_SHED_FULL));
	} else if (found.limit != NULL) {
		/* The stage counts it as a shed offer. */
		weir_offer_refused(found.route->stage, &request->event, WEIR_SHED_RATE);
		weir_request_over_limit(request, &found);
	} else if (is_collected(request)) {
		collect(request);
	} else if (found.route->gather_bytes != 0 && !weir_request_is(request, WEIR_REQUEST_BODY_OVER)) {
		weir_request_gather(request);
	} else {
		weir_request_offer(request);
	}
}

/* ---- the end ---- */

void weir_request_over(weir_request *request)
{
	if (!weir_request_is(request, WEIR_REQUEST_GONE))
		request->codec->over(request);
	weir_request_free(request);
}

static void call_over(weir_request *request)
{
	void (*fn)(void *) = request->over;
	request->over = NULL;
	if (fn != NULL)
		fn(request->over_arg);
}

void weir_request_ended(weir_request *request)
{
	request->flags |= WEIR_REQUEST_BEGUN | WEIR_REQUEST_ENDED;
	if (request->standing != WEIR_NO_SESSION)
		weir_request_count_standing(request);
	weir_http_count_status(request->loop, request->status);
	if (weir_http_logs(request->loop->http, request->shed))
		weir_request_log(request);
	if (request->over != NULL)
		call_over(request);
	if (weir_request_is(request, WEIR_REQUEST_BODY_OVER | WEIR_REQUEST_GONE)) {
		weir_request_over(request);
		return;
	}
	request->body_mode = WEIR_BODY_DROP;
	request->codec->want(request);
}

void weir_request_gone(weir_request *request, const char *error)
{
	bool ended = weir_request_is(request, WEIR_REQUEST_ENDED);
	request->flags |= WEIR_REQUEST_GONE | WEIR_REQUEST_BODY_OVER;
	request->conn = NULL;
	request->error = error;
	if (!ended) {
		weir_http_count(&request->loop->counts.gone);
		weir_request_log(request);
	}
	if (request->hammered != NULL) {
		weir_hammer_forget(request);
		weir_request_ended(request);
		return;
	}
	bool ours = !weir_request_is(request, WEIR_REQUEST_OFFERED | WEIR_REQUEST_BEGUN) ||
		    weir_request_is(request, WEIR_REQUEST_REST);
	if (ended || ours) {
		call_over(request);
		weir_request_free(request);
		return;
	}
	if (!weir_request_is(request, WEIR_REQUEST_BEGUN))
		weir_event_cancel(&request->event);
	/* Last, because the callback may answer, which frees the request. */
	if (request->gone != NULL)
		request->gone(request, request->gone_arg);
}

void weir_request_drained(weir_request *request)
{
	request->flags &= ~(uint32_t)WEIR_REQUEST_CLOGGED;
	if (request->drained != NULL)
		request->drained(request, request->drained_arg);
}
