/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weir/law.h>
#include <weir/random.h>

typedef union bucket {
	_Alignas(16) unsigned char state[64];
} bucket;

static void start(bucket *b, double rate, double burst)
{
	weir_bucket_params params = {.rate_per_s = rate, .burst = burst};
	const char *wrong = NULL;
	assert_true(weir_law_bucket.state_bytes <= sizeof(b->state));
	assert_int_equal(weir_law_bucket.init(b->state, &params, &wrong), 0);
}

static bool take(bucket *b, uint64_t now, uint32_t count)
{
	weir_ask ask = {.now_ns = now, .count = count};
	weir_verdict verdict = weir_law_bucket.admit(b->state, &ask);
	assert_true(verdict == WEIR_ADMITTED || verdict == WEIR_SHED_RATE);
	return verdict == WEIR_ADMITTED;
}

static void give_back(bucket *b, uint64_t now, uint32_t count)
{
	weir_ask ask = {.now_ns = now, .count = count};
	weir_law_bucket.refund(b->state, &ask);
}

static uint64_t retry_after(const bucket *b, uint64_t now, uint32_t count)
{
	weir_ask ask = {.now_ns = now, .count = count};
	weir_why why = {.retry_after_ns = 1};
	weir_law_bucket.explain(b->state, &ask, &why);
	return why.retry_after_ns;
}

/* The bucket as one would draw it. */
typedef struct model {
	long double rate, burst, tokens;
	uint64_t now;
} model;

static void model_fill(model *m, uint64_t now)
{
	m->tokens = fminl(m->burst, m->tokens + m->rate / 1e9L * (long double)(now - m->now));
	m->now = now;
}

static double random_rate(weir_random *random)
{
	return pow(10, -3 + 11 * weir_random_unit(random));
}

/* One random ask; the model follows the law's word where it is too close to call. */
static void model_step(bucket *b, model *m, weir_random *random, uint64_t seed)
{
	double gap = weir_random_exponential(random, (double)(m->burst / m->rate) * 1e9 / 4);
	model_fill(m, m->now + (uint64_t)fmin(gap, 1e17));
	uint32_t count = 1 + (uint32_t)weir_random_below(random, (uint64_t)fminl(m->burst * 1.2L, 1e9L));
	bool taken = take(b, m->now, count);
	/* The law reads time in steps of up to a ns. */
	long double fuzz = 1e-9L * m->burst + m->rate * 2e-9L;
	if (fabsl(m->tokens - count) > fuzz)
		assert_for_seed(seed, taken == (m->tokens >= count));
	if (taken)
		m->tokens -= count;
	if (taken && weir_random_below(random, 4) == 0) {
		give_back(b, m->now, count);
		m->tokens = fminl(m->burst, m->tokens + count);
	}
}

static void test_against_model(void **state)
{
	for (uint64_t seed = 1; seed <= 500; seed++) {
		weir_random random;
		bucket b;
		weir_random_init(&random, seed);
		double rate = random_rate(&random), burst = 1 + weir_random_exponential(&random, 50);
		model m = {.rate = rate, .burst = burst, .tokens = burst};
		m.now = weir_random_u64(&random) >> (8 + weir_random_below(&random, 56));
		start(&b, rate, burst);
		for (int i = 0; i < 500 && m.now < UINT64_C(1) << 61; i++)
			model_step(&b, &m, &random, seed);
	}
}

/* Asked all the time, it gives exactly rate x time + burst, at intervals that are no whole number of ns. */
static void check_total(double rate, uint64_t step_ns, uint64_t steps)
{
	bucket b;
	uint64_t taken = 0, start_ns = UINT64_C(1) << 50;
	start(&b, rate, 16);
	for (uint64_t i = 0; i <= steps; i++)
		while (take(&b, start_ns + i * step_ns, 1))
			taken++;
	long double expected = (long double)rate / 1e9L * (long double)(steps * step_ns) + 16;
	assert_true(fabsl((long double)taken - expected) <= 1.001L);
}

static void test_no_drift(void **state)
{
	check_total(1e8, 50, 200000);
	check_total(3e7 + 1, 100, 1000000);
	check_total(99999999.0 / 7, 333, 1000000);
	check_total(123456.789, 50021, 1000000);
	check_total(1.0 / 3, 1700000000, 200000);
	check_total(0.001, UINT64_C(700000000000), 100000);
}

/* In any stretch of time, not only from the start: the most that can come in is rate x time + burst. */
static void test_any_window(void **state)
{
	enum { ASKS = 400 };
	for (uint64_t seed = 1; seed <= 100; seed++) {
		weir_random random;
		bucket b;
		static uint64_t at[ASKS], sum[ASKS + 1];
		weir_random_init(&random, seed);
		double rate = random_rate(&random), burst = 1 + weir_random_exponential(&random, 20);
		uint64_t now = 1000;
		start(&b, rate, burst);
		for (int i = 0; i < ASKS; i++) {
			now += (uint64_t)weir_random_exponential(&random, 1e9 / rate);
			uint32_t count = 1 + (uint32_t)weir_random_below(&random, 3);
			at[i] = now;
			sum[i + 1] = sum[i] + (take(&b, now, count) ? count : 0);
		}
		for (int i = 0; i < ASKS; i++)
			for (int j = i; j < ASKS; j++) {
				double most = rate / 1e9 * ((double)(at[j] - at[i]) + 1) + burst;
				assert_for_seed(seed, (double)(sum[j + 1] - sum[i]) <= most * (1 + 1e-9));
			}
	}
}

/* retry_after is exact: refused one ns before, admitted then. */
static void test_retry_after(void **state)
{
	for (uint64_t seed = 1; seed <= 500; seed++) {
		weir_random random;
		bucket b;
		weir_random_init(&random, seed);
		start(&b, random_rate(&random), 20);
		uint64_t now = weir_random_u64(&random) >> (8 + weir_random_below(&random, 56));
		uint32_t count = 1 + (uint32_t)weir_random_below(&random, 20);
		for (int i = 0; i < 20 && now < UINT64_C(1) << 61; i++) {
			if (take(&b, now, count))
				continue;
			uint64_t wait = retry_after(&b, now, count);
			assert_for_seed(seed, wait > 0);
			assert_for_seed(seed, !take(&b, now + wait - 1, count));
			assert_for_seed(seed, take(&b, now + wait, count));
			now += wait;
		}
		assert_for_seed(seed, retry_after(&b, now, 21) == 0);
	}
}

static void test_default_burst(void **state)
{
	bucket b;
	start(&b, 1000, 0);
	assert_true(take(&b, 0, 100));
	assert_false(take(&b, 0, 1));
	start(&b, 0.001, 0);
	assert_true(take(&b, 0, 1));
	assert_false(take(&b, 0, 1));
	assert_true(retry_after(&b, 0, 1) - 1000 * WEIR_NS_PER_S <= 1);
}

static void test_all_or_nothing(void **state)
{
	bucket b;
	start(&b, 1, 10);
	assert_false(take(&b, 5, 11));
	assert_false(take(&b, 5, UINT32_MAX));
	assert_true(take(&b, 5, 7));
	assert_false(take(&b, 5, 4));
	assert_true(take(&b, 5, 3));
	give_back(&b, 5, 3);
	assert_true(take(&b, 5, 3));
}

/* A bucket that is already full gets no fuller by a refund. */
static void test_refund_stops_at_the_brim(void **state)
{
	bucket b;
	start(&b, 1, 10);
	assert_true(take(&b, 0, 10));
	give_back(&b, 100 * WEIR_NS_PER_S, 10);
	assert_true(take(&b, 100 * WEIR_NS_PER_S, 10));
	assert_false(take(&b, 100 * WEIR_NS_PER_S, 1));
}

static void check_refused(double rate, double burst)
{
	bucket b;
	weir_bucket_params params = {.rate_per_s = rate, .burst = burst};
	const char *wrong = NULL;
	assert_int_equal(weir_law_bucket.init(b.state, &params, &wrong), -EINVAL);
	assert_non_null(wrong);
}

static void test_bad_parameters(void **state)
{
	bucket b;
	const char *wrong = NULL;
	assert_int_equal(weir_law_bucket.init(b.state, NULL, &wrong), -EINVAL);
	check_refused(0, 1);
	check_refused(-1, 1);
	check_refused(NAN, 1);
	check_refused(INFINITY, 1);
	check_refused(1e10, 1);
	check_refused(1, 0.5);
	check_refused(1, -1);
	check_refused(1, NAN);
	check_refused(1, 1e300);
}

#define THREADS 4

typedef struct crowd {
	bucket b;
	_Atomic uint64_t clock, taken;
	uint64_t until;
} crowd;

/* Times come from one shared count, so threads ask with times of different age, as reactors do. */
static void *ask_until(void *arg)
{
	crowd *c = arg;
	uint64_t now, taken = 0, asks = 0;
	while ((now = atomic_fetch_add(&c->clock, 10)) < c->until) {
		uint32_t count = 1 + asks % 3;
		if (!take(&c->b, now, count))
			continue;
		if (asks++ % 5 == 0)
			give_back(&c->b, now, count);
		else
			taken += count;
	}
	atomic_fetch_add(&c->taken, taken);
	return NULL;
}

static void check_crowd(double rate)
{
	static crowd c;
	pthread_t threads[THREADS];
	start(&c.b, rate, 100);
	c.until = 20000000;
	atomic_store(&c.clock, 0);
	atomic_store(&c.taken, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_until, &c), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	double most = rate / 1e9 * (double)c.until + 100;
	assert_true((double)c.taken <= most);
	assert_true((double)c.taken >= 0.9 * most - 100);
}

static void test_threads_never_take_more(void **state)
{
	check_crowd(1e5);
	check_crowd(1e6);
	check_crowd(2e7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_burst),
		cmocka_unit_test(test_all_or_nothing),
		cmocka_unit_test(test_refund_stops_at_the_brim),
		cmocka_unit_test(test_bad_parameters),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_any_window),
		cmocka_unit_test(test_no_drift),
		cmocka_unit_test(test_threads_never_take_more),
	};
	return cmocka_run_group_tests_name("bucket", tests, NULL, NULL);
}
