/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAW_PEERS_H
#define WEIR_BENCH_LAW_PEERS_H

/* What other proxies do, as laws for the benchmarks only. */

#include <weir/law.h>

/*
 * The gradient of Envoy's adaptive-concurrency filter: a limit on what is outstanding, no queue. Every update_ns the limit becomes
 * limit x clamp(minRTT x 1.25 / the window's median, .5, 2), plus its own square root. Every probe_ns, and when the limit has been the least for
 * five windows, it measures minRTT anew: at most `least` outstanding until 50 that were sent since have been answered.
 */
typedef struct weir_envoy_params {
	uint64_t update_ns; /* 100 ms */
	uint64_t probe_ns;  /* 60 s */
	uint32_t least;     /* 3 */
	uint32_t most;      /* 1000 */
} weir_envoy_params;
extern const weir_admission_law weir_law_envoy;

/* HAProxy's maxconn with a queue before it: so many at a time, and what has waited for queue_ns is sent away. */
typedef struct weir_maxconn_params {
	uint32_t maxconn;
	uint64_t queue_ns;
} weir_maxconn_params;
extern const weir_admission_law weir_law_maxconn;

/* What `adaptive-remote` was in version 0.1: a search for the knee of throughput. Takes its parameters. */
extern const weir_admission_law weir_law_old_remote;

#endif
