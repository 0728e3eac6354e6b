/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_NUCLEUS_H
#define WEIR_NUCLEUS_NUCLEUS_H

/*
 * `weir nucleus`: watches a server on the same machine, which need not know of it, and answers GET /nucleus with
 * a report (http/nucleus_report.h) and GET /orca with the same as ORCA text.
 *
 * Its own processor time is part of the report. If it exceeds a hundredth of a processor, it looks less often,
 * down to once a second.
 *
 * Threads: the calling thread looks; one reactor answers. They share the report under a lock.
 */

#include "nucleus/watch.h"

typedef struct weir_nucleus_options {
	weir_watch_options watch;
	struct sockaddr_storage listen;
	socklen_t listen_length;
	uint64_t every_ns;
	double alpha;
	bool once; /* prints one report after a second of looking, and ends */
} weir_nucleus_options;

/* Runs until SIGINT or SIGTERM. Returns the exit status. */
int weir_nucleus_run(const weir_nucleus_options *options);

/*
 * "80", "127.0.0.1:80", "[::1]:80", "*:80", "unix:/run/php.sock", "unix:@abstract". -EINVAL with weir_error.
 */
int weir_nucleus_read_place(const char *text, weir_diag_place *ret_place);

#endif
