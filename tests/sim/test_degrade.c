/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Degradation before rejection under the default laws: services whose time is in proportion to the quality that they are asked for, at 2 and 10 times what they can
 * do at the best of it. Over two seeds, or five.
 */
#include "support/worlds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/run.h"

static const char loads[] = "[load crowd]\nrate = 0.5x, 20s 2x, 60s 0.5x, 80s 10x, 100s 0.5x\n";
static const char remote[] =
	"[scenario]\nduration = 120s\nwindow = 100ms\n"
	"[backend server]\nworkers = 16\n"
	"[stage s]\nworkers = 2000\ncapacity = 4000\nbackend = server\nwork = exponential 10ms\n"
	"law = adaptive-remote\np90 = 200ms\n";
static const char own[] = "[scenario]\nduration = 120s\nwindow = 100ms\n"
			  "[stage s]\nworkers = 16\ncapacity = 4000\nservice = exponential 10ms\n"
			  "law = adaptive\np90 = 200ms\n";

struct ran {
	weir_scenario *scenario;
	weir_run *run;
	uint64_t seed;
};

static struct ran ran(const char *service, const char *more, uint64_t seed)
{
	struct ran r = {.seed = seed};
	char text[2048];
	snprintf(text, sizeof(text), "%s%s%s", service, more, loads);
	if (weir_scenario_parse("test.sim", text, strlen(text), &r.scenario) < 0 ||
	    weir_scenario_check(r.scenario) < 0 || weir_run_new(r.scenario, seed, "test", &r.run) < 0)
		fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, weir_error(), text);
	return r;
}

static void end(struct ran *r)
{
	weir_run_free(&r->run);
	weir_scenario_free(&r->scenario);
}

#define expect(r, x)                                                                                        \
	do {                                                                                                \
		if (!(x))                                                                                   \
			fail_msg("%s:%d: seed %llu: %s", __FILE__, __LINE__, (unsigned long long)(r)->seed, \
				 #x);                                                                       \
	} while (0)

/* ---- windows ---- */

static double quality_at(const struct ran *r, double at_s)
{
	return (double)r->run->record->trace[0].value[(unsigned)(at_s * 10 + .5)][WEIR_TRACE_QUALITY];
}

struct stretch {
	double least, most, shed, worst_p90_ms;
};

static struct stretch look(const struct ran *r, double from_s, double to_s)
{
	struct stretch s = {.least = 1};
	double offered = 0, shed = 0;
	for (unsigned w = (unsigned)(from_s * 10); w < (unsigned)(to_s * 10); w++) {
		const weir_sim_window *window = weir_record_at(r->run->record, w, WEIR_CLASSES);
		double quality = quality_at(r, w / 10.);
		s.least = fmin(s.least, quality);
		s.most = fmax(s.most, quality);
		offered += (double)window->offered;
		shed += (double)(window->shed + window->dropped);
		s.worst_p90_ms = fmax(s.worst_p90_ms, (double)window->p90_ms);
	}
	s.shed = shed / offered;
	return s;
}

/* ---- */

/* away: the share that may be turned away at twice the load; off: how far quality may be from half there. */
static void expect_degradation_first(const char *service, double away, double off)
{
	for (uint64_t seed = 1; seed <= check_seeds(2, 5); seed++) {
		struct ran r = ran(service, "degrade = 0\nquality_min = .3\n", seed);
		struct stretch calm = look(&r, 5, 20), twice = look(&r, 30, 60), ten = look(&r, 85, 100);
		expect(&r, calm.least == 1 && calm.shed == 0);
		/* Twice the load is half the quality, within a tenth, and nobody is turned away. */
		expect(&r, twice.shed < away);
		expect(&r, twice.most - twice.least <= 1.2 * off);
		expect(&r, twice.least > .5 - off && twice.most < .5 + off);
		expect(&r, twice.worst_p90_ms <= 220);
		expect(&r, quality_at(&r, 65) == 1);
		/* At ten times it is at its lowest, and what does not fit is shed: 10 - 1 / .3 of 10. */
		expect(&r, ten.least > .299 && ten.most < .31);
		expect(&r, ten.shed > .64 && ten.shed < .72);
		expect(&r, quality_at(&r, 107) == 1);
		end(&r);
	}
}

static void before_a_backend(void **state)
{
	expect_degradation_first(remote, .01, .17);
}

static void before_its_own_queue(void **state)
{
	expect_degradation_first(own, .001, .1);
}

static bool same_window(const weir_sim_window *a, const weir_sim_window *b)
{
	return a->offered == b->offered && a->shed == b->shed && a->dropped == b->dropped &&
	       a->completed == b->completed && a->useful == b->useful && a->p50_ms == b->p50_ms &&
	       a->p90_ms == b->p90_ms && a->p99_ms == b->p99_ms;
}

/* A service that does not heed it is controlled as if nobody asked, to the last request. One seed or two: either they are the same or they are not. */
static void nothing_else_changes(void **state)
{
	for (int which = 0; which < 2; which++)
		for (uint64_t seed = 1; seed <= check_seeds(1, 2); seed++) {
			const char *service = which == 0 ? remote : own;
			struct ran asked = ran(service, "quality_min = .1\n", seed),
				   never = ran(service, "quality_min = 1\n", seed);
			expect(&asked, look(&asked, 85, 100).least < .11);
			expect(&never, look(&never, 85, 100).least == 1);
			for (unsigned w = 0; w < 1200; w++)
				expect(&asked,
				       same_window(weir_record_at(asked.run->record, w, WEIR_CLASSES),
						   weir_record_at(never.run->record, w, WEIR_CLASSES)));
			end(&asked);
			end(&never);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(before_a_backend),
		CHECK_TEST(before_its_own_queue),
		CHECK_TEST(nothing_else_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
