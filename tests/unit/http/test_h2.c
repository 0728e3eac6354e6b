/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 on real sockets: exchanges, bodies both ways, windows, priorities, ends. */
#include "on_h2.h"

#include "support/tls_certificates.h"
#include "tls/tls.h"

/* ---- pages ---- */

static void page_letters(site *s, weir_request *request)
{
	weir_buf *buf = letters(asked(request) + 26);
	weir_reply reply = {.status = 200,
			    .buf = buf,
			    .offset = 26,
			    .length = buf->length - 26,
			    .over = note_over,
			    .over_arg = s};
	weir_request_reply(request, &reply);
	weir_buf_unref(buf);
}

static void page_status(site *s, weir_request *request)
{
	weir_field field = {WEIR_SPAN("X-Shout"), WEIR_SPAN("Loud")};
	weir_reply reply = {.status = (unsigned)asked(request),
			    .fields = &field,
			    .field_count = 1,
			    .bytes = "body",
			    .length = 4};
	weir_request_reply(request, &reply);
}

/* A head that is longer than a frame. */
static void page_long(site *s, weir_request *request)
{
	static char value[30000];
	memset(value, 'v', sizeof(value));
	weir_field field = {WEIR_SPAN("X-Long"), {value, sizeof(value)}};
	weir_reply reply = {.status = 200, .fields = &field, .field_count = 1, .bytes = "body", .length = 4};
	weir_request_reply(request, &reply);
}

/* What the request looks like, as text. */
static void page_tell(site *s, weir_request *request)
{
	char text[1024];
	size_t at = 0;
	weir_field f;
	weir_span method = weir_request_method_text(request), path = weir_request_path(request),
		  query = weir_request_query(request), host = weir_request_host(request);
	at += (size_t)snprintf(text, sizeof(text), "%.*s %.*s [%.*s] %.*s v%u %s", (int)method.length,
			       method.at, (int)path.length, path.at, (int)query.length,
			       query.at != NULL ? query.at : "", (int)host.length, host.at,
			       weir_request_version(request), weir_request_secure(request) ? "tls" : "plain");
	for (size_t i = 0; weir_request_field(request, i, &f); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "\n%.*s=%.*s", (int)f.name.length,
				       f.name.at, (int)f.value.length, f.value.at);
	weir_request_reply_text(request, 200, (weir_span){text, at});
}

/* Bodies: counted, and told at the end with the trailers. */
static void count_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_calls++;
	s->data_bytes += length;
}

static void tell_end(weir_request *request, void *arg)
{
	site *s = arg;
	char text[128];
	weir_field f = {0};
	s->ends++;
	bool trailed = weir_request_trailer(request, 0, &f);
	int length = snprintf(text, sizeof(text), "%zu bytes%s%.*s", (size_t)s->data_bytes,
			      trailed ? ", " : "", (int)f.value.length, trailed ? f.value.at : "");
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)length});
}

static void abort_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	weir_request_abort(request);
}

static const weir_body_ops counting = {.data = count_data, .end = tell_end};

static void page_count(site *s, weir_request *request)
{
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, abort_gone, s);
	weir_request_read(request, &counting, s);
}

static void page_collected(site *s, weir_request *request)
{
	char text[64];
	weir_buf *body = weir_request_collected(request);
	int length = snprintf(text, sizeof(text), "collected %u", body != NULL ? body->length : 0);
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)length});
}

/* A stream of so many bytes, written in parts as there is room. user: bytes left. */
static void stream_on(weir_request *request, void *arg)
{
	static const char part[4096] = {[0 ... 4095] = 's'};
	site *s = arg;
	size_t *left = weir_request_user(request);
	s->drained++;
	while (*left > 0) {
		size_t length = *left < sizeof(part) ? *left : sizeof(part);
		int error = weir_request_write(request, part, length);
		size_t output = weir_request_output(request);
		if (output > s->data_bytes)
			s->data_bytes = output;
		if (error == -ENOBUFS)
			return;
		if (error != 0)
			break;
		*left -= length;
	}
	weir_field trailer = {WEIR_SPAN("X-Sum"), WEIR_SPAN("77")};
	weir_request_end(request, &trailer, 1);
}

static void end_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
	weir_request_end(request, NULL, 0);
}

static void begin_stream(site *s, weir_request *request, uint64_t announced)
{
	size_t *left = weir_request_alloc(request, sizeof(*left));
	*left = asked(request);
	weir_request_set_user(request, left);
	weir_request_on_gone(request, end_gone, s);
	weir_request_on_drained(request, stream_on, s);
	weir_request_begin(request, &(weir_reply){.status = 200}, announced);
	stream_on(request, s);
}

static void page_stream(site *s, weir_request *request)
{
	begin_stream(s, request, WEIR_UNKNOWN_LENGTH);
}

/* Announces one byte more than it sends. */
static void page_short(site *s, weir_request *request)
{
	begin_stream(s, request, asked(request) + 1);
}

static void page_abort(site *s, weir_request *request)
{
	weir_request_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
	weir_request_write(request, "half", 4);
	weir_request_flush(request);
	weir_request_abort(request);
}

static void page_interim(site *s, weir_request *request)
{
	weir_field link = {WEIR_SPAN("Link"), WEIR_SPAN("</x>")};
	weir_request_interim(request, 103, &link, 1);
	weir_request_reply_text(request, 200, WEIR_SPAN("hinted"));
}

static void page_upgrade(site *s, weir_request *request)
{
	int error = weir_request_upgrade(request, NULL, 0);
	weir_request_reply_text(request, error == -ENOTSUP ? 200 : 500, WEIR_SPAN("upgrade"));
}

static void page_file(site *s, weir_request *request)
{
	weir_reply reply = {.status = 200,
			    .file = *(int *)s->user,
			    .offset = 5,
			    .file_length = asked(request),
			    .over = note_over,
			    .over_arg = s};
	weir_request_reply(request, &reply);
}

static const page pages[] = {PAGE("/hello", page_hello),
			     POOL_PAGE("/far", page_hello),
			     PAGE("/letters", page_letters),
			     PAGE("/bytes", page_bytes),
			     PAGE("/long", page_long),
			     PAGE("/status", page_status),
			     PAGE("/tell", page_tell),
			     PAGE("/count", page_count),
			     PAGE("/stream", page_stream),
			     PAGE("/short", page_short),
			     PAGE("/abort", page_abort),
			     PAGE("/interim", page_interim),
			     PAGE("/upgrade", page_upgrade),
			     PAGE("/file", page_file),
			     PAGE("/hold", page_hold),
			     POOL_PAGE("/far-letters", page_letters),
			     NO_PAGE};

#define SITE(...)                                            \
	{                                                    \
		.pages = pages, .http2 = true, ##__VA_ARGS__ \
	}

static void check_letters(const h2_answer *a, size_t length)
{
	assert_int_equal(a->status, 200);
	assert_int_equal(a->length, length);
	for (size_t i = 0; i < length; i++)
		if (a->body[i] != (char)('a' + i % 26))
			fail_msg("byte %zu of %zu is wrong", i, length);
}

/* ---- exchanges ---- */

static void answers_as_asked(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_get(c, "/hello");
	assert_int_equal(a->status, 200);
	assert_string_equal(a->body, "hello");
	check_contains(a->head, "server: weir\ndate: ");
	check_contains(a->head, "content-type: text/plain; charset=utf-8\ncontent-length: 5\n");
	assert_int_equal(a->code, 0);
	assert_string_equal(h2_get(c, "/far")->body, "hello");
	assert_int_equal(h2_get(c, "/none")->status, 404);
	assert_string_equal(h2_get(c, "/interim")->body, "hinted");
	a = &c->answers[c->count - 1];
	assert_int_equal(a->interims, 1);
	check_contains(a->head, "link: </x>\n");
	assert_int_equal(h2_get(c, "/upgrade")->status, 200);
	record r = site_record(&s, 0);
	assert_int_equal(r.status, 200);
	assert_int_equal(r.body_bytes, 5);
	assert_string_equal(r.path, "/hello");
	assert_int_equal(site_stats(&s).h2_connections, 1);
	assert_int_equal(site_stats(&s).requests, 5);
	h2_end(c);
	CHECK_EVENTUALLY(site_stats(&s).open == 0);
	assert_int_equal(site_stats(&s).gone, 0);
	assert_int_equal(site_stats(&s).busy, 0);
	/* The same listener speaks HTTP/1 too, and does not mind being asked for h2c. */
	expect_contains(&s,
			"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close, upgrade, "
			"http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			"HTTP/1.1 200 OK\r\n", "\r\n\r\nhello");
	site_end(&s);
}

static void sends_no_body_where_there_is_none(void **state)
{
	skip_without(state);
	static const char *const quiet[] = {"/status?204", "/status?304"};
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	for (size_t i = 0; i < 2; i++) {
		h2_answer *a = h2_get(c, quiet[i]);
		assert_int_equal(a->status, i == 0 ? 204 : 304);
		assert_int_equal(a->length, 0);
		check_contains(a->head, "x-shout: Loud\n");
	}
	check_lacks(c->answers[0].head, "content-length");
	static const char *const heads[] = {"/hello", "/letters?100000", "/stream?300000", "/file?9"};
	for (size_t i = 0; i < 3; i++) {
		h2_answer *a = h2_ask_with(c, "HEAD", heads[i], NULL, false, (h2_answer){0});
		H2_UNTIL(c, a->closed);
		assert_int_equal(a->status, 200);
		assert_int_equal(a->length, 0);
		assert_int_equal(a->code, 0);
	}
	check_contains(c->answers[2].head, "content-length: 5\n");
	check_contains(c->answers[3].head, "content-length: 100000\n");
	assert_int_equal(s.over, 1);
	h2_end(c);
	site_end(&s);
}

static void tells_the_request(void **state)
{
	skip_without(state);
	static const char *const extra[] = {"x-a", "1",       "cookie", "a=1", "cookie",
					    "b=2", "x-empty", "",       NULL,  NULL};
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_ask_with(c, "PURGE", "/tell?q=1&r", extra, false, (h2_answer){0});
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body,
			    "PURGE /tell [q=1&r] a v20 plain\nx-a=1\ncookie=a=1\ncookie=b=2\nx-empty=");
	/* A head that does not fit into the request's block. */
	char large[9][1000];
	const char *many[20] = {NULL};
	for (size_t i = 0; i < 9; i++) {
		memset(large[i], (int)('A' + i), sizeof(large[i]));
		large[i][90] = '\0';
		many[2 * i] = "x-large";
		many[2 * i + 1] = large[i];
	}
	a = h2_ask_with(c, "GET", "/tell", many, false, (h2_answer){0});
	H2_UNTIL(c, a->closed);
	for (size_t i = 0; i < 9; i++)
		check_contains(a->body, large[i]);
	h2_end(c);
	site_end(&s);
}

static void long_heads_fit(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	char path[7001] = "/hello?";
	memset(path + 7, 'x', sizeof(path) - 8);
	static char value[20000];
	memset(value, 'v', sizeof(value) - 1);
	const char *extra[] = {"x-long", value, NULL, NULL};
	h2_answer *a = h2_ask_with(c, "GET", path, extra, false, (h2_answer){0});
	H2_UNTIL(c, a->closed);
	assert_int_equal(a->status, 200);
	/* One byte more than the limits. */
	static char longer[8300] = "/";
	memset(longer + 1, 'y', sizeof(longer) - 2);
	assert_int_equal(h2_get(c, longer)->status, 414);
	h2_end(c);
	site_end(&s);
}

/* Heads of answers that the client does not read yet: they wait in their order, and the connection goes on with them. */
static void long_heads_wait(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	for (unsigned i = 0; i < 100; i++)
		h2_ask(c, "/long");
	h2_send_some(c);
	CHECK_EVENTUALLY(s.handled == 100);
	H2_UNTIL(c, c->closed == 100);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(c->answers[i].status, 200);
		assert_string_equal(c->answers[i].body, "body");
	}
	h2_end(c);
	site_end(&s);
}

static void many_streams_at_once(void **state)
{
	skip_without(state);
	site s = SITE(.threads = 2);
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	for (unsigned i = 0; i < 100; i++)
		h2_ask(c, i % 3 == 0 ? "/far-letters?30000" : i % 3 == 1 ? "/letters?30000" : "/bytes?30000");
	H2_UNTIL(c, c->closed == 100);
	for (unsigned i = 0; i < 100; i++)
		check_letters(&c->answers[i], 30000);
	assert_int_equal(site_stats(&s).connections, 1);
	h2_end(c);
	site_end(&s);
}

static void large_answers_by_small_windows(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	h2_answer *a = h2_ask(c, "/letters?300000"), *b = h2_ask(c, "/bytes?300000"),
		  *d = h2_ask(c, "/stream?300000");
	H2_UNTIL(c, c->closed == 3);
	check_letters(a, 300000);
	check_letters(b, 300000);
	assert_int_equal(d->length, 300000);
	assert_string_equal(d->trailers, "x-sum: 77\n");
	record r = site_record(&s, 2);
	assert_int_equal(r.body_bytes, 300000);
	assert_int_equal(s.over, 1);
	h2_end(c);
	site_end(&s);
}

static void sends_files(void **state)
{
	skip_without(state);
	char name[] = "/tmp/weir-h2-XXXXXX";
	int fd = mkstemp(name);
	weir_buf *buf = letters(500005);
	assert_int_equal(write(fd, buf->data, 5), 5);
	assert_int_equal(write(fd, buf->data, 500000), 500000);
	weir_buf_unref(buf);
	unlink(name);
	site s = SITE(.user = &fd);
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_ask(c, "/file?500000"), *b = h2_ask(c, "/file?10");
	H2_UNTIL(c, c->closed == 2);
	check_letters(a, 500000);
	check_letters(b, 10);
	CHECK_EVENTUALLY(s.over == 2);
	h2_end(c);
	/* Whoever leaves in the middle lets go of the file too. */
	c = h2_open(&s, 1000);
	c->keeps_window = true;
	a = h2_ask(c, "/file?500000");
	H2_UNTIL(c, a->length == 1000);
	h2_end(c);
	CHECK_EVENTUALLY(s.over == 3);
	site_end(&s);
	close(fd);
}

/* ---- bodies ---- */

static void takes_bodies(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_post(c, "/count", 2000000);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "2000000 bytes");
	s.data_bytes = 0;
	a = h2_ask_with(c, "POST", "/count", NULL, true, (h2_answer){.upload = 10, .upload_trails = true});
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "10 bytes, 42");
	s.data_bytes = 0;
	static const char *const expect[] = {"expect", "100-continue", "content-length", "3", NULL, NULL};
	a = h2_ask_with(c, "POST", "/count", expect, true, (h2_answer){.upload_stalls = true});
	H2_UNTIL(c, a->interims == 1);
	a->upload = 3;
	a->upload_stalls = false;
	nghttp2_session_resume_data(c->session, a->id);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "3 bytes");
	assert_int_equal(a->status, 200);
	/* No body at all, and an empty one. */
	s.data_bytes = 0;
	assert_string_equal(h2_get(c, "/count")->body, "0 bytes");
	a = h2_post(c, "/count", 0);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "0 bytes");
	assert_int_equal(s.ends, 5);
	h2_end(c);
	site_end(&s);
}

static void collects_bodies(void **state)
{
	skip_without(state);
	static const page collecting[] = {PAGE("/body", page_collected), POOL_PAGE("/far", page_collected),
					  NO_PAGE};
	site s = {.pages = collecting, .http2 = true, .route = {.klass = -1, .collect_bytes = 100000}};
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_post(c, "/body", 100000), *b = h2_post(c, "/far", 99),
		  *d = h2_post(c, "/body", 100001);
	H2_UNTIL(c, c->closed == 3);
	assert_string_equal(a->body, "collected 100000");
	assert_string_equal(b->body, "collected 99");
	assert_int_equal(d->status, 413);
	assert_int_equal(s.handled, 3); /* one of them twice, the second time in the pool */
	static const char *const length[] = {"content-length", "100001", NULL, NULL};
	d = h2_ask_with(c, "POST", "/body", length, true, (h2_answer){.upload_stalls = true});
	H2_UNTIL(c, d->closed);
	assert_int_equal(d->status, 413);
	/* The answer is whole; the rest of the body was not wanted. */
	assert_true(d->ended);
	assert_int_equal(d->code, NGHTTP2_NO_ERROR);
	h2_end(c);
	site_end(&s);
}

static weir_request *first_held(site *s)
{
	CHECK_EVENTUALLY(s->held_count > 0);
	return s->held[0];
}

static void read_held(site *s)
{
	weir_request_read(s->held[0], &counting, s);
}

static void pause_held(site *s)
{
	weir_request_pause(s->held[0]);
}

static void resume_held(site *s)
{
	weir_request_resume(s->held[0]);
}

/* The client may send what the window allows, and no more, while nobody reads. */
static void pushes_back(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_post(c, "/hold", 1000000);
	H2_UNTIL(c, 1000000 - a->upload == 65535);
	first_held(&s);
	/* Others are served meanwhile, and no window comes. */
	for (int i = 0; i < 20; i++)
		assert_string_equal(h2_get(c, "/hello")->body, "hello");
	assert_int_equal(1000000 - a->upload, 65535);
	at_home(&s, read_held);
	H2_UNTIL(c, s.data_bytes > 65535);
	at_home(&s, pause_held);
	size_t taken = s.data_bytes;
	for (int i = 0; i < 20; i++)
		assert_string_equal(h2_get(c, "/hello")->body, "hello");
	/* What was at hand may still come once. */
	assert_true(s.data_bytes - taken <= 65536);
	taken = s.data_bytes;
	H2_UNTIL(c, 1000000 - a->upload >= taken + 1 || s.data_bytes == 1000000);
	if (s.data_bytes < 1000000)
		assert_true(1000000 - a->upload <= taken + 262144 + 65535);
	at_home(&s, resume_held);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "1000000 bytes");
	h2_end(c);
	site_end(&s);
}

static void count_and_pause(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	site *s = arg;
	s->data_bytes += length;
	weir_request_pause(request);
}

static const weir_body_ops pausing = {.data = count_and_pause, .end = tell_end};

static void read_and_pause(site *s)
{
	weir_request_read(s->held[0], &pausing, s);
}

/* Also of what was held back, a handler that pauses gets no more at once than a frame has. */
static void pauses_within_what_was_held(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_post(c, "/hold", 60000);
	H2_UNTIL(c, a->upload == 0);
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	first_held(&s);
	at_home(&s, read_and_pause);
	for (size_t i = 1; i * 16384 < 60000; i++) {
		assert_int_equal(s.data_bytes, i * 16384);
		at_home(&s, resume_held);
	}
	assert_int_equal(s.data_bytes, 60000);
	at_home(&s, resume_held);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "60000 bytes");
	h2_end(c);
	site_end(&s);
}

/* Streams that nobody reads take no more than the connection's window together, and give it back when they end. */
static void windows_come_back(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	for (unsigned round = 0; round < 3; round++) {
		size_t sent = 0;
		unsigned first = c->count, held = s.held_count;
		for (unsigned i = 0; i < 20; i++)
			h2_post(c, "/hold", 65535);
		/* Up to half of it may be owed at any time. */
		for (unsigned turns = 0; sent < (round == 0 ? 1048576 : 524288); turns++) {
			assert_true(turns < 12000);
			h2_step(c);
			sent = 0;
			for (unsigned i = first; i < c->count; i++)
				sent += 65535 - c->answers[i].upload;
		}
		assert_true(sent <= 1048576);
		CHECK_EVENTUALLY(s.held_count == held + 20);
		for (unsigned i = first; i < c->count; i++)
			nghttp2_submit_rst_stream(c->session, 0, c->answers[i].id, NGHTTP2_CANCEL);
		H2_UNTIL(c, s.gone == 20 * (round + 1));
		for (unsigned i = held; i < held + 20; i++)
			weir_request_reply_text(s.held[i], 200, WEIR_SPAN("late"));
	}
	s.data_bytes = 0;
	h2_answer *a = h2_post(c, "/count", 3000000);
	H2_UNTIL(c, a->closed);
	assert_string_equal(a->body, "3000000 bytes");
	h2_end(c);
	site_end(&s);
}

/* What is left of a body when the answer is out: a little is read away, a lot is not, nor is it waited for. */
static void unwanted_bodies(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.body_gap_ns = 50 * WEIR_NS_PER_S / 1000});
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *little = h2_ask_with(c, "POST", "/hello", NULL, true,
					(h2_answer){.upload = 10, .upload_stalls = true});
	H2_UNTIL(c, little->ended);
	assert_false(little->closed);
	little->upload = 60000;
	little->upload_stalls = false;
	nghttp2_session_resume_data(c->session, little->id);
	H2_UNTIL(c, little->closed);
	assert_int_equal(little->upload, 0);
	assert_int_equal(little->code, NGHTTP2_NO_ERROR);
	static const char *const length[] = {"content-length", "65537", NULL, NULL};
	h2_answer *known = h2_ask_with(c, "POST", "/hello", length, true, (h2_answer){.upload_stalls = true});
	H2_UNTIL(c, known->closed);
	assert_string_equal(known->body, "hello");
	h2_answer *late = h2_ask_with(c, "POST", "/hello", NULL, true, (h2_answer){.upload_stalls = true});
	H2_UNTIL(c, late->closed);
	assert_string_equal(late->body, "hello");
	assert_int_equal(site_stats(&s).gone, 0);
	assert_int_equal(site_stats(&s).timeouts, 0);
	h2_end(c);
	site_end(&s);
}

/* Without a length it ends when it has become a lot. */
static void endless_bodies(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *lot = h2_post(c, "/hello", 10000000);
	H2_UNTIL(c, lot->closed);
	assert_string_equal(lot->body, "hello");
	assert_int_equal(lot->code, NGHTTP2_NO_ERROR);
	assert_true(lot->upload > 9000000);
	h2_end(c);
	site_end(&s);
}

/* ---- slow readers ---- */

static void output_is_bounded(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.output_bytes = 65536});
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	c->keeps_window = true;
	h2_answer *a = h2_ask(c, "/stream?1000000");
	H2_UNTIL(c, a->length == 1000);
	for (int i = 0; i < 20; i++)
		assert_string_equal(h2_get(c, "/hello")->body, "hello");
	assert_int_equal(a->length, 1000);
	assert_true(s.data_bytes > 32768);
	assert_true(s.data_bytes <= 65536);
	unsigned drained = s.drained;
	assert_true(drained <= 2);
	nghttp2_session_consume(c->session, a->id, 1000);
	c->keeps_window = false;
	H2_UNTIL(c, a->closed);
	assert_int_equal(a->length, 1000000);
	assert_true(s.drained > drained);
	assert_true(s.data_bytes <= 65536);
	h2_end(c);
	site_end(&s);
}

/* A client that opens no window holds its answer back for so long and no longer. */
static void slow_readers_are_cut(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.output_ns = 50 * WEIR_NS_PER_S / 1000});
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	c->keeps_window = true;
	h2_answer *a = h2_ask(c, "/stream?1000000"), *b = h2_ask(c, "/letters?100000");
	H2_UNTIL(c, a->closed && b->closed);
	assert_int_equal(a->code, NGHTTP2_CANCEL);
	assert_false(a->ended);
	assert_int_equal(b->code, NGHTTP2_CANCEL);
	CHECK_EVENTUALLY(s.gone == 1);
	assert_int_equal(s.over, 1);
	assert_int_equal(site_stats(&s).timeouts, 2);
	record r = site_record(&s, 0);
	assert_true(r.gone);
	assert_string_equal(r.error, "the client does not read");
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	h2_end(c);
	site_end(&s);
}

static void cut_answers_are_reset(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_get(c, "/abort"), *b = h2_get(c, "/short?10");
	assert_int_equal(a->code, NGHTTP2_INTERNAL_ERROR);
	assert_false(a->ended);
	assert_int_equal(b->code, NGHTTP2_INTERNAL_ERROR);
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	h2_end(c);
	site_end(&s);
}

/* ---- clients that leave ---- */

static void answer_held(site *s)
{
	for (unsigned i = 0; i < s->held_count; i++)
		weir_request_reply_text(s->held[i], 200, WEIR_SPAN("late"));
}

static void resets_by_the_client(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	/* Waiting for an answer, in the middle of its body, of the answer, with a file's worth unsent, and after all. */
	h2_answer *held = h2_ask(c, "/hold");
	h2_answer *body = h2_ask_with(c, "POST", "/count", NULL, true,
				      (h2_answer){.upload = 100, .upload_stalls = true});
	c->keeps_window = true;
	h2_answer *stream = h2_ask(c, "/stream?1000000"), *whole = h2_ask(c, "/letters?1000000");
	H2_UNTIL(c,
		 s.held_count == 1 && s.data_bytes >= 100 && stream->length == 1000 && whole->length == 1000);
	h2_answer *all[] = {held, body, stream, whole};
	for (size_t i = 0; i < 4; i++)
		nghttp2_submit_rst_stream(c->session, 0, all[i]->id, NGHTTP2_CANCEL);
	H2_UNTIL(c, s.gone == 3 && s.over == 1);
	at_home(&s, answer_held);
	assert_int_equal(site_stats(&s).gone, 4);
	assert_string_equal(site_record(&s, 0).error, "the client has reset the stream");
	assert_string_equal(h2_get(c, "/hello")->body, "hello");
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	h2_end(c);
	site_end(&s);
}

static void clients_go(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	c->keeps_window = true;
	h2_ask(c, "/hold");
	h2_ask_with(c, "POST", "/count", NULL, true, (h2_answer){.upload = 100, .upload_stalls = true});
	h2_answer *stream = h2_ask(c, "/stream?1000000");
	h2_post(c, "/hold", 5000);
	H2_UNTIL(c, s.held_count == 2 && s.data_bytes >= 100 && stream->length == 1000);
	h2_end(c);
	CHECK_EVENTUALLY(s.gone == 4);
	CHECK_EVENTUALLY(site_stats(&s).open == 0);
	at_home(&s, answer_held);
	site_end(&s);
}

/* A server that ends takes its connections along, whatever they are about. */
static void servers_end(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 1000);
	c->keeps_window = true;
	h2_answer *stream = h2_ask(c, "/stream?1000000");
	h2_ask(c, "/letters?100000");
	H2_UNTIL(c, stream->length == 1000 && s.handled == 2);
	site_end(&s);
	assert_int_equal(s.gone, 1);
	assert_int_equal(s.over, 1);
	h2_end(c);
}

/* ---- order ---- */

/* With a window for the connection that lets through a little at a time, what is urgent is done first. */
static void urgent_answers_come_first(void **state)
{
	skip_without(state);
	static const char *const low[] = {"priority", "u=6", NULL, NULL},
				 *const high[] = {"priority", "u=1", NULL, NULL},
				 *const turns[] = {"priority", "u=6, i", NULL, NULL};
	site s = SITE();
	site_open(&s);
	h2_client *c = h2_open(&s, 1 << 20);
	/* Nothing is read before all are asked for, so that the link is full and they wait in their streams. */
	h2_answer *big = h2_ask_with(c, "GET", "/letters?900000", low, false, (h2_answer){0});
	h2_answer *a = h2_ask_with(c, "GET", "/letters?200000", turns, false, (h2_answer){0});
	h2_answer *b = h2_ask_with(c, "GET", "/letters?200000", turns, false, (h2_answer){0});
	h2_answer *now = h2_ask_with(c, "GET", "/letters?200000", high, false, (h2_answer){0});
	H2_UNTIL(c, c->closed == 4);
	assert_int_equal(now->order, 1);
	/* Those that take turns end together. */
	assert_true(a->order != 0 && b->order != 0 &&
		    (a->order > b->order ? a->order - b->order : b->order - a->order) <= 2);
	assert_int_equal(big->length, 900000);
	h2_end(c);
	site_end(&s);
}

/* ---- leaving ---- */

static void drains(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	h2_client *busy = h2_open(&s, 65535), *idle = h2_open(&s, 65535);
	assert_string_equal(h2_get(idle, "/hello")->body, "hello");
	h2_answer *a = h2_ask(busy, "/hold");
	H2_UNTIL(busy, s.held_count == 1);
	weir_http_drain(s.http);
	H2_UNTIL_GONE(idle);
	/* nghttp2 does not tell of the second one, having no streams any more. */
	assert_int_equal(idle->goaways, 1);
	assert_int_equal(idle->goaway_code, NGHTTP2_NO_ERROR);
	H2_UNTIL(busy, busy->goaways == 2);
	assert_int_equal(busy->goaway_last, a->id);
	assert_false(busy->gone);
	at_home(&s, answer_held);
	H2_UNTIL_GONE(busy);
	assert_string_equal(a->body, "late");
	assert_int_equal(a->code, NGHTTP2_NO_ERROR);
	CHECK_EVENTUALLY(weir_http_open(s.http) == 0);
	assert_int_equal(site_stats(&s).gone, 0);
	h2_end(busy);
	h2_end(idle);
	site_end(&s);
}

/* A client that answers no PING is not waited for. */
static void drains_whoever_is_silent(void **state)
{
	skip_without(state);
	site s = SITE();
	site_open(&s);
	int fd = dial(&s);
	frames *f = calloc(1, sizeof(*f));
	put_hello(f);
	put_headers(f, END_BOTH, 1, FIELDS(H2_GET_FIELDS("/hello")));
	say_frames(fd, f);
	hear_frames(fd, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM);
	weir_http_drain(s.http);
	replies r = hear_frames(fd, -1, 0);
	assert_true(r.end);
	assert_int_equal(r.goaways, 2);
	assert_int_equal(r.goaway_last, 1);
	close(fd);
	free(f);
	site_end(&s);
}

static void bounds_requests_of_a_connection(void **state)
{
	skip_without(state);
	site s = SITE(.limits = {.requests = 3});
	site_open(&s);
	int fd = dial(&s);
	frames *f = calloc(1, sizeof(*f));
	put_hello(f);
	for (uint32_t i = 0; i < 3; i++)
		put_headers(f, END_BOTH, 2 * i + 1, FIELDS(H2_GET_FIELDS("/hello")));
	say_frames(fd, f);
	/* What is on its way when the end is announced is served. */
	replies r = hear_frames(fd, NGHTTP2_GOAWAY, 0);
	f->length = 0;
	put_headers(f, END_BOTH, 7, FIELDS(H2_GET_FIELDS("/hello")));
	put_frame(f, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "\0\0\0\0\0\0\0\0", 8);
	put_headers(f, END_BOTH, 9, FIELDS(H2_GET_FIELDS("/hello")));
	say_frames(fd, f);
	replies rest = hear_frames(fd, -1, 0);
	assert_int_equal(r.headers + rest.headers, 4);
	assert_int_equal(rest.goaways, 1);
	assert_int_equal(rest.goaway_last, 7);
	assert_int_equal(s.handled, 4);
	close(fd);
	free(f);
	site_end(&s);
}

/* ---- TLS ---- */

static void tls_client(h2_client *c, site *s)
{
	static const unsigned char h2[] = "\x02h2";
	c->fd = dial(s);
	c->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_alpn_protos(c->ctx, h2, 3);
	c->ssl = SSL_new(c->ctx);
	SSL_set_fd(c->ssl, c->fd);
	/* Interrupted, as on_http.h says of recv, it is begun anew. */
	int connected;
	do
		connected = SSL_connect(c->ssl);
	while (connected != 1 && SSL_get_error(c->ssl, connected) == SSL_ERROR_WANT_READ);
	assert_int_equal(connected, 1);
	const unsigned char *chosen;
	unsigned length;
	SSL_get0_alpn_selected(c->ssl, &chosen, &length);
	assert_int_equal(length, 2);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	h2_session(c, 65535);
}

static void speaks_by_alpn(void **state)
{
	skip_without(state);
	weir_tls_certificate certificate = {certificates.a, certificates.a_key};
	weir_tls_options options = {.certificates = &certificate, .certificate_count = 1, .http2 = true};
	site s = SITE();
	must(weir_tls_new(&options, &s.tls));
	site_open(&s);
	h2_client *c = calloc(1, sizeof(*c));
	tls_client(c, &s);
	assert_string_equal(h2_get(c, "/tell")->body, "GET /tell [] a v20 tls");
	h2_answer *a = h2_ask(c, "/letters?500000"), *b = h2_post(c, "/count", 500000);
	H2_UNTIL(c, a->closed && b->closed);
	check_letters(a, 500000);
	assert_string_equal(b->body, "500000 bytes");
	weir_http_drain(s.http);
	H2_UNTIL_GONE(c);
	assert_int_equal(c->goaways, 1);
	h2_end(c);
	site_end(&s);
	weir_tls_unref(s.tls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(answers_as_asked),
		ON_BOTH(sends_no_body_where_there_is_none),
		ON_BOTH(tells_the_request),
		ON_BOTH(long_heads_fit),
		ON_BOTH(long_heads_wait),
		ON_BOTH(many_streams_at_once),
		ON_BOTH(large_answers_by_small_windows),
		ON_BOTH(sends_files),
		ON_BOTH(takes_bodies),
		ON_BOTH(collects_bodies),
		ON_BOTH(pushes_back),
		ON_BOTH(pauses_within_what_was_held),
		ON_BOTH(windows_come_back),
		ON_BOTH(unwanted_bodies),
		ON_BOTH(endless_bodies),
		ON_BOTH(output_is_bounded),
		ON_BOTH(slow_readers_are_cut),
		ON_BOTH(cut_answers_are_reset),
		ON_BOTH(resets_by_the_client),
		ON_BOTH(clients_go),
		ON_BOTH(servers_end),
		ON_BOTH(urgent_answers_come_first),
		ON_BOTH(drains),
		ON_BOTH(drains_whoever_is_silent),
		ON_BOTH(bounds_requests_of_a_connection),
		ON_BOTH(speaks_by_alpn),
	};
	return cmocka_run_group_tests(tests, certificates_setup, certificates_teardown);
}
