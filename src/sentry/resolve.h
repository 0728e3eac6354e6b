/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_RESOLVE_H
#define WEIR_SENTRY_RESOLVE_H

/*
 * A thread that resolves the names of a fleet's backends again, now and then. The system's resolver blocks, and a reactor must not. Fleets whose backends are all given by numeric
 * addresses need none.
 *
 * Threads: made and freed by one thread. Freeing waits for a resolution that is under way.
 */

#include "sentry/balance.h"

typedef struct weir_resolver weir_resolver;

/* every_ns 0: 30 s. NULL in *ret_resolver: there is nothing to resolve. */
int weir_resolver_new(weir_fleet *fleet, uint64_t every_ns, weir_resolver **ret_resolver);
void weir_resolver_free(weir_resolver *resolver);

#endif
