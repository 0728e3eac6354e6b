/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SENTRY_RECENT_ANSWERS_H
#define WEIR_SENTRY_RECENT_ANSWERS_H

/*
 * The heads of recent answers, what the parser made of them, and what the proxy sends instead. The answers of a
 * server to requests of one kind often begin with the same bytes, at least until the second of their Date is over.
 * Then nothing of them needs to be read or rewritten again.
 *
 * A head is kept if
 * - it came in one read with all of its body, and nothing behind it. So it is found by the length of that read;
 * - its body has a Content-Length, so that how it ends does not depend on the request, unless that is HEAD or CONNECT;
 * - it has no Set-Cookie, which is meant for one client and does not come again;
 * - it has come twice without another in between that has the same slot. So heads that do not come again cost little.
 *
 * All bytes are compared. Memory is bounded by the number of slots, and taken when a head is kept.
 *
 * Threads: one at a time; each upstream has its own.
 */

#include <string.h>

#include "http/parse.h"

#define WEIR_ANSWERS_SLOTS 8u
#define WEIR_ANSWER_BYTES  768u /* of a head */
#define WEIR_ANSWER_FIELDS 24u
#define WEIR_ANSWER_LINES  896u

typedef struct weir_recent_answer {
	uint32_t length; /* of the answer, with its body */
	/* the fields as they are sent to a client of HTTP/1, with Content-Length; 0: not made yet */
	uint32_t lines_length;
	bool reports_nothing; /* no field is a report (proxy_reports.c); false: not known */
	weir_head head;
	weir_head_field fields[WEIR_ANSWER_FIELDS];
	char bytes[WEIR_ANSWER_BYTES];
	char lines[WEIR_ANSWER_LINES];
} weir_recent_answer;

/* Initially all zero. */
typedef struct weir_recent_answers {
	weir_recent_answer *slots[WEIR_ANSWERS_SLOTS]; /* NULL: none is kept */
	uint32_t missed[WEIR_ANSWERS_SLOTS];           /* the hash of the last one that was not found there */
} weir_recent_answers;

static inline unsigned weir_answers_slot(size_t length)
{
	return (unsigned)((uint32_t)length * UINT32_C(0x9e3779b1) >> 29);
}

_Static_assert(WEIR_ANSWERS_SLOTS == 1u << (32 - 29), "three bits choose one of them");

/* The answer that begins with the same head and is as long; NULL: none is known. Not for HEAD and CONNECT. */
static inline weir_recent_answer *weir_answers_find(const weir_recent_answers *recent, const char *bytes,
						    size_t length)
{
	weir_recent_answer *answer = recent->slots[weir_answers_slot(length)];
	if (answer == NULL || answer->length != length ||
	    memcmp(answer->bytes, bytes, answer->head.length) != 0)
		return NULL;
	return answer;
}

/* An answer of so many bytes was parsed: keeps its head, if fit and seen before. */
void weir_answers_keep(weir_recent_answers *recent, const weir_head *head, const weir_head_field *fields,
		       const char *bytes, size_t length);
void weir_answers_forget(weir_recent_answers *recent);

#endif
