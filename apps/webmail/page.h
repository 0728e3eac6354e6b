/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_PAGE_H
#define WEBMAIL_PAGE_H

/*
 * A page that is being written: bytes that grow up to a bound. The functions put_...() of views.h write
 * blocks of HTML into it; they are made of the files in pages/.
 *
 * Whatever fails (no memory, a page beyond PAGE_BYTES_MAX) is remembered in `failed`, and the rest is left
 * out. So nobody has to look before the end.
 *
 * Threads: a page belongs to one thread.
 */

#include <weir/request.h>

#define PAGE_BYTES_MAX (8u << 20)

typedef struct webpage {
	weir_buf *buf; /* NULL: nothing yet */
	bool failed;
} webpage;

/* Adds bytes as they are. */
void page_add(webpage *to, const char *bytes, size_t length);
/* Adds text, escaped for HTML, also within quoted attributes. */
void page_text(webpage *to, weir_span text);
/* Adds HTML that is safe already. */
void page_html(webpage *to, weir_span html);
/* Adds text that is percent-encoded, as a value of a query. */
void page_query(webpage *to, weir_span text);
/* Adds a number. */
void page_number(webpage *to, int64_t number);
/* Frees what was written. */
void page_drop(webpage *p);

/* What was written so far; empty if it failed. */
weir_span page_written(const webpage *p);
/* The span of a text with a NUL; NULL is empty. */
weir_span page_span(const char *text);
/* Whether a span is this text. */
bool page_is(weir_span span, const char *text);

#endif
