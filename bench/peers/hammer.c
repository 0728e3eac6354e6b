/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A closed-loop generator: every connection has one request out at all times. Counts complete replies of a known
 * length between the end of the warm-up and the end of the run, and the CPU time that the server's process spent in
 * exactly that window, through the process's CPU clock: all its threads, to the nanosecond, whatever the server is.
 *
 *	hammer --port P --reply-bytes N [--connections C] [--seconds S] [--warm S] [--pid SERVER]
 */
#include <sys/epoll.h>

#include "common.h"

static const char request[] = "GET /index.html HTTP/1.1\r\nHost: localhost\r\nUser-Agent: hammer\r\n\r\n";

/* Takes what has come; true when a whole reply is there. */
static bool receive(int fd, size_t *received, size_t reply_bytes)
{
	static char in[65536];
	ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n == 0)
		errno = ECONNRESET;
	BENCH_REQUIRE(n > 0);
	*received += (size_t)n;
	BENCH_REQUIRE(*received <= reply_bytes);
	if (*received < reply_bytes)
		return false;
	*received = 0;
	return true;
}

static void ask(int fd)
{
	BENCH_REQUIRE(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(request) - 1);
}

/* Replies counted until the clock says so. */
static uint64_t run(int poll, size_t *received, size_t reply_bytes, uint64_t until_ns)
{
	struct epoll_event ready[512];
	uint64_t replies = 0;

	while (bench_now_ns() < until_ns) {
		int count = epoll_wait(poll, ready, 512, 100);

		for (int i = 0; i < count; i++) {
			int fd = ready[i].data.fd;

			if (receive(fd, &received[fd], reply_bytes)) {
				replies++;
				ask(fd);
			}
		}
	}
	return replies;
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	size_t connections = (size_t)bench_number(argv, "connections", 64);
	size_t reply_bytes = (size_t)bench_number(argv, "reply-bytes", 0);
	double seconds = bench_number(argv, "seconds", 1), warm = bench_number(argv, "warm", 0.2);
	pid_t pid = (pid_t)bench_number(argv, "pid", 0);
	static size_t received[65536];
	int poll = epoll_create1(EPOLL_CLOEXEC);
	clockid_t server = CLOCK_PROCESS_CPUTIME_ID;
	uint64_t begin_ns, cpu_ns, replies;

	bench_raise_nofile();
	BENCH_REQUIRE(poll >= 0 && port != 0 && reply_bytes != 0 && connections < 60000);
	if (pid != 0)
		BENCH_REQUIRE((errno = clock_getcpuclockid(pid, &server)) == 0);
	for (size_t i = 0; i < connections; i++) {
		int fd = bench_connect(port, 0);
		struct epoll_event watch = {.events = EPOLLIN, .data.fd = fd};

		BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch) == 0);
		ask(fd);
	}
	run(poll, received, reply_bytes, bench_now_ns() + (uint64_t)(warm * 1e9));
	begin_ns = bench_now_ns();
	cpu_ns = bench_clock_ns(server);
	replies = run(poll, received, reply_bytes, begin_ns + (uint64_t)(seconds * 1e9));
	cpu_ns = bench_clock_ns(server) - cpu_ns;
	begin_ns = bench_now_ns() - begin_ns;
	printf("replies %llu\nseconds %.6f\nserver_cpu_seconds %.6f\n", (unsigned long long)replies,
	       (double)begin_ns / 1e9, (double)cpu_ns / 1e9);
	printf("replies_per_s %.1f\n", (double)replies * 1e9 / (double)begin_ns);
	if (pid != 0)
		printf("replies_per_cpu_s %.1f\n", (double)replies * 1e9 / (double)cpu_ns);
	return 0;
}
