/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/keys.h"
#include "support/unit.h"

#include <errno.h>
#include <string.h>

#include <weir/law.h>

#include "base/mem.h"

/* A law with one parameter of each kind. */
typedef struct sample_params {
	double gain;
	uint64_t target_ns[WEIR_CLASSES];
	double percentile;
	uint32_t depth[WEIR_CLASSES];
	bool gentle;
	uint32_t guard;
} sample_params;

static int sample_init(void *state, const void *params, const char **ret_wrong)
{
	const sample_params *p = params;
	if (p == NULL || p->target_ns[0] == 0) {
		*ret_wrong = "target is required, as 200ms";
		return -EINVAL;
	}
	*(sample_params *)state = *p;
	return 0;
}

static void sample_defaults(void *params)
{
	*(sample_params *)params = (sample_params){.gain = 1, .percentile = .9, .guard = 0xfeed};
}

#define AT(field) .offset = offsetof(sample_params, field)
static weir_key table[] = {
	{.name = "gain", .type = WEIR_KEY_NUMBER, AT(gain), .min = 0, .max = 10},
	{.name = "target",
	 .type = WEIR_KEY_TIME,
	 AT(target_ns),
	 .flags = WEIR_KEY_PER_CLASS,
	 .min = 1e3,
	 .max = 3.6e12},
	{.name = "percentile", .type = WEIR_KEY_PERCENTILE, AT(percentile), .min = .5, .max = .999},
	{.name = "depth",
	 .type = WEIR_KEY_COUNT,
	 AT(depth),
	 .flags = WEIR_KEY_PER_CLASS,
	 .min = 1,
	 .max = 1000},
	{.name = "gentle", .type = WEIR_KEY_SWITCH, AT(gentle)},
	{.name = NULL},
};
static const weir_admission_law sample_law = {.name = "sample",
					      .state_bytes = sizeof(sample_params),
					      .params_bytes = sizeof(sample_params),
					      .params = table,
					      .defaults = sample_defaults,
					      .init = sample_init};

static sample_params p;

static void set(const char *name, const char *value)
{
	if (weir_law_set(&sample_law, &p, name, value) != 0)
		fail_msg("%s = %s: %s", name, value, weir_error());
}

/* Refused, with nothing changed, and all these words in the sentence. */
static void refuse(const char *name, const char *value, const char *word, const char *other)
{
	sample_params before = p;
	assert_int_equal(weir_law_set(&sample_law, &p, name, value), -EINVAL);
	assert_memory_equal(&before, &p, sizeof(p));
	if (strstr(weir_error(), word) == NULL || strstr(weir_error(), other) == NULL)
		fail_msg("\"%s\" does not say '%s' and '%s'", weir_error(), word, other);
}

static int begin(void **state)
{
	weir_law_defaults(&sample_law, &p);
	return 0;
}

static void test_each_kind(void **state)
{
	set("gain", "2.5");
	set("target", "200ms");
	set("percentile", "99%");
	set("depth", "7");
	set("gentle", "on");
	assert_true(p.gain == 2.5 && p.percentile == .99 && p.gentle && p.guard == 0xfeed);
	for (int k = 0; k < WEIR_CLASSES; k++)
		assert_true(p.target_ns[k] == 200000000 && p.depth[k] == 7);
	set("gentle", "off");
	assert_false(p.gentle);
}

static void test_one_class(void **state)
{
	set("depth", "7");
	set("depth[0]", "1");
	set("depth[7]", "1000");
	set("target[2]", "1s");
	assert_true(p.depth[0] == 1 && p.depth[1] == 7 && p.depth[6] == 7 && p.depth[7] == 1000);
	assert_true(p.target_ns[1] == 0 && p.target_ns[2] == WEIR_NS_PER_S && p.target_ns[3] == 0);
	assert_true(p.guard == 0xfeed);
}

static void test_shorthand(void **state)
{
	set("p99.9", "200ms");
	assert_true(p.percentile == .999 && p.target_ns[0] == 200000000 && p.target_ns[7] == 200000000);
	set("p99.9[2]", "1.5s");
	assert_true(p.target_ns[1] == 200000000 && p.target_ns[2] == 1500000000 &&
		    p.target_ns[3] == 200000000);
	refuse("p90[2]", "1s", "one percentile for all classes, now p99.9", "target[2]");
	refuse("p90", "200", "unit", "target");
	refuse("p40", "200ms", "p50", "p99.9");
	refuse("p999", "200ms", "percentile", "p90");
	refuse("p90", "100ns", "1000ns", "target");
	refuse("p90[8]", "1s", "name[7]", "p90[8]");
	refuse("p90.00000000000000000000000000000000000x", "1s", "no parameter", "it takes");
}

/* A percentile a class: then the shorthand sets one of them. */
static void test_shorthand_with_a_percentile_a_class(void **state)
{
	static struct {
		double percentile[WEIR_CLASSES];
		uint64_t target_ns[WEIR_CLASSES];
	} many;
	static const weir_key both[] = {
		{.name = "percentile",
		 .type = WEIR_KEY_PERCENTILE,
		 .flags = WEIR_KEY_PER_CLASS,
		 .min = .5,
		 .max = .999},
		{.name = "target",
		 .type = WEIR_KEY_TIME,
		 .offset = sizeof(many.percentile),
		 .flags = WEIR_KEY_PER_CLASS,
		 .max = 1e15},
		{.name = NULL},
	};
	weir_admission_law law = {.name = "both", .params = both, .params_bytes = sizeof(many)};
	assert_int_equal(weir_law_set(&law, &many, "p95[3]", "2s"), 0);
	assert_true(many.percentile[3] == .95 && many.target_ns[3] == 2 * WEIR_NS_PER_S);
	assert_true(many.percentile[2] == 0 && many.target_ns[4] == 0);
}

static void test_no_shorthand_without_both(void **state)
{
	weir_bucket_params bucket = {0};
	assert_int_equal(weir_law_set(&weir_law_bucket, &bucket, "p90", "200ms"), -EINVAL);
	assert_non_null(strstr(weir_error(), "rate, burst"));
}

static void test_unknown_names(void **state)
{
	refuse("taregt", "1s", "did you mean 'target'?", "target[class]");
	refuse("xyzzy", "1s", "'xyzzy'", "gain, target[class], percentile, depth[class], gentle");
	refuse("", "1s", "no parameter ''", "gain");
	refuse(NULL, NULL, "no parameter ''", "gain");
	refuse("\n\t\377\001", "1s", "'\?\?\?\?'", "gain");
	refuse("Target", "1s", "did you mean 'target'?", "gain");
	refuse("target ", "1s", "did you mean 'target'?", "gain");
	weir_admission_law bare = {.name = "bare"};
	assert_int_equal(weir_law_set(&bare, NULL, "x", "1"), -EINVAL);
	assert_non_null(strstr(weir_error(), "takes none"));
}

static void test_bad_classes(void **state)
{
	refuse("target[8]", "1s", "name[7]", "target[8]");
	refuse("target[", "1s", "name[7]", "target[");
	refuse("target[]", "1s", "name[7]", "target[]");
	refuse("target[1", "1s", "name[7]", "target[1");
	refuse("target[1]x", "1s", "name[7]", "target[1]x");
	refuse("target[12]", "1s", "name[7]", "target[12]");
	refuse("target[-1]", "1s", "name[7]", "target[-1]");
	refuse("gain[1]", "1", "one for all classes", "gain");
}

/* The range is said as the value was written. */
static void test_ranges(void **state)
{
	refuse("target", "2h", "from 1us to 1h", "'2h'");
	refuse("target", "4000s", "from 0.000001s to 3600s", "target");
	refuse("target", "0.0001ms", "from 0.001ms to 3600000ms", "target");
	refuse("gain", "11", "from 0 to 10", "'11'");
	refuse("gain", "-1", "from 0 to 10", "gain");
	refuse("depth", "0", "from 1 to 1000", "depth");
	refuse("depth", "1001", "from 1 to 1000", "depth");
	refuse("percentile", "p99.95", "from p50 to p99.9", "p99.95");
	set("target", "1us");
	set("target", "1h");
	set("percentile", "p50");
	set("depth", "1000");
}

static void test_bad_values_name_the_parameter(void **state)
{
	refuse("target", "200", "target", "unit is missing");
	refuse("target", NULL, "target", "no value");
	refuse("gain", "1,5", "gain", "'1,5'");
	refuse("depth", "1.5", "depth", "whole number");
	refuse("percentile", "90", "percentile", "p90");
	refuse("gentle", "1", "gentle", "on or off");
}

static void test_check_says_what_init_says(void **state)
{
	assert_int_equal(weir_law_check(&sample_law, &p), -EINVAL);
	assert_string_equal(weir_error(), "law 'sample': target is required, as 200ms");
	set("target", "200ms");
	assert_int_equal(weir_law_check(&sample_law, &p), 0);
	uint64_t live = weir_mem_live();
	weir_mem_fail_after(1);
	assert_int_equal(weir_law_check(&sample_law, &p), -ENOMEM);
	assert_int_equal(weir_mem_live(), live);
}

/* Every law's table names places within its parameters, and its defaults can be written. */
static void test_all_tables(void **state)
{
	const weir_admission_law *law;
	for (size_t at = 0; (law = weir_law_at(at)) != NULL; at++)
		for (const weir_key *q = law->params; q != NULL && q->name != NULL; q++) {
			size_t bytes =
				weir_key_bytes(q) * ((q->flags & WEIR_KEY_PER_CLASS) != 0 ? WEIR_CLASSES : 1);
			if (q->offset + bytes > law->params_bytes || q->help == NULL ||
			    strlen(q->name) > 31 ||
			    (q->type != WEIR_KEY_SWITCH && q->type != WEIR_KEY_CHOICE &&
			     !(q->min < q->max)) ||
			    (q->type == WEIR_KEY_CHOICE && q->words == NULL))
				fail_msg("law %s: parameter %s", law->name, q->name);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_kind, begin),
		cmocka_unit_test_setup(test_one_class, begin),
		cmocka_unit_test_setup(test_shorthand, begin),
		cmocka_unit_test(test_shorthand_with_a_percentile_a_class),
		cmocka_unit_test(test_no_shorthand_without_both),
		cmocka_unit_test_setup(test_unknown_names, begin),
		cmocka_unit_test_setup(test_bad_classes, begin),
		cmocka_unit_test_setup(test_ranges, begin),
		cmocka_unit_test_setup(test_bad_values_name_the_parameter, begin),
		cmocka_unit_test_setup(test_check_says_what_init_says, begin),
		cmocka_unit_test(test_all_tables),
	};
	return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
