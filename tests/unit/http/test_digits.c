/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text: the same as printf writes, at each number of digits and at random. */
#include "http/digits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mix.h"
#include "support/unit.h"

static void expect_same(uint64_t number)
{
	char text[24], want[24];
	*weir_put_number(text, number) = '\0';
	snprintf(want, sizeof(want), "%" PRIu64, number);
	assert_string_equal(text, want);
}

static void test_edges(void **state)
{
	uint64_t power = 1;
	for (unsigned digits = 1; digits <= 20; digits++, power *= 10) {
		expect_same(power - 1);
		expect_same(power);
		expect_same(power + 1);
	}
	expect_same(UINT64_MAX);
	expect_same(UINT64_MAX - 1);
	for (uint64_t number = 0; number < 100200; number++)
		expect_same(number);
}

static void test_random(void **state)
{
	uint64_t seed = 7;
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t number = weir_mix(seed += WEIR_MIX_STEP);
		expect_same(number >> (i % 64));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges), cmocka_unit_test(test_random)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
