/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delays of policing in batches, against a Monte Carlo simulation of the system that Cataclysm's section 3.4
 * analyses.
 */
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/sim.h>

#include "control/police_delays.h"

#define NS 1e9

/* ---- the system ---- */

#define PLACES_MOST 512
#define NEVER       1e18

typedef enum shape { UNIFORM, EXPONENTIAL, LOGNORMAL } shape;

struct mc {
	unsigned classes, places;
	double rate[WEIR_CLASSES], mean_s[WEIR_CLASSES], delay_s[WEIR_CLASSES];
	shape service;
	weir_random random;
	/* what is there now */
	double ends[PLACES_MOST];
	unsigned of[PLACES_MOST], inside, inside_of[WEIR_CLASSES], waiting[WEIR_CLASSES];
	/* what was seen */
	double visits[WEIR_CLASSES], bad_visits[WEIR_CLASSES]; /* A_i */
	double arrived[WEIR_CLASSES],
		bad[WEIR_CLASSES]; /* requests, and those dropped while a lesser is inside */
	double tests[WEIR_CLASSES], failed[WEIR_CLASSES]; /* judgements of somebody */
};

static double draw(struct mc *mc, unsigned k)
{
	if (mc->service == UNIFORM)
		return mc->mean_s[k] * (.5 + weir_random_unit(&mc->random));
	if (mc->service == EXPONENTIAL)
		return weir_random_exponential(&mc->random, mc->mean_s[k]);
	return mc->mean_s[k] * exp(weir_random_normal(&mc->random) - .5);
}

static void leave_until(struct mc *mc, double now)
{
	for (unsigned i = 0; i < mc->inside;) {
		if (mc->ends[i] > now) {
			i++;
			continue;
		}
		mc->inside_of[mc->of[i]]--;
		mc->inside--;
		mc->ends[i] = mc->ends[mc->inside];
		mc->of[i] = mc->of[mc->inside];
	}
}

static bool lesser_inside(const struct mc *mc, unsigned k)
{
	for (unsigned j = k + 1; j < mc->classes; j++)
		if (mc->inside_of[j] != 0)
			return true;
	return false;
}

/* Judges one request; a place is held for N times the service time. */
static bool enter(struct mc *mc, unsigned k, double now)
{
	if (mc->inside == mc->places)
		return false;
	mc->ends[mc->inside] = now + mc->places * draw(mc, k);
	mc->of[mc->inside++] = k;
	mc->inside_of[k]++;
	return true;
}

static void judge(struct mc *mc, unsigned k, unsigned count, double now)
{
	bool lesser = lesser_inside(mc, k), denied = false, somebody = count > 0;
	mc->visits[k]++;
	for (; count > 0; count--)
		if (!enter(mc, k, now)) {
			denied = true;
			mc->bad[k] += lesser;
		}
	mc->tests[k] += somebody;
	mc->failed[k] += denied;
	mc->bad_visits[k] += denied && lesser;
}

static void run(struct mc *mc, double seconds)
{
	double next_in[WEIR_CLASSES], next_visit[WEIR_CLASSES];
	for (unsigned k = 0; k < mc->classes; k++) {
		next_in[k] = weir_random_exponential(&mc->random, 1 / mc->rate[k]);
		next_visit[k] = mc->delay_s[k] > 0 ? mc->delay_s[k] : NEVER;
	}
	for (double now = 0; now < seconds;) {
		unsigned at = 0;
		bool visit = false;
		now = NEVER;
		for (unsigned k = 0; k < mc->classes; k++) {
			/* Visits of one instant: the most important first, and before arrivals. */
			if (next_visit[k] < now || (next_visit[k] <= now && !visit))
				now = next_visit[k], at = k, visit = true;
			if (next_in[k] < now)
				now = next_in[k], at = k, visit = false;
		}
		leave_until(mc, now);
		if (visit) {
			/* The visit begins with the more important classes, whoever waits there. */
			for (unsigned k = 0; k <= at; k++) {
				if (mc->delay_s[k] <= 0)
					continue;
				judge(mc, k, mc->waiting[k], now);
				mc->waiting[k] = 0;
				next_visit[k] = now + mc->delay_s[k];
			}
			continue;
		}
		mc->arrived[at]++;
		next_in[at] = now + weir_random_exponential(&mc->random, 1 / mc->rate[at]);
		if (mc->delay_s[at] > 0)
			mc->waiting[at]++;
		else
			judge(mc, at, 1, now);
	}
}

static double p_drop_of(const struct mc *mc)
{
	double tests = 0, failed = 0;
	for (unsigned k = 0; k < mc->classes; k++)
		tests += mc->tests[k], failed += mc->failed[k];
	return tests > 0 ? failed / tests : 0;
}

static void model_of(const struct mc *mc, const double *filled, double p_drop, weir_delays_model *ret_model)
{
	struct mc draws = *mc;
	*ret_model = (weir_delays_model){.classes = mc->classes, .places = mc->places, .p_drop = p_drop};
	double all = 0, work = 0;
	for (unsigned k = 0; k < mc->classes; k++) {
		static weir_times times;
		weir_times_sum sum = {0};
		memset(&times, 0, sizeof(times));
		for (unsigned i = 0; i < 10000; i++)
			weir_times_add(&times, (uint64_t)(draw(&draws, k) * NS));
		weir_times_sum_up(&sum, &times, 0);
		weir_delays_service(ret_model, k, &sum);
		ret_model->rate[k] = mc->rate[k];
		ret_model->filled[k] = filled[k];
		all += mc->rate[k];
		work += mc->rate[k] * mc->mean_s[k];
	}
	ret_model->freed = all / work;
}

/* As the law does: measures, solves, and again, since what is filled depends on the delays. */
static double settle(struct mc *mc, double epsilon, double most_s, uint64_t seed, double seconds,
		     weir_delays_model *ret_model)
{
	double chance = 0, filled[WEIR_CLASSES] = {0};
	weir_random_init(&mc->random, seed);
	const struct mc empty = *mc;
	for (unsigned round = 0; round < 6; round++) {
		double delay_s[WEIR_CLASSES];
		weir_random random = mc->random;
		model_of(mc, filled, p_drop_of(mc), ret_model);
		chance = weir_delays_solve(ret_model, epsilon, most_s, delay_s);
		*mc = empty;
		mc->random = random;
		memcpy(mc->delay_s, delay_s, sizeof(delay_s));
		run(mc, seconds);
		for (unsigned k = 0; k < mc->classes; k++)
			filled[k] = mc->tests[k] > 0 ? mc->failed[k] / mc->tests[k] : 0;
	}
	return chance;
}

/* ---- tests ---- */

#define EPSILON .1

struct cell {
	unsigned places;
	double load, first, second; /* over what the server can do: all, class 0, class 1 */
	shape service;
};

static struct mc open_cell(const struct cell *cell)
{
	struct mc mc = {.classes = 3, .places = cell->places, .service = cell->service};
	double per_s = 60;
	mc.rate[0] = cell->first * per_s;
	mc.rate[1] = cell->second * per_s;
	mc.rate[2] = (cell->load - cell->first - cell->second) * per_s;
	for (unsigned k = 0; k < 3; k++)
		mc.mean_s[k] = 1 / per_s;
	return mc;
}

static void expect_kept(uint64_t seed, const struct cell *cell)
{
	struct mc mc = open_cell(cell);
	weir_delays_model model;
	double chance = settle(&mc, EPSILON, 2, seed, 300, &model);
	assert_for_seed(seed, chance < EPSILON);
	assert_for_seed(seed, mc.delay_s[0] == 0 && mc.delay_s[1] <= mc.delay_s[2] && mc.delay_s[2] <= 2);
	for (unsigned k = 0; k < 2; k++)
		assert_for_seed(seed, mc.bad[k] / mc.arrived[k] < EPSILON);
	assert_for_seed(seed, mc.bad_visits[1] <= EPSILON * mc.visits[1]);
}

static void no_class_is_denied_for_a_lesser_one(void **state)
{
	static const struct cell cells[] = {
		{60, 1.2, .3, .3, EXPONENTIAL}, {60, 2, .3, .3, UNIFORM},       {60, 2, .3, .3, LOGNORMAL},
		{60, 10, .3, .3, EXPONENTIAL},  {20, 2, .3, .3, EXPONENTIAL},   {200, 5, .3, .3, EXPONENTIAL},
		{60, 2, .1, .6, EXPONENTIAL},   {60, 1.5, .5, .2, EXPONENTIAL},
	};
	for (unsigned c = 0; c < sizeof(cells) / sizeof(cells[0]); c++)
		for (uint64_t seed = 1; seed <= 3; seed++)
			expect_kept(100 * c + seed, &cells[c]);
}

/* The same system with delays that are too short. */
static void without_them_it_is(void **state)
{
	static const struct cell cell = {60, 2, .3, .3, EXPONENTIAL};
	struct mc mc = open_cell(&cell);
	weir_random_init(&mc.random, 7);
	mc.delay_s[1] = .01;
	mc.delay_s[2] = .02;
	run(&mc, 300);
	assert_true(mc.bad[0] / mc.arrived[0] > 2 * EPSILON);
	assert_true(mc.bad[1] / mc.arrived[1] > 2 * EPSILON);
}

static void there_are_none_while_there_is_capacity(void **state)
{
	static const struct cell cell = {60, .7, .3, .3, EXPONENTIAL};
	struct mc mc = open_cell(&cell);
	weir_delays_model model;
	settle(&mc, EPSILON, 1, 1, 300, &model);
	for (unsigned k = 0; k < 3; k++)
		assert_true(mc.delay_s[k] == 0);
}

static void they_stay_within_their_bound(void **state)
{
	static const struct cell cell = {60, 2, .9, .9, EXPONENTIAL};
	struct mc mc = open_cell(&cell);
	weir_delays_model model;
	double chance = settle(&mc, EPSILON, .25, 1, 100, &model);
	assert_true(chance > EPSILON);
	assert_true(mc.delay_s[2] <= .25 && mc.delay_s[1] > .2);
}

/* What the header says about the equations as written. */
static void as_written_they_promise_too_much(void **state)
{
	static const struct cell cell = {60, 2, .3, .3, EXPONENTIAL};
	const double none[WEIR_CLASSES] = {0}, usual[WEIR_CLASSES] = {0, .25, .75};
	struct mc mc = open_cell(&cell);
	weir_delays_model model;
	weir_random_init(&mc.random, 3);
	memcpy(mc.delay_s, usual, sizeof(usual));
	run(&mc, 300);
	const double filled[WEIR_CLASSES] = {0};
	model_of(&mc, filled, p_drop_of(&mc), &model);
	assert_true(weir_delays_as_written(&model, none, 1) == 0);
	assert_true(weir_delays_as_written(&model, usual, 0) == 0);
	assert_true(weir_delays_as_written(&model, usual, 2) == 0);
	double written = weir_delays_as_written(&model, usual, 1), seen = mc.bad_visits[1] / mc.visits[1];
	assert_true(written > 0 && seen > 4 * written);
	/* The sum of probabilities over the visits is none. */
	model.p_drop = .5;
	model.rate[0] = model.rate[1] = .5;
	model.rate[2] = 500;
	assert_true(weir_delays_as_written(&model, (const double[WEIR_CLASSES]){0, 1, 1}, 1) < 1);
	assert_true(weir_delays_as_written(&model, (const double[WEIR_CLASSES]){0, 5, .001}, 1) > 1);
}

/* Two classes, one class, none, and rates of 0 are no special cases to the caller. */
static void few_classes(void **state)
{
	double delay_s[WEIR_CLASSES];
	weir_delays_model model = {.freed = 100};
	assert_true(weir_delays_solve(&model, EPSILON, 1, delay_s) == 0 && delay_s[7] == 0);
	model = (weir_delays_model){.classes = 1, .rate = {50}, .filled = {1}, .freed = 100};
	assert_true(weir_delays_solve(&model, EPSILON, 1, delay_s) == 0 && delay_s[7] == 0);
	model = (weir_delays_model){.classes = 2, .rate = {50, 100}, .filled = {0, 1}, .freed = 100};
	assert_true(weir_delays_solve(&model, EPSILON, 1, delay_s) < EPSILON);
	/* 1 / ((100 - 50) d) = .09 */
	assert_true(fabs(delay_s[1] - 1 / (50 * .09)) < .001 && delay_s[7] == delay_s[1]);
	model.rate[0] = 0;
	assert_true(weir_delays_solve(&model, EPSILON, 1, delay_s) == 0 && delay_s[1] == 0);
	model = (weir_delays_model){.classes = 3, .rate = {100, 100, 1}, .filled = {1, 1, 1}, .freed = 100};
	assert_true(weir_delays_solve(&model, EPSILON, 1, delay_s) > 0 && delay_s[1] <= delay_s[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_class_is_denied_for_a_lesser_one),
		cmocka_unit_test(without_them_it_is),
		cmocka_unit_test(there_are_none_while_there_is_capacity),
		cmocka_unit_test(they_stay_within_their_bound),
		cmocka_unit_test(as_written_they_promise_too_much),
		cmocka_unit_test(few_classes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
