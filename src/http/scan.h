/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SCAN_H
#define WEIR_HTTP_SCAN_H

/*
 * Scanners: how far bytes of one kind go, and heads as nearly everybody writes them. A scanner is the same few functions for one kind of processor; the best one that works here is
 * chosen at the first use. All give the same results; tests compare them byte by byte.
 *
 * Usual heads: `request` and `fields` take whole lines only, of one plain shape, and stop before the first that is not: what is malformed, incomplete or merely odd is none of their business, and
 * parse.c reads it with care. So they need no way to say what is wrong, and how much they take makes no difference to any result, only to what it costs.
 *
 * Memory: a scanner reads nothing outside of bytes[0 .. end). It may read before `at`: so the last few bytes are looked at with a full vector too.
 *
 * Threads: any.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "http/parse.h"

/* The first place from at on whose byte is not of the kind; end: there is none. at <= end. */
typedef size_t weir_scan_fn(const char *bytes, size_t at, size_t end);

#define WEIR_SCAN_REFUSED SIZE_MAX

typedef struct weir_scanner {
	const char *name;
	/* weir_parse_request for a head that is as weir_head_init leaves it. What it does not take goes to weir_parse_request_with_care. */
	weir_parse (*request)(weir_head *head, const char *bytes, size_t length,
			      const weir_head_limits *limits, weir_head_field *fields);
	/*
	 * Fields from the line at `at` on, behind those that head has: each is kept, and judged by what it means for a message (framing.c). Returns where the first line begins that was not
	 * taken, or WEIR_SCAN_REFUSED: error and status are in head.
	 */
	size_t (*fields)(weir_head *head, const char *bytes, size_t at, size_t end,
			 const weir_head_limits *limits, weir_head_field *fields, bool answer);
	weir_scan_fn *token; /* RFC 9110 tchar */
	weir_scan_fn *path;  /* 0x21 .. 0x7e but '#' and '?' */
	weir_scan_fn *query; /* 0x21 .. 0x7e but '#' */
	weir_scan_fn *host;  /* letters, digits, "-_~", and dots but at the beginning or after another */
	weir_scan_fn *value; /* HT, 0x20 .. 0x7e, 0x80 .. 0xff */
} weir_scanner;

extern const weir_scanner weir_scan_plain;
/* NULL: the processor cannot. */
const weir_scanner *weir_scan_sse42(void);
const weir_scanner *weir_scan_avx2(void);

/*
 * What vectors are compared with. In memory and not in the code: a compiler that sees a constant makes it anew, in three instructions, where it could load it in none of its own.
 *
 * The first five are sets of bytes: each has a byte for each low half of a byte, whose bit h says whether (h << 4 | low) is in. So a set is any of ASCII bytes, and other bytes are in none. What values consist of
 * has other bytes too, so its table has those that they do not have. All have 16 bytes, twice.
 */
typedef struct weir_scan_table {
	_Alignas(32) uint8_t token[32];
	uint8_t path[32], query[32], host[32], control[32];
	uint8_t high_bits[32]; /* of the high half of a byte the bit that stands for it in a set */
	uint8_t half[32], zero[32], one[32], above_space[32], lower_case[32], dot[32];
	uint8_t digit_least[32],
		digit_most[32]; /* what moves '0' to the smallest signed byte; where '9' is then */
} weir_scan_table;

extern const weir_scan_table weir_scan_tables;

/* Chooses the best one. */
const weir_scanner *weir_scan_choose(void);
/* For tests: this one from now on. */
void weir_scan_use(const weir_scanner *scanner);

extern _Atomic(const weir_scanner *) weir_scan_chosen;

static inline const weir_scanner *weir_scan(void)
{
	const weir_scanner *scanner = atomic_load_explicit(&weir_scan_chosen, memory_order_relaxed);
	return __builtin_expect(scanner != NULL, 1) ? scanner : weir_scan_choose();
}

#endif
