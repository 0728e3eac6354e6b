/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dist.h"

#include <math.h>

const char *weir_dist_name(weir_dist_kind kind)
{
	static const char *const names[WEIR_DIST_KINDS] = {"deterministic", "exponential", "bimodal",
							   "lognormal", "pareto"};
	return kind < WEIR_DIST_KINDS ? names[kind] : NULL;
}

static double or_else(double given, double usual)
{
	return given != 0 ? given : usual;
}

/* The distribution with its default shape parameters filled in. */
static weir_dist whole(const weir_dist *dist)
{
	weir_dist d = *dist;
	d.share = or_else(d.share, 0.1);
	d.factor = or_else(d.factor, 10);
	d.sigma = or_else(d.sigma, 1.5);
	d.alpha = or_else(d.alpha, 1.1);
	d.ratio = or_else(d.ratio, 1000);
	return d;
}

double weir_dist_draw(const weir_dist *dist, weir_random *random)
{
	weir_dist d = whole(dist);
	switch (d.kind) {
	case WEIR_DIST_EXPONENTIAL:
		return weir_random_exponential(random, d.mean);
	case WEIR_DIST_BIMODAL:
		return weir_random_bimodal(random, d.mean, d.share, d.factor);
	case WEIR_DIST_LOGNORMAL:
		return weir_random_lognormal(random, d.mean, d.sigma);
	case WEIR_DIST_PARETO:
		return weir_random_pareto(random, d.mean, d.alpha, d.ratio);
	default:
		return d.mean;
	}
}

/*
 * The quantile of the normal distribution, by bisection of its distribution function: exact enough, and
 * rarely used.
 */
static double normal_quantile(double q)
{
	double low = -10, high = 10;
	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;
		if (0.5 * erfc(-middle / sqrt(2)) < q)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* The k-th moment of a Pareto on [1, ratio]. */
static double pareto_moment(double alpha, double ratio, double k)
{
	double scale = alpha / (1 - pow(ratio, -alpha));
	return alpha == k ? scale * log(ratio) : scale * (pow(ratio, k - alpha) - 1) / (k - alpha);
}

static double pareto_quantile(const weir_dist *d, double q)
{
	double low = d->mean / pareto_moment(d->alpha, d->ratio, 1);
	return low * pow(1 - q * (1 - pow(d->ratio, -d->alpha)), -1 / d->alpha);
}

static double bimodal_small(const weir_dist *d)
{
	return d->mean / (1 - d->share + d->share * d->factor);
}

double weir_dist_quantile(const weir_dist *dist, double q)
{
	weir_dist d = whole(dist);
	switch (d.kind) {
	case WEIR_DIST_EXPONENTIAL:
		return -d.mean * log(1 - q);
	case WEIR_DIST_BIMODAL:
		return bimodal_small(&d) * (q <= 1 - d.share ? 1 : d.factor);
	case WEIR_DIST_LOGNORMAL:
		return d.mean * exp(d.sigma * normal_quantile(q) - d.sigma * d.sigma / 2);
	case WEIR_DIST_PARETO:
		return pareto_quantile(&d, q);
	default:
		return d.mean;
	}
}

static double pareto_below(const weir_dist *d, double value)
{
	double low = d->mean / pareto_moment(d->alpha, d->ratio, 1);
	if (value < low)
		return 0;
	return fmin((1 - pow(low / value, d->alpha)) / (1 - pow(d->ratio, -d->alpha)), 1);
}

double weir_dist_below(const weir_dist *dist, double value)
{
	weir_dist d = whole(dist);
	if (!(value > 0))
		return 0;
	switch (d.kind) {
	case WEIR_DIST_EXPONENTIAL:
		return 1 - exp(-value / d.mean);
	case WEIR_DIST_BIMODAL:
		return value < bimodal_small(&d) ? 0 : value < bimodal_small(&d) * d.factor ? 1 - d.share : 1;
	case WEIR_DIST_LOGNORMAL:
		return 0.5 * erfc(-(log(value / d.mean) / d.sigma + d.sigma / 2) / sqrt(2));
	case WEIR_DIST_PARETO:
		return pareto_below(&d, value);
	default:
		return value < d.mean ? 0 : 1;
	}
}

double weir_dist_second_moment(const weir_dist *dist)
{
	weir_dist d = whole(dist);
	double small = bimodal_small(&d) / d.mean;
	switch (d.kind) {
	case WEIR_DIST_EXPONENTIAL:
		return 2;
	case WEIR_DIST_BIMODAL:
		return small * small * (1 - d.share + d.share * d.factor * d.factor);
	case WEIR_DIST_LOGNORMAL:
		return exp(d.sigma * d.sigma);
	case WEIR_DIST_PARETO:
		return pareto_moment(d.alpha, d.ratio, 2) / pow(pareto_moment(d.alpha, d.ratio, 1), 2);
	default:
		return 1;
	}
}
