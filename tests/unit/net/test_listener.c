/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_net.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <weir/stage.h>

/* ---- a listener on one loop, with any number of connections ---- */

typedef struct crowd {
	weir_loop *loop;
	weir_listener *listener;
	int opened, closed;
	weir_conn *last;
} crowd;

static int crowd_open(weir_conn *conn, void *arg)
{
	crowd *c = arg;
	c->opened++;
	c->last = conn;
	return 0;
}

static void crowd_data(weir_conn *conn, weir_buf *buf)
{
	weir_conn_send(conn, buf, 0, buf->length);
}

static void crowd_closed(weir_conn *conn, int why)
{
	crowd *c = weir_conn_user(conn);
	c->closed++;
}

static const weir_conn_ops crowd_ops = {.open = crowd_open, .data = crowd_data, .closed = crowd_closed};

static void gather(crowd *c, weir_loop *loop, uint32_t most)
{
	struct sockaddr_in any = loopback(0);
	*c = (crowd){.loop = loop};
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .max_connections = most,
				       .ops = &crowd_ops,
				       .arg = c};
	assert_int_equal(weir_listen_on_loop(loop, &options, &c->listener), 0);
}

static weir_listener_stats stats_of(const crowd *c)
{
	weir_listener_stats stats;
	weir_listener_read_stats(c->listener, &stats);
	return stats;
}

static void tells_its_address(void **state)
{
	crowd c;
	char text[64], small[4] = "abc";
	struct sockaddr_storage address;
	gather(&c, loop_of(state), 0);
	assert_int_equal(weir_listener_address(c.listener, text, sizeof(text), &address), 0);
	unsigned port = ntohs(((struct sockaddr_in *)&address)->sin_port);
	char expected[64];
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
	assert_string_equal(text, expected);
	assert_int_equal(weir_listener_address(c.listener, small, sizeof(small), NULL), -ENOSPC);
	assert_string_equal(small, "abc");
	weir_listener_free(&c.listener);
	assert_null(c.listener);
	weir_listener_free(&c.listener);
}

/* A server that is started twice must not share its port with itself. */
static void refuses_an_address_that_is_in_use(void **state)
{
	crowd c;
	struct sockaddr_storage address;
	weir_listener *second = NULL;
	gather(&c, loop_of(state), 0);
	assert_int_equal(weir_listener_address(c.listener, NULL, 0, &address), 0);
	weir_listen_options options = {.address = (struct sockaddr *)&address,
				       .address_length = sizeof(struct sockaddr_in),
				       .ops = &crowd_ops};
	assert_int_equal(weir_listen_on_loop(c.loop, &options, &second), -EADDRINUSE);
	assert_null(second);
	weir_listener_free(&c.listener);
	assert_int_equal(weir_listen_on_loop(c.loop, &options, &second), 0);
	weir_listener_free(&second);
}

static void refuses_bad_options(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener = NULL;
	struct sockaddr_in any = loopback(0),
			   far = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("192.0.2.1")};
	weir_conn_ops none = {0};
	weir_listen_options options = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .ops = &none};
	assert_int_equal(weir_listen_on_loop(loop, NULL, &listener), -EINVAL);
	assert_int_equal(weir_listen_on_loop(loop, &options, &listener), -EINVAL);
	options.ops = &crowd_ops;
	options.address = NULL;
	assert_int_equal(weir_listen_on_loop(loop, &options, &listener), -EINVAL);
	options.address = (struct sockaddr *)&far;
	assert_int_equal(weir_listen_on_loop(loop, &options, &listener), -EADDRNOTAVAIL);
	assert_non_null(strstr(weir_error(), "192.0.2.1"));
	assert_null(listener);
}

static void accepts_many_at_once(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c;
	enum { COUNT = 300 };
	int fds[COUNT];
	char answer[2];
	gather(&c, loop, 0);
	for (int i = 0; i < COUNT; i++) {
		fds[i] = dial(c.listener);
		say(fds[i], "hi");
	}
	turn_until(loop, c.opened == COUNT);
	for (int i = 0; i < COUNT; i++)
		hear(loop, fds[i], answer, 2);
	assert_int_equal(stats_of(&c).accepted, COUNT);
	assert_int_equal(stats_of(&c).connections, COUNT);
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	turn_until(loop, c.closed == COUNT);
	assert_int_equal(stats_of(&c).connections, 0);
	weir_listener_free(&c.listener);
}

static void accepts_no_more_than_its_bound(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c;
	int fds[10];
	gather(&c, loop, 3);
	for (int i = 0; i < 10; i++)
		fds[i] = dial(c.listener);
	turn_until(loop, stats_of(&c).paused == 1);
	turn_some(loop);
	assert_int_equal(c.opened, 3);
	assert_int_equal(stats_of(&c).connections, 3);
	/* Each that goes lets one in. */
	for (int i = 0; i < 10; i++) {
		turn_until(loop, c.opened >= (i + 3 < 10 ? i + 3 : 10));
		assert_true(stats_of(&c).connections <= 3);
		close(fds[i]);
	}
	turn_until(loop, c.closed == 10);
	assert_int_equal(stats_of(&c).refused, 0);
	weir_listener_free(&c.listener);
}

static void set_descriptors(rlim_t most)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t descriptors(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

typedef struct hoard {
	int fd[64];
	int count;
} hoard;

/* Takes every descriptor that is left. */
static void take_all(hoard *h)
{
	while ((h->fd[h->count] = dup(0)) >= 0)
		h->count++;
}

static void give_back(hoard *h, int left)
{
	while (h->count > left)
		close(h->fd[--h->count]);
}

/* Out of descriptors: it stops, does not spin, and goes on when there are some again. */
static void waits_for_descriptors(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c;
	hoard h = {.count = 0};
	rlim_t before = descriptors();
	int lowest = dup(0);
	close(lowest);
	/* Set before the listening begins: the ring keeps the limit of that time. */
	set_descriptors((rlim_t)lowest + 40);
	gather(&c, loop, 0);
	int first = dial(c.listener);
	turn_until(loop, c.opened == 1);
	int second = dial(c.listener);
	take_all(&h);
	turn_until(loop, stats_of(&c).paused >= 1);
	uint64_t start = weir_loop_now(loop), paused = stats_of(&c).paused;
	for (int i = 0; i < 5; i++)
		assert_int_equal(weir_loop_turn(loop, 20 * WEIR_NS_PER_MS), 0);
	/* It tries again every 100 ms: no more pauses than that in the time that passed. */
	assert_true(stats_of(&c).paused - paused <=
		    1 + (weir_loop_now(loop) - start) / (100 * WEIR_NS_PER_MS));
	assert_int_equal(c.opened, 1);
	/* One closes: its descriptor lets the next one in. */
	close(first);
	turn_until(loop, c.opened == 2);
	/* And without that, it looks again by itself. */
	give_back(&h, h.count - 1);
	int third = dial(c.listener);
	take_all(&h);
	paused = stats_of(&c).paused;
	turn_until(loop, stats_of(&c).paused > paused);
	give_back(&h, 0);
	turn_until(loop, c.opened == 3);
	close(second);
	close(third);
	turn_until(loop, c.closed == 3);
	weir_listener_free(&c.listener);
	set_descriptors(before);
}

static void closing_keeps_connections_and_takes_in_the_backlog(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c;
	char answer[2];
	struct sockaddr_storage to;
	gather(&c, loop, 0);
	int first = dial(c.listener);
	turn_until(loop, c.opened == 1);
	int waiting = dial(c.listener);
	weir_listener_address(c.listener, NULL, 0, &to);
	weir_listener_close(c.listener);
	weir_listener_close(c.listener);
	turn_until(loop, c.opened == 2);
	int late = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(late, (struct sockaddr *)&to, sizeof(struct sockaddr_in)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(late);
	say(first, "hi");
	hear(loop, first, answer, 2);
	say(waiting, "ho");
	hear(loop, waiting, answer, 2);
	close(first);
	close(waiting);
	turn_until(loop, c.closed == 2);
	weir_listener_free(&c.listener);
}

static void freeing_closes_every_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c;
	int fds[20];
	gather(&c, loop, 15);
	for (int i = 0; i < 20; i++)
		fds[i] = dial(c.listener);
	turn_until(loop, c.opened == 15);
	weir_listener_free(&c.listener);
	assert_int_equal(c.closed, c.opened);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
}

static void listens_on_a_path(void **state)
{
	weir_loop *loop = loop_of(state);
	crowd c = {.loop = loop};
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	char text[128], answer[2];
	snprintf(path.sun_path + 1, sizeof(path.sun_path) - 1, "weir-test-%d", (int)getpid());
	socklen_t length =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path.sun_path + 1));
	weir_listen_options options = {
		.address = (struct sockaddr *)&path, .address_length = length, .ops = &crowd_ops, .arg = &c};
	assert_int_equal(weir_listen_on_loop(loop, &options, &c.listener), 0);
	assert_int_equal(weir_listener_address(c.listener, text, sizeof(text), NULL), 0);
	assert_memory_equal(text, "unix:", 5);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&path, length), 0);
	never_block(fd);
	say(fd, "hi");
	hear(loop, fd, answer, 2);
	close(fd);
	turn_until(loop, c.closed == 1);
	weir_listener_free(&c.listener);
}

/* ---- a listener on every thread of a domain ---- */

static atomic_int world_opened, world_closed;
static atomic_uint world_homes; /* a bit for each thread that opened one */

static int world_open(weir_conn *conn, void *arg)
{
	assert_ptr_equal(weir_conn_loop(conn), weir_loop_self());
	atomic_fetch_or(&world_homes, 1u << weir_thread_home());
	atomic_fetch_add(&world_opened, 1);
	return 0;
}

static void world_ended(weir_conn *conn, int why)
{
	atomic_fetch_add(&world_closed, 1);
}

static const weir_conn_ops world_ops = {.open = world_open, .data = crowd_data, .closed = world_ended};

static void start_world(const char *backend, weir_world **ret_world, weir_domain **ret_domain)
{
	weir_domain_options domain = {.name = "net", .kind = WEIR_REACTOR, .threads = 3};
	setenv("WEIR_LOOP", backend, 1);
	atomic_store(&world_opened, 0);
	atomic_store(&world_closed, 0);
	atomic_store(&world_homes, 0);
	assert_int_equal(weir_world_new(NULL, ret_world), 0);
	assert_int_equal(weir_domain_new(*ret_world, &domain, ret_domain), 0);
	assert_int_equal(weir_world_start(*ret_world), 0);
}

static void listen_in_world(weir_domain *domain, uint32_t most, weir_listener **ret_listener)
{
	struct sockaddr_in any = loopback(0);
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .max_connections = most,
				       .ops = &world_ops};
	assert_int_equal(weir_listen(domain, &options, ret_listener), 0);
}

static int dial_blocking(weir_listener *listener)
{
	int fd = dial(listener);
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
	return fd;
}

static void spreads_over_the_threads(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_world *world;
	weir_domain *domain;
	weir_listener *listener;
	enum { COUNT = 60 };
	int fds[COUNT];
	char answer[2];
	start_world(weir_loop_backend(loop), &world, &domain);
	listen_in_world(domain, 0, &listener);
	for (int i = 0; i < COUNT; i++) {
		fds[i] = dial_blocking(listener);
		say(fds[i], "hi");
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(recv(fds[i], answer, 2, MSG_WAITALL), 2);
	assert_int_equal(atomic_load(&world_opened), COUNT);
	/* By chance one thread of three could get all of 60, but not in our lifetime. */
	assert_true(__builtin_popcount(atomic_load(&world_homes)) > 1);
	for (int i = 0; i < COUNT / 2; i++)
		close(fds[i]);
	weir_listener_close(listener);
	weir_listener_free(&listener);
	assert_int_equal(atomic_load(&world_closed), COUNT);
	for (int i = COUNT / 2; i < COUNT; i++)
		close(fds[i]);
	weir_world_free(&world);
}

/* The bound is over all threads, and one thread's closing lets another accept. */
static void shares_its_bound_among_the_threads(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_world *world;
	weir_domain *domain;
	weir_listener *listener;
	weir_listener_stats stats;
	enum { COUNT = 40 };
	int fds[COUNT];
	char answer[2];
	start_world(weir_loop_backend(loop), &world, &domain);
	listen_in_world(domain, 2, &listener);
	for (int i = 0; i < COUNT; i++) {
		fds[i] = dial(listener);
		say(fds[i], "hi");
	}
	/* Whoever is answered leaves, until all have been. */
	for (int left = COUNT; left > 0; sched_yield()) {
		for (int i = 0; i < COUNT; i++) {
			if (fds[i] < 0 || sip(fds[i], answer, 2) != 2)
				continue;
			weir_listener_read_stats(listener, &stats);
			/* A reservation may be tried and taken back at any moment, one by each thread. */
			assert_true(stats.connections <= 2 + 3);
			close(fds[i]);
			fds[i] = -1;
			left--;
		}
	}
	assert_int_equal(atomic_load(&world_opened), COUNT);
	weir_listener_free(&listener);
	assert_int_equal(atomic_load(&world_closed), COUNT);
	weir_world_free(&world);
}

/* A world that stops takes the connections along; the listener can be freed before it is, or after. */
static void a_world_that_stops_ends_its_connections(void **state)
{
	weir_loop *loop = loop_of(state);
	for (int after = 0; after < 2; after++) {
		weir_world *world;
		weir_domain *domain;
		weir_listener *listener;
		int fds[20];
		char answer[2];
		start_world(weir_loop_backend(loop), &world, &domain);
		listen_in_world(domain, 0, &listener);
		for (int i = 0; i < 20; i++) {
			fds[i] = dial_blocking(listener);
			say(fds[i], "hi");
			assert_int_equal(recv(fds[i], answer, 2, MSG_WAITALL), 2);
		}
		assert_int_equal(weir_world_stop(world, WEIR_NS_PER_S, NULL), 0);
		assert_int_equal(atomic_load(&world_closed), 20);
		if (!after) {
			weir_listener_close(listener);
			weir_listener_free(&listener);
		}
		weir_world_free(&world);
		weir_listener_free(&listener);
		for (int i = 0; i < 20; i++)
			close(fds[i]);
	}
}

/* Out of memory at the wrong time: the socket listens, but its thread never got to accepting. */
static void can_be_freed_though_it_never_accepted(void **state)
{
	for (uint64_t nth = 1; nth <= 12; nth++) {
		weir_world *world = NULL;
		weir_domain *domain = NULL;
		weir_listener *listener = NULL;
		weir_domain_options one = {.name = "one", .threads = 1};
		struct sockaddr_in any = loopback(0);
		crowd c = {0};
		weir_listen_options options = {.address = (struct sockaddr *)&any,
					       .address_length = sizeof(any),
					       .ops = &crowd_ops,
					       .arg = &c};
		assert_int_equal(weir_world_new(NULL, &world), 0);
		assert_int_equal(weir_domain_new(world, &one, &domain), 0);
		assert_int_equal(weir_world_start(world), 0);
		weir_mem_fail_after(nth);
		int failed = weir_listen(domain, &options, &listener);
		assert_int_equal(weir_world_stop(world, WEIR_NS_PER_S, NULL), 0);
		weir_mem_fail_after(0);
		assert_true(failed == 0 || listener == NULL);
		weir_listener_free(&listener);
		weir_world_free(&world);
	}
}

static void needs_a_started_reactor(void **state)
{
	weir_world *world;
	weir_domain *domain;
	weir_listener *listener = NULL;
	struct sockaddr_in any = loopback(0);
	weir_domain_options elastic = {.name = "blocking", .kind = WEIR_ELASTIC};
	weir_listen_options options = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .ops = &world_ops};
	assert_int_equal(weir_world_new(NULL, &world), 0);
	assert_int_equal(weir_domain_new(world, &elastic, &domain), 0);
	assert_int_equal(weir_listen(domain, &options, &listener), -EINVAL);
	assert_non_null(strstr(weir_error(), "blocking"));
	assert_null(listener);
	weir_world_free(&world);
}

static int open_any(weir_conn *conn, void *arg)
{
	return 0;
}

static void data_any(weir_conn *conn, weir_buf *buf)
{
}

static void closed_any(weir_conn *conn, int why)
{
}

/* Connections that arrive while the listener is being freed do not outlive it, though their peers stay. */
static void can_be_freed_while_peers_connect(void **state)
{
	static const weir_conn_ops any_ops = {.open = open_any, .data = data_any, .closed = closed_any};
	weir_world *world;
	weir_domain *domain;
	weir_domain_options reactor = {.name = "reactor", .threads = 2};
	assert_int_equal(weir_world_new(NULL, &world), 0);
	assert_int_equal(weir_domain_new(world, &reactor, &domain), 0);
	assert_int_equal(weir_world_start(world), 0);
	for (int round = 0; round < 50; round++) {
		struct sockaddr_in any = loopback(0);
		struct sockaddr_storage at;
		weir_listener *listener;
		int peers[8];
		weir_listen_options options = {
			.address = (struct sockaddr *)&any, .address_length = sizeof(any), .ops = &any_ops};
		assert_int_equal(weir_listen(domain, &options, &listener), 0);
		assert_int_equal(weir_listener_address(listener, NULL, 0, &at), 0);
		for (int i = 0; i < 8; i++) {
			peers[i] = socket(AF_INET, SOCK_STREAM, 0);
			assert_int_equal(connect(peers[i], (struct sockaddr *)&at, sizeof(any)), 0);
		}
		weir_listener_free(&listener);
		for (int i = 0; i < 8; i++)
			close(peers[i]);
	}
	assert_int_equal(weir_world_stop(world, 10 * WEIR_NS_PER_S, NULL), 0);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(tells_its_address),
		ON_BOTH(refuses_an_address_that_is_in_use),
		ON_BOTH(refuses_bad_options),
		ON_BOTH(accepts_many_at_once),
		ON_BOTH(accepts_no_more_than_its_bound),
		ON_BOTH(waits_for_descriptors),
		ON_BOTH(closing_keeps_connections_and_takes_in_the_backlog),
		ON_BOTH(freeing_closes_every_connection),
		ON_BOTH(listens_on_a_path),
		ON_BOTH(spreads_over_the_threads),
		ON_BOTH(shares_its_bound_among_the_threads),
		ON_BOTH(a_world_that_stops_ends_its_connections),
		ON_BOTH(can_be_freed_while_peers_connect),
		cmocka_unit_test(needs_a_started_reactor),
		cmocka_unit_test(can_be_freed_though_it_never_accepted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
