/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of answers that a call's owner takes from the socket itself. */
#include "on_backend.h"

#define LENGTH 300000u

/* Who gets the body, and how much of it came each way. */
static struct {
	served to;
	uint64_t left, pulled, heard;
	int stops; /* how many times there was no room */
} client;

static int64_t talk_pull(weir_call *call, weir_conn *from)
{
	must_go_on(talk_of(call));
	int64_t moved = weir_conn_splice(from, client.to.side.conn, (size_t)client.left);
	if (moved == -ENOBUFS) {
		client.stops++;
		weir_call_pause(call);
	}
	if (moved > 0) {
		client.left -= (uint64_t)moved;
		client.pulled += (uint64_t)moved;
	}
	return moved;
}

/* What was read goes the same way. */
static void pass_data(weir_call *call, weir_buf *buf, size_t offset, size_t length)
{
	assert_int_equal(weir_conn_write(client.to.side.conn, buf->data + offset, length), 0);
	client.left -= length;
}

static void ask_to_pull(talk *t)
{
	client.left = t->length;
	weir_call_pull(&t->call);
}

static weir_call_ops pull_ops(void)
{
	weir_call_ops ops = talk_ops;
	ops.data = pass_data;
	ops.pull = talk_pull;
	return ops;
}

static weir_call *going_on;

static void act_resume(side *s, weir_conn *conn)
{
	weir_call_resume(going_on);
}

static void client_init(weir_loop *loop, uint32_t output_bytes)
{
	memset(&client, 0, sizeof(client));
	serve_one(&client.to, loop, &side_ops, (weir_conn_limits){.output_bytes = output_bytes});
}

static void start(rig *r, talk *t)
{
	static weir_call_ops ops;
	ops = pull_ops();
	t->in_head = ask_to_pull;
	going_on = &t->call;
	assert_int_equal(
		talk_start_with(r, t, &ops, GET_HEAD, (weir_call_request){.method = WEIR_METHOD_GET}), 0);
}

static void say_head(int fd, uint64_t length)
{
	char head[100];
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
		 (unsigned long long)length);
	say(fd, head);
}

/* Says the body from there on, while the loop turns and the client reads. */
static void say_body(weir_loop *loop, int fd, uint64_t from, uint64_t to)
{
	char part[20000];
	memset(part, 'b', sizeof(part));
	for (int i = 0; i < TURNS_MOST && from < to; i++) {
		size_t count = to - from < sizeof(part) ? (size_t)(to - from) : sizeof(part);
		ssize_t sent = send(fd, part, count, MSG_NOSIGNAL);
		from += sent > 0 ? (uint64_t)sent : 0;
		assert_int_equal(weir_loop_turn(loop, 0), 0);
		while ((sent = sip(client.to.peer, part, sizeof(part))) > 0)
			client.heard += (uint64_t)sent;
		memset(part, 'b', sizeof(part));
	}
	assert_int_equal(from, to);
}

static void hear_rest(weir_loop *loop, uint64_t length)
{
	char part[20000];
	while (client.heard < length) {
		size_t count =
			length - client.heard < sizeof(part) ? (size_t)(length - client.heard) : sizeof(part);
		hear(loop, client.to.peer, part, count);
		client.heard += count;
	}
}

/* A long body is pulled, its call ends, and the next uses the same connection. */
static void a_long_body_is_pulled(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk first = {0}, second = {0};
	rig_init(&r, loop, (weir_upstream_limits){0}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &first);
	int fd = rig_accept(&r);
	hear_text(loop, fd, GET_HEAD);
	say_head(fd, LENGTH);
	say_body(loop, fd, 0, LENGTH);
	turn_until(loop, first.over);
	assert_int_equal(first.ends, 1);
	assert_true(client.pulled > LENGTH / 2);
	hear_rest(loop, LENGTH);
	assert_int_equal(counts_of(&r).idle, 1);
	talk_get(&r, &second);
	hear_text(loop, fd, GET_HEAD);
	say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	turn_until(loop, second.over);
	assert_int_equal(second.wholes, 1);
	close(fd);
	talk_fini(&second);
	rig_end(&r);
	serve_end(&client.to);
}

static void a_short_body_is_read(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	rig_init(&r, loop, (weir_upstream_limits){0}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, 60000);
	say_body(loop, fd, 0, 60000);
	turn_until(loop, t.over);
	assert_int_equal(t.ends, 1);
	assert_int_equal(client.pulled, 0);
	hear_rest(loop, 60000);
	close(fd);
	rig_end(&r);
	serve_end(&client.to);
}

/* Nobody must take them for the next answer. */
static void bytes_behind_the_body_cost_the_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	rig_init(&r, loop, (weir_upstream_limits){0}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, LENGTH);
	say_body(loop, fd, 0, LENGTH - 1000);
	char rest[1000 + 40];
	memset(rest, 'b', 1000);
	memcpy(rest + 1000, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38);
	assert_int_equal(send(fd, rest, 1038, MSG_NOSIGNAL), 1038);
	turn_until(loop, t.over);
	assert_int_equal(t.ends, 1);
	assert_int_equal(counts_of(&r).idle, 0);
	hear_rest(loop, LENGTH);
	close(fd);
	rig_end(&r);
	serve_end(&client.to);
}

static void a_body_that_ends_early_fails(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	rig_init(&r, loop, (weir_upstream_limits){0}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, LENGTH);
	say_body(loop, fd, 0, LENGTH - 1);
	close(fd);
	turn_until(loop, t.over);
	assert_int_equal(t.failures, 1);
	assert_int_equal(t.failure.error, -ECONNRESET);
	assert_int_equal(t.failure.step, WEIR_CALL_BODY);
	rig_end(&r);
	serve_end(&client.to);
}

static void a_body_that_stops_is_late(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	rig_init(&r, loop, (weir_upstream_limits){.gap_ns = 30 * WEIR_NS_PER_MS}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, LENGTH);
	turn_until(loop, t.over);
	assert_int_equal(t.failure.error, -ETIMEDOUT);
	close(fd);
	rig_end(&r);
	serve_end(&client.to);
}

/* While the client does not read, the backend waits and its time does not count. */
static void waits_for_a_slow_client(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	int size = 4096;
	enum { LONG = 2000000 };
	rig_init(&r, loop, (weir_upstream_limits){.gap_ns = WEIR_NS_PER_S}, (weir_origin_options){0});
	client_init(loop, 200000);
	client.to.side.act[IN_DRAINED] = act_resume;
	setsockopt(weir_conn_fd(client.to.side.conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, LONG);
	char part[20000];
	memset(part, 'b', sizeof(part));
	uint64_t said = 0;
	for (int i = 0; i < TURNS_MOST && client.stops == 0; i++) {
		size_t count = LONG - said < sizeof(part) ? (size_t)(LONG - said) : sizeof(part);
		ssize_t sent = count > 0 ? send(fd, part, count, MSG_NOSIGNAL) : 0;
		said += sent > 0 ? (uint64_t)sent : 0;
		assert_int_equal(weir_loop_turn(loop, 0), 0);
	}
	assert_int_equal(client.stops, 1);
	say_body(loop, fd, said, LONG);
	hear_rest(loop, LONG);
	turn_until(loop, t.over);
	assert_int_equal(t.ends, 1);
	close(fd);
	rig_end(&r);
	serve_end(&client.to);
}

static void may_be_given_up(void **state)
{
	weir_loop *loop = loop_of(state);
	rig r;
	talk t = {0};
	rig_init(&r, loop, (weir_upstream_limits){0}, (weir_origin_options){0});
	client_init(loop, 0);
	start(&r, &t);
	int fd = rig_accept(&r);
	say_head(fd, LENGTH);
	say_body(loop, fd, 0, LENGTH / 2);
	turn_until(loop, client.pulled > 0);
	weir_call_abort(&t.call);
	hear_end(loop, fd);
	assert_false(t.over);
	close(fd);
	rig_end(&r);
	serve_end(&client.to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(a_long_body_is_pulled),
		ON_BOTH(a_short_body_is_read),
		ON_BOTH(bytes_behind_the_body_cost_the_connection),
		ON_BOTH(a_body_that_ends_early_fails),
		ON_BOTH(a_body_that_stops_is_late),
		ON_BOTH(waits_for_a_slow_client),
		ON_BOTH(may_be_given_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
