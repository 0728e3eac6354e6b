/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_PLAN_H
#define WEIR_LOAD_PLAN_H

/*
 * What a run does: who comes when, asks where for what, over how many connections, with how much patience. Read-only while a run uses it.
 */

#include "load/arrive.h"
#include "load/place.h"
#include "load/work.h"

#define LOAD_THREADS_MAX     256u
#define LOAD_CONNECTIONS_MAX 1000000u
#define LOAD_SESSIONS_MAX \
	400000u /* of a thread, under way or waiting; who comes beyond is counted as unsent */
#define LOAD_SOURCES_MAX 256u
#define LOAD_STREAMS_MAX 10000u

typedef struct load_plan {
	const load_work *work;
	const load_schedule *schedule; /* NULL: closed, `users` of them */
	const load_place *place;
	const load_address *sources; /* of our own, in turn; NULL: as the kernel chooses */
	unsigned source_count;
	unsigned threads, users;
	unsigned connections; /* at most, over all threads */
	unsigned retries;     /* attempts after the first */
	unsigned streams;     /* HTTP/2: requests under way on a connection at the same time; 0 or 1: one */
	uint32_t per_connection; /* requests; 0: no limit */
	uint64_t seed;
	uint64_t
		duration_ns; /* of what is measured; UINT64_MAX: until it is stopped, or nobody comes any more */
	uint64_t warmup_ns; /* before it, not counted */
	uint64_t
		drain_ns; /* so long after the end what was due before it is still sent, and answers are waited for */
	uint64_t timeout_ns;  /* from sending an attempt on */
	uint64_t patience_ns; /* from when an attempt was due; UINT64_MAX: endless */
	uint64_t
		backoff_ns; /* before the first further attempt, then twice that, each with jitter; 0: at once */
	uint64_t stagger_ns; /* closed: the users begin within this time */
	uint64_t target_ns;
	bool cookies;          /* answers' cookies are shown to users */
	bool obey_retry_after; /* who is shed comes again when it was told to */
	bool allow_redirects;
	bool secure_unverified;
	bool http2;
	const char *authorities; /* PEM file; NULL: the system's */
} load_plan;

#endif
