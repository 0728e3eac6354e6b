/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_TRACE_H
#define WEIR_SIM_TRACE_H

/*
 * Arrivals from a CSV: the times and, if the reader wants it, what was requested.
 *
 * The first line may have names. Then the time is the column whose name begins with t_offset or time (or
 * else the first), and the request is the first column whose name begins with path, url or target, or
 * else with size or bytes. Without names the time comes first, and second, if there is one, a path (which
 * begins with '/') or a size. Times are seconds from the start, sizes bytes. Lines may be in any order;
 * those with the same time keep theirs.
 *
 * Each different request is stored once. Errors begin with FILE:LINE.
 *
 * Threads: a trace is read-only once it has been read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_tracefile_what {
	WEIR_TRACEFILE_NOTHING,
	WEIR_TRACEFILE_PATHS,
	WEIR_TRACEFILE_SIZES
} weir_tracefile_what;

typedef struct weir_tracefile {
	uint64_t *times_ns; /* ascending */
	size_t count;       /* at least 1 */
	weir_tracefile_what what;
	uint32_t *asked; /* per line: an index into texts; NULL: none */
	char **texts;    /* all different: paths, or sizes in decimal digits */
	uint32_t text_count;
} weir_tracefile;

/* with_what false: only times. */
int weir_tracefile_read(const char *path, bool with_what, weir_tracefile **ret_trace);
/* The same from memory; for tests and fuzzers. */
int weir_tracefile_parse(const char *name, const char *text, size_t length, bool with_what,
			 weir_tracefile **ret_trace);
void weir_tracefile_free(weir_tracefile **trace);

#endif
