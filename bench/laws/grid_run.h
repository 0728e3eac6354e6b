/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_GRID_RUN_H
#define WEIR_BENCH_GRID_RUN_H

/*
 * What the programs share that judge laws over many cells (grid_judge, grid_revenue): options, which cells
 * are chosen, processes that run them, and bars. A bar is what a cell is held against. It does not depend on
 * the law and takes long to measure, so a file may keep it between runs: a line each, "version draw seed
 * name", and what the program adds.
 *
 * Each process has one thread. Outcomes are in memory that all of them share, and each cell is run by one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GRID_NAME_BYTES 96

struct grid_options {
	const char *law, *half, *match, *bars;
	bool quick, all, list, json;
	unsigned jobs;
	uint64_t draw, seed;
	int bars_version; /* of the rules and of the simulation: other bars are measured again */
};

/* The defaults: the half for choosing constants, two processes, draw and seed 1. */
struct grid_options grid_options_for(const char *law, int bars_version);

/* A further option without a value. */
struct grid_switch {
	const char *name;
	bool *to;
};

/*
 * Reads the command line. switches: further ones, ended by a row without a name, or NULL. value: reads a
 * further option with a value; false: there is none of this name, or its value is wrong; may be NULL. Returns
 * false if the command line is wrong.
 */
bool grid_parse(int argc, char **argv, struct grid_options *o, const struct grid_switch *switches,
		bool (*value)(const char *name, const char *value));

/*
 * Whether the cell at this index is in the half, has the text in its name, and is one of the few of --quick.
 */
bool grid_chosen(const struct grid_options *o, size_t at, const char *name, bool held);
/* Prints the half and the name of a cell, if it is chosen. */
void grid_list(const struct grid_options *o, size_t at, const char *name, bool held);

/*
 * Memory for this many bytes, all 0, which processes share from their start on. Ends the program if there is
 * none.
 */
void *grid_shared(size_t bytes);
/* Calls run for each index below count, in o->jobs processes. Ends the program if one of them fails. */
void grid_run(const struct grid_options *o, size_t count,
	      void (*run)(const struct grid_options *o, size_t at));

/* Calls take for each kept bar of this draw, seed and version; rest: what follows the name. */
void grid_bars_load(const struct grid_options *o, void (*take)(const char *name, const char *rest));
/* Adds a bar to the file, if there is one. */
void grid_bars_keep(const struct grid_options *o, const char *name, const char *rest);

#endif
