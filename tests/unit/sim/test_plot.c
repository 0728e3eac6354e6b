/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs: a plot that is well-formed and has its points where they belong, a table of at most 100 columns, JSON that can be read back, CSV with a row a window. */
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/report.h"
#include "support/on_svg.h"

static const char text[] =
	"[scenario]\ntitle = <A> \"test\" & more \xe2\x80\x94\nduration = 10s\nwindow = 1s\n"
	"[stage web]\nservice = deterministic 100ms\np90 = 200ms\nlaw = bucket\nbucket.rate = "
	"5\nbucket.burst = 1\n"
	"[load crowd]\narrivals = constant\nrate = 4, 5s 20\n";

struct made {
	weir_scenario *scenario;
	weir_run *run[2];
	weir_case of;
};

static void make(struct made *made)
{
	memset(made, 0, sizeof *made);
	assert_int_equal(weir_scenario_parse("test.sim", text, strlen(text), &made->scenario), 0);
	assert_int_equal(weir_scenario_check(made->scenario), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(weir_run_new(made->scenario, 1 + i, "bucket", &made->run[i]), 0);
	made->of = (weir_case){.label = "bucket", .run = made->run, .runs = 1};
}

static void unmake(struct made *made)
{
	weir_run_free(&made->run[0]);
	weir_run_free(&made->run[1]);
	weir_scenario_free(&made->scenario);
}

typedef enum form { PLOT, TABLE, JSON, CSV } form;

static char *written(form as, const weir_case *cases, unsigned count)
{
	char *output;
	size_t size;
	FILE *to = open_memstream(&output, &size);
	if (as == PLOT)
		weir_plot(to, cases, count);
	else if (as == TABLE)
		weir_report_table(to, cases, count);
	else if (as == CSV)
		weir_report_csv(to, cases, count);
	else
		assert_int_equal(weir_report_json(to, cases, count), 0);
	fclose(to);
	return output;
}

static void the_plot_is_well_formed(void **state)
{
	struct made made;
	make(&made);
	char *one = written(PLOT, &made.of, 1);
	expect_well_formed(one);
	assert_non_null(strstr(one, "&lt;A&gt; &quot;test&quot; &amp; more"));
	assert_non_null(strstr(one, "target p90 = 200ms"));
	assert_non_null(strstr(one, ">offered<"));
	weir_case two[] = {made.of, {.label = "other", .run = made.run + 1, .runs = 1}};
	char *rows = written(PLOT, two, 2);
	expect_well_formed(rows);
	assert_non_null(strstr(rows, ">other<"));
	free(one);
	free(rows);
	unmake(&made);
}

/* The n-th path of a class, its first point. */
static void point_of(const char *svg, const char *style, unsigned n, double *ret_x, double *ret_y)
{
	char wanted[64];
	snprintf(wanted, sizeof wanted, "<path class=\"%s\" d=\"M", style);
	const char *at = svg;
	for (unsigned i = 0; i <= n; i++) {
		at = strstr(at, wanted);
		if (at == NULL) {
			fail_msg("there is no path %u of %s", n, style);
			return;
		}
		at += strlen(wanted);
	}
	assert_int_equal(sscanf(at, "%lf %lf", ret_x, ret_y), 2);
}

static void near(double value, double expected)
{
	if (fabs(value - expected) > 0.11)
		fail_msg("%g, not %g", value, expected);
}

/*
 * Ten windows of which the first is in the middle of the first tenth of 860 points. The rates panel is 135 high from y 297 on; its
 * scale ends 5 % above 20/s, so 4/s is 4/21 of it from the bottom, at 432.
 */
static void points_are_where_they_belong(void **state)
{
	struct made made;
	double x = 0, y = 0;
	make(&made);
	char *svg = written(PLOT, &made.of, 1);
	/* s0 is p50, then offered, then the fraction shed: of the first window none. */
	point_of(svg, "s s0", 1, &x, &y);
	near(x, 70 + 43);
	/* The first arrival is after a gap, so there are 3 in the first window and 4 in the next. */
	near(y, 432 - 135 * 3 / 21.0);
	point_of(svg, "s s0", 2, &x, &y);
	near(y, 502 + 135);
	/* The target, twice the service time of 100 ms, on a logarithmic scale from p50 / 1.3 to the target times 1.3. */
	point_of(svg, "target", 0, &x, &y);
	near(x, 70 + 43);
	double low = weir_record_at(made.run[0]->record, 0, 0)->p50_ms / 1.3;
	near(y, 92 + 135 * (1 - log(200 / low) / log(260 / low)));
	free(svg);
	unmake(&made);
}

static void no_line_of_a_table_is_wider_than_100(void **state)
{
	struct made made;
	make(&made);
	weir_case seeds = made.of;
	seeds.runs = 2;
	weir_case two[] = {seeds, {.label = "a-law-with-a-very-long-name", .run = made.run, .runs = 1}};
	const struct {
		const weir_case *cases;
		unsigned count;
		const char *has;
	} tables[] = {{&made.of, 1, "p90/target"}, {&seeds, 1, "worst"}, {two, 2, "a-law-with-a-ve"}};
	for (size_t i = 0; i < 3; i++) {
		char *table = written(TABLE, tables[i].cases, tables[i].count);
		assert_non_null(strstr(table, tables[i].has));
		for (char *line = strtok(table, "\n"); line != NULL; line = strtok(NULL, "\n"))
			if (strlen(line) > 100)
				fail_msg("%zu wide: %s", strlen(line), line);
		free(table);
	}
	unmake(&made);
}

static void json_can_be_read_back(void **state)
{
	struct made made;
	make(&made);
	made.of.runs = 2;
	char *output = written(JSON, &made.of, 1);
	json_t *all = json_loads(output, 0, NULL);
	assert_non_null(all);
	json_t *runs = json_object_get(all, "runs");
	assert_int_equal(json_array_size(runs), 2);
	json_t *run = json_array_get(runs, 0);
	/* 3 or 4 in each of the first five seconds, then 20: all are accounted for. */
	json_t *tally = json_object_get(run, "all");
	json_int_t offered = json_integer_value(json_object_get(tally, "offered"));
	assert_true(offered >= 118 && offered <= 121);
	json_int_t ends = json_integer_value(json_object_get(tally, "shed")) +
			  json_integer_value(json_object_get(tally, "dropped")) +
			  json_integer_value(json_object_get(tally, "completed")) +
			  json_integer_value(json_object_get(run, "inside_at_end"));
	assert_int_equal(ends, offered);
	assert_int_equal(json_array_size(json_object_get(run, "phases")), 2);
	json_t *mean = json_object_get(json_array_get(json_object_get(all, "summary"), 0), "mean");
	for (const weir_sim_metric *metric = weir_metrics; metric->name != NULL; metric++)
		assert_non_null(json_object_get(mean, metric->name));
	json_decref(all);
	free(output);
	unmake(&made);
}

static void csv_has_a_row_for_each_window(void **state)
{
	struct made made;
	make(&made);
	char *output = written(CSV, &made.of, 1);
	unsigned lines = 0, commas = 0;
	for (char *line = strtok(output, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
		unsigned here = 0;
		for (const char *at = line; *at != '\0'; at++)
			here += *at == ',';
		commas = lines == 0 ? here : commas;
		assert_int_equal(here, commas);
		if (lines == 2)
			assert_int_equal(strncmp(line, "bucket,1,2,4,4,4,4,0,", 21), 0);
	}
	assert_int_equal(lines, 11);
	free(output);
	unmake(&made);
}

/* The same again, to the byte. */
static void the_same_runs_give_the_same_bytes(void **state)
{
	struct made one, other;
	make(&one);
	make(&other);
	for (form as = PLOT; as <= CSV; as++) {
		char *a = written(as, &one.of, 1), *b = written(as, &other.of, 1);
		assert_string_equal(a, b);
		free(a);
		free(b);
	}
	unmake(&one);
	unmake(&other);
}

static void all_laws_are_listed(void **state)
{
	char *output;
	size_t size;
	FILE *to = open_memstream(&output, &size);
	weir_report_laws(to);
	fclose(to);
	const weir_admission_law *law;
	for (size_t i = 0; (law = weir_law_at(i)) != NULL; i++) {
		char line[64];
		snprintf(line, sizeof line, "\n%s\n", law->name);
		assert_non_null(strstr(output, line));
	}
	free(output);
}

/* Ten a second of twenty: in a dry run half of them would have been shed, and the table says that instead of none. */
static void a_dry_run_shows_what_would_have_been_shed(void **state)
{
	static const char dry[] = "[scenario]\nduration = 11s\nwarmup = 1s\n[stage web]\nworkers = 4\n"
				  "service = deterministic 1ms\nlaw = bucket\nbucket.rate = 10\nbucket.burst "
				  "= 1\nmode = dry-run\n"
				  "[load crowd]\narrivals = constant\nrate = 20\n";
	struct made made = {0};
	assert_int_equal(weir_scenario_parse("dry.sim", dry, strlen(dry), &made.scenario), 0);
	assert_int_equal(weir_scenario_check(made.scenario), 0);
	assert_int_equal(weir_run_new(made.scenario, 1, "bucket", &made.run[0]), 0);
	made.of = (weir_case){.label = "bucket", .run = made.run, .runs = 1};
	assert_true(fabs(made.run[0]->judgement.would - .5) < .01 && made.run[0]->judgement.shed == 0);
	weir_case two[] = {made.of, made.of};
	for (unsigned count = 1; count <= 2; count++) {
		char *table = written(TABLE, two, count);
		assert_non_null(strstr(table, " ~49.5%"));
		assert_non_null(strstr(table, "a dry run let them in"));
		free(table);
	}
	unmake(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(the_plot_is_well_formed),
		CHECK_TEST(points_are_where_they_belong),
		CHECK_TEST(no_line_of_a_table_is_wider_than_100),
		CHECK_TEST(json_can_be_read_back),
		CHECK_TEST(csv_has_a_row_for_each_window),
		CHECK_TEST(the_same_runs_give_the_same_bytes),
		CHECK_TEST(all_laws_are_listed),
		CHECK_TEST(a_dry_run_shows_what_would_have_been_shed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
