/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything around the laws is changed under fire: modes, ceilings, pressure, limits, patience, laws swapped and retuned, saved and read,
 * a monitor made and freed. Nothing is lost, nothing is told twice, no lane is left waiting.
 */
#include "stress/crowd.h"

#include <stdio.h>

static struct crowd crowd;

/* ---- a law whose every number changes ---- */

struct moody {
	_Atomic uint64_t asked, admitted, refunded, refused, gone, settled;
	_Atomic uint32_t limit;
	_Atomic uint64_t patience_ns;
	_Atomic uint64_t starts;
	uint64_t alone; /* where each queue has its state, one thread at a time: nothing guards it */
	uint64_t ticks;
};

static int moody_init(void *state, const void *params, const char **ret_wrong)
{
	struct moody *moody = state;
	atomic_init(&moody->limit, 3);
	atomic_init(&moody->patience_ns, UINT64_MAX);
	return 0;
}

static weir_verdict moody_admit(void *state, const weir_ask *ask)
{
	struct moody *moody = state;
	if (atomic_fetch_add(&moody->asked, 1) % 11 == 10)
		return WEIR_SHED_RATE;
	atomic_fetch_add(&moody->admitted, ask->count);
	return WEIR_ADMITTED;
}

static void moody_refund(void *state, const weir_ask *ask)
{
	atomic_fetch_add(&((struct moody *)state)->refunded, ask->count);
}

static weir_verdict moody_start(void *state, const weir_event *event, const weir_turn *turn)
{
	struct moody *moody = state;
	if (atomic_fetch_add(&moody->starts, 1) % 29 != 28)
		return WEIR_ADMITTED;
	atomic_fetch_add(&moody->refused, 1);
	return WEIR_SHED_WAITED;
}

static void moody_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	atomic_fetch_add(&((struct moody *)state)->gone, 1);
}

static weir_verdict lanes_start(void *state, const weir_event *event, const weir_turn *turn)
{
	((struct moody *)state)->alone++;
	return moody_start(state, event, turn);
}

static void lanes_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	((struct moody *)state)->alone++;
	moody_gone(state, event, now_ns);
}

static void moody_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns)
{
	atomic_fetch_add(&((struct moody *)state)->settled, 1);
}

static void moody_tick(void *state, const weir_sample *sample)
{
	static const uint32_t limits[] = {1, 8, 2, UINT32_MAX, 0, 5};
	struct moody *moody = state;
	moody->ticks++;
	atomic_store(&moody->limit, limits[moody->ticks % 6]);
	atomic_store(&moody->patience_ns, moody->ticks % 3 ? UINT64_MAX : WEIR_NS_PER_MS);
}

static uint32_t moody_limit(const void *state)
{
	return atomic_load(&((const struct moody *)state)->limit);
}

static uint64_t moody_patience(const void *state, unsigned klass)
{
	return atomic_load(&((const struct moody *)state)->patience_ns);
}

static double moody_quality(const void *state, unsigned klass)
{
	return moody_limit(state) > 4 ? 1 : 0.5;
}

static void moody_report(const void *state, unsigned klass, weir_report *ret_report)
{
	const struct moody *moody = state;
	ret_report->limit = moody_limit(state);
	ret_report->unreachable = atomic_load(&moody->settled) % 2;
	ret_report->target_ns = 1;
}

static int moody_save(const void *state, char *text, size_t size)
{
	return snprintf(text, size, "%llu", (unsigned long long)((const struct moody *)state)->ticks);
}

static int moody_load(void *state, const char *text)
{
	return sscanf(text, "%llu", (unsigned long long *)&((struct moody *)state)->ticks) == 1 ? 0 : -22;
}

#define MOODY                                                                                               \
	.state_bytes = sizeof(struct moody), .tick_ns = WEIR_NS_PER_MS, .init = moody_init,                 \
	.admit = moody_admit, .refund = moody_refund, .settle = moody_settle, .tick = moody_tick,           \
	.limit = moody_limit, .patience = moody_patience, .quality = moody_quality, .report = moody_report, \
	.save = moody_save, .load = moody_load

static const weir_admission_law moody_law = {
	.name = "moody", MOODY, .start = moody_start, .gone = moody_gone};
static const weir_admission_law lanes_law = {
	.name = "lanes", MOODY, .per_lane = true, .start = lanes_start, .gone = lanes_gone};

/* A limit that nobody's tick reminds of. */
static uint32_t fixed_limit(const void *state)
{
	return 1;
}

static const weir_admission_law fixed_law = {.name = "fixed-limit",
					     .state_bytes = sizeof(struct moody),
					     .init = moody_init,
					     .admit = moody_admit,
					     .limit = fixed_limit};

/* ---- those who meddle ---- */

static _Atomic bool ends;

static void change_laws(unsigned turn)
{
	static const weir_admission_law *const laws[] = {&moody_law, &moody_law, &lanes_law, &fixed_law,
							 NULL};
	must(weir_stage_admission(crowd.stages[turn % CROWD_STAGES], laws[turn / CROWD_STAGES % 5], NULL));
}

static void *meddle(void *arg)
{
	weir_random random;
	char text[64];
	weir_random_init(&random, 5);
	while (!atomic_load(&ends)) {
		weir_stage *stage = crowd.stages[weir_random_below(&random, CROWD_STAGES)];
		weir_report report;
		weir_stage_mode(stage, (weir_admission_mode)weir_random_below(&random, 3));
		weir_stage_shed_ceiling(stage, (double)weir_random_below(&random, 5) / 4);
		weir_stage_press(stage, weir_random_below(&random, 2) ? 0 : 0.3);
		weir_stage_report(stage, 0, &report);
		weir_stage_quality(stage, 1);
		if (weir_stage_save(stage, text, sizeof text) > 0)
			weir_stage_load(stage, text); /* may be of another law by now, and then refused */
		check_breathe();
	}
	return NULL;
}

static void give(weir_readings *ret_readings, void *arg)
{
	static _Atomic unsigned turn;
	ret_readings->value[WEIR_MEMORY] = atomic_fetch_add(&turn, 1) % 2 ? 0.99 : 0.1;
}

static void *watch(void *arg)
{
	for (unsigned turn = 0; !atomic_load(&ends); turn++) {
		weir_monitor *monitor = NULL;
		weir_resources seen;
		weir_monitor_options options = {.interval_ns = 10 * WEIR_NS_PER_MS, .release_per_s = 100};
		options.read = turn % 2 ? give : NULL;
		if (weir_monitor_new(crowd.world, &options, &monitor) != 0)
			break;
		for (int s = 0; s < CROWD_STAGES; s++)
			weir_monitor_subscribe(monitor, crowd.stages[s]);
		for (unsigned i = 0; i < turn % 40; i++)
			check_breathe();
		weir_monitor_read(monitor, &seen);
		weir_monitor_free(&monitor);
	}
	return NULL;
}

static void everything_around_the_laws_changes_under_fire(void **state)
{
	pthread_t meddler, watcher;
	atomic_store(&ends, false);
	crowd_open(&crowd, 3, CHECK_SLOW ? 2500 : 8000, 99, false);
	assert_int_equal(pthread_create(&meddler, NULL, meddle, NULL), 0);
	assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
	for (unsigned turn = 0; turn < 300; turn++) {
		change_laws(turn);
		if (turn % 4 == 0)
			check_breathe();
	}
	crowd_join_producers(&crowd);
	atomic_store(&ends, true);
	pthread_join(meddler, NULL);
	pthread_join(watcher, NULL);
	for (int s = 0; s < CROWD_STAGES; s++)
		weir_stage_press(crowd.stages[s], 0);
	must(weir_world_stop(crowd.world, 600 * WEIR_NS_PER_S, NULL));
	crowd_join_settler(&crowd);
	crowd_check_and_free(&crowd);
}

/* A limit that comes and goes while events are inside: whatever the timing, the last of them finds its way out. */
static void no_lane_is_left_behind_a_limit(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		weir_world *world = world_real();
		struct probe probe = {0};
		enum { JOBS = 64 };
		static struct job jobs[JOBS];
		weir_domain *domain =
			kind ? domain_elastic(world, "pool", 2, 4) : domain_reactor(world, "reactor", 3);
		probe_open(&probe, domain, (weir_stage_options){.capacity = 512, .batch = 4});
		must(weir_world_start(world));
		for (unsigned round = 0; round < (CHECK_SLOW ? 60u : 300u); round++) {
			jobs_init(jobs, JOBS, 0);
			for (unsigned i = 0; i < JOBS; i++) {
				jobs[i].event.home = (uint16_t)(i % 3);
				while (weir_offer(probe.stage, &jobs[i].event) != WEIR_ADMITTED)
					;
				if (i % 16 == round % 16)
					must(weir_stage_admission(probe.stage, i / 16 % 2 ? &fixed_law : NULL,
								  NULL));
			}
			CHECK_EVENTUALLY(stats_of(probe.stage).in_flight == 0);
		}
		world_end(&world);
	}
}

/* ---- a limit that the queues share ---- */

#define SHARED_LIMIT 6
#define SHARED_JOBS  96

static struct job shared_jobs[SHARED_JOBS];
static struct job *_Atomic held[SHARED_JOBS]; /* by the number of the job */
static _Atomic unsigned inside, most_inside;

static uint32_t shared_limit(const void *state)
{
	return SHARED_LIMIT;
}

/* Nothing but the end of one event tells a queue that it may start another: there are no ticks. */
static const weir_admission_law shared_law = {.name = "shared-limit",
					      .state_bytes = sizeof(struct moody),
					      .init = moody_init,
					      .admit = moody_admit,
					      .limit = shared_limit};

static void hold_it(struct probe *probe, struct job *job)
{
	unsigned now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
	while (most < now && !atomic_compare_exchange_weak(&most_inside, &most, now))
		;
	weir_hold(&job->event);
	atomic_store(&held[job - shared_jobs], job);
}

static void *settle_held(void *arg)
{
	for (unsigned at = *(unsigned *)arg; !atomic_load(&ends); at++) {
		struct job *job = atomic_exchange(&held[at % SHARED_JOBS], NULL);
		if (job == NULL)
			continue;
		atomic_fetch_sub(&inside, 1);
		weir_done(&job->event);
	}
	return NULL;
}

/* Rounds of requests, of which most come to one queue, and each round to another one. */
static void offer_rounds(weir_stage *stage, unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++) {
		jobs_init(shared_jobs, SHARED_JOBS, 0);
		for (unsigned i = 0; i < SHARED_JOBS; i++) {
			shared_jobs[i].event.home = (uint16_t)((i % 8 == 0 ? i / 8 : round) % 4);
			while (weir_offer(stage, &shared_jobs[i].event) != WEIR_ADMITTED)
				;
		}
		CHECK_EVENTUALLY(stats_of(stage).in_flight == 0);
	}
}

static void places_freed_on_one_queue_reach_the_others(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.each = hold_it};
	pthread_t settlers[2];
	unsigned from[2] = {0, SHARED_JOBS / 2};
	atomic_store(&ends, false);
	probe_open(&probe, domain_reactor(world, "reactor", 4),
		   (weir_stage_options){.capacity = 512, .batch = 4, .admission = &shared_law});
	must(weir_world_start(world));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&settlers[i], NULL, settle_held, &from[i]), 0);
	offer_rounds(probe.stage, CHECK_SLOW ? 100 : 500);
	atomic_store(&ends, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(settlers[i], NULL);
	print_message("at most %u inside, of %u\n", atomic_load(&most_inside), SHARED_LIMIT);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(everything_around_the_laws_changes_under_fire),
		CHECK_TEST(no_lane_is_left_behind_a_limit),
		CHECK_TEST(places_freed_on_one_queue_reach_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
