/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_ASKED_H
#define TESTS_ON_ASKED_H

/* The fields of a request as the parser gives them, from a text. */

#include "support/unit.h"

#include <string.h>

#include "web/asked.h"

typedef struct request_text {
	char text[4096];
	weir_head_field fields[64];
	weir_asked asked;
} request_text;

static inline const weir_asked *asked_by(request_text *r, const char *fields)
{
	weir_head head;
	weir_head_limits limits = {.line_bytes = 1024, .head_bytes = 4096, .fields = 64};
	snprintf(r->text, sizeof(r->text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
	weir_head_init(&head);
	assert_int_equal(weir_parse_request(&head, r->text, strlen(r->text), &limits, r->fields),
			 WEIR_PARSE_DONE);
	r->asked = weir_asked_look(r->text, r->fields, head.field_count);
	return &r->asked;
}

#endif
