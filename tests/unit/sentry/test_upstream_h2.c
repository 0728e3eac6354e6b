/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over HTTP/2: which connections they share, and how they and their connections end. Servers are nghttp2's, on sockets of the test. */
#include "on_backend.h"

#include "sentry/upstream_h2.h"
#include "support/on_h2.h"

#define NO_LIMITS  ((weir_upstream_limits){0})
#define NO_OPTIONS ((weir_origin_options){0})
#define SHORT_NS   (20 * WEIR_NS_PER_MS)
#define POST_HEAD  "POST / HTTP/1.1\r\nHost: x\r\n\r\n"

/* A connection that the server has. */
typedef struct h2_side {
	h2_peer peer;
	int fd;
	bool ended; /* the client has closed it */
} h2_side;

static void rig_h2(rig *r, void **state, weir_upstream_limits limits, weir_origin_options options)
{
	rig_init_by(r, "h2c", loop_of(state), limits, options);
}

static void side_accepts(rig *r, h2_side *s, uint32_t streams)
{
	memset(s, 0, sizeof(*s));
	s->fd = rig_accept(r);
	peer_init(&s->peer, streams, 0);
}

/* Takes what has come and says what there is to say. */
static void exchange(h2_side *s)
{
	uint8_t bytes[16384];
	ssize_t got;
	while ((got = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		peer_hear(&s->peer, bytes, (size_t)got);
	s->ended |= got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
	peer_speak(&s->peer);
	if (s->peer.out_length > 0 && !s->ended) {
		ssize_t sent = send(s->fd, s->peer.out, s->peer.out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent > 0) {
			memmove(s->peer.out, s->peer.out + sent, s->peer.out_length - (size_t)sent);
			s->peer.out_length -= (size_t)sent;
		}
	}
}

#define speak_until(r, s, condition)                                                    \
	do {                                                                            \
		for (int turn_ = 0; turn_ < TURNS_MOST && !(condition); turn_++) {      \
			exchange(s);                                                    \
			assert_int_equal(weir_loop_turn((r)->loop, WEIR_NS_PER_MS), 0); \
		}                                                                       \
		assert_true(condition);                                                 \
	} while (0)

static void speak_some(rig *r, h2_side *s)
{
	for (int i = 0; i < 20; i++) {
		exchange(s);
		assert_int_equal(weir_loop_turn(r->loop, WEIR_NS_PER_MS / 4), 0);
	}
}

static void side_hangs_up(h2_side *s)
{
	peer_fini(&s->peer);
	close(s->fd);
}

static void hello(h2_side *s, int32_t id)
{
	peer_answer(&s->peer, id, "200", "hello", 5, NULL, NULL, NULL);
}

static void leave(rig *r, h2_side *s)
{
	side_hangs_up(s);
	rig_end(r);
}

static int talk_post(rig *r, talk *t, weir_framing framing)
{
	return talk_start_with(r, t, &talk_ops, POST_HEAD,
			       (weir_call_request){.method = WEIR_METHOD_POST, .framing = framing});
}

/* A first call, so that the settings are known. */
static void warm(rig *r, h2_side *s, uint32_t streams)
{
	talk t = {0};
	talk_get(r, &t);
	side_accepts(r, s, streams);
	speak_until(r, s, s->peer.count == 1);
	hello(s, 1);
	speak_until(r, s, t.over);
	assert_int_equal(t.failures, 0);
	talk_fini(&t);
}

/* ---- sharing ---- */

static void calls_share_a_connection(void **state)
{
	rig r;
	h2_side s;
	talk t[50] = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	for (int i = 0; i < 50; i++)
		talk_get(&r, &t[i]);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 50);
	assert_true(nobody_connects(&r));
	assert_int_equal(weir_origin_in_flight(r.backend), 50);
	for (int i = 49; i >= 0; i--)
		hello(&s, 2 * i + 1);
	for (int i = 0; i < 50; i++) {
		speak_until(&r, &s, t[i].over);
		assert_int_equal(t[i].status, 200);
		assert_string_equal(t[i].body, "hello");
		assert_int_equal(t[i].ready, 1);
		talk_fini(&t[i]);
	}
	weir_upstream_counts counts = counts_of(&r);
	assert_int_equal(counts.connects, 1);
	assert_int_equal(counts.calls, 50);
	assert_int_equal(counts.reused, 49);
	assert_int_equal(counts.idle, 1);
	assert_int_equal(counts.failures, 0);
	leave(&r, &s);
}

/* One was sent before the settings came; the others move on when these allow no more. */
static void a_server_that_allows_few_gets_more_connections(void **state)
{
	rig r;
	h2_side s[3];
	talk t[6] = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	for (int i = 0; i < 6; i++)
		talk_get(&r, &t[i]);
	for (int i = 0; i < 3; i++) {
		side_accepts(&r, &s[i], 2);
		speak_until(&r, &s[i], s[i].peer.count == 2);
	}
	assert_true(nobody_connects(&r));
	for (int i = 0; i < 3; i++) {
		hello(&s[i], 1);
		hello(&s[i], 3);
		speak_some(&r, &s[i]);
	}
	for (int i = 0; i < 6; i++) {
		assert_true(t[i].over);
		assert_int_equal(t[i].failures, 0);
		talk_fini(&t[i]);
	}
	for (int i = 0; i < 3; i++)
		side_hangs_up(&s[i]);
	rig_end(&r);
}

static void our_own_bound_holds_too(void **state)
{
	rig r;
	h2_side s[2];
	talk t[4] = {0};
	rig_h2(&r, state, (weir_upstream_limits){.streams = 2}, NO_OPTIONS);
	for (int i = 0; i < 4; i++)
		talk_get(&r, &t[i]);
	for (int i = 0; i < 2; i++) {
		side_accepts(&r, &s[i], 0);
		speak_until(&r, &s[i], s[i].peer.count == 2);
	}
	for (int i = 0; i < 4; i++) {
		weir_call_abort(&t[i].call);
		talk_fini(&t[i]);
	}
	for (int i = 0; i < 2; i++)
		side_hangs_up(&s[i]);
	rig_end(&r);
}

/* No connection is made for them again and again. */
static void a_server_that_allows_none_has_refused(void **state)
{
	rig r;
	h2_side s;
	talk t[3] = {0};
	rig_h2(&r, state, NO_LIMITS, (weir_origin_options){.failures = 1});
	for (int i = 0; i < 3; i++)
		talk_get(&r, &t[i]);
	side_accepts(&r, &s, PEER_NONE);
	speak_until(&r, &s, t[0].over && t[1].over && t[2].over);
	for (int i = 0; i < 3; i++)
		assert_true(t[i].failure.refused && !t[i].failure.sent);
	assert_true(nobody_connects(&r));
	assert_true(weir_origin_usable(r.backend, weir_loop_time(r.loop)));
	leave(&r, &s);
}

static void a_health_check_has_a_connection_of_its_own(void **state)
{
	rig r;
	h2_side s, probe;
	talk t = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	warm(&r, &s, 0);
	weir_buf *head = weir_upstream_buf(r.upstream, 64);
	head->length = (uint32_t)strlen(GET_HEAD);
	memcpy(head->data, GET_HEAD, head->length);
	weir_call_request request = {.method = WEIR_METHOD_GET, .fresh = true, .probe = true, .head = head};
	t.rig = &r;
	assert_int_equal(weir_call_start(r.upstream, &t.call, &stream_ops, r.backend, &request), 0);
	weir_buf_unref(head);
	side_accepts(&r, &probe, 0);
	speak_until(&r, &probe, probe.peer.count == 1);
	assert_int_equal(weir_origin_in_flight(r.backend), 0);
	peer_answer(&probe.peer, 1, "200", NULL, 0, NULL, NULL, NULL);
	speak_until(&r, &probe, t.over && probe.ended);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.ends, 1);
	assert_int_equal(counts_of(&r).calls, 1);
	side_hangs_up(&probe);
	leave(&r, &s);
}

/* ---- bodies ---- */

static void a_body_streams_both_ways(void **state)
{
	static char large[300000];
	rig r;
	h2_side s;
	talk t = {0};
	size_t sent = 0;
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	memset(large, 'y', sizeof(large));
	assert_int_equal(talk_post(&r, &t, WEIR_BODY_CHUNKED), 0);
	/* Before there is a connection nothing is taken. */
	weir_buf *buf = weir_buf_new(10000);
	memset(buf->data, 'x', 10000);
	buf->length = 10000;
	assert_int_equal(weir_call_send(&t.call, buf, 0, 10000), -ENOBUFS);
	side_accepts(&r, &s, 0);
	while (sent < 1000000) {
		if (t.ready == 1 && !weir_call_clogged(&t.call)) {
			assert_int_equal(weir_call_send(&t.call, buf, 0, 10000), 0);
			sent += 10000;
		}
		exchange(&s);
		assert_int_equal(weir_loop_turn(r.loop, WEIR_NS_PER_MS / 10), 0);
	}
	weir_call_finish(&t.call, &(weir_field){WEIR_SPAN("x-after"), WEIR_SPAN("1")}, 1);
	weir_call_finish(&t.call, NULL, 0);
	speak_until(&r, &s, peer_at(&s.peer, 1)->ended);
	assert_int_equal(peer_at(&s.peer, 1)->bytes, 1000000);
	assert_string_equal(peer_at(&s.peer, 1)->trailer, "1");
	peer_answer(&s.peer, 1, "200", large, sizeof(large), "t", NULL, NULL);
	speak_until(&r, &s, t.over);
	assert_int_equal(t.body_length, sizeof(large));
	assert_string_equal(t.trailer, "t");
	weir_buf_unref(buf);
	talk_fini(&t);
	leave(&r, &s);
}

static void pause_in_data(talk *t)
{
	weir_call_pause(&t->call);
}

static void a_paused_call_holds_back_no_other(void **state)
{
	static char large[300000];
	rig r;
	h2_side s;
	talk slow = {.in_data = pause_in_data}, quick = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	talk_get(&r, &slow);
	talk_get(&r, &quick);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 2);
	peer_answer(&s.peer, 1, "200", large, sizeof(large), NULL, NULL, NULL);
	peer_answer(&s.peer, 3, "200", large, sizeof(large), NULL, NULL, NULL);
	speak_until(&r, &s, quick.over);
	assert_int_equal(quick.body_length, sizeof(large));
	assert_true(slow.body_length < sizeof(large) / 2);
	slow.in_data = NULL;
	weir_call_resume(&slow.call);
	weir_call_resume(&slow.call);
	speak_until(&r, &s, slow.over);
	assert_int_equal(slow.body_length, sizeof(large));
	talk_fini(&slow);
	talk_fini(&quick);
	leave(&r, &s);
}

static void pause_in_head(talk *t)
{
	weir_call_pause(&t->call);
}

static void a_call_that_is_paused_by_its_last_head_ends_when_resumed(void **state)
{
	rig r;
	h2_side s;
	talk t = {.in_head = pause_in_head};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	assert_int_equal(talk_start_with(&r, &t, &stream_ops, GET_HEAD,
					 (weir_call_request){.method = WEIR_METHOD_GET}),
			 0);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 1);
	peer_answer(&s.peer, 1, "200", NULL, 0, NULL, NULL, NULL);
	speak_until(&r, &s, t.heads == 1);
	speak_some(&r, &s);
	assert_false(t.over);
	weir_call_resume(&t.call);
	assert_int_equal(t.ends, 1);
	talk_fini(&t);
	leave(&r, &s);
}

/* ---- ends of calls ---- */

static void an_abort_resets_its_stream_only(void **state)
{
	rig r;
	h2_side s;
	talk gone = {0}, other = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	talk_get(&r, &gone);
	talk_get(&r, &other);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 2);
	weir_call_abort(&gone.call);
	weir_call_abort(&gone.call);
	assert_int_equal(weir_origin_in_flight(r.backend), 1);
	speak_until(&r, &s, peer_at(&s.peer, 1)->closed);
	assert_int_equal(peer_at(&s.peer, 1)->code, NGHTTP2_CANCEL);
	hello(&s, 3);
	speak_until(&r, &s, other.over);
	assert_int_equal(other.failures, 0);
	talk_fini(&other);
	leave(&r, &s);
}

static void an_abort_at_every_step(void **state)
{
	for (int step = 0; step < 4; step++) {
		rig r;
		h2_side s;
		talk t = {0};
		rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
		assert_int_equal(talk_post(&r, &t, WEIR_BODY_CHUNKED), 0);
		if (step == 0)
			weir_call_abort(&t.call); /* there is no connection yet */
		side_accepts(&r, &s, 0);
		if (step > 0)
			speak_until(&r, &s, t.ready == 1 && s.peer.count == 1);
		if (step > 1) {
			peer_at(&s.peer, 1)->answer_open = true;
			peer_answer(&s.peer, 1, "200", "some", 4, NULL, NULL, NULL);
			speak_until(&r, &s, t.body_length == 4);
		}
		if (step > 2)
			weir_call_pause(&t.call);
		weir_call_abort(&t.call);
		assert_int_equal(weir_origin_in_flight(r.backend), 0);
		speak_some(&r, &s);
		assert_false(t.over);
		assert_int_equal(counts_of(&r).idle, 1);
		talk_fini(&t);
		leave(&r, &s);
	}
}

static void a_refused_stream_can_be_tried_again(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	rig_h2(&r, state, NO_LIMITS, (weir_origin_options){.failures = 1});
	warm(&r, &s, 0);
	assert_int_equal(talk_post(&r, &t, WEIR_BODY_CHUNKED), 0);
	speak_until(&r, &s, s.peer.count == 2);
	nghttp2_submit_rst_stream(s.peer.session, 0, 3, NGHTTP2_REFUSED_STREAM);
	speak_until(&r, &s, t.over);
	assert_true(t.failure.refused);
	assert_false(t.failure.sent);
	assert_false(t.failure.reused); /* it costs a token */
	assert_true(weir_origin_usable(r.backend, weir_loop_time(r.loop)));
	assert_int_equal(counts_of(&r).idle, 1);
	leave(&r, &s);
}

static void a_reset_is_a_failure(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	talk_get(&r, &t);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 1);
	nghttp2_submit_rst_stream(s.peer.session, 0, 1, NGHTTP2_INTERNAL_ERROR);
	speak_until(&r, &s, t.over);
	assert_int_equal(t.failure.error, -ECONNRESET);
	assert_int_equal(t.failure.step, WEIR_CALL_ANSWER);
	assert_true(t.failure.sent);
	assert_false(t.failure.refused);
	leave(&r, &s);
}

/* ---- ends of connections ---- */

static void a_server_that_leaves_finishes_and_gets_no_more(void **state)
{
	rig r;
	h2_side s, next;
	talk first = {0}, excluded = {0}, later = {0};
	rig_h2(&r, state, NO_LIMITS, (weir_origin_options){.failures = 1});
	talk_get(&r, &first);
	assert_int_equal(talk_post(&r, &excluded, WEIR_BODY_CHUNKED), 0);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 2);
	nghttp2_submit_goaway(s.peer.session, 0, 1, NGHTTP2_NO_ERROR, NULL, 0);
	speak_until(&r, &s, excluded.over);
	assert_false(excluded.failure.sent);
	assert_true(excluded.failure.reused); /* so that another try is free */
	assert_false(excluded.failure.refused);
	assert_true(weir_origin_usable(r.backend, weir_loop_time(r.loop)));
	talk_get(&r, &later);
	side_accepts(&r, &next, 0);
	speak_until(&r, &next, next.peer.count == 1);
	hello(&s, 1);
	speak_until(&r, &s, first.over && s.ended);
	assert_int_equal(first.failures, 0);
	hello(&next, 1);
	speak_until(&r, &next, later.over);
	assert_int_equal(later.failures, 0);
	talk_fini(&first);
	talk_fini(&later);
	side_hangs_up(&next);
	leave(&r, &s);
}

/* All calls fail, but the server has failed once. */
static void a_lost_connection_counts_once(void **state)
{
	rig r;
	h2_side s;
	talk t[10] = {0};
	rig_h2(&r, state, NO_LIMITS, (weir_origin_options){.failures = 3});
	for (int i = 0; i < 10; i++)
		talk_get(&r, &t[i]);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 10);
	struct linger cut = {1, 0};
	setsockopt(s.fd, SOL_SOCKET, SO_LINGER, &cut, sizeof(cut));
	side_hangs_up(&s);
	turn_until(r.loop, t[9].over);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(t[i].failures, 1);
		assert_int_equal(t[i].failure.reused, i > 0);
		assert_true(t[i].failure.sent);
	}
	assert_int_equal(atomic_load(&r.backend->shared.failed_in_row), 1);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	rig_end(&r);
}

static void nobody_there(void **state)
{
	rig r;
	talk t[3] = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	close(r.listener);
	r.listener = -1;
	for (int i = 0; i < 3; i++)
		talk_get(&r, &t[i]);
	turn_until(r.loop, t[2].over);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(t[i].failure.step, WEIR_CALL_CONNECT);
		assert_int_equal(t[i].failure.error, -ECONNREFUSED);
		assert_false(t[i].failure.sent);
	}
	rig_end(&r);
}

static void a_server_of_http_1_is_found_out(void **state)
{
	rig r;
	talk t = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	talk_get(&r, &t);
	int fd = rig_accept(&r);
	say(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
	turn_until(r.loop, t.over);
	assert_int_equal(t.failure.error, -EPROTO);
	close(fd);
	rig_end(&r);
}

static void an_idle_connection_ends(void **state)
{
	rig r;
	h2_side s;
	rig_h2(&r, state, (weir_upstream_limits){.idle_ns = SHORT_NS}, NO_OPTIONS);
	warm(&r, &s, 0);
	assert_int_equal(counts_of(&r).idle, 1);
	speak_until(&r, &s, s.ended);
	assert_int_equal(s.peer.goaways, 1);
	assert_int_equal(s.peer.goaway_code, NGHTTP2_NO_ERROR);
	turn_until(r.loop, counts_of(&r).open == 0);
	assert_int_equal(counts_of(&r).idle, 0);
	leave(&r, &s);
}

static void a_server_that_closes_an_idle_connection_is_not_blamed(void **state)
{
	rig r;
	h2_side s;
	rig_h2(&r, state, NO_LIMITS, (weir_origin_options){.failures = 1});
	warm(&r, &s, 0);
	side_hangs_up(&s);
	turn_until(r.loop, counts_of(&r).open == 0);
	assert_true(weir_origin_usable(r.backend, weir_loop_time(r.loop)));
	rig_end(&r);
}

static void count_gone(void *arg)
{
	int *gone = arg;
	++*gone;
}

static void a_backend_that_is_left_finishes_its_calls(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	int gone = 0;
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	talk_get(&r, &t);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 1);
	weir_upstream_leave(r.upstream, 0, count_gone, &gone);
	speak_some(&r, &s);
	assert_int_equal(gone, 0);
	hello(&s, 1);
	speak_until(&r, &s, t.over && gone == 1);
	assert_int_equal(t.failures, 0);
	talk_fini(&t);
	leave(&r, &s);
}

static void letting_go_ends_idle_ones(void **state)
{
	rig r;
	h2_side s;
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	warm(&r, &s, 0);
	assert_false(weir_upstream_let_go(r.upstream));
	speak_until(&r, &s, weir_upstream_let_go(r.upstream));
	leave(&r, &s);
}

static void closing_fails_what_is_under_way(void **state)
{
	rig r;
	h2_side s;
	talk t[3] = {0};
	rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
	for (int i = 0; i < 3; i++)
		talk_get(&r, &t[i]);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 3);
	weir_upstream_close(r.upstream);
	for (int i = 0; i < 3; i++)
		assert_int_equal(t[i].failure.error, -ECANCELED);
	leave(&r, &s);
}

/* ---- time ---- */

static void an_answer_that_is_late_fails_its_call_only(void **state)
{
	rig r;
	h2_side s;
	talk late = {0}, other = {0};
	rig_h2(&r, state, (weir_upstream_limits){.head_ns = SHORT_NS, .ping_ns = WEIR_NS_PER_S * 60},
	       NO_OPTIONS);
	talk_get(&r, &late);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 1);
	assert_int_equal(talk_post(&r, &other, WEIR_BODY_CHUNKED), 0);
	speak_until(&r, &s, late.over);
	assert_int_equal(late.failure.error, -ETIMEDOUT);
	assert_int_equal(late.failure.step, WEIR_CALL_ANSWER);
	/* It is not late before it was asked in full. */
	assert_false(other.over);
	speak_until(&r, &s, s.peer.count == 2);
	hello(&s, 3);
	speak_until(&r, &s, other.over);
	assert_int_equal(other.failures, 0);
	speak_until(&r, &s, peer_at(&s.peer, 1)->closed);
	assert_int_equal(peer_at(&s.peer, 1)->code, NGHTTP2_CANCEL);
	talk_fini(&other);
	leave(&r, &s);
}

static void the_gap_in_a_body_is_bounded_but_not_in_streams(void **state)
{
	static const char *const types[] = {"text/plain", "application/grpc", "text/event-stream"};
	for (int i = 0; i < 3; i++) {
		rig r;
		h2_side s;
		talk t = {0};
		rig_h2(&r, state, (weir_upstream_limits){.gap_ns = SHORT_NS, .ping_ns = WEIR_NS_PER_S * 60},
		       NO_OPTIONS);
		talk_get(&r, &t);
		side_accepts(&r, &s, 0);
		speak_until(&r, &s, s.peer.count == 1);
		peer_at(&s.peer, 1)->answer_open = true;
		peer_answer(&s.peer, 1, "200", "a", 1, NULL, "content-type", types[i]);
		speak_until(&r, &s, t.body_length == 1);
		if (i > 0) {
			uint64_t until_ns = weir_loop_now(r.loop) + 3 * SHORT_NS;
			speak_until(&r, &s, weir_loop_now(r.loop) > until_ns);
			assert_false(t.over);
			weir_call_abort(&t.call);
		} else {
			speak_until(&r, &s, t.over);
			assert_int_equal(t.failure.error, -ETIMEDOUT);
			assert_int_equal(t.failure.step, WEIR_CALL_BODY);
		}
		talk_fini(&t);
		leave(&r, &s);
	}
}

static void a_silent_server_is_pinged_once(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	rig_h2(&r, state, (weir_upstream_limits){.ping_ns = SHORT_NS}, NO_OPTIONS);
	talk_get(&r, &t);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.pings == 1);
	uint64_t until_ns = weir_loop_now(r.loop) + 3 * SHORT_NS;
	speak_until(&r, &s, weir_loop_now(r.loop) > until_ns);
	assert_int_equal(s.peer.pings, 1);
	assert_false(t.over);
	hello(&s, 1);
	speak_until(&r, &s, t.over);
	assert_int_equal(t.failures, 0);
	talk_fini(&t);
	leave(&r, &s);
}

static void a_server_that_answers_no_ping_is_dead(void **state)
{
	rig r;
	h2_side s;
	talk t[2] = {0};
	rig_h2(&r, state, (weir_upstream_limits){.ping_ns = SHORT_NS}, NO_OPTIONS);
	talk_get(&r, &t[0]);
	talk_get(&r, &t[1]);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, s.peer.count == 2);
	turn_until(r.loop, t[0].over && t[1].over);
	assert_int_equal(t[0].failure.error, -ETIMEDOUT);
	turn_until(r.loop, weir_upstream_open(r.upstream) == 0);
	leave(&r, &s);
}

static void settings_that_do_not_come(void **state)
{
	rig r;
	talk t = {0};
	rig_h2(&r, state, (weir_upstream_limits){.handshake_ns = SHORT_NS}, NO_OPTIONS);
	talk_get(&r, &t);
	int fd = rig_accept(&r);
	turn_until(r.loop, t.over);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	close(fd);
	rig_end(&r);
}

/* A call that timed out while nothing came: the next one does not trust the connection. */
static void a_connection_in_doubt_gets_no_more_calls(void **state)
{
	rig r;
	h2_side s, other;
	talk t = {0}, next = {0};
	rig_h2(&r, state, (weir_upstream_limits){.head_ns = SHORT_NS, .ping_ns = WEIR_NS_PER_S * 60},
	       NO_OPTIONS);
	warm(&r, &s, 0);
	speak_some(&r, &s);
	/* A later time than that of the last byte. */
	uint64_t now_ns = weir_loop_now(r.loop) + 2 * WEIR_NS_PER_MS;
	turn_until(r.loop, weir_loop_now(r.loop) > now_ns);
	talk_get(&r, &t);
	turn_until(r.loop, t.over);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	talk_get(&r, &next);
	side_accepts(&r, &other, 0);
	speak_until(&r, &other, other.peer.count == 1);
	hello(&other, 1);
	speak_until(&r, &other, next.over);
	assert_int_equal(next.failures, 0);
	talk_fini(&next);
	side_hangs_up(&other);
	leave(&r, &s);
}

static void a_body_that_is_not_taken_in_time(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	weir_buf *buf = weir_buf_new(60000);
	memset(buf->data, 'x', 60000);
	buf->length = 60000;
	rig_h2(&r, state, (weir_upstream_limits){.send_ns = SHORT_NS, .ping_ns = WEIR_NS_PER_S * 60},
	       NO_OPTIONS);
	assert_int_equal(talk_post(&r, &t, WEIR_BODY_CHUNKED), 0);
	side_accepts(&r, &s, 0);
	s.peer.keeps_window = true;
	speak_until(&r, &s, t.ready == 1);
	assert_int_equal(weir_call_send(&t.call, buf, 0, 60000), 0);
	speak_some(&r, &s);
	assert_int_equal(weir_call_send(&t.call, buf, 0, 60000), 0);
	speak_until(&r, &s, t.over);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	weir_buf_unref(buf);
	leave(&r, &s);
}

static void all_of_a_call_can_be_bounded(void **state)
{
	rig r;
	h2_side s;
	talk t = {0};
	rig_h2(&r, state, (weir_upstream_limits){.total_ns = SHORT_NS}, NO_OPTIONS);
	assert_int_equal(talk_post(&r, &t, WEIR_BODY_CHUNKED), 0);
	side_accepts(&r, &s, 0);
	speak_until(&r, &s, t.over);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	leave(&r, &s);
}

/* ---- memory ---- */

static void out_of_memory(void **state)
{
	for (uint64_t nth = 1; nth < 40; nth++) {
		rig r;
		talk t = {0};
		rig_h2(&r, state, NO_LIMITS, NO_OPTIONS);
		weir_buf *head = weir_upstream_buf(r.upstream, 64);
		head->length = (uint32_t)strlen(POST_HEAD);
		memcpy(head->data, POST_HEAD, head->length);
		t.rig = &r;
		assert_true(weir_origin_take(r.backend));
		weir_mem_fail_after(nth);
		int error = weir_call_start(r.upstream, &t.call, &talk_ops, r.backend,
					    &(weir_call_request){.method = WEIR_METHOD_POST,
								 .framing = WEIR_BODY_CHUNKED,
								 .head = head});
		for (int i = 0; i < 10 && error == 0; i++)
			weir_loop_turn(r.loop, WEIR_NS_PER_MS / 4);
		weir_mem_fail_after(0);
		if (error != 0)
			assert_int_equal(weir_origin_in_flight(r.backend), 0);
		else if (!t.over)
			weir_call_abort(&t.call);
		weir_buf_unref(head);
		rig_end(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(calls_share_a_connection),
		ON_BOTH(a_server_that_allows_few_gets_more_connections),
		ON_BOTH(our_own_bound_holds_too),
		ON_BOTH(a_server_that_allows_none_has_refused),
		ON_BOTH(a_health_check_has_a_connection_of_its_own),
		ON_BOTH(a_body_streams_both_ways),
		ON_BOTH(a_paused_call_holds_back_no_other),
		ON_BOTH(a_call_that_is_paused_by_its_last_head_ends_when_resumed),
		ON_BOTH(an_abort_resets_its_stream_only),
		ON_BOTH(an_abort_at_every_step),
		ON_BOTH(a_refused_stream_can_be_tried_again),
		ON_BOTH(a_reset_is_a_failure),
		ON_BOTH(a_server_that_leaves_finishes_and_gets_no_more),
		ON_BOTH(a_lost_connection_counts_once),
		ON_BOTH(nobody_there),
		ON_BOTH(a_server_of_http_1_is_found_out),
		ON_BOTH(an_idle_connection_ends),
		ON_BOTH(a_server_that_closes_an_idle_connection_is_not_blamed),
		ON_BOTH(a_backend_that_is_left_finishes_its_calls),
		ON_BOTH(letting_go_ends_idle_ones),
		ON_BOTH(closing_fails_what_is_under_way),
		ON_BOTH(an_answer_that_is_late_fails_its_call_only),
		ON_BOTH(the_gap_in_a_body_is_bounded_but_not_in_streams),
		ON_BOTH(a_silent_server_is_pinged_once),
		ON_BOTH(a_server_that_answers_no_ping_is_dead),
		ON_BOTH(settings_that_do_not_come),
		ON_BOTH(a_connection_in_doubt_gets_no_more_calls),
		ON_BOTH(a_body_that_is_not_taken_in_time),
		ON_BOTH(all_of_a_call_can_be_bounded),
		ON_BOTH(out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
