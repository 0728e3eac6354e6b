/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_KEYS_BITRATE_H
#define WEIR_KEYS_BITRATE_H

/*
 * Rates of links as users write them: "10mbit", "1gbit", "2.5 Gbit/s", "1.5MB/s". The field is a uint64_t, in
 * bits per second.
 *
 * Units are bit, kbit, mbit and gbit in upper or lower case, with or without "/s"; and B/s, KB/s, MB/s and
 * GB/s, where the B is upper-case, because "mb/s" could mean either. All are decimal, as links are sold: a
 * mbit is 1,000,000 bits. The unit is required. Nothing wraps: a rate must be within the bounds.
 *
 * Threads: any; no state.
 */

#include <stddef.h>
#include <stdint.h>

#include <weir/keys.h>

/* A row's bounds, if it has none of its own, in bits per second. */
#define WEIR_BITRATE_LEAST UINT64_C(8000)
#define WEIR_BITRATE_MOST  UINT64_C(400000000000)

/* For rows: .form = &weir_bitrate_form. The row's own bounds (min, max) apply if it has any. */
extern const weir_key_form weir_bitrate_form;

/* Reads a rate between the default bounds. -EINVAL with weir_error, which says what is accepted. */
int weir_bitrate_read(const char *text, uint64_t *ret_bits_per_s);
/*
 * Prints a rate so that weir_bitrate_read reads it back exactly, in the largest unit that needs at most three
 * decimals: "1.5gbit". Returns `text`. 32 bytes always suffice.
 */
char *weir_bitrate_print(char *text, size_t size, uint64_t bits_per_s);

#endif
