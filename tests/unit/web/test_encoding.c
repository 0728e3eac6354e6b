/* SPDX-License-Identifier: Apache-2.0 */
/* Which encoding is chosen, and the media types. */
#include "on_asked.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "web/types.h"

#define ALL 15U

static void check_choice(const char *fields, unsigned there, weir_encoding want)
{
	request_text text;
	weir_encoding got = weir_encoding_choose(asked_by(&text, fields), there);
	if (got != want)
		fail_msg("%s%s instead of %s", fields, weir_encoding_token(got).at,
			 weir_encoding_token(want).at);
}

#define chooses(value, there, name) \
	check_choice("Accept-Encoding: " value "\r\n", there, WEIR_ENCODING_##name)

static void what_is_wanted_most(void **state)
{
	check_choice("", ALL, WEIR_ENCODING_IDENTITY);
	chooses("", ALL, IDENTITY);
	chooses("gzip, deflate, br, zstd", ALL, BR);
	chooses("gzip, deflate, br, zstd", 1U << WEIR_ENCODING_GZIP | 1U, GZIP);
	chooses("gzip, deflate, zstd", ALL, ZSTD);
	chooses("GZIP", ALL, GZIP);
	chooses("x-gzip", ALL, GZIP);
	chooses("deflate", ALL, IDENTITY);
	chooses("br", 1U, IDENTITY);
	check_choice("Accept-Encoding: deflate\r\nAccept-Encoding: gzip\r\n", ALL, WEIR_ENCODING_GZIP);
}

static void by_weight(void **state)
{
	chooses("br;q=0.5, gzip;q=0.8", ALL, GZIP);
	chooses("br;q=0.800, gzip;q=0.801", ALL, GZIP);
	chooses("br;q=0, gzip", ALL, GZIP);
	chooses("br;q=0.000, gzip;q=0", ALL, IDENTITY);
	chooses("gzip ; Q=1.000 , br ;q=0.1", ALL, GZIP);
	chooses("*", ALL, BR);
	chooses("*;q=0.5, gzip;q=0.6", ALL, GZIP);
	chooses("*;q=0", ALL, IDENTITY);
	chooses("br;q=0, *;q=0.1", ALL, ZSTD);
	chooses("identity, gzip", ALL, GZIP);
	chooses("identity;q=1, gzip;q=0.5", ALL, IDENTITY);
	chooses("identity;q=0.5, gzip;q=0.6", ALL, GZIP);
	chooses("identity;q=0, gzip;q=0.1", ALL, GZIP);
	chooses("identity;q=0", 1U, IDENTITY);
}

static void malformed_elements_count_for_nothing(void **state)
{
	chooses("br;q=2, gzip", ALL, GZIP);
	chooses("br;q=1.1", ALL, IDENTITY);
	chooses("br;q=0.5555, gzip;q=0.1", ALL, GZIP);
	chooses("br;q=.5, gzip;q=0.1", ALL, GZIP);
	chooses("br;q=, gzip;q=0.1", ALL, GZIP);
	chooses("br;level=1, gzip;q=0.1", ALL, GZIP);
	chooses("br;q=0x, gzip;q=0.1", ALL, GZIP);
	chooses("br;q=0.x, gzip;q=0.1", ALL, GZIP);
	chooses(",,;;, gzip;q=0.1", ALL, GZIP);
	chooses("brgzip", ALL, IDENTITY);
}

/* ---- types ---- */

static void types_by_name(void **state)
{
	weir_types *types = NULL;
	assert_int_equal(weir_types_new(NULL, &types), 0);
	assert_string_equal(weir_types_find(types, "a.html"), "text/html; charset=utf-8");
	assert_string_equal(weir_types_find(types, "a.b.HTM"), "text/html; charset=utf-8");
	assert_string_equal(weir_types_find(types, "x/y.7z"), "application/x-7z-compressed");
	assert_string_equal(weir_types_find(types, "z.zst"), "application/zstd");
	assert_string_equal(weir_types_find(types, "font.woff2"), "font/woff2");
	assert_string_equal(weir_types_find(types, "a.js"), "text/javascript; charset=utf-8");
	assert_string_equal(weir_types_find(types, "a.jpg/b"), WEIR_TYPE_UNKNOWN);
	assert_string_equal(weir_types_find(types, "README"), WEIR_TYPE_UNKNOWN);
	assert_string_equal(weir_types_find(types, "a."), WEIR_TYPE_UNKNOWN);
	assert_string_equal(weir_types_find(types, "a.nobody"), WEIR_TYPE_UNKNOWN);
	weir_types_free(&types);
	weir_types_free(&types);
}

static int read_types(const char *text, weir_types **ret_types)
{
	char path[] = "/tmp/weir-types-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	int error = weir_types_new(path, ret_types);
	unlink(path);
	return error;
}

static void types_of_a_file(void **state)
{
	weir_types *types = NULL;
	uint64_t live = weir_mem_live();
	assert_int_equal(
		read_types("# ours\n\ntext/x-weir weir  WR # and so on\r\napplication/none\nimage/x-a html\n"
			   "image/x-b html",
			   &types),
		0);
	assert_string_equal(weir_types_find(types, "a.weir"), "text/x-weir");
	assert_string_equal(weir_types_find(types, "a.wr"), "text/x-weir");
	assert_string_equal(weir_types_find(types, "a.html"), "image/x-b");
	assert_string_equal(weir_types_find(types, "a.css"), "text/css; charset=utf-8");
	weir_types_free(&types);
	assert_int_equal(weir_mem_live(), live);
}

static void types_that_are_wrong(void **state)
{
	weir_types *types = NULL;
	uint64_t live = weir_mem_live();
	assert_int_equal(read_types("text/html html\nnonsense x\n", &types), -EINVAL);
	assert_non_null(strstr(weir_error(), ":2:"));
	assert_int_equal(read_types("text/\x01html html\n", &types), -EINVAL);
	assert_int_equal(weir_types_new("/nonexistent/types", &types), -ENOENT);
	assert_int_equal(weir_types_new("/tmp", &types), -EINVAL);
	char *many = calloc(1, 20000);
	for (int i = 0; i < 1000; i++)
		snprintf(many + strlen(many), 20, "a/b e%d\n", i);
	assert_int_equal(read_types(many, &types), 0);
	assert_string_equal(weir_types_find(types, "x.e999"), "a/b");
	weir_types_free(&types);
	for (uint64_t i = 1; i < 12; i++) {
		weir_mem_fail_after(i);
		int error = read_types(many, &types);
		weir_mem_fail_after(0);
		assert_true(error == 0 || error == -ENOMEM);
		weir_types_free(&types);
	}
	free(many);
	assert_null(types);
	assert_int_equal(weir_mem_live(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wanted_most),
		cmocka_unit_test(by_weight),
		cmocka_unit_test(malformed_elements_count_for_nothing),
		cmocka_unit_test(types_by_name),
		cmocka_unit_test(types_of_a_file),
		cmocka_unit_test(types_that_are_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
