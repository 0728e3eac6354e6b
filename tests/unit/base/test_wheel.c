/* SPDX-License-Identifier: Apache-2.0 */
/* The wheel against a plain table of timers, under random starts, stops, jumps of time, and changes from fire functions. */
#include "support/unit.h"

#include <weir/random.h>

#include "base/wheel.h"

#define TIMERS 64

typedef struct model {
	weir_wheel wheel;
	weir_timer timer[TIMERS];
	bool pending[TIMERS];
	uint64_t slot[TIMERS];  /* that the timer should fire in */
	uint64_t round[TIMERS]; /* in which it was started */
	size_t count;
	uint64_t now, rounds, last_slot, fired_round;
	bool meddle; /* fire functions start and stop timers */
	weir_random random;
	uint64_t seed;
} model;

/* Any order of magnitude alike. */
static uint64_t random_span(model *m, unsigned most_bits)
{
	unsigned bits = (unsigned)weir_random_below(&m->random, most_bits + 1);
	return bits == 0 ? 0 : weir_random_u64(&m->random) >> (64 - bits);
}

static void model_start(model *m, size_t i, uint64_t at)
{
	m->timer[i].at_ns = at;
	weir_wheel_insert(&m->wheel, &m->timer[i]);
	m->pending[i] = true;
	m->round[i] = m->rounds;
	m->count++;
	m->slot[i] = at <= m->now ? m->now >> WEIR_WHEEL_SHIFT : ((at - 1) >> WEIR_WHEEL_SHIFT) + 1;
}

static void model_stop(model *m, size_t i)
{
	weir_wheel_remove(&m->wheel, &m->timer[i]);
	m->pending[i] = false;
	m->count--;
}

static uint64_t random_time(model *m)
{
	uint64_t span = random_span(m, 52);
	switch (weir_random_below(&m->random, 8)) {
	case 0: /* in the past */
		return m->now - (span < m->now ? span : m->now);
	case 1: /* on a boundary */
		return (m->now + span) >> WEIR_WHEEL_SHIFT << WEIR_WHEEL_SHIFT;
	default:
		return m->now + span;
	}
}

static void change_one(model *m)
{
	size_t i = weir_random_below(&m->random, TIMERS);
	if (m->pending[i])
		model_stop(m, i);
	else
		model_start(m, i, random_time(m));
}

static void expired(weir_timer *timer, void *arg)
{
	model *m = arg;
	size_t i = (size_t)(timer - m->timer);
	assert_for_seed(m->seed, m->pending[i]);
	assert_for_seed(m->seed, timer->at_ns <= m->now);
	assert_for_seed(m->seed, m->slot[i] <= m->now >> WEIR_WHEEL_SHIFT);
	assert_for_seed(m->seed, m->slot[i] >= m->last_slot);
	assert_for_seed(m->seed, m->round[i] < m->rounds);
	m->last_slot = m->slot[i];
	m->pending[i] = false;
	m->count--;
	m->fired_round++;
	if (!m->meddle)
		return;
	if (weir_random_below(&m->random, 2) == 0)
		model_start(m, i, random_time(m));
	for (uint64_t n = weir_random_below(&m->random, 4); n > 0; n--)
		change_one(m);
}

static void check_none_due(model *m)
{
	for (size_t i = 0; i < TIMERS; i++)
		assert_for_seed(m->seed, !m->pending[i] || m->round[i] == m->rounds ||
						 m->slot[i] > m->now >> WEIR_WHEEL_SHIFT);
}

static void check_next(model *m)
{
	uint64_t next = weir_wheel_next_ns(&m->wheel);
	assert_for_seed(m->seed, m->wheel.count == m->count);
	assert_for_seed(m->seed, (next == UINT64_MAX) == (m->count == 0));
	for (size_t i = 0; i < TIMERS; i++)
		assert_for_seed(m->seed,
				!m->pending[i] || next <= m->slot[i] << WEIR_WHEEL_SHIFT || next <= m->now);
}

static void model_advance(model *m, uint64_t now, size_t most)
{
	m->now = now;
	m->rounds++;
	m->last_slot = 0;
	m->fired_round = 0;
	size_t fired = weir_wheel_advance(&m->wheel, now, most, expired, m);
	assert_for_seed(m->seed, fired == m->fired_round && fired <= most);
	if (fired < most)
		check_none_due(m);
	check_next(m);
}

static void model_step(model *m)
{
	uint64_t next = weir_wheel_next_ns(&m->wheel);
	size_t most = weir_random_below(&m->random, 4) == 0 ? weir_random_below(&m->random, 4) : SIZE_MAX;
	for (uint64_t n = weir_random_below(&m->random, 8); n > 0; n--)
		change_one(m);
	check_next(m);
	if (weir_random_below(&m->random, 2) == 0 && next != UINT64_MAX && next > m->now)
		model_advance(m, next, most);
	else
		model_advance(m, m->now + random_span(m, 50), most);
}

static void model_init(model *m, uint64_t seed, uint64_t now)
{
	*m = (model){.seed = seed, .now = now};
	weir_random_init(&m->random, seed);
	weir_wheel_init(&m->wheel, now);
}

static void test_against_table(void **state)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		model m;
		model_init(&m, seed, 0);
		uint64_t now = random_span(&m, 60);
		model_init(&m, seed, now);
		m.meddle = seed % 4 != 0;
		for (int i = 0; i < 500; i++)
			model_step(&m);
	}
}

/* Following next_ns alone, each timer fires in its slot and takes at most one wake-up a level. */
static void test_next_leads_to_each(void **state)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		model m;
		model_init(&m, seed, 0);
		model_init(&m, seed, random_span(&m, 60));
		for (size_t i = 0; i < TIMERS; i++)
			model_start(&m, i, m.now + random_span(&m, 60));
		int turns = 0;
		while (m.count > 0) {
			uint64_t next = weir_wheel_next_ns(&m.wheel);
			model_advance(&m, next > m.now ? next : m.now, SIZE_MAX);
			if (m.fired_round > 0)
				assert_for_seed(seed, m.last_slot == m.now >> WEIR_WHEEL_SHIFT);
			turns++;
		}
		assert_for_seed(seed, turns <= TIMERS * WEIR_WHEEL_LEVELS);
	}
}

static void count_one(weir_timer *timer, void *arg)
{
	++*(int *)arg;
}

static void test_far_timer_stays(void **state)
{
	weir_wheel wheel;
	weir_timer timer = {.at_ns = UINT64_MAX};
	int fired = 0;
	weir_wheel_init(&wheel, 12345);
	weir_wheel_insert(&wheel, &timer);
	for (uint64_t now = 65536; now < UINT64_MAX / 2; now *= 2)
		weir_wheel_advance(&wheel, now, SIZE_MAX, count_one, &fired);
	assert_int_equal(fired, 0);
	assert_int_equal(wheel.count, 1);
	weir_wheel_remove(&wheel, &timer);
	assert_true(weir_wheel_next_ns(&wheel) == UINT64_MAX);
}

static void test_due_at_once(void **state)
{
	weir_wheel wheel;
	weir_timer timer = {.at_ns = 100000};
	int fired = 0;
	weir_wheel_init(&wheel, 100000);
	weir_wheel_insert(&wheel, &timer);
	assert_true(weir_wheel_next_ns(&wheel) <= 100000);
	assert_int_equal(weir_wheel_advance(&wheel, 100000, SIZE_MAX, count_one, &fired), 1);
}

static void test_time_that_goes_back_is_ignored(void **state)
{
	weir_wheel wheel;
	weir_timer timer = {.at_ns = 2000000};
	int fired = 0;
	weir_wheel_init(&wheel, 1000000);
	weir_wheel_insert(&wheel, &timer);
	assert_int_equal(weir_wheel_advance(&wheel, 10, SIZE_MAX, count_one, &fired), 0);
	assert_int_equal(weir_wheel_advance(&wheel, 2100000, SIZE_MAX, count_one, &fired), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_due_at_once),     cmocka_unit_test(test_time_that_goes_back_is_ignored),
		cmocka_unit_test(test_far_timer_stays), cmocka_unit_test(test_next_leads_to_each),
		cmocka_unit_test(test_against_table),
	};
	return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
