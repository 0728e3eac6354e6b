/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <errno.h>
#include <math.h>

#include <weir/random.h>

#include "base/mem.h"
#include "load/figures.h"
#include "load/tally.h"

enum { CLASSES = 3, PATHS = 2, SECONDS = 10 };

static uint64_t ended(const load_group *group)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < LOAD_ENDS; i++)
		sum += group->ended[i];
	return sum;
}

/* A random request, in a random order of ends; returns whether it ended. */
static bool draw_request(weir_random *random, load_tally *tally)
{
	unsigned klass = (unsigned)weir_random_below(random, CLASSES);
	unsigned path = (unsigned)weir_random_below(random, PATHS);
	uint64_t meant_ns = weir_random_below(random, 12 * WEIR_NS_PER_S);
	uint64_t sent_ns = meant_ns + weir_random_below(random, 2 * WEIR_NS_PER_MS);
	load_tally_sent(tally, klass, path, meant_ns, sent_ns);
	if (weir_random_below(random, 3) == 0) {
		load_tally_connected(tally, WEIR_NS_PER_MS);
		load_tally_connected_for(tally, klass, path, WEIR_NS_PER_MS);
	}
	if (weir_random_below(random, 10) == 0)
		return false;
	static const unsigned status[LOAD_ENDS] = {200, 503, 500, 0, 0};
	load_end end = (load_end)weir_random_below(random, LOAD_ENDS);
	load_tally_ended(tally,
			 &(load_result){.end = end,
					.error = end == LOAD_ERROR ? LOAD_ERROR_STATUS : LOAD_ERROR_NONE,
					.klass = klass,
					.path = path,
					.status = status[end],
					.meant_ns = meant_ns,
					.first_byte_ns = sent_ns,
					.ended_ns = sent_ns + weir_random_below(random, WEIR_NS_PER_S),
					.bytes = 100});
	return true;
}

static uint64_t count_of(const load_spread *spread)
{
	return load_times_of_spread(spread).count;
}

/* First bytes and connections of classes and of paths are those of all. */
static void check_parts(const load_tally *tally, uint64_t seed)
{
	uint64_t first_bytes = 0, connects = 0;
	for (unsigned i = 0; i < CLASSES; i++) {
		first_bytes += count_of(&tally->klass[i].first_byte);
		connects += count_of(&tally->klass[i].connect);
	}
	assert_for_seed(seed, first_bytes == weir_hist_count(&tally->first_byte));
	assert_for_seed(seed, connects == weir_hist_count(&tally->connect) && connects == tally->connections);
	assert_for_seed(seed, count_of(&tally->path[0].first_byte) + count_of(&tally->path[1].first_byte) ==
				      first_bytes);
	assert_for_seed(seed,
			count_of(&tally->path[0].connect) + count_of(&tally->path[1].connect) == connects);
}

/* Whatever is counted, all = the sum of classes = the sum of paths = the sum of seconds, and sent = ends + open. */
static void check_sums(const load_tally *tally, uint64_t open, uint64_t seed)
{
	uint64_t sent = 0, ends = 0, good = 0, late = 0, by_second = 0, sum_ns = 0, statuses = 0;
	for (unsigned i = 0; i < CLASSES; i++) {
		sent += tally->klass[i].sent;
		ends += ended(&tally->klass[i]);
		good += tally->klass[i].good;
		late += tally->klass[i].late;
	}
	assert_for_seed(seed, sent == tally->all.sent && ends == ended(&tally->all));
	assert_for_seed(seed, good == tally->all.good && late == tally->all.late);
	assert_for_seed(seed, tally->path[0].sent + tally->path[1].sent == sent);
	assert_for_seed(seed, ended(&tally->path[0]) + ended(&tally->path[1]) == ends);
	sent = good = 0;
	for (unsigned i = 0; i < tally->seconds; i++) {
		sent += tally->second[i].sent;
		good += tally->second[i].good;
		sum_ns += tally->second[i].response_sum_ns;
		for (unsigned j = 0; j < LOAD_ENDS; j++)
			by_second += tally->second[i].ended[j];
	}
	for (unsigned i = 0; i < 600; i++)
		statuses += tally->status[i];
	assert_for_seed(seed, sent == tally->all.sent && by_second == ends && good == tally->all.good);
	assert_for_seed(seed, sum_ns == tally->all.response_sum_ns);
	assert_for_seed(seed, tally->all.sent == ends + open);
	assert_for_seed(seed, weir_hist_count(&tally->all.response) == tally->all.ended[LOAD_OK]);
	assert_for_seed(seed, weir_hist_count(&tally->shed_response) == tally->all.ended[LOAD_SHED]);
	assert_for_seed(seed, weir_hist_count(&tally->send_error) == tally->all.sent);
	assert_for_seed(seed, tally->errors[LOAD_ERROR_STATUS] == tally->all.ended[LOAD_ERROR]);
	assert_for_seed(seed, weir_hist_count(&tally->first_byte) == statuses);
	check_parts(tally, seed);
}

static void test_sums(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		static load_tally part[2], whole;
		weir_random random;
		uint64_t open = 0;
		weir_random_init(&random, seed);
		assert_int_equal(load_tally_init(&whole, CLASSES, PATHS, WEIR_NS_PER_S / 4, SECONDS), 0);
		for (unsigned i = 0; i < 2; i++) {
			uint64_t own = 0;
			assert_int_equal(
				load_tally_init(&part[i], CLASSES, PATHS, WEIR_NS_PER_S / 4, SECONDS), 0);
			for (unsigned j = 0; j < 500; j++)
				own += !draw_request(&random, &part[i]);
			check_sums(&part[i], own, seed);
			load_tally_open(&part[i], 12 * WEIR_NS_PER_S, own);
			load_tally_merge(&whole, &part[i]);
			open += own;
		}
		check_sums(&whole, open, seed);
		/* A live screen has no paths. */
		load_tally live;
		assert_int_equal(load_tally_init(&live, CLASSES, PATHS, WEIR_NS_PER_S / 4, SECONDS), 0);
		live.without_paths = true;
		load_tally_merge(&live, &whole);
		assert_for_seed(seed, live.all.sent == whole.all.sent && live.path[0].sent == 0);
		load_tally_fini(&live);
		assert_for_seed(seed, whole.open == open && whole.seconds == SECONDS);
		for (unsigned i = 0; i < 2; i++)
			load_tally_fini(&part[i]);
		load_tally_fini(&whole);
	}
}

static void count_ok(load_tally *tally, uint64_t meant_ms, uint64_t sent_ms, uint64_t ended_ms)
{
	load_tally_sent(tally, 0, 0, meant_ms * WEIR_NS_PER_MS, sent_ms * WEIR_NS_PER_MS);
	load_tally_ended(tally, &(load_result){.end = LOAD_OK,
					       .status = 200,
					       .meant_ns = meant_ms * WEIR_NS_PER_MS,
					       .first_byte_ns = ended_ms * WEIR_NS_PER_MS,
					       .ended_ns = ended_ms * WEIR_NS_PER_MS,
					       .bytes = 7});
}

/* What was sent late is late, and its time counts from when it was meant to be sent; the target includes its own limit. */
static void test_times(void **state)
{
	static load_tally tally;
	assert_int_equal(load_tally_init(&tally, 1, 1, 100 * WEIR_NS_PER_MS, 4), 0);
	count_ok(&tally, 0, 0, 100);
	count_ok(&tally, 500, 501, 601);
	count_ok(&tally, 900, 902, 1100);
	assert_int_equal(tally.all.late, 1);
	assert_int_equal(tally.all.good, 1);
	assert_int_equal(tally.all.bytes, 21);
	assert_int_equal(tally.all.response_max_ns, 200 * WEIR_NS_PER_MS);
	assert_int_equal(tally.all.response_sum_ns, 401 * WEIR_NS_PER_MS);
	assert_int_equal(tally.offered_late_ns_max, 2 * WEIR_NS_PER_MS);
	assert_int_equal(tally.seconds, 2);
	assert_int_equal(tally.second[0].sent, 3);
	assert_int_equal(tally.second[0].late, 1);
	assert_int_equal(tally.second[0].ended[LOAD_OK], 2);
	assert_int_equal(tally.second[1].ended[LOAD_OK], 1);
	assert_int_equal(tally.second[1].response_max_ns, 200 * WEIR_NS_PER_MS);
	load_tally_retried(&tally, 0, 0, 503);
	assert_int_equal(tally.all.retries, 1);
	assert_int_equal(tally.status[503], 1);
	load_tally_fini(&tally);
}

/* 3, 1 and 0 answers: (3 + 1)^2 / (3 * (9 + 1)). */
static void test_fairness(void **state)
{
	load_tally one, other;
	assert_int_equal(load_tally_init(&one, 1, 1, UINT64_MAX, SECONDS), 0);
	assert_int_equal(load_tally_init(&other, 1, 1, UINT64_MAX, SECONDS), 0);
	assert_true(isnan(load_fairness(&one)));
	one.users = 1;
	for (uint32_t answers = 0; answers < 3; answers++)
		load_tally_user(&one, answers);
	assert_true(load_fairness(&one) == 1);
	other.users = 2;
	load_tally_user(&other, 0);
	load_tally_merge(&one, &other);
	assert_float_equal(load_fairness(&one), 16. / 30, 1e-12);
	load_tally_fini(&one);
	load_tally_fini(&other);
}

static void test_no_memory(void **state)
{
	static load_tally tally;
	for (uint64_t nth = 1; nth <= 3; nth++) {
		weir_mem_fail_after(nth);
		assert_int_equal(load_tally_init(&tally, 1, 1, UINT64_MAX, 4), -ENOMEM);
	}
	/* Without a spread a second has no percentiles, and everything else. */
	assert_int_equal(load_tally_init(&tally, 1, 1, UINT64_MAX, 4), 0);
	weir_mem_fail_after(1);
	count_ok(&tally, 0, 0, 10);
	assert_null(tally.second[0].spread);
	assert_int_equal(tally.second[0].ended[LOAD_OK], 1);
	load_tally_fini(&tally);
}

/* How late the generator itself was: a millisecond is not counted, but it is the largest so far. */
static void the_generators_own_delay(void **state)
{
	load_tally one, all;
	assert_int_equal(load_tally_init(&one, 1, 1, UINT64_MAX, 2), 0);
	assert_int_equal(load_tally_init(&all, 1, 1, UINT64_MAX, 2), 0);
	load_tally_behind(&one, 1000000);
	assert_int_equal(one.behind, 0);
	assert_int_equal(one.behind_ns_max, 1000000);
	load_tally_behind(&one, 5000000);
	load_tally_behind(&one, 2000000);
	load_tally_behind(&all, 3000000);
	load_tally_merge(&all, &one);
	assert_int_equal(all.behind, 3);
	assert_int_equal(all.behind_ns_max, 5000000);
	load_tally_fini(&one);
	load_tally_fini(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_generators_own_delay),
		CHECK_TEST(test_sums),
		CHECK_TEST(test_times),
		CHECK_TEST(test_fairness),
		CHECK_TEST(test_no_memory),
	};
	return cmocka_run_group_tests_name("load_tally", tests, NULL, NULL);
}
