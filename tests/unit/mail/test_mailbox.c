/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <mail/mailbox.h>
#include <stdlib.h>
#include <string.h>

typedef struct mbox_seen {
	unsigned count, too_long;
	size_t lengths[10];
	char last[100];
} mbox_seen;

static int see(void *arg, const char *path, const mail_source *source, unsigned flags)
{
	mbox_seen *seen = arg;
	seen->lengths[seen->count++] = source->bytes;
	snprintf(seen->last, sizeof(seen->last), "%.*s", (int)source->bytes, (const char *)source->memory);
	return 0;
}

static void miss(void *arg, const char *path, const char *sentence)
{
	((mbox_seen *)arg)->too_long++;
}

static mbox_seen split(const char *text, size_t length)
{
	mbox_seen seen = {0};
	FILE *file = tmpfile();
	fwrite(text, 1, length, file);
	fflush(file);
	rewind(file);
	assert_int_equal(
		mbox_read(&(mailbox_reader){.each = see, .wrong = miss, .arg = &seen}, fileno(file), "box"),
		0);
	fclose(file);
	return seen;
}

#define LINE "From x 1:23\n"

static void test_lines_that_separate(void **state)
{
	mbox_seen seen = split(LINE "a\n\n" LINE "b\n", strlen(LINE "a\n\n" LINE "b\n"));
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.lengths[0], 2);
	assert_string_equal(seen.last, "b\n");
	seen = split(LINE "a\n" LINE "\nFrom me\n", strlen(LINE "a\n" LINE "\nFrom me\n"));
	assert_int_equal(seen.count, 1);
	seen = split(LINE "a\r\n\r\n" LINE "b", strlen(LINE "a\r\n\r\n" LINE "b"));
	assert_int_equal(seen.count, 2);
	seen = split("", 0);
	assert_int_equal(seen.count, 0);
	seen = split(LINE, strlen(LINE));
	assert_int_equal(seen.count, 0);
}

static void test_long_lines_and_messages(void **state)
{
	size_t length = MAIL_BYTES_MAX + 100000;
	char *text = malloc(length);
	memset(text, 'x', length);
	memcpy(text, LINE, strlen(LINE));
	memcpy(text + length - 20, "\n\n" LINE "ok\n", 2 + strlen(LINE "ok\n"));
	mbox_seen seen = split(text, length - 20 + 2 + strlen(LINE "ok\n"));
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.too_long, 1);
	assert_string_equal(seen.last, "ok\n");
	/* A line that is as long as what is read at a time, before a line that looks like a separator. */
	memset(text, 'x', 20000);
	memcpy(text, LINE, strlen(LINE));
	memcpy(text + strlen(LINE) + 8192, LINE, strlen(LINE));
	seen = split(text, 20000);
	assert_int_equal(seen.count, 1);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_that_separate),
		cmocka_unit_test(test_long_lines_and_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
