/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of SEDA's Figure 11: every connection sends bursts of 1000 packets of 8 KB and waits for one byte after
 * each. All connections are kept busy, in turn, until the server goes away.
 *
 *	packets --port P --connections N
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "sink.h"

typedef struct sender {
	int fd;
	uint32_t left; /* bytes of this burst to send; 0: waits for its ack */
} sender;

/* Packets given to the kernel in one call. */
#define SEND_BYTES (4 * SINK_PACKET_BYTES)

static int poll, packets;

static void want(sender *s, int operation, uint32_t events)
{
	struct epoll_event watch = {.events = events, .data.ptr = s};

	BENCH_REQUIRE(epoll_ctl(poll, operation, s->fd, &watch) == 0);
}

/* The server is gone, which is how a run ends. */
static void check(ssize_t n)
{
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		exit(0);
}

/*
 * A few packets at most, so that all connections get their turn. From a file in memory, without a copy: the clients
 * must not tire before the server does.
 */
static void send_some(sender *s)
{
	off_t from = 0;
	ssize_t n = sendfile(s->fd, packets, &from, s->left < SEND_BYTES ? s->left : SEND_BYTES);

	check(n);
	if (n <= 0)
		return;
	s->left -= (uint32_t)n;
	if (s->left == 0)
		want(s, EPOLL_CTL_MOD, EPOLLIN);
}

static void receive_ack(sender *s)
{
	char ack[16];

	check(recv(s->fd, ack, sizeof(ack), MSG_DONTWAIT));
	s->left = SINK_BURST_BYTES;
	want(s, EPOLL_CTL_MOD, EPOLLOUT);
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	size_t connections = (size_t)bench_number(argv, "connections", 1);
	sender *senders = calloc(connections, sizeof(*senders));
	struct epoll_event ready[256];

	bench_raise_nofile();
	poll = epoll_create1(EPOLL_CLOEXEC);
	packets = memfd_create("packets", MFD_CLOEXEC);
	BENCH_REQUIRE(packets >= 0 && ftruncate(packets, SEND_BYTES) == 0);
	BENCH_REQUIRE(senders != NULL && poll >= 0 && port != 0);
	for (size_t i = 0; i < connections; i++)
		senders[i] = (sender){bench_connect(port, SINK_SEND_BUFFER), SINK_BURST_BYTES};
	for (size_t i = 0; i < connections; i++)
		BENCH_REQUIRE(fcntl(senders[i].fd, F_SETFL, O_NONBLOCK) == 0);
	for (size_t i = 0; i < connections; i++)
		want(&senders[i], EPOLL_CTL_ADD, EPOLLOUT);
	for (;;) {
		int count = epoll_wait(poll, ready, 256, -1);

		for (int i = 0; i < count; i++)
			if (((sender *)ready[i].data.ptr)->left > 0)
				send_some(ready[i].data.ptr);
			else
				receive_ack(ready[i].data.ptr);
	}
}
