/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare loop that servers are held against: accept, receive, send a canned reply. No limits, no
 * timers, no partial writes (a reply fits an idle socket's buffer): the least a server can do.
 *
 *	epoll_responder [--bytes 1024] [--port P] [--request-body 0]     bytes: of the body
 *
 * --request-body: requests have a body of so many bytes, which is read before the reply is sent.
 */
#include <sys/epoll.h>

#include "common.h"
#include "reply.h"

static size_t request_body, wanted[65536]; /* of a descriptor: the bytes that its request still lacks */

/* Takes what has come: 1: a whole request; 0: a part; -1: the end, or no request. */
static int take(int fd)
{
	static char in[262144];
	ssize_t got = recv(fd, in, sizeof(in), 0);

	if (got <= 0 || fd >= 65536)
		return -1;
	if (request_body == 0)
		return 1;
	if (wanted[fd] == 0) {
		char *end = memmem(in, (size_t)got, "\r\n\r\n", 4);
		if (end == NULL)
			return -1;
		wanted[fd] = (size_t)(end + 4 - in) + request_body;
	}
	wanted[fd] -= (size_t)got < wanted[fd] ? (size_t)got : wanted[fd];
	return wanted[fd] == 0;
}

int main(int argc, char **argv)
{
	size_t body = (size_t)bench_number(argv, "bytes", 1024), reply_bytes;
	char *reply = malloc(BENCH_REPLY_HEAD_MOST + body);
	struct epoll_event ready[256], watch = {.events = EPOLLIN};
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	int one = 1, listener = bench_listen_on(&port), poll = epoll_create1(EPOLL_CLOEXEC);

	request_body = (size_t)bench_number(argv, "request-body", 0);
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
					if (fd < 65536)
						wanted[fd] = 0;
					epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch);
				}
				continue;
			}
			int whole = take(fd);
			if (whole < 0 ||
			    (whole > 0 && send(fd, reply, reply_bytes, MSG_NOSIGNAL) != (ssize_t)reply_bytes))
				close(fd);
		}
	}
}
