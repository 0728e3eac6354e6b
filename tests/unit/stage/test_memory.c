/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory: every allocation of every constructor and offer fails once, in turn; nothing leaks, nothing is half made. */
#include "support/worlds.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Whether the failure that was set for the nth allocation after `before` has struck; clears it when not. */
static bool struck(uint64_t before, uint64_t nth)
{
	uint64_t made = weir_mem_count() - before;
	bool waiting = false;
	/* A failure that is still to come shows itself to the allocations that are left until then. */
	for (; made < nth && !waiting; made++) {
		void *memory = weir_mem_zalloc(1);
		waiting = memory == NULL;
		weir_mem_free(memory);
	}
	weir_mem_fail_after(0);
	return !waiting;
}

/* The code, and a sentence of this failure, not of the one before. */
static void assert_out_of_memory(int rc)
{
	assert_int_equal(rc, -ENOMEM);
	check_contains(weir_error(), "out of memory");
	weir_error_set(0, "nothing");
}

static int make_world(bool simulated, weir_world **ret_world)
{
	return weir_world_new(&(weir_world_options){.simulated = simulated, .seed = 1}, ret_world);
}

static void a_world_can_fail_to_be_made(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		uint64_t live = weir_mem_live();
		for (uint64_t nth = 1;; nth++) {
			weir_world *world = NULL;
			uint64_t before = weir_mem_count();
			weir_mem_fail_after(nth);
			int rc = make_world(simulated, &world);
			if (!struck(before, nth)) {
				must(rc);
				assert_true(nth > 1);
				weir_world_free(&world);
				break;
			}
			assert_out_of_memory(rc);
			assert_null(world);
			assert_int_equal(weir_mem_live(), live);
		}
		assert_int_equal(weir_mem_live(), live);
	}
}

static void a_domain_can_fail_to_be_made(void **state)
{
	static const weir_domain_options cases[] = {
		{.name = "reactor", .kind = WEIR_REACTOR, .threads = 3},
		{.name = "elastic", .kind = WEIR_ELASTIC, .min_threads = 2, .max_threads = 9},
	};
	for (int i = 0; i < 4; i++) {
		weir_world *world = NULL;
		must(make_world(i < 2, &world));
		uint64_t live = weir_mem_live();
		for (uint64_t nth = 1;; nth++) {
			weir_domain *domain = NULL;
			uint64_t before = weir_mem_count();
			weir_mem_fail_after(nth);
			int rc = weir_domain_new(world, &cases[i % 2], &domain);
			if (!struck(before, nth)) {
				must(rc);
				assert_true(nth > 1);
				break;
			}
			assert_out_of_memory(rc);
			assert_null(domain);
			assert_int_equal(weir_mem_live(), live);
		}
		weir_world_free(&world);
	}
}

static void handle_all(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		weir_done(events[i]);
}

static void drop_all(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static void a_stage_can_fail_to_be_made(void **state)
{
	static const weir_threshold_params threshold = {.waiting = {1, 2, 3}};
	static const weir_order orders[] = {WEIR_FIFO, WEIR_BY_CLASS, WEIR_SHORTEST, WEIR_NEWEST_LATE};
	for (int i = 0; i < 16; i++) {
		bool started = i >= 8; /* stages may also be added to a running world */
		weir_world *world = NULL;
		must(make_world(true, &world));
		weir_domain *domain =
			i % 2 == 0 ? domain_reactor(world, "r", 3) : domain_elastic(world, "e", 1, 4);
		if (started)
			must(weir_world_start(world));
		weir_stage_options options = {.name = "stage",
					      .handle = handle_all,
					      .drop = drop_all,
					      .capacity = 100,
					      .order = orders[i / 2 % 4],
					      .batch_law = &weir_batch_seda,
					      .admission = &weir_law_threshold,
					      .admission_params = &threshold};
		uint64_t live = weir_mem_live();
		for (uint64_t nth = 1;; nth++) {
			weir_stage *stage = NULL;
			uint64_t before = weir_mem_count();
			weir_mem_fail_after(nth);
			int rc = weir_stage_new(domain, &options, &stage);
			if (!struck(before, nth)) {
				must(rc);
				assert_true(nth > 1);
				break;
			}
			assert_out_of_memory(rc);
			assert_null(stage);
			assert_int_equal(weir_mem_live(), live);
		}
		weir_world_free(&world);
	}
}

static void a_law_can_fail_to_be_installed(void **state)
{
	struct plugged p;
	struct job jobs[3];
	weir_threshold_params one = {.waiting = {1}}, two = {.waiting = {2}};
	/* One that has nothing to hand on: without memory for that a law is installed all the same, and begins anew. */
	static weir_admission_law forgetful;
	forgetful = weir_law_threshold;
	forgetful.save = NULL;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	must(weir_stage_admission(p.stage, &forgetful, &one));
	jobs_init(jobs, 3, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	for (uint64_t nth = 1;; nth++) {
		uint64_t before = weir_mem_count();
		weir_mem_fail_after(nth);
		int rc = weir_stage_admission(p.stage, &forgetful, &two);
		if (!struck(before, nth)) {
			must(rc);
			assert_true(nth > 1);
			break;
		}
		assert_out_of_memory(rc);
		/* The old one is still there. */
		assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_SHED_THRESHOLD);
	}
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_SHED_THRESHOLD);
	plugged_end(&p);
}

static void a_world_can_fail_to_start(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		uint64_t live = weir_mem_live();
		for (uint64_t nth = 1;; nth++) {
			weir_world *world = NULL;
			struct probe probes[2] = {0};
			must(make_world(simulated, &world));
			probe_open(&probes[0], domain_reactor(world, "r", 2),
				   (weir_stage_options){.name = "a"});
			probe_open(&probes[1], domain_elastic(world, "e", 2, 4),
				   (weir_stage_options){.name = "b"});
			uint64_t before = weir_mem_count();
			weir_mem_fail_after(nth);
			int rc = weir_world_start(world);
			if (!struck(before, nth)) {
				must(rc);
				world_end(&world);
				break;
			}
			/* A failure on one of the new threads may come too late to be the start's. */
			if (rc == 0)
				world_end_faulty(&world);
			else
				check_contains(weir_error(),
					       rc == -EAGAIN ? "cannot start" : "out of memory");
			weir_world_free(&world);
			assert_int_equal(weir_mem_live(), live);
		}
		assert_int_equal(weir_mem_live(), live);
	}
}

/* All offer forms of a short life; whatever fails is shed for memory and changes nothing. */
static void offer_everything(struct probe *a, struct probe *b, struct job *jobs, unsigned *ret_memory)
{
	weir_ticket ticket = {0};
	weir_event *event = &jobs[9].event;
	weir_verdict verdicts[4] = {
		weir_offer(a->stage, &jobs[0].event),
		weir_offer(b->stage, &jobs[1].event),
		jobs_offer_many(b->stage, jobs + 2, 7),
		weir_reserve(a->stage, 0, 1, 0, WEIR_ANYWHERE, &ticket),
	};
	for (int i = 0; i < 4; i++) {
		*ret_memory += verdicts[i] == WEIR_SHED_MEMORY;
		assert_true(verdicts[i] == WEIR_ADMITTED || verdicts[i] == WEIR_SHED_MEMORY);
	}
	if (ticket.stage != NULL)
		assert_int_equal(weir_commit(&ticket, &event, 1), 0);
}

static void offers_survive_each_failed_allocation(void **state)
{
	for (uint64_t nth = 1;; nth++) {
		weir_world *world = NULL;
		struct probe a = {.act = PROBE_FORWARD}, b = {.act = PROBE_WORK, .work_ns = WEIR_NS_PER_MS};
		struct job jobs[10];
		unsigned memory = 0;
		must(make_world(true, &world));
		probe_open(&b, domain_elastic(world, "e", 1, 8),
			   (weir_stage_options){.name = "b", .order = WEIR_SHORTEST});
		probe_open(&a, domain_reactor(world, "r", 2),
			   (weir_stage_options){.name = "a", .order = WEIR_BY_CLASS});
		a.next = b.stage;
		must(weir_world_start(world));
		jobs_init(jobs, 10, 0);
		uint64_t before = weir_mem_count();
		weir_mem_fail_after(nth);
		offer_everything(&a, &b, jobs, &memory);
		world_run(world, WEIR_NS_PER_S);
		weir_stop_report report;
		must(weir_world_stop(world, WEIR_NS_PER_S, &report));
		bool ended = !struck(before, nth);
		assert_int_equal(report.unbalanced, 0);
		assert_int_equal(report.undrained, 0);
		weir_world_free(&world);
		if (ended) {
			assert_int_equal(memory, 0);
			break;
		}
	}
}

static uint64_t json_left; /* allocations of jansson until one fails; 0: none does */
static bool json_failed;

static void *json_alloc(size_t size)
{
	json_failed = json_failed || json_left == 1;
	if (json_left > 0 && json_left-- == 1)
		return NULL;
	return malloc(size);
}

/* A dump allocates through jansson only. */
static void a_dump_survives_each_failed_allocation(void **state)
{
	struct plugged p;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	FILE *null = fopen("/dev/null", "w");
	assert_non_null(null);
	json_set_alloc_funcs(json_alloc, free);
	json_failed = true;
	uint64_t nth = 0;
	while (json_failed) {
		json_left = ++nth;
		json_failed = false;
		int rc = weir_dump(p.world, null);
		/* Once all is gathered, what fails is the writing. */
		assert_true(json_failed ? rc == -ENOMEM || rc == -EIO : rc == 0);
		if (rc != 0)
			check_contains(weir_error(), "dump");
	}
	json_set_alloc_funcs(malloc, free);
	assert_true(nth > 50);
	fclose(null);
	plugged_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_world_can_fail_to_be_made),
		CHECK_TEST(a_domain_can_fail_to_be_made),
		CHECK_TEST(a_stage_can_fail_to_be_made),
		CHECK_TEST(a_law_can_fail_to_be_installed),
		CHECK_TEST(a_world_can_fail_to_start),
		CHECK_TEST(offers_survive_each_failed_allocation),
		CHECK_TEST(a_dump_survives_each_failed_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
