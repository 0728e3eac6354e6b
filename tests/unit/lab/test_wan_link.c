/* SPDX-License-Identifier: Apache-2.0 */
/* The pure part of lab/wan: times of a link, its queue's bound, losses, and the order of what is due. */
#include "support/check.h"

#include <errno.h>

#include "wan/link.h"

#define MS UINT64_C(1000000)

/* 12 Mbit/s: a packet of 1500 bytes takes a millisecond. */
static wan_link link_of(uint32_t limit)
{
	wan_link link;
	assert_int_equal(wan_link_init(&link, 12e6, limit), 0);
	return link;
}

static void packets_leave_one_after_the_other(void **state)
{
	wan_link link = link_of(10);
	uint64_t left_ns;
	assert_true(wan_link_offer(&link, 5 * MS, 1500, &left_ns));
	assert_int_equal(left_ns, 6 * MS);
	assert_true(wan_link_offer(&link, 5 * MS, 750, &left_ns));
	assert_int_equal(left_ns, 6 * MS + MS / 2);
	/* The link was idle in between. */
	assert_true(wan_link_offer(&link, 20 * MS, 1500, &left_ns));
	assert_int_equal(left_ns, 21 * MS);
	wan_link_fini(&link);
}

static void a_full_queue_drops(void **state)
{
	wan_link link = link_of(3);
	uint64_t left_ns = 0;
	/* One is being sent, three wait. */
	for (unsigned i = 0; i < 4; i++)
		assert_true(wan_link_offer(&link, 0, 1500, &left_ns));
	assert_false(wan_link_offer(&link, 0, 1500, &left_ns));
	assert_false(wan_link_offer(&link, MS - 1, 40, &left_ns));
	assert_int_equal(left_ns, 4 * MS);
	/* The second begins: there is room for one. */
	assert_true(wan_link_offer(&link, MS, 1500, &left_ns));
	assert_int_equal(left_ns, 5 * MS);
	assert_false(wan_link_offer(&link, MS, 1500, &left_ns));
	wan_link_fini(&link);
}

static void the_rate_is_exact(void **state)
{
	/* 7 bytes at 3 Mbit/s are no whole number of nanoseconds; nothing adds up over a million of them. */
	wan_link link;
	uint64_t left_ns = 0;
	assert_int_equal(wan_link_init(&link, 3e6, 10), 0);
	for (unsigned i = 0; i < 1000000; i++)
		assert_true(wan_link_offer(&link, left_ns, 7, &left_ns));
	double expected_ns = 1e6 * 7 * 8 / 3e6 * 1e9;
	assert_true((double)left_ns > expected_ns * 0.9999 && (double)left_ns < expected_ns * 1.0001);
	wan_link_fini(&link);
}

static void without_a_rate_nothing_waits(void **state)
{
	wan_link link;
	uint64_t left_ns = 0;
	assert_int_equal(wan_link_init(&link, 0, 1), 0);
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(wan_link_offer(&link, 77, 1500, &left_ns));
		assert_int_equal(left_ns, 77);
	}
	wan_link_fini(&link);
}

static void wrong_links_are_refused(void **state)
{
	wan_link link;
	wan_line line;
	assert_int_equal(wan_link_init(&link, -1, 10), -EINVAL);
	assert_int_equal(wan_link_init(&link, 1e6, 0), -EINVAL);
	assert_int_equal(wan_link_init(&link, 1e6, WAN_QUEUE_MAX + 1), -EINVAL);
	assert_int_equal(wan_line_init(&line, 0), -EINVAL);
}

static void losses(void **state)
{
	weir_random random;
	unsigned lost = 0;
	const wan_path none = {0, 0}, all = {0, 1}, some = {0, 0.05};
	weir_random_init(&random, 3);
	for (unsigned i = 0; i < 100000; i++) {
		assert_false(wan_path_loses(&none, &random));
		assert_true(wan_path_loses(&all, &random));
		lost += wan_path_loses(&some, &random);
	}
	/* Five standard deviations. */
	assert_in_range(lost, 5000 - 345, 5000 + 345);
}

static void packets_are_taken_when_due(void **state)
{
	wan_line line;
	wan_due due;
	assert_int_equal(wan_line_init(&line, 4), 0);
	assert_int_equal(wan_line_next(&line), UINT64_MAX);
	assert_false(wan_line_take(&line, UINT64_MAX, &due));
	assert_true(wan_line_add(&line, 30, 3, 1));
	assert_true(wan_line_add(&line, 10, 1, 0));
	assert_true(wan_line_add(&line, 20, 2, 0));
	assert_true(wan_line_add(&line, 10, 4, 1));
	assert_false(wan_line_add(&line, 1, 5, 0));
	assert_int_equal(wan_line_next(&line), 10);
	assert_false(wan_line_take(&line, 9, &due));
	/* Of two that are due at the same time, the first that was added. */
	static const unsigned slots[] = {1, 4, 2, 3};
	for (unsigned i = 0; i < 4; i++) {
		assert_true(wan_line_take(&line, 30, &due));
		assert_int_equal(due.slot, slots[i]);
	}
	wan_line_fini(&line);
}

/* Whatever comes in whatever order: out by time, and none is lost. */
static void the_line_keeps_order(void **state)
{
	enum { MANY = 1000 };
	for (uint64_t seed = 1; seed <= 20; seed++) {
		weir_random random;
		wan_line line;
		wan_due due;
		uint64_t last_ns = 0, inside = 0, taken = 0, added = 0;
		weir_random_init(&random, seed);
		assert_int_equal(wan_line_init(&line, MANY), 0);
		for (unsigned i = 0; i < 5 * MANY; i++) {
			if (weir_random_below(&random, 5) < 3) {
				bool room =
					wan_line_add(&line, last_ns + weir_random_below(&random, 50), i, 0);
				assert_for_seed(seed, room == (inside < MANY));
				added += room;
				inside += room;
			} else if (wan_line_take(&line, UINT64_MAX, &due)) {
				assert_for_seed(seed, due.at_ns >= last_ns);
				last_ns = due.at_ns;
				taken++;
				inside--;
			}
		}
		for (; wan_line_take(&line, UINT64_MAX, &due); taken++, last_ns = due.at_ns)
			assert_for_seed(seed, due.at_ns >= last_ns);
		assert_for_seed(seed, taken == added);
		wan_line_fini(&line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_leave_one_after_the_other),
		cmocka_unit_test(a_full_queue_drops),
		cmocka_unit_test(the_rate_is_exact),
		cmocka_unit_test(without_a_rate_nothing_waits),
		cmocka_unit_test(wrong_links_are_refused),
		cmocka_unit_test(losses),
		cmocka_unit_test(packets_are_taken_when_due),
		cmocka_unit_test(the_line_keeps_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
