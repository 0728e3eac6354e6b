/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_SCAN_H
#define WEIR_HTTP_SCAN_H

/*
 * Scanners: how far bytes of one kind go. A scanner is the same few functions for one kind of processor; the best one that works here is chosen at the first
 * use. All give the same results; tests compare them byte by byte.
 *
 * Memory: a scanner reads nothing outside of bytes[0 .. end). It may read before `at`: so the last few bytes are looked at with a full vector too.
 *
 * Threads: any.
 */

#include <stdatomic.h>
#include <stddef.h>

#include "http/parse.h"

/* The first place from at on whose byte is not of the kind; end: there is none. at <= end. */
typedef size_t weir_scan_fn(const char *bytes, size_t at, size_t end);

typedef struct weir_scanner {
	const char *name;
	/*
	 * Keeps the fields of whole lines (a token of at most UINT16_MAX bytes, a colon, a value, CRLF) from at on, as long as there are any and room is left. Returns where the first
	 * line begins that is none, or is not kept.
	 */
	size_t (*lines)(const char *bytes, size_t at, size_t end, weir_head_field *fields, size_t room,
			size_t *ret_count);
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
