/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of single requests: written as they were added; and none where there is no room. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/each.h"

static char *written(const load_each *each, bool names)
{
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);
	load_each_write(file, each, names);
	fclose(file);
	return text;
}

static void rows_are_written(void **state)
{
	load_each each = {.row = NULL};
	load_each_add(&each, &(load_each_row){3, 1000000000, 1500000000, 2000000500, 42, 1, LOAD_OK});
	load_each_add(&each, &(load_each_row){0, 0, 0, 7000000, 0, 4, LOAD_ABORTED});
	char *text = written(&each, true);
	assert_string_equal(
		text, "number,meant_s,first_byte_s,ended_s,bytes,attempts,end\n"
		      "3,1.000000,1.500000,2.000001,42,1,ok\n0,0.000000,0.000000,0.007000,0,4,aborted\n");
	free(text);
	load_each_fini(&each);
	text = written(&each, false);
	assert_string_equal(text, "");
	free(text);
}

static void many_rows(void **state)
{
	load_each each = {.row = NULL};
	for (uint64_t i = 0; i < 100000; i++)
		load_each_add(&each, &(load_each_row){.number = i});
	assert_int_equal(each.count, 100000);
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(each.row[i].number, i);
	load_each_fini(&each);
}

static void without_memory_rows_are_left_out(void **state)
{
	load_each each = {.row = NULL};
	weir_mem_fail_after(1);
	load_each_add(&each, &(load_each_row){.number = 1});
	weir_mem_fail_after(0);
	load_each_add(&each, &(load_each_row){.number = 2});
	assert_int_equal(each.left_out, 1);
	assert_int_equal(each.count, 1);
	assert_int_equal(each.row[0].number, 2);
	/* The bound: as if it were full. */
	each.count = each.room = LOAD_EACH_MOST;
	load_each_add(&each, &(load_each_row){.number = 3});
	assert_int_equal(each.left_out, 2);
	each.count = 1;
	load_each_fini(&each);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(rows_are_written),
		CHECK_TEST(many_rows),
		CHECK_TEST(without_memory_rows_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
