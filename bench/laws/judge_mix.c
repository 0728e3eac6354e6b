/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the requests of a cell are: one kind with a distribution of some shape, or several kinds, the dearer
 * the rarer.
 */
#include <math.h>

#include "laws/judge_draw.h"

const char *const judge_mix_names[JUDGE_MIXES] = {"constant", "exponential", "lognormal", "pareto",
						  "bimodal",  "visible",     "invisible"};
const enum judge_mix judge_turns[JUDGE_TURNS] = {
	JUDGE_CONSTANT, JUDGE_VISIBLE, JUDGE_BIMODAL, JUDGE_EXPONENTIAL, JUDGE_INVISIBLE, JUDGE_LOGNORMAL,
	JUDGE_BIMODAL,  JUDGE_VISIBLE, JUDGE_PARETO,  JUDGE_BIMODAL,     JUDGE_INVISIBLE};

double judge_between(struct judge_draw *draw, double low, double high)
{
	return low * exp(weir_random_unit(&draw->random) * log(high / low));
}

bool judge_chance(struct judge_draw *draw, double p)
{
	return weir_random_unit(&draw->random) < p;
}

static void one_kind(struct judge_draw *draw, struct proxy_cell *cell, enum judge_mix mix)
{
	/* None has its jump at the percentile itself, where chance would decide. */
	static const double shares[] = {.01, .03, .05, .15, .3}, factors[] = {10, 100, 1000};
	static const double sigmas[] = {.5, 1, 1.5};
	weir_dist *work = &cell->kind[0].work;
	work->kind = mix == JUDGE_CONSTANT      ? WEIR_DIST_DETERMINISTIC
		     : mix == JUDGE_EXPONENTIAL ? WEIR_DIST_EXPONENTIAL
		     : mix == JUDGE_LOGNORMAL   ? WEIR_DIST_LOGNORMAL
		     : mix == JUDGE_PARETO      ? WEIR_DIST_PARETO
						: WEIR_DIST_BIMODAL;
	work->mean = 1;
	work->share = JUDGE_PICK(draw, shares);
	work->factor = JUDGE_PICK(draw, factors);
	work->sigma = JUDGE_PICK(draw, sigmas);
	cell->kinds = 1;
	cell->kind[0].share = 1;
	cell->kind[0].visible = judge_chance(draw, .5);
}

/* Means from 1 to the spread, the dearer the rarer. */
static void several_kinds(struct judge_draw *draw, struct proxy_cell *cell, bool visible)
{
	static const unsigned counts[] = {2, 3, 5, 8};
	static const double spreads[] = {10, 100, 1000}, rarities[] = {.5, 1};
	static const weir_dist_kind dists[] = {WEIR_DIST_DETERMINISTIC, WEIR_DIST_EXPONENTIAL,
					       WEIR_DIST_LOGNORMAL};
	double spread = JUDGE_PICK(draw, spreads), rarity = JUDGE_PICK(draw, rarities), shares = 0, mean = 0;
	cell->kinds = JUDGE_PICK(draw, counts);
	for (unsigned i = 0; i < cell->kinds; i++) {
		struct proxy_kind *kind = &cell->kind[i];
		kind->work.kind = JUDGE_PICK(draw, dists);
		kind->work.sigma = .5;
		kind->work.mean = pow(spread, (double)i / (cell->kinds - 1));
		kind->share = pow(kind->work.mean, -rarity) * judge_between(draw, .5, 2);
		kind->visible = visible;
		shares += kind->share;
		mean += kind->share * kind->work.mean;
	}
	for (unsigned i = 0; i < cell->kinds; i++) {
		cell->kind[i].share /= shares;
		cell->kind[i].work.mean /= mean / shares;
	}
}

void judge_draw_mix(struct judge_draw *draw, struct proxy_cell *cell, enum judge_mix mix)
{
	if (mix == JUDGE_VISIBLE || mix == JUDGE_INVISIBLE)
		several_kinds(draw, cell, mix == JUDGE_VISIBLE);
	else
		one_kind(draw, cell, mix);
}

void judge_scale(struct proxy_cell *cell, double mean_s)
{
	for (unsigned i = 0; i < cell->kinds; i++)
		cell->kind[i].work.mean *= mean_s * 1e9;
	cell->capacity_per_s = cell->backend.workers / mean_s;
}

double judge_alone_s(const struct proxy_cell *cell)
{
	struct proxy_cell blind = *cell;
	for (unsigned i = 0; i < blind.kinds; i++)
		blind.kind[i].visible = false;
	proxy_cell_lots(&blind, 1);
	return blind.lot[0].alone_s;
}

double judge_slowest_s(const struct proxy_cell *cell)
{
	double slowest_ns = 0;
	for (unsigned i = 0; i < cell->kinds; i++)
		slowest_ns = fmax(slowest_ns, weir_dist_quantile(&cell->kind[i].work, .995));
	return slowest_ns / 1e9;
}
