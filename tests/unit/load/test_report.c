/* SPDX-License-Identifier: Apache-2.0 */
/* What `weir load` tells at the end: the exact text of small runs, JSON and CSV that can be read back, a plot that is well-formed, and errors of writing. */
#include "support/check.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "on_load.h"
#include "support/on_svg.h"

#define MS  UINT64_C(1000000)
#define BAR "########################################"

/* Two seconds, ten requests: six ok of which one is too slow, two shed, one cut, one that took too long. */
static void make(made_load *made)
{
	static const unsigned ok_ms[] = {10, 20, 30, 40, 50, 150};
	made_load_init(made, 1, 1, 2, 100 * MS);
	made->story.asked_rate = 5;
	for (unsigned i = 0; i < 10; i++)
		made_load_sent(made, 0, 0, i / 5, 0);
	for (unsigned i = 0; i < 6; i++)
		made_load_ended(made, 0, 0, i / 3, LOAD_OK, ok_ms[i] * MS, 200);
	made_load_ended(made, 0, 0, 1, LOAD_SHED, 1 * MS, 503);
	made_load_ended(made, 0, 0, 1, LOAD_SHED, 1 * MS, 429);
	made_load_ended(made, 0, 0, 1, LOAD_ERROR, 0, 0);
	made->tally.errors[LOAD_ERROR_CUT] = 1;
	made_load_ended(made, 0, 0, 1, LOAD_TIMEOUT, 0, 0);
	made->tally.connections = 3;
	made->tally.all.bytes = 3000000;
	made->story.client_cpu_s = 0.5;
}

typedef enum form { TEXT, COLOURED, JSON, CSV, SVG } form;

static int report(FILE *out, form as, const load_story *story)
{
	switch (as) {
	case TEXT:
	case COLOURED:
		return load_report_text(out, story, as == COLOURED);
	case JSON:
		return load_report_json(out, story);
	case CSV:
		return load_report_csv(out, story, 1);
	default:
		return load_report_svg(out, story, 1);
	}
}

static char *written(form as, const load_story *story)
{
	static char *text; /* static: gcc takes what it points to for a part of this function's frame */
	static size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report(out, as, story), 0);
	fclose(out);
	return text;
}

/* ---- text ---- */

static void the_text_of_a_small_run(void **state)
{
	made_load made;
	make(&made);
	char *text = written(TEXT, &made.story);
	assert_string_equal(text,
			    "weir load http://127.0.0.1:8080/\n"
			    "  open, Poisson, 10/s\n"
			    "  2.00s measured; 3 connections\n"
			    "\n"
			    "  asked           5.00/s\n"
			    "  sent            5.00/s   100.0% of what was asked for\n"
			    "  goodput         2.50/s   50.0% of what was sent, within 100ms\n"
			    "\n"
			    "  sent                10   100.0%\n"
			    "  ok                   6    60.0%\n"
			    "  good                 5    50.0%  ok, and within the target\n"
			    "  shed                 2    20.0%  503 or 429\n"
			    "  errors               1    10.0%\n"
			    "    connection cut before the end                  1\n"
			    "  timeouts             1    10.0%\n"
			    "  aborted              0     0.0%\n"
			    "  open                 0     0.0%\n"
			    "  late                 0     0.0%\n"
			    "  unsent               0     0.0%\n"
			    "\n"
			    "  status    200: 6  429: 1  503: 1\n"
			    "\n"
			    "                       mean      p50      p90      p99    p99.9      max\n"
			    "  response           50.0ms   30.1ms    149ms    149ms    149ms    150ms\n"
			    "  first byte         49.9ms   30.1ms    149ms    149ms    149ms    149ms\n"
			    "  shed answers       1.01ms   1.01ms   1.01ms   1.01ms   1.01ms   1.01ms\n"
			    "  delay of sends          0        0        0        0        0        0\n"
			    "\n"
			    "  to   12.5ms            1   16.7%  " BAR "\n"
			    "  to   15.7ms            0    0.0%\n"
			    "  to   19.6ms            0    0.0%\n"
			    "  to   24.6ms            1   16.7%  " BAR "\n"
			    "  to   30.8ms            1   16.7%  " BAR "\n"
			    "  to   38.7ms            0    0.0%\n"
			    "  to   48.5ms            1   16.7%  " BAR "\n"
			    "  to   60.7ms            1   16.7%  " BAR "\n"
			    "  to   76.1ms            0    0.0%\n"
			    "  to   95.5ms            0    0.0%\n"
			    "  to    120ms            0    0.0%\n"
			    "  to    150ms            1   16.7%  " BAR "\n"
			    "\n"
			    "  received 3 MB, 1.5 MB/s\n"
			    "  the generator used 500ms of processor time: 20.00 requests a second of it\n");
	free(text);
	made_load_fini(&made);
}

/* Every line that begins with !!! is one that nobody can miss: above the figures and below them, red where there is colour. */
static void it_says_loudly_that_the_generator_fell_behind(void **state)
{
	static const char loud[] =
		"!!! THE GENERATOR FELL BEHIND: it sent 13.3% of the requests late, by up to 40.0ms, and\n"
		"!!! skipped 3. This run measures the generator as much as the server: ask for a\n"
		"!!! lower rate, or give it more processors.\n";
	made_load made;
	make(&made);
	for (unsigned i = 0; i < 2; i++)
		made_load_sent(&made, 0, 0, 1, 40 * MS);
	made.tally.open = 2;
	made.tally.unsent = made.tally.missed = 3;
	made.tally.behind = 2;
	char *text = written(TEXT, &made.story), *coloured = written(COLOURED, &made.story);
	const char *first = strstr(text, loud);
	assert_non_null(first);
	assert_true(first < strstr(text, "  goodput"));
	assert_string_equal(text + strlen(text) - strlen(loud), loud);
	check_contains(text, "  late                 2    16.7%  by more than 1ms; by up to 40.0ms\n");
	check_contains(text, "  asked           7.50/s\n  sent            6.00/s   80.0% of what");
	check_contains(coloured, "\033[1;31m!!! THE");
	assert_null(strchr(text, '\033'));
	free(text);
	free(coloured);
	made_load_fini(&made);
}

/* Who waited for a connection is told of as loudly, and the blame is not the generator's. */
static void it_says_that_connections_were_too_few(void **state)
{
	static const char loud[] =
		"!!! NO CONNECTION WAS FREE in time: 13.3% of the requests were sent late, by up to 40.0ms.\n"
		"!!! Their response times include that. 3 were not sent. Requests arrived faster than\n"
		"!!! the server answers, or --connections is too low.\n";
	made_load made;
	make(&made);
	for (unsigned i = 0; i < 2; i++)
		made_load_sent(&made, 0, 0, 1, 40 * MS);
	made.tally.open = 2;
	made.tally.unsent = 3;
	char *text = written(TEXT, &made.story);
	assert_non_null(strstr(text, loud));
	assert_string_equal(text + strlen(text) - strlen(loud), loud);
	assert_null(strstr(text, "GENERATOR FELL"));
	free(text);
	made_load_fini(&made);
}

static void behind_is_more_than_one_in_a_hundred_by_the_generator(void **state)
{
	made_load made;
	made_load_init(&made, 1, 1, 1, UINT64_MAX);
	assert_false(load_fell_behind(&made.story));
	made.tally.all.sent = 1000;
	made.tally.all.late = made.tally.behind = 10;
	assert_false(load_fell_behind(&made.story));
	assert_false(load_ran_short(&made.story));
	made.tally.all.late = made.tally.behind = 11;
	assert_true(load_fell_behind(&made.story));
	assert_false(load_ran_short(&made.story));
	made.tally.behind = 0;
	assert_false(load_fell_behind(&made.story));
	assert_true(load_ran_short(&made.story));
	made.tally.all.late = 0;
	assert_false(load_ran_short(&made.story));
	made.tally.unsent = 1;
	assert_true(load_ran_short(&made.story));
	made.tally.missed = made.tally.unsent = 11;
	assert_true(load_fell_behind(&made.story));
	assert_false(load_ran_short(&made.story));
	/* Both at once. */
	made.tally.all.late = 200;
	made.tally.behind = 100;
	assert_true(load_fell_behind(&made.story) && load_ran_short(&made.story));
	made_load_fini(&made);
}

static void classes_and_paths_have_tables_where_there_are_several(void **state)
{
	static const char *const classes[] = {"gold", "bro\033[2Jnze"}, *const paths[20] = {"/a"};
	made_load made;
	made_load_init(&made, 2, 20, 1, 100 * MS);
	made.story.class_names = classes;
	made.story.path_names = paths;
	for (unsigned i = 0; i < 4; i++)
		made_load_sent(&made, i / 2, i, 0, 0);
	made_load_ended(&made, 0, 0, 0, LOAD_OK, 10 * MS, 200);
	made_load_ended(&made, 0, 1, 0, LOAD_OK, 20 * MS, 200);
	made_load_ended(&made, 1, 2, 0, LOAD_SHED, 1 * MS, 503);
	made_load_ended(&made, 1, 3, 0, LOAD_ABORTED, 0, 0);
	char *text = written(TEXT, &made.story);
	check_contains(text,
		       "  class                   sent/s    good/s   shed failed     p50     p90     p99\n"
		       "  gold                      2.00      2.00   0.0%   0.0%  10.1ms  20.0ms  20.0ms\n"
		       "  bro?[2Jnze                2.00      0.00  50.0%  50.0%       -       -       -\n");
	check_contains(text, "\n  /a                        1.00      1.00   0.0%   0.0%  10.0ms");
	check_contains(text, "\n  14                        0.00");
	assert_null(strstr(text, "\n  15     "));
	check_contains(text, "\n  and 5 more, which --json tells\n");
	free(text);
	made_load_fini(&made);
}

/* ---- JSON ---- */

static json_t *read_back(char *text)
{
	json_error_t error;
	json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (all == NULL)
		fail_msg("line %d: %s", error.line, error.text);
	free(text);
	return all;
}

static void expect_integer(const json_t *object, const char *name, json_int_t value)
{
	const json_t *member = json_object_get(object, name);
	if (!json_is_integer(member) || json_integer_value(member) != value)
		fail_msg("%s is %lld, not %lld", name, json_integer_value(member), value);
}

static void expect_number(const json_t *object, const char *name, double value)
{
	const json_t *member = json_object_get(object, name);
	if (!json_is_number(member) || fabs(json_number_value(member) - value) > 1e-6 * fabs(value))
		fail_msg("%s is %.9g, not %.9g", name, json_number_value(member), value);
}

static void expect_counts(const json_t *of, const int expected[8])
{
	static const char *const names[] = {"sent",   "ok",       "good",    "shed",
					    "errors", "timeouts", "aborted", "late"};
	for (unsigned i = 0; i < 8; i++)
		expect_integer(of, names[i], expected[i]);
}

static void json_has_all_figures_at_its_top(void **state)
{
	made_load made;
	make(&made);
	made_load_sent(&made, 0, 0, 1, 2 * MS);
	made_load_ended(&made, 0, 0, 1, LOAD_ABORTED, 0, 0);
	made.tally.behind = 1;
	json_t *all = read_back(written(JSON, &made.story));
	expect_counts(all, (const int[8]){11, 6, 5, 2, 1, 1, 1, 1});
	expect_number(all, "duration_s", 2);
	expect_number(all, "goodput_per_s", 2.5);
	const json_t *latency = json_object_get(all, "latency_ms");
	expect_number(latency, "mean", 50);
	expect_number(latency, "max", 150);
	/* The middle of the bucket that 30 ms is in: from 29,884,416 ns on, 2^19 wide. */
	expect_number(latency, "p50", 30.146559);
	assert_true(json_number_value(json_object_get(latency, "p99_9")) <= 150);
	expect_number(all, "target_ms", 100);
	expect_number(all, "asked_per_s", 5.5);
	expect_number(all, "client_cpu_s", .5);
	expect_number(all, "late_max_ms", 2);
	assert_true(json_is_true(json_object_get(all, "fell_behind")));
	assert_true(json_is_false(json_object_get(all, "interrupted")));
	assert_true(json_is_null(json_object_get(json_object_get(all, "connect_ms"), "p50")));
	expect_integer(json_object_get(all, "status"), "429", 1);
	assert_int_equal(json_object_size(json_object_get(all, "status")), 3);
	expect_integer(json_object_get(all, "error_reasons"), "cut", 1);
	expect_integer(json_object_get(all, "error_reasons"), "connect", 0);
	/* Six were ok, the last of them after 150 ms. */
	const json_t *steps = json_object_get(all, "latency_steps");
	json_int_t many = 0;
	for (size_t i = 0; i < json_array_size(steps); i++)
		many += json_integer_value(json_array_get(json_array_get(steps, i), 1));
	assert_int_equal(many, 6);
	const json_t *last = json_array_get(steps, json_array_size(steps) - 1);
	assert_true(json_number_value(json_array_get(last, 0)) >= 150);
	assert_true(json_array_size(json_object_get(all, "shed_steps")) > 0);
	json_decref(all);
	made_load_fini(&made);
}

/* The second second: three ok in 40, 50 and 150 ms; its percentiles are its own. It was half a second long. */
static void json_has_a_row_for_each_second(void **state)
{
	made_load made;
	make(&made);
	made.tally.second[1].open = 4;
	made.story.length_ns = 1500 * MS;
	json_t *all = read_back(written(JSON, &made.story));
	const json_t *series = json_object_get(all, "series"), *row = json_array_get(series, 1);
	assert_int_equal(json_array_size(series), 2);
	expect_counts(row, (const int[8]){5, 3, 2, 2, 1, 1, 0, 0});
	expect_integer(row, "open", 4);
	expect_number(json_array_get(series, 0), "t_s", 1);
	expect_number(row, "t_s", 1.5);
	expect_number(json_object_get(row, "latency_ms"), "mean", 80);
	expect_number(json_object_get(row, "latency_ms"), "max", 150);
	expect_number(json_object_get(row, "latency_ms"), "p50", 49.807359);
	json_decref(all);
	made_load_fini(&made);
}

static void json_has_the_same_for_each_class(void **state)
{
	static const char *const names[] = {"go\"ld\n", "bronze", "bronze", "not \xff UTF-8"};
	static const char *const urls[] = {"http://x/\xc3\x28", NULL};
	made_load made;
	made_load_init(&made, 4, 1, 1, 100 * MS);
	made.story.class_names = names;
	for (unsigned i = 0; i < 3; i++) {
		made_load_sent(&made, i > 0, 0, 0, 0);
		made_load_ended(&made, i > 0, 0, 0, LOAD_OK, (i + 1) * 60 * MS, 200);
	}
	load_spread_add(&made.tally.klass[1].first_byte, 32 * MS);
	load_spread_add(&made.tally.klass[1].connect, 2 * MS);
	for (unsigned i = 0; i < 2; i++) {
		made.story.url = urls[i];
		json_t *all = read_back(written(JSON, &made.story)),
		       *classes = json_object_get(all, "classes");
		assert_int_equal(json_object_size(classes), 4);
		expect_counts(json_object_get(classes, "go\"ld\n"), (const int[8]){1, 1, 1});
		const json_t *bronze = json_object_get(classes, "bronze");
		expect_counts(bronze, (const int[8]){2, 2});
		expect_number(json_object_get(bronze, "latency_ms"), "mean", 150);
		expect_number(bronze, "duration_s", 1);
		/* The middles of their buckets. */
		expect_number(json_object_get(bronze, "first_byte_ms"), "p50", 32.243711);
		expect_number(json_object_get(bronze, "connect_ms"), "max", 2.015231);
		assert_non_null(json_object_get(classes, "bronze (2)"));
		const json_t *none = json_object_get(classes, "not ? UTF-8");
		assert_true(json_is_null(json_object_get(json_object_get(none, "latency_ms"), "p50")));
		assert_true(json_is_null(json_object_get(json_object_get(none, "first_byte_ms"), "p50")));
		assert_int_equal(json_object_size(json_object_get(all, "paths")), 1);
		json_decref(all);
	}
	made_load_fini(&made);
}

/* Rows of all runs with their load, and one picture in which each begins at a mark of its own. */
static void several_runs_are_one_table_and_one_plot(void **state)
{
	made_load one, other;
	char *text, at[64];
	size_t size;
	make(&one);
	make(&other);
	one.story.load = .5;
	other.story.load = 2;
	one.story.capacity = other.story.capacity = 1000;
	const load_story stories[] = {one.story, other.story};
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(load_report_csv(out, stories, 2), 0);
	fclose(out);
	unsigned rows = 0;
	for (const char *c = text; *c != '\0'; c++)
		rows += *c == '\n';
	assert_int_equal(rows, 1 + one.tally.seconds + other.tally.seconds);
	assert_memory_equal(text, "load,t_s,sent,", 14);
	snprintf(at, sizeof(at), "\n0.5,%u,", one.tally.seconds);
	check_contains(text, at);
	snprintf(at, sizeof(at), "\n2,%u,", other.tally.seconds);
	check_contains(text, at);
	free(text);
	out = open_memstream(&text, &size);
	assert_int_equal(load_report_svg(out, stories, 2), 0);
	fclose(out);
	expect_well_formed(text);
	check_contains(text, "2 runs, at multiples of a capacity of 1000/s");
	check_contains(text, ">0.5x<");
	/* Half of the seconds are the first run's: in the middle of 716 from 64 on, and a little beside the mark. */
	check_contains(text, "x=\"425.0\"");
	check_contains(text, ">2x<");
	free(text);
	made_load_fini(&one);
	made_load_fini(&other);
}

static void several_runs_are_one_document(void **state)
{
	made_load one, other;
	char *text;
	size_t size;
	make(&one);
	make(&other);
	one.story.load = .5;
	other.story.load = 2;
	one.story.capacity = other.story.capacity = 1000;
	FILE *out = open_memstream(&text, &size);
	const load_runs runs = {.stories = (load_story[]){one.story, other.story},
				.count = 2,
				.capacity = one.story.capacity};
	assert_int_equal(load_report_json_runs(out, &runs), 0);
	fclose(out);
	json_t *all = read_back(text);
	expect_number(all, "capacity_per_s", 1000);
	assert_int_equal(json_array_size(json_object_get(all, "runs")), 2);
	expect_number(json_array_get(json_object_get(all, "runs"), 1), "load", 2);
	assert_true(json_is_null(json_object_get(all, "search")));
	assert_true(json_is_false(json_object_get(all, "interrupted")));
	json_decref(all);
	made_load_fini(&one);
	made_load_fini(&other);
}

/* The step that was cut short had the most, and counts for nothing. */
static void a_search_is_told_without_a_run(void **state)
{
	const load_search search = {.step = {{1, 50, 20, false}, {2, 0, 0, false}, {4, 900, 1, true}},
				    .steps = 3,
				    .interrupted = true};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(load_report_json_runs(out, &(load_runs){.search = &search, .interrupted = true}), 0);
	fclose(out);
	json_t *all = read_back(text), *told = json_object_get(all, "search");
	json_t *steps = json_object_get(told, "steps");
	assert_true(json_is_null(json_object_get(all, "capacity_per_s")));
	assert_true(json_is_true(json_object_get(all, "interrupted")));
	assert_int_equal(json_array_size(json_object_get(all, "runs")), 0);
	assert_int_equal(json_array_size(steps), 3);
	expect_number(told, "best_per_s", 50);
	expect_number(json_array_get(steps, 2), "users", 4);
	expect_number(json_array_get(steps, 1), "ok_per_s", 0);
	assert_true(json_is_null(json_object_get(json_array_get(steps, 1), "mean_ms")));
	assert_true(json_is_true(json_object_get(json_array_get(steps, 2), "interrupted")));
	assert_true(json_is_false(json_object_get(json_array_get(steps, 0), "interrupted")));
	json_decref(all);
}

/* ---- CSV and plot ---- */

static void csv_has_a_row_for_each_second(void **state)
{
	made_load made;
	made_load_init(&made, 1, 1, 2, 100 * MS);
	made.story.length_ns = 1500 * MS;
	made_load_sent(&made, 0, 0, 0, 0);
	made_load_sent(&made, 0, 0, 0, 3 * MS);
	made_load_ended(&made, 0, 0, 0, LOAD_OK, 20 * MS, 200);
	made_load_ended(&made, 0, 0, 1, LOAD_ABORTED, 0, 0);
	made.tally.second[0].open = 1;
	char *text = written(CSV, &made.story);
	assert_string_equal(text, "t_s,sent,ok,good,shed,errors,timeouts,aborted,late,open,mean_ms,p50_ms,"
				  "p90_ms,p99_ms,max_ms\n"
				  "1,2,1,1,0,0,0,0,1,1,20,20,20,20,20\n"
				  "1.5,0,0,0,0,0,0,1,0,0,,,,,\n");
	free(text);
	made_load_fini(&made);
}

/* The first point of the first path of this style. */
static void point_of(const char *svg, const char *style, double *ret_x, double *ret_y)
{
	char wanted[64];
	snprintf(wanted, sizeof(wanted), "<path class=\"%s\" d=\"M", style);
	const char *at = strstr(svg, wanted);
	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen(wanted), "%lf %lf", ret_x, ret_y), 2);
}

/* The panel of the rates is 716 wide from x 64 on and 140 high to y 246; its scale ends 5 % above 5/s. */
static void the_plot_has_its_points_where_they_belong(void **state)
{
	made_load made;
	double x = 0, y = 0;
	make(&made);
	made.story.url = "http://<x>&\"y\"/";
	char *svg = written(SVG, &made.story);
	expect_well_formed(svg);
	check_contains(svg, "http://&lt;x&gt;&amp;&quot;y&quot;/");
	check_contains(svg, ">target 100ms<");
	check_contains(svg, ">failed (errors, timeouts, aborted)<");
	point_of(svg, "s s0", &x, &y);
	assert_true(fabs(x - (64 + 716 / 4.0)) < .06 && fabs(y - (246 - 140 * 5 / 5.25)) < .06);
	point_of(svg, "s s2", &x, &y);
	assert_true(fabs(y - (246 - 140 * 3 / 5.25)) < .06);
	free(svg);
	made_load_fini(&made);
}

/* Five in half a second are ten a second, the top of the scale but for 5 %; of a hundredth one cannot say. */
static void the_last_second_may_be_a_part_of_one(void **state)
{
	made_load made;
	make(&made);
	made.story.length_ns = 1500 * MS;
	char *half = written(SVG, &made.story);
	made.story.length_ns = 1010 * MS;
	char *less = written(SVG, &made.story);
	check_contains(half, "M243.0 179.3L601.0 112.7");
	assert_null(strstr(less, "L601.0"));
	free(half);
	free(less);
	made_load_fini(&made);
}

/* ---- all of them ---- */

static void nothing_and_the_largest_numbers(void **state)
{
	made_load made;
	made_load_init(&made, 16, 64, 1, 0);
	made.story.length_ns = 0;
	made.tally.seconds = 0;
	for (form as = TEXT; as <= SVG; as++)
		free(written(as, &made.story));
	made.tally.seconds = 1;
	made.story.length_ns = made.story.planned_ns = UINT64_MAX - 1;
	made.story.asked_rate = made.story.load = made.story.capacity = made.story.client_cpu_s = INFINITY;
	made.story.url = made.story.arrivals = NULL;
	memset(&made.tally.all, 0x7f, sizeof(made.tally.all));
	memset(made.tally.klass, 0xff, 16 * sizeof(load_group));
	memset(made.tally.second[0].ended, 0xff, sizeof(made.tally.second[0].ended));
	made.tally.unsent = made.tally.open = made.tally.offered_late_ns_max = UINT64_MAX;
	made_load_spread(&made.tally.second[0], UINT64_MAX);
	for (form as = TEXT; as <= SVG; as++) {
		char *text = written(as, &made.story);
		if (as == JSON) {
			json_t *all = read_back(text);
			expect_integer(all, "sent", 0x7f7f7f7f7f7f7f7f);
			expect_integer(all, "unsent", INT64_MAX);
			json_decref(all);
			continue;
		}
		if (as == SVG)
			expect_well_formed(text);
		assert_null(strstr(text, "nan"));
		free(text);
	}
	made_load_fini(&made);
}

static void one_request_and_a_run_without_any(void **state)
{
	made_load made;
	made_load_init(&made, 1, 1, 1, UINT64_MAX);
	char *none = written(TEXT, &made.story);
	check_contains(none, "  nothing was answered with success\n");
	assert_null(strstr(none, "asked"));
	made_load_sent(&made, 0, 0, 0, 0);
	/* At the low end of its bucket, whose middle would be 1.23 ms: no percentile is more than the maximum. */
	made_load_ended(&made, 0, 0, 0, LOAD_OK, 1212417, 200);
	char *one = written(TEXT, &made.story), *svg = written(SVG, &made.story);
	check_contains(one, "  response           1.21ms   1.21ms   1.21ms   1.21ms   1.21ms   1.21ms\n");
	check_contains(one,
		       "\n  to   1.21ms            1  100.0%  ########################################\n");
	check_contains(one, "100.0% of what was sent (no target: all that is ok)\n");
	/* A single point is a dot: 0.5 of the way along, at 1/1.05 of the height. */
	check_contains(svg, "<circle class=\"s s0\" cx=\"422.0\" cy=\"112.7\" r=\"2.5\"/>");
	free(none);
	free(one);
	free(svg);
	made_load_fini(&made);
}

static void what_cannot_be_written_is_an_error(void **state)
{
	made_load made;
	make(&made);
	for (form as = TEXT; as <= SVG; as++) {
		FILE *full = fopen("/dev/full", "w");
		assert_non_null(full);
		assert_int_equal(report(full, as, &made.story), -EIO);
		check_contains(weir_error(), "cannot be written: No space left on device");
		fclose(full);
	}
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	for (unsigned nth = 1; nth <= 2; nth++) {
		weir_mem_fail_after(nth);
		assert_int_equal(load_report_svg(out, &made.story, 1), -ENOMEM);
	}
	weir_mem_fail_after(0);
	fclose(out);
	free(text);
	made_load_fini(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_text_of_a_small_run),
		CHECK_TEST(it_says_loudly_that_the_generator_fell_behind),
		CHECK_TEST(behind_is_more_than_one_in_a_hundred_by_the_generator),
		CHECK_TEST(it_says_that_connections_were_too_few),
		CHECK_TEST(classes_and_paths_have_tables_where_there_are_several),
		CHECK_TEST(json_has_all_figures_at_its_top),
		CHECK_TEST(json_has_a_row_for_each_second),
		CHECK_TEST(json_has_the_same_for_each_class),
		CHECK_TEST(several_runs_are_one_document),
		CHECK_TEST(a_search_is_told_without_a_run),
		CHECK_TEST(csv_has_a_row_for_each_second),
		CHECK_TEST(several_runs_are_one_table_and_one_plot),
		CHECK_TEST(the_plot_has_its_points_where_they_belong),
		CHECK_TEST(the_last_second_may_be_a_part_of_one),
		CHECK_TEST(nothing_and_the_largest_numbers),
		CHECK_TEST(one_request_and_a_run_without_any),
		CHECK_TEST(what_cannot_be_written_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
