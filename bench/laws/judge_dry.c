/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a dry run tells what enforcement would do: the same cell with the same arrivals, once enforced and once as a dry run.
 *
 * The rule, written before any number was seen: the share of the requests that would have been rejected is within a fifth of
 * the share that is rejected when the law is enforced, or within 0.02 of it where less than a tenth is.
 */
#include <math.h>

#include "laws/judge.h"

#define PART   .2
#define FEW    .1
#define WITHIN .02

void judge_dry_run(const struct proxy_cell *cell, const weir_admission_law *law, proxy_params *fill,
		   struct judge_dry *ret_dry)
{
	struct proxy_cell dry = *cell;
	struct proxy_result result;
	proxy_cell_run(cell, law, fill, &result);
	ret_dry->enforced = result.shed + result.dropped;
	dry.dry_run = true;
	proxy_cell_run(&dry, law, fill, &result);
	ret_dry->would = result.would;
	double off = fabs(ret_dry->would - ret_dry->enforced);
	ret_dry->met = off <= PART * ret_dry->enforced || (ret_dry->enforced < FEW && off <= WITHIN);
}
