/* SPDX-License-Identifier: Apache-2.0 */
/* Runs against a server that does as the test says, request by request. */
#include "on_engine.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>

/* ---- the server ---- */

enum { PEERS = 64, REQUEST = 4096 };

typedef struct server server;
/* Answers the number-th request (from 0) of all; false: the connection is closed. */
typedef bool serve_fn(server *s, int fd, unsigned number, const char *request);

struct server {
	serve_fn *serve;
	pthread_t thread;
	int listener, quit[2];
	struct sockaddr_in at;
	int fd[PEERS];
	char request[PEERS][REQUEST + 1];
	size_t length[PEERS];
	unsigned number;
	atomic_uint peers, requests, with_close, with_cookie;
};

static void say(int fd, const char *text)
{
	ssize_t sent = send(fd, text, strlen(text), MSG_NOSIGNAL);
	(void)sent;
}

static void hang_up(server *s, unsigned at)
{
	close(s->fd[at]);
	s->fd[at] = -1;
	s->length[at] = 0;
}

static void take_request(server *s, unsigned at)
{
	ssize_t got = recv(s->fd[at], s->request[at] + s->length[at], REQUEST - s->length[at], 0);
	if (got <= 0) {
		hang_up(s, at);
		return;
	}
	s->length[at] += (size_t)got;
	s->request[at][s->length[at]] = '\0';
	if (strstr(s->request[at], "\r\n\r\n") == NULL)
		return;
	s->length[at] = 0;
	atomic_fetch_add(&s->requests, 1);
	if (!s->serve(s, s->fd[at], s->number++, s->request[at]))
		hang_up(s, at);
}

static void take_peer(server *s)
{
	int fd = accept(s->listener, NULL, NULL), on = 1;
	for (unsigned i = 0; i < PEERS && fd >= 0; i++)
		if (s->fd[i] < 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			s->fd[i] = fd;
			atomic_fetch_add(&s->peers, 1);
			return;
		}
	close(fd);
}

static void *run_server(void *arg)
{
	server *s = arg;
	struct pollfd ready[PEERS + 2];
	for (;;) {
		for (unsigned i = 0; i < PEERS; i++)
			ready[i] = (struct pollfd){.fd = s->fd[i], .events = POLLIN};
		ready[PEERS] = (struct pollfd){.fd = s->listener, .events = POLLIN};
		ready[PEERS + 1] = (struct pollfd){.fd = s->quit[0], .events = POLLIN};
		poll(ready, PEERS + 2, -1);
		if (ready[PEERS + 1].revents != 0)
			return NULL;
		for (unsigned i = 0; i < PEERS; i++)
			if (ready[i].revents != 0 && s->fd[i] >= 0)
				take_request(s, i);
		if (ready[PEERS].revents != 0)
			take_peer(s);
	}
}

static void start_server(server *s, serve_fn *serve)
{
	memset(s, 0, sizeof(*s));
	s->serve = serve;
	memset(s->fd, -1, sizeof(s->fd));
	s->listener = listen_anywhere(&s->at);
	assert_int_equal(pipe(s->quit), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, run_server, s), 0);
}

static void stop_server(server *s)
{
	close(s->quit[1]);
	pthread_join(s->thread, NULL);
	close(s->quit[0]);
	close(s->listener);
	for (unsigned i = 0; i < PEERS; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
}

/* ---- runs ---- */

static server site;

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static bool serve_ok(server *s, int fd, unsigned number, const char *request)
{
	say(fd, OK_ANSWER);
	return true;
}

/* count arrivals, a millisecond apart, each a user with one request. */
static void prepare(serve_fn *serve, unsigned count)
{
	start_server(&site, serve);
	rig_prepare(&site.at, count, count);
	r.plan.connections = 16;
}

static void run(void)
{
	assert_int_equal(rig_begin(), 0);
	rig_await();
}

static void finish(void)
{
	rig_finish();
	stop_server(&site);
}

/* ---- answers ---- */

static bool serve_all_kinds(server *s, int fd, unsigned number, const char *request)
{
	static const char *const kinds[] = {
		OK_ANSWER,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end", /* closed */
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
	};
	say(fd, kinds[number % 6]);
	return number % 6 != 4;
}

static void test_answers(void **state)
{
	prepare(serve_all_kinds, 30);
	r.plan.connections = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 30);
	assert_int_equal(r.tally.all.good, 30);
	assert_int_equal(r.tally.status[200], 25);
	assert_int_equal(r.tally.status[204], 5);
	/* One that ends with the connection and one that says so, five times; the last of them is followed by none. */
	assert_int_equal(r.tally.connections, 10);
	finish();
}

static bool serve_bytes(server *s, int fd, unsigned number, const char *request)
{
	const char *answer =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n";
	for (const char *c = answer; *c != '\0'; c++)
		say(fd, (char[]){*c, '\0'});
	return true;
}

static void test_byte_by_byte(void **state)
{
	prepare(serve_bytes, 10);
	r.plan.connections = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 10);
	assert_int_equal(r.tally.connections, 1);
	finish();
}

static bool serve_failures(server *s, int fd, unsigned number, const char *request)
{
	switch (number % 8) {
	case 6:
		say(fd, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
		return true;
	case 7:
		say(fd, "HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 0:
		say(fd, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 1:
		say(fd, "HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 2:
		say(fd, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
		return true;
	case 3:
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all of it");
		return false;
	case 4:
		say(fd, "220 mail.example.org ESMTP\r\n");
		return true;
	default:
		return false;
	}
}

static void test_failures(void **state)
{
	prepare(serve_failures, 80);
	r.plan.connections = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_SHED], 20);
	assert_int_equal(r.tally.all.ended[LOAD_ERROR], 60);
	assert_int_equal(r.tally.errors[LOAD_ERROR_STATUS], 20);
	assert_int_equal(r.tally.errors[LOAD_ERROR_CUT], 20);
	assert_int_equal(r.tally.errors[LOAD_ERROR_NONSENSE], 20);
	assert_int_equal(r.tally.status[999], 10);
	finish();
}

static bool serve_too_much(server *s, int fd, unsigned number, const char *request)
{
	say(fd, OK_ANSWER "and something nobody asked for");
	return true;
}

/* The answer counts; the connection, on which nobody knows what comes next, is not used again. */
static void test_too_much(void **state)
{
	prepare(serve_too_much, 5);
	r.plan.connections = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 5);
	assert_int_equal(r.tally.connections, 5);
	finish();
}

static bool serve_redirect(server *s, int fd, unsigned number, const char *request)
{
	say(fd, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n");
	return true;
}

static void test_redirect(void **state)
{
	prepare(serve_redirect, 5);
	run();
	check_contains(load_engine_failure(r.engine), "redirect (302)");
	finish();
	prepare(serve_redirect, 5);
	r.plan.allow_redirects = true;
	run();
	assert_string_equal(load_engine_failure(r.engine), "");
	assert_int_equal(r.tally.all.ended[LOAD_OK], 5);
	finish();
}

static void test_refused(void **state)
{
	prepare(serve_ok, 5);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in *at = (struct sockaddr_in *)(void *)&r.place.address.at;
	socklen_t length = sizeof(*at);
	at->sin_port = 0;
	/* Bound and not listening: refused, and nobody else's. */
	assert_int_equal(bind(fd, (struct sockaddr *)at, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)at, &length), 0);
	run();
	assert_int_equal(r.tally.errors[LOAD_ERROR_CONNECT], 5);
	assert_int_equal(r.tally.all.sent, 5);
	close(fd);
	finish();
}

/* ---- patience ---- */

static bool serve_nothing(server *s, int fd, unsigned number, const char *request)
{
	return true;
}

static void test_timeout(void **state)
{
	prepare(serve_nothing, 5);
	r.plan.timeout_ns = 20 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_TIMEOUT], 5);
	finish();
}

static void test_patience(void **state)
{
	prepare(serve_nothing, 5);
	r.plan.patience_ns = 20 * WEIR_NS_PER_MS;
	r.plan.retries = 2;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_ABORTED], 5);
	assert_int_equal(r.tally.all.retries, 10);
	assert_int_equal(r.tally.all.sent, 5);
	assert_int_equal(site.requests, 15);
	finish();
}

/* Sheds each request twice: who tries a third time gets it. */
static bool serve_third(server *s, int fd, unsigned number, const char *request)
{
	say(fd,
	    number % 3 < 2 ? "HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n" : OK_ANSWER);
	return true;
}

static void test_retry(void **state)
{
	prepare(serve_third, 1);
	r.habits.requests = 2;
	r.plan.retries = 2;
	r.plan.backoff_ns = WEIR_NS_PER_MS;
	r.plan.obey_retry_after = true;
	run();
	/* The second request of the session has two attempts more of its own. */
	assert_int_equal(r.tally.all.sent, 2);
	assert_int_equal(r.tally.all.ended[LOAD_OK], 2);
	assert_int_equal(r.tally.all.retries, 4);
	assert_int_equal(r.tally.status[503], 4);
	/* Counted from when the first attempt was meant: both back-offs, of at least half of 1 and of 2 ms, are in it. */
	assert_true(r.tally.all.response_max_ns >= WEIR_NS_PER_MS * 3 / 2);
	finish();
}

/* One connection, and nobody answers: the first waits, the others were never sent, and the sums say so. */
static void test_unsent(void **state)
{
	prepare(serve_nothing, 5);
	r.plan.connections = 1;
	r.plan.drain_ns = 0;
	r.plan.duration_ns = 50 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(r.tally.all.sent, 1);
	assert_int_equal(r.tally.open, 1);
	assert_int_equal(r.tally.unsent, 4);
	assert_int_equal(ends(), 0);
	finish();
}

/* Answers the first after it has seen that a fifth one is waiting to come: by then they are all late. */
static bool serve_slow_first(server *s, int fd, unsigned number, const char *request)
{
	if (number == 0)
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	say(fd, OK_ANSWER);
	return true;
}

/* A server that stalls makes those behind it late, and their times count from when they were meant to be sent. */
static void test_stall(void **state)
{
	prepare(serve_slow_first, 20);
	r.plan.connections = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 20);
	assert_true(r.tally.all.late >= 18);
	/* The last came 19 ms after the first, which took 50: none took less than 30. */
	assert_true(weir_hist_quantile(&r.tally.all.response, 0) >= 29 * WEIR_NS_PER_MS);
	finish();
}

/* ---- connections and users ---- */

static bool serve_counting(server *s, int fd, unsigned number, const char *request)
{
	if (strstr(request, "Connection: close") != NULL)
		atomic_fetch_add(&s->with_close, 1);
	if (strstr(request, "Cookie: id=7\r\n") != NULL)
		atomic_fetch_add(&s->with_cookie, 1);
	say(fd, "HTTP/1.1 200 OK\r\nSet-Cookie: id=7; Path=/\r\nContent-Length: 2\r\n\r\nhi");
	return true;
}

static void test_per_connection(void **state)
{
	prepare(serve_counting, 6);
	r.plan.connections = 1;
	r.plan.per_connection = 1;
	run();
	assert_int_equal(r.tally.connections, 6);
	assert_int_equal(site.with_close, 6);
	finish();
	prepare(serve_counting, 6);
	r.plan.connections = 1;
	r.plan.per_connection = 2;
	run();
	assert_int_equal(r.tally.connections, 3);
	assert_int_equal(site.with_close, 0);
	finish();
}

static void test_sessions(void **state)
{
	prepare(serve_counting, 4);
	r.habits.requests = 3;
	r.habits.cookies = r.plan.cookies = true;
	run();
	assert_int_equal(r.tally.all.sent, 12);
	assert_int_equal(r.tally.all.ended[LOAD_OK], 12);
	assert_int_equal(site.with_cookie, 8);
	finish();
}

/* Who waits gets the connection, and what the answer said is not lost by that: two users at a time on one connection, each of whom is told of a cookie. */
static void test_sessions_wait(void **state)
{
	prepare(serve_counting, 4);
	r.plan.connections = 1;
	r.habits.requests = 3;
	r.habits.cookies = r.plan.cookies = true;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 12);
	assert_int_equal(site.with_cookie, 8);
	finish();
}

/* Who waits for a connection leaves when his patience is over, and is not sent after that: of 50 who come at the same time only those few get the connection who are not yet gone. */
static void test_patience_waiting(void **state)
{
	const load_phase phase = {.length_ns = 50000, .rate = 1e6};
	prepare(serve_nothing, 1);
	load_schedule_free(&r.schedule);
	assert_int_equal(load_schedule_phases(&phase, 1, false, false, UINT64_MAX, &r.schedule), 0);
	r.plan.schedule = r.schedule;
	r.plan.connections = 1;
	r.plan.patience_ns = 20 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_ABORTED], 50);
	assert_true(atomic_load(&site.requests) <= 5);
	finish();
}

static void test_closed(void **state)
{
	prepare(serve_ok, 1);
	r.plan.schedule = NULL;
	r.plan.users = r.plan.connections = 5;
	r.plan.threads = 2;
	r.habits.requests = 0;
	assert_int_equal(rig_begin(), 0);
	/* One thread may be through with 200 before the other has begun. */
	CHECK_EVENTUALLY(atomic_load(&site.requests) > 200 && atomic_load(&site.peers) == 5);
	load_engine_stop(r.engine);
	CHECK_EVENTUALLY(load_engine_is_over(r.engine));
	rig_look();
	assert_int_equal(r.tally.connections, 5);
	assert_int_equal(r.tally.all.sent, ends());
	assert_int_equal(r.tally.all.ended[LOAD_OK], r.tally.all.sent);
	assert_int_equal(r.tally.open + r.tally.unsent, 0);
	assert_true(r.tally.all.sent > 200);
	finish();
}

/* What was meant to be sent within the warm-up is not counted, neither as sent nor as ended. */
static void test_warmup(void **state)
{
	prepare(serve_ok, 20);
	r.plan.warmup_ns = 10 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(site.requests, 20);
	assert_int_equal(r.tally.all.sent, 10);
	assert_int_equal(r.tally.all.ended[LOAD_OK], 10);
	finish();
}

static void test_no_memory(void **state)
{
	for (uint64_t nth = 1; nth < 40; nth++) {
		prepare(serve_ok, 2);
		rig_run_without_memory(nth);
		finish();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_answers),   CHECK_TEST(test_byte_by_byte),  CHECK_TEST(test_failures),
		CHECK_TEST(test_too_much),  CHECK_TEST(test_redirect),      CHECK_TEST(test_refused),
		CHECK_TEST(test_timeout),   CHECK_TEST(test_patience),      CHECK_TEST(test_retry),
		CHECK_TEST(test_unsent),    CHECK_TEST(test_stall),         CHECK_TEST(test_per_connection),
		CHECK_TEST(test_sessions),  CHECK_TEST(test_closed),        CHECK_TEST(test_warmup),
		CHECK_TEST(test_no_memory), CHECK_TEST(test_sessions_wait), CHECK_TEST(test_patience_waiting),
	};
	return cmocka_run_group_tests_name("load_engine", tests, NULL, NULL);
}
