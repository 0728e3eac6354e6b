/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_HTTP_H
#define TESTS_ON_HTTP_H

/*
 * A real server on loopback ("site"), with pages that tests choose by path, once for each back end of the loop; clients are plain sockets of the test.
 * Pages run on reactor or pool threads: they count and note, and the test's own thread asserts.
 */

#include "support/on_both.h"
#include "support/worlds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weir/http.h>

#include "base/mem.h"

#define SITE_RECORDS 256
#define SITE_HELD    64

typedef struct site site;
typedef void page_fn(site *s, weir_request *request);

typedef struct page {
	const char *path;
	page_fn *fn;
	bool pool; /* offered on to the pool first */
} page;

#define PAGE(at, what)                     \
	{                                  \
		.path = (at), .fn = (what) \
	}
#define POOL_PAGE(at, what)                              \
	{                                                \
		.path = (at), .fn = (what), .pool = true \
	}
#define NO_PAGE              \
	{                    \
		.path = NULL \
	}

typedef struct record {
	unsigned status, klass;
	weir_verdict shed;
	bool gone, whole; /* whole: there was a request */
	uint64_t body_bytes;
	char path[64], error[128], stage[32], note[64];
} record;

struct site {
	/* set by the test before site_open */
	const page *pages;
	unsigned threads; /* 0: 1 */
	weir_http_limits limits;
	weir_stage_options stage_options;
	weir_route_options route;     /* of the only route, unless make_routes */
	void (*make_routes)(site *s); /* fills routes */
	bool no_log, sheds_only, no_shed_details;
	bool http2;
	weir_tls *tls;

	weir_world *world;
	weir_domain *reactor, *pool;
	weir_stage *stage, *pool_stage;
	weir_routes *routes;
	weir_http *http;
	struct sockaddr_storage address;

	_Atomic unsigned handled, gone, data_calls, ends, over, drained;
	_Atomic size_t data_bytes;
	void *user;

	pthread_mutex_t lock;
	/* under lock */
	record records[SITE_RECORDS];
	_Atomic unsigned record_count;
	weir_request *held[SITE_HELD];
	_Atomic unsigned held_count;
};

static inline site *site_of(weir_request *request)
{
	return weir_request_arg(request);
}

static inline bool span_is(weir_span span, const char *text)
{
	return span.length == strlen(text) && memcmp(span.at, text, span.length) == 0;
}

/* ---- pages of several tests ---- */

/* The number that the query is. */
static inline size_t asked(const weir_request *request)
{
	weir_span query = weir_request_query(request);
	size_t number = 0;
	for (size_t i = 0; i < query.length; i++)
		number = number * 10 + (size_t)(query.at[i] - '0');
	return number;
}

static inline weir_buf *letters(size_t length)
{
	weir_buf *buf = weir_buf_new(length);
	for (size_t i = 0; i < length; i++)
		buf->data[i] = (uint8_t)('a' + i % 26);
	buf->length = (uint32_t)length;
	return buf;
}

static inline void note_over(void *arg)
{
	site *s = arg;
	s->over++;
}

/* As many bytes as the query says. */
static inline void page_bytes(site *s, weir_request *request)
{
	weir_buf *buf = letters(asked(request));
	weir_request_reply(request, &(weir_reply){.status = 200, .bytes = buf->data, .length = buf->length});
	weir_buf_unref(buf);
}

/* ---- stages ---- */

static inline const page *page_of(site *s, weir_request *request)
{
	weir_span path = weir_request_path(request);
	for (const page *p = s->pages; p != NULL && p->path != NULL; p++)
		if (span_is(path, p->path))
			return p;
	return NULL;
}

static inline void serve_page(site *s, weir_request *request, bool in_pool)
{
	const page *p = page_of(s, request);
	s->handled++;
	if (p == NULL) {
		weir_request_reply_text(request, 404, WEIR_SPAN("no such page\n"));
	} else if (p->pool && !in_pool) {
		weir_verdict verdict = weir_offer(s->pool_stage, weir_request_event(request));
		if (verdict != WEIR_ADMITTED)
			weir_request_reject(request, verdict);
	} else {
		p->fn(s, request);
	}
}

static void site_handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		serve_page(arg, weir_request_of(events[i]), false);
}

static void site_handle_pool(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		serve_page(arg, weir_request_of(events[i]), true);
}

static inline void copy_text(char *to, size_t size, weir_span span)
{
	snprintf(to, size, "%.*s", (int)span.length, span.length > 0 ? span.at : "");
}

static void site_log(const weir_http_record *seen, void *arg)
{
	site *s = arg;
	pthread_mutex_lock(&s->lock);
	record *r = &s->records[s->record_count % SITE_RECORDS];
	*r = (record){.status = seen->status,
		      .klass = seen->klass,
		      .shed = seen->shed,
		      .gone = seen->gone,
		      .whole = seen->request != NULL,
		      .body_bytes = seen->body_bytes};
	if (seen->request != NULL)
		copy_text(r->path, sizeof(r->path), weir_request_path(seen->request));
	copy_text(r->stage, sizeof(r->stage), seen->stage);
	copy_text(r->note, sizeof(r->note), seen->note);
	if (seen->error != NULL)
		snprintf(r->error, sizeof(r->error), "%s", seen->error);
	s->record_count++;
	pthread_mutex_unlock(&s->lock);
}

/* ---- opening and ending ---- */

static inline void site_routes(site *s)
{
	must(weir_routes_new(&s->routes));
	if (s->make_routes != NULL) {
		s->make_routes(s);
		return;
	}
	weir_route_options route = s->route;
	route.name = "all";
	route.stage = s->stage;
	route.arg = s;
	must(weir_routes_add(s->routes, &route));
}

static inline void site_listen(site *s)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {.address = (struct sockaddr *)&any,
				   .address_length = sizeof(any),
				   .http2 = s->http2,
				   .tls = s->tls};
	unsigned number = 99;
	must(weir_http_add_listener(s->http, &listen, &number));
	assert_int_equal(number, 0);
	must(weir_http_address(s->http, 0, NULL, 0, &s->address));
}

static inline void site_open(site *s)
{
	weir_stage_options web = s->stage_options, pool = {.name = "pool",
							   .handle = site_handle_pool,
							   .drop = weir_request_drop,
							   .arg = s,
							   .capacity = 256};
	if (web.name == NULL)
		web.name = "web";
	if (web.capacity == 0)
		web.capacity = 256;
	web.handle = site_handle;
	web.drop = weir_request_drop;
	web.arg = s;
	pthread_mutex_init(&s->lock, NULL);
	s->world = world_real();
	s->reactor = domain_reactor(s->world, "reactor", s->threads != 0 ? s->threads : 1);
	s->pool = domain_elastic(s->world, "elastic", 1, 4);
	must(weir_stage_new(s->reactor, &web, &s->stage));
	must(weir_stage_new(s->pool, &pool, &s->pool_stage));
	must(weir_world_start(s->world));
	site_routes(s);
	weir_http_options options = {.domain = s->reactor,
				     .routes = s->routes,
				     .limits = s->limits,
				     .log = s->no_log ? NULL : site_log,
				     .log_arg = s,
				     .log_sheds_only = s->sheds_only,
				     .no_shed_details = s->no_shed_details};
	must(weir_http_new(&options, &s->http));
	site_listen(s);
}

static inline void site_end(site *s)
{
	weir_http_free(&s->http);
	assert_null(s->http);
	weir_routes_unref(s->routes);
	world_end(&s->world);
	pthread_mutex_destroy(&s->lock);
}

static inline weir_http_stats site_stats(const site *s)
{
	weir_http_stats stats;
	weir_http_read_stats(s->http, &stats);
	return stats;
}

/* Waits for the nth record (from 0) and returns it. */
static inline record site_record(site *s, unsigned nth)
{
	CHECK_EVENTUALLY(s->record_count > nth);
	pthread_mutex_lock(&s->lock);
	record r = s->records[nth % SITE_RECORDS];
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Runs a function on the loop of the first reactor thread and waits for it. */
typedef struct errand {
	weir_post post;
	void (*fn)(site *s);
	site *site;
	_Atomic bool done;
} errand;

static void errand_run(weir_post *post, void *arg)
{
	errand *e = arg;
	e->fn(e->site);
	e->done = true;
}

static inline void at_home(site *s, void (*fn)(site *s))
{
	errand e = {.fn = fn, .site = s};
	e.post = (weir_post){.run = errand_run, .arg = &e};
	weir_loop_post(weir_domain_loop(s->reactor, 0), &e.post);
	CHECK_EVENTUALLY(e.done);
}

/* ---- pages that many tests use ---- */

static inline void page_hello(site *s, weir_request *request)
{
	weir_request_reply_text(request, 200, WEIR_SPAN("hello"));
}

static void site_note_gone(weir_request *request, void *arg)
{
	site *s = arg;
	s->gone++;
}

/* Kept until a test answers it. */
static inline void page_hold(site *s, weir_request *request)
{
	weir_hold(weir_request_event(request));
	weir_request_on_gone(request, site_note_gone, s);
	pthread_mutex_lock(&s->lock);
	s->held[s->held_count % SITE_HELD] = request;
	s->held_count++;
	pthread_mutex_unlock(&s->lock);
}

/* ---- clients ---- */

static inline int dial(site *s)
{
	struct timeval patience = {.tv_sec = 30};
	int fd = socket(s->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&s->address, sizeof(struct sockaddr_in)), 0);
	return fd;
}

static inline void say_bytes(int fd, const void *bytes, size_t length)
{
	assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

static inline void say(int fd, const char *text)
{
	say_bytes(fd, text, strlen(text));
}

typedef struct heard {
	char *text; /* everything up to the end, or as much as asked for; NUL behind */
	size_t length;
	int error; /* of the last recv; 0: the end of the stream */
} heard;

/* The kernel may interrupt a thread that has used io_uring, and a recv with a timeout is not begun anew. */
static inline ssize_t receive(int fd, void *into, size_t most)
{
	ssize_t got;
	do
		got = recv(fd, into, most, 0);
	while (got < 0 && errno == EINTR);
	return got;
}

static inline void grow_heard(heard *h, size_t more)
{
	h->text = realloc(h->text, h->length + more + 1);
	assert_non_null(h->text);
}

/* Until the end. */
static inline heard hear_all(int fd)
{
	heard h = {0};
	for (;;) {
		grow_heard(&h, 65536);
		ssize_t got = receive(fd, h.text + h.length, 65536);
		h.error = got < 0 ? errno : 0;
		if (got <= 0)
			break;
		h.length += (size_t)got;
	}
	h.text[h.length] = '\0';
	return h;
}

/* Until this text has come; the rest, if some came along, is in it too. */
static inline heard hear_until(int fd, const char *text)
{
	heard h = {0};
	do {
		grow_heard(&h, 4096);
		ssize_t got = receive(fd, h.text + h.length, 4096);
		if (got <= 0) {
			h.text[h.length] = '\0';
			fail_msg("the end came, or an error (%s), before \"%s\": \"%s\"", strerror(errno),
				 text, h.text);
		}
		h.length += (size_t)got;
		h.text[h.length] = '\0';
	} while (strstr(h.text, text) == NULL);
	return h;
}

static inline size_t count_of(const char *text, const char *word)
{
	size_t count = 0;
	for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
		count++;
	return count;
}

static inline void check_lacks(const char *text, const char *word)
{
	const char *found = strstr(text, word);
	if (found != NULL)
		fail_msg("it mentions \"%s\": \"%.200s\"", word, found);
}

/* Without the field Date, which differs. */
static inline char *without_date(heard h)
{
	char *at;
	while ((at = strstr(h.text, "Date: ")) != NULL) {
		char *end = strstr(at, "\r\n");
		assert_non_null(end);
		assert_int_equal(end - at, 35);
		memmove(at, end + 2, strlen(end + 2) + 1);
	}
	return h.text;
}

/* Sends, hears all there is, closes. The request should make the server close. */
static inline char *ask(site *s, const char *text)
{
	int fd = dial(s);
	say(fd, text);
	heard h = hear_all(fd);
	close(fd);
	return without_date(h);
}

static inline void expect_answer(site *s, const char *request, const char *answer)
{
	char *text = ask(s, request);
	assert_string_equal(text, answer);
	free(text);
}

#define expect_contains(s, request, ...)                                           \
	do {                                                                       \
		char *text_ = ask(s, request);                                     \
		const char *words_[] = {__VA_ARGS__};                              \
		for (size_t i_ = 0; i_ < sizeof(words_) / sizeof(words_[0]); i_++) \
			check_contains(text_, words_[i_]);                         \
		free(text_);                                                       \
	} while (0)

/* ---- both back ends ---- */

static int on_http_setup(void **state)
{
	const char *backend = *state;
	weir_loop *loop = NULL;
	setenv("WEIR_LOOP", backend, 1);
	if (weir_loop_new(&loop) != 0) {
		printf("%s: %s\n", backend, weir_error());
		*state = NULL;
	}
	weir_loop_free(&loop);
	return check_memory_setup(state);
}

static inline void skip_without(void **state)
{
	if (*state == NULL)
		skip();
}

#define ON_BOTH(test) ON_BOTH_LOOPS(test, on_http_setup, check_memory_teardown)

#endif
