/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A closed-loop generator: every connection has one request out at all times. Counts complete replies between the end of the warm-up and the
 * end of the run, their times, and the CPU time that the server's process spent in exactly that window, through the process's CPU clock: all
 * its threads, to the nanosecond, whatever the server is.
 *
 *	hammer --port P [--reply-bytes N] [--connections C] [--seconds S] [--warm S] [--pid SERVER] [--path /index.html] [--fresh 1]
 *	       [--status 200] [--replies N] [--body N]
 *
 * Replies are all of one length, which is what a first one has unless it is given; the first one must have the status. --fresh: a connection
 * for each request. --body: requests are POST, with a body of so many bytes. --replies: no warm-up, and it ends after so many, however long that takes.
 */
#include <sys/epoll.h>

#include "common.h"
#include "http/answer.h"

enum { TIMES = 4096 }; /* of 4 us each; the last one: later */

static char request[1 << 20];
static size_t request_bytes, reply_bytes, received[65536];
static uint64_t asked_ns[65536];
static size_t sent[65536]; /* of the request */
static uint64_t times[TIMES];
static unsigned port;
static bool fresh;

static void await(int poll, int fd, int how, uint32_t events)
{
	struct epoll_event watch = {.events = events, .data.fd = fd};

	BENCH_REQUIRE(epoll_ctl(poll, how, fd, &watch) == 0);
}

/* Sends as much as the socket takes; the rest when there is room. */
static void push(int poll, int fd)
{
	bool began = sent[fd] == 0;
	ssize_t n = send(fd, request + sent[fd], request_bytes - sent[fd], MSG_NOSIGNAL | MSG_DONTWAIT);

	BENCH_REQUIRE(n > 0 || errno == EAGAIN);
	sent[fd] += n > 0 ? (size_t)n : 0;
	if (sent[fd] < request_bytes && began)
		await(poll, fd, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
	else if (sent[fd] == request_bytes && !began)
		await(poll, fd, EPOLL_CTL_MOD, EPOLLIN);
}

static void ask(int poll, int fd)
{
	asked_ns[fd] = bench_now_ns();
	sent[fd] = 0;
	push(poll, fd);
}

/* With a body of this length; 0: a GET. */
static void make_request(const char *path, size_t body)
{
	char length[64] = "";

	if (body > 0)
		snprintf(length, sizeof(length), "Content-Length: %zu\r\n", body);
	request_bytes = (size_t)snprintf(request, sizeof(request),
					 "%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: hammer\r\n%s\r\n",
					 body > 0 ? "POST" : "GET", path, length);
	BENCH_REQUIRE(request_bytes + body <= sizeof(request));
	memset(request + request_bytes, 'w', body);
	request_bytes += body;
}

static void open_one(int poll)
{
	int fd = bench_connect(port, 0);

	BENCH_REQUIRE(fd < 65536);
	await(poll, fd, EPOLL_CTL_ADD, EPOLLIN);
	received[fd] = 0;
	ask(poll, fd);
}

/* Takes what has come; true when a whole reply is there. */
static bool receive(int fd)
{
	static char in[65536];
	ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n == 0)
		errno = ECONNRESET;
	BENCH_REQUIRE(n > 0);
	received[fd] += (size_t)n;
	BENCH_REQUIRE(received[fd] <= reply_bytes);
	if (received[fd] < reply_bytes)
		return false;
	received[fd] = 0;
	return true;
}

static void replied(int poll, int fd)
{
	uint64_t at = (bench_now_ns() - asked_ns[fd]) / 4000;

	times[at < TIMES ? at : TIMES - 1]++;
	if (!fresh) {
		ask(poll, fd);
		return;
	}
	close(fd);
	open_one(poll);
}

/* Replies counted until the clock says so, or there are as many as wanted. */
static uint64_t run(int poll, uint64_t until_ns, uint64_t wanted)
{
	struct epoll_event ready[512];
	uint64_t replies = 0;

	memset(times, 0, sizeof(times));
	while (bench_now_ns() < until_ns && replies < wanted) {
		int count = epoll_wait(poll, ready, 512, 100);

		for (int i = 0; i < count; i++)
			if (sent[ready[i].data.fd] < request_bytes) {
				push(poll, ready[i].data.fd);
			} else if (receive(ready[i].data.fd)) {
				replies++;
				replied(poll, ready[i].data.fd);
			}
	}
	return replies;
}

static double percentile_us(uint64_t replies, double fraction)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < TIMES; i++)
		if ((double)(seen += times[i]) >= fraction * (double)replies)
			return 4.0 * (double)(i + 1);
	return 0;
}

/* The length of a reply, by asking for one. */
static size_t learn(unsigned status)
{
	static char in[65536];
	size_t have = 0;
	bench_answer got;
	int fd = bench_connect(port, 0), whole;

	BENCH_REQUIRE(send(fd, request, request_bytes, MSG_NOSIGNAL) == (ssize_t)request_bytes);
	do {
		ssize_t n = recv(fd, in + have, sizeof(in) - have, 0);
		BENCH_REQUIRE(n > 0);
		have += (size_t)n;
	} while ((whole = bench_answer_read(in, have, &got)) == 0 && have < sizeof(in));
	close(fd);
	if (whole < 0 || got.status != status) {
		fprintf(stderr, "hammer: the first reply is not one of status %u and known length: %.*s\n",
			status, (int)strcspn(in, "\r"), in);
		exit(1);
	}
	return got.bytes;
}

int main(int argc, char **argv)
{
	size_t connections = (size_t)bench_number(argv, "connections", 64);
	double seconds = bench_number(argv, "seconds", 1), warm = bench_number(argv, "warm", 0.2);
	pid_t pid = (pid_t)bench_number(argv, "pid", 0);
	int poll = epoll_create1(EPOLL_CLOEXEC);
	clockid_t server = CLOCK_PROCESS_CPUTIME_ID;
	uint64_t begin_ns, cpu_ns, replies, wanted = (uint64_t)bench_number(argv, "replies", 0);

	port = (unsigned)bench_number(argv, "port", 0);
	fresh = bench_number(argv, "fresh", 0) != 0;
	make_request(bench_text(argv, "path", "/index.html"), (size_t)bench_number(argv, "body", 0));
	bench_raise_nofile();
	BENCH_REQUIRE(poll >= 0 && port != 0 && connections < 60000);
	reply_bytes = (size_t)bench_number(argv, "reply-bytes", 0);
	if (reply_bytes == 0)
		reply_bytes = learn((unsigned)bench_number(argv, "status", 200));
	if (pid != 0)
		BENCH_REQUIRE((errno = clock_getcpuclockid(pid, &server)) == 0);
	for (size_t i = 0; i < connections; i++)
		open_one(poll);
	if (wanted == 0)
		run(poll, bench_now_ns() + (uint64_t)(warm * 1e9), UINT64_MAX);
	begin_ns = bench_now_ns();
	cpu_ns = bench_clock_ns(server);
	replies = wanted == 0 ? run(poll, begin_ns + (uint64_t)(seconds * 1e9), UINT64_MAX)
			      : run(poll, UINT64_MAX, wanted);
	cpu_ns = bench_clock_ns(server) - cpu_ns;
	begin_ns = bench_now_ns() - begin_ns;
	printf("replies %llu\nseconds %.6f\nserver_cpu_seconds %.6f\nreply_bytes %zu\n",
	       (unsigned long long)replies, (double)begin_ns / 1e9, (double)cpu_ns / 1e9, reply_bytes);
	printf("replies_per_s %.1f\np50_us %.0f\np99_us %.0f\n", (double)replies * 1e9 / (double)begin_ns,
	       percentile_us(replies, .5), percentile_us(replies, .99));
	if (pid != 0)
		printf("replies_per_cpu_s %.1f\n", (double)replies * 1e9 / (double)cpu_ns);
	return 0;
}
