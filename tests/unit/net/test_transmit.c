/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that send in their turn, on one loop: the order, the rate, and how they end while they wait. */
#include "support/check.h"
#include "support/on_net.h"

#include "net/net.h"
#include "net/transmit.h"
#include "net/transmit_priv.h"

#define LIMITS(...) ((weir_conn_limits){__VA_ARGS__})
#define LARGE       200000u
#define SMALL       1000u

static weir_transmit *transmit; /* of the test */
static uint64_t follows;        /* what a side says that will follow its output */

static void act_schedule(side *s, weir_conn *conn)
{
	weir_conn_schedule(conn, transmit);
}

static void side_left(weir_conn *conn, weir_conn_left *left)
{
	left->bytes += follows;
}

static const weir_conn_ops ops = {.open = side_open,
				  .data = side_data,
				  .eof = side_eof,
				  .drained = side_drained,
				  .closed = side_closed,
				  .left = side_left};

static void begin(unsigned policy, uint64_t bytes_per_s)
{
	weir_transmit_options options = {.policy = &weir_transmit_policies[policy],
					 .uplink_bytes_per_s = bytes_per_s};
	assert_int_equal(weir_transmit_new(&options, &transmit), 0);
	follows = 0;
}

static void end(void)
{
	weir_transmit_unref(transmit);
	transmit = NULL;
}

static weir_transmit_stats shown(void)
{
	weir_transmit_stats stats;
	weir_transmit_read(transmit, &stats);
	return stats;
}

static void serve_scheduled(served *t, weir_loop *loop)
{
	*t = (served){.side.act[IN_OPEN] = act_schedule};
	serve_one(t, loop, &ops, LIMITS(.output_bytes = 1 << 20));
	never_block(t->peer);
}

static void write_bytes(const served *t, size_t count, char letter)
{
	char *bytes = malloc(count);
	memset(bytes, letter, count);
	assert_int_equal(weir_conn_write(t->side.conn, bytes, count), 0);
	free(bytes);
}

/* Turns until so many bytes have come to a peer, and counts what has come to another (-1: none) meanwhile. */
static size_t hear_beside(weir_loop *loop, int peer, size_t count, int other)
{
	char bytes[65536];
	size_t got = 0, beside = 0;
	for (unsigned turns = 0; got < count && turns < 10 * TURNS_MOST; turns++) {
		ssize_t n = sip(peer, bytes, sizeof(bytes));
		got += n > 0 ? (size_t)n : 0;
		n = other >= 0 ? sip(other, bytes, sizeof(bytes)) : 0;
		beside += n > 0 ? (size_t)n : 0;
		assert_int_equal(weir_loop_turn(loop, WEIR_NS_PER_MS / 4), 0);
	}
	assert_int_equal(got, count);
	return beside;
}

static void small_goes_before_large(void **state)
{
	weir_loop *loop = loop_of(state);
	served large, small;
	begin(1, 2000000);
	serve_scheduled(&large, loop);
	serve_scheduled(&small, loop);
	write_bytes(&large, LARGE, 'l');
	turn_until(loop, shown().waiting == 1);
	write_bytes(&small, SMALL, 's');
	size_t before = hear_beside(loop, small.peer, SMALL, large.peer);
	assert_in_range(before, 0, LARGE - 1);
	hear_beside(loop, large.peer, LARGE - before, small.peer);
	weir_transmit_stats stats = shown();
	assert_true(stats.chunks > 10 && stats.overtook > 0);
	assert_int_equal(stats.waiting + stats.left_bytes, 0);
	assert_true(stats.sent_bytes > LARGE + SMALL);
	serve_end(&large);
	serve_end(&small);
	end();
}

/* While there is room nothing waits: a lane pays a little ahead, and gives back the rest before it queues. */
static void room_is_paid_for_ahead(void **state)
{
	weir_loop *loop = loop_of(state);
	served one;
	begin(1, 100000000);
	serve_scheduled(&one, loop);
	for (unsigned i = 0; i < 20; i++) {
		write_bytes(&one, SMALL, 's');
		hear_beside(loop, one.peer, SMALL, -1);
	}
	uint64_t chunks = shown().chunks;
	weir_transmit_lane *lane = one.side.conn->net->lane;
	assert_int_equal(chunks + shown().waiting, 0);
	assert_in_range(lane->prepaid, 1, weir_transmit_wire(atomic_load(&transmit->chunk), 1448));
	write_bytes(&one, LARGE, 'l');
	hear_beside(loop, one.peer, LARGE, -1);
	assert_true(shown().chunks > chunks);
	assert_int_equal(lane->prepaid + shown().waiting, 0);
	serve_end(&one);
	end();
}

/* The same bytes in the output; but of one much more will follow. */
static void what_follows_counts(void **state)
{
	weir_loop *loop = loop_of(state);
	served one;
	begin(1, 2000000);
	serve_scheduled(&one, loop);
	follows = UINT64_C(3) << 20;
	write_bytes(&one, LARGE, 'x');
	turn_until(loop, shown().waiting == 1);
	assert_int_equal(shown().size[4], 1);
	assert_in_range(shown().left_bytes, follows, follows + LARGE);
	hear_beside(loop, one.peer, LARGE, -1);
	serve_end(&one);
	end();
}

static void ends_while_it_waits(void **state)
{
	weir_loop *loop = loop_of(state);
	served first, second, third;
	begin(1, 100000);
	serve_scheduled(&first, loop);
	serve_scheduled(&second, loop);
	serve_scheduled(&third, loop);
	write_bytes(&first, LARGE, 'a');
	write_bytes(&second, LARGE, 'b');
	write_bytes(&third, LARGE, 'c');
	turn_until(loop, shown().waiting >= 2);
	weir_conn_abort(first.side.conn, -ECANCELED);
	turn_until(loop, first.side.calls[IN_CLOSED] == 1);
	reset_socket(second.peer);
	second.peer = -1;
	turn_until(loop, second.side.calls[IN_CLOSED] == 1);
	serve_end(&first);
	serve_end(&second);
	/* The last one is freed with its listener. */
	serve_end(&third);
	assert_int_equal(shown().waiting + shown().left_bytes, 0);
	end();
}

/* It is the owner of the uplink that is slow, and not the peer. */
static void waiting_is_no_lack_of_progress(void **state)
{
	weir_loop *loop = loop_of(state);
	served large, other;
	begin(1, 400000);
	large = other = (served){.side.act[IN_OPEN] = act_schedule};
	serve_one(&large, loop, &ops, LIMITS(.output_bytes = 1 << 20, .output_ns = WEIR_NS_PER_MS));
	serve_one(&other, loop, &ops, LIMITS(.output_bytes = 1 << 20));
	never_block(large.peer);
	never_block(other.peer);
	write_bytes(&large, LARGE, 'l');
	write_bytes(&other, LARGE / 2, 'o');
	size_t before = hear_beside(loop, other.peer, LARGE / 2, large.peer);
	hear_beside(loop, large.peer, LARGE - before, other.peer);
	assert_int_equal(large.side.calls[IN_CLOSED], 0);
	serve_end(&large);
	serve_end(&other);
	end();
}

static void a_file_waits_too(void **state)
{
	weir_loop *loop = loop_of(state);
	char path[] = "/tmp/weir-transmit-XXXXXX", byte = 'f';
	int fd = mkstemp(path);
	served large, small;
	assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, LARGE) == 0 &&
		    pwrite(fd, &byte, 1, 0) == 1);
	begin(1, 2000000);
	serve_scheduled(&large, loop);
	serve_scheduled(&small, loop);
	assert_int_equal(weir_conn_send_file(large.side.conn, fd, 0, LARGE, NULL, NULL), 0);
	turn_until(loop, shown().waiting == 1);
	write_bytes(&small, SMALL, 's');
	size_t before = hear_beside(loop, small.peer, SMALL, large.peer);
	assert_in_range(before, 0, LARGE - 1);
	hear_beside(loop, large.peer, LARGE - before, small.peer);
	serve_end(&large);
	serve_end(&small);
	close(fd);
	end();
}

/* Without a limit nothing waits, whatever the order. */
static void open_is_as_fair(void **state)
{
	weir_loop *loop = loop_of(state);
	served one;
	for (unsigned policy = 0; policy < 3; policy++) {
		begin(policy, 0);
		serve_scheduled(&one, loop);
		assert_false(weir_conn_is_paced(one.side.conn));
		assert_int_equal(weir_conn_ahead(one.side.conn), 1 << 19);
		write_bytes(&one, LARGE, 'x');
		hear_beside(loop, one.peer, LARGE, -1);
		assert_int_equal(shown().chunks, 0);
		assert_int_equal(shown().rate_bytes_per_s, 0);
		serve_end(&one);
		end();
	}
}

/* ---- another order ---- */

static int change(unsigned policy, uint64_t bytes_per_s, uint64_t ageing_ns)
{
	return weir_transmit_change(transmit,
				    &(weir_transmit_options){.policy = &weir_transmit_policies[policy],
							     .uplink_bytes_per_s = bytes_per_s,
							     .ageing_ns = ageing_ns});
}

/* Of the two that wait: the key of the one with more, less that of the other. */
static double distance(const served *more, const served *less)
{
	return more->side.conn->place->node.key - less->side.conn->place->node.key;
}

/* What waits has keys of the new order, whatever it is, and goes on. */
static void what_waits_is_put_in_order(void **state)
{
	weir_loop *loop = loop_of(state);
	served large, small;
	begin(1, 50000);
	serve_scheduled(&large, loop);
	serve_scheduled(&small, loop);
	large.side.conn->klass = 1;
	follows = 100 * LARGE;
	write_bytes(&large, LARGE, 'l');
	turn_until(loop, shown().waiting == 1);
	follows = 0;
	write_bytes(&small, LARGE, 's');
	turn_until(loop, shown().waiting == 2);
	double before = distance(&large, &small);
	assert_int_equal(change(2, 50000, 0), 0);
	assert_string_equal(shown().policy, "classes");
	turn_until(loop, distance(&large, &small) > 1e5);
	assert_int_equal(change(1, 60000, WEIR_NS_PER_S), 0);
	turn_until(loop, distance(&large, &small) < before);
	assert_int_equal(shown().uplink_bytes_per_s, 60000);
	assert_int_equal(shown().waiting, 2);
	/* A faster uplink. */
	assert_int_equal(change(1, 20000000, 0), 0);
	size_t beside = hear_beside(loop, small.peer, LARGE, large.peer);
	hear_beside(loop, large.peer, LARGE - beside, small.peer);
	assert_int_equal(shown().waiting + shown().left_bytes, 0);
	serve_end(&large);
	serve_end(&small);
	end();
}

/* The limit ends, and what waited is sent. Nothing is scheduled any more from the next answer on. */
static void the_order_ends_and_begins(void **state)
{
	weir_loop *loop = loop_of(state);
	served one, other;
	begin(1, 50000);
	serve_scheduled(&one, loop);
	write_bytes(&one, LARGE, 'x');
	turn_until(loop, shown().waiting == 1);
	assert_int_equal(change(0, 0, 0), 0);
	assert_int_equal(shown().rate_bytes_per_s, 0);
	/* Its first answer is not over. */
	weir_conn_begin_answer(one.side.conn, transmit, 3);
	assert_true(weir_conn_is(one.side.conn, WEIR_CONN_SCHEDULED));
	hear_beside(loop, one.peer, LARGE, -1);
	turn_until(loop, weir_conn_output(one.side.conn) == 0);
	weir_conn_begin_answer(one.side.conn, transmit, 3);
	assert_false(weir_conn_is(one.side.conn, WEIR_CONN_SCHEDULED));
	assert_null(one.side.conn->place);
	assert_int_equal(one.side.conn->klass, 3);
	write_bytes(&one, SMALL, 'y');
	hear_beside(loop, one.peer, SMALL, -1);
	/* One that comes now is not scheduled until there is an order again. */
	serve_scheduled(&other, loop);
	assert_false(weir_conn_is(other.side.conn, WEIR_CONN_SCHEDULED));
	assert_int_equal(change(1, 2000000, 0), 0);
	weir_conn_begin_answer(one.side.conn, transmit, 0);
	weir_conn_begin_answer(other.side.conn, transmit, 0);
	assert_true(weir_conn_is_paced(one.side.conn) && weir_conn_is_paced(other.side.conn));
	write_bytes(&one, LARGE, 'l');
	turn_until(loop, shown().waiting == 1);
	write_bytes(&other, SMALL, 's');
	size_t before = hear_beside(loop, other.peer, SMALL, one.peer);
	assert_in_range(before, 0, LARGE - 1);
	hear_beside(loop, one.peer, LARGE - before, -1);
	serve_end(&one);
	serve_end(&other);
	end();
}

/* ---- without a loop ---- */

static void a_change_is_checked(void **state)
{
	begin(1, 0);
	weir_transmit_load(transmit, "uplink 1 1000000");
	/* Another ageing keeps the estimate. */
	assert_int_equal(change(1, 0, 5 * WEIR_NS_PER_S), 0);
	assert_int_equal(shown().uplink_bytes_per_s, 1000000);
	/* Without the functions for priorities there are none; and a rate has bounds. Nothing has changed then. */
	assert_int_equal(change(3, 0, 0), -EINVAL);
	assert_int_equal(change(1, 5, 0), -EINVAL);
	assert_int_equal(weir_transmit_change(transmit, &(weir_transmit_options){0}), -EINVAL);
	assert_int_equal(shown().rate_bytes_per_s, 970000);
	/* A known rate ends the estimate. */
	assert_int_equal(change(1, 2000000, 0), 0);
	assert_string_equal(shown().uplink, "known");
	assert_int_equal(shown().rate_bytes_per_s, 1940000);
	assert_int_equal(change(1, 0, 0), 0);
	assert_string_equal(shown().phase, "open");
	assert_int_equal(shown().rate_bytes_per_s, 0);
	end();
}

static void keys_are_ordered(void **state)
{
	const weir_transmit_policy *srpt = &weir_transmit_policies[1], *classes = &weir_transmit_policies[2];
	assert_true(srpt->key(1000, 5, 0) < srpt->key(1001, 5, 0));
	assert_true(srpt->key(0, 0, 0) >= 0);
	/* One that came an age earlier goes first with 2.7 times as much, and not with 2.8 times. */
	assert_true(srpt->key(27000, 5, 0) < srpt->key(10000, 6, 0));
	assert_true(srpt->key(28000, 5, 0) > srpt->key(10000, 6, 0));
	assert_true(classes->key(UINT64_MAX, 1e5, 0) < classes->key(1, 0, 1));
	assert_true(classes->key(1000, 5, 7) < classes->key(1001, 5, 7));
	assert_null(weir_transmit_policies[0].key);
	assert_string_equal(weir_transmit_policies[0].name, "fair");
}

static void a_successor_goes_on(void **state)
{
	static const char *const wrong[] = {"",
					    "uplink",
					    "uplink 2 1000000",
					    "uplink 1 -5",
					    "uplink 1 12",
					    "uplink 1 1000000 x",
					    "uplink 1 99999999999999999999"};
	char text[64];
	begin(1, 0);
	assert_false(weir_transmit_save(transmit, text, sizeof(text)));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		weir_transmit_load(transmit, wrong[i]);
	assert_int_equal(shown().rate_bytes_per_s, 0);
	weir_transmit_load(transmit, "uplink 1 1000000");
	assert_int_equal(shown().rate_bytes_per_s, 970000);
	assert_string_equal(shown().phase, "cruise");
	assert_true(weir_transmit_save(transmit, text, sizeof(text)));
	assert_string_equal(text, "uplink 1 1000000");
	end();
	/* What is configured is not overruled. */
	begin(1, 2000000);
	weir_transmit_load(transmit, "uplink 1 1000000");
	assert_int_equal(shown().rate_bytes_per_s, 1940000);
	end();
	weir_transmit_options bad = {.policy = &weir_transmit_policies[1], .uplink_bytes_per_s = 5};
	assert_int_equal(weir_transmit_new(&bad, &transmit), -EINVAL);
	bad = (weir_transmit_options){.policy = &weir_transmit_policies[3]};
	assert_int_equal(weir_transmit_new(&bad, &transmit), -EINVAL);
}

/* ---- the kernel's order ---- */

static unsigned asked, observed;

static int priority_of(void *arg, uint64_t left, bool plain)
{
	asked++;
	return left > 5000 ? 1 : 5;
}

static void observe(void *arg, uint64_t bytes)
{
	if (++observed <= 2)
		assert_int_equal(bytes, observed == 1 ? LARGE : SMALL);
}

static int priority_now(const served *t)
{
	int priority = -1;
	socklen_t length = sizeof(priority);
	getsockopt(weir_conn_fd(t->side.conn), SOL_SOCKET, SO_PRIORITY, &priority, &length);
	return priority;
}

static void the_kernel_is_told(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_transmit_options options = {
		.policy = &weir_transmit_policies[3], .priority = priority_of, .observe = observe};
	served one;
	asked = observed = 0;
	assert_int_equal(weir_transmit_new(&options, &transmit), 0);
	follows = 0;
	serve_scheduled(&one, loop);
	write_bytes(&one, LARGE, 'x');
	turn_until(loop, asked > 0);
	assert_int_equal(priority_now(&one), 1);
	hear_beside(loop, one.peer, LARGE, -1);
	turn_until(loop, weir_conn_output(one.side.conn) == 0);
	write_bytes(&one, SMALL, 'y');
	hear_beside(loop, one.peer, SMALL, -1);
	assert_int_equal(priority_now(&one), 5);
	assert_int_equal(observed, 2);
	/* An order of our own needs no priorities. */
	turn_until(loop, weir_conn_output(one.side.conn) == 0);
	assert_int_equal(change(1, 2000000, 0), 0);
	weir_conn_begin_answer(one.side.conn, transmit, 0);
	assert_int_equal(priority_now(&one), 0);
	write_bytes(&one, LARGE, 'z');
	turn_until(loop, shown().waiting == 1);
	/* And what waits when the kernel orders again is sent before others. */
	assert_int_equal(change(3, 0, 0), 0);
	hear_beside(loop, one.peer, LARGE, -1);
	assert_int_equal(shown().waiting, 0);
	serve_end(&one);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(small_goes_before_large),
		ON_BOTH(room_is_paid_for_ahead),
		ON_BOTH(what_follows_counts),
		ON_BOTH(ends_while_it_waits),
		ON_BOTH(waiting_is_no_lack_of_progress),
		ON_BOTH(a_file_waits_too),
		ON_BOTH(open_is_as_fair),
		ON_BOTH(the_kernel_is_told),
		ON_BOTH(what_waits_is_put_in_order),
		ON_BOTH(the_order_ends_and_begins),
		CHECK_TEST(a_change_is_checked),
		CHECK_TEST(keys_are_ordered),
		CHECK_TEST(a_successor_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
