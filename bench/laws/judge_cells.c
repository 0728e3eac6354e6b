/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of the judge's grids. All that they are is drawn from one seed, the same for every law; a few are
 * given (judge_seen.c). A coin that is thrown on each cell's name says whether it is held out; those given
 * are not, as they are known. What would take too many requests is drawn again, so that a cell costs about as
 * much as any other.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws/judge_draw.h"

#define SEEDS_APART 1000003
#define TRIES       3000 /* before a mix is taken to be too much for so many workers */

const char *const judge_grid_names[JUDGE_GRIDS] = {"harm", "mixed", "change"};

/* ---- a cell ---- */

static uint64_t hash_of(const char *text, uint64_t hash)
{
	for (; *text != 0; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash ^ hash >> 29;
}

void judge_add(struct judge_draw *draw, enum judge_grid grid, const struct proxy_cell *cell)
{
	if (draw->count == draw->most)
		return;
	struct judge_cell *to = &draw->cells[draw->count++];
	*to = (struct judge_cell){.cell = *cell, .grid = grid};
	to->held = strcmp(cell->part, "seen") != 0 && hash_of(cell->name, 14695981039346656037u) % 2;
	to->cold = grid == JUDGE_HARM    ? cell->warm_s == 0
		   : grid == JUDGE_MIXED ? cell->phase[0].at_s == 0
					 : false;
	to->cell.seed = (draw->seed - 1) * SEEDS_APART + draw->draw * 7919 + draw->count;
}

void judge_name_cell(const struct judge_draw *draw, struct proxy_cell *cell, enum judge_grid grid,
		     const char *what)
{
	static const char *const disciplines[] = {"fifo", "ps"};
	char more[40] = "";
	if (cell->pattern.burst > 1)
		snprintf(more, sizeof(more), "/burst-%u", cell->pattern.burst);
	if (cell->pattern.silent_s > 0)
		snprintf(more, sizeof(more), "/silent-%.0f", cell->pattern.silent_s);
	if (cell->top_share > 0)
		snprintf(more + strlen(more), sizeof(more) - strlen(more), "/classes");
	snprintf(cell->name, sizeof(cell->name), "%s/%s/%03zu/%s-%u/%.3gms/T-%.3gms/load-%.2g%s",
		 judge_grid_names[grid], what, draw->count, disciplines[cell->backend.discipline],
		 cell->backend.workers, cell->backend.workers * 1e3 / cell->capacity_per_s,
		 cell->target_s * 1e3,
		 cell->phase[0].at_s > 0 && grid == JUDGE_MIXED ? cell->phase[0].load : cell->load, more);
}

static void draw_backend(struct judge_draw *draw, struct proxy_cell *cell, uint32_t workers)
{
	cell->lanes = JUDGE_LANES;
	cell->top_weight = 1;
	cell->backend.workers = workers;
	cell->backend.discipline = judge_chance(draw, .5) ? WEIR_BACKEND_PS : WEIR_BACKEND_FIFO;
}

/*
 * Workers and mixes take turns, so that each meets each; all else is drawn until it fits into what a cell may
 * cost. Where nothing fits, half the workers have to do.
 */
typedef bool draw_cell(struct judge_draw *draw, enum judge_mix mix, uint32_t workers,
		       struct proxy_cell *cell);

static void draw_until_fit(struct judge_draw *draw, draw_cell *draw_one, enum judge_mix mix, uint32_t workers,
			   struct proxy_cell *cell)
{
	for (unsigned i = 1; !draw_one(draw, mix, workers, cell); i++)
		if (i % TRIES == 0 && workers > 1)
			workers /= 2;
}

#define DRAW_UNTIL_FIT(draw_one, draw, at, workers, cell)                            \
	draw_until_fit(draw, draw_one, judge_turns[(at) % JUDGE_COUNT(judge_turns)], \
		       (workers)[(at) % JUDGE_COUNT(workers)], cell)

/* ---- no harm ---- */

#define HARM_CELLS    400
#define HARM_REQUESTS 30000.
#define HARM_MOST     60000.
#define HARM_LONGEST  200.

static void draw_distance(struct judge_draw *draw, struct proxy_cell *cell)
{
	static const uint64_t trips_us[] = {500, 5000, 50000};
	if (judge_chance(draw, .2))
		cell->backend.round_trip_ns = JUDGE_PICK(draw, trips_us) * WEIR_NS_PER_US;
}

static void draw_pattern(struct judge_draw *draw, struct proxy_cell *cell, double bursts, double silences)
{
	static const unsigned sizes[] = {2, 5, 10, 20, 50};
	double u = weir_random_unit(&draw->random);
	if (u < bursts) {
		cell->pattern.burst = JUDGE_PICK(draw, sizes);
	} else if (u < bursts + silences) {
		cell->pattern.active_s = judge_between(draw, 2, 10);
		cell->pattern.silent_s = judge_between(draw, 60, 180);
	}
}

/* False: too many requests would be needed. */
static bool time_harm(struct proxy_cell *cell, double rate)
{
	double least_s = fmax(4, fmax(3 * cell->target_s, 4 * judge_slowest_s(cell)));
	if (cell->pattern.silent_s > 0) {
		double cycle_s = cell->pattern.active_s + cell->pattern.silent_s;
		cell->measure_s = 4 * cycle_s;
		return rate * 4 * cell->pattern.active_s <= HARM_MOST && least_s <= cell->measure_s;
	}
	cell->measure_s = fmax(least_s, fmin(HARM_REQUESTS / rate, HARM_LONGEST));
	return rate * (cell->warm_s + cell->measure_s) <= HARM_MOST;
}

static bool draw_harm(struct judge_draw *draw, enum judge_mix mix, uint32_t workers, struct proxy_cell *cell)
{
	static const double loads[] = {.01, .05, .1, .2, .4, .6, .7, .8};
	*cell = (struct proxy_cell){.part = judge_mix_names[mix]};
	draw_backend(draw, cell, workers);
	draw_distance(draw, cell);
	judge_draw_mix(draw, cell, mix);
	draw_pattern(draw, cell, .25, .12);
	cell->load = JUDGE_PICK(draw, loads);
	double rate = judge_between(draw, 10, 5000), mean_s = cell->load * cell->backend.workers / rate;
	if (mean_s < 50e-6 || mean_s > 5)
		return false;
	judge_scale(cell, mean_s);
	cell->target_s = judge_alone_s(cell) * (judge_chance(draw, .125) ? judge_between(draw, .1, .8)
									 : judge_between(draw, 1.1, 100));
	cell->warm_s = judge_chance(draw, .5) ? 5 : 0;
	if (cell->target_s < 1e-3 || cell->target_s > 20)
		return false;
	proxy_cell_lots(cell, JUDGE_OWN_FACTOR);
	return time_harm(cell, rate);
}

static void add_harm(struct judge_draw *draw)
{
	static const uint32_t workers[] = {1, 8, 1000, 2, 16, 64, 4000, 4, 32, 200};
	struct proxy_cell cell;
	for (unsigned i = 0; i < HARM_CELLS; i++) {
		DRAW_UNTIL_FIT(draw_harm, draw, i, workers, &cell);
		judge_name_cell(draw, &cell, JUDGE_HARM, cell.part);
		judge_add(draw, JUDGE_HARM, &cell);
	}
}

/* ---- mixed overload ---- */

#define MIXED_CELLS    250
#define MIXED_MOST     120000.
#define MIXED_ANSWERS  3000.
#define MIXED_LONGEST  300.
#define MIXED_BEFORE_S 4. /* at half of the capacity, where it does not start cold */

static bool time_mixed(struct proxy_cell *cell, double load, bool cold)
{
	double slowest = judge_slowest_s(cell), before_s = cold ? 0 : MIXED_BEFORE_S;
	double settle_s = fmax(1.5, fmax(4 * cell->target_s, 2 * slowest));
	cell->warm_s = before_s + settle_s;
	cell->measure_s = fmax(fmax(3, 12 * cell->target_s), 4 * slowest);
	cell->measure_s = fmax(cell->measure_s, MIXED_ANSWERS / cell->capacity_per_s);
	cell->load = cold ? load : .5;
	if (!cold)
		cell->phase[0] = (struct proxy_phase){before_s, load, 1};
	return cell->measure_s <= MIXED_LONGEST &&
	       load * cell->capacity_per_s * (settle_s + cell->measure_s) <= MIXED_MOST;
}

static bool draw_mixed(struct judge_draw *draw, enum judge_mix mix, uint32_t workers, struct proxy_cell *cell)
{
	static const double loads[] = {1.2, 1.5, 2, 3, 5, 10}, tops[] = {.05, .2};
	*cell = (struct proxy_cell){.part = judge_mix_names[mix]};
	draw_backend(draw, cell, workers);
	draw_distance(draw, cell);
	judge_draw_mix(draw, cell, mix);
	draw_pattern(draw, cell, .2, 0);
	judge_scale(cell, judge_between(draw, .5e-3, .2));
	cell->target_s = judge_alone_s(cell) *
			 (judge_chance(draw, .1) ? judge_between(draw, .2, .8) : judge_between(draw, 2, 30));
	if (judge_chance(draw, .2)) {
		cell->top_share = JUDGE_PICK(draw, tops);
		cell->top_weight = 4;
		cell->part = "classes";
	}
	if (cell->target_s < 5e-3 || cell->target_s > 5)
		return false;
	proxy_cell_lots(cell, JUDGE_OWN_FACTOR);
	double load = JUDGE_PICK(draw, loads);
	return time_mixed(cell, load, judge_chance(draw, .5));
}

static void add_mixed(struct judge_draw *draw)
{
	static const uint32_t workers[] = {1, 8, 64, 2, 16, 200, 4, 32, 1000};
	struct proxy_cell cell;
	for (unsigned i = 0; i < MIXED_CELLS; i++) {
		DRAW_UNTIL_FIT(draw_mixed, draw, i, workers, &cell);
		judge_name_cell(draw, &cell, JUDGE_MIXED,
				judge_mix_names[judge_turns[i % JUDGE_COUNT(judge_turns)]]);
		judge_add(draw, JUDGE_MIXED, &cell);
	}
}

/* ---- change ---- */

#define CHANGE_EACH    20
#define CHANGE_MOST    80000.
#define CHANGE_ALLOWED 2. /* seconds to find out */
#define PAUSE_S        2.
#define CACHE_STEP_S   .5
#define CACHE_STEPS    12

enum change { HALVED, DOUBLED, RESTARTED, PAUSED, GONE, CHANGES };

static const char *const change_names[CHANGES] = {"halved", "doubled", "cache", "pause", "gone"};

/* The service takes four times as long, and from second to second less. */
static void restart_cache(struct proxy_cell *cell, double at_s)
{
	for (unsigned i = 0; i < CACHE_STEPS; i++)
		cell->phase[i] = (struct proxy_phase){
			at_s + i * CACHE_STEP_S, cell->load,
			i == CACHE_STEPS - 1 ? 1 : 1 / (1 + 3 * exp(-(i * CACHE_STEP_S)))};
}

/* Returns when it has happened. */
static double set_change(struct proxy_cell *cell, enum change change, double at_s)
{
	if (change == RESTARTED) {
		restart_cache(cell, at_s);
	} else if (change == PAUSED) {
		cell->phase[0] = (struct proxy_phase){at_s, cell->load, 0};
		cell->phase[1] = (struct proxy_phase){at_s + PAUSE_S, cell->load, 1};
		return at_s + PAUSE_S;
	} else {
		double speed = change == HALVED ? .5 : change == DOUBLED ? 2 : 1;
		cell->phase[0] = (struct proxy_phase){at_s, cell->load, speed};
		cell->workers_left[0] = change == GONE ? 2 / 3. : 0;
	}
	return at_s;
}

static bool draw_change(struct judge_draw *draw, enum judge_mix mix, uint32_t workers, enum change change,
			struct proxy_cell *cell)
{
	static const double loads[CHANGES][3] = {
		{.4, .8, 1.5}, {.7, 1.5, 4}, {.5, .8, 1.5}, {.5, .8, 2}, {.5, .9, 1.5}};
	*cell = (struct proxy_cell){.part = change_names[change]};
	draw_backend(draw, cell, workers);
	judge_draw_mix(draw, cell, mix);
	cell->target_s = judge_between(draw, .05, .5);
	judge_scale(cell, 1);
	double alone = judge_alone_s(cell), factor = judge_between(draw, 4, 30);
	for (unsigned i = 0; i < cell->kinds; i++)
		cell->kind[i].work.mean /= 1e9;
	judge_scale(cell, cell->target_s / alone / factor);
	cell->load = JUDGE_PICK(draw, loads[change]);
	proxy_cell_lots(cell, JUDGE_OWN_FACTOR);
	double at_s = fmax(5, 2 * judge_slowest_s(cell));
	cell->warm_s = set_change(cell, change, at_s) + CHANGE_ALLOWED;
	cell->measure_s = fmax(fmax(4, 8 * cell->target_s), 4 * judge_slowest_s(cell));
	return judge_slowest_s(cell) < 4 && cell->load * cell->capacity_per_s > 60 &&
	       cell->load * cell->capacity_per_s * (cell->warm_s + cell->measure_s) <= CHANGE_MOST;
}

static void add_change(struct judge_draw *draw)
{
	static const uint32_t workers[] = {3, 198, 15, 6, 60}; /* a third of them can go */
	struct proxy_cell cell;
	for (unsigned change = 0; change < CHANGES; change++)
		for (unsigned i = 0; i < CHANGE_EACH; i++) {
			char what[40];
			enum judge_mix mix = judge_turns[i % JUDGE_COUNT(judge_turns)];
			uint32_t of = workers[(i + change) % JUDGE_COUNT(workers)];
			for (unsigned tries = 1; !draw_change(draw, mix, of, (enum change)change, &cell);
			     tries++)
				if (tries % TRIES == 0 && of > 3)
					of -= of > 15 ? of / 2 / 3 * 3 : 3;
			snprintf(what, sizeof(what), "%s-%s", change_names[change], judge_mix_names[mix]);
			judge_name_cell(draw, &cell, JUDGE_CHANGE, what);
			judge_add(draw, JUDGE_CHANGE, &cell);
		}
}

/* ---- a long calm ---- */

#define CALM_S        60.
#define CALM_TARGETS  20.
#define CALM_REQUESTS 40000.
#define CALM_LEAST_S  5.
#define CALM_LOW      .3
#define CALM_HIGH     .6

/* In a cell of change the calm is a phase of its own, before all others. */
static void shift_phases(struct proxy_cell *cell, double by_s)
{
	for (unsigned i = PROXY_PHASES - 1; i > 0; i--) {
		cell->phase[i] = cell->phase[i - 1];
		cell->workers_left[i] = cell->workers_left[i - 1];
		if (cell->phase[i].at_s > 0)
			cell->phase[i].at_s += by_s;
	}
	cell->phase[0] = (struct proxy_phase){by_s, cell->load, 1};
	cell->workers_left[0] = 0;
}

void judge_calm_before(struct judge_cell *judged)
{
	struct proxy_cell *cell = &judged->cell;
	if (judged->grid == JUDGE_HARM || judged->cold)
		return;
	double part = (double)(hash_of(cell->name, 1099511628211u) % 1000) / 1000;
	double load = CALM_LOW + part * (CALM_HIGH - CALM_LOW);
	double calm_s = fmin(fmax(CALM_S, CALM_TARGETS * cell->target_s),
			     CALM_REQUESTS / (load * cell->capacity_per_s));
	calm_s = fmax(calm_s, CALM_LEAST_S);
	if (judged->grid == JUDGE_MIXED) {
		cell->warm_s += calm_s - cell->phase[0].at_s;
		cell->phase[0].at_s = calm_s;
	} else {
		shift_phases(cell, calm_s);
		cell->warm_s += calm_s;
	}
	cell->load = load;
}

/* ---- all ---- */

size_t judge_cells(struct judge_cell *cells, size_t most, uint64_t draw, uint64_t seed)
{
	struct judge_draw d = {.cells = cells, .most = most, .draw = draw, .seed = seed};
	weir_random_init(&d.random, draw);
	judge_add_seen(&d);
	add_harm(&d);
	add_mixed(&d);
	add_change(&d);
	return d.count;
}
