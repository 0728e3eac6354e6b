/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RANDOM_H
#define WEIR_RANDOM_H

/*
 * Seeded random numbers and the distributions used in queueing. Not for secrets. The same seed gives the
 * same numbers on every machine. A generator may be used by one thread at a time.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_random {
	uint64_t s[4]; /* xoshiro256** */
} weir_random;

/* Prepares a generator. The same seed gives the same numbers. */
WEIR_API void weir_random_init(weir_random *random, uint64_t seed);
/* 64 random bits. */
WEIR_API uint64_t weir_random_u64(weir_random *random);
/* Uniform in [0, bound), without bias; 0 when bound is 0. */
WEIR_API uint64_t weir_random_below(weir_random *random, uint64_t bound);
/* Uniform in [0, 1). */
WEIR_API double weir_random_unit(weir_random *random);
/* Exponential with this mean. */
WEIR_API double weir_random_exponential(weir_random *random, double mean);
/* Normal with mean 0 and deviation 1. */
WEIR_API double weir_random_normal(weir_random *random);
/* Lognormal with this mean; sigma is that of the underlying normal distribution. */
WEIR_API double weir_random_lognormal(weir_random *random, double mean, double sigma);
/* Pareto with shape alpha, bounded to [low, ratio * low], scaled to this mean. */
WEIR_API double weir_random_pareto(weir_random *random, double mean, double alpha, double ratio);
/* `large_share` of the values are `large_factor` times the others; scaled to this mean. */
WEIR_API double weir_random_bimodal(weir_random *random, double mean, double large_share,
				    double large_factor);

#ifdef __cplusplus
}
#endif
#endif
