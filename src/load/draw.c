/* SPDX-License-Identifier: Apache-2.0 */
#include "load/draw.h"

#include <errno.h>

#include "base/error.h"
#include "base/mem.h"

/*
 * Vose's method: columns with less than an average share (low) are filled up by one with more (high),
 * whose rest may then be below average itself. Both stacks share one array, from its two ends. A column
 * that points to itself needs no threshold, which absorbs the rounding at the end.
 */
static void fill(load_draw *draw, double *share, uint32_t *stack)
{
	uint32_t count = draw->count, low = 0, high = count;
	for (uint32_t i = 0; i < count; i++) {
		draw->column[i] = (struct load_column){i, UINT32_MAX};
		if (share[i] < 1)
			stack[low++] = i;
		else
			stack[--high] = i;
	}
	while (low > 0 && high < count) {
		uint32_t poor = stack[--low], rich = stack[high];
		draw->column[poor] = (struct load_column){rich, (uint32_t)(share[poor] * 0x1p32)};
		share[rich] -= 1 - share[poor];
		if (share[rich] < 1) {
			high++;
			stack[low++] = rich;
		}
	}
}

int load_draw_init(load_draw *draw, const double *weights, uint32_t count)
{
	double sum = 0, *share = weir_mem_array(count, sizeof *share);
	uint32_t *stack = weir_mem_array(count, sizeof *stack);
	struct load_column *column = weir_mem_array(count, sizeof *column);
	if (share == NULL || stack == NULL || column == NULL) {
		weir_mem_free(column);
		weir_mem_free(stack);
		weir_mem_free(share);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < count; i++)
		sum += weights[i];
	for (uint32_t i = 0; i < count; i++)
		share[i] = weights[i] / sum * count;
	*draw = (load_draw){column, count};
	fill(draw, share, stack);
	weir_mem_free(stack);
	weir_mem_free(share);
	return 0;
}

void load_draw_fini(load_draw *draw)
{
	weir_mem_free(draw->column);
	*draw = (load_draw){NULL, 0};
}
