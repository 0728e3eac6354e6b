/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline laws on a real stage in the virtual world: what each promises, what it is known not to do, and that everything adds up. The bounds
 * are those a correct implementation meets with room to spare; how good the laws are is for the benchmark of the laws to say.
 */
#include "sim/rig.h"

#include <math.h>
#include <string.h>

#define MS 1e6

#define PARAMS(...)               \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static const weir_dist exponential = {.kind = WEIR_DIST_EXPONENTIAL, .mean = 10 * MS};

/* Four workers, 10 ms each: 400 a second. */
static void open_rig(struct rig *rig, const weir_admission_law *law, const char *const *params, uint64_t seed)
{
	rig_open(rig,
		 (struct rig_options){
			 .law = law, .params = params, .service = exponential, .workers = 4, .seed = seed});
}

static void open_newest(struct rig *rig, const char *const *params)
{
	rig_open(rig, (struct rig_options){.law = &weir_law_codel,
					   .params = params,
					   .service = exponential,
					   .workers = 4,
					   .order = WEIR_NEWEST_LATE,
					   .newest_after_ns = 100 * WEIR_NS_PER_MS,
					   .seed = 1});
}

/* At this load, from a second after it began, for 20 s. */
static void measure_at(struct rig *rig, double load, double settle_s)
{
	rig_load(rig, load);
	rig_run(rig, settle_s);
	rig_measure(rig);
	rig_run(rig, CHECK_SLOW ? 5 : 20);
}

static void expect(const char *what, double value, double low, double high)
{
	if (!(value >= low && value <= high))
		fail_msg("%s is %g, not within %g and %g", what, value, low, high);
}

/* ---- fixed ---- */

static void a_rate_is_kept(void **state)
{
	struct rig rig;
	open_rig(&rig, &weir_law_fixed, PARAMS("rate", "300", "burst", "10"), 1);
	measure_at(&rig, 3, 1);
	double seconds = (double)(weir_world_now(rig.world) - rig.began_ns) / 1e9;
	expect("admitted a second", (double)(rig.offered - rig.shed) / seconds, 299, 301);
	assert_int_equal(rig.shed, rig.shed_why[WEIR_SHED_RATE]);
	rig_close(&rig);
}

static void a_number_inside_is_kept(void **state)
{
	struct rig rig;
	open_rig(&rig, &weir_law_fixed, PARAMS("concurrency", "24"), 1);
	measure_at(&rig, 10, 1);
	assert_int_equal(rig.most_inside, 24);
	expect("work", rig_busy(&rig), .97, 1.03);
	expect("p90, ms", rig_quantile(&rig, .9) / MS, 50, 100);
	assert_int_equal(rig.shed, rig.shed_why[WEIR_SHED_LIMIT]);
	rig_close(&rig);
}

/* In a dry run it says what it would do, and does nothing; back in force the number holds again. */
static void a_dry_run_leaves_the_count_right(void **state)
{
	struct rig rig;
	weir_stage_stats stats;
	open_rig(&rig, &weir_law_fixed, PARAMS("concurrency", "8"), 1);
	weir_stage_mode(rig.stage, WEIR_DRY_RUN);
	measure_at(&rig, 1.2, 1);
	weir_stage_read(rig.stage, 0, &stats);
	assert_int_equal(rig.shed, 0);
	assert_true(stats.spared[WEIR_SHED_LIMIT] > stats.offered / 2);
	weir_stage_mode(rig.stage, WEIR_ENFORCE);
	rig_load(&rig, .1);
	rig_run(&rig, 20);
	measure_at(&rig, 3, 1);
	assert_int_equal(rig.most_inside, 8);
	rig_close(&rig);
}

/* ---- red ---- */

static void red_holds_a_standing_queue(void **state)
{
	static const double loads[] = {1.4, 2, 10};
	for (int i = 0; i < 3; i++) {
		struct rig rig;
		open_rig(&rig, &weir_law_red, PARAMS("p90", "200ms"), 1);
		measure_at(&rig, loads[i], 5);
		expect("p90, ms", rig_quantile(&rig, .9) / MS, 50, 220);
		expect("work", rig_busy(&rig), .95, 1.03);
		assert_int_equal(rig.dropped, 0);
		rig_close(&rig);
	}
}

static void red_refuses_nothing_at_half_load(void **state)
{
	struct rig rig;
	open_rig(&rig, &weir_law_red, PARAMS("p90", "200ms"), 1);
	measure_at(&rig, .5, 1);
	assert_int_equal(rig.shed, 0);
	rig_close(&rig);
}

static uint64_t red_life(const char *seed)
{
	struct rig rig;
	open_rig(&rig, &weir_law_red, PARAMS("p90", "200ms", "seed", seed), 5);
	measure_at(&rig, 1.5, 1);
	uint64_t hash = rig.shed * 1000003 + rig.completed * 10007 + (uint64_t)rig_quantile(&rig, .5);
	rig_close(&rig);
	return hash;
}

static void red_repeats_itself(void **state)
{
	assert_true(red_life("1") == red_life("1"));
	assert_true(red_life("1") != red_life("2"));
}

/* ---- codel ---- */

static void codel_holds_the_target(void **state)
{
	static const char *const timeouts[] = {"off", "on"};
	for (int i = 0; i < 4; i++) {
		struct rig rig;
		const char *const *params = PARAMS("p90", "200ms", "timeouts", timeouts[i % 2]);
		if (i < 2)
			open_rig(&rig, &weir_law_codel, params, 1);
		else
			open_newest(&rig, params);
		measure_at(&rig, 2, 5);
		expect("p90, ms", rig_quantile(&rig, .9) / MS, 10, 200);
		expect("work", rig_busy(&rig), .95, 1.03);
		assert_int_equal(rig.shed, 0);
		assert_int_equal(rig.dropped, rig.dropped_why[WEIR_SHED_WAITED]);
		rig_close(&rig);
	}
}

/* What newest-first is for: of those that are served most are served at once. */
static void newest_first_serves_most_at_once(void **state)
{
	struct rig fifo, newest;
	open_rig(&fifo, &weir_law_codel, PARAMS("p90", "200ms"), 1);
	open_newest(&newest, PARAMS("p90", "200ms"));
	measure_at(&fifo, 2, 5);
	measure_at(&newest, 2, 5);
	expect("median in order, ms", rig_quantile(&fifo, .5) / MS, 100, 200);
	expect("median newest first, ms", rig_quantile(&newest, .5) / MS, 1, 50);
	rig_close(&fifo);
	rig_close(&newest);
}

/* The RFC's law alone is for senders that slow down: under a load that does not, the queue grows for long. */
static void codel_alone_is_too_slow_for_open_load(void **state)
{
	struct rig rig;
	open_rig(&rig, &weir_law_codel, PARAMS("p90", "200ms", "patience", "1h"), 1);
	measure_at(&rig, 2, 5);
	assert_true(rig_quantile(&rig, .9) / MS > 400);
	assert_true(rig.dropped > 0);
	rig_close(&rig);
}

/* ---- gradient ---- */

static void gradient_holds_the_target(void **state)
{
	static const double loads[] = {1.4, 2, 10};
	for (int i = 0; i < 3; i++) {
		struct rig rig;
		open_rig(&rig, &weir_law_gradient, PARAMS("p90", "200ms"), 1);
		measure_at(&rig, loads[i], 10);
		expect("p90, ms", rig_quantile(&rig, .9) / MS, 120, 220);
		expect("work", rig_busy(&rig), .97, 1.03);
		rig_close(&rig);
	}
}

/* A minute of little load, then ten times too much: the limit has not grown meanwhile. */
static void gradient_does_not_ratchet_in_idleness(void **state)
{
	struct rig rig;
	open_rig(&rig, &weir_law_gradient, PARAMS("p90", "200ms"), 1);
	measure_at(&rig, 2, 10);
	uint32_t before = rig_report(&rig).limit;
	rig_load(&rig, .1);
	rig_run(&rig, 60);
	assert_true(rig_report(&rig).limit <= before + 20);
	measure_at(&rig, 10, 0);
	assert_true(rig.most_inside <= before + 30);
	rig_close(&rig);
}

static void gradient_starts_warm(void **state)
{
	struct rig rig;
	char text[64];
	open_rig(&rig, &weir_law_gradient, PARAMS("p90", "1s"), 1);
	measure_at(&rig, 2, 60);
	assert_true(weir_stage_save(rig.stage, text, sizeof(text)) > 0);
	uint32_t learnt = rig_report(&rig).limit;
	rig_close(&rig);
	assert_true(learnt > 100);
	open_rig(&rig, &weir_law_gradient, PARAMS("p90", "1s"), 1);
	must(weir_stage_load(rig.stage, text));
	assert_int_equal(rig_report(&rig).limit, learnt);
	rig_close(&rig);
}

/* ---- all ---- */

static const struct baseline {
	const char *law, *params[6];
} baselines[] = {
	{"fixed", {"concurrency", "20", "rate", "380", NULL}},
	{"red", {"p90", "200ms", NULL}},
	{"codel", {"p90", "200ms", NULL}},
	{"codel", {"p90", "200ms", "timeouts", "on", NULL}},
	{"gradient", {"p90", "200ms", NULL}},
};

static void expect_inside(const struct rig *rig, uint64_t seed, double inside)
{
	weir_report report = rig_report(rig);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, "inside") == 0 && report.value[i].value != inside)
			fail_msg("seed %llu: law %s counts %g inside, not %g", (unsigned long long)seed,
				 report.law, report.value[i].value, inside);
}

/* Through steps up and down with a queue that overflows too: offers are completed, shed or dropped, and laws that count are right. */
static void everything_adds_up(void **state)
{
	uint64_t first = check_env("WEIR_SEED", 1), last = first + (CHECK_SLOW ? 2 : 10);
	for (uint64_t seed = first; seed < last; seed++)
		for (size_t i = 0; i < sizeof(baselines) / sizeof(baselines[0]); i++) {
			struct rig rig;
			rig_open(&rig, (struct rig_options){.law = weir_law_find(baselines[i].law),
							    .params = baselines[i].params,
							    .service = exponential,
							    .workers = 4,
							    .capacity = 30,
							    .order = seed % 2 ? WEIR_FIFO : WEIR_NEWEST_LATE,
							    .newest_after_ns = 50 * WEIR_NS_PER_MS,
							    .seed = seed});
			static const double loads[] = {.5, 3, .8, 20, 0};
			for (int l = 0; l < 5; l++) {
				rig_load(&rig, loads[l]);
				rig_run(&rig, 2);
				expect_inside(&rig, seed, rig.inside);
			}
			if (rig.offered != rig.completed + rig.shed + rig.dropped || rig.inside != 0)
				fail_msg("seed %llu: law %s", (unsigned long long)seed, baselines[i].law);
			rig_close(&rig);
		}
}

/* After ten times too much, half load is soon served in full; the average of `red` takes longest to forget. */
static void all_recover(void **state)
{
	for (size_t i = 0; i < sizeof(baselines) / sizeof(baselines[0]); i++) {
		struct rig rig;
		open_rig(&rig, weir_law_find(baselines[i].law), baselines[i].params, 3);
		rig_load(&rig, 10);
		rig_run(&rig, 10);
		measure_at(&rig, .5, 3);
		if (rig_lost(&rig) > .001)
			fail_msg("law %s loses %g", baselines[i].law, rig_lost(&rig));
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_rate_is_kept),
		CHECK_TEST(a_number_inside_is_kept),
		CHECK_TEST(a_dry_run_leaves_the_count_right),
		CHECK_TEST(red_holds_a_standing_queue),
		CHECK_TEST(red_refuses_nothing_at_half_load),
		CHECK_TEST(red_repeats_itself),
		CHECK_TEST(codel_holds_the_target),
		CHECK_TEST(newest_first_serves_most_at_once),
		CHECK_TEST(codel_alone_is_too_slow_for_open_load),
		CHECK_TEST(gradient_holds_the_target),
		CHECK_TEST(gradient_does_not_ratchet_in_idleness),
		CHECK_TEST(gradient_starts_warm),
		CHECK_TEST(everything_adds_up),
		CHECK_TEST(all_recover),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
