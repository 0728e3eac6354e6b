/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SHOW_CHART_H
#define WEIR_SHOW_CHART_H

/*
 * Line charts over time as an SVG, for a page or a README, on a light or dark background: the background
 * is transparent, and the greys follow the reader's colour scheme.
 *
 * The same numbers give the same bytes. Threads: any, each with its own charts. Write errors are left to
 * the stream (ferror).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { WEIR_CHART_POINTS = 480, WEIR_CHART_LINES = 8, WEIR_CHART_COLOURS = 6 };

typedef struct weir_chart_line {
	char name[64];
	double value[WEIR_CHART_POINTS];
	bool gaps;   /* 0 means that there is no value */
	bool dashed; /* a reference, not a measurement: grey */
} weir_chart_line;

/* One panel. */
typedef struct weir_chart {
	const char *title;
	bool log; /* for times in ms */
	double low, high;
	unsigned count;
	weir_chart_line line[WEIR_CHART_LINES];
} weir_chart;

typedef struct weir_chart_frame {
	double x, y, w, h;
} weir_chart_frame;

/* The time axis: points spread evenly over some seconds, with marks where something changed. */
typedef struct weir_chart_times {
	double seconds;
	unsigned points;
	const double *mark_s;
	unsigned marks;
} weir_chart_times;

/* Adds a line to a panel; beyond WEIR_CHART_LINES it returns the last one again. */
weir_chart_line *weir_chart_add(weir_chart *on, const char *name);
/* The number of points for this many values. */
unsigned weir_chart_points(unsigned count);
typedef double weir_chart_value(const void *of, unsigned at);
/*
 * If there are more values than points: the worst of those that fall together if there may be gaps, else
 * their mean.
 */
void weir_chart_fill(weir_chart_line *line, unsigned count, weir_chart_value *value, const void *of,
		     bool gaps);
/* The same value everywhere, dashed. */
void weir_chart_level(weir_chart_line *line, double value);
/* Sets low and high from the lowest and highest value, if they are not given. */
void weir_chart_range(weir_chart *on, unsigned points);
/* "20ms"; returns text. */
const char *weir_chart_time_label(double ms, char *text, size_t size);

/* Begins the page with its title; end it with "</svg>". */
void weir_chart_open(FILE *to, double width, double height, const char *title);
/* Anchor: start, middle, end. Style: head, tick, legend. */
void weir_chart_text(FILE *to, double x, double y, const char *anchor, const char *style, const char *text);
/* Lines, axes, marks, and the legend above. */
void weir_chart_draw(FILE *to, const weir_chart *on, const weir_chart_frame *in,
		     const weir_chart_times *times);

#endif
