/* SPDX-License-Identifier: Apache-2.0 */
/* Reactor threads in the real world: run to completion within budgets, homes, loops, timers, settling from elsewhere. */
#include "support/worlds.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop/loop.h"

struct chain {
	struct probe probe;
	struct job *jobs;
	_Atomic unsigned made; /* jobs offered so far */
	unsigned count;
	unsigned nested, deepest; /* of the one reactor thread */
	_Atomic bool timer_fired, ended;
	_Atomic unsigned bad;
};

/* Each event offers the next one from within its handler. */
static void make_next(struct probe *probe, struct job *job)
{
	struct chain *chain = probe->data;
	chain->nested++;
	if (chain->nested > chain->deepest)
		chain->deepest = chain->nested;
	if (atomic_load(&chain->made) < chain->count) {
		struct job *next = &chain->jobs[atomic_fetch_add(&chain->made, 1)];
		if (weir_offer(probe->stage, &next->event) != WEIR_ADMITTED)
			atomic_fetch_add(&chain->bad, 1);
	}
	weir_done(&job->event);
	chain->nested--;
}

static void offers_nest_as_deep_as_allowed(void **state)
{
	static const uint32_t depths[] = {1, 4, 0, 40};
	for (int i = 0; i < 4; i++) {
		enum { N = 300 };
		static struct job jobs[N];
		struct chain chain = {.probe.each = make_next, .jobs = jobs, .made = 1, .count = N};
		weir_world *world = world_real();
		weir_domain *domain = NULL;
		uint32_t depth = depths[i] == 0 ? 16 : depths[i];
		/* Time must not end the nesting here. */
		weir_domain_options options = {
			.name = "r", .threads = 1, .inline_depth = depths[i], .turn_ns = 60 * WEIR_NS_PER_S};
		must(weir_domain_new(world, &options, &domain));
		chain.probe.data = &chain;
		probe_open(&chain.probe, domain, (weir_stage_options){0});
		must(weir_world_start(world));
		jobs_init(jobs, N, 0);
		assert_int_equal(weir_offer(chain.probe.stage, &jobs[0].event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(chain.probe.handled == N);
		must(weir_world_stop(world, 60 * WEIR_NS_PER_S, NULL));
		/* The first call comes from the queue; the others are inlined within it, except at a depth of one. */
		assert_in_range(chain.deepest, depth, depth + 1);
		assert_true(depth == 1 || stats_of(chain.probe.stage).inlined > 0);
		assert_true(stats_of(chain.probe.stage).inlined < N);
		expect_counts(chain.probe.stage, N, 0, N, 0, 0);
		assert_int_equal(chain.bad, 0);
		world_end_faulty(&world);
	}
}

/* An inlined offer takes a place inside like any other: at the bound the next one waits. */
static void inlined_offers_keep_to_the_bound_inside(void **state)
{
	enum { N = 300, BOUND = 3 };
	static struct job jobs[N];
	struct chain chain = {.probe.each = make_next, .jobs = jobs, .made = 1, .count = N};
	weir_world *world = world_real();
	weir_domain *domain = NULL;
	weir_domain_options options = {
		.name = "r", .threads = 1, .inline_depth = 40, .turn_ns = 60 * WEIR_NS_PER_S};
	must(weir_domain_new(world, &options, &domain));
	chain.probe.data = &chain;
	probe_open(&chain.probe, domain, (weir_stage_options){.concurrency = BOUND});
	must(weir_world_start(world));
	jobs_init(jobs, N, 0);
	assert_int_equal(weir_offer(chain.probe.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(chain.probe.handled == N);
	must(weir_world_stop(world, 60 * WEIR_NS_PER_S, NULL));
	assert_int_equal(chain.deepest, BOUND);
	assert_true(stats_of(chain.probe.stage).inlined > 0);
	expect_counts(chain.probe.stage, N, 0, N, 0, 0);
	assert_int_equal(chain.bad, 0);
	world_end_faulty(&world);
}

static void timer_fired(weir_timer *timer, void *arg)
{
	atomic_store((_Atomic bool *)arg, true);
}

/* One event goes round for ever unless the loop's timer gets its turn. */
static void go_on_until_the_timer(struct probe *probe, struct job *job)
{
	struct chain *chain = probe->data;
	unsigned made = atomic_fetch_add(&chain->made, 1);
	if (made == 0)
		weir_timer_start(NULL, &job->timer, weir_loop_now(weir_loop_self()) + WEIR_NS_PER_MS);
	/* Settled first: within its own handler it is free to be offered again. */
	weir_done(&job->event);
	if (atomic_load(&chain->timer_fired) || made > chain->count)
		atomic_store(&chain->ended, true);
	else if (weir_offer(probe->stage, &job->event) != WEIR_ADMITTED)
		atomic_fetch_add(&chain->bad, 1);
}

static void busy_stages_let_timers_have_their_turn(void **state)
{
	for (int no_inline = 0; no_inline < 2; no_inline++) {
		struct job job;
		struct chain chain = {.probe.each = go_on_until_the_timer, .count = 20000000};
		weir_world *world = world_real();
		chain.probe.data = &chain;
		probe_open(&chain.probe, domain_reactor(world, "r", 1),
			   (weir_stage_options){.no_inline = no_inline});
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		weir_timer_init(&job.timer, timer_fired, &chain.timer_fired);
		assert_int_equal(weir_offer(chain.probe.stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(chain.ended || chain.bad);
		assert_true(chain.timer_fired);
		assert_int_equal(chain.bad, 0);
		world_end(&world);
	}
}

struct homes {
	weir_domain *domain;
	_Atomic unsigned wrong, seen[4];
};

/* ---- work that handlers put off ---- */

struct put_off {
	weir_deferred deferred;
	struct chain *chain;
};

static void offer_next(weir_deferred *deferred)
{
	struct chain *chain = ((struct put_off *)(void *)deferred)->chain;
	struct job *next = &chain->jobs[atomic_fetch_add(&chain->made, 1)];
	if (weir_offer(chain->probe.stage, &next->event) != WEIR_ADMITTED)
		atomic_fetch_add(&chain->bad, 1);
}

static struct put_off put_off;

static void put_off_next(struct probe *probe, struct job *job)
{
	struct chain *chain = probe->data;
	put_off = (struct put_off){.deferred.run = offer_next, .chain = chain};
	if (atomic_load(&chain->made) < chain->count)
		weir_loop_defer(weir_loop_self(), &put_off.deferred);
	weir_done(&job->event);
}

/* What is offered by such work waits in a queue while nothing else happens: the loop must not sleep on it. */
static void work_put_off_by_handlers_may_offer(void **state)
{
	enum { N = 50 };
	static struct job jobs[N];
	struct chain chain = {.probe.each = put_off_next, .jobs = jobs, .made = 1, .count = N};
	weir_world *world = world_real();
	weir_domain *domain = NULL;
	weir_domain_options options = {.name = "r", .threads = 1};
	must(weir_domain_new(world, &options, &domain));
	chain.probe.data = &chain;
	probe_open(&chain.probe, domain, (weir_stage_options){.no_inline = true});
	must(weir_world_start(world));
	jobs_init(jobs, N, 0);
	assert_int_equal(weir_offer(chain.probe.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(chain.probe.handled == N);
	must(weir_world_stop(world, 60 * WEIR_NS_PER_S, NULL));
	assert_int_equal(chain.bad, 0);
	world_end_faulty(&world);
}

static void check_home(struct probe *probe, struct job *job)
{
	struct homes *homes = probe->data;
	uint16_t home = weir_thread_home();
	if (home >= 4 || home != job->event.home || weir_loop_self() != weir_domain_loop(homes->domain, home))
		atomic_fetch_add(&homes->wrong, 1);
	else
		atomic_fetch_add(&homes->seen[home], 1);
	if (probe->next == NULL || weir_offer(probe->next, &job->event) != WEIR_ADMITTED)
		weir_done(&job->event);
}

static void an_event_stays_on_its_home_thread(void **state)
{
	enum { N = 400 };
	static struct job jobs[N];
	weir_world *world = world_real();
	struct homes homes = {.domain = domain_reactor(world, "r", 4)};
	struct probe first = {.each = check_home, .data = &homes},
		     second = {.each = check_home, .data = &homes};
	probe_open(&second, homes.domain, (weir_stage_options){.name = "second", .capacity = 4 * N});
	probe_open(&first, homes.domain, (weir_stage_options){.name = "first", .capacity = 4 * N});
	first.next = second.stage;
	must(weir_world_start(world));
	jobs_init(jobs, N, 0);
	for (unsigned i = 0; i < N; i++) {
		jobs[i].event.home = i % 8 < 4 ? i % 4 : WEIR_ANYWHERE;
		assert_int_equal(weir_offer(first.stage, &jobs[i].event), WEIR_ADMITTED);
	}
	CHECK_EVENTUALLY(second.handled == N);
	assert_int_equal(homes.wrong, 0);
	for (int i = 0; i < 4; i++)
		assert_true(homes.seen[i] >= N / 4);
	world_end(&world);
}

static pthread_t single_thread;
static _Atomic unsigned single_moved;

static void note_thread(struct probe *probe, struct job *job)
{
	if (probe->handled == 1)
		single_thread = pthread_self();
	else if (!pthread_equal(single_thread, pthread_self()))
		atomic_fetch_add(&single_moved, 1);
	weir_done(&job->event);
}

static void a_single_stage_stays_on_one_reactor_thread(void **state)
{
	enum { N = 300 };
	static struct job jobs[N];
	weir_world *world = world_real();
	struct probe first = {.act = PROBE_FORWARD}, single = {.each = note_thread};
	weir_domain *domain = domain_reactor(world, "r", 3);
	probe_open(&single, domain, (weir_stage_options){.name = "single", .single = true, .capacity = N});
	probe_open(&first, domain, (weir_stage_options){.name = "first", .capacity = 3 * N});
	first.next = single.stage;
	must(weir_world_start(world));
	single_moved = 0;
	jobs_init(jobs, N, 0);
	for (unsigned i = 0; i < N; i++) {
		jobs[i].event.home = i % 3;
		assert_int_equal(weir_offer(first.stage, &jobs[i].event), WEIR_ADMITTED);
	}
	CHECK_EVENTUALLY(single.handled == N);
	assert_int_equal(single_moved, 0);
	assert_int_equal(single.most_inside, 1);
	world_end(&world);
}

static void a_single_stage_has_the_whole_capacity_on_its_thread(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_HOLD};
	struct job jobs[20];
	unsigned admitted = 0;
	probe_open(&probe, domain_reactor(world, "r", 4),
		   (weir_stage_options){.single = true, .capacity = 8, .concurrency = 1, .no_inline = true});
	must(weir_world_start(world));
	jobs_init(jobs, 20, 0);
	assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	for (int i = 1; i < 20; i++)
		admitted += weir_offer(probe.stage, &jobs[i].event) == WEIR_ADMITTED;
	assert_int_equal(admitted, 8);
	probe.act = PROBE_DONE;
	weir_done(&jobs[0].event);
	world_end(&world);
}

static void *settle_elsewhere(void *arg)
{
	struct job *jobs = arg;
	for (int i = 0; i < 100; i++) {
		while (atomic_load(&jobs[i].handled) == 0)
			check_breathe();
		if (i % 3 == 0)
			weir_fail(&jobs[i].event);
		else
			weir_done(&jobs[i].event);
	}
	return NULL;
}

/* weir_hold before the record is seen: the probe counts the job as handled first, so hold in a handler of our own. */
static void hold_then_tell(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++) {
		weir_hold(events[i]);
		atomic_store(&job_of(events[i])->handled, 1);
	}
}

static void drop_unexpected(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static void a_foreign_thread_settles_what_a_handler_held(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		static struct job jobs[100];
		_Atomic unsigned dropped = 0;
		pthread_t thread;
		weir_world *world = world_real();
		weir_domain *domain = kind == WEIR_REACTOR ? domain_reactor(world, "r", 2)
							   : domain_elastic(world, "e", 2, 2);
		weir_stage *stage = NULL;
		/* The next ones start only as earlier ones are settled: settling must wake the domain. */
		weir_stage_options options = {.name = "held",
					      .handle = hold_then_tell,
					      .drop = drop_unexpected,
					      .arg = &dropped,
					      .capacity = 200,
					      .concurrency = 2};
		must(weir_stage_new(domain, &options, &stage));
		must(weir_world_start(world));
		jobs_init(jobs, 100, 0);
		for (int i = 0; i < 100; i++) {
			jobs[i].event.home = kind == WEIR_REACTOR ? 0 : WEIR_ANYWHERE;
			assert_int_equal(weir_offer(stage, &jobs[i].event), WEIR_ADMITTED);
		}
		assert_int_equal(pthread_create(&thread, NULL, settle_elsewhere, jobs), 0);
		pthread_join(thread, NULL);
		expect_counts(stage, 100, 0, 66, 34, 0);
		assert_int_equal(dropped, 0);
		world_end(&world);
	}
}

/* ---- threads as the system sees them ---- */

#define BRIEF_NS 100000

struct looks {
	char name[16];
	int nice;
	bool brief;
};

/* Its turn of a core. 0: this kernel does not let threads choose it. */
static uint64_t turn_ns(void)
{
	uint64_t attributes[6] = {0}; /* struct sched_attr, of which the turn is the fourth */
	assert_int_equal(syscall(SYS_sched_getattr, 0, attributes, sizeof(attributes), 0), 0);
	return attributes[3];
}

static void look_at_oneself(struct probe *probe, struct job *job)
{
	struct looks *seen = probe->data;
	pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
	seen->nice = getpriority(PRIO_PROCESS, 0);
	seen->brief = turn_ns() == BRIEF_NS;
	weir_done(&job->event);
}

static void threads_are_named_and_run_as_their_domains_want(void **state)
{
	const struct {
		weir_domain_options options;
		struct looks expected;
	} cases[] = {
		{{.name = "front", .kind = WEIR_REACTOR, .threads = 1}, {"front", 0, turn_ns() != 0}},
		{{.name = "pool", .kind = WEIR_ELASTIC}, {"pool", 0, false}},
		{{.name = "a-pool-of-a-long-name", .kind = WEIR_ELASTIC, .nice = 7},
		 {"a-pool-of-a-lon", 7, false}},
	};
	int own = getpriority(PRIO_PROCESS, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct looks seen = {0};
		struct probe probe = {.each = look_at_oneself, .data = &seen};
		struct job job;
		weir_world *world = world_real();
		weir_domain *domain = NULL;
		must(weir_domain_new(world, &cases[i].options, &domain));
		probe_open(&probe, domain, (weir_stage_options){0});
		must(weir_world_start(world));
		jobs_init(&job, 1, 0);
		assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(probe.handled == 1);
		world_end(&world);
		assert_string_equal(seen.name, cases[i].expected.name);
		int nice = own + cases[i].expected.nice;
		assert_int_equal(seen.nice, nice < 19 ? nice : 19);
		assert_int_equal(seen.brief, cases[i].expected.brief);
	}
	assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(offers_nest_as_deep_as_allowed),
		CHECK_TEST(inlined_offers_keep_to_the_bound_inside),
		CHECK_TEST(busy_stages_let_timers_have_their_turn),
		CHECK_TEST(work_put_off_by_handlers_may_offer),
		CHECK_TEST(an_event_stays_on_its_home_thread),
		CHECK_TEST(a_single_stage_stays_on_one_reactor_thread),
		CHECK_TEST(a_single_stage_has_the_whole_capacity_on_its_thread),
		CHECK_TEST(a_foreign_thread_settles_what_a_handler_held),
		CHECK_TEST(threads_are_named_and_run_as_their_domains_want),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
