/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_COMMON_H
#define WEIR_BENCH_COMMON_H

/*
 * What every benchmark program and peer needs: clocks, pinning, arguments, and a way to give up. Results go
 * to standard output as lines of "key value", which bench/run reads.
 */

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define BENCH_NS_PER_S 1000000000ull

/* A benchmark that cannot measure says why and ends: half a number is worse than none. */
#define BENCH_REQUIRE(condition)                                                                             \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
			exit(1);                                                                             \
		}                                                                                            \
	} while (0)

static inline uint64_t bench_clock_ns(clockid_t clock)
{
	struct timespec at;

	BENCH_REQUIRE(clock_gettime(clock, &at) == 0);
	return (uint64_t)at.tv_sec * BENCH_NS_PER_S + (uint64_t)at.tv_nsec;
}

static inline uint64_t bench_now_ns(void)
{
	return bench_clock_ns(CLOCK_MONOTONIC);
}

static inline void bench_sleep(double seconds)
{
	struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* Pins the calling thread, and the threads it starts from now on. A negative cpu leaves it alone. */
static inline void bench_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	BENCH_REQUIRE(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static inline void bench_raise_nofile(void)
{
	struct rlimit limit;

	BENCH_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	BENCH_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* The text after "--name" on the command line, or fallback. */
static inline const char *bench_text(char **argv, const char *name, const char *fallback)
{
	for (size_t i = 1; argv[i] != NULL && argv[i + 1] != NULL; i++)
		if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
			return argv[i + 1];
	return fallback;
}

static inline double bench_number(char **argv, const char *name, double fallback)
{
	const char *text = bench_text(argv, name, NULL);

	return text == NULL ? fallback : strtod(text, NULL);
}

static inline struct sockaddr_in bench_loopback(unsigned port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/*
 * A blocking connection to a server on this machine. It ends with a reset, so that thousands of them leave
 * no TIME_WAIT behind that would slow the next round. Reno, which every kernel has, because a machine's default may
 * pace (bbr), and then it is the pacing timer that is measured.
 */
static inline int bench_connect(unsigned port, int send_buffer)
{
	struct sockaddr_in to = bench_loopback(port);
	struct linger reset = {1, 0};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	BENCH_REQUIRE(fd >= 0);
	BENCH_REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) == 0);
	BENCH_REQUIRE(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	BENCH_REQUIRE(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
	if (send_buffer > 0)
		BENCH_REQUIRE(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer)) == 0);
	BENCH_REQUIRE(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
	return fd;
}

/* A non-blocking listener on *port; 0: on one the kernel chooses, which is told there. */
static inline int bench_listen_on(unsigned *port)
{
	struct sockaddr_in at = bench_loopback(*port);
	socklen_t length = sizeof(at);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	BENCH_REQUIRE(fd >= 0);
	BENCH_REQUIRE(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	BENCH_REQUIRE(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	BENCH_REQUIRE(listen(fd, 4096) == 0);
	BENCH_REQUIRE(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static inline int bench_listen(unsigned *ret_port)
{
	*ret_port = 0;
	return bench_listen_on(ret_port);
}

#endif
