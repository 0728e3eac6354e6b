/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_OPTIONS_H
#define WEIR_LOAD_OPTIONS_H

/*
 * The command line of `weir load` as written, with its single values checked. setup.c derives what they
 * mean together.
 */

#include <stdbool.h>
#include <stdint.h>

#include "load/arrive.h"
#include "load/plan.h"
#include "load/work.h"

enum { LOAD_HEADERS = 64, LOAD_LOADS = 32 };

typedef struct load_options {
	const char *url;
	/* arrivals */
	double rate, sessions, capacity; /* 0: not given */
	uint32_t users;                  /* 0: not given */
	const char *phase[LOAD_PHASES_MAX];
	unsigned phases;
	const char *trace, *transient;
	double faster; /* 0: as in the trace */
	double load[LOAD_LOADS];
	unsigned loads;
	bool poisson, repeat, find_capacity;
	/* what is requested */
	load_habits habits;
	const char *header[LOAD_HEADERS];
	char *body; /* of a file; owned */
	const char *urls, *sizes, *model;
	uint32_t specweb;
	const char *make; /* a folder for their files, or those of the sizes, to be made instead of a run */
	/* how it is sent */
	load_plan plan; /* single values; the rest is filled in later */
	load_address source[LOAD_SOURCES_MAX];
	/* reports */
	bool json, quiet;
	const char *json_file, *csv, *plot;
} load_options;

/* Returns an exit status; errors have been printed on stderr. */
int load_options_read(int argc, char **argv, load_options *ret);
void load_options_free(load_options *options);
extern const char load_usage[];

#endif
