/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

/*
 * Values that people write: on command lines, in configurations and in scenario files.
 *
 * Every reader accepts any bytes up to the first NUL, with spaces around the value. It returns 0, or
 * -EINVAL with a sentence in weir_error that says what would be accepted; then *ret is untouched. NULL
 * reads as "". The whole text must be valid, and the value must fit: nothing wraps, nothing saturates.
 * The locale has no influence.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * "200ms", "1.5s", "20 us", "2m": ns, us (µs), ms, s, m (min), h. The unit is required. Exact: the
 * decimal as written, rounded to the nearest ns. A time that is not zero but less than a nanosecond is
 * refused, because 0 tends to mean something else.
 */
int weir_text_time(const char *text, uint64_t *ret_ns);
/*
 * "64KB", "1.5 MB", "200", "0": B, KB, MB, GB, TB and, with the same meaning, K, KiB and so on, in upper
 * or lower case. All are binary: a KB is 1024 bytes, as in the configurations of other servers. Exact, to
 * whole bytes; a number alone counts bytes.
 */
int weir_text_size(const char *text, uint64_t *ret_bytes);
/* "12", "-0.5", ".5", "1e6": the nearest double; no infinities, no hexadecimals. */
int weir_text_number(const char *text, double *ret_number);
/* "12": a whole number in decimal digits. */
int weir_text_count(const char *text, uint32_t *ret_count);
/*
 * "p90", "99.9%", ".999": more than 0 and less than 1. A number of 1 or more without "p" or "%" is
 * ambiguous and refused.
 */
int weir_text_percentile(const char *text, double *ret_fraction);
/* "on", "off", and the alternatives yes, no, true, false. */
int weir_text_switch(const char *text, bool *ret_on);

/* The unit in a text that weir_text_time accepts: "ms"; "" for any other text. */
const char *weir_text_time_unit(const char *text);
/*
 * Prints a time so that weir_text_time reads it back exactly, in this unit if possible (ns, us, ms, s),
 * otherwise in the largest of the units that need the fewest digits. Returns `text`. 32 bytes always
 * suffice.
 */
char *weir_text_print_time(char *text, size_t size, uint64_t ns, const char *unit);
/*
 * Prints a size so that weir_text_size reads it back exactly, in the largest unit that needs no fraction.
 * Returns `text`. 32 bytes always suffice.
 */
char *weir_text_print_size(char *text, size_t size, uint64_t bytes);
/* Prints a fraction as "p99.9"; returns `text`. 32 bytes always suffice. */
char *weir_text_print_percentile(char *text, size_t size, double fraction);
/*
 * Makes the text fit for an error message: bytes that are not printable ASCII become '?', and a text that
 * is too long ends in "...". Returns `quoted`.
 */
char *weir_text_quote(char *quoted, size_t size, const char *text);
/* Removes the spaces and tabs around a text, in place. */
char *weir_text_trim(char *text);

/* Returns the name at index `at` of a list, NULL at its end. */
typedef const char *weir_text_name_at(const void *list, size_t at);
/*
 * The name that was probably meant: the first that begins with the typed text, or that is at most two
 * typing errors away (one, if it is shorter than four letters); NULL: none.
 */
const char *weir_text_nearest(const char *typed, weir_text_name_at *name_at, const void *list);

#endif
