/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_BUF_RING_H
#define WEIR_NET_BUF_RING_H

/*
 * The read buffers that the kernel of an io_uring loop may fill, for all its connections together: so an idle connection
 * has none. A buffer that comes back filled leaves the ring, and is put back, or another in its place.
 *
 * Invariant: every number is either in the ring with a buffer or among the spare ones.
 *
 * Threads: the loop's.
 */

#include <liburing.h>

#include "net/buf.h"

#define WEIR_BUF_RING_GROUP   0
#define WEIR_BUF_RING_ENTRIES 128u

typedef struct weir_buf_ring {
	struct io_uring_buf_ring *ring;
	weir_buf_pool *pool;
	unsigned spare_count;
	uint16_t spare[WEIR_BUF_RING_ENTRIES];
	weir_buf *buf[WEIR_BUF_RING_ENTRIES];
} weir_buf_ring;

/* Registers and fills it. 0 or a negative errno. */
int weir_buf_ring_init(weir_buf_ring *ring, struct io_uring *uring, weir_buf_pool *pool);
void weir_buf_ring_fini(weir_buf_ring *ring, struct io_uring *uring);
/* The buffer of a completion, with the ring's reference. */
weir_buf *weir_buf_ring_take(weir_buf_ring *ring, uint32_t completion_flags);
/* Puts a buffer that was taken back, or another if someone keeps it; takes over the reference. */
void weir_buf_ring_give(weir_buf_ring *ring, weir_buf *buf);
/* Buffers that the kernel can take. */
static inline unsigned weir_buf_ring_filled(const weir_buf_ring *ring)
{
	return WEIR_BUF_RING_ENTRIES - ring->spare_count;
}
/* Fills places that are empty. False: there is no buffer in it at all. */
bool weir_buf_ring_fill(weir_buf_ring *ring);

#endif
