/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_COSTS_KEY_H
#define WEIR_CONTROL_COSTS_KEY_H

/*
 * The key of a kind of request: route, method and folded path. The first bytes of the struct are hashed.
 *
 * Folding. Empty segments are omitted, so "/a", "/a/" and "//a" are the same. Everything from "?" or "#"
 * on is omitted, and in a segment everything from ";" on. A segment is an identifier, and becomes "*", if
 * it has a digit and is
 *  a number      a digit first, then digits and - _ . , :  42, 2024-01-05, 10.0.0.1
 *  hexadecimal   8 or more of 0-9 a-f A-F
 *  a UUID
 *  a token       16 or more letters, digits, - _ = ~ +, with at least two digits, and either both
 *                cases or no - and _
 * Bytes that are not printable ASCII, and \ and ", become "!". Paths of more than 8 segments, or too long
 * to fit, end in "/..".
 *
 * Threads: pure functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/costs.h"

#define WEIR_COST_SEGMENTS 8u

typedef struct weir_cost_key {
	_Alignas(8) uint32_t route;
	uint8_t method;
	uint8_t sort;   /* weir_costs_sort */
	uint8_t length; /* of text; at most WEIR_COSTS_TEXT */
	uint8_t zero;
	char text[WEIR_COSTS_TEXT + 8]; /* padded with zeroes to the end of its last word */
	/* not hashed; filled in by weir_cost_key_split */
	uint8_t segments;
	/* Offset of each segment in text; the prefix before it is text[0 .. start). */
	uint8_t start[WEIR_COST_SEGMENTS + 1];
} weir_cost_key;

/* Makes a kind's key, not split. path may contain any bytes. */
void weir_cost_key_fold(weir_cost_key *ret_key, uint32_t route, uint8_t method, const char *path,
			size_t length);
/* The slow path of it, for any path: sets text and length. */
void weir_cost_key_fold_any(weir_cost_key *key, const char *path, size_t length);
/* Finds the segments. */
void weir_cost_key_split(weir_cost_key *key);
/* Makes the key of the prefix before segment number `at`. */
void weir_cost_key_prefix(const weir_cost_key *key, unsigned at, weir_cost_key *ret_prefix);
/* Replaces segment number `at` by "*". */
void weir_cost_key_star(weir_cost_key *key, unsigned at);

static inline uint64_t weir_cost_key_hash(const weir_cost_key *key, const weir_siphash_key *secret)
{
	return weir_siphash_words(secret, (const uint64_t *)(const void *)key, 1u + (key->length + 7u) / 8);
}

#endif
