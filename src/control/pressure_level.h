/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_PRESSURE_LEVEL_H
#define WEIR_CONTROL_PRESSURE_LEVEL_H

/*
 * The pressure of a resource: none up to `from`, then rising to `most` at `full`. It rises at once. It
 * falls by release_per_s, and four times slower while the value is only just below `from`, so that a
 * value on the edge does not switch shedding on and off. It always falls in the end: a value may stay
 * there without any load causing it.
 */

typedef struct weir_level_params {
	double from, full, most;
	double release_per_s;
} weir_level_params;

/* The level after interval_s at this value. A value that is negative or NaN is unknown, and gives level 0. */
double weir_level_step(double level, const weir_level_params *params, double value, double interval_s);

#endif
