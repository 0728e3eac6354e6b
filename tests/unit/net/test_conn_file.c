/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of files as output of connections. */
#include "support/on_net.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define LIMITS(...) ((weir_conn_limits){__VA_ARGS__})

static uint8_t pattern_at(uint64_t i)
{
	return (uint8_t)(i * 31 + i / 253);
}

/* A file in memory with the pattern as its first bytes, and a hole behind them. */
static int make_file(size_t count, uint64_t length)
{
	int fd = memfd_create("part", MFD_CLOEXEC);
	assert_true(fd >= 0);
	uint8_t *bytes = malloc(count + 1);
	for (size_t i = 0; i < count; i++)
		bytes[i] = pattern_at(i);
	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	free(bytes);
	return fd;
}

static void make_narrow(int fd)
{
	int size = 4096;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* ---- over: how often, and never within a call of ours ---- */

typedef struct overs {
	served *t;
	int count;
	bool busy;         /* the test is within a call of the connection's */
	int closed_before; /* closed calls seen when the last one came */
	void (*act)(weir_conn *conn);
} overs;

static void count_over(void *arg)
{
	overs *o = arg;
	o->count++;
	assert_false(o->busy);
	assert_int_equal(o->t->side.inside, 0);
	o->closed_before = o->t->side.calls[IN_CLOSED];
	if (o->act != NULL)
		o->act(o->t->side.conn);
}

static int send_part(overs *o, int fd, uint64_t offset, size_t length)
{
	o->busy = true;
	int error = weir_conn_send_file(o->t->side.conn, fd, offset, length, count_over, o);
	o->busy = false;
	return error;
}

/* ---- the everyday ---- */

static void keeps_the_order_with_other_output(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	enum { PART = 700, COUNT = 60 };
	static uint8_t got[COUNT * (PART + 2)];
	int fd = make_file(PART + COUNT, PART + COUNT);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(weir_conn_write(t.side.conn, "<", 1), 0);
		assert_int_equal(send_part(&o, fd, (uint64_t)i, PART), 0);
		assert_int_equal(weir_conn_write(t.side.conn, ">", 1), 0);
	}
	hear(loop, t.peer, got, sizeof(got));
	for (size_t i = 0; i < COUNT; i++) {
		const uint8_t *at = got + i * (PART + 2);
		assert_int_equal(at[0], '<');
		for (size_t k = 0; k < PART; k++)
			assert_int_equal(at[1 + k], pattern_at(i + k));
		assert_int_equal(at[PART + 1], '>');
	}
	turn_until(loop, o.count == COUNT);
	assert_int_equal(weir_conn_output(t.side.conn), 0);
	close(fd);
	serve_end(&t);
	assert_int_equal(o.count, COUNT);
}

static void hear_pattern(weir_loop *loop, int fd, uint64_t from, uint64_t to)
{
	uint8_t part[10000];
	while (from < to) {
		size_t count = to - from < sizeof(part) ? (size_t)(to - from) : sizeof(part);
		hear(loop, fd, part, count);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(part[i], pattern_at(from + i));
		from += count;
	}
}

static void sends_through_short_writes_and_closes_after_it(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	enum { LENGTH = 1500000 };
	int fd = make_file(LENGTH, LENGTH);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	make_narrow(weir_conn_fd(t.side.conn));
	assert_int_equal(send_part(&o, fd, 3, LENGTH - 3), 0);
	assert_int_equal(weir_conn_output(t.side.conn), 65536);
	weir_conn_close(t.side.conn);
	assert_int_equal(send_part(&o, fd, 0, 1), -EPIPE);
	hear_pattern(loop, t.peer, 3, LENGTH);
	assert_int_equal(hear_end(loop, t.peer), 0);
	assert_int_equal(o.count, 1);
	close(t.peer);
	t.peer = -1;
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, 0);
	close(fd);
	serve_end(&t);
	assert_int_equal(o.count, 1);
}

/* A peer that has ended its side and does not read costs nothing while there is no room. */
static void a_half_closed_reader_is_waited_for(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	const size_t size = 16 << 20;
	unsigned turns = 0;
	int fd = make_file(size, size);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(shutdown(t.peer, SHUT_WR), 0);
	turn_until(loop, t.side.calls[IN_EOF] == 1);
	assert_int_equal(send_part(&o, fd, 0, size), 0);
	for (unsigned i = 0; i < 100; i++) /* until the socket is full */
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
	uint64_t until_ns = weir_clock_ns() + 200 * WEIR_NS_PER_MS;
	for (; weir_clock_ns() < until_ns; turns++)
		assert_int_equal(weir_loop_turn(loop, 50 * WEIR_NS_PER_MS), 0);
	assert_in_range(turns, 1, 100); /* thousands, if it tries all the time */
	hear_pattern(loop, t.peer, 0, size);
	turn_until(loop, o.count == 1);
	close(fd);
	serve_end(&t);
}

static void talks_on_after_a_file(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	static uint8_t bulk[200000];
	int fd = make_file(1000, 1000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	make_narrow(weir_conn_fd(t.side.conn));
	for (int i = 0; i < 5; i++) {
		assert_int_equal(send_part(&o, fd, 0, 1000), 0);
		hear_pattern(loop, t.peer, 0, 1000);
		say(t.peer, "x");
		turn_until(loop, t.side.count == (size_t)i + 1);
		assert_int_equal(weir_conn_write(t.side.conn, bulk, sizeof(bulk)), 0);
		hear(loop, t.peer, bulk, sizeof(bulk));
		turn_some(loop);
	}
	assert_int_equal(o.count, 5);
	close(fd);
	serve_end(&t);
}

/* ---- bounds ---- */

static void a_gigabyte_is_one_call_and_little_of_the_bound(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	uint8_t part[10000];
	int fd = make_file(10000, UINT64_C(1) << 30);
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 200000));
	make_narrow(weir_conn_fd(t.side.conn));
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(send_part(&o, fd, 0, (size_t)1 << 30), 0);
		assert_int_equal(weir_conn_output(t.side.conn), i * 65536);
	}
	assert_int_equal(send_part(&o, fd, 0, (size_t)1 << 30), -ENOBUFS);
	assert_int_equal(weir_conn_output(t.side.conn), 3 * 65536);
	hear_pattern(loop, t.peer, 0, 10000);
	for (int i = 0; i < 300; i++)
		hear(loop, t.peer, part, sizeof(part));
	assert_int_equal(o.count, 0);
	weir_conn_abort(t.side.conn, -ECANCELED);
	assert_int_equal(o.count, 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(o.count, 3);
	assert_int_equal(o.closed_before, 0);
	close(fd);
	serve_end(&t);
}

static void small_files_count_as_what_they_take(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	int fd = make_file(1, 1), taken = 0;
	char got[20];
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 10240));
	while (send_part(&o, fd, 0, 1) == 0)
		taken++;
	assert_int_equal(taken, 20);
	hear(loop, t.peer, got, 20);
	turn_until(loop, t.side.calls[IN_DRAINED] == 1);
	assert_int_equal(o.count, 20);
	assert_int_equal(weir_conn_output(t.side.conn), 0);
	close(fd);
	serve_end(&t);
}

static void any_file_fits_into_any_bound(void **state)
{
	weir_loop *loop = loop_of(state);
	for (uint32_t bound = 1; bound < 5000; bound = bound * 3 + 1) {
		served t = {0};
		overs o = {.t = &t};
		int fd = make_file(300000, 300000);
		serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = bound));
		assert_int_equal(send_part(&o, fd, 0, 300000), 0);
		assert_true(weir_conn_output(t.side.conn) <= bound);
		hear_pattern(loop, t.peer, 0, 300000);
		turn_until(loop, o.count == 1);
		assert_int_equal(weir_conn_output(t.side.conn), 0);
		close(fd);
		serve_end(&t);
	}
}

static void refuses_what_is_no_part(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(send_part(&o, 0, 0, 0), -EINVAL);
	assert_int_equal(send_part(&o, -1, 0, 1), -EINVAL);
	assert_int_equal(send_part(&o, 0, (uint64_t)INT64_MAX + 1, 1), -EINVAL);
	assert_int_equal(send_part(&o, 0, 2, INT64_MAX), -EINVAL);
	assert_int_equal(send_part(&o, 0, 0, SIZE_MAX), -EINVAL);
	assert_int_equal(weir_conn_output(t.side.conn), 0);
	serve_end(&t);
	assert_int_equal(o.count, 0);
}

/* However much the socket takes, a turn has at most three helpings: before the wait, of an edge, and at its end. */
static void leaves_time_for_others(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	const uint64_t length = 20000000;
	static uint8_t part[4 << 20];
	int fd = make_file(0, length);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(send_part(&o, fd, 0, length), 0);
	uint64_t left = length, most = 0;
	for (int turn = 0; turn < TURNS_MOST * 10 && o.count == 0; turn++) {
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		uint64_t now_left =
			weir_conn_output(t.side.conn) > 0 ? t.side.conn->output.head->file.left : 0;
		most = left - now_left > most ? left - now_left : most;
		left = now_left;
		/* The socket may fill up first: then it is emptied at once. */
		while (sip(t.peer, part, sizeof(part)) > 0)
			;
	}
	assert_int_equal(o.count, 1);
	assert_true(most <= 3 * WEIR_CONN_FILE_BYTES);
	close(fd);
	serve_end(&t);
}

/* ---- what goes wrong ---- */

/* A file on a disk that is not in the kernel's cache; -1: that cannot be had here. */
static int make_far_file(size_t count)
{
	char name[] = "/var/tmp/weir-test-XXXXXX", byte;
	struct iovec one = {.iov_base = &byte, .iov_len = 1};
	uint8_t *bytes = malloc(count);
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	unlink(name);
	for (size_t i = 0; bytes != NULL && i < count; i++)
		bytes[i] = pattern_at(i);
	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	free(bytes);
	if (fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
	    preadv2(fd, &one, 1, 0, RWF_NOWAIT) < 0 && errno == EAGAIN)
		return fd;
	close(fd);
	return -1;
}

/* Whether it was far when it was looked for: the disk may have been quicker. */
static bool send_far(weir_loop *loop, bool leaves)
{
	served t = {0};
	overs o = {.t = &t};
	enum { LENGTH = 3 << 20 };
	char end;
	int fd = make_far_file(LENGTH);
	if (fd < 0)
		return false;
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(send_part(&o, fd, 0, LENGTH), 0);
	assert_int_equal(weir_conn_write(t.side.conn, "!", 1), 0);
	weir_conn_flush(t.side.conn);
	bool far = weir_conn_net(t.side.conn)->far > 0;
	if (leaves) {
		weir_conn_abort(t.side.conn, 0);
	} else {
		hear_pattern(loop, t.peer, 0, LENGTH);
		hear(loop, t.peer, &end, 1);
		assert_int_equal(end, '!');
	}
	turn_until(loop, o.count == 1);
	close(fd);
	serve_end(&t);
	return far;
}

static void send_until_far(void **state, bool leaves)
{
	for (int i = 0; i < 20; i++)
		if (send_far(loop_of(state), leaves))
			return;
	skip();
}

/* The disk is not waited for, what it brings is whole, and what comes behind it stays behind. */
static void looks_again_for_what_the_disk_has(void **state)
{
	send_until_far(state, false);
}

/* Nor does one that goes meanwhile leave anything behind. */
static void a_connection_may_end_while_the_disk_reads(void **state)
{
	send_until_far(state, true);
}

static void a_file_that_is_shorter_ends_the_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	int fd = make_file(5000, 5000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(weir_conn_write(t.side.conn, "head", 4), 0);
	assert_int_equal(send_part(&o, fd, 1000, 4001), 0);
	assert_int_equal(send_part(&o, fd, 0, 1000), 0);
	assert_int_equal(hear_end(loop, t.peer), ECONNRESET);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -EIO);
	assert_int_equal(o.count, 2);
	assert_int_equal(o.closed_before, 0);
	close(fd);
	serve_end(&t);
	assert_int_equal(o.count, 2);
}

static void a_file_that_cannot_be_read_ends_the_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(send_part(&o, fd, 0, 10), 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_true(t.side.why < 0);
	assert_int_equal(o.count, 1);
	close(fd);
	serve_end(&t);
}

/* SIGPIPE has its deadly default here. */
static void outlives_a_peer_that_goes(void **state)
{
	weir_loop *loop = loop_of(state);
	enum { LENGTH = 3000000 };
	int fd = make_file(LENGTH, LENGTH);
	for (int i = 0; i < 3; i++) {
		served t = {0};
		overs o = {.t = &t};
		uint8_t part[50000];
		serve_one(&t, loop, &side_ops_without_eof, LIMITS(0));
		make_narrow(weir_conn_fd(t.side.conn));
		assert_int_equal(send_part(&o, fd, 0, LENGTH), 0);
		hear(loop, t.peer, part, sizeof(part));
		if (i == 0)
			reset_socket(t.peer);
		else if (i == 1)
			close(t.peer);
		else /* our own end of the stream: sendfile gives EPIPE */
			assert_int_equal(shutdown(weir_conn_fd(t.side.conn), SHUT_WR), 0);
		if (i < 2)
			t.peer = -1;
		/* In the last case the peer still has to read what came before. */
		for (int turn = 0; turn < TURNS_MOST && t.side.calls[IN_CLOSED] == 0; turn++) {
			if (t.peer >= 0)
				sip(t.peer, part, sizeof(part));
			assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS), 0);
		}
		assert_int_equal(t.side.calls[IN_CLOSED], 1);
		assert_true(t.side.why < 0);
		assert_int_equal(o.count, 1);
		serve_end(&t);
	}
	close(fd);
}

static void closes_a_slow_reader_of_a_file(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	weir_listener_stats stats;
	int fd = make_file(0, 5000000);
	serve_one(&t, loop, &side_ops, LIMITS(.output_ns = 20 * WEIR_NS_PER_MS));
	make_narrow(weir_conn_fd(t.side.conn));
	assert_int_equal(send_part(&o, fd, 0, 5000000), 0);
	turn_until(loop, t.side.calls[IN_CLOSED] == 1);
	assert_int_equal(t.side.why, -ETIMEDOUT);
	weir_listener_read_stats(t.listener, &stats);
	assert_int_equal(stats.slow_readers, 1);
	assert_int_equal(o.count, 1);
	close(fd);
	serve_end(&t);
}

/* ---- calls from over, and over from calls ---- */

static overs *acting;
static int acting_fd;

static void act_send_and_flush(side *s, weir_conn *conn)
{
	acting->busy = true;
	assert_int_equal(weir_conn_send_file(conn, acting_fd, 0, 1000, count_over, acting), 0);
	weir_conn_flush(conn);
	acting->busy = false;
}

static void act_send_and_abort(side *s, weir_conn *conn)
{
	acting->busy = true;
	assert_int_equal(weir_conn_send_file(conn, acting_fd, 0, 1000, count_over, acting), 0);
	weir_conn_abort(conn, -ECANCELED);
	acting->busy = false;
}

static void over_never_comes_from_within_a_call(void **state)
{
	weir_loop *loop = loop_of(state);
	side_act *acts[] = {act_send_and_flush, act_send_and_abort};
	acting_fd = make_file(1000, 1000);
	for (int i = 0; i < 2; i++) {
		served t = {.side.act[IN_DATA] = acts[i]};
		overs o = {.t = &t};
		acting = &o;
		serve_one(&t, loop, &side_ops, LIMITS(0));
		say(t.peer, "x");
		turn_until(loop, o.count == 1);
		assert_int_equal(o.closed_before, 0);
		serve_end(&t);
		assert_int_equal(o.count, 1);
	}
	close(acting_fd);
}

static void over_abort(weir_conn *conn)
{
	weir_conn_abort(conn, -ECANCELED);
}

static void over_close(weir_conn *conn)
{
	weir_conn_close(conn);
}

static void over_write_and_flush(weir_conn *conn)
{
	assert_int_equal(weir_conn_write(conn, "more", 4), 0);
	weir_conn_flush(conn);
}

static void over_send_again(weir_conn *conn)
{
	if (acting->count < 10)
		assert_int_equal(weir_conn_send_file(conn, acting_fd, 0, 1000, count_over, acting), 0);
	else
		weir_conn_close(conn);
}

static void over_may_do_anything(void **state)
{
	weir_loop *loop = loop_of(state);
	void (*acts[])(weir_conn * conn) = {over_abort, over_close, over_write_and_flush, over_send_again};
	acting_fd = make_file(1000, 1000);
	for (int i = 0; i < 4; i++) {
		served t = {0};
		overs o = {.t = &t, .act = acts[i]};
		char more[4];
		acting = &o;
		serve_one(&t, loop, &side_ops, LIMITS(0));
		assert_int_equal(send_part(&o, acting_fd, 0, 1000), 0);
		hear_pattern(loop, t.peer, 0, 1000);
		if (i == 2)
			hear(loop, t.peer, more, 4);
		for (int k = 1; i == 3 && k < 10; k++)
			hear_pattern(loop, t.peer, 0, 1000);
		if (i != 2)
			assert_int_equal(hear_end(loop, t.peer), 0);
		o.act = NULL;
		serve_end(&t);
		assert_int_equal(o.count, i == 3 ? 10 : 1);
	}
	close(acting_fd);
}

static void over_may_be_absent(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	int fd = make_file(1000, 1000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	assert_int_equal(weir_conn_send_file(t.side.conn, fd, 0, 1000, NULL, NULL), 0);
	hear_pattern(loop, t.peer, 0, 1000);
	assert_int_equal(weir_conn_send_file(t.side.conn, fd, 0, 1000, NULL, NULL), 0);
	close(fd);
	serve_end(&t);
}

/* The loop goes away with a file half sent: its owner is told all the same. */
static void over_comes_when_the_loop_ends(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	uint8_t part[1000];
	int fd = make_file(0, 5000000);
	serve_one(&t, loop, &side_ops, LIMITS(0));
	make_narrow(weir_conn_fd(t.side.conn));
	assert_int_equal(send_part(&o, fd, 0, 5000000), 0);
	hear(loop, t.peer, part, sizeof(part));
	weir_loop_end(loop);
	assert_int_equal(t.side.calls[IN_CLOSED], 1);
	assert_int_equal(o.count, 1);
	assert_int_equal(o.closed_before, 0);
	close(fd);
	serve_end(&t);
}

/* ENOMEM is an answer: nothing is taken, and over does not come. */
static void survives_a_lack_of_memory(void **state)
{
	weir_loop *loop = loop_of(state);
	served t = {0};
	overs o = {.t = &t};
	int fd = make_file(100, 100), taken = 0, error = 0;
	serve_one(&t, loop, &side_ops, LIMITS(.output_bytes = 1 << 20));
	weir_mem_fail_after(1);
	while (error == 0 && taken < 2000) {
		error = send_part(&o, fd, 0, 100);
		taken += error == 0;
		weir_mem_fail_after(1);
	}
	weir_mem_fail_after(0);
	assert_int_equal(error, -ENOMEM);
	for (int i = 0; i < taken; i++)
		hear_pattern(loop, t.peer, 0, 100);
	turn_until(loop, o.count == taken);
	close(fd);
	serve_end(&t);
	assert_int_equal(o.count, taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(keeps_the_order_with_other_output),
		ON_BOTH(sends_through_short_writes_and_closes_after_it),
		ON_BOTH(a_half_closed_reader_is_waited_for),
		ON_BOTH(talks_on_after_a_file),
		ON_BOTH(a_gigabyte_is_one_call_and_little_of_the_bound),
		ON_BOTH(small_files_count_as_what_they_take),
		ON_BOTH(any_file_fits_into_any_bound),
		ON_BOTH(refuses_what_is_no_part),
		ON_BOTH(leaves_time_for_others),
		ON_BOTH(looks_again_for_what_the_disk_has),
		ON_BOTH(a_connection_may_end_while_the_disk_reads),
		ON_BOTH(a_file_that_is_shorter_ends_the_connection),
		ON_BOTH(a_file_that_cannot_be_read_ends_the_connection),
		ON_BOTH(outlives_a_peer_that_goes),
		ON_BOTH(closes_a_slow_reader_of_a_file),
		ON_BOTH(over_never_comes_from_within_a_call),
		ON_BOTH(over_may_do_anything),
		ON_BOTH(over_may_be_absent),
		ON_BOTH(over_comes_when_the_loop_ends),
		ON_BOTH(survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
