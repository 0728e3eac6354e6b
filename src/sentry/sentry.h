/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_SENTRY_H
#define WEIR_SENTRY_SENTRY_H

/*
 * A sentry: a stage in front of backends. Routes lead requests to weir_sentry_stage; the stage's law admits or sheds them; its handler is the proxy.
 *
 *	weir_sentry_new → routes with weir_sentry_stage → weir_world_start → weir_sentry_start → ... → weir_world_stop → weir_sentry_free
 *
 * Bounds. Whoever must wait for a place waits in the stage's queue, which is bounded by `capacity`; `concurrency` bounds the requests that backends work on at a time, up to the head of their answer, and so
 * does `bound`, over all the sentries that have it. A backend's own bound (weir_origin_options) counts bodies too, until their end. While every backend is at its bound, requests are turned away (503, "concurrency").
 *
 * The law is adaptive-remote with the given target, unless another is named; the same stage functions as for any other stage (weir_stage_admission, _mode, _report, _save ...) work on it.
 *
 * Backends may be added and retired while the world runs: a retired one gets no more requests, and those under way go on to their end. It stays in memory (and in the stats) until the sentry is freed; of
 * all that ever were, there are at most WEIR_FLEET_MOST.
 *
 * Threads: new, start and free by one thread, not a reactor; add, retire and the stats by any that is no reactor.
 */

#include <weir/stage.h>

#include "sentry/health.h"
#include "sentry/proxy.h"

typedef struct weir_sentry weir_sentry;

typedef struct weir_sentry_options {
	const char *name; /* of the stage; NULL: "sentry" */
	const weir_origin_options *backends;
	size_t backend_count;

	weir_upstream_limits limits; /* of each thread's connections */
	weir_retry_options retry;
	weir_forwarded forwarded;
	bool no_quality; /* as in proxy.h */
	const char *via;
	weir_health_options health; /* path NULL: none */
	weir_errors *
		errors; /* is told of calls that fail, ejections and returns; outlives the sentry; NULL: nobody is */
	uint64_t resolve_ns; /* how often names are resolved again; 0: 30 s */

	/* the stage */
	uint32_t capacity; /* requests that wait; 0: 1024 */
	uint32_t
		concurrency; /* that backends work on at a time; 0: the sum of their own bounds; none if one has none */
	weir_bound
		*bound; /* of all backends together, exactly; freed after the world has stopped; NULL: none */
	weir_order order;
	bool heed_downstream;
	/* what admits: a target for adaptive-remote; or a law and its parameters; neither: only the bounds */
	double percentile;  /* 0: .9 */
	uint64_t target_ns; /* 0: see above */
	const weir_admission_law *law;
	const void *law_params;
} weir_sentry_options;

typedef enum weir_sentry_state {
	WEIR_BACKEND_UP,
	WEIR_BACKEND_SLOW, /* comes back: gets a part of its share */
	WEIR_BACKEND_EJECTED,
	WEIR_BACKEND_DOWN, /* by its checks */
	WEIR_BACKEND_RETIRED,
} weir_sentry_state;

/* "up", "slow-start", "ejected", "down", "retired". */
const char *weir_sentry_state_name(weir_sentry_state state);

typedef struct weir_sentry_backend_stats {
	const char *name; /* lives as long as the sentry */
	weir_sentry_state state;
	double weight;
	uint32_t in_flight, open, idle;
	uint64_t latency_ns; /* to the first byte, lately */
	uint64_t calls, failures, connects, reused;
	uint64_t ejections, checks, checks_failed;
} weir_sentry_backend_stats;

/* Resolves names, which may block. -EINVAL, -ENOENT ... with weir_error. */
int weir_sentry_new(weir_domain *domain, const weir_sentry_options *options, weir_sentry **ret_sentry);
/* Starts the health checks and the resolver, of a started world. */
int weir_sentry_start(weir_sentry *sentry);
/*
 * Ends it while the world runs: its stage is gone, and so is every request that came through it. True: done. False: not
 * yet; call again.
 */
bool weir_sentry_end(weir_sentry *sentry);
/* After it has ended, or the world has stopped, or before that has started. Sets it to NULL. */
void weir_sentry_free(weir_sentry **sentry);

weir_stage *weir_sentry_stage(const weir_sentry *sentry);
/* -EEXIST: there is one of that URL's name. One that was retired is taken back as it was. */
int weir_sentry_add(weir_sentry *sentry, const weir_origin_options *backend);
/* name: "host:port" as in its URL. -ENOENT. */
int weir_sentry_retire(weir_sentry *sentry, const char *name);
/*
 * No route leads here any more, or one does again: while it rests, nothing is checked or resolved, and its backends are told as retired. Requests that are still under way, or
 * come by an old table, are served as ever: so the backends themselves stay.
 */
void weir_sentry_rest(weir_sentry *sentry, bool resting);

uint32_t weir_sentry_backends(const weir_sentry *sentry);
void weir_sentry_read_backend(const weir_sentry *sentry, uint32_t index, uint64_t now_ns,
			      weir_sentry_backend_stats *ret_stats);
void weir_sentry_read_stats(const weir_sentry *sentry, weir_proxy_stats *ret_stats, uint64_t *ret_panics);

#endif
