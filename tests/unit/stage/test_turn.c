/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is among the stages of one pool or one thread, and the work that waits before a pool. */
#include "support/worlds.h"

#include "stage/runtime.h"
#include "support/unit.h"

enum { STAGES = 4 };

/* Stages on one domain, with a place in service that is taken: what is offered waits until `open`. */
struct several {
	weir_world *world;
	weir_domain *domain;
	struct probe probe[STAGES];
	unsigned order[64], count; /* of all stages: the ids in the order of their starts */
};

static struct several *now_in; /* probes have no place for it */

static void note(struct probe *probe, struct job *job)
{
	now_in->order[now_in->count++] = job->id;
	weir_done(&job->event);
}

static void open_several(struct several *s, weir_domain_kind kind, const uint64_t target_ms[STAGES])
{
	weir_adaptive_params params;
	static const char *const names[STAGES] = {"a", "b", "c", "d"};
	*s = (struct several){.world = world_virtual(1)};
	s->domain = kind == WEIR_ELASTIC ? domain_elastic(s->world, "pool", 1, 1)
					 : domain_reactor(s->world, "loop", 1);
	for (unsigned i = 0; i < STAGES; i++) {
		weir_law_defaults(&weir_law_adaptive, &params);
		params.target_ns[0] = target_ms[i] * WEIR_NS_PER_MS;
		s->probe[i] = (struct probe){.each = note};
		weir_stage_options options = {
			.name = names[i], .order = WEIR_BY_CLASS, .no_inline = true, .batch = 1};
		if (target_ms[i] != 0) {
			options.admission = &weir_law_adaptive;
			options.admission_params = &params;
		}
		probe_open(&s->probe[i], s->domain, options);
	}
	now_in = s;
	must(weir_world_start(s->world));
}

static void offer(struct several *s, unsigned stage, struct job *job, unsigned id, unsigned klass)
{
	job_init(job, id, klass);
	job->event.entered_ns = weir_world_now(s->world) - 1000 + id; /* no two at once */
	assert_int_equal(weir_offer(s->probe[stage].stage, &job->event), WEIR_ADMITTED);
}

static void expect(const struct several *s, const unsigned *ids, unsigned count)
{
	assert_int_equal(s->count, count);
	for (unsigned i = 0; i < count; i++)
		if (s->order[i] != ids[i])
			fail_msg("turn %u is of %u, not of %u", i, s->order[i], ids[i]);
}

static void the_highest_class_of_all_stages_goes_first(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct several s;
		struct job jobs[6];
		static const unsigned classes[] = {3, 1, 2, 0, 3, 0};
		open_several(&s, kind, (uint64_t[STAGES]){0});
		for (unsigned i = 0; i < 6; i++)
			offer(&s, i % STAGES, &jobs[i], i, classes[i]);
		world_run(s.world, WEIR_NS_PER_MS);
		expect(&s, (unsigned[]){3, 5, 1, 2, 0, 4}, 6);
		world_end(&s.world);
	}
}

static void without_targets_the_oldest_goes_first(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct several s;
		struct job jobs[8];
		uint64_t now_ns = 0;
		open_several(&s, kind, (uint64_t[STAGES]){0});
		now_ns = weir_world_now(s.world);
		for (unsigned i = 0; i < 8; i++) {
			job_init(&jobs[i], i, 0);
			jobs[i].event.entered_ns = now_ns - (i * 5 % 8) * 1000;
			assert_int_equal(weir_offer(s.probe[i / 2].stage, &jobs[i].event), WEIR_ADMITTED);
		}
		world_run(s.world, WEIR_NS_PER_MS);
		/* Within a stage in the order of the offers: 0 1, 2 3, 4 5, 6 7; ages 0 5 2 7 4 1 6 3. */
		expect(&s, (unsigned[]){6, 4, 7, 2, 3, 5, 0, 1}, 8);
		world_end(&s.world);
	}
}

static void what_is_due_first_goes_first(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct several s;
		struct job jobs[STAGES];
		open_several(&s, kind, (uint64_t[STAGES]){800, 200, 0, 400});
		for (unsigned i = 0; i < STAGES; i++)
			offer(&s, i, &jobs[i], i, 0);
		world_run(s.world, WEIR_NS_PER_MS);
		expect(&s, (unsigned[]){1, 3, 0, 2}, STAGES);
		world_end(&s.world);
	}
}

/* 10 ms of service each; a flood of class 0 in one stage, one of class 1 in another. */
static void serve(struct probe *probe, struct job *job)
{
	now_in->order[now_in->count < 63 ? now_in->count++ : 63] = job->id;
	weir_finish_after(&job->event, &job->timer, 10 * WEIR_NS_PER_MS);
}

static void a_lower_class_has_a_turn_every_ten_targets(void **state)
{
	for (unsigned same_stage = 0; same_stage < 2; same_stage++) {
		struct several s;
		static struct job jobs[500], low[2];
		open_several(&s, WEIR_ELASTIC, (uint64_t[STAGES]){0});
		for (unsigned i = 0; i < STAGES; i++) {
			s.probe[i].each = serve;
			weir_stage *stage = s.probe[i].stage;
			for (unsigned k = 0; k < WEIR_CLASSES; k++)
				atomic_store(&stage->terms.after_ns[k], 100 * WEIR_NS_PER_MS);
		}
		for (unsigned i = 0; i < 50; i++)
			offer(&s, 0, &jobs[i], 0, 0);
		offer(&s, same_stage ? 0 : 1, &low[0], 1, 1);
		offer(&s, same_stage ? 0 : 1, &low[1], 2, 1);
		world_run(s.world, 2 * WEIR_NS_PER_S);
		unsigned first = 0, second = 0;
		for (unsigned i = 0; i < s.count; i++) {
			first = s.order[i] == 1 ? i : first;
			second = s.order[i] == 2 ? i : second;
		}
		assert_int_equal(first, 11);
		assert_int_equal(second, 22);
		world_end(&s.world);
	}
}

/* ---- a pick never loses a turn ---- */

static void a_pick_finds_something_exactly_when_a_lane_can_start(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		weir_random random;
		struct several s;
		static struct job jobs[200];
		unsigned offered = 0;
		weir_random_init(&random, seed);
		open_several(&s, WEIR_ELASTIC, (uint64_t[STAGES]){50, 0, 300, 5});
		weir_domain *domain = s.domain;
		for (unsigned step = 0; step < 200; step++) {
			unsigned at = (unsigned)weir_random_below(&random, STAGES);
			weir_lane *lane = &s.probe[at].stage->lanes[0];
			if (weir_random_below(&random, 3) == 0) {
				/* As a handler of a single stage that is busy. */
				lane->running = !lane->running;
			} else {
				job_init(&jobs[offered], 0, (unsigned)weir_random_below(&random, 3));
				offered +=
					weir_offer(s.probe[at].stage, &jobs[offered].event) == WEIR_ADMITTED;
			}
			bool any = false;
			for (unsigned i = 0; i < STAGES; i++)
				any |= weir_lane_startable(&s.probe[i].stage->lanes[0]);
			weir_lane *picked = weir_elastic_pick_locked(domain, weir_world_now(s.world));
			assert_for_seed(seed, (picked != NULL) == any);
			assert_for_seed(seed, picked == NULL || weir_lane_startable(picked));
		}
		for (unsigned i = 0; i < STAGES; i++)
			s.probe[i].stage->lanes[0].running = false, s.probe[i].each = NULL;
		world_end(&s.world);
	}
}

/* ---- the backlog of a pool ---- */

static uint64_t waiting_work(const weir_domain *domain)
{
	uint64_t sum = 0;
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		uint64_t total = atomic_load(&domain->backlog.total[k]), parts;
		parts = atomic_load(&domain->backlog.overdue[k]);
		for (unsigned i = 0; i < WEIR_BACKLOG_SLICES; i++)
			parts += atomic_load(&domain->backlog.work[k][i]);
		assert_int_equal(parts, total);
		sum += total;
	}
	return sum;
}

static void what_waits_in_all_stages_is_counted_until_it_starts(void **state)
{
	struct several s;
	static struct job jobs[300];
	open_several(&s, WEIR_ELASTIC, (uint64_t[STAGES]){500, 100, 0, 900});
	for (unsigned i = 0; i < STAGES; i++)
		s.probe[i].each = serve;
	for (unsigned i = 0; i < STAGES; i++) /* to be known by */
		offer(&s, i, &jobs[i], i, 0);
	world_run(s.world, WEIR_NS_PER_S);
	assert_int_equal(waiting_work(s.domain), 0);
	for (unsigned i = 0; i < STAGES; i++)
		offer(&s, i, &jobs[i], i, i);
	world_run(s.world, WEIR_NS_PER_US);
	uint64_t each = (10 * WEIR_NS_PER_MS) >> WEIR_WORK_SHIFT;
	assert_int_equal(waiting_work(s.domain), 3 * each); /* the fourth has started */
	world_run(s.world, 15 * WEIR_NS_PER_MS);
	assert_int_equal(waiting_work(s.domain), 2 * each);
	weir_event_cancel(&jobs[2].event);
	weir_event_cancel(&jobs[3].event);
	world_run(s.world, WEIR_NS_PER_S);
	assert_int_equal(waiting_work(s.domain), 0);
	world_end(&s.world);
}

/* Costs are learnt while the service runs, so the first events have none. */
static void events_without_a_cost_do_not_change_the_price_of_a_unit(void **state)
{
	struct several s;
	open_several(&s, WEIR_ELASTIC, (uint64_t[STAGES]){500, 100, 0, 900});
	weir_stage *stage = s.probe[0].stage;
	for (unsigned i = 0; i < 100; i++)
		weir_turn_learn(stage, 0, 70 * WEIR_NS_PER_MS);
	assert_true(stage->terms.per_cost_ns == 0);
	for (unsigned i = 0; i < 10; i++)
		weir_turn_learn(stage, 70000, 70 * WEIR_NS_PER_MS);
	weir_turn_learn(stage, 0, 10 * WEIR_NS_PER_MS);
	assert_true(stage->terms.per_cost_ns > 999 && stage->terms.per_cost_ns < 1001);
	world_end(&s.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_highest_class_of_all_stages_goes_first),
		CHECK_TEST(without_targets_the_oldest_goes_first),
		CHECK_TEST(what_is_due_first_goes_first),
		CHECK_TEST(a_lower_class_has_a_turn_every_ten_targets),
		CHECK_TEST(a_pick_finds_something_exactly_when_a_lane_can_start),
		CHECK_TEST(what_waits_in_all_stages_is_counted_until_it_starts),
		CHECK_TEST(events_without_a_cost_do_not_change_the_price_of_a_unit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
