/* SPDX-License-Identifier: Apache-2.0 */
#include "on_site.h"

#define GET      "GET /a?b HTTP/1.1\r\nHost: example.org\r\n\r\n"
#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 5\r\n\r\nhello"
#define SHORT_NS (20 * WEIR_NS_PER_MS)

/* ---- what most of them do ---- */

static void site_plain(site *s, void **state)
{
	site_open(s, ON(state), (site_options){0});
}

/* The next connection that the backend gets, with a head. */
static int serve_head(const site *s)
{
	int backend = serve_next(s, 0);
	hear_head(backend);
	return backend;
}

/* A client asks, and the backend has heard it; returns the backend's side. */
static int begin(const site *s, const char *request, int *ret_client)
{
	*ret_client = visit(s);
	tell(*ret_client, request);
	return serve_head(s);
}

static void answer_hello(int client, int backend)
{
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	must_hear(client, "hello");
}

static void leave(site *s, int client, int backend)
{
	close(client);
	close(backend);
	site_close(s);
}

/* ---- the everyday ---- */

static void a_request_goes_through_and_both_connections_stay(void **state)
{
	site s;
	site_plain(&s, state);
	int client = visit(&s), backend = -1;
	for (int i = 0; i < 3; i++) {
		tell(client, GET);
		if (i == 0)
			backend = serve_next(&s, 0);
		const char *head = hear_head(backend);
		assert_string_equal(head, "GET /a?b HTTP/1.1\r\nHost: example.org\r\n"
					  "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
					  "X-Forwarded-Host: example.org\r\nVia: 1.1 weir\r\n\r\n");
		tell(backend, OK_HELLO);
		head = hear_head(client);
		check_contains(head, "HTTP/1.1 200 OK\r\n");
		check_contains(head, "Content-Type: text/x\r\n");
		check_contains(head, "Content-Length: 5\r\n");
		check_contains(head, "Via: 1.1 weir\r\n");
		must_not_contain(head, "close");
		must_hear(client, "hello");
	}
	CHECK_EVENTUALLY(site_logged(&s) == 3);
	check_contains(s.note, "upstream=127.0.0.1:");
	weir_sentry_backend_stats stats = site_backend(&s, 0);
	assert_int_equal(stats.calls, 3);
	assert_int_equal(stats.reused, 2);
	assert_int_equal(stats.connects, 1);
	assert_int_equal(stats.state, WEIR_BACKEND_UP);
	assert_string_equal(weir_sentry_state_name(stats.state), "up");
	assert_true(stats.latency_ns > 0);
	leave(&s, client, backend);
}

/*
 * Once everything is there, a request is served from what is: no allocation, whole answers and streams alike. A slow
 * machine may once need a buffer more, because the last one is still on its way; so one of ten runs of 20 must do.
 */
static void a_request_allocates_nothing(void **state)
{
	site s;
	site_plain(&s, state);
	int client = visit(&s), backend = -1;
	uint64_t before = 0;
	bool without = false;
	for (int i = 0; i < 200 && !without; i++) {
		if (i % 20 == 0)
			before = weir_mem_count();
		tell(client, i % 2 == 0 ? GET : "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
		if (i == 0)
			backend = serve_next(&s, 0);
		hear_head(backend);
		if (i % 2 != 0)
			must_hear(backend, "abc");
		tell(backend, i % 4 < 2 ? OK_HELLO
					: "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
					  "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
		hear_head(client);
		listen_for(client, i % 4 < 2 ? "hello" : "5\r\nhello\r\n0\r\n\r\n");
		without = i % 20 == 19 && weir_mem_count() == before;
	}
	assert_true(without);
	leave(&s, client, backend);
}

/* One request, whole, and what the backend saw of it; the text is valid until the next hearing. */
static const char *pass(site *s, const char *request)
{
	static char seen[65536];
	int client = visit(s);
	tell(client, request);
	int backend = serve_next(s, 0);
	snprintf(seen, sizeof(seen), "%s", hear_head(backend));
	tell(backend, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 204");
	close(client);
	close(backend);
	return seen;
}

static void fields_of_one_connection_stay_behind(void **state)
{
	site s;
	site_plain(&s, state);
	const char *seen = pass(
		&s,
		"GET / HTTP/1.1\r\nKeep-Alive: 5\r\nHost: h\r\nConnection: x-own, keep-alive\r\nX-Own: 1\r\n"
		"TE: trailers\r\nX-Other: 2\r\nProxy-Foo: 3\r\nproxy-authorization: 4\r\nTrailer: x\r\n"
		"Weir-Quality: 1\r\nPragma: 5\r\nX-Last: 6\r\n\r\n");
	assert_string_equal(seen, "GET / HTTP/1.1\r\nHost: h\r\nX-Other: 2\r\nPragma: 5\r\nX-Last: 6\r\n"
				  "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
				  "X-Forwarded-Host: h\r\nVia: 1.1 weir\r\n\r\n");
	/* Nobody may take out what frames or routes the message by naming it. */
	seen = pass(
		&s,
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: host, content-length\r\nContent-Length: 0\r\n\r\n");
	check_contains(seen, "\r\nHost: h\r\n");
	check_contains(seen, "\r\nContent-Length: 0\r\n");
	must_not_contain(seen, "connection");
	/* Each alone, as well. */
	must_not_contain(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nProxy-Foo: 3\r\n\r\n"), "proxy-foo");
	must_not_contain(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nWeir-Quality: 3\r\n\r\n"), "weir-quality");
	must_not_contain(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n"), "expect");
	/* An upgrade that is none of our business. */
	seen = pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
			"h2c\r\nHTTP2-Settings: x\r\n\r\n");
	must_not_contain(seen, "upgrade");
	must_not_contain(seen, "settings");
	site_close(&s);
}

static void answers_lose_them_too(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, GET, &client);
	tell(backend, "HTTP/1.1 200 Fine\r\nConnection: keep-alive, x-own\r\nX-Own: 1\r\nKeep-Alive: 5\r\n"
		      "Proxy-Authenticate: x\r\nProxy-Status: x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
		      "Upgrade: h2c\r\nContent-Length: 0\r\n\r\n");
	const char *head = hear_head(client);
	must_not_contain(head, "keep-alive");
	must_not_contain(head, "x-own");
	must_not_contain(head, "proxy-");
	must_not_contain(head, "upgrade");
	check_contains(head, "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n");
	leave(&s, client, backend);
}

/* An answer that is complete is copied line by line. Long ones and short ones look the same. */
static void complete_answers_lose_them_too(void **state)
{
	static char answer[8192], filling[3000];
	memset(filling, 'f', sizeof(filling) - 1);
	for (unsigned is_long = 0; is_long < 2; is_long++) {
		site s;
		site_plain(&s, state);
		int client, backend = begin(&s, GET, &client);
		snprintf(answer, sizeof(answer),
			 "HTTP/1.1 200 Fine\r\nServer: other\r\nX-First: 1\r\nConnection: keep-alive, "
			 "x-own\r\n"
			 "X-Own: 1\r\nKeep-Alive: 5\r\nProxy-Status: x\r\nSet-Cookie: a=b\r\nContent-Length: "
			 "2\r\n"
			 "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Filling: %s\r\nSet-Cookie: c=d\r\n"
			 "Upgrade: h2c\r\n\r\nok",
			 is_long ? filling : "f");
		tell(backend, answer);
		const char *head = hear_head(client);
		must_not_contain(head, "keep-alive");
		must_not_contain(head, "x-own");
		must_not_contain(head, "proxy-");
		must_not_contain(head, "upgrade");
		must_not_contain(head, "1970");
		must_not_contain(head, "other");
		check_contains(head, "\r\nX-First: 1\r\nSet-Cookie: a=b\r\nX-Filling: f");
		check_contains(head, "f\r\nSet-Cookie: c=d\r\nVia: 1.1 weir\r\nContent-Length: 2\r\n\r\n");
		leave(&s, client, backend);
	}
}

static void who_the_client_is_can_be_told_in_three_ways(void **state)
{
	const char request[] =
		"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"
		"X-Forwarded-Host: first\r\nVia: 1.1 other\r\n\r\n";
	static const char *const trusted[] = {"127.0.0.1", NULL};
	site s;
	site_open(&s, ON(state), (site_options){.trusted = trusted});
	const char *seen = pass(&s, request);
	check_contains(seen, "X-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n");
	check_contains(seen, "X-Forwarded-Proto: https\r\n");
	check_contains(seen, "X-Forwarded-Host: first\r\n");
	must_not_contain(seen, "Proto: http\r\n");
	must_not_contain(seen, "Host: h\r\nX-Forwarded-Host: h\r\n");
	check_contains(seen, "Via: 1.1 other\r\n");
	check_contains(seen, "Via: 1.1 weir\r\n");
	site_close(&s);
	site_open(&s, ON(state),
		  (site_options){.sentry = {.forwarded = WEIR_FORWARDED_REPLACE, .via = "me"}});
	seen = pass(&s, request);
	check_contains(seen, "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: "
			     "h\r\nVia: 1.1 me\r\n");
	must_not_contain(seen, "1.2.3.4");
	must_not_contain(seen, "https");
	must_not_contain(seen, "first");
	site_close(&s);
	site_open(&s, ON(state), (site_options){.sentry = {.forwarded = WEIR_FORWARDED_OFF, .via = ""}});
	assert_string_equal(pass(&s, request), request);
	site_close(&s);
}

static void targets_and_hosts(void **state)
{
	site s;
	char name[64];
	site_open(&s, ON(state), (site_options){.sentry = {.forwarded = WEIR_FORWARDED_OFF, .via = ""}});
	assert_string_equal(pass(&s, "GET http://h:1/x?y HTTP/1.1\r\nHost: h:1\r\nA: b\r\n\r\n"),
			    "GET /x?y HTTP/1.1\r\nHost: h:1\r\nA: b\r\n\r\n");
	assert_string_equal(pass(&s, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
			    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_string_equal(pass(&s, "PURGE / HTTP/1.1\r\nHost: h\r\n\r\n"),
			    "PURGE / HTTP/1.1\r\nHost: h\r\n\r\n");
	snprintf(name, sizeof(name), "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", s.backend_port[0]);
	assert_string_equal(pass(&s, "GET / HTTP/1.0\r\n\r\n"), name);
	site_close(&s);
	site_open(&s, ON(state),
		  (site_options){.backend = {.host = WEIR_HOST_BACKEND},
				 .sentry = {.forwarded = WEIR_FORWARDED_OFF, .via = ""}});
	snprintf(name, sizeof(name), "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", s.backend_port[0]);
	assert_string_equal(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), name);
	site_close(&s);
	site_open(&s, ON(state),
		  (site_options){.backend = {.host = WEIR_HOST_NAMED, .host_name = "inner.test:81"},
				 .sentry = {.forwarded = WEIR_FORWARDED_OFF, .via = ""}});
	assert_string_equal(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
			    "GET / HTTP/1.1\r\nHost: inner.test:81\r\n\r\n");
	assert_string_equal(pass(&s, "GET / HTTP/1.0\r\n\r\n"),
			    "GET / HTTP/1.1\r\nHost: inner.test:81\r\n\r\n");
	/* As it came, but not what nobody can decode. */
	check_contains(pass(&s, "GET /a%2Fb%c3%A4?%zz HTTP/1.1\r\nHost: h\r\n\r\n"),
		       "GET /a%2Fb%c3%A4?%zz HTTP/1.1\r\n");
	int client = visit(&s);
	tell(client, "GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 400");
	must_hear(client, "the path is malformed");
	tell(client, "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 405");
	close(client);
	site_close(&s);
}

static void answers_without_a_body(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", &client);
	tell(backend, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
	check_contains(hear_head(client), "Content-Length: 1234\r\n");
	tell(client, GET);
	hear_head(backend);
	tell(backend, "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n");
	const char *head = hear_head(client);
	check_contains(head, "HTTP/1.1 304");
	check_contains(head, "ETag: \"x\"\r\n");
	must_not_contain(head, "content-length");
	tell(client, GET);
	hear_head(backend);
	tell(backend, "HTTP/1.1 204 No Content\r\n\r\n");
	must_not_contain(hear_head(client), "content-length");
	tell(client, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
	hear_head(backend);
	tell(backend, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 200");
	/* And all of it over the same two connections. */
	tell(client, GET);
	hear_head(backend);
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "Content-Length: 5\r\n");
	must_hear(client, "hello");
	assert_int_equal(site_backend(&s, 0).connects, 1);
	leave(&s, client, backend);
}

static void streams_are_streamed(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n", &client);
	tell(backend, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
	check_contains(hear_head(client), "Link: </x>\r\n");
	tell(backend, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	check_contains(hear_head(client), "Transfer-Encoding: chunked\r\n");
	tell(backend, "3\r\nabc\r\n");
	must_hear(client, "3\r\nabc\r\n");
	tell(backend, "2\r\nde\r\n");
	must_hear(client, "2\r\nde\r\n");
	tell(backend, "0\r\nX-Sum: 5\r\n\r\n");
	must_hear(client, "0\r\nX-Sum: 5\r\n\r\n");
	/* Up to the end of the backend's connection: chunked for the client. */
	close(backend);
	tell(client, GET);
	backend = serve_head(&s);
	tell(backend, "HTTP/1.0 200 OK\r\n\r\nxyz");
	hear_head(client);
	must_hear(client, "3\r\nxyz\r\n");
	close(backend);
	must_hear(client, "0\r\n\r\n");
	close(client);
	site_close(&s);
}

/* ---- bodies of requests ---- */

static void bodies_pass(void **state)
{
	site s;
	site_plain(&s, state);
	int client = visit(&s);
	tell(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
	int backend = serve_next(&s, 0);
	check_contains(hear_head(backend), "Content-Length: 6\r\n");
	must_hear(backend, "abc");
	tell(client, "def");
	must_hear(backend, "def");
	answer_hello(client, backend);
	tell(client, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	check_contains(hear_head(backend), "Transfer-Encoding: chunked\r\n");
	must_hear(backend, "3\r\nabc\r\n");
	tell(client, "0\r\nX-Sum: 3\r\n\r\n");
	must_hear(backend, "0\r\nX-Sum: 3\r\n\r\n");
	answer_hello(client, backend);
	assert_int_equal(site_backend(&s, 0).connects, 1);
	leave(&s, client, backend);
}

/* A collected body does not stand in the way of another try. */
static void a_collected_body_can_be_sent_again(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){.collect_bytes = 1000, .sentry = {.retry = {.floor_per_s = 1000}}});
	int client = visit(&s);
	for (int i = 0; i < 2; i++) {
		tell(client, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef");
		int backend = serve_head(&s);
		must_hear(backend, "abcdef");
		close(backend);
		backend = serve_head(&s);
		must_hear(backend, "abcdef");
		tell(backend, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
		check_contains(hear_head(client), "HTTP/1.1 204");
		must_end(backend);
		close(backend);
	}
	assert_int_equal(site_stats(&s).retries, 2);
	close(client);
	site_close(&s);
}

#define EXPECTING "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"

static void expectations_are_the_backends(void **state)
{
	site s;
	site_plain(&s, state);
	int client = visit(&s);
	tell(client, EXPECTING);
	int backend = serve_next(&s, 0);
	check_contains(hear_head(backend), "Expect: 100-continue\r\n");
	tell(backend, "HTTP/1.1 100 Continue\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 100 Continue\r\n");
	tell(client, "abc");
	must_hear(backend, "abc");
	answer_hello(client, backend);
	/* It does not want the body: nobody asks the client for it. */
	tell(client, EXPECTING);
	hear_head(backend);
	tell(backend, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
	check_contains(hear_head(client), "HTTP/1.1 403");
	must_end(backend);
	leave(&s, client, backend);
}

static void a_silent_backend_gets_the_body_in_the_end(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, EXPECTING, &client);
	check_contains(hear_head(client), "HTTP/1.1 100 Continue\r\n");
	tell(client, "abc");
	must_hear(backend, "abc");
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	leave(&s, client, backend);
}

static void an_answer_before_the_body_is_complete(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\nabc",
				    &client);
	must_hear(backend, "abc");
	tell(backend, "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nhello");
	check_contains(hear_head(client), "HTTP/1.1 413");
	must_hear(client, "hello");
	must_end(backend);
	leave(&s, client, backend);
}

/* ---- what goes wrong ---- */

static void nobody_is_there(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.backends = 2});
	for (int i = 0; i < 2; i++) {
		close(s.listener[i]);
		s.listener[i] = -1;
	}
	int client = visit(&s);
	for (int i = 0; i < 2; i++) {
		tell(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
		check_contains(hear_head(client), "HTTP/1.1 502");
		listen_for(client, "reached.\n");
	}
	CHECK_EVENTUALLY(site_logged(&s) == 2);
	check_contains(s.note, "upstream=127.0.0.1:");
	check_contains(s.note, "failed=connect");
	assert_int_equal(s.status, 502);
	assert_int_equal(site_stats(&s).bad_gateway, 2);
	close(client);
	site_close(&s);
}

/* One of two is dead: nobody notices, whatever the method, as nothing was sent. */
static void a_dead_backend_is_stepped_over(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){.backends = 2,
				 .backend = {.failures = 2,
					     .eject_ns = 3600 * WEIR_NS_PER_S,
					     .eject_most_ns = 3600 * WEIR_NS_PER_S},
				 .sentry = {.retry = {.floor_per_s = 1000}}});
	close(s.listener[0]);
	s.listener[0] = -1;
	int client = visit(&s), backend = -1;
	for (int i = 0; i < 30; i++) {
		tell(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
		if (backend < 0)
			backend = serve_next(&s, 1);
		hear_head(backend);
		must_hear(backend, "abc");
		answer_hello(client, backend);
	}
	weir_sentry_backend_stats stats = site_backend(&s, 0);
	assert_int_equal(stats.state, WEIR_BACKEND_EJECTED);
	assert_int_equal(stats.ejections, 1);
	assert_int_equal(stats.failures, 2);
	assert_int_equal(site_stats(&s).retries, 2);
	assert_int_equal(site_backend(&s, 1).calls, 30);
	leave(&s, client, backend);
}

/* After the request was sent, only what may be done twice is. */
static void only_idempotent_requests_are_repeated(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", &client);
	close(backend);
	check_contains(hear_head(client), "HTTP/1.1 502");
	listen_for(client, "reached.\n");
	assert_int_equal(site_stats(&s).retries, 0);
	tell(client, GET);
	backend = serve_head(&s);
	close(backend);
	backend = serve_head(&s);
	answer_hello(client, backend);
	assert_int_equal(site_stats(&s).retries, 1);
	assert_int_equal(site_stats(&s).free_retries, 0);
	leave(&s, client, backend);
}

/* Nor what may be done twice, once more of its body was read than is kept for that. */
static void a_large_body_is_not_repeated(void **state)
{
	static char part[16384];
	site s;
	site_plain(&s, state);
	int client = visit(&s);
	memset(part, 'x', sizeof(part) - 1);
	tell(client, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 16385\r\n\r\n");
	int backend = serve_head(&s);
	tell(client, part);
	listen_for(backend, part);
	tell(client, "yz");
	listen_for(backend, "yz");
	close(backend);
	check_contains(hear_head(client), "HTTP/1.1 502");
	assert_int_equal(site_stats(&s).retries, 0);
	close(client);
	site_close(&s);
}

/* What is kept is sent again, to the last byte that fits, and the rest of it goes on behind. */
static void a_small_body_is_sent_again(void **state)
{
	static char part[16385];
	site s;
	site_open(&s, ON(state), (site_options){.sentry = {.retry = {.floor_per_s = 50}}});
	int client = visit(&s);
	memset(part, 'x', sizeof(part) - 1);
	tell(client, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 16390\r\n\r\n");
	for (int i = 0; i < 2; i++) {
		int backend = serve_next(&s, 0);
		check_contains(hear_head(backend), "Content-Length: 16390\r\n");
		if (i == 0)
			tell(client, part);
		listen_for(backend, part);
		if (i == 1) {
			tell(client, "behind");
			listen_for(backend, "behind");
			tell(backend, OK_HELLO);
		}
		close(backend);
	}
	check_contains(hear_head(client), "HTTP/1.1 200");
	must_hear(client, "hello");
	assert_int_equal(site_stats(&s).retries, 1);
	close(client);
	site_close(&s);
}

/* On a kept connection that the backend closes, with none, some or all of the body read by then. */
static void a_body_survives_a_stale_connection(void **state)
{
	static const struct {
		const char *head, *before, *after, *passed_before, *passed;
	} cases[] = {
		{"Content-Length: 6", "", "abcdef", "", "abcdef"},
		{"Content-Length: 6", "abc", "def", "abc", "abcdef"},
		{"Content-Length: 6", "abcdef", "", "abcdef", "abcdef"},
		{"Transfer-Encoding: chunked", "3\r\nabc\r\n", "0\r\n\r\n", "3\r\nabc\r\n",
		 "3\r\nabc\r\n0\r\n\r\n"},
		{"Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\nSum: 7\r\n\r\n", "",
		 "3\r\nabc\r\n0\r\nSum: 7\r\n\r\n", "3\r\nabc\r\n0\r\nSum: 7\r\n\r\n"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char head[128];
		site s;
		site_open(&s, ON(state),
			  (site_options){.sentry = {.retry = {.share = -1, .floor_per_s = -1}}});
		int client, backend = begin(&s, GET, &client);
		answer_hello(client, backend);
		snprintf(head, sizeof(head), "PUT / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n%s", cases[i].head,
			 cases[i].before);
		tell(client, head);
		hear_head(backend);
		if (cases[i].passed_before[0] != '\0')
			listen_for(backend, cases[i].passed_before);
		close(backend);
		backend = serve_head(&s);
		tell(client, cases[i].after);
		listen_for(backend, cases[i].passed);
		answer_hello(client, backend);
		assert_int_equal(site_stats(&s).free_retries, 1);
		leave(&s, client, backend);
	}
}

/* A byte of an answer is enough: not repeated. */
static void no_repetition_after_a_byte(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, GET, &client);
	tell(backend, "HTTP/1.1 ");
	close(backend);
	check_contains(hear_head(client), "HTTP/1.1 502");
	CHECK_EVENTUALLY(site_logged(&s) == 1);
	check_contains(s.note, "failed=head");
	assert_int_equal(site_stats(&s).retries, 0);
	close(client);
	site_close(&s);
}

static void a_budget_bounds_repetitions(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.sentry = {.retry = {.share = -1, .floor_per_s = -1}}});
	int client, backend = begin(&s, GET, &client);
	close(backend);
	check_contains(hear_head(client), "HTTP/1.1 502");
	assert_int_equal(site_stats(&s).retries, 0);
	assert_int_equal(site_stats(&s).retries_refused, 1);
	close(client);
	site_close(&s);
}

/* A kept connection that the backend closes under a request costs nothing. */
static void a_stale_connection_is_replaced_for_free(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.sentry = {.retry = {.share = -1, .floor_per_s = -1}}});
	int client, backend = begin(&s, GET, &client);
	answer_hello(client, backend);
	tell(client, GET);
	hear_head(backend);
	close(backend);
	backend = serve_head(&s);
	answer_hello(client, backend);
	assert_int_equal(site_stats(&s).free_retries, 1);
	/* Once: the fresh one is not stale. */
	tell(client, GET);
	hear_head(backend);
	close(backend);
	backend = serve_head(&s);
	close(backend);
	check_contains(hear_head(client), "HTTP/1.1 502");
	assert_int_equal(site_stats(&s).free_retries, 2);
	close(client);
	site_close(&s);
}

/* Where one kept connection was closed others may be too: the second try does not ask them. */
static void a_stale_connection_is_replaced_by_a_fresh_one(void **state)
{
	site s;
	site_plain(&s, state);
	int client[2], backend[2];
	for (int i = 0; i < 2; i++) {
		client[i] = visit(&s);
		tell(client[i], GET);
		backend[i] = serve_next(&s, 0);
		hear_head(backend[i]);
	}
	for (int i = 0; i < 2; i++) {
		tell(backend[i], OK_HELLO);
		hear_head(client[i]);
		must_hear(client[i], "hello");
	}
	tell(client[0], GET);
	hear_head(backend[1]);
	close(backend[1]);
	backend[1] = serve_next(&s, 0);
	hear_head(backend[1]);
	tell(backend[1], OK_HELLO);
	check_contains(hear_head(client[0]), "HTTP/1.1 200");
	for (int i = 0; i < 2; i++) {
		close(client[i]);
		close(backend[i]);
	}
	site_close(&s);
}

static void a_backend_that_hangs(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){.sentry = {.limits = {.head_ns = SHORT_NS}, .retry = {.floor_per_s = 50}}});
	int client = visit(&s);
	tell(client, GET);
	int backend = serve_next(&s, 0);
	check_contains(hear_head(client), "HTTP/1.1 504");
	listen_for(client, "in time.\n");
	must_end(backend);
	assert_int_equal(site_stats(&s).timeouts, 1);
	assert_int_equal(site_stats(&s).retries, 0);
	assert_int_equal(site_backend(&s, 0).calls, 1);
	leave(&s, client, backend);
}

/* Another one is asked, once; nobody is asked twice. */
static void backends_that_hang(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){.backends = 2,
				 .sentry = {.limits = {.head_ns = SHORT_NS}, .retry = {.floor_per_s = 50}}});
	int client = visit(&s);
	tell(client, GET);
	check_contains(hear_head(client), "HTTP/1.1 504");
	listen_for(client, "in time.\n");
	assert_int_equal(site_stats(&s).timeouts, 1);
	assert_int_equal(site_stats(&s).retries, 1);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(site_backend(&s, i).calls, 1);
		assert_int_equal(site_backend(&s, i).in_flight, 0);
	}
	close(client);
	site_close(&s);
}

static void garbage_is_a_bad_gateway(void **state)
{
	static const char *const garbage[] = {
		"SMTP ready\r\n\r\n", "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 777 Odd\r\nContent-Length: 9\r\n\r\nx",
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"};
	site s;
	site_plain(&s, state);
	int client = visit(&s);
	for (size_t i = 0; i < 4; i++) {
		tell(client, GET);
		int backend = serve_head(&s);
		tell(backend, garbage[i]);
		check_contains(hear_head(client), "HTTP/1.1 502");
		listen_for(client, "reached.\n");
		if (i != 1)
			must_end(backend);
		else
			shutdown(backend, SHUT_RDWR);
		close(backend);
		CHECK_EVENTUALLY(site_backend(&s, 0).open == 0);
	}
	close(client);
	site_close(&s);
}

/* What breaks off must not look whole. */
static void an_answer_that_breaks_off_is_cut(void **state)
{
	static const char *const parts[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"};
	site s;
	site_plain(&s, state);
	for (int i = 0; i < 2; i++) {
		int client, backend = begin(&s, GET, &client);
		tell(backend, parts[i]);
		hear_head(client);
		listen_for(client, "abc");
		close(backend);
		char rest[64] = "";
		ssize_t n;
		do {
			AGAIN(n, recv(client, rest, sizeof(rest) - 1, 0));
			must_not_contain(rest, "0\r\n\r\n");
		} while (n > 0);
		close(client);
	}
	CHECK_EVENTUALLY(site_stats(&s).cut == 2);
	site_close(&s);
}

static uint64_t failed_in_stage(const site *s)
{
	weir_stage_stats stats;
	weir_stage_read(weir_sentry_stage(s->sentry), 0, &stats);
	return stats.failed;
}

static void a_backend_that_refuses_is_believed(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, GET, &client);
	tell(backend, "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy");
	const char *head = hear_head(client);
	check_contains(head, "HTTP/1.1 503");
	check_contains(head, "Retry-After: 7\r\n");
	must_hear(client, "busy");
	CHECK_EVENTUALLY(failed_in_stage(&s) == 1);
	assert_int_equal(site_backend(&s, 0).failures, 0);
	leave(&s, client, backend);
}

/* Every backend has as many calls as it may: turned away, while streams go on. */
static void full_backends_turn_away(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.backend = {.concurrency = 1}});
	int client = visit(&s), other = visit(&s);
	tell(client, GET);
	int backend = serve_head(&s);
	tell(backend, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
	hear_head(client);
	must_hear(client, "abc");
	tell(other, GET);
	const char *head = hear_head(other);
	check_contains(head, "HTTP/1.1 503");
	check_contains(head, "reason=concurrency");
	tell(backend, "def");
	must_hear(client, "def");
	assert_int_equal(site_stats(&s).full, 1);
	close(client);
	close(other);
	close(backend);
	site_close(&s);
}

/* Beyond the bound of the pool, requests wait in the stage and are not lost. */
static void requests_wait_in_the_stage(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.sentry = {.concurrency = 1}});
	int client = visit(&s), other = visit(&s);
	tell(client, GET);
	int backend = serve_head(&s);
	tell(other, GET);
	CHECK_EVENTUALLY(weir_stage_waiting(weir_sentry_stage(s.sentry)) == 1);
	assert_int_equal(site_backend(&s, 0).in_flight, 1);
	answer_hello(client, backend);
	hear_head(backend);
	tell(backend, OK_HELLO);
	hear_head(other);
	must_hear(other, "hello");
	close(client);
	close(other);
	close(backend);
	site_close(&s);
}

/* ---- clients that leave ---- */

static void the_backend_hears_when_the_client_leaves(void **state)
{
	static const char *const said[] = {"", "HTTP/1.1 200 OK\r\n",
					   "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc"};
	site s;
	site_plain(&s, state);
	for (int i = 0; i < 4; i++) {
		int client = visit(&s);
		tell(client, i < 3 ? GET : "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
		int backend = serve_head(&s);
		if (i < 3 && said[i][0] != '\0')
			tell(backend, said[i]);
		if (i == 2)
			hear_head(client);
		if (i == 3)
			must_hear(backend, "abc");
		close(client);
		must_end(backend);
		close(backend);
	}
	CHECK_EVENTUALLY(site_stats(&s).gone == 4);
	assert_int_equal(site_backend(&s, 0).in_flight, 0);
	assert_int_equal(site_backend(&s, 0).failures, 0);
	site_close(&s);
}

/* In good order, with all read that there was: nothing but the end of its stream tells. */
static void the_backend_hears_when_the_client_closes(void **state)
{
	site s;
	site_open(&s, ON(state), (site_options){.limits.half_closed_gap_ns = WEIR_NS_PER_MS});
	int client, backend = begin(&s, GET, &client);
	tell(backend, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc");
	hear_head(client);
	must_hear(client, "abc");
	close(client);
	must_end(backend);
	CHECK_EVENTUALLY(site_stats(&s).gone == 1);
	close(backend);
	site_close(&s);
}

/* ---- back-pressure, both ways ---- */

/* Several times what the kernel keeps in the four buffers on the way. */
#define LARGE (96u << 20)

static uint8_t pattern_at(size_t i)
{
	return (uint8_t)(i * 31 + i / 253);
}

typedef struct pour {
	int fd;
	size_t count;
	_Atomic size_t written;
} pour;

/* Writes a pattern for as long as it is taken. */
static void *pour_pattern(void *arg)
{
	pour *p = arg;
	uint8_t block[16384];
	for (size_t at = 0; at < p->count;) {
		size_t part = p->count - at < sizeof(block) ? p->count - at : sizeof(block);
		for (size_t i = 0; i < part; i++)
			block[i] = pattern_at(at + i);
		ssize_t n;
		AGAIN(n, send(p->fd, block, part, MSG_NOSIGNAL));
		if (n <= 0)
			break;
		at += (size_t)n;
		atomic_store(&p->written, at);
	}
	return NULL;
}

/* Until no more is taken: what fits into the kernel's buffers and ours. */
static size_t wait_until_it_stops(pour *p)
{
	size_t before = SIZE_MAX;
	for (int same = 0; same < 100;) {
		size_t now = atomic_load(&p->written);
		same = now == before ? same + 1 : 0;
		before = now;
		check_breathe();
	}
	return before;
}

static void drink_pattern(int fd, size_t count)
{
	uint8_t block[65536];
	for (size_t at = 0; at < count;) {
		ssize_t n;
		AGAIN(n, recv(fd, block, sizeof(block) < count - at ? sizeof(block) : count - at, 0));
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++)
			if (block[i] != pattern_at(at + (size_t)i))
				fail_msg("byte %zu is wrong", at + (size_t)i);
		at += (size_t)n;
	}
}

static void a_client_that_reads_slowly_stops_the_backend(void **state)
{
	site s;
	pthread_t thread;
	char head[128];
	site_plain(&s, state);
	int client, backend = begin(&s, GET, &client);
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", LARGE);
	tell(backend, head);
	pour p = {.fd = backend, .count = LARGE};
	pthread_create(&thread, NULL, pour_pattern, &p);
	size_t stopped = wait_until_it_stops(&p);
	assert_true(stopped < LARGE / 2);
	hear_head(client);
	drink_pattern(client, LARGE);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&p.written), LARGE);
	/* And both connections go on. */
	tell(client, GET);
	hear_head(backend);
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	leave(&s, client, backend);
}

static void a_backend_that_reads_slowly_stops_the_client(void **state)
{
	site s;
	pthread_t thread;
	char head[128];
	site_plain(&s, state);
	int client = visit(&s);
	snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %u\r\n\r\n", LARGE);
	tell(client, head);
	int backend = serve_next(&s, 0);
	pour p = {.fd = client, .count = LARGE};
	pthread_create(&thread, NULL, pour_pattern, &p);
	size_t stopped = wait_until_it_stops(&p);
	assert_true(stopped < LARGE / 2);
	hear_head(backend);
	drink_pattern(backend, LARGE);
	pthread_join(thread, NULL);
	answer_hello(client, backend);
	leave(&s, client, backend);
}

/* Reads until the last chunk. */
static void listen_for_end(int fd)
{
	char block[65536 + 8] = "", *at = block + 8;
	for (;;) {
		ssize_t n;
		AGAIN(n, recv(fd, at, 65536, 0));
		assert_true(n > 0);
		if (memcmp(at + n - 7, "\r\n0\r\n\r\n", 7) == 0)
			return;
		memmove(block, at + n - 8, 8);
	}
}

/* More than may wait on the way, and all of it here already. */
static void a_large_collected_body_is_sent_as_it_is_taken(void **state)
{
	site s;
	pthread_t thread;
	char head[128];
	const uint32_t length = 12u << 20;
	site_open(&s, ON(state), (site_options){.collect_bytes = length});
	int client = visit(&s);
	for (int chunked = 0; chunked < 2; chunked++) {
		if (chunked)
			snprintf(head, sizeof(head),
				 "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
				 length);
		else
			snprintf(head, sizeof(head),
				 "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %u\r\n\r\n", length);
		tell(client, head);
		pour p = {.fd = client, .count = length};
		pthread_create(&thread, NULL, pour_pattern, &p);
		pthread_join(thread, NULL);
		if (chunked)
			tell(client, "\r\n0\r\n\r\n");
		int backend = serve_head(&s);
		if (!chunked)
			drink_pattern(backend, length);
		else
			listen_for_end(backend);
		tell(backend, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
		check_contains(hear_head(client), "HTTP/1.1 200");
		must_hear(client, "hello");
		close(backend);
	}
	close(client);
	site_close(&s);
}

/* ---- upgrades ---- */

#define UPGRADE                                                                       \
	"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: " \
	"websocket\r\nSec-WebSocket-Key: x\r\n\r\n"

static void upgrades_are_tunnels(void **state)
{
	for (int who = 0; who < 2; who++) {
		site s;
		site_plain(&s, state);
		int client = visit(&s);
		tell(client, UPGRADE);
		int backend = serve_next(&s, 0);
		const char *head = hear_head(backend);
		check_contains(head, "Upgrade: websocket\r\nConnection: upgrade\r\n\r\n");
		check_contains(head, "Sec-WebSocket-Key: x\r\n");
		tell(backend,
		     "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		     "Sec-WebSocket-Accept: y\r\n\r\nfirst");
		head = hear_head(client);
		check_contains(head, "HTTP/1.1 101");
		check_contains(head, "Upgrade: websocket\r\n");
		check_contains(head, "Connection: upgrade\r\n");
		check_contains(head, "Sec-WebSocket-Accept: y\r\n");
		must_hear(client, "first");
		for (int i = 0; i < 10; i++) {
			tell(client, "ping");
			must_hear(backend, "ping");
			tell(backend, "pong");
			must_hear(client, "pong");
		}
		assert_int_equal(site_stats(&s).upgrades, 1);
		close(who == 0 ? client : backend);
		must_end(who == 0 ? backend : client);
		close(who == 0 ? backend : client);
		CHECK_EVENTUALLY(site_backend(&s, 0).open == 0);
		site_close(&s);
	}
}

static void a_refused_upgrade_is_an_answer(void **state)
{
	site s;
	site_plain(&s, state);
	int client, backend = begin(&s, UPGRADE, &client);
	answer_hello(client, backend);
	tell(client, GET);
	hear_head(backend);
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	leave(&s, client, backend);
}

/* ---- quality ---- */

static double two_thirds(const void *law, unsigned klass)
{
	return 2. / 3;
}

static int law_init(void *law, const void *params, const char **ret_wrong)
{
	return 0;
}

static weir_verdict law_admit(void *law, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static void the_backend_is_told_what_to_deliver(void **state)
{
	static const weir_admission_law law = {.name = "worse",
					       .brief = "asks for less",
					       .state_bytes = 8,
					       .init = law_init,
					       .admit = law_admit,
					       .quality = two_thirds};
	site s;
	site_open(&s, ON(state), (site_options){.sentry = {.law = &law}});
	check_contains(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nWeir-Quality: 1.00\r\n\r\n"),
		       "\r\nWeir-Quality: 0.67\r\n");
	site_close(&s);
	site_open(&s, ON(state), (site_options){.sentry = {.law = &law, .no_quality = true}});
	must_not_contain(pass(&s, "GET / HTTP/1.1\r\nHost: h\r\nWeir-Quality: 1.00\r\n\r\n"), "weir-quality");
	site_close(&s);
}

/* ---- health ---- */

static void serve_checks(const site *s, uint32_t index, unsigned count, const char *answer)
{
	for (unsigned i = 0; i < count; i++) {
		int fd = serve_next(s, index);
		check_contains(hear_head(fd), "GET /healthz HTTP/1.1\r\n");
		/* It may have been given up already. */
		send(fd, answer, strlen(answer), MSG_NOSIGNAL);
		must_end(fd);
		close(fd);
	}
}

static void checks_take_a_backend_down_and_bring_it_back(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){.backend = {.rise = 2, .fall = 2, .slow_start_ns = 3600 * WEIR_NS_PER_S},
				 .sentry = {.health = {.path = "/healthz",
						       .interval_ns = WEIR_NS_PER_MS,
						       .timeout_ns = 3600 * WEIR_NS_PER_S}}});
	/* A timeout is at most the interval, so this one fails by itself at times: only the state counts. */
	for (int i = 0; i < 10000 && site_backend(&s, 0).state != WEIR_BACKEND_DOWN; i++)
		serve_checks(&s, 0, 1, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(site_backend(&s, 0).state, WEIR_BACKEND_DOWN);
	assert_true(site_backend(&s, 0).checks_failed >= 2);
	assert_int_equal(site_backend(&s, 0).calls, 0);
	site_close(&s);
}

static void a_good_check_brings_it_back(void **state)
{
	site s;
	site_open(&s, ON(state),
		  (site_options){
			  .backend = {.rise = 1, .fall = 1, .slow_start_ns = 3600 * WEIR_NS_PER_S},
			  .sentry = {.health = {.path = "/healthz", .interval_ns = 50 * WEIR_NS_PER_MS}}});
	serve_checks(&s, 0, 1, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
	CHECK_EVENTUALLY(site_backend(&s, 0).checks >= 1);
	/* All are down: better tried than not. The check's own connections come as well. */
	for (int i = 0; i < 1000 && site_backend(&s, 0).state != WEIR_BACKEND_SLOW; i++)
		serve_checks(&s, 0, 1, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
	assert_int_equal(site_backend(&s, 0).state, WEIR_BACKEND_SLOW);
	assert_true(site_backend(&s, 0).weight < 1);
	site_close(&s);
}

static void all_down_is_panic_and_all_are_tried(void **state)
{
	site s;
	weir_proxy_stats stats;
	uint64_t panics;
	site_open(&s, ON(state),
		  (site_options){
			  .backends = 2,
			  .backend = {.fall = 1},
			  .sentry = {.health = {.path = "/healthz", .interval_ns = 3600 * WEIR_NS_PER_S}}});
	for (uint32_t i = 0; i < 2; i++)
		serve_checks(&s, i, 1, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
	for (uint32_t i = 0; i < 2; i++)
		CHECK_EVENTUALLY(site_backend(&s, i).state == WEIR_BACKEND_DOWN);
	close(s.listener[0]);
	s.listener[0] = -1;
	int client = visit(&s);
	tell(client, GET);
	int backend = serve_next(&s, 1);
	hear_head(backend);
	tell(backend, OK_HELLO);
	check_contains(hear_head(client), "HTTP/1.1 200");
	weir_sentry_read_stats(s.sentry, &stats, &panics);
	assert_true(panics >= 1);
	leave(&s, client, backend);
}

static void an_ejected_backend_comes_back(void **state)
{
	site s;
	site_open(
		&s, ON(state),
		(site_options){.backends = 2,
			       .backend = {.failures = 1, .eject_ns = SHORT_NS, .slow_start_ns = UINT64_MAX},
			       .sentry = {.retry = {.floor_per_s = 1000}}});
	int client = visit(&s), backend = -1;
	/* Whoever gets it first closes, and is ejected; the other one answers. */
	tell(client, GET);
	for (uint32_t i = 0; i < 2; i++)
		be_patient(s.listener[i]);
	close(s.listener[0]);
	s.listener[0] = -1;
	for (int i = 0; i < 200 && site_backend(&s, 0).ejections == 0; i++) {
		if (backend < 0)
			backend = serve_next(&s, 1);
		hear_head(backend);
		answer_hello(client, backend);
		tell(client, GET);
	}
	assert_true(site_backend(&s, 0).ejections > 0);
	CHECK_EVENTUALLY(site_backend(&s, 0).state == WEIR_BACKEND_UP);
	close(client);
	if (backend >= 0)
		close(backend);
	site_close(&s);
}

/* ---- the end ---- */

static void a_stop_ends_what_is_under_way(void **state)
{
	site s;
	weir_stop_report report;
	site_plain(&s, state);
	int client = visit(&s), stream = visit(&s);
	tell(stream, GET);
	int streaming = serve_next(&s, 0);
	hear_head(streaming);
	tell(streaming, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc");
	hear_head(stream);
	tell(client, GET);
	int backend = serve_head(&s);
	weir_world_stop(s.world, WEIR_NS_PER_MS, &report);
	assert_int_equal(report.unbalanced, 0);
	assert_int_equal(report.undrained, 0);
	must_end(backend);
	must_end(streaming);
	must_end(client);
	must_end(stream);
	close(client);
	close(stream);
	close(backend);
	close(streaming);
	weir_http_free(&s.http);
	weir_routes_unref(s.routes);
	weir_sentry_free(&s.sentry);
	weir_world_free(&s.world);
	close(s.listener[0]);
	pthread_mutex_destroy(&s.lock);
}

static void wrong_options_are_told(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "reactor", 1);
	weir_sentry *sentry = NULL;
	static const char *const urls[] = {"127.0.0.1:80",   "ftp://h",     "http://",    "http://h:0",
					   "http://h:99999", "http://h:x",  "http://a b", "http://h/path",
					   "http://[::1",    "http://[]:1", "http://u@h"};
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		weir_origin_options backend = {.url = urls[i]};
		weir_sentry_options options = {.backends = &backend, .backend_count = 1};
		assert_int_equal(weir_sentry_new(domain, &options, &sentry), -EINVAL);
		check_contains(weir_error(), strstr(urls[i], "path") != NULL ? "without the path"
									     : "write http://HOST:PORT");
	}
	weir_origin_options good = {.url = "http://127.0.0.1:1/"};
	weir_sentry_options options = {.backend_count = 0};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -EINVAL);
	options = (weir_sentry_options){.backends = &good, .backend_count = 1, .health.path = "nopath"};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -EINVAL);
	options = (weir_sentry_options){.backends = &good, .backend_count = 1, .via = "a b"};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -EINVAL);
	options = (weir_sentry_options){.backends = &good, .backend_count = 1, .limits.fields = 5000};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -EINVAL);
	assert_null(sentry);
	options = (weir_sentry_options){.backends = &good, .backend_count = 1, .target_ns = WEIR_NS_PER_MS};
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), 0);
	weir_sentry_free(&sentry);
	weir_sentry_free(&sentry);
	weir_world_free(&world);
}

/* ---- several threads ---- */

/* A backend that answers every request on every connection. */
static void *answer_all(void *arg)
{
	int fd = *(int *)arg;
	char got[4096];
	ssize_t n;
	size_t length = 0;
	while ((n = recv(fd, got + length, sizeof(got) - 1 - length, 0)) > 0) {
		length += (size_t)n;
		got[length] = '\0';
		if (strstr(got, "\r\n\r\n") == NULL)
			continue;
		length = 0;
		if (send(fd, OK_HELLO, strlen(OK_HELLO), MSG_NOSIGNAL) <= 0)
			break;
	}
	close(fd);
	return NULL;
}

#define SERVED_MOST 64

typedef struct served_all {
	int listener;
	pthread_t thread, each[SERVED_MOST];
	int fd[SERVED_MOST];
	unsigned count;
} served_all;

static void *accept_all(void *arg)
{
	served_all *all = arg;
	int fd;
	while (all->count < SERVED_MOST && (fd = accept4(all->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		all->fd[all->count] = fd;
		pthread_create(&all->each[all->count], NULL, answer_all, &all->fd[all->count]);
		all->count++;
	}
	return NULL;
}

static void threads_share_backends(void **state)
{
	site s;
	served_all all[2] = {{.count = 0}, {.count = 0}};
	int client[8];
	site_open(&s, ON(state),
		  (site_options){.threads = 2, .backends = 2, .sentry = {.target_ns = WEIR_NS_PER_S}});
	for (uint32_t i = 0; i < 2; i++) {
		all[i].listener = s.listener[i];
		pthread_create(&all[i].thread, NULL, accept_all, &all[i]);
	}
	for (int i = 0; i < 8; i++)
		client[i] = visit(&s);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 8; i++)
			tell(client[i], GET);
		for (int i = 0; i < 8; i++) {
			check_contains(hear_head(client[i]), "HTTP/1.1 200");
			must_hear(client[i], "hello");
		}
	}
	assert_int_equal(site_backend(&s, 0).calls + site_backend(&s, 1).calls, 400);
	assert_true(site_backend(&s, 0).calls > 50);
	assert_true(site_backend(&s, 1).calls > 50);
	assert_int_equal(site_stats(&s).requests, 400);
	for (int i = 0; i < 8; i++)
		close(client[i]);
	for (uint32_t i = 0; i < 2; i++) {
		shutdown(s.listener[i], SHUT_RDWR);
		pthread_join(all[i].thread, NULL);
	}
	site_close(&s);
	for (uint32_t i = 0; i < 2; i++)
		for (unsigned k = 0; k < all[i].count; k++)
			pthread_join(all[i].each[k], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(a_request_goes_through_and_both_connections_stay),
		ON_BOTH(a_request_allocates_nothing),
		ON_BOTH(fields_of_one_connection_stay_behind),
		ON_BOTH(answers_lose_them_too),
		ON_BOTH(complete_answers_lose_them_too),
		ON_BOTH(who_the_client_is_can_be_told_in_three_ways),
		ON_BOTH(targets_and_hosts),
		ON_BOTH(answers_without_a_body),
		ON_BOTH(streams_are_streamed),
		ON_BOTH(bodies_pass),
		ON_BOTH(a_collected_body_can_be_sent_again),
		ON_BOTH(expectations_are_the_backends),
		ON_BOTH(a_silent_backend_gets_the_body_in_the_end),
		ON_BOTH(an_answer_before_the_body_is_complete),
		ON_BOTH(nobody_is_there),
		ON_BOTH(a_dead_backend_is_stepped_over),
		ON_BOTH(only_idempotent_requests_are_repeated),
		ON_BOTH(a_large_body_is_not_repeated),
		ON_BOTH(a_small_body_is_sent_again),
		ON_BOTH(a_body_survives_a_stale_connection),
		ON_BOTH(no_repetition_after_a_byte),
		ON_BOTH(a_budget_bounds_repetitions),
		ON_BOTH(a_stale_connection_is_replaced_for_free),
		ON_BOTH(a_stale_connection_is_replaced_by_a_fresh_one),
		ON_BOTH(a_backend_that_hangs),
		ON_BOTH(backends_that_hang),
		ON_BOTH(garbage_is_a_bad_gateway),
		ON_BOTH(an_answer_that_breaks_off_is_cut),
		ON_BOTH(a_backend_that_refuses_is_believed),
		ON_BOTH(full_backends_turn_away),
		ON_BOTH(requests_wait_in_the_stage),
		ON_BOTH(the_backend_hears_when_the_client_leaves),
		ON_BOTH(the_backend_hears_when_the_client_closes),
		ON_BOTH(a_client_that_reads_slowly_stops_the_backend),
		ON_BOTH(a_backend_that_reads_slowly_stops_the_client),
		ON_BOTH(a_large_collected_body_is_sent_as_it_is_taken),
		ON_BOTH(upgrades_are_tunnels),
		ON_BOTH(a_refused_upgrade_is_an_answer),
		ON_BOTH(the_backend_is_told_what_to_deliver),
		ON_BOTH(checks_take_a_backend_down_and_bring_it_back),
		ON_BOTH(a_good_check_brings_it_back),
		ON_BOTH(all_down_is_panic_and_all_are_tried),
		ON_BOTH(an_ejected_backend_comes_back),
		ON_BOTH(a_stop_ends_what_is_under_way),
		cmocka_unit_test(wrong_options_are_told),
		ON_BOTH(threads_share_backends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
