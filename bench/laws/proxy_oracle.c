/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best that a proxy can do which was told everything and has nothing to find out: a fixed number at the backend, a fixed number that
 * may wait, and a time after which what waits is dropped. Tried with many of each where a law fell short: each in turn, the
 * others as they did best so far. If none of them meets the bounds, no law that keeps the order of arrival can be blamed for missing them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proxy_cell.h"

struct told_params {
	uint32_t limit, room;
	uint64_t wait_ns;
};

struct told {
	struct told_params params;
	int64_t waiting[WEIR_CLASSES];
};

static int told_init(void *state, const void *params, const char **ret_wrong)
{
	struct told *t = state;
	memset(t, 0, sizeof(*t));
	t->params = *(const struct told_params *)params;
	return 0;
}

static weir_verdict told_admit(void *state, const weir_ask *ask)
{
	struct told *t = state;
	int64_t ahead = 0;
	for (unsigned k = 0; k <= ask->klass; k++)
		ahead += t->waiting[k];
	if (ahead >= t->params.room)
		return WEIR_SHED_LATE;
	t->waiting[ask->klass]++;
	return WEIR_ADMITTED;
}

static void told_refund(void *state, const weir_ask *ask)
{
	((struct told *)state)->waiting[ask->klass]--;
}

static void told_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	((struct told *)state)->waiting[event->klass]--;
}

static weir_verdict told_start(void *state, const weir_event *event, const weir_turn *turn)
{
	struct told *t = state;
	t->waiting[event->klass]--;
	return turn->now_ns - event->offered_ns > t->params.wait_ns ? WEIR_SHED_WAITED : WEIR_ADMITTED;
}

static uint32_t told_limit(const void *state)
{
	return ((const struct told *)state)->params.limit;
}

static uint64_t told_patience(const void *state, unsigned klass)
{
	return ((const struct told *)state)->params.wait_ns;
}

static void told_tick(void *state, const weir_sample *sample)
{
}

static const weir_admission_law law_told = {
	.name = "told",
	.brief = "so many at a time, so many waiting, for so long",
	.state_bytes = sizeof(struct told),
	.params_bytes = sizeof(struct told_params),
	.tick_ns = 10 * WEIR_NS_PER_MS,
	.by_class = true,
	.init = told_init,
	.admit = told_admit,
	.refund = told_refund,
	.start = told_start,
	.gone = told_gone,
	.tick = told_tick,
	.limit = told_limit,
	.patience = told_patience,
};

/* ---- the search ---- */

/* In units of the workers, of what drains in a wait, and of the target. */
struct guess {
	double limit, room, wait;
};

static struct guess trying; /* for fill_told, which is told no more than the cell */

static void fill_told(void *params, const struct proxy_cell *cell)
{
	double drained = trying.wait * cell->target_s * cell->capacity_per_s;
	double limit = fmax(trying.limit * cell->backend.workers, 1);
	if (cell->backend.most != 0)
		limit = fmin(limit, cell->backend.most);
	*(struct told_params *)params = (struct told_params){
		.limit = (uint32_t)ceil(limit),
		.room = (uint32_t)fmin(fmax(ceil(trying.room * drained), 1), 1e9),
		.wait_ns = (uint64_t)(trying.wait * cell->target_s * 1e9),
	};
}

/* Whether it meets the bounds; keeps the guess if it is the best so far. */
static bool attempt(const struct proxy_cell *cell, struct guess guess, struct guess *best, double *best_slack)
{
	struct proxy_result result;
	trying = guess;
	proxy_cell_run(cell, &law_told, fill_told, &result);
	double slack = proxy_cell_slack(cell, &result);
	if (slack > *best_slack) {
		*best_slack = slack;
		*best = guess;
	}
	return slack >= 0;
}

bool proxy_cell_possible(const struct proxy_cell *cell)
{
	static const double limits[] = {1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 10, 20};
	static const double waits[] = {.3, .45, .6, .7, .8, .9, 1, 1.2, 1.5, 2, 4, 30};
	static const double rooms[] = {.3, .5, .7, .85, 1, 1.3, 100};
	struct guess best = {.limit = 1.25, .room = .85, .wait = .8}, next;
	double slack = -INFINITY;
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
			if (next = best, next.wait = waits[i], attempt(cell, next, &best, &slack))
				return true;
		for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
			if (next = best, next.limit = limits[i], attempt(cell, next, &best, &slack))
				return true;
		for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
			if (next = best, next.room = rooms[i], attempt(cell, next, &best, &slack))
				return true;
	}
	return false;
}
