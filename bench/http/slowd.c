/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service with a known capacity: so many workers, each busy with a request for so long, and one queue before them that nobody bounds. It
 * sleeps rather than computes, so that it does not take the processor from what is measured. GET /set?ms=20 changes the service time from
 * then on and is answered at once; so is GET /health.
 *
 *	slowd [--port P] [--workers 4] [--ms 10] [--exponential 1] [--seed N] [--bytes 64]
 */
#include <math.h>
#include <sys/epoll.h>

#include "common.h"

enum { CONNECTIONS = 65536, REQUEST_BYTES = 8192 };

typedef struct job {
	int fd;
	uint32_t
		generation; /* of the descriptor: it may be another connection by the time the work is done */
	uint64_t done_ns;
} job;

/* A ring that grows: the queue that a service without admission control has. */
typedef struct queue {
	job *jobs;
	size_t first, count, size;
} queue;

typedef struct connection {
	uint32_t generation;
	uint16_t length;
	char bytes[REQUEST_BYTES];
} connection;

static connection *connections[CONNECTIONS];
static queue waiting;
static job *workers;
static size_t worker_count, busy;
static double service_ms;
static bool exponential;
static char *reply;
static size_t reply_bytes;

static void push(queue *q, job j)
{
	if (q->count == q->size) {
		size_t size = q->size != 0 ? 2 * q->size : 1024;
		job *jobs = malloc(size * sizeof(*jobs));

		BENCH_REQUIRE(jobs != NULL);
		for (size_t i = 0; i < q->count; i++)
			jobs[i] = q->jobs[(q->first + i) % q->size];
		free(q->jobs);
		*q = (queue){jobs, 0, q->count, size};
	}
	q->jobs[(q->first + q->count++) % q->size] = j;
}

static job pop(queue *q)
{
	job j = q->jobs[q->first];

	q->first = (q->first + 1) % q->size;
	q->count--;
	return j;
}

static uint64_t service_ns(void)
{
	double factor = exponential ? -log(1.0 - drand48()) : 1.0;

	return (uint64_t)(service_ms * factor * 1e6);
}

static void start_waiting(uint64_t now_ns)
{
	for (size_t i = 0; i < worker_count && waiting.count > 0; i++)
		if (workers[i].fd < 0) {
			workers[i] = pop(&waiting);
			workers[i].done_ns = now_ns + service_ns();
			busy++;
		}
}

static void answer(int fd, const char *bytes, size_t length)
{
	if (send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
		shutdown(fd, SHUT_RDWR);
}

/* A worker takes the next request at the time its last one ended, not at the time this loop got round to it. */
static void finish_until(uint64_t now_ns)
{
	for (;;) {
		job *first = NULL;

		for (size_t i = 0; i < worker_count; i++)
			if (workers[i].fd >= 0 && (first == NULL || workers[i].done_ns < first->done_ns))
				first = &workers[i];
		if (first == NULL || first->done_ns > now_ns)
			return;
		uint64_t at_ns = first->done_ns;
		if (connections[first->fd] != NULL && connections[first->fd]->generation == first->generation)
			answer(first->fd, reply, reply_bytes);
		first->fd = -1;
		busy--;
		start_waiting(at_ns);
	}
}

static struct timespec time_to_next(uint64_t now_ns)
{
	uint64_t next_ns = now_ns + BENCH_NS_PER_S / 2;

	for (size_t i = 0; i < worker_count; i++)
		if (workers[i].fd >= 0 && workers[i].done_ns < next_ns)
			next_ns = workers[i].done_ns;
	return (struct timespec){.tv_nsec = next_ns <= now_ns ? 0 : (long)(next_ns - now_ns)};
}

static void drop(int fd)
{
	connections[fd]->length = 0;
	connections[fd]->generation++;
	close(fd);
}

/* One whole request at the beginning of the bytes. */
static void take(int fd, connection *c)
{
	static const char empty[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	const char *set = memmem(c->bytes, c->length, "/set?ms=", 8);

	if (set != NULL && set == c->bytes + 4) {
		service_ms = strtod(set + 8, NULL);
		answer(fd, empty, sizeof(empty) - 1);
	} else if (memcmp(c->bytes, "GET /health", 11) == 0) {
		answer(fd, empty, sizeof(empty) - 1);
	} else {
		push(&waiting, (job){fd, c->generation, 0});
	}
}

static void readable(int fd)
{
	connection *c = connections[fd];
	ssize_t n = recv(fd, c->bytes + c->length, sizeof(c->bytes) - c->length, 0);
	char *end;

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(fd);
		return;
	}
	c->length = (uint16_t)(c->length + n);
	while (c->length > 0 && (end = memmem(c->bytes, c->length, "\r\n\r\n", 4)) != NULL) {
		take(fd, c);
		size_t used = (size_t)(end + 4 - c->bytes);
		memmove(c->bytes, c->bytes + used, c->length - used);
		c->length = (uint16_t)(c->length - used);
	}
	if (c->length == sizeof(c->bytes))
		drop(fd);
}

static void accept_all(int listener, int poll)
{
	int fd, one = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct epoll_event watch = {.events = EPOLLIN, .data.fd = fd};

		BENCH_REQUIRE(fd < CONNECTIONS);
		if (connections[fd] == NULL)
			BENCH_REQUIRE((connections[fd] = calloc(1, sizeof(connection))) != NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &watch) == 0);
	}
}

static void make_reply(size_t body)
{
	BENCH_REQUIRE((reply = malloc(256 + body)) != NULL);
	reply_bytes = (size_t)sprintf(
		reply, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", body);
	memset(reply + reply_bytes, 'w', body);
	reply_bytes += body;
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	struct epoll_event ready[256];
	int listener = bench_listen_on(&port), poll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event watch = {.events = EPOLLIN, .data.fd = listener};

	worker_count = (size_t)bench_number(argv, "workers", 4);
	service_ms = bench_number(argv, "ms", 10);
	exponential = bench_number(argv, "exponential", 0) != 0;
	srand48((long)bench_number(argv, "seed", 1));
	make_reply((size_t)bench_number(argv, "bytes", 64));
	BENCH_REQUIRE(worker_count > 0 && (workers = calloc(worker_count, sizeof(*workers))) != NULL);
	for (size_t i = 0; i < worker_count; i++)
		workers[i].fd = -1;
	bench_raise_nofile();
	BENCH_REQUIRE(epoll_ctl(poll, EPOLL_CTL_ADD, listener, &watch) == 0);
	printf("port %u\n", port);
	fflush(stdout);
	for (;;) {
		struct timespec most = time_to_next(bench_now_ns());
		int count = epoll_pwait2(poll, ready, 256, &most, NULL);

		finish_until(bench_now_ns());
		for (int i = 0; i < count; i++)
			if (ready[i].data.fd == listener)
				accept_all(listener, poll);
			else
				readable(ready[i].data.fd);
		start_waiting(bench_now_ns());
	}
}
