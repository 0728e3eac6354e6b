/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pressure_level.h"

#define EDGE 0.25 /* width of the band below `from`, as a part of full - from; at most half of `from` */
#define SLOW 0.25

double weir_level_step(double level, const weir_level_params *params, double value, double interval_s)
{
	double width = params->full - params->from;
	if (!(value >= 0))
		return 0;
	double asked = value > params->from ? (value - params->from) / width * params->most : 0;
	if (asked > params->most)
		asked = params->most;
	double edge = params->from - EDGE * width;
	if (edge < params->from / 2)
		edge = params->from / 2;
	double rate = value < edge ? params->release_per_s : SLOW * params->release_per_s;
	double released = level - rate * (interval_s > 0 ? interval_s : 0);
	return released > asked ? released : asked;
}
