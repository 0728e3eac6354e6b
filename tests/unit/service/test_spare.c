/* SPDX-License-Identifier: Apache-2.0 */
/* When memory is given back to the system: after a flood, and not in it, before it, or in vain. */
#include "support/unit.h"

#include "service/spare.h"

#define MB ((uint64_t)1 << 20)

static void test_after_a_flood(void **state)
{
	weir_spare spare = {0};
	assert_false(weir_spare_is_due(&spare, 10 * MB, 1));
	assert_false(weir_spare_is_due(&spare, 200 * MB, 1000));
	assert_false(weir_spare_is_due(&spare, 300 * MB, 2000));
	assert_false(weir_spare_is_due(&spare, 300 * MB, 501));
	assert_true(weir_spare_is_due(&spare, 300 * MB, 500));
	weir_spare_done(&spare, 300 * MB, 12 * MB);
	assert_false(weir_spare_is_due(&spare, 12 * MB, 3));
	assert_false(weir_spare_is_due(&spare, 12 * MB, 3));
}

static void test_not_without_a_flood_or_growth(void **state)
{
	weir_spare spare = {0};
	assert_false(weir_spare_is_due(&spare, 10 * MB, 0));
	assert_false(weir_spare_is_due(&spare, 400 * MB, 60)); /* a cache was filled, say */
	assert_false(weir_spare_is_due(&spare, 400 * MB, 0));
	assert_false(weir_spare_is_due(&spare, 10 * MB, 1000));
	assert_false(weir_spare_is_due(&spare, 20 * MB, 0)); /* little */
}

/* What is in use cannot be given back. It is not tried again and again. */
static void test_in_vain(void **state)
{
	weir_spare spare = {0};
	unsigned tries = 0;
	weir_spare_is_due(&spare, 10 * MB, 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t bytes = (20 + i) * 40 * MB;
		weir_spare_is_due(&spare, bytes, 1000);
		if (!weir_spare_is_due(&spare, bytes, 0))
			continue;
		weir_spare_done(&spare, bytes, bytes);
		tries++;
	}
	assert_in_range(tries, 2, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_a_flood),
		cmocka_unit_test(test_not_without_a_flood_or_growth),
		cmocka_unit_test(test_in_vain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
