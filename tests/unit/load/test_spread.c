/* SPDX-License-Identifier: Apache-2.0 */
/* The response times of a second: the same percentiles as a histogram of all of them, also merged; what is too small or too large counts at the ends. */
#include "support/unit.h"

#include <string.h>
#include <weir/random.h>

#include "load/spread.h"

static void merged_is_as_if_one_had_counted_all(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		weir_random random;
		static load_spread one, other;
		static weir_hist all, from;
		memset(&one, 0, sizeof(one));
		memset(&other, 0, sizeof(other));
		memset(&all, 0, sizeof(all));
		memset(&from, 0, sizeof(from));
		weir_random_init(&random, seed);
		for (unsigned i = 0; i < 2000; i++) {
			/* From 8 us to 34 s, as likely in every octave; one thread has the slow ones. */
			uint64_t ns = UINT64_C(8192) << weir_random_below(&random, 22);
			ns += weir_random_below(&random, ns);
			load_spread_add(ns > 10000000 ? &one : &other, ns);
			weir_hist_add(&all, ns);
		}
		load_spread_merge(&one, &other);
		load_spread_put(&from, &one);
		for (unsigned i = 0; i < WEIR_HIST_BUCKETS; i++)
			assert_for_seed(seed, all.bucket[i] == from.bucket[i]);
	}
}

static void the_ends_take_what_is_outside(void **state)
{
	static load_spread spread;
	static weir_hist hist;
	memset(&spread, 0, sizeof(spread));
	memset(&hist, 0, sizeof(hist));
	assert_int_equal(weir_hist_index(8192), LOAD_SPREAD_FIRST);
	assert_int_equal(weir_hist_index((UINT64_C(1) << 37) - 1),
			 LOAD_SPREAD_FIRST + LOAD_SPREAD_BUCKETS - 1);
	load_spread_add(&spread, 0);
	load_spread_add(&spread, 8192);
	load_spread_add(&spread, UINT64_C(1) << 37);
	load_spread_add(&spread, UINT64_MAX);
	assert_int_equal(spread.bucket[0], 2);
	assert_int_equal(spread.bucket[LOAD_SPREAD_BUCKETS - 1], 2);
	load_spread_put(&hist, &spread);
	assert_int_equal(weir_hist_count(&hist), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged_is_as_if_one_had_counted_all),
		cmocka_unit_test(the_ends_take_what_is_outside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
