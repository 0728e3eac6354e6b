/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_FLUID_H
#define WEIR_SIM_FLUID_H

/*
 * A link as a fluid: what an ideal scheduler would do with given arrivals. Every real run of the experiments
 * on scheduling is shown beside its ideals on the same trace.
 *
 *  FAIR     processor sharing: all jobs present have the same share of the rate
 *  SRPT     the job with the fewest bytes left has the whole rate; of equals, the one that came first
 *  CLASSES  SRPT with few priorities: a job's class follows from the bytes that are left of it. The lowest
 *           class that has jobs shares the rate, as in FAIR; the others wait. A job that crosses a cutoff
 *           goes on in the class below.
 *
 * There are no packets, no round trips and no losses. Time is virtual; all times are in seconds from the
 * start of the trace.
 *
 * Invariants: the rate is used whenever a job is present (work conservation), so the time at which the link
 * falls idle is the same for all policies.
 *
 * Costs: O(log n) for each arrival and each cutoff that is crossed. Memory: 16 bytes for each job and class
 * in the worst case.
 *
 * Threads: pure; any.
 */

#include <stddef.h>

#define WEIR_FLUID_CUTOFFS 16
#define WEIR_FLUID_JOBS    100000000

typedef enum weir_fluid_policy { WEIR_FLUID_FAIR, WEIR_FLUID_SRPT, WEIR_FLUID_CLASSES } weir_fluid_policy;

typedef struct weir_fluid_job {
	double at_s;  /* arrival; ascending, at least 0 */
	double bytes; /* above 0 */
} weir_fluid_job;

typedef struct weir_fluid_link {
	weir_fluid_policy policy;
	double bytes_per_s;                /* above 0 */
	double cutoff[WEIR_FLUID_CUTOFFS]; /* of CLASSES: ascending, above 0 */
	unsigned cutoffs;
} weir_fluid_link;

/*
 * Sets ret_done_s[i] to when the last byte of job i has left. 0; -EINVAL with weir_error for a wrong job or
 * link; -ENOMEM. Nothing is written on failure.
 */
int weir_fluid_run(const weir_fluid_link *link, const weir_fluid_job *jobs, size_t count, double *ret_done_s);

/* The most jobs that were present at one time. */
size_t weir_fluid_most(const weir_fluid_job *jobs, const double *done_s, size_t count);

#endif
