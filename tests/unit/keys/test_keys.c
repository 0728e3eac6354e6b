/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: values of each type, what is said about wrong ones, lists, paths, comparing, copying, explaining. */
#include "keys/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/unit.h"

typedef struct values {
	const char *text, *path, *output;
	const char *const *texts, *const *paths;
	bool on;
	uint32_t count, size32;
	unsigned choice;
	uint64_t size, time_ns;
	double number, fraction, rate, percentile;
} values;

static const char *const words[] = {"red", "green", "blue", NULL};

static const weir_key rows[] = {
	WEIR_KEY("text", TEXT, values, text, NULL, "a text"),
	WEIR_KEY("path", PATH, values, path, NULL, "a file"),
	WEIR_KEY("output", OUTPUT, values, output, "-", "a log"),
	WEIR_KEY("texts", TEXTS, values, texts, NULL, "several"),
	WEIR_KEY("paths", PATHS, values, paths, NULL, "files"),
	WEIR_KEY("on", SWITCH, values, on, "off", "a switch"),
	WEIR_KEY("count", COUNT, values, count, "7", "a count", .min = 1, .max = 100),
	WEIR_KEY("size32", SIZE32, values, size32, NULL, "a small size", .min = 1, .max = 1 << 20),
	WEIR_KEY("choice", CHOICE, values, choice, "red", "a colour", .words = words),
	WEIR_KEY("size", SIZE, values, size, NULL, "a size"),
	WEIR_KEY("time", TIME, values, time_ns, NULL, "a time", .min = 1e6, .max = 1e9),
	WEIR_KEY("number", NUMBER, values, number, NULL, "a number"),
	WEIR_KEY("fraction", FRACTION, values, fraction, NULL, "a part", .max = 1),
	WEIR_KEY("rate", RATE, values, rate, NULL, "a rate", .min = .1, .max = 1000),
	WEIR_KEY("percentile", PERCENTILE, values, percentile, NULL, "one", .min = .5, .max = .999),
	{0}};

/* Memory that the test gives back at its end. */
static void *taken[256];
static size_t taken_count;
static bool short_of_memory;

static void *take(void *arg, size_t bytes)
{
	if (short_of_memory)
		return NULL;
	assert_true(taken_count < sizeof(taken) / sizeof(taken[0]));
	return taken[taken_count++] = calloc(1, bytes);
}

static const weir_key_memory memory = {.alloc = take};

static int give_back(void **state)
{
	while (taken_count > 0)
		free(taken[--taken_count]);
	short_of_memory = false;
	return 0;
}

static int set(values *v, const char *name, const char *text, bool first)
{
	const weir_key *key = weir_keys_find(rows, name);
	assert_non_null(key);
	return weir_key_set(key, v, text, "/etc/weir/weir.conf", first, &memory);
}

static void test_each_type(void **state)
{
	values v = {0};
	static const char *const good[][2] = {
		{"text", "a b"},      {"path", "x.pem"},  {"output", "/var/log/x"}, {"on", "yes"},
		{"count", "12"},      {"size32", "64KB"}, {"choice", "blue"},       {"size", "1.5MB"},
		{"time", "200ms"},    {"number", "-2.5"}, {"fraction", "25%"},      {"rate", "60/m"},
		{"percentile", "p99"}};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(set(&v, good[i][0], good[i][1], true), 0);
	assert_string_equal(v.text, "a b");
	assert_string_equal(v.path, "/etc/weir/x.pem");
	assert_string_equal(v.output, "/var/log/x");
	assert_true(v.on && v.count == 12 && v.size32 == 65536 && v.choice == 2);
	assert_true(v.size == 3 << 19 && v.time_ns == 200 * WEIR_NS_PER_MS);
	assert_true(v.number == -2.5 && v.fraction == .25 && v.rate == 1 && v.percentile == .99);
	assert_int_equal(set(&v, "output", "off", true), 0);
	assert_null(v.output);
	assert_int_equal(set(&v, "output", "-", true), 0);
	assert_string_equal(v.output, "-");
}

/* What is wrong is said with what is accepted, and the value stays. */
static void test_wrong_values(void **state)
{
	static const char *const bad[][3] = {{"count", "101", "'101': must be from 1 to 100"},
					     {"count", "x", "'x': write a whole number, as 12"},
					     {"time", "2s", "'2s': must be from 0.001s to 1s"},
					     {"size32", "2MB", "'2MB': must be from 1B to 1MB"},
					     {"choice", "gren", "'gren': write red, green or blue"},
					     {"fraction", "101%", "'101%': must be from 0% to 100%"},
					     {"rate", NULL, "'': write a rate as 100/s, 600/m or 1000/h"},
					     {"rate", "5", "'5': write a rate as 100/s, 600/m or 1000/h"},
					     {"rate", "1001/s", "'1001/s': must be from 0.1/s to 1000/s"},
					     {"percentile", "p49", "'p49': must be from p50 to p99.9"},
					     {"on", "maybe", "'maybe': write on or off"}};
	values v = {.count = 3, .time_ns = 4, .choice = 1}, before = v;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(set(&v, bad[i][0], bad[i][1], true), -EINVAL);
		assert_string_equal(weir_error(), bad[i][2]);
	}
	assert_memory_equal(&v, &before, sizeof(v));
	assert_null(weir_keys_find(rows, "nothing"));
}

static void test_lists(void **state)
{
	values v = {0};
	assert_int_equal(set(&v, "texts", "a", true), 0);
	assert_int_equal(set(&v, "texts", "b", false), 0);
	assert_string_equal(v.texts[1], "b");
	assert_null(v.texts[2]);
	assert_int_equal(set(&v, "texts", "c", true), 0);
	assert_string_equal(v.texts[0], "c");
	assert_null(v.texts[1]);
	assert_int_equal(set(&v, "paths", "sub/x", true), 0);
	assert_string_equal(v.paths[0], "/etc/weir/sub/x");
	assert_int_equal(set(&v, "paths", "/abs", false), 0);
	assert_string_equal(v.paths[1], "/abs");
}

/* Without memory nothing breaks; who gave it knows that there was none. */
static void test_no_memory(void **state)
{
	values v = {0};
	short_of_memory = true;
	assert_int_equal(set(&v, "text", "a", true), 0);
	assert_int_equal(set(&v, "texts", "a", true), 0);
	assert_null(v.text);
	assert_null(v.texts);
}

static void test_same_copy_and_hash(void **state)
{
	values a = {0}, b = {0};
	for (const weir_key *key = rows; key->name != NULL; key++) {
		static const char *const some[] = {"t",     "p",   "o",   "l", "q",   "on",  "9",  "5KB",
						   "green", "7KB", "5ms", "1", "10%", "5/s", "p90"};
		assert_true(weir_key_same(key, &a, &b));
		uint64_t empty = weir_key_hash(key, &a, WEIR_KEY_HASH);
		assert_int_equal(weir_key_set(key, &a, some[key - rows], NULL, true, &memory), 0);
		assert_false(weir_key_same(key, &a, &b));
		assert_true(weir_key_hash(key, &a, WEIR_KEY_HASH) != empty);
		weir_key_copy(key, &b, &a, &memory);
		assert_true(weir_key_same(key, &a, &b));
		assert_true(weir_key_hash(key, &a, 1) == weir_key_hash(key, &b, 1));
	}
	assert_true(a.text != b.text && a.texts != b.texts);
}

static void test_explaining(void **state)
{
	char text[1024] = "", printed[32];
	uint64_t ns = 1500000;
	FILE *file = fmemopen(text, sizeof(text), "w");
	assert_non_null(file);
	weir_key_explain(weir_keys_find(rows, "count"), file);
	weir_key_markdown(weir_keys_find(rows, "choice"), file);
	fclose(file);
	assert_string_equal(text, "  count                a count\n"
				  "                       (number, 1 to 100; default 7)\n"
				  "| `choice` | one of red, green, blue | `red` |  | a colour |\n");
	assert_string_equal(weir_key_print(weir_keys_find(rows, "time"), &ns, printed, sizeof(printed)),
			    "1.5ms");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_each_type, give_back),
		cmocka_unit_test_teardown(test_wrong_values, give_back),
		cmocka_unit_test_teardown(test_lists, give_back),
		cmocka_unit_test_teardown(test_no_memory, give_back),
		cmocka_unit_test_teardown(test_same_copy_and_hash, give_back),
		cmocka_unit_test_teardown(test_explaining, give_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
