/* SPDX-License-Identifier: Apache-2.0 */
/* Cells that are given, since laws were seen to go wrong there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laws/judge_draw.h"

static const struct seen {
	enum judge_grid grid;
	const char *name;
	uint32_t workers;
	unsigned kinds;
	double rate, target_s;
	bool visible;
	weir_dist_kind dist;
	double mean_s[2], per_s[2]; /* of the kinds */
} seen[] = {
#define TWENTIETH(rate, visible)                                                                       \
	{                                                                                              \
		JUDGE_HARM, "seen-bimodal", 4000, 1, rate, .2, visible, WEIR_DIST_BIMODAL, {.0595, 0}, \
		{                                                                                      \
			rate, 0                                                                        \
		}                                                                                      \
	}
	/* A healthy backend, a twentieth of whose requests are slow. */
	TWENTIETH(50, false),
	TWENTIETH(200, false),
	TWENTIETH(1000, false),
	TWENTIETH(50, true),
	TWENTIETH(200, true),
	TWENTIETH(1000, true),
#undef TWENTIETH
	/* Few slow requests beside many quick ones. */
	{JUDGE_HARM,
	 "seen-slow-beside",
	 1000,
	 2,
	 106,
	 .2,
	 false,
	 WEIR_DIST_DETERMINISTIC,
	 {.005, 3},
	 {100, 6}},
	{JUDGE_HARM,
	 "seen-slow-beside",
	 1000,
	 2,
	 106,
	 .2,
	 true,
	 WEIR_DIST_DETERMINISTIC,
	 {.005, 3},
	 {100, 6}},
	/* An ordinary pool of threads, from cold. */
	{JUDGE_HARM, "seen-pool", 200, 1, 1000, .3, false, WEIR_DIST_DETERMINISTIC, {.1, 0}, {1000, 0}},
	{JUDGE_MIXED, "seen-pool", 200, 1, 4000, .3, false, WEIR_DIST_DETERMINISTIC, {.1, 0}, {4000, 0}},
	/* A target that cannot be met. */
	{JUDGE_HARM, "seen-unreachable", 8, 1, 4, .2, false, WEIR_DIST_DETERMINISTIC, {1, 0}, {4, 0}},
	/* Few workers, from cold. */
	{JUDGE_MIXED, "seen-cold", 4, 1, 400, .2, false, WEIR_DIST_DETERMINISTIC, {.02, 0}, {400, 0}},
	{JUDGE_MIXED, "seen-cold", 4, 1, 2000, .2, false, WEIR_DIST_DETERMINISTIC, {.02, 0}, {2000, 0}},
};

static void add_one_seen(struct judge_draw *draw, const struct seen *s)
{
	struct proxy_cell cell = {
		.part = "seen", .lanes = JUDGE_LANES, .top_weight = 1, .target_s = s->target_s};
	double mean_s = 0;
	cell.backend.workers = s->workers;
	cell.kinds = s->kinds;
	for (unsigned i = 0; i < s->kinds; i++) {
		cell.kind[i] = (struct proxy_kind){.share = s->per_s[i] / s->rate, .visible = s->visible};
		cell.kind[i].work =
			(weir_dist){.kind = s->dist, .mean = s->mean_s[i] * 1e9, .share = .05, .factor = 100};
		mean_s += s->mean_s[i] * s->per_s[i] / s->rate;
	}
	cell.capacity_per_s = s->workers / mean_s;
	cell.load = s->rate / cell.capacity_per_s;
	cell.warm_s = s->grid == JUDGE_MIXED ? 1.5 : 0;
	cell.measure_s = fmin(60, 40000 / s->rate);
	proxy_cell_lots(&cell, JUDGE_OWN_FACTOR);
	judge_name_cell(draw, &cell, s->grid, s->name);
	if (s->visible)
		snprintf(cell.name + strlen(cell.name), sizeof(cell.name) - strlen(cell.name), "/visible");
	judge_add(draw, s->grid, &cell);
}

void judge_add_seen(struct judge_draw *draw)
{
	for (size_t i = 0; i < JUDGE_COUNT(seen); i++)
		add_one_seen(draw, &seen[i]);
}
