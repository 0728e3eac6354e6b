/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_BUF_H
#define WEIR_NET_BUF_H

/*
 * Pools of buffers of one size, one pool per loop. The loop's thread takes a buffer, and any thread may
 * release it: the owner puts it on a plain list, others on a lock-free stack that the owner empties when
 * its list is empty.
 *
 * Bounds: each list keeps at most `keep` buffers; the rest is freed.
 *
 * A pool outlives its loop until the last of its buffers is released: refs counts the buffers that it has
 * made, and the loop.
 */

#include <stdatomic.h>
#include <weir/net.h>

#define WEIR_BUF_READ_BYTES  16384u
#define WEIR_BUF_WRITE_BYTES 4096u

enum weir_buf_kind { WEIR_BUF_OWN, WEIR_BUF_POOLED };

typedef struct weir_pooled {
	weir_buf buf;
	struct weir_pooled *next; /* while it is in a list */
	uint8_t bytes[];
} weir_pooled;

typedef struct weir_buf_pool {
	/* const after init */
	uint32_t capacity, keep;

	/* the loop's thread */
	weir_pooled *free;
	uint32_t free_count;

	/* any thread */
	struct {
		_Atomic(weir_loop *) loop; /* NULL: the loop has ended */
		/* From other threads; CLOSED in buf.c: the loop has ended. */
		_Atomic(weir_pooled *) returned;
		_Atomic uint32_t returned_count;
		_Atomic uint32_t refs;
	} shared;
} weir_buf_pool;

/* NULL: out of memory. */
weir_buf_pool *weir_buf_pool_new(weir_loop *loop, uint32_t capacity, uint32_t keep);
/* The loop ends; buffers still in use are freed when they are released. Sets *pool to NULL. */
void weir_buf_pool_close(weir_buf_pool **pool);
/* Frees half of what the loop's own list has: what was needed once, and is not any more, goes little by little. */
void weir_buf_pool_slim(weir_buf_pool *pool);
/* An empty buffer with one reference; NULL: out of memory. */
weir_buf *weir_buf_pool_take(weir_buf_pool *pool);

/* Whether the caller's reference is the only one, so that it may write again. */
static inline bool weir_buf_exclusive(const weir_buf *buf)
{
	return __atomic_load_n(&buf->refs, __ATOMIC_ACQUIRE) == 1;
}

#endif
