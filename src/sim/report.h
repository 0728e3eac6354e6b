/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_REPORT_H
#define WEIR_SIM_REPORT_H

/*
 * Reports of runs for people and programs: a table, JSON, CSV, a plot. A case is one item of a comparison
 * (a law), run once or with several seeds; all cases are of the same scenario.
 *
 * The same runs give the same bytes. Threads: one at a time; no globals. Write errors are left to the
 * stream (ferror).
 */

#include <stdio.h>

#include "sim/run.h"

typedef struct weir_case {
	const char *label;
	weir_run **run; /* one or more: the same scenario, one per seed */
	unsigned runs;
} weir_case;

/*
 * For people, at most 100 columns wide. A single case is shown in full, several cases as one row each;
 * with several seeds the mean and the worst.
 */
void weir_report_table(FILE *to, const weir_case *cases, unsigned count);
/* Everything, as one object. -ENOMEM. */
int weir_report_json(FILE *to, const weir_case *cases, unsigned count);
/*
 * The windows, one per row. The laws' own reports are included only if there is one case, because other
 * laws have other columns.
 */
void weir_report_csv(FILE *to, const weir_case *cases, unsigned count);
/*
 * An SVG: response times, rates, shed fraction and the controller over time; the first seed of each case,
 * in a row of its own.
 */
void weir_plot(FILE *to, const weir_case *cases, unsigned count);
/* Lists the laws with their parameters. */
void weir_report_laws(FILE *to);

/* The mean and the worst value of a metric over a case's runs. */
double weir_case_mean(const weir_case *of, const weir_sim_metric *metric);
double weir_case_worst(const weir_case *of, const weir_sim_metric *metric);

#endif
