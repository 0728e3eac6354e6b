/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_POLICE_DELAYS_H
#define WEIR_CONTROL_POLICE_DELAYS_H

/*
 * How long the classes should wait for their visits: the analysis of Cataclysm, section 3.4.
 *
 * The model is a server with N places. An admitted request holds its place for N times its service time.
 * Class 0 is judged as it comes, class i every d_i. A request is dropped if all places are taken. A_i is the
 * event that a visit of class i drops a request while a request of a less important class holds a place. The
 * paper has
 *
 *  Pr(A_i) = Pr(X_i) p_drop Pr(Z_i)                 (8)
 *  Pr(X_i) = 1 - exp(-rate_i d_i)                   (9)   somebody waits for the visit
 *  Pr(Z_i) = sum over j > i and over l >= 1 of      (10)  a less important request is in service, which
 *      (1 - exp(-rate_j d_j))                       (11)  waited for the l-th visit of j before this one,
 *    x (1 - p_drop) prod over h < j of exp(-rate_h d_h)   (13)  was admitted there
 *    x (1 - F_j(l d_j / N))                         (12)  and is not yet done
 *
 * That is weir_delays_as_written. It is off in four ways, as the tests of this module measure:
 *  1. The sum over l is the expected number of such visits and may exceed 1.
 *  2. Pr(X_i) is 0 for d_i = 0. So delays of 0 meet any bound, and class 0 is never protected.
 *  3. (13) keeps out class j if a single more important request waits, though many places may be free.
 *  4. p_drop is taken as independent of the visits. But a visit of a less important class is what fills the
 *     places: until others become free, whoever comes next is dropped. In the simulated system Pr(A_i) is
 *     2 to 50 times what (8) says.
 *
 * So the delays are solved for what the simulation shows. A visit of class i + 1 or below takes all free
 * places, with a measured probability p (the largest of these classes). From then on places become free at a
 * rate C, and requests of class i and above come at a rate L. How many of them are dropped until the next
 * such visit, d_(i+1) later, is the highest point of a random walk that goes up at rate L and down at rate C,
 * with the expected value
 *
 *  E = r / (1 - r), r = L / C, and at most sqrt(2 (C + L) d_(i+1) / pi), where the walk has no drift
 *
 * (If L > C, the walk is of the free places, r = C / L, and E is what a visit gives to less important ones.)
 * Two probabilities are held below epsilon:
 *  chance  of a request of class i to be dropped for a less important one: p E / (rate_i d_(i+1))
 *  Pr(A_i) of a visit, i > 0: p times the mean, over the d_(i+1) / d_i visits between two of less important
 *          classes, of the probability that more requests came since then than places became free
 *
 * Then the equations as written are made to hold, too, by longer delays for all.
 *
 * Both fall as d_(i+1) grows, and both are 0 if nothing is dropped. So delays are 0 while there is capacity.
 *
 * Pure functions; any thread.
 */

#include <weir/law.h>

#include "control/times.h"

#define WEIR_DELAYS_TAIL 64

typedef struct weir_delays_model {
	unsigned classes;          /* those in use, the most important first; at most WEIR_CLASSES */
	double rate[WEIR_CLASSES]; /* arrivals per second */
	double tail[WEIR_CLASSES][WEIR_DELAYS_TAIL]; /* 1 - F at times spaced evenly by their logarithm */
	/* probability that a visit of the class (without a delay: an arrival) leaves all places taken */
	double filled[WEIR_CLASSES];
	/* for the equations as written: p_drop and N; 0 places: they are not looked at */
	double p_drop, places;
	double freed; /* C: places that become free per second while all are taken */
} weir_delays_model;

/* Sets the service times of a class. */
void weir_delays_service(weir_delays_model *model, unsigned klass, const weir_times_sum *times);
/* Pr(A_i) by equations (8) to (13) as they are written. It may exceed 1. */
double weir_delays_as_written(const weir_delays_model *model, const double *delay_s, unsigned klass);
/* The probability that a request of the class is dropped for a less important one. */
double weir_delays_chance(const weir_delays_model *model, const double *delay_s, unsigned klass);
/* Pr(A_i): that a visit of the class drops a request while a less important one is in service. */
double weir_delays_visit(const weir_delays_model *model, const double *delay_s, unsigned klass);
/*
 * The smallest delays with both below epsilon for every class: 0 for the first class, each of the others at
 * least that of the class above, none above most_s. A visit of a class must begin with those above it.
 * Returns the largest of all probabilities: at least epsilon if most_s does not suffice.
 */
double weir_delays_solve(const weir_delays_model *model, double epsilon, double most_s,
			 double ret_delay_s[WEIR_CLASSES]);

#endif
