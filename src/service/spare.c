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
/* Looks in a minute; what is much: a part of what the process has, and not little; and which part of that is worth it. */
#define LOOKS            60u
#define FREE_PART        20u
#define FREE_LEAST_BYTES ((uint64_t)1 << 20)
#define HELPED_PART      64u
/* Larger blocks are mapped by themselves. */
#define LARGE_BYTES (128 << 10)

void weir_spare_begin(unsigned threads)
{
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	mallopt(M_TRIM_THRESHOLD, 2 * LARGE_BYTES);
	mallopt(M_ARENA_MAX, 1 + (int)(threads != 0 ? threads : sysconf(_SC_NPROCESSORS_ONLN)));
}

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

bool weir_spare_is_much(weir_spare *spare, uint64_t bytes, uint64_t free_bytes)
{
	if (spare->looks > LOOKS && bytes >= spare->left_bytes + spare->left_bytes / FREE_PART)
		spare->looks = LOOKS;
	if (spare->looks > 0) {
		spare->looks--;
		return false;
	}
	spare->looks = LOOKS;
	return free_bytes >= FREE_LEAST_BYTES && free_bytes >= bytes / FREE_PART;
}

void weir_spare_done_busy(weir_spare *spare, uint64_t before_bytes, uint64_t after_bytes)
{
	bool helped = after_bytes < before_bytes - before_bytes / HELPED_PART;
	spare->in_vain_busy = helped ? 0 : spare->in_vain_busy + (spare->in_vain_busy < TRIES_MOST);
	spare->looks = LOOKS << spare->in_vain_busy;
	spare->left_bytes = after_bytes;
}

void weir_spare_look(weir_spare *spare, uint32_t busy)
{
	uint64_t before = resident_bytes();
	if (before == 0)
		return;
	if (weir_spare_is_due(spare, before, busy)) {
		malloc_trim(0);
		weir_spare_done(spare, before, resident_bytes());
	} else if (weir_spare_is_much(spare, before, spare->looks > 0 ? 0 : mallinfo2().fordblks)) {
		malloc_trim(0);
		weir_spare_done_busy(spare, before, resident_bytes());
	}
}
