/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from one connection to another, through a pipe. */
#include "support/on_net.h"

#include <netinet/tcp.h>

#include "net/conn_priv.h"

#define LIMITS(...) ((weir_conn_limits){__VA_ARGS__})

static uint8_t pattern_at(uint64_t i)
{
	return (uint8_t)(i * 31 + i / 253);
}

static void make_narrow(int fd)
{
	int size = 4096;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* What comes from one peer goes to the other, until so many bytes have come. */
typedef struct relay {
	served from, to;
	uint64_t left, moved, said, heard;
	int64_t last; /* what the last splice returned */
	int copies;   /* how many times it had to be read */
} relay;

static relay *current;

static int64_t pull(weir_conn *conn)
{
	relay *r = current;
	assert_ptr_equal(conn, r->from.side.conn);
	if (r->to.side.conn == NULL)
		return r->last = -ENOTSUP;
	r->last = weir_conn_splice(conn, r->to.side.conn, r->left < 1000000 ? (size_t)r->left : 1000000);
	if (r->last == -ENOBUFS)
		weir_conn_pause(conn);
	r->copies += r->last == -ENOTSUP;
	if (r->last > 0) {
		r->moved += (uint64_t)r->last;
		r->left -= (uint64_t)r->last;
		if (r->left == 0) {
			weir_conn_set_pull(conn, NULL);
			weir_conn_is_silent(conn);
		}
	}
	return r->last;
}

/* What was read is passed on, too. */
static void act_pass_on(side *s, weir_conn *conn)
{
	relay *r = current;
	if (r->to.side.conn != NULL && weir_conn_write(r->to.side.conn, s->bytes, s->count) != 0)
		weir_conn_abort(r->to.side.conn, -ENOMEM);
	r->left -= s->count;
	s->count = 0;
}

static void act_go_on(side *s, weir_conn *conn)
{
	weir_conn_resume(current->from.side.conn);
}

static void relay_init(relay *r, weir_loop *loop, uint64_t length, uint32_t output_bytes)
{
	*r = (relay){.left = length};
	current = r;
	r->from.side.act[IN_DATA] = act_pass_on;
	r->to.side.act[IN_DRAINED] = act_go_on;
	serve_one(&r->from, loop, &side_ops, LIMITS(0));
	serve_one(&r->to, loop, &side_ops, LIMITS(.output_bytes = output_bytes));
	weir_conn_set_pull(r->from.side.conn, pull);
}

static void relay_end(relay *r, weir_loop *loop)
{
	serve_end(&r->from);
	serve_end(&r->to);
}

/* Says as much as the socket takes, at most up to there. */
static void say_some(relay *r, uint64_t to)
{
	uint8_t part[50000];
	while (r->said < to) {
		size_t count = to - r->said < sizeof(part) ? (size_t)(to - r->said) : sizeof(part);
		for (size_t i = 0; i < count; i++)
			part[i] = pattern_at(r->said + i);
		ssize_t sent = send(r->from.peer, part, count, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		r->said += (uint64_t)sent;
	}
}

static void hear_some(relay *r)
{
	uint8_t part[60000];
	ssize_t got;
	while ((got = sip(r->to.peer, part, sizeof(part))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			assert_int_equal(part[i], pattern_at(r->heard + (uint64_t)i));
		r->heard += (uint64_t)got;
	}
	assert_int_equal(got, -1);
}

static void relay_all(relay *r, weir_loop *loop, uint64_t length)
{
	for (int i = 0; i < TURNS_MOST && r->heard < length; i++) {
		say_some(r, length);
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		hear_some(r);
	}
	assert_int_equal(r->heard, length);
}

static void everything_arrives_in_order(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 5000000 };
	relay_init(&r, loop, LENGTH, 0);
	relay_all(&r, loop, LENGTH);
	assert_int_equal(r.left, 0);
	assert_true(r.moved > LENGTH / 2);
	turn_until(loop, weir_conn_output(r.to.side.conn) == 0);
	/* Nobody uses a pipe any more, and what comes is read again. */
	weir_pipes *pipes = &weir_conn_net(r.to.side.conn)->pipes;
	assert_true(pipes->made > 0);
	assert_int_equal(pipes->kept, pipes->made);
	r.from.side.act[IN_DATA] = NULL;
	say(r.from.peer, "read me");
	turn_until(loop, r.from.side.count == 7);
	assert_true(weir_conn_is_silent(r.from.side.conn));
	relay_end(&r, loop);
}

static void keeps_its_place_among_other_output(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	char got[3 * 70000];
	enum { LENGTH = 70000 };
	relay_init(&r, loop, LENGTH, 0);
	assert_int_equal(weir_conn_write(r.to.side.conn, "before", 6), 0);
	say_some(&r, LENGTH);
	turn_until(loop, r.left == 0);
	assert_int_equal(weir_conn_write(r.to.side.conn, "after", 5), 0);
	hear(loop, r.to.peer, got, LENGTH + 11);
	assert_memory_equal(got, "before", 6);
	for (size_t i = 0; i < LENGTH; i++)
		assert_int_equal((uint8_t)got[6 + i], pattern_at(i));
	assert_memory_equal(got + 6 + LENGTH, "after", 5);
	relay_end(&r, loop);
}

/* A head is read, and what follows is pulled again. */
static void act_pull_again(side *s, weir_conn *conn)
{
	current->copies += (int)s->count;
	act_pass_on(s, conn);
	weir_conn_set_pull(conn, pull);
}

/* What is read has to be copied: of a body that will be pulled it is little, and of others as much as ever. */
static void little_is_read_between_two_pulls(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 300000, READ = 12000 };
	relay_init(&r, loop, LENGTH, 0);
	relay_all(&r, loop, LENGTH);
	r.left = LENGTH;
	r.from.side.act[IN_DATA] = act_pull_again;
	r.copies = r.from.side.calls[IN_DATA] = 0;
	relay_all(&r, loop, (uint64_t)2 * LENGTH);
	assert_int_equal(r.from.side.calls[IN_DATA], 1);
	assert_in_range(r.copies, 1, WEIR_CONN_HEAD_BYTES);
	r.from.side.act[IN_DATA] = NULL;
	say_some(&r, (uint64_t)2 * LENGTH + READ);
	turn_until(loop, r.from.side.count == READ);
	assert_int_equal(r.from.side.calls[IN_DATA], 3);
	relay_end(&r, loop);
}

/* A peer that does not read stops the other, with no more than the bound in between; then it goes on. */
static void the_bound_of_the_output_holds(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 2000000, BOUND = 100000 };
	relay_init(&r, loop, LENGTH, BOUND);
	make_narrow(weir_conn_fd(r.to.side.conn));
	for (int i = 0; i < TURNS_MOST && r.last != -ENOBUFS; i++) {
		say_some(&r, LENGTH);
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		assert_true(weir_conn_output(r.to.side.conn) <= BOUND);
	}
	assert_int_equal(r.last, -ENOBUFS);
	assert_true(weir_conn_output(r.to.side.conn) > BOUND / 2);
	relay_all(&r, loop, LENGTH);
	relay_end(&r, loop);
}

/* Many small packets: a pipe has room for few of them, and the others are read. */
static void small_packets_arrive(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 4000 };
	int on = 1;
	relay_init(&r, loop, LENGTH, 0);
	make_narrow(weir_conn_fd(r.to.side.conn));
	setsockopt(r.from.peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (uint64_t i = 0; i < LENGTH; i += 4) {
		say_some(&r, i + 4);
		if (i % 400 == 0)
			assert_int_equal(weir_loop_turn(loop, 0), 0);
	}
	relay_all(&r, loop, LENGTH);
	relay_end(&r, loop);
}

static void without_pipes_it_is_read(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 500000 };
	weir_pipe *taken[WEIR_PIPES_MOST];
	unsigned count = 0;
	relay_init(&r, loop, LENGTH, 0);
	weir_pipes *pipes = &weir_conn_net(r.to.side.conn)->pipes;
	while (count < WEIR_PIPES_MOST && (taken[count] = weir_pipes_take(pipes, 1)) != NULL)
		count++;
	assert_true(count > 0);
	pipes->not_before_ns = UINT64_MAX;
	relay_all(&r, loop, LENGTH);
	assert_int_equal(r.moved, 0);
	assert_true(r.copies > 0);
	for (unsigned i = 0; i < count; i++)
		weir_pipes_give(pipes, taken[i], true);
	relay_end(&r, loop);
}

static void the_end_is_told(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	relay_init(&r, loop, 1000000, 0);
	say_some(&r, 200000);
	shutdown(r.from.peer, SHUT_WR);
	turn_until(loop, r.from.side.calls[IN_EOF] == 1);
	assert_int_equal(r.left, 800000);
	assert_false(weir_conn_is_silent(r.from.side.conn));
	relay_end(&r, loop);
}

static void a_reset_is_told(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	relay_init(&r, loop, 1000000, 0);
	say_some(&r, 1000);
	turn_until(loop, r.moved == 1000);
	reset_socket(r.from.peer);
	r.from.peer = -1;
	turn_until(loop, r.from.side.calls[IN_CLOSED] == 1);
	assert_int_equal(r.from.side.why, -ECONNRESET);
	relay_end(&r, loop);
}

/* Bytes in a pipe are lost with the connection; the pipe is not used for others. */
static void the_receiver_may_go(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 3000000 };
	relay_init(&r, loop, LENGTH, 200000);
	make_narrow(weir_conn_fd(r.to.side.conn));
	for (int i = 0; i < TURNS_MOST && r.last != -ENOBUFS; i++) {
		say_some(&r, LENGTH);
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
	}
	weir_pipes *pipes = &weir_conn_net(r.to.side.conn)->pipes;
	uint32_t in_use = pipes->made - pipes->kept;
	assert_true(in_use > 0);
	weir_conn_abort(r.to.side.conn, -ECANCELED);
	assert_int_equal(weir_conn_splice(r.from.side.conn, r.to.side.conn, 10), -ENOTSUP);
	turn_until(loop, r.to.side.calls[IN_CLOSED] == 1);
	assert_int_equal(pipes->made, pipes->kept);
	assert_int_equal(hear_end(loop, r.to.peer), ECONNRESET);
	relay_end(&r, loop);
}

static void a_receiver_that_does_not_read_is_cut(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	enum { LENGTH = 3000000 };
	*(&r) = (relay){.left = LENGTH};
	current = &r;
	serve_one(&r.from, loop, &side_ops, LIMITS(0));
	serve_one(&r.to, loop, &side_ops, LIMITS(.output_ns = 20 * WEIR_NS_PER_MS));
	weir_conn_set_pull(r.from.side.conn, pull);
	make_narrow(weir_conn_fd(r.to.side.conn));
	for (int i = 0; i < TURNS_MOST && r.to.side.calls[IN_CLOSED] == 0; i++) {
		say_some(&r, LENGTH);
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
	}
	assert_int_equal(r.to.side.why, -ETIMEDOUT);
	relay_end(&r, loop);
}

/* The sender goes first; what is in the pipe still arrives. */
static void the_sender_may_go(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	relay_init(&r, loop, 150000, 0);
	make_narrow(weir_conn_fd(r.to.side.conn));
	say_some(&r, 150000);
	for (int i = 0; i < TURNS_MOST && r.left > 0; i++) {
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		say_some(&r, 150000);
	}
	weir_conn_abort(r.from.side.conn, 0);
	turn_until(loop, r.from.side.calls[IN_CLOSED] == 1);
	relay_all(&r, loop, 150000);
	relay_end(&r, loop);
}

static void the_loop_may_end(void **state)
{
	weir_loop *loop = loop_of(state);
	relay r;
	relay_init(&r, loop, 3000000, 0);
	make_narrow(weir_conn_fd(r.to.side.conn));
	say_some(&r, 1000000);
	turn_some(loop);
	weir_loop_end(loop);
	assert_int_equal(r.to.side.calls[IN_CLOSED], 1);
	relay_end(&r, loop);
}

/* Whatever allocation fails, nothing is lost but the connection that needed it. */
static void survives_a_lack_of_memory(void **state)
{
	weir_loop *loop = loop_of(state);
	enum { LENGTH = 200000 };
	for (uint64_t nth = 1; nth < 6; nth++) {
		relay r;
		relay_init(&r, loop, LENGTH, 0);
		say_some(&r, LENGTH);
		weir_mem_fail_after(nth);
		for (int i = 0; i < 200; i++) {
			weir_loop_turn(loop, 0);
			say_some(&r, LENGTH);
		}
		weir_mem_fail_after(0);
		if (r.to.side.conn != NULL && r.from.side.conn != NULL)
			relay_all(&r, loop, LENGTH);
		relay_end(&r, loop);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(everything_arrives_in_order),
		ON_BOTH(keeps_its_place_among_other_output),
		ON_BOTH(little_is_read_between_two_pulls),
		ON_BOTH(the_bound_of_the_output_holds),
		ON_BOTH(small_packets_arrive),
		ON_BOTH(without_pipes_it_is_read),
		ON_BOTH(the_end_is_told),
		ON_BOTH(a_reset_is_told),
		ON_BOTH(the_receiver_may_go),
		ON_BOTH(a_receiver_that_does_not_read_is_cut),
		ON_BOTH(the_sender_may_go),
		ON_BOTH(the_loop_may_end),
		ON_BOTH(survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
