/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of the grid with one kind of request (grid_proxy). The judge's own are in judge_rules.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws/proxy_cell.h"

#define LEAST_WORK        .97
#define MOST_P90          1.1
#define MOST_DROPPED      .02
#define MOST_SHED         .001 /* at half of the capacity */
#define MOST_SHED_RETRIES .01
#define LEAST_TOP         .99

bool proxy_cell_light(const struct proxy_cell *cell)
{
	return cell->load < 1 && cell->classes == 0;
}

static double most_shed(const struct proxy_cell *cell)
{
	return cell->retries != 0 ? MOST_SHED_RETRIES : MOST_SHED;
}

double proxy_cell_slack(const struct proxy_cell *cell, const struct proxy_result *r)
{
	double slack = fmin(r->work * r->timely / LEAST_WORK - 1, 1 - r->p90 / MOST_P90);
	slack = fmin(slack, 1 - r->dropped / MOST_DROPPED);
	if (proxy_cell_light(cell))
		slack = fmin(slack, 1 - (r->shed + r->dropped) / most_shed(cell));
	if (cell->classes == 2)
		slack = fmin(slack, r->top / LEAST_TOP - 1);
	return slack;
}

static bool failed(bool bad, const char *what, char *out, size_t size)
{
	size_t used = strlen(out);
	if (bad)
		snprintf(out + used, size - used, "%s%s", used != 0 ? " " : "", what);
	return bad;
}

bool proxy_cell_passed(const struct proxy_cell *cell, const struct proxy_result *r, char *what, size_t size)
{
	bool bad = false;
	*what = 0;
	bad |= failed(r->work * r->timely < LEAST_WORK, "work", what, size);
	bad |= failed(r->p90 > MOST_P90, "p90", what, size);
	bad |= failed(r->dropped > MOST_DROPPED, "dropped", what, size);
	bad |= failed(proxy_cell_light(cell) && r->shed + r->dropped > most_shed(cell), "shed", what, size);
	bad |= failed(cell->classes == 2 && r->top < LEAST_TOP, "top", what, size);
	return !bad;
}
