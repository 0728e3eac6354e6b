/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_BUF_RING_H
#define WEIR_NET_BUF_RING_H

/*
 * The read buffers that the kernel may fill in an io_uring loop, shared by all its connections, so that
 * an idle connection has none. A filled buffer leaves the ring; afterwards it is put back, or another in
 * its place.
 *
 * The kernel takes them in turn, so in time each has been filled by somebody who sent much, and all of its pages
 * are in memory. They are given back when the ring is slimmed.
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
	unsigned slim_left; /* how many give back their pages when they are put back */
	uint16_t spare[WEIR_BUF_RING_ENTRIES];
	weir_buf *buf[WEIR_BUF_RING_ENTRIES];
} weir_buf_ring;

/* Registers and fills it. 0 or a negative errno. */
int weir_buf_ring_init(weir_buf_ring *ring, struct io_uring *uring, weir_buf_pool *pool);
void weir_buf_ring_fini(weir_buf_ring *ring, struct io_uring *uring);
/* The buffer of a completion, with the ring's reference. */
weir_buf *weir_buf_ring_take(weir_buf_ring *ring, uint32_t completion_flags);
/* Puts back a buffer that was taken, or another if somebody keeps it; takes over the reference. */
void weir_buf_ring_give(weir_buf_ring *ring, weir_buf *buf);
/* The buffers' pages go back to the system, each when its buffer is next put back: those of the kernel may be filled. */
void weir_buf_ring_slim(weir_buf_ring *ring);
/* Number of buffers available to the kernel. */
static inline unsigned weir_buf_ring_filled(const weir_buf_ring *ring)
{
	return WEIR_BUF_RING_ENTRIES - ring->spare_count;
}
/* Fills empty places. False: the ring has no buffer at all. */
bool weir_buf_ring_fill(weir_buf_ring *ring);

#endif
