/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens in files: the first line, and nothing else. */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "keys/token.h"

static char path[] = "/tmp/weir-token-XXXXXX";

static void write_file(const char *text, size_t length)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
}

static void the_first_line_is_the_token(void **state)
{
	static const struct {
		const char *text, *token;
	} cases[] = {{"secret\n", "secret"},
		     {"secret", "secret"},
		     {"secret\r\nmore\n", "secret"},
		     {"open sesame\n", "open sesame"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char token[WEIR_TOKEN_BYTES] = "before";
		write_file(cases[i].text, strlen(cases[i].text));
		assert_int_equal(weir_token_read(path, token), 0);
		assert_string_equal(token, cases[i].token);
	}
}

static void others_are_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {{"", "empty"},
		     {"\nsecret\n", "empty"},
		     {"sec\tret\n", "control characters"},
		     {"sec\x7fret\n", "control characters"}};
	char token[WEIR_TOKEN_BYTES] = "before", longest[WEIR_TOKEN_BYTES + 8];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_file(cases[i].text, strlen(cases[i].text));
		assert_int_equal(weir_token_read(path, token), -EINVAL);
		check_contains(weir_error(), cases[i].why);
		check_contains(weir_error(), path);
		assert_null(strstr(weir_error(), "ret"));
	}
	memset(longest, 'x', sizeof(longest));
	write_file(longest, sizeof(longest));
	assert_int_equal(weir_token_read(path, token), -EINVAL);
	check_contains(weir_error(), "too long");
	write_file(longest, WEIR_TOKEN_BYTES - 2);
	assert_int_equal(weir_token_read(path, token), 0);
	assert_int_equal(strlen(token), WEIR_TOKEN_BYTES - 2);
	strcpy(token, "before");
	assert_int_equal(weir_token_read("/nowhere/token", token), -ENOENT);
	assert_int_equal(weir_token_read("/", token), -EISDIR);
	assert_string_equal(token, "before");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_line_is_the_token),
		cmocka_unit_test(others_are_refused),
	};
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
