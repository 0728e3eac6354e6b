/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_SIPHASH_H
#define WEIR_BASE_SIPHASH_H

/*
 * SipHash-2-4 (Aumasson, Bernstein): a hash for keys that others choose. Without the 128 secret bits
 * nobody can find inputs that collide. Any thread; no state.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct weir_siphash_key {
	uint64_t k0, k1;
} weir_siphash_key;

/* Makes a new key from the kernel's random numbers. Returns 0 or a negative errno. */
int weir_siphash_key_init(weir_siphash_key *ret_key);
uint64_t weir_siphash(const weir_siphash_key *key, const void *bytes, size_t length);
/*
 * SipHash-1-3 of whole words: half of the work, for tables that are looked up for every request and
 * reveal nothing of the hash. Rust, Ruby and CPython use it for theirs.
 */
uint64_t weir_siphash_words(const weir_siphash_key *key, const uint64_t *words, size_t count);

#endif
