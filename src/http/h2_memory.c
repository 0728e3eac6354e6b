/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_memory.h"

#include <string.h>

#include "base/mem.h"
#include "http/h2.h"

/* Before each block: its size, and the pool that it returns to. */
typedef union header {
	struct {
		size_t size;
		weir_pool *pool; /* NULL: from malloc */
	};
	_Alignas(16) char align[16];
} header;

#define SMALLEST 64u

static weir_pool *pool_for(weir_h2_memory *memory, size_t bytes)
{
	size_t size = SMALLEST;
	for (unsigned i = 0; i < WEIR_H2_SIZES; i++, size *= 2)
		if (bytes <= size)
			return &memory->sizes[i];
	return NULL;
}

static void *take(weir_h2_memory *memory, size_t size)
{
	if (size > SIZE_MAX - sizeof(header))
		return NULL;
	weir_pool *pool = pool_for(memory, size + sizeof(header));
	header *block = pool != NULL ? weir_pool_take(pool) : weir_mem_raw(size + sizeof(header));
	if (block == NULL)
		return NULL;
	block->size = pool != NULL ? pool->size - sizeof(header) : size;
	block->pool = pool;
	return block + 1;
}

static void give(void *bytes)
{
	if (bytes == NULL)
		return;
	header *block = (header *)bytes - 1;
	if (block->pool != NULL)
		weir_pool_give(block->pool, block);
	else
		weir_mem_free(block);
}

static void *h2_malloc(size_t size, void *memory)
{
	return take(memory, size);
}

static void h2_free(void *bytes, void *memory)
{
	give(bytes);
}

static void *h2_calloc(size_t count, size_t size, void *memory)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return NULL;
	void *taken = take(memory, bytes);
	return taken != NULL ? memset(taken, 0, bytes) : NULL;
}

static void *h2_realloc(void *bytes, size_t size, void *memory)
{
	if (bytes == NULL)
		return take(memory, size);
	size_t have = ((header *)bytes - 1)->size;
	if (size <= have)
		return bytes;
	void *larger = take(memory, size);
	if (larger == NULL)
		return NULL;
	memcpy(larger, bytes, have);
	give(bytes);
	return larger;
}

void weir_h2_memory_init(weir_h2_memory *memory)
{
	size_t size = SMALLEST;
	weir_pool_init(&memory->streams, sizeof(weir_h2_stream));
	weir_pool_init(&memory->parts, sizeof(weir_h2_part));
	for (unsigned i = 0; i < WEIR_H2_SIZES; i++, size *= 2)
		weir_pool_init(&memory->sizes[i], size);
	memory->mem = (nghttp2_mem){.mem_user_data = memory,
				    .malloc = h2_malloc,
				    .free = h2_free,
				    .calloc = h2_calloc,
				    .realloc = h2_realloc};
}

void weir_h2_memory_fini(weir_h2_memory *memory)
{
	weir_pool_fini(&memory->streams);
	weir_pool_fini(&memory->parts);
	for (unsigned i = 0; i < WEIR_H2_SIZES; i++)
		weir_pool_fini(&memory->sizes[i]);
}
