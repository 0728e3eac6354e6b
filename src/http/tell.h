/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_TELL_H
#define WEIR_HTTP_TELL_H

/*
 * The fields that tell a sentry in front about a request and its server: Server-Timing and
 * endpoint-load-metrics (http/load_report.h). They are added to the answers of handlers where the server's
 * options ask for them.
 *
 * Threads: the request's loop.
 */

#include "http/load_report.h"
#include "http/request.h"

#define WEIR_TELL_FIELDS 64u /* an answer with more is not added to */

/* Room for an answer's fields and two more. */
typedef struct weir_tell_room {
	weir_field fields[WEIR_TELL_FIELDS + 2];
	char timing[WEIR_LOAD_REPORT_TEXT];
} weir_tell_room;

/*
 * Adds what is asked for. An answer that has such a field already keeps it. The answer refers to the room and
 * to the loop, so it must be sent before either is used again.
 */
void weir_tell(weir_request *request, weir_answer *answer, weir_tell_room *room);

#endif
