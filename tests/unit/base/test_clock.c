/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <pthread.h>

#include "base/clock.h"

#define READS 200000

/*
 * A reading lies between two readings of the true clock, but for two errors: that of the counter's speed (less than a thousandth
 * of the time since the turn), and that of the turn itself, which a thread that is preempted within it cannot keep below the
 * time the turn took. The latter is measured here, so that a busy machine does not fail the test.
 */
typedef struct watch {
	weir_clock *clock;
	uint64_t last_ns;   /* the last reading */
	uint64_t turn_took; /* at most, for the last turn */
} watch;

static watch watch_clock(weir_clock *clock, uint64_t turn_took)
{
	return (watch){.clock = clock, .last_ns = clock->last_ns, .turn_took = turn_took};
}

static void check_reading(watch *w)
{
	uint64_t base = w->clock->base_ns;
	uint64_t before = weir_clock_ns();
	uint64_t now = weir_clock_now(w->clock);
	uint64_t after = weir_clock_ns();
	if (w->clock->base_ns != base)
		w->turn_took = after - before;
	uint64_t error = (after - w->clock->base_ns) / 500 + w->turn_took + 1000;
	assert_true(now >= w->last_ns);
	assert_true(now + error >= before);
	assert_true(now <= after + error);
	w->last_ns = now;
}

static void check_turn(watch *w)
{
	uint64_t before = weir_clock_ns();
	uint64_t now = weir_clock_turn(w->clock);
	w->turn_took = weir_clock_ns() - before;
	assert_true(now >= w->last_ns);
	assert_true(now == w->clock->base_ns);
	w->last_ns = now;
}

static void read_on(weir_clock *clock)
{
	watch w = watch_clock(clock, 0);
	for (int i = 0; i < READS; i++) {
		if (i % 1000 == 0)
			check_turn(&w);
		check_reading(&w);
	}
}

static void test_counter(void **state)
{
	weir_clock clock;
	weir_clock_init(&clock);
	assert_true(clock.base_ns > 0);
	read_on(&clock);
}

static void test_without_counter(void **state)
{
	weir_clock clock;
	weir_clock_init(&clock);
	clock.scale = 0;
	clock.ticks_max = 0;
	read_on(&clock);
}

/* What a processor that was put to sleep, or a machine that was moved, can do to the counter. */
static void test_counter_leaps(void **state)
{
	static const uint64_t leaps[] = {1, 1000, UINT64_C(1) << 28, UINT64_C(1) << 40, UINT64_C(1) << 62};
	for (size_t i = 0; i < sizeof(leaps) / sizeof(*leaps); i++)
		for (int sign = 0; sign < 2; sign++) {
			weir_clock clock;
			weir_clock_init(&clock);
			watch w = watch_clock(&clock, 0);
			clock.base_ticks += sign ? leaps[i] : -leaps[i];
			if (leaps[i] >= WEIR_CLOCK_TICKS_MAX)
				check_reading(&w);
			assert_true(weir_clock_now(&clock) >= w.last_ns);
			uint64_t last = clock.last_ns;
			assert_true(weir_clock_turn(&clock) >= last);
		}
}

static void test_turn_never_goes_back(void **state)
{
	weir_clock clock;
	weir_clock_init(&clock);
	uint64_t ahead = clock.last_ns + UINT64_C(3600000000000);
	clock.last_ns = ahead;
	assert_true(weir_clock_turn(&clock) == ahead);
	assert_true(weir_clock_now(&clock) >= ahead);
}

static void *init_one(void *arg)
{
	weir_clock_init(arg);
	return NULL;
}

static void test_threads_agree_on_the_scale(void **state)
{
	pthread_t threads[4];
	weir_clock clocks[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, init_one, &clocks[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < 4; i++)
		assert_int_equal(clocks[i].scale, clocks[0].scale);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_agree_on_the_scale),
		cmocka_unit_test(test_counter),
		cmocka_unit_test(test_without_counter),
		cmocka_unit_test(test_counter_leaps),
		cmocka_unit_test(test_turn_never_goes_back),
	};
	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
