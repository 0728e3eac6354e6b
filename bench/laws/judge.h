/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_JUDGE_H
#define WEIR_BENCH_JUDGE_H

/*
 * The judge's grids before a backend: cells whose requests are of very different cost, drawn from a seed
 * (judge_cells.c), the rules by which a law is judged there, and the oracle that it is compared with
 * (judge_rules.c). One thread; processes share the cells.
 */

#include "laws/proxy_cell.h"

#define JUDGE_CELLS_MAX 1000
#define JUDGE_OWN_FACTOR \
	5. /* a lot that takes longer than the target by itself is held to so many times what it takes */

enum judge_grid { JUDGE_HARM, JUDGE_MIXED, JUDGE_CHANGE, JUDGE_GRIDS };

struct judge_cell {
	struct proxy_cell cell;
	enum judge_grid grid;
	bool held; /* out: not for choosing constants */
	bool cold; /* it is measured from its first request on, or its overload is the first that the law sees */
};

/* What the cell is held against; it does not depend on the law. */
struct judge_bar {
	bool counts;    /* harm: the service alone is well; the others: the oracle keeps the percentiles */
	double done_s;  /* by the oracle */
	double blind_s; /* by the best number inside, which knows no costs */
};

/* What a law did there. */
struct judge_outcome {
	struct proxy_result result;
	struct judge_bar bar;
	bool met;
	bool nearly;   /* harm: within the wider bound */
	double p90;    /* the highest of all lots, in own targets */
	double work;   /* of what the oracle did; harm: 1 */
	bool blind;    /* the best number inside, which knows no costs, does enough work */
	double waited; /* of the refused, those that had waited */
	double slack;  /* below 0 where a bound is missed: the worst of them, in itself */
	char failed[40];
};

/* Shares of the requests: rejected, and in a dry run those that would have been. */
struct judge_dry {
	double enforced, would;
	bool met;
};

extern const char *const judge_grid_names[JUDGE_GRIDS];

/*
 * All cells of all grids: what they are comes from `draw`, what happens in them from that and `seed`. Returns
 * their number.
 */
size_t judge_cells(struct judge_cell *cells, size_t most, uint64_t draw, uint64_t seed);
/*
 * Puts a long calm before a cell of mixed overload or change that does not start cold: a minute, or 20 targets, at
 * 0.3 to 0.6 of the capacity. What is fast has 40,000 requests there. The bar stays as it is, because the oracle
 * has no memory.
 */
void judge_calm_before(struct judge_cell *cell);
/* Runs what the cell is held against: once without a law, or the oracle's search. */
void judge_measure_bar(const struct judge_cell *cell, struct judge_bar *ret_bar);
/* Runs the cell twice: enforced, and as a dry run (dry.h). */
void judge_dry_run(const struct proxy_cell *cell, const weir_admission_law *law, proxy_params *fill,
		   struct judge_dry *ret_dry);
/* Judges a result, given the bar. */
void judge_decide(const struct judge_cell *cell, struct judge_outcome *outcome);

#endif
