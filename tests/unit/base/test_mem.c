/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

static bool zeroed(const unsigned char *memory, size_t size)
{
	while (size-- > 0)
		if (memory[size] != 0)
			return false;
	return true;
}

static void test_zeroed_and_counted(void **state)
{
	uint64_t live = weir_mem_live(), count = weir_mem_count();
	for (size_t size = 0; size < 300; size += 7) {
		unsigned char *a = weir_mem_zalloc(size), *b = weir_mem_array(size, 3);
		assert_non_null(a);
		assert_non_null(b);
		assert_true(zeroed(a, size) && zeroed(b, size * 3));
		memset(a, 255, size);
		memset(b, 255, size * 3);
		assert_int_equal(weir_mem_live(), live + 2);
		weir_mem_free(a);
		weir_mem_free(b);
	}
	weir_mem_free(NULL);
	assert_int_equal(weir_mem_live(), live);
	assert_true(weir_mem_count() > count);
}

static void test_aligned(void **state)
{
	for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
		unsigned char *memory = weir_mem_aligned(alignment, alignment + 3);
		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % alignment, 0);
		assert_true(zeroed(memory, alignment + 3));
		weir_mem_free(memory);
	}
}

static void test_overflow_is_refused(void **state)
{
	uint64_t live = weir_mem_live();
	volatile size_t huge = SIZE_MAX / 2;
	assert_null(weir_mem_array(huge, 3));
	assert_int_equal(weir_mem_live(), live);
}

static void test_strdup(void **state)
{
	char *copy = weir_mem_strdup("weir");
	assert_string_equal(copy, "weir");
	weir_mem_free(copy);
}

static void test_nth_fails_once(void **state)
{
	for (uint64_t nth = 1; nth <= 5; nth++) {
		void *memory[5];
		uint64_t live = weir_mem_live();
		weir_mem_fail_after(nth);
		memory[0] = weir_mem_zalloc(1);
		memory[1] = weir_mem_array(2, 2);
		memory[2] = weir_mem_aligned(64, 2);
		memory[3] = weir_mem_strdup("x");
		memory[4] = weir_mem_raw(0);
		for (uint64_t i = 0; i < 5; i++)
			assert_true((memory[i] == NULL) == (i + 1 == nth));
		assert_int_equal(weir_mem_live(), live + 4);
		for (int i = 0; i < 5; i++)
			weir_mem_free(memory[i]);
	}
	weir_mem_fail_after(1);
	weir_mem_fail_after(0);
	void *memory = weir_mem_zalloc(1);
	assert_non_null(memory);
	weir_mem_free(memory);
}

static _Atomic int failures;

static void *allocate_many(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		void *memory = weir_mem_zalloc(8);
		if (memory == NULL)
			atomic_fetch_add(&failures, 1);
		weir_mem_free(memory);
	}
	return NULL;
}

static void test_threads_share_the_count(void **state)
{
	pthread_t threads[4];
	uint64_t live = weir_mem_live();
	weir_mem_fail_after(15000);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, allocate_many, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 1);
	assert_int_equal(weir_mem_live(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zeroed_and_counted),  cmocka_unit_test(test_aligned),
		cmocka_unit_test(test_overflow_is_refused), cmocka_unit_test(test_strdup),
		cmocka_unit_test(test_nth_fails_once),      cmocka_unit_test(test_threads_share_the_count),
	};
	return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
