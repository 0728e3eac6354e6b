/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder: sequences made by hand, with answers known beforehand. Values that a histogram keeps are chosen where its buckets are exact enough. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/record.h"

#define S  WEIR_NS_PER_S
#define MS WEIR_NS_PER_MS

static weir_record *made(void)
{
	weir_record_options options = {.duration_ns = 10 * S,
				       .warmup_ns = 2 * S,
				       .window_ns = S,
				       .quantile = 0.9,
				       .classes = 2,
				       .types = 2,
				       .places = 1,
				       .traces = 1};
	weir_record *record;
	assert_int_equal(weir_record_new(&options, &record), 0);
	return record;
}

static void near(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance * fabs(expected) + 1e-9))
		fail_msg("%g, not %g", value, expected);
}

static void an_attempt_is_counted_where_it_belongs(void **state)
{
	weir_record *r = made();
	weir_record_offered(r, 3 * S, 1, 0);
	weir_record_offered(r, 3 * S, 0, 1);
	weir_record_offered(r, 3 * S, 0, 1);
	weir_record_offered(r, 3 * S, 0, 1);
	weir_record_shed(r, 3 * S, 1, 0);
	weir_record_dropped(r, 3 * S, 0, 1);
	weir_record_given_up(r, 3 * S, 0, 1);
	assert_int_equal(r->inside, 1);
	assert_true(weir_record_completed(r, 4 * S, 0, 1, 100 * MS, 100 * MS));
	assert_int_equal(r->inside, 0);
	assert_int_equal(r->klass[1].offered, 1);
	assert_int_equal(r->klass[1].shed, 1);
	assert_int_equal(r->type[1].offered, 3);
	assert_int_equal(r->type[1].dropped, 1);
	assert_int_equal(r->type[1].given_up, 1);
	assert_int_equal(r->type[1].completed, 1);
	weir_totals total;
	weir_record_total(r, &total);
	assert_int_equal(total.offered, 4);
	assert_int_equal(total.shed + total.dropped + total.given_up + total.completed, 4);
	assert_int_equal(weir_hist_count(&total.response), 1);
	weir_record_free(&r);
	assert_null(r);
}

/* Within the target, within twice of it, later; and without one everything is useful. */
static void useful_is_within_twice_the_target(void **state)
{
	weir_record *r = made();
	static const struct {
		uint64_t response_ns, target_ns;
		bool good, useful;
	} cases[] = {
		{100 * MS, 100 * MS, true, true},  {100 * MS + 1, 100 * MS, false, true},
		{200 * MS, 100 * MS, false, true}, {200 * MS + 1, 100 * MS, false, false},
		{3600 * S, 0, true, true},
	};
	uint64_t good = 0, useful = 0, late = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		weir_record_offered(r, 5 * S, 0, 0);
		bool was = weir_record_completed(r, 5 * S, 0, 0, cases[i].response_ns, cases[i].target_ns);
		assert_int_equal(was, cases[i].useful);
		good += cases[i].good;
		useful += cases[i].useful;
		late += cases[i].target_ns != 0 && cases[i].response_ns > 110 * MS;
	}
	assert_int_equal(r->klass[0].good, good);
	assert_int_equal(r->klass[0].useful, useful);
	assert_int_equal(r->slot[50].late, late);
	assert_int_equal(r->slot[50].completed, 5);
	weir_record_free(&r);
}

/* 7 for one type, nothing for the other. */
static void revenue_is_earned_within_the_target_only(void **state)
{
	static const double revenue[] = {7, 0};
	weir_record_options options = {.duration_ns = 10 * S,
				       .window_ns = S,
				       .quantile = .9,
				       .classes = 2,
				       .types = 2,
				       .places = 1,
				       .revenue = revenue};
	weir_record *record;
	weir_totals total;
	assert_int_equal(weir_record_new(&options, &record), 0);
	for (unsigned type = 0; type < 2; type++)
		for (unsigned i = 0; i < 6; i++)
			weir_record_offered(record, S, 1, type);
	for (unsigned type = 0; type < 2; type++) {
		weir_record_completed(record, 2 * S, 1, type, 100 * MS, 100 * MS);
		weir_record_completed(record, 2 * S, 1, type, 10 * MS, 0);
		weir_record_completed(record, 2 * S, 1, type, 101 * MS, 100 * MS);
		weir_record_shed(record, 2 * S, 1, type);
		weir_record_dropped(record, 2 * S, 1, type);
		weir_record_dropped(record, 2 * S, 1, type);
	}
	assert_true(record->klass[1].earned == 14 && record->klass[1].late == 7 &&
		    record->klass[1].turned_away == 21);
	assert_true(record->type[0].earned == 14 && record->type[1].earned == 0);
	weir_record_total(record, &total);
	assert_true(total.earned == 14 && total.late == 7 && total.turned_away == 21);
	weir_record_free(&record);
}

static void what_happens_in_the_warmup_is_not_in_the_totals(void **state)
{
	weir_record *r = made();
	weir_record_offered(r, S, 0, 0);
	weir_record_offered(r, S, 0, 0);
	weir_record_shed(r, S, 0, 0);
	weir_record_work(r, S, 0, 5, WEIR_USED_WELL);
	assert_int_equal(r->inside_at_start, 1);
	weir_record_completed(r, 3 * S, 0, 0, 2 * S, 0); /* entered before, completed after */
	assert_int_equal(r->klass[0].offered, 0);
	assert_int_equal(r->klass[0].shed, 0);
	assert_int_equal(r->klass[0].completed, 1);
	assert_int_equal(r->klass[0].useful, 1);
	assert_int_equal(r->klass[0].useful_of_offered, 0);
	assert_int_equal(r->inside_at_start + r->klass[0].offered, r->klass[0].completed + r->inside);
	near(r->place[0].used_ns[WEIR_USED_WELL], 0, 0);
	weir_record_work(r, 2 * S, 0, 5, WEIR_USED_WELL);
	weir_record_work(r, 2 * S, 0, 7, WEIR_USED_FOR_NOTHING);
	near(r->place[0].used_ns[WEIR_USED_WELL], 5, 0);
	near(r->place[0].used_ns[WEIR_USED_FOR_NOTHING], 7, 0);
	/* But over time it is seen. */
	assert_int_equal(weir_record_at(r, 0, 0)->offered, 2);
	weir_record_free(&r);
}

/* 100 responses of 1 ms to 100 ms, target 100 ms: the percentiles are their numbers. */
static void percentiles_of_a_window_are_those_of_its_responses(void **state)
{
	weir_record *r = made();
	for (unsigned i = 1; i <= 100; i++) {
		weir_record_offered(r, S / 2, i % 2, 0);
		weir_record_completed(r, S / 2, i % 2, 0, i * MS, 100 * MS);
	}
	weir_record_window(r, S);
	const weir_sim_window *all = weir_record_at(r, 0, WEIR_CLASSES), *odd = weir_record_at(r, 0, 1);
	near(all->p50_ms, 50, 0.033);
	near(all->p90_ms, 90, 0.033);
	near(all->p99_ms, 99, 0.033);
	near(all->ratio, 0.9, 0.033);
	assert_int_equal(all->completed, 100);
	assert_int_equal(odd->completed, 50);
	near(odd->p90_ms, 89, 0.033);
	/* The next one begins with nothing. */
	weir_record_offered(r, S, 0, 0);
	weir_record_completed(r, S, 0, 0, 7 * MS, 100 * MS);
	weir_record_window(r, 2 * S);
	near(weir_record_at(r, 1, WEIR_CLASSES)->p99_ms, 7, 0.033);
	assert_int_equal(weir_record_at(r, 1, 1)->completed, 0);
	near(weir_record_at(r, 1, 1)->p90_ms, 0, 0);
	weir_record_free(&r);
}

/* Three workers; from 4 s on two; at half of their speed from 8 s on. Phases from 0 and from 5 s, measured from 2 s. */
static void worker_time_is_that_of_the_phase(void **state)
{
	weir_record *r = made();
	weir_record_phase(r, 5 * S);
	weir_record_workers(r, 0, 0, 3);
	weir_record_workers(r, 4 * S, 0, 2);
	weir_record_workers(r, 8 * S, 0, 1);
	weir_record_workers(r, 10 * S, 0, 0);
	near(r->phase[0].capacity_ns[0] / 1e9, 3 * 4 + 2 * 1, 1e-12);
	near(r->phase[1].capacity_ns[0] / 1e9, 2 * 3 + 1 * 2, 1e-12);
	near(r->place[0].capacity_ns / 1e9, 3 * 2 + 2 * 4 + 1 * 2, 1e-12);
	weir_record_work(r, 6 * S, 0, 4e9, WEIR_USED_WELL);
	weir_record_work(r, 6 * S, 0, 2e9, WEIR_USED_LATE);
	weir_record_work(r, 6 * S, 0, 1e9, WEIR_USED_FOR_NOTHING);
	near(r->phase[1].completed_ns[0], 6e9, 1e-12);
	near(r->phase[0].completed_ns[0], 0, 0);
	weir_record_free(&r);
}

static void blocks_are_of_500_offers_each(void **state)
{
	weir_record *r = made();
	for (unsigned i = 0; i < 1501; i++) {
		weir_record_offered(r, S + i, 0, 0);
		if (i % 5 == 0)
			weir_record_shed(r, S + i, 0, 0);
	}
	assert_int_equal(r->blocks, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(r->block[i].turned_away, 100);
	assert_int_equal(r->block[0].end_ns, S + 500);
	weir_record_free(&r);
}

static void many_blocks_fit(void **state)
{
	weir_record *r = made();
	for (unsigned i = 0; i < 500 * 5000 + 1; i++) {
		weir_record_offered(r, S, 0, 0);
		weir_record_shed(r, S, 0, 0);
	}
	assert_int_equal(r->blocks, 5000);
	assert_int_equal(r->block[4999].turned_away, 500);
	weir_record_free(&r);
}

static void phases_are_in_order_however_they_are_told(void **state)
{
	weir_record *r = made();
	weir_record_phase(r, 5 * S);
	weir_record_phase(r, 3 * S);
	weir_record_phase(r, 5 * S);
	weir_record_phase(r, 0);
	weir_record_phase(r, 10 * S); /* the end is none */
	assert_int_equal(r->phases, 3);
	static const uint64_t from[] = {0, 3 * S, 5 * S}, to[] = {3 * S, 5 * S, 10 * S};
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(r->phase[i].from_ns, from[i]);
		assert_int_equal(r->phase[i].to_ns, to[i]);
	}
	weir_record_offered(r, 3 * S - 1, 0, 0);
	weir_record_offered(r, 3 * S, 0, 0);
	weir_record_shed(r, 6 * S, 0, 0);
	assert_int_equal(r->phase[0].offered, 1);
	assert_int_equal(r->phase[1].offered, 1);
	assert_int_equal(r->phase[1].inside, 1);
	assert_int_equal(r->phase[2].turned_away, 1);
	for (unsigned i = 0; i < 100; i++)
		weir_record_phase(r, 6 * S + i);
	assert_int_equal(r->phases, WEIR_RECORD_PHASES);
	weir_record_free(&r);
}

static void what_a_law_says_is_kept_by_window(void **state)
{
	weir_record *r = made();
	weir_report report = {.quality = 1, .measured_ns = 5 * MS, .count = 1, .value = {{"own", 3}}};
	weir_record_trace(r, 0, &report);
	weir_record_window(r, S);
	report.rate_per_s = 70;
	report.limit = UINT32_MAX;
	report.unreachable = true;
	weir_record_trace(r, 0, &report);
	const weir_law_trace *t = &r->trace[0];
	near(t->value[0][WEIR_TRACE_MEASURED], 5, 0);
	near(t->value[0][WEIR_TRACE_OWN], 3, 0);
	near(t->value[1][WEIR_TRACE_RATE], 70, 0);
	assert_string_equal(t->name[WEIR_TRACE_OWN], "own");
	assert_string_equal(t->name[WEIR_TRACE_RATE], "rate");
	assert_null(t->name[WEIR_TRACE_LIMIT]); /* any number is no limit */
	assert_true(t->unreachable);
	weir_record_free(&r);
}

/* Also after the end, and in the last moment: the last window and slot take it. */
static void the_last_moment_has_a_place(void **state)
{
	weir_record *r = made();
	for (unsigned i = 1; i <= 12; i++)
		weir_record_window(r, i * S);
	weir_record_offered(r, 10 * S, 0, 0);
	weir_record_completed(r, 11 * S, 0, 0, 5, 0);
	weir_report report = {.quality = 1};
	weir_record_trace(r, 0, &report);
	assert_int_equal(weir_record_at(r, 9, 0)->completed, 1);
	weir_record_free(&r);
}

static void memory_that_runs_out_is_an_error(void **state)
{
	weir_record_options options = {
		.duration_ns = S, .window_ns = S, .classes = 1, .types = 1, .places = 1, .traces = 2};
	uint64_t before = weir_mem_live();
	for (uint64_t nth = 1; nth <= 12; nth++) {
		weir_record *r = NULL;
		weir_mem_fail_after(nth);
		assert_true(weir_record_new(&options, &r) < 0);
		weir_mem_fail_after(0);
		assert_int_equal(weir_mem_live(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(an_attempt_is_counted_where_it_belongs),
		CHECK_TEST(useful_is_within_twice_the_target),
		CHECK_TEST(revenue_is_earned_within_the_target_only),
		CHECK_TEST(what_happens_in_the_warmup_is_not_in_the_totals),
		CHECK_TEST(percentiles_of_a_window_are_those_of_its_responses),
		CHECK_TEST(worker_time_is_that_of_the_phase),
		CHECK_TEST(blocks_are_of_500_offers_each),
		CHECK_TEST(many_blocks_fit),
		CHECK_TEST(phases_are_in_order_however_they_are_told),
		CHECK_TEST(what_a_law_says_is_kept_by_window),
		CHECK_TEST(the_last_moment_has_a_place),
		CHECK_TEST(memory_that_runs_out_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
