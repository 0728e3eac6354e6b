/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_PRESSURE_LEVEL_H
#define WEIR_CONTROL_PRESSURE_LEVEL_H

/*
 * How much a resource presses: nothing up to `from`, then more and more up to `most` at `full`. Up at once; down by release_per_s, and four
 * times slower while the value is only just below `from`, so that a value on the edge does not switch shedding on and off.
 * Never held for good: a value may stay there without any load causing it.
 */

typedef struct weir_level_params {
	double from, full, most;
	double release_per_s;
} weir_level_params;

/* The level after interval_s at this value; less than 0, or not a number: unknown, which presses nothing. */
double weir_level_step(double level, const weir_level_params *params, double value, double interval_s);

#endif
