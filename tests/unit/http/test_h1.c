/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 on real sockets: messages, bodies, order, ends. */
#include "support/on_http.h"

#define HELLO_HEAD                                                                                       \
	"HTTP/1.1 200 OK\r\nServer: weir\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " \
	"5\r\n"

/* ---- answers ---- */

static void page_empty(site *s, weir_request *request)
{
	weir_request_reply(request, &(weir_reply){.status = 204});
}

static void page_unchanged(site *s, weir_request *request)
{
	weir_field field = {WEIR_SPAN("ETag"), WEIR_SPAN("\"x\"")};
	weir_request_reply(request, &(weir_reply){.status = 304, .fields = &field, .field_count = 1});
}

static void page_letters(site *s, weir_request *request)
{
	weir_buf *buf = letters(asked(request) + 7);
	weir_reply reply = {.status = 200,
			    .buf = buf,
			    .offset = 7,
			    .length = buf->length - 7,
			    .over = note_over,
			    .over_arg = s};
	weir_request_reply(request, &reply);
	weir_buf_unref(buf);
}

static const page answers[] = {PAGE("/hello", page_hello),         PAGE("/empty", page_empty),
			       PAGE("/letters", page_letters),     PAGE("/bytes", page_bytes),
			       PAGE("/unchanged", page_unchanged), NO_PAGE};

static void answers_as_asked(void **state)
{
	skip_without(state);
	site s = {.pages = answers};
	site_open(&s);
	expect_answer(&s, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		      HELLO_HEAD "Connection: close\r\n\r\nhello");
	expect_answer(&s, "HEAD /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		      HELLO_HEAD "Connection: close\r\n\r\n");
	expect_answer(&s, "GET /empty HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		      "HTTP/1.1 204 No Content\r\nServer: weir\r\nConnection: close\r\n\r\n");
	expect_answer(
		&s, "GET /unchanged HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nServer: weir\r\nETag: \"x\"\r\nConnection: close\r\n\r\n");
	expect_answer(&s, "GET /hello HTTP/1.0\r\n\r\n", HELLO_HEAD "Connection: close\r\n\r\nhello");
	expect_contains(&s, "GET /none HTTP/1.0\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "no such page");
	assert_int_equal(site_stats(&s).requests, 6);
	assert_int_equal(s.handled, 6);
	site_end(&s);
}

static void keeps_connections(void **state)
{
	skip_without(state);
	site s = {.pages = answers};
	site_open(&s);
	int fd = dial(&s);
	for (int i = 0; i < 5; i++) {
		say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
		heard h = hear_until(fd, "\r\n\r\nhello");
		assert_string_equal(without_date(h), HELLO_HEAD "\r\nhello");
		free(h.text);
	}
	say(fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	heard h = hear_until(fd, "\r\n\r\nhello");
	check_contains(h.text, "Connection: keep-alive\r\n");
	free(h.text);
	say(fd, "GET /hello HTTP/1.0\r\n\r\n");
	h = hear_all(fd);
	check_contains(h.text, "Connection: close\r\n");
	assert_int_equal(h.error, 0);
	free(h.text);
	close(fd);
	assert_int_equal(site_stats(&s).connections, 1);
	site_end(&s);
}

static void check_letters(const char *text, size_t offset, size_t length)
{
	const char *body = strstr(text, "\r\n\r\n");
	assert_non_null(body);
	body += 4;
	assert_int_equal(strlen(body), length);
	for (size_t i = 0; i < length; i++)
		if (body[i] != (char)('a' + (offset + i) % 26))
			fail_msg("byte %zu of %zu is wrong", i, length);
}

/* Around the sizes where another way of sending begins, up to many times the output's bound. */
static void sends_bodies_of_any_size(void **state)
{
	skip_without(state);
	static const size_t sizes[] = {0, 1, 2047, 2048, 2049, 4096, 70000, 262144, 262145, 3000000};
	site s = {.pages = answers};
	char text[128];
	site_open(&s);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int bytes = 0; bytes < 2; bytes++) {
			snprintf(text, sizeof(text), "GET /%s?%zu HTTP/1.0\r\n\r\n",
				 bytes ? "bytes" : "letters", sizes[i]);
			char *answer = ask(&s, text);
			check_letters(answer, bytes ? 0 : 7, sizes[i]);
			free(answer);
		}
		CHECK_EVENTUALLY(s.over == i + 1);
		assert_int_equal(site_record(&s, (unsigned)(2 * i)).body_bytes, sizes[i]);
	}
	site_end(&s);
}

/* ---- files ---- */

static int open_letters(size_t length)
{
	FILE *file = tmpfile();
	for (size_t i = 0; i < length; i++)
		fputc('a' + (int)(i % 26), file);
	fflush(file);
	int fd = dup(fileno(file));
	fclose(file);
	return fd;
}

static void page_file(site *s, weir_request *request)
{
	weir_reply reply = {.status = 200,
			    .file = (int)(intptr_t)s->user,
			    .offset = 3,
			    .file_length = asked(request),
			    .over = note_over,
			    .over_arg = s};
	weir_request_reply(request, &reply);
}

static const page files[] = {PAGE("/file", page_file), PAGE("/hello", page_hello), NO_PAGE};

static void sends_files(void **state)
{
	skip_without(state);
	static const size_t sizes[] = {1, 1000, 100000, 2000000};
	char text[256];
	int file = open_letters(2000010);
	site s = {.pages = files, .user = (void *)(intptr_t)file};
	site_open(&s);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(text, sizeof(text), "GET /file?%zu HTTP/1.0\r\n\r\n", sizes[i]);
		char *answer = ask(&s, text);
		check_letters(answer, 3, sizes[i]);
		free(answer);
		CHECK_EVENTUALLY(s.over == i + 1);
	}
	/* What comes behind a file stays in order; HEAD sends none but is told its length. */
	int fd = dial(&s);
	say(fd, "GET /file?100000 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /file?100000 HTTP/1.1\r\nHost: a\r\n\r\n"
		"GET /hello HTTP/1.0\r\n\r\n");
	heard h = hear_all(fd);
	assert_int_equal(count_of(h.text, "Content-Length: 100000\r\n"), 2);
	check_contains(h.text + h.length - 5, "hello");
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(s.over == 6);
	site_end(&s);
	close(file);
}

/* ---- pipelines ---- */

static const char three[] =
	"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
	"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
	"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n"
	"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
#define THREE_ANSWERS                                                                   \
	HELLO_HEAD "\r\nhello" HELLO_HEAD "\r\nhello" HELLO_HEAD "\r\nhello" HELLO_HEAD \
		   "Connection: close\r\n\r\nhello"

static void answers_pipelines_in_order(void **state)
{
	skip_without(state);
	site s = {.pages = answers};
	site_open(&s);
	expect_answer(&s, three, THREE_ANSWERS);
	site_end(&s);
}

/* However the network cuts them. */
static void answers_pipelines_cut_anywhere(void **state)
{
	skip_without(state);
	site s = {.pages = answers};
	site_open(&s);
	for (size_t cut = 1; cut < sizeof(three) - 1; cut++) {
		int fd = dial(&s);
		say_bytes(fd, three, cut);
		/* Mostly two reads then; nothing depends on it. */
		check_breathe();
		say_bytes(fd, three + cut, sizeof(three) - 1 - cut);
		heard h = hear_all(fd);
		close(fd);
		assert_string_equal(without_date(h), THREE_ANSWERS);
		free(h.text);
	}
	assert_int_equal(site_stats(&s).malformed, 0);
	site_end(&s);
}

static void answers_byte_by_byte(void **state)
{
	skip_without(state);
	site s = {.pages = answers};
	site_open(&s);
	int fd = dial(&s), on = 1;
	setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof(on));
	for (size_t i = 0; i < sizeof(three) - 1; i++) {
		say_bytes(fd, three + i, 1);
		if (i % 4 == 0)
			check_breathe();
	}
	heard h = hear_all(fd);
	assert_string_equal(without_date(h), THREE_ANSWERS);
	free(h.text);
	close(fd);
	site_end(&s);
}

/* Answers wait for each other, whoever is first to be ready. */
static void answer_held(site *s)
{
	weir_request_reply_text(s->held[0], 200, WEIR_SPAN("late"));
}

static const page held_pages[] = {PAGE("/hold", page_hold), PAGE("/hello", page_hello), NO_PAGE};

static void keeps_the_order_of_answers(void **state)
{
	skip_without(state);
	site s = {.pages = held_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.0\r\n\r\n");
	CHECK_EVENTUALLY(s.held_count == 1);
	assert_int_equal(s.handled, 1);
	at_home(&s, answer_held);
	heard h = hear_all(fd);
	assert_non_null(strstr(h.text, "late"));
	assert_true(strstr(h.text, "late") < strstr(h.text, "hello"));
	free(h.text);
	close(fd);
	site_end(&s);
}

/* Thousands of requests at once, whose answers fill the output many times. */
static void bounds_what_pipelines_make_wait(void **state)
{
	skip_without(state);
	enum { COUNT = 400, BYTES = 20000 };
	site s = {.pages = answers, .limits = {.output_bytes = 65536}};
	static char all[COUNT * 64];
	char *at = all;
	site_open(&s);
	for (int i = 0; i < COUNT; i++)
		at += sprintf(at, "GET /letters?%d HTTP/1.%d\r\nHost: a\r\n\r\n", BYTES, i < COUNT - 1);
	int fd = dial(&s);
	say_bytes(fd, all, (size_t)(at - all));
	/* It stops long before it has answered all: nobody reads. */
	CHECK_EVENTUALLY(s.handled > 0);
	heard h = hear_all(fd);
	assert_int_equal(count_of(h.text, "HTTP/1.1 200 OK"), COUNT);
	assert_true(h.length > COUNT * BYTES);
	free(h.text);
	close(fd);
	site_end(&s);
}

/* ---- what is no request ---- */

static void refuses_what_is_no_request(void **state)
{
	skip_without(state);
	static const struct {
		const char *text, *status;
	} bad[] = {
		{"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		 "HTTP/1.1 400 "},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "HTTP/1.1 505 "},
		{"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 "},
		{"nonsense\r\n\r\n", "HTTP/1.1 400 "},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 "},
	};
	site s = {.pages = answers};
	site_open(&s);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = dial(&s);
		say(fd, bad[i].text);
		/* Smuggled behind it: must not be answered. */
		say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
		heard h = hear_all(fd);
		assert_int_equal(strncmp(h.text, bad[i].status, strlen(bad[i].status)), 0);
		check_contains(h.text, "Connection: close\r\n");
		assert_int_equal(count_of(h.text, "Server: weir"), 1);
		free(h.text);
		close(fd);
		record r = site_record(&s, i);
		assert_false(r.whole);
		assert_true(r.status >= 400 && r.error[0] != '\0');
	}
	assert_int_equal(s.handled, 0);
	assert_int_equal(site_stats(&s).malformed, sizeof(bad) / sizeof(bad[0]));
	site_end(&s);
}

static void bounds_heads(void **state)
{
	skip_without(state);
	site s = {.pages = answers, .limits = {.line_bytes = 100, .head_bytes = 400, .fields = 5}};
	char text[1024], long_path[200];
	memset(long_path, 'x', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	site_open(&s);
	snprintf(text, sizeof(text), "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", long_path);
	expect_contains(&s, text, "HTTP/1.1 414 ");
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nA: %s\r\nB: %s\r\n\r\n", long_path,
		 long_path);
	expect_contains(&s, text, "HTTP/1.1 431 ");
	expect_contains(&s, "GET / HTTP/1.1\r\nHost: a\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\ne: 5\r\n\r\n",
			"HTTP/1.1 431 ");
	expect_contains(&s,
			"GET /hello HTTP/1.1\r\nHost: a\r\na: 1\r\nb: 2\r\nc: 3\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 OK");
	site_end(&s);
}

/* ---- bodies of requests ---- */

typedef struct echo {
	site *site;
	char text[4096];
	size_t length;
} echo;

static void echo_data(weir_request *request, weir_buf *buf, size_t offset, size_t length, void *arg)
{
	echo *e = arg;
	e->site->data_calls++;
	e->site->data_bytes += length;
	for (size_t i = 0; i < length && e->length < sizeof(e->text); i++)
		e->text[e->length++] = (char)buf->data[offset + i];
}

static void echo_end(weir_request *request, void *arg)
{
	echo *e = arg;
	weir_field field;
	for (size_t i = 0; weir_request_trailer(request, i, &field); i++)
		e->length += (size_t)snprintf(e->text + e->length, sizeof(e->text) - e->length, "[%.*s=%.*s]",
					      (int)field.name.length, field.name.at, (int)field.value.length,
					      field.value.at);
	e->site->ends++;
	weir_request_reply_text(request, 200, (weir_span){e->text, e->length});
}

static const weir_body_ops echo_ops = {echo_data, echo_end};

static void echo_gone(weir_request *request, void *arg)
{
	site *s = arg;
	weir_request_abort(request);
	s->gone++;
}

static void page_echo(site *s, weir_request *request)
{
	echo *e = weir_request_alloc(request, sizeof(*e));
	*e = (echo){.site = s};
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, echo_gone, s);
	weir_request_read(request, &echo_ops, e);
}

/* Reads only when the test says so. */
static void read_held(site *s)
{
	echo *e = weir_request_alloc(s->held[0], sizeof(*e));
	*e = (echo){.site = s};
	weir_request_read(s->held[0], &echo_ops, e);
}

static void page_length(site *s, weir_request *request)
{
	char text[64];
	uint64_t length = weir_request_body_length(request);
	int n = snprintf(text, sizeof(text), "%lld", length == WEIR_UNKNOWN_LENGTH ? -1 : (long long)length);
	weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
}

static const page body_pages[] = {PAGE("/echo", page_echo), PAGE("/hold", page_hold),
				  PAGE("/hello", page_hello), PAGE("/length", page_length), NO_PAGE};

static void reads_bodies(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages};
	site_open(&s);
	expect_contains(&s, "POST /echo HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde", "Content-Length: 5\r\n",
			"\r\n\r\nabcde");
	expect_contains(
		&s,
		"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
		"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nSum: 7\r\nMore: yes\r\n\r\n",
		"\r\n\r\nabcdefg[Sum=7][More=yes]");
	expect_contains(&s, "POST /echo HTTP/1.0\r\n\r\n", "Content-Length: 0\r\n");
	expect_contains(&s, "POST /echo HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "Content-Length: 0\r\n");
	expect_contains(&s, "POST /length HTTP/1.0\r\nContent-Length: 4\r\n\r\nabcd", "\r\n\r\n4");
	expect_contains(&s,
			"POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: "
			"chunked\r\n\r\n0\r\n\r\n",
			"\r\n\r\n-1");
	expect_contains(&s, "GET /length HTTP/1.0\r\n\r\n", "\r\n\r\n0");
	assert_int_equal(s.ends, 4);
	site_end(&s);
}

static void reads_bodies_later(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "POST /hold HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
	CHECK_EVENTUALLY(s.held_count == 1);
	say(fd, "defghiGET /hello HTTP/1.0\r\n\r\n");
	at_home(&s, read_held);
	heard h = hear_all(fd);
	check_contains(h.text, "\r\n\r\nabcdefghi");
	check_contains(h.text, "\r\n\r\nhello");
	free(h.text);
	close(fd);
	site_end(&s);
}

static void tells_clients_to_continue(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	heard h = hear_until(fd, "\r\n\r\n");
	assert_string_equal(h.text, "HTTP/1.1 100 Continue\r\n\r\n");
	free(h.text);
	say(fd, "abc");
	h = hear_until(fd, "\r\n\r\nabc");
	check_lacks(h.text, "100 Continue");
	free(h.text);
	/* Who does not wait is not told. */
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
	h = hear_until(fd, "\r\n\r\nabc");
	assert_true(count_of(h.text, "HTTP/1.1") >= 1);
	free(h.text);
	/* Answered without having been told: whether the body comes is not known, so the connection ends. */
	say(fd, "POST /hello HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
	h = hear_all(fd);
	check_lacks(h.text, "100 Continue");
	check_contains(h.text, "Connection: close\r\n");
	free(h.text);
	close(fd);
	expect_contains(&s,
			"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: "
			"magic\r\nContent-Length: 3\r\n\r\nabc",
			"HTTP/1.1 417 ");
	site_end(&s);
}

/* A body that nobody reads: little is read away, much costs the connection. */
static void drains_or_closes(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages,
		  .limits = {.body_gap_ns = 3600 * WEIR_NS_PER_S, .body_bytes_per_s = 1}};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
	heard h = hear_until(fd, "\r\n\r\nhello");
	check_lacks(h.text, "close");
	free(h.text);
	char waste[1000];
	memset(waste, 'x', sizeof(waste));
	say_bytes(fd, waste, sizeof(waste));
	say(fd, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
	h = hear_until(fd, "\r\n\r\nhello");
	free(h.text);
	say(fd, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
	h = hear_all(fd);
	check_contains(h.text, "Connection: close\r\n");
	assert_int_equal(h.error, 0);
	free(h.text);
	close(fd);
	/* In chunks nobody knows before: it is closed when it has become too much. */
	fd = dial(&s);
	say(fd, "POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	h = hear_until(fd, "\r\n\r\nhello");
	check_lacks(h.text, "close");
	free(h.text);
	for (int i = 0; i < 200; i++) {
		char chunk[1016];
		int n = snprintf(chunk, sizeof(chunk), "3e8\r\n");
		memset(chunk + n, 'x', 1000);
		memcpy(chunk + n + 1000, "\r\n", 2);
		if (send(fd, chunk, (size_t)n + 1002, MSG_NOSIGNAL) < 0)
			break;
	}
	h = hear_all(fd);
	assert_int_equal(h.length, 0);
	assert_int_not_equal(h.error, EAGAIN);
	free(h.text);
	close(fd);
	site_end(&s);
}

static void bad_bodies_end_the_connection(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages};
	site_open(&s);
	int fd = dial(&s);
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX");
	heard h = hear_all(fd);
	assert_non_null(strstr(h.text, "HTTP/1.1 400 "));
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(s.gone == 1);
	record r = site_record(&s, 0);
	assert_true(r.gone && r.error[0] != '\0' && r.status == 400);
	/* Cut short. */
	fd = dial(&s);
	say(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
	CHECK_EVENTUALLY(s.data_calls >= 2);
	shutdown(fd, SHUT_WR);
	h = hear_all(fd);
	assert_int_equal(h.length, 0);
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(s.gone == 2);
	site_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(answers_as_asked),
		ON_BOTH(keeps_connections),
		ON_BOTH(sends_bodies_of_any_size),
		ON_BOTH(sends_files),
		ON_BOTH(answers_pipelines_in_order),
		ON_BOTH(answers_pipelines_cut_anywhere),
		ON_BOTH(answers_byte_by_byte),
		ON_BOTH(keeps_the_order_of_answers),
		ON_BOTH(bounds_what_pipelines_make_wait),
		ON_BOTH(refuses_what_is_no_request),
		ON_BOTH(bounds_heads),
		ON_BOTH(reads_bodies),
		ON_BOTH(reads_bodies_later),
		ON_BOTH(tells_clients_to_continue),
		ON_BOTH(drains_or_closes),
		ON_BOTH(bad_bodies_end_the_connection),
	};
	cmocka_set_test_filter(getenv("WEIR_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
