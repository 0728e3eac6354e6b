/* SPDX-License-Identifier: Apache-2.0 */
/* Looking inside: counters, distributions, the graph, the trace and the dumps, exact in a virtual world. */
#include "support/worlds.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_near(uint64_t value, uint64_t exact)
{
	if (value < exact - exact * 33 / 1000 || value > exact + exact * 33 / 1000)
		fail_msg("%llu is not within 3 %% of %llu", (unsigned long long)value,
			 (unsigned long long)exact);
}

/* A queue of ten served one after another, 10 ms each: event i waits i * 10 ms. */
static void quantiles_of_a_queue_are_known(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe probe = {.act = PROBE_WORK, .work_ns = 10 * WEIR_NS_PER_MS};
	struct job jobs[10];
	probe_open(&probe, domain_elastic(world, "pool", 1, 1), (weir_stage_options){.batch = 1});
	must(weir_world_start(world));
	assert_int_equal(weir_stage_quantile(probe.stage, 2, WEIR_RESPONSE, 0.9), 0);
	jobs_init(jobs, 10, 2);
	assert_int_equal(jobs_offer_many(probe.stage, jobs, 10), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_S);

	static const unsigned classes[] = {2, WEIR_ALL_CLASSES};
	for (int i = 0; i < 2; i++) {
		unsigned k = classes[i];
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_SERVICE, 0.01), 10 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_SERVICE, 1.0), 10 * WEIR_NS_PER_MS);
		assert_int_equal(weir_stage_quantile(probe.stage, k, WEIR_WAITING, 0.1), 0);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_WAITING, 0.5), 40 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_WAITING, 1.0), 90 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_RESPONSE, 0.5), 50 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_RESPONSE, 0.9), 90 * WEIR_NS_PER_MS);
		expect_near(weir_stage_quantile(probe.stage, k, WEIR_RESPONSE, 1.0), 100 * WEIR_NS_PER_MS);
	}
	assert_int_equal(weir_stage_quantile(probe.stage, 1, WEIR_RESPONSE, 0.9), 0);
	world_end(&world);
}

/* What is set on a stage can be read by whoever did not set it. */
static void the_settings_of_a_stage_are_seen(void **state)
{
	weir_world *world = world_virtual(1);
	weir_bound *bound = NULL;
	weir_domain *loops = domain_reactor(world, "loops", 1), *pool = domain_elastic(world, "pool", 1, 1);
	struct probe open = {0}, guarded = {0};
	weir_threshold_params given = {.waiting = {5, 4, 3, 2, 1, 1, 1, 1}}, read = {0};
	weir_stage_settings seen;
	must(weir_bound_new(7, &bound));
	probe_open(&open, loops, (weir_stage_options){.name = "open", .capacity = 12, .bound = bound});
	probe_open(&guarded, pool,
		   (weir_stage_options){
			   .name = "guarded", .admission = &weir_law_threshold, .admission_params = &given});
	assert_true(weir_domain_is_reactor(loops) && !weir_domain_is_reactor(pool));
	assert_ptr_equal(weir_domain_world(pool), world);
	weir_stage_read_settings(open.stage, &seen);
	assert_true(seen.law == NULL && seen.mode == WEIR_ENFORCE && seen.shed_ceiling == 1);
	assert_true(seen.capacity == 12 && seen.bound == bound);
	assert_false(weir_stage_read_params(open.stage, &weir_law_threshold, &read));
	weir_stage_mode(guarded.stage, WEIR_DRY_RUN);
	must(weir_stage_shed_ceiling(guarded.stage, 0.25));
	weir_stage_read_settings(guarded.stage, &seen);
	assert_true(seen.law == &weir_law_threshold && seen.mode == WEIR_DRY_RUN && seen.bound == NULL);
	assert_true(seen.shed_ceiling == 0.25);
	assert_true(weir_stage_read_params(guarded.stage, seen.law, &read));
	assert_memory_equal(&read, &given, sizeof given);
	/* A buffer for one law is not filled with the parameters of another. */
	assert_false(weir_stage_read_params(guarded.stage, &weir_law_bucket, &read));
	/* The ceiling still needs a gate, but there is no law in it. */
	must(weir_stage_admission(guarded.stage, NULL, NULL));
	weir_stage_read_settings(guarded.stage, &seen);
	assert_null(seen.law);
	must(weir_world_start(world));
	world_end(&world);
	weir_bound_free(&bound);
}

static void stages_are_found_by_number(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "d", 1);
	struct probe first = {0}, second = {0}, third = {0};
	probe_open(&first, domain, (weir_stage_options){.name = "first"});
	probe_open(&second, domain, (weir_stage_options){.name = "second"});
	must(weir_world_start(world));
	uint64_t gone = weir_stage_serial(second.stage);
	assert_int_equal(weir_world_stage_count(world), 2);
	assert_ptr_equal(weir_world_stage_at(world, 1), second.stage);
	assert_null(weir_world_stage_at(world, 2));
	assert_null(weir_world_stage_at(world, UINT32_MAX));
	must(weir_stage_retire(&second.stage, 0, NULL));
	assert_null(weir_world_stage_at(world, 1));
	probe_open(&third, domain, (weir_stage_options){.name = "third"});
	assert_ptr_equal(weir_world_stage_at(world, 1), third.stage);
	assert_true(weir_stage_serial(third.stage) > gone);
	assert_string_equal(weir_trace_stage(world, &(weir_trace_entry){.stage = 0}), "first");
	/* An entry from before the stage that has the number now. */
	assert_string_equal(weir_trace_stage(world, &(weir_trace_entry){.stage = 1}), "(retired)");
	assert_string_equal(weir_trace_stage(world, &(weir_trace_entry){.stage = UINT16_MAX}), "(retired)");
	world_end(&world);
}

static void numbers_out_of_range_are_harmless(void **state)
{
	struct plugged p;
	weir_stage_stats stats;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){0});
	plugged_release(&p);
	weir_stage_quantile(p.stage, 0, WEIR_RESPONSE, -1.0);
	weir_stage_quantile(p.stage, 0, WEIR_RESPONSE, 2.0);
	weir_stage_quantile(p.stage, 77, WEIR_RESPONSE, 0.5);
	weir_stage_quantile(p.stage, 0, WEIR_MEASURES, 0.5);
	weir_stage_read(p.stage, 77, &stats);
	assert_int_equal(weir_stage_faults(p.stage, WEIR_FAULT_COUNT), 0);
	plugged_end(&p);
}

static void waiting_and_in_flight_are_seen_by_class(void **state)
{
	struct plugged p;
	struct job jobs[5];
	weir_stage_stats stats;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	for (unsigned i = 0; i < 5; i++) {
		job_init(&jobs[i], i, i % 2 + 3);
		assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
	}
	weir_stage_read(p.stage, 3, &stats);
	assert_int_equal(stats.in_flight, 3);
	weir_stage_read(p.stage, 4, &stats);
	assert_int_equal(stats.in_flight, 2);
	weir_stage_read(p.stage, 0, &stats);
	assert_int_equal(stats.in_flight, 1); /* the plug */
	stats = stats_of(p.stage);
	assert_int_equal(stats.in_flight, 6);
	assert_int_equal(stats.waiting, 5);
	assert_int_equal(stats.in_service, 1);
	plugged_end(&p);
}

static void split_in_two(struct probe *probe, struct job *job)
{
	struct job *parts = job->data;
	weir_stage **next = probe->data;
	for (int i = 0; i < 2; i++)
		weir_offer(next[i], &parts[i].event);
	weir_done(&job->event);
}

static void edges_count_what_went_along_them(void **state)
{
	FOR_BOTH_KINDS(kind)
	{
		weir_world *world = world_virtual(1);
		struct probe a = {.each = split_in_two}, b = {.act = PROBE_FORWARD}, c = {0};
		struct job jobs[3], parts[3][2];
		probe_open(&a, domain_of_kind(world, kind), (weir_stage_options){.name = "a"});
		probe_open(&b, domain_reactor(world, "other", 1), (weir_stage_options){.name = "b"});
		probe_open(&c, domain_elastic(world, "third", 1, 2),
			   (weir_stage_options){.name = "c", .capacity = 8});
		weir_stage *next[] = {b.stage, c.stage};
		a.data = next;
		b.next = c.stage;
		must(weir_world_start(world));
		jobs_init(jobs, 3, 0);
		for (int i = 0; i < 3; i++) {
			jobs_init(parts[i], 2, 0);
			jobs[i].data = parts[i];
			assert_int_equal(weir_offer(a.stage, &jobs[i].event), WEIR_ADMITTED);
			world_run(world, WEIR_NS_PER_MS);
		}
		assert_int_equal(weir_edge_count(NULL, a.stage), 3);
		assert_int_equal(weir_edge_count(a.stage, b.stage), 3);
		assert_int_equal(weir_edge_count(a.stage, c.stage), 3);
		assert_int_equal(weir_edge_count(b.stage, c.stage), 3);
		assert_int_equal(weir_edge_count(NULL, c.stage), 0);
		assert_int_equal(weir_edge_count(c.stage, a.stage), 0);

		/* Only what was admitted went anywhere. */
		weir_stage_close(c.stage);
		jobs_init(jobs, 1, 0);
		assert_int_equal(weir_offer(b.stage, &jobs[0].event), WEIR_ADMITTED);
		world_run(world, WEIR_NS_PER_MS);
		assert_int_equal(weir_edge_count(b.stage, c.stage), 3);
		assert_int_equal(weir_edge_count(NULL, b.stage), 1);
		world_end(&world);
	}
}

/* The steps of one event in the trace, as a string. */
static void steps_of(weir_world *world, uint32_t number, char *ret_steps)
{
	static weir_trace_entry entries[8192];
	size_t count = weir_trace_read(world, entries, 8192), length = 0;
	for (size_t i = 0; i < count; i++) {
		assert_true(i == 0 || entries[i].at_ns >= entries[i - 1].at_ns);
		if (entries[i].event == number && length < 30)
			ret_steps[length++] = (char)entries[i].step;
	}
	ret_steps[length] = '\0';
}

static void expect_steps(weir_world *world, const struct job *job, const char *expected)
{
	char steps[32];
	steps_of(world, job->event.trace, steps);
	assert_string_equal(steps, expected);
}

static void a_traced_event_leaves_its_steps(void **state)
{
	struct plugged p;
	struct job jobs[6];
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.capacity = 4});
	jobs_init(jobs, 6, 1);
	for (int i = 0; i < 5; i++)
		jobs[i].event.flags = WEIR_EVENT_TRACE;
	for (int i = 0; i < 4; i++)
		assert_int_equal(weir_offer(p.stage, &jobs[i].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[4].event), WEIR_SHED_FULL);
	weir_event_cancel(&jobs[1].event);
	p.probe.act = PROBE_FAIL;
	plugged_release(&p);
	expect_steps(p.world, &jobs[0], "qbf");
	expect_steps(p.world, &jobs[1], "qx");
	expect_steps(p.world, &jobs[4], "s");
	assert_int_not_equal(jobs[0].event.trace, jobs[1].event.trace);
	static weir_trace_entry entries[100];
	size_t count = weir_trace_read(p.world, entries, 100);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(entries[i].klass, 1); /* the plug was not traced */
		if (entries[i].step == 's')
			assert_int_equal(entries[i].verdict, WEIR_SHED_FULL);
		if (entries[i].step == 'x')
			assert_int_equal(entries[i].verdict, WEIR_SHED_CANCELLED);
	}
	assert_int_equal(count, 3 * 3 + 2 + 1);
	/* The newest entries when there is not room for all. */
	weir_trace_entry last[2];
	assert_int_equal(weir_trace_read(p.world, last, 2), 2);
	assert_int_equal(last[1].step, entries[count - 1].step);
	assert_int_equal(last[1].event, entries[count - 1].event);
	assert_int_equal(last[0].event, entries[count - 2].event);
	plugged_end(&p);
}

static void a_held_and_moved_event_keeps_its_number(void **state)
{
	weir_world *world = world_virtual(1);
	struct probe first = {.act = PROBE_FORWARD}, second = {.act = PROBE_WORK, .work_ns = WEIR_NS_PER_MS};
	struct job job;
	probe_open(&first, domain_elastic(world, "a", 1, 1), (weir_stage_options){.name = "first"});
	probe_open(&second, domain_elastic(world, "b", 1, 1), (weir_stage_options){.name = "second"});
	first.next = second.stage;
	must(weir_world_start(world));
	job_init(&job, 1, 0);
	job.event.flags = WEIR_EVENT_TRACE;
	assert_int_equal(weir_offer(first.stage, &job.event), WEIR_ADMITTED);
	world_run(world, WEIR_NS_PER_S);
	char steps[32];
	steps_of(world, job.event.trace, steps);
	/* How the first stage's end and the second's offer are told apart in one instant is open. */
	assert_non_null(strchr(steps, 'h'));
	assert_int_equal(steps[0], 'q');
	assert_int_equal(steps[strlen(steps) - 1], 'd');
	assert_true(strlen(steps) >= 6);
	world_end(&world);
}

static void an_event_with_a_history_can_be_traced(void **state)
{
	struct plugged p;
	struct job job;
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){0});
	/* Its request came in before the first stage of this world saw it. */
	job_init(&job, 1, 0);
	job.event.flags = WEIR_EVENT_TRACE;
	job.event.entered_ns = weir_world_now(p.world) - WEIR_NS_PER_MS / 2;
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_ADMITTED);
	plugged_release(&p);
	assert_int_not_equal(job.event.trace, 0);
	expect_steps(p.world, &job, "qbd");
	plugged_end(&p);
}

static void every_nth_event_can_be_traced(void **state)
{
	weir_world *world = NULL;
	struct probe probe = {0};
	struct job job;
	static weir_trace_entry entries[1000];
	must(weir_world_new(&(weir_world_options){.simulated = true, .trace_entries = 64}, &world));
	probe_open(&probe, domain_reactor(world, "d", 1), (weir_stage_options){0});
	must(weir_world_start(world));
	for (int round = 0; round < 3; round++) {
		static const uint32_t every[] = {0, 10, 1};
		weir_trace_every(world, every[round]);
		for (int i = 0; i < 100; i++) {
			job_init(&job, 1, 0);
			assert_int_equal(weir_offer(probe.stage, &job.event), WEIR_ADMITTED);
			world_run(world, WEIR_NS_PER_US);
		}
		size_t count = weir_trace_read(world, entries, 1000);
		if (round == 0)
			assert_int_equal(count, 0);
		if (round == 1) /* ten events of three steps */
			assert_int_equal(count, 30);
		if (round == 2) /* the ring is full, and no larger than asked for */
			assert_int_equal(count, 64);
	}
	world_end(&world);
}

static char *dump(const weir_world *world, int (*how)(const weir_world *, FILE *))
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	must(how(world, to));
	fclose(to);
	assert_int_equal(strlen(text), size);
	return text;
}

/* The object in the dump that has this name and is a stage: it counts offers. */
static json_t *find_stage(json_t *in, const char *name)
{
	json_t *found = NULL, *value;
	const char *key;
	size_t index;
	if (json_is_object(in)) {
		json_t *its = json_object_get(in, "name");
		if (json_is_string(its) && strcmp(json_string_value(its), name) == 0 &&
		    json_object_get(in, "offered") != NULL)
			return in;
		json_object_foreach(in, key, value) if (found == NULL) found = find_stage(value, name);
	}
	json_array_foreach(in, index, value) if (found == NULL) found = find_stage(value, name);
	return found;
}

static void expect_number(json_t *object, const char *key, uint64_t value)
{
	json_t *number = json_object_get(object, key);
	if (!json_is_integer(number))
		fail_msg("no integer %s in the dump", key);
	assert_int_equal(json_integer_value(number), value);
}

/* A world with something of everything in it, and names that need quoting. */
struct busy_world {
	weir_world *world;
	struct probe a, b;
	struct job jobs[40];
};

#define AWKWARD "b \"quoted\\ \n<é>"

static void busy_world_open(struct busy_world *b, uint64_t seed)
{
	memset(b, 0, sizeof *b);
	b->world = world_virtual(seed);
	b->a.act = PROBE_FORWARD;
	b->b.act = PROBE_WORK;
	b->b.work_ns = 3 * WEIR_NS_PER_MS;
	probe_open(&b->a, domain_reactor(b->world, "front", 2),
		   (weir_stage_options){.name = "a", .capacity = 200});
	probe_open(&b->b, domain_elastic(b->world, "pool", 1, 3),
		   (weir_stage_options){.name = AWKWARD, .capacity = 5, .batch = 1});
	b->a.next = b->b.stage;
	must(weir_world_start(b->world));
	weir_trace_every(b->world, 3);
	jobs_init(b->jobs, 40, 0);
	for (int i = 0; i < 40; i++) {
		b->jobs[i].event.klass = i % 4;
		weir_offer(b->a.stage, &b->jobs[i].event);
		world_run(b->world, weir_random_below(weir_sim_random(b->world), 2 * WEIR_NS_PER_MS));
		if (i % 9 == 0)
			weir_event_cancel(&b->jobs[i].event);
	}
}

static void the_dump_is_json_with_the_same_numbers(void **state)
{
	struct busy_world b;
	busy_world_open(&b, 7);
	char *text = dump(b.world, weir_dump);
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (root == NULL)
		fail_msg("line %d: %s in %s", error.line, error.text, text);
	struct probe *probes[] = {&b.a, &b.b};
	for (int i = 0; i < 2; i++) {
		weir_stage_stats stats = stats_of(probes[i]->stage);
		json_t *stage = find_stage(root, weir_stage_name(probes[i]->stage));
		assert_non_null(stage);
		expect_number(stage, "offered", stats.offered);
		expect_number(stage, "admitted", stats.admitted);
		expect_number(stage, "shed", stats.shed);
		expect_number(stage, "completed", stats.completed);
		expect_number(stage, "failed", stats.failed);
		expect_number(stage, "dropped", stats.dropped);
		expect_number(stage, "in_flight", stats.in_flight);
		expect_number(stage, "waiting", stats.waiting);
		expect_number(stage, "inlined", stats.inlined);
		expect_number(stage, "batches", stats.batches);
	}
	assert_true(stats_of(b.b.stage).shed > 0);
	json_decref(root);
	free(text);
	world_end(&b.world);
}

static void an_empty_world_can_be_dumped(void **state)
{
	weir_world *world = world_virtual(1);
	char *text = dump(world, weir_dump);
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	json_decref(root);
	free(text);
	text = dump(world, weir_dump_graph);
	check_contains(text, "digraph");
	free(text);
	weir_world_free(&world);
}

static void a_dump_that_cannot_be_written_says_so(void **state)
{
	struct busy_world b;
	busy_world_open(&b, 7);
	FILE *full = fopen("/dev/full", "w");
	if (full != NULL) {
		setvbuf(full, NULL, _IONBF, 0);
		assert_int_equal(weir_dump(b.world, full), -EIO);
		check_contains(weir_error(), "dump");
		assert_int_equal(weir_dump_graph(b.world, full), -EIO);
		check_contains(weir_error(), "graph");
		fclose(full);
	}
	world_end(&b.world);
}

static void the_graph_is_dot_with_counts_on_its_edges(void **state)
{
	struct busy_world b;
	char edge[32];
	busy_world_open(&b, 7);
	char *text = dump(b.world, weir_dump_graph);
	check_contains(text, "digraph");
	check_contains(text, "->");
	snprintf(edge, sizeof edge, "%llu", (unsigned long long)weir_edge_count(b.a.stage, b.b.stage));
	check_contains(text, edge);
	/* The awkward name is escaped, and braces and quotes pair up outside of it. */
	check_contains(text, "\\\"quoted\\\\");
	int depth = 0;
	bool quoted = false;
	for (const char *c = text; *c != '\0'; c++) {
		if (quoted && *c == '\\' && c[1] != '\0')
			c++;
		else if (*c == '"')
			quoted = !quoted;
		else if (!quoted)
			depth += (*c == '{') - (*c == '}');
		assert_true(depth >= 0);
	}
	assert_int_equal(depth, 0);
	assert_false(quoted);
	free(text);
	world_end(&b.world);
}

static void the_same_seed_dumps_the_same_bytes(void **state)
{
	char *texts[3];
	for (int i = 0; i < 3; i++) {
		struct busy_world b;
		busy_world_open(&b, i < 2 ? 11 : 12);
		texts[i] = dump(b.world, weir_dump);
		world_end(&b.world);
	}
	assert_string_equal(texts[0], texts[1]);
	assert_string_not_equal(texts[0], texts[2]);
	for (int i = 0; i < 3; i++)
		free(texts[i]);
}

static void shed_inside(struct probe *probe, struct job *job)
{
	struct job *child = job->data;
	child->why = weir_offer(probe->next, &child->event);
	weir_done(&job->event);
}

static void the_reason_belongs_to_the_last_offer_that_returned(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "d", 1);
	struct probe outer = {.each = shed_inside}, closed = {0};
	struct job job, child;
	weir_why why = {0};
	probe_open(&outer, domain, (weir_stage_options){.name = "outer"});
	probe_open(&closed, domain, (weir_stage_options){.name = "closed"});
	outer.next = closed.stage;
	must(weir_world_start(world));
	weir_stage_close(closed.stage);
	job_init(&job, 1, 0);
	job_init(&child, 2, 4);
	job.data = &child;
	assert_int_equal(weir_offer(closed.stage, &child.event), WEIR_SHED_CLOSED);
	assert_true(weir_why_shed(&why));
	assert_int_equal(why.verdict, WEIR_SHED_CLOSED);
	assert_int_equal(why.klass, 4);
	assert_string_equal(why.stage, "closed");
	/* Whether or not the handler runs within this offer and is refused there, this one was admitted. */
	assert_int_equal(weir_offer(outer.stage, &job.event), WEIR_ADMITTED);
	assert_false(weir_why_shed(&why));
	world_run(world, WEIR_NS_PER_MS);
	assert_int_equal(child.why, WEIR_SHED_CLOSED);
	world_end(&world);
}

static void sheds_of_every_form_are_traced(void **state)
{
	weir_world *world = world_real();
	struct probe probe = {.act = PROBE_HOLD};
	struct job jobs[5];
	weir_event *two[] = {&jobs[2].event, &jobs[3].event};
	probe_open(&probe, domain_elastic(world, "pool", 1, 1),
		   (weir_stage_options){.capacity = 1, .concurrency = 1});
	must(weir_world_start(world));
	jobs_init(jobs, 5, 0);
	assert_int_equal(weir_offer(probe.stage, &jobs[0].event), WEIR_ADMITTED);
	CHECK_EVENTUALLY(probe.handled == 1);
	assert_int_equal(weir_offer(probe.stage, &jobs[1].event), WEIR_ADMITTED);
	jobs[2].event.flags = jobs[4].event.flags = WEIR_EVENT_TRACE;
	assert_int_equal(weir_offer_many(probe.stage, two, 2), WEIR_SHED_FULL);
	expect_steps(world, &jobs[2], "s");
	assert_int_equal(jobs[3].event.trace, 0);
	assert_int_equal(weir_offer_wait(probe.stage, &jobs[4].event, WEIR_NS_PER_MS), WEIR_SHED_TIMEOUT);
	expect_steps(world, &jobs[4], "s");
	weir_done(&jobs[0].event);
	CHECK_EVENTUALLY(jobs[1].handled == 1 && stats_of(probe.stage).waiting == 0);
	CHECK_EVENTUALLY(probe.inside == 0);
	weir_done(&jobs[1].event);
	world_end(&world);
}

static void a_reason_is_forgotten_with_its_world(void **state)
{
	struct plugged p;
	struct job job;
	weir_why why;
	plugged_open(&p, WEIR_REACTOR, (weir_stage_options){.name = "gone", .capacity = 1});
	weir_stage_close(p.stage);
	job_init(&job, 1, 0);
	assert_int_equal(weir_offer(p.stage, &job.event), WEIR_SHED_CLOSED);
	assert_true(weir_why_shed(&why));
	assert_string_equal(why.stage, "gone");
	plugged_end(&p);
	assert_false(weir_why_shed(&why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(a_reason_is_forgotten_with_its_world),
		CHECK_TEST(quantiles_of_a_queue_are_known),
		CHECK_TEST(the_settings_of_a_stage_are_seen),
		CHECK_TEST(stages_are_found_by_number),
		CHECK_TEST(numbers_out_of_range_are_harmless),
		CHECK_TEST(waiting_and_in_flight_are_seen_by_class),
		CHECK_TEST(edges_count_what_went_along_them),
		CHECK_TEST(a_traced_event_leaves_its_steps),
		CHECK_TEST(a_held_and_moved_event_keeps_its_number),
		CHECK_TEST(an_event_with_a_history_can_be_traced),
		CHECK_TEST(every_nth_event_can_be_traced),
		CHECK_TEST(the_dump_is_json_with_the_same_numbers),
		CHECK_TEST(an_empty_world_can_be_dumped),
		CHECK_TEST(a_dump_that_cannot_be_written_says_so),
		CHECK_TEST(the_graph_is_dot_with_counts_on_its_edges),
		CHECK_TEST(the_same_seed_dumps_the_same_bytes),
		CHECK_TEST(the_reason_belongs_to_the_last_offer_that_returned),
		CHECK_TEST(sheds_of_every_form_are_traced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
