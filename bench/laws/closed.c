/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/closed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

#include "sim/run.h"

#define USEFUL_LEAST .6
#define SHED_LEAST   .01
#define SHED_MOST    .005
#define KEPT_LEAST   .97
#define SEEDS        3

struct crowd {
	unsigned users, workers, think_ms;
	double mean_ms, target_ms;
};

static const struct crowd tuned[] = {{40, 2, 1, 20, 100},      {20, 1, 1, 50, 200},  {400, 16, 1, 20, 200},
				     {1000, 200, 1, 100, 250}, {100, 4, 1, 10, 100}, {64, 1, 1, 5, 50},
				     {600, 40, 1, 200, 500}};
static const struct crowd held[] = {{80, 3, 1, 15, 120},      {30, 2, 1, 100, 600}, {500, 64, 1, 50, 300},
				    {2000, 400, 1, 150, 600}, {200, 8, 1, 25, 250}, {128, 2, 1, 4, 40},
				    {900, 100, 1, 80, 400}};
static const struct crowd healthy[] = {
	{40, 40, 1, 400, 1000},   {40, 64, 1, 40, 150},      {10, 16, 20, 50, 200}, {2, 2, 1, 20, 100},
	{150, 200, 10, 100, 500}, {8, 8, 1, 2000, 6000},     {1, 1, 1, 50, 200},    {16, 32, 1, 10, 50},
	{20, 4, 1, 20, 500},      {300, 200, 200, 100, 500}, {4, 4, 1, 20, 100}};
static const char *const works[] = {"deterministic", "exponential", "lognormal"};
static const char *const disciplines[] = {"fifo", "ps"};

const struct closed_cell *closed_cell_at(const char *half, unsigned index)
{
	static struct closed_cell cell;
	bool is_healthy = strcmp(half, "healthy") == 0, is_held = strcmp(half, "held") == 0;
	const struct crowd *list = is_healthy ? healthy : is_held ? held : tuned;
	unsigned count = is_healthy ? sizeof(healthy) / sizeof(healthy[0])
			 : is_held  ? sizeof(held) / sizeof(held[0])
				    : sizeof(tuned) / sizeof(tuned[0]);
	unsigned seed = index % SEEDS, ramp = index / SEEDS % 2, discipline = index / SEEDS / 2 % 2,
		 work = index / SEEDS / 4 % 3, at = index / SEEDS / 12;
	if (at >= count)
		return NULL;
	const struct crowd *crowd = &list[at];
	cell = (struct closed_cell){.users = crowd->users,
				    .workers = crowd->workers,
				    .think_ms = crowd->think_ms,
				    .mean_ms = crowd->mean_ms,
				    .target_ms = crowd->target_ms,
				    .work = works[work],
				    .discipline = disciplines[discipline],
				    .ramp = ramp != 0,
				    .healthy = is_healthy,
				    .seed = seed + 1};
	return &cell;
}

void closed_cell_name(const struct closed_cell *cell, char *text, unsigned size)
{
	snprintf(text, size, "%u users, %s-%u, %s %gms, p90 %gms%s, seed %u", cell->users, cell->discipline,
		 cell->workers, cell->work, cell->mean_ms, cell->target_ms,
		 cell->ramp ? ", within 200 ms" : "", (unsigned)cell->seed);
}

static void print_scenario(const struct closed_cell *cell, const char *law, char *text, size_t size)
{
	char users[96], control[96] = "";
	if (law != NULL)
		snprintf(control, sizeof(control), "law = %s\np90 = %gms\n", law, cell->target_ms);
	if (cell->ramp)
		snprintf(users, sizeof(users), "1, 50ms %u, 100ms %u, 200ms %u", cell->users / 4 + 1,
			 cell->users / 2 + 1, cell->users);
	else
		snprintf(users, sizeof(users), "%u", cell->users);
	snprintf(text, size,
		 "[scenario]\ntitle = a crowd\nduration = 30s\nwarmup = %s\n"
		 "[backend server]\ndiscipline = %s\nworkers = %u\n"
		 "[stage proxy]\nworkers = 4000\ncapacity = 8000\nbackend = server\nwork = %s %gms\n%s"
		 "[load crowd]\narrivals = closed\nusers = %s\nthink = exponential %ums\nrejected_wait = "
		 "50ms\n",
		 cell->healthy ? "5s" : "10s", cell->discipline, cell->workers, cell->work, cell->mean_ms,
		 control, users, cell->think_ms);
}

static weir_judgement run(const struct closed_cell *cell, const char *law)
{
	char text[1024];
	weir_scenario *scenario = NULL;
	weir_run *run = NULL;
	print_scenario(cell, law, text, sizeof(text));
	if (weir_scenario_parse("closed.sim", text, strlen(text), &scenario) < 0 ||
	    weir_scenario_check(scenario) < 0 || weir_run_new(scenario, cell->seed, "closed", &run) < 0) {
		fprintf(stderr, "%s\n%s", weir_error(), text);
		exit(2);
	}
	weir_judgement judgement = run->judgement;
	weir_run_free(&run);
	weir_scenario_free(&scenario);
	return judgement;
}

void closed_cell_run(const struct closed_cell *cell, const char *law, struct closed_result *ret_result)
{
	weir_judgement seen = run(cell, law);
	*ret_result =
		(struct closed_result){.shed = seen.shed,
				       .useful = seen.useful_per_s * cell->mean_ms / 1e3 / cell->workers,
				       .kept = 1};
	if (cell->healthy) {
		ret_result->kept = seen.completed_per_s / run(cell, NULL).completed_per_s;
		ret_result->holds = seen.shed <= SHED_MOST && ret_result->kept >= KEPT_LEAST;
	} else {
		ret_result->holds = seen.shed >= SHED_LEAST && ret_result->useful >= USEFUL_LEAST;
	}
}
