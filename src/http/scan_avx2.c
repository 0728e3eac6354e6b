/* SPDX-License-Identifier: Apache-2.0 */
/* Scanners with vectors of 32 bytes. */

#include "http/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#define VECTOR(name)  avx2_##name
#define VECTOR_TARGET __attribute__((target("avx2,bmi")))

typedef __m256i vector;

VECTOR_TARGET static inline vector vector_load(const char *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

VECTOR_TARGET static inline void vector_store(char *at, vector x)
{
	_mm256_storeu_si256((__m256i *)(void *)at, x);
}

#define vector_of(name) vector_load((const char *)weir_scan_tables.name)

VECTOR_TARGET static inline uint32_t vector_bits(vector x)
{
	return (uint32_t)_mm256_movemask_epi8(x);
}

VECTOR_TARGET static inline vector vector_high(vector x)
{
	return _mm256_shuffle_epi8(vector_of(high_bits),
				   _mm256_and_si256(_mm256_srli_epi16(x, 4), vector_of(half)));
}

VECTOR_TARGET static inline uint32_t vector_other_than(vector x, vector high, vector table)
{
	return vector_bits(
		_mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(table, x), high), vector_of(zero)));
}

VECTOR_TARGET static inline uint32_t vector_dots(vector x)
{
	return vector_bits(_mm256_cmpeq_epi8(x, vector_of(dot)));
}

/* Adding 1 makes 0x7e the largest signed byte and 0x7f the smallest; only 0x20 .. 0x7e is then >= 0x21. */
VECTOR_TARGET static inline uint32_t vector_unplain(vector x)
{
	return vector_bits(_mm256_cmpgt_epi8(vector_of(above_space), _mm256_add_epi8(x, vector_of(one))));
}

VECTOR_TARGET static inline uint32_t vector_no_digit(vector x)
{
	return vector_bits(
		_mm256_cmpgt_epi8(_mm256_sub_epi8(x, vector_of(digit_least)), vector_of(digit_most)));
}

VECTOR_TARGET static inline uint32_t vector_same(vector x, const char *text)
{
	return vector_bits(_mm256_cmpeq_epi8(_mm256_or_si256(x, vector_of(lower_case)), vector_load(text)));
}

VECTOR_TARGET static inline unsigned vector_first(uint32_t bits)
{
	return _tzcnt_u32(bits);
}

#include "http/scan_vector.h"

static const weir_scanner scanner = {.name = "avx2",
				     .request = avx2_request,
				     .fields = avx2_fields,
				     .token = avx2_token,
				     .path = avx2_path,
				     .query = avx2_query,
				     .host = avx2_host,
				     .value = avx2_value};

const weir_scanner *weir_scan_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") ? &scanner : NULL;
}

#else

const weir_scanner *weir_scan_avx2(void)
{
	return NULL;
}

#endif
