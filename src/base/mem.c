/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t allocations;
static _Atomic uint64_t releases;
static _Atomic uint64_t fail_in; /* allocations until one fails; 0: none will */

/* Counts down to the allocation that should fail; true if this is the one. */
static bool must_fail(void)
{
	uint64_t left = atomic_load_explicit(&fail_in, memory_order_relaxed);
	while (left != 0)
		if (atomic_compare_exchange_weak(&fail_in, &left, left - 1))
			return left == 1;
	return false;
}

static void *counted(void *memory)
{
	if (memory != NULL)
		atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return memory;
}

void *weir_mem_zalloc(size_t size)
{
	return weir_mem_array(1, size);
}

void *weir_mem_raw(size_t size)
{
	return must_fail() ? NULL : counted(malloc(size > 0 ? size : 1));
}

void *weir_mem_array(size_t count, size_t size)
{
	size_t bytes;
	if (must_fail() || __builtin_mul_overflow(count, size, &bytes))
		return NULL;
	/* Never zero bytes, so that NULL always means failure. */
	return counted(calloc(1, bytes > 0 ? bytes : 1));
}

void *weir_mem_aligned(size_t alignment, size_t size)
{
	void *memory;
	if (must_fail())
		return NULL;
	if (alignment < sizeof(void *))
		alignment = sizeof(void *);
	if (size == 0)
		size = 1;
	if (posix_memalign(&memory, alignment, size) != 0)
		return NULL;
	return counted(memset(memory, 0, size));
}

char *weir_mem_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = weir_mem_zalloc(size);
	return copy == NULL ? NULL : memcpy(copy, text, size);
}

void weir_mem_free(void *memory)
{
	if (memory == NULL)
		return;
	atomic_fetch_add_explicit(&releases, 1, memory_order_relaxed);
	free(memory);
}

void weir_mem_let_go(void *memory, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = ((uintptr_t)memory + size) & ~(page - 1);
	uintptr_t begin = ((uintptr_t)memory + page - 1) & ~(page - 1);
	if (begin < end)
		madvise((char *)memory + (begin - (uintptr_t)memory), end - begin, MADV_DONTNEED);
}

void weir_mem_fail_after(uint64_t nth)
{
	atomic_store(&fail_in, nth);
}

uint64_t weir_mem_count(void)
{
	return atomic_load_explicit(&allocations, memory_order_relaxed);
}

uint64_t weir_mem_live(void)
{
	/*
	 * Releases are read first: concurrent allocations then count as live, and the difference is never
	 * negative.
	 */
	uint64_t gone = atomic_load(&releases);
	return atomic_load(&allocations) - gone;
}
