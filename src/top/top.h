/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOP_TOP_H
#define WEIR_TOP_TOP_H

/*
 * The live page in a terminal: follows the admin listener of a sentry or server until a key ends it.
 *
 * Threads: one, which waits for keys and for snapshots at once.
 */

#include <stdbool.h>

typedef struct weir_top_options {
	const char *address;    /* of the admin listener */
	const char *token_file; /* NULL: reading needs no token */
	bool once;              /* prints one snapshot as text instead */
} weir_top_options;

/* Returns an exit status. Errors have been printed on stderr. */
int weir_top_run(const weir_top_options *options);

#endif
