/* SPDX-License-Identifier: Apache-2.0 */
/* The budget: at most rate x time + burst + one piece, for one thread and for many. */
#include "support/check.h"

#include <pthread.h>

#include "net/transmit_budget.h"

#define MS WEIR_NS_PER_MS
#define S  WEIR_NS_PER_S

static void takes_what_the_rate_allows(void **state)
{
	weir_transmit_budget budget;
	uint64_t taken = 0, from_ns = S;
	weir_transmit_budget_init(&budget, 1000000, 2 * MS, from_ns);
	for (uint64_t now_ns = from_ns; now_ns < from_ns + S; now_ns += MS / 10)
		while (weir_transmit_budget_take(&budget, 1514, 0, now_ns))
			taken += 1514;
	/* a second, the burst, and one piece that begins before the end */
	assert_in_range(taken, 1000000 - 1514, 1000000 + 2000 + 1514);
}

static void keeps_no_more_than_the_burst(void **state)
{
	weir_transmit_budget budget;
	uint64_t taken = 0;
	weir_transmit_budget_init(&budget, 1000000, 2 * MS, S);
	while (weir_transmit_budget_take(&budget, 100, 0, 10 * S))
		taken += 100;
	assert_in_range(taken, 2000, 2200);
	assert_false(weir_transmit_budget_take(&budget, 1, 0, 10 * S));
	uint64_t ready_ns = weir_transmit_budget_ready(&budget, 0);
	assert_false(weir_transmit_budget_take(&budget, 1, 0, ready_ns - 1));
	assert_true(weir_transmit_budget_take(&budget, 1, 0, ready_ns));
}

/* Half of the burst is for whoever is first; others get what is left over. */
static void reserve_is_left(void **state)
{
	weir_transmit_budget budget;
	weir_transmit_budget_init(&budget, 1000000, 2 * MS, S);
	assert_true(weir_transmit_budget_take(&budget, 500, MS, S));
	assert_true(weir_transmit_budget_take(&budget, 500, MS, S));
	assert_true(weir_transmit_budget_take(&budget, 500, MS, S));
	assert_false(weir_transmit_budget_take(&budget, 500, MS, S));
	assert_true(weir_transmit_budget_take(&budget, 500, 0, S));
	uint64_t ready_ns = weir_transmit_budget_ready(&budget, MS);
	assert_true(weir_transmit_budget_take(&budget, 500, MS, ready_ns));
}

static void charges_and_refunds(void **state)
{
	weir_transmit_budget budget;
	weir_transmit_budget_init(&budget, 1000000, 2 * MS, S);
	weir_transmit_budget_charge(&budget, 5000, S);
	assert_int_equal(weir_transmit_budget_ready(&budget, 0), S + 3 * MS);
	weir_transmit_budget_refund(&budget, 5000);
	assert_int_equal(weir_transmit_budget_ready(&budget, 0), S - 2 * MS);
	/* A debt has a bound, so that a wrong charge stops nobody for long. */
	weir_transmit_budget_charge(&budget, UINT64_C(1) << 60, S);
	assert_int_equal(weir_transmit_budget_ready(&budget, 0), S - 2 * MS + 10 * S);
	weir_transmit_budget_charge(&budget, UINT64_C(1) << 60, S);
	assert_int_equal(weir_transmit_budget_ready(&budget, 0), 11 * S);
}

static void follows_the_rate(void **state)
{
	weir_transmit_budget budget;
	uint64_t taken = 0;
	weir_transmit_budget_init(&budget, 1000, 2 * MS, S);
	weir_transmit_budget_rate(&budget, 2000000, MS);
	for (uint64_t now_ns = S; now_ns < 2 * S; now_ns += MS / 10)
		while (weir_transmit_budget_take(&budget, 1000, 0, now_ns))
			taken += 1000;
	assert_in_range(taken, 1990000, 2010000);
	/* no limit */
	weir_transmit_budget_rate(&budget, 0, MS);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(weir_transmit_budget_take(&budget, 1000000, 0, 3 * S));
}

/* ---- many threads ---- */

#define THREADS 4

typedef struct crowd {
	weir_transmit_budget budget;
	_Atomic uint64_t now_ns, taken;
} crowd;

static void *take_all(void *arg)
{
	crowd *c = arg;
	uint64_t now_ns;
	while ((now_ns = atomic_load(&c->now_ns)) < 2 * S) {
		if (weir_transmit_budget_take(&c->budget, 1514, 0, now_ns))
			atomic_fetch_add(&c->taken, 1514);
		else
			atomic_fetch_add(&c->now_ns, MS / 20);
	}
	return NULL;
}

static void threads_share_it(void **state)
{
	static crowd c;
	pthread_t thread[THREADS];
	weir_transmit_budget_init(&c.budget, 1000000, 2 * MS, S);
	atomic_store(&c.now_ns, S);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_all, &c), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	/* A thread may have read the time earlier than another. Nothing is lost or taken twice. */
	assert_in_range(atomic_load(&c.taken), 990000, 1000000 + 2000 + 1514 * THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(takes_what_the_rate_allows),
		CHECK_TEST(keeps_no_more_than_the_burst),
		CHECK_TEST(reserve_is_left),
		CHECK_TEST(charges_and_refunds),
		CHECK_TEST(follows_the_rate),
		CHECK_TEST(threads_share_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
