/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include <weir/law.h>

static weir_verdict ask(weir_threshold_params *state, unsigned klass, uint32_t waiting, uint32_t count)
{
	weir_ask a = {.klass = (uint8_t)klass, .waiting = waiting, .count = count};
	return weir_law_threshold.admit(state, &a);
}

static void test_each_class_has_its_own(void **state)
{
	weir_threshold_params s, params = {.waiting = {[0] = 10, [1] = 5, [2] = 1}};
	const char *wrong = NULL;
	assert_int_equal(weir_law_threshold.state_bytes, sizeof(s));
	assert_int_equal(weir_law_threshold.init(&s, &params, &wrong), 0);
	for (uint32_t waiting = 0; waiting < 20; waiting++)
		for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
			uint32_t most = params.waiting[klass];
			bool shed = most != 0 && waiting >= most;
			assert_int_equal(ask(&s, klass, waiting, 1),
					 shed ? WEIR_SHED_THRESHOLD : WEIR_ADMITTED);
		}
}

static void test_many_count_together(void **state)
{
	weir_threshold_params s, params = {.waiting = {10}};
	const char *wrong = NULL;
	assert_int_equal(weir_law_threshold.init(&s, &params, &wrong), 0);
	assert_int_equal(ask(&s, 0, 7, 3), WEIR_ADMITTED);
	assert_int_equal(ask(&s, 0, 7, 4), WEIR_SHED_THRESHOLD);
	assert_int_equal(ask(&s, 0, 1, UINT32_MAX), WEIR_SHED_THRESHOLD);
}

static void test_wants_parameters(void **state)
{
	weir_threshold_params s;
	const char *wrong = NULL;
	assert_int_equal(weir_law_threshold.init(&s, NULL, &wrong), -EINVAL);
	assert_non_null(wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_class_has_its_own),
		cmocka_unit_test(test_many_count_together),
		cmocka_unit_test(test_wants_parameters),
	};
	return cmocka_run_group_tests_name("threshold", tests, NULL, NULL);
}
