/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of Figure 11 as a bare epoll loop: shows how much of the curve is the kernel's.
 *
 *	epoll_sink --connections N [--seconds S] [--warm S]
 */
#include <pthread.h>
#include <sys/epoll.h>

#include "sink.h"

static int listener, poll;

static void accept_all(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		struct epoll_event watch = {.events = EPOLLIN, .data.fd = fd};

		sink_opened(fd);
		BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch) == 0);
	}
}

static void receive(int fd, uint64_t *in_burst)
{
	static char in[16384];
	ssize_t n = recv(fd, in, sizeof(in), 0);

	if (n <= 0)
		close(fd);
	else if (sink_received(in_burst, (size_t)n))
		BENCH_REQUIRE(send(fd, "a", 1, MSG_NOSIGNAL) == 1);
}

static void *serve(void *arg)
{
	uint64_t *in_burst = calloc(65536, sizeof(*in_burst));
	struct epoll_event ready[256], watch = {.events = EPOLLIN, .data.fd = listener};

	BENCH_REQUIRE(in_burst != NULL && epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch) == 0);
	for (;;) {
		int count = epoll_wait(poll, ready, 256, -1);

		for (int i = 0; i < count; i++)
			if (ready[i].data.fd == listener)
				accept_all();
			else
				receive(ready[i].data.fd, &in_burst[ready[i].data.fd]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t server;
	unsigned port;

	bench_raise_nofile();
	listener = bench_listen(&port);
	poll = epoll_create1(EPOLL_CLOEXEC);
	BENCH_REQUIRE(poll >= 0 && pthread_create(&server, NULL, serve, NULL) == 0);
	printf("port %u\n", port);
	fflush(stdout);
	sink_measure(argv);
	return 0;
}
