/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as tables have them: where a unit or a place changes, and what is no ordinary number. */
#include "support/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "show/number.h"

typedef struct sample {
	double value;
	const char *text;
} sample;

static void expect(const char *(*print)(double, char *), const sample *samples, size_t count)
{
	char text[WEIR_NUMBER];
	for (size_t i = 0; i < count; i++)
		assert_string_equal(print(samples[i].value, text), samples[i].text);
}

static void times(void **state)
{
	static const sample samples[] = {
		{0, "0"},          {-1, "0"},          {0.0004, "0us"},  {0.812, "812us"},
		{0.9994, "999us"}, {0.9996, "1.00ms"}, {1.5, "1.50ms"},  {9.994, "9.99ms"},
		{9.996, "10.0ms"}, {99.94, "99.9ms"},  {99.96, "100ms"}, {999.4, "999ms"},
		{999.6, "1.00s"},  {9996, "10.0s"},    {123456, "123s"}, {INFINITY, "never"},
	};
	expect(weir_number_time, samples, sizeof(samples) / sizeof(samples[0]));
}

static void shares(void **state)
{
	static const sample samples[] = {{0, "0.0%"}, {0.0012, "0.12%"}, {0.05, "5.0%"}, {1, "100.0%"}};
	expect(weir_number_share, samples, sizeof(samples) / sizeof(samples[0]));
}

static void rates(void **state)
{
	static const sample samples[] = {
		{0, "0.00"}, {12.345, "12.35"}, {812.34, "812.3"}, {12345.6, "12346"}};
	expect(weir_number_rate, samples, sizeof(samples) / sizeof(samples[0]));
}

/* The sanitizer sees a text that has no room; cut it would have no unit. */
static void the_largest_fit(void **state)
{
	char text[WEIR_NUMBER];
	const char *unit = weir_number_time(DBL_MAX, text);
	assert_string_equal(unit + strlen(unit) - 1, "s");
	unit = weir_number_share(DBL_MAX, text);
	assert_string_equal(unit + strlen(unit) - 1, "%");
	assert_true(strlen(weir_number_rate(DBL_MAX, text)) == 22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(shares),
		cmocka_unit_test(rates),
		cmocka_unit_test(the_largest_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
