/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_PARSE_H
#define MAIL_PARSE_H

/*
 * A message as the MIME library has it, sorted into what is its body and what are its other parts. For mail.c
 * and mail_view.c only. Threads: one at a time.
 */

#include <gmime/gmime.h>

#include "mail.h"

/* A piece of the body: the same text in one or two forms. Pieces are shown one after the other. */
typedef struct mail_piece {
	GMimePart *plain; /* NULL: it has none */
	GMimePart *html;  /* NULL: it has none */
} mail_piece;

/* Another part: a file, a picture, a message within the message. */
typedef struct mail_extra {
	GMimeObject *object;
	bool related; /* belongs to HTML beside it, which may show it */
	bool minor;   /* a signature, or the text in a form that is not shown: not worth a mark in lists */
} mail_extra;

typedef struct mail_parsed {
	GMimeStream *stream;
	GMimeMessage *message;
	GArray *pieces; /* of mail_piece */
	GArray *extras; /* of mail_extra, in the order of the message */
} mail_parsed;

/* 0, -E2BIG or the source's error. The source must stay until mail_parsed_fini. */
int mail_parsed_init(mail_parsed *parsed, const mail_source *source);
/* Frees what init has made. */
void mail_parsed_fini(mail_parsed *parsed);
/* The decoded text of a part as UTF-8, of at most max bytes of the part; g_free it. */
char *mail_parsed_text(GMimePart *part, size_t max, bool *ret_clipped);
/* Writes a part, decoded, to the sink. 0, or what the sink said. */
int mail_parsed_write(GMimeObject *object, mail_sink_fn *sink, void *arg);
/*
 * The body as text: of each piece the plain form, or the text of the HTML where that is empty; g_free it.
 * ret_clipped may be NULL.
 */
char *mail_parsed_body(const mail_parsed *parsed, size_t max, bool *ret_clipped);
/* The summary's fields of a message that is parsed. */
mail_summary *mail_parsed_summary(const mail_parsed *parsed);

#endif
