/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_REJECT_H
#define WEIR_HTTP_REJECT_H

/*
 * Heads of plain rejections as HTTP/1 writes them, from the status line to "Retry-After: ". A loop caches
 * some, by status, stage, class and reason, with the time after which that stage's law wants such requests
 * again. Under overload a rejection is a copy of a cached head and a number.
 *
 * Threads: the loop's.
 */

#include "rules/routes.h"

#define WEIR_SHED_HEADS     16
#define WEIR_SHED_NAME_MOST 64

typedef struct weir_shed_head {
	const char *stage; /* compared by address; NULL: empty */
	const weir_routes *routes;
	uint16_t status;
	uint8_t klass, why;
	uint16_t value, value_length; /* of Weir-Shed, in text; length 0: not sent */
	uint16_t length;
	uint64_t good_until_ns;          /* when the date in text changes */
	uint64_t wait_ns, wait_until_ns; /* what the law said last, and when to ask again */
	uint16_t body_length;
	char rest[4 + WEIR_SHED_NAME_MOST + 64]; /* the end of the last field and of the head, and the body */
	char text[3 * WEIR_SHED_NAME_MOST + 384];
} weir_shed_head;

static inline weir_span weir_shed_body(const weir_shed_head *head)
{
	return (weir_span){head->rest + 4, head->body_length};
}

#endif
