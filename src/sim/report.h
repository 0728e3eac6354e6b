/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_REPORT_H
#define WEIR_SIM_REPORT_H

/*
 * What people and programs get to see of runs: a table, JSON, CSV, a plot. A case is one thing that is compared (a law), run once or over several
 * seeds; all cases are of the same scenario.
 *
 * The same runs give the same bytes. Threads: one at a time; no globals. Writing errors are the stream's (ferror).
 */

#include <stdio.h>

#include "sim/run.h"

typedef struct weir_case {
	const char *label;
	weir_run **run; /* one or more: the same scenario, seed after seed */
	unsigned runs;
} weir_case;

/* For people, at most 100 columns wide: one case in full, several cases a row each; with several seeds the mean and the worst. */
void weir_report_table(FILE *to, const weir_case *cases, unsigned count);
/* Everything, as one object. -ENOMEM. */
int weir_report_json(FILE *to, const weir_case *cases, unsigned count);
/* The windows, one a row; what the laws said of themselves only where there is one case, as others have other columns. */
void weir_report_csv(FILE *to, const weir_case *cases, unsigned count);
/* An SVG: response times, rates, shed fraction and the controller over time; of each case the first seed, in a row of its own. */
void weir_plot(FILE *to, const weir_case *cases, unsigned count);
/* The laws there are, with their parameters. */
void weir_report_laws(FILE *to);

/* The mean and the worst value of a metric over a case's runs. */
double weir_case_mean(const weir_case *of, const weir_sim_metric *metric);
double weir_case_worst(const weir_case *of, const weir_sim_metric *metric);

#endif
