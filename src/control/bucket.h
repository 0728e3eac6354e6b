/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_BUCKET_H
#define WEIR_CONTROL_BUCKET_H

/*
 * The token bucket as a component: the law `bucket` is one, `fixed` contains one. Exact at any rate, one
 * atomic word. Any thread.
 *
 * In any period, at most rate x time + burst tokens are taken.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_BUCKET_RATE_MIN 1e-6
#define WEIR_BUCKET_RATE_MAX 1e9

typedef struct weir_bucket {
	/* const after init */
	uint64_t speed;       /* units per ns, times 2^62 */
	uint64_t burst_units; /* how many may be taken at once */
	unsigned token_shift; /* a token is 2^token_shift units */
	/* any thread */
	_Atomic uint64_t full_at; /* in units */
} weir_bucket;

/*
 * The bucket starts full. burst 0: rate / 10, at least 1. -EINVAL, with *ret_wrong saying what is
 * accepted.
 */
int weir_bucket_init(weir_bucket *bucket, double rate_per_s, double burst, const char **ret_wrong);
/* Takes all or nothing. */
bool weir_bucket_take(weir_bucket *bucket, uint64_t now_ns, uint32_t count);
void weir_bucket_give_back(weir_bucket *bucket, uint32_t count);
/* When a take of this many that has just failed will succeed, if nobody else takes any; 0: never. */
uint64_t weir_bucket_retry_ns(const weir_bucket *bucket, uint64_t now_ns, uint32_t count);

#endif
