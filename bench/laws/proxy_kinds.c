/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of requests, gathered into lots: what can be told apart, and what each takes unloaded. */
#include <math.h>

#include "laws/proxy_cell.h"

/* Of a lot's requests, those that take at most so long alone. */
static double lot_below(const struct proxy_cell *cell, unsigned lot, double ns)
{
	double below = 0, all = 0;
	for (unsigned i = 0; i < cell->kinds; i++) {
		if (cell->kind[i].lot != lot)
			continue;
		all += cell->kind[i].share;
		below += cell->kind[i].share * weir_dist_below(&cell->kind[i].work, ns);
	}
	return below / all;
}

static double lot_quantile(const struct proxy_cell *cell, unsigned lot, double q)
{
	double low = 0, high = 1e15;
	for (int i = 0; i < 120; i++) {
		double middle = high > 4 * low + 1 ? sqrt((low + 1) * high) : (low + high) / 2;
		if (lot_below(cell, lot, middle) >= q)
			high = middle;
		else
			low = middle;
	}
	return high;
}

void proxy_cell_lots(struct proxy_cell *cell, double own_factor)
{
	unsigned shared = PROXY_KINDS;
	cell->lots = 0;
	for (unsigned i = 0; i < cell->kinds; i++) {
		bool joins = !cell->kind[i].visible && shared < PROXY_KINDS;
		cell->kind[i].lot = joins ? shared : cell->lots++;
		if (!cell->kind[i].visible)
			shared = cell->kind[i].lot;
	}
	for (unsigned i = 0; i < cell->lots; i++) {
		double alone_s = (lot_quantile(cell, i, .9) + (double)cell->backend.round_trip_ns) / 1e9;
		cell->lot[i] = (struct proxy_lot){alone_s, alone_s > cell->target_s ? own_factor * alone_s
										    : cell->target_s};
	}
}
