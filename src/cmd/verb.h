/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_VERB_H
#define WEIR_CMD_VERB_H

/*
 * A verb of `weir`: one file each, and one line each in the table in main.c. Everything that lists verbs
 * (help, the hint after a typing error, completion) reads that table.
 *
 * Exit status: 0 success, 1 failure, 2 wrong usage; 130 if `weir load` was interrupted.
 *
 * Threads: verbs start on the main thread, before there is any other.
 */

#include <weir/service.h>

#include "keys/options.h"

typedef struct weir_verb {
	const char *name;
	const char *summary;         /* one line, for the list */
	const weir_options *options; /* for `weir NAME --help`; NULL: the program's */
	bool takes_flags;            /* the flags of services follow the usage */
	const weir_program *program; /* NULL: not a service */
	/* argv[0] is the verb. Returns the exit status. Not called if the first argument is `--help`. */
	int (*run)(int argc, char **argv);
} weir_verb;

extern const weir_verb weir_verb_check;
extern const weir_verb weir_verb_help;
extern const weir_verb weir_verb_load;
extern const weir_verb weir_verb_nucleus;
extern const weir_verb weir_verb_sentry;
extern const weir_verb weir_verb_serve;
extern const weir_verb weir_verb_sim;
extern const weir_verb weir_verb_top;
extern const weir_verb weir_verb_uplink;
extern const weir_verb weir_verb_version;

/* What routes can lead to in this binary, ended by NULL. */
extern const weir_kind *const weir_kinds[];

/* The table, ended by NULL. */
extern const weir_verb *const weir_verbs[];

/* NULL: no such verb. */
const weir_verb *weir_verb_find(const char *name);
/* Says on stderr that there is no such verb, with a hint; returns WEIR_EXIT_USAGE. */
int weir_verb_unknown(const char *typed);
/* Prints its help. */
void weir_verb_print_usage(const weir_verb *verb, FILE *file);
/* Says on stderr that this verb does not take the argument, with a hint; returns WEIR_EXIT_USAGE. */
int weir_verb_unexpected(const weir_verb *verb, const char *argument);

#endif
