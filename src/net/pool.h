/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_POOL_H
#define WEIR_NET_POOL_H

/*
 * Objects of one size for one loop, cut from slabs, so that they are dense in memory and cheap to make.
 * Memory grows with the maximum number alive, and is freed with the pool.
 *
 * Threads: the loop's.
 */

#include <stddef.h>

typedef struct weir_pool_item {
	struct weir_pool_item *next;
} weir_pool_item;

typedef struct weir_pool {
	size_t size;
	size_t live;
	weir_pool_item *free;
	weir_pool_item *slabs;
} weir_pool;

/* size at least that of a pointer. */
void weir_pool_init(weir_pool *pool, size_t size);
/* No object may be alive. */
void weir_pool_fini(weir_pool *pool);
/* Not cleared; NULL: out of memory. */
void *weir_pool_take(weir_pool *pool);
void weir_pool_give(weir_pool *pool, void *object);

#endif
