/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_LAWS_DRY_H
#define WEIR_BENCH_LAWS_DRY_H

/*
 * Whether a dry run tells what enforcement would do: the same cell with the same arrivals, once enforced and once as a dry run.
 *
 * The rule, written before any number was seen: the share of the requests that would have been rejected is within a fifth of
 * the share that is rejected when the law is enforced, or within 0.02 of it where less than a tenth is.
 */

#include <math.h>
#include <stdbool.h>

#include <weir/inspect.h>

#define DRY_PART   .2
#define DRY_FEW    .1
#define DRY_WITHIN .02

static inline bool dry_tells(double enforced, double would)
{
	double off = fabs(would - enforced);
	return off <= DRY_PART * enforced || (enforced < DRY_FEW && off <= DRY_WITHIN);
}

/* Requests that the stage has let in so far and that its law refused. */
static inline double dry_spared(const weir_stage *stage)
{
	weir_stage_stats stats;
	double sum = 0;
	weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		sum += (double)stats.spared[why];
	return sum;
}

#endif
