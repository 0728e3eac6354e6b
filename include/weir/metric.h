/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_METRIC_H
#define WEIR_METRIC_H

/*
 * Metrics: numbers that a module counts, as rows of a table. The module that counts owns the table.
 * `/metrics`, the JSON API and the live page walk it, so a new counter is one row and the place where it is
 * counted.
 *
 *	typedef struct page_counts { uint64_t hits; uint64_t open; } page_counts;
 *
 *	static const weir_metric metrics[] = {
 *		{"hits", WEIR_METRIC_COUNTER, offsetof(page_counts, hits), "Pages found in memory."},
 *		{"open", WEIR_METRIC_GAUGE, offsetof(page_counts, open), "Pages being written now."},
 *		{0},
 *	};
 *
 * Tables are constant and live as long as the process.
 */

#include <stddef.h>
#include <weir/base.h>

/* Of the struct that a table describes, at most. */
#define WEIR_SHOWN_BYTES 512

typedef enum weir_metric_type {
	WEIR_METRIC_COUNTER, /* uint64_t; its name in /metrics ends with _total */
	WEIR_METRIC_GAUGE,   /* uint64_t */
	WEIR_METRIC_NUMBER,  /* double */
	WEIR_METRIC_SUM,     /* double that only grows; its name in /metrics ends with _total */
	WEIR_METRIC_TIME,    /* uint64_t, ns; "latency_ns" is latency_seconds in /metrics */
	WEIR_METRIC_TEXT,    /* const char *; shown by the API only; in the first row, a label in /metrics */
} weir_metric_type;

typedef struct weir_metric {
	const char *name; /* in the API; in /metrics the owner's prefix comes before it */
	weir_metric_type type;
	size_t offset;    /* in the owner's struct */
	const char *help; /* one sentence */
} weir_metric;

#endif
