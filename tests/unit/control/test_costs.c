/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/random.h>

#include "base/mem.h"
#include "control/costs.h"
#include "control/costs_key.h"

#define MS   UINT64_C(1000000)
#define S    (1000 * MS)
#define GETS 1

static weir_costs_options options = {.key = {1, 2}};
static uint64_t now_ns;

static weir_costs *make(void)
{
	now_ns = 1000 * S;
	weir_costs *costs = weir_costs_new(&options);
	assert_non_null(costs);
	return costs;
}

static weir_cost_kind find(weir_costs *costs, const char *path, uint32_t *ret_cost)
{
	return weir_costs_find(costs, 7, GETS, path, strlen(path), ret_cost);
}

static uint32_t cost(weir_costs *costs, const char *path)
{
	uint32_t us;
	find(costs, path, &us);
	return us;
}

static void answer(weir_costs *costs, const char *path, uint64_t took_ns, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		uint32_t us;
		weir_cost_kind kind = find(costs, path, &us);
		now_ns += MS;
		weir_costs_learn(costs, kind, took_ns, 1, now_ns);
	}
}

/* Whether there is a kind or prefix of this folded path. */
static bool is_there(const weir_costs *costs, const char *path, weir_costs_sort sort, weir_costs_view *ret)
{
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		if (weir_costs_view_at(costs, at, now_ns, ret) && ret->sort == sort &&
		    strcmp(ret->path, path) == 0)
			return true;
	return false;
}

static unsigned count_kinds(const weir_costs *costs)
{
	weir_costs_view view;
	unsigned count = 0;
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		count += weir_costs_view_at(costs, at, now_ns, &view) && view.sort == WEIR_COSTS_KIND;
	return count;
}

static void assert_near(uint64_t got, uint64_t wanted, double part)
{
	double low = (double)wanted * (1 - part), high = (double)wanted * (1 + part);
	if ((double)got < low || (double)got > high)
		fail_msg("%llu is not near %llu", (unsigned long long)got, (unsigned long long)wanted);
}

/* ---- keys ---- */

/* SipHash-1-3 of the bytes 0, 1, 2 ... with the key 0 to 15; the first is that of the reference's vectors. */
static void the_hash_is_siphash(void **state)
{
	static const uint64_t wanted[] = {UINT64_C(0xabac0158050fc4dc), UINT64_C(0x369095118d299a8e),
					  UINT64_C(0xc1d2363299e41531)};
	static const size_t counts[] = {0, 1, 5};
	weir_siphash_key key;
	uint8_t bytes[40];
	uint64_t words[5];
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	memcpy(&key, bytes, sizeof(key));
	memcpy(words, bytes, sizeof(words));
	for (unsigned i = 0; i < 3; i++)
		assert_true(weir_siphash_words(&key, words, counts[i]) == wanted[i]);
}

static void paths_are_folded(void **state)
{
	static const char *const table[][2] = {
		{"/", "/"},
		{"", "/"},
		{"*", "/*"},
		{"/a", "/a"},
		{"/a/", "/a"},
		{"//a///b", "/a/b"},
		{"/a?x=1", "/a"},
		{"/a/?x=/b/c", "/a"},
		{"/a#b", "/a"},
		{"/a;v=1/b;w", "/a/b"},
		{"/users/123", "/users/*"},
		{"/users/123/posts/45", "/users/*/posts/*"},
		{"/v1/users", "/v1/users"},
		{"/2024-01-05/x", "/*/x"},
		{"/10.0.0.1", "/*"},
		{"/-5", "/-5"},
		{"/3.6.0", "/*"},
		{"/deadbee1", "/*"},
		{"/DEADBEE1/x", "/*/x"},
		{"/deadbee", "/deadbee"},
		{"/facade12", "/*"},
		{"/123e4567-e89b-12d3-a456-426614174000", "/*"},
		{"/123e4567-e89b-12d3-a456-42661417400g", "/123e4567-e89b-12d3-a456-42661417400g"},
		{"/t/V1StGXR8_Z5jdHi6B-myT", "/t/*"},
		{"/t/dGhpcyBpcyBh4IHRva2VuMTI=", "/t/*"},
		{"/t/k57qf1h3m9x2c4v8", "/t/*"},
		{"/news/a-long-title-of-2024", "/news/a-long-title-of-2024"},
		{"/static/jquery-3.6.0.min.js", "/static/jquery-3.6.0.min.js"},
		{"/internationalisation", "/internationalisation"},
		{"/a b/\"c\\", "/a!b/!c!"},
		{"/\x01\xff", "/!!"},
		{"/a/b/c/d/e/f/g/h", "/a/b/c/d/e/f/g/h"},
		{"/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h/.."},
		{"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "aaa",
		 "/.."},
		{"/x/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/"
		 "c",
		 "/x/.."},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		weir_cost_key key;
		weir_cost_key_fold(&key, 0, 0, table[i][0], strlen(table[i][0]));
		if (key.length != strlen(table[i][1]) || memcmp(key.text, table[i][1], key.length) != 0)
			fail_msg("%s is %.*s", table[i][0], key.length, key.text);
	}
}

static void a_path_of_a_nul_is_a_path(void **state)
{
	weir_cost_key key;
	weir_cost_key_fold(&key, 0, 0, "/a\0b/1", 6);
	assert_int_equal(key.length, 6);
	assert_memory_equal(key.text, "/a!b/*", 6);
}

static void a_star_takes_the_place_of_a_segment(void **state)
{
	weir_cost_key key;
	weir_cost_key_fold(&key, 0, 0, "/one/two/three", 14);
	weir_cost_key_split(&key);
	weir_cost_key_star(&key, 1);
	assert_int_equal(key.length, 12);
	assert_memory_equal(key.text, "/one/*/three", 12);
	weir_cost_key_star(&key, 2);
	weir_cost_key_star(&key, 0);
	assert_int_equal(key.length, 6);
	assert_memory_equal(key.text, "/*/*/*", 6);
}

/* ---- learning ---- */

static void kinds_are_learnt_apart(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	assert_int_equal(cost(costs, "/quick"), 0);
	for (int i = 0; i < 20; i++) {
		answer(costs, "/quick", 2 * MS, 1);
		answer(costs, "/slow/17", 300 * MS, 1);
	}
	assert_near(cost(costs, "/quick?x=1"), 2000, .05);
	assert_near(cost(costs, "/slow/18"), 300000, .05);
	assert_true(is_there(costs, "/slow/*", WEIR_COSTS_KIND, &view));
	assert_int_equal(view.count, 19); /* the first was counted by the route */
	assert_near(view.expected_ns, 300 * MS, .05);
	assert_true(view.confidence > .6 && view.work_ns > 5e9);
	/* Another method, another route: not the same. */
	uint32_t us;
	weir_costs_find(costs, 8, GETS, "/quick", 6, &us);
	assert_int_equal(us, 0);
	weir_costs_free(costs);
}

static void an_unknown_kind_costs_what_its_prefix_does(void **state)
{
	weir_costs *costs = make();
	uint32_t us;
	answer(costs, "/api/report", 500 * MS, 40);
	answer(costs, "/page", 10 * MS, 400);
	assert_near(cost(costs, "/api/other"), 500000, .1);
	uint32_t root = cost(costs, "/unknown");
	assert_true(root > 10000 && root < 500000);
	weir_costs_find(costs, 7, 2, "/page", 5, &us); /* another method: the route's */
	assert_true(us > 10000 && us < 500000);
	weir_costs_free(costs);
}

static bool is_own(weir_costs *costs, const char *path)
{
	uint32_t us;
	return weir_costs_is_own(costs, find(costs, path, &us));
}

/* A guess is told from what is known: until there are answers enough, and where a prefix stands in. */
static void a_guess_is_told_from_what_is_known(void **state)
{
	weir_costs *costs = make();
	assert_false(weir_costs_is_own(costs, (weir_cost_kind){0}));
	assert_false(is_own(costs, "/shop/a"));
	answer(costs, "/shop/a", 10 * MS, WEIR_COSTS_TRUSTED + 1);
	assert_true(is_own(costs, "/shop/a"));
	assert_int_not_equal(cost(costs, "/shop/b"), 0);
	assert_false(is_own(costs, "/shop/b"));
	answer(costs, "/shop/b", 90 * MS, WEIR_COSTS_TRUSTED + 1);
	assert_true(is_own(costs, "/shop/b"));
	weir_costs_free(costs);
}

static void what_may_have_queued_teaches_nothing(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	uint32_t us;
	answer(costs, "/a", 10 * MS, 20);
	for (int i = 0; i < 100; i++)
		weir_costs_learn(costs, find(costs, "/a", &us), 900 * MS, 0, now_ns);
	assert_near(cost(costs, "/a"), 10000, .01);
	assert_true(weir_costs_view_of(costs, find(costs, "/a", &us), now_ns, &view));
	assert_int_equal(view.count, 119);
	assert_true(view.work_ns < 2e9); /* not the time spent queueing */
	weir_costs_free(costs);
}

static void one_outlier_does_not_matter(void **state)
{
	weir_costs *costs = make();
	answer(costs, "/a", 10 * MS, 50);
	answer(costs, "/a", 10 * S, 1);
	assert_near(cost(costs, "/a"), 10000, .05);
	answer(costs, "/a", 10 * MS, 20);
	answer(costs, "/a", 1000, 1);
	assert_near(cost(costs, "/a"), 10000, .08);
	weir_costs_free(costs);
}

static void the_first_may_be_slow(void **state)
{
	weir_costs *costs = make();
	answer(costs, "/a", 2 * S, 2);
	answer(costs, "/a", 10 * MS, 6);
	assert_near(cost(costs, "/a"), 10000, .1);
	weir_costs_free(costs);
}

static void a_change_is_followed_both_ways(void **state)
{
	weir_costs *costs = make();
	answer(costs, "/a", 10 * MS, 100);
	answer(costs, "/a", 80 * MS, 8);
	assert_near(cost(costs, "/a"), 80000, .05);
	answer(costs, "/a", 10 * MS, 120);
	assert_near(cost(costs, "/a"), 10000, .3);
	answer(costs, "/a", 13 * MS, 100);
	assert_near(cost(costs, "/a"), 13000, .1);
	weir_costs_free(costs);
}

/* One in twenty takes a hundred times as long, by the same path: the mean is what it costs, the typical time what most take. */
static void a_mixed_kind_costs_its_mean(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	weir_random rng;
	weir_random_init(&rng, 5);
	double sum = 0;
	for (int i = 0; i < 4000; i++) {
		bool is_long = weir_random_unit(&rng) < .05;
		answer(costs, "/a", is_long ? 1000 * MS : 10 * MS, 1);
		sum += i >= 2000 ? cost(costs, "/a") : 0;
	}
	assert_near((uint64_t)(sum / 2000), 59500, .3);
	assert_true(is_there(costs, "/a", WEIR_COSTS_KIND, &view));
	assert_near(view.typical_ns, 10 * MS, .2);
	weir_costs_free(costs);
}

static void the_p90_is_one(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	weir_random rng;
	weir_random_init(&rng, 6);
	double sum = 0, mean = 0;
	for (int i = 0; i < 5000; i++) {
		answer(costs, "/a", (uint64_t)(weir_random_unit(&rng) * 100 * (double)MS), 1);
		if (i >= 1000 && is_there(costs, "/a", WEIR_COSTS_KIND, &view)) {
			sum += (double)view.p90_ns;
			mean += (double)view.expected_ns;
		}
	}
	assert_near((uint64_t)(sum / 4000), 90 * MS, .1);
	assert_near((uint64_t)(mean / 4000), 50 * MS, .1);
	weir_costs_free(costs);
}

static void a_report_weighs_more(void **state)
{
	weir_costs *costs = make();
	uint32_t us;
	answer(costs, "/a", 10 * MS, 2);
	weir_cost_kind kind = find(costs, "/a", &us);
	weir_costs_learn(costs, kind, 20 * MS, 8, now_ns);
	assert_near(cost(costs, "/a"), 19000, .1);
	weir_costs_learn(costs, kind, 20 * MS, 1000000, now_ns);
	assert_near(cost(costs, "/a"), 20000, .1);
	weir_costs_free(costs);
}

static void one_may_stand_for_many(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view, route;
	uint32_t us;
	answer(costs, "/a", 10 * MS, 101);
	assert_true(is_there(costs, "", WEIR_COSTS_ROUTE, &route));
	for (int i = 0; i < 10; i++)
		weir_costs_learn_drawn(costs, find(costs, "/a", &us), 10 * MS, 1, 16, now_ns);
	assert_true(is_there(costs, "/a", WEIR_COSTS_KIND, &view));
	assert_int_equal(view.count, 260);
	assert_near((uint64_t)view.work_ns, 2600 * MS, .01);
	assert_false(weir_costs_is_due(costs, find(costs, "/a", &us), now_ns));
	assert_true(weir_costs_is_due(costs, find(costs, "/a", &us), now_ns + WEIR_COSTS_DUE_NS));
	assert_false(weir_costs_is_due(costs, (weir_cost_kind){0}, now_ns));
	answer(costs, "/new", MS, 3);
	assert_true(weir_costs_is_due(costs, find(costs, "/new", &us), now_ns));
	assert_true(is_there(costs, "", WEIR_COSTS_ROUTE, &route));
	for (int i = 0; i < 10; i++)
		weir_costs_learn_drawn(costs, find(costs, "/a", &us), 10 * MS, 1, 16, now_ns);
	uint64_t before = route.count;
	assert_true(is_there(costs, "", WEIR_COSTS_ROUTE, &route));
	assert_int_equal(route.count, before + 160);
	weir_costs_free(costs);
}

static void extreme_times_are_survived(void **state)
{
	weir_costs *costs = make();
	answer(costs, "/a", UINT64_MAX, 50);
	assert_int_equal(cost(costs, "/a"), 4000000000u);
	answer(costs, "/b", 0, 50);
	assert_int_equal(cost(costs, "/b"), 1);
	now_ns = 5;
	answer(costs, "/b", 7 * MS, 100);
	assert_near(cost(costs, "/b"), 7000, .1);
	weir_costs_free(costs);
}

/* After a long silence a few answers outweigh what was known. */
static void what_is_old_gives_way(void **state)
{
	weir_costs *costs = make();
	answer(costs, "/a", 10 * MS, 100);
	now_ns += 3600 * S;
	answer(costs, "/a", 5 * MS, 12);
	assert_true(cost(costs, "/a") < 6500);
	weir_costs_free(costs);
}

static void recent_paths_are_found_the_same(void **state)
{
	static weir_costs_recent recent;
	weir_costs *costs = make();
	weir_random random;
	weir_random_init(&random, 3);
	memset(&recent, 0, sizeof(recent));
	for (int i = 0; i < 20000; i++) {
		char path[128];
		uint32_t us, other;
		bool own;
		int pad = (int)weir_random_below(&random, 60);
		uint8_t method = (uint8_t)weir_random_below(&random, 2);
		snprintf(path, sizeof(path), "/%.*s%c/%d", pad,
			 "longlonglonglonglonglonglonglonglonglonglonglonglonglong",
			 'a' + (char)weir_random_below(&random, 26), (int)weir_random_below(&random, 4));
		uint32_t route = (uint32_t)weir_random_below(&random, 2);
		weir_cost_kind kind =
			weir_costs_find_recent(costs, &recent, route, method, path, strlen(path), &us, &own);
		assert_int_equal(own, weir_costs_is_own(costs, kind));
		weir_cost_kind again = weir_costs_find(costs, route, method, path, strlen(path), &other);
		/* The first may have found it no place, which the second then did. */
		if (kind.at == again.at && kind.generation == again.generation)
			assert_int_equal(us, other);
		else
			assert_true(us == 0 || other != 0);
		now_ns += MS;
		weir_costs_learn(costs, again, (uint64_t)(pad + 1) * MS, 1, now_ns);
	}
	weir_costs_free(costs);
}

/* ---- many children ---- */

static void children_are_folded_once_they_are_many(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	char path[32];
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "/u/name%c", 'a' + i);
		answer(costs, path, 10 * MS, 6);
	}
	assert_true(is_there(costs, "/u/namea", WEIR_COSTS_KIND, &view));
	for (int i = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "/u/other%c%c", 'a' + i % 26, 'a' + i / 26);
		answer(costs, path, 10 * MS, 6);
	}
	assert_true(is_there(costs, "/u/*", WEIR_COSTS_KIND, &view));
	assert_near(view.expected_ns, 10 * MS, .1);
	assert_false(is_there(costs, "/u/namea", WEIR_COSTS_KIND, &view));
	assert_true(count_kinds(costs) < 5);
	assert_near(cost(costs, "/u/nobody"), 10000, .1);
	weir_costs_free(costs);
}

static void inner_segments_are_folded_too(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	char path[48];
	for (int i = 0; i < 80; i++) {
		snprintf(path, sizeof(path), "/u/o%c%c/settings", 'a' + i % 26, 'a' + i / 26);
		answer(costs, path, 10 * MS, 4);
		snprintf(path, sizeof(path), "/u/o%c%c/report", 'a' + i % 26, 'a' + i / 26);
		answer(costs, path, 400 * MS, 4);
	}
	assert_true(is_there(costs, "/u/*/settings", WEIR_COSTS_KIND, &view));
	assert_near(view.expected_ns, 10 * MS, .1);
	assert_true(is_there(costs, "/u/*/report", WEIR_COSTS_KIND, &view));
	assert_near(view.expected_ns, 400 * MS, .1);
	assert_true(count_kinds(costs) < 6);
	weir_costs_free(costs);
}

/* Forty pages, one of them expensive: it keeps its name, and folding the others loses nothing. */
static void what_stands_out_keeps_its_name(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	char path[32];
	answer(costs, "/p/report", 800 * MS, 40);
	for (int i = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "/p/page%c%c", 'a' + i % 26, 'a' + i / 26);
		answer(costs, path, 10 * MS, 12);
		answer(costs, "/p/report", 800 * MS, 1);
	}
	assert_true(is_there(costs, "/p/report", WEIR_COSTS_KIND, &view));
	assert_near(cost(costs, "/p/report"), 800000, .1);
	assert_near(cost(costs, "/p/pageaa"), 10000, .2);
	weir_costs_free(costs);
}

/* ---- places ---- */

static void what_comes_once_gets_no_place(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view = {0};
	answer(costs, "/once", 10 * MS, 1);
	assert_int_equal(count_kinds(costs), 0);
	assert_true(is_there(costs, "", WEIR_COSTS_ROUTE, &view)); /* the route has learnt of it */
	assert_int_equal(view.count, 1);
	weir_costs_free(costs);
}

/* ok: the service answers them well, as a single page application does. */
static void flood(weir_costs *costs, weir_random *rng, unsigned count, unsigned times, bool ok)
{
	char path[64];
	for (unsigned i = 0; i < count; i++) {
		static const char *const tops[] = {"", "/api", "/u", "/x/y"};
		snprintf(path, sizeof(path), "%s/z%c%c%c%c%c", tops[weir_random_below(rng, 4)],
			 'a' + (char)weir_random_below(rng, 26), 'g' + (char)weir_random_below(rng, 20),
			 'g' + (char)weir_random_below(rng, 20), 'g' + (char)weir_random_below(rng, 20),
			 'g' + (char)weir_random_below(rng, 20));
		for (unsigned n = 0; n < times; n++) {
			uint32_t us;
			weir_cost_kind kind = find(costs, path, &us);
			if (ok)
				weir_costs_learn(costs, kind, MS, 1, now_ns);
		}
	}
}

static void known_kinds_survive_a_flood(void **state)
{
	for (int ok = 0; ok < 2; ok++) {
		for (unsigned times = 1; times <= 3; times++) {
			weir_costs *costs = make();
			weir_random rng;
			uint64_t before = weir_mem_live();
			char path[32];
			weir_random_init(&rng, times);
			for (int i = 0; i < 24; i++) {
				snprintf(path, sizeof(path), "/api/real%c", 'a' + i);
				answer(costs, path, (uint64_t)(10 + 40 * i) * MS, 40);
			}
			/* A hundred and more of theirs for each of ours. */
			for (int round = 0; round < 100; round++) {
				flood(costs, &rng, 3000 / times, times, ok != 0);
				for (int i = 0; i < 24; i++) {
					snprintf(path, sizeof(path), "/api/real%c", 'a' + i);
					answer(costs, path, (uint64_t)(10 + 40 * i) * MS, 1);
				}
			}
			unsigned right = 0;
			for (int i = 0; i < 24; i++) {
				snprintf(path, sizeof(path), "/api/real%c", 'a' + i);
				uint32_t us = cost(costs, path), wanted = (10 + 40 * (uint32_t)i) * 1000;
				right += us > wanted * 8 / 10 && us < wanted * 12 / 10;
			}
			if (right < 24)
				fail_msg("ok %d, times %u: %u of 24 known", ok, times, right);
			assert_int_equal(weir_mem_live(), before);
			weir_costs_free(costs);
		}
	}
}

static void a_handle_goes_stale_without_harm(void **state)
{
	options.places = 64;
	weir_costs *costs = make();
	weir_costs_view view;
	uint32_t us;
	char path[32];
	answer(costs, "/a", 10 * MS, 2);
	weir_cost_kind kind = find(costs, "/a", &us);
	for (int i = 0; i < 2000; i++) {
		snprintf(path, sizeof(path), "/k%c%c/x%c", 'g' + i % 20, 'g' + i / 20 % 20, 'g' + i / 400);
		answer(costs, path, MS, 9);
	}
	assert_false(weir_costs_view_of(costs, kind, now_ns, &view));
	weir_costs_learn(costs, kind, 900 * S, 1, now_ns);
	weir_costs_learn(costs, (weir_cost_kind){0}, 900 * S, 1, now_ns);
	weir_costs_learn(costs, (weir_cost_kind){77777, 1}, 900 * S, 1, now_ns);
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		if (weir_costs_view_at(costs, at, now_ns, &view))
			assert_true(view.p90_ns < S);
	weir_costs_free(costs);
	options.places = 0;
}

/* ---- keeping ---- */

static void what_was_learnt_is_taken_over(void **state)
{
	weir_costs *costs = make();
	weir_costs_view view;
	char text[WEIR_COSTS_LINE], path[32];
	answer(costs, "/slow/1", 300 * MS, 30);
	for (int i = 0; i < 60; i++) {
		snprintf(path, sizeof(path), "/u/o%c%c", 'a' + i % 26, 'a' + i / 26);
		answer(costs, path, 10 * MS, 6);
	}
	options.key.k0 = 99; /* a successor has a key of its own */
	weir_costs *next = weir_costs_new(&options);
	options.key.k0 = 1;
	unsigned lines = 0;
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		if (weir_costs_save(costs, at, now_ns, text)) {
			assert_int_equal(weir_costs_load(next, text, now_ns), 0);
			lines++;
		}
	assert_true(lines >= 5);
	assert_near(cost(next, "/slow/2"), 300000, .05);
	assert_near(cost(next, "/u/somebody"), 10000, .1);
	assert_near(cost(next, "/slow"), cost(costs, "/slow"), .05); /* small changes are not written */
	assert_true(is_there(next, "/slow/*", WEIR_COSTS_KIND, &view));
	assert_int_equal(view.count, 29);
	answer(next, "/u/nobody", 10 * MS, 6);
	assert_false(is_there(next, "/u/nobody", WEIR_COSTS_KIND, &view));
	weir_costs_free(next);
	weir_costs_free(costs);
}

static void hostile_text_is_harmless(void **state)
{
	static const char good[] = "1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*";
	static const char *const bad[] = {
		"",
		"1",
		"2 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 3 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 256 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 33 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 32 100 nan 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 32 100 inf 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 32 100 -1 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 32 100 1e99 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/*",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 1 0 0 /a/*",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/1",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 a",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a//b",
		"1 1 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a",
		"1 2 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 -",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a x",
		"1 0 7 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /\x01",
	};
	weir_costs *costs = make();
	weir_costs_view view;
	char text[4096];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (weir_costs_load(costs, bad[i], now_ns) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(weir_costs_load(costs, text, now_ns), -EINVAL);
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		assert_false(weir_costs_view_at(costs, at, now_ns, &view));
	assert_int_equal(weir_costs_load(costs, good, now_ns), 0);
	assert_int_equal(cost(costs, "/a/1"), 10000);
	/* As much as one likes: there is only so much room. */
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "1 0 %u 1 32 100 1e7 0 1e6 1.2e7 0 1e9 3 0 0 0 /a/b", i);
		int result = weir_costs_load(costs, text, now_ns);
		assert_true(result == 0 || result == -ENOSPC);
	}
	assert_int_equal(cost(costs, "/a/1"), 10000);
	weir_costs_free(costs);
}

static void no_memory_is_no_table(void **state)
{
	uint64_t before = weir_mem_live();
	for (uint64_t nth = 1; nth <= 4; nth++) {
		weir_mem_fail_after(nth);
		assert_null(weir_costs_new(&options));
	}
	weir_mem_fail_after(0);
	assert_int_equal(weir_mem_live(), before);
	weir_costs_free(NULL);
}

/* ---- threads ---- */

static void *use(void *arg)
{
	weir_costs *costs = arg;
	static _Atomic unsigned seeds;
	weir_random rng;
	weir_costs_view view;
	char path[64], text[WEIR_COSTS_LINE];
	weir_random_init(&rng, ++seeds);
	for (int i = 0; i < 20000; i++) {
		uint32_t us;
		bool flooding = i % 4 == 0;
		snprintf(path, sizeof(path), flooding ? "/f/%c%c%c" : "/real%c/x",
			 'g' + (char)weir_random_below(&rng, 20), 'g' + (char)weir_random_below(&rng, 20),
			 'g' + (char)weir_random_below(&rng, 20));
		weir_cost_kind kind = weir_costs_find(costs, 7, GETS, path, strlen(path), &us);
		weir_costs_learn(costs, kind, 5 * MS, 1, 1000 * S + (uint64_t)i * MS);
		if (i % 50 == 0) {
			uint32_t at = (uint32_t)weir_random_below(&rng, weir_costs_places(costs));
			if (weir_costs_view_at(costs, at, 1020 * S, &view))
				assert_true(view.path[0] == '/' || view.sort == WEIR_COSTS_ROUTE);
			weir_costs_save(costs, at, 1020 * S, text);
		}
	}
	return NULL;
}

static void threads_use_it_at_once(void **state)
{
	weir_costs *costs = make();
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, costs), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int c = 'g'; c < 'g' + 20; c++) {
		char path[16];
		snprintf(path, sizeof(path), "/real%c/x", c);
		assert_near(cost(costs, path), 5000, .05);
	}
	weir_costs_free(costs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_siphash),
		cmocka_unit_test(paths_are_folded),
		cmocka_unit_test(a_path_of_a_nul_is_a_path),
		cmocka_unit_test(a_star_takes_the_place_of_a_segment),
		cmocka_unit_test(kinds_are_learnt_apart),
		cmocka_unit_test(an_unknown_kind_costs_what_its_prefix_does),
		cmocka_unit_test(a_guess_is_told_from_what_is_known),
		cmocka_unit_test(what_may_have_queued_teaches_nothing),
		cmocka_unit_test(one_outlier_does_not_matter),
		cmocka_unit_test(the_first_may_be_slow),
		cmocka_unit_test(a_change_is_followed_both_ways),
		cmocka_unit_test(a_mixed_kind_costs_its_mean),
		cmocka_unit_test(the_p90_is_one),
		cmocka_unit_test(a_report_weighs_more),
		cmocka_unit_test(one_may_stand_for_many),
		cmocka_unit_test(extreme_times_are_survived),
		cmocka_unit_test(what_is_old_gives_way),
		cmocka_unit_test(recent_paths_are_found_the_same),
		cmocka_unit_test(children_are_folded_once_they_are_many),
		cmocka_unit_test(inner_segments_are_folded_too),
		cmocka_unit_test(what_stands_out_keeps_its_name),
		cmocka_unit_test(what_comes_once_gets_no_place),
		cmocka_unit_test(known_kinds_survive_a_flood),
		cmocka_unit_test(a_handle_goes_stale_without_harm),
		cmocka_unit_test(what_was_learnt_is_taken_over),
		cmocka_unit_test(hostile_text_is_harmless),
		cmocka_unit_test(no_memory_is_no_table),
		cmocka_unit_test(threads_use_it_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
