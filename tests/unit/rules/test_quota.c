/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "base/mem.h"
#include "base/siphash.h"
#include "rules/match.h"

#define START_NS (1000 * WEIR_NS_PER_S)

static weir_quota *make(double rate, double burst, uint32_t keys)
{
	weir_quota *quota = NULL;
	weir_quota_options options = {.name = "test", .rate_per_s = rate, .burst = burst, .keys = keys};
	if (weir_quota_new(&options, &quota) != 0)
		fail_msg("%s", weir_error());
	return quota;
}

static bool take(weir_quota *quota, uint64_t key, uint64_t now_ns)
{
	return weir_quota_take(quota, &key, sizeof(key), now_ns, NULL);
}

static unsigned take_all(weir_quota *quota, uint64_t key, uint64_t now_ns)
{
	unsigned count = 0;
	while (take(quota, key, now_ns) && count < 1000000)
		count++;
	return count;
}

/* ---- one key ---- */

static void gives_a_burst_and_then_the_rate(void **state)
{
	weir_quota *quota = make(10, 5, 100);
	assert_int_equal(take_all(quota, 1, START_NS), 5);
	assert_int_equal(take_all(quota, 2, START_NS), 5);
	assert_int_equal(take_all(quota, 1, START_NS + 99 * WEIR_NS_PER_MS), 0);
	assert_int_equal(take_all(quota, 1, START_NS + 100 * WEIR_NS_PER_MS), 1);
	assert_int_equal(take_all(quota, 1, START_NS + 350 * WEIR_NS_PER_MS), 2);
	assert_int_equal(take_all(quota, 1, START_NS + 100 * WEIR_NS_PER_S), 5);
	weir_quota_free(quota);
}

static void tells_when_to_come_again(void **state)
{
	weir_quota *quota = make(3, 2, 100);
	uint64_t now = START_NS, retry = 77;
	for (int i = 0; i < 100; i++) {
		while (weir_quota_take(quota, "k", 1, now, &retry))
			assert_true(i > 0 || retry == 77);
		assert_true(retry > 0 && retry <= WEIR_NS_PER_S / 3 + 1);
		/* Not a moment earlier, and then it is so. */
		assert_false(weir_quota_take(quota, "k", 1, now + retry - 1, NULL));
		now += retry;
		assert_true(weir_quota_take(quota, "k", 1, now, NULL));
	}
	weir_quota_free(quota);
}

static void the_burst_is_the_rate_unless_said(void **state)
{
	weir_quota *fast = make(20, 0, 100), *slow = make(0.1, 0, 100);
	assert_int_equal(take_all(fast, 1, START_NS), 20);
	assert_int_equal(take_all(slow, 1, START_NS), 1);
	assert_int_equal(take_all(slow, 1, START_NS + 9 * WEIR_NS_PER_S), 0);
	assert_int_equal(take_all(slow, 1, START_NS + 10 * WEIR_NS_PER_S), 1);
	weir_quota_free(fast);
	weir_quota_free(slow);
	weir_quota_free(NULL);
}

static void keys_are_bytes_of_any_length(void **state)
{
	weir_quota *quota = make(1, 1, 1000);
	static const char bytes[300];
	/* Zeros of different lengths are different keys. */
	for (size_t length = 0; length < sizeof(bytes); length++)
		assert_true(weir_quota_take(quota, bytes, length, START_NS, NULL));
	for (size_t length = 0; length < sizeof(bytes); length++)
		assert_false(weir_quota_take(quota, bytes, length, START_NS, NULL));
	weir_quota_free(quota);
}

/* A clock of another thread may be a little behind. */
static void time_may_step_back(void **state)
{
	weir_quota *quota = make(10, 5, 100);
	assert_int_equal(take_all(quota, 1, START_NS), 5);
	assert_false(take(quota, 1, START_NS - WEIR_NS_PER_S));
	assert_false(take(quota, 1, 0));
	assert_int_equal(take_all(quota, 1, START_NS + 100 * WEIR_NS_PER_MS), 1);
	weir_quota_free(quota);
}

static void works_at_extreme_rates(void **state)
{
	const double rates[] = {1e-6, 0.001, 1, 1e6, 1e9};
	for (int i = 0; i < 5; i++) {
		weir_quota *quota = make(rates[i], 3, 10);
		uint64_t period = (uint64_t)(1e9 / rates[i]);
		assert_int_equal(take_all(quota, 1, START_NS), 3);
		assert_int_equal(take_all(quota, 1, START_NS + period / 2), 0);
		assert_int_equal(take_all(quota, 1, START_NS + period + period / 1000 + 1), 1 + (i == 4));
		weir_quota_free(quota);
	}
}

/* ---- many keys, compared with a bucket for each ---- */

typedef struct model {
	double *full_at_ns; /* by key */
	double token_ns, burst_ns;
} model;

static model model_new(double rate, double burst, size_t keys)
{
	return (model){.full_at_ns = calloc(keys, sizeof(double)),
		       .token_ns = 1e9 / rate,
		       .burst_ns = burst * 1e9 / rate};
}

/* slack_ns: for what the quota rounds. */
static bool model_may(const model *m, uint64_t key, uint64_t now_ns, double slack_ns)
{
	double from = fmax(m->full_at_ns[key], (double)now_ns);
	return from + m->token_ns - (double)now_ns <= m->burst_ns + slack_ns;
}

static void model_take(model *m, uint64_t key, uint64_t now_ns)
{
	m->full_at_ns[key] = fmax(m->full_at_ns[key], (double)now_ns) + m->token_ns;
}

/* With room for all, each key gets just what it is due. */
static void is_exact_while_there_is_room(void **state)
{
	enum { KEYS = 4000 };
	weir_quota *quota = make(4, 3, KEYS);
	model m = model_new(4, 3, KEYS);
	weir_random random;
	uint64_t now = START_NS;
	weir_random_init(&random, 7);
	for (int i = 0; i < 300000; i++) {
		uint64_t key = weir_random_below(&random, KEYS);
		now += weir_random_below(&random, 100000);
		bool may = take(quota, key, now);
		if (may != model_may(&m, key, now, may ? 1000 : -1000))
			fail_msg("step %d: key %" PRIu64 " %s", i, key, may ? "got too much" : "was refused");
		if (may)
			model_take(&m, key, now);
	}
	assert_int_equal(weir_quota_crowded(quota), 0);
	free(m.full_at_ns);
	weir_quota_free(quota);
}

/* Without room, whatever is forgotten and by whatever order of keys, none gets more than its due. */
static void never_gives_more_than_the_quota(void **state)
{
	enum { KEYS = 3000 };
	for (uint64_t seed = 1; seed <= 12; seed++) {
		uint32_t places = (uint32_t)(8 << seed % 5);
		weir_quota *quota = make(2, 4, places);
		model m = model_new(2, 4, KEYS);
		weir_random random;
		uint64_t now = START_NS, given = 0;
		weir_random_init(&random, seed);
		for (int i = 0; i < 100000; i++) {
			/* Some keys are hammered, others come once, and some take turns. */
			uint64_t key = seed % 3 == 0 ? (uint64_t)i % KEYS
						     : weir_random_below(&random, i % 2 == 0 ? 20 : KEYS);
			now += weir_random_below(&random, 2 * WEIR_NS_PER_MS);
			if (!take(quota, key, now))
				continue;
			given++;
			assert_for_seed(seed, model_may(&m, key, now, 1000));
			model_take(&m, key, now);
		}
		/* And somebody gets something: as much as the places allow, and at least what one key is due. */
		double seconds = (double)(now - START_NS) / 1e9;
		assert_for_seed(seed, (double)given <= (2 * places + 8) * (2 * seconds + 4));
		assert_for_seed(seed, (double)given >= 2 * seconds);
		assert_for_seed(seed, weir_quota_crowded(quota) > 0);
		free(m.full_at_ns);
		weir_quota_free(quota);
	}
}

/* A key over its quota cannot be washed out of the table by a flood of others that come once. */
static void a_flood_of_keys_does_not_reset_one(void **state)
{
	weir_quota *quota = make(1, 10, 1024);
	uint64_t now = START_NS;
	assert_int_equal(take_all(quota, 0, now), 10);
	for (uint64_t key = 1; key <= 200000; key++) {
		take(quota, key, now);
		if (key % 1000 == 0)
			assert_false(take(quota, 0, now));
	}
	assert_true(weir_quota_crowded(quota) > 0);
	weir_quota_free(quota);
}

/* What those who come once had is soon of no importance: newcomers are served as usual again. */
static void recovers_from_a_flood(void **state)
{
	weir_quota *quota = make(10, 2, 512);
	for (uint64_t key = 0; key < 100000; key++)
		take(quota, key, START_NS);
	assert_false(take(quota, 1000000, START_NS));
	uint64_t later = START_NS + 200 * WEIR_NS_PER_MS;
	for (uint64_t key = 2000000; key < 2000200; key++)
		assert_int_equal(take_all(quota, key, later), 2);
	weir_quota_free(quota);
}

static void a_million_keys_take_no_more_memory(void **state)
{
	weir_quota *quota = make(5, 5, 0);
	uint64_t allocations = weir_mem_count(), now = START_NS;
	for (uint64_t key = 0; key < 1000000; key++) {
		/* 100,000 a second: far from the 65,536 x 5 that can be remembered, so all are served. */
		now += 10000;
		if (!take(quota, key, now))
			fail_msg("key %" PRIu64 " was refused", key);
	}
	assert_int_equal(weir_mem_count(), allocations);
	assert_int_equal(weir_quota_crowded(quota), 0);
	weir_quota_free(quota);
}

/* As many keys in debt as were asked for, and none of them is forgotten. */
static void has_room_for_its_keys(void **state)
{
	enum { KEYS = 65536 };
	weir_quota *quota = make(1, 1, KEYS);
	for (uint64_t key = 0; key < KEYS; key++)
		assert_true(take(quota, key, START_NS));
	for (uint64_t key = 0; key < KEYS; key++)
		assert_false(take(quota, key, START_NS));
	assert_int_equal(weir_quota_crowded(quota), 0);
	weir_quota_free(quota);
}

/* ---- options ---- */

static void refuses_bad_options(void **state)
{
	static const struct {
		weir_quota_options options;
		const char *says;
	} cases[] = {
		{{.name = "q", .rate_per_s = 0}, "rate"},
		{{.name = "q", .rate_per_s = -1}, "rate"},
		{{.name = "q", .rate_per_s = NAN}, "rate"},
		{{.name = "q", .rate_per_s = INFINITY}, "rate"},
		{{.name = "q", .rate_per_s = 2e9}, "rate"},
		{{.name = "q", .rate_per_s = 1, .burst = 0.5}, "burst"},
		{{.name = "q", .rate_per_s = 1, .burst = -1}, "burst"},
		{{.name = "q", .rate_per_s = 1, .burst = NAN}, "burst"},
		{{.name = "q", .rate_per_s = 1, .burst = 2e9}, "burst"},
		{{.name = "q", .rate_per_s = 1e-6, .burst = 1e6}, "year"},
		{{.name = "q", .rate_per_s = 1, .keys = (1 << 24) + 1}, "keys"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		weir_quota *quota = NULL;
		assert_int_equal(weir_quota_new(&cases[i].options, &quota), -EINVAL);
		assert_null(quota);
		assert_non_null(strstr(weir_error(), cases[i].says));
		assert_non_null(strstr(weir_error(), "'q'"));
	}
}

static void survives_every_failed_allocation(void **state)
{
	weir_quota_options options = {.rate_per_s = 1};
	uint64_t live = weir_mem_live();
	int error = -ENOMEM;
	for (uint64_t nth = 1; error != 0; nth++) {
		weir_quota *quota = NULL;
		weir_mem_fail_after(nth);
		error = weir_quota_new(&options, &quota);
		weir_mem_fail_after(0);
		assert_true(error == 0 || (error == -ENOMEM && quota == NULL));
		weir_quota_free(quota);
		assert_int_equal(weir_mem_live(), live);
		assert_true(nth < 10);
	}
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 50000 };

static weir_quota *shared_quota;
static atomic_uint given_to[64];

static void *hammer(void *arg)
{
	weir_random random;
	weir_random_init(&random, (uint64_t)(uintptr_t)arg);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t key = weir_random_below(&random, 64);
		if (take(shared_quota, key, START_NS))
			atomic_fetch_add(&given_to[key], 1);
	}
	return NULL;
}

static void threads_share_a_quota(void **state)
{
	pthread_t threads[THREADS];
	shared_quota = make(1, 100, 4096);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 64; i++)
		assert_int_equal(atomic_load(&given_to[i]), 100);
	weir_quota_free(shared_quota);
}

/* ---- keys of clients ---- */

static size_t key_of(const char *text, uint8_t key[static 8])
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(5)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
	memset(key, 0, 8);
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return weir_quota_client_key((struct sockaddr *)&v4, key);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return weir_quota_client_key((struct sockaddr *)&v6, key);
}

static void clients_are_addresses_or_networks(void **state)
{
	uint8_t a[8], b[8];
	struct sockaddr local = {.sa_family = AF_UNIX};
	assert_int_equal(key_of("192.0.2.1", a), 4);
	assert_int_equal(key_of("::ffff:192.0.2.1", b), 4);
	assert_memory_equal(a, b, 8);
	key_of("192.0.2.2", b);
	assert_memory_not_equal(a, b, 8);
	assert_int_equal(key_of("2001:db8::1", a), 8);
	key_of("2001:db8::ffff:1:2:3", b);
	assert_memory_equal(a, b, 8);
	key_of("2001:db8:0:1::1", b);
	assert_memory_not_equal(a, b, 8);
	assert_int_equal(weir_quota_client_key(&local, a), 0);
	assert_int_equal(weir_quota_client_key(NULL, a), 0);
}

/* The vectors of the authors' paper and reference: key 00..0f, input 00, 01, ... */
static void hashes_as_published(void **state)
{
	const weir_siphash_key key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
	uint8_t input[64];
	for (int i = 0; i < 64; i++)
		input[i] = (uint8_t)i;
	assert_true(weir_siphash(&key, input, 0) == UINT64_C(0x726fdb47dd0e0e31));
	assert_true(weir_siphash(&key, input, 1) == UINT64_C(0x74f839c593dc67fd));
	assert_true(weir_siphash(&key, input, 8) == UINT64_C(0x93f5f5799a932462));
	assert_true(weir_siphash(&key, input, 15) == UINT64_C(0xa129ca6149be45e5));
	weir_siphash_key one, two;
	assert_int_equal(weir_siphash_key_init(&one), 0);
	assert_int_equal(weir_siphash_key_init(&two), 0);
	assert_true(one.k0 != two.k0 && one.k1 != two.k1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_as_published),
		cmocka_unit_test(gives_a_burst_and_then_the_rate),
		cmocka_unit_test(tells_when_to_come_again),
		cmocka_unit_test(the_burst_is_the_rate_unless_said),
		cmocka_unit_test(keys_are_bytes_of_any_length),
		cmocka_unit_test(time_may_step_back),
		cmocka_unit_test(works_at_extreme_rates),
		cmocka_unit_test(is_exact_while_there_is_room),
		cmocka_unit_test(never_gives_more_than_the_quota),
		cmocka_unit_test(a_flood_of_keys_does_not_reset_one),
		cmocka_unit_test(recovers_from_a_flood),
		cmocka_unit_test(a_million_keys_take_no_more_memory),
		cmocka_unit_test(has_room_for_its_keys),
		cmocka_unit_test(refuses_bad_options),
		cmocka_unit_test(survives_every_failed_allocation),
		cmocka_unit_test(threads_share_a_quota),
		cmocka_unit_test(clients_are_addresses_or_networks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
