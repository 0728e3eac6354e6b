/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STRESS_CLIENTS_H
#define TESTS_STRESS_CLIENTS_H

/* Clients of a site under stress: each has a thread and a seed, and does its rounds. */

#include "support/on_http.h"

#define CLIENTS 6

typedef struct client {
	pthread_t thread;
	site *site;
	uint64_t seed;
	_Atomic unsigned answered, left;
	bool failed;
} client;

static inline uint64_t next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *seed >> 33;
}

static inline int connect_to(const site *s)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = {.tv_sec = 60};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&s->address, sizeof(struct sockaddr_in)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* How many bytes came, up to so many, or the end. *ret_whole: whether the end was an orderly one. */
static inline size_t read_up_to(int fd, size_t most, bool *ret_whole)
{
	char waste[16384];
	size_t total = 0;
	*ret_whole = false;
	while (total < most) {
		ssize_t got = recv(fd, waste, sizeof(waste), 0);
		*ret_whole = got == 0;
		if (got > 0)
			total += (size_t)got;
		else if (got == 0 || errno != EINTR)
			break;
	}
	return total;
}

static inline void leave(int fd, bool reset)
{
	struct linger now = {.l_onoff = 1};
	if (reset)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

static inline void clients_start(site *s, client clients[static CLIENTS], void *(*run)(void *client))
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (client){.site = s, .seed = check_env("WEIR_SEED", 1) * 1000 + i};
		assert_int_equal(pthread_create(&clients[i].thread, NULL, run, &clients[i]), 0);
	}
}

/* Each has done so many rounds, and none has failed. */
static inline void clients_join(client clients[static CLIENTS], unsigned rounds)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_false(clients[i].failed);
		assert_int_equal(clients[i].answered + clients[i].left, rounds);
	}
}

#endif
