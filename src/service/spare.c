/* SPDX-License-Identifier: Apache-2.0 */
#include "service/spare.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* Fewer at once are no flood. */
#define FLOOD 64u
/* At rest: a quarter of them is left. */
#define REST_PART 4u
/* Growth that is worth the work. */
#define GROWTH_BYTES ((uint64_t)16 << 20)
#define PAUSE_MOST   64u

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
	return spare->most_busy >= FLOOD && busy <= spare->most_busy / REST_PART &&
	       bytes >= spare->rest_bytes + spare->rest_bytes / 4 + GROWTH_BYTES;
}

void weir_spare_done(weir_spare *spare, uint64_t before_bytes, uint64_t after_bytes)
{
	bool helped = after_bytes < before_bytes - before_bytes / 8;
	unsigned pause = spare->next_pause != 0 ? spare->next_pause : 1;
	spare->next_pause = helped ? 1 : pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST;
	spare->pause = helped ? 1 : pause;
	/* What is in use now is no spare, so it is not tried again before there is more. */
	if (!helped)
		spare->rest_bytes = after_bytes;
	spare->most_busy = 0;
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
