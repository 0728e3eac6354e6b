/* SPDX-License-Identifier: Apache-2.0 */
/* Scanners by vectors of 32 bytes. */

#include "http/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#define VECTOR(name)  avx2_##name
#define VECTOR_TARGET __attribute__((target("avx2,bmi")))
#define VECTOR_BYTES  32

typedef __m256i vector;

VECTOR_TARGET static inline vector vector_load(const char *at)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

VECTOR_TARGET static inline vector vector_table(const uint8_t *bits)
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)bits));
}

VECTOR_TARGET static inline vector vector_high(vector x)
{
	const vector bits = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8,
					     16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
	return _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)));
}

VECTOR_TARGET static inline uint32_t vector_other_than(vector x, vector high, vector table)
{
	vector in = _mm256_and_si256(_mm256_shuffle_epi8(table, x), high);
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(in, _mm256_setzero_si256()));
}

VECTOR_TARGET static inline uint32_t vector_dots(vector x)
{
	return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_set1_epi8('.')));
}

#include "http/scan_vector.h"

static const weir_scanner scanner = {.name = "avx2",
				     .lines = avx2_lines,
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
