/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_ROWS_H
#define WEBMAIL_ROWS_H

/*
 * Rows of messages with the tools above them, for lists and for what a search has found.
 *
 * Threads: that of the visit.
 */

#include "webmail.h"

/* What the rows of a page have in common. */
typedef struct rows {
	visit *visit;
	weir_span list; /* the query that a message's page gets, so that it knows its list: "?sort=author" */
	bool snippets;
	bool to; /* show who gets it instead of who wrote it, as in sent mail */
	unsigned count;
} rows;

/*
 * The tools and the beginning of the list. back: where a change leads to; folder: whose list it is, or
 * NULL.
 */
void rows_begin(visit *v, weir_span back, const store_folder *folder);
/* Links to sort it by; to be called between rows_begin and rows_open. */
void rows_sort(visit *v, weir_span base, store_sort sort, bool reversed);
/* The list itself begins. */
void rows_open(visit *v);
/* A row, as store_each; arg is a `rows`. */
void rows_put(const store_message *message, void *arg);
/* The end of the list and of its form. */
void rows_end(visit *v);
/* Options of a <select> with the folders to move to, but for the one that it is in. */
void rows_folders(visit *v, uint32_t except);
/* The name of a sort in queries: "date"; STORE_SORTS: none. */
store_sort rows_sort_of(weir_span text);
extern const char *const rows_sorts[STORE_SORTS];
/* What was done, if the query of the page says so, with a way to undo it. */
void rows_notice(visit *v, weir_span done, weir_span ids, weir_span back);

#endif
