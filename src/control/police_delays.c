/* SPDX-License-Identifier: Apache-2.0 */
#include "control/police_delays.h"

#include <math.h>

/* Times from 1 us to about 1000 s. */
#define TAIL_FROM_LN 6.9077552789821368
#define TAIL_STEP_LN (20.723265836946411 / (WEIR_DELAYS_TAIL - 1))
#define NS           1e9
#define VISITS_MOST  256  /* terms of the sum over l that are computed; with more, one stands for several */
#define TAIL_LEAST   1e-6 /* a tail below this is 0 */
#define MORE         1.3  /* while places are free, fewer become free: visits drop more often, as simulated */
#define LENGTHEN     1.25
#define LENGTHENINGS 16
#define HALVINGS     24
#define AIM          .9 /* of epsilon: the walk is an approximation, too */

void weir_delays_service(weir_delays_model *model, unsigned klass, const weir_times_sum *times)
{
	for (unsigned i = 0; i < WEIR_DELAYS_TAIL; i++)
		model->tail[klass][i] = weir_times_above(times, TAIL_FROM_LN + TAIL_STEP_LN * i);
}

static double tail_of(const weir_delays_model *model, unsigned klass, double seconds)
{
	double at = (log(seconds * NS) - TAIL_FROM_LN) / TAIL_STEP_LN;
	if (!(at > 0))
		return 1;
	unsigned below = at < WEIR_DELAYS_TAIL - 1 ? (unsigned)at : WEIR_DELAYS_TAIL - 1;
	if (below >= WEIR_DELAYS_TAIL - 1)
		return 0;
	const double *tail = &model->tail[klass][below];
	return tail[0] + (tail[1] - tail[0]) * (at - below);
}

/* ---- as it is written ---- */

/* The longest time that a request of the class holds its place. */
static double longest_s(const weir_delays_model *model, unsigned klass)
{
	unsigned last = WEIR_DELAYS_TAIL - 1;
	while (last > 0 && model->tail[klass][last - 1] <= TAIL_LEAST)
		last--;
	return model->places * exp(TAIL_FROM_LN + TAIL_STEP_LN * last) / NS;
}

/* Visits of the class that may have admitted somebody who is still there; one is looked at per stride. */
static unsigned visits_back(const weir_delays_model *model, unsigned klass, double delay_s,
			    double *ret_stride)
{
	double visits = ceil(longest_s(model, klass) / fmax(delay_s, 1e-6));
	*ret_stride = fmax(visits / VISITS_MOST, 1);
	return (unsigned)ceil(visits / *ret_stride);
}

/* Of class j at one visit: somebody waits, and nobody more important does. */
static double admitted(const weir_delays_model *model, const double *delay_s, unsigned j)
{
	double exponent = 0;
	for (unsigned h = 0; h < j; h++)
		exponent += model->rate[h] * delay_s[h];
	return (1 - exp(-model->rate[j] * delay_s[j])) * (1 - model->p_drop) * exp(-exponent);
}

double weir_delays_as_written(const weir_delays_model *model, const double *delay_s, unsigned klass)
{
	double present = 0;
	for (unsigned j = klass + 1; j < model->classes; j++) {
		double stride, sum = 0;
		unsigned visits = visits_back(model, j, delay_s[j], &stride);
		for (unsigned l = 1; l <= visits; l++)
			sum += stride * tail_of(model, j, l * stride * delay_s[j] / model->places);
		present += admitted(model, delay_s, j) * sum;
	}
	return (1 - exp(-model->rate[klass] * delay_s[klass])) * model->p_drop * present;
}

/* ---- as it is held ---- */

/* Requests of the class and those above, per second. */
static double above(const weir_delays_model *model, unsigned klass)
{
	double sum = 0;
	for (unsigned h = 0; h <= klass; h++)
		sum += model->rate[h];
	return sum;
}

/* The probability that a visit of a less important class takes all places. */
static double filled_below(const weir_delays_model *model, unsigned klass)
{
	double most = 0;
	for (unsigned j = klass + 1; j < model->classes; j++)
		most = fmax(most, model->filled[j]);
	return most;
}

/* The highest point of a walk that goes up and down at these rates, expected after so long. */
static double excess(double up, double down, double seconds)
{
	double even = sqrt(2 * (up + down) * seconds / M_PI);
	double drift = fabs(down - up), bound = drift > 0 ? fmin(up, down) / drift : INFINITY;
	return fmin(even, bound);
}

static double chance(const weir_delays_model *model, unsigned klass, double next_s)
{
	double comes = model->rate[klass] * next_s, filled = filled_below(model, klass);
	if (!(comes > 0))
		return model->rate[klass] > 0 ? filled : 0;
	return filled * fmin(excess(above(model, klass), model->freed, next_s) / comes, 1);
}

/* More requests come than places become free. Poisson numbers are taken as normal, and whole. */
static double short_of(double up, double down, double seconds)
{
	return .5 * erfc(((down - up) * seconds + .5) / sqrt((up + down) * seconds) / M_SQRT2);
}

/* Of the visits after one of a less important class, those that drop somebody. */
static double visit(const weir_delays_model *model, unsigned klass, double own_s, double next_s)
{
	double up = above(model, klass), drops = 0, visits = own_s > 0 ? fmax(next_s / own_s, 1) : 0;
	if (!(up > 0 && visits > 0))
		return 0;
	for (unsigned m = 1; m <= fmin(visits, VISITS_MOST); m++)
		drops += short_of(up, model->freed, m * own_s);
	return filled_below(model, klass) * fmin(MORE * drops / visits, 1);
}

double weir_delays_chance(const weir_delays_model *model, const double *delay_s, unsigned klass)
{
	return klass + 1 < model->classes ? chance(model, klass, delay_s[klass + 1]) : 0;
}

double weir_delays_visit(const weir_delays_model *model, const double *delay_s, unsigned klass)
{
	bool judged_with_others = klass > 0 && klass + 1 < model->classes;
	return judged_with_others ? visit(model, klass, delay_s[klass], delay_s[klass + 1]) : 0;
}

static double either(const weir_delays_model *model, unsigned klass, double own_s, double next_s)
{
	return fmax(chance(model, klass, next_s), klass > 0 ? visit(model, klass, own_s, next_s) : 0);
}

/* Both fall as the delay grows, so it is found by halving. */
static double shortest_s(const weir_delays_model *model, unsigned klass, double own_s, double epsilon,
			 double most_s)
{
	double low = own_s, high = most_s;
	if (either(model, klass, own_s, low) < epsilon)
		return low;
	for (unsigned i = 0; i < HALVINGS; i++) {
		double middle = (low + high) / 2;
		*(either(model, klass, own_s, middle) < epsilon ? &high : &low) = middle;
	}
	return high;
}

static double worst_as_written(const weir_delays_model *model, const double *delay_s)
{
	double worst = 0;
	for (unsigned k = 0; k < model->classes; k++)
		worst = fmax(worst, weir_delays_as_written(model, delay_s, k));
	return worst;
}

/* Longer delays for all classes, until the equations as written hold, too. */
static void lengthen(const weir_delays_model *model, double epsilon, double most_s, double *delay_s)
{
	for (unsigned i = 0; i < LENGTHENINGS && worst_as_written(model, delay_s) >= epsilon; i++)
		for (unsigned k = 0; k < WEIR_CLASSES; k++)
			delay_s[k] = fmin(delay_s[k] * LENGTHEN, most_s);
}

double weir_delays_solve(const weir_delays_model *model, double epsilon, double most_s,
			 double ret_delay_s[WEIR_CLASSES])
{
	double delay_s = 0, largest = 0;
	ret_delay_s[0] = 0;
	for (unsigned k = 0; k + 1 < WEIR_CLASSES; k++) {
		if (k + 1 < model->classes) {
			double own_s = delay_s;
			delay_s = shortest_s(model, k, own_s, AIM * epsilon, most_s);
			largest = fmax(largest, either(model, k, own_s, delay_s));
		}
		ret_delay_s[k + 1] = delay_s;
	}
	if (model->places > 0)
		lengthen(model, epsilon, most_s, ret_delay_s);
	return largest;
}
