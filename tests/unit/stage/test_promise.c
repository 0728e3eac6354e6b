/* SPDX-License-Identifier: Apache-2.0 */
/* Promised times: late completions are counted, and the law's target follows. Reports of servers: checked, passed on. */
#include "support/worlds.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Completes one event of the class that takes this long. */
static void complete_after(weir_world *world, struct probe *probe, unsigned klass, uint64_t took_ns,
			   bool well)
{
	struct job job;
	job_init(&job, 1, klass);
	probe->act = PROBE_HOLD;
	assert_int_equal(weir_offer(probe->stage, &job.event), WEIR_ADMITTED);
	world_run(world, took_ns);
	if (well)
		weir_done(&job.event);
	else
		weir_fail(&job.event);
}

static uint64_t late_of(const struct probe *probe, unsigned klass)
{
	weir_stage_stats stats;
	weir_stage_read(probe->stage, klass, &stats);
	return stats.late;
}

static void completions_later_than_promised_are_counted(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {0};
		uint64_t promise[WEIR_CLASSES] = {20 * WEIR_NS_PER_MS, 0, 50 * WEIR_NS_PER_MS},
			 none[WEIR_CLASSES] = {0};
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
		must(weir_world_start(world));
		complete_after(world, &probe, 0, 30 * WEIR_NS_PER_MS, true); /* nothing is promised yet */
		assert_int_equal(late_of(&probe, WEIR_ALL_CLASSES), 0);
		assert_int_equal(weir_stage_promise(probe.stage, promise), -ENOTSUP); /* there is no law */
		complete_after(world, &probe, 0, 10 * WEIR_NS_PER_MS, true);
		complete_after(world, &probe, 0, 30 * WEIR_NS_PER_MS, true);
		complete_after(world, &probe, 0, 30 * WEIR_NS_PER_MS,
			       false); /* it failed: not completed late */
		complete_after(world, &probe, 1, 30 * WEIR_NS_PER_MS, true); /* as the class above */
		complete_after(world, &probe, 2, 30 * WEIR_NS_PER_MS, true);
		complete_after(world, &probe, 3, 60 * WEIR_NS_PER_MS, true);
		assert_int_equal(late_of(&probe, 0), 1);
		assert_int_equal(late_of(&probe, 1), 1);
		assert_int_equal(late_of(&probe, 2), 0);
		assert_int_equal(late_of(&probe, 3), 1);
		must(weir_stage_promise(probe.stage, none));
		complete_after(world, &probe, 0, 30 * WEIR_NS_PER_MS, true);
		assert_int_equal(late_of(&probe, WEIR_ALL_CLASSES), 3);
		world_end(&world);
	}
}

static void check_follows(const weir_admission_law *law, void *params)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_DONE};
	uint64_t promise[WEIR_CLASSES] = {2 * WEIR_NS_PER_S, 0, 3 * WEIR_NS_PER_S};
	weir_report report;
	probe_open(&probe, domain_reactor(world, "d", 1),
		   (weir_stage_options){.admission = law, .admission_params = params});
	must(weir_world_start(world));
	must(weir_stage_promise(probe.stage, promise));
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		assert_true(weir_stage_report(probe.stage, k, &report));
		assert_int_equal(report.target_ns, (k < 2 ? 2 : 3) * WEIR_NS_PER_S);
	}
	world_end(&world);
}

static void the_laws_target_follows(void **state)
{
	weir_adaptive_params own;
	weir_adaptive_remote_params remote;
	weir_law_defaults(&weir_law_adaptive, &own);
	weir_law_defaults(&weir_law_adaptive_remote, &remote);
	own.target_ns[0] = remote.target_ns[0] = WEIR_NS_PER_S;
	check_follows(&weir_law_adaptive, &own);
	check_follows(&weir_law_adaptive_remote, &remote);
}

static void absurd_promises_are_refused(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	uint64_t short_one[WEIR_CLASSES] = {999},
		 long_one[WEIR_CLASSES] = {WEIR_NS_PER_S, 3601 * WEIR_NS_PER_S};
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	assert_int_equal(weir_stage_promise(probe.stage, short_one), -EINVAL);
	assert_int_equal(weir_stage_promise(probe.stage, long_one), -EINVAL);
	assert_non_null(strstr(weir_error(), "from 1us to 1h"));
	world_end(&world);
}

/* ---- reports ---- */

static weir_verdict any_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static weir_told heard;
static unsigned heard_count;

static void any_told(void *state, const weir_told *told)
{
	heard = *told;
	heard_count++;
}

static const weir_admission_law hears = {.name = "hears", .admit = any_admit, .told = any_told};

static void reports_reach_the_law(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	weir_told told = {
		.servers = 3, .reports = 2, .processors = 4, .queue_s = .1, .in_service = -1, .busy = .5};
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	assert_int_equal(weir_stage_tell(probe.stage, &told), -ENOTSUP);
	must(weir_stage_admission(probe.stage, &hears, NULL));
	heard_count = 0;
	must(weir_stage_tell(probe.stage, &told));
	assert_int_equal(heard_count, 1);
	assert_int_equal(heard.reports, 2);
	world_end(&world);
}

static void numbers_that_cannot_be_never_reach_it(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	const weir_told sound = {.reports = 1, .queue_s = .1, .in_service = 1, .busy = .5, .processors = 1};
	const double bad[] = {NAN, INFINITY, -INFINITY, 1e12};
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){.admission = &hears});
	heard_count = 0;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		weir_told told[4] = {sound, sound, sound, sound};
		told[0].queue_s = told[1].in_service = told[2].busy = told[3].processors = bad[i];
		for (unsigned at = 0; at < 4; at++)
			assert_int_equal(weir_stage_tell(probe.stage, &told[at]), -EINVAL);
	}
	assert_int_equal(heard_count, 0);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_later_than_promised_are_counted),
		cmocka_unit_test(the_laws_target_follows),
		cmocka_unit_test(absurd_promises_are_refused),
		cmocka_unit_test(reports_reach_the_law),
		cmocka_unit_test(numbers_that_cannot_be_never_reach_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
