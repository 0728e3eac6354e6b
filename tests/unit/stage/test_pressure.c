/* SPDX-License-Identifier: Apache-2.0 */
/* Pressure on a stage: the part that is asked for, lowest class first; and who is told of sheds further down. */
#include "support/worlds.h"

#include "stage/runtime.h"

#include <math.h>
#include <string.h>

static struct job jobs[4096];

struct pressed {
	weir_world *world;
	struct probe probe;
	weir_stage *stage;
	uint64_t admitted[WEIR_CLASSES], shed[WEIR_CLASSES];
};

static void open_pressed(struct pressed *at)
{
	memset(at, 0, sizeof *at);
	at->world = world_virtual(1);
	probe_open(&at->probe, domain_of_kind(at->world, WEIR_ELASTIC),
		   (weir_stage_options){.capacity = 1000});
	at->stage = at->probe.stage;
	must(weir_world_start(at->world));
}

/* Rounds of a millisecond in which `of[k]` events of class k are offered. */
static void offer_rounds(struct pressed *at, const unsigned of[WEIR_CLASSES], unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		for (unsigned k = 0; k < WEIR_CLASSES; k++)
			for (unsigned n = 0; n < of[k]; n++) {
				struct job *job = &jobs[n];
				job_init(job, 1, k);
				weir_verdict verdict = weir_offer(at->stage, &job->event);
				assert_true(verdict == WEIR_ADMITTED || verdict == WEIR_SHED_RESOURCE);
				*(verdict == WEIR_ADMITTED ? &at->admitted[k] : &at->shed[k]) += 1;
				world_run(at->world, 1);
			}
		world_run(at->world, WEIR_NS_PER_MS);
	}
}

static void clear_pressed(struct pressed *at)
{
	memset(at->admitted, 0, sizeof at->admitted);
	memset(at->shed, 0, sizeof at->shed);
}

static void one_class_loses_exactly_the_part_that_is_asked_for(void **state)
{
	static const double parts[] = {0, 0.01, 0.3, 0.5, 0.77, 1};
	static const unsigned load[WEIR_CLASSES] = {[3] = 1};
	for (unsigned i = 0; i < 6; i++) {
		struct pressed at;
		open_pressed(&at);
		weir_stage_press(at.stage, parts[i]);
		offer_rounds(&at, load, 1000);
		assert_true(fabs((double)at.shed[3] - 1000 * parts[i]) <= 1);
		weir_stage_press(at.stage, 0);
		clear_pressed(&at);
		offer_rounds(&at, load, 100);
		assert_int_equal(at.shed[3], 0);
		world_end(&at.world);
	}
}

static void the_lowest_class_goes_first(void **state)
{
	/* Of 10 a round, 4 are of class 6, 3 of class 3, 3 of class 0. */
	static const unsigned load[WEIR_CLASSES] = {[0] = 3, [3] = 3, [6] = 4};
	static const struct {
		double part, lost[3];
	} cases[] = {
		{0.2, {0, 0, 0.5}},  {0.4, {0, 0, 1}}, {0.55, {0, 0.5, 1}},
		{0.85, {0.5, 1, 1}}, {1, {1, 1, 1}},
	};
	for (unsigned i = 0; i < 5; i++) {
		struct pressed at;
		open_pressed(&at);
		offer_rounds(&at, load, 200); /* so that it is known what is offered */
		clear_pressed(&at);
		weir_stage_press(at.stage, cases[i].part);
		offer_rounds(&at, load, 1000);
		static const unsigned klass[] = {0, 3, 6};
		for (unsigned c = 0; c < 3; c++) {
			double all = (double)(at.shed[klass[c]] + at.admitted[klass[c]]);
			assert_true(fabs((double)at.shed[klass[c]] / all - cases[i].lost[c]) < 0.01);
		}
		world_end(&at.world);
	}
}

/* A class nobody has seen lately is judged by its place. */
static void a_class_that_was_silent_is_not_shed_before_lower_ones(void **state)
{
	static const unsigned low[WEIR_CLASSES] = {[5] = 2}, both[WEIR_CLASSES] = {[2] = 1, [7] = 1};
	struct pressed at;
	open_pressed(&at);
	offer_rounds(&at, low, 300);
	weir_stage_press(at.stage, 0.5);
	clear_pressed(&at);
	offer_rounds(&at, both, 40);
	assert_int_equal(at.shed[2], 0);
	assert_int_equal(at.admitted[7], 0);
	world_end(&at.world);
}

static void pressing_again_and_again_changes_nothing(void **state)
{
	static const unsigned load[WEIR_CLASSES] = {[0] = 1, [7] = 1};
	struct pressed at;
	open_pressed(&at);
	offer_rounds(&at, load, 200);
	clear_pressed(&at);
	for (unsigned i = 0; i < 1000; i++) {
		weir_stage_press(at.stage, 0.25);
		weir_stage_press(at.stage, 0.25);
		offer_rounds(&at, load, 1);
	}
	assert_int_equal(at.shed[0], 0);
	assert_true(at.shed[7] >= 495 && at.shed[7] <= 505);
	world_end(&at.world);
}

static void offers_of_many_lose_the_same_part(void **state)
{
	struct pressed at;
	open_pressed(&at);
	weir_stage_press(at.stage, 0.5);
	uint64_t shed = 0, all = 0;
	weir_random random;
	weir_random_init(&random, 7);
	for (unsigned i = 0; i < 2000; i++) {
		unsigned count = i % 2 ? 1 : (unsigned)weir_random_below(&random, 100) + 1;
		jobs_init(jobs, count, 4);
		bool admitted = jobs_offer_many(at.stage, jobs, count) == WEIR_ADMITTED;
		shed += admitted ? 0 : count;
		all += count;
		world_run(at.world, WEIR_NS_PER_MS);
	}
	assert_true(fabs((double)shed / (double)all - 0.5) < 0.005);
	world_end(&at.world);
}

static void exempt_events_are_never_pressed_out(void **state)
{
	struct pressed at;
	open_pressed(&at);
	weir_stage_press(at.stage, 1);
	for (unsigned i = 0; i < 100; i++) {
		job_init(&jobs[i], i, 7);
		jobs[i].event.flags = WEIR_EVENT_EXEMPT;
		assert_int_equal(weir_offer(at.stage, &jobs[i].event), WEIR_ADMITTED);
	}
	assert_int_equal(weir_offer(at.stage, (job_init(&jobs[200], 1, 0), &jobs[200].event)),
			 WEIR_SHED_RESOURCE);
	world_end(&at.world);
}

static void nonsense_is_as_near_as_possible(void **state)
{
	struct pressed at;
	static const unsigned load[WEIR_CLASSES] = {[1] = 1};
	open_pressed(&at);
	weir_stage_press(at.stage, NAN);
	weir_stage_press(at.stage, -3);
	offer_rounds(&at, load, 10);
	assert_int_equal(at.shed[1], 0);
	weir_stage_press(at.stage, INFINITY);
	clear_pressed(&at);
	offer_rounds(&at, load, 10);
	assert_int_equal(at.admitted[1], 0);
	world_end(&at.world);
}

/* ---- who is told ---- */

/* front ─▶ middle ─▶ back, all at once; the back's law refuses everything. */
struct line {
	weir_world *world;
	struct probe front, middle, back;
};

static weir_verdict refuse(void *state, const weir_ask *ask)
{
	return WEIR_SHED_RATE;
}

static const weir_admission_law refuse_law = {.name = "refuse", .admit = refuse};

static void forward_thrice_then_refuse(struct probe *probe, struct job *job)
{
	for (int i = 0; i < 3; i++)
		if (weir_offer(probe->next, &job->event) == WEIR_ADMITTED)
			return;
	weir_refused(&job->event);
}

static void open_line(struct line *line, bool heed)
{
	memset(line, 0, sizeof *line);
	line->world = world_virtual(1);
	weir_domain *domain = domain_reactor(line->world, "reactor", 1);
	probe_open(&line->front, domain, (weir_stage_options){.name = "front", .heed_downstream = heed});
	probe_open(&line->middle, domain, (weir_stage_options){.name = "middle"});
	probe_open(&line->back, domain, (weir_stage_options){.name = "back", .admission = &refuse_law});
	line->front.act = PROBE_FORWARD;
	line->front.next = line->middle.stage;
	line->middle.each = forward_thrice_then_refuse;
	line->middle.next = line->back.stage;
	must(weir_world_start(line->world));
}

static uint64_t told(const struct line *line, unsigned klass)
{
	return atomic_load(&line->front.stage->pressure.below[klass]);
}

static void a_shed_is_told_to_where_the_event_entered_once(void **state)
{
	struct line line;
	open_line(&line, true);
	jobs_init(jobs, 10, 2);
	for (int i = 0; i < 10; i++)
		weir_offer(line.front.stage, &jobs[i].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(told(&line, 2), 10); /* not 30, nor 40 */
	world_end(&line.world);
	open_line(&line, false);
	jobs_init(jobs, 10, 2);
	weir_offer(line.front.stage, &jobs[0].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(told(&line, 2), 0);
	world_end(&line.world);
}

static void demote(struct probe *probe, struct job *job)
{
	job->event.klass = 7;
	if (weir_offer(probe->next, &job->event) != WEIR_ADMITTED)
		weir_fail(&job->event);
}

static void it_counts_in_the_class_that_it_entered_in(void **state)
{
	struct line line;
	open_line(&line, true);
	line.middle.each = demote;
	jobs_init(jobs, 5, 2);
	for (int i = 0; i < 5; i++)
		weir_offer(line.front.stage, &jobs[i].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(told(&line, 2), 5);
	assert_int_equal(told(&line, 7), 0);
	world_end(&line.world);
}

static void refuse_here(struct probe *probe, struct job *job)
{
	weir_refused(&job->event);
}

static void fail_here(struct probe *probe, struct job *job)
{
	weir_fail(&job->event);
}

/* A backend outside of this world is further down, too. */
static void a_refusal_from_outside_counts_where_the_event_entered(void **state)
{
	struct line line;
	open_line(&line, true);
	line.front.each = refuse_here;
	jobs_init(jobs, 5, 1);
	for (int i = 0; i < 3; i++)
		weir_offer(line.front.stage, &jobs[i].event);
	world_run(line.world, WEIR_NS_PER_MS);
	line.front.each = fail_here; /* says nothing about load */
	weir_offer(line.front.stage, &jobs[3].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(told(&line, 1), 3);
	world_end(&line.world);
}

static void drops_further_down_count_and_those_for_other_reasons_do_not(void **state)
{
	struct line line;
	open_line(&line, true);
	must(weir_stage_admission(line.back.stage, NULL, NULL));
	line.front.next = line.back.stage;
	jobs_init(jobs, 5, 1);
	weir_stage_close(line.back.stage);
	weir_offer(line.front.stage, &jobs[0].event); /* closed: no overload */
	weir_event_cancel(&jobs[1].event);
	weir_offer(line.front.stage, &jobs[1].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(told(&line, 1), 0);
	world_end(&line.world);
}

/* Sheds at the entry itself waste nothing. */
static void the_entrys_own_sheds_are_its_own(void **state)
{
	struct line line;
	open_line(&line, true);
	must(weir_stage_admission(line.front.stage, &refuse_law, NULL));
	jobs_init(jobs, 5, 1);
	for (int i = 0; i < 5; i++)
		weir_offer(line.front.stage, &jobs[i].event);
	assert_int_equal(told(&line, 1), 0);
	world_end(&line.world);
}

/* Many of one offer may have entered at different stages. */
static struct job *kept[8];
static unsigned kept_count;

static void keep(struct probe *probe, struct job *job)
{
	weir_hold(&job->event);
	kept[kept_count++] = job;
}

static void many_that_entered_at_different_stages_are_told_apart(void **state)
{
	struct line line;
	open_line(&line, true);
	kept_count = 0;
	line.front.each = line.middle.each = keep;
	jobs_init(jobs, 5, 1);
	for (int i = 0; i < 5; i++)
		weir_offer(i < 2 ? line.front.stage : line.middle.stage, &jobs[i].event);
	world_run(line.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs_offer_many(line.back.stage, jobs, 5), WEIR_SHED_RATE);
	assert_int_equal(told(&line, 1), 2);
	for (int i = 0; i < 5; i++)
		weir_done(&jobs[i].event);
	world_end(&line.world);
}

/* A class is shed for the reason that is larger, and says so. */
static void the_reason_is_the_one_that_presses(void **state)
{
	struct line line;
	open_line(&line, true);
	unsigned by[WEIR_VERDICT_COUNT] = {0};
	for (int i = 0; i < 3000; i++) {
		job_init(&jobs[0], 1, 1);
		weir_verdict verdict = weir_offer(line.front.stage, &jobs[0].event);
		by[verdict]++;
		world_run(line.world, WEIR_NS_PER_MS);
		if (i ==
		    1500) /* of class 7 alone, which is not there: class 1 is pressed by far less than from below */
			weir_stage_press(line.front.stage, 0.01);
	}
	assert_true(by[WEIR_SHED_UPSTREAM] > 2500);
	assert_int_equal(by[WEIR_SHED_RESOURCE], 0);
	world_end(&line.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(one_class_loses_exactly_the_part_that_is_asked_for),
		CHECK_TEST(the_lowest_class_goes_first),
		CHECK_TEST(a_class_that_was_silent_is_not_shed_before_lower_ones),
		CHECK_TEST(pressing_again_and_again_changes_nothing),
		CHECK_TEST(offers_of_many_lose_the_same_part),
		CHECK_TEST(exempt_events_are_never_pressed_out),
		CHECK_TEST(nonsense_is_as_near_as_possible),
		CHECK_TEST(a_shed_is_told_to_where_the_event_entered_once),
		CHECK_TEST(it_counts_in_the_class_that_it_entered_in),
		CHECK_TEST(a_refusal_from_outside_counts_where_the_event_entered),
		CHECK_TEST(drops_further_down_count_and_those_for_other_reasons_do_not),
		CHECK_TEST(the_entrys_own_sheds_are_its_own),
		CHECK_TEST(many_that_entered_at_different_stages_are_told_apart),
		CHECK_TEST(the_reason_is_the_one_that_presses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
