/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_net.h"

#include <netinet/tcp.h>
#include <pthread.h>

#define LIMITS(...) ((weir_conn_limits){__VA_ARGS__})

static weir_buf *shared_text(const char *text)
{
	weir_buf *buf = weir_buf_new(strlen(text));
	buf->length = (uint32_t)strlen(text);
	memcpy(buf->data, text, buf->length);
	return buf;
}

static uint8_t *pattern(size_t count)
{
	uint8_t *bytes = malloc(count);
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 253);
	return bytes;
}

/* Makes both kernel buffers of a connection small, so that output soon waits. */
static void make_narrow(int fd)
{
	int size = 4096;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/* ---- the everyday ---- */

static void act_echo(side *s, weir_conn *conn)
{
	assert_int_equal(weir_conn_write(conn, s->bytes, s->count), 0);
	s->count = 0;
}

static struct sockaddr_storage told_in_open;

static void act_ask_peer(side *s, weir_conn *conn)
{
	assert_int_equal(weir_conn_peer(conn, &told_in_open), 0);
}

/* The address it tells, now and when it was opened, is the one that the peer has. */
static void peers_agree(const weir_conn *conn, int peer)
{
	struct sockaddr_storage told;
	struct sockaddr_in is;
	socklen_t length = sizeof(is);
	assert_int_equal(getsockname(peer, (struct sockaddr *)&is, &length), 0);
	assert_int_equal(weir_conn_peer(conn, &told), 0);
	assert_memory_equal(&told, &is, sizeof(is));
	assert_memory_equal(&told_in_open, &is, sizeof(is));
}

static void act_peer_is_gone(side *s, weir_conn *conn)
{
	struct sockaddr_storage told = {.ss_family = 77};
	assert_int_equal(weir_conn_peer(conn, &told), -ENOTCONN);
	assert_int_equal(told.ss_family, 77);
}

static void echoes(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {
		.side.act = {[IN_OPEN] = act_ask_peer, [IN_DATA] = act_echo, [IN_CLOSED] = act_peer_is_gone}};
	char answer[5];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_ptr_equal(weir_conn_loop(t.side.conn), loop);
	peers_agree(t.side.conn, t.peer);
	for (int i = 0; i < 10; i++) {
		say(t.peer, "hello");
		hear(loop, t.peer, answer, 5);
		assert_memory_equal(answer, "hello", 5);
	}
	assert_int_equal(weir_conn_output(t.side.conn), 0);
	close(t.peer);
	t.peer = -1;
	turn_until(loop, t.side.calls[IN_EOF] == 1);
	weir_conn_close(t.side.conn);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	serve_end(&t);
}

static weir_buf *reply;

static void act_mixed(side *s, weir_conn *conn)
{
	for (int i = 0; i < 20; i++) {
		assert_int_equal(weir_conn_write(conn, "<", 1), 0);
		assert_int_equal(weir_conn_send(conn, reply, 1, 3), 0);
		assert_int_equal(weir_conn_write(conn, ">", 1), 0);
		assert_int_equal(weir_conn_write(conn, "", 0), 0);
	}
	assert_int_equal(weir_conn_output(conn), 100);
}

static void copies_and_shared_buffers_keep_their_order(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_mixed};
	char answer[101] = "", expected[101] = "";
	reply = shared_text("abcde");
	for (int i = 0; i < 20; i++)
		snprintf(expected + i * 5, sizeof(expected) - (size_t)i * 5, "<bcd>");
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "x");
	hear(loop, t.peer, answer, 100);
	assert_string_equal(answer, expected);
	turn_until(loop, weir_conn_output(t.side.conn) == 0);
	assert_int_equal(reply->refs, 1);
	weir_buf_unref(reply);
	serve_end(&t);
}

/* Outside of the conn's own calls, output goes at the end of the turn, and flush sends at once. */
static void output_written_between_turns_goes_out(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	char answer[3];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(weir_conn_write(t.side.conn, "one", 3), 0);
	hear(loop, t.peer, answer, 3);
	turn_some(loop);
	assert_int_equal(weir_conn_write(t.side.conn, "two", 3), 0);
	weir_conn_flush(t.side.conn);
	assert_int_equal(recv(t.peer, answer, 3, 0), 3);
	assert_memory_equal(answer, "two", 3);
	serve_end(&t);
}

/* ---- bulk ---- */

static void feed(weir_loop *loop, side *s, int fd, const uint8_t *bytes, size_t count)
{
	size_t fed = 0;
	for (int i = 0; i < TURNS_MOST && s->count < count; i++) {
		if (fed < count) {
			ssize_t n = send(fd, bytes + fed, count - fed, MSG_NOSIGNAL);
			fed += n > 0 ? (size_t)n : 0;
		}
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
	}
	assert_int_equal(s->count, count);
	assert_memory_equal(s->bytes, bytes, count);
}

static void receives_bulk_in_fair_portions(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	uint8_t *bytes = pattern(3000000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	feed(loop, &t.side, t.peer, bytes, 3000000);
	assert_true(t.side.most_a_turn <= 65536);
	/* Small pieces after it come as before. */
	t.side.count = 0;
	feed(loop, &t.side, t.peer, bytes, 10);
	t.side.count = 0;
	feed(loop, &t.side, t.peer, bytes, 200000);
	free(bytes);
	serve_end(&t);
}

static void act_pause_often(side *s, weir_conn *conn)
{
	weir_conn_pause(conn);
}

/* A read in bulk fills several buffers. Those behind a pause wait, and nothing is lost or turned round. */
static void a_pause_within_bulk_holds_the_rest(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_pause_often};
	enum { COUNT = 600000 };
	uint8_t *bytes = pattern(COUNT);
	size_t fed = 0;
	serve_one(&t, loop, &side_ops, LIMITS(0));
	for (int i = 0; i < TURNS_MOST && t.side.count < COUNT; i++) {
		ssize_t n = fed < COUNT ? send(t.peer, bytes + fed, COUNT - fed, MSG_NOSIGNAL) : 0;
		fed += n > 0 ? (size_t)n : 0;
		int calls = t.side.calls[IN_DATA];
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		assert_true(t.side.calls[IN_DATA] <= calls + 1);
		weir_conn_resume(t.side.conn);
	}
	assert_int_equal(t.side.count, COUNT);
	assert_memory_equal(t.side.bytes, bytes, COUNT);
	free(bytes);
	serve_end(&t);
}

/* What waits behind a pause is released with its connection. */
static void ends_while_bulk_waits(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	enum { COUNT = 200000 };
	uint8_t *bytes = pattern(COUNT);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	feed(loop, &t.side, t.peer, bytes, 100000);
	t.side.act[IN_DATA] = act_pause_often;
	assert_true(send(t.peer, bytes, COUNT, MSG_NOSIGNAL) > 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
	weir_conn_abort(t.side.conn, -ECANCELED);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ECANCELED);
	free(bytes);
	serve_end(&t);
}

static void sends_bulk_through_short_writes(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	enum { COUNT = 250000 };
	uint8_t *bytes = pattern(COUNT), *got = malloc(COUNT);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	make_narrow(weir_conn_fd(t.side.conn));
	weir_buf *buf = weir_buf_new(COUNT);
	memcpy(buf->data, bytes, COUNT);
	buf->length = COUNT;
	/* Many segments, so that several blocks are cut in the middle. */
	size_t done = 0;
	for (size_t step = 1; done < COUNT; step++) {
		size_t length = step * 379 % 5000 + 1;
		length = length < COUNT - done ? length : COUNT - done;
		int error = step % 2 ? weir_conn_send(t.side.conn, buf, done, length)
				     : weir_conn_write(t.side.conn, bytes + done, length);
		assert_int_equal(error, 0);
		done += length;
	}
	assert_int_equal(weir_conn_output(t.side.conn), COUNT);
	hear(loop, t.peer, got, COUNT);
	assert_memory_equal(bytes, got, COUNT);
	turn_until(loop, weir_conn_output(t.side.conn) == 0);
	assert_int_equal(buf->refs, 1);
	weir_buf_unref(buf);
	free(bytes);
	free(got);
	serve_end(&t);
}

/* ---- the bound on output ---- */

static void refuses_output_over_the_bound(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	static uint8_t data[12000];
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 10000));
	weir_conn *conn = t.side.conn;
	assert_int_equal(weir_conn_write(conn, data, 10001), -ENOBUFS);
	assert_int_equal(weir_conn_output(conn), 0);
	assert_int_equal(weir_conn_write(conn, data, 8000), 0);
	assert_int_equal(weir_conn_write(conn, data, 2001), -ENOBUFS);
	assert_int_equal(weir_conn_output(conn), 8000);
	assert_int_equal(weir_conn_write(conn, data, 2000), 0);
	assert_int_equal(weir_conn_output(conn), 10000);
	assert_int_equal(t.side.calls[IN_DRAINED], 0);
	hear(loop, t.peer, data, 10000);
	turn_until(loop, t.side.calls[IN_DRAINED] == 1);
	assert_int_equal(weir_conn_output(conn), 0);
	/* Below half of it nobody needs to be told. */
	assert_int_equal(weir_conn_write(conn, data, 4000), 0);
	hear(loop, t.peer, data, 4000);
	turn_some(loop);
	assert_int_equal(t.side.calls[IN_DRAINED], 1);
	serve_end(&t);
}

/* Whoever stops writing at the mark, and not above it, is told as well. */
static void drained_is_called_for_exactly_the_mark(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	uint8_t data[5000];
	memset(data, 'x', sizeof(data));
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 2 * sizeof(data)));
	weir_conn *conn = t.side.conn;
	assert_int_equal(weir_conn_write(conn, data, sizeof(data)), 0);
	hear(loop, t.peer, data, sizeof(data));
	turn_until(loop, t.side.calls[IN_DRAINED] == 1);
	serve_end(&t);
}

static void sends_no_more_than_a_buffer_has(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	char heard[3];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	weir_buf *buf = weir_buf_new(64);
	assert_non_null(buf);
	memcpy(buf->data, "abcd", 4);
	buf->length = 4;
	assert_int_equal(weir_conn_send(t.side.conn, buf, 0, 5), -EINVAL);
	assert_non_null(strstr(weir_error(), "4 bytes"));
	assert_int_equal(weir_conn_send(t.side.conn, buf, 5, 0), -EINVAL);
	assert_int_equal(weir_conn_send(t.side.conn, buf, 2, SIZE_MAX), -EINVAL);
	assert_int_equal(weir_conn_output(t.side.conn), 0);
	assert_int_equal(weir_conn_send(t.side.conn, buf, 1, 3), 0);
	hear(loop, t.peer, heard, 3);
	assert_memory_equal(heard, "bcd", 3);
	weir_buf_unref(buf);
	serve_end(&t);
}

static int refills;

static void act_refill(side *s, weir_conn *conn)
{
	static const uint8_t data[6000];
	if (refills-- > 0)
		assert_int_equal(weir_conn_write(conn, data, sizeof(data)), 0);
}

static void drained_may_write_again(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act = {[IN_DATA] = act_refill, [IN_DRAINED] = act_refill}};
	static uint8_t data[60000];
	refills = 10;
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 10000));
	say(t.peer, "x");
	hear(loop, t.peer, data, sizeof(data));
	turn_until(loop, t.side.calls[IN_DRAINED] == 10);
	serve_end(&t);
}

/* ---- time ---- */

static void closes_a_slow_reader(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	static uint8_t data[200000];
	weir_listener_stats stats;
	serve_one(&t, loop, &side_ops, LIMITS(.output_ns = 20 * WEIR_NS_PER_MS));
	make_narrow(weir_conn_fd(t.side.conn));
	assert_int_equal(weir_conn_write(t.side.conn, data, sizeof(data)), 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ETIMEDOUT);
	weir_listener_read_stats(t.listener, &stats);
	assert_int_equal(stats.slow_readers, 1);
	assert_int_equal(stats.connections, 0);
	assert_int_equal(hear_end(loop, t.peer), ECONNRESET);
	serve_end(&t);
}

static void closes_a_slow_reader_that_is_being_closed(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	static uint8_t data[200000];
	serve_one(&t, loop, &side_ops, LIMITS(.output_ns = 20 * WEIR_NS_PER_MS));
	make_narrow(weir_conn_fd(t.side.conn));
	assert_int_equal(weir_conn_write(t.side.conn, data, sizeof(data)), 0);
	weir_conn_close(t.side.conn);
	assert_int_equal(weir_conn_write(t.side.conn, data, 1), -EPIPE);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ETIMEDOUT);
	serve_end(&t);
}

static void closes_an_idle_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	weir_listener_stats stats;
	/* Long enough for the byte to come before it, whatever else the machine does. */
	serve_one(&t, loop, &side_ops, LIMITS(.idle_ns = 200 * WEIR_NS_PER_MS));
	say(t.peer, "x");
	turn_until(loop, t.side.count == 1);
	uint64_t heard = weir_loop_now(loop);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ETIMEDOUT);
	/* Never early: the byte has put it off. */
	assert_true(weir_loop_now(loop) - heard >= 100 * WEIR_NS_PER_MS);
	weir_listener_read_stats(t.listener, &stats);
	assert_int_equal(stats.slow_readers, 0);
	serve_end(&t);
}

static void reads_at_a_rate(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	enum { COUNT = 30000, RATE = 200000 };
	uint8_t *bytes = pattern(COUNT);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	weir_conn_read_rate(t.side.conn, RATE);
	uint64_t start = weir_loop_now(loop);
	feed(loop, &t.side, t.peer, bytes, COUNT);
	/* All but the last piece must have been paid for. */
	uint64_t least = (uint64_t)(COUNT - 16384) * WEIR_NS_PER_S / RATE;
	assert_true(weir_loop_now(loop) - start >= least);
	/* Without a rate it does not matter what was booked. */
	weir_conn_read_rate(t.side.conn, 1);
	say(t.peer, "x");
	turn_until(loop, t.side.count == COUNT + 1);
	say(t.peer, "y");
	turn_some(loop);
	weir_conn_read_rate(t.side.conn, 0);
	turn_until(loop, t.side.count == COUNT + 2);
	free(bytes);
	serve_end(&t);
}

/* ---- pausing ---- */

static void act_pause(side *s, weir_conn *conn)
{
	weir_conn_pause(conn);
}

static void pauses_and_resumes(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_OPEN] = act_pause};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "one");
	turn_some(loop);
	assert_int_equal(t.side.count, 0);
	weir_conn_resume(t.side.conn);
	turn_until(loop, t.side.count == 3);
	weir_conn_pause(t.side.conn);
	weir_conn_resume(t.side.conn);
	say(t.peer, "two");
	turn_until(loop, t.side.count == 6);
	serve_end(&t);
}

static void a_pause_in_data_holds_back_the_rest(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_pause};
	enum { COUNT = 300000 };
	uint8_t *bytes = pattern(COUNT);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	size_t fed = 0;
	for (int i = 0; i < TURNS_MOST && t.side.count < COUNT; i++) {
		ssize_t n = fed < COUNT ? send(t.peer, bytes + fed, COUNT - fed, MSG_NOSIGNAL) : 0;
		fed += n > 0 ? (size_t)n : 0;
		int before = t.side.calls[IN_DATA];
		turn_some(loop);
		assert_true(t.side.calls[IN_DATA] - before <= 1);
		weir_conn_resume(t.side.conn);
	}
	assert_int_equal(t.side.count, COUNT);
	assert_memory_equal(t.side.bytes, bytes, COUNT);
	free(bytes);
	serve_end(&t);
}

/* The end of the stream waits for the resume too, behind the bytes. */
static void a_pause_holds_back_the_end(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_OPEN] = act_pause};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "last words");
	shutdown(t.peer, SHUT_WR);
	turn_some(loop);
	assert_int_equal(t.side.calls[IN_DATA] + t.side.calls[IN_EOF], 0);
	weir_conn_resume(t.side.conn);
	turn_until(loop, t.side.calls[IN_EOF] == 1);
	assert_int_equal(t.side.count, 10);
	serve_end(&t);
}

static void sees_a_reset_while_paused(void **state)
{
	weir_loop *loop = loop_of(state);
	for (int with_data = 0; with_data < 2; with_data++) {
		served t = {.side.act[IN_OPEN] = act_pause};
		serve_one(&t, loop, &side_ops, LIMITS(0));
		if (with_data)
			say(t.peer, "never read");
		turn_some(loop);
		reset_socket(t.peer);
		t.peer = -1;
		/* Bytes that came before may be in the way of the reset in the ring; sending finds it then. */
		turn_until(loop, t.side.calls[IN_CLOSED] == 1);
		assert_int_equal(t.side.why, -ECONNRESET);
		serve_end(&t);
	}
}

/* ---- ends ---- */

static void act_last_words(side *s, weir_conn *conn)
{
	assert_int_equal(weir_conn_write(conn, "bye", 3), 0);
	weir_conn_close(conn);
}

static void answers_after_the_peers_end(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_EOF] = act_last_words};
	char answer[3];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "request");
	shutdown(t.peer, SHUT_WR);
	hear(loop, t.peer, answer, 3);
	assert_int_equal(hear_end(loop, t.peer), 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	assert_int_equal(t.side.count, 7);
	serve_end(&t);
}

static void act_big_reply(side *s, weir_conn *conn)
{
	static const uint8_t data[100000];
	assert_int_equal(weir_conn_write(conn, data, sizeof(data)), 0);
}

static void without_eof_it_closes_once_the_output_is_out(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_big_reply};
	static uint8_t data[100000];
	serve_one(&t, loop, &side_ops_without_eof, LIMITS(0));
	make_narrow(weir_conn_fd(t.side.conn));
	say(t.peer, "x");
	shutdown(t.peer, SHUT_WR);
	hear(loop, t.peer, data, sizeof(data));
	assert_int_equal(hear_end(loop, t.peer), 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	serve_end(&t);
}

static void reports_a_reset(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	turn_some(loop);
	reset_socket(t.peer);
	t.peer = -1;
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ECONNRESET);
	assert_int_equal(t.side.calls[IN_EOF], 0);
	serve_end(&t);
}

/* A peer that keeps sending must still get the whole answer, not a reset. */
static void closing_does_not_destroy_the_answer(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_last_words};
	static uint8_t data[300000];
	char answer[3];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	size_t fed = 0;
	for (int i = 0; i < 50; i++) {
		ssize_t n = send(t.peer, data + fed, sizeof(data) - fed, MSG_NOSIGNAL);
		fed += n > 0 ? (size_t)n : 0;
		assert_int_equal(weir_loop_turn(loop, 0), 0);
	}
	assert_int_equal(fed, sizeof(data));
	assert_int_equal(t.side.calls[IN_DATA], 1);
	hear(loop, t.peer, answer, 3);
	assert_int_equal(hear_end(loop, t.peer), 0);
	assert_int_equal(t.side.calls[IN_CLOSED], 0);
	close(t.peer);
	t.peer = -1;
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	serve_end(&t);
}

static void lingers_for_a_bounded_time(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_OPEN] = act_close};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	/* The peer never closes. */
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	serve_end(&t);
}

static void an_abort_resets_where_output_is_lost(void **state)
{
	weir_loop *loop = loop_of(state);
	for (int lost = 0; lost < 2; lost++) {
		served t = {0};
		serve_one(&t, loop, &side_ops, LIMITS(0));
		turn_some(loop);
		if (lost)
			assert_int_equal(weir_conn_write(t.side.conn, "lost", 4), 0);
		weir_conn_abort(t.side.conn, -EPROTO);
		assert_int_equal(weir_conn_write(t.side.conn, "x", 1), -EPIPE);
		assert_int_equal(t.side.calls[IN_CLOSED], 0);
		turn_until(loop, t.side.calls[IN_CLOSED] == 1);
		assert_int_equal(t.side.why, -EPROTO);
		assert_int_equal(hear_end(loop, t.peer), lost ? ECONNRESET : 0);
		serve_end(&t);
	}
}

static void act_refill_small(side *s, weir_conn *conn)
{
	static const uint8_t data[6000];
	assert_int_equal(weir_conn_write(conn, data, sizeof(data)), 0);
}

static void act_nothing_works(side *s, weir_conn *conn)
{
	assert_int_equal(weir_conn_write(conn, "x", 1), -EPIPE);
	weir_conn_close(conn);
	weir_conn_abort(conn, -EPROTO);
	weir_conn_pause(conn);
	weir_conn_resume(conn);
	weir_conn_flush(conn);
}

/* Each of close and abort from within each call: closed comes once, later, and nothing after it. */
static void may_be_ended_in_every_call(void **state)
{
	weir_loop *loop = loop_of(state);
	static char waste[70000];
	for (int call = IN_OPEN; call <= IN_DRAINED; call++) {
		for (int abort = 0; abort < 2; abort++) {
			served t = {.side.act[IN_CLOSED] = act_nothing_works};
			t.side.act[IN_DATA] = call == IN_DRAINED ? act_refill_small : NULL;
			t.side.act[call] = abort ? act_abort : act_close;
			serve(&t, loop, &side_ops, LIMITS(.output_bytes = 10000));
			t.peer = dial(t.listener);
			say(t.peer, "x");
			if (call == IN_EOF)
				shutdown(t.peer, SHUT_WR);
			turn_until(loop, t.side.calls[call] == 1);
			/* The peer leaves as well, so that lingering ends. */
			while (sip(t.peer, waste, sizeof(waste)) > 0)
				;
			close(t.peer);
			t.peer = -1;
			turn_until(loop, t.side.calls[IN_CLOSED] == 1);
			assert_int_equal(t.side.why, abort ? -ECANCELED : 0);
			serve_end(&t);
		}
	}
}

static side_act *second_act;

static void act_twice(side *s, weir_conn *conn)
{
	weir_conn_close(conn);
	weir_conn_close(conn);
	second_act(s, conn);
}

static void an_abort_may_follow_a_close(void **state)
{
	weir_loop *loop = loop_of(state);
	second_act = act_abort;
	served t = {.side.act[IN_DATA] = act_twice};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "x");
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ECANCELED);
	serve_end(&t);
}

static void open_may_refuse(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.refuse = -EACCES};
	weir_listener_stats stats;
	serve_one(&t, loop, &side_ops, LIMITS(0));
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -EACCES);
	weir_listener_read_stats(t.listener, &stats);
	assert_int_equal(stats.accepted, 1);
	assert_int_equal(stats.refused, 1);
	serve_end(&t);
}

/* The loop goes with a connection on it: its owner still hears of the end. */
static void a_loop_that_ends_closes_what_is_left(void **state)
{
	weir_loop *loop = loop_of(state), *own = NULL;
	assert_non_null(loop);
	assert_int_equal(weir_loop_new(&own), 0);
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = loopback(0);
	socklen_t length = sizeof(to);
	assert_int_equal(bind(listening, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(listening, 8), 0);
	getsockname(listening, (struct sockaddr *)&to, &length);
	side s = {.loop = own};
	weir_conn *conn;
	assert_int_equal(weir_conn_open(own, (struct sockaddr *)&to, length, &side_ops, NULL, &s, &conn), 0);
	turn_until(own, s.calls[IN_OPEN] == 1);
	assert_int_equal(weir_conn_write(conn, "x", 1), 0);
	s.loop = NULL; /* no turn is under way then */
	weir_loop_free(&own);
	assert_int_equal(s.calls[IN_CLOSED], 1);
	assert_int_equal(s.why, -ECANCELED);
	close(listening);
}

/* ---- opening ---- */

typedef struct opened {
	side side;
	weir_conn *conn;
	int listening;
	struct sockaddr_in to;
} opened;

static void listen_plain(opened *o, weir_loop *loop, int backlog)
{
	socklen_t length = sizeof(o->to);
	o->side.loop = loop;
	o->to = loopback(0);
	o->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(o->listening, (struct sockaddr *)&o->to, sizeof(o->to)), 0);
	assert_int_equal(listen(o->listening, backlog), 0);
	getsockname(o->listening, (struct sockaddr *)&o->to, &length);
}

static int open_conn(opened *o, const weir_conn_limits *limits)
{
	return weir_conn_open(o->side.loop, (struct sockaddr *)&o->to, sizeof(o->to), &side_ops, limits,
			      &o->side, &o->conn);
}

static void connects_and_talks(void **state)
{
	weir_loop *loop = loop_of(state);
	opened o = {0};
	char answer[8];
	listen_plain(&o, loop, 8);
	assert_int_equal(open_conn(&o, NULL), 0);
	/* What is written before the connection is there goes out first. */
	assert_int_equal(weir_conn_write(o.conn, "early", 5), 0);
	assert_int_equal(o.side.calls[IN_OPEN], 0);
	turn_until(loop, o.side.calls[IN_OPEN] == 1);
	assert_ptr_equal(o.conn, o.side.conn);
	int peer = accept(o.listening, NULL, NULL);
	never_block(peer);
	assert_int_equal(weir_conn_write(o.conn, "bird", 4), 0);
	hear(loop, peer, answer, 5);
	hear(loop, peer, answer, 4);
	assert_memory_equal(answer, "bird", 4);
	say(peer, "worm");
	turn_until(loop, o.side.count == 4);
	close(peer);
	turn_until(loop, o.side.calls[IN_EOF] == 1);
	weir_conn_close(o.conn);
	turn_until(loop, o.side.calls[IN_CLOSED] == 1);
	assert_int_equal(o.side.why, 0);
	close(o.listening);
	side_fini(&o.side);
}

static void reports_a_refused_connect(void **state)
{
	weir_loop *loop = loop_of(state);
	opened o = {0};
	listen_plain(&o, loop, 8);
	close(o.listening);
	assert_int_equal(open_conn(&o, NULL), 0);
	turn_until(loop, o.side.calls[IN_CLOSED] == 1);
	assert_int_equal(o.side.why, -ECONNREFUSED);
	assert_int_equal(o.side.calls[IN_OPEN], 0);
}

static void reports_an_address_of_no_use(void **state)
{
	weir_loop *loop = loop_of(state);
	opened o = {.side.loop = loop, .to = {.sin_family = AF_MAX}};
	assert_true(open_conn(&o, NULL) < 0);
	assert_true(strlen(weir_error()) > 0);
	assert_null(o.conn);
	weir_conn_ops none = {0};
	assert_int_equal(
		weir_conn_open(loop, (struct sockaddr *)&o.to, sizeof(o.to), &none, NULL, NULL, &o.conn),
		-EINVAL);
}

/* With its backlog full, a listening socket answers no more: the connect hangs. */
static void fill_backlog(opened *o, int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fds[i], (struct sockaddr *)&o->to, sizeof(o->to)), -1);
		assert_int_equal(errno, EINPROGRESS);
	}
}

static void a_connect_may_take_too_long_or_be_given_up(void **state)
{
	weir_loop *loop = loop_of(state);
	for (int give_up = 0; give_up < 3; give_up++) {
		opened o = {0};
		int fds[4];
		weir_conn_limits limits = {.connect_ns = 20 * WEIR_NS_PER_MS};
		listen_plain(&o, loop, 0);
		fill_backlog(&o, fds, 4);
		assert_int_equal(open_conn(&o, &limits), 0);
		if (give_up == 1)
			weir_conn_close(o.conn);
		if (give_up == 2)
			weir_conn_abort(o.conn, -EPROTO);
		assert_int_equal(o.side.calls[IN_CLOSED], 0);
		turn_until(loop, o.side.calls[IN_CLOSED] == 1);
		assert_int_equal(o.side.why, give_up == 0 ? -ETIMEDOUT : give_up == 1 ? 0 : -EPROTO);
		assert_int_equal(o.side.calls[IN_OPEN], 0);
		for (int i = 0; i < 4; i++)
			close(fds[i]);
		close(o.listening);
	}
}

/* ---- buffers beyond the call ---- */

static weir_buf *kept[200];
static int kept_count;

static void keep(side *s, weir_buf *buf)
{
	if (kept_count < 200)
		kept[kept_count++] = weir_buf_ref(buf);
}

static void *let_go(void *arg)
{
	for (int i = 0; i < kept_count; i++)
		weir_buf_unref(kept[i]);
	return NULL;
}

static void kept_buffers_stay_whole_and_may_be_let_go_elsewhere(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.take = keep};
	enum { COUNT = 1500000 };
	uint8_t *bytes = pattern(COUNT);
	kept_count = 0;
	serve_one(&t, loop, &side_ops, LIMITS(0));
	feed(loop, &t.side, t.peer, bytes, COUNT);
	size_t at = 0;
	for (int i = 0; i < kept_count; i++) {
		assert_memory_equal(kept[i]->data, bytes + at, kept[i]->length);
		at += kept[i]->length;
	}
	pthread_t thread;
	pthread_create(&thread, NULL, let_go, NULL);
	/* The loop goes on meanwhile. */
	t.side.take = NULL;
	t.side.count = 0;
	feed(loop, &t.side, t.peer, bytes, 100000);
	pthread_join(thread, NULL);
	free(bytes);
	serve_end(&t);
}

/* What came can be sent on without a copy. */
static void act_forward(side *s, weir_buf *buf)
{
	assert_int_equal(weir_conn_send(s->conn, buf, 0, buf->length), 0);
}

static void received_buffers_can_be_sent(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.take = act_forward};
	uint8_t *bytes = pattern(100000), *got = malloc(100000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	for (size_t at = 0; at < 100000; at += 10000) {
		assert_int_equal(send(t.peer, bytes + at, 10000, MSG_NOSIGNAL), 10000);
		hear(loop, t.peer, got + at, 10000);
	}
	assert_memory_equal(bytes, got, 100000);
	free(bytes);
	free(got);
	serve_end(&t);
}

/* ---- out of memory ---- */

static void act_echo_if_possible(side *s, weir_conn *conn)
{
	if (weir_conn_write(conn, s->bytes, s->count) != 0)
		weir_conn_abort(conn, -ENOMEM);
	s->count = 0;
}

/* One exchange on a loop of its own, with whatever fails on the way. False: it could not even begin. */
static bool try_exchange(side *s)
{
	weir_loop *loop = NULL;
	weir_listener *listener = NULL;
	struct sockaddr_in any = loopback(0);
	char answer[5];
	bool heard = false;
	if (weir_loop_new(&loop) != 0)
		return false;
	s->loop = loop;
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .ops = &side_ops,
				       .arg = s};
	if (weir_listen_on_loop(loop, &options, &listener) == 0) {
		int peer = dial(listener);
		say(peer, "hello");
		for (int i = 0; i < TURNS_MOST && !heard; i++) {
			weir_loop_turn(loop, WEIR_NS_PER_MS);
			ssize_t n = sip(peer, answer, 5);
			heard = n == 5;
			if (n == 0 || n < -1)
				break;
		}
		close(peer);
		weir_listener_free(&listener);
	}
	weir_loop_free(&loop);
	return heard;
}

static void survives_every_failed_allocation(void **state)
{
	if (loop_of(state) == NULL)
		return;
	bool heard = false;
	uint64_t nth = 0;
	while (!heard || nth < 20) {
		side s = {.act[IN_DATA] = act_echo_if_possible};
		uint64_t live = weir_mem_live();
		weir_mem_fail_after(++nth);
		heard = try_exchange(&s);
		weir_mem_fail_after(0);
		assert_int_equal(weir_mem_live(), live);
		assert_int_equal(s.calls[IN_CLOSED], s.calls[IN_OPEN]);
		side_fini(&s);
		assert_true(nth < 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(echoes),
		ON_BOTH(copies_and_shared_buffers_keep_their_order),
		ON_BOTH(output_written_between_turns_goes_out),
		ON_BOTH(receives_bulk_in_fair_portions),
		ON_BOTH(a_pause_within_bulk_holds_the_rest),
		ON_BOTH(ends_while_bulk_waits),
		ON_BOTH(sends_bulk_through_short_writes),
		ON_BOTH(refuses_output_over_the_bound),
		ON_BOTH(sends_no_more_than_a_buffer_has),
		ON_BOTH(drained_is_called_for_exactly_the_mark),
		ON_BOTH(drained_may_write_again),
		ON_BOTH(closes_a_slow_reader),
		ON_BOTH(closes_a_slow_reader_that_is_being_closed),
		ON_BOTH(closes_an_idle_connection),
		ON_BOTH(reads_at_a_rate),
		ON_BOTH(pauses_and_resumes),
		ON_BOTH(a_pause_in_data_holds_back_the_rest),
		ON_BOTH(a_pause_holds_back_the_end),
		ON_BOTH(sees_a_reset_while_paused),
		ON_BOTH(answers_after_the_peers_end),
		ON_BOTH(without_eof_it_closes_once_the_output_is_out),
		ON_BOTH(reports_a_reset),
		ON_BOTH(closing_does_not_destroy_the_answer),
		ON_BOTH(lingers_for_a_bounded_time),
		ON_BOTH(an_abort_resets_where_output_is_lost),
		ON_BOTH(may_be_ended_in_every_call),
		ON_BOTH(an_abort_may_follow_a_close),
		ON_BOTH(open_may_refuse),
		ON_BOTH(a_loop_that_ends_closes_what_is_left),
		ON_BOTH(connects_and_talks),
		ON_BOTH(reports_a_refused_connect),
		ON_BOTH(reports_an_address_of_no_use),
		ON_BOTH(a_connect_may_take_too_long_or_be_given_up),
		ON_BOTH(kept_buffers_stay_whole_and_may_be_let_go_elsewhere),
		ON_BOTH(received_buffers_can_be_sent),
		ON_BOTH(survives_every_failed_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
