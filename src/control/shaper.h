/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_SHAPER_H
#define WEIR_CONTROL_SHAPER_H

/*
 * A token bucket whose rate and depth change while it is in use, for the laws that control a rate. Like
 * `bucket`, it keeps the time at which it will be full again. Unlike there, a token takes a whole number
 * of sixteenths of a ns, so a rate is accurate to 0.1 % (at ten million per second; far better below).
 *
 * A change keeps the fill level, as a fraction of the depth: an empty bucket stays empty, and an event
 * that would have had to wait 20 s for its token at the lowest rate waits only as long as the new rate
 * requires.
 *
 * Threads: any number at once may call take, refund and wait_ns; one at a time calls set. A take that
 * coincides with a set may use the old rate once.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_SHAPER_RATE_MIN 1e-3
#define WEIR_SHAPER_RATE_MAX 1e7

typedef struct weir_shaper {
	_Atomic uint64_t token;   /* time per token, in sixteenths of a ns */
	_Atomic uint64_t depth;   /* time to fill the bucket, in the same units */
	_Atomic uint64_t full_at; /* in the same units */
} weir_shaper;

/* Starts full. depth: tokens, at least 1. */
void weir_shaper_init(weir_shaper *shaper, double rate_per_s, double depth);
void weir_shaper_set(weir_shaper *shaper, double rate_per_s, double depth, uint64_t now_ns);
/* Takes count tokens, or none of them. */
bool weir_shaper_take(weir_shaper *shaper, uint32_t count, uint64_t now_ns);
void weir_shaper_refund(weir_shaper *shaper, uint32_t count);
/* How long until there are count tokens, if nobody else takes any; 0: now, or never at this depth. */
uint64_t weir_shaper_wait_ns(const weir_shaper *shaper, uint32_t count, uint64_t now_ns);

#endif
