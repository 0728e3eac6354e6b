/* SPDX-License-Identifier: Apache-2.0 */
/* A world is changed and looked at while it is under fire: laws swapped, stages added and closed, dumps and traces read. */
#include "stress/crowd.h"

#include <stdio.h>
#include <string.h>

static struct crowd crowd;

/* A law whose hooks count: they run on many threads, and may still run a little after the law was replaced. */
static _Atomic uint64_t asked, started, settled, ticked;

static weir_verdict counting_admit(void *state, const weir_ask *ask)
{
	uint64_t before = atomic_fetch_add(&asked, 1);
	return before % 10 == 0 ? WEIR_SHED_LATE : WEIR_ADMITTED;
}

static weir_verdict counting_start(void *state, const weir_event *event, const weir_turn *turn)
{
	uint64_t before = atomic_fetch_add(&started, 1);
	return before % 50 == 0 ? WEIR_SHED_WAITED : WEIR_ADMITTED;
}

static void counting_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	atomic_fetch_add(&settled, 1);
}

static void counting_tick(void *state, const weir_sample *sample)
{
	atomic_fetch_add(&ticked, 1);
}

static const weir_admission_law counting_law = {
	.name = "counting",
	.state_bytes = 64,
	.tick_ns = WEIR_NS_PER_MS,
	.admit = counting_admit,
	.start = counting_start,
	.settle = counting_settle,
	.tick = counting_tick,
};

static _Atomic uint64_t torn; /* trace entries that make no sense */

static void *look(void *arg)
{
	FILE *null = fopen("/dev/null", "w");
	static weir_trace_entry entries[256];
	while (!atomic_load((_Atomic bool *)arg)) {
		weir_dump(crowd.world, null);
		weir_dump_graph(crowd.world, null);
		size_t count = weir_trace_read(crowd.world, entries, 256);
		for (size_t i = 0; i < count; i++)
			if (strchr("osqbhdfx", entries[i].step) == NULL || entries[i].stage >= CROWD_STAGES)
				atomic_fetch_add(&torn, 1);
		for (int s = 0; s < CROWD_STAGES; s++) {
			weir_stage_stats stats;
			weir_stage_read(crowd.stages[s], WEIR_ALL_CLASSES, &stats);
			weir_stage_quantile(crowd.stages[s], WEIR_ALL_CLASSES, WEIR_RESPONSE, 0.9);
			weir_edge_count(crowd.stages[s], crowd.stages[0]);
		}
		weir_domain_threads(crowd.pool);
		weir_world_check(crowd.world);
		check_breathe();
	}
	fclose(null);
	return NULL;
}

static void swap_law(int turn)
{
	weir_threshold_params threshold = {.waiting = {20, 20, 20, 20, 20, 10, 10, 5}};
	weir_bucket_params bucket = {.rate_per_s = 1e6, .burst = 100};
	weir_stage *stage = crowd.stages[turn % CROWD_STAGES];
	switch (turn / CROWD_STAGES % 4) {
	case 0:
		must(weir_stage_admission(stage, &counting_law, NULL));
		break;
	case 1:
		must(weir_stage_admission(stage, &weir_law_threshold, &threshold));
		break;
	case 2:
		must(weir_stage_admission(stage, &weir_law_bucket, &bucket));
		break;
	default:
		must(weir_stage_admission(stage, NULL, NULL));
		break;
	}
}

static void laws_are_swapped_and_everything_is_looked_at_under_fire(void **state)
{
	_Atomic bool ends = false;
	pthread_t looker;
	crowd_open(&crowd, 3, 6000, 77, false);
	assert_int_equal(pthread_create(&looker, NULL, look, &ends), 0);
	weir_trace_every(crowd.world, 7);
	for (int turn = 0; turn < 400; turn++) {
		swap_law(turn);
		if (turn % 16 == 0)
			check_breathe();
	}
	crowd_join_producers(&crowd);
	atomic_store(&ends, true);
	pthread_join(looker, NULL);
	must(weir_world_stop(crowd.world, 600 * WEIR_NS_PER_S, NULL));
	crowd_join_settler(&crowd);
	assert_true(asked > 0 && started > 0 && settled > 0);
	assert_int_equal(torn, 0);
	crowd_check_and_free(&crowd);
}

static void stages_are_added_and_closed_under_fire(void **state)
{
	enum { STAGES = 200 };
	static struct probe probes[STAGES];
	static struct job jobs[STAGES];
	crowd_open(&crowd, 2, 4000, 88, false);
	for (int i = 0; i < STAGES; i++) {
		char name[32];
		snprintf(name, sizeof name, "late-%d", i);
		probe_open(&probes[i], i % 2 ? crowd.pool : crowd.reactor,
			   (weir_stage_options){.name = name, .capacity = 4});
		job_init(&jobs[i], 1, 0);
		assert_int_equal(weir_offer(probes[i].stage, &jobs[i].event), WEIR_ADMITTED);
		weir_stage_close(probes[i].stage);
		if (i == STAGES / 2)
			weir_stage_close(crowd.stages[CROWD_SINGLE]);
	}
	for (int i = 0; i < STAGES; i++)
		CHECK_EVENTUALLY(stats_of(probes[i].stage).completed == 1);
	crowd_join_producers(&crowd);
	must(weir_world_stop(crowd.world, 600 * WEIR_NS_PER_S, NULL));
	crowd_join_settler(&crowd);
	crowd_check_and_free(&crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(laws_are_swapped_and_everything_is_looked_at_under_fire),
		CHECK_TEST(stages_are_added_and_closed_under_fire),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
