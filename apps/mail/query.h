/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_QUERY_H
#define MAIL_QUERY_H

/*
 * What somebody typed to find mail, taken apart into terms: words that all must occur, in any order, upper case or
 * lower; "words in this order"; begin*; from:word, to:word and subject:word; -word must not occur. Terms are words of
 * letters and digits; all else separates. So nothing that is typed is taken for the syntax of an index.
 *
 * Threads: any.
 */

#include <weir/request.h>

#define QUERY_TERMS_MAX  12
#define QUERY_TERM_BYTES 100
#define QUERY_BYTES_MAX  998 /* of what was typed; the rest is left out */

typedef enum query_field {
	QUERY_IN_ALL,
	QUERY_IN_AUTHOR,
	QUERY_IN_RECIPIENTS,
	QUERY_IN_SUBJECT,
} query_field;

typedef struct mail_term {
	query_field field;
	bool without;                     /* must not occur */
	bool begins;                      /* the last word may be the beginning of one */
	char words[QUERY_TERM_BYTES + 1]; /* folded, separated by one blank */
	char first[QUERY_TERM_BYTES + 1]; /* the first of them */
} mail_term;

typedef struct mail_query {
	mail_term terms[QUERY_TERMS_MAX];
	unsigned count;
	bool any; /* one that must occur */
} mail_query;

/* Reads what was typed. */
void mail_query_read(weir_span typed, mail_query *ret_query);
/* Writes about size bytes of a text around a place where one of the terms is; false: none is there. */
bool mail_query_excerpt(const mail_query *terms, weir_span text, char *to, size_t size);

#endif
