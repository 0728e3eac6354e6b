/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OLD_DRAIN_H
#define WEIR_OLD_DRAIN_H

/*
 * How fast a backend drains a queue before it: answers over time, counted only while it was saturated. Otherwise the number says how much was
 * asked for, not how much could have been done, and a queue bounded by it would shrink with the load.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_drain {
	double time_ns, answers; /* fading */
} weir_drain;

/*
 * One stretch of saturated time. least_ns: so much time, and about a hundred answers, is remembered.
 */
void weir_drain_saw(weir_drain *drain, uint64_t interval_ns, uint32_t answers, uint64_t least_ns);
/* Starts from what is known otherwise: by Little's law, or from an earlier run. */
void weir_drain_assume(weir_drain *drain, double time_per_answer_ns);
/* 0: not known. */
double weir_drain_time_ns(const weir_drain *drain);

#endif
