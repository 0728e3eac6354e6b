/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that were given, handed on, or have a path. */
#include "support/on_net.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <weir/stage.h>

/* ---- counting, over all threads ---- */

static atomic_int opened, closed;
static atomic_uint homes; /* a bit for each thread that opened one */
static atomic_uint homes_wanted;

static int count_open(weir_conn *conn, void *arg)
{
	atomic_fetch_add(&opened, 1);
	return 0;
}

/* Nobody goes on before so many threads have each accepted one: so none can take them all. */
static int meet_in_open(weir_conn *conn, void *arg)
{
	atomic_fetch_add(&opened, 1);
	atomic_fetch_or(&homes, 1u << weir_thread_home());
	while ((unsigned)__builtin_popcount(atomic_load(&homes)) < atomic_load(&homes_wanted))
		sched_yield();
	return 0;
}

static void echo(weir_conn *conn, weir_buf *buf)
{
	weir_conn_send(conn, buf, 0, buf->length);
}

static void count_closed(weir_conn *conn, int why)
{
	atomic_fetch_add(&closed, 1);
}

static const weir_conn_ops count_ops = {.open = count_open, .data = echo, .closed = count_closed};
static const weir_conn_ops meet_ops = {.open = meet_in_open, .data = echo, .closed = count_closed};

static void reset_counts(void)
{
	atomic_store(&opened, 0);
	atomic_store(&closed, 0);
	atomic_store(&homes, 0);
}

/* ---- sockets as another process would have made them ---- */

static int plain_socket(uint16_t port, bool share, uint16_t *ret_port)
{
	struct sockaddr_in at = loopback(port);
	socklen_t length = sizeof(at);
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	if (share)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 100), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
	*ret_port = ntohs(at.sin_port);
	return fd;
}

static int dial_port(uint16_t port)
{
	struct sockaddr_in to = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int take_on_loop(weir_loop *loop, const int *fds, size_t count, weir_listener **ret_listener)
{
	weir_listen_options options = {.fds = fds, .fd_count = count, .ops = &count_ops};
	return weir_listen_on_loop(loop, &options, ret_listener);
}

/* Those of a predecessor whose path is now ours. */
static int own_on_loop(weir_loop *loop, const int *fd, weir_listener **ret_listener)
{
	weir_listen_options options = {.fds = fd, .fd_count = 1, .owns_path = true, .ops = &count_ops};
	return weir_listen_on_loop(loop, &options, ret_listener);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void hear_echo(weir_loop *loop, int fd)
{
	char answer[2];
	never_block(fd);
	say(fd, "hi");
	hear(loop, fd, answer, 2);
	assert_memory_equal(answer, "hi", 2);
}

/* ---- given ---- */

static void serves_a_socket_that_was_given(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener;
	uint16_t port;
	char text[64], expected[64];
	reset_counts();
	int given = plain_socket(0, false, &port);
	int early = dial_port(port);
	assert_int_equal(take_on_loop(loop, &given, 1, &listener), 0);
	assert_false(is_open(given));
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
	assert_int_equal(weir_listener_address(listener, text, sizeof(text), NULL), 0);
	assert_string_equal(text, expected);
	int late = dial_port(port);
	hear_echo(loop, early);
	hear_echo(loop, late);
	close(early);
	close(late);
	turn_until(loop, atomic_load(&closed) == 2);
	weir_listener_free(&listener);
}

/* Every socket has its backlog: one loop must serve them all. */
static void serves_more_sockets_than_loops(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener;
	enum { SOCKETS = 5, COUNT = 100 };
	uint16_t port = 0;
	int given[SOCKETS], fds[COUNT];
	reset_counts();
	for (int i = 0; i < SOCKETS; i++)
		given[i] = plain_socket(port, true, &port);
	for (int i = 0; i < COUNT / 2; i++)
		fds[i] = dial_port(port);
	assert_int_equal(take_on_loop(loop, given, SOCKETS, &listener), 0);
	assert_int_equal(weir_listener_fds(listener, NULL, 0), SOCKETS);
	for (int i = COUNT / 2; i < COUNT; i++)
		fds[i] = dial_port(port);
	for (int i = 0; i < COUNT; i++)
		hear_echo(loop, fds[i]);
	assert_int_equal(atomic_load(&opened), COUNT);
	weir_listener_free(&listener);
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
}

static void serve_in_world(const char *backend, const int *given, size_t count, uint16_t port)
{
	weir_domain_options options = {.name = "net", .kind = WEIR_REACTOR, .threads = 3};
	weir_listen_options listen_options = {.fds = given, .fd_count = count, .ops = &meet_ops};
	weir_world *world;
	weir_domain *domain;
	weir_listener *listener;
	enum { COUNT = 60 };
	int fds[COUNT];
	char answer[2];
	setenv("WEIR_LOOP", backend, 1);
	assert_int_equal(weir_world_new(NULL, &world), 0);
	assert_int_equal(weir_domain_new(world, &options, &domain), 0);
	assert_int_equal(weir_world_start(world), 0);
	for (int i = 0; i < COUNT; i++)
		fds[i] = dial_port(port);
	assert_int_equal(weir_listen(domain, &listen_options, &listener), 0);
	for (int i = 0; i < COUNT; i++) {
		say(fds[i], "hi");
		assert_int_equal(recv(fds[i], answer, 2, MSG_WAITALL), 2);
		close(fds[i]);
	}
	assert_int_equal(atomic_load(&opened), COUNT);
	weir_listener_free(&listener);
	assert_int_equal(atomic_load(&closed), COUNT);
	weir_world_free(&world);
}

/* One socket for three threads, then two, then seven: each thread accepts, and none of the sockets is forgotten. */
static void spreads_given_sockets_over_the_threads(void **state)
{
	weir_loop *loop = loop_of(state);
	const size_t counts[] = {1, 2, 7};
	for (int k = 0; k < 3; k++) {
		uint16_t port = 0;
		int given[7];
		for (size_t i = 0; i < counts[k]; i++)
			given[i] = plain_socket(port, true, &port);
		reset_counts();
		/* The kernel spreads by hash, but 60 over two or seven sockets miss no thread in our lifetime. */
		atomic_store(&homes_wanted, 3);
		serve_in_world(weir_loop_backend(loop), given, counts[k], port);
	}
}

static void refuses_what_does_not_listen(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener = NULL;
	uint16_t port, other_port;
	int good = plain_socket(0, false, &port), other = plain_socket(0, false, &other_port);
	int idle = socket(AF_INET, SOCK_STREAM, 0), packets = socket(AF_INET, SOCK_DGRAM, 0);
	int bad[] = {idle, packets, STDOUT_FILENO, -1, other};
	for (int i = 0; i < 5; i++) {
		int both[] = {good, bad[i]};
		int error = take_on_loop(loop, both, 2, &listener);
		assert_true(error == -EINVAL || error == -ENOTSOCK || error == -EBADF);
		assert_null(listener);
		assert_true(is_open(good));
		assert_true(bad[i] < 0 || is_open(bad[i]));
	}
	assert_int_equal(take_on_loop(loop, NULL, 1, &listener), -EINVAL);
	assert_int_equal(take_on_loop(loop, &good, 1025, &listener), -EINVAL);
	close(good);
	close(other);
	close(idle);
	close(packets);
}

/* ---- handed on ---- */

static void hands_its_sockets_on_without_losing_a_connection(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *first, *second;
	struct sockaddr_in any = loopback(0);
	weir_listen_options options = {
		.address = (struct sockaddr *)&any, .address_length = sizeof(any), .ops = &count_ops};
	int fds[8];
	reset_counts();
	assert_int_equal(weir_listen_on_loop(loop, &options, &first), 0);
	int before = dial(first);
	hear_echo(loop, before);
	assert_int_equal(weir_listener_fds(first, fds, 8), 1);
	int between = dial(first);
	/* Nobody turned the loop: this one is left in the backlog, for the successor. */
	weir_listener_close(first);
	turn_some(loop);
	assert_int_equal(take_on_loop(loop, fds, 1, &second), 0);
	int after = dial(second);
	hear_echo(loop, between);
	hear_echo(loop, after);
	hear_echo(loop, before);
	weir_listener_free(&first);
	hear_echo(loop, between);
	close(before);
	close(between);
	close(after);
	weir_listener_free(&second);
	assert_int_equal(atomic_load(&opened), 3);
	assert_int_equal(atomic_load(&closed), 3);
}

/* While both listen, whichever accepts answers; neither may block on the other's success. */
static void share_with_successor(weir_loop *loop, uint32_t most)
{
	weir_listener *first, *second;
	struct sockaddr_in any = loopback(0);
	weir_listen_options options = {.address = (struct sockaddr *)&any,
				       .address_length = sizeof(any),
				       .max_connections = most,
				       .ops = &count_ops};
	int fds[1], peers[200];
	reset_counts();
	assert_int_equal(weir_listen_on_loop(loop, &options, &first), 0);
	turn_some(loop);
	assert_int_equal(weir_listener_fds(first, fds, 1), 1);
	assert_int_equal(take_on_loop(loop, fds, 1, &second), 0);
	for (int i = 0; i < 200; i++) {
		peers[i] = dial(second);
		hear_echo(loop, peers[i]);
	}
	assert_int_equal(atomic_load(&opened), 200);
	weir_listener_free(&first);
	weir_listener_free(&second);
	for (int i = 0; i < 200; i++)
		close(peers[i]);
}

/* The predecessor may have had ample room, or not: then io_uring accepts in another way. */
static void shares_a_socket_with_its_successor(void **state)
{
	weir_loop *loop = loop_of(state);
	share_with_successor(loop, 100000);
	share_with_successor(loop, 300);
}

static void tells_when_there_are_no_sockets_to_hand_on(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener;
	uint16_t port = 0;
	int given[2], fds[2] = {-7, -7};
	given[0] = plain_socket(0, true, &port);
	given[1] = plain_socket(port, true, &port);
	assert_int_equal(take_on_loop(loop, given, 2, &listener), 0);
	assert_int_equal(weir_listener_fds(listener, fds, 1), -ENOSPC);
	assert_non_null(strstr(weir_error(), "2 sockets"));
	weir_listener_close(listener);
	turn_some(loop);
	assert_int_equal(weir_listener_fds(listener, fds, 2), -ESHUTDOWN);
	assert_int_equal(fds[0], -7);
	weir_listener_free(&listener);
}

/* ---- paths ---- */

static char folder[] = "/tmp/weir-listen-XXXXXX";

static struct sockaddr_un path_in_folder(const char *name)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	snprintf(path.sun_path, sizeof(path.sun_path), "%s/%s", folder, name);
	return path;
}

static int listen_on_path(weir_loop *loop, const struct sockaddr_un *path, weir_listener **ret_listener)
{
	weir_listen_options options = {
		.address = (const struct sockaddr *)path, .address_length = sizeof(*path), .ops = &count_ops};
	return weir_listen_on_loop(loop, &options, ret_listener);
}

static bool is_there(const struct sockaddr_un *path)
{
	struct stat found;
	return lstat(path->sun_path, &found) == 0;
}

static void listens_on_a_path_and_connects_to_it(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener;
	side client = {.loop = loop};
	struct sockaddr_un path = path_in_folder("talk");
	struct sockaddr_storage peer;
	char text[160], expected[160];
	weir_conn *conn;
	reset_counts();
	assert_int_equal(listen_on_path(loop, &path, &listener), 0);
	snprintf(expected, sizeof(expected), "unix:%s", path.sun_path);
	assert_int_equal(weir_listener_address(listener, text, sizeof(text), NULL), 0);
	assert_string_equal(text, expected);
	assert_int_equal(
		weir_conn_open(loop, (struct sockaddr *)&path, sizeof(path), &side_ops, NULL, &client, &conn),
		0);
	turn_until(loop, client.calls[IN_OPEN] == 1);
	assert_int_equal(weir_conn_peer(conn, &peer), 0);
	assert_int_equal(peer.ss_family, AF_UNIX);
	assert_int_equal(weir_conn_write(conn, "hello", 5), 0);
	turn_until(loop, client.count == 5);
	weir_conn_close(conn);
	turn_until(loop, client.calls[IN_CLOSED] == 1);
	assert_int_equal(client.why, 0);
	side_fini(&client);
	assert_true(is_there(&path));
	weir_listener_close(listener);
	assert_false(is_there(&path));
	weir_listener_free(&listener);
}

static void reports_a_path_that_nobody_listens_on(void **state)
{
	weir_loop *loop = loop_of(state);
	side client = {.loop = loop};
	struct sockaddr_un path = path_in_folder("nobody");
	weir_conn *conn = NULL;
	const weir_conn_ops ops = {.open = side_open, .data = side_data, .closed = side_closed};
	assert_int_equal(
		weir_conn_open(loop, (struct sockaddr *)&path, sizeof(path), &ops, NULL, &client, &conn), 0);
	turn_until(loop, client.calls[IN_CLOSED] == 1);
	assert_int_equal(client.why, -ENOENT);
	assert_int_equal(client.calls[IN_OPEN], 0);
}

static void leave_socket(const struct sockaddr_un *path)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)path, sizeof(*path)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
	assert_true(is_there(path));
}

static void takes_over_a_path_that_was_left_behind(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener = NULL, *second = NULL;
	struct sockaddr_un path = path_in_folder("stale");
	leave_socket(&path);
	assert_int_equal(listen_on_path(loop, &path, &listener), 0);
	/* Now it is in use. */
	assert_int_equal(listen_on_path(loop, &path, &second), -EADDRINUSE);
	assert_non_null(strstr(weir_error(), path.sun_path));
	assert_null(second);
	assert_true(is_there(&path));
	weir_listener_free(&listener);
	assert_false(is_there(&path));
}

static void never_removes_what_is_not_its_own(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener = NULL;
	struct sockaddr_un file = path_in_folder("file"), path = path_in_folder("mine");
	close(open(file.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(listen_on_path(loop, &file, &listener), -EADDRINUSE);
	assert_true(is_there(&file));
	unlink(file.sun_path);
	/* Somebody else's socket is where ours was. */
	assert_int_equal(listen_on_path(loop, &path, &listener), 0);
	assert_int_equal(rename(path.sun_path, file.sun_path), 0);
	leave_socket(&path);
	weir_listener_free(&listener);
	assert_true(is_there(&path));
	unlink(path.sun_path);
	unlink(file.sun_path);
}

static void a_path_that_was_handed_on_stays(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *first, *second;
	struct sockaddr_un path = path_in_folder("handed");
	int fd;
	reset_counts();
	assert_int_equal(listen_on_path(loop, &path, &first), 0);
	assert_int_equal(weir_listener_fds(first, &fd, 1), 1);
	weir_listener_free(&first);
	assert_true(is_there(&path));
	assert_int_equal(take_on_loop(loop, &fd, 1, &second), 0);
	int peer = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(peer, (struct sockaddr *)&path, sizeof(path)), 0);
	hear_echo(loop, peer);
	close(peer);
	weir_listener_free(&second);
	unlink(path.sun_path);
}

/* A successor that fails must not take the path away from whoever still listens; the last one removes it. */
static void the_last_of_several_removes_the_path(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *first, *second;
	struct sockaddr_un path = path_in_folder("last");
	int fd;
	reset_counts();
	assert_int_equal(listen_on_path(loop, &path, &first), 0);
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(weir_listener_fds(first, &fd, 1), 1);
		assert_int_equal(own_on_loop(loop, &fd, &second), 0);
		if (turn == 0) {
			weir_listener_free(&second);
			assert_true(is_there(&path));
		}
	}
	weir_listener_free(&first);
	assert_true(is_there(&path));
	weir_listener_free(&second);
	assert_false(is_there(&path));
}

/* It was handed on to one that did not begin. */
static void a_path_that_nobody_took_is_removed(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *first;
	struct sockaddr_un path = path_in_folder("back");
	int fd;
	assert_int_equal(listen_on_path(loop, &path, &first), 0);
	assert_int_equal(weir_listener_fds(first, &fd, 1), 1);
	close(fd);
	weir_listener_free(&first);
	assert_false(is_there(&path));
}

static unsigned mode_of(const struct sockaddr_un *path)
{
	struct stat found;
	assert_int_equal(lstat(path->sun_path, &found), 0);
	return found.st_mode & 07777;
}

static void a_path_has_the_mode_that_was_given(void **state)
{
	static const unsigned modes[] = {0600, 0660, 0666, 0777};
	weir_loop *loop = loop_of(state);
	weir_listener *listener;
	struct sockaddr_un path = path_in_folder("mode");
	weir_listen_options options = {
		.address = (struct sockaddr *)&path, .address_length = sizeof(path), .ops = &count_ops};
	mode_t before = umask(027);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		options.file = &(weir_listen_file){modes[i], (uid_t)-1, getegid()};
		assert_int_equal(weir_listen_on_loop(loop, &options, &listener), 0);
		assert_int_equal(mode_of(&path), modes[i]);
		weir_listener_free(&listener);
	}
	options.file = NULL;
	assert_int_equal(weir_listen_on_loop(loop, &options, &listener), 0);
	assert_int_equal(mode_of(&path), 0750);
	weir_listener_free(&listener);
	umask(before);
}

/* One whose owner cannot be changed is not left behind with the wrong one. */
static void a_path_whose_owner_cannot_be_changed_is_removed(void **state)
{
	weir_loop *loop = loop_of(state);
	weir_listener *listener = NULL;
	struct sockaddr_un path = path_in_folder("owner");
	weir_listen_options options = {.address = (struct sockaddr *)&path,
				       .address_length = sizeof(path),
				       .ops = &count_ops,
				       .file = &(weir_listen_file){0600, 12345, (gid_t)-1}};
	struct stat found;
	int failed = weir_listen_on_loop(loop, &options, &listener);
	if (geteuid() != 0) {
		assert_int_equal(failed, -EPERM);
		assert_null(listener);
	} else {
		assert_int_equal(lstat(path.sun_path, &found), 0);
		assert_int_equal(found.st_uid, 12345);
		weir_listener_free(&listener);
	}
	assert_false(is_there(&path));
}

static int make_folder(void **state)
{
	return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(serves_a_socket_that_was_given),
		ON_BOTH(serves_more_sockets_than_loops),
		ON_BOTH(spreads_given_sockets_over_the_threads),
		ON_BOTH(refuses_what_does_not_listen),
		ON_BOTH(hands_its_sockets_on_without_losing_a_connection),
		ON_BOTH(shares_a_socket_with_its_successor),
		ON_BOTH(tells_when_there_are_no_sockets_to_hand_on),
		ON_BOTH(listens_on_a_path_and_connects_to_it),
		ON_BOTH(reports_a_path_that_nobody_listens_on),
		ON_BOTH(takes_over_a_path_that_was_left_behind),
		ON_BOTH(never_removes_what_is_not_its_own),
		ON_BOTH(a_path_that_was_handed_on_stays),
		ON_BOTH(the_last_of_several_removes_the_path),
		ON_BOTH(a_path_that_nobody_took_is_removed),
		ON_BOTH(a_path_has_the_mode_that_was_given),
		ON_BOTH(a_path_whose_owner_cannot_be_changed_is_removed),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
