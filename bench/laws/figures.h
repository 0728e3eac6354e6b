/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_FIGURES_H
#define WEIR_BENCH_FIGURES_H

/* What the tables of the papers' figures are made of: columns, each a law with its settings. */

#include "laws/papers.h"

/* A column: a law and its settings. "-": none. */
typedef struct figure_column {
	const char *title, *law, *settings;
	bool front;     /* one law before all stages */
	bool pool;      /* all stages on one pool, as by default in the applications */
	bool one_class; /* users are not told apart */
	bool by_class;  /* queues are in order of class */
} figure_column;

/* The column's law; a wrong setting ends the program. */
void figure_choose(const figure_column *column, law_choice *ret_law);
/* How many of them there are, without the last ones if this build has not their law. */
size_t figure_present(const figure_column *columns, size_t count);
/* The head of a table: what the rows are, the paper, the columns. */
void figure_head(const char *first, const figure_column *columns, size_t count, const char *paper);
/* What the columns are. */
void figure_settings(const figure_column *columns, size_t count);
double figure_lowest(const double *values, int from, int to);

/* figures_page.c */
void figure_12(void);
void figure_seda(void);

#endif
