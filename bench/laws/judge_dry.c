/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/dry.h"
#include "laws/judge.h"

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
	ret_dry->met = dry_tells(ret_dry->enforced, ret_dry->would);
}
