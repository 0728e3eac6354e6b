/* SPDX-License-Identifier: Apache-2.0 */
#include "support/unit.h"
#include "support/worlds.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "admin/history.h"

enum { STAGES = 70 };

typedef struct hour {
	weir_world *world;
	weir_snapshot snapshot;
	weir_stage_view views[STAGES];
	weir_history history;
} hour;

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
}

/* Stages that were offered something; nothing runs. */
static void set_up(hour *at)
{
	memset(at, 0, sizeof(*at));
	at->world = world_virtual(1);
	weir_domain *domain = domain_reactor(at->world, "d", 1);
	for (unsigned i = 0; i < STAGES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "stage %u", i);
		weir_stage_options options = {.name = name, .handle = handle, .drop = drop, .capacity = 1};
		must(weir_stage_new(domain, &options, &at->views[i].stage));
		at->views[i].all.stats.offered = 1;
	}
	at->snapshot = (weir_snapshot){.world = at->world, .stages = at->views, .stage_count = STAGES};
}

static void tear_down(hour *at)
{
	weir_history_fini(&at->history);
	weir_world_free(&at->world);
}

/* A second in which so many were admitted, in p90 ms. */
static void second(hour *at, double admitted, uint64_t p90_ms)
{
	at->snapshot.taken_ns += WEIR_NS_PER_S;
	for (unsigned i = 0; i < STAGES; i++) {
		at->views[i].all.rate.admitted = admitted;
		at->views[i].all.recent.count = p90_ms > 0;
		at->views[i].all.recent.p90_ns = p90_ms * WEIR_NS_PER_MS;
	}
	weir_history_take(&at->history, &at->snapshot);
}

static json_t *printed(const hour *at)
{
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);
	weir_history_print(&at->history, at->snapshot.taken_ns, 1e9, to);
	fclose(to);
	assert_true(length < 4u << 20); /* what the admin may send */
	json_t *all = json_loads(text, 0, NULL);
	assert_non_null(all);
	free(text);
	return all;
}

static double number(json_t *stage, const char *list, size_t at)
{
	json_t *value = json_array_get(json_object_get(stage, list), at);
	assert_non_null(value);
	return json_is_null(value) ? -1 : json_number_value(value);
}

static void test_an_hour_is_kept(void **state)
{
	static hour at;
	set_up(&at);
	for (unsigned i = 0; i < 5003; i++)
		second(&at, i % 10, i < 10 ? 0 : i);
	json_t *all = printed(&at), *times = json_object_get(all, "times");
	size_t count = json_array_size(times);
	assert_int_equal(count, WEIR_HISTORY_TENS - 30 + WEIR_HISTORY_SECONDS);
	for (size_t i = 1; i < count; i++) {
		double step = json_number_value(json_array_get(times, i)) -
			      json_number_value(json_array_get(times, i - 1));
		/* The first second that is kept lies within a ten whose other seconds are not. */
		double least = i < 330 ? 9.9 : .9, most = i <= 330 ? 10.1 : 1.1;
		assert_true(step > least && step < most);
	}
	assert_true(json_number_value(json_array_get(times, count - 1)) == 1e9);
	json_t *stages = json_object_get(all, "stages");
	assert_int_equal(json_array_size(stages), WEIR_HISTORY_STAGES);
	json_t *stage = json_array_get(stages, WEIR_HISTORY_STAGES - 1);
	assert_string_equal(json_string_value(json_object_get(stage, "name")), "stage 63");
	assert_true(number(stage, "admitted", 0) == 4.5); /* the mean of a ten */
	assert_true(number(stage, "p90_ms", count - 1) == 5002);
	assert_true(number(stage, "admitted", count - 1) == 2);
	const char *key;
	json_t *list;
	json_object_foreach(stage, key, list) if (strcmp(key, "name") != 0)
		assert_int_equal(json_array_size(list), count);
	json_decref(all);
	tear_down(&at);
}

/* Unknown values, and stages that go and come back, are gaps. */
static void test_gaps(void **state)
{
	static hour at;
	set_up(&at);
	second(&at, 1, 0);
	at.snapshot.stage_count = 1;
	second(&at, 2, 7);
	at.snapshot.stage_count = STAGES;
	second(&at, 3, 8);
	json_t *all = printed(&at), *stages = json_object_get(all, "stages");
	assert_true(number(json_array_get(stages, 0), "p90_ms", 0) == -1);
	assert_true(number(json_array_get(stages, 0), "p90_ms", 1) == 7);
	assert_true(number(json_array_get(stages, 0), "target_ms", 1) == -1);
	assert_true(number(json_array_get(stages, 1), "admitted", 0) == 1);
	assert_true(number(json_array_get(stages, 1), "admitted", 1) == -1);
	assert_true(number(json_array_get(stages, 1), "admitted", 2) == 3);
	json_decref(all);
	at.snapshot.stage_count = 1; /* the other is gone for good: its tens are gaps, too */
	for (unsigned i = 0; i < 700; i++)
		second(&at, 5, 9);
	all = printed(&at);
	assert_true(number(json_array_get(json_object_get(all, "stages"), 1), "admitted", 5) == -1);
	assert_true(number(json_array_get(json_object_get(all, "stages"), 0), "admitted", 5) == 5);
	json_decref(all);
	tear_down(&at);
}

static void test_nothing_yet(void **state)
{
	static hour at;
	set_up(&at);
	json_t *all = printed(&at);
	assert_int_equal(json_array_size(json_object_get(all, "times")), 0);
	json_decref(all);
	tear_down(&at);
}

static char *saved(hour *at)
{
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);
	weir_history_save(&at->history, to);
	fclose(to);
	assert_null(strchr(text, '\n'));
	return text;
}

static bool loads(hour *at, const char *text)
{
	return weir_history_load(&at->history, text, at->snapshot.taken_ns);
}

/* The successor shows what its predecessor would have shown, and goes on as that would have. */
static void test_a_successor_goes_on(void **state)
{
	static const unsigned ages[] = {0, 1, 7, 10, 299, 304, 3605, 5003};
	static hour at;
	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		set_up(&at);
		for (unsigned s = 0; s < ages[i]; s++)
			second(&at, s % 10, s % 3);
		json_t *before = printed(&at);
		char *text = saved(&at);
		assert_true(loads(&at, text));
		free(text);
		json_t *after = printed(&at);
		assert_true(json_equal(before, after) == 1);
		json_decref(before);
		json_decref(after);
		for (unsigned s = ages[i]; s < ages[i] + 20; s++)
			second(&at, s % 10, s % 3);
		after = printed(&at);
		size_t count = json_array_size(json_object_get(after, "times"));
		assert_true(count >= 20 && count <= WEIR_HISTORY_TENS + WEIR_HISTORY_SECONDS);
		assert_int_equal(json_array_size(json_object_get(after, "stages")), WEIR_HISTORY_STAGES);
		json_decref(after);
		tear_down(&at);
	}
}

/* A stage that is long gone does not take a place in the successor. */
static void test_what_is_gone_is_left_out(void **state)
{
	static hour at;
	set_up(&at);
	second(&at, 1, 1);
	at.snapshot.stage_count = 2;
	for (unsigned i = 0; i < 4000; i++)
		second(&at, 1, 1);
	char *text = saved(&at);
	assert_true(loads(&at, text));
	assert_int_equal(at.history.stages, 2);
	free(text);
	tear_down(&at);
}

/* Another version, another clock, or a text that was cut anywhere: all of it is ignored. */
static void test_what_is_not_valid_is_ignored(void **state)
{
	static const char *const bad[] = {"",
					  "2 9 0",
					  "1 8 0",
					  "1 9",
					  "1 9 x",
					  "1 9 1",
					  "1 9 1 99999999999999999999",
					  "1 9 1 9000000000000",
					  "1 9 0 5 stage",
					  "1 9 1 1 3 abc 1 1 1 1 1 1 1 1 inf",
					  "1 9 1 1 99 abc 1 1 1 1 1 1 1 1 1",
					  "1 9 0  ",
					  "1 9 -1",
					  "1 9 1 1 3 abc 1"};
	static hour at;
	set_up(&at);
	at.snapshot.stage_count = 2;
	for (unsigned i = 0; i < 12; i++)
		second(&at, 1, 1);
	char *text = saved(&at);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(loads(&at, bad[i]));
		assert_true(at.history.stages == 0 && at.history.seconds == 0);
	}
	for (size_t length = strlen(text) - 2; length > 0; length--) {
		char *cut = strndup(text, length);
		/* Only where a stage ends it is a whole text: of one stage, or of none. */
		assert_true(!loads(&at, cut) || at.history.stages < 2);
		free(cut);
	}
	free(text);
	tear_down(&at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_hour_is_kept),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_nothing_yet),
		cmocka_unit_test(test_a_successor_goes_on),
		cmocka_unit_test(test_what_is_gone_is_left_out),
		cmocka_unit_test(test_what_is_not_valid_is_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
