/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines by rows: what is read, what is said about mistakes, the help and the tables of the documentation. */
#include "keys/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "support/check.h"

typedef struct values {
	const char *file, *json;
	const char *const *words;
	uint32_t count;
	uint64_t time_ns;
	double pair[2];
	bool on, verbose;
	weir_key_arena memory;
} values;

/* "2,3". */
static int read_pair(const weir_key *key, const char *text, void *ret_field)
{
	double pair[2];
	if (sscanf(text, "%lf,%lf", &pair[0], &pair[1]) != 2)
		return weir_error_set(-EINVAL, "write a pair as 2,3");
	memcpy(ret_field, pair, sizeof(pair));
	return 0;
}

static const weir_key_form pair_form = {"pair", sizeof(double[2]), read_pair};

static const weir_key some_keys[] = {
	WEIR_KEY("f", PATH, values, file, NULL, "A file", .value = "FILE"),
	WEIR_KEY("count", COUNT, values, count, "7", "A count", .min = 1, .max = 100, .value = "N"),
	WEIR_KEY("time", TIME, values, time_ns, NULL, "A time", .value = "T"),
	WEIR_KEY("on", SWITCH, values, on, NULL, "A switch"),
	{0}};

static const weir_key more_keys[] = {
	WEIR_KEY("word", TEXTS, values, words, NULL, "Words. It may be repeated", .max = 3, .value = "A|B"),
	WEIR_KEY("json", TEXT, values, json, NULL, "A value that may be left out", .value = "[FILE.json]"),
	WEIR_KEY("pair", FORM, values, pair, NULL,
		 "A long text that is wrapped before column 100, so that it can be read in a terminal of "
		 "usual width",
		 .form = &pair_form, .value = "A,B"),
	WEIR_KEY("verbose", SWITCH, values, verbose, NULL, "Another switch"),
	{0}};

static const weir_options table = {
	.program = "weir try",
	.about = "usage: weir try [OPTION...] WHERE\n",
	.groups = (const weir_option_group[]){{"Some", some_keys}, {"More", more_keys}, {NULL, NULL}},
	.more = "That is all.\n",
};

#define MOST 12

/* Reads a command line, and keeps what was said on stderr. */
static char said[600];

static int read_words(values *v, const char **ret_argument, const char *const *words)
{
	char *argv[MOST + 1] = {(char *)"try"};
	int argc = 1;
	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = (char *)words[argc - 1];
	memset(v, 0, sizeof(*v));
	weir_key_memory memory = weir_key_arena_memory(&v->memory);
	FILE *file = tmpfile();
	int error = dup(2);
	assert_true(file != NULL && error >= 0);
	dup2(fileno(file), 2);
	int status = weir_options_read(&table, v, &memory, argc, argv, ret_argument);
	fflush(stderr);
	dup2(error, 2);
	close(error);
	rewind(file);
	said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
	fclose(file);
	return status;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_are_read(void **state)
{
	values v;
	const char *where = NULL;
	assert_int_equal(read_words(&v, &where,
				    WORDS("--count=9", "-f", "x", "--on", "here", "--time", "0", "--word",
					  "a", "--word=b", "--pair", "2,3")),
			 WEIR_EXIT_OK);
	assert_string_equal(said, "");
	assert_string_equal(where, "here");
	assert_string_equal(v.file, "x");
	assert_int_equal(v.count, 9);
	assert_int_equal(v.time_ns, 0);
	assert_true(v.on && !v.verbose);
	assert_string_equal(v.words[0], "a");
	assert_string_equal(v.words[1], "b");
	assert_null(v.words[2]);
	assert_true(v.pair[0] == 2 && v.pair[1] == 3);
	weir_key_arena_free(&v.memory);
}

static void without_options_there_are_defaults(void **state)
{
	values v;
	const char *where = "before";
	assert_int_equal(read_words(&v, &where, (const char *const[]){NULL}), WEIR_EXIT_OK);
	assert_null(where);
	assert_int_equal(v.count, 7);
	assert_true(v.words == NULL && v.json == NULL && !v.on);
	/* After two dashes nothing is an option. One dash alone is none. */
	assert_int_equal(read_words(&v, &where, WORDS("--", "--on")), WEIR_EXIT_OK);
	assert_string_equal(where, "--on");
	assert_int_equal(read_words(&v, &where, WORDS("-")), WEIR_EXIT_OK);
	assert_string_equal(where, "-");
}

static void a_value_may_be_left_out(void **state)
{
	static const struct {
		const char *const words[4];
		const char *json, *where;
	} cases[] = {{{"--json"}, "", NULL},
		     {{"--json", "x"}, "", "x"},
		     {{"--json", "x.json"}, "x.json", NULL},
		     {{"--json=x"}, "x", NULL},
		     {{"--json", "http://h/x.json"}, "", "http://h/x.json"},
		     {{"--json", ".json"}, "", ".json"},
		     {{"--json", "--on"}, "", NULL}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		values v;
		const char *where;
		assert_int_equal(read_words(&v, &where, cases[i].words), WEIR_EXIT_OK);
		assert_string_equal(v.json, cases[i].json);
		assert_true((where == NULL) == (cases[i].where == NULL));
		if (where != NULL)
			assert_string_equal(where, cases[i].where);
		weir_key_arena_free(&v.memory);
	}
}

static void mistakes_are_told(void **state)
{
	static const struct {
		const char *const words[6];
		const char *says;
	} cases[] = {
		{{"--count", "0"}, "weir try: --count: '0': must be from 1 to 100; see 'weir try --help'\n"},
		{{"--count", "many"},
		 "weir try: --count: 'many': write a whole number, as 12; see 'weir try --help'\n"},
		{{"--time=5"}, "the unit is missing"},
		{{"--pair", "2"}, "weir try: --pair: write a pair as 2,3; see"},
		{{"--count"}, "weir try: --count: its value is missing; see"},
		{{"-f"}, "weir try: -f: its value is missing; see"},
		{{"--on=yes"}, "weir try: --on: it takes no value; see"},
		{{"--cuont", "5"}, "weir try: unexpected argument '--cuont'; did you mean '--count'?\n"},
		{{"--coun=5"}, "unexpected argument '--coun=5'; did you mean '--count'?\n"},
		{{"--nothing"}, "unexpected argument '--nothing'; see 'weir try --help'\n"},
		{{"-x"}, "unexpected argument '-x'; see"},
		{{"a", "b"}, "unexpected argument 'b'; see"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		values v;
		const char *where = "untouched";
		assert_int_equal(read_words(&v, &where, cases[i].words), WEIR_EXIT_USAGE);
		check_contains(said, cases[i].says);
		assert_string_equal(where, "untouched");
		weir_key_arena_free(&v.memory);
	}
	values v;
	assert_int_equal(read_words(&v, NULL, WORDS("a")), WEIR_EXIT_USAGE);
	assert_int_equal(read_words(&v, NULL, WORDS("--")), WEIR_EXIT_USAGE);
	assert_int_equal(read_words(&v, NULL, WORDS("--word=a", "--word=b", "--word=c", "--word=d")),
			 WEIR_EXIT_USAGE);
	check_contains(said, "--word: more than 3 values");
	weir_key_arena_free(&v.memory);
}

static void the_help_is_made_of_the_rows(void **state)
{
	char text[2000] = "";
	FILE *file = fmemopen(text, sizeof(text), "w");
	assert_non_null(file);
	weir_options_usage(&table, file);
	fclose(file);
	assert_string_equal(
		text,
		"usage: weir try [OPTION...] WHERE\n"
		"\n"
		"Some:\n"
		"  -f FILE             A file\n"
		"  --count N           A count (7)\n"
		"  --time T            A time\n"
		"  --on                A switch\n"
		"\n"
		"More:\n"
		"  --word A|B          Words. It may be repeated\n"
		"  --json [FILE.json]  A value that may be left out\n"
		"  --pair A,B          A long text that is wrapped before column 100, so that it can be "
		"read in a\n"
		"                      terminal of usual width\n"
		"  --verbose           Another switch\n"
		"\n"
		"That is all.\n");
}

static void the_tables_are_made_of_the_rows(void **state)
{
	char text[2000] = "";
	FILE *file = fmemopen(text, sizeof(text), "w");
	assert_non_null(file);
	weir_options_markdown(&table, file);
	fclose(file);
	check_contains(text, "### Some\n\n| option | value | default | bounds | |\n|---|---|---|---|---|\n"
			     "| `-f FILE` | file |  |  | A file |\n"
			     "| `--count N` | number | `7` | 1 to 100 | A count |\n");
	check_contains(text, "| `--on` | flag |  |  | A switch |\n\n### More\n");
	check_contains(text, "| `--word A\\|B` | list of texts |  | 0 to 3 | Words. It may be repeated |\n");
	check_contains(text, "| `--pair A,B` | pair |");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(options_are_read),
		CHECK_TEST(without_options_there_are_defaults),
		CHECK_TEST(a_value_may_be_left_out),
		CHECK_TEST(mistakes_are_told),
		CHECK_TEST(the_help_is_made_of_the_rows),
		CHECK_TEST(the_tables_are_made_of_the_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
