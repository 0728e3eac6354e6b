/* SPDX-License-Identifier: Apache-2.0 */
/* A bound that stages and their threads share: never exceeded, no place idle while somebody waits, turns among those who do. */
#include "support/worlds.h"

#include <errno.h>
#include <string.h>

#include "stage/runtime.h"

#define THREADS 3

struct bounded {
	weir_world *world;
	weir_bound *bound;
	struct probe probe, other; /* two stages that have it */
};

static void open_bounded(struct bounded *at, uint32_t most, weir_stage_options options)
{
	memset(at, 0, sizeof(*at));
	at->world = world_virtual(1);
	must(weir_bound_new(most, &at->bound));
	weir_domain *domain = domain_reactor(at->world, "d", THREADS);
	at->probe.act = at->other.act = PROBE_HOLD;
	options.bound = at->bound;
	options.capacity = 64 * THREADS;
	options.name = "first";
	probe_open(&at->probe, domain, options);
	options.name = "second";
	probe_open(&at->other, domain, options);
	must(weir_world_start(at->world));
}

static void close_bounded(struct bounded *at)
{
	assert_int_equal(weir_bound_inside(at->bound), 0);
	world_end(&at->world);
	weir_bound_free(&at->bound);
	assert_null(at->bound);
	weir_bound_free(&at->bound);
}

static void offer_at(weir_stage *stage, struct job *job, unsigned id, unsigned home)
{
	job_init(job, id, 0);
	job->event.home = (uint16_t)home;
	assert_int_equal(weir_offer(stage, &job->event), WEIR_ADMITTED);
}

static void a_bound_of_nothing_is_refused(void **state)
{
	weir_bound *bound = NULL;
	assert_int_equal(weir_bound_new(0, &bound), -EINVAL);
	assert_null(bound);
}

static void a_pool_cannot_have_one(void **state)
{
	weir_world *world = world_virtual(1);
	weir_bound *bound;
	weir_stage *stage;
	struct probe probe = {0};
	must(weir_bound_new(1, &bound));
	probe_open(&probe, domain_elastic(world, "e", 1, 1), (weir_stage_options){.name = "without"});
	weir_stage_options options = probe.stage->options;
	options.name = "with";
	options.bound = bound;
	assert_int_equal(weir_stage_new(probe.stage->domain, &options, &stage), -EINVAL);
	check_contains(weir_error(), "reactor");
	world_end(&world);
	weir_bound_free(&bound);
}

/* One place and three threads, each with its queue, inlined or not. */
static void one_place_serves_the_queues_of_all_threads_in_turn(void **state)
{
	for (int queued = 0; queued < 2; queued++) {
		struct bounded at;
		struct job jobs[12];
		open_bounded(&at, 1, (weir_stage_options){.no_inline = queued != 0});
		for (unsigned i = 0; i < 12; i++)
			offer_at(at.probe.stage, &jobs[i], i, i / 4);
		world_run(at.world, WEIR_NS_PER_MS);
		unsigned homes[12];
		for (unsigned i = 0; i < 12; i++) {
			assert_int_equal(at.probe.handled, i + 1);
			assert_int_equal(weir_bound_inside(at.bound), 1);
			struct job *job = &jobs[at.probe.order[i]];
			homes[i] = at.probe.order[i] / 4;
			weir_done(&job->event);
			world_run(at.world, WEIR_NS_PER_MS);
		}
		/* Any three in a row are of three threads. */
		for (unsigned i = 0; i + 2 < 12; i++) {
			assert_int_not_equal(homes[i], homes[i + 1]);
			assert_int_not_equal(homes[i], homes[i + 2]);
		}
		expect_counts(at.probe.stage, 12, 0, 12, 0, 0);
		close_bounded(&at);
	}
}

static void stages_share_it(void **state)
{
	struct bounded at;
	struct job jobs[10];
	open_bounded(&at, 4, (weir_stage_options){0});
	for (unsigned i = 0; i < 10; i++)
		offer_at(i % 2 == 0 ? at.probe.stage : at.other.stage, &jobs[i], i, i % THREADS);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled + at.other.handled, 4);
	unsigned ended = 0;
	for (unsigned round = 0; round < 10 && ended < 10; round++)
		for (unsigned i = 0; i < 10; i++)
			if (jobs[i].handled == 1 && jobs[i].event.state == WEIR_EVENT_HELD) {
				weir_done(&jobs[i].event);
				world_run(at.world, WEIR_NS_PER_MS);
				ended++;
				unsigned started = ended + 4 < 10 ? ended + 4 : 10;
				assert_int_equal(at.probe.handled + at.other.handled, started);
			}
	assert_int_equal(ended, 10);
	close_bounded(&at);
}

/* What was granted to a queue that has emptied goes to the next. */
static void a_place_that_cannot_be_used_is_passed_on(void **state)
{
	struct bounded at;
	struct job jobs[4];
	open_bounded(&at, 1, (weir_stage_options){0});
	for (unsigned i = 0; i < 3; i++)
		offer_at(at.probe.stage, &jobs[i], i, i);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 1);
	weir_event_cancel(&jobs[1].event);
	weir_done(&jobs[0].event);
	world_run(at.world, WEIR_NS_PER_MS);
	/* The cancelled one was dropped in its turn, and the third got the place. */
	assert_int_equal(jobs[1].dropped, 1);
	assert_int_equal(jobs[2].handled, 1);
	assert_int_equal(weir_bound_inside(at.bound), 1);
	weir_done(&jobs[2].event);
	close_bounded(&at);
}

static void a_reservation_holds_no_place(void **state)
{
	struct bounded at;
	struct job jobs[2];
	weir_ticket ticket;
	open_bounded(&at, 1, (weir_stage_options){0});
	offer_at(at.probe.stage, &jobs[0], 0, 0);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(weir_reserve(at.probe.stage, 0, 1, 0, 1, &ticket), WEIR_ADMITTED);
	offer_at(at.probe.stage, &jobs[1], 1, 2);
	world_run(at.world, WEIR_NS_PER_MS);
	weir_done(&jobs[0].event);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[1].handled, 1);
	weir_cancel(&ticket);
	weir_done(&jobs[1].event);
	close_bounded(&at);
}

static void it_can_be_changed_while_they_wait(void **state)
{
	struct bounded at;
	struct job jobs[12];
	open_bounded(&at, 2, (weir_stage_options){0});
	for (unsigned i = 0; i < 12; i++)
		offer_at(at.probe.stage, &jobs[i], i, i % THREADS);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 2);
	weir_bound_set(at.bound, 7);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(weir_bound_most(at.bound), 7);
	assert_int_equal(at.probe.handled, 7);
	/* Lowered: those inside go on, and none is started until so few are left. */
	weir_bound_set(at.bound, 0);
	assert_int_equal(weir_bound_most(at.bound), 1);
	for (unsigned i = 0; i < 6; i++) {
		weir_done(&jobs[at.probe.order[i]].event);
		world_run(at.world, WEIR_NS_PER_MS);
		assert_int_equal(at.probe.handled, 7);
	}
	weir_bound_set(at.bound, 100);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 12);
	assert_int_equal(weir_bound_inside(at.bound), 6);
	for (unsigned i = 6; i < 12; i++)
		weir_done(&jobs[at.probe.order[i]].event);
	close_bounded(&at);
}

/* Work that has begun before anybody was asked is counted, and whoever comes next waits for it. */
static void held_offers_are_counted(void **state)
{
	struct bounded at;
	struct job jobs[3];
	open_bounded(&at, 1, (weir_stage_options){0});
	jobs_init(jobs, 3, 0);
	assert_int_equal(weir_offer_held(at.probe.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer_held(at.probe.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_bound_inside(at.bound), 2);
	offer_at(at.other.stage, &jobs[2], 2, 1);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.other.handled, 0);
	weir_done(&jobs[0].event);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.other.handled, 0);
	weir_done(&jobs[1].event);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.other.handled, 1);
	weir_done(&jobs[2].event);
	close_bounded(&at);
}

/* A law whose limit is lower decides; the bound's places are not kept from the other stage by lanes that may not use them. */
static uint32_t limit_of_one(const void *state)
{
	return 1;
}

static weir_verdict admit_all(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static void a_law_with_a_lower_limit_leaves_places_to_others(void **state)
{
	static const weir_admission_law law = {.name = "one", .admit = admit_all, .limit = limit_of_one};
	struct bounded at;
	struct job jobs[9];
	open_bounded(&at, 4, (weir_stage_options){0});
	must(weir_stage_admission(at.probe.stage, &law, NULL));
	for (unsigned i = 0; i < 6; i++)
		offer_at(at.probe.stage, &jobs[i], i, 0);
	for (unsigned i = 6; i < 9; i++)
		offer_at(at.other.stage, &jobs[i], i, 1);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(at.probe.handled, 1);
	assert_int_equal(at.other.handled, 3);
	for (unsigned i = 0; i < 6; i++) {
		weir_done(&jobs[at.probe.order[i]].event);
		world_run(at.world, WEIR_NS_PER_MS);
		assert_int_equal(at.probe.handled, i + 2 < 6 ? i + 2 : 6);
	}
	for (unsigned i = 6; i < 9; i++)
		weir_done(&jobs[i].event);
	close_bounded(&at);
}

static weir_verdict start_none(void *state, const weir_event *event, const weir_turn *turn)
{
	return WEIR_SHED_WAITED;
}

/* From within the stage's thread, where an event would run at once. */
static void offer_next(struct probe *probe, struct job *job)
{
	struct job *next = job->data;
	assert_int_equal(weir_offer(probe->next, &next->event), WEIR_ADMITTED);
	weir_done(&job->event);
}

static void what_a_law_does_not_start_takes_no_place(void **state)
{
	static const weir_admission_law law = {.name = "no", .admit = admit_all, .start = start_none};
	struct bounded at;
	struct probe from = {.each = offer_next};
	struct job first, second;
	open_bounded(&at, 1, (weir_stage_options){0});
	probe_open(&from, at.probe.stage->domain, (weir_stage_options){.name = "from"});
	from.next = at.probe.stage;
	must(weir_stage_admission(at.probe.stage, &law, NULL));
	job_init(&first, 1, 0);
	job_init(&second, 2, 0);
	first.data = &second;
	assert_int_equal(weir_offer(from.stage, &first.event), WEIR_ADMITTED);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(second.dropped, 1);
	close_bounded(&at);
}

/* The two halves of a race, each seen alone: who says that it wants a place looks again, and who has made one free does, too. */
static void nobody_misses_the_other(void **state)
{
	struct bounded at;
	struct job jobs[4];
	open_bounded(&at, 2, (weir_stage_options){0});
	weir_lane *lane = &at.probe.stage->lanes[1];
	for (unsigned i = 0; i < 3; i++)
		offer_at(at.probe.stage, &jobs[i], i, i == 2);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[2].handled, 0);
	/* It had not yet said so when a place became free. */
	assert_true(atomic_exchange(&lane->wants, false));
	weir_done(&jobs[0].event);
	assert_true(weir_bound_wait(lane, true, NULL));
	assert_false(atomic_load(&lane->wants));
	weir_lane_kick(lane, NULL);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[2].handled, 1);
	/* It said so after the places were found to be all in use, and before they were given back. */
	offer_at(at.probe.stage, &jobs[3], 3, 1);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[3].handled, 0);
	weir_bound_force(lane);
	weir_bound_give(lane, 2, NULL);
	world_run(at.world, WEIR_NS_PER_MS);
	assert_int_equal(jobs[3].handled, 1);
	weir_bound_force(lane);
	for (unsigned i = 1; i < 4; i++)
		weir_done(&jobs[i].event);
	close_bounded(&at);
}

/* ---- real threads ---- */

#define CROWD 3000
static struct job crowd[CROWD];
static _Atomic unsigned inside, most_inside;
static unsigned held[CROWD], held_count; /* under the probe's lock */

static void work(struct probe *probe, struct job *job)
{
	unsigned now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
	while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now))
		;
	weir_hold(&job->event);
	pthread_mutex_lock(&probe->lock);
	held[held_count++] = job->id;
	pthread_mutex_unlock(&probe->lock);
}

/* Ends whatever is held, in the order in which it was started. */
static void *settle(void *arg)
{
	struct probe *probe = arg;
	for (unsigned ended = 0; ended < CROWD;) {
		pthread_mutex_lock(&probe->lock);
		bool any = held_count > ended;
		unsigned id = held[ended];
		pthread_mutex_unlock(&probe->lock);
		if (!any) {
			sched_yield();
			continue;
		}
		atomic_fetch_sub(&inside, 1);
		weir_done(&crowd[id].event);
		ended++;
	}
	return NULL;
}

static void crowd_with(uint32_t most)
{
	struct probe probe = {.each = work};
	weir_world *world = world_real();
	weir_bound *bound;
	pthread_t settler;
	held_count = 0;
	atomic_store(&most_inside, 0);
	must(weir_bound_new(most, &bound));
	probe_open(&probe, domain_reactor(world, "d", THREADS),
		   (weir_stage_options){.capacity = CROWD * THREADS, .bound = bound});
	must(weir_world_start(world));
	assert_int_equal(pthread_create(&settler, NULL, settle, &probe), 0);
	for (unsigned i = 0; i < CROWD; i++)
		offer_at(probe.stage, &crowd[i], i, i % THREADS);
	pthread_join(settler, NULL); /* hangs if a place is lost, or nobody is told of one */
	assert_int_equal(atomic_load(&most_inside), most);
	assert_int_equal(weir_bound_inside(bound), 0);
	expect_counts(probe.stage, CROWD, 0, CROWD, 0, 0);
	world_end(&world);
	weir_bound_free(&bound);
}

static void threads_never_exceed_it_and_none_is_forgotten(void **state)
{
	crowd_with(2);
	crowd_with(1); /* here nobody else would come by and find a place that was forgotten */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_bound_of_nothing_is_refused),
		CHECK_TEST(a_pool_cannot_have_one),
		CHECK_TEST(one_place_serves_the_queues_of_all_threads_in_turn),
		CHECK_TEST(stages_share_it),
		CHECK_TEST(a_place_that_cannot_be_used_is_passed_on),
		CHECK_TEST(a_reservation_holds_no_place),
		CHECK_TEST(it_can_be_changed_while_they_wait),
		CHECK_TEST(held_offers_are_counted),
		CHECK_TEST(a_law_with_a_lower_limit_leaves_places_to_others),
		CHECK_TEST(what_a_law_does_not_start_takes_no_place),
		CHECK_TEST(nobody_misses_the_other),
		CHECK_TEST(threads_never_exceed_it_and_none_is_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
