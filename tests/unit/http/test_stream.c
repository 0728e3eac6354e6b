/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams from pool threads: answers in parts with backpressure, bodies read as they come, clients that
 * leave, worlds that stop.
 */
#include "support/on_http.h"

#include <weir/stream.h>

#include "on_h2.h"

#define PATIENCE (30 * WEIR_NS_PER_S)
#define SHORT    (20 * WEIR_NS_PER_MS)
#define LETTERS  300000u

/* What a page's calls came to, for the test's own thread to look at. */
static _Atomic int results[8];
static _Atomic unsigned finished;

static void reset_results(void)
{
	for (int i = 0; i < 8; i++)
		results[i] = 99;
	finished = 0;
}

static char letter_at(size_t at)
{
	return (char)('a' + at * 7 % 26);
}

/* In parts of many sizes, some larger than a piece. */
static int write_letters(weir_request *request, size_t count, uint64_t timeout_ns)
{
	static const size_t parts[] = {1, 10, 1000, 70000, 333};
	char bytes[70000];
	int error = 0;
	for (size_t at = 0, i = 0; at < count && error == 0; i++) {
		size_t length = parts[i % 5] < count - at ? parts[i % 5] : count - at;
		for (size_t j = 0; j < length; j++)
			bytes[j] = letter_at(at + j);
		error = weir_request_stream_write(request, bytes, length, timeout_ns);
		at += length;
	}
	return error;
}

static void check_letters(const char *text, size_t length, size_t count)
{
	assert_int_equal(length, count);
	for (size_t i = 0; i < count; i++)
		if (text[i] != letter_at(i))
			fail_msg("byte %zu is '%c', not '%c'", i, text[i], letter_at(i));
}

/* ---- answers ---- */

static void page_letters(site *s, weir_request *request)
{
	weir_field field = {WEIR_SPAN("X-Kind"), WEIR_SPAN("letters")};
	weir_reply reply = {.status = 200, .fields = &field, .field_count = 1};
	results[0] = weir_request_stream_begin(request, &reply, WEIR_UNKNOWN_LENGTH);
	field.value = WEIR_SPAN("changed"); /* it was copied */
	results[1] = write_letters(request, LETTERS, PATIENCE);
	results[2] = weir_request_stream_end(request);
	finished++;
}

static void page_announced(site *s, weir_request *request)
{
	results[0] = weir_request_stream_begin(request, &(weir_reply){.status = 200}, 10);
	results[1] = weir_request_stream_write(request, "0123456", 7, PATIENCE);
	results[2] = weir_request_stream_write(request, "789a", 4, PATIENCE);
	results[3] = weir_request_stream_write(request, "789", 3, PATIENCE);
	results[4] = weir_request_stream_write(request, "", 0, PATIENCE);
	results[5] = weir_request_stream_end(request);
	finished++;
}

static void page_too_few(site *s, weir_request *request)
{
	weir_request_stream_begin(request, &(weir_reply){.status = 200}, 10);
	weir_request_stream_write(request, "0123456", 7, PATIENCE);
	weir_request_stream_end(request);
	finished++;
}

static void page_abort(site *s, weir_request *request)
{
	weir_request_stream_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
	weir_request_stream_write(request, "0123456", 7, PATIENCE);
	weir_request_stream_abort(request);
	finished++;
}

static const page pages[] = {PAGE("/hello", page_hello),
			     POOL_PAGE("/letters", page_letters),
			     POOL_PAGE("/announced", page_announced),
			     POOL_PAGE("/few", page_too_few),
			     POOL_PAGE("/abort", page_abort),
			     NO_PAGE};

static void streams_answers(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	reset_results();
	char *text = ask(&s, "GET /letters HTTP/1.0\r\n\r\n");
	check_contains(text, "\r\nX-Kind: letters\r\n");
	char *body = strstr(text, "\r\n\r\n") + 4;
	check_letters(body, strlen(body), LETTERS);
	free(text);
	CHECK_EVENTUALLY(finished == 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(results[i], 0);
	expect_contains(&s, "HEAD /letters HTTP/1.0\r\n\r\n", "\r\nX-Kind: letters\r\n");
	expect_contains(&s, "GET /announced HTTP/1.0\r\n\r\n", "\r\nContent-Length: 10\r\n",
			"\r\n\r\n0123456789");
	CHECK_EVENTUALLY(finished == 3);
	assert_int_equal(results[2], -EMSGSIZE);
	assert_int_equal(results[3] + results[4] + results[5], 0);
	/* One after the other on a connection, with others between. */
	int fd = dial(&s);
	say(fd, "GET /announced HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
		"GET /letters HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\nConnection: "
		"close\r\n\r\n");
	heard h = hear_all(fd);
	assert_int_equal(count_of(h.text, "HTTP/1.1 200 OK"), 4);
	assert_int_equal(count_of(h.text, "hello"), 2);
	free(h.text);
	close(fd);
	CHECK_EVENTUALLY(stats_of(s.pool_stage).completed == 5);
	site_end(&s);
}

/* Not whole: the client can tell. */
static void cuts_what_is_not_whole(void **state)
{
	skip_without(state);
	site s = {.pages = pages};
	site_open(&s);
	static const char *const requests[] = {"GET /few HTTP/1.1\r\nHost: a\r\n\r\n",
					       "GET /abort HTTP/1.1\r\nHost: a\r\n\r\n"};
	for (int i = 0; i < 2; i++) {
		int fd = dial(&s);
		say(fd, requests[i]);
		heard h = hear_all(fd);
		check_lacks(h.text, "\r\n0\r\n\r\n");
		check_lacks(h.text, "0123456789");
		free(h.text);
		close(fd);
	}
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	site_end(&s);
}

/* ---- clients that do not read, or leave ---- */

/* Until it fails. */
static void page_endless(site *s, weir_request *request)
{
	static const char bytes[40000];
	int error = weir_request_stream_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
	s->handled++;
	while (error == 0)
		error = weir_request_stream_write(request, bytes, sizeof(bytes),
						  s->user != NULL ? PATIENCE : SHORT);
	results[0] = error;
	results[1] = error == -EPIPE ? weir_request_stream_end(request) : weir_request_stream_abort(request);
	finished++;
}

static const page endless_pages[] = {POOL_PAGE("/endless", page_endless), NO_PAGE};

static void gives_up_on_who_does_not_read(void **state)
{
	skip_without(state);
	site s = {.pages = endless_pages, .limits = {.output_bytes = 8192}};
	site_open(&s);
	reset_results();
	int fd = dial(&s);
	say(fd, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
	CHECK_EVENTUALLY(finished == 1);
	assert_int_equal(results[0], -ETIMEDOUT);
	assert_int_equal(results[1], 0);
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	close(fd);
	site_end(&s);
}

static void notices_who_leaves(void **state)
{
	skip_without(state);
	site s = {.pages = endless_pages, .limits = {.output_bytes = 8192}, .user = "patient"};
	site_open(&s);
	reset_results();
	int fd = dial(&s);
	say(fd, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
	free(hear_until(fd, "200 OK").text);
	close(fd);
	CHECK_EVENTUALLY(finished == 1);
	assert_int_equal(results[0], -EPIPE);
	assert_int_equal(results[1], 0);
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	assert_int_equal(site_stats(&s).gone, 1);
	site_end(&s);
}

/* ---- bodies ---- */

static void page_count(site *s, weir_request *request)
{
	char bytes[5000], text[64];
	size_t total = 0, length = 1;
	bool right = true;
	int error = 0;
	while (error == 0 && length > 0) {
		error = weir_request_stream_read(request, bytes, sizeof(bytes),
						 s->user != NULL ? SHORT : PATIENCE, &length);
		for (size_t i = 0; error == 0 && i < length; i++)
			right = right && bytes[i] == letter_at(total + i);
		total += error == 0 ? length : 0;
	}
	results[0] = error;
	int n = snprintf(text, sizeof(text), "%zu %s", total, right ? "right" : "wrong");
	/* Read to its end, or not: either way it is answered in one of two ways. */
	if (total % 2 == 0) {
		weir_request_reply_text(request, 200, (weir_span){text, (size_t)n});
	} else {
		weir_request_stream_begin(request, &(weir_reply){.status = 200}, WEIR_UNKNOWN_LENGTH);
		weir_request_stream_write(request, text, (size_t)n, PATIENCE);
		weir_request_stream_end(request);
	}
	finished++;
}

static void page_little(site *s, weir_request *request)
{
	char byte;
	size_t length = 0;
	results[0] = weir_request_stream_read(request, &byte, 1, PATIENCE, &length);
	weir_request_reply_text(request, 200, (weir_span){&byte, length});
	finished++;
}

/* Home, pool, home: the answer may overtake an order that the pool has given. */
static void page_on(site *s, weir_request *request)
{
	static char been[1];
	char bytes[40000];
	size_t length = 0;
	if (weir_loop_self() == NULL) {
		for (int i = 0; i < 4; i++)
			weir_request_stream_read(request, bytes, sizeof(bytes), PATIENCE, &length);
		weir_request_set_user(request, been);
		weir_verdict verdict = weir_offer(s->stage, weir_request_event(request));
		if (verdict != WEIR_ADMITTED)
			weir_request_reject(request, verdict);
	} else if (weir_request_user(request) == NULL) {
		weir_offer(s->pool_stage, weir_request_event(request));
	} else {
		weir_request_reply_text(request, 200, WEIR_SPAN("on"));
	}
}

static const page body_pages[] = {POOL_PAGE("/count", page_count), POOL_PAGE("/little", page_little),
				  PAGE("/on", page_on), NO_PAGE};

static char *post_of(const char *path, size_t length, size_t sent)
{
	char *text = malloc(200 + sent);
	assert_non_null(text);
	int n = snprintf(text, 200,
			 "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
			 path, length);
	for (size_t i = 0; i < sent; i++)
		text[(size_t)n + i] = letter_at(i);
	text[(size_t)n + sent] = '\0';
	return text;
}

/* Sends from a thread of its own, as the server may not take it all before it answers. */
static void *say_later(void *arg)
{
	void **both = arg;
	const char *text = both[1];
	int fd = (int)(intptr_t)both[0];
	for (size_t at = 0, length = strlen(text); at < length;) {
		ssize_t sent = send(fd, text + at, length - at, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			break;
		at += sent > 0 ? (size_t)sent : 0;
	}
	return NULL;
}

static void expect_post(site *s, const char *path, size_t length, const char *wanted)
{
	pthread_t thread;
	char *text = post_of(path, length, length);
	int fd = dial(s);
	void *both[] = {(void *)(intptr_t)fd, text};
	assert_int_equal(pthread_create(&thread, NULL, say_later, both), 0);
	heard h = hear_until(fd, wanted);
	free(h.text);
	shutdown(fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(fd);
	free(text);
}

static void reads_bodies(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages};
	site_open(&s);
	reset_results();
	expect_post(&s, "/count", 0, "0 right");
	expect_post(&s, "/count", 1, "1 right");
	expect_post(&s, "/count", 100000, "100000 right");
	expect_post(&s, "/count", 1000001, "1000001 right");
	expect_post(&s, "/little", 1000, "\r\n\r\na");
	expect_post(&s, "/little", 1000000, "\r\n\r\na");
	expect_contains(&s, "GET /count HTTP/1.0\r\n\r\n", "0 right");
	expect_contains(
		&s,
		"POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
		"1\r\na\r\n2\r\nho\r\n0\r\n\r\n",
		"3 right");
	/* Asked to wait, a client is told to go on. */
	int fd = dial(&s);
	say(fd, "POST /count HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
	free(hear_until(fd, "100 Continue\r\n\r\n").text);
	say(fd, "a");
	free(hear_until(fd, "1 right").text);
	close(fd);
	for (int i = 0; i < 20; i++)
		expect_post(&s, "/on", 200000, "\r\n\r\non");
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	site_end(&s);
}

static void reads_no_longer_than_it_may(void **state)
{
	skip_without(state);
	site s = {.pages = body_pages, .user = "impatient"};
	site_open(&s);
	reset_results();
	char *text = post_of("/count", 10, 4);
	int fd = dial(&s);
	say(fd, text);
	free(hear_until(fd, "4 right").text);
	CHECK_EVENTUALLY(finished == 1);
	assert_int_equal(results[0], -ETIMEDOUT);
	close(fd);
	/* Who leaves in the middle. */
	s.user = NULL;
	fd = dial(&s);
	say(fd, text);
	CHECK_EVENTUALLY(s.handled >= 4);
	close(fd);
	CHECK_EVENTUALLY(finished == 2);
	assert_int_equal(results[0], -EPIPE);
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	free(text);
	site_end(&s);
}

/* ---- HTTP/2 ---- */

static void streams_on_http2(void **state)
{
	skip_without(state);
	static const page both[] = {POOL_PAGE("/letters", page_letters), POOL_PAGE("/size", page_little),
				    NO_PAGE};
	site s = {.pages = both, .http2 = true};
	site_open(&s);
	reset_results();
	h2_client *c = h2_open(&s, 65535);
	h2_answer *a = h2_ask(c, "/letters"), *b = h2_ask(c, "/letters"), *p = h2_post(c, "/size", 500000);
	H2_UNTIL(c, a->closed && b->closed && p->closed);
	check_letters(a->body, a->length, LETTERS);
	check_letters(b->body, b->length, LETTERS);
	assert_int_equal(p->length, 1);
	h2_end(c);
	CHECK_EVENTUALLY(site_stats(&s).busy == 0);
	site_end(&s);
}

/* ---- misuse, memory, ends ---- */

static void page_at_home(site *s, weir_request *request)
{
	char byte;
	size_t length;
	weir_reply reply = {.status = 200};
	results[0] = weir_request_stream_begin(request, &reply, 0);
	results[1] = weir_request_stream_write(request, "a", 1, 0);
	results[2] = weir_request_stream_read(request, &byte, 1, 0, &length);
	results[3] = weir_request_stream_end(request);
	weir_request_reply_text(request, 200, WEIR_SPAN("home"));
}

static void page_wrong(site *s, weir_request *request)
{
	char byte;
	size_t length;
	weir_reply reply = {.status = 200}, bad = {.status = 99};
	results[0] = weir_request_stream_write(request, "a", 1, 0);
	results[1] = weir_request_stream_end(request);
	results[2] = weir_request_stream_begin(request, &bad, 0);
	results[3] = weir_request_stream_begin(request, &reply, 4);
	results[4] = weir_request_stream_begin(request, &reply, 4);
	results[5] = weir_request_stream_read(request, &byte, 1, 0, &length);
	results[6] = weir_request_reply(request, &reply);
	weir_request_reject(request, WEIR_SHED_FULL);
	results[7] = weir_request_stream_write(request, "good", 4, PATIENCE);
	weir_request_stream_end(request);
	finished++;
}

static void refuses_misuse(void **state)
{
	skip_without(state);
	static const page wrong_pages[] = {PAGE("/home", page_at_home), POOL_PAGE("/wrong", page_wrong),
					   NO_PAGE};
	site s = {.pages = wrong_pages};
	site_open(&s);
	reset_results();
	expect_contains(&s, "GET /home HTTP/1.0\r\n\r\n", "\r\n\r\nhome");
	for (int i = 0; i < 4; i++)
		assert_int_equal(results[i], -EINVAL);
	expect_contains(&s, "GET /wrong HTTP/1.0\r\n\r\n", "\r\n\r\ngood");
	CHECK_EVENTUALLY(finished == 1);
	for (int i = 0; i < 8; i++)
		assert_int_equal(results[i], i == 3 || i == 7 ? 0 : -EINVAL);
	site_end(&s);
}

/* A stop waits for a stream, and ends the wait of one that gets nowhere. */
static void worlds_stop_with_streams_inside(void **state)
{
	skip_without(state);
	for (int early = 0; early < 2; early++) {
		site s = {.pages = endless_pages, .limits = {.output_bytes = 8192}, .user = "patient"};
		weir_stop_report report;
		site_open(&s);
		reset_results();
		int fd = dial(&s);
		say(fd, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
		CHECK_EVENTUALLY(s.handled == 3);
		if (early == 1)
			weir_http_free(&s.http);
		int stopped = weir_world_stop(s.world, 50 * WEIR_NS_PER_MS, &report);
		assert_int_equal(report.unbalanced, 0);
		assert_true(early == 1 || stopped == -ETIMEDOUT || stopped == 0);
		assert_int_equal(finished, 1);
		assert_true(results[0] == -EPIPE || results[0] == -ECANCELED);
		weir_http_free(&s.http);
		weir_routes_unref(s.routes);
		weir_world_free(&s.world);
		close(fd);
		pthread_mutex_destroy(&s.lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(streams_answers),
		ON_BOTH(cuts_what_is_not_whole),
		ON_BOTH(gives_up_on_who_does_not_read),
		ON_BOTH(notices_who_leaves),
		ON_BOTH(reads_bodies),
		ON_BOTH(reads_no_longer_than_it_may),
		ON_BOTH(streams_on_http2),
		ON_BOTH(refuses_misuse),
		ON_BOTH(worlds_stop_with_streams_inside),
	};
	cmocka_set_test_filter(getenv("WEIR_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
