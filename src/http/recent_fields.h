/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_RECENT_FIELDS_H
#define WEIR_HTTP_RECENT_FIELDS_H

/*
 * The fields of recent requests, and what the parser made of them. Requests of one client, and of clients
 * of one kind, often differ in their first line only. If the bytes after that line have been parsed before,
 * the result is the same, but for where it begins.
 *
 * A block is all bytes after the first line, with the empty line. It is kept if
 * - it is of the usual form, and all of what was received with it, so that its length is known in advance;
 * - it says nothing about a body, an upgrade or the end of the connection;
 * - it has no Cookie and no Authorization. So how long a request takes tells nothing about others' secrets;
 * - it has come twice without another in between that has the same slot. So blocks that do not come again
 *   cost little.
 *
 * All bytes are compared, so a client that makes blocks share a slot only loses the benefit. Memory is
 * bounded by the number of slots.
 *
 * Threads: one at a time; each loop has its own.
 */

#include <string.h>

#include "http/parse.h"

#define WEIR_RECENT_SLOTS  16u
#define WEIR_RECENT_BYTES  1516u /* of a block */
#define WEIR_RECENT_FIELDS 32u   /* of a block */

typedef struct weir_recent_block {
	uint32_t length; /* of the bytes; 0: none are kept */
	uint32_t missed; /* the hash of the last block that was not found here */
	uint16_t field_count;
	uint8_t marks, flags;       /* of the head */
	uint32_t host, host_length; /* places are counted from the start of the block */
	weir_head_field fields[WEIR_RECENT_FIELDS];
	char bytes[WEIR_RECENT_BYTES];
} weir_recent_block;

_Static_assert(sizeof(weir_recent_block) == 2048, "a slot is found by a shift");

/* Initially all zero. */
typedef struct weir_recent_fields {
	weir_recent_block slots[WEIR_RECENT_SLOTS];
} weir_recent_fields;

#define WEIR_RECENT_LEAST 16u /* bytes that the hash looks at */

/* length >= WEIR_RECENT_LEAST. It is not keyed: what shares a slot is only parsed. */
static inline uint32_t weir_recent_hash(const char *block, size_t length)
{
	uint64_t middle, last;
	memcpy(&middle, block + length / 2 - 4, 8);
	memcpy(&last, block + length - 12, 8); /* of the last line */
	return (uint32_t)((middle * 3 ^ last ^ length << 48) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The same of all bytes, for what may differ anywhere. */
static inline uint32_t weir_recent_hash_all(const char *bytes, size_t length)
{
	uint64_t hash = length, word;
	for (size_t i = 0; i + 8 < length; i += 8) {
		memcpy(&word, bytes + i, 8);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	memcpy(&word, bytes + length - 8, 8);
	return (uint32_t)((hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static inline weir_recent_block *weir_recent_slot(weir_recent_fields *recent, uint32_t hash)
{
	return &recent->slots[hash / (UINT32_MAX / WEIR_RECENT_SLOTS + 1)];
}

/*
 * Completes a head whose first line is the usual one and ends before `at`. The block extends to `end`. false:
 * it is not known, and nothing has changed.
 */
static inline bool weir_recent_take(weir_recent_fields *recent, weir_head *head, const char *bytes, size_t at,
				    size_t end, const weir_head_limits *limits, weir_head_field *fields)
{
	size_t length = end - at;
	if (length < WEIR_RECENT_LEAST)
		return false;
	const weir_recent_block *block = weir_recent_slot(recent, weir_recent_hash(bytes + at, length));
	if (block->length != length || block->field_count > limits->fields ||
	    memcmp(block->bytes, bytes + at, length) != 0)
		return false;
	/* Two places at once: they are the first two words of a field, and stay within 32 bits. */
	uint64_t shift = (uint64_t)at << 32 | at, places;
	for (unsigned i = 0; i < block->field_count; i++) {
		fields[i] = block->fields[i];
		memcpy(&places, &fields[i], sizeof(places));
		places += shift;
		__asm__("" : "+r"(places)); /* few fields: not worth a loop of vectors */
		memcpy(&fields[i], &places, sizeof(places));
	}
	head->field_count = block->field_count;
	head->marks = block->marks;
	head->flags = block->flags;
	head->host = block->host + (uint32_t)at;
	head->host_length = block->host_length;
	head->length = (uint32_t)end;
	return true;
}

/* A head was parsed, and has `at` bytes before its fields: keeps these, if fit and seen before. */
void weir_recent_keep(weir_recent_fields *recent, const weir_head *head, const char *bytes, size_t at,
		      const weir_head_field *fields);

#endif
