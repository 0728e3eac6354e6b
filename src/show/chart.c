/* SPDX-License-Identifier: Apache-2.0 */
#include "show/chart.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- from numbers to points ---- */

weir_chart_line *weir_chart_add(weir_chart *on, const char *name)
{
	weir_chart_line *line = &on->line[on->count < WEIR_CHART_LINES ? on->count++ : WEIR_CHART_LINES - 1];
	snprintf(line->name, sizeof line->name, "%s", name);
	return line;
}

unsigned weir_chart_points(unsigned count)
{
	return count < WEIR_CHART_POINTS ? count : WEIR_CHART_POINTS;
}

void weir_chart_fill(weir_chart_line *line, unsigned count, weir_chart_value *value, const void *of,
		     bool gaps)
{
	unsigned points = weir_chart_points(count);
	line->gaps = gaps;
	for (unsigned i = 0; i < points; i++) {
		unsigned from = (unsigned)((uint64_t)i * count / points),
			 to = (unsigned)((uint64_t)(i + 1) * count / points);
		double sum = 0, most = 0;
		for (unsigned at = from; at < to; at++) {
			double one = value(of, at);
			sum += one;
			most = fmax(most, one);
		}
		line->value[i] = gaps ? most : sum / (to - from);
	}
}

void weir_chart_level(weir_chart_line *line, double value)
{
	line->dashed = true;
	for (unsigned i = 0; i < WEIR_CHART_POINTS; i++)
		line->value[i] = value;
}

void weir_chart_range(weir_chart *on, unsigned points)
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

const char *weir_chart_time_label(double ms, char *text, size_t size)
{
	if (ms < 0.9995)
		snprintf(text, size, "%.4gus", ms * 1e3);
	else if (ms < 999.5)
		snprintf(text, size, "%.4gms", ms);
	else
		snprintf(text, size, "%.4gs", ms / 1e3);
	return text;
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

void weir_chart_text(FILE *to, double x, double y, const char *anchor, const char *style, const char *text)
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

static double place(const weir_chart *on, const weir_chart_frame *in, double value)
{
	double part = on->log ? (log(value) - log(on->low)) / (log(on->high) - log(on->low))
			      : (value - on->low) / (on->high - on->low);
	part = fmin(fmax(part, 0), 1);
	return in->y + in->h * (1 - part);
}

/* 1, 2 or 5 times a power of ten, so that there are about `steps` steps in the range. */
static double nice_step(double range, double steps)
{
	double rough = range / steps, power = pow(10, floor(log10(rough)));
	double step = rough / power;
	return power * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10);
}

/* Never in the form 1e+04. */
static void count_label(double value, char *text, size_t size)
{
	double least = fabs(value);
	if (least < 9999.5)
		snprintf(text, size, "%.4g", value);
	else if (least < 999.95e3)
		snprintf(text, size, "%.4gk", value / 1e3);
	else if (least < 999.95e6)
		snprintf(text, size, "%.4gM", value / 1e6);
	else
		snprintf(text, size, "%.4gG", value / 1e9);
}

static void y_mark(FILE *to, const weir_chart *on, const weir_chart_frame *in, double value)
{
	char text[32];
	double y = place(on, in, value);
	line_at(to, in->x, y, in->x + in->w, y, "grid");
	if (on->log)
		weir_chart_time_label(value, text, sizeof text);
	else
		count_label(value, text, sizeof text);
	weir_chart_text(to, in->x - 5, y + 3.5, "end", "tick", text);
}

static void even_marks(FILE *to, const weir_chart *on, const weir_chart_frame *in)
{
	double step = nice_step(on->high - on->low, in->h / 35);
	for (double value = ceil(on->low / step - 1e-9) * step; value <= on->high * (1 + 1e-9); value += step)
		y_mark(to, on, in, fabs(value) < step / 1e6 ? 0 : value);
}

/* A logarithmic scale that covers less than a factor of four may contain only one of 1, 2 and 5, or none. */
static void y_marks(FILE *to, const weir_chart *on, const weir_chart_frame *in)
{
	static const double parts[] = {1, 2, 5};
	if (!on->log || on->high / on->low < 4) {
		even_marks(to, on, in);
		return;
	}
	unsigned each = log10(on->high / on->low) < 2 ? 3 : 1;
	for (double power = pow(10, floor(log10(on->low))); power <= on->high; power *= 10)
		for (unsigned i = 0; i < each; i++)
			if (power * parts[i] >= on->low * (1 - 1e-9) &&
			    power * parts[i] <= on->high * (1 + 1e-9))
				y_mark(to, on, in, power * parts[i]);
}

static void x_marks(FILE *to, const weir_chart_frame *in, const weir_chart_times *times)
{
	double seconds = times->seconds, step = nice_step(seconds, in->w / 70);
	char text[32];
	for (unsigned i = 0; i * step <= seconds * (1 + 1e-9); i++) {
		double x = in->x + in->w * i * step / seconds;
		line_at(to, x, in->y + in->h, x, in->y + in->h + 4, "axis");
		snprintf(text, sizeof text, "%gs", i * step);
		weir_chart_text(to, x, in->y + in->h + 15, "middle", "tick", text);
	}
	for (unsigned i = 0; i < times->marks; i++) {
		double x = in->x + in->w * times->mark_s[i] / seconds;
		line_at(to, x, in->y, x, in->y + in->h, "phase");
	}
}

static double x_of(const weir_chart_frame *in, unsigned at, unsigned points)
{
	return in->x + in->w * (at + 0.5) / points;
}

static bool there(const weir_chart_line *line, unsigned at, unsigned points)
{
	return at < points && !(line->gaps && line->value[at] <= 0);
}

static void draw_line(FILE *to, const weir_chart *on, const weir_chart_frame *in, const weir_chart_line *line,
		      unsigned points, unsigned colour)
{
	bool pen_down = false;
	if (line->dashed)
		fputs("<path class=\"target\" d=\"", to);
	else
		fprintf(to, "<path class=\"s s%u\" d=\"", colour % WEIR_CHART_COLOURS);
	for (unsigned i = 0; i < points; i++) {
		if (!there(line, i, points)) {
			pen_down = false;
			continue;
		}
		double x = x_of(in, i, points);
		fprintf(to, "%c%.1f %.1f", pen_down ? 'L' : 'M', x, place(on, in, line->value[i]));
		pen_down = true;
	}
	fputs("\"/>\n", to);
}

/* A point without neighbours does not make a line, so it is drawn as a dot. */
static void draw_dots(FILE *to, const weir_chart *on, const weir_chart_frame *in, const weir_chart_line *line,
		      unsigned points, unsigned colour)
{
	for (unsigned i = 0; i < points; i++)
		if (there(line, i, points) && !there(line, i + 1, points) &&
		    (i == 0 || !there(line, i - 1, points)))
			fprintf(to, "<circle class=\"s s%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
				colour % WEIR_CHART_COLOURS, x_of(in, i, points),
				place(on, in, line->value[i]));
}

/* Above the panel, with as many entries per line as fit. */
static void draw_legend(FILE *to, const weir_chart *on, const weir_chart_frame *in)
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
		const weir_chart_line *line = &on->line[i];
		double width = 26 + 5.9 * (double)strlen(line->name);
		char style[16];
		if (x + width > in->x + in->w && x > in->x) {
			x = in->x;
			y += 13;
		}
		snprintf(style, sizeof style, "s s%u", i % WEIR_CHART_COLOURS);
		line_at(to, x, y - 3.5, x + 14, y - 3.5, line->dashed ? "target" : style);
		weir_chart_text(to, x + 18, y, "start", "legend", line->name);
		x += width;
	}
}

void weir_chart_draw(FILE *to, const weir_chart *on, const weir_chart_frame *in,
		     const weir_chart_times *times)
{
	y_marks(to, on, in);
	x_marks(to, in, times);
	line_at(to, in->x, in->y, in->x, in->y + in->h, "axis");
	line_at(to, in->x, in->y + in->h, in->x + in->w, in->y + in->h, "axis");
	for (unsigned i = 0; i < on->count; i++) {
		draw_line(to, on, in, &on->line[i], times->points, i);
		if (!on->line[i].dashed)
			draw_dots(to, on, in, &on->line[i], times->points, i);
	}
	draw_legend(to, on, in);
	if (on->count == 0)
		weir_chart_text(to, in->x + in->w / 2, in->y + in->h / 2, "middle", "legend",
				"nothing is reported");
}

/* ---- the page ---- */

void weir_chart_open(FILE *to, double width, double height, const char *title)
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
	weir_chart_text(to, 14, 24, "start", "title", title);
}
