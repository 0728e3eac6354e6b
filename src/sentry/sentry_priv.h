/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_SENTRY_PRIV_H
#define WEIR_SENTRY_SENTRY_PRIV_H

/* What the files of a sentry share: sentry.c, sentry_servers.c. */

#include "sentry/resolve.h"
#include "sentry/sentry.h"

struct weir_sentry {
	weir_domain *domain;
	weir_stage *stage; /* the world's */
	weir_fleet fleet;
	weir_proxy *proxy;
	weir_health *health; /* NULL: none */
	weir_nuclei *nuclei; /* NULL: neither nuclei nor reports in answers */
	bool has_nuclei;     /* each backend has one */
	/* under the fleet's lock */
	weir_resolver *resolver; /* NULL: nothing to resolve */
	bool started;
	uint64_t resolve_ns;
	weir_post start_post, stop_post;
	pthread_mutex_t targets;  /* for who wants which server, and for a change of `resting` of the fleet */
	_Atomic uint32_t stopped; /* of health and nuclei: 0: not yet, 1: asked for, 2: done */
};

/* Starts threads that resolve names, of backends and of nuclei, once there is a name. */
int weir_sentry_resolve(weir_sentry *sentry);
/* The targets of a service, found anew, are its servers now. arg: the sentry. */
void weir_sentry_renew_targets(weir_origin *service, void *arg);

#endif
