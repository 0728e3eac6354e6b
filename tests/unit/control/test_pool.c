/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool laws, judged in a small simulation: arrivals, one queue, handlers that block, a law that sizes the pool.
 *
 * Threads appear at once when the law asks for more; one too many goes when it is idle. The thread idle for the
 * shortest time is woken first.
 */
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/law.h>
#include <weir/random.h>

#define MAX_THREADS 256
#define QUEUE       (1u << 20)
#define MS          WEIR_NS_PER_MS
#define S           WEIR_NS_PER_S
#define NEVER       UINT64_MAX

typedef enum service { CONSTANT, EXPONENTIAL, BIMODAL, SERVICES } service;

typedef struct pool {
	const weir_pool_law *law;
	_Alignas(16) unsigned char state[256];
	weir_random random;
	uint64_t now;
	/* load */
	double per_s, service_ns;
	service kind;
	bool even; /* arrivals at even distances */
	uint64_t arrival_at;
	/* threads */
	uint32_t threads, wanted, busy, min, max;
	uint64_t done_at[MAX_THREADS];    /* of the busy ones, in no order */
	uint64_t idle_since[MAX_THREADS]; /* of the others, longest first */
	/* queue of arrival times */
	uint64_t *queue, head, tail;
	/* since the last tick */
	weir_pool_sample sample;
	uint64_t tick_at;
	/* what was seen since pool_forget */
	uint64_t worst_wait_ns, waits, reversals;
	double wait_sum;
	uint32_t least, most;
	int direction;
} pool;

static void pool_init(pool *p, const weir_pool_law *law, uint64_t seed)
{
	uint64_t *queue = p->queue;
	*p = (pool){.law = law, .threads = 1, .wanted = 1, .min = 1, .max = 64, .arrival_at = NEVER};
	p->queue = queue != NULL ? queue : malloc(QUEUE * sizeof(uint64_t));
	assert_non_null(p->queue);
	assert_true(law->state_bytes <= sizeof(p->state));
	law->init(p->state);
	weir_random_init(&p->random, seed);
	p->tick_at = law->tick_ns;
}

static void pool_forget(pool *p)
{
	p->worst_wait_ns = p->waits = p->reversals = 0;
	p->wait_sum = 0;
	p->direction = 0;
	p->least = p->most = p->threads;
}

static double draw_service(pool *p)
{
	switch (p->kind) {
	case CONSTANT:
		return p->service_ns;
	case EXPONENTIAL:
		return weir_random_exponential(&p->random, p->service_ns);
	default:
		return weir_random_bimodal(&p->random, p->service_ns, 0.05, 20);
	}
}

static void next_arrival(pool *p)
{
	double gap = 1e9 / p->per_s;
	if (p->per_s <= 0)
		p->arrival_at = NEVER;
	else
		p->arrival_at =
			p->now + 1 + (uint64_t)(p->even ? gap : weir_random_exponential(&p->random, gap));
}

static void pool_load(pool *p, double threads_needed, double service_ms, service kind)
{
	p->service_ns = service_ms * 1e6;
	p->per_s = threads_needed * 1e9 / p->service_ns;
	p->kind = kind;
	next_arrival(p);
}

static void start_waiting(pool *p)
{
	while (p->busy < p->threads && p->head != p->tail) {
		uint64_t wait = p->now - p->queue[p->head++ % QUEUE];
		p->done_at[p->busy++] = p->now + 1 + (uint64_t)draw_service(p);
		p->sample.started++;
		p->waits++;
		p->wait_sum += (double)wait;
		p->worst_wait_ns = wait > p->worst_wait_ns ? wait : p->worst_wait_ns;
	}
}

/* Idle threads above the wanted number go, the longest-idle first. */
static void retire(pool *p)
{
	while (p->threads > p->wanted && p->busy < p->threads) {
		uint32_t idle = p->threads - p->busy;
		memmove(p->idle_since, p->idle_since + 1, (idle - 1) * sizeof(uint64_t));
		p->threads--;
	}
}

static void arrive(pool *p)
{
	assert_true(p->tail - p->head < QUEUE);
	p->queue[p->tail++ % QUEUE] = p->now;
	p->sample.arrived++;
	next_arrival(p);
	start_waiting(p);
}

static void complete(pool *p, uint32_t which)
{
	p->done_at[which] = p->done_at[--p->busy];
	p->idle_since[p->threads - p->busy - 1] = p->now;
	start_waiting(p);
	retire(p);
}

static void note_size(pool *p, uint32_t before)
{
	int direction = (p->threads > before) - (p->threads < before);
	p->least = p->threads < p->least ? p->threads : p->least;
	p->most = p->threads > p->most ? p->threads : p->most;
	if (direction != 0 && direction == -p->direction)
		p->reversals++;
	if (direction != 0)
		p->direction = direction;
}

static void resize(pool *p, uint32_t wanted)
{
	p->wanted = wanted;
	for (; p->threads < wanted; p->threads++)
		p->idle_since[p->threads - p->busy] = p->now;
	start_waiting(p);
	retire(p);
}

static void tick(pool *p)
{
	weir_pool_sample *s = &p->sample;
	uint32_t before = p->threads;
	s->now_ns = p->now;
	s->interval_ns = p->law->tick_ns;
	s->threads = p->threads;
	s->busy = p->busy;
	s->waiting = s->max_queue = (uint32_t)(p->tail - p->head);
	s->oldest_ns = s->waiting > 0 ? p->now - p->queue[p->head % QUEUE] : 0;
	s->idle_ns = p->busy < p->threads ? p->now - p->idle_since[0] : 0;
	s->min = p->min;
	s->max = p->max;
	uint32_t wanted = p->law->size(p->state, s);
	assert_in_range(wanted, p->min, p->max);
	*s = (weir_pool_sample){0};
	p->tick_at += p->law->tick_ns;
	resize(p, wanted);
	note_size(p, before);
}

static void pool_run(pool *p, uint64_t until)
{
	while (p->now < until) {
		uint32_t first = 0;
		for (uint32_t i = 1; i < p->busy; i++)
			if (p->done_at[i] < p->done_at[first])
				first = i;
		uint64_t done_at = p->busy > 0 ? p->done_at[first] : NEVER;
		uint64_t next = done_at < p->arrival_at ? done_at : p->arrival_at;
		next = next < p->tick_at ? next : p->tick_at;
		p->sample.busy_ns += p->busy * (next - p->now);
		p->now = next;
		if (next == p->tick_at)
			tick(p);
		else if (next == done_at)
			complete(p, first);
		else
			arrive(p);
	}
}

static const double service_ms[] = {0.1, 1, 5, 20, 50, 100, 200};
static const double needed[] = {0.3, 2, 8, 20, 40};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define SEEDS        3
#define MOST_PER_S   2e4 /* for the patience of whoever runs the tests */

static pool p;

#define assert_pool(x)                                                                                   \
	do {                                                                                             \
		if (!(x))                                                                                \
			fail_msg("line %d: seed %" PRIu64 ", %g ms, %g needed, kind %d, %u threads: %s", \
				 __LINE__, seed, ms, need, (int)kind, p.threads, #x);                    \
	} while (0)

typedef void judge_fn(uint64_t seed, double ms, double need, service kind);

static void for_all_loads(judge_fn *judge)
{
	for (size_t i = 0; i < COUNT(service_ms); i++)
		for (size_t j = 0; j < COUNT(needed); j++)
			for (service kind = CONSTANT; kind < SERVICES; kind++)
				for (uint64_t seed = 1; seed <= SEEDS; seed++)
					if (needed[j] * 1e3 / service_ms[i] <= MOST_PER_S)
						judge(seed, service_ms[i], needed[j], kind);
}

static void step_to(uint64_t seed, double ms, double need, service kind)
{
	pool_init(&p, &weir_pool_prompt, seed);
	pool_load(&p, 0.01, ms, kind);
	pool_run(&p, 2 * S);
	pool_load(&p, need, ms, kind);
}

/* From 100 ms after a step on, nobody waits long, although the first handlers may not have returned yet. */
static void judge_step(uint64_t seed, double ms, double need, service kind)
{
	step_to(seed, ms, need, kind);
	pool_run(&p, 2 * S + 100 * MS);
	pool_forget(&p);
	pool_run(&p, 3 * S);
	assert_pool(p.worst_wait_ns <= 25 * MS);
	assert_pool(p.waits < 50 || p.wait_sum <= (double)p.waits * 5 * MS);
}

static void test_prompt_follows_a_step(void **state)
{
	for_all_loads(judge_step);
}

/* With arrivals at even distances the number inside is known: 100 ms after the step there is a thread for each. */
static void test_prompt_has_the_threads(void **state)
{
	for (size_t i = 0; i < COUNT(service_ms); i++)
		for (size_t j = 0; j < COUNT(needed); j++) {
			double ms = service_ms[i], need = needed[j];
			uint64_t seed = 1;
			service kind = CONSTANT;
			pool_init(&p, &weir_pool_prompt, seed);
			p.even = true;
			pool_load(&p, need, ms, kind);
			pool_run(&p, 100 * MS);
			/* What came in the last tick may still wait. */
			double inside = p.per_s * fmin(0.09, ms / 1e3);
			assert_pool(p.threads >= floor(inside * 0.99));
		}
}

/* The rate stays, but handlers begin to block: a slow disk, a slow peer. */
static void test_prompt_follows_slow_handlers(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		for (service kind = CONSTANT; kind < SERVICES; kind++) {
			double need = 40, ms = 200;
			pool_init(&p, &weir_pool_prompt, seed);
			pool_load(&p, 0.02, 0.1, kind);
			pool_run(&p, 5 * S);
			p.service_ns = ms * 1e6;
			pool_run(&p, 5 * S + 100 * MS);
			pool_forget(&p);
			pool_run(&p, 8 * S);
			assert_pool(p.worst_wait_ns <= 25 * MS);
			assert_pool(p.threads >= need);
		}
}

/* A steady load moves the pool seldom and little, and does not take many more threads than it needs. */
static void judge_rest(uint64_t seed, double ms, double need, service kind)
{
	step_to(seed, ms, need, kind);
	pool_run(&p, 14 * S);
	pool_forget(&p);
	pool_run(&p, 24 * S);
	assert_pool(p.reversals <= 5);
	/* When by chance all threads are in handlers 20 times as long as most, that is no different from a step. */
	if (kind != BIMODAL) {
		assert_pool(p.most - p.least <= 5 + 3 * sqrt(need));
		assert_pool(p.most <= fmin(need + 4 * sqrt(need) + 6, p.max));
	}
	assert_pool(p.least >= floor(need));
}

static void test_prompt_rests_at_a_steady_load(void **state)
{
	for_all_loads(judge_rest);
}

static void judge_shrink(uint64_t seed, double ms, double need, service kind)
{
	step_to(seed, ms, need, kind);
	pool_run(&p, 4 * S);
	pool_load(&p, 0, ms, kind);
	pool_run(&p, 5 * S);
	pool_forget(&p);
	/* The longest handler may take a while; then down, and never up. */
	pool_run(&p, 25 * S);
	assert_pool(p.reversals == 0);
	assert_pool(p.threads == p.min);
}

static void test_prompt_shrinks_back(void **state)
{
	for_all_loads(judge_shrink);
}

/* Short of threads it takes all it may have and keeps them; with more than it needs, not fewer than min. */
static void test_prompt_keeps_to_bounds(void **state)
{
	pool_init(&p, &weir_pool_prompt, 1);
	p.max = 10;
	pool_load(&p, 30, 20, EXPONENTIAL);
	pool_run(&p, 300 * MS);
	assert_int_equal(p.threads, 10);
	pool_forget(&p);
	pool_run(&p, 20 * S);
	assert_int_equal(p.least, 10);
	pool_init(&p, &weir_pool_prompt, 1);
	p.min = 7;
	pool_load(&p, 1, 5, EXPONENTIAL);
	pool_run(&p, 20 * S);
	assert_int_equal(p.threads, 7);
}

/* The paper's rule follows the same step, but over minutes: what the default is better than. */
static void test_seda_is_slow(void **state)
{
	pool_init(&p, &weir_pool_seda, 1);
	pool_load(&p, 8, 20, EXPONENTIAL);
	pool_run(&p, 4 * S + 1);
	assert_int_equal(p.threads, 3);
	pool_run(&p, 60 * S);
	assert_true(p.threads >= 8);
}

static uint32_t seda(uint32_t threads, uint32_t max_queue, uint64_t idle_ns)
{
	weir_pool_sample s = {
		.threads = threads, .max_queue = max_queue, .idle_ns = idle_ns, .min = 2, .max = 5};
	return weir_pool_seda.size(NULL, &s);
}

static void test_seda_rule(void **state)
{
	assert_true(weir_pool_seda.tick_ns == 2 * S);
	assert_int_equal(seda(3, 100, 0), 3);
	assert_int_equal(seda(3, 101, 0), 4);
	assert_int_equal(seda(5, 101, 0), 5);
	assert_int_equal(seda(3, 0, 5 * S - 1), 3);
	assert_int_equal(seda(3, 0, 5 * S), 2);
	assert_int_equal(seda(2, 0, 9 * S), 2);
	assert_int_equal(seda(0, 0, 0), 2);
}

static uint64_t any(weir_random *random)
{
	return weir_random_u64(random) >> weir_random_below(random, 64);
}

/* Whatever the sample says, the answer is within the bounds. */
static void test_any_sample(void **state)
{
	const weir_pool_law *laws[] = {&weir_pool_prompt, &weir_pool_seda};
	for (uint64_t seed = 1; seed <= 200; seed++) {
		weir_random random;
		const weir_pool_law *law = laws[seed % 2];
		_Alignas(16) unsigned char law_state[256];
		weir_random_init(&random, seed);
		law->init(law_state);
		for (int i = 0; i < 500; i++) {
			uint64_t fields[8];
			for (int j = 0; j < 8; j++)
				fields[j] = any(&random);
			weir_pool_sample s = {.now_ns = fields[0],
					      .interval_ns = fields[1],
					      .oldest_ns = fields[2],
					      .started = fields[3],
					      .arrived = fields[4],
					      .busy_ns = fields[5],
					      .idle_ns = fields[6],
					      .waiting = (uint32_t)fields[7]};
			s.threads = (uint32_t)any(&random);
			s.busy = (uint32_t)weir_random_below(&random, (uint64_t)s.threads + 1);
			s.max_queue = s.waiting;
			s.min = (uint32_t)weir_random_below(&random, 100);
			s.max = s.min + (uint32_t)weir_random_below(&random, 100);
			uint32_t size = law->size(law_state, &s);
			assert_for_seed(seed, size >= s.min && size <= s.max);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seda_rule),
		cmocka_unit_test(test_seda_is_slow),
		cmocka_unit_test(test_any_sample),
		cmocka_unit_test(test_prompt_keeps_to_bounds),
		cmocka_unit_test(test_prompt_has_the_threads),
		cmocka_unit_test(test_prompt_follows_slow_handlers),
		cmocka_unit_test(test_prompt_follows_a_step),
		cmocka_unit_test(test_prompt_rests_at_a_steady_load),
		cmocka_unit_test(test_prompt_shrinks_back),
	};
	int failed = cmocka_run_group_tests_name("pool", tests, NULL, NULL);
	free(p.queue);
	return failed;
}
