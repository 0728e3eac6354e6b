/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_MEM_H
#define WEIR_BASE_MEM_H

/* All allocations go through here, so that tests can make each one fail in turn. Any thread. */

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, or NULL. Free with weir_mem_free. */
void *weir_mem_zalloc(size_t size) __attribute__((malloc, warn_unused_result));
/* The same, but not zeroed: for large blocks that are written before they are read, and may never be used. */
void *weir_mem_raw(size_t size) __attribute__((malloc, warn_unused_result));
/* A zeroed array; NULL also if the product overflows. */
void *weir_mem_array(size_t count, size_t size) __attribute__((malloc, warn_unused_result));
/* Zeroed and aligned memory (to a power of two), for data of which threads must not share a cache line. */
void *weir_mem_aligned(size_t alignment, size_t size) __attribute__((malloc, warn_unused_result));
char *weir_mem_strdup(const char *text) __attribute__((malloc, warn_unused_result));
void weir_mem_free(void *memory);
/* Gives the whole pages of a part of a block back to the system until they are used again. Its contents are lost. */
void weir_mem_let_go(void *memory, size_t size);

/* ---- for tests ---- */

/* Makes the nth allocation from now fail (1: the next), once; 0: none. Counts over all threads. */
void weir_mem_fail_after(uint64_t nth);
/* Allocations since the program began. */
uint64_t weir_mem_count(void);
/* Number of allocations not yet freed. */
uint64_t weir_mem_live(void);

#endif
