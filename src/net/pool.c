/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pool.h"

#include <stdint.h>

#include "base/assert.h"
#include "base/mem.h"

/* With AddressSanitizer, accesses to a free object are detected, as for memory from malloc. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define SLAB_BYTES 16384u

void weir_pool_init(weir_pool *pool, size_t size)
{
	WEIR_ASSERT(size >= sizeof(weir_pool_item) && size <= SLAB_BYTES / 4);
	*pool = (weir_pool){.size = (size + 15) & ~(size_t)15};
}

void weir_pool_fini(weir_pool *pool)
{
	WEIR_ASSERT(pool->live == 0);
	while (pool->slabs != NULL) {
		weir_pool_item *slab = pool->slabs;
		pool->slabs = slab->next;
		ASAN_UNPOISON_MEMORY_REGION(slab, SLAB_BYTES);
		weir_mem_free(slab);
	}
	pool->free = NULL;
}

static void push(weir_pool *pool, void *object)
{
	weir_pool_item *item = object;
	item->next = pool->free;
	pool->free = item;
	ASAN_POISON_MEMORY_REGION(object, pool->size);
}

/* The slab's first bytes link it to the others. */
static void grow(weir_pool *pool)
{
	char *slab = weir_mem_zalloc(SLAB_BYTES);
	if (slab == NULL)
		return;
	((weir_pool_item *)(void *)slab)->next = pool->slabs;
	pool->slabs = (weir_pool_item *)(void *)slab;
	/*
	 * From the end, so that the first object taken is the first in memory: pages are touched as they
	 * are needed.
	 */
	size_t count = (SLAB_BYTES - 16) / pool->size;
	while (count-- > 0)
		push(pool, slab + 16 + count * pool->size);
}

void *weir_pool_take(weir_pool *pool)
{
	if (pool->free == NULL)
		grow(pool);
	weir_pool_item *item = pool->free;
	if (item == NULL)
		return NULL;
	ASAN_UNPOISON_MEMORY_REGION(item, pool->size);
	pool->free = item->next;
	pool->live++;
	return item;
}

void weir_pool_give(weir_pool *pool, void *object)
{
	pool->live--;
	push(pool, object);
}
