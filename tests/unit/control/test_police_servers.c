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

/* Gold fills the servers until it is refused. One was answered before, so that its service time is known. */
static void fill_with_gold(struct beat *b, uint32_t cost_us)
{
	weir_event event = event_of(b, 0, cost_us);
	assert_int_equal(arrive(b, 0, cost_us), WEIR_ADMITTED);
	assert_int_equal(start(b, &event), WEIR_ADMITTED);
	b->law->settle(b->state, &event, WEIR_DONE, b->now_ns + cost_us * UINT64_C(1000));
	while (arrive(b, 0, cost_us) == WEIR_ADMITTED)
		assert_int_equal(started_of(b, 0, cost_us, 1), 1);
	tick(b, 5 * MS, 0);
}

/* One place became free, gold is refused there, and silver's service times are a little lower. */
static void a_lesser_class_leaves_room(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "servers", "1", "delay[1]", "50ms", "skew", "off");
	fill_with_gold(&b, 10000);
	assert_int_equal(arrive(&b, 1, 8000), WEIR_SHED_LATE);
	free(b.state);
	BEAT(&b, &weir_law_batch, "target", "1s", "servers", "1", "delay[1]", "50ms", "skew", "off", "early",
	     "off");
	fill_with_gold(&b, 10000);
	arrive_many(&b, 1, 8000, 1);
	tick(&b, 60 * MS, 0);
	assert_int_equal(started_of(&b, 1, 8000, 1), 0);
	/* When gold has not been refused for one target, silver is judged by its own test again. */
	tick(&b, 1000 * MS, 0);
	arrive_many(&b, 1, 8000, 1);
	tick(&b, 60 * MS, 0);
	assert_int_equal(started_of(&b, 1, 8000, 1), 1);
	free(b.state);
}

/* Gold's requests fit only where nothing else is. Servers do not idle for them. */
static void a_class_that_hardly_fits_keeps_nobody_out(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_batch, "target", "1s", "servers", "1", "delay[1]", "50ms", "skew", "off");
	fill_with_gold(&b, 700000);
	tick(&b, 60 * MS, 0);
	arrive_many(&b, 1, 8000, 1);
	tick(&b, 60 * MS, 0);
	assert_int_equal(started_of(&b, 1, 8000, 1), 1);
	free(b.state);
}

#define LINE 4096u

/* A server that does one request after the other, under the threshold: how many are inside after so long. */
static unsigned line_after(struct beat *b, unsigned seconds, uint64_t every_ms, uint64_t takes_ms)
{
	weir_event *line = calloc(LINE, sizeof(*line));
	unsigned first = 0, last = 0;
	uint64_t busy_ms = 0;
	for (uint64_t ms = 1; ms <= 1000 * seconds; ms++) {
		if (ms % 5 == 0)
			tick(b, 5 * MS, 0);
		if (ms % every_ms == 0 && last < LINE && arrive(b, 0, 10000) == WEIR_ADMITTED) {
			line[last] = event_of(b, 0, 10000);
			assert_int_equal(start(b, &line[last++]), WEIR_ADMITTED);
		}
		busy_ms = last > first ? busy_ms + 1 : 0;
		if (busy_ms == takes_ms) {
			busy_ms = 0;
			b->law->settle(b->state, &line[first++], WEIR_DONE, b->now_ns);
		}
	}
	free(line);
	return last - first;
}

/* A request costs 10 ms alone, and takes 14 ms of a server that has more to do. 100 come per second. */
static void a_threshold_follows_what_servers_do_under_load(void **state)
{
	struct beat b;
	BEAT(&b, &weir_law_police_threshold, "target", "1s", "servers", "1", "period", "1s");
	assert_in_range(line_after(&b, 30, 10, 14), 0, 60);
	double pace = weir_police_gauge_pace(b.state);
	assert_true(pace > 1.2 && pace < 1.6);
	/* Servers that are as fast as the costs say again: it is forgotten, and nobody is refused. */
	line_after(&b, 60, 40, 10);
	uint32_t refused = 0;
	for (unsigned i = 0; i < 50; i++)
		refused += arrive(&b, 0, 10000) != WEIR_ADMITTED;
	assert_int_equal(refused, 0);
	assert_true(weir_police_gauge_pace(b.state) < 1.05);
	free(b.state);
}

/* The last of three that shared a server ends alone, but took three times as long: nothing is learnt of it. */
static void it_is_not_calm_until_the_crowd_has_gone(void **state)
{
	struct beat b;
	weir_event events[3];
	BEAT(&b, &weir_law_batch, "target", "1s", "delays", "fixed");
	arrive_many(&b, 0, 1000, 3);
	for (unsigned i = 0; i < 3; i++) {
		events[i] = event_of(&b, 0, 1000);
		assert_int_equal(start(&b, &events[i]), WEIR_ADMITTED);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_false(b.law->calm(b.state));
		b.law->settle(b.state, &events[i], WEIR_DONE, b.now_ns + 3 * MS);
	}
	assert_true(b.law->calm(b.state));
	free(b.state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_pass_is_refused_at_the_door),
		cmocka_unit_test(what_never_fits_does_not_wait),
		cmocka_unit_test(slower_servers_get_fewer),
		cmocka_unit_test(it_is_not_calm_until_the_crowd_has_gone),
		cmocka_unit_test(a_lesser_class_leaves_room),
		cmocka_unit_test(a_class_that_hardly_fits_keeps_nobody_out),
		cmocka_unit_test(a_threshold_follows_what_servers_do_under_load),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
