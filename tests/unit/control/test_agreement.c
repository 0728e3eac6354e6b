/* SPDX-License-Identifier: Apache-2.0 */
/* The promised time follows the arrival rate, at once upwards and late downwards, and never flaps. */
#include <math.h>
#include <string.h>

#include "control/agreement.h"
#include "support/unit.h"

#define TICK_S .25
#define S      UINT64_C(1000000000)

/* The paper's Table 1. */
static const weir_agreement table1 = {.steps = 3, .step = {{1000, S}, {10000, 2 * S}, {INFINITY, 3 * S}}};

static uint64_t run(weir_agreement_state *state, double seconds, double rate)
{
	uint64_t promised = 0;
	for (double s = 0; s < seconds; s += TICK_S)
		promised = weir_agreement_tick(&table1, state, TICK_S, (uint64_t)(rate * TICK_S));
	return promised;
}

static void more_arrivals_more_time(void **state)
{
	weir_agreement_state at = {0};
	assert_int_equal(run(&at, 10, 500), S);
	assert_int_equal(run(&at, 10, 2000), 2 * S);
	assert_int_equal(run(&at, 10, 50000), 3 * S);
}

static void a_rise_over_two_steps_takes_no_second_look(void **state)
{
	weir_agreement_state at = {0};
	assert_int_equal(run(&at, TICK_S, 40000), 3 * S);
}

static void a_short_peak_changes_nothing(void **state)
{
	weir_agreement_state at = {0};
	run(&at, 10, 500);
	assert_int_equal(run(&at, TICK_S, 2000), S);
	assert_int_equal(run(&at, 10, 500), S);
}

static void back_one_step_after_ten_calm_seconds(void **state)
{
	weir_agreement_state at = {0};
	run(&at, 20, 50000);
	assert_int_equal(run(&at, 9, 100), 3 * S);
	assert_int_equal(run(&at, 6, 100), 2 * S);
	assert_int_equal(run(&at, 11, 100), S);
}

static void a_rate_at_the_bound_does_not_flap(void **state)
{
	weir_agreement_state at = {0};
	unsigned changes = 0;
	uint64_t before = run(&at, 1, 950);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t now = run(&at, TICK_S, i % 8 < 4 ? 1060 : 940);
		changes += now != before;
		before = now;
	}
	assert_in_range(changes, 1, 1);
	assert_int_equal(before, 2 * S);
}

static void without_time_nothing_is_learnt(void **state)
{
	weir_agreement_state at = {0};
	run(&at, 10, 500);
	assert_int_equal(weir_agreement_tick(&table1, &at, 0, 1000000), S);
	assert_true(isfinite(at.rate_per_s));
}

static void a_shorter_agreement_takes_over(void **state)
{
	static const weir_agreement one = {.steps = 1, .step = {{INFINITY, S / 2}}};
	weir_agreement_state at = {0};
	run(&at, 20, 50000);
	assert_int_equal(weir_agreement_tick(&one, &at, TICK_S, 10), S / 2);
}

static void mistakes_are_named(void **state)
{
	static const struct {
		weir_agreement agreement;
		const char *says;
	} cases[] = {
		{{.steps = 0}, "1 to 8"},
		{{.steps = 9}, "1 to 8"},
		{{.steps = 2, .step = {{1000, 2 * S}, {INFINITY, S}}}, "must not fall"},
		{{.steps = 3, .step = {{1000, S}, {900, 2 * S}, {INFINITY, 3 * S}}}, "must be higher"},
		{{.steps = 2, .step = {{1000, S}, {2000, S}}}, "the last time must have no bound"},
		{{.steps = 2, .step = {{INFINITY, S}, {INFINITY, S}}}, "only the last"},
		{{.steps = 2, .step = {{NAN, S}, {INFINITY, S}}}, "only the last"},
	};
	assert_null(weir_agreement_wrong(&table1));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *wrong = weir_agreement_wrong(&cases[i].agreement);
		assert_non_null(wrong);
		assert_non_null(strstr(wrong, cases[i].says));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_arrivals_more_time),
		cmocka_unit_test(a_rise_over_two_steps_takes_no_second_look),
		cmocka_unit_test(a_short_peak_changes_nothing),
		cmocka_unit_test(back_one_step_after_ten_calm_seconds),
		cmocka_unit_test(a_rate_at_the_bound_does_not_flap),
		cmocka_unit_test(without_time_nothing_is_learnt),
		cmocka_unit_test(a_shorter_agreement_takes_over),
		cmocka_unit_test(mistakes_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
