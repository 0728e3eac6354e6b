/* SPDX-License-Identifier: Apache-2.0 */
/* The hook `open`: classes that wait for a visit of the law, and everything that must not wait for one. */
#include "support/worlds.h"

#define TICK_NS (10 * WEIR_NS_PER_MS)
#define MASK(k) (1u << (k))

/* A law whose doors the test opens and closes; `next` is in force from the next tick on. */
struct doors {
	_Atomic uint32_t open, next;
	_Atomic uint64_t patience_ns;
	_Atomic unsigned starts, gone, ticks;
};

static int doors_init(void *state, const void *params, const char **ret_wrong)
{
	*(struct doors **)state = *(struct doors *const *)params;
	return 0;
}

static weir_verdict doors_admit(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static weir_verdict doors_start(void *state, const weir_event *event, const weir_turn *turn)
{
	atomic_fetch_add(&(*(struct doors **)state)->starts, 1);
	return WEIR_ADMITTED;
}

static void doors_gone(void *state, const weir_event *event, uint64_t now_ns)
{
	atomic_fetch_add(&(*(struct doors **)state)->gone, 1);
}

static void doors_tick(void *state, const weir_sample *sample)
{
	struct doors *doors = *(struct doors **)state;
	atomic_store(&doors->open, atomic_load(&doors->next));
	atomic_fetch_add(&doors->ticks, 1);
}

static uint32_t doors_open(const void *state)
{
	return atomic_load(&(*(struct doors *const *)state)->open);
}

static uint64_t doors_patience(const void *state, unsigned klass)
{
	return atomic_load(&(*(struct doors *const *)state)->patience_ns);
}

static const weir_admission_law doors_law = {
	.name = "doors",
	.state_bytes = sizeof(struct doors *),
	.params_bytes = sizeof(struct doors *),
	.tick_ns = TICK_NS,
	.by_class = true,
	.init = doors_init,
	.admit = doors_admit,
	.start = doors_start,
	.gone = doors_gone,
	.tick = doors_tick,
	.open = doors_open,
	.patience = doors_patience,
};

struct house {
	weir_world *world;
	struct probe probe;
	struct doors doors;
	struct doors *law_params;
};

static void house_open(struct house *h, weir_domain_kind kind, weir_order order, uint32_t open)
{
	*h = (struct house){.world = world_virtual(1)};
	atomic_store(&h->doors.open, open);
	atomic_store(&h->doors.next, open);
	atomic_store(&h->doors.patience_ns, UINT64_MAX);
	h->law_params = &h->doors;
	probe_open(&h->probe, domain_of_kind(h->world, kind),
		   (weir_stage_options){
			   .order = order, .admission = &doors_law, .admission_params = &h->law_params});
	must(weir_world_start(h->world));
}

static void offer_each(struct house *h, struct job *jobs, const uint8_t *classes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		job_init(&jobs[i], i, classes[i]);
		assert_int_equal(weir_offer(h->probe.stage, &jobs[i].event), WEIR_ADMITTED);
	}
}

static const uint8_t mixed[] = {2, 0, 1, 2, 1};

static void a_closed_class_waits_for_the_tick_that_opens_it(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct house h;
		struct job jobs[5];
		house_open(&h, kind, WEIR_FIFO, MASK(0));
		offer_each(&h, jobs, mixed, 5);
		world_run(h.world, 5 * TICK_NS);
		probe_expect_order(&h.probe, (unsigned[]){1}, 1);
		atomic_store(&h.doors.next, MASK(0) | MASK(2));
		world_run(h.world, TICK_NS);
		probe_expect_order(&h.probe, (unsigned[]){1, 0, 3}, 3);
		atomic_store(&h.doors.next, MASK(1));
		world_run(h.world, TICK_NS);
		probe_expect_order(&h.probe, (unsigned[]){1, 0, 3, 2, 4}, 5);
		assert_int_equal(atomic_load(&h.doors.starts), 5);
		world_end(&h.world);
	}
}

/*
 * On the lane's own thread an event of an open class runs at once, though lower ones wait. One of a closed
 * class does not.
 */
static void from_inside(struct probe *probe, struct job *job)
{
	struct job *more = job->data;
	if (more != NULL) {
		assert_int_equal(weir_offer(probe->stage, &more[0].event), WEIR_ADMITTED);
		assert_int_equal(atomic_load(&more[0].handled), 0);
		assert_int_equal(weir_offer(probe->stage, &more[1].event), WEIR_ADMITTED);
		assert_int_equal(atomic_load(&more[1].handled), 1);
	}
	weir_done(&job->event);
}

static void a_closed_class_is_not_run_at_once(void **state)
{
	struct house h;
	struct job first, more[2];
	house_open(&h, WEIR_REACTOR, WEIR_FIFO, MASK(0));
	h.probe.each = from_inside;
	job_init(&first, 0, 0);
	first.data = more;
	job_init(&more[0], 1, 3);
	job_init(&more[1], 2, 0);
	assert_int_equal(weir_offer(h.probe.stage, &first.event), WEIR_ADMITTED);
	world_run(h.world, 2 * TICK_NS);
	probe_expect_order(&h.probe, (unsigned[]){0, 2}, 2);
	atomic_store(&h.doors.next, MASK(3));
	world_run(h.world, TICK_NS);
	probe_expect_order(&h.probe, (unsigned[]){0, 2, 1}, 3);
	world_end(&h.world);
}

static void another_order_does_not_know_doors(void **state)
{
	static const weir_order orders[] = {WEIR_NEWEST_LATE, WEIR_SHORTEST};
	for (unsigned i = 0; i < 2; i++) {
		struct house h;
		struct job jobs[5];
		house_open(&h, WEIR_ELASTIC, orders[i], 0);
		offer_each(&h, jobs, mixed, 5);
		world_run(h.world, TICK_NS / 2);
		assert_int_equal(atomic_load(&h.probe.handled), 5);
		world_end(&h.world);
	}
}

static void patience_ends_behind_a_closed_door(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct house h;
		struct job jobs[5];
		house_open(&h, kind, WEIR_FIFO, MASK(0));
		atomic_store(&h.doors.patience_ns, 3 * TICK_NS);
		offer_each(&h, jobs, mixed, 5);
		world_run(h.world, 2 * TICK_NS);
		assert_int_equal(atomic_load(&h.probe.dropped), 0);
		world_run(h.world, 3 * TICK_NS);
		assert_int_equal(atomic_load(&h.probe.drops[WEIR_SHED_WAITED]), 4);
		assert_int_equal(atomic_load(&h.doors.gone), 4);
		world_end(&h.world);
	}
}

static void the_cancelled_and_the_late_are_dropped_at_the_visit(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct house h;
		struct job jobs[3];
		house_open(&h, kind, WEIR_FIFO, MASK(0));
		for (unsigned i = 0; i < 3; i++)
			job_init(&jobs[i], i, 1);
		jobs[1].event.deadline_ns = weir_world_now(h.world) + TICK_NS;
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(weir_offer(h.probe.stage, &jobs[i].event), WEIR_ADMITTED);
		weir_event_cancel(&jobs[0].event);
		world_run(h.world, 3 * TICK_NS);
		assert_int_equal(atomic_load(&h.probe.dropped), 0);
		atomic_store(&h.doors.next, MASK(1));
		world_run(h.world, TICK_NS);
		assert_int_equal(atomic_load(&h.probe.drops[WEIR_SHED_CANCELLED]), 1);
		assert_int_equal(atomic_load(&h.probe.drops[WEIR_SHED_EXPIRED]), 1);
		probe_expect_order(&h.probe, (unsigned[]){2}, 1);
		world_end(&h.world);
	}
}

static void a_law_that_is_not_enforced_closes_nothing(void **state)
{
	static const weir_admission_mode modes[] = {WEIR_DRY_RUN, WEIR_ADMIT_ALL};
	FOR_BOTH_KINDS(kind)
	{
		for (unsigned i = 0; i < 2; i++) {
			struct house h;
			struct job jobs[5];
			house_open(&h, kind, WEIR_FIFO, 0);
			offer_each(&h, jobs, mixed, 5);
			world_run(h.world, 2 * TICK_NS);
			assert_int_equal(atomic_load(&h.probe.handled), 0);
			weir_stage_mode(h.probe.stage, modes[i]);
			world_run(h.world, 1);
			assert_int_equal(atomic_load(&h.probe.handled), 5);
			world_end(&h.world);
		}
	}
}

static void a_law_that_leaves_opens_its_doors(void **state)
{
	struct house h;
	struct job jobs[5];
	house_open(&h, WEIR_REACTOR, WEIR_FIFO, 0);
	offer_each(&h, jobs, mixed, 5);
	world_run(h.world, TICK_NS / 2);
	must(weir_stage_admission(h.probe.stage, NULL, NULL));
	world_run(h.world, 1);
	assert_int_equal(atomic_load(&h.probe.handled), 5);
	world_end(&h.world);
}

static void a_stop_waits_for_no_visit(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct house h;
		struct job jobs[5];
		house_open(&h, kind, WEIR_FIFO, 0);
		offer_each(&h, jobs, mixed, 5);
		world_end(&h.world); /* fails if anything is left undrained */
		for (unsigned i = 0; i < 5; i++)
			assert_int_equal(atomic_load(&jobs[i].handled), 1);
	}
}

/* Real threads: a lane sleeps while its classes are closed, and the tick wakes all of them. */
static void a_tick_wakes_every_lane(void **state)
{
	enum { THREADS = 3, JOBS = 300 };
	for (int elastic = 0; elastic < 2; elastic++) {
		static struct job jobs[JOBS];
		struct house h = {.world = world_real()};
		h.law_params = &h.doors;
		atomic_store(&h.doors.patience_ns, UINT64_MAX);
		weir_domain *domain = elastic ? domain_elastic(h.world, "pool", THREADS, THREADS)
					      : domain_reactor(h.world, "reactor", THREADS);
		probe_open(&h.probe, domain,
			   (weir_stage_options){.admission = &doors_law,
						.admission_params = &h.law_params,
						.capacity = JOBS * THREADS});
		must(weir_world_start(h.world));
		jobs_init(jobs, JOBS, 0);
		for (unsigned i = 0; i < JOBS; i++) {
			jobs[i].event.klass = (uint8_t)(i % 2);
			jobs[i].event.home = (uint16_t)(i % THREADS);
			assert_int_equal(weir_offer(h.probe.stage, &jobs[i].event), WEIR_ADMITTED);
		}
		unsigned before = atomic_load(&h.doors.ticks);
		CHECK_EVENTUALLY(atomic_load(&h.doors.ticks) >= before + 2);
		assert_int_equal(atomic_load(&h.probe.handled), 0);
		atomic_store(&h.doors.next, MASK(1));
		CHECK_EVENTUALLY(atomic_load(&h.probe.handled) == JOBS / 2);
		atomic_store(&h.doors.next, MASK(0));
		CHECK_EVENTUALLY(atomic_load(&h.probe.handled) == JOBS);
		world_end(&h.world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_closed_class_waits_for_the_tick_that_opens_it),
		CHECK_TEST(a_closed_class_is_not_run_at_once),
		CHECK_TEST(another_order_does_not_know_doors),
		CHECK_TEST(patience_ends_behind_a_closed_door),
		CHECK_TEST(the_cancelled_and_the_late_are_dropped_at_the_visit),
		CHECK_TEST(a_law_that_is_not_enforced_closes_nothing),
		CHECK_TEST(a_law_that_leaves_opens_its_doors),
		CHECK_TEST(a_stop_waits_for_no_visit),
		CHECK_TEST(a_tick_wakes_every_lane),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
