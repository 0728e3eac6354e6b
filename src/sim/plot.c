/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plot: an SVG written by hand, for a page or a README, on light or dark ground: nothing is painted behind, and the greys change with
 * the reader's scheme. A row for each case, four panels on the same time axis:
 *
 *	response  percentiles on a logarithmic scale, the target dashed
 *	rates     offered, admitted, completed
 *	shed      the fraction turned away
 *	control   what the law of the first controlled stage says of itself, each number as a fraction of its largest value, which the legend tells
 *
 * One case has its panels below each other, several have them side by side, with the same scales in every row.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/report.h"

enum { POINTS = 480, SERIES = 8, PANELS = 4, COLOURS = 6 };
enum { RESPONSE, RATES, SHED, CONTROL };

typedef struct series {
	char name[64];
	double value[POINTS];
	bool gaps;   /* 0 is not a value */
	bool dashed; /* a mark, not a measurement: grey */
} series;

typedef struct panel {
	const char *title;
	bool log;
	double low, high;
	unsigned count;
	series line[SERIES];
} panel;

typedef struct frame {
	double x, y, w, h;
} frame;

/* ---- numbers to points ---- */

static unsigned points_of(const weir_record *record)
{
	return record->windows < POINTS ? record->windows : POINTS;
}

typedef double value_fn(const weir_run *run, unsigned window, unsigned which, unsigned klass);

/* Where there are more windows than points: the worst of those that fall together, or their mean. */
static void fill(series *line, const weir_run *run, value_fn *value, unsigned which, unsigned klass,
		 bool gaps)
{
	unsigned points = points_of(run->record), windows = run->record->windows;
	line->gaps = gaps;
	for (unsigned i = 0; i < points; i++) {
		unsigned from = (unsigned)((uint64_t)i * windows / points),
			 to = (unsigned)((uint64_t)(i + 1) * windows / points);
		double sum = 0, most = 0;
		for (unsigned w = from; w < to; w++) {
			double one = value(run, w, which, klass);
			sum += one;
			most = fmax(most, one);
		}
		line->value[i] = gaps ? most : sum / (to - from);
	}
}

static series *add(panel *on, const char *name)
{
	series *line = &on->line[on->count < SERIES ? on->count++ : SERIES - 1];
	snprintf(line->name, sizeof line->name, "%s", name);
	return line;
}

static double response(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_window *at = weir_record_at(run->record, window, klass);
	return which == 0 ? at->p50_ms : which == 1 ? at->p90_ms : at->p99_ms;
}

static double rate(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_window *at = weir_record_at(run->record, window, klass);
	double count = which == 0 ? at->offered : which == 1 ? at->offered - at->shed : at->completed;
	return count / ((double)run->scenario->window_ns / 1e9);
}

static double shed(const weir_run *run, unsigned window, unsigned which, unsigned klass)
{
	const weir_window *at = weir_record_at(run->record, window, klass);
	(void)which;
	return at->offered > 0 ? fmin(((double)at->shed + at->dropped) / at->offered, 1) : 0;
}

static double control(const weir_run *run, unsigned window, unsigned which, unsigned trace)
{
	return run->record->trace[trace].value[window][which];
}

/* ---- the panels ---- */

static const char *time_label(double ms, char *text, size_t size)
{
	if (ms < 0.9995)
		snprintf(text, size, "%.4gus", ms * 1e3);
	else if (ms < 999.5)
		snprintf(text, size, "%.4gms", ms);
	else
		snprintf(text, size, "%.4gs", ms / 1e3);
	return text;
}

static bool class_used(const weir_run *run, unsigned klass)
{
	return run->record->klass[klass].offered > 0;
}

static void add_targets(panel *on, const weir_run *run)
{
	char name[64], time[32];
	double last = 0;
	for (unsigned k = 0; k < run->record->options.classes; k++) {
		double target_ms = (double)run->target_ns[k] / 1e6;
		if (target_ms == 0 || target_ms == last || !class_used(run, k))
			continue;
		last = target_ms;
		snprintf(name, sizeof name, "target p%g = %s", run->quantile * 100,
			 time_label(target_ms, time, sizeof time));
		series *line = add(on, name);
		line->dashed = true;
		for (unsigned i = 0; i < POINTS; i++)
			line->value[i] = target_ms;
	}
}

static void make_response(panel *on, const weir_run *run)
{
	static const char *const names[] = {"p50", "p90", "p99"};
	char name[32];
	on->title = "response time";
	on->log = true;
	for (unsigned i = 0; run->record->options.classes == 1 && i < 3; i++)
		fill(add(on, names[i]), run, response, i, WEIR_CLASSES, true);
	for (unsigned k = 0; run->record->options.classes > 1 && k < run->record->options.classes; k++) {
		snprintf(name, sizeof name, "p90, class %u", k);
		if (class_used(run, k))
			fill(add(on, name), run, response, 1, k, true);
	}
	add_targets(on, run);
}

static void make_rates(panel *on, const weir_run *run)
{
	static const char *const names[] = {"offered", "admitted", "completed"};
	on->title = "requests a second";
	for (unsigned i = 0; i < 3; i++)
		fill(add(on, names[i]), run, rate, i, WEIR_CLASSES, false);
}

static void make_shed(panel *on, const weir_run *run)
{
	char name[32];
	on->title = "fraction turned away";
	on->high = 1;
	if (run->record->options.classes == 1)
		fill(add(on, "all"), run, shed, 0, WEIR_CLASSES, false);
	for (unsigned k = 0; run->record->options.classes > 1 && k < run->record->options.classes; k++) {
		snprintf(name, sizeof name, "class %u", k);
		if (class_used(run, k))
			fill(add(on, name), run, shed, 0, k, false);
	}
}

static double most_of(const series *line, unsigned points)
{
	double most = 0;
	for (unsigned i = 0; i < points; i++)
		most = fmax(most, fabs(line->value[i]));
	return most;
}

/* Milliseconds in the unit that a name ends with ("wait_limit_ns"); 0: it is no time. */
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
static void add_scaled(panel *on, const weir_run *run, unsigned trace, unsigned which)
{
	const weir_law_trace *of = &run->record->trace[trace];
	unsigned points = points_of(run->record);
	char time[32];
	size_t length;
	double ms = unit_of(of->name[which], &length);
	series *line = add(on, of->name[which]);
	fill(line, run, control, which, trace, false);
	double most = most_of(line, points);
	for (unsigned i = 0; i < points && most > 0; i++)
		line->value[i] /= most;
	if (which == WEIR_TRACE_MEASURED)
		snprintf(line->name, sizeof line->name, "measured, to %s",
			 time_label(most, time, sizeof time));
	else if (ms > 0)
		snprintf(line->name, sizeof line->name, "%.*s, to %s", (int)(length < 32 ? length : 32),
			 of->name[which], time_label(most * ms, time, sizeof time));
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

/* Of the first stage with a law that says something, its highest class in use. */
static void make_control(panel *on, const weir_run *run)
{
	unsigned trace = 0, traces = run->record->options.traces;
	on->title = "the controller (each as a fraction of its largest value)";
	on->high = 1;
	while (trace < traces && (names_of(&run->record->trace[trace]) == 0 ||
				  !class_used(run, run->record->trace[trace].klass)))
		trace++;
	for (unsigned v = 0; trace < traces && v < WEIR_TRACE_VALUES && on->count < COLOURS; v++) {
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

static void find_range(panel *on, unsigned points)
{
	double low = INFINITY, high = 0;
	for (unsigned i = 0; i < on->count; i++)
		for (unsigned j = 0; j < points; j++) {
			double value = on->line[i].value[j];
			high = fmax(high, value);
			if (value > 0)
				low = fmin(low, value);
		}
	if (on->high == 0)
		on->high = high > 0 ? high : 1;
	if (on->log)
		on->low = isfinite(low) ? low : on->high / 10;
}

/* ---- drawing ---- */

static void escape(FILE *to, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", to);
			break;
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			fputc(*text, to);
		}
	}
}

static void text_at(FILE *to, double x, double y, const char *anchor, const char *style, const char *text)
{
	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, style);
	escape(to, text);
	fputs("</text>\n", to);
}

static void line_at(FILE *to, double x1, double y1, double x2, double y2, const char *style)
{
	fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2,
		style);
}

static double place(const panel *on, const frame *in, double value)
{
	double part = on->log ? (log(value) - log(on->low)) / (log(on->high) - log(on->low))
			      : (value - on->low) / (on->high - on->low);
	part = fmin(fmax(part, 0), 1);
	return in->y + in->h * (1 - part);
}

/* 1, 2 or 5 times a power of ten: about so many steps in the range. */
static double nice_step(double range, double steps)
{
	double rough = range / steps, power = pow(10, floor(log10(rough)));
	double step = rough / power;
	return power * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10);
}

static void y_mark(FILE *to, const panel *on, const frame *in, double value)
{
	char text[32];
	double y = place(on, in, value);
	line_at(to, in->x, y, in->x + in->w, y, "grid");
	if (on->log)
		time_label(value, text, sizeof text);
	else
		snprintf(text, sizeof text, "%.4g", value);
	text_at(to, in->x - 5, y + 3.5, "end", "tick", text);
}

static void y_marks(FILE *to, const panel *on, const frame *in)
{
	if (!on->log) {
		double step = nice_step(on->high - on->low, in->h / 35);
		for (double value = ceil(on->low / step - 1e-9) * step; value <= on->high * (1 + 1e-9);
		     value += step)
			y_mark(to, on, in, fabs(value) < step / 1e6 ? 0 : value);
		return;
	}
	static const double parts[] = {1, 2, 5};
	unsigned each = log10(on->high / on->low) < 2 ? 3 : 1;
	for (double power = pow(10, floor(log10(on->low))); power <= on->high; power *= 10)
		for (unsigned i = 0; i < each; i++)
			if (power * parts[i] >= on->low * (1 - 1e-9) &&
			    power * parts[i] <= on->high * (1 + 1e-9))
				y_mark(to, on, in, power * parts[i]);
}

static void x_marks(FILE *to, const weir_run *run, const frame *in, bool labels)
{
	double seconds = (double)run->scenario->duration_ns / 1e9, step = nice_step(seconds, in->w / 70);
	char text[32];
	for (unsigned i = 0; i * step <= seconds * (1 + 1e-9); i++) {
		double x = in->x + in->w * i * step / seconds;
		line_at(to, x, in->y + in->h, x, in->y + in->h + 4, "axis");
		snprintf(text, sizeof text, "%gs", i * step);
		if (labels)
			text_at(to, x, in->y + in->h + 15, "middle", "tick", text);
	}
	/* Where the scenario changes something. */
	for (unsigned i = 1; i < run->record->phases; i++) {
		double x = in->x +
			   in->w * (double)run->record->phase[i].from_ns / (double)run->scenario->duration_ns;
		line_at(to, x, in->y, x, in->y + in->h, "phase");
	}
}

static void draw_line(FILE *to, const panel *on, const frame *in, const series *line, unsigned points,
		      unsigned colour)
{
	bool pen_down = false;
	if (line->dashed)
		fputs("<path class=\"target\" d=\"", to);
	else
		fprintf(to, "<path class=\"s s%u\" d=\"", colour % COLOURS);
	for (unsigned i = 0; i < points; i++) {
		if (line->gaps && line->value[i] <= 0) {
			pen_down = false;
			continue;
		}
		double x = in->x + in->w * (i + 0.5) / points;
		fprintf(to, "%c%.1f %.1f", pen_down ? 'L' : 'M', x, place(on, in, line->value[i]));
		pen_down = true;
	}
	fputs("\"/>\n", to);
}

/* Above the panel, as many in a line as fit. */
static void draw_legend(FILE *to, const panel *on, const frame *in)
{
	double x = in->x, y = in->y - 6;
	unsigned lines = 1;
	double widths = 0;
	for (unsigned i = 0; i < on->count; i++) {
		double width = 26 + 5.9 * (double)strlen(on->line[i].name);
		if (widths + width > in->w && widths > 0) {
			lines++;
			widths = 0;
		}
		widths += width;
	}
	y -= 13 * (lines - 1);
	for (unsigned i = 0; i < on->count; i++) {
		const series *line = &on->line[i];
		double width = 26 + 5.9 * (double)strlen(line->name);
		char style[16];
		if (x + width > in->x + in->w && x > in->x) {
			x = in->x;
			y += 13;
		}
		snprintf(style, sizeof style, "s s%u", i % COLOURS);
		line_at(to, x, y - 3.5, x + 14, y - 3.5, line->dashed ? "target" : style);
		text_at(to, x + 18, y, "start", "legend", line->name);
		x += width;
	}
}

static void draw_panel(FILE *to, const panel *on, const frame *in, const weir_run *run, bool labels)
{
	y_marks(to, on, in);
	x_marks(to, run, in, labels);
	line_at(to, in->x, in->y, in->x, in->y + in->h, "axis");
	line_at(to, in->x, in->y + in->h, in->x + in->w, in->y + in->h, "axis");
	for (unsigned i = 0; i < on->count; i++)
		draw_line(to, on, in, &on->line[i], points_of(run->record), i);
	draw_legend(to, on, in);
	if (on->count == 0)
		text_at(to, in->x + in->w / 2, in->y + in->h / 2, "middle", "legend", "nothing is reported");
}

/* ---- the page ---- */

static void open_page(FILE *to, double width, double height, const char *title)
{
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
		"%.0f\" role=\"img\">\n"
		"<title>",
		width, height, width, height);
	escape(to, title);
	fputs("</title>\n<style>\n"
	      "text { font-family: system-ui, sans-serif; font-size: 11px; fill: #6e7781; }\n"
	      ".title { font-size: 15px; font-weight: 600; } .head { font-size: 12px; font-weight: 600; }\n"
	      ".axis { stroke: #818b98; } .grid { stroke: #818b98; stroke-opacity: .25; }\n"
	      ".phase { stroke: #818b98; stroke-opacity: .6; stroke-dasharray: 1 3; }\n"
	      ".target { stroke: #818b98; fill: none; stroke-width: 1.5; stroke-dasharray: 6 4; }\n"
	      ".s { fill: none; stroke-width: 1.5; stroke-linejoin: round; }\n"
	      ".s0 { stroke: #2f81d7; } .s1 { stroke: #e08600; } .s2 { stroke: #2da160; }\n"
	      ".s3 { stroke: #d1495b; } .s4 { stroke: #9a6dd7; } .s5 { stroke: #17a2b0; }\n"
	      "@media (prefers-color-scheme: dark) { text { fill: #aab4bf; } }\n"
	      "</style>\n",
	      to);
	text_at(to, 14, 24, "start", "title", title);
}

static void make_panels(panel *panels, const weir_run *run)
{
	make_response(&panels[RESPONSE], run);
	make_rates(&panels[RATES], run);
	make_shed(&panels[SHED], run);
	make_control(&panels[CONTROL], run);
	for (unsigned i = 0; i < PANELS; i++)
		find_range(&panels[i], points_of(run->record));
}

/* The same scales in every row; a little room above the highest. */
static void share_ranges(panel (*rows)[PANELS], unsigned count)
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

static void draw_one(FILE *to, panel *panels, const weir_run *run)
{
	for (unsigned p = 0; p < PANELS; p++) {
		frame in = {.x = 70, .y = 92 + 205 * p, .w = 860, .h = 135};
		text_at(to, 14, in.y - 34, "start", "head", panels[p].title);
		draw_panel(to, &panels[p], &in, run, true);
	}
}

static void draw_rows(FILE *to, panel (*rows)[PANELS], const weir_case *cases, unsigned count)
{
	for (unsigned p = 0; p < PANELS; p++)
		text_at(to, 64 + 380 * p, 50, "start", "head",
			p == CONTROL ? "the controller" : rows[0][p].title);
	for (unsigned i = 0; i < count; i++)
		for (unsigned p = 0; p < PANELS; p++) {
			frame in = {.x = 64 + 380 * p, .y = 112 + 190 * i, .w = 310, .h = 110};
			if (p == 0)
				text_at(to, 14, in.y - 34, "start", "head", cases[i].label);
			draw_panel(to, &rows[i][p], &in, cases[i].run[0], true);
		}
}

void weir_plot(FILE *to, const weir_case *cases, unsigned count)
{
	const weir_scenario *scenario = cases[0].run[0]->scenario;
	char title[WEIR_SCENARIO_VALUE + 80];
	panel(*rows)[PANELS] = weir_mem_array(count, sizeof *rows);
	if (rows == NULL)
		return;
	for (unsigned i = 0; i < count; i++)
		make_panels(rows[i], cases[i].run[0]);
	share_ranges(rows, count);
	snprintf(title, sizeof title, "%s%s%s", scenario->title[0] != '\0' ? scenario->title : scenario->path,
		 count == 1 ? " — " : "", count == 1 ? cases[0].label : "");
	open_page(to, count == 1 ? 950 : 1540, count == 1 ? 880 : 72 + 190 * count, title);
	if (count == 1)
		draw_one(to, rows[0], cases[0].run[0]);
	else
		draw_rows(to, rows, cases, count);
	fputs("</svg>\n", to);
	weir_mem_free(rows);
}
