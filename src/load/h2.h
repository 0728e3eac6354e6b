/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_H2_H
#define WEIR_LOAD_H2_H

/*
 * The client's side of an HTTP/2 connection, by nghttp2: one request at a time, as with HTTP/1, so that a connection is the same thing in both. Tells what came in a load_reader's terms.
 *
 * Threads: its connection's.
 */

#include "http/link.h"
#include "load/bytes.h"
#include "load/reader.h"

typedef struct load_h2 load_h2;

/* What it finds goes to the reader (meaning, bytes, kept). 0 or -ENOMEM. The preface is output that waits. */
int load_h2_new(load_reader *reader, const char *authority, bool secure, load_h2 **ret);
/* NULL is ignored. */
void load_h2_free(load_h2 *h2);
/* Sends a request; there is none under way. 0, or a negative errno: the connection is of no use. */
int load_h2_ask(load_h2 *h2, weir_link *link, const load_form *form, weir_span target, weir_span cookies);
/* DONE: the answer is over, and the reader has all of it. MORE: also where no request is under way. */
load_read load_h2_take(load_h2 *h2, weir_link *link, const char *bytes, size_t length);

#endif
