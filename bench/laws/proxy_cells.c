/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of the proxy's grid. The part `steady` is every combination of hidden workers, discipline, distribution, target and load; the
 * mean service time goes round with them, so that each meets each. The other parts are what goes wrong: see their functions.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proxy_cell.h"

#define SEEDS_APART 1000003
#define COMPLETIONS 20000. /* worth measuring */
#define WARM_UP     40000. /* worth waiting for; and at least so many targets, and seconds */

struct list {
	struct proxy_cell *cells;
	size_t count, most;
	uint64_t seed;
};

static const char *const disciplines[] = {"fifo", "ps"};

/* The time that nine of ten take alone; a jump right there counts as above. */
static double alone_s(const weir_dist *work)
{
	return weir_dist_quantile(work, .9 + 1e-9) / 1e9;
}

/* How long a run must be to be worth something, and may be at most so as not to take forever. */
static void set_times(struct proxy_cell *cell)
{
	double per_s = cell->capacity_per_s, load = fmax(cell->load, 1);
	double warm = fmin(WARM_UP / per_s / sqrt(load), 60), measure = COMPLETIONS / per_s;
	cell->warm_s = fmax(fmax(warm, 3), 40 * cell->target_s);
	cell->measure_s = fmax(fmin(measure, 1000), fmax(1, 60 * cell->target_s));
}

static struct proxy_cell *add(struct list *list, const char *part, weir_discipline discipline,
			      uint32_t workers, weir_dist_kind kind, double mean_ms, double factor,
			      double load)
{
	static struct proxy_cell beyond;
	struct proxy_cell *cell = list->count < list->most ? &list->cells[list->count++] : &beyond;
	*cell = (struct proxy_cell){.part = part,
				    .backend = {.discipline = discipline, .workers = workers},
				    .work = {.kind = kind, .mean = mean_ms * 1e6},
				    .capacity_per_s = workers * 1e3 / mean_ms,
				    .load = load,
				    .seed = (list->seed - 1) * SEEDS_APART + 1000 + list->count};
	cell->target_s = factor * alone_s(&cell->work);
	snprintf(cell->name, sizeof(cell->name), "%s/%s-%u/%s/%gms/%gx/load-%g", part,
		 disciplines[discipline], workers, weir_dist_name(kind), mean_ms, factor, load);
	set_times(cell);
	return cell;
}

static void add_steady(struct list *list)
{
	static const uint32_t workers[] = {1, 4, 16, 64, 256};
	static const double factors[] = {5, 10, 20, 50}, loads[] = {.5, 1.4, 2, 5, 10};
	static const double means_ms[] = {1, 10, 100};
	unsigned turn = 0;
	for (unsigned w = 0; w < 5; w++)
		for (unsigned kind = 0; kind < WEIR_DIST_KINDS; kind++)
			for (unsigned d = 0; d < 2; d++)
				for (unsigned f = 0; f < 4; f++)
					for (unsigned l = 0; l < 5; l++, turn++) {
						double mean = means_ms[(turn + w + kind + d + f) % 3];
						if (workers[w] == 256 && mean == 1)
							mean = 10;
						add(list, "steady", (weir_discipline)d, workers[w],
						    (weir_dist_kind)kind, mean, factors[f], loads[l]);
					}
}

/* Beyond twice the workers every further request slows all of them down. */
static void add_thrash(struct list *list)
{
	static const uint32_t workers[] = {4, 16, 64};
	static const double factors[] = {10, 50}, by[] = {1, 3};
	for (unsigned w = 0; w < 3; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned f = 0; f < 2; f++)
				for (unsigned b = 0; b < 2; b++) {
					struct proxy_cell *cell =
						add(list, "thrash", (weir_discipline)d, workers[w],
						    WEIR_DIST_EXPONENTIAL, 10, factors[f], b ? 5 : 2);
					cell->backend.thrash_from = 2 * workers[w];
					cell->backend.thrash_by = by[b];
				}
}

/* A part of the work under one lock: the lock is the bottleneck, not the workers. */
static void add_lock(struct list *list)
{
	static const double locks[] = {.1, .25}, factors[] = {10, 20}, loads[] = {1.4, 5};
	for (unsigned i = 0; i < 2; i++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned f = 0; f < 2; f++)
				for (unsigned l = 0; l < 2; l++) {
					struct proxy_cell *cell =
						add(list, "lock", (weir_discipline)d, 64,
						    WEIR_DIST_EXPONENTIAL, 10, factors[f], loads[l]);
					cell->backend.lock = locks[i];
					cell->capacity_per_s = 100 / locks[i];
					set_times(cell);
				}
}

/* Half as fast for a while, or twice; measured from the change on, with a second to find out. */
static void add_speed(struct list *list)
{
	static const uint32_t workers[] = {1, 4, 16, 64};
	static const double factors[] = {10, 20}, speeds[] = {.5, 2};
	for (unsigned w = 0; w < 4; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned f = 0; f < 2; f++)
				for (unsigned s = 0; s < 2; s++) {
					struct proxy_cell *cell =
						add(list, "speed", (weir_discipline)d, workers[w],
						    WEIR_DIST_EXPONENTIAL, 10, factors[f], 2.5);
					double change_s = cell->warm_s;
					cell->phase[0] =
						(struct proxy_phase){change_s, cell->load, speeds[s]};
					cell->phase[1] = (struct proxy_phase){change_s + cell->measure_s / 2,
									      cell->load, 1};
					cell->warm_s += fmax(1, 5 * cell->target_s);
				}
}

/* Straight into ten times the capacity, measured from the first request on. */
static void add_cold(struct list *list)
{
	static const uint32_t workers[] = {1, 4, 16, 64, 256};
	static const double factors[] = {5, 20};
	for (unsigned w = 0; w < 5; w++)
		for (unsigned kind = 0; kind < WEIR_DIST_KINDS; kind++)
			for (unsigned d = 0; d < 2; d++)
				for (unsigned f = 0; f < 2; f++) {
					struct proxy_cell *cell =
						add(list, "cold", (weir_discipline)d, workers[w],
						    (weir_dist_kind)kind, 10, factors[f], 10);
					cell->warm_s = 0;
					cell->measure_s = fmax(10, 100 * cell->target_s);
				}
}

/* Far away: the round trip is part of what a request takes alone. */
static void add_distance(struct list *list)
{
	static const uint32_t workers[] = {1, 4, 16};
	static const double trips[] = {.2, 1, 5}, loads[] = {.5, 2, 10};
	for (unsigned w = 0; w < 3; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned t = 0; t < 3; t++)
				for (unsigned l = 0; l < 3; l++) {
					struct proxy_cell *cell =
						add(list, "distance", (weir_discipline)d, workers[w],
						    WEIR_DIST_EXPONENTIAL, 10, 10, loads[l]);
					cell->backend.round_trip_ns = (uint64_t)(trips[t] * 1e7);
					cell->target_s += 5 * trips[t] * .01;
					snprintf(cell->name + strlen(cell->name), 24, "/trip-%g", trips[t]);
					set_times(cell);
				}
}

/* A backend that says no beyond a bound of its own: as many as it has workers, or fewer. */
static void add_refusing(struct list *list)
{
	static const uint32_t workers[] = {4, 16, 64};
	for (unsigned w = 0; w < 3; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned m = 0; m < 2; m++) {
				struct proxy_cell *cell =
					add(list, "refusing", (weir_discipline)d, workers[w],
					    WEIR_DIST_EXPONENTIAL, 10, 10, m ? 2 : 5);
				cell->backend.most = m ? workers[w] : workers[w] * 3 / 4;
				cell->capacity_per_s = cell->backend.most * 100.;
				set_times(cell);
			}
}

/* Errors at once, errors after two targets, requests that never answer. */
static void add_faults(struct list *list)
{
	static const uint32_t workers[] = {4, 64};
	for (unsigned w = 0; w < 2; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned fault = 0; fault < 3; fault++) {
				struct proxy_cell *cell = add(list, "faults", (weir_discipline)d, workers[w],
							      WEIR_DIST_EXPONENTIAL, 10, 10, 4);
				static const char *const names[] = {"/fast", "/slow", "/hung"};
				cell->failing_fast = fault == 0 ? .3 : 0;
				cell->failing_slow = fault == 1 ? .02 : 0;
				cell->hanging = fault == 2 ? .001 : 0;
				size_t used = strlen(cell->name);
				snprintf(cell->name + used, sizeof(cell->name) - used, "%s", names[fault]);
			}
}

/* A tenth of the capacity in the highest class, twelve times the capacity in the lowest, suddenly. */
static void add_classes(struct list *list)
{
	static const uint32_t workers[] = {4, 16, 64};
	for (unsigned w = 0; w < 3; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned kind = 0; kind < WEIR_DIST_KINDS; kind++) {
				struct proxy_cell *cell = add(list, "classes", (weir_discipline)d, workers[w],
							      (weir_dist_kind)kind, 10, 10, 12.1);
				cell->classes = 2;
				cell->phase[0] = (struct proxy_phase){cell->warm_s, 12.1, 1};
				cell->load = .2;
			}
}

/* Clients that try again three times: a burst of three times the capacity, measured well after it. Do they recover? */
static void add_retries(struct list *list)
{
	static const uint32_t workers[] = {4, 16, 64};
	for (unsigned w = 0; w < 3; w++)
		for (unsigned d = 0; d < 2; d++)
			for (unsigned kind = 0; kind < 2; kind++) {
				struct proxy_cell *cell = add(list, "retries", (weir_discipline)d, workers[w],
							      (weir_dist_kind)kind, 10, 10, .8);
				double burst_s = 10, quiet_s = 20;
				cell->retries = 3;
				cell->phase[0] = (struct proxy_phase){cell->warm_s, 3, 1};
				cell->phase[1] = (struct proxy_phase){cell->warm_s + burst_s, .8, 1};
				cell->warm_s += burst_s + quiet_s;
			}
}

size_t proxy_cells(struct proxy_cell *cells, size_t most, uint64_t seed)
{
	struct list list = {.cells = cells, .most = most, .seed = seed};
	add_steady(&list);
	add_cold(&list);
	add_distance(&list);
	add_thrash(&list);
	add_lock(&list);
	add_speed(&list);
	add_refusing(&list);
	add_faults(&list);
	add_classes(&list);
	add_retries(&list);
	return list.count;
}
