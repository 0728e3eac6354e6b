/* SPDX-License-Identifier: Apache-2.0 */
/* Values over time: what is written, and when the next arrival is. */
#include "support/check.h"

#include <math.h>

#include "sim/profile.h"

#define S WEIR_NS_PER_S

static weir_profile made(const char *text, double capacity)
{
	weir_profile profile;
	if (weir_profile_parse(text, &profile) < 0 || weir_profile_resolve(&profile, capacity) < 0)
		fail_msg("%s: %s", text, weir_error());
	return profile;
}

static void near(double value, double expected)
{
	if (fabs(value - expected) > 1e-6 * (1 + fabs(expected)))
		fail_msg("%g, not %g", value, expected);
}

static void steps_ramps_and_spikes(void **state)
{
	weir_profile p = made("700, 20s 1400/s, 40s..60s 700, 80s+2s 2x", 3500);
	near(weir_profile_at(&p, 0), 700);
	near(weir_profile_at(&p, 20 * S - 1), 700);
	near(weir_profile_at(&p, 20 * S), 1400);
	near(weir_profile_at(&p, 50 * S), 1050);
	near(weir_profile_at(&p, 60 * S), 700);
	near(weir_profile_at(&p, 81 * S), 7000);
	near(weir_profile_at(&p, 82 * S), 700);
	near(weir_profile_at(&p, 1000 * S), 700);
	near(weir_profile_peak(&p), 7000);
	static const uint64_t changes[] = {20 * S, 40 * S, 60 * S, 80 * S, 82 * S, UINT64_MAX, UINT64_MAX};
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(weir_profile_change(&p, i), changes[i]);
}

static void before_the_first_time_there_is_nothing(void **state)
{
	weir_profile p = made("5s 10", 0);
	near(weir_profile_at(&p, 5 * S - 1), 0);
	near(weir_profile_at(&p, 5 * S), 10);
}

static uint64_t after(const weir_profile *p, double times, uint64_t from, uint64_t limit, double area,
		      double left)
{
	uint64_t at = weir_profile_after(p, times, from, limit, &area);
	near(area, left);
	return at;
}

static void the_next_arrival_is_where_the_area_is_full(void **state)
{
	weir_profile level = made("100, 1s 10, 2s 0, 3s 5", 0);
	assert_int_equal(after(&level, 1, 0, 10 * S, 1, 0), S / 100);
	assert_int_equal(after(&level, 2, 0, 10 * S, 1, 0), S / 200);
	/* Half of it in the last 5 ms of the first second, half in 50 ms of the next. */
	assert_int_equal(after(&level, 1, S - S / 200, 10 * S, 1, 0), S + S / 20);
	/* Over the second in which nothing comes. */
	assert_int_equal(after(&level, 1, 2 * S - S / 20, 10 * S, 1, 0), 3 * S + S / 10);
	/* The limit comes first; what is left is told. */
	assert_int_equal(after(&level, 1, 0, S / 200, 1, 0.5), S / 200);
	weir_profile silent = made("0", 0);
	assert_int_equal(after(&silent, 1, 0, 10 * S, 1, 1), 10 * S);
}

/* From 0 to 100 in 10 s: the area until t is 5 t^2. */
static void arrivals_on_a_ramp_are_exact(void **state)
{
	weir_profile p = made("1s..11s 100", 0);
	assert_int_equal(after(&p, 1, 0, 100 * S, 5, 0), 2 * S);
	assert_int_equal(after(&p, 1, 0, 100 * S, 125, 0), 6 * S);
	assert_int_equal(after(&p, 1, 2 * S, 100 * S, 120, 0), 6 * S);
	assert_int_equal(after(&p, 1, 0, 100 * S, 500, 0), 11 * S);
	assert_int_equal(after(&p, 1, 0, 100 * S, 600, 0), 12 * S);
	/* And down: 100 to 0, the area from the end backwards. */
	weir_profile down = made("100, 1s..11s 0", 0);
	assert_int_equal(after(&down, 1, S, 100 * S, 500 - 125, 0), 6 * S);
	assert_int_equal(after(&down, 1, S, 100 * S, 501, 1), 100 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(steps_ramps_and_spikes),
		CHECK_TEST(before_the_first_time_there_is_nothing),
		CHECK_TEST(the_next_arrival_is_where_the_area_is_full),
		CHECK_TEST(arrivals_on_a_ramp_are_exact),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
