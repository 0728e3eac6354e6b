/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_OPTIONS_H
#define WEIR_LOAD_OPTIONS_H

/*
 * The command line of `weir load` as written, with its single values checked: a row of a table for each
 * option (keys/options.h). setup.c derives what they mean together.
 */

#include "keys/options.h"
#include "load/arrive.h"
#include "load/plan.h"
#include "load/work.h"

enum { LOAD_HEADERS = 64, LOAD_LOADS = 32 };

/* Multiples of the capacity. */
typedef struct load_multiples {
	double at[LOAD_LOADS];
	unsigned count;
} load_multiples;

typedef struct load_body {
	const char *at;
	size_t length;
	char *file; /* what was read of a file; owned */
} load_body;

typedef struct load_sources {
	load_address at[LOAD_SOURCES_MAX];
	unsigned count;
} load_sources;

typedef struct load_options {
	const char *url;
	/* arrivals */
	double rate, sessions, capacity; /* 0: not given */
	uint32_t users, requests;        /* 0: not given */
	uint32_t concurrency;            /* of -c: users, or connections of an open run; 0: not given */
	const char *const *phase;
	unsigned phases;
	const char *trace, *transient;
	double faster;              /* 0: as in the trace */
	uint64_t uplink_bits_per_s; /* of a load in bytes; 0: there is none */
	load_multiples load;
	bool poisson, repeat, find_capacity;
	/* what is requested */
	load_habits habits;
	const char *const *header;
	load_body body;
	const char *urls, *sizes, *model;
	uint32_t specweb;
	const char *make; /* a folder for their files, or those of the sizes, to be made instead of a run */
	/* how it is sent */
	load_plan plan; /* single values; the rest is filled in later */
	load_sources source;
	bool no_keepalive;
	/* reports */
	bool quiet, keys, markdown;
	const char *json; /* a file; "": standard output; NULL: no JSON */
	const char *csv, *plot, *each;
	const char *save_trace; /* a file to write the arrivals of a load in bytes to, instead of a run */
	weir_key_arena memory;
} load_options;

extern const weir_options load_options_table;

/* Returns an exit status; errors have been printed on stderr. Free the options in any case. */
int load_options_read(int argc, char **argv, load_options *ret);
void load_options_free(load_options *options);

#endif
