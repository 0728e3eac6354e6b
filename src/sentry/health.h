/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_HEALTH_H
#define WEIR_SENTRY_HEALTH_H

/*
 * Active health checks: at every interval, a GET of the path to each backend of the fleet, on a connection of
 * its own. An answer is good if its status is from 200 to 399 and its head comes within timeout_ns; anything
 * else is bad. What follows depends on the backend's rise and fall (origin.h). If a check is still in
 * progress at its next turn, it is left alone.
 *
 * Checks take no place in a backend and do not count as calls: they are not load that a law should see, and a
 * full backend is checked as well.
 *
 * Threads: the loop it was started on. It ends with the loop.
 */

#include "sentry/upstream.h"

typedef struct weir_health_options {
	const char *path;     /* "/healthz"; NULL: no checks. Copied */
	uint64_t interval_ns; /* 0: 2 s */
	uint64_t timeout_ns;  /* 0: 1 s; at most the interval */
	/* Called when a backend goes down or comes up again, on the loop's thread. May be NULL. */
	void (*changed)(const weir_origin *backend, bool up, void *arg);
	void *arg;
} weir_health_options;

typedef struct weir_health weir_health;

/* -EINVAL: no path, or not a valid one. */
int weir_health_new(const weir_health_options *options, weir_health **ret_health);
/* The first round starts at once. */
int weir_health_start(weir_health *health, weir_upstream *upstream);
/* Forgets a backend that leaves the fleet, by its slot: a check in progress is aborted. */
void weir_health_forget(weir_health *health, uint32_t index);
/* No more checks; those in progress are aborted. */
void weir_health_stop(weir_health *health);
/* Only if it was never started, was stopped, or its loop has ended. */
void weir_health_free(weir_health *health);

#endif
