/* SPDX-License-Identifier: Apache-2.0 */
/* What became of streams, against a model that forgets nothing. */
#include "support/unit.h"

#include <weir/random.h>

#include "http/h2_past.h"

#define NUMBERS 6000u

static void first_ones(void **state)
{
	weir_h2_past past = {0};
	assert_int_equal(weir_h2_past_of(&past, 1), WEIR_H2_UNKNOWN);
	weir_h2_past_open(&past, 5);
	assert_int_equal(weir_h2_past_of(&past, 1), WEIR_H2_SKIPPED);
	assert_int_equal(weir_h2_past_of(&past, 3), WEIR_H2_SKIPPED);
	assert_int_equal(weir_h2_past_of(&past, 5), WEIR_H2_UNKNOWN);
	assert_int_equal(weir_h2_past_of(&past, 7), WEIR_H2_UNKNOWN);
	assert_int_equal(weir_h2_past_of(&past, 2), WEIR_H2_UNKNOWN);
	assert_int_equal(weir_h2_past_of(&past, 0), WEIR_H2_UNKNOWN);
	weir_h2_past_leave(&past, 5);
	assert_int_equal(weir_h2_past_of(&past, 5), WEIR_H2_LEFT);
	weir_h2_past_leave(&past, 9); /* not opened yet: nothing happens */
	weir_h2_past_open(&past, 9);
	assert_int_equal(weir_h2_past_of(&past, 9), WEIR_H2_UNKNOWN);
	weir_h2_past_open(&past, 3); /* too late: it stays skipped */
	assert_int_equal(weir_h2_past_of(&past, 3), WEIR_H2_SKIPPED);
	weir_h2_past_open(&past, 0x7fffffff);
	assert_int_equal(weir_h2_past_of(&past, 0x7fffffff), WEIR_H2_UNKNOWN);
	assert_int_equal(weir_h2_past_of(&past, 0x7ffffffd), WEIR_H2_SKIPPED);
	assert_int_equal(weir_h2_past_of(&past, 5), WEIR_H2_UNKNOWN);
}

static void as_the_model(void **state)
{
	static bool opened[NUMBERS], left[NUMBERS];
	weir_h2_past past = {0};
	weir_random random;
	uint32_t highest = 0;
	weir_random_init(&random, 3);
	while (highest + 20 < 2 * NUMBERS) {
		uint32_t next =
			highest + (highest == 0 ? 1 : 2) + 2 * (uint32_t)weir_random_below(&random, 4);
		weir_h2_past_open(&past, highest = next);
		opened[next / 2] = true;
		uint32_t id = 2 * (uint32_t)weir_random_below(&random, next / 2 + 1) + 1;
		if (opened[id / 2]) {
			weir_h2_past_leave(&past, id);
			left[id / 2] = true;
		}
		for (uint32_t at = 1; at <= highest; at += 2) {
			weir_h2_known fate = !opened[at / 2] ? WEIR_H2_SKIPPED
					     : left[at / 2]  ? WEIR_H2_LEFT
							     : WEIR_H2_UNKNOWN;
			if (highest - at >= 2 * WEIR_H2_PAST_STREAMS)
				fate = WEIR_H2_UNKNOWN;
			assert_int_equal(weir_h2_past_of(&past, at), fate);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_ones),
		cmocka_unit_test(as_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
