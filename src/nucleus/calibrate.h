/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_CALIBRATE_H
#define WEIR_NUCLEUS_CALIBRATE_H

/*
 * `weir nucleus calibrate URL...`: fits alpha in S = cpu + alpha * io (control/alpha.h). It sends a bounded number
 * of requests for each URL, one after the other, so that none waits for another, and measures how long each
 * takes.
 *
 * Processor and I/O time come from the answers themselves, if these have Server-Timing with cpu, and db or io.
 * Otherwise they come from a nucleus beside the server: the processor time, and the time in service that is not
 * processor time, over the requests of a URL. What the nucleus sees is coarse, so then a URL is requested for
 * some seconds and counts as one sample.
 *
 * Threads: one.
 */

#include "control/alpha.h"
#include "nucleus/fetch.h"

#define WEIR_CALIBRATE_URLS 32u

typedef struct weir_calibrate_options {
	weir_fetch url[WEIR_CALIBRATE_URLS];
	uint32_t urls;
	const weir_fetch *nucleus; /* NULL: answers must have Server-Timing */
	uint32_t requests;         /* at most, for each URL */
	uint64_t for_ns;           /* at most, for each URL */
} weir_calibrate_options;

/* Prints what it finds. Returns the exit status: 1 if the data cannot tell. */
int weir_calibrate_run(const weir_calibrate_options *options);

#endif
