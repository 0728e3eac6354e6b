/* SPDX-License-Identifier: Apache-2.0 */
/* Stages that rest: their laws tick less often, and decide as if they had not. */
#include <unistd.h>

#include "stage/runtime.h"
#include "support/worlds.h"

enum { JOBS = 512, MOST = 20000 };
#define LONG_NS (20 * WEIR_NS_PER_S)

/* A law that only counts. */
static _Atomic unsigned ticks;
static uint64_t last_interval_ns;

static int count_init(void *state, const void *params, const char **ret_wrong)
{
	return 0;
}

static weir_verdict count_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static void count_tick(void *state, const weir_sample *sample)
{
	ticks++;
	last_interval_ns = sample->interval_ns;
}

static const weir_admission_law counting = {.name = "counting",
					    .tick_ns = 10 * WEIR_NS_PER_MS,
					    .state_bytes = 1,
					    .init = count_init,
					    .admit = count_admit,
					    .tick = count_tick};

static void offer_one(struct probe *probe)
{
	static struct job job;
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe->stage, &job.event), WEIR_ADMITTED);
}

/* A tick each 10 ms while something happens and two seconds after that, then one a second; at once with an offer. */
static void an_idle_law_ticks_once_a_second(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_WORK, .work_ns = WEIR_NS_PER_MS};
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.admission = &counting});
		must(weir_world_start(world));
		world_run(world, 3 * WEIR_NS_PER_S);
		ticks = 0;
		world_run(world, 10 * WEIR_NS_PER_S);
		assert_in_range(ticks, 9, 11);
		world_run(world, 300 * WEIR_NS_PER_MS);
		ticks = 0;
		offer_one(&probe);
		/* Before the law was asked, and about all of the time. */
		assert_int_equal(ticks, 1);
		assert_in_range(last_interval_ns, 290 * WEIR_NS_PER_MS, WEIR_NS_PER_S);
		world_run(world, WEIR_NS_PER_S);
		assert_in_range(ticks, 100, 102);
		world_run(world, 10 * WEIR_NS_PER_S);
		assert_in_range(ticks, 200, 215);
		world_end(&world);
	}
}

/* What is inside keeps it awake. */
static void a_stage_with_something_inside_does_not_rest(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK, .work_ns = 20 * WEIR_NS_PER_S};
	probe_open(&probe, domain_of_kind(world, WEIR_ELASTIC), (weir_stage_options){.admission = &counting});
	must(weir_world_start(world));
	offer_one(&probe);
	world_run(world, 10 * WEIR_NS_PER_S);
	ticks = 0;
	world_run(world, 5 * WEIR_NS_PER_S);
	assert_in_range(ticks, 499, 501);
	world_run(world, 10 * WEIR_NS_PER_S);
	world_end(&world);
}

/* With threads: offers come from two of them while the controller decides whether to rest. */
static void *offer_now_and_then(void *arg)
{
	struct probe *probe = arg;
	for (unsigned i = 0; i < 6; i++) {
		struct job job;
		job_init(&job, i, 0);
		assert_int_equal(weir_offer(probe->stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(job.handled == 1 && weir_stage_in_flight(probe->stage) == 0);
		usleep(i % 2 == 0 ? 2100000 : 1000);
	}
	return NULL;
}

static void offers_interrupt_a_rest(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.act = PROBE_DONE};
	pthread_t thread;
	probe_open(&probe, domain_of_kind(world, WEIR_REACTOR), (weir_stage_options){.admission = &counting});
	must(weir_world_start(world));
	CHECK_EVENTUALLY(probe.stage->resting);
	assert_int_equal(pthread_create(&thread, NULL, offer_now_and_then, &probe), 0);
	offer_now_and_then(&probe);
	pthread_join(thread, NULL);
	assert_int_equal(stats_of(probe.stage).completed, 12);
	world_end(&world);
}

/* ---- every law, with rest and without ---- */

typedef struct trial {
	weir_world *world;
	struct probe probe;
	weir_arrivals arrivals;
	struct job jobs[JOBS];
	size_t next;
	unsigned count;
	bool rested;
	uint8_t verdict[MOST];
} trial;

static void arrive(weir_arrivals *arrivals, void *arg)
{
	trial *t = arg;
	struct job *job = jobs_next_free(t->jobs, JOBS, &t->next);
	job_init(job, t->count + 1, t->count % 3);
	job->event.cost = 10000;
	weir_verdict verdict = weir_offer(t->probe.stage, &job->event);
	if (t->count < MOST)
		t->verdict[t->count++] = (uint8_t)verdict;
}

/* Two workers, 10 ms each: 200/s. Twice that for a while, then nothing, then somewhat more than they can do. */
static void run_trial(trial *t, const weir_admission_law *law, const void *params, uint64_t idle_ns,
		      bool restless)
{
	t->world = world_virtual(7);
	t->world->restless = restless;
	t->probe.act = PROBE_WORK;
	t->probe.work_ns = 10 * WEIR_NS_PER_MS;
	jobs_init(t->jobs, JOBS, 0);
	probe_open(&t->probe, domain_elastic(t->world, "pool", 2, 2),
		   (weir_stage_options){.capacity = 400, .admission = law, .admission_params = params});
	must(weir_world_start(t->world));
	weir_arrivals_start(&t->arrivals, t->world, WEIR_POISSON, 400, arrive, t);
	world_run(t->world, 8 * WEIR_NS_PER_S);
	weir_arrivals_rate(&t->arrivals, 0);
	world_run(t->world, idle_ns);
	t->rested = t->probe.stage->resting;
	weir_arrivals_rate(&t->arrivals, 260);
	world_run(t->world, 8 * WEIR_NS_PER_S);
	weir_arrivals_stop(&t->arrivals);
	world_run(t->world, 5 * WEIR_NS_PER_S);
	world_end(&t->world);
}

static unsigned admitted(const trial *t)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < t->count; i++)
		sum += t->verdict[i] == WEIR_ADMITTED;
	return sum;
}

/* Their windows end with the first tick after a time, so that they begin at other moments after a rest. */
static bool has_windows(const weir_admission_law *law)
{
	return law == &weir_law_aimd || law == &weir_law_multiclass || law == &weir_law_batch ||
	       law == &weir_law_police_threshold;
}

static void compare(const weir_admission_law *law, const void *params, uint64_t idle_ns)
{
	static trial with, without;
	with = without = (trial){0};
	run_trial(&with, law, params, idle_ns, false);
	run_trial(&without, law, params, idle_ns, true);
	if (idle_ns == LONG_NS)
		assert_int_equal(with.rested, law->tick != NULL && !law->wants_cpu);
	assert_false(without.rested);
	assert_int_equal(with.count, without.count);
	if (!has_windows(law)) {
		assert_memory_equal(with.verdict, without.verdict, with.count);
		return;
	}
	unsigned one = admitted(&with), other = admitted(&without);
	assert_in_range(one, other - other / 100, other + other / 100);
}

static void every_law_decides_as_before(void **state)
{
	const weir_admission_law *law;
	static const uint64_t idle_ns[] = {3 * WEIR_NS_PER_S, 6 * WEIR_NS_PER_S, LONG_NS};
	for (size_t at = 0; (law = weir_law_at(at)) != NULL; at++) {
		unsigned char params[2048] = {0};
		assert_true(law->params_bytes <= sizeof(params));
		weir_law_defaults(law, params);
		if (weir_law_set(law, params, "target", "200ms") != 0)
			weir_law_set(law, params, "rate", "150");
		for (size_t i = 0; i < (CHECK_SLOW ? 0 : 3); i++)
			compare(law, params, idle_ns[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(an_idle_law_ticks_once_a_second),
		CHECK_TEST(a_stage_with_something_inside_does_not_rest),
		CHECK_TEST(offers_interrupt_a_rest),
		CHECK_TEST(every_law_decides_as_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
