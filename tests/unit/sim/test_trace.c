/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: which column is what, order, what is asked for once, and every mistake with its line. */
#include "support/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/trace.h"

#define MS WEIR_NS_PER_MS

static weir_tracefile *read_text(const char *text, bool with_what)
{
	weir_tracefile *trace = NULL;
	if (weir_tracefile_parse("t.csv", text, strlen(text), with_what, &trace) < 0)
		fail_msg("%s", weir_error());
	return trace;
}

static const char *asked(const weir_tracefile *trace, size_t line)
{
	return trace->texts[trace->asked[line]];
}

static void columns_are_found_by_name(void **state)
{
	weir_tracefile *trace =
		read_text("client,t_offset_s,status,bytes\r\n7,0.001,200,870\r\n8,0.002,200,0870\r\n"
			  "9,0.003,404,1\r\n",
			  true);
	assert_int_equal(trace->count, 3);
	assert_int_equal(trace->what, WEIR_TRACEFILE_SIZES);
	assert_int_equal(trace->times_ns[2], 3 * MS);
	assert_int_equal(trace->text_count, 2);
	assert_string_equal(asked(trace, 0), "870");
	assert_string_equal(asked(trace, 1), "870");
	assert_string_equal(asked(trace, 2), "1");
	weir_tracefile_free(&trace);
	trace = read_text("bytes,url,time\n5,/a?b=1,2\n", true);
	assert_int_equal(trace->what, WEIR_TRACEFILE_PATHS);
	assert_string_equal(asked(trace, 0), "/a?b=1");
	assert_int_equal(trace->times_ns[0], 2000 * MS);
	weir_tracefile_free(&trace);
}

static void without_names_the_second_column_is_what(void **state)
{
	weir_tracefile *trace = read_text("\n0.1,/x,9\n\n0.2,/y,9", true);
	assert_int_equal(trace->what, WEIR_TRACEFILE_PATHS);
	assert_int_equal(trace->count, 2);
	assert_string_equal(asked(trace, 1), "/y");
	weir_tracefile_free(&trace);
	trace = read_text("1e-3,100\n", true);
	assert_int_equal(trace->what, WEIR_TRACEFILE_SIZES);
	weir_tracefile_free(&trace);
	trace = read_text("5\n6\n", true);
	assert_int_equal(trace->what, WEIR_TRACEFILE_NOTHING);
	assert_null(trace->asked);
	weir_tracefile_free(&trace);
	trace = read_text("5,nonsense\n6\n", false);
	assert_int_equal(trace->what, WEIR_TRACEFILE_NOTHING);
	weir_tracefile_free(&trace);
}

static void lines_are_put_in_order_with_what_they_ask(void **state)
{
	weir_tracefile *trace = read_text("3,/c\n1,/a\n2,/b1\n2,/b2\n0,/z\n", true);
	static const char *const expected[] = {"/z", "/a", "/b1", "/b2", "/c"};
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(asked(trace, i), expected[i]);
		assert_true(i == 0 || trace->times_ns[i] >= trace->times_ns[i - 1]);
	}
	weir_tracefile_free(&trace);
}

static void many_lines_and_paths_are_kept(void **state)
{
	size_t room = 20000 * 24, at = 0;
	char *text = malloc(room);
	for (unsigned i = 0; i < 10000; i++)
		at += (size_t)snprintf(text + at, room - at, "%u.%03u,/p%u\n", i / 1000, i % 1000, i % 3001);
	weir_tracefile *trace = read_text(text, true);
	assert_int_equal(trace->count, 10000);
	assert_int_equal(trace->text_count, 3001);
	for (unsigned i = 0; i < 10000; i++) {
		char path[16];
		snprintf(path, sizeof path, "/p%u", i % 3001);
		assert_string_equal(asked(trace, i), path);
		assert_int_equal(trace->times_ns[i], i * MS);
	}
	weir_tracefile_free(&trace);
	free(text);
}

static void refused(const char *text, const char *place, const char *why)
{
	weir_tracefile *trace = NULL;
	assert_int_equal(weir_tracefile_parse("t.csv", text, strlen(text), true, &trace), -EINVAL);
	assert_null(trace);
	check_contains(weir_error(), place);
	check_contains(weir_error(), why);
}

static void mistakes_are_told_with_their_line(void **state)
{
	char line[5000];
	refused("", "t.csv:1:", "no arrival");
	refused("time,path\n", "t.csv:2:", "no arrival");
	refused("1\nx\n", "t.csv:2:", "no time in column 1");
	refused("1\n-1\n", "t.csv:2:", "no time in column 1");
	refused("1\n3.7e6\n", "t.csv:2:", "no time in column 1");
	refused("a,time\n1,2\n3\n", "t.csv:3:", "no time in column 2");
	refused("1,/a\n2,b\n", "t.csv:2:", "no path in column 2");
	refused("1,/a\n\n2,/a b\n", "t.csv:3:", "no path in column 2");
	refused("1,/a\n2\n", "t.csv:2:", "no path in column 2");
	refused("1,5\n2,/a\n", "t.csv:2:", "no size in column 2");
	refused("1,5\n2,-5\n", "t.csv:2:", "no size in column 2");
	refused("1,5\n2,\n", "t.csv:2:", "no size in column 2");
	refused("1,5\n2,9999999999999\n", "t.csv:2:", "no size in column 2");
	memset(line, 'x', sizeof line);
	memcpy(line, "1,/", 3);
	line[sizeof line - 1] = '\0';
	refused(line, "t.csv:1:", "a line of at most");
	line[3000] = '\0';
	refused(line, "t.csv:1:", "no path");
}

static void files_that_are_none_are_refused(void **state)
{
	weir_tracefile *trace = NULL;
	assert_int_equal(weir_tracefile_read("/nowhere/t.csv", true, &trace), -ENOENT);
	check_contains(weir_error(), "/nowhere/t.csv");
	assert_int_equal(weir_tracefile_read("/", true, &trace), -EIO);
	assert_null(trace);
}

static void memory_that_runs_out_is_an_error(void **state)
{
	static const char text[] = "3,/a\n1,/b\n2,/a\n";
	for (uint64_t nth = 1;; nth++) {
		weir_tracefile *trace = NULL;
		uint64_t live = weir_mem_live();
		weir_mem_fail_after(nth);
		int failed = weir_tracefile_parse("t.csv", text, strlen(text), true, &trace);
		weir_mem_fail_after(0);
		if (failed == 0) {
			weir_tracefile_free(&trace);
			assert_true(nth > 6);
			break;
		}
		assert_int_equal(failed, -ENOMEM);
		assert_int_equal(weir_mem_live(), live);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(columns_are_found_by_name),
		CHECK_TEST(without_names_the_second_column_is_what),
		CHECK_TEST(lines_are_put_in_order_with_what_they_ask),
		CHECK_TEST(many_lines_and_paths_are_kept),
		CHECK_TEST(mistakes_are_told_with_their_line),
		CHECK_TEST(files_that_are_none_are_refused),
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
