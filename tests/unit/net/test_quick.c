/* SPDX-License-Identifier: Apache-2.0 */
/* Output that is built in place. io_uring has no such buffer: there the same bytes go the usual way. */
#include "support/on_net.h"

#include "net/net.h"

#define LIMITS(...) ((weir_conn_limits){__VA_ARGS__})
#define ROOM        2048

static bool in_place(const weir_loop *loop)
{
	return strcmp(weir_loop_backend(loop), "epoll") == 0;
}

/* In place where that is possible; whether it was. */
static bool put(weir_conn *conn, const char *bytes, size_t length)
{
	char *place = weir_conn_reserve(conn, length + ROOM);
	if (place == NULL) {
		assert_int_equal(weir_conn_write(conn, bytes, length), 0);
		return false;
	}
	memcpy(place, bytes, length);
	weir_conn_commit(conn, length);
	return true;
}

static bool put_text(weir_conn *conn, const char *text)
{
	return put(conn, text, strlen(text));
}

/* ---- within a call ---- */

static void act_put(side *s, weir_conn *conn)
{
	assert_int_equal(put_text(conn, "one,"), in_place(s->loop));
	/* Filled and not committed: as if it had not been asked for. */
	char *place = weir_conn_reserve(conn, 3);
	assert_int_equal(place != NULL, in_place(s->loop));
	if (place != NULL)
		memcpy(place, "not", 3);
	assert_int_equal(put_text(conn, "two,"), in_place(s->loop));
	assert_int_equal(weir_conn_output(conn), 8);
}

static void what_is_built_in_place_goes_out(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_put};
	char answer[9] = "";
	serve_one(&t, loop, &side_ops, LIMITS(0));
	for (int i = 0; i < 3; i++) {
		say(t.peer, "x");
		hear(loop, t.peer, answer, 8);
		assert_string_equal(answer, "one,two,");
		turn_until(loop, weir_conn_output(t.side.conn) == 0);
	}
	serve_end(&t);
}

static weir_buf *shared;

static void act_mixed(side *s, weir_conn *conn)
{
	put_text(conn, "<");
	assert_int_equal(weir_conn_write(conn, "a", 1), 0);
	/* Something waits in the usual way: what follows must wait behind it. */
	assert_null(weir_conn_reserve(conn, 1));
	put_text(conn, "b");
	weir_conn_flush(conn);
	assert_int_equal(put_text(conn, "c"), in_place(s->loop));
	assert_int_equal(weir_conn_send(conn, shared, 0, 1), 0);
	put_text(conn, ">");
}

static void it_keeps_its_place_among_other_output(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_mixed};
	char answer[7] = "";
	shared = weir_buf_new(1);
	shared->data[0] = 's';
	shared->length = 1;
	serve_one(&t, loop, &side_ops, LIMITS(0));
	say(t.peer, "x");
	hear(loop, t.peer, answer, 6);
	assert_string_equal(answer, "<abcs>");
	turn_until(loop, weir_conn_output(t.side.conn) == 0);
	weir_buf_unref(shared);
	serve_end(&t);
}

/* ---- outside of one ---- */

static void outside_of_a_call_it_is_sent_at_once(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	char answer[3];
	serve_one(&t, loop, &side_ops, LIMITS(0));
	if (put_text(t.side.conn, "now")) {
		assert_int_equal(weir_conn_output(t.side.conn), 0);
		assert_int_equal(recv(t.peer, answer, 3, 0), 3);
	} else {
		hear(loop, t.peer, answer, 3);
	}
	assert_memory_equal(answer, "now", 3);
	turn_some(loop);
	serve_end(&t);
}

/* ---- slow peers ---- */

enum { PIECE = 5000, PIECES = 60 };

static void what_does_not_go_out_waits(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	int size = 4096;
	size_t placed = 0;
	char *bytes = malloc(PIECE * PIECES), *got = malloc(PIECE * PIECES);
	for (size_t i = 0; i < PIECE * PIECES; i++)
		bytes[i] = (char)(i * 31 + i / 253);
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 2 * PIECE * PIECES));
	setsockopt(weir_conn_fd(t.side.conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	for (size_t i = 0; i < PIECES; i++)
		placed += put(t.side.conn, bytes + i * PIECE, PIECE);
	/* The first ones were; at some time the socket was full, and from then on none. */
	if (in_place(loop))
		assert_in_range(placed, 1, PIECES - 1);
	assert_in_range(weir_conn_output(t.side.conn), 1, PIECE * PIECES);
	hear(loop, t.peer, got, PIECE * PIECES);
	assert_memory_equal(got, bytes, PIECE * PIECES);
	turn_until(loop, weir_conn_output(t.side.conn) == 0);
	assert_int_equal(put_text(t.side.conn, "again"), in_place(loop));
	hear(loop, t.peer, got, 5);
	free(bytes);
	free(got);
	serve_end(&t);
}

static void no_memory_for_what_waits_is_the_end(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	int size = 4096;
	static const char bytes[PIECE];
	if (!in_place(loop))
		return;
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 2 * PIECE * PIECES));
	setsockopt(weir_conn_fd(t.side.conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	weir_mem_fail_after(1);
	for (size_t i = 0; i < PIECES && weir_conn_reserve(t.side.conn, PIECE) != NULL; i++)
		put(t.side.conn, bytes, PIECE);
	weir_mem_fail_after(0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ENOMEM);
	serve_end(&t);
}

/* Exactly half of the bound is not below it: whoever stopped writing there waits to be told. */
static void drained_is_called_for_exactly_the_mark(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	char bytes[1000];
	memset(bytes, 'x', sizeof(bytes));
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 2 * sizeof(bytes)));
	char *place = weir_conn_reserve(t.side.conn, sizeof(bytes));
	assert_int_equal(place != NULL, in_place(loop));
	if (place != NULL) {
		memcpy(place, bytes, sizeof(bytes));
		weir_conn_commit(t.side.conn, sizeof(bytes));
		hear(loop, t.peer, bytes, sizeof(bytes));
		turn_until(loop, t.side.calls[IN_DRAINED] == 1);
	}
	serve_end(&t);
}

/* ---- when there is none ---- */

static void the_bound_holds(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 1000));
	assert_null(weir_conn_reserve(t.side.conn, 1001));
	assert_int_equal(weir_conn_reserve(t.side.conn, 1000) != NULL, in_place(loop));
	assert_null(weir_conn_reserve(t.side.conn, WEIR_QUICK_BYTES + 1));
	serve_end(&t);
}

static void act_put_and_abort(side *s, weir_conn *conn)
{
	put_text(conn, "lost");
	weir_conn_abort(conn, -ECANCELED);
	assert_null(weir_conn_reserve(conn, 1));
}

static void act_put_and_close(side *s, weir_conn *conn)
{
	put_text(conn, "last");
	weir_conn_close(conn);
	assert_null(weir_conn_reserve(conn, 1));
}

static void an_ended_connection_leaves_it_to_others(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_put_and_abort}, other = {.side.act[IN_DATA] = act_put_and_close};
	char answer[5] = "";
	serve_one(&t, loop, &side_ops, LIMITS(0));
	serve_one(&other, loop, &side_ops, LIMITS(0));
	say(t.peer, "x");
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(put_text(other.side.conn, "more"), in_place(loop));
	hear(loop, other.peer, answer, 4);
	assert_string_equal(answer, "more");
	say(other.peer, "x");
	hear(loop, other.peer, answer, 4);
	assert_string_equal(answer, "last");
	assert_int_equal(hear_end(loop, other.peer), 0);
	serve_end(&t);
	serve_end(&other);
}

static weir_conn *second;

/* In a call of one connection: what it has built stays its own. */
static void act_put_on_both(side *s, weir_conn *conn)
{
	put_text(conn, "first");
	assert_null(weir_conn_reserve(second, 1));
	assert_int_equal(weir_conn_write(second, "second", 6), 0);
}

static void two_connections_do_not_mix(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {.side.act[IN_DATA] = act_put_on_both}, other = {0};
	char answer[7] = "";
	serve_one(&t, loop, &side_ops, LIMITS(0));
	serve_one(&other, loop, &side_ops, LIMITS(0));
	second = other.side.conn;
	if (in_place(loop)) {
		say(t.peer, "x");
		hear(loop, t.peer, answer, 5);
		assert_string_equal(answer, "first");
		hear(loop, other.peer, answer, 6);
		assert_string_equal(answer, "second");
	}
	serve_end(&t);
	serve_end(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(what_is_built_in_place_goes_out),
		ON_BOTH(it_keeps_its_place_among_other_output),
		ON_BOTH(outside_of_a_call_it_is_sent_at_once),
		ON_BOTH(what_does_not_go_out_waits),
		ON_BOTH(no_memory_for_what_waits_is_the_end),
		ON_BOTH(drained_is_called_for_exactly_the_mark),
		ON_BOTH(the_bound_holds),
		ON_BOTH(an_ended_connection_leaves_it_to_others),
		ON_BOTH(two_connections_do_not_mix),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
