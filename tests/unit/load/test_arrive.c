/* SPDX-License-Identifier: Apache-2.0 */
/* When requests come: phases, traces, threads that share them, and what people write. */
#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "load/arrive.h"
#include "sim/trace.h"

#define S    WEIR_NS_PER_S
#define MS   WEIR_NS_PER_MS
#define NONE UINT64_MAX

static load_schedule *phases(const load_phase *of, unsigned count, bool poisson, bool repeat, uint64_t until)
{
	load_schedule *schedule = NULL;
	if (load_schedule_phases(of, count, poisson, repeat, until, &schedule) < 0)
		fail_msg("%s", weir_error());
	return schedule;
}

static uint64_t count_all(const load_schedule *schedule, unsigned thread, unsigned threads, uint64_t seed)
{
	load_arrivals arrivals;
	uint64_t count = 0, last = 0;
	load_arrivals_start(&arrivals, schedule, thread, threads, seed);
	for (uint64_t at; (at = load_arrivals_next(&arrivals)) != NONE; count++, last = at) {
		assert_true(at >= last && at < load_schedule_end(schedule));
		assert_int_equal(arrivals.at_ns, at);
	}
	assert_int_equal(load_arrivals_next(&arrivals), NONE);
	return count;
}

/* ---- even ---- */

static void even_arrivals_come_at_their_times(void **state)
{
	load_schedule *schedule = phases(&(load_phase){2 * S, 4}, 1, false, false, NONE);
	load_arrivals arrivals;
	load_arrivals_start(&arrivals, schedule, 0, 1, 1);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(load_arrivals_next(&arrivals), i * S / 4);
		assert_int_equal(arrivals.number, i);
	}
	assert_int_equal(load_arrivals_next(&arrivals), NONE);
	assert_int_equal(load_schedule_end(schedule), 2 * S);
	load_schedule_free(&schedule);
	assert_null(schedule);
}

static void a_part_of_an_arrival_counts_in_the_next_phase(void **state)
{
	/* 1.5 in the first second, nobody in the next, then 2.5: the third is half a part into the last phase. */
	const load_phase of[] = {{S, 1.5}, {S, 0}, {S, 2.5}};
	static const uint64_t expected[] = {0, 666666667, 2 * S + S / 5, 2 * S + 3 * S / 5};
	load_schedule *schedule = phases(of, 3, false, false, NONE);
	load_arrivals arrivals;
	load_arrivals_start(&arrivals, schedule, 0, 1, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load_arrivals_next(&arrivals), expected[i]);
	assert_int_equal(load_arrivals_next(&arrivals), NONE);
	load_schedule_free(&schedule);
}

/* Tenths do not add up to 1 in binary, here to a little more: the second one still comes when the pause is over, not just before it. */
static void an_arrival_at_a_border_is_of_the_next_phase(void **state)
{
	const load_phase of[] = {{200 * MS, 1}, {400 * MS, 1}, {300 * MS, 1}, {100 * MS, 1}, {S, 0}, {S, 2}};
	static const uint64_t expected[] = {0, 2 * S, 2 * S + S / 2, NONE};
	load_schedule *schedule = phases(of, 6, false, false, NONE);
	load_arrivals arrivals;
	load_arrivals_start(&arrivals, schedule, 0, 1, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load_arrivals_next(&arrivals), expected[i]);
	load_schedule_free(&schedule);
}

static void phases_repeat_until_the_end(void **state)
{
	const load_phase of[] = {{S, 10}, {2 * S, 1}};
	load_schedule *schedule = phases(of, 2, false, true, 7 * S);
	assert_int_equal(count_all(schedule, 0, 1, 1), 12 + 12 + 10);
	assert_int_equal(load_schedule_end(schedule), 7 * S);
	assert_true(fabs(load_schedule_rate(schedule) - 34.0 / 7) < 1e-9);
	load_schedule_free(&schedule);
	schedule = phases(of, 2, false, false, 7 * S);
	assert_int_equal(count_all(schedule, 0, 1, 1), 12);
	assert_int_equal(load_schedule_end(schedule), 3 * S);
	load_schedule_free(&schedule);
	schedule = phases(of, 2, false, true, NONE);
	assert_int_equal(load_schedule_end(schedule), NONE);
	assert_true(fabs(load_schedule_rate(schedule) - 4) < 1e-9);
	load_schedule_free(&schedule);
}

static void threads_together_are_the_process_of_one(void **state)
{
	const load_phase of[] = {{S, 33.3}, {S / 3, 0}, {S / 2, 1234.5}, {S, 7}};
	load_schedule *schedule = phases(of, 4, false, true, 20 * S);
	for (unsigned threads = 2; threads <= 7; threads++) {
		load_arrivals one, many[7];
		load_arrivals_start(&one, schedule, 0, 1, 1);
		for (unsigned t = 0; t < threads; t++)
			load_arrivals_start(&many[t], schedule, t, threads, 9);
		for (uint64_t i = 0;; i++) {
			uint64_t at = load_arrivals_next(&one);
			assert_int_equal(load_arrivals_next(&many[i % threads]), at);
			if (at == NONE)
				break;
			assert_int_equal(many[i % threads].number, i);
		}
	}
	load_schedule_free(&schedule);
}

static void high_rates_over_long_times_stay_exact(void **state)
{
	load_schedule *schedule = phases(&(load_phase){S, 20000}, 1, false, true, NONE);
	load_arrivals arrivals;
	load_arrivals_start(&arrivals, schedule, 0, 1, 1);
	/* As if 10 hours had passed. */
	arrivals.given = UINT64_C(36000) * 20000;
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(load_arrivals_next(&arrivals), 36000 * S + i * 50000);
	load_schedule_free(&schedule);
}

static void nobody_comes_at_rate_0(void **state)
{
	load_schedule *schedule = phases(&(load_phase){S, 0}, 1, false, true, NONE);
	assert_int_equal(count_all(schedule, 0, 1, 1), 0);
	assert_true(load_schedule_rate(schedule) == 0);
	load_schedule_free(&schedule);
	schedule = phases(&(load_phase){S, 0}, 1, true, false, NONE);
	assert_int_equal(count_all(schedule, 1, 2, 1), 0);
	load_schedule_free(&schedule);
}

/* ---- Poisson ---- */

/* Counts of a Poisson process are within 4 standard deviations, and the gaps have the mean and the spread of exponential ones. */
static void poisson_arrivals_have_rate_and_spread(void **state)
{
	load_schedule *schedule = phases(&(load_phase){100 * S, 1000}, 1, true, false, NONE);
	for (unsigned threads = 1; threads <= 3; threads++) {
		uint64_t all = 0;
		for (unsigned t = 0; t < threads; t++)
			all += count_all(schedule, t, threads, 42);
		assert_true(fabs((double)all - 100000) < 4 * sqrt(100000));
	}
	load_arrivals arrivals;
	double sum = 0, squares = 0;
	uint64_t last = 0;
	load_arrivals_start(&arrivals, schedule, 0, 1, 7);
	for (unsigned i = 0; i < 90000; i++) {
		uint64_t at = load_arrivals_next(&arrivals);
		double gap = (double)(at - last) / 1e6;
		sum += gap;
		squares += gap * gap;
		last = at;
	}
	assert_true(fabs(sum / 90000 - 1) < 0.015);
	assert_true(fabs(squares / 90000 - 2) < 0.08);
	load_schedule_free(&schedule);
}

static void poisson_follows_the_phases(void **state)
{
	const load_phase of[] = {{10 * S, 200}, {10 * S, 0}, {10 * S, 2000}};
	load_schedule *schedule = phases(of, 3, true, true, 300 * S);
	load_arrivals arrivals;
	double seen[3] = {0, 0, 0};
	load_arrivals_start(&arrivals, schedule, 0, 1, 3);
	for (uint64_t at; (at = load_arrivals_next(&arrivals)) != NONE;)
		seen[at / (10 * S) % 3]++;
	assert_true(fabs(seen[0] - 20000) < 4 * sqrt(20000));
	assert_true(seen[1] == 0);
	assert_true(fabs(seen[2] - 200000) < 4 * sqrt(200000));
	load_schedule_free(&schedule);
}

static void seeds_repeat_and_threads_differ(void **state)
{
	load_schedule *schedule = phases(&(load_phase){S, 1000}, 1, true, true, NONE);
	load_arrivals a, b, c, d;
	unsigned same_seed = 0, same_thread = 0;
	load_arrivals_start(&a, schedule, 0, 2, 5);
	load_arrivals_start(&b, schedule, 0, 2, 5);
	load_arrivals_start(&c, schedule, 0, 2, 6);
	load_arrivals_start(&d, schedule, 1, 2, 5);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t at = load_arrivals_next(&a);
		assert_int_equal(load_arrivals_next(&b), at);
		same_seed += load_arrivals_next(&c) == at;
		same_thread += load_arrivals_next(&d) == at;
	}
	assert_true(same_seed < 3 && same_thread < 3);
	load_schedule_free(&schedule);
}

static void schedules_that_are_none_are_refused(void **state)
{
	load_schedule *schedule = NULL;
	const load_phase wrong[] = {{0, 1},  {LOAD_LENGTH_MAX + 1, 1}, {S, -1}, {S, NAN}, {S, INFINITY},
				    {S, 2e9}};
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(load_schedule_phases(&wrong[i], 1, false, false, NONE, &schedule), -EINVAL);
	assert_int_equal(load_schedule_phases(wrong, 0, false, false, NONE, &schedule), -EINVAL);
	assert_int_equal(load_schedule_phases(wrong, LOAD_PHASES_MAX + 1, false, false, NONE, &schedule),
			 -EINVAL);
	assert_null(schedule);
}

/* ---- traces ---- */

static load_trace *trace(const char *text)
{
	load_trace *read = NULL;
	if (weir_tracefile_parse("t.csv", text, strlen(text), true, &read) < 0)
		fail_msg("%s", weir_error());
	return read;
}

static void a_trace_gives_its_times_in_order(void **state)
{
	load_trace *read = trace("time\n0.5\n2\n1\n2\n4.5\n");
	load_schedule *schedule = NULL;
	static const uint64_t expected[] = {S / 4, S / 2, S, S, 9 * S / 4};
	assert_int_equal(load_schedule_trace(read, 2, &schedule), 0);
	weir_tracefile_free(&read);
	for (unsigned threads = 1; threads <= 3; threads++) {
		load_arrivals many[3];
		for (unsigned t = 0; t < threads; t++)
			load_arrivals_start(&many[t], schedule, t, threads, 1);
		for (unsigned i = 0; i < 5; i++) {
			assert_int_equal(load_arrivals_next(&many[i % threads]), expected[i]);
			assert_int_equal(many[i % threads].number, i);
		}
		assert_int_equal(load_arrivals_next(&many[5 % threads]), NONE);
	}
	assert_int_equal(load_schedule_end(schedule), 9 * S / 4 + 1);
	load_schedule_free(&schedule);
}

static void a_trace_is_made_as_fast_as_is_asked(void **state)
{
	load_trace *read = trace("10\n11\n12\n13\n20\n");
	load_schedule *schedule = NULL;
	double faster = 0;
	assert_int_equal(load_trace_faster(read, 8, &faster), 0);
	assert_true(fabs(faster - 20) < 1e-9);
	assert_int_equal(load_schedule_trace(read, faster, &schedule), 0);
	/* Four gaps in half a second. */
	assert_int_equal(load_schedule_end(schedule), S + 1);
	load_schedule_free(&schedule);
	assert_int_equal(load_trace_faster(read, 0, &faster), -EINVAL);
	assert_int_equal(load_schedule_trace(read, 0, &schedule), -EINVAL);
	assert_int_equal(load_schedule_trace(read, NAN, &schedule), -EINVAL);
	assert_int_equal(load_schedule_trace(read, 1e-6, &schedule), -EINVAL);
	weir_tracefile_free(&read);
	read = trace("3\n3\n");
	assert_int_equal(load_trace_faster(read, 1, &faster), -EINVAL);
	check_contains(weir_error(), "no rate");
	weir_tracefile_free(&read);
}

/* ---- as written ---- */

static void phases_are_read_as_written(void **state)
{
	load_phase phase;
	assert_int_equal(load_phase_parse("10s@500", 0, &phase), 0);
	assert_true(phase.length_ns == 10 * S && phase.rate == 500);
	assert_int_equal(load_phase_parse(" 1.5m @ 2.5/s ", 0, &phase), 0);
	assert_true(phase.length_ns == 90 * S && phase.rate == 2.5);
	assert_int_equal(load_phase_parse("5s@1.5x", 200, &phase), 0);
	assert_true(phase.length_ns == 5 * S && phase.rate == 300);
	assert_int_equal(load_phase_parse("5s@0", 0, &phase), 0);
	assert_true(phase.rate == 0);
	assert_true(load_phase_is_multiple("5s@2x") && load_phase_is_multiple("5s@2x "));
	assert_false(load_phase_is_multiple("5s@2") || load_phase_is_multiple("2x"));
}

static void phases_that_are_none_are_refused(void **state)
{
	static const char *const wrong[] = {"",        "10s",     "@500",     "10@500", "10s@",
					    "10s@x",   "10s@-1",  "10s@1e10", "0s@500", "1001h@1",
					    "10s@5@6", "10s@5/m", "10s@ /s"};
	load_phase phase = {77, 77};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(load_phase_parse(wrong[i], 100, &phase), -EINVAL);
		check_contains(weir_error(), "10s@500");
	}
	assert_int_equal(load_phase_parse("5s@1.5x", 0, &phase), -EINVAL);
	check_contains(weir_error(), "capacity");
	assert_true(phase.length_ns == 77 && phase.rate == 77);
}

/* The paper's column of averages, to one digit, follows from its others. */
static void transients_have_the_means_of_the_paper(void **state)
{
	for (unsigned i = 0; i < LOAD_TRANSIENTS; i++) {
		const load_transient *w = load_transient_at(i);
		load_phase of[2];
		char name[8];
		snprintf(name, sizeof name, "w%u", i + 1);
		assert_ptr_equal(load_transient_find(name), w);
		load_transient_phases(w, 100, of);
		assert_true(of[0].rate < 100 && of[1].rate > 100);
		assert_true(w->intermittent == (of[1].length_ns < of[0].length_ns));
		load_schedule *schedule = phases(of, 2, false, true, NONE);
		assert_true(fabs(load_schedule_rate(schedule) / 100 - w->mean) < 0.0501);
		load_schedule_free(&schedule);
	}
	assert_null(load_transient_at(LOAD_TRANSIENTS));
	assert_null(load_transient_find("W11"));
	const load_transient *w10 = load_transient_find("W10");
	assert_true(w10->low_ns == 13300 * MS && w10->high_ns == 2 * S && w10->low == 0.735 &&
		    w10->high == 2);
}

static void memory_that_runs_out_is_an_error(void **state)
{
	load_trace *read = trace("1\n2\n");
	load_schedule *schedule = NULL;
	for (uint64_t nth = 1; nth <= 2; nth++) {
		weir_mem_fail_after(nth);
		assert_int_equal(load_schedule_trace(read, 1, &schedule), -ENOMEM);
		weir_mem_fail_after(nth);
		assert_int_equal(load_schedule_phases(&(load_phase){S, 1}, 1, false, false, NONE, &schedule),
				 -ENOMEM);
	}
	assert_null(schedule);
	weir_tracefile_free(&read);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(even_arrivals_come_at_their_times),
		CHECK_TEST(a_part_of_an_arrival_counts_in_the_next_phase),
		CHECK_TEST(an_arrival_at_a_border_is_of_the_next_phase),
		CHECK_TEST(phases_repeat_until_the_end),
		CHECK_TEST(threads_together_are_the_process_of_one),
		CHECK_TEST(high_rates_over_long_times_stay_exact),
		CHECK_TEST(nobody_comes_at_rate_0),
		CHECK_TEST(poisson_arrivals_have_rate_and_spread),
		CHECK_TEST(poisson_follows_the_phases),
		CHECK_TEST(seeds_repeat_and_threads_differ),
		CHECK_TEST(schedules_that_are_none_are_refused),
		CHECK_TEST(a_trace_gives_its_times_in_order),
		CHECK_TEST(a_trace_is_made_as_fast_as_is_asked),
		CHECK_TEST(phases_are_read_as_written),
		CHECK_TEST(phases_that_are_none_are_refused),
		CHECK_TEST(transients_have_the_means_of_the_paper),
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
