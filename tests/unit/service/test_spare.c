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

/* Most requests are rejected at once; the answers of the others wait for their clients, and end later. */
static void test_a_flood_that_ends_in_parts(void **state)
{
	weir_spare spare = {0};
	assert_false(weir_spare_is_due(&spare, 10 * MB, 1));
	assert_false(weir_spare_is_due(&spare, 300 * MB, 2000));
	assert_true(weir_spare_is_due(&spare, 300 * MB, 400));
	weir_spare_done(&spare, 300 * MB, 299 * MB); /* all in use */
	assert_false(weir_spare_is_due(&spare, 299 * MB, 400));
	assert_false(weir_spare_is_due(&spare, 299 * MB, 300));
	assert_true(weir_spare_is_due(&spare, 150 * MB, 0));
	weir_spare_done(&spare, 150 * MB, 12 * MB);
	assert_false(weir_spare_is_due(&spare, 12 * MB, 0));
	assert_false(weir_spare_is_due(&spare, 12 * MB, 0));
}

static void test_not_without_growth_or_rest(void **state)
{
	weir_spare spare = {0};
	assert_false(weir_spare_is_due(&spare, 10 * MB, 0));
	assert_false(weir_spare_is_due(&spare, 400 * MB, 60)); /* as busy as ever */
	assert_false(weir_spare_is_due(&spare, 10 * MB, 1000));
	assert_false(weir_spare_is_due(&spare, 20 * MB, 0)); /* little */
}

/* It came and went between two looks. */
static void test_a_flood_that_nobody_saw(void **state)
{
	weir_spare spare = {0};
	assert_false(weir_spare_is_due(&spare, 10 * MB, 1));
	assert_true(weir_spare_is_due(&spare, 200 * MB, 1));
}

/* What is in use cannot be given back. It is tried a few times, less and less often, and then not any more. */
static void test_in_vain(void **state)
{
	weir_spare spare = {0};
	unsigned tries = 0;
	weir_spare_is_due(&spare, 10 * MB, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		if (!weir_spare_is_due(&spare, 100 * MB, 0))
			continue;
		weir_spare_done(&spare, 100 * MB, 100 * MB);
		tries++;
	}
	assert_int_equal(tries, 5);
	/* Another flood, on top of that. */
	assert_false(weir_spare_is_due(&spare, 300 * MB, 1000));
	assert_true(weir_spare_is_due(&spare, 300 * MB, 0));
}

/* Looks until it is due again. */
static unsigned looks_until_much(weir_spare *spare)
{
	unsigned looks = 1;
	while (!weir_spare_is_much(spare, 24 * MB, 6 * MB))
		looks++;
	return looks;
}

/* A process that is always busy: once a minute, less often in vain, and not for little. */
static void test_busy(void **state)
{
	weir_spare spare = {0};
	assert_int_equal(looks_until_much(&spare), 1);
	weir_spare_done_busy(&spare, 24 * MB, 20 * MB);
	assert_int_equal(looks_until_much(&spare), 61);
	weir_spare_done_busy(&spare, 24 * MB, 24 * MB);
	assert_int_equal(looks_until_much(&spare), 121);
	for (unsigned i = 0; i < 20; i++)
		weir_spare_done_busy(&spare, 24 * MB, 24 * MB - MB / 4);
	assert_int_equal(looks_until_much(&spare), 60 * 32 + 1);
	weir_spare_done_busy(&spare, 24 * MB, 10 * MB);
	assert_int_equal(looks_until_much(&spare), 61);
	for (unsigned i = 0; i < 200; i++) {
		assert_false(weir_spare_is_much(&spare, 40 * MB, 2 * MB - 1));
		assert_false(weir_spare_is_much(&spare, 6 * MB, MB - 1));
	}
}

/* Tries in vain are no reason to keep what a later flood leaves: growth ends a long pause, a minute later. */
static void test_busy_and_growing(void **state)
{
	weir_spare spare = {0};
	for (unsigned i = 0; i < 20; i++)
		weir_spare_done_busy(&spare, 20 * MB, 20 * MB);
	for (unsigned i = 0; i < 100; i++)
		assert_false(weir_spare_is_much(&spare, 21 * MB - 1, 6 * MB));
	assert_int_equal(looks_until_much(&spare), 61);
	/* It was in use after all. */
	weir_spare_done_busy(&spare, 24 * MB, 24 * MB);
	assert_int_equal(looks_until_much(&spare), 60 * 32 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_a_flood),
		cmocka_unit_test(test_a_flood_that_ends_in_parts),
		cmocka_unit_test(test_not_without_growth_or_rest),
		cmocka_unit_test(test_a_flood_that_nobody_saw),
		cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_busy_and_growing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
