/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <locale.h>
#include <string.h>

#include <weir/random.h>

#include "base/error.h"
#include "base/text.h"

#define NONE 77

static uint64_t time_of(const char *text)
{
	uint64_t ns = NONE;
	if (weir_text_time(text, &ns) != 0)
		fail_msg("'%s': %s", text, weir_error());
	return ns;
}

/* Refused, with nothing written, and a sentence in which the word is. */
static void refuse_time(const char *text, const char *word)
{
	uint64_t ns = NONE;
	weir_error_set(0, "nothing");
	assert_int_equal(weir_text_time(text, &ns), -EINVAL);
	assert_int_equal(ns, NONE);
	if (strstr(weir_error(), word) == NULL)
		fail_msg("'%s': \"%s\" does not say '%s'", text, weir_error(), word);
}

static void test_times(void **state)
{
	assert_int_equal(time_of("200ms"), 200000000);
	assert_int_equal(time_of("1.5s"), 1500000000);
	assert_int_equal(time_of("20us"), 20000);
	assert_int_equal(time_of("20\302\265s"), 20000);
	assert_int_equal(time_of("20\316\274s"), 20000);
	assert_int_equal(time_of("7ns"), 7);
	assert_int_equal(time_of("2m"), 120000000000);
	assert_int_equal(time_of("2min"), 120000000000);
	assert_int_equal(time_of("1.5h"), 5400000000000);
	assert_int_equal(time_of("0s"), 0);
	assert_int_equal(time_of("0.000ms"), 0);
	assert_int_equal(time_of(" \t200 ms\n"), 200000000);
	assert_int_equal(time_of(".5s"), 500000000);
	assert_int_equal(time_of("5.s"), 5000000000);
	assert_int_equal(time_of("007ms"), 7000000);
}

/* As the decimal says, not as binary fractions have it. */
static void test_times_are_exact(void **state)
{
	assert_int_equal(time_of("0.3s"), 300000000);
	assert_int_equal(time_of("1.000000001s"), 1000000001);
	assert_int_equal(time_of("9007199.254740993s"), 9007199254740993);
	assert_int_equal(time_of("0.0000005ms"), 1);
	assert_int_equal(time_of("1.4ns"), 1);
	assert_int_equal(time_of("1.5ns"), 2);
	assert_int_equal(time_of("0.333333333333333333333333333333333h"), 1200000000000);
	assert_int_equal(time_of("18446744073709551615ns"), UINT64_MAX);
	assert_int_equal(time_of("18446744073.709551615s"), UINT64_MAX);
}

static void test_times_refused(void **state)
{
	refuse_time("200", "unit is missing");
	refuse_time("200", "ms");
	refuse_time("0", "unit is missing");
	refuse_time("", "no value");
	refuse_time(NULL, "no value");
	refuse_time("  ", "no value");
	refuse_time("ms", "number");
	refuse_time(".s", "number");
	refuse_time("-1s", "number");
	refuse_time("1e3ms", "units are");
	refuse_time("1..5s", "units are");
	refuse_time("200MS", "units are");
	refuse_time("200msx", "units are");
	refuse_time("1s 2s", "units are");
	refuse_time("inf s", "number");
	refuse_time("0x10s", "units are");
	refuse_time("18446744073709551616ns", "too long");
	refuse_time("18446744073.709551616s", "too long");
	refuse_time("99999999999999999999999999h", "too long");
	refuse_time("0.1ns", "too short");
	refuse_time("0.00000000000000000000000000000000001s", "too short");
	refuse_time("\001\377\n%s", "units are");
	assert_null(strchr(weir_error(), '\377'));
	assert_null(strchr(weir_error(), '\001'));
}

static void test_times_come_back(void **state)
{
	weir_random random;
	static const char *const units[] = {NULL, "ns", "us", "ms", "s", "m", "h", "", "x"};
	weir_random_init(&random, 1);
	for (int i = 0; i < 200000; i++) {
		char text[32];
		uint64_t ns = weir_random_u64(&random) >> weir_random_below(&random, 64);
		if (i % 3 == 0)
			ns -= ns % (weir_random_below(&random, 2) ? 1000000 : UINT64_C(60000000000));
		weir_text_print_time(text, sizeof(text), ns, units[weir_random_below(&random, 9)]);
		if (time_of(text) != ns)
			fail_msg("%" PRIu64 " was written as %s", ns, text);
	}
}

static void expect_time(const char *expected, uint64_t ns, const char *unit)
{
	char text[32];
	assert_string_equal(weir_text_print_time(text, sizeof(text), ns, unit), expected);
}

static void test_times_as_one_would_write_them(void **state)
{
	expect_time("200ms", 200000000, NULL);
	expect_time("0.2s", 200000000, "s");
	expect_time("0.001ms", 1000, "ms");
	expect_time("0.000001s", 1000, "s");
	expect_time("3600000ms", UINT64_C(3600000000000), "ms");
	expect_time("1h", UINT64_C(3600000000000), NULL);
	expect_time("60m", UINT64_C(3600000000000), "m");
	expect_time("1us", 1000, "h");
	expect_time("1500ms", 1500000000, NULL);
	expect_time("0s", 0, NULL);
	expect_time("0ms", 0, "ms");
	expect_time("18446744073709551615ns", UINT64_MAX, NULL);
	assert_string_equal(weir_text_time_unit(" 3 ms "), "ms");
	assert_string_equal(weir_text_time_unit("3"), "");
	assert_string_equal(weir_text_time_unit(NULL), "");
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		double value;
	} right[] = {{"12", 12},     {"-0.5", -0.5},  {".5", .5},   {"5.", 5},     {"1e6", 1e6},
		     {"1E-3", 1e-3}, {" +2.5 ", 2.5}, {"0.1", 0.1}, {"4e-400", 0}, {"1e308", 1e308}};
	static const char *const wrong[] = {"",   "x",   "1x",    "0x10", "inf", "nan",   "-",   ".",
					    "1e", "1e+", "1.2.3", "1,5",  "1 2", "1e999", "--1", NULL};
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		double number = NONE;
		assert_int_equal(weir_text_number(right[i].text, &number), 0);
		assert_true(number == right[i].value);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		double number = NONE;
		assert_int_equal(weir_text_number(wrong[i], &number), -EINVAL);
		assert_true(number == NONE);
	}
}

static void test_a_comma_in_the_locale_changes_nothing(void **state)
{
	double number = NONE;
	static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
	const char *set = NULL;
	for (int i = 0; i < 3 && set == NULL; i++)
		set = setlocale(LC_ALL, names[i]);
	assert_int_equal(weir_text_number("1.5", &number), 0);
	assert_true(number == 1.5);
	assert_int_equal(weir_text_number("1,5", &number), -EINVAL);
	setlocale(LC_ALL, "C");
	if (set == NULL)
		skip();
}

static void test_counts(void **state)
{
	static const char *const wrong[] = {"", "-1", "1.5", "1e3", "4294967296", "99999999999999999999999",
					    "x"};
	uint32_t count = NONE;
	assert_int_equal(weir_text_count(" 12 ", &count), 0);
	assert_int_equal(count, 12);
	assert_int_equal(weir_text_count("4294967295", &count), 0);
	assert_int_equal(count, UINT32_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(weir_text_count(wrong[i], &count), -EINVAL);
	assert_int_equal(count, UINT32_MAX);
}

static double percentile_of(const char *text)
{
	double fraction = NONE;
	if (weir_text_percentile(text, &fraction) != 0)
		fail_msg("'%s': %s", text, weir_error());
	return fraction;
}

/* All spellings of one percentile are the same double. */
static void test_percentiles(void **state)
{
	static const char *const wrong[] = {"",
					    "90",
					    "1",
					    "1.0",
					    "0",
					    "p0",
					    "p100",
					    "100%",
					    "0%",
					    "p",
					    "p999",
					    "-p9",
					    "p90x",
					    "p-5",
					    "90%%",
					    "p90%",
					    "%",
					    "pp90",
					    "99999999999999999999%",
					    "0.0000000000000000000000000001",
					    "p1e1"};
	assert_true(percentile_of("p90") == .9);
	assert_true(percentile_of("90%") == .9);
	assert_true(percentile_of(" 90 % ") == .9);
	assert_true(percentile_of(".9") == .9);
	assert_true(percentile_of("p99.9") == .999);
	assert_true(percentile_of("99.9%") == .999);
	assert_true(percentile_of("0.999") == .999);
	assert_true(percentile_of(".99900") == .999);
	assert_true(percentile_of("P50") == .5);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		double fraction = NONE;
		if (weir_text_percentile(wrong[i], &fraction) != -EINVAL || fraction != NONE)
			fail_msg("'%s' was taken for %g", wrong[i], fraction);
	}
	char text[32];
	assert_string_equal(weir_text_print_percentile(text, sizeof(text), .999), "p99.9");
	assert_string_equal(weir_text_print_percentile(text, sizeof(text), .9), "p90");
}

static void test_switches(void **state)
{
	bool on = false;
	assert_int_equal(weir_text_switch(" on ", &on), 0);
	assert_true(on);
	assert_int_equal(weir_text_switch("off", &on), 0);
	assert_false(on);
	assert_int_equal(weir_text_switch("true", &on), 0);
	assert_true(on);
	assert_int_equal(weir_text_switch("no", &on), 0);
	assert_false(on);
	assert_int_equal(weir_text_switch("onn", &on), -EINVAL);
	assert_int_equal(weir_text_switch("1", &on), -EINVAL);
	assert_int_equal(weir_text_switch("", &on), -EINVAL);
}

static void test_quotes(void **state)
{
	char quoted[10];
	assert_string_equal(weir_text_quote(quoted, sizeof(quoted), "a\nb\377"), "a?b?");
	assert_string_equal(weir_text_quote(quoted, sizeof(quoted), "123456789"), "123456789");
	assert_string_equal(weir_text_quote(quoted, sizeof(quoted), "1234567890"), "123456...");
	assert_string_equal(weir_text_quote(quoted, 2, "123"), "1");
	assert_string_equal(weir_text_quote(quoted, 1, "123"), "");
	assert_string_equal(weir_text_quote(quoted, sizeof(quoted), NULL), "");
}

static const char *name_at(const void *list, size_t at)
{
	return ((const char *const *)list)[at];
}

static void expect_nearest(const char *typed, const char *expected)
{
	static const char *const names[] = {"target", "percentile", "a_name_that_is_longer_than_any_word_is",
					    "min", NULL};
	const char *near = weir_text_nearest(typed, name_at, names);
	if (expected == NULL)
		assert_null(near);
	else
		assert_true(near != NULL && strcmp(near, expected) == 0);
}

static void test_nearest(void **state)
{
	expect_nearest("taregt", "target");
	expect_nearest("targets", "target");
	expect_nearest("per", "percentile");
	expect_nearest("percentil", "percentile");
	expect_nearest("a_name", "a_name_that_is_longer_than_any_word_is");
	expect_nearest("mni", "min");
	expect_nearest("xyz", NULL);
	expect_nearest("mix", "min");
	expect_nearest("max", NULL);
	expect_nearest("", NULL);
	expect_nearest("mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm", NULL);
}

static uint64_t size_of(const char *text)
{
	uint64_t bytes = NONE;
	if (weir_text_size(text, &bytes) != 0)
		fail_msg("'%s': %s", text, weir_error());
	return bytes;
}

static void refuse_size(const char *text, const char *word)
{
	uint64_t bytes = NONE;
	assert_int_equal(weir_text_size(text, &bytes), -EINVAL);
	assert_int_equal(bytes, NONE);
	if (strstr(weir_error(), word) == NULL)
		fail_msg("'%s': \"%s\" does not say '%s'", text, weir_error(), word);
}

static void test_sizes(void **state)
{
	static const char *const kilo[] = {"64K",    "64KB",  "64kb",     "64 KiB", "64Kb",
					   "64kib ", "65536", " 65536 B", "65536b"};
	for (size_t i = 0; i < sizeof(kilo) / sizeof(kilo[0]); i++)
		assert_int_equal(size_of(kilo[i]), 65536);
	assert_int_equal(size_of("0"), 0);
	assert_int_equal(size_of("0MB"), 0);
	assert_int_equal(size_of("1MB"), 1048576);
	assert_int_equal(size_of("1.5MB"), 1572864);
	assert_int_equal(size_of(".5KB"), 512);
	assert_int_equal(size_of("2GB"), UINT64_C(2) << 30);
	assert_int_equal(size_of("3TB"), UINT64_C(3) << 40);
	assert_int_equal(size_of("0.001KB"), 1);
	assert_int_equal(size_of("18446744073709551615"), UINT64_MAX);
	assert_int_equal(size_of("16777215TB"), UINT64_C(16777215) << 40);
}

static void test_sizes_refused(void **state)
{
	refuse_size("", "no value");
	refuse_size(NULL, "no value");
	refuse_size("KB", "64KB");
	refuse_size("-1", "64KB");
	refuse_size("1e6", "64KB");
	refuse_size("12X", "64KB");
	refuse_size("12Ki", "64KB");
	refuse_size("12KBB", "64KB");
	refuse_size("12BB", "64KB");
	refuse_size("12iB", "64KB");
	refuse_size("12 K B", "64KB");
	refuse_size("1MB 2", "64KB");
	refuse_size("0.1", "too small");
	refuse_size("0.0001KB", "too small");
	refuse_size("16777216TB", "too large");
	refuse_size("18446744073709551616", "too large");
}

/* What is printed is read back. */
static void test_sizes_printed(void **state)
{
	weir_random random;
	char text[32];
	assert_string_equal(weir_text_print_size(text, sizeof(text), 0), "0B");
	assert_string_equal(weir_text_print_size(text, sizeof(text), 1023), "1023B");
	assert_string_equal(weir_text_print_size(text, sizeof(text), 65536), "64KB");
	assert_string_equal(weir_text_print_size(text, sizeof(text), UINT64_C(1) << 50), "1024TB");
	weir_random_init(&random, 7);
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t bytes = weir_random_u64(&random) >> (i % 64) << (i % 41);
		assert_int_equal(size_of(weir_text_print_size(text, sizeof(text), bytes)), bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_times_are_exact),
		cmocka_unit_test(test_times_refused),
		cmocka_unit_test(test_times_come_back),
		cmocka_unit_test(test_times_as_one_would_write_them),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_refused),
		cmocka_unit_test(test_sizes_printed),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_a_comma_in_the_locale_changes_nothing),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_nearest),
	};
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
