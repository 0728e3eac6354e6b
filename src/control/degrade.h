/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_DEGRADE_H
#define WEIR_CONTROL_DEGRADE_H

/*
 * A quality factor beside a law that holds a target by admission: what a service that can do its work worse should deliver, so that nobody, or
 * fewer, need be turned away. Made of how short of room the law is: what waits as a part of what the target allows (1: the next one is shed).
 *
 * It looks and does not touch: no decision of a law depends on it. A service that does not heed it is controlled as if it were not there.
 *
 * A pure state machine, one a class. Stepped at the law's ticks by one thread; the factor is read by any.
 */

#include <stdatomic.h>

#define WEIR_QUALITY_LEAST 0.1 /* where nobody said otherwise */

typedef struct weir_degrade {
	double room;  /* taken, smoothed */
	double drift; /* what it has come to: the logarithm of a factor, 0 or less */
	_Atomic double factor;
} weir_degrade;

typedef struct weir_degrade_sample {
	double interval_s;
	double target_s; /* how long a queue that fits the target takes to fill or drain */
	double least;    /* no factor is lower */
	double room;     /* taken: waiting over what may wait; 1 or more where something was shed */
} weir_degrade_sample;

void weir_degrade_init(weir_degrade *degrade);
void weir_degrade_step(weir_degrade *degrade, const weir_degrade_sample *sample);

static inline double weir_degrade_factor(const weir_degrade *degrade)
{
	return atomic_load_explicit(&degrade->factor, memory_order_relaxed);
}

#endif
