/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_PLAN_H
#define WEIR_LOAD_PLAN_H

/*
 * What a run does: who arrives when, requests what from where, over how many connections, with how much
 * patience. Read-only while a run uses it.
 */

#include "load/arrive.h"
#include "load/place.h"
#include "load/work.h"

#define LOAD_THREADS_MAX     256u
#define LOAD_CONNECTIONS_MAX 1000000u
/* Of a thread, in progress or waiting; further arrivals are counted as unsent. */
#define LOAD_SESSIONS_MAX 400000u
#define LOAD_SOURCES_MAX  256u
#define LOAD_STREAMS_MAX  10000u
/* More at the same time would overflow the backlog of many servers, and be retried a second later. */
#define LOAD_CONNECTING_USUAL 128u

typedef struct load_plan {
	const load_work *work;
	const load_schedule *schedule; /* NULL: closed, with `users` users */
	const load_place *place;
	const load_address *sources; /* local addresses, used in turn; NULL: the kernel chooses */
	unsigned source_count;
	unsigned threads, users;
	unsigned connections; /* maximum, over all threads */
	unsigned
		connecting; /* those of a thread that are being made at the same time, at most; 0: the usual */
	unsigned retries;   /* attempts after the first */
	unsigned streams;   /* HTTP/2: concurrent requests on a connection; 0 or 1: one */
	uint32_t per_connection; /* requests; 0: no limit */
	uint32_t seed;
	uint32_t total;       /* requests of all threads, after which the run ends; 0: no such end */
	uint64_t duration_ns; /* of the measurement; UINT64_MAX: until it is stopped, or arrivals end */
	uint64_t warmup_ns;   /* before it, not counted */
	/*
	 * For this long after the end, requests that were due before it are still sent, and answers
	 * awaited.
	 */
	uint64_t drain_ns;
	uint64_t timeout_ns;  /* since an attempt was sent */
	uint64_t patience_ns; /* since an attempt was due; UINT64_MAX: unlimited */
	uint64_t backoff_ns;  /* before the second attempt, then doubling, each with jitter; 0: no delay */
	uint64_t stagger_ns;  /* closed: the users begin within this time */
	uint64_t target_ns;
	bool each;             /* a row of every request is kept: load/each.h */
	bool cookies;          /* cookies of answers are passed to users */
	bool obey_retry_after; /* a shed request is retried when the answer says */
	bool allow_redirects;
	bool secure_unverified;
	bool http2;
	const char *authorities; /* PEM file; NULL: the system's */
} load_plan;

#endif
