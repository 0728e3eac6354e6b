/* SPDX-License-Identifier: Apache-2.0 */
/* Runs over HTTP/2 against a server, by nghttp2, that does as the test says, request by request. */
#include "on_engine.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- the server ---- */

enum { PEERS = 16, HELD = 64 };

typedef struct peer {
	int fd;
	nghttp2_session *session;
	int32_t held[HELD]; /* requests that have no answer yet */
	unsigned count;
} peer;

/* The number-th request (from 0) of all has come, and is the last of those held. False: the connection is cut. */
typedef bool serve_fn(peer *p, int32_t id, unsigned number);

typedef struct server {
	serve_fn *serve;
	uint32_t allows; /* streams; 0: does not say */
	bool keeps_window;
	bool waits; /* for the whole request, with windows as wide as can be */
	atomic_ullong bytes;
	pthread_t thread;
	int listener, quit[2];
	struct sockaddr_in at;
	peer peer[PEERS];
	unsigned number;
	bool cut;
	atomic_uint requests, most, cancels, peers;
} server;

static server s;

static void answer(peer *p, int32_t id)
{
	const nghttp2_nv status = {(uint8_t *)":status", (uint8_t *)"200", 7, 3, 0};
	nghttp2_submit_response(p->session, id, &status, 1, NULL);
	for (unsigned i = 0; i < p->count; i++)
		if (p->held[i] == id)
			p->held[i] = p->held[--p->count];
}

static void answer_all(peer *p)
{
	while (p->count > 0)
		answer(p, p->held[0]);
}

static void reset(peer *p, int32_t id, uint32_t code)
{
	nghttp2_submit_rst_stream(p->session, 0, id, code);
}

static int on_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	peer *p = user;
	bool content = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
	if (s.waits ? !content || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0
		    : frame->hd.type != NGHTTP2_HEADERS)
		return 0;
	p->held[p->count++ % HELD] = frame->hd.stream_id;
	if (p->count > atomic_load(&s.most))
		atomic_store(&s.most, p->count);
	atomic_fetch_add(&s.requests, 1);
	if (!s.serve(p, frame->hd.stream_id, s.number++))
		s.cut = true;
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t length,
		   void *user)
{
	atomic_fetch_add(&s.bytes, length);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	peer *p = user;
	if (code == NGHTTP2_CANCEL)
		atomic_fetch_add(&s.cancels, 1);
	for (unsigned i = 0; i < p->count; i++)
		if (p->held[i] == id)
			p->held[i] = p->held[--p->count];
	return 0;
}

static void hang_up(peer *p)
{
	nghttp2_session_del(p->session);
	close(p->fd);
	*p = (peer){.fd = -1};
}

static bool send_frames(peer *p)
{
	const uint8_t *bytes;
	ssize_t length;
	while ((length = nghttp2_session_mem_send(p->session, &bytes)) > 0)
		if (send(p->fd, bytes, (size_t)length, MSG_NOSIGNAL) != length)
			return false;
	return length == 0;
}

static void take(peer *p)
{
	uint8_t bytes[16384];
	ssize_t got = recv(p->fd, bytes, sizeof(bytes), 0);
	s.cut = false;
	if (got <= 0 || nghttp2_session_mem_recv(p->session, bytes, (size_t)got) < 0 || !send_frames(p) ||
	    s.cut)
		hang_up(p);
}

static void welcome(int fd)
{
	nghttp2_session_callbacks *calls;
	nghttp2_option *option;
	const nghttp2_settings_entry allows = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, s.allows};
	const nghttp2_settings_entry wide = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX};
	for (unsigned i = 0; i < PEERS && fd >= 0; i++)
		if (s.peer[i].fd < 0) {
			peer *p = &s.peer[i];
			*p = (peer){.fd = fd};
			nghttp2_session_callbacks_new(&calls);
			nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_headers);
			nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
			nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
			nghttp2_option_new(&option);
			nghttp2_option_set_no_auto_window_update(option, s.keeps_window);
			nghttp2_session_server_new2(&p->session, calls, p, option);
			nghttp2_option_del(option);
			nghttp2_session_callbacks_del(calls);
			nghttp2_submit_settings(p->session, 0, s.waits ? &wide : &allows,
						s.waits || s.allows > 0 ? 1 : 0);
			if (s.waits)
				nghttp2_session_set_local_window_size(p->session, 0, 0, INT32_MAX);
			atomic_fetch_add(&s.peers, 1);
			return;
		}
	close(fd);
}

static void *run_server(void *arg)
{
	struct pollfd ready[PEERS + 2];
	for (;;) {
		for (unsigned i = 0; i < PEERS; i++)
			ready[i] = (struct pollfd){.fd = s.peer[i].fd, .events = POLLIN};
		ready[PEERS] = (struct pollfd){.fd = s.listener, .events = POLLIN};
		ready[PEERS + 1] = (struct pollfd){.fd = s.quit[0], .events = POLLIN};
		poll(ready, PEERS + 2, -1);
		if (ready[PEERS + 1].revents != 0)
			return NULL;
		for (unsigned i = 0; i < PEERS; i++)
			if (ready[i].revents != 0 && s.peer[i].fd >= 0)
				take(&s.peer[i]);
		if (ready[PEERS].revents != 0)
			welcome(accept(s.listener, NULL, NULL));
	}
}

static void start_server(serve_fn *serve)
{
	memset(&s, 0, sizeof(s));
	s.serve = serve;
	for (unsigned i = 0; i < PEERS; i++)
		s.peer[i].fd = -1;
	s.listener = listen_anywhere(&s.at);
	assert_int_equal(pipe(s.quit), 0);
}

static void stop_server(void)
{
	close(s.quit[1]);
	pthread_join(s.thread, NULL);
	close(s.quit[0]);
	close(s.listener);
	for (unsigned i = 0; i < PEERS; i++)
		if (s.peer[i].fd >= 0)
			hang_up(&s.peer[i]);
}

/* ---- runs ---- */

/* count arrivals within so many milliseconds, each a user with one request, on one connection that may have 32 under way. */
static void prepare_within(serve_fn *serve, unsigned count, unsigned ms)
{
	start_server(serve);
	rig_prepare(&s.at, count, ms);
	r.plan.streams = 32;
	r.plan.http2 = true;
}

static void prepare(serve_fn *serve, unsigned count)
{
	prepare_within(serve, count, 1);
}

static void begin(void)
{
	assert_int_equal(pthread_create(&s.thread, NULL, run_server, NULL), 0);
	assert_int_equal(rig_begin(), 0);
}

static void run(void)
{
	begin();
	rig_await();
}

static void finish(void)
{
	rig_finish();
	stop_server();
}

static uint64_t failed(load_error error)
{
	return r.tally.errors[error];
}

/* ---- many at a time ---- */

/* Nobody is answered before eight wait. */
static bool serve_eight(peer *p, int32_t id, unsigned number)
{
	if (p->count == 8)
		answer_all(p);
	return true;
}

static void test_many(void **state)
{
	prepare(serve_eight, 24);
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 24);
	assert_int_equal(r.tally.connections, 1);
	assert_int_equal(s.most, 8);
	finish();
}

/* Eight users on one connection who all wait for each other; with fewer streams they would wait for ever. */
static void test_closed(void **state)
{
	prepare(serve_eight, 1);
	r.plan.schedule = NULL;
	r.plan.users = 8;
	r.plan.streams = 8;
	r.plan.drain_ns = 0;
	r.habits.requests = 0;
	begin();
	CHECK_EVENTUALLY(atomic_load(&s.requests) > 200);
	load_engine_stop(r.engine);
	finish();
}

/* Streams of a connection are filled before there is another. */
static void test_fills(void **state)
{
	prepare(serve_eight, 16);
	r.plan.streams = 8;
	r.plan.connections = 4;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 16);
	assert_true(r.tally.connections <= 2);
	assert_int_equal(s.most, 8);
	finish();
}

static bool serve_three(peer *p, int32_t id, unsigned number)
{
	if (p->count == 3)
		answer_all(p);
	return true;
}

/* Not one more than the server allows, not even before it has said so. */
static void test_allowed(void **state)
{
	prepare(serve_three, 12);
	s.allows = 3;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 12);
	assert_int_equal(s.most, 3);
	assert_int_equal(r.tally.connections, 1);
	finish();
}

static bool serve_at_once(peer *p, int32_t id, unsigned number)
{
	answer(p, id);
	return true;
}

static void test_per_connection(void **state)
{
	prepare(serve_at_once, 12);
	r.plan.per_connection = 4;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 12);
	assert_int_equal(r.tally.connections, 3);
	finish();
}

/* ---- what a server does to single streams ---- */

static bool refuse_first(peer *p, int32_t id, unsigned number)
{
	if (number < 4)
		reset(p, id, NGHTTP2_REFUSED_STREAM);
	else
		answer(p, id);
	return true;
}

static void test_refused(void **state)
{
	prepare(refuse_first, 8);
	run();
	assert_int_equal(failed(LOAD_ERROR_REFUSED), 4);
	assert_int_equal(r.tally.all.ended[LOAD_OK], 4);
	assert_int_equal(r.tally.connections, 1);
	finish();
	prepare(refuse_first, 8);
	r.plan.retries = 4;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 8);
	assert_int_equal(r.tally.all.retries, 4);
	assert_int_equal(s.requests, 12);
	finish();
}

static bool reset_second(peer *p, int32_t id, unsigned number)
{
	if (number % 2 == 1)
		reset(p, id, NGHTTP2_INTERNAL_ERROR);
	else
		answer(p, id);
	return true;
}

static void test_reset(void **state)
{
	prepare(reset_second, 8);
	run();
	assert_int_equal(failed(LOAD_ERROR_RESET), 4);
	assert_int_equal(r.tally.all.ended[LOAD_OK], 4);
	assert_int_equal(r.tally.connections, 1);
	finish();
}

/* The first is never answered: its user leaves, and the others notice nothing. */
static bool answer_others(peer *p, int32_t id, unsigned number)
{
	if (number > 0)
		answer(p, id);
	return true;
}

static void test_patience(void **state)
{
	prepare_within(answer_others, 10, 500);
	r.plan.patience_ns = 200 * WEIR_NS_PER_MS;
	run();
	/* On a machine that stands still for a while others may leave as well. */
	assert_true(r.tally.all.ended[LOAD_ABORTED] >= 1);
	assert_true(r.tally.all.ended[LOAD_OK] >= 1);
	assert_int_equal(r.tally.all.ended[LOAD_ABORTED] + r.tally.all.ended[LOAD_OK], 10);
	assert_int_equal(r.tally.connections, 1);
	CHECK_EVENTUALLY(atomic_load(&s.cancels) >= 1);
	finish();
}

static bool answer_none(peer *p, int32_t id, unsigned number)
{
	return true;
}

/* More than the server allows wait within, and leave without having been sent. */
static void test_patience_unsent(void **state)
{
	prepare(answer_none, 6);
	s.allows = 2;
	r.plan.patience_ns = 100 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_ABORTED], 6);
	assert_true(atomic_load(&s.requests) <= 6);
	assert_true(atomic_load(&s.most) <= 2);
	finish();
}

/* A connection on which nothing has come for as long as a request may take is not used for others. (During the first attempt the settings came.) */
static void test_timeout(void **state)
{
	prepare(answer_none, 3);
	r.plan.retries = 2;
	r.plan.timeout_ns = 20 * WEIR_NS_PER_MS;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_TIMEOUT], 3);
	assert_true(r.tally.connections >= 2);
	finish();
}

/* ---- what it does to all of them ---- */

/* Says at the fourth that the second was the last it looks at. */
static bool go_away_at_four(peer *p, int32_t id, unsigned number)
{
	if (number > 3)
		return serve_at_once(p, id, number);
	if (number < 3)
		return true;
	nghttp2_submit_goaway(p->session, 0, 3, NGHTTP2_NO_ERROR, NULL, 0);
	answer(p, 1);
	answer(p, 3);
	return true;
}

static void test_goaway(void **state)
{
	prepare(go_away_at_four, 4);
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 2);
	assert_int_equal(failed(LOAD_ERROR_REFUSED), 2);
	assert_int_equal(r.tally.connections, 1);
	finish();
	prepare(go_away_at_four, 4);
	r.plan.retries = 1;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 4);
	assert_int_equal(r.tally.all.retries, 2);
	assert_int_equal(r.tally.connections, 2);
	finish();
}

static bool cut_at_four(peer *p, int32_t id, unsigned number)
{
	return number < 3;
}

static void test_cut(void **state)
{
	prepare(cut_at_four, 4);
	run();
	assert_int_equal(failed(LOAD_ERROR_CUT), 4);
	finish();
}

static bool say_nonsense(peer *p, int32_t id, unsigned number)
{
	static const uint8_t frame[] = {0, 0, 5,   6,   0,   0,   0,
					0, 0, 'w', 'h', 'a', 't', '?'}; /* a PING of 5 bytes */
	if (number == 3 && send(p->fd, frame, sizeof(frame), MSG_NOSIGNAL) < 0)
		return false;
	return true;
}

static void test_nonsense(void **state)
{
	prepare(say_nonsense, 4);
	run();
	assert_int_equal(failed(LOAD_ERROR_NONSENSE), 4);
	finish();
}

/* ---- answers ---- */

static bool serve_hints(peer *p, int32_t id, unsigned number)
{
	const nghttp2_nv status = {(uint8_t *)":status", (uint8_t *)"103", 7, 3, 0};
	for (unsigned i = 0; i < (number == 0 ? 100 : 3); i++)
		nghttp2_submit_headers(p->session, 0, id, NULL, &status, 1, NULL);
	answer(p, id);
	return true;
}

/* A few interim answers are passed over; one who does not stop loses its stream. */
static void test_interim(void **state)
{
	prepare(serve_hints, 4);
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 3);
	assert_int_equal(failed(LOAD_ERROR_NONSENSE), 1);
	assert_int_equal(r.tally.connections, 1);
	finish();
}

static bool serve_wide(peer *p, int32_t id, unsigned number)
{
	static char wide[4000];
	nghttp2_nv fields[16] = {{(uint8_t *)":status", (uint8_t *)"200", 7, 3, 0}};
	unsigned count = number == 0 ? 16 : 4;
	memset(wide, 'x', sizeof(wide));
	for (unsigned i = 1; i < count; i++)
		fields[i] = (nghttp2_nv){(uint8_t *)"x-wide", (uint8_t *)wide, 6, sizeof(wide), 0};
	nghttp2_submit_response(p->session, id, fields, count, NULL);
	return true;
}

static void test_wide_head(void **state)
{
	prepare(serve_wide, 3);
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 2);
	assert_int_equal(failed(LOAD_ERROR_NONSENSE), 1);
	finish();
}

/* An answer is whole although the server has not taken the request's body, and never will. */
static void test_early_answer(void **state)
{
	static char body[200000];
	memset(body, 'b', sizeof(body));
	prepare(serve_at_once, 3);
	s.keeps_window = true;
	r.habits.body = body;
	r.habits.body_length = sizeof(body);
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], 3);
	finish();
}

/* Bodies that are more together than may wait to be sent, and a server that takes them all at once. */
static void test_large_bodies(void **state)
{
	enum { BODY = 12 << 20, REQUESTS = 8 };
	prepare(serve_at_once, REQUESTS);
	s.waits = true;
	r.habits.body = calloc(1, BODY);
	r.habits.body_length = BODY;
	run();
	assert_int_equal(r.tally.all.ended[LOAD_OK], REQUESTS);
	assert_int_equal(s.bytes, (uint64_t)BODY * REQUESTS);
	assert_int_equal(r.tally.connections, 1);
	finish();
	free((char *)(uintptr_t)r.habits.body);
}

static void test_no_memory(void **state)
{
	for (uint64_t nth = 1; nth < 40; nth++) {
		prepare(serve_at_once, 3);
		assert_int_equal(pthread_create(&s.thread, NULL, run_server, NULL), 0);
		rig_run_without_memory(nth);
		finish();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(test_many),
		CHECK_TEST(test_closed),
		CHECK_TEST(test_fills),
		CHECK_TEST(test_allowed),
		CHECK_TEST(test_per_connection),
		CHECK_TEST(test_refused),
		CHECK_TEST(test_reset),
		CHECK_TEST(test_patience),
		CHECK_TEST(test_patience_unsent),
		CHECK_TEST(test_timeout),
		CHECK_TEST(test_goaway),
		CHECK_TEST(test_cut),
		CHECK_TEST(test_nonsense),
		CHECK_TEST(test_interim),
		CHECK_TEST(test_wide_head),
		CHECK_TEST(test_early_answer),
		CHECK_TEST(test_large_bodies),
		CHECK_TEST(test_no_memory),
	};
	return cmocka_run_group_tests_name("load_streams", tests, NULL, NULL);
}
