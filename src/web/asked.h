/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_WEB_ASKED_H
#define WEIR_WEB_ASKED_H

/*
 * What a request for a file asks for besides its name: the fields that decide between 200, 206, 304, 412 and
 * 416, and between the encodings. Pure functions over the fields of a head, so that they can be tested
 * without a server.
 *
 *	weir_asked_look    which of them are there: one pass, and most requests need no more
 *	weir_conditional   RFC 9110 13.2.2, steps 1 to 4
 *	weir_asked_range   step 5, and 14.2
 *	weir_encoding_choose   12.5.3
 *
 * Threads: any.
 */

#include "http/parse.h"

typedef struct weir_asked {
	const char *base;
	const weir_head_field *fields;
	size_t count;
	uint32_t has; /* bits of weir_asked_bit */
} weir_asked;

static inline uint32_t weir_asked_bit(weir_field_id id)
{
	return UINT32_C(1) << (id - WEIR_FIELD_RANGE);
}

/* The fields looked for are neighbours in WEIR_KNOWN_FIELDS. */
_Static_assert(WEIR_FIELD_ACCEPT_ENCODING == WEIR_FIELD_RANGE + 6, "range ... accept-encoding");

static inline weir_asked weir_asked_look(const char *base, const weir_head_field *fields, size_t count)
{
	weir_asked asked = {.base = base, .fields = fields, .count = count};
	for (size_t i = 0; i < count; i++) {
		unsigned at = fields[i].id - (unsigned)WEIR_FIELD_RANGE;
		if (at < 7)
			asked.has |= UINT32_C(1) << at;
	}
	return asked;
}

static inline bool weir_asked_has(const weir_asked *asked, weir_field_id id)
{
	return (asked->has & weir_asked_bit(id)) != 0;
}

/* The next field of that name from *at on, which is set to the position after it; false: no more. */
bool weir_asked_next(const weir_asked *asked, weir_field_id id, size_t *at, weir_span *ret_value);
/* The value, if there is exactly one such field. */
bool weir_asked_only(const weir_asked *asked, weir_field_id id, weir_span *ret_value);

/* ---- conditions ---- */

/* What identifies a version of a representation. */
typedef struct weir_validators {
	weir_span etag;     /* strong: "..." with its quotes; empty: none */
	weir_span date;     /* Last-Modified; empty: none */
	int64_t modified_s; /* the same, in seconds */
	bool date_strong;   /* it had been unchanged for a while, so no two versions have this date */
} weir_validators;

typedef enum weir_condition {
	WEIR_CONDITION_HOLDS,
	WEIR_CONDITION_NOT_MODIFIED, /* 304 */
	WEIR_CONDITION_FAILED,       /* 412 */
} weir_condition;

/* For GET and HEAD of something that exists. now_s: for dates with a two-digit year. */
weir_condition weir_conditional(const weir_asked *asked, const weir_validators *have, int64_t now_s);

/* ---- ranges ---- */

typedef enum weir_range {
	WEIR_RANGE_WHOLE, /* not asked for, or may be ignored: 200 */
	WEIR_RANGE_PART,  /* 206 */
	WEIR_RANGE_NONE,  /* 416 */
} weir_range;

/* The value of a Range field, for a body of this length; *ret_first and *ret_count are set for a part. */
weir_range weir_range_parse(weir_span value, uint64_t length, uint64_t *ret_first, uint64_t *ret_count);
/* Range and If-Range together. For GET. */
weir_range weir_asked_range(const weir_asked *asked, const weir_validators *have, uint64_t length,
			    uint64_t *ret_first, uint64_t *ret_count);

/* ---- encodings ---- */

/* In our order of preference. X(name, token, end of the file's name) */
#define WEIR_ENCODINGS(X)       \
	X(BR, "br", ".br")      \
	X(ZSTD, "zstd", ".zst") \
	X(GZIP, "gzip", ".gz")

typedef enum weir_encoding {
	WEIR_ENCODING_IDENTITY,
#define WEIR_X(name, token, end) WEIR_ENCODING_##name,
	WEIR_ENCODINGS(WEIR_X)
#undef WEIR_X
		WEIR_ENCODING_COUNT
} weir_encoding;

weir_span weir_encoding_token(weir_encoding encoding);
const char *weir_encoding_end(weir_encoding encoding);
/* The best available one (bits 1 << encoding); identity if none is wanted, or the request refuses all. */
weir_encoding weir_encoding_choose(const weir_asked *asked, unsigned there);

#endif
