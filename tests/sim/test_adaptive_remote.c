/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `adaptive-remote` before backends that it cannot look into: some cells of the grid (bench/laws/proxy_cells.c), and the guard rails, each
 * under the name of the failure that it prevents. Seeded and exact.
 */
#include "support/worlds.h"

#include <stdlib.h>
#include <string.h>

#include "laws/proxy_cell.h"

static void fill(void *params, const struct proxy_cell *cell)
{
	char text[40];
	snprintf(text, sizeof(text), "%.0fns", cell->target_s * 1e9);
	must(weir_law_set(&weir_law_adaptive_remote, params, "target", text));
}

static void fill_none(void *params, const struct proxy_cell *cell)
{
}

static struct proxy_result run(const struct proxy_cell *cell)
{
	struct proxy_result result;
	proxy_cell_run(cell, &weir_law_adaptive_remote, fill, &result);
	return result;
}

/*
 * Cells that the law of today fails, and what was seen. They are run all the same, and it is said when one holds. Whoever changes the law takes out of
 * this list what then holds.
 */
static const struct {
	const char *name;
	uint64_t seed;
	const char *seen;
} expected_failures[] = {
	/* From cold into ten times the capacity: what is let in before there is evidence is a tenth of what one worker does in the whole run. */
	{"one worker, cold fifo-1 exponential at 10", 42, "timely .51, p90 8.2 targets"},
	/* From cold, the base is of a few requests that were slowed already: the limit grows into lateness, and is taken back. */
	{"slower fifo-4 deterministic at 2", 1, "p90 1.36 targets"},
	{"slower fifo-4 deterministic at 2", 2, "p90 1.36 targets"},
	{"slower fifo-4 deterministic at 2", 3, "p90 1.36 targets"},
	/* What a refusal says of the backend is not used. */
	{"refusing fifo-16 exponential at 3", 42,
	 "work .962, wanted .97; the backend refuses two of three itself"},
	/* From cold it is given more than it can take before the law has found out. */
	{"thrashing fifo-16 exponential at 5", 42, "work .25, wanted .93"},
	{"thrashing ps-16 exponential at 5", 42, "work .36"},
	/* From cold, it is not known that the target is out of reach: 6 of 60 seeds. */
	{"1000 workers of exponential 583ms at 86/s", 3, "15 % are refused, nobody should be"},
};

static const char *expected_failure(const struct proxy_cell *cell)
{
	for (size_t i = 0; i < sizeof(expected_failures) / sizeof(expected_failures[0]); i++)
		if (strcmp(expected_failures[i].name, cell->name) == 0 &&
		    expected_failures[i].seed == cell->seed)
			return expected_failures[i].seen;
	return NULL;
}

static unsigned failures; /* of cells, in this test */

static void judge(const struct proxy_cell *cell, const struct proxy_result *r, bool holds, const char *what)
{
	const char *seen = expected_failure(cell);
	if (r->reasons.contradictions != 0)
		fail_msg("%s: %llu of %llu explanations contradict the decision", cell->name,
			 (unsigned long long)r->reasons.contradictions, (unsigned long long)r->reasons.asked);
	if (holds && seen != NULL)
		print_message("%s (seed %llu) holds: take it out of the expected failures\n", cell->name,
			      (unsigned long long)cell->seed);
	if (holds)
		return;
	failures += seen == NULL;
	print_error("%s (seed %llu)%s: %s: work %.3f timely %.3f p90 %.2f shed %.4f dropped %.4f top %.3f "
		    "limit %.0f\n",
		    cell->name, (unsigned long long)cell->seed, seen != NULL ? ", as expected" : "", what,
		    r->work, r->timely, r->p90, r->shed, r->dropped, r->top, r->limit);
}

static void expect_all_passed(void)
{
	unsigned count = failures;
	failures = 0;
	assert_int_equal(count, 0);
}

#define expect(cell, r, x)                \
	do {                              \
		judge(cell, &(r), x, #x); \
		expect_all_passed();      \
	} while (0)

/* Sixteen workers, 10 ms, a target of ten times the p90 alone. */
static struct proxy_cell a_cell(weir_discipline discipline, uint32_t workers, weir_dist_kind kind,
				double load)
{
	struct proxy_cell cell = {
		.part = "test",
		.backend = {.discipline = discipline, .workers = workers},
		.work = {.kind = kind, .mean = 1e7},
		.capacity_per_s = workers * 100.,
		.target_s = 10 * weir_dist_quantile(&(weir_dist){.kind = kind, .mean = 1e7}, .9 + 1e-9) / 1e9,
		.load = load,
		.warm_s = 10,
		.measure_s = 20,
		.seed = 42};
	snprintf(cell.name, sizeof(cell.name), "%s-%u %s at %g",
		 discipline == WEIR_BACKEND_PS ? "ps" : "fifo", workers, weir_dist_name(kind), load);
	return cell;
}

/* Runs the cell and says what of its bounds does not hold. expect_all_passed ends a row of these. */
static void try_cell(const struct proxy_cell *cell)
{
	char what[64];
	struct proxy_result r = run(cell);
	bool passed = proxy_cell_passed(cell, &r, what, sizeof(what));
	judge(cell, &r, passed, what);
}

/* Puts this before the cell's name. */
static void call_it(struct proxy_cell *cell, const char *what)
{
	size_t length = strlen(what), kept = strlen(cell->name) + 1;
	assert_true(length + 1 + kept <= sizeof(cell->name));
	memmove(cell->name + length + 1, cell->name, kept);
	memcpy(cell->name, what, length);
	cell->name[length] = ' ';
}

static void expect_passes(const struct proxy_cell *cell)
{
	try_cell(cell);
	expect_all_passed();
}

static void test_a_part_of_the_grid(void **state)
{
	static const uint32_t workers[] = {4, 16, 64};
	static const double loads[] = {.5, 2, 10};
	for (int w = 0; w < 3; w++)
		for (int d = 0; d < 2; d++)
			for (int kind = 0; kind < 3; kind++) {
				/* In short, of the largest, which have most events, every second one. */
				if (!check_long() && w == 2 && (d + kind) % 2 == 0)
					continue;
				struct proxy_cell cell =
					a_cell((weir_discipline)d, workers[w], (weir_dist_kind)kind,
					       loads[(w + d + kind) % 3]);
				try_cell(&cell);
			}
	expect_all_passed();
}

static void test_the_same_run_is_the_same(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_PARETO, 2);
	struct proxy_result a = run(&cell), b = run(&cell);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void test_straight_into_ten_times_the_capacity(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, 10);
		call_it(&cell, "cold");
		cell.warm_s = 0;
		expect_passes(&cell);
	}
}

/* What fits into a target falls below the number of workers where that is short: the limit must not follow it down. */
static void test_a_short_target_does_not_starve_the_workers(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 64, WEIR_DIST_DETERMINISTIC, 3);
	cell.target_s = .05;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.p90 < 1.1);
}

static void test_synchronised_completions_look_like_infinite_throughput(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_DETERMINISTIC, 5);
	cell.target_s = .5;
	expect_passes(&cell);
}

/* The first answers are the short ones. */
static void test_what_is_not_back_yet_looks_fast(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_LOGNORMAL, 5);
	cell.target_s *= 5;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .97 && r.p90 < 1.1);
}

/* Those that share a server all get slower by a factor, the long ones by the most: cut at one time they would seem not to. */
static void test_long_answers_do_not_hide_congestion(void **state)
{
	for (int kind = WEIR_DIST_BIMODAL; kind <= WEIR_DIST_PARETO; kind++) {
		struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, (weir_dist_kind)kind, 2);
		cell.target_s *= 5;
		cell.warm_s = 40;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .97 && r.p90 < 1.1);
	}
}

/* An epoch ends with a tick: with answers of 1 ms it is longer than it was meant to be, the low one more than the high one. */
static void test_ticks_are_longer_than_epochs(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 64, WEIR_DIST_PARETO, 1.4);
	cell.work.mean = 1e6;
	cell.capacity_per_s = 64000;
	cell.target_s /= 10;
	cell.warm_s = 3;
	cell.measure_s = 3;
	expect_passes(&cell);
}

/* The level before has brought a few answers only: to wait until it is sure that they are different would be to wait for ever. */
static void test_a_slow_start_does_not_stand_still(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 64, WEIR_DIST_EXPONENTIAL, 10);
		cell.warm_s = 0;
		cell.measure_s = 10;
		expect_passes(&cell);
	}
}

/* One worker, and from the first moment on ten times what it can do. */
static void test_one_worker_from_cold(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 1, WEIR_DIST_EXPONENTIAL, 10);
	call_it(&cell, "one worker, cold");
	cell.target_s /= 2;
	cell.warm_s = 0;
	cell.measure_s = 12;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.dropped < .02 && r.p90 < 1.1 && r.work * r.timely > .97);
}

/* Ticks in which nothing but a failure ends are common where few requests are inside. */
static void test_a_failure_now_and_then_is_not_an_outage(void **state)
{
	for (uint64_t seed = 42; seed < 45; seed++) {
		struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 4);
		cell.failing_slow = .02;
		cell.seed = seed;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .85 && r.p90 < 1.1);
	}
}

static void test_fast_failures_look_like_low_latency(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 4);
	cell.failing_fast = .3;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.p90 < 1.1);
}

static void test_hung_requests_eat_the_limit(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 4);
	call_it(&cell, "hanging");
	cell.hanging = .005;
	cell.warm_s = 60; /* by then about a hundred of them hang */
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .85 && r.p90 < 1.1);
}

/* All in flight was lost while the backend stood still: a probe must find out that it is back. */
static void test_a_stall_is_not_the_end(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2);
	cell.phase[0] = (struct proxy_phase){10, 2, 0};
	cell.phase[1] = (struct proxy_phase){20, 2, 1};
	cell.warm_s = 25;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.work > .95 && r.p90 < 1.1);
}

static void test_idle_ratchets_the_limit(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_PS, 16, WEIR_DIST_EXPONENTIAL, .1);
	cell.phase[0] = (struct proxy_phase){60, 8, 1};
	cell.warm_s = 60;
	cell.measure_s = 10;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.p90 < 1.1 && r.timely > .97);
}

static void test_drain_rates_while_unsaturated_are_lies(void **state)
{
	/* Little is asked for a long time; then a burst that fits into the target must not be shed as if that were all there is. */
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2);
	cell.phase[0] = (struct proxy_phase){5, .05, 1};
	cell.phase[1] = (struct proxy_phase){60, .7, 1};
	cell.warm_s = 60;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.shed + r.dropped < .001);
}

static void test_a_refusing_backend_is_asked_for_what_it_takes(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 3);
	call_it(&cell, "refusing");
	cell.backend.most = 12;
	cell.capacity_per_s = 1200;
	expect_passes(&cell);
}

static void test_thrashing_is_not_fed(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, 5);
		call_it(&cell, "thrashing");
		cell.backend.thrash_from = 32;
		cell.backend.thrash_by = 3;
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.work > .93 && r.p90 < 1.1);
	}
}

static void test_a_round_trip_is_filled(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, 2);
	cell.backend.round_trip_ns = 50 * WEIR_NS_PER_MS;
	cell.target_s += .25;
	expect_passes(&cell);
}

static void test_half_the_speed_and_back(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, 2.5);
	cell.phase[0] = (struct proxy_phase){10, 2.5, .5};
	cell.phase[1] = (struct proxy_phase){20, 2.5, 1};
	cell.warm_s = 12;
	expect_passes(&cell);
}

/* Four workers of 10 ms, a target of 100 ms: what a sentry before a small server has to do, at any load. */
static struct proxy_cell a_small_server(weir_discipline discipline, weir_dist_kind kind, double load,
					uint64_t seed)
{
	struct proxy_cell cell = a_cell(discipline, 4, kind, load);
	cell.target_s = .1;
	cell.warm_s = 5;
	cell.measure_s = 30;
	cell.seed = seed;
	return cell;
}

static void test_a_small_server_at_any_load(void **state)
{
	static const double loads[] = {.5, 1.4, 2, 5, 10};
	for (uint64_t seed = 1; seed <= check_seeds(1, 3); seed++)
		for (int d = 0; d < 2; d++)
			for (int kind = 0; kind < 2; kind++)
				for (int l = 0; l < 5; l++) {
					struct proxy_cell cell = a_small_server(
						(weir_discipline)d, (weir_dist_kind)kind, loads[l], seed);
					call_it(&cell, "small");
					try_cell(&cell);
				}
	expect_all_passed();
}

static void test_a_small_server_that_slows_down(void **state)
{
	for (uint64_t seed = 1; seed <= check_seeds(1, 3); seed++)
		for (int kind = 0; kind < 2; kind++) {
			struct proxy_cell cell =
				a_small_server(WEIR_BACKEND_FIFO, (weir_dist_kind)kind, 2, seed);
			call_it(&cell, "slower");
			cell.phase[0] = (struct proxy_phase){10, 2, .5};
			cell.warm_s = 12;
			try_cell(&cell);
		}
	expect_all_passed();
}

static void test_the_lowest_class_is_shed_first(void **state)
{
	for (int d = 0; d < 2; d++) {
		struct proxy_cell cell = a_cell((weir_discipline)d, 16, WEIR_DIST_EXPONENTIAL, .2);
		cell.classes = 2;
		cell.phase[0] = (struct proxy_phase){cell.warm_s, 12.1, 1};
		expect_passes(&cell);
	}
}

static void test_retries_do_not_keep_it_down(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, .8);
	struct proxy_result plain;
	cell.retries = 3;
	cell.phase[0] = (struct proxy_phase){10, 3, 1};
	cell.phase[1] = (struct proxy_phase){20, .8, 1};
	cell.warm_s = 30;
	expect_passes(&cell);
	proxy_cell_run(&cell, NULL, fill_none, &plain);
	expect(&cell, plain, plain.timely < .1); /* while without a law it never recovers */
}

/* ---- what was seen to go wrong before services: two threads of the proxy, which share the law ---- */

#define OWN_FACTOR 5 /* what takes longer than the target alone may take so many times that */

/* So many workers that take mean_s, at this rate from cold, for s seconds. */
static struct proxy_cell a_service(uint32_t workers, weir_dist work, double per_s, double target_s, double s)
{
	struct proxy_cell cell = {.part = "seen",
				  .lanes = 2,
				  .top_weight = 1,
				  .backend.workers = workers,
				  .target_s = target_s,
				  .kinds = 1,
				  .kind[0] = {.work = work, .share = 1},
				  .capacity_per_s = workers / (work.mean / 1e9),
				  .measure_s = s,
				  .seed = 42};
	cell.load = per_s / cell.capacity_per_s;
	proxy_cell_lots(&cell, OWN_FACTOR);
	snprintf(cell.name, sizeof(cell.name), "%u workers of %s %gms at %g/s", workers,
		 weir_dist_name(work.kind), work.mean / 1e6, per_s);
	return cell;
}

static bool said_unreachable; /* by the law that ran last, at any time */
static uint64_t said_alone_ns;

static void note_report(const void *state, unsigned klass, weir_report *ret_report)
{
	weir_law_adaptive_remote.report(state, klass, ret_report);
	if (ret_report->unreachable && !said_unreachable)
		said_alone_ns = ret_report->alone_ns;
	said_unreachable |= ret_report->unreachable;
}

static struct proxy_result run_noting(const struct proxy_cell *cell)
{
	weir_admission_law law = weir_law_adaptive_remote;
	struct proxy_result result;
	law.report = note_report;
	said_unreachable = false;
	proxy_cell_run(cell, &law, fill, &result);
	return result;
}

/* Says so of a seed, or a few. */
static void expect_nobody_shed(struct proxy_cell cell)
{
	for (cell.seed = 1; cell.seed <= check_seeds(1, 3); cell.seed++) {
		struct proxy_result r = run(&cell);
		judge(&cell, &r, r.offered > 0 && r.shed == 0 && r.dropped == 0, "nobody is shed");
	}
}

/* A twentieth take 1 s, the others 10 ms, and nothing tells them apart. At most a sixtieth of the workers is busy. */
static void test_rare_slow_ones_harm_nobody(void **state)
{
	weir_dist work = {.kind = WEIR_DIST_BIMODAL, .mean = 59.5e6, .share = .05, .factor = 100};
	static const double rates[] = {50, 200, 1000};
	for (int i = 0; i < 3; i++)
		expect_nobody_shed(a_service(4000, work, rates[i], .2, i == 2 ? 15 : 40));
	expect_all_passed();
}

/* 6 a second of 3 s each beside 100 a second of 5 ms: an attack that would cost nothing. */
static void test_slow_ones_beside_quick_ones_harm_nobody(void **state)
{
	for (int lowest = 0; lowest < 2; lowest++) {
		weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 5e6};
		struct proxy_cell cell = a_service(1000, work, 106, .2, 40);
		cell.kinds = 2;
		cell.kind[0].share = 100 / 106.;
		cell.kind[1] = (struct proxy_kind){.work = work, .share = 6 / 106.};
		cell.kind[1].work.mean = 3e9;
		cell.top_share = lowest ? .5 : 0;
		proxy_cell_lots(&cell, OWN_FACTOR);
		call_it(&cell, lowest ? "two classes, slow beside quick:" : "slow beside quick:");
		expect_nobody_shed(cell);
	}
	expect_all_passed();
}

/*
 * Long polls of 25 s, as many as pages of 10 ms and more, told apart by their paths: from cold, and in waves, as when all of them come
 * back at one moment; with costs that are known, and with a table that has to learn them.
 */
static void test_long_polls_harm_nobody(void **state)
{
	static const double polls[] = {.2, .5, .7, .2, .5};
	for (int i = 0; i < 10; i++) {
		weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 10e6};
		struct proxy_cell cell = a_service(4000, work, 60, .2, 90);
		cell.kinds = 2;
		cell.kind[0].share = 1 - polls[i / 2];
		cell.kind[0].visible = true;
		cell.kind[1] = (struct proxy_kind){.work = work, .share = polls[i / 2], .visible = true};
		cell.kind[1].work.mean = 25e9;
		cell.learns = i >= 6;
		if (i % 2 != 0)
			cell.pattern = (struct proxy_pattern){.active_s = 5, .silent_s = 20};
		proxy_cell_lots(&cell, OWN_FACTOR);
		snprintf(cell.name, sizeof(cell.name), "%g of the requests are long polls%s%s", polls[i / 2],
			 i % 2 != 0 ? ", in waves" : "", cell.learns ? ", costs are learnt" : "");
		expect_nobody_shed(cell);
	}
	expect_all_passed();
}

/* An ordinary pool of threads, 100 ms each: at half of its capacity nobody is shed, and at twice it almost all of it is used. */
static void test_a_pool_of_200(void **state)
{
	weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 100e6};
	expect_nobody_shed(a_service(200, work, 1000, .3, 10));
	struct proxy_cell cell = a_service(200, work, 4000, .3, 10);
	cell.warm_s = 3;
	for (cell.seed = 1; cell.seed <= check_seeds(1, 3); cell.seed++) {
		struct proxy_result r = run(&cell);
		double capacity = 200 * cell.measure_s;
		judge(&cell, &r, r.done_s >= .9 * capacity && r.p90 <= 1.1,
		      "90 % of the capacity, p90 in 1.1 targets");
	}
	expect_all_passed();
}

/* Every answer takes 1 s: shedding would help nobody. It is said, with what they take. */
static void test_a_target_out_of_reach_is_said_and_nobody_shed(void **state)
{
	weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 1e9};
	struct proxy_cell cell = a_service(8, work, 4, .2, 60), slower = cell;
	call_it(&slower, "no slower than without a law:");
	for (cell.seed = slower.seed = 1; cell.seed <= check_seeds(1, 3); slower.seed = ++cell.seed) {
		struct proxy_result r = run_noting(&cell);
		judge(&cell, &r, r.shed == 0 && r.dropped == 0, "nobody is shed");
		judge(&cell, &r, said_unreachable, "it says that the target is unreachable");
		judge(&cell, &r, said_alone_ns > .9e9 && said_alone_ns < 1.3e9, "and what they take");
		judge(&slower, &r, r.p90 * cell.target_s < 1.2, "p90 is what they take");
	}
	expect_all_passed();
}

/* From cold, with workers to spare: requests wait for the law's own slow start, and that is no sign of overload. */
static void test_a_target_out_of_reach_from_cold_harms_nobody(void **state)
{
	weir_dist alike = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 36e6};
	weir_dist mixed = {.kind = WEIR_DIST_BIMODAL, .mean = 252e6, .share = .01, .factor = 10};
	weir_dist seconds = {.kind = WEIR_DIST_EXPONENTIAL, .mean = 583e6};
	expect_nobody_shed(a_service(200, alike, 2000, .0055, 10));
	expect_nobody_shed(a_service(4000, mixed, 1600, .0845, 15));
	expect_nobody_shed(a_service(1000, seconds, 86, .239, 40));
	expect_all_passed();
}

/* Somebody is refused before that is known. That all are late is no reason to go on with it. */
static void test_a_target_out_of_reach_is_found_out_soon(void **state)
{
	weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 20e6};
	for (int l = 0; l < 2; l++) {
		struct proxy_cell cell = a_service(1000, work, l ? 30000 : 10000, .008, 8);
		struct proxy_result r = run(&cell);
		expect(&cell, r, r.shed < .02);
	}
}

/*
 * Thousands of workers, requests of about a second, from cold: a start that doubles from one answer to the next needs many
 * seconds to give the backend as many as it can take, and those who wait for it are late. A fifth and more of them were shed.
 */
static void test_a_large_service_from_cold_harms_nobody(void **state)
{
	weir_dist half = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 560e6};
	weir_dist tight = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 1.05e9};
	weir_dist differ = {.kind = WEIR_DIST_EXPONENTIAL, .mean = 1.45e9};
	expect_nobody_shed(a_service(4000, half, 5000, 2.53, 8));
	expect_nobody_shed(a_service(4000, tight, 2285, 1.32, 13));
	/* What the law measures while it starts is its own start. */
	expect_nobody_shed(a_service(4000, differ, 1103, 17.4, 40));
	expect_all_passed();
}

static void expect_let_be(struct proxy_cell cell, double target_s)
{
	cell.target_s = target_s;
	cell.warm_s = 0;
	cell.measure_s = 200;
	for (cell.seed = 1; cell.seed <= 3; cell.seed++) {
		struct proxy_result r = run(&cell);
		judge(&cell, &r, r.shed + r.dropped <= .001, "at most one in a thousand is shed");
	}
	expect_all_passed();
}

/*
 * Two workers at 0.8 of their capacity, where p90 is two thirds of the target, and four at three quarters: queues longer than the limit come and go by
 * themselves. 2 to 4 in a thousand were shed by the two.
 */
static void test_a_queue_that_drains_is_let_be(void **state)
{
	expect_let_be(a_cell(WEIR_BACKEND_PS, 2, WEIR_DIST_DETERMINISTIC, .8), .08);
	expect_let_be(a_cell(WEIR_BACKEND_FIFO, 4, WEIR_DIST_EXPONENTIAL, .75), .12);
}

/*
 * One worker, fifteen seconds of calm, then twice its capacity. Up to 32 requests came in above the limit as long as few had been late. That is more
 * than a second of work here: p90 was 4.6 targets for as long as one looked.
 */
static void test_one_worker_is_held_after_a_calm(void **state)
{
	for (unsigned ms = 20; ms <= 50; ms += 30) {
		weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = ms * 1e6};
		struct proxy_cell cell = a_service(1, work, 500. / ms, 6 * ms / 1e3, 30);
		cell.phase[0] = (struct proxy_phase){15, 2, 1};
		cell.warm_s = 17;
		call_it(&cell, "after a calm:");
		for (cell.seed = 1; cell.seed <= 5; cell.seed++) {
			struct proxy_result r = run(&cell);
			judge(&cell, &r, r.p90 <= 1.1 && r.timely >= .9, "p90 and what is in time");
		}
	}
	expect_all_passed();
}

/*
 * Before a processor that all share, what takes ten times as long alone does so under load, too. One tail stood for both kinds: the expensive one
 * was at two to three times its target, the other at a third of it.
 */
static void test_expensive_ones_that_share_a_processor_are_in_time(void **state)
{
	weir_dist work = {.kind = WEIR_DIST_EXPONENTIAL, .mean = 5e6};
	struct proxy_cell cell = a_service(4, work, 3 * 4 / .0095, .5, 30);
	cell.backend.discipline = WEIR_BACKEND_PS;
	cell.kinds = 2;
	cell.kind[0] = (struct proxy_kind){.work = work, .share = .9, .visible = true};
	cell.kind[1] = (struct proxy_kind){.work = work, .share = .1, .visible = true};
	cell.kind[1].work.mean = 50e6;
	cell.capacity_per_s = 4 / .0095;
	cell.load = 3;
	cell.warm_s = 10;
	proxy_cell_lots(&cell, OWN_FACTOR);
	call_it(&cell, "cheap and expensive ones:");
	for (cell.seed = 1; cell.seed <= 5; cell.seed++) {
		struct proxy_result r = run(&cell);
		judge(&cell, &r, r.lot[0].p90 <= 1.1 && r.lot[1].p90 <= 1.1 && r.shed < .7,
		      "both kinds are in time");
	}
	expect_all_passed();
}

/* It copes with the load for 15 s, and then answers nobody: it is not known to cope any more, although nobody is late by an answer. */
static void test_a_backend_that_hangs_is_not_coping(void **state)
{
	struct proxy_cell cell = a_cell(WEIR_BACKEND_FIFO, 16, WEIR_DIST_EXPONENTIAL, .5);
	cell.target_s = .1;
	cell.phase[0] = (struct proxy_phase){15, .5, 0};
	cell.warm_s = 17;
	cell.measure_s = 10;
	struct proxy_result r = run(&cell);
	expect(&cell, r, r.shed > .9);
}

/* 64 at one instant, the first that it sees: with 64 workers none waits, with 16 the last are done after 80 of 200 ms. */
static void test_a_cold_burst_comes_in(void **state)
{
	static const uint32_t workers[] = {64, 16};
	for (int i = 0; i < 2; i++) {
		weir_dist work = {.kind = WEIR_DIST_DETERMINISTIC, .mean = 20e6};
		struct proxy_cell cell = a_service(workers[i], work, 64, .2, 10);
		cell.pattern.burst = 64;
		call_it(&cell, "bursts of 64:");
		expect_nobody_shed(cell);
	}
	expect_all_passed();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_part_of_the_grid),
		cmocka_unit_test(test_the_same_run_is_the_same),
		cmocka_unit_test(test_straight_into_ten_times_the_capacity),
		cmocka_unit_test(test_a_short_target_does_not_starve_the_workers),
		cmocka_unit_test(test_synchronised_completions_look_like_infinite_throughput),
		cmocka_unit_test(test_what_is_not_back_yet_looks_fast),
		cmocka_unit_test(test_long_answers_do_not_hide_congestion),
		cmocka_unit_test(test_ticks_are_longer_than_epochs),
		cmocka_unit_test(test_a_slow_start_does_not_stand_still),
		cmocka_unit_test(test_one_worker_from_cold),
		cmocka_unit_test(test_a_failure_now_and_then_is_not_an_outage),
		cmocka_unit_test(test_fast_failures_look_like_low_latency),
		cmocka_unit_test(test_hung_requests_eat_the_limit),
		cmocka_unit_test(test_a_stall_is_not_the_end),
		cmocka_unit_test(test_idle_ratchets_the_limit),
		cmocka_unit_test(test_drain_rates_while_unsaturated_are_lies),
		cmocka_unit_test(test_a_refusing_backend_is_asked_for_what_it_takes),
		cmocka_unit_test(test_thrashing_is_not_fed),
		cmocka_unit_test(test_a_round_trip_is_filled),
		cmocka_unit_test(test_half_the_speed_and_back),
		cmocka_unit_test(test_a_small_server_at_any_load),
		cmocka_unit_test(test_a_small_server_that_slows_down),
		cmocka_unit_test(test_the_lowest_class_is_shed_first),
		cmocka_unit_test(test_retries_do_not_keep_it_down),
		cmocka_unit_test(test_rare_slow_ones_harm_nobody),
		cmocka_unit_test(test_slow_ones_beside_quick_ones_harm_nobody),
		cmocka_unit_test(test_long_polls_harm_nobody),
		cmocka_unit_test(test_a_pool_of_200),
		cmocka_unit_test(test_a_target_out_of_reach_is_said_and_nobody_shed),
		cmocka_unit_test(test_a_target_out_of_reach_from_cold_harms_nobody),
		cmocka_unit_test(test_a_target_out_of_reach_is_found_out_soon),
		cmocka_unit_test(test_a_large_service_from_cold_harms_nobody),
		cmocka_unit_test(test_a_queue_that_drains_is_let_be),
		cmocka_unit_test(test_one_worker_is_held_after_a_calm),
		cmocka_unit_test(test_expensive_ones_that_share_a_processor_are_in_time),
		cmocka_unit_test(test_a_backend_that_hangs_is_not_coping),
		cmocka_unit_test(test_a_cold_burst_comes_in),
	};
	return cmocka_run_group_tests_name("adaptive-remote", tests, NULL, NULL);
}
