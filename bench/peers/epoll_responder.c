/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare loop that the net layer is held against: accept, receive, send a canned reply. No limits, no
 * timers, no partial writes (a reply fits an idle socket's buffer): the least a server can do.
 */
#include <sys/epoll.h>

#include "common.h"
#include "reply.h"

int main(void)
{
	static char in[16384], reply[BENCH_REPLY_BYTES];
	struct epoll_event ready[256], watch = {.events = EPOLLIN};
	unsigned port;
	int one = 1, listener = bench_listen(&port), poll = epoll_create1(EPOLL_CLOEXEC);

	bench_raise_nofile();
	bench_reply_fill(reply);
	watch.data.fd = listener;
	BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch) == 0);
	printf("port %u\nreply_bytes %zu\n", port, sizeof(reply));
	fflush(stdout);
	for (;;) {
		int count = epoll_wait(poll, ready, 256, -1);

		for (int i = 0; i < count; i++) {
			int fd = ready[i].data.fd;

			if (fd == listener) {
				while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
					watch.data.fd = fd;
					epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch);
				}
			} else if (recv(fd, in, sizeof(in), 0) <= 0 ||
				   send(fd, reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply)) {
				close(fd);
			}
		}
	}
}
