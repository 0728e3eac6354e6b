/* SPDX-License-Identifier: Apache-2.0 */
/* Options that cannot be meant: an error code, a sentence that names the object and what is accepted, no half-made object. */
#include "support/worlds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static void handle_nothing(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
}

static void drop_nothing(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

static weir_stage_options good_stage(void)
{
	return (weir_stage_options){
		.name = "parser", .handle = handle_nothing, .drop = drop_nothing, .capacity = 16};
}

static int refuse_init(void *state, const void *params, const char **ret_wrong)
{
	*ret_wrong = "frobs must be between 3 and 5";
	return -EINVAL;
}

static weir_verdict admit_all(void *state, const weir_ask *ask)
{
	return WEIR_ADMITTED;
}

static const weir_admission_law refusing_law = {
	.name = "frobber", .state_bytes = 8, .init = refuse_init, .admit = admit_all};

/* One row an error: what to spoil, the code, the words the sentence must have beside the stage's name. */
struct stage_case {
	void (*spoil)(weir_stage_options *options);
	int code;
	const char *word;
};

static void no_handler(weir_stage_options *o)
{
	o->handle = NULL;
}

static void no_drop(weir_stage_options *o)
{
	o->drop = NULL;
}

static void zero_capacity(weir_stage_options *o)
{
	o->capacity = 0;
}

static void huge_batch(weir_stage_options *o)
{
	o->batch = WEIR_BATCH_MAX + 1;
}

static void unknown_order(weir_stage_options *o)
{
	o->order = (weir_order)99;
}

static void negative_order(weir_stage_options *o)
{
	o->order = (weir_order)-1;
}

static void bad_rate(weir_stage_options *o)
{
	static const weir_bucket_params params = {.rate_per_s = -1};
	o->admission = &weir_law_bucket;
	o->admission_params = &params;
}

static void nan_rate(weir_stage_options *o)
{
	static const weir_bucket_params params = {.rate_per_s = NAN};
	o->admission = &weir_law_bucket;
	o->admission_params = &params;
}

static void bad_burst(weir_stage_options *o)
{
	static const weir_bucket_params params = {.rate_per_s = 10, .burst = -2};
	o->admission = &weir_law_bucket;
	o->admission_params = &params;
}

static void no_params(weir_stage_options *o)
{
	o->admission = &weir_law_bucket;
}

static void law_refuses(weir_stage_options *o)
{
	o->admission = &refusing_law;
}

static void each_bad_stage_option_is_named(void **state)
{
	static const struct stage_case cases[] = {
		{no_handler, -EINVAL, "handle"},
		{no_drop, -EINVAL, "drop"},
		{zero_capacity, -EINVAL, "capacity"},
		{huge_batch, -EINVAL, "batch"},
		{unknown_order, -EINVAL, "order"},
		{negative_order, -EINVAL, "order"},
		{bad_rate, -EINVAL, "rate"},
		{nan_rate, -EINVAL, "rate"},
		{bad_burst, -EINVAL, "burst"},
		{no_params, -EINVAL, "weir_bucket_params"},
		{law_refuses, -EINVAL, "between 3 and 5"},
	};
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "front", 1);
	weir_stage *untouched = (weir_stage *)&cases, *stage = untouched;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		weir_stage_options options = good_stage();
		cases[i].spoil(&options);
		assert_int_equal(weir_stage_new(domain, &options, &stage), cases[i].code);
		assert_ptr_equal(stage, untouched);
		check_contains(weir_error(), "parser");
		check_contains(weir_error(), cases[i].word);
	}
	/* None of the failures kept the name. */
	weir_stage_options options = good_stage();
	must(weir_stage_new(domain, &options, &stage));
	assert_string_equal(weir_stage_name(stage), "parser");
	assert_ptr_equal(weir_stage_domain(stage), domain);
	world_end_faulty(&world);
}

static void a_stage_needs_a_name_of_its_own(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, "front", 1),
		    *second = domain_elastic(world, "back", 1, 1);
	weir_stage *stage = NULL;
	weir_stage_options options = good_stage();
	assert_int_equal(weir_stage_new(domain, NULL, &stage), -EINVAL);
	check_contains(weir_error(), "name");
	options.name = NULL;
	assert_int_equal(weir_stage_new(domain, &options, &stage), -EINVAL);
	check_contains(weir_error(), "name");
	options.name = "";
	assert_int_equal(weir_stage_new(domain, &options, &stage), -EINVAL);
	check_contains(weir_error(), "name");
	options.name = "twin";
	must(weir_stage_new(domain, &options, &stage));
	assert_int_equal(weir_stage_new(domain, &options, &stage), -EEXIST);
	check_contains(weir_error(), "twin");
	assert_int_equal(weir_stage_new(second, &options, &stage), -EEXIST);
	check_contains(weir_error(), "twin");
	weir_world_free(&world);
}

static void names_are_copied(void **state)
{
	char name[] = "short-lived";
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_reactor(world, name, 1);
	weir_stage *stage = NULL;
	weir_stage_options options = good_stage();
	options.name = name;
	must(weir_stage_new(domain, &options, &stage));
	name[0] = 'X';
	assert_string_equal(weir_stage_name(stage), "short-lived");
	assert_string_equal(weir_domain_name(domain), "short-lived");
	weir_world_free(&world);
}

static void a_world_has_a_largest_number_of_stages(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = domain_elastic(world, "pool", 1, 1);
	weir_stage_options options = good_stage();
	weir_stage *stage = NULL;
	char name[32];
	options.name = name;
	for (int i = 0; i < WEIR_STAGES_MAX; i++) {
		snprintf(name, sizeof name, "stage-%d", i);
		must(weir_stage_new(domain, &options, &stage));
	}
	snprintf(name, sizeof name, "one-too-many");
	assert_true(weir_stage_new(domain, &options, &stage) < 0);
	check_contains(weir_error(), "one-too-many");
	check_contains(weir_error(), "1984");
	weir_world_free(&world);
}

static void a_world_has_a_largest_number_of_domains(void **state)
{
	weir_world *world = world_virtual(1);
	char name[32];
	for (int i = 0; i < WEIR_DOMAINS_MAX; i++) {
		snprintf(name, sizeof name, "domain-%d", i);
		domain_elastic(world, name, 1, 1);
	}
	weir_domain *domain = NULL;
	weir_domain_options options = {.name = "one-too-many", .kind = WEIR_ELASTIC};
	assert_true(weir_domain_new(world, &options, &domain) < 0);
	assert_null(domain);
	check_contains(weir_error(), "one-too-many");
	check_contains(weir_error(), "64");
	weir_world_free(&world);
}

static void each_bad_domain_option_is_named(void **state)
{
	static const struct {
		weir_domain_options options;
		const char *word;
	} cases[] = {
		{{.name = "disk", .kind = WEIR_REACTOR, .inline_depth = 257}, "inline_depth"},
		{{.name = "disk", .kind = WEIR_ELASTIC, .min_threads = 5, .max_threads = 4}, "threads"},
		{{.name = "disk", .kind = (weir_domain_kind)7}, "kind"},
		{{.name = "disk", .kind = WEIR_REACTOR, .threads = WEIR_THREADS_MAX + 1}, "threads"},
		{{.name = "disk", .kind = WEIR_REACTOR, .threads = UINT32_MAX}, "threads"},
		{{.name = "disk", .kind = WEIR_ELASTIC, .max_threads = UINT32_MAX}, "threads"},
		{{.name = "disk", .kind = WEIR_ELASTIC, .nice = 20}, "nice"},
	};
	weir_world *world = world_virtual(1);
	weir_domain *domain = NULL;
	domain_reactor(world, "first", 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(weir_domain_new(world, &cases[i].options, &domain), -EINVAL);
		assert_null(domain);
		check_contains(weir_error(), "disk");
		check_contains(weir_error(), cases[i].word);
	}
	assert_int_equal(weir_domain_new(world, &(weir_domain_options){.kind = WEIR_ELASTIC}, &domain),
			 -EINVAL);
	check_contains(weir_error(), "name");
	assert_int_equal(weir_domain_new(world, NULL, &domain), -EINVAL);
	check_contains(weir_error(), "name");
	weir_world_free(&world);
}

static void a_domain_needs_a_name_of_its_own(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = NULL;
	domain_reactor(world, "twin", 1);
	assert_int_equal(weir_domain_new(world, &(weir_domain_options){.name = "twin"}, &domain), -EEXIST);
	assert_null(domain);
	check_contains(weir_error(), "twin");
	weir_world_free(&world);
}

static void reactor_threads_are_bounded_over_all_domains(void **state)
{
	weir_world *world = world_virtual(1);
	weir_domain *domain = NULL;
	domain_reactor(world, "most", WEIR_THREADS_MAX - 1);
	weir_domain_options options = {.name = "more", .kind = WEIR_REACTOR, .threads = 2};
	assert_true(weir_domain_new(world, &options, &domain) < 0);
	check_contains(weir_error(), "more");
	check_contains(weir_error(), "64");
	weir_world_free(&world);
}

static void a_law_that_refuses_leaves_the_old_one_in_force(void **state)
{
	struct plugged p;
	struct job jobs[3];
	weir_threshold_params two = {.waiting = {2}};
	plugged_open(&p, WEIR_ELASTIC, (weir_stage_options){.name = "guarded"});
	must(weir_stage_admission(p.stage, &weir_law_threshold, &two));
	assert_int_equal(weir_stage_admission(p.stage, &refusing_law, NULL), -EINVAL);
	check_contains(weir_error(), "guarded");
	check_contains(weir_error(), "between 3 and 5");
	jobs_init(jobs, 3, 0);
	assert_int_equal(weir_offer(p.stage, &jobs[0].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[1].event), WEIR_ADMITTED);
	assert_int_equal(weir_offer(p.stage, &jobs[2].event), WEIR_SHED_THRESHOLD);
	plugged_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(each_bad_stage_option_is_named),
		CHECK_TEST(a_stage_needs_a_name_of_its_own),
		CHECK_TEST(names_are_copied),
		CHECK_TEST(a_world_has_a_largest_number_of_stages),
		CHECK_TEST(a_world_has_a_largest_number_of_domains),
		CHECK_TEST(each_bad_domain_option_is_named),
		CHECK_TEST(a_domain_needs_a_name_of_its_own),
		CHECK_TEST(reactor_threads_are_bounded_over_all_domains),
		CHECK_TEST(a_law_that_refuses_leaves_the_old_one_in_force),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
