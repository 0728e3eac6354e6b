/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare relay that proxying is held against: each client's connection has one of its own to the backend, and bytes are copied from one to the
 * other as they come. It looks at nothing, and bounds nothing: the least that a process between client and backend can do.
 *
 *	relay --to PORT
 */
#include <sys/epoll.h>

#include "common.h"

static int other[65536];

static void pair_up(int poll, int client, unsigned port)
{
	int one = 1, backend = bench_connect(port, 0);
	struct epoll_event watch = {.events = EPOLLIN};

	BENCH_REQUIRE(client < 65536 && backend < 65536);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	other[client] = backend;
	other[backend] = client;
	watch.data.fd = client;
	BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, client, &watch) == 0);
	watch.data.fd = backend;
	BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, backend, &watch) == 0);
}

/* Whether both ends are still there. */
static bool pass_on(int fd)
{
	static char bytes[16384];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	return n > 0 && send(other[fd], bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

int main(int argc, char **argv)
{
	unsigned port, to = (unsigned)bench_number(argv, "to", 0);
	struct epoll_event ready[256];
	int listener = bench_listen(&port), poll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event watch = {.events = EPOLLIN, .data.fd = listener};

	bench_raise_nofile();
	BENCH_REQUIRE(to != 0 && epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch) == 0);
	printf("port %u\n", port);
	fflush(stdout);
	for (;;) {
		int count = epoll_wait(poll, ready, 256, -1);

		for (int i = 0; i < count; i++) {
			int fd = ready[i].data.fd;

			if (fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
					pair_up(poll, fd, to);
			} else if (other[fd] != 0 && !pass_on(fd)) {
				int peer = other[fd];

				other[fd] = other[peer] = 0;
				close(fd);
				close(peer);
			}
		}
	}
}
