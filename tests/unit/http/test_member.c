/* SPDX-License-Identifier: Apache-2.0 */
/* Admission by session on a server: who is a newcomer, and what makes a member. */
#include "on_h2.h"

#include "http/server.h"
#include "rules/routes.h"

#define RULES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- pages: each answers with the class that the request was offered in ---- */

static void reply_with(weir_request *request, unsigned status, const char *const *cookies)
{
	weir_field fields[4];
	size_t count = 0;
	char klass = (char)('0' + weir_request_event(request)->klass);
	for (; cookies != NULL && cookies[count] != NULL; count++)
		fields[count] =
			(weir_field){WEIR_SPAN("Set-Cookie"), {cookies[count], strlen(cookies[count])}};
	weir_reply reply = {
		.status = status, .fields = fields, .field_count = count, .bytes = &klass, .length = 1};
	weir_request_reply(request, &reply);
}

static void page_plain(site *s, weir_request *request)
{
	reply_with(request, 200, NULL);
}

static void page_login(site *s, weir_request *request)
{
	reply_with(request, 200, RULES("other=1; Path=/", "sid=new; Path=/; HttpOnly"));
}

static void page_asks(site *s, weir_request *request)
{
	reply_with(request, 401, RULES("sid=\"asked\""));
}

static void page_logout(site *s, weir_request *request)
{
	reply_with(request, 200, RULES("sid=deleted; Max-Age=0"));
}

static void page_missing(site *s, weir_request *request)
{
	reply_with(request, 404, NULL);
}

static void page_fails(site *s, weir_request *request)
{
	reply_with(request, 500, RULES("sid=failed"));
}

static void page_busy(site *s, weir_request *request)
{
	reply_with(request, 503, RULES("sid=busy"));
}

static void page_stream(site *s, weir_request *request)
{
	weir_field field = {WEIR_SPAN("set-cookie"), WEIR_SPAN("sid=streamed")};
	weir_reply reply = {.status = 200, .fields = &field, .field_count = 1};
	weir_request_begin(request, &reply, 0);
	weir_request_end(request, NULL, 0);
}

static const page pages[] = {PAGE("/", page_plain),
			     POOL_PAGE("/pool", page_plain),
			     PAGE("/login", page_login),
			     POOL_PAGE("/pool-login", page_login),
			     PAGE("/asks", page_asks),
			     PAGE("/logout", page_logout),
			     PAGE("/missing", page_missing),
			     PAGE("/fails", page_fails),
			     PAGE("/busy", page_busy),
			     PAGE("/stream", page_stream),
			     PAGE("/low", page_plain),
			     PAGE("/health", page_plain),
			     NO_PAGE};

static void add(site *s, weir_route_options route)
{
	route.stage = s->stage;
	route.arg = s;
	must(weir_routes_add(s->routes, &route));
}

static void routes_with_sessions(site *s)
{
	add(s, (weir_route_options){.name = "health",
				    .klass = WEIR_CLASS_HIGHEST,
				    .exempt = true,
				    .session = "cookie sid",
				    .rules = RULES("path /health")});
	add(s, (weir_route_options){
		       .name = "low", .klass = 7, .session = "cookie sid", .rules = RULES("path /low")});
	add(s, (weir_route_options){.name = "all", .klass = -1, .session = "cookie sid"});
	must(weir_routes_add_class(
		s->routes,
		&(weir_class_options){.name = "silver", .klass = 2, .rules = RULES("header X-Silver")}));
}

/* The class in which it was offered; -1: something else was answered. */
static int class_of(site *s, const char *path, const char *fields)
{
	char request[1024];
	snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n%s\r\n", path, fields);
	char *text = ask(s, request);
	const char *body = strstr(text, "\r\n\r\n");
	int klass = body != NULL && body[4] >= '0' && body[4] <= '7' ? body[4] - '0' : -1;
	free(text);
	return klass;
}

#define expect_class(s, path, fields, klass) assert_int_equal(class_of(s, path, fields), klass)

static weir_sessions_stats sessions_of(site *s, uint64_t now_ns)
{
	weir_session_view view;
	assert_true(weir_http_session_at(s->http, 0, now_ns, &view));
	assert_string_equal(view.name, "cookie sid");
	assert_false(weir_http_session_at(s->http, 1, now_ns, &view));
	weir_http_session_at(s->http, 0, now_ns, &view);
	return view.stats;
}

static uint64_t known_of(site *s)
{
	return sessions_of(s, weir_world_now(s->world)).known;
}

/* ---- who is a newcomer ---- */

static void newcomers_go_one_class_lower(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_sessions};
	site_open(&s);
	expect_class(&s, "/", "", 1);
	expect_class(&s, "/", "X-Silver: 1\r\n", 3);
	expect_class(&s, "/", "Cookie: sid=\r\n", 1);
	expect_class(&s, "/", "Cookie: sid\r\n", 1);
	expect_class(&s, "/", "Cookie: xsid=1; sid2=1\r\n", 1);
	assert_int_equal(known_of(&s), 0);
	/* The lowest class stays, and what is exempt has no sessions. */
	expect_class(&s, "/low", "", 7);
	expect_class(&s, "/health", "", 0);
	expect_class(&s, "/health", "Cookie: sid=h\r\n", 0);
	/* Answered well once, it is a member, on every route. */
	expect_class(&s, "/", "Cookie: sid=a\r\n", 1);
	expect_class(&s, "/", "Cookie: sid=a\r\n", 0);
	expect_class(&s, "/", "X-Silver: 1\r\nCookie: sid=a\r\n", 2);
	expect_class(&s, "/low", "Cookie: sid=a\r\n", 7);
	expect_class(&s, "/", "Cookie: sid=b\r\n", 1);
	/* However it is written. */
	expect_class(&s, "/", "Cookie: x=1; sid=a; y=2\r\n", 0);
	expect_class(&s, "/", "Cookie: x=1\r\nCookie: y=2; sid=a\r\n", 0);
	expect_class(&s, "/", "Cookie: sid=\"a\"\r\n", 0);
	expect_class(&s, "/", "cookie:sid=a;\r\n", 0);
	assert_int_equal(known_of(&s), 2);
	weir_sessions_stats seen = sessions_of(&s, weir_world_now(s.world));
	assert_true(seen.admitted[WEIR_MEMBER] == 7 && seen.admitted[WEIR_NEWCOMER] == 8);
	assert_true(seen.refused[WEIR_MEMBER] == 0 && seen.refused[WEIR_NEWCOMER] == 0);
	site_end(&s);
}

/* ---- what makes a member ---- */

static void answers_make_members(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_sessions};
	site_open(&s);
	/* What an answer sets, not what the request made up. */
	expect_class(&s, "/login", "Cookie: sid=made-up\r\n", 1);
	expect_class(&s, "/", "Cookie: sid=new\r\n", 0);
	expect_class(&s, "/logout", "Cookie: sid=made-up\r\n", 1);
	assert_int_equal(known_of(&s), 1);
	expect_class(&s, "/logout", "", 1);
	expect_class(&s, "/", "Cookie: sid=deleted\r\n", 1); /* and now it is one: it was answered well */
	assert_int_equal(known_of(&s), 2);
	/* A page that asks who it is. */
	expect_class(&s, "/asks", "", 1);
	expect_class(&s, "/", "Cookie: sid=asked\r\n", 0);
	expect_class(&s, "/stream", "", -1);
	expect_class(&s, "/", "Cookie: sid=streamed\r\n", 0);
	/* Answers from other threads. */
	expect_class(&s, "/pool", "Cookie: sid=pooled\r\n", 1);
	expect_class(&s, "/", "Cookie: sid=pooled\r\n", 0);
	/* What was not answered well makes nobody one. */
	uint64_t before = known_of(&s);
	for (int i = 0; i < 2; i++) {
		expect_class(&s, "/missing", "Cookie: sid=m\r\n", 1);
		expect_class(&s, "/fails", "Cookie: sid=f\r\n", 1);
		expect_class(&s, "/busy", "Cookie: sid=u\r\n", 1);
		expect_class(&s, "/nowhere", "Cookie: sid=n\r\n", -1);
	}
	assert_int_equal(known_of(&s), before);
	expect_class(&s, "/pool-login", "Cookie: sid=elsewhere\r\n", 1);
	assert_int_equal(known_of(&s), before);
	site_end(&s);
}

/* HTTP/2 has a field for each cookie. */
static void of_http_2(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_sessions, .http2 = true};
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_get(c, "/login");
	assert_string_equal(a->body, "1");
	a = h2_ask_with(c, "GET", "/", RULES("cookie", "x=1", "cookie", "sid=new"), false, (h2_answer){0});
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "0");
	a = h2_ask_with(c, "GET", "/", RULES("cookie", "x=1", "cookie", "sid=other"), false, (h2_answer){0});
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "1");
	h2_end(c);
	site_end(&s);
}

/* ---- refusals ---- */

/* The law lets three in, of whatever class, and then nobody. */
static void those_who_are_refused_stay_newcomers(void **state)
{
	skip_without(state);
	static const weir_fixed_params three = {.rate_per_s = 0.001, .burst = 3};
	site s = {.pages = pages,
		  .make_routes = routes_with_sessions,
		  .stage_options = {.admission = &weir_law_fixed, .admission_params = &three}};
	site_open(&s);
	expect_class(&s, "/", "Cookie: sid=a\r\n", 1);
	expect_class(&s, "/", "Cookie: sid=a\r\n", 0);
	expect_class(&s, "/", "Cookie: sid=a\r\n", 0);
	assert_int_equal(known_of(&s), 1);
	/* A member who is refused is none any more. */
	expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=a\r\n\r\n", "503", "class=0;reason=rate");
	expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=a\r\n\r\n", "503", "class=1;reason=rate");
	for (int i = 0; i < 2; i++)
		expect_contains(&s, "GET / HTTP/1.0\r\nCookie: sid=b\r\n\r\n", "503", "class=1;reason=rate");
	weir_sessions_stats seen = sessions_of(&s, weir_world_now(s.world));
	assert_int_equal(seen.known, 0);
	assert_true(seen.admitted[WEIR_MEMBER] == 2 && seen.admitted[WEIR_NEWCOMER] == 1);
	assert_true(seen.refused[WEIR_MEMBER] == 1 && seen.refused[WEIR_NEWCOMER] == 3);
	site_end(&s);
}

static void routes_with_a_limit(site *s)
{
	routes_with_sessions(s);
	must(weir_routes_add_limit(
		s->routes, &(weir_limit_options){
				   .name = "once", .rate_per_s = 0.001, .burst = 1, .key = "header X-Key"}));
}

/* A quota says nothing about the service. */
static void a_quota_ends_no_session(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_a_limit};
	site_open(&s);
	expect_class(&s, "/", "X-Key: 1\r\nCookie: sid=a\r\n", 1);
	expect_contains(&s, "GET / HTTP/1.0\r\nX-Key: 1\r\nCookie: sid=a\r\n\r\n", "429");
	expect_class(&s, "/", "X-Key: 2\r\nCookie: sid=a\r\n", 0);
	site_end(&s);
}

/* ---- a header instead of a cookie; the table after a reload ---- */

static void routes_with_a_header(site *s)
{
	add(s, (weir_route_options){.name = "all", .klass = -1, .session = "header Authorization"});
}

static void by_header(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_a_header};
	site_open(&s);
	expect_class(&s, "/", "", 1);
	expect_class(&s, "/", "Authorization: Bearer x\r\n", 1);
	expect_class(&s, "/", "authorization: Bearer x\r\n", 0);
	expect_class(&s, "/", "Authorization: Bearer y\r\n", 1);
	/* A cookie is none of it. */
	expect_class(&s, "/login", "Authorization: Bearer z\r\n", 1);
	expect_class(&s, "/", "Authorization: Bearer z\r\n", 0);
	expect_class(&s, "/", "Authorization: new\r\n", 1);
	site_end(&s);
}

static void a_new_table_goes_on_with_them(void **state)
{
	skip_without(state);
	site s = {.pages = pages, .make_routes = routes_with_sessions};
	site_open(&s);
	expect_class(&s, "/", "Cookie: sid=a\r\n", 1);
	for (int same = 1; same >= 0; same--) {
		weir_routes *old = s.routes;
		must(weir_routes_new(&s.routes));
		weir_routes_go_on(s.routes, old);
		add(&s, (weir_route_options){.name = "all",
					     .klass = -1,
					     .session = "cookie sid",
					     .session_idle_ns = 5 * WEIR_NS_PER_S,
					     .session_keys = same ? 0 : 10});
		weir_routes_go_on(s.routes, NULL);
		must(weir_http_set_routes(s.http, s.routes));
		weir_routes_unref(old);
		/* Requests go by the new table once its loop has it. */
		CHECK_EVENTUALLY(class_of(&s, "/low", "") == 1);
		expect_class(&s, "/", "Cookie: sid=a\r\n", same ? 0 : 1);
	}
	site_end(&s);
}

/* ---- making ---- */

static void expect_refused(weir_routes *routes, weir_route_options options, const char *word)
{
	options.name = "r";
	assert_int_equal(weir_routes_add(routes, &options), -EINVAL);
	check_contains(weir_error(), word);
}

static void refuses_bad_sessions(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 1), (weir_stage_options){0});
	weir_stage *stage = probe.stage;
	weir_routes *routes;
	char name[300] = "cookie ";
	must(weir_routes_new(&routes));
	memset(name + 7, 'x', sizeof(name) - 8);
	static const char *const wrong[] = {
		"",       "sid",        "cookie",   "cookie ",     "cookie a b",  "cookie  a",   "cookie a=b",
		"client", "header a,b", "Cookie a", "cookie a\nb", "cookie \xe4", "cookie \"a\""};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect_refused(routes, (weir_route_options){.stage = stage, .session = wrong[i]}, "session");
	expect_refused(routes, (weir_route_options){.stage = stage, .session = name}, "session");
	expect_refused(routes,
		       (weir_route_options){.stage = stage, .session = "cookie a", .session_keys = 1u << 25},
		       "at most");
	assert_int_equal(routes->session_count, 0);
	weir_route_options good = {.name = "a", .stage = stage, .session = "cookie a"};
	must(weir_routes_add(routes, &good));
	must(weir_routes_add(routes, &good));
	assert_int_equal(routes->session_count, 1);
	assert_ptr_equal(routes->routes[0].session, routes->routes[1].session);
	good.session_idle_ns = 5 * WEIR_NS_PER_S;
	expect_refused(routes, good, "idle");
	good.session_idle_ns = 0;
	good.session_keys = 5;
	expect_refused(routes, good, "idle");
	good.session = "cookie b";
	must(weir_routes_add(routes, &good));
	assert_int_equal(routes->session_count, 2);
	weir_routes_unref(routes);
	weir_world_free(&world);
}

/* Every allocation failed in turn: nothing is lost, and nothing half made is left. */
static void survives_without_memory(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 1), (weir_stage_options){0});
	weir_routes *routes;
	weir_route_options route = {.name = "a", .stage = probe.stage, .session = "cookie a"};
	must(weir_routes_new(&routes));
	int failed = -1;
	for (unsigned n = 1; failed != 0 && n < 30; n++) {
		weir_mem_fail_after(n);
		failed = weir_routes_add(routes, &route);
		weir_mem_fail_after(0);
		assert_true(failed == 0 || failed == -ENOMEM);
		assert_int_equal(routes->route_count, failed == 0);
	}
	assert_int_equal(failed, 0);
	assert_int_equal(routes->session_count, 1);
	weir_routes_unref(routes);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(newcomers_go_one_class_lower),
		ON_BOTH(answers_make_members),
		ON_BOTH(of_http_2),
		ON_BOTH(those_who_are_refused_stay_newcomers),
		ON_BOTH(a_quota_ends_no_session),
		ON_BOTH(by_header),
		ON_BOTH(a_new_table_goes_on_with_them),
		CHECK_TEST(refuses_bad_sessions),
		CHECK_TEST(survives_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
