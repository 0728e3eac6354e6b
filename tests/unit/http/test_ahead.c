/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "http/ahead.h"

#define MORE 1000000

static weir_buf *filled(size_t capacity, size_t length, int byte)
{
	weir_buf *buf = weir_buf_new(capacity);
	assert_non_null(buf);
	memset(buf->data, byte, length);
	buf->length = (uint32_t)length;
	return buf;
}

/* Takes all of it into the bytes; returns their number. */
static size_t take_all(weir_ahead *ahead, uint8_t *bytes, size_t most)
{
	weir_buf *buf;
	size_t offset, length, count = 0;
	while (weir_ahead_take(ahead, &buf, &offset, &length)) {
		assert_true(length > 0 && length <= 16384 && offset + length <= buf->length);
		assert_true(count + length <= most);
		memcpy(bytes + count, buf->data + offset, length);
		count += length;
		weir_buf_unref(buf);
	}
	assert_int_equal(ahead->length, 0);
	assert_int_equal(ahead->held, 0);
	return count;
}

static void large_parts_stay_where_they_are(void **state)
{
	weir_ahead *ahead = weir_ahead_new();
	weir_buf *buf = filled(16384, 16384, 'a'), *got;
	size_t offset, length;
	assert_int_equal(weir_ahead_add(ahead, buf, 100, 16000, MORE), 0);
	assert_int_equal(buf->refs, 2);
	assert_int_equal(ahead->length, 16000);
	assert_int_equal(ahead->held, 16384);
	assert_true(weir_ahead_take(ahead, &got, &offset, &length));
	assert_ptr_equal(got, buf);
	assert_true(offset == 100 && length == 16000);
	assert_false(weir_ahead_take(ahead, &got, &offset, &length));
	weir_buf_unref(buf);
	weir_buf_unref(buf);
	weir_ahead_free(ahead);
}

/* A peer that sends byte by byte must not make each byte hold a buffer. */
static void small_parts_share_buffers(void **state)
{
	weir_ahead *ahead = weir_ahead_new();
	weir_buf *buf = filled(16384, 16384, 'b');
	for (size_t i = 0; i < 50000; i++)
		assert_int_equal(weir_ahead_add(ahead, buf, i % 16384, 1, MORE), 0);
	assert_int_equal(buf->refs, 1);
	assert_int_equal(ahead->length, 50000);
	assert_true(ahead->held <= 50000 + 2 * 16384);
	weir_buf_unref(buf);
	weir_ahead_free(ahead);
}

static void parts_keep_their_order(void **state)
{
	enum { COUNT = 60 };
	static const size_t lengths[] = {1, 16384, 700, 8192, 8191, 3, 16000};
	static uint8_t bytes[COUNT * 16384], expected[COUNT * 16384];
	weir_ahead *ahead = weir_ahead_new();
	size_t total = 0;
	for (int i = 0; i < COUNT; i++) {
		size_t length = lengths[i % 7];
		weir_buf *buf = filled(16384, length, i);
		assert_int_equal(weir_ahead_add(ahead, buf, 0, length, i % 3 ? MORE : 0), 0);
		memset(expected + total, i, length);
		total += length;
		weir_buf_unref(buf);
	}
	assert_int_equal(ahead->length, total);
	assert_int_equal(take_all(ahead, bytes, sizeof(bytes)), total);
	assert_memory_equal(bytes, expected, total);
	weir_ahead_free(ahead);
}

/* A body of known length takes no more memory than it has bytes. */
static void a_known_end_bounds_the_copy(void **state)
{
	weir_ahead *ahead = weir_ahead_new();
	weir_buf *buf = filled(16384, 10, 'c');
	assert_int_equal(weir_ahead_add(ahead, buf, 0, 10, 20), 0);
	assert_int_equal(ahead->held, 30);
	weir_buf_unref(buf);
	weir_ahead_free(ahead);
	weir_ahead_free(NULL);
}

static void survives_without_memory(void **state)
{
	uint64_t live = weir_mem_live();
	for (int large = 0; large < 2; large++) {
		bool failed = true;
		for (uint64_t nth = 1; failed; nth++) {
			weir_ahead *ahead = weir_ahead_new();
			weir_buf *buf = filled(16384, 16384, 'd');
			weir_mem_fail_after(nth);
			failed = weir_ahead_add(ahead, buf, 0, large ? 16384 : 100, MORE) == -ENOMEM;
			weir_mem_fail_after(0);
			assert_int_equal(buf->refs, !failed && large ? 2 : 1);
			weir_ahead_free(ahead);
			weir_buf_unref(buf);
			assert_true(nth < 10);
		}
	}
	assert_int_equal(weir_mem_live(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_parts_stay_where_they_are),
		cmocka_unit_test(small_parts_share_buffers),
		cmocka_unit_test(parts_keep_their_order),
		cmocka_unit_test(a_known_end_bounds_the_copy),
		cmocka_unit_test(survives_without_memory),
	};
	return cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}
