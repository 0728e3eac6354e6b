/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_RESOLVE_H
#define WEIR_SENTRY_RESOLVE_H

/*
 * A thread that regularly resolves the names of a fleet's backends again, since the system's resolver blocks
 * and a reactor must not. A fleet with only numeric addresses needs none.
 *
 * Threads: made and freed by one thread. Freeing waits for a resolution in progress.
 */

#include "sentry/balance.h"

typedef struct weir_resolver weir_resolver;

/* The addresses of a service were found anew. On the resolver's thread. */
typedef void weir_renew_targets(weir_origin *service, void *arg);

/*
 * every_ns 0: 30 s. renew may be NULL in a fleet without services. *ret_resolver is NULL if there is nothing to resolve.
 * The caller holds the fleet's lock.
 */
int weir_resolver_new_locked(weir_fleet *fleet, uint64_t every_ns, weir_renew_targets *renew, void *arg,
			     weir_resolver **ret_resolver);
void weir_resolver_free(weir_resolver *resolver);

#endif
