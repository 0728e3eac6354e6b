/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of the judge of revenue. Three classes, three prices. All that a cell is is drawn from one seed,
 * the same for every law; a coin thrown on its name says whether it is held out. What would take too many
 * requests is drawn again.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws/judge_draw.h"
#include "laws/revenue.h"

#define SEEDS_APART   1000003
#define MOST_REQUESTS 150000.
#define LEAST_ANSWERS 3000.
#define LONGEST_S     300.
#define BEFORE_S      4. /* at half of the capacity, where it does not start cold */
#define TRIES         3000

const char *const revenue_relation_names[REVENUE_RELATIONS] = {"rising", "falling", "mixed", "unknown"};

static const double spreads[] = {1, 10, 100}, loads[] = {2, 5, 10};

/* ---- kinds ---- */

static void add_kind(struct judge_draw *draw, struct revenue_cell *cell, unsigned klass, double mean,
		     double share)
{
	static const weir_dist_kind dists[] = {WEIR_DIST_DETERMINISTIC, WEIR_DIST_EXPONENTIAL,
					       WEIR_DIST_LOGNORMAL};
	struct proxy_kind *kind = &cell->cell.kind[cell->cell.kinds++];
	*kind = (struct proxy_kind){.share = share * judge_between(draw, .5, 2),
				    .visible = cell->relation != REVENUE_UNKNOWN,
				    .klass = (uint8_t)klass};
	kind->work = (weir_dist){.kind = JUDGE_PICK(draw, dists), .mean = mean, .sigma = .5};
}

/* The mean over all kinds becomes 1, and so does the sum of the shares. */
static void normalise(struct proxy_cell *cell)
{
	double shares = 0, mean = 0;
	for (unsigned i = 0; i < cell->kinds; i++) {
		shares += cell->kind[i].share;
		mean += cell->kind[i].share * cell->kind[i].work.mean;
	}
	for (unsigned i = 0; i < cell->kinds; i++) {
		cell->kind[i].share /= shares;
		cell->kind[i].work.mean /= mean / shares;
	}
}

/* Costs from 1 to the spread, the dearer the rarer. */
static void draw_kinds(struct judge_draw *draw, struct revenue_cell *cell)
{
	static const double rarities[] = {.5, 1}, class_shares[REVENUE_CLASSES] = {.2, .3, .5};
	double rarity = JUDGE_PICK(draw, rarities);
	cell->cell.kinds = 0;
	for (unsigned size = 0; size < REVENUE_CLASSES; size++) {
		double mean = pow(cell->spread, size / (REVENUE_CLASSES - 1.)), share = pow(mean, -rarity);
		if (cell->relation == REVENUE_RISING || cell->relation == REVENUE_FALLING) {
			bool rising = cell->relation == REVENUE_RISING;
			add_kind(draw, cell, rising ? REVENUE_CLASSES - 1 - size : size, mean, share);
			continue;
		}
		for (unsigned klass = 0; klass < REVENUE_CLASSES; klass++)
			add_kind(draw, cell, klass, mean, share * class_shares[klass]);
	}
	normalise(&cell->cell);
}

double revenue_expected_ns(const struct revenue_cell *cell, unsigned kind)
{
	const struct proxy_kind *of = &cell->cell.kind[kind];
	double shares = 0, sum = 0;
	if (of->visible)
		return of->work.mean;
	for (unsigned i = 0; i < cell->cell.kinds; i++)
		if (cell->cell.kind[i].klass == of->klass) {
			shares += cell->cell.kind[i].share;
			sum += cell->cell.kind[i].share * cell->cell.kind[i].work.mean;
		}
	return sum / shares;
}

/* ---- a cell ---- */

static void draw_prices(struct judge_draw *draw, struct revenue_cell *cell)
{
	static const double lists[][REVENUE_CLASSES] = {{10, 3, 1}, {100, 10, 1}, {3, 2, 1}};
	memcpy(cell->revenue, JUDGE_PICK(draw, lists), sizeof(cell->revenue));
}

/* A twentieth to a fifth of the capacity, of a class that comes more often than that. */
static void draw_guarantee(struct judge_draw *draw, struct revenue_cell *cell)
{
	unsigned klass = (unsigned)weir_random_below(&draw->random, REVENUE_CLASSES);
	double part = judge_between(draw, .05, .2), share = 0, work_ns = 0;
	if (judge_chance(draw, .6))
		return;
	for (unsigned i = 0; i < cell->cell.kinds; i++)
		if (cell->cell.kind[i].klass == klass) {
			share += cell->cell.kind[i].share;
			work_ns += cell->cell.kind[i].share * cell->cell.kind[i].work.mean;
		}
	double per_s = part * cell->cell.backend.workers * 1e9 / (work_ns / share);
	double offered = cell->load * cell->cell.capacity_per_s * share;
	cell->guaranteed_per_s[klass] = fmin(per_s, offered / 2);
}

/* As in the judge's mixed grid: time to find out, and then long enough for what is slow to matter. */
static bool set_times(struct revenue_cell *cell, bool cold)
{
	struct proxy_cell *c = &cell->cell;
	double slowest = judge_slowest_s(c), before_s = cold ? 0 : BEFORE_S;
	double settle_s = fmax(3, fmax(8 * c->target_s, 3 * slowest));
	c->warm_s = before_s + settle_s;
	c->measure_s = fmax(fmax(5, 12 * c->target_s), 4 * slowest);
	c->measure_s = fmax(c->measure_s, LEAST_ANSWERS / c->capacity_per_s);
	c->load = cold ? cell->load : .5;
	if (!cold)
		c->phase[0] = (struct proxy_phase){before_s, cell->load, 1};
	return c->measure_s <= LONGEST_S &&
	       cell->load * c->capacity_per_s * (settle_s + c->measure_s) <= MOST_REQUESTS;
}

static bool draw_cell(struct judge_draw *draw, struct revenue_cell *cell, uint32_t workers)
{
	static const unsigned bursts[] = {2, 5, 10};
	struct proxy_cell *c = &cell->cell;
	*c = (struct proxy_cell){.lanes = JUDGE_LANES, .top_weight = 1};
	c->backend.workers = workers;
	c->backend.discipline = judge_chance(draw, .5) ? WEIR_BACKEND_PS : WEIR_BACKEND_FIFO;
	memset(cell->guaranteed_per_s, 0, sizeof(cell->guaranteed_per_s));
	draw_kinds(draw, cell);
	draw_prices(draw, cell);
	if (judge_chance(draw, .2))
		c->pattern.burst = JUDGE_PICK(draw, bursts);
	judge_scale(c, judge_between(draw, .5e-3, .2));
	c->target_s = judge_alone_s(c) * judge_between(draw, 2, 30);
	if (c->target_s < 5e-3 || c->target_s > 5)
		return false;
	proxy_cell_lots(c, JUDGE_OWN_FACTOR);
	draw_guarantee(draw, cell);
	return set_times(cell, judge_chance(draw, .5));
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037u;
	for (; *text != 0; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash ^ hash >> 29;
}

static void name_cell(struct revenue_cell *cell, size_t at)
{
	static const char *const disciplines[] = {"fifo", "ps"};
	struct proxy_cell *c = &cell->cell;
	bool guaranteed = false;
	for (unsigned k = 0; k < REVENUE_CLASSES; k++)
		guaranteed |= cell->guaranteed_per_s[k] > 0;
	c->part = revenue_relation_names[cell->relation];
	snprintf(c->name, sizeof(c->name), "%s/%03u/x%u/%s-%u/%.3gms/T-%.3gms/load-%u/gold-%u%s%s", c->part,
		 (unsigned)at % 1000, (unsigned)cell->spread, disciplines[c->backend.discipline],
		 c->backend.workers, c->backend.workers * 1e3 / c->capacity_per_s, c->target_s * 1e3,
		 (unsigned)cell->load, (unsigned)cell->revenue[0], guaranteed ? "/guaranteed" : "",
		 c->pattern.burst > 1 ? "/bursts" : "");
}

/*
 * Relations, spreads, loads and workers take turns, so that each meets each. Where nothing fits, half the
 * workers have to do.
 */
size_t revenue_cells(struct revenue_cell *cells, uint64_t draw, uint64_t seed)
{
	static const uint32_t workers[] = {1, 8, 64, 2, 16, 200, 4, 32};
	struct judge_draw d = {.draw = draw, .seed = seed};
	weir_random_init(&d.random, draw + 77);
	for (size_t at = 0; at < REVENUE_CELLS; at++) {
		struct revenue_cell *cell = &cells[at];
		uint32_t of = workers[(at + at / 36) % JUDGE_COUNT(workers)];
		*cell = (struct revenue_cell){.relation = (enum revenue_relation)(at % REVENUE_RELATIONS),
					      .spread = spreads[at / 4 % JUDGE_COUNT(spreads)],
					      .load = loads[at / 12 % JUDGE_COUNT(loads)]};
		for (unsigned tries = 1; !draw_cell(&d, cell, of); tries++)
			if (tries % TRIES == 0 && of > 1)
				of /= 2;
		name_cell(cell, at);
		cell->held = hash_of(cell->cell.name) % 2;
		cell->cell.seed = (seed - 1) * SEEDS_APART + draw * 7919 + at;
	}
	return REVENUE_CELLS;
}

void revenue_begin_cold(struct revenue_cell *cell)
{
	struct proxy_cell *c = &cell->cell;
	if (c->phase[0].at_s > 0)
		c->warm_s -= c->phase[0].at_s;
	c->phase[0] = (struct proxy_phase){0};
	c->load = cell->load;
	c->learns = true;
}
