/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_SIPHASH_H
#define WEIR_BASE_SIPHASH_H

/*
 * SipHash-2-4 (Aumasson, Bernstein): a hash for keys that somebody else chooses. Who does not know the 128 secret bits cannot find inputs that
 * collide. Any thread; no state.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct weir_siphash_key {
	uint64_t k0, k1;
} weir_siphash_key;

/* A new one from the kernel's random numbers. 0 or a negative errno. */
int weir_siphash_key_init(weir_siphash_key *ret_key);
uint64_t weir_siphash(const weir_siphash_key *key, const void *bytes, size_t length);
/*
 * SipHash-1-3 of whole words: half of the work, for tables that are asked for every request and give nothing of the hash away. Rust, Ruby and CPython have it for theirs.
 */
uint64_t weir_siphash_words(const weir_siphash_key *key, const uint64_t *words, size_t count);

#endif
