/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_TRACE_H
#define WEIR_SIM_TRACE_H

/*
 * Arrivals from a CSV: when, and if the reader wants it, what was asked for.
 *
 * The first line may have names: then the time is the column whose name begins with t_offset or time (or else the first), and what is asked for is the first column whose name
 * begins with path, url or target, or else with size or bytes. Without names: the time first, and second, if there is one, a path (it begins with '/') or a size. Times are
 * seconds from the start, sizes bytes. Lines in any order; those of the same time stay in theirs.
 *
 * What was asked for is kept once for all lines that ask for the same. Errors begin with FILE:LINE.
 *
 * Threads: a trace is read-only once it is read.
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
	uint32_t *asked; /* by line: which of texts; NULL: nothing */
	char **texts;    /* all different: paths, or sizes in decimal digits */
	uint32_t text_count;
} weir_tracefile;

/* with_what false: times alone. */
int weir_tracefile_read(const char *path, bool with_what, weir_tracefile **ret_trace);
/* The same from memory; for tests and fuzzers. */
int weir_tracefile_parse(const char *name, const char *text, size_t length, bool with_what,
			 weir_tracefile **ret_trace);
void weir_tracefile_free(weir_tracefile **trace);

#endif
