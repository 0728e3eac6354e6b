/* SPDX-License-Identifier: Apache-2.0 */
/* The batch laws with a simulated stage: a call costs F ns and V ns an event, so cost per event = V + F / batch. */
#include "support/unit.h"

#include <math.h>

#include <weir/law.h>
#include <weir/random.h>

#define MAX  256u
#define NEAR 1.1

typedef struct stage {
	const weir_batch_law *law;
	_Alignas(16) unsigned char state[256];
	weir_random random;
	double call_ns, event_ns;
	double now_ns, waiting, arrival_per_ns;
	uint32_t batch, min, max;
	/* since stage_forget */
	double events, calls, busy_ns;
	uint32_t least, most;
} stage;

static void stage_init(stage *s, const weir_batch_law *law, double call_ns, double event_ns, uint64_t seed)
{
	*s = (stage){.law = law, .call_ns = call_ns, .event_ns = event_ns, .batch = 32, .min = 1, .max = MAX};
	assert_true(law->state_bytes <= sizeof(s->state));
	law->init(s->state);
	weir_random_init(&s->random, seed);
}

static void stage_forget(stage *s)
{
	s->events = s->calls = s->busy_ns = 0;
	s->least = s->most = s->batch;
}

static double cost(const stage *s, double batch)
{
	return s->event_ns + s->call_ns / batch;
}

/* A share of what could be handled at best. */
static void stage_load(stage *s, double share)
{
	s->arrival_per_ns = share / cost(s, s->max);
}

static void pass_time(stage *s, double ns)
{
	double mean = ns * s->arrival_per_ns;
	double came =
		floor(mean + sqrt(mean) * weir_random_normal(&s->random) + weir_random_unit(&s->random));
	s->now_ns += ns;
	s->waiting += fmax(came, 0);
}

/* One call of the handler, or a little idleness. Returns the events. */
static double one_call(stage *s)
{
	double count = fmin(s->batch, s->waiting);
	double noise = 0.9 + 0.2 * weir_random_unit(&s->random);
	double ns = count > 0 ? (s->call_ns + count * s->event_ns) * noise : s->event_ns;
	s->waiting -= count;
	pass_time(s, ns);
	if (count > 0) {
		s->busy_ns += ns;
		s->calls++;
	}
	s->events += count;
	return count;
}

static void one_tick(stage *s)
{
	weir_batch_sample sample = {
		.interval_ns = s->law->tick_ns, .batch = s->batch, .min = s->min, .max = s->max};
	double until = s->now_ns + (double)s->law->tick_ns, busy_before = s->busy_ns;
	while (s->now_ns < until) {
		double count = one_call(s);
		sample.events += (uint64_t)count;
		sample.batches += count > 0;
	}
	sample.now_ns = (uint64_t)s->now_ns;
	sample.busy_ns = (uint64_t)(s->busy_ns - busy_before);
	sample.waiting = (uint32_t)fmin(s->waiting, UINT32_MAX);
	s->batch = s->law->size(s->state, &sample);
	assert_in_range(s->batch, s->min, s->max);
	s->least = s->batch < s->least ? s->batch : s->least;
	s->most = s->batch > s->most ? s->batch : s->most;
}

static void ticks(stage *s, int count)
{
	while (count-- > 0)
		one_tick(s);
}

/* The smallest batch that costs near the least. */
static double knee(const stage *s)
{
	return fmax(s->call_ns / ((NEAR - 1) * s->event_ns + NEAR * s->call_ns / s->max), 1);
}

static const struct {
	double call_ns, event_ns;
} costs[] = {{0, 50000}, {5000, 50000}, {50000, 50000}, {200000, 20000}, {500000, 10000}};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

#define assert_stage(x)                                                                                   \
	do {                                                                                              \
		if (!(x))                                                                                 \
			fail_msg("line %d: seed %" PRIu64 ", costs %zu: batch %u of %u..%u, knee %g: %s", \
				 __LINE__, seed, i, s.batch, s.least, s.most, knee(&s), #x);              \
	} while (0)

/* A busy stage that keeps up: events cost little more than at best, in batches no larger than that takes. */
static void test_prompt_finds_the_knee(void **state)
{
	for (size_t i = 0; i < COUNT(costs); i++)
		for (uint64_t seed = 1; seed <= 5; seed++) {
			stage s;
			stage_init(&s, &weir_batch_prompt, costs[i].call_ns, costs[i].event_ns, seed);
			stage_load(&s, 0.8);
			ticks(&s, 100);
			stage_forget(&s);
			double sum = 0;
			for (int tick = 0; tick < 100; tick++) {
				one_tick(&s);
				sum += s.batch;
			}
			/* A limit that batches never reach need not be right: what they are is what counts. */
			assert_stage(s.events / s.calls <= 1.5 * knee(&s) + 2);
			assert_stage(sum / 100 >= 0.5 * knee(&s));
			assert_stage(s.waiting < 8 * MAX);
		}
}

/* More than it can handle: the largest batch, as each bit of throughput counts. */
static void test_prompt_grows_with_the_queue(void **state)
{
	for (size_t i = 0; i < COUNT(costs); i++)
		for (uint64_t seed = 1; seed <= 5; seed++) {
			stage s;
			stage_init(&s, &weir_batch_prompt, costs[i].call_ns, costs[i].event_ns, seed);
			stage_load(&s, 0.3);
			ticks(&s, 60);
			stage_load(&s, 1.3);
			ticks(&s, 20);
			assert_stage(s.batch == MAX);
			stage_load(&s, 0.5);
			s.waiting = 0;
			ticks(&s, 100);
			assert_stage(s.batch <= 2 * knee(&s) + 2);
		}
}

/* A handler whose calls become cheap needs no batches any more, and the other way round. */
static void test_prompt_notices_a_change(void **state)
{
	size_t i = 0;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		stage s;
		stage_init(&s, &weir_batch_prompt, 400000, 40000, seed);
		stage_load(&s, 0.8);
		ticks(&s, 100);
		assert_stage(s.batch >= 20);
		s.call_ns = 1000;
		ticks(&s, 400);
		assert_stage(s.batch <= 4);
		s.call_ns = 400000;
		ticks(&s, 400);
		assert_stage(s.batch >= 20);
	}
}

/* So few events that batches never fill: whatever it was stays, within the bounds. */
static void test_prompt_without_load(void **state)
{
	stage s;
	stage_init(&s, &weir_batch_prompt, 1000, 1000, 1);
	ticks(&s, 50);
	stage_forget(&s);
	ticks(&s, 15); /* from one probe to the next */
	assert_true(s.least >= 16 && s.most <= 64);
}

static uint32_t seda(void *state, uint64_t per_tick)
{
	weir_batch_sample sample = {
		.interval_ns = weir_batch_seda.tick_ns, .events = per_tick, .min = 1, .max = 100};
	return weir_batch_seda.size(state, &sample);
}

/* Starts at the maximum and shrinks by 1.2 while the rate holds, down to the minimum. */
static void test_seda_shrinks(void **state)
{
	_Alignas(16) unsigned char law_state[256];
	weir_batch_seda.init(law_state);
	assert_int_equal(seda(law_state, 1000), 100);
	double expected = 100;
	for (int i = 0; i < 40; i++) {
		expected = fmax(expected / 1.2, 1);
		assert_int_equal(seda(law_state, 1000), (int)ceil(expected));
	}
	assert_int_equal(seda(law_state, 1000), 1);
}

static void test_seda_grows_and_starts_over(void **state)
{
	_Alignas(16) unsigned char law_state[256];
	weir_batch_seda.init(law_state);
	for (int i = 0; i < 10; i++)
		seda(law_state, 1000);
	uint32_t low = seda(law_state, 1000);
	/* A moving average: it takes some ticks for the fall to show. */
	for (int i = 0; i < 6; i++)
		seda(law_state, 700);
	assert_true(seda(law_state, 700) > low);
	for (int i = 0; i < 8; i++)
		seda(law_state, 100);
	assert_int_equal(seda(law_state, 10), 100);
	weir_batch_seda.init(law_state);
	for (int i = 0; i < 20; i++)
		low = seda(law_state, 1000);
	assert_true(low < 10);
	assert_true(seda(law_state, 2900) < 100);
	assert_int_equal(seda(law_state, 9000), 100);
}

/* The paper's rule in the same stage: near the knee of throughput, and without coming to rest. */
static void test_seda_in_a_stage(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		stage s;
		stage_init(&s, &weir_batch_seda, 200000, 20000, seed);
		stage_load(&s, 5);
		ticks(&s, 100);
		stage_forget(&s);
		ticks(&s, 100);
		assert_for_seed(seed, s.busy_ns / s.events <= 1.35 * cost(&s, MAX));
		assert_for_seed(seed, s.most < MAX);
	}
}

static uint64_t any(weir_random *random)
{
	return weir_random_u64(random) >> weir_random_below(random, 64);
}

static void test_any_sample(void **state)
{
	const weir_batch_law *laws[] = {&weir_batch_prompt, &weir_batch_seda};
	for (uint64_t seed = 1; seed <= 50; seed++) {
		weir_random random;
		const weir_batch_law *law = laws[seed % 2];
		_Alignas(16) unsigned char law_state[256];
		weir_random_init(&random, seed);
		law->init(law_state);
		for (int i = 0; i < 500; i++) {
			weir_batch_sample s = {.now_ns = any(&random), .interval_ns = any(&random)};
			s.events = any(&random);
			s.batches = any(&random);
			s.busy_ns = any(&random);
			s.waiting = (uint32_t)any(&random);
			s.batch = (uint32_t)any(&random);
			s.min = 1 + (uint32_t)weir_random_below(&random, 100);
			s.max = s.min + (uint32_t)weir_random_below(&random, 100);
			uint32_t size = law->size(law_state, &s);
			assert_for_seed(seed, size >= s.min && size <= s.max);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seda_shrinks),
		cmocka_unit_test(test_seda_grows_and_starts_over),
		cmocka_unit_test(test_seda_in_a_stage),
		cmocka_unit_test(test_any_sample),
		cmocka_unit_test(test_prompt_without_load),
		cmocka_unit_test(test_prompt_finds_the_knee),
		cmocka_unit_test(test_prompt_grows_with_the_queue),
		cmocka_unit_test(test_prompt_notices_a_change),
	};
	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
