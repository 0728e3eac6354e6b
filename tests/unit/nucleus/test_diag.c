/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets as the kernel shows them: of listeners and connections that the test makes itself. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "nucleus/diag.h"
#include "nucleus/nucleus.h"

#define SOME 3u

typedef struct server {
	int fd;
	struct sockaddr_storage at;
	socklen_t length;
	weir_diag_place place;
} server;

static void make_server(server *s, int family)
{
	s->length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	memset(&s->at, 0, sizeof(s->at));
	s->at.ss_family = (sa_family_t)family;
	if (family == AF_INET)
		((struct sockaddr_in *)&s->at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&s->at)->sin6_addr = in6addr_loopback;
	s->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&s->at, s->length), 0);
	assert_int_equal(listen(s->fd, 64), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&s->at, &s->length), 0);
	s->place = (weir_diag_place){.port = ntohs(((struct sockaddr_in *)&s->at)->sin_port), .any = true};
}

static int make_client(const server *s)
{
	int fd = socket(s->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&s->at, s->length), 0);
	return fd;
}

static weir_diag open_diag(void)
{
	weir_diag diag;
	if (weir_diag_open(&diag) != 0)
		skip();
	return diag;
}

/* What was seen of all connections. */
typedef struct seen {
	uint32_t all, accepted, unread, unsent, answered, segments;
	uint64_t cookie;
} seen;

static void count(const weir_diag_conn *conn, void *arg)
{
	seen *s = arg;
	s->all++;
	s->accepted += conn->accepted;
	s->unread += conn->unread > 0;
	s->unsent += conn->unsent > 0;
	s->answered += conn->segments_out > 0;
	s->segments += conn->segments_in;
	s->cookie = conn->cookie;
}

static seen look(weir_diag *diag, const weir_diag_place *place)
{
	seen s = {0};
	assert_int_equal(weir_diag_connections(diag, place, count, &s), 0);
	return s;
}

static void sees_the_backlog(int family)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	server s;
	int clients[SOME], taken;
	make_server(&s, family);
	assert_int_equal(weir_diag_find(&diag, &s.place, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.backlog, 0);
	assert_int_equal(found.most, 64);
	assert_true(found.inode[0] != 0);
	for (unsigned i = 0; i < SOME; i++) {
		clients[i] = make_client(&s);
		assert_int_equal(send(clients[i], "GET", 3, 0), 3);
	}
	assert_int_equal(weir_diag_look(&diag, &s.place, &found), 0);
	assert_int_equal(found.backlog, SOME);
	seen all = look(&diag, &s.place);
	assert_int_equal(all.all, SOME);
	assert_int_equal(all.accepted, 0);
	assert_int_equal(all.unread, SOME);
	assert_int_equal(all.segments, SOME);
	taken = accept(s.fd, NULL, NULL);
	assert_true(taken >= 0);
	assert_int_equal(weir_diag_look(&diag, &s.place, &found), 0);
	assert_int_equal(found.backlog, SOME - 1);
	assert_int_equal(look(&diag, &s.place).accepted, 1);
	char bytes[8];
	assert_int_equal(recv(taken, bytes, sizeof(bytes), 0), 3);
	all = look(&diag, &s.place);
	assert_int_equal(all.unread, SOME - 1);
	assert_int_equal(all.answered, 0);
	assert_int_equal(send(taken, "ok", 2, 0), 2);
	assert_int_equal(look(&diag, &s.place).answered, 1);
	close(taken);
	for (unsigned i = 0; i < SOME; i++)
		close(clients[i]);
	close(s.fd);
	weir_diag_close(&diag);
}

static void sees_the_backlog_of_ipv4(void **state)
{
	sees_the_backlog(AF_INET);
}

static void sees_the_backlog_of_ipv6(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
	close(fd);
	if (!has)
		skip();
	sees_the_backlog(AF_INET6);
}

/* The client acknowledges an answer late, if nothing of it wants to be sent. */
static void an_answer_that_is_not_acknowledged_is_sent(void **state)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	server s;
	char bytes[8];
	make_server(&s, AF_INET);
	int client = make_client(&s), taken = accept(s.fd, NULL, NULL);
	assert_int_equal(weir_diag_find(&diag, &s.place, &found), 0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(send(client, "GET", 3, 0), 3);
		assert_int_equal(recv(taken, bytes, sizeof(bytes), 0), 3);
		assert_int_equal(send(taken, "ok", 2, 0), 2);
		assert_int_equal(look(&diag, &s.place).unsent, 0);
		assert_int_equal(recv(client, bytes, sizeof(bytes), 0), 2);
	}
	close(client);
	close(taken);
	close(s.fd);
	weir_diag_close(&diag);
}

/* A client that does not read: its window closes, and the rest of the answer waits in the server's socket. */
static void an_answer_that_waits_for_its_client_is_unsent(void **state)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	static char bytes[1 << 16];
	server s;
	make_server(&s, AF_INET);
	int client = make_client(&s), taken = accept(s.fd, NULL, NULL);
	assert_int_equal(weir_diag_find(&diag, &s.place, &found), 0);
	while (send(taken, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(look(&diag, &s.place).unsent, 1);
	close(client);
	close(taken);
	close(s.fd);
	weir_diag_close(&diag);
}

static void finds_only_what_is_asked_for(void **state)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	weir_diag_place elsewhere;
	char text[64];
	server s;
	make_server(&s, AF_INET);
	snprintf(text, sizeof(text), "127.0.0.2:%u", s.place.port);
	assert_int_equal(weir_nucleus_read_place(text, &elsewhere), 0);
	assert_int_equal(weir_diag_find(&diag, &elsewhere, &found), 0);
	assert_int_equal(found.count, 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", s.place.port);
	assert_int_equal(weir_nucleus_read_place(text, &elsewhere), 0);
	assert_int_equal(weir_diag_find(&diag, &elsewhere, &found), 0);
	assert_int_equal(found.count, 1);
	assert_true(elsewhere.ipv4 && !elsewhere.ipv6);
	close(s.fd);
	assert_int_equal(weir_diag_find(&diag, &elsewhere, &found), 0);
	assert_int_equal(found.count, 0);
	weir_diag_close(&diag);
}

static void hears_of_connections_that_end(void **state)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	server s, other;
	make_server(&s, AF_INET);
	make_server(&other, AF_INET);
	assert_int_equal(weir_diag_find(&diag, &s.place, &found), 0);
	if (weir_diag_hear_ended(&diag, &s.place.port, 1) != 0)
		skip();
	int stranger = make_client(&other), client = make_client(&s), taken = accept(s.fd, NULL, NULL);
	assert_int_equal(send(client, "GET", 3, 0), 3);
	seen before = look(&diag, &s.place), ended = {0};
	assert_int_equal(before.all, 1);
	weir_diag_ended(&diag, count, &ended);
	assert_int_equal(ended.all, 0);
	close(client);
	close(taken);
	close(stranger);
	close(other.fd);
	/* The kernel tells of it in its own time. */
	while (ended.all == 0) {
		usleep(1000);
		weir_diag_ended(&diag, count, &ended);
	}
	assert_int_equal(ended.all, 1);
	assert_int_equal(ended.segments, 1);
	assert_int_equal(ended.cookie, before.cookie);
	close(s.fd);
	weir_diag_close(&diag);
}

static void sees_unix_sockets(void **state)
{
	weir_diag diag = open_diag();
	weir_diag_listeners found;
	weir_diag_place place;
	char text[160];
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weir-test-diag-%d", (int)getpid());
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.sun_path + 1));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(fd, 16), 0);
	snprintf(text, sizeof(text), "unix:@%s", at.sun_path + 1);
	assert_int_equal(weir_nucleus_read_place(text, &place), 0);
	if (weir_diag_find(&diag, &place, &found) != 0)
		skip(); /* a kernel without unix_diag */
	assert_int_equal(found.count, 1);
	assert_int_equal(connect(client, (struct sockaddr *)&at, length), 0);
	assert_int_equal(weir_diag_look(&diag, &place, &found), 0);
	assert_int_equal(found.backlog, 1);
	int taken = accept(fd, NULL, NULL);
	assert_int_equal(weir_diag_look(&diag, &place, &found), 0);
	assert_int_equal(found.backlog, 0);
	close(taken);
	close(client);
	close(fd);
	assert_int_equal(weir_diag_look(&diag, &place, &found), 0);
	assert_int_equal(found.count, 0);
	assert_int_equal(weir_diag_find(&diag, &place, &found), 0);
	assert_int_equal(found.count, 0);
	weir_diag_close(&diag);
}

static void reads_places(void **state)
{
	static const char *const bad[] = {"", "0", "65536", "a", "unix:", "unix:x", "127.0.0.1:0", "1.2.3.4"};
	weir_diag_place place = {.port = 7};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(weir_nucleus_read_place(bad[i], &place) != 0);
		assert_int_equal(place.port, 7);
	}
	assert_int_equal(weir_nucleus_read_place("8080", &place), 0);
	assert_true(place.any && place.port == 8080 && !place.local);
	assert_int_equal(weir_nucleus_read_place("[::1]:81", &place), 0);
	assert_true(!place.any && place.port == 81);
	assert_int_equal(weir_nucleus_read_place("*:82", &place), 0);
	assert_true(place.any && place.port == 82);
	assert_int_equal(weir_nucleus_read_place("unix:/run/x.sock", &place), 0);
	assert_true(place.local);
	assert_string_equal(place.path, "/run/x.sock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sees_the_backlog_of_ipv4),
		cmocka_unit_test(sees_the_backlog_of_ipv6),
		cmocka_unit_test(an_answer_that_is_not_acknowledged_is_sent),
		cmocka_unit_test(an_answer_that_waits_for_its_client_is_unsent),
		cmocka_unit_test(finds_only_what_is_asked_for),
		cmocka_unit_test(hears_of_connections_that_end),
		cmocka_unit_test(sees_unix_sockets),
		cmocka_unit_test(reads_places),
	};
	return cmocka_run_group_tests_name("diag", tests, NULL, NULL);
}
