/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

#include <weir/random.h>

#include "http/parse.h"

/*
 * What a decoder makes of a text: its data, then what it says at the end: "|done" with the bytes it left, "|more", or "|bad" with why.
 */
typedef struct decoded {
	char text[8192];
	size_t length;
} decoded;

static void add(decoded *to, const char *bytes, size_t length)
{
	assert_true(to->length + length < sizeof(to->text));
	memcpy(to->text + to->length, bytes, length);
	to->length += length;
	to->text[to->length] = '\0';
}

/* Gives `some` bytes at a time. */
static const char *decode(const char *text, size_t length, size_t some)
{
	static decoded to;
	weir_chunks chunks = {0};
	weir_parse result = WEIR_PARSE_MORE;
	size_t at = 0;
	to.length = 0;
	to.text[0] = '\0';
	while (result == WEIR_PARSE_MORE && at < length) {
		size_t used = 77, data = 77, data_length = 77,
		       given = some < length - at ? some : length - at;
		result = weir_chunks_take(&chunks, text + at, given, &used, &data, &data_length);
		if (result == WEIR_PARSE_BAD) {
			/* Untouched; and it stays so. */
			assert_true(used == 77 && data == 77 && data_length == 77);
			assert_int_equal(weir_chunks_take(&chunks, "1\r\n", 3, &used, &data, &data_length),
					 WEIR_PARSE_BAD);
			break;
		}
		assert_true(used > 0 && used <= given && data + data_length <= used);
		assert_true(result != WEIR_PARSE_DONE || data_length == 0);
		add(&to, text + at + data, data_length);
		at += used;
	}
	char end[200];
	if (result == WEIR_PARSE_DONE)
		snprintf(end, sizeof(end), "|done %zu", length - at);
	else
		snprintf(end, sizeof(end), "|%s", result == WEIR_PARSE_MORE ? "more" : chunks.error);
	add(&to, end, strlen(end));
	return to.text;
}

static void expect(const char *text, const char *want)
{
	for (size_t some = 1; some <= strlen(text) + 1; some++) {
		const char *result = decode(text, strlen(text), some);
		if (strcmp(result, want) != 0)
			fail_msg("'%s', %zu at a time: '%s' instead of '%s'", text, some, result, want);
	}
}

static void test_bodies(void **state)
{
	expect("0\r\n", "|done 0");
	expect("0\r\n\r\n", "|done 2");
	expect("000\r\nA: b\r\n\r\n", "|done 8");
	expect("5\r\nhello\r\n0\r\n\r\n", "hello|done 2");
	expect("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world|done 2");
	expect("a\r\n0123456789\r\nB\r\n01234567890\r\n0\r\n", "012345678901234567890|done 0");
	expect("0000000000000003\r\nabc\r\n0\r\n", "abc|done 0");
	expect("2\r\n\r\n\r\n0\r\n", "\r\n|done 0");
	expect("1\r\n0\r\n0\r\n", "0|done 0");
	expect("5;a=b\r\nhello\r\n0;x\r\n\r\n", "hello|done 2");
	expect("1;\r\na\r\n0;;;\"\xc3\xa9 \"\r\n", "a|done 0");
	expect("5", "|more");
	expect("5\r", "|more");
	expect("5\r\nhel", "hel|more");
	expect("5\r\nhello", "hello|more");
	expect("5\r\nhello\r", "hello|more");
	expect("5\r\nhello\r\n", "hello|more");
	expect("0;a", "|more");
	expect("0\r", "|more");
}

#define NO_NUMBER "|a chunk size that is no number"

static void test_malformed(void **state)
{
	expect("\r\n", NO_NUMBER);
	expect("\n", NO_NUMBER);
	expect(";a\r\n", NO_NUMBER);
	expect(" 5\r\nhello", NO_NUMBER);
	expect("5 \r\nhello", NO_NUMBER);
	expect("5 ;a\r\nhello", NO_NUMBER);
	expect("5\t\r\nhello", NO_NUMBER);
	expect("+5\r\nhello", NO_NUMBER);
	expect("-5\r\nhello", NO_NUMBER);
	expect("0x5\r\nhello", NO_NUMBER);
	expect("5h\r\nhello", NO_NUMBER);
	expect("5g\r\n", NO_NUMBER);
	expect("5G\r\n", NO_NUMBER);
	expect("5/\r\n", NO_NUMBER);
	expect("5:\r\n", NO_NUMBER);
	expect("5@\r\n", NO_NUMBER);
	expect("5`\r\n", NO_NUMBER);
	expect("5\x80\r\n", NO_NUMBER);
	expect("5_0\r\n", NO_NUMBER);
	expect("5.\r\n", NO_NUMBER);
	expect("5,\r\n", NO_NUMBER);
	expect("5\nhello\n", NO_NUMBER);
	expect("00000000000000005\r\nhello", "|a chunk size of too many digits");
	expect("fffffffffffffffff\r\n", "|a chunk size that is too large");
	expect("8000000000000000\r\n", "|a chunk size that is too large");
	expect("7fffffffffffffff\r\nx", "x|more");
	expect("5\rhello", "|CR without LF after a chunk size");
	expect("5\r\rhello", "|CR without LF after a chunk size");
	expect("5;a\rb\r\nhello", "|CR without LF after a chunk size");
	expect("0\rx", "|CR without LF after a chunk size");
	expect("5;a\nhello", "|a control byte in a chunk extension");
	expect("5;\ta\r\nhello", "|a control byte in a chunk extension");
	expect("5;a\x7f\r\nhello", "|a control byte in a chunk extension");
	expect("5\r\nhelloX", "hello|no CR after a chunk");
	expect("5\r\nhello\n0\r\n", "hello|no CR after a chunk");
	expect("5\r\nhello0\r\n", "hello|no CR after a chunk");
	expect("5\r\nhello\rX", "hello|CR without LF after a chunk");
	expect("5\r\nhello\r\n\r\n", "hello" NO_NUMBER);
	expect("5\r\nhello\r\n;\r\n", "hello" NO_NUMBER);
	assert_string_equal(decode("5;\0\r\n", 5, 5), "|a control byte in a chunk extension");
	assert_string_equal(decode("\0", 1, 1), NO_NUMBER);
}

static void test_extensions_are_bounded(void **state)
{
	char text[400] = "3;";
	memset(text + 2, 'x', 256);
	snprintf(text + 258, sizeof(text) - 258, "\r\nabc\r\n0\r\n");
	expect(text, "abc|done 0");
	memset(text + 2, 'x', 257);
	snprintf(text + 259, sizeof(text) - 259, "\r\nabc\r\n0\r\n");
	expect(text, "|a chunk extension that is too long");
	/* Each line has its own count. */
	snprintf(text, sizeof(text), "1;xxxxxxxx\r\na\r\n0;");
	size_t length = strlen(text);
	memset(text + length, 'x', 256);
	snprintf(text + length + 256, sizeof(text) - (length + 256), "\r\n");
	expect(text, "a|done 0");
}

static void test_nothing_is_nothing(void **state)
{
	weir_chunks chunks = {0};
	size_t used, data, data_length;
	assert_int_equal(weir_chunks_take(&chunks, "", 0, &used, &data, &data_length), WEIR_PARSE_MORE);
	assert_true(used == 0 && data_length == 0);
	assert_int_equal(weir_chunks_take(&chunks, "0\r\nrest", 7, &used, &data, &data_length),
			 WEIR_PARSE_DONE);
	assert_true(used == 3 && data_length == 0);
	assert_int_equal(weir_chunks_take(&chunks, "rest", 4, &used, &data, &data_length), WEIR_PARSE_DONE);
	assert_true(used == 0 && data_length == 0);
}

/* Bodies cut into random chunks come back as they were. */
static void test_random_bodies(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		char body[500], text[8000];
		size_t length = 0, made = 0;
		weir_random random;
		weir_random_init(&random, seed);
		while (made < 400) {
			size_t size = 1 + weir_random_below(&random, 40);
			length += (size_t)sprintf(text + length,
						  weir_random_below(&random, 2) ? "%zx" : "%05zX", size);
			length += (size_t)sprintf(text + length, "%s\r\n",
						  weir_random_below(&random, 3) ? "" : ";a=\"b\"");
			for (size_t i = 0; i < size; i++)
				text[length++] = body[made++] = (char)(1 + weir_random_below(&random, 255));
			length += (size_t)sprintf(text + length, "\r\n");
		}
		length += (size_t)sprintf(text + length, "0\r\n");
		const char *result = decode(text, length, 1 + weir_random_below(&random, 60));
		assert_for_seed(seed,
				memcmp(result, body, made) == 0 && strcmp(result + made, "|done 0") == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_extensions_are_bounded),
		cmocka_unit_test(test_nothing_is_nothing),
		cmocka_unit_test(test_random_bodies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
