/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_HEAD_H
#define WEIR_HTTP_HEAD_H

/*
 * The interface between parse.c, which finds lines and fields, and framing.c, which knows what they mean. Not
 * for others.
 *
 * The weir_framing functions return NULL, or a static sentence with the status to answer with in
 * head->status.
 */

#include <string.h>

#include "http/parse.h"

/* Which fields were found so far (weir_head.marks). */
enum weir_head_mark {
	WEIR_MARK_HOST = 1 << 0,           /* a Host field */
	WEIR_MARK_TARGET_HOST = 1 << 1,    /* the target names a host */
	WEIR_MARK_LENGTH = 1 << 2,         /* Content-Length */
	WEIR_MARK_CHUNKED = 1 << 3,        /* Transfer-Encoding */
	WEIR_MARK_CLOSE = 1 << 4,          /* Connection: close */
	WEIR_MARK_KEEP_ALIVE = 1 << 5,     /* Connection: keep-alive */
	WEIR_MARK_UPGRADE_OPTION = 1 << 6, /* Connection: upgrade */
	WEIR_MARK_UPGRADE_FIELD = 1 << 7,  /* Upgrade */
};

#define WEIR_FIELD_BIT(name) (1ULL << WEIR_FIELD_##name)
/* Fields that weir_framing_request_field or _answer_field must see. */
#define WEIR_FRAMING_FIELDS                                                                     \
	(WEIR_FIELD_BIT(HOST) | WEIR_FIELD_BIT(CONNECTION) | WEIR_FIELD_BIT(CONTENT_LENGTH) |   \
	 WEIR_FIELD_BIT(TRANSFER_ENCODING) | WEIR_FIELD_BIT(EXPECT) | WEIR_FIELD_BIT(UPGRADE) | \
	 WEIR_FIELD_BIT(TE))

static inline const char *weir_head_refuse(weir_head *head, uint16_t status, const char *error)
{
	head->status = status;
	return error;
}

/*
 * Parses a request whose lines before `at` have been read. at 0: none, or continue where an earlier call
 * stopped. at WEIR_SCAN_REFUSED: error and status are in head already. (In parse.c, for scanners.)
 */
weir_parse weir_parse_request_with_care(weir_head *head, const char *bytes, size_t length,
					const weir_head_limits *limits, weir_head_field *fields, size_t at);

/* The target is head->path, path_length (without query): finds its form, its host and its path. */
const char *weir_framing_target(weir_head *head, const char *bytes);
const char *weir_framing_request_field(weir_head *head, const char *bytes, const weir_head_field *field);
const char *weir_framing_answer_field(weir_head *head, const char *bytes, const weir_head_field *field);
/*
 * Calls one of these for the fields before `end` that it must see, in order. Skips `but`, which has been
 * judged already (NULL: none has).
 */
const char *weir_framing_fields(weir_head *head, const char *bytes, const weir_head_field *field,
				const weir_head_field *end, const weir_head_field *but, bool answer);
const char *weir_framing_trailer_field(weir_head *head, const weir_head_field *field);
/* At the end of a head: checks that it is complete, and finds how its body is framed. */
const char *weir_framing_request(weir_head *head);
const char *weir_framing_answer(weir_head *head, weir_method asked);

/* ---- tokens ---- */

/*
 * Whether a token equals the text, ignoring case. The text has only lower-case letters, digits and '-'. All
 * of these have 0x20 set, and setting it turns no other tchar into one of them. The parts that are compared
 * overlap, so that none extends beyond the token. length <= 24.
 */
static inline uint64_t weir_differ8(const char *token, const char *text)
{
	uint64_t x, y;
	memcpy(&x, token, 8);
	memcpy(&y, text, 8);
	return (x | 0x2020202020202020) ^ y;
}

static inline uint32_t weir_differ4(const char *token, const char *text)
{
	uint32_t x, y;
	memcpy(&x, token, 4);
	memcpy(&y, text, 4);
	return (x | 0x20202020) ^ y;
}

static inline bool weir_token_is(const char *token, const char *text, size_t length)
{
	if (length > 16)
		// cppcheck-suppress pointerOutOfBoundsCond
		return (weir_differ8(token, text) | weir_differ8(token + 8, text + 8) |
			weir_differ8(token + length - 8, text + length - 8)) == 0;
	if (length >= 8)
		// cppcheck-suppress pointerOutOfBoundsCond
		return (weir_differ8(token, text) | weir_differ8(token + length - 8, text + length - 8)) == 0;
	if (length >= 4)
		// cppcheck-suppress pointerOutOfBoundsCond
		return (weir_differ4(token, text) | weir_differ4(token + length - 4, text + length - 4)) == 0;
	for (size_t i = 0; i < length; i++)
		if ((token[i] | 0x20) != text[i])
			return false;
	return true;
}

/* ---- known names ---- */

#define WEIR_FIELD_LONGEST 19

/* As large as a vector: `mask` has the bits of the text's bytes. In WEIR_FIELD_OTHER everything is 0. */
typedef struct weir_field_text {
	char text[WEIR_FIELD_LONGEST + 1]; /* with a colon; no NUL */
	uint16_t length;                   /* without the colon */
	uint16_t id;
	uint32_t mask;
	uint32_t framing; /* its bit, if in WEIR_FRAMING_FIELDS */
} weir_field_text;

typedef struct weir_field_table {
	weir_field_text names[WEIR_FIELD_COUNT]; /* by id */
	/* by weir_field_place: the offset in `names`, in bytes, of the only candidate */
	uint16_t places[256];
} weir_field_table;

extern const weir_field_table weir_fields_known;

/* Letters are multiplied by 8, so that 0x20, the bit of the case, vanishes from a byte. length > 0. */
static inline uint8_t weir_field_place(const char *name, size_t length)
{
	return (uint8_t)(8U * ((uint8_t)name[0] + (uint8_t)name[length - 1]) + 3U * (unsigned)length);
}

static inline const weir_field_text *weir_field_candidate(const weir_field_table *known, const char *name,
							  size_t length)
{
	return (const weir_field_text *)(const void *)((const char *)known +
						       known->places[weir_field_place(name, length)]);
}

static inline weir_field_id weir_field_lookup(const char *name, size_t length)
{
	if (length - 1 >= WEIR_FIELD_LONGEST)
		return WEIR_FIELD_OTHER;
	const weir_field_text *known = weir_field_candidate(&weir_fields_known, name, length);
	return length == known->length && weir_token_is(name, known->text, length) ? known->id
										   : WEIR_FIELD_OTHER;
}

/* ---- lines ---- */

static inline bool weir_is_line_end(const char *at)
{
	return at[0] == '\r' && at[1] == '\n';
}

/* Stores the field of a line: a token of at most UINT16_MAX bytes, a colon, a value up to stop. */
static inline void weir_head_keep(weir_head_field *field, const char *bytes, size_t line, size_t colon,
				  size_t stop)
{
	size_t begin = colon + 1;
	/* Nearly all values follow one space. Only space and tab are <= ' '; the colon ends the loop. */
	begin += bytes[begin] == ' ';
	if (__builtin_expect((uint8_t)bytes[begin] <= ' ' || (uint8_t)bytes[stop - 1] <= ' ', 0)) {
		while ((uint8_t)bytes[stop - 1] <= ' ')
			stop--;
		if (begin > stop)
			begin = stop;
		while (begin < stop && (uint8_t)bytes[begin] <= ' ')
			begin++;
	}
	field->name = (uint32_t)line;
	field->value = (uint32_t)begin;
	field->value_length = (uint32_t)(stop - begin);
	field->name_length = (uint16_t)(colon - line);
	field->id = (uint16_t)weir_field_lookup(bytes + line, colon - line);
}

#endif
