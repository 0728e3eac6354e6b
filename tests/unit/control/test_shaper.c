/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <weir/base.h>

#include "control/shaper.h"

#define S WEIR_NS_PER_S

static uint32_t drain(weir_shaper *shaper, uint64_t now)
{
	uint32_t taken = 0;
	while (weir_shaper_take(shaper, 1, now))
		taken++;
	return taken;
}

/* Asked all the time: rate x time + depth, to a tenth of a percent at any rate. */
static void test_rate_and_depth(void **state)
{
	static const double rates[] = {.05, 1, 7, 1000, 33333, 1e6, 1e7};
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		weir_shaper shaper;
		double taken = 0, seconds = 20000 / rates[i];
		weir_shaper_init(&shaper, rates[i], 50);
		for (int step = 0; step <= 1000; step++)
			taken += drain(&shaper, S + (uint64_t)(seconds / 1000 * step * 1e9));
		assert_true(fabs(taken - 20050) <= 22);
	}
}

static void test_all_or_nothing(void **state)
{
	weir_shaper shaper;
	weir_shaper_init(&shaper, 10, 5);
	assert_false(weir_shaper_take(&shaper, 6, S));
	assert_false(weir_shaper_take(&shaper, UINT32_MAX, S));
	assert_true(weir_shaper_take(&shaper, 5, S));
	assert_false(weir_shaper_take(&shaper, 1, S));
	weir_shaper_refund(&shaper, 2);
	assert_true(weir_shaper_take(&shaper, 2, S));
	assert_false(weir_shaper_take(&shaper, 1, S));
	assert_int_equal(weir_shaper_wait_ns(&shaper, 1, S), S / 10);
	assert_int_equal(weir_shaper_wait_ns(&shaper, 6, S), 0);
}

static void test_a_change_keeps_it_as_full_as_it_was(void **state)
{
	weir_shaper shaper;
	weir_shaper_init(&shaper, 100, 100);
	weir_shaper_take(&shaper, 60, S);
	weir_shaper_set(&shaper, 10, 10, S);
	assert_int_equal(drain(&shaper, S), 4);
	weir_shaper_set(&shaper, 1000, 1000, S);
	assert_int_equal(drain(&shaper, S), 0);
	weir_shaper_init(&shaper, 100, 10); /* and where the depth does not follow the rate */
	weir_shaper_take(&shaper, 6, S);
	weir_shaper_set(&shaper, 50, 10, S);
	assert_int_equal(drain(&shaper, S), 4);
	weir_shaper_set(&shaper, 1000, 1000, 100 * S); /* full for long */
	assert_int_equal(drain(&shaper, 100 * S), 1000);
}

/* What a low rate owes is not owed at a high one. */
static void test_a_token_of_twenty_seconds_is_not_waited_for(void **state)
{
	weir_shaper shaper;
	weir_shaper_init(&shaper, .05, 1);
	assert_true(weir_shaper_take(&shaper, 1, S));
	assert_int_equal(weir_shaper_wait_ns(&shaper, 1, S), 20 * S);
	weir_shaper_set(&shaper, 10, 1, S);
	assert_in_range(weir_shaper_wait_ns(&shaper, 1, S), S / 10 - 1, S / 10);
}

/* A year of waiting and a huge depth do not run over. */
static void test_extremes(void **state)
{
	weir_shaper shaper;
	weir_shaper_init(&shaper, 1e-3, 1e9);
	assert_true(weir_shaper_take(&shaper, 1000, S));
	weir_shaper_set(&shaper, 1e7, 1e9, S);
	weir_shaper_set(&shaper, 1e-3, 1, UINT64_C(1) << 59);
	assert_int_equal(drain(&shaper, UINT64_C(1) << 59), 1);
	weir_shaper_init(&shaper, 1e-3, 5);
	assert_false(weir_shaper_take(&shaper, 1152922, S)); /* their time is half a token, modulo 2^64 */
}

struct crowd {
	weir_shaper shaper;
	_Atomic uint64_t clock, taken;
};

static void *take(void *arg)
{
	struct crowd *crowd = arg;
	uint64_t now;
	while ((now = atomic_fetch_add(&crowd->clock, 100)) < 10000000)
		if (weir_shaper_take(&crowd->shaper, 2, S + now))
			atomic_fetch_add(&crowd->taken, 2);
	return NULL;
}

static void test_threads_never_take_more(void **state)
{
	static struct crowd crowd;
	pthread_t threads[4];
	weir_shaper_init(&crowd.shaper, 1e6, 100);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take, &crowd), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_in_range(atomic_load(&crowd.taken), 9000, 10110);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate_and_depth),
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_a_change_keeps_it_as_full_as_it_was),
		cmocka_unit_test(test_a_token_of_twenty_seconds_is_not_waited_for),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_threads_never_take_more),
	};
	return cmocka_run_group_tests_name("shaper", tests, NULL, NULL);
}
