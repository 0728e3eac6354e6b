/* SPDX-License-Identifier: Apache-2.0 */
/* Scanners by vectors of 16 bytes. The string instructions of SSE4.2 are slower than a shuffle (SSSE3), which every processor with SSE4.2 has. */

#include "http/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#define VECTOR(name)  sse42_##name
#define VECTOR_TARGET __attribute__((target("sse4.2")))
#define VECTOR_BYTES  16

typedef __m128i vector;

VECTOR_TARGET static inline vector vector_load(const char *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

VECTOR_TARGET static inline vector vector_table(const uint8_t *bits)
{
	return _mm_loadu_si128((const __m128i *)(const void *)bits);
}

VECTOR_TARGET static inline vector vector_high(vector x)
{
	const vector bits = _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
	return _mm_shuffle_epi8(bits, _mm_and_si128(_mm_srli_epi16(x, 4), _mm_set1_epi8(15)));
}

VECTOR_TARGET static inline uint32_t vector_other_than(vector x, vector high, vector table)
{
	vector in = _mm_and_si128(_mm_shuffle_epi8(table, x), high);
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(in, _mm_setzero_si128()));
}

VECTOR_TARGET static inline uint32_t vector_dots(vector x)
{
	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8('.')));
}

#include "http/scan_vector.h"

static const weir_scanner scanner = {.name = "sse4.2",
				     .lines = sse42_lines,
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
