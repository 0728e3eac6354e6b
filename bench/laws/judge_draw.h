/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_JUDGE_DRAW_H
#define WEIR_BENCH_JUDGE_DRAW_H

/* How the judge's cells are drawn: for judge_cells.c, judge_mix.c and judge_seen.c only. One thread. */

#include "laws/judge.h"

#define JUDGE_LANES 2 /* as production has one a core */

struct judge_draw {
	struct judge_cell *cells;
	size_t count, most;
	uint64_t draw, seed;
	weir_random random;
};

#define JUDGE_COUNT(list)      (sizeof(list) / sizeof((list)[0]))
#define JUDGE_PICK(draw, list) ((list)[weir_random_below(&(draw)->random, JUDGE_COUNT(list))])

/* From low to high, every factor as likely as any other. */
double judge_between(struct judge_draw *draw, double low, double high);
bool judge_chance(struct judge_draw *draw, double p);

/* ---- mixes ---- */

enum judge_mix {
	JUDGE_CONSTANT,
	JUDGE_EXPONENTIAL,
	JUDGE_LOGNORMAL,
	JUDGE_PARETO,
	JUDGE_BIMODAL,
	JUDGE_VISIBLE,   /* several kinds, told apart */
	JUDGE_INVISIBLE, /* several kinds, not told apart */
	JUDGE_MIXES
};

/* As often as each is drawn: cells take turns through this list. */
#define JUDGE_TURNS 11
extern const enum judge_mix judge_turns[JUDGE_TURNS];
extern const char *const judge_mix_names[JUDGE_MIXES];

/* Gives the cell kinds whose mean is 1 together. */
void judge_draw_mix(struct judge_draw *draw, struct proxy_cell *cell, enum judge_mix mix);
/* Makes that mean so many seconds, and sets the capacity. */
void judge_scale(struct proxy_cell *cell, double mean_s);
/* What nine of ten of all requests take unloaded, however they can be told apart. */
double judge_alone_s(const struct proxy_cell *cell);
/* What the slow requests take: a run has to be some times as long, or it is over before they matter. */
double judge_slowest_s(const struct proxy_cell *cell);

/* ---- cells ---- */

/* Names the cell, by its grid, what is in it, its place and its numbers. */
void judge_name_cell(const struct judge_draw *draw, struct proxy_cell *cell, enum judge_grid grid,
		     const char *what);
/* Adds it to the list, with a seed and a half. */
void judge_add(struct judge_draw *draw, enum judge_grid grid, const struct proxy_cell *cell);
/* Adds the cells that are given. */
void judge_add_seen(struct judge_draw *draw);

#endif
