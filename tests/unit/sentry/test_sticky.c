/* SPDX-License-Identifier: Apache-2.0 */
/* Sticking: what is written, the same server for a key, few moves when servers come and go, and no server above its bound. */
#include "support/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/mix.h"
#include "sentry/balance.h"
#include "sentry/dns.h"
#include "sentry/sticky.h"

#define T0   (1000 * WEIR_NS_PER_S)
#define KEYS 4000u

typedef struct yard {
	weir_fleet fleet;
	weir_random random;
	weir_origin *at[8];
} yard;

static void yard_open(yard *y, uint32_t count)
{
	assert_int_equal(weir_fleet_init(&y->fleet), 0);
	weir_random_init(&y->random, 7);
	for (uint32_t i = 0; i < count; i++) {
		char url[64];
		snprintf(url, sizeof(url), "http://127.0.0.1:%u", 1000 + i);
		assert_int_equal(weir_origin_new(&(weir_origin_options){.url = url}, &y->at[i]), 0);
		assert_int_equal(weir_fleet_add(&y->fleet, y->at[i]), 0);
	}
}

static uint64_t key_at(unsigned i)
{
	return weir_mix((i + 1) * WEIR_MIX_STEP);
}

static weir_origin *home_of(yard *y, unsigned i)
{
	weir_origin *one = weir_fleet_pick_by_key(&y->fleet, &y->random, key_at(i), T0, NULL);
	assert_non_null(one);
	weir_origin_give(one);
	return one;
}

static void texts(void **state)
{
	weir_sticky sticky;
	static const char *const wrong[] = {"",           "cookie",       "cookie ",     "cookie a b",
					    "cookie a=b", "hash",         "hash moon",   "hash client x",
					    "hash path/", "hash header ", "hash cookie", "header a"};
	assert_int_equal(weir_sticky_read(NULL, &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_NOT);
	assert_int_equal(weir_sticky_read("cookie srv", &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_COOKIE);
	assert_string_equal(sticky.name, "srv");
	assert_int_equal(weir_sticky_read("hash client", &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_CLIENT);
	assert_int_equal(weir_sticky_read("hash path", &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_PATH);
	assert_int_equal(weir_sticky_read("hash header X-User", &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_HEADER);
	assert_string_equal(sticky.name, "X-User");
	assert_int_equal(weir_sticky_read("hash cookie sid", &sticky), 0);
	assert_int_equal(sticky.kind, WEIR_STICKY_BY_COOKIE);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(weir_sticky_read(wrong[i], &sticky), -EINVAL);
}

static void name_servers(void **state)
{
	struct sockaddr_in server;
	assert_true(weir_dns_read_server("127.0.0.1", &server));
	assert_int_equal(ntohs(server.sin_port), 53);
	assert_true(weir_dns_read_server("127.0.0.1:8600", &server));
	assert_int_equal(ntohs(server.sin_port), 8600);
	assert_false(weir_dns_read_server("", &server));
	assert_false(weir_dns_read_server("name:53", &server));
	assert_false(weir_dns_read_server("127.0.0.1:0", &server));
	assert_false(weir_dns_read_server("127.0.0.1:99999", &server));
}

static void keys_stay_and_spread(void **state)
{
	yard y;
	weir_origin *homes[KEYS];
	unsigned counts[8] = {0}, moved = 0;
	yard_open(&y, 5);
	for (unsigned i = 0; i < KEYS; i++)
		counts[(homes[i] = home_of(&y, i))->index]++;
	for (unsigned i = 0; i < KEYS; i++)
		assert_ptr_equal(home_of(&y, i), homes[i]);
	for (unsigned i = 0; i < 5; i++)
		assert_in_range(counts[i], KEYS / 5 * 8 / 10, KEYS / 5 * 12 / 10);
	/* One is down: only its keys move. */
	atomic_store(&y.at[2]->shared.down, true);
	for (unsigned i = 0; i < KEYS; i++) {
		weir_origin *now = home_of(&y, i);
		assert_ptr_not_equal(now, y.at[2]);
		moved += now != homes[i];
	}
	assert_int_equal(moved, counts[2]);
	weir_fleet_fini(&y.fleet);
}

static void no_server_is_far_above_the_mean(void **state)
{
	yard y;
	weir_origin *taken[400];
	yard_open(&y, 4);
	for (unsigned i = 0; i < 400; i++) {
		taken[i] = weir_fleet_pick_by_key(&y.fleet, &y.random, key_at(0), T0, NULL);
		assert_non_null(taken[i]);
		uint32_t sum = 0;
		for (unsigned j = 0; j < 4; j++)
			sum += weir_origin_in_flight(y.at[j]);
		assert_true(weir_origin_in_flight(taken[i]) <= 1 + 1.25 * sum / 4);
	}
	for (unsigned i = 0; i < 400; i++)
		weir_origin_give(taken[i]);
	weir_fleet_fini(&y.fleet);
}

/* One that has just joined gets few of its keys at first; the rest stays where it was. */
static void who_joins_gets_keys_slowly(void **state)
{
	yard y;
	unsigned few = 0, all = 0;
	yard_open(&y, 4);
	for (unsigned i = 0; i < KEYS; i++)
		all += home_of(&y, i) == y.at[3];
	atomic_store(&y.at[3]->shared.recovered_ns, T0);
	for (unsigned i = 0; i < KEYS; i++)
		few += home_of(&y, i) == y.at[3];
	assert_in_range(few, all / 20, all / 5);
	weir_fleet_fini(&y.fleet);
}

static void the_named_one_if_it_is_fit(void **state)
{
	yard y;
	yard_open(&y, 3);
	assert_ptr_equal(weir_fleet_pick_named(&y.fleet, y.at[1]->hash, T0, NULL), y.at[1]);
	assert_int_equal(weir_origin_in_flight(y.at[1]), 1);
	weir_origin_give(y.at[1]);
	assert_null(weir_fleet_pick_named(&y.fleet, y.at[1]->hash, T0, y.at[1]));
	assert_null(weir_fleet_pick_named(&y.fleet, 12345, T0, NULL));
	assert_null(weir_fleet_pick_named(&y.fleet, 0, T0, NULL));
	atomic_store(&y.at[1]->shared.down, true);
	assert_null(weir_fleet_pick_named(&y.fleet, y.at[1]->hash, T0, NULL));
	weir_fleet_fini(&y.fleet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(name_servers),
		cmocka_unit_test(keys_stay_and_spread),
		cmocka_unit_test(no_server_is_far_above_the_mean),
		cmocka_unit_test(who_joins_gets_keys_slowly),
		cmocka_unit_test(the_named_one_if_it_is_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
