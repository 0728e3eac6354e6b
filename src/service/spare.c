/* SPDX-License-Identifier: Apache-2.0 */
#include "service/spare.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* At rest: so few are there, or a quarter of the most. */
#define FEW       16u
#define REST_PART 4u
/* Growth that is worth the work. */
#define GROWTH_BYTES ((uint64_t)16 << 20)
/* In a row that do not help; each pause is twice the one before. */
#define TRIES_MOST 5u

bool weir_spare_is_due(weir_spare *spare, uint64_t bytes, uint32_t busy)
{
	if (spare->rest_bytes == 0)
		spare->rest_bytes = bytes;
	if (busy > spare->most_busy)
		spare->most_busy = busy;
	if (spare->pause > 0) {
		spare->pause--;
		return false;
	}
	/* A flood may be shorter than the time between two looks, so it need not have been seen. */
	uint32_t rest = spare->most_busy / REST_PART;
	return busy <= (rest > FEW ? rest : FEW) &&
	       bytes >= spare->rest_bytes + spare->rest_bytes / 4 + GROWTH_BYTES;
}

void weir_spare_done(weir_spare *spare, uint64_t before_bytes, uint64_t after_bytes)
{
	bool helped = after_bytes < before_bytes - before_bytes / 8;
	spare->in_vain = helped ? 0 : spare->in_vain + 1;
	spare->pause = 1u << spare->in_vain;
	if (spare->in_vain < TRIES_MOST)
		return;
	/* It is in use, so it is not tried again before there is more. */
	spare->rest_bytes = after_bytes;
	spare->most_busy = spare->in_vain = 0;
}

static uint64_t resident_bytes(void)
{
	unsigned long long size, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (file == NULL)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void weir_spare_look(weir_spare *spare, uint32_t busy)
{
	uint64_t before = resident_bytes();
	if (before == 0 || !weir_spare_is_due(spare, before, busy))
		return;
	malloc_trim(0);
	weir_spare_done(spare, before, resident_bytes());
}
