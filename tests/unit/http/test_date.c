/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>
#include <time.h>

#include <weir/random.h>

#include "http/parse.h"

#define NOW 1700000000 /* 2023-11-14 */

static int64_t parse(const char *text)
{
	return weir_date_parse((weir_span){text, strlen(text)}, NOW);
}

static void test_forms(void **state)
{
	assert_int_equal(parse("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
	assert_int_equal(parse("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
	assert_int_equal(parse("Sun Nov  6 08:49:37 1994"), 784111777);
	assert_int_equal(parse("Sun Nov 06 08:49:37 1994"), 784111777);
	assert_int_equal(parse("Wed Nov 16 08:49:37 1994"), 784111777 + 10 * 86400);
	assert_int_equal(parse("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
	assert_int_equal(parse("Fri, 31 Dec 9999 23:59:59 GMT"), 253402300799);
	assert_int_equal(parse("Tue, 29 Feb 2000 00:00:00 GMT"), 951782400);
	assert_int_equal(parse("Thu, 29 Feb 2024 12:00:00 GMT"), 1709208000);
	/* A leap second is the first of the next minute. */
	assert_int_equal(parse("Sat, 31 Dec 2016 23:59:60 GMT"), 1483228800);
}

static void test_century(void **state)
{
	/* In 2023, "73" may be 50 years ahead; "74" is not. */
	assert_int_equal(parse("Tuesday, 14-Nov-23 22:13:20 GMT"), NOW);
	assert_int_equal(parse("Sunday, 01-Jan-73 00:00:00 GMT"), 3250454400);
	assert_int_equal(parse("Sunday, 01-Jan-74 00:00:00 GMT"), 126230400);
	assert_int_equal(parse("Friday, 31-Dec-99 23:59:59 GMT"), 946684799);
	assert_int_equal(parse("Saturday, 01-Jan-00 00:00:00 GMT"), 946684800);
	/* In 1998, "30" is 2030; "70" is 1970. */
	weir_span text = WEIR_SPAN("Sunday, 01-Jan-30 00:00:00 GMT");
	assert_int_equal(weir_date_parse(text, 900000000), 1893456000);
	text = WEIR_SPAN("Sunday, 01-Jan-70 00:00:00 GMT");
	assert_int_equal(weir_date_parse(text, 900000000), 0);
	/* In 2099, "10" is 2110. */
	text = WEIR_SPAN("Sunday, 01-Jan-10 00:00:00 GMT");
	assert_int_equal(weir_date_parse(text, 4080000000), 4417977600);
	/* Clocks that are nowhere. */
	assert_true(weir_date_parse(text, -5) >= -1);
	assert_true(weir_date_parse(text, INT64_MAX / 2) >= -1);
	assert_true(weir_date_parse(text, INT64_MIN) >= -1);
	assert_true(weir_date_parse(text, INT64_MAX) >= -1);
}

static void test_no_dates(void **state)
{
	static const char *const texts[] = {
		"",
		"0",
		"-1",
		"now",
		"784111777",
		"Sun",
		"Sun,",
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 ",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		" Sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 +0000",
		"sun, 06 nov 1994 08:49:37 gmt",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun,  6 Nov 1994 08:49:37 GMT",
		"Sun,06 Nov 1994 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 31 Nov 1994 08:49:37 GMT",
		"Sun, 32 Jan 1994 08:49:37 GMT",
		"Sun, 29 Feb 1994 08:49:37 GMT",
		"Sun, 29 Feb 1900 08:49:37 GMT",
		"Mon, 29 Feb 2100 08:49:37 GMT",
		"Sun, 06 Nox 1994 08:49:37 GMT",
		"Sun, 06 Nov 94 08:49:37 GMT",
		"Sun, 06 Nov 0000 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT",
		"Sun, 06 Nov 1994 08:49 GMT",
		"Sun, 06 Nov 1994 08-49-37 GMT",
		"Sun, 06-Nov-1994 08:49:37 GMT",
		"Sunday, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sun, 06-Nov-94 08:49:37 GMT",
		"Sun Nov 6 08:49:37 1994",
		"Sun Nov  6 08:49:37 1994 GMT",
		"Sun Nov  6 08:49:37 94",
		"Xun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 199a 08:49:37 GMT",
		"Sun, 06 Nov 1994 0a:49:37 GMT",
		"Wed, 31 Dec 1969 23:59:59 GMT",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (parse(texts[i]) != -1)
			fail_msg("'%s' is %" PRId64, texts[i], parse(texts[i]));
	/* Cut anywhere, it is none; nothing is read past the cut. */
	const char *whole = "Sun, 06 Nov 1994 08:49:37 GMT";
	for (size_t length = 0; length < strlen(whole); length++)
		assert_int_equal(weir_date_parse((weir_span){whole, length}, NOW), -1);
	assert_int_equal(weir_date_parse((weir_span){"Sun, 06 Nov 1994 08:49:37 GM\0", 29}, NOW), -1);
}

static void print_as(int64_t seconds, const char *want)
{
	char text[31];
	memset(text, '#', sizeof(text));
	weir_date_print(text, seconds);
	assert_string_equal(text, want);
	assert_int_equal(text[30], '#');
}

static void test_printing(void **state)
{
	print_as(784111777, "Sun, 06 Nov 1994 08:49:37 GMT");
	print_as(0, "Thu, 01 Jan 1970 00:00:00 GMT");
	print_as(951782400, "Tue, 29 Feb 2000 00:00:00 GMT");
	print_as(253402300799, "Fri, 31 Dec 9999 23:59:59 GMT");
	/* Out of bounds is the bound. */
	print_as(-1, "Thu, 01 Jan 1970 00:00:00 GMT");
	print_as(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
}

/* All days of 400 years, and random seconds, against the C library. */
static void test_against_the_library(void **state)
{
	weir_random random;
	weir_random_init(&random, 3);
	for (int64_t day = 0; day < 146097; day++) {
		char text[30], want[30];
		time_t at = (time_t)(day * 86400 + (int64_t)weir_random_below(&random, 86400));
		struct tm parts;
		assert_non_null(gmtime_r(&at, &parts));
		strftime(want, sizeof(want), "%a, %d %b %Y %H:%M:%S GMT", &parts);
		weir_date_print(text, at);
		assert_string_equal(text, want);
		assert_int_equal(parse(text), at);
		strftime(want, sizeof(want), "%a %b %e %H:%M:%S %Y", &parts);
		assert_int_equal(parse(want), at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_century),
		cmocka_unit_test(test_no_dates),
		cmocka_unit_test(test_printing),
		cmocka_unit_test(test_against_the_library),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
