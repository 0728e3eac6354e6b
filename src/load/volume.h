/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_VOLUME_H
#define WEIR_LOAD_VOLUME_H

/*
 * Load in bytes. A load of 1.2 means that the answers that are requested have 1.2 times as many bytes as an
 * uplink of known rate can carry in that time. Sizes differ by a factor of 50,000, so a number of requests a
 * second says little about it.
 *
 * A volume is made into a trace before the run: sizes are taken one after the other until their bytes fill a
 * phase, and then get their times within the phase. What a phase has too much, the next has less: the sum of
 * the bytes never differs from what was asked for by more than the largest answer. The trace can be written
 * to a file, so that different services, and the ideal ones of a simulation, get the same one.
 *
 * Bytes are counted as on the wire of the uplink: load_wire_bytes.
 *
 * Pure: seeded, no clock. Threads: any.
 */

#include <stdio.h>

#include "load/arrive.h"

/*
 * What an answer of this size puts on an uplink: its head (as long as that of our own answers to a plain
 * GET), a header of TCP and IP for every segment, and an even share of its connection's begin and end.
 * per_connection: the requests of a connection; 0: so many that their share is nothing.
 */
#define LOAD_WIRE_HEAD       200u
#define LOAD_WIRE_SEGMENT    1448u
#define LOAD_WIRE_HEADERS    52u
#define LOAD_WIRE_CONNECTION 164u
double load_wire_bytes(double size, uint32_t per_connection);

typedef struct load_volume {
	double bytes_per_s; /* of the uplink */
	const load_phase *phases;
	unsigned phase_count; /* rate: as multiples of the uplink */
	bool repeat;          /* the phases, until until_ns */
	uint64_t until_ns;    /* UINT64_MAX: once through the phases */
	bool poisson;         /* times are random within a phase; otherwise evenly spaced */
	uint32_t per_connection;
	uint64_t seed;
	/* Sizes: of a trace in its order, beginning at a line that the seed decides and without those of 0 bytes; */
	const load_trace *trace;
	/*
	 * or drawn: "worldcup", "nasa" (see below), or as load_work_sizes has it. NULL: worldcup.
	 *
	 * These two have the form and the figures of the sites in the study of SRPT under overload: a lognormal
	 * body and a Pareto tail. worldcup: mean 5 KB, half below 1 KB, 3 % of the answers have half of the
	 * bytes. nasa: mean 19 KB, 2.5 %. Sizes have three digits, so that there are only a few thousand.
	 */
	const char *sizes;
} load_volume;

/* 0, -EINVAL or -ENOMEM with weir_error. Free the trace with weir_tracefile_free. */
int load_volume_trace(const load_volume *volume, load_trace **ret);

/* Writes times and sizes as a CSV that weir_tracefile_read reads. 0 or -EIO. */
int load_trace_write(FILE *out, const load_trace *trace);

#endif
