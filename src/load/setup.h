/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_SETUP_H
#define WEIR_LOAD_SETUP_H

/*
 * What the options of `weir load` mean: the place, the work, the arrivals, and a plan for the engine.
 * Also what it takes to run one: signals, the screen, the end.
 */

#include "load/engine.h"
#include "load/options.h"
#include "load/report.h"

/* Made once, for all runs of a command. */
typedef struct load_setup {
	const load_options *options;
	load_place place;
	load_work *work;   /* as requested */
	load_trace *trace; /* NULL: none */
	double capacity;   /* 0: unknown */
	load_search search;
	bool searched;
	const char *classes[LOAD_CLASSES_MAX], *paths[LOAD_PATHS_MAX];
} load_setup;

/* 0, or a negative errno with weir_error. Connects to the place. */
int load_setup_make(load_setup *setup, const load_options *options);
void load_setup_free(load_setup *setup);
/*
 * The arrivals of a load in bytes (options->uplink_bits_per_s), as a trace: load/volume.h. Connects to nobody.
 */
int load_setup_volume(const load_options *options, load_trace **ret);
/* Whether the requested loads are multiples of a capacity. */
bool load_setup_needs_capacity(const load_options *options);

/* A run and its results. All zero: none yet. */
typedef struct load_run {
	load_plan plan;
	load_schedule *schedule;
	load_tally tally;
	bool has_tally;
	bool interrupted;
	char failure[200];     /* "": none */
	char tls_failure[160]; /* of the first handshake that failed; "": none did */
	char arrivals[120];
	const char *each; /* a file for one row per request; NULL: none */
	load_story story;
} load_run;

/* The plan for the options, at this multiple of the capacity (0: none). */
int load_run_plan(const load_setup *setup, double load, load_run *ret);
/*
 * A closed run with this many users without think times, for the search for the capacity. work: made
 * without think times, too.
 */
int load_run_plan_closed(const load_setup *setup, const load_work *work, unsigned users, uint64_t duration_ns,
			 load_run *ret);
/* Runs it, and meanwhile shows it on the screen (NULL: none). 0, or a negative errno with weir_error. */
int load_run_do(load_run *run, load_screen *screen);
void load_run_free(load_run *run);

/*
 * From here on the signals that stop a run are blocked in this thread and those it makes, and polled. A
 * signal at any time ends the current run and those to come; nothing that was measured is lost.
 */
void load_signals_hold(void);
/* Whether a signal came; waits up to wait_ns for it. */
bool load_signals_came(uint64_t wait_ns);

/*
 * Finds the capacity and stores it in the setup, with the steps of the search; prints its progress on
 * `out` (NULL: nowhere). 0; -EINTR if interrupted; or a negative errno with weir_error.
 */
int load_find_capacity(load_setup *setup, FILE *out);
/* The options' work with other habits: for the search, without think times and ends. */
int load_setup_work(const load_setup *setup, const load_habits *habits, load_work **ret);

#endif
