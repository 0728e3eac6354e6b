/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of links: what is read, what is refused, and that what is printed reads back. */
#include "support/unit.h"

#include <string.h>

#include <weir/random.h>

#include "base/error.h"
#include "keys/bitrate.h"
#include "keys/keys.h"

static void test_reads(void **state)
{
	static const struct {
		const char *text;
		uint64_t bits;
	} cases[] = {{"10mbit", 10000000},       {"1gbit", 1000000000}, {"2.5 Gbit/s", 2500000000},
		     {"1.5MB/s", 12000000},      {" 64kbit", 64000},    {"64KBIT/s", 64000},
		     {"8000bit", 8000},          {"1000B/s", 8000},     {"12.5kB/s", 100000},
		     {"400gbit", 400000000000u}, {".5mbit", 500000},    {"0000010mbit", 10000000}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t got = 7;
		assert_int_equal(weir_bitrate_read(cases[i].text, &got), 0);
		assert_int_equal(got, cases[i].bits);
	}
}

static void test_refuses(void **state)
{
	static const char *const cases[] = {"",
					    " ",
					    "10",
					    "0",
					    "0mbit",
					    "mbit",
					    "10mb/s",
					    "10MB",
					    "10mbps",
					    "-1mbit",
					    "1e9mbit",
					    "1.5.2mbit",
					    "10 mbit x",
					    "7999bit",
					    "401gbit",
					    "inf",
					    "nanmbit",
					    "0x10mbit",
					    "10mbit/m",
					    "10\xffmbit",
					    "99999999999999999999999999999999999gbit",
					    "1111111111111111111111111111111111111111111111gbit"};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t got = 7;
		assert_int_equal(weir_bitrate_read(cases[i], &got), -22);
		assert_int_equal(got, 7);
		assert_non_null(strstr(weir_error(), "write a rate"));
	}
	uint64_t got = 7;
	assert_int_equal(weir_bitrate_read(NULL, &got), -22);
	assert_int_equal(weir_bitrate_read("0mbit", &got), -22);
	assert_string_equal(weir_error(), "'0mbit': write a rate from 8kbit to 400gbit");
}

static void test_prints_what_it_reads(void **state)
{
	char text[32];
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 10000000), "10mbit");
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 1500000000), "1.5gbit");
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 9800000), "9.8mbit");
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 1050000), "1.05mbit");
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 8001), "8.001kbit");
	assert_string_equal(weir_bitrate_print(text, sizeof(text), 0), "0bit");
	weir_random random;
	weir_random_init(&random, 1);
	for (unsigned i = 0; i < 10000; i++) {
		uint64_t bits = WEIR_BITRATE_LEAST + weir_random_below(&random, UINT64_C(1) << (i % 32)), got;
		assert_int_equal(weir_bitrate_read(weir_bitrate_print(text, sizeof(text), bits), &got), 0);
		assert_for_seed(i, got == bits);
	}
}

typedef struct some {
	uint64_t rate;
} some;

static void test_rows_have_bounds(void **state)
{
	const weir_key key = WEIR_KEY("rate", FORM, some, rate, NULL, "A rate", .form = &weir_bitrate_form,
				      .min = 1e6, .max = 1e7);
	some values = {0};
	assert_int_equal(weir_key_set(&key, &values, "10mbit", NULL, true, NULL), 0);
	assert_int_equal(values.rate, 10000000);
	assert_int_equal(weir_key_set(&key, &values, "11mbit", NULL, true, NULL), -22);
	assert_int_equal(values.rate, 10000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_prints_what_it_reads),
		cmocka_unit_test(test_rows_have_bounds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
