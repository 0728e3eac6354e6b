/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_IMPORT_H
#define WEBMAIL_IMPORT_H

/*
 * Brings mail from elsewhere: mbox files, Maildir folders, files of single messages (EML), and folders of these.
 * A message that the folder's user has already is not stored again, so an import can be repeated. A message that
 * cannot be read is named and left out; the others go on.
 *
 * Threads: as the store, one at a time.
 */

#include "store.h"

typedef struct import_counts {
	uint64_t stored;  /* new messages */
	uint64_t known;   /* were there already */
	uint64_t refused; /* could not be read, or are over a bound */
	uint64_t bytes;   /* read so far, of all files */
} import_counts;

typedef struct import_options {
	store *store;
	uint32_t user;
	uint32_t folder; /* 0: the inbox */
	int64_t now_s;
	/* After each message; may be NULL. A nonzero result ends the import, which returns it. */
	int (*progress)(void *arg, const import_counts *counts);
	/* What is wrong with a file or a message; may be NULL. */
	void (*wrong)(void *arg, const char *path, const char *sentence);
	void *arg;
} import_options;

/* Imports a file or a folder. 0, or an error of the store or of the progress function; counts are added up. */
int import_path(const import_options *options, const char *path, import_counts *counts);

#endif
