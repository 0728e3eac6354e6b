/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_SENTRY_H
#define WEIR_SENTRY_SENTRY_H

/*
 * A sentry: a stage in front of backends. Routes lead requests to weir_sentry_stage; the stage's law admits
 * or sheds them; its handler is the proxy.
 *
 *	weir_sentry_new → routes with weir_sentry_stage → weir_world_start → weir_sentry_start
 *	    → ... → weir_world_stop → weir_sentry_free
 *
 * Bounds. Requests wait in the stage's queue, which `capacity` bounds. `concurrency` bounds the requests that
 * backends work on at once, up to the head of their answer; `bound` does the same over all sentries that
 * share it. A backend's own bound (weir_origin_options) also counts bodies, until their end. While every
 * backend is full, requests are rejected (503, "concurrency").
 *
 * The law is adaptive-remote with the given target, unless another is named. The functions for any stage
 * (weir_stage_admission, _mode, _report, _save ...) work on it.
 *
 * Backends may be added and retired while the world runs. A retired one gets no new requests, and finishes
 * those in progress. Then it is freed. There are at most WEIR_FLEET_MOST, including those that still have
 * requests to finish.
 *
 * Threads: new, start and free by one thread, not a reactor; add, retire and the stats by any that is not a
 * reactor.
 */

#include <weir/stage.h>

#include "sentry/health.h"
#include "sentry/nuclei.h"
#include "sentry/proxy.h"

typedef struct weir_sentry weir_sentry;

typedef struct weir_sentry_options {
	const char *name; /* of the stage; NULL: "sentry" */
	const weir_origin_options *backends;
	size_t backend_count;

	weir_upstream_limits limits; /* of each thread's connections */
	weir_retry_options retry;
	weir_forwarded forwarded;
	const char *const *request_edits, *const *answer_edits; /* edits.h; NULL: none */
	bool request_id;                                        /* see proxy.h */
	bool no_quality;                                        /* see proxy.h */
	bool pass_on;                                           /* see proxy.h */
	const char *sticky;                                     /* sticky.h; NULL: none */
	const char *via;
	weir_health_options health; /* path NULL: none */
	weir_reports reports;       /* in answers */
	uint64_t nucleus_every_ns;  /* how often nuclei are asked and the law is told; 0: 500 ms */
	const char *nucleus_token;  /* a file with the token for the nuclei; NULL: none */
	/* hears of failed calls, ejections and returns; outlives the sentry; may be NULL */
	weir_errors *errors;
	uint64_t resolve_ns; /* how often names are resolved again; 0: 30 s */

	/* the stage */
	uint32_t capacity; /* requests that wait; 0: 1024 */
	/* that backends work on at once; 0: the sum of their own bounds, or none if one has none */
	uint32_t concurrency;
	weir_bound *bound; /* exact, over all backends; freed after the world has stopped; NULL: none */
	weir_order order;
	bool heed_downstream;
	/* admission: a target for adaptive-remote; or a law and its parameters; neither: only the bounds */
	double percentile;  /* 0: .9 */
	uint64_t target_ns; /* 0: see above */
	const weir_admission_law *law;
	const void *law_params;
} weir_sentry_options;

typedef enum weir_sentry_state {
	WEIR_BACKEND_UP,
	WEIR_BACKEND_SLOW,    /* coming back: gets a part of its share */
	WEIR_BACKEND_FAILING, /* would be ejected if there were another */
	WEIR_BACKEND_EJECTED,
	WEIR_BACKEND_DOWN, /* by its checks */
	WEIR_BACKEND_RETIRED,
} weir_sentry_state;

/* "up", "slow-start", "failing", "ejected", "down", "retired". */
const char *weir_sentry_state_name(weir_sentry_state state);

typedef struct weir_sentry_backend_stats {
	char name[WEIR_ORIGIN_NAME];
	bool service;    /* it gets no requests: its targets do */
	bool configured; /* by itself; else it is the target of a service */
	weir_sentry_state state;
	double weight;
	uint32_t in_flight, open, idle;
	uint64_t latency_ns; /* to the first byte, a moving average */
	uint64_t calls, failures, connects, reused;
	uint64_t answers[4]; /* 2xx to 5xx */
	uint64_t ejections, checks, checks_failed;
	/* what it tells about itself; negative: unknown, or too long ago */
	double queue_s, in_service, busy;
	uint64_t reports, reports_refused, reports_missed;
} weir_sentry_backend_stats;

/* Resolves names, which may block. -EINVAL, -ENOENT ... with weir_error. */
int weir_sentry_new(weir_domain *domain, const weir_sentry_options *options, weir_sentry **ret_sentry);
/* Starts the health checks and the resolver; the world must run. */
int weir_sentry_start(weir_sentry *sentry);
/*
 * Ends it while the world runs: its stage is gone, and so is every request that came through it. True: done. False: not
 * yet; call again.
 */
bool weir_sentry_end(weir_sentry *sentry);
/* After it has ended, or the world has stopped, or before that has started. Sets it to NULL. */
void weir_sentry_free(weir_sentry **sentry);

weir_stage *weir_sentry_stage(const weir_sentry *sentry);
/* See weir_proxy_note_shed. */
void weir_sentry_note_shed(const weir_sentry *sentry, weir_request *request);
/* -EEXIST: there is one with the same host and port; -ENOSPC: there are too many. */
int weir_sentry_add(weir_sentry *sentry, const weir_origin_options *backend);
/* Reads the token for the nuclei again. By the thread that adds. */
void weir_sentry_renew_token(weir_sentry *sentry);
/* name: "host:port" as in its URL, or that of a service. -ENOENT: there is none, or it is retired already. */
int weir_sentry_retire(weir_sentry *sentry, const char *name);
/*
 * Called when no route leads here any more, or one does again. While it rests, nothing is checked or
 * resolved, and its backends are shown as retired. Requests in progress, or from an old table, are served as
 * before: the backends stay.
 */
void weir_sentry_rest(weir_sentry *sentry, bool resting);

/* Indices of backends are below this. */
uint32_t weir_sentry_backends(const weir_sentry *sentry);
/* False: there is none with that index, now. */
bool weir_sentry_read_backend(weir_sentry *sentry, uint32_t index, uint64_t now_ns,
			      weir_sentry_backend_stats *ret_stats);
void weir_sentry_read_stats(const weir_sentry *sentry, weir_proxy_stats *ret_stats, uint64_t *ret_panics);

#endif
