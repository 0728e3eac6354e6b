/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plot: a row for each case, with four panels on the same time axis:
 *
 *  response  percentiles on a logarithmic scale, the target dashed
 *  rates     offered, admitted, completed
 *  shed      the fraction turned away
 *  control   the reports of the law of the first controlled stage, each number as a fraction of its
 *            largest value, which the legend shows
 *
 * A single case has its panels below each other; several cases have them side by side, with the same
 * scales in every row.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "show/chart.h"
#include "sim/report.h"

enum { PANELS = 4 };
enum { RESPONSE, RATES, SHED, CONTROL };

/* ---- from numbers to points ---- */

static unsigned points_of(const weir_record *record)
{
	return weir_chart_points(record->windows);
}

typedef double value_fn(const weir_run *run, unsigned window, unsigned which, unsigned klass);

typedef struct source {
	const weir_run *run;
	value_fn *value;
	unsigned which, klass;
} source;

static double value_at(const void *of, unsigned window)
{
	const source *from = of;
	return from->value(from->run, window, from->which, from->klass);
}

static void fill(weir_chart_line *line, const weir_run *run, value_fn *value, unsigned which, unsigned klass,
		 bool gaps)
{
	source from = {.run = run, .value = value, .which = which, .klass = klass};
	weir_chart_fill(line, run->record->windows, value_at, &from, gaps);
}

static double response(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_sim_window *at = weir_record_at(run->record, window, klass);
	return which == 0 ? at->p50_ms : which == 1 ? at->p90_ms : at->p99_ms;
}

static double rate(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_sim_window *at = weir_record_at(run->record, window, klass);
	double count = which == 0 ? at->offered : which == 1 ? at->offered - at->shed : at->completed;
	return count / ((double)run->scenario->window_ns / 1e9);
}

static double shed(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_sim_window *at = weir_record_at(run->record, window, klass);
	(void)which;
	return at->offered > 0 ? fmin(((double)at->shed + at->dropped) / at->offered, 1) : 0;
}

static double control(const weir_run *run, unsigned window, unsigned which, unsigned trace)
{
	return run->record->trace[trace].value[window][which];
}

/* ---- the panels ---- */

static bool class_used(const weir_run *run, unsigned klass)
{
	return run->record->klass[klass].offered > 0;
}

static void add_targets(weir_chart *on, const weir_run *run)
{
	char name[64], time[32];
	double last = 0;
	for (unsigned k = 0; k < run->record->options.classes; k++) {
		double target_ms = (double)run->target_ns[k] / 1e6;
		if (target_ms == 0 || target_ms == last || !class_used(run, k))
			continue;
		last = target_ms;
		snprintf(name, sizeof name, "target p%g = %s", run->quantile * 100,
			 weir_chart_time_label(target_ms, time, sizeof time));
		weir_chart_level(weir_chart_add(on, name), target_ms);
	}
}

static void make_response(weir_chart *on, const weir_run *run)
{
	static const char *const names[] = {"p50", "p90", "p99"};
	char name[32];
	on->title = "response time";
	on->log = true;
	for (unsigned i = 0; run->record->options.classes == 1 && i < 3; i++)
		fill(weir_chart_add(on, names[i]), run, response, i, WEIR_CLASSES, true);
	for (unsigned k = 0; run->record->options.classes > 1 && k < run->record->options.classes; k++) {
		snprintf(name, sizeof name, "p90, class %u", k);
		if (class_used(run, k))
			fill(weir_chart_add(on, name), run, response, 1, k, true);
	}
	add_targets(on, run);
}

static void make_rates(weir_chart *on, const weir_run *run)
{
	static const char *const names[] = {"offered", "admitted", "completed"};
	on->title = "requests a second";
	for (unsigned i = 0; i < 3; i++)
		fill(weir_chart_add(on, names[i]), run, rate, i, WEIR_CLASSES, false);
}

static void make_shed(weir_chart *on, const weir_run *run)
{
	char name[32];
	on->title = "fraction turned away";
	on->high = 1;
	if (run->record->options.classes == 1)
		fill(weir_chart_add(on, "all"), run, shed, 0, WEIR_CLASSES, false);
	for (unsigned k = 0; run->record->options.classes > 1 && k < run->record->options.classes; k++) {
		snprintf(name, sizeof name, "class %u", k);
		if (class_used(run, k))
			fill(weir_chart_add(on, name), run, shed, 0, k, false);
	}
}

static double most_of(const weir_chart_line *line, unsigned points)
{
	double most = 0;
	for (unsigned i = 0; i < points; i++)
		most = fmax(most, fabs(line->value[i]));
	return most;
}

/* Milliseconds per unit of a name's suffix ("wait_limit_ns"); 0: it is no time. */
static double unit_of(const char *name, size_t *ret_length)
{
	static const struct {
		const char *suffix;
		double ms;
	} units[] = {{"_ns", 1e-6}, {"_us", 1e-3}, {"_ms", 1}, {"_s", 1e3}};
	size_t length = strlen(name);
	bool rate = length > 6 && strcmp(name + length - 6, "_per_s") == 0;
	for (size_t i = 0; !rate && i < sizeof units / sizeof *units; i++) {
		size_t end = strlen(units[i].suffix);
		*ret_length = length - end;
		if (length > end && strcmp(name + length - end, units[i].suffix) == 0)
			return units[i].ms;
	}
	*ret_length = length;
	return 0;
}

/* Scaled by its own largest value, so that numbers of any unit fit on one panel. */
static void add_scaled(weir_chart *on, const weir_run *run, unsigned trace, unsigned which)
{
	const weir_law_trace *of = &run->record->trace[trace];
	unsigned points = points_of(run->record);
	char time[32];
	size_t length;
	double ms = unit_of(of->name[which], &length);
	weir_chart_line *line = weir_chart_add(on, of->name[which]);
	fill(line, run, control, which, trace, false);
	double most = most_of(line, points);
	for (unsigned i = 0; i < points && most > 0; i++)
		line->value[i] /= most;
	if (which == WEIR_TRACE_MEASURED)
		snprintf(line->name, sizeof line->name, "measured, to %s",
			 weir_chart_time_label(most, time, sizeof time));
	else if (ms > 0)
		snprintf(line->name, sizeof line->name, "%.*s, to %s", (int)(length < 32 ? length : 32),
			 of->name[which], weir_chart_time_label(most * ms, time, sizeof time));
	else
		snprintf(line->name, sizeof line->name, "%.32s, to %.*g%s", of->name[which],
			 most < 1e6 ? 4 : 3, most, which == WEIR_TRACE_RATE ? "/s" : "");
}

static unsigned names_of(const weir_law_trace *trace)
{
	unsigned names = 0;
	for (unsigned v = 0; v < WEIR_TRACE_VALUES; v++)
		names += trace->name[v] != NULL;
	return names;
}

/* Uses the first stage whose law reports something, and its highest class in use. */
static void make_control(weir_chart *on, const weir_run *run)
{
	unsigned trace = 0, traces = run->record->options.traces;
	on->title = "the controller (each as a fraction of its largest value)";
	on->high = 1;
	while (trace < traces && (names_of(&run->record->trace[trace]) == 0 ||
				  !class_used(run, run->record->trace[trace].klass)))
		trace++;
	for (unsigned v = 0; trace < traces && v < WEIR_TRACE_VALUES && on->count < WEIR_CHART_COLOURS; v++) {
		const char *name = run->record->trace[trace].name[v];
		/* A quality that is always the best is not worth a line. */
		bool dull = v == WEIR_TRACE_QUALITY;
		for (unsigned w = 0; dull && w < run->record->windows; w++)
			dull = control(run, w, v, trace) == 1;
		if (name != NULL && !dull)
			add_scaled(on, run, trace, v);
	}
	for (unsigned i = 0; i < on->count; i++)
		for (unsigned j = 0; j < points_of(run->record); j++)
			on->low = fmin(on->low, on->line[i].value[j]);
}

/* ---- the page ---- */

static void make_panels(weir_chart *panels, const weir_run *run)
{
	make_response(&panels[RESPONSE], run);
	make_rates(&panels[RATES], run);
	make_shed(&panels[SHED], run);
	make_control(&panels[CONTROL], run);
	for (unsigned i = 0; i < PANELS; i++)
		weir_chart_range(&panels[i], points_of(run->record));
}

/* The same scales in every row, with a little room above the highest value. */
static void share_ranges(weir_chart (*rows)[PANELS], unsigned count)
{
	for (unsigned p = 0; p < PANELS; p++) {
		double low = INFINITY, high = 0;
		for (unsigned i = 0; i < count; i++) {
			low = fmin(low, rows[i][p].low);
			high = fmax(high, rows[i][p].high);
		}
		if (rows[0][p].log) {
			high *= 1.3;
			low = fmax(low / 1.3, high / 1e6);
		} else if (p == RATES) {
			high *= 1.05;
		}
		for (unsigned i = 0; i < count; i++) {
			rows[i][p].low = low;
			rows[i][p].high = high;
		}
	}
}

static void draw_panel(FILE *to, const weir_chart *on, const weir_chart_frame *in, const weir_run *run)
{
	double mark_s[WEIR_RECORD_PHASES];
	weir_chart_times times = {.seconds = (double)run->scenario->duration_ns / 1e9,
				  .points = points_of(run->record),
				  .mark_s = mark_s};
	/* Marks where the scenario changes something. */
	for (unsigned i = 1; i < run->record->phases; i++)
		mark_s[times.marks++] = (double)run->record->phase[i].from_ns / 1e9;
	weir_chart_draw(to, on, in, &times);
}

static void draw_one(FILE *to, weir_chart *panels, const weir_run *run)
{
	for (unsigned p = 0; p < PANELS; p++) {
		weir_chart_frame in = {.x = 70, .y = 92 + 205 * p, .w = 860, .h = 135};
		weir_chart_text(to, 14, in.y - 34, "start", "head", panels[p].title);
		draw_panel(to, &panels[p], &in, run);
	}
}

static void draw_rows(FILE *to, weir_chart (*rows)[PANELS], const weir_case *cases, unsigned count)
{
	for (unsigned p = 0; p < PANELS; p++)
		weir_chart_text(to, 64 + 380 * p, 50, "start", "head",
				p == CONTROL ? "the controller" : rows[0][p].title);
	for (unsigned i = 0; i < count; i++)
		for (unsigned p = 0; p < PANELS; p++) {
			weir_chart_frame in = {.x = 64 + 380 * p, .y = 112 + 190 * i, .w = 310, .h = 110};
			if (p == 0)
				weir_chart_text(to, 14, in.y - 34, "start", "head", cases[i].label);
			draw_panel(to, &rows[i][p], &in, cases[i].run[0]);
		}
}

void weir_plot(FILE *to, const weir_case *cases, unsigned count)
{
	const weir_scenario *scenario = cases[0].run[0]->scenario;
	char title[WEIR_SCENARIO_VALUE + 80];
	weir_chart(*rows)[PANELS] = weir_mem_array(count, sizeof *rows);
	if (rows == NULL)
		return;
	for (unsigned i = 0; i < count; i++)
		make_panels(rows[i], cases[i].run[0]);
	share_ranges(rows, count);
	snprintf(title, sizeof title, "%s%s%s", scenario->title[0] != '\0' ? scenario->title : scenario->path,
		 count == 1 ? " — " : "", count == 1 ? cases[0].label : "");
	weir_chart_open(to, count == 1 ? 950 : 1540, count == 1 ? 880 : 72 + 190 * count, title);
	if (count == 1)
		draw_one(to, rows[0], cases[0].run[0]);
	else
		draw_rows(to, rows, cases, count);
	fputs("</svg>\n", to);
	weir_mem_free(rows);
}
