/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include "service/overload.h"

static weir_overload_counts counts;
static uint64_t now_ns;

/* A second in which so many were offered and rejected. */
static weir_overload_news second(weir_overload *o, uint64_t offered, uint64_t rejected,
				 weir_overload_story *ret_story)
{
	now_ns += WEIR_NS_PER_S;
	counts.offered += offered;
	counts.rejected += rejected;
	counts.completed += offered - rejected;
	return weir_overload_look(o, &counts, now_ns, ret_story);
}

static void test_an_overload_is_told_twice(void **state)
{
	weir_overload o = {0};
	weir_overload_story story;
	unsigned begins = 0, ends = 0;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(second(&o, 100, 0, &story), WEIR_OVERLOAD_NOTHING);
	for (unsigned i = 0; i < 60; i++)
		begins += second(&o, 400, 300, &story) == WEIR_OVERLOAD_BEGINS;
	assert_int_equal(begins, 1);
	for (unsigned i = 0; i < 30; i++) {
		weir_overload_news news = second(&o, 100, 0, &story);
		ends += news == WEIR_OVERLOAD_ENDS;
		if (news == WEIR_OVERLOAD_ENDS) {
			assert_int_equal(i, 9);
			assert_true(story.lasted_ns == 57 * WEIR_NS_PER_S);
			assert_int_equal(story.in_all.offered, 57 * 400 + 10 * 100);
			assert_int_equal(story.in_all.rejected, 57 * 300);
		}
	}
	assert_int_equal(ends, 1);
}

static void test_what_it_tells(void **state)
{
	weir_overload o = {0};
	weir_overload_story story = {0};
	second(&o, 0, 0, &story);
	second(&o, 400, 300, &story);
	second(&o, 400, 300, &story);
	assert_int_equal(second(&o, 400, 300, &story), WEIR_OVERLOAD_BEGINS);
	assert_true(story.offered_per_s == 400 && story.completed_per_s == 100 && story.rejected == .75);
}

/* A rejection now and then, or one bad second, is no overload; nor is a quiet second the end of one. */
static void test_small_things_are_not_told(void **state)
{
	weir_overload o = {0};
	weir_overload_story story;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(second(&o, 1000, i % 3 != 0 ? 300 : 0, &story), WEIR_OVERLOAD_NOTHING);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(second(&o, 1000, 40, &story), WEIR_OVERLOAD_NOTHING);
	while (second(&o, 1000, 500, &story) == WEIR_OVERLOAD_NOTHING)
		;
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(second(&o, 1000, i % 9 == 0 ? 500 : 0, &story), WEIR_OVERLOAD_NOTHING);
}

static void test_reasons(void **state)
{
	weir_stage_stats before = {0}, now = {0};
	now.by_verdict[WEIR_SHED_LATE] = 10;
	now.drops[WEIR_SHED_CANCELLED] = 100;
	now.shed = 10;
	now.dropped = 100;
	assert_int_equal(weir_overload_reason(&before, &now), WEIR_SHED_LATE);
	assert_int_equal(weir_overload_count(&now).rejected, 10);
	assert_int_equal(weir_overload_reason(&now, &now), WEIR_ADMITTED);
	for (unsigned i = 0; i < WEIR_VERDICT_COUNT; i++)
		assert_true(weir_overload_advice((weir_verdict)i)[0] != '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_overload_is_told_twice),
		cmocka_unit_test(test_what_it_tells),
		cmocka_unit_test(test_small_things_are_not_told),
		cmocka_unit_test(test_reasons),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
