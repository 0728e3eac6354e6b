/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_DEGRADE_H
#define WEIR_CONTROL_DEGRADE_H

/*
 * A quality factor beside a law that holds a target by admission: what a service that can degrade should
 * deliver, so that fewer requests are shed, or none. It is computed from the law's use of its room: the
 * waiting work as a part of what the target allows (1: the next one is shed).
 *
 * It only observes: no decision of a law depends on it. A service that ignores it is controlled as if it
 * did not exist.
 *
 * A pure state machine, one per class. One thread steps it at the law's ticks; any thread may read the
 * factor.
 */

#include <stdatomic.h>

#define WEIR_QUALITY_LEAST 0.1 /* default minimum */

typedef struct weir_degrade {
	double room;  /* room used, smoothed */
	double drift; /* the integral part: the logarithm of a factor, 0 or less */
	_Atomic double factor;
} weir_degrade;

typedef struct weir_degrade_sample {
	double interval_s;
	double target_s; /* how long a queue that fits the target takes to fill or drain */
	double least;    /* minimum of the factor */
	double room;     /* room used: waiting over what may wait; 1 or more if something was shed */
} weir_degrade_sample;

void weir_degrade_init(weir_degrade *degrade);
void weir_degrade_step(weir_degrade *degrade, const weir_degrade_sample *sample);

static inline double weir_degrade_factor(const weir_degrade *degrade)
{
	return atomic_load_explicit(&degrade->factor, memory_order_relaxed);
}

#endif
