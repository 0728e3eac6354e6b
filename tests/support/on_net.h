/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_NET_H
#define TESTS_ON_NET_H

/*
 * A connection under test ("side"): it records what it is told and can be asked to do something in each call. Its peer is a plain
 * socket of the test.
 */

#include "support/on_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/acceptor.h"

enum call { IN_OPEN, IN_DATA, IN_EOF, IN_DRAINED, IN_CLOSED, CALLS };

typedef struct side side;
typedef void side_act(side *s, weir_conn *conn);

struct side {
	weir_loop *loop;
	weir_conn *conn; /* NULL: closed, or not yet open */
	weir_conn *last; /* the same, but not reset; for comparing only */
	int calls[CALLS];
	int inside; /* calls that are under way: must never be more than one */
	int why;
	int refuse; /* what open returns */
	side_act *act[CALLS];
	void (*take)(side *s, weir_buf *buf);
	uint8_t *bytes;
	size_t count, capacity;
	uint64_t turn, turn_bytes, most_a_turn;
};

static inline void side_call(side *s, weir_conn *conn, enum call call)
{
	assert_int_equal(s->inside, 0);
	assert_int_equal(s->calls[IN_CLOSED], 0);
	assert_ptr_equal(weir_loop_self(), s->loop);
	s->inside++;
	s->calls[call]++;
	if (s->act[call] != NULL)
		s->act[call](s, conn);
	s->inside--;
}

static int side_open(weir_conn *conn, void *arg)
{
	side *s = arg;
	assert_ptr_equal(weir_conn_user(conn), arg);
	weir_conn_set_user(conn, s);
	s->conn = s->last = conn;
	side_call(s, conn, IN_OPEN);
	return s->refuse;
}

static inline void side_count_turn(side *s, uint32_t bytes)
{
	if (s->turn != weir_loop_turns(s->loop)) {
		s->turn = weir_loop_turns(s->loop);
		s->turn_bytes = 0;
	}
	s->turn_bytes += bytes;
	if (s->turn_bytes > s->most_a_turn)
		s->most_a_turn = s->turn_bytes;
}

static void side_data(weir_conn *conn, weir_buf *buf)
{
	side *s = weir_conn_user(conn);
	assert_true(buf->length > 0);
	side_count_turn(s, buf->length);
	while (s->count + buf->length > s->capacity) {
		s->capacity = s->capacity * 2 + 65536;
		s->bytes = realloc(s->bytes, s->capacity);
	}
	memcpy(s->bytes + s->count, buf->data, buf->length);
	s->count += buf->length;
	if (s->take != NULL)
		s->take(s, buf);
	side_call(s, conn, IN_DATA);
}

static void side_eof(weir_conn *conn)
{
	side_call(weir_conn_user(conn), conn, IN_EOF);
}

static void side_drained(weir_conn *conn)
{
	side_call(weir_conn_user(conn), conn, IN_DRAINED);
}

static void side_closed(weir_conn *conn, int why)
{
	side *s = weir_conn_user(conn);
	s->why = why;
	side_call(s, conn, IN_CLOSED);
	s->conn = NULL;
}

static const weir_conn_ops side_ops = {.open = side_open,
				       .data = side_data,
				       .eof = side_eof,
				       .drained = side_drained,
				       .closed = side_closed};
static const weir_conn_ops side_ops_without_eof = {
	.open = side_open, .data = side_data, .closed = side_closed};

static inline void side_fini(side *s)
{
	free(s->bytes);
	s->bytes = NULL;
}

static inline void act_close(side *s, weir_conn *conn)
{
	weir_conn_close(conn);
}

static inline void act_abort(side *s, weir_conn *conn)
{
	weir_conn_abort(conn, -ECANCELED);
}

/* ---- sockets of the test ---- */

static inline struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline void never_block(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* Connects to where the listener is; the kernel completes it even before it is accepted. */
static inline int dial(weir_listener *listener)
{
	struct sockaddr_storage to;
	weir_listener_address(listener, NULL, 0, &to);
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
	never_block(fd);
	return fd;
}

static inline void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void reset_socket(int fd)
{
	struct linger now = {.l_onoff = 1};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* Reads what is there; -1: nothing now, 0: the end, else bytes or a negative errno. */
static inline ssize_t sip(int fd, void *into, size_t most)
{
	ssize_t got = recv(fd, into, most, 0);
	if (got >= 0)
		return got;
	return errno == EAGAIN ? -1 : -(ssize_t)errno - 1000;
}

/* Turns until the peer has read count bytes. */
static inline void hear(weir_loop *loop, int fd, void *into, size_t count)
{
	size_t got = 0;
	for (int i = 0; i < TURNS_MOST && got < count; i++) {
		ssize_t n = sip(fd, (char *)into + got, count - got);
		if (n == -1) {
			assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
			continue;
		}
		assert_true(n > 0);
		got += (size_t)n;
		assert_int_equal(weir_loop_turn(loop, 0), 0);
	}
	assert_int_equal(got, count);
}

/* Turns until the peer sees the end (0) or an error (its errno); what comes before is thrown away. */
static inline int hear_end(weir_loop *loop, int fd)
{
	char waste[65536];
	for (int i = 0; i < TURNS_MOST; i++) {
		ssize_t n = sip(fd, waste, sizeof(waste));
		if (n == 0)
			return 0;
		if (n < -1)
			return (int)(-n - 1000);
		assert_int_equal(weir_loop_turn(loop, n == -1 ? WEIR_NS_PER_MS : 0), 0);
	}
	fail_msg("the end did not come");
	return -1;
}

/* ---- a listener with one side behind it ---- */

typedef struct served {
	weir_listener *listener;
	side side;
	int peer; /* the first client; -1: none */
} served;

static inline void serve(served *t, weir_loop *loop, const weir_conn_ops *ops, weir_conn_limits limits)
{
	struct sockaddr_in any = loopback(0);
	t->side.loop = loop;
	t->peer = -1;
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .ops = ops,
				       .limits = limits,
				       .arg = &t->side};
	assert_int_equal(weir_listen_on_loop(loop, &options, &t->listener), 0);
}

/* Also connects, and waits for the open call. */
static inline void serve_one(served *t, weir_loop *loop, const weir_conn_ops *ops, weir_conn_limits limits)
{
	serve(t, loop, ops, limits);
	t->peer = dial(t->listener);
	turn_until(loop, t->side.calls[IN_OPEN] == 1);
}

static inline void serve_end(served *t)
{
	if (t->peer >= 0)
		close(t->peer);
	weir_listener_free(&t->listener);
	assert_int_equal(t->side.calls[IN_CLOSED], t->side.calls[IN_OPEN]);
	side_fini(&t->side);
}

#endif
