/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NUCLEUS_WATCH_H
#define WEIR_NUCLEUS_WATCH_H

/*
 * Looks at a server from outside and makes samples for the gauge. The first place is where requests come; the
 * others are where that server's work goes on, such as the socket of php-fpm behind nginx: what waits there is
 * added, and so is the processor time of the processes that listen there.
 *
 * Requests are counted by the segments with data that came on the connections of the first place, those that
 * have ended included, unless a status page counts them. That is right for requests that fit into a segment.
 *
 * Cost. Reading the processes takes time for each of them, so that is done less often if there are many.
 *
 * Threads: one at a time.
 */

#include "http/gauge.h"
#include "nucleus/diag.h"
#include "nucleus/fetch.h"
#include "nucleus/tree.h"

#define WEIR_WATCH_PLACES 4u
#define WEIR_WATCH_CONNS  16384u /* connections whose requests are counted */

typedef struct weir_watch_options {
	weir_diag_place place[WEIR_WATCH_PLACES];
	uint32_t places;
	pid_t pid[WEIR_TREE_ROOTS]; /* instead of those that hold the listening sockets */
	uint32_t pids;
	const weir_fetch *status; /* NULL: none */
	uint64_t status_timeout_ns;
} weir_watch_options;

typedef struct weir_watch weir_watch;

/* -ENOMEM, -EPROTONOSUPPORT ... with weir_error. The server need not be there yet. */
int weir_watch_new(const weir_watch_options *options, weir_watch **ret_watch);
void weir_watch_free(weir_watch *watch);
/* Looks once. */
void weir_watch_look(weir_watch *watch, uint64_t now_ns, weir_gauge_sample *ret_sample);
/* What the last look found, for people: whether anybody listens, the number of processes, what is not known. */
void weir_watch_explain(const weir_watch *watch, char *text, size_t size);

#endif
