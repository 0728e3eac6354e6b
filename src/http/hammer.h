/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_HAMMER_H
#define WEIR_HTTP_HAMMER_H

/*
 * Rejections that wait for a moment, because their client has drawn too many (hammer.c).
 *
 * Threads: the loop's.
 */

#include <weir/loop.h>

#include "http/reject.h"
#include "http/request.h"
#include "rules/match.h"

/* A rejection, as it will be sent: a copy, since what it was made from may be gone by then. */
typedef struct weir_hammered {
	struct weir_hammered *next, **at; /* at: what points to it */
	weir_request *request;            /* whose memory this is in */
	const weir_route *route;          /* NULL: a plain rejection */
	uint64_t retry_after_ns, until_ns;
	weir_shed_head head;
} weir_hammered;

typedef struct weir_hammer {
	weir_timer timer;
	weir_hammered *first, **end; /* end: where the next one goes */
	uint32_t count;
} weir_hammer;

/* NULL if nobody has to wait. 0 or a negative errno with weir_error. */
int weir_hammer_new(const weir_http_limits *limits, weir_quota **ret_quota);
void weir_hammer_init(weir_http_loop *loop);
/* Sends everything that waits; before the loop's connections end, and when they are to. */
void weir_hammer_end(weir_http_loop *loop);
/* Whether this rejection has to wait; then it is sent later. Only if the server has such a quota. */
bool weir_hammer_holds(weir_request *request, const weir_route *route, const weir_shed_head *head,
		       uint64_t retry_after_ns);
/* The client of a request that waits has left: it waits no longer. */
void weir_hammer_forget(weir_request *request);
/* reject.c: sends a rejection that has waited. */
void weir_request_send_away(const weir_hammered *rejection);

#endif
