/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include <errno.h>
#include <sys/random.h>

int weir_siphash_key_init(weir_siphash_key *ret_key)
{
	weir_siphash_key key;
	ssize_t got;
	do
		got = getrandom(&key, sizeof(key), 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(key))
		return got < 0 ? -errno : -EIO;
	*ret_key = key;
	return 0;
}

typedef struct state {
	uint64_t a, b, c, d;
} state;

static inline uint64_t turned(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void round_once(state *s)
{
	s->a += s->b;
	s->b = turned(s->b, 13) ^ s->a;
	s->a = turned(s->a, 32);
	s->c += s->d;
	s->d = turned(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = turned(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = turned(s->b, 17) ^ s->c;
	s->c = turned(s->c, 32);
}

static inline void absorb(state *s, uint64_t word)
{
	s->d ^= word;
	round_once(s);
	round_once(s);
	s->a ^= word;
}

/* The first `count` bytes (at most 8) as a little-endian number. */
static inline uint64_t word_of(const uint8_t *bytes, size_t count)
{
	uint64_t word = 0;
	for (size_t i = 0; i < count; i++)
		word |= (uint64_t)bytes[i] << (8 * i);
	return word;
}

static inline state begin(const weir_siphash_key *key)
{
	return (state){.a = key->k0 ^ UINT64_C(0x736f6d6570736575),
		       .b = key->k1 ^ UINT64_C(0x646f72616e646f6d),
		       .c = key->k0 ^ UINT64_C(0x6c7967656e657261),
		       .d = key->k1 ^ UINT64_C(0x7465646279746573)};
}

static inline uint64_t end(state *s, unsigned rounds)
{
	s->c ^= 0xff;
	for (unsigned i = 0; i < rounds; i++)
		round_once(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

uint64_t weir_siphash(const weir_siphash_key *key, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	state s = begin(key);
	size_t left = length;
	for (; left >= 8; left -= 8, at += 8)
		absorb(&s, word_of(at, 8));
	absorb(&s, word_of(at, left) | (uint64_t)length << 56);
	return end(&s, 4);
}

static inline void absorb_once(state *s, uint64_t word)
{
	s->d ^= word;
	round_once(s);
	s->a ^= word;
}

uint64_t weir_siphash_words(const weir_siphash_key *key, const uint64_t *words, size_t count)
{
	state s = begin(key);
	for (size_t i = 0; i < count; i++)
		absorb_once(&s, words[i]);
	absorb_once(&s, (uint64_t)count << 59); /* the number of bytes, in the highest byte */
	return end(&s, 3);
}
