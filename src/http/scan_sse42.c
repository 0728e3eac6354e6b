/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanners with vectors of 16 bytes. The string instructions of SSE4.2 are slower than a shuffle (SSSE3),
 * which every processor with SSE4.2 has.
 */

#include "http/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#define VECTOR(name)  sse42_##name
#define VECTOR_TARGET __attribute__((target("sse4.2")))

/* Two of 16 bytes, so that scan_vector.h always sees 32. */
typedef struct vector {
	__m128i low, high;
} vector;

VECTOR_TARGET static inline vector vector_load(const char *at)
{
	return (vector){_mm_loadu_si128((const __m128i *)(const void *)at),
			_mm_loadu_si128((const __m128i *)(const void *)(at + 16))};
}

VECTOR_TARGET static inline void vector_store(char *at, vector x)
{
	_mm_storeu_si128((__m128i *)(void *)at, x.low);
	_mm_storeu_si128((__m128i *)(void *)(at + 16), x.high);
}

/* Constants are the same in both halves. */
#define half_of(name)   _mm_load_si128((const __m128i *)(const void *)weir_scan_tables.name)
#define vector_of(name) vector_load((const char *)weir_scan_tables.name)

VECTOR_TARGET static inline uint32_t vector_bits(__m128i low, __m128i high)
{
	return (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high) << 16;
}

VECTOR_TARGET static inline __m128i high_of(__m128i x)
{
	return _mm_shuffle_epi8(half_of(high_bits), _mm_and_si128(_mm_srli_epi16(x, 4), half_of(half)));
}

VECTOR_TARGET static inline vector vector_high(vector x)
{
	return (vector){high_of(x.low), high_of(x.high)};
}

VECTOR_TARGET static inline __m128i other_than(__m128i x, __m128i high, __m128i table)
{
	return _mm_cmpeq_epi8(_mm_and_si128(_mm_shuffle_epi8(table, x), high), half_of(zero));
}

VECTOR_TARGET static inline uint32_t vector_other_than(vector x, vector high, vector table)
{
	return vector_bits(other_than(x.low, high.low, table.low), other_than(x.high, high.high, table.high));
}

VECTOR_TARGET static inline uint32_t vector_dots(vector x)
{
	return vector_bits(_mm_cmpeq_epi8(x.low, half_of(dot)), _mm_cmpeq_epi8(x.high, half_of(dot)));
}

/* Adding 1 makes 0x7e the largest signed byte and 0x7f the smallest; only 0x20 .. 0x7e is then >= 0x21. */
VECTOR_TARGET static inline uint32_t vector_unplain(vector x)
{
	return vector_bits(_mm_cmpgt_epi8(half_of(above_space), _mm_add_epi8(x.low, half_of(one))),
			   _mm_cmpgt_epi8(half_of(above_space), _mm_add_epi8(x.high, half_of(one))));
}

VECTOR_TARGET static inline __m128i no_digit(__m128i x)
{
	return _mm_cmpgt_epi8(_mm_sub_epi8(x, half_of(digit_least)), half_of(digit_most));
}

VECTOR_TARGET static inline uint32_t vector_no_digit(vector x)
{
	return vector_bits(no_digit(x.low), no_digit(x.high));
}

VECTOR_TARGET static inline uint32_t vector_same(vector x, const char *text)
{
	vector known = vector_load(text);
	return vector_bits(_mm_cmpeq_epi8(_mm_or_si128(x.low, half_of(lower_case)), known.low),
			   _mm_cmpeq_epi8(_mm_or_si128(x.high, half_of(lower_case)), known.high));
}

VECTOR_TARGET static inline unsigned vector_first(uint32_t bits)
{
	return bits != 0 ? (unsigned)__builtin_ctz(bits) : 32;
}

#include "http/scan_vector.h"

static const weir_scanner scanner = {.name = "sse4.2",
				     .request = sse42_request,
				     .fields = sse42_fields,
				     .token = sse42_token,
				     .path = sse42_path,
				     .query = sse42_query,
				     .host = sse42_host,
				     .value = sse42_value};

const weir_scanner *weir_scan_sse42(void)
{
	return __builtin_cpu_supports("sse4.2") ? &scanner : NULL;
}

#else

const weir_scanner *weir_scan_sse42(void)
{
	return NULL;
}

#endif
