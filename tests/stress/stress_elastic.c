/* SPDX-License-Identifier: Apache-2.0 */
/* A pool whose handlers really block grows to do them at once, and gives the threads back afterwards. */
#include "support/worlds.h"

#include <sched.h>
#include <string.h>

/* Handlers meet here: none gets through before this many are inside, so only a pool that grew can go on. */
struct turnstile {
	pthread_mutex_t lock;
	pthread_cond_t enough;
	unsigned inside, needed;
};

static void turnstile_init(struct turnstile *turnstile, unsigned needed)
{
	memset(turnstile, 0, sizeof *turnstile);
	pthread_mutex_init(&turnstile->lock, NULL);
	pthread_cond_init(&turnstile->enough, NULL);
	turnstile->needed = needed;
}

static void block_until_enough(struct probe *probe, struct job *job)
{
	struct turnstile *turnstile = probe->data;
	pthread_mutex_lock(&turnstile->lock);
	turnstile->inside++;
	if (turnstile->inside >= turnstile->needed)
		pthread_cond_broadcast(&turnstile->enough);
	while (turnstile->inside < turnstile->needed)
		pthread_cond_wait(&turnstile->enough, &turnstile->lock);
	pthread_mutex_unlock(&turnstile->lock);
	weir_done(&job->event);
}

enum { THREADS = 16 };

static void a_pool_grows_for_handlers_that_block_and_shrinks_again(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_elastic(world, "pool", 2, THREADS);
	struct turnstile turnstile;
	struct probe probe = {.each = block_until_enough, .data = &turnstile};
	static struct job jobs[THREADS];
	turnstile_init(&turnstile, THREADS);
	probe_open(&probe, domain, (weir_stage_options){.name = "blocking"});
	must(weir_world_start(world));
	assert_int_equal(weir_domain_threads(domain), 2);
	jobs_init(jobs, THREADS, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(stats_of(probe.stage).completed == THREADS);
	assert_true(weir_domain_threads(domain) <= THREADS);
	/* With nothing to do it comes back by itself. */
	CHECK_EVENTUALLY(weir_domain_threads(domain) == 2);
	assert_int_equal(probe.most_inside, THREADS);
	world_end(&world);
}

/* One offer wakes one thread; that one has to wake the next while there is work left. */
static void a_burst_reaches_every_idle_thread(void **state)
{
	weir_world *world = world_real();
	struct turnstile turnstile;
	struct probe probe = {.each = block_until_enough, .data = &turnstile};
	static struct job jobs[THREADS];
	turnstile_init(&turnstile, THREADS);
	probe_open(&probe, domain_elastic(world, "pool", THREADS, THREADS),
		   (weir_stage_options){.name = "burst"});
	must(weir_world_start(world));
	for (unsigned round = 1; round <= 20; round++) {
		pthread_mutex_lock(&turnstile.lock);
		turnstile.inside = 0;
		pthread_mutex_unlock(&turnstile.lock);
		jobs_init(jobs, THREADS, 0);
		assert_int_equal(jobs_offer_many(probe.stage, jobs, THREADS), WEIR_ADMITTED);
		CHECK_EVENTUALLY(stats_of(probe.stage).completed == round * THREADS);
	}
	world_end(&world);
}

static void a_world_stops_while_its_pool_is_growing(void **state)
{
	for (int round = 0; round < 10; round++) {
		weir_world *world = world_real();
		struct probe probe = {.act = PROBE_WORK, .work_ns = 3 * WEIR_NS_PER_MS};
		static struct job jobs[60];
		probe_open(&probe, domain_elastic(world, "pool", 1, 32),
			   (weir_stage_options){.name = "sleepy"});
		must(weir_world_start(world));
		jobs_init(jobs, 60, 0);
		for (int i = 0; i < 60; i++)
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(probe.handled >= 2u * (unsigned)round);
		world_end(&world);
		assert_int_equal(probe.handled, 60);
	}
}

/* A law that wants no change, and looks for time in handlers that is less than none. */
static _Atomic uint64_t pool_ticks, pool_backwards;

static void watcher_init(void *state)
{
}

static uint32_t watcher_size(void *state, const weir_pool_sample *sample)
{
	atomic_fetch_add(&pool_backwards, (int64_t)sample->busy_ns < 0);
	atomic_fetch_add(&pool_ticks, 1);
	return sample->min;
}

static const weir_pool_law watcher = {
	.name = "watcher", .tick_ns = 1000, .init = watcher_init, .size = watcher_size};

static void the_time_in_handlers_never_shrinks(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain;
	struct probe probe = {.act = PROBE_DONE};
	struct job job;
	weir_domain_options options = {.name = "pool", .kind = WEIR_ELASTIC, .pool = &watcher};
	must(weir_domain_new(world, &options, &domain));
	probe_open(&probe, domain, (weir_stage_options){.name = "brief"});
	must(weir_world_start(world));
	for (int i = 0; i < 20000; i++) {
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		while (stats_of(probe.stage).in_flight != 0)
			;
	}
	world_end(&world);
	assert_true(pool_ticks > 0);
	assert_int_equal(pool_backwards, 0);
}

/*
 * Many stages, targets and classes on one pool, offered from several threads with pauses in between so that threads go to sleep: if a wake-up
 * were lost, the last events would wait for ever.
 */
enum { POOL_STAGES = 8, OFFERERS = 4, ROUNDS = 300 };

struct offerer {
	pthread_t thread;
	struct probe *probes;
	struct job jobs[16];
	_Atomic unsigned ended; /* of this round */
	unsigned seed;
};

/* The job is its offerer's again when it is done, not when it is handled. */
static void end_and_tell(struct probe *probe, struct job *job)
{
	struct offerer *offerer = job->data;
	weir_done(&job->event);
	atomic_fetch_add(&offerer->ended, 1);
}

static void *offer_rounds(void *arg)
{
	struct offerer *offerer = arg;
	weir_random random;
	weir_random_init(&random, offerer->seed);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned count = 1 + (unsigned)weir_random_below(&random, 16);
		for (unsigned i = 0; i < count; i++) {
			struct job *job = &offerer->jobs[i];
			job_init(job, i, (unsigned)weir_random_below(&random, 3));
			job->data = offerer;
			struct probe *probe = &offerer->probes[weir_random_below(&random, POOL_STAGES)];
			while (weir_offer(probe->stage, &job->event) != WEIR_ADMITTED)
				sched_yield();
		}
		while (atomic_load(&offerer->ended) != count)
			sched_yield();
		atomic_store(&offerer->ended, 0);
	}
	return NULL;
}

static void no_turn_is_lost_among_many_stages(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_elastic(world, "pool", 3, 3);
	static struct probe probes[POOL_STAGES];
	static struct offerer offerers[OFFERERS];
	static const char *const names[POOL_STAGES] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	for (unsigned i = 0; i < POOL_STAGES; i++) {
		probes[i] = (struct probe){.each = end_and_tell};
		probe_open(&probes[i], domain,
			   (weir_stage_options){.name = names[i],
						.order = i % 3 == 0 ? WEIR_BY_CLASS : WEIR_FIFO,
						.single = i % 4 == 1,
						.concurrency = i % 4 == 2 ? 2 : 0});
	}
	must(weir_world_start(world));
	for (unsigned i = 0; i < OFFERERS; i++) {
		offerers[i].probes = probes;
		offerers[i].seed = i + 1;
		assert_int_equal(pthread_create(&offerers[i].thread, NULL, offer_rounds, &offerers[i]), 0);
	}
	for (unsigned i = 0; i < OFFERERS; i++)
		pthread_join(offerers[i].thread, NULL);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_pool_grows_for_handlers_that_block_and_shrinks_again),
		CHECK_TEST(a_burst_reaches_every_idle_thread),
		CHECK_TEST(a_world_stops_while_its_pool_is_growing),
		CHECK_TEST(the_time_in_handlers_never_shrinks),
		CHECK_TEST(no_turn_is_lost_among_many_stages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
