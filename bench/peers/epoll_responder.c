/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare loop that servers are held against: accept, receive, send a canned reply. No limits, no
 * timers, no partial writes (a reply fits an idle socket's buffer): the least a server can do.
 *
 *	epoll_responder [--bytes 1024] [--port P]     bytes: of the body
 */
#include <sys/epoll.h>

#include "common.h"
#include "reply.h"

int main(int argc, char **argv)
{
	static char in[16384];
	size_t body = (size_t)bench_number(argv, "bytes", 1024), reply_bytes;
	char *reply = malloc(BENCH_REPLY_HEAD_MOST + body);
	struct epoll_event ready[256], watch = {.events = EPOLLIN};
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	int one = 1, listener = bench_listen_on(&port), poll = epoll_create1(EPOLL_CLOEXEC);

	bench_raise_nofile();
	BENCH_REQUIRE(reply != NULL);
	reply_bytes = bench_reply_make(reply, body);
	watch.data.fd = listener;
	BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch) == 0);
	printf("port %u\nreply_bytes %zu\n", port, reply_bytes);
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
				   send(fd, reply, reply_bytes, MSG_NOSIGNAL) != (ssize_t)reply_bytes) {
				close(fd);
			}
		}
	}
}
