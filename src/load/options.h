/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_OPTIONS_H
#define WEIR_LOAD_OPTIONS_H

/*
 * The command line of `weir load` as it was written, its single values checked. What they mean together is setup.c's affair.
 */

#include <stdbool.h>
#include <stdint.h>

#include "load/arrive.h"
#include "load/plan.h"
#include "load/work.h"

enum { LOAD_HEADERS = 64, LOAD_LOADS = 32 };

typedef struct load_options {
	const char *url;
	/* who comes */
	double rate, sessions, capacity; /* 0: not given */
	uint32_t users;                  /* 0: not given */
	const char *phase[LOAD_PHASES_MAX];
	unsigned phases;
	const char *trace, *transient;
	double faster; /* 0: as the trace has it */
	double load[LOAD_LOADS];
	unsigned loads;
	bool poisson, repeat, find_capacity;
	/* what they ask for */
	load_habits habits;
	const char *header[LOAD_HEADERS];
	char *body; /* of a file; owned */
	const char *urls, *sizes, *model;
	uint32_t specweb;
	const char *make; /* a folder to make their files in, or those of the sizes, instead of a run */
	/* how */
	load_plan plan; /* single values; the rest is put together later */
	load_address source[LOAD_SOURCES_MAX];
	/* what comes of it */
	bool json, quiet;
	const char *json_file, *csv, *plot;
} load_options;

/* An exit status; what is wrong has been said on stderr. */
int load_options_read(int argc, char **argv, load_options *ret);
void load_options_free(load_options *options);
extern const char load_usage[];

#endif
