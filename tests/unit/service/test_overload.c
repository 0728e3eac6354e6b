/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"

#include <string.h>

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
	now.spared[WEIR_SHED_FULL] = 1000;
	assert_int_equal(weir_overload_reason(&before, &now), WEIR_SHED_FULL);
	assert_int_equal(weir_overload_count(&now).spared, 1000);
}

/* ---- the sentence ---- */

#define WALL_S 1793538150 /* 2026-11-01 13:02:30 UTC */

static const char *sentence(const weir_overload *o, weir_verdict why, const weir_report *unreachable)
{
	static char text[WEIR_OVERLOAD_TEXT];
	weir_overload_view view;
	weir_overload_see(o, "app", why, unreachable, &view);
	weir_overload_print(&view, WALL_S, text, sizeof(text));
	return text;
}

static void test_the_sentence_of_an_overload(void **state)
{
	weir_overload o = {0};
	weir_overload_story story;
	second(&o, 0, 0, &story);
	assert_string_equal(sentence(&o, WEIR_ADMITTED, NULL),
			    "all is well: 0.0/s answered, none turned away");
	for (unsigned i = 0; i < 63; i++)
		second(&o, 3800, 3420, &story);
	assert_string_equal(
		sentence(&o, WEIR_SHED_LATE, NULL),
		"app: overloaded since 13:01 UTC: capacity about 380/s, 90 % of 3800/s turned away "
		"(predicted-late); add capacity, or allow more time");
	assert_non_null(strstr(sentence(&o, WEIR_SHED_RATE, NULL), "(rate); a limit of the configuration"));
	assert_non_null(
		strstr(sentence(&o, WEIR_SHED_LATE, &(weir_report){0}), "; the target cannot be met"));
	for (unsigned i = 0; i < 60; i++)
		second(&o, 100, 0, &story);
	assert_string_equal(
		sentence(&o, WEIR_SHED_LATE, NULL),
		"all is well: 100/s answered, none turned away; the last overload ended at 13:01 UTC "
		"after 60 s");
	assert_string_equal(sentence(&o, WEIR_SHED_LATE, &(weir_report){0}),
			    "app: the target cannot be met, even with nothing waiting: allow more time");
	assert_string_equal(sentence(&o, WEIR_SHED_LATE, &(weir_report){.alone_ns = 340 * WEIR_NS_PER_MS}),
			    "app: the target cannot be met, even with nothing waiting: needs about 340 ms");
	assert_non_null(strstr(sentence(&o, WEIR_SHED_LATE, &(weir_report){.alone_ns = 1234567890}),
			       "needs about 1.23 s"));
	for (unsigned i = 0; i < 60; i++)
		second(&o, 100, 2, &story);
	assert_non_null(strstr(sentence(&o, WEIR_SHED_LATE, NULL), "98/s answered, 2.0 % turned away"));
}

/* In a dry run nobody is turned away, and the counts say who would have been. */
static void test_the_sentence_of_a_dry_run(void **state)
{
	weir_overload o = {0};
	weir_overload_story story;
	second(&o, 100, 0, &story);
	for (unsigned i = 0; i < 60; i++) {
		counts.spared += 50;
		second(&o, 100, 0, &story);
	}
	assert_string_equal(
		sentence(&o, WEIR_SHED_LATE, NULL),
		"app: dry run: would turn away 50 % of 100/s since 13:01 UTC (predicted-late), and lets "
		"all in; capacity about 100/s; add capacity, or allow more time");
	assert_null(strstr(sentence(&o, WEIR_SHED_LATE, &(weir_report){0}), "cannot be met"));
}

static void test_the_sentence_of_failures(void **state)
{
	weir_overload o = {0};
	weir_overload_story story;
	second(&o, 100, 0, &story);
	for (unsigned i = 0; i < 60; i++) {
		counts.failed += 30;
		second(&o, 100, 0, &story);
	}
	assert_string_equal(
		sentence(&o, WEIR_ADMITTED, NULL),
		"app: failing since 13:01 UTC: 30 % of 100/s end in an error; look at its servers and the "
		"error log");
	for (unsigned i = 0; i < 10; i++)
		second(&o, 100, 0, &story);
	assert_non_null(strstr(sentence(&o, WEIR_ADMITTED, NULL), "all is well"));
}

/* Whatever the numbers are, the sentence ends in its room. */
static void test_a_small_room(void **state)
{
	char name[200], text[40];
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int s = WEIR_OVERLOAD_WELL; s <= WEIR_OVERLOAD_REJECTING; s++) {
		weir_overload_view view = {.stage = name,
					   .state = (weir_overload_state)s,
					   .rate = {1e300, 1e300, 1e300, 1e300, 1e300},
					   .now_ns = 200000 * WEIR_NS_PER_S};
		weir_overload_print(&view, WALL_S, text, sizeof(text));
		assert_true(strlen(text) < sizeof(text) && text[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_overload_is_told_twice),
		cmocka_unit_test(test_what_it_tells),
		cmocka_unit_test(test_small_things_are_not_told),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_the_sentence_of_an_overload),
		cmocka_unit_test(test_the_sentence_of_a_dry_run),
		cmocka_unit_test(test_the_sentence_of_failures),
		cmocka_unit_test(test_a_small_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
