/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAWS_CELL_H
#define WEIR_BENCH_LAWS_CELL_H

/*
 * A cell: one stage of c workers in a virtual world, Poisson arrivals, a law, and what is measured of them. The runtime is the
 * real one; only the clock and the work are made up. Seeded: the same options and calls give the same numbers.
 *
 *	cell_new → cell_load → cell_run ... cell_mark → cell_run → cell_read → cell_free
 *
 * Loads are in multiples of the capacity that the workers have at speed 1. Measures run from the last mark; while slices are set, ends
 * are also counted by the time since the moment they were set for, so that many repetitions of a step make one curve.
 * One thread a cell.
 */

#include <weir/sim.h>

#include "sim/dist.h"

#include "laws/reasons.h"
#include "laws/tally.h"

typedef struct cell cell;

typedef struct cell_class {
	double share;   /* of the arrivals; relative, all 0: everything is class 0 */
	double cost;    /* its service times are so many times the others'; 0: 1 */
	double target;  /* in multiples of the cell's target; 0: 1 */
	double minimum; /* for laws that have it; 0: the law's default */
} cell_class;

/* Clients who try again when they are shed, and who give up on an answer that takes too long, and try again then too. */
typedef struct cell_retries {
	unsigned most;  /* tries after the first; 0: they do not */
	double after;   /* targets, doubled with each try, half of it random */
	double give_up; /* targets; 0: never */
} cell_retries;

typedef struct cell_options {
	const weir_admission_law *law; /* NULL: none */
	const char *const
		*settings; /* further parameters of the law, "name=value", NULL at the end; NULL: none */
	weir_dist service; /* mean in ns */
	uint32_t workers;
	double target_ns;
	double percentile; /* 0: .9 */
	cell_class klass[WEIR_CLASSES];
	weir_order order;
	cell_retries retries;
	uint64_t seed;
	bool dry_run;            /* nobody is refused */
	struct reasons *reasons; /* counts here, from the beginning on; NULL: nobody asks */
} cell_options;

typedef struct cell_class_stats {
	uint64_t offered, shed, dropped, completed; /* shed includes dropped */
	uint64_t first, served; /* requests, and those of them that were served at last, retries included */
	tally response;         /* of the completed, in their class's target */
} cell_class_stats;

typedef struct cell_stats {
	double seconds;
	double work; /* of the workers' time */
	double useful; /* of the workers' time, spent on what was answered within two targets and still wanted */
	double would;   /* of the offers: refused, if it were not a dry run */
	double shed_sd; /* of the shed fraction over windows of 500 arrivals */
	double most;    /* response time of the completed, in targets */
	cell_class_stats all, klass[WEIR_CLASSES];
} cell_stats;

/* Ends by the time since a step. */
typedef struct cell_slices {
	unsigned count;
	uint64_t width_ns;
	struct {
		uint64_t offered, shed;
		tally response;
	} at[];
} cell_slices;

/* NULL, with weir_error saying why. */
cell *cell_new(const cell_options *options);
void cell_free(cell **cell);
/* Changes the rate of arrivals from now on; the second also whose they are. */
void cell_load(cell *cell, double load);
void cell_shares(cell *cell, const double *shares);
/* The workers are so many times as fast, for what starts from now on. */
void cell_speed(cell *cell, double factor);
void cell_run(cell *cell, double ns);
void cell_mark(cell *cell);
void cell_read(cell *cell, cell_stats *ret_stats);
/* What the law says of itself; zeroes where it does not. */
void cell_slices_set(cell *cell, cell_slices *slices); /* as of now; NULL: no more */
cell_slices *cell_slices_new(unsigned count, double width_ns);
/* The law's state, for a look inside. */
uint64_t cell_now(const cell *cell);

/* What p90 of the service times is for the grid: where it sits on a jump, the upper side of it. */
double cell_service_p90(const weir_dist *service);

#endif
