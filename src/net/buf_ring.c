/* SPDX-License-Identifier: Apache-2.0 */
#include "net/buf_ring.h"

#include <errno.h>

#include "base/assert.h"
#include "base/mem.h"

#define PAGE 4096

static void put(weir_buf_ring *ring, weir_buf *buf)
{
	uint16_t number = ring->spare[--ring->spare_count];
	ring->buf[number] = buf;
	buf->length = 0;
	io_uring_buf_ring_add(ring->ring, buf->data, buf->capacity, number,
			      io_uring_buf_ring_mask(WEIR_BUF_RING_ENTRIES), 0);
	io_uring_buf_ring_advance(ring->ring, 1);
}

bool weir_buf_ring_fill(weir_buf_ring *ring)
{
	while (ring->spare_count > 0) {
		weir_buf *buf = weir_buf_pool_take(ring->pool);
		if (buf == NULL)
			break;
		put(ring, buf);
	}
	return ring->spare_count < WEIR_BUF_RING_ENTRIES;
}

int weir_buf_ring_init(weir_buf_ring *ring, struct io_uring *uring, weir_buf_pool *pool)
{
	size_t bytes = WEIR_BUF_RING_ENTRIES * sizeof(struct io_uring_buf);
	*ring = (weir_buf_ring){.pool = pool, .ring = weir_mem_aligned(PAGE, bytes < PAGE ? PAGE : bytes)};
	if (ring->ring == NULL)
		return -ENOMEM;
	struct io_uring_buf_reg reg = {.ring_addr = (uint64_t)(uintptr_t)ring->ring,
				       .ring_entries = WEIR_BUF_RING_ENTRIES,
				       .bgid = WEIR_BUF_RING_GROUP};
	int error = io_uring_register_buf_ring(uring, &reg, 0);
	if (error != 0) {
		weir_mem_free(ring->ring);
		return error;
	}
	io_uring_buf_ring_init(ring->ring);
	while (ring->spare_count < WEIR_BUF_RING_ENTRIES) {
		ring->spare[ring->spare_count] = (uint16_t)ring->spare_count;
		ring->spare_count++;
	}
	/* Not all of them need to be filled: that is tried again whenever the kernel finds none. */
	if (weir_buf_ring_fill(ring))
		return 0;
	weir_buf_ring_fini(ring, uring);
	return -ENOMEM;
}

void weir_buf_ring_fini(weir_buf_ring *ring, struct io_uring *uring)
{
	/*
	 * Fails on another thread than the ring's. That does not matter: the ring is freed next, and
	 * nothing is in progress.
	 */
	io_uring_unregister_buf_ring(uring, WEIR_BUF_RING_GROUP);
	for (unsigned i = 0; i < WEIR_BUF_RING_ENTRIES; i++)
		weir_buf_unref(ring->buf[i]);
	weir_mem_free(ring->ring);
}

weir_buf *weir_buf_ring_take(weir_buf_ring *ring, uint32_t completion_flags)
{
	uint32_t number = completion_flags >> IORING_CQE_BUFFER_SHIFT;
	WEIR_ASSERT(number < WEIR_BUF_RING_ENTRIES && ring->buf[number] != NULL);
	weir_buf *buf = ring->buf[number];
	ring->buf[number] = NULL;
	ring->spare[ring->spare_count++] = (uint16_t)number;
	return buf;
}

void weir_buf_ring_give(weir_buf_ring *ring, weir_buf *buf)
{
	if (ring->spare_count > 0 && weir_buf_exclusive(buf)) {
		if (ring->slim_left > 0) {
			ring->slim_left--;
			weir_mem_let_go(buf->data, buf->capacity);
		}
		put(ring, buf);
		return;
	}
	weir_buf_unref(buf);
	weir_buf_ring_fill(ring);
}

void weir_buf_ring_slim(weir_buf_ring *ring)
{
	ring->slim_left = WEIR_BUF_RING_ENTRIES;
}
