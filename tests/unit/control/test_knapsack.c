/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <math.h>

#include "control/knapsack.h"

static weir_knapsack k;

static void open_with(const double *work, unsigned count, double capacity)
{
	weir_knapsack_init(&k);
	for (unsigned i = 0; i < count; i++)
		weir_knapsack_offer(&k, 10 * i, (uint64_t)work[i]);
	weir_knapsack_count(&k, 1);
	weir_knapsack_fill(&k, capacity, .5);
}

static double share(unsigned i)
{
	return weir_knapsack_share(&k, 10 * i);
}

static void all_have_the_room_at_first(void **state)
{
	weir_knapsack_init(&k);
	for (unsigned i = 0; i < WEIR_KNAPSACK_BUCKETS; i++)
		assert_true(weir_knapsack_share(&k, i) == 1);
	assert_int_equal(k.marginal, WEIR_KNAPSACK_BUCKETS);
}

static void the_dearest_come_first(void **state)
{
	open_with((const double[]){300, 400, 600, 900}, 4, 1000);
	assert_true(share(0) == 1 && share(1) == 1 && share(2) == .5 && share(3) == 0);
	assert_int_equal(k.marginal, 20);
}

static void all_fit(void **state)
{
	open_with((const double[]){300, 200, 100}, 3, 1000);
	assert_true(share(0) == 1 && share(1) == 1 && share(2) == 1);
	assert_int_equal(k.marginal, WEIR_KNAPSACK_BUCKETS);
}

static void one_price_is_marginal(void **state)
{
	open_with((const double[]){5000}, 1, 1000);
	assert_true(share(0) == .5);
}

/* Where the capacity is reached just above a bucket, that bucket may use what an error would leave idle. */
static void a_close_price_has_a_little(void **state)
{
	open_with((const double[]){1010, 500}, 2, 1000);
	assert_true(share(0) == .5 && share(1) > 0 && share(1) <= .25);
	open_with((const double[]){1500, 500}, 2, 1000);
	assert_true(share(1) == 0);
}

/*
 * A price whose offers end just below the capacity does not share its room with the next one on equal terms.
 */
static void the_next_price_has_less_than_one_that_nearly_fills(void **state)
{
	open_with((double[]){990, 500}, 2, 1000);
	assert_true(share(0) == .5 && share(1) < .3);
	assert_true(weir_knapsack_offered(&k) == 1490);
	open_with((double[]){950, 500}, 2, 1000);
	assert_true(share(0) == 1 && share(1) > .25 && share(1) < .5);
}

static void what_is_guaranteed_comes_before_all(void **state)
{
	weir_knapsack_init(&k);
	weir_knapsack_first(&k, 900);
	weir_knapsack_offer(&k, 0, 300);
	weir_knapsack_offer(&k, 10, 300);
	weir_knapsack_count(&k, 1);
	weir_knapsack_fill(&k, 1000, .5);
	assert_true(share(0) == .5 && share(1) == 0);
}

static void what_was_offered_fades_and_is_forgotten(void **state)
{
	open_with((const double[]){4000, 100}, 2, 1000);
	assert_true(share(1) == 0);
	for (unsigned i = 0; i < 10; i++)
		weir_knapsack_count(&k, .5);
	weir_knapsack_fill(&k, 1000, .5);
	assert_true(share(0) == 1 && share(1) == 1);
	open_with((const double[]){4000, 100}, 2, 1000);
	weir_knapsack_clear(&k);
	assert_true(share(0) == 1 && share(1) == 1);
	weir_knapsack_count(&k, 1);
	weir_knapsack_fill(&k, 1000, .5);
	assert_true(share(1) == 1);
}

static void buckets_are_in_the_order_of_prices(void **state)
{
	unsigned last = 0;
	for (double times = .01; times < 1e15; times *= 1.05) {
		unsigned bucket = weir_knapsack_bucket(times);
		assert_true(bucket >= last && bucket < WEIR_KNAPSACK_BUCKETS);
		if (bucket > 0 && bucket < WEIR_KNAPSACK_BUCKETS - 1)
			assert_true(times / weir_knapsack_times(bucket) > .9 &&
				    times / weir_knapsack_times(bucket) < 1.1);
		last = bucket;
	}
	assert_int_equal(weir_knapsack_bucket(1), 0);
	assert_int_equal(weir_knapsack_bucket(INFINITY), WEIR_KNAPSACK_BUCKETS - 1);
	assert_int_equal(last, WEIR_KNAPSACK_BUCKETS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_have_the_room_at_first),
		cmocka_unit_test(the_dearest_come_first),
		cmocka_unit_test(all_fit),
		cmocka_unit_test(one_price_is_marginal),
		cmocka_unit_test(a_close_price_has_a_little),
		cmocka_unit_test(the_next_price_has_less_than_one_that_nearly_fills),
		cmocka_unit_test(what_is_guaranteed_comes_before_all),
		cmocka_unit_test(what_was_offered_fades_and_is_forgotten),
		cmocka_unit_test(buckets_are_in_the_order_of_prices),
	};
	return cmocka_run_group_tests_name("knapsack", tests, NULL, NULL);
}
