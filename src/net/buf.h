/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_BUF_H
#define WEIR_NET_BUF_H

/*
 * Pools of buffers of one size, one pool a loop. A buffer is taken by the loop's thread and may be let go by any: the own
 * thread puts it on a plain list, others on a lock-free stack that the owner empties when its list is empty.
 *
 * Bounds: each list keeps at most `keep` buffers, the rest go back to malloc.
 *
 * A pool outlives its loop until the last of its buffers is let go: refs counts the buffers it has made, and the loop.
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
		_Atomic(weir_loop *) loop;       /* NULL: it is gone */
		_Atomic(weir_pooled *) returned; /* from other threads; CLOSED in buf.c: the loop is gone */
		_Atomic uint32_t returned_count;
		_Atomic uint32_t refs;
	} shared;
} weir_buf_pool;

/* NULL: out of memory. */
weir_buf_pool *weir_buf_pool_new(weir_loop *loop, uint32_t capacity, uint32_t keep);
/* The loop ends; buffers still out are freed when they are let go. Sets it to NULL. */
void weir_buf_pool_close(weir_buf_pool **pool);
/* An empty buffer with one reference; NULL: out of memory. */
weir_buf *weir_buf_pool_take(weir_buf_pool *pool);

/* Whether the caller's reference is the only one, so that it may write again. */
static inline bool weir_buf_exclusive(const weir_buf *buf)
{
	return __atomic_load_n(&buf->refs, __ATOMIC_ACQUIRE) == 1;
}

#endif
