/* SPDX-License-Identifier: Apache-2.0 */
#include "net/buf.h"

#include "base/mem.h"
#include "loop/loop.h"

static weir_pooled closed_mark;
#define CLOSED (&closed_mark)

/* ---- pools ---- */

weir_buf_pool *weir_buf_pool_new(weir_loop *loop, uint32_t capacity, uint32_t keep)
{
	weir_buf_pool *pool = weir_mem_zalloc(sizeof(*pool));
	if (pool == NULL)
		return NULL;
	pool->capacity = capacity;
	pool->keep = keep;
	atomic_init(&pool->shared.loop, loop);
	atomic_init(&pool->shared.refs, 1);
	return pool;
}

static void drop_pool(weir_buf_pool *pool)
{
	if (atomic_fetch_sub(&pool->shared.refs, 1) == 1)
		weir_mem_free(pool);
}

static void destroy(weir_buf_pool *pool, weir_pooled *pooled)
{
	weir_mem_free(pooled);
	drop_pool(pool);
}

static void destroy_all(weir_buf_pool *pool, weir_pooled *pooled)
{
	while (pooled != NULL) {
		weir_pooled *next = pooled->next;
		destroy(pool, pooled);
		pooled = next;
	}
}

void weir_buf_pool_close(weir_buf_pool **where)
{
	weir_buf_pool *pool = *where;
	if (pool == NULL)
		return;
	*where = NULL;
	atomic_store(&pool->shared.loop, NULL);
	destroy_all(pool, pool->free);
	destroy_all(pool, atomic_exchange(&pool->shared.returned, CLOSED));
	drop_pool(pool);
}

void weir_buf_pool_slim(weir_buf_pool *pool)
{
	for (uint32_t kept = pool->free_count / 2; pool->free_count > kept; pool->free_count--) {
		weir_pooled *pooled = pool->free;
		pool->free = pooled->next;
		destroy(pool, pooled);
	}
}

static void give_home(weir_buf_pool *pool, weir_pooled *pooled)
{
	if (pool->free_count >= pool->keep) {
		destroy(pool, pooled);
		return;
	}
	pooled->next = pool->free;
	pool->free = pooled;
	pool->free_count++;
}

/* The pool may be freed once the buffer is pushed, so it is counted before. */
static void give_from_afar(weir_buf_pool *pool, weir_pooled *pooled)
{
	weir_pooled *head = atomic_load(&pool->shared.returned);
	if (atomic_fetch_add(&pool->shared.returned_count, 1) >= pool->keep) {
		atomic_fetch_sub(&pool->shared.returned_count, 1);
		destroy(pool, pooled);
		return;
	}
	do {
		if (head == CLOSED) {
			destroy(pool, pooled);
			return;
		}
		pooled->next = head;
	} while (!atomic_compare_exchange_weak(&pool->shared.returned, &head, pooled));
}

static void collect_returned(weir_buf_pool *pool)
{
	if (atomic_load_explicit(&pool->shared.returned, memory_order_relaxed) == NULL)
		return;
	weir_pooled *pooled = atomic_exchange(&pool->shared.returned, NULL);
	uint32_t count = 0;
	while (pooled != NULL) {
		weir_pooled *next = pooled->next;
		give_home(pool, pooled);
		pooled = next;
		count++;
	}
	atomic_fetch_sub(&pool->shared.returned_count, count);
}

static weir_pooled *make(weir_buf_pool *pool)
{
	weir_pooled *pooled = weir_mem_raw(sizeof(*pooled) + pool->capacity);
	if (pooled == NULL)
		return NULL;
	atomic_fetch_add_explicit(&pool->shared.refs, 1, memory_order_relaxed);
	pooled->buf = (weir_buf){
		.data = pooled->bytes, .capacity = pool->capacity, .kind = WEIR_BUF_POOLED, .home = pool};
	return pooled;
}

weir_buf *weir_buf_pool_take(weir_buf_pool *pool)
{
	if (pool->free == NULL)
		collect_returned(pool);
	weir_pooled *pooled = pool->free;
	if (pooled != NULL) {
		pool->free = pooled->next;
		pool->free_count--;
	} else {
		pooled = make(pool);
		if (pooled == NULL)
			return NULL;
	}
	pooled->buf.length = 0;
	__atomic_store_n(&pooled->buf.refs, 1, __ATOMIC_RELAXED);
	return &pooled->buf;
}

/* ---- buffers ---- */

weir_buf *weir_buf_new(size_t capacity)
{
	if (capacity > UINT32_MAX)
		return NULL;
	weir_buf *buf = weir_mem_raw(sizeof(*buf) + capacity);
	if (buf == NULL)
		return NULL;
	*buf = (weir_buf){.data = (uint8_t *)(buf + 1),
			  .capacity = (uint32_t)capacity,
			  .refs = 1,
			  .kind = WEIR_BUF_OWN};
	return buf;
}

weir_buf *weir_buf_ref(weir_buf *buf)
{
	__atomic_fetch_add(&buf->refs, 1, __ATOMIC_RELAXED);
	return buf;
}

static void release(weir_buf *buf)
{
	if (buf->kind == WEIR_BUF_OWN) {
		weir_mem_free(buf);
		return;
	}
	weir_buf_pool *pool = buf->home;
	weir_loop *self = weir_loop_here;
	if (self != NULL && self == atomic_load_explicit(&pool->shared.loop, memory_order_relaxed))
		give_home(pool, (weir_pooled *)(void *)buf);
	else
		give_from_afar(pool, (weir_pooled *)(void *)buf);
}

void weir_buf_unref(weir_buf *buf)
{
	/* The only holder can skip the atomic subtraction: nobody can be adding a reference. */
	if (buf != NULL &&
	    (weir_buf_exclusive(buf) || __atomic_fetch_sub(&buf->refs, 1, __ATOMIC_ACQ_REL) == 1))
		release(buf);
}
