/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_HEALTH_H
#define WEIR_SENTRY_HEALTH_H

/*
 * Active health checks: at every interval a GET of the path to each backend of the fleet, over a connection of its own. Good is an answer with a status from 200 to 399 whose head
 * comes within timeout_ns; anything else is bad. A backend's rise and fall decide what follows from it (origin.h). A check that is still under way when its turn comes again is
 * left alone.
 *
 * Checks take no place in a backend and do not count as calls: they are no load that a law should see, and a full backend is checked too.
 *
 * Threads: all on the loop it was started on. It ends by itself with the loop.
 */

#include "sentry/upstream.h"

typedef struct weir_health_options {
	const char *path;     /* "/healthz"; NULL: no checks. Copied */
	uint64_t interval_ns; /* 0: 2 s */
	uint64_t timeout_ns;  /* 0: 1 s; at most the interval */
	/* Told when a backend is down or up again; on the loop's thread. NULL: nobody. */
	void (*changed)(const weir_origin *backend, bool up, void *arg);
	void *arg;
} weir_health_options;

typedef struct weir_health weir_health;

/* -EINVAL: no path, or one that is none. */
int weir_health_new(const weir_health_options *options, weir_health **ret_health);
/* The first round is now. */
int weir_health_start(weir_health *health, weir_upstream *upstream);
/* No more checks; those under way are cut. */
void weir_health_stop(weir_health *health);
/* One that was never started, was stopped, or whose loop has ended. */
void weir_health_free(weir_health *health);

#endif
