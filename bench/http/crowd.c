/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open-loop crowd: requests come by a Poisson process at a given rate, whether or not earlier ones are answered, each on a connection that is
 * free or, if none is, on a new one. Times are taken from when a request was due, so that a stall of this program counts against nobody else
 * unseen: `behind_ms` says how late it was at worst.
 *
 *	crowd --port P --rate R [--seconds S] [--warm S] [--within MS] [--patience S] [--connections N] [--path /] [--seed N] [--fresh 1]
 *
 * Counted are the requests that were due after the warm-up: answered with 200, within --within of them; turned away (429, 503); failed.
 */
#include <math.h>
#include <sys/epoll.h>

#include "common.h"
#include "http/answer.h"

enum { DESCRIPTORS = 65536, ANSWER_BYTES = 16384, BUCKETS = 4096 };

typedef enum fate { GOOD, REJECTED, FAILED, FATES } fate;

typedef struct connection {
	int fd;
	bool busy, counted;
	uint64_t due_ns;
	struct connection *next_free, *prev_busy, *next_busy; /* busy ones in the order they began */
	size_t length;
	char bytes[ANSWER_BYTES];
} connection;

/* Times by powers of 1.01 from a microsecond on: a percentile to 1 %. */
typedef struct times {
	uint64_t count, bucket[BUCKETS];
} times;

static struct {
	struct sockaddr_in to;
	char request[1024];
	size_t request_length;
	uint64_t patience_ns, within_ns, warm_until_ns, due_until_ns;
	size_t most;
	bool fresh;
} set;

static connection *by_fd[DESCRIPTORS], *free_list, *oldest, *newest;
static size_t open_count;
static int poll_fd;
static times taken[FATES];
static uint64_t offered, in_time, timed_out, unsent;

static void count_time(times *t, uint64_t ns)
{
	double us = (double)ns / 1e3;
	long at = us < 1 ? 0 : lround(log(us) / log(1.01));

	t->bucket[at < BUCKETS ? at : BUCKETS - 1]++;
	t->count++;
}

static double percentile_ms(const times *t, double fraction)
{
	uint64_t seen = 0, wanted = (uint64_t)ceil(fraction * (double)t->count);

	for (size_t i = 0; i < BUCKETS && t->count > 0; i++)
		if ((seen += t->bucket[i]) >= wanted)
			return pow(1.01, (double)i) / 1e3;
	return 0;
}

static void unlink_busy(connection *c)
{
	*(c->prev_busy != NULL ? &c->prev_busy->next_busy : &oldest) = c->next_busy;
	*(c->next_busy != NULL ? &c->next_busy->prev_busy : &newest) = c->prev_busy;
	c->busy = false;
}

static void settle(connection *c, fate how, uint64_t now_ns)
{
	if (c->counted) {
		count_time(&taken[how], now_ns - c->due_ns);
		in_time += how == GOOD && now_ns - c->due_ns <= set.within_ns;
	}
	unlink_busy(c);
}

static void drop(connection *c)
{
	by_fd[c->fd] = NULL;
	close(c->fd);
	open_count--;
	free(c);
}

static connection *connect_new(void)
{
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct linger reset = {1, 0};
	connection *c;

	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	BENCH_REQUIRE(fd < DESCRIPTORS && (c = calloc(1, sizeof(*c))) != NULL);
	c->fd = fd;
	if (connect(fd, (struct sockaddr *)&set.to, sizeof(set.to)) != 0 && errno != EINPROGRESS) {
		close(fd);
		free(c);
		return NULL;
	}
	struct epoll_event watch = {.events = EPOLLIN, .data.ptr = c};
	BENCH_REQUIRE(epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &watch) == 0);
	by_fd[fd] = c;
	open_count++;
	return c;
}

static connection *free_connection(void)
{
	connection *c = free_list;

	if (c != NULL) {
		free_list = c->next_free;
		return c;
	}
	return open_count < set.most ? connect_new() : NULL;
}

static void ask(connection *c)
{
	struct epoll_event both = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};

	if (send(c->fd, set.request, set.request_length, MSG_NOSIGNAL) == (ssize_t)set.request_length)
		return;
	/* Still connecting: goes out when it is. Requests are small, so nothing is ever sent in part. */
	BENCH_REQUIRE(errno == EAGAIN || errno == ENOTCONN || errno == EPIPE || errno == ECONNRESET ||
		      errno == ECONNREFUSED);
	epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &both);
}

static void begin(uint64_t due_ns)
{
	connection *c = free_connection();

	offered += due_ns >= set.warm_until_ns;
	if (c == NULL) {
		unsent += due_ns >= set.warm_until_ns;
		return;
	}
	c->busy = true;
	c->counted = due_ns >= set.warm_until_ns;
	c->due_ns = due_ns;
	c->length = 0;
	c->prev_busy = newest;
	c->next_busy = NULL;
	*(newest != NULL ? &newest->next_busy : &oldest) = c;
	newest = c;
	ask(c);
}

static void fail(connection *c, uint64_t now_ns)
{
	if (c->busy) {
		settle(c, FAILED, now_ns);
	} else {
		for (connection **at = &free_list; *at != NULL; at = &(*at)->next_free)
			if (*at == c) {
				*at = c->next_free;
				break;
			}
	}
	drop(c);
}

static void readable(connection *c)
{
	ssize_t n = recv(c->fd, c->bytes + c->length, sizeof(c->bytes) - c->length, 0);
	uint64_t now_ns = bench_now_ns();
	bench_answer got;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || !c->busy) {
		fail(c, now_ns);
		return;
	}
	c->length += (size_t)n;
	int whole = bench_answer_read(c->bytes, c->length, &got);
	if (whole < 0 || (whole > 0 && c->length > got.bytes)) {
		fail(c, now_ns);
		return;
	}
	if (whole == 0 || c->length < got.bytes)
		return;
	settle(c,
	       got.status == 200                        ? GOOD
	       : got.status == 503 || got.status == 429 ? REJECTED
							: FAILED,
	       now_ns);
	if (got.close || set.fresh) {
		drop(c);
		return;
	}
	c->next_free = free_list;
	free_list = c;
}

static void ready(connection *c, uint32_t events)
{
	if (events & EPOLLOUT) {
		struct epoll_event in = {.events = EPOLLIN, .data.ptr = c};

		epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &in);
		if (send(c->fd, set.request, set.request_length, MSG_NOSIGNAL) < 0) {
			fail(c, bench_now_ns());
			return;
		}
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		readable(c);
}

static void lose_patience(uint64_t now_ns)
{
	for (connection *c = oldest, *next; c != NULL && now_ns - c->due_ns > set.patience_ns; c = next) {
		next = c->next_busy;
		timed_out += c->counted;
		settle(c, FAILED, now_ns);
		drop(c);
	}
}

static void turn(uint64_t until_ns)
{
	struct epoll_event found[256];
	uint64_t now_ns = bench_now_ns();
	struct timespec most = {.tv_nsec = until_ns <= now_ns                 ? 0
					   : until_ns - now_ns > 100000000ull ? 100000000
									      : (long)(until_ns - now_ns)};
	int count = epoll_pwait2(poll_fd, found, 256, &most, NULL);

	for (int i = 0; i < count; i++)
		ready(found[i].data.ptr, found[i].events);
	lose_patience(bench_now_ns());
}

static void setup(char **argv, double *ret_rate)
{
	uint64_t now_ns = bench_now_ns();
	double warm = bench_number(argv, "warm", 1), seconds = bench_number(argv, "seconds", 10);

	*ret_rate = bench_number(argv, "rate", 0);
	set.to = bench_loopback((unsigned)bench_number(argv, "port", 0));
	set.request_length = (size_t)snprintf(set.request, sizeof(set.request),
					      "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n",
					      bench_text(argv, "path", "/"), bench_text(argv, "field", ""),
					      bench_text(argv, "field", NULL) != NULL ? "\r\n" : "");
	set.patience_ns = (uint64_t)(bench_number(argv, "patience", 10) * 1e9);
	set.within_ns = (uint64_t)(bench_number(argv, "within", 200) * 1e6);
	set.most = (size_t)bench_number(argv, "connections", 10000);
	set.fresh = bench_number(argv, "fresh", 0) != 0;
	set.warm_until_ns = now_ns + (uint64_t)(warm * 1e9);
	set.due_until_ns = set.warm_until_ns + (uint64_t)(seconds * 1e9);
	srand48((long)bench_number(argv, "seed", 1));
	bench_raise_nofile();
	BENCH_REQUIRE((poll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0 && *ret_rate > 0 &&
		      set.to.sin_port != 0 && set.request_length < sizeof(set.request));
}

static void report(double seconds, uint64_t behind_ns)
{
	static const char *const names[] = {"good", "rejected", "failed"};

	printf("offered %llu\nunsent %llu\ntimed_out %llu\nin_time %llu\nin_time_per_s %.2f\nbehind_ms "
	       "%.2f\n",
	       (unsigned long long)offered, (unsigned long long)unsent, (unsigned long long)timed_out,
	       (unsigned long long)in_time, (double)in_time / seconds, (double)behind_ns / 1e6);
	for (int i = 0; i < FATES; i++)
		printf("%s %llu\n%s_p50_ms %.3f\n%s_p90_ms %.3f\n%s_p99_ms %.3f\n", names[i],
		       (unsigned long long)taken[i].count, names[i], percentile_ms(&taken[i], .5), names[i],
		       percentile_ms(&taken[i], .9), names[i], percentile_ms(&taken[i], .99));
}

int main(int argc, char **argv)
{
	double rate;
	uint64_t behind_ns = 0;

	setup(argv, &rate);
	for (double due = (double)bench_now_ns(); due < (double)set.due_until_ns;
	     due += -log(1 - drand48()) * 1e9 / rate) {
		uint64_t due_ns = (uint64_t)due, now_ns;

		while ((now_ns = bench_now_ns()) < due_ns)
			turn(due_ns);
		if (now_ns - due_ns > behind_ns && due_ns >= set.warm_until_ns)
			behind_ns = now_ns - due_ns;
		begin(due_ns);
	}
	while (oldest != NULL)
		turn(bench_now_ns() + 10000000);
	report((double)(set.due_until_ns - set.warm_until_ns) / 1e9, behind_ns);
	return 0;
}
