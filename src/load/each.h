/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_EACH_H
#define WEIR_LOAD_EACH_H

/*
 * One row per request that is over, for --each: what a tally sums up, unsummed. A request that was still open
 * at the end of the run has none.
 *
 * Bounds: LOAD_EACH_MOST rows a thread; further ones, and those that there was no memory for, are counted as
 * left out.
 *
 * Threads: one writer, its reactor's thread. Others read when that has ended.
 */

#include <stdio.h>

#include "load/tally.h"

#define LOAD_EACH_MOST (UINT64_C(1) << 26)

typedef struct load_each_row {
	uint64_t number;                            /* of the arrival; of a trace: the line, from 0 */
	uint64_t meant_ns, first_byte_ns, ended_ns; /* since the start; first_byte_ns 0: there was none */
	uint64_t bytes;                             /* of the answer, as received */
	uint32_t attempts;
	load_end end;
} load_each_row;

typedef struct load_each {
	load_each_row *row;
	uint64_t count, room, left_out;
} load_each;

void load_each_add(load_each *each, const load_each_row *row);
void load_each_fini(load_each *each);
/* Writes the rows as CSV, in the order in which requests ended; the first line has names if `names`. */
void load_each_write(FILE *out, const load_each *each, bool names);

#endif
