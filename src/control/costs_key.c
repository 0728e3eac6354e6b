/* SPDX-License-Identifier: Apache-2.0 */
#include "control/costs_key.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define UUID_LENGTH  36u
#define HEX_LEAST    8u
#define TOKEN_LEAST  16u
#define TOKEN_DIGITS 2u

/* Types of bytes, as bits, so that one pass tells what a segment consists of. */
enum {
	DIGIT = 1,
	HEX_LOWER = 2,
	HEX_UPPER = 4,
	LOWER = 8, /* the other letters */
	UPPER = 16,
	DASH = 32,
	POINT = 64,
	MARK = 128,  /* punctuation in tokens */
	OTHER = 256, /* printable, but in no identifier */
	FOREIGN = 512,
	END_OF_SEGMENT = 1024,
};

static const uint16_t sorts[256] = {
	[0x00 ... 0x20] = FOREIGN,
	['!'] = OTHER,
	['"'] = FOREIGN,
	['#'] = END_OF_SEGMENT,
	['$' ... '*'] = OTHER,
	['+'] = MARK,
	[','] = POINT,
	['-'] = DASH,
	['.'] = POINT,
	['/'] = END_OF_SEGMENT,
	['0' ... '9'] = DIGIT,
	[':'] = POINT,
	[';'] = END_OF_SEGMENT,
	['<'] = OTHER,
	['='] = MARK,
	['>'] = OTHER,
	['?'] = END_OF_SEGMENT,
	['@'] = OTHER,
	['A' ... 'F'] = HEX_UPPER,
	['G' ... 'Z'] = UPPER,
	['['] = OTHER,
	['\\'] = FOREIGN,
	[']' ... '^'] = OTHER,
	['_'] = DASH,
	['`'] = OTHER,
	['a' ... 'f'] = HEX_LOWER,
	['g' ... 'z'] = LOWER,
	['{' ... '}'] = OTHER,
	['~'] = MARK,
	[0x7f ... 0xff] = FOREIGN,
};

typedef struct segment {
	const uint8_t *at;
	size_t length;
	unsigned seen;
} segment;

static bool is_uuid(const segment *s)
{
	if (s->length != UUID_LENGTH || (s->seen & ~(unsigned)(DIGIT | HEX_LOWER | HEX_UPPER | DASH)) != 0)
		return false;
	for (size_t i = 0; i < UUID_LENGTH; i++)
		if ((i == 8 || i == 13 || i == 18 || i == 23) != (s->at[i] == '-'))
			return false;
	return true;
}

static bool is_token(const segment *s)
{
	bool both = (s->seen & (LOWER | HEX_LOWER)) != 0 && (s->seen & (UPPER | HEX_UPPER)) != 0;
	unsigned digits = 0;
	if (s->length < TOKEN_LEAST || (s->seen & (POINT | OTHER | FOREIGN)) != 0 ||
	    (!both && (s->seen & DASH) != 0))
		return false;
	for (size_t i = 0; i < s->length; i++)
		digits += sorts[s->at[i]] == DIGIT;
	return digits >= TOKEN_DIGITS;
}

static bool is_identifier(const segment *s)
{
	if ((s->seen & DIGIT) == 0)
		return false;
	if ((s->seen & ~(unsigned)(DIGIT | DASH | POINT)) == 0)
		return sorts[s->at[0]] == DIGIT;
	if (s->length >= HEX_LEAST && (s->seen & ~(unsigned)(DIGIT | HEX_LOWER | HEX_UPPER)) == 0)
		return true;
	return is_uuid(s) || is_token(s);
}

/* Skips what follows a segment up to the next slash: parameters, or the end of the path. */
static const uint8_t *skip_parameters(const uint8_t *at, const uint8_t *end)
{
	if (*at == ';')
		while (at < end && *at != '/' && *at != '?' && *at != '#')
			at++;
	return at < end && *at == '/' ? at : end;
}

/* Room is always left for "/..", so that a truncated path can say so. */
#define ROOM (WEIR_COSTS_TEXT - 3u)

/* Copies as much of a segment as there is room for, and classifies all of it. */
static inline size_t copy_segment(char *to, size_t room, const uint8_t *at, const uint8_t *end, segment *ret)
{
	size_t most = (size_t)(end - at) < room ? (size_t)(end - at) : room, i = 0;
	unsigned seen = 0;
	for (; i < most; i++) {
		unsigned sort = sorts[at[i]];
		if (sort == END_OF_SEGMENT)
			break;
		to[i] = (char)at[i];
		seen |= sort;
	}
	size_t copied = i;
	for (; i == most && at + most < end && sorts[at[most]] != END_OF_SEGMENT; i = ++most)
		seen |= sorts[at[most]];
	*ret = (segment){.at = at, .length = i, .seen = seen};
	return copied;
}

static __attribute__((noinline)) void replace_foreign(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (sorts[(uint8_t)text[i]] == FOREIGN)
			text[i] = '!';
}

static void pad(weir_cost_key *key)
{
	memset(key->text + key->length, 0, 8);
}

/* ---- the fast path, for most paths: bytes are classified 16 at a time ---- */

#define SHORT_MOST 64u

#if defined(__SSE2__)

/* One bit per byte. */
typedef struct masks {
	uint64_t slash, digit, odd;
} masks;

static inline __m128i is(__m128i bytes, char wanted)
{
	return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted));
}

/* FOREIGN, or an end of a segment other than a slash. */
static inline __m128i is_odd(__m128i bytes)
{
	/* As signed numbers, bytes from 0x80 on are negative. */
	__m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x21));
	__m128i quotes = _mm_or_si128(is(bytes, '"'), is(bytes, '\\'));
	__m128i ends = _mm_or_si128(_mm_or_si128(is(bytes, '?'), is(bytes, '#')), is(bytes, ';'));
	return _mm_or_si128(_mm_or_si128(low, is(bytes, 0x7f)), _mm_or_si128(quotes, ends));
}

static inline __m128i is_digit(__m128i bytes)
{
	__m128i from_0 = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
	return _mm_cmpeq_epi8(_mm_min_epu8(from_0, _mm_set1_epi8(9)), from_0);
}

static inline masks look_at(const uint8_t bytes[static SHORT_MOST], size_t length)
{
	masks m = {0};
	for (size_t i = 0; i < length; i += 16) {
		__m128i part = _mm_load_si128((const __m128i *)(const void *)(bytes + i));
		m.slash |= (uint64_t)(uint32_t)_mm_movemask_epi8(is(part, '/')) << i;
		m.digit |= (uint64_t)(uint32_t)_mm_movemask_epi8(is_digit(part)) << i;
		m.odd |= (uint64_t)(uint32_t)_mm_movemask_epi8(is_odd(part)) << i;
	}
	m.odd &= length < 64 ? (UINT64_C(1) << length) - 1 : UINT64_MAX; /* the rest is zero */
	return m;
}

/* The segment around the first digit. */
static inline segment segment_at(const uint8_t *bytes, size_t length, masks m)
{
	unsigned at = (unsigned)__builtin_ctzll(m.digit);
	unsigned start = 64u - (unsigned)__builtin_clzll(m.slash & ((UINT64_C(1) << at) - 1));
	uint64_t behind = m.slash >> at;
	size_t end = behind != 0 ? at + (unsigned)__builtin_ctzll(behind) : length;
	segment s = {.at = bytes + start, .length = end - start};
	for (size_t i = 0; i < s.length; i++)
		s.seen |= sorts[s.at[i]];
	return s;
}

/* Copies the path with "*" in place of identifiers, which contain digits. */
static void copy_folded(weir_cost_key *key, const uint8_t *bytes, size_t length, masks m)
{
	char *to = key->text;
	const uint8_t *from = bytes;
	while (m.digit != 0) {
		segment s = segment_at(bytes, length, m);
		size_t end = (size_t)(s.at - bytes) + s.length;
		if (is_identifier(&s)) {
			memcpy(to, from, (size_t)(s.at - from));
			to += s.at - from;
			*to++ = '*';
			from = bytes + end;
		}
		m.digit &= end < 64 ? UINT64_MAX << end : 0;
	}
	size_t rest = (size_t)(bytes + length - from);
	memcpy(to, from, rest);
	key->length = (uint8_t)(to + rest - key->text);
	pad(key);
}

/* false: not suited to the fast path. */
static bool fold_short(weir_cost_key *key, const char *path, size_t length)
{
	_Alignas(16) uint8_t bytes[SHORT_MOST] = {0};
	if (length < 2 || length > SHORT_MOST || path[0] != '/')
		return false;
	memcpy(bytes, path, length);
	masks m = look_at(bytes, length);
	if (m.odd != 0 || (m.slash & m.slash << 1) != 0)
		return false;
	if (bytes[length - 1] == '/') {
		bytes[--length] = '\0';
		m.slash &= ~(UINT64_C(1) << length);
	}
	if ((unsigned)__builtin_popcountll(m.slash) > WEIR_COST_SEGMENTS)
		return false;
	if (m.digit != 0) {
		copy_folded(key, bytes, length, m);
		return true;
	}
	memcpy(key->text, bytes, SHORT_MOST);
	key->length = (uint8_t)length;
	pad(key);
	return true;
}

#else

static bool fold_short(weir_cost_key *key, const char *path, size_t length)
{
	return false;
}

#endif

/* ---- any path ---- */

void weir_cost_key_fold(weir_cost_key *ret_key, uint32_t route, uint8_t method, const char *path,
			size_t length)
{
	ret_key->route = route;
	ret_key->method = method;
	ret_key->sort = WEIR_COSTS_KIND;
	ret_key->zero = 0;
	if (!fold_short(ret_key, path, length))
		weir_cost_key_fold_any(ret_key, path, length);
}

void weir_cost_key_fold_any(weir_cost_key *key, const char *path, size_t length)
{
	const uint8_t *at = (const uint8_t *)path, *end = at + length;
	size_t used = 1; /* including the slash before the next segment */
	unsigned segments = 0;
	key->text[0] = '/';
	while (at < end) {
		segment s;
		if (*at == '/') {
			at++;
			continue;
		}
		size_t room = segments < WEIR_COST_SEGMENTS && used < ROOM ? ROOM - used : 0;
		char *to = key->text + used;
		size_t copied = copy_segment(to, room, at, end, &s);
		at += s.length;
		if (at < end && *at != '/')
			at = skip_parameters(at, end);
		if (s.length == 0)
			continue;
		if (room > 0 && is_identifier(&s)) {
			to[0] = '*';
			copied = s.length = 1;
		}
		if (copied < s.length) {
			to[0] = to[1] = '.';
			used += 3;
			break;
		}
		if ((s.seen & FOREIGN) != 0)
			replace_foreign(to, copied);
		to[copied] = '/';
		used += copied + 1;
		segments++;
	}
	key->length = (uint8_t)(used > 1 ? used - 1 : 1);
	pad(key);
}

void weir_cost_key_split(weir_cost_key *key)
{
	key->segments = 0;
	for (unsigned i = 0; i + 1 < key->length && key->segments <= WEIR_COST_SEGMENTS; i++)
		if (key->text[i] == '/')
			key->start[key->segments++] = (uint8_t)(i + 1);
}

void weir_cost_key_prefix(const weir_cost_key *key, unsigned at, weir_cost_key *ret_prefix)
{
	*ret_prefix = *key;
	ret_prefix->sort = WEIR_COSTS_PREFIX;
	ret_prefix->length = key->start[at];
	ret_prefix->segments = (uint8_t)at;
	pad(ret_prefix);
}

void weir_cost_key_star(weir_cost_key *key, unsigned at)
{
	unsigned from = key->start[at];
	unsigned to = at + 1 < key->segments ? key->start[at + 1] - 1u : key->length;
	unsigned less = to - from - 1;
	if (to == from)
		return;
	key->text[from] = '*';
	memmove(key->text + from + 1, key->text + to, key->length - to);
	key->length -= (uint8_t)less;
	for (unsigned i = at + 1; i < key->segments; i++)
		key->start[i] -= (uint8_t)less;
	pad(key);
}
