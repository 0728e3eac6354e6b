/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xoshiro256** (Blackman, Vigna), seeded by splitmix64. The distributions use only +, -, *, / and sqrt,
 * whose results IEEE 754 defines to the last bit. Logarithm and exponential are our own, because those of
 * C libraries differ between machines, and a simulation that differs in one bit soon differs completely.
 */
#include <math.h>

#include <weir/random.h>

#include "base/mix.h"

static const double ln2 = 0.693147180559945309417;

static uint64_t rotate_left(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

void weir_random_init(weir_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		random->s[i] = weir_mix(seed += WEIR_MIX_STEP);
}

uint64_t weir_random_u64(weir_random *random)
{
	uint64_t *s = random->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t weir_random_below(weir_random *random, uint64_t bound)
{
	/*
	 * The high half of a product is uniform, once the few low halves that would occur once too often
	 * are rejected.
	 */
	if (bound == 0)
		return 0;
	uint64_t excess = -bound % bound;
	for (;;) {
		unsigned __int128 product = (unsigned __int128)weir_random_u64(random) * bound;
		if ((uint64_t)product >= excess)
			return (uint64_t)(product >> 64);
	}
}

double weir_random_unit(weir_random *random)
{
	return (double)(weir_random_u64(random) >> 11) * 0x1p-53;
}

/* ln x for x > 0: x = m 2^e with m around 1, and ln m = 2 artanh((m - 1) / (m + 1)). */
static double natural_log(double x)
{
	int exponent;
	double m = frexp(x, &exponent);
	if (m < 0.70710678118654752) {
		m *= 2;
		exponent--;
	}
	double z = (m - 1) / (m + 1), square = z * z, sum = 0;
	for (int k = 21; k >= 1; k -= 2)
		sum = sum * square + 1.0 / k;
	return 2 * z * sum + exponent * ln2;
}

/* e^x: x = n ln 2 + r with a small r, and the series for e^r. */
static double exponential(double x)
{
	if (x > 709)
		x = 709;
	if (x < -745)
		return 0;
	double n = floor(x / ln2 + 0.5), r = x - n * ln2, sum = 1;
	for (int k = 14; k >= 1; k--)
		sum = 1 + sum * r / k;
	return ldexp(sum, (int)n);
}

double weir_random_exponential(weir_random *random, double mean)
{
	return mean * -natural_log(1 - weir_random_unit(random));
}

/* Marsaglia's polar method. The second number is discarded: a generator has no other state. */
double weir_random_normal(weir_random *random)
{
	for (;;) {
		double x = 2 * weir_random_unit(random) - 1, y = 2 * weir_random_unit(random) - 1;
		double square = x * x + y * y;
		if (square > 0 && square < 1)
			return x * sqrt(-2 * natural_log(square) / square);
	}
}

double weir_random_lognormal(weir_random *random, double mean, double sigma)
{
	return mean * exponential(sigma * weir_random_normal(random) - sigma * sigma / 2);
}

/* (1 - e^-x) / x, which approaches 1 at 0. */
static double decay(double x)
{
	if (fabs(x) < 1e-4)
		return 1 - x / 2 + x * x / 6;
	return (1 - exponential(-x)) / x;
}

/*
 * With l = ln ratio, the mean of the bounded Pareto distribution on [low, ratio low] is
 *  low (alpha / (alpha - 1)) (1 - ratio^(1 - alpha)) / (1 - ratio^-alpha)
 *   = low decay((alpha - 1) l) / decay(alpha l)
 * which also holds, as a limit, if alpha is 1 or 0.
 */
double weir_random_pareto(weir_random *random, double mean, double alpha, double ratio)
{
	double u = weir_random_unit(random);
	if (!(ratio > 1))
		return mean;
	double l = natural_log(ratio), a = alpha * l;
	double low = mean * decay(a) / decay(a - l);
	if (fabs(a) < 1e-9)
		return low * exponential(u * l);
	/* The inverse of the distribution function, in logarithms. */
	return low * exponential(-natural_log(1 - u * (1 - exponential(-a))) / alpha);
}

double weir_random_bimodal(weir_random *random, double mean, double large_share, double large_factor)
{
	double small = mean / (1 - large_share + large_share * large_factor);
	return weir_random_unit(random) < large_share ? small * large_factor : small;
}
