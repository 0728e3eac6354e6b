/* SPDX-License-Identifier: Apache-2.0 */
#include "on_backend.h"

#include "sentry/upstream_priv.h"

#define OK_HELLO   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define NO_LIMITS  ((weir_upstream_limits){0})
#define NO_OPTIONS ((weir_origin_options){0})
#define SHORT_NS   (20 * WEIR_NS_PER_MS)

static void rig_plain(rig *r, void **state)
{
	rig_init(r, loop_of(state), NO_LIMITS, NO_OPTIONS);
}

/* The end of a test: its last talk (or NULL), and the backend's side of its connection. */
static void rig_leave(rig *r, talk *t, int peer)
{
	if (t != NULL)
		talk_fini(t);
	close(peer);
	rig_end(r);
}

/* One call over a new connection, answered; the connection stays open. */
static int first_call(rig *r, const char *answer)
{
	talk t = {0};
	talk_get(r, &t);
	int peer = rig_accept(r);
	hear_text(r->loop, peer, GET_HEAD);
	say(peer, answer);
	turn_until(r->loop, t.over);
	assert_int_equal(t.failures, 0);
	talk_fini(&t);
	return peer;
}

/* A call that has been heard by the backend; returns the backend's end. */
static int heard_call(rig *r, talk *t, const weir_call_ops *ops)
{
	assert_int_equal(talk_start_with(r, t, ops, GET_HEAD, (weir_call_request){.method = WEIR_METHOD_GET}),
			 0);
	int peer = rig_accept(r);
	hear_text(r->loop, peer, GET_HEAD);
	return peer;
}

/* The call fails at that step with that error, and the backend's connection ends. */
static void must_fail(rig *r, talk *t, int peer, weir_call_step step, int error)
{
	turn_until(r->loop, t->over);
	assert_int_equal(t->failures, 1);
	assert_int_equal(t->ends + t->wholes, 0);
	assert_int_equal(t->failure.step, step);
	assert_int_equal(t->failure.error, error);
	assert_int_equal(weir_origin_in_flight(r->backend), 0);
	turn_until(r->loop, weir_upstream_open(r->upstream) == 0);
	if (peer >= 0)
		close(peer);
	talk_fini(t);
}

/* ---- the everyday ---- */

static void an_answer_comes_whole_and_its_connection_is_used_again(void **state)
{
	rig r;
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	for (int i = 0; i < 3; i++) {
		talk t = {0};
		talk_get(&r, &t);
		assert_int_equal(t.ready, 1);
		assert_int_equal(weir_origin_in_flight(r.backend), 1);
		hear_text(r.loop, peer, GET_HEAD);
		say(peer, OK_HELLO);
		turn_until(r.loop, t.over);
		assert_int_equal(t.wholes, 1);
		assert_int_equal(t.status, 200);
		assert_string_equal(t.body, "hello");
		talk_fini(&t);
	}
	assert_true(nobody_connects(&r));
	weir_upstream_counts counts = counts_of(&r);
	assert_int_equal(counts.calls, 4);
	assert_int_equal(counts.reused, 3);
	assert_int_equal(counts.connects, 1);
	assert_int_equal(counts.idle, 1);
	assert_int_equal(counts.open, 1);
	assert_true(atomic_load(&r.backend->shared.latency_ns) > 0);
	rig_leave(&r, NULL, peer);
}

static void an_answer_in_single_bytes_is_the_same(void **state)
{
	rig r;
	talk t = {0};
	const char answer[] = "HTTP/1.1 201 Created\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
			      "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nT: v\r\n\r\n";
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &talk_ops);
	for (size_t i = 0; i < sizeof(answer) - 1; i++) {
		assert_false(t.over);
		assert_int_equal(send(peer, answer + i, 1, MSG_NOSIGNAL), 1);
		turn_some(r.loop);
	}
	turn_until(r.loop, t.over);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.status, 201);
	assert_string_equal(t.body, "abcdefg");
	assert_string_equal(t.trailer, "v");
	assert_int_equal(counts_of(&r).idle, 1);
	rig_leave(&r, &t, peer);
}

/* Every way to cut an answer in two gives the same. */
static void an_answer_in_two_parts_is_the_same(void **state)
{
	rig r;
	const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX: y\r\n\r\nabcdefg";
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	for (size_t cut = 1; cut < sizeof(answer) - 1; cut++) {
		talk t = {0};
		talk_get(&r, &t);
		hear_text(r.loop, peer, GET_HEAD);
		assert_int_equal(send(peer, answer, cut, MSG_NOSIGNAL), (ssize_t)cut);
		turn_some(r.loop);
		assert_false(t.over);
		say(peer, answer + cut);
		turn_until(r.loop, t.over);
		assert_int_equal(t.failures, 0);
		assert_string_equal(t.body, "abcdefg");
		talk_fini(&t);
	}
	assert_true(nobody_connects(&r));
	rig_leave(&r, NULL, peer);
}

static void answers_without_a_body_end_with_their_head(void **state)
{
	static const struct {
		weir_method method;
		const char *answer;
	} cases[] = {
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"},
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{WEIR_METHOD_GET, "HTTP/1.1 204 No Content\r\n\r\n"},
		{WEIR_METHOD_GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n"},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	};
	rig r;
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int stream = 0; stream < 2; stream++) {
			talk t = {0};
			talk_start_with(&r, &t, stream ? &stream_ops : &talk_ops, GET_HEAD,
					(weir_call_request){.method = cases[i].method});
			hear_text(r.loop, peer, GET_HEAD);
			say(peer, cases[i].answer);
			turn_until(r.loop, t.over);
			assert_int_equal(t.failures, 0);
			assert_int_equal(t.body_length, 0);
			assert_int_equal(t.ends, stream);
		}
	}
	assert_int_equal(counts_of(&r).connects, 1);
	rig_leave(&r, NULL, peer);
}

/* Its head came before and is not read again, but what it means depends on the request, and on what follows. */
static void an_answer_that_came_before_is_not_mistaken(void **state)
{
	static const struct {
		weir_method method;
		const char *answer, *body;
		bool kept;
	} cases[] = {
		{WEIR_METHOD_GET, OK_HELLO, "hello", true},
		{WEIR_METHOD_GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother", "other", true},
		{WEIR_METHOD_POST, OK_HELLO, "hello", true},
		{WEIR_METHOD_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", NULL, true},
		{WEIR_METHOD_GET, OK_HELLO "x", "hello", false},
		{WEIR_METHOD_HEAD, OK_HELLO, NULL, false},
	};
	rig r;
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		talk t = {0};
		for (int again = 0; again < 2; again++) {
			talk before = {0};
			talk_get(&r, &before);
			hear_text(r.loop, peer, GET_HEAD);
			say(peer, OK_HELLO);
			turn_until(r.loop, before.over);
			talk_fini(&before);
		}
		talk_start_with(&r, &t, &talk_ops, GET_HEAD, (weir_call_request){.method = cases[i].method});
		hear_text(r.loop, peer, GET_HEAD);
		say(peer, cases[i].answer);
		turn_until(r.loop, t.over);
		assert_int_equal(t.wholes, 1);
		assert_int_equal(t.status, 200);
		assert_int_equal(t.bodiless, cases[i].body == NULL);
		if (cases[i].body != NULL)
			assert_string_equal(t.body, cases[i].body);
		assert_int_equal(counts_of(&r).idle, cases[i].kept);
		talk_fini(&t);
		if (!cases[i].kept) {
			close(peer);
			peer = first_call(&r, OK_HELLO);
		}
	}
	rig_leave(&r, NULL, peer);
}

static void an_answer_up_to_the_end_of_the_connection(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &talk_ops);
	say(peer, "HTTP/1.0 200 OK\r\n\r\nabc");
	turn_until(r.loop, t.body_length == 3);
	assert_false(t.over);
	say(peer, "def");
	close(peer);
	turn_until(r.loop, t.over);
	assert_int_equal(t.ends, 1);
	assert_string_equal(t.body, "abcdef");
	assert_int_equal(counts_of(&r).idle, 0);
	talk_fini(&t);
	rig_end(&r);
}

static void close_is_honoured(void **state)
{
	rig r;
	rig_plain(&r, state);
	int peer = first_call(&r, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	close(peer);
	close(first_call(&r, OK_HELLO));
	rig_end(&r);
}

/* ---- request bodies ---- */

#define POST_HEAD    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n"
#define CHUNKED_HEAD "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

static weir_buf *buf_of(const void *bytes, size_t length)
{
	weir_buf *buf = weir_buf_new(length);
	memcpy(buf->data, bytes, length);
	buf->length = (uint32_t)length;
	return buf;
}

static int send_text(talk *t, const char *text)
{
	weir_buf *buf = buf_of(text, strlen(text));
	int error = weir_call_send(&t->call, buf, 0, buf->length);
	weir_buf_unref(buf);
	return error;
}

static void send_six(talk *t)
{
	assert_int_equal(send_text(t, "abcdef"), 0);
	weir_call_finish(&t->call, NULL, 0);
}

static void a_body_of_known_length(void **state)
{
	rig r;
	rig_plain(&r, state);
	int peer = -1;
	for (int i = 0; i < 2; i++) {
		talk t = {.in_ready = send_six};
		talk_start_with(&r, &t, &talk_ops, POST_HEAD,
				(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_LENGTH});
		assert_int_equal(t.ready, i);
		peer = i == 0 ? rig_accept(&r) : peer;
		hear_text(r.loop, peer, POST_HEAD "abcdef");
		say(peer, OK_HELLO);
		turn_until(r.loop, t.over);
		assert_int_equal(t.wholes, 1);
		talk_fini(&t);
	}
	assert_int_equal(counts_of(&r).reused, 1);
	rig_leave(&r, NULL, peer);
}

static void a_chunked_body_with_trailers(void **state)
{
	rig r;
	talk t = {0};
	char large[5000], expected[5100];
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	rig_plain(&r, state);
	talk_start_with(&r, &t, &talk_ops, CHUNKED_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_CHUNKED});
	assert_int_equal(send_text(&t, "early"), -ENOBUFS);
	int peer = rig_accept(&r);
	turn_until(r.loop, t.ready == 1);
	assert_int_equal(send_text(&t, "abc"), 0);
	assert_int_equal(send_text(&t, ""), 0);
	assert_int_equal(send_text(&t, large), 0);
	weir_field trailers[] = {{WEIR_SPAN("A"), WEIR_SPAN("b")}, {WEIR_SPAN("C"), WEIR_SPAN("")}};
	weir_call_finish(&t.call, trailers, 2);
	weir_call_finish(&t.call, trailers, 2);
	snprintf(expected, sizeof(expected), "%s3\r\nabc\r\n1387\r\n%s\r\n0\r\nA: b\r\nC: \r\n\r\n",
		 CHUNKED_HEAD, large);
	hear_text(r.loop, peer, expected);
	say(peer, OK_HELLO);
	turn_until(r.loop, t.over);
	assert_int_equal(counts_of(&r).idle, 1);
	rig_leave(&r, &t, peer);
}

/* Before the request is complete: the answer stands, and the connection is of no further use. */
static void an_early_answer_stands(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	talk_start_with(&r, &t, &talk_ops, POST_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_LENGTH});
	int peer = rig_accept(&r);
	turn_until(r.loop, t.ready == 1);
	assert_int_equal(send_text(&t, "abc"), 0);
	hear_text(r.loop, peer, POST_HEAD "abc");
	say(peer, OK_HELLO);
	turn_until(r.loop, t.over);
	assert_int_equal(t.wholes, 1);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	assert_int_equal(send_text(&t, "def"), -EPIPE);
	weir_call_finish(&t.call, NULL, 0);
	rig_leave(&r, &t, peer);
}

static void interim_answers_are_passed_on(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	talk_start_with(&r, &t, &talk_ops, POST_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_LENGTH});
	int peer = rig_accept(&r);
	hear_text(r.loop, peer, POST_HEAD);
	say(peer, "HTTP/1.1 100 Continue\r\n\r\n");
	turn_until(r.loop, t.interims == 1);
	assert_int_equal(t.interim_status, 100);
	send_six(&t);
	hear_text(r.loop, peer, "abcdef");
	say(peer, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" OK_HELLO);
	turn_until(r.loop, t.over);
	assert_int_equal(t.interims, 2);
	assert_int_equal(t.interim_status, 103);
	assert_int_equal(t.wholes, 1);
	assert_int_equal(counts_of(&r).idle, 1);
	rig_leave(&r, &t, peer);
}

/* ---- what backends should not do ---- */

static void garbage_fails_the_call(void **state)
{
	static const struct {
		const char *bytes;
		weir_call_step step;
	} cases[] = {
		{"SSH-2.0-OpenSSH_9.2\r\n\r\n", WEIR_CALL_HEAD},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", WEIR_CALL_HEAD},
		{"HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n", WEIR_CALL_HEAD},
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		 WEIR_CALL_HEAD},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", WEIR_CALL_BODY},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 1\r\n\r\n",
		 WEIR_CALL_BODY},
	};
	rig r;
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1000});
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		talk t = {0};
		int peer = heard_call(&r, &t, &talk_ops);
		say(peer, cases[i].bytes);
		must_fail(&r, &t, peer, cases[i].step, -EPROTO);
		assert_true(t.failure.received);
	}
	assert_int_equal(counts_of(&r).failures, 6);
	rig_end(&r);
}

static void endless_interim_answers_end(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &talk_ops);
	for (int i = 0; i < 17; i++)
		say(peer, "HTTP/1.1 102 Processing\r\n\r\n");
	must_fail(&r, &t, peer, WEIR_CALL_HEAD, -EPROTO);
	assert_int_equal(t.interims, 16);
	rig_end(&r);
}

/* A head that never ends, at once and in parts; nothing is kept beyond its bound. */
static void a_huge_head_is_refused(void **state)
{
	char line[1001];
	memset(line, 'a', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + 998, "\r\n", 3);
	for (int parts = 0; parts < 2; parts++) {
		rig r;
		talk t = {0};
		rig_init(&r, loop_of(state), (weir_upstream_limits){.head_bytes = 4096}, NO_OPTIONS);
		int peer = heard_call(&r, &t, &talk_ops);
		say(peer, "HTTP/1.1 200 OK\r\n");
		for (int i = 0; i < 10 && !t.over; i++) {
			assert_true(send(peer, line, 1000, MSG_NOSIGNAL) > 0);
			if (parts)
				turn_some(r.loop);
		}
		must_fail(&r, &t, peer, WEIR_CALL_HEAD, -EPROTO);
		rig_end(&r);
	}
}

static void too_many_fields_are_refused(void **state)
{
	rig r;
	talk t = {0};
	rig_init(&r, loop_of(state), (weir_upstream_limits){.fields = 3}, NO_OPTIONS);
	close(first_call(&r, "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nContent-Length: 0\r\n\r\n"));
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	int peer = heard_call(&r, &t, &talk_ops);
	say(peer, "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\nContent-Length: 0\r\n\r\n");
	must_fail(&r, &t, peer, WEIR_CALL_HEAD, -EPROTO);
	rig_end(&r);
}

/* Two answers to one request: the first stands, and nobody gets the second. */
static void an_answer_too_many_costs_the_connection(void **state)
{
	static const char *const answers[] = {
		OK_HELLO OK_HELLO,
		"HTTP/1.1 204 No Content\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nx",
	};
	for (size_t i = 0; i < 3; i++) {
		rig r;
		rig_plain(&r, state);
		int peer = first_call(&r, answers[i]);
		assert_int_equal(counts_of(&r).idle, 0);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		close(peer);
		/* Later, on a connection that is idle. */
		peer = first_call(&r, OK_HELLO);
		assert_int_equal(counts_of(&r).idle, 1);
		say(peer, OK_HELLO);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		assert_int_equal(counts_of(&r).idle, 0);
		assert_int_equal(counts_of(&r).failures, 0);
		rig_leave(&r, NULL, peer);
	}
}

static void a_backend_that_goes_away_within(void **state)
{
	static const struct {
		const char *bytes;
		weir_call_step step;
		bool received;
	} cases[] = {
		{"", WEIR_CALL_ANSWER, false},
		{"HTTP/1.1 200 OK\r\nConten", WEIR_CALL_HEAD, true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", WEIR_CALL_BODY, true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", WEIR_CALL_BODY, true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n", WEIR_CALL_BODY, true},
	};
	rig r;
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1000});
	for (int with_reset = 0; with_reset < 2; with_reset++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			talk t = {0};
			int peer = heard_call(&r, &t, &talk_ops);
			if (cases[i].received) {
				say(peer, cases[i].bytes);
				turn_until(r.loop, t.call.conn != NULL && weir_loop_turn(r.loop, 0) == 0);
				turn_some(r.loop);
			}
			if (with_reset)
				reset_socket(peer);
			else
				close(peer);
			must_fail(&r, &t, -1, cases[i].step, -ECONNRESET);
			assert_int_equal(t.failure.received, cases[i].received);
			assert_true(t.failure.sent);
			assert_false(t.failure.reused);
		}
	}
	rig_end(&r);
}

static void nobody_listens(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	close(r.listener);
	r.listener = -1;
	talk_get(&r, &t);
	must_fail(&r, &t, -1, WEIR_CALL_CONNECT, -ECONNREFUSED);
	assert_false(t.failure.sent);
	assert_false(t.failure.received);
	assert_int_equal(t.ready, 0);
	rig_end(&r);
}

/* ---- idle connections ---- */

static void a_kept_connection_that_is_closed_is_noticed(void **state)
{
	rig r;
	rig_plain(&r, state);
	for (int with_reset = 0; with_reset < 2; with_reset++) {
		int peer = first_call(&r, OK_HELLO);
		assert_int_equal(counts_of(&r).idle, 1);
		if (with_reset)
			reset_socket(peer);
		else
			close(peer);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		assert_int_equal(counts_of(&r).idle, 0);
	}
	assert_int_equal(counts_of(&r).failures, 0);
	rig_end(&r);
}

/* The backend closes it before it is noticed: the call fails as one that may be made again, and nobody is blamed. */
static void a_kept_connection_dies_under_a_call(void **state)
{
	rig r;
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1});
	int peer = first_call(&r, OK_HELLO);
	close(peer);
	talk t = {0};
	talk_get(&r, &t);
	turn_until(r.loop, t.over);
	assert_int_equal(t.failures, 1);
	assert_true(t.failure.reused);
	assert_false(t.failure.received);
	assert_int_equal(t.failure.step, WEIR_CALL_ANSWER);
	assert_int_equal(atomic_load(&r.backend->shared.failed_in_row), 0);
	rig_end(&r);
}

/* It has died in this very turn, and we have not been told: another one is taken. */
static void a_kept_connection_that_is_dead_already_is_stepped_over(void **state)
{
	rig r;
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	weir_conn_abort(atomic_load(&r.upstream->lanes[0])->newest->link.conn, -ECONNRESET);
	close(first_call(&r, OK_HELLO));
	assert_int_equal(counts_of(&r).failures, 0);
	rig_leave(&r, NULL, peer);
}

static void a_fresh_connection_can_be_asked_for(void **state)
{
	rig r;
	talk t = {0};
	rig_plain(&r, state);
	int peer = first_call(&r, OK_HELLO);
	talk_start_with(&r, &t, &talk_ops, GET_HEAD,
			(weir_call_request){.method = WEIR_METHOD_GET, .fresh = true});
	int other = rig_accept(&r);
	say(other, OK_HELLO);
	turn_until(r.loop, t.over);
	assert_int_equal(counts_of(&r).idle, 2);
	talk_fini(&t);
	close(peer);
	close(other);
	rig_end(&r);
}

/* No more are kept than allowed; the oldest goes, and the newest is used first. */
static void kept_connections_are_bounded(void **state)
{
	rig r;
	talk t[3] = {{.rig = NULL}};
	int peer[3];
	rig_init(&r, loop_of(state), (weir_upstream_limits){.idle = 2}, NO_OPTIONS);
	for (int i = 0; i < 3; i++)
		peer[i] = heard_call(&r, &t[i], &talk_ops);
	for (int i = 0; i < 3; i++) {
		say(peer[i], OK_HELLO);
		turn_until(r.loop, t[i].over);
		talk_fini(&t[i]);
	}
	assert_int_equal(counts_of(&r).idle, 2);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 2);
	assert_int_equal(hear_end(r.loop, peer[0]), 0);
	talk again = {0};
	talk_get(&r, &again);
	hear_text(r.loop, peer[2], GET_HEAD);
	say(peer[2], OK_HELLO);
	turn_until(r.loop, again.over);
	talk_fini(&again);
	for (int i = 0; i < 3; i++)
		close(peer[i]);
	rig_end(&r);
}

static void a_connection_idle_for_too_long_is_closed(void **state)
{
	rig r;
	rig_init(&r, loop_of(state), (weir_upstream_limits){.idle_ns = SHORT_NS}, NO_OPTIONS);
	int peer = first_call(&r, OK_HELLO);
	assert_int_equal(hear_end(r.loop, peer), 0);
	assert_int_equal(counts_of(&r).idle, 0);
	assert_int_equal(counts_of(&r).failures, 0);
	rig_leave(&r, NULL, peer);
}

static void a_retired_backend_keeps_no_connection(void **state)
{
	rig r;
	rig_plain(&r, state);
	atomic_store(&r.backend->shared.retired, true);
	int peer = first_call(&r, OK_HELLO);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	rig_leave(&r, NULL, peer);
}

/* ---- time ---- */

static void a_backend_that_hangs(void **state)
{
	static const struct {
		const char *bytes;
		weir_call_step step;
	} cases[] = {
		{"", WEIR_CALL_ANSWER},
		{"HTTP/1.1 200 OK\r\n", WEIR_CALL_HEAD},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", WEIR_CALL_BODY},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", WEIR_CALL_BODY},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", WEIR_CALL_BODY},
		{"HTTP/1.0 200 OK\r\n\r\nhello", WEIR_CALL_BODY},
	};
	rig r;
	rig_init(&r, loop_of(state), (weir_upstream_limits){.head_ns = SHORT_NS, .gap_ns = SHORT_NS},
		 (weir_origin_options){.failures = 1000});
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		talk t = {0};
		talk_get(&r, &t);
		int peer = rig_accept(&r);
		/* A turn reads before it looks at timers, so that these bytes count, however late it is. */
		if (cases[i].bytes[0] != '\0')
			say(peer, cases[i].bytes);
		must_fail(&r, &t, peer, cases[i].step, -ETIMEDOUT);
	}
	assert_int_equal(atomic_load(&r.backend->shared.failed_in_row) > 0, true);
	rig_end(&r);
}

static void must_be_fresh(talk *t)
{
	assert_int_equal(t->call.conn->progress_ns, weir_loop_now(t->rig->loop));
}

/* Gaps are counted from the last byte, not from the first. */
static void each_part_of_a_body_begins_a_new_gap(void **state)
{
	rig r;
	talk t = {.in_data = must_be_fresh};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &stream_ops);
	say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
	for (size_t i = 1; i <= 3; i++) {
		turn_some(r.loop);
		say(peer, "x");
		turn_until(r.loop, t.body_length == i);
	}
	turn_until(r.loop, t.over);
	rig_leave(&r, &t, peer);
}

/* A full backlog leaves a connect without an answer. */
static void a_connect_that_hangs(void **state)
{
	rig r;
	talk t = {0};
	int fill[64], count = 0;
	struct sockaddr_in at;
	socklen_t length = sizeof(at);
	rig_init(&r, loop_of(state), (weir_upstream_limits){.connect_ns = SHORT_NS}, NO_OPTIONS);
	assert_int_equal(listen(r.listener, 1), 0);
	getsockname(r.listener, (struct sockaddr *)&at, &length);
	for (; count < 64; count++) {
		fill[count] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fill[count], (struct sockaddr *)&at, sizeof(at));
	}
	talk_get(&r, &t);
	must_fail(&r, &t, -1, WEIR_CALL_CONNECT, -ETIMEDOUT);
	while (count > 0)
		close(fill[--count]);
	rig_end(&r);
}

/* Whatever comes, and however steadily. */
static void all_of_a_call_can_be_bounded(void **state)
{
	rig r;
	talk t = {0};
	rig_init(&r, loop_of(state), (weir_upstream_limits){.total_ns = 5 * SHORT_NS}, NO_OPTIONS);
	talk_get(&r, &t);
	int peer = rig_accept(&r);
	say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
	for (int i = 0; i < 1000 * TURNS_MOST && !t.over; i++) {
		send(peer, "x", 1, MSG_NOSIGNAL);
		weir_loop_turn(r.loop, WEIR_NS_PER_MS);
	}
	assert_int_equal(t.failures, 1);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	rig_leave(&r, &t, peer);
}

/* While the request is still being written, the answer is not late. */
static void an_answer_is_not_late_before_the_request_is_complete(void **state)
{
	rig r;
	talk t = {0};
	rig_init(&r, loop_of(state), (weir_upstream_limits){.head_ns = SHORT_NS}, NO_OPTIONS);
	talk_start_with(&r, &t, &talk_ops, POST_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_LENGTH});
	int peer = rig_accept(&r);
	hear_text(r.loop, peer, POST_HEAD);
	uint64_t until_ns = weir_loop_now(r.loop) + 2 * SHORT_NS;
	while (weir_loop_now(r.loop) < until_ns)
		assert_int_equal(weir_loop_turn(r.loop, SHORT_NS), 0);
	assert_false(t.over);
	send_six(&t);
	must_fail(&r, &t, peer, WEIR_CALL_ANSWER, -ETIMEDOUT);
	rig_end(&r);
}

/* ---- back-pressure ---- */

static void pause_at_once(talk *t)
{
	weir_call_pause(&t->call);
}

/* A paused call hears nothing, not even of the end; then all of it, in order. */
static void a_paused_call_hears_nothing(void **state)
{
	static const char *const rests[] = {"", "x"};
	for (int rest = 0; rest < 2; rest++) {
		rig r;
		talk t = {.in_head = pause_at_once, .in_data = pause_at_once};
		rig_init(&r, loop_of(state), (weir_upstream_limits){.gap_ns = SHORT_NS}, NO_OPTIONS);
		int peer = heard_call(&r, &t, &stream_ops);
		say(peer,
		    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
		say(peer, rests[rest]);
		turn_until(r.loop, t.heads == 1);
		uint64_t until_ns = weir_loop_now(r.loop) + 2 * SHORT_NS;
		while (weir_loop_now(r.loop) < until_ns)
			assert_int_equal(weir_loop_turn(r.loop, SHORT_NS), 0);
		assert_int_equal(t.body_length, 0);
		weir_call_resume(&t.call);
		turn_until(r.loop, t.body_length == 3);
		turn_some(r.loop);
		assert_int_equal(t.body_length, 3);
		weir_call_resume(&t.call);
		turn_until(r.loop, t.body_length == 6);
		assert_false(t.over);
		weir_call_resume(&t.call);
		turn_until(r.loop, t.over);
		assert_string_equal(t.body, "abcdef");
		assert_int_equal(t.ends, 1);
		assert_int_equal(counts_of(&r).idle, 1 - (unsigned)rest);
		rig_leave(&r, &t, peer);
	}
}

static void a_call_paused_at_its_last_byte_ends_when_resumed(void **state)
{
	rig r;
	talk t = {.in_data = pause_at_once};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &stream_ops);
	say(peer, OK_HELLO);
	turn_until(r.loop, t.body_length == 5);
	turn_some(r.loop);
	assert_false(t.over);
	weir_call_resume(&t.call);
	assert_true(t.over);
	assert_int_equal(t.ends, 1);
	/* The connection reads again. */
	talk again = {0};
	talk_get(&r, &again);
	hear_text(r.loop, peer, GET_HEAD);
	say(peer, OK_HELLO);
	turn_until(r.loop, again.over);
	assert_int_equal(again.wholes, 1);
	talk_fini(&again);
	rig_leave(&r, &t, peer);
}

static void an_end_that_comes_while_paused_is_kept(void **state)
{
	rig r;
	talk t = {.in_data = pause_at_once};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &stream_ops);
	say(peer, "HTTP/1.0 200 OK\r\n\r\nabc");
	close(peer);
	turn_until(r.loop, t.body_length == 3);
	turn_some(r.loop);
	assert_false(t.over);
	weir_call_resume(&t.call);
	turn_until(r.loop, t.over);
	assert_int_equal(t.ends, 1);
	talk_fini(&t);
	rig_end(&r);
}

/* A connection may tell of what already came once more, and of its end, after it was paused: these wait too. */
static void what_comes_after_a_pause_waits(void **state)
{
	rig r;
	talk t = {.in_data = pause_at_once};
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &stream_ops);
	say(peer, "HTTP/1.0 200 OK\r\n\r\nabc");
	turn_until(r.loop, t.body_length == 3);
	for (int i = 0; i < 3; i++) {
		weir_buf *late = buf_of("-late-", 6);
		weir_upstream_data(t.call.conn, late, 1, 4);
		weir_buf_unref(late);
	}
	weir_upstream_eof(t.call.conn);
	turn_some(r.loop);
	assert_int_equal(t.body_length, 3);
	weir_call_resume(&t.call);
	assert_string_equal(t.body, "abclatelatelate");
	assert_false(t.over);
	weir_call_resume(&t.call);
	assert_int_equal(t.ends, 1);
	rig_leave(&r, &t, peer);
}

/* A fast backend and a slow owner: the backend is stopped by TCP, and nothing piles up here. */
static void a_paused_call_stops_the_backend(void **state)
{
	rig r;
	talk t = {.in_data = pause_at_once};
	static char block[65536];
	rig_plain(&r, state);
	int peer = heard_call(&r, &t, &stream_ops);
	say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
	turn_until(r.loop, t.heads == 1);
	size_t written = 0, quiet = 0;
	uint64_t live = weir_mem_live();
	while (quiet < 50) {
		ssize_t n = send(peer, block, sizeof(block), MSG_NOSIGNAL);
		written += n > 0 ? (size_t)n : 0;
		quiet = n > 0 ? 0 : quiet + 1;
		weir_loop_turn(r.loop, WEIR_NS_PER_MS / 10);
	}
	assert_true(written < 64u << 20);
	assert_true(t.body_length <= 16384);
	assert_true(weir_mem_live() <= live + 4);
	weir_call_abort(&t.call);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	rig_leave(&r, &t, peer);
}

/* A slow backend and a fast owner: what waits is bounded, and the owner is told when it may go on. */
static void a_backend_that_does_not_read_pushes_back(void **state)
{
	rig r;
	talk t = {0};
	static char block[16384];
	rig_init(&r, loop_of(state), (weir_upstream_limits){.output_bytes = 1}, NO_OPTIONS);
	talk_start_with(&r, &t, &talk_ops, CHUNKED_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_CHUNKED});
	int peer = rig_accept(&r);
	turn_until(r.loop, t.ready == 1);
	weir_buf *buf = buf_of(block, sizeof(block));
	size_t taken = 0;
	int refused = 0;
	while (refused < 100) {
		int error = weir_call_send(&t.call, buf, 0, buf->length);
		assert_true(error == 0 || error == -ENOBUFS);
		if (error == 0)
			taken += buf->length;
		else
			assert_true(weir_call_clogged(&t.call));
		refused = error == 0 ? 0 : refused + 1;
		weir_loop_turn(r.loop, 0);
	}
	assert_true(taken < 64u << 20);
	int drained = t.drained;
	char *waste = malloc(1 << 20);
	for (int i = 0; i < TURNS_MOST && t.drained == drained; i++) {
		sip(peer, waste, 1 << 20);
		weir_loop_turn(r.loop, WEIR_NS_PER_MS);
	}
	assert_true(t.drained > drained);
	assert_false(weir_call_clogged(&t.call));
	free(waste);
	weir_buf_unref(buf);
	weir_call_abort(&t.call);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	rig_leave(&r, NULL, peer);
}

static void a_backend_that_does_not_read_for_too_long(void **state)
{
	rig r;
	talk t = {0};
	static char block[16384];
	rig_init(&r, loop_of(state), (weir_upstream_limits){.send_ns = SHORT_NS}, NO_OPTIONS);
	talk_start_with(&r, &t, &talk_ops, CHUNKED_HEAD,
			(weir_call_request){.method = WEIR_METHOD_POST, .framing = WEIR_BODY_CHUNKED});
	int peer = rig_accept(&r);
	turn_until(r.loop, t.ready == 1);
	weir_buf *buf = buf_of(block, sizeof(block));
	for (int i = 0; i < TURNS_MOST && !t.over; i++) {
		weir_call_send(&t.call, buf, 0, buf->length);
		weir_loop_turn(r.loop, 0);
	}
	weir_buf_unref(buf);
	must_fail(&r, &t, peer, WEIR_CALL_ANSWER, -ETIMEDOUT);
	rig_end(&r);
}

/* ---- giving up ---- */

static void an_abort_cuts_the_connection_at_every_step(void **state)
{
	static const char *const said[] = {"", "HTTP/1.1 200 OK\r\n",
					   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"};
	rig r;
	rig_plain(&r, state);
	for (int i = 0; i < 4; i++) {
		talk t = {0};
		int peer = -1;
		talk_get(&r, &t);
		assert_ptr_equal(t.call.conn->lane->backend, r.backend);
		if (i > 0) {
			peer = rig_accept(&r);
			hear_text(r.loop, peer, GET_HEAD);
			if (i > 1)
				say(peer, said[i - 1]);
			turn_some(r.loop);
		}
		weir_call_abort(&t.call);
		weir_call_abort(&t.call);
		assert_int_equal(weir_origin_in_flight(r.backend), 0);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		assert_false(t.over);
		if (peer >= 0) {
			hear_end(r.loop, peer);
			close(peer);
		} else {
			nobody_connects(&r);
		}
		talk_fini(&t);
	}
	assert_int_equal(counts_of(&r).failures, 0);
	rig_end(&r);
}

static void abort_it(talk *t)
{
	t->over = true;
	weir_call_abort(&t->call);
}

static void an_abort_from_within(void **state)
{
	for (int i = 0; i < 3; i++) {
		rig r;
		talk t = {0};
		rig_plain(&r, state);
		*(i == 0 ? &t.in_ready : i == 1 ? &t.in_head : &t.in_data) = abort_it;
		talk_start_with(&r, &t, &stream_ops, GET_HEAD,
				(weir_call_request){.method = WEIR_METHOD_GET});
		int peer = rig_accept(&r);
		say(peer, OK_HELLO);
		turn_until(r.loop, t.over);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		assert_int_equal(t.ends + t.failures, 0);
		rig_leave(&r, &t, peer);
	}
}

static talk *next_talk;

static void call_again(talk *t)
{
	talk_get(t->rig, next_talk);
}

/* The next call begins within the end of the last, on the same connection, even in the same memory. */
static void a_call_may_begin_within_the_end_of_another(void **state)
{
	for (int stream = 0; stream < 2; stream++) {
		rig r;
		talk t = {.in_end = call_again}, next = {0};
		next_talk = &next;
		rig_plain(&r, state);
		int peer = heard_call(&r, &t, stream ? &stream_ops : &talk_ops);
		say(peer, OK_HELLO);
		turn_until(r.loop, t.over);
		hear_text(r.loop, peer, GET_HEAD);
		assert_false(next.over);
		say(peer, OK_HELLO);
		turn_until(r.loop, next.over);
		assert_int_equal(next.wholes, 1);
		assert_true(nobody_connects(&r));
		talk_fini(&t);
		talk_fini(&next);
		rig_leave(&r, NULL, peer);
	}
}

static void closing_fails_what_is_under_way(void **state)
{
	rig r;
	talk t = {0};
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1});
	int idle = first_call(&r, OK_HELLO);
	talk_start_with(&r, &t, &talk_ops, GET_HEAD,
			(weir_call_request){.method = WEIR_METHOD_GET, .fresh = true});
	int peer = rig_accept(&r);
	hear_text(r.loop, peer, GET_HEAD);
	weir_upstream_close(r.upstream);
	assert_int_equal(t.failure.error, -ECANCELED);
	assert_int_equal(atomic_load(&r.backend->shared.failed_in_row), 0);
	assert_int_equal(hear_end(r.loop, idle), 0);
	close(idle);
	rig_leave(&r, NULL, peer);
}

/* ---- tunnels ---- */

#define UPGRADED "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"

static int tunnel(rig *r, talk *t)
{
	talk_start_with(r, t, &talk_ops, GET_HEAD,
			(weir_call_request){.method = WEIR_METHOD_GET, .upgrade = true});
	int peer = rig_accept(r);
	hear_text(r->loop, peer, GET_HEAD);
	say(peer, UPGRADED "first");
	turn_until(r->loop, t->body_length == 5);
	assert_int_equal(t->upgrades, 1);
	assert_int_equal(t->status, 101);
	return peer;
}

static void an_upgrade_is_bytes_both_ways(void **state)
{
	for (int ours = 0; ours < 2; ours++) {
		rig r;
		talk t = {0};
		rig_plain(&r, state);
		int peer = tunnel(&r, &t);
		assert_int_equal(send_text(&t, "ping"), 0);
		hear_text(r.loop, peer, "ping");
		say(peer, "pong");
		turn_until(r.loop, t.body_length == 9);
		if (ours) {
			send_text(&t, "bye");
			weir_call_finish(&t.call, NULL, 0);
			assert_null(t.call.conn);
			hear_text(r.loop, peer, "bye");
			assert_int_equal(hear_end(r.loop, peer), 0);
		} else {
			shutdown(peer, SHUT_WR);
			turn_until(r.loop, t.over);
			assert_int_equal(t.ends, 1);
		}
		close(peer);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		talk_fini(&t);
		rig_end(&r);
	}
}

static void a_tunnel_idle_for_too_long_ends(void **state)
{
	rig r;
	talk t = {0};
	rig_init(&r, loop_of(state), (weir_upstream_limits){.tunnel_ns = SHORT_NS}, NO_OPTIONS);
	int peer = tunnel(&r, &t);
	must_fail(&r, &t, peer, WEIR_CALL_TUNNEL, -ETIMEDOUT);
	assert_int_equal(atomic_load(&r.backend->shared.failed_in_row), 0);
	rig_end(&r);
}

/* ---- any answer, cut anywhere, read at any pace ---- */

#define ANSWER_MOST 120000

typedef struct made {
	char *text;
	size_t length;
	char *body;
	size_t body_length;
	bool to_end;
} made;

static void add(made *m, const void *bytes, size_t length)
{
	assert_true(m->length + length <= ANSWER_MOST);
	memcpy(m->text + m->length, bytes, length);
	m->length += length;
}

static void add_text(made *m, const char *text)
{
	add(m, text, strlen(text));
}

static void add_chunks(made *m, weir_random *random)
{
	char line[64];
	for (size_t at = 0; at < m->body_length;) {
		size_t part = 1 + weir_random_below(random, weir_random_below(random, 2) ? 20 : 9000);
		part = part < m->body_length - at ? part : m->body_length - at;
		snprintf(line, sizeof(line), weir_random_below(random, 4) ? "%zx\r\n" : "%zX;a=b\r\n", part);
		add_text(m, line);
		add(m, m->body + at, part);
		add_text(m, "\r\n");
		at += part;
	}
	add_text(m, weir_random_below(random, 2) ? "0\r\n\r\n" : "0\r\nX-Sum: v\r\n\r\n");
}

static void make_answer(made *m, weir_random *random)
{
	char line[256];
	static char text[ANSWER_MOST], body[40000];
	*m = (made){.text = text, .body = body};
	m->body_length = weir_random_below(random, weir_random_below(random, 2) ? 50 : sizeof(body));
	for (size_t i = 0; i < m->body_length; i++)
		body[i] = (char)weir_random_u64(random);
	for (uint64_t i = weir_random_below(random, 3); i > 0; i--)
		add_text(m, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
	unsigned framing = (unsigned)weir_random_below(random, 3);
	snprintf(line, sizeof(line), "HTTP/1.1 200 OK\r\nX: %0*d\r\n",
		 1 + (int)weir_random_below(random, 100), 0);
	add_text(m, line);
	m->to_end = framing == 2;
	if (framing == 0) {
		snprintf(line, sizeof(line), "Content-Length: %zu\r\n\r\n", m->body_length);
		add_text(m, line);
	} else {
		add_text(m, framing == 1 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	}
	if (framing == 1)
		add_chunks(m, random);
	else
		add(m, m->body, m->body_length);
}

static weir_random *pace;

static void pause_sometimes(talk *t)
{
	if (weir_random_below(pace, 3) == 0)
		weir_call_pause(&t->call);
}

static void resume_sometimes(talk *t)
{
	if (!t->over && weir_random_below(pace, 2) == 0)
		weir_call_resume(&t->call);
}

/* Says all of it in pieces, with turns and resumes in between. */
static void say_in_pieces(rig *r, talk *t, int peer, const made *m, weir_random *random)
{
	size_t most = weir_random_below(random, 2) ? 30 : 20000;
	for (size_t at = 0; at < m->length && !t->over;) {
		size_t part = 1 + weir_random_below(random, most);
		part = part < m->length - at ? part : m->length - at;
		ssize_t n = send(peer, m->text + at, part, MSG_NOSIGNAL);
		at += n > 0 ? (size_t)n : 0;
		if (n <= 0 || weir_random_below(random, 2))
			assert_int_equal(weir_loop_turn(r->loop, 0), 0);
		resume_sometimes(t);
	}
}

static void turn_to_the_end(rig *r, talk *t)
{
	for (int i = 0; i < TURNS_MOST && !t->over; i++) {
		assert_int_equal(weir_loop_turn(r->loop, WEIR_NS_PER_MS), 0);
		resume_sometimes(t);
	}
}

static void any_answer_in_any_pieces(void **state)
{
	rig r;
	rig_plain(&r, state);
	for (uint64_t seed = 1; seed <= 150; seed++) {
		weir_random random;
		made m;
		weir_random_init(&random, seed);
		pace = &random;
		make_answer(&m, &random);
		talk t = {.in_head = pause_sometimes, .in_data = pause_sometimes};
		talk_start_with(&r, &t, weir_random_below(&random, 2) ? &talk_ops : &stream_ops, GET_HEAD,
				(weir_call_request){.method = WEIR_METHOD_GET, .fresh = true});
		int peer = rig_accept(&r);
		say_in_pieces(&r, &t, peer, &m, &random);
		if (m.to_end)
			shutdown(peer, SHUT_WR);
		turn_to_the_end(&r, &t);
		if (!t.over || t.failures != 0 || t.body_length != m.body_length ||
		    (m.body_length > 0 && memcmp(t.body, m.body, m.body_length) != 0))
			fail_msg("seed %d: over %d, failed %d, %zu bytes of %zu", (int)seed, t.over,
				 t.failures, t.body_length, m.body_length);
		talk_fini(&t);
		close(peer);
		turn_until(r.loop, counts_of(&r).idle == 0);
	}
	rig_end(&r);
}

/* The same with some bytes changed: whatever comes of it, the call ends once, and nothing is left. */
static void any_damaged_answer(void **state)
{
	rig r;
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1u << 30});
	for (uint64_t seed = 1; seed <= 150; seed++) {
		weir_random random;
		made m;
		weir_random_init(&random, 1000 + seed);
		pace = &random;
		make_answer(&m, &random);
		for (uint64_t i = 1 + weir_random_below(&random, 4); i > 0; i--)
			m.text[weir_random_below(&random, weir_random_below(&random, 2) ? m.length : 60)] =
				weir_random_below(&random, 2) ? "\r\n:0 9aX;"[weir_random_below(&random, 9)]
							      : (char)weir_random_u64(&random);
		talk t = {.in_head = pause_sometimes, .in_data = pause_sometimes};
		talk_start_with(&r, &t, &talk_ops, GET_HEAD,
				(weir_call_request){.method = WEIR_METHOD_GET, .fresh = true});
		int peer = rig_accept(&r);
		say_in_pieces(&r, &t, peer, &m, &random);
		close(peer);
		turn_to_the_end(&r, &t);
		if (!t.over || t.failures + t.ends + t.wholes != 1)
			fail_msg("seed %d: over %d, failed %d", (int)seed, t.over, t.failures);
		assert_int_equal(weir_origin_in_flight(r.backend), 0);
		talk_fini(&t);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	}
	rig_end(&r);
}

/* ---- addresses and memory ---- */

/* The first address refuses, the second one answers and is remembered. */
static void the_next_address_is_tried(void **state)
{
	rig r;
	rig_plain(&r, state);
	uint16_t dead_port;
	int dead = listen_here(&dead_port);
	close(dead);
	struct sockaddr_in nobody = loopback(dead_port);
	r.backend->found.address[1] = r.backend->found.address[0];
	memcpy(&r.backend->found.address[0].at, &nobody, sizeof(nobody));
	r.backend->found.count = 2;
	close(first_call(&r, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
	assert_int_equal(counts_of(&r).connects, 2);
	close(first_call(&r, OK_HELLO));
	assert_int_equal(counts_of(&r).connects, 3);
	rig_end(&r);
}

/* Each allocation fails in turn: the call fails, or does not even begin, and nothing is lost. */
static void out_of_memory(void **state)
{
	rig r;
	const char answer[] =
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n";
	rig_init(&r, loop_of(state), NO_LIMITS, (weir_origin_options){.failures = 1000});
	int failed = 0, went_well = 0;
	for (uint64_t nth = 1; nth < 30; nth++) {
		talk t = {.rig = &r};
		weir_buf *head = buf_of(GET_HEAD, strlen(GET_HEAD));
		assert_true(weir_origin_take(r.backend));
		weir_mem_fail_after(nth);
		weir_call_request request = {.method = WEIR_METHOD_GET, .fresh = true, .head = head};
		int error = weir_call_start(r.upstream, &t.call, &talk_ops, r.backend, &request);
		if (error == 0) {
			int peer = rig_accept(&r);
			for (size_t i = 0; i < sizeof(answer) - 1 && !t.over; i += 7) {
				size_t rest = sizeof(answer) - 1 - i;
				send(peer, answer + i, rest < 7 ? rest : 7, MSG_NOSIGNAL);
				turn_some(r.loop);
			}
			turn_until(r.loop, t.over);
			close(peer);
		} else {
			assert_int_equal(error, -ENOMEM);
		}
		weir_mem_fail_after(0);
		weir_buf_unref(head);
		failed += error != 0 || t.failures == 1;
		went_well += t.ends == 1;
		assert_int_equal(weir_origin_in_flight(r.backend), 0);
		turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
		talk_fini(&t);
	}
	assert_true(failed > 0);
	assert_true(went_well > 0);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(an_answer_comes_whole_and_its_connection_is_used_again),
		ON_BOTH(an_answer_in_single_bytes_is_the_same),
		ON_BOTH(an_answer_in_two_parts_is_the_same),
		ON_BOTH(answers_without_a_body_end_with_their_head),
		ON_BOTH(an_answer_that_came_before_is_not_mistaken),
		ON_BOTH(an_answer_up_to_the_end_of_the_connection),
		ON_BOTH(close_is_honoured),
		ON_BOTH(a_body_of_known_length),
		ON_BOTH(a_chunked_body_with_trailers),
		ON_BOTH(an_early_answer_stands),
		ON_BOTH(interim_answers_are_passed_on),
		ON_BOTH(garbage_fails_the_call),
		ON_BOTH(endless_interim_answers_end),
		ON_BOTH(a_huge_head_is_refused),
		ON_BOTH(too_many_fields_are_refused),
		ON_BOTH(an_answer_too_many_costs_the_connection),
		ON_BOTH(a_backend_that_goes_away_within),
		ON_BOTH(nobody_listens),
		ON_BOTH(a_kept_connection_that_is_closed_is_noticed),
		ON_BOTH(a_kept_connection_dies_under_a_call),
		ON_BOTH(a_kept_connection_that_is_dead_already_is_stepped_over),
		ON_BOTH(a_fresh_connection_can_be_asked_for),
		ON_BOTH(kept_connections_are_bounded),
		ON_BOTH(a_connection_idle_for_too_long_is_closed),
		ON_BOTH(a_retired_backend_keeps_no_connection),
		ON_BOTH(a_backend_that_hangs),
		ON_BOTH(each_part_of_a_body_begins_a_new_gap),
		ON_BOTH(a_connect_that_hangs),
		ON_BOTH(all_of_a_call_can_be_bounded),
		ON_BOTH(an_answer_is_not_late_before_the_request_is_complete),
		ON_BOTH(a_paused_call_hears_nothing),
		ON_BOTH(a_call_paused_at_its_last_byte_ends_when_resumed),
		ON_BOTH(an_end_that_comes_while_paused_is_kept),
		ON_BOTH(what_comes_after_a_pause_waits),
		ON_BOTH(a_paused_call_stops_the_backend),
		ON_BOTH(a_backend_that_does_not_read_pushes_back),
		ON_BOTH(a_backend_that_does_not_read_for_too_long),
		ON_BOTH(an_abort_cuts_the_connection_at_every_step),
		ON_BOTH(an_abort_from_within),
		ON_BOTH(a_call_may_begin_within_the_end_of_another),
		ON_BOTH(closing_fails_what_is_under_way),
		ON_BOTH(an_upgrade_is_bytes_both_ways),
		ON_BOTH(a_tunnel_idle_for_too_long_ends),
		ON_BOTH(any_answer_in_any_pieces),
		ON_BOTH(any_damaged_answer),
		ON_BOTH(the_next_address_is_tried),
		ON_BOTH(out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
