/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_MIX_H
#define WEIR_BASE_MIX_H

/*
 * splitmix64 (Steele, Lea, Flood): a counter that advances by WEIR_MIX_STEP, mixed, gives random numbers.
 * The state is a sum, so several threads may draw from one atomic: fetch_add the step and mix the result.
 */

#include <stdint.h>

#define WEIR_MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t weir_mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
