/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SIM_DIST_H
#define WEIR_SIM_DIST_H

/*
 * Distributions of service and think times for judging the laws: a kind, a mean, and shape parameters
 * whose defaults are the values of the studies. No state: numbers come from the caller's generator.
 */

#include <weir/random.h>

typedef enum weir_dist_kind {
	WEIR_DIST_DETERMINISTIC,
	WEIR_DIST_EXPONENTIAL,
	WEIR_DIST_BIMODAL,   /* a share of the values is a factor larger than the others */
	WEIR_DIST_LOGNORMAL, /* sigma of the underlying normal distribution */
	WEIR_DIST_PARETO,    /* shape alpha; the largest value is `ratio` times the smallest */
	WEIR_DIST_KINDS
} weir_dist_kind;

typedef struct weir_dist {
	weir_dist_kind kind;
	double mean;
	/* 0: the default, as in the studies */
	double share, factor; /* bimodal: .1, 10 */
	double sigma;         /* lognormal: 1.5 */
	double alpha, ratio;  /* Pareto: 1.1, 1000 */
} weir_dist;

/* "deterministic", "exponential", ... */
const char *weir_dist_name(weir_dist_kind kind);
/* Draws one value. */
double weir_dist_draw(const weir_dist *dist, weir_random *random);
/* The value that a fraction q of all values does not exceed, 0 < q < 1. */
double weir_dist_quantile(const weir_dist *dist, double q);
/* The fraction of all values that do not exceed this one. */
double weir_dist_below(const weir_dist *dist, double value);
/* The mean of the squares, over the square of the mean. */
double weir_dist_second_moment(const weir_dist *dist);

#endif
