/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_STREAM_H
#define MAIL_STREAM_H

/*
 * The MIME library's streams on our sources and sinks, and a guard that watches what the parser reads.
 *
 * The library's parser makes an object of every part and of every header field, so a message of 50 MB could make
 * millions of them. The guard sees the bytes before the parser goes on, and ends the stream when a message is
 * over one of the bounds of mail.h. What has been parsed by then is thrown away.
 *
 * Threads: a stream and a guard belong to one thread at a time.
 */

#include <gmime/gmime.h>

#include "mail.h"

typedef struct mail_guard mail_guard;

/* A guard for one message. It watches the parser's header fields, too. */
mail_guard *mail_guard_new(GMimeParser *parser);
/* Frees it, after the parser. */
void mail_guard_free(mail_guard *guard);
/* Why the message is refused; NULL: it is not. */
const char *mail_guard_refusal(const mail_guard *guard);

/*
 * A stream that reads a source, which must stay. guard may be NULL; it watches this stream, and not the streams
 * of parts that are made from it.
 */
GMimeStream *mail_stream_reading(const mail_source *source, mail_guard *guard);
/* The guard is not asked any more. Must be called before it is freed. */
void mail_stream_unguard(GMimeStream *stream);
/* What the source said when it failed; 0: it did not. */
int mail_stream_error(GMimeStream *stream);

/* A stream that writes to a sink. A nonzero result of the sink is kept in *ret_error, and ends the writing. */
GMimeStream *mail_stream_writing(mail_sink_fn *sink, void *arg, int *ret_error);

#endif
