/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service with a known capacity: so many workers, each busy with a request for so long, and one queue before them, first come first served,
 * that nobody bounds. It sleeps rather than computes, so that it does not take the processor from what is measured.
 *
 *	slowd [--port P] [--workers 4] [--ms 10] [--exponential 1] [--seed N] [--bytes 64]
 *	      [--slow 10] [--share .1 --factor 10] [--close 1] [--prefork 1] [--backlog 4096] [--cookie 1]
 *	      [--large BYTES]
 *
 * What a request takes: --ms is the mean. Paths that begin with /slow take --slow times as long as --ms says. With --share, so many of all
 * requests take --factor times as long as the others, whatever their path: nobody can tell them apart before. The mean stays --ms.
 *
 * Connections: --close ends each after its answer. --prefork takes a connection only when a worker is idle, as servers with a process for each
 * connection do, and closes it after its answer; the queue is then the kernel's, of --backlog connections at most.
 *
 * Sessions: with --cookie, answers to paths that begin with /login set a cookie sid, another one each time, and those to /logout delete it.
 *
 * Bodies: a request may have one of a few kilobytes, with Content-Length; it is read and forgotten. Paths that begin with /large are answered
 * with --large bytes, at most 128 KB.
 *
 * While it runs, answered at once: GET /set?ms=20 and GET /set?speed=0.5 change the service times from then on; GET /health; GET /stats tells
 * what is inside now, the most that ever was, and how many were answered; GET /stats?reset the same, and begins to count anew.
 */
#include <math.h>
#include <sys/epoll.h>

#include "common.h"

enum { CONNECTIONS = 65536, REQUEST_BYTES = 8192, LARGEST = 128 << 10 };

typedef enum step { STEP_OTHER, STEP_LOGIN, STEP_LOGOUT, STEP_LARGE } step;

typedef struct job {
	int fd;
	uint32_t
		generation; /* of the descriptor: it may be another connection by the time the work is done */
	float factor;       /* times the usual service time */
	step step;          /* of a session */
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
	bool open;
	char bytes[REQUEST_BYTES];
} connection;

static connection *connections[CONNECTIONS];
static queue waiting;
static job *workers;
static size_t worker_count, busy;
static double service_ms, speed = 1;
static bool exponential;
static double slow_factor, mixed_share, mixed_factor;
static bool closes, prefork, sets_cookies;
static int poll_fd, listener;
static bool listens;
static size_t open_count, most_inside, answered;
static char *reply, *cookie_reply, *large_reply;
static size_t reply_bytes, large_bytes;

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

/* The mean of the mix is 1. */
static double mixed(void)
{
	double others = 1 / (1 + mixed_share * (mixed_factor - 1));

	return drand48() < mixed_share ? others * mixed_factor : others;
}

static uint64_t service_ns(const job *j)
{
	double factor = exponential ? -log(1.0 - drand48()) : mixed_share > 0 ? mixed() : 1.0;

	return (uint64_t)(service_ms * factor * j->factor / speed * 1e6);
}

static void start_waiting(uint64_t now_ns)
{
	for (size_t i = 0; i < worker_count && waiting.count > 0; i++)
		if (workers[i].fd < 0) {
			workers[i] = pop(&waiting);
			workers[i].done_ns = now_ns + service_ns(&workers[i]);
			busy++;
		}
}

static void answer(int fd, const char *bytes, size_t length)
{
	if (send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
		shutdown(fd, SHUT_RDWR);
}

/* Whether new connections are waited for: without a place for them, the kernel keeps them. */
static void listen_if(bool wanted)
{
	struct epoll_event watch = {.events = wanted ? EPOLLIN : 0, .data.fd = listener};

	if (listens != wanted)
		BENCH_REQUIRE(epoll_ctl(poll_fd, EPOLL_CTL_MOD, listener, &watch) == 0);
	listens = wanted;
}

static void drop(int fd)
{
	connections[fd]->length = 0;
	connections[fd]->generation++;
	connections[fd]->open = false;
	close(fd);
	open_count--;
	listen_if(true);
}

static const char status_line[] = "HTTP/1.1 200 OK\r\n";

/* The usual answer, with a field behind its first line. */
static void answer_step(const job *j)
{
	size_t line = sizeof(status_line) - 1;
	int length =
		j->step == STEP_LOGIN
			? sprintf(cookie_reply, "%sSet-Cookie: sid=%08lx%08lx; Path=/; HttpOnly\r\n",
				  status_line, (unsigned long)mrand48() & 0xffffffff,
				  (unsigned long)mrand48() & 0xffffffff)
			: sprintf(cookie_reply, "%sSet-Cookie: sid=; Path=/; Max-Age=0\r\n", status_line);

	memcpy(cookie_reply + length, reply + line, reply_bytes - line);
	answer(j->fd, cookie_reply, (size_t)length + reply_bytes - line);
}

static void finish(const job *j)
{
	answered++;
	if (connections[j->fd] == NULL || connections[j->fd]->generation != j->generation)
		return;
	if (j->step == STEP_LARGE)
		answer(j->fd, large_reply, large_bytes);
	else if (j->step != STEP_OTHER)
		answer_step(j);
	else
		answer(j->fd, reply, reply_bytes);
	if (closes)
		drop(j->fd);
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
		finish(first);
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

static void tell(int fd, bool anew)
{
	char text[256], body[160];
	int length =
		snprintf(body, sizeof(body), "{\"inside\": %zu, \"most_inside\": %zu, \"answered\": %zu}\n",
			 waiting.count + busy, most_inside, answered);
	int all =
		snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body);

	answer(fd, text, (size_t)all);
	if (anew) {
		most_inside = waiting.count + busy;
		answered = 0;
	}
}

/* Whether the path is one of those that are answered at once. */
static bool controlled(int fd, const char *path)
{
	static const char empty[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

	if (strncmp(path, "/stats", 6) == 0) {
		tell(fd, strncmp(path + 6, "?reset", 6) == 0);
		return true;
	}
	if (strncmp(path, "/set?ms=", 8) == 0)
		service_ms = strtod(path + 8, NULL);
	else if (strncmp(path, "/set?speed=", 11) == 0)
		speed = strtod(path + 11, NULL);
	else if (strncmp(path, "/health", 7) != 0)
		return false;
	answer(fd, empty, sizeof(empty) - 1);
	return true;
}

static step step_of(const char *path)
{
	if (large_reply != NULL && strncmp(path, "/large", 6) == 0)
		return STEP_LARGE;
	if (sets_cookies && strncmp(path, "/login", 6) == 0)
		return STEP_LOGIN;
	return sets_cookies && strncmp(path, "/logout", 7) == 0 ? STEP_LOGOUT : STEP_OTHER;
}

/* One whole request at the beginning of the bytes, which end with an empty line: no search leaves them. */
static void take(int fd, connection *c)
{
	const char *path = memchr(c->bytes, ' ', c->length);

	path = path != NULL ? path + 1 : c->bytes;
	if (controlled(fd, path))
		return;
	bool slow = strncmp(path, "/slow", 5) == 0;
	push(&waiting, (job){.fd = fd,
			     .generation = c->generation,
			     .factor = slow ? (float)slow_factor : 1,
			     .step = step_of(path)});
	if (waiting.count + busy > most_inside)
		most_inside = waiting.count + busy;
}

/* The length of the body behind a head; what is longer than the buffer costs the connection. */
static size_t body_bytes(char *head, const char *end)
{
	static const char name[] = "\r\ncontent-length:";
	size_t length = sizeof(name) - 1;

	for (char *at = head; at + length < end; at++)
		if (*at == '\r' && strncasecmp(at, name, length) == 0)
			return strtoul(at + length, NULL, 10);
	return 0;
}

/* The bytes of the whole request at the beginning of the buffer, with its body; 0: it is not all here yet. */
static size_t whole_request(connection *c)
{
	char *end = memmem(c->bytes, c->length, "\r\n\r\n", 4);

	if (end == NULL)
		return 0;
	size_t head = (size_t)(end + 4 - c->bytes), body = body_bytes(c->bytes, end);
	return body <= c->length - head ? head + body : 0;
}

static void readable(int fd)
{
	connection *c = connections[fd];
	size_t used;

	if (!c->open) /* closed after its answer, in this same turn */
		return;
	ssize_t n = recv(fd, c->bytes + c->length, sizeof(c->bytes) - c->length, 0);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(fd);
		return;
	}
	c->length = (uint16_t)(c->length + n);
	while (c->length > 0 && (used = whole_request(c)) > 0) {
		take(fd, c);
		memmove(c->bytes, c->bytes + used, c->length - used);
		c->length = (uint16_t)(c->length - used);
	}
	if (c->length == sizeof(c->bytes))
		drop(fd);
}

static void take_connection(int fd)
{
	struct epoll_event watch = {.events = EPOLLIN, .data.fd = fd};
	int one = 1, room = 2 * LARGEST;

	BENCH_REQUIRE(fd < CONNECTIONS);
	if (connections[fd] == NULL)
		BENCH_REQUIRE((connections[fd] = calloc(1, sizeof(connection))) != NULL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (large_reply != NULL) /* an answer is sent at once, or not at all */
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	BENCH_REQUIRE(epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &watch) == 0);
	connections[fd]->open = true;
	open_count++;
}

static void accept_some(void)
{
	int fd = 0;

	while ((!prefork || open_count < worker_count) &&
	       (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		take_connection(fd);
	if (fd >= 0)
		listen_if(false);
}

static char *make_reply(size_t body, size_t *ret_bytes)
{
	char *text = malloc(256 + body);

	BENCH_REQUIRE(text != NULL);
	*ret_bytes = (size_t)sprintf(text, "%sContent-Type: text/plain\r\nContent-Length: %zu\r\n%s\r\n",
				     status_line, body, closes ? "Connection: close\r\n" : "");
	memset(text + *ret_bytes, 'w', body);
	*ret_bytes += body;
	return text;
}

static void make_replies(size_t body, size_t large)
{
	BENCH_REQUIRE(large <= LARGEST);
	reply = make_reply(body, &reply_bytes);
	BENCH_REQUIRE((cookie_reply = malloc(512 + body)) != NULL);
	if (large > 0)
		large_reply = make_reply(large, &large_bytes);
}

static void read_options(char **argv)
{
	worker_count = (size_t)bench_number(argv, "workers", 4);
	service_ms = bench_number(argv, "ms", 10);
	exponential = bench_number(argv, "exponential", 0) != 0;
	slow_factor = bench_number(argv, "slow", 10);
	mixed_share = bench_number(argv, "share", 0);
	mixed_factor = bench_number(argv, "factor", 10);
	prefork = bench_number(argv, "prefork", 0) != 0;
	sets_cookies = bench_number(argv, "cookie", 0) != 0;
	closes = prefork || bench_number(argv, "close", 0) != 0;
	srand48((long)bench_number(argv, "seed", 1));
	make_replies((size_t)bench_number(argv, "bytes", 64), (size_t)bench_number(argv, "large", 0));
	BENCH_REQUIRE(worker_count > 0 && (workers = calloc(worker_count, sizeof(*workers))) != NULL);
	for (size_t i = 0; i < worker_count; i++)
		workers[i].fd = -1;
}

static void start_listening(char **argv)
{
	unsigned port = (unsigned)bench_number(argv, "port", 0);
	struct epoll_event watch = {.events = EPOLLIN};

	listener = bench_listen_on(&port);
	BENCH_REQUIRE(listen(listener, (int)bench_number(argv, "backlog", 4096)) == 0);
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch.data.fd = listener;
	BENCH_REQUIRE(poll_fd >= 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &watch) == 0);
	listens = true;
	printf("port %u\n", port);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct epoll_event ready[256];

	(void)argc;
	read_options(argv);
	bench_raise_nofile();
	start_listening(argv);
	for (;;) {
		struct timespec most = time_to_next(bench_now_ns());
		int count = epoll_pwait2(poll_fd, ready, 256, &most, NULL);

		finish_until(bench_now_ns());
		for (int i = 0; i < count; i++)
			if (ready[i].data.fd == listener)
				accept_some();
			else
				readable(ready[i].data.fd);
		start_waiting(bench_now_ns());
	}
}
