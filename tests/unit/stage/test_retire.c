/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of stages, laws and pools while the world runs: drained, checked, freed, and their places used
 * again.
 */
#include "support/worlds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weir/monitor.h>

#include "admin/snapshot.h"
#include "base/mem.h"

#define PATIENCE (60 * WEIR_NS_PER_S)

/* A world of each sort that runs: virtual or real. */
static weir_world *world_of(int simulated)
{
	return simulated ? world_virtual(1) : world_real();
}

/* What is offered to it now is handled, in a virtual world once time passes. */
static void let_run(weir_world *world, int simulated)
{
	if (simulated)
		world_run(world, WEIR_NS_PER_MS);
}

static void retire(struct probe *probe)
{
	must(weir_stage_retire(&probe->stage, PATIENCE, NULL));
	assert_null(probe->stage);
}

/* In a real world the test may settle it once this is up: it is held by then. */
static _Atomic unsigned held;

static void hold_it(struct probe *probe, struct job *job)
{
	weir_hold(&job->event);
	atomic_fetch_add(&held, 1);
}

/* ---- stages ---- */

static void an_empty_stage_is_retired(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++)
		for (int started = 0; started < 2; started++)
			FOR_BOTH_KINDS(kind)
			{
				weir_world *world = world_of(simulated);
				weir_domain *domain = domain_of_kind(world, kind);
				struct probe probe = {0};
				weir_retire_report report = {.inside = 9, .faults = 9};
				if (started)
					must(weir_world_start(world));
				uint64_t live = weir_mem_live();
				probe_open(&probe, domain, (weir_stage_options){.name = "short"});
				must(weir_stage_retire(&probe.stage, PATIENCE, &report));
				assert_null(probe.stage);
				assert_int_equal(report.inside, 0);
				assert_int_equal(report.faults, 0);
				assert_int_equal(weir_mem_live(), live);
				/* Nothing is left to be retired. */
				must(weir_stage_retire(&probe.stage, 0, NULL));
				weir_world_free(&world);
			}
}

static void a_retired_stage_leaves_every_table(void **state)
{
	static char text[1 << 16];
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "r", 2);
	struct probe first = {.act = PROBE_FORWARD}, second = {0};
	struct job jobs[3];
	weir_monitor *monitor = NULL;
	jobs_init(jobs, 3, 0);
	probe_open(&first, domain, (weir_stage_options){.name = "first"});
	probe_open(&second, domain, (weir_stage_options){.name = "second"});
	first.next = second.stage;
	must(weir_monitor_new(world, NULL, &monitor));
	must(weir_monitor_subscribe(monitor, first.stage));
	must(weir_world_start(world));
	weir_trace_every(world, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(weir_offer(first.stage, &jobs[i].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(stats_of(second.stage).completed == 3);
	assert_int_equal(weir_edge_count(first.stage, second.stage), 3);
	retire(&first);
	FILE *to = fmemopen(text, sizeof(text), "w");
	must(weir_dump(world, to));
	must(weir_dump_graph(world, to));
	fclose(to);
	assert_null(strstr(text, "first"));
	check_contains(text, "second");
	check_contains(text, "(retired)"); /* the trace knows that there was one */

	/* One that comes to its place has none of its edges. */
	probe_open(&first, domain, (weir_stage_options){.name = "third"});
	assert_int_equal(weir_edge_count(first.stage, second.stage), 0);
	job_init(&jobs[0], 1, 0);
	assert_int_equal(weir_offer(first.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(weir_edge_count(first.stage, second.stage) == 1);
	weir_monitor_free(&monitor);
	world_end(&world);
}

static void what_is_inside_runs_to_its_end(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		struct plugged p;
		struct job jobs[5];
		weir_retire_report report;
		weir_why why;
		plugged_open(&p, kind, (weir_stage_options){.capacity = 8});
		jobs_init(jobs, 5, 1);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
		/* The time is up, and up again; meanwhile nobody gets in. */
		for (unsigned i = 0; i < 3; i++) {
			assert_int_equal(weir_stage_retire(&p.probe.stage, i * WEIR_NS_PER_MS, &report),
					 -ETIMEDOUT);
			check_contains(weir_error(), "5 events");
			assert_non_null(p.probe.stage);
			assert_int_equal(report.inside, 5);
			assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_SHED_STOPPING);
			assert_true(weir_why_shed(&why));
			assert_string_equal(why.stage, "probe");
		}
		assert_int_equal(p.probe.dropped, 0);
		weir_done(&p.plug.event);
		p.plug.handled = 0;
		must(weir_stage_retire(&p.probe.stage, PATIENCE, &report));
		assert_int_equal(p.probe.handled, 4);
		assert_int_equal(p.probe.dropped, 0);
		/* Of something that is gone nothing is known. */
		assert_false(weir_why_shed(&why));
		world_end(&p.world);
	}
}

static void a_ticket_keeps_a_stage(void **state)
{
	for (int commits = 0; commits < 2; commits++) {
		weir_world *world = world_real();
		struct probe probe = {0};
		struct job job;
		weir_event *event = &job.event;
		weir_ticket ticket;
		weir_threshold_params threshold = {.waiting = {9}};
		probe_open(&probe, domain_reactor(world, "r", 1),
			   (weir_stage_options){.admission = &weir_law_threshold,
						.admission_params = &threshold});
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		assert_int_equal(weir_reserve(probe.stage, 0, 1, 0, WEIR_ANYWHERE, &ticket), WEIR_ADMITTED);
		/* Nor does its law go before the ticket does. */
		must(weir_stage_admission(probe.stage, NULL, NULL));
		assert_int_equal(weir_stage_retire(&probe.stage, 5 * WEIR_NS_PER_MS, NULL), -ETIMEDOUT);
		if (commits)
			must(weir_commit(&ticket, &event, 1));
		else
			weir_cancel(&ticket);
		retire(&probe);
		assert_int_equal(probe.handled, (unsigned)commits);
		world_end(&world);
	}
}

struct waiting {
	pthread_t thread;
	weir_stage *stage;
	struct job job;
	weir_verdict verdict;
	_Atomic bool begun;
};

static void *wait_for_room(void *arg)
{
	struct waiting *waiting = arg;
	atomic_store(&waiting->begun, true);
	waiting->verdict = weir_offer_wait(waiting->stage, &waiting->job.event, PATIENCE);
	return NULL;
}

static void who_waits_for_room_is_turned_away(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.each = hold_it};
	struct job jobs[2];
	struct waiting waiting = {0};
	probe_open(&probe, domain_reactor(world, "r", 1),
		   (weir_stage_options){.capacity = 1, .concurrency = 1, .no_inline = true});
	must(weir_world_start(world));
	atomic_store(&held, 0);
	jobs_init(jobs, 2, 0);
	job_init(&waiting.job, 9, 0);
	assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(atomic_load(&held) == 1);
	assert_int_equal(weir_offer(probe.stage, &jobs[1].event), WEIR_ADMITTED);
	waiting.stage = probe.stage;
	assert_int_equal(pthread_create(&waiting.thread, NULL, wait_for_room, &waiting), 0);
	CHECK_EVENTUALLY(waiting.begun);
	check_breathe();
	assert_int_equal(weir_stage_retire(&probe.stage, WEIR_NS_PER_MS, NULL), -ETIMEDOUT);
	pthread_join(waiting.thread, NULL);
	assert_int_equal(waiting.verdict, WEIR_SHED_STOPPING);
	weir_done(&jobs[0].event);
	CHECK_EVENTUALLY(atomic_load(&held) == 2);
	weir_done(&jobs[1].event);
	retire(&probe);
	world_end(&world);
}

static void retire_own(struct probe *probe, struct job *job)
{
	weir_stage *stage = probe->stage;
	job->data =
		weir_stage_retire(&stage, PATIENCE, NULL) == -EDEADLK && stage == probe->stage ? probe : NULL;
	weir_done(&job->event);
}

static void a_handler_cannot_retire(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++)
		FOR_BOTH_KINDS(kind)
		{
			weir_world *world = world_of(simulated);
			struct probe probe = {.each = retire_own};
			struct job job;
			probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
			must(weir_world_start(world));
			job_init(&job, 1, 0);
			assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
			let_run(world, simulated);
			CHECK_EVENTUALLY(stats_of(probe.stage).completed == 1);
			assert_ptr_equal(job.data, &probe);
			world_end(&world);
		}
}

static void a_world_that_stops_keeps_what_is_half_way(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.each = hold_it};
	struct job job;
	probe_open(&probe, domain_reactor(world, "r", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	atomic_store(&held, 0);
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(atomic_load(&held) == 1);
	assert_int_equal(weir_stage_retire(&probe.stage, 0, NULL), -ETIMEDOUT);
	weir_done(&job.event);
	must(weir_world_stop(world, PATIENCE, NULL));
	assert_int_equal(weir_stage_retire(&probe.stage, 0, NULL), -ESHUTDOWN);
	assert_int_equal(weir_world_check(world), 0);
	weir_world_free(&world);
}

static void *retire_patiently(void *arg)
{
	struct probe *probe = arg;
	weir_stage *stage = probe->stage;
	int result;
	/* The test's own tries may be in the way for a moment. */
	do
		result = weir_stage_retire(&stage, UINT64_MAX, NULL);
	while (result == -EALREADY);
	probe->data = result == -ESHUTDOWN ? probe : NULL;
	return NULL;
}

static void a_stop_does_not_wait_for_who_retires(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.each = hold_it};
	struct job job;
	pthread_t thread;
	probe_open(&probe, domain_reactor(world, "r", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	atomic_store(&held, 0);
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(atomic_load(&held) == 1);
	assert_int_equal(pthread_create(&thread, NULL, retire_patiently, &probe), 0);
	CHECK_EVENTUALLY(weir_stage_retire(&(weir_stage *){probe.stage}, 0, NULL) == -EALREADY);
	assert_int_equal(weir_world_stop(world, WEIR_NS_PER_MS, NULL), -ETIMEDOUT);
	pthread_join(thread, NULL);
	assert_ptr_equal(probe.data, &probe);
	weir_world_free(&world);
}

/* A handler that has settled its event and has not returned may still use the stage. */
static _Atomic bool lingers, may_go;

static void linger(struct probe *probe, struct job *job)
{
	weir_done(&job->event);
	atomic_store(&lingers, true);
	while (!atomic_load(&may_go))
		check_breathe();
	job->why = weir_offer(probe->stage, &job->event);
}

static void a_handler_that_lingers_is_waited_for(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_real();
		struct probe probe = {.each = linger};
		struct job job;
		weir_retire_report report;
		atomic_store(&lingers, false);
		atomic_store(&may_go, false);
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){0});
		weir_stage *stage = probe.stage;
		must(weir_world_start(world));
		job_init(&job, 1, 0);
		assert_int_equal(weir_offer(stage, &job.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(atomic_load(&lingers));
		assert_int_equal(weir_stage_retire(&stage, 5 * WEIR_NS_PER_MS, &report), -ETIMEDOUT);
		assert_int_equal(report.inside, 0);
		check_contains(weir_error(), "handler");
		atomic_store(&may_go, true);
		must(weir_stage_retire(&stage, PATIENCE, NULL));
		assert_int_equal(atomic_load(&probe.inside), 0);
		assert_int_equal(job.why, WEIR_SHED_STOPPING);
		world_end(&world);
	}
}

static void faults_are_told_of_at_the_end(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_LEAK};
	struct job job;
	weir_retire_report report;
	probe_open(&probe, domain_elastic(world, "e", 1, 1), (weir_stage_options){0});
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	must(weir_stage_retire(&probe.stage, 0, &report));
	assert_int_equal(report.faults, 1);
	world_end(&world);
}

static void a_virtual_world_runs_until_the_stage_is_empty(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe probe = {.act = PROBE_WORK, .work_ns = 10 * WEIR_NS_PER_MS};
		struct job jobs[3];
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.concurrency = 1});
		must(weir_world_start(world));
		jobs_init(jobs, 3, 0);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
		uint64_t began_ns = weir_world_now(world);
		assert_int_equal(weir_stage_retire(&probe.stage, 15 * WEIR_NS_PER_MS, NULL), -ETIMEDOUT);
		must(weir_stage_retire(&probe.stage, PATIENCE, NULL));
		assert_int_equal(weir_world_now(world) - began_ns, 30 * WEIR_NS_PER_MS);
		assert_int_equal(probe.handled, 3);
		world_end(&world);
	}
}

/* The admin keeps a stage from one look to the next, and must not look at one that is gone. */
static void a_snapshot_forgets_what_is_retired(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "r", 1);
	struct probe first = {.act = PROBE_FORWARD}, second = {0};
	struct job job;
	weir_snapshot snapshot;
	probe_open(&first, domain, (weir_stage_options){.name = "first"});
	probe_open(&second, domain, (weir_stage_options){.name = "second"});
	first.next = second.stage;
	must(weir_world_start(world));
	must(weir_snapshot_init(&snapshot, world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(first.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	weir_snapshot_take(&snapshot, weir_world_now(world));
	assert_ptr_equal(snapshot.stages[0].stage, first.stage);
	assert_int_equal(snapshot.edge_count, 2);
	retire(&first);
	weir_snapshot_renew(&snapshot);
	assert_null(snapshot.stages[0].stage);
	assert_int_equal(snapshot.edge_count, 0);
	/* Another at its place begins anew, also when nobody has looked meanwhile. */
	for (int i = 0; i < 3; i++) {
		probe_open(&first, domain, (weir_stage_options){.name = "other"});
		if (i == 1) {
			weir_snapshot_renew(&snapshot);
			assert_ptr_equal(snapshot.stages[0].stage, first.stage);
		}
		world_run(world, WEIR_NS_PER_S);
		weir_snapshot_take(&snapshot, weir_world_now(world));
		assert_ptr_equal(snapshot.stages[0].stage, first.stage);
		assert_int_equal(snapshot.stages[0].all.stats.offered, 0);
		retire(&first);
	}
	weir_snapshot_fini(&snapshot);
	world_end(&world);
}

/* ---- places and names ---- */

static void places_and_names_are_used_again(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++)
		FOR_BOTH_KINDS(kind)
		{
			const int rounds = simulated || CHECK_SLOW ? 1000 : 5000;
			weir_world *world = world_of(simulated);
			weir_domain *domain = domain_of_kind(world, kind);
			weir_threshold_params threshold = {.waiting = {50}};
			struct probe keeps = {0}, comes = {0};
			struct job job;
			uint64_t live = 0;
			probe_open(&keeps, domain, (weir_stage_options){.name = "keeps"});
			must(weir_world_start(world));
			for (int i = 0; i < rounds; i++) {
				probe_open(&comes, domain,
					   (weir_stage_options){.name = "comes",
								.admission = &weir_law_threshold,
								.admission_params = &threshold});
				job_init(&job, 1, 0);
				assert_int_equal(weir_offer(comes.stage, &job.event), WEIR_ADMITTED);
				let_run(world, simulated);
				retire(&comes);
				assert_int_equal(comes.handled, 1);
				if (i == 10)
					live = weir_mem_live();
				if (i > 10)
					assert_int_equal(weir_mem_live(), live);
			}
			world_end(&world);
		}
}

static void handle_none(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
}

static void drop_none(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static const weir_stage_options one_more = {
	.name = "more", .handle = handle_none, .drop = drop_none, .capacity = 1};

static void the_most_stages_are_the_most_at_one_time(void **state)
{
	static struct probe probes[WEIR_STAGES_MAX + 1];
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_elastic(world, "e", 1, 1);
	weir_stage *more = NULL;
	char name[16];
	must(weir_world_start(world));
	for (int i = 0; i < WEIR_STAGES_MAX; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		probe_open(&probes[i], domain, (weir_stage_options){.name = name});
	}
	for (int i = 0; i < 3; i++) {
		retire(&probes[i * 100]);
		snprintf(name, sizeof(name), "again%d", i);
		probe_open(&probes[i * 100], domain, (weir_stage_options){.name = name});
	}
	assert_int_equal(weir_stage_new(domain, &one_more, &more), -ENOSPC);
	world_end(&world);
}

/*
 * An event remembers where it entered by a mark, which a stage that has the same place later does not have.
 */
static void a_stage_is_not_told_of_what_entered_before_it(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "r", 1);
	struct probe front = {.act = PROBE_FORWARD}, back = {.act = PROBE_HOLD};
	struct job job;
	probe_open(&front, domain, (weir_stage_options){.name = "front", .heed_downstream = true});
	probe_open(&back, domain, (weir_stage_options){.name = "back"});
	front.next = back.stage;
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(front.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	uint16_t entry = job.event.entry;
	retire(&front);
	weir_refused(&job.event); /* nobody is there to be told */
	probe_open(&front, domain, (weir_stage_options){.name = "front", .heed_downstream = true});
	front.act = PROBE_DONE;
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(front.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_MS);
	assert_int_not_equal(job.event.entry, entry);
	world_end(&world);
}

static void a_bound_goes_on_without_a_stage(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "r", 2);
	weir_bound *bound = NULL;
	struct probe probes[2] = {{.each = hold_it}, {0}};
	struct job jobs[20], blocker;
	must(weir_bound_new(1, &bound));
	probe_open(&probes[0], domain, (weir_stage_options){.name = "a", .bound = bound});
	must(weir_world_start(world));
	for (int round = 0; round < 200; round++) {
		probe_open(&probes[1], domain, (weir_stage_options){.name = "b", .bound = bound});
		job_init(&blocker, 1, 0);
		atomic_store(&held, 0);
		assert_int_equal(weir_offer(probes[0].stage, &blocker.event), WEIR_ADMITTED);
		CHECK_EVENTUALLY(atomic_load(&held) == 1);
		jobs_init(jobs, 20, 0);
		for (unsigned i = 0; i < 20; i++)
			assert_int_equal(weir_offer(probes[1].stage, &jobs[i].event), WEIR_ADMITTED);
		weir_done(&blocker.event);
		retire(&probes[1]);
		assert_int_equal(probes[1].handled, 20);
	}
	CHECK_EVENTUALLY(weir_bound_inside(bound) == 0);
	world_end(&world);
	weir_bound_free(&bound);
}

/* ---- laws ---- */

struct load {
	pthread_t thread;
	weir_stage *stage;
	_Atomic bool ends;
	_Atomic uint64_t offered;
	_Atomic bool inside[256];
	struct job jobs[256];
};

static void *offer_on_and_on(void *arg)
{
	struct load *load = arg;
	size_t next = 0;
	jobs_init(load->jobs, 256, 0);
	while (!atomic_load(&load->ends)) {
		size_t at = next++ % 256;
		if (!atomic_exchange(&load->inside[at], true) &&
		    weir_offer(load->stage, &load->jobs[at].event) != WEIR_ADMITTED)
			atomic_store(&load->inside[at], false);
		atomic_fetch_add(&load->offered, 1);
	}
	return NULL;
}

static void let_out(struct probe *probe, struct job *job)
{
	struct load *load = probe->data;
	atomic_store(&load->inside[job - load->jobs], false);
}

static void finish_and_let_out(struct probe *probe, struct job *job)
{
	weir_done(&job->event);
	let_out(probe, job);
}

static void laws_are_replaced_under_load_in_constant_memory(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		const int rounds = CHECK_SLOW ? 1000 : 5000;
		weir_world *world = world_real();
		struct load load = {0};
		struct probe probe = {.each = finish_and_let_out, .on_drop = let_out, .data = &load};
		uint64_t live = 0, most = 0;
		probe_open(&probe, domain_of_kind(world, kind), (weir_stage_options){.capacity = 300});
		must(weir_world_start(world));
		load.stage = probe.stage;
		assert_int_equal(pthread_create(&load.thread, NULL, offer_on_and_on, &load), 0);
		CHECK_EVENTUALLY(load.offered > 1000);
		live = weir_mem_live();
		for (int i = 0; i < rounds; i++) {
			weir_threshold_params threshold = {.waiting = {1000 + (uint32_t)i}};
			must(weir_stage_admission(probe.stage, &weir_law_threshold, &threshold));
			uint64_t now = weir_mem_live();
			most = now > most ? now : most;
			/*
			 * They go as fast as threads take turns; who replaces faster than that waits for
			 * none.
			 */
			if (i % 100 == 0)
				CHECK_EVENTUALLY(weir_mem_live() < live + 16);
		}
		CHECK_EVENTUALLY(weir_mem_live() < live + 16);
		assert_true(most < live + 200);
		atomic_store(&load.ends, true);
		pthread_join(load.thread, NULL);
		world_end(&world);
	}
}

static void laws_replaced_before_the_start_go_at_once(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = world_of(simulated);
		struct probe probe = {0};
		weir_threshold_params threshold = {.waiting = {5}};
		probe_open(&probe, domain_reactor(world, "r", 1),
			   (weir_stage_options){.admission = &weir_law_threshold,
						.admission_params = &threshold});
		uint64_t live = weir_mem_live();
		for (int i = 0; i < 100; i++)
			must(weir_stage_admission(probe.stage, &weir_law_threshold, &threshold));
		assert_int_equal(weir_mem_live(), live);
		weir_world_free(&world);
	}
}

/* ---- pools ---- */

struct hooks {
	_Atomic unsigned started, ended;
	_Atomic unsigned strangers; /* handler calls without a state of this pool */
	unsigned cells[64];
};

static void *thread_starts(void *arg)
{
	struct hooks *hooks = arg;
	return &hooks->cells[atomic_fetch_add(&hooks->started, 1) % 64];
}

static void thread_ends(void *arg, void *given)
{
	struct hooks *hooks = arg;
	unsigned *cell = given;
	atomic_fetch_add(&hooks->strangers, cell < hooks->cells || cell >= hooks->cells + 64);
	atomic_fetch_add(&hooks->ended, 1);
}

static void use_state(struct probe *probe, struct job *job)
{
	struct hooks *hooks = probe->data;
	unsigned *cell = weir_thread_state();
	atomic_fetch_add(&hooks->strangers, cell < hooks->cells || cell >= hooks->cells + 64);
	weir_done(&job->event);
}

static weir_domain *pool_with_hooks(weir_world *world, struct hooks *hooks)
{
	weir_domain *domain = NULL;
	weir_domain_options options = {.name = "pool",
				       .kind = WEIR_ELASTIC,
				       .min_threads = 2,
				       .max_threads = 4,
				       .thread_start = thread_starts,
				       .thread_end = thread_ends,
				       .thread_arg = hooks};
	must(weir_domain_new(world, &options, &domain));
	return domain;
}

static void each_thread_of_a_pool_has_a_state_of_its_own(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++)
		for (int late = 0; late < 2; late++) {
			weir_world *world = world_of(simulated);
			struct hooks hooks = {0};
			struct probe probe = {.each = use_state, .data = &hooks};
			struct job jobs[50];
			domain_reactor(world, "r", 1);
			weir_domain *domain = late ? NULL : pool_with_hooks(world, &hooks);
			must(weir_world_start(world));
			if (late)
				domain = pool_with_hooks(world, &hooks);
			probe_open(&probe, domain, (weir_stage_options){.capacity = 100});
			jobs_init(jobs, 50, 0);
			for (unsigned i = 0; i < 50; i++)
				assert_int_equal(weir_offer(probe.stage, &jobs[i].event), WEIR_ADMITTED);
			let_run(world, simulated);
			if (late) {
				retire(&probe);
				must(weir_domain_retire(&domain, PATIENCE));
				assert_int_equal(hooks.started, hooks.ended);
			}
			world_end(&world);
			assert_int_equal(probe.handled, 50);
			assert_int_equal(hooks.strangers, 0);
			assert_int_equal(hooks.started, hooks.ended);
			assert_true(hooks.started >= (simulated ? 1u : 2u));
			assert_null(weir_thread_state());
		}
}

static void pools_come_and_go(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		const int rounds = CHECK_SLOW ? 100 : 1000;
		weir_world *world = world_of(simulated);
		struct probe probe = {0};
		struct job jobs[20];
		uint64_t live = 0;
		domain_reactor(world, "r", 1);
		must(weir_world_start(world));
		for (int i = 0; i < rounds; i++) {
			weir_domain *pool = domain_elastic(world, "pool", 1, 3);
			probe_open(&probe, pool, (weir_stage_options){.capacity = 20});
			jobs_init(jobs, 20, 0);
			for (unsigned k = 0; k < 20; k++)
				assert_int_equal(weir_offer(probe.stage, &jobs[k].event), WEIR_ADMITTED);
			/* With events in its queues: the stage goes first, and takes its time. */
			assert_int_equal(weir_domain_retire(&pool, 0), -EBUSY);
			check_contains(weir_error(), "probe");
			retire(&probe);
			assert_int_equal(probe.handled, 20);
			must(weir_domain_retire(&pool, PATIENCE));
			assert_null(pool);
			must(weir_domain_retire(&pool, 0));
			if (i == 10)
				live = weir_mem_live();
			if (i > 10)
				assert_int_equal(weir_mem_live(), live);
		}
		world_end(&world);
	}
}

static void only_pools_come_late_and_go_early(void **state)
{
	weir_world *world = world_real();
	weir_domain *reactor = domain_reactor(world, "r", 1), *more = NULL;
	must(weir_world_start(world));
	assert_int_equal(weir_domain_new(world, &(weir_domain_options){.name = "late", .threads = 1}, &more),
			 -EBUSY);
	assert_int_equal(weir_domain_retire(&reactor, PATIENCE), -ENOTSUP);
	assert_non_null(reactor);
	more = domain_elastic(world, "late", 1, 1);
	assert_int_equal(weir_domain_new(world, &(weir_domain_options){.name = "late", .kind = WEIR_ELASTIC},
					 &reactor),
			 -EEXIST);
	/* Nothing is added to one that goes; and a world can end with one. */
	world_end(&world);
}

static void *start_slowly(void *arg)
{
	while (!atomic_load((_Atomic bool *)arg))
		check_breathe();
	return NULL;
}

static void a_pool_that_does_not_end_in_time_ends_later(void **state)
{
	weir_world *world = world_real();
	_Atomic bool go = false;
	weir_domain *pool = NULL;
	weir_stage *stage = NULL;
	weir_domain_options options = {.name = "slow",
				       .kind = WEIR_ELASTIC,
				       .min_threads = 1,
				       .max_threads = 1,
				       .thread_start = start_slowly,
				       .thread_arg = &go};
	domain_reactor(world, "r", 1);
	must(weir_world_start(world));
	must(weir_domain_new(world, &options, &pool));
	assert_int_equal(weir_domain_retire(&pool, 2 * WEIR_NS_PER_MS), -ETIMEDOUT);
	assert_int_equal(weir_stage_new(pool, &one_more, &stage), -EBUSY);
	atomic_store(&go, true);
	must(weir_domain_retire(&pool, PATIENCE));
	world_end(&world);
}

static void a_late_pool_can_fail_to_be_made(void **state)
{
	for (int simulated = 0; simulated < 2; simulated++) {
		weir_world *world = world_of(simulated);
		weir_domain *pool = NULL;
		weir_domain_options options = {
			.name = "late", .kind = WEIR_ELASTIC, .min_threads = 2, .max_threads = 2};
		domain_reactor(world, "r", 1);
		must(weir_world_start(world));
		uint64_t live = weir_mem_live(), nth = 0;
		int failed;
		do {
			weir_mem_fail_after(++nth);
			failed = weir_domain_new(world, &options, &pool);
			weir_mem_fail_after(0);
			assert_true(failed == 0 || failed == -ENOMEM || failed == -EAGAIN);
			if (failed != 0)
				assert_int_equal(weir_mem_live(), live);
		} while (failed != 0);
		assert_true(nth > 3);
		must(weir_domain_retire(&pool, PATIENCE));
		assert_int_equal(weir_mem_live(), live);
		world_end(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(an_empty_stage_is_retired),
		CHECK_TEST(a_retired_stage_leaves_every_table),
		CHECK_TEST(what_is_inside_runs_to_its_end),
		CHECK_TEST(a_ticket_keeps_a_stage),
		CHECK_TEST(who_waits_for_room_is_turned_away),
		CHECK_TEST(a_handler_cannot_retire),
		CHECK_TEST(a_world_that_stops_keeps_what_is_half_way),
		CHECK_TEST(a_stop_does_not_wait_for_who_retires),
		CHECK_TEST(a_handler_that_lingers_is_waited_for),
		CHECK_TEST(faults_are_told_of_at_the_end),
		CHECK_TEST(a_virtual_world_runs_until_the_stage_is_empty),
		CHECK_TEST(a_snapshot_forgets_what_is_retired),
		CHECK_TEST(places_and_names_are_used_again),
		CHECK_TEST(the_most_stages_are_the_most_at_one_time),
		CHECK_TEST(a_stage_is_not_told_of_what_entered_before_it),
		CHECK_TEST(a_bound_goes_on_without_a_stage),
		CHECK_TEST(laws_are_replaced_under_load_in_constant_memory),
		CHECK_TEST(laws_replaced_before_the_start_go_at_once),
		CHECK_TEST(each_thread_of_a_pool_has_a_state_of_its_own),
		CHECK_TEST(pools_come_and_go),
		CHECK_TEST(only_pools_come_late_and_go_early),
		CHECK_TEST(a_pool_that_does_not_end_in_time_ends_later),
		CHECK_TEST(a_late_pool_can_fail_to_be_made),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
