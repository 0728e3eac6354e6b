/* SPDX-License-Identifier: Apache-2.0 */
/* What a stage has around its law: modes, a ceiling, limits, patience, reading, warm start, notices; and what a law is told of. */
#include "support/worlds.h"

#include "stage/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- a law that does as it is told, and counts ---- */

#define LANES 4

struct script {
	weir_verdict admit, start; /* its answers */
	uint32_t limit;
	uint64_t patience_ns[WEIR_CLASSES];
	double quality[LANES];
	bool unreachable;
	uint64_t alone_ns;
	int learnt; /* that it begins with */
	/* what it was asked and told, in events; per state that is in the order of init */
	unsigned states;
	uint64_t asked[LANES], admitted, refunded[LANES], started, refused, gone, settled[LANES], ticks;
	weir_outcome outcome;
	unsigned loads;
};

struct script_state {
	struct script *script;
	unsigned index;
	int learnt;
};

static int script_init(void *state, const void *params, const char **ret_wrong)
{
	struct script *script = *(struct script *const *)params;
	if (script == NULL) {
		*ret_wrong = "a script is needed";
		return -EINVAL;
	}
	*(struct script_state *)state = (struct script_state){
		.script = script, .index = script->states++ % LANES, .learnt = script->learnt};
	return 0;
}

static weir_verdict script_admit(void *state, const weir_ask *ask)
{
	struct script_state *at = state;
	at->script->asked[at->index] += ask->count;
	at->script->admitted += at->script->admit == WEIR_ADMITTED ? ask->count : 0;
	return at->script->admit;
}

static void script_refund(void *state, const weir_ask *ask)
{
	struct script_state *at = state;
	at->script->refunded[at->index] += ask->count;
}

static weir_verdict script_start(void *state, const weir_event *event, const weir_turn *turn)
{
	struct script *script = ((struct script_state *)state)->script;
	*(script->start == WEIR_ADMITTED ? &script->started : &script->refused) += 1;
	return script->start;
}

static void script_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	((struct script_state *)state)->script->gone++;
}

static void script_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	struct script_state *at = state;
	at->script->settled[at->index]++;
	at->script->outcome = outcome;
	at->learnt++;
}

static void script_tick(void *state, const weir_sample *sample)
{
	((struct script_state *)state)->script->ticks++;
}

static uint32_t script_limit(const void *state)
{
	return ((const struct script_state *)state)->script->limit;
}

static uint64_t script_patience(const void *state, unsigned klass)
{
	return ((const struct script_state *)state)->script->patience_ns[klass];
}

static double script_quality(const void *state, unsigned klass)
{
	const struct script_state *at = state;
	return at->script->quality[at->index];
}

static void script_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	ret_why->retry_after_ns = 100 * WEIR_NS_PER_MS;
}

static void script_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const struct script_state *at = state;
	ret_report->quantile = 0.9;
	ret_report->target_ns = 5 * WEIR_NS_PER_MS;
	ret_report->measured_ns = at->index == 1 ? 20 : 10;
	ret_report->unreachable = at->script->unreachable && klass == 2;
	ret_report->alone_ns = at->script->alone_ns;
}

static int script_save(const void *state, char *text, size_t size)
{
	return snprintf(text, size, "learnt=%d", ((const struct script_state *)state)->learnt);
}

static int script_load(void *state, const char *text)
{
	struct script_state *at = state;
	int learnt;
	if (sscanf(text, "learnt=%d", &learnt) != 1)
		return -EINVAL;
	at->learnt = learnt;
	at->script->loads++;
	return 0;
}

#define SCRIPT_LAW                                                                                           \
	.state_bytes = sizeof(struct script_state), .params_bytes = sizeof(struct script *),                 \
	.tick_ns = 10 * WEIR_NS_PER_MS, .init = script_init, .admit = script_admit, .refund = script_refund, \
	.start = script_start, .gone = script_gone, .settle = script_settle, .tick = script_tick,            \
	.limit = script_limit, .patience = script_patience, .quality = script_quality,                       \
	.explain = script_explain, .report = script_report, .save = script_save, .load = script_load

static const weir_admission_law script_law = {.name = "script", SCRIPT_LAW};
static const weir_admission_law twin_law = {.name = "twin", SCRIPT_LAW};
static const weir_admission_law lane_law = {.name = "lane", SCRIPT_LAW, .per_lane = true};

static struct script script;

static void clear_script(void)
{
	script = (struct script){.limit = UINT32_MAX};
	for (int k = 0; k < WEIR_CLASSES; k++)
		script.patience_ns[k] = UINT64_MAX;
	for (int i = 0; i < LANES; i++)
		script.quality[i] = 1;
}

static void install(weir_stage *stage, const weir_admission_law *law)
{
	struct script *params = &script;
	must(weir_stage_admission(stage, law, &params));
}

static uint64_t sum(const uint64_t *of)
{
	return of[0] + of[1] + of[2] + of[3];
}

/* A world with one stage that works at once, under the script. */
struct open_world {
	weir_world *world;
	struct probe probe;
	weir_stage *stage;
};

static struct job jobs[2048];

static void open_world(struct open_world *at, weir_domain_kind kind, const weir_admission_law *law)
{
	memset(at, 0, sizeof *at);
	clear_script();
	at->world = world_virtual(1);
	probe_open(&at->probe, domain_of_kind(at->world, kind), (weir_stage_options){.capacity = 1000});
	at->stage = at->probe.stage;
	must(weir_world_start(at->world));
	if (law != NULL)
		install(at->stage, law);
	jobs_init(jobs, 2048, 0);
}

static unsigned offer_jobs(struct open_world *at, unsigned from, unsigned count)
{
	unsigned admitted = 0;
	for (unsigned i = from; i < from + count; i++)
		admitted += weir_offer(at->stage, &jobs[i].event) == WEIR_ADMITTED;
	world_run(at->world, WEIR_NS_PER_MS);
	return admitted;
}

/* ---- modes ---- */

static void a_dry_run_admits_everything_and_counts_what_it_spared(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct open_world at;
		open_world(&at, (weir_domain_kind)kind, &script_law);
		weir_stage_mode(at.stage, WEIR_DRY_RUN);
		script.admit = WEIR_SHED_LATE;
		assert_int_equal(offer_jobs(&at, 0, 10), 10);
		assert_int_equal(sum(script.asked), 10);
		assert_int_equal(script.started, 10); /* told of what it would have refused */
		assert_int_equal(sum(script.settled), 10);
		script.start = WEIR_SHED_WAITED;
		assert_int_equal(offer_jobs(&at, 10, 5), 5);
		weir_stage_stats stats = stats_of(at.stage);
		assert_int_equal(stats.spared[WEIR_SHED_LATE], 15);
		assert_int_equal(stats.spared[WEIR_SHED_WAITED], 5);
		expect_counts(at.stage, 15, 0, 15, 0, 0);
		weir_stage_mode(at.stage, WEIR_ENFORCE);
		assert_int_equal(offer_jobs(&at, 20, 5), 0);
		script.admit = WEIR_ADMITTED;
		assert_int_equal(offer_jobs(&at, 30, 5), 5);
		expect_counts(at.stage, 20, 5, 15, 0, 5);
		world_end(&at.world);
	}
}

static void admit_all_asks_nobody_and_goes_on_measuring(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	weir_stage_mode(at.stage, WEIR_ADMIT_ALL);
	script.admit = script.start = WEIR_SHED_LATE;
	assert_int_equal(offer_jobs(&at, 0, 10), 10);
	assert_int_equal(sum(script.asked), 0);
	assert_int_equal(sum(script.settled), 10);
	expect_counts(at.stage, 10, 0, 10, 0, 0);
	world_end(&at.world);
}

static void bounds_hold_in_every_mode(void **state)
{
	for (int mode = WEIR_ENFORCE; mode <= WEIR_ADMIT_ALL; mode++) {
		struct plugged p;
		clear_script();
		plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 3});
		install(p.stage, &script_law);
		weir_stage_mode(p.stage, (weir_admission_mode)mode);
		jobs_init(jobs, 5, 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		assert_int_equal(weir_offer(p.stage, &jobs[3].event), WEIR_SHED_FULL);
		/* What the law was not asked it cannot take back. */
		assert_int_equal(sum(script.refunded), mode == WEIR_ADMIT_ALL ? 0 : 1);
		plugged_end(&p);
	}
}

static void a_mode_that_does_not_exist_enforces(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	weir_stage_mode(at.stage, (weir_admission_mode)77);
	script.admit = WEIR_SHED_RATE;
	assert_int_equal(offer_jobs(&at, 0, 3), 0);
	world_end(&at.world);
}

/* ---- the ceiling ---- */

static void the_ceiling_bounds_what_is_shed(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	must(weir_stage_shed_ceiling(at.stage, 0.25));
	script.admit = WEIR_SHED_LATE;
	unsigned admitted = 0;
	for (unsigned i = 0; i < 1000; i += 100)
		admitted += offer_jobs(&at, i, 100);
	assert_int_equal(admitted, 750);
	assert_int_equal(stats_of(at.stage).spared[WEIR_SHED_LATE], 750);
	must(weir_stage_shed_ceiling(at.stage, 1));
	assert_int_equal(offer_jobs(&at, 1000, 10), 0);
	must(weir_stage_shed_ceiling(at.stage, 0));
	/* What it earned under another ceiling is not more than a burst. */
	assert_true(offer_jobs(&at, 1010, 200) >= 200 - 64);
	world_end(&at.world);
}

static void the_ceiling_holds_for_starts_and_for_offers_of_many(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	must(weir_stage_shed_ceiling(at.stage, 0.5));
	script.start = WEIR_SHED_WAITED;
	for (unsigned i = 0; i < 1000; i += 100)
		offer_jobs(&at, i, 100);
	uint64_t dropped = stats_of(at.stage).dropped;
	assert_true(dropped >= 490 && dropped <= 500);
	script.start = WEIR_ADMITTED;
	script.admit = WEIR_SHED_RATE;
	unsigned shed = 0;
	for (unsigned i = 0; i < 10; i++) {
		shed += jobs_offer_many(at.stage, &jobs[1000 + i * 100], 100) != WEIR_ADMITTED;
		world_run(at.world, WEIR_NS_PER_MS);
	}
	assert_true(shed == 5);
	world_end(&at.world);
}

static void a_ceiling_is_a_fraction(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, NULL);
	static const double wrong[] = {-0.1, 1.1, 0.0 / 0.0, 1e300};
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(weir_stage_shed_ceiling(at.stage, wrong[i]), -EINVAL);
		check_contains(weir_error(), "0 to 1");
	}
	world_end(&at.world);
}

/* ---- no law ---- */

static void a_stage_without_a_law_takes_settings_and_has_nothing_to_report(void **state)
{
	struct open_world at;
	weir_report report;
	char text[8];
	open_world(&at, WEIR_ELASTIC, NULL);
	assert_false(weir_stage_report(at.stage, 0, &report));
	weir_stage_mode(at.stage, WEIR_DRY_RUN);
	must(weir_stage_shed_ceiling(at.stage, 0.5));
	assert_false(weir_stage_report(at.stage, 0, &report));
	assert_true(weir_stage_quality(at.stage, 0) == 1);
	assert_int_equal(weir_stage_save(at.stage, text, sizeof text), -ENOTSUP);
	assert_int_equal(weir_stage_load(at.stage, "script learnt=1"), -ENOTSUP);
	assert_int_equal(offer_jobs(&at, 0, 10), 10);
	weir_stage_mode(at.stage, WEIR_ENFORCE);
	must(weir_stage_shed_ceiling(at.stage, 1));
	weir_stage_press(at.stage, 1);
	assert_int_equal(offer_jobs(&at, 10, 10), 0);
	weir_why why;
	assert_int_equal(weir_offer(at.stage, &jobs[30].event), WEIR_SHED_RESOURCE);
	assert_true(weir_why_shed(&why) && why.law == NULL && why.retry_after_ns >= WEIR_NS_PER_S);
	install(at.stage, &script_law);
	assert_true(weir_stage_report(at.stage, 0, &report));
	must(weir_stage_admission(at.stage, NULL, NULL));
	assert_false(weir_stage_report(at.stage, 0, &report));
	assert_int_equal(offer_jobs(&at, 40, 10), 0); /* settings outlive laws */
	world_end(&at.world);
}

/* ---- reading ---- */

static void reports_are_of_the_state_that_is_worst_off(void **state)
{
	weir_report report;
	clear_script();
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 3), (weir_stage_options){0});
	install(probe.stage, &lane_law);
	assert_int_equal(script.states, 3);
	assert_true(weir_stage_report(probe.stage, 0, &report));
	assert_string_equal(report.law, "lane");
	assert_int_equal(report.measured_ns, 20);
	script.quality[2] = 0.25;
	assert_true(weir_stage_quality(probe.stage, 0) == 0.25);
	assert_true(weir_stage_quality(probe.stage, WEIR_CLASSES) == 1);
	assert_false(weir_stage_report(probe.stage, WEIR_CLASSES, &report));
	must(weir_world_start(world));
	world_end(&world);
}

static bool script_calm(const void *state)
{
	const struct script_state *at = state;
	return at->script->quality[at->index] == 1;
}

static const weir_admission_law calm_law = {
	.name = "calm", SCRIPT_LAW, .per_lane = true, .calm = script_calm};

static void a_stage_is_calm_while_its_law_says_so_or_nothing_waits(void **state)
{
	struct plugged p;
	clear_script();
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.capacity = 10});
	assert_true(weir_stage_calm(p.stage));
	jobs_init(jobs, 1, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_false(weir_stage_calm(p.stage));
	install(p.stage, &script_law); /* cannot tell */
	assert_false(weir_stage_calm(p.stage));
	install(p.stage, &calm_law);
	assert_true(weir_stage_calm(p.stage));
	for (int i = 0; i < LANES; i++)
		script.quality[i] = 0.5;
	assert_false(weir_stage_calm(p.stage));
	plugged_end(&p);
}

static char noticed[4][256];
static unsigned notices;

static void take_notice(const char *text, void *arg)
{
	assert_ptr_equal(arg, &notices);
	if (notices < 4)
		snprintf(noticed[notices], sizeof noticed[0], "%s", text);
	notices++;
}

static void an_unreachable_target_is_noticed_once_each_time(void **state)
{
	weir_world *world = NULL;
	struct probe probe = {0};
	struct job job;
	clear_script();
	notices = 0;
	must(weir_world_new(
		&(weir_world_options){.simulated = true, .notice = take_notice, .notice_arg = &notices},
		&world));
	probe_open(&probe, domain_of_kind(world, WEIR_ELASTIC), (weir_stage_options){.name = "far"});
	install(probe.stage, &script_law);
	must(weir_world_start(world));
	script.unreachable = true;
	world_run(world, 3 * WEIR_NS_PER_S);
	assert_int_equal(notices, 0); /* nobody has used the class */
	script.unreachable = false;
	job_init(&job, 1, 2);
	weir_offer(probe.stage, &job.event);
	world_run(world, 3 * WEIR_NS_PER_S);
	assert_int_equal(notices, 0);
	script.unreachable = true;
	world_run(world, 10 * WEIR_NS_PER_S);
	assert_int_equal(notices, 1);
	check_contains(noticed[0], "'far'");
	check_contains(noticed[0], "class 2");
	check_contains(noticed[0], "p90 within 5ms");
	check_contains(noticed[0], "can do no more and measures");
	script.unreachable = false;
	script.alone_ns = 340 * WEIR_NS_PER_MS;
	world_run(world, 3 * WEIR_NS_PER_S);
	script.unreachable = true;
	world_run(world, 3 * WEIR_NS_PER_S);
	assert_int_equal(notices, 2);
	check_contains(noticed[1], "cannot be met: it takes 0.34s with nothing waiting");
	world_end(&world);
}

static _Atomic int stopped_with = 1;

static void stop_here(const char *text, void *arg)
{
	atomic_store(&stopped_with, weir_world_stop(*(weir_world **)arg, WEIR_NS_PER_S, NULL));
}

static void a_stop_from_a_notice_is_refused_rather_than_waiting_for_itself(void **state)
{
	weir_world *world = NULL;
	struct probe probe = {0};
	struct job job;
	clear_script();
	must(weir_world_new(&(weir_world_options){.notice = stop_here, .notice_arg = &world}, &world));
	probe_open(&probe, domain_of_kind(world, WEIR_ELASTIC), (weir_stage_options){.name = "far"});
	install(probe.stage, &script_law);
	script.unreachable = true;
	must(weir_world_start(world));
	job_init(&job, 1, 2);
	weir_offer(probe.stage, &job.event);
	CHECK_EVENTUALLY(atomic_load(&stopped_with) != 1);
	assert_int_equal(atomic_load(&stopped_with), -EDEADLK);
	world_end(&world);
}

static void retry_after_is_spread_but_never_early(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	script.admit = WEIR_SHED_LATE;
	uint64_t least = UINT64_MAX, most = 0;
	for (int i = 0; i < 200; i++) {
		weir_why why;
		assert_int_equal(weir_offer(at.stage, &jobs[0].event), WEIR_SHED_LATE);
		assert_true(weir_why_shed(&why));
		least = why.retry_after_ns < least ? why.retry_after_ns : least;
		most = why.retry_after_ns > most ? why.retry_after_ns : most;
	}
	assert_true(least >= 100 * WEIR_NS_PER_MS && least < 105 * WEIR_NS_PER_MS);
	assert_true(most <= 150 * WEIR_NS_PER_MS && most > 145 * WEIR_NS_PER_MS);
	world_end(&at.world);
}

/* ---- warm start ---- */

static void what_was_learnt_is_saved_and_loaded(void **state)
{
	struct open_world at;
	char text[64], small[9];
	open_world(&at, WEIR_ELASTIC, &script_law);
	offer_jobs(&at, 0, 7);
	assert_int_equal(weir_stage_save(at.stage, text, sizeof text), strlen("script learnt=7"));
	assert_string_equal(text, "script learnt=7");
	assert_int_equal(weir_stage_save(at.stage, NULL, 0), strlen(text));
	assert_int_equal(weir_stage_save(at.stage, small, sizeof small), strlen(text));
	assert_string_equal(small, "script l");
	assert_int_equal(weir_stage_load(at.stage, "twin learnt=3"), -EINVAL);
	assert_int_equal(weir_stage_load(at.stage, "scriptlearnt=3"), -EINVAL);
	assert_int_equal(weir_stage_load(at.stage, "script nonsense"), -EINVAL);
	weir_stage_save(at.stage, text, sizeof text);
	assert_string_equal(text, "script learnt=7");
	must(weir_stage_load(at.stage, "script learnt=41"));
	offer_jobs(&at, 10, 1);
	weir_stage_save(at.stage, text, sizeof text);
	assert_string_equal(text, "script learnt=42");
	world_end(&at.world);
}

static void a_retuned_law_goes_on_with_what_it_knows(void **state)
{
	struct open_world at;
	char text[64];
	struct script *nobody = NULL;
	open_world(&at, WEIR_ELASTIC, &script_law);
	offer_jobs(&at, 0, 7);
	install(at.stage, &script_law);
	offer_jobs(&at, 10, 1);
	weir_stage_save(at.stage, text, sizeof text);
	assert_string_equal(text, "script learnt=8");
	/* Parameters that are refused change nothing. */
	assert_int_equal(weir_stage_admission(at.stage, &script_law, &nobody), -EINVAL);
	check_contains(weir_error(), "a script is needed");
	weir_stage_save(at.stage, text, sizeof text);
	assert_string_equal(text, "script learnt=8");
	install(at.stage, &twin_law);
	weir_stage_save(at.stage, text, sizeof text);
	assert_string_equal(text, "twin learnt=0");
	world_end(&at.world);
}

/* ---- what a law is told of ---- */

static void a_law_is_told_of_its_own_events_only(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		clear_script();
		plugged_open(&p, (weir_domain_kind)kind, (weir_stage_options){0});
		jobs_init(jobs, 10, 0);
		weir_offer(p.stage, &jobs[0].event); /* of no law */
		install(p.stage, &twin_law);
		weir_offer(p.stage, &jobs[1].event);
		install(p.stage, &script_law);
		uint64_t before = sum(script.asked);
		weir_offer(p.stage, &jobs[2].event);
		jobs[3].event.flags = WEIR_EVENT_EXEMPT;
		weir_offer(p.stage, &jobs[3].event);
		weir_offer(p.stage, &jobs[4].event);
		weir_event_cancel(&jobs[4].event);
		assert_int_equal(sum(script.asked) - before, 2);
		plugged_release(&p);
		assert_int_equal(script.started, 1);
		assert_int_equal(script.gone, 1);
		assert_int_equal(sum(script.settled), 1); /* nor the plug */
		expect_counts(p.stage, 6, 0, 5, 0, 1);
		plugged_end(&p);
	}
}

static void say_refused(struct probe *probe, struct job *job)
{
	weir_refused(&job->event);
}

static void refusals_from_further_down_are_told_as_such(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	at.probe.each = say_refused;
	offer_jobs(&at, 0, 1);
	assert_int_equal(script.outcome, WEIR_REFUSED);
	expect_counts(at.stage, 1, 0, 0, 1, 0);
	world_end(&at.world);
}

static void exempt_events_among_many_are_none_of_the_laws_business(void **state)
{
	struct plugged p;
	clear_script();
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 8});
	install(p.stage, &script_law);
	jobs_init(jobs, 20, 0);
	for (int i = 0; i < 20; i += 2)
		jobs[i].event.flags = WEIR_EVENT_EXEMPT;
	assert_int_equal(jobs_offer_many(p.stage, jobs, 5), WEIR_ADMITTED);
	assert_int_equal(sum(script.asked), 2);
	assert_int_equal(jobs_offer_many(p.stage, jobs + 5, 5), WEIR_SHED_FULL);
	assert_int_equal(sum(script.asked), 5);
	assert_int_equal(sum(script.refunded), 3);
	script.admit = WEIR_SHED_RATE;
	assert_int_equal(jobs_offer_many(p.stage, jobs + 10, 2), WEIR_SHED_RATE);
	assert_int_equal(stats_of(p.stage).shed, 7);
	plugged_release(&p);
	assert_int_equal(sum(script.settled), 2);
	plugged_end(&p);
}

static void each_queue_is_asked_about_its_share_of_many(void **state)
{
	clear_script();
	weir_world *world = world_virtual(1);
	struct probe probe = {0};
	probe_open(&probe, domain_reactor(world, "reactor", 3), (weir_stage_options){.capacity = 12});
	install(probe.stage, &lane_law);
	must(weir_world_start(world));
	jobs_init(jobs, 40, 0);
	static const uint16_t homes[] = {2, 2, 1, 2, 1, 2};
	for (int i = 0; i < 40; i++)
		jobs[i].event.home = homes[i % 6];
	assert_int_equal(jobs_offer_many(probe.stage, jobs, 6), WEIR_ADMITTED);
	assert_int_equal(script.asked[0], 0);
	assert_int_equal(script.asked[1], 2);
	assert_int_equal(script.asked[2], 4);
	/* Lane 2 is full now; what lane 1's state said yes to is taken back from lane 1's. */
	assert_int_equal(jobs_offer_many(probe.stage, jobs + 6, 6), WEIR_SHED_FULL);
	assert_int_equal(script.refunded[1], 2);
	assert_int_equal(script.refunded[2], 4);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(script.settled[1], 2);
	assert_int_equal(script.settled[2], 4);
	world_end(&world);
}

static void tickets_of_a_dry_run_take_nothing_back(void **state)
{
	struct open_world at;
	weir_ticket ticket;
	weir_event *event = &jobs[0].event;
	open_world(&at, WEIR_ELASTIC, &script_law);
	weir_stage_mode(at.stage, WEIR_DRY_RUN);
	script.admit = WEIR_SHED_RATE;
	assert_int_equal(weir_reserve(at.stage, 0, 1, 0, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
	weir_cancel(&ticket);
	assert_int_equal(sum(script.refunded), 0);
	assert_int_equal(weir_reserve(at.stage, 0, 1, 0, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
	must(weir_commit(&ticket, &event, 1));
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(script.started, 1);
	assert_int_equal(sum(script.settled), 1);
	script.admit = WEIR_ADMITTED;
	assert_int_equal(weir_reserve(at.stage, 0, 1, 0, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
	weir_cancel(&ticket);
	assert_int_equal(sum(script.refunded), 1);
	world_end(&at.world);
}

/* A reservation does not say which of its events will be exempt. */
static void exempt_events_of_a_ticket_are_taken_back(void **state)
{
	struct open_world at;
	weir_ticket ticket;
	weir_event *events[] = {&jobs[0].event, &jobs[1].event, &jobs[2].event};
	open_world(&at, WEIR_ELASTIC, &script_law);
	jobs[1].event.flags = WEIR_EVENT_EXEMPT;
	assert_int_equal(weir_reserve(at.stage, 0, 3, 0, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
	must(weir_commit(&ticket, events, 3));
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(script.admitted, 3);
	assert_int_equal(sum(script.refunded), 1);
	assert_int_equal(sum(script.settled), 2);
	world_end(&at.world);
}

static void work_that_its_offerer_does_is_shed_where_the_law_refuses_its_start(void **state)
{
	struct open_world at;
	open_world(&at, WEIR_ELASTIC, &script_law);
	assert_int_equal(weir_offer_held(at.stage, &jobs[0].event), WEIR_ADMITTED);
	script.start = WEIR_SHED_WAITED;
	assert_int_equal(weir_offer_held(at.stage, &jobs[1].event), WEIR_SHED_WAITED);
	assert_null(jobs[1].event.lane);
	weir_done(&jobs[0].event);
	assert_int_equal(script.admitted, 2);
	assert_int_equal(script.refused + sum(script.settled), 2); /* each ended once */
	expect_counts(at.stage, 1, 1, 1, 0, 0);
	world_end(&at.world);
}

/* ---- limits ---- */

struct limited {
	weir_world *world;
	struct probe probe;
	weir_stage *stage;
};

/* 20 events, of which the law lets `limit` inside; nobody finishes. */
static void open_limited(struct limited *at, weir_domain_kind kind, uint32_t threads, uint32_t limit)
{
	memset(at, 0, sizeof *at);
	clear_script();
	script.limit = limit;
	at->world = world_virtual(1);
	weir_domain *domain = kind == WEIR_REACTOR ? domain_reactor(at->world, "reactor", threads)
						   : domain_elastic(at->world, "pool", 64, 64);
	probe_open(&at->probe, domain, (weir_stage_options){.batch = 4});
	at->stage = at->probe.stage;
	at->probe.act = PROBE_HOLD;
	install(at->stage, &script_law);
	must(weir_world_start(at->world));
	jobs_init(jobs, 20, 0);
	for (int i = 0; i < 20; i++) {
		jobs[i].event.home = (uint16_t)(i % (int)threads);
		assert_int_equal(weir_offer(at->stage, &jobs[i].event), WEIR_ADMITTED);
	}
	world_run(at->world, WEIR_NS_PER_MS);
}

static void end_limited(struct limited *at)
{
	at->probe.act = PROBE_DONE;
	for (int i = 0; i < 20; i++)
		if (jobs[i].handled)
			weir_done(&jobs[i].event);
	world_run(at->world, WEIR_NS_PER_S);
	assert_int_equal(at->probe.handled, 20);
	world_end(&at->world);
}

static void a_limit_holds_and_follows_the_law(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct limited at;
		open_limited(&at, (weir_domain_kind)kind, 1, 3);
		assert_int_equal(at.probe.handled, 3);
		script.limit = 7;
		world_run(at.world, 20 * WEIR_NS_PER_MS); /* a tick */
		assert_int_equal(at.probe.handled, 7);
		script.limit = 0; /* one, or nothing would ever move */
		for (int i = 0; i < 7; i++)
			weir_done(&jobs[i].event), jobs[i].handled = 0;
		world_run(at.world, WEIR_NS_PER_MS);
		assert_int_equal(at.probe.handled, 8);
		end_limited(&at);
	}
}

static void a_limit_is_shared_by_the_queues(void **state)
{
	struct limited at;
	open_limited(&at, WEIR_REACTOR, 4, 6);
	assert_int_equal(at.probe.handled, 6);
	script.limit = 1;
	world_run(at.world, 20 * WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 6);
	script.limit = 10;
	world_run(at.world, 20 * WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 10);
	end_limited(&at);
}

static void offer_held(struct limited *at, unsigned from, unsigned until, unsigned home)
{
	for (unsigned i = from; i < until; i++) {
		jobs[i].event.home = (uint16_t)home;
		assert_int_equal(weir_offer(at->stage, &jobs[i].event), WEIR_ADMITTED);
	}
	world_run(at->world, WEIR_NS_PER_MS);
}

static unsigned started_of(unsigned from, unsigned until)
{
	unsigned started = 0;
	for (unsigned i = from; i < until; i++)
		started += jobs[i].handled != 0;
	return started;
}

static void settle_started(struct limited *at, unsigned from, unsigned until, unsigned count)
{
	for (unsigned i = from; i < until && count != 0; i++)
		if (jobs[i].handled != 0 && jobs[i].event.lane != NULL) {
			weir_done(&jobs[i].event);
			count--;
		}
	assert_int_equal(count, 0);
	world_run(at->world, WEIR_NS_PER_MS); /* no tick: nobody but the one who ended tells the others */
}

/* Two queues, a law with this limit that never ticks, and nothing offered yet. */
static void open_shared(struct limited *at, uint32_t limit)
{
	static const weir_admission_law law = {.name = "still",
					       .state_bytes = sizeof(struct script_state),
					       .params_bytes = sizeof(struct script *),
					       .init = script_init,
					       .admit = script_admit,
					       .limit = script_limit};
	memset(at, 0, sizeof *at);
	clear_script();
	script.limit = limit;
	at->world = world_virtual(1);
	probe_open(&at->probe, domain_reactor(at->world, "reactor", 2), (weir_stage_options){.batch = 4});
	at->stage = at->probe.stage;
	at->probe.act = PROBE_HOLD;
	install(at->stage, &law);
	must(weir_world_start(at->world));
	jobs_init(jobs, 40, 0);
}

static void end_shared(struct limited *at, unsigned count)
{
	at->probe.act = PROBE_DONE;
	for (unsigned i = 0; i < count; i++)
		if (jobs[i].handled != 0 && jobs[i].event.lane != NULL)
			weir_done(&jobs[i].event);
	world_run(at->world, WEIR_NS_PER_MS);
	assert_int_equal(at->probe.handled, count);
	world_end(&at->world);
}

static void a_busy_queue_uses_what_an_idle_one_does_not(void **state)
{
	struct limited at;
	open_shared(&at, 6);
	offer_held(&at, 0, 20, 1);
	assert_int_equal(at.probe.handled, 6);
	settle_started(&at, 0, 20, 2);
	assert_int_equal(at.probe.handled, 8);
	end_shared(&at, 20);
}

/* The first queue has all places and more waiting. The second has its share as soon as they are free, and the first no more than its own. */
static void a_queue_below_its_share_gets_the_next_places(void **state)
{
	struct limited at;
	open_shared(&at, 6);
	offer_held(&at, 0, 20, 0);
	assert_int_equal(started_of(0, 20), 6);
	offer_held(&at, 20, 30, 1);
	settle_started(&at, 0, 20, 3);
	assert_int_equal(started_of(20, 30), 3);
	assert_int_equal(started_of(0, 20), 6); /* none of the free places is the first queue's */
	settle_started(&at, 0, 20, 1);
	assert_int_equal(started_of(0, 20), 7);
	settle_started(&at, 20, 30, 1);
	assert_int_equal(started_of(20, 30), 4);
	end_shared(&at, 30);
}

/* A queue that has its share waits for more: whoever ends an event of the other queue tells it that there is room. */
static void a_place_that_is_free_elsewhere_is_not_lost(void **state)
{
	struct limited at;
	open_shared(&at, 6);
	offer_held(&at, 0, 3, 0);
	offer_held(&at, 3, 20, 1);
	assert_int_equal(at.probe.handled, 6);
	settle_started(&at, 0, 3, 1);
	assert_int_equal(started_of(3, 20), 4);
	settle_started(&at, 0, 3, 2);
	assert_int_equal(started_of(3, 20), 6);
	settle_started(&at, 3, 20, 6);
	assert_int_equal(started_of(3, 20), 12);
	end_shared(&at, 20);
}

/* Each queue may have one inside, or it could wait for ever. */
static void a_limit_below_the_number_of_queues_stops_none(void **state)
{
	struct limited at;
	open_shared(&at, 1);
	offer_held(&at, 0, 10, 0);
	offer_held(&at, 10, 20, 1);
	assert_in_range(at.probe.handled, 1, 2);
	for (unsigned i = 0; i < 9; i++) {
		settle_started(&at, 0, 10, started_of(0, 10) > i);
		settle_started(&at, 10, 20, started_of(10, 20) > i);
		assert_true(started_of(0, 10) > i && started_of(10, 20) > i);
	}
	end_shared(&at, 20);
}

/* What was held back by a law that has gone, or does not rule any more, must not wait for ever. */
static void nothing_stays_behind_a_limit_that_has_gone(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct limited at;
		open_limited(&at, (weir_domain_kind)kind, 2, 4);
		assert_int_equal(at.probe.handled, 4);
		must(weir_stage_admission(at.stage, NULL, NULL));
		world_run(at.world, WEIR_NS_PER_MS);
		assert_int_equal(at.probe.handled, 20);
		end_limited(&at);
		open_limited(&at, (weir_domain_kind)kind, 2, 4);
		weir_stage_mode(at.stage, WEIR_DRY_RUN);
		world_run(at.world, WEIR_NS_PER_MS);
		assert_int_equal(at.probe.handled, 20);
		end_limited(&at);
	}
}

/* ---- patience ---- */

/* Jobs 0 to 9 of classes 0 and 1 in turn wait for 50 ms behind the plug; 8 and 9 are exempt. */
static void open_waiting(struct plugged *p, weir_domain_kind kind, weir_order order)
{
	clear_script();
	plugged_open(p, kind, (weir_stage_options){.order = order});
	install(p->stage, &script_law);
	for (unsigned i = 0; i < 10; i++) {
		job_init(&jobs[i], i, i % 2);
		jobs[i].event.flags = i >= 8 ? WEIR_EVENT_EXEMPT : 0;
	}
	assert_int_equal(weir_offer(p->stage, &jobs[8].event), WEIR_ADMITTED);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(weir_offer(p->stage, &jobs[i].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p->stage, &jobs[9].event), WEIR_ADMITTED);
	world_run(p->world, 50 * WEIR_NS_PER_MS);
	assert_int_equal(p->probe.dropped, 0);
}

static void those_that_waited_too_long_go_at_a_tick(void **state)
{
	static const weir_order orders[] = {WEIR_FIFO, WEIR_BY_CLASS, WEIR_NEWEST_LATE};
	FOR_BOTH_KINDS(kind)
	for (int o = 0; o < 3; o++) {
		struct plugged p;
		open_waiting(&p, (weir_domain_kind)kind, orders[o]);
		script.patience_ns[1] = 40 * WEIR_NS_PER_MS;
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.drops[WEIR_SHED_WAITED], 4);
		assert_int_equal(script.gone, 4);
		assert_int_equal(weir_stage_waiting(p.stage), 6);
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(jobs[i].dropped, i < 8 && i % 2 == 1);
		plugged_release(&p);
		assert_int_equal(script.started, 4);
		expect_counts(p.stage, 11, 0, 7, 0, 4);
		plugged_end(&p);
	}
}

static void another_laws_events_are_not_dropped_for_waiting(void **state)
{
	struct plugged p;
	open_waiting(&p, WEIR_REACTOR, WEIR_FIFO);
	install(p.stage, &script_law);
	script.patience_ns[0] = script.patience_ns[1] = WEIR_NS_PER_MS;
	world_run(p.world, 20 * WEIR_NS_PER_MS);
	assert_int_equal(p.probe.dropped, 0);
	plugged_end(&p);
}

static void patience_heeds_mode_and_ceiling(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		open_waiting(&p, (weir_domain_kind)kind, WEIR_FIFO);
		weir_stage_mode(p.stage, WEIR_DRY_RUN);
		script.patience_ns[0] = script.patience_ns[1] = WEIR_NS_PER_MS;
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.dropped, 0);
		must(weir_stage_shed_ceiling(p.stage, 0.5));
		weir_stage_mode(p.stage, WEIR_ENFORCE);
		/* Nothing earned yet; 6 asks earn 3. */
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.dropped, 0);
		for (unsigned i = 10; i < 16; i++) {
			job_init(&jobs[i], i, 2);
			weir_offer(p.stage, &jobs[i].event);
		}
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.dropped, 3);
		/* Pressure is no reason to keep what nobody waits for any more. */
		must(weir_stage_shed_ceiling(p.stage, 1));
		weir_stage_press(p.stage, 0.5);
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.dropped, 8);
		plugged_end(&p);
	}
}

/* A drop function may offer the event again, to the stage that has just dropped it. */
static void offer_again(struct probe *probe, struct job *job)
{
	weir_event_init(&job->event, 3);
	job->data = (void *)(uintptr_t)weir_offer(probe->stage, &job->event);
}

static void what_was_dropped_for_waiting_may_be_offered_again(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		open_waiting(&p, (weir_domain_kind)kind, WEIR_FIFO);
		p.probe.on_drop = offer_again;
		script.patience_ns[0] = script.patience_ns[1] = WEIR_NS_PER_MS;
		world_run(p.world, 30 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.dropped, 8);
		assert_int_equal(weir_stage_waiting(p.stage), 10);
		plugged_end(&p);
	}
}

static void more_than_a_batch_can_be_stale(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		clear_script();
		plugged_open(&p, (weir_domain_kind)kind, (weir_stage_options){.capacity = 2000});
		install(p.stage, &script_law);
		jobs_init(jobs, 2000, 0);
		for (unsigned i = 0; i < 2000; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		script.patience_ns[0] = 0;
		world_run(p.world, 20 * WEIR_NS_PER_MS);
		assert_int_equal(p.probe.drops[WEIR_SHED_WAITED], 2000);
		assert_int_equal(weir_stage_waiting(p.stage), 0);
		plugged_end(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_dry_run_admits_everything_and_counts_what_it_spared),
		CHECK_TEST(admit_all_asks_nobody_and_goes_on_measuring),
		CHECK_TEST(bounds_hold_in_every_mode),
		CHECK_TEST(a_mode_that_does_not_exist_enforces),
		CHECK_TEST(the_ceiling_bounds_what_is_shed),
		CHECK_TEST(the_ceiling_holds_for_starts_and_for_offers_of_many),
		CHECK_TEST(a_ceiling_is_a_fraction),
		CHECK_TEST(a_stage_without_a_law_takes_settings_and_has_nothing_to_report),
		CHECK_TEST(reports_are_of_the_state_that_is_worst_off),
		CHECK_TEST(a_stage_is_calm_while_its_law_says_so_or_nothing_waits),
		CHECK_TEST(an_unreachable_target_is_noticed_once_each_time),
		CHECK_TEST(a_stop_from_a_notice_is_refused_rather_than_waiting_for_itself),
		CHECK_TEST(retry_after_is_spread_but_never_early),
		CHECK_TEST(what_was_learnt_is_saved_and_loaded),
		CHECK_TEST(a_retuned_law_goes_on_with_what_it_knows),
		CHECK_TEST(a_law_is_told_of_its_own_events_only),
		CHECK_TEST(refusals_from_further_down_are_told_as_such),
		CHECK_TEST(exempt_events_among_many_are_none_of_the_laws_business),
		CHECK_TEST(each_queue_is_asked_about_its_share_of_many),
		CHECK_TEST(tickets_of_a_dry_run_take_nothing_back),
		CHECK_TEST(exempt_events_of_a_ticket_are_taken_back),
		CHECK_TEST(work_that_its_offerer_does_is_shed_where_the_law_refuses_its_start),
		CHECK_TEST(a_limit_holds_and_follows_the_law),
		CHECK_TEST(a_limit_is_shared_by_the_queues),
		CHECK_TEST(a_busy_queue_uses_what_an_idle_one_does_not),
		CHECK_TEST(a_queue_below_its_share_gets_the_next_places),
		CHECK_TEST(a_place_that_is_free_elsewhere_is_not_lost),
		CHECK_TEST(a_limit_below_the_number_of_queues_stops_none),
		CHECK_TEST(nothing_stays_behind_a_limit_that_has_gone),
		CHECK_TEST(those_that_waited_too_long_go_at_a_tick),
		CHECK_TEST(another_laws_events_are_not_dropped_for_waiting),
		CHECK_TEST(patience_heeds_mode_and_ceiling),
		CHECK_TEST(what_was_dropped_for_waiting_may_be_offered_again),
		CHECK_TEST(more_than_a_batch_can_be_stale),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
