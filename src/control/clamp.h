/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_CLAMP_H
#define WEIR_CONTROL_CLAMP_H

#include <stdint.h>

/* Rounds a wish up to a whole number within bounds; min if the wish is NaN. */
static inline uint32_t weir_clamp_up(double wish, uint32_t min, uint32_t max)
{
	if (!(wish > min))
		return min;
	if (wish >= max)
		return max;
	uint32_t whole = (uint32_t)wish;
	return whole < wish ? whole + 1 : whole;
}

#endif
