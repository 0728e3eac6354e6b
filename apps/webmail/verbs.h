/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_VERBS_H
#define WEBMAIL_VERBS_H

/* The verbs of the command line, which need no service. argv[0] is the verb; they return exit statuses. */

#include "store.h"

/* weir-webmail user add|passwd|class|remove|list */
int users_main(int argc, char **argv);
/* weir-webmail check */
int check_main(int argc, char **argv);
/* weir-webmail import */
int import_main(int argc, char **argv);

/* What they may be given; NULL: it was not. */
typedef struct verb_options {
	const char *data, *database, *class, *user, *folder;
} verb_options;

/* The index of the first word that is no option; 0 if something was wrong, which was said. */
int verb_options_read(int argc, char **argv, verb_options *ret_options);
/* Says what failed; returns the exit status. */
int verb_failed(const char *verb);

#endif
