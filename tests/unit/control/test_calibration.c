/* SPDX-License-Identifier: Apache-2.0 */
/* Learning costs under overload, with a backend of so many workers whose requests take 10 ms each. */
#include "support/unit.h"

#include "control/calibration.h"

#define TICK_S    .01
#define REQUEST_S .01

static weir_calibration c;
static double workers;
static bool learnable, busy, calm; /* the table learns; there is an overload; there was a calm time */
static double answered, learnt;    /* all; those that taught */
static uint32_t most, taught_at;   /* requests that the backend got: at most, and while it taught */
static unsigned known;             /* how often costs became known */

static void open_with(double of)
{
	weir_calibration_init(&c);
	workers = of;
	learnable = busy = true;
	calm = false;
	answered = learnt = most = taught_at = known = 0;
}

static void tick(void)
{
	uint32_t cap = atomic_load(&c.cap);
	double serving = cap != 0 ? cap : 16, rate = (serving < workers ? serving : workers) / REQUEST_S;
	bool taught = learnable && learnt >= 40;
	weir_calibration_news news = {.s = TICK_S,
				      .answers = rate * TICK_S,
				      .offered = 1 + 2 * rate * TICK_S,
				      .unknown = taught ? 0 : 1 + 2 * rate * TICK_S,
				      .serving = serving,
				      .busy = busy,
				      .ever_calm = calm,
				      .cap = 16};
	known += weir_calibration_tick(&c, &news);
	answered += news.answers;
	most = cap > most ? cap : most;
	if (weir_calibration_is_learning(&c)) {
		learnt += news.answers;
		taught_at = atomic_load(&c.cap);
	}
}

static void run(double s)
{
	for (double at = 0; at < s; at += TICK_S)
		tick();
}

static void costs_are_learnt_with_as_many_as_there_are_workers(void **state)
{
	static const double sizes[] = {1, 2, 8, 16, 64, 256};
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		open_with(sizes[i]);
		run(30);
		assert_int_equal(known, 1);
		assert_true(taught_at >= sizes[i] / 2 && taught_at <= sizes[i]);
		assert_true(c.over && c.phase == WEIR_CALIBRATION_IDLE && atomic_load(&c.cap) == 0);
		assert_true(atomic_load(&c.full_per_s) == 0 && learnt >= 150);
	}
}

static void it_is_done_once(void **state)
{
	open_with(8);
	run(30);
	learnt = 0;
	run(30);
	assert_true(learnt == 0 && atomic_load(&c.cap) == 0);
}

static void costs_that_cannot_be_learnt_are_given_up(void **state)
{
	open_with(8);
	learnable = false;
	run(30);
	assert_true(c.over && known == 0 && learnt < 200);
}

static void nothing_is_done_after_a_calm_time(void **state)
{
	open_with(8);
	calm = true;
	run(10);
	assert_int_equal(most, 0);
}

static void nothing_is_done_without_an_overload(void **state)
{
	open_with(8);
	busy = false;
	run(10);
	assert_int_equal(most, 0);
}

static void an_overload_that_ends_ends_it(void **state)
{
	open_with(8);
	run(.1);
	assert_true(atomic_load(&c.cap) != 0);
	busy = false;
	run(1);
	assert_true(atomic_load(&c.cap) == 0 && !c.over);
}

/* A backend that answers next to nothing: it does not get few for ever. */
static void it_takes_a_minute_at_most(void **state)
{
	open_with(.001);
	run(70);
	assert_true(c.over && atomic_load(&c.cap) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(costs_are_learnt_with_as_many_as_there_are_workers),
		cmocka_unit_test(it_is_done_once),
		cmocka_unit_test(costs_that_cannot_be_learnt_are_given_up),
		cmocka_unit_test(nothing_is_done_after_a_calm_time),
		cmocka_unit_test(nothing_is_done_without_an_overload),
		cmocka_unit_test(an_overload_that_ends_ends_it),
		cmocka_unit_test(it_takes_a_minute_at_most),
	};
	return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
