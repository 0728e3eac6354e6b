/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_CHART_H
#define WEIR_SHOW_CHART_H

/*
 * Lines over time as an SVG written by hand, for a page or a README, on light or dark ground: nothing is painted behind, and the greys change with the reader's scheme.
 *
 * The same numbers give the same bytes. Threads: any, each with its own. Writing errors are the stream's (ferror).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { WEIR_CHART_POINTS = 480, WEIR_CHART_LINES = 8, WEIR_CHART_COLOURS = 6 };

typedef struct weir_chart_line {
	char name[64];
	double value[WEIR_CHART_POINTS];
	bool gaps;   /* 0 is not a value */
	bool dashed; /* a mark, not a measurement: grey */
} weir_chart_line;

/* One panel. */
typedef struct weir_chart {
	const char *title;
	bool log; /* of times in ms */
	double low, high;
	unsigned count;
	weir_chart_line line[WEIR_CHART_LINES];
} weir_chart;

typedef struct weir_chart_frame {
	double x, y, w, h;
} weir_chart_frame;

/* What is along: points spread evenly over some seconds, with marks where something changed. */
typedef struct weir_chart_times {
	double seconds;
	unsigned points;
	const double *mark_s;
	unsigned marks;
} weir_chart_times;

/* A new line of a panel; beyond WEIR_CHART_LINES the last one again. */
weir_chart_line *weir_chart_add(weir_chart *on, const char *name);
/* How many points so many values are drawn as. */
unsigned weir_chart_points(unsigned count);
typedef double weir_chart_value(const void *of, unsigned at);
/* Where there are more values than points: the worst of those that fall together if there may be gaps, else their mean. */
void weir_chart_fill(weir_chart_line *line, unsigned count, weir_chart_value *value, const void *of,
		     bool gaps);
/* The same value everywhere, dashed. */
void weir_chart_level(weir_chart_line *line, double value);
/* From the lowest value to the highest, where low and high are not given. */
void weir_chart_range(weir_chart *on, unsigned points);
/* "20ms"; returns text. */
const char *weir_chart_time_label(double ms, char *text, size_t size);

/* The page begins with its title; it is ended by "</svg>". */
void weir_chart_open(FILE *to, double width, double height, const char *title);
/* Anchor: start, middle, end. Style: head, tick, legend. */
void weir_chart_text(FILE *to, double x, double y, const char *anchor, const char *style, const char *text);
/* Lines, axes, marks, and the legend above. */
void weir_chart_draw(FILE *to, const weir_chart *on, const weir_chart_frame *in,
		     const weir_chart_times *times);

#endif
