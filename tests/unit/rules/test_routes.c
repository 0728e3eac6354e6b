/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of routes: what they refuse, what they find, and what a server makes of it. */
#include "support/on_http.h"

#include "rules/routes.h"

#define RULES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- making ---- */

static void expect_refused(weir_routes *routes, weir_route_options options, const char *word)
{
	assert_int_equal(weir_routes_add(routes, &options), -EINVAL);
	check_contains(weir_error(), word);
}

static void refuses_bad_routes(void **state)
{
	weir_routes *routes;
	weir_world *world = world_real();
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 1), (weir_stage_options){0});
	weir_stage *stage = probe.stage;
	must(weir_routes_new(&routes));
	expect_refused(routes, (weir_route_options){.stage = stage}, "name");
	expect_refused(routes, (weir_route_options){.name = "a"}, "stage");
	expect_refused(routes, (weir_route_options){.name = "a", .stage = stage, .klass = 8}, "'a': 8");
	expect_refused(routes, (weir_route_options){.name = "a", .stage = stage, .klass = -2}, "-2");
	expect_refused(routes, (weir_route_options){.name = "a", .stage = stage, .reject_status = 200},
		       "200");
	expect_refused(routes,
		       (weir_route_options){.name = "a",
					    .stage = stage,
					    .reject = WEIR_REJECT_REDIRECT,
					    .location = "/",
					    .reject_status = 503},
		       "503");
	expect_refused(routes,
		       (weir_route_options){.name = "a", .stage = stage, .reject = WEIR_REJECT_REDIRECT},
		       "location");
	expect_refused(routes, (weir_route_options){.name = "a", .stage = stage, .reject = WEIR_REJECT_PAGE},
		       "page");
	expect_refused(routes, (weir_route_options){.name = "a", .stage = stage, .rules = RULES("path")},
		       "path");
	assert_int_equal(weir_routes_add_class(routes, &(weir_class_options){.name = "c", .klass = 8}),
			 -EINVAL);
	assert_int_equal(weir_routes_add_class(routes, &(weir_class_options){.klass = 1}), -EINVAL);
	assert_int_equal(weir_routes_default_class(routes, 9, "x"), -EINVAL);
	assert_int_equal(weir_routes_add_limit(
				 routes, &(weir_limit_options){.name = "l", .rate_per_s = 1, .key = "moon"}),
			 -EINVAL);
	check_contains(weir_error(), "moon");
	assert_int_equal(
		weir_routes_add_limit(routes,
				      &(weir_limit_options){.name = "l", .rate_per_s = 1, .key = "header "}),
		-EINVAL);
	assert_int_equal(routes->route_count + routes->class_count + routes->limit_count, 0);
	weir_routes_unref(routes);
	weir_routes_unref(NULL);
	weir_world_free(&world);
}

/* Every allocation failed in turn: nothing is lost, and nothing half made is left. */
static void survives_without_memory(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 1), (weir_stage_options){0});
	weir_routes *routes;
	weir_buf *sorry = weir_buf_new(10);
	must(weir_routes_new(&routes));
	weir_route_options route = {.name = "a",
				    .stage = probe.stage,
				    .rules = RULES("path /a", "method GET"),
				    .reject = WEIR_REJECT_PAGE,
				    .page = sorry,
				    .page_type = "text/x"};
	weir_class_options klass = {.name = "c", .klass = 2, .rules = RULES("path /c")};
	weir_limit_options limit = {
		.name = "l", .rate_per_s = 5, .key = "cookie x", .rules = RULES("path /l")};
	int failed = 0;
	for (uint64_t nth = 1; routes->limit_count == 0 && nth < 100; nth++) {
		weir_mem_fail_after(nth);
		if (routes->route_count == 0)
			failed += weir_routes_add(routes, &route) == -ENOMEM;
		weir_mem_fail_after(nth);
		if (routes->class_count == 0)
			failed += weir_routes_add_class(routes, &klass) == -ENOMEM;
		weir_mem_fail_after(nth);
		failed += weir_routes_add_limit(routes, &limit) == -ENOMEM;
	}
	weir_mem_fail_after(0);
	assert_true(failed >= 9);
	assert_int_equal(routes->route_count, 1);
	assert_int_equal(routes->class_count, 1);
	assert_int_equal(routes->limit_count, 1);
	weir_buf_unref(sorry);
	weir_routes_unref(routes);
	weir_world_free(&world);
}

static weir_quota *quota_of(weir_routes *routes, const weir_routes *from, weir_limit_options options)
{
	weir_routes_go_on(routes, from);
	must(weir_routes_add_limit(routes, &options));
	weir_routes_go_on(routes, NULL);
	return routes->limits[routes->limit_count - 1].quota;
}

/* The buckets of a limit go on in the next table if they are those of the same limit, and only once. */
static void goes_on_with_quotas(void **state)
{
	weir_routes *old, *new;
	weir_limit_options limit = {.name = "l", .rate_per_s = 5, .key = "header x"}, other;
	must(weir_routes_new(&old));
	must(weir_routes_new(&new));
	weir_quota *quota = quota_of(old, NULL, limit);
	other = limit;
	other.name = "m";
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.key = "header y";
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.key = "cookie x";
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.rate_per_s = 6;
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.burst = 6;
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.keys = 100;
	assert_ptr_not_equal(quota_of(new, old, other), quota);
	other = limit;
	other.rules = RULES("path /l");
	assert_ptr_equal(quota_of(new, old, other), quota);
	assert_ptr_not_equal(quota_of(new, old, limit), quota);
	weir_routes_unref(old);
	uint64_t after_ns;
	for (int i = 0; i < 5; i++)
		assert_true(weir_quota_take(quota, "a", 1, 1, &after_ns));
	assert_false(weir_quota_take(quota, "a", 1, 1, &after_ns));
	weir_routes_unref(new);
}

/* ---- on a server ---- */

static void page_any(site *s, weir_request *request)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%s/%u", weir_request_route_name(request),
			 weir_request_event(request)->klass);
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

static const page any_pages[] = {
	PAGE("/", page_any),       PAGE("/a", page_any),    PAGE("/a/b", page_any),    PAGE("/%61", page_any),
	PAGE("/x/../a", page_any), PAGE("/gold", page_any), PAGE("/health", page_any), NO_PAGE};

static void add(site *s, weir_route_options route)
{
	route.stage = s->stage;
	route.arg = s;
	must(weir_routes_add(s->routes, &route));
}

static void three_routes(site *s)
{
	add(s, (weir_route_options){
		       .name = "a", .klass = -1, .rules = RULES("path /a /a/*", "not method DELETE")});
	add(s, (weir_route_options){.name = "health",
				    .klass = WEIR_CLASS_HIGHEST,
				    .exempt = true,
				    .rules = RULES("path /health")});
	/* Nothing said of its class: as the classes say, and no higher. */
	add(s, (weir_route_options){.name = "gold", .rules = RULES("path /gold")});
	must(weir_routes_add_class(
		s->routes,
		&(weir_class_options){.name = "gold", .klass = 1, .rules = RULES("header X-Gold")}));
	must(weir_routes_add_class(
		s->routes,
		&(weir_class_options){.name = "silver", .klass = 2, .rules = RULES("cookie s = 1")}));
	must(weir_routes_default_class(s->routes, 5, "rest"));
}

static void finds_class_and_route(void **state)
{
	skip_without(state);
	site s = {.pages = any_pages, .make_routes = three_routes};
	site_open(&s);
	expect_contains(&s, "GET /a HTTP/1.0\r\n\r\n", "\r\n\r\na/5");
	expect_contains(&s, "GET /a/b HTTP/1.0\r\nX-Gold: yes\r\nCookie: s=1\r\n\r\n", "\r\n\r\na/1");
	expect_contains(&s, "GET /gold HTTP/1.0\r\nCookie: s=1\r\n\r\n", "\r\n\r\ngold/2");
	expect_contains(&s, "GET /health HTTP/1.0\r\nX-Gold: no\r\n\r\n", "\r\n\r\nhealth/0");
	/* No ways around a rule. */
	expect_contains(&s, "GET /%61 HTTP/1.0\r\n\r\n", "\r\n\r\na/5");
	expect_contains(&s, "GET /x/../a HTTP/1.0\r\n\r\n", "\r\n\r\na/5");
	expect_contains(&s, "GET /%zz HTTP/1.0\r\n\r\n", "HTTP/1.1 400 ", "path is malformed");
	expect_contains(&s, "GET /../a HTTP/1.0\r\n\r\n", "HTTP/1.1 400 ");
	expect_contains(&s, "DELETE /a HTTP/1.0\r\n\r\n", "HTTP/1.1 405 ");
	expect_contains(&s, "OPTIONS * HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ");
	expect_contains(&s, "GET /other HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ");
	record r = site_record(&s, 10);
	assert_true(r.whole && r.status == 404 && r.error[0] != '\0' && r.stage[0] == '\0');
	assert_int_equal(s.handled, 6);
	site_end(&s);
}

static void limited_routes(site *s)
{
	three_routes(s);
	must(weir_routes_add_limit(s->routes, &(weir_limit_options){.name = "per key",
								    .rate_per_s = 0.001,
								    .burst = 2,
								    .key = "header X-Key"}));
}

static void limits_by_key(void **state)
{
	skip_without(state);
	site s = {.pages = any_pages, .make_routes = limited_routes};
	site_open(&s);
	for (int i = 0; i < 2; i++)
		expect_contains(&s, "GET /a HTTP/1.0\r\nX-Key: one\r\n\r\n", "HTTP/1.1 200 OK");
	expect_contains(&s, "GET /a HTTP/1.0\r\nX-Key: one\r\nX-Gold: 1\r\n\r\n",
			"HTTP/1.1 429 Too Many Requests\r\n",
			"Weir-Shed: stage=per_key;class=gold;reason=rate\r\n", "Retry-After: ");
	expect_contains(&s, "GET /a HTTP/1.0\r\nX-Key: two\r\n\r\n", "HTTP/1.1 200 OK");
	expect_contains(&s, "GET /a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK");
	/* Health checks pass. */
	expect_contains(&s, "GET /health HTTP/1.0\r\nX-Key: one\r\n\r\n", "HTTP/1.1 200 OK");
	record r = site_record(&s, 2);
	assert_true(r.status == 429 && r.shed == WEIR_SHED_RATE && r.klass == 1);
	assert_int_equal(s.handled, 5);
	assert_int_equal(site_stats(&s).rejected, 1);
	/* Counted by the stage as well, under its verdict. */
	assert_int_equal(stats_of(s.stage).shed, 1);
	site_end(&s);
}

/* ---- methods ---- */

static void page_not_allowed(site *s, weir_request *request)
{
	weir_request_reply_not_allowed(request, "POST");
}

static const page method_pages[] = {PAGE("/a", page_any), PAGE("/form", page_not_allowed),
				    POOL_PAGE("/far", page_not_allowed), NO_PAGE};

static void routes_by_method(site *s)
{
	add(s, (weir_route_options){.name = "a", .rules = RULES("path /a", "method GET HEAD")});
	add(s, (weir_route_options){.name = "b",
				    .rules = RULES("path /a /b", "method PUT PURGE", "header X-In")});
	add(s, (weir_route_options){.name = "c", .rules = RULES("path /c", "not method GET")});
	add(s, (weir_route_options){.name = "d", .rules = RULES("path /d", "method PURGE")});
	add(s, (weir_route_options){.name = "form", .rules = RULES("path /form /far")});
}

static void tells_which_methods_would_do(void **state)
{
	skip_without(state);
	site s = {.pages = method_pages, .make_routes = routes_by_method};
	site_open(&s);
	expect_contains(&s, "GET /a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ");
	expect_contains(&s, "POST /a HTTP/1.0\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
			"\r\nAllow: GET, HEAD\r\n");
	expect_contains(&s, "BREW /a HTTP/1.0\r\n\r\n", "HTTP/1.1 405 ", "\r\nAllow: GET, HEAD\r\n");
	/* Other rules hold as ever: who may not see a route is not told of it. */
	expect_contains(&s, "GET /b HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ");
	expect_contains(&s, "GET /b HTTP/1.0\r\nX-In: 1\r\n\r\n", "HTTP/1.1 405 ", "\r\nAllow: PUT\r\n");
	expect_contains(&s, "POST /a HTTP/1.0\r\nX-In: 1\r\n\r\n", "\r\nAllow: GET, HEAD, PUT\r\n");
	expect_contains(&s, "GET /c HTTP/1.0\r\n\r\n",
			"\r\nAllow: HEAD, POST, PUT, DELETE, OPTIONS, PATCH, TRACE\r\n");
	/* Only a method of another name: nothing to tell. */
	expect_contains(&s, "GET /d HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ");
	expect_contains(&s, "GET /none HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ");
	record r = site_record(&s, 1);
	assert_true(r.status == 405 && r.error[0] != '\0' && r.stage[0] == '\0');
	/* By handlers, here and in a pool. */
	expect_contains(&s, "GET /form HTTP/1.0\r\n\r\n", "HTTP/1.1 405 ", "\r\nAllow: POST\r\n");
	expect_contains(&s, "GET /far HTTP/1.0\r\n\r\n", "HTTP/1.1 405 ", "\r\nAllow: POST\r\n");
	site_end(&s);
}

/* ---- the application's own word on the class ---- */

static _Atomic unsigned classified;

static unsigned by_session(weir_request *request, unsigned klass, void *arg)
{
	weir_span id = weir_request_cookie(request, WEIR_SPAN("sid"));
	classified++;
	if (arg != &classified || weir_request_client(request)->sa_family != AF_INET ||
	    weir_request_arg(request) == NULL)
		return WEIR_CLASSES - 1;
	if (span_is(id, "anna")) {
		weir_request_set_user(request, memcpy(weir_request_alloc(request, 5), "anna", 5));
		return 1;
	}
	return span_is(id, "beyond") ? 1000 : klass;
}

static void page_user(site *s, weir_request *request)
{
	char text[64];
	const char *user = weir_request_user(request);
	int n = snprintf(text, sizeof(text), "%u %s", weir_request_event(request)->klass,
			 user != NULL ? user : "nobody");
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

static const page user_pages[] = {PAGE("/", page_user), POOL_PAGE("/far", page_user),
				  PAGE("/other", page_user), NO_PAGE};

static void routes_that_ask(site *s)
{
	add(s, (weir_route_options){.name = "other", .rules = RULES("path /other")});
	add(s, (weir_route_options){.name = "all", .classify = by_session, .classify_arg = &classified});
	must(weir_routes_default_class(s->routes, 5, "rest"));
	must(weir_routes_add_limit(s->routes, &(weir_limit_options){.name = "key",
								    .rules = RULES("header X-Key"),
								    .rate_per_s = 0.001,
								    .burst = 1,
								    .key = "header X-Key"}));
}

static void asks_the_application_for_the_class(void **state)
{
	skip_without(state);
	site s = {.pages = user_pages, .make_routes = routes_that_ask};
	classified = 0;
	site_open(&s);
	expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=anna\r\n\r\n", "\r\n\r\n1 anna");
	expect_contains(&s, "GET /far HTTP/1.0\r\nCookie: sid=anna\r\n\r\n", "\r\n\r\n1 anna");
	expect_contains(&s, "GET / HTTP/1.0\r\n\r\n", "\r\n\r\n5 nobody");
	expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=beyond\r\n\r\n", "\r\n\r\n7 nobody");
	assert_int_equal(site_record(&s, 0).klass, 1);
	assert_int_equal(classified, 4);
	/* Not on other routes, and not once a quota has turned it away. */
	expect_contains(&s, "GET /other HTTP/1.0\r\nCookie: sid=anna\r\n\r\n", "\r\n\r\n5 nobody");
	assert_int_equal(classified, 4);
	expect_contains(&s, "GET / HTTP/1.0\r\nX-Key: a\r\n\r\n", "HTTP/1.1 200 ");
	expect_contains(&s, "GET / HTTP/1.0\r\nX-Key: a\r\nCookie: sid=anna\r\n\r\n", "HTTP/1.1 429 ",
			"class=rest;");
	assert_int_equal(classified, 5);
	site_end(&s);
}

static void route_that_asks_for_all(site *s)
{
	add(s, (weir_route_options){.name = "all", .classify = by_session, .classify_arg = &classified});
}

/* A table with nothing to compare takes a shorter way. */
static void asks_in_a_plain_table_too(void **state)
{
	skip_without(state);
	site s = {.pages = user_pages, .make_routes = route_that_asks_for_all};
	site_open(&s);
	expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=anna\r\n\r\n", "\r\n\r\n1 anna");
	expect_contains(&s, "GET / HTTP/1.0\r\n\r\n", "\r\n\r\n0 nobody");
	site_end(&s);
}

static unsigned by_body(weir_request *request, unsigned klass, void *arg)
{
	const weir_buf *body = weir_request_collected(request);
	classified++;
	return body != NULL && body->length == 4 && memcmp(body->data, "anna", 4) == 0 ? 1 : klass;
}

static void route_that_asks_with_the_body(site *s)
{
	add(s, (weir_route_options){.name = "all", .collect_bytes = 100, .classify = by_body});
	must(weir_routes_default_class(s->routes, 5, "rest"));
}

/* Once, when the body is there; one without a body at once; one whose body is refused not at all. */
static void asks_once_the_body_is_collected(void **state)
{
	skip_without(state);
	site s = {.pages = user_pages, .make_routes = route_that_asks_with_the_body};
	classified = 0;
	site_open(&s);
	expect_contains(&s, "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nanna", "\r\n\r\n1 nobody");
	expect_contains(&s, "POST / HTTP/1.0\r\nContent-Length: 4\r\n\r\nbert", "\r\n\r\n5 nobody");
	expect_contains(&s, "GET / HTTP/1.0\r\n\r\n", "\r\n\r\n5 nobody");
	assert_int_equal(classified, 3);
	expect_contains(&s, "POST / HTTP/1.0\r\nContent-Length: 400\r\n\r\nanna", "HTTP/1.1 413 ");
	assert_int_equal(classified, 3);
	site_end(&s);
}

/* ---- rejections that are kept ---- */

static void three_routes_of_which_one_rejects_otherwise(site *s)
{
	three_routes(s);
	add(s, (weir_route_options){
		       .name = "gone", .klass = -1, .reject_status = 410, .rules = RULES("path /gone")});
}

/* A stage whose law lets one request in, and would again in a quarter of an hour. */
static void open_spent(site *s)
{
	static const weir_fixed_params one = {.rate_per_s = 0.001, .burst = 1};
	*s = (site){.pages = any_pages,
		    .make_routes = three_routes_of_which_one_rejects_otherwise,
		    .stage_options = {.admission = &weir_law_fixed, .admission_params = &one}};
	site_open(s);
	expect_contains(s, "GET /a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK");
}

static heard reject(int fd, const char *request)
{
	say(fd, request);
	return hear_until(fd, "try again later\n");
}

static unsigned long retry_after(const char *text)
{
	const char *at = strstr(text, "\r\nRetry-After: ");
	assert_non_null(at);
	return strtoul(at + 15, NULL, 10);
}

static void expect_reject(int fd, const char *request, const char *status, const char *why)
{
	heard h = reject(fd, request);
	assert_memory_equal(h.text, status, strlen(status));
	check_contains(h.text, why);
	assert_int_equal(count_of(h.text, "HTTP/1.1"), 1);
	assert_in_range(retry_after(h.text), 990, 1500);
	free(h.text);
}

/* In turn, so that none is told what another was. */
static void tells_each_its_reason(void **state)
{
	skip_without(state);
	site s;
	open_spent(&s);
	int fd = dial(&s);
	for (int i = 0; i < 3; i++) {
		expect_reject(fd, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 503 ",
			      "\r\nWeir-Shed: stage=web;class=rest;reason=rate\r\n");
		expect_reject(fd, "GET /a HTTP/1.1\r\nHost: a\r\nX-Gold: 1\r\n\r\n", "HTTP/1.1 503 ",
			      "\r\nWeir-Shed: stage=web;class=gold;reason=rate\r\n");
		expect_reject(fd, "GET /gone HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 410 Gone\r\n",
			      "\r\nWeir-Shed: stage=web;class=rest;reason=rate\r\n");
		expect_reject(fd, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 503 ",
			      "\r\nConnection: keep-alive\r\n\r\noverloaded");
	}
	say(fd, "HEAD /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	heard h = hear_all(fd);
	check_contains(h.text, "\r\nContent-Length: 28\r\n");
	assert_string_equal(h.text + h.length - 23, "\r\nConnection: close\r\n\r\n");
	free(h.text);
	close(fd);
	site_end(&s);
}

/* Those who are told at the same time are not to come back at the same time. */
static void spreads_when_to_come_again(void **state)
{
	skip_without(state);
	site s;
	open_spent(&s);
	int fd = dial(&s);
	unsigned long least = 1500, most = 0;
	for (int i = 0; i < 64; i++) {
		heard h = reject(fd, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
		unsigned long after = retry_after(h.text);
		assert_in_range(after, 990, 1500);
		least = after < least ? after : least;
		most = after > most ? after : most;
		free(h.text);
	}
	assert_true(least < 1150 && most > 1350);
	close(fd);
	site_end(&s);
}

static bool has_date(int fd, const char *date)
{
	heard h = reject(fd, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
	bool has = strstr(h.text, date) != NULL;
	free(h.text);
	return has;
}

static void dates_each(void **state)
{
	skip_without(state);
	site s;
	open_spent(&s);
	int fd = dial(&s);
	heard h = reject(fd, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
	char *date = strstr(h.text, "\r\nDate: ");
	assert_non_null(date);
	date[37] = '\0';
	CHECK_EVENTUALLY(!has_date(fd, date));
	free(h.text);
	close(fd);
	site_end(&s);
}

static void routes_that_reject_plainly_and_elsewhere(site *s)
{
	three_routes(s);
	add(s, (weir_route_options){.name = "moved",
				    .reject = WEIR_REJECT_REDIRECT,
				    .location = "/sorry",
				    .rules = RULES("path /moved")});
}

/* Who is turned away hears nothing of stages, whichever way the answer is made. */
static void keeps_names_to_itself(void **state)
{
	skip_without(state);
	static const weir_fixed_params one = {.rate_per_s = 0.001, .burst = 1};
	site s = {.pages = any_pages,
		  .make_routes = routes_that_reject_plainly_and_elsewhere,
		  .no_shed_details = true,
		  .stage_options = {.admission = &weir_law_fixed, .admission_params = &one}};
	site_open(&s);
	expect_contains(&s, "GET /a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK");
	for (int i = 0; i < 2; i++) {
		char *text = ask(&s, i == 0 ? "GET /a HTTP/1.0\r\n\r\n" : "GET /moved HTTP/1.0\r\n\r\n");
		check_contains(text, i == 0 ? "HTTP/1.1 503 " : "HTTP/1.1 302 ");
		check_contains(text,
			       i == 0 ? "\r\n\r\noverloaded, try again later\n" : "\r\nLocation: /sorry\r\n");
		check_contains(text, "\r\nRetry-After: ");
		check_lacks(text, "Weir-Shed");
		check_lacks(text, "web");
		free(text);
	}
	assert_int_equal(site_record(&s, 1).shed, WEIR_SHED_RATE);
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(refuses_bad_routes),
		CHECK_TEST(survives_without_memory),
		CHECK_TEST(goes_on_with_quotas),
		ON_BOTH(finds_class_and_route),
		ON_BOTH(limits_by_key),
		ON_BOTH(tells_which_methods_would_do),
		ON_BOTH(asks_the_application_for_the_class),
		ON_BOTH(asks_in_a_plain_table_too),
		ON_BOTH(asks_once_the_body_is_collected),
		ON_BOTH(keeps_names_to_itself),
		ON_BOTH(tells_each_its_reason),
		ON_BOTH(spreads_when_to_come_again),
		ON_BOTH(dates_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
