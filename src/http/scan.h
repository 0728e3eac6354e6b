/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SCAN_H
#define WEIR_HTTP_SCAN_H

/*
 * Scanners find how far bytes of one kind extend, and parse heads of the usual form. A scanner is a set of
 * functions for one kind of processor; the best available one is chosen at the first use. All give the same
 * results; tests compare them byte by byte.
 *
 * Usual heads: `request` and `fields` take only complete lines of one plain shape. They stop before the first
 * line that is malformed, incomplete or merely odd, and parse.c reads it carefully. So they need no errors of
 * syntax, and how much they take changes only the cost, never the result.
 *
 * Memory: a scanner reads nothing outside of bytes[0 .. end). It may read before `at`, so that it can use a
 * full vector for the last bytes too.
 *
 * Threads: any.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "http/parse.h"

/* The first index, from `at` on, whose byte is not of the kind; end: there is none. at <= end. */
typedef size_t weir_scan_fn(const char *bytes, size_t at, size_t end);

#define WEIR_SCAN_REFUSED SIZE_MAX

typedef struct weir_scanner {
	const char *name;
	/*
	 * weir_parse_request for a head fresh from weir_head_init. The rest goes to
	 * weir_parse_request_with_care. recent: as in weir_parse_request_recent; NULL: none.
	 */
	weir_parse (*request)(weir_head *head, const char *bytes, size_t length,
			      const weir_head_limits *limits, weir_head_field *fields,
			      struct weir_recent_fields *recent);
	/*
	 * Stores the fields from the line at `at` on, after those in head, and judges what they mean
	 * (framing.c). Returns the start of the first line that was not taken, or WEIR_SCAN_REFUSED: error
	 * and status are in head.
	 */
	size_t (*fields)(weir_head *head, const char *bytes, size_t at, size_t end,
			 const weir_head_limits *limits, weir_head_field *fields, bool answer);
	weir_scan_fn *token; /* RFC 9110 tchar */
	weir_scan_fn *path;  /* 0x21 .. 0x7e except '#' and '?' */
	weir_scan_fn *query; /* 0x21 .. 0x7e except '#' */
	weir_scan_fn *host;  /* letters, digits, "-_~", and dots, except at the start or after another dot */
	weir_scan_fn *value; /* HT, 0x20 .. 0x7e, 0x80 .. 0xff */
} weir_scanner;

extern const weir_scanner weir_scan_plain;
/* NULL: the processor does not support it. */
const weir_scanner *weir_scan_sse42(void);
const weir_scanner *weir_scan_avx2(void);

/*
 * Constants for vectors. They are in memory, because a compiler that sees a constant rebuilds it in three
 * instructions, where a load can be part of another instruction.
 *
 * The first five are sets of ASCII bytes. Each has an entry per low half of a byte, in which bit h says
 * whether (h << 4 | low) is in the set. Bytes that are not ASCII are in no set. Values may contain such
 * bytes, so `control` is the set of bytes that values may not contain. All sets have 16 entries, repeated
 * once.
 */
typedef struct weir_scan_table {
	_Alignas(32) uint8_t token[32];
	uint8_t path[32], query[32], host[32], control[32];
	uint8_t high_bits[32]; /* by the high half of a byte: its bit in the entries of a set */
	uint8_t half[32], zero[32], one[32], above_space[32], lower_case[32], dot[32];
	/* subtracting digit_least makes '0' the smallest signed byte; digit_most is then '9' */
	uint8_t digit_least[32], digit_most[32];
} weir_scan_table;

extern const weir_scan_table weir_scan_tables;

/* Chooses the best scanner. */
const weir_scanner *weir_scan_choose(void);
/* For tests: uses this one from now on. */
void weir_scan_use(const weir_scanner *scanner);

extern _Atomic(const weir_scanner *) weir_scan_chosen;

static inline const weir_scanner *weir_scan(void)
{
	const weir_scanner *scanner = atomic_load_explicit(&weir_scan_chosen, memory_order_relaxed);
	return __builtin_expect(scanner != NULL, 1) ? scanner : weir_scan_choose();
}

#endif
