/* SPDX-License-Identifier: Apache-2.0 */
/* `batch`: requests that are refused before their visit, and servers that are slower than the test says. */
#include "police_beat.h"

/* What cannot pass at the visit any more is refused when it comes, and the batch passes without it. */
static void what_cannot_pass_is_refused_at_the_door(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "servers", "2", "delay[1]", "50ms");
	double bucket_s = ((weir_police *)b.state)->bucket_s[((weir_police *)b.state)->bucket_of[42]];
	unsigned fits = 2 * (unsigned)(.95 / bucket_s);
	tick(&b, 5 * MS, 0);
	arrive_many(&b, 1, 100000, fits);
	assert_int_equal(arrive(&b, 1, 100000), WEIR_SHED_LATE);
	assert_int_equal(arrive(&b, 2, 100000), WEIR_ADMITTED);
	tick(&b, 5 * MS, 0);
	assert_int_equal(started_of(&b, 1, 100000, fits), fits);
	/* The class has failed all the same, so what waits below is refused. */
	assert_int_equal(started_of(&b, 2, 100000, 1), 0);
	weir_report report = {0};
	b.law->report(b.state, 1, &report);
	assert_true(report.shedding);
	free(b.state);
}

/* A request that is longer than the target never waits for a visit, even if nothing is in service. */
static void what_never_fits_does_not_wait(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "10ms", "servers", "1", "delay[1]", "5ms");
	assert_int_equal(arrive(&b, 1, 100000), WEIR_SHED_LATE);
	assert_int_equal(arrive(&b, 1, 1000), WEIR_ADMITTED);
	/* While no service time is known, everything may pass. */
	assert_int_equal(arrive(&b, 2, 0), WEIR_ADMITTED);
	free(b.state);
}

/* So many requests of 10 ms that the test lets in, each answered after this many times what the test said. */
static unsigned fill_and_answer(struct beat *b, double times)
{
	weir_event events[256];
	unsigned count = 0;
	while (count < 256 && arrive(b, 0, 10000) == WEIR_ADMITTED) {
		events[count] = event_of(b, 0, 10000);
		events[count].started_ns = b->now_ns;
		assert_int_equal(start(b, &events[count]), WEIR_ADMITTED);
		count++;
	}
	for (unsigned i = 0; i < count; i++)
		b->law->settle(b->state, &events[i], WEIR_DONE,
			       b->now_ns + (uint64_t)(times * (i + 1.) * 10 * (double)MS));
	return count;
}

/* Servers that take longer than the test says get fewer, and are given more again only slowly. */
static void slower_servers_get_fewer(void **state)
{
	struct beat b, plain;
	unsigned first = 0, slow = 0, later = 0;
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	BEAT(&plain, &weir_law_batch, "target", "1s", "delays", "fixed", "skew", "off");
	first = fill_and_answer(&b, 1);
	assert_int_equal(fill_and_answer(&plain, 1), first);
	for (unsigned i = 0; i < 20; i++) {
		fill_and_answer(&b, 1.3);
		fill_and_answer(&plain, 1.3);
	}
	slow = fill_and_answer(&b, 1);
	assert_in_range(slow, first / 2, first * 9 / 10);
	assert_int_equal(fill_and_answer(&plain, 1), first);
	for (unsigned i = 0; i < 3; i++)
		later = fill_and_answer(&b, .8);
	assert_true(later < first);
	for (unsigned i = 0; i < 2000; i++)
		later = fill_and_answer(&b, .5);
	assert_true(later > slow);
	/* An outage is bounded. */
	for (unsigned i = 0; i < 100; i++)
		later = fill_and_answer(&b, 1000);
	assert_true(later >= first / 5);
	free(b.state);
	free(plain.state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_pass_is_refused_at_the_door),
		cmocka_unit_test(what_never_fits_does_not_wait),
		cmocka_unit_test(slower_servers_get_fewer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
