/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_DRAW_H
#define WEIR_LOAD_DRAW_H

/*
 * Drawing from many items with given weights, at the same cost for any number: Walker's alias method.
 * Each of n columns holds its own number up to a threshold, and another's above it. One random number
 * suffices: the high half of its product with n is the column, the low half the place in the column.
 *
 * Threads: read-only once it is made.
 */

#include <stdint.h>
#include <weir/random.h>

typedef struct load_draw {
	struct load_column {
		uint32_t other, threshold; /* threshold: in units of 2^-32 */
	} * column;
	uint32_t count;
} load_draw;

/* Weights must be finite and not negative, and at least one above 0. -ENOMEM. */
int load_draw_init(load_draw *draw, const double *weights, uint32_t count);
void load_draw_fini(load_draw *draw);

static inline uint32_t load_draw_one(const load_draw *draw, weir_random *random)
{
	unsigned __int128 product = (unsigned __int128)weir_random_u64(random) * draw->count;
	uint32_t at = (uint32_t)(product >> 64), place = (uint32_t)((uint64_t)product >> 32);
	return place < draw->column[at].threshold ? at : draw->column[at].other;
}

#endif
