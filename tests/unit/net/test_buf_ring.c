/* SPDX-License-Identifier: Apache-2.0 */
#include "support/on_loop.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "loop/loop.h"
#include "loop/uring.h"
#include "net/buf_ring.h"

static size_t pages_in_memory(const weir_buf_ring *ring)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	size_t count = 0;
	for (unsigned i = 0; i < WEIR_BUF_RING_ENTRIES; i++) {
		const weir_buf *buf = ring->buf[i];
		uint8_t *at = buf->data - ((uintptr_t)buf->data & (page - 1));
		for (; at < buf->data + buf->capacity; at += page) {
			unsigned char in = 0;
			assert_int_equal(mincore(at, 1, &in), 0);
			count += in & 1;
		}
	}
	return count;
}

/* As if the kernel had filled each of them with so many bytes. */
static void fill_all(weir_buf_ring *ring, size_t bytes)
{
	for (unsigned i = 0; i < WEIR_BUF_RING_ENTRIES; i++) {
		weir_buf *buf = weir_buf_ring_take(ring, i << IORING_CQE_BUFFER_SHIFT);
		memset(buf->data, 'x', bytes);
		weir_buf_ring_give(ring, buf);
	}
	assert_int_equal(weir_buf_ring_filled(ring), WEIR_BUF_RING_ENTRIES);
}

static void pages_that_much_input_needed_are_given_back(void **state)
{
	weir_loop *loop = loop_of(state);
	if (!weir_uring_is(loop))
		skip();
	uint64_t live = weir_mem_live();
	weir_buf_ring ring;
	weir_buf_pool *pool = weir_buf_pool_new(loop, WEIR_BUF_READ_BYTES, 64);
	weir_loop_set_self(loop);
	assert_int_equal(weir_buf_ring_init(&ring, weir_uring_ring(loop), pool), 0);
	fill_all(&ring, WEIR_BUF_READ_BYTES);
	size_t most = pages_in_memory(&ring);
	assert_true(most >= WEIR_BUF_RING_ENTRIES * 4);
	fill_all(&ring, 100);
	assert_int_equal(pages_in_memory(&ring), most);
	/* Those that the kernel has may be filled already, so they are left alone. */
	weir_buf_ring_slim(&ring);
	assert_int_equal(pages_in_memory(&ring), most);
	fill_all(&ring, 100);
	size_t least = pages_in_memory(&ring);
	assert_true(least <= WEIR_BUF_RING_ENTRIES * 2);
	/* Once each. */
	fill_all(&ring, WEIR_BUF_READ_BYTES);
	fill_all(&ring, 100);
	assert_int_equal(pages_in_memory(&ring), most);
	weir_buf_ring_fini(&ring, weir_uring_ring(loop));
	weir_loop_set_self(NULL);
	weir_buf_pool_close(&pool);
	assert_int_equal(weir_mem_live(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(pages_that_much_input_needed_are_given_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
