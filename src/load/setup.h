/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SETUP_H
#define WEIR_LOAD_SETUP_H

/*
 * What the options of `weir load` mean: the place, the work, the arrivals, and a plan for the engine. And what it takes to run one: signals, the screen, the end.
 */

#include "load/engine.h"
#include "load/options.h"
#include "load/report.h"

/* Made once, for all runs of a command. */
typedef struct load_setup {
	const load_options *options;
	load_place place;
	load_work *work;   /* as asked for */
	load_trace *trace; /* NULL: none */
	double capacity;   /* 0: not known */
	load_search search;
	bool searched;
	const char *classes[LOAD_CLASSES_MAX], *paths[LOAD_PATHS_MAX];
} load_setup;

/* 0, or a negative errno with weir_error. Reaches out to the place. */
int load_setup_make(load_setup *setup, const load_options *options);
void load_setup_free(load_setup *setup);
/* Whether what was asked for are multiples of a capacity. */
bool load_setup_needs_capacity(const load_options *options);

/* A run and what came of it. All zero: none yet. */
typedef struct load_run {
	load_plan plan;
	load_schedule *schedule;
	load_tally tally;
	bool has_tally;
	bool interrupted;
	char failure[200]; /* "": none */
	char arrivals[120];
	load_story story;
} load_run;

/* The plan that the options ask for, times this multiple of the capacity (0: none). */
int load_run_plan(const load_setup *setup, double load, load_run *ret);
/* A closed one of this many users without thinks, for the search of the capacity. work: such a one. */
int load_run_plan_closed(const load_setup *setup, const load_work *work, unsigned users, uint64_t duration_ns,
			 load_run *ret);
/* Runs it; the story is told to the screen (NULL: nobody) meanwhile. 0, or a negative errno with weir_error. */
int load_run_do(load_run *run, load_screen *screen);
void load_run_free(load_run *run);

/*
 * Signals that stop it are blocked from here on, in this thread and those it makes, and looked for: one that comes at any time ends what is under way and what is still to come, and nothing that was
 * measured is lost by it.
 */
void load_signals_hold(void);
/* Whether one came; waits for it that long. */
bool load_signals_came(uint64_t wait_ns);

/* Finds the capacity and keeps it in the setup, with the steps of the search, saying what it does on `out` (NULL: nowhere). 0; -EINTR when interrupted; or a negative errno with weir_error. */
int load_find_capacity(load_setup *setup, FILE *out);
/* The work of the options without thinks and ends, for that. */
int load_setup_work(const load_setup *setup, const load_habits *habits, load_work **ret);

#endif
