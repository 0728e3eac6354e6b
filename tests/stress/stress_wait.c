/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting offers where wake-ups and refusals race: nobody sleeps on while there is room, no circle closes. */
#include "support/worlds.h"

#include <string.h>

/* ---- a waiter and an offer that can never fit ---- */

struct rivals {
	weir_stage *stage;
	struct job waiting;
	_Atomic unsigned admitted, refused;
	_Atomic bool ends;
};

enum { OFFERS = 20000 };

static void *wait_again_and_again(void *arg)
{
	struct rivals *rivals = arg;
	for (unsigned i = 0; i < OFFERS; i++) {
		unsigned before = atomic_load(&rivals->waiting.handled);
		if (weir_offer_wait(rivals->stage, &rivals->waiting.event, 600 * WEIR_NS_PER_S) ==
		    WEIR_ADMITTED)
			atomic_fetch_add(&rivals->admitted, 1);
		while (atomic_load(&rivals->waiting.handled) == before)
			;
	}
	return NULL;
}

/* Two do not fit where one place is; trying must not leave others waiting for a place that is free. */
static void *offer_too_many(void *arg)
{
	struct rivals *rivals = arg;
	struct job pair[2];
	jobs_init(pair, 2, 0);
	while (!atomic_load(&rivals->ends))
		if (jobs_offer_many(rivals->stage, pair, 2) == WEIR_SHED_FULL)
			atomic_fetch_add(&rivals->refused, 1);
	return NULL;
}

static void done_then_tell(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		struct job *job = job_of(events[i]);
		weir_done(events[i]);
		atomic_fetch_add(&job->handled, 1);
	}
}

static void drop_nothing(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static void a_failed_attempt_leaves_nobody_asleep(void **state)
{
	static struct rivals rivals;
	weir_world *world = world_real();
	weir_stage_options options = {
		.name = "narrow", .handle = done_then_tell, .drop = drop_nothing, .capacity = 1};
	memset(&rivals, 0, sizeof rivals);
	must(weir_stage_new(domain_elastic(world, "pool", 1, 1), &options, &rivals.stage));
	must(weir_world_start(world));
	job_init(&rivals.waiting, 1, 0);
	pthread_t threads[3];
	assert_int_equal(pthread_create(&threads[0], NULL, wait_again_and_again, &rivals), 0);
	for (int i = 1; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, offer_too_many, &rivals), 0);
	CHECK_EVENTUALLY(rivals.admitted == OFFERS);
	atomic_store(&rivals.ends, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_true(rivals.refused > 0);
	world_end(&world);
}

/* ---- two pools that turn to each other at the same moment ---- */

struct meeting {
	weir_world *world;
	struct probe probes[2];
	struct job first[2], second[2], child[2];
	_Atomic unsigned arrived;
};

static void meet_and_wait(struct probe *probe, struct job *job)
{
	struct meeting *meeting = probe->data;
	struct job *child = job->data;
	if (child != NULL) {
		atomic_fetch_add(&meeting->arrived, 1);
		while (atomic_load(&meeting->arrived) < 4) /* both of them, and both queues are full */
			;
		child->why = weir_offer_wait(probe->next, &child->event, 600 * WEIR_NS_PER_S);
	}
	weir_done(&job->event);
}

static void one_of_two_that_would_wait_for_each_other_is_refused(void **state)
{
	for (int round = 0; round < 150; round++) {
		static struct meeting m;
		memset(&m, 0, sizeof m);
		m.world = world_real();
		for (int i = 0; i < 2; i++) {
			m.probes[i].each = meet_and_wait;
			m.probes[i].data = &m;
			probe_open(&m.probes[i], domain_elastic(m.world, i ? "right" : "left", 1, 1),
				   (weir_stage_options){.name = i ? "right" : "left", .capacity = 1});
		}
		must(weir_world_start(m.world));
		for (int i = 0; i < 2; i++) {
			m.probes[i].next = m.probes[1 - i].stage;
			job_init(&m.first[i], 1, 0);
			job_init(&m.second[i], 2, 0);
			job_init(&m.child[i], 3, 0);
			m.first[i].data = &m.child[i];
			assert_int_equal(weir_offer(m.probes[i].stage, &m.first[i].event), WEIR_ADMITTED);
		}
		CHECK_EVENTUALLY(m.arrived == 2);
		for (int i = 0; i < 2; i++)
			assert_int_equal(weir_offer(m.probes[i].stage, &m.second[i].event), WEIR_ADMITTED);
		atomic_fetch_add(&m.arrived, 2);
		CHECK_EVENTUALLY(m.second[0].handled == 1 && m.second[1].handled == 1);
		must(weir_world_stop(m.world, 600 * WEIR_NS_PER_S, NULL));
		assert_true(m.child[0].why == WEIR_SHED_DEADLOCK || m.child[1].why == WEIR_SHED_DEADLOCK);
		weir_world_free(&m.world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_failed_attempt_leaves_nobody_asleep),
		CHECK_TEST(one_of_two_that_would_wait_for_each_other_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
