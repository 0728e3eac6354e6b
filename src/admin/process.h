/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_PROCESS_H
#define WEIR_ADMIN_PROCESS_H

/*
 * The metrics that every process has, under the names that Prometheus' own clients use: processor time,
 * memory, descriptors, start. What is read from /proc is opened at the start, before the process confines
 * itself; what cannot be opened is left out.
 *
 * Threads: one at a time.
 */

#include <stdio.h>

typedef struct weir_process {
	int statm;        /* -1: not there */
	void *fds;        /* a DIR; NULL: not there */
	double started_s; /* since 1970 */
} weir_process;

void weir_process_open(weir_process *process);
/* As OpenMetrics. NULL: prints nothing. */
void weir_process_print(FILE *to, const weir_process *process);
void weir_process_close(weir_process *process);

#endif
