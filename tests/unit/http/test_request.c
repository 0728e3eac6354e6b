/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as handlers see them: looks, answers of every kind from every thread, rejections, clients that leave. */
#include "support/on_http.h"

#include "base/clock.h"
#include "http/server.h"

/* ---- looking ---- */

static int put_span(char *to, size_t size, const char *name, weir_span span)
{
	if (span.at == NULL)
		return snprintf(to, size, "%s=none;", name);
	return snprintf(to, size, "%s=%.*s;", name, (int)span.length, span.at);
}

static void page_look(site *s, weir_request *request)
{
	char text[2048];
	int n = 0;
	weir_field field;
	const struct sockaddr_in *client = (const void *)weir_request_client(request);
#define SHOW(name, span) n += put_span(text + n, sizeof(text) - (size_t)n, name, span)
	SHOW("method", weir_request_method_text(request));
	SHOW("path", weir_request_path(request));
	SHOW("query", weir_request_query(request));
	SHOW("host", weir_request_host(request));
	SHOW("x", weir_request_header(request, WEIR_SPAN("x-Thing")));
	SHOW("agent", weir_request_header(request, WEIR_SPAN("User-Agent")));
	SHOW("cookie", weir_request_cookie(request, WEIR_SPAN("b")));
	SHOW("certificate", weir_request_certificate(request));
	for (size_t i = 0; weir_request_field(request, i, &field); i++)
		SHOW("field", field.name);
	n += snprintf(text + n, sizeof(text) - (size_t)n,
		      "id=%d;version=%u;secure=%d;route=%s;family=%d;ip=%x;",
		      (int)weir_request_method(request), weir_request_version(request),
		      weir_request_secure(request), weir_request_route_name(request), client->sin_family,
		      ntohl(client->sin_addr.s_addr));
	n += snprintf(text + n, sizeof(text) - (size_t)n, "user=%d;began=%d;event=%d",
		      weir_request_user(request) == NULL, weir_request_began_ns(request) != 0,
		      weir_request_of(weir_request_event(request)) == request);
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

/* Whatever is left of the arena: all of it is the request's, and it has an end. */
static void page_alloc(site *s, weir_request *request)
{
	size_t total = 0;
	char *last = NULL;
	for (size_t size = 1; size < 3000 && total < 500000; size += 17) {
		char *memory = weir_request_alloc(request, size);
		if (memory == NULL || ((uintptr_t)memory & 15) != 0 || memory == last)
			break;
		memset(memory, (int)size, size);
		last = memory;
		total += size;
	}
	bool endless = weir_request_alloc(request, 100 * 1024 * 1024) != NULL;
	bool ok = total > 200000 && !endless;
	weir_request_reply_text(request, ok ? 200 : 500, WEIR_SPAN("x"));
}

static const page look_pages[] = {PAGE("/look", page_look), POOL_PAGE("/far", page_look),
				  PAGE("/", page_look), PAGE("/alloc", page_alloc), NO_PAGE};

static void shows_a_request(void **state)
{
	skip_without(state);
	site s = {.pages = look_pages};
	site_open(&s);
	expect_contains(
		&s,
		"PUT /look?a=1&b HTTP/1.1\r\nHost: Www.example.org:8080\r\nX-THING: one two\r\nx-thing: "
		"three\r\nCookie: a=1; b=2;c=3\r\nConnection: close\r\n\r\n",
		"method=PUT;path=/look;query=a=1&b;host=Www.example.org:8080;x=one two;agent=none;cookie=2;"
		"certificate=none;field=Host;field=X-THING;field=x-thing;field=Cookie;field=Connection;id=4;"
		"version=11;secure=0;route=all;family=2;ip=7f000001;user=1;began=1;event=1");
	expect_contains(&s, "PURGE /look HTTP/1.0\r\n\r\n", "method=PURGE;path=/look;query=none;host=;x=none",
			"id=0;version=10");
	/* From another thread, and of an absolute form without a path. */
	expect_contains(&s, "GET /far?q HTTP/1.1\r\nHost: b\r\nUser-Agent: me\r\nConnection: close\r\n\r\n",
			"path=/far;query=q;host=b;x=none;agent=me;cookie=none;", "field=User-Agent;");
	expect_contains(&s, "GET http://c HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n",
			"path=/;query=none;host=c");
	expect_contains(&s, "GET /alloc HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK");
	site_end(&s);
}

/* Heads larger than the request's own block. */
static void shows_large_heads(void **state)
{
	skip_without(state);
	site s = {.pages = look_pages};
	char text[9000], value[8000];
	site_open(&s);
	memset(value, 'v', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	snprintf(text, sizeof(text), "GET /far HTTP/1.0\r\nA: %s\r\nx-thing: behind\r\n\r\n", value);
	expect_contains(&s, text, "x=behind;");
	site_end(&s);
}

/* ---- answers that are none ---- */

static void page_bad(site *s, weir_request *request)
{
	static const weir_field bad[] = {{WEIR_SPAN("Content-Length"), WEIR_SPAN("5")},
					 {WEIR_SPAN("connection"), WEIR_SPAN("close")},
					 {WEIR_SPAN("DATE"), WEIR_SPAN("today")},
					 {WEIR_SPAN("Server"), WEIR_SPAN("me")},
					 {WEIR_SPAN("Transfer-Encoding"), WEIR_SPAN("chunked")},
					 {WEIR_SPAN("Bad Name"), WEIR_SPAN("x")},
					 {WEIR_SPAN(""), WEIR_SPAN("x")},
					 {WEIR_SPAN("X"), WEIR_SPAN("a\r\nSet-Cookie: b")},
					 {WEIR_SPAN("X"), WEIR_SPAN("a long value with a\nin it")},
					 {WEIR_SPAN("X"), {"with a \0 in it", 14}},
					 {WEIR_SPAN("X"), WEIR_SPAN("ends in\x7f")},
					 {WEIR_SPAN("X:Y"), WEIR_SPAN("x")},
					 {WEIR_SPAN("X-Long-Name=Y"), WEIR_SPAN("x")},
					 {WEIR_SPAN("X\xc3\xa4Long-Name"), WEIR_SPAN("x")}};
	weir_span query = weir_request_query(request);
	unsigned which = (unsigned)(query.at[0] - 'a');
	weir_reply reply = {.status = 200};
	if (which < sizeof(bad) / sizeof(bad[0])) {
		reply.fields = &bad[which];
		reply.field_count = 1;
	} else {
		reply.status = which == 14 ? 99 : 600;
	}
	if (weir_request_reply(request, &reply) != -EINVAL)
		s->drained++; /* as a count of failures */
}

static void page_tabs(site *s, weir_request *request)
{
	weir_field field = {WEIR_SPAN("X"), WEIR_SPAN("with a\ttab, \xc3\xa4 and so on")};
	weir_request_reply(request, &(weir_reply){.status = 299, .fields = &field, .field_count = 1});
}

static const page bad_pages[] = {PAGE("/bad", page_bad), POOL_PAGE("/far", page_bad),
				 PAGE("/tabs", page_tabs), NO_PAGE};

static void refuses_answers_that_are_none(void **state)
{
	skip_without(state);
	site s = {.pages = bad_pages};
	char text[64];
	site_open(&s);
	for (int c = 'a'; c < 'a' + 16; c++) {
		for (int far = 0; far < 2; far++) {
			snprintf(text, sizeof(text), "GET /%s?%c HTTP/1.0\r\n\r\n", far ? "far" : "bad", c);
			char *answer = ask(&s, text);
			check_contains(answer, "HTTP/1.1 500 Internal Server Error\r\n");
			check_lacks(answer, "Set-Cookie");
			free(answer);
		}
	}
	assert_int_equal(s.drained, 0);
	assert_int_equal(stats_of(s.stage).failed + stats_of(s.pool_stage).failed, 32);
	expect_contains(&s, "GET /tabs HTTP/1.0\r\n\r\n", "HTTP/1.1 299 \r\n",
			"X: with a\ttab, \xc3\xa4 and so on\r\n");
	site_end(&s);
}

/* ---- settling ---- */

static void page_status(site *s, weir_request *request)
{
	weir_span query = weir_request_query(request);
	unsigned status =
		(unsigned)((query.at[0] - '0') * 100 + (query.at[1] - '0') * 10 + query.at[2] - '0');
	weir_request_reply_text(request, status, WEIR_SPAN("x"));
}

static const page status_pages[] = {PAGE("/status", page_status), NO_PAGE};

static void settles_by_status(void **state)
{
	skip_without(state);
	site s = {.pages = status_pages};
	static const char *const asks[] = {"200", "404", "500", "502", "429", "503"};
	char text[64];
	site_open(&s);
	for (int i = 0; i < 6; i++) {
		snprintf(text, sizeof(text), "GET /status?%s HTTP/1.0\r\n\r\n", asks[i]);
		free(ask(&s, text));
	}
	assert_int_equal(stats_of(s.stage).completed, 2);
	assert_int_equal(stats_of(s.stage).failed, 4);
	site_end(&s);
}

/* ---- what it costs ---- */

/* Tells what it was thought to cost, with the status that it is asked for. */
static void page_cost(site *s, weir_request *request)
{
	char text[32];
	weir_span query = weir_request_query(request);
	int n = snprintf(text, sizeof(text), "cost=%u;", weir_request_event(request)->cost);
	weir_request_reply_text(request, query.length > 0 && query.at[0] == '4' ? 404 : 200,
				(weir_span){text, (size_t)n});
}

static const page cost_pages[] = {PAGE("/cost", page_cost), PAGE("/none", page_cost),
				  POOL_PAGE("/far", page_cost), NO_PAGE};

static bool is_unknown(site *s, const char *request)
{
	char *text = ask(s, request);
	bool unknown = strstr(text, "cost=0;") != NULL;
	check_contains(text, "cost=");
	free(text);
	return unknown;
}

static void learns_what_requests_cost(void **state)
{
	skip_without(state);
	site s = {.pages = cost_pages};
	site_open(&s);
	/* What is not answered well teaches nothing. */
	for (int i = 0; i < 20; i++)
		assert_true(is_unknown(&s, "GET /none?4 HTTP/1.0\r\n\r\n"));
	assert_true(is_unknown(&s, "GET /cost HTTP/1.0\r\n\r\n"));
	for (int i = 0; i < 6; i++)
		free(ask(&s, "GET /cost?q HTTP/1.0\r\n\r\n"));
	assert_false(is_unknown(&s, "GET /cost HTTP/1.0\r\n\r\n"));
	/* Answered by another thread; a body that comes late. */
	for (int i = 0; i < 6; i++) {
		free(ask(&s, "GET /far HTTP/1.0\r\n\r\n"));
		free(ask(&s, "POST /far HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"));
	}
	unsigned kinds = 0;
	for (uint32_t at = 0; at < weir_costs_places(weir_http_costs(s.http)); at++) {
		weir_costs_view view;
		if (!weir_costs_view_at(weir_http_costs(s.http), at, weir_world_now(s.world), &view) ||
		    view.sort != WEIR_COSTS_KIND)
			continue;
		char name[16];
		assert_true(weir_http_route_name(s.http, view.route, name, sizeof(name)));
		assert_string_equal(name, "all");
		assert_string_not_equal(view.path, "/none");
		kinds += view.expected_ns > 0;
	}
	assert_true(kinds >= 2);
	site_end(&s);
}

static void what_is_exempt_has_no_cost(void **state)
{
	skip_without(state);
	site s = {.pages = cost_pages, .route = {.exempt = true}};
	site_open(&s);
	for (int i = 0; i < 10; i++)
		assert_true(is_unknown(&s, "GET /cost HTTP/1.0\r\n\r\n"));
	site_end(&s);
}

/* ---- streams ---- */

static void page_stream(site *s, weir_request *request)
{
	weir_span query = weir_request_query(request);
	weir_field type = {WEIR_SPAN("Content-Type"), WEIR_SPAN("text/x")},
		   trailer = {WEIR_SPAN("Sum"), WEIR_SPAN("7")};
	bool known = query.length > 0 && query.at[0] == 'k', cut = query.length > 1;
	weir_reply reply = {.status = 200, .fields = &type, .field_count = 1};
	weir_buf *buf = weir_buf_new(5000);
	memset(buf->data, 'z', 5000);
	buf->length = 5000;
	int wrong = 0;
	wrong += weir_request_write(request, "x", 1) != -EINVAL;
	wrong += weir_request_begin(request, &reply, known ? 5008 : WEIR_UNKNOWN_LENGTH) != 0;
	wrong += weir_request_begin(request, &reply, 1) != -EINVAL;
	wrong += weir_request_reply(request, &reply) != -EINVAL;
	wrong += weir_request_write(request, "abcd", 4) != 0;
	wrong += weir_request_write(request, "", 0) != 0;
	wrong += weir_request_send(request, buf, 0, 5000) != 0;
	wrong += weir_request_send(request, buf, 1, 5000) != -EINVAL;
	wrong += weir_request_send(request, buf, 10, 2) != 0;
	if (known)
		wrong += weir_request_write(request, "abc", 3) != -EMSGSIZE;
	weir_request_flush(request);
	if (!cut)
		wrong += weir_request_write(request, "yy", 2) != 0;
	weir_request_end(request, &trailer, 1);
	weir_buf_unref(buf);
	s->drained += (unsigned)wrong; /* as a count of failures */
}

static void page_hints(site *s, weir_request *request)
{
	weir_field link = {WEIR_SPAN("Link"), WEIR_SPAN("</a>")};
	s->drained += weir_request_interim(request, 103, &link, 1) != 0;
	s->drained += weir_request_interim(request, 101, NULL, 0) != -EINVAL;
	s->drained += weir_request_interim(request, 200, NULL, 0) != -EINVAL;
	weir_request_reply_text(request, 200, WEIR_SPAN("x"));
}

static const page stream_pages[] = {PAGE("/stream", page_stream), PAGE("/hints", page_hints), NO_PAGE};

static void streams(void **state)
{
	skip_without(state);
	site s = {.pages = stream_pages};
	site_open(&s);
	char *text =
		ask(&s, "GET /stream HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
	check_contains(text,
		       "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nabcd\r\n1388\r\nzzz");
	check_contains(text, "zzz\r\n2\r\nzz\r\n2\r\nyy\r\n0\r\nSum: 7\r\n\r\n");
	free(text);
	text = ask(&s, "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	check_contains(text, "2\r\nyy\r\n0\r\n\r\n");
	free(text);
	/* Known, it is not in chunks. */
	text = ask(&s, "GET /stream?k HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	check_contains(text, "Content-Length: 5008\r\nConnection: close\r\n\r\nabcdzzz");
	check_lacks(text, "hunked");
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 5008);
	free(text);
	/* HTTP/1.0 knows no chunks: the end is the connection's. */
	text = ask(&s, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	check_contains(text, "Connection: close\r\n\r\nabcdzzz");
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 5008);
	free(text);
	text = ask(&s, "HEAD /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	assert_int_equal(strlen(strstr(text, "\r\n\r\n") + 4), 0);
	free(text);
	assert_int_equal(site_record(&s, 0).body_bytes, 5008);
	expect_contains(&s, "GET /hints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n");
	text = ask(&s, "GET /hints HTTP/1.0\r\n\r\n");
	check_lacks(text, "103");
	free(text);
	assert_int_equal(s.drained, 0);
	assert_int_equal(stats_of(s.stage).completed, 7);
	site_end(&s);
}

/* Fewer bytes than announced: the client must not take them for the whole. */
static void cuts_what_is_not_whole(void **state)
{
	skip_without(state);
	site s = {.pages = stream_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /stream?kc HTTP/1.1\r\nHost: a\r\n\r\n");
	heard h = hear_all(fd);
	assert_int_equal(h.error, ECONNRESET);
	free(h.text);
	close(fd);
	site_end(&s);
}

/* A stream larger than the bound: as much as there is room for, more when there is. */
#define FLOOD_BYTES   (3u * 1024 * 1024)
#define ENDLESS_BYTES (1024u * 1024 * 1024)

typedef struct flood {
	size_t left;
	unsigned refused;
} flood;

static void pour(weir_request *request, void *arg)
{
	static const char bytes[10000];
	flood *f = arg;
	site *s = site_of(request);
	s->drained++;
	while (f->left > 0) {
		size_t part = f->left < sizeof(bytes) ? f->left : sizeof(bytes);
		int error = weir_request_write(request, bytes, part);
		if (error == -ENOBUFS) {
			f->refused++;
			if (weir_request_output(request) > 65536)
				s->over++; /* as a count of failures */
			return;
		}
		f->left -= part;
	}
	weir_request_end(request, NULL, 0);
}

static void flood_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	if (weir_request_write(request, "x", 1) != -EPIPE)
		s->over++;
	weir_request_end(request, NULL, 0);
}

static void page_flood(site *s, weir_request *request)
{
	flood *f = weir_request_alloc(request, sizeof(*f));
	/* With a query more than all buffers in between could hold. */
	size_t bytes = weir_request_query(request).at != NULL ? ENDLESS_BYTES : FLOOD_BYTES;
	*f = (flood){.left = bytes};
	weir_request_on_drained(request, pour, f);
	weir_request_on_gone(request, flood_gone, s);
	weir_request_begin(request, &(weir_reply){.status = 200}, bytes);
	pour(request, f);
}

static const page flood_pages[] = {PAGE("/flood", page_flood), NO_PAGE};

static void streams_as_fast_as_the_client_reads(void **state)
{
	skip_without(state);
	site s = {.pages = flood_pages, .limits = {.output_bytes = 65536}};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /flood HTTP/1.0\r\n\r\n");
	heard h = hear_all(fd);
	assert_int_equal(h.error, 0);
	assert_true(h.length > FLOOD_BYTES && h.length < FLOOD_BYTES + 500);
	free(h.text);
	close(fd);
	assert_true(s.drained > 5);
	assert_int_equal(s.over, 0);
	assert_int_equal(s.gone, 0);
	site_end(&s);
}

static void tells_streams_that_their_client_left(void **state)
{
	skip_without(state);
	site s = {.pages = flood_pages, .limits = {.output_bytes = 65536}};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /flood?endless HTTP/1.0\r\n\r\n");
	heard h = hear_until(fd, "\r\n\r\n");
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(s.gone == 1);
	record r = site_record(&s, 0);
	assert_true(r.gone && r.status == 200 && r.body_bytes > 0 && r.body_bytes < ENDLESS_BYTES);
	assert_int_equal(s.over, 0);
	assert_int_equal(stats_of(s.stage).completed, 1);
	site_end(&s);
}

/* ---- from other threads ---- */

static void page_far_bytes(site *s, weir_request *request)
{
	weir_span query = weir_request_query(request);
	char body[4000], name[] = "X-Far", value[] = "yes";
	size_t length = query.length > 0 ? sizeof(body) : 10;
	weir_field field = {{name, 5}, {value, 3}};
	memset(body, 'q', sizeof(body));
	weir_reply reply = {
		.status = 200, .fields = &field, .field_count = 1, .bytes = body, .length = length};
	weir_request_reply(request, &reply);
	/* Nothing of it is needed any more. */
	memset(body, 'X', sizeof(body));
	memset(name, 'X', sizeof(name));
	memset(value, 'X', sizeof(value));
}

static void page_far_buf(site *s, weir_request *request)
{
	weir_buf *buf = weir_buf_new(6000);
	memset(buf->data, 'b', 6000);
	buf->length = 6000;
	weir_reply reply = {
		.status = 200, .buf = buf, .offset = 1000, .length = 5000, .over = note_over, .over_arg = s};
	weir_request_reply(request, &reply);
	weir_buf_unref(buf);
}

static void page_far_reject(site *s, weir_request *request)
{
	weir_request_reject(request, WEIR_SHED_RESOURCE);
}

static const page far_pages[] = {POOL_PAGE("/bytes", page_far_bytes), POOL_PAGE("/buf", page_far_buf),
				 POOL_PAGE("/reject", page_far_reject), POOL_PAGE("/hold", page_hold),
				 NO_PAGE};

static void answers_from_other_threads(void **state)
{
	skip_without(state);
	site s = {.pages = far_pages, .threads = 2};
	site_open(&s);
	for (int i = 0; i < 20; i++) {
		expect_contains(&s, "GET /bytes HTTP/1.0\r\n\r\n", "X-Far: yes\r\nContent-Length: 10\r\n",
				"\r\n\r\nqqqqqqqqqq");
		char *text = ask(&s, "GET /bytes?l HTTP/1.0\r\n\r\n");
		check_contains(text, "Content-Length: 4000\r\n");
		assert_int_equal(strspn(strstr(text, "\r\n\r\n") + 4, "q"), 4000);
		free(text);
		text = ask(&s, "GET /buf HTTP/1.0\r\n\r\n");
		assert_int_equal(strspn(strstr(text, "\r\n\r\n") + 4, "b"), 5000);
		free(text);
	}
	CHECK_EVENTUALLY(s.over == 20);
	expect_contains(&s, "GET /reject HTTP/1.0\r\n\r\n", "HTTP/1.1 503 ",
			"Weir-Shed: stage=web;class=0;reason=resource\r\n");
	assert_int_equal(site_stats(&s).rejected, 1);
	site_end(&s);
}

/* Held by a pool's handler, answered by a thread of nobody's. */
static void answers_from_outside(void **state)
{
	skip_without(state);
	site s = {.pages = far_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	assert_int_equal(weir_request_reply_text(s.held[0], 200, WEIR_SPAN("from afar")), 0);
	heard h = hear_all(fd);
	check_contains(h.text, "\r\n\r\nfrom afar");
	free(h.text);
	close(fd);
	site_end(&s);
}

/* ---- clients that leave ---- */

static const page hold_pages[] = {PAGE("/hold", page_hold), POOL_PAGE("/far", page_hold),
				  PAGE("/hello", page_hello), NO_PAGE};

static void answer_first(site *s)
{
	weir_request_reply_text(s->held[0], 200, WEIR_SPAN("late"));
}

static void leaves_while(site *s, const char *path, bool reset)
{
	char text[64];
	int fd = dial(s);
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
	say(fd, text);
	CHECK_EVENTUALLY(s->held_count == 1);
	if (reset) {
		struct linger now = {.l_onoff = 1};
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	close(fd);
	record r = site_record(s, 0);
	assert_true(r.gone && r.status == 0);
	assert_int_equal(s->gone, 1);
	assert_true(weir_event_cancelled(weir_request_event(s->held[0])));
}

static void tells_that_the_client_left(void **state)
{
	skip_without(state);
	for (int reset = 0; reset < 2; reset++) {
		site s = {.pages = hold_pages};
		site_open(&s);
		leaves_while(&s, "/hold", reset);
		/* It still has to be answered, which only frees it. */
		at_home(&s, answer_first);
		assert_int_equal(s.record_count, 1);
		assert_int_equal(site_stats(&s).gone, 1);
		site_end(&s);
		site t = {.pages = hold_pages};
		site_open(&t);
		leaves_while(&t, "/far", reset);
		weir_request_reply_text(t.held[0], 200, WEIR_SPAN("late"));
		site_end(&t);
	}
}

/* Unless it is asked to believe that they are still there. */
static void waits_for_half_closed_clients(void **state)
{
	skip_without(state);
	site s = {.pages = hold_pages, .limits.half_closed_ns = UINT64_MAX};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	shutdown(fd, SHUT_WR);
	at_home(&s, answer_first);
	heard h = hear_all(fd);
	check_contains(h.text, "late");
	assert_int_equal(s.gone, 0);
	free(h.text);
	close(fd);
	site_end(&s);
}

static void answers_half_closed_clients_at_once(void **state)
{
	skip_without(state);
	site s = {.pages = hold_pages, .limits.half_closed_ns = 60 * WEIR_NS_PER_S};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	shutdown(fd, SHUT_WR);
	heard h = hear_all(fd);
	assert_int_equal(count_of(h.text, "\r\n\r\nhello"), 2);
	assert_int_equal(h.error, 0);
	free(h.text);
	close(fd);
	site_end(&s);
}

static void begin_first(site *s)
{
	weir_request_begin(s->held[0], &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
}

static void write_first(site *s)
{
	weir_request_write(s->held[0], "part", 4);
}

static void end_first(site *s)
{
	weir_request_end(s->held[0], NULL, 0);
}

/* A begun answer goes to a half-closed client for as long as it flows, several times the gap that would end it. */
static void goes_on_with_half_closed_clients(void **state)
{
	skip_without(state);
	for (int never = 0; never < 2; never++) {
		site s = {.pages = hold_pages, .limits.half_closed_gap_ns = 400 * WEIR_NS_PER_MS};
		s.limits.half_closed_ns = never ? UINT64_MAX : 60 * WEIR_NS_PER_S;
		site_open(&s);
		int fd = dial(&s);
		say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
		CHECK_EVENTUALLY(s.held_count == 1);
		shutdown(fd, SHUT_WR);
		at_home(&s, begin_first);
		uint64_t until_ns = weir_clock_ns() + 1300 * WEIR_NS_PER_MS;
		while (weir_clock_ns() < until_ns) {
			at_home(&s, write_first);
			free(hear_until(fd, "part").text);
		}
		at_home(&s, end_first);
		heard h = hear_all(fd);
		check_contains(h.text, "0\r\n\r\n");
		assert_int_equal(s.gone, 0);
		free(h.text);
		close(fd);
		site_end(&s);
	}
}

/* One that says nothing more is given up, whether it had begun before the client's end or began after it. */
static void gives_up_silent_answers_to_half_closed_clients(void **state)
{
	skip_without(state);
	for (int i = 0; i < 3; i++) {
		site s = {.pages = hold_pages, .limits.half_closed_gap_ns = WEIR_NS_PER_MS};
		s.limits.half_closed_ns = i == 2 ? UINT64_MAX : i == 1 ? 500 * WEIR_NS_PER_MS : 0;
		site_open(&s);
		int fd = dial(&s);
		say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n");
		CHECK_EVENTUALLY(s.held_count == 1);
		if (i > 0)
			shutdown(fd, SHUT_WR);
		at_home(&s, begin_first);
		free(hear_until(fd, "chunked\r\n\r\n").text);
		if (i == 0)
			shutdown(fd, SHUT_WR);
		CHECK_EVENTUALLY(s.gone == 1);
		at_home(&s, end_first);
		assert_int_equal(site_stats(&s).gone, 1);
		close(fd);
		site_end(&s);
	}
}

/* In a stage's queue, it is dropped when its turn comes. */
static void drops_what_nobody_waits_for(void **state)
{
	skip_without(state);
	site s = {.pages = hold_pages, .stage_options = {.concurrency = 1}};
	site_open(&s);
	int first = dial(&s), second = dial(&s);
	say(first, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	say(second, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(weir_stage_waiting(s.stage) == 1);
	close(second);
	record r = site_record(&s, 0);
	assert_true(r.gone && r.status == 0);
	at_home(&s, answer_first);
	heard h = hear_all(first);
	check_contains(h.text, "late");
	free(h.text);
	close(first);
	CHECK_EVENTUALLY(stats_of(s.stage).dropped == 1);
	assert_int_equal(s.handled, 1);
	site_end(&s);
}

/* ---- turning away ---- */

static void reject_site(site *s, weir_route_options route)
{
	*s = (site){.pages = hold_pages, .stage_options = {.concurrency = 1, .capacity = 1}, .route = route};
	site_open(s);
}

/* One inside, one waiting: the third is turned away. */
static void expect_rejected(site *s, const char *answer)
{
	int first = dial(s), second = dial(s), third = dial(s);
	say(first, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s->held_count == 1);
	say(second, "GET /hello HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(weir_stage_waiting(s->stage) == 1);
	say(third, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
	/* On a connection that stays open. */
	heard h = hear_until(third, "\r\n\r\n");
	free(h.text);
	close(third);
	third = dial(s);
	say(third, "GET /hello HTTP/1.0\r\n\r\n");
	h = hear_all(third);
	assert_string_equal(without_date(h), answer);
	free(h.text);
	close(third);
	record r = site_record(s, 0);
	assert_int_equal(r.shed, WEIR_SHED_FULL);
	assert_false(r.gone);
	assert_string_equal(r.stage, "web");
	assert_int_equal(site_stats(s).rejected, 2);
	assert_int_equal(stats_of(s->stage).shed, 2);
	at_home(s, answer_first);
	free(hear_all(first).text);
	h = hear_all(second);
	check_contains(h.text, "hello");
	free(h.text);
	close(first);
	close(second);
	site_end(s);
}

static void rejects_with_a_reason(void **state)
{
	skip_without(state);
	site s;
	reject_site(&s, (weir_route_options){.klass = 3});
	expect_rejected(&s, "HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\n"
			    "Weir-Shed: stage=web;class=3;reason=full\r\nContent-Type: text/plain\r\n"
			    "Content-Length: 28\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
			    "overloaded, try again later\n");
}

static void rejects_as_the_route_says(void **state)
{
	skip_without(state);
	site s;
	weir_buf *sorry = weir_buf_new(16);
	memcpy(sorry->data, "<p>sorry", 8);
	sorry->length = 8;
	reject_site(&s, (weir_route_options){.klass = 1,
					     .reject = WEIR_REJECT_PAGE,
					     .page = sorry,
					     .page_type = "text/html",
					     .reject_status = 500});
	weir_buf_unref(sorry);
	expect_rejected(&s, "HTTP/1.1 500 Internal Server Error\r\nServer: weir\r\nRetry-After: 1\r\n"
			    "Weir-Shed: stage=web;class=1;reason=full\r\nContent-Type: text/html\r\n"
			    "Content-Length: 8\r\nConnection: close\r\n\r\n<p>sorry");
	reject_site(&s, (weir_route_options){.klass = 1,
					     .reject = WEIR_REJECT_REDIRECT,
					     .location = "https://example.org/sorry"});
	expect_rejected(&s,
			"HTTP/1.1 302 Found\r\nServer: weir\r\nRetry-After: 1\r\n"
			"Weir-Shed: stage=web;class=1;reason=full\r\nLocation: https://example.org/sorry\r\n"
			"Content-Length: 0\r\nConnection: close\r\n\r\n");
}

/* What was typed, on a page of the application's own; the argument decides what else. */
static bool refuse(weir_request *request, weir_refusal *refusal, void *arg)
{
	static const weir_field fields[] = {{WEIR_SPAN("Content-Type"), WEIR_SPAN("text/html")},
					    {WEIR_SPAN("Refresh"), WEIR_SPAN("1")}};
	static const weir_field misuse[] = {{WEIR_SPAN("Content-Length"), WEIR_SPAN("1")}};
	static char sorry[WEIR_REFUSAL_BYTES + 1];
	const char *how = arg;
	assert_int_equal(refusal->why, WEIR_SHED_FULL);
	assert_int_equal(refusal->retry_after_s, 1);
	refusal->fields = fields;
	refusal->field_count = 2;
	refusal->bytes = sorry;
	refusal->length = (size_t)snprintf(sorry, sizeof(sorry), "<p>%s",
					   weir_request_path(request).at[0] == '/' ? "busy" : "");
	if (strcmp(how, "misuse") == 0) {
		refusal->fields = misuse;
		refusal->field_count = 1;
	}
	if (strcmp(how, "long") == 0)
		refusal->length = sizeof(sorry);
	return strcmp(how, "no") != 0;
}

static void expect_refused_as(const char *how, const char *answer)
{
	site s;
	reject_site(&s,
		    (weir_route_options){.klass = 1, .refuse = refuse, .refuse_arg = (void *)(uintptr_t)how});
	expect_rejected(&s, answer);
}

static void rejects_as_the_application_says(void **state)
{
	skip_without(state);
	expect_refused_as("page", "HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\nRetry-After: 1\r\n"
				  "Weir-Shed: stage=web;class=1;reason=full\r\nContent-Type: text/html\r\n"
				  "Refresh: 1\r\nContent-Length: 7\r\nConnection: close\r\n\r\n<p>busy");
	expect_refused_as("long", "HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\nRetry-After: 1\r\n"
				  "Weir-Shed: stage=web;class=1;reason=full\r\nContent-Type: text/html\r\n"
				  "Refresh: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	for (unsigned i = 0; i < 2; i++)
		expect_refused_as(i == 0 ? "no" : "misuse",
				  "HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\n"
				  "Weir-Shed: stage=web;class=1;reason=full\r\nContent-Type: text/plain\r\n"
				  "Content-Length: 28\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
				  "overloaded, try again later\n");
}

static void page_reject(site *s, weir_request *request)
{
	weir_request_note(request, WEIR_SPAN("upstream=x"));
	weir_request_reject(request, WEIR_SHED_LATE);
}

static const page reject_pages[] = {PAGE("/reject", page_reject), NO_PAGE};

static void handlers_reject(void **state)
{
	skip_without(state);
	site s = {.pages = reject_pages};
	site_open(&s);
	expect_contains(&s, "GET /reject HTTP/1.0\r\n\r\n", "HTTP/1.1 503 ", "Retry-After: 1\r\n",
			"Weir-Shed: stage=web;class=0;reason=predicted-late\r\n");
	record r = site_record(&s, 0);
	assert_int_equal(r.shed, WEIR_SHED_LATE);
	assert_int_equal(r.status, 503);
	assert_string_equal(r.note, "upstream=x");
	assert_int_equal(stats_of(s.stage).failed, 1);
	site_end(&s);
}

static void page_small(site *s, weir_request *request)
{
	weir_request_reply_text(request, 200, WEIR_SPAN("small"));
}

static const page small_pages[] = {PAGE("/small", page_small), PAGE("/reject", page_reject), NO_PAGE};

/* Neither what was answered nor what was no request. */
static void a_log_may_want_sheds_only(void **state)
{
	skip_without(state);
	site s = {.pages = small_pages, .sheds_only = true};
	site_open(&s);
	expect_contains(&s, "GET /small HTTP/1.0\r\n\r\n", "HTTP/1.1 200 ", "small", "");
	expect_contains(&s, "GET\r\n\r\n", "HTTP/1.1 400 ", "", "");
	expect_contains(&s, "GET /reject HTTP/1.0\r\n\r\n", "HTTP/1.1 503 ", "", "");
	record r = site_record(&s, 0);
	assert_int_equal(r.shed, WEIR_SHED_LATE);
	assert_string_equal(r.path, "/reject");
	assert_string_equal(r.note, "upstream=x");
	site_end(&s);
	assert_int_equal(s.record_count, 1);
}

/* Past its deadline in the queue. */
static void drops_are_answered(void **state)
{
	skip_without(state);
	site s = {.pages = hold_pages,
		  .stage_options = {.concurrency = 1},
		  .route = {.klass = -1, .deadline_ns = 20 * WEIR_NS_PER_MS}};
	site_open(&s);
	int first = dial(&s), second = dial(&s);
	say(first, "GET /hold HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	say(second, "GET /hello HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(weir_stage_waiting(s.stage) == 1);
	uint64_t entered = weir_world_now(s.world);
	CHECK_EVENTUALLY(weir_world_now(s.world) > entered + 25 * WEIR_NS_PER_MS);
	at_home(&s, answer_first);
	heard h = hear_all(second);
	check_contains(h.text, "HTTP/1.1 503 ");
	check_contains(h.text, "Weir-Shed: stage=web;class=0;reason=deadline\r\n");
	free(h.text);
	free(hear_all(first).text);
	close(first);
	close(second);
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(shows_a_request),
		ON_BOTH(shows_large_heads),
		ON_BOTH(refuses_answers_that_are_none),
		ON_BOTH(settles_by_status),
		ON_BOTH(learns_what_requests_cost),
		ON_BOTH(what_is_exempt_has_no_cost),
		ON_BOTH(streams),
		ON_BOTH(cuts_what_is_not_whole),
		ON_BOTH(streams_as_fast_as_the_client_reads),
		ON_BOTH(tells_streams_that_their_client_left),
		ON_BOTH(answers_from_other_threads),
		ON_BOTH(answers_from_outside),
		ON_BOTH(tells_that_the_client_left),
		ON_BOTH(waits_for_half_closed_clients),
		ON_BOTH(answers_half_closed_clients_at_once),
		ON_BOTH(goes_on_with_half_closed_clients),
		ON_BOTH(gives_up_silent_answers_to_half_closed_clients),
		ON_BOTH(drops_what_nobody_waits_for),
		ON_BOTH(rejects_with_a_reason),
		ON_BOTH(rejects_as_the_route_says),
		ON_BOTH(rejects_as_the_application_says),
		ON_BOTH(handlers_reject),
		ON_BOTH(a_log_may_want_sheds_only),
		ON_BOTH(drops_are_answered),
	};
	cmocka_set_test_filter(getenv("WEIR_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
